/* First models of ordinary users, over many seeds: small regressions, survival, counts, meta-analyses, walks,
   crossed factors, correlated ones, a mixture, a processing tree. Unlike benchmarks they start far from the
   posterior, have scales that are not of order one, and some have only two parameters.

   For every model, with fixed data and then with new data for each seed (simulated with parameters such as users
   would choose):
     - no run fails;
     - the number of runs with warnings is at most the binomial quantile 1 - 1e-5 at the rate allowed, mostly 2 %;
     - on the fixed data, the means of the runs scatter as their standard errors say: the sum of z^2, with z from
       each run's own mcse and the mean over the runs, is below the chi-square quantile 1 - 1e-5; and the mean over
       the runs is within 5 standard errors of that of as many runs by NUTS.
   Standard errors multiplied by 0.4, and means off by a tenth of the posterior's standard deviation, must be
   rejected. */
#include "check.h"
#include "../gpumc.h"
#ifndef N_SEEDS
#define N_SEEDS 8                    /* long_users.c: 100 */
#endif
enum { MOST_ROWS = 200, MOST_COLUMNS = 64 };

static const size_t ones[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static double Phi(double x) { return 0.5 * erfc(-x / sqrt(2)); }

static struct rows { int n; double x[MOST_ROWS], y[MOST_ROWS], z[MOST_ROWS]; } rows;

typedef struct users_model {
    gpumc_model model;
    void (*simulate)(gpumc_rng *rng);       /* fills rows */
    double rate;                            /* of runs with warnings */
    const char *heavy;                      /* of infinite variance: its mean has no standard error */
} users_model;

/* ---- the models ------------------------------------------------------------------------------------ */

/* Poisson regression on ages of 20 to 80, not centred: chains may start at rates of e^160. */
static double ages(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL)
              + gpumc_normal_lpdf(x[1], 0, 1, &g[1], NULL, NULL);
    (void)data;
    for (int i = 0; i < rows.n; i++) {
        double by_eta = 0;
        lp += gpumc_poisson_log_lpmf(rows.y[i], x[0] + x[1] * rows.x[i], &by_eta);
        g[0] += by_eta;
        g[1] += by_eta * rows.x[i];
    }
    return lp;
}
static void ages_simulate(gpumc_rng *rng)
{
    rows.n = 100;
    for (int i = 0; i < rows.n; i++) {
        rows.x[i] = 20 + 60 * gpumc_rng_uniform(rng);
        rows.y[i] = gpumc_poisson_log_rng(rng, -1 + 0.03 * rows.x[i]);
    }
}
static const gpumc_param ages_params[] = { { .name = "a" }, { .name = "b" } };

/* Weibull survival times with right censoring (z = 1) and one covariate: log scale a + b x. */
static double survival(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL)
              + gpumc_normal_lpdf(x[1], 0, 5, &g[1], NULL, NULL)
              + gpumc_gamma_lpdf(x[2], 2, 1, &g[2], NULL, NULL);
    (void)data;
    for (int i = 0; i < rows.n; i++) {
        const double eta = x[0] + x[1] * rows.x[i], log_t = log(rows.y[i]) - eta, h = exp(x[2] * log_t);
        const double dead = rows.z[i] == 0, by_eta = x[2] * (h - dead);
        lp += dead * (log(x[2]) + x[2] * log_t - log(rows.y[i])) - h;
        g[0] += by_eta;
        g[1] += by_eta * rows.x[i];
        g[2] += dead * (1 / x[2] + log_t) - h * log_t;
    }
    return lp;
}
static void survival_simulate(gpumc_rng *rng)
{
    rows.n = 80;
    for (int i = 0; i < rows.n; i++) {
        const double end = 400;
        rows.x[i] = gpumc_rng_normal(rng);
        rows.y[i] = exp(5.5 - 0.4 * rows.x[i]) * pow(gpumc_rng_exponential(rng), 1 / 1.5);
        rows.z[i] = rows.y[i] > end;
        if (rows.z[i] == 1) rows.y[i] = end;
    }
}
static const gpumc_param survival_params[] = { { .name = "a" }, { .name = "b" },
                                               { .name = "shape", .kind = GPUMC_POSITIVE } };

