/* The likelihoods of the stop-signal models (examples/stop_signal_rows.h): known values, total probability of all
   outcomes, derivatives, simulated trials, and a whole study against an evaluation from the definitions. Deliberately
   wrong likelihoods show that the tests can fail. */
#include "../gpumc.h"
#include "check.h"
#include "../examples/stop_signal_sim.h"
#include "../examples/stop_signal_rows.h"
#include "../examples/stop_signal_model.h"
#include "known_stop_signal.h"

enum { MOST = 16, MANY_NODES = 192 /* makes the quadrature error negligible */ };

/* ---- one row ------------------------------------------------------------------------------------- */

/* Log likelihood and derivatives (to by) of one row, from a new row object, with n_nodes quadrature nodes if its kind
   takes nodes. width: over which rates are rounded. */
static double rounded_row(const gpumc_row_kind *kind, const double *p, const double *x, double width,
                          int n_nodes, gpumc_isa isa, double *by)
{
    static double nodes[2][MANY_NODES];
    static int made;
    const double *const node_columns[2] = { nodes[0], nodes[1] };
    const double *columns[4] = { x, x + 1, x + 2, &width }, *parameters[MOST];
    gpumc_rows_data d = { .kind = kind, .n_rows = 1, .n_groups = 1, .columns = columns, .isa = isa };
    double *grad[MOST], work[4096], value, memory[4096];
    gpumc_error error;
    gpumc_rows *rows;
    if (kind->n_node_columns) {
        if (made != n_nodes) ss_gauss_legendre(n_nodes, nodes[0], nodes[1]);
        made = n_nodes;
        d.nodes = node_columns;
        d.n_nodes = (size_t)n_nodes;
    }
    rows = gpumc_rows_init(&d, memory, sizeof memory, &error);
    if (!rows || gpumc_rows_work(rows) > 4096) {
        printf("%s\n", rows ? "work is too small" : error.text);
        exit(1);
    }
    for (size_t k = 0; k < kind->n_group; k++) {
        parameters[k] = p + k;
        grad[k] = by + k;
        by[k] = 0;
    }
    value = gpumc_rows_eval(rows, parameters, grad, work);
    return value;
}
static double one_row(const gpumc_row_kind *kind, const double *p, const double *x, int n_nodes,
                      gpumc_isa isa, double *by)
{ return rounded_row(kind, p, x, 0, n_nodes, isa, by); }
static double value_of(const gpumc_row_kind *kind, const double *p, const double *x)
{
    double by[MOST];
    return one_row(kind, p, x, MANY_NODES, GPUMC_ISA_AUTO, by);
}
static double apart(double a, double b) { return fabs(a - b) / (1 + fabs(b)); }

/* ---- known answers ------------------------------------------------------------------------------- */

static void test_known(void)
{
    for (size_t i = 0; i < sizeof known_trials / sizeof *known_trials; i++)
        for (int isa = GPUMC_ISA_BASELINE; isa <= (int)gpumc_isa_resolve(GPUMC_ISA_AUTO); isa++) {
            const known_trial *t = &known_trials[i];
            const int integral = t->kind->n_node_columns > 0;
            const double tolerance = integral ? 1e-8 : 1e-12;
            double by[MOST], size = 0;
            const double value = one_row(t->kind, t->p, t->x, strstr(t->kind->name, "beests") ? 64 : 48,
                                         (gpumc_isa)isa, by);
            for (size_t k = 0; k < t->kind->n_group; k++) size += fabs(t->p[k] * t->by[k]);
            CHECK(fabs(value - t->value) <= (integral ? 1e-9 : 1e-12 + 4e-15 * size),
                  "%s %d: %.17g, not %.17g", t->kind->name, (int)i, value, t->value);
            for (size_t k = 0; k < t->kind->n_group; k++)
                CHECK(apart(t->p[k] * by[k], t->p[k] * t->by[k]) <= tolerance,
                      "%s %d, p[%d]: %.17g, not %.17g", t->kind->name, (int)i, (int)k, by[k], t->by[k]);
        }
}

/* A row of the reference table, and the columns of its numbers. */
enum { COLUMN_RT = 3, COLUMN_SSD, COLUMN_L, COLUMN_B, COLUMN_LOGLIK = 21, COLUMN_COND = 37, N_NUMBERS = 38 };
typedef struct reference { char model[16], trial[16]; double number[N_NUMBERS]; } reference;

static int reference_read(FILE *file, reference *r)
{
    char line[2048], *at = line;
    if (!fgets(line, sizeof line, file)) return 0;
    for (int k = 0; k < N_NUMBERS; k++, at += strcspn(at, ",") + 1) {
        r->number[k] = k == 1 || k == 2 ? 0 : strtod(at, NULL);
        if (k == 1) snprintf(r->model, sizeof r->model, "%.*s", (int)strcspn(at, ","), at);
        if (k == 2) snprintf(r->trial, sizeof r->trial, "%.*s", (int)strcspn(at, ","), at);
    }
    return 1;
}

/* The leaf for a row of the table. takes: for each of its parameters the column of the table as a letter, a to o for
   B A t0 v+ v- v0 g mu sigma tau pgf ptf mu_go sigma_go tau_go. */
typedef struct reference_row { const gpumc_row_kind *kind; const char *takes; } reference_row;
static reference_row reference_kind(const reference *r)
{
    const int wrong = strstr(r->trial, "error") != NULL;
    const reference_row none = { &ss_counts, "k" }, range = { &ss_range_go, "abcde" },
                        wald = { &ss_wald, "acd" };
    const reference_row beests = { &ss_beests_stop, "mnohijkl" }, stop = { &ss_stop, "acdefghijkl" };
    const reference_row go = { &ss_go, wrong ? "aced" : "acde" };
    const reference_row failed = { &ss_failed, wrong ? "acedfghijl" : "acdefghijl" };
    if (strcmp(r->model, "rdex_abcd_A") == 0) return range;
    if (strcmp(r->model, "wald_simple") == 0) return wald;
    if (strcmp(r->model, "beests") == 0) return beests;
    if (strcmp(r->trial, "go_omission") == 0) return none;
    return r->trial[0] == 'g' ? go : strcmp(r->trial, "stop_success") == 0 ? stop : failed;
}

