/* Checkpoints: a run that is stopped anywhere and resumed, with any number of threads, has exactly the draws of one
   that was not; damaged, foreign and mismatched files are refused, with messages that name them, and left as they
   are; a save that fails loses neither the run nor the checkpoint before it. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#include "check.h"

/* ---- a system that refuses ------------------------------------------------------------------------- */

static size_t io_calls, io_refuse_at, io_refuse_every;

static int io_refused(void)
{
    io_calls++;
    if (io_calls != io_refuse_at && !(io_refuse_every && io_calls % io_refuse_every == 0)) return 0;
    errno = ENOSPC;
    return 1;
}
static FILE *fopen_or_not(const char *path, const char *mode)
{
    return mode[0] == 'w' && io_refused() ? NULL : fopen(path, mode);
}
static size_t fwrite_or_not(const void *data, size_t size, size_t n, FILE *file)
{
    return io_refused() ? 0 : fwrite(data, size, n, file);
}
static int fflush_or_not(FILE *file) { return io_refused() ? EOF : fflush(file); }
static int fsync_or_not(int file)           /* the disk itself is waited for only once */
{
    static int done;
    return io_refused() ? -1 : done++ ? 0 : fsync(file);
}
static int rename_or_not(const char *from, const char *to) { return io_refused() ? -1 : rename(from, to); }
static int fclose_or_not(FILE *file)
{
    const int no = io_refused(), result = fclose(file);
    return no ? EOF : result;
}

#define fopen fopen_or_not
#define fwrite fwrite_or_not
#define fflush fflush_or_not
#define fsync fsync_or_not
#define rename rename_or_not
#define fclose fclose_or_not
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#undef fopen
#undef fwrite
#undef fflush
#undef fsync
#undef rename
#undef fclose
#include "ledger.h"
#include "folder.h"
#include "same.h"

/* ---- files ----------------------------------------------------------------------------------------- */

static char path[80], older[80], unfinished[80], other[80];

static size_t read_bytes(const char *name, unsigned char **bytes)
{
    FILE *file = fopen(name, "rb");
    size_t n = 0;
    *bytes = (unsigned char *)malloc(1 << 22);
    if (file) n = fread(*bytes, 1, 1 << 22, file);
    if (file) fclose(file);
    return n;
}

static void write_bytes(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) {
        printf("%s cannot be written\n", name);
        exit(1);
    }
}

static void copy_file(const char *from, const char *to)
{
    unsigned char *bytes;
    const size_t n = read_bytes(from, &bytes);
    write_bytes(to, bytes, n);
    free(bytes);
}

static int exists(const char *name) { return access(name, F_OK) == 0; }

static void remove_files(void)
{
    remove(path);
    remove(older);
    remove(unfinished);
    remove(other);
}

/* ---- models ---------------------------------------------------------------------------------------- */

/* Stops a run after a number of evaluations. One at the point that the same thread evaluated last does not count: the
   timing of the first gradient repeats one. */
static size_t points, stop_after;
static __thread double last_point;
static gpumc_stop_flag stop;

static void count_point(double x)
{
    if (x == last_point) return;
    last_point = x;
    if (__atomic_add_fetch(&points, 1, __ATOMIC_RELAXED) == stop_after) gpumc_stop(&stop);
}

#define SCHOOLS_AT(mu) count_point(mu)
#include "schools.h"
#include "densities.h"

static void schools_batch(size_t n, const double *x, double *grad, double *lp, void *data)
{
    for (size_t k = 0; k < n; k++) lp[k] = schools_density(x + 10 * k, grad + 10 * k, data);
}

static gpumc_model schools(int batched)
{
    return (gpumc_model){ .name = "schools", .params = schools_params, .n_params = 3,
                          .log_density = batched ? NULL : schools_density,
                          .log_density_batch = batched ? schools_batch : NULL,
                          .generate = schools_generate, .outputs = &schools_output, .n_outputs = 1 };
}

/* A mode with almost all the mass, and a separate one far away, in which chains that start near it get stuck. */
static double two_modes_density(const double *x, double *grad, void *data)
{
    const double a = 0.5 * (x[0] * x[0] + x[1] * x[1]);
    const double b = 60 + 0.5 * ((x[0] - 40) * (x[0] - 40) + (x[1] - 40) * (x[1] - 40));
    const double share = 1 / (1 + exp(a - b));
    (void)data;
    count_point(x[0]);
    for (int i = 0; i < 2; i++) grad[i] -= x[i] - 40 * (1 - share);
    return a < b ? -a + log1p(exp(a - b)) : -b + log1p(exp(b - a));
}

/* Twenty groups whose noise has an unknown scale, which warm-up finds and on which the coordinates then depend. */
enum { NOISY = 20 };
static double noisy_density(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 5, &g[1], NULL)
        + gpumc_half_normal_lpdf(x[2], 5, &g[2], NULL);
    (void)data;
    count_point(x[0]);
    for (size_t i = 0; i < 4 * NOISY; i++)
        lp += gpumc_normal_lpdf(3 * sin((double)(i % NOISY)) + cos(2.1 * (double)i), x[3 + i % NOISY], x[2], NULL,
                                &g[3 + i % NOISY], &g[2]);
    for (size_t j = 3; j < 3 + NOISY; j++)
        lp += gpumc_normal_lpdf(x[j], x[0], x[1], &g[j], &g[0], &g[1]);
    return lp;
}

/* A walk whose data share two slopes. */
static double sloping_density(const double *x, double *g, void *data)
{
    double lp = gpumc_half_normal_lpdf(x[0], 1, &g[0], NULL) + gpumc_normal_lpdf(x[1], 0, 1, &g[1], NULL, NULL)
        + gpumc_normal_lpdf(x[2], 0, 1, &g[2], NULL, NULL);
    (void)data;
    count_point(x[1]);
    for (size_t t = 0; t < NOISY; t++) {
        const double w[] = { 1 + cos((double)t), sin(2.0 * (double)t) }, *level = &x[3 + t];
        double by_y = 0;
        lp += gpumc_normal_lpdf(sin((double)t) - w[0] * x[1] - w[1] * x[2], *level, 1, &by_y, &g[3 + t], NULL);
        g[1] -= w[0] * by_y;
        g[2] -= w[1] * by_y;
        if (t > 0) lp += gpumc_normal_lpdf(*level, level[-1], x[0], &g[3 + t], &g[2 + t], &g[0]);
    }
    return lp;
}

