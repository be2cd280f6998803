/* stop_signal.c: hierarchical models of the stop-signal task, from trials to a report.

   RDEX-ABCD (Weigard, Matzke, Tanis & Heathcote 2023): racing diffusions choose left or right, an ex-Gaussian
   stop process races against them, and the stop signal cuts the stimulus short. Eleven parameters a subject,
   subjects from a population. The likelihood is exact; the stop integral takes 48 nodes. stop_signal.md is the
   guide: model, data format, a worked example, how to read the checks.

   Build:  cc -O2 examples/stop_signal.c -o stop_signal -lm -pthread
   Run:    ./stop_signal simulate trials=trials.csv truth=truth.csv subjects=20
           ./stop_signal fit data=trials.csv output=fit.zarr report=fit.html table=subjects.csv
           ./stop_signal check fit=fit.zarr data=trials.csv truth=truth.csv page=check.html
   Without arguments it lists its commands; ./stop_signal COMMAND help lists the keys of one.

   The parts: stop_signal_rows.h (likelihood of a trial), stop_signal_model.h (priors, hierarchy),
   stop_signal_data.h (files of trials), stop_signal_sim.h (simulator), stop_signal_check.h and
   stop_signal_figures.h (predictions beside data). */
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"
#include "stop_signal_data.h"
#include "stop_signal_rows.h"
#include "stop_signal_model.h"
#include "stop_signal_figures.h"

#include <time.h>

#define KINDS "rdex_abcd|rdex|rdex_a|beests|beests2|wald"

/* ---- arguments of more than one command ----------------------------------------------------------- */

typedef struct study {
    const char *files;
    ss_read_options read;
    ss_reading reading;
} study;

/* Adds the keys that say how trials are read; returns the number of all. */
static size_t study_arguments(argument *list, size_t n, study *s)
{
    const argument own[] = {
        { "data", TEXT, &s->files, "FILE[,FILE...]: trials as CSV, one row each" },
        { "columns", TEXT, &s->read.columns, "what subject,stimulus,response,rt,ssd are called there" },
        { "unit", CHOICE, &s->read.milliseconds, "s|ms" },
        { "none", TEXT, &s->read.none, "CODE: one more word for no response (beside empty, NA, none)" },
        { "fastest", REAL, &s->read.fastest, "seconds: faster responses are dropped (0: 0.15; -1: none)" },
        { "step", WHOLE, &s->read.step_ms, "ms: delays must be multiples of it (0: 50)" },
        { "join", CHOICE, &s->read.join, "no|yes" },
    };
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) list[n++] = own[k];
    return n;
}

/* As arguments_read, of a command that does not sample. */
static int command_arguments(int argc, char **argv, const argument *list, size_t n)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "help") == 0) { arguments_usage(argv[0], list, n); return EXIT_SUCCESS; }
        if (!argument_read(argv[i], list, n)) return EXIT_USAGE;
    }
    return GO_ON;
}

static int wanted(const char *key)
{
    fprintf(stderr, "%s= is missing; help lists the keys\n", key);
    return EXIT_USAGE;
}

/* Prints what was left out: how many for each reason, and the first few. */
static void print_excluded(const ss_reading *r)
{
    for (int reason = 0; reason < SS_N_REASONS; reason++) {
        size_t n = 0;
        for (size_t i = 0; i < r->n_excluded; i++) {
            const ss_exclusion *e = &r->excluded[i];
            if ((int)e->reason != reason) continue;
            if (n++ == 3) printf("             and more; excluded=FILE lists all\n");
            if (n > 3) continue;
            if (n == 1) printf("left out     %s:\n", ss_reason_text(e->reason));
            printf("             %s, line %.0f", e->subject, (double)e->line);
            if (reason == SS_TOO_FAST) printf(": %.3f s\n", e->rt);
            else printf(": %.0f trials\n", (double)e->n_trials);
        }
        if (n > 0) printf("             %.0f in all\n", (double)n);
    }
}

static int write_excluded(const ss_reading *r, const char *path, gpumc_error *error)
{
    ss_writer w;
    if (!ss_writer_open(&w, path, error)) return 0;
    fprintf(w.file, "subject,file,line,trials,rt,reason\n");
    for (size_t i = 0; i < r->n_excluded; i++) {
        const ss_exclusion *e = &r->excluded[i];
        ss_put_field(w.file, e->subject);
        fprintf(w.file, ",%.0f,%.0f,%.0f,", (double)e->file + 1, (double)e->line, (double)e->n_trials);
        if (!isnan(e->rt)) fprintf(w.file, "%.6f", e->rt);
        fprintf(w.file, ",%s\n", ss_reason_text(e->reason));
    }
    return ss_writer_close(&w);
}

