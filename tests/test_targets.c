/* The sampler against targets whose moments are known exactly: means, variances and correlations, with
   every metric.

   A target is a model and a list of residuals, functions of a draw whose expectation is zero: x - mean, (x
   - mean)^2 - variance, products minus covariances, and, from the free coordinates q with gradient g of the
   log density, g and q g + 1, which have expectation zero for any density that vanishes at infinity. Each
   residual is judged by z, its mean over its Monte Carlo standard error from 20 batches in each of 4
   chains; under the null hypothesis z is Student t with 79 degrees of freedom. LIMIT makes the false-alarm
   rate about 0.001 over the 11,000 residuals of every sampler; seeds are fixed, so that a test that passes goes on
   passing. Targets that are wrong by a few per cent must be rejected. With an argument (auto, nuts, mams or hmc) only
   that sampler is run. */
#include "check.h"
#include "../gpumc.h"
#include "known_targets.h"
#include "samplers.h"

#ifndef N_DRAWS
#define N_DRAWS 4000                 /* a chain; long_targets.c: 40000 */
#define SEED 1
#endif
enum { N_CHAINS = 4, N_BATCHES = 20, MAX_RESIDUALS = 2200, MAX_DIM = 300 };
static const double LIMIT = 6.0;
static int n_judged;
static gpumc_sampler sampler;        /* of all runs */
static uint64_t next_seed = SEED;    /* differs between runs, which are so independent */

typedef struct known_target {
    const char *name;
    gpumc_model model;
    size_t (*residuals)(const double *x, double *r, const void *data);
    double target_accept;
    int num_warmup;                  /* 0: the default */
    int linked; /* learned centring: the free coordinates of the draws cannot be evaluated here */
} known_target;

/* ---- judging --------------------------------------------------------------------------------- */

/* Sums of every residual over every batch. */
typedef struct tally { double sums[N_CHAINS * N_BATCHES][MAX_RESIDUALS]; size_t n; } tally;

static void tally_draw(tally *t, size_t batch, const double *r, size_t n)
{
    t->n = n;
    for (size_t i = 0; i < n; i++) t->sums[batch][i] += r[i] / (N_DRAWS / N_BATCHES);
}

/* The mean, whose expectation is 0, in standard errors. These come from the scatter of the batches of all chains
   about their common mean, since batches of one chain share no more with each other than with those of others. */
static double tally_z(const tally *t, size_t i)
{
    const int n = N_CHAINS * N_BATCHES;
    double mean = 0, square = 0;
    for (int b = 0; b < n; b++) mean += t->sums[b][i] / n;
    for (int b = 0; b < n; b++) square += (t->sums[b][i] - mean) * (t->sums[b][i] - mean);
    if (square == 0)
        return fabs(mean) < 1e-12 ? 0 : INFINITY; /* an identity, such as a sum that is always 0 */
    return mean / sqrt(square / (n - 1) / n);
}

/* The score residuals g and q g + 1 of every free coordinate. */
static size_t score_residuals(const gpumc_layout *layout, const double *q, double *r, double *work)
{
    const size_t n = gpumc_layout_dim(layout);
    gpumc_model_eval(layout, q, r, work);
    for (size_t i = 0; i < n; i++) r[n + i] = q[i] * r[i] + 1;
    return 2 * n;
}

static void tally_fit(tally *t, const known_target *target, const gpumc_fit *fit)
{
    static double memory[1 << 16], work[1 << 12], r[MAX_RESIDUALS];
    const gpumc_layout *layout = gpumc_layout_init(&target->model, memory, sizeof memory, NULL);
    memset(t, 0, sizeof *t);
    for (size_t c = 0; c < fit->n_chains; c++)
        for (size_t d = 0; d < fit->n_draws; d++) {
            const size_t row = c * fit->draw_capacity + d, batch = c * N_BATCHES + d / (N_DRAWS / N_BATCHES);
            size_t n = target->residuals(fit->draws + row * fit->n_columns, r, target->model.data);
            if (!target->linked)
                n += score_residuals(layout, fit->unconstrained + row * fit->n_free, r + n, work);
            tally_draw(t, batch, r, n);
        }
}

/* Samples the target; returns the largest |z| of its residuals; *where: its index, *n: their number. */
static double worst_z(const known_target *target, gpumc_metric_kind metric, size_t *where, size_t *n)
{
    static tally t;
    const gpumc_sample_options options = { .num_chains = N_CHAINS,
                                           .num_samples = N_DRAWS,
                                           .num_warmup = target->num_warmup,
                                           .target_accept = target->target_accept,
                                           .metric = metric,
                                           .sampler = sampler,
                                           .seed = next_seed++,
                                           .save_unconstrained = 1 };
    double worst = 0;
    gpumc_fit fit;
    const gpumc_status status = gpumc_sample(&target->model, &options, &fit);
    *where = *n = 0;
    CHECK(status == GPUMC_OK, "%s: %s", target->name, fit.message);
    if (status == GPUMC_OK) {
        tally_fit(&t, target, &fit);
        *n = t.n;
        for (size_t i = 0; i < t.n; i++) {
            const double z = fabs(tally_z(&t, i));
            if (z > worst || isnan(z)) { worst = z; *where = i; }
        }
    }
    gpumc_free(&fit);
    return worst;
}

