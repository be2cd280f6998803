/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.00 s
   step size 1.37, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 8 %, variance to metric 1.20
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.393      0.055      3.302     -1.261      4.426      9.821      3554      3098   1.003
   tau           3.641      0.055      3.270      0.248      2.799     10.050      3306      3066   1.001
   theta[1]      6.302      0.098      5.876     -1.434      5.646     16.813      3843      3339   1.001
   theta[2]      4.905      0.080      4.834     -2.867      4.918     12.652      3725      3305   1.000
   theta[3]      3.861      0.090      5.182     -4.675      4.220     11.450      3450      3044   1.001
   theta[4]      4.798      0.080      4.723     -2.649      4.743     12.671      3489      3132   1.002
   theta[5]      3.557      0.080      4.728     -4.639      3.830     10.788      3550      3404   1.000
   theta[6]      4.109      0.083      4.796     -4.072      4.300     11.556      3433      3400   1.000
   theta[7]      6.410      0.084      5.001     -0.941      6.021     15.220      3510      3616   1.002
   theta[8]      4.889      0.085      5.230     -3.297      4.866     13.230      3841      3496   1.002
   gradients=10818 divergences=0 warmup_s=0.0022 sampling_s=0.0017
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
