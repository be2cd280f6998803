/* nile.c: a level that wanders, observed with noise. A Kalman filter integrates its states out, or all are sampled.

   Annual flow of the Nile at Aswan from 1871 to 1970 (Cobb 1978), in 10^8 cubic metres:
       flow[t] ~ normal(level[t], noise),   level[t + 1] ~ normal(level[t], drift),   level[1] ~ normal(1000, 500)
       noise, drift ~ half-normal(200)
   Given noise and drift all else is normal: the filter yields the likelihood of these two, and propagates
   derivatives along the years with its mean and variance. generate then draws the levels backwards from the last.
   With states=sampled every level is a parameter, an element of a random walk, and the posterior is the same.

   The level falls with the dam of 1898; the flow of the next year is predicted.

   Build:  cc -O2 examples/nile.c -o nile -lm -pthread
   Run:    ./nile                               (./nile help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

                         mean    90 % interval
   noise                121.8   101.4 to  143.1
   drift                 44.7    21.1 to   74.0
   level of 1880       1100.9  1018.9 to 1190.1
   level of 1898       1001.2   918.9 to 1086.8
   level of 1900        911.6   817.1 to  997.8
   level of 1970        792.8   670.9 to  907.7
   flow of 1971         795.7   548.1 to 1039.9
   gradients=23929 divergences=0 warmup_s=0.0206 sampling_s=0.0739
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

enum { FIRST = 1871, YEARS = 100, NOISE = 0, DRIFT, SDS };
static const double flow[YEARS] = {
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740
};
static const double first_mean = 1000, first_sd = 500;

static double sd_priors(const double *sd, double *grad)
{
    return gpumc_half_normal_lpdf(sd[NOISE], 200, &grad[NOISE], NULL)
         + gpumc_half_normal_lpdf(sd[DRIFT], 200, &grad[DRIFT], NULL);
}

/* ---- states summed out ---------------------------------------------------------------------------- */
/* Mean and variance of a level given the flows up to its year. */
struct known { double mean, variance; };

/* Log likelihood of noise and drift, with derivatives added to grad; known, one a year, may be NULL. */
static double filter(const double *sd, double *grad, struct known *known)
{
    double mean = first_mean, variance = first_sd * first_sd, lp = 0;    /* of a level given the years before */
    double by_mean[SDS] = { 0, 0 }, by_variance[SDS] = { 0, 0 };         /* derivatives of these two */
    for (size_t t = 0; t < YEARS; t++) {
        const double total = variance + sd[NOISE] * sd[NOISE], gain = variance / total;
        const double surprise = flow[t] - mean;
        double lp_mean = 0, lp_sd = 0;
        lp += gpumc_normal_lpdf(flow[t], mean, sqrt(total), NULL, &lp_mean, &lp_sd);
        for (size_t k = 0; k < SDS; k++) {
            const double by_total = by_variance[k] + (k == NOISE ? 2 * sd[NOISE] : 0);
            const double by_gain = (by_variance[k] - gain * by_total) / total;
            if (grad) grad[k] += lp_mean * by_mean[k] + lp_sd * by_total / (2 * sqrt(total));
            by_mean[k] += by_gain * surprise - gain * by_mean[k];
            by_variance[k] += (k == DRIFT ? 2 * sd[DRIFT] : 0) - by_gain * variance - gain * by_variance[k];
        }
        mean += gain * surprise;
        variance -= gain * variance;
        if (known) known[t] = (struct known){ mean, variance };
        variance += sd[DRIFT] * sd[DRIFT];
    }
    return lp;
}

static double summed_density(const double *sd, double *grad, void *data)
{
    (void)data;
    return sd_priors(sd, grad) + filter(sd, grad, NULL);
}

static double next_flow(const double *sd, double last_level, gpumc_rng *rng)
{
    const double level = last_level + sd[DRIFT] * gpumc_rng_normal(rng);
    return level + sd[NOISE] * gpumc_rng_normal(rng);
}

