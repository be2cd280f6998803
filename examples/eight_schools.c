/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.04 s
   step size 0.341, low-rank metric, 0 divergences
   sampler HMC: the metric fits: variance to metric 1.79, E-BFMI 1.15, trees span 4.1
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.411      0.049      3.293     -1.056      4.366      9.989      4444      3451   1.001
   tau           3.530      0.072      3.200      0.241      2.675      9.875      1285      1271   1.006
   theta[1]      6.191      0.086      5.664     -1.435      5.598     16.000      4712      3604   1.002
   theta[2]      4.890      0.062      4.726     -2.528      4.837     12.590      5940      3296   1.001
   theta[3]      3.906      0.080      5.205     -4.927      4.304     11.485      4498      3165   1.001
   theta[4]      4.753      0.062      4.670     -2.596      4.641     12.411      5808      3775   1.003
   theta[5]      3.695      0.060      4.503     -4.389      3.956     10.535      5646      3822   1.001
   theta[6]      4.135      0.064      4.819     -3.973      4.344     11.562      5657      3779   1.001
   theta[7]      6.302      0.075      4.979     -0.891      5.848     15.185      4422      3702   1.001
   theta[8]      4.832      0.077      5.350     -3.607      4.680     13.487      5118      3591   1.000
   gradients=29010 divergences=0 warmup_s=0.0116 sampling_s=0.0289
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
