/* Failures: every allocation refused in turn, threads that cannot be created, and every kind of bad input. Each
   call must return a status; name the argument, its value and the remedy; leave nothing allocated and a fit that
   can be released; call no density that it has refused; and print nothing. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <pthread.h>
#include <unistd.h>
#include "check.h"

/* The creation of the n-th thread and of all later ones fails; 0: none fails. */
static int refuse_thread;

static int create_or_refuse(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                            void *argument)
{
    if (refuse_thread > 0 && --refuse_thread == 0) { refuse_thread = 1; return 11; }
    return pthread_create(thread, attributes, start, argument);
}
#define pthread_create create_or_refuse
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#undef pthread_create
#include "ledger.h"

/* ---- silence --------------------------------------------------------------------------------- */

static int kept_out = -1, kept_err, silent_file = -1;

static void silence_begin(void)
{
    FILE *file = tmpfile();
    fflush(stdout);
    silent_file = dup(fileno(file));
    fclose(file);
    kept_out = dup(1);
    kept_err = dup(2);
    dup2(silent_file, 1);
    dup2(silent_file, 2);
}

/* The number of bytes printed since silence_begin. */
static long silence_end(void)
{
    long bytes;
    fflush(stdout);
    fflush(stderr);
    bytes = (long)lseek(silent_file, 0, SEEK_END);
    dup2(kept_out, 1);
    dup2(kept_err, 2);
    close(kept_out);
    close(kept_err);
    close(silent_file);
    return bytes;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Independent standard normals of the natural values, whatever their constraint: proper for every kind. */
typedef struct bowl {
    size_t n;
    int *calls;                      /* counts the calls where only one thread makes them */
    size_t wrong_component;          /* its derivative is multiplied by wrong_factor */
    double wrong_factor, value;      /* value: added to the log density */
} bowl;

static double bowl_density(const double *x, double *grad, void *data)
{
    bowl *b = data;
    double lp = b->value;
    if (b->calls) ++*b->calls;
    for (size_t i = 0; i < b->n; i++) {
        lp -= 0.5 * x[i] * x[i];
        grad[i] -= x[i];
    }
    if (b->wrong_factor != 0) grad[b->wrong_component] *= b->wrong_factor;
    return lp;
}

static gpumc_model bowl_model(bowl *b, const gpumc_param *params, size_t n_params)
{
    return (gpumc_model){
        .name = "bowl", .params = params, .n_params = n_params, .log_density = bowl_density, .data = b
    };
}

static const gpumc_sample_options quick = {
    .num_chains = 2, .num_warmup = 20, .num_samples = 10, .threads = 1, .seed = 1
};

/* ---- refusals -------------------------------------------------------------------------------- */

/* gpumc_sample through the ledger's allocator, into a fit that starts as garbage, as a local variable would;
   returns how many bytes it printed. */
static long sample_watched(const gpumc_model *model, gpumc_sample_options options, ledger *l, gpumc_fit *fit,
                           gpumc_status *status)
{
    memset(fit, 0xa5, sizeof *fit);
    options.allocator = ledger_allocator(l);
    silence_begin();
    *status = gpumc_sample(model, &options, fit);
    return silence_end();
}

/* gpumc_sample must refuse the model: with this status, a message that contains the words, a fit without draws, all
   memory released and nothing printed. */
static void refuse(int line, const gpumc_model *model, gpumc_sample_options options, gpumc_status wanted,
                   const char *const *words)
{
    ledger l = { 0 };
    gpumc_fit fit;
    gpumc_status status;
    const long printed = sample_watched(model, options, &l, &fit, &status);
    CHECK(status == wanted, "line %d: status %d where %d was due; %s", line, status, wanted, fit.message);
    CHECK(fit.status == status, "line %d: the fit has status %d", line, fit.status);
    for (; *words; words++)
        CHECK(strstr(fit.message, *words), "line %d: no \"%s\" in: %s", line, *words, fit.message);
    CHECK(strlen(fit.message) < sizeof fit.message - 1, "line %d: cut off: %s", line, fit.message);
    CHECK(fit.n_draws == 0, "line %d: %d draws", line, (int)fit.n_draws);
    CHECK(printed == 0, "line %d: %ld bytes were printed", line, printed);
    gpumc_free(&fit);
    gpumc_free(&fit);
    CHECK(l.live == 0, "line %d: %d blocks leaked", line, (int)l.live);
}

/* A model with these parameters must be refused by gpumc_sample and, with the same message, by gpumc_layout_bytes
   and gpumc_check_gradient, before its density is called. */
static void refuse_params(int line, const gpumc_param *params, size_t n, const char *const *words)
{
    int calls = 0;
    bowl b = { .n = 0, .calls = &calls };
    const gpumc_model model = bowl_model(&b, params, n);
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_gradient_report report;
    refuse(line, &model, quick, GPUMC_ERROR_MODEL, words);
    CHECK(gpumc_layout_bytes(&model, &error) == 0, "line %d: a layout was granted", line);
    CHECK(error.status == GPUMC_ERROR_MODEL && strstr(error.text, words[0]), "line %d: layout: %s", line,
          error.text);
    CHECK(gpumc_layout_init(&model, &error, sizeof error, NULL) == NULL, "line %d: a layout was made", line);
    CHECK(gpumc_check_gradient(&model, NULL, &report, &error) == GPUMC_ERROR_MODEL, "line %d: gradient: %s",
          line, error.text);
    CHECK(calls == 0, "line %d: the density was called %d times", line, calls);
}

#define WORDS(...) (const char *const[]){ __VA_ARGS__, NULL }
#define PARAMS(...) \
    (gpumc_param[]){ __VA_ARGS__ }, sizeof((gpumc_param[]){ __VA_ARGS__ }) / sizeof(gpumc_param)
#define REFUSE_PARAMS(words, ...) refuse_params(__LINE__, PARAMS(__VA_ARGS__), words)

static const size_t two_by_three[2] = { 2, 3 }, zero_dim[2] = { 2, 0 },
                    huge_dims[2] = { (size_t)1 << 40, (size_t)1 << 40 };
static const size_t index_past[3] = { 0, 1, 2 };
static const double twos[] = { 2, 2 };
static const size_t three_walks[2] = { 3, 2 }, changes[6] = { 0, 0, 0, 0, 0, 1 };
static const double infinite_init[2] = { 0, INFINITY }, outside_init[1] = { -1 }, half[2] = { 0.5, 0.5 },
                    not_all[2] = { 1, NAN }, second_init[4] = { 0, 0, 0, NAN };

static void check_names_and_sizes(void)
{
    char wide[202] = { 0 };
    memset(wide, 'a', sizeof wide - 1);
    REFUSE_PARAMS(WORDS("aaa", "up to 200 letters"), { .name = wide });
    REFUSE_PARAMS(WORDS("parameter 1", "no name", ".name"), { .name = "a" }, { .size = 3 });
    REFUSE_PARAMS(WORDS("\"\"", "letter"), { .name = "" });
    REFUSE_PARAMS(WORDS("\"2a\"", "start with a letter"), { .name = "2a" });
    REFUSE_PARAMS(WORDS("\"a b\"", "letters, digits and _"), { .name = "a b" });
    REFUSE_PARAMS(WORDS("\"a,b\""), { .name = "a,b" });
    REFUSE_PARAMS(WORDS("\"a__\"", "__"), { .name = "a__" });
    REFUSE_PARAMS(WORDS("\"chain\"", "chain, draw"), { .name = "chain" });
    REFUSE_PARAMS(WORDS("\"Draw\"", "chain, draw"), { .name = "Draw" });      /* the same file on some systems */
    REFUSE_PARAMS(WORDS("\"h\303\244\""), { .name = "h\303\244" });
    REFUSE_PARAMS(WORDS("\"mu\"", "twice"), { .name = "mu" }, { .name = "mu" });
    REFUSE_PARAMS(WORDS("\"MU\"", "letter case"), { .name = "mu" }, { .name = "MU" });
    REFUSE_PARAMS(WORDS("\"b\"", "size 5", "leave size 0"),
                  { .name = "b", .size = 5, .dims = two_by_three, .n_dims = 2 });
    REFUSE_PARAMS(WORDS("\"b\"", "zero"), { .name = "b", .dims = zero_dim, .n_dims = 2 });
    REFUSE_PARAMS(WORDS("\"b\"", "overflow"), { .name = "b", .dims = huge_dims, .n_dims = 2 });
    REFUSE_PARAMS(WORDS("\"b\"", "overflow"), { .name = "b", .size = SIZE_MAX });
    REFUSE_PARAMS(WORDS("\"b\"", "n_dims", "NULL"), { .name = "b", .n_dims = 1 });
    REFUSE_PARAMS(WORDS("\"b\"", "n_dims is 0"), { .name = "b", .dims = two_by_three });
}

/* Each block's size fits a size_t, but their sum wraps round: it is 2^64 + 5. */
static void check_sizes_that_wrap(void)
{
    enum { N = 1025 };
    static gpumc_param params[N];
    static char names[N][8];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "b%d", i);
        params[i].name = names[i];
        params[i].size = SIZE_MAX / 1024 - 1;
    }
    params[N - 1].size = 2048 + 5;
    refuse_params(__LINE__, params, N, WORDS("sizes of the parameters overflow"));
}

