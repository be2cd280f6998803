/* Compares every leaf function with MPFR at more than a million random points each: prints for each range the largest
   error in ULP for every instruction set that the processor has, and where it occurs. The errors stated in the
   header's section api-math come from here.
     make -C tests long
     or: cc -O2 long_math.c -lmpfr -lgmp -lm -o long_math && ./long_math [points [function]] */
#include "../gpumc.h"
#include "check.h"
#include "math_loops.h"
#if defined(__has_include)
#if !__has_include(<mpfr.h>)
#define NO_MPFR
#endif
#endif

#ifdef NO_MPFR
int main(void)
{
    puts("0 passed, 0 failed, 1 skipped");
    return 0;
}
#else
#include <mpfr.h>
#define PRECISION 160
#define NEAREST MPFR_RNDN

/* ---- references: out = f(x, y), to 100 bits and more; t and u are scratch variables -------------- */

static mpfr_t t, u;
typedef void reference(mpfr_t out, const mpfr_t x, const mpfr_t y);

#define FROM_MPFR(name, function) \
    static void exact_##name(mpfr_t out, const mpfr_t x, const mpfr_t y) \
    { \
        (void)y; \
        function(out, x, NEAREST); \
    }
FROM_MPFR(exp, mpfr_exp)
FROM_MPFR(expm1, mpfr_expm1)
FROM_MPFR(log, mpfr_log)
FROM_MPFR(log1p, mpfr_log1p)
FROM_MPFR(sqrt, mpfr_sqrt)
FROM_MPFR(rsqrt, mpfr_rec_sqrt)
FROM_MPFR(fabs, mpfr_abs)
FROM_MPFR(erf, mpfr_erf)
FROM_MPFR(erfc, mpfr_erfc)
FROM_MPFR(lgamma, mpfr_lngamma)
FROM_MPFR(digamma, mpfr_digamma)
FROM_MPFR(tanh, mpfr_tanh)

static void exact_floor(mpfr_t out, const mpfr_t x, const mpfr_t y) { (void)y; mpfr_floor(out, x); }

/* exp(x^2) erfc(x). From 1e4 on, where the product underflows, the asymptotic series
   1 / (sqrt(pi) x) (1 - 1/(2 x^2) + 3/(4 x^4) - 15/(8 x^6)). */
static void exact_erfcx(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_sqr(t, x, NEAREST);
    if (mpfr_cmp_d(x, 1e4) < 0) {
        mpfr_erfc(u, x, NEAREST);
        mpfr_exp(t, t, NEAREST);
        mpfr_mul(out, t, u, NEAREST);
        return;
    }
    mpfr_ui_div(t, 1, t, NEAREST);
    mpfr_mul_d(u, t, -15.0 / 8, NEAREST);
    mpfr_add_d(u, u, 3.0 / 4, NEAREST);
    mpfr_mul(u, u, t, NEAREST);
    mpfr_sub_d(u, u, 1.0 / 2, NEAREST);
    mpfr_mul(u, u, t, NEAREST);
    mpfr_add_ui(u, u, 1, NEAREST);
    mpfr_const_pi(t, NEAREST);
    mpfr_sqrt(t, t, NEAREST);
    mpfr_mul(t, t, x, NEAREST);
    mpfr_div(out, u, t, NEAREST);
}

static void exact_mills(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_sqrt_ui(t, 2, NEAREST);
    mpfr_div(out, x, t, NEAREST);
    exact_erfcx(out, out, out);
    mpfr_const_pi(t, NEAREST);
    mpfr_div_ui(t, t, 2, NEAREST);
    mpfr_sqrt(t, t, NEAREST);
    mpfr_mul(out, out, t, NEAREST);
}