/* Intercepts and slopes of a covariate far from 0, and another slope that all their data share. */
static double lines_density(const double *x, double *g, void *data)
{
    const size_t a = 6, b = 6 + NOISY;                    /* two means, two scales, sigma, what is shared */
    double lp = gpumc_normal_lpdf(x[0], 0, 9, &g[0], NULL, NULL) + gpumc_normal_lpdf(x[1], 0, 1, &g[1], NULL, NULL)
        + gpumc_half_normal_lpdf(x[2], 2, &g[2], NULL) + gpumc_half_normal_lpdf(x[3], 1, &g[3], NULL)
        + gpumc_half_normal_lpdf(x[4], 2, &g[4], NULL) + gpumc_normal_lpdf(x[5], 0, 1, &g[5], NULL, NULL);
    (void)data;
    count_point(x[1]);
    for (size_t i = 0; i < 6 * NOISY; i++) {
        const size_t j = i % NOISY;
        const double at = 9 + sin(3.0 * (double)i), shared = cos(5.0 * (double)i);
        double d = 0;
        lp += gpumc_normal_lpdf(sin(0.9 * (double)j) * at + cos(2.1 * (double)i),
                                x[a + j] + x[b + j] * at + x[5] * shared, x[4], NULL, &d, &g[4]);
        g[a + j] += d;
        g[b + j] += d * at;
        g[5] += d * shared;
    }
    for (size_t j = 0; j < NOISY; j++)
        lp += gpumc_normal_lpdf(x[a + j], x[0], x[2], &g[a + j], &g[0], &g[2])
            + gpumc_normal_lpdf(x[b + j], x[1], x[3], &g[b + j], &g[1], &g[3]);
    return lp;
}

/* ---- equality -------------------------------------------------------------------------------------- */

/* What differs between two fits of the same run, or NULL. */
static const char *difference(const gpumc_fit *a, const gpumc_fit *b)
{
    const size_t n = a->n_chains * a->n_draws, w = a->n_chains * a->n_warmup;
    if (a->n_draws != b->n_draws || a->n_warmup != b->n_warmup || a->n_chains != b->n_chains) return "sizes";
    if (!same_doubles(a->draws, b->draws, n * a->n_columns)) return "draws";
    if (!same_doubles(a->unconstrained, b->unconstrained, n * a->n_free)) return "unconstrained draws";
    if (a->stats && !same_stats(a->stats, b->stats, n)) return "statistics";
    if (!a->warmup_draws != !b->warmup_draws) return "whether there is warm-up";
    for (size_t row = 0; a->warmup_draws && row < w; row++)    /* outputs are NaN in warm-up */
        if (!same_doubles(a->warmup_draws + row * a->n_columns, b->warmup_draws + row * a->n_columns,
                          a->n_params_columns)) return "warm-up draws";
    if (a->warmup_stats && !same_stats(a->warmup_stats, b->warmup_stats, w)) return "warm-up statistics";
    if (a->metric.kind != b->metric.kind || a->metric.rank != b->metric.rank
        || !same_doubles(a->metric.scale, b->metric.scale, a->n_free)) return "metric";
    if (!same_doubles(a->centring, b->centring, a->n_free)) return "centring";
    if (a->step_size != b->step_size || a->sampler != b->sampler) return "step size or sampler";
    if (strcmp(a->sampler_reason, b->sampler_reason) != 0) return "reason";
    if (a->warmup_gradients != b->warmup_gradients || a->sampling_gradients != b->sampling_gradients)
        return "numbers of gradients";
    if (a->n_divergent != b->n_divergent || a->n_restarted != b->n_restarted) return "divergences, restarts";
    return a->n_warnings != b->n_warnings ? "warnings" : NULL;
}

/* ---- stopped anywhere ------------------------------------------------------------------------------ */

static uint64_t random_state = 1;
static uint64_t random_below(uint64_t n)      /* splitmix64 */
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

static void arm(size_t after)
{
    points = 0;
    stop_after = after;
    stop.requested = 0;
}

/* A run, stopped and resumed after every `piece` gradients, or a random number up to that; returns the number of
   pieces. */
static size_t run_in_pieces(const gpumc_model *m, gpumc_sample_options o, size_t piece, int random,
                            gpumc_fit *fit)
{
    static ledger l;
    const gpumc_sample_options later = { .stop = &stop, .threads = 1, .on_draw = o.on_draw,
                                         .draw_user = o.draw_user, .allocator = ledger_allocator(&l) };
    gpumc_status status;
    size_t n = 1;
    o.checkpoint = path;
    o.stop = &stop;
    arm(random ? 1 + random_below(piece) : piece);
    status = gpumc_sample(m, &o, fit);
    for (; status == GPUMC_STOPPED && n < 100000; n++) {
        gpumc_sample_options next = later;
        CHECK(fit->resumable && strstr(fit->message, path), "not resumable: %s", fit->message);
        gpumc_free(fit);
        next.threads = 1 + (int)random_below(3);
        arm(random ? 1 + random_below(piece) : piece);
        status = gpumc_resume(m, &next, path, fit);
    }
    CHECK(status == GPUMC_OK && !fit->resumable, "status %d: %s", status, fit->message);
    arm(0);
    return n;
}

static void check_pieces(const char *what, const gpumc_model *m, gpumc_sample_options o, size_t piece,
                         int random)
{
    gpumc_fit whole, fit;
    const char *differs;
    size_t n;
    arm(0);
    o.threads = 1;
    CHECK(gpumc_sample(m, &o, &whole) == GPUMC_OK, "%s: %s", what, whole.message);
    n = run_in_pieces(m, o, piece, random, &fit);
    CHECK(n > 3, "%s: only %d pieces", what, (int)n);
    differs = difference(&whole, &fit);
    CHECK(!differs, "%s, %d pieces: other %s", what, (int)n, differs);
    CHECK(exists(path) && !exists(unfinished) && (n < 4 || exists(older)), "%s: files", what);
    gpumc_free(&whole);
    gpumc_free(&fit);
    remove_files();
}

static const gpumc_sample_options small = { .num_chains = 3, .num_warmup = 60, .num_samples = 30, .seed = 7,
                                            .save_warmup = 1, .save_unconstrained = 1 };

static size_t late;         /* after so many evaluations schools(0) with these options is drawing */

static void find_late(void)
{
    const gpumc_model m = schools(0);
    gpumc_fit fit;
    CHECK(gpumc_sample(&m, &small, &fit) == GPUMC_OK, "%s", fit.message);
    late = (size_t)fit.warmup_gradients;
    for (size_t i = 0; i < fit.n_chains * fit.n_draws; i += 2) late += (size_t)fit.stats[i].n_leapfrog;
    gpumc_free(&fit);
}

static void check_every_point(void)
{
    const gpumc_model one = schools(0), batch = schools(1);
    gpumc_sample_options o = small;
    o.num_chains = 2;
    o.num_warmup = 20;
    o.num_samples = 5;
    if (!getenv("QUICK")) check_pieces("every gradient", &one, o, 1, 0);
    check_pieces("every gradient of a batch", &batch, o, 1, 0);
}

static void check_kinds(void)
{
    const gpumc_model one = schools(0), batch = schools(1);
    for (int sampler = GPUMC_SAMPLER_AUTO; sampler <= GPUMC_SAMPLER_HMC; sampler++)
        for (int metric = GPUMC_METRIC_AUTO; metric <= GPUMC_METRIC_UNIT; metric++) {
            gpumc_sample_options o = small;
            char what[64];
            snprintf(what, sizeof what, "sampler %d, metric %d", sampler, metric);
            o.sampler = (gpumc_sampler)sampler;
            o.metric = (gpumc_metric_kind)metric;
            o.thin = 1 + metric % 3;
            o.num_warmup = 60 + 50 * sampler;
            o.first_chain_id = (uint32_t)metric;
            check_pieces(what, metric % 2 ? &batch : &one, o, 200, 1);
        }
}

