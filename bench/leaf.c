/* Cost of the leaf functions of section api-math: nanoseconds per element in a loop over 1024 numbers (in the
   first-level cache), for every instruction set that the processor has, and for a loop over libm's function where
   there is one. Least of 200 runs.
     make -C bench          or: cc -O2 bench/leaf.c -lm -o leaf && ./leaf [name] */
#define _POSIX_C_SOURCE 199309L
#include "../gpumc.h"
#include <math.h>
#include "../tests/math_loops.h"
#include "bench.h"

#define N 1024
#define RUNS 200

/* libm's functions, and the range [from, to] of the arguments (uniform; the same in all columns). */
#define LIBM(X) \
    X(exp, -20, 20) X(expm1, -5, 5) X(log, 0.01, 100) X(log1p, -0.9, 10) X(sqrt, 0, 100) \
    X(floor, -100, 100) X(erf, -4, 4) X(erfc, -4, 10) X(lgamma, 0.1, 20) X(tanh, -5, 5)
#define LIBM_LOOP(name, from, to) \
    static void libm_##name(const double *a, double *b) { for (size_t i = 0; i < N; i++) b[i] = name(a[i]); }
LIBM(LIBM_LOOP)

typedef struct { const char *name; double from, to; void (*libm)(const double *x, double *out); } row;
#define LIBM_ROW(name, from, to) { #name, from, to, libm_##name },
static const row rows[] = {
    LIBM(LIBM_ROW)
    { "rsqrt", 0.01, 100, NULL }, { "erfcx", 0, 10, NULL }, { "Phi", -6, 6, NULL },
    { "log_Phi", -10, 6, NULL }, { "inv_Phi", 0, 1, NULL }, { "digamma", 0.1, 20, NULL },
    { "lbeta", 0.1, 20, NULL }, { "log1p_exp", -10, 10, NULL }, { "log_sum_exp", -10, 10, NULL },
    { "logit", 0, 1, NULL }, { "inv_logit", -10, 10, NULL }, { "sin_2pi", 0, 1, NULL },
};

static double x[N], y[N], out[N];
static volatile double seen;

/* Nanoseconds per element of the loop over leaf compiled for set, or over libm if leaf is NULL. */
static double best_nanoseconds(const row *r, const loops_leaf *leaf, int set)
{
    double best = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        const double start = bench_seconds();
        for (int k = 0; k < 8; k++) {
            if (leaf) leaf->run[set](x, y, out, N);
            else r->libm(x, out);
            seen = out[i % N];
        }
        best = fmin(best, (bench_seconds() - start) * 1e9 / (8 * N));
    }
    return best;
}

int main(int argc, char **argv)
{
    bench_header(argc, argv);
    printf("%-12s %8s", "ns/element", "libm");
    for (int set = 0; set < loops_sets(); set++) printf(" %9s", loops_set_names[set]);
    printf("\n");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (argc > 1 && strcmp(argv[1], rows[r].name) != 0) continue;
        for (size_t i = 0; i < N; i++) {                     /* two orders of an even grid */
            x[i] = rows[r].from + (rows[r].to - rows[r].from) * ((double)(i * 389 % N) + 0.5) / N;
            y[i] = rows[r].from + (rows[r].to - rows[r].from) * ((double)(i * 677 % N) + 0.5) / N;
        }
        printf("%-12s", rows[r].name);
        if (rows[r].libm) printf(" %8.2f", best_nanoseconds(&rows[r], NULL, 0));
        else printf(" %8s", "");
        for (int set = 0; set < loops_sets(); set++)
            printf(" %9.2f", best_nanoseconds(&rows[r], loops_find(rows[r].name), set));
        printf("\n");
    }
    return 0;
}
