/* Readers against damaged input: texts and files with bytes changed, dropped and inserted, drawn from a fixed
   seed. A reader accepts what it gets, and then what it returns holds together, or refuses it with a text;
   under the sanitizers (test_sanitize.sh) it must not read, write or compute what it may not either. */
#define _XOPEN_SOURCE 700
#include "../gpumc.h"
#include "check.h"
#include "folder.h"
#include <ftw.h>

enum { ROOM = 1 << 16, MOST_FILES = 200 };
static gpumc_rng rng;
static char damaged[ROOM];

static const char *const pieces[] = {
    "-", "1e308", "1e999", "99999999999999999999", "NaN", "null", "[", "]", "{", "}", "\"", "\\u0000",
    "\\ud800", ",", ":", "\n", "\r", "#", "\xff", ".", "e", "0"
};

/* A damaged copy of a text; returns its length. */
static size_t damage(const char *text, size_t length)
{
    const size_t at = gpumc_rng_below(&rng, length + 1), left = length - at;
    const char *piece = pieces[gpumc_rng_below(&rng, sizeof pieces / sizeof *pieces)];
    size_t n = strlen(piece), cut = gpumc_rng_below(&rng, 9);
    memcpy(damaged, text, length);
    switch (gpumc_rng_below(&rng, 5)) {
    case 0: return at;                                             /* cut off */
    case 1:                                                        /* a piece too much */
        memcpy(damaged + at, piece, n);
        memcpy(damaged + at + n, text + at, left);
        return length + n;
    case 2:                                                        /* some bytes too few */
        if (cut > left) cut = left;
        memcpy(damaged + at, text + at + cut, left - cut);
        return length - cut;
    case 3:                                                        /* another piece in their place */
        if (n > left) n = left;
        memcpy(damaged + at, piece, n);
        return length;
    default:
        for (int k = 0; k < 3; k++) damaged[gpumc_rng_below(&rng, length)] = (char)gpumc_rng_below(&rng, 256);
        return length;
    }
}

/* Shapes match counts, names can be found, numbers survive being written. */
static int holds_together(const gpumc_data *d)
{
    for (size_t k = 0; k < d->n_variables; k++) {
        const gpumc_variable *v = &d->variables[k];
        size_t n = 1;
        for (size_t i = 0; i < v->n_dims; i++) n *= v->dims[i];
        if (n != v->n_values || !gpumc_data_get(d, v->name, 0, 0, NULL)) return 0;
        for (size_t i = 0; i < n; i++) {
            char text[32];
            gpumc_format_number(v->values[i], text);
            if (check_distance(strtod(text, NULL), v->values[i], 0) > 0) return 0;
        }
    }
    return 1;
}

typedef gpumc_status parser(const char *text, size_t length, gpumc_data *data, gpumc_error *error);

static void fuzz_text(const char *text, parser *parse)
{
    const int n_tries = getenv("QUICK") ? 5000 : 50000;
    int accepted = 0, refused = 0, wrong = 0;
    for (int k = 0; k < n_tries; k++) {
        const size_t length = damage(text, strlen(text));
        char *exact = malloc(length ? length : 1);                 /* a sanitizer sees one byte too far */
        gpumc_data d;
        gpumc_error error = { GPUMC_OK, "" };
        memset(&d, 0, sizeof d);
        memcpy(exact, damaged, length);
        if (parse(exact, length, &d, &error) == GPUMC_OK) {
            accepted++;
            wrong += !holds_together(&d);
            if (d.n_variables) {
                d.variables[0].n_values++;
                wrong += holds_together(&d);
            }
        } else {
            refused++;
            wrong += !error.text[0] || error.status == GPUMC_OK || d.n_variables > 0;
        }
        gpumc_data_free(&d);
        free(exact);
    }
    CHECK(wrong == 0, "%d of %d damaged texts like %.20s", wrong, n_tries, text);
    CHECK(accepted > n_tries / 100 && refused > n_tries / 100, "%d accepted, %d refused", accepted, refused);
}

static gpumc_status parse_csv(const char *text, size_t length, gpumc_data *d, gpumc_error *error)
{ return gpumc_parse_csv(text, length, NULL, d, error); }

/* ---- stores and metrics -------------------------------------------------------------------------- */

static char files[MOST_FILES][300];
static size_t n_files;