static void check_noise(void)
{
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = NOISY, .location = "mu", .scale = "tau" },
    };
    const gpumc_model m = { .params = params, .n_params = 4, .log_density = noisy_density };
    check_pieces("noise of the data", &m, small, 200, 1);
}

static void check_slopes(void)
{
    static const size_t dims[] = { NOISY };
    const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "beta", .size = 2 },
        { .name = "level", .dims = dims, .n_dims = 1, .scale = "tau", .walk_dim = 1 } };
    const gpumc_model m = { .params = params, .n_params = 3, .log_density = sloping_density };
    gpumc_sample_options o = small;
    o.num_warmup = 200;
    check_pieces("slopes that data share", &m, o, 200, 1);
}

static void check_lines(void)
{
    const gpumc_param params[] = { { .name = "mean" }, { .name = "mean_slope" },
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "tau_slope", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE }, { .name = "shared" },
        { .name = "intercept", .size = NOISY, .location = "mean", .scale = "tau" },
        { .name = "slope", .size = NOISY, .location = "mean_slope", .scale = "tau_slope" } };
    const gpumc_model m = { .params = params, .n_params = 8, .log_density = lines_density };
    gpumc_sample_options o = small;
    o.num_warmup = 200;
    check_pieces("blocks that data know together", &m, o, 1000, 1);
}

/* A narrow ridge, along which all chains but one start far away and are moved: after the last draw NUTS goes on from
   the places they left. */
enum { RIDGE = 6 };
static double ridge_density(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 1, &g[0], NULL, NULL);
    (void)data;
    count_point(x[0]);
    for (int i = 1; i < RIDGE; i++) lp += gpumc_normal_lpdf(x[i], x[i - 1], 0.01, &g[i], &g[i - 1], NULL);
    return lp;
}
static void check_places_left(void)
{
    double init[3 * RIDGE];
    for (int i = 0; i < 3 * RIDGE; i++) init[i] = i / RIDGE == 1 ? 0 : 12;
    const gpumc_param x = { .name = "x", .size = RIDGE, .init = init, .n_inits = 3 };
    const gpumc_model m = { .params = &x, .n_params = 1, .log_density = ridge_density };
    gpumc_fit fit;
    CHECK(gpumc_sample(&m, &small, &fit) == GPUMC_OK && fit.n_restarted == 2 && fit.n_warnings > 1, "%s",
          fit.message);
    CHECK(strstr(fit.warnings->text, "it was slow"), "%s", fit.warnings->text);
    gpumc_free(&fit);
    check_pieces("where chains were left", &m, small, 200, 1);
}

/* A narrow spot that chains come upon only among the draws, so that warm-up begins anew: see check_late_spot in
   test_run.c. */
static double spot_density(const double *x, double *g, void *data)
{
    (void)data;
    count_point(x[0]);
    return spot(x, g, 3);
}
static void check_anew(void)
{
    const gpumc_param three = { .name = "x", .size = 3 };
    const gpumc_model m = { .params = &three, .n_params = 1, .log_density = spot_density };
    int n_anew = 0;
    for (uint64_t seed = 1; seed <= 20 && n_anew < 3; seed++) {
        gpumc_sample_options o = small;
        gpumc_fit fit;
        o.num_samples = 200;
        o.seed = seed;
        arm(0);
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        const int is_anew = fit.n_warnings > 0 && strstr(fit.warnings->text, "warm-up had ended too early")
            && fit.warmup_gradients + fit.sampling_gradients > 5000;               /* for more than four pieces */
        gpumc_free(&fit);
        if (!is_anew) continue;
        n_anew++;
        check_pieces("warm-up anew", &m, o, 1000, 1);   /* the look back must fit into one */
    }
    CHECK(n_anew == 3, "warm-up began anew in %d runs", n_anew);
}

/* 3 % of the mass in a long tail that HMC has not seen: the checkpoint keeps how much of it NUTS should draw. */
static double tailed_density(const double *x, double *g, void *data)
{
    (void)data;
    count_point(x[0]);
    return long_tailed(x, g, 20);
}
static void check_unseen_by_trees(void)
{
    static const gpumc_param two[] = { { .name = "l", .kind = GPUMC_POSITIVE }, { .name = "z", .size = 19 } };
    const gpumc_model m = { .params = two, .n_params = 2, .log_density = tailed_density };
    int n = 0;
    for (uint64_t seed = 1; seed <= 60 && n < 2; seed++) {
        gpumc_sample_options o = small;
        gpumc_fit fit;
        o.seed = seed;
        o.num_samples = 500;
        arm(0);
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        int too_few = 0;
        for (size_t i = 0; i < fit.n_warnings; i++)
            too_few += strstr(fit.warnings[i].text, "NUTS drew again and has too few there") != NULL;
        gpumc_free(&fit);
        if (!too_few) continue;
        n++;
        check_pieces("what trees are to have", &m, o, 2000, 1);
    }
    CHECK(n == 2, "%d runs have too little", n);
}

/* A separate mode beside the bulk: NUTS draws again what HMC drew, and may be stopped at any point of that. */
static double lumpy_density(const double *x, double *g, void *data)
{
    (void)data;
    count_point(x[0]);
    return lumpy(x, g, 8);
}
static int draw_passes(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats, void *user)
{ return (void)chain, (void)draw, (void)values, (void)stats, user != NULL; }

static int stop_at_the_end(const gpumc_progress *p, void *user)
{ return (*(size_t *)user += p->iteration == p->total) == p->n_chains; }

/* Progress is right also while NUTS, drawing again, tunes its steps: never beyond the total, a gradient a draw or
   more. */
static int progress_is_right(const gpumc_progress *p, void *user)
{
    int *wrong = (int *)user;
    *wrong += p->iteration > p->total || p->remaining < 0 || p->mean_leapfrog < 1;
    return 0;
}

