/* stop_signal_data.h: trials of the stop-signal task, and the parameters that the models share.

   Times are in seconds, delays in whole milliseconds. C99; include after gpumc.h.
   Parts: the structures; models and their parameters; tables of text; the reader of trials. */
#ifndef STOP_SIGNAL_DATA_H
#define STOP_SIGNAL_DATA_H

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

enum { SS_NONE = -1 /* no response; no stop signal */ };

typedef struct ss_trial {
    int subject;              /* from 0 */
    int stimulus;             /* 0 or 1 */
    int response;             /* 0, 1 or SS_NONE; correct when it equals the stimulus */
    double rt;                /* seconds; NAN without a response */
    int ssd_ms;               /* SS_NONE: a go trial */
    int run;                  /* from 0; a staircase starts anew with each */
} ss_trial;

/* Trials are sorted by subject and keep the order of the file within one. */
typedef struct ss_data {
    size_t n_subjects, n_trials, n_covariates;
    ss_trial *trials;
    char **subject_names;     /* n_subjects */
    char **covariate_names;   /* n_covariates */
    double *covariates;       /* of covariate c and subject i: [c * n_subjects + i], as in the file */
    char *text;               /* that the names point into */
} ss_data;

#define SS_TRUNCATION 0.05    /* seconds after the stop signal: no stop process ends earlier, by default */

/* ---- models and their parameters ----------------------------------------------------------------- */

typedef enum ss_kind {
    SS_RDEX_ABCD,             /* 11 parameters: racing diffusions, context-independence violation */
    SS_RDEX,                  /* without the violation: no v0, no g */
    SS_RDEX_A,                /* RDEX with start-point variability */
    SS_BEESTS,                /* one ex-Gaussian go runner: no errors */
    SS_BEESTS2,               /* one ex-Gaussian for each choice */
    SS_BEESTS_NOFAIL,         /* BEESTS and its like without go and trigger failures */
    SS_BEESTS2_NOFAIL,
    SS_WALD,                  /* go responses only, the winner's density alone: the baseline */
    SS_N_KINDS
} ss_kind;

/* A parameter has the same number in all models; arrays of a subject's parameters have SS_N_PARAMETERS values.
   */
typedef enum ss_parameter {
    SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF,
    SS_A, SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR,
    SS_N_PARAMETERS
} ss_parameter;

typedef struct ss_parameter_info {
    const char *name;
    double typical;           /* median of the simulated group and of the prior */
    double spread;            /* between subjects, on the unconstrained scale (log; probit where `probit`) */
    double prior_sd;          /* of the group's location */
    int probit;
} ss_parameter_info;

static inline const ss_parameter_info *ss_parameter_get(int k)
{
    static const ss_parameter_info table[SS_N_PARAMETERS] = {
        { "B", 1.25, 0.20, 0.5, 0 },        { "t0", 0.16, 0.30, 0.5, 0 },
        { "v_plus", 3.3, 0.18, 0.5, 0 },    { "v_minus", 0.5, 0.60, 1.0, 0 },
        { "v0", 2.1, 0.25, 0.6, 0 },        { "g", 5, 0.40, 1.0, 0 },
        { "mu", 0.16, 0.30, 0.5, 0 },       { "sigma", 0.05, 0.50, 0.8, 0 },
        { "tau", 0.07, 0.50, 0.8, 0 },      { "pgf", 0.03, 0.5, 1.0, 1 },
        { "ptf", 0.10, 0.5, 1.0, 1 },       { "A", 0.5, 0.30, 0.8, 0 },
        { "mu_go", 0.45, 0.20, 0.5, 0 },    { "sigma_go", 0.08, 0.30, 0.8, 0 },
        { "tau_go", 0.10, 0.40, 0.8, 0 },   { "mu_err", 0.65, 0.20, 0.5, 0 },
        { "sigma_err", 0.12, 0.30, 0.8, 0 }, { "tau_err", 0.15, 0.40, 0.8, 0 },
    };
    return &table[k];
}

typedef struct ss_kind_info {
    const char *name;
    int n;
    int parameters[12];       /* ss_parameter, in the order of the model's blocks */
} ss_kind_info;

static inline const ss_kind_info *ss_kind_get(ss_kind kind)
{
    static const ss_kind_info table[SS_N_KINDS] = {
        { "rdex_abcd", 11, { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU,
                             SS_PGF, SS_PTF } },
        { "rdex", 9, { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } },
        { "rdex_a", 10, { SS_B, SS_A, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PGF,
                          SS_PTF } },
        { "beests", 8, { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } },
        { "beests2", 11, { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR, SS_MU,
                           SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } },
        { "beests_nofail", 6, { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU, SS_SIGMA, SS_TAU } },
        { "beests2_nofail", 9, { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR,
                                 SS_MU, SS_SIGMA, SS_TAU } },
        { "wald", 4, { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS } },
    };
    return &table[kind];
}

