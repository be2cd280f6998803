/* Hierarchical models as data against densities written by hand: every prior, link, population, kind of location and
   form; simulation from prior and posterior; calibration; and what is refused, by the text of the error. */
#include "../gpumc.h"
#include "check.h"
#include "ledger.h"

enum { J = 37, D = 5, T = 4, N = 150 };

GPUMC_ROW(normal_row, 1, 1, 1)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}

/* A smooth row density that depends on all its arguments; a row takes elements by two different indices. */
GPUMC_ROW(mixed_row, 3, 3, 2)
{
    const double eta = p[0] * x[1] + p[1] * p[2] + p[3] * p[4], sigma = 1 + p[5] * p[5];
    double deta = 0, dsigma = 0;
    const double lp = gpumc_normal_lpdf(x[0], eta, sigma, NULL, &deta, &dsigma);
    g[0] = x[1] * deta;
    g[1] = p[2] * deta;
    g[2] = p[1] * deta;
    g[3] = p[4] * deta;
    g[4] = p[3] * deta;
    g[5] = 2 * p[5] * dsigma;
    return lp;
}

GPUMC_ROW(binary_row, 1, 0, 1)
{
    return gpumc_bernoulli_logit_lpmf(x[0], p[0], &g[0]);
}

GPUMC_ROW(pair_row, 2, 1, 1)
{
    double d = 0;
    const double lp = gpumc_normal_lpdf(x[0], p[0] - p[1], p[2], NULL, &d, &g[2]);
    g[0] = d;
    g[1] = -d;
    return lp;
}

GPUMC_ROW(shifted_row, 1, 0, 1)
{
    double by_y = 0;
    const double lp = gpumc_lognormal_lpdf(x[0] - p[0], -1, 0.5, &by_y, NULL, NULL);
    g[0] = -by_y;
    return lp;
}

GPUMC_ROW(shared_row, 0, 1, 1)
{
    return gpumc_normal_lpdf(x[0], 0, p[0], NULL, NULL, &g[0]);
}

GPUMC_ROW(skewed_population, 3, 1, 2)     /* a leaf of the user's: a Gumbel density with one more shape */
{
    double dbeta = 0;
    const double lp = gpumc_gumbel_lpdf(p[0], p[1], p[2] * p[3], &g[0], &g[1], &dbeta);
    g[2] = p[3] * dbeta;
    g[3] = p[2] * dbeta;
    (void)x;
    return lp;
}

/* mu - sigma log(1 + exp(-z)): not the quantile function of any distribution, but smooth */
GPUMC_ROW(skewed_quantile, 3, 0, 2)
{
    const double e = gpumc_exp(-p[0]);
    (void)x;
    g[0] = p[2] * e / (1 + e);
    g[1] = 1;
    g[2] = -gpumc_log1p(e);
    return p[1] + p[2] * g[2];
}

/* location + scale (z + z of the other)^2 / 2 + location of the other log(its scale) */
GPUMC_ROW(twin_quantile, 6, 0, 2)
{
    const double sum = p[0] + p[3];
    (void)x;
    g[0] = g[3] = p[2] * sum;
    g[1] = 1;
    g[2] = 0.5 * sum * sum;
    g[4] = gpumc_log(p[5]);
    g[5] = p[4] / p[5];
    return p[1] + p[2] * g[2] + p[4] * g[4];
}

GPUMC_ROW(kin_row, 3, 0, 1)
{
    double d = 0;
    const double lp = gpumc_normal_lpdf(x[0], p[0] * p[1] + p[2], 1, NULL, &d, NULL);
    g[0] = d * p[1];
    g[1] = d * p[0];
    g[2] = d;
    return lp;
}

GPUMC_ROW(line_row, 2, 1, 2)
{
    double d = 0;
    const double lp = gpumc_normal_lpdf(x[0], p[0] + p[1] * x[1], p[2], NULL, &d, &g[2]);
    g[0] = d;
    g[1] = d * x[1];
    return lp;
}

/* The mean is the group's share plus bend^2 / 2 + bend / 10: two modes, with bend above and below 0. */
GPUMC_ROW(bent_row, 1, 2, 1)
{
    double d = 0;
    const double lp = gpumc_normal_lpdf(x[0], p[0] + p[1] * p[1] / 2 + p[1] / 10, p[2], NULL, &d, &g[2]);
    g[0] = d;
    g[1] = d * (p[1] + 0.1);
    return lp;
}

static void simulate_line(const double *p, const double *x, gpumc_rng *rng, double *y)
{ *y = gpumc_normal_rng(rng, p[0] + p[1] * x[1], p[2]); }

static void simulate_normal(const double *p, const double *x, gpumc_rng *rng, double *y)
{
    (void)x;
    *y = gpumc_normal_rng(rng, p[0], p[1]);
}

/* How many values a block has. */
static size_t values_of(size_t size, const size_t *dims, size_t n_dims)
{
    size_t product = 1;
    for (size_t d = 0; d < n_dims; d++) product *= dims[d];
    return n_dims ? product : size ? size : 1;
}
static size_t param_size(const gpumc_param *p) { return values_of(p->size, p->dims, p->n_dims); }

typedef struct object { gpumc_hier *hier; const gpumc_model *model; size_t n; } object;

static object make(const gpumc_hier_data *data)
{
    gpumc_error error = { GPUMC_OK, "" };
    object o = { gpumc_hier_create(data, &error), NULL, 0 };
    CHECK(o.hier != NULL, "%s", error.text);
    if (!o.hier) exit(check_end());
    o.model = gpumc_hier_model(o.hier);
    for (size_t i = 0; i < o.model->n_params; i++) o.n += param_size(&o.model->params[i]);
    return o;
}

static double density(const object *o, const double *x, double *grad)
{
    memset(grad, 0, o->n * sizeof *grad);
    return o->model->log_density(x, grad, o->model->data);
}

/* The largest distance between the gradient and fourth-order differences of the density. */
static double gradient_error(const object *o, const double *x)
{
    double *grad = (double *)malloc(3 * o->n * sizeof *grad), *point = grad + o->n, *unused = point + o->n;
    double worst = 0;
    density(o, x, grad);
    memcpy(point, x, o->n * sizeof *x);
    for (size_t i = 0; i < o->n; i++) {
        const double h = 1e-3 * fmin(1, fabs(x[i]) + 0.1), weights[4] = { 1, -8, 8, -1 };
        double slope = 0;
        for (int k = 0; k < 4; k++) {
            point[i] = x[i] + (k < 2 ? k - 2 : k - 1) * h;
            slope += weights[k] * density(o, point, unused);
        }
        point[i] = x[i];
        worst = check_worst(worst, check_distance(grad[i], slope / (12 * h), 1));
    }
    free(grad);
    return worst;
}

static size_t group[N], other[N];
static double y[N], u[N];

static void make_data(void)
{
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    for (size_t i = 0; i < N; i++) {
        group[i] = gpumc_rng_below(&rng, J);
        other[i] = gpumc_rng_below(&rng, J);
        y[i] = gpumc_rng_normal(&rng);
        u[i] = 2 * gpumc_rng_uniform(&rng) - 1;
    }
}

/* ---- the plain hierarchical normal model, written by hand ---------------------------------------- */
static double by_hand(const double *x, double *g)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL)
                + gpumc_half_normal_lpdf(x[1], 2, &g[1], NULL) + gpumc_half_cauchy_lpdf(x[2], 1, &g[2], NULL);
    for (size_t j = 0; j < J; j++) {
        lp += gpumc_normal_lpdf(x[3 + j], x[0], x[1], &g[3 + j], &g[0], &g[1])
            + gpumc_normal_lpdf(x[3 + J + j], 0.5, x[1], &g[3 + J + j], NULL, &g[1]);
    }
    for (size_t i = 0; i < N; i++) {
        const double scale = exp(x[3 + J + group[i]]);          /* a link: the rows see the exponential */
        double dscale = 0;
        lp += gpumc_normal_lpdf(y[i], x[3 + group[i]], x[2], NULL, &g[3 + group[i]], &g[2])
            + gpumc_normal_lpdf(u[i], scale, x[2], NULL, &dscale, &g[2]);
        g[3 + J + group[i]] += dscale * scale;
    }
    return lp;
}

static void check_by_hand(void)
{
    static const double half[1] = { 0.5 };
    const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = J, .location = "mu", .scale = "tau" },
        { .name = "m_B", .init = half },
        { .name = "B", .kind = GPUMC_POSITIVE, .size = J, .location = "m_B", .scale = "tau" },
    };
    const gpumc_prior priors[] = {
        { "sigma", gpumc_prior_cauchy, 0, 1, 0 }, { "mu", gpumc_prior_normal, 0, 10, 0 },
        { "tau", gpumc_prior_normal, 0, 2, 0 }, { "m_B", gpumc_prior_flat, 0, 0, 0 },
    };
    const gpumc_hier_take takes[] = { { "theta", group }, { "sigma", NULL } };
    const gpumc_hier_take takes_B[] = { { "B", group }, { "sigma", NULL } };
    const double *const column = y, *const column_u = u;
    const gpumc_hier_rows rows[] = {
        { .name = "first", .data = { .kind = &normal_row, .n_rows = N, .columns = &column }, .takes = takes,
          .n_takes = 2, .log_lik = "log_lik" },
        { .name = "second", .data = { .kind = &normal_row, .n_rows = N, .columns = &column_u },
          .takes = takes_B, .n_takes = 2 },
    };
    const gpumc_hier_data data = {
        .params = params, .n_params = 6, .priors = priors, .n_priors = 4, .rows = rows, .n_rows = 2
    };
    double x[4 + 2 * J], at_hand[3 + 2 * J], g[4 + 2 * J], h[3 + 2 * J] = { 0 }, lp, expected, worst = 0,
                                                                     out[J + N];
    double direct = 0;
    object o;
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    o = make(&data);
    for (size_t i = 0; i < o.n; i++) x[i] = 0.3 + gpumc_rng_uniform(&rng);
    x[3 + J] = 0.5;                                             /* m_B, a constant in the version by hand */
    for (size_t i = 0, k = 0; i < o.n; i++) if (i != 3 + J) at_hand[k++] = x[i];
    lp = density(&o, x, g);
    expected = by_hand(at_hand, h);
    CHECK(check_distance(lp, expected, 1) < 1e-13, "%.17g, by hand %.17g", lp, expected);
    for (size_t i = 0, k = 0; i < o.n; i++) {
        if (i == 3 + J) continue;
        worst = check_worst(worst, check_distance(g[i], h[k], 1));
        k++;
    }
    CHECK(worst < 1e-12, "gradient off by %g", worst);
    CHECK(strcmp(o.model->params[5].name, "log_B") == 0, "%s", o.model->params[5].name);
    CHECK(o.model->n_outputs == 2 && strcmp(o.model->outputs[0].name, "B") == 0, "%d outputs",
          (int)o.model->n_outputs);
    o.model->generate(x, &rng, out, o.model->data);
    for (size_t i = 0; i < N; i++)
        direct =
            fmax(direct, fabs(out[J + i] - gpumc_normal_lpdf(y[i], x[3 + group[i]], x[2], NULL, NULL, NULL)));
    CHECK(direct < 1e-12, "pointwise log likelihood off by %g", direct);
    gpumc_hier_free(o.hier);
}

/* ---- populations and links by hand ---------------------------------------------------------------- */

/* Student's t and natural values behind links: errors of densities and outputs that a check of gradients cannot
   see. */
