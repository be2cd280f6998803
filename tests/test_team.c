/* The sampler's code as a team of threads would run it on a device, driven on the CPU: members are coroutines, each
   with its own scalars, all with the same vectors. A member runs until it reaches a barrier, then the next one does,
   so a value that is read without a barrier after another member's write is read too early in one of the two orders
   of members. A team must do what one thread does: the same bits while every sum fits into one member's share, the
   same trees otherwise; without barriers it must fail. */
#define _XOPEN_SOURCE 700
#include <stddef.h>
#include <ucontext.h>

static size_t team_size = 1, team_rank;
static double team_sum(double x);
static void team_sync(void);
#define GPUMC_TEAM_SIZE team_size
#define GPUMC_TEAM_RANK team_rank
#define GPUMC_TEAM_SUM(x) team_sum(x)
#define GPUMC_TEAM_SYNC() team_sync()
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "check.h"
#include "densities.h"

enum { MAX_TEAM = 4, MAX_DIM = 60, N_TRANSITIONS = 60 };

/* ---- the team ------------------------------------------------------------------------------------ */

typedef enum event { EVENT_SUM = 1, EVENT_SYNC, EVENT_END } event;

static ucontext_t scheduler, members[MAX_TEAM];
static char stacks[MAX_TEAM][1 << 18];
static double partial[2][MAX_TEAM];
static size_t round_of[MAX_TEAM];
static event last_event[MAX_TEAM];
static int barriers_work = 1;

static void team_wait(event what)
{
    const size_t rank = team_rank;
    last_event[rank] = what;
    swapcontext(&members[rank], &scheduler);
}

static void team_sync(void)
{
    if (team_size > 1 && barriers_work) team_wait(EVENT_SYNC);
}

/* Partial sums alternate between two rows: a member may start the next sum before the others have read this
   one. */
static double team_sum(double x)
{
    const size_t row = round_of[team_rank]++ & 1;
    double sum = 0;
    if (team_size == 1) return x;
    partial[row][team_rank] = x;
    team_wait(EVENT_SUM);
    for (size_t k = 0; k < team_size; k++) sum += partial[row][k];
    return sum;
}

/* ---- the work ------------------------------------------------------------------------------------ */

typedef struct result { double q[MAX_DIM], energy, accept, residual; int depth, n_leapfrog, divergent; } result;

typedef struct job {
    size_t dim;
    gpumc_nuts *chains[MAX_TEAM];
    double g[MAX_DIM], lp;
    int n_transitions, funnel;
    gpumc_sampler sampler;
    result *results;
} job;

static job work;

/* A random walk, or a funnel, in which trajectories diverge. */
static double density(const double *q, double *g, size_t dim)
{
    const double precision = work.funnel ? gpumc_exp(-q[0]) : 1;
    double lp = -q[0] * q[0] / 18;
    memset(g, 0, dim * sizeof *g);
    g[0] = -q[0] / 9;
    for (size_t i = 1; i < dim; i++) {
        const double step = work.funnel ? q[i] : q[i] - q[i - 1];
        lp -= 0.5 * step * step * precision;
        g[i] -= step * precision;
        if (work.funnel) { lp -= 0.5 * q[0]; g[0] += 0.5 * (step * step * precision - 1); }
        else g[i - 1] += step;
    }
    return lp;
}

static void member_draw(gpumc_nuts *s)
{
    int complete = 0;
    while (!complete) {
        const double *q = gpumc_nuts_ask(s);
        team_sync();
        if (team_rank == 0) work.lp = density(q, work.g, work.dim);
        team_sync();
        complete = gpumc_nuts_tell(s, work.lp, work.g);
    }
    team_sync();
}

static void member(void)
{
    gpumc_nuts *s = work.chains[team_rank];
    member_draw(s);
    for (int i = 0; i < work.n_transitions; i++) {
        const gpumc_draw_stats *t = gpumc_nuts_stats(s);
        member_draw(s);
        if (team_rank == 0) {
            result *r = &work.results[i];
            memcpy(r->q, gpumc_nuts_draw(s), work.dim * sizeof(double));
            r->energy = t->energy;
            r->accept = t->accept_stat;
            r->residual = t->fisher_residual;
            r->depth = t->tree_depth;
            r->n_leapfrog = t->n_leapfrog;
            r->divergent = t->divergent;
        }
        team_sync();
    }
    if (team_size > 1) team_wait(EVENT_END);
}

/* Runs the members round by round; returns 0 if they do not stop at the same event. */
static int team_run(void (*run)(void), int reversed)
{
    for (size_t k = 0; k < team_size; k++) {
        getcontext(&members[k]);
        members[k].uc_stack.ss_sp = stacks[k];
        members[k].uc_stack.ss_size = sizeof stacks[k];
        members[k].uc_link = &scheduler;
        round_of[k] = 0;
        makecontext(&members[k], run, 0);
    }
    do {
        for (size_t k = 0; k < team_size; k++) {
            team_rank = reversed ? team_size - 1 - k : k;
            swapcontext(&scheduler, &members[team_rank]);
        }
        for (size_t k = 1; k < team_size; k++) if (last_event[k] != last_event[0]) return 0;
    } while (last_event[0] != EVENT_END);
    return 1;
}

