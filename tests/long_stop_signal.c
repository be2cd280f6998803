/* Simulation-based calibration of the whole stop-signal model (Talts et al. 2018): hyperparameters and subjects are
   drawn from the prior, trials simulated with the staircase, and the posterior sampled; the rank of the true value
   among posterior draws must be uniform for every hyperparameter, three parameters of a subject and the log
   likelihood. Then recovery of ten typical subjects, and coverage of fifty.

   Ranks are taken among 19 equally spaced draws of two short chains. They count as independent, because sampling is
   repeated with 4 and then 16 times the draws while any quantity has an effective sample size below 40; at most a
   twentieth of the simulations may remain below that. The ranks of each of the 26 quantities are judged by chi-square
   over their 20 values and by the Kolmogorov-Smirnov distance, each at p = 1e-4: 52 tests, a false alarm in 200 runs.
   The prior is wide: some simulated subjects never stop or respond at chance, which is not an error.

       long_stop_signal.test                       200 simulations, judged, and recovery
       long_stop_signal.test FROM TO >ranks        some of them, for several machines: a line of ranks each
       long_stop_signal.test recovery              recovery and coverage alone
       cat ranks... | long_stop_signal.test judge  judges these */
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
enum { N_DRAWS = 250, LONGEST = 16 * N_DRAWS, N_CHAINS = 2, LEAST_ESS = 40 };
static const double CHI_SQUARE = 50.8, SMIRNOV = 2.225;      /* p = 1e-4: 19 degrees of freedom; D sqrt n */

/* ---- calibration --------------------------------------------------------------------------------- */

typedef struct calibration {
    ss_data data, empty;                  /* the same subjects without a trial: the density is the prior */
    ss_model *model, *prior;
    ss_task task;
    double theta[N_SUBJECTS * SS_N_PARAMETERS];
    size_t hyper[22], subject[3];         /* columns */
    const char *names[N_QUANTITIES];
    double values[N_QUANTITIES][N_CHAINS * LONGEST];
    double least_ess;
    int rank[N_QUANTITIES];
} calibration;

/* How often each rank occurred; n_short: simulations with too small an effective sample size. */
typedef struct tally { int counts[N_QUANTITIES][N_RANKED + 1], n, n_short; } tally;

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

