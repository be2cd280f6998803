/* logistic.c: a regression whose likelihood is one of the library's hot loops.

       y[i] ~ bernoulli(inv_logit(alpha + X[i] beta)),  alpha ~ normal(0, 2.5),  beta[k] ~ normal(0, 2.5)

   One pass over X serves all chains that wait for a gradient, on the GPU if the program is linked with
   gpumc_cuda.cu and finds one, otherwise on every core. The data are drawn from the model (rows=5000
   features=20, beta ~ normal(0, 0.5)), or read from a JSON file with N, K, X (N x K) and y.

   Build:  cc -O2 examples/logistic.c -o logistic -lm -pthread
   Run:    ./logistic                           (./logistic help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   logistic: 4 chains x 1000 draws after 200 of warm-up, 0.05 s
   step size 1.92, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 4 %, variance to metric 1.20
                  mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   alpha       0.01588    0.00069    0.03823   -0.04704    0.01582    0.08043      3095      2878   1.002
   beta[1]    -0.34861    0.00066    0.03844   -0.41240   -0.34896   -0.28562      3416      3358   1.001
   beta[2]    -0.71646    0.00073    0.04268   -0.78624   -0.71652   -0.64617      3458      3168   1.001
   beta[3]     0.09442    0.00068    0.03939    0.03040    0.09435    0.15942      3349      3132   1.000
   beta[4]    -0.31956    0.00065    0.03849   -0.38166   -0.31979   -0.25564      3512      3251   1.000
   beta[5]     0.07833    0.00069    0.03824    0.01521    0.07822    0.14024      3120      3244   1.001
   beta[6]     0.74830    0.00072    0.04134    0.68119    0.74842    0.81632      3313      2971   1.000
   beta[7]     0.12437    0.00066    0.03782    0.06208    0.12472    0.18573      3323      2731   1.000
   beta[8]     0.25899    0.00068    0.03913    0.19501    0.25847    0.32442      3376      3241   1.000
   beta[9]    -0.92012    0.00079    0.04531   -0.99540   -0.91972   -0.84588      3299      3061   1.001
   beta[10]   -0.70137    0.00072    0.04231   -0.77156   -0.70093   -0.63317      3489      3271   1.002
   ... 10 more, largest r_hat: beta[11] 1.001; smallest ess: beta[20] 2677
   gradients=6268 divergences=0 warmup_s=0.0168 sampling_s=0.0353
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
