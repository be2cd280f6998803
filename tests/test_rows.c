/* Rows against a plain loop over the same leaf: values and gradients for many patterns of group sizes, every
   instruction set that runs here, columns in double and float, weights. Also: the same bits from any number of
   threads and points in a batch, and the messages about bad input. A row with a wrong sign must be noticed. */
#include "../gpumc.h"
#include "check.h"

GPUMC_ROW(normal, 1, 1, 1)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}
GPUMC_ROW(logit, 2, 1, 2)
{
    gpumc_real d = 0;
    const gpumc_real value = gpumc_bernoulli_logit_lpmf(x[1] < 2 ? 0 : 1, p[0] + p[1] * x[0] - p[2], &d);
    g[0] += d;
    g[1] += d * x[0];
    g[2] -= d;
    return value;
}
GPUMC_ROW(common, 0, 2, 1)
{
    return gpumc_lognormal_lpdf(gpumc_exp(x[0]), p[0], p[1], NULL, &g[0], &g[1]);
}
GPUMC_ROW(heavy, 3, 0, 1)                    /* p[2]: degrees of freedom, positive in these tests */
{
    return gpumc_student_t_lpdf(x[0], 3 + p[2] * p[2], p[0], 1 + p[1] * p[1], NULL, NULL, &g[0], NULL);
}
GPUMC_ROW(wrong, 1, 1, 1)
{
    const gpumc_real value = gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
    g[0] = -g[0];
    return value;
}
GPUMC_ROW(half, 1, 1, 1)                    /* NaN above 1000, minus infinity above 900 */
{
    const gpumc_real value = gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
    return x[0] > 1000 ? GPUMC_NAN : x[0] > 900 ? -GPUMC_INF : value;
}

/* A mixture over nodes of known weight; x[1] is the number of times that the value x[0] was observed. */
GPUMC_CELLS(mixture, 1, 1, 2, 2)
{
    gpumc_real d = 0;
    const gpumc_real part = x[3] * gpumc_exp(gpumc_normal_lpdf(x[0], p[0] + p[1] * x[2], 1, NULL, &d, NULL));
    g[0] = part * d;
    g[1] = part * d * x[2];
    return part;
}
GPUMC_FINISH(mixture)
{
    g[0] = x[1] * sum[1] / sum[0];
    g[1] = x[1] * sum[2] / sum[0];
    return x[1] * gpumc_log(sum[0]);
}

enum { MOST_ROWS = 6000, MOST_GROUPS = 2000, MOST_P = 3, N_NODES = 21 };
static size_t group[MOST_ROWS];
static double column[2][MOST_ROWS], weight[MOST_ROWS], node[2][N_NODES], values[3][MOST_P][MOST_GROUPS];
static const double *const columns[2] = { column[0], column[1] }, *const nodes[2] = { node[0], node[1] };

typedef double leaf(const double *p, const double *x, double *g);
static double mixture_row(const double *p, const double *x, double *g)
{
    double sum[3] = { 0, 0, 0 };
    for (int i = 0; i < N_NODES; i++) {
        const double at[4] = { x[0], x[1], node[0][i], node[1][i] };
        double d[2] = { 0, 0 };
        sum[0] += mixture_node(p, at, d);
        sum[1] += d[0];
        sum[2] += d[1];
    }
    return mixture_finish(sum, p, x, g);
}
/* Functions of the leaves, whose address can be taken: leaves themselves are always inlined. */
#define PLAIN(name)                                                                                          \
    static double plain_##name(const double *p, const double *x, double *g) { return name##_row(p, x, g); }
PLAIN(normal) PLAIN(logit) PLAIN(common) PLAIN(heavy)

typedef struct sums { double lp, size, grad[MOST_P][MOST_GROUPS], grad_size[MOST_P]; } sums;

/* A value as its column stores it, in single or double precision. (volatile: gcc 12 drops such a conversion under a
   condition.) */
