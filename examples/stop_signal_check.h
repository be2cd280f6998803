/* stop_signal_check.h: predictions of a fitted model beside the data: inhibition function, failed-stop
   times, accuracy of failed stops, quantiles of go times, omissions, delays; as a table and as figures.

   Every statistic is computed for each subject and averaged over those that have it, in the data and in
   every simulated study alike. Delays are those of the data; for the mean delay and its spread the staircase
   is run again, from the first delay of each run. C99; include after gpumc.h. */
#ifndef STOP_SIGNAL_CHECK_H
#define STOP_SIGNAL_CHECK_H

#include "stop_signal_sim.h"

enum { SS_MOST_LEVELS = 64, SS_N_QUANTILES = 5, SS_LEVEL_TRIALS = 20, SS_ERROR_RESPONSES = 5 };

/* Kinds of statistics; the first three have one for each delay, the next two one for each quantile. */
typedef enum ss_what {
    SS_INHIBITION, SS_SIGNAL_RT, SS_SIGNAL_ACCURACY, SS_GO_CORRECT, SS_GO_ERROR,
    SS_GO_ACCURACY, SS_OMISSIONS, SS_GO_MEAN, SS_SIGNAL_MEAN, SS_RESPONDED, SS_SSD_MEAN, SS_SSD_SD,
    SS_N_WHATS
} ss_what;

static inline const char *ss_what_text(ss_what what)
{
    static const char *const texts[SS_N_WHATS] = {
        "P(respond)", "median failed-stop RT", "failed-stop accuracy", "correct go RT", "wrong go RT",
        "go accuracy", "go omissions", "mean go RT", "mean failed-stop RT", "P(respond | stop)",
        "mean delay", "SD of delays",
    };
    return texts[what];
}

typedef struct ss_statistic {
    ss_what what;
    double x;                 /* delay in seconds or quantile; NAN */
    size_t n_trials;          /* at this delay, over all subjects */
    double observed, low, median, high;   /* 95 % band of the predictions */
    double p;                 /* share of predictions above what was observed, ties counted half */
} ss_statistic;

typedef struct ss_check {
    int levels[SS_MOST_LEVELS];           /* delays with enough trials, ms */
    size_t n_levels, n, n_draws;          /* statistics; simulated studies */
    ss_statistic *list;
    double *drawn;                        /* [statistic][draw] */
} ss_check;

static inline void ss_check_free(ss_check *c)
{
    free(c->list);
    free(c->drawn);
    memset(c, 0, sizeof *c);
}

/* ---- statistics of one subject ------------------------------------------------------------------- */

static inline int ss_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The p quantile of n sorted values, by linear interpolation (type 7). */
static inline double ss_sorted_quantile(const double *x, size_t n, double p)
{
    const double at = p * (double)(n - 1), below = floor(at);
    const size_t i = (size_t)below;
    return i + 1 < n ? x[i] + (at - below) * (x[i + 1] - x[i]) : x[n - 1];
}

static inline double ss_ratio(size_t a, size_t b) { return b ? (double)a / (double)b : (double)NAN; }

/* The three statistics of the stop trials with one delay, to out[0], out[n_levels] and out[2 n_levels]. */
static inline void ss_level_statistics(const ss_trial *t, size_t n, int ssd_ms, size_t n_levels, double *work,
                                       double *out)
{
    size_t trials = 0, responses = 0, correct = 0;
    for (size_t i = 0; i < n; i++) {
        if (t[i].ssd_ms != ssd_ms) continue;
        trials++;
        if (t[i].response == SS_NONE) continue;
        work[responses++] = t[i].rt;
        correct += t[i].response == t[i].stimulus;
    }
    qsort(work, responses, sizeof *work, ss_ascending);
    out[0] = ss_ratio(responses, trials);
    out[n_levels] = responses ? ss_sorted_quantile(work, responses, 0.5) : (double)NAN;
    out[2 * n_levels] = ss_ratio(correct, responses);
}

/* Quantiles of the times of correct go responses, or of wrong ones; NAN if these are fewer than
   SS_ERROR_RESPONSES. */
static inline void ss_go_quantiles(const ss_trial *t, size_t n, int correct, double *work, double *out)
{
    static const double probabilities[SS_N_QUANTILES] = { 0.1, 0.3, 0.5, 0.7, 0.9 };
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (t[i].ssd_ms == SS_NONE && t[i].response != SS_NONE && (t[i].response == t[i].stimulus) == correct)
            work[m++] = t[i].rt;
    qsort(work, m, sizeof *work, ss_ascending);
    for (int k = 0; k < SS_N_QUANTILES; k++)
        out[k] = m >= SS_ERROR_RESPONSES ? ss_sorted_quantile(work, m, probabilities[k]) : (double)NAN;
}

