/* verify.c: what this machine offers, and whether gpumc computes on it what it should.

   Prints the instruction sets, threads and GPU; compares a sum over a million rows on each of them with a plain
   loop; samples eight schools briefly, on one thread and on all, and compares with the known posterior. One line
   a check, PASS or FAIL; the exit status is 1 if any failed. json=FILE writes the same as JSON.

   Build:  cc -O2 examples/verify.c -o verify -lm -pthread
   GPU:    nvcc -O3 -arch=native -c gpumc_cuda.cu -DGPUMC_ROWS='"examples/verify_rows.h"'
           cc -O2 -DGPUMC_CUDA -c examples/verify.c && nvcc verify.o gpumc_cuda.o -o verify
   Run:    ./verify
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"
#include "verify_rows.h"

enum { ROWS = 1000000, GROUPS = 1000 };

/* The report, on the screen and as JSON. */
typedef struct report { FILE *json; int n, failed; } report;

static void put_text(FILE *json, const char *text)
{
    fputc('"', json);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', json);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, json);
    }
    fputc('"', json);
}

static void fact(report *r, const char *what, const char *value)
{
    printf("      %-28s %s\n", what, value);
    if (!r->json) return;
    fprintf(r->json, "%s\n    {\"fact\": \"%s\", \"value\": ", r->n++ ? "," : "", what);
    put_text(r->json, value);
    fputs("}", r->json);
}

static void check(report *r, const char *what, int passed, const char *detail)
{
    printf("%s  %-28s %s\n", passed ? "PASS" : "FAIL", what, detail);
    r->failed += !passed;
    if (!r->json) return;
    fprintf(r->json, "%s\n    {\"check\": \"%s\", \"passed\": %s, \"detail\": ", r->n++ ? "," : "", what,
            passed ? "true" : "false");
    put_text(r->json, detail);
    fputs("}", r->json);
}

/* ---- sums over rows ------------------------------------------------------------------------------ */

typedef struct problem {
    double *y, *level, *gradient, *expected;
    size_t *group;
    double sigma, value, by_sigma;        /* value, by_sigma: of the plain loop */
} problem;

static int problem_make(problem *q)
{
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    q->y = (double *)malloc(ROWS * sizeof *q->y);
    q->group = (size_t *)malloc(ROWS * sizeof *q->group);
    q->level = (double *)calloc(3 * GROUPS, sizeof *q->level);
    if (!q->y || !q->group || !q->level) return 0;
    q->gradient = q->level + GROUPS;
    q->expected = q->gradient + GROUPS;
    q->sigma = 2;
    for (size_t j = 0; j < GROUPS; j++) q->level[j] = gpumc_normal_rng(&rng, 50, 10);
    for (size_t i = 0; i < ROWS; i++) {
        q->group[i] = i % GROUPS;
        q->y[i] = gpumc_normal_rng(&rng, q->level[i % GROUPS], q->sigma);
    }
    q->value = q->by_sigma = 0;
    for (size_t i = 0; i < ROWS; i++)
        q->value += gpumc_normal_lpdf(q->y[i], q->level[i % GROUPS], q->sigma, NULL, &q->expected[i % GROUPS],
                                      &q->by_sigma);
    return 1;
}

static void problem_free(problem *q)
{
    free(q->y);
    free(q->group);
    free(q->level);
}

/* The largest difference from the plain loop, in units of 1 + its size. */
static double problem_error(const problem *q, double value, double by_sigma)
{
    double worst = fmax(fabs(value - q->value) / (1 + fabs(q->value)),
                        fabs(by_sigma - q->by_sigma) / (1 + fabs(q->by_sigma)));
    for (size_t j = 0; j < GROUPS; j++)
        worst = fmax(worst, fabs(q->gradient[j] - q->expected[j]) / (1 + fabs(q->expected[j])));
    return worst;
}

static gpumc_rows_data problem_rows(const problem *q, const double *const *columns)
{
    gpumc_rows_data d;
    memset(&d, 0, sizeof d);
    d.kind = &measurement;
    d.n_rows = ROWS;
    d.n_groups = GROUPS;
    d.group = q->group;
    d.columns = columns;
    return d;
}

