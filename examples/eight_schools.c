/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.01 s
   step size 0.320, low-rank metric, 0 divergences
   sampler HMC: the metric fits: variance to metric 1.46, E-BFMI 0.88, trees span 3.9
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.422      0.055      3.287     -1.062      4.410      9.922      3587      3167   1.001
   tau           3.514      0.068      3.171      0.224      2.639      9.843      1407      1327   1.005
   theta[1]      6.192      0.092      5.716     -1.623      5.578     15.971      4044      3047   1.001
   theta[2]      4.890      0.069      4.733     -2.692      4.837     12.538      4763      3195   1.001
   theta[3]      3.882      0.087      5.260     -4.881      4.277     11.438      3864      3209   1.001
   theta[4]      4.784      0.068      4.679     -2.539      4.734     12.339      4736      3664   1.003
   theta[5]      3.677      0.067      4.531     -4.537      3.969     10.578      4599      3598   1.000
   theta[6]      4.131      0.070      4.780     -4.081      4.330     11.506      4651      3634   1.000
   theta[7]      6.284      0.079      5.020     -0.867      5.805     15.123      4013      3631   1.001
   theta[8]      4.859      0.085      5.346     -3.496      4.730     13.332      4106      3380   1.000
   gradients=29028 divergences=0 warmup_s=0.0045 sampling_s=0.0039
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