static double stored(const gpumc_rows_data *d, double value)
{
    const volatile float single = (float)value;
    return d->single_precision ? (double)single : value;
}

/* The plain loop over the rows, in the caller's order. */
static void plain_loop(const gpumc_rows_data *d, leaf *row, int point, sums *s)
{
    const size_t n_group = d->kind->n_group, n_p = n_group + d->kind->n_shared;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < d->n_rows; i++) {
        const double w = d->weights ? d->weights[i] : 1;
        double p[MOST_P], x[2], g[MOST_P] = { 0, 0, 0 }, value;
        for (size_t k = 0; k < n_p; k++) p[k] = values[point][k][k < n_group && d->group ? d->group[i] : 0];
        for (size_t c = 0; c < 2; c++) x[c] = stored(d, column[c][i]);
        value = row(p, x, g);
        s->lp += w * value;
        s->size += fabs(w * value);
        for (size_t k = 0; k < n_p; k++) {
            s->grad[k][k < n_group && d->group ? d->group[i] : 0] += w * g[k];
            s->grad_size[k] += fabs(w * g[k]);
        }
    }
}

/* The largest difference of value and gradient, relative to the sums of the absolute values of their terms. */
static double disagreement(const gpumc_rows_data *d, double lp, double (*grad)[MOST_GROUPS], const sums *s)
{
    const size_t n_p = d->kind->n_group + d->kind->n_shared;
    double worst = fabs(lp - s->lp) / (s->size + 1e-300);
    for (size_t k = 0; k < n_p; k++)
        for (size_t j = 0; j < (k < d->kind->n_group ? d->n_groups : 1); j++)
            worst = check_worst(worst, fabs(grad[k][j] - s->grad[k][j]) / (s->grad_size[k] + 1e-300));
    return worst;
}

typedef struct loaded { gpumc_rows *rows; void *memory; double *work; } loaded;
static loaded load(const gpumc_rows_data *d, size_t works)
{
    gpumc_error error;
    const size_t bytes = gpumc_rows_bytes(d, &error);
    loaded l = { NULL, malloc(bytes ? bytes : 1), NULL };
    l.rows = bytes ? gpumc_rows_init(d, l.memory, bytes, &error) : NULL;
    CHECK(l.rows != NULL, "%s", error.text);
    if (!l.rows) exit(check_end());
    l.work = (double *)malloc(works * gpumc_rows_work(l.rows) * sizeof(double) + 1);
    return l;
}
static void unload(loaded *l)
{
    free(l->work);
    free(l->memory);
}

static double grad[3][MOST_P][MOST_GROUPS], again[3][MOST_P][MOST_GROUPS];
static const double *points[3 * MOST_P];
static double *grads[3 * MOST_P], *grads_again[3 * MOST_P];
static void point_to(const gpumc_row_kind *kind)
{
    const size_t n_p = kind->n_group + kind->n_shared;
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < n_p; k++) {
            points[i * n_p + k] = values[i][k];
            grads[i * n_p + k] = grad[i][k];
            grads_again[i * n_p + k] = again[i][k];
        }
    memset(grad, 0, sizeof grad);
    memset(again, 0, sizeof again);
}

static void check_pointwise(const gpumc_rows_data *d, const loaded *l, leaf *row, const char *what)
{
    static double log_lik[MOST_ROWS];
    const size_t n_group = d->kind->n_group;
    double worst = 0;
    gpumc_rows_pointwise(l->rows, points, log_lik, l->work);
    for (size_t i = 0; i < d->n_rows; i++) {
        double p[MOST_P] = { 0, 0, 0 }, x[2], g[MOST_P] = { 0, 0, 0 };
        for (size_t k = 0; k < n_group + d->kind->n_shared; k++)
            p[k] = values[0][k][k < n_group && d->group ? d->group[i] : 0];
        for (size_t c = 0; c < 2; c++) x[c] = stored(d, column[c][i]);
        worst = check_worst(worst, check_distance(log_lik[i], (d->weights ? d->weights[i] : 1) * row(p, x, g), 1));
    }
    CHECK(worst < 1e-13, "%s: pointwise is off by %g", what, worst);
}