static void check_instruction_set(report *r, problem *q, gpumc_isa isa)
{
    const double *const columns[] = { q->y }, *const p[] = { q->level, &q->sigma };
    double by_sigma = 0, *const gradient[] = { q->gradient, &by_sigma };
    gpumc_rows_data d = problem_rows(q, columns);
    gpumc_error error;
    char name[64], detail[320];
    d.isa = isa;
    snprintf(name, sizeof name, "a million rows, %s", gpumc_isa_name(isa));
    const size_t bytes = gpumc_rows_bytes(&d, &error);
    void *memory = bytes ? malloc(bytes) : NULL;
    gpumc_rows *rows = memory ? gpumc_rows_init(&d, memory, bytes, &error) : NULL;
    double *work = rows ? (double *)malloc(gpumc_rows_work(rows) * sizeof *work) : NULL;
    if (!work) {
        check(r, name, 0, bytes ? "out of memory" : error.text);
    } else {
        memset(q->gradient, 0, GROUPS * sizeof *q->gradient);
        const double value = gpumc_rows_eval(rows, p, gradient, work),
                     worst = problem_error(q, value, by_sigma);
        snprintf(detail, sizeof detail, "differs by %.1e from a plain loop", worst);
        check(r, name, worst < 1e-10, detail);
    }
    free(work);
    free(memory);
}

static void check_gpu(report *r, problem *q)
{
    const double *const columns[] = { q->y };
    const gpumc_rows_data d = problem_rows(q, columns);
    gpumc_device_info info;
    gpumc_error error;
    char text[320];
    if (gpumc_device_describe(&info, &error) != GPUMC_OK) {
        fact(r, "GPU", error.text);
        return;
    }
    snprintf(text, sizeof text, "%s, compute capability %d.%d", info.name, info.major, info.minor);
    fact(r, "GPU", text);
    snprintf(text, sizeof text, "%.1f of %.1f GiB free", (double)info.bytes_free / 1073741824.0,
             (double)info.bytes / 1073741824.0);
    fact(r, "GPU memory", text);
    snprintf(text, sizeof text, "driver %d.%d, runtime %d.%d", info.driver / 1000, info.driver % 1000 / 10,
             info.runtime / 1000, info.runtime % 1000 / 10);
    fact(r, "CUDA", text);
    gpumc_hot *hot = gpumc_hot_rows(&d, 1, GPUMC_ON_GPU, &error);
    double *p = (double *)calloc(2 * (GROUPS + 1), sizeof *p), *gradient = p + GROUPS + 1, value = 0;
    if (!hot || !p) {
        check(r, "a million rows, GPU", 0, hot ? "out of memory" : error.text);
    } else {
        memcpy(p, q->level, GROUPS * sizeof *p);
        p[GROUPS] = q->sigma;
        if (gpumc_hot_eval(hot, 1, p, gradient, &value, &error) != GPUMC_OK) {
            check(r, "a million rows, GPU", 0, error.text);
        } else {
            memcpy(q->gradient, gradient, GROUPS * sizeof *gradient);
            const double worst = problem_error(q, value, gradient[GROUPS]);
            snprintf(text, sizeof text, "differs by %.1e from a plain loop", worst);
            check(r, "a million rows, GPU", worst < 1e-10, text);
        }
    }
    gpumc_hot_release(hot);
    free(p);
}

/* ---- a run --------------------------------------------------------------------------------------- */

static double schools(const double *x, double *grad, void *data)
{
    static const double effect[8] = { 28, 8, -3, 7, -1, 1, 18, 12 },
                        error[8] = { 15, 10, 16, 11, 9, 11, 10, 18 };
    double lp =
        gpumc_normal_lpdf(x[0], 0, 5, &grad[0], NULL, NULL) + gpumc_half_cauchy_lpdf(x[1], 5, &grad[1], NULL);
    (void)data;
    for (int j = 0; j < 8; j++)
        lp += gpumc_normal_lpdf(x[2 + j], x[0], x[1], &grad[2 + j], &grad[0], &grad[1])
            + gpumc_normal_lpdf(effect[j], x[2 + j], error[j], NULL, &grad[2 + j], NULL);
    return lp;
}

