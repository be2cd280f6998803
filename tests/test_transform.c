/* Constraints: maps, log Jacobians and chain rules against values of 17 digits (known_transform.h), numerical
   determinants and finite differences; saturation, extreme values, repeated vectors, refusals. The first
   three checks take an implementation and return its largest error, which must be large for the broken
   implementations. */
#include "check.h"
#include <float.h>
#include "../gpumc.h"
#include "known_transform.h"

enum { MAX_FREE = 45, MAX_NATURAL = 64 };

typedef double constrain_function(const gpumc_transform *t, const double *q, double *x);
typedef void gradient_function(const gpumc_transform *t, const double *q, const double *x, const double *dx,
                               double *dq);
typedef struct implementation { constrain_function *constrain; gradient_function *gradient; } implementation;
static const implementation ours = { gpumc_constrain, gpumc_constrain_gradient };

static const gpumc_transform kinds[] = {
    { .kind = GPUMC_UNBOUNDED },
    { .kind = GPUMC_POSITIVE },
    { .kind = GPUMC_POSITIVE, .typical = 0.3 },
    { .kind = GPUMC_LOWER, .lower = -1.5 },
    { .kind = GPUMC_LOWER, .lower = 4, .typical = 2 },
    { .kind = GPUMC_POSITIVE, .typical = -0.3 },
    { .kind = GPUMC_LOWER, .lower = 4, .typical = -2 },
    { .kind = GPUMC_UPPER, .upper = 7 },
    { .kind = GPUMC_UPPER, .upper = 0 },
    { .kind = GPUMC_UPPER, .upper = 4, .typical = 2 },
    { .kind = GPUMC_UPPER, .upper = -3, .typical = -2 },
    { .kind = GPUMC_POSITIVE, .typical = 0.3, .bend = 0.3 },
    { .kind = GPUMC_ORDERED, .typical = 0.3, .bend = 0.5 },
    { .kind = GPUMC_POSITIVE_ORDERED, .typical = -2 },
    { .kind = GPUMC_UPPER, .upper = 4, .typical = -2, .bend = 0.8 },
    { .kind = GPUMC_INTERVAL, .lower = -2, .upper = 3 },
    { .kind = GPUMC_INTERVAL, .lower = -1e6, .upper = 0 },
    { .kind = GPUMC_INTERVAL, .upper = 50, .typical = 0.1, .bend = 0.3 },
    { .kind = GPUMC_INTERVAL, .lower = -2, .upper = 3, .typical = -0.3 },
    { .kind = GPUMC_UNIT },
    { .kind = GPUMC_AFFINE, .offset = -3, .multiplier = 0.25 },
    { .kind = GPUMC_ORDERED },
    { .kind = GPUMC_POSITIVE_ORDERED },
    { .kind = GPUMC_SUM_TO_ZERO },
    { .kind = GPUMC_SIMPLEX },
    { .kind = GPUMC_CHOLESKY_CORR }
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static gpumc_transform sized(gpumc_transform t, size_t size, size_t count)
{
    t.size = size;
    t.count = count;
    return t;
}

static void draw(gpumc_rng *rng, double scale, size_t n, double *v)
{
    for (size_t i = 0; i < n; i++) v[i] = scale * gpumc_rng_normal(rng);
}

/* ---- numerical derivatives ---------------------------------------------------------------------- */

/* J, the Jacobian matrix (natural x free, row-major), and the gradient of the log Jacobian, by differences of fourth
   order. */
static void differences(const implementation *im, const gpumc_transform *t, const double *q, double *J,
                        double *log_jacobian_slope)
{
    static const double steps[] = { -2, -1, 1, 2 }, weights[] = { 1, -8, 8, -1 };
    const size_t n = gpumc_transform_free_size(t), m = gpumc_transform_natural_size(t);
    const double h = 1e-3;
    double point[MAX_FREE], x[MAX_NATURAL];
    memset(J, 0, n * m * sizeof *J);
    memset(log_jacobian_slope, 0, n * sizeof *log_jacobian_slope);
    for (size_t k = 0; k < n; k++)
        for (int s = 0; s < 4; s++) {
            memcpy(point, q, n * sizeof *q);
            point[k] += h * steps[s];
            log_jacobian_slope[k] += weights[s] * im->constrain(t, point, x) / (12 * h);
            for (size_t i = 0; i < m; i++) J[i * n + k] += weights[s] * x[i] / (12 * h);
        }
}

/* log |det a|, n x n, by elimination with partial pivoting; overwrites a. */
static double log_determinant(double *a, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
        size_t top = k;
        for (size_t i = k; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[top * n + k])) top = i;
        for (size_t j = 0; j < n; j++) {
            const double kept = a[k * n + j];
            a[k * n + j] = a[top * n + j];
            a[top * n + j] = kept;
        }
        sum += log(fabs(a[k * n + k]));
        for (size_t i = k + 1; i < n; i++)
            for (size_t j = n; j-- > k;) a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
    }
    return sum;
}