static void check_kinds(void)
{
    REFUSE_PARAMS(WORDS("\"p\"", "lower 2", "upper 1", "below"),
                  { .name = "p", .kind = GPUMC_INTERVAL, .lower = 2, .upper = 1 });
    REFUSE_PARAMS(WORDS("\"p\"", "lower 0", "upper 0"), { .name = "p", .kind = GPUMC_INTERVAL });
    REFUSE_PARAMS(WORDS("\"p\"", "nan"), { .name = "p", .kind = GPUMC_LOWER, .lower = NAN });
    REFUSE_PARAMS(WORDS("\"p\"", "inf", "finite"), { .name = "p", .kind = GPUMC_UPPER, .upper = INFINITY });
    REFUSE_PARAMS(WORDS("\"p\"", "below"),
                  { .name = "p", .kind = GPUMC_INTERVAL, .lower = -1.7e308, .upper = 1.7e308 });
    REFUSE_PARAMS(WORDS("\"p\"", "multiplier 0", "positive"), { .name = "p", .kind = GPUMC_AFFINE });
    REFUSE_PARAMS(WORDS("\"p\"", "multiplier -1"), { .name = "p", .kind = GPUMC_AFFINE, .multiplier = -1 });
    REFUSE_PARAMS(WORDS("\"p\"", "typical", "inf"), { .name = "p", .kind = GPUMC_POSITIVE, .typical = INFINITY });
    REFUSE_PARAMS(WORDS("\"p\"", "upper 1", "do not fit its kind"), { .name = "p", .upper = 1 });
    REFUSE_PARAMS(WORDS("lower 2", "kind"), { .name = "p", .kind = GPUMC_POSITIVE, .lower = 2 });
    REFUSE_PARAMS(WORDS("upper 2", "kind"), { .name = "p", .kind = GPUMC_LOWER, .lower = 1, .upper = 2 });
    REFUSE_PARAMS(WORDS("lower 1", "kind"), { .name = "p", .kind = GPUMC_UPPER, .lower = 1, .upper = 2 });
    REFUSE_PARAMS(WORDS("upper 2", "kind"), { .name = "p", .kind = GPUMC_UNIT, .upper = 2 });
    REFUSE_PARAMS(WORDS("lower 1", "kind"), { .name = "p", .kind = GPUMC_ORDERED, .size = 2, .lower = 1 });
    REFUSE_PARAMS(WORDS("multiplier 5", "GPUMC_AFFINE"), { .name = "p", .multiplier = 5 });
    REFUSE_PARAMS(WORDS("offset 3", "GPUMC_AFFINE"), { .name = "p", .kind = GPUMC_UNIT, .offset = 3 });
    REFUSE_PARAMS(WORDS("typical 1", "GPUMC_POSITIVE"), { .name = "p", .typical = 1 });
    REFUSE_PARAMS(WORDS("bend 1 ", "below 1"), { .name = "p", .kind = GPUMC_POSITIVE, .typical = 2, .bend = 1 });
    REFUSE_PARAMS(WORDS("bend 0.5", "typical"), { .name = "p", .kind = GPUMC_POSITIVE, .bend = 0.5 });
    REFUSE_PARAMS(WORDS("n_inits is 2", "init"), { .name = "p", .n_inits = 2 });
    REFUSE_PARAMS(WORDS("n_inits is 1048577", "more than there can be chains"),
                  { .name = "p", .init = (double[]){ 1 }, .n_inits = (1 << 20) + 1 });
    REFUSE_PARAMS(WORDS("\"p\"", "lower -1"), { .name = "p", .lower = -1, .upper = INFINITY });
    REFUSE_PARAMS(WORDS("\"p\"", "kind 99", "GPUMC_"), { .name = "p", .kind = (gpumc_kind)99 });
    REFUSE_PARAMS(WORDS("\"p\"", "at least 2", "1"), { .name = "p", .kind = GPUMC_SIMPLEX });
    REFUSE_PARAMS(WORDS("\"p\"", "at least 2"), { .name = "p", .kind = GPUMC_SUM_TO_ZERO, .size = 1 });
    REFUSE_PARAMS(WORDS("\"p\"", "K, K"),
                  { .name = "p", .kind = GPUMC_CHOLESKY_CORR, .dims = two_by_three, .n_dims = 2 });
    REFUSE_PARAMS(WORDS("\"p\"", "K, K"), { .name = "p", .kind = GPUMC_CHOLESKY_CORR, .size = 4 });
    const gpumc_param unit = { .name = "p", .kind = GPUMC_UNIT, .upper = 1 };
    bowl b = { .n = 1 };
    const gpumc_model model = bowl_model(&b, &unit, 1);
    gpumc_error error = { GPUMC_OK, "" };
    CHECK(gpumc_layout_bytes(&model, &error) > 0, "0 and 1 of a unit: %s", error.text);
    const gpumc_model hollow = { .n_params = 1, .n_outputs = 1 };
    CHECK(gpumc_model_n_values(&hollow) == 0 && gpumc_model_n_outputs(&hollow) == 0, "sizes of what is NULL");
}

