/* gpumc_hot: rows and linear predictors evaluated at many points, against the ordinary calls. Here on the CPU;
   test_device.sh compiles this file again with gpumc_cuda.cu, itself compiled for the CPU, and test_cuda.sh links
   the real gpumc_cuda.cu where there is a GPU. */
#include "../gpumc.h"
#include "check.h"
#include "device_rows.h"

GPUMC_ROW(device_unknown, 0, 1, 1) { return p[0] * x[0]; }

#ifndef TOLERANCE
#define TOLERANCE 1e-11                 /* -DGPUMC_REAL=float needs a larger one */
#endif
#if defined(GPUMC_CUDA)
#define PLACE GPUMC_ON_GPU
#else
#define PLACE GPUMC_ANYWHERE
#endif
enum { MOST_PARAMS = 4, POINTS = 11, NODES = 37 };

typedef struct problem {
    gpumc_rows_data data;
    size_t *group, n_params;
    double *columns[2], *weights, nodes[2][NODES];
    const double *column_list[2], *node_list[2];
} problem;

/* Group sizes vary around n_rows / n_groups; the last group is empty, unless full is set. */
static void problem_make(problem *q, const gpumc_row_kind *kind, size_t n_rows, size_t n_groups, int full,
                         int weighted, int single)
{
    gpumc_rng rng = gpumc_rng_at(7, 0, (uint32_t)n_rows, (uint32_t)n_groups);
    memset(q, 0, sizeof *q);
    q->group = (size_t *)malloc(n_rows * sizeof *q->group);
    q->weights = (double *)malloc(n_rows * sizeof *q->weights);
    for (int c = 0; c < 2; c++) q->columns[c] = (double *)malloc(n_rows * sizeof(double));
    for (size_t i = 0; i < n_rows; i++) {
        const double u = gpumc_rng_uniform(&rng);
        q->group[i] = full && i < n_groups ? i : n_groups > 1 ? (size_t)(u * u * (double)(n_groups - 1)) : 0;
        q->columns[0][i] = gpumc_rng_uniform(&rng) < 0.5;
        q->columns[1][i] = (double)(float)gpumc_rng_normal(&rng);
        q->weights[i] = gpumc_rng_uniform(&rng) < 0.2 ? 0 : 1 + gpumc_rng_uniform(&rng);
    }
    q->column_list[0] = q->columns[0];
    q->column_list[1] = q->columns[1];
    q->data.kind = kind;
    q->data.n_rows = n_rows;
    q->data.n_groups = n_groups;
    q->data.group = q->group;
    q->data.columns = q->column_list;
    q->data.weights = weighted ? q->weights : NULL;
    q->data.single_precision = single;
    for (int i = 0; i < NODES; i++) {
        q->nodes[0][i] = (double)(2 * i - NODES) / NODES;
        q->nodes[1][i] = (1 + gpumc_rng_uniform(&rng)) / NODES;
    }
    for (int c = 0; c < 2; c++) q->node_list[c] = q->nodes[c];
    if (kind->n_node_columns) q->data.nodes = q->node_list, q->data.n_nodes = NODES;
    q->n_params = kind->n_group * n_groups + kind->n_shared;
}

static void problem_free(problem *q)
{
    free(q->group);
    free(q->weights);
    for (int c = 0; c < 2; c++) free(q->columns[c]);
}

/* One point on the CPU, with parameters packed as for the device. */
static double on_cpu(const problem *q, const double *p, double *grad)
{
    gpumc_error error;
    const size_t bytes = gpumc_rows_bytes(&q->data, &error);
    void *memory = malloc(bytes);
    gpumc_rows *rows = gpumc_rows_init(&q->data, memory, bytes, &error);
    double *work = (double *)malloc(gpumc_rows_work(rows) * sizeof *work), value;
    const double *from[MOST_PARAMS];
    double *to[MOST_PARAMS];
    for (size_t k = 0, at = 0; k < q->data.kind->n_group + q->data.kind->n_shared; k++) {
        from[k] = p + at;
        to[k] = grad + at;
        at += k < q->data.kind->n_group ? q->data.n_groups : 1;
    }
    value = gpumc_rows_eval(rows, from, to, work);
    free(work);
    free(memory);
    return value;
}

static double relative(double a, double b) { return fabs(a - b) / (1 + fabs(b)); }

