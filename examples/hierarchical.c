/* hierarchical.c: many groups with few rows each, and how its centring is learned.

       y[i] ~ normal(theta[group[i]], sigma),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 100),  tau ~ half-normal(50),  sigma ~ half-normal(10)
       with priors=s1: normal(50, 20), half-normal(15), half-normal(5)

   The data are drawn from the model itself (mu 50, tau 10, sigma 2), so that the truth is known, or read from
   a JSON file with J, N, group (counting from 1) and y. form=centred and form=noncentred force what is
   otherwise learned. The density works on sums over contiguous rows, as a likelihood should that is evaluated
   a million times.

   Build:  cc -O2 examples/hierarchical.c -o hierarchical -lm -pthread
   Run:    ./hierarchical                       (./hierarchical help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: mu yes, tau yes, sigma yes, theta 91 of 100
   groups: 4 chains x 1000 draws after 360 of warm-up, 0.07 s
   step size 0.584, low-rank metric, 0 divergences
   sampler MAMS: the metric fits: variance to metric 1.07, E-BFMI 1.03, trees span 3.8
                   mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            49.769      0.020      1.100     47.981     49.772     51.542      2981      2925   1.001
   tau           11.033      0.015      0.785      9.801     10.986     12.370      2664      2536   1.000
   sigma         2.0496     0.0010     0.0498     1.9690     2.0484     2.1302      2415      2386   1.001
   theta[1]      44.155      0.012      0.661     43.083     44.148     45.253      2818      2647   1.001
   theta[2]      35.619      0.012      0.653     34.530     35.629     36.686      2840      2593   1.001
   theta[3]      51.744      0.012      0.638     50.689     51.729     52.813      2788      2541   1.001
   theta[4]      42.940      0.012      0.645     41.891     42.944     43.998      2857      2541   1.002
   theta[5]      50.529      0.012      0.634     49.469     50.532     51.542      2921      2878   1.001
   theta[6]      65.032      0.012      0.651     63.999     65.037     66.110      2803      2857   1.001
   theta[7]      53.085      0.012      0.658     52.002     53.078     54.165      2832      2832   1.000
   theta[8]      56.009      0.012      0.643     54.947     56.007     57.063      2832      2454   1.001
   theta[9]      29.947      0.012      0.656     28.908     29.939     31.032      2778      2706   1.000
   theta[10]     36.283      0.013      0.655     35.213     36.283     37.388      2711      2613   1.000
   ... 90 more, largest r_hat: theta[11] 1.004; smallest ess: theta[100] 2105
   gradients=21890 divergences=0 warmup_s=0.0523 sampling_s=0.0196
*/
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

/* gcc can compile a function for several instruction sets and choose one when the program starts. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

enum { LANES = 8 };

/* Rows of one group that do not stand side by side with its neighbours' rows. */
struct rest { size_t group, begin, end; };

/* The rows, sorted by group. Eight neighbouring groups make a block, whose rows stand side by side as far as
   all eight have one: lane l of a vector is then group l of the block, and no sum runs across lanes. What is
   left follows. */
struct rows {
    size_t n_groups, n_rows, n_blocks, n_rest;
    double *y;
    size_t *depth;            /* rows side by side, one number a block */
    struct rest *rest;
    double mu_mean, mu_sd, tau_sd, sigma_sd;        /* of the priors */
};

/* In the order of the parameter list below. */
struct groups { double mu, tau, sigma, theta[]; };

/* Adds the residuals of every group to residuals; returns the sum of their squares. */
FOR_EVERY_PROCESSOR
static double row_sums(const struct rows *d, const double *theta, double *restrict residuals)
{
    const double *y = d->y;
    double squares[LANES] = { 0 }, total = 0;
    for (size_t b = 0; b < d->n_blocks; b++, theta += LANES, residuals += LANES) {
        double sum[LANES] = { 0 };
        for (size_t i = 0; i < d->depth[b]; i++, y += LANES)
            for (int l = 0; l < LANES; l++) {
                const double r = y[l] - theta[l];
                sum[l] += r;
                squares[l] += r * r;
            }
        for (int l = 0; l < LANES; l++) residuals[l] += sum[l];
    }
    for (int l = 0; l < LANES; l++) total += squares[l];
    return total;
}

