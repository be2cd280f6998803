/* Stores, .npy, tidy CSV and metric files: every byte of a small store, every kind of array, stores that are
   read back, merged and streamed, and everything that can be refused: names, labels, shapes, folders, each
   write and each allocation in turn. After a failure nothing is left on the disk. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

/* ---- a system that refuses ----------------------------------------------------------------------------- */

static size_t io_calls, io_refuse_at, io_die_at;

/* Counts a call that can fail. 1: it is to fail as on a full disk, as are all after it. */
static int io_refused(void)
{
    if (io_die_at && ++io_calls == io_die_at) raise(SIGKILL);
    if (!io_refuse_at || ++io_calls < io_refuse_at) return 0;
    errno = ENOSPC;
    return 1;
}

static FILE *fopen_or_not(const char *path, const char *mode)
{
    return *mode != 'r' && io_refused() ? NULL : fopen(path, mode);
}
static int fflush_or_not(FILE *file) { return io_refused() ? EOF : fflush(file); }
static int fsync_or_not(int file) { return file < 0 || io_refused() ? -1 : 0; } /* no wait for a disk */
static int syncfs_or_not(int file) { return file < 0 || io_refused() ? -1 : 0; }
static int rename_or_not(const char *from, const char *to) { return io_refused() ? -1 : rename(from, to); }
static int ftruncate_or_not(int file, off_t n) { return io_refused() ? -1 : ftruncate(file, n); }
static int remove_or_not(const char *path) { return io_die_at && io_refused() ? -1 : remove(path); }
static int mkdir_or_not(const char *path, mode_t mode) { return io_refused() ? -1 : mkdir(path, mode); }
static int fclose_or_not(FILE *file)
{
    const int no = io_refused(), result = fclose(file);
    return no ? EOF : result;
}
static size_t fwrite_or_not(const void *bytes, size_t each, size_t n, FILE *file)
{
    return io_refused() ? n / 2 : fwrite(bytes, each, n, file);
}
static int vfprintf_or_not(FILE *file, const char *format, va_list arguments)
{
    return io_refused() ? -1 : vfprintf(file, format, arguments);
}

#define fopen fopen_or_not
#define fflush fflush_or_not
#define fsync fsync_or_not
#define syncfs syncfs_or_not
#define rename rename_or_not
#define ftruncate ftruncate_or_not
#define remove remove_or_not
#define mkdir mkdir_or_not
#define fclose fclose_or_not
#define fwrite fwrite_or_not
#define vfprintf vfprintf_or_not
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#undef fopen
#undef fflush
#undef fsync
#undef syncfs
#undef rename
#undef ftruncate
#undef remove
#undef mkdir
#undef fclose
#undef fwrite
#undef vfprintf
#include "ledger.h"
#include "folder.h"

/* ---- tools --------------------------------------------------------------------------------------------- */

/* The whole file, with its length, to be freed; NULL when there is none. */
static char *read_bytes(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 20);
    *n = 0;
    if (file) *n = fread(bytes, 1, (1 << 20) - 1, file);
    if (file) fclose(file);
    else { free(bytes); bytes = NULL; }
    return bytes;
}

/* Doubles from the little-endian bytes of a file, on a machine of either byte order. */
static void take_doubles(double *to, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        for (size_t k = 0; k < 8; k++) bits |= (uint64_t)(unsigned char)bytes[8 * i + k] << 8 * k;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) CHECK(0, "cannot write %s", path);
}

typedef struct listing { char paths[4000][160]; size_t n; } listing;

static int by_bytes(const void *a, const void *b) { return strcmp(a, b); }

/* Lists all files below a folder; with remove_them, these and the folders in it are removed. */
static void list_files(const char *root, const char *below, listing *l, int remove_them)
{
    char path[900];
    DIR *directory;
    const struct dirent *entry;
    snprintf(path, sizeof path, "%s/%s", root, below);
    directory = opendir(path);
    while (directory && (entry = readdir(directory)) != NULL) {
        char inner[160];
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%.70s%s%.80s", below, *below ? "/" : "", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", root, inner);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            list_files(root, inner, l, remove_them);
            if (remove_them) rmdir(path);
        } else {
            if (l->n < 4000) strcpy(l->paths[l->n++], inner);
            if (remove_them) remove(path);
        }
    }
    if (directory) closedir(directory);
    if (!*below) qsort(l->paths, l->n, sizeof *l->paths, by_bytes);
}

static listing *list(const char *root)
{
    static listing l;
    l.n = 0;
    list_files(root, "", &l, 0);
    return &l;
}

/* Empties the test's folder. Returns how many files and folders were in it, not counting what lies in the latter. */
static size_t clean(void)
{
    static listing l;
    struct stat st;
    DIR *directory = opendir(folder);
    size_t n = 0;
    while (readdir(directory)) n++;
    closedir(directory);
    l.n = 0;
    list_files(folder, "", &l, 1);
    CHECK(stat(folder, &st) == 0, "the folder is gone");
    return n - 2;
}

/* Whether a file holds these bytes. */
static int holds(const char *path, const void *bytes, size_t n)
{
    size_t length;
    char *text = read_bytes(path, &length);
    const int same = text && length == n && memcmp(text, bytes, n) == 0;
    if (!same) printf("%s: %.*s\n", path, (int)(length < 2000 ? length : 2000), text ? text : "(none)");
    free(text);
    return same;
}

static int says(const char *path, const char *text) { return holds(path, text, strlen(text)); }

#define REFUSED(call, wanted, ...) do { \
    gpumc_error error = { GPUMC_OK, "" }; \
    static const char *const words[] = { __VA_ARGS__ }; \
    const gpumc_status got = (call); \
    CHECK(got == (wanted) && error.status == got, "%s: status %d, %s", #call, got, error.text); \
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) \
        CHECK(strstr(error.text, words[w]), "no \"%s\" in: %s", words[w], error.text); \
    CHECK(strlen(error.text) < sizeof error.text - 1, "cut off: %s", error.text); \
} while (0)

/* ---- the store of the format's specification ----------------------------------------------------------- */

static size_t eight[1] = { 2 };
static double small_draws[2 * 4 * 3] = { 0.5, 1, 2, 1.5, 3, 4, 2.5, 5, 6, 99, 99, 99,
                                         0.25, 7, 8, 1.25, 9, 10, 2.25, 11, 12, 99, 99, 99 };
static gpumc_draw_stats small_stats[2 * 4];

/* Two chains of three draws, in room for four. */
static gpumc_fit small_fit(void)
{
    static gpumc_block blocks[] = { { "mu", NULL, 0, 0, 1, 0, GPUMC_GENERATED },
                                    { "theta", eight, 1, 1, 2, 0, GPUMC_GENERATED } };
    gpumc_fit fit;
    memset(&fit, 0, sizeof fit);
    memset(small_stats, 0, sizeof small_stats);
    small_stats[2].divergent = 7;                          /* any value but 0 counts */
    for (int i = 0; i < 8; i++) small_stats[i].tree_depth = i - 2;
    fit.model_name = "small";
    fit.n_chains = 2;
    fit.n_draws = 3;
    fit.draw_capacity = 4;
    fit.n_columns = fit.n_params_columns = 3;
    fit.blocks = blocks;
    fit.n_blocks = 2;
    fit.draws = small_draws;
    fit.stats = small_stats;
    fit.n_warmup = 200;
    fit.sampling_seconds = 0.25;
    fit.options.seed = 18446744073709551615u;
    return fit;
}

static const char *const schools[] = { "A", "Bb" };
static const gpumc_dimension school = { "theta", 0, "school", schools };

#define ARRAY(chunks, type, fill, shape) \
    "{\"chunks\":[" chunks "],\"compressor\":null,\"dtype\":\"" type "\",\"fill_value\":" fill \
    ",\"filters\":null,\"order\":\"C\",\"shape\":[" shape "],\"zarr_format\":2}"

static void check_bytes(void)
{
    static const struct { const char *path, *text; } texts[] = {
        { ".zgroup", "{\"zarr_format\":2}" },
        { ".zattrs", "{\"creation_library\":\"gpumc\",\"creation_library_language\":\"C\","
                     "\"creation_library_version\":\"0.1.0\",\"name\":\"small\"}" },
        { "posterior/.zgroup", "{\"zarr_format\":2}" },
        { "posterior/.zattrs", "{\"inference_library\":\"gpumc\",\"inference_library_version\":\"0.1.0\","
          "\"created_at\":\"2026-01-31T12:00:00+00:00\",\"sample_dims\":[\"chain\",\"draw\"],"
          "\"sampled_variables\":[\"mu\",\"theta\"],\"seed\":18446744073709551615,\"tuning_steps\":200,"
          "\"gpumc_stopped_early\":0,\"sampling_time\":0.25}" },
        { "posterior/chain/.zarray", ARRAY("2", "<i8", "null", "2") },
        { "posterior/chain/.zattrs", "{\"_ARRAY_DIMENSIONS\":[\"chain\"]}" },
        { "posterior/draw/.zarray", ARRAY("3", "<i8", "null", "3") },
        { "posterior/mu/.zarray", ARRAY("2,3", "<f8", "\"NaN\"", "2,3") },
        { "posterior/mu/.zattrs", "{\"_ARRAY_DIMENSIONS\":[\"chain\",\"draw\"]}" },
        { "posterior/school/.zarray", ARRAY("2", "<U2", "null", "2") },
        { "posterior/school/.zattrs", "{\"_ARRAY_DIMENSIONS\":[\"school\"]}" },
        { "posterior/theta/.zarray", ARRAY("2,3,2", "<f8", "\"NaN\"", "2,3,2") },
        { "posterior/theta/.zattrs", "{\"_ARRAY_DIMENSIONS\":[\"chain\",\"draw\",\"school\"]}" },
        { "sample_stats/diverging/.zarray", ARRAY("2,3", "|b1", "null", "2,3") },
        { "sample_stats/tree_depth/.zarray", ARRAY("2,3", "<i8", "null", "2,3") },
    };
    /* 0.5, 1.5 and so on are exact: only the upper bytes are not 0 */
    static const unsigned char mu[] = { 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f,
                                        0, 0, 0, 0, 0, 0, 0x04, 0x40, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f,
                                        0, 0, 0, 0, 0, 0, 0xf4, 0x3f, 0, 0, 0, 0, 0, 0, 0x02, 0x40 };
    static const unsigned char labels[] = { 'A', 0, 0, 0, 0, 0, 0, 0, 'B', 0, 0, 0, 'b', 0, 0, 0 };
    static const unsigned char draw[24] = { [8] = 1, [16] = 2 }, diverging[6] = { 0, 0, 1 };
    static const unsigned char depth[48] = { [24] = 2, [32] = 3, [40] = 4,
                                             [0] = 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                             0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    const gpumc_store_options options = { .dimensions = &school, .n_dimensions = 1,
                                          .created_at = "2026-01-31T12:00:00+00:00" };
    static const char *const reals[] = { "lp", "acceptance_rate", "accept_sym", "step_size", "energy", "energy_error",
                                         "max_energy_error", "fisher_residual" };
    static const unsigned char n_steps[48] = { 10, [8] = 11, [16] = 12, [24] = 14, [32] = 15, [40] = 16 };
    static const unsigned char selected[48] = { 20, [8] = 21, [16] = 22, [24] = 24, [32] = 25, [40] = 26 };
    static const unsigned char reached[6] = { 0, 1, 0, 0, 1, 0 };
    gpumc_fit fit = small_fit();
    gpumc_error error;
    char store[128], path[400];
    for (int i = 0; i < 8; i++) {                          /* each its own: names and members must not be mixed up */
        gpumc_draw_stats *s = &small_stats[i];
        s->lp = 100 + i;
        s->accept_stat = 200 + i;
        s->accept_sym = 300 + i;
        s->step_size = 400 + i;
        s->energy = 500 + i;
        s->energy_error = 600 + i;
        s->max_energy_error = 700 + i;
        s->fisher_residual = 800 + i;
        s->n_leapfrog = 10 + i;
        s->selected = 20 + i;
        s->hit_max_treedepth = i % 4 == 1;
    }
    snprintf(store, sizeof store, "%s", in_folder("small.zarr"));
    CHECK(gpumc_write_store(&fit, store, &options, &error) == GPUMC_OK, "%s", error.text);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(path, sizeof path, "%s/%s", store, texts[i].path);
        CHECK(says(path, texts[i].text), "%s", texts[i].path);
    }
#define HOLDS(file, bytes) \
    snprintf(path, sizeof path, "%s/%s", store, file); \
    CHECK(holds(path, bytes, sizeof bytes), file)
    HOLDS("posterior/mu/0.0", mu);
    HOLDS("posterior/school/0", labels);
    HOLDS("posterior/draw/0", draw);
    HOLDS("sample_stats/diverging/0.0", diverging);
    HOLDS("sample_stats/tree_depth/0.0", depth);
    for (size_t k = 0; k < sizeof reals / sizeof *reals; k++) {
        size_t n;
        double values[6] = { 0 };
        snprintf(path, sizeof path, "%s/sample_stats/%s/0.0", store, reals[k]);
        char *bytes = read_bytes(path, &n);
        CHECK(bytes && n == sizeof values, "%s: %d bytes", reals[k], (int)n);
        if (bytes) take_doubles(values, bytes, 6);
        for (size_t i = 0; i < 6; i++)
            CHECK(values[i] == (double)(100 * (k + 1) + (i < 3 ? i : i + 1)), "%s %d is %g", reals[k], (int)i,
                  values[i]);
        free(bytes);
    }
    HOLDS("sample_stats/n_steps/0.0", n_steps);
    HOLDS("sample_stats/selected/0.0", selected);
    HOLDS("sample_stats/reached_max_treedepth/0.0", reached);
    const listing *all = list(store);
    CHECK(all->n == 4 + 2 + 2 * 3 + 3 + 3 + 3 + 2 + 2 * 3 + 13 * 3, "%d files", (int)all->n);
    clean();
    CHECK(gpumc_write_store(&fit, in_folder("folder.zarr///"), NULL, NULL) == GPUMC_OK
          && list(in_folder("folder.zarr"))->n > 0, "a path that ends with a slash");
    clean();
}