/* From 1e4 on by the asymptotic series 1/x (1 - 2/x^2 + 10/x^4). */
static void exact_mills_excess(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    if (mpfr_cmp_d(x, 1e4) < 0) {
        exact_mills(out, x, y);
        mpfr_ui_div(out, 1, out, NEAREST);
        mpfr_sub(out, out, x, NEAREST);
        return;
    }
    mpfr_sqr(t, x, NEAREST);
    mpfr_ui_div(t, 1, t, NEAREST);
    mpfr_mul_ui(u, t, 10, NEAREST);
    mpfr_sub_ui(u, u, 2, NEAREST);
    mpfr_mul(u, u, t, NEAREST);
    mpfr_add_ui(u, u, 1, NEAREST);
    mpfr_div(out, u, x, NEAREST);
}

static void exact_Phi(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_sqrt_ui(t, 2, NEAREST);
    mpfr_div(t, x, t, NEAREST);
    mpfr_neg(t, t, NEAREST);
    mpfr_erfc(out, t, NEAREST);
    mpfr_div_ui(out, out, 2, NEAREST);
}

static void exact_log_Phi(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    if (mpfr_sgn(x) > 0) {
        mpfr_neg(out, x, NEAREST);
        exact_Phi(out, out, out);
        mpfr_neg(out, out, NEAREST);
        mpfr_log1p(out, out, NEAREST);
        return;
    }
    mpfr_sqrt_ui(t, 2, NEAREST);
    mpfr_div(out, x, t, NEAREST);
    mpfr_neg(out, out, NEAREST);
    exact_erfcx(out, out, out);
    mpfr_div_ui(out, out, 2, NEAREST);
    mpfr_log(out, out, NEAREST);
    mpfr_sqr(t, x, NEAREST);
    mpfr_div_ui(t, t, 2, NEAREST);
    mpfr_sub(out, out, t, NEAREST);
}

/* One Newton step from the leaf's own value, which reduces an error of 1e-9 to 1e-18. */
static void exact_inv_Phi(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    mpfr_t z;
    (void)y;
    mpfr_init2(z, PRECISION);
    mpfr_set_d(z, gpumc_inv_Phi(mpfr_get_d(x, NEAREST)), NEAREST);
    exact_Phi(out, z, z);
    mpfr_sub(out, out, x, NEAREST);
    mpfr_sqr(t, z, NEAREST);
    mpfr_div_ui(t, t, 2, NEAREST);
    mpfr_exp(t, t, NEAREST);
    mpfr_mul(out, out, t, NEAREST);
    mpfr_const_pi(t, NEAREST);
    mpfr_mul_ui(t, t, 2, NEAREST);
    mpfr_sqrt(t, t, NEAREST);
    mpfr_mul(out, out, t, NEAREST);
    mpfr_sub(out, z, out, NEAREST);
    mpfr_clear(z);
}

static void exact_lbeta(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    mpfr_prec_round(u, 2 * PRECISION, NEAREST);
    mpfr_prec_round(t, 2 * PRECISION, NEAREST);
    mpfr_lngamma(t, x, NEAREST);
    mpfr_lngamma(u, y, NEAREST);
    mpfr_add(t, t, u, NEAREST);
    mpfr_add(u, x, y, NEAREST);
    mpfr_lngamma(u, u, NEAREST);
    mpfr_sub(out, t, u, NEAREST);
    mpfr_set_prec(t, PRECISION);
    mpfr_set_prec(u, PRECISION);
}

static void exact_log1p_exp(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_exp(out, x, NEAREST);
    mpfr_log1p(out, out, NEAREST);
}

static void exact_log_sum_exp(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    mpfr_exp(t, x, NEAREST);
    mpfr_exp(u, y, NEAREST);
    mpfr_add(out, t, u, NEAREST);
    mpfr_log(out, out, NEAREST);
}

static void exact_logit(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_ui_sub(t, 1, x, NEAREST);
    mpfr_div(out, x, t, NEAREST);
    mpfr_log(out, out, NEAREST);
}

static void exact_inv_logit(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_neg(t, x, NEAREST);
    mpfr_exp(t, t, NEAREST);
    mpfr_add_ui(t, t, 1, NEAREST);
    mpfr_ui_div(out, 1, t, NEAREST);
}

