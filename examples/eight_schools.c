/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.01 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 6 %, variance to metric 1.16
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.384      0.050      3.336     -1.161      4.422      9.883      4432      3157   1.001
   tau           3.615      0.051      3.213      0.267      2.754     10.174      4090      2490   1.001
   theta[1]      6.222      0.096      5.807     -1.426      5.629     16.652      4053      3027   1.001
   theta[2]      4.892      0.076      4.838     -2.960      4.940     12.732      4161      2929   1.000
   theta[3]      3.853      0.086      5.245     -4.984      4.201     11.751      3993      3113   1.001
   theta[4]      4.800      0.079      4.830     -2.751      4.682     12.647      4006      3094   1.001
   theta[5]      3.594      0.074      4.755     -4.988      3.926     10.823      4136      3265   1.000
   theta[6]      4.052      0.083      4.937     -4.053      4.342     11.588      3865      2999   1.000
   theta[7]      6.350      0.076      4.908     -0.939      5.987     15.093      4210      3599   1.001
   theta[8]      4.903      0.080      5.231     -3.243      4.918     13.253      4332      3245   1.001
   gradients=7554 divergences=0 warmup_s=0.0033 sampling_s=0.0021
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