/* Evaluates a row and adds its derivatives to by, those by probits converted to derivatives by the probabilities. */
static double reference_add(const reference *r, reference_row row, const double *x, double *by)
{
    double p[MOST], own[MOST], value;
    for (size_t k = 0; row.takes[k]; k++) {
        const int c = row.takes[k] - 'a';
        p[k] = r->number[COLUMN_B + c];
        if (c == 'k' - 'a' || c == 'l' - 'a') p[k] = gpumc_inv_Phi(p[k]);
    }
    value = one_row(row.kind, p, x, 48, GPUMC_ISA_AUTO, own);
    for (size_t k = 0; row.takes[k]; k++) {
        const int c = row.takes[k] - 'a';
        by[c] += c == 'k' - 'a' || c == 'l' - 'a' ? own[k] / exp(gpumc_std_normal_lpdf(p[k], NULL)) : own[k];
    }
    return value;
}

static void test_reference(void)
{
    FILE *file = fopen("../../shared/reference/stop_signal_dev.csv", "r");
    char head[2048];
    reference r;
    int n = 0;
    if (!file || !fgets(head, sizeof head, file)) {
        check_skip("the 12 reference answers: ../shared/reference/stop_signal_dev.csv is not here");
        if (file) fclose(file);
        return;
    }
    for (; reference_read(file, &r); n++) {
        const double *q = r.number, L = q[COLUMN_L] < -1e3 ? SS_UNTRUNCATED : q[COLUMN_L];
        const int stop = strcmp(r.trial, "stop_success") == 0, omission = strcmp(r.trial, "go_omission") == 0;
        const double x[3] = { stop ? q[COLUMN_SSD] : omission ? 1 : q[COLUMN_RT],
                              stop ? L : omission ? 0 : q[COLUMN_SSD], stop ? SS_NO_DEADLINE : L };
        const double responded[2] = { 0, 1 };
        const reference_row counts = { &ss_counts, "k" };
        double by[15] = { 0 }, value = reference_add(&r, reference_kind(&r), x, by);
        if (!stop && !omission && strcmp(r.model, "wald_simple") != 0)
            value += reference_add(&r, counts, responded, by);
        CHECK(fabs(value - q[COLUMN_LOGLIK]) <= (stop ? 1e-9 : 1e-12 + 16 * 2.2e-16 * q[COLUMN_COND]),
              "reference %d: %.17g, not %.17g", n + 1, value, q[COLUMN_LOGLIK]);
        for (int k = 0; k < 15; k++) {
            const double X = q[COLUMN_B + k], unit = k == 10 || k == 11 ? X * (1 - X) : X;
            const double wanted = unit * q[COLUMN_LOGLIK + 1 + k];
            if (isnan(wanted)) continue;
            CHECK(apart(unit * by[k], wanted) <= (stop ? 1e-8 : 1e-12), "reference %d, %d: %.17g, not %.17g",
                  n + 1, k, unit * by[k], wanted);
        }
    }
    CHECK(n == 12, "%d reference answers", n);
    fclose(file);
}

/* ---- all outcomes -------------------------------------------------------------------------------- */

/* The rows of a model for go trials, failed and successful stops; p: its parameters, in the order of the stop row. */
typedef struct outcomes {
    const char *name;
    const gpumc_row_kind *go, *failed, *stop;
    int t0;                               /* index in p, or -1 */
    int first, second;                    /* indices of the `width` values that an error response exchanges */
    int width;
    double p[MOST];
} outcomes;

/* Whether a model has go and trigger failures, whose probits are the last two of its parameters. */
static int outcomes_fail(const outcomes *m) { return m->stop->n_group == m->failed->n_group + 1; }

/* Parameters of the go or failed row for one response: the go processes (exchanged if wrong), then mu sigma tau, and
   y_tf if the model has failures. */
static void outcome_parameters(const outcomes *m, int wrong, double *p)
{
    const int n = (int)m->stop->n_group;
    memcpy(p, m->p, sizeof m->p);
    for (int k = 0; wrong && k < m->width; k++) {
        p[m->first + k] = m->p[m->second + k];
        p[m->second + k] = m->p[m->first + k];
    }
    if (outcomes_fail(m)) p[n - 2] = m->p[n - 1];
}

/* The probability of a response in [a, b], by Gauss-Legendre quadrature with 20 points in each of 20 panels. */
static double outcome_mass(const outcomes *m, const gpumc_row_kind *kind, int wrong, double a, double b,
                           double delay, double truncation)
{
    double p[MOST], x[3] = { 0, delay, truncation }, node[20], weight[20], sum = 0;
    if (!(a < b)) return 0;
    outcome_parameters(m, wrong, p);
    ss_gauss_legendre(20, node, weight);
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 20; j++) {
            x[0] = a + (b - a) * (i + 0.5 * (node[j] + 1)) / 20;
            sum += weight[j] * (b - a) / 40 * exp(value_of(kind, p, x));
        }
    return sum;
}

