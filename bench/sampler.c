/* Efficiency, speed and accuracy of the samplers.

       sampler targets [seeds=5]    synthetic targets: gradients per draw, effective draws per 1000 gradients
       sampler overhead             nanoseconds that a leapfrog step, and a draw, cost beyond the density
       sampler groups [seeds=10] [models=...] [forms=learned,centred,noncentred]
                                    a hierarchical model: learned centring against both fixed forms
       sampler correlated [seeds=10] [forms=...]
                                    the same for intercepts and slopes that are correlated
       sampler series [seeds=10]    latent AR(1) series, observed through counts or as log variances of noise:
                                    declared as series, declared as walks, and non-centred by hand
       sampler posteriordb [seeds=3] [differences=1]
                                    published posteriors, from the files in $GPUMC_POSTERIORDB; on request by
                                    their log densities alone, with differences for gradients
       sampler compare [seeds=3] [models=...]
                                    NUTS, MAMS, HMC and the automatic choice, per gradient after warm-up
       sampler tails [seeds=40]     error of runs without a warning where the true sd is known: of the log scale
                                    of walks, of hierarchies and a lattice that are not declared and of
                                    Neal's funnel, and of a coordinate of mixtures of two normals
       sampler summaries            microseconds for the summary of a quantity, and for leaving out an observation
                                    (PSIS-LOO)
   sampler=nuts, mams or hmc makes the runs that do not compare samplers use that one.

   Effective draws are those of the worst parameter, by the smaller of ESS(x) and ESS((x - mean)^2): where chains
   are antithetic, variances mix more slowly than means. All gradients count, those of warm-up included, except
   where a benchmark says otherwise. */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "../examples/arguments.h"
#include "groups.h"
#include "../tests/posteriors.h"
#include "bench.h"

enum { MAX_SEEDS = 100 };

/* ---- scores -------------------------------------------------------------------------------------- */

typedef struct score {
    double bulk, tail, both, r_hat, divergences, tree, warmup, draws, seconds, sampler, quiet, ok;
} score;

static const char *const sampler_names[] = { "auto", "nuts", "mams", "hmc" };
static gpumc_sampler sampler;            /* of all runs */

/* Smaller of ESS(x) and ESS((x - mean)^2) of one column. */
static double ess_both(const gpumc_fit *fit, size_t column, double *scratch)
{
    const gpumc_series s = gpumc_fit_series(fit, column);
    const double mean = gpumc_mean(s).value;
    gpumc_series squares = { scratch, fit->n_chains, fit->n_draws, fit->n_draws, 1 };
    for (size_t c = 0; c < fit->n_chains; c++)
        for (size_t i = 0; i < fit->n_draws; i++) {
            const double away = s.x[c * s.chain_stride + i * s.draw_stride] - mean;
            scratch[c * fit->n_draws + i] = away * away;
        }
    return fmin(gpumc_ess_mean(s).value, gpumc_ess_mean(squares).value);
}

/* Samples the model; the score is that of its worst parameter. */
static score judge(const gpumc_model *model, const gpumc_sample_options *o)
{
    score s = { HUGE_VAL, HUGE_VAL, HUGE_VAL, 0, 0, 0, 0, 0, 0, 0, 1, 0 };
    gpumc_fit fit;
    double *scratch;
    if (gpumc_sample(model, o, &fit) != GPUMC_OK) {
        printf("%s: %s\n", model->name, fit.message);
        gpumc_free(&fit);
        return s;
    }
    scratch = (double *)malloc(fit.n_chains * fit.n_draws * sizeof *scratch);
    for (size_t k = 0; scratch && k < fit.n_params_columns; k++) {
        const gpumc_series x = gpumc_fit_series(&fit, k);
        s.bulk = fmin(s.bulk, gpumc_ess_bulk(x).value);
        s.tail = fmin(s.tail, gpumc_ess_tail(x).value);
        s.both = fmin(s.both, ess_both(&fit, k, scratch));
        s.r_hat = fmax(s.r_hat, gpumc_r_hat(x).value);
    }
    free(scratch);
    s.divergences = (double)fit.n_divergent;
    s.warmup = (double)fit.warmup_gradients;
    s.draws = (double)fit.sampling_gradients;
    s.tree = s.draws / (double)(fit.n_chains * fit.n_draws);
    s.seconds = fit.warmup_seconds + fit.sampling_seconds;
    s.sampler = fit.sampler;
    for (size_t k = 0; k < fit.n_warnings; k++) s.quiet *= fit.warnings[k].note;
    s.ok = scratch != NULL;
    gpumc_free(&fit);
    return s;
}

/* Median of one member over the seeds. */
#define MEDIAN(scores, n, member) (median_at(scores, n, offsetof(score, member)))
static double median_at(const score *scores, size_t n, size_t offset)
{
    double values[MAX_SEEDS];
    for (size_t k = 0; k < n; k++) memcpy(&values[k], (const char *)&scores[k] + offset, sizeof values[k]);
    return bench_median(values, n);
}

/* ---- synthetic targets: log densities up to a constant ------------------------------------------- */

enum { SPIKES = 3, MANY = 1000, LOGISTIC_ROWS = 500, LOGISTIC_COLUMNS = 25 };

static double iid_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 100; i++) { g[i] -= x[i]; lp -= 0.5 * x[i] * x[i]; }
    return lp;
}

static double scales_density(const double *x, double *g, void *data)      /* data: standard deviations */
{
    const double *sd = (const double *)data;
    double lp = 0;
    for (int i = 0; i < 100; i++) {
        const double z = x[i] / sd[i];
        g[i] -= z / sd[i];
        lp -= 0.5 * z * z;
    }
    return lp;
}

static double ar_density(const double *x, double *g, void *data)          /* correlation .95^|i - j| */
{
    const double rho = 0.95, precision = 1 / (1 - rho * rho);
    double lp = -0.5 * x[0] * x[0];
    (void)data;
    g[0] -= x[0];
    for (int i = 1; i < 50; i++) {
        const double r = x[i] - rho * x[i - 1];
        g[i] -= r * precision;
        g[i - 1] += rho * r * precision;
        lp -= 0.5 * r * r * precision;
    }
    return lp;
}

/* Covariance I + 99 sum of v v' over orthonormal v. */
struct spikes { size_t n; double v[SPIKES][MANY]; };

static double spikes_density(const double *x, double *g, void *data)
{
    const struct spikes *s = (const struct spikes *)data;
    double lp = 0;
    for (size_t i = 0; i < s->n; i++) { g[i] -= x[i]; lp -= 0.5 * x[i] * x[i]; }
    for (int k = 0; k < SPIKES; k++) {
        double along = 0;
        for (size_t i = 0; i < s->n; i++) along += s->v[k][i] * x[i];
        for (size_t i = 0; i < s->n; i++) g[i] += 0.99 * along * s->v[k][i];
        lp += 0.5 * 0.99 * along * along;
    }
    return lp;
}

static double t4_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 50; i++) lp += gpumc_student_t_lpdf(x[i], 4, 0, 1, &g[i], NULL, NULL, NULL);
    return lp;
}

static double banana_density(const double *x, double *g, void *data)   /* x ~ N(0, 1), y ~ N(x^2 - 1, .5) */
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 20; i += 2) {
        double dmu = 0;
        lp += gpumc_std_normal_lpdf(x[i], &g[i])
            + gpumc_normal_lpdf(x[i + 1], x[i] * x[i] - 1, 0.5, &g[i + 1], &dmu, NULL);
        g[i] += 2 * x[i] * dmu;
    }
    return lp;
}

struct logistic { double x[LOGISTIC_ROWS][LOGISTIC_COLUMNS], y[LOGISTIC_ROWS]; };