/* Whether value i is one of the coordinates in which the density of its vector is defined: all but the last of a
   simplex, those below the diagonal of a factor. */
static int in_chart(const gpumc_transform *t, size_t i)
{
    if (t->kind == GPUMC_SIMPLEX) return i % t->size < t->size - 1;
    if (t->kind == GPUMC_CHOLESKY_CORR) return i % t->size < i / t->size % t->size;
    return 1;
}

/* log |dx/dq| from J: the determinant over the coordinates of in_chart; for vectors of sum zero 1/2 log |J'J|. */
static double numerical_log_jacobian(const gpumc_transform *t, const double *J)
{
    static double a[MAX_FREE * MAX_FREE];
    const size_t n = gpumc_transform_free_size(t), m = gpumc_transform_natural_size(t);
    size_t row = 0;
    memset(a, 0, sizeof a);
    if (t->kind == GPUMC_SUM_TO_ZERO) {
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                for (size_t k = 0; k < n; k++) a[j * n + k] += J[i * n + j] * J[i * n + k];
        return log_determinant(a, n) / 2;
    }
    for (size_t i = 0; i < m; i++)
        if (in_chart(t, i)) memcpy(a + row++ * n, J + i * n, n * sizeof *a);
    return log_determinant(a, n);
}

static double determinant_error(const implementation *im, const gpumc_transform *t, const double *q)
{
    static double J[MAX_NATURAL * MAX_FREE];
    double slope[MAX_FREE], x[MAX_NATURAL];
    const double log_jacobian = im->constrain(t, q, x);
    differences(im, t, q, J, slope);
    return fabs(log_jacobian - numerical_log_jacobian(t, J)) / (1 + fabs(log_jacobian));
}

static double gradient_error(const implementation *im, const gpumc_transform *t, const double *q,
                             const double *dx)
{
    static double J[MAX_NATURAL * MAX_FREE];
    const size_t n = gpumc_transform_free_size(t), m = gpumc_transform_natural_size(t);
    double slope[MAX_FREE], dq[MAX_FREE], x[MAX_NATURAL], worst = 0;
    im->constrain(t, q, x);
    im->gradient(t, q, x, dx, dq);
    differences(im, t, q, J, slope);
    for (size_t k = 0; k < n; k++) {
        double expected = slope[k], size = 1 + fabs(slope[k]);
        for (size_t i = 0; i < m; i++) {
            expected += J[i * n + k] * dx[i];
            size += fabs(J[i * n + k] * dx[i]) + 1e-6 * fabs(x[i] * dx[i]);
        }
        worst = check_worst(worst, fabs(dq[k] - expected) / size);
    }
    return worst;
}

