/* retest.c: how reliable is an effect? Correlated populations, in two sets of rows.

       log rt[i] ~ normal(base[s] + effect[s] x[i], sigma)  in both sessions; s = subject[i], x[i] = 0 or 1
       base and effect of both sessions ~ multivariate normal: means mu, scales tau, correlations L L'
       mu ~ normal(0, 1),  tau ~ half-normal(0.5),  sigma ~ half-normal(1),  L ~ LKJ(2)

   Differences of a subject's mean times are more noise than effect: between sessions they correlate much less
   than the effects do, so that a reliable task looks unreliable. The model separates the noise from the effect.
   The data are drawn from it, or come from a file of trials.

   Build:  cc -O2 examples/retest.c -o retest -lm -pthread
   Run:    ./retest                             (./retest help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: mu 4 of 4, tau 4 of 4, sigma yes, effect_1 89 of 100, effect_2 94 of 100
   correlation between sessions        observed   by the model   90 % interval   drawn with
       of the base                         0.75           0.79    0.70 to 0.86         0.80
       of the effect                       0.35           0.62    0.32 to 0.85         0.80
   gradients=10318 divergences=0 warmup_s=0.0604 sampling_s=0.1569
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
    size_t n_subjects, n_rows[2];               /* by session, as are subject, x and rt */
    size_t *subject[2], *which[VARYING];        /* which: all k, for mu[k] and tau[k] */
    double *x[2], *rt[2];
    double *theta;                              /* base and effect that the data are drawn with, or NULL */
};

/* Allocates memory for the experiment's numbers of subjects and rows; returns 0 when out of memory. */
static int experiment_room(struct experiment *e)
{
    const size_t n = e->n_subjects;
    for (size_t k = 0; k < 2; k++) {
        e->subject[k] = (size_t *)malloc((e->n_rows[k] + 1) * sizeof *e->subject[k]);
        e->x[k] = (double *)malloc((e->n_rows[k] + 1) * sizeof *e->x[k]);
        e->rt[k] = (double *)malloc((e->n_rows[k] + 1) * sizeof *e->rt[k]);
        if (!e->subject[k] || !e->x[k] || !e->rt[k]) return 0;
    }
    e->which[0] = (size_t *)malloc(VARYING * n * sizeof *e->which[0]);
    for (size_t k = 0; k < VARYING && e->which[0]; k++) {
        e->which[k] = e->which[0] + k * n;
        for (size_t s = 0; s < n; s++) e->which[k][s] = k;
    }
    return e->which[0] != NULL;
}

static void experiment_free(struct experiment *e)
{
    for (size_t k = 0; k < 2; k++) {
        free(e->subject[k]);
        free(e->x[k]);
        free(e->rt[k]);
    }
    free(e->which[0]);
    free(e->theta);
}

/* Draws subjects, then their times; returns 0 when out of memory. */
static int experiment_run(struct experiment *e, size_t trials, uint64_t seed)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    const size_t n = e->n_subjects;
    double zero[VARYING] = { 0 }, z[VARYING], unused[VARYING * (VARYING + 2)];
    e->n_rows[0] = e->n_rows[1] = n * 2 * trials;
    e->theta = (double *)malloc(VARYING * n * sizeof *e->theta);
    if (!e->theta || !experiment_room(e)) return 0;
    for (size_t s = 0; s < n; s++) {
        gpumc_multi_normal_rng(&rng, zero, true_correlations, VARYING, z, unused);
        for (size_t k = 0; k < VARYING; k++) e->theta[k * n + s] = true_mu[k] + true_tau[k] * z[k];
    }
    for (size_t session = 0; session < 2; session++) {
        const double *base = e->theta + 2 * session * n, *effect = base + n;
        for (size_t i = 0; i < e->n_rows[session]; i++) {
            const size_t s = e->subject[session][i] = i / (2 * trials);
            const double x = e->x[session][i] = (double)(i % 2);
            e->rt[session][i] = gpumc_lognormal_rng(&rng, base[s] + effect[s] * x, true_sigma);
        }
    }
    return 1;
}

/* Reads trials from a file: S subjects, N rows with subject and session, which count from 1, x (0 or 1) and rt. */
static int experiment_read(struct experiment *e, const char *path, gpumc_error *error)
{
    static const char *const columns[] = { "subject", "session", "x", "rt" };
    const gpumc_variable *v[4];
    gpumc_data file = { 0 };
    const size_t n = run_read(path, "S", &e->n_subjects, columns, 4, 3, &file, v, error);
    size_t i = 0;
    e->n_rows[0] = e->n_rows[1] = n;
    const int room = n > 0 && e->n_subjects > 1 && experiment_room(e);
    e->n_rows[0] = e->n_rows[1] = 0;
    for (; room && i < n; i++) {
        const double s = v[0]->values[i], session = v[1]->values[i], x = v[2]->values[i];
        const double rt = v[3]->values[i];
        const size_t k = session == 2, row = e->n_rows[k];
        if (!(s >= 1 && s <= (double)e->n_subjects && (session == 1 || session == 2) && (x == 0 || x == 1)
              && rt > 0)) {
            snprintf(error->text, sizeof error->text, "%s: row %.0f: subject %g (1 to %.0f), session %g "
                     "(1 or 2), x %g (0 or 1), rt %g (positive)", path, (double)i + 1, s,
                     (double)e->n_subjects, session, x, rt);
            break;
        }
        e->subject[k][row] = (size_t)s - 1;
        e->x[k][row] = x;
        e->rt[k][row] = rt;
        e->n_rows[k]++;
    }
    gpumc_data_free(&file);
    if (n > 0 && e->n_subjects < 2) snprintf(error->text, sizeof error->text, "%s: S must be at least 2", path);
    if (n == 0 || i < n) return 0;
    if (e->n_rows[0] && e->n_rows[1]) return 1;
    snprintf(error->text, sizeof error->text, "%s: session %d has no trial", path, e->n_rows[0] ? 2 : 1);
    return 0;
}

