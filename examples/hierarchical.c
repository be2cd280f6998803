/* hierarchical.c: a hierarchical model as data, and how its centring is learned.

       y[i] ~ normal(theta[group[i]], sigma),  theta[j] ~ normal(mu, tau)
       mu ~ normal(0, 100),  tau ~ half-normal(50),  sigma ~ half-normal(10)
       with priors=s1: normal(50, 20), half-normal(15), half-normal(5)

   The data are drawn from the model itself (mu 50, tau 10, sigma 2), so that the truth is known, or read from
   a JSON file with J, N, group (counting from 1) and y. form=centred and form=noncentred force what is
   otherwise learned. Only one row of the likelihood is code; the rest of the model is a description.

   checkpoint=FILE saves the run there every ten minutes and on SIGTERM, SIGINT or SIGUSR1, and ends with exit
   status 75; the same command goes on with it. In a Slurm job that may be requeued:
       #SBATCH --requeue --signal=USR1@120 --open-mode=append
       srun ./hierarchical checkpoint=run.state csv=run
       if [ $? = 75 ]; then scontrol requeue $SLURM_JOB_ID; fi

   Build:  cc -O2 examples/hierarchical.c -o hierarchical -lm -pthread
   Run:    ./hierarchical                       (./hierarchical help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: mu yes, tau yes, sigma yes, theta 92 of 100
   groups: 4 chains x 1000 draws after 110 of warm-up, 0.01 s
   step size 2.04, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 1 %, variance to metric 1.16
                   mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            49.760      0.015      1.106     47.933     49.767     51.578      5111      3848   1.002
   tau           11.047      0.012      0.803      9.800     10.998     12.462      4782      3337   1.001
   sigma        2.05102    0.00071    0.04921    1.97401    2.04954    2.13442      4843      3809   1.000
   theta[1]     44.1552     0.0094     0.6628    43.0754    44.1690    45.2229      5017      3811   1.000
   theta[2]     35.6156     0.0092     0.6446    34.5757    35.6052    36.6982      4962      3701   1.000
   theta[3]     51.7455     0.0092     0.6412    50.6758    51.7584    52.7972      4900      3993   1.000
   theta[4]     42.9240     0.0095     0.6408    41.8836    42.9226    43.9765      4546      3330   1.000
   theta[5]     50.5353     0.0091     0.6417    49.4765    50.5304    51.5907      5000      3722   1.000
   theta[6]     65.0574     0.0093     0.6517    63.9908    65.0631    66.1453      4896      3736   1.000
   theta[7]     53.1100     0.0096     0.6526    52.0254    53.1150    54.1928      4650      3773   1.002
   theta[8]     55.9918     0.0093     0.6554    54.9115    56.0027    57.0504      4950      3301   1.000
   theta[9]     29.9738     0.0093     0.6549    28.8975    29.9699    31.0378      4927      3565   1.000
   theta[10]    36.2902     0.0091     0.6426    35.2228    36.2986    37.3672      5001      3850   1.000
   ... 90 more, largest r_hat: theta[99] 1.002; smallest ess: theta[33] 3317
   gradients=5385 divergences=0 warmup_s=0.0030 sampling_s=0.0048
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

GPUMC_ROW(observation, 1 /* theta */, 1 /* sigma */, 1 /* y */)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}

/* ---- data ---------------------------------------------------------------------------------------- */
struct rows { size_t n_groups, n_rows, *group; double *y; };

static int rows_allocate(struct rows *d)
{
    d->group = (size_t *)malloc(d->n_rows * sizeof *d->group);
    d->y = (double *)malloc(d->n_rows * sizeof *d->y);
    return d->group && d->y;
}

