/* The leaf functions against values of 60 digits (known_math.h) and at special values, as loops for every
   instruction set that the processor has and as plain calls. Prints the largest error in ULP, and where. */
#include "../gpumc.h"
#include "check.h"
#include "math_loops.h"
#include "known_math.h"

/* ---- plain calls, as in a user's density, beside the loops --------------------------------------- */

#define PLAIN(name, ulps, unit, call) \
    static void plain_##name(const double *xs, const double *ys, double *out, size_t n) \
    { \
        for (size_t i = 0; i < n; i++) { const double x = xs[i], y = ys[i]; (void)y; out[i] = call; } \
    }
#define PLAIN_ENTRY(name, ulps, unit, call) plain_##name,
LOOPS(PLAIN)
static loops_fn *const plain[] = { LOOPS(PLAIN_ENTRY) };

/* Set 0 is plain calls; -ffast-math reaches into those. */
#ifdef ONLY_LOOPS
#define FIRST_SET 1
#else
#define FIRST_SET 0
#endif
static int last_set(void) { return loops_sets(); }
static const char *set_name(int set) { return set ? loops_set_names[set - 1] : "plain"; }

static void run(int set, const loops_leaf *leaf, const double *x, const double *y, double *out, size_t n)
{
    if (set) leaf->run[set - 1](x, y, out, n);
    else plain[leaf - loops_leaves](x, y, out, n);
}

/* ---- known values -------------------------------------------------------------------------------- */

#define MOST 320
typedef struct { double ulps, x, y; } worst;

static worst largest_error(const loops_leaf *leaf, loops_fn *f, int set, const known_point *points, size_t n)
{
    double x[MOST], y[MOST], out[MOST];
    worst found = { 0, 0, 0 };
    for (size_t i = 0; i < n; i++) x[i] = points[i].x, y[i] = points[i].y;
    if (f) f(x, y, out, n);
    else run(set, leaf, x, y, out, n);
    for (size_t i = 0; i < n; i++) {
        const loops_leaf by_value = { "", 0, LOOPS_VALUE, { 0 } };
        const double value = points[i].value, rest = points[i].rest * loops_ulp(&by_value, 0, 0, value);
        const double ulps = fabs((out[i] - value) - rest) / loops_ulp(leaf, x[i], y[i], value);
        if (!(ulps <= found.ulps)) found.ulps = isnan(ulps) ? INFINITY : ulps, found.x = x[i], found.y = y[i];
    }
    return found;
}

static void check_known(void)
{
    CHECK(sizeof known_tables / sizeof *known_tables == LOOPS_COUNT, "a leaf without known values");
    printf("%-12s", "largest ULP");
    for (int set = FIRST_SET; set <= last_set(); set++) printf(" %9s", set_name(set));
    printf("   allowed   at\n");
    for (size_t t = 0; t < sizeof known_tables / sizeof *known_tables; t++) {
        const loops_leaf *leaf = loops_find(known_tables[t].name);
        worst found = { 0, 0, 0 };
        CHECK(leaf && known_tables[t].n <= MOST, "%s", known_tables[t].name);
        printf("%-12s", leaf->name);
        for (int set = FIRST_SET; set <= last_set(); set++) {
            found = largest_error(leaf, NULL, set, known_tables[t].points, known_tables[t].n);
            printf(" %9.3f", found.ulps);
            CHECK(found.ulps <= leaf->ulps, "%s, %s: %.3f ULP at %.17g %.17g", leaf->name, set_name(set),
                  found.ulps, found.x, found.y);
        }
        printf("   %7.3f   %.17g", leaf->ulps, found.x);
        if (found.y != 0) printf(" %.17g", found.y);
        printf("\n");
    }
}

/* ---- special values ------------------------------------------------------------------------------ */

#define INF INFINITY
#define MAX 1.7976931348623157e308
#define TINY 4.9406564584124654e-324