/* The statistics from SS_GO_ACCURACY to SS_RESPONDED. */
static inline void ss_overall_statistics(const ss_trial *t, size_t n, double *out)
{
    size_t trials[2] = { 0, 0 }, responses[2] = { 0, 0 }, correct = 0;
    double time[2] = { 0, 0 };
    for (size_t i = 0; i < n; i++) {
        const int stop = t[i].ssd_ms != SS_NONE;
        trials[stop]++;
        if (t[i].response == SS_NONE) continue;
        responses[stop]++;
        time[stop] += t[i].rt;
        correct += !stop && t[i].response == t[i].stimulus;
    }
    out[0] = ss_ratio(correct, responses[0]);
    out[1] = 1 - ss_ratio(responses[0], trials[0]);
    for (int stop = 0; stop < 2; stop++)
        out[2 + stop] = responses[stop] ? time[stop] / (double)responses[stop] : (double)NAN;
    out[4] = ss_ratio(responses[1], trials[1]);
}

/* Mean and standard deviation of the delays. */
static inline void ss_delay_statistics(const ss_trial *t, size_t n, double *out)
{
    double sum = 0, squares = 0, m = 0;
    for (size_t i = 0; i < n; i++) {
        if (t[i].ssd_ms == SS_NONE) continue;
        sum += 0.001 * t[i].ssd_ms;
        squares += 1e-6 * t[i].ssd_ms * t[i].ssd_ms;
        m++;
    }
    out[0] = m > 0 ? sum / m : (double)NAN;
    out[1] = m > 0 ? sqrt(fmax(0, squares / m - out[0] * out[0])) : (double)NAN;
}

/* All statistics of a subject in the order of ss_check.list; `rerun`: its trials with delays of a staircase run
   again. */
static inline void ss_subject_statistics(const ss_check *c, const ss_trial *t, const ss_trial *rerun,
                                         size_t n, double *work, double *out)
{
    const size_t L = c->n_levels;
    for (size_t k = 0; k < L; k++) ss_level_statistics(t, n, c->levels[k], L, work, out + k);
    ss_go_quantiles(t, n, 1, work, out + 3 * L);
    ss_go_quantiles(t, n, 0, work, out + 3 * L + SS_N_QUANTILES);
    ss_overall_statistics(t, n, out + 3 * L + 2 * SS_N_QUANTILES);
    ss_delay_statistics(rerun, n, out + 3 * L + 2 * SS_N_QUANTILES + 5);
}

/* ---- a study ------------------------------------------------------------------------------------- */

/* The sums over subjects, and scratch. */
typedef struct ss_study {
    const ss_data *data;
    ss_trial *trials, *rerun;             /* of one subject, simulated */
    double *work, *of_subject, *sum, *count;
} ss_study;

static inline void ss_study_free(ss_study *s)
{
    free(s->trials);
    free(s->rerun);
    free(s->work);
}

/* One past the last trial of the subject whose trials start at `first`. */
static inline size_t ss_subject_end(const ss_data *d, size_t first)
{
    size_t end = first;
    while (end < d->n_trials && d->trials[end].subject == d->trials[first].subject) end++;
    return end;
}

static inline int ss_study_make(ss_study *s, const ss_data *d, size_t n_statistics, gpumc_error *error)
{
    size_t most = 0;
    for (size_t i = 0, end; i < d->n_trials; i = end) {
        end = ss_subject_end(d, i);
        if (end - i > most) most = end - i;
    }
    memset(s, 0, sizeof *s);
    s->data = d;
    s->trials = (ss_trial *)malloc(most * sizeof *s->trials);
    s->rerun = (ss_trial *)malloc(most * sizeof *s->rerun);
    s->work = (double *)malloc((most + 3 * n_statistics) * sizeof *s->work);
    s->of_subject = s->work + most;
    s->sum = s->of_subject + n_statistics;
    s->count = s->sum + n_statistics;
    if (s->trials && s->rerun && s->work) return 1;
    ss_study_free(s);
    return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
}