/* How many ex-Gaussian go processes a model has; 0: diffusions. */
static inline int ss_ex_gaussians(ss_kind kind)
{
    return kind == SS_BEESTS || kind == SS_BEESTS_NOFAIL ? 1
         : kind == SS_BEESTS2 || kind == SS_BEESTS2_NOFAIL ? 2 : 0;
}
static inline int ss_has(ss_kind kind, ss_parameter parameter)
{
    const ss_kind_info *info = ss_kind_get(kind);
    for (int k = 0; k < info->n; k++)
        if (info->parameters[k] == (int)parameter) return 1;
    return 0;
}

static inline void ss_data_free(ss_data *d)
{
    free(d->trials);
    free(d->subject_names);
    free(d->covariate_names);
    free(d->covariates);
    free(d->text);
    memset(d, 0, sizeof *d);
}

/* ---- tables of text ------------------------------------------------------------------------------ */

/* Records what is wrong and returns 0. */
static inline int ss_fail(gpumc_error *error, gpumc_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return 0;
}

/* A CSV file in memory. Fields are strings in place: the character that ends one becomes its zero. They may be
   quoted, with "" for a quote, but do not extend over the end of a line. */
typedef struct ss_table {
    const char *path;
    char *text, *at, *end;
    size_t line;              /* of the row last read, from 1 */
    size_t n_columns;
    char **names, **fields;   /* of the columns; those of the row last read */
    char delimiter;
    gpumc_error *error;
} ss_table;

static inline void ss_table_close(ss_table *t)
{
    free(t->text);
    free(t->names);
    free(t->fields);
    memset(t, 0, sizeof *t);
}

static inline int ss_table_fail(ss_table *t, size_t column, const char *format, ...)
{
    char what[160], where[64] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (column < t->n_columns && t->names)
        snprintf(where, sizeof where, ", column %.0f (%.32s)", (double)column + 1, t->names[column]);
    return ss_fail(t->error, GPUMC_ERROR_FORMAT, "%.60s: line %.0f%s: %s", t->path, (double)t->line, where,
                   what);
}

static inline int ss_file_fail(gpumc_error *error, const char *path, const char *what)
{
    return ss_fail(error, GPUMC_ERROR_FILE, "%.120s: cannot be %s: %s", path, what, strerror(errno));
}

/* The whole file with a zero behind it; NULL with a text on error. */
static inline char *ss_file_text(const char *path, size_t *length, gpumc_error *error)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL, *larger;
    size_t room = 1 << 16, got = 1;
    if (!file) { ss_file_fail(error, path, "opened"); return NULL; }
    for (*length = 0; got > 0; *length += got, room += room / 2) {
        larger = (char *)realloc(text, room + 1);
        if (!larger) { ss_fail(error, GPUMC_ERROR_MEMORY, "%.120s: out of memory", path); break; }
        text = larger;
        got = fread(text + *length, 1, room - *length, file);
    }
    if (got > 0 || ferror(file)) {
        if (got == 0) ss_file_fail(error, path, "read");
        free(text);
        text = NULL;
    }
    fclose(file);
    if (text) text[*length] = '\0';
    return text;
}

/* The length in bytes of the UTF-8 character at `at`; 0 if it is not UTF-8, or is a control character other
   than those that separate lines and fields. */
static inline int ss_character(const unsigned char *at, const unsigned char *end)
{
    const int n = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
    if (*at < 0x80) return (*at >= 32 && *at < 127) || *at == '\t' || *at == '\r' || *at == '\n';
    if (*at < 0xc0 || *at > 0xf4 || n > end - at) return 0;
    for (int k = 1; k < n; k++) if ((at[k] & 0xc0) != 0x80) return 0;
    return n;
}

/* Checks the whole text before any line is read: UTF-8, without control characters, not empty, and not cut. */
static inline int ss_table_sound(ss_table *t, size_t length)
{
    const unsigned char *head = (const unsigned char *)t->text;
    if (length >= 2 && ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff)))
        return ss_fail(t->error, GPUMC_ERROR_FORMAT, "%.80s: the text is UTF-16; save it as UTF-8", t->path);
    if (memchr(t->text, '\0', length))
        return ss_fail(t->error, GPUMC_ERROR_FORMAT, "%.80s: not a text (it holds a zero byte)", t->path);
    if (length == 0) return ss_fail(t->error, GPUMC_ERROR_FORMAT, "%.80s: the file is empty", t->path);
    if (length >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) t->at += 3;
    t->line = 1;
    for (int n; head < (const unsigned char *)t->end; head += n) {
        n = ss_character(head, (const unsigned char *)t->end);
        if (n == 0)
            return ss_table_fail(t, SIZE_MAX, "a control character, or text that is not UTF-8; save it as UTF-8");
        t->line += *head == '\n';
    }
    t->line = 0;
    if (t->end[-1] == '\n') return 1;
    for (t->line = 1, head = (const unsigned char *)t->at; head < (const unsigned char *)t->end; head++)
        t->line += *head == '\n';
    return ss_table_fail(t, SIZE_MAX, "the line does not end: is the file cut? (if not, end it)");
}

/* Removes the quotes of a field in place; NULL where the closing quote is missing or is followed by neither
   delimiter nor end of line. */