/* Exponential growth with normal errors: y = a exp(b t). */
static double growth(const double *x, double *g, void *data)
{
    double lp = gpumc_half_normal_lpdf(x[0], 50, &g[0], NULL) + gpumc_normal_lpdf(x[1], 0, 1, &g[1], NULL, NULL)
              + gpumc_half_normal_lpdf(x[2], 50, &g[2], NULL);
    (void)data;
    for (int i = 0; i < rows.n; i++) {
        const double e = exp(x[1] * rows.x[i]);
        double by_mean = 0;
        lp += gpumc_normal_lpdf(rows.y[i], x[0] * e, x[2], NULL, &by_mean, &g[2]);
        g[0] += by_mean * e;
        g[1] += by_mean * x[0] * e * rows.x[i];
    }
    return lp;
}
static void growth_simulate(gpumc_rng *rng)
{
    rows.n = 40;
    for (int i = 0; i < rows.n; i++) {
        rows.x[i] = 0.5 * i;
        rows.y[i] = 10 * exp(0.15 * rows.x[i]) + 5 * gpumc_rng_normal(rng);
    }
}
static const gpumc_param growth_params[] = { { .name = "a", .kind = GPUMC_POSITIVE }, { .name = "b" },
                                             { .name = "sigma", .kind = GPUMC_POSITIVE } };

/* Student-t errors, degrees of freedom unknown. */
static double robust(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL)
              + gpumc_normal_lpdf(x[1], 0, 10, &g[1], NULL, NULL)
              + gpumc_half_normal_lpdf(x[2], 5, &g[2], NULL) + gpumc_gamma_lpdf(x[3], 2, 0.1, &g[3], NULL, NULL);
    (void)data;
    for (int i = 0; i < rows.n; i++) {
        double by_mean = 0;
        lp += gpumc_student_t_lpdf(rows.y[i], x[3], x[0] + x[1] * rows.x[i], x[2], NULL, &g[3], &by_mean,
                                   &g[2]);
        g[0] += by_mean;
        g[1] += by_mean * rows.x[i];
    }
    return lp;
}
static void robust_simulate(gpumc_rng *rng)
{
    rows.n = 60;
    for (int i = 0; i < rows.n; i++) {
        rows.x[i] = gpumc_rng_normal(rng);
        rows.y[i] = 1 + 2 * rows.x[i] + gpumc_student_t_rng(rng, 4, 0, 1.5);
    }
}
static const gpumc_param robust_params[] = { { .name = "a" }, { .name = "b" },
                                             { .name = "sigma", .kind = GPUMC_POSITIVE },
                                             { .name = "nu", .kind = GPUMC_POSITIVE } };

/* Meta-analysis: effects y with standard errors x around mu with a spread tau. */
static double meta(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL) + gpumc_half_cauchy_lpdf(x[1], 1, &g[1], NULL);
    (void)data;
    for (int i = 0; i < rows.n; i++)
        lp += gpumc_normal_lpdf(x[2 + i], x[0], x[1], &g[2 + i], &g[0], &g[1])
            + gpumc_normal_lpdf(rows.y[i], x[2 + i], rows.x[i], NULL, &g[2 + i], NULL);
    return lp;
}
static void meta_rows(gpumc_rng *rng, int n)
{
    rows.n = n;
    for (int i = 0; i < n; i++) {
        rows.x[i] = 0.2 + 0.3 * gpumc_rng_uniform(rng);
        rows.y[i] = 0.5 + 0.3 * gpumc_rng_normal(rng) + rows.x[i] * gpumc_rng_normal(rng);
    }
}
static void meta_two_simulate(gpumc_rng *rng) { meta_rows(rng, 2); }
static void meta_ten_simulate(gpumc_rng *rng) { meta_rows(rng, 10); }
static void meta_thirty_simulate(gpumc_rng *rng) { meta_rows(rng, 30); }
#define META(n) { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, \
                  { .name = "theta", .size = n, .location = "mu", .scale = "tau" } }