static void check_hierarchy(void)
{
    REFUSE_PARAMS(WORDS("\"t\"", "location \"m\"", "earlier", "add it"), { .name = "t", .location = "m" });
    REFUSE_PARAMS(WORDS("\"t\"", "location \"m\"", "move it up"), { .name = "t", .location = "m" },
                  { .name = "m" });
    REFUSE_PARAMS(WORDS("\"t\"", "location \"t\""), { .name = "t", .location = "t" });
    REFUSE_PARAMS(WORDS("\"t\"", "scale \"s\"", "earlier"), { .name = "t", .scale = "s" });
    REFUSE_PARAMS(WORDS("\"t\"", "scale \"s\"", "not positive", "GPUMC_POSITIVE"), { .name = "s" },
                  { .name = "t", .scale = "s" });
    REFUSE_PARAMS(WORDS("\"t\"", "scale \"s\"", "not positive"),
                  { .name = "s", .kind = GPUMC_LOWER, .lower = -1 }, { .name = "t", .scale = "s" });
    REFUSE_PARAMS(WORDS("\"t\"", "location \"m\"", "2 values", "location_index"), { .name = "m", .size = 2 },
                  { .name = "t", .size = 3, .location = "m" });
    REFUSE_PARAMS(WORDS("\"t\"", "location_index[2] = 2", "0..1", "\"m\""), { .name = "m", .size = 2 },
                  { .name = "t", .size = 3, .location = "m", .location_index = index_past });
    REFUSE_PARAMS(WORDS("\"t\"", "scale_index", "without scale"),
                  { .name = "t", .size = 3, .scale_index = index_past });
    REFUSE_PARAMS(WORDS("\"t\"", "GPUMC_UNBOUNDED", "not GPUMC_POSITIVE", "logarithm"), { .name = "m" },
                  { .name = "t", .kind = GPUMC_POSITIVE, .location = "m" });
    REFUSE_PARAMS(WORDS("\"t\"", "walk_dim 2", "1 dim"), { .name = "t", .size = 3, .walk_dim = 2 });
    REFUSE_PARAMS(WORDS("\"t\"", "walk_coefficient \"phi\"", "GPUMC_UNIT", "-1..1"),
                  { .name = "s", .kind = GPUMC_POSITIVE },
                  { .name = "phi", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1.5, .size = 3 },
                  { .name = "t", .dims = three_walks, .n_dims = 2, .scale = "s", .walk_dim = 2,
                    .walk_coefficient = "phi" });
    REFUSE_PARAMS(WORDS("\"t\"", "walk_coefficient \"phi\"", "one value, or one a walk"),
                  { .name = "s", .kind = GPUMC_POSITIVE }, { .name = "phi", .kind = GPUMC_UNIT, .size = 2 },
                  { .name = "t", .dims = three_walks, .n_dims = 2, .scale = "s", .walk_dim = 2,
                    .walk_coefficient = "phi" });
    REFUSE_PARAMS(WORDS("\"t\"", "elements 0 and 1", "different locations", "location_index"),
                  { .name = "m", .size = 3 }, { .name = "s", .kind = GPUMC_POSITIVE },
                  { .name = "t", .size = 3, .location = "m", .scale = "s", .walk_dim = 1 });
    REFUSE_PARAMS(WORDS("\"t\"", "elements 4 and 5", "different locations", "location_index"),
                  { .name = "m", .size = 2 }, { .name = "s", .kind = GPUMC_POSITIVE },
                  { .name = "phi", .kind = GPUMC_UNIT },
                  { .name = "t", .dims = three_walks, .n_dims = 2, .location = "m", .location_index = changes,
                    .scale = "s", .walk_dim = 2, .walk_coefficient = "phi" });
    REFUSE_PARAMS(WORDS("\"t\"", "walk_coefficient \"rho\"", "earlier"), { .name = "s", .kind = GPUMC_POSITIVE },
                  { .name = "t", .size = 3, .scale = "s", .walk_dim = 1, .walk_coefficient = "rho" });
    REFUSE_PARAMS(WORDS("\"t\"", "walk_coefficient \"phi\"", "wants a scale"),
                  { .name = "phi", .kind = GPUMC_UNIT }, { .name = "t", .size = 3, .walk_coefficient = "phi" });
    REFUSE_PARAMS(WORDS("\"t\"", "walk_coefficient \"phi\"", "no covariates"), { .name = "b" },
                  { .name = "phi", .kind = GPUMC_UNIT }, { .name = "s", .kind = GPUMC_POSITIVE },
                  { .name = "t", .size = 2, .scale = "s", .walk_dim = 1, .walk_coefficient = "phi",
                    .covariates = half, .n_covariates = 1, .coefficients = "b" });
    REFUSE_PARAMS(WORDS("\"t\"", "covariates", "together"), { .name = "t", .size = 2, .covariates = half });
    REFUSE_PARAMS(WORDS("\"t\"", "coefficients \"b\"", "1 values"), { .name = "b", .size = 2 },
                  { .name = "t", .size = 2, .covariates = half, .n_covariates = 1, .coefficients = "b" });
    REFUSE_PARAMS(WORDS("\"t\"", "coefficients \"b\"", "3 values"), { .name = "b" },
                  { .name = "t", .covariates = half, .n_covariates = 3, .coefficients = "b" });
    REFUSE_PARAMS(WORDS("\"t\"", "covariates[1]", "nan"), { .name = "b" },
                  { .name = "t", .size = 2, .covariates = not_all, .n_covariates = 1, .coefficients = "b" });
    REFUSE_PARAMS(WORDS("\"t\"", "weight 0.25", "0.1"),
                  { .name = "t", .centring = GPUMC_CENTRING_WEIGHT, .centring_weight = 0.25 });
    REFUSE_PARAMS(WORDS("\"t\"", "weight 2"),
                  { .name = "t", .centring = GPUMC_CENTRING_WEIGHT, .centring_weight = 2 });
    REFUSE_PARAMS(WORDS("\"t\"", "centring_weight 0.3", "GPUMC_CENTRING_WEIGHT"), { .name = "m" },
                  { .name = "t", .location = "m", .centring_weight = 0.3 });
    REFUSE_PARAMS(WORDS("\"t\"", "centring_weight 0.3", "location, scale"),
                  { .name = "t", .centring = GPUMC_CENTRING_WEIGHT, .centring_weight = 0.3 });
    REFUSE_PARAMS(WORDS("\"t\"", "centring_weight nan", "leave it 0"), { .name = "t", .centring_weight = NAN });
}

/* Errors of the model as a whole. */
static void check_models(void)
{
    static const gpumc_param mu = { .name = "mu" };
    int calls = 0;
    bowl b = { .n = 1, .calls = &calls };
    gpumc_model m = bowl_model(&b, &mu, 1), broken = m;
    gpumc_fit fit;
    long printed;
    gpumc_status status;
    refuse(__LINE__, NULL, quick, GPUMC_ERROR_ARGUMENT, WORDS("model", "NULL"));
    broken.params = NULL;
    refuse(__LINE__, &broken, quick, GPUMC_ERROR_MODEL, WORDS("no parameters", "params"));
    broken = m;
    broken.n_params = 0;
    refuse(__LINE__, &broken, quick, GPUMC_ERROR_MODEL, WORDS("no parameters", "n_params"));
    broken = m;
    broken.log_density = NULL;
    refuse(__LINE__, &broken, quick, GPUMC_ERROR_MODEL, WORDS("density", "log_density"));
    broken = m;
    broken.n_outputs = 1;
    refuse(__LINE__, &broken, quick, GPUMC_ERROR_MODEL, WORDS("n_outputs is 1", "NULL"));
    silence_begin();
    status = gpumc_sample(&m, &quick, NULL);
    printed = silence_end();
    CHECK(status == GPUMC_ERROR_ARGUMENT && printed == 0, "fit NULL: status %d, %ld bytes printed", status,
          printed);
    CHECK(calls == 0, "a refused model's density was called");
    gpumc_free(NULL);
    memset(&fit, 0, sizeof fit);
    gpumc_free(&fit);
}

static void generate_nothing(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)rng;
    (void)data;
    *out = *x;
}

static void generate_too_much(const double *x, gpumc_rng *rng, double *out, void *data)
{
    generate_nothing(x, rng, out, data);
    out[1] = *x;
}

/* Callbacks that write or read beyond their arrays are noticed. */
static double nosy_density(const double *x, double *grad, void *data)
{
    const double lp = bowl_density(x, grad, data);
    return lp + 1e-300 * x[((const bowl *)data)->n];
}
static void check_overruns(void)
{
    static const gpumc_param two = { .name = "x", .size = 2 };
    static const gpumc_output y = { .name = "y" };
    bowl b = { .n = 3 };
    gpumc_model m = bowl_model(&b, &two, 1);
    gpumc_sample_options o = quick;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_GRADIENT, WORDS("writes beyond the 2 values", "size"));
    b.n = 2;
    m.log_density = nosy_density;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_GRADIENT, WORDS("reads beyond the 2 values"));
    m.log_density = bowl_density;
    m.outputs = &y;
    m.n_outputs = 1;
    m.generate = generate_too_much;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("generate writes beyond the 1 values"));
    o.threads = 2;
    refuse(__LINE__, &m, o, GPUMC_ERROR_MODEL, WORDS("generate writes beyond the 1 values"));
}