static void check_links_by_hand(void)
{
    enum { AT_HEAVY = 4, AT_CHANCE = AT_HEAVY + J, AT_SHARE = AT_CHANCE + J, AT_RATE = AT_SHARE + J,
           ALL = AT_RATE + J };
    static const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "nu", .kind = GPUMC_INTERVAL, .lower = 1.5, .upper = 1.51 },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "heavy", .size = J, .location = "mu", .scale = "tau" },
        { .name = "chance", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 2, .size = J, .location = "mu",
          .scale = "tau" },
        { .name = "share", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 2, .size = J, .location = "mu",
          .scale = "tau" },
        { .name = "rate", .kind = GPUMC_LOWER, .lower = 0.5, .size = J, .location = "mu", .scale = "tau" },
    };
    static const gpumc_prior priors[] = {
        { "mu", gpumc_prior_normal, 0, 1, 0 }, { "tau", gpumc_prior_half_normal, 1, 0, 0 },
        { "nu", gpumc_prior_uniform, 1.5, 1.51, 0 }, { "sigma", gpumc_prior_half_normal, 1, 0, 0 } };
    static const gpumc_population populations[] = {
        { .name = "heavy", .family = gpumc_population_student_t, .shape = "nu" },
        { .name = "chance", .link = GPUMC_LINK_PROBIT } };
    const gpumc_hier_take takes[3][2] = { { { "chance", group }, { "sigma", NULL } },
        { { "share", group }, { "sigma", NULL } }, { { "rate", group }, { "sigma", NULL } } };
    const double *const column = y;
    gpumc_hier_rows rows[3];
    const gpumc_hier_data data = { .params = params, .n_params = 8, .priors = priors, .n_priors = 4,
        .populations = populations, .n_populations = 2, .rows = rows, .n_rows = 3 };
    double x[ALL], g[ALL], out[3 * J], within = 0;
    gpumc_rng rng = gpumc_rng_at(41, 0, 0, 0);
    for (size_t k = 0; k < 3; k++)
        rows[k] = (gpumc_hier_rows){ .name = params[5 + k].name, .takes = takes[k], .n_takes = 2,
            .data = { .kind = &normal_row, .n_rows = N, .columns = &column } };
    const object o = make(&data);
    for (int trial = 0; trial < 10; trial++) {
        double expected = log(100), value[3][J], off = 0;                /* the density of nu */
        for (size_t i = 0; i < ALL; i++) x[i] = 3 * gpumc_rng_uniform(&rng) - 1.5;
        x[1] = exp(x[1]);
        x[2] = 1.505;
        x[3] = exp(x[3]);
        expected += gpumc_normal_lpdf(x[0], 0, 1, NULL, NULL, NULL) + gpumc_half_normal_lpdf(x[1], 1, NULL, NULL)
            + gpumc_half_normal_lpdf(x[3], 1, NULL, NULL);
        for (size_t j = 0; j < J; j++) {
            expected += gpumc_student_t_lpdf(x[AT_HEAVY + j], x[2], x[0], x[1], NULL, NULL, NULL, NULL);
            for (size_t k = 1; k < 4; k++)
                expected += gpumc_normal_lpdf(x[AT_HEAVY + k * J + j], x[0], x[1], NULL, NULL, NULL);
            value[0][j] = -1 + 1.5 * erfc(-x[AT_CHANCE + j] * sqrt(0.5));
            value[1][j] = -1 + 3 / (1 + exp(-x[AT_SHARE + j]));
            value[2][j] = 0.5 + exp(x[AT_RATE + j]);
        }
        for (size_t k = 0; k < 3; k++)
            for (size_t i = 0; i < N; i++)
                expected += gpumc_normal_lpdf(y[i], value[k][group[i]], x[3], NULL, NULL, NULL);
        CHECK(check_distance(density(&o, x, g), expected, 1) < 1e-13, "%.17g, by hand %.17g",
              density(&o, x, g), expected);
        o.model->generate(x, &rng, out, o.model->data);
        for (size_t i = 0; i < 3 * J; i++) off = check_worst(off, fabs(out[i] - value[i / J][i % J]));
        CHECK(off < 1e-14 * exp(2), "values are off by %g", off);
    }
    for (int d = 0; d < 2000; d++) {
        CHECK(gpumc_hier_prior_draw(o.hier, &rng, x, NULL) == GPUMC_OK, "no draw");
        for (size_t j = 0; j < J; j++)
            within += fabs(x[AT_HEAVY + j] - x[0]) < x[1] * gpumc_student_t_quantile(0.95, x[2], 0, 1);
    }
    within /= 2000 * J;                               /* 4.5 standard errors */
    CHECK(fabs(within - 0.9) < 4.5 * 0.3 / sqrt(2000 * J), "heavy: %g within 0.9 of the mass", within);
    gpumc_hier_free(o.hier);
}

/* ---- every prior --------------------------------------------------------------------------------- */
typedef struct family { gpumc_prior prior; gpumc_kind kind; double lower, upper, mean, sd; } family;

#define MOMENTS(f, ...) gpumc_##f##_mean(__VA_ARGS__), sqrt(gpumc_##f##_variance(__VA_ARGS__))
static void check_priors(void)
{
    const family families[] = {
        { { "x", gpumc_prior_normal, 1, 2, 0 }, GPUMC_UNBOUNDED, 0, 0, 1, 2 },
        { { "x", gpumc_prior_std_normal, 0, 0, 0 }, GPUMC_UNBOUNDED, 0, 0, 0, 1 },
        { { "x", gpumc_prior_student_t, 5, 1, 2 }, GPUMC_UNBOUNDED, 0, 0, MOMENTS(student_t, 5, 1, 2) },
        { { "x", gpumc_prior_cauchy, 1, 2, 0 }, GPUMC_UNBOUNDED, 0, 0, NAN, NAN },
        { { "x", gpumc_prior_laplace, 1, 2, 0 }, GPUMC_UNBOUNDED, 0, 0, MOMENTS(laplace, 1, 2) },
        { { "x", gpumc_prior_logistic, 1, 2, 0 }, GPUMC_UNBOUNDED, 0, 0, MOMENTS(logistic, 1, 2) },
        { { "x", gpumc_prior_gumbel, 1, 2, 0 }, GPUMC_UNBOUNDED, 0, 0, MOMENTS(gumbel, 1, 2) },
        { { "x", gpumc_prior_skew_normal, 1, 2, -3 }, GPUMC_UNBOUNDED, 0, 0, MOMENTS(skew_normal, 1, 2, -3) },
        { { "x", gpumc_prior_lognormal, 0.2, 0.5, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(lognormal, 0.2, 0.5) },
        { { "x", gpumc_prior_exponential, 2, 0, 0 }, GPUMC_POSITIVE, 0, 0, 0.5, 0.5 },
        { { "x", gpumc_prior_gamma, 3, 2, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(gamma, 3, 2) },
        { { "x", gpumc_prior_inv_gamma, 6, 2, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(inv_gamma, 6, 2) },
        { { "x", gpumc_prior_chi_square, 3, 0, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(chi_square, 3) },
        { { "x", gpumc_prior_weibull, 2, 3, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(weibull, 2, 3) },
        { { "x", gpumc_prior_gev, 1, 2, 0.125 }, GPUMC_LOWER, -15, 0, MOMENTS(gev, 1, 2, 0.125) },
        { { "x", gpumc_prior_gen_pareto, 1, 2, 0.125 }, GPUMC_LOWER, 1, 0, MOMENTS(gen_pareto, 1, 2, 0.125) },
        { { "x", gpumc_prior_pareto, 2, 8, 0 }, GPUMC_LOWER, 2, 0, MOMENTS(pareto, 2, 8) },
        { { "x", gpumc_prior_half_normal, 2, 0, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(half_normal, 2) },
        { { "x", gpumc_prior_half_cauchy, 2, 0, 0 }, GPUMC_POSITIVE, 0, 0, NAN, NAN },
        { { "x", gpumc_prior_half_student_t, 5, 2, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(half_student_t, 5, 2) },
        { { "x", gpumc_prior_beta, 2, 3, 0 }, GPUMC_UNIT, 0, 0, MOMENTS(beta, 2, 3) },
        { { "x", gpumc_prior_beta_proportion, 0.3, 4, 0 },
          GPUMC_UNIT,
          0,
          0,
          MOMENTS(beta_proportion, 0.3, 4) },
        { { "x", gpumc_prior_uniform, -1, 3, 0 }, GPUMC_INTERVAL, -1, 3, 1, 4 / sqrt(12) },
        { { "x", gpumc_prior_normal, 0, 2, 0 }, GPUMC_POSITIVE, 0, 0, MOMENTS(half_normal, 2) },
        { { "x", gpumc_prior_normal, 0, 1, 0 }, GPUMC_LOWER, 5, 0, 5.1865, 0.1798 },
        { { "x", gpumc_prior_cauchy, 0, 1, 0 }, GPUMC_INTERVAL, -1, 1, 0, sqrt(4 / GPUMC_PI - 1) },
    };
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        const family *f = &families[k];
        const gpumc_param param = { .name = "x", .kind = f->kind, .lower = f->lower, .upper = f->upper };
        const gpumc_hier_data data = { .params = &param, .n_params = 1, .priors = &f->prior, .n_priors = 1 };
        const object o = make(&data);
        gpumc_rng rng = gpumc_rng_at(11, 0, (uint32_t)k, 0);
        enum { MANY = 4000, PIECES = 4000 };
        double mean = 0, squares = 0, x, g, mass = 0, median = *o.model->params[0].init;
        for (int i = 0; i < MANY; i++) {
            CHECK(gpumc_hier_prior_draw(o.hier, &rng, &x, NULL) == GPUMC_OK, "family %d", (int)k);
            mean += x / MANY;
            squares += x * x / MANY;
        }
        CHECK(isnan(f->mean) || fabs(mean - f->mean) < 5 * f->sd / sqrt(MANY), "family %d: mean %g, not %g",
              (int)k, mean, f->mean);
        CHECK(isnan(f->sd) || fabs(sqrt(squares - mean * mean) - f->sd) < 0.15 * f->sd,
              "family %d: sd %g, not %g", (int)k, sqrt(squares - mean * mean), f->sd);
        /* On the free scale the density integrates to one half below the start value, the median. */
        for (int i = 0; i < PIECES; i++) {
            const double q = 40 * (i + 0.5) / PIECES - 20;
            const gpumc_transform t = { f->kind,  1, 1, f->kind == GPUMC_POSITIVE ? 0 : f->lower,
                                        f->upper, 0, 1, 0, 0 };
            const double jacobian = gpumc_constrain(&t, &q, &x);
            if (x < median) mass += exp(density(&o, &x, &g) + jacobian) * 40 / PIECES;
        }
        CHECK(fabs(mass - 0.5) < (isnan(f->sd) ? 0.06 : 0.01), "family %d: %g below the median", (int)k,
              mass);
        x = median * 1.1 + 0.01;
        CHECK(gradient_error(&o, &x) < 1e-6, "family %d: gradient off by %g at %g", (int)k,
              gradient_error(&o, &x), x);
        gpumc_hier_free(o.hier);
    }
}

/* ---- every link, population, location and form in one model --------------------------------------- */
typedef struct everything {
    gpumc_param params[32];
    gpumc_prior priors[32];
    gpumc_population populations[16];
    gpumc_hier_take mixed[6], shared[1];
    const double *columns[2];
    gpumc_hier_rows rows[3];
    gpumc_hier_data data;
} everything;

static size_t district[J], walk_dims[2] = { 9, T }, walk_scale[9 * T];
static double covariates[J * 2], weights[N];

static everything *describe(void)
{
    static const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "beta", .size = 2 },
        { .name = "nu", .kind = GPUMC_LOWER, .lower = 1 },
        { .name = "sd", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "district", .size = D, .location = "mu", .scale = "tau" },
        { .name = "school", .size = J, .location = "district", .location_index = district, .scale = "tau" },
        { .name = "walk",
          .dims = walk_dims,
          .n_dims = 2,
          .location = "mu",
          .scale = "sd",
          .scale_index = walk_scale,
          .walk_dim = 2 },
        { .name = "regressed",
          .size = J,
          .location = "mu",
          .scale = "tau",
          .covariates = covariates,
          .n_covariates = 2,
          .coefficients = "beta" },
        { .name = "heavy", .size = J, .location = "mu", .scale = "tau" },
        { .name = "rate", .kind = GPUMC_LOWER, .lower = 0.5, .size = J, .location = "mu", .scale = "tau" },
        { .name = "share", .kind = GPUMC_UNIT, .size = J, .location = "mu", .scale = "tau" },
        { .name = "chance", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 2, .size = J, .scale = "tau" },
        { .name = "bounded",
          .kind = GPUMC_INTERVAL,
          .lower = 0.02,
          .upper = 3,
          .size = J,
          .location = "mu",
          .scale = "tau" },
        { .name = "above",
          .kind = GPUMC_LOWER,
          .lower = 0.02,
          .size = J,
          .location = "mu",
          .scale = "tau",
          .covariates = covariates,
          .n_covariates = 2,
          .coefficients = "beta" },
        { .name = "own", .size = J, .location = "mu", .scale = "tau" },
        { .name = "mapped", .size = J, .location = "district", .location_index = district, .scale = "tau" },
        { .name = "plain", .size = J, .location = "mu" },
        { .name = "twin", .size = J, .location = "mu", .scale = "tau" },
        { .name = "other", .size = J, .location = "mu", .scale = "tau", .covariates = covariates,
          .n_covariates = 2, .coefficients = "beta" },
    };
    static const gpumc_prior priors[] = {
        { "mu", gpumc_prior_normal, 0, 2, 0 }, { "tau", gpumc_prior_half_normal, 1, 0, 0 },
        { "beta", gpumc_prior_normal, 0, 1, 0 }, { "nu", gpumc_prior_gamma, 2, 0.1, 0 },
        { "sd[2]", gpumc_prior_half_normal, 0.1, 0, 0 }, { "sd[1]", gpumc_prior_half_normal, 0.5, 0, 0 },
    };
    static const gpumc_population populations[] = {
        { .name = "heavy", .family = gpumc_population_student_t, .shape = "nu" },
        { .name = "chance", .link = GPUMC_LINK_PROBIT },
        { .name = "bounded", .family = gpumc_population_truncated_normal },
        { .name = "above", .family = gpumc_population_truncated_normal, .quantile_form = 1 },
        { .name = "own", .density = &skewed_population, .shape = "nu" },
        { .name = "mapped", .quantile = &skewed_quantile, .quantile_form = 1 },
        { .name = "rate", .quantile_form = 1 },
        { .name = "twin", .quantile = &twin_quantile, .quantile_form = 1, .with = "other" },
        { .name = "other", .quantile = &twin_quantile, .quantile_form = 1, .with = "twin" },
    };
    everything *e = (everything *)calloc(1, sizeof *e);
    memcpy(e->params, params, sizeof params);
    memcpy(e->priors, priors, sizeof priors);
    memcpy(e->populations, populations, sizeof populations);
    e->columns[0] = y;
    e->columns[1] = u;
    e->shared[0] = (gpumc_hier_take){ "tau", NULL };
    e->rows[0] = (gpumc_hier_rows){ .name = "shared", .takes = e->shared, .n_takes = 1 };
    e->rows[0].data = (gpumc_rows_data){ .kind = &shared_row, .n_rows = N, .columns = e->columns,
                                         .weights = weights };
    e->data = (gpumc_hier_data){ .params = e->params, .n_params = sizeof params / sizeof *params,
                                 .priors = e->priors, .n_priors = sizeof priors / sizeof *priors,
                                 .populations = e->populations,
                                 .n_populations = sizeof populations / sizeof *populations,
                                 .rows = e->rows, .n_rows = 1 };
    return e;
}

/* Adds rows that take three blocks, with these indices. */
static void add_rows(everything *e, const char *a, const char *b, const char *c, const size_t *index_b)
{
    gpumc_hier_take mixed[] = {
        { a, group }, { b, index_b }, { c, group }, { "beta", NULL }, { "tau", NULL }
    };
    memcpy(e->mixed, mixed, sizeof mixed);
    e->rows[1] = (gpumc_hier_rows){ .name = "mixed", .takes = e->mixed, .n_takes = 5 };
    e->rows[1].data = (gpumc_rows_data){ .kind = &mixed_row, .n_rows = N, .columns = e->columns,
                                         .n_columns = 2 };
    e->data.n_rows = 2;
}

static void check_everything(void)
{
    static const char *const taken[][3] = { { "school", "heavy", "rate" }, { "share", "chance", "regressed" },
        { "bounded", "above", "own" }, { "mapped", "log_rate", "school" }, { "walk", "walk", "walk" },
        { "plain", "district", "above" }, { "twin", "other", "school" } };
    everything *e = describe();
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    double expected;
    for (size_t j = 0; j < J; j++) {
        district[j] = gpumc_rng_below(&rng, D);
        covariates[2 * j] = gpumc_rng_normal(&rng);
        covariates[2 * j + 1] = gpumc_rng_normal(&rng);
    }
    for (size_t i = 0; i < 9 * T; i++) walk_scale[i] = i % T > 0;
    for (size_t i = 0; i < N; i++) weights[i] = 0.5 + gpumc_rng_uniform(&rng);
    for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
        for (int two_way = 0; two_way < 2; two_way++) {
            size_t index[2][N];
            object o;
            double *x, *g, error;
            gpumc_gradient_report report;
            gpumc_error text = { GPUMC_OK, "" };
            for (size_t i = 0; i < N; i++) {                    /* walks and districts have fewer elements */
                index[0][i] = k == 4 ? group[i] % (9 * T) : group[i];
                index[1][i] = !two_way ? index[0][i] : k == 4 ? other[i] % (9 * T) : other[i];
                if (k == 5) index[1][i] = district[index[1][i]];
            }
            add_rows(e, taken[k][0], taken[k][1], taken[k][2], index[1]);
            e->mixed[0].index = e->mixed[2].index = index[0];
            o = make(&e->data);
            x = (double *)malloc(2 * o.n * sizeof *x);
            g = x + o.n;
            for (size_t i = 0; i < o.n; i++) x[i] = 0.2 + 1.3 * gpumc_rng_uniform(&rng);
            x[4] += 1;                                          /* nu is above 1 */
            error = gradient_error(&o, x);
            CHECK(error < 1e-6, "%s, %s, %s, two-way %d: gradient off by %g", taken[k][0], taken[k][1],
                  taken[k][2], two_way, error);
            CHECK(gpumc_check_gradient(o.model, x, &report, &text) == GPUMC_OK, "%s", text.text);
            CHECK(gpumc_hier_explain(o.hier, x, &text) == GPUMC_OK, "%s", text.text);
            expected = density(&o, x, g);
            CHECK(isfinite(expected), "%g", expected);
            g[0] = 0;
            CHECK(density(&o, x, g) == expected, "not the same twice");
            free(x);
            gpumc_hier_free(o.hier);
        }
    free(e);
}

/* ---- simulation ---------------------------------------------------------------------------------- */

/* Prior draws of the model above have their theoretical moments; tight priors hold mu and tau. */
static void check_prior_draws(void)
{
    enum { MANY = 3000 };
    everything *e = describe();
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0);
    double *x, *out, mean = 0, t_squares = 0, walk_squares = 0, bounded_low = 9, bounded_high = 0,
                     log_rate = 0;
    size_t n_out = 0;
    object o;
    gpumc_error error = { GPUMC_OK, "" };
    e->priors[0] = (gpumc_prior){ "mu", gpumc_prior_normal, 1, 1e-3, 0 };
    e->priors[1] = (gpumc_prior){ "tau", gpumc_prior_uniform, 0.499, 0.501, 0 };
    e->params[1] = (gpumc_param){ .name = "tau", .kind = GPUMC_INTERVAL, .lower = 0.499, .upper = 0.501 };
    o = make(&e->data);
    x = (double *)malloc(o.n * sizeof *x);
    CHECK(gpumc_hier_prior_draw(o.hier, &rng, x, &error) == GPUMC_ERROR_MODEL
              && strstr(error.text, "\"own\""),
          "%s", error.text);
    gpumc_hier_free(o.hier);
    e->populations[4].density = NULL; /* a leaf without a quantile cannot be drawn */
    e->populations[4].family = gpumc_population_student_t;
    o = make(&e->data);
    for (size_t i = 0; i < o.model->n_outputs; i++) {
        const gpumc_output *output = &o.model->outputs[i];
        n_out += values_of(output->size, output->dims, output->n_dims);
        CHECK(output->size > 0, "the size of %s is left out", output->name);
    }
    CHECK(gpumc_model_n_values(o.model) == o.n && gpumc_model_n_outputs(o.model) == n_out, "%zu, %zu values",
          gpumc_model_n_values(o.model), gpumc_model_n_outputs(o.model));
    out = (double *)malloc(n_out * sizeof *out);
    for (int k = 0; k < MANY; k++) {
        const double *p = x;
        CHECK(gpumc_hier_prior_draw(o.hier, &rng, x, &error) == GPUMC_OK, "%s", error.text);
        o.model->generate(x, &rng, out, o.model->data);
        for (size_t i = 0; i < o.model->n_params; i++) {
            const char *name = o.model->params[i].name;
            const size_t n = param_size(&o.model->params[i]);
            if (!strcmp(name, "school")) mean += p[3] / MANY;
            if (!strcmp(name, "heavy"))
                t_squares +=
                    (fabs(p[0] - 1) < 0.5 * gpumc_student_t_quantile(0.75, x[4], 0, 1)) / (double)MANY;
            if (!strcmp(name, "walk")) walk_squares += (p[T - 1] - 1) * (p[T - 1] - 1) / MANY;
            if (!strcmp(name, "log_rate")) log_rate += p[0] / MANY;
            for (size_t j = 0; j < n && !strcmp(name, "bounded"); j++) {
                bounded_low = fmin(bounded_low, p[j]);
                bounded_high = fmax(bounded_high, p[j]);
            }
            p += n;
        }
    }
    CHECK(fabs(mean - 1) < 5 * 0.71 / sqrt(MANY), "school has mean %g", mean);
    CHECK(fabs(t_squares - 0.5) < 2.5 / sqrt(MANY), "heavy: %g within the quartiles", t_squares);
    CHECK(fabs(walk_squares - 0.28) < 0.05, "walk: variance %g, not 0.5^2 + 3 0.1^2", walk_squares);
    CHECK(fabs(log_rate - 1) < 2.5 / sqrt(MANY), "log_rate has mean %g", log_rate);
    CHECK(bounded_low > 0.02 && bounded_low < 0.1 && bounded_high < 3 && bounded_high > 2.2,
          "bounded: %g..%g", bounded_low, bounded_high);
    gpumc_hier_free(o.hier);
    free(out);
    free(x);
    free(e);
}

/* ---- correlated populations ----------------------------------------------------------------------- */

/* Three correlated populations: the second has scales by index, covariates and a logit link, the third is a walk.
   Another block with a link stands between them and their factor. */
enum { KIN = 3, KIN_MU = 0, KIN_TAU = 3, KIN_BETA = 6, KIN_L = 8, KIN_PACE = KIN_L + KIN * KIN,
       KIN_THETA = KIN_PACE + 2, N_KIN = KIN_THETA + KIN * J };
static size_t kin_scale[J];

typedef struct kin { const double *columns[1]; gpumc_hier_take takes[3]; gpumc_hier_rows rows; } kin;

static gpumc_hier_data kin_description(kin *k, gpumc_isa isa)
{
    static const size_t dims[] = { KIN, KIN };
    static const gpumc_param params[] = {
        { .name = "mu", .size = 3 },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = 3 },
        { .name = "beta", .size = 2 },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = dims, .n_dims = 2 },
        { .name = "pace", .kind = GPUMC_POSITIVE, .size = 2, .scale = "tau", .scale_index = kin_scale },
        { .name = "first", .size = J, .location = "mu", .location_index = district, .scale = "tau",
          .scale_index = district, .factor = "L" },
        { .name = "second", .kind = GPUMC_UNIT, .size = J, .scale = "tau", .scale_index = kin_scale,
          .covariates = covariates, .n_covariates = 2, .coefficients = "beta", .factor = "L" },
        { .name = "third", .size = J, .walk_dim = 1, .factor = "L" },
    };
    static const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 1, 0 },
        { "tau", gpumc_prior_half_normal, 1, 0, 0 }, { "beta", gpumc_prior_normal, 0, 1, 0 },
        { "L", gpumc_prior_lkj_corr_cholesky, 1.7, 0, 0 } };
    gpumc_hier_data data = { .params = params, .n_params = 8, .priors = priors, .n_priors = 4,
                             .rows = &k->rows, .n_rows = 1, .isa = isa };
    k->columns[0] = y;
    k->takes[0] = (gpumc_hier_take){ "first", group };
    k->takes[1] = (gpumc_hier_take){ "second", group };
    k->takes[2] = (gpumc_hier_take){ "third", group };
    k->rows = (gpumc_hier_rows){ .name = "y", .takes = k->takes, .n_takes = 3,
        .data = { .kind = &kin_row, .n_rows = N, .columns = k->columns } };
    return data;
}