static inline char *ss_table_quoted(ss_table *t)
{
    char *to = t->at, *field = t->at++;
    for (; t->at < t->end && *t->at != '\n'; *to++ = *t->at++) {
        if (*t->at != '"') continue;
        if (t->at[1] != '"') break;
        t->at++;
    }
    if (t->at == t->end || *t->at != '"') return NULL;
    t->at++;
    *to = '\0';
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\r')) t->at++;
    return t->at < t->end && *t->at != '\n' && *t->at != t->delimiter ? NULL : field;
}

/* The next field, without spaces around it; *ended: whether it is the last of its line. */
static inline char *ss_table_field(ss_table *t, int *ended)
{
    char *field, *end;
    while (t->at < t->end && *t->at == ' ') t->at++;
    if (t->at < t->end && *t->at == '"') field = ss_table_quoted(t);
    else {
        field = t->at;
        while (t->at < t->end && *t->at != '\n' && *t->at != t->delimiter) t->at++;
    }
    if (!field) return NULL;
    *ended = t->at == t->end || *t->at == '\n';
    end = t->at;
    if (t->at < t->end) t->at++;
    while (end > field && (end[-1] == ' ' || end[-1] == '\r')) end--;
    *end = '\0';
    return field;
}

/* Reads a row of as many fields as there are columns. */
static inline int ss_table_row(ss_table *t)
{
    int ended = 0;
    t->line++;
    for (size_t k = 0; k < t->n_columns; k++) {
        if (ended)
            return ss_table_fail(t, k, "the row ends after %.0f of %.0f fields", (double)k,
                                 (double)t->n_columns);
        t->fields[k] = ss_table_field(t, &ended);
        if (!t->fields[k]) return ss_table_fail(t, k, "a quote that does not end before its field does");
    }
    return ended || ss_table_fail(t, SIZE_MAX, "more fields than the %.0f columns", (double)t->n_columns);
}

/* The most frequent of the possible delimiters in the line of names; a comma if there is none. */
static inline char ss_table_delimiter(const ss_table *t)
{
    static const char candidates[] = ",;\t";
    size_t most = 0;
    char best = ',';
    for (const char *c = candidates; *c; c++) {
        size_t n = 0;
        for (const char *p = t->at; p < t->end && *p != '\n'; p++) n += *p == *c;
        if (n > most) { most = n; best = *c; }
    }
    return best;
}

/* Opens a file and reads the names of its columns. */
static inline int ss_table_open(ss_table *t, const char *path, gpumc_error *error)
{
    size_t length = 0, n = 1;
    memset(t, 0, sizeof *t);
    t->path = path;
    t->error = error;
    t->text = ss_file_text(path, &length, error);
    if (!t->text) return 0;
    t->at = t->text;
    t->end = t->text + length;
    if (!ss_table_sound(t, length)) return 0;
    t->delimiter = ss_table_delimiter(t);
    for (const char *p = t->at; p < t->end && *p != '\n'; p++) n += *p == t->delimiter;
    t->names = (char **)calloc(n, sizeof *t->names);
    t->fields = (char **)calloc(n, sizeof *t->fields);
    if (!t->names || !t->fields) return ss_fail(error, GPUMC_ERROR_MEMORY, "%.120s: out of memory", path);
    for (int ended = 0; !ended; t->n_columns++) {
        t->line = 1;
        t->names[t->n_columns] = ss_table_field(t, &ended);
        if (!t->names[t->n_columns]) return ss_table_fail(t, SIZE_MAX, "a name whose quotes do not match");
    }
    return 1;
}

/* Whether rows are left; empty lines may only stand at the end. */
static inline int ss_table_more(const ss_table *t)
{
    const char *p = t->at;
    while (p < t->end && (*p == '\r' || *p == '\n')) p++;
    return p < t->end;
}

/* The column whose name is the `length` letters at name; SIZE_MAX when there is none. */
static inline size_t ss_table_column(const ss_table *t, const char *name, size_t length)
{
    for (size_t k = 0; k < t->n_columns; k++)
        if (strlen(t->names[k]) == length && strncmp(t->names[k], name, length) == 0) return k;
    return SIZE_MAX;
}

/* ---- the reader of trials ------------------------------------------------------------------------ */

#define SS_FASTEST 0.15       /* seconds: faster responses are anticipations */
#define SS_LONGEST 10.0       /* seconds: longer ones show that the unit is wrong */

typedef struct ss_read_options {
    const char *columns;      /* the file's names of subject,stimulus,response,rt,ssd; NULL: these */
    const char *covariates;   /* columns with one number a subject, separated by commas */
    const char *none;         /* a further code of no response, and of no delay unless that is a number from 0 on */
    int milliseconds;         /* rt and ssd are in milliseconds, not seconds */
    double fastest;           /* seconds; 0: SS_FASTEST, negative: none is dropped */
    double deadline;          /* seconds; later responses count as none; 0: all count */
    int step_ms;              /* of the delays; 0: 50 */
    int join;                 /* a subject may be in several files */
    int keep_go_only;         /* subjects without a stop trial stay */
} ss_read_options;

typedef enum ss_reason { SS_TOO_FAST, SS_NO_GO_RESPONSES, SS_NO_STOP_TRIALS, SS_N_REASONS } ss_reason;

