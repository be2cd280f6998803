/* How often a run with default options is wrong without a warning, and how often it warns: small models of ordinary
   users; curves through few points, whose long tails trajectories of fixed length once missed; and errors in both
   variables.

   The means of every posterior are known by quadrature, independently of the samplers: sums over grids in free
   coordinates, where those coordinates in which the log density is quadratic are integrated out exactly. Two grids
   must agree within 1e-5 of a standard deviation; the standard errors of a run are some 1e-2 of one.

   A run has missed if it has no warning (notes do not count) and a mean differs from the known one by more than LIMIT
   of the run's own standard errors. The rates of misses and of warnings were measured over 1,000 other seeds, 4,000
   for decay. At these rates, the numbers of runs that miss or warn exceed their limits once in 10^6 tests. Where no
   run warned, the rate is taken as 0.1 %; where none missed, as 0.01 %, that of normal errors of a few values,
   so that 2 of 100 may miss: if the true rate were 0.3 %, which 1,000 seeds hardly exclude, the test would fail once
   in 280 times. Standard deviations are not judged: where tails are long, their standard errors are too small in
   runs that saw little of the tails.

   Must be rejected: HMC with short trajectories on decay, since more of its runs never see the tail, and these look
   best; errors by NUTS, which has no moves along necks; decay, if only the warnings of a straight line are allowed; a
   mean that is off by a tenth of a standard deviation. With an argument, as many other seeds are run and counted
   only. */
#include "check.h"
#include "../gpumc.h"
#include "schools.h"

enum { MOST_AXES = 3, MOST_VALUES = 32, MOST_NODES = 128, WORK = 512, ROWS = 20 };
static const double LIMIT = 4.5;

typedef struct users_model {
    gpumc_model model;
    int n_runs;
    double missed, alarms;                  /* rates */
    size_t n_axes, axes[MOST_AXES];         /* free coordinates of the grid; log p is quadratic in the others */
} users_model;

/* ---- the models ------------------------------------------------------------------------------------ */

/* Mean and standard deviation of five numbers. */
static double normal(const double *x, double *g, void *data)
{
    static const double y[] = { 1.1, -0.4, 2.3, 0.9, 1.6 };
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 5, &g[1], NULL);
    (void)data;
    for (int i = 0; i < 5; i++) lp += gpumc_normal_lpdf(y[i], x[0], x[1], NULL, &g[0], &g[1]);
    return lp;
}
static const gpumc_param normal_params[] = { { .name = "mu" }, { .name = "sigma", .kind = GPUMC_POSITIVE } };

/* A straight line, and one through 0 with Student-t errors of unknown degrees of freedom. */
static const double line_x[ROWS] = { -0.90, 0.88, 0.09, 0.25, -0.15, -0.45, -0.49, 0.85, 0.80, -0.27,
                                     0.61, 0.49, 0.44, 0.40, 0.98, -0.61, -0.36, 1.32, -1.60, 0.86 };
static const double line_y[ROWS] = { -1.59, 3.23, 1.74, 2.25, -2.75, -1.59, 0.61, 0.68, 3.81, -2.82,
                                     2.67, 3.38, 1.60, 3.00, 2.11, 0.06, 5.00, 2.74, -3.16, 3.16 };
static double line(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL)
              + gpumc_normal_lpdf(x[1], 0, 10, &g[1], NULL, NULL) + gpumc_half_normal_lpdf(x[2], 5, &g[2], NULL);
    (void)data;
    for (int i = 0; i < ROWS; i++) {
        double by_mean = 0;
        lp += gpumc_normal_lpdf(line_y[i], x[0] + x[1] * line_x[i], x[2], NULL, &by_mean, &g[2]);
        g[0] += by_mean;
        g[1] += by_mean * line_x[i];
    }
    return lp;
}
static double robust(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 5, &g[1], NULL)
              + gpumc_gamma_lpdf(x[2], 2, 0.1, &g[2], NULL, NULL);
    (void)data;
    for (int i = 0; i < ROWS; i++) {
        double by_mean = 0;
        lp += gpumc_student_t_lpdf(line_y[i], x[2], x[0] * line_x[i], x[1], NULL, &g[2], &by_mean, &g[1]);
        g[0] += by_mean * line_x[i];
    }
    return lp;
}
static const gpumc_param line_params[] = { { .name = "a" }, { .name = "b" },
                                           { .name = "sigma", .kind = GPUMC_POSITIVE } };