/* The nearest multiple of 1/2 is subtracted first; that is exact, and so are the zeros. */
static void exact_sin_2pi(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_mul_ui(t, x, 2, NEAREST);
    mpfr_rint(u, t, NEAREST);
    mpfr_sub(out, t, u, NEAREST);
    mpfr_const_pi(t, NEAREST);
    mpfr_mul(out, out, t, NEAREST);
    mpfr_sin(out, out, NEAREST);
    mpfr_div_ui(t, u, 2, NEAREST);
    if (!mpfr_integer_p(t)) mpfr_neg(out, out, NEAREST);
}

static void exact_cos_2pi(mpfr_t out, const mpfr_t x, const mpfr_t y)
{
    (void)y;
    mpfr_add_d(out, x, 0.25, NEAREST);
    exact_sin_2pi(out, out, out);
}

/* ---- random arguments ---------------------------------------------------------------------------- */

/* EVEN: uniform; SIZES: uniform in the bit pattern, so that all exponents are equally likely; from and to must have
   the same sign. */
typedef enum { EVEN, SIZES } spread;

static uint64_t state = 20240229;
static uint64_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double random_argument(spread kind, double from, double to)
{
    const double share = (double)(random_bits() >> 11) / 9007199254740992.0;
    uint64_t low, high;
    double x;
    if (kind == EVEN) return from + (to - from) * share;
    memcpy(&low, &from, sizeof low);
    memcpy(&high, &to, sizeof high);
    low += (uint64_t)((double)(high - low) * share);
    memcpy(&x, &low, sizeof x);
    return x;
}