/* The total probability of all outcomes minus one; delay < 0: a go trial. */
static double outcomes_short(const outcomes *m, double delay, double truncation, double deadline)
{
    const int n = (int)m->stop->n_group, n_choices = m->width ? 2 : 1, timed = deadline < SS_NO_DEADLINE;
    const double pgf = outcomes_fail(m) ? gpumc_Phi(m->p[n - 2]) : 0, end = timed ? deadline : 16;
    const double first = m->t0 < 0 ? -0.4 : m->p[m->t0], edge = fmin(fmax(first, delay + truncation), end);
    const double x[3] = { delay < 0 ? SS_NO_SIGNAL : delay, truncation, deadline };
    const double none = delay < 0 && !timed ? pgf : exp(value_of(m->stop, m->p, x));
    const gpumc_row_kind *kind = delay < 0 ? m->go : m->failed;
    double mass = 0;
    for (int wrong = 0; wrong < n_choices; wrong++)
        mass += outcome_mass(m, kind, wrong, first, edge, delay, truncation)
              + outcome_mass(m, kind, wrong, edge, fmin(edge + 0.75, end), delay, truncation)
              + outcome_mass(m, kind, wrong, edge + 0.75, end, delay, truncation);
    return mass * (1 - pgf) + none - 1;
}

#define STOPPING 0.16, 0.05, 0.07, -1.9, -1.3
static const outcomes all_outcomes[] = {
    { "rdex_abcd", &ss_go, &ss_failed, &ss_stop, 1, 2, 3, 1,
      { 1.25, 0.16, 3.3, 0.5, 2.1, 5, STOPPING } },
    { "rdex", &ss_go, &ss_rdex_failed, &ss_rdex_stop, 1, 2, 3, 1, { 1.25, 0.16, 3.3, 0.5, STOPPING } },
    { "rdex_a", &ss_range_go, &ss_range_failed, &ss_range_stop, 2, 3, 4, 1,
      { 0.9, 0.5, 0.16, 3.3, 0.5, STOPPING } },
    { "rdex_a, small", &ss_range_go, &ss_range_failed, &ss_range_stop, 2, 3, 4, 1,
      { 1.2, 0.05, 0.16, 3.3, 0.5, STOPPING } },
    { "beests", &ss_beests_go, &ss_beests_failed, &ss_beests_stop, -1, 0, 0, 0,
      { 0.42, 0.06, 0.12, STOPPING } },
    { "beests2", &ss_beests2_go, &ss_beests2_failed, &ss_beests2_stop, -1, 0, 3, 3,
      { 0.42, 0.06, 0.12, 0.6, 0.1, 0.15, STOPPING } },
    { "beests_nofail", &ss_beests_go, &ss_beests_nofail_failed, &ss_beests_nofail_stop, -1, 0, 0, 0,
      { 0.42, 0.06, 0.12, 0.16, 0.05, 0.07 } },
    { "beests2_nofail", &ss_beests2_go, &ss_beests2_nofail_failed, &ss_beests2_nofail_stop, -1, 0, 3, 3,
      { 0.42, 0.06, 0.12, 0.6, 0.1, 0.15, 0.16, 0.05, 0.07 } },
};

/* Wrong likelihoods. The loser's survivor left out: */
GPUMC_ROW(wrong_go, 4, 0, 1)
{
    gpumc_real by[3] = { 0, 0, 0 };
    const gpumc_real winner[3] = { p[0], p[1], p[2] };
    return ss_wald_row(winner, x, by);
}
/* P(stop) replaced by the probability of stopping before the mean go time: */
GPUMC_ROW(wrong_stop, 11, 0, 4)
{
    const gpumc_real mean = p[1] + p[0] / ss_rate(p[2], p[4], p[5] * x[0], 0);
    const ss_time at = ss_time_at(mean - x[0], p[6], p[7], p[8]), first = ss_time_at(x[1], p[6], p[7], p[8]);
    const gpumc_real P = 1 - gpumc_exp(ss_log_tail(at) - ss_log_tail(first));
    return gpumc_log(gpumc_Phi(p[9]) + gpumc_Phi(-p[9]) * gpumc_Phi(-p[10]) * P);
}
/* sigma and tau exchanged: */
GPUMC_ROW(wrong_failed, 10, 0, 4)
{
    const gpumc_real q[10] = { p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[8], p[7], p[9] };
    return ss_failed_row(q, x, g);
}

static void test_outcomes(void)
{
    static const double delays[] = { -1, 0, 0.1, 0.25, 0.6 }, none = SS_NO_DEADLINE;
    const double deadlines[] = { none, 0.62, 0.3 };
    outcomes wrong = all_outcomes[0];
    for (size_t i = 0; i < sizeof all_outcomes / sizeof *all_outcomes; i++)
        for (size_t j = 0; j < sizeof delays / sizeof *delays; j++)
            for (size_t k = 0; k < sizeof deadlines / sizeof *deadlines; k++) {
                const double left = outcomes_short(&all_outcomes[i], delays[j], 0.05, deadlines[k]);
                CHECK(fabs(left) < 2e-10, "%s at delay %g, deadline %g: 1 + %g", all_outcomes[i].name,
                      delays[j], deadlines[k], left);
            }
    wrong.go = &wrong_go;
    CHECK(fabs(outcomes_short(&wrong, -1, 0.05, none)) > 1e-3, "the loser's survivor is not missed");
    wrong = all_outcomes[0];
    wrong.stop = &wrong_stop;
    CHECK(fabs(outcomes_short(&wrong, 0.25, 0.05, none)) > 1e-3, "a plug-in for the integral is missed");
    wrong = all_outcomes[0];
    wrong.failed = &wrong_failed;
    CHECK(fabs(outcomes_short(&wrong, 0.25, 0.05, none)) > 1e-3, "sigma and tau exchanged are not noticed");
}

/* ---- derivatives --------------------------------------------------------------------------------- */

/* Extreme bounds of the parameters, in the order of ss_parameter. (Quadrature nodes follow the stop process and are
   too few for an ex-Gaussian go process that is much narrower. In one corner of this box, with two go processes of
   mu 0.9, sigma 0.06 and tau 0.02 and a stop process of sigma 0.004 and tau 0.4, the derivative by tau is off by
   1.4e-3 with 64 nodes, by 2e-4 with 128.) */