static void check_again(void)
{
    const gpumc_param eight = { .name = "x", .size = 8 };
    const gpumc_model m = { .params = &eight, .n_params = 1, .log_density = lumpy_density };
    gpumc_sample_options o = { .seed = 1, .num_samples = 500, .save_warmup = 1, .save_unconstrained = 1 };
    gpumc_fit fit, once;
    size_t n_done = 0;
    int wrong = 0;
    arm(0);
    o.progress = progress_is_right;
    o.progress_user = &wrong;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && strstr(fit.sampler_reason, "again with NUTS"), "%s",
          fit.sampler_reason);
    CHECK(wrong == 0, "progress is wrong %d times", wrong);
    o.progress = NULL;
    o.on_draw = draw_passes;
    CHECK(gpumc_sample(&m, &o, &once) == GPUMC_OK && fit.n_warmup == once.n_warmup, "%s", once.message);
    CHECK(memcmp(fit.warmup_draws, once.warmup_draws, 4 * 8 * fit.n_warmup * sizeof(double)) == 0,
          "warm-up is not that of the paths");
    gpumc_free(&fit);
    gpumc_free(&once);
    o.on_draw = NULL;
    check_pieces("trees after paths", &m, o, 600, 1);
    check_pieces("pieces shorter than the look back", &m, o, 200, 0);
    o.progress_user = &n_done;
    o.progress = stop_at_the_end;            /* with all draws made, which NUTS would lose by drawing again */
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_draws == 500, "%.0f draws: %s", (double)fit.n_draws,
          fit.message);
    gpumc_free(&fit);
    o.progress = NULL;
    CHECK(gpumc_sample(&m, &o, &once) == GPUMC_OK, "%s", once.message);
    n_done = 0;
    o.progress = stop_at_the_end;            /* but with a checkpoint the run goes on as if not stopped */
    o.checkpoint = path;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_STOPPED && fit.resumable && fit.n_draws == 500, "%s", fit.message);
    gpumc_free(&fit);
    CHECK(gpumc_resume(&m, NULL, path, &fit) == GPUMC_OK, "%s", fit.message);
    const char *differs = difference(&once, &fit);
    CHECK(!differs, "stopped at the end: other %s", differs);
    gpumc_free(&fit);
    gpumc_free(&once);
    remove_files();
}

/* Student's tail, which HMC draws again in half steps: these are judged as such after a stop among them, too. */
static double student_density(const double *x, double *g, void *data)
{
    double lp = gpumc_student_t_lpdf(x[0], 6, 0, 1, &g[0], NULL, NULL, NULL);
    (void)data;
    count_point(x[0]);
    for (int i = 1; i < 20; i++) lp += gpumc_std_normal_lpdf(x[i], &g[i]);
    return lp;
}
static void check_half_steps(void)
{
    const gpumc_param twenty = { .name = "x", .size = 20 };
    const gpumc_model m = { .params = &twenty, .n_params = 1, .log_density = student_density };
    const gpumc_sample_options o = { .seed = 1, .num_samples = 500 };
    gpumc_fit fit;
    arm(0);
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && strstr(fit.sampler_reason, "in half steps"), "%s",
          fit.sampler_reason);
    gpumc_free(&fit);
    check_pieces("half steps", &m, o, 2500, 1);
}

/* Stopped while NUTS draws again in shorter steps: resumed with the target_accept that was asked for, not with
   another. */
static double walled_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    count_point(x[0]);
    if (x[0] < -3) return -INFINITY;
    for (int i = 0; i < 10; i++) lp += gpumc_std_normal_lpdf(x[i], &g[i]);
    return lp;
}
static int stop_among_trees(const gpumc_progress *p, void *sampled)
{ return p->warmup ? *(int *)sampled : (*(int *)sampled = 1, 0); }
static void check_raised_target(void)
{
    const gpumc_param ten = { .name = "x", .size = 10 };
    const gpumc_model m = { .params = &ten, .n_params = 1, .log_density = walled_density };
    int sampled = 0;
    gpumc_sample_options o = { .seed = 4, .target_accept = 0.8, .progress_user = &sampled, .threads = 1 };
    gpumc_fit once, fit;
    arm(0);
    CHECK(gpumc_sample(&m, &o, &once) == GPUMC_OK && strstr(once.sampler_reason, "in shorter steps"), "%s",
          once.sampler_reason);
    o.progress = stop_among_trees;
    o.checkpoint = path;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_STOPPED && fit.resumable, "%s", fit.message);
    gpumc_free(&fit);
    o.progress = NULL;
    o.target_accept = 0.9;
    CHECK(gpumc_resume(&m, &o, path, &fit) == GPUMC_ERROR_ARGUMENT && strstr(fit.message, "target_accept"), "%s",
          fit.message);
    o.target_accept = 0.8;
    CHECK(gpumc_resume(&m, &o, path, &fit) == GPUMC_OK && fit.options.target_accept > 0.95 - 1e-9, "%s", fit.message);
    const char *differs = difference(&once, &fit);
    CHECK(!differs, "stopped among trees: other %s", differs);
    gpumc_free(&fit);
    gpumc_free(&once);
    remove_files();
}

/* A funnel that NUTS draws twice more, in ever shorter steps, and then continues, with the seed below and gcc. */
static double funnel_density(const double *x, double *g, void *data)
{
    const double scale = exp(x[0] / 2);
    double lp = gpumc_std_normal_lpdf(x[0], &g[0]), by_scale = 0;
    (void)data;
    count_point(x[0]);
    for (int i = 1; i < 6; i++) lp += gpumc_normal_lpdf(x[i], 0, scale, &g[i], NULL, &by_scale);
    g[0] += by_scale * scale / 2;
    return lp;
}
/* Of the first chain: how often warm-up has begun, and the first iteration that was reported each time. */
typedef struct warmups { int n, within; size_t first[9]; } warmups;
static int see_warmup(const gpumc_progress *p, void *user)
{
    warmups *w = (warmups *)user;
    if (p->chain == 0 && p->warmup && !w->within && w->n < 9) w->first[w->n++] = p->iteration;
    if (p->chain == 0) w->within = p->warmup;
    return 0;
}
static void check_twice_again(void)
{
    const gpumc_param six = { .name = "x", .size = 6 };
    const gpumc_model m = { .params = &six, .n_params = 1, .log_density = funnel_density };
    gpumc_sample_options o = { .seed = 29, .num_samples = 500 };
    warmups w = { 0, 0, { 0 } };
    gpumc_fit fit;
    check_pieces("trees twice again", &m, o, 15000, 1);
    o.progress = see_warmup;
    o.progress_user = &w;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && w.n <= 3, "%d warm-ups: %s", w.n, fit.message);
    for (int k = 1; k < w.n; k++) {
        const size_t before = fit.n_warmup + 50 * (size_t)(k - 1);
        CHECK(w.first[k] > before && w.first[k] <= before + 5, "warm-up %d from %d", k, (int)w.first[k]);
    }
    printf("trees drew again %d times\n", w.n - 1);
    gpumc_free(&fit);
}

/* Two modes between which chains switch now and then: draws fall just short and are continued, also after a stop in
   between; the run is resumed with the thinning that was asked for, not with another. */