/* The same for the rows that are left: here the lanes are rows of one group. */
FOR_EVERY_PROCESSOR
static double rest_sums(const struct rows *d, const double *theta, double *residuals)
{
    double squares[LANES] = { 0 }, total = 0;
    for (size_t k = 0; k < d->n_rest; k++) {
        const double *y = d->y + d->rest[k].begin, *end = d->y + d->rest[k].end;
        const double centre = theta[d->rest[k].group];
        double sum[LANES] = { 0 };
        for (; end - y >= LANES; y += LANES)
            for (int l = 0; l < LANES; l++) {
                const double r = y[l] - centre;
                sum[l] += r;
                squares[l] += r * r;
            }
        for (int l = 0; l < end - y; l++) {
            const double r = y[l] - centre;
            sum[l] += r;
            squares[l] += r * r;
        }
        for (int l = 0; l < LANES; l++) residuals[d->rest[k].group] += sum[l];
    }
    for (int l = 0; l < LANES; l++) total += squares[l];
    return total;
}

/* Turns residuals into the gradient by theta; returns the sum of theta - mu and that of its squares. */
struct spread { double sum, squares; };

FOR_EVERY_PROCESSOR
static struct spread population_sums(const double *theta, size_t n, double mu, double y_precision,
                                     double precision, double *restrict gradient)
{
    struct spread total = { 0, 0 };
    double sum[LANES] = { 0 }, squares[LANES] = { 0 };
    for (; n >= LANES; n -= LANES, theta += LANES, gradient += LANES)
        for (int l = 0; l < LANES; l++) {
            const double away = theta[l] - mu;
            gradient[l] = gradient[l] * y_precision - away * precision;
            sum[l] += away;
            squares[l] += away * away;
        }
    for (size_t l = 0; l < n; l++) {
        const double away = theta[l] - mu;
        gradient[l] = gradient[l] * y_precision - away * precision;
        sum[l] += away;
        squares[l] += away * away;
    }
    for (int l = 0; l < LANES; l++) { total.sum += sum[l]; total.squares += squares[l]; }
    return total;
}

static double log_density(const double *x, double *grad, void *data)
{
    const struct rows *d = (const struct rows *)data;
    const struct groups *p = (const struct groups *)x;
    struct groups *g = (struct groups *)grad;
    const double J = (double)d->n_groups, N = (double)d->n_rows;
    const double y_precision = 1 / (p->sigma * p->sigma), precision = 1 / (p->tau * p->tau);
    const double misfit = row_sums(d, p->theta, g->theta) + rest_sums(d, p->theta, g->theta);
    const struct spread spread = population_sums(p->theta, d->n_groups, p->mu, y_precision, precision,
                                                 g->theta);
    g->mu += spread.sum * precision;
    g->tau += (spread.squares * precision - J) / p->tau;
    g->sigma += (misfit * y_precision - N) / p->sigma;
    return gpumc_normal_lpdf(p->mu, d->mu_mean, d->mu_sd, &g->mu, NULL, NULL)
        + gpumc_half_normal_lpdf(p->tau, d->tau_sd, &g->tau, NULL)
        + gpumc_half_normal_lpdf(p->sigma, d->sigma_sd, &g->sigma, NULL)
        - 0.5 * (spread.squares * precision + misfit * y_precision)
        - J * log(p->tau) - N * log(p->sigma) - (J + N) * GPUMC_LOG_SQRT_2PI;
}

/* ---- data ---------------------------------------------------------------------------------------- */