static inline const char *ss_reason_text(ss_reason reason)
{
    static const char *const texts[SS_N_REASONS] = {
        "responses faster than the bound (anticipations)",
        "subjects without a response on a go trial (nothing says how fast they go)",
        "subjects without a stop trial (nothing says how they stop; go_only=keep keeps them)",
    };
    return texts[reason];
}

typedef struct ss_exclusion {
    ss_reason reason;
    const char *subject;
    size_t file, line, n_trials;          /* one trial, or all of a subject (line: the first) */
    double rt;
} ss_exclusion;

typedef struct ss_reading {
    ss_data data;
    ss_exclusion *excluded;
    size_t n_excluded;
    size_t n_read, n_subjects_read;       /* before exclusions */
    size_t n_late;                        /* responses after the deadline */
    char codes[2][32];                    /* of stimuli 0 and 1 */
} ss_reading;

/* While reading: rows in the order of the files, and what is known of each subject. */
typedef struct ss_row { ss_trial trial; size_t file, line; } ss_row;
typedef struct ss_subject {
    size_t name;              /* where it starts in text */
    size_t file, line;        /* where it was first seen */
    size_t n_trials, n_go, n_stop, n_go_responses, n_kept;
    int dropped;
} ss_subject;

enum { SS_SUBJECT, SS_STIMULUS, SS_RESPONSE, SS_RT, SS_SSD, SS_N_NEEDED, SS_SIGNAL = SS_N_NEEDED, SS_RUN,
       SS_N_COLUMNS, SS_MAX_COVARIATES = 16 };

typedef struct ss_reader {
    const ss_read_options *options;
    ss_table table;
    size_t at[SS_N_COLUMNS];              /* number of each column, or SIZE_MAX */
    size_t covariate_at[SS_MAX_COVARIATES], n_covariates;
    size_t file;
    ss_row *rows;
    ss_subject *subjects;
    double *covariates;                   /* [subject][n_covariates] */
    size_t *slots;                        /* hash table of subjects + 1; 0: free */
    char *text;                           /* names of subjects and covariates */
    size_t n_rows, n_subjects, n_late, n_text, n_slots;
    size_t room_rows, room_subjects, room_covariates, room_text;
    char codes[2][32];
    gpumc_error *error;
} ss_reader;

/* Makes room for n items; 0 when out of memory. */
static inline int ss_room(void *items_pointer, size_t *room, size_t n, size_t each, gpumc_error *error)
{
    void *items, *larger;
    size_t wanted = *room ? *room : 64;
    if (n <= *room) return 1;
    while (wanted < n) wanted += wanted / 2;
    memcpy(&items, items_pointer, sizeof items);
    larger = wanted < SIZE_MAX / each ? realloc(items, wanted * each) : NULL;
    if (!larger) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory (%.0f items)", (double)wanted);
    memcpy(items_pointer, &larger, sizeof larger);
    *room = wanted;
    return 1;
}

/* Appends a string and its zero to text; *at gets the offset where it starts. */
static inline int ss_reader_text(ss_reader *r, const char *text, size_t length, size_t *at)
{
    if (!ss_room(&r->text, &r->room_text, r->n_text + length + 1, 1, r->error)) return 0;
    *at = r->n_text;
    memcpy(r->text + r->n_text, text, length);
    r->text[r->n_text + length] = '\0';
    r->n_text += length + 1;
    return 1;
}

/* -- columns -- */

static inline int ss_missing_column(ss_reader *r, const char *name, size_t length)
{
    const ss_table *t = &r->table;
    char found[120] = "";
    for (size_t k = 0, n = 0; k < t->n_columns && n < sizeof found; k++)
        n += (size_t)snprintf(found + n, sizeof found - n, "%s%.40s", k ? ", " : "", t->names[k]);
    return ss_fail(r->error, GPUMC_ERROR_FORMAT, "%.60s: line 1: no column \"%.*s\"; found: %s", t->path,
                   (int)(length < 40 ? length : 40), name, found);
}

/* The next of some names separated by commas; NULL at the end. */
static inline const char *ss_next_name(const char *names, size_t *length)
{
    names += *length;
    names += *names == ',';
    *length = strcspn(names, ",");
    return *names ? names : NULL;
}

/* Finds the columns by the names in the first line. */
static inline int ss_reader_columns(ss_reader *r)
{
    const ss_table *t = &r->table;
    const char *name = r->options->columns ? r->options->columns : "subject,stimulus,response,rt,ssd";
    size_t length = 0;
    for (size_t j = 0; j < t->n_columns; j++)
        for (size_t k = 0; k < j; k++)
            if (strcmp(t->names[j], t->names[k]) == 0)
                return ss_fail(r->error, GPUMC_ERROR_FORMAT, "%.60s: line 1: two columns \"%.40s\"", t->path,
                               t->names[j]);
    for (size_t k = 0; k < SS_N_NEEDED; k++) {
        name = ss_next_name(name, &length);
        if (!name) return ss_fail(r->error, GPUMC_ERROR_ARGUMENT, "columns= must give five names: those of "
                                  "subject, stimulus, response, rt and ssd");
        r->at[k] = ss_table_column(t, name, length);
        if (r->at[k] == SIZE_MAX) return ss_missing_column(r, name, length);
    }
    r->at[SS_SIGNAL] = ss_table_column(t, "signal", 6);
    r->at[SS_RUN] = ss_table_column(t, "run", 3);
    name = r->options->covariates ? r->options->covariates : "";
    length = r->n_covariates = 0;
    while ((name = ss_next_name(name, &length)) != NULL) {
        const size_t c = r->n_covariates++;
        if (c == SS_MAX_COVARIATES)
            return ss_fail(r->error, GPUMC_ERROR_ARGUMENT, "more than %d covariates", SS_MAX_COVARIATES);
        r->covariate_at[c] = ss_table_column(t, name, length);
        if (r->covariate_at[c] == SIZE_MAX) return ss_missing_column(r, name, length);
    }
    return 1;
}

