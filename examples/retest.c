/* retest.c: how reliable is an effect? Correlated populations, in two sets of rows.

       log rt[i] ~ normal(base[s] + effect[s] x[i], sigma)  in both sessions; s = subject[i], x[i] = 0 or 1
       base and effect of both sessions ~ multivariate normal: means mu, scales tau, correlations L L'
       mu ~ normal(0, 1),  tau ~ half-normal(0.5),  sigma ~ half-normal(1),  L ~ LKJ(2)

   Differences of a subject's mean times are more noise than effect: between sessions they correlate much less
   than the effects do, and a task looks unreliable that is not. The model has the noise apart. The data are
   drawn from it.

   Build:  cc -O2 examples/retest.c -o retest -lm -pthread
   Run:    ./retest                             (./retest help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: mu 3 of 4, tau 4 of 4, sigma yes, effect_1 89 of 100, effect_2 94 of 100
   correlation between sessions        observed   by the model   90 % interval   drawn with
       of the base                         0.75           0.79    0.71 to 0.87         0.80
       of the effect                       0.35           0.62    0.33 to 0.86         0.80
   gradients=19368 divergences=0 warmup_s=0.4105 sampling_s=0.7114
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

GPUMC_ROW(response, 2 /* base, effect */, 1 /* sigma */, 2 /* rt, x */)
{
    gpumc_real d = 0;
    const gpumc_real lp = gpumc_lognormal_lpdf(x[0], p[0] + p[1] * x[1], p[2], NULL, &d, &g[2]);
    g[0] = d;
    g[1] = d * x[1];
    return lp;
}

/* What varies between subjects: base and effect of the first session, then of the second. */
enum { VARYING = 4, EFFECT_1 = 1, EFFECT_2 = 3 };
static const char *const names[VARYING] = { "base_1", "effect_1", "base_2", "effect_2" };
static const double true_mu[VARYING] = { -0.5, 0.08, -0.55, 0.07 };
static const double true_tau[VARYING] = { 0.15, 0.05, 0.15, 0.05 }, true_sigma = 0.3;
static const double true_correlations[VARYING * VARYING] = {
    1.0, 0.3, 0.8, 0.3,
    0.3, 1.0, 0.3, 0.8,
    0.8, 0.3, 1.0, 0.3,
    0.3, 0.8, 0.3, 1.0,
};

struct experiment {
    size_t n_subjects, n_rows;                  /* rows of a session */
    size_t *subject, *which[VARYING];           /* which: all k, for mu[k] and tau[k] */
    double *x, *rt[2], *theta;                  /* theta: base and effect that the data are drawn with */
};

/* Draws subjects, then their times; returns 0 when out of memory. */
static int experiment_run(struct experiment *e, size_t trials, uint64_t seed)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    const size_t n = e->n_subjects;
    double zero[VARYING] = { 0 }, z[VARYING], unused[VARYING * (VARYING + 2)];
    e->n_rows = n * 2 * trials;
    e->subject = (size_t *)malloc(e->n_rows * sizeof *e->subject);
    e->which[0] = (size_t *)malloc(VARYING * n * sizeof *e->which[0]);
    e->x = (double *)malloc(3 * e->n_rows * sizeof *e->x);
    e->theta = (double *)malloc(VARYING * n * sizeof *e->theta);
    if (!e->subject || !e->which[0] || !e->x || !e->theta) return 0;
    for (size_t k = 0; k < VARYING; k++) {
        e->which[k] = e->which[0] + k * n;
        for (size_t s = 0; s < n; s++) e->which[k][s] = k;
    }
    for (size_t s = 0; s < n; s++) {
        gpumc_multi_normal_rng(&rng, zero, true_correlations, VARYING, z, unused);
        for (size_t k = 0; k < VARYING; k++) e->theta[k * n + s] = true_mu[k] + true_tau[k] * z[k];
    }
    for (size_t session = 0; session < 2; session++) {
        const double *base = e->theta + 2 * session * n, *effect = base + n;
        e->rt[session] = e->x + (1 + session) * e->n_rows;
        for (size_t i = 0; i < e->n_rows; i++) {
            const size_t s = e->subject[i] = i / (2 * trials);
            e->x[i] = (double)(i % 2);
            e->rt[session][i] = gpumc_lognormal_rng(&rng, base[s] + effect[s] * e->x[i], true_sigma);
        }
    }
    return 1;
}

/* The correlation between sessions of what is usually reported: differences of mean log times, if effects are
   asked for, else those means where x = 0. */
static double observed_correlation(const struct experiment *e, int effects)
{
    const double n = (double)e->n_subjects, trials = (double)(e->n_rows / e->n_subjects / 2);
    double sum[2] = { 0, 0 }, product[3] = { 0, 0, 0 };
    for (size_t s = 0; s < e->n_subjects; s++) {
        double value[2] = { 0, 0 };
        for (size_t i = s * e->n_rows / e->n_subjects; i < (s + 1) * e->n_rows / e->n_subjects; i++)
            for (int k = 0; k < 2; k++)
                value[k] += log(e->rt[k][i]) / trials * (effects ? 2 * e->x[i] - 1 : 1 - e->x[i]);
        for (int k = 0; k < 2; k++) {
            sum[k] += value[k];
            product[k] += value[k] * value[k];
        }
        product[2] += value[0] * value[1];
    }
    return (product[2] - sum[0] * sum[1] / n)
         / sqrt((product[0] - sum[0] * sum[0] / n) * (product[1] - sum[1] * sum[1] / n));
}

