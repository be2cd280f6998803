/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.02 s
   step size 0.312, low-rank metric, 0 divergences
   sampler HMC: the metric fits: variance to metric 1.47, E-BFMI 0.98, trees span 3.8
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.412      0.054      3.286     -1.163      4.413      9.894      3674      3397   1.001
   tau           3.518      0.078      3.171      0.230      2.708      9.547      1058       994   1.007
   theta[1]      6.200      0.092      5.658     -1.531      5.624     16.044      3963      3330   1.002
   theta[2]      4.891      0.067      4.702     -2.697      4.815     12.499      4941      3174   1.001
   theta[3]      3.891      0.086      5.248     -4.972      4.291     11.568      3984      2848   1.001
   theta[4]      4.801      0.065      4.608     -2.502      4.729     12.296      4975      3774   1.002
   theta[5]      3.706      0.066      4.547     -4.306      3.986     10.617      4801      3773   1.001
   theta[6]      4.120      0.068      4.783     -4.125      4.376     11.431      5022      3647   1.000
   theta[7]      6.275      0.081      4.944     -0.902      5.857     15.087      3861      3702   1.001
   theta[8]      4.886      0.082      5.281     -3.269      4.742     13.414      4245      3283   1.000
   gradients=29020 divergences=0 warmup_s=0.0072 sampling_s=0.0117
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
