/* Moves of a scale along with its elements (>>rescale): which elements are coupled, the map, its Jacobian and its cost;
   hierarchies, walks and lattices that are not declared, and elements that noisy data inform, against the law of the
   scale with the elements integrated out; Neal's funnel; which divergences are excused; threads, resuming, merging.
   Every z is in Monte Carlo standard errors; with 255 of them, 4.5 is exceeded by chance once in 600 runs of this
   test. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#define GPUMC_IMPLEMENTATION
#include "check.h"
#include "../gpumc.h"
#include "folder.h"
#include "same.h"

enum { J = 12, N = 30, POINTS = 5, WIDE = 150, ROOM = 128 * 128 + 3 * (WIDE + 2) };

/* ---- groups whose hierarchy is not declared ------------------------------------------------------ */
static double effect[3 * J], se[3 * J];

static double groups_density(const double *x, double *g, void *data)
{
    const double mu = x[0], tau = x[1], *theta = x + 2;
    double lp = gpumc_normal_lpdf(mu, 0, 5, &g[0], NULL, NULL) + gpumc_half_cauchy_lpdf(tau, 5, &g[1], NULL);
    (void)data;
    for (int j = 0; j < J; j++)
        lp += gpumc_normal_lpdf(theta[j], mu, tau, &g[2 + j], &g[0], &g[1])
            + gpumc_normal_lpdf(effect[j], theta[j], se[j], NULL, &g[2 + j], NULL);
    return lp;
}

static void groups_batch(size_t n, const double *x, double *g, double *lp, void *data)
{
    for (size_t i = 0; i < n; i++) lp[i] = groups_density(x + i * (J + 2), g + i * (J + 2), data);
}

static const gpumc_param groups_params[] = {
    { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "theta", .size = J } };
static const gpumc_param parted_params[] = {
    { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "theta", .size = J - 2 },
    { .name = "last", .size = 2 } };
static const gpumc_model groups_model = { .params = groups_params, .n_params = 3, .log_density = groups_density };
static const gpumc_model parted_model = { .params = parted_params, .n_params = 4, .log_density = groups_density };

static void groups_draw(uint64_t seed, double tau)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    for (int j = 0; j < J; j++) {
        const double theta = gpumc_normal_rng(&rng, 1, tau);
        se[j] = 1 + gpumc_rng_uniform(&rng);
        effect[j] = gpumc_normal_rng(&rng, theta, se[j]);
    }
}

/* log density of log tau, theta and mu integrated out, times tau^power. */
static double groups_marginal(double log_tau, double power)
{
    const double tau = exp(log_tau);
    double A = 1. / 25, B = 0, lp = (1 + power) * log_tau + gpumc_half_cauchy_lpdf(tau, 5, NULL, NULL);
    for (int j = 0; j < J; j++) {
        const double v = se[j] * se[j] + tau * tau;
        lp -= 0.5 * log(v) + 0.5 * effect[j] * effect[j] / v;
        A += 1 / v;
        B += effect[j] / v;
    }
    return lp + 0.5 * B * B / A - 0.5 * log(A);
}

/* log density of log tau, the elements integrated out, times tau^power. */
typedef double log_density_of(double log_tau, double power);

/* The largest |z|, over points where the known law has these shares below, of the share of draws below. Its error is
   by the law and the least effective size at a point, as a few draws in a tail do not tell how they hang together. */
static double worst_share(const gpumc_fit *fit, size_t column, log_density_of *marginal, double power)
{
    static const double shares[POINTS] = { 0.005, 0.02, 0.1, 0.5, 0.9 };
    enum { GRID = 20000 };
    const double low = -25, step = 35. / GRID, *draws = fit->draws;
    double *is_below = (double *)malloc(fit->n_chains * fit->n_draws * sizeof(double)), all = 0, sum = 0;
    double off[POINTS], worst = 0, ess = HUGE_VAL;
    for (int i = 0; i < GRID; i++) all += exp(marginal(low + step * (i + 0.5), power));
    int k = 0;
    for (int i = 0; i < GRID && k < POINTS; i++) {
        sum += exp(marginal(low + step * (i + 0.5), power)) / all;
        if (sum < shares[k]) continue;
        for (size_t n = 0; n < fit->n_chains * fit->n_draws; n++)
            is_below[n] = log(draws[n * fit->n_columns + column]) < low + step * (i + 1);
        const gpumc_series s = { is_below, fit->n_chains, fit->n_draws, fit->n_draws, 1 };
        off[k++] = (gpumc_mean(s).value - sum) / sqrt(sum * (1 - sum));
        ess = fmin(ess, gpumc_ess_mean(s).value);
    }
    while (k > 0) worst = check_worst(worst, fabs(off[--k]) * sqrt(ess));
    free(is_below);
    return worst;
}

static void check_quiet(const gpumc_fit *fit, int data_set)
{
    for (size_t i = 0; i < fit->n_warnings; i++)
        CHECK(fit->warnings[i].note, "data set %d: %s", data_set, fit->warnings[i].text);
}

/* That rows, free coordinates and log densities are of the same points. */
static void check_rows(const gpumc_fit *fit)
{
    double apart = 0, off = 0;
    for (size_t i = 0; i < fit->n_chains * fit->n_draws; i++) {
        const double *row = fit->draws + i * fit->n_columns, *q = fit->unconstrained + i * fit->n_free;
        double g[J + 2] = { 0 };
        apart = check_worst(apart, fabs(log(row[1]) - q[1]));
        for (int j = 0; j < J; j++) apart = check_worst(apart, fabs(row[2 + j] - q[2 + j]));
        off = check_worst(off, check_distance(fit->stats[i].lp, groups_density(row, g, NULL) + q[1], 1));
    }
    CHECK(apart < 1e-9 && off < 1e-9, "rows are %g off, log densities %g", apart, off);
}

