/* The hierarchical normal model of examples/hierarchical.c with a hand-written density whose sums vectorise over
   interleaved rows: as fast as plain C gets without the library's rows. */
#ifndef GROUPS_H
#define GROUPS_H
/* gcc can compile a function for several instruction sets and choose one when the program starts. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

enum { LANES = 8 };

/* The rows of one group that are not interleaved with those of its neighbours. */
struct rest { size_t group, begin, end; };

/* The rows, sorted by group. Eight neighbouring groups form a block, whose rows are interleaved to the depth of the
   smallest of the eight: lane l of a vector then belongs to group l of the block, and no sum runs across lanes.
   The remaining rows follow, group by group. */
struct rows {
    size_t n_groups, n_rows, n_blocks, n_rest;
    double *y;
    size_t *depth;            /* interleaved rows per group, for each block */
    struct rest *rest;
    double mu_mean, mu_sd, tau_sd, sigma_sd;        /* of the priors */
};

/* In the order of the parameter list below. */
struct groups { double mu, tau, sigma, theta[]; };

/* Adds each group's sum of residuals over the interleaved rows to residuals; returns the sum of squares. */
FOR_EVERY_PROCESSOR
static double row_sums(const struct rows *d, const double *theta, double *restrict residuals)
{
    const double *y = d->y;
    double squares[LANES] = { 0 }, total = 0;
    for (size_t b = 0; b < d->n_blocks; b++, theta += LANES, residuals += LANES) {
        double sum[LANES] = { 0 };
        for (size_t i = 0; i < d->depth[b]; i++, y += LANES)
            for (int l = 0; l < LANES; l++) {
                const double r = y[l] - theta[l];
                sum[l] += r;
                squares[l] += r * r;
            }
        for (int l = 0; l < LANES; l++) residuals[l] += sum[l];
    }
    for (int l = 0; l < LANES; l++) total += squares[l];
    return total;
}

/* The same for the remaining rows; here the lanes are rows of one group. */
FOR_EVERY_PROCESSOR
static double rest_sums(const struct rows *d, const double *theta, double *residuals)
{
    double squares[LANES] = { 0 }, total = 0;
    for (size_t k = 0; k < d->n_rest; k++) {
        const double *y = d->y + d->rest[k].begin, *end = d->y + d->rest[k].end;
        const double centre = theta[d->rest[k].group];
        double sum[LANES] = { 0 };
        for (; end - y >= LANES; y += LANES)
            for (int l = 0; l < LANES; l++) {
                const double r = y[l] - centre;
                sum[l] += r;
                squares[l] += r * r;
            }
        for (int l = 0; l < end - y; l++) {
            const double r = y[l] - centre;
            sum[l] += r;
            squares[l] += r * r;
        }
        for (int l = 0; l < LANES; l++) residuals[d->rest[k].group] += sum[l];
    }
    for (int l = 0; l < LANES; l++) total += squares[l];
    return total;
}

/* On entry gradient holds the sums of residuals, on return the derivatives by theta. Returns the sums of theta - mu
   and of its square. */
struct spread { double sum, squares; };

FOR_EVERY_PROCESSOR
static struct spread population_sums(const double *theta, size_t n, double mu, double y_precision,
                                     double precision, double *restrict gradient)
{
    struct spread total = { 0, 0 };
    double sum[LANES] = { 0 }, squares[LANES] = { 0 };
    for (; n >= LANES; n -= LANES, theta += LANES, gradient += LANES)
        for (int l = 0; l < LANES; l++) {
            const double away = theta[l] - mu;
            gradient[l] = gradient[l] * y_precision - away * precision;
            sum[l] += away;
            squares[l] += away * away;
        }
    for (size_t l = 0; l < n; l++) {
        const double away = theta[l] - mu;
        gradient[l] = gradient[l] * y_precision - away * precision;
        sum[l] += away;
        squares[l] += away * away;
    }
    for (int l = 0; l < LANES; l++) { total.sum += sum[l]; total.squares += squares[l]; }
    return total;
}

static double log_density(const double *x, double *grad, void *data)
{
    const struct rows *d = (const struct rows *)data;
    const struct groups *p = (const struct groups *)x;
    struct groups *g = (struct groups *)grad;
    const double J = (double)d->n_groups, N = (double)d->n_rows;
    const double y_precision = 1 / (p->sigma * p->sigma), precision = 1 / (p->tau * p->tau);
    const double misfit = row_sums(d, p->theta, g->theta) + rest_sums(d, p->theta, g->theta);
    const struct spread spread = population_sums(p->theta, d->n_groups, p->mu, y_precision, precision,
                                                 g->theta);
    g->mu += spread.sum * precision;
    g->tau += (spread.squares * precision - J) / p->tau;
    g->sigma += (misfit * y_precision - N) / p->sigma;
    return gpumc_normal_lpdf(p->mu, d->mu_mean, d->mu_sd, &g->mu, NULL, NULL)
        + gpumc_half_normal_lpdf(p->tau, d->tau_sd, &g->tau, NULL)
        + gpumc_half_normal_lpdf(p->sigma, d->sigma_sd, &g->sigma, NULL)
        - 0.5 * (spread.squares * precision + misfit * y_precision)
        - J * log(p->tau) - N * log(p->sigma) - (J + N) * GPUMC_LOG_SQRT_2PI;
}

/* ---- data ---------------------------------------------------------------------------------------- */

/* Lays out row i with value y[i] of group[i] (from 0). Returns 0 when memory ran out. */
static int rows_sort(struct rows *d, size_t n_groups, size_t n_rows, const size_t *group, const double *y)
{
    size_t *start = (size_t *)calloc(n_groups + 1, sizeof *start), at = 0;
    double *sorted = (double *)malloc((n_rows + 1) * sizeof *sorted);
    d->n_groups = n_groups;
    d->n_rows = n_rows;
    d->n_blocks = n_groups / LANES;
    d->y = (double *)malloc((n_rows + 1) * sizeof *d->y);
    d->depth = (size_t *)malloc((d->n_blocks + 1) * sizeof *d->depth);
    d->rest = (struct rest *)malloc((n_groups + 1) * sizeof *d->rest);
    if (!start || !sorted || !d->y || !d->depth || !d->rest) { free(start); free(sorted); return 0; }

    for (size_t i = 0; i < n_rows; i++) start[group[i] + 1]++;
    for (size_t j = 0; j < n_groups; j++) start[j + 1] += start[j];
    for (size_t i = 0; i < n_rows; i++) sorted[start[group[i]]++] = y[i];
    memmove(start + 1, start, n_groups * sizeof *start);    /* undo: each start is now its group's end */
    start[0] = 0;

    for (size_t b = 0; b < d->n_blocks; b++) {
        const size_t *s = start + b * LANES;
        d->depth[b] = s[1] - s[0];
        for (int l = 1; l < LANES; l++)
            if (s[l + 1] - s[l] < d->depth[b]) d->depth[b] = s[l + 1] - s[l];
        for (size_t i = 0; i < d->depth[b]; i++)
            for (int l = 0; l < LANES; l++) d->y[at++] = sorted[s[l] + i];
    }
    for (size_t j = 0; j < n_groups; j++) {
        const size_t done = j / LANES < d->n_blocks ? d->depth[j / LANES] : 0;
        const size_t left = start[j + 1] - start[j] - done;
        if (left == 0) continue;
        d->rest[d->n_rest++] = (struct rest){ j, at, at + left };
        memcpy(d->y + at, sorted + start[j] + done, left * sizeof *sorted);
        at += left;
    }
    free(start);
    free(sorted);
    return 1;
}

#endif