/* .zmetadata holds every other metadata file, in order of paths. */
static int consolidated_is_sound(const char *store)
{
    const listing *all = list(store);
    char *wanted = calloc(1, 1 << 20), path[900];
    size_t n, at = (size_t)sprintf(wanted, "{\"metadata\":{");
    int sound;
    for (size_t i = 0, some = 0; i < all->n; i++) {
        const char *name = strrchr(all->paths[i], '/') ? strrchr(all->paths[i], '/') + 1 : all->paths[i];
        if (name[0] != '.' || strcmp(name, ".zmetadata") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", store, all->paths[i]);
        char *text = read_bytes(path, &n);
        at += (size_t)sprintf(wanted + at, "%s\"%s\":%s", some++ ? "," : "", all->paths[i], text);
        free(text);
    }
    strcpy(wanted + at, "},\"zarr_consolidated_format\":1}");
    snprintf(path, sizeof path, "%s/.zmetadata", store);
    sound = says(path, wanted);
    free(wanted);
    return sound;
}

/* ---- a model with everything --------------------------------------------------------------------------- */

static const size_t two_by_three[] = { 2, 3 };
static const gpumc_param rich_params[] = {
    { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
    { .name = "theta", .size = 3, .location = "mu", .scale = "tau" },
    { .name = "p", .kind = GPUMC_SIMPLEX, .size = 3 },
    { .name = "A", .dims = two_by_three, .n_dims = 2 },
};
static const gpumc_output rich_outputs[] = {
    { .name = "log_lik", .size = 3, .group = GPUMC_LOG_LIKELIHOOD },
    { .name = "twice" },
    { .name = "y_rep", .size = 3, .group = GPUMC_POSTERIOR_PREDICTIVE },
};

static double rich_density(const double *x, double *grad, void *data)
{
    double lp =
        gpumc_normal_lpdf(x[0], 0, 1, &grad[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 1, &grad[1], NULL);
    (void)data;
    for (int j = 0; j < 3; j++) {
        lp += gpumc_normal_lpdf(x[2 + j], x[0], x[1], &grad[2 + j], &grad[0], &grad[1]);
        lp += gpumc_normal_lpdf(j, x[2 + j], 1, NULL, &grad[2 + j], NULL);
    }
    for (int j = 0; j < 6; j++) lp += gpumc_normal_lpdf(x[8 + j], 0, 1 + j, &grad[8 + j], NULL, NULL);
    return lp;
}

static void rich_generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)data;
    for (int j = 0; j < 3; j++) out[j] = gpumc_normal_lpdf(j, x[2 + j], 1, NULL, NULL, NULL);
    out[3] = 2 * x[0];
    for (int j = 0; j < 3; j++) out[4 + j] = x[2 + j] + gpumc_rng_normal(rng);
}

static const gpumc_model rich = { .name = "rich",
                                  .params = rich_params,
                                  .n_params = 5,
                                  .log_density = rich_density,
                                  .generate = rich_generate,
                                  .outputs = rich_outputs,
                                  .n_outputs = 3 };
static const gpumc_sample_options rich_options = {
    .num_chains = 3, .num_warmup = 80, .num_samples = 60, .seed = 5, .sampler = GPUMC_SAMPLER_NUTS, .thin = 2
};

static gpumc_fit rich_fit(gpumc_sample_options options)
{
    gpumc_fit fit;
    CHECK(gpumc_sample(&rich, &options, &fit) == GPUMC_OK, "%s", fit.message);
    return fit;
}

/* Data parsed from JSON, for observed or constant data: valid until the next call. */
static const gpumc_data *some_data(const char *text)
{
    static gpumc_data data;
    static gpumc_error error;
    gpumc_data_free(&data);
    CHECK(gpumc_parse_json(text, strlen(text), &data, &error) == GPUMC_OK, "%s", error.text);
    return &data;
}

static void check_groups(void)
{
    static const char *const names[] = { "Z\303\274rich", "\360\237\220\270", "" };
    static const gpumc_dimension dimensions[] = {
        { "theta", 0, "city", names }, { "y_rep", 0, "city", names }, { "A", 1, "column", NULL },
        { "y", 0, "city", names }, { "log_lik", 0, NULL, names },
    };
    gpumc_sample_options sampling = rich_options;
    gpumc_store_options options = { .dimensions = dimensions, .n_dimensions = 5 };
    gpumc_error error = { GPUMC_OK, "" };
    char store[128], path[500];
    gpumc_data constant = { 0 };
    sampling.save_warmup = sampling.save_unconstrained = 1;
    gpumc_fit fit = rich_fit(sampling);
    options.observed_data = some_data("{\"y\":[1.5,2,3],\"n\":3,\"none\":[],\"counts\":[[1,2],[3,-4]]}");
    CHECK(gpumc_parse_json("{\"x\":[0.5,1.5]}", 15, &constant, &error) == GPUMC_OK, "%s", error.text);
    options.constant_data = &constant;
    snprintf(store, sizeof store, "%s", in_folder("rich"));
    CHECK(gpumc_write_store(&fit, store, &options, &error) == GPUMC_OK, "%s", error.text);
    gpumc_data_free(&constant);
    CHECK(consolidated_is_sound(store), "metadata");
    static const struct { const char *path, *text;
    } texts[] = {
        { "posterior/theta/.zattrs", "{\"_ARRAY_DIMENSIONS\":[\"chain\",\"draw\",\"city\"]}" },
        { "posterior/A/.zattrs", "{\"_ARRAY_DIMENSIONS\":[\"chain\",\"draw\",\"A_dim_0\",\"column\"]}" },
        { "posterior/A/.zarray", ARRAY("3,60,2,3", "<f8", "\"NaN\"", "3,60,2,3") },
        { "posterior/city/.zarray", ARRAY("3", "<U6", "null", "3") },
        { "log_likelihood/log_lik_dim_0/.zarray", ARRAY("3", "<U6", "null", "3") },
        { "unconstrained_posterior/p/.zarray", ARRAY("3,60,2", "<f8", "\"NaN\"", "3,60,2") },
        { "warmup_posterior/p/.zarray", ARRAY("3,80,3", "<f8", "\"NaN\"", "3,80,3") },
        { "warmup_sample_stats/draw/.zarray", ARRAY("80", "<i8", "null", "80") },
        { "observed_data/n/.zarray", ARRAY("", "<i8", "null", "") },
        { "observed_data/n/.zattrs", "{\"_ARRAY_DIMENSIONS\":[]}" },
        { "observed_data/none/.zarray", ARRAY("1", "<i8", "null", "0") },
        { "observed_data/y/.zarray", ARRAY("3", "<f8", "\"NaN\"", "3") },
        { "constant_data/x/.zarray", ARRAY("2", "<f8", "\"NaN\"", "2") },
        { "constant_data/x/.zattrs", "{\"_ARRAY_DIMENSIONS\":[\"x_dim_0\"]}" },
        { "observed_data/.zattrs",
          "{\"inference_library\":\"gpumc\",\"inference_library_version\":\"0.1.0\"}" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(path, sizeof path, "%s/%s", store, texts[i].path);
        CHECK(says(path, texts[i].text), "%s", texts[i].path);
    }
    static const unsigned char city[72] = { 'Z', 0, 0,   0, 0xfc, 0, 0,   0, 'r', 0, 0,    0,    'i', 0,
                                            0,   0, 'c', 0, 0,    0, 'h', 0, 0,   0, 0x38, 0xf4, 1,   0 };
    static const unsigned char counts[32] = { 1, 0, 0,    0,    0,    0,    0,    0,    2,    0,   0,
                                              0, 0, 0,    0,    0,    3,    0,    0,    0,    0,   0,
                                              0, 0, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    static const unsigned char three[8] = { 3 };
    HOLDS("posterior/city/0", city);
    HOLDS("observed_data/counts/0.0", counts);
    static const unsigned char halves[16] = { [6] = 0xe0, 0x3f, [14] = 0xf8, 0x3f };
    HOLDS("observed_data/n/0", three);
    HOLDS("constant_data/x/0", halves);
    snprintf(path, sizeof path, "%s/observed_data/none/0", store);
    CHECK(access(path, F_OK) != 0, "an empty array has a file");
    snprintf(path, sizeof path, "%s/unconstrained_posterior/A", store);
    CHECK(access(path, F_OK) != 0, "what is not transformed has free coordinates");
    snprintf(path, sizeof path, "%s/unconstrained_posterior/theta", store);
    CHECK(access(path, F_OK) != 0, "elements of a hierarchy are free coordinates themselves");
    snprintf(path, sizeof path, "%s/warmup_posterior/twice", store);
    CHECK(access(path, F_OK) != 0, "generated quantities in warm-up");
    for (size_t c = 0; c < 3; c++) {                       /* free coordinates and warm-up, value by value */
        double free_tau[180], warm_p[720];
        size_t n, same = 0;
        char *bytes;
        snprintf(path, sizeof path, "%s/unconstrained_posterior/tau/0.0", store);
        bytes = read_bytes(path, &n);
        CHECK(bytes && n == sizeof free_tau, "%d bytes", (int)n);
        if (bytes) take_doubles(free_tau, bytes, sizeof free_tau / 8);
        for (size_t i = 0; i < 60; i++)
            same += fabs(exp(free_tau[c * 60 + i]) / fit.draws[(c * 60 + i) * fit.n_columns + 1] - 1) < 1e-12;
        free(bytes);
        snprintf(path, sizeof path, "%s/warmup_posterior/p/0.0.0", store);
        bytes = read_bytes(path, &n);
        CHECK(bytes && n == sizeof warm_p, "%d bytes", (int)n);
        if (bytes) take_doubles(warm_p, bytes, sizeof warm_p / 8);
        for (size_t i = 0; i < 240; i++)
            same += warm_p[c * 240 + i] == fit.warmup_draws[(c * 80 + i / 3) * fit.n_columns + 5 + i % 3];
        free(bytes);
        CHECK(same == 300, "%d values", (int)same);
    }
    gpumc_free(&fit);
    clean();
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void check_refusals(void)
{
    static const char *const bad_labels[] = { "A", "\303" }, *const no_label[] = { "A", NULL };
    static char long_name[400];
    static const gpumc_dimension wrong[] = {
        { "theta", 1, "school", NULL }, { "psi", 0, "school", NULL }, { "theta", 0, "a b", NULL },
        { "theta", 0, "chain", NULL }, { "theta", 0, "MU", NULL }, { "theta", 0, "school", bad_labels },
        { "theta", 0, "school", no_label }, { NULL, 0, "school", NULL }, { "theta", 0, long_name, NULL },
        { "theta", 0, "../x", NULL },
    };
    static const char *const said[][2] = {
        { "dimension 1 of \"theta\"", "there is none" },
        { "\"psi\"", "there is none" },
        { "\"a b\"", "letters" },
        { "\"chain\"", "not chain" },
        { "\"MU\"", "letter case" },
        { "label 2", "UTF-8" },
        { "label 2", "NULL" },
        { "\"\"", "there is none" },
        { "llll", "at most 200 letters" },
        { "\"../x\"", "letters" },
    };
    gpumc_fit fit = small_fit(), none = small_fit();
    gpumc_store_options options = { .n_dimensions = 1 };
    const char *path = in_folder("refused");
    struct stat st;
    ledger l = { 0 };
    fit.allocator = none.allocator = ledger_allocator(&l);
    memset(long_name, 'l', sizeof long_name - 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gpumc_error error = { GPUMC_OK, "" };
        options.dimensions = &wrong[i];
        CHECK(gpumc_write_store(&fit, path, &options, &error) == GPUMC_ERROR_ARGUMENT
                  && strstr(error.text, said[i][0]) && strstr(error.text, said[i][1]),
              "%d: %s", (int)i, error.text);
        CHECK(clean() == 0 && l.live == 0, "something is left");
    }
    memset(&options, 0, sizeof options);
    options.observed_data = some_data("{\"y y\":1}");
    REFUSED(gpumc_write_store(&fit, path, &options, &error), GPUMC_ERROR_ARGUMENT, "\"y y\"", "letters");
    options.observed_data = some_data("{\"y__\":1}");
    REFUSED(gpumc_write_store(&fit, path, &options, &error), GPUMC_ERROR_ARGUMENT, "\"y__\"");
    options.observed_data = some_data("{\"y\":1,\"Y\":2}");
    REFUSED(gpumc_write_store(&fit, path, &options, &error), GPUMC_ERROR_ARGUMENT, "\"Y\"",
            "twice in observed_data");
    options.observed_data = some_data("{\"y\":[1],\"y_dim_0\":2}");
    REFUSED(gpumc_write_store(&fit, path, &options, &error), GPUMC_ERROR_ARGUMENT, "\"y_dim_0\"", "twice");
    static const gpumc_dimension shared[] = { { "y", 0, "i", NULL }, { "z", 0, "i", NULL } };
    const gpumc_store_options two = { .observed_data = some_data("{\"y\":[1],\"z\":[2,3]}"),
                                      .dimensions = shared,
                                      .n_dimensions = 2 };
    REFUSED(gpumc_write_store(&fit, path, &two, &error), GPUMC_ERROR_ARGUMENT, "\"i\" of observed_data", "1",
            "2");
    memset(&options, 0, sizeof options);
    options.created_at = "yester\"day";
    REFUSED(gpumc_write_store(&fit, path, &options, &error), GPUMC_ERROR_ARGUMENT, "created_at", "quotes");
    fit.model_name = "back\\slash";
    REFUSED(gpumc_write_store(&fit, path, NULL, &error), GPUMC_ERROR_ARGUMENT, "name of the model",
            "back\\slash");
    fit.model_name = "small";
    fit.model_name = "";                                   /* an empty name is a name */
    {
        gpumc_fit merged;
        CHECK(gpumc_write_store(&fit, path, NULL, NULL) == GPUMC_OK
              && gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK && *merged.model_name == 0, "%s",
              merged.message);
        gpumc_free(&merged);
        clean();
    }
    fit.model_name = "small";
    none.draws = NULL;
    none.options.discard_draws = 1;
    REFUSED(gpumc_write_store(&none, path, NULL, &error), GPUMC_ERROR_ARGUMENT, "no draws", "discard_draws");
    REFUSED(gpumc_write_store(NULL, path, NULL, &error), GPUMC_ERROR_ARGUMENT, "no fit");
    REFUSED(gpumc_write_store(&fit, "", NULL, &error), GPUMC_ERROR_ARGUMENT, "no path");
    REFUSED(gpumc_write_store(&fit, in_folder("no/where"), NULL, &error), GPUMC_ERROR_FILE, "no such file");
    CHECK(clean() == 0 && l.live == 0, "something is left");

    mkdir(path, 0777);                                     /* what is there is not touched */
    REFUSED(gpumc_write_store(&fit, path, NULL, &error), GPUMC_ERROR_FILE, "refused: cannot be created",
            "it exists; remove it or take another name");
    CHECK(stat(path, &st) == 0 && clean() == 1, "the folder that existed is gone");
    mkdir(in_folder("refused.tmp"), 0777);
    write_bytes(in_folder("refused.tmp/.zattrs"), "old", 3);
    REFUSED(gpumc_write_store(&fit, path, NULL, &error), GPUMC_ERROR_FILE, "refused.tmp", "it exists");
    CHECK(says(in_folder("refused.tmp/.zattrs"), "old") && clean() == 1, "another run's store was touched");
    mkdir(in_folder("closed"), 0555);                      /* root may write there, nobody may not */
    if (geteuid() != 0 || seteuid(65534) == 0)
        REFUSED(gpumc_write_store(&fit, in_folder("closed/store"), NULL, &error), GPUMC_ERROR_FILE,
                "closed/store.tmp", "permission denied");
    else check_skip("a folder that cannot be written to");
    if (getuid() == 0 && seteuid(0) != 0) CHECK(0, "not root any more");
    clean();
    gpumc_data_free((gpumc_data *)(uintptr_t)some_data("{}"));
}

/* ---- stores read back ---------------------------------------------------------------------------------- */

static int same_fit(const gpumc_fit *a, const gpumc_fit *b, size_t first_chain)
{
    int same = a->n_columns == b->n_columns && a->n_blocks == b->n_blocks
               && strcmp(a->model_name, b->model_name) == 0 && a->n_params_columns == b->n_params_columns
               && a->n_draws <= b->n_draws;
    for (size_t i = 0; same && i < a->n_blocks; i++) {
        const gpumc_block *x = &a->blocks[i], *y = &b->blocks[i];
        same = strcmp(x->name, y->name) == 0 && x->offset == y->offset && x->size == y->size
               && x->n_dims == y->n_dims && x->is_output == y->is_output && x->group == y->group
               && (x->n_dims == 0 || memcmp(x->dims, y->dims, x->n_dims * sizeof *x->dims) == 0);
    }
    for (size_t c = 0; same && c < b->n_chains; c++)
        for (size_t i = 0; same && i < a->n_draws; i++) {
            const size_t p = (c + first_chain) * a->draw_capacity + i, q = c * b->draw_capacity + i;
            const gpumc_draw_stats *s = &a->stats[p], *t = &b->stats[q];
            same = memcmp(a->draws + p * a->n_columns, b->draws + q * a->n_columns,
                          a->n_columns * sizeof(double))
                       == 0
                   && s->lp == t->lp && s->energy == t->energy && s->energy_error == t->energy_error
                   && s->max_energy_error == t->max_energy_error && s->accept_stat == t->accept_stat
                   && s->accept_sym == t->accept_sym && s->step_size == t->step_size
                   && s->fisher_residual == t->fisher_residual && s->tree_depth == t->tree_depth
                   && s->n_leapfrog == t->n_leapfrog && s->selected == t->selected
                   && !s->divergent == !t->divergent && s->hit_max_treedepth == t->hit_max_treedepth;
        }
    return same;
}

static char *printed(const gpumc_fit *fit)
{
    FILE *file = tmpfile();
    char *text = calloc(1, 1 << 16);
    CHECK(gpumc_print_summary(fit, file) == GPUMC_OK, "summary");
    rewind(file);
    CHECK(fread(text, 1, (1 << 16) - 1, file) > 100, "a short summary");
    fclose(file);
    return text;
}

/* The table and the warnings, which are all that two summaries of the same draws must share. */
static const char *table_of(const char *text) { return strstr(text, "ess_bulk"); }

static void check_merge(void)
{
    gpumc_sample_options options = rich_options;
    gpumc_fit all = rich_fit(options), other, merged;
    const char *paths[3] = { in_folder("one"), in_folder("two"), in_folder("three") };
    char *before, *after;
    ledger l = { 0 };
    const gpumc_allocator allocator = ledger_allocator(&l);
    options.first_chain_id = 3;
    options.num_chains = 2;
    options.num_samples = 50;
    options.thin = 3;
    other = rich_fit(options);
    CHECK(gpumc_write_store(&all, paths[0], NULL, NULL) == GPUMC_OK, "one");
    CHECK(gpumc_write_store(&other, paths[1], NULL, NULL) == GPUMC_OK, "two");

    CHECK(gpumc_merge(paths, 1, &allocator, &merged) == GPUMC_OK && merged.message[0] == 0, "%s",
          merged.message);
    CHECK(same_fit(&merged, &all, 0) && merged.n_chains == 3 && merged.n_draws == 60, "one store read back");
    before = printed(&all);
    after = printed(&merged);
    CHECK(strcmp(table_of(before), table_of(after)) == 0, "%s%s", before, after);
    CHECK(merged.options.thin == 2 && merged.options.seed == 5 && merged.n_free == all.n_free
          && merged.n_warmup == 80 && merged.step_size == all.step_size, "facts");
    CHECK(gpumc_write_stan_csv(&merged, in_folder("merged"), NULL) == GPUMC_OK, "Stan CSV of a merged fit");
    CHECK(gpumc_write_store(&merged, in_folder("again"), NULL, NULL) == GPUMC_OK, "a store of a merged fit");
    free(before);
    free(after);
    gpumc_free(&merged);

    CHECK(gpumc_merge(paths, 2, &allocator, &merged) == GPUMC_OK, "%s", merged.message);
    CHECK(merged.n_chains == 5 && merged.n_draws == 50 && strstr(merged.message, "cut to 50 draws"), "%s",
          merged.message);
    CHECK(same_fit(&merged, &all, 0) && same_fit(&merged, &other, 3), "two stores");
    CHECK(merged.n_divergent == all.n_divergent + other.n_divergent, "divergences");
    CHECK(merged.options.thin == 3, "thinned by %d", merged.options.thin);
    gpumc_free(&merged);
    paths[2] = paths[0];
    CHECK(gpumc_merge(paths + 1, 2, NULL, &merged) == GPUMC_OK && merged.options.thin == 3, "the other first: %d %s",
          merged.options.thin, merged.message);
    gpumc_free(&merged);
    CHECK(l.live == 0, "%d blocks leaked", (int)l.live);

    int of_draws = 0;
    for (size_t n = 1;; n++) {                             /* each allocation refused */
        ledger refusing = { .refuse_at = n };
        const gpumc_allocator refuses = ledger_allocator(&refusing);
        const gpumc_status status = gpumc_merge(paths, 2, &refuses, &merged);
        const int says_so = strstr(merged.message, "out of memory") != NULL;
        of_draws += strstr(merged.message, "for 5 chains of 50 draws") != NULL;
        gpumc_free(&merged);
        CHECK(refusing.live == 0, "allocation %d: %d blocks leaked", (int)n, (int)refusing.live);
        if (refusing.calls < n) break;
        CHECK(status == GPUMC_ERROR_MEMORY && says_so, "allocation %d: %d", (int)n, status);
    }
    CHECK(of_draws == 1, "that memory for draws is lacking is said %d times", of_draws);
    gpumc_free(&all);
    gpumc_free(&other);
    clean();
}

/* A merge passes on the warnings that only the run could give, also when it is merged again, with the number of
   stores that had them; notes, and warnings that draws show, it does not pass on. */
static void check_merge_warnings(void)
{
    gpumc_warning list[] = { { GPUMC_W_IMPROPER, 0, 0, "" }, { GPUMC_W_RESTARTED, 1, 0, "a note" },
                             { GPUMC_W_METRIC, 0, 0, "which draws tell" }, { GPUMC_W_UNSEEN, 0, 0, "" } };
    gpumc_fit one = small_fit(), two = small_fit(), merged;
    const char *paths[] = { in_folder("one"), in_folder("two") }, *again[] = { in_folder("again") };
    two.options.seed = 1;
    two.warnings = list;
    two.n_warnings = 4;
    CHECK(gpumc_write_store(&one, paths[0], NULL, NULL) == GPUMC_OK
              && gpumc_write_store(&two, paths[1], NULL, NULL) == GPUMC_OK, "stores");
    for (size_t trip = 0; trip < 2; trip++) {
        size_t found = 0;
        CHECK(gpumc_merge(trip ? again : paths, trip ? 1 : 2, NULL, &merged) == GPUMC_OK, "%s", merged.message);
        for (size_t i = 0; i < merged.n_warnings; i++) {
            const gpumc_warning *w = &merged.warnings[i];
            if (!w->note && strstr(w->text, trip ? "1 of 1" : "1 of 2"))
                found += w->code == GPUMC_W_IMPROPER ? 1 : w->code == GPUMC_W_UNSEEN ? 10 : 100;
            CHECK(w->code != GPUMC_W_RESTARTED && w->code != GPUMC_W_METRIC, "%s", w->text);
        }
        CHECK(found == 11, "trip %d: %d", (int)trip, (int)found);
        if (!trip) CHECK(gpumc_write_store(&merged, again[0], NULL, NULL) == GPUMC_OK, "again");
        gpumc_free(&merged);
    }
    clean();
}

#define MERGE_REFUSED(paths, n, wanted, ...) do { \
    static const char *const words[] = { __VA_ARGS__ }; \
    const gpumc_status got = gpumc_merge(paths, n, NULL, &merged); \
    CHECK(got == (wanted) && merged.status == got && !merged.draws, "%d: %s", got, merged.message); \
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) \
        CHECK(strstr(merged.message, words[w]), "no \"%s\" in: %s", words[w], merged.message); \
    gpumc_free(&merged); \
} while (0)

static void check_merge_refusals(void)
{
    gpumc_fit a = small_fit(), b = small_fit(), merged;
    gpumc_block blocks[2];
    const char *paths[2], *no_path[1] = { NULL };
    char one[128], two[128], file[300];
    const gpumc_store_options data = { .observed_data = some_data("{\"y\":[1,2]}") };
    size_t n;
    char *text;
    snprintf(one, sizeof one, "%s", in_folder("one"));
    snprintf(two, sizeof two, "%s", in_folder("two"));
    paths[0] = one;
    paths[1] = two;
    memcpy(blocks, b.blocks, sizeof blocks);
    b.blocks = blocks;
    b.options.seed = 1;
    CHECK(gpumc_merge(paths, 1, NULL, NULL) == GPUMC_ERROR_ARGUMENT, "no fit");
    MERGE_REFUSED(NULL, 1, GPUMC_ERROR_ARGUMENT, "no stores");
    MERGE_REFUSED(paths, 0, GPUMC_ERROR_ARGUMENT, "no stores");
    MERGE_REFUSED(no_path, 1, GPUMC_ERROR_ARGUMENT, "path 0 is NULL");
    MERGE_REFUSED(paths, 1, GPUMC_ERROR_FILE, "one/gpumc.json", "no such file");
    CHECK(gpumc_write_store(&a, one, NULL, NULL) == GPUMC_OK, "one");
    static listing scratch_listing;
#define SECOND(change, options, ...) do { \
    change; \
    CHECK(gpumc_write_store(&b, two, options, NULL) == GPUMC_OK, "two"); \
    MERGE_REFUSED(paths, 2, GPUMC_ERROR_FORMAT, __VA_ARGS__); \
    scratch_listing.n = 0; \
    list_files(two, "", &scratch_listing, 1); \
    rmdir(two); \
} while (0)
    SECOND(b.options.seed = a.options.seed, NULL, "two: its chains", "are also in", "one");
    SECOND(b.options.seed = 1; blocks[1].name = "psi", NULL, "a name or shape", "posterior/psi");
    SECOND(blocks[1].name = "theta"; blocks[1].n_dims = 0, NULL, "a name or shape", "posterior/theta");
    SECOND(blocks[1].n_dims = 1; b.n_blocks = 1, NULL, "more or fewer variables");
    SECOND(b.n_blocks = 2; b.model_name = "large", NULL, "another model", "large");
    SECOND(b.model_name = "small", &data, "other data");
    const gpumc_store_options labelled = { .dimensions = &school, .n_dimensions = 1 };
    SECOND(b.n_blocks = 2, &labelled, "labels than in the first");
    CHECK(gpumc_write_store(&b, two, NULL, NULL) == GPUMC_OK
              && gpumc_merge(paths, 2, NULL, &merged) == GPUMC_OK,
          "%s", merged.message);
    {   /* a merge that is stored again is complete, but which chains it has is not known */
        const char *again[] = { in_folder("merge"), two }, *turned[] = { two, again[0] };
        CHECK(gpumc_write_store(&merged, again[0], NULL, NULL) == GPUMC_OK, "a store of merged chains");
        gpumc_free(&merged);
        for (int trip = 0; trip < 2; trip++) {
            CHECK(gpumc_merge(again, 1, NULL, &merged) == GPUMC_OK && merged.n_chains == a.n_chains + b.n_chains
                  && strcmp(merged.model_name, "small") == 0, "%s", merged.message);
            if (trip == 0)
                CHECK(gpumc_write_store(&merged, in_folder("merge_2"), NULL, NULL) == GPUMC_OK, "once more");
            gpumc_free(&merged);
            again[0] = in_folder("merge_2");
        }
        MERGE_REFUSED(again, 2, GPUMC_ERROR_FORMAT, "two: merge the stores that a merge was made of");
        MERGE_REFUSED(turned, 2, GPUMC_ERROR_FORMAT, "merge: merge the stores that a merge was made of");
    }

    snprintf(file, sizeof file, "%s/posterior/theta/0.0.0", two);
    text = read_bytes(file, &n);
    write_bytes(file, text, n - 8);
    MERGE_REFUSED(paths, 2, GPUMC_ERROR_FORMAT, "theta/0.0.0", "96 bytes", "more or fewer");
    write_bytes(file, text, n);
    FILE *longer = fopen(file, "ab");
    fputc(0, longer);
    fclose(longer);
    MERGE_REFUSED(paths, 2, GPUMC_ERROR_FORMAT, "theta/0.0.0", "more or fewer");
    remove(file);
    MERGE_REFUSED(paths, 2, GPUMC_ERROR_FILE, "theta/0.0.0", "no such file");
    write_bytes(file, text, n);
    free(text);

    /* an index damaged at random does no harm: the merge is refused, or has 1 to 3 draws */
    snprintf(file, sizeof file, "%s/gpumc.json", two);
    text = read_bytes(file, &n);
    uint64_t random = 1;
    size_t accepted = 0;
    for (int trial = 0; trial < 1000; trial++) {
        char *damaged = malloc(n + 1);
        size_t length = n;
        memcpy(damaged, text, n);
        for (int k = 0; k < 1 + trial % 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const size_t at = (size_t)(random >> 33) % n;
            if (trial % 5 == 4) length = at;
            else damaged[at] = "0123456789,[]\"/.-x"[(random >> 20) % 18];
        }
        write_bytes(file, damaged, length);
        ledger l = { 0 };
        const gpumc_allocator allocator = ledger_allocator(&l);
        accepted += gpumc_merge(paths, 2, &allocator, &merged) == GPUMC_OK;
        CHECK(merged.status == GPUMC_OK ? merged.n_draws >= 1 && merged.n_draws <= 3
                                        : !merged.draws && *merged.message,
              "trial %d: %s", trial, merged.message);
        gpumc_free(&merged);
        CHECK(l.live == 0, "trial %d: %d blocks leaked", trial, (int)l.live);
        free(damaged);
    }
    CHECK(accepted > 2 && accepted < 700, "%d of 1000 damaged indices were accepted", (int)accepted);
    free(text);
    clean();
    static const char *const others[] = { "{\"y\":[1,2]}", "{\"z\":[1,2]}", "{\"y\":[[1],[2]]}", "{\"y\":[1,3]}" };
    for (size_t i = 0; i < 4; i++) {
        gpumc_store_options with = { .observed_data = some_data(others[0]) };
        CHECK(gpumc_write_store(&a, one, &with, NULL) == GPUMC_OK, "one with data");
        with.observed_data = some_data(others[i]);
        CHECK(gpumc_write_store(&b, two, &with, NULL) == GPUMC_OK, "two with data");
        CHECK((gpumc_merge(paths, 2, NULL, &merged) == GPUMC_OK) == (i == 0), "data %s: %s", others[i],
              merged.message);
        gpumc_free(&merged);
        clean();
    }
    {   /* warm-up, which is not merged, has labels as well */
        b.warmup_draws = small_draws;
        b.warmup_stats = small_stats;
        b.n_warmup = 4;
        CHECK(gpumc_write_store(&a, one, &labelled, NULL) == GPUMC_OK
              && gpumc_write_store(&b, two, &labelled, NULL) == GPUMC_OK, "labels");
        CHECK(gpumc_merge(paths, 2, NULL, &merged) == GPUMC_OK, "%s", merged.message);
        gpumc_free(&merged);
        clean();
    }
    gpumc_data_free((gpumc_data *)(uintptr_t)some_data("{}"));
}

static double calm_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (size_t i = 0; i < 20; i++) lp += gpumc_normal_lpdf(x[i], 0, 1 + (double)i, &g[i], NULL, NULL);
    return lp;
}