static double logistic_density(const double *x, double *g, void *data)
{
    const struct logistic *d = (const struct logistic *)data;
    double lp = 0;
    for (int k = 0; k < LOGISTIC_COLUMNS; k++) lp += gpumc_std_normal_lpdf(x[k], &g[k]);
    for (int i = 0; i < LOGISTIC_ROWS; i++) {
        double eta = 0, deta = 0;
        for (int k = 0; k < LOGISTIC_COLUMNS; k++) eta += d->x[i][k] * x[k];
        lp += gpumc_bernoulli_logit_lpmf(d->y[i], eta, &deta);
        for (int k = 0; k < LOGISTIC_COLUMNS; k++) g[k] += deta * d->x[i][k];
    }
    return lp;
}

static double schools_density(const double *x, double *g, void *data)     /* mu, tau, theta */
{
    static const double effect[8] = { 28, 8, -3, 7, -1, 1, 18, 12 };
    static const double error[8] = { 15, 10, 16, 11, 9, 11, 10, 18 };
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL)
        + gpumc_half_cauchy_lpdf(x[1], 5, &g[1], NULL);
    (void)data;
    for (int j = 0; j < 8; j++)
        lp += gpumc_normal_lpdf(x[2 + j], x[0], x[1], &g[2 + j], &g[0], &g[1])
            + gpumc_normal_lpdf(effect[j], x[2 + j], error[j], NULL, &g[2 + j], NULL);
    return lp;
}

static void make_scales(double *sd) { for (int i = 0; i < 100; i++) sd[i] = pow(10, -2 + 4 * i / 99.0); }

static void make_spikes(struct spikes *s, size_t n)                        /* Gram-Schmidt on fixed normals */
{
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    s->n = n;
    for (int k = 0; k < SPIKES; k++) {
        double *u = s->v[k], norm = 0;
        for (size_t i = 0; i < n; i++) u[i] = gpumc_rng_normal(&rng);
        for (int j = 0; j < k; j++) {
            double along = 0;
            for (size_t i = 0; i < n; i++) along += u[i] * s->v[j][i];
            for (size_t i = 0; i < n; i++) u[i] -= along * s->v[j][i];
        }
        for (size_t i = 0; i < n; i++) norm += u[i] * u[i];
        for (size_t i = 0; i < n; i++) u[i] /= sqrt(norm);
    }
}

static void make_logistic(struct logistic *d)
{
    gpumc_rng rng = gpumc_rng_at(2, 0, 0, 0);
    double beta[LOGISTIC_COLUMNS];
    for (int k = 0; k < LOGISTIC_COLUMNS; k++) beta[k] = gpumc_rng_normal(&rng);
    for (int i = 0; i < LOGISTIC_ROWS; i++) {
        double eta = 0;
        for (int k = 0; k < LOGISTIC_COLUMNS; k++) eta += (d->x[i][k] = gpumc_rng_normal(&rng)) * beta[k];
        d->y[i] = gpumc_rng_uniform(&rng) < 1 / (1 + exp(-eta)) ? 1 : 0;
    }
}

typedef struct synthetic {
    const char *name;
    size_t dim;
    double (*density)(const double *, double *, void *);
    void *data;
} synthetic;

static int bench_targets(size_t n_seeds)
{
    static double sd[100];
    static struct spikes few, many;
    static struct logistic rows;
    const synthetic list[] = {
        { "iid100", 100, iid_density, NULL },      { "scales100", 100, scales_density, sd },
        { "ar50", 50, ar_density, NULL },          { "spikes100", 100, spikes_density, &few },
        { "spikes1000", MANY, spikes_density, &many },
        { "t4", 50, t4_density, NULL },            { "banana", 20, banana_density, NULL },
        { "logistic", LOGISTIC_COLUMNS, logistic_density, &rows }, { "schools", 8, schools_density, NULL },
    };
    make_scales(sd);
    make_spikes(&few, 100);
    make_spikes(&many, MANY);
    make_logistic(&rows);
    printf("4 chains x (150 + 1000), medians of %.0f seeds\n", (double)n_seeds);
    printf("%-10s %10s %12s %12s %8s %6s %12s\n", "target", "grad/draw", "warm-up", "min ESS", "R-hat", "div",
           "ESS/1000 gr");
    for (size_t t = 0; t < sizeof list / sizeof *list; t++) {
        const int hierarchy = list[t].density == schools_density;
        const gpumc_param params[] = {
            { .name = hierarchy ? "mu" : "x", .size = hierarchy ? 1 : list[t].dim },
            { .name = "tau", .kind = GPUMC_POSITIVE },
            { .name = "theta", .size = 8, .location = "mu", .scale = "tau" },
        };
        const gpumc_model model = { .name = list[t].name, .params = params, .n_params = hierarchy ? 3 : 1,
                                    .log_density = list[t].density, .data = list[t].data };
        score s[MAX_SEEDS];
        double rate[MAX_SEEDS];
        for (size_t k = 0; k < n_seeds; k++) {
            const gpumc_sample_options o = { .num_warmup = 150, .num_samples = 1000, .seed = k + 1,
                                             .sampler = sampler };
            s[k] = judge(&model, &o);
            if (!s[k].ok) return EXIT_FAILURE;
            rate[k] = 1000 * s[k].both / (s[k].warmup + s[k].draws);
        }
        printf("%-10s %10.1f %12.0f %12.0f %8.3f %6.0f %12.1f\n", list[t].name, MEDIAN(s, n_seeds, tree),
               MEDIAN(s, n_seeds, warmup), MEDIAN(s, n_seeds, both), MEDIAN(s, n_seeds, r_hat),
               MEDIAN(s, n_seeds, divergences), bench_median(rate, n_seeds));
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}

/* ---- hierarchical models ------------------------------------------------------------------------- */

/* Groups of few or many rows each, as in the example but with another truth and uneven numbers of rows. */
typedef struct groups_case { const char *name; size_t groups, few, many; double tau; } groups_case;

static const groups_case groups_cases[] = {
    { "100x10", 100, 10, 10, 10 }, { "500x10", 500, 10, 10, 10 }, { "1000x10", 1000, 10, 10, 10 },
    { "mid", 200, 4, 4, 1 }, { "mixed", 200, 1, 200, 1 },
};

static int groups_make(struct rows *d, const groups_case *c)
{
    const size_t most = c->groups * c->many;
    size_t *group = (size_t *)malloc(most * sizeof *group), n = 0;
    double *y = (double *)malloc(most * sizeof *y);
    gpumc_rng rng = gpumc_rng_at(42, 0, 0, 0);
    int done = 0;
    memset(d, 0, sizeof *d);
    d->mu_mean = 0;
    d->mu_sd = 100;
    d->tau_sd = 50;
    d->sigma_sd = 10;
    if (group && y) {
        for (size_t j = 0; j < c->groups; j++) {
            const double theta = 50 + c->tau * gpumc_rng_normal(&rng);
            for (size_t i = 0; i < (j % 2 ? c->many : c->few); i++, n++) {
                group[n] = j;
                y[n] = theta + 2 * gpumc_rng_normal(&rng);
            }
        }
        done = rows_sort(d, c->groups, n, group, y);
    }
    free(group);
    free(y);
    return done;
}

static void groups_free(struct rows *d)
{
    free(d->y);
    free(d->depth);
    free(d->rest);
}

#define GROUPS_PARAMS(n_groups, form) { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, \
    { .name = "sigma", .kind = GPUMC_POSITIVE }, \
    { .name = "theta", .size = (n_groups), .location = "mu", .scale = "tau", .centring = (form) } }

static score groups_run(const void *data, gpumc_centring form, const gpumc_sample_options *o)
{
    struct rows d = *(const struct rows *)data;
    const gpumc_param params[] = GROUPS_PARAMS(d.n_groups, form);
    const gpumc_model model = { .name = "groups", .params = params, .n_params = 4, .log_density = log_density,
                                .data = &d };
    return judge(&model, o);
}

static int listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return 1;
    return 0;
}

