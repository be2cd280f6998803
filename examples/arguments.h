/* Arguments and closing report that the example programs share: key=value under the names Stan users know.
   An unknown key, or a value that does not fit its key, is an error that names it. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

enum { EXIT_USAGE = 2, EXIT_SAVED = 75 /* EX_TEMPFAIL: start me again */, GO_ON = -1 };

typedef enum argument_kind { WHOLE, REAL, SEED, TEXT, CHOICE } argument_kind;

typedef struct argument {
    const char *key;
    argument_kind kind;
    void *value;              /* int, double, uint64_t, const char *; CHOICE: int, number of the word */
    const char *meaning;      /* CHOICE: the words, separated by |, counted from 0 */
} argument;

typedef struct run {
    gpumc_sample_options options;
    const char *summary, *csv, *output, *report;
    const gpumc_store_options *store;     /* names and labels for output; NULL: none */
} run;

/* The number of word among choices, or -1. */
static int argument_choice(const char *choices, const char *word)
{
    const size_t length = strlen(word);
    for (int n = 0; length > 0; n++) {
        const size_t width = strcspn(choices, "|");
        if (width == length && strncmp(choices, word, length) == 0) return n;
        if (choices[width] == '\0') break;
        choices += width + 1;
    }
    return -1;
}

/* Stores text in the argument's variable; returns 0 when it does not fit. */
static int argument_store(const argument *a, const char *text)
{
    char *end = (char *)text;
    errno = 0;
    switch (a->kind) {
    case WHOLE: {
        const long n = strtol(text, &end, 10);
        if (n < INT_MIN || n > INT_MAX) return 0;
        *(int *)a->value = (int)n;
        break;
    }
    case REAL: {
        const double x = strtod(text, &end);
        if (!isfinite(x)) return 0;
        *(double *)a->value = x;
        break;
    }
    case SEED:
        if (strchr(text, '-')) return 0;
        *(uint64_t *)a->value = strtoull(text, &end, 10);
        break;
    case TEXT:
        *(const char **)a->value = text;
        return text[0] != '\0';
    case CHOICE:
        *(int *)a->value = argument_choice(a->meaning, text);
        return *(int *)a->value >= 0;
    }
    return end != text && *end == '\0' && errno == 0;
}

static const char *argument_wanted(const argument *a)
{
    switch (a->kind) {
    case WHOLE: return "a whole number";
    case REAL: return "a number";
    case SEED: return "a whole number from 0";
    case TEXT: return "a name";
    default: return a->meaning;
    }
}

/* Handles one word of the command line; returns 0 and says why when it cannot. */
static int argument_read(const char *word, const argument *list, size_t n)
{
    const size_t length = strcspn(word, "=");
    for (size_t k = 0; k < n && word[length] == '='; k++) {
        if (strlen(list[k].key) != length || strncmp(list[k].key, word, length) != 0) continue;
        if (argument_store(&list[k], word + length + 1)) return 1;
        fprintf(stderr, "%s: the value must be %s\n", word, argument_wanted(&list[k]));
        return 0;
    }
    fprintf(stderr, "%s: %s; help lists the keys\n", word,
            word[length] == '=' ? "unknown key" : "not of the form key=value");
    return 0;
}

static void arguments_usage(const char *program, const argument *list, size_t n)
{
    printf("usage: %s [key=value ...]\n", program);
    for (size_t k = 0; k < n; k++) printf("  %-14s %s\n", list[k].key, list[k].meaning);
}

static int run_failed(const char *text)
{
    fprintf(stderr, "error: %s\n", text);
    return EXIT_FAILURE;
}

static inline int arguments_exists(const char *path)          /* also of folders, except on Windows */
{
    FILE *file = fopen(path, "r");
    if (file) fclose(file);
    return file != NULL;
}