/* Largest errors of log Jacobian and chain rule at random points of a kind, for single and repeated vectors. */
static void numerical_errors(const implementation *im, const gpumc_transform *kind, double *determinant,
                             double *gradient)
{
    static const size_t sizes[] = { 1, 2, 3, 5 };
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    double q[MAX_FREE], dx[MAX_NATURAL];
    *determinant = *gradient = 0;
    for (size_t s = 0; s < 4; s++)
        for (size_t count = 1; count <= 2; count++)
            for (int trial = 0; trial < 20; trial++) {
                const gpumc_transform t = sized(*kind, sizes[s], count);
                draw(&rng, 1, gpumc_transform_free_size(&t), q);
                draw(&rng, 1, gpumc_transform_natural_size(&t), dx);
                *determinant = fmax(*determinant, determinant_error(im, &t, q));
                *gradient = fmax(*gradient, gradient_error(im, &t, q, dx));
            }
}

/* ---- known values ------------------------------------------------------------------------------- */

static gpumc_transform known_of(const known_transform *k)
{
    gpumc_transform t = { .kind = k->kind, .size = k->size };
    t.lower = k->lower;
    t.upper = k->upper;
    t.offset = k->offset;
    t.multiplier = k->multiplier;
    t.typical = k->typical;
    t.bend = k->bend;
    return t;
}

/* The largest error, relative to the scale of rounding errors. This scale is, for x, which stays above the smallest
   normal number, its own size and its bounds or, after a change of basis, sum |q|; for the log Jacobian, sum |q|; for
   the gradient, its own size, the slope of the log Jacobian (with scores h - q: |q|), and the size of J' dx. */
static double known_error(const implementation *im, const known_transform *k)
{
    const gpumc_transform t = known_of(k);
    const size_t n = gpumc_transform_free_size(&t), m = gpumc_transform_natural_size(&t);
    const double bounds = fabs(t.lower) + fabs(t.upper) + fabs(t.offset);
    double x[KNOWN_NATURAL], dq[KNOWN_FREE], size_q = 1, size_x = 0, worst;
    const double log_jacobian = im->constrain(&t, k->q, x);
    const int elementwise = t.kind < GPUMC_ORDERED;
    im->gradient(&t, k->q, x, k->dx, dq);
    for (size_t i = 0; i < n; i++) size_q += (double)k->size * fabs(k->q[i]);
    worst = fabs(log_jacobian - k->log_jacobian) / size_q;
    for (size_t i = 0; i < m; i++) {
        const double size = t.kind == GPUMC_SUM_TO_ZERO ? size_q
            : t.kind == GPUMC_SIMPLEX ? size_q * fabs(k->x[i])
            : fabs(k->x[i]) + (elementwise ? bounds : 0);
        worst = check_worst(worst, fabs(x[i] - k->x[i]) / (size + 1e-290));
        size_x += (fabs(k->x[i]) + bounds) * fabs(k->dx[i]);
    }
    for (size_t i = 0; i < n; i++) {
        const double here = elementwise ? (fabs(k->x[i]) + bounds) * fabs(k->dx[i]) : size_x;
        const double slope = (double)k->size + (k->typical != 0 ? fabs(k->q[i]) : 0);
        worst = check_worst(worst, fabs(dq[i] - k->dq[i]) / (slope + fabs(k->dq[i]) + here));
    }
    return worst;
}

/* With a bend, the rounding error of v, v epsilon / 2, becomes in E = exp(-v^2 / 2) a relative error v times as
   large, 28^2 / 2 epsilon at q = -30, where the known values begin. So errors of bent transforms count one tenth. */
static double worst_known(const implementation *im, const gpumc_transform *kind)
{
    double worst = 0;
    for (size_t i = 0; i < sizeof known_transforms / sizeof *known_transforms; i++) {
        const known_transform *known = &known_transforms[i];
        const double share = known->bend > 0 ? 0.1 : 1;
        if (known->kind == kind->kind) worst = check_worst(worst, share * known_error(im, known));
    }
    return worst;
}

/* ---- broken implementations --------------------------------------------------------------------- */