static const double box[SS_N_PARAMETERS][2] = {
    { 0.4, 3 }, { 0.03, 0.45 }, { 1, 7 }, { 0.1, 4 }, { 0.5, 6 }, { 0.5, 30 }, { 0.02, 0.6 }, { 0.004, 0.25 },
    { 0.004, 0.4 }, { -3, 0 }, { -3, 0 }, { 0.01, 2 }, { 0.2, 0.9 }, { 0.06, 0.25 }, { 0.02, 0.4 },
    { 0.2, 0.9 }, { 0.06, 0.25 }, { 0.02, 0.4 },
};

/* The derivative by p[k] from central differences of order four, with a step relative to p[k]. */
static double difference(const gpumc_row_kind *kind, const double *p, const double *x, size_t k, double step)
{
    double q[MOST], at[4];
    const double h = step * fmax(fabs(p[k]), 0.01);
    for (int i = 0; i < 4; i++) {
        memcpy(q, p, kind->n_group * sizeof *p);
        q[k] += h * (i < 2 ? i - 2 : i - 1);
        at[i] = value_of(kind, q, x);
    }
    return ((at[0] - at[3]) + 8 * (at[2] - at[1])) / (12 * h);
}

/* Compares derivatives with differences at several steps. Returns the largest error over parameters, each with its
   best step, and sets at to the parameter. */
static double worst_difference(const gpumc_row_kind *kind, const double *p, const double *x, size_t *at)
{
    double by[MOST], worst = 0;
    one_row(kind, p, x, MANY_NODES, GPUMC_ISA_AUTO, by);
    for (size_t k = 0; k < kind->n_group; k++) {
        double best = INFINITY;
        for (double step = 3e-3; step > 1e-5 && !(best < 1e-8); step /= 5)
            best = fmin(best, apart(p[k] * difference(kind, p, x, k, step), p[k] * by[k]));
        if (!(best <= worst)) { worst = best; *at = k; }
    }
    return worst;
}

/* A random point of the box (corner: one of its corners) and a trial whose likelihood is not zero there. */
static void draw_point(gpumc_rng *rng, gpumc_rng *times, const int *takes, size_t n, int corner,
                       const gpumc_row_kind *kind, double *p, double *x)
{
    double t0 = 0;
    for (size_t k = 0; k < n; k++) {
        const double u = corner ? (double)gpumc_rng_below(rng, 2) : gpumc_rng_uniform(rng);
        const double *range = box[takes[k]];
        p[k] = range[0] > 0 ? range[0] * pow(range[1] / range[0], u) : range[0] + u * (range[1] - range[0]);
        if (takes[k] == SS_T0) t0 = p[k];
    }
    if (kind->n_node_columns > 0) {
        x[0] = 0.05 * (double)gpumc_rng_below(rng, 19);
        x[1] = gpumc_rng_below(rng, 2) ? 0.05 : SS_UNTRUNCATED;
        x[2] = gpumc_rng_below(times, 2) ? 0.3 + gpumc_rng_uniform(times) : SS_NO_DEADLINE;
        if (x[2] < SS_NO_DEADLINE && gpumc_rng_below(times, 4) == 0) x[0] = SS_NO_SIGNAL;
        return;
    }
    x[0] = t0 + 0.04 + 0.9 * gpumc_rng_uniform(rng);
    x[1] = 0.05 * (double)gpumc_rng_below(rng, 19);
    x[2] = 0.05;
}

/* Whether x is near a kink of the density, where a growing rate arrives at its final value. */
static int near_kink(ss_kind kind, const gpumc_row_kind *row, const double *p, const double *x)
{
    const int stop = row->n_node_columns > 0;
    const double delay = stop ? x[0] : x[1], reach = p[5] * delay, last = stop ? x[2] - x[0] : x[0] - delay;
    if (row->n_columns >= 3 && fabs(last - x[stop ? 1 : 2]) < 0.02) return 1; /* the truncation is a kink */
    if (kind != SS_RDEX_ABCD || row->n_group < 10) return 0;
    return fabs(fabs(p[2] - p[4]) - reach) < 0.05 * (1 + reach)
           || fabs(fabs(p[3] - p[4]) - reach) < 0.05 * (1 + reach);
}

static void test_derivatives(void)
{
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0), times = gpumc_rng_at(6, 0, 0, 0);
    for (int kind = 0; kind < SS_N_KINDS; kind++) {
        const ss_likelihood *l = ss_likelihood_get((ss_kind)kind);
        const gpumc_row_kind *const rows[3] = { l->go, l->failed, l->stop };
        for (int which = 0; which < 3 && rows[which]; which++) {
            double worst = 0;
            for (int i = 0; i < 200; i++) {
                double p[MOST], x[3], found;
                size_t k = 0;
                do draw_point(&rng, &times, l->takes[which], rows[which]->n_group, i % 4 == 0, rows[which],
                              p, x);
                while (near_kink((ss_kind)kind, rows[which], p, x));
                found = worst_difference(rows[which], p, x, &k);
                CHECK(found < 1e-6, "%s, point %d: p[%d] = %g is %g off", rows[which]->name, i, (int)k, p[k],
                      found);
                worst = check_worst(worst, found);
            }
            printf("%-20s derivatives differ from differences by %.1e at most\n", rows[which]->name, worst);
        }
    }
}

/* Where a growing rate arrives the log likelihood is continuous, and each side has its own derivatives. */
static void test_kinks(void)
{
    const double p[10] = { 1.25, 0.16, 3.1, 0.6, 2.1, 4, 0.16, 0.05, 0.07, -1.3 };
    for (int k = 0; k < 2; k++) {
        const double arrival = fabs(p[2 + k] - p[4]) / p[5];
        double by[2][MOST], value[2], x[3] = { 0.5, 0, 0.05 };
        for (int side = 0; side < 2; side++) {
            x[1] = arrival + (side ? 1e-9 : -1e-9);
            value[side] = one_row(&ss_failed, p, x, 48, GPUMC_ISA_AUTO, by[side]);
        }
        CHECK(fabs(value[0] - value[1]) < 1e-7, "a jump of %g", value[0] - value[1]);
        CHECK(by[0][2 + k] == 0 && by[1][2 + k] != 0, "derivative by the rate: %g, then %g", by[0][2 + k],
              by[1][2 + k]);
        CHECK(fabs((by[0][4] - by[1][4]) - by[1][2 + k]) < 1e-6, "what v0 loses is not what the rate gains");
    }
}

