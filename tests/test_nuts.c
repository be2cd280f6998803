/* The state machine of NUTS against a recursive reference, bit for bit; its integrator against the properties
   that make the sampler exact; the estimators of warm-up against cases with a known solution; pausing and
   resuming. The main checks are also run on broken variants, which they must reject. */
struct of_rank { double ridge, fine_ridge, cutoff, direction, residual; };  /* low-rank metric's constants */
#define SHIPPED { 0.02, 1e-5, 2.0, 1.0 / 64, 0.03 }                          /* test_header.sh compares */
static const struct of_rank shipped = SHIPPED;
static struct of_rank of_rank = SHIPPED;
#define GPUMC__RIDGE of_rank.ridge
#define GPUMC__FINE_RIDGE of_rank.fine_ridge
#define GPUMC__CUTOFF of_rank.cutoff
#define GPUMC__DIRECTION of_rank.direction
#define GPUMC__RESIDUAL of_rank.residual
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "check.h"
#include "densities.h"
#include "reference_nuts.h"

/* ---- targets ------------------------------------------------------------------------------------- */

static double walk(const double *q, double *g, size_t dim)        /* Brownian motion: strongly correlated */
{
    double lp = 0;
    memset(g, 0, dim * sizeof *g);
    for (size_t i = 0; i < dim; i++) {
        const double step = q[i] - (i > 0 ? q[i - 1] : 0);
        lp -= 0.5 * step * step;
        g[i] -= step;
        if (i > 0) g[i - 1] += step;
    }
    return lp;
}

static double funnel(const double *q, double *g, size_t dim)      /* q[0] ~ N(0, 3), others N(0, e^(q0/2)) */
{
    const double precision = exp(-q[0]);
    double lp = -q[0] * q[0] / 18;
    g[0] = -q[0] / 9;
    for (size_t i = 1; i < dim; i++) {
        g[i] = -q[i] * precision;
        g[0] += 0.5 * (q[i] * q[i] * precision - 1);
        lp -= 0.5 * (q[i] * q[i] * precision + q[0]);
    }
    return lp;
}

static double narrow(const double *q, double *g, size_t dim)      /* standard deviation 0.01 */
{
    double lp = 0;
    for (size_t i = 0; i < dim; i++) { g[i] = -1e4 * q[i]; lp += 0.5 * q[i] * g[i]; }
    return lp;
}

typedef struct target {
    const char *name;
    log_density density;
    size_t dim;
    double step_size;
    int max_treedepth;
} target;

static const target targets[] = {
    { "normal 1", normal, 1, 1.1, 10 },         { "normal 2", normal, 2, 0.9, 10 },
    { "normal 10", normal, 10, 0.6, 10 },       { "normal 10 fine", normal, 10, 0.05, 5 },
    { "walk 17", walk, 17, 0.4, 10 },           { "walk 17 shallow", walk, 17, 0.3, 3 },
    { "normal 10 in threes", normal, 10, 0.3, 10 }, { "walk 17 in threes", walk, 17, 0.35, 4 },
    { "banana 6 in threes", banana, 6, 0.39, 10 },
    { "banana 6", banana, 6, 0.2, 10 },         { "banana 6 coarse", banana, 6, 0.8, 10 },
    { "funnel 9", funnel, 9, 0.3, 8 },          { "wall 3", wall, 3, 0.5, 10 },
    { "narrow 10", narrow, 10, 0.0141, 10 },    { "narrow 10 fine", narrow, 10, 0.002, 10 },
    { "t4 24", flat_tails, 24, 0.7, 10 },       { "t4 3 deep", flat_tails, 3, 0.01, 10 },
};
enum { N_TARGETS = sizeof targets / sizeof *targets };

/* ---- metrics ------------------------------------------------------------------------------------- */

/* M^-1 of a metric as a full matrix. */
static void written_out(const gpumc_metric *m, double *out)
{
    static double inner[DENSITY_DIM * DENSITY_DIM], half[DENSITY_DIM * DENSITY_DIM];
    const size_t n = m->dim;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            inner[i * n + j] = i == j;
            for (size_t k = 0; k < m->rank; k++)
                inner[i * n + j] += (m->lambda[k] - 1) * m->vectors[k * n + i] * m->vectors[k * n + j];
        }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            half[i * n + j] = 0;
            for (size_t k = 0; k < n; k++) half[i * n + j] += metric_mixing(m, i, k) * inner[k * n + j];
        }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++) sum += half[i * n + k] * metric_mixing(m, j, k);
            out[i * n + j] = m->scale[i] * sum * m->scale[j];
        }
}

/* Diagonal scales are powers of two, so that the order of products, in which state machine and reference may
   differ, does not change the rounding. */
static void metric_fill(metric_memory *m, gpumc_metric_kind kind, size_t dim)
{
    double norm[2] = { 0, 0 }, mixed = 0;
    metric_clear(m, kind, dim);
    for (size_t i = 0; i < dim; i++) {
        m->scale[i] = kind == GPUMC_METRIC_UNIT ? 1 : kind == GPUMC_METRIC_DIAG ? ldexp(0.5, (int)(i % 3))
            : 0.8 + 0.4 * (double)(i % 3);
        m->mean[i] = 0.1 * (double)(i % 5);
    }
    if (kind == GPUMC_METRIC_UNIT || kind == GPUMC_METRIC_DIAG || dim < 2) return;
    for (size_t k = 0; k < 2; k++) {                              /* two orthonormal vectors */
        double *u = m->vectors + k * dim;
        for (size_t i = 0; i < dim; i++) u[i] = sin((double)(i * (k + 1)) + 0.5);
        mixed = 0;
        for (size_t i = 0; i < dim; i++) mixed += (double)k * u[i] * m->vectors[i];
        for (size_t i = 0; i < dim; i++) u[i] -= k ? mixed * m->vectors[i] : 0;
        for (size_t i = 0; i < dim; i++) norm[k] += u[i] * u[i];
        for (size_t i = 0; i < dim; i++) u[i] /= sqrt(norm[k]);
        m->lambda[k] = k ? 0.25 : 6;
    }
    m->metric.rank = 2;
    if (kind == GPUMC_METRIC_BLOCKS) metric_fill_blocks(m);
    if (kind != GPUMC_METRIC_DENSE) return;
    written_out(&m->metric, m->covariance);
    m->metric.rank = 0;
    memcpy(m->factor, m->covariance, sizeof m->factor);
    CHECK(gpumc__cholesky(m->factor, dim), "a covariance that is positive definite has a factor");
}

/* ---- the machine and the reference, side by side ------------------------------------------------- */

static double memory[1 << 16];

static gpumc_nuts *machine_start(const target *t, const gpumc_metric *metric, double step_size, uint64_t seed,
                                 uint32_t chain, const double *q)
{
    gpumc_error error;
    gpumc_nuts *s = gpumc_nuts_init(memory, sizeof memory, t->dim, t->max_treedepth, metric, step_size, seed,
                                    chain, q, &error);
    CHECK(s != NULL, "%s: %s", t->name, error.text);
    return s;
}

/* Equal bit for bit, but for the two mean acceptance rates: each side may sum these in its own order. */
static int same_draw(const gpumc_nuts *s, const reference_chain *c)
{
    const gpumc_draw_stats *a = gpumc_nuts_stats(s), *b = &c->stats;
    return memcmp(gpumc_nuts_draw(s), c->current.q, c->dim * sizeof(double)) == 0
        && memcmp(gpumc_nuts_gradient(s), c->current.g, c->dim * sizeof(double)) == 0
        && a->tree_depth == b->tree_depth && a->n_leapfrog == b->n_leapfrog && a->selected == b->selected
        && a->divergent == b->divergent && a->hit_max_treedepth == b->hit_max_treedepth && a->lp == b->lp
        && a->energy == b->energy && a->energy_error == b->energy_error
        && a->max_energy_error == b->max_energy_error && a->step_size == b->step_size
        && fabs(a->accept_stat - b->accept_stat) < 1e-14 && fabs(a->accept_sym - b->accept_sym) < 1e-14;
}

typedef struct tally { size_t transitions, divergent, deepest, moved; } tally;

/* Runs both for n transitions; returns the index of the first that differs, or n. */
static size_t agreement(const target *t, const gpumc_metric *metric, reference_fault fault, size_t n,
                        tally *count)
{
    static reference_chain c;
    double start[DENSITY_DIM];
    gpumc_nuts *s;
    memset(&c, 0, sizeof c);
    for (size_t i = 0; i < t->dim; i++) start[i] = 0.3 - 0.1 * (double)(i % 4);
    c.dim = t->dim;
    c.metric = metric;
    c.density = t->density;
    c.step_size = t->step_size;
    c.max_treedepth = t->max_treedepth;
    c.seed = 0x123456789abcdefULL + t->dim;
    c.chain = 3;
    c.fault = fault;
    reference_start(&c, start);
    s = machine_start(t, metric, t->step_size, c.seed, c.chain, start);
    machine_draw(s, t->density, t->dim);                          /* the start point */
    for (size_t i = 0; i < n; i++) {
        if (t->density == narrow) {               /* far start again: the first leaves weigh e^900 */
            reference_start(&c, start);
            gpumc__nuts_move(s, start, c.current.lp, c.current.g);
        }
        machine_draw(s, t->density, t->dim);
        reference_transition(&c);
        if (!same_draw(s, &c)) return i;
        count->transitions++;
        count->divergent += c.stats.divergent;
        count->deepest += c.stats.hit_max_treedepth;
        count->moved += c.stats.selected != 0;
    }
    return n;
}