/* Lays out row i with value y[i] of group[i] (from 0). Returns 0 when memory ran out. */
static int rows_sort(struct rows *d, size_t n_groups, size_t n_rows, const size_t *group, const double *y)
{
    size_t *start = (size_t *)calloc(n_groups + 1, sizeof *start), at = 0;
    double *sorted = (double *)malloc((n_rows + 1) * sizeof *sorted);
    d->n_groups = n_groups;
    d->n_rows = n_rows;
    d->n_blocks = n_groups / LANES;
    d->y = (double *)malloc((n_rows + 1) * sizeof *d->y);
    d->depth = (size_t *)malloc((d->n_blocks + 1) * sizeof *d->depth);
    d->rest = (struct rest *)malloc((n_groups + 1) * sizeof *d->rest);
    if (!start || !sorted || !d->y || !d->depth || !d->rest) { free(start); free(sorted); return 0; }

    for (size_t i = 0; i < n_rows; i++) start[group[i] + 1]++;
    for (size_t j = 0; j < n_groups; j++) start[j + 1] += start[j];
    for (size_t i = 0; i < n_rows; i++) sorted[start[group[i]]++] = y[i];
    memmove(start + 1, start, n_groups * sizeof *start);    /* each start has moved to its group's end */
    start[0] = 0;

    for (size_t b = 0; b < d->n_blocks; b++) {
        const size_t *s = start + b * LANES;
        d->depth[b] = s[1] - s[0];
        for (int l = 1; l < LANES; l++)
            if (s[l + 1] - s[l] < d->depth[b]) d->depth[b] = s[l + 1] - s[l];
        for (size_t i = 0; i < d->depth[b]; i++)
            for (int l = 0; l < LANES; l++) d->y[at++] = sorted[s[l] + i];
    }
    for (size_t j = 0; j < n_groups; j++) {
        const size_t done = j / LANES < d->n_blocks ? d->depth[j / LANES] : 0;
        const size_t left = start[j + 1] - start[j] - done;
        if (left == 0) continue;
        d->rest[d->n_rest++] = (struct rest){ j, at, at + left };
        memcpy(d->y + at, sorted + start[j] + done, left * sizeof *sorted);
        at += left;
    }
    free(start);
    free(sorted);
    return 1;
}

/* Reads J, N, group and y as Stan JSON; returns 0 with a text on error. */
static int rows_read(struct rows *d, const char *path, gpumc_error *error)
{
    gpumc_data file = { 0 };
    const gpumc_variable *J, *N, *group = NULL, *y = NULL;
    size_t *from_zero = NULL, n = 0, i = 0;
    int done = 0;
    if (gpumc_read_json(path, &file, error) != GPUMC_OK) return 0;
    J = gpumc_data_get(&file, "J", 1, 1, error);
    N = J ? gpumc_data_get(&file, "N", 1, 1, error) : NULL;
    if (N && (J->values[0] < 1 || N->values[0] < 1))
        snprintf(error->text, sizeof error->text, "%s: J and N must be at least 1", path);
    else if (N) {
        n = (size_t)N->values[0];
        group = gpumc_data_get(&file, "group", n, 1, error);
        y = group ? gpumc_data_get(&file, "y", n, 0, error) : NULL;
        from_zero = (size_t *)malloc(n * sizeof *from_zero);
    }
    if (y && from_zero) {
        while (i < n && group->values[i] >= 1 && group->values[i] <= J->values[0]) {
            from_zero[i] = (size_t)group->values[i] - 1;
            i++;
        }
        if (i < n)
            snprintf(error->text, sizeof error->text, "%s: group %g in row %.0f is outside 1..%g (J)", path,
                     group->values[i], (double)i + 1, J->values[0]);
        else if (!(done = rows_sort(d, (size_t)J->values[0], n, from_zero, y->values)))
            snprintf(error->text, sizeof error->text, "out of memory for %.0f rows", (double)n);
    }
    free(from_zero);
    gpumc_data_free(&file);
    return done;
}