/* Reads the trials and says what they are. */
static int study_read(study *s, gpumc_error *error)
{
    const ss_data *d = &s->reading.data;
    size_t stops = 0, omissions = 0;
    if (!ss_read(s->files, &s->read, &s->reading, error)) return 0;
    for (size_t i = 0; i < d->n_trials; i++) {
        stops += d->trials[i].ssd_ms != SS_NONE;
        omissions += d->trials[i].ssd_ms == SS_NONE && d->trials[i].response == SS_NONE;
    }
    printf("data         %.0f trials of %.0f subjects read, %.0f of %.0f kept: %.0f go (%.0f omissions), "
           "%.0f stop\n", (double)s->reading.n_read, (double)s->reading.n_subjects_read, (double)d->n_trials,
           (double)d->n_subjects, (double)(d->n_trials - stops), (double)omissions, (double)stops);
    printf("             stimuli and responses \"%s\" and \"%s\"\n", s->reading.codes[0], s->reading.codes[1]);
    print_excluded(&s->reading);
    return 1;
}

/* ---- simulate ------------------------------------------------------------------------------------- */

/* What is wrong with a task, or NULL. */
static const char *task_wrong(const ss_task *t)
{
    if (t->runs < 1 || t->trials < 1 || t->runs > 1000 || t->trials > 100000) return "runs and trials";
    if (t->stops < 0 || 2 * t->stops - 1 > t->trials) return "stops (no two may be adjacent)";
    if (t->step_ms < 1 || t->start_ms < 0 || t->top_ms < t->start_ms) return "start, step and top";
    return NULL;
}

static int command_simulate(int argc, char **argv)
{
    ss_task task = ss_task_default();
    ss_group group = ss_group_default();
    ss_data d;
    const char *trials = NULL, *truth = NULL, *from = NULL;
    double truncation = SS_TRUNCATION, *theta;
    uint64_t seed = 1;
    int subjects = 100, model = SS_RDEX_ABCD, status, ok;
    gpumc_error error;
    const argument list[] = {
        { "trials", TEXT, &trials, "FILE: writes the trials there" },
        { "truth", TEXT, &truth, "FILE: writes what they were drawn from" },
        { "subjects", WHOLE, &subjects, "how many (100)" },
        { "model", CHOICE, &model, KINDS },
        { "group", TEXT, &from, "FILE: lines B=1.25, sd_B=0.2, effect_B=0.1 instead of typical values" },
        { "covariate", TEXT, &group.covariate, "NAME: of a column, to which the effects belong" },
        { "runs", WHOLE, &task.runs, "of the task (2)" },
        { "run_trials", WHOLE, &task.trials, "trials of a run (180)" },
        { "stops", WHOLE, &task.stops, "stop trials of a run (30)" },
        { "start", WHOLE, &task.start_ms, "ms: first delay (50)" },
        { "step", WHOLE, &task.step_ms, "ms: of the staircase (50)" },
        { "top", WHOLE, &task.top_ms, "ms: longest delay (900)" },
        { "carry", CHOICE, &task.carry, "no|yes" },
        { "truncation", REAL, &truncation, "seconds: the stop process ends later (0.05; -1: anywhere)" },
        { "seed", SEED, &seed, "of the random numbers (1)" },
    };
    status = command_arguments(argc, argv, list, sizeof list / sizeof *list);
    if (status != GO_ON) return status;
    if (!trials) return wanted("trials");
    if (task_wrong(&task)) { fprintf(stderr, "a task with these %s cannot be\n", task_wrong(&task)); return EXIT_USAGE; }
    if (subjects < 1 || subjects > 100000) { fprintf(stderr, "subjects must be 1 to 100000\n"); return EXIT_USAGE; }
    if (from && !ss_read_group(from, &group, &error)) return run_failed(error.text);
    theta = (double *)malloc((size_t)subjects * SS_N_PARAMETERS * sizeof *theta);
    if (!theta) return run_failed("out of memory");
    ok = ss_simulate((ss_kind)model, &group, &task, truncation < 0 ? -INFINITY : truncation, (size_t)subjects,
                     seed, &d, theta, &error);
    if (ok) {
        ok = ss_write_trials(&d, trials, &error);
        if (ok && truth)
            ok = ss_write_truth((ss_kind)model, &group, truncation < 0 ? -INFINITY : truncation, &d, theta, truth, &error);
        if (ok) printf("%.0f trials of %d subjects written to %s\n", (double)d.n_trials, subjects, trials);
        ss_data_free(&d);
    }
    free(theta);
    return ok ? EXIT_SUCCESS : run_failed(error.text);
}