static void check_groups(void)
{
    int caught = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const gpumc_sample_options o = { .seed = seed, .save_unconstrained = 1 };
        gpumc_fit fit;
        groups_draw(seed, seed % 2 ? 1 : 0.3);
        CHECK(gpumc_sample(seed % 3 ? &groups_model : &parted_model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        check_quiet(&fit, (int)seed);
        CHECK(fit.n_necks == 1 && strstr(fit.sampler_reason, "; moves along tau"), "data set %d: %s", (int)seed,
              fit.sampler_reason);
        const double worst = worst_share(&fit, 1, groups_marginal, 0);
        CHECK(worst < 4.5, "data set %d: z %.1f", (int)seed, worst);
        caught += worst_share(&fit, 1, groups_marginal, 0.5) > 4.5;     /* a Jacobian that is half an element off */
        check_rows(&fit);
        gpumc_free(&fit);
    }
    CHECK(caught == 10, "of 10 wrong laws %d were seen", caught);
}

/* The same with exp theta instead of theta: positive values, whose free coordinates are not normal given tau. */
static double positive_density(const double *x, double *g, void *data)
{
    const double mu = x[0], tau = x[1], *theta = x + 2;
    double lp = gpumc_normal_lpdf(mu, 0, 5, &g[0], NULL, NULL) + gpumc_half_cauchy_lpdf(tau, 5, &g[1], NULL);
    (void)data;
    for (int j = 0; j < J; j++) {
        double by_log = 0;
        lp += gpumc_lognormal_lpdf(theta[j], mu, tau, &g[2 + j], &g[0], &g[1])
            + gpumc_normal_lpdf(effect[j], log(theta[j]), se[j], NULL, &by_log, NULL);
        g[2 + j] += by_log / theta[j];
    }
    return lp;
}

static void check_positive(void)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
                                          { .name = "theta", .kind = GPUMC_POSITIVE, .size = J } };
    const gpumc_model m = { .params = params, .n_params = 3, .log_density = positive_density };
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const gpumc_sample_options o = { .seed = seed };
        gpumc_fit fit;
        groups_draw(seed, 0.3);
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_necks == 1, "data set %d: %s, %s", (int)seed,
              fit.message, fit.sampler_reason);
        check_quiet(&fit, (int)seed);
        const double worst = worst_share(&fit, 1, groups_marginal, 0);
        CHECK(worst < 4.5, "positive elements, data set %d: z %.1f", (int)seed, worst);
        gpumc_free(&fit);
    }
}

/* ---- three scales of one block, of which each hides the others --------------------------------------------- */
static int hidden_kind;

static double hidden_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int k = 0; k < 3; k++) lp += gpumc_half_cauchy_lpdf(x[k], 2, &g[k], NULL);
    for (int i = 0; i < 3 * J; i++)
        lp += gpumc_normal_lpdf(x[3 + i], 0, x[i % 3], &g[3 + i], NULL, &g[i % 3])
            + gpumc_normal_lpdf(effect[i], x[3 + i], se[i], NULL, &g[3 + i], NULL);
    return lp;
}

static double hidden_marginal(double log_tau, double power)
{
    const double tau = exp(log_tau);
    double lp = (1 + power) * log_tau - log1p(tau * tau / 4);
    for (int i = hidden_kind; i < 3 * J; i += 3) {
        const double v = tau * tau + se[i] * se[i];
        lp -= 0.5 * (log(v) + effect[i] * effect[i] / v);
    }
    return lp;
}

static void check_hidden(void)
{
    static const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE, .size = 3 },
                                          { .name = "e", .size = 3 * J } };
    const gpumc_model m = { .params = params, .n_params = 2, .log_density = hidden_density };
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const gpumc_sample_options o = { .seed = seed };
        gpumc_rng rng = gpumc_rng_at(seed, 9, 0, 0);
        gpumc_fit fit;
        for (int i = 0; i < 3 * J; i++) {
            se[i] = 1 + gpumc_rng_uniform(&rng);
            effect[i] = gpumc_normal_rng(&rng, 0, hypot(0.3, se[i]));
        }
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_necks == 3, "data set %d: %s, %s", (int)seed,
              fit.message, fit.sampler_reason);
        check_quiet(&fit, (int)seed);
        for (hidden_kind = 0; hidden_kind < 3; hidden_kind++) {
            const double worst = worst_share(&fit, (size_t)hidden_kind, hidden_marginal, 0);
            CHECK(worst < 4.5, "scale %d of 3, data set %d: z %.1f", hidden_kind, (int)seed, worst);
        }
        gpumc_free(&fit);
    }
}

/* ---- a walk that is not declared: the law of its scale by a Kalman filter --------------------------------- */
static double walk_density(const double *x, double *g, int order);
static double lattice_density(const double *x, double *g, void *data);
static double first_order(const double *x, double *g, void *data) { return (void)data, walk_density(x, g, 1); }
static double second_order(const double *x, double *g, void *data) { return (void)data, walk_density(x, g, 2); }

static double walk_marginal(double log_tau, double power)
{
    const double tau = exp(log_tau);
    double m = 0, v = 9, lp = (1 + power) * log_tau - 0.5 * tau * tau;
    for (int j = 0; j < J; j++) {
        const double all = (v += j ? tau * tau : 0) + se[j] * se[j], off = effect[j] - m, gain = v / all;
        lp -= 0.5 * (log(all) + off * off / all);
        m += gain * off;
        v *= 1 - gain;
    }
    return lp;
}

/* Runs of a model of groups with another density, against the law of its scale. */
static void check_law(double (*density)(const double *, double *, void *), log_density_of *marginal,
                      const char *what)
{
    gpumc_model m = groups_model;
    m.log_density = density;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const gpumc_sample_options o = { .seed = seed };
        gpumc_fit fit;
        groups_draw(seed, 0.5);
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_necks == 1, "%s, data set %d: %s, %s", what, (int)seed,
              fit.message, fit.sampler_reason);
        check_quiet(&fit, (int)seed);
        const double worst = worst_share(&fit, 1, marginal, 0);
        CHECK(worst < 4.5, "%s, data set %d: z %.1f", what, (int)seed, worst);
        CHECK(worst_share(&fit, 1, marginal, 0.5) > 4.5, "a wrong law of the %s passes", what);
        gpumc_free(&fit);
    }
}

/* ---- values on a lattice of 3 x 4, each drawn towards its neighbours, with noise -------------------------- */
static void lattice_precision(double *Q)
{
    memset(Q, 0, J * J * sizeof *Q);
    for (int i = 0; i < J; i++)
        for (int j = 0; j < J; j++)
            if (abs(i / 4 - j / 4) + abs(i % 4 - j % 4) == 1) {
                Q[i * J + j] = -0.9;
                Q[i * J + i] += 1;
            }
}

