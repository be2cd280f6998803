/* diffusion.c: what makes a decision slow? A hierarchical drift diffusion model of choices and their times.

       (rt[i], choice[i]) ~ (1 - LAPSES) wiener(alpha[s], tau[s], beta[s], drift_c[s]) + LAPSES uniform
       log alpha, log tau, logit beta, drift_1 and drift_2 of subject s ~ normal(mu[k], sd[k])
       mu[1], mu[2], mu[3] ~ normal(0, 0.5), normal(-1, 0.5), normal(0, 0.5),  mu[4], mu[5] ~ normal(0, 3)
       sd[1], sd[2], sd[3] ~ half-normal(0.5),  sd[4], sd[5] ~ half-normal(1)

   alpha is caution (the distance of the boundaries), tau the non-decision time, beta the bias; the drifts say how
   well a subject discriminates in conditions 1 and 2. A share LAPSES of the trials are guesses at any time within
   4 seconds: people make some, and without them in the model one early response would forbid every larger tau.
   The data are drawn from the model, or come from a file of trials.

   Build:  cc -O2 examples/diffusion.c -o diffusion -lm -pthread
   Run:    ./diffusion                          (./diffusion help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: alpha 28 of 30, tau 26 of 30, beta 25 of 30, drift_1 27 of 30, drift_2 26 of 30
                 mu  90 % interval   drawn       sd  90 % interval   drawn
   log alpha      0.24    0.17 to  0.30    0.25     0.21    0.16 to  0.26    0.20
   log tau       -1.24   -1.30 to -1.17   -1.20     0.21    0.17 to  0.26    0.20
   logit beta     0.08    0.01 to  0.15    0.00     0.19    0.14 to  0.25    0.20
   drift 1        2.16    1.96 to  2.37    2.20     0.61    0.46 to  0.79    0.50
   drift 2        0.95    0.84 to  1.07    1.00     0.32    0.22 to  0.44    0.40
   quantities=250 least_ess=491 largest_r_hat=1.004
   gradients=26817 divergences=0 warmup_s=0.2031 sampling_s=1.1967
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

#define LAPSES 0.02
#define LONGEST 4.0      /* seconds */

/* x: time and choice. A lapse may be either choice at any time up to LONGEST. */
GPUMC_ROW(trial, 4 /* alpha, tau, beta, drift */, 0, 2)
{
    gpumc_real d[4] = { 0, 0, 0, 0 };
    const gpumc_real lp = gpumc_wiener_lpdf(x[0], x[1], p[0], p[1], p[2], p[3], NULL, &d[0], &d[1], &d[2],
                                            &d[3]);
    const gpumc_real decided = gpumc_exp(lp) * GPUMC_R(1 - LAPSES);
    const gpumc_real any = decided + GPUMC_R(LAPSES / 2 / LONGEST), share = decided / any;
    g[0] = share * d[0];
    g[1] = share * d[1];
    g[2] = share * d[2];
    g[3] = share * d[3];
    return gpumc_log(any);
}

/* What varies between subjects. */
enum { ALPHA, TAU, BETA, DRIFT_1, DRIFT_2, VARYING };
static const char *const names[VARYING] = { "alpha", "tau", "beta", "drift_1", "drift_2" };
static const gpumc_kind kinds[VARYING] = { GPUMC_POSITIVE, GPUMC_POSITIVE, GPUMC_UNIT };
static const double true_mu[VARYING] = { 0.25, -1.2, 0, 2.2, 1 };
static const double true_sd[VARYING] = { 0.2, 0.2, 0.2, 0.5, 0.4 };

struct trials {
    size_t n_subjects, n[2];                    /* by condition, as are subject and columns */
    size_t *subject[2], *which[VARYING];        /* which: all k, for mu[k] and sd[k] */
    double *columns[2][2];                      /* time, choice */
    double *theta;                              /* true values, block by block, or NULL */
};

/* Room for n trials in each condition; returns 0 when out of memory. */
static int trials_room(struct trials *t, size_t n)
{
    for (int c = 0; c < 2; c++) {
        t->subject[c] = (size_t *)malloc((n + 1) * sizeof *t->subject[c]);
        for (int k = 0; k < 2; k++)
            if (!(t->columns[c][k] = (double *)malloc((n + 1) * sizeof(double)))) return 0;
        if (!t->subject[c]) return 0;
    }
    t->which[0] = (size_t *)malloc(VARYING * t->n_subjects * sizeof *t->which[0]);
    for (size_t k = 0; k < VARYING && t->which[0]; k++) {
        t->which[k] = t->which[0] + k * t->n_subjects;
        for (size_t s = 0; s < t->n_subjects; s++) t->which[k][s] = k;
    }
    return t->which[0] != NULL;
}

