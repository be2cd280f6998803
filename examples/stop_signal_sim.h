/* stop_signal_sim.h: simulated subjects of the stop-signal task, from one trial to a whole study, and the
   files that keep what they were drawn from.

   C99; include after gpumc.h. */
#ifndef STOP_SIGNAL_SIM_H
#define STOP_SIGNAL_SIM_H

#include "stop_signal_data.h"

typedef struct ss_task {
    int trials, stops, runs;              /* trials of a run, how many of them are stop trials; runs */
    int start_ms, step_ms, top_ms;        /* of the staircase, which stays in [0, top_ms] */
    int carry;                            /* it continues over runs instead of starting again */
    double deadline;                      /* seconds: no response counts that comes later; 0: any does */
} ss_task;

/* The ABCD task. */
static inline ss_task ss_task_default(void)
{
    const ss_task task = { 180, 30, 2, 50, 50, 900, 0, 0 };
    return task;
}

/* ---- one trial ----------------------------------------------------------------------------------- */

/* Inverse Gaussian of mean b / v and shape b^2 (Michael, Schucany & Haas 1976). The smaller root is written
   as a quotient: the textbook's difference cancels. */
static inline double ss_draw_wald(double b, double v, gpumc_rng *rng)
{
    const double mean = b / v, n = gpumc_rng_normal(rng), c = mean * n * n / (2 * b * b);
    const double x = mean / (1 + c + sqrt(c * (c + 2)));
    return gpumc_rng_uniform(rng) * (mean + x) <= mean ? x : mean * mean / x;
}

/* A standard normal number above u; for u > 35, where Phi(-u) underflows, by the leading term of the tail. */
static inline double ss_draw_tail(double u, gpumc_rng *rng)
{
    if (u > 35) return sqrt(u * u + 2 * gpumc_rng_exponential(rng));
    return -gpumc_inv_Phi(gpumc_rng_uniform(rng) * gpumc_Phi(-u));
}

/* An ex-Gaussian above a bound, by rejection or, if 100 tries fail, from its parts: either the normal part is
   above the bound, or it is below, and then the exponential part, which is memoryless, starts again at the
   bound. See ss_stop_mean. */
static inline double ss_draw_ex_gaussian(double mu, double sigma, double tau, double above, gpumc_rng *rng)
{
    const double u = (above - mu) / sigma, w = sigma / tau - u;
    for (int tries = 0; tries < 100; tries++) {
        const double normal = mu + sigma * gpumc_rng_normal(rng), s = normal + tau * gpumc_rng_exponential(rng);
        if (s > above) return s;
    }
    const double below = w < -35 ? 1 : gpumc_mills(w) / (gpumc_mills(w) + gpumc_mills(u));
    const double from = gpumc_rng_uniform(rng) < below ? above : mu + sigma * ss_draw_tail(u, rng);
    return from + tau * gpumc_rng_exponential(rng);
}

/* The rate reached from v0 at speed g when the stop signal replaces the stimulus. */
static inline double ss_grown_rate(double v, double v0, double g, double ssd)
{
    return v0 + fmin(fmax(v - v0, -g * ssd), g * ssd);
}

/* Finishing times of the accumulators for (0) and against (1) the stimulus, from its onset. None is before it,
   as no response is recorded there; the likelihood of BEESTS ignores this truncation. */
static inline void ss_draw_go(ss_kind kind, const double *theta, int ssd_ms, gpumc_rng *rng, double time[2])
{
    const int runners = ss_ex_gaussians(kind);
    if (runners > 0) {
        const int second = runners == 2 ? SS_MU_ERR : SS_MU_GO;
        time[0] = ss_draw_ex_gaussian(theta[SS_MU_GO], theta[SS_SIGMA_GO], theta[SS_TAU_GO], 0, rng);
        time[1] = ss_draw_ex_gaussian(theta[second], theta[second + 1], theta[second + 2], 0, rng);
        if (runners == 1) time[1] = INFINITY;
        return;
    }
    for (int k = 0; k < 2; k++) {
        double b = theta[SS_B], v = theta[SS_V_PLUS + k];
        if (kind == SS_RDEX_A) b += theta[SS_A] * gpumc_rng_uniform(rng);
        if (kind == SS_RDEX_ABCD && ssd_ms != SS_NONE)
            v = ss_grown_rate(v, theta[SS_V0], theta[SS_G], 0.001 * ssd_ms);
        time[k] = theta[SS_T0] + ss_draw_wald(b, v, rng);
    }
}

