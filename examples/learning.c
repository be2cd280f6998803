/* learning.c: how fast do people learn from rewards? A model in which each trial builds on those before.

   Two options pay 1 or 0, the second more often (0.7, the first 0.3). A subject keeps a value of each option, 0.5
   at first, and after a trial moves that of the chosen option towards the reward (Rescorla and Wagner 1972):
       P(second) = 1 / (1 + exp(-b (value[1] - value[0]))),   value[chosen] += a (reward - value[chosen])
       logit a[s] and log b[s] ~ bivariate normal: means mu, scales tau, correlation L L'
       mu[1] ~ normal(0, 1.5),  mu[2] ~ normal(1, 1),  tau ~ half-normal(1),  L ~ LKJ(2)
   Rows of a hierarchical model know nothing of each other, so this is a density of its own: the derivatives of
   the values by a are carried along the trials with them. The data are drawn from the model.

   Subjects simulated anew by each draw should learn as those observed did.

   Build:  cc -O2 examples/learning.c -o learning -lm -pthread
   Run:    ./learning                           (./learning help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: mu 2 of 2, tau 2 of 2, rate 29 of 30, slope 27 of 30
   subject in the middle      mean   90 % interval    drawn with
       learning_rate          0.29    0.22 to 0.36          0.31
       inverse_temperature    3.30    2.79 to 3.84          3.32
       correlation           -0.11   -0.50 to 0.33         -0.40
   choices of the second    observed   90 % predicted
       quarter 1                0.67   0.65 to 0.72
       quarter 2                0.75   0.72 to 0.80
       quarter 3                0.73   0.73 to 0.81
       quarter 4                0.77   0.73 to 0.81
   gradients=20476 divergences=0 warmup_s=0.1534 sampling_s=0.7433
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

enum { RATE = 0, SLOPE, VARYING, QUARTERS = 4 };
static const double true_mu[VARYING] = { -0.8, 1.2 }, true_tau[VARYING] = { 0.8, 0.4 }, true_correlation = -0.4;
static const double pays[2] = { 0.3, 0.7 };

struct task {
    size_t n_subjects, n_trials, *which[VARYING];          /* which: all k, for mu[k] and tau[k] */
    unsigned char *choice, *reward;                        /* subject by subject */
    double *theta;                                         /* true values: rates, then slopes */
};

/* ---- one subject ---------------------------------------------------------------------------------- */
/* Chooses and learns; reward may be NULL. */
static void play(const struct task *e, double rate, double slope, gpumc_rng *rng, unsigned char *choice,
                 unsigned char *reward)
{
    const double a = gpumc_inv_logit(rate), b = exp(slope);
    double value[2] = { 0.5, 0.5 };
    for (size_t t = 0; t < e->n_trials; t++) {
        const int c = gpumc_bernoulli_logit_rng(rng, b * (value[1] - value[0])) > 0;
        const int pay = gpumc_rng_uniform(rng) < pays[c];
        value[c] += a * (pay - value[c]);
        choice[t] = (unsigned char)c;
        if (reward) reward[t] = (unsigned char)pay;
    }
}

/* Log likelihood of a subject's choices; adds its derivatives to by_rate and by_slope. */
static double choices(const struct task *e, size_t s, double rate, double slope, double *by_rate,
                      double *by_slope)
{
    const double a = gpumc_inv_logit(rate), b = exp(slope);
    double value[2] = { 0.5, 0.5 }, by_a[2] = { 0, 0 };     /* by_a: derivatives of the values */
    double lp = 0, sum_a = 0, sum_b = 0;
    for (size_t t = s * e->n_trials; t < (s + 1) * e->n_trials; t++) {
        const int c = e->choice[t];
        const double better = value[1] - value[0], surprise = e->reward[t] - value[c];
        double by_eta = 0;
        lp += gpumc_bernoulli_logit_lpmf(c, b * better, &by_eta);
        sum_a += by_eta * b * (by_a[1] - by_a[0]);
        sum_b += by_eta * better;
        by_a[c] += surprise - a * by_a[c];
        value[c] += a * surprise;
    }
    *by_rate += sum_a * a * (1 - a);
    *by_slope += sum_b * b;
    return lp;
}