/* Reads J, N, group and y as Stan JSON; returns 0 with a text on error. */
static int rows_read(struct rows *d, const char *path, gpumc_error *error)
{
    static const char *const columns[] = { "group", "y" };
    const gpumc_variable *v[2];
    gpumc_data file = { 0 };
    size_t i = 0;
    d->n_rows = run_read(path, "J", &d->n_groups, columns, 2, 1, &file, v, error);
    const int room = d->n_rows > 0 && rows_allocate(d);
    if (room) {
        const double *group = v[0]->values;
        for (; i < d->n_rows && group[i] >= 1 && group[i] <= (double)d->n_groups; i++) {
            d->group[i] = (size_t)group[i] - 1;
            d->y[i] = v[1]->values[i];
        }
        if (i < d->n_rows)
            snprintf(error->text, sizeof error->text, "%s: group %g in row %.0f is outside 1..%g (J)", path,
                     group[i], (double)i + 1, (double)d->n_groups);
    }
    gpumc_data_free(&file);
    return room && i == d->n_rows;
}

/* Draws a data set from the model, `each` rows a group; the group means are left in theta. */
static int rows_generate(struct rows *d, size_t n_groups, size_t each, uint64_t seed, double *theta)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    d->n_groups = n_groups;
    d->n_rows = n_groups * each;
    if (!rows_allocate(d)) return 0;
    for (size_t j = 0; j < n_groups; j++) theta[j] = 50 + 10 * gpumc_rng_normal(&rng);
    for (size_t i = 0; i < d->n_rows; i++) {
        d->group[i] = i / each;
        d->y[i] = theta[d->group[i]] + 2 * gpumc_rng_normal(&rng);
    }
    return 1;
}

/* ---- the program --------------------------------------------------------------------------------- */

static int sample(const struct rows *d, int s1, gpumc_centring form, int team, const run *r,
                  const double *theta)
{
    const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = d->n_groups, .location = "mu", .scale = "tau", .centring = form },
    };
    const gpumc_prior priors[] = {
        { "mu", gpumc_prior_normal, s1 ? 50 : 0, s1 ? 20 : 100, 0 },
        { "tau", gpumc_prior_half_normal, s1 ? 15 : 50, 0, 0 },
        { "sigma", gpumc_prior_half_normal, s1 ? 5 : 10, 0, 0 },
    };
    const double *const y = d->y;
    const gpumc_hier_take takes[] = { { "theta", d->group }, { "sigma", NULL } };
    const gpumc_hier_rows rows = { .name = "y",
                                   .data = { .kind = &observation, .n_rows = d->n_rows, .columns = &y },
                                   .takes = takes, .n_takes = 2 };
    const gpumc_hier_data data = { .name = "groups", .params = params, .n_params = 4, .priors = priors,
                                   .n_priors = 3, .rows = &rows, .n_rows = 1,
                                   .threads = r->options.threads, .team = team };
    const double mu = 50, tau = 10, sigma = 2;
    const run_truth truths[] = {
        { "mu", &mu, 1 }, { "tau", &tau, 1 }, { "sigma", &sigma, 1 }, { "theta", theta, d->n_groups }
    };
    gpumc_error error;
    gpumc_hier *hier = gpumc_hier_create(&data, &error);
    int status;
    if (!hier) return run_failed(error.text);
    status = run_model(r, gpumc_hier_model(hier), truths, theta ? 4 : 0);
    gpumc_hier_free(hier);
    return status;
}

int main(int argc, char **argv)
{
    struct rows d = { 0 };
    run r = { .summary = NULL };
    const char *path = NULL;
    int size = 100, each = 10, s1 = 0, team = 0, form = GPUMC_CENTRING_LEARNED, status, ready;
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
        { "team", WHOLE, &team, "threads for the rows of each chain, if 10,000 or more (0: idle ones)" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 1 || each < 1 || size > 10000000 / each)
        return run_failed("size and rows must be 1 or more, and size x rows at most 1e7");
    if (path) ready = rows_read(&d, path, &error);
    else {
        theta = (double *)malloc((size_t)size * sizeof *theta);
        ready = theta && rows_generate(&d, (size_t)size, (size_t)each, data_seed, theta);
    }
    status = ready ? sample(&d, s1, (gpumc_centring)form, team, &r, theta) : run_failed(error.text);
    free(theta);
    free(d.y);
    free(d.group);
    return status;
}