/* ---- estimates of subjects ------------------------------------------------------------------------ */

/* Where a fit, fresh or read from a store, has the parameters of the subjects. */
typedef struct posterior {
    const gpumc_fit *fit;
    const ss_kind_info *kind;
    ss_kind number;
    size_t offset[SS_N_PARAMETERS], n_subjects;
    double truncation;
} posterior;

static const gpumc_block *find_block(const gpumc_fit *fit, const char *name)
{
    for (size_t b = 0; b < fit->n_blocks; b++)
        if (strcmp(fit->blocks[b].name, name) == 0) return &fit->blocks[b];
    return NULL;
}

static int posterior_make(posterior *p, const gpumc_fit *fit, size_t n_subjects, double truncation,
                          gpumc_error *error)
{
    int kind = 0;
    while (kind < SS_N_KINDS && strcmp(ss_kind_get((ss_kind)kind)->name, fit->model_name) != 0) kind++;
    if (kind == SS_N_KINDS)
        return ss_fail(error, GPUMC_ERROR_FORMAT, "the fit is of \"%.60s\", which is no stop-signal model",
                       fit->model_name);
    p->fit = fit;
    p->number = (ss_kind)kind;
    p->kind = ss_kind_get(p->number);
    p->n_subjects = n_subjects;
    p->truncation = truncation > 0 ? truncation : truncation < 0 || kind == SS_BEESTS || kind == SS_BEESTS2
                                                      ? -INFINITY : SS_TRUNCATION;
    for (int j = 0; j < p->kind->n; j++) {
        const char *name = ss_parameter_get(p->kind->parameters[j])->name;
        const gpumc_block *block = find_block(fit, name);
        if (!block || block->size != n_subjects)
            return ss_fail(error, GPUMC_ERROR_FORMAT, "%s of %.0f subjects in the fit, but %.0f in the data: were "
                           "they read with the same arguments?", name, block ? (double)block->size : 0,
                           (double)n_subjects);
        p->offset[p->kind->parameters[j]] = block->offset;
    }
    return 1;
}

static const double *posterior_draw(const posterior *p, size_t chain, size_t draw)
{
    return p->fit->draws + (chain * p->fit->draw_capacity + draw) * p->fit->n_columns;
}

/* The parameters of one subject in a draw, SS_N_PARAMETERS values; those that the model lacks are 0. */
static void posterior_theta(const posterior *p, const double *draw, size_t subject, double *theta)
{
    for (int k = 0; k < SS_N_PARAMETERS; k++) theta[k] = 0;
    for (int j = 0; j < p->kind->n; j++) {
        const int k = p->kind->parameters[j];
        theta[k] = draw[p->offset[k] + subject];
    }
}

/* The mean stop time of a subject in all draws; x holds n_chains n_draws. */
static gpumc_series posterior_ssrt(const posterior *p, size_t subject, double *x)
{
    const gpumc_series s = { x, p->fit->n_chains, p->fit->n_draws, 0, 0 };
    double theta[SS_N_PARAMETERS];
    for (size_t c = 0; c < p->fit->n_chains; c++)
        for (size_t i = 0; i < p->fit->n_draws; i++) {
            posterior_theta(p, posterior_draw(p, c, i), subject, theta);
            *x++ = ss_stop_mean(theta, p->truncation);
        }
    return s;
}

static double *posterior_work(const posterior *p)
{
    return (double *)malloc((p->fit->n_chains * p->fit->n_draws + 1) * sizeof(double));
}

static void put_interval(FILE *file, gpumc_series s)
{
    fprintf(file, ",%.6g,%.6g,%.6g,%.6g", gpumc_mean(s).value, gpumc_sd(s).value, gpumc_quantile(s, 0.05).value,
            gpumc_quantile(s, 0.95).value);
}