/* Simulates response and rt of a trial with the given stimulus and delay. The baseline has no stop process. */
static inline void ss_simulate_trial(ss_kind kind, const double *theta, double truncation, double deadline,
                                     gpumc_rng *rng, ss_trial *trial)
{
    const double pgf = ss_has(kind, SS_PGF) ? theta[SS_PGF] : 0;
    const double ptf = kind == SS_WALD ? 1 : ss_has(kind, SS_PTF) ? theta[SS_PTF] : 0;
    double time[2], go, stop = INFINITY;
    trial->response = SS_NONE;
    trial->rt = NAN;
    if (gpumc_rng_uniform(rng) < pgf) return;
    ss_draw_go(kind, theta, trial->ssd_ms, rng, time);
    go = fmin(time[0], time[1]);
    if (trial->ssd_ms != SS_NONE && gpumc_rng_uniform(rng) >= ptf)
        stop = 0.001 * trial->ssd_ms
             + ss_draw_ex_gaussian(theta[SS_MU], theta[SS_SIGMA], theta[SS_TAU], truncation, rng);
    if (!(go < stop) || (deadline > 0 && go > deadline)) return;
    trial->response = time[0] <= time[1] ? trial->stimulus : 1 - trial->stimulus;
    trial->rt = go;
}

/* ---- one subject --------------------------------------------------------------------------------- */

static inline int ss_step(int ssd_ms, const ss_trial *trial, int step_ms, int top_ms)
{
    const int next = ssd_ms + (trial->response == SS_NONE ? step_ms : -step_ms);
    return next < 0 ? 0 : next > top_ms ? top_ms : next;
}

/* Marks `stops` of n trials as stop trials, no two adjacent; every such set is equally likely: it is a set of
   `stops` among n - stops + 1 places, with a go trial inserted after each of them but the last. */
static inline void ss_draw_positions(int n, int stops, gpumc_rng *rng, ss_trial *trials)
{
    int left = n - stops + 1, wanted = stops;
    for (int i = 0; i < n; i++) trials[i].ssd_ms = SS_NONE;
    for (int i = 0; wanted > 0; i++, left--) {
        if (gpumc_rng_below(rng, (uint64_t)left) >= (uint64_t)wanted) continue;
        trials[i++].ssd_ms = 0;
        wanted--;
    }
}

/* Draws the stimuli and the places of the stop signals. */
static inline void ss_draw_design(const ss_task *task, int subject, gpumc_rng *rng, ss_trial *trials)
{
    for (int part = 0; part < task->runs; part++, trials += task->trials) {
        ss_draw_positions(task->trials, task->stops, rng, trials);
        for (int i = 0; i < task->trials; i++) {
            trials[i].subject = subject;
            trials[i].run = part;
            trials[i].stimulus = (int)gpumc_rng_below(rng, 2);
        }
    }
}

/* Simulates responses to a design, with delays by the staircase. */
static inline void ss_simulate_subject(ss_kind kind, const double *theta, double truncation,
                                       const ss_task *task, gpumc_rng *rng, ss_trial *trials)
{
    int ssd = task->start_ms;
    for (int i = 0; i < task->runs * task->trials; i++) {
        ss_trial *trial = &trials[i];
        if (i % task->trials == 0 && !task->carry) ssd = task->start_ms;
        if (trial->ssd_ms != SS_NONE) trial->ssd_ms = ssd;
        ss_simulate_trial(kind, theta, truncation, task->deadline, rng, trial);
        if (trial->ssd_ms != SS_NONE) ssd = ss_step(ssd, trial, task->step_ms, task->top_ms);
    }
}

/* Mean of the stop process: E[s | s > L] = L + tau + sigma [phi(u) - u Phi(-u)] / Q, u = (L - mu) / sigma;
   Q = Phi(-u) + tau q is the ex-Gaussian's survivor and tau q = phi(u) M(w), M the Mills ratio. */