static double kin_location(const double *x, size_t k, size_t j)
{
    if (k == 0) return x[KIN_MU + district[j]];
    if (k == 1) return covariates[2 * j] * x[KIN_BETA] + covariates[2 * j + 1] * x[KIN_BETA + 1];
    return j == 0 ? 0 : x[KIN_THETA + 2 * J + j - 1];
}
static double kin_tau(const double *x, size_t k, size_t j)
{ return k == 2 ? 1 : x[KIN_TAU + (k == 0 ? district[j] : kin_scale[j])]; }

static double kin_by_hand(const double *x)
{
    static const double none[KIN] = { 0 };
    double lp = gpumc_lkj_corr_cholesky_lpdf(x + KIN_L, KIN, 1.7, NULL, NULL), work[2 * KIN];
    for (size_t k = 0; k < 3; k++)
        lp += gpumc_normal_lpdf(x[KIN_MU + k], 0, 1, NULL, NULL, NULL)
            + gpumc_half_normal_lpdf(x[KIN_TAU + k], 1, NULL, NULL);
    for (size_t k = 0; k < 2; k++)
        lp += gpumc_normal_lpdf(x[KIN_BETA + k], 0, 1, NULL, NULL, NULL)
            + gpumc_normal_lpdf(x[KIN_PACE + k], 0, x[KIN_TAU + kin_scale[k]], NULL, NULL, NULL);
    for (size_t j = 0; j < J; j++) {
        double residue[KIN];
        for (size_t k = 0; k < KIN; k++) {
            residue[k] = (x[KIN_THETA + k * J + j] - kin_location(x, k, j)) / kin_tau(x, k, j);
            lp -= log(kin_tau(x, k, j));
        }
        lp += gpumc_multi_normal_cholesky_lpdf(residue, none, x + KIN_L, KIN, NULL, NULL, NULL, work);
    }
    for (size_t i = 0; i < N; i++) {
        const double *theta = x + KIN_THETA + group[i];
        lp += gpumc_normal_lpdf(y[i], theta[0] / (1 + exp(-theta[J])) + theta[2 * J], 1, NULL, NULL, NULL);
    }
    return lp;
}

/* Densities and gradients with every instruction set, the correlation matrix, and the distribution of prior draws:
   residuals have the correlations of the factor they were drawn with, and its elements have the variance of the LKJ
   distribution. */