static double near_modes(const double *x, double *grad, void *data)
{
    (void)data;
    count_point(x[0]);
    grad[0] += 2.2 * tanh(2.2 * x[0]) - x[0];
    return -0.5 * x[0] * x[0] + log(cosh(2.2 * x[0]));
}
static int stop_beyond(const gpumc_progress *p, void *asked) { return p->total > *(size_t *)asked; }
static void check_going_on(void)
{
    const gpumc_param x = { .name = "x" };
    const gpumc_model m = { .params = &x, .n_params = 1, .log_density = near_modes };
    size_t asked = 200 + 2 * 600;
    gpumc_sample_options o = { .seed = 1, .thin = 2, .num_samples = 600, .save_unconstrained = 1 };
    gpumc_fit fit;
    check_pieces("draws that go on", &m, o, 2000, 1);
    o.progress = stop_beyond;
    o.progress_user = &asked;
    o.checkpoint = path;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_STOPPED && fit.resumable && fit.options.thin == 4, "%s", fit.message);
    CHECK(fit.n_draws >= 300 && fit.n_draws < 330, "%d draws", (int)fit.n_draws);
    gpumc_free(&fit);
    o.progress = NULL;
    o.thin = 3;
    CHECK(gpumc_resume(&m, &o, path, &fit) == GPUMC_ERROR_ARGUMENT && strstr(fit.message, "thin is 3 here"), "%s",
          fit.message);
    o.thin = 2;
    CHECK(gpumc_resume(&m, &o, path, &fit) == GPUMC_OK && fit.options.thin == 4 && fit.n_draws == 600, "%s",
          fit.message);
    gpumc_free(&fit);
    remove_files();
}

/* A guide may be finite where the density is 0, and chains may be at such places when the run is saved. */
static double half_density(const double *x, double *g, void *data)
{
    const double lp = gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_std_normal_lpdf(x[1], &g[1]);
    (void)data;
    count_point(x[0]);
    return x[0] > 0 ? lp : -INFINITY;
}
static double half_guide(const double *x, double *g, void *data)
{
    (void)data;
    count_point(x[0]);
    return gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_std_normal_lpdf(x[1], &g[1]);
}
static void check_guide(void)
{
    const gpumc_param two = { .name = "x", .size = 2 };
    const gpumc_model m = { .params = &two, .n_params = 1, .log_density = half_density, .guide = half_guide };
    check_pieces("a guide", &m, small, 40, 1);
}

/* The data determine some elements far better than others: the weight of the last notch is learned, and saved. */
static double sharp_density(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 2, &g[1], NULL);
    (void)data;
    count_point(x[0]);
    for (int i = 0; i < 6; i++)
        lp += gpumc_normal_lpdf(x[2 + i], x[0], x[1], &g[2 + i], &g[0], &g[1])
            + gpumc_normal_lpdf(sin(i), x[2 + i], 1e-4 * (1 + 5 * i), NULL, &g[2 + i], NULL);
    return lp;
}

static void check_options(void)
{
    const gpumc_model one = schools(0);
    gpumc_sample_options o = small;
    o.num_chains = 1;
    check_pieces("one chain", &one, o, 100, 1);
    o = small;
    o.num_warmup = -1;
    o.step_size = 0.3;
    check_pieces("no warm-up", &one, o, 50, 1);
    o = small;
    o.num_warmup = 400;
    o.early_stop = 1;
    check_pieces("early stop", &one, o, 300, 1);
    o = small;
    o.save_warmup = o.save_unconstrained = 0;
    o.keep_stuck_chains = 1;
    check_pieces("only draws", &one, o, 100, 1);
    for (o = small; o.keep_stuck_chains < 2; o.keep_stuck_chains++) {
        const gpumc_param plane = { .name = "x", .size = 2 };
        const gpumc_model modes = { .name = "modes", .params = &plane, .n_params = 1,
                                    .log_density = two_modes_density };
        o.num_chains = 6;
        o.init_radius = 40;
        check_pieces("chains that are stuck", &modes, o, 100, 1);
    }
    const gpumc_param sharp[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
                                  { .name = "theta", .size = 6, .location = "mu", .scale = "tau" } };
    const gpumc_model known = { .name = "sharp", .params = sharp, .n_params = 3, .log_density = sharp_density };
    o = small;
    check_pieces("sharp data", &known, o, 100, 1);
    o = small;
    o.num_chains = 8;
    o.num_warmup = 200;
    o.num_samples = 200;
    check_pieces("defaults of eight chains", &one, o, 700, 1);
}

/* ---- callbacks ------------------------------------------------------------------------------------- */

typedef struct seen { size_t n; unsigned char times[3][40]; double sums[3]; const char *copy_to; } seen;

static int on_draw(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats, void *user)
{
    seen *s = (seen *)user;
    s->times[chain][draw]++;
    s->sums[chain] += values[10] + stats->lp * (double)draw;
    if (++s->n == 50 && s->copy_to) copy_file(path, s->copy_to);
    return 0;
}

/* However often a run is stopped, on_draw sees every draw once, kept or not. */
static void check_callbacks(void)
{
    const gpumc_model one = schools(0);
    for (int discard = 0; discard < 2; discard++) {
        gpumc_sample_options o = small;
        gpumc_fit fit;
        seen all = { 0 }, pieces = { 0 };
        o.on_draw = on_draw;
        o.discard_draws = discard;
        o.save_unconstrained = !discard;
        o.draw_user = &all;
        arm(0);
        CHECK(gpumc_sample(&one, &o, &fit) == GPUMC_OK, "%s", fit.message);
        gpumc_free(&fit);
        o.draw_user = &pieces;
        run_in_pieces(&one, o, 200, 1, &fit);
        for (size_t c = 0; c < 3; c++) {
            for (size_t i = 0; i < 30; i++)
                CHECK(pieces.times[c][i] == 1, "draw %d of chain %d seen %d times", (int)i, (int)c,
                      pieces.times[c][i]);
            CHECK(pieces.sums[c] == all.sums[c], "chain %d: other draws", (int)c);
        }
        CHECK((fit.draws == NULL) == discard, "draws are %skept", discard ? "" : "not ");
        gpumc_free(&fit);
        remove_files();
    }
}

/* Saving during a run changes nothing; the file that a crash would leave can be resumed. */
static void check_interval(void)
{
    for (int kind = 0; kind < 4; kind++) {
        const gpumc_model m = schools(kind == 1);
        gpumc_sample_options o = small, none = { .threads = 2 };
        gpumc_fit whole, fit, again;
        const char *differs;
        seen s = { .copy_to = other };
        arm(0);
        o.sampler = (gpumc_sampler)(GPUMC_SAMPLER_NUTS + kind / 2);
        CHECK(gpumc_sample(&m, &o, &whole) == GPUMC_OK, "%s", whole.message);
        o.checkpoint = path;
        o.checkpoint_seconds = 1e-9;
        o.threads = kind == 3 ? 3 : 1;
        o.on_draw = on_draw;
        o.draw_user = &s;
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        differs = difference(&whole, &fit);
        CHECK(!differs, "saved often: other %s", differs);
        CHECK(exists(path) && exists(older) && !exists(unfinished), "files");
        CHECK(gpumc_resume(&m, &none, other, &again) == GPUMC_OK, "%s", again.message);
        differs = difference(&whole, &again);
        CHECK(!differs, "after a crash: other %s", differs);
        gpumc_free(&again);
        CHECK(gpumc_resume(&m, NULL, path, &again) == GPUMC_OK, "%s", again.message);
        differs = difference(&whole, &again);
        CHECK(!differs, "from the end: other %s", differs);
        gpumc_free(&again);
        gpumc_free(&whole);
        gpumc_free(&fit);
        remove_files();
        remove(other);
    }
}