static void test_reference(void)
{
    static metric_memory m;
    const gpumc_metric_kind kinds[] = { GPUMC_METRIC_UNIT, GPUMC_METRIC_DIAG, GPUMC_METRIC_LOW_RANK,
                                        GPUMC_METRIC_DENSE, GPUMC_METRIC_BLOCKS };
    const size_t n = 500;
    tally count = { 0, 0, 0, 0 };
    for (size_t k = 0; k < 5; k++)
        for (size_t i = 0; i < N_TARGETS; i++) {
            size_t at;
            if (targets[i].dim < 2 && k > 1) continue;
            metric_fill(&m, kinds[k], targets[i].dim);
            at = agreement(&targets[i], &m.metric, FAULT_NONE, n, &count);
            CHECK(at == n, "%s, metric %d: machine and reference part at transition %.0f", targets[i].name,
                  (int)kinds[k], (double)at);
        }
    CHECK(count.divergent > 100 && count.deepest > 1000 && count.moved > count.transitions / 2,
          "%.0f divergent, %.0f at the depth limit, %.0f moved of %.0f: the targets exercise too little",
          (double)count.divergent, (double)count.deepest, (double)count.moved, (double)count.transitions);
    printf("machine and reference agree in %.0f transitions, %.0f divergent, %.0f at the depth limit\n",
           (double)count.transitions, (double)count.divergent, (double)count.deepest);
    for (int fault = FAULT_NONE + 1; fault < FAULT_END; fault++) {
        size_t n_seen = 0;
        for (size_t i = 0; i < N_TARGETS; i++) {
            metric_fill(&m, GPUMC_METRIC_DIAG, targets[i].dim);
            n_seen += agreement(&targets[i], &m.metric, (reference_fault)fault, n, &count) < n;
        }
        CHECK(n_seen > 0, "a reference with fault %d agrees with the machine", fault);
    }
}

/* The leapfrog steps of a tree of depth j are 2^j - 1, and with an invalid last subtree at most 2^(j + 1) - 1.
   Of a tree built in blocks of three they are 3/4 2^j - 1, at most 3/2 2^j - 1, and at most 2 at depth 0. */
static void test_tree_sizes(void)
{
    static metric_memory m;
    for (size_t i = 0; i < N_TARGETS; i++) {
        const double start[DENSITY_DIM] = { 0.1, 0.2 };
        gpumc_nuts *s;
        metric_fill(&m, GPUMC_METRIC_DIAG, targets[i].dim);
        s = machine_start(&targets[i], &m.metric, targets[i].step_size, 5, 0, start);
        machine_draw(s, targets[i].density, targets[i].dim);
        for (int k = 0; k < 300; k++) {
            const gpumc_draw_stats *t = gpumc_nuts_stats(s);
            const char *name = targets[i].name;
            int32_t complete, most, used = 0;
            machine_draw(s, targets[i].density, targets[i].dim);
            complete = s->block == 3 ? (3 << t->tree_depth) / 4 - 1 : (1 << t->tree_depth) - 1;
            CHECK(t->tree_depth <= targets[i].max_treedepth, "%s: depth %d", name, t->tree_depth);
            most = t->tree_depth > 0 ? 2 * complete + 1 : s->block == 3 ? 2 : 1;
            CHECK(t->n_leapfrog >= complete && t->n_leapfrog <= most
                  && (!t->hit_max_treedepth || t->n_leapfrog == complete), "%s: depth %d, %d leaves", name,
                  t->tree_depth, t->n_leapfrog);
            CHECK(t->accept_stat >= 0 && t->accept_stat <= 1, "%s: acceptance %g", name, t->accept_stat);
            for (int state = 0; state < s->n_states; state++) used += s->states[state].uses;
            CHECK(used == 1, "%s: %d references to states are left between transitions", name, used);
        }
    }
}

static void test_step_size_search(void)
{
    static metric_memory m;
    static reference_chain c;
    for (size_t i = 0; i < N_TARGETS; i++) {
        double start[DENSITY_DIM] = { 0 };
        gpumc_nuts *s;
        memset(&c, 0, sizeof c);
        for (size_t k = 0; k < targets[i].dim; k++) start[k] = 0.2;
        metric_fill(&m, GPUMC_METRIC_DIAG, targets[i].dim);
        c.dim = targets[i].dim;
        c.metric = &m.metric;
        c.density = targets[i].density;
        c.seed = 99;
        reference_start(&c, start);
        reference_search(&c, 0.1);
        s = machine_start(&targets[i], &m.metric, 0, 99, 0, start);
        machine_draw(s, targets[i].density, targets[i].dim);
        machine_draw(s, targets[i].density, targets[i].dim);
        CHECK(s->step_size == c.step_size, "%s: the search found %g, the reference %g", targets[i].name,
              s->step_size, c.step_size);
        reference_search(&c, 0.0123);                             /* another first guess: other sizes are tried */
        CHECK(s->step_size != c.step_size, "%s: the check of the search sees no difference", targets[i].name);
    }
}

static void test_bad_start(void)
{
    static metric_memory m;
    const target t = { "wall", wall, 2, 0.5, 5 };
    const double outside[2] = { -3, 0 }, invalid[2] = { 2, 0 }, inside[2] = { 0, 0 };
    const double *starts[2];
    double g[2] = { 0, 0 };
    starts[0] = outside;
    starts[1] = invalid;
    metric_fill(&m, GPUMC_METRIC_UNIT, 2);
    for (int k = 0; k < 2; k++) {
        gpumc_nuts *s = machine_start(&t, &m.metric, 0.5, 1, 0, starts[k]);
        const double lp = wall(gpumc_nuts_ask(s), g, 2);
        CHECK(!gpumc_nuts_tell(s, lp, g) && gpumc_nuts_bad_start(s), "a start of density %g is taken", lp);
        gpumc_nuts_restart(s, inside);
        machine_draw(s, wall, 2);
        CHECK(!gpumc_nuts_bad_start(s) && gpumc_nuts_draw(s)[0] == 0, "a good start after a bad one is not");
    }
}

/* A restart abandons a transition at any point of it; the first draw is then the start, with its density. */
static void test_restart(void)
{
    static metric_memory m;
    const double start[DENSITY_DIM] = { 0.1, 0.2 };
    const target *t = &targets[2];
    double g[DENSITY_DIM];
    metric_fill(&m, GPUMC_METRIC_DIAG, t->dim);
    for (int steps = 0; steps < 40; steps++) {
        gpumc_nuts *s = machine_start(t, &m.metric, t->step_size, 5, 0, start);
        int32_t used = 0;
        for (int round = 0; round < 30; round++) {
            for (int k = 0; k < steps; k++) {
                memset(g, 0, sizeof g);
                gpumc_nuts_tell(s, t->density(gpumc_nuts_ask(s), g, t->dim), g);
            }
            gpumc_nuts_restart(s, start);
            memset(g, 0, sizeof g);
            const double lp = t->density(gpumc_nuts_ask(s), g, t->dim);
            CHECK(gpumc_nuts_tell(s, lp, g) && memcmp(gpumc_nuts_draw(s), start, sizeof start[0]) == 0
                  && gpumc_nuts_stats(s)->lp == lp, "restarted after %d steps", steps);
        }
        for (int k = 0; k < 20; k++) machine_draw(s, t->density, t->dim);
        for (int state = 0; state < s->n_states; state++) used += s->states[state].uses;
        CHECK(used == 1 && s->current->uses == 1, "%d references are left after restarts within %d steps", used,
              steps);
    }
    gpumc_error error = { GPUMC_OK, "" };
    m.metric.rank = 65;
    CHECK(gpumc_nuts_init(memory, sizeof memory, t->dim, 5, &m.metric, 1, 1, 0, start, &error) == NULL
          && error.status == GPUMC_ERROR_ARGUMENT, "a rank of 65 is taken");
}

/* ---- the metric's operators ---------------------------------------------------------------------- */

/* The velocity is M^-1 p. Momenta have covariance M: L' p = z implies that velocity times momentum is z'z. */
static void test_metric(void)
{
    static metric_memory m;
    static double full[DENSITY_DIM * DENSITY_DIM];
    const gpumc_metric_kind kinds[] = { GPUMC_METRIC_UNIT, GPUMC_METRIC_DIAG, GPUMC_METRIC_LOW_RANK,
                                        GPUMC_METRIC_DENSE, GPUMC_METRIC_BLOCKS };
    const size_t dims[] = { 2, 7, 8, 9, 33 };
    for (size_t k = 0; k < 5; k++)
        for (size_t d = 0; d < 5; d++) {
            const size_t n = dims[d];
            double p[DENSITY_DIM], v[DENSITY_DIM], z[DENSITY_DIM], worst = 0, kinetic = 0, squares = 0;
            metric_fill(&m, kinds[k], n);
            if (kinds[k] == GPUMC_METRIC_DENSE) memcpy(full, m.covariance, sizeof full);
            else written_out(&m.metric, full);
            for (size_t i = 0; i < n; i++) { p[i] = z[i] = cos(1.7 * (double)i); squares += z[i] * z[i]; }
            gpumc__metric_velocity(&m.metric, p, v);
            for (size_t i = 0; i < n; i++) {
                double sum = 0;
                for (size_t j = 0; j < n; j++) sum += full[i * n + j] * p[j];
                worst = check_worst(worst, fabs(v[i] - sum));
                worst = check_worst(worst, fabs(gpumc__metric_variance(&m.metric, i) - full[i * n + i]));
            }
            CHECK(worst < 1e-12, "velocity or variance of metric %d, dimension %.0f is off by %g",
                  (int)kinds[k], (double)n, worst);
            gpumc__metric_momentum(&m.metric, z);
            gpumc__metric_velocity(&m.metric, z, v);
            for (size_t i = 0; i < n; i++) kinetic += z[i] * v[i];
            CHECK(fabs(kinetic - squares) < 1e-11 * squares, "metric %d, dimension %.0f: p' M^-1 p is %g for "
                  "z'z = %g", (int)kinds[k], (double)n, kinetic, squares);
            m.scale[n - 1] *= 1.001;
            if (m.metric.kind == GPUMC_METRIC_DENSE) m.covariance[n * n - 1] *= 1.001;
            gpumc__metric_velocity(&m.metric, z, v);
            kinetic = 0;
            for (size_t i = 0; i < n; i++) kinetic += z[i] * v[i];
            CHECK(fabs(kinetic - squares) > 1e-11 * squares, "metric %d: a velocity that is wrong passes",
                  (int)kinds[k]);
        }
}