static void check_correlated(void)
{
    enum { MANY = 2000 };
    kin k;
    gpumc_error error = { GPUMC_OK, "" };
    for (size_t j = 0; j < J; j++) {
        district[j] = j % 3;
        kin_scale[j] = 2 - j % 2;
    }
    for (int isa = GPUMC_ISA_AUTO; isa <= GPUMC_ISA_AVX512; isa++) {
        const gpumc_hier_data data = kin_description(&k, (gpumc_isa)isa);
        const object o = make(&data);
        double x[N_KIN], g[N_KIN], out[2 + KIN * KIN + J], *corr = out + 2;
        double squares[2] = { 0 }, product = 0, third = 0;
        gpumc_rng rng = gpumc_rng_at(77, 0, (uint32_t)isa, 0);
        CHECK(o.n == N_KIN && o.model->n_outputs == 3 && !strcmp(o.model->outputs[0].name, "pace")
                  && !strcmp(o.model->outputs[1].name, "corr_L") && !strcmp(o.model->outputs[2].name, "second")
                  && gpumc_model_n_outputs(o.model) == sizeof out / sizeof *out,
              "%zu values, first output %s", o.n, o.model->outputs[0].name);
        for (int d = 0; d < MANY; d++) {
            CHECK(gpumc_hier_prior_draw(o.hier, &rng, x, &error) == GPUMC_OK, "%s", error.text);
            const double *L = x + KIN_L, r = (x[KIN_THETA] - kin_location(x, 0, 0)) / kin_tau(x, 0, 0);
            const double s = (x[KIN_THETA + J] - kin_location(x, 1, 0)) / kin_tau(x, 1, 0);
            const double t = x[KIN_THETA + 2 * J + 5] - x[KIN_THETA + 2 * J + 4];
            squares[0] += r * r / MANY;
            squares[1] += s * s / MANY;
            product += L[3] * r * s / MANY;
            third += L[6] * L[6] / MANY;
            CHECK(t - t == 0, "the walk is at %g", t);
            if (d >= 20) continue;
            if (d == 0) {
                const double tau = x[KIN_TAU + 1];
                x[KIN_TAU + 1] = 0;
                CHECK(gpumc_hier_explain(o.hier, x, &error) == GPUMC_ERROR_NUMERIC
                          && strstr(error.text, "\"L\": its population"), "%s", error.text);
                x[KIN_TAU + 1] = tau;
            }
            const double lp = density(&o, x, g), expected = kin_by_hand(x);
            CHECK(check_distance(lp, expected, 1) < 1e-13, "isa %d: %.17g, by hand %.17g", isa, lp, expected);
            CHECK(gpumc_check_gradient(o.model, x, NULL, &error) == GPUMC_OK, "%s", error.text);
            o.model->generate(x, &rng, out, o.model->data);
            CHECK(fabs(corr[1] - L[3]) < 1e-15 && fabs(corr[5] - L[6] * L[3] - L[7] * L[4]) < 1e-15
                      && corr[4] >= 1 && corr[4] <= 1, "correlations %g, %g", corr[1], corr[5]);
            CHECK(check_distance(out[0], exp(x[KIN_PACE]), 1) < 1e-14
                      && fabs(corr[KIN * KIN] - 1 / (1 + exp(-x[KIN_THETA + J]))) < 1e-15, "values %g, %g",
                  out[0], corr[KIN * KIN]);
        }
        /* Var L_21 is 1 / (2 eta + K - 1), so E L_21 r s the same; 5 standard errors */
        CHECK(fabs(squares[0] - 1) < 0.16 && fabs(squares[1] - 1) < 0.16, "variances %g, %g", squares[0], squares[1]);
        CHECK(fabs(product - 1 / 5.4) < 0.06, "E L_21 r s is %g, not %g", product, 1 / 5.4);
        CHECK(fabs(third - 1 / 5.4) < 0.025, "E L_31^2 is %g, not %g", third, 1 / 5.4);
        gpumc_hier_free(o.hier);
    }
}

/* Stationary AR(1) series: 3 about means of their own, with a coefficient each, and one about 0, of logarithms. */
enum { SERIES = 3, STEPS = 5, SERIES_MU = 0, SERIES_TAU = 1, SERIES_PHI = 2, SERIES_RHO = 5, SERIES_MEAN = 6,
       SERIES_LEVEL = 9, SERIES_PULSE = SERIES_LEVEL + SERIES * STEPS, N_SERIES = SERIES_PULSE + STEPS };

static double series_by_hand(const double *x, const size_t *index)
{
    const double tau = x[SERIES_TAU], rho = x[SERIES_RHO], *pulse = x + SERIES_PULSE;
    double lp = gpumc_normal_lpdf(x[SERIES_MU], 0, 1, NULL, NULL, NULL)
        + gpumc_half_normal_lpdf(tau, 1, NULL, NULL) + gpumc_beta_lpdf(rho, 4, 2, NULL, NULL, NULL);
    for (size_t s = 0; s < SERIES; s++) {
        const double m = x[SERIES_MEAN + s], phi = x[SERIES_PHI + s], *level = x + SERIES_LEVEL + s * STEPS;
        lp += gpumc_normal_lpdf(m, x[SERIES_MU], tau, NULL, NULL, NULL)
            + gpumc_normal_lpdf(phi, 0.3, 0.5, NULL, NULL, NULL)
            - log(gpumc_Phi(0.69 / 0.5) - gpumc_Phi(-1.2 / 0.5));
        for (size_t t = 0; t < STEPS; t++)
            lp += t == 0 ? gpumc_normal_lpdf(level[0], m, tau / sqrt(1 - phi * phi), NULL, NULL, NULL)
                         : gpumc_normal_lpdf(level[t], m + phi * (level[t - 1] - m), tau, NULL, NULL, NULL);
    }
    for (size_t t = 0; t < STEPS; t++)
        lp += t == 0 ? gpumc_normal_lpdf(pulse[0], 0, tau / sqrt(1 - rho * rho), NULL, NULL, NULL)
                     : gpumc_normal_lpdf(pulse[t], rho * pulse[t - 1], tau, NULL, NULL, NULL);
    for (size_t i = 0; i < N; i++) {
        const double a = x[SERIES_LEVEL + index[i]], b = exp(pulse[index[i] % STEPS]);
        lp += gpumc_normal_lpdf(y[i], a * b + a, 1, NULL, NULL, NULL);
    }
    return lp;
}

/* A free value whose exponential overflows: the natural value is capped, and the derivative of the likelihood by it
   is 0, not 0 times infinity. */
static void check_huge_values(void)
{
    static const size_t first[N] = { 0 };
    static const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "rate", .kind = GPUMC_POSITIVE, .size = 3, .scale = "tau" } };
    static const gpumc_prior priors[] = { { "tau", gpumc_prior_half_cauchy, 1, 0, 0 } };
    const double *columns[] = { y };
    const gpumc_hier_take takes[] = { { "rate", first }, { "tau", NULL } };
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = 2,
                                   .data = { .kind = &normal_row, .n_rows = N, .columns = columns } };
    const gpumc_hier_data data = { .params = params, .n_params = 2, .priors = priors, .n_priors = 1,
                                   .rows = &rows, .n_rows = 1 };
    const object o = make(&data);
    const double x[4] = { 300, 0.1, 0.2, 720 };
    double g[4];
    gpumc_error error = { GPUMC_OK, "" };
    CHECK(density(&o, x, g) > -1e6 && fabs(g[3] + 720 / 9e4) < 1e-15, "gradient %g of an empty group", g[3]);
    CHECK(gpumc_check_gradient(o.model, x, NULL, &error) == GPUMC_OK, "%s", error.text);
    gpumc_hier_free(o.hier);
}

/* Densities and gradients against those by hand; and in prior draws all elements of a series have the same variance,
   and neighbours the correlation phi. */
static void check_series(void)
{
    enum { MANY = 4000 };
    static const size_t grid[] = { SERIES, STEPS }, of[] = { 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2 };
    static size_t level[N], pulse[N];
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "phi", .kind = GPUMC_INTERVAL, .size = SERIES, .lower = -0.9, .upper = 0.99 },
        { .name = "rho", .kind = GPUMC_UNIT }, { .name = "mean", .size = SERIES, .location = "mu", .scale = "tau" },
        { .name = "level", .dims = grid, .n_dims = 2, .location = "mean", .location_index = of, .scale = "tau",
          .walk_dim = 2, .walk_coefficient = "phi" },
        { .name = "pulse", .kind = GPUMC_POSITIVE, .size = STEPS, .scale = "tau", .walk_dim = 1,
          .walk_coefficient = "rho" } };
    static const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 1, 0 },
        { "tau", gpumc_prior_half_normal, 1, 0, 0 }, { "phi", gpumc_prior_normal, 0.3, 0.5, 0 },
        { "rho", gpumc_prior_beta, 4, 2, 0 } };
    const double *columns[] = { y };
    const gpumc_hier_take takes[] = { { "level", level }, { "pulse", pulse }, { "level", level } };
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = 3,
                                   .data = { .kind = &kin_row, .n_rows = N, .columns = columns } };
    const gpumc_hier_data data = { .params = params, .n_params = 7, .priors = priors, .n_priors = 4,
                                   .rows = &rows, .n_rows = 1 };
    double squares[2] = { 0 }, product = 0, x[N_SERIES], g[N_SERIES];
    gpumc_rng rng = gpumc_rng_at(78, 0, 0, 0);
    gpumc_error error = { GPUMC_OK, "" };
    for (size_t i = 0; i < N; i++) {
        level[i] = i % (SERIES * STEPS);
        pulse[i] = level[i] % STEPS;
    }
    const object o = make(&data);
    CHECK(o.n == N_SERIES, "%zu values", o.n);
    for (int d = 0; d < MANY; d++) {
        CHECK(gpumc_hier_prior_draw(o.hier, &rng, x, &error) == GPUMC_OK, "%s", error.text);
        const double phi = x[SERIES_PHI + 1], spread = x[SERIES_TAU] / sqrt(1 - phi * phi);
        const double *e = x + SERIES_LEVEL + STEPS, mean = x[SERIES_MEAN + 1];
        for (size_t k = 0; k < 2; k++) squares[k] += pow((e[k ? STEPS - 1 : 0] - mean) / spread, 2) / MANY;
        product += ((e[3] - mean) * (e[2] - mean) / (spread * spread) - phi) / MANY;
        if (d >= 50) continue;
        const double lp = density(&o, x, g), expected = series_by_hand(x, level);
        CHECK(check_distance(lp, expected, 1) < 1e-13, "%.17g, by hand %.17g", lp, expected);
        CHECK(gpumc_check_gradient(o.model, x, NULL, &error) == GPUMC_OK, "%s", error.text);
    }
    /* 5 standard errors of MANY squares of normal numbers, 2 MANY^-1/2 each at most */
    CHECK(fabs(squares[0] - 1) < 0.12 && fabs(squares[1] - 1) < 0.12, "variances %g, %g", squares[0], squares[1]);
    CHECK(fabs(product) < 0.12, "correlations are off by %g", product);
    gpumc_hier_free(o.hier);
}

/* Eight groups with an outcome y, and their description; y is overwritten with simulations. */
typedef struct small {
    double y[24];
    size_t group[24];
    const double *column;
    gpumc_hier_take takes[2];
} small;

static gpumc_hier_data small_description(small *s, gpumc_hier_rows *rows)
{
    static const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 8, .location = "mu", .scale = "tau" },
    };
    static const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 1, 2, 0 },
        { "tau", gpumc_prior_half_normal, 1, 0, 0 }, { "sigma", gpumc_prior_lognormal, 0, 0.3, 0 } };
    const gpumc_hier_data data = { .name = "small",
                                   .params = params,
                                   .n_params = 4,
                                   .priors = priors,
                                   .n_priors = 3,
                                   .rows = rows,
                                   .n_rows = 1 };
    for (size_t i = 0; i < 24; i++) s->group[i] = i % 8;
    s->column = s->y;
    s->takes[0] = (gpumc_hier_take){ "theta", s->group };
    s->takes[1] = (gpumc_hier_take){ "sigma", NULL };
    *rows = (gpumc_hier_rows){ .name = "y", .takes = s->takes, .n_takes = 2, .simulate = simulate_normal,
                               .log_lik = "log_lik", .predictive = "y_rep" };
    rows->data = (gpumc_rows_data){ .kind = &normal_row, .n_rows = 24, .columns = &s->column };
    return data;
}

/* The same rows, now of two stationary series of four elements. */
static gpumc_hier_data series_description(small *s, gpumc_hier_rows *rows)
{
    static const size_t dims[] = { 2, 4 };
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "phi", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 },
        { .name = "theta", .dims = dims, .n_dims = 2, .location = "mu", .scale = "tau", .walk_dim = 2,
          .walk_coefficient = "phi" } };
    static const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 1, 2, 0 },
        { "tau", gpumc_prior_half_normal, 1, 0, 0 }, { "sigma", gpumc_prior_lognormal, 0, 0.3, 0 },
        { "phi", gpumc_prior_uniform, -1, 1, 0 } };
    gpumc_hier_data data = small_description(s, rows);
    data.name = "series";
    data.params = params;
    data.n_params = 5;
    data.priors = priors;
    data.n_priors = 4;
    return data;
}

static const size_t lines_first[8] = { 0 }, lines_second[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

/* Correlated intercepts and slopes, in groups that hold little information on the correlation. */
typedef struct lines {
    double y[40], z[40];
    size_t group[40];
    const double *columns[2];
    gpumc_hier_take takes[3];
    gpumc_hier_rows rows;
} lines;

static gpumc_hier_data lines_description(lines *l)
{
    static const size_t dims[] = { 2, 2 };
    static const gpumc_param params[] = {
        { .name = "mu", .size = 2 },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = dims, .n_dims = 2 },
        { .name = "intercept", .size = 8, .location = "mu", .location_index = lines_first, .scale = "tau",
          .scale_index = lines_first, .factor = "L" },
        { .name = "slope", .size = 8, .location = "mu", .location_index = lines_second, .scale = "tau",
          .scale_index = lines_second, .factor = "L" },
    };
    static const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 1, 1, 0 },
        { "tau", gpumc_prior_half_normal, 1, 0, 0 }, { "sigma", gpumc_prior_lognormal, 0, 0.3, 0 },
        { "L", gpumc_prior_lkj_corr_cholesky, 1, 0, 0 } };
    const gpumc_hier_data data = { .name = "lines", .params = params, .n_params = 6, .priors = priors,
                                   .n_priors = 4, .rows = &l->rows, .n_rows = 1 };
    memset(l, 0, sizeof *l);
    for (size_t i = 0; i < 40; i++) {
        l->group[i] = i % 8;
        l->z[i] = 0.5 * (double)(i / 8) - 1;
    }
    l->columns[0] = l->y;
    l->columns[1] = l->z;
    l->takes[0] = (gpumc_hier_take){ "intercept", l->group };
    l->takes[1] = (gpumc_hier_take){ "slope", l->group };
    l->takes[2] = (gpumc_hier_take){ "sigma", NULL };
    l->rows = (gpumc_hier_rows){ .name = "y", .takes = l->takes, .n_takes = 3, .simulate = simulate_line,
                                 .predictive = "y_rep" };
    l->rows.data = (gpumc_rows_data){ .kind = &line_row, .n_rows = 40, .columns = l->columns };
    return data;
}