/* Samples with a team. Every member has its scalars in a block of its own; vectors are those of the first block. */
static int sample(const gpumc_metric *metric, size_t size, int reversed, result *results)
{
    static double memory[MAX_TEAM][1 << 14];
    const double wild = work.sampler == GPUMC_SAMPLER_NUTS ? 0.9 : 0.1; /* NUTS diverges, the others still move */
    double start[MAX_DIM];
    for (size_t i = 0; i < work.dim; i++) start[i] = 0.1 * (double)(i % 7);
    team_size = 1;
    team_rank = 0;
    for (size_t k = 0; k < size; k++) {
        gpumc_nuts *s = gpumc_nuts_init(memory[k], sizeof memory[k], work.dim, 8, metric,
                                        work.funnel ? wild : 0.25, 17, 0, start, NULL);
        if (!s) return 0;
        gpumc_nuts_set_path(s, work.sampler, 1.5, 0.4);
        work.chains[k] = s;
        for (int i = 0; i < s->n_states; i++) {
            const gpumc__state shared = work.chains[0]->states[i];
            s->states[i].q = shared.q;
            s->states[i].p = shared.p;
            s->states[i].g = shared.g;
        }
        s->scratch = work.chains[0]->scratch;
        s->x = work.chains[0]->x;
        s->divergence = work.chains[0]->divergence;
    }
    memset(results, 0, (size_t)work.n_transitions * sizeof *results);
    work.results = results;
    team_size = size;
    if (size == 1) { member(); return 1; }
    return team_run(member, reversed);
}

/* Largest difference over the transitions, infinite when trees differ. */
static double distance(const result *a, const result *b)
{
    double worst = 0;
    for (int i = 0; i < work.n_transitions; i++) {
        if (a[i].depth != b[i].depth || a[i].n_leapfrog != b[i].n_leapfrog) return HUGE_VAL;
        if (a[i].divergent != b[i].divergent) return HUGE_VAL;
        worst = check_worst(worst, check_distance(a[i].energy, b[i].energy, 1));
        worst = check_worst(worst, check_distance(a[i].accept, b[i].accept, 1));
        worst = check_worst(worst, check_distance(a[i].residual, b[i].residual, 1));
        for (size_t k = 0; k < work.dim; k++) worst = check_worst(worst, check_distance(a[i].q[k], b[i].q[k], 1));
    }
    return worst;
}

/* ---- metrics ------------------------------------------------------------------------------------- */

static void metric_fill(metric_memory *m, gpumc_metric_kind kind, size_t dim)
{
    metric_clear(m, kind, dim);
    m->metric.rank = kind == GPUMC_METRIC_LOW_RANK || kind == GPUMC_METRIC_BLOCKS;
    if (kind == GPUMC_METRIC_BLOCKS) metric_fill_blocks(m);
    m->lambda[0] = 5;
    for (size_t i = 0; i < dim; i++) {
        m->scale[i] = 1 + 0.1 * (double)(i % 4);
        m->vectors[i] = 1 / sqrt((double)dim);
        for (size_t j = 0; j < dim; j++) {                        /* bidiagonal factor and its square */
            m->factor[i * dim + j] = i == j ? 1 : j + 1 == i ? 0.5 : 0;
            m->covariance[i * dim + j] = i == j ? (i ? 1.25 : 1) : i + 1 == j || j + 1 == i ? 0.5 : 0;
        }
    }
}

/* Every metric, size and order with one sampler, or with HMC on a spring; returns how many transitions
   diverged. */
