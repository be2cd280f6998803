/* Compares the hot loops of gpumc_cuda.cu with those of one CPU core, in one run: milliseconds per gradient with
   1, 4, 16 and 64 points per call, the bandwidth in GB/s at which the GPU reads the data (assuming that a call
   reads them once), and the largest relative difference from the CPU. Then whole runs of hierarchical models,
   four chains each, on all cores and on the GPU. Without a GPU the program says so and ends.

   Build:  nvcc -O3 -arch=native -c gpumc_cuda.cu -DGPUMC_ROWS='"tests/device_rows.h"'
           cc -O2 -c -DGPUMC_CUDA bench/device.c && nvcc device.o gpumc_cuda.o -o device
   Run:    ./device [rows] [part of a name]     (1000000 rows, all lines unless given) */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 199309L
#endif
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "bench.h"
#include "../tests/device_rows.h"

enum { MOST_POINTS = 64, GROUPS = 1000, MOST_FACTORS = 4, LEVELS = 250 };

static double *doubles(size_t n) { return (double *)bench_memory(calloc(n, sizeof(double))); }

/* Wall time in seconds of a call with n points, the least of 7 after a first untimed one. Not processor time,
   because the CPU waits for the GPU. */
static double seconds_at(gpumc_hot *hot, size_t n, const double *p, double *grad, double *lp)
{
    double least = 1e30;
    gpumc_error error;
    for (int k = 0; k < 8; k++) {
        const double begin = bench_wall_seconds();
        if (gpumc_hot_eval(hot, n, p, grad, lp, &error) != GPUMC_OK) {
            fprintf(stderr, "%s\n", error.text);
            exit(EXIT_FAILURE);
        }
        const double took = bench_wall_seconds() - begin;
        if (k > 0 && took < least) least = took;
    }
    return least;
}

/* Prints one line and releases hot. cpu: seconds for one point on one core, where it gave value and expected (the
   gradient). trouble: the error message if hot is NULL. bytes: size of the data. */
static void report(const char *name, gpumc_hot *hot, const char *trouble, size_t n_params, const double *p,
                   double bytes, double cpu, double value, const double *expected)
{
    double *grad = doubles(MOST_POINTS * n_params), *points = doubles(MOST_POINTS * n_params),
           lp[MOST_POINTS];
    double worst;
    gpumc_error error;
    if (!hot) { printf("%-26s %s\n", name, trouble); exit(EXIT_FAILURE); }
    for (size_t i = 0; i < MOST_POINTS; i++) memcpy(points + i * n_params, p, n_params * sizeof *p);
    if (gpumc_hot_eval(hot, 1, p, grad, lp, &error) != GPUMC_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(EXIT_FAILURE);
    }
    worst = fabs(lp[0] - value) / (1 + fabs(value));
    for (size_t k = 0; k < n_params; k++)
        worst = fmax(worst, fabs(grad[k] - expected[k]) / (1 + fabs(expected[k])));
    printf("%-26s %9.3f", name, 1e3 * cpu);
    for (size_t n = 1; n <= MOST_POINTS; n *= 4) {
        const double took = seconds_at(hot, n, points, grad, lp);
        printf(" %9.4f", 1e3 * took / (double)n);
        if (n == 1) printf(" %6.0f", bytes / took * 1e-9);
    }
    printf("  %8.1e\n", worst);
    gpumc_hot_release(hot);
    free(grad);
    free(points);
}

static void rows(const char *name, const gpumc_row_kind *kind, size_t n_rows, size_t n_groups, int single)
{
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    gpumc_error error;
    const size_t n_params = kind->n_group * n_groups + kind->n_shared;
    double *y = doubles(2 * n_rows), *p = doubles(2 * n_params), *grad = p + n_params, value = 0,
           least = 1e30;
    size_t *group = (size_t *)bench_memory(malloc(n_rows * sizeof *group)), at = 0;
    const double *columns[2] = { y, y + n_rows }, *from[4];
    double *to[4];
    for (size_t i = 0; i < n_rows; i++) {
        y[i] = gpumc_rng_uniform(&rng) < 0.5;
        y[n_rows + i] = gpumc_rng_normal(&rng);
        group[i] = i * n_groups / n_rows;
    }
    for (size_t k = 0; k < n_params; k++) p[k] = 1 + gpumc_rng_uniform(&rng);
    const gpumc_rows_data d = { .kind = kind, .n_rows = n_rows, .n_groups = n_groups, .group = group,
                                .columns = columns, .single_precision = single };
    const size_t bytes = gpumc_rows_bytes(&d, &error);
    void *memory = bench_memory(malloc(bytes));
    gpumc_rows *on_cpu = (gpumc_rows *)bench_memory(gpumc_rows_init(&d, memory, bytes, &error));
    double *work = doubles(gpumc_rows_work(on_cpu));
    for (size_t k = 0; k < kind->n_group + kind->n_shared; k++) {
        from[k] = p + at;
        to[k] = grad + at;
        at += k < kind->n_group ? n_groups : 1;
    }
    for (int k = 0; k < 5; k++) {
        const double begin = bench_wall_seconds();
        memset(grad, 0, n_params * sizeof *grad);
        value = gpumc_rows_eval(on_cpu, from, to, work);
        least = fmin(least, bench_wall_seconds() - begin);
    }
    gpumc_hot *hot = gpumc_hot_rows(&d, MOST_POINTS, GPUMC_ON_GPU, &error);
    report(name, hot, error.text, n_params, p, (double)(n_rows * kind->n_columns) * (single ? 4 : 8), least,
           value, grad);
    free(work);
    free(memory);
    free(group);
    free(p);
    free(y);
}