static void trials_free(struct trials *t)
{
    for (int c = 0; c < 2; c++) {
        free(t->subject[c]);
        free(t->columns[c][0]);
        free(t->columns[c][1]);
    }
    free(t->which[0]);
    free(t->theta);
}

static void trials_add(struct trials *t, int condition, size_t subject, double rt, double choice)
{
    const size_t i = t->n[condition]++;
    t->subject[condition][i] = subject;
    t->columns[condition][0][i] = rt;
    t->columns[condition][1][i] = choice;
}

/* Draws subjects, then their trials, as many in each condition; returns 0 when out of memory. */
static int trials_generate(struct trials *t, size_t each, uint64_t seed)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    const size_t n = t->n_subjects;
    t->theta = (double *)malloc(VARYING * n * sizeof *t->theta);
    if (!t->theta || !trials_room(t, n * each)) return 0;
    for (size_t k = 0; k < VARYING; k++)
        for (size_t s = 0; s < n; s++) {
            const double free_value = gpumc_normal_rng(&rng, true_mu[k], true_sd[k]);
            t->theta[k * n + s] = kinds[k] == GPUMC_POSITIVE ? exp(free_value)
                                : kinds[k] == GPUMC_UNIT ? gpumc_inv_logit(free_value) : free_value;
        }
    for (size_t i = 0; i < 2 * n * each; i++) {
        const int condition = i % 2 != 0;
        const size_t s = i / (2 * each);
        const double *own = t->theta + s;
        double choice, rt = gpumc_wiener_rng(&rng, own[ALPHA * n], own[TAU * n], own[BETA * n],
                                             own[(condition ? DRIFT_2 : DRIFT_1) * n], &choice);
        if (gpumc_rng_uniform(&rng) < LAPSES) {
            rt = LONGEST * gpumc_rng_uniform(&rng);
            choice = gpumc_rng_uniform(&rng) < 0.5;
        }
        trials_add(t, condition, s, rt, choice);
    }
    return 1;
}

/* Reads trials from a file: S subjects, N rows with subject and condition (from 1), choice (0 or 1) and rt. */
static int trials_read(struct trials *t, const char *path, gpumc_error *error)
{
    static const char *const columns[] = { "subject", "condition", "choice", "rt" };
    const gpumc_variable *v[4];
    gpumc_data file = { 0 };
    const size_t n = run_read(path, "S", &t->n_subjects, columns, 4, 3, &file, v, error);
    const int room = n > 0 && trials_room(t, n);
    size_t i = 0;
    for (; room && i < n; i++) {
        const double s = v[0]->values[i], c = v[1]->values[i], choice = v[2]->values[i], rt = v[3]->values[i];
        if (!(s >= 1 && s <= (double)t->n_subjects && (c == 1 || c == 2) && (choice == 0 || choice == 1)
              && rt > 0 && rt <= LONGEST)) {
            snprintf(error->text, sizeof error->text, "%s: row %.0f: subject %g (1 to %.0f), condition %g "
                     "(1 or 2), choice %g (0 or 1), rt %g (seconds, up to %g)", path, (double)i + 1, s,
                     (double)t->n_subjects, c, choice, rt, LONGEST);
            break;
        }
        trials_add(t, c == 2, (size_t)s - 1, rt, choice);
    }
    gpumc_data_free(&file);
    if (n == 0 || i < n) return 0;
    if (t->n[0] && t->n[1]) return 1;
    snprintf(error->text, sizeof error->text, "%s: condition %d has no trial", path, t->n[0] ? 2 : 1);
    return 0;
}

/* Prints mean and interval of mu[k] or sd[k], and the truth if it is known. */
static void report_one(const struct trials *t, const gpumc_fit *fit, const char *block, size_t k,
                       double truth)
{
    char column[16];
    gpumc_summary s;
    snprintf(column, sizeof column, "%s[%d]", block, (int)k + 1);
    s = gpumc_summarise(fit, gpumc_column(fit, column));
    printf("   %6.2f  %6.2f to %5.2f", s.mean, s.q5, s.q95);
    if (t->theta) printf("   %5.2f", truth);
}