static size_t check_sampler(int spring)
{
    static metric_memory m;
    static result alone[N_TRANSITIONS], together[N_TRANSITIONS];
    const gpumc_metric_kind kinds[] = { GPUMC_METRIC_DIAG, GPUMC_METRIC_LOW_RANK, GPUMC_METRIC_BLOCKS,
                                        GPUMC_METRIC_DENSE };
    const size_t dims[] = { 1, 7, 8, 20, 53 };
    size_t n_divergent = 0;
    for (int k = 0; k < 4; k++)
        for (int d = 0; d < 5; d++)
            for (work.funnel = 0; work.funnel < 2; work.funnel++) {
                const int exact = dims[d] <= 8;
                metric_fill(&m, kinds[k], dims[d]);
                m.metric.spring = spring;
                work.dim = dims[d];
                work.n_transitions = exact ? N_TRANSITIONS : 2;   /* rounding grows from draw to draw */
                CHECK(sample(&m.metric, 1, 0, alone), "one member runs");
                for (int i = 0; i < work.n_transitions; i++) n_divergent += (size_t)alone[i].divergent;
                for (size_t size = 2; size <= MAX_TEAM; size += getenv("QUICK") ? 2 : 1)
                    for (int reversed = 0; reversed < 2; reversed++) {
                        double away;
                        const int uniform = sample(&m.metric, size, reversed, together);
                        CHECK(uniform, "sampler %d, metric %d, dimension %.0f: %.0f members part ways",
                              (int)work.sampler, k, (double)dims[d], (double)size);
                        away = uniform ? distance(together, alone) : HUGE_VAL;
                        CHECK(away <= (exact ? 0 : 1e-9), "sampler %d, metric %d, dimension %.0f, funnel %d, "
                              "order %d: %.0f members are off by %g", (int)work.sampler, k,
                              (double)dims[d], work.funnel, reversed, (double)size, away);
                    }
                if (k < 3 || dims[d] == 1) continue;
                barriers_work = 0;                                /* the broken twin */
                CHECK(!sample(&m.metric, 3, 0, together) || distance(together, alone) > 1e-9
                      || !sample(&m.metric, 3, 1, together) || distance(together, alone) > 1e-9,
                      "sampler %d, dimension %.0f, funnel %d: a team without barriers passes",
                      (int)work.sampler, (double)dims[d], work.funnel);
                barriers_work = 1;
            }
    return n_divergent;
}

/* Vectors longer than one piece of gpumc__add_directions, with a team of any size: every member must keep the
   elements that GPUMC_EACH gives it. */
enum { WIDE = 2500 };
static double wide[4][WIDE];                  /* scales, a direction, p, v */
static double wide_eigenvalue = 5;
static void member_wide(void)
{
    gpumc_metric m;
    memset(&m, 0, sizeof m);
    m.kind = GPUMC_METRIC_LOW_RANK;
    m.dim = WIDE;
    m.rank = 1;
    m.scale = wide[0];
    m.vectors = wide[1];
    m.lambda = &wide_eigenvalue;
    gpumc__metric_velocity(&m, wide[2], wide[3]);
    if (team_size > 1) team_wait(EVENT_END);
}
static void check_wide(void)
{
    static double alone[WIDE];
    for (size_t i = 0; i < WIDE; i++) {
        wide[0][i] = 1 + 1e-3 * (double)i;
        wide[1][i] = 1 / sqrt((double)WIDE);
        wide[2][i] = sin((double)i);
    }
    team_rank = 0;
    team_size = 1;
    member_wide();
    memcpy(alone, wide[3], sizeof alone);
    for (team_size = 2; team_size <= MAX_TEAM; team_size++)
        for (int reversed = 0; reversed < 2; reversed++) {
            double worst = 0;
            CHECK(team_run(member_wide, reversed), "%d members part ways", (int)team_size);
            for (size_t i = 0; i < WIDE; i++) worst = check_worst(worst, check_distance(wide[3][i], alone[i], 1));
            CHECK(worst < 1e-12, "%d members, order %d: a velocity off by %g", (int)team_size, reversed, worst);
        }
}

/* Parts that call their own team, several at the same time: each call gets all of its parts done, by its caller
   alone. */
typedef struct nesting { gpumc_team *team; int n_inner, n_alone; } nesting;
static void count_inner(size_t part, int member, void *user)
{
    nesting *n = (nesting *)user;
    (void)part;
    __sync_add_and_fetch(&n->n_inner, 1);
    if (member == 0) __sync_add_and_fetch(&n->n_alone, 1);
}
static void ask_again(size_t part, int member, void *user)
{
    (void)part, (void)member;
    gpumc_team_run(((nesting *)user)->team, count_inner, 7, user);
}
static void check_nesting(void)
{
    nesting n = { gpumc_team_start(3, NULL), 0, 0 };
    for (int round = 1; n.team && round <= 50; round++) {
        gpumc_team_run(n.team, ask_again, 5, &n);
        CHECK(n.n_inner == 35 * round && n.n_alone == n.n_inner, "round %d: %d parts, %d of them alone", round,
              n.n_inner, n.n_alone);
    }
    gpumc_team_run(n.team, count_inner, 9, &n);
    CHECK(n.n_inner == 35 * 50 + 9, "%d parts", n.n_inner);
    gpumc_team_stop(n.team);
}

int main(void)
{
    check_nesting();
    check_wide();
    size_t n_divergent = 0;
    for (int k = GPUMC_SAMPLER_NUTS; k <= GPUMC_SAMPLER_HMC; k++) {
        work.sampler = (gpumc_sampler)k;
        n_divergent += check_sampler(0);
    }
    n_divergent += check_sampler(1);
    CHECK(n_divergent > 20, "only %.0f transitions diverge", (double)n_divergent);
    return check_end();
}