/* ---- the integrator ------------------------------------------------------------------------------ */

typedef gpumc__state *(*stepper)(gpumc_nuts *s, log_density density, const gpumc__state *at,
                                 double eps);

static gpumc__state *leapfrog_step(gpumc_nuts *s, log_density density, const gpumc__state *at,
                                   double eps)
{
    gpumc__state *to = at == s->states ? s->states + 1 : s->states;
    gpumc__leapfrog_begin(s, at, to, eps);
    to->lp = density(to->q, to->g, s->dim);
    gpumc__leapfrog_end(s, to, eps);
    return to;
}

/* The broken variant: Euler's method, which violates volume, reversibility and order. */
static gpumc__state *euler_step(gpumc_nuts *s, log_density density, const gpumc__state *at, double eps)
{
    gpumc__state *to = at == s->states ? s->states + 1 : s->states;
    for (size_t i = 0; i < s->dim; i++) {
        to->q[i] = at->q[i] + eps * at->p[i];
        to->p[i] = at->p[i] + eps * at->g[i];
    }
    to->lp = density(to->q, to->g, s->dim);
    return to;
}

typedef struct phase_point { double q[4], p[4]; } phase_point;

/* Runs n steps from a point, in dimension dim with the unit metric; returns the energy error. */
static double flow(stepper step, log_density density, size_t dim, const phase_point *from, double eps,
                   int n, phase_point *to)
{
    static metric_memory m;
    const target t = { "flow", density, dim, eps, 1 };
    gpumc_nuts *s;
    gpumc__state *at;
    double H;
    metric_fill(&m, GPUMC_METRIC_UNIT, dim);
    s = machine_start(&t, &m.metric, eps, 0, 0, from->q);
    at = s->states;
    memcpy(at->p, from->p, dim * sizeof(double));
    at->lp = density(at->q, at->g, dim);
    H = gpumc__kinetic(s, at) - at->lp;
    for (int i = 0; i < n; i++) at = step(s, density, at, eps);
    memcpy(to->q, at->q, dim * sizeof(double));
    memcpy(to->p, at->p, dim * sizeof(double));
    return gpumc__kinetic(s, at) - at->lp - H;
}

static const phase_point origin = { { 0.4, -0.7, 0.2, 0.1 }, { 0.9, 0.3, -0.5, 0.2 } };

static double irreversibility(stepper step)
{
    phase_point there, back;
    double worst = 0;
    flow(step, banana, 4, &origin, 0.02, 100, &there);
    for (int i = 0; i < 4; i++) there.p[i] = -there.p[i];
    flow(step, banana, 4, &there, 0.02, 100, &back);
    for (int i = 0; i < 4; i++)
        worst = check_worst(check_worst(worst, fabs(back.q[i] - origin.q[i])), fabs(back.p[i] + origin.p[i]));
    return worst;
}

/* Root mean square of the energy error after n steps of eps, over 20 starts. */
static double energy_error(stepper step, double eps, int n)
{
    double sum = 0;
    for (int k = 0; k < 20; k++) {
        phase_point start = origin, end;
        double e;
        start.q[0] += 0.1 * k;
        start.p[1] -= 0.07 * k;
        e = flow(step, banana, 2, &start, eps, n, &end);
        sum += e * e;
    }
    return sqrt(sum / 20);
}

/* Determinant of the flow's Jacobian in two dimensions, by central differences and elimination. */
static double volume_change(stepper step)
{
    double a[4][4], determinant = 1;
    for (int j = 0; j < 4; j++) {
        phase_point high = origin, low = origin, end_high, end_low;
        const double h = 1e-5;
        *(j < 2 ? &high.q[j] : &high.p[j - 2]) += h;
        *(j < 2 ? &low.q[j] : &low.p[j - 2]) -= h;
        flow(step, banana, 2, &high, 0.1, 10, &end_high);
        flow(step, banana, 2, &low, 0.1, 10, &end_low);
        for (int i = 0; i < 2; i++) {
            a[i][j] = (end_high.q[i] - end_low.q[i]) / (2 * h);
            a[i + 2][j] = (end_high.p[i] - end_low.p[i]) / (2 * h);
        }
    }
    for (int k = 0; k < 4; k++) {
        int pivot = k;
        for (int i = k + 1; i < 4; i++) if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        for (int j = 0; j < 4; j++) { const double t = a[k][j]; a[k][j] = a[pivot][j]; a[pivot][j] = t; }
        determinant *= a[k][k];
        for (int i = k + 1; i < 4; i++)
            for (int j = 3; j >= k; j--) a[i][j] -= a[i][k] / a[k][k] * a[k][j];
    }
    return fabs(determinant);
}

static double standard(const double *q, double *g, size_t dim)
{
    double lp = 0;
    for (size_t i = 0; i < dim; i++) { g[i] = -q[i]; lp -= 0.5 * q[i] * q[i]; }
    return lp;
}

/* On the standard normal the leapfrog conserves p^2 + (1 - eps^2 / 4) q^2. */
static double shadow_error(stepper step)
{
    const double eps = 0.3, shadow = 1 - eps * eps / 4;
    phase_point end;
    flow(step, standard, 1, &origin, eps, 1000, &end);
    return fabs((end.p[0] * end.p[0] + shadow * end.q[0] * end.q[0])
                / (origin.p[0] * origin.p[0] + shadow * origin.q[0] * origin.q[0]) - 1);
}

static void test_integrator(void)
{
    const double order = energy_error(leapfrog_step, 0.04, 50) / energy_error(leapfrog_step, 0.02, 100);
    const double wrong = energy_error(euler_step, 0.004, 500) / energy_error(euler_step, 0.002, 1000);
    CHECK(irreversibility(leapfrog_step) < 1e-11, "forth and back leaves %g", irreversibility(leapfrog_step));
    CHECK(!(irreversibility(euler_step) < 1e-11), "Euler's step passes as reversible");
    CHECK(fabs(order - 4) < 0.4, "half the step divides the energy error by %g, not 4", order);
    CHECK(!(fabs(wrong - 4) < 0.4), "Euler's step passes as second order (%g)", wrong);
    CHECK(fabs(volume_change(leapfrog_step) - 1) < 1e-8, "volume changes by %g",
          volume_change(leapfrog_step) - 1);
    CHECK(!(fabs(volume_change(euler_step) - 1) < 1e-8), "Euler's step passes as volume preserving");
    CHECK(shadow_error(leapfrog_step) < 1e-12, "the shadow energy drifts by %g", shadow_error(leapfrog_step));
    CHECK(!(shadow_error(euler_step) < 1e-12), "Euler's step conserves the shadow energy");
}

/* ---- copies for instruction sets ----------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX2__)
static gpumc__state *copies_state(gpumc_nuts *s, int k)
{
    for (size_t i = 0; i < s->dim; i++) s->states[k].g[i] = cos((double)i);
    s->states[k].lp = -1;
    return &s->states[k];
}

/* Whether the versions compiled for different instruction sets agree bit for bit: of a leapfrog step, a step on
   the spring, sums, moments and normals. The AVX2 steps start `off` away from the others: unless that is 0, the
   comparison must fail. */
static int copies_agree(size_t dim, double off)
{
    static metric_memory m;
    const target t = { "copies", normal, dim, 0.3, 1 };
    double start[DENSITY_DIM], x[2][DENSITY_DIM], z[3][80], any, wide, swung[2];
    int same_normals;
    const gpumc_rng rng = gpumc_rng_at(5, 6, 7, 8);
    gpumc__state *from, *a, *b;
    gpumc_nuts *s;
    metric_fill(&m, GPUMC_METRIC_DIAG, dim);
    for (size_t i = 0; i < dim; i++) { start[i] = sin((double)i); m.scale[i] = 0.7 + 0.1 * (double)i; }
    s = machine_start(&t, &m.metric, 0.3, 1, 0, start);
    from = copies_state(s, 0);
    a = copies_state(s, 1);
    b = copies_state(s, 2);
    memcpy(from->p, start, dim * sizeof *start);
    gpumc__leapfrog_begin_any(s, from, a, 0.3);
    from->q[dim - 1] += off;
    gpumc__leapfrog_begin_avx2(s, from, b, 0.3);
    any = gpumc__leapfrog_end_any(s, a, 0.3);
    wide = gpumc__leapfrog_end_avx2(s, b, 0.3);
    m.metric.spring = 1;
    s->sine = 0.6;
    s->cosine = 0.8;
    s->kicks[0] = s->kicks[1] = 0.3;
    for (int wider = 0; wider < 2; wider++) {
        gpumc__state *to = copies_state(s, 3 + wider);
        memcpy(s->scratch, start, dim * sizeof *start);
        memcpy(s->x, from->g, dim * sizeof *start);
        s->x[dim - 1] += wider ? off : 0;
        (wider ? gpumc__hmc_begin_avx2 : gpumc__hmc_begin_any)(s, from, to);
        swung[wider] = (wider ? gpumc__hmc_end_avx2 : gpumc__hmc_end_any)(s, to);
        memcpy(x[wider], s->x, dim * sizeof *start);
    }
    gpumc__normals_16_any(&rng, z[0]);
    gpumc__normals_64_any(&rng, z[0] + 16);
    gpumc__normals_16_avx2(&rng, z[1]);
    gpumc__normals_64_avx2(&rng, z[1] + 16);
    GPUMC__WIDEST(gpumc__normals_64, (&rng, z[2] + 16));
    gpumc__welford_any(z[0], z[0] + 16, z[0] + 32, 16, 0.3);
    gpumc__welford_avx2(z[1], z[1] + 16, z[1] + 32, 16, 0.3);
    same_normals = memcmp(z[0] + 32, z[2] + 32, 48 * sizeof **z) == 0;
    return memcmp(a->q, b->q, dim * sizeof(double)) == 0 && memcmp(a->p, b->p, dim * sizeof(double)) == 0
        && gpumc__sum_any(a->q, dim) == gpumc__sum_avx2(b->q, dim)
        && gpumc__dot_any(a->q, a->p, dim) == gpumc__dot_avx2(b->q, b->p, dim)
        && memcmp(x[0], x[1], dim * sizeof(double)) == 0 && swung[0] == swung[1]
        && memcmp(s->states[3].q, s->states[4].q, dim * sizeof(double)) == 0
        && gpumc__distance_any(a->q, a->p, dim) == gpumc__distance_avx2(b->q, b->p, dim)
        && any == wide && memcmp(z[0], z[1], sizeof z[0]) == 0 && same_normals;
}