/* Three points one by one, and as a batch by a team, give the same bits. */
static void check_bits(const gpumc_rows_data *d, const loaded *l, gpumc_team *team, const char *what)
{
    double one[3], batch[3];
    const size_t n_p = d->kind->n_group + d->kind->n_shared;
    point_to(d->kind);
    for (size_t i = 0; i < 3; i++)
        one[i] = gpumc_rows_eval(l->rows, points + i * n_p, grads + i * n_p, l->work);
    gpumc_rows_eval_batch(l->rows, 3, points, grads_again, batch, l->work, team);
    CHECK(memcmp(one, batch, sizeof one) == 0 && memcmp(grad, again, sizeof grad) == 0,
          "%s: %d threads, 3 points change bits", what, team ? gpumc_team_threads(team) : 1);
}

typedef struct tried { const gpumc_row_kind *kind; leaf *row; } tried;
static const tried kinds[] = {
    { &normal, plain_normal }, { &logit, plain_logit }, { &common, plain_common }, { &heavy, plain_heavy },
    { &mixture, mixture_row },
};

static gpumc_rows_data data_of(const gpumc_row_kind *kind, size_t n_rows, size_t n_groups)
{
    gpumc_rows_data d;
    memset(&d, 0, sizeof d);
    d.kind = kind;
    d.n_rows = n_rows;
    d.n_groups = kind->n_group ? n_groups : 1;
    d.group = kind->n_group ? group : NULL;
    d.columns = columns;
    d.nodes = kind->n_node_columns ? nodes : NULL;
    d.n_nodes = kind->n_node_columns ? N_NODES : 0;
    return d;
}

static void check_pattern(const char *pattern, size_t n_rows, size_t n_groups, gpumc_team *const *teams)
{
    static sums s;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int variant = 0; variant < 4; variant++)
            for (int isa = GPUMC_ISA_BASELINE; isa <= (int)gpumc_isa_resolve(GPUMC_ISA_AUTO); isa++) {
                char what[120];
                double lp;
                gpumc_rows_data d = data_of(kinds[i].kind, n_rows, n_groups);
                if (kinds[i].kind->n_node_columns && n_rows > 2000) continue;
                d.single_precision = variant & 1;
                d.weights = variant & 2 ? weight : NULL;
                d.isa = (gpumc_isa)isa;
                loaded l = load(&d, 3);
                snprintf(what, sizeof what, "%s, %s, %s%s%s", pattern, d.kind->name, gpumc_isa_name(d.isa),
                         variant & 1 ? ", float" : "", variant & 2 ? ", weights" : "");
                point_to(d.kind);
                plain_loop(&d, kinds[i].row, 0, &s);
                lp = gpumc_rows_eval(l.rows, points, grads, l.work);
                CHECK(disagreement(&d, lp, grad[0], &s) < 1e-13, "%s: off by %g", what,
                      disagreement(&d, lp, grad[0], &s));
                check_pointwise(&d, &l, kinds[i].row, what);
                for (int t = 0; t < 3; t++) check_bits(&d, &l, teams[t], what);
                unload(&l);
            }
}

/* Sets the group of each row: group sizes rise with the group's number, and rows are in scattered order. */
static size_t ragged(size_t n_groups, size_t least, size_t step, size_t largest)
{
    size_t n = 0;
    for (size_t j = 0; j < n_groups; j++)
        for (size_t i = 0; i < (j == 5 ? largest : least + j * 7 % 11 * step) && n < MOST_ROWS; i++)
            group[n++] = j;
    for (size_t i = n; i > 1; i--) {
        const size_t other = i * 2654435761u % i, kept = group[i - 1];
        group[i - 1] = group[other];
        group[other] = kept;
    }
    return n;
}