static const gpumc_param robust_params[] = { { .name = "b" },
                                             { .name = "sigma", .kind = GPUMC_POSITIVE },
                                             { .name = "nu", .kind = GPUMC_POSITIVE } };

/* Three regressions: on counts; on whether a count exceeds one; on the grades none, one or two, and more. */
static const double count_x[ROWS] = { 0.98, -1.73, 1.77, 0.93, -0.24, 0.81, -0.08, 1.47, -0.91, -1.53,
                                      0.04, 0.92, 0.71, -2.30, 2.06, 0.29, -0.73, 0.38, 1.84, 1.16 };
static const double count_y[ROWS] = { 2, 0, 4, 3, 0, 3, 1, 5, 0, 0, 2, 5, 1, 0, 8, 2, 2, 2, 3, 2 };
static double regression(const double *x, double *g, double prior,
                         double (*row)(double y, double eta, double *by_eta))
{
    double lp = 0;
    for (int k = 0; k < 2; k++) lp += gpumc_normal_lpdf(x[k], 0, prior, &g[k], NULL, NULL);
    for (int i = 0; i < ROWS; i++) {
        double by_eta = 0;
        lp += row(count_y[i], x[0] + x[1] * count_x[i], &by_eta);
        g[0] += by_eta;
        g[1] += by_eta * count_x[i];
    }
    return lp;
}
static double more_than_one(double y, double eta, double *by_eta)
{ return gpumc_bernoulli_logit_lpmf(y > 1, eta, by_eta); }
static double count(double y, double eta, double *by_eta) { return gpumc_poisson_log_lpmf(y, eta, by_eta); }
static double counts(const double *x, double *g, void *data) { (void)data; return regression(x, g, 5, count); }
static double logistic(const double *x, double *g, void *data)
{ (void)data; return regression(x, g, 2.5, more_than_one); }
static double grades(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 2.5, &g[0], NULL, NULL);
    (void)data;
    for (int k = 1; k < 3; k++) lp += gpumc_normal_lpdf(x[k], 0, 5, &g[k], NULL, NULL);
    for (int i = 0; i < ROWS; i++) {
        double by_eta = 0;
        lp += gpumc_ordered_logistic_lpmf((count_y[i] > 0) + (count_y[i] > 2), x[0] * count_x[i], &x[1], 3, &by_eta,
                                          &g[1]);
        g[0] += by_eta * count_x[i];
    }
    return lp;
}
static const gpumc_param counts_params[] = { { .name = "a" }, { .name = "b" } };
static const gpumc_param logistic_params[] = { { .name = "a" }, { .name = "b" } };
static const gpumc_param grades_params[] = { { .name = "b" }, { .name = "c", .kind = GPUMC_ORDERED, .size = 2 } };

/* A mean with an upper bound close to its estimate, and the mirror image with a lower bound. */
static double mean_of(double side, const double *x, double *g)
{
    static const double y[] = { 1.44, -0.56, -0.75, 0.31, 1.16, 0.72, 0.56, 0.16, -1.53, 1.13 };
    double lp = 0;
    for (int i = 0; i < 10; i++) lp += gpumc_normal_lpdf(side * y[i], x[0], 1, NULL, &g[0], NULL);
    return lp;
}
static double below(const double *x, double *g, void *data) { (void)data; return mean_of(1, x, g); }
static double above(const double *x, double *g, void *data) { (void)data; return mean_of(-1, x, g); }
static const gpumc_param below_params[] = { { .name = "theta", .kind = GPUMC_UPPER, .upper = 1 } };
static const gpumc_param above_params[] = { { .name = "theta", .kind = GPUMC_LOWER, .lower = -1 } };

/* A probability, of 0 successes in 10 trials. */
static double none(const double *x, double *g, void *data)
{
    (void)data;
    return gpumc_binomial_lpmf(0, 10, x[0], &g[0]);
}
static const gpumc_param none_params[] = { { .name = "p", .kind = GPUMC_UNIT } };