static void test_copies(void)
{
    if (!__builtin_cpu_supports("avx2")) { printf("no AVX2 here: its copies were not compared\n"); return; }
    for (size_t dim = 1; dim <= DENSITY_DIM; dim++) {
        CHECK(copies_agree(dim, 0), "the copies differ in dimension %.0f", (double)dim);
        CHECK(!copies_agree(dim, 1e-12), "dimension %.0f: their comparison sees nothing", (double)dim);
    }
}
#else
static void test_copies(void) { printf("one copy of every function in this build\n"); }
#endif

/* ---- adaptation ---------------------------------------------------------------------------------- */

/* Largest relative difference to step sizes computed by hand from the published recursion. */
static double dual_error(double wanted)
{
    const double accept[5] = { 0.9, 0.5, 0, 1, 0.8 };
    const double step[5] = { 11.99396102, 6.241250558, 0.6962068552, 1.017013923, 0.920761639 };
    const double mean[5] = { 11.99396102, 8.133527628, 2.766674772, 1.942194731, 1.553640879 };
    gpumc__dual d;
    double worst = 0;
    gpumc__dual_start(&d, 1);
    for (int i = 0; i < 5; i++) {
        gpumc__dual_update(&d, accept[i], wanted);
        worst = check_worst(worst, check_worst(check_distance(exp(d.x), step[i], 0),
                                 check_distance(exp(d.x_mean), mean[i], 0)));
    }
    return worst;
}

static void test_dual_averaging(void)
{
    CHECK(dual_error(0.8) < 1e-9, "step sizes differ from the known ones by %g", dual_error(0.8));
    CHECK(dual_error(0.8001) > 1e-9, "another target gives the same step sizes");
}

static gpumc_adapt *adapt_new(size_t dim, gpumc_metric_kind kind, size_t num_warmup, size_t num_chains)
{
    gpumc_adapt_options o;
    gpumc_error error;
    gpumc_adapt *a;
    size_t bytes;
    memset(&o, 0, sizeof o);
    o.metric = kind;
    o.num_warmup = num_warmup;
    o.num_chains = num_chains;
    bytes = gpumc_adapt_bytes(NULL, dim, &o);
    a = gpumc_adapt_init(calloc(1, bytes), bytes, NULL, dim, &o, &error);
    CHECK(a != NULL, "%s", error.text);
    return a;
}

enum { N_SHARING = 100, SHARED_DIM = 4 + 3 * N_SHARING };         /* of shared_error, the largest */

/* Puts n exact draws of a Gaussian with mean 3 and covariance L L' into the window, with their gradients times
   factor: 1 in the correct variant. */
static void adapt_feed(gpumc_adapt *a, const double *L, size_t n, double factor)
{
    const size_t d = a->dim;
    gpumc_rng rng = gpumc_rng_at(7, 0, 0, 0);
    a->n_kept = n;
    for (size_t k = 0; k < n; k++) {
        double *q = a->q + k * d, *g = a->g + k * d, z[SHARED_DIM];
        a->owner[k] = 0;
        for (size_t i = 0; i < d; i++) z[i] = gpumc_rng_normal(&rng);
        for (size_t i = 0; i < d; i++) {
            q[i] = 3;
            for (size_t j = 0; j <= i; j++) q[i] += L[i * d + j] * z[j];
            g[i] = -z[i];
        }
        for (size_t i = d; i-- > 0;) {                            /* g = -Sigma^-1 (q - 3) = -L'^-1 z */
            for (size_t j = i + 1; j < d; j++) g[i] -= L[j * d + i] * g[j];
            g[i] /= L[i * d + i];
        }
        for (size_t i = 0; i < d; i++) g[i] *= factor;
    }
    gpumc__adapt_list(a, GPUMC__NONE);
}

/* Three draws of independent normals, with their gradients, give the exact scales and the exact mean. */
static void test_fisher_diagonal(void)
{
    enum { DIM = 12 };
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_DIAG, 0, 1);
    double L[DIM * DIM] = { 0 };
    for (int broken = 0; broken < 2; broken++) {
        double worst = 0;
        for (size_t i = 0; i < DIM; i++) L[i * DIM + i] = pow(10, (double)i / 3 - 2);
        adapt_feed(a, L, 3, broken ? 1.01 : 1);
        gpumc__adapt_diagonal(a, &a->shared);
        for (size_t i = 0; i < DIM; i++) {
            worst = check_worst(worst, check_distance(a->shared.scale[i], L[i * DIM + i], 0));
            worst = check_worst(worst, fabs(a->shared.mean[i] - 3) / L[i * DIM + i]);
        }
        CHECK(broken ? worst > 1e-3 : worst < 1e-9, "scales and centre are off by %g%s",
              worst, broken ? ", and their check sees nothing" : "");
    }
    free(a);
}

/* Largest relative error of the first scales, from the start points and gradients of num_chains chains, which are
   draws of independent normals. */
static double first_scales_error(size_t num_chains)
{
    enum { DIM = 12, CHAINS = 4 };
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_DIAG, 0, num_chains);
    const size_t bytes = gpumc_nuts_bytes(DIM, 10);
    gpumc_nuts *machines[CHAINS];
    double worst = 0;
    for (size_t c = 0; c < num_chains; c++) {
        gpumc_rng rng = gpumc_rng_at(8, 0, 0, (uint32_t)c);
        double q[DIM], g[DIM], lp = 0;
        for (int i = 0; i < DIM; i++) {
            const double sd = pow(10, i / 3.0 - 2), z = gpumc_rng_normal(&rng);
            q[i] = 3 + sd * z;
            g[i] = -z / sd;
            lp -= 0.5 * z * z;
        }
        machines[c] = gpumc_nuts_init(malloc(bytes), bytes, DIM, 10, gpumc_adapt_metric(a, c), 0, 1,
                                      (uint32_t)c, q, NULL);
        gpumc_nuts_ask(machines[c]);
        CHECK(gpumc_nuts_tell(machines[c], lp, g) == 1, "chain %d does not start", (int)c);
    }
    gpumc_adapt_update(a, machines);
    for (int i = 0; i < DIM; i++) {
        const double sd = pow(10, i / 3.0 - 2);
        worst = check_worst(worst, check_distance(a->shared.scale[i], sd, 0));
        for (size_t c = 0; c < num_chains; c++)
            worst = check_worst(worst, check_distance(gpumc_adapt_metric(a, c)->scale[i], sd, 0));
    }
    for (size_t c = 0; c < num_chains; c++) free(machines[c]);
    free(a);
    return worst;
}

static void test_first_metric(void)
{
    CHECK(first_scales_error(4) < 1e-9, "four chains begin with scales off by %g", first_scales_error(4));
    CHECK(first_scales_error(2) > 1e-3, "two chains, who only know their gradients, begin as well");
}

/* The dense estimate solves Sigma C_g Sigma = C_x, where C_x and C_g are the second moments, plus a ridge, of
   whitened draws and gradients. Returns the largest error relative to C_x; both sides are formed from the
   draws. */
static double fisher_residual(gpumc_adapt *a, size_t n)
{
    const size_t d = a->dim;
    enum { SIZE = DENSITY_DIM * DENSITY_DIM };
    static double cx[SIZE], cg[SIZE], left[SIZE], t[SIZE];
    const double *sigma = a->matrices;
    double worst = 0, largest = 0;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            double x = 0, g = 0;
            for (size_t k = 0; k < n; k++) {
                x += a->x[k * d + i] * a->x[k * d + j];
                g += a->y[k * d + i] * a->y[k * d + j];
            }
            cx[i * d + j] = x / (double)n + (i == j ? of_rank.fine_ridge : 0);
            cg[i * d + j] = g / (double)n + (i == j ? of_rank.fine_ridge : 0);
        }
    gpumc__multiply(sigma, 0, cg, t, d);
    gpumc__multiply(t, 0, sigma, left, d);
    for (size_t i = 0; i < d * d; i++) {
        worst = check_worst(worst, fabs(left[i] - cx[i]));
        largest = check_worst(largest, fabs(cx[i]));
    }
    return worst / largest;
}

/* The Cholesky factor of a covariance with variance 100 in one direction, 0.01 in a second, 1 in all others. */
static void spikes_factor(double *L, size_t d)
{
    static metric_memory m;
    metric_fill(&m, GPUMC_METRIC_LOW_RANK, d);
    for (size_t i = 0; i < d; i++) m.scale[i] = 1;
    m.lambda[0] = 100;
    m.lambda[1] = 0.01;
    written_out(&m.metric, L);
    gpumc__cholesky(L, d);
}

/* Ten exact draws and the exact metric give the exact mean, whatever the correlations. The metric without its
   directions must not. */
