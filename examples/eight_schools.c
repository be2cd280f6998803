/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 360 of warm-up, 0.05 s
   step size 0.346, low-rank metric, 0 divergences
   sampler HMC: the metric fits: variance to metric 1.68, E-BFMI 1.06, trees span 3.8
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.430      0.053      3.338     -1.154      4.388      9.908      3982      3116   1.002
   tau           3.592      0.075      3.227      0.245      2.717     10.181      1313      1273   1.009
   theta[1]      6.268      0.092      5.696     -1.430      5.653     16.191      4146      3440   1.003
   theta[2]      4.942      0.064      4.728     -2.611      4.907     12.538      5429      3391   1.000
   theta[3]      3.882      0.084      5.317     -5.089      4.251     11.628      4325      2896   1.002
   theta[4]      4.848      0.066      4.768     -2.795      4.731     12.495      5227      3495   1.001
   theta[5]      3.692      0.064      4.628     -4.534      3.910     10.660      5217      3849   1.001
   theta[6]      4.138      0.068      4.872     -4.108      4.307     11.464      5253      3509   1.002
   theta[7]      6.354      0.078      4.950     -0.751      5.948     15.470      3935      3648   1.001
   theta[8]      4.870      0.078      5.326     -3.541      4.782     13.348      4773      3297   1.001
   gradients=35988 divergences=0 warmup_s=0.0352 sampling_s=0.0168
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
