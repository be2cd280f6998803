/* logistic.c: a regression whose likelihood is one of the library's hot loops.

       y[i] ~ bernoulli(inv_logit(alpha + X[i] beta)),  alpha ~ normal(0, 2.5),  beta[k] ~ normal(0, 2.5)

   One pass over X serves all chains that wait for a gradient, on the GPU if the program is linked with
   gpumc_cuda.cu and finds one, otherwise on every core. The data are drawn from the model (rows=5000
   features=20, beta ~ normal(0, 0.5)), or read from a JSON file with N, K, X (N x K) and y.

   Build:  cc -O2 examples/logistic.c -o logistic -lm -pthread
   Run:    ./logistic                           (./logistic help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   logistic: 4 chains x 1000 draws after 110 of warm-up, 0.07 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 4 %, variance to metric 1.47
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   alpha       0.01551    0.00058    0.03853   -0.04877    0.01562    0.07963      4399      3130   1.002
   beta[1]    -0.34847    0.00058    0.03869   -0.41277   -0.34834   -0.28282      4523      3275   1.001
   beta[2]    -0.71578    0.00063    0.04212   -0.78441   -0.71582   -0.64660      4484      3433   1.000
   beta[3]     0.09438    0.00060    0.03955    0.02949    0.09461    0.15887      4363      3040   1.000
   beta[4]    -0.31916    0.00057    0.03869   -0.38102   -0.31939   -0.25450      4557      3725   1.000
   beta[5]     0.07819    0.00059    0.03804    0.01517    0.07839    0.13961      4200      3492   1.000
   beta[6]     0.74848    0.00065    0.04136    0.68128    0.74805    0.81711      4121      3158   1.000
   beta[7]     0.12418    0.00057    0.03779    0.06191    0.12357    0.18617      4472      3142   1.000
   beta[8]     0.25833    0.00058    0.03850    0.19524    0.25875    0.32230      4435      3365   1.000
   beta[9]    -0.91993    0.00071    0.04488   -0.99410   -0.91955   -0.84607      3960      3362   1.001
   beta[10]   -0.70189    0.00063    0.04268   -0.77235   -0.70124   -0.63271      4530      3496   1.000
   ... 10 more, largest r_hat: beta[20] 1.001; smallest ess: beta[12] 3159
   gradients=5587 divergences=0 warmup_s=0.0187 sampling_s=0.0496
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

/* The parameters, alpha and beta, are in the order of the hot loop, so that points are passed on as they are.
   */
static void log_density_batch(size_t n, const double *x, double *grad, double *lp, void *data)
{
    const problem *q = (const problem *)data;
    const size_t n_params = 1 + q->n_features;
    gpumc_error error;
    if (gpumc_hot_eval(q->likelihood, n, x, grad, lp, &error) != GPUMC_OK) {
        if (!run_stop.requested) fprintf(stderr, "%s\n", error.text);
        gpumc_stop(&run_stop);                           /* a lost GPU: these points are rejected */
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

/* Creates the likelihood; data that do not suit it are refused, with the row or column at fault. */
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