static const gpumc_param meta_two_params[] = META(2), meta_ten_params[] = META(10);
static const gpumc_param meta_thirty_params[] = META(30);

/* Poisson counts on a random walk of log rates. */
static double walk(const double *x, double *g, void *data)
{
    double lp = gpumc_half_normal_lpdf(x[0], 1, &g[0], NULL) + gpumc_normal_lpdf(x[1], 0, 5, &g[1], NULL, NULL);
    (void)data;
    for (int i = 0; i < rows.n; i++) {
        if (i > 0) lp += gpumc_normal_lpdf(x[1 + i], x[i], x[0], &g[1 + i], &g[i], &g[0]);
        lp += gpumc_poisson_log_lpmf(rows.y[i], x[1 + i], &g[1 + i]);
    }
    return lp;
}
static void walk_simulate(gpumc_rng *rng)
{
    double level = 2;
    rows.n = 40;
    for (int i = 0; i < rows.n; i++) {
        level += 0.2 * gpumc_rng_normal(rng);
        rows.y[i] = gpumc_poisson_log_rng(rng, level);
    }
}
static const gpumc_param walk_params[] = {
    { .name = "tau", .kind = GPUMC_POSITIVE },
    { .name = "level", .size = 40, .scale = "tau", .walk_dim = 1 } };

/* Two crossed factors with informative data: counts of persons x and items z. */
enum { PERSONS = 20, ITEMS = 7 };
struct crossed { double alpha, tau[2], person[PERSONS], item[ITEMS]; };
static double crossed(const double *x, double *g, void *data)
{
    const struct crossed *p = (const struct crossed *)x;
    struct crossed *d = (struct crossed *)g;
    double lp = gpumc_normal_lpdf(p->alpha, 0, 5, &d->alpha, NULL, NULL);
    (void)data;
    for (int k = 0; k < 2; k++) lp += gpumc_half_normal_lpdf(p->tau[k], 2, &d->tau[k], NULL);
    for (int k = 0; k < PERSONS; k++)
        lp += gpumc_normal_lpdf(p->person[k], 0, p->tau[0], &d->person[k], NULL, &d->tau[0]);
    for (int k = 0; k < ITEMS; k++)
        lp += gpumc_normal_lpdf(p->item[k], 0, p->tau[1], &d->item[k], NULL, &d->tau[1]);
    for (int i = 0; i < rows.n; i++) {
        const int a = (int)rows.x[i], b = (int)rows.z[i];
        double by_eta = 0;
        lp += gpumc_poisson_log_lpmf(rows.y[i], p->alpha + p->person[a] + p->item[b], &by_eta);
        d->alpha += by_eta;
        d->person[a] += by_eta;
        d->item[b] += by_eta;
    }
    return lp;
}
static void crossed_simulate(gpumc_rng *rng)
{
    double person[PERSONS], item[ITEMS];
    gpumc_rng_normals(rng, person, PERSONS);
    gpumc_rng_normals(rng, item, ITEMS);
    rows.n = PERSONS * ITEMS;
    for (int i = 0; i < rows.n; i++) {
        rows.x[i] = i % PERSONS;
        rows.z[i] = i / PERSONS;
        rows.y[i] = gpumc_poisson_log_rng(rng, 3 + 0.8 * person[i % PERSONS] + 0.8 * item[i / PERSONS]);
    }
}
static const gpumc_param crossed_params[] = {
    { .name = "alpha" }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
    { .name = "person", .size = PERSONS, .scale = "tau", .scale_index = (const size_t[PERSONS]){ 0 } },
    { .name = "item", .size = ITEMS, .scale = "tau", .scale_index = ones } };

