/* Cost of a data row: nanoseconds per row of log density and gradient through GPUMC_ROW, for every instruction
   set that the processor has. Also printed:
   - the time of a plain loop that evaluates the density of one row after the other by libm, and how many times
     faster GPUMC_ROW is;
   - for some families the time of a loop over libm from which terms of the parameters alone are hoisted by hand;
   - the rate in GB/s at which the columns are read (they stay in the cache), for the best instruction set also as
     a percentage of the memory bandwidth that a plain sum reaches in the same run;
   - the largest error of a row's value against long double, in ULP of max(1, |value|).
   Then the cost per row by the size of the groups. Times are processor times, the least of many runs.
     make -C bench build/kernels CC=gcc && bench/build/kernels          and with CC=clang, after make clean */
#define _POSIX_C_SOURCE 199309L
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "bench.h"

enum { N = 1 << 14, RUNS = 60 };

/* ---- rows: the leaf, value and gradient by libm, the value in long double ------------------------ */

GPUMC_ROW(normal, 1, 1, 1)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}
static double libm_normal(const double *p, const double *x, double *g)
{
    const double z = (x[0] - p[0]) / p[1];
    g[0] += z / p[1];
    g[1] += (z * z - 1) / p[1];
    return -0.5 * z * z - log(p[1]) - 0.5 * log(2 * GPUMC_PI);
}
static long double long_normal(const double *p, const double *x)
{
    const long double z = ((long double)x[0] - p[0]) / p[1];
    return -0.5L * z * z - logl(p[1]) - 0.5L * logl(2 * 3.14159265358979323846264338327950288L);
}

GPUMC_ROW(lognormal, 2, 0, 1)
{
    return gpumc_lognormal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}
static double libm_lognormal(const double *p, const double *x, double *g)
{
    const double log_y = log(x[0]);
    return libm_normal(p, &log_y, g) - log_y;
}
static long double long_lognormal(const double *p, const double *x)
{
    const long double z = (logl(x[0]) - p[0]) / p[1];
    return -0.5L * z * z - logl(p[1]) - 0.5L * logl(2 * 3.14159265358979323846264338327950288L) - logl(x[0]);
}

GPUMC_ROW(student_t, 2, 1, 1)
{
    return gpumc_student_t_lpdf(x[0], p[2], p[0], p[1], NULL, &g[2], &g[0], &g[1]);
}
static double libm_digamma(double x)
{
    double shift = 0;
    for (; x < 8; x++) shift += 1 / x;
    const double y = 1 / (x * x);
    return log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y / 240))) - shift;
}
static double libm_student_t(const double *p, const double *x, double *g)
{
    const double nu = p[2], z = (x[0] - p[0]) / p[1], log_1r = log1p(z * z / nu),
                 pull = (nu + 1) / (nu + z * z);
    g[0] += pull * z / p[1];
    g[1] += (pull * z * z - 1) / p[1];
    g[2] +=
        0.5 * (libm_digamma(0.5 * nu + 0.5) - libm_digamma(0.5 * nu) - 1 / nu - log_1r + pull * z * z / nu);
    return lgamma(0.5 * nu + 0.5) - lgamma(0.5 * nu) - 0.5 * log(nu * GPUMC_PI) - log(p[1])
           - 0.5 * (nu + 1) * log_1r;
}
static long double long_student_t(const double *p, const double *x)
{
    const long double nu = p[2], z = ((long double)x[0] - p[0]) / p[1];
    return lgammal(0.5L * nu + 0.5L) - lgammal(0.5L * nu)
           - 0.5L * logl(nu * 3.14159265358979323846264338327950288L) - logl(p[1])
           - 0.5L * (nu + 1) * log1pl(z * z / nu);
}

GPUMC_ROW(bernoulli_logit, 2, 0, 2)
{
    gpumc_real slope = 0;
    const gpumc_real value = gpumc_bernoulli_logit_lpmf(x[0], p[0] + p[1] * x[1], &slope);
    g[0] += slope;
    g[1] += slope * x[1];
    return value;
}
static double libm_bernoulli_logit(const double *p, const double *x, double *g)
{
    const double eta = p[0] + p[1] * x[1], against = x[0] > 0 ? -eta : eta;
    const double slope = (x[0] > 0 ? 1 : -1) / (1 + exp(-against));
    g[0] += slope;
    g[1] += slope * x[1];
    return against > 0 ? -against - log1p(exp(-against)) : -log1p(exp(against));
}
static long double long_bernoulli_logit(const double *p, const double *x)
{
    const long double eta = p[0] + (long double)p[1] * x[1], against = x[0] > 0 ? -eta : eta;
    return against > 0 ? -against - log1pl(expl(-against)) : -log1pl(expl(against));
}