/* Draws a data set from the model, `each` rows a group; the group means are left in theta. */
static int rows_generate(struct rows *d, size_t n_groups, size_t each, uint64_t seed, double *theta)
{
    const size_t n = n_groups * each;
    size_t *group = (size_t *)malloc(n * sizeof *group);
    double *y = (double *)malloc(n * sizeof *y);
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    int done = 0;
    if (group && y) {
        for (size_t j = 0; j < n_groups; j++) theta[j] = 50 + 10 * gpumc_rng_normal(&rng);
        for (size_t i = 0; i < n; i++) {
            group[i] = i / each;
            y[i] = theta[group[i]] + 2 * gpumc_rng_normal(&rng);
        }
        done = rows_sort(d, n_groups, n, group, y);
    }
    free(group);
    free(y);
    return done;
}

/* ---- the program --------------------------------------------------------------------------------- */

static int holds(const gpumc_fit *fit, size_t column, double truth)
{
    const gpumc_series s = gpumc_fit_series(fit, column);
    return gpumc_quantile(s, 0.05).value <= truth && truth <= gpumc_quantile(s, 0.95).value;
}

static void report_truth(const gpumc_fit *fit, const double *theta, size_t n)
{
    const double scalars[3] = { 50, 10, 2 };
    size_t n_held = 0;
    printf("90 %% intervals that hold the truth:");
    for (size_t k = 0; k < 3; k++)
        printf(" %s %s,", fit->blocks[k].name, holds(fit, k, scalars[k]) ? "yes" : "no");
    for (size_t j = 0; j < n; j++) n_held += (size_t)holds(fit, 3 + j, theta[j]);
    printf(" theta %.0f of %.0f\n", (double)n_held, (double)n);
}

static int sample(const struct rows *d, gpumc_centring form, const run *r, const double *truth)
{
    const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = d->n_groups, .location = "mu", .scale = "tau", .centring = form },
    };
    const gpumc_model model = { .name = "groups", .params = params, .n_params = 4, .log_density = log_density,
                                .data = (void *)d };
    gpumc_fit fit;
    int status;
    if (gpumc_sample(&model, &r->options, &fit) != GPUMC_OK) status = run_failed(fit.message);
    else {
        if (truth) report_truth(&fit, truth, d->n_groups);
        status = run_report(r, &fit);
    }
    gpumc_free(&fit);
    return status;
}

int main(int argc, char **argv)
{
    struct rows d = { 0 };
    run r = { .summary = NULL };
    const char *path = NULL;
    int size = 100, each = 10, s1 = 0, form = GPUMC_CENTRING_LEARNED, status, ready;
    uint64_t data_seed = 42;
    double *theta = NULL;
    gpumc_error error = { GPUMC_ERROR_MEMORY, "out of memory" };
    const argument own[] = {
        { "size", WHOLE, &size, "groups to generate (100)" },
        { "rows", WHOLE, &each, "rows of each (10)" },
        { "data_seed", SEED, &data_seed, "of the data (42)" },
        { "data", TEXT, &path, "FILE: reads the data (JSON with J, N, group, y) instead" },
        { "priors", CHOICE, &s1, "peers|s1" },
        { "form", CHOICE, &form, "learned|centred|noncentred" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 1 || each < 1 || size > 10000000 / each)
        return run_failed("size and rows must be 1 or more, and size x rows at most 1e7");
    d.mu_mean = s1 ? 50 : 0;
    d.mu_sd = s1 ? 20 : 100;
    d.tau_sd = s1 ? 15 : 50;
    d.sigma_sd = s1 ? 5 : 10;
    if (path) ready = rows_read(&d, path, &error);
    else {
        theta = (double *)malloc((size_t)size * sizeof *theta);
        ready = theta && rows_generate(&d, (size_t)size, (size_t)each, data_seed, theta);
    }
    status = ready ? sample(&d, (gpumc_centring)form, &r, theta) : run_failed(error.text);
    free(theta);
    free(d.y);
    free(d.depth);
    free(d.rest);
    return status;
}
