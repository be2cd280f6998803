/* Draws do not depend on the number of threads, on callbacks or on being stopped: byte for byte. test_sanitize.sh
   builds this once more with the thread sanitizer, which finds the races that a lucky schedule hides. */
#include "check.h"
#include "../gpumc.h"
#include "same.h"
#include "schools.h"

enum { N_CHAINS = 7, N_DRAWS = 60, N_WARMUP = 80 };

static const gpumc_model schools = {
    .name = "schools", .params = schools_params, .n_params = 3, .log_density = schools_density, .generate = schools_generate,
    .outputs = &schools_output, .n_outputs = 1,
};

static gpumc_sampler sampler;        /* of all runs */

static gpumc_sample_options options_for(int threads)
{
    const gpumc_sample_options o = { .num_chains = N_CHAINS,
                                     .num_samples = N_DRAWS,
                                     .num_warmup = N_WARMUP,
                                     .seed = 20240229,
                                     .sampler = sampler,
                                     .threads = threads,
                                     .save_warmup = 1,
                                     .save_unconstrained = 1 };
    return o;
}

static void check_same(const gpumc_fit *a, const gpumc_fit *b, const char *what)
{
    const size_t n = a->n_chains * a->n_draws;
    CHECK(n == N_CHAINS * N_DRAWS && b->n_draws == a->n_draws, "%s: %d and %d draws", what, (int)a->n_draws,
          (int)b->n_draws);
    CHECK(same_doubles(a->draws, b->draws, n * a->n_columns), "%s: other draws", what);
    CHECK(same_doubles(a->unconstrained, b->unconstrained, n * a->n_free), "%s: other unconstrained draws",
          what);
    CHECK(a->n_warmup == b->n_warmup, "%s: warm-up of %d and %d", what, (int)a->n_warmup, (int)b->n_warmup);
    for (size_t row = 0; row < N_CHAINS * a->n_warmup; row++)      /* outputs are NaN in warm-up */
        if (!same_doubles(a->warmup_draws + row * a->n_columns, b->warmup_draws + row * a->n_columns, 10)) {
            CHECK(0, "%s: warm-up draw %d differs", what, (int)row);
            break;
        }
    CHECK(same_stats(a->stats, b->stats, n), "%s: other statistics", what);
    CHECK(same_stats(a->warmup_stats, b->warmup_stats, N_CHAINS * a->n_warmup),
          "%s: other warm-up statistics", what);
    CHECK(same_doubles(a->metric.scale, b->metric.scale, a->n_free), "%s: another metric", what);
    CHECK(same_doubles(a->centring, b->centring, a->n_free), "%s: other centring", what);
    CHECK(a->step_size == b->step_size, "%s: step size %g and %g", what, a->step_size, b->step_size);
}

/* ---- callbacks: serialised, and without influence -------------------------------------------- */

typedef struct witness {
    int inside, overlaps;            /* plain integers: the thread sanitizer objects if two callbacks meet */
    size_t draws, reports, stop_after;
    double last;
    gpumc_stop_flag flag;
} witness;

static int on_draw(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats, void *user)
{
    witness *w = user;
    w->overlaps += w->inside++;
    w->draws++;
    w->last = values[10] + stats->lp + (double)(chain + draw);
    if (w->stop_after && w->draws == w->stop_after) gpumc_stop(&w->flag);
    w->inside--;
    return 0;
}

static int on_progress(const gpumc_progress *progress, void *user)
{
    witness *w = user;
    w->overlaps += w->inside++;
    w->reports++;
    w->inside--;
    return progress->iteration > progress->total || progress->n_chains != N_CHAINS;
}

static gpumc_sample_options with_callbacks(int threads, witness *w)
{
    gpumc_sample_options o = options_for(threads);
    memset(w, 0, sizeof *w);
    o.on_draw = on_draw;
    o.progress = on_progress;
    o.draw_user = o.progress_user = w;
    o.stop = &w->flag;
    return o;
}

static void check_callbacks(const gpumc_fit *reference)
{
    witness w;
    gpumc_sample_options o = with_callbacks(3, &w);
    gpumc_fit fit;
    CHECK(gpumc_sample(&schools, &o, &fit) == GPUMC_OK, "%s", fit.message);
    check_same(reference, &fit, "with callbacks");
    CHECK(w.overlaps == 0 && w.inside == 0, "%d callbacks met another", w.overlaps);
    CHECK(w.draws == N_CHAINS * N_DRAWS, "%d draws seen", (int)w.draws);
    CHECK(w.reports >= N_CHAINS, "%d reports", (int)w.reports);
    gpumc_free(&fit);
}

/* A stopped run keeps the draws that all chains have completed, and they are those of the full run. */
static void check_stop(const gpumc_fit *reference)
{
    witness w;
    gpumc_sample_options o = with_callbacks(2, &w);
    gpumc_fit fit;
    w.stop_after = N_CHAINS * N_DRAWS * 3 / 4;
    CHECK(gpumc_sample(&schools, &o, &fit) == GPUMC_STOPPED, "status %d, %s", fit.status, fit.message);
    CHECK(fit.n_draws < N_DRAWS, "%d draws", (int)fit.n_draws);
    for (size_t c = 0; c < fit.n_chains; c++)
        CHECK(same_doubles(fit.draws + c * fit.draw_capacity * fit.n_columns,
                           reference->draws + c * reference->draw_capacity * reference->n_columns,
                           fit.n_draws * fit.n_columns),
              "chain %d: a stopped run has other draws", (int)c);
    gpumc_free(&fit);
    o = with_callbacks(2, &w);
    gpumc_stop(&w.flag);
    CHECK(gpumc_sample(&schools, &o, &fit) == GPUMC_STOPPED && fit.n_draws == 0 && w.draws == 0, "status %d",
          fit.status);
    gpumc_free(&fit);
}

