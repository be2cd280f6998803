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
   sampler HMC: nearly normal: gradients within 6 %, variance to metric 1.17
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.378      0.049      3.336     -1.196      4.409      9.855      4563      3433   1.001
   tau           3.596      0.049      3.185      0.252      2.757     10.031      4114      3099   1.001
   theta[1]      6.220      0.089      5.723     -1.347      5.570     16.436      4247      3510   1.001
   theta[2]      4.872      0.077      4.832     -3.012      4.884     12.638      4112      3000   1.001
   theta[3]      3.876      0.080      5.190     -5.001      4.120     11.850      4227      3461   1.000
   theta[4]      4.752      0.072      4.762     -2.716      4.650     12.496      4420      3468   1.002
   theta[5]      3.593      0.076      4.773     -4.875      3.875     10.822      3987      3255   1.000
   theta[6]      4.051      0.074      4.855     -4.181      4.290     11.651      4392      3548   1.000
   theta[7]      6.358      0.082      4.959     -0.944      5.891     15.282      3698      3294   1.002
   theta[8]      4.808      0.081      5.245     -3.480      4.758     12.960      4256      3512   1.001
   gradients=6166 divergences=0 warmup_s=0.0033 sampling_s=0.0030
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