/* A store keeps which acceptance rate HMC on the spring aimed at, and what the run found of strays. A stream's run
   did not have the draws, so a merge judges them itself. */
static void check_merged_aim(void)
{
    const gpumc_param x = { .name = "x", .size = 20 };
    const gpumc_model calm = { .name = "calm", .params = &x, .n_params = 1, .log_density = calm_density };
    const gpumc_sample_options o = { .num_samples = 300, .seed = 3 };
    const char *path = in_folder("calm");
    gpumc_fit fit, merged;
    CHECK(gpumc_sample(&calm, &o, &fit) == GPUMC_OK && fit.metric.spring && fit.n_warnings == 0,
          "%d warnings: %s", (int)fit.n_warnings, fit.message);
    CHECK(gpumc_write_store(&fit, path, NULL, NULL) == GPUMC_OK, "not written");
    gpumc_metric metric;                                   /* files carry the step size of NUTS */
    double step = 0;
    CHECK(gpumc_write_metric_json(&fit, in_folder("m.json"), NULL) == GPUMC_OK
          && gpumc_read_metric_json(in_folder("m.json"), NULL, &metric, &step, NULL) == GPUMC_OK
          && step == fit.tree_step_size && step < fit.step_size, "%g", step);
    gpumc_metric_free(NULL, &metric);
    fit.tree_step_size = 0;
    CHECK(gpumc_write_metric_json(&fit, in_folder("n.json"), NULL) == GPUMC_ERROR_ARGUMENT, "a step of HMC is written");
    CHECK(gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK && merged.n_warnings == 0
          && merged.options.target_accept == 0.8, "%s", merged.n_warnings ? merged.warnings[0].text : "");
    gpumc_free(&merged);
    path = in_folder("lump");
    for (int i = 10; i < 15; i++) fit.stats[i].fisher_residual = 1000;
    gpumc_warning held = { .code = GPUMC_W_HELD };
    fit.warnings = &held;
    for (int k = 0; k < 3; k++) {                          /* tails; a separate mode; as of a stream */
        fit.n_warnings = k == 1;
        CHECK(gpumc_write_store(&fit, path, NULL, NULL) == GPUMC_OK, "not written");
        if (k == 2) {
            char file[160];
            size_t n = 0;
            snprintf(file, sizeof file, "%s/gpumc.json", path);
            char *text = read_bytes(file, &n);
            char *judged = strstr(text, ",268435456,");
            CHECK(judged != NULL, "%s", text);
            if (judged) memcpy(judged + 1, "        0", 9);
            write_bytes(file, text, n);
            free(text);
        }
        CHECK(gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK && merged.n_warnings == (k > 0)
              && (k == 0 || merged.warnings[0].code == GPUMC_W_HELD), "%d: %d warnings", k, (int)merged.n_warnings);
        gpumc_free(&merged);
        clean();
    }
    for (int i = 10; i < 15; i++) fit.stats[i].fisher_residual = 0;     /* only the run could tell */
    fit.n_warnings = 1;
    CHECK(gpumc_write_store(&fit, path, NULL, NULL) == GPUMC_OK && gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK
          && merged.n_warnings == 1 && strstr(merged.warnings->text, "1 of 1 merged stores"), "a tail is lost");
    gpumc_free(&merged);
    clean();
    fit.warnings = NULL;
    gpumc_free(&fit);
}