/* ---- the model ------------------------------------------------------------------------------------ */
/* In the order of the parameter list below; rates and slopes of all subjects follow. */
struct population { double mu[VARYING], tau[VARYING], L[VARYING * VARYING]; };
static size_t place(const struct task *e, size_t k, size_t s)
{ return sizeof(struct population) / sizeof(double) + k * e->n_subjects + s; }

static double log_density(const double *x, double *grad, void *data)
{
    static const double zero[VARYING] = { 0, 0 };
    const struct task *e = (const struct task *)data;
    const struct population *p = (const struct population *)x;
    struct population *g = (struct population *)grad;
    double lp = gpumc_normal_lpdf(p->mu[RATE], 0, 1.5, &g->mu[RATE], NULL, NULL)
              + gpumc_normal_lpdf(p->mu[SLOPE], 1, 1, &g->mu[SLOPE], NULL, NULL)
              + gpumc_lkj_corr_cholesky_lpdf(p->L, VARYING, 2, g->L, NULL);
    for (size_t k = 0; k < VARYING; k++) lp += gpumc_half_normal_lpdf(p->tau[k], 1, &g->tau[k], NULL);
    for (size_t s = 0; s < e->n_subjects; s++) {
        double z[VARYING], by_z[VARYING] = { 0, 0 }, work[2 * VARYING];
        const size_t rate = place(e, RATE, s), slope = place(e, SLOPE, s);
        for (size_t k = 0; k < VARYING; k++) z[k] = (x[place(e, k, s)] - p->mu[k]) / p->tau[k];
        lp += gpumc_multi_normal_cholesky_lpdf(z, zero, p->L, VARYING, by_z, NULL, g->L, work);
        for (size_t k = 0; k < VARYING; k++) {
            lp -= log(p->tau[k]);
            grad[place(e, k, s)] += by_z[k] / p->tau[k];
            g->mu[k] -= by_z[k] / p->tau[k];
            g->tau[k] -= (by_z[k] * z[k] + 1) / p->tau[k];
        }
        lp += choices(e, s, x[rate], x[slope], &grad[rate], &grad[slope]);
    }
    return lp;
}

/* Adds one subject's part to the share of choices of the second option in each quarter of the trials. */
static void learnt(const struct task *e, const unsigned char *choice, double *curve)
{
    for (size_t t = 0; t < e->n_trials; t++) {
        const size_t q = t * QUARTERS / e->n_trials;
        const size_t first = (q * e->n_trials + QUARTERS - 1) / QUARTERS;
        const size_t end = ((q + 1) * e->n_trials + QUARTERS - 1) / QUARTERS;
        curve[q] += choice[t] / (double)((end - first) * e->n_subjects);
    }
}

/* Called once a kept draw, in the order of the outputs below. */
static void generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    const struct task *e = (const struct task *)data;
    const struct population *p = (const struct population *)x;
    double *curve = out + 3;
    unsigned char choice[1000];
    out[0] = gpumc_inv_logit(p->mu[RATE]);
    out[1] = exp(p->mu[SLOPE]);
    out[2] = p->L[2];
    memset(curve, 0, QUARTERS * sizeof *curve);
    for (size_t s = 0; s < e->n_subjects; s++) {
        play(e, x[place(e, RATE, s)], x[place(e, SLOPE, s)], rng, choice, NULL);
        learnt(e, choice, curve);
    }
}

/* ---- the data ------------------------------------------------------------------------------------- */
/* Draws subjects from the model and simulates their choices; returns 0 when out of memory. */
static int task_run(struct task *e, uint64_t seed)
{
    const size_t n = e->n_subjects;
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    e->choice = (unsigned char *)malloc(n * e->n_trials);
    e->reward = (unsigned char *)malloc(n * e->n_trials);
    e->theta = (double *)malloc(VARYING * n * sizeof *e->theta);
    e->which[0] = (size_t *)malloc(VARYING * n * sizeof *e->which[0]);
    if (!e->choice || !e->reward || !e->theta || !e->which[0]) return 0;
    e->which[1] = e->which[0] + n;
    for (size_t s = 0; s < n; s++) {
        const double z = gpumc_rng_normal(&rng), own = gpumc_rng_normal(&rng), r = true_correlation;
        e->theta[s] = true_mu[RATE] + true_tau[RATE] * z;
        e->theta[n + s] = true_mu[SLOPE] + true_tau[SLOPE] * (r * z + sqrt(1 - r * r) * own);
        for (size_t k = 0; k < VARYING; k++) e->which[k][s] = k;
        play(e, e->theta[s], e->theta[n + s], &rng, e->choice + s * e->n_trials, e->reward + s * e->n_trials);
    }
    return 1;
}

