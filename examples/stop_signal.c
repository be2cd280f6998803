/* stop_signal.c: hierarchical models of the stop-signal task, from trials to a report.

   RDEX-ABCD (Weigard, Matzke, Tanis & Heathcote 2023): racing diffusions choose left or right, an ex-Gaussian
   stop process races against them, and the stop signal cuts the stimulus short. Eleven parameters a subject,
   subjects from a population. The likelihood is exact; the stop integral takes 48 nodes. The guide is
   stop_signal.md: model, data format, a worked example, how to read the checks.

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

#define STOP_TRUNCATION "seconds: the stop process ends later (0: 0.05, of beests anywhere; -1: anywhere)"
#define KINDS "rdex_abcd|rdex|rdex_a|beests|beests2|beests_nofail|beests2_nofail|wald"

/* ---- arguments of more than one command ----------------------------------------------------------- */

typedef struct study {
    const char *files;
    ss_read_options read;
    ss_reading reading;
} study;

/* Appends the keys that say how trials are read; returns the total number of keys. */
static size_t study_arguments(argument *list, size_t n, study *s)
{
    const argument own[] = {
        { "data", TEXT, &s->files, "FILE[,FILE...]: trials as CSV, one row each" },
        { "columns", TEXT, &s->read.columns, "what subject,stimulus,response,rt,ssd are called there" },
        { "unit", CHOICE, &s->read.milliseconds, "s|ms" },
        { "none", TEXT, &s->read.none, "CODE: one more word for no response (beside empty, NA, none)" },
        { "fastest", REAL, &s->read.fastest, "seconds: faster responses are dropped (0: 0.15; -1: none)" },
        { "deadline", REAL, &s->read.deadline, "seconds: later responses count as none (0: all count)" },
        { "step", WHOLE, &s->read.step_ms, "ms: delays must be multiples of it (0: 50)" },
        { "join", CHOICE, &s->read.join, "no|yes" },
        { "go_only", CHOICE, &s->read.keep_go_only, "drop|keep" },
    };
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) list[n++] = own[k];
    return n;
}

/* As arguments_read, for a command that does not sample. */
static int command_arguments(int argc, char **argv, const argument *list, size_t n)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "help") == 0) { arguments_usage(argv[0], list, n); return EXIT_SUCCESS; }
        if (!argument_read(argv[i], list, n)) return EXIT_USAGE;
    }
    return arguments_clash(list, n) ? EXIT_FAILURE : GO_ON;
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

/* Reads the trials and prints what was read. */
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
    printf("             stimuli and responses \"%s\" and \"%s\"\n", s->reading.codes[0],
           s->reading.codes[1]);
    if (s->reading.n_late > 0)
        printf("             %.0f responses after the deadline of %g s count as none\n",
               (double)s->reading.n_late, s->read.deadline);
    print_excluded(&s->reading);
    return 1;
}

/* ---- simulate ------------------------------------------------------------------------------------- */

/* What is wrong with a task, or NULL. */
static const char *task_wrong(const ss_task *t)
{
    if (t->runs < 1 || t->trials < 1 || t->runs > 1000 || t->trials > 100000) return "runs and trials";
    if (t->stops < 0 || t->stops > (t->trials + 1) / 2) return "stops (no two may be adjacent)";
    if (t->step_ms < 1 || t->start_ms < 0 || t->top_ms < t->start_ms || t->step_ms > 1000000
        || t->top_ms > 1000000) return "start, step and top";
    if (!(t->deadline >= 0)) return "deadline";
    return NULL;
}

typedef struct simulate_command {
    const char *trials, *truth, *group_file;
    ss_task task;
    ss_group group;
    double truncation;
    uint64_t seed;
    int subjects, kind;
} simulate_command;

/* The truncation in seconds that the argument `given` means: 0 leaves it to the model, below 0 is none
   (-infinity). */
static double stop_truncation(ss_kind kind, double given)
{
    return given > 0 ? given : given < 0 || ss_ex_gaussians(kind) > 0 ? -INFINITY : SS_TRUNCATION;
}

/* Draws the subjects and writes the files. */
static int simulate_files(const simulate_command *c, gpumc_error *error)
{
    const ss_kind kind = (ss_kind)c->kind;
    const double truncation = stop_truncation(kind, c->truncation);
    const size_t n = (size_t)c->subjects;
    double *theta = (double *)malloc(n * SS_N_PARAMETERS * sizeof *theta);
    ss_data d;
    int ok = theta != NULL || ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    if (ok) ok = ss_simulate(kind, &c->group, &c->task, truncation, n, c->seed, &d, theta, error);
    if (ok) {
        ok = ss_write_trials(&d, c->trials, error);
        if (ok && c->truth) ok = ss_write_truth(kind, &c->group, truncation, &d, theta, c->truth, error);
        if (ok)
            printf("%.0f trials of %d subjects written to %s\n", (double)d.n_trials, c->subjects, c->trials);
        ss_data_free(&d);
    }
    free(theta);
    return ok;
}