/* One row a subject: trials, SSRT, parameters, and the worst diagnostics among them. */
static int write_subjects(const posterior *p, const ss_data *d, const char *path, gpumc_error *error)
{
    double *work = posterior_work(p);
    ss_writer w;
    if (!work) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    if (!ss_writer_open(&w, path, error)) { free(work); return 0; }
    fprintf(w.file, "subject,trials,stop_trials");
    for (int j = p->number == SS_WALD ? 0 : -1; j < p->kind->n; j++) {
        const char *name = j < 0 ? "ssrt" : ss_parameter_get(p->kind->parameters[j])->name;
        fprintf(w.file, ",%s,%s_sd,%s_q5,%s_q95", name, name, name, name);
    }
    fprintf(w.file, ",worst_r_hat,least_ess\n");
    for (size_t i = 0, first = 0, end; i < d->n_subjects; i++, first = end) {
        size_t stops = 0;
        double r_hat = 0, ess = INFINITY;
        end = ss_subject_end(d, first);
        for (size_t t = first; t < end; t++) stops += d->trials[t].ssd_ms != SS_NONE;
        ss_put_field(w.file, d->subject_names[i]);
        fprintf(w.file, ",%.0f,%.0f", (double)(end - first), (double)stops);
        if (p->number != SS_WALD) put_interval(w.file, posterior_ssrt(p, i, work));
        for (int j = 0; j < p->kind->n; j++) {
            const size_t column = p->offset[p->kind->parameters[j]] + i;
            const gpumc_summary s = gpumc_summarise(p->fit, column);
            put_interval(w.file, gpumc_fit_series(p->fit, column));
            r_hat = fmax(r_hat, s.r_hat);
            ess = fmin(ess, fmin(s.ess_bulk, s.ess_tail));
        }
        fprintf(w.file, ",%.4f,%.0f\n", r_hat, ess);
    }
    free(work);
    return ss_writer_close(&w);
}

/* ---- fit ------------------------------------------------------------------------------------------ */

static int machine_threads(void)
{
    gpumc_team *team = gpumc_team_start(0, NULL);
    const int n = team ? gpumc_team_threads(team) : 1;
    gpumc_team_stop(team);
    return n;
}

/* Values that a draw of a model has. */
static size_t model_columns(const gpumc_model *model)
{
    size_t n = 0;
    for (size_t k = 0; k < model->n_params; k++) n += model->params[k].size ? model->params[k].size : 1;
    for (size_t k = 0; k < model->n_outputs; k++) n += model->outputs[k].size ? model->outputs[k].size : 1;
    return n;
}

/* Bytes of the draws and of their statistics. */
static double draw_bytes(const gpumc_model *model, int chains, int draws)
{
    return (double)chains * draws * (double)(model_columns(model) * sizeof(double) + sizeof(gpumc_draw_stats));
}

/* Chains as asked for, or 4; a thread for each as far as the cores go, and what is left over for the rows of
   each chain. */
static void plan_threads(gpumc_sample_options *o, int *team)
{
    const int cores = machine_threads();
    if (o->num_chains == 0) o->num_chains = 4;
    if (o->num_samples == 0) o->num_samples = 1000;
    if (o->threads == 0) o->threads = cores < o->num_chains ? cores : o->num_chains;
    *team = cores / o->num_chains;
    printf("plan         %d chains, %d threads of %d cores", o->num_chains, o->threads, cores);
    if (*team > 1) printf(": %d more share the rows of each chain, where it has 10,000\n", *team - 1);
    else if (o->threads < o->num_chains) printf(": chains take turns, as there are fewer cores than chains\n");
    else printf(": one a chain\n");
    if (*team < 1) *team = 1;
}

/* The worst of all columns. */
static void print_worst(const gpumc_fit *fit)
{
    double r_hat = 0, ess = INFINITY;
    size_t at_r_hat = 0, at_ess = 0;
    char worst[64], least[64];
    for (size_t k = 0; k < fit->n_columns; k++) {
        const gpumc_summary s = gpumc_summarise(fit, k);
        const double e = fmin(s.ess_bulk, s.ess_tail);
        if (s.r_hat > r_hat) { r_hat = s.r_hat; at_r_hat = k; }
        if (e < ess) { ess = e; at_ess = k; }
    }
    gpumc_column_name(fit, at_r_hat, worst, sizeof worst);
    gpumc_column_name(fit, at_ess, least, sizeof least);
    printf("all %.0f quantities: largest r_hat %.4f (%s), smallest ess %.0f (%s), %.0f divergences\n",
           (double)fit->n_columns, r_hat, worst, ess, least, (double)fit->n_divergent);
}