/* Files of two draws each in a store of three: the last file is padded, and all is read back. */
static void check_several_files(void)
{
    gpumc_fit fit = small_fit(), merged;
    gpumc_error error;
    gpumc__store s;
    const char *path = in_folder("chunks");
    double last[4] = { 0 };
    size_t n;
    fit.n_draws = 3;
    gpumc__open_store(&s, path, &fit, 3, NULL, 0, &error);
    for (size_t i = 0; i < s.entries.n; i++) gpumc__nth_entry(&s, i)->chunk = 2;
    for (size_t i = 0; i < s.entries.n; i++) gpumc__nth_entry(&s, i)->chains = 1;
    CHECK(gpumc__finish_store(&s, &fit, NULL) == GPUMC_OK, "%s", error.text);
    CHECK(says(in_folder("chunks/posterior/theta/.zarray"), ARRAY("1,2,2", "<f8", "\"NaN\"", "2,3,2")),
          "chunks");
    char *bytes = read_bytes(in_folder("chunks/posterior/theta/1.1.0"), &n);
    CHECK(bytes && n == 32, "%d bytes", (int)n);
    if (bytes) take_doubles(last, bytes, 4);
    CHECK(last[0] == 11 && last[1] == 12 && last[2] == 0 && last[3] == 0, "%g %g", last[0], last[1]);
    free(bytes);
    CHECK(gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK && same_fit(&merged, &fit, 0), "%s",
          merged.message);
    gpumc_free(&merged);
    clean();
}