/* Runs a model in the requested forms and prints a line for each, then the ratio in ESS/s of learned centring to
   the better fixed form. */
typedef score form_run(const void *data, gpumc_centring form, const gpumc_sample_options *o);
static int bench_forms(const char *name, form_run *run_form, const void *data, size_t n_seeds, const char *forms)
{
    static const char *const names[] = { "learned", "centred", "noncentred" };
    double learned = 0, best = 0;
    for (int form = 0; form < 3; form++) {
        score s[MAX_SEEDS];
        double r_hat = 0, divergences = 0, rate[MAX_SEEDS], median;
        if (forms && !listed(forms, names[form])) continue;
        for (size_t k = 0; k < n_seeds; k++) {
            const gpumc_sample_options o = { .seed = k + 1, .sampler = sampler };
            s[k] = run_form(data, (gpumc_centring)form, &o);
            if (!s[k].ok) return 0;
            r_hat = fmax(r_hat, s[k].r_hat);
            divergences = fmax(divergences, s[k].divergences);
            rate[k] = fmin(s[k].bulk, s[k].tail) / s[k].seconds;
        }
        median = bench_median(rate, n_seeds);
        if (form == GPUMC_CENTRING_LEARNED) learned = median;
        else best = fmax(best, median);
        printf("%-11s %-11s %9.0f %9.0f %8.3f %5.0f %7.1f %9.0f %9.0f %9.3f %9.0f\n", name, names[form],
               MEDIAN(s, n_seeds, bulk), MEDIAN(s, n_seeds, tail), r_hat, divergences, MEDIAN(s, n_seeds, tree),
               MEDIAN(s, n_seeds, warmup), MEDIAN(s, n_seeds, draws), MEDIAN(s, n_seeds, seconds), median);
        fflush(stdout);
    }
    if (learned > 0 && best > 0) printf("%-11s learned / better fixed form: %.2f\n", name, learned / best);
    return 1;
}

static void print_forms_head(size_t n_seeds)
{
    printf("4 chains x (warm-up by model + 1000), medians of %.0f seeds; R-hat, divergences: worst seed\n",
           (double)n_seeds);
    printf("%-11s %-11s %9s %9s %8s %5s %7s %9s %9s %9s %9s\n", "model", "form", "bulk", "tail", "R-hat",
           "div", "tree", "warm-up", "draws", "seconds", "ESS/s");
}

static int bench_groups(size_t n_seeds, const char *models, const char *forms)
{
    print_forms_head(n_seeds);
    for (size_t m = 0; m < sizeof groups_cases / sizeof *groups_cases; m++) {
        struct rows d;
        int done;
        if (models && !listed(models, groups_cases[m].name)) continue;
        if (!groups_make(&d, &groups_cases[m])) { groups_free(&d); return run_failed("out of memory"); }
        done = bench_forms(groups_cases[m].name, groups_run, &d, n_seeds, forms);
        groups_free(&d);
        if (!done) return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* ---- correlated populations ---------------------------------------------------------------------- */

/* An intercept and two slopes per group with correlations of 0.8. The non-centred form is the one that users of
   Stan write. */
enum { VARYING = 3, MOST_LINES = 200, MOST_LINE_ROWS = 8000 };
typedef struct lines_case { const char *name; size_t groups, each; double middle; } lines_case;  /* of covariates */
static const lines_case lines_cases[] = { { "30x5", 30, 5, 0 }, { "100x10", 100, 10, 0 },
    { "200x40", 200, 40, 0 }, { "100x10, raw", 100, 10, 10 } };
typedef struct lines {
    size_t n_groups, n_rows, group[MOST_LINE_ROWS], which[VARYING][MOST_LINES];
    double columns[VARYING][MOST_LINE_ROWS];           /* y, and the two covariates of the slopes */
} lines;

GPUMC_ROW(line_row, 3, 1, 3)
{
    gpumc_real d = 0;
    const gpumc_real eta = p[0] + p[1] * x[1] + p[2] * x[2];
    const gpumc_real lp = gpumc_normal_lpdf(x[0], eta, p[3], NULL, &d, &g[3]);
    g[0] = d;
    g[1] = d * x[1];
    g[2] = d * x[2];
    return lp;
}

static void lines_make(lines *l, const lines_case *c)
{
    gpumc_rng rng = gpumc_rng_at(42, 0, 0, 0);
    l->n_groups = c->groups;
    l->n_rows = c->groups * c->each;
    for (size_t k = 0; k < VARYING; k++)
        for (size_t j = 0; j < c->groups; j++) l->which[k][j] = k;
    for (size_t j = 0; j < c->groups; j++) {
        const double common = gpumc_rng_normal(&rng);
        double theta[VARYING];
        for (size_t k = 0; k < VARYING; k++)
            theta[k] = 1 + (double)k + 0.7 * (sqrt(0.8) * common + sqrt(0.2) * gpumc_rng_normal(&rng));
        for (size_t i = j * c->each; i < (j + 1) * c->each; i++) {
            l->group[i] = j;
            l->columns[1][i] = c->middle + gpumc_rng_normal(&rng);
            l->columns[2][i] = c->middle + gpumc_rng_normal(&rng);
            l->columns[0][i] = theta[0] + theta[1] * l->columns[1][i] + theta[2] * l->columns[2][i]
                + gpumc_rng_normal(&rng);
        }
    }
}

static score lines_run(const void *data, gpumc_centring form, const gpumc_sample_options *o)
{
    static const size_t dims[] = { VARYING, VARYING };
    static const char *const names[VARYING] = { "intercept", "slope", "other_slope" };
    const lines *l = (const lines *)data;
    gpumc_param params[4 + VARYING] = { { .name = "mu", .size = VARYING },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = VARYING }, { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = dims, .n_dims = 2 } };
    const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 5, 0 },
        { "tau", gpumc_prior_half_normal, 2, 0, 0 }, { "sigma", gpumc_prior_half_normal, 2, 0, 0 },
        { "L", gpumc_prior_lkj_corr_cholesky, 2, 0, 0 } };
    const double *const columns[VARYING] = { l->columns[0], l->columns[1], l->columns[2] };
    gpumc_hier_take takes[VARYING + 1];
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = VARYING + 1,
        .data = { .kind = &line_row, .n_rows = l->n_rows, .columns = columns } };
    const gpumc_hier_data d = { .name = "lines", .params = params, .n_params = 4 + VARYING, .priors = priors,
                                .n_priors = 4, .rows = &rows, .n_rows = 1 };
    gpumc_error error;
    gpumc_hier *hier;
    score s = { .ok = 0 };
    for (size_t k = 0; k < VARYING; k++) {
        params[4 + k] = (gpumc_param){ .name = names[k], .size = l->n_groups, .location = "mu", .scale = "tau",
            .location_index = l->which[k], .scale_index = l->which[k], .factor = "L", .centring = form };
        takes[k] = (gpumc_hier_take){ names[k], l->group };
    }
    takes[VARYING] = (gpumc_hier_take){ "sigma", NULL };
    hier = gpumc_hier_create(&d, &error);
    if (hier) s = judge(gpumc_hier_model(hier), o);
    else run_failed(error.text);
    gpumc_hier_free(hier);
    return s;
}