static const char *const metric_names[] = { "automatic", "diagonal", "low-rank", "dense", "unit" };

static void check_target(const known_target *target, gpumc_metric_kind metric)
{
    size_t where, n;
    const double z = worst_z(target, metric, &where, &n);
    n_judged += (int)n;
    CHECK(z < LIMIT, "%s, %s, %s metric: residual %d of %d is %.2f standard errors from 0",
          sampler_names[sampler], target->name, metric_names[metric], (int)where, (int)n, z);
    if (getenv("GPUMC_TEST_VERBOSE"))
        printf("%-4s %-24s %-10s largest of %4d: %.2f (residual %d)\n", sampler_names[sampler], target->name,
               metric_names[metric], (int)n, z, (int)where);
}

/* A broken target, whose stated moments are not its own, must be rejected. */
static void check_rejected(const known_target *target)
{
    size_t where, n;
    const double z = worst_z(target, GPUMC_METRIC_AUTO, &where, &n);
    CHECK(z > LIMIT, "%s is wrong, yet no residual is more than %.2f standard errors from 0", target->name,
          z);
}

/* ---- Gaussians ------------------------------------------------------------------------------- */

/* log p = -factor / 2 x' P x with P = diag(1 / sd^2) + band (tridiagonal) - spike sum v v' */
typedef struct gaussian {
    size_t n, n_spikes;
    double precision[MAX_DIM], off_diagonal, spikes[3][MAX_DIM], spike_weight;
    double covariance[MAX_DIM][MAX_DIM];         /* stated */
    double factor;
} gaussian;

static double gaussian_density(const double *x, double *grad, void *data)
{
    const gaussian *g = data;
    double lp = 0;
    for (size_t i = 0; i < g->n; i++) {
        double px = g->precision[i] * x[i];
        if (i > 0) px += g->off_diagonal * x[i - 1];
        if (i + 1 < g->n) px += g->off_diagonal * x[i + 1];
        grad[i] -= g->factor * px;
    }
    for (size_t k = 0; k < g->n_spikes; k++) {
        double dot = 0;
        for (size_t i = 0; i < g->n; i++) dot += g->spikes[k][i] * x[i];
        for (size_t i = 0; i < g->n; i++) grad[i] += g->factor * g->spike_weight * dot * g->spikes[k][i];
    }
    for (size_t i = 0; i < g->n; i++) lp += 0.5 * x[i] * grad[i];
    return lp;
}

/* Residuals of means, variances and up to three covariances a coordinate, and x' P x - n. */
static size_t gaussian_residuals(const double *x, double *r, const void *data)
{
    static double grad[MAX_DIM];
    const gaussian *g = data;
    const size_t n = g->n;
    size_t k = 0;
    memset(grad, 0, sizeof grad);
    for (size_t i = 0; i < n; i++) r[k++] = x[i];
    for (size_t i = 0; i < n; i++) r[k++] = x[i] * x[i] - g->covariance[i][i];
    for (size_t i = 0; i < n; i++) {
        const size_t others[3] = { (i + 1) % n, (i + 5) % n, (7 * i + 3) % n };
        for (int j = 0; j < 3; j++)
            if (others[j] != i) r[k++] = x[i] * x[others[j]] - g->covariance[i][others[j]];
    }
    r[k++] = -2 * gaussian_density(x, grad, (void *)(uintptr_t)data) / g->factor - (double)n;
    return k;
}

/* Orthonormal vectors from fixed normals; their directions have variance 100, all others 1. */
static void make_spikes(gaussian *g)
{
    gpumc_rng rng = gpumc_rng_at(7, 0, 0, 0);
    g->n_spikes = 3;
    g->spike_weight = 0.99;
    for (size_t k = 0; k < 3; k++) {
        double norm = 0;
        gpumc_rng_normals(&rng, g->spikes[k], g->n);
        for (size_t j = 0; j < k; j++) {
            double dot = 0;
            for (size_t i = 0; i < g->n; i++) dot += g->spikes[k][i] * g->spikes[j][i];
            for (size_t i = 0; i < g->n; i++) g->spikes[k][i] -= dot * g->spikes[j][i];
        }
        for (size_t i = 0; i < g->n; i++) norm += g->spikes[k][i] * g->spikes[k][i];
        for (size_t i = 0; i < g->n; i++) g->spikes[k][i] /= sqrt(norm);
    }
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < g->n; i++)
            for (size_t j = 0; j < g->n; j++) g->covariance[i][j] += 99 * g->spikes[k][i] * g->spikes[k][j];
}