/* The correlation between sessions of what is usually reported: differences of mean log times, if effects are
   asked for, else those means where x = 0. Subjects without a trial of some kind are left out. */
static double observed_correlation(const struct experiment *e, int effects)
{
    double n = 0, sum[2] = { 0, 0 }, product[3] = { 0, 0, 0 };
    double (*cell)[2][2][2];                    /* [subject][session][x]: count, sum */
    cell = (double (*)[2][2][2])calloc(e->n_subjects, sizeof *cell);
    for (size_t k = 0; cell && k < 2; k++)
        for (size_t i = 0; i < e->n_rows[k]; i++) {
            double *mine = cell[e->subject[k][i]][k][e->x[k][i] > 0];
            mine[0]++;
            mine[1] += log(e->rt[k][i]);
        }
    for (size_t s = 0; cell && s < e->n_subjects; s++) {
        double value[2];
        for (int k = 0; k < 2; k++) {
            const double base = cell[s][k][0][1] / cell[s][k][0][0];
            value[k] = effects ? cell[s][k][1][1] / cell[s][k][1][0] - base : base;
        }
        if (!(isfinite(value[0]) && isfinite(value[1]))) continue;
        n++;
        for (int k = 0; k < 2; k++) {
            sum[k] += value[k];
            product[k] += value[k] * value[k];
        }
        product[2] += value[0] * value[1];
    }
    free(cell);
    return (product[2] - sum[0] * sum[1] / n)
         / sqrt((product[0] - sum[0] * sum[0] / n) * (product[1] - sum[1] * sum[1] / n));
}

/* Prints a correlation between sessions: as observed, then as the model estimates it. */
static void report_correlation(const struct experiment *e, const gpumc_fit *fit, int effects)
{
    const char *column = effects ? "corr_L[2,4]" : "corr_L[1,3]";
    const gpumc_summary s = gpumc_summarise(fit, gpumc_column(fit, column));
    printf("    of the %-6s                     %6.2f         %6.2f   %5.2f to %4.2f",
           effects ? "effect" : "base", observed_correlation(e, effects), s.mean, s.q5, s.q95);
    if (e->theta) printf("       %6.2f", true_correlations[effects ? 7 : 2]);
    printf("\n");
}

static int report(const struct experiment *e, const run *r, const gpumc_fit *fit)
{
    if (e->theta) {
        const run_truth truths[] = { { "mu", true_mu, VARYING }, { "tau", true_tau, VARYING },
            { "sigma", &true_sigma, 1 }, { "effect_1", e->theta + EFFECT_1 * e->n_subjects, e->n_subjects },
            { "effect_2", e->theta + EFFECT_2 * e->n_subjects, e->n_subjects } };
        run_compare(fit, truths, 5);
    }
    printf("correlation between sessions        observed   by the model   90 %% interval%s\n",
           e->theta ? "   drawn with" : "");
    report_correlation(e, fit, 0);
    report_correlation(e, fit, 1);
    for (size_t k = 0; k < fit->n_warnings; k++) printf("warning: %s\n", fit->warnings[k].text);
    return run_finish(r, fit);
}

static int sample(const struct experiment *e, gpumc_centring form, const run *r)
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
        params[4 + k] = (gpumc_param){ .name = names[k], .size = e->n_subjects,
                                       .location = "mu", .location_index = e->which[k],
                                       .scale = "tau", .scale_index = e->which[k],
                                       .factor = "L", .centring = form };
    for (size_t session = 0; session < 2; session++) {
        takes[session][0] = (gpumc_hier_take){ names[2 * session], e->subject[session] };
        takes[session][1] = (gpumc_hier_take){ names[2 * session + 1], e->subject[session] };
        takes[session][2] = (gpumc_hier_take){ "sigma", NULL };
        columns[session][0] = e->rt[session];
        columns[session][1] = e->x[session];
        rows[session] = (gpumc_hier_rows){ .name = session ? "second session" : "first session",
            .data = { .kind = &response, .n_rows = e->n_rows[session], .columns = columns[session] },
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
    int size = 100, trials = 40, form = GPUMC_CENTRING_LEARNED, ready, status;
    uint64_t data_seed = 2;
    const char *path = NULL;
    gpumc_error error = { GPUMC_ERROR_MEMORY, "out of memory" };
    const argument own[] = {
        { "size", WHOLE, &size, "subjects (100)" },
        { "rows", WHOLE, &trials, "trials of a subject in each condition of a session (40)" },
        { "data_seed", SEED, &data_seed, "of the data (2)" },
        { "data", TEXT, &path, "FILE: S, N, subject, session, x and rt as JSON, in place of drawn data" },
        { "form", CHOICE, &form, "learned|centred|noncentred" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 2 || trials < 1 || size > 10000000 / trials)
        return run_failed("size must be 2 or more, rows 1 or more, and size x rows at most 1e7");
    e.n_subjects = (size_t)size;
    ready = path ? experiment_read(&e, path, &error) : experiment_run(&e, (size_t)trials, data_seed);
    status = ready ? sample(&e, (gpumc_centring)form, &r) : run_failed(error.text);
    experiment_free(&e);
    return status;
}