/* Three shares, one of which has no cases. */
static double shares(const double *x, double *g, void *data)
{
    static const double cases[] = { 12, 5, 0 };
    double lp = 0;
    (void)data;
    for (int k = 0; k < 2; k++) {
        lp += cases[k] * log(x[k]);
        g[k] += cases[k] / x[k];
    }
    return lp;
}
static const gpumc_param shares_params[] = { { .name = "p", .kind = GPUMC_SIMPLEX, .size = 3 } };

/* An exponential decay through six points: the posterior has a long tail of slow decays. */
static double decay(const double *x, double *g, void *data)
{
    static const double t[] = { 0, 0.5, 1, 1.5, 2, 2.5 }, y[] = { 6.13, 4.54, 3.41, 2.26, 2.44, 2.48 };
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 2, &g[1], NULL)
              + gpumc_normal_lpdf(x[2], 0, 10, &g[2], NULL, NULL) + gpumc_half_normal_lpdf(x[3], 2, &g[3], NULL);
    (void)data;
    for (int i = 0; i < 6; i++) {
        const double e = exp(-x[1] * t[i]);
        double by_mean = 0;
        lp += gpumc_normal_lpdf(y[i], x[0] * e + x[2], x[3], NULL, &by_mean, &g[3]);
        g[0] += by_mean * e;
        g[1] -= by_mean * x[0] * t[i] * e;
        g[2] += by_mean;
    }
    return lp;
}
static const gpumc_param decay_params[] = { { .name = "a" }, { .name = "b", .kind = GPUMC_POSITIVE },
                                            { .name = "c" }, { .name = "sigma", .kind = GPUMC_POSITIVE } };

/* A four-parameter logistic curve of responses to log doses, two each. */
static double dose(const double *x, double *g, void *data)
{
    static const double y[] = { 7.1, 8.3, -2.0, 8.4, 18.8, 20.3, 16.2, 25.6,
                                41.0, 39.7, 58.7, 65.9, 80.8, 83.1, 80.8, 86.4 };
    double lp = gpumc_normal_lpdf(x[0], 0, 50, &g[0], NULL, NULL)
              + gpumc_normal_lpdf(x[1], 100, 50, &g[1], NULL, NULL)
              + gpumc_normal_lpdf(x[2], 0, 3, &g[2], NULL, NULL) + gpumc_half_normal_lpdf(x[3], 3, &g[3], NULL)
              + gpumc_half_normal_lpdf(x[4], 20, &g[4], NULL);
    (void)data;
    for (int i = 0; i < 16; i++) {
        const double beyond = -3 + 0.8 * (i / 2) - x[2], h = gpumc_inv_logit(x[3] * beyond);
        double by_mean = 0, by_h;
        lp += gpumc_normal_lpdf(y[i], x[0] + (x[1] - x[0]) * h, x[4], NULL, &by_mean, &g[4]);
        by_h = by_mean * (x[1] - x[0]) * h * (1 - h);
        g[0] += by_mean * (1 - h);
        g[1] += by_mean * h;
        g[2] -= by_h * x[3];
        g[3] += by_h * beyond;
    }
    return lp;
}
static const gpumc_param dose_params[] = { { .name = "bottom" }, { .name = "top" }, { .name = "ec50" },
                                           { .name = "hill", .kind = GPUMC_POSITIVE },
                                           { .name = "sigma", .kind = GPUMC_POSITIVE } };