static double without_jacobian(const gpumc_transform *t, const double *q, double *x)
{
    gpumc_constrain(t, q, x);
    return 0;
}
static double turned_jacobian(const gpumc_transform *t, const double *q, double *x)
{
    return -gpumc_constrain(t, q, x);
}
/* The gradient is affine in dx, and its value at dx = 0 is the gradient of the log Jacobian. */
static void changed_slope(const gpumc_transform *t, const double *q, const double *x, const double *dx,
                          double *dq, double change)
{
    double zero[MAX_NATURAL] = { 0 }, slope[MAX_FREE];
    gpumc_constrain_gradient(t, q, x, dx, dq);
    gpumc_constrain_gradient(t, q, x, zero, slope);
    for (size_t i = 0; i < gpumc_transform_free_size(t); i++) dq[i] += change * slope[i];
}
static void without_slope(const gpumc_transform *t, const double *q, const double *x, const double *dx,
                          double *dq)
{
    changed_slope(t, q, x, dx, dq, -1);
}
static void turned_slope(const gpumc_transform *t, const double *q, const double *x, const double *dx,
                         double *dq)
{
    changed_slope(t, q, x, dx, dq, -2);
}
static void turned_pull(const gpumc_transform *t, const double *q, const double *x, const double *dx,
                        double *dq)
{
    double minus[MAX_NATURAL];
    for (size_t i = 0; i < gpumc_transform_natural_size(t); i++) minus[i] = -dx[i];
    gpumc_constrain_gradient(t, q, x, minus, dq);
}

static const double KNOWN_LIMIT = 40 * DBL_EPSILON, NUMERICAL_LIMIT = 1e-9;

static void check_kind(size_t k)
{
    const double known = worst_known(&ours, &kinds[k]);
    double determinant, gradient;
    numerical_errors(&ours, &kinds[k], &determinant, &gradient);
    CHECK(known < KNOWN_LIMIT, "kind %d: %g from known values", (int)kinds[k].kind, known);
    CHECK(determinant < NUMERICAL_LIMIT, "kind %d: %g from determinants", (int)kinds[k].kind, determinant);
    CHECK(gradient < NUMERICAL_LIMIT, "kind %d: %g from differences", (int)kinds[k].kind, gradient);
}

static void check_broken(size_t k)
{
    static const implementation broken[] = { { without_jacobian, gpumc_constrain_gradient },
        { turned_jacobian, gpumc_constrain_gradient }, { gpumc_constrain, without_slope },
        { gpumc_constrain, turned_slope }, { gpumc_constrain, turned_pull } };
    const gpumc_kind kind = kinds[k].kind;
    const int no_jacobian = kind == GPUMC_UNBOUNDED || kind == GPUMC_SUM_TO_ZERO;
    const int no_slope = no_jacobian || kind == GPUMC_AFFINE;
    for (size_t b = 0; b < sizeof broken / sizeof *broken; b++) {
        double determinant, gradient;
        if ((b < 2 && no_jacobian) || (b >= 2 && b < 4 && no_slope)) continue;
        numerical_errors(&broken[b], &kinds[k], &determinant, &gradient);
        CHECK(worst_known(&broken[b], &kinds[k]) > 1e3 * KNOWN_LIMIT, "kind %d: broken %d passes", (int)kind,
              (int)b);
        CHECK((b < 2 ? determinant : gradient) > 1e3 * NUMERICAL_LIMIT, "kind %d: broken %d passes",
              (int)kind, (int)b);
    }
}

/* ---- round trips, saturation, repetition -------------------------------------------------------- */