/* Whether a path is that of one chain's draws in CSV, such as PREFIX_1.csv. */
static inline int arguments_is_chain(const char *path, const char *prefix)
{
    const size_t width = strlen(prefix);
    if (strncmp(path, prefix, width) != 0 || path[width] != '_') return 0;
    const size_t digits = strspn(path + width + 1, "0123456789");
    return digits > 0 && strcmp(path + width + 1 + digits, ".csv") == 0;
}

/* Whether two arguments, one of which may be a list, name the same file, so that it would be read and written.
   */
static inline int arguments_clash(const argument *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            const char *name = list[i].kind == TEXT ? *(const char **)list[i].value : NULL;
            const char *at = list[j].kind == TEXT ? *(const char **)list[j].value : NULL;
            const size_t width = name ? strlen(name) : 0;
            while (i != j && width > 0 && at) {
                const char *comma = strchr(at, ',');
                if ((strncmp(name, at, width) == 0 && (at[width] == '\0' || at[width] == ','))
                    || (strcmp(list[j].key, "csv") == 0 && arguments_is_chain(name, at))) {
                    fprintf(stderr, "error: %s is to be two files, by %s= and %s=\n", name, list[j].key, list[i].key);
                    return 1;
                }
                at = comma ? comma + 1 : NULL;
            }
        }
    return 0;
}

/* Whether the result files can be written after the run: their folders exist, and no unfinished store of a
   killed program is in the way. */
static inline int arguments_can_write(const run *r)
{
    const char *const paths[] = { r->output, r->summary, r->csv, r->report, r->options.checkpoint };
    char trial[4096];
    for (int k = 0; k < 5; k++) {
        if (!paths[k]) continue;
        snprintf(trial, sizeof trial, "%.4000s.tmp", paths[k]);
        if (k == 0 && arguments_exists(trial)) {
            fprintf(stderr, "error: %s is there, of a program that was killed; remove it\n", trial);
            return 0;
        }
        snprintf(trial, sizeof trial, "%.4000s.trial", paths[k]);
        const int kept = arguments_exists(trial);
        FILE *file = fopen(trial, "ab");
        if (!file) {
            fprintf(stderr, "error: no file can be written beside %s\n", paths[k]);
            return 0;
        }
        fclose(file);
        if (!kept) remove(trial);
    }
    return 1;
}

/* Reads the command line into r and the program's own arguments; returns GO_ON or the status to exit with. */
static inline int arguments_read(int argc, char **argv, run *r, const argument *own, size_t n_own)
{
    gpumc_sample_options *o = &r->options;
    int metric = 0, sampler = 0;          /* an enum may be narrower than int */
    argument list[48] = {
        { "num_chains", WHOLE, &o->num_chains, "chains (0: 4)" },
        { "num_warmup", WHOLE, &o->num_warmup, "warm-up iterations a chain (0: by model)" },
        { "num_samples", WHOLE, &o->num_samples, "kept draws a chain (0: 1000; stop_signal 1500)" },
        { "target_accept", REAL, &o->target_accept, "target acceptance, below 1 (0: 0.8, of few parameters 0.95)" },
        { "max_treedepth", WHOLE, &o->max_treedepth, "at most 2^max_treedepth gradients a draw (0: 10)" },
        { "metric", CHOICE, &metric, "auto|diag|low_rank|dense|unit|blocks" },
        { "sampler", CHOICE, &sampler, "auto|nuts|mams|hmc" },
        { "path_length", REAL, &o->path_length, "of MAMS and HMC, in standard deviations (0: by model)" },
        { "thin", WHOLE, &o->thin, "keeps every thin-th draw (0: every one)" },
        { "seed", SEED, &o->seed, "of the random numbers" },
        { "threads", WHOLE, &o->threads, "threads (0: one a core it may use)" },
        { "summary", TEXT, &r->summary, "FILE: writes the summary of every parameter as CSV" },
        { "csv", TEXT, &r->csv, "PREFIX: writes the draws as Stan CSV, PREFIX_1.csv and so on" },
        { "checkpoint", TEXT, &o->checkpoint, "FILE: saves the run there; goes on with one that is there" },
        { "checkpoint_seconds", REAL, &o->checkpoint_seconds, "how often (0: 600)" },
        { "output", TEXT, &r->output, "STORE: writes draws and statistics as a Zarr store for ArviZ" },
        { "report", TEXT, &r->report, "FILE: writes a report, an HTML page" },
    };
    size_t n = 17;
    for (size_t k = 0; k < n_own; k++) list[n++] = own[k];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "help") == 0) { arguments_usage(argv[0], list, n); return EXIT_SUCCESS; }
        if (!argument_read(argv[i], list, n)) return EXIT_USAGE;
    }
    o->metric = (gpumc_metric_kind)metric;
    o->sampler = (gpumc_sampler)sampler;
    if (r->output && arguments_exists(r->output))             /* it would be refused after the run */
        return run_failed("there is a store, or something else, of the name that output= gives");
    return !arguments_clash(list, n) && arguments_can_write(r) ? GO_ON : EXIT_FAILURE;
}