static void check_sampler(void)
{
    static const int threads[] = { 2, 3, 7 };
    gpumc_sample_options o = options_for(1);
    gpumc_fit reference, other;
    CHECK(gpumc_sample(&schools, &o, &reference) == GPUMC_OK, "%s", reference.message);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        char what[32];
        snprintf(what, sizeof what, "%d threads", threads[i]);
        o = options_for(threads[i]);
        CHECK(gpumc_sample(&schools, &o, &other) == GPUMC_OK, "%s: %s", what, other.message);
        CHECK(other.threads == threads[i], "%d threads where %d were asked for", other.threads, threads[i]);
        check_same(&reference, &other, what);
        gpumc_free(&other);
    }
    o = options_for(2);
    o.seed++;
    CHECK(gpumc_sample(&schools, &o, &other) == GPUMC_OK, "%s", other.message);
    CHECK(!same_doubles(reference.draws, other.draws, N_DRAWS),
          "another seed gives the same draws: this test is blind");
    gpumc_free(&other);
    check_callbacks(&reference);
    check_stop(&reference);
    gpumc_free(&reference);
}

/* ---- a thousand coordinates, for which more threads adapt than there are chains -------------------- */

enum { GROUPS = 520 };
struct pairs { double mu, tau, m, s, level[GROUPS], slope[GROUPS]; };

/* Groups whose data differ in precision, with correlated levels and slopes, and one direction, the sum of all
   levels. */
static double pairs_density(const double *x, double *grad, void *data)
{
    const struct pairs *p = (const struct pairs *)x;
    struct pairs *g = (struct pairs *)grad;
    double by_sum = 0, sum = 0;
    double lp = gpumc_normal_lpdf(p->mu, 0, 1, &g->mu, NULL, NULL) + gpumc_normal_lpdf(p->m, 0, 1, &g->m, NULL, NULL)
              + gpumc_half_normal_lpdf(p->tau, 1, &g->tau, NULL) + gpumc_half_normal_lpdf(p->s, 1, &g->s, NULL);
    (void)data;
    for (int j = 0; j < GROUPS; j++) {
        const double noise = 0.2 + 0.009 * j;
        double by = 0;
        lp += gpumc_normal_lpdf(p->level[j], p->mu, p->tau, &g->level[j], &g->mu, &g->tau)
            + gpumc_normal_lpdf(p->slope[j], p->m, p->s, &g->slope[j], &g->m, &g->s)
            + gpumc_normal_lpdf(p->level[j] + p->slope[j], sin(j), noise, &by, NULL, NULL);
        g->level[j] += by;
        g->slope[j] += by;
        sum += p->level[j];
    }
    lp += gpumc_normal_lpdf(sum, 10, 0.3, &by_sum, NULL, NULL);
    for (int j = 0; j < GROUPS; j++) g->level[j] += by_sum;
    return lp;
}

static void check_crowd(void)
{
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "m" }, { .name = "s", .kind = GPUMC_POSITIVE },
        { .name = "level", .size = GROUPS, .location = "mu", .scale = "tau" },
        { .name = "slope", .size = GROUPS, .location = "m", .scale = "s" },
    };
    const gpumc_model model = { .name = "pairs", .params = params, .n_params = 6, .log_density = pairs_density };
    static const gpumc_metric_kind metrics[] = { GPUMC_METRIC_LOW_RANK, GPUMC_METRIC_BLOCKS };
    const int quick = getenv("QUICK") != NULL;
    for (int k = quick; k < 2; k++) {
        gpumc_sample_options o = { .num_chains = 2, .num_warmup = quick ? 100 : 200, .num_samples = 20,
                                   .threads = 1, .metric = metrics[k] };
        gpumc_fit alone, crowd;
        CHECK(gpumc_sample(&model, &o, &alone) == GPUMC_OK, "%s", alone.message);
        o.threads = 6;
        CHECK(gpumc_sample(&model, &o, &crowd) == GPUMC_OK && crowd.threads == 2, "%s", crowd.message);
        CHECK(alone.metric.rank > 0 && (k == 0 || alone.metric.n_blocks == GROUPS),
              "rank %d, %d blocks: this test is blind", (int)alone.metric.rank, (int)alone.metric.n_blocks);
        CHECK(same_doubles(alone.metric.vectors, crowd.metric.vectors, alone.metric.rank * alone.n_free),
              "other directions");
        CHECK(same_doubles(alone.metric.scale, crowd.metric.scale, alone.n_free), "another metric");
        CHECK(same_doubles(alone.centring, crowd.centring, alone.n_free), "other centring");
        CHECK(same_doubles(alone.draws, crowd.draws, 2 * 20 * alone.n_columns), "other draws");
        int n_other = 0;
        for (size_t c = 0; c < alone.n_columns; c++) {
            const gpumc_summary a = gpumc_summarise(&alone, c), b = gpumc_summarise(&crowd, c);
            n_other += !same_doubles(&a.mean, &b.mean, 1) || !same_doubles(&a.ess_tail, &b.ess_tail, 1);
        }
        CHECK(n_other == 0, "%d columns are summarised otherwise", n_other);
        gpumc_free(&alone);
        gpumc_free(&crowd);
    }
}

int main(void)
{
    check_crowd();
    for (int k = GPUMC_SAMPLER_AUTO; k <= GPUMC_SAMPLER_HMC; k++) {
        sampler = (gpumc_sampler)k;
        check_sampler();
    }
    return check_end();
}