static void make_ar1(gaussian *g, double rho)
{
    const double inner = (1 + rho * rho) / (1 - rho * rho), end = 1 / (1 - rho * rho);
    for (size_t i = 0; i < g->n; i++) g->precision[i] = i == 0 || i + 1 == g->n ? end : inner;
    g->off_diagonal = -rho / (1 - rho * rho);
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < g->n; j++) g->covariance[i][j] = pow(rho, fabs((double)i - (double)j));
}

static gaussian *make_gaussian(size_t n, double least_log10_sd, double most_log10_sd)
{
    gaussian *g = calloc(1, sizeof *g);
    g->n = n;
    g->factor = 1;
    for (size_t i = 0; i < n; i++) {
        const double step = (most_log10_sd - least_log10_sd) / (double)(n > 1 ? n - 1 : 1);
        const double sd = pow(10, least_log10_sd + step * (double)i);
        g->precision[i] = 1 / (sd * sd);
        g->covariance[i][i] = sd * sd;
    }
    return g;
}

static known_target gaussian_target(const char *name, gaussian *g, gpumc_param *p)
{
    memset(p, 0, sizeof *p);
    p->name = "x";
    p->size = g->n;
    return (known_target){ .name = name, .residuals = gaussian_residuals,
        .model = { .name = name, .params = p, .n_params = 1, .log_density = gaussian_density, .data = g } };
}

static void check_gaussians(void)
{
    gaussian *iid = make_gaussian(100, 0, 0), *scales = make_gaussian(100, -2, 2);
    gaussian *ar1 = make_gaussian(50, 0, 0), *spikes = make_gaussian(100, 0, 0);
    gaussian *one = make_gaussian(1, 3, 3), *two = make_gaussian(2, 0, -3), *many = make_gaussian(300, 0, 0);
    gaussian *all[] = { iid, scales, ar1, spikes, one, two, many };
    static const char *const names[] = {
        "iid", "scales", "AR(1)", "spikes", "one dimension", "two dimensions", "spikes in 300 dimensions"
    };
    known_target wrong;
    gpumc_param p;
    make_ar1(ar1, 0.95);
    make_spikes(spikes);
    make_spikes(many);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const known_target t = gaussian_target(names[i], all[i], &p);
        for (int metric = GPUMC_METRIC_DIAG; metric <= GPUMC_METRIC_DENSE && all[i] != many; metric++)
            check_target(&t, (gpumc_metric_kind)metric);
        if (all[i] == many) check_target(&t, GPUMC_METRIC_AUTO);
        if (all[i] == iid || all[i] == spikes || all[i] == one) check_target(&t, GPUMC_METRIC_UNIT);
    }
    /* Broken variants: a precision 3 % too high; neighbours less correlated than stated. */
    iid->factor = 1.03;
    wrong = gaussian_target("iid with precision 1.03", iid, &p);
    check_rejected(&wrong);
    ar1->off_diagonal *= 0.9993;
    wrong = gaussian_target("AR(1) with a weaker link", ar1, &p);
    check_rejected(&wrong);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* ---- Student t with 4 degrees of freedom ----------------------------------------------------- */

static double t4_density(const double *x, double *grad, void *data)
{
    double lp = 0;
    (void)data;
    for (size_t i = 0; i < 50; i++) lp += gpumc_student_t_lpdf(x[i], 4, 0, 1, &grad[i], NULL, NULL, NULL);
    return lp;
}

/* x^4 has no expectation, so the mean of x^2 has no standard error. Residuals are those of |x|, of mean 1, and of
   u = P(X < x), which is uniform. */
static size_t t4_residuals(const double *x, double *r, const void *data)
{
    size_t k = 0;
    (void)data;
    for (size_t i = 0; i < 50; i++) {
        const double s = x[i] / sqrt(x[i] * x[i] + 4), u = 0.75 * s * (1 - s * s / 3);
        const double s1 = x[(i + 1) % 50] / sqrt(x[(i + 1) % 50] * x[(i + 1) % 50] + 4),
                     u1 = 0.75 * s1 * (1 - s1 * s1 / 3);
        r[k++] = x[i];
        r[k++] = fabs(x[i]) - 1;
        r[k++] = u;
        r[k++] = u * u - 1.0 / 12;
        r[k++] = u * u1;
    }
    return k;
}

/* ---- banana ---------------------------------------------------------------------------------- */

static double banana_density(const double *x, double *grad, void *data)
{
    double lp = 0;
    (void)data;
    for (size_t i = 0; i < 20; i += 2) {
        double bend = 0;
        lp += gpumc_normal_lpdf(x[i], 0, 1, &grad[i], NULL, NULL);
        lp += gpumc_normal_lpdf(x[i + 1], x[i] * x[i] - 1, 0.5, &grad[i + 1], &bend, NULL);
        grad[i] += 2 * x[i] * bend;
    }
    return lp;
}