/* ---- stopped, saved, resumed ------------------------------------------------------------------------ */

static gpumc_stop_flag run_stop;

static void run_on_signal(int number)
{
    signal(number, run_on_signal);               /* some systems reset the handler when it is called */
    gpumc_stop(&run_stop);
}

/* Samples; with checkpoint= the same command line starts a run and resumes it after a stop or a crash. */
static inline gpumc_status run_sample(const run *r, const gpumc_model *model, gpumc_fit *fit)
{
    gpumc_sample_options o = r->options;
    gpumc_status status;
    char older[4096];
    o.stop = &run_stop;
    if (!o.checkpoint) return gpumc_sample(model, &o, fit);
    signal(SIGINT, run_on_signal);
    signal(SIGTERM, run_on_signal);
#ifdef SIGUSR1
    signal(SIGUSR1, run_on_signal);
#endif
    status = gpumc_sample(model, &o, fit);
    snprintf(older, sizeof older, "%.4000s.old", o.checkpoint);
    return status == GPUMC_ERROR_EXISTS && (arguments_exists(o.checkpoint) || arguments_exists(older))
        ? gpumc_resume(model, &o, o.checkpoint, fit) : status;
}

/* The exit status of a run that did not finish. */
static inline int run_ended(const gpumc_fit *fit)
{
    fprintf(stderr, "%s: %s\n", fit->resumable ? "stopped and saved" : "error", fit->message);
    return fit->resumable ? EXIT_SAVED : EXIT_FAILURE;
}

/* Removes the checkpoint, which is not needed once the results are out. */
static inline void run_forget(const run *r)
{
    char older[4096];
    if (!r->options.checkpoint) return;
    snprintf(older, sizeof older, "%s.old", r->options.checkpoint);
    remove(older);
    remove(r->options.checkpoint);
}

/* ---- data ------------------------------------------------------------------------------------------- */

/* Reads N rows that belong to units from a file of Stan JSON, which has the number of units under the name
   `count`: n_columns columns of N numbers, the first n_whole of them integers. Returns N, or 0 with a text; the
   caller frees file. */
static inline size_t run_read(const char *path, const char *count, size_t *n_units, const char *const *names,
                              int n_columns, int n_whole, gpumc_data *file, const gpumc_variable **columns,
                              gpumc_error *error)
{
    const gpumc_variable *units, *N;
    if (gpumc_read_json(path, file, error) != GPUMC_OK) return 0;
    units = gpumc_data_get(file, count, 1, 1, error);
    N = units ? gpumc_data_get(file, "N", 1, 1, error) : NULL;
    if (!N) return 0;
    if (units->values[0] < 1 || N->values[0] < 1) {
        snprintf(error->text, sizeof error->text, "%s: %s and N must be at least 1", path, count);
        return 0;
    }
    *n_units = (size_t)units->values[0];
    for (int k = 0; k < n_columns; k++) {
        columns[k] = gpumc_data_get(file, names[k], (size_t)N->values[0], k < n_whole, error);
        if (!columns[k]) return 0;
    }
    return (size_t)N->values[0];
}