/* Six groups, x, of a few rows: a population scale that the data hardly distinguish from 0, and a residual scale. */
static double few(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 5, &g[1], NULL)
              + gpumc_half_normal_lpdf(x[2], 5, &g[2], NULL);
    (void)data;
    for (int j = 3; j < 9; j++) lp += gpumc_normal_lpdf(x[j], x[0], x[1], &g[j], &g[0], &g[1]);
    for (int i = 0; i < rows.n; i++) {
        const int j = 3 + (int)rows.x[i];
        lp += gpumc_normal_lpdf(rows.y[i], x[j], x[2], NULL, &g[j], &g[2]);
    }
    return lp;
}
static void few_simulate(gpumc_rng *rng)
{
    double theta[6];
    gpumc_rng_normals(rng, theta, 6);
    rows.n = 40;
    for (int i = 0; i < rows.n; i++) {
        rows.x[i] = i % 6;
        rows.y[i] = 1 + 0.6 * theta[i % 6] + 0.8 * gpumc_rng_normal(rng);
    }
}
static const gpumc_param few_params[] = {
    { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "sigma", .kind = GPUMC_POSITIVE },
    { .name = "theta", .size = 6, .location = "mu", .scale = "tau" } };

/* A mixture of two normals, means in order. */
static double mixture(const double *x, double *g, void *data)
{
    const double *mu = x, *sd = x + 2, log_w[2] = { log(x[4]), log1p(-x[4]) };
    double lp = gpumc_beta_lpdf(x[4], 2, 2, &g[4], NULL, NULL);
    (void)data;
    for (int k = 0; k < 2; k++)
        lp += gpumc_normal_lpdf(mu[k], 0, 5, &g[k], NULL, NULL) + gpumc_half_normal_lpdf(sd[k], 2, &g[2 + k], NULL);
    for (int i = 0; i < rows.n; i++) {
        double by_mu[2] = { 0, 0 }, by_sd[2] = { 0, 0 }, each[2], both;
        for (int k = 0; k < 2; k++)
            each[k] = log_w[k] + gpumc_normal_lpdf(rows.y[i], mu[k], sd[k], NULL, &by_mu[k], &by_sd[k]);
        lp += both = gpumc_log_sum_exp(each[0], each[1]);
        for (int k = 0; k < 2; k++) {
            const double share = exp(each[k] - both);
            g[k] += share * by_mu[k];
            g[2 + k] += share * by_sd[k];
            g[4] += k ? -share / (1 - x[4]) : share / x[4];
        }
    }
    return lp;
}
static void mixture_simulate(gpumc_rng *rng)
{
    rows.n = 200;
    for (int i = 0; i < rows.n; i++)
        rows.y[i] = gpumc_rng_uniform(rng) < 0.4 ? -2 + 0.7 * gpumc_rng_normal(rng)
                                                 : 2 + 1.2 * gpumc_rng_normal(rng);
}
static const gpumc_param mixture_params[] = {
    { .name = "mu", .kind = GPUMC_ORDERED, .size = 2 }, { .name = "sd", .kind = GPUMC_POSITIVE, .size = 2 },
    { .name = "w", .kind = GPUMC_UNIT } };

/* A processing tree: hits y of x and false alarms z of x, with probabilities that are Phi of the subjects' values. In
   the tails 1 - p loses its digits, and with them the differences of the gradient check their accuracy. */
