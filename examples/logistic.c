/* logistic.c: a regression whose likelihood is one of the library's hot loops.

       y[i] ~ bernoulli(inv_logit(alpha + X[i] beta)),  alpha ~ normal(0, 2.5),  beta[k] ~ normal(0, 2.5)

   One pass over X serves all chains that wait for a gradient, on the GPU if the program is linked with
   gpumc_cuda.cu and finds one, otherwise on every core. The data are drawn from the model (rows=5000
   features=20, beta ~ normal(0, 0.5)), or read from a JSON file with N, K, X (N x K) and y.

   Build:  cc -O2 examples/logistic.c -o logistic -lm -pthread
   Run:    ./logistic                           (./logistic help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   logistic: 4 chains x 1000 draws after 110 of warm-up, 0.06 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 4 %, variance to metric 1.56
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   alpha       0.01574    0.00060    0.03853   -0.04866    0.01575    0.08024      4165      2870   1.001
   beta[1]    -0.34856    0.00057    0.03857   -0.41266   -0.34854   -0.28312      4515      3082   1.001
   beta[2]    -0.71584    0.00063    0.04215   -0.78442   -0.71586   -0.64652      4475      3464   1.000
   beta[3]     0.09414    0.00061    0.03970    0.02915    0.09446    0.15860      4292      2777   1.000
   beta[4]    -0.31923    0.00057    0.03870   -0.38136   -0.31944   -0.25474      4569      3740   1.000
   beta[5]     0.07822    0.00059    0.03794    0.01553    0.07844    0.13983      4130      3518   1.000
   beta[6]     0.74874    0.00065    0.04149    0.68164    0.74798    0.81713      4067      3322   1.000
   beta[7]     0.12449    0.00058    0.03811    0.06179    0.12398    0.18704      4343      2658   1.000
   beta[8]     0.25840    0.00059    0.03852    0.19521    0.25876    0.32235      4268      3250   1.000
   beta[9]    -0.92010    0.00072    0.04499   -0.99525   -0.91988   -0.84619      3869      3188   1.001
   beta[10]   -0.70203    0.00063    0.04254   -0.77216   -0.70143   -0.63299      4588      3496   1.000
   ... 10 more, largest r_hat: beta[20] 1.001; smallest ess: beta[17] 2492
   gradients=5006 divergences=0 warmup_s=0.0119 sampling_s=0.0433
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

typedef struct problem {
    size_t n_rows, n_features;
    double *x, *y;
    gpumc_hot *likelihood;
} problem;

/* Parameters are alpha and beta, which is how the hot loop wants them: one point after the other. */
static void log_density_batch(size_t n, const double *x, double *grad, double *lp, void *data)
{
    const problem *q = (const problem *)data;
    const size_t n_params = 1 + q->n_features;
    gpumc_error error;
    if (gpumc_hot_eval(q->likelihood, n, x, grad, lp, &error) != GPUMC_OK) {
        fprintf(stderr, "%s\n", error.text);             /* a lost GPU: reject what it was asked for */
        for (size_t i = 0; i < n; i++) lp[i] = -INFINITY;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_params; k++)
            lp[i] += gpumc_normal_lpdf(x[i * n_params + k], 0, 2.5, &grad[i * n_params + k], NULL, NULL);
}

static int problem_allocate(problem *q, size_t n_rows, size_t n_features)
{
    q->n_rows = n_rows;
    q->n_features = n_features;
    q->x = (double *)malloc((n_rows * n_features + 1) * sizeof *q->x);
    q->y = (double *)malloc(n_rows * sizeof *q->y);
    return q->x && q->y;
}

static int problem_generate(problem *q, size_t n_rows, size_t n_features)
{
    gpumc_rng rng = gpumc_rng_at(42, 0, 0, 0);
    double beta[1000];
    if (n_features > 1000 || !problem_allocate(q, n_rows, n_features)) return 0;
    for (size_t k = 0; k < n_features; k++) beta[k] = 0.5 * gpumc_rng_normal(&rng);
    for (size_t i = 0; i < n_rows; i++) {
        double eta = 0;
        for (size_t k = 0; k < n_features; k++)
            eta += beta[k] * (q->x[i * n_features + k] = gpumc_rng_normal(&rng));
        q->y[i] = gpumc_bernoulli_logit_rng(&rng, eta);
    }
    return 1;
}