/* With rounded rates there is no kink: derivatives agree with differences everywhere, and beyond the width of the
   rounding the value is exactly the unrounded one. */
static void test_rounding(void)
{
    const double arrival = 0.25, width = 0.12, h = 1e-5;
    double p[11] = { 1.25, 0.16, 3.1, -1.5, 2.1, 4, 0.16, 0.05, 0.07, -1.9, -1.3 };
    for (int stop = 0; stop < 2; stop++)
        for (int side = -1; side < 2; side += 2)
            for (int i = -12; i < 12; i++) {
                const gpumc_row_kind *kind = stop ? &ss_stop : &ss_failed;
                const double x[3] = { stop ? arrival : 0.5, stop ? 0.05 : arrival,
                                      stop ? SS_NO_DEADLINE : 0.05 };
                double exact[MOST], by[MOST], unused[MOST], value, rounded;
                p[2] = p[4] + side * p[5] * arrival + width * (i + 0.5) / 6;
                value = one_row(kind, p, x, 48, GPUMC_ISA_AUTO, exact);
                rounded = rounded_row(kind, p, x, width, 48, GPUMC_ISA_AUTO, by);
                CHECK((i < -6 || i >= 6) == (rounded == value), "step %d: %g, exactly %g", i, rounded, value);
                for (int k = 2; k < 6; k++) {
                    const double at = p[k];
                    double differ = 0;
                    for (int to = -1; to < 2; to += 2) {
                        p[k] = at + to * h;
                        differ += to * rounded_row(kind, p, x, width, 48, GPUMC_ISA_AUTO, unused) / (2 * h);
                    }
                    p[k] = at;
                    CHECK(check_distance(by[k], differ, 1) < 1e-6, "step %d: by p[%d] %g, differences give %g",
                          i, k, by[k], differ);
                }
            }
}

/* ---- simulated trials ---------------------------------------------------------------------------- */

/* The shares of trials without a response and with a correct one at one delay, against their probabilities. */
static void test_simulated(void)
{
    static const int delays[] = { 0, 150, 400, 150, SS_NONE };
    static const double deadlines[] = { 0, 0, 0, 0.5, 0.5 };
    enum { N = 40000 };
    const outcomes *m = &all_outcomes[0];
    double theta[SS_N_PARAMETERS];
    gpumc_rng rng = gpumc_rng_at(11, 0, 0, 0);
    for (int k = 0; k < 11; k++) theta[k] = k < 9 ? m->p[k] : gpumc_Phi(m->p[k]);
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        const int go = delays[i] == SS_NONE, timed = deadlines[i] > 0;
        const double delay = go ? SS_NO_SIGNAL : 1e-3 * delays[i], end = timed ? deadlines[i] : 16;
        const double x[3] = { delay, 0.05, timed ? deadlines[i] : SS_NO_DEADLINE };
        const double none = exp(value_of(m->stop, m->p, x));
        const double right =
            outcome_mass(m, go ? m->go : m->failed, 0, 0.16, end, delay, 0.05) * gpumc_Phi(-m->p[9]);
        int n_none = 0, n_right = 0;
        for (int j = 0; j < N; j++) {
            ss_trial trial = { 0, 0, SS_NONE, NAN, delays[i], 0 };
            ss_simulate_trial(SS_RDEX_ABCD, theta, 0.05, deadlines[i], &rng, &trial);
            n_none += trial.response == SS_NONE;
            n_right += trial.response == 0;
        }
        CHECK(fabs(n_none - N * none) < 4 * sqrt(N * none * (1 - none)), "delay %d: %d stops, not %g",
              delays[i], n_none, N * none);
        CHECK(fabs(n_right - N * right) < 4 * sqrt(N * right * (1 - right)),
              "delay %d: %d correct responses, "
              "not %g",
              delays[i], n_right, N * right);
    }
}

/* ---- a whole study ------------------------------------------------------------------------------- */

static double slow_log_density(double t, double b, double v)
{
    return t > 0 ? log(b) - 0.5 * log(2 * GPUMC_PI * t * t * t) - (b - v * t) * (b - v * t) / (2 * t)
                 : -INFINITY;
}
static double slow_survivor(double t, double b, double v)
{
    if (t <= 0) return 1;
    return 0.5 * (erfc((v * t - b) / sqrt(2 * t)) - exp(2 * b * v) * erfc((b + v * t) / sqrt(2 * t)));
}
static double slow_q(double x, const double *s)
{
    return exp((s[0] - x) / s[2] + s[1] * s[1] / (2 * s[2] * s[2])) / (2 * s[2])
         * erfc((s[1] / s[2] - (x - s[0]) / s[1]) / sqrt(2));
}
static double slow_Q(double x, const double *s)
{
    return 0.5 * erfc((x - s[0]) / s[1] / sqrt(2)) + s[2] * slow_q(x, s);
}
static double slow_Phi(double y) { return 0.5 * erfc(-y / sqrt(2)); }
static double slow_rate(double v, double v0, double reach) { return v0 + fmin(fmax(v - v0, -reach), reach); }

static double slow_both(const double *p, double v, double w, double time)
{
    return slow_survivor(time - p[1], p[0], v) * slow_survivor(time - p[1], p[0], w);
}
/* The probability of no response without failures: that of a stop before the deadline, by Simpson's rule on 20,000
   intervals, plus that of stop and go processes all being later than the deadline. */