/* Simulation-based calibration of the watched values: the ranks of the truth among posterior draws are uniform. The
   last n outputs of the model are the predictions that become the data y. */
static void calibrate(const gpumc_hier_data *data, double *data_y, size_t n, const size_t *watched,
                      size_t n_watched)
{
    enum { MANY = 60, BINS = 6 };
    int bins[8][BINS] = { { 0 } };
    for (int k = 0; k < MANY; k++) {
        double truth[30], out[60];
        gpumc_rng rng = gpumc_rng_at(21, 0, (uint32_t)k, 0);
        const gpumc_sample_options options = {
            .num_samples = 150, .num_chains = 2, .seed = (uint64_t)k, .thin = 2
        };
        gpumc_fit fit;
        object o = make(data);
        CHECK(gpumc_hier_prior_draw(o.hier, &rng, truth, NULL) == GPUMC_OK, "no draw");
        o.model->generate(truth, &rng, out, o.model->data);
        memcpy(data_y, out + gpumc_model_n_outputs(o.model) - n, n * sizeof *data_y);
        gpumc_hier_free(o.hier);
        o = make(data);
        CHECK(gpumc_sample(o.model, &options, &fit) == GPUMC_OK, "%s", fit.message);
        for (size_t j = 0; j < n_watched; j++) {
            size_t below = 0;
            for (size_t c = 0; c < 2; c++)
                for (size_t d = 0; d < 150; d++)
                    below += fit.draws[(c * fit.draw_capacity + d) * fit.n_columns + watched[j]]
                        < truth[watched[j]];
            bins[j][below * BINS / 301]++;
        }
        gpumc_free(&fit);
        gpumc_hier_free(o.hier);
    }
    for (size_t j = 0; j < n_watched; j++) {
        double chi = 0;
        for (int b = 0; b < BINS; b++)
            chi += pow(bins[j][b] - MANY / (double)BINS, 2) / (MANY / (double)BINS);
        CHECK(chi < 20.5, "%s, value %zu: chi-squared %g on 5 degrees of freedom", data->name, watched[j],
              chi);                                                                     /* p = 0.001 */
    }
}

/* Gradients of a run with default options, warm-up included. */
static double gradients_of(const gpumc_hier_data *data)
{
    object o = make(data);
    gpumc_fit fit;
    CHECK(gpumc_sample(o.model, NULL, &fit) == GPUMC_OK, "%s", fit.message);
    const double gradients = (double)(fit.warmup_gradients + fit.sampling_gradients);
    gpumc_free(&fit);
    gpumc_hier_free(o.hier);
    return gradients;
}

static void check_calibration(void)
{
    static const size_t of_small[] = { 0, 1, 2 }, of_lines[] = { 0, 1, 2, 3, 4, 7, 9, 17 };
    static const size_t of_series[] = { 0, 1, 2, 3, 4, 7, 11 }, of_raw[] = { 0, 1, 2, 3, 4, 7, 15 };
    small s;
    lines l;
    gpumc_hier_rows rows, more;
    const gpumc_hier_data groups = small_description(&s, &rows), sloped = lines_description(&l);
    const gpumc_hier_data series = series_description(&s, &more);
    memset(s.y, 0, sizeof s.y);
    calibrate(&groups, s.y, 24, of_small, 3);
    calibrate(&series, s.y, 24, of_series, 7);
    calibrate(&sloped, l.y, 40, of_lines, 8);
    gpumc_param apart[5];                                  /* not correlated, and a covariate far from 0 */
    gpumc_hier_data raw = lines_description(&l);
    memcpy(apart, raw.params, 3 * sizeof *apart);
    memcpy(apart + 3, raw.params + 4, 2 * sizeof *apart);
    apart[3].factor = apart[4].factor = NULL;
    raw.name = "raw lines";
    raw.params = apart;
    raw.n_params = 5;
    raw.n_priors = 3;
    for (size_t i = 0; i < 40; i++) l.z[i] += 10;
    calibrate(&raw, l.y, 40, of_raw, 7);
    CHECK(gradients_of(&raw) < 30000, "%g gradients", gradients_of(&raw));
}

/* Generated quantities of a fit: exact pointwise log likelihoods, and predictions with the right mean. */
static void check_predictive(void)
{
    small s;
    gpumc_hier_rows rows;
    const gpumc_hier_data data = small_description(&s, &rows);
    const gpumc_sample_options options = { .num_samples = 1000, .seed = 4 };
    gpumc_rng rng = gpumc_rng_at(2, 0, 0, 0);
    gpumc_fit fit;
    object o;
    double mean = 0, expected = 0, off = 0;
    for (size_t i = 0; i < 24; i++) s.y[i] = (double)s.group[i] + gpumc_rng_normal(&rng);
    o = make(&data);
    CHECK(gpumc_sample(o.model, &options, &fit) == GPUMC_OK, "%s", fit.message);
    CHECK(fit.n_columns == 11 + 48 && gpumc_column(&fit, "y_rep[24]") == 58, "%d columns",
          (int)fit.n_columns);
    for (size_t i = 0; i < fit.n_chains * fit.n_draws; i++) {
        const double *x = fit.draws + i * fit.n_columns;
        off = check_worst(off, fabs(x[11 + 5] - gpumc_normal_lpdf(s.y[5], x[3 + 5], x[2], NULL, NULL, NULL)));
        mean += x[11 + 24 + 5] / (double)(fit.n_chains * fit.n_draws);
        expected += x[3 + 5] / (double)(fit.n_chains * fit.n_draws);
    }
    CHECK(off < 1e-12, "pointwise log likelihood off by %g", off);
    CHECK(fabs(mean - expected) < 0.12, "predictions have mean %g, not %g", mean, expected);
    gpumc_free(&fit);
    gpumc_hier_free(o.hier);
}

/* A guide is, to the bit, the density of another model with the guide's rows; the density itself stays as it is. */
static void check_guide(void)
{
    static double rounded[24];
    const double *column = rounded;
    small s, t;
    gpumc_hier_rows rows, other_rows;
    gpumc_hier_data data = small_description(&s, &rows);
    const gpumc_hier_data other_data = small_description(&t, &other_rows);
    double x[11], g[3][11] = { { 0 } }, lp[3];
    for (size_t i = 0; i < 24; i++) t.y[i] = rounded[i] = floor(s.y[i] = 0.37 * (double)i);
    for (size_t i = 0; i < 11; i++) x[i] = 0.3 + 0.1 * (double)i;
    const gpumc_rows_data guide = { .kind = &normal_row, .n_rows = 24, .columns = &column };
    object plain = make(&data);
    rows.guide = &guide;
    object guided = make(&data), another = make(&other_data);
    CHECK(!plain.model->guide && guided.model->guide, "a guide");
    lp[0] = plain.model->log_density(x, g[0], plain.model->data);
    lp[1] = guided.model->log_density(x, g[1], guided.model->data);
    CHECK(lp[0] == lp[1] && memcmp(g[0], g[1], sizeof g[0]) == 0, "the guide changes the density");
    memset(g, 0, sizeof g);
    lp[1] = guided.model->guide(x, g[1], guided.model->data);
    lp[2] = another.model->log_density(x, g[2], another.model->data);
    CHECK(lp[1] != lp[0] && lp[1] == lp[2] && memcmp(g[1], g[2], sizeof g[1]) == 0, "%g is not %g", lp[1],
          lp[2]);
    gpumc_hier_free(plain.hier);
    gpumc_hier_free(guided.hier);
    gpumc_hier_free(another.hier);
}

/* ---- starts -------------------------------------------------------------------------------------- */
/* A shift whose prior median lies above the data, where the density is 0: chains must start below them. */
static void check_start_in_support(void)
{
    static const double times[6] = { 0.62, 0.55, 0.9, 0.71, 0.49, 0.8 };
    static const size_t subject[6] = { 0, 0, 1, 1, 2, 2 };
    const double *const columns[1] = { times };
    const gpumc_param shift = { .name = "t0", .kind = GPUMC_POSITIVE, .size = 3 };
    const gpumc_prior prior = { "t0", gpumc_prior_lognormal, 0, 1, 0 };
    const gpumc_hier_take take = { "t0", subject };
    const gpumc_hier_rows rows = { .name = "times",
                                   .data = { .kind = &shifted_row, .n_rows = 6, .columns = columns },
                                   .takes = &take, .n_takes = 1 };
    const gpumc_hier_data data = { .name = "shifted", .params = &shift, .n_params = 1, .priors = &prior,
                                   .n_priors = 1, .rows = &rows, .n_rows = 1 };
    const gpumc_sample_options options = { .num_samples = 100 };
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_hier *h = gpumc_hier_create(&data, &error);
    gpumc_fit fit;
    CHECK(h, "%s", error.text);
    CHECK(gpumc_sample(gpumc_hier_model(h), &options, &fit) == GPUMC_OK, "%s", fit.message);
    gpumc_free(&fit);
    gpumc_hier_free(h);
    CHECK(!gpumc_hier_model(NULL), "a model of nothing");
}

/* Thirty shifts of a narrow population, the median of which lies above the first time of every third. */
static void check_start_of_each(void)
{
    enum { SUBJECTS = 30 };
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "t0", .kind = GPUMC_POSITIVE, .size = SUBJECTS, .location = "mu", .scale = "tau" } };
    static const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, -1.5, 0.3, 0 },
                                          { "tau", gpumc_prior_half_normal, 0.3, 0, 0 } };
    double times[2 * SUBJECTS];
    size_t subject[2 * SUBJECTS];
    const double *const columns[1] = { times };
    const gpumc_hier_take take = { "t0", subject };
    const gpumc_hier_rows rows = { .name = "times", .data = { .kind = &shifted_row, .n_rows = 2 * SUBJECTS,
                                   .columns = columns }, .takes = &take, .n_takes = 1 };
    const gpumc_hier_data data = { .name = "shifts", .params = params, .n_params = 3, .priors = priors,
                                   .n_priors = 2, .rows = &rows, .n_rows = 1 };
    const gpumc_sample_options options = { .num_samples = 100 };
    gpumc_fit fit;
    for (size_t i = 0; i < 2 * SUBJECTS; i++) {
        subject[i] = i % SUBJECTS;
        times[i] = i % 3 == 0 ? 0.06 : 0.5 + 0.01 * (double)i;
    }
    const object o = make(&data);
    CHECK(gpumc_sample(o.model, &options, &fit) == GPUMC_OK, "%s", fit.message);
    gpumc_free(&fit);
    gpumc_hier_free(o.hier);
}

/* ---- what is refused ----------------------------------------------------------------------------- */
static void check_refused(const gpumc_hier_data *data, const char *text)
{
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_hier *h = gpumc_hier_create(data, &error);
    CHECK(!h && error.status != GPUMC_OK && strstr(error.text, text), "expected \"%s\", got \"%s\"", text,
          error.text);
    gpumc_hier_free(h);
}

#define REFUSED(change, text) \
    do { \
        everything *e = describe(); \
        add_rows(e, "school", "heavy", "rate", group); \
        change; \
        check_refused(&e->data, text); \
        free(e); \
    } while (0)

static const double minus_one[1] = { -1 };

/* Descriptions of correlated populations that are refused. */
static void check_bad_factors(void)
{
    static const size_t two[] = { 2, 2 }, uneven[] = { 3, 2 }, cube[] = { 1, 3, 3 };
    static const struct { size_t param; const char *text; gpumc_param change; } wrong[] = {
        { 3, "\"first\": factor \"L\" is not a block of kind GPUMC_CHOLESKY_CORR", { .name = "L", .size = 9 } },
        { 3, "\"L\": GPUMC_CHOLESKY_CORR needs .dims = { K, K }", { .name = "L", .kind = GPUMC_CHOLESKY_CORR,
          .dims = uneven, .n_dims = 2 } },
        { 3, "factor \"L\" is named by 3 blocks, but needs one for each of its rows (2)", { .name = "L",
          .kind = GPUMC_CHOLESKY_CORR, .dims = two, .n_dims = 2 } },
        { 3, "n_dims is 3", { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = cube,
          .n_dims = 3 } },
        { 5, "\"first\": factor \"M\" is not a parameter earlier in the list",
          { .name = "first", .size = J, .location = "mu", .scale = "tau", .scale_index = kin_scale, .factor = "M" } },
        { 7, "\"third\": it has 5 elements, but \"first\", of the same factor, has 37", { .name = "third", .size = 5,
          .factor = "L" } },
    };
    static const gpumc_population student = { .name = "third", .family = gpumc_population_student_t, .shape = "tau" };
    gpumc_param params[8];
    gpumc_prior priors[5];
    kin k;
    gpumc_hier_data data = kin_description(&k, GPUMC_ISA_AUTO);
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        memcpy(params, kin_description(&k, GPUMC_ISA_AUTO).params, sizeof params);
        params[wrong[w].param] = wrong[w].change;
        data.params = params;
        check_refused(&data, wrong[w].text);
    }
    data = kin_description(&k, GPUMC_ISA_AUTO);
    data.populations = &student;
    data.n_populations = 1;
    check_refused(&data, "\"third\": what has a factor (\"L\") must have a normal population");
    data = kin_description(&k, GPUMC_ISA_AUTO);
    data.n_priors = 3;
    check_refused(&data, "\"L\": it has no prior (gpumc_prior_lkj_corr_cholesky)");
    memcpy(params, data.params, sizeof params);
    for (size_t i = 5; i < 8; i++) params[i].factor = NULL;
    data = kin_description(&k, GPUMC_ISA_AUTO);
    data.params = params;
    check_refused(&data, "\"L\": no block names it as its factor");
    data = kin_description(&k, GPUMC_ISA_AUTO);
    for (int w = 0; w < 4; w++) {
        memcpy(priors, kin_description(&k, GPUMC_ISA_AUTO).priors, 4 * sizeof *priors);
        priors[4] = priors[3];
        if (w == 0) priors[3].a = 0;
        if (w == 1) priors[3].family = gpumc_prior_normal;
        if (w == 2) priors[0].family = gpumc_prior_lkj_corr_cholesky;
        data.priors = priors;
        data.n_priors = w == 3 ? 5 : 4;
        check_refused(&data, "has one prior, gpumc_prior_lkj_corr_cholesky with a above 0");
    }
}