static void test_centre(void)
{
    enum { DIM = 20 };
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_LOW_RANK, 400, 1);
    gpumc_metric *m = &a->shared;
    static metric_memory truth;
    static double L[DIM * DIM];
    metric_fill(&truth, GPUMC_METRIC_LOW_RANK, DIM);
    written_out(&truth.metric, L);
    gpumc__cholesky(L, DIM);
    adapt_feed(a, L, 10, 1);
    memcpy(m->scale, truth.scale, DIM * sizeof(double));
    memcpy(m->vectors, truth.vectors, 2 * DIM * sizeof(double));
    memcpy(m->lambda, truth.lambda, sizeof truth.lambda);
    for (int broken = 0; broken < 2; broken++) {
        double worst = 0;
        m->rank = broken ? 0 : truth.metric.rank;
        gpumc__adapt_mean(a);
        for (size_t i = 0; i < DIM; i++) worst = check_worst(worst, fabs(m->mean[i] - 3));
        CHECK(broken ? worst > 0.01 : worst < 1e-9, "the centre is off by %g%s", worst,
              broken ? ", and its check sees nothing" : "");
    }
    free(a);
}

static int fisher_dense(gpumc_adapt *a, size_t n_draws, size_t r)
{ return gpumc__fisher_dense(a->x, a->y, n_draws, r, a->matrices); }

static void test_low_rank(void)
{
    enum { DIM = 20, N = 120 };
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_LOW_RANK, 400, 1);
    static metric_memory truth;
    static double L[DIM * DIM];
    double residual, worst = 0;
    metric_fill(&truth, GPUMC_METRIC_LOW_RANK, DIM);
    spikes_factor(L, DIM);
    adapt_feed(a, L, N, 1);
    gpumc__adapt_diagonal(a, &a->shared);
    CHECK(gpumc__adapt_select(a) == N, "every draw of a short window is used");
    CHECK(fisher_dense(a, N, DIM), "moments of a Gaussian allow an estimate");
    residual = fisher_residual(a, N);
    CHECK(residual < 1e-9, "Sigma C_g Sigma misses C_x by %g", residual);
    a->matrices[1] += 0.01;
    CHECK(fisher_residual(a, N) > 1e-9, "a wrong Sigma passes");
    a->matrices[1] -= 0.01;

    gpumc__adapt_low_rank(a, N, DIM, 0);
    CHECK(a->shared.rank >= 2, "rank %.0f for two directions that stand out", (double)a->shared.rank);
    for (size_t k = 0; k < a->shared.rank; k++)                   /* eigenvectors are orthonormal rows */
        for (size_t j = 0; j <= k; j++)
            worst = check_worst(worst, fabs(gpumc__dot(a->shared.vectors + k * DIM, a->shared.vectors + j * DIM, DIM)
                                     - (j == k)));
    CHECK(worst < 1e-12, "eigenvectors are orthonormal up to %g", worst);
    for (int k = 0; k < 2; k++) {                                 /* variances 100 and 0.01 */
        double u[DIM], v[DIM], variance;
        for (size_t i = 0; i < DIM; i++) u[i] = truth.vectors[(size_t)k * DIM + i];
        gpumc__metric_velocity(&a->shared, u, v);
        variance = gpumc__dot(u, v, DIM);
        CHECK(k ? variance < 0.04 : variance > 40, "the metric gives a direction of variance %g the value %g",
              k ? 0.01 : 100.0, variance);
        a->shared.rank = 0;
        gpumc__metric_velocity(&a->shared, u, v);
        variance = gpumc__dot(u, v, DIM);
        CHECK(!(k ? variance < 0.04 : variance > 40), "a diagonal metric passes as low-rank (%g)", variance);
        a->shared.rank = 2;
    }
    free(a);
}

/* Without ridge, cut-off and price of a direction the estimate is exact for any Gaussian, since its gradients are
   linear. Returns the largest error of the covariance. */
static double recovery_error(int by_gains, double gradient_factor)
{
    enum { DIM = 20, N = 120 };
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_LOW_RANK, 400, 1);
    static double L[DIM * DIM], found[DIM * DIM];
    double worst = 0;
    of_rank.fine_ridge = of_rank.direction = of_rank.residual = 0;
    of_rank.cutoff = 1;
    spikes_factor(L, DIM);
    adapt_feed(a, L, N, gradient_factor);
    gpumc__adapt_diagonal(a, &a->shared);
    gpumc__adapt_select(a);
    CHECK(fisher_dense(a, N, DIM), "moments of a Gaussian allow an estimate without a ridge");
    gpumc__adapt_low_rank(a, by_gains ? N : 0, DIM, 0);
    written_out(&a->shared, found);
    for (size_t i = 0; i < DIM; i++)
        for (size_t j = 0; j < DIM; j++) {
            const double covariance = gpumc__dot(L + i * DIM, L + j * DIM, DIM);
            worst = check_worst(worst, fabs(found[i * DIM + j] - covariance));
        }
    of_rank = shipped;
    free(a);
    return worst;
}

/* A Gaussian of 300 coordinates with standard deviations 10, 5 and 1/5 in three directions and 1 in all others,
   and fewer draws than coordinates. Returns the largest factor by which the metric errs in a variance, in these
   three directions and seven others. whole: the estimate of warm-up; else (broken variant) the diagonal is not
   freed of these directions. */
static double directions_error(int whole, double gradient_factor)
{
    enum { DIM = 300, N = 120, N_LOOKED = 10 };
    static const double sd[3] = { 10, 5, 0.2 };
    static double looked[N_LOOKED][DIM];
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_LOW_RANK, 400, 1);
    gpumc_rng rng = gpumc_rng_at(11, 0, 0, 0);
    double mean[3][DIM] = { { 0 } }, worst = 1, shift = 0, outside;
    size_t r;
    for (size_t l = 0; l < N_LOOKED; l++) {                      /* orthonormal; the first three: sd not 1 */
        double *v = looked[l], norm;
        gpumc_rng_normals(&rng, v, DIM);
        for (size_t j = 0; j < l; j++) gpumc__add_multiple(v, -gpumc__dot(v, looked[j], DIM), looked[j], DIM);
        norm = sqrt(gpumc__dot(v, v, DIM));
        for (size_t i = 0; i < DIM; i++) v[i] /= norm;
    }
    a->n_kept = N;
    for (size_t k = 0; k < N; k++) {
        double *q = a->q + k * DIM, *g = a->g + k * DIM;
        a->owner[k] = 0;
        gpumc_rng_normals(&rng, q, DIM);
        for (size_t i = 0; i < DIM; i++) g[i] = -q[i];
        for (size_t l = 0; l < 3; l++) {
            const double z = gpumc__dot(q, looked[l], DIM);
            gpumc__add_multiple(q, (sd[l] - 1) * z, looked[l], DIM);
            gpumc__add_multiple(g, (1 - 1 / sd[l]) * z, looked[l], DIM);
        }
        for (size_t i = 0; i < DIM; i++) g[i] *= i % 2 ? gradient_factor : 1;
    }
    gpumc__adapt_list(a, GPUMC__NONE);
    of_rank.fine_ridge = 0;
    if (whole) gpumc__adapt_pooled_metric(a, 1);
    else {
        gpumc__adapt_diagonal(a, &a->shared);
        gpumc__adapt_select(a);
        CHECK(gpumc__adapt_misfit(a, N) > GPUMC__MISFIT, "no misfit is seen");
        CHECK(gpumc__adapt_gram(a, N), "no eigenvalues");
        r = gpumc__adapt_directions(a, N, GPUMC__MISFIT, 0, &outside);
        CHECK(r >= 3 && 4 * r < N, "%d directions are not a few more than three", (int)r);
        gpumc__adapt_gather_along(a, r);
        CHECK(fisher_dense(a, N, r), "moments of %d directions allow an estimate", (int)r);
        gpumc__adapt_low_rank(a, 0, r, outside);
    }
    of_rank = shipped;
    for (size_t i = 0; whole && i < DIM; i++) {                  /* the centre goes with the metric */
        for (size_t k = 0; k < N; k++) {
            mean[0][i] += a->q[k * DIM + i] / N;
            mean[1][i] += a->g[k * DIM + i] / N;
        }
        mean[0][i] -= a->shared.mean[i];
    }
    gpumc__metric_velocity(&a->shared, mean[1], mean[2]);
    for (size_t i = 0; i < DIM; i++) shift = fmax(shift, fabs(mean[0][i] + mean[2][i]));
    CHECK(shift < 1e-9, "the metric's centre is off by %g", shift);
    for (size_t l = 0; l < N_LOOKED; l++) {
        double v[DIM], ratio;
        gpumc__metric_velocity(&a->shared, looked[l], v);
        ratio = gpumc__dot(v, looked[l], DIM) / (l < 3 ? sd[l] * sd[l] : 1);
        worst = check_worst(worst, fmax(ratio, 1 / ratio));
    }
    free(a);
    return worst;
}

/* Learns the metric, as warm-up does, from n_draws draws of a normal of dim coordinates, with the given variance
   in n_wide directions and 1 in all others; every gradient component has a relative error of sd off. Returns the
   mean Fisher residual |x + y|^2 of a draw; along: the metric's variance in the first of these directions. */