/* E y = 0, Var y = 2.25, E x y = 0, E y (x^2 - 1) = 2 */
static size_t banana_residuals(const double *x, double *r, const void *data)
{
    size_t k = 0;
    (void)data;
    for (size_t i = 0; i < 20; i += 2) {
        r[k++] = x[i];
        r[k++] = x[i] * x[i] - 1;
        r[k++] = x[i + 1];
        r[k++] = x[i + 1] * x[i + 1] - 2.25;
        r[k++] = x[i] * x[i + 1];
        r[k++] = x[i + 1] * (x[i] * x[i] - 1) - 2;
    }
    return k;
}

/* ---- every constraint ------------------------------------------------------------------------ */

/* One block of each kind, with a density whose moments are known, in the order of the struct. */
struct constrained {
    double rate, shifted, below, proportion, interval, affine, soft;
    double ordered[3], positive_ordered[3], zero_sum[4], simplex[3], factor[3][3];
};

static double constrained_density(const double *x, double *grad, void *data)
{
    const struct constrained *p = (const struct constrained *)x;
    struct constrained *g = (struct constrained *)grad;
    static const double alpha[3] = { 0.8, 2, 3.5 };
    double lp = gpumc_gamma_lpdf(p->rate, 3, 2, &g->rate, NULL, NULL);           /* interval is uniform */
    lp += gpumc_exponential_lpdf(p->shifted - 2, 1.5, &g->shifted, NULL);
    lp -= p->below * p->below / 2;                                  /* normal, truncated above at -1 */
    g->below -= p->below;
    lp += gpumc_beta_lpdf(p->proportion, 0.7, 2, &g->proportion, NULL, NULL);
    lp += gpumc_normal_lpdf(p->affine, 250, 40, &g->affine, NULL, NULL);
    lp -= p->soft * p->soft / 2;                                    /* half-normal */
    g->soft -= p->soft;
    for (int i = 0; i < 3; i++) {
        lp -= p->ordered[i] * p->ordered[i] / 2;
        g->ordered[i] -= p->ordered[i];
        lp -= p->positive_ordered[i];
        g->positive_ordered[i] -= 1;
        lp += (alpha[i] - 1) * log(p->simplex[i]);
        g->simplex[i] += (alpha[i] - 1) / p->simplex[i];
    }
    for (int i = 0; i < 4; i++) {
        lp -= p->zero_sum[i] * p->zero_sum[i] / 2;
        g->zero_sum[i] -= p->zero_sum[i];
    }
    for (int i = 1; i < 3; i++) { /* LKJ with eta = 1.5: exponents K - i - 1 + 2 eta - 2 */
        const double power = 3 - i;
        lp += power * log(p->factor[i][i]);
        g->factor[i][i] += power / p->factor[i][i];
    }
    (void)data;
    return lp;
}

static size_t moment_residuals(double x, double mean, double variance, double *r)
{
    r[0] = x - mean;
    r[1] = (x - mean) * (x - mean) - variance;
    return 2;
}

static size_t constrained_residuals(const double *x, double *r, const void *data)
{
    static const double alpha[3] = { 0.8, 2, 3.5 }, total = 6.3;
    /* order statistics of three normals: mean of the largest 3 / (2 sqrt pi), its variance 1 + sqrt 3 / (2
       pi) - 9 / (4 pi), that of the middle one 1 - sqrt 3 / pi */
    static const double order_mean[3] = { -0.84628437532163443, 0, 0.84628437532163443 };
    static const double order_variance[3] = { 0.55946720379540996, 0.44867110457820802, 0.55946720379540996 };
    static const double spacing_mean[3] = { 1.0 / 3, 5.0 / 6, 11.0 / 6 },
                        spacing_variance[3] = { 1.0 / 9, 13.0 / 36, 49.0 / 36 };
    const struct constrained *p = (const struct constrained *)x;
    const double hazard = 0.24197072451914335 / 0.15865525393145705;         /* phi(1) / Phi(-1) */
    size_t k = 0;
    (void)data;
    k += moment_residuals(p->rate, 1.5, 0.75, r + k);
    k += moment_residuals(p->shifted, 2 + 1 / 1.5, 1 / 2.25, r + k);
    k += moment_residuals(p->below, -hazard, 1 + hazard - hazard * hazard, r + k);
    k += moment_residuals(p->proportion, 0.7 / 2.7, 0.7 * 2 / (2.7 * 2.7 * 3.7), r + k);
    k += moment_residuals(p->interval, 1, 64.0 / 12, r + k);
    k += moment_residuals(p->affine, 250, 1600, r + k);
    k += moment_residuals(p->soft, sqrt(2 / GPUMC_PI), 1 - 2 / GPUMC_PI, r + k);
    for (int i = 0; i < 3; i++) {
        k += moment_residuals(p->ordered[i], order_mean[i], order_variance[i], r + k);
        k += moment_residuals(p->positive_ordered[i], spacing_mean[i], spacing_variance[i], r + k);
        k += moment_residuals(p->simplex[i], alpha[i] / total,
                              alpha[i] * (total - alpha[i]) / (total * total * (total + 1)), r + k);
        r[k++] = (p->simplex[i] - alpha[i] / total) * (p->simplex[(i + 1) % 3] - alpha[(i + 1) % 3] / total)
            + alpha[i] * alpha[(i + 1) % 3] / (total * total * (total + 1));
    }
    r[k++] = (p->positive_ordered[0] - spacing_mean[0]) * (p->positive_ordered[2] - spacing_mean[2])
        - spacing_variance[0];
    for (int i = 0; i < 4; i++) {
        k += moment_residuals(p->zero_sum[i], 0, 0.75, r + k);
        r[k++] = p->zero_sum[i] * p->zero_sum[(i + 1) % 4] + 0.25;
    }
    for (int i = 1; i < 3; i++) /* every correlation is 2 beta(2, 2) - 1 */
        for (int j = 0; j < i; j++) {
            double correlation = 0;
            for (int l = 0; l < 3; l++) correlation += p->factor[i][l] * p->factor[j][l];
            k += moment_residuals(correlation, 0, 0.2, r + k);
        }
    return k;
}

