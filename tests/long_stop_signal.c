/* Does the whole of the stop-signal model find what it was drawn from? Simulation-based calibration (Talts et
   al. 2018): hyperparameters and subjects from the prior, trials given them by simulator and staircase, then
   the posterior; the rank of what was drawn among draws must be uniform, for every hyperparameter, three
   parameters of a subject and the log likelihood. Recovery of ten typical subjects, and coverage of fifty.

   Ranks are among 19 draws, far apart; those of N_SIMULATIONS simulations are judged by chi-square over their
   20 values and by the Kolmogorov-Smirnov distance, each at p = 1e-4: with 52 of them a false alarm in 200.
   The prior is wide, so that some simulated subjects never stop or answer at chance: they belong to it. */
#include "../gpumc.h"
#include "check.h"
#include "../examples/stop_signal_data.h"
#include "../examples/stop_signal_rows.h"
#include "../examples/stop_signal_model.h"
#include "../examples/stop_signal_sim.h"

#ifndef N_SIMULATIONS
#define N_SIMULATIONS 200
#endif
enum { N_SUBJECTS = 8, N_RANKED = 19, N_QUANTITIES = 22 + 3 + 1, MAX_VALUES = 2000 };
static const double CHI_SQUARE = 50.8, SMIRNOV = 2.225;      /* 19 degrees of freedom; D sqrt n */

/* ---- calibration --------------------------------------------------------------------------------- */

typedef struct calibration {
    ss_data data, empty;                  /* the same subjects without a trial: the density is the prior */
    ss_model *model, *prior;
    ss_task task;
    double theta[N_SUBJECTS * SS_N_PARAMETERS];
    size_t hyper[22], subject[3];         /* columns */
    int ranks[N_QUANTITIES][N_RANKED + 1];
} calibration;

/* The columns of the hyperparameters and of the first subject's B, v0 and mu, sampled as logarithms. */
static void find_columns(calibration *c)
{
    static const char *const own[3] = { "log_B", "log_v0", "log_mu" };
    const gpumc_model *m = ss_model_get(c->prior);
    size_t n = 0, at = 0;
    for (size_t k = 0; k < m->n_params; k++) {
        const size_t size = m->params[k].size ? m->params[k].size : 1;
        if (size == 1 && n < 22) c->hyper[n++] = at;
        for (int j = 0; j < 3; j++)
            if (strcmp(m->params[k].name, own[j]) == 0) c->subject[j] = at;
        at += size;
    }
    CHECK(n == 22 && at <= MAX_VALUES, "%d hyperparameters, %d values", (int)n, (int)at);
}

/* The subjects' parameters among the sampled values x. */
static void take_subjects(calibration *c, const double *x)
{
    const gpumc_model *m = ss_model_get(c->prior);
    size_t at = 0;
    for (size_t k = 0; k < m->n_params; k++) {
        const char *name = m->params[k].name, *bare = strchr(name, '_');
        const size_t size = m->params[k].size ? m->params[k].size : 1;
        if (size == N_SUBJECTS && bare)
            for (int j = 0; j < SS_N_PARAMETERS; j++)
                for (size_t i = 0; strcmp(bare + 1, ss_parameter_get(j)->name) == 0 && i < size; i++)
                    c->theta[i * SS_N_PARAMETERS + (size_t)j] = ss_constrain(j, x[at + i]);
        at += size;
    }
}

static double log_likelihood(const calibration *c, const double *x)
{
    static double grad[MAX_VALUES];
    const gpumc_model *full = ss_model_get(c->model), *prior = ss_model_get(c->prior);
    double value;
    memset(grad, 0, sizeof grad);
    value = full->log_density(x, grad, full->data);
    return value - prior->log_density(x, grad, prior->data);
}

static double quantity(const calibration *c, const double *x, int k)
{
    if (k < 22) return x[c->hyper[k]];
    return k < 25 ? x[c->subject[k - 22]] : log_likelihood(c, x);
}