static void check_outputs(void)
{
    static const gpumc_param mu = { .name = "mu" };
    static const gpumc_output bad[] = {
        { .name = "mu" }, { .name = "y", .group = (gpumc_group)9 }, { .size = 1 }, { .name = "y y" },
        { .name = "y", .size = 3, .dims = two_by_three, .n_dims = 2 },
    };
    static const char *const words[][3] = {
        { "\"mu\"", "twice", NULL }, { "\"y\"", "group 9", NULL }, { "output 0", "no name", NULL },
        { "\"y y\"", "letters", NULL }, { "\"y\"", "size 3", NULL },
    };
    bowl b = { .n = 1 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gpumc_model m = bowl_model(&b, &mu, 1);
        m.outputs = &bad[i];
        m.n_outputs = 1;
        m.generate = generate_nothing;
        refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, words[i]);
    }
}

/* ---- options --------------------------------------------------------------------------------- */

#define REFUSE_OPTION(field, bad, ...) do { \
    gpumc_sample_options o = quick; \
    o.field = bad; \
    refuse(__LINE__, &m, o, GPUMC_ERROR_ARGUMENT, WORDS(#field, __VA_ARGS__)); \
} while (0)

static int look_away(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats,
                     void *user)
{
    return chain > 1 || draw > 9 || values == NULL || stats == NULL || user != NULL;
}

static void check_options(void)
{
    static const gpumc_param mu = { .name = "mu" };
    int calls = 0;
    bowl b = { .n = 1, .calls = &calls };
    const gpumc_model m = bowl_model(&b, &mu, 1);
    REFUSE_OPTION(num_chains, -1, "-1");
    REFUSE_OPTION(num_chains, INT_MAX, "2147483647");
    REFUSE_OPTION(first_chain_id, UINT32_MAX, "first_chain_id", "2^32");
    REFUSE_OPTION(num_warmup, -2, "-2");
    REFUSE_OPTION(num_samples, -5, "-5");
    REFUSE_OPTION(thin, -1, "-1");
    REFUSE_OPTION(target_accept, 1.0, "1");
    REFUSE_OPTION(target_accept, -0.5, "-0.5");
    REFUSE_OPTION(target_accept, NAN, "nan");
    REFUSE_OPTION(path_length, -1, "-1");
    REFUSE_OPTION(path_length, 1e9, "1000000000");
    REFUSE_OPTION(max_treedepth, -1, "-1");
    REFUSE_OPTION(max_treedepth, 1000, "1000");
    REFUSE_OPTION(metric, (gpumc_metric_kind)17, "17");
    REFUSE_OPTION(step_size, -0.1, "-0.1");
    REFUSE_OPTION(step_size, NAN, "nan");
    REFUSE_OPTION(step_size, INFINITY, "inf");
    REFUSE_OPTION(threads, -2, "-2");
    REFUSE_OPTION(init_radius, -1, "-1");
    REFUSE_OPTION(init_radius, NAN, "nan");
    REFUSE_OPTION(num_warmup, -1, "step_size");            /* no warm-up and no step size */
    REFUSE_OPTION(discard_draws, 1, "on_draw");
    gpumc_sample_options lost = quick;
    lost.discard_draws = lost.save_unconstrained = 1;
    lost.on_draw = look_away;
    refuse(__LINE__, &m, lost, GPUMC_ERROR_ARGUMENT, WORDS("save_unconstrained", "discard_draws"));
    gpumc_sample_options many = quick;
    many.num_samples = 1 << 20;
    many.thin = 1 << 12;
    refuse(__LINE__, &m, many, GPUMC_ERROR_ARGUMENT, WORDS("num_samples", "thin", "4e9 draws"));
    CHECK(calls == 0, "the density was called %d times in spite of bad options", calls);
}

/* More draws than memory can hold, or than size_t can count: refused before anything is sampled. */
static void check_too_large(void)
{
    static const gpumc_param wide = { .name = "mu", .size = 100000 };
    int calls = 0;
    bowl b = { .n = 100000, .calls = &calls };
    const gpumc_model m = bowl_model(&b, &wide, 1);
    const gpumc_param widest = { .name = "mu", .size = SIZE_MAX / 1100 };
    const gpumc_model far_too_wide = bowl_model(&b, &widest, 1);
    const gpumc_sample_options o = {
        .num_chains = 1000, .num_samples = INT_MAX / 2, .num_warmup = 1, .threads = 1
    };
    refuse(__LINE__, &m, o, GPUMC_ERROR_MEMORY, WORDS("memory", "discard_draws"));
    refuse(__LINE__, &far_too_wide, quick, GPUMC_ERROR_MEMORY, WORDS("memory"));
    CHECK(calls == 0, "the density was called %d times", calls);
}

/* ---- start points and gradients -------------------------------------------------------------- */

/* The model's own explanation of a start of zero density is part of the message. */
static gpumc_status say_why(const double *x, void *data, gpumc_error *error)
{
    (void)data;
    error->status = GPUMC_ERROR_NUMERIC;
    snprintf(error->text, sizeof error->text, "row 7 is no count, x %s", x[0] < 100 ? "given" : "lost");
    return error->status;
}

static void check_starts(void)
{
    const gpumc_param infinite = { .name = "beta", .size = 2, .init = infinite_init };
    const gpumc_param second = { .name = "beta", .size = 2, .init = second_init, .n_inits = 2 };
    const gpumc_param outside = { .name = "sigma", .kind = GPUMC_POSITIVE, .init = outside_init };
    const gpumc_param not_simplex = { .name = "w", .kind = GPUMC_SIMPLEX, .size = 2, .init = infinite_init };
    const gpumc_param mu = { .name = "mu", .size = 2 }, told = { .name = "mu", .size = 2, .init = twos };
    const gpumc_param share[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
                                  { .name = "share", .kind = GPUMC_UNIT, .location = "mu", .scale = "tau" } };
    const gpumc_param many[] = { { .name = "transmission" }, { .name = "detection" }, { .name = "recruitment" },
                                 { .name = "growth" }, { .name = "survival" }, { .name = "dispersal" },
                                 { .name = "process_noise" }, { .name = "observation_noise" } };
    int calls = 0;
    bowl b = { .n = 2, .calls = &calls };
    gpumc_model m = bowl_model(&b, &infinite, 1);
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("\"beta\"", "init[1]", "inf", "finite"));
    m.params = &second;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("\"beta\"", "init[3]", "nan"));
    b.n = 1;
    m.params = &outside;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("\"sigma\"", "init", "-1"));
    b.n = 2;
    m.params = &not_simplex;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("\"w\"", "init"));
    m.params = &mu;
    m.name = "a \"bowl\"";
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("name of the model", "bowl", "quotes"));
    m.name = "bowl";
    b.value = -INFINITY;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_START, WORDS("log density", "-inf", "outside their support"));
    m.explain = say_why;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_START,
           WORDS("none of its start points", "support? else give init, a smaller init_radius", "row 7 is no count, x "
                 "given"));
    m.params = &told;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_START,
           WORDS("its start is unusable", "or is init?", "row 7 is no count, x given"));
    m.explain = NULL;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_START, WORDS("at its start (log density -inf at mu[1] 2"));
    m.params = &mu;
    b.value = NAN;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_START, WORDS("log density", "nan", "in the data NaN", "init"));
    m.params = many;                      /* remedies must not be cut off by where the density was evaluated */
    m.n_params = b.n = 8;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_START, WORDS("give init or a smaller init_radius (last nan at"));
    b.n = 2;
    m.params = share;
    m.n_params = 3;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("\"share\"", "not GPUMC_UNIT", "model its logit instead"));
    m.params = &mu;
    m.n_params = 1;
    CHECK(calls < 2000, "%d attempts at a start", calls);
    b.value = 0;
    b.wrong_factor = NAN;
    b.wrong_component = 1;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_START,
           WORDS("derivative", "mu[2] is nan", "log density -", "or give init, a smaller init_radius"));
}

/* A density so steep that starts at half the distance are tried; but there, for |x| < 1, its gradient is NaN. The run
   must end all the same, with chains that stay outside. */
