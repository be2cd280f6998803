/* Simulation-based calibration over models and options: models of the callback interface are put together at random,
   of blocks of every kind with laws of their own, of populations with any location, scale, walk, series, regression,
   factor or forced centring, and of rows that mix any blocks, cutpoints, counts of a simplex, correlated normals and
   mixtures. Each is drawn from its own prior, with data given that. Half of them are fitted with default options but
   for the number of draws, half with random ones, some by differences, in batches or with a guide; every fifth again,
   stopped and resumed, which must give the same draws. The rank of one true value of each block, and of the log
   density, must be uniform.

   Ranks are pooled by the kind of the block, those of the log density by options as well; with 44 p-values the
   false-alarm rate of an arbitrary seed is below 0.03. A likelihood that counts twice must be caught. Few runs may
   end in warnings. */
#include "../gpumc.h"
#include "check.h"
#include "ranks.h"
#include "same.h"

enum { N_MODELS = 400, N_BROKEN = 40, MAX_BLOCKS = 60, MAX_VALUES = 600, MAX_SETS = 12,
       MAX_ROWS = 120, MAX_TERMS = 3, MAX_K = 4, MAX_ELEMENTS = 40 };
#define NONE SIZE_MAX
#define CHECKPOINT "build/long_models.checkpoint"

