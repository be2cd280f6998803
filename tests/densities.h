/* Shared by the tests of the samplers' state machine and of runs: log densities of known shape, which set g to their
   gradient, and memory for a metric. To be included after gpumc.h. */
#ifndef DENSITIES_H
#define DENSITIES_H

enum { DENSITY_DIM = 64 };            /* the most that metric_memory holds */

typedef double (*log_density)(const double *q, double *g, size_t dim);

/* Standard deviations 1, 1.5, 2, ... */
static inline double normal(const double *q, double *g, size_t dim)
{
    double lp = 0;
    for (size_t i = 0; i < dim; i++) {
        const double s = 1 + 0.5 * (double)i;
        g[i] = -q[i] / (s * s);
        lp += 0.5 * q[i] * g[i];
    }
    return lp;
}

/* Pairs x ~ N(0, 1), y ~ N(x^2 - 1, 0.5). */
static inline double banana(const double *q, double *g, size_t dim)
{
    double lp = 0;
    for (size_t i = 0; i + 1 < dim; i += 2) {
        const double r = (q[i + 1] - q[i] * q[i] + 1) / 0.25;
        g[i] = -q[i] + 2 * q[i] * r;
        g[i + 1] = -r;
        lp -= 0.5 * q[i] * q[i] + 0.125 * r * r;
    }
    return lp;
}

/* A narrow normal of standard deviation 0.1, about 3 in the first coordinate and 0 in the others, and a unit normal
   about 0 that has e^-30 of its mass. */
static inline double spot(const double *q, double *g, size_t dim)
{
    const double sd = 0.1;
    double broad = -30, narrow = -(double)dim * log(sd);
    for (size_t i = 0; i < dim; i++) {
        const double off = q[i] - (i ? 0 : 3);
        broad -= 0.5 * q[i] * q[i];
        narrow -= 0.5 * off * off / (sd * sd);
    }
    const double in = gpumc_inv_logit(narrow - broad);
    for (size_t i = 0; i < dim; i++) g[i] = -(1 - in) * q[i] - in * (q[i] - (i ? 0 : 3)) / (sd * sd);
    return gpumc_log_sum_exp(broad, narrow);
}

/* In the first coordinate N(-2.5, 1) with a separate mode at 2.5 that has a tenth of the mass, so that the mean is
   -2; the others N(0, 1). */
static inline double lumpy(const double *q, double *g, size_t dim)
{
    const double at = -2.5, bulk = log(0.9) - 0.5 * (q[0] - at) * (q[0] - at);
    const double lump = log(0.1) - 0.5 * (q[0] + at) * (q[0] + at);
    double lp = gpumc_log_sum_exp(bulk, lump);
    g[0] = exp(bulk - lp) * (at - q[0]) + exp(lump - lp) * (-at - q[0]);
    for (size_t i = 1; i < dim; i++) {
        g[i] = -q[i];
        lp += 0.5 * q[i] * g[i];
    }
    return lp;
}

/* Student-t, 4 degrees of freedom. */
static inline double flat_tails(const double *q, double *g, size_t dim)
{
    double lp = 0;
    for (size_t i = 0; i < dim; i++) {
        g[i] = -5 * q[i] / (4 + q[i] * q[i]);
        lp -= 2.5 * log(1 + 0.25 * q[i] * q[i]);
    }
    return lp;
}

/* A normal with density zero below -1 and NaN above 1.5 in the first coordinate. */
static inline double wall(const double *q, double *g, size_t dim)
{
    const double lp = normal(q, g, dim);
    return q[0] > 1.5 ? GPUMC_NAN : q[0] < -1 ? -GPUMC_INF : lp;
}

/* Evaluates the density where the state machine asks for it, until a draw is complete. */
static inline void machine_draw(gpumc_nuts *s, log_density density, size_t dim)
{
    double g[DENSITY_DIM];
    int complete = 0;
    while (!complete) {
        const double *q = gpumc_nuts_ask(s);
        const double lp = density(q, g, dim);
        complete = gpumc_nuts_tell(s, lp, g);
    }
}

typedef struct metric_memory {
    gpumc_metric metric;
    double scale[DENSITY_DIM], mean[DENSITY_DIM], vectors[2 * DENSITY_DIM], lambda[2];
    double covariance[DENSITY_DIM * DENSITY_DIM], factor[DENSITY_DIM * DENSITY_DIM];
    size_t members[3];
    double blocks[6 * DENSITY_DIM];
} metric_memory;

/* A metric of zeros, of rank 0, with all its arrays set. */
static inline void metric_clear(metric_memory *m, gpumc_metric_kind kind, size_t dim)
{
    memset(m, 0, sizeof *m);
    m->metric.kind = kind;
    m->metric.dim = dim;
    m->metric.scale = m->scale;
    m->metric.mean = m->mean;
    m->metric.vectors = m->vectors;
    m->metric.lambda = m->lambda;
    m->metric.covariance = m->covariance;
    m->metric.factor = m->factor;
    m->metric.members = m->members;
    m->metric.blocks = m->blocks;
}

/* Blocks of three members each, no two alike, in the last three quarters of the coordinates. */
static inline void metric_fill_blocks(metric_memory *m)
{
    const size_t dim = m->metric.dim, n = dim / 4;
    m->metric.n_blocks = n;
    m->metric.block_size = 3;
    for (size_t k = 0; k < 3; k++) m->members[k] = dim - (3 - k) * n;
    for (size_t j = 0; j < n; j++) {
        const double a = 0.7 + 0.3 * (double)j, b = 2.1 - 0.2 * (double)j;
        const double rows[] = { 1, cos(a), sin(a), cos(b), sin(b) * cos(a), sin(b) * sin(a) };
        for (size_t e = 0; e < 6; e++) m->blocks[e * n + j] = e == 2 || e == 5 ? fabs(rows[e]) : rows[e];
    }
}

/* Element (i, j) of the blocks' factor C, or of the identity if the metric has no blocks. */
static inline double metric_mixing(const gpumc_metric *m, size_t i, size_t j)
{
    const size_t n = m->n_blocks;
    for (size_t k = 0; n > 0 && k < m->block_size; k++)
        for (size_t l = 0; l <= k; l++)
            if (i - m->members[k] < n && j - m->members[l] < n && i - m->members[k] == j - m->members[l])
                return m->blocks[(k * (k + 1) / 2 + l) * n + (i - m->members[k])];
    return i == j;
}

/* x[0] > 0 has 97 % of its mass in a bulk about 3 and 3 % in a long tail; the others are N(0, 1). */
static inline double long_tailed(const double *x, double *g, int n)
{
    double bulk = 0, tail = 0;
    const double a = log(0.97) + gpumc_gamma_lpdf(x[0], 60, 20, &bulk, NULL, NULL);
    const double b = log(0.03) + gpumc_exponential_lpdf(x[0], 0.1, &tail, NULL), sum = gpumc_log_sum_exp(a, b);
    double lp = sum;
    g[0] += exp(a - sum) * bulk + exp(b - sum) * tail;
    for (int i = 1; i < n; i++) lp += gpumc_std_normal_lpdf(x[i], &g[i]);
    return lp;
}

#endif