GPUMC_ROW(poisson, 1, 0, 1)
{
    return gpumc_poisson_lpmf(x[0], p[0], &g[0]);
}
static double libm_poisson(const double *p, const double *x, double *g)
{
    g[0] += x[0] / p[0] - 1;
    return x[0] * log(p[0]) - p[0] - lgamma(x[0] + 1);
}
static long double long_poisson(const double *p, const double *x)
{
    return x[0] * logl(p[0]) - p[0] - lgammal((long double)x[0] + 1);
}

/* Response time of a diffusion with drift v to a single bound a, after a non-decision time t0 (shifted Wald):
   p = a, v, t0. */
GPUMC_FN gpumc_real wald(gpumc_real a, gpumc_real v, gpumc_real t0, gpumc_real time, gpumc_real *g)
{
    const gpumc_real t = time - t0, inv = 1 / t, d = a - v * t, dt = d * inv;
    g[0] += 1 / a - dt;
    g[1] += d;
    g[2] += GPUMC_R(1.5) * inv - dt * (v + GPUMC_R(0.5) * dt);
    return gpumc_log(a) - GPUMC_R(GPUMC_LOG_SQRT_2PI) - GPUMC_R(1.5) * gpumc__log_normal(t)
           - GPUMC_R(0.5) * d * dt;
}
GPUMC_ROW(wald_density, 3, 0, 1) { return wald(p[0], p[1], p[2], x[0], g); }
static double libm_wald_density(const double *p, const double *x, double *g)
{
    const double t = x[0] - p[2], d = p[0] - p[1] * t, dt = d / t;
    g[0] += 1 / p[0] - dt;
    g[1] += d;
    g[2] += 1.5 / t - dt * (p[1] + 0.5 * dt);
    return log(p[0]) - 0.5 * log(2 * GPUMC_PI) - 1.5 * log(t) - 0.5 * d * dt;
}
static long double long_wald_density(const double *p, const double *x)
{
    const long double t = (long double)x[0] - p[2], d = p[0] - p[1] * t;
    return logl(p[0]) - 0.5L * logl(2 * 3.14159265358979323846264338327950288L) - 1.5L * logl(t)
           - 0.5L * d * d / t;
}

/* Race of two such diffusions: density of the winner's arrival (drift v) times the survivor function of the loser
   (drift w); p = a, v, w, t0. The survivor function is
   Phi((a - w t) / sqrt t) - exp(2 a w) Phi(-(a + w t) / sqrt t), computed by erfcx to avoid cancellation in the
   tail. */
GPUMC_ROW(wald_race, 4, 0, 1)
{
    const gpumc_real a = p[0], w = p[2], t = x[0] - p[3], root = gpumc__rsqrt_normal(t),
                     s = root * GPUMC_R(0.70710678118654752440);
    const gpumc_real u = (a - w * t) * s, v = (a + w * t) * s, bell = gpumc__exp_neg(-u * u);
    const gpumc_real near_u = gpumc__erfcx_above(gpumc_fabs(u)), near_v = gpumc__erfcx_above(v);
    const gpumc_real late = GPUMC_R(0.5) * (near_u - near_v),
                     early = 1 - GPUMC_R(0.5) * bell * (near_u + near_v);
    const gpumc_real survivor = u < 0 ? late : early, share = (u < 0 ? GPUMC_R(1.0) : bell) / survivor;
    const gpumc_real h = GPUMC_R(0.79788456080286535588) * root;
    gpumc_real own[3] = { 0, 0, 0 };
    const gpumc_real value = wald(a, p[1], p[3], x[0], own);
    g[0] += own[0] + share * (h - w * near_v);
    g[1] += own[1];
    g[2] += -a * near_v * share;
    g[3] += own[2] + GPUMC_R(0.5) * a * h * root * root * share;
    return value + gpumc__log_normal(survivor) - (u < 0 ? u * u : 0);
}
static double libm_erfcx(double x) { return x < 25 ? exp(x * x) * erfc(x) : 0.5641895835477563 / x; }
static double libm_wald_race(const double *p, const double *x, double *g)
{
    const double a = p[0], w = p[2], t = x[0] - p[3], s = sqrt(0.5 / t), u = (a - w * t) * s,
                 v = (a + w * t) * s;
    const double A = libm_erfcx(fabs(u)), B = libm_erfcx(v), bell = exp(-u * u), h = sqrt(2 / (GPUMC_PI * t));
    const double survivor = u < 0 ? 0.5 * (A - B) : 1 - 0.5 * bell * (A + B),
                 share = (u < 0 ? 1 : bell) / survivor;
    const double own_p[3] = { a, p[1], p[3] };
    double own[3] = { 0, 0, 0 };
    const double value = libm_wald_density(own_p, x, own);
    g[0] += own[0] + share * (h - w * B);
    g[1] += own[1];
    g[2] += -a * B * share;
    g[3] += own[2] + 0.5 * a * h / t * share;
    return value + log(survivor) - (u < 0 ? u * u : 0);
}
static long double long_wald_race(const double *p, const double *x)
{
    const long double a = p[0], w = p[2], t = (long double)x[0] - p[3], s = sqrtl(0.5L / t);
    const double own[3] = { p[0], p[1], p[3] };
    return long_wald_density(own, x)
           + logl(0.5L * erfcl((w * t - a) * s) - 0.5L * expl(2 * a * w) * erfcl((a + w * t) * s));
}