static double lattice_marginal(double log_tau, double power)
{
    double H[J * J], b[J], square = 0, lp = (1 + power - J) * log_tau - 0.5 * exp(2 * log_tau);
    lattice_precision(H);
    for (int i = 0; i < J * J; i++) H[i] *= exp(-2 * log_tau);
    for (int i = 0; i < J; i++) {
        H[i * J + i] += 1 / (se[i] * se[i]);
        b[i] = effect[i] / (se[i] * se[i]);
    }
    gpumc__cholesky(H, J);
    gpumc__solve_lower(H, J, b);
    for (int i = 0; i < J; i++) {
        lp -= log(H[i * J + i]);
        square += b[i] * b[i];
    }
    return lp + 0.5 * square;
}

/* ---- the funnel of Neal (2003): v ~ normal(0, 3), x[i] ~ normal(0, exp(v / 2)), i to 9; and one with i to 2 ---- */
static int funnel_elements = 9;

static double funnel_density(const double *x, double *g, void *data)
{
    const double sd = exp(0.5 * x[0]);
    double lp = gpumc_normal_lpdf(x[0], 0, 3, &g[0], NULL, NULL), by_sd = 0;
    (void)data;
    for (int i = 1; i <= funnel_elements; i++) lp += gpumc_normal_lpdf(x[i], 0, sd, &g[i], NULL, &by_sd);
    g[0] += 0.5 * sd * by_sd;
    return lp;
}

static void check_funnel(void)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        funnel_elements = seed % 2 ? 9 : 2;
        const gpumc_param params[] = { { .name = "v" }, { .name = "x", .size = (size_t)funnel_elements } };
        const gpumc_model m = { .params = params, .n_params = 2, .log_density = funnel_density };
        const gpumc_sample_options o = { .seed = seed };
        gpumc_fit fit;
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_necks == 1, "%s", fit.message);
        const gpumc_series v = gpumc_fit_series(&fit, 0);
        const double mean = gpumc_mean(v).value / gpumc_mcse_mean(v).value;
        const double sd = (gpumc_sd(v).value - 3) / gpumc_mcse_sd(v).value;
        CHECK(fabs(mean) < 4.5 && fabs(sd) < 4.5, "seed %d: z of mean %.1f, of sd %.1f", (int)seed, mean, sd);
        check_quiet(&fit, (int)seed);
        gpumc_free(&fit);
    }
    funnel_elements = 9;
}

/* A second funnel, of one element, is not entered: its divergences must be told, or lead to shorter steps. */
static double second_funnel(const double *x, double *g, void *data)
{
    const double sd = exp(0.5 * x[10]);
    double lp = funnel_density(x, g, data) + gpumc_normal_lpdf(x[10], 0, 3, &g[10], NULL, NULL), by_sd = 0;
    lp += gpumc_normal_lpdf(x[11], 0, sd, &g[11], NULL, &by_sd);
    g[10] += 0.5 * sd * by_sd;
    return lp;
}

static void check_second_funnel(void)
{
    static const gpumc_param params[] = { { .name = "v" }, { .name = "x", .size = 9 }, { .name = "w" },
                                          { .name = "y" } };
    const gpumc_model m = { .params = params, .n_params = 4, .log_density = second_funnel };
    int told = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const gpumc_sample_options o = { .seed = seed };
        gpumc_fit fit;
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        int is_told = strstr(fit.sampler_reason, "GPUMC_W_DIVERGENT") != NULL;
        for (size_t i = 0; i < fit.n_warnings; i++) is_told |= fit.warnings[i].code == GPUMC_W_DIVERGENT;
        told += is_told;
        CHECK(fit.n_necks > 0 && strstr(fit.sampler_reason, "moves along v"), "seed %d: %s", (int)seed,
              fit.sampler_reason);
        gpumc_free(&fit);
    }
    CHECK(told == 5, "divergences in the other funnel are told in %d of 5 runs", told);
}

/* House martins (Kery & Schaub 2012, 5.4): a walk with drift, whose scale is declared, and noise, the scale that
   moves. Where NUTS draws again its steps are those of the wide side, wherever moves have left the chains. */
GPUMC_ROW(martins_row, 1 /* log N */, 1 /* noise */, 1 /* log of the count */)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}

static void check_again(void)
{
    enum { YEARS = 20 };
    static const double counts[YEARS] = { 271, 261, 309, 318, 231, 216, 208, 226, 195, 226,
                                          233, 209, 226, 192, 191, 225, 245, 205, 191, 174 };
    double y[YEARS], ones[YEARS];
    size_t year[YEARS];
    for (size_t t = 0; t < YEARS; t++) y[t] = log(counts[t]), ones[t] = 1, year[t] = t;
    const gpumc_param params[] = {
        { .name = "start" }, { .name = "drift" }, { .name = "step", .kind = GPUMC_UNIT },
        { .name = "noise", .kind = GPUMC_UNIT },
        { .name = "w", .size = YEARS, .location = "start", .scale = "step", .walk_dim = 1, .covariates = ones,
          .n_covariates = 1, .coefficients = "drift" } };
    const gpumc_prior priors[] = {
        { "start", gpumc_prior_normal, 5.6, 10, 0 }, { "drift", gpumc_prior_normal, 1, 31.6, 0 },
        { "step", gpumc_prior_uniform, 0, 1, 0 }, { "noise", gpumc_prior_uniform, 0, 1, 0 } };
    const gpumc_hier_take takes[] = { { "w", year }, { "noise", NULL } };
    const double *const columns = y;
    const gpumc_hier_rows rows = {
        .name = "y", .data = { .kind = &martins_row, .n_rows = YEARS, .columns = &columns }, .takes = takes,
        .n_takes = 2 };
    const gpumc_hier_data data = { .params = params, .n_params = 5, .priors = priors, .n_priors = 4, .rows = &rows,
                                   .n_rows = 1 };
    gpumc_error error;
    gpumc_hier *h = gpumc_hier_create(&data, &error);
    CHECK(h != NULL, "%s", error.text);
    for (uint64_t seed = 4; h && seed <= 8; seed += 4) {
        const gpumc_sample_options o = { .seed = seed };
        gpumc_fit fit;
        CHECK(gpumc_sample(gpumc_hier_model(h), &o, &fit) == GPUMC_OK && fit.n_necks == 1, "%s", fit.message);
        CHECK(fit.step_size > 0.03, "seed %d: step size %.2g, %s", (int)seed, fit.step_size, fit.sampler_reason);
        gpumc_free(&fit);
    }
    gpumc_hier_free(h);
}