static double hollow_density(const double *x, double *g, void *data)
{
    const double lp = -exp(40 * fabs(x[0]));
    (void)data;
    g[0] += fabs(x[0]) < 1 ? NAN : x[0] > 0 ? 40 * lp : -40 * lp;
    return lp;
}
static void check_hollow(void)
{
    const gpumc_param x = { .name = "x" };
    const gpumc_model m = { .params = &x, .n_params = 1, .log_density = hollow_density };
    gpumc_fit fit;
    gpumc_sample_options o = quick;
    o.skip_gradient_check = 1;
    alarm(20);
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
    alarm(0);
    gpumc_free(&fit);
}

/* Beyond 200 coordinates the gradient check covers some by random directions only. Threads share the work, and their
   message must be the same. */
static void check_gradients_of_many(void)
{
    const gpumc_param theta = { .name = "theta", .size = 409 };
    bowl b = { .n = 409, .wrong_factor = -1 };
    const gpumc_model m = bowl_model(&b, &theta, 1);
    const size_t wrong[] = { 0, 1, 204, 407, 408 };        /* singly: 409 k / 200 = 0, 2, 4, ... 204, ... 406 */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char said[2][sizeof((gpumc_fit *)0)->message];
        b.wrong_component = wrong[i];
        for (int t = 0; t < 2; t++) {
            gpumc_sample_options o = quick;
            gpumc_fit fit;
            o.threads = t ? 4 : 1;
            CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_ERROR_GRADIENT, "component %zu", wrong[i]);
            memcpy(said[t], fit.message, sizeof said[t]);
            gpumc_free(&fit);
        }
        CHECK(strcmp(said[0], said[1]) == 0, "1 thread: %s, 4: %s", said[0], said[1]);
        CHECK(strstr(said[0], "of 208 components"), "%s", said[0]);
        CHECK((strstr(said[0], "theta[") != NULL) == (wrong[i] == 0 || wrong[i] == 204), "%s", said[0]);
    }
}

/* An allocator whose memory is not aligned for a double. */
static void *odd_allocate(size_t bytes, void *user)
{
    char *block = (char *)malloc(bytes + 1);
    (void)user;
    return block ? block + 1 : NULL;
}
static void odd_release(void *block, void *user)
{
    (void)user;
    free((char *)block - 1);
}
static void check_odd_memory(void)
{
    static const gpumc_param mu = { .name = "mu" };
    bowl b = { .n = 1 };
    const gpumc_model m = bowl_model(&b, &mu, 1);
    gpumc_sample_options o = quick;
    gpumc_fit fit;
    o.allocator.allocate = odd_allocate;
    o.allocator.release = odd_release;
    CHECK(gpumc_sample(&m, &o, &fit) < 0 && strstr(fit.message, "aligned"), "%s", fit.message);
    gpumc_free(&fit);
}

/* law 0 or 1: ten normal or Student-t observations near a value; law 2: a density with a kink at x[0] = 0. The
   derivative by x[0] is multiplied by factor, and noise of sd jitter is added to the log density. */
typedef struct far_model { double value, factor, jitter; int law; gpumc_rng rng; } far_model;
static double far_density(const double *x, double *grad, void *data)
{
    far_model *f = (far_model *)data;
    double lp = 0, by_mu = 0, by_sigma = 0;
    for (int i = 0; i < 10 && f->law < 2; i++) {
        const double y = f->value + 0.7 * (i - 4.2);
        lp += f->law ? gpumc_student_t_lpdf(y, 4, x[0], x[1], NULL, NULL, &by_mu, &by_sigma)
                     : gpumc_normal_lpdf(y, x[0], x[1], NULL, &by_mu, &by_sigma);
    }
    grad[0] += f->factor * by_mu;
    grad[1] += by_sigma;
    if (f->law == 2) {
        lp -= fabs(x[0]) + 0.5 * x[1] * x[1];
        grad[0] -= f->factor * (x[0] < 0 ? -1 : 1);
        grad[1] -= x[1];
    }
    return lp + f->jitter * gpumc_rng_normal(&f->rng);
}

/* The gradient check where values are far larger than their scale, at the mode or far from it: correct gradients
   pass, wrong ones are refused. */
static void check_far_gradients(void)
{
    static const struct { double value, start; int law; } cases[] = {
        { 1, 0.3, 0 }, { 1e7, 0.5, 0 }, { 1e9, 0.5, 0 }, { 1e6, 1e6, 0 }, { 1e9, 1e9, 0 }, { 1e4, 1e4, 1 },
        { 1e6, 1e6, 1 }, { 1e7, 1e7, 1 }, { 1e9, 1e9, 1 }, { 1e11, 1e11, 1 }, { 0, 0, 2 }, { 0, 3, 2 },
    };
    const gpumc_param params[] = { { .name = "mu" }, { .name = "sigma", .kind = GPUMC_POSITIVE } };
    far_model f;
    const gpumc_model m = { .name = "far", .params = params, .n_params = 2, .log_density = far_density,
                            .data = &f };
    gpumc_error error;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int s = 0; s < 40; s++) {
            double x[2];
            memset(&f, 0, sizeof f);
            f.value = cases[k].value;
            f.law = cases[k].law;
            f.rng = gpumc_rng_at(3, (uint32_t)s, 0, 0);
            x[0] = cases[k].start + (f.law == 2 ? 0 : 0.1 * s);
            x[1] = exp(0.05 * (s - 20));
            f.factor = 1;
            CHECK(gpumc_check_gradient(&m, x, NULL, &error) == GPUMC_OK, "case %zu, %d: %s", k, s,
                  error.text);
            f.factor = 1.02;
            CHECK(gpumc_check_gradient(&m, x, NULL, &error) == GPUMC_ERROR_GRADIENT, "case %zu, %d: wrong", k,
                  s);
            if (k) continue;
            f.factor = 1;
            f.jitter = 0.1;
            CHECK(gpumc_check_gradient(&m, x, NULL, &error) == GPUMC_ERROR_GRADIENT, "chance %d", s);
        }
}

/* A density that writes to memory which all calls share, and reads it after waiting for another thread to have
   written there. */
typedef struct shared_memory { volatile double work[64]; volatile int n_written; int alone; } shared_memory;
static double shared_density(const double *x, double *grad, void *data)
{
    shared_memory *m = (shared_memory *)data;
    const double until = gpumc__seconds() + 0.2;
    double lp = 0;
    for (int i = 0; i < 64; i++) m->work[i] = x[i % 2] + i;
    const int mine = __sync_add_and_fetch(&m->n_written, 1);
    while (!m->alone && m->n_written == mine && gpumc__seconds() < until) gpumc__yield();
    for (int i = 0; i < 64; i++) lp -= 1e-3 * m->work[i] * m->work[i];
    for (int i = 0; i < 64; i++) grad[i % 2] -= 2e-3 * m->work[i];
    return lp;
}
static void check_shared_memory(void)
{
    const gpumc_param x = { .name = "x", .size = 2 };
    shared_memory shared = { { 0 }, 0, 1 };
    gpumc_model m = { .name = "shared", .params = &x, .n_params = 1, .log_density = shared_density,
                      .data = &shared };
    gpumc_sample_options o = quick;
    gpumc_fit fit;
    far_model f = { .law = 2, .factor = 1, .jitter = 1e-6 };
    o.threads = 1;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "by one thread: %s", fit.message);
    gpumc_free(&fit);
#if !defined(GPUMC_NO_THREADS)
    o.threads = 4;
    shared.alone = 0;
    refuse(__LINE__, &m, o, GPUMC_ERROR_GRADIENT, WORDS("evaluated twice", "share"));
#endif
    f.rng = gpumc_rng_at(4, 0, 0, 0);
    m.log_density = far_density;
    m.data = &f;
    o.threads = 1;
    refuse(__LINE__, &m, o, GPUMC_ERROR_GRADIENT, WORDS("evaluated twice", "x and data alone"));
}