/* -- fields -- */

static inline int ss_same_word(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a | 32) != (*b | 32)) return 0;
    return *a == *b;
}

static inline int ss_is_missing(const ss_reader *r, const char *text)
{
    return text[0] == '\0' || ss_same_word(text, "na") || ss_same_word(text, "nan")
           || ss_same_word(text, "none") || (r->options->none && strcmp(text, r->options->none) == 0);
}

/* A number, or NAN where it is missing. If the code for no response is itself a number from 0 on, it counts as
   that number here: a delay of 0, a run 0. */
static inline int ss_reader_number(ss_reader *r, size_t column, double *value)
{
    const char *text = r->table.fields[column];
    char *end;
    *value = strtod(text, &end);
    const int is_number = end != text && *end == '\0' && isfinite(*value);
    if (ss_is_missing(r, text) && !(is_number && *value >= 0)) {
        *value = NAN;
        return 1;
    }
    return is_number
           || ss_table_fail(&r->table, column, "\"%.24s\" is not a number%s", text,
                            strchr(text, ',') ? " (decimals want a point)" : "");
}

/* A time in seconds, or NAN. */
static inline int ss_reader_time(ss_reader *r, size_t column, double *seconds)
{
    const int ms = r->options->milliseconds;
    if (!ss_reader_number(r, column, seconds)) return 0;
    if (*seconds < 0)
        return ss_table_fail(&r->table, column, "a negative time, %.10g (empty or NA where there is none)",
                             *seconds);
    if (ms) *seconds /= 1000;
    if (!(*seconds > SS_LONGEST)) return 1;
    return ss_table_fail(&r->table, column, "%.10g seconds are implausible%s", *seconds,
                         ms ? "" : "; is the file in milliseconds (unit=ms)?");
}

/* The number of a stimulus or response code; two are known at most. */
static inline int ss_reader_code(ss_reader *r, size_t column, int *code)
{
    const char *text = r->table.fields[column];
    if (*text == '\0' || strlen(text) >= sizeof r->codes[0])
        return ss_table_fail(&r->table, column, *text ? "a code too long" : "the code is missing");
    for (*code = 0; *code < 2; ++*code) {
        if (r->codes[*code][0] == '\0') snprintf(r->codes[*code], sizeof r->codes[0], "%s", text);
        if (strcmp(r->codes[*code], text) == 0) return 1;
    }
    return ss_table_fail(&r->table, column, "unknown code \"%.24s\": stimuli and responses have \"%.16s\" "
                         "and \"%.16s\"%s", text, r->codes[0], r->codes[1],
                         column == r->at[SS_RESPONSE] ? " (none=CODE if it is no response)" : "");
}

static inline int ss_reader_delay(ss_reader *r, ss_trial *trial)
{
    const int step = r->options->step_ms ? r->options->step_ms : 50;
    const size_t column = r->at[SS_SSD];
    double ssd, steps;
    if (!ss_reader_time(r, column, &ssd)) return 0;
    trial->ssd_ms = SS_NONE;
    if (isnan(ssd)) return 1;
    steps = floor(1000 * ssd / step + 0.5);
    trial->ssd_ms = (int)steps * step;
    return fabs(1000 * ssd - trial->ssd_ms) <= 0.5
           || ss_table_fail(&r->table, column, "a delay of %.10g ms is no multiple of %d ms (step=1 takes "
                            "any; is the unit right?)", 1000 * ssd, step);
}

/* With a column "signal" (0 or go, 1 or stop) exactly its stop trials must have delays. */
static inline int ss_reader_signal(ss_reader *r, const ss_trial *trial)
{
    const size_t column = r->at[SS_SIGNAL];
    const char *text;
    if (column == SIZE_MAX) return 1;
    text = r->table.fields[column];
    if (ss_same_word(text, "1") || ss_same_word(text, "stop"))
        return trial->ssd_ms != SS_NONE
               || ss_table_fail(&r->table, r->at[SS_SSD], "a stop trial without a delay");
    if (ss_same_word(text, "0") || ss_same_word(text, "go"))
        return trial->ssd_ms == SS_NONE
               || ss_table_fail(&r->table, r->at[SS_SSD], "a go trial with a delay, %d ms", trial->ssd_ms);
    return ss_table_fail(&r->table, column, "\"%.24s\" is neither 0, 1, go nor stop", text);
}

