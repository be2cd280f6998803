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