static int report(const struct trials *t, const run *r, const gpumc_fit *fit)
{
    static const char *const labels[VARYING] = { "log alpha", "log tau", "logit beta", "drift 1", "drift 2" };
    const char *const drawn = t->theta ? "   drawn" : "";
    run_truth truths[VARYING];
    double least = GPUMC_INF, largest = 0;
    for (size_t k = 0; k < VARYING && t->theta; k++)
        truths[k] = (run_truth){ names[k], t->theta + k * t->n_subjects, t->n_subjects };
    if (t->theta) run_compare(fit, truths, VARYING);
    printf("              mu  90 %% interval%s       sd  90 %% interval%s\n", drawn, drawn);
    for (size_t k = 0; k < VARYING; k++) {
        printf("%-10s", labels[k]);
        report_one(t, fit, "mu", k, true_mu[k]);
        report_one(t, fit, "sd", k, true_sd[k]);
        printf("\n");
    }
    for (size_t column = 0; column < fit->n_columns; column++) {
        const gpumc_summary s = gpumc_summarise(fit, column);
        least = fmin(least, fmin(s.ess_bulk, s.ess_tail));
        largest = fmax(largest, s.r_hat);
    }
    printf("quantities=%.0f least_ess=%.0f largest_r_hat=%.3f\n", (double)fit->n_columns, least, largest);
    for (size_t k = 0; k < fit->n_warnings; k++) printf("warning: %s\n", fit->warnings[k].text);
    return run_finish(r, fit);
}

static int sample(const struct trials *t, gpumc_centring form, const run *r)
{
    gpumc_param params[2 + VARYING] = {
        { .name = "mu", .size = VARYING },
        { .name = "sd", .kind = GPUMC_POSITIVE, .size = VARYING },
    };
    const gpumc_prior priors[] = {
        { "mu[1]", gpumc_prior_normal, 0, 0.5, 0 },      { "mu[2]", gpumc_prior_normal, -1, 0.5, 0 },
        { "mu[3]", gpumc_prior_normal, 0, 0.5, 0 },      { "mu[4]", gpumc_prior_normal, 0, 3, 0 },
        { "mu[5]", gpumc_prior_normal, 0, 3, 0 },        { "sd[1]", gpumc_prior_half_normal, 0.5, 0, 0 },
        { "sd[2]", gpumc_prior_half_normal, 0.5, 0, 0 }, { "sd[3]", gpumc_prior_half_normal, 0.5, 0, 0 },
        { "sd[4]", gpumc_prior_half_normal, 1, 0, 0 },   { "sd[5]", gpumc_prior_half_normal, 1, 0, 0 },
    };
    gpumc_hier_take takes[2][4];
    gpumc_hier_rows rows[2];
    const gpumc_hier_data data = { .name = "diffusion", .params = params, .n_params = 2 + VARYING,
                                   .priors = priors, .n_priors = 10, .rows = rows, .n_rows = 2,
                                   .threads = r->options.threads };
    gpumc_error error;
    gpumc_hier *hier;
    gpumc_fit fit;
    int status;
    for (size_t k = 0; k < VARYING; k++)
        params[2 + k] = (gpumc_param){ .name = names[k], .kind = kinds[k], .size = t->n_subjects,
                                       .location = "mu", .location_index = t->which[k],
                                       .scale = "sd", .scale_index = t->which[k], .centring = form };
    for (int c = 0; c < 2; c++) {
        for (int k = 0; k < 4; k++)
            takes[c][k] = (gpumc_hier_take){ names[k == DRIFT_1 && c ? DRIFT_2 : k], t->subject[c] };
        rows[c] = (gpumc_hier_rows){ .name = c ? "condition 2" : "condition 1",
            .data = { .kind = &trial, .n_rows = t->n[c], .columns = (const double *const *)t->columns[c] },
            .takes = takes[c], .n_takes = 4 };
    }
    hier = gpumc_hier_create(&data, &error);
    if (!hier) return run_failed(error.text);
    status = run_sample(r, gpumc_hier_model(hier), &fit) == GPUMC_OK ? report(t, r, &fit) : run_ended(&fit);
    gpumc_free(&fit);
    gpumc_hier_free(hier);
    return status;
}

int main(int argc, char **argv)
{
    struct trials t = { 0 };
    run r = { .summary = NULL };
    int size = 30, each = 100, form = GPUMC_CENTRING_LEARNED, ready, status;
    uint64_t data_seed = 42;
    const char *path = NULL;
    gpumc_error error = { GPUMC_ERROR_MEMORY, "out of memory" };
    const argument own[] = {
        { "size", WHOLE, &size, "subjects (30)" },
        { "rows", WHOLE, &each, "trials of each in each condition (100)" },
        { "data_seed", SEED, &data_seed, "of the data (42)" },
        { "data", TEXT, &path, "FILE: S, N, subject, condition, choice and rt as JSON, not drawn data" },
        { "form", CHOICE, &form, "learned|centred|noncentred" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 1 || each < 1 || size > 10000000 / each)
        return run_failed("size and rows must be 1 or more, and size x rows at most 1e7");
    t.n_subjects = (size_t)size;
    ready = path ? trials_read(&t, path, &error) : trials_generate(&t, (size_t)each, data_seed);
    status = ready ? sample(&t, (gpumc_centring)form, &r) : run_failed(error.text);
    trials_free(&t);
    return status;
}