static void compare(const gpumc_row_kind *kind, size_t n_rows, size_t n_groups, int full, int weighted,
                    int single)
{
    problem q;
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0);
    gpumc_hot *hot;
    problem_make(&q, kind, n_rows, n_groups, full, weighted, single);
    const size_t n = q.n_params;
    double *p = (double *)calloc(4 * POINTS * n, sizeof *p), *grad = p + POINTS * n,
           *again = grad + POINTS * n;
    double *expected = again + POINTS * n, lp[POINTS], lp_again[POINTS], worst = 0;
    for (size_t i = 0; i < POINTS * n; i++) p[i] = 1 + gpumc_rng_uniform(&rng);
    hot = gpumc_hot_rows(&q.data, 2, PLACE, &error);       /* 2 at a time: six launches for the points */
    CHECK(hot != NULL, "%s", error.text);
    if (hot) {
        CHECK(gpumc_hot_eval(hot, POINTS, p, grad, lp, &error) == GPUMC_OK, "%s", error.text);
        for (size_t i = 0; i < POINTS; i++) {
            worst = check_worst(worst, relative(lp[i], on_cpu(&q, p + i * n, expected + i * n)));
            for (size_t k = 0; k < n; k++)
                worst = check_worst(worst, relative(grad[i * n + k], expected[i * n + k]));
        }
        CHECK(worst < TOLERANCE, "%s, %zu rows in %zu groups: off by %g", kind->name, n_rows, n_groups,
              worst);
        CHECK(gpumc_hot_eval(hot, 1, p + 3 * n, again + 3 * n, &lp_again[3], &error) == GPUMC_OK, "%s",
              error.text);
        CHECK(memcmp(&lp_again[3], &lp[3], sizeof(double)) == 0, "%s",
              error.text); /* alone and in a batch: the same bits */
        CHECK(memcmp(again + 3 * n, grad + 3 * n, n * sizeof(double)) == 0, "%s", error.text);
        CHECK(gpumc_hot_eval(hot, 1, p, grad, lp_again, &error) == GPUMC_OK, "%s",
              error.text); /* added, not stored */
        CHECK(relative(grad[0], 2 * expected[0]) < TOLERANCE, "%g, %g", grad[0], expected[0]);
        gpumc_hot_release(hot);
    }
    free(p);
    problem_free(&q);
}

/* ---- linear predictors --------------------------------------------------------------------------- */
enum { LEVELS_1 = 5, LEVELS_2 = 40, EFFECTS = LEVELS_1 + LEVELS_2 };

static size_t aux_of(gpumc_glm_family family)
{
    return family == GPUMC_GLM_STUDENT_T
               ? 2
               : family == GPUMC_GLM_NORMAL || family == GPUMC_GLM_NEG_BINOMIAL_2_LOG;
}

static double glm_on_cpu(const gpumc_glm_data *d, const double *p, double *grad)
{
    gpumc_error error;
    const size_t bytes = gpumc_glm_bytes(d, &error), aux = 1 + d->n_columns + (d->n_factors ? EFFECTS : 0);
    const int count = d->family == GPUMC_GLM_NEG_BINOMIAL_2_LOG;
    void *memory = malloc(bytes);
    gpumc_glm *glm = gpumc_glm_init(d, memory, bytes, &error);
    double *work = (double *)malloc(gpumc_glm_work(glm, 1, 1) * sizeof *work), value;
    const double *effects[2] = { p + 1 + d->n_columns, p + 1 + d->n_columns + LEVELS_1 };
    double *to_effects[2] = { grad + 1 + d->n_columns, grad + 1 + d->n_columns + LEVELS_1 };
    const gpumc_glm_point at = { p,           p + 1,
                                 effects,     count ? NULL : p + aux,
                                 p + aux + 1, count ? p + aux : NULL };
    const int two = d->family == GPUMC_GLM_STUDENT_T, one = two || d->family == GPUMC_GLM_NORMAL;
    const gpumc_glm_gradient to = { grad,
                                    grad + 1,
                                    to_effects,
                                    one ? grad + aux : NULL,
                                    two ? grad + aux + 1 : NULL,
                                    count ? grad + aux : NULL };
    value = gpumc_glm_eval(glm, &at, &to, work);
    free(work);
    free(memory);
    return value;
}