enum { SUBJECTS = 20 };
static double tree(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int k = 0; k < 2; k++)
        lp += gpumc_normal_lpdf(x[k], 0, 1, &g[k], NULL, NULL) + gpumc_half_normal_lpdf(x[2 + k], 1, &g[2 + k], NULL);
    for (int i = 0; i < SUBJECTS; i++) {
        const double *t = x + 4 + i;
        double *d = g + 4 + i, by_hit = 0, by_false = 0, phi[2];
        const double D = Phi(t[0]), G = Phi(t[SUBJECTS]);
        const double hit = D + (1 - D) * G, alarm = (1 - D) * G;
        for (int k = 0; k < 2; k++) {
            const int j = k * SUBJECTS;
            lp += gpumc_normal_lpdf(t[j], x[k], x[2 + k], &d[j], &g[k], &g[2 + k]);
            phi[k] = exp(-0.5 * t[j] * t[j]) * 0.3989422804014327;
        }
        lp += gpumc_binomial_lpmf(rows.y[i], rows.x[i], hit, &by_hit)
            + gpumc_binomial_lpmf(rows.z[i], rows.x[i], alarm, &by_false);
        d[0] += phi[0] * ((1 - G) * by_hit - G * by_false);
        d[SUBJECTS] += phi[1] * (1 - D) * (by_hit + by_false);
    }
    return lp;
}
static void tree_simulate(gpumc_rng *rng)
{
    rows.n = SUBJECTS;
    for (int i = 0; i < rows.n; i++) {
        const double D = Phi(0.3 + 0.5 * gpumc_rng_normal(rng));
        const double G = Phi(-0.2 + 0.4 * gpumc_rng_normal(rng));
        rows.x[i] = 40;
        rows.y[i] = gpumc_binomial_rng(rng, 40, D + (1 - D) * G);
        rows.z[i] = gpumc_binomial_rng(rng, 40, (1 - D) * G);
    }
}
static const gpumc_param tree_params[] = {
    { .name = "mu", .size = 2 }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
    { .name = "D", .size = SUBJECTS, .location = "mu", .scale = "tau",
      .location_index = (const size_t[SUBJECTS]){ 0 }, .scale_index = (const size_t[SUBJECTS]){ 0 } },
    { .name = "G", .size = SUBJECTS, .location = "mu", .scale = "tau", .location_index = ones,
      .scale_index = ones } };

/* Intercepts and slopes by group z of few rows, x: strongly correlated, about which the data say little. */
enum { LINES = 12, LINES_AT = 9 };          /* mu 2, tau 2, sigma, L 2 x 2, intercepts, slopes */
static double lines(const double *x, double *g, void *data)
{
    static const double middle[2] = { 0, 0 };
    const double *L = x + 5;
    double lp = gpumc_lkj_corr_cholesky_lpdf(L, 2, 1, g + 5, NULL)
              + gpumc_half_normal_lpdf(x[4], 2, &g[4], NULL);
    (void)data;
    for (int k = 0; k < 2; k++)
        lp += gpumc_normal_lpdf(x[k], 0, 5, &g[k], NULL, NULL)
            + gpumc_half_normal_lpdf(x[2 + k], 2, &g[2 + k], NULL);
    for (int j = LINES_AT; j < LINES_AT + LINES; j++) {
        const double r[2] = { (x[j] - x[0]) / x[2], (x[j + LINES] - x[1]) / x[3] };
        double dr[2] = { 0, 0 }, work[4];
        lp += gpumc_multi_normal_cholesky_lpdf(r, middle, L, 2, dr, NULL, g + 5, work) - log(x[2] * x[3]);
        for (int k = 0; k < 2; k++) {
            g[j + k * LINES] += dr[k] / x[2 + k];
            g[k] -= dr[k] / x[2 + k];
            g[2 + k] -= (dr[k] * r[k] + 1) / x[2 + k];
        }
    }
    for (int i = 0; i < rows.n; i++) {
        const int j = LINES_AT + (int)rows.z[i];
        double d = 0;
        lp += gpumc_normal_lpdf(rows.y[i], x[j] + x[j + LINES] * rows.x[i], x[4], NULL, &d, &g[4]);
        g[j] += d;
        g[j + LINES] += d * rows.x[i];
    }
    return lp;
}
static void lines_simulate(gpumc_rng *rng)
{
    rows.n = 5 * LINES;
    for (int j = 0; j < LINES; j++) {
        const double common = gpumc_rng_normal(rng), intercept = 1 + 0.7 * common;
        const double slope = 2 + 0.7 * (0.9 * common + 0.44 * gpumc_rng_normal(rng));
        for (int i = j; i < rows.n; i += LINES) {
            rows.z[i] = j;
            rows.x[i] = gpumc_rng_normal(rng);
            rows.y[i] = intercept + slope * rows.x[i] + gpumc_rng_normal(rng);
        }
    }
}
static const size_t two_by_two[] = { 2, 2 };
static const gpumc_param lines_params[] = {
    { .name = "mu", .size = 2 }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
    { .name = "sigma", .kind = GPUMC_POSITIVE },
    { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = two_by_two, .n_dims = 2 },
    { .name = "intercept", .size = LINES, .location = "mu", .scale = "tau", .factor = "L",
      .location_index = (const size_t[LINES]){ 0 }, .scale_index = (const size_t[LINES]){ 0 } },
    { .name = "slope", .size = LINES, .location = "mu", .scale = "tau", .factor = "L",
      .location_index = ones, .scale_index = ones } };

