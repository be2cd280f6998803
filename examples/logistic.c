/* logistic.c: a regression whose likelihood is one of the library's hot loops.

       y[i] ~ bernoulli(inv_logit(alpha + X[i] beta)),  alpha ~ normal(0, 2.5),  beta[k] ~ normal(0, 2.5)

   One pass over X serves all chains that wait for a gradient, on the GPU if the program is linked with
   gpumc_cuda.cu and finds one, otherwise on every core. The data are drawn from the model (rows=5000
   features=20, beta ~ normal(0, 0.5)), or read from a JSON file with N, K, X (N x K) and y.

   Build:  cc -O2 examples/logistic.c -o logistic -lm -pthread
   Run:    ./logistic                           (./logistic help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   logistic: 4 chains x 1000 draws after 200 of warm-up, 0.08 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 4 %, variance to metric 1.20
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   alpha       0.01578    0.00058    0.03853   -0.04838    0.01585    0.08040      4390      2908   1.003
   beta[1]    -0.34873    0.00057    0.03832   -0.41119   -0.34877   -0.28487      4486      2740   1.001
   beta[2]    -0.71647    0.00064    0.04225   -0.78539   -0.71647   -0.64752      4405      3016   1.000
   beta[3]     0.09414    0.00059    0.03952    0.02977    0.09466    0.15880      4434      3409   1.000
   beta[4]    -0.31930    0.00056    0.03840   -0.38115   -0.31938   -0.25506      4761      3698   1.000
   beta[5]     0.07878    0.00058    0.03817    0.01609    0.07850    0.14100      4378      3573   1.001
   beta[6]     0.74869    0.00065    0.04139    0.68198    0.74870    0.81726      4042      3294   1.000
   beta[7]     0.12399    0.00057    0.03809    0.06065    0.12404    0.18581      4527      3180   0.999
   beta[8]     0.25858    0.00060    0.03884    0.19493    0.25879    0.32364      4253      3394   1.000
   beta[9]    -0.92023    0.00069    0.04496   -0.99507   -0.91992   -0.84579      4183      3362   1.000
   beta[10]   -0.70135    0.00063    0.04227   -0.77195   -0.70096   -0.63216      4465      3496   1.001
   ... 10 more, largest r_hat: beta[11] 1.002; smallest ess: beta[11] 3315
   gradients=5732 divergences=0 warmup_s=0.0259 sampling_s=0.0576
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
        snprintf(error->text, sizeof error->text, "%s: N and K must be at least 1", path);
    else if (K) {
        X = gpumc_data_get(&file, "X", (size_t)N->values[0] * (size_t)K->values[0], 0, error);
        y = X ? gpumc_data_get(&file, "y", (size_t)N->values[0], 0, error) : NULL;
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
    gpumc_fit fit;
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
        if (run_sample(&r, &model, &fit) == GPUMC_OK) status = run_report(&r, &fit);
        else status = run_ended(&fit);
        gpumc_free(&fit);
    }
    gpumc_hot_release(q.likelihood);
    free(q.x);
    free(q.y);
    return status;
}