static void compare_glm(gpumc_glm_family family, size_t n_rows, size_t n_columns, int form)
{
    gpumc_rng rng = gpumc_rng_at(9, 0, (uint32_t)n_rows, (uint32_t)family);
    gpumc_error error = { GPUMC_OK, "" };
    double *x = (double *)malloc(n_rows * (n_columns + 3) * sizeof *x), *y = x + n_rows * n_columns;
    double *offset = y + n_rows, *weights = offset + n_rows, lp[POINTS], alone, worst = 0;
    size_t *level_1 = (size_t *)malloc(2 * n_rows * sizeof *level_1), *level_2 = level_1 + n_rows;
    const gpumc_glm_factor factors[2] = { { level_1, LEVELS_1 }, { level_2, LEVELS_2 } };
    gpumc_glm_data d;
    gpumc_hot *hot;
    memset(&d, 0, sizeof d);
    for (size_t i = 0; i < n_rows * n_columns; i++) x[i] = (double)(float)gpumc_rng_normal(&rng);
    for (size_t i = 0; i < n_rows; i++) {
        y[i] = gpumc_rng_uniform(&rng) < 0.4;
        offset[i] = 0.3 * gpumc_rng_normal(&rng);
        weights[i] = 2 * gpumc_rng_uniform(&rng);
        level_1[i] = (size_t)(gpumc_rng_uniform(&rng) * LEVELS_1);
        level_2[i] = (size_t)(gpumc_rng_uniform(&rng) * (LEVELS_2 - 1)); /* the last level has no rows */
    }
    d.family = family;
    d.n_rows = n_rows;
    d.n_columns = n_columns;
    d.x = n_columns ? x : NULL;
    d.y = y;
    d.column_major = form & 1;
    d.single_precision = form >> 1 & 1;
    if (form & 1) { d.offset = offset; d.factors = factors; d.n_factors = 2; }
    if (form & 2) d.weights = weights;
    const size_t n = 1 + n_columns + (d.n_factors ? (size_t)EFFECTS : 0) + aux_of(family);
    double *p = (double *)calloc(4 * POINTS * (n + 2), sizeof *p), *grad = p + POINTS * (n + 2);
    double *again = grad + POINTS * n, *expected = again + POINTS * n;
    for (size_t i = 0; i < POINTS * n; i++) p[i] = 0.2 + 0.3 * gpumc_rng_uniform(&rng);
    for (size_t i = 0; i < POINTS; i++)
        for (size_t k = 1; k <= n_columns; k++) p[i * n + k] *= 7 / (6.0 + (double)n_columns);
    hot = gpumc_hot_glm(&d, POINTS, PLACE, &error);
    CHECK(hot != NULL, "%s", error.text);
    d.n_columns = n_columns > 0;             /* a second, smaller one, while the first exists */
    gpumc_hot *second = gpumc_hot_glm(&d, 1, PLACE, &error);
    CHECK(second != NULL, "%s", error.text);
    d.n_columns = n_columns;
    if (hot) {
        CHECK(gpumc_hot_eval(hot, POINTS, p, grad, lp, &error) == GPUMC_OK, "%s", error.text);
        for (size_t i = 0; i < POINTS; i++) {
            worst = check_worst(worst, relative(lp[i], glm_on_cpu(&d, p + i * n, expected + i * n)));
            for (size_t k = 0; k < n; k++)
                worst = check_worst(worst, relative(grad[i * n + k], expected[i * n + k]));
        }
        CHECK(worst < TOLERANCE, "family %d, form %d, %zu rows, %zu columns: off by %g", (int)family, form,
              n_rows, n_columns, worst);
        CHECK(gpumc_hot_eval(hot, 1, p + 4 * n, again, &alone, &error) == GPUMC_OK, "%s", error.text);
        CHECK(alone == lp[4] && memcmp(again, grad + 4 * n, n * sizeof *again) == 0,
              "alone %g, in company %g", alone, lp[4]);
        gpumc_hot_release(hot);
    }
    gpumc_hot_release(second);
    free(p);
    free(level_1);
    free(x);
}

/* ---- hierarchical models ------------------------------------------------------------------------- */

typedef struct hierarchy {
    gpumc_param params[6];
    gpumc_prior priors[5];
    gpumc_hier_take takes[4], other[2], third[3];
    gpumc_hier_rows rows[3];
    gpumc_rows_data guide, unweighted;
    gpumc_hier_data data;
} hierarchy;

/* A model with three sets of rows: "students", Student-t with means and scales by group, whose guide has no weights;
   "normals", which share the means; "mixtures", whose guide lacks the last two nodes. */