/* ---- streams ------------------------------------------------------------------------------------------- */

/* Whether the files of draws of two stores are the same. */
static int same_store(const char *a, const char *b)
{
    const listing *all = list(a);
    int same = all->n > 50;
    for (size_t i = 0; same && i < all->n; i++) {
        const char *name = strrchr(all->paths[i], '/') ? strrchr(all->paths[i], '/') + 1 : all->paths[i];
        char path[2][900];
        size_t n;
        if (strcmp(name, ".zattrs") == 0 || strcmp(name, ".zmetadata") == 0
            || strcmp(name, "gpumc.json") == 0)
            continue;
        snprintf(path[0], sizeof path[0], "%s/%s", a, all->paths[i]);
        snprintf(path[1], sizeof path[1], "%s/%s", b, all->paths[i]);
        char *text = read_bytes(path[0], &n);
        same = holds(path[1], text, n);
        free(text);
    }
    return same;
}

typedef struct watcher { gpumc_stream *stream; size_t stop_at; gpumc_stop_flag flag; int passes_on; } watcher;

static int watch(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats, void *user)
{
    watcher *w = user;
    if (chain == 0 && draw == w->stop_at) gpumc_stop(&w->flag);
    return w->passes_on && gpumc_stream_draw(chain, draw, values, stats, w->stream);
}

static void check_stream(void)
{
    gpumc_sample_options options = rich_options;
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_stream *z;
    gpumc_fit whole, fit, merged;
    char one[128], two[128];
    const char *path = two;
    size_t most[2];
    snprintf(one, sizeof one, "%s", in_folder("whole"));
    snprintf(two, sizeof two, "%s", in_folder("stream"));
    options.save_warmup = 1;
    whole = rich_fit(options);
    for (int threads = 1; threads <= 2; threads++) {
        gpumc_sample_options streaming = options;
        streaming.threads = threads;
        z = gpumc_stream_open(threads == 1 ? one : two, &rich, &streaming, NULL, &error);
        CHECK(z && streaming.discard_draws && streaming.on_draw == gpumc_stream_draw, "%s", error.text);
        CHECK(gpumc_sample(&rich, &streaming, &fit) == GPUMC_OK && !fit.draws, "%s", fit.message);
        gpumc_fit other = fit;                             /* that of another run is refused: nothing is lost */
        other.n_chains++;
        CHECK(gpumc_stream_close(z, &other, &error) == GPUMC_ERROR_ARGUMENT
              && strstr(error.text, "still open"), "%s", error.text);
        CHECK(gpumc_stream_close(z, &fit, &error) == GPUMC_OK, "%s", error.text);
        if (threads == 1) gpumc_free(&fit);
    }
    {   /* options may be used again: their stream is the last one opened */
        gpumc_sample_options again = options;
        gpumc_stream *first = gpumc_stream_open(in_folder("again"), &rich, &again, NULL, &error);
        z = gpumc_stream_open(in_folder("another"), &rich, &again, NULL, &error);
        CHECK(first && z && again.draw_user == (void *)z && again.stream == z, "%s", error.text);
        gpumc_stream_close(first, NULL, &error);
        gpumc_stream_close(z, NULL, &error);
    }
    CHECK(same_store(one, two) && consolidated_is_sound(two), "streams of one and of two threads differ");
    CHECK(gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK && same_fit(&merged, &whole, 0), "%s",
          merged.message);
    gpumc_free(&merged);
    gpumc_free(&fit);
    clean();

    for (size_t long_run = 0; long_run < 2; long_run++) {  /* memory does not grow with the draws */
        ledger l = { 0 };
        options = rich_options;
        options.num_samples = long_run ? 40000 : 10000;
        options.num_chains = 2;
        options.thin = 1;
        options.allocator = ledger_allocator(&l);
        z = gpumc_stream_open(two, &rich, &options, NULL, &error);
        CHECK(z && gpumc_sample(&rich, &options, &fit) == GPUMC_OK, "%s", error.text);
        CHECK(gpumc_stream_close(z, &fit, &error) == GPUMC_OK, "%s", error.text);
        gpumc_free(&fit);
        CHECK(l.live == 0, "%d blocks leaked", (int)l.live);
        most[long_run] = l.most;
        if (long_run) {
            CHECK(gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK && merged.n_draws == 40000, "%s",
                  merged.message);
            gpumc_free(&merged);
        }
        clean();
    }
    CHECK(most[0] == most[1], "%d bytes for 10000 draws, %d for 40000", (int)most[0], (int)most[1]);

    for (size_t stop_at = 0; stop_at < 60; stop_at += 29) { /* stopped early, with a callback of its own */
        watcher w = { NULL, stop_at, { 0 }, 1 };
        options = rich_options;
        options.on_draw = watch;
        options.draw_user = &w;
        options.stop = &w.flag;
        w.stream = gpumc_stream_open(two, &rich, &options, NULL, &error);
        for (size_t i = 0; i < w.stream->store.entries.n && stop_at == 58; i++)    /* several files a chain */
            gpumc__nth_entry(&w.stream->store, i)->chunk = 7;
        CHECK(gpumc_sample(&rich, &options, &fit) == GPUMC_STOPPED, "%s", fit.message);
        const gpumc_status status = gpumc_stream_close(w.stream, &fit, &error);
        if (fit.n_draws == 0)
            CHECK(status == GPUMC_ERROR_ARGUMENT && strstr(error.text, "no draws"), "%s", error.text);
        else {
            CHECK(status == GPUMC_OK, "%s", error.text);
            if (stop_at == 58)
                CHECK(list(in_folder("stream/posterior/mu"))->n == 2 + 3 * ((fit.n_draws + 6) / 7),
                      "%d files", (int)list(in_folder("stream/posterior/mu"))->n);
            CHECK(gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK && merged.n_draws == fit.n_draws
                  && same_fit(&merged, &whole, 0), "%s", merged.message);
            gpumc_free(&merged);
        }
        CHECK(clean() == (fit.n_draws > 0), "something is left");
        gpumc_free(&fit);
    }
    gpumc_free(&whole);
}

