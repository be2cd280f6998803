/* The hot loops of gpumc_cuda.cu against those of the CPU, through the table that programs use. test_device.sh
   links it with the file compiled for the CPU; where there is a GPU, test_cuda.sh links the real one. */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "check.h"
#include "device_rows.h"

GPUMC_ROW(device_unknown, 0, 1, 1) { return p[0] * x[0]; }

#ifndef TOLERANCE
#define TOLERANCE 1e-11                 /* a build with -DGPUMC_REAL=float wants more */
#endif
enum { MOST_PARAMS = 4, POINTS = 5 };

typedef struct problem {
    gpumc_rows_data data;
    size_t *group, n_params;
    double *columns[2], *weights;
    const double *column_list[2];
} problem;

/* Group sizes vary around n_rows / n_groups; the last group is empty. */
static void problem_make(problem *q, const gpumc_row_kind *kind, size_t n_rows, size_t n_groups, int weighted,
                         int single)
{
    gpumc_rng rng = gpumc_rng_at(7, 0, (uint32_t)n_rows, (uint32_t)n_groups);
    memset(q, 0, sizeof *q);
    q->group = (size_t *)malloc(n_rows * sizeof *q->group);
    q->weights = (double *)malloc(n_rows * sizeof *q->weights);
    for (int c = 0; c < 2; c++) q->columns[c] = (double *)malloc(n_rows * sizeof(double));
    for (size_t i = 0; i < n_rows; i++) {
        const double u = gpumc_rng_uniform(&rng);
        q->group[i] = n_groups > 1 ? (size_t)(u * u * (double)(n_groups - 1)) : 0;
        q->columns[0][i] = gpumc_rng_uniform(&rng) < 0.5;
        q->columns[1][i] = (double)(float)gpumc_rng_normal(&rng);
        q->weights[i] = gpumc_rng_uniform(&rng) < 0.2 ? 0 : 1 + gpumc_rng_uniform(&rng);
    }
    q->column_list[0] = q->columns[0];
    q->column_list[1] = q->columns[1];
    q->data.kind = kind;
    q->data.n_rows = n_rows;
    q->data.n_groups = n_groups;
    q->data.group = q->group;
    q->data.columns = q->column_list;
    q->data.weights = weighted ? q->weights : NULL;
    q->data.single_precision = single;
    q->n_params = kind->n_group * n_groups + kind->n_shared;
}

static void problem_free(problem *q)
{
    free(q->group);
    free(q->weights);
    for (int c = 0; c < 2; c++) free(q->columns[c]);
}

/* One point on the CPU, with parameters packed as the device wants them. */
static double on_cpu(const problem *q, const double *p, double *grad)
{
    gpumc_error error;
    const size_t bytes = gpumc_rows_bytes(&q->data, &error);
    gpumc_rows *rows = gpumc_rows_init(&q->data, malloc(bytes), bytes, &error);
    double *work = (double *)malloc(gpumc_rows_work(rows) * sizeof *work), value;
    const double *from[MOST_PARAMS];
    double *to[MOST_PARAMS];
    for (size_t k = 0, at = 0; k < q->data.kind->n_group + q->data.kind->n_shared; k++) {
        from[k] = p + at;
        to[k] = grad + at;
        at += k < q->data.kind->n_group ? q->data.n_groups : 1;
    }
    value = gpumc_rows_eval(rows, from, to, work);
    free(work);
    free(rows);
    return value;
}

static double relative(double a, double b) { return fabs(a - b) / (1 + fabs(b)); }