static void check_patterns(void)
{
    gpumc_team *teams[3] = { NULL, gpumc_team_start(2, NULL), gpumc_team_start(3, NULL) };
    static const struct { size_t each, n_groups;
    } equal[] = {
        { 1, 1 },    { 1, 7 },    { 1, 1600 }, { 1, 1601 }, { 2, 33 },   { 3, 500 },
        { 10, 160 }, { 100, 20 }, { 128, 32 }, { 140, 33 }, { 160, 16 }, { 300, 5 },  { 5000, 1 },
    };
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        char text[64];
        const size_t n = equal[i].each * equal[i].n_groups;
        if ((n > 1601 || n == 1600) && getenv("QUICK")) continue;
        snprintf(text, sizeof text, "%.0f groups of %.0f", (double)equal[i].n_groups, (double)equal[i].each);
        for (size_t r = 0; r < n; r++) group[r] = r / equal[i].each;
        check_pattern(text, n, equal[i].n_groups, teams);
        for (size_t r = 0; r < n; r++) group[r] = r % equal[i].n_groups;
        check_pattern(text, n, equal[i].n_groups, teams);
    }
    check_pattern("sizes 1 to 11", ragged(200, 1, 1, 6), 200, teams);
    check_pattern("sizes 0 to 100", ragged(60, 0, 10, 0), 70, teams);
    check_pattern("one large group", ragged(120, 0, 2, 4000), 130, teams);
    check_pattern("no rows", 0, 3, teams);
    for (int t = 0; t < 3; t++) gpumc_team_stop(teams[t]);
}

/* The numbers of tiles and slices show that no lanes are wasted; groups without rows are counted. */
static void check_layout(void)
{
    gpumc_rows_data d = data_of(&normal, 0, 520);
    static const size_t each[3] = { 1, 3, 10 };
    for (size_t i = 0; i < 3; i++) {
        d.n_rows = each[i] * 512;
        for (size_t r = 0; r < d.n_rows; r++) group[r] = r / each[i];
        loaded l = load(&d, 1);
        const gpumc_rows_info info = gpumc_rows_describe(l.rows);
        CHECK(info.n_tiles == 32 * each[i] && info.n_slices == 32 && info.n_segments == 0
                  && info.n_empty == 8,
              "%.0f rows a group: %.0f tiles, %.0f empty", (double)each[i], (double)info.n_tiles,
              (double)info.n_empty);
        unload(&l);
    }
    d.n_rows = 5000;
    for (size_t r = 0; r < d.n_rows; r++) group[r] = r % 2;
    loaded l = load(&d, 1);
    CHECK(gpumc_rows_describe(l.rows).n_segments == 4 && gpumc_rows_describe(l.rows).n_tiles == 314,
          "%.0f, %.0f", (double)gpumc_rows_describe(l.rows).n_segments,
          (double)gpumc_rows_describe(l.rows).n_tiles);
    CHECK(gpumc_rows_describe(l.rows).isa == gpumc_isa_resolve(GPUMC_ISA_AUTO), "other instruction set");
    unload(&l);
    d = data_of(&mixture, 5000, 2);                   /* cells: 32 nodes, idle ones included, count as 32 rows */
    l = load(&d, 1);
    CHECK(gpumc_rows_describe(l.rows).n_segments == 80, "%.0f", (double)gpumc_rows_describe(l.rows).n_segments);
    unload(&l);
}

