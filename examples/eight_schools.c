/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.01 s
   step size 0.324, low-rank metric, 0 divergences
   sampler HMC: the metric fits: variance to metric 1.44, E-BFMI 1.04, trees span 3.7
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.434      0.055      3.289     -1.152      4.438      9.877      3606      3216   1.001
   tau           3.513      0.073      3.190      0.235      2.690      9.745      1202      1183   1.006
   theta[1]      6.204      0.090      5.671     -1.444      5.634     15.898      4137      3432   1.001
   theta[2]      4.907      0.068      4.725     -2.625      4.832     12.472      4837      3217   1.001
   theta[3]      3.927      0.086      5.212     -4.853      4.291     11.511      3823      3233   1.000
   theta[4]      4.793      0.069      4.708     -2.587      4.743     12.368      4755      3666   1.003
   theta[5]      3.716      0.067      4.531     -4.272      3.983     10.585      4664      3776   1.001
   theta[6]      4.176      0.069      4.796     -3.786      4.345     11.594      4823      3687   1.001
   theta[7]      6.307      0.078      4.976     -0.879      5.837     15.178      4013      3632   1.001
   theta[8]      4.883      0.081      5.338     -3.343      4.757     13.491      4391      3226   1.000
   gradients=27755 divergences=0 warmup_s=0.0043 sampling_s=0.0078
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