/* A diffusion between two bounds: p = alpha, tau, beta, delta; x[1] > 0 means that the upper bound is hit. */
GPUMC_ROW(wiener, 4, 0, 2)
{
    const gpumc_real choice = x[1] > 0 ? GPUMC_R(1.0) : GPUMC_R(0.0);
    return gpumc_wiener_lpdf(x[0], choice, p[0], p[1], p[2], p[3], NULL, &g[0], &g[1], &g[2], &g[3]);
}
static double libm_wiener(const double *p, const double *x, double *g)
{
    const double sign = x[1] > 0 ? -1 : 1, alpha = p[0], t = x[0] - p[1], w = x[1] > 0 ? 1 - p[2] : p[2];
    const double v = sign * p[3], u = t / (alpha * alpha);
    double sum = 0, by_u = 0, by_w = 0, value, by_t;
    if (u < 0.32) {
        for (int k = -2; k <= 2; k++) {
            const double d = w + 2 * k, e = exp(-d * d / (2 * u));
            sum += d * e;
            by_u += d * d * d * e;
            by_w += (1 - d * d / u) * e;
        }
        by_u = by_u / (2 * u * u * sum) - 1.5 / u;
        value = log(sum) - 1.5 * log(u) - 0.5 * log(2 * GPUMC_PI);
    } else {
        for (int n = 1; n <= 4; n++) {
            const double f = n * GPUMC_PI, e = f * exp(-0.5 * f * f * u), s = sin(f * w);
            sum += s * e;
            by_u -= 0.5 * f * f * s * e;
            by_w += f * cos(f * w) * e;
        }
        by_u /= sum;
        value = log(sum);
    }
    by_w /= sum;
    by_t = by_u / (alpha * alpha) - 0.5 * v * v;
    g[0] += -2 * (1 + u * by_u) / alpha - v * w;
    g[1] -= by_t;
    g[2] += sign * (by_w - v * alpha);
    g[3] -= sign * (alpha * w + v * t);
    return value - 2 * log(alpha) - v * (alpha * w + 0.5 * v * t);
}
static long double long_wiener(const double *p, const double *x)
{
    const long double sign = x[1] > 0 ? -1 : 1, alpha = p[0], t = (long double)x[0] - p[1];
    const long double w = x[1] > 0 ? 1 - (long double)p[2] : p[2], v = sign * p[3], u = t / (alpha * alpha);
    long double sum = 0;
    for (int k = -20; k <= 20; k++) sum += (w + 2 * k) * expl(-(w + 2 * k) * (w + 2 * k) / (2 * u));
    return logl(sum) - 1.5L * logl(u) - 0.5L * logl(2 * 3.14159265358979323846264338327950288L)
           - 2 * logl(alpha) - v * (alpha * w + 0.5L * v * t);
}

/* ---- loops over libm, hoisted by hand: value, then gradient, to out ------------------------------- */