static inline double ss_stop_mean(const double *theta, double truncation)
{
    const double mu = theta[SS_MU], sigma = theta[SS_SIGMA], tau = theta[SS_TAU];
    const double u = (truncation - mu) / sigma, a = sigma / tau, w = a - u;
    const double phi = exp(-0.5 * u * u - GPUMC_LOG_SQRT_2PI), above = gpumc_Phi(-u);
    const double tau_q = w >= 0 ? phi * sqrt(GPUMC_PI / 2) * gpumc_erfcx(w * sqrt(0.5))
                                : exp(a * (a / 2 - u)) * gpumc_Phi(-w);
    if (!(truncation > -INFINITY)) return mu + tau;
    return truncation + tau + sigma * (phi - u * above) / (above + tau_q);
}

/* ---- a population -------------------------------------------------------------------------------- */

/* Locations and scales on the unconstrained scale, log or probit; effects of one covariate in units of its
   standard deviation. */
typedef struct ss_group {
    double location[SS_N_PARAMETERS], scale[SS_N_PARAMETERS], effect[SS_N_PARAMETERS];
    const char *covariate;                /* its name; NULL: none */
} ss_group;

static inline double ss_constrain(int k, double x)
{
    return ss_parameter_get(k)->probit ? gpumc_Phi(x) : exp(x);
}
static inline double ss_unconstrain(int k, double theta)
{
    return ss_parameter_get(k)->probit ? gpumc_std_normal_quantile(theta) : log(theta);
}

static inline ss_group ss_group_default(void)
{
    ss_group group = { { 0 }, { 0 }, { 0 }, NULL };
    for (int k = 0; k < SS_N_PARAMETERS; k++) {
        const ss_parameter_info *info = ss_parameter_get(k);
        group.location[k] = ss_unconstrain(k, info->typical);
        group.scale[k] = info->spread;
    }
    return group;
}

/* Draws the parameters of one subject. */
static inline void ss_draw_parameters(const ss_group *group, double covariate, gpumc_rng *rng, double *theta)
{
    for (int k = 0; k < SS_N_PARAMETERS; k++)
        theta[k] = ss_constrain(k, group->location[k] + group->effect[k] * covariate
                                       + group->scale[k] * gpumc_rng_normal(rng));
}

/* Normal draws, standardised to mean 0 and standard deviation 1. */
static inline void ss_draw_covariate(gpumc_rng *rng, double *x, size_t n)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++) mean += (x[i] = gpumc_rng_normal(rng)) / (double)n;
    for (size_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    for (size_t i = 0; i < n; i++) x[i] = n > 1 ? (x[i] - mean) / sqrt(square / (double)(n - 1)) : 0;
}

/* Simulates a study of n subjects, s001, s002, ...; theta gets SS_N_PARAMETERS values of each. Without a
   covariate a subject's draws depend on seed and number alone. Returns 0 with a text on error. */
static inline int ss_simulate(ss_kind kind, const ss_group *group, const ss_task *task, double truncation,
                              size_t n, uint64_t seed, ss_data *d, double *theta, gpumc_error *error)
{
    const size_t each = (size_t)task->runs * (size_t)task->trials, width = 12;
    memset(d, 0, sizeof *d);
    d->n_subjects = n;
    d->n_trials = n * each;
    d->n_covariates = group->covariate != NULL;
    d->trials = (ss_trial *)calloc(d->n_trials, sizeof *d->trials);
    d->subject_names = (char **)calloc(n, sizeof *d->subject_names);
    d->covariate_names = (char **)calloc(1, sizeof *d->covariate_names);
    d->covariates = (double *)calloc(n, sizeof *d->covariates);
    d->text = (char *)calloc(n * width + 64, 1);
    if (!d->trials || !d->subject_names || !d->covariate_names || !d->covariates || !d->text) {
        ss_data_free(d);
        return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory (%.0f trials)", (double)(n * each));
    }
    d->covariate_names[0] = d->text + n * width;
    if (group->covariate) {
        gpumc_rng rng = gpumc_rng_at(seed, 2, 0, 0);
        snprintf(d->covariate_names[0], 64, "%s", group->covariate);
        ss_draw_covariate(&rng, d->covariates, n);
    }
    for (size_t i = 0; i < n; i++) {
        gpumc_rng rng = gpumc_rng_at(seed, 0, (uint32_t)i, 0);
        d->subject_names[i] = d->text + i * width;
        snprintf(d->subject_names[i], width, "s%03u", (unsigned)(i + 1));
        ss_draw_parameters(group, d->covariates[i], &rng, theta + i * SS_N_PARAMETERS);
        ss_draw_design(task, (int)i, &rng, d->trials + i * each);
        ss_simulate_subject(kind, theta + i * SS_N_PARAMETERS, truncation, task, &rng, d->trials + i * each);
    }
    return 1;
}