/* A straight line in true values t, which are observed with errors of 0.7. */
struct errors { double a, b, sigma, mean, sd, t[ROWS]; };
static double errors(const double *x, double *grad, void *data)
{
    static const double u[ROWS] = { -0.52, -0.23, -1.62, 2.01, 1.54, 1.47, -2.18, 3.40, -4.26, 0.88,
                                    -0.15, -0.98, 0.62, -0.16, -0.38, -0.85, -2.58, 2.22, 1.74, 3.30 };
    static const double y[ROWS] = { 0.45, 0.27, -0.48, 2.38, 2.68, 3.59, -0.62, 3.78, -1.98, 2.09,
                                    0.25, 1.06, 2.88, 0.38, 0.92, 0.46, -1.66, 2.55, 2.18, 3.04 };
    const struct errors *p = (const struct errors *)x;
    struct errors *g = (struct errors *)grad;
    double lp = gpumc_normal_lpdf(p->a, 0, 5, &g->a, NULL, NULL) + gpumc_normal_lpdf(p->b, 0, 5, &g->b, NULL, NULL)
              + gpumc_half_normal_lpdf(p->sigma, 2, &g->sigma, NULL)
              + gpumc_normal_lpdf(p->mean, 0, 5, &g->mean, NULL, NULL)
              + gpumc_half_normal_lpdf(p->sd, 5, &g->sd, NULL);
    (void)data;
    for (int i = 0; i < ROWS; i++) {
        double by_y = 0;
        lp += gpumc_normal_lpdf(p->t[i], p->mean, p->sd, &g->t[i], &g->mean, &g->sd)
            + gpumc_normal_lpdf(u[i], p->t[i], 0.7, NULL, &g->t[i], NULL)
            + gpumc_normal_lpdf(y[i], p->a + p->b * p->t[i], p->sigma, NULL, &by_y, &g->sigma);
        g->a += by_y;
        g->b += by_y * p->t[i];
        g->t[i] += by_y * p->b;
    }
    return lp;
}
static const gpumc_param errors_params[] = {
    { .name = "a" }, { .name = "b" }, { .name = "sigma", .kind = GPUMC_POSITIVE }, { .name = "mean" },
    { .name = "sd", .kind = GPUMC_POSITIVE }, { .name = "t", .size = ROWS, .location = "mean", .scale = "sd" } };

/* For instance, of runs with line 0.01 % may miss and 0.1 % may warn; its grid is over free coordinate 2 alone. */
#define USERS_MODEL(NAME, runs, missed_per_cent, alarms_per_cent, n, ...) \
    { .model = { .name = #NAME, .params = NAME##_params, \
                 .n_params = sizeof NAME##_params / sizeof *NAME##_params, .log_density = NAME }, .n_runs = runs, \
      .missed = 0.01 * missed_per_cent, .alarms = 0.01 * alarms_per_cent, .n_axes = n, .axes = __VA_ARGS__ }
static const users_model models[] = {
    USERS_MODEL(normal, 100, 0.01, 1.7, 1, { 1 }),              /* R-hat, chains late */
    USERS_MODEL(line, 100, 0.01, 0.1, 1, { 2 }), USERS_MODEL(robust, 100, 0.01, 0.1, 3, { 0, 1, 2 }),
    USERS_MODEL(counts, 100, 0.01, 0.1, 2, { 0, 1 }), USERS_MODEL(logistic, 100, 0.01, 0.1, 2, { 0, 1 }),
    USERS_MODEL(grades, 100, 0.01, 3.6, 3, { 0, 1, 2 }),        /* one divergence */
    USERS_MODEL(below, 100, 0.01, 0.3, 1, { 0 }), USERS_MODEL(above, 100, 0.01, 0.3, 1, { 0 }),
    USERS_MODEL(none, 100, 0.01, 0.7, 1, { 0 }), USERS_MODEL(shares, 100, 0.01, 0.1, 2, { 0, 1 }),
    { .model = { .name = "schools", .params = schools_params, .n_params = 3, .log_density = schools_density,
                 .generate = schools_generate, .outputs = &schools_output, .n_outputs = 1 },
      .n_runs = 100, .missed = 0.0001, .alarms = 0.001, .n_axes = 1, .axes = { 1 } },
    USERS_MODEL(decay, 1000, 1.4, 89, 2, { 1, 3 }), USERS_MODEL(dose, 100, 1.4, 47, 3, { 2, 3, 4 }),
    USERS_MODEL(errors, 100, 0.01, 0.1, 3, { 1, 2, 4 }),
};

/* ---- the known means: quadrature ------------------------------------------------------------------- */

/* Nodes of a coordinate: centre + scale sinh u, for equal steps of u. */
typedef struct axis { double centre, scale, from, step; size_t n; } axis;

typedef struct truth { size_t n; double mean[MOST_VALUES], sd[MOST_VALUES]; } truth;

/* Sums over a grid in units of e^top, of values and of the grid's own coordinates. */
typedef struct sums {
    double top, highest, weight, mean[MOST_VALUES], square[MOST_VALUES], at[MOST_AXES], at_square[MOST_AXES];
    double slope;                           /* remaining gradients, which should be 0 */
    double height[MOST_AXES][MOST_NODES];   /* the largest log weight with this node */
} sums;

/* Inverts a positive definite matrix in place; returns the log of its determinant, or NaN if it is not one. */
static double invert(double *a, size_t n)
{
    double log_det = 0;
    for (size_t k = 0; k < n; k++) {
        const double pivot = a[k * n + k];
        log_det += pivot > 0 ? log(pivot) : NAN;
        a[k * n + k] = 1;
        for (size_t j = 0; j < n; j++) a[k * n + j] /= pivot;
        for (size_t i = 0; i < n; i++) {
            const double f = a[i * n + k];
            if (i == k) continue;
            a[i * n + k] = 0;
            for (size_t j = 0; j < n; j++) a[i * n + j] -= f * a[k * n + j];
        }
    }
    return log_det;
}

/* Returns the log of the integral over the coordinates that are NaN in q, in which the log density is quadratic, and
   sets these to their conditional means. The natural values are then normal, with the means and variances stored.
   Differences of gradients and of values between 0 and 1 give the precision matrix and the slopes exactly. */
static double settle(const gpumc_layout *l, double *q, double *values, double *variance, double *slope)
{
    const size_t dim = gpumc_layout_dim(l), natural = gpumc_layout_natural(l);
    double start[MOST_VALUES], g[MOST_VALUES], a[MOST_VALUES * MOST_VALUES], by[MOST_VALUES][MOST_VALUES];
    double work[WORK], lp;
    size_t out[MOST_VALUES], n = 0;
    for (size_t i = 0; i < dim; i++)
        if (isnan(q[i])) { out[n++] = i; q[i] = 0; }
    gpumc_model_eval(l, q, start, work);
    memcpy(values, work, natural * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        q[out[i]] = 1;
        gpumc_model_eval(l, q, g, work);
        q[out[i]] = 0;
        for (size_t j = 0; j < n; j++) a[i * n + j] = start[out[j]] - g[out[j]];
        for (size_t j = 0; j < natural; j++) by[i][j] = work[j] - values[j];
    }
    lp = -0.5 * invert(a, n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) q[out[i]] += a[i * n + j] * start[out[j]];
    lp += gpumc_model_eval(l, q, g, work);
    memcpy(values, work, natural * sizeof *values);
    memset(variance, 0, natural * sizeof *variance);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < natural; k++) variance[k] += by[i][k] * a[i * n + j] * by[j][k];
        *slope = check_worst(*slope, fabs(g[out[i]]) / (1 + fabs(start[out[i]])));
    }
    return lp;
}