/* ---- errors in variables: declared elements that noisy data inform --------------------------------- */
static double measured[N], outcome[N];

/* x: mean and spread of the true covariate, intercept, slope, noise of the outcome, the covariate itself unless it is
   integrated out. */
static double noisy_prior(const double *x, double *g)
{
    return gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 3, &g[1], NULL)
        + gpumc_normal_lpdf(x[2], 0, 5, &g[2], NULL, NULL) + gpumc_normal_lpdf(x[3], 0, 3, &g[3], NULL, NULL)
        + gpumc_half_normal_lpdf(x[4], 3, &g[4], NULL);
}

static double noisy_density(const double *x, double *g, void *data)
{
    double lp = noisy_prior(x, g);
    (void)data;
    for (int i = 0; i < N; i++) {
        const double t = x[5 + i];
        double by_mean = 0;
        lp += gpumc_normal_lpdf(t, x[0], x[1], &g[5 + i], &g[0], &g[1])
            + gpumc_normal_lpdf(measured[i], t, 0.7, NULL, &g[5 + i], NULL)
            + gpumc_normal_lpdf(outcome[i], x[2] + x[3] * t, x[4], NULL, &by_mean, &g[4]);
        g[2] += by_mean;
        g[3] += by_mean * t;
        g[5 + i] += by_mean * x[3];
    }
    return lp;
}

/* measured ~ normal(m, sqrt v), v = s^2 + 0.49; outcome given it ~ normal(a + b (m + k (measured - m)),
   sqrt(b^2 c + noise^2)), where k = s^2 / v and c = 0.49 k. */
static double noisy_marginal(const double *x, double *g, void *data)
{
    const double m = x[0], s = x[1], b = x[3], noise = x[4], v = s * s + 0.49, k = s * s / v, c = 0.49 * k;
    const double k_by_s = 2 * s * 0.49 / (v * v), root = sqrt(v), sd = sqrt(b * b * c + noise * noise);
    double lp = noisy_prior(x, g);
    (void)data;
    for (int i = 0; i < N; i++) {
        const double off = measured[i] - m;
        double by_mean = 0, by_sd = 0;
        lp += gpumc_normal_lpdf(measured[i], m, root, NULL, &by_mean, &by_sd);
        g[0] += by_mean;
        g[1] += by_sd * s / root;
        by_mean = by_sd = 0;
        lp += gpumc_normal_lpdf(outcome[i], x[2] + b * (m + k * off), sd, NULL, &by_mean, &by_sd);
        g[0] += by_mean * b * (1 - k);
        g[1] += by_mean * b * off * k_by_s + by_sd * b * b * 0.49 * k_by_s / (2 * sd);
        g[2] += by_mean;
        g[3] += by_mean * (m + k * off) + by_sd * b * c / sd;
        g[4] += by_sd * noise / sd;
    }
    return lp;
}

static void check_noisy(void)
{
    static const gpumc_param params[] = {
        { .name = "m" }, { .name = "s", .kind = GPUMC_POSITIVE }, { .name = "a" }, { .name = "b" },
        { .name = "noise", .kind = GPUMC_POSITIVE }, { .name = "t", .size = N, .location = "m", .scale = "s" } };
    static const double shares[POINTS] = { 0.01, 0.05, 0.2, 0.5, 0.9 };
    const gpumc_model model = { .params = params, .n_params = 6, .log_density = noisy_density };
    const gpumc_model marginal = { .params = params, .n_params = 5, .log_density = noisy_marginal };
    for (uint64_t seed = 1; seed <= 5; seed++) {
        const gpumc_sample_options o = { .seed = seed }, more = { .seed = seed, .num_samples = 10000 };
        gpumc_rng rng = gpumc_rng_at(seed + 7, 2, 0, 0);
        gpumc_fit fit, known;
        for (int i = 0; i < N; i++) {
            const double t = gpumc_normal_rng(&rng, 1, 1.5);
            measured[i] = gpumc_normal_rng(&rng, t, 0.7);
            outcome[i] = gpumc_normal_rng(&rng, 0.5 + 1.2 * t, 0.5);
        }
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        CHECK(gpumc_sample(&marginal, &more, &known) == GPUMC_OK && known.n_necks == 0, "%s", known.message);
        CHECK(fit.n_necks > 0 && strstr(fit.sampler_reason, "; moves along noise"), "data set %d: %s", (int)seed,
              fit.sampler_reason);
        const gpumc_series of = gpumc_fit_series(&fit, 4), law = gpumc_fit_series(&known, 4);
        for (int k = 0; k < POINTS; k++) {
            const double off = gpumc_quantile(of, shares[k]).value - gpumc_quantile(law, shares[k]).value;
            const double z = off / hypot(gpumc_mcse_quantile(of, shares[k]).value,
                                         gpumc_mcse_quantile(law, shares[k]).value);
            CHECK(fabs(z) < 4.5, "data set %d, quantile %g: z %.1f", (int)seed, shares[k], z);
        }
        gpumc_free(&fit);
        gpumc_free(&known);
    }
}

/* ---- the move ------------------------------------------------------------------------------------- */
/* Elements that are not normal given the rest; walks of order 1 and 2, observed with noise. */
static double skewed_density(const double *x, double *g, void *data)
{
    double lp = groups_density(x, g, data);
    for (int j = 0; j < J; j++) {
        const double rate = exp(0.5 * x[2 + j]);
        lp -= rate;
        g[2 + j] -= 0.5 * rate;
    }
    return lp;
}

