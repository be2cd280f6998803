/* Cost of one gradient of a regression with a design matrix X, compared with the time in which as many threads
   read an array of the size of X once. The two are measured alternately; times are the least of many, in
   milliseconds of processor time (of wall time for two threads). `reading`: time to read X as a percentage of the
   time of the gradient. `target`: the most milliseconds that a gradient may take on one core with AVX-512.
     make -C bench          or: cc -O2 bench/glm.c -lm -pthread -o glm && ./glm [runs, 40] [part of a name] */
#define _POSIX_C_SOURCE 199309L
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "bench.h"
#include <math.h>

typedef struct shape {
    const char *what;
    gpumc_glm_family family;
    size_t n_rows, n_columns, levels[4];
    int single_precision;
    size_t n_points, n_threads;
    double target_ms;                                        /* on an AVX-512 machine; 0: none */
} shape;

static const shape shapes[] = {
    { "normal, 4 points a pass", GPUMC_GLM_NORMAL, 1000000, 20, { 0 }, 0, 4, 1, 0 },
    { "normal, 1 point", GPUMC_GLM_NORMAL, 1000000, 20, { 0 }, 0, 1, 1, 0 },
    { "normal, 4 points, 2 threads", GPUMC_GLM_NORMAL, 1000000, 20, { 0 }, 0, 4, 2, 0 },
    { "bernoulli, 4 points a pass", GPUMC_GLM_BERNOULLI_LOGIT, 1000000, 20, { 0 }, 0, 4, 1, 0 },
    { "bernoulli, 4 points, 2 threads", GPUMC_GLM_BERNOULLI_LOGIT, 1000000, 20, { 0 }, 0, 4, 2, 0 },
    { "poisson", GPUMC_GLM_POISSON_LOG, 1000000, 20, { 0 }, 0, 1, 1, 0 },
    { "negative binomial", GPUMC_GLM_NEG_BINOMIAL_2_LOG, 1000000, 20, { 0 }, 0, 1, 1, 0 },
    { "student t", GPUMC_GLM_STUDENT_T, 1000000, 20, { 0 }, 0, 1, 1, 0 },
    { "covertype, double", GPUMC_GLM_BERNOULLI_LOGIT, 581012, 54, { 0 }, 0, 1, 1, 20 },
    { "covertype, float", GPUMC_GLM_BERNOULLI_LOGIT, 581012, 54, { 0 }, 1, 1, 1, 9 },
    { "covertype, float, 2 threads", GPUMC_GLM_BERNOULLI_LOGIT, 581012, 54, { 0 }, 1, 1, 2, 0 },
    { "covertype, indicators as factors", GPUMC_GLM_BERNOULLI_LOGIT, 581012, 10, { 4, 40 }, 1, 1, 1, 3 },
    { "multilevel, 4 factors", GPUMC_GLM_BERNOULLI_LOGIT, 340000, 20, { 10, 50, 140, 800 }, 0, 1, 1, 6 },
    { "multilevel, 2 threads", GPUMC_GLM_BERNOULLI_LOGIT, 340000, 20, { 10, 50, 140, 800 }, 0, 1, 2, 0 },
    { "many columns", GPUMC_GLM_BERNOULLI_LOGIT, 10000, 2000, { 0 }, 0, 1, 1, 0 },
    { "small, in cache", GPUMC_GLM_BERNOULLI_LOGIT, 5000, 20, { 0 }, 0, 1, 1, 0 },
};
#define MOST_POINTS 4
#define MOST_EFFECTS 1000

/* ---- reading ---------------------------------------------------------------------------------------- */
static volatile uint64_t seen;

#define READ(suffix, attributes, pragma, ...) \
    attributes static void read_##suffix(const uint64_t *a, size_t n) \
    { \
        uint64_t sum[32] = { 0 }; \
        for (size_t i = 0; i + 32 <= n; i += 32) { \
            pragma for (size_t l = 0; l < 32; l++) sum[l] ^= a[i + l]; \
        } \
        for (size_t l = 0; l < 32; l++) seen ^= sum[l]; \
    }
GPUMC__ISA_COPIES(READ, 0)
static void (*const read_isa[])(const uint64_t *, size_t) = GPUMC__ISA_TABLE(read);
typedef struct words { const uint64_t *a; size_t n; } words;
enum { READ_PARTS = 64 };
static void read_part(size_t part, int member, void *user)
{
    const words *w = user;
    const size_t from = w->n * part / READ_PARTS, to = w->n * (part + 1) / READ_PARTS;
    (void)member;
    read_isa[gpumc_isa_resolve(GPUMC_ISA_AUTO) - 1](w->a + from, to - from);
}
static void read_once(gpumc_team *team, const void *a, size_t bytes)
{
    words w = { a, bytes / sizeof(uint64_t) };
    gpumc__run_parts(team, read_part, READ_PARTS, &w);
}

/* ---- one gradient -------------------------------------------------------------------------------------- */
typedef struct job {
    const gpumc_glm *glm;
    const gpumc_glm_point *at;
    const gpumc_glm_gradient *gradient;
    size_t n_points;
    gpumc_team *team;                                        /* NULL: one thread */
    double *work;
} job;

static void evaluate(const job *j, double *log_lik)
{
    gpumc_glm_eval_batch(j->glm, j->n_points, j->at, j->gradient, log_lik, j->work, j->team);
}

static double random_unit(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(*state >> 11) * 0x1p-53;
}