/* Draws the levels, the last first, each given that of the next year; then the flow of the year to come. */
static void summed_generate(const double *sd, gpumc_rng *rng, double *out, void *data)
{
    struct known known[YEARS];
    (void)data;
    filter(sd, NULL, known);
    for (size_t t = YEARS; t-- > 0;) {
        const struct known *k = &known[t];
        const double share = t + 1 < YEARS ? k->variance / (k->variance + sd[DRIFT] * sd[DRIFT]) : 0;
        const double mean = t + 1 < YEARS ? k->mean + share * (out[t + 1] - k->mean) : k->mean;
        out[t] = mean + sqrt(k->variance * (1 - share)) * gpumc_rng_normal(rng);
    }
    out[YEARS] = next_flow(sd, out[YEARS - 1], rng);
}

/* ---- states sampled: noise, drift, then the levels ------------------------------------------------ */
static double sampled_density(const double *x, double *grad, void *data)
{
    const double *level = x + SDS;
    double *by_level = grad + SDS;
    double lp = sd_priors(x, grad) + gpumc_normal_lpdf(level[0], first_mean, first_sd, &by_level[0], NULL, NULL);
    (void)data;
    for (size_t t = 0; t < YEARS; t++) {
        lp += gpumc_normal_lpdf(flow[t], level[t], x[NOISE], NULL, &by_level[t], &grad[NOISE]);
        if (t == 0) continue;
        lp += gpumc_normal_lpdf(level[t], level[t - 1], x[DRIFT], &by_level[t], &by_level[t - 1], &grad[DRIFT]);
    }
    return lp;
}

static void sampled_generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)data;
    *out = next_flow(x, x[SDS + YEARS - 1], rng);
}

/* ---- the run -------------------------------------------------------------------------------------- */
static void show(const gpumc_fit *fit, const char *column, size_t later, const char *text)
{
    const gpumc_summary s = gpumc_summarise(fit, gpumc_column(fit, column) + later);
    printf("%-18s  %6.1f  %6.1f to %6.1f\n", text, s.mean, s.q5, s.q95);
}

static int report(const run *r, const gpumc_fit *fit)
{
    static const int years[] = { 1880, 1898, 1900, 1970 };
    printf("                      mean    90 %% interval\n");
    show(fit, "noise", 0, "noise");
    show(fit, "drift", 0, "drift");
    for (size_t k = 0; k < sizeof years / sizeof *years; k++) {
        char text[32];
        snprintf(text, sizeof text, "level of %d", years[k]);
        show(fit, "level[1]", (size_t)(years[k] - FIRST), text);
    }
    show(fit, "flow_1971", 0, "flow of 1971");
    for (size_t k = 0; k < fit->n_warnings; k++) printf("warning: %s\n", fit->warnings[k].text);
    return run_finish(r, fit);
}

int main(int argc, char **argv)
{
    const gpumc_param params[] = {
        { .name = "noise", .kind = GPUMC_POSITIVE },
        { .name = "drift", .kind = GPUMC_POSITIVE },
        { .name = "level", .size = YEARS, .scale = "drift", .walk_dim = 1 },
    };
    const gpumc_output outputs[] = {
        { .name = "level", .size = YEARS },
        { .name = "flow_1971", .group = GPUMC_POSTERIOR_PREDICTIVE },
    };
    const gpumc_model summed = { .name = "nile", .params = params, .n_params = 2, .log_density = summed_density,
                                 .outputs = outputs, .n_outputs = 2, .generate = summed_generate };
    const gpumc_model sampled = { .name = "nile", .params = params, .n_params = 3, .log_density = sampled_density,
                                  .outputs = outputs + 1, .n_outputs = 1, .generate = sampled_generate };
    run r = { .summary = NULL };
    int states = 0;
    const argument own[] = { { "states", CHOICE, &states, "summed|sampled" } };
    int status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    gpumc_fit fit;
    if (status != GO_ON) return status;
    status = run_sample(&r, states ? &sampled : &summed, &fit) == GPUMC_OK ? report(&r, &fit) : run_ended(&fit);
    gpumc_free(&fit);
    return status;
}