static void hand_normal(const double *p, const double *y, double *out)
{
    const double inv = 1 / p[1], constant = -log(p[1]) - 0.5 * log(2 * GPUMC_PI);
    double sum = 0, square = 0;
    for (size_t i = 0; i < N; i++) {
        const double z = (y[i] - p[0]) * inv;
        sum += z;
        square += z * z;
    }
    out[0] = N * constant - 0.5 * square;
    out[1] = sum * inv;
    out[2] = (square - N) * inv;
}
static void hand_lognormal(const double *p, const double *y, double *out)
{
    const double inv = 1 / p[1], constant = -log(p[1]) - 0.5 * log(2 * GPUMC_PI);
    double sum = 0, square = 0, logs = 0;
    for (size_t i = 0; i < N; i++) {
        const double log_y = log(y[i]), z = (log_y - p[0]) * inv;
        sum += z;
        square += z * z;
        logs += log_y;
    }
    out[0] = N * constant - 0.5 * square - logs;
    out[1] = sum * inv;
    out[2] = (square - N) * inv;
}
static void hand_student_t(const double *p, const double *y, double *out)
{
    const double nu = p[2], inv = 1 / p[1];
    const double constant = lgamma(0.5 * nu + 0.5) - lgamma(0.5 * nu) - 0.5 * log(nu * GPUMC_PI) - log(p[1]);
    const double slope = libm_digamma(0.5 * nu + 0.5) - libm_digamma(0.5 * nu) - 1 / nu;
    double logs = 0, pulls = 0, squares = 0;
    for (size_t i = 0; i < N; i++) {
        const double z = (y[i] - p[0]) * inv, pull = (nu + 1) / (nu + z * z);
        logs += log1p(z * z / nu);
        pulls += pull * z;
        squares += pull * z * z;
    }
    out[0] = N * constant - 0.5 * (nu + 1) * logs;
    out[1] = pulls * inv;
    out[2] = (squares - N) * inv;
    out[3] = 0.5 * (N * slope - logs + squares / nu);
}
static void hand_wald_density(const double *p, const double *y, double *out)
{
    const double inv = 1 / p[0], constant = log(p[0]) - 0.5 * log(2 * GPUMC_PI);
    double sum = 0, by_b = 0, by_v = 0, by_t0 = 0;
    for (size_t i = 0; i < N; i++) {
        const double t = y[i] - p[2], d = p[0] - p[1] * t, each = d / t;
        sum -= 1.5 * log(t) + 0.5 * d * each;
        by_b += inv - each;
        by_v += d;
        by_t0 += 1.5 / t - each * (p[1] + 0.5 * each);
    }
    out[0] = N * constant + sum;
    out[1] = by_b;
    out[2] = by_v;
    out[3] = by_t0;
}

/* ---- the table --------------------------------------------------------------------------------- */

typedef struct row {
    const gpumc_row_kind *kind;
    double (*libm)(const double *p, const double *x, double *g);
    long double (*precise)(const double *p, const double *x);
    double p[4], from, to;
    int whole;
    void (*by_hand)(const double *p, const double *y, double *out);
} row;
#define ROW(name) &name, libm_##name, long_##name
static const row rows[] = {
    { ROW(normal), { 0.3, 1.3, 0, 0 }, -2, 3, 0, hand_normal },
    { ROW(lognormal), { 0.3, 1.3, 0, 0 }, 0.1, 5, 0, hand_lognormal },
    { ROW(student_t), { 0.3, 1.3, 4.5, 0 }, -4, 5, 0, hand_student_t },
    { ROW(bernoulli_logit), { 0.3, 0.7, 0, 0 }, 0, 1.999, 1, NULL },
    { ROW(poisson), { 3.5, 0, 0, 0 }, 0, 9, 1, NULL },
    { ROW(wald_density), { 1.2, 2.1, 0.15, 0 }, 0.25, 1.25, 0, hand_wald_density },
    { ROW(wald_race), { 1.2, 2.1, 1.4, 0.15 }, 0.25, 1.25, 0, NULL },
    { ROW(wiener), { 1.2, 0.15, 0.55, 1.4 }, 0.25, 1.25, 0, NULL },
};

static double columns[2][1000000];
static volatile double seen;

static void fill(const row *r)
{
    for (size_t i = 0; i < N; i++) {
        const double u = ((double)(i * 6007 % N) + 0.5) / N;
        columns[0][i] = r->from + (r->to - r->from) * u;
        if (r->whole) columns[0][i] = floor(columns[0][i]);
        columns[1][i] = 6 * (((double)(i * 2503 % N) + 0.5) / N) - 3;
    }
}

