/* Posteriors of three models, a regression, a hierarchy and a mixture, against long runs of a sampler that
   shares nothing with the library (known_posteriors.c), with default settings and 2000 draws a chain.

   For every parameter z = (mean - reference) / sqrt(mcse^2 + reference error^2) of x and of (x - centre)^2.
   The bound of |z| has a false-alarm rate of 0.1 % over all of them. Each model has a twin with a small
   mistake, which the comparison must reject. */
#include "../gpumc.h"
#include "check.h"
#include "known_posteriors.h"

enum { N_COMPARED = 2 * (5 + 3 + HIERARCHY_GROUPS + 5) };

/* ---- models: *twin is 1 in the broken ones ------------------------------------------------------- */

typedef struct regression { double alpha, beta[3], sigma; } regression;
static const gpumc_param regression_params[] = { { .name = "alpha" }, { .name = "beta", .size = 3 },
    { .name = "sigma", .kind = GPUMC_POSITIVE } };

/* Twin: residuals 5 % too small. */
static double regression_density(const double *x, double *grad, void *twin)
{
    const double shrink = *(const int *)twin ? 0.95 : 1;
    const regression *p = (const regression *)x;
    regression *g = (regression *)grad;
    double lp = gpumc_normal_lpdf(p->alpha, 0, 5, &g->alpha, NULL, NULL)
        + gpumc_half_normal_lpdf(p->sigma, 2, &g->sigma, NULL);
    for (int j = 0; j < 3; j++) lp += gpumc_normal_lpdf(p->beta[j], 0, 2, &g->beta[j], NULL, NULL);
    for (int i = 0; i < REGRESSION_ROWS; i++) {
        double mean = p->alpha, slope = 0;
        for (int j = 0; j < 3; j++) mean += regression_x[i][j] * p->beta[j];
        lp += gpumc_normal_lpdf(shrink * (regression_y[i] - mean), 0, p->sigma, &slope, NULL, &g->sigma);
        g->alpha -= shrink * slope;
        for (int j = 0; j < 3; j++) g->beta[j] -= shrink * slope * regression_x[i][j];
    }
    return lp;
}

typedef struct hierarchy { double mu, tau, sigma, theta[HIERARCHY_GROUPS]; } hierarchy;
static const gpumc_param hierarchy_params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
    { .name = "sigma", .kind = GPUMC_POSITIVE },
    { .name = "theta", .size = HIERARCHY_GROUPS, .location = "mu", .scale = "tau" } };

/* Twin: a wider prior of tau. */
static double hierarchy_density(const double *x, double *grad, void *twin)
{
    const hierarchy *p = (const hierarchy *)x;
    hierarchy *g = (hierarchy *)grad;
    double lp = gpumc_normal_lpdf(p->mu, 0, 5, &g->mu, NULL, NULL)
        + gpumc_half_normal_lpdf(p->tau, *(const int *)twin ? 3 : 2, &g->tau, NULL)
        + gpumc_half_normal_lpdf(p->sigma, 2, &g->sigma, NULL);
    for (int j = 0; j < HIERARCHY_GROUPS; j++)
        lp += gpumc_normal_lpdf(p->theta[j], p->mu, p->tau, &g->theta[j], &g->mu, &g->tau);
    for (int i = 0; i < HIERARCHY_ROWS; i++) {
        const int j = hierarchy_group[i];
        lp += gpumc_normal_lpdf(hierarchy_y[i], p->theta[j], p->sigma, NULL, &g->theta[j], &g->sigma);
    }
    return lp;
}

typedef struct mixture { double mu[2], sigma[2], w; } mixture;
static const gpumc_param mixture_params[] = { { .name = "mu", .size = 2, .kind = GPUMC_ORDERED },
    { .name = "sigma", .size = 2, .kind = GPUMC_POSITIVE }, { .name = "w", .kind = GPUMC_UNIT } };

/* Adds the log likelihood of one row; part is the probability that the row is of component k. */
static double mixture_row(double y, const mixture *p, mixture *g)
{
    double lp[2], dmu[2] = { 0 }, dsigma[2] = { 0 }, part[2], sum;
    for (int k = 0; k < 2; k++)
        lp[k] = gpumc_log(k ? 1 - p->w : p->w)
            + gpumc_normal_lpdf(y, p->mu[k], p->sigma[k], NULL, &dmu[k], &dsigma[k]);
    sum = gpumc_log_sum_exp(lp[0], lp[1]);
    for (int k = 0; k < 2; k++) {
        part[k] = gpumc_exp(lp[k] - sum);
        g->mu[k] += part[k] * dmu[k];
        g->sigma[k] += part[k] * dsigma[k];
    }
    g->w += part[0] / p->w - part[1] / (1 - p->w);
    return sum;
}