static void check_stream_refusals(void)
{
    gpumc_sample_options options = rich_options;
    const gpumc_model broken = { .name = "broken" };
    gpumc_fit fit;
    gpumc_stream *z;
    gpumc_error error = { GPUMC_OK, "" };
    const char *path = in_folder("stream");
    watcher w = { NULL, 1000, { 0 }, 0 };
    CHECK(!gpumc_stream_open(NULL, &rich, &options, NULL, &error) && strstr(error.text, "path"), "%s",
          error.text);
    CHECK(!gpumc_stream_open(path, &rich, NULL, NULL, &error) && strstr(error.text, "options"), "%s",
          error.text);
    CHECK(!gpumc_stream_open(path, NULL, &options, NULL, &error) && strstr(error.text, "model"), "%s",
          error.text);
    CHECK(!gpumc_stream_open(path, &broken, &options, NULL, &error) && error.status == GPUMC_ERROR_MODEL,
          "%s", error.text);
    CHECK(!gpumc_stream_open(in_folder("no/where"), &rich, &options, NULL, &error)
              && strstr(error.text, "no such"),
          "%s", error.text);
    CHECK(!options.on_draw && !options.discard_draws, "a refused stream has changed the options");
    options.num_samples = -1;
    CHECK(!gpumc_stream_open(path, &rich, &options, NULL, &error) && strstr(error.text, "num_samples"), "%s",
          error.text);
    CHECK(gpumc_stream_close(NULL, &fit, &error) == GPUMC_ERROR_ARGUMENT && strstr(error.text, "NULL"), "%s",
          error.text);
    options = rich_options;
    z = gpumc_stream_open(path, &rich, &options, NULL, &error);
    CHECK(z && gpumc_stream_close(z, NULL, &error) == GPUMC_OK && clean() == 0,
          "a stream given up leaves something");

    options = rich_options;                                /* other options than the stream was opened with */
    z = gpumc_stream_open(path, &rich, &options, NULL, &error);
    options.num_samples = 70;
    CHECK(gpumc_sample(&rich, &options, &fit) == GPUMC_STOPPED, "%s", fit.message);
    CHECK(gpumc_stream_close(z, &fit, &error) == GPUMC_ERROR_ARGUMENT && strstr(error.text, "draw 61")
          && strstr(error.text, "options"), "%s", error.text);
    gpumc_free(&fit);
    CHECK(clean() == 0, "something is left");

    options = rich_options;                                /* an on_draw that does not pass the draws on */
    options.on_draw = watch;
    options.draw_user = &w;
    z = gpumc_stream_open(path, &rich, &options, NULL, &error);
    CHECK(gpumc_sample(&rich, &options, &fit) == GPUMC_ERROR_ARGUMENT
              && strstr(fit.message, "gpumc_stream_draw"),
          "%s", fit.message);
    gpumc_stream_close(z, &fit, &error);
    gpumc_free(&fit);
    CHECK(clean() == 0, "something is left");

    options = rich_options;                                /* a run that fails */
    options.target_accept = 2;
    z = gpumc_stream_open(path, &rich, &options, NULL, &error);
    CHECK(gpumc_sample(&rich, &options, &fit) == GPUMC_ERROR_ARGUMENT, "%s", fit.message);
    CHECK(gpumc_stream_close(z, &fit, &error) == GPUMC_ERROR_ARGUMENT && strstr(error.text, "target_accept"),
          "%s", error.text);
    CHECK(clean() == 0, "something is left");
}

/* ---- streams that are resumed -------------------------------------------------------------------------- */

static double line_density(const double *x, double *grad, void *data)
{
    (void)data;
    return gpumc_normal_lpdf(x[0], 0, 1, &grad[0], NULL, NULL);
}
static const gpumc_param line_params[] = { { .name = "x" } };
static const gpumc_model line = { .name = "line", .params = line_params, .n_params = 1,
                                  .log_density = line_density };

/* Options of a run that is saved as often as possible. */
static gpumc_sample_options line_options(void)
{
    const gpumc_sample_options o = { .num_chains = 2, .num_warmup = 20, .num_samples = 5, .thin = 2,
                                     .seed = 7, .threads = 1, .sampler = GPUMC_SAMPLER_NUTS,
                                     .checkpoint_seconds = 1e-9,
                                     .checkpoint = in_folder("state"), .skip_gradient_check = 1 };
    return o;
}

/* Starts a streamed run, or resumes it if there is a checkpoint; in files of two draws. */
static gpumc_status run_line(gpumc_sample_options o, gpumc_error *error)
{
    gpumc_fit fit;
    gpumc_stream *z = gpumc_stream_open(in_folder("line"), &line, &o, NULL, error);
    if (!z) return error->status;
    for (size_t i = 0; i < z->store.entries.n; i++) gpumc__nth_entry(&z->store, i)->chunk = 2;
    const int resumes = access(in_folder("state"), F_OK) == 0 || access(in_folder("state.old"), F_OK) == 0;
    if (resumes) gpumc_resume(&line, &o, in_folder("state"), &fit);
    else gpumc_sample(&line, &o, &fit);
    const gpumc_status status = gpumc_stream_close(z, &fit, error);
    gpumc_free(&fit);
    return status;
}

/* Runs it in a child process, which is killed at system call die_at (0: at none). Returns its exit status, or -1. */
static int line_in_child(size_t die_at)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        gpumc_error error = { GPUMC_OK, "" };
        io_die_at = die_at;
        if (run_line(line_options(), &error) == GPUMC_OK) _exit(0);
        printf("%s\n", error.text);
        fflush(stdout);
        _exit(1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Killed at any call, the run goes on from its checkpoint to the store that it would have written. */
static void check_killed_streams(void)
{
    gpumc_error error = { GPUMC_OK, "" };
    char reference[128];
    size_t n = 1, kills = 0;
    snprintf(reference, sizeof reference, "%s", in_folder("reference"));
    CHECK(run_line(line_options(), &error) == GPUMC_OK, "%s", error.text);
    rename(in_folder("line"), reference);
    for (int ended = 0; !ended && check_failed == 0; n += 1 + n / 20) {
        remove(in_folder("state"));
        remove(in_folder("state.old"));
        ended = line_in_child(n) == 0;
        kills += !ended;
        if (!ended && access(in_folder("line"), F_OK) != 0)
            CHECK(line_in_child(0) == 0, "killed at call %d, not resumed", (int)n);
        CHECK(same_store(reference, in_folder("line")), "killed at call %d: another store", (int)n);
        static listing l;
        l.n = 0;
        list_files(in_folder("line"), "", &l, 1);
        rmdir(in_folder("line"));
    }
    CHECK(kills > 100, "killed %d times only", (int)kills);
    clean();
}

static int stop_after(const gpumc_progress *p, void *draws)
{
    return !p->warmup && p->iteration >= 20 + *(size_t *)draws;
}

/* A stream that is stopped and saved stays as it is until a resumed run reaches its end. A checkpoint, options and a
   stream that do not belong together are refused, and nothing is lost by that. */
static void check_resumed_streams(void)
{
    gpumc_error e = { GPUMC_OK, "" };
    char reference[128], one[700] = "", text[400];
    size_t n, stop_at = 3;
    snprintf(reference, sizeof reference, "%s", in_folder("reference"));
    CHECK(run_line(line_options(), &e) == GPUMC_OK, "%s", e.text);
    rename(in_folder("line"), reference);
    remove(in_folder("state"));
    remove(in_folder("state.old"));

    gpumc_sample_options o = line_options();
    o.progress = stop_after;
    o.progress_user = &stop_at;
    CHECK(run_line(o, &e) == GPUMC_STOPPED, "%d: %s", e.status, e.text);
    stop_at = 7;
    CHECK(run_line(o, &e) == GPUMC_STOPPED, "%d: %s", e.status, e.text);
    const listing *all = list(folder);
    for (size_t i = 0; i < all->n; i++)
        if (strncmp(all->paths[i], "line.", 5) == 0 && strstr(all->paths[i], ".tmp/posterior/x/0.0"))
            snprintf(one, sizeof one, "%s", in_folder(all->paths[i]));
    char *rows = read_bytes(one, &n);
    CHECK(rows && n > 0 && access(in_folder("line"), F_OK) != 0, "%d bytes in the first file", (int)n);

    o = line_options();
    o.seed = 8;
    REFUSED(run_line(o, &error), GPUMC_ERROR_ARGUMENT, "seed is 8");
    o = line_options();
    o.target_accept = 0.9;
    REFUSED(run_line(o, &error), GPUMC_ERROR_ARGUMENT, "target_accept");
    rename(in_folder("state"), in_folder("kept"));
    rename(in_folder("state.old"), in_folder("kept.old"));
    REFUSED(run_line(line_options(), &error), GPUMC_ERROR_EXISTS, "posterior/x/0.0", "no checkpoint");
    rename(in_folder("kept"), in_folder("state"));
    rename(in_folder("kept.old"), in_folder("state.old"));
    write_bytes(one, rows, n - 1);
    REFUSED(run_line(line_options(), &error), GPUMC_ERROR_ARGUMENT, "posterior/x/0.0", "fewer draws");
    snprintf(text, sizeof text, "%.*sx", (int)n, rows);
    memcpy(text, rows, n);
    write_bytes(one, text, n + 1);                         /* part of a draw, as a kill leaves it */
    free(rows);
    for (size_t refuse_at = 1; refuse_at <= 8; refuse_at++) {       /* a stream exists, but no memory */
        ledger l = { 0 };
        l.refuse_at = refuse_at;
        o = line_options();
        o.allocator = ledger_allocator(&l);
        CHECK(run_line(o, &e) == GPUMC_ERROR_MEMORY && l.live == 0
              && (refuse_at < 3 || strstr(e.text, "; draws stay in ")),
              "call %d: %d, %d blocks: %s", (int)refuse_at, (int)e.status, (int)l.live, e.text);
    }
    CHECK(run_line(line_options(), &e) == GPUMC_OK, "%s", e.text);
    CHECK(same_store(reference, in_folder("line")), "another store");
    o = line_options();
    gpumc_stream *z = gpumc_stream_open(in_folder("wide"), &rich, &o, NULL, &e);
    gpumc_fit fit;
    o.num_chains = 3;
    remove(in_folder("state"));
    remove(in_folder("state.old"));
    CHECK(gpumc_sample(&rich, &o, &fit) == GPUMC_ERROR_ARGUMENT && strstr(fit.message, "2 chains"), "%s",
          fit.message);
    CHECK(gpumc_stream_close(z, &fit, &e) == GPUMC_ERROR_ARGUMENT, "%s", e.text);
    CHECK(clean() == 2, "a new stream that failed is left");
}

/* ---- whatever can fail fails --------------------------------------------------------------------------- */

enum { STORE, STREAM, NPY, TIDY, METRIC, JOBS };

static gpumc_status do_job(int job, const gpumc_fit *fit, ledger *l, gpumc_error *error)
{
    gpumc_fit mine = *fit, run;
    gpumc_sample_options options = rich_options;
    const gpumc_store_options store = { .dimensions = NULL, .n_dimensions = 0 };
    mine.allocator = options.allocator = ledger_allocator(l);
    if (job == STORE) return gpumc_write_store(&mine, in_folder("out"), &store, error);
    if (job == NPY) return gpumc_write_npy(&mine, "theta", in_folder("out"), error);
    if (job == TIDY) return gpumc_write_tidy_csv(&mine, in_folder("out"), error);
    if (job == METRIC) return gpumc_write_metric_json(&mine, in_folder("out"), error);
    options.num_samples = 4;
    options.num_warmup = 20;
    options.num_chains = options.threads = 1;
    gpumc_stream *z = gpumc_stream_open(in_folder("out"), &line, &options, NULL, error);
    if (!z) return error->status;
    gpumc_sample(&line, &options, &run);
    const gpumc_status status = gpumc_stream_close(z, &run, error);
    gpumc_free(&run);
    return status;
}

/* Divergences among draws that a merge cuts off are not counted. */
static void check_cut_divergences(void)
{
    const char *paths[] = { in_folder("long"), in_folder("short") };
    gpumc_fit fit, merged;
    for (int k = 0; k < 2; k++) {
        const gpumc_sample_options o = { .num_samples = k ? 20 : 40, .num_chains = 2, .first_chain_id = k ? 7 : 0 };
        CHECK(gpumc_sample(&line, &o, &fit) == GPUMC_OK, "%s", fit.message);
        fit.n_divergent = 1;
        for (size_t i = 0; i < 2 * fit.draw_capacity; i++) fit.stats[i].divergent = i == (k ? 3 : 30);
        CHECK(gpumc_write_store(&fit, paths[k], NULL, NULL) == GPUMC_OK, "no store");
        gpumc_free(&fit);
    }
    CHECK(gpumc_merge(paths, 2, NULL, &merged) == GPUMC_OK && merged.n_draws == 20 && merged.n_divergent == 1,
          "%d divergences: %s", (int)merged.n_divergent, merged.message);
    gpumc_free(&merged);
    clean();
}

/* Data structures filled by hand that are incomplete or contradict themselves. */
static void check_hand_made_data(void)
{
    double values[3] = { 1, 2, 3 };
    char name[] = "y";
    size_t three = 3, four = 4;
    gpumc_variable y = { name, &four, 1, 3, 0, values };
    const gpumc_data data = { .variables = &y, .n_variables = 1 }, hollow = { .n_variables = 1 };
    gpumc_store_options o = { .observed_data = &data };
    gpumc_fit fit = rich_fit(rich_options);
    gpumc_error error;
    CHECK(gpumc_write_store(&fit, in_folder("hand"), &o, &error) == GPUMC_ERROR_ARGUMENT
          && strstr(error.text, "\"y\" has 3 values, and dims for 4"), "%s", error.text);
    y.dims = NULL;
    CHECK(gpumc_write_store(&fit, in_folder("hand"), &o, &error) == GPUMC_ERROR_ARGUMENT
          && strstr(error.text, "lacks name, dims or values"), "%s", error.text);
    double no_integer[] = { 1, NAN, 3 };
    y = (gpumc_variable){ name, &three, 1, 3, 1, no_integer };
    CHECK(gpumc_write_store(&fit, in_folder("hand"), &o, &error) == GPUMC_ERROR_ARGUMENT
          && strstr(error.text, "\"y\" has is_integer and a value"), "%s", error.text);
    o.observed_data = &hollow;
    CHECK(gpumc_write_store(&fit, in_folder("hand"), &o, &error) == GPUMC_ERROR_ARGUMENT, "no variables");
    o.observed_data = NULL;
    o.n_dimensions = 1;
    CHECK(gpumc_write_store(&fit, in_folder("hand"), &o, &error) == GPUMC_ERROR_ARGUMENT
          && strstr(error.text, "dimensions is NULL"), "%s", error.text);
    gpumc_free(&fit);
    CHECK(clean() == 0, "something is left");
}

static void check_failures(void)
{
    gpumc_fit fit = rich_fit(rich_options);
    fit.n_draws = 3;
    for (int job = 0; job < JOBS; job++) {
        size_t tried = 0;
        int n_kept = 0;
        for (size_t n = 1;; n++, tried++) {                        /* writes */
            ledger l = { 0 };
            gpumc_error error = { GPUMC_OK, "" };
            io_calls = 0;
            io_refuse_at = n;
            const gpumc_status status = do_job(job, &fit, &l, &error);
            io_refuse_at = 0;
            const size_t left = clean();
            CHECK(l.live == 0, "job %d, call %d: %d blocks leaked", job, (int)n, (int)l.live);
            if (io_calls < n) {
                CHECK(status == GPUMC_OK && left == 1, "job %d: %s", job, error.text);
                break;
            }
            CHECK((status == GPUMC_ERROR_FILE && strstr(error.text, "no space left")) || status == GPUMC_OK,
                  "job %d, call %d: %d %s", job, (int)n, status, error.text);
            const int kept = strstr(error.text, "; draws stay in") != NULL;    /* the rest could not be written */
            CHECK(left == (size_t)(status == GPUMC_OK || kept) && (!kept || job == STREAM),
                  "job %d, call %d: %d things left", job, (int)n, (int)left);
            n_kept += kept;
        }
        CHECK(tried > (job < NPY ? 500u : 5u), "job %d: %d calls", job, (int)tried);
        CHECK(job == STREAM ? n_kept > 500 : n_kept == 0, "job %d: %d stores stay", job, n_kept);
        for (size_t n = 1;; n++) {                                 /* allocations */
            ledger l = { .refuse_at = n };
            gpumc_error error = { GPUMC_OK, "" };
            const gpumc_status status = do_job(job, &fit, &l, &error);
            const size_t left = clean();
            CHECK(l.live == 0, "job %d, allocation %d: %d blocks leaked", job, (int)n, (int)l.live);
            if (l.calls < n) break;
            CHECK(status == GPUMC_ERROR_MEMORY && left == 0, "job %d, allocation %d: %d %s, %d left", job,
                  (int)n, status, error.text, (int)left);
        }
    }
    gpumc_free(&fit);
}

/* ---- .npy, tidy CSV, metric ---------------------------------------------------------------------------- */

static void check_npy(void)
{
    static size_t many[31] = { 0 };
    gpumc_block deep = { "deep", many, 31, 0, 1, 0, GPUMC_GENERATED };
    gpumc_fit fit = small_fit(), odd = small_fit();
    gpumc_error failure;
    size_t n;
    double values[12];
    CHECK(gpumc_write_npy(&fit, "theta", in_folder("theta.npy"), &failure) == GPUMC_OK, "%s", failure.text);
    char *bytes = read_bytes(in_folder("theta.npy"), &n);
    CHECK(bytes && n == 128 + 96 && memcmp(bytes, "\x93NUMPY\1\0\x76\0", 10) == 0 && bytes[127] == '\n'
          && strncmp(bytes + 10, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3, 2), }  ", 64) == 0,
          "%d bytes", (int)n);
    if (bytes) take_doubles(values, bytes + 128, 12);
    for (int i = 0; i < 12; i++) CHECK(values[i] == i + 1, "value %d is %g", i, values[i]);
    free(bytes);
    CHECK(gpumc_write_npy(&fit, NULL, in_folder("all.npy"), &failure) == GPUMC_OK, "%s", failure.text);
    bytes = read_bytes(in_folder("all.npy"), &n);
    CHECK(bytes && n == 128 + 144 && strstr(bytes + 10, "(2, 3, 3)"), "%d bytes", (int)n);
    free(bytes);
    REFUSED(gpumc_write_npy(&fit, "psi", in_folder("x"), &error), GPUMC_ERROR_ARGUMENT, "\"psi\"", "NULL");
    REFUSED(gpumc_write_npy(NULL, "psi", in_folder("x"), &error), GPUMC_ERROR_ARGUMENT, "no fit");
    REFUSED(gpumc_write_npy(&fit, "mu", "", &error), GPUMC_ERROR_ARGUMENT, "no file name");
    odd.blocks = &deep;
    odd.n_blocks = 1;
    REFUSED(gpumc_write_npy(&odd, "deep", in_folder("x"), &error), GPUMC_ERROR_ARGUMENT, "31", "30");
    clean();
}