static double gains_residual(size_t dim, size_t n_wide, double variance, size_t n_draws, double off,
                             double *along)
{
    enum { MOST = 300, MOST_WIDE = 12 };
    static double v[MOST_WIDE][MOST];
    double x[MOST], y[MOST], residual = 0;
    gpumc_adapt *a = adapt_new(dim, GPUMC_METRIC_LOW_RANK, 400, 1);
    gpumc_rng rng = gpumc_rng_at(12, 0, 0, 0);
    for (size_t l = 0; l < n_wide; l++) {
        double norm;
        gpumc_rng_normals(&rng, v[l], dim);
        for (size_t j = 0; j < l; j++) gpumc__add_multiple(v[l], -gpumc__dot(v[l], v[j], dim), v[j], dim);
        norm = sqrt(gpumc__dot(v[l], v[l], dim));
        for (size_t i = 0; i < dim; i++) v[l][i] /= norm;
    }
    a->n_kept = n_draws;
    for (size_t k = 0; k < n_draws; k++) {
        double *q = a->q + k * dim, *g = a->g + k * dim;
        gpumc_rng_normals(&rng, q, dim);
        for (size_t i = 0; i < dim; i++) g[i] = -q[i];
        for (size_t l = 0; l < n_wide; l++) {
            const double z = gpumc__dot(q, v[l], dim);
            gpumc__add_multiple(q, (sqrt(variance) - 1) * z, v[l], dim);
            gpumc__add_multiple(g, (1 - 1 / sqrt(variance)) * z, v[l], dim);
        }
        for (size_t i = 0; i < dim; i++) g[i] *= 1 + off * gpumc_rng_normal(&rng);
    }
    gpumc__adapt_list(a, GPUMC__NONE);
    gpumc__adapt_pooled_metric(a, 1);
    for (size_t k = 0; k < n_draws; k++)
        residual += gpumc__metric_residual(&a->shared, a->q + k * dim, a->g + k * dim, x, y);
    gpumc__metric_velocity(&a->shared, v[0], y);
    *along = gpumc__dot(v[0], y, dim);
    free(a);
    return residual / (double)n_draws;
}

/* Directions of variances too near 1 to matter to NUTS are kept for the spring, if there are draws enough to
   estimate them and the target is so nearly normal that the spring pays. Large variances are not shrunk. */
static void test_gains(void)
{
    double along, residual = gains_residual(20, 6, 1.8, 120, 0, &along);
    CHECK(residual < 0.1, "directions of variance 1.8 leave a residual of %g", residual);
    residual = gains_residual(20, 6, 1.8, 39, 0, &along);
    CHECK(residual > 0.5, "39 draws tell of 20 coordinates (%g)", residual);
    of_rank.direction = 1;
    residual = gains_residual(20, 6, 1.8, 120, 0, &along);
    CHECK(residual > 0.5, "directions are kept that cost too much (%g)", residual);
    gains_residual(20, 1, 4, 120, 0, &along);
    CHECK(along > 3, "a direction that trees want is not kept, dear as it is (%g)", along);
    of_rank.direction = 0;
    gains_residual(20, 6, 1.9, 120, 0.25, &along);
    of_rank = shipped;
    CHECK(along < 1.5, "where gradients are not the normal's weak directions are kept (%g)", along);
    gains_residual(300, 1, 1.95, 120, 0.25, &along);
    CHECK(along < 1.3, "what no direction reaches is forgotten (%g)", along);
    residual = gains_residual(100, 12, 1.8, 200, 0, &along);
    CHECK(residual < 1, "12 directions of 100 leave a residual of %g", residual);
    residual = gains_residual(100, 12, 1.8, 199, 0, &along);
    CHECK(residual > 2, "too few draws tell of 100 coordinates (%g)", residual);
    gains_residual(20, 1, 1e4, 120, 0, &along);
    CHECK(along > 0.8e4 && along < 1.2e4, "a variance of 10000 is found as %g", along);
    of_rank.fine_ridge = of_rank.ridge;
    gains_residual(20, 1, 1e4, 120, 0, &along);
    CHECK(along < 0.5e4, "the ridge of few draws does not cut it short (%g)", along);
    of_rank = shipped;
}

/* The Fisher residual that decides on the spring is that of the current metric, not of the metric under which the
   draws were made. */
static void test_remeasure(void)
{
    enum { DIM = 20, N = 120 };
    static double L[DIM * DIM];
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_LOW_RANK, 400, 1);
    spikes_factor(L, DIM);
    adapt_feed(a, L, N, 1);
    gpumc__adapt_remeasure(a);
    CHECK(gpumc__fit_error(a) > 1, "without a metric gradients are off by %g", gpumc__fit_error(a));
    gpumc__adapt_pooled_metric(a, 1);
    gpumc__adapt_remeasure(a);
    CHECK(gpumc__fit_error(a) < 0.1, "with one that fits they are off by %g", gpumc__fit_error(a));
    free(a);
}

/* The number of directions kept of 21, of which one has variance 100 and the others 2.1, just above the cut-off. */
static size_t directions_kept(void)
{
    enum { DIM = 300, R = 21 };
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_LOW_RANK, 400, 1);
    size_t rank;
    for (size_t i = 0; i < R; i++) {
        for (size_t j = 0; j < R; j++) a->matrices[i * R + j] = i != j ? 0 : i == 0 ? 100 : 2.1;
        for (size_t j = 0; j < DIM; j++) a->basis[i * DIM + j] = i == j;
    }
    gpumc__adapt_low_rank(a, 0, R, 0);
    rank = a->shared.rank;
    free(a);
    return rank;
}

static void test_price(void)
{
    CHECK(directions_kept() == 1, "%d directions are kept where one pays", (int)directions_kept());
    of_rank.direction = 0;
    CHECK(directions_kept() == 21, "%d of 21 directions are kept that cost nothing", (int)directions_kept());
    of_rank = shipped;
}

/* The matrix of inner products of more draws than coordinates: most eigenvalues are zero but for rounding. */
static void test_singular_eigen(void)
{
    enum { N = 128, DIM = 50 };
    static double x[N * DIM], products[N * N], copy[N * N], d[N], z[N * N], work[3 * N];
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    double worst = 0;
    gpumc_rng_normals(&rng, x, N * DIM);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) products[i * N + j] = gpumc__dot(x + i * DIM, x + j * DIM, DIM);
    memcpy(copy, products, sizeof copy);
    CHECK(gpumc__eigen(products, N, d, z, work), "no eigenvalues of a singular matrix");
    for (size_t k = 0; k < N; k++)
        for (size_t i = 0; i < N; i++)
            worst = check_worst(worst, fabs(gpumc__dot(copy + i * N, z + k * N, N) - d[k] * z[k * N + i]));
    CHECK(worst < 1e-10, "eigenvectors of a singular matrix are off by %g", worst);
}

static double flat_density(const double *x, double *grad, void *data)
{
    (void)x, (void)grad, (void)data;
    return 0;
}

/* Blocks, too, are recovered exactly if the rest is diagonal: 4 groups of 3 parameters below 4 others. */
static double blocks_error(double gradient_factor)
{
    enum { N_GROUPS = 4, DIM = 4 + 3 * N_GROUPS, N = 60 };
    static const gpumc_param params[] = {
        { .name = "beta", .size = 2 }, { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "a", .size = N_GROUPS, .location = "mu", .scale = "tau" },
        { .name = "b", .size = N_GROUPS }, /* without a population, as z in the quantile form */
        { .name = "c", .size = N_GROUPS, .location = "mu", .scale = "tau" },
    };
    static const gpumc_model model = { .name = "blocks", .params = params, .n_params = 6,
                                       .log_density = flat_density };
    static double L[DIM * DIM], found[DIM * DIM];
    static metric_memory truth;
    const gpumc_adapt_options o = { .num_warmup = 400 };
    const size_t layout_bytes = gpumc_layout_bytes(&model, NULL);
    gpumc_layout *layout = gpumc_layout_init(&model, malloc(layout_bytes), layout_bytes, NULL);
    const size_t bytes = gpumc_adapt_bytes(layout, DIM, &o);
    gpumc_adapt *a = gpumc_adapt_init(calloc(1, bytes), bytes, layout, DIM, &o, NULL);
    double worst = 0;
    CHECK(a && a->options.metric == GPUMC_METRIC_BLOCKS && a->shared.block_size == 3, "blocks of 3 unasked");
    metric_clear(&truth, GPUMC_METRIC_BLOCKS, DIM);
    for (size_t i = 0; i < DIM; i++) truth.scale[i] = 0.5 + 0.3 * (double)(i % 5);
    metric_fill_blocks(&truth);
    written_out(&truth.metric, L);
    gpumc__cholesky(L, DIM);
    of_rank.ridge = of_rank.fine_ridge = 0;
    adapt_feed(a, L, N, gradient_factor);
    gpumc__adapt_pooled_metric(a, 1);
    of_rank = shipped;
    CHECK(a->shared.n_blocks == N_GROUPS && a->shared.rank == 0, "%.0f blocks, rank %.0f",
          (double)a->shared.n_blocks, (double)a->shared.rank);
    written_out(&a->shared, found);
    written_out(&truth.metric, L);
    for (size_t i = 0; i < DIM * DIM; i++) worst = check_worst(worst, fabs(found[i] - L[i]));
    free(a);
    free(layout);
    return worst;
}

/* Adds variance along the direction that uncertainty of a population's mean creates: c in mu and in every element
   of the groups. */
static void shared_add_mean(double *cov, double c)
{
    const size_t n = SHARED_DIM;
    for (size_t i = 2; i < 4 + N_SHARING; i++)
        for (size_t j = 2; j < 4 + N_SHARING; j++)
            if (i != 3 && j != 3) cov[i * n + j] += c * c;
}

/* What is correlated besides the blocks of 3: nothing, the 4 parameters above the groups, or, by a common mean, all
   groups. */
enum { SHARE_NOTHING, SHARE_TOPS, SHARE_MEAN };

static void shared_covariance(double *cov, int shared)
{
    const size_t n = SHARED_DIM;
    memset(cov, 0, n * n * sizeof *cov);
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++)
            cov[i * n + j] = (i == j ? 1 : shared == SHARE_TOPS ? 0.95 : 0) * (double)((i + 1) * (j + 1));
    for (size_t j = 0; j < N_SHARING; j++)
        for (size_t k = 0; k < 3; k++)
            for (size_t l = 0; l < 3; l++)
                cov[(4 + k * N_SHARING + j) * n + 4 + l * N_SHARING + j] =
                    (1 + (double)(j % 3)) * (k == l ? 1 + (double)k : k + l == 1 ? 0.6 : -0.5);
    if (shared == SHARE_MEAN) shared_add_mean(cov, 1);
}