/* Twin: a flat prior of w. */
static double mixture_density(const double *x, double *grad, void *twin)
{
    const mixture *p = (const mixture *)x;
    mixture *g = (mixture *)grad;
    const double shape = *(const int *)twin ? 1 : 5;
    double lp = gpumc_beta_lpdf(p->w, shape, shape, &g->w, NULL, NULL);
    for (int k = 0; k < 2; k++)
        lp += gpumc_normal_lpdf(p->mu[k], 0, 5, &g->mu[k], NULL, NULL)
            + gpumc_half_normal_lpdf(p->sigma[k], 2, &g->sigma[k], NULL);
    for (int i = 0; i < MIXTURE_ROWS; i++) lp += mixture_row(mixture_y[i], p, g);
    return lp;
}

/* ---- comparison ---------------------------------------------------------------------------------- */

typedef struct outcome {
    double worst_z, max_r_hat;
    const char *worst;        /* the parameter of worst_z */
    size_t n_compared;
} outcome;

/* What is not a number counts as infinitely far off. */
static void note_z(gpumc_series s, double reference, double error, const char *name, outcome *o)
{
    const double mcse = gpumc_mcse_mean(s).value;
    const double z = fabs(gpumc_mean(s).value - reference) / sqrt(mcse * mcse + error * error);
    o->n_compared++;
    if (z <= o->worst_z) return;
    o->worst_z = isnan(z) ? INFINITY : z;
    o->worst = name;
}

/* The draws of a column against its reference, (x - centre)^2 being put into square. */
static void compare_column(const gpumc_fit *fit, const known_moments *known, double *square, outcome *o)
{
    const size_t column = gpumc_column(fit, known->name);
    CHECK(column < SIZE_MAX, "%s has no column %s", fit->model_name, known->name);
    if (column == SIZE_MAX) return;
    const gpumc_series x = gpumc_fit_series(fit, column);
    const gpumc_series squares = { square, x.n_chains, x.n_draws, 0, 0 };
    for (size_t c = 0; c < x.n_chains; c++)
        for (size_t i = 0; i < x.n_draws; i++) {
            const double d = x.x[c * x.chain_stride + i * x.draw_stride] - known->centre;
            square[c * x.n_draws + i] = d * d;
        }
    note_z(x, known->mean, known->mean_error, known->name, o);
    note_z(squares, known->square, known->square_error, known->name, o);
    o->max_r_hat = fmax(o->max_r_hat, gpumc_r_hat(x).value);
}

typedef struct example { gpumc_model model; const known_moments *known; size_t n_known; } example;

static const example examples[] = {
    { { .name = "regression", .params = regression_params, .n_params = 3,
        .log_density = regression_density }, regression_known, 5 },
    { { .name = "hierarchy", .params = hierarchy_params, .n_params = 4, .log_density = hierarchy_density },
      hierarchy_known, 3 + HIERARCHY_GROUPS },
    { { .name = "mixture", .params = mixture_params, .n_params = 3, .log_density = mixture_density },
      mixture_known, 5 }
};
enum { N_EXAMPLES = sizeof examples / sizeof *examples, N_DRAWS = 2000, N_CHAINS = 4 };

static outcome run(const example *e, int twin)
{
    static double square[N_CHAINS * N_DRAWS];
    const gpumc_sample_options options = { .num_samples = N_DRAWS };
    gpumc_model model = e->model;
    outcome o = { 0, 0, "", 0 };
    gpumc_fit fit;
    model.data = &twin;
    CHECK(gpumc_sample(&model, &options, &fit) == GPUMC_OK && fit.n_chains == N_CHAINS, "%s: %s", model.name,
          fit.message);
    for (size_t k = 0; k < e->n_known && fit.draws; k++) compare_column(&fit, &e->known[k], square, &o);
    gpumc_free(&fit);
    return o;
}

int main(void)
{
    const double bound = -gpumc_inv_Phi(0.0005 / N_COMPARED);
    size_t n_compared = 0;
    for (int i = 0; i < N_EXAMPLES; i++) {
        const outcome right = run(&examples[i], 0), wrong = run(&examples[i], 1);
        const char *name = examples[i].model.name;
        CHECK(right.worst_z < bound, "%s: %s is %.2f standard errors off, at most %.2f", name, right.worst,
              right.worst_z, bound);
        CHECK(right.max_r_hat < 1.01, "%s: R-hat %.4f", name, right.max_r_hat);
        CHECK(wrong.worst_z > bound, "%s: the broken twin passes with %.2f", name, wrong.worst_z);
        n_compared += right.n_compared;
    }
    CHECK(n_compared == N_COMPARED, "%d comparisons, not %d", (int)n_compared, N_COMPARED);
    return check_end();
}