static gpumc_glm *make(const shape *s, double *x, double *y, size_t *levels, void **memory)
{
    uint64_t state = 1;
    gpumc_error error;
    gpumc_glm_factor factors[4];
    gpumc_glm_data data;
    gpumc_glm *glm;
    size_t bytes;
    memset(&data, 0, sizeof data);
    for (size_t i = 0; i < s->n_rows * s->n_columns; i++) x[i] = random_unit(&state) - 0.5;
    for (size_t i = 0; i < s->n_rows; i++) y[i] = random_unit(&state) < 0.4;
    if (s->family == GPUMC_GLM_POISSON_LOG || s->family == GPUMC_GLM_NEG_BINOMIAL_2_LOG)
        for (size_t i = 0; i < s->n_rows; i++) y[i] = floor(-20 * log(1 - random_unit(&state)));
    for (; data.n_factors < 4 && s->levels[data.n_factors]; data.n_factors++) {
        size_t *level = levels + data.n_factors * s->n_rows;
        for (size_t i = 0; i < s->n_rows; i++)
            level[i] = (size_t)(random_unit(&state) * (double)s->levels[data.n_factors]);
        factors[data.n_factors].level = level;
        factors[data.n_factors].n_levels = s->levels[data.n_factors];
    }
    data.family = s->family;
    data.n_rows = s->n_rows;
    data.n_columns = s->n_columns;
    data.x = x;
    data.y = y;
    data.factors = data.n_factors ? factors : NULL;
    data.single_precision = s->single_precision;
    bytes = gpumc_glm_bytes(&data, &error);
    *memory = bench_memory(malloc(bytes + 1));
    glm = bytes ? gpumc_glm_init(&data, *memory, bytes, &error) : NULL;
    if (!glm) { fprintf(stderr, "%s\n", error.text); exit(1); }
    return glm;
}

static void measure(const shape *s, int runs)
{
    const size_t K = s->n_columns, each = s->single_precision ? sizeof(float) : sizeof(double);
    const size_t bytes = s->n_rows * K * each;
    double *x = bench_memory(malloc(s->n_rows * K * sizeof *x)), *y = bench_memory(malloc(s->n_rows * sizeof *y));
    size_t *levels = bench_memory(malloc(4 * s->n_rows * sizeof *levels));
    double *beta = bench_memory(calloc(MOST_POINTS * K, sizeof *beta));
    double *by_beta = bench_memory(calloc(K, sizeof *by_beta));
    static double effects[MOST_EFFECTS], by_effects[MOST_EFFECTS], ignored, lp[MOST_POINTS];
    static const double one = 1.25, five = 5;
    const double *effect_of[4] = { effects, effects, effects, effects };
    double *by_effect_of[4] = { by_effects, by_effects, by_effects, by_effects };
    void *memory;
    gpumc_glm *glm = make(s, x, y, levels, &memory);
    gpumc_glm_point at[MOST_POINTS];
    gpumc_glm_gradient to[MOST_POINTS];
    job j = { glm, at, to, s->n_points, NULL, NULL };
    double best = INFINITY, reading = INFINITY;
    for (size_t i = 0; i < MOST_POINTS * K; i++) beta[i] = 0.3 * sin((double)i);
    for (size_t i = 0; i < MOST_EFFECTS; i++) effects[i] = 0.2 * cos((double)i);
    for (size_t p = 0; p < s->n_points; p++) {
        const gpumc_glm_point point = { &one, beta + p * K, effect_of, &one, &five, &five };
        const gpumc_glm_gradient gradient = { &ignored, by_beta, by_effect_of, &ignored, &ignored, &ignored };
        at[p] = point;
        to[p] = gradient;
    }
    j.work = bench_memory(malloc(gpumc_glm_work(glm, s->n_points, s->n_threads) * sizeof(double)));
    if (s->n_threads > 1) j.team = bench_memory(gpumc_team_start((int)s->n_threads, NULL));
    for (int r = 0; r < runs; r++) {
        double start = s->n_threads > 1 ? bench_wall_seconds() : bench_seconds();
        read_once(j.team, x, bytes);
        reading = fmin(reading, (s->n_threads > 1 ? bench_wall_seconds() : bench_seconds()) - start);
        start = s->n_threads > 1 ? bench_wall_seconds() : bench_seconds();
        evaluate(&j, lp);
        best = fmin(best, (s->n_threads > 1 ? bench_wall_seconds() : bench_seconds()) - start);
    }
    printf("%-33s %7zu x %-4zu %8.3f", s->what, s->n_rows, K, best * 1e3);
    if (s->target_ms > 0) printf(" %7.1f", s->target_ms);
    else printf(" %7s", "");
    printf(" %9.3f %8.1f %9.0f %%\n", reading * 1e3, 1e-9 * (double)bytes / reading, 100 * reading / best);
    gpumc_team_stop(j.team);
    free(memory); free(x); free(y); free(levels); free(beta); free(by_beta); free(j.work);
}

int main(int argc, char **argv)
{
    const int runs = argc > 1 ? atoi(argv[1]) : 40;
    const char *only = argc > 2 ? argv[2] : "";
    bench_header(argc, argv);
    printf("set       %s\n\n%-33s %14s %8s %7s %9s %8s %11s\n", gpumc_isa_name(GPUMC_ISA_AUTO),
           "one gradient", "X", "ms", "target", "X read in", "GB/s", "reading");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strstr(shapes[i].what, only)) { measure(&shapes[i], runs); fflush(stdout); }
    return 0;
}