static void check_bad_input(void)
{
    size_t far_out[N] = { 0 };
    far_out[7] = J;
    check_refused(NULL, "the description is NULL");
    REFUSED(e->data.params = NULL, "params is NULL");
    REFUSED(e->data.priors = NULL, "priors and n_priors belong together");
    REFUSED(e->data.populations = NULL, "populations and n_populations belong together");
    REFUSED(e->data.n_populations = 0, "populations and n_populations belong together");
    REFUSED(e->data.rows = NULL, "rows and n_rows belong together");
    REFUSED(e->data.n_rows = 0, "rows and n_rows belong together");
    REFUSED(e->populations[0].shape = "mu", "shape \"mu\" is not positive");
    REFUSED(e->params[0].name = NULL, "parameter 0 has no name");
    REFUSED(e->priors[0].name = NULL, "the name of a prior is NULL");
    REFUSED(e->populations[0].name = NULL, "the name of a population is NULL");
    REFUSED(e->rows[1].name = NULL, "the name of a set of rows is NULL");
    REFUSED(e->data.team = -1, "team is -1");
    REFUSED(e->data.place = (gpumc_place)9, "place is 9");
    REFUSED(e->data.threads = 1 << 17, "threads 131072");
    REFUSED(e->params[0].name = "a b", "a b");
    REFUSED(e->params[3].name = "mu", "mu");
    REFUSED(e->params[0].kind = GPUMC_SIMPLEX, "\"mu\": GPUMC_SIMPLEX");
    REFUSED(e->params[0].kind = (gpumc_kind)99, "\"mu\": kind 99 is unknown");
    REFUSED(e->params[5].kind = (gpumc_kind)-1, "\"district\": kind -1 is unknown");
    REFUSED(e->params[5].location = "mo", "\"mo\" is not a parameter");
    REFUSED(e->params[5].scale = "mu", "\"mu\" is not positive");
    REFUSED(e->params[6].location = "log_rate", "\"log_rate\" is not a parameter earlier");
    REFUSED(e->params[14].walk_dim = 1, "cannot walk");
    REFUSED(e->params[10].kind = GPUMC_UPPER, "\"rate\"");
    REFUSED(e->params[0].n_dims = 1, "\"mu\": n_dims is 1");
    REFUSED(e->params[0].dims = walk_dims, "\"mu\": n_dims is 0");
    REFUSED(e->params[0].dims = walk_dims; e->params[0].n_dims = 2; e->params[0].size = 5, "\"mu\": size 5");
    REFUSED(e->params[5].kind = GPUMC_UPPER, "UPPER that or a leaf");
    REFUSED(e->populations[0].family = NULL, "there is no density for it");
    REFUSED(e->params[12].upper = -1, "\"chance\": lower -1 must be below upper -1");
    REFUSED(e->params[10].lower = NAN, "\"rate\": bounds nan");
    REFUSED(e->populations[1].link = GPUMC_LINK_IDENTITY, "\"chance\": between bounds without a link");
    REFUSED(e->params[13].centring = GPUMC_NONCENTRED, "sampled centred");
    REFUSED(e->priors[0].name = "mo", "\"mo\": a prior is given");
    REFUSED(e->priors[0].name = "mu[2]", "\"mu[2]\": a prior is given");
    REFUSED(e->priors[0].name = "school", "it has a population");
    REFUSED(e->priors[1].name = "mu", "\"mu\"");
    REFUSED(e->priors[5].name = "sd[2]", "two priors");
    REFUSED(e->data.n_priors = 5, "\"sd\": it has no prior");
    REFUSED(e->priors[0].family = NULL, "no family");
    REFUSED(e->priors[0].b = -1, "prior normal(0, -1, 0) needs mu real, sigma > 0");
    REFUSED(e->priors[0].a = INFINITY, "prior normal(inf, 2, 0) needs mu real, sigma > 0");
    REFUSED(e->priors[0].family = gpumc_prior_half_normal;
            e->priors[0].a = 1, "prior half_normal lives on 0..inf");
    REFUSED(e->priors[3] = ((gpumc_prior){ "nu", gpumc_prior_uniform, 0, 9, 0 }),
            "prior uniform lives on 0..9");
    REFUSED(e->priors[1] = ((gpumc_prior){ "tau", gpumc_prior_normal, -99, 1, 0 }), "leave some probability");
    REFUSED(e->populations[0].name = "mo", "\"mo\": a population is given");
    REFUSED(e->populations[0].name = "mu", "\"mu\": a population is given");
    REFUSED(e->populations[0].name = "chance", "or it has two");
    REFUSED(e->populations[0].shape = NULL, "shape");
    REFUSED(e->populations[0].shape = "no", "shape \"no\"");
    REFUSED(e->populations[0].link = GPUMC_LINK_LOG, "\"heavy\": link 2");
    REFUSED(e->populations[1].link = GPUMC_LINK_LOG, "\"chance\": link 2");
    REFUSED(e->populations[2].link = GPUMC_LINK_LOGIT, "normal the identity, UPPER that or a leaf");
    REFUSED(e->populations[0].quantile_form = 1, "no quantile function");
    REFUSED(e->populations[4].density = &normal_row, "leaf");
    REFUSED(e->populations[7].with = "twin", "no other block");
    REFUSED(e->populations[7].with = "mu", "goes with \"mu\"");
    REFUSED(e->populations[7].with = "no", "goes with \"no\"");
    REFUSED(e->populations[7].with = NULL, "6 of a pair");
    REFUSED(e->populations[8].quantile_form = 0, "a quantile alone is sampled by quantile_form = 1");
    REFUSED(e->rows[1].takes = NULL, "rows \"mixed\": takes is NULL");
    REFUSED(e->rows[1].data.kind = NULL, "rows \"mixed\": data.kind is NULL");
    REFUSED(e->mixed[1].name = "hevy", "rows \"mixed\": there is no parameter \"hevy\"");
    REFUSED(e->mixed[1].name = "z_heavy", "\"z_heavy\"");
    REFUSED(e->mixed[1].index = NULL, "then 3 values without; takes has 2 with and ");
    REFUSED(e->rows[1].n_takes = 4, "then 3 values without");
    REFUSED(e->mixed[4].name = "beta", "then 3 values without");
    REFUSED(e->mixed[0].index = far_out, "index 37 in row 7 is outside 0..36 (size of \"school\")");
    REFUSED(e->columns[1] = NULL, "rows \"mixed\"");
    REFUSED(e->rows[1].data.n_columns = 1, "rows \"mixed\"");
    REFUSED(e->rows[1].data.n_rows = 0, "rows \"mixed\": data.n_rows is 0");
    REFUSED(e->rows[1].predictive = "y_rep", "rows \"mixed\": predictive is given");
    REFUSED(e->rows[1].log_lik = "mu", "mu");
    gpumc_rows_data fewer = { .kind = &mixed_row, .n_rows = N - 1 };
    REFUSED(e->rows[1].guide = &fewer, "rows \"mixed\": guide must have as many rows");
    fewer = (gpumc_rows_data){ .kind = &normal_row, .n_rows = N };
    REFUSED(e->rows[1].guide = &fewer, "rows \"mixed\": guide must have as many rows");
    everything *e = describe();
    e->params[1].init = minus_one;                           /* a bad init is an error: it is not moved */
    const object o = make(&e->data);
    gpumc_fit fit;
    CHECK(gpumc_sample(o.model, NULL, &fit) == GPUMC_ERROR_MODEL && strstr(fit.message, "\"tau\": init"), "%s",
          fit.message);
    gpumc_hier_free(o.hier);
    free(e);
}

/* Threads that find no free scratch wait: results are the same. And gpumc_hier_explain names the row at fault. */
static void check_threads_and_explain(void)
{
    static double bad[N];
    everything *e = describe();
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_fit fit[2];
    double x[1024];
    object o;
    for (int k = 0; k < 2; k++) {
        const gpumc_sample_options options = {
            .num_samples = 30, .num_warmup = 30, .seed = 4, .threads = k ? 4 : 1
        };
        add_rows(e, "school", "heavy", "rate", other);
        e->data.threads = 1;
        o = make(&e->data);
        CHECK(gpumc_sample(o.model, &options, &fit[k]) == GPUMC_OK, "%s", fit[k].message);
        gpumc_hier_free(o.hier);
    }
    CHECK(memcmp(fit[0].draws, fit[1].draws, fit[0].n_draws * fit[0].n_columns * sizeof(double)) == 0,
          "draws depend on threads");
    for (size_t i = 0; i < fit[0].n_params_columns; i++) x[i] = 1.2;
    gpumc_free(&fit[0]);
    gpumc_free(&fit[1]);
    memcpy(bad, y, sizeof bad);
    bad[9] = 1e200;
    e->columns[0] = bad;
    o = make(&e->data);
    CHECK(gpumc_hier_explain(o.hier, x, &error) == GPUMC_ERROR_NUMERIC
              && strstr(error.text, "rows \"shared\": the log likelihood of row 9,")
              && strstr(error.text, " at x = 1e+200"),
          "%s", error.text);
    x[1] = -1;
    CHECK(gpumc_hier_explain(o.hier, x, &error) == GPUMC_ERROR_NUMERIC
              && strstr(error.text, "\"tau\": its prior"),
          "%s", error.text);
    gpumc_hier_free(o.hier);
    free(e);
}

/* If all requests for memory from the n-th on are refused, gpumc_hier_create fails and leaves nothing allocated. */
static void check_out_of_memory(void)
{
    everything *e = describe();
    gpumc_hier *h = NULL;
    size_t n = 1;
    add_rows(e, "school", "heavy", "rate", other);
    for (; n < 1000 && !h; n++) {
        ledger l = { .refuse_at = n, .refuse_later = 1 };
        gpumc_error error = { GPUMC_OK, "" };
        e->data.allocator = ledger_allocator(&l);
        h = gpumc_hier_create(&e->data, &error);
        CHECK(h || error.status == GPUMC_ERROR_MEMORY, "request %d refused: %s", (int)n, error.text);
        gpumc_hier_free(h);
        CHECK(l.live == 0, "%d blocks are left after %d requests", (int)l.live, (int)n);
    }
    CHECK(n > 50 && n < 1000, "%d requests", (int)n);
    free(e);
}

/* Groups with rows enough to be shared by a team of threads. */
enum { MANY_ROWS = 20011, LARGE = 7 };
typedef struct large {
    size_t of[MANY_ROWS];
    double y[MANY_ROWS];
    const double *column;
    gpumc_param params[4];
    gpumc_prior priors[3];
    gpumc_hier_take takes[2];
    gpumc_hier_rows rows;
    gpumc_hier_data data;
} large;

static large *describe_large(void)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = LARGE, .location = "mu", .scale = "tau" } };
    const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 5, 0 },
        { "tau", gpumc_prior_half_normal, 2, 0, 0 }, { "sigma", gpumc_prior_half_normal, 2, 0, 0 } };
    large *d = (large *)calloc(1, sizeof *d);
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    if (!d) exit(check_end());
    for (size_t i = 0; i < MANY_ROWS; i++) {
        d->of[i] = (size_t)gpumc_rng_below(&rng, LARGE);
        d->y[i] = gpumc_rng_normal(&rng);
    }
    memcpy(d->params, params, sizeof params);
    memcpy(d->priors, priors, sizeof priors);
    d->column = d->y;
    d->takes[0].name = "theta";
    d->takes[0].index = d->of;
    d->takes[1].name = "sigma";
    d->rows = (gpumc_hier_rows){ .name = "y", .takes = d->takes, .n_takes = 2,
                                 .data = { .kind = &normal_row, .n_rows = MANY_ROWS, .columns = &d->column } };
    d->data = (gpumc_hier_data){ .params = d->params, .n_params = 4, .priors = d->priors, .n_priors = 3,
                                 .rows = &d->rows, .n_rows = 1, .threads = 2 };
    return d;
}

/* A scale or location that a block forgets to name leaves a parameter on which nothing depends; one that does not
   exist is named. What rows take by index is not given again, and errors in them name the set, not its kind too. */
