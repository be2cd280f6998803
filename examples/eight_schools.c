/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 120 of warm-up, 0.01 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 9 %, variance to metric 1.10
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.401      0.050      3.351     -1.175      4.455      9.845      4535      3398   1.001
   tau           3.590      0.050      3.154      0.232      2.733     10.091      4211      2673   1.001
   theta[1]      6.274      0.091      5.730     -1.363      5.678     16.562      4283      3037   1.000
   theta[2]      4.909      0.074      4.872     -2.956      4.966     12.753      4324      3499   1.000
   theta[3]      3.933      0.084      5.226     -4.764      4.237     11.912      4137      3280   1.000
   theta[4]      4.741      0.073      4.733     -2.759      4.678     12.444      4250      3333   1.001
   theta[5]      3.622      0.082      4.786     -5.001      3.937     10.915      3488      3036   0.999
   theta[6]      4.087      0.072      4.783     -3.904      4.312     11.607      4441      3409   1.000
   theta[7]      6.374      0.079      4.942     -0.897      5.948     15.396      3816      3702   1.000
   theta[8]      4.893      0.083      5.230     -3.317      4.867     13.199      4134      3357   1.001
   gradients=5184 divergences=0 warmup_s=0.0033 sampling_s=0.0030
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