/* Blocks that declare a location, a scale and a factor; the density omits the population, the factor, or nothing. */
static double unjoined(const double *x, double *g, void *data)
{
    const int lacks = *(const int *)data;
    const double tau = x[1], *L = x + 2;
    double lp = gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_half_normal_lpdf(tau, 1, &g[1], NULL)
              + gpumc_lkj_corr_cholesky_lpdf(L, 2, 1, g + 2, NULL);
    for (int i = 0; i < 3; i++) {
        const double zero[2] = { 0, 0 }, one[4] = { 1, 0, 0, 1 };
        double z[2], work[4], by_z[2] = { 0, 0 }, unused[4] = { 0 };
        for (int k = 0; k < 2; k++) z[k] = lacks == 1 ? x[6 + 3 * k + i] : (x[6 + 3 * k + i] - x[0]) / tau;
        lp += gpumc_multi_normal_cholesky_lpdf(z, zero, lacks == 2 ? one : L, 2, by_z, NULL,
                                               lacks == 2 ? unused : g + 2, work);
        for (int k = 0; k < 2; k++) {
            g[6 + 3 * k + i] += lacks == 1 ? by_z[k] : by_z[k] / tau;
            if (lacks == 1) continue;
            lp -= log(tau);
            g[0] -= by_z[k] / tau;
            g[1] -= (by_z[k] * z[k] + 1) / tau;
        }
    }
    return lp;
}
static void check_joined(void)
{
    static const size_t two[] = { 2, 2 };
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = two, .n_dims = 2 },
        { .name = "a", .size = 3, .location = "mu", .scale = "tau", .factor = "L" },
        { .name = "b", .size = 3, .location = "mu", .scale = "tau", .factor = "L" },
    };
    int lacks = 0;
    const gpumc_model m = { .name = "unjoined", .params = params, .n_params = 5, .log_density = unjoined,
                            .data = &lacks };
    gpumc_fit fit;
    CHECK(gpumc_sample(&m, &quick, &fit) == GPUMC_OK, "%s", fit.message);
    gpumc_free(&fit);
    lacks = 1;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("\"a\" with its location, \"mu\"", "add its population"));
    lacks = 2;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL, WORDS("\"a\" with its factor, \"L\"", "or declare none"));
}

/* A GPU may be lost while another thread has the text about it in hand: that text stays. */
static void check_where(void)
{
    gpumc_param params[] = { { .name = "mu" } };
    gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 5, 0 } };
    const gpumc_hier_data data = { .params = params, .n_params = 1, .priors = priors, .n_priors = 1 };
    gpumc_error error = { GPUMC_ERROR_DEVICE, "GPU: kernel: lost" }, wrong = { GPUMC_OK, "" };
    gpumc_hier *hier = gpumc_hier_create(&data, &wrong);
    CHECK(hier != NULL, "%s", wrong.text);
    if (!hier) return;
    const char *before = gpumc_hier_where(hier);
    for (int k = 0; k < 2; k++) {
        gpumc__hier_fail(hier, &error);
        CHECK(strcmp(before, "CPU") == 0 && strcmp(gpumc_hier_where(hier), "CPU: GPU: kernel: lost") == 0,
              "%s, then %s", before, gpumc_hier_where(hier));
        strcpy(error.text, "GPU: lost again");
    }
    gpumc_hier_free(hier);
}

/* An intercept and dummies of all levels, of which the data identify only the sums: refused, but accepted if one has
   a prior, however wide. With 3 or 200 elements of a hierarchy besides; in the latter case these are not examined. */
typedef struct dummies { double prior; size_t n_others; } dummies;
static double dummy_density(const double *x, double *g, void *data)
{
    const dummies *d = (const dummies *)data;
    double lp = gpumc_half_normal_lpdf(x[7], 1, &g[7], NULL);
    for (size_t i = 0; i < 6; i++)
        lp += gpumc_normal_lpdf(0.3 * (double)i - x[0], x[1 + i], 1, NULL, &g[1 + i], NULL);
    for (size_t i = 0; i < 6; i++) g[0] += 0.3 * (double)i - x[0] - x[1 + i];
    if (d->prior > 0) lp += gpumc_normal_lpdf(x[3], 0, d->prior, &g[3], NULL, NULL);
    for (size_t i = 8; i < 8 + d->n_others; i++) lp += gpumc_normal_lpdf(x[i], 0, x[7], &g[i], NULL, &g[7]);
    return lp;
}
static void check_combined(void)
{
    for (int k = 0; k < 4; k++) {
        dummies d = { k % 2 ? 1e5 : 0, k / 2 ? 200 : 3 };
        const gpumc_param params[] = { { .name = "alpha" }, { .name = "year", .size = 6 },
            { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "z", .size = d.n_others, .scale = "tau" } };
        const gpumc_model m = { .name = "dummies", .params = params, .n_params = 4, .log_density = dummy_density,
                                .data = &d };
        gpumc_error error = { GPUMC_OK, "" };
        if (k % 2) CHECK(gpumc_check_gradient(&m, NULL, NULL, &error) == GPUMC_OK, "%s", error.text);
        else refuse(__LINE__, &m, quick, GPUMC_ERROR_MODEL,
                    WORDS("alpha, year[1], year[2], ...", "however far", "GPUMC_SUM_TO_ZERO"));
    }
}

/* Twenty states that three sensors of unknown bias read: every state and every bias may move against each other.
   Refused from every start, though residuals of half a unit magnify rounding errors. */
static double sensor_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 60; i++) {
        double by = 0;
        lp += gpumc_normal_lpdf(i / 3 + i % 3 * 2 + 0.4 * sin(i), x[i / 3] + x[20 + i % 3], 0.5, NULL, &by, NULL);
        g[i / 3] += by;
        g[20 + i % 3] += by;
    }
    return lp;
}
static void check_sensors(void)
{
    const gpumc_param params[] = { { .name = "state", .size = 20 }, { .name = "bias", .size = 3 } };
    const gpumc_model m = { .params = params, .n_params = 2, .log_density = sensor_density };
    for (uint64_t seed = 0; seed < (getenv("QUICK") ? 3 : 30); seed++) {
        gpumc_sample_options o = quick;
        o.seed = seed;
        refuse(__LINE__, &m, o, GPUMC_ERROR_MODEL, WORDS("state[1], state[2], ", "however far"));
    }
}

/* A multi-logit regression with coefficients for all categories, without priors: of three combinations nothing is
   known. Refused from every start, though rounding errors are large where all coefficients are; not with priors. */
enum { CHOICES = 4, TRAITS = 3, CHOOSERS = 200 };
typedef struct choices { double prior, x[CHOOSERS][TRAITS], y[CHOOSERS]; } choices;
static double choice_density(const double *x, double *g, void *data)
{
    const choices *d = (const choices *)data;
    double lp = 0;
    for (int k = 0; k < CHOICES * TRAITS && d->prior > 0; k++)
        lp += gpumc_normal_lpdf(x[k], 0, d->prior, &g[k], NULL, NULL);
    for (int i = 0; i < CHOOSERS; i++) {
        double eta[CHOICES] = { 0 }, by_eta[CHOICES] = { 0 };
        for (int k = 0; k < CHOICES * TRAITS; k++) eta[k / TRAITS] += x[k] * d->x[i][k % TRAITS];
        lp += gpumc_categorical_logit_lpmf(d->y[i], eta, CHOICES, by_eta);
        for (int k = 0; k < CHOICES * TRAITS; k++) g[k] += by_eta[k / TRAITS] * d->x[i][k % TRAITS];
    }
    return lp;
}
static void check_choices(void)
{
    static const gpumc_param beta = { .name = "beta", .size = CHOICES * TRAITS };
    static choices d;
    const gpumc_model m = { .name = "choices", .params = &beta, .n_params = 1, .log_density = choice_density,
                            .data = &d };
    int refused[2] = { 0, 0 };
    for (uint32_t trial = 0; trial < 60; trial++) {
        gpumc_rng rng = gpumc_rng_at(5, 0, trial, 0);
        double x[CHOICES * TRAITS];
        for (int i = 0; i < CHOOSERS * TRAITS; i++) d.x[i / TRAITS][i % TRAITS] = gpumc_rng_normal(&rng);
        for (int i = 0; i < CHOOSERS; i++) d.y[i] = (double)gpumc_rng_below(&rng, CHOICES);
        for (int i = 0; i < CHOICES * TRAITS; i++) x[i] = 4 * gpumc_rng_uniform(&rng) - 2;
        for (int k = 0; k < 2; k++) {
            d.prior = k ? 1e5 : 0;
            refused[k] += gpumc_check_gradient(&m, x, NULL, NULL) == GPUMC_ERROR_MODEL;
        }
    }
    CHECK(refused[0] == 60 && refused[1] == 0, "refused without priors %d of 60, with %d", refused[0], refused[1]);
}