typedef struct { const char *name; double x, y, value; } special;
#define S(name, x, value) { #name, x, 0, value }
#define S2(name, x, y, value) { #name, x, y, value }
#define NAN_OF(name) S(name, NAN, NAN)
static const special specials[] = {
    NAN_OF(exp), S(exp, INF, INF), S(exp, -INF, 0), S(exp, 0, 1), S(exp, -0.0, 1), S(exp, TINY, 1),
    S(exp, 709.79, INF), S(exp, MAX, INF), S(exp, -745.14, 0), S(exp, -MAX, 0),
    NAN_OF(expm1), S(expm1, INF, INF), S(expm1, -INF, -1), S(expm1, 0, 0), S(expm1, -0.0, -0.0),
    S(expm1, TINY, TINY), S(expm1, -3 * TINY, -3 * TINY), S(expm1, 709.79, INF), S(expm1, -1e4, -1),
    S(expm1, MAX, INF),
    NAN_OF(log), S(log, INF, INF), S(log, -INF, NAN), S(log, 0, -INF), S(log, -0.0, -INF), S(log, -TINY, NAN),
    S(log, -1, NAN), S(log, 1, 0),
    NAN_OF(log1p), S(log1p, INF, INF), S(log1p, -INF, NAN), S(log1p, 0, 0), S(log1p, -0.0, -0.0),
    S(log1p, -1, -INF), S(log1p, -1.5, NAN), S(log1p, TINY, TINY), S(log1p, -3 * TINY, -3 * TINY),
    NAN_OF(sqrt), S(sqrt, INF, INF), S(sqrt, -INF, NAN), S(sqrt, 0, 0), S(sqrt, -0.0, -0.0),
    S(sqrt, -TINY, NAN), S(sqrt, 4, 2), S(sqrt, MAX, 1.3407807929942596e154),
    NAN_OF(rsqrt), S(rsqrt, INF, 0), S(rsqrt, -INF, NAN), S(rsqrt, 0, INF), S(rsqrt, -0.0, -INF),
    S(rsqrt, -1, NAN),
    NAN_OF(fabs), S(fabs, -INF, INF), S(fabs, -0.0, 0), S(fabs, -TINY, TINY),
    NAN_OF(floor), S(floor, INF, INF), S(floor, -INF, -INF), S(floor, 0, 0), S(floor, -0.0, -0.0),
    S(floor, 0.5, 0), S(floor, -0.5, -1), S(floor, 1.5, 1), S(floor, -1.5, -2), S(floor, 2.5, 2),
    S(floor, -2.5, -3), S(floor, -MAX, -MAX), S(floor, 9007199254740993.0, 9007199254740993.0),
    NAN_OF(erf), S(erf, INF, 1), S(erf, -INF, -1), S(erf, 0, 0), S(erf, -0.0, -0.0), S(erf, 30, 1),
    S(erf, -MAX, -1),
    NAN_OF(erfc), S(erfc, INF, 0), S(erfc, -INF, 2), S(erfc, 0, 1), S(erfc, -0.0, 1), S(erfc, 28, 0),
    S(erfc, -MAX, 2),
    NAN_OF(erfcx), S(erfcx, INF, 0), S(erfcx, -INF, INF), S(erfcx, 0, 1), S(erfcx, -0.0, 1),
    S(erfcx, -27, INF),
    NAN_OF(Phi), S(Phi, INF, 1), S(Phi, -INF, 0), S(Phi, 0, 0.5), S(Phi, -0.0, 0.5), S(Phi, -39, 0),
    S(Phi, 9, 1),
    NAN_OF(log_Phi), S(log_Phi, INF, 0), S(log_Phi, -INF, -INF), S(log_Phi, -1e200, -INF), S(log_Phi, MAX, 0),
    NAN_OF(mills), S(mills, INF, 0), S(mills, -INF, INF), S(mills, -38, INF),
    NAN_OF(mills_excess), S(mills_excess, INF, 0), S(mills_excess, -INF, INF), S(mills_excess, -MAX, MAX),
    NAN_OF(inv_Phi), S(inv_Phi, 0, -INF), S(inv_Phi, -0.0, -INF), S(inv_Phi, 1, INF), S(inv_Phi, 0.5, 0),
    S(inv_Phi, -0.1, NAN), S(inv_Phi, 1.1, NAN), S(inv_Phi, INF, NAN), S(inv_Phi, -INF, NAN),
    NAN_OF(lgamma), S(lgamma, INF, INF), S(lgamma, -INF, NAN), S(lgamma, 0, INF), S(lgamma, -0.0, INF),
    S(lgamma, -0.5, NAN), S(lgamma, -3, NAN), S(lgamma, 1, 0), S(lgamma, 2, 0), S(lgamma, MAX, INF),
    NAN_OF(digamma), S(digamma, INF, INF), S(digamma, -INF, NAN), S(digamma, 0, -INF), S(digamma, -0.0, -INF),
    S(digamma, -0.5, NAN), S(digamma, -3, NAN), S(digamma, TINY, -INF),
    S2(lbeta, NAN, 1, NAN), S2(lbeta, 1, NAN, NAN), S2(lbeta, 0, 1, INF), S2(lbeta, 1, 0, INF),
    S2(lbeta, INF, 1, -INF), S2(lbeta, 1, INF, -INF), S2(lbeta, -1, 2, NAN), S2(lbeta, 3, -1, NAN),
    S2(lbeta, -3, -4, NAN), S2(lbeta, NAN, INF, NAN),
    NAN_OF(log1p_exp), S(log1p_exp, INF, INF), S(log1p_exp, -INF, 0), S(log1p_exp, 800, 800),
    S(log1p_exp, -800, 0),
    S2(log_sum_exp, NAN, 1, NAN), S2(log_sum_exp, 1, NAN, NAN), S2(log_sum_exp, NAN, INF, NAN),
    S2(log_sum_exp, INF, NAN, NAN), S2(log_sum_exp, INF, INF, INF), S2(log_sum_exp, -INF, -INF, -INF),
    S2(log_sum_exp, INF, -INF, INF), S2(log_sum_exp, -INF, INF, INF), S2(log_sum_exp, -INF, 3, 3),
    S2(log_sum_exp, 3, -INF, 3), S2(log_sum_exp, MAX, -MAX, MAX),
    NAN_OF(logit), S(logit, 0, -INF), S(logit, -0.0, -INF), S(logit, 1, INF), S(logit, 0.5, 0),
    S(logit, -0.1, NAN), S(logit, 1.1, NAN), S(logit, INF, NAN), S(logit, -INF, NAN),
    NAN_OF(inv_logit), S(inv_logit, INF, 1), S(inv_logit, -INF, 0), S(inv_logit, 0, 0.5),
    S(inv_logit, 800, 1), S(inv_logit, -800, 0),
    NAN_OF(tanh), S(tanh, INF, 1), S(tanh, -INF, -1), S(tanh, 0, 0), S(tanh, -0.0, -0.0), S(tanh, TINY, TINY),
    S(tanh, 400, 1),
    NAN_OF(sin_2pi), S(sin_2pi, INF, NAN), S(sin_2pi, -INF, NAN), S(sin_2pi, 0, 0), S(sin_2pi, 0.25, 1),
    S(sin_2pi, 0.75, -1), S(sin_2pi, 1e300, 0), S(sin_2pi, 4503599627370497.0, 0),
    NAN_OF(cos_2pi), S(cos_2pi, INF, NAN), S(cos_2pi, 0, 1), S(cos_2pi, 0.5, -1), S(cos_2pi, -0.5, -1),
    S(cos_2pi, 1e300, 1), S(cos_2pi, 2251799813685248.5, -1),
};