/* Beyond 256 coordinates, too, correlations outside the blocks are found, namely those that all groups share.
   Returns the largest error of the metric's covariance. along_mean: the metric's variance of the mean of the
   groups divided by the true one. Blocks learned from few draws tilt that direction, so this is not 1, but must be
   within a factor of 2; it is 0.01 if shared directions are not searched for. */
static double shared_error(double gradient_factor, int shared, double *along_mean)
{
    static const gpumc_param params[] = {
        { .name = "beta", .size = 2 }, { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "a", .size = N_SHARING, .location = "mu", .scale = "tau" },
        { .name = "b", .size = N_SHARING },
        { .name = "c", .size = N_SHARING, .location = "mu", .scale = "tau" },
    };
    static const gpumc_model model = { .name = "shared", .params = params, .n_params = 6,
                                       .log_density = flat_density };
    static double cov[SHARED_DIM * SHARED_DIM], L[SHARED_DIM * SHARED_DIM];
    static double unit[SHARED_DIM], found[SHARED_DIM];
    const gpumc_adapt_options o = { .num_warmup = 400 };
    const size_t layout_bytes = gpumc_layout_bytes(&model, NULL);
    gpumc_layout *layout = gpumc_layout_init(&model, malloc(layout_bytes), layout_bytes, NULL);
    const size_t bytes = gpumc_adapt_bytes(layout, 0, &o), n = SHARED_DIM;
    gpumc_adapt *a = gpumc_adapt_init(calloc(1, bytes), bytes, layout, 0, &o, NULL);
    double worst = 0, sum = 0, truth = 0;
    CHECK(a && a->options.metric == GPUMC_METRIC_BLOCKS, "no blocks at %.0f coordinates", (double)n);
    shared_covariance(cov, shared);
    memcpy(L, cov, sizeof L);
    CHECK(gpumc__cholesky(L, n), "no covariance");
    of_rank.ridge = of_rank.fine_ridge = 0;
    adapt_feed(a, L, 60, gradient_factor);
    gpumc__adapt_pooled_metric(a, 1);
    of_rank = shipped;
    CHECK(a->shared.n_blocks == N_SHARING && (a->shared.rank > 0) == (shared != SHARE_NOTHING),
          "%.0f blocks, rank %.0f", (double)a->shared.n_blocks, (double)a->shared.rank);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) unit[j] = i == j;
        gpumc__metric_velocity(&a->shared, unit, found);
        for (size_t j = 0; j < n; j++) worst = check_worst(worst, fabs(found[j] - cov[i * n + j]));
        for (size_t j = 4; j < 4 + N_SHARING && i >= 4 && i < 4 + N_SHARING; j++)
            sum += found[j], truth += cov[i * n + j];
    }
    *along_mean = sum / truth;
    free(a);
    free(layout);
    return worst;
}

static void test_shared(void)
{
    double along, error;
    of_rank.cutoff = 1.0001;
    of_rank.direction = 0;
    error = shared_error(1, SHARE_TOPS, &along);
    CHECK(error < 1e-2, "what groups share is found up to %g", error);
    error = shared_error(1.01, SHARE_TOPS, &along);
    CHECK(error > 1e-2, "with wrong gradients it is found as well");
    of_rank = shipped;
    error = shared_error(1, SHARE_NOTHING, &along);
    CHECK(error < 1e-8, "blocks with nothing beside them are found up to %g", error);
    shared_error(1, SHARE_MEAN, &along);
    CHECK(along > 0.5 && along < 2, "the variance of the mean of all groups is found %.3f times", along);
}

static void test_recovery(void)
{
    CHECK(blocks_error(1) < 1e-8, "the blocks of a Gaussian are found up to %g", blocks_error(1));
    CHECK(blocks_error(1.0001) > 1e-8, "with wrong gradients they are found as well");
    for (int by_gains = 0; by_gains < 2; by_gains++) {
        const double error = recovery_error(by_gains, 1);
        CHECK(error < 1e-8, "the covariance of a Gaussian is found up to %g", error);
        CHECK(recovery_error(by_gains, 1.0001) > 1e-8, "with wrong gradients it is found as well");
    }
    CHECK(directions_error(1, 1) < 1.1, "few directions are missed by a factor %g", directions_error(1, 1));
    CHECK(directions_error(0, 1) > 1.1, "the diagonal need not be freed of them");
    CHECK(directions_error(1, 2) > 1.1, "with wrong gradients they are found as well");
}

/* Eigenvectors and eigenvalues reproduce the matrix. A changed eigenvalue must be noticed. */
static void test_eigen(void)
{
    enum { MAX = 40 };
    static double a[MAX * MAX], copy[MAX * MAX], z[MAX * MAX], d[MAX], work[3 * MAX];
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    for (size_t n = 1; n <= MAX; n += n < 6 ? 1 : 17) {
        double worst = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                a[i * n + j] = a[j * n + i] = gpumc_rng_normal(&rng) * (i % 3 == 2 && i != j ? 0 : 1);
        memcpy(copy, a, sizeof a);
        CHECK(gpumc__eigen(a, n, d, z, work), "eigenvalues of a matrix of size %.0f", (double)n);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                double sum = 0;
                for (size_t k = 0; k < n; k++) sum += z[k * n + i] * d[k] * z[k * n + j];
                worst = check_worst(worst, fabs(sum - copy[i * n + j]));
            }
        CHECK(worst < 1e-13 * (double)n, "size %.0f: Z' D Z misses the matrix by %g", (double)n, worst);
        d[0] += 1e-6;
        worst = 0;
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++) sum += z[k * n + i] * d[k] * z[k * n + i];
            worst = check_worst(worst, fabs(sum - copy[i * n + i]));
        }
        CHECK(worst > 1e-13 * (double)n, "size %.0f: a wrong eigenvalue passes", (double)n);
    }
}

/* The eigenvectors of the largest eigenvalues, found one by one, of matrices with equal and nearly equal
   eigenvalues, diagonal or not. Returns the largest error in A v = lambda v and in orthonormality. turned: added to
   one component of the last eigenvector, which must be noticed. */
static double strongest_error(size_t n, int is_diagonal, double turned)
{
    enum { MAX = 40, MOST = 8 };
    static const double strong[MOST] = { 5, 5, 5, 3, 3 + 1e-9, 2, 1e-3, 1e-3 };
    static double a[MAX * MAX], basis[MAX * MAX], copy[MAX * MAX], v[MOST * MAX], d[MAX], e[MAX], tau[MAX],
        values[MAX], rows[3 * MAX];
    gpumc_rng rng = gpumc_rng_at(3, 1, 0, 0);
    const size_t most = n < MOST ? n : MOST;
    double worst = 0;
    for (size_t i = 0; i < n * n; i++) a[i] = gpumc_rng_normal(&rng);
    for (size_t i = 0; i < n; i++) for (size_t j = 0; j < i; j++) a[i * n + j] = a[j * n + i];
    if (!gpumc__eigen(a, n, d, basis, rows)) return 1;
    for (size_t i = 0; i < n * n; i++) {
        a[i] = 0;
        for (size_t k = 0; k < most; k++) a[i] += strong[k] * basis[k * n + i / n] * basis[k * n + i % n];
        if (is_diagonal) a[i] = i / n == i % n && i / n < most ? strong[i / n] : 0;
    }
    memcpy(copy, a, sizeof a);
    memset(tau, 0, sizeof tau);
    gpumc__tridiagonal(a, n, d, e, tau, rows);
    memcpy(values, d, sizeof values);
    memcpy(rows, e, sizeof e);
    if (!gpumc__tridiagonal_ql(values, rows, NULL, n)) return 1;
    for (size_t found = 0; found < most; found++) {
        size_t k = 0;
        for (size_t i = 1; i < n; i++) if (values[i] > values[k]) k = i;
        gpumc__tridiagonal_vector(d, e, n, values[k], v, found, rows);
        for (size_t j = 0; j <= found; j++)
            worst = check_worst(worst, fabs(gpumc__dot(v + j * n, v + found * n, n) - (j == found)));
        memcpy(basis, v + found * n, n * sizeof *basis);
        gpumc__reflect_back(a, n, tau, basis);
        if (found + 1 == most) basis[0] += turned;
        for (size_t i = 0; i < n; i++)
            worst = check_worst(worst, fabs(gpumc__dot(copy + i * n, basis, n) - values[k] * basis[i]));
        values[k] = -1;
    }
    return worst;
}

static void test_strongest(void)
{
    static const size_t sizes[] = { 1, 2, 3, 9, 40 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int is_diagonal = 0; is_diagonal < 2; is_diagonal++) {
            const double error = strongest_error(sizes[i], is_diagonal, 0);
            CHECK(error < 1e-13, "size %d: eigenvectors are off by %g", (int)sizes[i], error);
            CHECK(sizes[i] < 4 || strongest_error(sizes[i], is_diagonal, 1e-8) > 1e-13,
                  "size %d: one that is turned passes", (int)sizes[i]);
        }
}

/* ---- pausing ------------------------------------------------------------------------------------- */

/* A warm-up of two chains and 200 draws, interrupted after every `pause` gradients (0: never): all memory is copied
   away, overwritten and put back. Returns a sum that depends on every draw. lossy: a counter is changed as well,
   which must alter the draws. */