static int strictly_inside(const gpumc_transform *t, const double *x)
{
    const gpumc_kind kind = t->kind;
    const int rising = kind == GPUMC_ORDERED || kind == GPUMC_POSITIVE_ORDERED;
    const int positive = kind == GPUMC_POSITIVE || kind == GPUMC_UNIT || kind == GPUMC_POSITIVE_ORDERED
        || kind == GPUMC_SIMPLEX;
    int inside = 1;
    for (size_t i = 0; i < gpumc_transform_natural_size(t); i++) {
        const int first = i % t->size == 0, diagonal = i % t->size == i / t->size % t->size;
        if (!isfinite(x[i])) inside = 0;
        if ((kind == GPUMC_LOWER || kind == GPUMC_INTERVAL) && !(x[i] > t->lower)) inside = 0;
        if ((kind == GPUMC_UPPER || kind == GPUMC_INTERVAL) && !(x[i] < t->upper)) inside = 0;
        if (kind == GPUMC_UNIT && !(x[i] < 1)) inside = 0;
        if (rising && !first && !(x[i] > x[i - 1])) inside = 0;
        if ((positive || (kind == GPUMC_CHOLESKY_CORR && diagonal)) && !(x[i] >= DBL_MIN)) inside = 0;
    }
    return inside;
}

/* constrain and unconstrain are inverses: q is recovered where it is well determined (|q| about 1), x always. */
static void check_round_trip(size_t k)
{
    gpumc_rng rng = gpumc_rng_at(2, 0, 0, 0);
    double worst_q = 0, worst_x = 0, q[MAX_FREE], x[MAX_NATURAL], back[MAX_FREE], again[MAX_NATURAL];
    for (int trial = 0; trial < 300; trial++) {
        const gpumc_transform t = sized(kinds[k], (size_t)(1 + trial % 5), (size_t)(trial % 3));
        const double scale = trial % 2 ? 1 : 20;
        gpumc_error error = { GPUMC_OK, "" };
        draw(&rng, scale, gpumc_transform_free_size(&t), q);
        gpumc_constrain(&t, q, x);
        CHECK(gpumc_unconstrain(&t, x, back, &error) == GPUMC_OK, "kind %d: %s", (int)t.kind, error.text);
        gpumc_constrain(&t, back, again);
        for (size_t i = 0; scale < 2 && i < gpumc_transform_free_size(&t); i++)
            worst_q = check_worst(worst_q, fabs(back[i] - q[i]));
        for (size_t i = 0; i < gpumc_transform_natural_size(&t); i++)
            worst_x = check_worst(worst_x, fabs(again[i] - x[i]) / (1 + fabs(x[i])));
    }
    worst_q /= 1 + fabs(kinds[k].lower);
    worst_x /= 1 + fabs(kinds[k].lower);
    CHECK(worst_q < 1e-12, "kind %d: q returns within %g", (int)kinds[k].kind, worst_q);
    CHECK(worst_x < 1e-13, "kind %d: x returns within %g", (int)kinds[k].kind, worst_x);
}

/* Random combinations of extreme free coordinates give values strictly inside, finite log Jacobians and gradients.
   Ordered vectors are not given the last two: sums of e^709.7 would overflow. */
static void check_extremes(size_t k)
{
    static const double extremes[] = { -700, -40, -1e-300, 0, 5e-324, 0.5, 36.7, 40, 700, -708.5, -745, -1000,
                                       709.7, 1000 };
    const int rising = kinds[k].kind == GPUMC_ORDERED || kinds[k].kind == GPUMC_POSITIVE_ORDERED;
    const size_t n_extremes = sizeof extremes / sizeof *extremes - (rising ? 2 : 0);
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    double q[MAX_FREE], x[MAX_NATURAL], dx[MAX_NATURAL], dq[MAX_FREE], back[MAX_FREE];
    for (int trial = 0; trial < 2000; trial++) {
        const gpumc_transform t = sized(kinds[k], (size_t)(1 + trial % 5), 1);
        const size_t n = gpumc_transform_free_size(&t), m = gpumc_transform_natural_size(&t);
        gpumc_error error = { GPUMC_OK, "" };
        double log_jacobian;
        int finite = 1;
        for (size_t i = 0; i < n; i++) q[i] = extremes[gpumc_rng_below(&rng, n_extremes)];
        draw(&rng, 1e-3, m, dx);
        log_jacobian = gpumc_constrain(&t, q, x);
        gpumc_constrain_gradient(&t, q, x, dx, dq);
        for (size_t i = 0; i < n; i++) finite &= isfinite(dq[i]) != 0;
        CHECK(strictly_inside(&t, x), "kind %d, q %g %g ...: x %.17g %.17g ...", (int)t.kind, q[0], q[1],
              x[0], x[1]);
        CHECK(isfinite(log_jacobian), "kind %d, q %g ...: log Jacobian %g", (int)t.kind, q[0], log_jacobian);
        CHECK(finite, "kind %d, q %g ...: gradient %g ...", (int)t.kind, q[0], dq[0]);
        CHECK(gpumc_unconstrain(&t, x, back, &error) == GPUMC_OK, "kind %d: %s", (int)t.kind, error.text);
    }
}