static const size_t factor_dims[2] = { 3, 3 };
static const gpumc_param constrained_params[] = {
    { .name = "rate", .kind = GPUMC_POSITIVE },
    { .name = "shifted", .kind = GPUMC_LOWER, .lower = 2 },
    { .name = "below", .kind = GPUMC_UPPER, .upper = -1 },
    { .name = "proportion", .kind = GPUMC_UNIT },
    { .name = "interval", .kind = GPUMC_INTERVAL, .lower = -3, .upper = 5 },
    { .name = "affine", .kind = GPUMC_AFFINE, .offset = 250, .multiplier = 40 },
    { .name = "scored", .kind = GPUMC_POSITIVE, .typical = 0.5 },
    { .name = "ordered", .kind = GPUMC_ORDERED, .size = 3 },
    { .name = "positive_ordered", .kind = GPUMC_POSITIVE_ORDERED, .size = 3 },
    { .name = "zero_sum", .kind = GPUMC_SUM_TO_ZERO, .size = 4 },
    { .name = "simplex", .kind = GPUMC_SIMPLEX, .size = 3 },
    { .name = "factor", .kind = GPUMC_CHOLESKY_CORR, .dims = factor_dims, .n_dims = 2 },
};

/* ---- conjugate models ------------------------------------------------------------------------ */

/* mu ~ normal(1, 2), four observations ~ normal(mu, 3); p ~ beta(2, 3), 7 of 10; lambda ~ gamma(2, 1),
   counts 4, 0, 3 */
static double conjugate_density(const double *x, double *grad, void *data)
{
    static const double y[4] = { 4, -1, 7, 2 }, counts[3] = { 4, 0, 3 };
    double lp = gpumc_normal_lpdf(x[0], 1, 2, &grad[0], NULL, NULL)
        + gpumc_beta_lpdf(x[1], 2, 3, &grad[1], NULL, NULL)
        + gpumc_gamma_lpdf(x[2], 2, 1, &grad[2], NULL, NULL) + gpumc_binomial_lpmf(7, 10, x[1], &grad[1]);
    (void)data;
    for (int i = 0; i < 4; i++) lp += gpumc_normal_lpdf(y[i], x[0], 3, NULL, &grad[0], NULL);
    for (int i = 0; i < 3; i++) lp += gpumc_poisson_lpmf(counts[i], x[2], &grad[2]);
    return lp;
}

static size_t conjugate_residuals(const double *x, double *r, const void *data)
{
    const double precision = 1.0 / 4 + 4.0 / 9;
    size_t k = 0;
    (void)data;
    k += moment_residuals(x[0], (1.0 / 4 + 12.0 / 9) / precision, 1 / precision, r + k);
    k += moment_residuals(x[1], 9.0 / 15, 54.0 / (225 * 16), r + k);
    k += moment_residuals(x[2], 9.0 / 4, 9.0 / 16, r + k);
    r[k++] = (x[0] - (1.0 / 4 + 12.0 / 9) / precision) * (x[1] - 0.6);
    return k;
}

static const gpumc_param conjugate_params[] = {
    { .name = "mu" }, { .name = "p", .kind = GPUMC_UNIT }, { .name = "lambda", .kind = GPUMC_POSITIVE },
};

/* ---- eight schools --------------------------------------------------------------------------- */

struct schools { double mu, tau, theta[8]; };