static inline int ss_reader_run(ss_reader *r, ss_trial *trial)
{
    double number = (double)r->file;
    if (r->at[SS_RUN] != SIZE_MAX && !ss_reader_number(r, r->at[SS_RUN], &number)) return 0;
    if (!(number >= 0 && number <= 1e6 && number == floor(number)))
        return ss_table_fail(&r->table, r->at[SS_RUN], "a run must be a whole number from 0");
    trial->run = (int)number;
    return 1;
}

/* Reads response and time; a time of 0 stands for no response. A response after the deadline counts as none. */
static inline int ss_reader_response(ss_reader *r, ss_trial *trial)
{
    const size_t response = r->at[SS_RESPONSE], rt = r->at[SS_RT];
    if (!ss_reader_time(r, rt, &trial->rt)) return 0;
    trial->response = SS_NONE;
    if (ss_is_missing(r, r->table.fields[response])) {
        if (trial->rt > 0)
            return ss_table_fail(&r->table, rt, "a time, %.10g s, without a response", trial->rt);
        trial->rt = NAN;
        return 1;
    }
    if (isnan(trial->rt)) return ss_table_fail(&r->table, rt, "a response without a time");
    if (!ss_reader_code(r, response, &trial->response)) return 0;
    if (r->options->deadline > 0 && trial->rt > r->options->deadline) {
        trial->response = SS_NONE;
        trial->rt = NAN;
        r->n_late++;
    }
    return 1;
}

/* -- subjects -- */

static inline size_t ss_hash(const char *text)
{
    uint64_t h = 1469598103934665603u;                       /* FNV-1a */
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return (size_t)(h ^ h >> 29);
}

/* The slot of a name: its own, or the free one that it would take. */
static inline size_t *ss_reader_slot(const ss_reader *r, const char *name)
{
    size_t at = ss_hash(name) & (r->n_slots - 1);
    while (r->slots[at] && strcmp(r->text + r->subjects[r->slots[at] - 1].name, name) != 0)
        at = (at + 1) & (r->n_slots - 1);
    return &r->slots[at];
}

static inline int ss_reader_rehash(ss_reader *r)
{
    const size_t n_slots = r->n_slots ? 2 * r->n_slots : 64;
    size_t *slots = (size_t *)calloc(n_slots, sizeof *slots);
    if (!slots) return ss_fail(r->error, GPUMC_ERROR_MEMORY, "out of memory");
    free(r->slots);
    r->slots = slots;
    r->n_slots = n_slots;
    for (size_t i = 0; i < r->n_subjects; i++) *ss_reader_slot(r, r->text + r->subjects[i].name) = i + 1;
    return 1;
}

/* Stores the covariates of a new subject; those of a known one must be the same. */
static inline int ss_reader_covariates(ss_reader *r, size_t subject, int is_new)
{
    const size_t needed = (subject + 1) * r->n_covariates;
    double *own;
    if (!ss_room(&r->covariates, &r->room_covariates, needed, sizeof *own, r->error)) return 0;
    own = r->covariates + subject * r->n_covariates;
    for (size_t c = 0; c < r->n_covariates; c++) {
        double value;
        if (!ss_reader_number(r, r->covariate_at[c], &value)) return 0;
        if (isnan(value)) return ss_table_fail(&r->table, r->covariate_at[c], "the covariate is missing");
        if (is_new) own[c] = value;
        else if (own[c] != value)
            return ss_table_fail(&r->table, r->covariate_at[c], "%.10g, but %.10g before for this subject",
                                 value, own[c]);
    }
    return 1;
}

static inline int ss_reader_subject(ss_reader *r, size_t *subject)
{
    const char *name = r->table.fields[r->at[SS_SUBJECT]];
    size_t *slot;
    int is_new;
    if (*name == '\0') return ss_table_fail(&r->table, r->at[SS_SUBJECT], "the subject is missing");
    if (2 * r->n_subjects >= r->n_slots && !ss_reader_rehash(r)) return 0;
    slot = ss_reader_slot(r, name);
    is_new = *slot == 0;
    if (is_new) {
        ss_subject s = { 0 };
        s.file = r->file;
        s.line = r->table.line;
        if (!ss_reader_text(r, name, strlen(name), &s.name)) return 0;
        if (!ss_room(&r->subjects, &r->room_subjects, r->n_subjects + 1, sizeof s, r->error)) return 0;
        r->subjects[r->n_subjects] = s;
        *slot = ++r->n_subjects;
    }
    *subject = *slot - 1;
    if (!r->options->join && r->subjects[*subject].file != r->file)
        return ss_table_fail(&r->table, r->at[SS_SUBJECT], "\"%.40s\" is in an earlier file, too (join=yes "
                             "if it is the same person)", name);
    return r->n_covariates == 0 || ss_reader_covariates(r, *subject, is_new);
}