/* Logistic regression on n_columns columns and n_factors grouping factors of 250 levels each. */
static void logistic(const char *name, size_t n_rows, size_t n_columns, size_t n_factors, int single)
{
    gpumc_rng rng = gpumc_rng_at(2, 0, 0, 0);
    gpumc_error error;
    const size_t n_params = 1 + n_columns + n_factors * LEVELS;
    double *x = doubles(n_rows * n_columns), *y = doubles(n_rows), *p = doubles(2 * n_params),
           *grad = p + n_params, value = 0, least = 1e30;
    const double *effects[MOST_FACTORS];
    double *to_effects[MOST_FACTORS];
    size_t *level = (size_t *)bench_memory(malloc((n_factors * n_rows + 1) * sizeof *level));
    gpumc_glm_factor factors[MOST_FACTORS];
    for (size_t i = 0; i < n_rows * n_columns; i++) x[i] = gpumc_rng_uniform(&rng) - 0.5;
    for (size_t i = 0; i < n_rows; i++) y[i] = gpumc_rng_uniform(&rng) < 0.5;
    for (size_t i = 0; i < n_factors * n_rows; i++) level[i] = (size_t)(gpumc_rng_uniform(&rng) * LEVELS);
    for (size_t k = 0; k < n_params; k++) p[k] = (gpumc_rng_uniform(&rng) - 0.5) * sqrt(50.0 / (double)n_columns);
    for (size_t f = 0; f < n_factors; f++) {
        factors[f].level = level + f * n_rows;
        factors[f].n_levels = LEVELS;
        effects[f] = p + 1 + n_columns + f * LEVELS;
        to_effects[f] = grad + 1 + n_columns + f * LEVELS;
    }
    const gpumc_glm_data d = { .family = GPUMC_GLM_BERNOULLI_LOGIT, .n_rows = n_rows, .n_columns = n_columns,
                               .x = x, .y = y, .factors = factors, .n_factors = n_factors,
                               .single_precision = single };
    const size_t bytes = gpumc_glm_bytes(&d, &error);
    void *memory = bench_memory(malloc(bytes));
    gpumc_glm *on_cpu = (gpumc_glm *)bench_memory(gpumc_glm_init(&d, memory, bytes, &error));
    double *work = doubles(gpumc_glm_work(on_cpu, 1, 1));
    const gpumc_glm_point at = { p, p + 1, effects, NULL, NULL, NULL };
    const gpumc_glm_gradient to = { grad, grad + 1, to_effects, NULL, NULL, NULL };
    for (int k = 0; k < 5; k++) {
        const double begin = bench_wall_seconds();
        memset(grad, 0, n_params * sizeof *grad);
        value = gpumc_glm_eval(on_cpu, &at, &to, work);
        least = fmin(least, bench_wall_seconds() - begin);
    }
    gpumc_hot *hot = gpumc_hot_glm(&d, MOST_POINTS, GPUMC_ON_GPU, &error);
    report(name, hot, error.text, n_params, p, (double)(n_rows * n_columns) * (single ? 4 : 8), least, value,
           grad);
    free(work);
    free(memory);
    free(level);
    free(p);
    free(y);
    free(x);
}

/* Measures the seconds and the number of gradients of a run of four chains. */
static void run(const gpumc_hier_data *d, double *seconds, uint64_t *gradients)
{
    gpumc_error error;
    gpumc_fit fit;
    const gpumc_sample_options o = { .num_chains = 4, .num_warmup = 100, .num_samples = 200, .seed = 1 };
    const double begin = bench_wall_seconds();
    gpumc_hier *hier = gpumc_hier_create(d, &error);
    if (!hier || gpumc_sample(gpumc_hier_model(hier), &o, &fit) != GPUMC_OK) {
        fprintf(stderr, "%s\n", hier ? fit.message : error.text);
        exit(EXIT_FAILURE);
    }
    *seconds = bench_wall_seconds() - begin;
    *gradients = fit.warmup_gradients + fit.sampling_gradients;
    gpumc_free(&fit);
    gpumc_hier_free(hier);
}

/* Logistic regression with an intercept and a slope for each group, each drawn from a population; the data are
   simulated from this model. */