static double schools_density(const double *x, double *grad, void *data)
{
    static const double effect[8] = { 28, 8, -3, 7, -1, 1, 18, 12 },
                        error[8] = { 15, 10, 16, 11, 9, 11, 10, 18 };
    const struct schools *p = (const struct schools *)x;
    struct schools *g = (struct schools *)grad;
    double lp = gpumc_normal_lpdf(p->mu, 0, 5, &g->mu, NULL, NULL)
        + gpumc_half_cauchy_lpdf(p->tau, 5, &g->tau, NULL);
    (void)data;
    for (int j = 0; j < 8; j++)
        lp += gpumc_normal_lpdf(p->theta[j], p->mu, p->tau, &g->theta[j], &g->mu, &g->tau)
            + gpumc_normal_lpdf(effect[j], p->theta[j], error[j], NULL, &g->theta[j], NULL);
    return lp;
}

static size_t schools_residuals(const double *x, double *r, const void *data)
{
    const struct schools *p = (const struct schools *)x;
    const double log_tau = log(p->tau), mu = p->mu - schools_mean[1];
    size_t k = 0;
    (void)data;
    k += moment_residuals(log_tau, schools_mean[0], schools_variance[0], r + k);
    k += moment_residuals(p->mu, schools_mean[1], schools_variance[1], r + k);
    for (int j = 0; j < 8; j++) {
        const double theta = p->theta[j] - schools_mean[2 + j];
        k += moment_residuals(p->theta[j], schools_mean[2 + j], schools_variance[2 + j], r + k);
        r[k++] = (log_tau - schools_mean[0]) * theta - schools_log_tau_theta[j];
        r[k++] = mu * theta - schools_mu_theta[j];
    }
    return k;
}

/* ---- links: location by index, scale by index, walk, linear predictor ------------------------ */

/* mu, beta ~ normal(0, 1), log tau ~ normal(0, 1/4); theta[i] ~ normal(mu[i / 3], tau[i % 2]);
   walk[k][t] ~ normal(walk[k][t - 1], tau[k]) from mu[k] on; line[i] ~ normal(covariates[i] . beta,
   tau[0]) */
struct links { double mu[2], tau[2], beta[2], theta[6], walk[2][3], line[4]; };

static const size_t theta_location[6] = { 0, 0, 0, 1, 1, 1 }, theta_scale[6] = { 0, 1, 0, 1, 0, 1 };
static const size_t walk_scale[6] = { 0, 0, 0, 1, 1, 1 }, walk_location[6] = { 0, 0, 0, 1, 1, 1 },
                    walk_dims[2] = { 2, 3 };
static const size_t line_scale[4] = { 0, 0, 0, 0 };
static const double line_covariates[4][2] = { { 1, 0 }, { 1, 1 }, { 0.5, -2 }, { -1, 0.3 } };

static double links_density(const double *x, double *grad, void *data)
{
    const struct links *p = (const struct links *)x;
    struct links *g = (struct links *)grad;
    double lp = 0;
    if (data) { /* broken: one log Jacobian too many */
        lp += log(p->tau[0]);
        g->tau[0] += 1 / p->tau[0];
    }
    for (int k = 0; k < 2; k++)
        lp += gpumc_normal_lpdf(p->mu[k], 0, 1, &g->mu[k], NULL, NULL)
            + gpumc_lognormal_lpdf(p->tau[k], 0, 0.25, &g->tau[k], NULL, NULL)
            + gpumc_normal_lpdf(p->beta[k], 0, 1, &g->beta[k], NULL, NULL);
    for (int i = 0; i < 6; i++) {
        const size_t l = theta_location[i], s = theta_scale[i];
        const int row = i / 3, t = i % 3;
        lp += gpumc_normal_lpdf(p->theta[i], p->mu[l], p->tau[s], &g->theta[i], &g->mu[l], &g->tau[s]);
        lp += gpumc_normal_lpdf(p->walk[row][t], t ? p->walk[row][t - 1] : p->mu[row], p->tau[row],
                                &g->walk[row][t], t ? &g->walk[row][t - 1] : &g->mu[row], &g->tau[row]);
    }
    for (int i = 0; i < 4; i++) {
        double at = 0, d = 0;
        for (int k = 0; k < 2; k++) at += line_covariates[i][k] * p->beta[k];
        lp += gpumc_normal_lpdf(p->line[i], at, p->tau[0], &g->line[i], &d, &g->tau[0]);
        for (int k = 0; k < 2; k++) g->beta[k] += line_covariates[i][k] * d;
    }
    return lp;
}

