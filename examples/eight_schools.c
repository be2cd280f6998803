/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 300 of warm-up, 0.07 s
   step size 0.371, low-rank metric, 0 divergences
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.367      0.055      3.292     -1.088      4.454      9.640      3611      3065   1.001
   tau           3.542      0.060      3.187      0.206      2.695     10.054      1975      1573   1.005
   theta[1]      6.114      0.095      5.628     -1.584      5.547     16.229      3496      3243   1.001
   theta[2]      4.924      0.070      4.667     -2.374      4.918     12.397      4560      3289   1.001
   theta[3]      3.811      0.078      4.997     -4.720      4.141     11.117      4352      3176   1.000
   theta[4]      4.766      0.071      4.693     -2.808      4.809     12.353      4449      3421   1.001
   theta[5]      3.581      0.073      4.695     -4.414      3.882     10.448      4280      3314   1.000
   theta[6]      4.122      0.072      4.795     -3.955      4.343     11.427      4606      3266   1.001
   theta[7]      6.206      0.076      5.005     -1.245      5.776     14.957      4248      3162   1.000
   theta[8]      4.846      0.082      5.312     -3.341      4.803     13.064      4215      3179   1.001
   gradients=62851 divergences=0 warmup_s=0.0126 sampling_s=0.0557
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
    if (gpumc_sample(&model, &r.options, &fit) == GPUMC_OK) status = run_report(&r, &fit);
    else status = run_failed(fit.message);
    gpumc_free(&fit);
    return status;
}