static int report(const struct experiment *e, const run *r, const gpumc_fit *fit)
{
    const run_truth truths[] = { { "mu", true_mu, VARYING }, { "tau", true_tau, VARYING },
        { "sigma", &true_sigma, 1 }, { "effect_1", e->theta + EFFECT_1 * e->n_subjects, e->n_subjects },
        { "effect_2", e->theta + EFFECT_2 * e->n_subjects, e->n_subjects } };
    const gpumc_summary base = gpumc_summarise(fit, gpumc_column(fit, "corr_L[1,3]"));
    const gpumc_summary effect = gpumc_summarise(fit, gpumc_column(fit, "corr_L[2,4]"));
    run_compare(fit, truths, 5);
    printf("correlation between sessions        observed   by the model   90 %% interval   drawn with\n");
    printf("    of the base                       %6.2f         %6.2f   %5.2f to %4.2f       %6.2f\n",
           observed_correlation(e, 0), base.mean, base.q5, base.q95, true_correlations[2]);
    printf("    of the effect                     %6.2f         %6.2f   %5.2f to %4.2f       %6.2f\n",
           observed_correlation(e, 1), effect.mean, effect.q5, effect.q95, true_correlations[7]);
    for (size_t k = 0; k < fit->n_warnings; k++) printf("warning: %s\n", fit->warnings[k].text);
    return run_finish(r, fit);
}

static int sample(const struct experiment *e, const run *r)
{
    static const size_t dims[] = { VARYING, VARYING };
    gpumc_param params[4 + VARYING] = {
        { .name = "mu", .size = VARYING },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = VARYING },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = dims, .n_dims = 2 },
    };
    const gpumc_prior priors[] = {
        { "mu", gpumc_prior_normal, 0, 1, 0 },
        { "tau", gpumc_prior_half_normal, 0.5, 0, 0 },
        { "sigma", gpumc_prior_half_normal, 1, 0, 0 },
        { "L", gpumc_prior_lkj_corr_cholesky, 2, 0, 0 },
    };
    gpumc_hier_take takes[2][3];
    const double *columns[2][2];
    gpumc_hier_rows rows[2];
    const gpumc_hier_data data = { .name = "retest", .params = params, .n_params = 4 + VARYING,
                                   .priors = priors, .n_priors = 4, .rows = rows, .n_rows = 2,
                                   .threads = r->options.threads };
    gpumc_error error;
    gpumc_hier *hier;
    gpumc_fit fit;
    int status;
    for (size_t k = 0; k < VARYING; k++)
        params[4 + k] = (gpumc_param){ .name = names[k], .size = e->n_subjects, .location = "mu", .scale = "tau",
                                       .location_index = e->which[k], .scale_index = e->which[k],
                                       .factor = "L" };
    for (size_t session = 0; session < 2; session++) {
        takes[session][0] = (gpumc_hier_take){ names[2 * session], e->subject };
        takes[session][1] = (gpumc_hier_take){ names[2 * session + 1], e->subject };
        takes[session][2] = (gpumc_hier_take){ "sigma", NULL };
        columns[session][0] = e->rt[session];
        columns[session][1] = e->x;
        rows[session] = (gpumc_hier_rows){ .name = session ? "second session" : "first session",
            .data = { .kind = &response, .n_rows = e->n_rows, .columns = columns[session] },
            .takes = takes[session], .n_takes = 3 };
    }
    hier = gpumc_hier_create(&data, &error);
    if (!hier) return run_failed(error.text);
    status = run_sample(r, gpumc_hier_model(hier), &fit) == GPUMC_OK ? report(e, r, &fit) : run_ended(&fit);
    gpumc_free(&fit);
    gpumc_hier_free(hier);
    return status;
}

int main(int argc, char **argv)
{
    struct experiment e = { 0 };
    run r = { .summary = NULL };
    int size = 100, trials = 40, status;
    uint64_t data_seed = 2;
    const argument own[] = {
        { "size", WHOLE, &size, "subjects (100)" },
        { "rows", WHOLE, &trials, "trials of a subject in each condition of a session (40)" },
        { "data_seed", SEED, &data_seed, "of the data (2)" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 2 || trials < 1 || size > 10000000 / trials)
        return run_failed("size must be 2 or more, rows 1 or more, and size x rows at most 1e7");
    e.n_subjects = (size_t)size;
    status = experiment_run(&e, (size_t)trials, data_seed) ? sample(&e, &r) : run_failed("out of memory");
    free(e.subject);
    free(e.which[0]);
    free(e.x);
    free(e.theta);
    return status;
}