/* Adds a node of the grid to the sums, unless its mass is negligible, where lp may be NaN. */
static void add_node(const gpumc_layout *l, const users_model *m, const axis *grid, const size_t *node, sums *s)
{
    double q[MOST_VALUES], values[MOST_VALUES], variance[MOST_VALUES], slope = 0, lp = 0, w;
    for (size_t i = 0; i < MOST_VALUES; i++) q[i] = NAN;
    for (size_t k = 0; k < m->n_axes; k++) {
        const double u = grid[k].from + grid[k].step * (double)node[k];
        q[m->axes[k]] = grid[k].centre + grid[k].scale * sinh(u);
        lp += log(grid[k].scale * cosh(u) * grid[k].step);
    }
    lp += settle(l, q, values, variance, &slope);
    if (!(lp > s->top - 45)) return;
    w = exp(lp - s->top);
    s->highest = fmax(s->highest, lp);
    s->weight += w;
    s->slope += w * slope;
    for (size_t j = 0; j < gpumc_layout_natural(l); j++) {
        s->mean[j] += w * values[j];
        s->square[j] += w * (values[j] * values[j] + variance[j]);
    }
    for (size_t k = 0; k < m->n_axes; k++) {
        const double x = q[m->axes[k]];
        s->at[k] += w * x;
        s->at_square[k] += w * x * x;
        s->height[k][node[k]] = fmax(s->height[k][node[k]], lp);
    }
}