static double walk_density(const double *x, double *g, int order)
{
    const double *w = x + 2;
    double lp = gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_half_normal_lpdf(x[1], 1, &g[1], NULL), by_mean;
    for (int j = 0; j < J; j++) {
        const double mean = j < order ? 0 : order == 1 ? w[j - 1] : 2 * w[j - 1] - w[j - 2];
        by_mean = 0;
        lp += gpumc_normal_lpdf(effect[j], w[j], se[j], NULL, &g[2 + j], NULL)
            + gpumc_normal_lpdf(w[j], mean, j < order ? 3 : x[1], &g[2 + j], &by_mean, j < order ? NULL : &g[1]);
        if (j >= order) g[1 + j] += order * by_mean;
        if (j >= order && order == 2) g[j] -= by_mean;
    }
    return lp;
}

static double lattice_density(const double *x, double *g, void *data)
{
    const double *w = x + 2, of_tau = 1 / (x[1] * x[1]);
    double Q[J * J], lp = gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_half_normal_lpdf(x[1], 1, &g[1], NULL);
    (void)data;
    lattice_precision(Q);
    for (int i = 0; i < J; i++) {
        double Qw = 0;
        for (int j = 0; j < J; j++) Qw += Q[i * J + j] * w[j];
        lp += gpumc_normal_lpdf(effect[i], w[i], se[i], NULL, &g[2 + i], NULL) - 0.5 * of_tau * w[i] * Qw - log(x[1]);
        g[1] += (of_tau * w[i] * Qw - 1) / x[1];
        g[2 + i] -= of_tau * Qw;
    }
    return lp;
}

/* A run of one chain, as far as moves need it. */
typedef struct bare {
    gpumc__run run;
    gpumc__chain chain;
    double scale[WIDE + 2], mean[WIDE + 2], z0[WIDE + 2], h[WIDE + 2], factors[2 * ROOM];
    gpumc__rescale_row rows[WIDE + 2];
    unsigned char coupled[ROOM];
    gpumc_metric metric;
} bare;

static void bare_open(bare *b, const gpumc_model *m)
{
    const size_t dim = gpumc_model_n_values(m), bytes = gpumc_layout_bytes(m, NULL);
    const size_t nuts_bytes = gpumc_nuts_bytes(dim, 1);
    gpumc_layout *layout = gpumc_layout_init(m, malloc(bytes), bytes, NULL);
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < dim; i++) b->scale[i] = 1, b->z0[i] = 0.5, b->h[i] = 0.1;
    b->metric.kind = GPUMC_METRIC_DIAG;
    b->metric.dim = dim;
    b->metric.scale = b->scale;
    b->metric.mean = b->mean;
    b->run.layout = layout;
    b->run.rescale_z0 = b->z0;
    b->run.rescale_h = b->h;
    b->run.rescale_rows = b->rows;
    b->run.rescale_coupled = b->coupled;
    b->run.rescale_room = ROOM;
    b->run.rescale_factors = b->factors;
    b->run.adapt = (gpumc_adapt *)calloc(1, sizeof(gpumc_adapt));
    b->chain.nuts = gpumc_nuts_init(malloc(nuts_bytes), nuts_bytes, dim, 1, &b->metric, 0.1, 1, 0, b->z0, NULL);
    b->chain.work = (double *)malloc(gpumc_layout_work(layout) * sizeof(double));
}
static void bare_close(bare *b)
{
    free(b->run.layout);
    free(b->run.adapt);
    free(b->chain.nuts);
    free(b->chain.work);
}

/* Moves q to `to`, with the scale changed by change; returns the log Jacobian. */
static double move(bare *b, const gpumc__rescale *k, double change, const double *q, double *to)
{
    gpumc__mover v = gpumc__mover_open(&b->run, &b->chain, k, q);
    const uint64_t before = b->chain.gradients;
    CHECK(gpumc__rescale_fill(&v, &v.at), "no map");
    CHECK(b->chain.gradients - before == 1 + k->colours, "a map costs other than the manual says");
    const double log_jacobian = gpumc__rescale_shift(&v, change) - v.to->lp;
    CHECK(b->chain.gradients - before == 3 + 2 * k->colours, "a move costs other than the manual says");
    memcpy(to, v.to->q, (J + 2) * sizeof *q);
    gpumc__mover_close(&v);
    return log_jacobian;
}

/* The coupling that is found, the map and its way back, its Jacobian by differences (the matrix of derivatives is
   triangular), and, where elements are normal given the rest, that what the density gains depends on the rest alone:
   it is the same from two points that differ in the elements. */
static void check_map(void)
{
    const struct { double (*density)(const double *, double *, void *); size_t colours; int is_normal; } cases[] = {
        { groups_density, 1, 1 }, { skewed_density, 1, 0 }, { first_order, 3, 1 }, { second_order, 5, 1 },
        { lattice_density, 6, 1 } };
    groups_draw(3, 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        gpumc_model m = groups_model;
        bare b;
        m.log_density = cases[c].density;
        bare_open(&b, &m);
        double q[J + 2], to[J + 2], other[J + 2], g[J + 2], by_differences = 0, worst = 0, farthest = 0;
        for (size_t i = 0; i < J + 2; i++) q[i] = 0.3 * sin((double)i);
        gpumc__rescale k = { 1, 2, J, 0, 0, 1, 1, 4 };
        gpumc__mover v = gpumc__mover_open(&b.run, &b.chain, &k, b.z0);
        CHECK(gpumc__rescale_couple(&v, &k) && k.colours == cases[c].colours, "case %d: %d colours", (int)c,
              (int)k.colours);
        gpumc__mover_close(&v);
        const double log_jacobian = move(&b, &k, -1.5, q, to);
        for (size_t i = 2; i < J + 2; i++) {
            q[i] += 1e-6;
            move(&b, &k, -1.5, q, other);
            q[i] -= 1e-6;
            by_differences += log((other[i] - to[i]) / 1e-6);
        }
        CHECK(fabs(log_jacobian - by_differences) < 1e-6 && fabs(log_jacobian) > 1,
              "case %d: log Jacobian %.9g, by differences %.9g", (int)c, log_jacobian, by_differences);
        move(&b, &k, 1.5, to, other);
        for (size_t i = 0; i < J + 2; i++) worst = check_worst(worst, fabs(other[i] - q[i]));
        for (size_t i = 2; i < J + 2; i++) farthest = fmax(farthest, fabs(to[i] - q[i]));
        CHECK(worst < 1e-11 && farthest > 0.1, "case %d: the way back, from %g, ends %g off", (int)c, farthest,
              worst);
        double *work = b.chain.work, gain = gpumc_model_eval(b.run.layout, to, g, work)
                                            - gpumc_model_eval(b.run.layout, q, g, work);
        for (size_t i = 2; i < J + 2; i++) q[i] += 0.2 * cos((double)i * (double)i);
        move(&b, &k, -1.5, q, to);
        gain -= gpumc_model_eval(b.run.layout, to, g, work) - gpumc_model_eval(b.run.layout, q, g, work);
        CHECK((fabs(gain) < 1e-9) == cases[c].is_normal, "case %d: the gain depends on elements by %g", (int)c, gain);
        bare_close(&b);
    }
}