/* A random walk of Laplace steps: as a function of one element the density is flat between its neighbours. Its
   gradient passes the check at all points tried, and the flat parts are not taken for a missing prior. */
enum { KINKS = 40 };
static double kinky(const double *x, double *g, void *data)
{
    double lp = gpumc_laplace_lpdf(x[0], 0, 1, &g[0], NULL, NULL);
    (void)data;
    for (int i = 1; i < KINKS; i++) lp += gpumc_laplace_lpdf(x[i], x[i - 1], 1, &g[i], &g[i - 1], NULL);
    return lp;
}
static void check_kinks(void)
{
    static const gpumc_param walk = { .name = "x", .size = KINKS };
    const gpumc_model m = { .name = "kinks", .params = &walk, .n_params = 1, .log_density = kinky };
    const gpumc_sample_options o = { .num_samples = 60, .seed = 2 };
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0);
    gpumc_error error = { GPUMC_OK, "" };
    double x[KINKS];
    gpumc_fit fit;
    for (int trial = 0; trial < 50; trial++) {
        for (int i = 0; i < KINKS; i++) x[i] = 2 * gpumc_rng_normal(&rng);
        CHECK(gpumc_check_gradient(&m, x, NULL, &error) == GPUMC_OK, "%s", error.text);
    }
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
    CHECK(fit.n_warnings > 0 && fit.warnings->code != GPUMC_W_IMPROPER, "%s",
          fit.n_warnings ? fit.warnings->text : "nothing is doubted");
    gpumc_free(&fit);
}

/* In free coordinates a wrong derivative by an element also changes those by its location and scale: the message must
   name the element. */
static double wrong_elements(const double *x, double *grad, void *data)
{
    const int wrong = *(const int *)data;
    double lp = gpumc_normal_lpdf(x[0], 0, 5, wrong == 0 ? NULL : &grad[0], NULL, NULL)
              + gpumc_half_normal_lpdf(x[1], 5, &grad[1], NULL);
    for (int i = 2; i < 6; i++) {
        double by = 0;
        lp += gpumc_normal_lpdf(x[i], x[0], x[1], &grad[i], &grad[0], &grad[1])
            + gpumc_normal_lpdf(i, x[i], 1, NULL, &by, NULL);
        grad[i] += wrong == 2 ? -by : by;
    }
    return lp;
}
static void check_blame(void)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
                                          { .name = "theta", .size = 4, .location = "mu", .scale = "tau" } };
    int wrong = 1;
    const gpumc_model m = { .name = "blame", .params = params, .n_params = 3, .log_density = wrong_elements,
                            .data = &wrong };
    gpumc_error error = { GPUMC_OK, "" };
    CHECK(gpumc_check_gradient(&m, NULL, NULL, &error) == GPUMC_OK, "%s", error.text);
    wrong = 0;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_GRADIENT, WORDS("\"mu\""));
    wrong = 2;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_GRADIENT, WORDS("\"theta["));
}

/* The message names the component, both values and their likely relation. */
static void check_gradients(void)
{
    const double init[3] = { 0.5, 2, 1 };
    const gpumc_param theta = { .name = "theta", .size = 3, .init = init };
    bowl b = { .n = 3, .wrong_component = 1, .wrong_factor = -1 };
    const gpumc_model m = bowl_model(&b, &theta, 1);
    gpumc_sample_options o = quick;
    gpumc_gradient_report report;
    gpumc_error error;
    gpumc_fit fit;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_GRADIENT, WORDS("theta[2]", "is 2 where", "sign error"));
    CHECK(gpumc_check_gradient(&m, init, &report, &error) == GPUMC_ERROR_GRADIENT, "%s", error.text);
    CHECK(strcmp(report.name, "theta[2]") == 0 && report.analytic == 2 && fabs(report.numeric + 2) < 1e-4
              && report.n_failed == 1 && report.n_checked == 3,
          "%s %g %g", report.name, report.analytic, report.numeric);
    b.wrong_factor = 1.01;
    refuse(__LINE__, &m, quick, GPUMC_ERROR_GRADIENT, WORDS("theta[2]", "-2.02", "-2"));
    o.skip_gradient_check = 1;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "skip_gradient_check: %s", fit.message);
    gpumc_free(&fit);
    b.wrong_factor = 1 + 1e-6;
    CHECK(gpumc_check_gradient(&m, NULL, NULL, NULL) == GPUMC_OK, "rounding noise was refused");
    check_blame();
    check_kinks();
    check_gradients_of_many();
    check_far_gradients();
    check_shared_memory();
    check_joined();
    check_where();
    check_combined();
    check_sensors();
    check_choices();
    b.wrong_factor = 0;
    CHECK(gpumc_check_gradient(&m, init, &report, &error) == GPUMC_OK, "%s", error.text);
    CHECK(gpumc_check_gradient(&m, infinite_init, &report, &error) == GPUMC_ERROR_ARGUMENT
              && strstr(error.text, "theta"),
          "a point that is not finite: %s", error.text);
    memset(&report, 'x', sizeof report);
    CHECK(gpumc_check_gradient(NULL, NULL, &report, &error) == GPUMC_ERROR_ARGUMENT && !report.name[0], "%s",
          error.text);
    CHECK(gpumc_check_gradient(NULL, NULL, NULL, NULL) == GPUMC_ERROR_ARGUMENT, "the status needs a text");
}

/* NULL handles, as a program passes them that ignores the status of a call that failed. */
static void check_handles(void)
{
    gpumc_error error;
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    double x[2] = { 0, 0 };
    const double *p = x;
    char name[8] = "before";
#define REFUSE_HANDLE(word, call) CHECK((memset(&error, 0, sizeof error), call) == GPUMC_ERROR_ARGUMENT \
                                        && strstr(error.text, word), "%s: %s", word, error.text)
    REFUSE_HANDLE("layout", gpumc_model_unconstrain(NULL, x, x, x, &error));
    REFUSE_HANDLE("rows", gpumc_rows_explain(NULL, &p, x, &error));
    REFUSE_HANDLE("hier", gpumc_hier_explain(NULL, x, &error));
    REFUSE_HANDLE("hier", gpumc_hier_prior_draw(NULL, &rng, x, &error));
#undef REFUSE_HANDLE
    CHECK(gpumc_hier_explain(NULL, x, NULL) == GPUMC_ERROR_ARGUMENT, "without room for a text");
    CHECK(gpumc_column(NULL, "mu") == SIZE_MAX, "a column of no fit");
    CHECK(gpumc_column_name(NULL, 0, name, sizeof name) == 0 && name[0] == 0, "\"%s\" of no fit", name);
    CHECK(gpumc_stream_draw(0, 0, x, NULL, NULL) != 0, "a draw of no stream was taken");
}

/* ---- the state machine's arguments ----------------------------------------------------------- */

