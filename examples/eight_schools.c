/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 180 of warm-up, 0.01 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 5 %, variance to metric 1.16
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.374      0.049      3.333     -1.173      4.408      9.850      4575      3434   1.002
   tau           3.578      0.048      3.147      0.254      2.739      9.906      4421      3341   1.000
   theta[1]      6.215      0.089      5.694     -1.320      5.593     16.461      4274      3382   1.001
   theta[2]      4.881      0.077      4.834     -2.984      4.903     12.749      4141      3080   1.000
   theta[3]      3.871      0.079      5.175     -4.943      4.122     11.887      4295      3451   1.000
   theta[4]      4.754      0.073      4.783     -2.752      4.653     12.456      4343      3646   1.002
   theta[5]      3.587      0.075      4.750     -4.861      3.884     10.822      4008      3283   1.000
   theta[6]      4.048      0.074      4.864     -4.135      4.300     11.632      4371      3457   1.000
   theta[7]      6.327      0.083      4.926     -0.929      5.886     15.316      3628      3329   1.002
   theta[8]      4.799      0.080      5.206     -3.427      4.730     12.957      4277      3544   1.001
   gradients=6453 divergences=0 warmup_s=0.0033 sampling_s=0.0030
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
    run r = {0};
    const int status = arguments_read(argc, argv, &r, NULL, 0);
    return status != GO_ON ? status : run_model(&r, &model, NULL, 0);
}