static int bench_correlated(size_t n_seeds, const char *forms)
{
    static lines l;
    print_forms_head(n_seeds);
    for (size_t m = 0; m < sizeof lines_cases / sizeof *lines_cases; m++) {
        lines_make(&l, &lines_cases[m]);
        if (!bench_forms(lines_cases[m].name, lines_run, &l, n_seeds, forms)) return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* ---- stationary series --------------------------------------------------------------------------- */

/* Latent AR(1) series h. With one person: stochastic volatility, h the log variance of y, stationary about mu.
   With several: h the log rates of counts y, each person's series stationary about a mean of its own. */
enum { MOST_PEOPLE = 60, MOST_TIMES = 1000, MOST_STATES = 1000 };
typedef struct series_case { const char *name; size_t people, times; double phi, tau; } series_case;
static const series_case series_cases[] = { { "volatility, 200 days", 1, 200, 0.95, 0.2 },
    { "volatility, 1000 days", 1, 1000, 0.97, 0.2 }, { "60 x 8 counts", 60, 8, 0.7, 0.3 },
    { "60 x 8 counts, slow", 60, 8, 0.9, 0.6 } };
typedef enum series_form { AS_SERIES, AS_WALKS, BY_HAND, N_FORMS } series_form;
typedef struct states {
    series_case of;
    series_form form;
    double y[MOST_STATES];
    size_t person[MOST_STATES];
} states;

static void series_make(states *d, const series_case *c, uint64_t seed)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    d->of = *c;
    for (size_t p = 0, i = 0; p < c->people; p++) {
        const double mean = c->people > 1 ? 1 + 0.6 * gpumc_rng_normal(&rng) : -1;
        double h = mean + c->tau / sqrt(1 - c->phi * c->phi) * gpumc_rng_normal(&rng);
        for (size_t t = 0; t < c->times; t++, i++) {
            if (t > 0) h = mean + c->phi * (h - mean) + c->tau * gpumc_rng_normal(&rng);
            d->y[i] = c->people > 1 ? (double)gpumc_poisson_rng(&rng, exp(h)) : exp(h / 2) * gpumc_rng_normal(&rng);
            d->person[i] = p;
        }
    }
}

/* Log likelihood of the data y given the states h; adds its derivatives to by_h. */
static double series_seen(const states *d, const double *h, double *by_h)
{
    const size_t n = d->of.people * d->of.times;
    double lp = 0;
    for (size_t i = 0; i < n; i++) {
        const double sigma = exp(h[i] / 2);
        double by_sigma = 0;
        if (d->of.people > 1) { lp += gpumc_poisson_log_lpmf(d->y[i], h[i], &by_h[i]); continue; }
        lp += gpumc_normal_lpdf(d->y[i], 0, sigma, NULL, NULL, &by_sigma);
        by_h[i] += by_sigma * sigma / 2;
    }
    return lp;
}

/* x: mu, phi, tau, omega, means, states h. BY_HAND: the means and states are the standardised innovations of the
   non-centred form instead. */
static double series_density(const double *x, double *g, void *data)
{
    const states *d = (const states *)data;
    const size_t S = d->of.people, T = d->of.times;
    const double phi = x[1], tau = x[2], root = sqrt(1 - phi * phi), *m = x + 4, *z = m + S;
    const int by_hand = d->form == BY_HAND;
    double h[MOST_STATES], by_h[MOST_STATES] = { 0 }, *by_m = g + 4, *by_z = by_m + S, by_u = 0, lp;
    lp = gpumc_normal_lpdf(x[0], 0, 2, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(tau, 0.5, &g[2], NULL)
        + gpumc_half_normal_lpdf(x[3], 1, &g[3], NULL) + gpumc_beta_lpdf((phi + 1) / 2, 20, 1.5, &by_u, NULL, NULL);
    g[1] += by_u / 2;
    for (size_t p = 0; p < S; p++) {
        const double mean = S > 1 && by_hand ? x[0] + x[3] * m[p] : S > 1 ? m[p] : x[0];
        lp += by_hand || S == 1 ? gpumc_std_normal_lpdf(m[p], &by_m[p])
                                : gpumc_normal_lpdf(m[p], x[0], x[3], &by_m[p], &g[0], &g[3]);
        for (size_t t = 0, i = p * T; t < T; t++, i++)
            h[i] = !by_hand ? z[i] : t == 0 ? mean + tau / root * z[i] : mean + phi * (h[i - 1] - mean) + tau * z[i];
    }
    lp += series_seen(d, h, by_h);
    for (size_t p = 0; p < S; p++) {
        const double mean = S > 1 && by_hand ? x[0] + x[3] * m[p] : S > 1 ? m[p] : x[0];
        double by_mean = 0;
        for (size_t t = T, i = p * T + T; t-- > 0;) {
            const double scale = t == 0 ? tau / root : tau, from = t == 0 ? mean : mean + phi * (h[--i - 1] - mean);
            double by_from = 0, by_scale = 0;
            if (t == 0) i--;
            if (by_hand) {
                lp += gpumc_std_normal_lpdf(z[i], &by_z[i]);
                by_z[i] += scale * by_h[i];
                by_scale = z[i] * by_h[i];
                by_from = by_h[i];
            } else lp += gpumc_normal_lpdf(h[i], from, scale, &by_h[i], &by_from, &by_scale);
            by_mean += t == 0 ? by_from : (1 - phi) * by_from;
            g[1] += t == 0 ? by_scale * tau * phi / (root * root * root) : by_from * (h[i - 1] - mean);
            g[2] += t == 0 ? by_scale / root : by_scale;
            if (t > 0) by_h[i - 1] += phi * by_from;
            if (!by_hand) by_z[i] += by_h[i];
        }
        if (S == 1) g[0] += by_mean;
        else if (!by_hand) by_m[p] += by_mean;
        else { g[0] += by_mean; g[3] += by_mean * m[p]; by_m[p] += by_mean * x[3]; }
    }
    return lp;
}

static score series_run(const states *d, const gpumc_sample_options *o)
{
    const size_t dims[] = { d->of.people, d->of.times };
    const int declared = d->form != BY_HAND, own = d->of.people > 1;
    const gpumc_param params[] = { { .name = "mu" },
        { .name = "phi", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "omega", .kind = GPUMC_POSITIVE },
        { .name = "mean", .size = d->of.people, .location = declared && own ? "mu" : NULL,
          .scale = declared && own ? "omega" : NULL },
        { .name = "h", .dims = dims, .n_dims = 2, .location = !declared ? NULL : own ? "mean" : "mu",
          .location_index = declared && own ? d->person : NULL, .scale = declared ? "tau" : NULL,
          .walk_dim = declared ? 2 : 0, .walk_coefficient = d->form == AS_SERIES ? "phi" : NULL } };
    const gpumc_model model = { .name = d->of.name, .params = params, .n_params = 6, .log_density = series_density,
                                .data = (void *)d };
    return judge(&model, o);
}

static int bench_series(size_t n_seeds)
{
    static const char *const names[N_FORMS] = { "series", "walks", "by hand" };
    static states d;
    printf("\nmedians of %zu seeds, of another data set each; effective draws per 1000 gradients, those of warm-up "
           "included\n%-22s %-8s %8s %8s %8s %14s\n", n_seeds, "", "form", "ESS/1000", "gradients", "R-hat",
           "no warning");
    for (size_t c = 0; c < sizeof series_cases / sizeof *series_cases; c++)
        for (d.form = AS_SERIES; d.form < N_FORMS; d.form = (series_form)(d.form + 1)) {
            score all[MAX_SEEDS];
            double least[MAX_SEEDS], total[MAX_SEEDS], quiet = 0;
            for (size_t k = 0; k < n_seeds; k++) {
                const gpumc_sample_options o = { .seed = k + 1, .sampler = sampler };
                series_make(&d, &series_cases[c], k + 1);
                all[k] = series_run(&d, &o);
                if (!all[k].ok) return EXIT_FAILURE;
                total[k] = all[k].warmup + all[k].draws;
                least[k] = 1000 * fmin(fmin(all[k].bulk, all[k].tail), all[k].both) / total[k];
                quiet += all[k].quiet;
            }
            printf("%-22s %-8s %8.2f %8.0f %8.4f %7.0f of %zu\n", d.of.name, names[d.form],
                   bench_median(least, n_seeds), bench_median(total, n_seeds), MEDIAN(all, n_seeds, r_hat), quiet,
                   n_seeds);
        }
    return EXIT_SUCCESS;
}

/* ---- samplers side by side ----------------------------------------------------------------------- */

/* Prints one row. For each sampler: effective draws per 1000 gradients after warm-up, as the least over parameters
   and over the ESS of bulk, of tails and of squares; in brackets thousands of them per second, warm-up
   included. Then the worst R-hat, and how often the automatic choice was NUTS, MAMS or HMC. */
static int compare_row(const gpumc_model *model, size_t n_seeds)
{
    double rate[4][MAX_SEEDS], speed[4][MAX_SEEDS], r_hat = 0, chosen[4] = { 0 };
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < n_seeds; i++) {
            const gpumc_sample_options o = { .num_samples = 2000, .seed = i + 1, .threads = 1,
                                             .sampler = (gpumc_sampler)k };
            const score s = judge(model, &o);
            const double least = fmin(s.bulk, fmin(s.tail, s.both));
            if (!s.ok) return 0;
            rate[k][i] = 1000 * least / s.draws;
            speed[k][i] = 1e-3 * least / s.seconds;
            r_hat = fmax(r_hat, s.r_hat);
            if (k == 0) chosen[(int)s.sampler]++;
        }
    printf("%-10s", model->name);
    for (int k = 1; k <= 4; k++)
        printf(" %7.1f (%6.2f)", bench_median(rate[k % 4], n_seeds), bench_median(speed[k % 4], n_seeds));
    printf(" %7.3f  %.0f %.0f %.0f\n", r_hat, chosen[1], chosen[2], chosen[3]);
    fflush(stdout);
    return 1;
}

static int bench_samplers(size_t n_seeds, const char *models)
{
    const gpumc_param params_of_schools[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 8, .location = "mu", .scale = "tau" },
    };
    const gpumc_model eight = { .name = "schools", .params = params_of_schools, .n_params = 3,
                                .log_density = schools_density };
    int done = 1;
    printf("4 chains x (warm-up by model + 2000), one thread, medians of %.0f seeds: least ESS per 1000 draw "
           "gradients\n(thousands of them a second, warm-up included); R-hat: worst; chosen: seeds with "
           "NUTS, MAMS, HMC\n", (double)n_seeds);
    printf("%-10s %16s %16s %16s %16s %7s  chosen\n", "model", "nuts", "mams", "hmc", "auto", "R-hat");
    for (size_t m = 0; done && m < sizeof groups_cases / sizeof *groups_cases; m++) {
        struct rows d;
        if (models && !listed(models, groups_cases[m].name)) continue;
        if (!groups_make(&d, &groups_cases[m])) { groups_free(&d); return run_failed("out of memory"); }
        const gpumc_param params[] = GROUPS_PARAMS(d.n_groups, GPUMC_CENTRING_LEARNED);
        const gpumc_model model = { .name = groups_cases[m].name, .params = params, .n_params = 4,
                                    .log_density = log_density, .data = &d };
        done = compare_row(&model, n_seeds);
        groups_free(&d);
    }
    if (done && (!models || listed(models, "schools"))) done = compare_row(&eight, n_seeds);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- tails --------------------------------------------------------------------------------------- */

/* A random walk w that starts from mu, observed with noise: mu ~ normal(0, 3), tau ~ half_normal(1),
   w[0] ~ normal(mu, tau), w[t] ~ normal(w[t - 1], tau), y[t] ~ normal(w[t], 0.5). */
enum { STEPS = 20 };
typedef struct walk { double y[STEPS]; } walk;

static double walk_density(const double *x, double *g, void *data)         /* tau, mu, w */
{
    const walk *d = (const walk *)data;
    double lp = gpumc_half_normal_lpdf(x[0], 1, &g[0], NULL) + gpumc_normal_lpdf(x[1], 0, 3, &g[1], NULL, NULL);
    for (int t = 0; t < STEPS; t++)
        lp += gpumc_normal_lpdf(x[2 + t], x[1 + t], x[0], &g[2 + t], &g[1 + t], &g[0])
              + gpumc_normal_lpdf(d->y[t], x[2 + t], 0.5, NULL, &g[2 + t], NULL);
    return lp;
}

static void walk_make(walk *d, uint64_t seed)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    double w = 0;
    for (int t = 0; t < STEPS; t++) {
        w += 0.2 * gpumc_rng_normal(&rng);
        d->y[t] = w + 0.5 * gpumc_rng_normal(&rng);
    }
}