/* Population parameters, then the subjects' mean stop times, then what to worry about. */
static int print_fit(const posterior *p)
{
    const gpumc_fit *fit = p->fit;
    double *work = posterior_work(p), *total = posterior_work(p);
    if (!work || !total) { free(work); free(total); return run_failed("out of memory"); }
    printf("%-12s %10s %9s %9s %9s %9s %9s %9s %7s\n", "population", "mean", "sd", "q5", "q50", "q95", "ess_bulk",
           "ess_tail", "r_hat");
    for (size_t b = 0; b < fit->n_blocks; b++)
        for (size_t k = 0; k < fit->blocks[b].size && fit->blocks[b].size < p->n_subjects; k++) {
            const gpumc_summary s = gpumc_summarise(fit, fit->blocks[b].offset + k);
            char name[64];
            gpumc_column_name(fit, fit->blocks[b].offset + k, name, sizeof name);
            printf("%-12s %10.4f %9.4f %9.4f %9.4f %9.4f %9.0f %9.0f %7.4f\n", name, s.mean, s.sd, s.q5, s.q50,
                   s.q95, s.ess_bulk, s.ess_tail, s.r_hat);
        }
    if (p->number != SS_WALD) {
        const size_t n = fit->n_chains * fit->n_draws;
        gpumc_series s = { total, fit->n_chains, fit->n_draws, 0, 0 };
        for (size_t i = 0; i < n; i++) total[i] = 0;
        for (size_t i = 0; i < p->n_subjects; i++) {
            posterior_ssrt(p, i, work);
            for (size_t t = 0; t < n; t++) total[t] += work[t] / (double)p->n_subjects;
        }
        printf("SSRT, mean of these subjects: %.4f s (90 %% interval %.4f to %.4f)\n", gpumc_mean(s).value,
               gpumc_quantile(s, 0.05).value, gpumc_quantile(s, 0.95).value);
    }
    free(work);
    free(total);
    print_worst(fit);
    for (size_t k = 0; k < fit->n_warnings; k++) printf("%s\n", fit->warnings[k].text);
    return EXIT_SUCCESS;
}

/* The columns that covariates=age:B,age:v_plus needs, as age. */
static void covariate_columns(const char *pairs, char *columns, size_t size)
{
    size_t used = 0, length;
    columns[0] = '\0';
    for (; pairs && *pairs; pairs += length + (pairs[length] == ',')) {
        const size_t name = strcspn(pairs, ":,");
        char one[80];
        length = strcspn(pairs, ",");
        if (snprintf(one, sizeof one, "%.*s", (int)name, pairs) >= (int)sizeof one) continue;
        for (const char *at = columns; (at = strstr(at, one)) != NULL; at++)
            if ((at == columns || at[-1] == ',') && (at[name] == ',' || at[name] == '\0')) break;
        if (used == 0 || !strstr(columns, one))
            used += (size_t)snprintf(columns + used, used < size ? size - used : 0, "%s%s", used ? "," : "", one);
    }
}

typedef struct fit_command {
    run r;
    study study;
    ss_model_options model;
    int kind, centring, pooled, progress;
    const char *table, *excluded;
    char covariates[256];
} fit_command;

static int fit_arguments(fit_command *f, int argc, char **argv)
{
    argument list[24] = {
        { "model", CHOICE, &f->kind, KINDS },
        { "scales", CHOICE, &f->pooled, "each|pooled" },
        { "truncation", REAL, &f->model.truncation, "seconds: the stop process ends later (0: 0.05; -1: anywhere)" },
        { "covariates", TEXT, &f->model.covariates, "COLUMN:PARAMETER,...: age:B,age:v_plus" },
        { "centring", CHOICE, &f->centring, "learned|centred|noncentred" },
        { "table", TEXT, &f->table, "FILE: writes a row for each subject, with SSRT, as CSV" },
        { "excluded", TEXT, &f->excluded, "FILE: writes what was left out as CSV" },
        { "progress", CHOICE, &f->progress, "yes|no" },
    };
    const size_t n = study_arguments(list, 8, &f->study);
    const int status = arguments_read(argc, argv, &f->r, list, n);
    if (status != GO_ON) return status;
    if (!f->study.files) return wanted("data");
    f->model.kind = (ss_kind)f->kind;
    f->model.pooled_scales = f->pooled;
    f->model.centring = (gpumc_centring)f->centring;
    covariate_columns(f->model.covariates, f->covariates, sizeof f->covariates);
    f->study.read.covariates = f->covariates;
    if (f->progress == 0) f->r.options.progress_stream = stderr;
    return GO_ON;
}