static void add_grid(const gpumc_layout *l, const users_model *m, const axis *grid, double top, sums *s)
{
    size_t node[MOST_AXES + 1] = { 0 }, k;
    memset(s, 0, sizeof *s);
    s->top = top;
    s->highest = -INFINITY;
    for (k = 0; k < MOST_AXES * MOST_NODES; k++) s->height[k / MOST_NODES][k % MOST_NODES] = -INFINITY;
    do {
        add_node(l, m, grid, node, s);
        for (k = 0; k < m->n_axes && ++node[k] == grid[k].n; k++) node[k] = 0;
    } while (k < m->n_axes);
}

/* Adapts the grid to the mass, from a wide one, whose first pass only finds the highest weight. The grid ends where
   weights are below e^-24 of the highest. Returns the log of the highest weight. */
static double lay_grid(const gpumc_layout *l, const users_model *m, axis *grid)
{
    static sums s;
    double top = -1e9;
    for (size_t k = 0; k < m->n_axes; k++)
        grid[k] = (axis){ .scale = 1, .from = -4.2, .step = 0.6, .n = 15 };
    for (int round = 0; round < 8; round++) {
        add_grid(l, m, grid, top, &s);
        top = s.highest;
        for (size_t k = 0; k < m->n_axes && round > 0; k++) {
            const double centre = s.at[k] / s.weight, square = s.at_square[k] / s.weight;
            grid[k].centre = centre;
            grid[k].scale = fmax(sqrt(fmax(0, square - centre * centre)), 0.3 * grid[k].scale);
        }
    }
    add_grid(l, m, grid, top, &s);
    for (size_t k = 0; k < m->n_axes; k++) {
        size_t first = 0, last = grid[k].n - 1;
        while (s.height[k][first] < s.highest - 24) first++;
        while (s.height[k][last] < s.highest - 24) last--;
        grid[k].from += grid[k].step * ((double)first - 1);
        grid[k].n = last - first + 3;
    }
    return s.highest;
}

static truth integrate(const gpumc_layout *l, const users_model *m, const axis *laid, double step, double top)
{
    static sums s;
    truth t = { .n = gpumc_layout_natural(l) };
    axis grid[MOST_AXES];
    for (size_t k = 0; k < m->n_axes; k++) {
        grid[k] = laid[k];
        grid[k].step = step;
        grid[k].n = (size_t)ceil(laid[k].step * (double)(laid[k].n - 1) / step) + 1;
    }
    add_grid(l, m, grid, top, &s);
    for (size_t j = 0; j < t.n; j++) {
        t.mean[j] = s.mean[j] / s.weight;
        t.sd[j] = sqrt(s.square[j] / s.weight - t.mean[j] * t.mean[j]);
    }
    CHECK(s.slope / s.weight < 1e-6, "%s: not quadratic, a gradient of %g is left", m->model.name,
          s.slope / s.weight);
    return t;
}

/* The means by quadrature. Hierarchical elements are non-centred, so that small scales do no harm. */
static truth find_truth(const users_model *m)
{
    static double memory[1 << 14];
    gpumc_param params[8];
    gpumc_model free_model = m->model;
    const gpumc_layout *l;
    axis grid[MOST_AXES];
    truth coarse, fine;
    double top, apart = 0;
    for (size_t i = 0; i < m->model.n_params; i++) {
        params[i] = m->model.params[i];
        if (params[i].location) params[i].centring = GPUMC_NONCENTRED;
    }
    free_model.params = params;
    l = gpumc_layout_init(&free_model, memory, sizeof memory, NULL);
    CHECK(gpumc_layout_natural(l) <= MOST_VALUES && gpumc_layout_work(l) <= WORK, "%s is too large",
          m->model.name);
    top = lay_grid(l, m, grid);
    coarse = integrate(l, m, grid, 0.15, top);
    fine = integrate(l, m, grid, 0.12, top);
    for (size_t j = 0; j < fine.n; j++)
        apart = check_worst(apart, fabs(fine.mean[j] - coarse.mean[j]) / fine.sd[j]);
    CHECK(apart < 1e-5, "%s: grids are %g apart", m->model.name, apart);
    return fine;
}

/* ---- judging --------------------------------------------------------------------------------------- */

/* Numbers of runs; off: with an error beyond LIMIT; missed: those of them without a warning. */
typedef struct tally { int n, failed, off, missed, alarms; double worst; } tally;