static double slow_stop(const double *p, double v, double w, double delay, double deadline)
{
    const int n = 20000, timed = deadline > 0;
    const double all = p[6] + 10 * p[7] + 30 * p[8] + 0.05;
    const double top = timed ? fmin(all, deadline - delay) : all, h = (top - 0.05) / n;
    const double late = timed ? slow_both(p, v, w, deadline) : 0;
    double sum = 0;
    if (top <= 0.05) return late;
    for (int i = 0; i <= n; i++) {
        const double s = 0.05 + h * i;
        sum += (i == 0 || i == n ? 1 : i % 2 ? 4 : 2) * slow_q(s, p + 6) * slow_both(p, v, w, s + delay);
    }
    return (sum * h / 3 + late * slow_Q(top, p + 6)) / slow_Q(0.05, p + 6);
}

/* The log likelihood of a trial, p as in ss_stop. stops: cache of slow_stop for delays in steps of 50 ms, negative
   where not yet computed. deadline: 0 for none. */
static double slow_trial(const double *p, const ss_trial *trial, double deadline, double *stops)
{
    const int right = trial->response == trial->stimulus;
    const double delay = 1e-3 * trial->ssd_ms, t = trial->rt - p[1];
    double v = p[2], w = p[3], Q = 1, late;
    const double pgf = slow_Phi(p[9]), ptf = slow_Phi(p[10]);
    if (trial->ssd_ms != SS_NONE) {
        v = slow_rate(p[2], p[4], p[5] * delay);
        w = slow_rate(p[3], p[4], p[5] * delay);
        if (trial->response == SS_NONE) {
            double *known = &stops[trial->ssd_ms / 50];
            if (*known < 0) *known = slow_stop(p, v, w, delay, deadline);
            late = deadline > 0 ? slow_both(p, v, w, deadline) : 0;
            return log(pgf + (1 - pgf) * (ptf * late + (1 - ptf) * *known));
        }
        if (trial->rt - delay > 0.05) Q = slow_Q(trial->rt - delay, p + 6) / slow_Q(0.05, p + 6);
    }
    late = deadline > 0 ? slow_both(p, v, w, deadline) : 0;
    if (trial->response == SS_NONE) return log(pgf + (1 - pgf) * late);
    if (trial->ssd_ms != SS_NONE) Q = ptf + (1 - ptf) * Q;
    return log(1 - pgf) + log(Q) + slow_log_density(t, p[0], right ? v : w)
           + log(slow_survivor(t, p[0], right ? w : v));
}

enum { SLOW_SIGMA = 7 };                   /* index of sigma; tau is next */
static double slow_normal(double x, double mean, double sd)
{ return -0.5 * (x - mean) * (x - mean) / (sd * sd) - log(sd) - 0.5 * log(2 * GPUMC_PI); }

/* The log posterior of form U at x: location and scale of each parameter, then the subjects' coordinates. */
static double slow_posterior(const ss_data *d, double deadline, const double *x)
{
    const size_t n = d->n_subjects;
    double lp = 0, p[MOST], stops[32];
    for (int k = 0; k < 11; k++) {
        const ss_parameter_info *info = ss_parameter_get(k);
        const double m = x[2 * k], s = x[2 * k + 1];
        lp +=
            slow_normal(m, info->probit ? gpumc_inv_Phi(info->typical) : log(info->typical), info->prior_sd);
        lp += slow_normal(s, 0, 0.5) + log(2);
        for (size_t i = 0; i < n; i++) lp += slow_normal(x[22 + (size_t)k * n + i], m, s);
    }
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < 11; k++)
            p[k] = k < 9 ? exp(x[22 + (size_t)k * n + i]) : x[22 + (size_t)k * n + i];
        for (int k = 0; k < 32; k++) stops[k] = -1;
        for (size_t j = 0; j < d->n_trials; j++)
            if ((size_t)d->trials[j].subject == i) lp += slow_trial(p, &d->trials[j], deadline, stops);
    }
    return lp;
}

/* Replaces the log sigmas and log taus in x by the rotated coordinates that are sampled (see the head of
   stop_signal_model.h); returns the log Jacobian of the inverse. */
static double turn_pairs(double *x, size_t n)
{
    const double *m = x + 2 * SLOW_SIGMA;             /* location and scale of both */
    const double angle = atan(exp(2 * (m[2] - m[0])) * m[3] / m[1]), c = cos(angle), s = sin(angle);
    double *sigma = x + 22 + SLOW_SIGMA * n, *tau = sigma + n;
    for (size_t i = 0; i < n; i++) {
        const double u = (sigma[i] - m[0]) / m[1], v = (tau[i] - m[2]) / m[3];
        sigma[i] = c * u + s * v;
        tau[i] = c * v - s * u;
    }
    return (double)n * (log(m[1]) + log(m[3]));
}

static void test_study(double deadline)
{
    enum { N = 4 };
    ss_task task = ss_task_default();
    double theta[N * SS_N_PARAMETERS], x[22 + 11 * N], grad[22 + 11 * N];
    const ss_group group = ss_group_default();
    const ss_model_options options = { .kind = SS_RDEX_ABCD, .deadline = deadline };
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    gpumc_error error;
    ss_data d;
    ss_model *m;
    task.deadline = deadline;
    if (!ss_simulate(SS_RDEX_ABCD, &group, &task, 0.05, N, 21, &d, theta, &error)) {
        printf("%s\n", error.text);
        exit(1);
    }
    m = ss_model_create(&d, &options, &error);
    if (!m) { printf("%s\n", error.text); exit(1); }
    for (int round = 0; round < (deadline > 0 ? 1 : 3); round++) {
        const gpumc_model *model = ss_model_get(m);
        double lp, slow;
        for (int k = 0; k < 11; k++) {
            const ss_parameter_info *info = ss_parameter_get(k);
            x[2 * k] = (info->probit ? gpumc_inv_Phi(info->typical) : log(info->typical))
                       + 0.1 * gpumc_rng_normal(&rng);
            x[2 * k + 1] = info->spread * exp(0.2 * gpumc_rng_normal(&rng));
            for (int i = 0; i < N; i++) {
                const double value = theta[i * SS_N_PARAMETERS + k];
                x[22 + k * N + i] =
                    (info->probit ? gpumc_inv_Phi(value) : log(value)) - 0.05 * gpumc_rng_uniform(&rng);
            }
        }
        slow = slow_posterior(&d, deadline, x);
        slow += turn_pairs(x, N);             /* x now holds the model's values */
        memset(grad, 0, sizeof grad);
        lp = model->log_density(x, grad, model->data);
        CHECK(fabs(lp - slow) < 1e-7, "deadline %g, round %d: %.10f, from the definitions %.10f", deadline,
              round, lp, slow);
    }
    ss_model_free(m);
    ss_data_free(&d);
}