/* Names and labels by which the store can be read without the data. */
static void store_options(gpumc_store_options *o, gpumc_dimension *dimensions, const ss_model *m)
{
    size_t n = 0;
    for (int j = 0; j < m->kind->n; j++) {
        dimensions[n].block = ss_parameter_get(m->kind->parameters[j])->name;
        dimensions[n].name = "subject";
        dimensions[n++].labels = (const char *const *)m->data->subject_names;
    }
    memset(o, 0, sizeof *o);
    o->dimensions = dimensions;
    o->n_dimensions = n;
}

/* Samples and gives out the results. */
static int fit_model(fit_command *f, const ss_model *m)
{
    const ss_data *d = &f->study.reading.data;
    gpumc_dimension dimensions[SS_N_PARAMETERS];
    gpumc_store_options store;
    gpumc_error error;
    gpumc_fit fit;
    posterior p;
    int status = EXIT_FAILURE;
    memset(dimensions, 0, sizeof dimensions);
    store_options(&store, dimensions, m);
    f->r.store = &store;
    if (run_sample(&f->r, ss_model_get(m), &fit) != GPUMC_OK) status = run_ended(&fit);
    else if (!posterior_make(&p, &fit, d->n_subjects, f->model.truncation, &error)) status = run_failed(error.text);
    else if (print_fit(&p) == EXIT_SUCCESS && run_write(&f->r, &fit) == EXIT_SUCCESS) {
        if (f->table && !write_subjects(&p, d, f->table, &error)) status = run_failed(error.text);
        else {
            status = EXIT_SUCCESS;
            printf("gradients=%.0f divergences=%.0f warmup_s=%.1f sampling_s=%.1f\n",
                   (double)(fit.warmup_gradients + fit.sampling_gradients), (double)fit.n_divergent,
                   fit.warmup_seconds, fit.sampling_seconds);
            run_forget(&f->r);
        }
    }
    gpumc_free(&fit);
    return status;
}

static int command_fit(int argc, char **argv)
{
    fit_command f;
    ss_model *m;
    gpumc_error error;
    int status;
    memset(&f, 0, sizeof f);
    status = fit_arguments(&f, argc, argv);
    if (status != GO_ON) return status;
    if (!study_read(&f.study, &error)) return run_failed(error.text);
    if (f.excluded && !write_excluded(&f.study.reading, f.excluded, &error)) status = run_failed(error.text);
    plan_threads(&f.r.options, &f.model.team);
    f.model.threads = f.r.options.threads;
    m = status == GO_ON ? ss_model_create(&f.study.reading.data, &f.model, &error) : NULL;
    if (!m && status == GO_ON) status = run_failed(error.text);
    if (m) {
        const gpumc_model *model = ss_model_get(m);
        const double each = draw_bytes(model, f.r.options.num_chains, f.r.options.num_samples);
        printf("model        %s, %d parameters a subject, %.0f values a draw\n", m->kind->name, m->kind->n,
               (double)model_columns(model));
        printf("memory       %.0f MB for %d draws of %d chains\n", 1e-6 * each, f.r.options.num_samples,
               f.r.options.num_chains);
        fflush(stdout);
        status = fit_model(&f, m);
    }
    ss_model_free(m);
    ss_reading_free(&f.study.reading);
    return status;
}

/* ---- commands ------------------------------------------------------------------------------------- */

static const struct { const char *name, *purpose; int (*run)(int argc, char **argv); } commands[] = {
    { "simulate", "draws subjects and their trials, and writes both as CSV", command_simulate },
    { "fit", "reads trials, samples from the posterior, writes the results", command_fit },
};

int main(int argc, char **argv)
{
    const size_t n = sizeof commands / sizeof *commands;
    for (size_t k = 0; k < n && argc > 1; k++)
        if (strcmp(argv[1], commands[k].name) == 0) return commands[k].run(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "help") != 0) fprintf(stderr, "%s: unknown command\n", argv[1]);
    printf("usage: stop_signal COMMAND [key=value ...]\n");
    for (size_t k = 0; k < n; k++) printf("  %-9s %s\n", commands[k].name, commands[k].purpose);
    printf("stop_signal COMMAND help lists the keys of a command; stop_signal.md is the guide\n");
    return argc > 1 && strcmp(argv[1], "help") == 0 ? EXIT_SUCCESS : EXIT_USAGE;
}