/* ---- the table ----------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    reference *exact;
    spread kind;
    double from, to;
    spread kind_y;
    double from_y, to_y;
} range;
#define ONE(name, kind, from, to) { #name, exact_##name, kind, from, to, EVEN, 0, 0 }
#define TWO(name, kind, from, to, kind_y, from_y, to_y) \
    { #name, exact_##name, kind, from, to, kind_y, from_y, to_y }
#define TINY 4.9406564584124654e-324
#define NORMAL 2.2250738585072014e-308
#define LARGE 1.7e308
static const range ranges[] = {
    ONE(exp, EVEN, -708, 709.7), ONE(exp, EVEN, -745, -708), ONE(exp, EVEN, -1, 1), ONE(exp, SIZES, 1e-20, 1),
    ONE(expm1, EVEN, -40, 709.7), ONE(expm1, EVEN, -1, 1), ONE(expm1, SIZES, TINY, 1),
    ONE(expm1, SIZES, -TINY, -40.0),
    ONE(log, SIZES, NORMAL, LARGE), ONE(log, EVEN, 0.5, 2), ONE(log, EVEN, 0.99, 1.01),
    ONE(log, SIZES, TINY, NORMAL),
    ONE(log1p, SIZES, TINY, LARGE), ONE(log1p, SIZES, -TINY, -1.0), ONE(log1p, EVEN, -0.9, 2),
    ONE(log1p, EVEN, -0.01, 0.01),
    ONE(sqrt, SIZES, NORMAL, LARGE), ONE(sqrt, SIZES, TINY, NORMAL), ONE(sqrt, EVEN, 0.5, 4),
    ONE(rsqrt, SIZES, NORMAL, LARGE), ONE(rsqrt, SIZES, TINY, NORMAL), ONE(rsqrt, EVEN, 0.5, 4),
    ONE(fabs, SIZES, -TINY, -LARGE), ONE(floor, EVEN, -1e3, 1e3), ONE(floor, SIZES, TINY, 1e17),
    ONE(floor, SIZES, -TINY, -1e17),
    ONE(erf, EVEN, -6, 6), ONE(erf, SIZES, TINY, 1), ONE(erf, EVEN, 0, 1),
    ONE(erfc, EVEN, -6, 6), ONE(erfc, EVEN, 6, 26.5), ONE(erfc, EVEN, 26.5, 27.3), ONE(erfc, EVEN, 0, 1),
    ONE(erfcx, EVEN, 0, 10), ONE(erfcx, SIZES, TINY, 0.1), ONE(erfcx, SIZES, 0.1, LARGE),
    ONE(erfcx, EVEN, -26.6, 0),
    ONE(Phi, EVEN, -8, 8), ONE(Phi, EVEN, -37.5, -8), ONE(Phi, EVEN, -38.5, -37.5), ONE(Phi, EVEN, -1, 1),
    ONE(log_Phi, EVEN, -10, 10), ONE(log_Phi, EVEN, -1, 3), ONE(log_Phi, EVEN, 10, 38.5),
    ONE(log_Phi, SIZES, -1.0, -1e150),
    ONE(mills, EVEN, 0, 10), ONE(mills, SIZES, TINY, 0.1), ONE(mills, SIZES, 0.1, LARGE),
    ONE(mills, EVEN, -37.6, 0),
    ONE(mills_excess, EVEN, 0, 10), ONE(mills_excess, SIZES, TINY, 0.1), ONE(mills_excess, SIZES, 0.1, LARGE),
    ONE(mills_excess, EVEN, -38.0, 0),
    ONE(inv_Phi, EVEN, 0, 1), ONE(inv_Phi, SIZES, 1e-300, 0.5), ONE(inv_Phi, SIZES, 0.5, 0.99999999999999989),
    ONE(inv_Phi, EVEN, 0.4999, 0.5001), ONE(inv_Phi, SIZES, TINY, NORMAL),
    ONE(lgamma, EVEN, 0, 8), ONE(lgamma, EVEN, 0.5, 1.5), ONE(lgamma, EVEN, 1.5, 2.5),
    ONE(lgamma, SIZES, TINY, 0.5), ONE(lgamma, SIZES, 6, 2.5e305), ONE(lgamma, EVEN, 6, 50),
    ONE(digamma, EVEN, 0, 1), ONE(digamma, EVEN, 1, 7), ONE(digamma, SIZES, 1e-300, 1),
    ONE(digamma, SIZES, 6, LARGE), ONE(digamma, EVEN, 1.4, 1.5), ONE(digamma, EVEN, 6, 50),
    TWO(lbeta, SIZES, 1e-3, 1e3, SIZES, 1e-3, 1e3), TWO(lbeta, SIZES, 1e-300, 1e18, SIZES, 1e-300, 1e18),
    TWO(lbeta, EVEN, 0, 5, EVEN, 0, 5), TWO(lbeta, SIZES, 1, 1e8, SIZES, 1, 1e8),
    TWO(lbeta, SIZES, 1e-10, 1, SIZES, 1e3, 1e10),
    ONE(log1p_exp, EVEN, -40, 40), ONE(log1p_exp, EVEN, -745, 800), ONE(log1p_exp, EVEN, -1, 1),
    TWO(log_sum_exp, EVEN, -10, 10, EVEN, -10, 10), TWO(log_sum_exp, EVEN, -800, 800, EVEN, -800, 800),
    ONE(logit, EVEN, 0, 1), ONE(logit, SIZES, TINY, 0.5), ONE(logit, SIZES, 0.5, 0.99999999999999989),
    ONE(logit, EVEN, 0.4999, 0.5001),
    ONE(inv_logit, EVEN, -40, 40), ONE(inv_logit, EVEN, -744, -40), ONE(inv_logit, EVEN, -1, 1),
    ONE(tanh, EVEN, -20, 20), ONE(tanh, SIZES, TINY, 1), ONE(tanh, EVEN, -1, 1),
    ONE(sin_2pi, EVEN, 0, 1), ONE(sin_2pi, SIZES, TINY, 1), ONE(sin_2pi, EVEN, -1e15, 1e15),
    ONE(cos_2pi, EVEN, 0, 1), ONE(cos_2pi, SIZES, -1e-3, -1e15),
};

#define BLOCK 1024
typedef struct { double ulps, x, y; } worst;

static void compare(const range *r, const loops_leaf *leaf, size_t points, worst *found)
{
    static double x[BLOCK], y[BLOCK], out[LOOPS_SETS][BLOCK];
    mpfr_t a, b, exact, difference;
    mpfr_inits2(PRECISION, a, b, exact, difference, (mpfr_ptr)0);
    for (size_t done = 0; done < points; done += BLOCK) {
        for (size_t i = 0; i < BLOCK; i++) {
            x[i] = random_argument(r->kind, r->from, r->to);
            y[i] = random_argument(r->kind_y, r->from_y, r->to_y);
        }
        for (int set = 0; set < loops_sets(); set++) leaf->run[set](x, y, out[set], BLOCK);
        for (size_t i = 0; i < BLOCK; i++) {
            mpfr_set_d(a, x[i], NEAREST);
            mpfr_set_d(b, y[i], NEAREST);
            r->exact(exact, a, b);
            const double ulp = loops_ulp(leaf, x[i], y[i], mpfr_get_d(exact, MPFR_RNDZ));
            for (int set = 0; set < loops_sets(); set++) {
                mpfr_sub_d(difference, exact, out[set][i], NEAREST);
                const double ulps = fabs(mpfr_get_d(difference, NEAREST)) / ulp;
                if (!(ulps <= found[set].ulps))
                    found[set] = (worst){ isnan(ulps) ? INFINITY : ulps, x[i], y[i] };
            }
        }
    }
    mpfr_clears(a, b, exact, difference, (mpfr_ptr)0);
}

static int check_range(const range *r, const loops_leaf *leaf, size_t points)
{
    worst found[LOOPS_SETS];
    int good = 1;
    memset(found, 0, sizeof found);
    compare(r, leaf, points, found);
    printf("%-12s %11.4g %11.4g", leaf->name, r->from, r->to);
    for (int set = 0; set < loops_sets(); set++) {
        printf("   %6.3f at %-24.17g", found[set].ulps, found[set].x);
        if (found[set].y != 0) printf(" %-24.17g", found[set].y);
        good &= found[set].ulps <= leaf->ulps;
    }
    printf("\n");
    return good;
}

/* A broken exp, with the error of a last of ten coefficients that is off by one percent; it must be rejected. */
GPUMC_FN double broken_exp(double x)
{
    const double r = x - GPUMC_LOG_2 * gpumc_floor(x / GPUMC_LOG_2 + 0.5), q = r * r;
    return gpumc_exp(x) * (1 + 2.5e-10 * q * q * q * q * q * r);
}
LOOPS_DEFINE(, baseline, broken, broken_exp(x))

