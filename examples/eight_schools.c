/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 180 of warm-up, 0.01 s
   step size 1.85, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 7 %, variance to metric 1.18
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.384      0.053      3.332     -1.175      4.431      9.883      4001      3175   1.001
   tau           3.603      0.050      3.177      0.261      2.753     10.027      4003      3279   1.001
   theta[1]      6.279      0.095      5.676     -1.212      5.624     16.691      3727      3189   1.001
   theta[2]      4.899      0.080      4.850     -2.978      4.853     12.739      3836      2797   1.000
   theta[3]      3.892      0.082      5.184     -4.957      4.155     11.849      3991      3301   1.000
   theta[4]      4.771      0.079      4.828     -2.834      4.673     12.559      3785      3038   1.001
   theta[5]      3.593      0.077      4.761     -4.928      3.876     10.800      3781      3063   1.000
   theta[6]      4.074      0.078      4.863     -4.018      4.362     11.583      3962      3434   1.000
   theta[7]      6.388      0.085      4.940     -0.887      5.955     15.283      3310      3238   1.002
   theta[8]      4.796      0.084      5.216     -3.425      4.740     13.020      3926      3404   1.001
   gradients=6512 divergences=0 warmup_s=0.0031 sampling_s=0.0024
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