/* log density of q = log tau, w integrated out by a Kalman filter, up to a constant. */
static double walk_marginal(const void *data, double q)
{
    const walk *d = (const walk *)data;
    const double tau = exp(q);
    double m = 0, v = 9, lp = q - 0.5 * tau * tau;
    for (int t = 0; t < STEPS; t++) {
        const double all = (v += tau * tau) + 0.25, off = d->y[t] - m, gain = v / all;
        lp -= 0.5 * (log(all) + off * off / all);
        m += gain * off;
        v *= 1 - gain;
    }
    return lp;
}

/* The sd of q = log tau, by a grid. */
static double log_scale_sd(double (*marginal)(const void *data, double q), const void *data)
{
    enum { POINTS = 20000 };
    double weight = 0, sum = 0, squares = 0;
    const double top = marginal(data, -1);
    for (int i = 0; i < POINTS; i++) {
        const double q = -25 + 31 * (i + 0.5) / POINTS, p = exp(marginal(data, q) - top);
        weight += p;
        sum += q * p;
        squares += q * q * p;
    }
    return sqrt(squares / weight - sum * sum / (weight * weight));
}

/* Values on a lattice that are drawn to their neighbours, not declared: tau ~ half_normal(1), w ~ normal with
   precision Q / tau^2, Q: number of neighbours, -0.9 between neighbours; y ~ normal(w, 0.5). */
enum { SIDE = 6, SITES = SIDE * SIDE };
typedef struct lattice { double y[SITES], Q[SITES * SITES]; } lattice;

static double lattice_density(const double *x, double *g, void *data)        /* tau, w */
{
    const lattice *d = (const lattice *)data;
    const double *w = x + 1, tau = x[0];
    double lp = gpumc_half_normal_lpdf(tau, 1, &g[0], NULL) - SITES * log(tau), square = 0;
    for (int i = 0; i < SITES; i++) {
        const double Qw = gpumc__dot(d->Q + i * SITES, w, SITES);
        lp += gpumc_normal_lpdf(d->y[i], w[i], 0.5, NULL, &g[1 + i], NULL);
        g[1 + i] -= Qw / (tau * tau);
        square += w[i] * Qw;
    }
    g[0] += (square / (tau * tau) - SITES) / tau;
    return lp - 0.5 * square / (tau * tau);
}

static void lattice_make(lattice *d)
{
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    memset(d, 0, sizeof *d);
    for (int i = 0; i < SITES; i++) {
        for (int j = 0; j < SITES; j++) {
            if (abs(i / SIDE - j / SIDE) + abs(i % SIDE - j % SIDE) != 1) continue;
            d->Q[i * SITES + j] = -0.9;
            d->Q[i * SITES + i]++;
        }
        d->y[i] = 0.3 * sin(i / SIDE) + 0.5 * gpumc_rng_normal(&rng);
    }
}

static double lattice_marginal(const void *data, double q)
{
    const lattice *d = (const lattice *)data;
    const double tau = exp(q);
    double H[SITES * SITES], b[SITES], lp = q - 0.5 * tau * tau - SITES * q;
    for (int i = 0; i < SITES * SITES; i++) H[i] = d->Q[i] / (tau * tau) + (i % (SITES + 1) ? 0 : 4);
    for (int i = 0; i < SITES; i++) b[i] = 4 * d->y[i];
    gpumc__cholesky(H, SITES);
    gpumc__solve_lower(H, SITES, b);
    for (int i = 0; i < SITES; i++) lp -= log(H[i * SITES + i]);
    return lp + 0.5 * gpumc__dot(b, b, SITES);
}