static size_t ranges_of(const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) n += strcmp(ranges[i].name, name) == 0;
    return n;
}

int main(int argc, char **argv)
{
    const size_t points = argc > 1 ? (size_t)atol(argv[1]) : 1200000;
    const loops_leaf *leaf, *exp_leaf = loops_find("exp");
    loops_leaf broken = *exp_leaf;
    mpfr_inits2(PRECISION, t, u, (mpfr_ptr)0);
    printf("%zu points a function; ULP in", points);
    for (int set = 0; set < loops_sets(); set++) printf(" %s", loops_set_names[set]);
    printf("\n");
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (argc > 2 && strcmp(argv[2], ranges[i].name) != 0) continue;
        leaf = loops_find(ranges[i].name);
        CHECK(check_range(&ranges[i], leaf, points / ranges_of(leaf->name)), "%s on [%g, %g]", leaf->name,
              ranges[i].from, ranges[i].to);
        fflush(stdout);
    }
    broken.name = "broken exp";
    for (int set = 0; set < LOOPS_SETS; set++) broken.run[set] = loops_broken_baseline;
    CHECK(!check_range(&ranges[0], &broken, points / 10), "a wrong coefficient was not noticed");
    mpfr_clears(t, u, (mpfr_ptr)0);
    mpfr_free_cache();
    return check_end();
}
#endif