/* A block in which not all pairs are looked at: a walk, and its centre, where there is no force. */
static double wide_walk(const double *x, double *g, void *data)
{
    double lp = gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_std_normal_lpdf(x[1], &g[1]);
    (void)data;
    for (int i = 2; i < WIDE + 2; i++) {
        lp += gpumc_normal_lpdf(sin(i), x[i], 0.5, NULL, &g[i], NULL);
        if (i > 2) lp += gpumc_normal_lpdf(x[i], x[i - 1], exp(x[1]), &g[i], &g[i - 1], NULL);
    }
    return lp;
}

static void check_wide(void)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "log_tau" }, { .name = "w", .size = WIDE } };
    const gpumc_model m = { .params = params, .n_params = 3, .log_density = wide_walk };
    static bare b;
    double force = 0;
    bare_open(&b, &m);
    gpumc__rescale k = { 1, 2, WIDE, 0, 0, 1, 1, 4 };
    gpumc__mover v = gpumc__mover_open(&b.run, &b.chain, &k, b.z0);
    CHECK(gpumc__rescale_couple(&v, &k) && k.colours == 3, "%d colours", (int)k.colours);
    CHECK(b.run.rescale_used == WIDE - 1, "%d entries", (int)b.run.rescale_used);
    v.to->q[1] = -2;
    CHECK(gpumc__rescale_fill(&v, &v.at), "no map");
    memcpy(v.to->q + 2, v.at.m + 2, WIDE * sizeof(double));
    gpumc__chain_eval(&b.run, &b.chain, v.to->q, v.to->g);
    for (size_t i = 2; i < WIDE + 2; i++) force = check_worst(force, fabs(v.to->g[i]));
    CHECK(force < 1e-9, "force %g", force);
    gpumc__mover_close(&v);
    bare_close(&b);
}

/* A block of which every two elements are coupled: as many colours as elements, up to 24. */
static int dense_elements;

static double dense_density(const double *x, double *g, void *data)
{
    double lp = gpumc_std_normal_lpdf(x[0], &g[0]), sum = 0;
    (void)data;
    for (int i = 1; i <= dense_elements; i++) {
        lp += gpumc_std_normal_lpdf(x[i], &g[i]);
        sum += x[i];
    }
    for (int i = 1; i <= dense_elements; i++) g[i] -= sum;
    return lp - 0.5 * sum * sum;
}

static void check_dense(void)
{
    for (dense_elements = 23; dense_elements <= 26; dense_elements++) {
        const size_t n = (size_t)dense_elements;
        const gpumc_param params[] = { { .name = "a" }, { .name = "b", .size = n } };
        const gpumc_model m = { .params = params, .n_params = 2, .log_density = dense_density };
        static bare b;
        bare_open(&b, &m);
        gpumc__rescale k = { 0, 1, n, 0, 0, 1, 1, 4 };
        gpumc__mover v = gpumc__mover_open(&b.run, &b.chain, &k, b.z0);
        for (int again = 0; again < 2; again++)
            CHECK(gpumc__rescale_couple(&v, &k) == (n <= 24) && k.colours == n, "%d colours of %d", (int)k.colours,
                  (int)n);
        CHECK(b.chain.gradients == n + 1, "%d gradients for %d elements", (int)b.chain.gradients, (int)n);
        gpumc__mover_close(&v);
        bare_close(&b);
    }
}

/* Elements that are normal on the natural scale, and not in free coordinates: several Newton steps lead to their
   centre, one does not, except if that is where it starts; where none lead there no map is given. */
static void check_bent(void)
{
    const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
                                   { .name = "theta", .kind = GPUMC_POSITIVE, .size = J, .typical = 2,
                                     .bend = 0.5 } };
    gpumc_model m = groups_model;
    for (int way = 0; way < 3; way++) {                      /* normal; draws all at the same mu; at several */
        bare b;
        size_t rows[17];
        double draws[17 * (J + 2)], force[2] = { 0, 0 }, x[J + 2];
        m.params = way ? params : groups_params;
        bare_open(&b, &m);
        b.z0[1] = -1;                                                                                  /* log tau */
        gpumc__to_natural(b.run.layout, b.z0, x, b.chain.work);
        b.z0[0] = x[2];                                                            /* mu, where all elements are */
        for (size_t d = 0; d < 17; d++) {
            rows[d] = d;
            memcpy(draws + d * (J + 2), b.z0, (J + 2) * sizeof(double));
            if (way == 2) draws[d * (J + 2)] += 0.1 * (double)d;
        }
        b.run.adapt->q = draws;
        b.run.adapt->dim = J + 2;
        b.run.chains = &b.chain;
        gpumc__rescale_trial t = { &b.run, { 1, 2, J, 0, 0, 0.5, 0, 0 }, rows, 17, 0, { 0 }, 0 };
        CHECK(gpumc__rescale_narrows(&b.run, &t) && (t.k.bent == 1) == (way == 2), "way %d: bent %d", way,
              (int)t.k.bent);
        gpumc__mover v = gpumc__mover_open(&b.run, &b.chain, &t.k, draws + 16 * (J + 2));
        for (t.k.bent = 0; t.k.bent < 2; t.k.bent++) {
            v.to->q[1] = -3;
            CHECK(gpumc__rescale_fill(&v, &v.at), "no map");
            memcpy(v.to->q + 2, v.at.m + 2, J * sizeof(double));
            gpumc__chain_eval(&b.run, &b.chain, v.to->q, v.to->g);
            for (size_t i = 2; i < J + 2; i++)
                force[t.k.bent] = check_worst(force[t.k.bent], fabs(v.to->g[i]) / v.at.D[i]);
        }
        CHECK(force[1] < 0.02 && (way < 2 || force[0] > 0.5), "force %g after one step, %g after all", force[0],
              force[1]);
        t.k.bent = 1;
        v.to->q[0] = 1000;
        CHECK(gpumc__rescale_fill(&v, &v.at) == !way, "a map for elements that are far off");
        gpumc__mover_close(&v);
        bare_close(&b);
    }
}