/* The subjects' parameters at the sampled values x. */
static void take_subjects(calibration *c, const double *x)
{
    static double out[MAX_VALUES];
    const gpumc_model *m = ss_model_get(c->prior);
    const double *values = out;
    gpumc_rng unused = gpumc_rng_at(0, 0, 0, 0);
    m->generate(x, &unused, out, m->data);
    for (size_t k = 0; k < m->n_outputs; values += m->outputs[k++].size)
        for (int j = 0; j < SS_N_PARAMETERS; j++) {
            if (strcmp(m->outputs[k].name, ss_parameter_get(j)->name) != 0) continue;
            for (int i = 0; i < N_SUBJECTS; i++) c->theta[i * SS_N_PARAMETERS + j] = values[i];
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

/* Computes the quantities at every draw, and the smallest effective sample size among them. */
static void take_quantities(calibration *c, const gpumc_fit *fit)
{
    c->least_ess = INFINITY;
    for (int k = 0; k < N_QUANTITIES; k++) {
        const gpumc_series s = { c->values[k], fit->n_chains, fit->n_draws, 0, 0 };
        for (size_t i = 0; i < fit->n_chains * fit->n_draws; i++) {
            const size_t row = i / fit->n_draws * fit->draw_capacity + i % fit->n_draws;
            c->values[k][i] = quantity(c, fit->draws + row * fit->n_columns, k);
        }
        c->least_ess = fmin(c->least_ess, gpumc_ess_bulk(s).value);
    }
}

/* Samples the posterior and ranks the truth. Returns the seconds that sampling took, NAN if it failed. */
static double rank(calibration *c, const double *truth, uint64_t seed)
{
    gpumc_sample_options o = { .num_chains = N_CHAINS, .num_samples = N_DRAWS, .seed = seed, .threads = 1 };
    double seconds = 0;
    ss_sampling(N_SUBJECTS, &o);
    for (c->least_ess = 0; c->least_ess < LEAST_ESS && o.num_samples <= LONGEST; o.num_samples *= 4) {
        gpumc_fit fit;
        const int ok = gpumc_sample(ss_model_get(c->model), &o, &fit) == GPUMC_OK;
        CHECK(ok, "simulation %d: %s", (int)seed, fit.message);
        if (ok) take_quantities(c, &fit);
        seconds += ok ? fit.warmup_seconds + fit.sampling_seconds : (double)NAN;
        gpumc_free(&fit);
        if (!ok) return NAN;
    }
    for (int k = 0; k < N_QUANTITIES; k++) {
        const double wanted = quantity(c, truth, k);
        const int n = N_CHAINS * o.num_samples / 4;
        c->rank[k] = 0;
        for (int d = 0; d < N_RANKED; d++)
            c->rank[k] += c->values[k][(2 * d + 1) * n / (2 * N_RANKED)] < wanted;
    }
    return seconds;
}

/* One simulation; prints a line of its ranks. Returns 0 if it could not be sampled. */
static int calibrate(calibration *c, const ss_model_options *options, uint64_t seed)
{
    static double truth[MAX_VALUES];
    gpumc_rng rng = gpumc_rng_at(seed, 6, 0, 0);
    gpumc_error error;
    double seconds;
    if (gpumc_hier_prior_draw(c->prior->hier, &rng, truth, &error) != GPUMC_OK) {
        CHECK(0, "no draw from the prior: %s", error.text);
        return 0;
    }
    take_subjects(c, truth);
    simulate_trials(c, seed);
    c->model = ss_model_create(&c->data, options, &error);
    CHECK(c->model != NULL, "%s", error.text);
    if (!c->model) return 0;
    seconds = rank(c, truth, seed);
    ss_model_free(c->model);
    if (isnan(seconds)) return 0;
    printf("ranks %d %.0f", (int)seed, c->least_ess);
    for (int k = 0; k < N_QUANTITIES; k++) printf(" %d", c->rank[k]);
    printf("  # %.1f s\n", seconds);
    fflush(stdout);
    return 1;
}

static void tally_add(tally *t, const int *ranks, double least_ess)
{
    for (int k = 0; k < N_QUANTITIES; k++) t->counts[k][ranks[k]]++;
    t->n++;
    t->n_short += least_ess < LEAST_ESS;
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
    printf("%-14s chi-square %5.1f (50.8), distance %.3f (2.225)\n", name, chi, distance * sqrt(n));
    CHECK(chi < CHI_SQUARE, "%s: chi-square %g of its ranks", name, chi);
    CHECK(distance * sqrt(n) < SMIRNOV, "%s: distance %g of its ranks", name, distance * sqrt(n));
}

static void judge_all(const calibration *c, const tally *t)
{
    for (int k = 0; k < N_QUANTITIES && t->n > 0; k++) judge(t->counts[k], t->n, c->names[k]);
    printf("%d simulations, %d with an effective size below %d\n", t->n, t->n_short, LEAST_ESS);
    CHECK(t->n > 0 && t->n_short <= t->n / 20, "%d of %d with too few independent draws", t->n_short, t->n);
}

/* Reads lines of ranks. */
static void read_ranks(tally *t, FILE *file)
{
    char line[512];
    while (fgets(line, sizeof line, file)) {
        int ranks[N_QUANTITIES], n = 0;
        double ess;
        char *at = line + 6;
        if (strncmp(line, "ranks ", 6) != 0) continue;
        (void)strtol(at, &at, 10);
        ess = strtod(at, &at);
        for (char *end; n < N_QUANTITIES; n++, at = end) {
            const long r = strtol(at, &end, 10);
            if (end == at || r < 0 || r > N_RANKED) break;
            ranks[n] = (int)r;
        }
        CHECK(n == N_QUANTITIES, "a line of ranks is cut: %s", line);
        if (n == N_QUANTITIES) tally_add(t, ranks, ess);
    }
}

static int calibration_make(calibration *c, const ss_model_options *options)
{
    static char *subjects[N_SUBJECTS];
    static const char *const others[] = { "B", "v0", "mu", "likelihood" };
    gpumc_error error = { GPUMC_ERROR_MEMORY, "" };
    c->task = ss_task_default();
    c->task.runs = 1;
    c->task.trials = 120;
    c->task.stops = 30;
    for (int i = 0; i < N_SUBJECTS; i++) subjects[i] = "s";
    c->data.n_subjects = c->empty.n_subjects = N_SUBJECTS;
    c->data.subject_names = c->empty.subject_names = subjects;
    c->data.n_trials = (size_t)(N_SUBJECTS * c->task.trials);
    c->data.trials = (ss_trial *)calloc(c->data.n_trials, sizeof *c->data.trials);
    if (c->data.trials) c->prior = ss_model_create(&c->empty, options, &error);
    CHECK(c->prior != NULL, "%s", error.text);
    if (!c->prior) return 0;
    find_columns(c);
    for (int k = 0; k < N_QUANTITIES; k++)
        c->names[k] = k < 22 ? ss_model_get(c->prior)->params[k].name : others[k - 22];
    return 1;
}

/* Runs simulations from .. to, or reads their ranks from lines; the ranks are tested if judged. */
static void test_calibration(int from, int to, int judged, FILE *lines)
{
    static calibration c;
    static tally t;
    ss_model_options options = { .kind = SS_RDEX_ABCD };
    options.threads = 1;
    if (!calibration_make(&c, &options)) return;
    if (lines) read_ranks(&t, lines);
    for (int i = from; i <= to; i++)
        if (calibrate(&c, &options, (uint64_t)i)) tally_add(&t, c.rank, c.least_ess);
    if (judged) judge_all(&c, &t);
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

/* Fits n typical subjects. share: the share of the 90 % intervals of their parameters that contain the truth; ratios:
   posterior medians of B, t0, v_plus and v_minus relative to the truth, as geometric means over subjects. */
static int recover(size_t n, uint64_t seed, double *share, double ratios[4])
{
    static const ss_parameter looked[4] = { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS };
    ss_model_options options = { .kind = SS_RDEX_ABCD };
    gpumc_sample_options o = { .num_samples = 1000, .seed = seed };
    const ss_group group = ss_group_default();
    const ss_task task = ss_task_default();
    double *theta = (double *)malloc(n * SS_N_PARAMETERS * sizeof *theta), held = 0;
    ss_model *m = NULL;
    ss_data d;
    gpumc_fit fit;
    gpumc_error error;
    int ok = theta && ss_simulate(SS_RDEX_ABCD, &group, &task, SS_TRUNCATION, n, seed, &d, theta, &error);
    options.threads = 4;
    ss_sampling(n, &o);
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
        printf("10 subjects, seed %d: coverage %.3f; B %.3f, t0 %.3f, v_plus %.3f, v_minus %.3f of truth\n",
               seed, share, ratios[0], ratios[1], ratios[2], ratios[3]);
        fflush(stdout);
        CHECK(share > 0.8, "coverage %g", share);
    }
    for (int j = 0; j < 3; j++) CHECK(near[j] == seeds, "within 10 %% for %d of %d seeds", near[j], seeds);
    if (!recover(50, 1, &share, ratios)) return;
    printf("50 subjects: coverage %.3f\n", share);
    CHECK(share > 0.85 && share < 0.95, "coverage of 90 %% intervals %g", share);
}

int main(int argc, char **argv)
{
    if (argc == 3) test_calibration(atoi(argv[1]), atoi(argv[2]), 0, NULL);
    else if (argc == 2 && strcmp(argv[1], "judge") == 0) test_calibration(1, 0, 1, stdin);
    else if (argc == 1) {
        test_calibration(1, N_SIMULATIONS, 1, NULL);
        test_recovery();
    } else if (argc == 2 && strcmp(argv[1], "recovery") == 0) test_recovery();
    else {
        fprintf(stderr, "usage: long_stop_signal.test [FROM TO | judge | recovery]\n");
        return 2;
    }
    return check_end();
}