/* Gradients are added to what is there, and not written where their pointer is NULL. */
static void check_added(void)
{
    for (size_t each = 1; each <= 1000; each *= 1000) {
        static sums s;
        gpumc_rows_data d = data_of(&normal, 5000, 5000 / each < MOST_GROUPS ? 5000 / each : 1000);
        double *some[2] = { NULL, again[0][1] };
        for (size_t r = 0; r < d.n_rows; r++) group[r] = each > 1 ? r / each : r % d.n_groups;
        loaded l = load(&d, 1);
        point_to(&normal);
        grad[0][0][3] = 5;
        gpumc_rows_eval(l.rows, points, grads, l.work);
        gpumc_rows_eval(l.rows, points, some, l.work);
        plain_loop(&d, plain_normal, 0, &s);
        CHECK(check_distance(grad[0][0][3], 5 + s.grad[0][3], 1) < 1e-12, "%g", grad[0][0][3]);
        CHECK(again[0][1][0] == grad[0][1][0] && again[0][0][3] == 0, "a gradient that was not wanted");
        unload(&l);
    }
}

static void check_broken_is_noticed(void)
{
    static sums s;
    gpumc_rows_data d = data_of(&wrong, 4000, 100);
    for (size_t r = 0; r < d.n_rows; r++) group[r] = r % 100;
    loaded l = load(&d, 1);
    point_to(&wrong);
    const double lp = gpumc_rows_eval(l.rows, points, grads, l.work);
    plain_loop(&d, plain_normal, 0, &s);
    CHECK(disagreement(&d, lp, grad[0], &s) > 1e-3, "a wrong sign was not noticed");
    group[17]++;
    plain_loop(&d, plain_normal, 0, &s);
    for (size_t j = 0; j < 100; j++) grad[0][0][j] = -grad[0][0][j];
    CHECK(disagreement(&d, lp, grad[0], &s) > 1e-9, "a row in the wrong group was not noticed");
    unload(&l);
}

/* The data must be refused with this status and a message that contains text. */
static void refused(const gpumc_rows_data *d, gpumc_status status, const char *text)
{
    gpumc_error error = { GPUMC_OK, "" };
    CHECK(gpumc_rows_bytes(d, &error) == 0 && error.status == status && strstr(error.text, text),
          "\"%s\", not \"%s\"", error.text, text);
    CHECK(gpumc_rows_init(d, values, sizeof values, NULL) == NULL, "accepted without an error to fill");
}

static void check_bad_input(void)
{
    static const char *const names[1] = { "rt" };
    const double *none[1] = { NULL };
    double memory[8];
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_rows_data d = data_of(&normal, 100, 10), bad = d;
    gpumc_row_kind bare = normal;
    for (size_t r = 0; r < 100; r++) group[r] = r % 10;
    d.column_names = names;
    bare.n_columns = 0;
#define REFUSED(change, text) bad = d; change; refused(&bad, GPUMC_ERROR_ARGUMENT, text)
    refused(NULL, GPUMC_ERROR_ARGUMENT, "data is NULL");
    REFUSED(bad.kind = NULL, "kind is NULL");
    REFUSED(bad.columns = NULL, "1 columns");
    REFUSED(bad.n_columns = 2, "1 columns, the data 2");
    REFUSED(bad.kind = &bare, "0 columns, the data 0; give as many, 1 at least");
    REFUSED(bad.columns = none, "column \"rt\" is NULL");
    REFUSED(bad.n_groups = 0, "n_groups is 0");
    REFUSED(bad.group = NULL, "group is NULL");
    REFUSED(bad.nodes = nodes; bad.n_nodes = 3, "GPUMC_CELLS");
    REFUSED(bad.kind = &mixture, "GPUMC_CELLS");
    group[88] = 131;
    REFUSED((void)0, "group index 131 in row 88 (from 0) is outside 0..9");
    group[88] = 8;
    column[0][41] = NAN;
    REFUSED((void)0, "column \"rt\" is nan in row 41");
    REFUSED(bad.column_names = NULL, "column 0 is nan in row 41");
    column[0][41] = INFINITY;
    REFUSED((void)0, "column \"rt\" is inf in row 41");
    column[0][41] = 1e300;
    REFUSED(bad.single_precision = 1, "too large for single precision");
    column[0][41] = 0.5;
    d = data_of(&mixture, 100, 10);
    node[0][1] = NAN;
    REFUSED((void)0, "node column 0 is nan in node 1");
    node[0][1] = 1e300;                                  /* nodes are kept in double */
    d.single_precision = 1;
    CHECK(gpumc_rows_bytes(&d, &error) > 0, "%s", error.text);
    node[0][1] = -1.8;
    d = data_of(&normal, 100, 10);
    weight[7] = -1;
    REFUSED(bad.weights = weight, "weight -1 of row 7");
    weight[7] = 1;
    CHECK(gpumc_rows_init(&d, memory, sizeof memory, &error) == NULL && strstr(error.text, "not 64"), "%s",
          error.text);
}