static int problem_read(problem *q, const char *path, gpumc_error *error)
{
    gpumc_data file = { 0 };
    const gpumc_variable *N, *K, *X = NULL, *y = NULL;
    int done = 0;
    if (gpumc_read_json(path, &file, error) != GPUMC_OK) return 0;
    N = gpumc_data_get(&file, "N", 1, 1, error);
    K = N ? gpumc_data_get(&file, "K", 1, 1, error) : NULL;
    if (K && (N->values[0] < 1 || K->values[0] < 1 || K->values[0] > 1e6))
        snprintf(error->text, sizeof error->text, "%s: N must be at least 1, K 1 to 1000000", path);
    else if (K) {
        X = gpumc_data_get(&file, "X", (size_t)N->values[0] * (size_t)K->values[0], 0, error);
        y = X ? gpumc_data_get(&file, "y", (size_t)N->values[0], 0, error) : NULL;
    }
    if (y && X->n_dims == 2 && X->dims[1] != (size_t)K->values[0]) {
        snprintf(error->text, sizeof error->text, "%s: X has %.0f rows of %.0f values, not N of K", path,
                 (double)X->dims[0], (double)X->dims[1]);
        y = NULL;
    }
    if (y) {
        done = problem_allocate(q, (size_t)N->values[0], (size_t)K->values[0]);
        if (done) {
            memcpy(q->x, X->values, q->n_rows * q->n_features * sizeof *q->x);
            memcpy(q->y, y->values, q->n_rows * sizeof *q->y);
        } else {
            snprintf(error->text, sizeof error->text, "out of memory for %.0f rows", N->values[0]);
        }
    }
    gpumc_data_free(&file);
    return done;
}

/* Rows that are no regression are refused here, with the row or column at fault. */
static int problem_ready(problem *q, gpumc_place place, gpumc_error *error)
{
    gpumc_glm_data d;
    memset(&d, 0, sizeof d);
    d.family = GPUMC_GLM_BERNOULLI_LOGIT;
    d.n_rows = q->n_rows;
    d.n_columns = q->n_features;
    d.x = q->x;
    d.y = q->y;
    q->likelihood = gpumc_hot_glm(&d, 16, place, error);
#if defined(GPUMC_CUDA)
    if (q->likelihood && q->likelihood->reason[0]) fprintf(stderr, "on the CPU: %s\n", q->likelihood->reason);
#endif
    return q->likelihood != NULL;
}

int main(int argc, char **argv)
{
    int rows = 5000, features = 20, place = 0, status;
    const char *path = NULL;
    const argument own[] = {
        { "rows", WHOLE, &rows, "number of rows to draw" },
        { "features", WHOLE, &features, "number of columns, at most 1000" },
        { "data", TEXT, &path, "FILE: N, K, X and y as JSON, in place of drawn data" },
        { "place", CHOICE, &place, "any|cpu|gpu" },
    };
    run r = { .options = { 0 } };
    problem q = { 0, 0, NULL, NULL, NULL };
    gpumc_error error = { GPUMC_OK, "rows and features must be at least 1, features at most 1000, and fit into memory" };
    status = arguments_read(argc, argv, &r, own, 4);
    if (status != GO_ON) return status;
    if (!(path ? problem_read(&q, path, &error) : rows > 0 && features > 0
                     && problem_generate(&q, (size_t)rows, (size_t)features))
        || !problem_ready(&q, (gpumc_place)place, &error)) {
        status = run_failed(error.text);
    } else {
        const gpumc_param params[] = { { .name = "alpha" }, { .name = "beta", .size = q.n_features } };
        const gpumc_model model = { .name = "logistic", .params = params, .n_params = 2,
                                    .log_density_batch = log_density_batch, .data = &q };
        status = run_model(&r, &model, NULL, 0);
    }
    gpumc_hot_release(q.likelihood);
    free(q.x);
    free(q.y);
    return status;
}