static void check_forgotten(void)
{
    large *d = describe_large();
    d->params[3].scale = NULL;
    check_refused(&d->data, "\"tau\": nothing depends on it");
    d->params[3].scale = "tau";
    d->params[3].location = NULL;
    check_refused(&d->data, "\"mu\": nothing depends on it");
    d->params[3].scale = "mu";
    check_refused(&d->data, "scale \"mu\" is not positive by declaration (GPUMC_UNBOUNDED)");
    d->params[3].scale = "tau";
    d->params[3].location = "moo";
    check_refused(&d->data, "location \"moo\" is not a parameter earlier in the list");
    d->params[3].location = "mu";
    d->takes[1].name = "sigam";
    check_refused(&d->data, "rows \"y\": there is no parameter \"sigam\"");
    d->takes[1].name = "sigma";
    d->of[7] = (size_t)-1;
    check_refused(&d->data, "rows \"y\": index -1 in row 7 is outside 0..");
    d->of[7] = 0;
    d->rows.data.n_groups = 3;
    check_refused(&d->data, "rows \"y\": data.group and data.n_groups come from takes; leave them 0");
    d->rows.data.n_groups = 0;
    d->y[4] = NAN;
    check_refused(&d->data, "rows \"y\": column 0 is nan in row 4");
    d->params[3].location = NULL;
    d->data.rows = NULL;                      /* with priors alone that is no error */
    d->data.n_rows = 0;
    gpumc_hier_free(make(&d->data).hier);
    free(d);
}

/* Two modes of similar mass (see bent_row). If all starts came from one ascent, all chains would be in one mode, and
   agree. */
static void check_modes(void)
{
    const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "bend" },
        { .name = "sigma", .kind = GPUMC_POSITIVE }, { .name = "share", .size = 20, .scale = "tau" } };
    const gpumc_prior priors[] = { { "tau", gpumc_prior_half_normal, 0.3, 0, 0 },
        { "bend", gpumc_prior_normal, 0, 3, 0 }, { "sigma", gpumc_prior_half_normal, 2, 0, 0 } };
    size_t of[200];
    double values[200];
    const double *column = values;
    const gpumc_hier_take takes[] = { { "share", of }, { "bend", NULL }, { "sigma", NULL } };
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = 3,
                                   .data = { .kind = &bent_row, .n_rows = 200, .columns = &column } };
    const gpumc_hier_data data = { .params = params, .n_params = 4, .priors = priors, .n_priors = 3,
                                   .rows = &rows, .n_rows = 1 };
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    for (size_t i = 0; i < 200; i++) {
        of[i] = i % 20;
        values[i] = 4.5 + gpumc_rng_normal(&rng);
    }
    const object o = make(&data);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const gpumc_sample_options options = { .num_samples = 100, .seed = seed };
        gpumc_fit fit;
        int warned = 0;
        CHECK(gpumc_sample(o.model, &options, &fit) == GPUMC_OK, "%s", fit.message);
        for (size_t i = 0; i < fit.n_warnings; i++) warned |= fit.warnings[i].code == GPUMC_W_RHAT;
        CHECK(warned && gpumc_summarise(&fit, 1).sd > 2, "bend has sd %g", gpumc_summarise(&fit, 1).sd);
        gpumc_free(&fit);
    }
    gpumc_hier_free(o.hier);
}

/* Rows shared by a team of threads give the same bits as one thread. */
static void check_team(void)
{
    large *d = describe_large();
    double x[3 + LARGE], grad[2][3 + LARGE], lp[2];
    for (size_t i = 0; i < 3 + LARGE; i++) x[i] = 0.5 + 0.1 * (double)i;
    for (int k = 0; k < 2; k++) {
        d->data.team = 3 * k;
        const object o = make(&d->data);
        for (int repeat = 0; repeat < 50; repeat++) lp[k] = density(&o, x, grad[k]);
        CHECK(k == 0 || (lp[0] >= lp[1] && lp[0] <= lp[1] && memcmp(grad[0], grad[1], sizeof grad[0]) == 0),
              "a team gets %.17g, one thread %.17g", lp[1], lp[0]);
        gpumc_hier_free(o.hier);
    }
    free(d);
}

/* Many rows that take two elements of one block, some of weight zero: as by a plain loop, with the same bits for
   every size of team, and every row's log likelihood in its own place. */
enum { PAIRS = 20011, PLAYERS = 300 };
typedef struct paired {
    size_t one[PAIRS], two[PAIRS];
    double column[PAIRS], weight[PAIRS], out[PAIRS], x[2 + PLAYERS], grad[2 + PLAYERS], known[2 + PLAYERS];
} paired;

static double paired_loop(const paired *d, double *grad)
{
    double lp = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        double dz = 0, dsigma = 0;
        const double z = d->x[2 + d->one[i]] - d->x[2 + d->two[i]];
        lp += d->weight[i] * gpumc_normal_lpdf(d->column[i], z, d->x[1], NULL, &dz, &dsigma);
        grad[1] += d->weight[i] * dsigma;
        grad[2 + d->one[i]] += d->weight[i] * dz;
        grad[2 + d->two[i]] -= d->weight[i] * dz;
    }
    return lp;
}

static paired *describe_paired(void)
{
    paired *d = (paired *)calloc(1, sizeof *d);
    gpumc_rng rng = gpumc_rng_at(12, 0, 0, 0);
    for (size_t i = 0; i < PAIRS; i++) {
        d->one[i] = i * PLAYERS / PAIRS;                         /* sorted: long runs of one element */
        d->two[i] = gpumc_rng_below(&rng, PLAYERS);
        d->column[i] = gpumc_rng_normal(&rng);
        d->weight[i] = i % 11 == 0 ? 0 : 0.5 + gpumc_rng_uniform(&rng);
    }
    for (size_t i = 0; i < 2 + PLAYERS; i++) d->x[i] = 0.5 + gpumc_rng_uniform(&rng);
    return d;
}

static object make_paired(const paired *d, int team)
{
    static const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE },
                                          { .name = "sigma", .kind = GPUMC_POSITIVE },
                                          { .name = "skill", .size = PLAYERS, .scale = "tau" } };
    static const gpumc_prior priors[] = { { "tau", gpumc_prior_flat, 0, 0, 0 },
                                          { "sigma", gpumc_prior_flat, 0, 0, 0 } };
    static const double *column;
    static gpumc_hier_take takes[3];
    static gpumc_hier_rows rows;
    static gpumc_hier_data data;
    column = d->column;
    takes[0] = (gpumc_hier_take){ "skill", d->one };
    takes[1] = (gpumc_hier_take){ "skill", d->two };
    takes[2] = (gpumc_hier_take){ "sigma", NULL };
    rows = (gpumc_hier_rows){ .name = "pairs", .takes = takes, .n_takes = 3, .log_lik = "log_lik",
                              .data = { .kind = &pair_row, .n_rows = PAIRS, .columns = &column,
                                        .weights = d->weight } };
    data = (gpumc_hier_data){ .params = params, .n_params = 3, .priors = priors, .n_priors = 2, .rows = &rows,
                              .n_rows = 1, .team = team };
    return make(&data);
}

/* Largest error of density, gradient and log likelihoods of rows against the plain loop. */
static double paired_error(paired *d, const object *o, double lp)
{
    gpumc_rng rng = gpumc_rng_at(13, 0, 0, 0);
    double known = paired_loop(d, d->known), worst;
    for (size_t k = 2; k < 2 + PLAYERS; k++)
        known += gpumc_normal_lpdf(d->x[k], 0, d->x[0], &d->known[k], NULL, &d->known[0]);
    worst = fabs(lp / known - 1);
    for (size_t k = 0; k < 2 + PLAYERS; k++) worst = check_worst(worst, fabs(d->grad[k] - d->known[k]) * 1e-3);
    o->model->generate(d->x, &rng, d->out, o->model->data);
    for (size_t i = 0; i < PAIRS; i++) {
        const double z = d->x[2 + d->one[i]] - d->x[2 + d->two[i]];
        const double row = gpumc_normal_lpdf(d->column[i], z, d->x[1], NULL, NULL, NULL);
        worst = check_worst(worst, fabs(d->out[i] - d->weight[i] * row));
    }
    return worst;
}

static void check_two_way(void)
{
    paired *d = describe_paired();
    double first = 0, first_grad[2 + PLAYERS] = { 0 };
    gpumc_error error = { GPUMC_OK, "" };
    object o;
    for (int team = 0; team < 4; team++) {
        o = make_paired(d, team);
        double lp = density(&o, d->x, d->grad);
        for (int repeat = 0; repeat < 50; repeat++) lp = density(&o, d->x, d->grad);
        if (team == 0) {
            const double off = paired_error(d, &o, lp);
            memcpy(first_grad, d->grad, sizeof first_grad);
            first = lp;
            CHECK(off < 1e-12, "two-way rows are off by %g", off);
        }
        CHECK(lp >= first && lp <= first && memcmp(first_grad, d->grad, sizeof first_grad) == 0,
              "a team of %d gets %.17g, one thread %.17g", team, lp, first);
        gpumc_hier_free(o.hier);
    }
    d->column[777] = 1e200;                                      /* its square overflows */
    o = make_paired(d, 0);
    CHECK(gpumc_hier_explain(o.hier, d->x, &error) == GPUMC_ERROR_NUMERIC, "a row of 1e200 passes");
    CHECK(strstr(error.text, "of row 777 (from 0)"), "%s", error.text);
    gpumc_hier_free(o.hier);
    free(d);
}

/* Wraps the model of a description and records the calls of share. */
typedef struct counted { const gpumc_model *of; int n_asked, granted, calls, threads; } counted;
static int count_share(int calls, int threads, void *data)
{
    counted *c = (counted *)data;
    c->n_asked++;
    if (threads == 1) return c->of->share(calls, threads, c->of->data);
    c->calls = calls;
    c->threads = threads;
    return c->granted = c->of->share(calls, threads, c->of->data);
}
static double count_density(const double *x, double *grad, void *data)
{
    const counted *c = (const counted *)data;
    return c->of->log_density(x, grad, c->of->data);
}

/* Threads that no chain needs share rows, if there are at least 10000 and the description does not set team; the
   draws stay the same. */
static void check_idle_threads(void)
{
    static const struct { int chains, threads, team; size_t n_rows; int calls, each, granted, used; } cases[] =
    {
        { 1, 1, 0, MANY_ROWS, 0, 0, 0, 1 }, { 1, 3, 0, MANY_ROWS, 1, 3, 1, 3 },
        { 1, 3, 1, MANY_ROWS, 1, 3, 0, 1 }, { 1, 3, 2, MANY_ROWS, 1, 3, 0, 1 },
        { 1, 3, 0, 9999, 1, 3, 0, 1 },      { 1, 3, 0, 10000, 1, 3, 1, 3 },
        { 2, 3, 0, MANY_ROWS, 0, 0, 0, 2 }, { 2, 5, 0, MANY_ROWS, 2, 2, 1, 4 },
        { 3, 3, 0, MANY_ROWS, 0, 0, 0, 3 },
    };
    double first[20 * (3 + LARGE)];
    large *d = describe_large();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const gpumc_sample_options options = { .num_chains = cases[k].chains, .threads = cases[k].threads,
                                               .num_warmup = 20, .num_samples = 20, .seed = 3 };
        counted c = { NULL, 0, 0, 0, 0 };
        gpumc_model model;
        gpumc_fit fit;
        object o;
        d->data.team = cases[k].team;
        d->rows.data.n_rows = cases[k].n_rows;
        o = make(&d->data);
        model = *(c.of = o.model);
        model.log_density = count_density;
        model.generate = NULL;
        model.share = count_share;
        model.data = &c;
        CHECK(gpumc_sample(&model, &options, &fit) == GPUMC_OK, "%s", fit.message);
        CHECK(c.calls == cases[k].calls && c.threads == cases[k].each && c.granted == cases[k].granted
                  && c.n_asked == (c.calls > 0) + c.granted && fit.threads == cases[k].used,
              "%d chains, %d threads, team %d: asked %d times for %d x %d, granted %d, used %d",
              cases[k].chains, cases[k].threads, cases[k].team, c.n_asked, c.calls, c.threads, c.granted,
              fit.threads);
        if (k == 0) memcpy(first, fit.draws, sizeof first);
        CHECK(k == 0 || k > 3 || memcmp(first, fit.draws, sizeof first) == 0, "case %d: other draws", (int)k);
        gpumc_free(&fit);
        gpumc_hier_free(o.hier);
    }
    free(d);
}

/* Of simultaneous runs one gets the teams; where memory is short none is granted, and nothing leaks or changes. */
static void check_share(void)
{
    large *d = describe_large();
    double x[3 + LARGE], grad[2][3 + LARGE], lp[2];
    for (size_t i = 0; i < 3 + LARGE; i++) x[i] = 0.5 + 0.1 * (double)i;
    for (size_t refused = 0; refused < 6; refused++) {
        ledger l = { .refuse_at = 0 };
        d->data.allocator = ledger_allocator(&l);
        const object o = make(&d->data);
        const size_t held = l.live;
        void *const data = o.model->data;
        lp[0] = density(&o, x, grad[0]);
        l.refuse_at = refused ? l.calls + refused : 0;
        CHECK(o.model->share(9, 2, data) == (refused < 1 || refused > 4), "request %d refused", (int)refused);
        CHECK(refused < 1 || refused > 4 || l.live == held, "%d blocks, not %d", (int)l.live, (int)held);
        CHECK(o.model->share(1, 2, data) == (refused >= 1 && refused <= 4), "granted twice");
        lp[1] = density(&o, x, grad[1]);
        CHECK(lp[0] >= lp[1] && lp[0] <= lp[1] && memcmp(grad[0], grad[1], sizeof grad[0]) == 0,
              "request %d refused: %.17g, alone %.17g", (int)refused, lp[1], lp[0]);
        if (refused % 2 == 0) {
            CHECK(o.model->share(9, 1, data) == 0 && l.live == held, "teams stay");
            CHECK(o.model->share(1, 2, data) == 1, "not granted again");
        }
        gpumc_hier_free(o.hier);
        CHECK(l.live == 0, "%d blocks are left", (int)l.live);
    }
    free(d);
}

