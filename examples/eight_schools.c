/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.01 s
   step size 1.44, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 9 %, variance to metric 1.15
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.445      0.055      3.313     -0.970      4.401      9.948      3632      3225   1.002
   tau           3.590      0.056      3.136      0.214      2.789      9.589      3012      2775   1.001
   theta[1]      6.205      0.095      5.698     -1.511      5.656     16.617      3821      3036   1.001
   theta[2]      5.019      0.082      4.832     -2.451      4.860     12.869      3570      3370   1.000
   theta[3]      3.936      0.089      5.306     -4.866      4.136     11.638      3592      3371   1.000
   theta[4]      4.867      0.081      4.731     -2.572      4.856     12.455      3469      3430   1.001
   theta[5]      3.709      0.076      4.625     -4.434      3.950     10.727      3689      3774   1.000
   theta[6]      4.195      0.085      4.863     -3.888      4.296     11.449      3527      2891   1.001
   theta[7]      6.333      0.086      5.055     -0.957      5.879     15.449      3536      3320   1.001
   theta[8]      4.825      0.082      5.190     -3.419      4.706     13.399      3958      3735   1.000
   gradients=11917 divergences=0 warmup_s=0.0031 sampling_s=0.0023
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