/* A NaN in q leads to a NaN in x. */
static void check_nan(size_t k)
{
    const gpumc_transform t = sized(kinds[k], 3, 1);
    double q[MAX_FREE] = { 0.1, NAN, 0.3 }, x[MAX_NATURAL], sum = 0;
    const double log_jacobian = gpumc_constrain(&t, q, x);
    for (size_t i = 0; i < gpumc_transform_natural_size(&t); i++) sum += x[i];
    CHECK(isnan(sum), "kind %d: NaN became %g", (int)t.kind, x[1]);
    CHECK(isnan(log_jacobian) || t.kind == GPUMC_UNBOUNDED || t.kind == GPUMC_AFFINE
          || t.kind == GPUMC_SUM_TO_ZERO, "kind %d: log Jacobian %g", (int)t.kind, log_jacobian);
}

/* A block of vectors is treated as its vectors one by one, and an elementwise block as its values one by one, for
   lengths that leave every remainder in vectorised loops and pieces. */
static void check_repetition(size_t k)
{
    enum { ROOM = 1100 };
    static double q[ROOM], x[ROOM], dx[ROOM], dq[ROOM], x_1[ROOM], dq_1[ROOM];
    const int elementwise = kinds[k].kind < GPUMC_ORDERED;
    gpumc_rng rng = gpumc_rng_at(4, 0, 0, 0);
    for (size_t count = 1; count <= 150; count = count < 20 ? count + 1 : count + 43) {
        const size_t size = elementwise ? 1 : kinds[k].kind == GPUMC_CHOLESKY_CORR ? 2 : 7;
        const gpumc_transform t = sized(kinds[k], size, count), one = sized(kinds[k], size, 1);
        const size_t n = gpumc_transform_free_size(&one), m = gpumc_transform_natural_size(&one);
        double log_jacobian, sum = 0, size_sum = 0, worst = 0;
        draw(&rng, 3, n * count, q);
        draw(&rng, 1, m * count, dx);
        log_jacobian = gpumc_constrain(&t, q, x);
        gpumc_constrain_gradient(&t, q, x, dx, dq);
        for (size_t v = 0; v < count; v++) {
            const double part = gpumc_constrain(&one, q + v * n, x_1 + v * m);
            sum += part;
            size_sum += fabs(part);
            gpumc_constrain_gradient(&one, q + v * n, x_1 + v * m, dx + v * m, dq_1 + v * n);
        }
        for (size_t i = 0; i < m * count; i++) worst = check_worst(worst, check_distance(x[i], x_1[i], 1));
        for (size_t i = 0; i < n * count; i++) worst = check_worst(worst, check_distance(dq[i], dq_1[i], 1));
        CHECK(worst < 4 * DBL_EPSILON * (1 + fabs(t.lower)), "kind %d x %d: %g", (int)t.kind, (int)count,
              worst);
        CHECK(fabs(log_jacobian - sum) <= 1e-14 * (1 + size_sum), "kind %d x %d: %.17g, one by one %.17g",
              (int)t.kind, (int)count, log_jacobian, sum);
    }
}