static void hierarchy_make(hierarchy *m, const problem *q, const problem *normals, const problem *mixtures)
{
    const hierarchy made = {
        .params = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
                    { .name = "theta", .size = q->data.n_groups, .location = "mu", .scale = "tau" },
                    { .name = "s", .kind = GPUMC_POSITIVE, .size = q->data.n_groups },
                    { .name = "slope" }, { .name = "nu", .kind = GPUMC_POSITIVE } },
        .priors = { { "mu", gpumc_prior_normal, 0, 2, 0 }, { "tau", gpumc_prior_half_normal, 1, 0, 0 },
                    { "s", gpumc_prior_lognormal, 0, 0.5, 0 }, { "slope", gpumc_prior_normal, 0, 1, 0 },
                    { "nu", gpumc_prior_gamma, 4, 0.5, 0 } },
        .takes = { { "theta", q->group }, { "s", q->group }, { "slope", NULL }, { "nu", NULL } },
        .other = { { "theta", normals->group }, { "tau", NULL } },
        .third = { { "theta", mixtures->group }, { "s", mixtures->group }, { "tau", NULL } },
        .guide = mixtures->data,
        .unweighted = q->data,
    };
    *m = made;
    m->rows[0].name = "students";
    m->rows[0].data = q->data;
    m->unweighted.weights = NULL;
    m->rows[0].guide = &m->unweighted;
    m->rows[0].takes = m->takes;
    m->rows[0].n_takes = 4;
    m->rows[1].name = "normals";
    m->rows[1].data = normals->data;
    m->rows[1].takes = m->other;
    m->rows[1].n_takes = 2;
    m->guide.n_nodes -= 2;
    m->rows[2].name = "mixtures";
    m->rows[2].data = mixtures->data;
    m->rows[2].guide = &m->guide;
    m->rows[2].takes = m->third;
    m->rows[2].n_takes = 3;
    for (int k = 0; k < 3; k++) m->rows[k].data.group = NULL, m->rows[k].data.n_groups = 0;     /* from takes */
    m->data.params = m->params;
    m->data.n_params = 6;
    m->data.priors = m->priors;
    m->data.n_priors = 5;
    m->data.rows = m->rows;
    m->data.n_rows = 3;
}

/* Whether the GPU refuses the model with this text, or the CPU accepts it. */
static int refused(const gpumc_hier *hier, const gpumc_error *error, const char *text)
{
    if (PLACE != GPUMC_ON_GPU) return hier != NULL;
    return !hier && error->status == GPUMC_ERROR_DEVICE && strstr(error->text, text);
}

static void check_shared(const gpumc_model *model)
{
    gpumc_sample_options o = { .num_warmup = 40, .num_samples = 20, .threads = 1, .skip_gradient_check = 1 };
    gpumc_fit alone, shared;
    CHECK(gpumc_sample(model, &o, &alone) == GPUMC_OK, "%s", alone.message);
    o.threads = 4;
    CHECK(gpumc_sample(model, &o, &shared) == GPUMC_OK, "%s", shared.message);
    CHECK(alone.n_draws == 20 && shared.n_draws == 20
          && memcmp(alone.draws, shared.draws, 4 * 20 * alone.n_columns * sizeof(double)) == 0,
          "draws of one thread and of four differ");
    gpumc_free(&alone);
    gpumc_free(&shared);
}

/* The largest difference at x, of value and gradient, between the densities of two models, or their guides. */
static double apart(const gpumc_model *a, const gpumc_model *b, const double *x, int guide)
{
    double grad[2][64] = { { 0 } };
    const size_t n = gpumc_model_n_values(a);
    const double left = (guide ? a->guide : a->log_density)(x, grad[0], a->data);
    double worst = relative((guide ? b->guide : b->log_density)(x, grad[1], b->data), left);
    for (size_t i = 0; i < n; i++) worst = check_worst(worst, relative(grad[1][i], grad[0][i]));
    return n <= 64 ? worst : GPUMC_INF;
}

#if defined(GPUMC_CUDA)
static gpumc_status never_started(gpumc__joint *joint, gpumc_error *error)
{
    (void)joint;
    return gpumc__fail(error, GPUMC_ERROR_DEVICE, "GPU: kernel: never started");
}
static gpumc_status lost(gpumc__joint *joint, gpumc_error *error)
{
    *(double *)joint->result = 1e9;
    return gpumc__fail(error, GPUMC_ERROR_DEVICE, "GPU: kernel: lost");
}
/* If a GPU fails during a run, the CPU takes over, and gpumc_hier_where says so; both where a launch returns no
   result and where none starts. */