static void check_tidy(void)
{
    static size_t square[2] = { 2, 2 };
    static double draws[2 * 5] = { 0.5, 1, 2, 3, 4, NAN, INFINITY, -INFINITY, 0.1, 1e300 };
    static gpumc_block blocks[] = { { "mu", NULL, 0, 0, 1, 0, GPUMC_GENERATED },
                                    { "A", square, 2, 1, 4, 0, GPUMC_GENERATED } };
    gpumc_fit fit = small_fit();
    fit.blocks = blocks;
    fit.draws = draws;
    fit.n_draws = fit.draw_capacity = 1;
    fit.n_columns = 5;
    CHECK(gpumc_write_tidy_csv(&fit, in_folder("tidy.csv"), NULL) == GPUMC_OK, "tidy");
    CHECK(says(in_folder("tidy.csv"),
               ".chain,.iteration,.draw,mu,\"A[1,1]\",\"A[2,1]\",\"A[1,2]\",\"A[2,2]\"\n"
               "1,1,1,0.5,1,3,2,4\n2,1,2,NaN,Inf,0.1,-Inf,1e+300\n"),
          "tidy");
    REFUSED(gpumc_write_tidy_csv(NULL, in_folder("x"), &error), GPUMC_ERROR_ARGUMENT, "no fit");
    clean();
}

static void check_metric(void)
{
    static double scale[2] = { 1, 2 }, covariance[4] = { 4, 1, 1, 2 }, vectors[2] = { 0.5, 0.5 },
                  lambda[1] = { 5 };
    static const struct { gpumc_metric_kind kind; const char *text;
    } kinds[] = {
        { GPUMC_METRIC_DIAG, "{\"stepsize\":0.5,\"metric_type\":\"diag_e\",\"inv_metric\":[1,4]}\n" },
        { GPUMC_METRIC_DENSE,
          "{\"stepsize\":0.5,\"metric_type\":\"dense_e\",\"inv_metric\":[[4,1],[1,2]]}\n" },
        { GPUMC_METRIC_LOW_RANK,
          "{\"stepsize\":0.5,\"metric_type\":\"diag_e\",\"inv_metric\":[2,8],\"diagonal_only\":1}\n" },
        { GPUMC_METRIC_UNIT, "{\"stepsize\":0.5,\"metric_type\":\"unit_e\",\"inv_metric\":[1,4]}\n" },
    };
    static const struct { const char *text, *word;
    } bad[] = {
        { "{\"stepsize\":0,\"metric_type\":\"diag_e\",\"inv_metric\":[1]}", "stepsize" },
        { "{\"stepsize\":\"x\",\"inv_metric\":[1]}", "stepsize" },
        { "{\"metric_type\":\"diag_e\",\"inv_metric\":[1]}", "stepsize" },
        { "{\"stepsize\":1}", "inv_metric" },
        { "{\"stepsize\":1,\"inv_metric\":[]}", "list" },
        { "{\"stepsize\":1,\"inv_metric\":[1,-1]}", "positive" },
        { "{\"stepsize\":1,\"inv_metric\":[[1,2]]}", "square" },
        { "{\"stepsize\":1,\"inv_metric\":[[[1]]]}", "square" },
        { "{\"stepsize\":1,\"inv_metric\":3}", "list" },
        { "{\"stepsize\":1,\"inv_metric\":[[1,2],[2,1]]}", "definite" },
        { "{\"stepsize\":1,\"inv_metric\":[", "ends" },
        { "{\"stepsize\":1,\"inv_metric\":[[1,0],[0.5,1]]}", "symmetric" },
        { "[]", "object" },
        { "{\"stepsize\":1,\"inv_metric\":[\"NaN\"]}", "positive" },
    };
    gpumc_fit fit = small_fit();
    gpumc_metric m;
    double step = 0;
    ledger l = { 0 };
    const gpumc_allocator allocator = ledger_allocator(&l);
    fit.metric = (gpumc_metric){
        .dim = 2, .rank = 1, .scale = scale, .covariance = covariance, .vectors = vectors, .lambda = lambda
    };
    fit.step_size = 0.5;
    for (size_t i = 0; i < 4; i++) {
        gpumc_error error = { GPUMC_OK, "" };
        fit.metric.kind = kinds[i].kind;
        CHECK(gpumc_write_metric_json(&fit, in_folder("m.json"), &error) == GPUMC_OK, "%s", error.text);
        CHECK(says(in_folder("m.json"), kinds[i].text), "metric %d", (int)i);
        CHECK(gpumc_read_metric_json(in_folder("m.json"), &allocator, &m, &step, &error) == GPUMC_OK, "%s",
              error.text);
        CHECK(step == 0.5 && m.dim == 2, "%g", step);
        if (i == 1)
            CHECK(m.kind == GPUMC_METRIC_DENSE && memcmp(m.covariance, covariance, 32) == 0
                      && m.factor[0] == 2 && m.factor[2] == 0.5 && m.scale[0] == 2,
                  "a dense metric");
        else
            CHECK(m.kind == (i == 2 ? GPUMC_METRIC_LOW_RANK : GPUMC_METRIC_DIAG) && (i != 2 || !m.vectors)
                      && fabs(m.scale[1] - sqrt(i == 2 ? 8 : 4)) < 1e-15, "%g", m.scale[1]);
        gpumc_metric_free(&allocator, &m);
    }
    {   /* the two halves may differ by rounding: the metric read is symmetric */
        const char *text = "{\"stepsize\":1,\"inv_metric\":[[1,0.30000000000000004],[0.3,1]]}";
        write_bytes(in_folder("m.json"), text, strlen(text));
        CHECK(gpumc_read_metric_json(in_folder("m.json"), &allocator, &m, &step, NULL) == GPUMC_OK
              && m.covariance[1] == m.covariance[2] && m.kind == GPUMC_METRIC_DENSE, "rounding is refused");
        gpumc_metric_free(&allocator, &m);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gpumc_error error = { GPUMC_OK, "" };
        write_bytes(in_folder("m.json"), bad[i].text, strlen(bad[i].text));
        CHECK(gpumc_read_metric_json(in_folder("m.json"), &allocator, &m, &step, &error) == GPUMC_ERROR_FORMAT
              && strstr(error.text, bad[i].word) && !m.scale, "%s: %s", bad[i].text, error.text);
    }
    for (size_t n = 1;; n++) {
        ledger refusing = { .refuse_at = n };
        const gpumc_allocator refuses = ledger_allocator(&refusing);
        write_bytes(in_folder("m.json"), kinds[1].text, strlen(kinds[1].text));
        const gpumc_status status = gpumc_read_metric_json(in_folder("m.json"), &refuses, &m, &step, NULL);
        gpumc_metric_free(&refuses, &m);
        CHECK(refusing.live == 0, "allocation %d", (int)n);
        if (refusing.calls < n) break;
        CHECK(status == GPUMC_ERROR_MEMORY, "allocation %d: %d", (int)n, status);
    }
    CHECK(l.live == 0, "%d blocks leaked", (int)l.live);
    fit.draws = NULL;                                      /* as in a streamed run */
    fit.options.discard_draws = 1;
    gpumc_error said = { GPUMC_OK, "" };
    CHECK(gpumc_write_metric_json(&fit, in_folder("m.json"), &said) == GPUMC_OK, "%s", said.text);
    REFUSED(gpumc_read_metric_json(in_folder("none"), NULL, &m, &step, &error), GPUMC_ERROR_FILE,
            "no such file");
    REFUSED(gpumc_read_metric_json(in_folder("none"), NULL, NULL, &step, &error), GPUMC_ERROR_ARGUMENT,
            "NULL");
    fit.metric.dim = 0;
    REFUSED(gpumc_write_metric_json(&fit, in_folder("x"), &error), GPUMC_ERROR_ARGUMENT, "no metric");
    gpumc_metric_free(NULL, NULL);
    clean();
}

