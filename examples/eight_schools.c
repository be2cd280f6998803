/* eight_schools.c: the smallest hierarchical model, on real data.

   Coaching for a test in eight schools (Rubin 1981): an effect and its standard error each. The schools' true
   effects are taken from one population, whose mean and spread are unknown:
       effect[j] ~ normal(theta[j], error[j]),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 5),  tau ~ half-Cauchy(5)

   Build:  cc -O2 examples/eight_schools.c -o eight_schools -lm -pthread
   Run:    ./eight_schools                      (./eight_schools help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   eight_schools: 4 chains x 1000 draws after 200 of warm-up, 0.00 s
   step size 1.93, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 7 %, variance to metric 1.18
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            4.388      0.050      3.308     -1.125      4.415      9.853      4381      3413   1.001
   tau           3.609      0.051      3.204      0.261      2.745      9.945      3832      2818   1.001
   theta[1]      6.260      0.091      5.756     -1.315      5.628     16.564      4078      3227   1.002
   theta[2]      4.900      0.078      4.815     -2.888      4.894     12.674      3991      2963   1.001
   theta[3]      3.856      0.081      5.209     -5.122      4.151     11.761      4130      3372   1.001
   theta[4]      4.811      0.074      4.802     -2.678      4.693     12.589      4176      3613   1.001
   theta[5]      3.567      0.079      4.797     -4.988      3.916     10.811      3723      3128   1.000
   theta[6]      4.059      0.076      4.860     -4.118      4.327     11.639      4130      3463   1.001
   theta[7]      6.406      0.084      4.970     -0.930      5.978     15.465      3698      3299   1.002
   theta[8]      4.822      0.082      5.250     -3.466      4.793     12.967      4181      3455   1.001
   gradients=6708 divergences=0 warmup_s=0.0025 sampling_s=0.0018
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