/* ---- files that are refused ------------------------------------------------------------------------ */

static gpumc_sample_options stopped_run_of(const gpumc_model *m, size_t after, gpumc_sample_options o)
{
    gpumc_fit fit;
    o.checkpoint = path;
    o.stop = &stop;
    o.threads = 1;
    arm(after);
    CHECK(gpumc_sample(m, &o, &fit) == GPUMC_STOPPED && fit.resumable, "%s", fit.message);
    gpumc_free(&fit);
    arm(0);
    return o;
}
static gpumc_sample_options stopped_run(const gpumc_model *m, size_t after)
{ return stopped_run_of(m, after, small); }

/* The file of that name is refused with this status and these words, and stays as it is. */
static void refused(int line, const gpumc_model *m, const gpumc_sample_options *o, gpumc_status wanted,
                    const char *word_1, const char *word_2)
{
    unsigned char *before, *after;
    const size_t n = read_bytes(path, &before);
    const int was = exists(path);
    ledger l = { 0 };
    gpumc_sample_options given = { 0 };
    gpumc_fit fit;
    if (o) given = *o;
    given.allocator = ledger_allocator(&l);
    CHECK(gpumc_resume(m, &given, path, &fit) == wanted, "line %d: status %d: %s", line, fit.status,
          fit.message);
    CHECK(strstr(fit.message, word_1) && strstr(fit.message, word_2), "line %d: %s", line, fit.message);
    CHECK(l.live == 0 && !fit.draws, "line %d: %d blocks left", line, (int)l.live);
    CHECK(read_bytes(path, &after) == n && memcmp(before, after, n) == 0 && exists(path) == was,
          "line %d: the file was changed", line);
    CHECK(!exists(unfinished), "line %d: an unfinished file is left", line);
    free(before);
    free(after);
    gpumc_free(&fit);
}

static void check_damage(void)
{
    const gpumc_model m = schools(0);
    unsigned char *bytes;
    size_t n;
    stopped_run(&m, late);
    n = read_bytes(path, &bytes);
    printf("a checkpoint of %d bytes\n", (int)n);
    for (size_t at = 0; at < n; at += at < 300 || at + 20 > n ? 1 : 1 + random_below(60)) {
        const unsigned char kept = bytes[at];
        bytes[at] ^= (unsigned char)(1 << random_below(8));
        write_bytes(path, bytes, n);
        refused(__LINE__, &m, NULL, GPUMC_ERROR_FORMAT, path, at < 8 ? "no checkpoint" : "damaged");
        bytes[at] = kept;
    }
    for (size_t length = 0; length < n; length += length < 100 || length + 20 > n ? 1 : random_below(200)) {
        write_bytes(path, bytes, length);
        refused(__LINE__, &m, NULL, GPUMC_ERROR_FORMAT, path, length < 8 ? "no checkpoint" : "damaged");
    }
    bytes[n] = 0;
    write_bytes(path, bytes, n + 1);
    refused(__LINE__, &m, NULL, GPUMC_ERROR_FORMAT, path, "damaged");
    write_bytes(path, "a,b\n1,2\n3,4\n5,6\n", 16);
    refused(__LINE__, &m, NULL, GPUMC_ERROR_FORMAT, path, "no checkpoint");
    remove(path);
    refused(__LINE__, &m, NULL, GPUMC_ERROR_FILE, path, "no such file");
    mkdir(path, 0700);
    refused(__LINE__, &m, NULL, GPUMC_ERROR_FILE, path, "cannot be read");
    rmdir(path);
    free(bytes);
}

/* The checkpoint with one word of its seal changed and the checksum made to fit. */
static void forge(size_t at, uint32_t value)
{
    unsigned char *bytes;
    const size_t n = read_bytes(path, &bytes);
    uint64_t sum;
    memcpy(bytes + at, &value, sizeof value);
    sum = gpumc__checksum(GPUMC__FNV_START, bytes, n - sizeof sum);
    memcpy(bytes + n - sizeof sum, &sum, sizeof sum);
    write_bytes(path, bytes, n);
    free(bytes);
}