static void check_sizes(void)
{
    const gpumc_transform huge = { .kind = GPUMC_CHOLESKY_CORR, .size = SIZE_MAX / 2, .count = 3 };
    double unused = 0;
    for (size_t k = 0; k < N_KINDS; k++) {
        const gpumc_transform t = sized(kinds[k], 5, 3), empty = sized(kinds[k], 0, 1);
        const int less = t.kind == GPUMC_SUM_TO_ZERO || t.kind == GPUMC_SIMPLEX;
        const size_t natural = t.kind == GPUMC_CHOLESKY_CORR ? 25 : 5;
        const size_t n_free = natural == 25 ? 10 : less ? 4 : 5;
        CHECK(gpumc_transform_free_size(&t) == 3 * n_free, "kind %d", (int)t.kind);
        CHECK(gpumc_transform_natural_size(&t) == 3 * natural, "kind %d", (int)t.kind);
        CHECK(gpumc_transform_free_size(&empty) == 0, "kind %d", (int)t.kind);
        CHECK(gpumc_constrain(&empty, &unused, &unused) == 0, "kind %d", (int)t.kind);
    }
    CHECK(gpumc_transform_free_size(&huge) == SIZE_MAX, "sizes must saturate");
    CHECK(gpumc_transform_natural_size(&huge) == SIZE_MAX, "sizes must saturate");
}