static double interrupted(gpumc_sampler sampler, size_t pause, int lossy)
{
    enum { DIM = 5, CHAINS = 2, BYTES = 1 << 19 };
    static union { double align; unsigned char byte[BYTES]; } block, backup;
    gpumc_adapt_options o;
    gpumc_adapt *a;
    gpumc_nuts *chains[CHAINS];
    size_t at, n_gradients = 0;
    double sum = 0;
    int complete[CHAINS] = { 0, 0 }, warmup = 1, n_draws = 0;
    memset(&o, 0, sizeof o);
    o.num_chains = CHAINS;
    o.num_warmup = 60;
    o.sampler = sampler;
    o.seed = 11;
    at = gpumc_adapt_bytes(NULL, DIM, &o);
    CHECK(at + CHAINS * gpumc_nuts_bytes(DIM, 8) <= BYTES, "the block holds %.0f bytes", (double)at);
    a = gpumc_adapt_init(block.byte, at, NULL, DIM, &o, NULL);
    for (uint32_t c = 0; c < CHAINS; c++) {
        const double start[DIM] = { 0.5, -0.5, 1, c, 0.2 };
        const size_t bytes = gpumc_nuts_bytes(DIM, 8);
        chains[c] = gpumc_nuts_init(block.byte + at, bytes, DIM, 8, gpumc_adapt_metric(a, c), 0, 11, c, start,
                                    NULL);
        at += bytes;
    }
    while (n_draws < 200) {
        for (int c = 0; c < CHAINS; c++)
            while (!complete[c]) {
                double g[DIM];
                const double lp = walk(gpumc_nuts_ask(chains[c]), g, DIM);
                complete[c] = gpumc_nuts_tell(chains[c], lp, g);
                if (pause == 0 || ++n_gradients % pause) continue;
                memcpy(&backup, &block, at);
                memset(&block, 0x5a, at);
                memcpy(&block, &backup, at);
                if (lossy) chains[0]->draw++;
            }
        for (int c = 0; c < CHAINS; c++) {
            complete[c] = 0;
            for (size_t i = 0; i < DIM && !warmup; i++)
                sum += (double)(i + 1) * gpumc_nuts_draw(chains[c])[i] / (1 + n_draws);
        }
        if (warmup) warmup = gpumc_adapt_update(a, chains);
        else n_draws++;
    }
    return sum;
}

/* A step size above 1e7 is that of a flat density, or of a metric that was learned where the density is steep: then
   such steps, in units of the metric, are short. */
static double level_ground(const double *x, double *g, size_t n)
{
    (void)x, (void)n;
    g[0] = g[1] = 0;
    return 0;
}
static double steep(const double *x, double *g, size_t n)
{
    double lp = 0;
    for (size_t i = 0; i < n; i++) lp -= 0.5 * x[i] * x[i], g[i] = -x[i];
    return lp;
}
static void test_flat(void)
{
    for (int is_flat = 0; is_flat < 2; is_flat++) {
        const double start[2] = { 1, -1 };
        double scale[2] = { 1e-9, 1e-9 }, unit[2] = { 1, 1 }, mean[2] = { 0, 0 };
        gpumc_metric metric = { .kind = GPUMC_METRIC_DIAG, .dim = 2, .scale = is_flat ? unit : scale, .mean = mean };
        const size_t bytes = gpumc_nuts_bytes(2, 10);
        gpumc_nuts *s = gpumc_nuts_init(malloc(bytes), bytes, 2, 10, &metric, 0, 1, 0, start, NULL);
        CHECK(s, "no machine");
        machine_draw(s, is_flat ? level_ground : steep, 2);
        machine_draw(s, is_flat ? level_ground : steep, 2);
        CHECK(s->flat == is_flat && s->step_size > (is_flat ? 1e7 : 1e8), "flat is %d at step size %g", s->flat,
              s->step_size);
        free(s);
    }
}

/* gpumc_adapt_update returns 0 after the end of warm-up, whichever the sampler, and changes no step size. */
static void test_after_warm_up(void)
{
    enum { DIM = 5, CHAINS = 2 };
    for (int sampler = GPUMC_SAMPLER_AUTO; sampler <= GPUMC_SAMPLER_HMC; sampler++) {
        const gpumc_adapt_options o = { .num_chains = CHAINS, .num_warmup = 60, .sampler = (gpumc_sampler)sampler };
        const size_t bytes = gpumc_adapt_bytes(NULL, DIM, &o), each = gpumc_nuts_bytes(DIM, 10);
        gpumc_adapt *a = gpumc_adapt_init(calloc(1, bytes), bytes, NULL, DIM, &o, NULL);
        const double start[DIM] = { 1 };
        gpumc_nuts *chains[CHAINS];
        double step = 0;
        int goes_on = 0, rounds = 0;
        for (uint32_t c = 0; c < CHAINS; c++)
            chains[c] = gpumc_nuts_init(calloc(1, each), each, DIM, 10, gpumc_adapt_metric(a, c), 0, 5, c, start,
                                        NULL);
        for (int i = 0; i < 300; i++) {
            for (size_t c = 0; c < CHAINS; c++) machine_draw(chains[c], steep, DIM);
            const int more = gpumc_adapt_update(a, chains);
            if (i == 70) step = chains[0]->step_size;
            goes_on += i > 70 && (more || chains[0]->step_size != step);
            rounds += more;
        }
        CHECK(rounds == 60 && goes_on == 0, "sampler %d: %d rounds of warm-up, %d after its end", sampler, rounds,
              goes_on);
        for (uint32_t c = 0; c < CHAINS; c++) free(chains[c]);
        free(a);
    }
}

/* Which chains are judged healthy. The draws of each are those of a normal of standard deviation sd and of mass
   e^mass: a spike of high density but little mass is not healthy. */
static void test_judge(void)
{
    enum { DIM = 30, CHAINS = 4, N = 20 };
    static const struct { double mean, sd, mass; int healthy; } chains[CHAINS] = {
        { 0, 1, 0, 1 }, { 3, 1e-12, -200, 0 } /* a spike */, { 5, 0.5, 0, 1 }, { 9, 1, -500, 0 },
    };
    gpumc_adapt *a = adapt_new(DIM, GPUMC_METRIC_DIAG, 100, CHAINS);
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0);
    for (a->n_kept = 0; a->n_kept < N * CHAINS; a->n_kept++) {
        const size_t k = a->n_kept, c = k % CHAINS;
        a->owner[k] = (uint32_t)c;
        a->lp[k] = chains[c].mass - DIM * log(chains[c].sd);
        for (size_t i = 0; i < DIM; i++) {
            const double z = gpumc_rng_normal(&rng);
            a->q[k * DIM + i] = chains[c].mean + chains[c].sd * z;
            a->g[k * DIM + i] = -z / chains[c].sd;
            a->lp[k] -= 0.5 * z * z;
        }
    }
    gpumc__adapt_judge(a, NULL);
    for (size_t c = 0; c < CHAINS; c++)
        CHECK(a->healthy[c] == chains[c].healthy, "chain %d is %s", (int)c,
              a->healthy[c] ? "taken for healthy" : "taken for one that lags");
    CHECK(a->levels[1] > a->levels[0] + 100, "the spike is not the highest place: nothing is tested here");
    free(a);
}

static void test_pause(void)
{
    for (int k = GPUMC_SAMPLER_NUTS; k <= GPUMC_SAMPLER_HMC; k++) {
        const gpumc_sampler sampler = (gpumc_sampler)k;
        const double straight = interrupted(sampler, 0, 0);
        CHECK(interrupted(sampler, 1, 0) == straight && interrupted(sampler, 7, 0) == straight,
              "sampler %d: a run that was paused gives other draws", k);
        CHECK(interrupted(sampler, 7, 1) != straight,
              "sampler %d: a run that lost something on the way gives the same draws", k);
    }
}

/* gpumc_nuts_divergence returns the point at which the divergent step began: for a trajectory of fixed length the
   point evaluated before the last; for a tree any earlier point of the trajectory, or the draw that it started
   from. */
static void test_divergence(void)
{
    static double scale[3] = { 1, 1, 1 }, mean[3];
    const gpumc_metric metric = { .kind = GPUMC_METRIC_UNIT, .dim = 3, .scale = scale, .mean = mean };
    const double start[3] = { 0.1, 0.2, 0.3 };
    for (int path = 0; path < 2; path++) {
        int n_seen = 0, n_first = 0;
        gpumc_nuts *s = gpumc_nuts_init(memory, sizeof memory, 3, 8, &metric, 0.6, 1, 0, start, NULL);
        if (path) gpumc_nuts_set_path(s, GPUMC_SAMPLER_HMC, 3, 0.4);
        for (int draw = 0; draw < 400; draw++) {
            double seen[256][3], g[3], lp;
            size_t n = 1, which = 0;
            memcpy(seen[0], draw ? gpumc_nuts_draw(s) : start, sizeof *seen);
            do {
                memcpy(seen[n++], gpumc_nuts_ask(s), sizeof *seen);
                memset(g, 0, sizeof g);
                lp = wall(seen[n - 1], g, 3);
            } while (!gpumc_nuts_tell(s, lp, g));
            if (!gpumc_nuts_stats(s)->divergent) continue;
            n_seen++;
            while (which < n && memcmp(seen[which], gpumc_nuts_divergence(s), sizeof *seen)) which++;
            CHECK(path ? which == n - 2 : which < n - 1, "draw %d, point %d of %d", draw, (int)which, (int)n);
            n_first += which == 0;
        }
        CHECK(n_seen > 20 && n_first < n_seen / 2, "%d divergences, %d from the draw", n_seen, n_first);
    }
}
int main(void)
{
    test_divergence();
    test_reference();
    test_tree_sizes();
    test_step_size_search();
    test_bad_start();
    test_restart();
    test_metric();
    test_integrator();
    test_copies();
    test_dual_averaging();
    test_fisher_diagonal();
    test_first_metric();
    test_centre();
    test_low_rank();
    test_price();
    test_gains();
    test_remeasure();
    test_singular_eigen();
    test_recovery();
    test_shared();
    test_eigen();
    test_strongest();
    test_judge();
    test_flat();
    test_after_warm_up();
    test_pause();
    return check_end();
}