static size_t links_residuals(const double *x, double *r, const void *data)
{
    const struct links *p = (const struct links *)x;
    const double tau2 = exp(2.0 / 16);                              /* E tau^2 */
    size_t k = 0;
    (void)data;
    for (int i = 0; i < 2; i++) {
        k += moment_residuals(p->mu[i], 0, 1, r + k);
        k += moment_residuals(log(p->tau[i]), 0, 1.0 / 16, r + k);
        k += moment_residuals(p->beta[i], 0, 1, r + k);
    }
    for (int i = 0; i < 6; i++) {
        const size_t l = theta_location[i], s = theta_scale[i];
        k += moment_residuals(p->theta[i], 0, 1 + tau2, r + k);
        k += moment_residuals(p->walk[i / 3][i % 3], 0, 1 + (i % 3 + 1) * tau2, r + k);
        r[k++] = p->theta[i] * p->mu[l] - 1;
        r[k++] = (p->theta[i] - p->mu[l]) * (p->theta[i] - p->mu[l]) * log(p->tau[s]) - tau2 * 2.0 / 16;
        r[k++] = (p->theta[i] - p->mu[l]) * (p->theta[(i + 1) % 6] - p->mu[theta_location[(i + 1) % 6]]);
        r[k++] = p->walk[i / 3][i % 3] * p->walk[i / 3][0] - 1 - tau2;
    }
    for (int i = 0; i < 4; i++) {
        const double *c = line_covariates[i];
        k += moment_residuals(p->line[i], 0, c[0] * c[0] + c[1] * c[1] + tau2, r + k);
        r[k++] = p->line[i] * p->beta[0] - c[0];
    }
    return k;
}

/* ---- all of them ----------------------------------------------------------------------------- */

#define TARGET(title, parameters, count, what, ...) \
    { \
        .name = title, .residuals = what##_residuals, \
        .model = { .name = title, .params = parameters, .n_params = count, .log_density = what##_density }, \
        __VA_ARGS__ \
    }

static void check_others(void)
{
    static const gpumc_param fifty = { .name = "x", .size = 50 }, twenty = { .name = "x", .size = 20 };
    const known_target targets[] = {
        TARGET("Student t4", &fifty, 1, t4, .target_accept = 0.8),
        TARGET("banana", &twenty, 1, banana, .target_accept = 0.95),
        TARGET("constraints", constrained_params, sizeof constrained_params / sizeof *constrained_params,
               constrained, .target_accept = 0.9),
        TARGET("conjugate", conjugate_params, 3, conjugate, .target_accept = 0.8),
    };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        for (int metric = GPUMC_METRIC_DIAG; metric <= GPUMC_METRIC_DENSE; metric++)
            check_target(&targets[i], (gpumc_metric_kind)metric);
}

/* Eight schools and the links, with the same centring for all linked blocks. */
static void check_form(gpumc_centring form, double weight, const char *schools_name, const char *links_name)
{
    const gpumc_param schools[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 8, .location = "mu", .scale = "tau", .centring = form,
          .centring_weight = weight },
    };
    const gpumc_param links[] = {
        { .name = "mu", .size = 2 },
        { .name = "tau", .size = 2, .kind = GPUMC_POSITIVE },
        { .name = "beta", .size = 2 },
        { .name = "theta", .size = 6, .location = "mu", .location_index = theta_location, .scale = "tau",
          .scale_index = theta_scale, .centring = form, .centring_weight = weight },
        { .name = "walk", .dims = walk_dims, .n_dims = 2, .location = "mu", .location_index = walk_location,
          .scale = "tau", .scale_index = walk_scale, .walk_dim = 2, .centring = form,
          .centring_weight = weight },
        { .name = "line", .size = 4, .scale = "tau", .scale_index = line_scale,
          .covariates = line_covariates[0], .n_covariates = 2, .coefficients = "beta", .centring = form,
          .centring_weight = weight },
    };
    const known_target schools_target = TARGET(schools_name, schools, 3, schools, .target_accept = 0.95,
                                               .linked = 1);
    const known_target links_target = TARGET(links_name, links, 6, links, .target_accept = 0.9, .linked = 1);
    if (schools_name) check_target(&schools_target, GPUMC_METRIC_AUTO);
    check_target(&links_target, GPUMC_METRIC_AUTO);
}

/* The same density without links gives the same moments. The broken variant, wrong by a Jacobian, must not. */
static void check_plain_links(void)
{
    static int forget = 1;
    const gpumc_param plain[] = {
        { .name = "mu", .size = 2 },   { .name = "tau", .size = 2, .kind = GPUMC_LOWER, .typical = 3 },
        { .name = "beta", .size = 2 }, { .name = "theta", .size = 6 },
        { .name = "walk", .size = 6 }, { .name = "line", .size = 4 },
    };
    const known_target right = TARGET("links, as plain blocks", plain, 6, links, .target_accept = 0.9);
    known_target wrong = TARGET("links with a Jacobian missing", plain, 6, links, .linked = 1);
    check_target(&right, GPUMC_METRIC_AUTO);
    wrong.model.data = &forget;
    check_rejected(&wrong);
}

static void check_hierarchies(void)
{
    check_form(GPUMC_CENTRING_LEARNED, 0, "schools, learned", "links, learned");
    check_form(GPUMC_NONCENTRED, 0, "schools, non-centred", "links, non-centred");
    check_form(GPUMC_CENTRING_WEIGHT, 0.2, "schools, weight .2", "links, weight .2");
    check_form(GPUMC_CENTRING_WEIGHT, 0.4, "schools, weight .4", "links, weight .4");
    /* Not the centred schools: they are a funnel, and the spread of log tau comes out wrong in long runs. */
    check_form(GPUMC_CENTRED, 0, NULL, "links, centred");
    check_plain_links();
}