static double largest_error(const gpumc_fit *fit, const truth *known)
{
    double worst = 0;
    for (size_t j = 0; j < known->n; j++) {
        const gpumc_summary r = gpumc_summarise(fit, j);
        worst = check_worst(worst, fabs(r.mean - known->mean[j]) / r.mcse);
    }
    return worst;
}

static void run(const users_model *m, const truth *known, gpumc_sampler sampler, int seed, tally *t)
{
    const gpumc_sample_options o = { .seed = (uint64_t)seed, .sampler = sampler, .threads = 1,
                                     .path_length = sampler == GPUMC_SAMPLER_HMC ? 1.45 : 0 };
    gpumc_fit fit;
    if (gpumc_sample(&m->model, &o, &fit) != GPUMC_OK) {
        printf("%s, seed %d: %s\n", m->model.name, seed, fit.message);
        t->failed++;
    } else {
        const double error = largest_error(&fit, known);
        size_t w = 0;
        while (w < fit.n_warnings && fit.warnings[w].note) w++;
        if (w < fit.n_warnings) t->alarms++;
        else t->worst = check_worst(t->worst, error);
        t->off += !(error <= LIMIT);
        t->missed += w == fit.n_warnings && !(error <= LIMIT);
    }
    gpumc_free(&fit);
}

static tally runs(const users_model *m, const truth *known, gpumc_sampler sampler, int first, int n)
{
    tally t = { n, 0, 0, 0, 0, 0 };
    for (int seed = first; seed < first + n; seed++) run(m, known, sampler, seed, &t);
    printf("%-8s %s  of %4d missed %2d, warned of %3d, off %2d; largest error without a warning %.1f\n",
           m->model.name, sampler == GPUMC_SAMPLER_HMC ? "HMC" : "   ", n, t.missed, t.alarms, t.off, t.worst);
    return t;
}

static int most(tally t, double rate) { return (int)gpumc_binomial_quantile(1 - 1e-6, t.n, rate); }

static int accepted(tally t, double missed, double alarms)
{ return t.failed == 0 && t.missed <= most(t, missed) && t.alarms <= most(t, alarms); }

/* The broken variants, which must be rejected. */
static void check_broken(const users_model *m, const truth *known, tally t)
{
    if (m->model.log_density == line) {
        truth wrong = *known;
        wrong.mean[1] += 0.1 * wrong.sd[1];
        t = runs(m, &wrong, GPUMC_SAMPLER_AUTO, 1, m->n_runs);
        CHECK(!accepted(t, m->missed, m->alarms), "a tenth of a deviation passes, missed %d", t.missed);
    } else if (m->model.log_density == errors) {
        t = runs(m, known, GPUMC_SAMPLER_NUTS, 1, m->n_runs);
        CHECK(!accepted(t, m->missed, m->alarms), "errors without moves pass, %d were warned of", t.alarms);
    } else if (m->model.log_density == decay) {
        CHECK(!accepted(t, m->missed, models[1].alarms), "%d alarms are those of a straight line", t.alarms);
        t = runs(m, known, GPUMC_SAMPLER_HMC, 1, m->n_runs);
        CHECK(!accepted(t, m->missed, m->alarms), "short paths pass, missed %d", t.missed);
    }
}

static void check_model(const users_model *m)
{
    const truth known = find_truth(m);
    const tally t = runs(m, &known, GPUMC_SAMPLER_AUTO, 1, m->n_runs);
    CHECK(accepted(t, m->missed, m->alarms), "%s: %d failed, %d missed and %d were warned of; %d and %d are allowed",
          m->model.name, t.failed, t.missed, t.alarms, most(t, m->missed), most(t, m->alarms));
    if (m->model.log_density == none)
        CHECK(fabs(known.mean[0] - 1.0 / 12) < 1e-7 && fabs(known.sd[0] - sqrt(11.0 / 13) / 12) < 1e-7,
              "quadrature %.9g (%.9g)", known.mean[0], known.sd[0]);
    check_broken(m, &known, t);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (argc > 1) {
            const truth known = find_truth(&models[i]);
            runs(&models[i], &known, GPUMC_SAMPLER_AUTO, 1001, atoi(argv[1]));
        } else check_model(&models[i]);
    return check_end();
}