static void check_seal(void)
{
    const gpumc_model m = schools(0);
    const struct { size_t at; uint32_t value; gpumc_status status; const char *word; } wrong[] = {
        { offsetof(gpumc__seal, build), 1, GPUMC_ERROR_FORMAT, "another build" },
        { offsetof(gpumc__seal, model), 1, GPUMC_ERROR_MODEL, "another model" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        stopped_run(&m, late);
        forge(wrong[i].at, wrong[i].value);
        refused(__LINE__, &m, NULL, wrong[i].status, path, wrong[i].word);
        remove_files();
    }
}

static void check_mismatches(void)
{
    const gpumc_model m = schools(0);
    gpumc_model changed = m;
    gpumc_param list[3];
    gpumc_sample_options o = stopped_run(&m, late), given;
#define OTHER_OPTION(member, value) \
    given = (gpumc_sample_options){ .member = value }; \
    refused(__LINE__, &m, &given, GPUMC_ERROR_ARGUMENT, #member, "checkpoint")
    OTHER_OPTION(num_chains, 4);
    OTHER_OPTION(num_samples, 31);
    OTHER_OPTION(num_warmup, 61);
    OTHER_OPTION(thin, 2);
    OTHER_OPTION(seed, 8);
    OTHER_OPTION(metric, GPUMC_METRIC_DENSE);
    OTHER_OPTION(sampler, GPUMC_SAMPLER_NUTS);
    OTHER_OPTION(target_accept, 0.9);
    OTHER_OPTION(path_length, 2);
    OTHER_OPTION(max_treedepth, 9);
    OTHER_OPTION(step_size, 0.1);
    OTHER_OPTION(init_radius, 1);
    OTHER_OPTION(first_chain_id, 1);
    OTHER_OPTION(early_stop, 1);
    OTHER_OPTION(keep_stuck_chains, 1);
    given = (gpumc_sample_options){ .discard_draws = 1, .on_draw = on_draw };
    refused(__LINE__, &m, &given, GPUMC_ERROR_ARGUMENT, "discard_draws", "checkpoint");
    given = (gpumc_sample_options){ .threads = -1 };
    refused(__LINE__, &m, &given, GPUMC_ERROR_ARGUMENT, "threads", "-1");

    memcpy(list, schools_params, sizeof list);
    changed.params = list;
#define OTHER_MODEL(change, back) \
    change; \
    refused(__LINE__, &changed, NULL, GPUMC_ERROR_MODEL, path, "another model"); \
    back
    OTHER_MODEL(list[0].name = "nu"; list[2].location = "nu", memcpy(list, schools_params, sizeof list));
    OTHER_MODEL(list[1].typical = 1, memcpy(list, schools_params, sizeof list));
    OTHER_MODEL(list[2].location = NULL, memcpy(list, schools_params, sizeof list));
    OTHER_MODEL(list[2].centring = GPUMC_CENTRED, memcpy(list, schools_params, sizeof list));
    OTHER_MODEL(list[0].kind = GPUMC_POSITIVE, memcpy(list, schools_params, sizeof list));
    OTHER_MODEL(list[2].size = 9, memcpy(list, schools_params, sizeof list));
    OTHER_MODEL(changed.n_outputs = 0, changed.n_outputs = 1);
    OTHER_MODEL(changed.name = "colleges", changed.name = "schools");
    OTHER_MODEL(changed.guide = m.log_density, changed.guide = NULL);
    list[2].factor = "L";                   /* not a valid model, but a different digest */
    CHECK(gpumc__digest_model(&changed) != gpumc__digest_model(&m), "a factor makes no difference");
    static const size_t first[8] = { 0 }, second[8] = { 1 };
    static const double covariates[8] = { 1 };
    const gpumc_param others[] = { { .name = "theta", .lower = -1 }, { .name = "theta", .upper = 1 },
        { .name = "theta", .offset = 1 }, { .name = "theta", .multiplier = 2 }, { .name = "theta", .walk_dim = 1 },
        { .name = "theta", .centring_weight = 0.3 }, { .name = "theta", .location_index = first },
        { .name = "theta", .scale_index = second }, { .name = "theta", .coefficients = "mu" },
        { .name = "theta", .walk_coefficient = "mu" },
        { .name = "theta", .covariates = covariates, .n_covariates = 1 }, { .name = "theta" } };
    uint64_t digests[sizeof others / sizeof *others];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        list[2] = others[i];
        list[2].size = 8;
        digests[i] = gpumc__digest_model(&changed);
        for (size_t k = 0; k < i; k++)
            CHECK(digests[k] != digests[i], "models %d and %d are taken for one", (int)k, (int)i);
    }
    schools_effect[3] += 0.1;
    refused(__LINE__, &m, NULL, GPUMC_ERROR_MODEL, path, "other data");
    schools_effect[3] = 7 + 4e-6;           /* a change in the density as small as one observation makes */
    refused(__LINE__, &m, NULL, GPUMC_ERROR_MODEL, path, "other data");
    schools_effect[3] = 7;
    refused(__LINE__, NULL, NULL, GPUMC_ERROR_ARGUMENT, "model", "NULL");

    {   /* a new run overwrites neither generation; the options may be repeated */
        gpumc_fit fit;
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_ERROR_EXISTS && strstr(fit.message, path), "%s",
              fit.message);
        CHECK(gpumc_resume(&m, &o, path, &fit) == GPUMC_OK, "%s", fit.message);
        gpumc_free(&fit);
        CHECK(rename(path, older) == 0, "rename");
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_ERROR_EXISTS && strstr(fit.message, older), "%s",
              fit.message);
        CHECK(gpumc_resume(&m, &o, "", &fit) == GPUMC_ERROR_ARGUMENT, "%s", fit.message);
        CHECK(gpumc_resume(&m, &o, NULL, &fit) == GPUMC_ERROR_ARGUMENT, "%s", fit.message);
        CHECK(gpumc_resume(&m, &o, path, NULL) == GPUMC_ERROR_ARGUMENT, "a fit is needed");
    }
    remove_files();
}

/* Whatever is wrong with the newest file, the generation before it is read, with a warning, and is not lost when the
   run saves again. */
/* A run may raise its thin and its target_accept. It is the ones that it began with, or has now, that may be given
   when it is resumed, not others that it might have begun with. */
static void check_asked(void)
{
    const gpumc_model m = schools(0);
    gpumc_sample_options given = small;
    given.thin = 4;
    given.target_accept = 0.95;
    stopped_run_of(&m, late, given);
    given = (gpumc_sample_options){ .thin = 2 };
    refused(__LINE__, &m, &given, GPUMC_ERROR_ARGUMENT, "thin is 2 here and 4", "checkpoint");
    given = (gpumc_sample_options){ .target_accept = 0.8 };
    refused(__LINE__, &m, &given, GPUMC_ERROR_ARGUMENT, "target_accept is 0.8 here and 0.95", "checkpoint");
    const gpumc_sample_options raised = { .thin = 8, .target_accept = 0.95 };
    const gpumc__asked began = { 0.8, 2 };
    for (int k = 0; k < 4; k++) {
        gpumc_error error = { GPUMC_OK, "" };
        gpumc_sample_options o = { .thin = k == 0 ? 2 : k == 1 ? 8 : k == 2 ? 0 : 4, .target_accept = k ? 0 : 0.8 };
        CHECK((gpumc__merge_options(&o, &raised, began, &error) == GPUMC_OK) == (k < 3), "%d: %s", k, error.text);
        CHECK(k == 3 || (o.thin == 8 && o.target_accept == 0.95), "%d: thin %d", k, o.thin);
    }
    remove_files();
}

static void check_fallback(void)
{
    const gpumc_model m = schools(0);
    gpumc_sample_options o = small, later = { .stop = &stop, .threads = 1 };
    gpumc_fit whole, fit;
    arm(0);
    CHECK(gpumc_sample(&m, &o, &whole) == GPUMC_OK, "%s", whole.message);
    for (int damage = 0; damage < 4; damage++) {
        unsigned char *bytes;
        size_t n;
        stopped_run(&m, 500);
        arm(late - 500);
        CHECK(gpumc_resume(&m, &later, path, &fit) == GPUMC_STOPPED && exists(older), "%s", fit.message);
        gpumc_free(&fit);
        n = read_bytes(path, &bytes);
        bytes[n / 2] ^= 1;
        if (damage == 0) write_bytes(path, bytes, n);
        else if (damage == 1) write_bytes(path, bytes, 0);
        else if (damage == 2) remove(path);
        else write_bytes(path, "something else", 14);
        free(bytes);
        copy_file(older, other);
        arm(300);
        CHECK(gpumc_resume(&m, &later, path, &fit) == GPUMC_STOPPED, "%s", fit.message);
        CHECK(fit.n_warnings > 0 && fit.warnings[0].code == GPUMC_W_CHECKPOINT
              && strstr(fit.warnings[0].text, "previous checkpoint") && strstr(fit.warnings[0].text, path)
              && fit.warnings[0].note == (damage == 2), "damage %d: no warning", damage);
        gpumc_free(&fit);
        {
            unsigned char *kept, *now;
            n = read_bytes(other, &kept);
            CHECK(read_bytes(older, &now) == n && memcmp(kept, now, n) == 0,
                  "the good generation was replaced by the damaged one");
            free(kept);
            free(now);
        }
        arm(0);
        CHECK(gpumc_resume(&m, &later, path, &fit) == GPUMC_OK && !difference(&whole, &fit) && !fit.message[0],
              "%s", fit.message);
        gpumc_free(&fit);
        remove_files();
    }
    gpumc_free(&whole);
}