static void log_of_tau(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)rng;
    (void)data;
    out[0] = log(x[1]);
}

/* Against the mean of log tau by quadrature, 0.80214: |z| > 4.42 has probability 1e-5. */
static void check_run(report *r, int threads)
{
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 8, .location = "mu", .scale = "tau" },
    };
    const gpumc_output output = { .name = "log_tau" };
    const gpumc_model model = { .name = "eight_schools",
                                .params = params,
                                .n_params = 3,
                                .log_density = schools,
                                .generate = log_of_tau,
                                .outputs = &output,
                                .n_outputs = 1 };
    const gpumc_sample_options one = { .target_accept = 0.95, .threads = 1 },
                               all = { .target_accept = 0.95, .threads = threads };
    gpumc_fit fit, again;
    char text[320];
    const gpumc_status first = gpumc_sample(&model, &one, &fit), second = gpumc_sample(&model, &all, &again);
    if (first != GPUMC_OK || second != GPUMC_OK) {
        check(r, "eight schools", 0, first == GPUMC_OK ? again.message : fit.message);
    } else {
        const gpumc_series log_tau = gpumc_fit_series(&fit, gpumc_column(&fit, "log_tau"));
        const double mean = gpumc_mean(log_tau).value, mcse = gpumc_mcse_mean(log_tau).value;
        const double z = (mean - 0.80214) / mcse;
        snprintf(text, sizeof text, "mean of log tau %.3f +- %.3f, known 0.802; %.2f s", mean, mcse,
                 fit.warmup_seconds + fit.sampling_seconds);
        check(r, "eight schools", fabs(z) < 4.42, text);
        snprintf(text, sizeof text, "R-hat %.4f", gpumc_r_hat(log_tau).value);
        check(r, "chains agree", gpumc_r_hat(log_tau).value < 1.01, text);
        snprintf(text, sizeof text, "one thread and %d give the same draws", threads);
        check(r, "threads", memcmp(fit.draws, again.draws, fit.n_chains * fit.n_draws * fit.n_columns
                                                               * sizeof *fit.draws) == 0, text);
    }
    gpumc_free(&fit);
    gpumc_free(&again);
}

static int verify(report *r)
{
    problem q;
    char text[64];
    gpumc_team *team = gpumc_team_start(0, NULL);
    const int threads = team ? gpumc_team_threads(team) : 1;
    const gpumc_isa best = gpumc_isa_resolve(GPUMC_ISA_AVX512);
    gpumc_team_stop(team);
    fact(r, "gpumc", GPUMC_VERSION);
    fact(r, "instruction set", gpumc_isa_name(GPUMC_ISA_AUTO));
    snprintf(text, sizeof text, "%d", threads);
    fact(r, "threads", text);
    if (problem_make(&q)) {
        for (int isa = GPUMC_ISA_BASELINE; isa <= (int)best; isa++)
            check_instruction_set(r, &q, (gpumc_isa)isa);
        check_gpu(r, &q);
    } else {
        check(r, "memory", 0, "16 MB were not to be had");
    }
    problem_free(&q);
    check_run(r, threads);
    printf("%s\n", r->failed ? "FAIL" : "PASS");
    return r->failed;
}

int main(int argc, char **argv)
{
    const char *json = NULL;
    const argument list[] = { { "json", TEXT, &json, "FILE: writes the report as JSON" } };
    report r = { NULL, 0, 0 };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "help") == 0) { arguments_usage(argv[0], list, 1); return EXIT_SUCCESS; }
        if (!argument_read(argv[i], list, 1)) return EXIT_USAGE;
    }
    if (json && !(r.json = fopen(json, "w"))) return run_failed("the JSON file cannot be written");
    if (r.json)
        fprintf(r.json, "{\n  \"program\": \"gpumc verify\", \"version\": \"%s\", \"lines\": [",
                GPUMC_VERSION);
    verify(&r);
    if (r.json) {
        fprintf(r.json, "\n  ],\n  \"passed\": %s\n}\n", r.failed ? "false" : "true");
        const int failed = ferror(r.json);
        if (fclose(r.json) != 0 || failed) return run_failed("the JSON file could not be written whole");
    }
    return fflush(stdout) != 0 || r.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