/* ---- laws of one value: log density and draws, by two parameters ---------------------------------- */
typedef struct law {
    double (*at)(double y, double a, double b, double *dy, double *da, double *db);
    double (*draw)(gpumc_rng *rng, double a, double b);
} law;
#define LAW(name, log_density, value) \
    static double name##_at(double y, double a, double b, double *dy, double *da, double *db) \
    { return (void)a, (void)b, (void)dy, (void)da, (void)db, log_density; } \
    static double name##_draw(gpumc_rng *rng, double a, double b) { return (void)a, (void)b, value; } \
    static const law name = { name##_at, name##_draw };
LAW(normal, gpumc_normal_lpdf(y, a, b, dy, da, db), gpumc_normal_rng(rng, a, b))
LAW(student, gpumc_student_t_lpdf(y, 5, a, b, dy, NULL, da, db), gpumc_student_t_rng(rng, 5, a, b))
LAW(logistic, gpumc_logistic_lpdf(y, a, b, dy, da, db), gpumc_logistic_rng(rng, a, b))
LAW(gumbel, gpumc_gumbel_lpdf(y, a, b, dy, da, db), gpumc_gumbel_rng(rng, a, b))
LAW(half_normal, gpumc_half_normal_lpdf(y, b, dy, db), gpumc_half_normal_rng(rng, b))
LAW(exponential, gpumc_exponential_lpdf(y, b, dy, db), gpumc_exponential_rng(rng, b))
LAW(gamma_of, gpumc_gamma_lpdf(y, a, b, dy, da, db), gpumc_gamma_rng(rng, a, b))
LAW(lognormal, gpumc_lognormal_lpdf(y, a, b, dy, da, db), gpumc_lognormal_rng(rng, a, b))
LAW(weibull, gpumc_weibull_lpdf(y, a, b, dy, da, db), gpumc_weibull_rng(rng, a, b))
LAW(beta, gpumc_beta_lpdf(y, a, b, dy, da, db), gpumc_beta_rng(rng, a, b))
LAW(trials, gpumc_binomial_logit_lpmf(y, b, a, da), gpumc_binomial_logit_rng(rng, b, a))
LAW(counts, gpumc_poisson_log_lpmf(y, a, da), gpumc_poisson_rng(rng, exp(fmin(a, 14))))

typedef struct choice { const law *law; double a, b; } choice;
static const choice reals[] = { { &normal, 0, 1 }, { &student, 0.3, 0.8 }, { &logistic, -0.5, 0.5 },
                                { &gumbel, 0, 0.7 }, { &normal, 1, 0.4 } };
static const choice positives[] = { { &half_normal, 0, 0.7 }, { &exponential, 0, 1.5 }, { &gamma_of, 2, 2 },
                                    { &lognormal, -0.3, 0.6 }, { &weibull, 1.5, 0.8 } };
static const choice units[] = { { &beta, 1, 1 }, { &beta, 2, 3 }, { &beta, 0.7, 0.9 }, { &beta, 5, 1 } };
static const choice noises[] = { { &lognormal, -0.5, 0.3 }, { &gamma_of, 4, 6 } };
#define PICK(s, table) table[any(s, sizeof table / sizeof *table)]

/* ---- a model ---------------------------------------------------------------------------------------- */
typedef struct block {
    const law *law;                       /* of (value - base) / step, with a and b, or location and scale */
    double a, b, base, step;
    size_t at, n, length;                 /* first natural value, number of values, values in a vector */
    int spreads;                          /* a population: the rest are places of the values that it names */
    size_t location, scale, location_step, scale_step, phi, beta, factor, n_kin, row;
} block;

/* Rows: law about a sum of terms, with noise or a constant; or one of the others, of blocks a, b and c. */
typedef enum family { SUM, CUTPOINTS, SHARES, CORRELATED, MIXTURE } family;
typedef struct set {
    family family;
    const law *law;
    size_t n, K, n_terms, a, b, c, noise, index[MAX_TERMS][MAX_ROWS];
    double constant, x[MAX_TERMS][MAX_ROWS], y[MAX_ROWS][MAX_K];
} set;

typedef struct model {
    gpumc_rng rng;
    gpumc_param params[MAX_BLOCKS];
    block blocks[MAX_BLOCKS];
    char names[MAX_BLOCKS][12];
    size_t dims[MAX_BLOCKS][3], index[MAX_BLOCKS][2][MAX_ELEMENTS], n_blocks, n_values;
    double covariates[MAX_BLOCKS][2 * MAX_ELEMENTS], inits[MAX_VALUES];
    size_t open[MAX_BLOCKS], n_open;      /* blocks that no rows take so far */
    set sets[MAX_SETS];
    size_t n_sets;
    double times;                         /* how many times the likelihood counts */
} model;

static size_t any(model *s, size_t n) { return gpumc_rng_below(&s->rng, n); }
static int one_in(model *s, size_t n) { return any(s, n) == 0; }
static double between(model *s, double a, double b) { return a + (b - a) * gpumc_rng_uniform(&s->rng); }

/* ---- populations: location and scale of an element, and their derivatives passed on --------------------- */
static size_t location_of(const block *b, const gpumc_param *p, size_t i)
{ return b->location + (p->location_index ? p->location_index[i] : i * b->location_step); }
static size_t scale_of(const block *b, const gpumc_param *p, size_t i)
{ return b->scale + (p->scale_index ? p->scale_index[i] : i * b->scale_step); }

/* How far before element i the one before in its walk is; 0: none. */
static size_t back(const gpumc_param *p, size_t i)
{
    const size_t stride = p->n_dims == 2 ? p->dims[1] : 1;
    return p->walk_dim && i >= stride ? stride : 0;
}
/* The first element of a walk that starts anywhere: here normal(0, 1). */
static int starts_freely(const block *b, const gpumc_param *p, size_t i)
{
    return p->walk_dim && !back(p, i) && !p->location && !p->covariates && b->factor == NONE && b->phi == NONE
        && !p->walk_from_zero;
}
static void locate(const model *s, size_t k, size_t i, const double *x, double *m, double *sd)
{
    const block *b = &s->blocks[k];
    const gpumc_param *p = &s->params[k];
    const int walks = back(p, i) > 0, free = starts_freely(b, p, i);
    const double mean = p->location ? x[location_of(b, p, i)] : 0, phi = b->phi == NONE ? walks : x[b->phi];
    *m = walks ? (b->phi == NONE ? 0 : mean) * (1 - phi) + phi * x[b->at + i - back(p, i)] : mean;
    *sd = !p->scale || free ? 1 : x[scale_of(b, p, i)] / (walks ? 1 : sqrt(1 - phi * phi));
    for (size_t j = 0; j < p->n_covariates; j++) *m += p->covariates[i * p->n_covariates + j] * x[b->beta + j];
}
static void pass_on(const model *s, size_t k, size_t i, const double *x, double dm, double ds, double *g)
{
    const block *b = &s->blocks[k];
    const gpumc_param *p = &s->params[k];
    const int walks = back(p, i) > 0;
    const double phi = b->phi == NONE ? walks : x[b->phi], r = walks ? 1 : 1 / sqrt(1 - phi * phi);
    if (starts_freely(b, p, i)) return;
    if (p->location) g[location_of(b, p, i)] += dm * (walks ? 1 - phi : 1);
    if (p->scale) g[scale_of(b, p, i)] += ds * r;
    if (walks) g[b->at + i - back(p, i)] += dm * phi;
    if (b->phi != NONE)
        g[b->phi] += walks ? dm * (x[b->at + i - back(p, i)] - (p->location ? x[location_of(b, p, i)] : 0))
                           : ds * x[scale_of(b, p, i)] * phi * r * r * r;
    for (size_t j = 0; j < p->n_covariates; j++) g[b->beta + j] += dm * p->covariates[i * p->n_covariates + j];
}

/* Elements i of the blocks of a factor, k the first of them. */
static double joint(const model *s, size_t k, size_t i, const double *x, double *g)
{
    const block *b = &s->blocks[k];
    const double zero[MAX_K] = { 0 };
    double z[MAX_K] = { 0 }, dz[MAX_K] = { 0 }, sd[MAX_K], m, work[2 * MAX_K], lp = 0;
    for (size_t j = 0; j < b->n_kin; j++) {
        locate(s, k + j, i, x, &m, &sd[j]);
        z[j] = (x[b[j].at + i] - m) / sd[j];
        lp -= log(sd[j]);
    }
    lp += gpumc_multi_normal_cholesky_lpdf(z, zero, x + b->factor, b->n_kin, dz, NULL, g + b->factor, work);
    for (size_t j = 0; j < b->n_kin; j++) {
        g[b[j].at + i] += dz[j] / sd[j];
        pass_on(s, k + j, i, x, -dz[j] / sd[j], -(dz[j] * z[j] + 1) / sd[j], g);
    }
    return lp;
}

/* ---- prior ------------------------------------------------------------------------------------------ */
static double prior(const model *s, size_t k, const double *x, double *g)
{
    const block *b = &s->blocks[k];
    const gpumc_kind kind = s->params[k].kind;
    const double alpha[MAX_K] = { b->a, b->a + 1, b->a, b->a };
    double lp = 0;
    for (size_t i = 0; kind == GPUMC_SIMPLEX && i < b->n; i += b->length)
        lp += gpumc_dirichlet_lpdf(x + b->at + i, alpha, b->length, g + b->at + i, NULL);
    for (size_t i = 0; kind == GPUMC_CHOLESKY_CORR && i < b->n; i += b->length * b->length)
        lp += gpumc_lkj_corr_cholesky_lpdf(x + b->at + i, b->length, b->a, g + b->at + i, NULL);
    for (size_t i = 0; b->law && i < b->n; i++) {
        double dy = 0, dm = 0, ds = 0, m = b->a, sd = b->b;
        if (b->spreads) locate(s, k, i, x, &m, &sd);
        lp += b->law->at((x[b->at + i] - b->base) / b->step, m, sd, &dy, &dm, &ds);
        g[b->at + i] += dy / b->step;
        if (b->spreads) pass_on(s, k, i, x, dm, ds, g);
    }
    for (size_t i = 0; b->factor != NONE && b->row == 0 && i < b->n; i++) lp += joint(s, k, i, x, g);
    return lp;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void draw_prior(const model *s, size_t k, gpumc_rng *rng, double *x)
{
    const block *b = &s->blocks[k];
    const gpumc_kind kind = s->params[k].kind;
    const double alpha[MAX_K] = { b->a, b->a + 1, b->a, b->a }, zero[MAX_K] = { 0 };
    double *v = x + b->at, m = b->a, sd = b->b, z[MAX_K];
    for (size_t i = 0; kind == GPUMC_SIMPLEX && i < b->n; i += b->length)
        gpumc_dirichlet_rng(rng, alpha, b->length, v + i);
    for (size_t i = 0; kind == GPUMC_CHOLESKY_CORR && i < b->n; i += b->length * b->length)
        gpumc_lkj_corr_cholesky_rng(rng, b->length, b->a, v + i);
    for (size_t i = 0; b->law && i < b->n; i++) {
        if (b->spreads) locate(s, k, i, x, &m, &sd);
        v[i] = b->base + b->step * b->law->draw(rng, m, sd);
    }
    for (size_t i = 0; b->factor != NONE && b->row == 0 && i < b->n; i++) {
        gpumc_multi_normal_cholesky_rng(rng, zero, x + b->factor, b->n_kin, z);
        for (size_t j = 0; j < b->n_kin; j++) {
            locate(s, k + j, i, x, &m, &sd);
            x[b[j].at + i] = m + sd * z[j];
        }
    }
    for (size_t i = 0; i < b->n; i += b->length) {
        double sum = 0;
        if (kind == GPUMC_ORDERED || kind == GPUMC_POSITIVE_ORDERED) qsort(v + i, b->length, sizeof *v, by_size);
        for (size_t j = 0; j < b->length; j++) sum += v[i + j];
        for (size_t j = 0; kind == GPUMC_SUM_TO_ZERO && j < b->length; j++) v[i + j] -= sum / (double)b->length;
    }
}

/* ---- likelihood ------------------------------------------------------------------------------------- */
static double sum_of(const set *t, size_t i, const double *v)
{
    double sum = 0;
    for (size_t k = 0; k < t->n_terms; k++) sum += t->x[k][i] * v[t->index[k][i]];
    return sum;
}
/* The factor of a covariance, from scales and the factor of a correlation matrix. */
static void scale_factor(const set *t, const double *v, double *M)
{
    for (size_t r = 0; r < t->K; r++)
        for (size_t c = 0; c < t->K; c++) M[r * t->K + c] = v[t->b + r] * v[t->a + r * t->K + c];
}

static double correlated_row(const set *t, const double *y, const double *v, double *g)
{
    double M[MAX_K * MAX_K], dM[MAX_K * MAX_K] = { 0 }, work[2 * MAX_K];
    scale_factor(t, v, M);
    const double lp = gpumc_multi_normal_cholesky_lpdf(y, v + t->c, M, t->K, NULL, g + t->c, dM, work);
    for (size_t k = 0; k < t->K * t->K; k++) {
        g[t->a + k] += dM[k] * v[t->b + k / t->K];
        g[t->b + k / t->K] += dM[k] * v[t->a + k];
    }
    return lp;
}
static double mixture_row(const set *t, double y, const double *v, double *g)
{
    double e[MAX_K], de[MAX_K] = { 0 }, dm[MAX_K] = { 0 }, ds[MAX_K] = { 0 };
    for (size_t k = 0; k < t->K; k++)
        e[k] = log(v[t->b + k]) + gpumc_normal_lpdf(y, v[t->a + k], v[t->c], NULL, &dm[k], &ds[k]);
    const double lp = gpumc_log_sum_exp_of(e, t->K, de);
    for (size_t k = 0; k < t->K; k++) {
        g[t->a + k] += de[k] * dm[k];
        g[t->b + k] += de[k] / v[t->b + k];
        g[t->c] += de[k] * ds[k];
    }
    return lp;
}
static double row(const set *t, size_t i, const double *v, double *g)
{
    const double *y = t->y[i], eta = sum_of(t, i, v);
    double d = 0, ds = 0, lp = 0;
    switch (t->family) {
    case SUM:
        lp = t->law->at(*y, eta, t->noise == NONE ? t->constant : v[t->noise], NULL, &d, &ds);
        if (t->noise != NONE) g[t->noise] += ds;
        break;
    case CUTPOINTS: lp = gpumc_ordered_logistic_lpmf(*y, eta, v + t->a, t->K, &d, g + t->a); break;
    case SHARES: return gpumc_multinomial_lpmf(y, v + t->a, t->K, g + t->a);
    case CORRELATED: return correlated_row(t, y, v, g);
    case MIXTURE: return mixture_row(t, *y, v, g);
    }
    for (size_t k = 0; k < t->n_terms; k++) g[t->index[k][i]] += d * t->x[k][i];
    return lp;
}

static void simulate(set *t, size_t i, const double *v, gpumc_rng *rng)
{
    double *y = t->y[i], M[MAX_K * MAX_K], u = gpumc_rng_uniform(rng);
    const double eta = sum_of(t, i, v);
    size_t k = 0;
    switch (t->family) {
    case SUM: *y = t->law->draw(rng, eta, t->noise == NONE ? t->constant : v[t->noise]); break;
    case CUTPOINTS: *y = gpumc_ordered_logistic_rng(rng, eta, v + t->a, t->K); break;
    case SHARES: gpumc_multinomial_rng(rng, t->constant, v + t->a, t->K, y); break;
    case CORRELATED:
        scale_factor(t, v, M);
        gpumc_multi_normal_cholesky_rng(rng, v + t->c, M, t->K, y);
        break;
    case MIXTURE:
        while (k + 1 < t->K && (u -= v[t->b + k]) > 0) k++;
        *y = gpumc_normal_rng(rng, v[t->a + k], v[t->c]);
        break;
    }
}

static double density_of(const model *s, double times, const double *x, double *g)
{
    double lp = 0, h[MAX_VALUES];
    memset(h, 0, s->n_values * sizeof *h);
    for (size_t k = 0; k < s->n_blocks; k++) lp += prior(s, k, x, g);
    for (size_t q = 0; q < s->n_sets; q++)
        for (size_t i = 0; i < s->sets[q].n; i++) lp += times * row(&s->sets[q], i, x, h);
    for (size_t i = 0; i < s->n_values; i++) g[i] += times * h[i];
    return lp;
}
static double density(const double *x, double *g, void *data)
{
    const model *s = data;
    return density_of(s, s->times, x, g);
}
static double guide(const double *x, double *g, void *data)
{
    const model *s = data;
    return density_of(s, 0.95 * s->times, x, g);
}
static double value(const double *x, void *data)
{
    double g[MAX_VALUES] = { 0 };
    return density(x, g, data);
}
static void batch(size_t n, const double *x, double *g, double *lp, void *data)
{
    const size_t n_values = ((const model *)data)->n_values;
    for (size_t i = 0; i < n; i++) lp[i] = density(x + i * n_values, g + i * n_values, data);
}

/* ---- putting models together ------------------------------------------------------------------------ */
static size_t add(model *s, gpumc_kind kind, size_t n, size_t length, choice c)
{
    const size_t k = s->n_blocks++;
    const block b = { c.law, c.a, c.b, 0, 1, s->n_values, n, length, 0, NONE, NONE, 0, 0, NONE, NONE, NONE, 0, 0 };
    snprintf(s->names[k], sizeof *s->names, "b%d", (int)k);
    memset(&s->params[k], 0, sizeof s->params[k]);
    s->params[k].name = s->names[k];
    s->params[k].kind = kind;
    s->params[k].size = n;
    s->blocks[k] = b;
    s->n_values += n;
    return k;
}
static size_t shape(model *s, size_t k, size_t a, size_t b, size_t c)
{
    s->dims[k][0] = a, s->dims[k][1] = b, s->dims[k][2] = c;
    s->params[k].dims = s->dims[k];
    s->params[k].n_dims = c ? 3 : 2;
    return k;
}
static size_t add_factor(model *s, size_t count, size_t K)
{
    const choice c = { NULL, between(s, 0.7, 3), 0 };
    const size_t k = add(s, GPUMC_CHOLESKY_CORR, count * K * K, K, c);
    return count > 1 ? shape(s, k, count, K, K) : shape(s, k, K, K, 0);
}
/* A block of any kind, of n values or, of vectors, of about as many. */
static size_t add_kind(model *s, gpumc_kind kind, size_t n)
{
    const int grows = kind == GPUMC_POSITIVE || kind == GPUMC_LOWER || kind == GPUMC_UPPER
        || kind == GPUMC_POSITIVE_ORDERED;
    const int ends = kind == GPUMC_UNIT || kind == GPUMC_INTERVAL, orders = kind == GPUMC_ORDERED
        || kind == GPUMC_POSITIVE_ORDERED, simplex = kind == GPUMC_SIMPLEX;
    choice c = grows ? PICK(s, positives) : ends ? PICK(s, units) : PICK(s, reals);
    if (kind == GPUMC_CHOLESKY_CORR) return add_factor(s, 1 + any(s, 2), 2 + any(s, MAX_K - 1));
    if (simplex) c.law = NULL, c.a = between(s, 0.7, 3);
    if (kind == GPUMC_SUM_TO_ZERO) c.law = &normal, c.a = 0;
    const int vectors = orders || simplex || kind == GPUMC_SUM_TO_ZERO;
    const size_t length = vectors ? 2 + any(s, MAX_K - 1) : n, count = vectors ? 1 + n / 5 : 1;
    const size_t k = add(s, kind, vectors ? count * length : n, length, c);
    gpumc_param *p = &s->params[k];
    block *b = &s->blocks[k];
    if (count > 1) shape(s, k, count, length, 0);
    if (kind == GPUMC_LOWER) p->lower = b->base = between(s, -2, 2);
    if (kind == GPUMC_UPPER) p->upper = b->base = between(s, -2, 2), b->step = -1;
    if (kind == GPUMC_INTERVAL) {
        p->lower = b->base = between(s, -2, 1);
        p->upper = p->lower + between(s, 0.5, 4);
        b->step = p->upper - p->lower;
    }
    if (kind == GPUMC_AFFINE) p->offset = b->base = between(s, -3, 3), p->multiplier = between(s, 0.1, 3);
    if ((grows || orders || kind == GPUMC_INTERVAL) && one_in(s, 6)) {
        p->typical = one_in(s, 2) ? between(s, 0.2, 2) : -between(s, 0.2, 2);
        p->bend = one_in(s, 2) ? between(s, 0.1, 0.8) : 0;
    }
    return k;
}
static size_t add_noise(model *s) { return add(s, GPUMC_POSITIVE, 1, 1, PICK(s, noises)); }

static const size_t *some_index(model *s, size_t *index, size_t n, size_t of)
{
    for (size_t i = 0; i < n; i++) index[i] = any(s, of);
    return n == of && one_in(s, 2) ? NULL : index;
}
/* Makes block k a population; NONE: no location, scale, phi or coefficients. */
static void link_up(model *s, size_t k, size_t location, size_t scale, size_t phi, size_t coefficients, int walks)
{
    gpumc_param *p = &s->params[k];
    block *b = &s->blocks[k];
    b->spreads = 1;
    p->walk_dim = (size_t)walks;
    if (location != NONE) {
        const size_t n = s->blocks[location].n;
        p->location = s->names[location];
        b->location = s->blocks[location].at;
        if (n > 1) p->location_index = some_index(s, s->index[k][0], b->n, n);
        b->location_step = n > 1;
    }
    if (scale != NONE) {
        const size_t n = s->blocks[scale].n;
        p->scale = s->names[scale];
        b->scale = s->blocks[scale].at;
        if (n > 1) p->scale_index = some_index(s, s->index[k][1], b->n, n);
        b->scale_step = n > 1;
    }
    if (phi != NONE) p->walk_coefficient = s->names[phi], b->phi = s->blocks[phi].at;
    if (coefficients != NONE) {
        p->coefficients = s->names[coefficients];
        p->n_covariates = s->blocks[coefficients].n;
        p->covariates = s->covariates[k];
        b->beta = s->blocks[coefficients].at;
        for (size_t i = 0; i < b->n * p->n_covariates; i++)
            s->covariates[k][i] = (walks ? 0.3 : 1) * gpumc_rng_normal(&s->rng);
    }
    if (one_in(s, 12)) {
        p->centring = GPUMC_CENTRING_WEIGHT;
        p->centring_weight = (double)any(s, 10) / 10;
    }
    s->open[s->n_open++] = k;
}
static void add_population(model *s)
{
    static const gpumc_kind locations[] = { GPUMC_UNBOUNDED, GPUMC_UNBOUNDED, GPUMC_AFFINE, GPUMC_POSITIVE,
                                            GPUMC_UNIT, GPUMC_ORDERED, GPUMC_SUM_TO_ZERO, GPUMC_UPPER };
    static const gpumc_kind scales[] = { GPUMC_POSITIVE, GPUMC_POSITIVE, GPUMC_POSITIVE, GPUMC_UNIT,
                                         GPUMC_SIMPLEX, GPUMC_POSITIVE_ORDERED };
    static const law *const laws[] = { &normal, &normal, &normal, &normal, &normal, &student, &logistic, &gumbel };
    const size_t n = 2 + any(s, one_in(s, 8) ? 30 : 8), form = any(s, 6);
    const int walks = form < 2 && n > 2;
    size_t location = NONE, scale = NONE, phi = NONE, coefficients = NONE;
    if (one_in(s, 4) && !walks && s->n_open > 0) location = s->open[any(s, s->n_open)];
    else if (!one_in(s, 4)) location = walks ? add_kind(s, GPUMC_UNBOUNDED, 1)
            : add_kind(s, PICK(s, locations), 1 + (one_in(s, 3) ? any(s, 4) : 0));
    if (!one_in(s, 8)) scale = add_kind(s, PICK(s, scales), 1 + (one_in(s, 3) ? any(s, 3) : 0));
    if (form == 1 && walks && scale != NONE && s->blocks[scale].n == 1) {
        const choice c = { &beta, 2, 2 };
        phi = add(s, one_in(s, 2) ? GPUMC_UNIT : GPUMC_INTERVAL, 1, 1, c);
        if (s->params[phi].kind == GPUMC_INTERVAL) {
            s->params[phi].lower = s->blocks[phi].base = -1;
            s->params[phi].upper = 1;
            s->blocks[phi].step = 2;
        }
    }
    if (form == 2 || (walks && phi == NONE && one_in(s, 3)))
        coefficients = add_kind(s, GPUMC_UNBOUNDED, 1 + any(s, 2));
    const choice of = { PICK(s, laws), 0, 1 };
    const size_t k = add(s, GPUMC_UNBOUNDED, n, n, of);
    link_up(s, k, location, scale, phi, coefficients, walks);
    if (walks && n % 2 == 0 && one_in(s, 2)) shape(s, k, n / 2, 2, 0);
    s->params[k].walk_from_zero = walks && scale != NONE && location == NONE && one_in(s, 2);
    if (!s->params[k].location && !s->params[k].scale && !walks && coefficients == NONE)
        s->params[k].centring = GPUMC_CENTRING_LEARNED, s->params[k].centring_weight = 0;
}
static void add_joint(model *s)
{
    const size_t K = 2 + any(s, 2), n = 2 + any(s, one_in(s, 3) ? 20 : 8);
    const int walks = one_in(s, 8);
    size_t locations[3], scales[3], coefficients[3];
    for (size_t j = 0; j < K; j++) {
        locations[j] = one_in(s, 6) ? NONE : add_kind(s, GPUMC_UNBOUNDED, 1);
        scales[j] = one_in(s, 8) ? NONE : add_kind(s, GPUMC_POSITIVE, 1);
        coefficients[j] = one_in(s, 5) ? add_kind(s, GPUMC_UNBOUNDED, 1 + any(s, 2)) : NONE;
    }
    const size_t L = add_factor(s, 1, K);
    for (size_t j = 0; j < K; j++) {
        const choice c = { NULL, 0, 1 };
        const size_t k = add(s, GPUMC_UNBOUNDED, n, n, c);
        s->blocks[k].factor = s->blocks[L].at;
        s->blocks[k].n_kin = K;
        s->blocks[k].row = j;
        s->params[k].factor = s->names[L];
        link_up(s, k, locations[j], scales[j], NONE, coefficients[j], walks);
    }
}

static set *add_set(model *s, family of, size_t n)
{
    set *t = &s->sets[s->n_sets++];
    memset(t, 0, sizeof *t);
    t->family = of;
    t->n = n < MAX_ROWS ? n : MAX_ROWS;
    t->noise = NONE;
    t->constant = (double)(1 + any(s, 20));
    return t;
}
/* Counts of a simplex, correlated normals, or a mixture. */
static void add_special(model *s)
{
    const family of = (family)(SHARES + any(s, 3));
    const choice means = { &normal, 0, 3 }, weights = { NULL, 4, 0 };
    set *t = add_set(s, of, of == SHARES ? 1 + any(s, 6) : of == CORRELATED ? 10 + any(s, 40) : 60 + any(s, 40));
    t->K = 2 + any(s, of == MIXTURE ? 1 : 3);
    const size_t a = of == CORRELATED ? add_factor(s, 1, t->K)
        : of == MIXTURE ? add(s, GPUMC_ORDERED, t->K, t->K, means) : add(s, GPUMC_SIMPLEX, t->K, t->K, weights);
    t->a = s->blocks[a].at;
    if (of == SHARES) return;
    t->b = s->n_values;
    if (of == MIXTURE) add(s, GPUMC_SIMPLEX, t->K, t->K, weights);
    else add_kind(s, GPUMC_POSITIVE, t->K);
    t->c = s->n_values;
    if (of == MIXTURE) add_noise(s);
    else add_kind(s, GPUMC_UNBOUNDED, t->K);
}
/* Rows of sums of the last n open blocks. */
static void add_rows(model *s, size_t n)
{
    static const law *const laws[] = { &normal, &student, &logistic, &trials, &counts };
    const size_t each = 1 + any(s, one_in(s, 3) ? 2 : 8), form = any(s, 6);
    size_t n_rows = 0;
    for (size_t k = 0; k < n; k++) n_rows += s->blocks[s->open[s->n_open - 1 - k]].n * each;
    set *t = add_set(s, form == 5 ? CUTPOINTS : SUM, n_rows);
    if (form == 5) {
        const size_t K = 1 + any(s, MAX_K - 1);
        t->a = s->n_values;
        t->K = K + 1;
        add(s, GPUMC_ORDERED, K, K, PICK(s, reals));
    }
    else t->law = laws[form];
    if (form < 3) t->noise = s->blocks[add_noise(s)].at;
    for (t->n_terms = 0; t->n_terms < n; t->n_terms++) {
        const block *b = &s->blocks[s->open[--s->n_open]];
        const double about = one_in(s, 4) ? 2 : 0;
        for (size_t i = 0; i < t->n; i++) {
            t->index[t->n_terms][i] = b->at + (i < b->n ? i : any(s, b->n));
            t->x[t->n_terms][i] = t->n_terms == 0 ? 1 : about + gpumc_rng_normal(&s->rng);
        }
    }
}

static void build(model *s, uint32_t seed, double times)
{
    s->rng = gpumc_rng_at(99, seed, 0, 0);
    s->n_blocks = s->n_values = s->n_open = s->n_sets = 0;
    s->times = times;
    for (size_t n = 1 + any(s, 2); n > 0; n--) {
        const size_t piece = any(s, 10);
        if (piece < 2) add_special(s);
        else if (piece == 2) add_joint(s);
        else if (piece < 6) add_population(s);
        else {
            const size_t k = add_kind(s, (gpumc_kind)any(s, GPUMC_CHOLESKY_CORR + 1), 1 + any(s, 6));
            if (!one_in(s, 5)) s->open[s->n_open++] = k;
        }
    }
    while (s->n_open > 0) add_rows(s, 1 + any(s, s->n_open < MAX_TERMS ? s->n_open : MAX_TERMS));
}

/* ---- runs -------------------------------------------------------------------------------------------- */
typedef enum pool { HIERARCHICAL = GPUMC_CHOLESKY_CORR + 1, DENSITY, DEFAULTS, SHORT, SAMPLER, METRIC, CHAINS, STEPS,
                    INTERFACE, STARTS, N_POOLS } pool;      /* of ranks: blocks by kind, then log densities */
static const char *const pool_names[N_POOLS] = {
    "real", "positive", "lower", "upper", "interval", "unit", "affine", "ordered", "positive ordered", "sum to zero",
    "simplex", "correlation", "population", "log density", "default options", "short runs", "sampler forced",
    "metric forced", "number of chains", "acceptance, step size", "differences, batch, guide", "start values" };

/* Options and interface, every second time at random; in_pool: what was changed. */
static gpumc_sample_options any_options(model *s, gpumc_model *m, uint32_t seed, int *in_pool)
{
    gpumc_sample_options o = { .seed = seed, .threads = 1, .num_samples = 500 };
    const int changes = seed % 2 == 0;
    for (int k = SHORT; k < N_POOLS; k++) in_pool[k] = changes && one_in(s, 3);
    in_pool[DEFAULTS] = !changes;
    if (in_pool[SHORT]) o.num_samples = 300, o.num_warmup = 100 + (int)any(s, 100), o.thin = 1 + (int)any(s, 2);
    if (in_pool[SAMPLER]) o.sampler = (gpumc_sampler)(GPUMC_SAMPLER_NUTS + any(s, 3));
    if (in_pool[METRIC]) o.metric = (gpumc_metric_kind)(GPUMC_METRIC_DIAG + any(s, 3));
    if (in_pool[CHAINS]) o.num_chains = 2 + (int)any(s, 6), o.threads = 1 + (int)any(s, 3);
    if (in_pool[STEPS]) o.target_accept = between(s, 0.8, 0.98), o.step_size = exp(between(s, -5, 1));
    if (in_pool[INTERFACE] && s->n_values < 7) m->log_density = NULL, m->log_density_only = value;
    else if (in_pool[INTERFACE] && one_in(s, 2)) m->log_density = NULL, m->log_density_batch = batch;
    else if (in_pool[INTERFACE]) m->guide = guide;
    for (size_t k = 0; in_pool[STARTS] && k < s->n_blocks; k++)
        if (one_in(s, 2)) s->params[k].init = s->inits + s->blocks[k].at;
    return o;
}

static int stops(const gpumc_progress *p, void *left)
{
    (void)p;
    return --*(int *)left == 0;
}
/* The same run, stopped once and resumed. */
static void check_resumed(const gpumc_model *m, gpumc_sample_options o, const gpumc_fit *whole, int after, int seed)
{
    gpumc_fit f;
    remove(CHECKPOINT), remove(CHECKPOINT ".old");
    o.threads = 1;
    o.checkpoint = CHECKPOINT;
    o.progress = stops;
    o.progress_user = &after;
    gpumc_status status = gpumc_sample(m, &o, &f);
    if (status == GPUMC_STOPPED) {
        const gpumc_sample_options rest = { .threads = 2 };
        gpumc_free(&f);
        status = gpumc_resume(m, &rest, CHECKPOINT, &f);
    }
    CHECK(status == GPUMC_OK && same_draws(&f, whole), "model %d, resumed: %s", seed, f.message);
    gpumc_free(&f);
    remove(CHECKPOINT), remove(CHECKPOINT ".old");
}

static void rank_all(model *s, const gpumc_fit *f, const double *truth, const int *in_pool, tally *t)
{
    const double lp = value(truth, s);
    for (size_t b = 0; b <= s->n_blocks; b++) {
        const int whole = b == s->n_blocks;
        const block *p = whole ? NULL : &s->blocks[b];
        const gpumc_kind kind = s->params[whole ? 0 : b].kind;
        const size_t i = whole ? 0 : p->at + (kind == GPUMC_CHOLESKY_CORR ? p->length : any(s, p->n));
        const double jitter = gpumc_rng_uniform(&s->rng);
        double less = 0;
        for (size_t k = 0; k < N_RANKED; k++) {
            const size_t c = k % f->n_chains, d = (2 * k + 1) * f->n_draws / N_RANKED / 2;
            const double *x = f->draws + (c * f->draw_capacity + d) * f->n_columns;
            less += whole ? value(x, s) < lp : x[i] < truth[i];
        }
        if (!whole) count_rank(t, p->spreads ? (int)HIERARCHICAL : (int)kind, less, jitter);
        for (int k = DENSITY; whole && k < N_POOLS; k++)
            if (k == DENSITY || in_pool[k]) count_rank(t, k, less, jitter);
    }
}

/* Draws parameters and data, fits, ranks. */
static void run(model *s, uint32_t seed, double times, tally *t)
{
    static double truth[MAX_VALUES];
    int in_pool[N_POOLS] = { 0 };
    gpumc_rng rng = gpumc_rng_at(7, seed, 0, 0);
    double most = 0;
    gpumc_fit f;
    build(s, seed, times);
    gpumc_model m = { .params = s->params, .n_params = s->n_blocks, .log_density = density, .data = s };
    for (size_t k = 0; k < s->n_blocks; k++) draw_prior(s, k, &rng, truth);
    for (size_t k = 0; k < s->n_blocks; k++) draw_prior(s, k, &rng, s->inits);
    for (size_t q = 0; q < s->n_sets; q++)
        for (size_t i = 0; i < s->sets[q].n; i++) {
            simulate(&s->sets[q], i, truth, &rng);
            most = fmax(most, s->sets[q].law == &counts ? s->sets[q].y[i][0] : 0);
        }
    if (most > 300) return;                                 /* counts that leave next to nothing open */
    const gpumc_sample_options o = any_options(s, &m, seed, in_pool);
    const gpumc_status status = gpumc_sample(&m, &o, &f);
    CHECK(status == GPUMC_OK, "model %d: %s", (int)seed, f.message);
    int doubted = 0;
    for (size_t i = 0; i < f.n_warnings; i++) doubted |= !f.warnings[i].note;
    t->n_runs++;
    t->n_doubted += doubted;
    if (status == GPUMC_OK) rank_all(s, &f, truth, in_pool, t);
    if (status == GPUMC_OK && seed % 5 == 0) check_resumed(&m, o, &f, 1 + (int)any(s, 300), (int)seed);
    gpumc_free(&f);
}

int main(void)
{
    static model s;
    static tally right, broken;
    for (uint32_t seed = 1; seed <= N_MODELS; seed++) run(&s, seed, 1, &right);
    for (uint32_t seed = 1; seed <= N_BROKEN; seed++) run(&s, seed, 2, &broken);
    printf("%d of %d runs end in warnings\n", right.n_doubted, right.n_runs);
    CHECK(right.n_runs > N_MODELS / 2, "only %d runs", right.n_runs);
    CHECK(right.n_doubted < 0.12 * right.n_runs, "%d of %d runs end in warnings", right.n_doubted, right.n_runs);
    CHECK(least_p(&right, pool_names, N_POOLS, "right") > 5e-4, "ranks are not uniform");
    CHECK(least_p(&broken, pool_names, N_POOLS, "twice") < 5e-4, "a likelihood that counts twice is not caught");
    return check_end();
}