/* ---- files that are whole or not there ------------------------------------------------------------ */

typedef struct ss_writer {
    FILE *file;
    const char *path;
    char temporary[1024];
    gpumc_error *error;
} ss_writer;

static inline int ss_writer_open(ss_writer *w, const char *path, gpumc_error *error)
{
    w->path = path;
    w->error = error;
    if (snprintf(w->temporary, sizeof w->temporary, "%s.tmp", path) >= (int)sizeof w->temporary)
        return ss_fail(error, GPUMC_ERROR_ARGUMENT, "the name of a file is too long: %.80s", path);
    w->file = fopen(w->temporary, "wb");
    return w->file || ss_file_fail(error, path, "written");
}

/* Renames the file to its final name if all of it could be written. */
static inline int ss_writer_close(ss_writer *w)
{
    const int failed = ferror(w->file);
    if (fclose(w->file) == 0 && !failed && rename(w->temporary, w->path) == 0) return 1;
    ss_file_fail(w->error, w->path, "written");
    remove(w->temporary);
    return 0;
}

/* Removes the unfinished file. */
static inline void ss_writer_drop(ss_writer *w)
{
    fclose(w->file);
    remove(w->temporary);
}

/* A field of a CSV file, in quotes where it needs them. */
static inline void ss_put_field(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\r\n") && text[0] != ' ') { fputs(text, file); return; }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static inline void ss_put_trial(FILE *file, const ss_data *d, const ss_trial *trial)
{
    static const char *const sides[] = { "left", "right" };
    ss_put_field(file, d->subject_names[trial->subject]);
    fprintf(file, ",%d,%s,", trial->run, sides[trial->stimulus]);
    if (trial->response != SS_NONE) fprintf(file, "%s,%.6f,", sides[trial->response], trial->rt);
    else fprintf(file, ",,");
    if (trial->ssd_ms != SS_NONE) fprintf(file, "%.3f", 0.001 * trial->ssd_ms);
    for (size_t c = 0; c < d->n_covariates; c++)
        fprintf(file, ",%.17g", d->covariates[c * d->n_subjects + (size_t)trial->subject]);
    fputc('\n', file);
}

/* Writes trials in the form that ss_read takes: seconds, a microsecond as the last digit. */
static inline int ss_write_trials(const ss_data *d, const char *path, gpumc_error *error)
{
    ss_writer w;
    if (!ss_writer_open(&w, path, error)) return 0;
    fprintf(w.file, "subject,run,stimulus,response,rt,ssd");
    for (size_t c = 0; c < d->n_covariates; c++) fprintf(w.file, ",%s", d->covariate_names[c]);
    fputc('\n', w.file);
    for (size_t i = 0; i < d->n_trials; i++) ss_put_trial(w.file, d, &d->trials[i]);
    return ss_writer_close(&w);
}

/* ---- truth files --------------------------------------------------------------------------------- */

/* Rows of name, subject, value. Without a subject: the population's location and scale on the unconstrained
   scale, as m_B, s_B and b_B (of the covariate); with one: its parameters as they are, and its SSRT. */
static inline int ss_write_truth(ss_kind kind, const ss_group *group, double truncation, const ss_data *d,
                                 const double *theta, const char *path, gpumc_error *error)
{
    const ss_kind_info *info = ss_kind_get(kind);
    ss_writer w;
    if (!ss_writer_open(&w, path, error)) return 0;
    fprintf(w.file, "name,subject,value\n");
    for (int j = 0; j < info->n; j++) {
        const int k = info->parameters[j];
        const char *name = ss_parameter_get(k)->name;
        fprintf(w.file, "m_%s,,%.17g\n", name, group->location[k]);
        fprintf(w.file, "s_%s,,%.17g\n", name, group->scale[k]);
        if (group->covariate)
            fprintf(w.file, "b_%s,,%.17g\n", name, group->effect[k]);
    }
    for (size_t i = 0; i < d->n_subjects; i++, theta += SS_N_PARAMETERS) {
        for (int j = 0; j < info->n; j++) {
            fprintf(w.file, "%s,", ss_parameter_get(info->parameters[j])->name);
            ss_put_field(w.file, d->subject_names[i]);
            fprintf(w.file, ",%.17g\n", theta[info->parameters[j]]);
        }
        if (kind == SS_WALD) continue;
        fprintf(w.file, "ssrt,");
        ss_put_field(w.file, d->subject_names[i]);
        fprintf(w.file, ",%.17g\n", ss_stop_mean(theta, truncation));
    }
    return ss_writer_close(&w);
}

typedef struct ss_truth_row { const char *name, *subject; double value; } ss_truth_row;

typedef struct ss_truth { ss_truth_row *rows; size_t n; ss_table table; } ss_truth;

static inline void ss_truth_free(ss_truth *truth)
{
    free(truth->rows);
    ss_table_close(&truth->table);
    memset(truth, 0, sizeof *truth);
}

static inline int ss_read_truth(const char *path, ss_truth *truth, gpumc_error *error)
{
    ss_table *t = &truth->table;
    size_t room = 0;
    memset(truth, 0, sizeof *truth);
    if (!ss_table_open(t, path, error)) return 0;
    if (t->n_columns != 3 || strcmp(t->names[0], "name") != 0 || strcmp(t->names[1], "subject") != 0
        || strcmp(t->names[2], "value") != 0)
        return ss_table_fail(t, SIZE_MAX, "a truth file has the columns name, subject and value");
    while (ss_table_more(t)) {
        ss_truth_row row;
        char *end;
        if (!ss_table_row(t)) return 0;
        row.name = t->fields[0];
        row.subject = t->fields[1];
        row.value = strtod(t->fields[2], &end);
        if (end == t->fields[2] || *end)
            return ss_table_fail(t, 2, "\"%.24s\" is not a number", t->fields[2]);
        if (!ss_room(&truth->rows, &room, truth->n + 1, sizeof row, error)) return 0;
        truth->rows[truth->n++] = row;
    }
    return 1;
}

/* ---- group files --------------------------------------------------------------------------------- */

static inline int ss_parameter_find(const char *name, size_t length)
{
    for (int k = 0; k < SS_N_PARAMETERS; k++) {
        const char *known = ss_parameter_get(k)->name;
        if (strlen(known) == length && strncmp(known, name, length) == 0) return k;
    }
    return -1;
}

/* One line of a group file: B=1.25 is the median over subjects, sd_B=0.2 the spread on the unconstrained
   scale, effect_B=0.1 what one unit of the covariate adds there. Returns what is wrong, or NULL. */
static inline const char *ss_group_set(ss_group *group, const char *line)
{
    const size_t length = strcspn(line, "=");
    const int sd = strncmp(line, "sd_", 3) == 0, effect = strncmp(line, "effect_", 7) == 0;
    const size_t prefix = sd ? 3 : effect ? 7 : 0;
    const int k = line[length] == '=' ? ss_parameter_find(line + prefix, length - prefix) : -1;
    char *end;
    double value;
    if (k < 0) return "not of the form NAME=, sd_NAME= or effect_NAME= with the name of a parameter";
    value = strtod(line + length + 1, &end);
    if (end == line + length + 1 || end[strspn(end, " \t\r\n")] || !isfinite(value)) return "not a number";
    if (effect) group->effect[k] = value;
    else if (sd && !(value >= 0)) return "a spread below 0";
    else if (sd) group->scale[k] = value;
    else if (!(value > 0) || (ss_parameter_get(k)->probit && value >= 1)) return "outside the support";
    else group->location[k] = ss_unconstrain(k, value);
    return NULL;
}

/* Reads lines of the above into a group; empty ones and those that start with # do not count. */
static inline int ss_read_group(const char *path, ss_group *group, gpumc_error *error)
{
    FILE *file = fopen(path, "r");
    char line[256];
    size_t number = 0;
    const char *wrong = NULL;
    if (!file) return ss_file_fail(error, path, "opened");
    while (!wrong && fgets(line, sizeof line, file)) {
        number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '#' && line[strspn(line, " \t")]) wrong = ss_group_set(group, line);
    }
    fclose(file);
    return !wrong || ss_fail(error, GPUMC_ERROR_FORMAT, "%.80s: line %.0f: \"%.60s\": %s", path,
                             (double)number, line, wrong);
}
#endif