typedef struct loaded { gpumc_rows *rows; void *memory; double *work; } loaded;

static loaded load(const gpumc_row_kind *kind, size_t n, size_t n_groups, const size_t *group, gpumc_isa isa)
{
    static const double *const each[2] = { columns[0], columns[1] };
    gpumc_error error;
    gpumc_rows_data data = {
        .kind = kind, .n_rows = n, .n_groups = n_groups, .group = group, .columns = each
    };
    loaded l;
    data.isa = isa;
    const size_t bytes = gpumc_rows_bytes(&data, &error);
    l.memory = malloc(bytes ? bytes : 1);
    l.rows = bytes && l.memory ? gpumc_rows_init(&data, l.memory, bytes, &error) : NULL;
    l.work = l.rows ? malloc(gpumc_rows_work(l.rows) * sizeof(double)) : NULL;
    if (!l.work) {
        fprintf(stderr, "%s\n", l.rows ? "out of memory" : error.text);
        exit(1);
    }
    return l;
}
static void unload(loaded *l)
{
    free(l->work);
    free(l->memory);
}

static double best_of(const gpumc_rows *r, const double *const *p, double *const *g, double *work, size_t n,
                      int runs)
{
    double best = INFINITY;
    for (int i = 0; i < runs; i++) {
        const double start = bench_seconds();
        seen = gpumc_rows_eval(r, p, g, work);
        best = fmin(best, (bench_seconds() - start) * 1e9 / (double)n);
    }
    return best;
}

static double best_libm(const row *r)
{
    double best = INFINITY, g[4] = { 0, 0, 0, 0 };
    for (int run = 0; run < RUNS; run++) {
        const double start = bench_seconds();
        double sum = 0;
        for (size_t i = 0; i < N; i++) {
            const double x[2] = { columns[0][i], columns[1][i] };
            sum += r->libm(r->p, x, g);
        }
        seen = sum + g[0] + g[1] + g[2] + g[3];
        best = fmin(best, (bench_seconds() - start) * 1e9 / N);
    }
    return best;
}

/* Nanoseconds per row of the hand-written loop, whose sums must agree with those of the density of single rows. */
static double best_by_hand(const row *r)
{
    double best = INFINITY, out[4] = { 0, 0, 0, 0 }, expected = 0, g[4] = { 0, 0, 0, 0 };
    for (int run = 0; run < RUNS; run++) {
        const double start = bench_seconds();
        r->by_hand(r->p, columns[0], out);
        seen = out[0];
        best = fmin(best, (bench_seconds() - start) * 1e9 / N);
    }
    for (size_t i = 0; i < N; i++) expected += r->libm(r->p, &columns[0][i], g);
    for (int k = 0; k < 4; k++)
        if (!(fabs(out[k] - (k ? g[k - 1] : expected)) <= 1e-9 * (N + fabs(expected)))) {
            fprintf(stderr, "%s by hand: %g, not %g\n", r->kind->name, out[k], k ? g[k - 1] : expected);
            exit(1);
        }
    return best;
}

/* The largest error of a row's value, in ULP of max(1, |value|). */
static double largest_error(const row *r, const gpumc_rows *loaded_rows, const double *const *p, double *work)
{
    static double value[N];
    double worst = 0;
    gpumc_rows_pointwise(loaded_rows, p, value, work);
    for (size_t i = 0; i < N; i++) {
        const double x[2] = { columns[0][i], columns[1][i] };
        const long double precise = r->precise(r->p, x);
        const double size = fmax(1, fabs((double)precise));
        worst = fmax(worst, (double)fabsl(value[i] - precise) / ldexp(1, ilogb(size) - 52));
    }
    return worst;
}