/* The first row whose value is not finite is named; idle lanes and rows of weight zero do not count. */
static void check_explained(void)
{
    gpumc_error error;
    gpumc_rows_data d = data_of(&half, 500, 10);
    double w[500];
    for (size_t r = 0; r < 500; r++) {
        group[r] = r % 10;
        w[r] = r % 100 == 33 ? 0 : 1;
    }
    const double kept = column[0][333], other = column[0][433];
    column[0][333] = 950;
    column[0][433] = 2000;
    for (int weighted = 0; weighted < 2; weighted++) {
        d.weights = weighted ? w : NULL;
        loaded l = load(&d, 1);
        point_to(&half);
        const double lp = gpumc_rows_eval(l.rows, points, grads, l.work);
        const gpumc_status status = gpumc_rows_explain(l.rows, points, l.work, &error);
        if (weighted) CHECK(isfinite(lp) && status == GPUMC_OK, "%g", lp);
        else
            CHECK(isnan(lp) && status == GPUMC_ERROR_NUMERIC
                      && strstr(error.text, "row 333, group 3 (from 0) is -inf"),
                  "%s", error.text);
        unload(&l);
    }
    column[0][333] = kept;
    column[0][433] = other;
}

static void count_part(size_t part, int member, void *user)
{
    ((unsigned char *)user)[part] = (unsigned char)(1 + member);
}

/* All threads but the caller's are slow. */
static void count_slowly(size_t part, int member, void *user)
{
    for (volatile int k = 0; member > 0 && k < 3000; k++) continue;
    count_part(part, member, user);
}

static void check_team(void)
{
    gpumc_team *team = gpumc_team_start(3, NULL);
    static unsigned char done[1000];
    int all = 1;
    for (int round = 0; round < 200; round++) {
        memset(done, 0, sizeof done);
        gpumc_team_run(team, round % 2 ? count_slowly : count_part, (size_t)(round * 5), done);
        for (int i = 0; i < 1000; i++)
            all &= (done[i] != 0) == (i < round * 5) && done[i] <= gpumc_team_threads(team);
    }
    CHECK(all, "a part was left out or done too much");
    gpumc_team_stop(team);
    gpumc_team_stop(NULL);
}

int main(void)
{
    gpumc_rng rng = gpumc_rng_at(1, 2, 3, 4);
    for (size_t i = 0; i < MOST_ROWS; i++) {
        column[0][i] = gpumc_rng_normal(&rng);
        column[1][i] = (double)(1 + i % 3);
        weight[i] = i % 5 == 0 ? 0 : 0.5 + 0.25 * (double)(i % 7);
    }
    for (int i = 0; i < N_NODES; i++) {
        node[0][i] = -2 + 0.2 * i;
        node[1][i] = 1.0 / N_NODES;
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < MOST_P; k++)
            for (int j = 0; j < MOST_GROUPS; j++)
                values[i][k][j] = 0.3 + 0.4 * k + 0.5 * gpumc_rng_uniform(&rng);
    check_patterns();
    check_layout();
    check_added();
    check_broken_is_noticed();
    check_bad_input();
    check_explained();
    check_team();
    return check_end();
}