/* Blocks that one scale makes stiff become one, for other scales too, and trials that are there twice then go; not so if
   a scale, 7, is among the elements. */
static void check_join(void)
{
    static const size_t trials[6][3] = { { 0, 5, 3 }, { 1, 5, 3 }, { 0, 2, 3 }, { 1, 2, 3 }, { 20, 5, 3 },
                                         { 7, 10, 2 } };
    static const size_t joined[3][3] = { { 0, 2, 6 }, { 1, 2, 6 }, { 20, 2, 6 } };
    for (int among = 0; among < 2; among++) {
        const int n = among ? 6 : 3;
        gpumc__rescale_trial t[6];
        memset(t, 0, sizeof t);
        for (int i = 0; i < 6; i++) {
            t[i].k.scale = trials[i][0];
            t[i].k.from = trials[i][1];
            t[i].k.n = trials[i][2];
        }
        CHECK(gpumc__rescale_join(t, 5 + among) == n, "other than %d trials are left", n);
        for (int i = 0; i < n; i++) {
            const size_t *is = among ? trials[i] : joined[i];
            CHECK(t[i].k.scale == is[0] && t[i].k.from == is[1] && t[i].k.n == is[2],
                  "trial %d: scale %d, %d from %d", i, (int)t[i].k.scale, (int)t[i].k.n, (int)t[i].k.from);
        }
    }
}

/* Which divergences are excused: v and x are a funnel along which moves lead, w and y a second one; and with
   `inside` w rules the last three x instead. */
static double inside_density(const double *x, double *g, void *data)
{
    const double of_v = exp(0.5 * x[0]), of_w = exp(0.5 * x[10]);
    double lp = gpumc_normal_lpdf(x[0], 0, 3, &g[0], NULL, NULL), by_v = 0, by_w = 0;
    (void)data;
    for (int i = 1; i < 10; i++)
        lp += gpumc_normal_lpdf(x[i], 0, i < 7 ? of_v : of_w, &g[i], NULL, i < 7 ? &by_v : &by_w);
    lp += gpumc_std_normal_lpdf(x[11], &g[11]);
    lp += gpumc_normal_lpdf(x[10], 0, 3, &g[10], NULL, NULL);
    g[0] += 0.5 * of_v * by_v;
    g[10] += 0.5 * of_w * by_w;
    return lp;
}

static void check_excuses(void)
{
    static const gpumc_param params[] = { { .name = "v" }, { .name = "x", .size = 9 }, { .name = "w" },
                                          { .name = "y" } };
    static const struct { double v, w; int inside, is_excused; } cases[] = {
        { -5, 0, 0, 1 }, { -5, -5, 0, 0 }, { 1, -5, 0, 0 }, { 1, 0, 0, 0 }, { -5, 0, 1, 1 }, { -5, -5, 1, 0 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const gpumc_model m = { .params = params, .n_params = 4,
                                .log_density = cases[c].inside ? inside_density : second_funnel };
        double q[12];
        bare b;
        bare_open(&b, &m);
        for (int i = 0; i < 12; i++) {
            b.z0[i] = 0;
            q[i] = 0.1 * cos(i);
        }
        gpumc_nuts_set_step_size(b.chain.nuts, 0.5);
        b.run.n_rescales = 1;
        b.run.rescales[0] = (gpumc__rescale){ 0, 1, 9, 0, 0, 3, 1.5, 6 };
        gpumc__mover v = gpumc__mover_open(&b.run, &b.chain, b.run.rescales, b.z0);
        CHECK(gpumc__rescale_couple(&v, b.run.rescales), "no rows");
        gpumc__mover_close(&v);
        q[0] = cases[c].v;
        q[10] = cases[c].w;
        CHECK(gpumc__rescale_excuses(&b.run, &b.chain, q) == cases[c].is_excused, "case %d", (int)c);
        bare_close(&b);
    }
}

/* ---- runs ------------------------------------------------------------------------------------------ */
static int same_runs(const gpumc_fit *a, const gpumc_fit *b)
{
    return a->n_necks == b->n_necks && same_draws(a, b) && same_stats(a->stats, b->stats, a->n_chains * a->n_draws);
}

static int stop_at_300(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats, void *user)
{
    (void)chain;
    (void)values;
    (void)stats;
    (void)user;
    return draw == 300;
}
static int go_on(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats, void *user)
{
    return stop_at_300(chain, draw, values, stats, user) && draw < 300;
}

/* Memory that holds nothing of an earlier run. */
static void *filled(size_t bytes, void *user)
{
    void *block = malloc(bytes);
    (void)user;
    return block ? memset(block, 0x55, bytes) : NULL;
}
static void release(void *block, void *user)
{
    (void)user;
    free(block);
}

static void check_runs(void)
{
    const char *file = in_folder("rescale.ck");
    gpumc_sample_options o = { .seed = 5, .threads = 1, .on_draw = go_on };
    gpumc_model m = groups_model, batch = groups_model;
    gpumc_fit fit, other;
    groups_draw(1, 0.5);
    m.log_density = lattice_density;                                                     /* elements are coupled */
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_necks == 1, "%s", fit.message);
    o.threads = 2;
    CHECK(gpumc_sample(&m, &o, &other) == GPUMC_OK && same_runs(&fit, &other), "2 threads");
    gpumc_free(&other);
    batch.log_density = NULL;
    batch.log_density_batch = groups_batch;
    CHECK(gpumc_sample(&batch, &o, &other) == GPUMC_OK && other.n_necks == 0, "moves break up batches");
    gpumc_free(&other);
    o.checkpoint = file;
    o.on_draw = stop_at_300;
    CHECK(gpumc_sample(&m, &o, &other) == GPUMC_STOPPED && other.resumable, "%s", other.message);
    gpumc_free(&other);
    o.on_draw = go_on;
    o.allocator.allocate = filled;
    o.allocator.release = release;
    CHECK(gpumc_resume(&m, &o, file, &other) == GPUMC_OK && same_runs(&fit, &other), "resumed: %s",
          other.message);
    gpumc_free(&other);
    gpumc_free(&fit);
}