static inline int ss_reader_row(ss_reader *r)
{
    ss_row row = { { 0 }, 0, 0 };
    ss_subject *s;
    size_t subject = 0;
    if (!ss_table_row(&r->table) || !ss_reader_subject(r, &subject)) return 0;
    if (!ss_reader_code(r, r->at[SS_STIMULUS], &row.trial.stimulus)) return 0;
    if (!ss_reader_response(r, &row.trial) || !ss_reader_delay(r, &row.trial)) return 0;
    if (!ss_reader_signal(r, &row.trial) || !ss_reader_run(r, &row.trial)) return 0;
    if (!ss_room(&r->rows, &r->room_rows, r->n_rows + 1, sizeof row, r->error)) return 0;
    row.trial.subject = (int)subject;
    row.file = r->file;
    row.line = r->table.line;
    r->rows[r->n_rows++] = row;
    s = &r->subjects[subject];
    s->n_trials++;
    if (row.trial.ssd_ms != SS_NONE) s->n_stop++;
    else s->n_go++;
    return 1;
}

static inline int ss_reader_file(ss_reader *r, const char *path)
{
    if (!ss_table_open(&r->table, path, r->error) || !ss_reader_columns(r)) return 0;
    while (ss_table_more(&r->table))
        if (!ss_reader_row(r)) return 0;
    if (r->table.line == 1)
        return ss_fail(r->error, GPUMC_ERROR_FORMAT, "%.120s: no rows below the names", path);
    ss_table_close(&r->table);
    return 1;
}

/* -- exclusions -- */

static inline double ss_fastest(const ss_read_options *o)
{
    return o->fastest != 0 ? o->fastest : SS_FASTEST;
}

/* Checks that need the whole file: times too short for the unit, and subjects without a go trial. */
static inline int ss_reader_plausible(ss_reader *r)
{
    size_t n = 0, tiny = 0;
    for (size_t i = 0; i < r->n_rows; i++) {
        n += r->rows[i].trial.response != SS_NONE;
        tiny += r->rows[i].trial.rt < 0.01;
    }
    if (2 * tiny > n)
        return ss_fail(r->error, GPUMC_ERROR_FORMAT, "%.0f of %.0f responses come within 10 ms: is the unit "
                       "right%s?", (double)tiny, (double)n, r->options->milliseconds ? " (unit=s)" : "");
    for (size_t i = 0; i < r->n_subjects; i++)
        if (r->subjects[i].n_go == 0)
            return ss_fail(r->error, GPUMC_ERROR_FORMAT, "subject \"%.40s\": every trial has a delay; on go "
                           "trials it must be empty or NA", r->text + r->subjects[i].name);
    return 1;
}

static inline int ss_is_fast(const ss_reader *r, const ss_trial *trial)
{
    return trial->response != SS_NONE && trial->rt < ss_fastest(r->options);
}

/* Drops trials, then subjects by the trials that are left. */
static inline void ss_reader_drop(ss_reader *r)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        const ss_trial *trial = &r->rows[i].trial;
        ss_subject *s = &r->subjects[trial->subject];
        if (ss_is_fast(r, trial)) continue;
        s->n_kept++;
        s->n_go_responses += trial->ssd_ms == SS_NONE && trial->response != SS_NONE;
    }
    for (size_t i = 0; i < r->n_subjects; i++) {
        ss_subject *s = &r->subjects[i];
        s->dropped = s->n_go_responses == 0 || (s->n_stop == 0 && !r->options->keep_go_only);
    }
}

/* Why a subject is dropped. */
static inline ss_reason ss_reader_why(const ss_subject *s)
{
    return s->n_go_responses == 0 ? SS_NO_GO_RESPONSES : SS_NO_STOP_TRIALS;
}

/* Lists dropped subjects and the dropped trials of the others; only counts if list is NULL. Returns their
   number. */
static inline size_t ss_reader_exclusions(const ss_reader *r, ss_exclusion *list)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_subjects; i++) {
        const ss_subject *s = &r->subjects[i];
        const ss_exclusion e = { ss_reader_why(s), r->text + s->name, s->file, s->line, s->n_trials, NAN };
        if (s->dropped && list) list[n] = e;
        n += (size_t)s->dropped;
    }
    for (size_t i = 0; i < r->n_rows; i++) {
        const ss_row *row = &r->rows[i];
        const ss_subject *s = &r->subjects[row->trial.subject];
        const ss_exclusion e = { SS_TOO_FAST, r->text + s->name, row->file, row->line, 1, row->trial.rt };
        const int fast = !s->dropped && ss_is_fast(r, &row->trial);
        if (fast && list) list[n] = e;
        n += (size_t)fast;
    }
    return n;
}

/* -- the result -- */