/* Simulates trials of the subjects in theta. */
static void simulate_trials(calibration *c, uint64_t seed)
{
    const int each = c->task.runs * c->task.trials;
    for (int i = 0; i < N_SUBJECTS; i++) {
        gpumc_rng rng = gpumc_rng_at(seed, 7, (uint32_t)i, 0);
        ss_draw_design(&c->task, i, &rng, c->data.trials + i * each);
        ss_simulate_subject(SS_RDEX_ABCD, c->theta + i * SS_N_PARAMETERS, SS_TRUNCATION, &c->task, &rng,
                            c->data.trials + i * each);
    }
}

/* One simulation; 0 when it could not be sampled. */
static int calibrate(calibration *c, const ss_model_options *options, uint64_t seed)
{
    static double truth[MAX_VALUES];
    const gpumc_sample_options o = { .num_chains = 2, .num_samples = 1500, .seed = seed, .threads = 2,
                                     .skip_gradient_check = 1 };
    gpumc_rng rng = gpumc_rng_at(seed, 6, 0, 0);
    gpumc_error error;
    gpumc_fit fit;
    int ok;
    if (gpumc_hier_prior_draw(c->prior->hier, &rng, truth, &error) != GPUMC_OK) {
        CHECK(0, "no draw from the prior: %s", error.text);
        return 0;
    }
    take_subjects(c, truth);
    simulate_trials(c, seed);
    c->model = ss_model_create(&c->data, options, &error);
    CHECK(c->model != NULL, "%s", error.text);
    if (!c->model) return 0;
    ok = gpumc_sample(ss_model_get(c->model), &o, &fit) == GPUMC_OK;
    CHECK(ok, "simulation %d: %s", (int)seed, fit.message);
    for (int k = 0; ok && k < N_QUANTITIES; k++) {
        const double wanted = quantity(c, truth, k);
        const size_t n = fit.n_chains * fit.n_draws;
        int below = 0;
        for (size_t d = 0; d < N_RANKED; d++) {
            const size_t at = (2 * d + 1) * n / (2 * N_RANKED);
            const size_t row = at / fit.n_draws * fit.draw_capacity + at % fit.n_draws;
            const double *x = fit.draws + row * fit.n_columns;
            below += quantity(c, x, k) < wanted;
        }
        c->ranks[k][below]++;
    }
    gpumc_free(&fit);
    ss_model_free(c->model);
    return ok;
}

static void judge(const int *counts, int n, const char *name)
{
    const double expected = n / (double)(N_RANKED + 1);
    double chi = 0, distance = 0, sum = 0;
    for (int k = 0; k <= N_RANKED; k++) {
        chi += (counts[k] - expected) * (counts[k] - expected) / expected;
        sum += counts[k];
        distance = fmax(distance, fabs(sum / n - (k + 1) / (double)(N_RANKED + 1)));
    }
    printf("%-14s chi-square %5.1f, distance %.3f\n", name, chi, distance * sqrt(n));
    CHECK(chi < CHI_SQUARE, "%s: chi-square %g of its ranks", name, chi);
    CHECK(distance * sqrt(n) < SMIRNOV, "%s: distance %g of its ranks", name, distance * sqrt(n));
}

static void test_calibration(void)
{
    static calibration c;
    static char *names[N_SUBJECTS];
    static const char *const others[] = { "B", "v0", "mu", "likelihood" };
    const ss_model_options options = { .threads = 2 };
    gpumc_error error;
    int done = 0;
    c.task = ss_task_default();
    c.task.runs = 1;
    c.task.trials = 120;
    c.task.stops = 30;
    for (int i = 0; i < N_SUBJECTS; i++) names[i] = "s";
    c.data.n_subjects = c.empty.n_subjects = N_SUBJECTS;
    c.data.subject_names = c.empty.subject_names = names;
    c.data.n_trials = (size_t)(N_SUBJECTS * c.task.trials);
    c.data.trials = (ss_trial *)calloc(c.data.n_trials, sizeof *c.data.trials);
    c.prior = ss_model_create(&c.empty, &options, &error);
    CHECK(c.prior && c.data.trials, "%s", error.text);
    if (!c.prior || !c.data.trials) return;
    find_columns(&c);
    for (int i = 0; i < N_SIMULATIONS; i++) done += calibrate(&c, &options, (uint64_t)i + 1);
    for (int k = 0; k < N_QUANTITIES && done > 0; k++)
        judge(c.ranks[k], done, k < 22 ? ss_model_get(c.prior)->params[k].name : others[k - 22]);
    ss_model_free(c.prior);
    free(c.data.trials);
}