static void compare(const gpumc_device *device, const gpumc_row_kind *kind, size_t n_rows, size_t n_groups,
                    int weighted, int single)
{
    problem q;
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0);
    gpumc_hot *hot;
    problem_make(&q, kind, n_rows, n_groups, weighted, single);
    const size_t n = q.n_params;
    double *p = (double *)calloc(4 * POINTS * n, sizeof *p), *grad = p + POINTS * n, *again = grad + POINTS * n;
    double *expected = again + POINTS * n, lp[POINTS], lp_again[POINTS], worst = 0;
    for (size_t i = 0; i < POINTS * n; i++) p[i] = 1 + gpumc_rng_uniform(&rng);
    hot = device->upload_rows(&q.data, 2, &error);       /* 2 at once: five points take three turns */
    CHECK(hot != NULL, "%s", error.text);
    if (hot) {
        CHECK(device->evaluate(hot, POINTS, p, grad, lp, &error) == GPUMC_OK, "%s", error.text);
        for (size_t i = 0; i < POINTS; i++) {
            worst = fmax(worst, relative(lp[i], on_cpu(&q, p + i * n, expected + i * n)));
            for (size_t k = 0; k < n; k++)
                worst = fmax(worst, relative(grad[i * n + k], expected[i * n + k]));
        }
        CHECK(worst < TOLERANCE, "%s, %zu rows in %zu groups: off by %g", kind->name, n_rows, n_groups, worst);
        CHECK(device->evaluate(hot, 1, p + 3 * n, again + 3 * n, &lp_again[3], &error) == GPUMC_OK, "%s", error.text);
        CHECK(memcmp(&lp_again[3], &lp[3], sizeof(double)) == 0, "%s", error.text);        /* alone and in company: the same bits */
        CHECK(memcmp(again + 3 * n, grad + 3 * n, n * sizeof(double)) == 0, "%s", error.text);
        CHECK(device->evaluate(hot, 1, p, grad, lp_again, &error) == GPUMC_OK, "%s", error.text);     /* added, not stored */
        CHECK(relative(grad[0], 2 * expected[0]) < TOLERANCE, "%g, %g", grad[0], expected[0]);
        device->release(hot);
    }
    free(p);
    problem_free(&q);
}

static void check_refusals(const gpumc_device *device)
{
    problem q;
    gpumc_error error;
    gpumc_row_kind other = device_normal;
    problem_make(&q, &device_unknown, 10, 1, 0, 0);
    CHECK(device->upload_rows(&q.data, 1, &error) == NULL, "%s", error.text);
    CHECK(error.status == GPUMC_ERROR_DEVICE && strstr(error.text, "device_unknown"), "%s", error.text);
    other.n_shared = 2;
    q.data.kind = &other;
    CHECK(device->upload_rows(&q.data, 1, &error) == NULL, "%s", error.text);
    CHECK(error.status == GPUMC_ERROR_DEVICE && strstr(error.text, "other numbers"), "%s", error.text);
    q.data.kind = &device_normal;
    CHECK(device->upload_rows(&q.data, (size_t)-1 / 4, &error) == NULL, "%s", error.text);
    CHECK(error.status == GPUMC_ERROR_MEMORY, "%s", error.text);
    problem_free(&q);
}

int main(void)
{
    static const size_t sizes[][2] = { { 1, 1 }, { 100, 60 }, { 3000, 400 }, { 20000, 3 }, { 5000, 1 }, { 9000, 900 } };
    const gpumc_device *device = gpumc_device_get();
    gpumc_device_info info;
    gpumc_error error = { GPUMC_OK, "" };
    CHECK(device != NULL, "%s", error.text);
    if (device->info(&info, &error) != GPUMC_OK) {
        check_skip(error.text);
        CHECK(error.status == GPUMC_ERROR_DEVICE, "%s", error.text);       /* and the upload falls through with the same words */
        problem q;
        problem_make(&q, &device_normal, 10, 1, 0, 0);
        CHECK(device->upload_rows(&q.data, 1, &error) == NULL && error.status == GPUMC_ERROR_DEVICE, "%s", error.text);
        problem_free(&q);
        return check_end();
    }
    printf("%s\n", info.name);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int form = 0; form < 4; form++) {
            compare(device, &device_normal, sizes[k][0], sizes[k][1], form & 1, form >> 1);
            compare(device, &device_student, sizes[k][0], sizes[k][1], form & 1, form >> 1);
            compare(device, &device_shared, sizes[k][0], 1, form & 1, form >> 1);
        }
    check_refusals(device);
    return check_end();
}