static void check_machine(void)
{
    static double memory[4000], scale[2] = { 1, 1 }, q[2];
    gpumc_metric metric = { .kind = GPUMC_METRIC_DIAG, .dim = 2, .scale = scale, .mean = q };
    gpumc_adapt_options options = { .num_chains = 1 };
    gpumc_error e;
    CHECK(gpumc_nuts_bytes(2, 10) > 0 && gpumc_nuts_bytes(2, 10) <= sizeof memory, "%d",
          (int)gpumc_nuts_bytes(2, 10));
    CHECK(gpumc_nuts_bytes(0, 10) == 0 && gpumc_nuts_bytes(2, 0) == 0 && gpumc_nuts_bytes(2, 1000) == 0,
          "bytes");
    CHECK(gpumc_nuts_bytes(SIZE_MAX / 16, 10) == SIZE_MAX, "an overflow must be no size that can be granted");
#define REFUSE_INIT(word, ...) \
    do { \
        memset(&e, 0, sizeof e); \
        CHECK(gpumc_nuts_init(__VA_ARGS__, &e) == NULL && e.status == GPUMC_ERROR_ARGUMENT \
                  && strstr(e.text, word), \
              "%s", e.text); \
    } while (0)
    REFUSE_INIT("memory is NULL", NULL, sizeof memory, 2, 10, &metric, 0.1, 1, 1, q);
    REFUSE_INIT("metric is NULL", memory, sizeof memory, 2, 10, NULL, 0.1, 1, 1, q);
    REFUSE_INIT("q is NULL", memory, sizeof memory, 2, 10, &metric, 0.1, 1, 1, NULL);
    REFUSE_INIT("aligned", (char *)memory + 1, sizeof memory - 1, 2, 10, &metric, 0.1, 1, 1, q);
    REFUSE_INIT("dim 0", memory, sizeof memory, 0, 10, &metric, 0.1, 1, 1, q);
    REFUSE_INIT("max_treedepth 99", memory, sizeof memory, 2, 99, &metric, 0.1, 1, 1, q);
    REFUSE_INIT("64 bytes", memory, 64, 2, 10, &metric, 0.1, 1, 1, q);
    REFUSE_INIT("dimension", memory, sizeof memory, 3, 10, &metric, 0.1, 1, 1, q);
    REFUSE_INIT("step size -1", memory, sizeof memory, 2, 10, &metric, -1.0, 1, 1, q);
    REFUSE_INIT("step size nan", memory, sizeof memory, 2, 10, &metric, (double)NAN, 1, 1, q);
    metric.mean = NULL;
    REFUSE_INIT("no mean", memory, sizeof memory, 2, 10, &metric, 0.1, 1, 1, q);
    CHECK(gpumc_adapt_init(memory, 8, NULL, 2, &options, &e) == NULL && strstr(e.text, "8"), "%s", e.text);
    CHECK(gpumc_adapt_init(memory, sizeof memory, NULL, 0, &options, &e) == NULL
              && strstr(e.text, "dim is 0"),
          "%s", e.text);
    options.target_accept = 2;
    CHECK(gpumc_adapt_init(memory, sizeof memory, NULL, 2, &options, &e) == NULL
              && strstr(e.text, "target_accept 2"),
          "%s", e.text);
    options.target_accept = NAN;
    CHECK(gpumc_adapt_init(memory, sizeof memory, NULL, 2, &options, &e) == NULL
              && strstr(e.text, "target_accept nan"),
          "%s", e.text);
    CHECK(gpumc_adapt_bytes(NULL, 2, &options) == 0, "bytes in spite of a bad option");
}

/* ---- memory and threads that cannot be had --------------------------------------------------- */

static void generate_square(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)data;
    out[0] = x[0] * x[0] + gpumc_rng_normal(rng);
}

/* One run with the n-th allocation refused. It must fail with GPUMC_ERROR_MEMORY and without draws or, if only the
   warnings needed the memory, give a complete fit, which says so if warnings are missing. Returns whether there was
   an n-th allocation. */
static int run_refused(const gpumc_model *m, gpumc_sample_options options, size_t n, int all_later,
                       size_t n_warnings, const char *what)
{
    ledger l = { .refuse_at = n, .refuse_later = all_later };
    gpumc_fit fit;
    gpumc_status status;
    const long printed = sample_watched(m, options, &l, &fit, &status);
    CHECK(fit.status == status && printed == 0, "%s, allocation %d: status %d, %ld bytes printed", what,
          (int)n, status, printed);
    if (l.calls < n)
        CHECK(status == GPUMC_OK && !fit.message[0], "%s: status %d, %s", what, status, fit.message);
    else
        CHECK(strstr(fit.message, "memory") || (status == GPUMC_OK && fit.n_warnings == n_warnings),
              "%s, allocation %d: %d of %d warnings: %s", what, (int)n, (int)fit.n_warnings, (int)n_warnings,
              fit.message);
    if (status == GPUMC_OK)
        CHECK(fit.n_draws == 10 || options.discard_draws, "%s: %d draws", what, (int)fit.n_draws);
    else
        CHECK(status == GPUMC_ERROR_MEMORY && fit.n_draws == 0, "%s, allocation %d: status %d", what, (int)n,
              status);
    gpumc_free(&fit);
    CHECK(l.live == 0, "%s, allocation %d: %d blocks leaked", what, (int)n, (int)l.live);
    CHECK(l.calls > 0, "%s: nothing went through the allocator", what);
    return l.calls >= n;
}

static double joined_density(const double *x, double *g, void *data)
{
    double lp = gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_half_normal_lpdf(x[1], 1, &g[1], NULL);
    (void)data;
    for (int i = 2; i < 5; i++) lp += gpumc_normal_lpdf(x[i], x[0], x[1], &g[i], &g[0], &g[1]);
    return lp;
}

/* The n-th allocation fails, alone or with all later ones, for n = 1, 2, ... until n exceeds their number. */
static void check_allocations(gpumc_sample_options options, const char *what)
{
    static const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 3, .location = "mu", .scale = "tau" },
    };
    static const gpumc_output output = { .name = "square" };
    gpumc_model m = { .params = params, .n_params = 3, .log_density = joined_density };
    gpumc_fit whole;
    m.outputs = &output;
    m.n_outputs = 1;
    m.generate = generate_square;
    CHECK(gpumc_sample(&m, &options, &whole) == GPUMC_OK, "%s: %s", what, whole.message);
    for (int all_later = 0; all_later < 2; all_later++)
        for (size_t n = 1; run_refused(&m, options, n, all_later, whole.n_warnings, what) && n < 10000; n++) { }
    gpumc_free(&whole);
}

/* If threads cannot be created, the run has fewer threads and the same draws. */
static void check_thread_creation(void)
{
    static const gpumc_param mu = { .name = "mu", .size = 2 };
    bowl b = { .n = 2 };
    const gpumc_model m = bowl_model(&b, &mu, 1);
    gpumc_sample_options o = quick;
    gpumc_fit one, few;
    CHECK(gpumc_sample(&m, &o, &one) == GPUMC_OK, "%s", one.message);
    o.num_chains = 2;
    o.threads = 2;
    for (int n = 1; n <= 2; n++) {
        refuse_thread = n;
        CHECK(gpumc_sample(&m, &o, &few) == GPUMC_OK, "thread %d refused: %s", n, few.message);
        refuse_thread = 0;
        CHECK(few.draws && memcmp(one.draws, few.draws, 2 * 10 * 2 * sizeof(double)) == 0,
              "thread %d refused: other draws", n);
        gpumc_free(&few);
    }
    gpumc_free(&one);
}

int main(void)
{
    gpumc_sample_options everything = quick;
    check_names_and_sizes();
    check_sizes_that_wrap();
    check_kinds();
    check_hierarchy();
    check_models();
    check_overruns();
    check_outputs();
    check_options();
    check_too_large();
    check_starts();
    check_hollow();
    check_gradients();
    check_handles();
    check_machine();
    check_thread_creation();
    check_odd_memory();
    check_allocations(quick, "defaults");
    everything.save_warmup = everything.save_unconstrained = 1;
    everything.threads = 2;
    everything.metric = GPUMC_METRIC_DENSE;
    check_allocations(everything, "everything saved, dense, two threads");
    everything.metric = GPUMC_METRIC_LOW_RANK;
    everything.discard_draws = 1;
    everything.save_unconstrained = 0;
    everything.on_draw = look_away;
    check_allocations(everything, "low rank, draws discarded");
    return check_end();
}
