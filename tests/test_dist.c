/* Every family of GPUMC_FAMILIES through the same checks, then the families of vectors. A check returns the
   largest error in units of its tolerance: above 1 is a failure, and its broken variant must give more than 1.
   Known values that do not come from the library are in known_dist.h (60 digits, by known_dist.py). */
#include <float.h>
#include "../gpumc.h"
#include "check.h"
#include "known_dist.h"

/* ---- one interface for all shapes --------------------------------------------------------------
   t holds the parameters (n first), d receives the derivatives by y and by t[0..2]; what has none stays. */
typedef double density_function(double y, const double *t, double *d);
typedef struct family {
    const char *name, *parameters, *support;
    int discrete, n_parameters;
    density_function *density, *lower, *upper;
    double (*quantile)(double p, const double *t);
    double (*rng)(gpumc_rng *rng, const double *t);
    double (*mean)(const double *t), (*variance)(const double *t);
} family;

#define AT(i) (d ? d + (i) : NULL)
#define CALL_REAL_0(f) f(y, AT(0))
#define CALL_REAL_1(f) f(y, t[0], AT(0), AT(1))
#define CALL_REAL_2(f) f(y, t[0], t[1], AT(0), AT(1), AT(2))
#define CALL_REAL_3(f) f(y, t[0], t[1], t[2], AT(0), AT(1), AT(2), AT(3))
#define CALL_COUNT_1(f) f(y, t[0], AT(1))
#define CALL_COUNT_2(f) f(y, t[0], t[1], AT(1), AT(2))
#define CALL_TRIALS_1(f) f(y, t[0], t[1], AT(2))
#define CALL_TRIALS_2(f) f(y, t[0], t[1], t[2], AT(2), AT(3))
#define AFTER_REAL_0(f, first) f(first)
#define AFTER_REAL_1(f, first) f(first, t[0])
#define AFTER_REAL_2(f, first) f(first, t[0], t[1])
#define AFTER_REAL_3(f, first) f(first, t[0], t[1], t[2])
#define AFTER_COUNT_1(f, first) f(first, t[0])
#define AFTER_COUNT_2(f, first) f(first, t[0], t[1])
#define AFTER_TRIALS_1(f, first) f(first, t[0], t[1])
#define AFTER_TRIALS_2(f, first) f(first, t[0], t[1], t[2])
#define ALONE_REAL_0(f) f()
#define ALONE_REAL_1(f) f(t[0])
#define ALONE_REAL_2(f) f(t[0], t[1])
#define ALONE_REAL_3(f) f(t[0], t[1], t[2])
#define ALONE_COUNT_1(f) f(t[0])
#define ALONE_COUNT_2(f) f(t[0], t[1])
#define ALONE_TRIALS_1(f) f(t[0], t[1])
#define ALONE_TRIALS_2(f) f(t[0], t[1], t[2])
#define DENSITY_REAL_0(name) gpumc_##name##_lpdf
#define DENSITY_REAL_1(name) gpumc_##name##_lpdf
#define DENSITY_REAL_2(name) gpumc_##name##_lpdf
#define DENSITY_REAL_3(name) gpumc_##name##_lpdf
#define DENSITY_COUNT_1(name) gpumc_##name##_lpmf
#define DENSITY_COUNT_2(name) gpumc_##name##_lpmf
#define DENSITY_TRIALS_1(name) gpumc_##name##_lpmf
#define DENSITY_TRIALS_2(name) gpumc_##name##_lpmf
enum { DISCRETE_REAL_0, DISCRETE_REAL_1 = 0, DISCRETE_REAL_2 = 0, DISCRETE_REAL_3 = 0,
       DISCRETE_COUNT_1 = 1, DISCRETE_COUNT_2 = 1, DISCRETE_TRIALS_1 = 1, DISCRETE_TRIALS_2 = 1 };
enum { SIZE_REAL_0, SIZE_REAL_1, SIZE_REAL_2, SIZE_REAL_3, SIZE_COUNT_1 = 1, SIZE_COUNT_2,
       SIZE_TRIALS_1 = 2, SIZE_TRIALS_2 };