/* Log density at start point k of every block; x receives the point, in natural values. */
static double start_density(const object *o, size_t k, double *x)
{
    double *grad = (double *)malloc(o->n * sizeof *grad), lp;
    for (size_t i = 0, at = 0; i < o->model->n_params; at += param_size(&o->model->params[i++])) {
        const gpumc_param *p = &o->model->params[i];
        const size_t size = param_size(p), turn = p->n_inits ? k % p->n_inits : 0;
        memcpy(x + at, p->init + turn * size, size * sizeof *x);
    }
    lp = density(o, x, grad);
    free(grad);
    return lp;
}

static double started[4];
static double remember(const double *x, double *grad, void *data)
{
    size_t *n = (size_t *)data;
    if (*n < 4) started[(*n)++] = x[0];
    grad[0] -= x[0];
    return -0.5 * x[0] * x[0];
}

/* With priors so vague that their medians are about 1e-301 and 1e301, chains start where the data are. */
static void check_vague_priors(void)
{
    enum { ROWS = 40 };
    static size_t of[ROWS];
    static double values[ROWS];
    const double *const column = values;
    const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 4, .location = "mu", .scale = "tau" } };
    const gpumc_hier_take takes[] = { { "theta", of }, { "sigma", NULL } };
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = 2,
                                   .data = { .kind = &normal_row, .n_rows = ROWS, .columns = &column } };
    gpumc_rng rng = gpumc_rng_at(12, 0, 0, 0);
    for (size_t i = 0; i < ROWS; i++) {
        of[i] = i % 4;
        values[i] = (double)of[i] + 0.8 * gpumc_rng_normal(&rng);
    }
    for (int k = 0; k < 2; k++) {
        const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 5, 0 },
            { "tau", gpumc_prior_half_normal, 5, 0, 0 },
            { "sigma", k ? gpumc_prior_inv_gamma : gpumc_prior_gamma, 0.001, 0.001, 0 } };
        const gpumc_hier_data data = { .params = params, .n_params = 4, .priors = priors, .n_priors = 3,
                                       .rows = &rows, .n_rows = 1 };
        object o = make(&data);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const gpumc_sample_options options = { .seed = seed };
            gpumc_fit fit;
            CHECK(gpumc_sample(o.model, &options, &fit) == GPUMC_OK, "%s", fit.message);
            CHECK(fit.n_warnings == 0, "prior %d, seed %d: %s", k, (int)seed, fit.warnings->text);
            CHECK(fabs(gpumc_summarise(&fit, 2).mean - 0.8) < 0.2, "sigma %g", gpumc_summarise(&fit, 2).mean);
            gpumc_free(&fit);
        }
        gpumc_hier_free(o.hier);
    }
}

/* Runs a description by twenty seeds; at most n_allowed runs may have a divergence or a warning. */
static void expect_quiet(const gpumc_hier_data *data, int n_allowed, const char *what)
{
    object o = make(data);
    int n_doubted = 0;
    for (uint64_t seed = 1; seed <= (getenv("QUICK") ? 1 : 20); seed++) {
        const gpumc_sample_options options = { .seed = seed };
        gpumc_fit fit;
        CHECK(gpumc_sample(o.model, &options, &fit) == GPUMC_OK, "%s", fit.message);
        n_doubted += fit.n_divergent > 0 || (fit.n_warnings > 0 && !fit.warnings->note);
        gpumc_free(&fit);
    }
    CHECK(n_doubted <= n_allowed, "%s: %d of 20 runs are doubted", what, n_doubted);
    gpumc_hier_free(o.hier);
}

/* As many data as elements, and a noise that may be next to none: elements are then known as exactly, and their
   coordinates must follow. In the second model other elements of the same spread have binary data. */
static void check_noise_near_zero(void)
{
    static const double few[] = { -5.79, -10.72 }, six[] = { 1.09, 3.55, 2.26, 2.47, 0.46, 0.44 };
    static const double binary[] = { 1, 0, 1, 1, 0, 0, 1, 0, 1 };
    static const size_t pair[] = { 0, 1 }, ones[] = { 0, 1, 2, 3, 5, 5 }, thirds[] = { 0, 1, 2, 0, 1, 2, 0, 1, 2 };
    const double *const of_few = few, *const of_six = six, *const of_binary = binary;
    const gpumc_param params[] = { { .name = "mu", .size = 2 }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 2, .location = "mu", .scale = "tau" },
        { .name = "sigma", .kind = GPUMC_POSITIVE } };
    const gpumc_param mixed[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 6, .location = "mu", .scale = "tau" },
        { .name = "nu" }, { .name = "phi", .size = 3, .location = "nu", .scale = "tau" },
        { .name = "sigma", .kind = GPUMC_POSITIVE } };
    const gpumc_prior priors[] = { { "mu", gpumc_prior_normal, -0.8, 1.2, 0 },
        { "tau", gpumc_prior_gamma, 2, 2, 0 }, { "sigma", gpumc_prior_half_normal, 0.5, 0, 0 },
        { "nu", gpumc_prior_normal, -0.5, 0.5, 0 } };
    const gpumc_hier_take two[] = { { "theta", pair }, { "sigma", NULL } };
    const gpumc_hier_take of_ones[] = { { "theta", ones }, { "sigma", NULL } }, of_thirds[] = { { "phi", thirds } };
    const gpumc_hier_rows rows[] = {
        { .name = "few", .takes = two, .n_takes = 2,
          .data = { .kind = &normal_row, .n_rows = 2, .columns = &of_few } },
        { .name = "six", .takes = of_ones, .n_takes = 2,
          .data = { .kind = &normal_row, .n_rows = 6, .columns = &of_six } },
        { .name = "binary", .takes = of_thirds, .n_takes = 1,
          .data = { .kind = &binary_row, .n_rows = 9, .columns = &of_binary } } };
    const gpumc_hier_data two_data = { .params = params, .n_params = 4, .priors = priors, .n_priors = 3,
                                       .rows = rows, .n_rows = 1 };
    const gpumc_hier_data mixed_data = { .params = mixed, .n_params = 6, .priors = priors, .n_priors = 4,
                                         .rows = rows + 1, .n_rows = 2 };
    expect_quiet(&two_data, 1, "two data");
    expect_quiet(&mixed_data, 5, "six data");
}

/* Six binary data, two walks that start at 0 with the scale of their steps: their first elements are not centred. */
static void check_walk_from_zero(void)
{
    static const double binary[] = { 1, 0, 1, 1, 0, 0 };
    static const size_t each[] = { 0, 1, 2, 3, 4, 5 }, dims[] = { 3, 2 };
    const double *const column = binary;
    const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = dims, .n_dims = 2, .scale = "tau", .walk_dim = 1 } };
    const gpumc_prior priors[] = { { "tau", gpumc_prior_half_normal, 0.3, 0, 0 } };
    const gpumc_hier_take takes[] = { { "level", each } };
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = 1,
                                   .data = { .kind = &binary_row, .n_rows = 6, .columns = &column } };
    const gpumc_hier_data data = { .params = params, .n_params = 2, .priors = priors, .n_priors = 1,
                                   .rows = &rows, .n_rows = 1 };
    expect_quiet(&data, 1, "walks from zero");
}

/* Starts are found from the rows, far from the prior: for wide populations and for narrow ones, whose scale would be
   0 at the highest density; given values stay; if no value explains the rows, starts are the prior medians. */
static void check_starts(void)
{
    enum { EACH = 10, ROWS = J * EACH, N_X = 3 + J };
    static size_t of[ROWS];
    static double values[ROWS], given[1] = { 12 }, two[2] = { 0.25, 0.75 }, x[2][N_X];
    const double *const column = values;
    gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = J, .location = "mu", .scale = "tau" } };
    gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 100, 0 },
        { "tau", gpumc_prior_half_cauchy, 50, 0, 0 }, { "sigma", gpumc_prior_half_normal, 10, 0, 0 } };
    const gpumc_hier_take takes[] = { { "theta", of }, { "sigma", NULL } };
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = 2,
                                   .data = { .kind = &normal_row, .n_rows = ROWS, .columns = &column } };
    const gpumc_hier_data data = { .params = params, .n_params = 4, .priors = priors, .n_priors = 3,
                                   .rows = &rows, .n_rows = 1 };
    for (int trial = 0; trial < 4; trial++) {
        const double tau = trial == 1 ? 0 : 10;              /* 0: all groups alike */
        gpumc_rng rng = gpumc_rng_at(8, 0, (uint32_t)trial, 0);
        double theta = 0;
        object o, again;
        for (size_t i = 0; i < ROWS; i++) {
            of[i] = i / EACH;
            if (i % EACH == 0) theta = 50 + tau * gpumc_rng_normal(&rng);
            values[i] = theta + 2 * gpumc_rng_normal(&rng);
        }
        params[1].init = trial == 2 ? given : NULL;
        if (trial == 3) priors[0].family = gpumc_prior_flat;
        o = make(&data);
        again = make(&data);
        for (size_t k = 0; k < 9; k++) {
            const double lp = start_density(&o, k, x[0]), same = start_density(&again, k, x[1]);
            CHECK(lp > -1000 - 4 * N_X && memcmp(x[0], x[1], sizeof x[0]) == 0, "trial %d, start %d: %g, %g",
                  trial, (int)k, lp, same);
            CHECK(fabs(x[0][0] - 50) < 15 && x[0][2] > 1.5 && x[0][2] < 2.7, "trial %d, start %d: mu %g, "
                  "sigma %g", trial, (int)k, x[0][0], x[0][2]);
            CHECK(trial == 2 ? fabs(x[0][1] - 12) < 1e-12 : trial == 1 ? x[0][1] > 0.01 && x[0][1] < 3
                  : x[0][1] > 5 && x[0][1] < 25, "trial %d, start %d: tau %g", trial, (int)k, x[0][1]);
            start_density(&o, k + 1, x[1]);
            CHECK(fabs(x[0][3] - x[1][3]) > 0, "trial %d, start %d: as the next one", trial, (int)k);
        }
        gpumc_hier_free(o.hier);
        gpumc_hier_free(again.hier);
    }
    priors[0].family = gpumc_prior_normal;
    params[1].init = NULL;
    values[5] = 1e200;                                       /* whose square overflows */
    const object o = make(&data);
    CHECK(o.model->params[0].n_inits == 0 && fabs(*o.model->params[0].init) < 1e-9, "start %g",
          *o.model->params[0].init);
    gpumc_hier_free(o.hier);

    for (int order = 0; order < 2; order++) {                /* a flat prior stops no other block's start */
        gpumc_param pair[2];
        pair[order] = (gpumc_param){ .name = "mu" };
        pair[!order] = (gpumc_param){ .name = "sigma", .kind = GPUMC_POSITIVE };
        const gpumc_prior apart[] = { { "mu", gpumc_prior_flat, 0, 0, 0 },
                                      { "sigma", gpumc_prior_lognormal, 5, 0.1, 0 } };
        const gpumc_hier_data flat = { .params = pair, .n_params = 2, .priors = apart, .n_priors = 2 };
        const object f = make(&flat);
        const double *init = f.model->params[!order].init;
        CHECK(init && fabs(*init - exp(5)) < 1e-9 * exp(5) && !f.model->params[order].init, "order %d: %g", order,
              init ? *init : NAN);
        gpumc_hier_free(f.hier);
    }

    size_t n = 0;                                            /* chains take them in turn */
    const gpumc_param param = { .name = "x", .init = two, .n_inits = 2 };
    const gpumc_model model = { .name = "two", .params = &param, .n_params = 1, .log_density = remember,
                                .data = &n };
    const gpumc_sample_options options = { .num_chains = 4, .num_samples = 10, .threads = 1,
                                           .first_chain_id = 1, .skip_gradient_check = 1 };
    gpumc_fit fit;
    CHECK(gpumc_sample(&model, &options, &fit) == GPUMC_OK, "%s", fit.message);
    for (int c = 0; c < 4; c++)
        CHECK(fabs(started[c] - two[(c + 1) % 2]) < 1e-12, "chain %d starts at %g", c, started[c]);
    gpumc_free(&fit);
}

int main(void)
{
    make_data();
    check_starts();
    check_vague_priors();
    check_noise_near_zero();
    check_walk_from_zero();
    check_forgotten();
    check_modes();
    check_team();
    check_two_way();
    check_idle_threads();
    check_share();
    check_by_hand();
    check_links_by_hand();
    check_priors();
    check_everything();
    check_prior_draws();
    check_correlated();
    check_series();
    check_huge_values();
    check_start_of_each();
    check_start_in_support();
    check_calibration();
    check_predictive();
    check_guide();
    check_bad_input();
    check_bad_factors();
    check_threads_and_explain();
    check_out_of_memory();
    return check_end();
}