static int list_file(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)where;
    if (type == FTW_F && n_files < MOST_FILES) snprintf(files[n_files++], sizeof *files, "%s", path);
    return 0;
}
static int remove_any(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static size_t file_read(const char *path, char *text)
{
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(text, 1, ROOM / 2, file) : 0;
    if (file) fclose(file);
    return n;
}
static int n_unwritten;
static void file_write(const char *path, const char *text, size_t n)
{
    FILE *file = fopen(path, "wb");
    const int whole = file && fwrite(text, 1, n, file) == n;
    if (!file || fclose(file) != 0 || !whole) n_unwritten++;
}

static double log_density(const double *x, double *grad, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 1, &grad[0], NULL, NULL);
    (void)data;
    for (int j = 1; j < 4; j++) lp += gpumc_normal_lpdf(x[j], x[0], 1, &grad[j], &grad[0], NULL);
    return lp;
}

/* One file at a time, restored afterwards. What is read must be of the shape that was written; damage to what
   merging does not read is not seen. */
static void fuzz_files(void)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "theta", .size = 3 } };
    static const gpumc_model model = { .name = "m", .params = params, .n_params = 2,
                                       .log_density = log_density };
    static char text[ROOM / 2];
    const gpumc_sample_options o = { .num_chains = 2, .num_warmup = 40, .num_samples = 20 };
    const int n_tries = getenv("QUICK") ? 500 : 5000;
    const char *store = in_folder("a");
    gpumc_fit fit;
    gpumc_error error;
    int accepted = 0, refused = 0, wrong = 0;
    CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
    CHECK(gpumc_write_store(&fit, store, NULL, &error) == GPUMC_OK, "%s", error.text);
    nftw(store, list_file, 8, 0);
    CHECK(gpumc_write_metric_json(&fit, in_folder("metric.json"), &error) == GPUMC_OK, "%s", error.text);
    gpumc_free(&fit);
    CHECK(n_files > 20, "%d files in a store", (int)n_files);
    for (int k = 0; k < n_tries; k++) {
        const char *file = files[gpumc_rng_below(&rng, n_files)];
        const size_t length = file_read(file, text);
        if (length == 0) continue;
        file_write(file, damaged, damage(text, length));
        if (gpumc_merge(&store, 1, NULL, &fit) == GPUMC_OK) {
            accepted++;
            wrong += fit.n_chains != 2 || fit.n_draws > 20 || fit.n_columns != 4;
        } else {
            refused++;
            wrong += fit.message[0] == 0;
        }
        gpumc_free(&fit);
        file_write(file, text, length);
    }
    CHECK(wrong == 0, "%d of %d damaged stores", wrong, n_tries);
    CHECK(accepted > 0 && refused > 0, "%d accepted, %d refused", accepted, refused);
}

static void fuzz_metric(void)
{
    static char text[ROOM / 2];
    const char *path = in_folder("metric.json");
    const size_t length = file_read(path, text);
    int wrong = 0, accepted = 0;
    for (int k = 0; k < 2000; k++) {
        gpumc_metric metric;
        gpumc_error error = { GPUMC_OK, "" };
        double step_size = 0;
        memset(&metric, 0, sizeof metric);
        file_write(path, damaged, damage(text, length));
        if (gpumc_read_metric_json(path, NULL, &metric, &step_size, &error) == GPUMC_OK) {
            accepted++;
            for (size_t i = 0; i < metric.dim; i++) wrong += !(metric.scale[i] > 0);
            wrong += !(step_size >= 0);
        } else wrong += !error.text[0];
        gpumc_metric_free(NULL, &metric);
    }
    CHECK(wrong == 0 && accepted > 0, "%d of 2000 damaged metrics, %d accepted", wrong, accepted);
}

int main(void)
{
    rng = gpumc_rng_at(1, 0, 0, 0);
    fuzz_text("{\"J\": 8, \"y\": [1.5, -2, 3e10], \"m\": [[1, 2], [3, 4]], \"z\": \"NaN\", \"e\": []}",
              gpumc_parse_json);
    fuzz_text("a,b,\"c \"\"d\"\"\"\n1,2,3\n4,NA,\"6\"\r\n-1e-300,inf,.5\n", parse_csv);
    if (folder_open("fuzz")) {
        fuzz_files();
        fuzz_metric();
        CHECK(n_unwritten == 0, "%d files cannot be written", n_unwritten);
        nftw(folder, remove_any, 8, FTW_DEPTH);
    }
    return check_end();
}
