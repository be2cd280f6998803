/* Every leaf of gpumc.h, section api-math, as a loop over arrays, compiled for each instruction set that one
   file can hold: test_math.c and long_math.c compare values, test_math_builds.sh reads the machine code,
   bench/leaf.c takes times. Include gpumc.h and math.h first. */
#ifndef MATH_LOOPS_H
#define MATH_LOOPS_H

GPUMC_FN double loops_sin_2pi(double u) { double s, c; gpumc_sincos_2pi(u, &s, &c); return s; }
GPUMC_FN double loops_cos_2pi(double u) { double s, c; gpumc_sincos_2pi(u, &s, &c); return c; }

/* What an error is measured against: the value; at least 1; at least the arguments. */
enum { LOOPS_VALUE, LOOPS_ONE, LOOPS_ARGUMENTS };

/* name, largest error allowed in ULP, of what; value for the arguments x and y */
#define LOOPS(X) \
    X(exp, 1.5, LOOPS_VALUE, gpumc_exp(x)) X(expm1, 1.5, LOOPS_VALUE, gpumc_expm1(x)) \
    X(log, 1.5, LOOPS_VALUE, gpumc_log(x)) X(log1p, 1.5, LOOPS_VALUE, gpumc_log1p(x)) \
    X(sqrt, 0.501, LOOPS_VALUE, gpumc_sqrt(x)) X(rsqrt, 1.5, LOOPS_VALUE, gpumc_rsqrt(x)) \
    X(fabs, 0, LOOPS_VALUE, gpumc_fabs(x)) X(floor, 0, LOOPS_VALUE, gpumc_floor(x)) \
    X(erf, 4, LOOPS_VALUE, gpumc_erf(x)) X(erfc, 4, LOOPS_VALUE, gpumc_erfc(x)) \
    X(erfcx, 4, LOOPS_VALUE, gpumc_erfcx(x)) X(Phi, 4, LOOPS_VALUE, gpumc_Phi(x)) \
    X(log_Phi, 4, LOOPS_VALUE, gpumc_log_Phi(x)) X(inv_Phi, 4, LOOPS_VALUE, gpumc_inv_Phi(x)) \
    X(mills, 4, LOOPS_VALUE, gpumc_mills(x)) X(mills_excess, 5, LOOPS_VALUE, gpumc_mills_excess(x)) \
    X(lgamma, 4, LOOPS_VALUE, gpumc_lgamma(x)) X(digamma, 4, LOOPS_VALUE, gpumc_digamma(x)) \
    X(lbeta, 5, LOOPS_ONE, gpumc_lbeta(x, y)) X(log1p_exp, 4, LOOPS_VALUE, gpumc_log1p_exp(x)) \
    X(log_sum_exp, 4, LOOPS_ARGUMENTS, gpumc_log_sum_exp(x, y)) X(logit, 4, LOOPS_VALUE, gpumc_logit(x)) \
    X(inv_logit, 4, LOOPS_VALUE, gpumc_inv_logit(x)) X(tanh, 4, LOOPS_VALUE, gpumc_tanh(x)) \
    X(sin_2pi, 4, LOOPS_VALUE, loops_sin_2pi(x)) X(cos_2pi, 4, LOOPS_VALUE, loops_cos_2pi(x))

typedef void loops_fn(const double *x, const double *y, double *out, size_t n);

/* A fixed length leaves no remainder, which would be scalar. */
#ifndef LOOPS_LENGTH
#define LOOPS_LENGTH n
#endif
#define LOOPS_DEFINE(target, set, name, call) \
    static GPUMC_LOOP target void loops_##name##_##set(const double *GPUMC__RESTRICT xs, \
        const double *GPUMC__RESTRICT ys, double *GPUMC__RESTRICT out, size_t n) \
    { \
        (void)n; \
        LOOPS_WIDTH_##set \
        for (size_t i = 0; i < LOOPS_LENGTH; i++) { \
            const double x = xs[i], y = ys[i]; \
            (void)y; \
            out[i] = call; \
        } \
    }
#define LOOPS_WIDTH_baseline
#define LOOPS_WIDTH_avx2
#define LOOPS_BASELINE(name, ulps, unit, call) LOOPS_DEFINE(, baseline, name, call)
LOOPS(LOOPS_BASELINE)

#if defined(__x86_64__) && defined(__GNUC__)
#define LOOPS_SETS 3
#define LOOPS_AVX512_LIST "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"
#if defined(__clang__)
#define LOOPS_512 __attribute__((target(LOOPS_AVX512_LIST), min_vector_width(512)))
#define LOOPS_WIDTH_avx512 _Pragma("clang loop vectorize_width(8)")
#else
#define LOOPS_512 __attribute__((target(LOOPS_AVX512_LIST ",prefer-vector-width=512")))
#define LOOPS_WIDTH_avx512
#endif
#define LOOPS_AVX2(name, ulps, unit, call) LOOPS_DEFINE(__attribute__((target("avx2,fma"))), avx2, name, call)
#define LOOPS_AVX512(name, ulps, unit, call) LOOPS_DEFINE(LOOPS_512, avx512, name, call)
LOOPS(LOOPS_AVX2)
LOOPS(LOOPS_AVX512)
#define LOOPS_RUN(name) { loops_##name##_baseline, loops_##name##_avx2, loops_##name##_avx512 }
#else
#define LOOPS_SETS 1
#define LOOPS_RUN(name) { loops_##name##_baseline }
#endif

static const char *const loops_set_names[] = { "baseline", "AVX2", "AVX-512" };

typedef struct { const char *name; double ulps; int unit; loops_fn *run[LOOPS_SETS]; } loops_leaf;
#define LOOPS_ENTRY(name, ulps, unit, call) { #name, ulps, unit, LOOPS_RUN(name) },
static const loops_leaf loops_leaves[] = { LOOPS(LOOPS_ENTRY) };
#define LOOPS_COUNT (sizeof loops_leaves / sizeof *loops_leaves)

/* How many of the sets this processor has. */
static int loops_sets(void)
{
#if LOOPS_SETS == 3
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) return 3;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
#endif
    return 1;
}

static GPUMC__UNUSED const loops_leaf *loops_find(const char *name)
{
    for (size_t i = 0; i < LOOPS_COUNT; i++)
        if (strcmp(loops_leaves[i].name, name) == 0) return &loops_leaves[i];
    return NULL;
}

/* One unit in the last place of what an error of the leaf is measured against. */
static GPUMC__UNUSED double loops_ulp(const loops_leaf *leaf, double x, double y, double value)
{
    int exponent;
    double size = fabs(value);
    if (leaf->unit == LOOPS_ONE) size = fmax(size, 1);
    if (leaf->unit == LOOPS_ARGUMENTS) size = fmax(size, fmax(fabs(x), fabs(y)));
    frexp(size, &exponent);
    return ldexp(1, exponent - 53 < -1074 ? -1074 : exponent - 53);
}
#endif