/* A hierarchy that is not declared: mu ~ normal(0, 5), tau ~ half_cauchy(5), theta[j] ~ normal(mu, tau),
   y[j] ~ normal(theta[j], se[j]). */
enum { MOST_GROUPS = 100 };
typedef struct plain { size_t n; double y[MOST_GROUPS], se[MOST_GROUPS]; } plain;

static double plain_density(const double *x, double *g, void *data)          /* tau, mu, theta */
{
    const plain *d = (const plain *)data;
    double lp = gpumc_half_cauchy_lpdf(x[0], 5, &g[0], NULL) + gpumc_normal_lpdf(x[1], 0, 5, &g[1], NULL, NULL);
    for (size_t j = 0; j < d->n; j++)
        lp += gpumc_normal_lpdf(x[2 + j], x[1], x[0], &g[2 + j], &g[1], &g[0])
              + gpumc_normal_lpdf(d->y[j], x[2 + j], d->se[j], NULL, &g[2 + j], NULL);
    return lp;
}

static plain plain_make(size_t n, double tau)
{
    plain d = { n, { 0 }, { 0 } };
    gpumc_rng rng = gpumc_rng_at(n, 0, 0, 0);
    for (size_t j = 0; j < n; j++) {
        const double theta = 1 + tau * gpumc_rng_normal(&rng);
        d.se[j] = 1 + gpumc_rng_uniform(&rng);
        d.y[j] = theta + d.se[j] * gpumc_rng_normal(&rng);
    }
    return d;
}

/* log density of q = log tau, theta and mu integrated out, up to a constant. */
static double plain_marginal(const void *data, double q)
{
    const plain *d = (const plain *)data;
    const double tau = exp(q);
    double A = 1. / 25, B = 0, lp = q - log1p(tau * tau / 25);
    for (size_t j = 0; j < d->n; j++) {
        const double v = d->se[j] * d->se[j] + tau * tau;
        lp -= 0.5 * (log(v) + d->y[j] * d->y[j] / v);
        A += 1 / v;
        B += d->y[j] / v;
    }
    return lp + 0.5 * (B * B / A - log(A));
}

/* The funnel of Neal (2003): v ~ normal(0, 3), x[i] ~ normal(0, exp(v / 2)). */
enum { FUNNEL = 9 };
static double funnel_density(const double *x, double *g, void *data)
{
    const double sd = exp(0.5 * x[0]);
    double lp = gpumc_normal_lpdf(x[0], 0, 3, &g[0], NULL, NULL), by_sd = 0;
    (void)data;
    for (int i = 1; i <= FUNNEL; i++) lp += gpumc_normal_lpdf(x[i], 0, sd, &g[i], NULL, &by_sd);
    g[0] += 0.5 * sd * by_sd;
    return lp;
}

/* Mixture of two normals in n dimensions, (1 - share) normal(0, 1)^n + share normal(at, width)^n. */
typedef struct two { size_t n; double share, at, width; } two;

static double two_density(const double *x, double *g, void *data)
{
    const two *d = (const two *)data;
    double a = log(1 - d->share), b = log(d->share);
    for (size_t i = 0; i < d->n; i++) {
        a += gpumc_normal_lpdf(x[i], 0, 1, NULL, NULL, NULL);
        b += gpumc_normal_lpdf(x[i], d->at, d->width, NULL, NULL, NULL);
    }
    const double of_b = gpumc_inv_logit(b - a);
    for (size_t i = 0; i < d->n; i++)
        g[i] -= (1 - of_b) * x[i] + of_b * (x[i] - d->at) / (d->width * d->width);
    return gpumc_log_sum_exp(a, b);
}
static double two_truth(const two *d)
{ return sqrt(1 - d->share + d->share * (d->width * d->width + d->at * d->at * (1 - d->share))); }

/* Prints one line per sampler about the runs without a warning: their number, and how their sd of the first column
   (log_scale: of its logarithm) compares with the truth. */
static int tails_rows(const gpumc_model *model, int log_scale, double truth, size_t n_seeds)
{
    static const gpumc_sampler samplers[] = { GPUMC_SAMPLER_AUTO, GPUMC_SAMPLER_NUTS };
    for (size_t k = 0; k < 2; k++) {
        double silent = 0, hmc = 0, sum = 0, squares = 0, off = 0, gradients = 0;
        for (size_t i = 0; i < n_seeds; i++) {
            const gpumc_sample_options o = { .seed = i + 1, .threads = 1, .sampler = samplers[k] };
            gpumc_fit fit;
            double values[4000];
            size_t warnings = 0;
            if (gpumc_sample(model, &o, &fit) != GPUMC_OK) { run_failed(fit.message); return 0; }
            for (size_t w = 0; w < fit.n_warnings; w++) warnings += !fit.warnings[w].note;
            for (size_t c = 0; c < 4; c++)
                for (size_t j = 0; j < 1000; j++) {
                    const double x = fit.draws[(c * fit.draw_capacity + j) * fit.n_columns];
                    values[1000 * c + j] = log_scale ? log(x) : x;
                }
            const gpumc_series series = { values, 4, 1000, 0, 0 };
            const double sd = gpumc_sd(series).value, z = (sd - truth) / gpumc_mcse_sd(series).value;
            gradients += (double)(fit.warmup_gradients + fit.sampling_gradients) / (double)n_seeds;
            hmc += !warnings && fit.sampler == GPUMC_SAMPLER_HMC;
            if (!warnings) { silent++; sum += sd; squares += z * z; off += fabs(z) > 5; }
            gpumc_free(&fit);
        }
        printf("%-28s %5s %7.0f %5.0f %9.3f %9.3f %7.1f %7.0f %10.0f\n", k ? "" : model->name,
               sampler_names[samplers[k]], silent, hmc, truth, sum / silent, sqrt(squares / silent), off, gradients);
        fflush(stdout);
    }
    return 1;
}

static int bench_tails(size_t n_seeds)
{
    static const two twos[] = { { 2, 0.05, 0, 20 }, { 10, 0.1, 0, 5 }, { 5, 0.1, 3, 1 } };
    const gpumc_param of_walk[] = {
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "mu" },
        { .name = "w", .size = STEPS, .location = "mu", .scale = "tau", .walk_dim = 1 },
    };
    static const gpumc_param of_lattice[] = { { .name = "tau", .kind = GPUMC_POSITIVE },
                                              { .name = "w", .size = SITES } };
    static const gpumc_param of_funnel[] = { { .name = "v" }, { .name = "x", .size = FUNNEL } };
    static const size_t groups[] = { 8, 30, MOST_GROUPS };
    char name[80];
    int done = 1;
    printf("4 chains x (warm-up by model + 1000), %.0f seeds; of the runs without a warning: how many are HMC's,\n"
           "true and mean sd, root of the mean square of z = (sd - truth) / mcse_sd (1 is right), |z| > 5\n",
           (double)n_seeds);
    printf("%-28s %5s %7s %5s %9s %9s %7s %7s %10s\n", "model", "", "silent", "HMC", "true", "mean", "rms z", "off",
           "gradients");
    for (uint64_t seed = 1; seed <= 4 && done; seed++) {
        walk d;
        walk_make(&d, seed);
        snprintf(name, sizeof name, "walk, data %.0f: log tau", (double)seed);
        const gpumc_model model = { .name = name, .params = of_walk, .n_params = 3, .log_density = walk_density,
                                    .data = &d };
        done = tails_rows(&model, 1, log_scale_sd(walk_marginal, &d), n_seeds);
    }
    for (size_t k = 0; k < sizeof groups / sizeof *groups && done; k++) {
        plain d = plain_make(groups[k], k ? 0.3 : 1);
        const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "mu" },
                                       { .name = "theta", .size = d.n } };
        snprintf(name, sizeof name, "%.0f groups, undeclared", (double)d.n);
        const gpumc_model model = { .name = name, .params = params, .n_params = 3, .log_density = plain_density,
                                    .data = &d };
        done = tails_rows(&model, 1, log_scale_sd(plain_marginal, &d), n_seeds);
    }
    lattice sites;
    lattice_make(&sites);
    const gpumc_model of_sites = { .name = "lattice of 6 x 6, undeclared", .params = of_lattice, .n_params = 2,
                                   .log_density = lattice_density, .data = &sites };
    if (done) done = tails_rows(&of_sites, 1, log_scale_sd(lattice_marginal, &sites), n_seeds);
    const gpumc_model funnel = { .name = "funnel: v", .params = of_funnel, .n_params = 2,
                                 .log_density = funnel_density };
    if (done) done = tails_rows(&funnel, 0, 3, n_seeds);
    for (size_t k = 0; k < sizeof twos / sizeof *twos && done; k++) {
        two d = twos[k];
        const gpumc_param x = { .name = "x", .size = d.n };
        snprintf(name, sizeof name, "%.0f dim, %g of N(%g, %g)", (double)d.n, d.share, d.at, d.width);
        const gpumc_model model = { .name = name, .params = &x, .n_params = 1, .log_density = two_density,
                                    .data = &d };
        done = tails_rows(&model, 0, two_truth(&d), n_seeds);
    }
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- overhead ------------------------------------------------------------------------------------ */