/* The log likelihood of a trial with one ex-Gaussian go process, p as in ss_beests_stop; the integral of a stop by
   Simpson's rule. */
static double slow_beests_trial(const double *p, const ss_trial *trial)
{
    enum { INTERVALS = 20000 };
    const double pgf = slow_Phi(p[6]), ptf = slow_Phi(p[7]), delay = 1e-3 * trial->ssd_ms;
    const double low = p[3] - 9 * p[4], h = (18 * p[4] + 30 * p[5]) / INTERVALS;
    double sum = 0;
    if (trial->ssd_ms == SS_NONE)
        return log(trial->response == SS_NONE ? pgf : (1 - pgf) * slow_q(trial->rt, p));
    if (trial->response != SS_NONE)
        return log((1 - pgf) * slow_q(trial->rt, p) * (ptf + (1 - ptf) * slow_Q(trial->rt - delay, p + 3)));
    for (int i = 0; i <= INTERVALS; i++) {
        const double s = low + h * i, weight = i == 0 || i == INTERVALS ? 1 : i % 2 ? 4 : 2;
        sum += weight * slow_q(s, p + 3) * slow_Q(s + delay, p);
    }
    return log(pgf + (1 - pgf) * (1 - ptf) * sum * h / 3);
}

/* Priors of the forms with truncated populations, for the parameters of beests. Form T: m is normal (m_mean, m_sd),
   truncated to the bounds, s exponential. BEESTS: m and s are uniform within their bounds. */
typedef struct cut_prior { double lower, upper, m_mean, m_sd, s_lower, s_upper; } cut_prior;
static const cut_prior cut_priors[2][6] = {
    { { 0, 1, 0.5, 0.5, 0, 0 }, { 0, 1, 0.1, 0.5, 0, 0 }, { 0, 1, 0.1, 0.5, 0, 0 },
      { 0, 1, 0.3, 0.5, 0, 0 }, { 0, 1, 0.1, 0.5, 0, 0 }, { 0, 1, 0.1, 0.5, 0, 0 } },
    { { 1e-6, 1, 0, 0, 1e-5, 0.3 }, { 1e-3, 0.5, 0, 0, 1e-5, 0.2 }, { 1e-3, 0.5, 0, 0, 1e-5, 0.2 },
      { 1e-6, 0.6, 0, 0, 1e-5, 0.3 }, { 1e-3, 0.35, 0, 0, 1e-5, 0.2 }, { 1e-3, 0.35, 0, 0, 1e-5, 0.2 } },
};
static double slow_cut_mass(const cut_prior *c, double m, double s)
{ return slow_Phi((c->upper - m) / s) - slow_Phi((c->lower - m) / s); }

static double slow_cut_prior(int form, int k, double m, double s)
{
    if (k >= 6) return slow_normal(m, -2, 2) - s;
    const cut_prior *c = &cut_priors[form == SS_FORM_BEESTS][k];
    if (form == SS_FORM_BEESTS) return -log(c->upper - c->lower) - log(c->s_upper - c->s_lower);
    return slow_normal(m, c->m_mean, c->m_sd) - log(slow_cut_mass(c, c->m_mean, c->m_sd)) - s;
}
/* The sampled coordinate of a subject's value: z with Phi(z) equal to the value's cdf in the truncated population.
   Probits are sampled as they are. */
static double slow_cut_z(int form, int k, double m, double s, double value)
{
    const cut_prior *c = &cut_priors[form == SS_FORM_BEESTS][k];
    return gpumc_inv_Phi((slow_Phi((value - m) / s) - slow_Phi((c->lower - m) / s)) / slow_cut_mass(c, m, s));
}

/* The log density of the models with truncated populations (form T or BEESTS), against the definitions. */
static void test_cut_off(int form)
{
    enum { N = 3, K = 8 };
    const ss_kind_info *kind = ss_kind_get(SS_BEESTS);
    const ss_model_options options = { .kind = SS_BEESTS, .form = (ss_form)form };
    double theta[N * SS_N_PARAMETERS], p[N][K], x[2 * K + K * N], grad[2 * K + K * N];
    gpumc_rng rng = gpumc_rng_at(4, 0, 0, 0);
    const ss_task task = { 60, 15, 1, 50, 50, 900, 0, 0 };
    const ss_group group = ss_group_default();
    double lp, slow = 0;
    gpumc_error error;
    ss_data d;
    ss_model *m = NULL;
    if (ss_simulate(SS_BEESTS, &group, &task, SS_UNTRUNCATED, N, 8, &d, theta, &error))
        m = ss_model_create(&d, &options, &error);
    if (!m) { printf("%s\n", error.text); exit(1); }
    for (int k = 0; k < K; k++) {
        const ss_parameter_info *info = ss_parameter_get(kind->parameters[k]);
        const double typical = info->probit ? gpumc_inv_Phi(info->typical) : info->typical;
        const double mean = x[2 * k] = typical * exp(0.1 * gpumc_rng_normal(&rng));
        const double sd = x[2 * k + 1] = 0.1 + 0.05 * gpumc_rng_uniform(&rng);
        slow += slow_cut_prior(form, k, mean, sd);
        for (int i = 0; i < N; i++) {
            const double value = theta[i * SS_N_PARAMETERS + kind->parameters[k]];
            double *at = &x[2 * K + k * N + i];
            p[i][k] = info->probit ? gpumc_inv_Phi(value) : value;
            *at = info->probit ? p[i][k] : slow_cut_z(form, k, mean, sd, value);
            slow += info->probit ? slow_normal(*at, mean, sd) : slow_normal(*at, 0, 1);
        }
    }
    for (size_t j = 0; j < d.n_trials; j++) slow += slow_beests_trial(p[d.trials[j].subject], &d.trials[j]);
    memset(grad, 0, sizeof grad);
    lp = ss_model_get(m)->log_density(x, grad, ss_model_get(m)->data);
    CHECK(fabs(lp - slow) < 1e-7, "form %d: %.10f, from the definitions %.10f", form, lp, slow);
    ss_model_free(m);
    ss_data_free(&d);
}