/* A large factor against formulas with tanh and sqrt in place of hyperbolic secants. */
static void check_large_factor(void)
{
    const gpumc_transform t = { .kind = GPUMC_CHOLESKY_CORR, .size = 40 };
    static double q[780], x[1600], back[780];
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    double expected = 0, worst = 0, log_jacobian;
    draw(&rng, 0.4, 780, q);
    log_jacobian = gpumc_constrain(&t, q, x);
    for (size_t i = 1, k = 0; i < 40; i++) {
        double square = 0;
        for (size_t j = 0; j < i; j++, k++) {
            expected += log1p(-tanh(q[k]) * tanh(q[k])) + 0.5 * log1p(-square);
            worst = check_worst(worst, fabs(x[i * 40 + j] - tanh(q[k]) * sqrt(1 - square)));
            square += x[i * 40 + j] * x[i * 40 + j];
        }
        worst = check_worst(worst, fabs(x[i * 40 + i] - sqrt(1 - square)));
    }
    CHECK(worst < 1e-12, "40 x 40 factor: %g", worst);
    CHECK(fabs(log_jacobian - expected) < 1e-12 * fabs(expected), "log Jacobian %.17g, %.17g", log_jacobian,
          expected);
    CHECK(gpumc_unconstrain(&t, x, back, NULL) == GPUMC_OK, "40 x 40 factor refused");
    for (size_t k = 0; k < 780; k++) worst = check_worst(worst, fabs(back[k] - q[k]));
    CHECK(worst < 1e-12, "40 x 40 factor returns within %g", worst);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void check_refusal(gpumc_transform t, const double *x, const char *text)
{
    gpumc_error error = { GPUMC_OK, "" };
    double q[MAX_FREE];
    CHECK(gpumc_unconstrain(&t, x, q, &error) == GPUMC_ERROR_ARGUMENT, "accepted, not: %s", text);
    CHECK(error.status == GPUMC_ERROR_ARGUMENT && strcmp(error.text, text) == 0, "\"%s\", not \"%s\"",
          error.text, text);
    CHECK(gpumc_unconstrain(&t, x, q, NULL) == GPUMC_ERROR_ARGUMENT, "accepted without an error text");
    CHECK(gpumc_unconstrain(NULL, x, q, &error) == GPUMC_ERROR_ARGUMENT && strstr(error.text, "NULL"),
          "NULL: %s", error.text);
}

static void check_refusals(void)
{
    static const struct { gpumc_transform t; double x[9]; const char *text; } refused[] = {
        { { .kind = GPUMC_UNBOUNDED, .size = 2 }, { 1, NAN }, "x[1] = nan is not finite; give a number" },
        { { .kind = GPUMC_POSITIVE, .size = 3 }, { 1, 2, -0.5 },
          "x[2] = -0.5 is not above the lower bound 0; give a value strictly inside" },
        { { .kind = GPUMC_POSITIVE, .size = 1 }, { INFINITY }, "x[0] = inf is not finite; give a number" },
        { { .kind = GPUMC_LOWER, .size = 1, .lower = 3 }, { 3 },
          "x[0] = 3 is not above the lower bound 3; give a value strictly inside" },
        { { .kind = GPUMC_LOWER, .size = 1, .lower = 3, .typical = 1 }, { 2.5 },
          "x[0] = 2.5 is not above the lower bound 3; give a value strictly inside" },
        { { .kind = GPUMC_UPPER, .size = 1, .upper = -1 }, { 0 },
          "x[0] = 0 is not below the upper bound -1; give a value strictly inside" },
        { { .kind = GPUMC_INTERVAL, .size = 1, .lower = 1, .upper = 2 }, { 2 },
          "x[0] = 2 is not below the upper bound 2; give a value strictly inside" },
        { { .kind = GPUMC_UNIT, .size = 2 }, { 0.5, 0 },
          "x[1] = 0 is not above the lower bound 0; give a value strictly inside" },
        { { .kind = GPUMC_AFFINE, .size = 1, .multiplier = 1 }, { -INFINITY },
          "x[0] = -inf is not finite; give a number" },
        { { .kind = GPUMC_ORDERED, .size = 2, .count = 2 }, { 1, 2, 5, 5 },
          "x[3] = 5 is not above the value before; sort, without ties" },
        { { .kind = GPUMC_ORDERED, .size = 2 }, { 1, NAN }, "x[1] = nan is not finite; give a number" },
        { { .kind = GPUMC_POSITIVE_ORDERED, .size = 2 }, { 0, 5 },
          "x[0] = 0 is not positive; start above 0" },
        { { .kind = GPUMC_SUM_TO_ZERO, .size = 2 }, { 1, 2 },
          "x[0] to x[1] sum to 3, not to 0; subtract their mean" },
        { { .kind = GPUMC_SUM_TO_ZERO, .size = 2 }, { 1, INFINITY },
          "x[1] = inf is not finite; give a number" },
        { { .kind = GPUMC_SIMPLEX, .size = 2, .count = 2 }, { 0.5, 0.5, 0.25, 0.25 },
          "x[2] to x[3] sum to 0.5, not to 1; divide by the sum" },
        { { .kind = GPUMC_SIMPLEX, .size = 2 }, { 1, 0 },
          "x[1] = 0 is not positive; every part of a simplex must be" },
        { { .kind = GPUMC_CHOLESKY_CORR, .size = 2 }, { 1, 0, 0.8, 0.8 },
          "x[2] to x[3], a row, have norm 1.13137085, not 1; divide by the norm" },
        { { .kind = GPUMC_CHOLESKY_CORR, .size = 2 }, { 1, 0.1, 0.6, 0.8 },
          "x[1] = 0.1 is above the diagonal; set it to 0" },
        { { .kind = GPUMC_CHOLESKY_CORR, .size = 2 }, { 1, 0, 0.6, -0.8 },
          "x[3] = -0.8 is on the diagonal and not positive; give a Cholesky factor" },
        { { .kind = (gpumc_kind)77, .size = 1 }, { 1 }, "kind 77 is unknown; use a GPUMC_... kind" }
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refusal(refused[i].t, refused[i].x, refused[i].text);
}

int main(void)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        check_kind(k);
        check_broken(k);
        check_round_trip(k);
        check_extremes(k);
        check_nan(k);
        check_repetition(k);
    }
    check_sizes();
    check_large_factor();
    check_refusals();
    return check_end();
}
