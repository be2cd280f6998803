/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.00 s
   step size 1.47, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 9 %, variance to metric 1.16
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.433      0.057      3.296     -1.207      4.476      9.860      3354      3122   1.001
   tau           3.629      0.055      3.221      0.246      2.789     10.169      3325      2740   1.001
   theta[1]      6.275      0.097      5.920     -1.480      5.633     16.850      3932      3495   1.001
   theta[2]      4.924      0.082      4.797     -2.789      4.946     12.792      3438      3211   1.000
   theta[3]      3.921      0.090      5.259     -4.706      4.250     11.728      3530      3094   1.001
   theta[4]      4.816      0.076      4.751     -2.512      4.703     12.784      3924      3388   1.002
   theta[5]      3.565      0.082      4.735     -4.792      3.794     10.690      3437      3226   1.001
   theta[6]      4.099      0.079      4.833     -4.046      4.357     11.612      3773      3350   1.000
   theta[7]      6.456      0.087      5.052     -0.935      6.048     15.364      3510      3118   1.001
   theta[8]      4.890      0.090      5.320     -3.492      4.827     13.358      3560      3175   1.000
   gradients=11454 divergences=0 warmup_s=0.0023 sampling_s=0.0016
*/
#define GPUMC_IMPLEMENTATION
#define GPUMC_STATIC     /* one file only: what it does not use is left out, which halves the compile time */
#include "../gpumc.h"
#include "arguments.h"

static const double effect[8] = { 28, 8, -3, 7, -1, 1, 18, 12 };
static const double error[8] = { 15, 10, 16, 11, 9, 11, 10, 18 };

/* In the order of the parameter list below. */
struct schools { double mu, tau, theta[8]; };

static double log_density(const double *x, double *grad, void *data)
{
    const struct schools *p = (const struct schools *)x;
    struct schools *g = (struct schools *)grad;             /* arrives zeroed; densities add to it */
    double lp = gpumc_normal_lpdf(p->mu, 0, 5, &g->mu, NULL, NULL)
              + gpumc_half_cauchy_lpdf(p->tau, 5, &g->tau, NULL);
    (void)data;
    for (int j = 0; j < 8; j++)
        lp += gpumc_normal_lpdf(p->theta[j], p->mu, p->tau, &g->theta[j], &g->mu, &g->tau)
            + gpumc_normal_lpdf(effect[j], p->theta[j], error[j], NULL, &g->theta[j], NULL);
    return lp;
}

int main(int argc, char **argv)
{
    const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 8, .location = "mu", .scale = "tau" },   /* centring is learned */
    };
    const gpumc_model model = { .name = "eight_schools", .params = params, .n_params = 3,
                                .log_density = log_density };
    run r = { .options = { .target_accept = 0.95 } };       /* tau may be near 0: short steps */
    gpumc_fit fit;
    int status = arguments_read(argc, argv, &r, NULL, 0);
    if (status != GO_ON) return status;
    if (run_sample(&r, &model, &fit) == GPUMC_OK) status = run_report(&r, &fit);
    else status = run_ended(&fit);
    gpumc_free(&fit);
    return status;
}