/* Equal, zeros with their signs; any NaN equals any other. By bits, as -ffast-math leaves no other way. */
static int same(double a, double b)
{
    const uint64_t above = 0x7ff0000000000000ULL, u = gpumc__bits_of(a), v = gpumc__bits_of(b);
    return u == v || ((u << 1) > (above << 1) && (v << 1) > (above << 1));
}

static int special_is_right(const special *s, int set, loops_fn *f)
{
    /* A whole block of it, for a vector loop and what is left over, beside ordinary numbers. */
    double x[19], y[19], out[19];
    for (size_t i = 0; i < 19; i++) x[i] = i % 3 ? s->x : 0.4, y[i] = i % 3 ? s->y : 0.7;
    if (f) f(x, y, out, 19);
    else run(set, loops_find(s->name), x, y, out, 19);
    for (size_t i = 0; i < 19; i++) if (i % 3 && !same(out[i], s->value)) return 0;
    return 1;
}

static void check_specials(void)
{
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        for (int set = FIRST_SET; set <= last_set(); set++)
            CHECK(special_is_right(&specials[i], set, NULL), "%s, %s: not %g at %g %g", specials[i].name,
                  set_name(set), specials[i].value, specials[i].x, specials[i].y);
}

/* ---- broken twins: the checks must notice -------------------------------------------------------- */

/* The last of ten coefficients one percent off. */
static void broken_exp(const double *x, const double *y, double *out, size_t n)
{
    (void)y;
    for (size_t i = 0; i < n; i++) {
        const double r = x[i] - GPUMC_LOG_2 * floor(x[i] / GPUMC_LOG_2 + 0.5);
        out[i] = gpumc_exp(x[i]) * (1 + 2.5e-10 * pow(r, 11));
    }
}

static void broken_log(const double *x, const double *y, double *out, size_t n)
{
    (void)y;
    for (size_t i = 0; i < n; i++) out[i] = x[i] > 0 ? gpumc_log(x[i]) : -INF;
}

static void broken_floor(const double *x, const double *y, double *out, size_t n)
{
    (void)y;
    for (size_t i = 0; i < n; i++) out[i] = gpumc_floor(x[i]) + 0.0;
}

static void check_broken(void)
{
    const special nan_of_log = NAN_OF(log), zero_of_floor = S(floor, -0.0, -0.0);
    const loops_leaf *leaf = loops_find("exp");
    const worst found = largest_error(leaf, broken_exp, 0, known_exp, sizeof known_exp / sizeof *known_exp);
    CHECK(found.ulps > leaf->ulps, "a wrong coefficient was not noticed");
    CHECK(!special_is_right(&nan_of_log, 0, broken_log), "a lost NaN was not noticed");
    CHECK(!special_is_right(&zero_of_floor, 0, broken_floor), "a lost sign of zero was not noticed");
}

int main(void)
{
    check_known();
    check_specials();
    if (FIRST_SET == 0) check_broken();
    return check_end();
}