/* ---- densities that misbehave ---------------------------------------------------------------- */

typedef enum fault_kind {
    BOX, NAN_VALUE, NAN_GRADIENT, INFINITE_GRADIENT, CONSTANT_SLOPE, FLAT, PLUS_INFINITY
} fault_kind;
typedef struct misbehaviour { fault_kind fault; double scale; size_t n; } misbehaviour;

/* A normal of the given scale, with a fault where the first coordinate exceeds the scale; or a density without
   curvature. */
static double misbehaving_density(const double *x, double *grad, void *data)
{
    const misbehaviour *m = data;
    const int beyond = x[0] > m->scale;
    double lp = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->fault == CONSTANT_SLOPE) { lp += x[i]; grad[i] = 1; continue; }
        if (m->fault == FLAT) continue;
        lp -= 0.5 * (x[i] / m->scale) * (x[i] / m->scale);
        grad[i] -= x[i] / m->scale / m->scale;
    }
    if (!beyond) return lp;
    if (m->fault == BOX) return -INFINITY;
    if (m->fault == NAN_VALUE) return NAN;
    if (m->fault == PLUS_INFINITY) return INFINITY;
    if (m->fault == NAN_GRADIENT) grad[0] = NAN;
    if (m->fault == INFINITE_GRADIENT) grad[0] = INFINITY;
    return lp;
}

/* Whatever the fault of the density, the run ends within the number of gradients that its depth limit allows, and all
   draws are finite. */
static void check_misbehaviour(fault_kind fault, double scale, size_t n, gpumc_status wanted)
{
    misbehaviour m = { fault, scale, n };
    const gpumc_param p = { .name = "x", .size = n };
    const gpumc_model model = {
        .name = "misbehaving", .params = &p, .n_params = 1, .log_density = misbehaving_density, .data = &m
    };
    const gpumc_sample_options options = {
        .num_chains = 2, .num_warmup = 100, .num_samples = 200, .max_treedepth = 8, .seed = 5, .threads = 1,
        .sampler = sampler, .skip_gradient_check = fault == FLAT || (fault == CONSTANT_SLOPE && n > 1)
    };
    gpumc_fit fit;
    const gpumc_status status = gpumc_sample(&model, &options, &fit);
    size_t n_bad = 0;
    CHECK(status == wanted, "fault %d, scale %g, dimension %d: status %d where %d was due, %s", fault, scale,
          (int)n, status, wanted, fit.message);
    if (status == GPUMC_OK) {
        for (size_t i = 0; i < fit.n_chains * fit.n_draws * fit.n_columns; i++)
            n_bad += (size_t)!isfinite(fit.draws[i]);
        for (size_t i = 0; i < fit.n_chains * fit.n_draws; i++)
            n_bad += (size_t)(fit.draws[i * n] > scale && (fault == BOX || fault == NAN_VALUE));
        CHECK(n_bad == 0, "fault %d: %d impossible draws", fault, (int)n_bad);
        CHECK(fit.warmup_gradients + fit.sampling_gradients <= 2u * 300 * 256 + 5000,
              "fault %d: %.0f gradients", fault, (double)(fit.warmup_gradients + fit.sampling_gradients));
    }
    gpumc_free(&fit);
}

static void check_misbehaviours(void)
{
    static const size_t dims[] = { 1, 2, 30 };
    for (size_t i = 0; i < 3; i++) {
        check_misbehaviour(BOX, 1, dims[i], GPUMC_OK);
        check_misbehaviour(NAN_VALUE, 1, dims[i], GPUMC_OK);
        check_misbehaviour(NAN_GRADIENT, 1, dims[i], GPUMC_OK);
        check_misbehaviour(INFINITE_GRADIENT, 1, dims[i], GPUMC_OK);
        check_misbehaviour(PLUS_INFINITY, 1, dims[i], GPUMC_OK);
        check_misbehaviour(CONSTANT_SLOPE, 1, dims[i], GPUMC_ERROR_NUMERIC);
        check_misbehaviour(FLAT, 1, dims[i], GPUMC_ERROR_NUMERIC);
        check_misbehaviour(BOX, 1e5, dims[i], GPUMC_OK);
        check_misbehaviour(BOX, 1e-5, dims[i], GPUMC_OK);
    }
}

int main(int argc, char **argv)
{
    for (size_t k = 0; sampler_at(k, argc, argv, &sampler); k++) {
        check_gaussians();
        check_others();
        check_hierarchies();
        check_misbehaviours();
    }
    if (getenv("GPUMC_TEST_VERBOSE")) printf("%d residuals in all\n", n_judged);
    return check_end();
}