/* Nanoseconds of a call of the density alone, least of n timings. */
static double density_time(const struct rows *d, const double *x, int n_timings)
{
    const size_t n = d->n_groups + 3, repeats = 1 + 20000000 / (n * 10);
    double *g = (double *)malloc(n * sizeof *g), least = HUGE_VAL, sink = 0;
    for (int k = 0; g && k < n_timings; k++) {
        const double begin = bench_seconds();
        for (size_t r = 0; r < repeats; r++) {
            memset(g, 0, n * sizeof *g);
            sink += log_density(x, g, (void *)d);
        }
        least = fmin(least, (bench_seconds() - begin) / (double)repeats);
    }
    free(g);
    return sink < 0 ? 1e9 * least : 0;
}

/* One chain driven step by step, to time leapfrog steps after warm-up; transform and tree are included. */
typedef struct chain {
    gpumc_layout *layout;
    gpumc_adapt *adapt;
    gpumc_nuts *nuts;
    double *q, *work;
} chain;

static size_t chain_draws(chain *c, size_t n_draws, int warmup)
{
    size_t n_gradients = 0;
    for (size_t i = 0; i < n_draws;) {
        const double *q = gpumc_nuts_ask(c->nuts);
        double *g = gpumc__nuts_gradient_wanted(c->nuts);          /* in place, as gpumc_sample has it */
        const double lp = gpumc_model_eval(c->layout, q, g, c->work);
        n_gradients++;
        if (!gpumc_nuts_tell(c->nuts, lp, g)) continue;
        if (warmup && !gpumc_adapt_update(c->adapt, &c->nuts)) break;
        i += !warmup;
    }
    return n_gradients;
}

static double *doubles(size_t bytes) { return (double *)calloc(bytes / sizeof(double) + 1, sizeof(double)); }

/* Returns a chain that has finished its warm-up. Its memory is never freed. */
static chain chain_new(const gpumc_model *model)
{
    const gpumc_adapt_options o = { .seed = 1, .sampler = sampler };
    const size_t layout = gpumc_layout_bytes(model, NULL);
    chain c;
    c.layout = gpumc_layout_init(model, doubles(layout), layout, NULL);
    const size_t dim = gpumc_layout_dim(c.layout), nuts = gpumc_nuts_bytes(dim, 10);
    const size_t adapt = gpumc_adapt_bytes(c.layout, dim, &o);
    c.adapt = gpumc_adapt_init(doubles(adapt), adapt, c.layout, dim, &o, NULL);
    c.q = doubles(dim * sizeof(double));
    c.work = doubles(gpumc_layout_work(c.layout) * sizeof(double));
    c.nuts = gpumc_nuts_init(doubles(nuts), nuts, dim, 10, gpumc_adapt_metric(c.adapt, 0), 0, 1, 0, c.q,
                             NULL);
    chain_draws(&c, 1, 1);
    return c;
}

/* Nanoseconds per draw, least of n runs; sets the gradients per draw (of the last run). */
static double draw_time(chain *c, size_t n_draws, int n_timings, double *gradients)
{
    double least = HUGE_VAL;
    for (int repeat = 0; repeat < n_timings; repeat++) {
        const double begin = bench_seconds();
        *gradients = (double)chain_draws(c, n_draws, 0) / (double)n_draws;
        least = fmin(least, 1e9 * (bench_seconds() - begin) / (double)n_draws);
    }
    return least;
}

/* Timing trajectories of the chosen length and of four times that length separates the cost of a leapfrog step from
   the fixed cost of a draw. Trees have no set length: for NUTS only the mean per gradient is known. */
static int bench_overhead(int n_timings)
{
    const size_t dims[] = { 10, 100, 1000 };
    printf("one chain, groups of 10 rows; nanoseconds of processor time, least of %d runs\n", n_timings);
    printf("%10s %12s %10s %10s %10s %14s\n", "parameters", "leapfrog", "density", "overhead", "and a draw",
           "gradients/draw");
    for (int k = 0; k < 3; k++) {
        const groups_case groups = { "overhead", dims[k] - 3, 10, 10, 10 };
        struct rows d;
        const size_t n_draws = 2000000 / dims[k];
        double draw, leapfrog, density, gradients, more = 0, own = 0;
        if (!groups_make(&d, &groups)) return run_failed("out of memory");
        const gpumc_param params[] = GROUPS_PARAMS(d.n_groups, GPUMC_CENTRING_LEARNED);
        const gpumc_model model = { .name = "groups", .params = params, .n_params = 4,
                                    .log_density = log_density, .data = &d };
        chain c = chain_new(&model);
        draw = draw_time(&c, n_draws, n_timings, &gradients);
        leapfrog = draw / gradients;
        if (c.nuts->sampler != GPUMC_SAMPLER_NUTS) {
            gpumc_nuts_set_path(c.nuts, c.nuts->sampler, 4 * c.nuts->length, c.nuts->window);
            leapfrog = (draw_time(&c, n_draws / 4, n_timings, &more) - draw) / (more - gradients);
            own = draw - gradients * leapfrog;
        }
        density = density_time(&d, c.work, n_timings);    /* at the natural values of the last point */
        printf("%10.0f %12.0f %10.0f %10.0f %10.0f %14.1f\n", (double)dims[k], leapfrog, density,
               leapfrog - density, own, gradients);
        groups_free(&d);
    }
    return EXIT_SUCCESS;
}

/* ---- published posteriors ------------------------------------------------------------------------ */

/* The log density of a model alone. */
static double value_of(const double *x, void *data)
{
    const gpumc_model *m = (const gpumc_model *)data;
    double *grad = (double *)calloc(gpumc_model_n_values(m), sizeof *grad);
    const double lp = grad ? m->log_density(x, grad, m->data) : -INFINITY;
    free(grad);
    return lp;
}