/* ---- recovery ------------------------------------------------------------------------------------ */

static size_t block_offset(const gpumc_fit *fit, const char *name)
{
    for (size_t b = 0; b < fit->n_blocks; b++)
        if (strcmp(fit->blocks[b].name, name) == 0) return fit->blocks[b].offset;
    return SIZE_MAX;
}

/* A fit of n typical subjects; how many 90 % intervals of their parameters hold the truth, and how far the
   medians of B, t0, v_plus and v_minus lie, averaged over subjects, from theirs: ratios. */
static int recover(size_t n, uint64_t seed, double *share, double ratios[4])
{
    static const ss_parameter looked[4] = { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS };
    const ss_model_options options = { .threads = 4 };
    const gpumc_sample_options o = { .num_samples = 1000, .seed = seed };
    const ss_group group = ss_group_default();
    const ss_task task = ss_task_default();
    double *theta = (double *)malloc(n * SS_N_PARAMETERS * sizeof *theta), held = 0;
    ss_model *m = NULL;
    ss_data d;
    gpumc_fit fit;
    gpumc_error error;
    int ok = theta && ss_simulate(SS_RDEX_ABCD, &group, &task, SS_TRUNCATION, n, seed, &d, theta, &error);
    if (ok) m = ss_model_create(&d, &options, &error);
    ok = m && gpumc_sample(ss_model_get(m), &o, &fit) == GPUMC_OK;
    CHECK(ok, "recovery of %d subjects", (int)n);
    for (int k = 0; ok && k < 11; k++) {
        const size_t at = block_offset(&fit, ss_parameter_get(k)->name);
        double true_log = 0, found_log = 0;
        for (size_t i = 0; i < n; i++) {
            const gpumc_series s = gpumc_fit_series(&fit, at + i);
            const double x = theta[i * SS_N_PARAMETERS + (size_t)k];
            held += gpumc_quantile(s, 0.05).value <= x && x <= gpumc_quantile(s, 0.95).value;
            true_log += log(x) / (double)n;
            found_log += log(gpumc_quantile(s, 0.5).value) / (double)n;
        }
        for (int j = 0; j < 4; j++)
            if ((int)looked[j] == k) ratios[j] = exp(found_log - true_log);
    }
    *share = held / (11 * (double)n);
    if (m) {
        gpumc_free(&fit);
        ss_model_free(m);
        ss_data_free(&d);
    }
    free(theta);
    return ok;
}

static void test_recovery(void)
{
    double share, ratios[4];
    int near[4] = { 0 };
    const int seeds = 8;
    for (int seed = 1; seed <= seeds; seed++) {
        if (!recover(10, (uint64_t)seed, &share, ratios)) return;
        for (int j = 0; j < 4; j++) near[j] += fabs(ratios[j] - 1) < 0.1;
        printf("10 subjects, seed %d: coverage %.3f, B %.3f, t0 %.3f, v_plus %.3f, v_minus %.3f of the truth\n",
               seed, share, ratios[0], ratios[1], ratios[2], ratios[3]);
        CHECK(share > 0.8, "coverage %g", share);
    }
    for (int j = 0; j < 3; j++) CHECK(near[j] == seeds, "within 10 %% for %d of %d seeds", near[j], seeds);
    if (!recover(50, 1, &share, ratios)) return;
    printf("50 subjects: coverage %.3f\n", share);
    CHECK(share > 0.85 && share < 0.95, "coverage of 90 %% intervals %g", share);
}

int main(void)
{
    test_calibration();
    test_recovery();
    return check_end();
}