static void check_lost(gpumc_hier *hier, const gpumc_model *on_cpu, const double *x, const gpumc_model *model)
{
    static const char *const words[2] = { "CPU: GPU: kernel: lost", "CPU: GPU: kernel: never started" };
    for (int how = 0; how < 2; how++)
        for (int guide = 0; guide < 2; guide++) {
            for (size_t k = 0; k < hier->n_slots; k++) {
                gpumc__joint *joint = hier->all_slots[k].joint[guide];
                if (how) joint->start = never_started;
                else joint->finish = lost;
            }
            hier->where->lost = 0;
            const double worst = apart(on_cpu, model, x, guide);
            CHECK(worst < 1e-14, "%s, guide %d: off by %g", words[how], guide, worst);
            CHECK(!strcmp(gpumc_hier_where(hier), words[how]), "guide %d: %s", guide, gpumc_hier_where(hier));
        }
}
static int sets_of(const gpumc_hier *hier)
{
    int there = 0;
    for (int i = 0; i < 3; i++) there |= (hier->all_slots->hot && hier->all_slots->hot[i]) << i;
    return there;
}
#else
static void check_lost(gpumc_hier *hier, const gpumc_model *on_cpu, const double *x, const gpumc_model *model)
{ (void)hier, (void)on_cpu, (void)x, (void)model; }
/* Without a GPU: the first set that would be on it, from the text of gpumc_hier_where. */
static int sets_of(const gpumc_hier *hier)
{
    const char *where = gpumc_hier_where(hier);
    return strstr(where, "\"normals\": no GPU") ? 2 : strstr(where, "\"mixtures\": no GPU") ? 4 : 0;
}
#endif

/* The sets of rows on the GPU, as bits, if place is left at GPUMC_ANYWHERE: for n_normals normals and n_mixtures
   mixtures of NODES nodes. Densities and guides must agree with those on the CPU. */
static int sets_there(hierarchy *m, size_t n_normals, size_t n_mixtures)
{
    gpumc_error error = { GPUMC_OK, "" };
    double x[64];
    m->rows[1].data.n_rows = n_normals;
    m->rows[2].data.n_rows = m->guide.n_rows = n_mixtures;
    gpumc_hier *hier = gpumc_hier_create(&m->data, &error);
    CHECK(hier != NULL, "%s", error.text);
    const int there = hier ? sets_of(hier) : -1;
    CHECK((there != 0) == (strcmp(gpumc_hier_where(hier), "CPU") != 0), "sets %d: %s", there, gpumc_hier_where(hier));
    m->data.place = GPUMC_ON_CPU;
    gpumc_hier *on_cpu = gpumc_hier_create(&m->data, &error);
    m->data.place = GPUMC_ANYWHERE;
    for (size_t i = 0; i < 64; i++) x[i] = 0.6 + 0.01 * (double)i;
    for (int guide = 0; guide < 2 && hier && on_cpu; guide++) {
        const double worst = apart(gpumc_hier_model(on_cpu), gpumc_hier_model(hier), x, guide);
        CHECK(worst < TOLERANCE, "sets %d there, guide %d: off by %g", there, guide, worst);
    }
    gpumc_hier_free(on_cpu);
    gpumc_hier_free(hier);
    return there;
}
/* The size that decides is the number of rows (of mixtures: rows times nodes) times parameters of a row, two for
   normals and three for mixtures. Cases lie on both sides of the limits. */