/* A checkpoint that is removed while the run goes on is written again. */
static int take_away(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats, void *user)
{
    (void)values;
    (void)stats;
    if (chain == 0 && draw == *(const size_t *)user) remove(path);
    return 0;
}
static void check_taken_away(void)
{
    const gpumc_model m = schools(0);
    size_t at = 5;
    gpumc_sample_options o = small;
    gpumc_fit whole, fit;
    arm(0);
    CHECK(gpumc_sample(&m, &o, &whole) == GPUMC_OK, "%s", whole.message);
    o.checkpoint = path;
    o.checkpoint_seconds = 1e-9;
    o.stop = &stop;
    o.threads = 1;
    o.on_draw = take_away;
    o.draw_user = &at;
    arm(late);
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_STOPPED && fit.resumable && exists(path), "%s", fit.message);
    gpumc_free(&fit);
    arm(0);
    CHECK(gpumc_resume(&m, NULL, path, &fit) == GPUMC_OK && !difference(&whole, &fit), "%s", fit.message);
    gpumc_free(&fit);
    gpumc_free(&whole);
    remove_files();
}

/* ---- savings that fail ----------------------------------------------------------------------------- */

static void check_failed_stop(void)
{
    const gpumc_model m = schools(0);
    gpumc_sample_options later = { .stop = &stop, .threads = 1 };
    gpumc_fit whole, fit;
    size_t n = 2, stored;                              /* the first call closes the file that was read */
    arm(0);
    CHECK(gpumc_sample(&m, &small, &whole) == GPUMC_OK, "%s", whole.message);
    for (; n < 10000; n += n < 20 ? 1 : 1 + random_below(40)) {
        unsigned char *bytes, *now;
        stopped_run(&m, 500);
        stored = read_bytes(path, &bytes);
        arm(late - 500);
        io_calls = 0;
        io_refuse_at = n;
        CHECK(gpumc_resume(&m, &later, path, &fit) == GPUMC_STOPPED, "call %d: %s", (int)n, fit.message);
        io_refuse_at = 0;
        arm(0);
        if (fit.resumable) { free(bytes); break; }
        CHECK(!fit.resumable && strstr(fit.message, "NOT SAVED") && strstr(fit.message, "no space left"),
              "call %d: %s", (int)n, fit.message);
        CHECK(fit.n_draws > 0 && fit.n_warnings > 0 && fit.warnings[0].code == GPUMC_W_CHECKPOINT, "call %d",
              (int)n);
        CHECK(same_doubles(fit.draws, whole.draws, fit.n_draws * 11), "call %d: other draws", (int)n);
        CHECK(!exists(unfinished), "call %d: an unfinished file is left", (int)n);
        gpumc_free(&fit);
        CHECK((exists(path) ? read_bytes(path, &now) : read_bytes(older, &now)) == stored
              && memcmp(bytes, now, stored) == 0, "call %d: the checkpoint before is lost", (int)n);
        CHECK(gpumc_resume(&m, NULL, path, &fit) == GPUMC_OK, "call %d: %s", (int)n, fit.message);
        fit.n_warnings = whole.n_warnings;
        CHECK(!difference(&whole, &fit), "call %d: other %s", (int)n, difference(&whole, &fit));
        gpumc_free(&fit);
        free(bytes);
        free(now);
        remove_files();
    }
    CHECK(n > 100 && io_calls <= n + 1, "call %d of %d is without effect", (int)n, (int)io_calls);
    gpumc_free(&fit);
    remove_files();
    gpumc_free(&whole);
}

/* Saves that fail now and then, or always, do not affect the run. */
static void check_failed_interval(void)
{
    static const size_t every[] = { 1, 3, 40, 211 };
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        const gpumc_model m = schools((int)i % 2);
        gpumc_sample_options o = small;
        gpumc_fit whole, fit;
        const char *differs;
        arm(0);
        CHECK(gpumc_sample(&m, &o, &whole) == GPUMC_OK, "%s", whole.message);
        o.checkpoint = path;
        o.checkpoint_seconds = 1e-9;
        io_refuse_every = every[i];
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        io_refuse_every = 0;
        if (every[i] == 1)
            CHECK(fit.n_warnings > 0 && strstr(fit.warnings[0].text, "the last checkpoint failed")
                  && !exists(path), "no warning of failed savings");
        CHECK(!exists(unfinished), "an unfinished file is left");
        fit.n_warnings = whole.n_warnings;
        differs = difference(&whole, &fit);
        CHECK(!differs, "every call number %d fails: other %s", (int)every[i], differs);
        gpumc_free(&fit);
        gpumc_free(&whole);
        remove_files();
    }
}

static void check_full_disk(void)
{
    const gpumc_model m = schools(0);
    gpumc_sample_options o = small;
    gpumc_fit fit;
    if (!exists("/dev/full") || symlink("/dev/full", unfinished) != 0) {
        check_skip("no /dev/full here");
        return;
    }
    o.checkpoint = path;
    o.stop = &stop;
    arm(late);
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_STOPPED && !fit.resumable
          && strstr(fit.message, "no space left on the device"), "%s", fit.message);
    CHECK(!exists(path), "a file where nothing could be written");
    gpumc_free(&fit);
    remove_files();
    strcpy(other, in_folder("none/run"));
    o.checkpoint = other;
    arm(late);
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_ERROR_FILE && !fit.n_draws
          && strstr(fit.message, "no such file"), "%s", fit.message);
    gpumc_free(&fit);
    strcpy(other, in_folder("copy"));
    arm(0);
}

static void check_allocations(void)
{
    const gpumc_model m = schools(0);
    size_t n = 1;
    stopped_run(&m, late);
    for (;; n++) {
        ledger l = { .refuse_at = n };
        gpumc_sample_options o = { .allocator = ledger_allocator(&l), .threads = 1 };
        gpumc_fit fit;
        gpumc_resume(&m, &o, path, &fit);
        if (l.calls < n) {
            CHECK(fit.status == GPUMC_OK && n > 4, "%s", fit.message);
            gpumc_free(&fit);
            break;
        }
        CHECK(fit.status == GPUMC_OK || fit.status == GPUMC_ERROR_MEMORY, "allocation %d: %s", (int)n,
              fit.message);
        gpumc_free(&fit);
        CHECK(l.live == 0, "allocation %d: %d blocks left", (int)n, (int)l.live);
    }
    remove_files();
}

int main(void)
{
    if (!folder_open("checkpoint")) return 1;
    strcpy(path, in_folder("run"));
    strcpy(older, in_folder("run.old"));
    strcpy(unfinished, in_folder("run.tmp"));
    strcpy(other, in_folder("copy"));
    find_late();
    check_every_point();
    check_kinds();
    check_noise();
    check_slopes();
    check_lines();
    check_places_left();
    check_anew();
    if (!getenv("QUICK")) {
        check_unseen_by_trees();
        check_again();
    }
    check_half_steps();
    check_raised_target();
    if (!getenv("QUICK")) check_twice_again();
    check_going_on();
    check_guide();
    check_options();
    check_callbacks();
    check_interval();
    check_damage();
    check_seal();
    check_mismatches();
    check_asked();
    check_fallback();
    check_taken_away();
    check_failed_stop();
    check_failed_interval();
    check_full_disk();
    check_allocations();
    CHECK(rmdir(folder) == 0, "files are left in %s", folder);
    return check_end();
}