/* ---- results ---------------------------------------------------------------------------------------- */

/* The true values of a block, where the data are drawn from the model itself. */
typedef struct run_truth { const char *block; const double *values; size_t n; } run_truth;

/* Whether the 90 % interval of a column holds x. */
static inline int run_holds(const gpumc_fit *fit, size_t column, double x)
{
    const gpumc_summary s = gpumc_summarise(fit, column);
    return s.q5 <= x && x <= s.q95;
}

/* Prints of a single value whether its interval holds the truth, of several how many intervals do. */
static inline void run_compare(const gpumc_fit *fit, const run_truth *list, size_t n)
{
    printf("90 %% intervals that hold the truth:");
    for (size_t k = 0; k < n; k++) {
        size_t block = 0, held = 0;
        while (strcmp(fit->blocks[block].name, list[k].block) != 0) block++;
        for (size_t j = 0; j < list[k].n; j++)
            held += (size_t)run_holds(fit, fit->blocks[block].offset + j, list[k].values[j]);
        printf("%s %s ", k ? "," : "", list[k].block);
        if (list[k].n == 1) printf("%s", held ? "yes" : "no");
        else printf("%.0f of %.0f", (double)held, (double)list[k].n);
    }
    printf("\n");
}

/* Writes the files that were asked for. */
static inline int run_write(const run *r, const gpumc_fit *fit)
{
    gpumc_error error;
    if (r->summary && gpumc_write_summary_csv(fit, r->summary, &error) != GPUMC_OK)
        return run_failed(error.text);
    if (r->csv && gpumc_write_stan_csv(fit, r->csv, &error) != GPUMC_OK)
        return run_failed(error.text);
    if (r->output && gpumc_write_store(fit, r->output, r->store, &error) != GPUMC_OK)
        return run_failed(error.text);
    if (r->report && gpumc_write_report(fit, NULL, r->report, &error) != GPUMC_OK)
        return run_failed(error.text);
    return EXIT_SUCCESS;
}

/* One line of totals; the run is over. */
static inline int run_totals(const run *r, const gpumc_fit *fit)
{
    printf("gradients=%.0f divergences=%.0f warmup_s=%.4f sampling_s=%.4f\n",
           (double)(fit->warmup_gradients + fit->sampling_gradients), (double)fit->n_divergent,
           fit->warmup_seconds, fit->sampling_seconds);
    if (fflush(stdout) != 0) return run_failed("the totals could not be printed");
    run_forget(r);
    return EXIT_SUCCESS;
}

/* Writes the files that were asked for and ends with the totals. */
static inline int run_finish(const run *r, const gpumc_fit *fit)
{ return run_write(r, fit) == EXIT_SUCCESS ? run_totals(r, fit) : EXIT_FAILURE; }

/* Writes the files before it prints: the reader of the output may quit early, as head does after some lines. */
static inline int run_report(const run *r, const gpumc_fit *fit)
{
    const int written = run_write(r, fit);
    if (gpumc_print_summary(fit, stdout) != GPUMC_OK) return run_failed("the summary could not be printed");
    return written == EXIT_SUCCESS ? run_totals(r, fit) : written;
}

/* Samples, compares with the truth where that is known (n > 0) and reports. */
static inline int run_model(const run *r, const gpumc_model *model, const run_truth *list, size_t n)
{
    gpumc_fit fit;
    int status;
    if (run_sample(r, model, &fit) != GPUMC_OK) status = run_ended(&fit);
    else {
        if (n > 0) run_compare(&fit, list, n);
        status = run_report(r, &fit);
    }
    gpumc_free(&fit);
    return status;
}
#endif