#define USERS_MODEL(NAME, density, per_cent) \
    { .model = { .name = #NAME, .params = NAME##_params, \
                 .n_params = sizeof NAME##_params / sizeof *NAME##_params, .log_density = density }, \
      .simulate = NAME##_simulate, .rate = 0.01 * per_cent }
static const users_model models[] = {
    USERS_MODEL(ages, ages, 2), USERS_MODEL(survival, survival, 2), USERS_MODEL(growth, growth, 2),
    USERS_MODEL(robust, robust, 2),
    { .model = { .name = "meta_two", .params = meta_two_params, .n_params = 3, .log_density = meta },
      .simulate = meta_two_simulate, .rate = 0.02, .heavy = "tau" },         /* density falls as tau^-3 */
    USERS_MODEL(meta_ten, meta, 2),
    USERS_MODEL(meta_thirty, meta, 2), USERS_MODEL(walk, walk, 2), USERS_MODEL(few, few, 2),
    USERS_MODEL(lines, lines, 2), USERS_MODEL(tree, tree, 2),
    USERS_MODEL(mixture, mixture, 3),                                   /* some chains are late, and are */
    USERS_MODEL(crossed, crossed, 15),                                  /* restarted: slowest of all here */
};

/* ---- judging --------------------------------------------------------------------------------------- */

/* Means and standard errors of every column over the runs. */
typedef struct tally {
    size_t n, n_columns;
    int failed, warned;
    double mean[N_SEEDS][MOST_COLUMNS], mcse[N_SEEDS][MOST_COLUMNS], sd[MOST_COLUMNS];
} tally;

static void run(const users_model *m, gpumc_sampler sampler, uint64_t seed, tally *t)
{
    const gpumc_sample_options o = { .seed = seed, .sampler = sampler };
    gpumc_fit fit;
    if (gpumc_sample(&m->model, &o, &fit) != GPUMC_OK) {
        printf("%s, seed %d: %s\n", m->model.name, (int)seed, fit.message);
        t->failed++;
    } else {
        size_t w = 0;
        while (w < fit.n_warnings && fit.warnings[w].note) w++;
        if (w < fit.n_warnings) {
            printf("%s, seed %d: %s\n", m->model.name, (int)seed, fit.warnings[w].text);
            t->warned++;
        }
        t->n_columns = fit.n_columns;
        for (size_t k = 0; k < fit.n_columns; k++) {
            const gpumc_summary s = gpumc_summarise(&fit, k);
            char name[64];
            gpumc_column_name(&fit, k, name, sizeof name);
            const int heavy = m->heavy && strcmp(name, m->heavy) == 0;
            t->mean[t->n][k] = heavy ? s.q50 : s.mean;
            t->mcse[t->n][k] = heavy ? gpumc_mcse_quantile(gpumc_fit_series(&fit, k), 0.5).value : s.mcse;
            t->sd[k] = heavy ? (s.q95 - s.q5) / 3.3 : s.sd;
        }
        t->n++;
    }
    gpumc_free(&fit);
}

/* Sum over the runs of (mean - mean over the runs)^2 / mcse^2 of a column; medians for a heavy one. */
static double scatter(const tally *t, size_t column, double of_mcse)
{
    double centre = 0, sum = 0;
    for (size_t r = 0; r < t->n; r++) centre += t->mean[r][column] / (double)t->n;
    for (size_t r = 0; r < t->n; r++) {
        const double z = (t->mean[r][column] - centre) / (of_mcse * t->mcse[r][column]);
        sum += z * z;
    }
    return sum;
}

/* The difference of the means over the runs of two samplers, a's shifted by `shift` posterior standard deviations, in
   standard errors: the larger of those that the runs report and those from the scatter of the runs. */
static double apart(const tally *a, const tally *b, size_t column, double shift)
{
    const tally *both[] = { a, b };
    double mean[2] = { 0, 0 }, variance = 0;
    for (int k = 0; k < 2; k++) {
        const tally *t = both[k];
        const double n = (double)t->n, inflation = fmax(1, scatter(t, column, 1) / (n - 1));
        double claimed = 0;
        for (size_t r = 0; r < t->n; r++) {
            mean[k] += t->mean[r][column] / n;
            claimed += t->mcse[r][column] * t->mcse[r][column] / n;
        }
        variance += claimed * inflation / n;
    }
    return (mean[0] + shift * a->sd[column] - mean[1]) / sqrt(variance);
}

static void check_model(const users_model *m)
{
    static tally own, nuts, fresh;
    const int most = (int)gpumc_binomial_quantile(1 - 1e-5, N_SEEDS, m->rate);
    const double limit = gpumc_chi_square_quantile(1 - 1e-5, N_SEEDS - 1);
    double tight = 0, shifted = 0;
    memset(&own, 0, sizeof own);
    memset(&nuts, 0, sizeof nuts);
    memset(&fresh, 0, sizeof fresh);
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        gpumc_rng fixed = gpumc_rng_at(20, 0, 0, 0), another = gpumc_rng_at(seed, 1, 0, 0);
        m->simulate(&fixed);
        run(m, GPUMC_SAMPLER_AUTO, seed, &own);
        run(m, GPUMC_SAMPLER_NUTS, seed + 1000, &nuts);
        m->simulate(&another);
        run(m, GPUMC_SAMPLER_AUTO, seed, &fresh);
    }
    CHECK(own.failed + nuts.failed + fresh.failed == 0, "%s: %d, %d and %d of %d runs failed", m->model.name,
          own.failed, nuts.failed, fresh.failed, N_SEEDS);
    CHECK(own.warned <= most && fresh.warned <= most, "%s: %d and %d of %d runs were warned of",
          m->model.name, own.warned, fresh.warned, N_SEEDS);
    printf("%s: warned of %d, %d by NUTS, %d with new data, of %d\n", m->model.name, own.warned, nuts.warned,
           fresh.warned, N_SEEDS);
    for (size_t k = 0; k < own.n_columns; k++) {
        if (own.sd[k] <= 0 && nuts.sd[k] <= 0) continue;                /* a constant element of a factor */
        const double z = apart(&own, &nuts, k, 0), sum = scatter(&own, k, 1);
        CHECK(sum < limit, "%s, column %d: sum of squares %.1f of %d runs, limit %.1f", m->model.name, (int)k,
              sum, N_SEEDS, limit);
        CHECK(fabs(z) < 5, "%s, column %d: %.1f standard errors from NUTS", m->model.name, (int)k, z);
        tight = fmax(tight, scatter(&own, k, 0.4));
        shifted = fmax(shifted, fabs(apart(&own, &nuts, k, 0.1)));
    }
    CHECK(tight > limit, "%s: standard errors of 0.4 times theirs pass, %.1f", m->model.name, tight);
    CHECK(shifted > 5, "%s: a tenth of a deviation passes, %.1f", m->model.name, shifted);
}

int main(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(&models[i]);
    return check_end();
}
