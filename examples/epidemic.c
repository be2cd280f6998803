/* epidemic.c: an existing simulator, whose derivatives nobody has written.

   Influenza in an English boarding school in 1978 (British Medical Journal 1978, 1, 587): boys in bed on fourteen
   days, of 763. One came back infected, and everybody meets everybody else:
       S' = -beta S I / 763,   I' = beta S I / 763 - gamma I,   S(0) = 762, I(0) = 1
       in_bed[t] ~ neg_binomial_2(I(t), phi)
       beta ~ half-normal(2),  gamma ~ half-normal(1),  1 / phi ~ exponential(5)
   The model gives the log density only, so that gradients are differences: of seven simulations each.
   `R0` is how many boys the first one infects, `recovery` how many days he is ill; `predicted` are other boys in
   bed on the same days.

   Build:  cc -O2 examples/epidemic.c -o epidemic -lm -pthread
   Run:    ./epidemic                           (./epidemic help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   epidemic: 4 chains x 1000 draws after 200 of warm-up, 0.45 s
   step size 0.661, low-rank metric, 0 divergences
   sampler MAMS: the metric fits: variance to metric 1.06, E-BFMI 1.12, trees span 3.3
                     mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   beta           1.73472    0.00080    0.05359    1.65269    1.73181    1.82498      4908      3169   1.000
   gamma          0.54040    0.00066    0.04623    0.46635    0.53853    0.61870      5064      3099   1.003
   phi_inverse    0.13712    0.00092    0.07346    0.05101    0.12157    0.27421      6862      2779   1.000
   R0              3.2325     0.0042     0.2848     2.8168     3.2118     3.7273      5188      3147   1.002
   recovery        1.8641     0.0023     0.1611     1.6163     1.8569     2.1443      5064      3099   1.003
   predicted: 14 predicted values, not shown
   gradients=22080 divergences=0 warmup_s=0.0825 sampling_s=0.3711
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

enum { N_DAYS = 14, N_STEPS = 10 /* a day */ };

static const double n_boys = 763;
static const double in_bed[N_DAYS] = { 3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4 };

/* In the order of the parameter list below. */
struct epidemic { double beta, gamma, phi_inverse; };

/* ---- the simulator: knows nothing of inference ---------------------------------------------------------- */
static void slopes(const struct epidemic *p, const double *state, double *slope)
{
    const double infections = p->beta * state[0] * state[1] / n_boys;
    slope[0] = -infections;
    slope[1] = infections - p->gamma * state[1];
}

/* One step of the classical Runge-Kutta method. */
static void step(const struct epidemic *p, double h, double *state)
{
    static const double at[4] = { 0, 0.5, 0.5, 1 }, weight[4] = { 1, 2, 2, 1 };
    double sum[2] = { 0, 0 }, slope[2] = { 0, 0 }, point[2];
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 2; i++) point[i] = state[i] + at[k] * h * slope[i];
        slopes(p, point, slope);
        for (int i = 0; i < 2; i++) sum[i] += weight[k] * slope[i];
    }
    for (int i = 0; i < 2; i++) state[i] += h / 6 * sum[i];
}

static void simulate(const struct epidemic *p, double *infected)
{
    double state[2] = { n_boys - 1, 1 };
    for (int day = 0; day < N_DAYS; day++) {
        for (int k = 0; k < N_STEPS; k++) step(p, 1.0 / N_STEPS, state);
        infected[day] = state[1];
    }
}

/* ---- the model ------------------------------------------------------------------------------------------ */
static double log_density_only(const double *x, void *data)
{
    const struct epidemic *p = (const struct epidemic *)x;
    double infected[N_DAYS], lp = gpumc_half_normal_lpdf(p->beta, 2, NULL, NULL)
        + gpumc_half_normal_lpdf(p->gamma, 1, NULL, NULL) + gpumc_exponential_lpdf(p->phi_inverse, 5, NULL, NULL);
    (void)data;
    simulate(p, infected);
    for (int day = 0; day < N_DAYS; day++)
        lp += gpumc_neg_binomial_2_lpmf(in_bed[day], infected[day], 1 / p->phi_inverse, NULL, NULL);
    return lp;
}

/* Fills R0, recovery and predicted, in the order of the outputs below. */
static void generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    const struct epidemic *p = (const struct epidemic *)x;
    double infected[N_DAYS];
    (void)data;
    simulate(p, infected);
    *out++ = p->beta / p->gamma;
    *out++ = 1 / p->gamma;
    for (int day = 0; day < N_DAYS; day++)
        *out++ = gpumc_neg_binomial_2_rng(rng, infected[day], 1 / p->phi_inverse);
}

int main(int argc, char **argv)
{
    const gpumc_param params[] = { { .name = "beta", .kind = GPUMC_POSITIVE },
                                   { .name = "gamma", .kind = GPUMC_POSITIVE },
                                   { .name = "phi_inverse", .kind = GPUMC_POSITIVE } };
    const gpumc_output outputs[] = {
        { .name = "R0" }, { .name = "recovery" },
        { .name = "predicted", .size = N_DAYS, .group = GPUMC_POSTERIOR_PREDICTIVE },
    };
    const gpumc_model model = {
        .name = "epidemic", .params = params, .n_params = 3, .log_density_only = log_density_only,
        .generate = generate, .outputs = outputs, .n_outputs = 3,
    };
    run r = { .summary = NULL };
    const int status = arguments_read(argc, argv, &r, NULL, 0);
    return status != GO_ON ? status : run_model(&r, &model, NULL, 0);
}