static int bench_posteriordb(size_t n_seeds, int differences)
{
    const char *folder = getenv("GPUMC_POSTERIORDB");
    if (!folder) return run_failed("set GPUMC_POSTERIORDB to the folder of the files");
    printf("4 chains x (warm-up by model + 1000), medians of %.0f seeds; R-hat: worst seed\n",
           (double)n_seeds);
    printf("%-32s %7s %9s %9s %9s %8s %5s %9s %12s\n", "posterior", "tree", "gradients", "bulk", "tail",
           "R-hat", "div", "seconds", "ESS/1000 gr");
    for (size_t i = 0; i < N_POSTERIORS; i++) {
        posterior_model m;
        score s[MAX_SEEDS];
        double r_hat = 0, rate[MAX_SEEDS];
        char path[1024];
        size_t n = 0;
        snprintf(path, sizeof path, "%s/%s.data.json", folder, posteriors[i].name);
        posterior_open(&posteriors[i], path, &m);
        if (m.error) printf("%-32.32s %s\n", posteriors[i].name, m.error);
        for (; !m.error && n < n_seeds; n++) {
            const gpumc_sample_options o = { .seed = n + 1, .sampler = sampler };
            const gpumc_model only = { .name = m.model.name, .params = m.model.params,
                .n_params = m.model.n_params, .log_density_only = value_of, .data = &m.model };
            s[n] = judge(differences ? &only : &m.model, &o);
            if (!s[n].ok) break;
            r_hat = fmax(r_hat, s[n].r_hat);
            rate[n] = 1000 * s[n].both / (s[n].warmup + s[n].draws);
        }
        if (n > 0)
            printf("%-32.32s %7.1f %9.0f %9.0f %9.0f %8.3f %5.0f %9.3f %12.1f\n", posteriors[i].name,
                   MEDIAN(s, n, tree), MEDIAN(s, n, warmup) + MEDIAN(s, n, draws), MEDIAN(s, n, bulk),
                   MEDIAN(s, n, tail), r_hat, MEDIAN(s, n, divergences), MEDIAN(s, n, seconds),
                   bench_median(rate, n));
        fflush(stdout);
        posterior_close(&m);
    }
    return EXIT_SUCCESS;
}

/* ---- summaries ----------------------------------------------------------------------------------- */

/* 4 x 1000 draws of each quantity, of one kind: 0: well mixed; 1: slow (AR(1), 0.9); 2: one trajectory in ten is
   rejected; 3: long tails. */
enum { SUMMARY_COLUMNS = 1000, SUMMARY_DRAWS = 4000 };
static void summary_draws(double *draws, int kind)
{
    const double phi = kind == 1 ? 0.9 : 0;
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, (uint32_t)kind);
    for (size_t i = 0; i < (size_t)SUMMARY_DRAWS * SUMMARY_COLUMNS; i++) {
        const double before = i < SUMMARY_COLUMNS ? 0 : draws[i - SUMMARY_COLUMNS];
        const double fresh = phi * before + sqrt(1 - phi * phi) * gpumc_rng_normal(&rng);
        draws[i] = kind == 3 ? exp(3 * fresh) : kind == 2 && i / SUMMARY_COLUMNS % 10 == 9 ? before : fresh;
    }
}

/* Wall time in seconds, least of five, of summarising all columns or, if leaving, of PSIS-LOO with the columns as
   pointwise log likelihoods. */
static double summary_seconds(gpumc_fit *fit, int threads, int leaving)
{
    double least = HUGE_VAL;
    gpumc_loo loo;
    fit->options.threads = threads;
    fit->blocks->group = leaving ? GPUMC_LOG_LIKELIHOOD : GPUMC_GENERATED;
    for (int k = 0; k < 5; k++) {
        const double begin = gpumc__seconds();
        gpumc_team *team = gpumc_team_start(threads, NULL);
        if (!team || !(leaving ? gpumc_loo_psis(fit, &loo, NULL, NULL, NULL) == GPUMC_OK
                       : gpumc__each_column(fit, team, GPUMC_GENERATED, gpumc__summarise_column, fit)))
            return HUGE_VAL;
        gpumc_team_stop(team);
        least = fmin(least, gpumc__seconds() - begin);
    }
    return least;
}

static int bench_summaries(void)
{
    static const char *const kinds[] = { "mixing", "slow", "one in ten refused", "long tails" };
    static gpumc_summary summaries[SUMMARY_COLUMNS];
    static size_t size = SUMMARY_COLUMNS;
    gpumc_block block = { "x", &size, 1, 0, SUMMARY_COLUMNS, 0, GPUMC_GENERATED };
    gpumc_fit fit;
    memset(&fit, 0, sizeof fit);
    fit.blocks = &block;
    fit.n_blocks = 1;
    fit.n_columns = SUMMARY_COLUMNS;
    fit.n_chains = 4;
    fit.n_draws = fit.draw_capacity = SUMMARY_DRAWS / 4;
    fit.summaries = summaries;
    fit.draws = (double *)malloc(sizeof(double) * SUMMARY_DRAWS * SUMMARY_COLUMNS);
    if (!fit.draws) return EXIT_FAILURE;
    printf("1000 quantities of 4 x 1000 draws, us each, by one thread and by as many as there are cores\n"
           "%-20s %10s %10s %12s %10s\n", "draws", "summary", "cores", "leaving out", "cores");
    for (int kind = 0; kind < 4; kind++) {
        printf("%-20s", kinds[kind]);
        summary_draws(fit.draws, kind);
        for (int k = 0; k < 4; k++) printf(k == 2 ? " %12.1f" : " %10.1f",
                                           1e6 / SUMMARY_COLUMNS * summary_seconds(&fit, !(k % 2), k / 2));
        printf("\n");
    }
    free(fit.draws);
    return EXIT_SUCCESS;
}

/* ---- the program --------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "help", *models = NULL, *forms = NULL, *which = NULL;
    int seeds = 0, differences = 0;
    const argument list[] = {
        { "seeds", WHOLE, &seeds, "runs a line, 1..100" },
        { "models", TEXT, &models, "LIST of 100x10,500x10,1000x10,mid,mixed; for compare also schools" },
        { "forms", TEXT, &forms, "LIST of learned,centred,noncentred" },
        { "sampler", TEXT, &which, "auto, nuts, mams or hmc" },
        { "differences", WHOLE, &differences, "1: posteriordb by log densities alone" },
    };
    const size_t n_list = sizeof list / sizeof *list;
    if (strcmp(what, "help") == 0) {
        printf("usage: %s targets|overhead|groups|correlated|series|posteriordb|compare|tails|summaries "
               "[key=value ...]\n",
               argv[0]);
        for (size_t k = 0; k < n_list; k++) printf("  %-10s %s\n", list[k].key, list[k].meaning);
        return EXIT_SUCCESS;
    }
    for (int i = 2; i < argc; i++) if (!argument_read(argv[i], list, n_list)) return EXIT_USAGE;
    while (which && sampler <= GPUMC_SAMPLER_HMC && strcmp(which, sampler_names[sampler]) != 0) sampler++;
    if (sampler > GPUMC_SAMPLER_HMC) {
        fprintf(stderr, "sampler=%s: auto, nuts, mams or hmc\n", which);
        return EXIT_USAGE;
    }
    if (seeds < 0 || seeds > MAX_SEEDS) {
        fprintf(stderr, "seeds must be in 1..%d\n", MAX_SEEDS);
        return EXIT_USAGE;
    }
    bench_header(argc, argv);
    if (strcmp(what, "targets") == 0) return bench_targets(seeds ? (size_t)seeds : 5);
    if (strcmp(what, "groups") == 0) return bench_groups(seeds ? (size_t)seeds : 10, models, forms);
    if (strcmp(what, "correlated") == 0) return bench_correlated(seeds ? (size_t)seeds : 10, forms);
    if (strcmp(what, "series") == 0) return bench_series(seeds ? (size_t)seeds : 10);
    if (strcmp(what, "overhead") == 0) return bench_overhead(seeds ? seeds : 7);
    if (strcmp(what, "summaries") == 0) return bench_summaries();
    if (strcmp(what, "tails") == 0) return bench_tails(seeds ? (size_t)seeds : 40);
    if (strcmp(what, "compare") == 0) return bench_samplers(seeds ? (size_t)seeds : 3, models);
    if (strcmp(what, "posteriordb") == 0) return bench_posteriordb(seeds ? (size_t)seeds : 3, differences);
    fprintf(stderr, "%s: unknown; help lists what there is\n", what);
    return EXIT_USAGE;
}