static void print_row(const row *r, double floor_read)
{
    double sums[4] = { 0, 0, 0, 0 }, *g[4] = { &sums[0], &sums[1], &sums[2], &sums[3] };
    const double *const p[4] = { &r->p[0], &r->p[1], &r->p[2], &r->p[3] };
    const double bytes = 8.0 * (double)r->kind->n_columns, libm = best_libm(r);
    const gpumc_isa best = gpumc_isa_resolve(GPUMC_ISA_AUTO);
    printf("%-16s %8.2f", r->kind->name, libm);
    if (r->by_hand) printf(" %8.2f", best_by_hand(r));
    else printf(" %8s", "");
    for (int isa = GPUMC_ISA_BASELINE; isa <= GPUMC_ISA_AVX512; isa++) {
        if (isa > (int)best || (isa > 1 && best == GPUMC_ISA_BASELINE)) break;
        loaded l = load(r->kind, N, 1, NULL, (gpumc_isa)isa);
        const double ns = best_of(l.rows, p, g, l.work, N, RUNS);
        printf(" | %6.2f %5.1fx %5.1f GB/s %4.1f ULP", ns, libm / ns, bytes / ns,
               largest_error(r, l.rows, p, l.work));
        if (isa == (int)best) printf(" | %4.0f %%", 100 * bytes / ns / floor_read);
        unload(&l);
    }
    printf("\n");
}

/* Memory bandwidth in GB/s of a sum in 64 lanes, by the best instruction set. */
#define READ(set, attributes, pragma, unused) \
    attributes static double read_##set(const double *x, size_t n) \
    { \
        double lane[64] = { 0 }, sum = 0; \
        for (size_t i = 0; i + 64 <= n; i += 64) \
            pragma for (int l = 0; l < 64; l++) lane[l] += x[i + (size_t)l]; \
        for (int l = 0; l < 64; l++) sum += lane[l]; \
        return sum; \
    }
GPUMC__ISA_COPIES(READ, )
static double read_bandwidth(void)
{
    static double (*const reads[GPUMC__N_ISA])(const double *x, size_t n) = GPUMC__ISA_TABLE(read);
    const size_t n = (size_t)1 << 25;                        /* 256 MB, beyond every cache; written below */
    double *x = (double *)malloc(n * sizeof *x), best = 0;
    for (size_t i = 0; x && i < n; i++) x[i] = (double)i;
    for (int run = 0; x && run < 10; run++) {
        const double start = bench_seconds();
        seen = reads[gpumc_isa_resolve(GPUMC_ISA_AUTO) - 1](x, n);
        best = fmax(best, 8e-9 * (double)n / (bench_seconds() - start));
    }
    free(x);
    return best;
}

/* Cost per row of a million rows by group size. normal: a mean per group, a common standard deviation;
   normal_groups: both per group. */
GPUMC_ROW(normal_groups, 2, 0, 1)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}
static void group_sizes(const gpumc_row_kind *kind, const char *what)
{
    enum { M = 1000000, SIZES = 5 };
    static const size_t sizes[SIZES] = { 100000, 100, 10, 3, 1 };
    static double mu[M], sigma[M], g_mu[M], g_sigma[M];
    static size_t group[M];
    const double *const p[2] = { mu, sigma };
    double *const g[2] = { g_mu, g_sigma };
    double last = 0;
    for (size_t i = 0; i < M; i++) {
        columns[0][i] = (double)(i % 97) * 0.02;
        mu[i] = 0.3;
        sigma[i] = 1.3;
    }
    printf("%s\n", what);
    for (int s = 0; s < SIZES; s++) {
        for (size_t i = 0; i < M; i++) group[i] = i / sizes[s];
        loaded l = load(kind, M, (M - 1) / sizes[s] + 1, group, GPUMC_ISA_AUTO);
        const double ns = best_of(l.rows, p, g, l.work, M, 40);
        if (s == 0) last = ns;
        printf("%10.0f rows a group %8.2f ns a row  %5.2f\n", (double)sizes[s], ns, ns / last);
        unload(&l);
    }
}

int main(int argc, char **argv)
{
    bench_header(argc, argv);
    const double floor_read = read_bandwidth();
    printf("reading memory: %.1f GB/s\n\n%-16s %8s %8s", floor_read, "ns a row", "libm", "by hand");
    for (int isa = GPUMC_ISA_BASELINE; isa <= (int)gpumc_isa_resolve(GPUMC_ISA_AUTO); isa++)
        printf(" | %-33s", gpumc_isa_name((gpumc_isa)isa));
    printf(" | of it\n");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (argc > 1 && strcmp(argv[1], rows[r].kind->name) != 0) continue;
        fill(&rows[r]);
        print_row(&rows[r], floor_read);
    }
    group_sizes(&normal, "\nnormal, mean of the group, common standard deviation");
    group_sizes(&normal_groups, "\nnormal, mean and standard deviation of the group");
    return 0;
}