/* ---- the hierarchical models --------------------------------------------------------------------- */

/* A study of three subjects simulated from a model; the baseline has no stop trials. */
static void small_study(ss_kind kind, double deadline, ss_data *d)
{
    static double theta[3 * SS_N_PARAMETERS];
    const ss_task task = { 60, kind == SS_WALD ? 0 : 15, 1, 50, 50, 900, 0, deadline };
    ss_group group = ss_group_default();
    gpumc_error error;
    group.covariate = "age";
    if (ss_simulate(kind, &group, &task, 0.05, 3, 8, d, theta, &error)) return;
    printf("%s\n", error.text);
    exit(1);
}

/* Builds a model on data simulated from another model (or the same) and checks its gradient; returns the number of
   its group's parameters, 0 if it is refused. */
static size_t try_model_on(ss_kind made, double made_deadline, ss_model_options options)
{
    const char *name = ss_kind_get(options.kind)->name;
    size_t n = 0;
    gpumc_gradient_report report;
    gpumc_error error;
    ss_data d;
    ss_model *m;
    small_study(made, made_deadline, &d);
    m = ss_model_create(&d, &options, &error);
    if (m) {
        const gpumc_model *model = ss_model_get(m);
        const gpumc_status status = gpumc_check_gradient(model, NULL, &report, &error);
        CHECK(status == GPUMC_OK, "%s, form %d: %s", name, (int)options.form, error.text);
        for (size_t k = 0; k < model->n_params; k++) n += model->params[k].size == 3 ? 0 : 1;
    }
    ss_model_free(m);
    ss_data_free(&d);
    return n;
}

static size_t try_model(ss_model_options options)
{ return try_model_on(options.kind, options.deadline, options); }

static void test_deadline_models(void)
{
    static const size_t locations[SS_N_KINDS] = { 11, 9, 10, 8, 11, 6, 9, 0 };
    ss_model_options o = { .deadline = 0.65 };
    for (int kind = 0; kind < SS_N_KINDS; kind++) {
        o.kind = (ss_kind)kind;
        CHECK(try_model(o) == 2 * locations[kind], "kind %d with a deadline", kind);
    }
    o.kind = SS_RDEX_ABCD;
    CHECK(try_model_on(SS_RDEX_ABCD, 0, o) == 0, "responses after the deadline are taken");
    o.deadline = -1;
    CHECK(try_model_on(SS_RDEX_ABCD, 0, o) == 0, "a deadline before the stimulus is taken");
    o.deadline = 0;
    o.kind = SS_BEESTS_NOFAIL;
    CHECK(try_model_on(SS_RDEX_ABCD, 0, o) == 0, "omissions that a model cannot make are taken");
}

static void test_models(void)
{
    static const size_t locations[SS_N_KINDS] = { 11, 9, 10, 8, 11, 6, 9, 4 };
    ss_model_options o = { .kind = SS_RDEX_ABCD };
    for (int kind = 0; kind < SS_N_KINDS; kind++)
        for (int form = SS_FORM_U; form <= SS_FORM_BEESTS; form++) {
            const size_t legacy = kind == SS_RDEX_ABCD ? 21 : 0, both = 2 * locations[kind];
            const size_t beests = ss_ex_gaussians((ss_kind)kind) > 0 ? both : 0, t = kind == SS_WALD ? 0 : both;
            const size_t wanted = form == SS_FORM_LEGACY ? legacy : form == SS_FORM_BEESTS ? beests
                : form == SS_FORM_T ? t : both;
            const ss_model_options each = { .kind = (ss_kind)kind, .form = (ss_form)form };
            const size_t n = try_model(each);
            CHECK(n == wanted, "kind %d, form %d: %d hyperparameters", kind, form, (int)n);
        }
    o.pooled_scales = 1;
    CHECK(try_model(o) == 15, "pooled scales do not leave 15 hyperparameters");
    o.pooled_scales = 0;
    o.covariates = "age:B,age:ptf";
    CHECK(try_model(o) == 24, "two coefficients are not two more");
    o.covariates = "age:A";
    CHECK(try_model(o) == 0, "a parameter that the model lacks is taken");
    o.covariates = "height:B";
    CHECK(try_model(o) == 0, "a column that is not there is taken");
    o.covariates = "age";
    CHECK(try_model(o) == 0, "a covariate without its parameter is taken");
    o.covariates = NULL;
    o.truncation = -1;
    CHECK(try_model(o) == 22, "without truncation");
}

int main(void)
{
    test_known();
    test_reference();
    test_outcomes();
    test_derivatives();
    test_kinks();
    test_rounding();
    test_simulated();
    test_study(0);
    test_study(0.65);
    test_cut_off(SS_FORM_T);
    test_cut_off(SS_FORM_BEESTS);
    test_models();
    test_deadline_models();
    return check_end();
}