static int remove_any(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

/* A store says that scales moved: paths that are rejected in necks are no reason for a warning after a merge. */
static void check_merge(void)
{
    static const gpumc_param params[] = { { .name = "v" }, { .name = "x", .size = 9 } };
    const gpumc_model m = { .params = params, .n_params = 2, .log_density = funnel_density };
    const char *stores[2];
    gpumc_fit fit;
    for (int i = 0; i < 2; i++) {
        const gpumc_sample_options o = { .seed = 2, .first_chain_id = (uint32_t)(4 * i) };
        gpumc_error error;
        stores[i] = in_folder(i ? "b" : "a");
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_necks == 1, "%s", fit.message);
        CHECK(gpumc_write_store(&fit, stores[i], NULL, &error) == GPUMC_OK, "%s", error.text);
        gpumc_free(&fit);
    }
    CHECK(gpumc_merge(stores, 2, NULL, &fit) == GPUMC_OK && fit.n_chains == 8 && fit.n_necks == 1, "%s", fit.message);
    check_quiet(&fit, 0);
    gpumc_free(&fit);
}

/* No moves where a hierarchy is declared, a sampler is asked for, nothing is learned, or a guide leads. */
static void check_not_needed(void)
{
    for (int way = 0; way < 4; way++) {
        gpumc_param params[3];
        gpumc_model m = groups_model;
        gpumc_sample_options o = { .seed = 2 };
        gpumc_fit fit;
        memcpy(params, groups_params, sizeof params);
        m.params = params;
        if (way == 0) params[2].location = "mu", params[2].scale = "tau";
        if (way == 1) o.sampler = GPUMC_SAMPLER_NUTS;
        if (way == 3) m.guide = groups_density;
        if (way == 2) o.num_warmup = -1, o.step_size = 0.1;
        groups_draw(4, 0.5);
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_necks == 0 && !strstr(fit.sampler_reason, "moves"),
              "way %d: %s, %s", way, fit.message, fit.sampler_reason);
        gpumc_free(&fit);
    }
}

/* A rare neck, of which the first four draws of two of these runs show too little, must be found by all. */
static void check_rare(void)
{
    groups_draw(7, 1.3);
    for (uint64_t seed = 0; seed < (getenv("QUICK") ? 3 : 40); seed++) {
        const gpumc_sample_options o = { .seed = seed, .num_samples = 1 };
        gpumc_fit fit;
        CHECK(gpumc_sample(&groups_model, &o, &fit) == GPUMC_OK && fit.n_necks == 1, "seed %d: %s, %s", (int)seed,
              fit.message, fit.sampler_reason);
        gpumc_free(&fit);
    }
}

/* A regression on covariates that are measured with error, whose true values are a declared population: a small sigma
   leaves these little room. Some warm-ups show no neck; before draws are made again, it is found among the draws. */
enum { NOTED = 60 };
typedef struct noted { double x[NOTED], y[NOTED]; } noted;
static double noted_density(const double *p, double *g, void *data)
{
    const noted *d = (const noted *)data;
    double lp = gpumc_normal_lpdf(p[0], 0, 10, &g[0], NULL, NULL) + gpumc_normal_lpdf(p[1], 0, 10, &g[1], NULL, NULL)
        + gpumc_half_cauchy_lpdf(p[2], 5, &g[2], NULL) + gpumc_normal_lpdf(p[3], 0, 10, &g[3], NULL, NULL)
        + gpumc_half_cauchy_lpdf(p[4], 5, &g[4], NULL);
    for (int i = 0; i < NOTED; i++) {
        const double x = p[5 + i];
        double pull = 0;
        lp += gpumc_normal_lpdf(x, p[3], p[4], &g[5 + i], &g[3], &g[4])
            + gpumc_normal_lpdf(d->x[i], x, 0.8, NULL, &g[5 + i], NULL)
            + gpumc_normal_lpdf(d->y[i], p[0] + p[1] * x, p[2], NULL, &pull, &g[2]);
        g[0] += pull;
        g[1] += pull * x;
        g[5 + i] += pull * p[1];
    }
    return lp;
}
static void check_sought_again(void)
{
    static const gpumc_param params[] = { { .name = "alpha" }, { .name = "beta" },
        { .name = "sigma", .kind = GPUMC_POSITIVE }, { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "x", .size = NOTED, .location = "mu", .scale = "tau" } };
    noted d;
    const gpumc_model m = { .name = "measured", .params = params, .n_params = 6, .log_density = noted_density,
                            .data = &d };
    gpumc_rng rng = gpumc_rng_at(6, 0, 0, 0);
    int n_again = 0, n_missed = 0;
    for (int i = 0; i < NOTED; i++) {
        const double x = gpumc_normal_rng(&rng, 2, 1.7);
        d.x[i] = gpumc_normal_rng(&rng, x, 0.8);
        d.y[i] = gpumc_normal_rng(&rng, 1.3 + 2 * x, 1);
    }
    for (uint64_t seed = 1; seed <= (getenv("QUICK") ? 2 : 25); seed++) {
        const gpumc_sample_options o = { .seed = seed };
        gpumc_fit fit;
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        const int again = strstr(fit.sampler_reason, "so again") != NULL;
        n_again += again;
        n_missed += again && !fit.n_necks;
        gpumc_free(&fit);
    }
    CHECK(n_missed <= 1, "measurement errors: %d runs drew again, %d without moves", n_again, n_missed);
}

int main(void)
{
    if (!folder_open("rescale")) return 1;
    check_map();
    check_wide();
    check_dense();
    check_bent();
    check_join();
    check_excuses();
    check_groups();
    check_rare();
    check_sought_again();
    check_positive();
    check_hidden();
    check_law(first_order, walk_marginal, "walk");
    check_law(lattice_density, lattice_marginal, "lattice");
    check_funnel();
    check_second_funnel();
    if (!getenv("QUICK")) check_again();
    check_noisy();
    check_runs();
    check_merge();
    check_not_needed();
    (void)nftw(folder, remove_any, 8, FTW_DEPTH);
    return check_end();
}