/* Independent normals of standard deviation 0.01 and 100. */
static double scales_density(const double *x, double *grad, void *data)
{
    (void)data;
    return gpumc_normal_lpdf(x[0], 0, 0.01, &grad[0], NULL, NULL)
         + gpumc_normal_lpdf(x[1], 0, 100, &grad[1], NULL, NULL);
}

static double gradients_a_draw(const gpumc_fit *f)
{
    return (double)f->sampling_gradients / (double)(f->n_chains * f->n_draws);
}

static void refuses_metric(const gpumc_model *model, gpumc_sample_options o, gpumc_metric m, const char *why)
{
    gpumc_fit fit;
    o.initial_metric = &m;
    CHECK(gpumc_sample(model, &o, &fit) == GPUMC_ERROR_ARGUMENT && strstr(fit.message, why), "%s: %s", why,
          fit.message);
    gpumc_free(&fit);
}
/* Metrics in which something is missing or impossible are refused. */
static void check_metric_faults(const gpumc_model *model, gpumc_sample_options o, const gpumc_metric *good)
{
    double bad[4] = { 1, NAN, 0.5, -1 }, one_zero[] = { 1, 0 };
    double two_ones[] = { 1, 1 };
    gpumc_fit fit;
    gpumc_metric m = *good;
    m.scale = NULL;
    refuses_metric(model, o, m, "lacks");
    m.scale = bad;
    refuses_metric(model, o, m, "positive");
    m = *good;
    m.kind = (gpumc_metric_kind)77;
    refuses_metric(model, o, m, "no kind");
    m = *good;
    m.mean = bad;
    refuses_metric(model, o, m, "not finite");
    m = *good;
    if (good->kind == GPUMC_METRIC_DENSE) {
        m.factor = NULL;
        refuses_metric(model, o, m, "lacks");
        m.factor = bad;
        refuses_metric(model, o, m, "positive");
        m = *good;
        m.factor = m.covariance;
        refuses_metric(model, o, m, "L L'");
        m = *good;
        m.kind = GPUMC_METRIC_DIAG;
        m.rank = 1;
        refuses_metric(model, o, m, "lacks; set it to 0");
    } else if (good->kind == GPUMC_METRIC_LOW_RANK) {
        m.rank = 1;
        m.vectors = NULL;
        refuses_metric(model, o, m, "lacks");
        m.vectors = bad;
        m.lambda = bad + 3;
        refuses_metric(model, o, m, "positive");
        m.lambda = bad;
        refuses_metric(model, o, m, "not finite");
        m.vectors = two_ones;
        refuses_metric(model, o, m, "orthonormal");
        m.rank = 65;
        refuses_metric(model, o, m, "64");
        m.rank = 3;                     /* with two dimensions: arrays are not read beyond those */
        m.vectors = bad;
        refuses_metric(model, o, m, "rank");
        m = *good;                      /* blocks that were asked for and not estimated are no fault */
        m.kind = GPUMC_METRIC_BLOCKS;
        m.block_size = 2;
        m.rank = 1;
        m.vectors = m.lambda = one_zero;
        o.initial_metric = &m;
        CHECK(gpumc_sample(model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        gpumc_free(&fit);
        m.n_blocks = 1;
        refuses_metric(model, o, m, "does not fit the model");
    }
}

/* A run takes over the metric and step size of another, from its fit or from a file: without warm-up it uses these,
   with warm-up its first iteration does; so it does with a step size alone. */
static void check_initial_metric(void)
{
    static const gpumc_param params[] = { { .name = "a" }, { .name = "b" } };
    const gpumc_model scales = { .name = "scales", .params = params, .n_params = 2,
                                 .log_density = scales_density };
    static const gpumc_metric_kind kinds[] = { GPUMC_METRIC_DIAG, GPUMC_METRIC_DENSE, GPUMC_METRIC_LOW_RANK };
    for (size_t k = 0; k < 3; k++) {
        gpumc_sample_options o = { .num_warmup = 200, .num_samples = 400, .seed = 11, .metric = kinds[k],
                                   .sampler = GPUMC_SAMPLER_NUTS };
        gpumc_error e = { GPUMC_OK, "" };
        gpumc_fit first, next;
        gpumc_metric m;
        CHECK(gpumc_sample(&scales, &o, &first) == GPUMC_OK, "%s", first.message);
        CHECK(gpumc_write_metric_json(&first, in_folder("m.json"), &e) == GPUMC_OK, "%s", e.text);
        CHECK(gpumc_read_metric_json(in_folder("m.json"), NULL, &m, &o.step_size, &e) == GPUMC_OK, "%s",
              e.text);
        o.metric = GPUMC_METRIC_AUTO;
        o.num_warmup = -1;
        o.initial_metric = k == 2 ? &first.metric : &m;        /* a file holds only the diagonal */
        CHECK(gpumc_sample(&scales, &o, &next) == GPUMC_OK, "%s", next.message);
        CHECK(next.n_warmup == 0 && next.step_size == first.step_size
              && next.metric.kind == first.metric.kind,
              "metric %d, step size %g", next.metric.kind, next.step_size);
        for (size_t i = 0; i < 2; i++)
            CHECK(fabs(next.metric.scale[i] / first.metric.scale[i] - 1) < 1e-12, "%g", next.metric.scale[i]);
        if (k == 1)
            CHECK(memcmp(next.metric.covariance, m.covariance, 32) == 0, "another covariance");
        CHECK(gradients_a_draw(&next) < 1.5 * gradients_a_draw(&first), "%g gradients a draw, %g before",
              gradients_a_draw(&next), gradients_a_draw(&first));
        CHECK(fabs(gpumc_sd(gpumc_fit_series(&next, 1)).value / 100 - 1) < 0.15, "sd %g",
              gpumc_sd(gpumc_fit_series(&next, 1)).value);
        gpumc_free(&next);

        o.num_warmup = 50;
        o.save_warmup = 1;
        CHECK(gpumc_sample(&scales, &o, &next) == GPUMC_OK, "%s", next.message);
        CHECK(next.warmup_stats[0].step_size == first.step_size, "begins with step size %g",
              next.warmup_stats[0].step_size);
        CHECK(next.warmup_stats[0].accept_stat > 0.3 && next.warmup_stats[0].n_leapfrog < 32, "%g after %d",
              next.warmup_stats[0].accept_stat, (int)next.warmup_stats[0].n_leapfrog);
        gpumc_free(&next);
        o.initial_metric = NULL;
        CHECK(gpumc_sample(&scales, &o, &next) == GPUMC_OK
              && next.warmup_stats[0].step_size == first.step_size, "%s: without a metric step size %g",
              next.message, next.warmup_stats[0].step_size);
        gpumc_free(&next);
        o.initial_metric = k == 2 ? &first.metric : &m;

        o.num_warmup = -1;
        o.metric = k == 1 ? GPUMC_METRIC_DIAG : GPUMC_METRIC_AUTO;
        if (k == 1) CHECK(gpumc_sample(&scales, &o, &next) == GPUMC_ERROR_ARGUMENT
                          && strstr(next.message, "option metric"), "%s", next.message);
        o.metric = GPUMC_METRIC_AUTO;
        check_metric_faults(&scales, o, &first.metric);
        m.scale[1] = k == 1 ? 1 : 0;
        if (k == 1) m.covariance[3] = -1;
        o.initial_metric = &m;
        CHECK(gpumc_sample(&scales, &o, &next) == GPUMC_ERROR_ARGUMENT && strstr(next.message, "variance"),
              "%s", next.message);
        CHECK(gpumc_sample(&line, &o, &next) == GPUMC_ERROR_ARGUMENT
              && strstr(next.message, "2 coordinates for 1"), "%s", next.message);
        gpumc_metric_free(NULL, &m);
        gpumc_free(&first);
    }
    clean();
}

int main(void)
{
    if (!folder_open("zarr")) return 1;
    check_bytes();
    check_groups();
    check_refusals();
    check_merge();
    check_cut_divergences();
    check_hand_made_data();
    check_merge_warnings();
    check_merge_refusals();
    check_merged_aim();
    check_several_files();
    check_stream();
    check_stream_refusals();
    check_killed_streams();
    check_resumed_streams();
    check_failures();
    check_npy();
    check_tidy();
    check_metric();
    check_initial_metric();
    rmdir(folder);
    return check_end();
}
