/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.01 s
   step size 0.516, low-rank metric, 0 divergences
   sampler MAMS: the metric fits: variance to metric 1.19, E-BFMI 0.93, trees span 3.6
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.423      0.060      3.267     -0.901      4.474      9.836      2992      3018   1.002
   tau           3.500      0.065      3.016      0.225      2.714      9.665      2033      2621   1.002
   theta[1]      6.166      0.095      5.479     -1.705      5.656     15.765      3424      3026   1.001
   theta[2]      4.906      0.072      4.685     -2.479      4.858     12.333      4249      3529   1.002
   theta[3]      4.010      0.086      5.149     -4.563      4.282     11.797      3568      3268   1.001
   theta[4]      4.826      0.072      4.602     -2.381      4.787     12.214      4124      3628   1.002
   theta[5]      3.640      0.075      4.606     -4.581      3.902     10.564      3881      3567   1.002
   theta[6]      4.107      0.075      4.808     -4.238      4.309     11.611      4144      3329   1.001
   theta[7]      6.304      0.085      5.009     -0.902      5.903     15.349      3475      3337   1.001
   theta[8]      4.796      0.086      5.290     -3.312      4.706     13.106      3821      3154   1.000
   gradients=18715 divergences=0 warmup_s=0.0036 sampling_s=0.0038
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