static inline void ss_study_add(ss_study *s, const ss_check *c, const ss_trial *t, const ss_trial *rerun,
                                size_t n)
{
    ss_subject_statistics(c, t, rerun, n, s->work, s->of_subject);
    for (size_t k = 0; k < c->n; k++) {
        if (isnan(s->of_subject[k])) continue;
        s->sum[k] += s->of_subject[k];
        s->count[k] += 1;
    }
}

/* Simulates one subject's trials twice: with the delays of the data, and with a staircase that starts where
   that of each run did. */
static inline void ss_study_simulate(ss_study *s, ss_kind kind, const double *theta, double truncation,
                                     const ss_task *task, gpumc_rng *rng, const ss_trial *seen, size_t n)
{
    int ssd = 0, part = -1;
    for (size_t i = 0; i < n; i++) {
        s->trials[i] = s->rerun[i] = seen[i];
        ss_simulate_trial(kind, theta, truncation, task->deadline, rng, &s->trials[i]);
        if (seen[i].ssd_ms == SS_NONE) continue;
        if (seen[i].run != part) ssd = seen[i].ssd_ms;
        part = seen[i].run;
        s->rerun[i].ssd_ms = ssd;
        ss_simulate_trial(kind, theta, truncation, task->deadline, rng, &s->rerun[i]);
        ssd = ss_step(ssd, &s->rerun[i], task->step_ms, task->top_ms);
    }
}

/* Writes averages of every statistic over subjects to out: of the data if theta is NULL, otherwise of a study
   simulated from SS_N_PARAMETERS values a subject. */
static inline void ss_study_run(ss_study *s, const ss_check *c, ss_kind kind, const double *theta,
                                double truncation, const ss_task *task, gpumc_rng *rng, double *out)
{
    const ss_data *d = s->data;
    for (size_t k = 0; k < c->n; k++) s->sum[k] = s->count[k] = 0;
    for (size_t i = 0, end; i < d->n_trials; i = end) {
        const ss_trial *seen = d->trials + i;
        const double *own = theta ? theta + (size_t)seen->subject * SS_N_PARAMETERS : NULL;
        const size_t n = (end = ss_subject_end(d, i)) - i;
        if (!own) { ss_study_add(s, c, seen, seen, n); continue; }
        ss_study_simulate(s, kind, own, truncation, task, rng, seen, n);
        ss_study_add(s, c, s->trials, s->rerun, n);
    }
    for (size_t k = 0; k < c->n; k++) out[k] = s->count[k] > 0 ? s->sum[k] / s->count[k] : (double)NAN;
}

/* ---- the check ----------------------------------------------------------------------------------- */

/* Delays with at least SS_LEVEL_TRIALS trials, in ascending order: the first SS_MOST_LEVELS of them. */
static inline void ss_check_levels(ss_check *c, const ss_data *d, size_t counts[SS_MOST_LEVELS])
{
    int ssd = -1;
    while (c->n_levels < SS_MOST_LEVELS) {
        size_t n = 0;
        int next = INT_MAX;
        for (size_t i = 0; i < d->n_trials; i++)
            if (d->trials[i].ssd_ms > ssd && d->trials[i].ssd_ms < next) next = d->trials[i].ssd_ms;
        if (next == INT_MAX) break;
        for (size_t i = 0; i < d->n_trials; i++) n += d->trials[i].ssd_ms == next;
        counts[c->n_levels] = n;
        c->levels[c->n_levels] = next;
        c->n_levels += n >= SS_LEVEL_TRIALS;
        ssd = next;
    }
}

static inline int ss_check_make(ss_check *c, const ss_data *d, size_t n_draws, gpumc_error *error)
{
    static const double probabilities[SS_N_QUANTILES] = { 0.1, 0.3, 0.5, 0.7, 0.9 };
    size_t counts[SS_MOST_LEVELS], n = 0;
    memset(c, 0, sizeof *c);
    ss_check_levels(c, d, counts);
    c->n = 3 * c->n_levels + 2 * SS_N_QUANTILES + (SS_N_WHATS - SS_GO_ACCURACY);
    c->n_draws = n_draws;
    c->list = (ss_statistic *)calloc(c->n, sizeof *c->list);
    c->drawn = (double *)calloc(c->n * n_draws, sizeof *c->drawn);
    if (!c->list || !c->drawn) {
        ss_check_free(c);
        return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    }
    for (int what = 0; what < SS_N_WHATS; what++) {
        const size_t each = what < SS_GO_CORRECT ? c->n_levels : what < SS_GO_ACCURACY ? SS_N_QUANTILES : 1;
        for (size_t k = 0; k < each; k++, n++) {
            c->list[n].what = (ss_what)what;
            c->list[n].x = each == 1 ? (double)NAN : probabilities[k % SS_N_QUANTILES];
            if (what >= SS_GO_CORRECT) continue;
            c->list[n].x = 0.001 * c->levels[k];
            c->list[n].n_trials = counts[k];
        }
    }
    return 1;
}