/* Names and covariates of the subjects that are kept. */
static inline int ss_reader_subjects(ss_reader *r, ss_data *d)
{
    size_t at[SS_MAX_COVARIATES];
    const char *name = r->options->covariates;
    for (size_t c = 0, length = 0; c < r->n_covariates; c++) {
        name = ss_next_name(name, &length);
        if (!ss_reader_text(r, name, length, &at[c])) return 0;
    }
    for (size_t i = 0; i < r->n_subjects; i++) d->n_subjects += !r->subjects[i].dropped;
    if (d->n_subjects == 0)
        return ss_fail(r->error, GPUMC_ERROR_FORMAT, "no subject is left: all %.0f are left out, the last of the %s",
                       (double)r->n_subjects, ss_reason_text(ss_reader_why(&r->subjects[r->n_subjects - 1])));
    d->n_covariates = r->n_covariates;
    d->subject_names = (char **)calloc(d->n_subjects, sizeof *d->subject_names);
    d->covariate_names = (char **)calloc(d->n_covariates + 1, sizeof *d->covariate_names);
    d->covariates = (double *)calloc(d->n_subjects * d->n_covariates + 1, sizeof *d->covariates);
    if (!d->subject_names || !d->covariate_names || !d->covariates)
        return ss_fail(r->error, GPUMC_ERROR_MEMORY, "out of memory (%.0f subjects)", (double)d->n_subjects);
    for (size_t c = 0; c < d->n_covariates; c++) d->covariate_names[c] = r->text + at[c];
    for (size_t i = 0, kept = 0; i < r->n_subjects; i++) {
        if (r->subjects[i].dropped) continue;
        d->subject_names[kept] = r->text + r->subjects[i].name;
        for (size_t c = 0; c < d->n_covariates; c++)
            d->covariates[c * d->n_subjects + kept] = r->covariates[i * r->n_covariates + c];
        kept++;
    }
    return 1;
}

/* Whether the codes are to be exchanged: stimulus 0 is the one that sorts first, whichever the file has first.
   */
static inline int ss_codes_swapped(const ss_reader *r)
{
    return r->codes[1][0] != '\0' && strcmp(r->codes[0], r->codes[1]) > 0;
}

/* Stores the kept trials, sorted by subject. */
static inline int ss_reader_trials(ss_reader *r, ss_data *d)
{
    const int swapped = ss_codes_swapped(r);
    size_t *next = (size_t *)malloc(2 * r->n_subjects * sizeof *next), *number = next + r->n_subjects;
    if (!next) return ss_fail(r->error, GPUMC_ERROR_MEMORY, "out of memory");
    for (size_t i = 0, kept = 0; i < r->n_subjects; i++) {
        next[i] = d->n_trials;
        number[i] = kept;
        if (r->subjects[i].dropped) continue;
        d->n_trials += r->subjects[i].n_kept;
        kept++;
    }
    d->trials = (ss_trial *)malloc(d->n_trials * sizeof *d->trials);
    for (size_t i = 0; i < r->n_rows && d->trials; i++) {
        ss_trial trial = r->rows[i].trial;
        const size_t subject = (size_t)trial.subject;
        if (r->subjects[subject].dropped || ss_is_fast(r, &trial)) continue;
        trial.subject = (int)number[subject];
        if (swapped) trial.stimulus = 1 - trial.stimulus;
        if (swapped && trial.response != SS_NONE) trial.response = 1 - trial.response;
        d->trials[next[subject]++] = trial;
    }
    free(next);
    return d->trials
           || ss_fail(r->error, GPUMC_ERROR_MEMORY, "out of memory (%.0f trials)", (double)d->n_trials);
}

static inline void ss_reading_free(ss_reading *reading)
{
    free(reading->excluded);
    ss_data_free(&reading->data);
    memset(reading, 0, sizeof *reading);
}

/* Completes the result, which takes over text: its names point there. */
static inline int ss_reader_finish(ss_reader *r, ss_reading *out)
{
    ss_data *d = &out->data;
    const int swapped = ss_codes_swapped(r);
    if (!ss_reader_plausible(r)) return 0;
    ss_reader_drop(r);
    if (!ss_reader_subjects(r, d) || !ss_reader_trials(r, d)) return 0;
    out->n_excluded = ss_reader_exclusions(r, NULL);
    out->excluded = (ss_exclusion *)malloc((out->n_excluded + 1) * sizeof *out->excluded);
    if (!out->excluded) return ss_fail(r->error, GPUMC_ERROR_MEMORY, "out of memory");
    ss_reader_exclusions(r, out->excluded);
    out->n_read = r->n_rows;
    out->n_subjects_read = r->n_subjects;
    out->n_late = r->n_late;
    memcpy(out->codes[0], r->codes[swapped], sizeof out->codes[0]);
    memcpy(out->codes[1], r->codes[!swapped], sizeof out->codes[1]);
    d->text = r->text;
    r->text = NULL;
    return 1;
}

/* Reads the files of paths, separated by commas. options may be NULL. Returns 0 with a text on error. */
static inline int ss_read(const char *paths, const ss_read_options *options, ss_reading *out,
                          gpumc_error *error)
{
    static const ss_read_options defaults = { 0 };
    ss_reader r;
    char path[1024];
    int ok = 1;
    memset(&r, 0, sizeof r);
    memset(out, 0, sizeof *out);
    r.options = options ? options : &defaults;
    r.error = error;
    for (size_t length = 0; ok && (paths = ss_next_name(paths, &length)) != NULL; r.file++) {
        snprintf(path, sizeof path, "%.*s", (int)length, paths);
        ok = ss_reader_file(&r, path);
        ss_table_close(&r.table);
    }
    if (ok && r.n_rows == 0) ok = ss_fail(error, GPUMC_ERROR_ARGUMENT, "no file of trials was named");
    if (ok) ok = ss_reader_finish(&r, out);
    if (!ok) ss_reading_free(out);
    free(r.rows);
    free(r.subjects);
    free(r.covariates);
    free(r.slots);
    free(r.text);
    return ok;
}
#endif