static void task_free(struct task *e)
{
    free(e->choice);
    free(e->reward);
    free(e->theta);
    free(e->which[0]);
}

/* ---- the run -------------------------------------------------------------------------------------- */
static int report(const struct task *e, const run *r, const gpumc_fit *fit)
{
    const run_truth truths[] = { { "mu", true_mu, VARYING }, { "tau", true_tau, VARYING },
        { "rate", e->theta, e->n_subjects }, { "slope", e->theta + e->n_subjects, e->n_subjects } };
    static const char *const of_middle[] = { "learning_rate", "inverse_temperature", "correlation" };
    const double truth[] = { gpumc_inv_logit(true_mu[RATE]), exp(true_mu[SLOPE]), true_correlation };
    double curve[QUARTERS] = { 0 };
    run_compare(fit, truths, 4);
    printf("subject in the middle      mean   90 %% interval    drawn with\n");
    for (size_t k = 0; k < 3; k++) {
        const gpumc_summary s = gpumc_summarise(fit, gpumc_column(fit, of_middle[k]));
        printf("    %-19s  %6.2f   %5.2f to %4.2f        %6.2f\n", of_middle[k], s.mean, s.q5, s.q95, truth[k]);
    }
    for (size_t s = 0; s < e->n_subjects; s++) learnt(e, e->choice + s * e->n_trials, curve);
    printf("choices of the second    observed   90 %% predicted\n");
    for (size_t q = 0; q < QUARTERS; q++) {
        const gpumc_summary s = gpumc_summarise(fit, gpumc_column(fit, "curve[1]") + q);
        printf("    quarter %.0f                %4.2f   %4.2f to %4.2f\n", (double)(q + 1), curve[q], s.q5, s.q95);
    }
    for (size_t k = 0; k < fit->n_warnings; k++) printf("warning: %s\n", fit->warnings[k].text);
    return run_finish(r, fit);
}

static int sample(struct task *e, const run *r)
{
    static const size_t dims[] = { VARYING, VARYING };
    const gpumc_param params[] = {
        { .name = "mu", .size = VARYING },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = VARYING },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = dims, .n_dims = 2 },
        { .name = "rate", .size = e->n_subjects, .location = "mu", .location_index = e->which[RATE],
          .scale = "tau", .scale_index = e->which[RATE], .factor = "L" },
        { .name = "slope", .size = e->n_subjects, .location = "mu", .location_index = e->which[SLOPE],
          .scale = "tau", .scale_index = e->which[SLOPE], .factor = "L" },
    };
    const gpumc_output outputs[] = {
        { .name = "learning_rate" }, { .name = "inverse_temperature" }, { .name = "correlation" },
        { .name = "curve", .size = QUARTERS, .group = GPUMC_POSTERIOR_PREDICTIVE },
    };
    const gpumc_model model = { .name = "learning", .params = params, .n_params = 5,
                                .log_density = log_density, .generate = generate, .outputs = outputs,
                                .n_outputs = 4, .data = e };
    gpumc_fit fit;
    const int status = run_sample(r, &model, &fit) == GPUMC_OK ? report(e, r, &fit) : run_ended(&fit);
    gpumc_free(&fit);
    return status;
}

int main(int argc, char **argv)
{
    struct task e = { 0 };
    run r = { .summary = NULL };
    int size = 30, trials = 100, status;
    uint64_t data_seed = 2;
    const argument own[] = {
        { "size", WHOLE, &size, "subjects (30)" },
        { "trials", WHOLE, &trials, "of a subject, at most 1000 (100)" },
        { "data_seed", SEED, &data_seed, "of the data (2)" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 2 || size > 100000 || trials < QUARTERS || trials > 1000)
        return run_failed("size must be 2 to 100000, trials 4 to 1000");
    e.n_subjects = (size_t)size;
    e.n_trials = (size_t)trials;
    status = task_run(&e, data_seed) ? sample(&e, &r) : run_failed("out of memory");
    task_free(&e);
    return status;
}