/* Band and predictive p of one statistic from its draws, which it sorts; a study in which no subject has the
   statistic does not count. */
static inline void ss_statistic_finish(ss_statistic *s, double *drawn, size_t n_draws)
{
    double above = 0;
    size_t n = 0;
    for (size_t i = 0; i < n_draws; i++)
        if (!isnan(drawn[i])) drawn[n++] = drawn[i];
    s->low = s->median = s->high = s->p = NAN;
    if (n == 0) return;
    qsort(drawn, n, sizeof *drawn, ss_ascending);
    s->low = ss_sorted_quantile(drawn, n, 0.025);
    s->median = ss_sorted_quantile(drawn, n, 0.5);
    s->high = ss_sorted_quantile(drawn, n, 0.975);
    for (size_t i = 0; i < n; i++) above += drawn[i] > s->observed ? 1 : drawn[i] == s->observed ? 0.5 : 0;
    if (!isnan(s->observed)) s->p = above / (double)n;
}

/* Fills theta, SS_N_PARAMETERS values a subject, with draw number `draw` of the posterior. */
typedef void ss_draw_source(size_t draw, double *theta, void *user);

/* Compares data with n_draws studies simulated from draws of the posterior. 0 with a text on error. */
static inline int ss_check_run(ss_check *c, const ss_data *d, ss_kind kind, double truncation,
                               const ss_task *task, ss_draw_source *source, void *user, size_t n_draws,
                               uint64_t seed, gpumc_error *error)
{
    ss_study study;
    double *theta, *row;
    if (!ss_check_make(c, d, n_draws, error)) return 0;
    if (!ss_study_make(&study, d, c->n, error)) { ss_check_free(c); return 0; }
    theta = (double *)calloc(d->n_subjects * SS_N_PARAMETERS + c->n, sizeof *theta);
    row = theta + d->n_subjects * SS_N_PARAMETERS;
    for (size_t draw = 0; theta && draw <= n_draws; draw++) {
        gpumc_rng rng = gpumc_rng_at(seed, 1, (uint32_t)draw, 0);
        const int data = draw == n_draws;
        if (!data) source(draw, theta, user);
        ss_study_run(&study, c, kind, data ? NULL : theta, truncation, task, &rng, row);
        for (size_t k = 0; k < c->n; k++)
            if (data) c->list[k].observed = row[k];
            else c->drawn[k * n_draws + draw] = row[k];
    }
    for (size_t k = 0; k < c->n; k++) ss_statistic_finish(&c->list[k], c->drawn + k * n_draws, n_draws);
    ss_study_free(&study);
    if (!theta) ss_check_free(c);
    free(theta);
    return c->list || ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
}

static inline int ss_is_outside(const ss_statistic *s)
{
    return s->observed < s->low || s->observed > s->high;
}

/* Prints a line for each statistic, marked where the data lie outside the band. */
static inline void ss_check_print(const ss_check *c, FILE *file)
{
    size_t outside = 0, n = 0;
    fprintf(file, "%-22s %6s %7s %9s %9s %9s %9s %6s\n", "statistic", "at", "trials", "observed", "2.5%",
            "50%", "97.5%", "p");
    for (size_t k = 0; k < c->n; k++) {
        const ss_statistic *s = &c->list[k];
        char x[16] = "", trials[24] = "";
        if (isnan(s->observed) || isnan(s->median)) continue;
        if (!isnan(s->x)) snprintf(x, sizeof x, "%.2f", s->x);
        if (s->n_trials) snprintf(trials, sizeof trials, "%.0f", (double)s->n_trials);
        fprintf(file, "%-22s %6s %7s %9.4f %9.4f %9.4f %9.4f %6.3f%s\n", ss_what_text(s->what), x, trials,
                s->observed, s->low, s->median, s->high, s->p, ss_is_outside(s) ? " *" : "");
        outside += (size_t)ss_is_outside(s);
        n++;
    }
    fprintf(file, "%.0f of %.0f statistics lie outside their 95 %% bands (*)\n", (double)outside, (double)n);
}
#endif