static int command_simulate(int argc, char **argv)
{
    simulate_command c = { NULL, NULL, NULL, ss_task_default(), ss_group_default(), 0, 1, 100,
                           SS_RDEX_ABCD };
    gpumc_error error;
    const argument list[] = {
        { "trials", TEXT, &c.trials, "FILE: writes the trials there" },
        { "truth", TEXT, &c.truth, "FILE: writes what they were drawn from" },
        { "subjects", WHOLE, &c.subjects, "how many (100)" },
        { "model", CHOICE, &c.kind, KINDS },
        { "group", TEXT, &c.group_file, "FILE: lines such as B=1.25, sd_B=0.2, effect_B=0.1 (typical)" },
        { "covariate", TEXT, &c.group.covariate, "NAME: of a column, to which the effects belong" },
        { "runs", WHOLE, &c.task.runs, "of the task (2)" },
        { "run_trials", WHOLE, &c.task.trials, "trials of a run (180)" },
        { "stops", WHOLE, &c.task.stops, "stop trials of a run (30)" },
        { "start", WHOLE, &c.task.start_ms, "ms: first delay (50)" },
        { "step", WHOLE, &c.task.step_ms, "ms: of the staircase (50)" },
        { "top", WHOLE, &c.task.top_ms, "ms: longest delay (900)" },
        { "carry", CHOICE, &c.task.carry, "no|yes" },
        { "truncation", REAL, &c.truncation, STOP_TRUNCATION },
        { "deadline", REAL, &c.task.deadline, "seconds: later responses count as none (0: all count)" },
        { "seed", SEED, &c.seed, "of the random numbers (1)" },
    };
    const int status = command_arguments(argc, argv, list, sizeof list / sizeof *list);
    if (status != GO_ON) return status;
    if (!c.trials) return wanted("trials");
    if (task_wrong(&c.task)) {
        fprintf(stderr, "a task with these %s cannot be\n", task_wrong(&c.task));
        return EXIT_USAGE;
    }
    if (c.subjects < 1 || c.subjects > 100000) {
        fprintf(stderr, "subjects must be 1 to 100000\n");
        return EXIT_USAGE;
    }
    if (c.group_file && !ss_read_group(c.group_file, &c.group, &error)) return run_failed(error.text);
    for (int k = 0; k < SS_N_PARAMETERS && !c.group.covariate; k++)
        if (c.group.effect[k] != 0) {
            fprintf(stderr, "effect_%s needs covariate=NAME, the column that has this effect\n",
                    ss_parameter_get(k)->name);
            return EXIT_USAGE;
        }
    return simulate_files(&c, &error) ? EXIT_SUCCESS : run_failed(error.text);
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
    p->truncation = stop_truncation(p->number, truncation);
    for (int j = 0; j < p->kind->n; j++) {
        const char *name = ss_parameter_get(p->kind->parameters[j])->name;
        const gpumc_block *block = find_block(fit, name);
        if (!block || block->size != n_subjects)
            return ss_fail(error, GPUMC_ERROR_FORMAT, "%s of %.0f subjects in the fit, but %.0f in the data: "
                           "were they read with the same arguments?", name, block ? (double)block->size : 0,
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

/* The mean stop time of a subject in all draws; x has room for n_chains * n_draws values. */
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
    fprintf(file, ",%.6g,%.6g,%.6g,%.6g", gpumc_mean(s).value, gpumc_sd(s).value,
            gpumc_quantile(s, 0.05).value, gpumc_quantile(s, 0.95).value);
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

/* The number of values in a draw of the model. */
static size_t model_columns(const gpumc_model *model)
{ return gpumc_model_n_values(model) + gpumc_model_n_outputs(model); }

/* Bytes of the draws and of their statistics. */
static double draw_bytes(const gpumc_model *model, int chains, int draws)
{
    return (double)chains * draws
           * (double)(model_columns(model) * sizeof(double) + sizeof(gpumc_draw_stats));
}

/* Resolves the number of chains (4 unless given) and of threads: one a chain as far as the cores go; cores left
   over share the rows of each chain (team). */
static void plan_threads(gpumc_sample_options *o, int *team)
{
    const int cores = o->threads > 0 ? o->threads : machine_threads();
    if (o->num_chains == 0) o->num_chains = 4;
    if (o->num_samples == 0) o->num_samples = 1500;
    o->threads = cores < o->num_chains ? cores : o->num_chains;
    *team = cores / (o->num_chains > 0 ? o->num_chains : 1);
    printf("plan         %d chains, %d threads of %d cores", o->num_chains, o->threads, cores);
    if (*team > 1) printf(": %d more share the rows of each chain, if these are many\n", *team - 1);
    else if (o->threads < o->num_chains)
        printf(": chains take turns, as there are fewer cores than chains\n");
    else printf(": one a chain\n");
    if (*team < 1) *team = 1;
}

/* Prints the worst diagnostics of all columns. */
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

/* Whether a block is of the population: smaller than those of subjects or, if there is one subject, by its
   name. */
static int is_of_population(const gpumc_block *b, const posterior *p)
{
    return b->size < p->n_subjects || (p->n_subjects == 1 && strchr("msb", b->name[0]) && b->name[1] == '_');
}

/* Prints the population parameters, the mean of the subjects' SSRT, the worst diagnostics and the warnings. */
static int print_fit(const posterior *p)
{
    const gpumc_fit *fit = p->fit;
    double *work = posterior_work(p), *total = posterior_work(p);
    if (!work || !total) { free(work); free(total); return run_failed("out of memory"); }
    printf("%-12s %10s %9s %9s %9s %9s %9s %9s %7s\n", "population", "mean", "sd", "q5", "q50", "q95",
           "ess_bulk", "ess_tail", "r_hat");
    for (size_t b = 0; b < fit->n_blocks; b++)
        for (size_t k = 0; k < fit->blocks[b].size && is_of_population(&fit->blocks[b], p); k++) {
            const gpumc_summary s = gpumc_summarise(fit, fit->blocks[b].offset + k);
            char name[64];
            gpumc_column_name(fit, fit->blocks[b].offset + k, name, sizeof name);
            printf("%-12s %10.4f %9.4f %9.4f %9.4f %9.4f %9.0f %9.0f %7.4f\n", name, s.mean, s.sd, s.q5,
                   s.q50, s.q95, s.ess_bulk, s.ess_tail, s.r_hat);
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

/* The columns that covariates=age:B,age:v_plus needs: age,age. */
static void covariate_columns(const char *pairs, char *columns, size_t size)
{
    size_t used = 0;
    columns[0] = '\0';
    while (pairs && *pairs && used < size) {
        const int length = (int)strcspn(pairs, ":,");
        const char *same = columns;                       /* a column for several parameters is read once */
        while (*same && (strncmp(same, pairs, (size_t)length) != 0 || (same[length] && same[length] != ','))) {
            same += strcspn(same, ",");
            same += *same == ',';
        }
        if (!*same)
            used += (size_t)snprintf(columns + used, size - used, "%s%.*s", used ? "," : "", length, pairs);
        pairs += strcspn(pairs, ",");
        pairs += *pairs == ',';
    }
}

typedef struct fit_command {
    run r;
    study study;
    ss_model_options model;
    int kind, form, centring, pooled, progress, chain, place;
    const char *table, *excluded;
    char covariates[256];
} fit_command;

static int fit_arguments(fit_command *f, int argc, char **argv)
{
    argument list[24] = {
        { "model", CHOICE, &f->kind, KINDS },
        { "form", CHOICE, &f->form, "u|t|legacy|beests" },
        { "scales", CHOICE, &f->pooled, "each|pooled" },
        { "truncation", REAL, &f->model.truncation, STOP_TRUNCATION },
        { "covariates", TEXT, &f->model.covariates, "COLUMN:PARAMETER,...: age:B,age:v_plus" },
        { "centring", CHOICE, &f->centring, "learned|centred|noncentred" },
        { "table", TEXT, &f->table, "FILE: writes a row for each subject, with SSRT, as CSV" },
        { "excluded", TEXT, &f->excluded, "FILE: writes what was left out as CSV" },
        { "chain", WHOLE, &f->chain, "number of the first chain, for jobs of one chain each (0)" },
        { "progress", CHOICE, &f->progress, "yes|no" },
        { "place", CHOICE, &f->place, "any|cpu|gpu" },
    };
    const size_t n = study_arguments(list, 11, &f->study);
    const int status = arguments_read(argc, argv, &f->r, list, n);
    if (status != GO_ON) return status;
    if (!f->study.files) return wanted("data");
    if (f->chain < 0) { fprintf(stderr, "chain must be 0 or more\n"); return EXIT_USAGE; }
    f->r.options.first_chain_id = (uint32_t)f->chain;
    f->model.kind = (ss_kind)f->kind;
    f->model.deadline = f->study.read.deadline;
    f->model.form = (ss_form)f->form;
    f->model.pooled_scales = f->pooled;
    f->model.centring = (gpumc_centring)f->centring;
    f->model.place = (gpumc_place)f->place;
    covariate_columns(f->model.covariates, f->covariates, sizeof f->covariates);
    f->study.read.covariates = f->covariates;
    if (f->progress == 0) f->r.options.progress_stream = stderr;
    return GO_ON;
}

/* Prints and writes the results of sampling, by this program or by others (merge). Returns an exit status. */
static int give_out(const gpumc_fit *fit, const ss_data *d, double truncation, run *r, const char *table)
{
    gpumc_dimension dimensions[SS_N_PARAMETERS];
    gpumc_store_options store;
    gpumc_error error;
    posterior p;
    if (!posterior_make(&p, fit, d->n_subjects, truncation, &error)) return run_failed(error.text);
    memset(&store, 0, sizeof store);
    memset(dimensions, 0, sizeof dimensions);
    for (int j = 0; j < p.kind->n; j++) {
        dimensions[j].block = ss_parameter_get(p.kind->parameters[j])->name;
        dimensions[j].name = "subject";
        dimensions[j].labels = (const char *const *)d->subject_names;
    }
    store.dimensions = dimensions;
    store.n_dimensions = d->n_subjects > 1 ? (size_t)p.kind->n : 0;       /* with one subject they are scalars */
    r->store = &store;
    int written = run_write(r, fit);           /* before printing, whose reader may quit early, as head does */
    if (table && !write_subjects(&p, d, table, &error)) written = run_failed(error.text);
    return print_fit(&p) == EXIT_SUCCESS ? written : EXIT_FAILURE;
}

/* Samples, prints and writes the results. */
static int fit_model(fit_command *f, const ss_model *m)
{
    gpumc_fit fit;
    int status;
    if (run_sample(&f->r, ss_model_get(m), &fit) != GPUMC_OK) status = run_ended(&fit);
    else {
        status = give_out(&fit, &f->study.reading.data, f->model.truncation, &f->r, f->table);
        if (status == EXIT_SUCCESS) {
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
    ss_sampling(f.study.reading.data.n_subjects, &f.r.options);
    f.model.threads = f.r.options.threads;
    m = status == GO_ON ? ss_model_create(&f.study.reading.data, &f.model, &error) : NULL;
    if (!m && status == GO_ON) status = run_failed(error.text);
    if (m) {
        const gpumc_model *model = ss_model_get(m);
        const double each = draw_bytes(model, f.r.options.num_chains, f.r.options.num_samples);
        printf("model        %s, %d parameters a subject, %.0f values a draw\n", m->kind->name, m->kind->n,
               (double)model_columns(model));
#if defined(GPUMC_CUDA)
        printf("rows         on the %s\n", gpumc_hier_where(m->hier));
#endif
        printf("memory       %.0f MB for %d draws of %d chains\n", 1e-6 * each, f.r.options.num_samples,
               f.r.options.num_chains);
        fflush(stdout);
        status = fit_model(&f, m);
    }
    ss_model_free(m);
    ss_reading_free(&f.study.reading);
    return status;
}

/* ---- check ---------------------------------------------------------------------------------------- */

enum { MOST_STORES = 64 };

/* The next character of a text known to be UTF-8; 0 at the end. */
static uint32_t next_character(const char **text)
{
    const unsigned char *s = (const unsigned char *)*text;
    const int more = *s < 0xc0 ? 0 : *s < 0xe0 ? 1 : *s < 0xf0 ? 2 : 3;
    uint32_t c = more ? *s & (0x3fu >> more) : *s;
    for (int i = 1; i <= more; i++) c = c << 6 | (s[i] & 0x3fu);
    *text += *s ? 1 + more : 0;
    return c;
}

/* Whether the subject names in a store, little-endian UTF-32 of one width, are those of the data in the same
   order; a different number of them is reported elsewhere. */
static int same_subjects(const char *store, const ss_data *d, gpumc_error *error)
{
    char path[4096];
    unsigned char c[4];
    long bytes;
    int same = 1;
    snprintf(path, sizeof path, "%.4000s/posterior/subject/0", store);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        if (file) fclose(file);
        return ss_fail(error, GPUMC_ERROR_FILE, "%.200s: the names of the subjects cannot be read", path);
    }
    const size_t width = (size_t)bytes / 4 / d->n_subjects;
    for (size_t i = 0; i < d->n_subjects && same && width * 4 * d->n_subjects == (size_t)bytes; i++) {
        const char *name = d->subject_names[i];
        for (size_t k = 0; k < width && same; k++)
            same = fread(c, 1, 4, file) == 4
                && ((uint32_t)c[0] | (uint32_t)c[1] << 8 | (uint32_t)c[2] << 16) == next_character(&name);
        same &= *name == '\0';
        if (!same)
            ss_fail(error, GPUMC_ERROR_FORMAT, "subject %.0f is \"%.60s\" in the data, and another in %.100s: give "
                    "the data of the fit, read with the same arguments", (double)i + 1, d->subject_names[i], store);
    }
    fclose(file);
    return same;
}

/* Reads stores, separated by commas, into one fit; d: the data that they were fitted to, or NULL. */
static int read_fit(const char *paths, const ss_data *d, gpumc_fit *fit, gpumc_error *error)
{
    int known = 1;
    const char *list[MOST_STORES];
    size_t n = 0, length = strlen(paths);
    char *text = (char *)malloc(length + 1);
    gpumc_status status;
    memset(fit, 0, sizeof *fit);
    if (!text) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    memcpy(text, paths, length + 1);
    char *at = strtok(text, ",");
    for (; at && n < MOST_STORES; at = strtok(NULL, ",")) list[n++] = at;
    status = at ? GPUMC_ERROR_ARGUMENT : gpumc_merge(list, n, NULL, fit);
    if (at) snprintf(fit->message, sizeof fit->message, "more than %d stores", MOST_STORES);
    if (status == GPUMC_OK && fit->message[0]) fprintf(stderr, "%s\n", fit->message);
    if (status == GPUMC_OK && d && d->n_subjects > 1) known = same_subjects(list[0], d, error);
    free(text);
    return status == GPUMC_OK ? known : ss_fail(error, status, "%s", fit->message);
}

/* Draws for the predictions: evenly spaced over all chains. */
typedef struct predictions { const posterior *p; size_t n; } predictions;

static void predictions_draw(size_t draw, double *theta, void *user)
{
    const predictions *s = (const predictions *)user;
    const size_t n = s->p->fit->n_draws, at = draw * (s->p->fit->n_chains * n) / s->n;
    for (size_t i = 0; i < s->p->n_subjects; i++)
        posterior_theta(s->p, posterior_draw(s->p, at / n, at % n), i, theta + i * SS_N_PARAMETERS);
}

static const double *truth_value(const ss_truth *truth, const char *name, const char *subject)
{
    for (size_t i = 0; i < truth->n; i++)
        if (strcmp(truth->rows[i].name, name) == 0 && strcmp(truth->rows[i].subject, subject) == 0)
            return &truth->rows[i].value;
    return NULL;
}

static ss_estimate estimate(gpumc_series s, double truth)
{
    const ss_estimate e = { truth, gpumc_quantile(s, 0.05).value, gpumc_quantile(s, 0.5).value,
                            gpumc_quantile(s, 0.95).value };
    return e;
}

static double correlation(const ss_estimate *list, size_t n)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        mx += list[i].truth / (double)n;
        my += list[i].median / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double x = list[i].truth - mx, y = list[i].median - my;
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : (double)NAN;
}

/* Prints how well a parameter of the subjects (-1: SSRT) was recovered, and plots it. Adds to totals. */
static void recover_parameter(const posterior *p, const ss_data *d, const ss_truth *truth, int parameter,
                              ss_estimate *list, double *work, FILE *page, size_t totals[2])
{
    const char *name = parameter < 0 ? "ssrt" : ss_parameter_get(parameter)->name;
    size_t n = 0, held = 0;
    double error = 0, square = 0;
    for (size_t i = 0; i < d->n_subjects; i++) {
        const double *value = truth_value(truth, name, d->subject_names[i]);
        if (!value) continue;
        list[n] = estimate(parameter < 0 ? posterior_ssrt(p, i, work)
                                         : gpumc_fit_series(p->fit, p->offset[parameter] + i), *value);
        held += list[n].low <= *value && *value <= list[n].high;
        error += list[n].median - *value;
        square += (list[n].median - *value) * (list[n].median - *value);
        n++;
    }
    if (n == 0) return;
    printf("%-10s %8.0f %5.0f %5.1f%% %12.3f %10.4f %10.4f\n", name, (double)n, (double)held,
           100 * (double)held / (double)n, correlation(list, n), error / (double)n, sqrt(square / (double)n));
    if (page) ss_scatter_panel(page, name, "true value; estimate with 90 % interval above it", list, n);
    totals[0] += held;
    totals[1] += n;
}

/* Whether m_NAME or s_NAME is on the scale of a logarithm or probit, as the truth is, which depends on the
   form. sigma and tau may be sampled as a rotated pair, without blocks log_..., and have the scale of mu. */
static int on_scale_of_truth(const gpumc_fit *fit, const char *parameter)
{
    const char *name = parameter + 2;
    char logarithm[64], probit[64];
    if (strcmp(name, "sigma") == 0 || strcmp(name, "tau") == 0) name = "mu";
    snprintf(logarithm, sizeof logarithm, "log_%s", name);
    snprintf(probit, sizeof probit, "probit_%s", name);
    return find_block(fit, logarithm) || find_block(fit, probit);
}

/* Prints population parameters beside the truth. */
static void recover_population(const gpumc_fit *fit, const ss_truth *truth)
{
    size_t n = 0, held = 0;
    for (size_t b = 0; b < fit->n_blocks; b++) {
        const double *value = fit->blocks[b].size == 1 ? truth_value(truth, fit->blocks[b].name, "") : NULL;
        ss_estimate e;
        if (!value || !on_scale_of_truth(fit, fit->blocks[b].name)) continue;
        if (n++ == 0) printf("%-10s %8s %10s %10s %10s\n", "population", "truth", "q5", "q50", "q95");
        e = estimate(gpumc_fit_series(fit, fit->blocks[b].offset), *value);
        held += e.low <= *value && *value <= e.high;
        printf("%-10s %8.4f %10.4f %10.4f %10.4f%s\n", fit->blocks[b].name, *value, e.low, e.median, e.high,
               e.low <= *value && *value <= e.high ? "" : " *");
    }
    if (n > 0)
        printf("%.0f of %.0f population parameters lie within their 90 %% intervals\n", (double)held,
               (double)n);
}

static int recover(const posterior *p, const ss_data *d, const char *path, FILE *page, gpumc_error *error)
{
    ss_truth truth;
    ss_estimate *list = (ss_estimate *)malloc(d->n_subjects * sizeof *list);
    double *work = posterior_work(p);
    size_t totals[2] = { 0, 0 };
    int ok = ss_read_truth(path, &truth, error);
    if (ok && (!list || !work)) ok = ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    if (ok) {
        recover_population(p->fit, &truth);
        printf("%-10s %8s %5s %6s %12s %10s %10s\n", "subjects", "n", "held", "", "correlation", "mean error",
               "rms error");
        if (page)
            fprintf(page, "<h2>Estimates beside the truth</h2>\n<p>Orange: the 90 %% interval misses.</p>\n");
        for (int j = p->number == SS_WALD ? 0 : -1; j < p->kind->n; j++)
            recover_parameter(p, d, &truth, j < 0 ? -1 : p->kind->parameters[j], list, work, page, totals);
        if (totals[1] > 0)
            printf("%.0f of %.0f 90 %% intervals hold the truth: %.1f %%\n", (double)totals[0],
                   (double)totals[1], 100 * (double)totals[0] / (double)totals[1]);
        else ok = ss_fail(error, GPUMC_ERROR_FORMAT, "%.100s: no subject of the data is in it", path);
    }
    ss_truth_free(&truth);
    free(list);
    free(work);
    return ok;
}

typedef struct check_command {
    study study;
    ss_task task;
    const char *fit, *truth, *page;
    double truncation;
    uint64_t seed;
    int draws;
} check_command;

/* Prints tables to stdout, and figures to the page if there is one. */
static int check_fit(const check_command *k, const gpumc_fit *fit, gpumc_error *error)
{
    const ss_data *d = &k->study.reading.data;
    posterior p;
    predictions source;
    ss_check check;
    ss_writer w;
    int ok;
    if (!posterior_make(&p, fit, d->n_subjects, k->truncation, error)) return 0;
    source.p = &p;
    source.n = (size_t)k->draws;
    ok = ss_check_run(&check, d, p.number, p.truncation, &k->task, predictions_draw, &source,
                      (size_t)k->draws, k->seed, error);
    if (!ok) return 0;
    if (k->page) ok = ss_page_open(&w, k->page, "Stop-signal model: predictions and data", error);
    if (ok) {
        ss_check_print(&check, stdout);
        if (k->page) ss_check_figures(w.file, &check);
        if (k->truth) ok = recover(&p, d, k->truth, k->page ? w.file : NULL, error);
        if (k->page && ok) ok = ss_page_close(&w);
        else if (k->page) ss_writer_drop(&w);
    }
    ss_check_free(&check);
    return ok;
}

static int command_check(int argc, char **argv)
{
    check_command k;
    gpumc_error error;
    gpumc_fit fit;
    argument list[24] = {
        { "fit", TEXT, &k.fit, "STORE[,STORE...]: what fit wrote as output=; several are merged" },
        { "truth", TEXT, &k.truth, "FILE: what simulate wrote as truth=; compares" },
        { "page", TEXT, &k.page, "FILE: writes the figures as an HTML page" },
        { "draws", WHOLE, &k.draws, "studies to simulate (200)" },
        { "truncation", REAL, &k.truncation, "seconds: as in the fit" },
        { "top", WHOLE, &k.task.top_ms, "ms: longest delay of the staircase (900)" },
        { "staircase", WHOLE, &k.task.step_ms, "ms: its step (0: as step)" },
        { "seed", SEED, &k.seed, "of the random numbers (1)" },
    };
    int status, ok;
    memset(&k, 0, sizeof k);
    k.task = ss_task_default();
    k.task.step_ms = 0;
    k.draws = 200;
    k.seed = 1;
    status = command_arguments(argc, argv, list, study_arguments(list, 8, &k.study));
    if (status != GO_ON) return status;
    if (!k.fit) return wanted("fit");
    if (!k.study.files) return wanted("data");
    if (k.task.step_ms == 0) k.task.step_ms = k.study.read.step_ms > 0 ? k.study.read.step_ms : 50;
    k.task.deadline = k.study.read.deadline;
    const char *wrong = k.draws < 1 ? "draws" : task_wrong(&k.task);
    if (wrong) {
        fprintf(stderr, "a check with these %s cannot be\n", wrong);
        return EXIT_USAGE;
    }
    if (!study_read(&k.study, &error)) return run_failed(error.text);
    ok = read_fit(k.fit, &k.study.reading.data, &fit, &error) && check_fit(&k, &fit, &error);
    gpumc_free(&fit);
    ss_reading_free(&k.study.reading);
    return ok ? EXIT_SUCCESS : run_failed(error.text);
}

/* ---- merge ---------------------------------------------------------------------------------------- */

/* Prints and writes what fit does, for chains that separate jobs have made. */
static int command_merge(int argc, char **argv)
{
    study from;
    run r;
    double truncation = 0;
    const char *fits = NULL, *table = NULL;
    gpumc_error error;
    gpumc_fit fit;
    argument list[24] = {
        { "fit", TEXT, &fits, "STORE,STORE...: what fit wrote as output=, a chain each" },
        { "output", TEXT, &r.output, "STORE: writes all chains as one" },
        { "summary", TEXT, &r.summary, "FILE: writes the summary of every parameter as CSV" },
        { "report", TEXT, &r.report, "FILE: writes a report, an HTML page" },
        { "table", TEXT, &table, "FILE: writes a row for each subject, with SSRT, as CSV" },
        { "truncation", REAL, &truncation, "seconds: as in the fit" },
    };
    int status;
    memset(&r, 0, sizeof r);
    memset(&from, 0, sizeof from);
    status = command_arguments(argc, argv, list, study_arguments(list, 6, &from));
    if (status != GO_ON) return status;
    if (!fits) return wanted("fit");
    if (!from.files) return wanted("data");
    if (!study_read(&from, &error)) return run_failed(error.text);
    if (!read_fit(fits, &from.reading.data, &fit, &error)) status = run_failed(error.text);
    else status = give_out(&fit, &from.reading.data, truncation, &r, table);
    gpumc_free(&fit);
    ss_reading_free(&from.reading);
    return status;
}

/* ---- compare -------------------------------------------------------------------------------------- */

/* How much the mean of one quantity differs between two fits: in posterior standard deviations, and in the
   Monte Carlo standard error of the difference. */
typedef struct difference {
    size_t first, second;                 /* columns */
    double in_sd, in_mcse;
} difference;

static int difference_descending(const void *a, const void *b)
{
    const double x = fabs(((const difference *)a)->in_sd), y = fabs(((const difference *)b)->in_sd);
    return (x < y) - (x > y);
}

static difference difference_of(const gpumc_fit *a, size_t first, const gpumc_fit *b, size_t second)
{
    const gpumc_summary x = gpumc_summarise(a, first), y = gpumc_summarise(b, second);
    const double gap = y.mean - x.mean, sd = sqrt((x.sd * x.sd + y.sd * y.sd) / 2);
    const difference d = { first, second, sd > 0 ? gap / sd : 0, gap / hypot(x.mcse, y.mcse) };
    return d;
}

static void print_difference(const gpumc_fit *a, const gpumc_fit *b, const difference *d)
{
    const gpumc_summary x = gpumc_summarise(a, d->first), y = gpumc_summarise(b, d->second);
    char name[64];
    gpumc_column_name(a, d->first, name, sizeof name);
    printf("%-18s %10.4f %9.4f %10.4f %9.4f %8.3f %8.2f\n", name, x.mean, x.sd, y.mean, y.sd, d->in_sd,
           d->in_mcse);
}

/* The forest plot: both 90 % intervals of each quantity, in standard deviations of the first around its mean.
   */
static void forest(FILE *file, const gpumc_fit *a, const gpumc_fit *b, const difference *list, size_t n)
{
    const double row = 22, left = 170, right = 640, top = 30, low = -4, high = 4;
    const double unit = (right - left) / (high - low), zero = left - low * unit;
    fprintf(file, "<svg viewBox=\"0 0 660 %.0f\" width=\"660\" height=\"%.0f\">\n",
            top + row * (double)n + 30, top + row * (double)n + 30);
    for (double x = low; x <= high; x++)
        fprintf(file, "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>"
                "<text x=\"%.1f\" y=\"16\" text-anchor=\"middle\">%.0f</text>\n", zero + x * unit, top - 8,
                top + row * (double)n, zero + x * unit, x);
    for (size_t i = 0; i < n; i++) {
        const gpumc_summary s[2] = { gpumc_summarise(a, list[i].first), gpumc_summarise(b, list[i].second) };
        const double y = top + row * ((double)i + 0.5);
        char name[64];
        gpumc_column_name(a, list[i].first, name, sizeof name);
        fprintf(file, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left - 12, y + 4, name);
        for (int k = 0; k < 2; k++) {
            const double at = y + (k ? 4 : -4), x[3] = { s[k].q5, s[k].mean, s[k].q95 };
            double place[3];
            for (int j = 0; j < 3; j++)
                place[j] = fmin(fmax(zero + (x[j] - s[0].mean) / s[0].sd * unit, left - 6), right + 6);
            fprintf(file,
                    "<path stroke=\"%s\" d=\"M%.1f %.1fH%.1f\"/><circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" "
                    "fill=\"%s\"/>\n",
                    k ? SS_ORANGE : SS_BLUE, place[0], at, place[2], place[1], at, k ? SS_ORANGE : SS_BLUE);
        }
    }
    fprintf(file, "</svg>\n");
}

static int write_forest(const char *path, const gpumc_fit *a, const gpumc_fit *b, const char *const names[2],
                        const difference *list, size_t n_population, size_t n_shown, gpumc_error *error)
{
    ss_writer w;
    if (!ss_page_open(&w, path, "Two fits", error)) return 0;
    fprintf(w.file, "<p>Means and 90 %% intervals in posterior standard deviations of the first around its "
            "mean. <span style=\"color:%s\">", SS_BLUE);
    ss_put_text(w.file, names[0]);
    fprintf(w.file, "</span>, <span style=\"color:%s\">", SS_ORANGE);
    ss_put_text(w.file, names[1]);
    fprintf(w.file, "</span>.</p>\n<h2>Population</h2>\n");
    forest(w.file, a, b, list, n_population);
    fprintf(w.file, "<h2>The largest differences among the others</h2>\n");
    forest(w.file, a, b, list + n_population, n_shown);
    return ss_page_close(&w);
}

/* Lists what both fits have: population first, and then the rest by its difference. Returns their number. */
static size_t differences(const gpumc_fit *a, const gpumc_fit *b, difference *list, size_t *n_population)
{
    size_t n = 0;
    for (int rest = 0; rest < 2; rest++) {
        const size_t from = n;
        for (size_t k = 0; k < a->n_blocks; k++) {
            const gpumc_block *x = &a->blocks[k], *y = find_block(b, x->name);
            if (!y || y->size != x->size || (x->size > 1) != rest) continue;
            for (size_t i = 0; i < x->size; i++)
                list[n++] = difference_of(a, x->offset + i, b, y->offset + i);
        }
        if (!rest) *n_population = n;
        else qsort(list + from, n - from, sizeof *list, difference_descending);
    }
    return n;
}

static int compare_fits(const gpumc_fit *a, const gpumc_fit *b, const char *const names[2], const char *page,
                        gpumc_error *error)
{
    difference *list = (difference *)malloc(a->n_columns * sizeof *list);
    size_t n_population = 0, n, n_apart = 0, shown;
    int ok = 1;
    if (!list) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    n = differences(a, b, list, &n_population);
    shown = n - n_population < 15 ? n - n_population : 15;
    if (n == 0) ok = ss_fail(error, GPUMC_ERROR_FORMAT, "the fits have nothing of the same name and size");
    else {
        printf("%-18s %10s %9s %10s %9s %8s %8s\n", "", "mean", "sd", "mean", "sd", "diff/sd", "/mcse");
        for (size_t i = 0; i < n_population + shown; i++) {
            if (i == n_population) printf("largest of the other %.0f:\n", (double)(n - n_population));
            print_difference(a, b, &list[i]);
        }
        for (size_t i = 0; i < n; i++) n_apart += fabs(list[i].in_mcse) > 3;
        printf("%.0f of %.0f means lie more than 3 Monte Carlo standard errors apart (0.3 %% would by chance)"
               "\n", (double)n_apart, (double)n);
        if (page) ok = write_forest(page, a, b, names, list, n_population, shown, error);
    }
    free(list);
    return ok;
}

static int command_compare(int argc, char **argv)
{
    const char *names[2] = { NULL, NULL }, *page = NULL;
    gpumc_fit fits[2];
    gpumc_error error;
    const argument list[] = {
        { "first", TEXT, &names[0], "STORE[,STORE...]" },
        { "second", TEXT, &names[1], "STORE[,STORE...]" },
        { "page", TEXT, &page, "FILE: writes a forest plot as an HTML page" },
    };
    int ok, status = command_arguments(argc, argv, list, 3);
    if (status != GO_ON) return status;
    if (!names[0]) return wanted("first");
    if (!names[1]) return wanted("second");
    memset(fits, 0, sizeof fits);
    ok = read_fit(names[0], NULL, &fits[0], &error) && read_fit(names[1], NULL, &fits[1], &error)
         && compare_fits(&fits[0], &fits[1], names, page, &error);
    gpumc_free(&fits[0]);
    gpumc_free(&fits[1]);
    return ok ? EXIT_SUCCESS : run_failed(error.text);
}

/* ---- what plan, validate and bench share ------------------------------------------------------------ */

/* Simulated subjects of the ABCD task from typical values, and a model of them. */
typedef struct trial_run { ss_data data; ss_model *model; ss_model_options options; } trial_run;

static int trial_run_make(trial_run *t, size_t n, uint64_t seed, const ss_model_options *options,
                          gpumc_error *error)
{
    ss_task task = ss_task_default();
    const ss_group group = ss_group_default();
    double *theta = (double *)malloc(n * SS_N_PARAMETERS * sizeof *theta);
    task.deadline = options->deadline;
    const int ok =
        theta && ss_simulate(options->kind, &group, &task, SS_TRUNCATION, n, seed, &t->data, theta, error);
    free(theta);
    if (!theta) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    t->options = *options;
    t->model = ok ? ss_model_create(&t->data, options, error) : NULL;
    if (ok && !t->model) ss_data_free(&t->data);
    return t->model != NULL;
}

/* The same for trials that were read, which it takes ownership of. */
static int trial_run_of(trial_run *t, ss_data *data, const ss_model_options *options, gpumc_error *error)
{
    t->data = *data;
    memset(data, 0, sizeof *data);
    t->options = *options;
    t->model = ss_model_create(&t->data, options, error);
    if (!t->model) ss_data_free(&t->data);
    return t->model != NULL;
}

static void trial_run_free(trial_run *t)
{
    ss_model_free(t->model);
    ss_data_free(&t->data);
}

/* A model ready to be evaluated at one point. */
typedef struct point { gpumc_layout *layout; double *q, *grad, *work; size_t dim; } point;

static void point_free(point *p)
{
    free(p->layout);
    free(p->q);
}

/* x: the natural values of the model's parameters. */
static int point_make(point *p, const gpumc_model *model, const double *x, gpumc_error *error)
{
    const size_t bytes = gpumc_layout_bytes(model, error);
    void *memory = bytes ? malloc(bytes) : NULL;
    memset(p, 0, sizeof *p);
    if (bytes && !memory) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    p->layout = bytes ? gpumc_layout_init(model, memory, bytes, error) : NULL;
    if (!p->layout) { free(memory); return 0; }
    p->dim = gpumc_layout_dim(p->layout);
    p->q = (double *)malloc((2 * p->dim + gpumc_layout_work(p->layout)) * sizeof(double));
    if (p->q) {
        p->grad = p->q + p->dim;
        p->work = p->grad + p->dim;
        if (gpumc_model_unconstrain(p->layout, x, p->q, p->work, error) == GPUMC_OK) return 1;
    } else ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    point_free(p);
    return 0;
}

/* Processor seconds of one evaluation, of led_by's guide if led_by is not NULL and has one: the least mean of
   several batches, each a twentieth of a second. */
static double point_seconds(const point *p, const gpumc_model *led_by)
{
    double *x = p->work, *by = x + gpumc_layout_natural(p->layout), best = INFINITY;
    gpumc_model_natural(p->layout, p->q, x, p->work);
    for (int batch = 0; batch < 8; batch++) {
        const clock_t begin = clock();
        double seconds = 0;
        int n = 0;
        while (seconds < 0.05) {
            if (led_by && led_by->guide) led_by->guide(x, by, led_by->data);
            else gpumc_model_eval(p->layout, p->q, p->grad, p->work);
            n++;
            seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        }
        best = fmin(best, seconds / n);
    }
    return best;
}

/* A fit just long enough for a point on the way to the posterior's bulk, where a gradient takes as long as in
   the bulk: the last of a few draws, at most 32 gradients each. */
static int short_fit(const gpumc_model *model, int threads, gpumc_fit *fit)
{
    gpumc_sample_options o;
    memset(&o, 0, sizeof o);
    o.num_chains = 2;
    o.num_warmup = 15;
    o.num_samples = 15;
    o.max_treedepth = 5;
    o.skip_gradient_check = 1;
    o.threads = threads;
    o.seed = 42;
    return gpumc_sample(model, &o, fit) == GPUMC_OK;
}

static const double *last_draw(const gpumc_fit *fit)
{
    return fit->draws + (fit->n_draws - 1) * fit->n_columns;
}

/* ---- plan ----------------------------------------------------------------------------------------- */

/* A job's time limit in minutes: three times the forecast, plus five. */
static int plan_limit(double minutes) { return 5 + (int)ceil(3 * minutes); }

/* Gradients a draw, in warm-up and after it, that a fit of 100 simulated subjects took: for the forecast. */
enum { WARMUP_GRADIENTS = 27, SAMPLING_GRADIENTS = 33, WARMUP_DRAWS = 200 };

static int command_plan(int argc, char **argv)
{
    gpumc_sample_options o;
    ss_model_options options = { .kind = SS_RDEX_ABCD };
    trial_run t;
    gpumc_error error;
    gpumc_fit fit;
    point at;
    study from;
    int subjects = 100, kind = SS_RDEX_ABCD, team = 1, place = 0, status = EXIT_FAILURE;
    argument list[24] = {
        { "subjects", WHOLE, &subjects, "how many, with 360 trials each, where there are no data (100)" },
        { "model", CHOICE, &kind, KINDS },
        { "num_chains", WHOLE, &o.num_chains, "chains (4)" },
        { "num_samples", WHOLE, &o.num_samples, "kept draws a chain (1500)" },
        { "threads", WHOLE, &o.threads, "threads (one a core it may use)" },
        { "place", CHOICE, &place, "any|cpu|gpu" },
    };
    memset(&o, 0, sizeof o);
    memset(&from, 0, sizeof from);
    status = command_arguments(argc, argv, list, study_arguments(list, 6, &from));
    if (status != GO_ON) return status;
    if (subjects < 1 || subjects > 100000 || o.num_chains < 0 || o.num_samples < 0 || o.threads < 0) {
        fprintf(stderr, "subjects must be 1 to 100000, num_chains, num_samples and threads 0 or more\n");
        return EXIT_USAGE;
    }
    if (from.files && !study_read(&from, &error)) return run_failed(error.text);
    options.kind = (ss_kind)kind;
    options.threads = 1;
    options.place = (gpumc_place)place;
    options.deadline = from.read.deadline;
    plan_threads(&o, &team);
    ss_sampling(from.files ? from.reading.data.n_subjects : (size_t)subjects, &o);
    if (from.files ? !trial_run_of(&t, &from.reading.data, &options, &error)
                   : !trial_run_make(&t, (size_t)subjects, 1, &options, &error))
        return run_failed(error.text);
    status = EXIT_FAILURE;
    if (!short_fit(ss_model_get(t.model), 1, &fit)) run_failed(fit.message);
    else if (!point_make(&at, ss_model_get(t.model), last_draw(&fit), &error)) run_failed(error.text);
    else {
        const double seconds = point_seconds(&at, ss_model_get(t.model));
        const double draws = (double)o.num_samples * o.thin;
        const double gradients = WARMUP_DRAWS * WARMUP_GRADIENTS + draws * (double)SAMPLING_GRADIENTS;
        const double minutes = gradients * seconds * ceil((double)o.num_chains / o.threads) / 60;
        printf("memory       %.0f MB for %d draws of %d chains, %.0f values each\n",
               1e-6 * draw_bytes(ss_model_get(t.model), o.num_chains, o.num_samples), o.num_samples,
               o.num_chains, (double)model_columns(ss_model_get(t.model)));
        printf("time         %.3g ms a gradient (%s); with %d gradients a draw in warm-up and %d after it,\n"
               "             as a fit of 100 subjects took, %.1f min\n", 1e3 * seconds,
               gpumc_isa_name(gpumc_isa_resolve(GPUMC_ISA_AUTO)), WARMUP_GRADIENTS, SAMPLING_GRADIENTS,
               minutes);
        printf("limit        %d:%02d:00 for a job: three times that, and five minutes\n",
               plan_limit(minutes) / 60, plan_limit(minutes) % 60);
        point_free(&at);
        status = EXIT_SUCCESS;
    }
    gpumc_free(&fit);
    trial_run_free(&t);
    ss_reading_free(&from.reading);
    return status;
}

/* ---- validate ------------------------------------------------------------------------------------- */

static int said(int pass, const char *format, ...)
{
    va_list arguments;
    printf("%s  ", pass ? "PASS" : "FAIL");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    return pass;
}

/* Log likelihoods of trials at the typical parameters, worked out with 40 digits and textbook formulas. */
typedef struct known { const gpumc_row_kind *kind; int wrong; double rt, ssd, value; } known;

/* The larger one, or NaN. */
static double worse(double worst, double x) { return x > worst || isnan(x) ? x : worst; }

static int validate_known(void)
{
    static const known list[] = {
        { &ss_go, 0, 0.54, 0, 0.64521956489113116 },       { &ss_go, 1, 0.62, 0, -2.0370238338850698 },
        { &ss_failed, 0, 0.48, 0.25, 0.14801716713825895 }, { &ss_failed, 1, 0.41, 0.1, -1.7123990589454294 },
        { &ss_failed, 0, 0.5, 0.6, 0.8081498523245835 },   { &ss_stop, 0, 0, 0.2, -0.47182826738924539 },
        { &ss_stop, 0, 0, 0, -0.12624428575388034 },
    };
    const double v[2] = { ss_parameter_get(SS_V_PLUS)->typical, ss_parameter_get(SS_V_MINUS)->typical };
    double worst[2] = { 0, 0 };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        const known *a = &list[k];
        double *w = &worst[a->kind == &ss_stop];
        const double value = ss_typical_trial(a->kind, v[a->wrong], v[!a->wrong], a->rt, a->ssd);
        const double miss = fabs(value - a->value);
        *w = worse(*w, miss);
    }
    return said(worst[0] <= 1e-12, "known answers, closed form: off by %.1e at most (1e-12)", worst[0])
           & said(worst[1] <= 1e-8, "known answers, stop integral: off by %.1e at most (1e-8)", worst[1]);
}

static int validate_gradient(const trial_run *t)
{
    gpumc_gradient_report g = { "", 0, 0, 0, 0, 0, 0 };
    gpumc_error error;
    const int ok = gpumc_check_gradient(ss_model_get(t->model), NULL, &g, &error) == GPUMC_OK;
    return said(ok, "gradient beside differences: %.0f components checked, %.0f failed", (double)g.n_checked,
                (double)g.n_failed);
}

/* A row of ss_stop, with its nodes evaluated one after the other. */
static double plain_stop(const gpumc_rows_data *d, const double *p, const double *x, double *g)
{
    double at[6] = { x[0], x[1], x[2], x[3], 0, 0 }, sum[12] = { 0 };
    for (size_t i = 0; i < d->n_nodes; i++) {
        double by[11] = { 0 };
        at[4] = d->nodes[0][i];
        at[5] = d->nodes[1][i];
        sum[0] += ss_stop_node(p, at, by);
        for (int k = 0; k < 11; k++) sum[1 + k] += by[k];
    }
    return ss_stop_finish(sum, p, x, g);
}

/* The log likelihood of RDEX-ABCD at a draw, by one call for each row: no vectors, nothing shared between rows.
   Adds the derivatives to by, in the columns of the draw. */
static double plain_likelihood(const ss_model *m, const gpumc_fit *fit, const double *draw, double *by)
{
    double sum = 0;
    for (size_t r = 0; r < m->description.n_rows; r++) {
        const gpumc_hier_rows *rows = &m->rows[r];
        const gpumc_rows_data *d = &rows->data;
        size_t offset[12];
        for (size_t k = 0; k < rows->n_takes; k++)
            offset[k] = find_block(fit, rows->takes[k].name)->offset;
        for (size_t i = 0; i < d->n_rows; i++) {
            const double w = d->weights ? d->weights[i] : 1;
            double p[12], x[4], g[12] = { 0 };
            for (size_t k = 0; k < rows->n_takes; k++) p[k] = draw[offset[k] + rows->takes[k].index[i]];
            for (size_t c = 0; c < d->kind->n_columns; c++) x[c] = d->columns[c][i];
            sum += w * (d->kind == &ss_go       ? ss_go_row(p, x, g)
                        : d->kind == &ss_failed ? ss_failed_row(p, x, g)
                        : d->kind == &ss_stop   ? plain_stop(d, p, x, g) : ss_counts_row(p, x, g));
            for (size_t k = 0; k < rows->n_takes; k++) by[offset[k] + rows->takes[k].index[i]] += w * g[k];
        }
    }
    return sum;
}

/* The derivative by the sampled value of parameter k of subject i, from those by natural values (by, chain
   rule): its logarithm, its probit or, for sigma and tau as a pair, its z. */
static double sampled_slope(const ss_model *m, const gpumc_fit *fit, const double *draw, const double *by,
                            int k, size_t i)
{
    const ss_parameter_info *info = ss_parameter_get(k);
    double slope = 0;
    if (info->probit) return by[find_block(fit, m->names[k].probit)->offset + i];
    if (!ss_law_of(m, k).with) {
        const size_t at = find_block(fit, info->name)->offset + i;
        return by[at] * draw[at];
    }
    for (int tau = 0; tau < 2; tau++) {
        const int pair[2] = { tau ? SS_TAU : SS_SIGMA, tau ? SS_SIGMA : SS_TAU };
        const double bounds[2] = { 0, INFINITY };
        double p[6], g[6];
        for (int side = 0; side < 2; side++) {
            char name[32];
            snprintf(name, sizeof name, "z_%s", ss_parameter_get(pair[side])->name);
            p[3 * side] = draw[find_block(fit, name)->offset + i];
            p[3 * side + 1] = draw[find_block(fit, m->names[pair[side]].location)->offset];
            p[3 * side + 2] = draw[find_block(fit, m->names[pair[side]].scale)->offset];
        }
        if (tau) ss_tau_of_pair_row(p, bounds, g);
        else ss_sigma_of_pair_row(p, bounds, g);
        slope += g[k == pair[0] ? 0 : 3] * by[find_block(fit, ss_parameter_get(pair[0])->name)->offset + i];
    }
    return slope;
}

/* How far value and derivatives of plain_likelihood are from those of the model less its priors. */
static double plain_apart(const trial_run *t, const ss_model *prior, const gpumc_fit *fit, const double *draw,
                          double *work)
{
    const gpumc_model *full = ss_model_get(t->model), *rest = ss_model_get(prior);
    double *by = work, *grad = by + fit->n_columns, *of_prior = grad + fit->n_columns, worst, value;
    memset(work, 0, 3 * fit->n_columns * sizeof *work);
    value = plain_likelihood(t->model, fit, draw, by);
    worst = fabs(full->log_density(draw, grad, full->data) - rest->log_density(draw, of_prior, rest->data)
                 - value) / fabs(value);
    for (int j = 0; j < t->model->kind->n; j++) {
        const int k = t->model->kind->parameters[j];
        const char *form = ss_parameter_get(k)->probit ? "probit" : ss_law_of(t->model, k).with ? "z" : "log";
        char name[32];
        snprintf(name, sizeof name, "%s_%s", form, ss_parameter_get(k)->name);
        const size_t sampled = find_block(fit, name)->offset;
        for (size_t i = 0; i < t->data.n_subjects; i++) {
            const double slope = sampled_slope(t->model, fit, draw, by, k, i);
            worst = worse(worst, fabs(grad[sampled + i] - of_prior[sampled + i] - slope) / (1 + fabs(slope)));
        }
    }
    return worst;
}

/* Processor seconds of plain_likelihood, measured as by point_seconds. */
static double plain_seconds(const ss_model *m, const gpumc_fit *fit, const double *draw, double *work)
{
    double best = INFINITY;
    for (int batch = 0; batch < 8; batch++) {
        const clock_t begin = clock();
        double seconds = 0;
        int n = 0;
        while (seconds < 0.05) {
            plain_likelihood(m, fit, draw, work);
            n++;
            seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        }
        best = fmin(best, seconds / n);
    }
    return best;
}

/* Compares vectorised rows with the same functions called one by one, at a draw of a short fit. */
static int validate_vectors(const trial_run *t, const gpumc_fit *fit)
{
    const char *isa = gpumc_isa_name(gpumc_isa_resolve(GPUMC_ISA_AUTO));
    const double *x = last_draw(fit);
    gpumc_error error = { GPUMC_ERROR_MEMORY, "out of memory" };
    ss_data none = t->data;
    double *work = (double *)malloc(3 * fit->n_columns * sizeof *work), worst, ratio;
    ss_model *prior;
    point at;
    int ok;
    none.n_trials = 0;
    prior = work ? ss_model_create(&none, &t->options, &error) : NULL;
    if (!prior || !point_make(&at, ss_model_get(t->model), x, &error)) {
        ss_model_free(prior);
        free(work);
        return said(0, "rows in vectors: %s", error.text);
    }
    worst = plain_apart(t, prior, fit, x, work);
    ratio = plain_seconds(t->model, fit, x, work) / point_seconds(&at, NULL);
    ok = said(worst < 1e-9, "%s beside plain code: value and gradient differ by %.1e at most (1e-9)", isa,
              worst);
    if (gpumc_isa_resolve(GPUMC_ISA_AUTO) == GPUMC_ISA_BASELINE)
        printf("SKIP  %s, the plainest there is here: %.1f times as fast as plain code\n", isa, ratio);
    else ok &= said(ratio > 3, "%s beside plain code: %.1f times as fast (3)", isa, ratio);
    point_free(&at);
    ss_model_free(prior);
    free(work);
    return ok;
}

/* The largest difference between two models at x, of the density and of the guide and their gradients, in units of
   1 + its size. */
static double models_apart(const gpumc_model *a, const gpumc_model *b, const double *x, size_t n, double *g)
{
    double worst = 0;
    for (int guide = 0; guide < 1 + (a->guide != NULL); guide++) {
        double lp[2];
        memset(g, 0, 2 * n * sizeof *g);
        lp[0] = (guide ? a->guide : a->log_density)(x, g, a->data);
        lp[1] = (guide ? b->guide : b->log_density)(x, g + n, b->data);
        worst = fmax(worst, fabs(lp[1] - lp[0]) / (1 + fabs(lp[0])));
        for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(g[n + i] - g[i]) / (1 + fabs(g[i])));
        if (!isfinite(lp[1])) worst = INFINITY;
    }
    return worst;
}

/* Compares the rows on the GPU with those on the CPU. */
static int validate_gpu(const trial_run *t, const gpumc_fit *fit)
{
    gpumc_device_info device;
    gpumc_error error;
    ss_model_options options = t->options;
    const size_t n = gpumc_model_n_values(ss_model_get(t->model));
    if (gpumc_device_describe(&device, &error) != GPUMC_OK) return printf("SKIP  %s\n", error.text), 1;
    options.place = GPUMC_ON_GPU;
    ss_model *there = ss_model_create(&t->data, &options, &error);
    double *g = (double *)malloc(2 * n * sizeof *g);
    int ok = there && g;
    if (!ok) said(0, "GPU: %s", there ? "out of memory" : error.text);
    else {
        const double worst = models_apart(ss_model_get(t->model), ss_model_get(there), last_draw(fit), n, g);
        ok = said(worst < 1e-9, "%s: value and gradient differ by %.1e at most (1e-9)", device.name, worst);
    }
    free(g);
    ss_model_free(there);
    return ok;
}

/* The source's comparison of processors: short fits by the plainest and by the best instruction set must agree
   in the population's v_plus; they are long enough for 5 % to be more than four standard errors. */
static int validate_match(const trial_run *t)
{
    ss_model_options options = t->options;
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_sample_options o;
    double v[2] = { NAN, NAN }, apart = 0;
    memset(&o, 0, sizeof o);
    o.num_chains = 2;
    o.num_samples = 300;
    o.seed = 42;
    ss_sampling(t->data.n_subjects, &o);
    o.skip_gradient_check = 1;
    for (int k = 0; k < 2; k++) {
        gpumc_fit fit;
        options.isa = k ? GPUMC_ISA_AUTO : GPUMC_ISA_BASELINE;
        ss_model *m = ss_model_create(&t->data, &options, &error);
        if (!m) return said(0, "two fits: %s", error.text);
        if (gpumc_sample(ss_model_get(m), &o, &fit) == GPUMC_OK) {
            const gpumc_series series = gpumc_fit_series(&fit, gpumc_column(&fit, "m_v_plus"));
            v[k] = exp(gpumc_mean(series).value);
            apart = hypot(apart, gpumc_mcse_mean(series).value);
        }
        gpumc_free(&fit);
        ss_model_free(m);
    }
    return said(fabs(v[0] / v[1] - 1) < 0.05, "v_plus of a short fit by %s %.3f, by %s %.3f (5 %%; a "
                "standard error is %.1f %%)", gpumc_isa_name(GPUMC_ISA_BASELINE), v[0],
                gpumc_isa_name(gpumc_isa_resolve(GPUMC_ISA_AUTO)), v[1], 100 * apart);
}

static int validate_threads(const trial_run *t, const gpumc_fit *one)
{
    gpumc_fit two;
    int same = short_fit(ss_model_get(t->model), 2, &two);
    for (size_t c = 0; same && c < one->n_chains; c++)
        same = memcmp(one->draws + c * one->draw_capacity * one->n_columns,
                      two.draws + c * two.draw_capacity * two.n_columns,
                      one->n_draws * one->n_columns * sizeof(double)) == 0;
    gpumc_free(&two);
    return said(same, "the same draws, bit for bit, by one thread and by two");
}

/* A fit of five subjects: R-hat, ESS and divergences, and whether the population's v_plus is recovered. */
static int validate_fit(const trial_run *t)
{
    gpumc_sample_options o;
    gpumc_fit fit;
    double r_hat = 0, ess = INFINITY;
    int ok;
    memset(&o, 0, sizeof o);
    o.num_samples = 2000;
    o.seed = 42;
    ss_sampling(t->data.n_subjects, &o);
    ok = gpumc_sample(ss_model_get(t->model), &o, &fit) == GPUMC_OK;
    if (!ok) said(0, "fit of 5 subjects: %s", fit.message);
    else {
        const gpumc_summary v = gpumc_summarise(&fit, gpumc_column(&fit, "m_v_plus"));
        for (size_t k = 0; k < fit.n_columns; k++) {
            const gpumc_summary s = gpumc_summarise(&fit, k);
            r_hat = fmax(r_hat, s.r_hat);
            ess = fmin(ess, fmin(s.ess_bulk, s.ess_tail));
        }
        ok = said(r_hat < 1.01, "fit of 5 subjects: largest R-hat of %.0f quantities %.4f (1.01)",
                  (double)fit.n_columns, r_hat)
             & said(ess > 100, "fit of 5 subjects: smallest ESS %.0f (100)", ess)
             & said((double)fit.n_divergent < 0.01 * (double)(fit.n_chains * fit.n_draws),
                    "fit of 5 subjects: %.0f divergences of %.0f draws (1 %%)", (double)fit.n_divergent,
                    (double)(fit.n_chains * fit.n_draws))
             & said(fabs(v.mean - log(3.3)) < 3 * v.sd, "fit of 5 subjects: v_plus %.2f, drawn from 3.30",
                    exp(v.mean));
        printf("      %.0f s, %.0f gradients\n", fit.warmup_seconds + fit.sampling_seconds,
               (double)(fit.warmup_gradients + fit.sampling_gradients));
    }
    gpumc_free(&fit);
    return ok;
}

static int command_validate(int argc, char **argv)
{
    ss_model_options options = { .kind = SS_RDEX_ABCD };
    trial_run t;
    gpumc_error error;
    gpumc_fit fit;
    const argument list[1] = { { "", TEXT, NULL, "" } };
    int ok, status = command_arguments(argc, argv, list, 0);
    if (status != GO_ON) return status;
    options.threads = 4;
    ok = validate_known();
    if (!trial_run_make(&t, 5, 42, &options, &error)) return run_failed(error.text);
    ok &= validate_gradient(&t);
    if (!short_fit(ss_model_get(t.model), 1, &fit)) ok = said(0, "short fit: %s", fit.message);
    else ok &= validate_vectors(&t, &fit) & validate_threads(&t, &fit) & validate_gpu(&t, &fit);
    gpumc_free(&fit);
    ok &= validate_match(&t) & validate_fit(&t);
    trial_run_free(&t);
    printf("%s\n", ok ? "all passed" : "some failed");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- bench ---------------------------------------------------------------------------------------- */

/* One row of the table. Shares are of the processor time of all threads; the time of warm-up is taken to be in
   proportion to its length. */
typedef struct bench_row {
    int subjects;
    double minutes, gradients, gradient_us, exact_us, plain_ratio;     /* us: of the guide, of the density */
    double least_ess, worst_r_hat, divergences, megabytes, rows, quadrature, tree, adaptation;
} bench_row;

/* Peak memory of the process so far, from Linux; NAN on other systems. */
static double peak_megabytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kilobytes = NAN;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0) kilobytes = strtod(line + 6, NULL);
    if (file) fclose(file);
    return kilobytes / 1024;
}

/* Seconds of a gradient of the guide, which leads paths, at x; if `stops` is 0, without the successful stops,
   whose probability is an integral. */
static double bench_gradient(const trial_run *t, const double *x, int stops, gpumc_error *error)
{
    ss_data d = t->data;
    ss_model *m;
    point at;
    double seconds = NAN;
    d.n_trials = 0;
    d.trials = (ss_trial *)malloc(t->data.n_trials * sizeof *d.trials);
    for (size_t i = 0; d.trials && i < t->data.n_trials; i++) {
        const ss_trial *trial = &t->data.trials[i];
        if (stops || trial->ssd_ms == SS_NONE || trial->response != SS_NONE) d.trials[d.n_trials++] = *trial;
    }
    m = d.trials ? ss_model_create(&d, &t->options, error) : NULL;
    if (m && point_make(&at, ss_model_get(m), x, error)) {
        seconds = point_seconds(&at, ss_model_get(m));
        point_free(&at);
    }
    ss_model_free(m);
    free(d.trials);
    return seconds;
}

/* Times the density's own gradient at x, and how much longer the same functions take called one by one. */
static int bench_exact(const trial_run *t, const gpumc_fit *fit, const double *x, bench_row *row,
                       gpumc_error *error)
{
    double *work = (double *)calloc(fit->n_columns, sizeof *work);
    point at;
    if (!work) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    if (!point_make(&at, ss_model_get(t->model), x, error)) { free(work); return 0; }
    row->exact_us = 1e6 * point_seconds(&at, NULL);
    row->plain_ratio = 1e6 * plain_seconds(t->model, fit, x, work) / row->exact_us;
    point_free(&at);
    free(work);
    return 1;
}

/* Fits simulated subjects and fills row. Returns 0 with a text on error. */
static int bench_fit(int subjects, gpumc_sample_options o, bench_row *row, gpumc_error *error)
{
    ss_model_options options = { .kind = SS_RDEX_ABCD };
    trial_run t;
    gpumc_fit fit;
    clock_t begin;
    int ok;
    memset(row, 0, sizeof *row);
    options.threads = o.threads;
    row->subjects = subjects;
    if (!trial_run_make(&t, (size_t)subjects, 1, &options, error)) return 0;
    ss_sampling((size_t)subjects, &o);
    begin = clock();
    ok = gpumc_sample(ss_model_get(t.model), &o, &fit) == GPUMC_OK;
    if (!ok) ss_fail(error, fit.status, "%s", fit.message);
    else {
        const double all = (double)(clock() - begin) / CLOCKS_PER_SEC, *x = last_draw(&fit);
        const double full = bench_gradient(&t, x, 1, error), rest = bench_gradient(&t, x, 0, error);
        const double warm = all * fit.warmup_seconds / (fit.warmup_seconds + fit.sampling_seconds);
        const double sampling = all - warm;
        const double warm_rows = (double)fit.warmup_gradients * full,
                     rows = (double)fit.sampling_gradients * full;
        row->minutes = (fit.warmup_seconds + fit.sampling_seconds) / 60;
        row->gradients = (double)(fit.warmup_gradients + fit.sampling_gradients);
        row->gradient_us = 1e6 * full;
        row->divergences = (double)fit.n_divergent;
        row->least_ess = INFINITY;
        for (size_t k = 0; k < fit.n_columns; k++) {
            const gpumc_summary s = gpumc_summarise(&fit, k);
            row->worst_r_hat = fmax(row->worst_r_hat, s.r_hat);
            row->least_ess = fmin(row->least_ess, fmin(s.ess_bulk, s.ess_tail));
        }
        row->megabytes = peak_megabytes();
        row->rows = row->gradients * rest / all;
        row->quadrature = row->gradients * (full - rest) / all;
        row->adaptation = fmax(0, warm - warm_rows) / all;
        row->tree = fmax(0, sampling - rows) / all;
        ok = !isnan(full) && !isnan(rest) && bench_exact(&t, &fit, x, row, error);
    }
    gpumc_free(&fit);
    trial_run_free(&t);
    return ok;
}

static void put_bench(FILE *file, const bench_row *r, int n)
{
    for (int i = 0; i < n; i++, r++)
        fprintf(file, "%d,%.4g,%.0f,%.4g,%.4g,%.3g,%.0f,%.4f,%.0f,%.0f,%.3f,%.3f,%.3f,%.3f\n", r->subjects,
                r->minutes, r->gradients, r->gradient_us, r->exact_us, r->plain_ratio, r->least_ess,
                r->worst_r_hat, r->divergences, r->megabytes, r->rows, r->quadrature, r->tree, r->adaptation);
}

static void put_bench_json(FILE *file, const bench_row *r, int n)
{
    fprintf(file, "[");
    for (int i = 0; i < n; i++, r++) {
        const char *const names[] = { "subjects", "minutes", "gradients", "us_a_gradient", "us_exact",
            "times_plain", "least_ess", "worst_r_hat", "divergences", "megabytes", "rows", "quadrature", "tree",
            "adaptation" };
        const double values[] = { r->subjects, r->minutes, r->gradients, r->gradient_us, r->exact_us,
            r->plain_ratio, r->least_ess, r->worst_r_hat, r->divergences, r->megabytes, r->rows, r->quadrature,
            r->tree, r->adaptation };
        fprintf(file, "%s\n  {", i ? "," : "");
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            fprintf(file, "%s\"%s\": ", k ? ", " : "", names[k]);
            if (isfinite(values[k])) fprintf(file, "%.6g", values[k]);
            else fputs("null", file);                          /* unknown; JSON has no NaN */
        }
        fputs("}", file);
    }
    fprintf(file, "\n]\n");
}

static int write_bench(const char *path, const bench_row *rows, int n, int json, gpumc_error *error)
{
    ss_writer w;
    if (!ss_writer_open(&w, path, error)) return 0;
    if (json) put_bench_json(w.file, rows, n);
    else {
        fprintf(w.file,
                "subjects,minutes,gradients,us_a_gradient,us_exact,times_plain,least_ess,worst_r_hat,"
                "divergences,megabytes,rows,quadrature,tree,adaptation\n");
        put_bench(w.file, rows, n);
    }
    return ss_writer_close(&w);
}

enum { MOST_SIZES = 16 };

/* Reads a list such as 10,20,50; returns how many numbers, 0 if one is no number of subjects. */
static int bench_sizes(const char *text, int sizes[MOST_SIZES])
{
    int n = 0;
    for (;; text++) {
        char *end;
        const long size = strtol(text, &end, 10);
        if (end == text || size < 1 || size > 100000 || n == MOST_SIZES) return 0;
        sizes[n++] = (int)size;
        if (*end == '\0') return n;
        if (*end != ',') return 0;
        text = end;
    }
}

static int command_bench(int argc, char **argv)
{
    const char *text = "10,20,50,100,200", *csv = NULL, *json = NULL;
    gpumc_sample_options o;
    gpumc_error error;
    bench_row rows[MOST_SIZES];
    int sizes[MOST_SIZES], n, team, status;
    const argument list[] = {
        { "subjects", TEXT, &text, "N[,N...]: sizes of the studies (10,20,50,100,200)" },
        { "num_chains", WHOLE, &o.num_chains, "chains (4)" },
        { "num_warmup", WHOLE, &o.num_warmup, "warm-up iterations a chain (0: by model)" },
        { "num_samples", WHOLE, &o.num_samples, "kept draws a chain (1500)" },
        { "threads", WHOLE, &o.threads, "threads (one a core it may use)" },
        { "csv", TEXT, &csv, "FILE: writes the table as CSV" },
        { "json", TEXT, &json, "FILE: writes the table as JSON" },
    };
    memset(&o, 0, sizeof o);
    status = command_arguments(argc, argv, list, sizeof list / sizeof *list);
    if (status != GO_ON) return status;
    n = bench_sizes(text, sizes);
    if (n == 0) { fprintf(stderr, "subjects=%s: numbers separated by commas\n", text); return EXIT_USAGE; }
    plan_threads(&o, &team);
    printf("The source names, for 1000 warm-up iterations and draws of 4 chains, 2, 10, 24 and 60 hours on "
           "32 cores for\n10, 50, 100 and 200 subjects, and hopes for 5, 20, 35, 90 minutes on one H100.\n");
    printf("us each: a gradient that leads paths; exact: one of the likelihood that decides; x plain: how "
           "many times as\nlong the same functions take called one by one.\n");
    printf("%8s %8s %10s %8s %8s %8s %6s %7s %7s %5s %5s %5s %5s %5s\n", "subjects", "minutes", "gradients",
           "us each", "exact", "x plain", "ess", "r_hat", "diverg.", "MB", "rows", "stops", "tree", "adapt");
    for (int k = 0; k < n; k++) {
        const bench_row *r = &rows[k];
        if (!bench_fit(sizes[k], o, &rows[k], &error)) return run_failed(error.text);
        printf("%8d %8.2f %10.0f %8.1f %8.1f %8.1f %6.0f %7.4f %7.0f %5.0f %4.0f%% %4.0f%% %4.0f%% "
               "%4.0f%%\n", r->subjects, r->minutes, r->gradients, r->gradient_us, r->exact_us,
               r->plain_ratio, r->least_ess, r->worst_r_hat, r->divergences, r->megabytes, 100 * r->rows,
               100 * r->quadrature, 100 * r->tree, 100 * r->adaptation);
        fflush(stdout);
        if (csv && !write_bench(csv, rows, k + 1, 0, &error)) return run_failed(error.text);
        if (json && !write_bench(json, rows, k + 1, 1, &error)) return run_failed(error.text);
    }
    return EXIT_SUCCESS;
}

/* ---- commands ------------------------------------------------------------------------------------- */

static const struct { const char *name, *purpose; int (*run)(int argc, char **argv); } commands[] = {
    { "simulate", "draws subjects and their trials, and writes both as CSV", command_simulate },
    { "fit", "reads trials, samples from the posterior, writes the results", command_fit },
    { "check", "sets predictions beside the data, and estimates beside the truth", command_check },
    { "merge", "reads the chains of several jobs as one fit, and reports on it", command_merge },
    { "compare", "sets two fits beside each other", command_compare },
    { "validate", "tries the likelihood, the sampler and this machine: PASS or FAIL", command_validate },
    { "plan", "forecasts memory and time of a fit on this machine", command_plan },
    { "bench", "fits simulated studies of several sizes and measures", command_bench },
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
