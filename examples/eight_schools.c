/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 110 of warm-up, 0.00 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 4 %, variance to metric 1.16
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.375      0.048      3.340     -1.185      4.422      9.933      4749      3392   1.001
   tau           3.642      0.048      3.240      0.256      2.775     10.156      4612      3398   1.001
   theta[1]      6.268      0.094      5.839     -1.420      5.642     16.721      4235      3584   1.001
   theta[2]      4.902      0.074      4.882     -2.999      4.911     12.864      4405      3755   1.000
   theta[3]      3.833      0.082      5.215     -4.951      4.158     11.674      4233      3340   1.000
   theta[4]      4.734      0.073      4.786     -2.746      4.624     12.504      4385      3656   1.000
   theta[5]      3.630      0.072      4.792     -4.781      3.937     10.940      4436      3775   1.000
   theta[6]      4.022      0.075      4.872     -4.011      4.289     11.557      4283      3558   1.000
   theta[7]      6.354      0.078      4.946     -0.956      5.959     15.345      4024      3715   1.000
   theta[8]      4.891      0.079      5.285     -3.264      4.852     13.225      4452      3684   1.002
   gradients=5166 divergences=0 warmup_s=0.0020 sampling_s=0.0019
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
    const int status = arguments_read(argc, argv, &r, NULL, 0);
    return status != GO_ON ? status : run_model(&r, &model, NULL, 0);
}