static void check_size(const problem *q, const problem *normals)
{
    enum { ALL = 30000, SMALL = 1999 / NODES, ENOUGH = SMALL + 1, MANY = 20000 / NODES + 1 };
    const int both = PLACE == GPUMC_ON_GPU ? 6 : 2;
    problem mixtures;
    hierarchy m;
    double *y = (double *)calloc(ALL, sizeof *y);
    size_t *group = (size_t *)calloc(ALL, sizeof *group);
    const double *column = y;
    problem_make(&mixtures, &device_mixture, MANY, 9, 0, 1, 0);
    hierarchy_make(&m, q, normals, &mixtures);
    m.rows[1].data.columns = &column;
    m.other[0].index = group;
    const size_t rest = (2 * ALL - 3 * ENOUGH * NODES + 1) / 2;
    const struct { size_t normals, mixtures; int there; } cases[] = {
        { ALL, SMALL, 2 }, { ALL - 1, SMALL, 0 }, { rest, ENOUGH, both }, { rest - 1, ENOUGH, 0 },
        { 3000, MANY - ENOUGH + 1, both }, { 2999, MANY - ENOUGH + 1, 0 }, { 2999, MANY, 4 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int there = sets_there(&m, cases[k].normals, cases[k].mixtures);
        CHECK(there == cases[k].there, "%zu normals, %zu mixtures: sets %d on the GPU, not %d", cases[k].normals,
              cases[k].mixtures, there, cases[k].there);
    }
    problem_free(&mixtures);
    free(group);
    free(y);
}

/* The same model at PLACE and on the CPU: values and gradients agree, and draws of one thread and of four. */
static void check_hier(void)
{
    problem q, normals, mixtures;
    hierarchy m, other;
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_rng rng = gpumc_rng_at(10, 0, 0, 0);
    double x[64], unused[64] = { 0 }, worst = 0;
    problem_make(&q, &device_student, 400, 9, 1, 1, 0);
    problem_make(&normals, &device_normal, 60, 9, 0, 0, 0);
    problem_make(&mixtures, &device_mixture, 50, 9, 0, 1, 0);
    hierarchy_make(&m, &q, &normals, &mixtures);
    m.data.place = GPUMC_ON_CPU;
    gpumc_hier *on_cpu = gpumc_hier_create(&m.data, &error);
    CHECK(on_cpu && strcmp(gpumc_hier_where(on_cpu), "CPU") == 0, "%s", error.text);
    hierarchy_make(&other, &q, &normals, &mixtures);
    other.data.place = PLACE;
    gpumc_hier *hier = gpumc_hier_create(&other.data, &error);
    CHECK(hier && strcmp(gpumc_hier_where(hier), PLACE == GPUMC_ON_GPU ? "GPU" : "CPU") == 0, "%s", error.text);
    if (!hier || !on_cpu) return;
    const gpumc_model *const models[2] = { gpumc_hier_model(on_cpu), gpumc_hier_model(hier) };
    const size_t n = gpumc_model_n_values(models[0]);
    for (int k = 0; k < 5; k++) {
        for (size_t i = 0; i < n; i++) x[i] = 0.5 + gpumc_rng_uniform(&rng);
        for (int guide = 0; guide < 2; guide++) worst = check_worst(worst, apart(models[0], models[1], x, guide));
        const double guide = models[0]->guide(x, unused, models[0]->data);
        CHECK(fabs(guide - models[0]->log_density(x, unused, models[0]->data)) > 1e-3, "the guide is the model: %g",
              guide);
    }
    CHECK(n == 22 && worst < TOLERANCE, "%zu values off by %g", n, worst);
    check_shared(models[1]);
    check_lost(hier, models[0], x, models[1]);
    gpumc_hier_free(hier);
    check_size(&q, &normals);

    /* The GPU must refuse a set whose parameters have two indices, and a kind that it was not compiled for. */
    other.takes[1].index = q.group + 1;
    other.rows[0].data.n_rows = other.unweighted.n_rows = 399;
    hier = gpumc_hier_create(&other.data, &error);
    CHECK(refused(hier, &error, "rows \"students\": the GPU takes no rows"), "%s", error.text);
    gpumc_hier_free(hier);
    other.takes[1].index = q.group;
    other.rows[1].data.kind = &device_unknown;
    other.other[0].name = "slope";
    other.other[0].index = NULL;
    other.rows[1].n_takes = 1;
    hier = gpumc_hier_create(&other.data, &error);
    CHECK(refused(hier, &error, "rows \"normals\": GPU: row device_unknown"), "%s", error.text);
    gpumc_hier_free(hier);
    problem_free(&mixtures);
    problem_free(&normals);
    problem_free(&q);
    gpumc_hier_free(on_cpu);
}

#if defined(GPUMC_CUDA)
static void check_refusals(void)
{
    problem q;
    gpumc_error error;
    gpumc_row_kind other = device_normal;
    gpumc_hot *hot;
    problem_make(&q, &device_unknown, 10, 1, 0, 0, 0);
    CHECK(gpumc_hot_rows(&q.data, 1, GPUMC_ON_GPU, &error) == NULL, "%s", error.text);
    CHECK(error.status == GPUMC_ERROR_DEVICE && strstr(error.text, "device_unknown"), "%s", error.text);
    hot = gpumc_hot_rows(&q.data, 1, GPUMC_ANYWHERE, &error);
    CHECK(hot && !strcmp(hot->where, "CPU") && strstr(hot->reason, "device_unknown"), "%s", error.text);
    gpumc_hot_release(hot);
    other.n_shared = 2;
    q.data.kind = &other;
    CHECK(gpumc_hot_rows(&q.data, 1, GPUMC_ON_GPU, &error) == NULL, "%s", error.text);
    CHECK(error.status == GPUMC_ERROR_DEVICE && strstr(error.text, "other numbers"), "%s", error.text);
    other = device_mixture;
    other.n_node_columns = 0;
    q.data.kind = &other;
    CHECK(gpumc_hot_rows(&q.data, 1, GPUMC_ON_GPU, &error) == NULL && strstr(error.text, "other numbers"), "%s",
          error.text);
    q.data.kind = &device_normal;
    hot = gpumc_hot_rows(&q.data, (size_t)-1 / 4, GPUMC_ON_GPU, &error);         /* capped at what a launch takes */
    CHECK(hot != NULL, "%s", error.text);
    gpumc_hot_release(hot);
    problem_free(&q);
}
#else
static void check_refusals(void)
{
    problem q;
    gpumc_error error;
    gpumc_device_info info;
    double p[2] = { 1, 2 }, grad[2], lp;
    gpumc_hot *hot;
    problem_make(&q, &device_normal, 10, 1, 0, 0, 0);
    CHECK(gpumc_device_describe(&info, &error) == GPUMC_ERROR_DEVICE, "%s", error.text);
    CHECK(gpumc_device_describe(NULL, &error) == GPUMC_ERROR_ARGUMENT, "%s", error.text);
    CHECK(gpumc_hot_rows(&q.data, 1, GPUMC_ON_GPU, &error) == NULL, "%s", error.text);
    CHECK(error.status == GPUMC_ERROR_DEVICE && strstr(error.text, "GPUMC_CUDA"), "%s", error.text);
    hot = gpumc_hot_rows(&q.data, 1, GPUMC_ANYWHERE, &error);
    CHECK(hot && !strcmp(hot->where, "CPU") && strstr(hot->reason, "GPUMC_CUDA"), "%s", error.text);
    CHECK(gpumc_hot_eval(hot, 1, p, NULL, &lp, &error) == GPUMC_ERROR_ARGUMENT, "%s", error.text);
    gpumc_hot_release(hot);
    hot = gpumc_hot_rows(&q.data, 1, GPUMC_ON_CPU, &error);
    CHECK(hot && !strcmp(hot->where, "CPU") && !hot->reason[0], "%s", error.text);
    gpumc_hot_release(hot);
    CHECK(gpumc_hot_rows(&q.data, 0, GPUMC_ON_CPU, &error) == NULL && strstr(error.text, "max_points"), "%s",
          error.text);
    CHECK(gpumc_hot_rows(&q.data, 1, (gpumc_place)77, &error) == NULL && strstr(error.text, "place 77"), "%s",
          error.text);
    q.group[3] = 1;
    CHECK(gpumc_hot_rows(&q.data, 1, GPUMC_ON_CPU, &error) == NULL && error.status == GPUMC_ERROR_ARGUMENT,
          "%s", error.text);
    CHECK(gpumc_hot_eval(NULL, 1, p, grad, &lp, &error) == GPUMC_ERROR_ARGUMENT, "%s", error.text);
    gpumc_hot_release(NULL);
    problem_free(&q);
}
#endif

/* gpumc_hot copies the data, refuses bad rows wherever it runs, and omits rows of weight 0. */
static void check_data(void)
{
    static const double x[4] = { 1, 2, 3, 4 }, huge[4] = { 0, 0, 800, 0 }, weights[4] = { 1, 2, 0, 1 };
    double y[4] = { 1, 0, 1, 1 }, p[9] = { 0.1, -0.2, 0.3, 0.4, 0.5 }, grad[2][9] = { { 0 }, { 0 } }, lp[2];
    size_t level[4] = { 0, 1, 2, 0 };
    gpumc_glm_factor factor = { level, 3 };
    gpumc_glm_data d = { .family = GPUMC_GLM_POISSON_LOG, .n_rows = 4, .n_columns = 1, .x = x, .y = y,
                         .factors = &factor, .n_factors = 1, .offset = huge, .weights = weights };
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_hot *hot = gpumc_hot_glm(&d, 2, PLACE, &error);
    CHECK(hot != NULL, "%s", error.text);
    if (!hot) return;
    CHECK(gpumc_hot_eval(hot, 1, p, grad[0], &lp[0], &error) == GPUMC_OK, "%s", error.text);
    CHECK(isfinite(lp[0]) && isfinite(grad[0][0]) && isfinite(grad[0][4]), "a row of weight 0 counts: %g", lp[0]);
    memset(y, 0xff, sizeof y);
    memset(level, 0xff, sizeof level);
    memset(&factor, 0xff, sizeof factor);
    CHECK(gpumc_hot_eval(hot, 1, p, grad[1], &lp[1], &error) == GPUMC_OK, "%s", error.text);
    CHECK(lp[0] == lp[1] && memcmp(grad[0], grad[1], sizeof grad[0]) == 0, "data were not copied: %g, %g", lp[0],
          lp[1]);
    gpumc_hot_release(hot);
    for (int bad = 0; bad < 3; bad++) {
        for (size_t i = 0; i < 4; i++) y[i] = (double)(level[i] = (i == 1));
        factor.level = level;
        factor.n_levels = 3;
        if (bad == 0) y[2] = -1;
        else if (bad == 1) level[2] = 3;
        else y[2] = NAN;
        CHECK(gpumc_hot_glm(&d, 2, PLACE, &error) == NULL && strstr(error.text, "row 2"), "bad row %d: %s", bad,
              error.text);
    }
    CHECK(gpumc_hot_rows(NULL, 1, PLACE, &error) == NULL && strstr(error.text, "gpumc_hot_rows: data is NULL"), "%s",
          error.text);
    problem q;
    problem_make(&q, &device_positive, 20, 2, 0, 1, 0);
    for (size_t i = 0; i < 20; i++) q.columns[0][i] = (double)i - 5, q.weights[i] = i > 5;
    hot = gpumc_hot_rows(&q.data, 1, PLACE, &error);
    CHECK(hot != NULL, "%s", error.text);
    memset(grad, 0, sizeof grad);
    CHECK(hot && gpumc_hot_eval(hot, 1, p, grad[0], lp, &error) == GPUMC_OK && isfinite(lp[0])
          && isfinite(grad[0][0]), "rows of weight 0 where they have no density: %g", lp[0]);
    gpumc_hot_release(hot);
    problem_free(&q);
}

int main(void)
{
    static const size_t sizes[][3] = { { 1, 1, 1 },     { 100, 60, 0 }, { 3000, 400, 0 }, { 600, 300, 1 },
                                       { 20000, 3, 0 }, { 5000, 1, 0 }, { 9000, 900, 0 }, { 1000, 100, 1 } };
    static const size_t columns[] = { 0, 1, 60, 100, 200, 300 };
#if defined(GPUMC_CUDA)
    gpumc_device_info info;
    gpumc_error error = { GPUMC_OK, "" };
    if (gpumc_device_describe(&info, &error) != GPUMC_OK) {
        check_skip(error.text);
        CHECK(error.status == GPUMC_ERROR_DEVICE, "%s", error.text);
        return check_end();
    }
    printf("%s\n", info.name);
#endif
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int form = 0; form < 4; form++) {
            compare(&device_normal, sizes[k][0], sizes[k][1], sizes[k][2] > 0, form & 1, form >> 1);
            compare(&device_student, sizes[k][0], sizes[k][1], sizes[k][2] > 0, form & 1, form >> 1);
            compare(&device_logit, sizes[k][0], sizes[k][1], sizes[k][2] > 0, form & 1, form >> 1);
            compare(&device_shared, sizes[k][0], 1, 0, form & 1, form >> 1);
            compare(&device_mixture, sizes[k][0], sizes[k][1], sizes[k][2] > 0, form & 1, form >> 1);
        }
    check_data();
    check_hier();
    for (int family = 0; family < GPUMC__GLM_N; family++)
        for (int form = 0; form < 4; form++) {
            compare_glm((gpumc_glm_family)family, 1, 7, form);
            compare_glm((gpumc_glm_family)family, 6007, 7, form);       /* 1200 rows a level: blocks add them */
            for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
                compare_glm((gpumc_glm_family)family, 700, columns[k], form);
        }
    check_refusals();
    return check_end();
}