#define ADAPT(shape, cdf, name, parameters, support) \
    static double name##_density(double y, const double *t, double *d) \
    { (void)t, (void)d; return CALL_##shape(DENSITY_##shape(name)); } \
    static double name##_lower(double y, const double *t, double *d) \
    { (void)t, (void)d; return CALL_##shape(gpumc_##name##_lcdf); } \
    static double name##_upper(double y, const double *t, double *d) \
    { (void)t, (void)d; return CALL_##shape(gpumc_##name##_lccdf); } \
    static double name##_quantile(double p, const double *t) \
    { (void)t; return AFTER_##shape(gpumc_##name##_quantile, p); } \
    static double name##_rng(gpumc_rng *rng, const double *t) \
    { (void)t; return AFTER_##shape(gpumc_##name##_rng, rng); } \
    static double name##_mean(const double *t) { (void)t; return ALONE_##shape(gpumc_##name##_mean); } \
    static double name##_variance(const double *t) { (void)t; return ALONE_##shape(gpumc_##name##_variance); }
GPUMC_FAMILIES(ADAPT)

#define ENTRY(shape, cdf, name, parameters, support) \
    { #name, parameters, support, DISCRETE_##shape, SIZE_##shape, name##_density, name##_lower, \
      name##_upper, name##_quantile, name##_rng, name##_mean, name##_variance },
static const family families[] = { GPUMC_FAMILIES(ENTRY) };
#define N_FAMILIES (sizeof families / sizeof *families)

static const family *find(const char *name)
{
    for (size_t f = 0; f < N_FAMILIES; f++)
        if (!strcmp(families[f].name, name)) return &families[f];
    return NULL;
}

static double larger(double a, double b) { return a > b || isnan(a) ? a : b; }

/* ---- parameters and support, read from the list's own strings ------------------------------------ */
typedef enum domain {
    REAL, POSITIVE, NOT_NEGATIVE, ABOVE_LAST, WHOLE, CLOSED_UNIT, OPEN_UNIT, HALF_OPEN_UNIT, UNKNOWN
} domain;

static const char *const domain_texts[] = {
    " real", " > 0", " >= 0", " > a", " whole", " in [0, 1]", " in (0, 1)", " in (0, 1]"
};

static domain domain_of(const family *f, int i)
{
    const char *text = f->parameters;
    for (;; i--) {
        int kind = REAL;
        size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz");
        while (kind < UNKNOWN && strncmp(text + name, domain_texts[kind], strlen(domain_texts[kind]))) kind++;
        if (i == 0 || kind == UNKNOWN) return (domain)kind;
        text += name + strlen(domain_texts[kind]);
        if (strncmp(text, ", ", 2)) return UNKNOWN;
        text += 2;
    }
}

static void random_parameters(const family *f, gpumc_rng *rng, double *t)
{
    for (int i = 0; i < f->n_parameters; i++) {
        const double u = gpumc_rng_uniform(rng);
        switch (domain_of(f, i)) {
        case REAL: t[i] = -2 + 4 * u; break;
        case POSITIVE: case NOT_NEGATIVE: t[i] = 0.4 * pow(12, u); break;
        case ABOVE_LAST: t[i] = t[i - 1] + 0.5 + u; break;
        case WHOLE: t[i] = floor(1 + 30 * u); break;
        case CLOSED_UNIT: case OPEN_UNIT: case HALF_OPEN_UNIT: t[i] = 0.05 + 0.9 * u; break;
        case UNKNOWN: CHECK(0, "%s: parameter %d of \"%s\" is not understood", f->name, i, f->parameters);
        }
    }
}

/* Values outside the domain; NaN is outside of every domain. */
static int invalid_value(domain kind, int which, double last, double *value)
{
    const double positive[] = { NAN, 0, -1 }, negative[] = { NAN, -0.5 }, above[] = { NAN, last, last - 1 };
    const double whole[] = { NAN, -1, 2.5 }, closed[] = { NAN, -0.125, 1.125 };
    const double open[] = { NAN, 0, 1, -0.5, 1.5 }, half[] = { NAN, 0, -0.5, 1.5 };
    const double *const lists[] = { positive, positive, negative, above, whole, closed, open, half };
    const int sizes[] = { 1, 3, 2, 3, 3, 3, 5, 4 };
    if (which >= sizes[kind]) return 0;
    *value = lists[kind][which];
    return 1;
}

static void support_of(const family *f, const double *t, double *low, double *high)
{
    const char *texts[] = {
        "real", "y > 0", "y >= 0", "0 <= y <= 1", "a <= y <= b", "0, 1", "0 .. n", "0, 1, 2, ...", "y >= least",
        "xi (y - mu) >= -sigma", "y >= mu, xi (y - mu) >= -sigma"
    };
    const double end = t[0] + t[1] * (-1 / t[2]);
    const double first = t[2] > 0 ? end : -INFINITY, last = t[2] < 0 ? end : INFINITY;
    const double lows[] = { -INFINITY, 0, 0, 0, t[0], 0, 0, 0, t[0], first, t[0] };
    const double highs[] = { INFINITY, INFINITY, INFINITY, 1, t[1], 1, t[0], INFINITY, INFINITY, last, last };
    size_t i = 0;
    while (i < 11 && strcmp(f->support, texts[i])) i++;
    CHECK(i < 11, "%s: support \"%s\" is not understood", f->name, f->support);
    *low = i < 11 ? lows[i] : 0;
    *high = i < 11 ? highs[i] : 0;
}

/* ---- (a) known values ------------------------------------------------------------------------- */

/* The error of a value and its derivatives in units of the tolerance: relative, 1e-12 for values and 1e-10 for
   derivatives, plus 4 times the effect that rounding of the arguments can have (8 epsilon times sens). */
static double against(double value, const double *d, const double *known, const double *sens)
{
    double worst = 0;
    for (int i = 0; i < 5; i++) {
        const double seen = i ? d[i - 1] : value;
        const double allowed = (i ? 1e-10 : 1e-12) * fabs(known[i]) + 8 * DBL_EPSILON * sens[i] + DBL_MIN;
        if (isinf(known[i]) ? seen != known[i] : !(fabs(seen - known[i]) <= allowed))
            worst = larger(isinf(known[i]) || isnan(seen) ? NAN : fabs(seen - known[i]) / allowed, worst);
    }
    return worst;
}

static double point_error(const family *f, const known_point *k)
{
    double a[4] = { 0 }, b[4] = { 0 }, c[4] = { 0 };
    const double density = f->density(k->y, k->t, a);
    const double lower = f->lower(k->y, k->t, b), upper = f->upper(k->y, k->t, c);
    double sens[5], worst;
    memcpy(sens, k->density_sens, sizeof sens);
    sens[0] += 1e3;     /* a log density near 0 is a difference of terms of order 1 */
    worst = against(density, a, k->density, sens);
    if (k->lower[0] > -INFINITY) worst = larger(against(lower, b, k->lower, k->lower_sens), worst);
    if (k->upper[0] > -INFINITY) worst = larger(against(upper, c, k->upper, k->upper_sens), worst);
    return worst;
}

static double quantile_error(const family *f, const known_quantile *k)
{
    const double seen = f->quantile(k->p, k->t);
    if (seen == k->quantile) return 0;
    return fabs(seen - k->quantile) / (1e-12 * fabs(k->quantile) + 8 * DBL_EPSILON * k->quantile_sens);
}

static double moment_error(const family *f, const known_quantile *k)
{
    const double mean = check_distance(f->mean(k->t), k->mean, 1e-12);
    return larger(mean, check_distance(f->variance(k->t), k->variance, 0)) / 1e-12;
}

static void check_known(void)
{
    for (size_t i = 0; i < sizeof known_points / sizeof *known_points; i++) {
        const known_point *k = &known_points[i];
        const family *f = find(k->family);
        const double error = f ? point_error(f, k) : NAN;
        CHECK(error <= 1, "%s at y = %.17g, t = %g, %g, %g: %g times the tolerance", k->family, k->y,
              k->t[0], k->t[1], k->t[2], error);
    }
    for (size_t i = 0; i < sizeof known_quantiles / sizeof *known_quantiles; i++) {
        const known_quantile *k = &known_quantiles[i];
        const family *f = find(k->family);
        CHECK(f && quantile_error(f, k) <= 1, "%s: quantile of %.17g at t = %g, %g, %g: %.17g, not %.17g",
              k->family, k->p, k->t[0], k->t[1], k->t[2], f ? f->quantile(k->p, k->t) : NAN, k->quantile);
        CHECK(f && moment_error(f, k) <= 1, "%s: moments at t = %g, %g, %g: %.17g, %.17g", k->family,
              k->t[0], k->t[1], k->t[2], f ? f->mean(k->t) : NAN, f ? f->variance(k->t) : NAN);
    }
}

/* ---- (b) derivatives against differences -------------------------------------------------------- */

/* Fourth-order central difference of fn in argument i (0: y, then the parameters). */
static double difference(density_function *fn, double y, const double *t, int i, double h)
{
    double value[4];
    for (int k = 0; k < 4; k++) {
        const double move = h * (k < 2 ? k - 2 : k - 1);
        double moved[3];
        memcpy(moved, t, sizeof moved);
        if (i) moved[i - 1] += move;
        value[k] = fn(i ? y : y + move, moved, NULL);
    }
    return (value[0] - 8 * value[1] + 8 * value[2] - value[3]) / (12 * h);
}

/* A step that stays inside the support and away from the edges of the parameters. */
static double step_size(const family *f, double y, const double *t, int i)
{
    const double x = i ? t[i - 1] : y, scale = 1e-3;
    double low, high, edge;
    support_of(f, t, &low, &high);
    edge = fmin(1, fmin(y - low, high - y));
    if (f->discrete) edge = 1;
    if (!strcmp(f->name, "laplace")) edge = fmin(edge, fabs(y - t[0]));         /* a kink at y = mu */
    if (i == 0) return scale * edge;
    switch (domain_of(f, i - 1)) {
    case REAL: case ABOVE_LAST: return scale * edge;
    case POSITIVE: case NOT_NEGATIVE: return scale * fmin(x, fmax(edge, 0.01));
    default: return scale * fmin(fmin(x, 1 - x), fmax(edge, 0.01));
    }
}

static double gradient_error(const family *f, density_function *fn, double y, const double *t)
{
    double d[4] = { 0 }, worst = 0;
    const double value = fn(y, t, d);
    for (int i = f->discrete; i <= f->n_parameters; i++) {
        double h, slope, allowed;
        if (i && domain_of(f, i - 1) == WHOLE) continue;
        h = step_size(f, y, t, i);
        slope = difference(fn, y, t, i, h);
        allowed = 1e-7 * (fabs(slope) + fabs(value) + 1) + 1e-14 * (fabs(value) + 1) / h;
        worst = larger(fabs(d[i] - slope) / allowed, worst);
    }
    return worst;
}

static double gradients_error(const family *f)
{
    gpumc_rng rng = gpumc_rng_at(11, 0, 0, 0);
    double worst = 0, t[3] = { 0 };
    for (int trial = 0; trial < 60; trial++) {
        double y, lower, upper, low, high;
        random_parameters(f, &rng, t);
        y = f->rng(&rng, t);
        support_of(f, t, &low, &high);
        if (!f->discrete && high - y < 1e-6) continue;      /* doubles are too coarse there for differences */
        lower = f->lower(y, t, NULL);
        upper = f->upper(y, t, NULL);
        worst = larger(gradient_error(f, f->density, y, t), worst);
        if (lower > -30 && lower < -1e-6) worst = larger(gradient_error(f, f->lower, y, t), worst);
        if (upper > -30 && upper < -1e-6) worst = larger(gradient_error(f, f->upper, y, t), worst);
    }
    return worst;
}

/* ---- (c) lcdf, lccdf and density belong together ------------------------------------------------ */
static double consistency_error(const family *f)
{
    gpumc_rng rng = gpumc_rng_at(12, 0, 0, 0);
    double worst = 0, t[3] = { 0 };
    for (int trial = 0; trial < 100; trial++) {
        double y, density, lower, upper, a[4] = { 0 }, b[4] = { 0 };
        random_parameters(f, &rng, t);
        y = f->rng(&rng, t);
        density = f->density(y, t, NULL);
        lower = f->lower(y, t, a);
        upper = f->upper(y, t, b);
        worst = larger(fabs(exp(lower) + exp(upper) - 1) / 1e-12, worst);
        if (f->discrete) {
            const double before = y > 0 ? exp(f->lower(y - 1, t, NULL)) : 0;
            worst = larger(fabs(exp(lower) - before - exp(density)) / 1e-12, worst);
        } else {
            worst = larger(check_distance(a[0] * exp(lower), exp(density), 1e-300) / 1e-10, worst);
            worst = larger(check_distance(-b[0] * exp(upper), exp(density), 1e-300) / 1e-10, worst);
        }
    }
    return worst;
}

/* ---- (d) quantiles --------------------------------------------------------------------------- */

/* The rounding error of y; for families on the real line or about mu also that of the parameters, such as the
   location to which y is relative. */
static double rounding(const family *f, double y, const double *t)
{
    const int relative = !strcmp(f->support, "real") || strstr(f->support, "mu");
    double size = fabs(y);
    for (int i = 0; i < f->n_parameters && relative; i++) size += fabs(t[i]);
    return 4 * DBL_EPSILON * size + 2 * DBL_MIN;
}

/* The error of log P(Y <= y) against log p, or of the upper tail if p >= 1/2, in units of 1e-11; 0 if p lies between
   the probabilities at y plus and minus its rounding error. */
static double round_trip_error(const family *f, double p, const double *t)
{
    const double y = f->quantile(p, t), unit = rounding(f, y, t), target = p < 0.5 ? log(p) : log1p(-p);
    density_function *const tail = p < 0.5 ? f->lower : f->upper;
    const double a = tail(y - unit, t, NULL), b = tail(y + unit, t, NULL);
    if (fmin(a, b) <= target && target <= fmax(a, b)) return 0;
    return fabs(tail(y, t, NULL) - target) / 1e-11;
}

/* P(Y <= y) - p, computed from the tail in which p lies */
static double excess(const family *f, double y, double p, const double *t)
{
    return p < 0.5 ? exp(f->lower(y, t, NULL)) - p : (1 - p) - exp(f->upper(y, t, NULL));
}

static double discrete_quantile_error(const family *f, double p, const double *t)
{
    const double y = f->quantile(p, t), slack = 1e-13;
    return y >= 0 && excess(f, y, p, t) >= -slack && excess(f, y - 1, p, t) < slack ? 0 : INFINITY;
}

static double quantiles_error(const family *f)
{
    const double grid[] = { 1e-12, 1e-6, 0.01, 0.2, 0.4999, 0.5, 0.75, 0.99, 1 - 1e-6, 1 - 1e-10 };
    gpumc_rng rng = gpumc_rng_at(13, 0, 0, 0);
    double worst = 0, t[3] = { 0 };
    for (int trial = 0; trial < 6; trial++) {
        random_parameters(f, &rng, t);
        for (size_t i = 0; i < sizeof grid / sizeof *grid; i++)
            worst = larger((f->discrete ? discrete_quantile_error : round_trip_error)(f, grid[i], t), worst);
    }
    return worst;
}

/* ---- (g) densities integrate to 1 and have the stated moments ------------------------------------ */
typedef struct moments { double total, mean, variance, fourth; } moments;

static void add_mass(const family *f, const double *t, double y, double weight, double centre, moments *m)
{
    const double mass = weight * exp(f->density(y, t, NULL)), x = y - centre;
    if (!(mass > 0)) return;
    m->total += mass;
    m->mean += mass * x;
    m->variance += mass * x * x;
    m->fourth += mass * x * x * x * x;
}

/* Integrates from the median to one end of the support, by double-exponential quadrature (Takahasi & Mori 1974). */
static void integrate_side(const family *f, const double *t, double median, double end, double centre,
                           moments *m)
{
    const double h = 1 / 64.0, half_pi = GPUMC_PI / 2, sign = end < median ? -1 : 1;
    for (int k = -7 * 64; k <= 7 * 64; k++) {
        const double s = half_pi * sinh(k * h), ds = half_pi * cosh(k * h) * h;
        if (isinf(end)) {
            const double away = exp(s);
            if (away < 1e200) add_mass(f, t, median + sign * away, away * ds, centre, m);
        } else {    /* y by its distance from the end, which is exact where the density is singular */
            const double e = 1 / (1 + exp(2 * s)), length = fabs(end - median), y = end - sign * length * e;
            if (y != end) add_mass(f, t, y, length * 2 * e * (1 - e) * ds, centre, m);
        }
    }
}

static moments moments_of(const family *f, const double *t)
{
    moments m = { 0, 0, 0, 0 };
    const double median = f->quantile(0.5, t), mean = f->mean(t), centre = isfinite(mean) ? mean : 0;
    double low, high;
    support_of(f, t, &low, &high);
    if (f->discrete) {
        const double last = fmin(high, f->quantile(1 - 1e-15, t) * 4 + 100);
        for (double y = 0; y <= last; y++) add_mass(f, t, y, 1, centre, &m);
    } else {
        integrate_side(f, t, median, low, centre, &m);
        integrate_side(f, t, median, high, centre, &m);
    }
    m.mean += centre;
    return m;
}

/* Random parameters for which doubles resolve the ends of the support: beta may have much mass too close to 1. */
static void integrable_parameters(const family *f, gpumc_rng *rng, double *t)
{
    double low, high, before;
    do {
        random_parameters(f, rng, t);
        support_of(f, t, &low, &high);
        before = high - DBL_EPSILON * fabs(high);
    } while (!f->discrete && isfinite(high) && f->density(before, t, NULL) + log(high - before) > -25);
}

static double integral_error(const family *f)
{
    gpumc_rng rng = gpumc_rng_at(14, 0, 0, 0);
    double worst = 0, t[3] = { 0 };
    for (int trial = 0; trial < 5; trial++) {
        moments m;
        double mean, variance;
        integrable_parameters(f, &rng, t);
        m = moments_of(f, t);
        mean = f->mean(t);
        variance = f->variance(t);
        worst = larger(fabs(m.total - 1) / 1e-8, worst);
        if (isfinite(mean)) worst = larger(check_distance(m.mean, mean, 1) / 1e-7, worst);
        if (isfinite(variance)) worst = larger(check_distance(m.variance, variance, 0) / 1e-6, worst);
    }
    return worst;
}

/* ---- (e) draws --------------------------------------------------------------------------------
   The limit of every statistic is one that a correct sampler exceeds with probability 1e-5. There are about 330
   statistics, so the false-alarm rate with new seeds is 1 in 300; the seeds are fixed. */
#define N_DRAWS 4000
static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov distance. Many draws of beta may equal the last double before 1: a draw stands for the interval
   that is rounded to it. */
static double kolmogorov_error(const family *f, const double *t, const double *sorted)
{
    double worst = 0;
    for (int i = 0; i < N_DRAWS; i++) {
        const double y = sorted[i], unit = rounding(f, y, t);
        worst = larger(exp(f->lower(y - unit, t, NULL)) - i / (double)N_DRAWS, worst);
        worst = larger((i + 1) / (double)N_DRAWS - exp(f->lower(y + unit, t, NULL)), worst);
    }
    return sqrt(N_DRAWS) * worst / 2.471;               /* sqrt(log(2e5) / 2) */
}

/* Chi-square over cells of at least 20 expected draws, made normal by Wilson & Hilferty's cube root. */
static double chi_square_error(const family *f, const double *t, const double *sorted)
{
    double statistic = 0, cells = 0, below = 0, top = sorted[N_DRAWS - 1], cdf_below = 0;
    int seen = 0;
    for (double y = 0; y <= top + 1; y++) {
        double expected, above, excess, cdf = y > top ? 1 : exp(f->lower(y, t, NULL));
        while (seen < N_DRAWS && sorted[seen] <= y) seen++;
        expected = N_DRAWS * (cdf - cdf_below);
        above = y > top ? 0 : N_DRAWS * (1 - cdf);
        if (y <= top && (expected < 20 || above < 20)) continue;
        excess = seen - below - expected;
        if (expected > 1e-9) statistic += excess * excess / expected, cells++;
        else if (excess > 0.5) return INFINITY;
        below = seen;
        cdf_below = cdf;
    }
    if (cells < 2) return 0;
    cells--;
    return (cbrt(statistic / cells) - (1 - 2 / (9 * cells))) / sqrt(2 / (9 * cells)) / 4.265;
}

static double sample_moment_error(const family *f, const double *t, const double *draws)
{
    const double mean = f->mean(t), variance = f->variance(t);
    const moments m = moments_of(f, t);
    double sum = 0, squares = 0, worst = 0;
    if (!isfinite(mean) || !isfinite(variance) || !isfinite(m.total)) return 0;
    for (int i = 0; i < N_DRAWS; i++) {
        sum += draws[i] - mean;
        squares += (draws[i] - mean) * (draws[i] - mean);
    }
    if (m.fourth > 50 * variance * variance) return 0;      /* too skewed or heavy-tailed for a normal limit */
    worst = fabs(sum / N_DRAWS) / sqrt(variance / N_DRAWS) / 4.42;
    return larger(fabs(squares / N_DRAWS - variance) / (6 * sqrt((m.fourth - variance * variance) / N_DRAWS)
                                                        + 30 * variance / N_DRAWS), worst);
}

static double draws_error(const family *f)
{
    static double draws[N_DRAWS];
    gpumc_rng rng = gpumc_rng_at(15, 0, 0, 0);
    double worst = 0, t[3] = { 0 };
    for (int trial = 0; trial < 4; trial++) {
        random_parameters(f, &rng, t);
        if (trial == 3)                                     /* small shapes, large means, many trials */
            for (int i = 0; i < f->n_parameters; i++) {
                const domain kind = domain_of(f, i);
                if (kind == POSITIVE || kind == NOT_NEGATIVE) t[i] = f->discrete ? 80 : 0.08;
                if (kind == WHOLE) t[i] = 400;
            }
        for (int i = 0; i < N_DRAWS; i++) draws[i] = f->rng(&rng, t);
        qsort(draws, N_DRAWS, sizeof *draws, by_value);
        worst = larger((f->discrete ? chi_square_error : kolmogorov_error)(f, t, draws), worst);
        worst = larger(sample_moment_error(f, t, draws), worst);
    }
    return worst;
}

/* ---- (f) invalid parameters, outside, edges ------------------------------------------------------ */
static int all_nan(const family *f, double y, const double *t)
{
    gpumc_rng rng = gpumc_rng_at(16, 0, 0, 0);
    double d[4] = { 0 };
    return isnan(f->density(y, t, d)) && isnan(f->lower(y, t, d)) && isnan(f->upper(y, t, d))
           && isnan(f->quantile(0.5, t)) && isnan(f->rng(&rng, t))
           && isnan(f->mean(t)) && isnan(f->variance(t));
}

static int is_beyond(const family *f, double y, const double *t, double lower, double upper)
{
    double d[4] = { 0 }, a[4] = { 0 }, b[4] = { 0 };
    int fine = f->density(y, t, d) == -INFINITY && f->lower(y, t, a) == lower && f->upper(y, t, b) == upper;
    for (int i = 0; i < 4; i++)     /* where the value is 0, nothing is added to the gradient */
        fine = fine && (lower < 0 || a[i] == 0) && (upper < 0 || b[i] == 0);
    return fine;
}

static int wrongly_accepted(const family *f, double y, const double *t)
{
    int count = 0;
    for (int i = 0; i < f->n_parameters; i++) {
        double wrong[3];
        memcpy(wrong, t, sizeof wrong);
        for (int which = 0; invalid_value(domain_of(f, i), which, i ? t[i - 1] : 0, &wrong[i]); which++)
            count += !all_nan(f, y, wrong);
    }
    return count;
}

static double edges_error(const family *f)
{
    gpumc_rng rng = gpumc_rng_at(17, 0, 0, 0);
    double t[3] = { 0 }, y, low, high, d[4] = { 0 };
    int bad = 0;
    random_parameters(f, &rng, t);
    y = f->rng(&rng, t);
    bad += wrongly_accepted(f, y, t);
    bad += !isnan(f->density(NAN, t, d)) || !isnan(f->lower(NAN, t, d)) || !isnan(f->upper(NAN, t, d));
    bad += !isnan(f->quantile(-0.1, t)) || !isnan(f->quantile(1.1, t)) || !isnan(f->quantile(NAN, t));
    support_of(f, t, &low, &high);
    bad += !is_beyond(f, -INFINITY, t, -INFINITY, 0) || !is_beyond(f, INFINITY, t, 0, -INFINITY);
    if (isfinite(low)) bad += !is_beyond(f, low - 0.5, t, -INFINITY, 0);
    if (isfinite(high)) bad += !is_beyond(f, high + 0.5, t, 0, -INFINITY);
    if (f->discrete) bad += f->density(0.5, t, d) != -INFINITY;
    if (f->discrete) bad += f->lower(0.5, t, NULL) != f->lower(0, t, NULL);
    bad += f->quantile(0, t) != low || f->quantile(1, t) != high;
    return bad ? INFINITY : 0;
}

/* Derivatives are added to the gradient; NULL is allowed, and does not change the value. */
static double adding_error(const family *f)
{
    gpumc_rng rng = gpumc_rng_at(18, 0, 0, 0);
    double t[3] = { 0 }, y, once[4] = { 0 }, twice[4] = { 0 }, worst = 0;
    random_parameters(f, &rng, t);
    y = f->rng(&rng, t);
    worst = f->density(y, t, once) == f->density(y, t, NULL) ? 0 : INFINITY;
    f->density(y, t, twice);
    f->density(y, t, twice);
    for (int i = 0; i < 4; i++) worst = larger(check_distance(twice[i], 2 * once[i], 1e-300) / 1e-14, worst);
    return worst;
}

/* ---- all checks for all families, and broken twins ----------------------------------------------- */
typedef double family_check(const family *f);
static const struct { const char *what; family_check *run; } checks[] = {
    { "derivatives against differences", gradients_error }, { "cdfs against density", consistency_error },
    { "quantile round trip", quantiles_error }, { "integrals", integral_error }, { "draws", draws_error },
    { "invalid values and edges", edges_error }, { "adding of derivatives", adding_error },
};

static double wrong_sign(double y, const double *t, double *d)
{
    double own[4] = { 0 };
    const double value = weibull_density(y, t, own);
    own[2] = -own[2];
    for (int i = 0; d && i < 4; i++) d[i] += own[i];
    return value;
}
static double not_normalised(double y, const double *t, double *d) { return weibull_density(y, t, d) + 1e-6; }
static double not_checked(double y, const double *t, double *d)
{
    const double value = weibull_density(y, t, d);
    return isnan(value) ? -INFINITY : value;
}
static double overwriting(double y, const double *t, double *d)
{
    if (d) memset(d, 0, 4 * sizeof *d);
    return weibull_density(y, t, d);
}
static double shifted_quantile(double p, const double *t) { return weibull_quantile(p, t) * (1 + 1e-9); }
static double biased_rng(gpumc_rng *rng, const double *t)
{
    return weibull_quantile(pow(gpumc_rng_uniform(rng), 1.15), t);
}
static double wrong_cdf(double y, const double *t, double *d) { return weibull_lower(y, t, d) + 1e-9; }
static double biased_count(gpumc_rng *rng, const double *t)
{
    return geometric_quantile(pow(gpumc_rng_uniform(rng), 1.15), t);
}
static double wrong_count(double p, const double *t) { return geometric_quantile(p, t) + (p > 0.7); }

/* One broken variant for each check, in the order of the list; the rest of its family is correct. */
static void check_twins(void)
{
    family twin[sizeof checks / sizeof *checks], count = *find("geometric");
    for (size_t i = 0; i < sizeof twin / sizeof *twin; i++) twin[i] = *find("weibull");
    twin[0].density = wrong_sign;
    twin[1].lower = wrong_cdf;
    twin[2].quantile = shifted_quantile;
    twin[3].density = not_normalised;
    twin[4].rng = biased_rng;
    twin[5].density = not_checked;
    twin[6].density = overwriting;
    for (size_t i = 0; i < sizeof twin / sizeof *twin; i++)
        CHECK(!(checks[i].run(&twin[i]) <= 1), "the check of %s accepts a broken family", checks[i].what);
    count.rng = biased_count;
    CHECK(!(draws_error(&count) <= 1), "the check of draws accepts biased counts");
    count = *find("geometric");
    count.quantile = wrong_count;
    CHECK(!(quantiles_error(&count) <= 1), "the check of quantiles accepts a wrong count");
    for (size_t i = 0; i < sizeof known_points / sizeof *known_points; i++)
        if (!strcmp(known_points[i].family, "weibull")) {
            CHECK(!(point_error(&twin[0], &known_points[i]) <= 1), "known values take a wrong sign");
            CHECK(!(point_error(&twin[3], &known_points[i]) <= 1),
                  "known values take an unnormalised density");
        }
}

/* ---- families of vectors ----------------------------------------------------------------------- */
typedef struct vectors { double *x[3], *d[3]; size_t size[3]; double work[64]; } vectors;

static double vector_density(const char *name, int y, vectors *v)
{
    double **x = v->x, **d = v->d;
    const size_t n = v->size[0];
    if (!strcmp(name, "categorical_logit")) return gpumc_categorical_logit_lpmf(y, x[0], n, d[0]);
    if (!strcmp(name, "ordered_logistic"))
        return gpumc_ordered_logistic_lpmf(y, x[0][0], x[1], v->size[1] + 1, d[0], d[1]);
    if (!strcmp(name, "ordered_probit"))
        return gpumc_ordered_probit_lpmf(y, x[0][0], x[1], v->size[1] + 1, d[0], d[1]);
    if (!strcmp(name, "multi_normal_cholesky"))
        return gpumc_multi_normal_cholesky_lpdf(x[0], x[1], x[2], n, d[0], d[1], d[2], v->work);
    if (!strcmp(name, "multi_student_t_cholesky"))      /* nu stands before y */
        return gpumc_multi_student_t_cholesky_lpdf(x[0] + 1, x[0][0], x[1], x[2], v->size[1], d[0] + 1, d[0], d[1],
                                                   d[2], v->work);
    if (!strcmp(name, "multi_normal"))
        return gpumc_multi_normal_lpdf(x[0], x[1], x[2], n, d[0], d[1], d[2], v->work);
    if (!strcmp(name, "dirichlet")) return gpumc_dirichlet_lpdf(x[0], x[1], n, d[0], d[1]);
    if (!strcmp(name, "lkj_corr_cholesky"))
        return gpumc_lkj_corr_cholesky_lpdf(x[0], (size_t)(sqrt((double)n) + 0.5), x[1][0], d[0], d[1]);
    if (!strcmp(name, "wiener"))        /* univariate, but does not fit the table of families */
        return gpumc_wiener_lpdf(x[0][0], y, x[0][1], x[0][2], x[0][3], x[0][4], &d[0][0], &d[0][1], &d[0][2],
                                 &d[0][3], &d[0][4]);
    if (!strcmp(name, "von_mises"))
        return gpumc_von_mises_lpdf(x[0][0], x[0][1], x[0][2], &d[0][0], &d[0][1], &d[0][2]);
    if (!strcmp(name, "zero_inflated")) {               /* Poisson counts */
        double weight, by_mu = 0;
        const double log_p = gpumc_poisson_lpmf(y, x[0][1], &by_mu);
        const double value = gpumc_zero_inflated(y, log_p, x[0][0], &weight, &d[0][0]);
        d[0][1] += weight * by_mu;
        return value;
    }
    if (!strcmp(name, "multinomial")) return gpumc_multinomial_lpmf(x[0], x[1], n, d[1]);
    return NAN;
}

static vectors split(const double *sizes, double *x, double *d)
{
    vectors v;
    size_t at = 0;
    memset(&v, 0, sizeof v);
    for (int i = 0; i < 3; i++) {
        v.size[i] = (size_t)sizes[i];
        v.x[i] = x + at;
        v.d[i] = d + at;
        at += v.size[i];
    }
    return v;
}

static double vector_error(const known_vector *k, double sign)
{
    double x[32], d[32] = { 0 }, worst, value;
    vectors v;
    memcpy(x, k->x, sizeof x);
    v = split(k->sizes, x, d);
    value = vector_density(k->family, k->y, &v);
    worst = fabs(value - k->value) / (1e-12 * fabs(k->value) + 8 * DBL_EPSILON * k->sens);
    for (int i = 0; i < 32; i++)
        worst = larger(check_distance(sign * d[i], k->gradient[i], 1e-6) / 1e-10, worst);
    return worst;
}

static void check_known_vectors(void)
{
    for (size_t i = 0; i < sizeof known_vectors / sizeof *known_vectors; i++) {
        const known_vector *k = &known_vectors[i];
        CHECK(vector_error(k, 1) <= 1, "%s, entry %d: %g of the tolerance", k->family, (int)i,
              vector_error(k, 1));
        CHECK(!(vector_error(k, -1) <= 1), "%s, entry %d: a wrong sign is accepted", k->family, (int)i);
    }
}

/* Draws of a vector of n elements against the stated mean and variance, within 5 standard errors (false-alarm rate
   6e-7); the standard error of the variance is estimated from the draws. */
typedef void vector_draw(gpumc_rng *rng, double *x);
static double vector_draws_error(vector_draw *draw, size_t n, const double *mean, const double *variance)
{
    enum { DRAWS = 40000 };
    gpumc_rng rng = gpumc_rng_at(19, 0, 0, 0);
    double x[16], sum[16] = { 0 }, square[16] = { 0 }, fourth[16] = { 0 }, worst = 0;
    for (int k = 0; k < DRAWS; k++) {
        draw(&rng, x);
        for (size_t i = 0; i < n; i++) {
            const double r = (x[i] - mean[i]) * (x[i] - mean[i]);
            sum[i] += x[i] - mean[i];
            square[i] += r;
            fourth[i] += r * r;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const double s = square[i] / DRAWS, error = sqrt((fourth[i] / DRAWS - s * s) / DRAWS);
        worst = larger(fabs(sum[i] / DRAWS) / (5 * sqrt(variance[i] / DRAWS) + 1e-12), worst);
        worst = larger(fabs(s - variance[i]) / (5 * error + 1e-12), worst);
    }
    return worst;
}

static const double eta4[] = { 0.5, -1.25, 2.0, 0.75 }, cut3[] = { -1.5, 0.25, 2.0 };
static const double mu3[] = { 0.25, 0.5, -0.75 };
static const double factor3[] = { 1.3, 0, 0, 0.4, 0.75, 0, -0.6, 1.1, 2.25 };
static const double cov3[] = { 2.5, 0.75, -0.5, 0.75, 1.5, 0.25, -0.5, 0.25, 3 }, alpha3[] = { 0.4, 2.5, 1 };

static const double wiener4[][4] = { { 1.5, 0.25, 0.4, 1.25 }, { 1, 0, 0.9, 0 }, { 2, -0.5, 0.125, -1.5 } };
static const double *diffusion;
#define WIENER(y, choice, alpha, tau, beta, delta) \
    gpumc_wiener_lpdf(y, choice, alpha, tau, beta, delta, NULL, NULL, NULL, NULL, NULL)
/* The choice, the time if it is 1, and the time if it is 0; the other time is 0. */
static void draw_wiener(gpumc_rng *rng, double *x)
{
    const double y = gpumc_wiener_rng(rng, diffusion[0], diffusion[1], diffusion[2], diffusion[3], &x[0]);
    x[1] = x[0] * y;
    x[2] = (1 - x[0]) * y;
}
/* Their moments by the trapezoid rule in log time, whose error is negligible as the integrand is flat at both ends.
   Returns the mass of both choices, which should be 1. */
static double wiener_moments(double *mean, double *variance)
{
    const double *p = diffusion, step = 0.01;
    double sum[2][3] = { { 0 } };
    for (int choice = 0; choice < 2; choice++)
        for (double t = 1e-5; t < 100; t *= exp(step)) {
            const double mass = step * t * exp(WIENER(p[1] + t, choice, p[0], p[1], p[2], p[3]));
            for (int power = 0; power < 3; power++) sum[choice][power] += mass * pow(p[1] + t, power);
        }
    mean[0] = sum[1][0];
    variance[0] = sum[1][0] * sum[0][0];
    for (int i = 1; i < 3; i++) {
        mean[i] = sum[2 - i][1];
        variance[i] = sum[2 - i][2] - mean[i] * mean[i];
    }
    return sum[0][0] + sum[1][0];
}

/* Cosine and sine of an angle; their known means are those of the density, by the trapezoid rule. */
static double concentration;
static void draw_angle(gpumc_rng *rng, double *x)
{
    const double y = gpumc_von_mises_rng(rng, 0.4, concentration);
    x[0] = cos(y), x[1] = sin(y);
    x[2] = y < 0.4 - GPUMC_PI || y > 0.4 + GPUMC_PI;
}
static double angle_moments(double *mean, double *variance)
{
    enum { STEPS = 4000 };
    double sum[5] = { 0 };
    for (int i = 0; i < STEPS; i++) {
        const double y = 2 * GPUMC_PI * i / STEPS, c = cos(y), s = sin(y);
        const double mass = 2 * GPUMC_PI / STEPS * exp(gpumc_von_mises_lpdf(y, 0.4, concentration, NULL, NULL, NULL));
        const double terms[] = { 1, c, s, c * c, s * s };
        for (int k = 0; k < 5; k++) sum[k] += mass * terms[k];
    }
    for (int k = 0; k < 2; k++) mean[k] = sum[1 + k], variance[k] = sum[3 + k] - sum[1 + k] * sum[1 + k];
    mean[2] = variance[2] = 0;
    return sum[0];
}
static const double shares3[] = { 0.2, 0.5, 0.3 };
static void draw_multinomial(gpumc_rng *rng, double *x) { gpumc_multinomial_rng(rng, 30, shares3, 3, x); }

static void one_hot(double y, double *x)
{
    for (int k = 0; k < 4; k++) x[k] = y == k;
}
static void draw_categorical(gpumc_rng *rng, double *x)
{
    one_hot(gpumc_categorical_logit_rng(rng, eta4, 4), x);
}
static void draw_ordered(gpumc_rng *rng, double *x)
{
    one_hot(gpumc_ordered_logistic_rng(rng, 0.4, cut3, 4), x);
}
static void draw_probit(gpumc_rng *rng, double *x)
{
    one_hot(gpumc_ordered_probit_rng(rng, 0.4, cut3, 4), x);
}
static void draw_factor(gpumc_rng *rng, double *x)
{
    gpumc_multi_normal_cholesky_rng(rng, mu3, factor3, 3, x);
}
static void draw_student(gpumc_rng *rng, double *x)
{
    gpumc_multi_student_t_cholesky_rng(rng, 8, mu3, factor3, 3, x);
}
static void draw_cov(gpumc_rng *rng, double *x)
{
    double work[9];
    gpumc_multi_normal_rng(rng, mu3, cov3, 3, x, work);
}
static void draw_dirichlet(gpumc_rng *rng, double *x) { gpumc_dirichlet_rng(rng, alpha3, 3, x); }
static void draw_lkj(gpumc_rng *rng, double *x) { gpumc_lkj_corr_cholesky_rng(rng, 4, 1.75, x); }

/* The correlations of a draw from lkj_corr_cholesky all have mean 0 and variance 1 / (2 eta + K - 1). */
static void draw_correlations(gpumc_rng *rng, double *r)
{
    double L[16];
    gpumc_lkj_corr_cholesky_rng(rng, 4, 1.75, L);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++, r++) {
            *r = 0;
            for (int k = 0; k < 4; k++) *r += L[4 * i + k] * L[4 * j + k];
        }
}

/* The last L_ii^2 of three is U^(1 / eta), U uniform. */
static void draw_log_diagonal(gpumc_rng *rng, double *x)
{
    double L[9];
    gpumc_lkj_corr_cholesky_rng(rng, 3, 0.05, L);
    *x = log(L[8]);
}

static void draw_products(gpumc_rng *rng, double *x)    /* of multi_normal: the off-diagonal covariances */
{
    double y[3];
    draw_cov(rng, y);
    for (int i = 0; i < 3; i++) y[i] -= mu3[i];
    x[0] = y[0] * y[1];
    x[1] = y[0] * y[2];
    x[2] = y[1] * y[2];
}

static void check_vector_draws(void)
{
    double m[16], v[16], mass;
    gpumc_categorical_logit_mean(eta4, 4, m);
    gpumc_categorical_logit_variance(eta4, 4, v);
    CHECK(vector_draws_error(draw_categorical, 4, m, v) <= 1, "categorical_logit");
    CHECK(!(vector_draws_error(draw_ordered, 4, m, v) <= 1), "draws of another law are accepted");
    gpumc_ordered_logistic_mean(0.4, cut3, 4, m);
    gpumc_ordered_logistic_variance(0.4, cut3, 4, v);
    CHECK(vector_draws_error(draw_ordered, 4, m, v) <= 1, "ordered_logistic");
    CHECK(fabs(m[0] + m[1] + m[2] + m[3] - 1) < 1e-14, "ordered_logistic does not sum to 1");
    CHECK(!(vector_draws_error(draw_probit, 4, m, v) <= 1), "draws of probit categories are taken for logistic");
    gpumc_ordered_probit_mean(0.4, cut3, 4, m);
    gpumc_ordered_probit_variance(0.4, cut3, 4, v);
    CHECK(vector_draws_error(draw_probit, 4, m, v) <= 1, "ordered_probit");
    CHECK(fabs(m[0] + m[1] + m[2] + m[3] - 1) < 1e-14, "ordered_probit does not sum to 1");
    gpumc_multi_normal_cholesky_mean(mu3, factor3, 3, m);
    gpumc_multi_normal_cholesky_variance(mu3, factor3, 3, v);
    CHECK(vector_draws_error(draw_factor, 3, m, v) <= 1, "multi_normal_cholesky");
    CHECK(!(vector_draws_error(draw_student, 3, m, v) <= 1), "Student's draws are taken for normal ones");
    gpumc_multi_student_t_cholesky_mean(8, mu3, factor3, 3, m);
    gpumc_multi_student_t_cholesky_variance(8, mu3, factor3, 3, v);
    CHECK(vector_draws_error(draw_student, 3, m, v) <= 1, "multi_student_t_cholesky");
    {   /* 1 / (1 + z'z / nu) is of beta(nu / 2, 3 / 2), as one divisor for all three makes it */
        gpumc_rng rng = gpumc_rng_at(20, 0, 0, 0);
        double sum = 0, x[3], z[3];
        for (int i = 0; i < 40000; i++) {
            gpumc_multi_student_t_cholesky_rng(&rng, 8, mu3, factor3, 3, x);
            for (int r = 0; r < 3; r++) {
                z[r] = x[r] - mu3[r];
                for (int c = 0; c < r; c++) z[r] -= factor3[3 * r + c] * z[c];
                z[r] /= factor3[3 * r + r];
            }
            sum += log1p((z[0] * z[0] + z[1] * z[1] + z[2] * z[2]) / 8) / 40000;
        }
        /* E log(1 + z'z / nu) = digamma((nu + 3) / 2) - digamma(nu / 2); its sd is 0.29 */
        CHECK(fabs(sum - (gpumc_digamma(5.5) - gpumc_digamma(4))) < 5 * 0.29 / 200, "z'z of a Student vector: %g",
              sum);
    }
    gpumc_multi_normal_mean(mu3, cov3, 3, m);
    gpumc_multi_normal_variance(mu3, cov3, 3, v);
    CHECK(vector_draws_error(draw_cov, 3, m, v) <= 1, "multi_normal");
    {   /* E (ab)^2 = var a var b + 2 cov^2 */
        const double mean[] = { 0.75, -0.5, 0.25 };
        const double variance[] = { 2.5 * 1.5 + 0.75 * 0.75, 2.5 * 3 + 0.25, 1.5 * 3 + 0.0625 };
        CHECK(vector_draws_error(draw_products, 3, mean, variance) <= 1, "covariances of multi_normal");
    }
    gpumc_dirichlet_mean(alpha3, 3, m);
    gpumc_dirichlet_variance(alpha3, 3, v);
    CHECK(vector_draws_error(draw_dirichlet, 3, m, v) <= 1, "dirichlet");
    for (int i = 0; i < 3; i++) {
        diffusion = wiener4[i];
        mass = wiener_moments(m, v);
        CHECK(fabs(mass - 1) < 1e-9, "wiener with drift %g: mass %.12g", diffusion[3], mass);
        CHECK(vector_draws_error(draw_wiener, 3, m, v) <= 1, "wiener with drift %g", diffusion[3]);
        m[2] += 10 * sqrt(v[2] / 40000);
        CHECK(!(vector_draws_error(draw_wiener, 3, m, v) <= 1), "wiener: a wrong mean is accepted");
    }
    for (concentration = 0; concentration < 1000; concentration = concentration > 0 ? 9 * concentration : 0.05) {
        mass = angle_moments(m, v);
        CHECK(fabs(mass - 1) < 1e-12, "von_mises of kappa %g: mass %.14g", concentration, mass);
        CHECK(vector_draws_error(draw_angle, 3, m, v) <= 1, "von_mises of kappa %g", concentration);
    }
    m[1] += 10 * sqrt(v[1] / 40000);
    CHECK(!(vector_draws_error(draw_angle, 3, m, v) <= 1), "von_mises: a wrong mean is accepted");
    for (double kappa = 1e6; kappa < 1e150; kappa *= 1e9) {
        gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
        double square = 0;
        for (int i = 0; i < 1000; i++) {
            const double z = gpumc_von_mises_rng(&rng, 0, kappa) * sqrt(kappa);
            square += z * z / 1000;
        }
        CHECK(fabs(square - 1) < 0.2, "von_mises of kappa %g is a normal of variance 1 / kappa: %g", kappa, square);
    }
    gpumc_multinomial_mean(30, shares3, 3, m);
    gpumc_multinomial_variance(30, shares3, 3, v);
    CHECK(vector_draws_error(draw_multinomial, 3, m, v) <= 1, "multinomial");
    gpumc_lkj_corr_cholesky_mean(4, 1.75, m);
    gpumc_lkj_corr_cholesky_variance(4, 1.75, v);
    CHECK(vector_draws_error(draw_lkj, 16, m, v) <= 1, "lkj_corr_cholesky");
    for (int i = 0; i < 6; i++) m[i] = 0, v[i] = 1 / (2 * 1.75 + 3);
    CHECK(vector_draws_error(draw_correlations, 6, m, v) <= 1, "correlations of lkj_corr_cholesky");
    m[0] = -1 / (2 * 0.05), v[0] = m[0] * m[0];
    CHECK(vector_draws_error(draw_log_diagonal, 1, m, v) <= 1, "lkj_corr_cholesky with eta 0.05");
}

static void check_vector_edges(void)
{
    const double bad_eta[] = { 0, NAN, 1 }, falling[] = { 0.5, 0.25 }, two[] = { 0.5, -0.5 };
    const double negative[] = { -1, 0 };
    const double on[] = { 0, 1 }, off[] = { 0.5, 0.6 }, outside[] = { -0.25, 1.25 }, wrong[] = { 1, 0 };
    const double flat[] = { 1, 1 }, singular[] = { 1, 1, 1, 1 }, L[] = { 1, 0, 0.6, 0.8 };
    const double part[] = { 1.5, 2 }, endless[] = { 1, INFINITY };
    double work[8], choice = 0;
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    CHECK(gpumc_categorical_logit_lpmf(4, eta4, 4, NULL) == -INFINITY, "category 4 of 0 .. 3");
    static const double nothing[2] = { -INFINITY, -INFINITY }, some[3] = { -INFINITY, 1000, 1001 };
    double shares[3] = { 0, 5, 0 };
    CHECK(gpumc_log_sum_exp_of(nothing, 2, shares) == -INFINITY && gpumc_log_sum_exp_of(some, 0, NULL) == -INFINITY,
          "nothing is -infinity");
    CHECK(fabs(gpumc_log_sum_exp_of(some, 3, shares) - 1001.3132616875182) < 1e-12 && shares[0] == 0
          && fabs(shares[1] - 5.2689414213699951) < 1e-12 && fabs(shares[2] - 0.7310585786300049) < 1e-12,
          "shares %.17g %.17g %.17g", shares[0], shares[1], shares[2]);
    CHECK(isnan(gpumc_log_sum_exp_of(bad_eta, 3, NULL)), "NaN among terms");
    static const double all[3] = { -INFINITY, INFINITY, 1 }, both[2] = { NAN, INFINITY };
    shares[0] = shares[1] = shares[2] = 0;
    CHECK(gpumc_log_sum_exp_of(all, 3, shares) == INFINITY && shares[0] == 0 && shares[1] == 1 && shares[2] == 0,
          "an infinite term: shares %g %g %g", shares[0], shares[1], shares[2]);
    CHECK(isnan(gpumc_log_sum_exp_of(both, 2, NULL)), "NaN beside an infinity");
    CHECK(isnan(gpumc_categorical_logit_lpmf(0, all, 3, NULL)) && isnan(gpumc_categorical_logit_rng(&rng, all, 3)),
          "an infinite eta");
    CHECK(gpumc_categorical_logit_lpmf(-1, eta4, 4, NULL) == -INFINITY, "category -1");
    CHECK(gpumc_categorical_logit_lpmf(1.5, eta4, 4, NULL) == -INFINITY, "category 1.5");
    CHECK(isnan(gpumc_categorical_logit_lpmf(1, bad_eta, 3, NULL)), "eta with NaN");
    CHECK(isnan(gpumc_categorical_logit_lpmf(NAN, eta4, 4, NULL)), "y NaN");
    CHECK(isnan(gpumc_ordered_logistic_lpmf(1, 0, falling, 3, NULL, NULL)), "falling cutpoints");
    CHECK(gpumc_ordered_logistic_lpmf(4, 0, cut3, 4, NULL, NULL) == -INFINITY, "category 4 of 0 .. 3");
    CHECK(gpumc_ordered_logistic_lpmf(0, 0, NULL, 1, NULL, NULL) == 0, "a single category");
    CHECK(isnan(gpumc_ordered_probit_lpmf(1, 0, falling, 3, NULL, NULL))
          && isnan(gpumc_ordered_probit_lpmf(1, NAN, cut3, 4, NULL, NULL))
          && isnan(gpumc_ordered_probit_lpmf(NAN, 0, cut3, 4, NULL, NULL))
          && isnan(gpumc_ordered_probit_rng(&rng, 0, falling, 3)), "probit: falling cutpoints, NaN");
    CHECK(gpumc_ordered_probit_lpmf(4, 0, cut3, 4, NULL, NULL) == -INFINITY
          && gpumc_ordered_probit_lpmf(0.5, 0, cut3, 4, NULL, NULL) == -INFINITY, "probit: no category");
    CHECK(gpumc_ordered_probit_lpmf(0, 0, NULL, 1, work, NULL) == 0
          && gpumc_ordered_probit_rng(&rng, 0, NULL, 1) == 0, "probit: a single category");
    CHECK(isnan(gpumc_multi_normal_cholesky_lpdf(two, two, wrong, 1, NULL, NULL, NULL, work)) == 0, "1 x 1");
    CHECK(isnan(gpumc_multi_normal_cholesky_lpdf(two, two, on, 1, NULL, NULL, NULL, work)), "zero diagonal");
    CHECK(isnan(gpumc_multi_student_t_cholesky_lpdf(two, 3, two, on, 1, NULL, NULL, NULL, NULL, work))
          && isnan(gpumc_multi_student_t_cholesky_lpdf(two, 0, two, wrong, 1, NULL, NULL, NULL, NULL, work))
          && isnan(gpumc_multi_student_t_cholesky_lpdf(bad_eta + 1, 3, two, wrong, 1, NULL, NULL, NULL, NULL, work)),
          "Student's vectors: zero diagonal, nu 0, y NaN");
    gpumc_multi_student_t_cholesky_rng(&rng, -1, two, wrong, 1, work);
    gpumc_multi_student_t_cholesky_mean(1, two, wrong, 1, work + 1);
    gpumc_multi_student_t_cholesky_variance(1.5, two, wrong, 1, work + 2);
    CHECK(isnan(work[0]) && isnan(work[1]) && work[2] == INFINITY, "nu of -1, 1, 1.5");
    CHECK(isnan(gpumc_multi_normal_lpdf(two, two, singular, 2, NULL, NULL, NULL, work)), "a singular matrix");
    CHECK(gpumc_dirichlet_lpdf(off, flat, 2, NULL, NULL) == -INFINITY, "sum 1.1");
    CHECK(gpumc_dirichlet_lpdf(outside, flat, 2, NULL, NULL) == -INFINITY, "a negative share");
    CHECK(fabs(gpumc_dirichlet_lpdf(on, flat, 2, NULL, NULL)) < 1e-15, "the uniform simplex at a corner");
    CHECK(isnan(gpumc_dirichlet_lpdf(on, wrong, 2, NULL, NULL)), "alpha 0");
    CHECK(gpumc_lkj_corr_cholesky_lpdf(singular, 2, 1, NULL, NULL) == -INFINITY, "rows not of length 1");
    CHECK(isnan(gpumc_lkj_corr_cholesky_lpdf(L, 2, 0, NULL, NULL)), "eta 0");
    CHECK(gpumc_lkj_corr_cholesky_lpdf(L, 1, 1, NULL, NULL) == 0, "the 1 x 1 factor");
    CHECK(isnan(gpumc_von_mises_lpdf(1, 0, -1, NULL, NULL, NULL)) && isnan(gpumc_von_mises_rng(&rng, 0, -1))
          && isnan(gpumc_von_mises_lpdf(NAN, 0, 1, NULL, NULL, NULL)), "von_mises of kappa -1, of NaN");
    CHECK(gpumc_multinomial_lpmf(two, on, 2, NULL) == -INFINITY, "counts of 1/2");
    CHECK(gpumc_zero_inflated(0, -3, 0, work, NULL) == -3 && work[0] == 1
          && gpumc_zero_inflated(0, -900, 0, work, NULL) == -900 && work[0] == 1
          && gpumc_zero_inflated(0, -3, 1, work, NULL) == 0 && work[0] == 0
          && gpumc_zero_inflated(2, -3, 1, work, NULL) == -INFINITY
          && gpumc_zero_inflated(0.5, -INFINITY, 0.5, work, NULL) == -INFINITY, "inflation by 0, by 1, of no count");
    CHECK(isnan(gpumc_zero_inflated(0, -3, -0.25, work, NULL)) && isnan(gpumc_zero_inflated(0, -3, 1.25, work, NULL))
          && isnan(gpumc_zero_inflated(1, -3, NAN, work, NULL)) && isnan(gpumc_zero_inflated(0, NAN, 0.5, work, NULL))
          && isnan(gpumc_zero_inflated(NAN, NAN, 0.5, work, NULL)), "inflation by -1/4, 5/4, NaN");
    CHECK(gpumc_multinomial_lpmf(negative, on, 2, NULL) == -INFINITY, "counts of sum -1");
    CHECK(gpumc_multinomial_lpmf(part, on, 2, NULL) == -INFINITY
          && gpumc_multinomial_lpmf(endless, on, 2, NULL) == -INFINITY, "counts of sum 3.5, of an infinite one");
    CHECK(gpumc_multinomial_lpmf(on, on, 2, NULL) == 0 && gpumc_multinomial_lpmf(wrong, on, 2, NULL) == -INFINITY,
          "a share of 0");
    CHECK(isnan(gpumc_multinomial_lpmf(on, off, 2, NULL)) && isnan(gpumc_multinomial_lpmf(on, outside, 2, NULL))
          && isnan(gpumc_multinomial_lpmf(bad_eta, on, 2, NULL)), "shares of sum 1.1, a negative one, a count NaN");
    gpumc_multinomial_rng(&rng, 2.5, on, 2, work);
    CHECK(isnan(work[0]) && isnan(work[1]), "2.5 draws");
    CHECK(WIENER(0.5, 1, 1, 0.5, 0.5, 0) == -INFINITY && WIENER(0.4, 0, 1, 0.5, 0.5, 0) == -INFINITY, "before tau");
    CHECK(WIENER(1e9, 1, 1, 0.5, 0.5, 1) < -1e8 && WIENER(1e-300, 1, 1, 0, 0.5, 1) < -1e298, "far from all times");
    CHECK(WIENER(1, 2, 1, 0.5, 0.5, 0) == -INFINITY && WIENER(1, -1, 1, 0.5, 0.5, 0) == -INFINITY, "no choice");
    CHECK(isnan(WIENER(1, 0, 0, 0.5, 0.5, 0)) && isnan(WIENER(1, 0, -1, 0.5, 0.5, 0)), "alpha 0, -1");
    CHECK(isnan(WIENER(1, 0, 1, 0.5, 0, 0)) && isnan(WIENER(1, 0, 1, 0.5, 1, 0)), "beta 0, 1");
    CHECK(isnan(WIENER(1, 0, 1, 0.5, 0.5, NAN)) && isnan(WIENER(NAN, 0, 1, 0.5, 0.5, 1)), "NaN");
    CHECK(isnan(WIENER(1, NAN, 1, 0.5, 0.5, 1)), "a choice that is NaN");
    CHECK(isnan(gpumc_wiener_rng(&rng, 1, 0, 1, 1, &choice)) && isnan(choice), "a draw from beta 1");
    CHECK(isnan(gpumc_student_t_rng(&rng, -3, 0, 1)) && isnan(gpumc_half_student_t_rng(&rng, -3, 1)),
          "draws with -3 degrees of freedom");
}

/* Arguments for which the result is finite and accurate, though a naive intermediate step would overflow, underflow
   or cancel. */
static void check_far_out(void)
{
    static const double cuts[] = { 0, 1e-12 }, corner[] = { 0, 1 }, alpha[] = { 1, 2 };
    double by_lambda = 0, by_p = 0, by_y = 0, by_half_y = 0;
    double by_late = 0, by_early = 0, by_phi = 0, by_x = 0, by_sigma = 0, by_corner[2] = { 0, 0 }, lkj[4] = { 0 };
    (void)gpumc_neg_binomial_2_lpmf(0, 3, 1e-200, NULL, &by_phi);
    (void)gpumc_gamma_p(1, 1e-320, NULL, &by_x);
    (void)gpumc_cauchy_lccdf(1e40, 0, 1, NULL, NULL, &by_sigma);
    (void)gpumc_dirichlet_lpdf(corner, alpha, 2, by_corner, NULL);
    (void)gpumc_poisson_lcdf(1e12, 2e12, &by_lambda);
    (void)gpumc_binomial_lcdf(2.5e14, 1e15, 0.5, &by_p);
    (void)gpumc_student_t_lccdf(1e6, 1e12, 0, 1, &by_y, NULL, NULL, NULL);
    (void)gpumc_half_student_t_lccdf(1e6, 1e12, 1, &by_half_y, NULL, NULL);
    (void)gpumc_exp_mod_normal_lcdf(-1e8, 0, 1, 1, &by_late, NULL, NULL, NULL);
    (void)gpumc_inv_gaussian_lcdf(1e-20, 1, 1, &by_early, NULL, NULL);
    const double least = gpumc_exp_mod_normal_quantile(1e-12, 0, 1e-8, 1);
    const struct { const char *what; double value, known, within; } rows[] = {
        { "slope of a normal's lower tail, slow exponentials added", by_late, 1e8, 1e-13 },
        { "slope of a passage time's lower tail", by_early, 5e39, 1e-13 },
        { "quantile of a normal of hardly any width",
          gpumc_exp_mod_normal_lcdf(least, 0, 1e-8, 1, NULL, NULL, NULL, NULL), -27.631021115928547, 1e-12 },
        { "log(1 - exp(-1e-20))", gpumc_log1m_exp(-1e-20), -46.051701859880914, 1e-15 },
        { "log(1 - exp(-40))", gpumc_log1m_exp(-40), -4.248354255291589e-18, 1e-15 },
        { "log(exp(-1000) - exp(-1001))", gpumc_log_diff_exp(-1000, -1001), -1000.4586751453870819, 1e-15 },
        { "log(0 - 0)", exp(gpumc_log_diff_exp(-INFINITY, -INFINITY)), 0, 0 },
        { "log(1 - 1)", exp(gpumc_log_diff_exp(2, 2)), 0, 0 },
        { "log(e - 0)", gpumc_log_diff_exp(1, -INFINITY), 1, 1e-15 },
        { "a slow exponential's lower tail",
          gpumc_exp_mod_normal_lcdf(0.5, 0.7, 1.3, 1e-8, NULL, NULL, NULL, NULL), -19.276934184791224, 1e-14 },
        { "most of a beta-binomial law", gpumc_beta_binomial_lcdf(0, 2, 0.14, 826, NULL, NULL),
          -0.00033874941399487348, 1e-13 },
        { "gamma at the smallest number", gpumc_gamma_lpdf(DBL_MIN, 5, 1, NULL, NULL, NULL),
          -2836.7637279594043, 1e-14 },
        { "inverse gamma there", gpumc_inv_gamma_lpdf(DBL_MIN, 5, 1, NULL, NULL, NULL),
          -4.4942328371557898e307, 1e-14 },
        { "chi square there", gpumc_chi_square_lpdf(DBL_MIN, 0.5, NULL, NULL), 529.8360045793600, 1e-13 },
        { "cutpoints close together", gpumc_ordered_logistic_lpmf(1, 20, cuts, 3, NULL, NULL),
          -47.631021120050786, 1e-14 },
        { "the same of probit", gpumc_ordered_probit_lpmf(1, 20, cuts, 3, NULL, NULL), -228.54995964912322, 1e-14 },
        { "quantile of t with few degrees", gpumc_student_t_quantile(0.3, 1e-3, 0, 1), -1.1166e220, 1e-4 },
        { "of half t", gpumc_half_student_t_quantile(0.3, 1e-3, 1), 1.26e153, 5e-3 },
        { "of beta, at 1", gpumc_beta_quantile(0.4, 1, 5e-4), 1, 0 },
        { "of beta by proportion, at 1", gpumc_beta_proportion_quantile(0.3, 0.999, 0.4), 1, 0 },
        { "of no trials' successes", gpumc_binomial_quantile(1, 10, 0), 0, 0 },
        { "of a rate of 0", gpumc_poisson_quantile(1, 0), 0, 0 },
        { "log beta of the smallest number", gpumc_lbeta(5e-324, 1), 744.4400719213812, 1e-15 },
        { "derivative by phi", by_phi, -460.6156308874777, 1e-14 },
        { "derivative by x of P(1, x)", by_x, 1, 1e-12 },
        { "derivative by the scale of a Cauchy tail", by_sigma, 1, 1e-14 },
        { "derivative of a tail by lambda", by_lambda, -0.5000000000005, 1e-13 },
        { "by p", by_p, -1000000000000002.0, 1e-13 },
        { "by y of t", by_y, -500000.0000005, 1e-13 },
        { "by y of half t", by_half_y, -500000.0000005, 1e-13 },
        { "quantile of t with many degrees", gpumc_student_t_quantile(1e-300, 1e100, 0, 1), -37.0471, 1e-6 },
        { "of beta with a large b", gpumc_beta_quantile(0.5, 1, 1e89), 6.931471805599453e-90, 1e-12 },
        { "derivative at a corner of the simplex", by_corner[0], 0, 0 },
        { "variance of lognormal", gpumc_lognormal_variance(-1000, 30), 1.383896526736737e-87, 1e-12 },
        { "variance of weibull", gpumc_weibull_variance(1e8, 1), 1.6449340238174555e-16, 1e-12 },
        { "the same where the other way begins", gpumc_weibull_variance(1001, 1), 1.6373705784136711e-6, 1e-11 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(fabs(rows[i].value - rows[i].known) <= rows[i].within * fabs(rows[i].known), "%s: %.17g, known %.17g",
              rows[i].what, rows[i].value, rows[i].known);
    gpumc_lkj_corr_cholesky_variance(2, -1, lkj);
    CHECK(isnan(lkj[0]) && isnan(lkj[3]), "variance of LKJ with eta -1: %g", lkj[0]);
    CHECK(isnan(gpumc_student_t_lcdf(1, INFINITY, 0, 1, NULL, NULL, NULL, NULL)), "t of infinite degrees");
    CHECK(isnan(gpumc_half_student_t_lccdf(1, INFINITY, 1, NULL, NULL, NULL)), "half t of infinite degrees");
    CHECK(isnan(gpumc_lognormal_lccdf(-1, NAN, 1, NULL, NULL, NULL)), "lognormal before its support, mu NaN");
    CHECK(isnan(gpumc_beta_binomial_quantile(0.5, 1e17, 0, 3)), "quantile of no law, which takes no step");
}

int main(void)
{
    check_far_out();
    check_known();
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        for (size_t f = 0; f < N_FAMILIES; f++) {
            const double error = checks[i].run(&families[f]);
            CHECK(error <= 1, "%s: %s: %g times the tolerance", families[f].name, checks[i].what, error);
        }
    check_twins();
    check_known_vectors();
    if (!getenv("QUICK")) check_vector_draws();
    check_vector_edges();
    return check_end();
}
