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
   sampler HMC: nearly normal: gradients within 6 %, variance to metric 1.16
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.384      0.049      3.327     -1.162      4.415      9.870      4602      3414   1.002
   tau           3.603      0.049      3.166      0.249      2.763      9.948      4366      3239   1.000
   theta[1]      6.236      0.090      5.732     -1.311      5.587     16.554      4280      3266   1.001
   theta[2]      4.872      0.078      4.836     -2.999      4.907     12.704      4043      2970   1.000
   theta[3]      3.874      0.081      5.204     -5.051      4.132     11.949      4188      3059   1.001
   theta[4]      4.758      0.073      4.805     -2.731      4.659     12.548      4385      3591   1.001
   theta[5]      3.602      0.075      4.753     -4.992      3.890     10.854      3990      3207   1.000
   theta[6]      4.056      0.074      4.860     -4.122      4.316     11.619      4312      3404   1.000
   theta[7]      6.388      0.089      4.981     -0.908      5.920     15.501      3433      2871   1.001
   theta[8]      4.822      0.081      5.237     -3.436      4.750     13.019      4234      3527   1.001
   gradients=6485 divergences=0 warmup_s=0.0033 sampling_s=0.0030
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