static void hierarchy(const char *name, size_t n_groups, size_t rows_each)
{
    const size_t n = n_groups * rows_each;
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    double *y = doubles(2 * n), *x = y + n, seconds[2];
    size_t *group = (size_t *)bench_memory(malloc(n * sizeof *group));
    const double *columns[2] = { y, x };
    uint64_t gradients[2];
    for (size_t g = 0; g < n_groups; g++) {
        const double a = -0.5 + gpumc_rng_normal(&rng), b = 1 + 0.5 * gpumc_rng_normal(&rng);
        for (size_t i = g * rows_each; i < (g + 1) * rows_each; i++) {
            x[i] = gpumc_rng_normal(&rng);
            y[i] = gpumc_rng_uniform(&rng) < 1 / (1 + exp(-(a + b * x[i])));
            group[i] = g;
        }
    }
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "m_slope" }, { .name = "s_slope", .kind = GPUMC_POSITIVE },
        { .name = "level", .size = n_groups, .location = "mu", .scale = "tau" },
        { .name = "slope", .size = n_groups, .location = "m_slope", .scale = "s_slope" },
    };
    const gpumc_prior priors[] = {
        { "mu", gpumc_prior_normal, 0, 2, 0 },      { "tau", gpumc_prior_half_normal, 1, 0, 0 },
        { "m_slope", gpumc_prior_normal, 0, 2, 0 }, { "s_slope", gpumc_prior_half_normal, 1, 0, 0 },
    };
    const gpumc_hier_take takes[] = { { "level", group }, { "slope", group } };
    const gpumc_hier_rows rows = { .name = "y", .takes = takes, .n_takes = 2,
                                   .data = { .kind = &device_logit, .n_rows = n, .columns = columns } };
    gpumc_hier_data d = { .params = params, .n_params = 6, .priors = priors, .n_priors = 4, .rows = &rows,
                          .n_rows = 1 };
    for (int k = 0; k < 2; k++) {
        d.place = k ? GPUMC_ON_GPU : GPUMC_ON_CPU;
        run(&d, &seconds[k], &gradients[k]);
    }
    printf("%-26s %9.3f %9.0f %9.3f %9.0f\n", name, seconds[0], (double)gradients[0], seconds[1],
           (double)gradients[1]);
    free(group);
    free(y);
}

static int wanted(int argc, char **argv, const char *name)
{ return argc < 3 || strstr(name, argv[2]) != NULL; }

int main(int argc, char **argv)
{
    static const struct { const char *name; size_t n_rows, n_columns, n_factors; int single; } designs[] = {
        { "logistic, 581,012 x 54", 581012, 54, 0, 0 },
        { "the same in float", 581012, 54, 0, 1 },
        { "logistic, 4,194,304 x 10", 4194304, 10, 0, 0 },
        { "logistic, 10,000 x 2,000", 10000, 2000, 0, 0 },
        { "340,000 x 20 + 4 factors", 340000, 20, 4, 0 },
        { "logistic, 5,000 x 20", 5000, 20, 0, 0 },
    };
    const size_t n = argc > 1 ? (size_t)strtod(argv[1], NULL) : 1000000;
    const struct { const char *name; const gpumc_row_kind *kind; size_t n_groups; int single; } sums[] = {
        { "normal, 10 rows a group", &device_normal, n / 10 + 1, 0 },
        { "normal, 1000 groups", &device_normal, GROUPS, 0 },
        { "normal, 1000 groups, float", &device_normal, GROUPS, 1 },
        { "logit, 1000 groups", &device_logit, GROUPS, 0 },
    };
    const struct { const char *name; size_t n_groups, rows_each; } models[] = {
        { "logit, 100 x 100", 100, 100 }, { "logit, 1000 x 30", 1000, 30 }, { "logit, 1000 x 100", 1000, 100 },
        { "logit, 1000 x 1000", 1000, 1000 }, { "logit, 10,000 x 100", 10000, 100 },
    };
    gpumc_device_info info;
    gpumc_error error;
    bench_header(argc, argv);
    if (gpumc_device_describe(&info, &error) != GPUMC_OK) {
        printf("skipped: %s\n", error.text);
        return EXIT_SUCCESS;
    }
    printf("GPU       %s, driver %d, runtime %d\n\n", info.name, info.driver, info.runtime);
    printf("%-26s %9s %9s %6s %9s %9s %9s  %8s\n", "ms a gradient", "one core", "1 point", "GB/s", "4", "16",
           "64", "error");
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (wanted(argc, argv, sums[i].name))
            rows(sums[i].name, sums[i].kind, n, sums[i].n_groups, sums[i].single);
    for (size_t i = 0; i < sizeof designs / sizeof *designs; i++)
        if (wanted(argc, argv, designs[i].name))
            logistic(designs[i].name, designs[i].n_rows, designs[i].n_columns, designs[i].n_factors,
                     designs[i].single);
    printf("\n%-26s %9s %9s %9s %9s\n", "hierarchical runs", "cores, s", "gradients", "GPU, s", "gradients");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (wanted(argc, argv, models[i].name)) hierarchy(models[i].name, models[i].n_groups, models[i].rows_each);
    return EXIT_SUCCESS;
}
