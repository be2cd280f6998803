/* Section >>glm against a plain loop over rows that calls the library's densities: values and every derivative,
   for all families, precisions, storage orders of X, kinds of factors and instruction sets. Also: derivatives
   against differences; the same bits whatever the number of threads and points; and bad input, named in the
   message. For every tolerance there is a broken variant that must exceed it. */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "check.h"

#define MOST_COLUMNS 40
#define MOST_FACTORS 3
#define MOST_POINTS 5
#define TOLERANCE 1e-13          /* of sums, relative to the sum of the absolute values of their terms */
enum { CROSSED, NESTED, ALONE };
enum { LEVELS_0 = 7, LEVELS_1 = 21, LEVELS_2 = 3, MOST_LEVELS = 21 };

#define NAME(NAME, name, support) #name,
static const char *const family_names[] = { GPUMC_GLM_FAMILIES(NAME) };

/* One data set, in all the forms in which it can be passed. */
typedef struct problem {
    size_t n, K, n_factors;
    gpumc_glm_family family;
    double *row_major, *column_major, *y, *offset, *weights;
    float *row_major_float, *column_major_float;
    size_t *level[MOST_FACTORS];
} problem;

/* Parameters and derivatives in one order: intercept, sigma, nu, phi, beta, effects. */
enum { AT_INTERCEPT, AT_SIGMA, AT_NU, AT_PHI, AT_BETA, AT_EFFECTS = AT_BETA + MOST_COLUMNS,
       N_VALUES = AT_EFFECTS + MOST_FACTORS * MOST_LEVELS };
typedef struct values { double v[N_VALUES]; } values;

static void *must(void *memory)
{
    if (memory) return memory;
    printf("out of memory\n");
    exit(1);
}

static double draw(gpumc_rng *rng, gpumc_glm_family family)
{
    switch (family) {
    case GPUMC_GLM_BERNOULLI_LOGIT: return gpumc_rng_uniform(rng) < 0.4;
    case GPUMC_GLM_POISSON_LOG:
    case GPUMC_GLM_NEG_BINOMIAL_2_LOG: return floor(-4 * log(gpumc_rng_uniform(rng)));
    default: return 3 * gpumc_rng_normal(rng);
    }
}

/* All elements of X are exact in single precision, so that every form holds the same data. */
static problem make_problem(gpumc_glm_family family, size_t n, size_t K, int factors)
{
    gpumc_rng rng = gpumc_rng_at(7, (uint32_t)n, (uint32_t)K, (uint32_t)family);
    problem p;
    memset(&p, 0, sizeof p);
    p.n = n;
    p.K = K;
    p.family = family;
    p.n_factors = factors == ALONE ? 0 : MOST_FACTORS;
    p.row_major = (double *)must(malloc((2 * n * K + 3 * n + 1) * sizeof(double)));
    p.column_major = p.row_major + n * K;
    p.y = p.column_major + n * K;
    p.offset = p.y + n;
    p.weights = p.offset + n;
    p.row_major_float = (float *)must(malloc((2 * n * K + 1) * sizeof(float)));
    p.column_major_float = p.row_major_float + n * K;
    p.level[0] = (size_t *)must(malloc(3 * n * sizeof(size_t)));
    p.level[1] = p.level[0] + n;
    p.level[2] = p.level[1] + n;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < K; k++) {
            const float x = (float)(0.3 * gpumc_rng_normal(&rng));
            p.row_major_float[i * K + k] = p.column_major_float[k * n + i] = x;
            p.row_major[i * K + k] = p.column_major[k * n + i] = (double)x;
        }
        p.y[i] = draw(&rng, family);
        p.offset[i] = 0.5 * gpumc_rng_normal(&rng);
        p.weights[i] = i % 11 == 3 ? 0 : 2 * gpumc_rng_uniform(&rng);
        p.level[1][i] = (size_t)(gpumc_rng_uniform(&rng) * LEVELS_1);
        p.level[0][i] = factors == NESTED ? p.level[1][i] / 3 : (size_t)(gpumc_rng_uniform(&rng) * LEVELS_0);
        p.level[2][i] = i * LEVELS_2 / n;
    }
    return p;
}

static void free_problem(const problem *p)
{
    free(p->row_major);
    free(p->row_major_float);
    free(p->level[0]);
}

static values make_values(unsigned seed)
{
    gpumc_rng rng = gpumc_rng_at(11, seed, 0, 0);
    values v;
    for (size_t j = 0; j < N_VALUES; j++) v.v[j] = 0.4 * gpumc_rng_normal(&rng);
    v.v[AT_SIGMA] = 1.7;
    v.v[AT_NU] = 4.5;
    v.v[AT_PHI] = 2.25 + seed;
    return v;
}

/* ---- the plain loop ---------------------------------------------------------------------------------- */
static const size_t n_levels[MOST_FACTORS] = { LEVELS_0, LEVELS_1, LEVELS_2 };

static double plain_row(gpumc_glm_family family, double y, double eta, const double *v, double *deta,
                        double *g)
{
    switch (family) {
    case GPUMC_GLM_NORMAL: return gpumc_normal_lpdf(y, eta, v[AT_SIGMA], NULL, deta, &g[AT_SIGMA]);
    case GPUMC_GLM_BERNOULLI_LOGIT: return gpumc_bernoulli_logit_lpmf(y, eta, deta);
    case GPUMC_GLM_POISSON_LOG: return gpumc_poisson_log_lpmf(y, eta, deta);
    case GPUMC_GLM_NEG_BINOMIAL_2_LOG:
        return gpumc_neg_binomial_2_log_lpmf(y, eta, v[AT_PHI], deta, &g[AT_PHI]);
    default:
        return gpumc_student_t_lpdf(y, v[AT_NU], eta, v[AT_SIGMA], NULL, &g[AT_NU], deta, &g[AT_SIGMA]);
    }
}

static double plain_eta(const problem *p, const gpumc_glm_data *d, const double *v, size_t i)
{
    double eta = v[AT_INTERCEPT] + (d->offset ? d->offset[i] : 0);
    for (size_t k = 0; k < p->K; k++) eta += p->row_major[i * p->K + k] * v[AT_BETA + k];
    for (size_t f = 0; f < p->n_factors; f++) eta += v[AT_EFFECTS + f * MOST_LEVELS + p->level[f][i]];
    return eta;
}

static void plain_add(double *sum, double *size, double term)
{
    *sum += term;
    *size += fabs(term);
}

/* Returns the value; sets the derivatives, and for all of these the sums of the absolute values of their terms. */
static double plain_eval(const problem *p, const gpumc_glm_data *d, const double *v, values *g, values *size,
                         double *value_size, double *rows)
{
    double value = 0;
    memset(g, 0, sizeof *g);
    memset(size, 0, sizeof *size);
    *value_size = 0;
    for (size_t i = 0; i < p->n; i++) {
        const double w = d->weights ? d->weights[i] : 1;
        double deta = 0, own[AT_BETA] = { 0, 0, 0, 0 };
        rows[i] = plain_row(p->family, p->y[i], plain_eta(p, d, v, i), v, &deta, own);
        plain_add(&value, value_size, w * rows[i]);
        own[AT_INTERCEPT] = deta;
        for (size_t j = 0; j < AT_BETA; j++) plain_add(&g->v[j], &size->v[j], w * own[j]);
        for (size_t k = 0; k < p->K; k++)
            plain_add(&g->v[AT_BETA + k], &size->v[AT_BETA + k], w * deta * p->row_major[i * p->K + k]);
        for (size_t f = 0; f < p->n_factors; f++) {
            const size_t j = AT_EFFECTS + f * MOST_LEVELS + p->level[f][i];
            plain_add(&g->v[j], &size->v[j], w * deta);
        }
    }
    return value;
}

/* ---- the library's ------------------------------------------------------------------------------------- */
typedef struct form { int is_float, is_column_major, single_precision, has_offset, has_weights; } form;

static gpumc_glm_data describe(const problem *p, gpumc_glm_factor *factors, form how, gpumc_isa isa)
{
    gpumc_glm_data d;
    memset(&d, 0, sizeof d);
    d.family = p->family;
    d.n_rows = p->n;
    d.n_columns = p->K;
    if (p->K && how.is_float) d.x_float = how.is_column_major ? p->column_major_float : p->row_major_float;
    else if (p->K) d.x = how.is_column_major ? p->column_major : p->row_major;
    d.column_major = how.is_column_major;
    d.y = p->y;
    if (how.has_offset) d.offset = p->offset;
    if (how.has_weights) d.weights = p->weights;
    for (size_t f = 0; f < p->n_factors; f++) {
        factors[f].level = p->level[f];
        factors[f].n_levels = n_levels[f];
    }
    d.factors = p->n_factors ? factors : NULL;
    d.n_factors = p->n_factors;
    d.single_precision = how.single_precision;
    d.isa = isa;
    return d;
}

static gpumc_glm *compile(const gpumc_glm_data *d, void **memory)
{
    gpumc_error error = { GPUMC_OK, "" };
    const size_t bytes = gpumc_glm_bytes(d, &error);
    gpumc_glm *glm;
    *memory = must(malloc(bytes + 1));
    glm = gpumc_glm_init(d, *memory, bytes, &error);
    CHECK(glm, "%s", error.text);
    if (!glm) exit(check_end());
    return glm;
}

typedef struct pointers {
    const double *effects[MOST_FACTORS];
    double *by_effects[MOST_FACTORS];
    gpumc_glm_point at;
    gpumc_glm_gradient to;
} pointers;

static void point_at(pointers *s, const double *v, double *g)
{
    const gpumc_glm_point at = { &v[AT_INTERCEPT], &v[AT_BETA], s->effects, &v[AT_SIGMA], &v[AT_NU],
                                 &v[AT_PHI] };
    const gpumc_glm_gradient to = { &g[AT_INTERCEPT], &g[AT_BETA], s->by_effects, &g[AT_SIGMA], &g[AT_NU],
                                    &g[AT_PHI] };
    for (size_t f = 0; f < MOST_FACTORS; f++) {
        s->effects[f] = &v[AT_EFFECTS + f * MOST_LEVELS];
        s->by_effects[f] = &g[AT_EFFECTS + f * MOST_LEVELS];
    }
    s->at = at;
    s->to = to;
}

static double evaluate(const gpumc_glm *glm, const double *v, double *g, double *work)
{
    pointers s;
    point_at(&s, v, g);
    return gpumc_glm_eval(glm, &s.at, &s.to, work);
}

/* Work filled with NaN, so that reading before writing shows. */
static double *work_of(const gpumc_glm *glm, size_t n_points, size_t n_threads)
{
    const size_t n = gpumc_glm_work(glm, n_points, n_threads);
    double *work = (double *)must(malloc(n * sizeof *work));
    for (size_t i = 0; i < n; i++) work[i] = NAN;
    return work;
}

/* Largest error in units of the tolerance; `broken` is a relative error added to one derivative. */
static double worst_error(const gpumc_glm *glm, const problem *p, const gpumc_glm_data *d, double broken)
{
    const values v = make_values(1);
    values g, known, size;
    pointers s;
    double *work = work_of(glm, 1, 1);
    double *rows = (double *)must(malloc(2 * p->n * sizeof(double))), *own = rows + p->n;
    double value, value_size, worst;
    const double known_value = plain_eval(p, d, v.v, &known, &size, &value_size, rows);
    for (size_t j = 0; j < N_VALUES; j++) g.v[j] = 1;                     /* derivatives are added */
    value = evaluate(glm, v.v, g.v, work);
    g.v[p->K ? AT_BETA + p->K - 1 : 0] += broken * (size.v[p->K ? AT_BETA + p->K - 1 : 0] + 1);
    worst = fabs(value - known_value) / (value_size * TOLERANCE);
    for (size_t j = 0; j < N_VALUES; j++)
        if (g.v[j] - 1 != known.v[j]) {
            const double off = fabs(g.v[j] - 1 - known.v[j]);
            worst = check_worst(worst, off / ((size.v[j] + 1) * TOLERANCE));
        }
    point_at(&s, v.v, g.v);
    gpumc_glm_pointwise(glm, &s.at, own, work);
    for (size_t i = 0; i < p->n; i++) worst = check_worst(worst, check_distance(own[i], rows[i], 1) / TOLERANCE);
    free(work);
    free(rows);
    return worst;
}

/* ---- values and gradients ------------------------------------------------------------------------------ */
static double test_form(const problem *p, form how, gpumc_isa isa)
{
    gpumc_glm_factor factors[MOST_FACTORS];
    const gpumc_glm_data d = describe(p, factors, how, isa);
    void *memory;
    const gpumc_glm *glm = compile(&d, &memory);
    const double error = worst_error(glm, p, &d, 0), broken = worst_error(glm, p, &d, 2e-13);
    CHECK(error <= 1, "%s %zu x %zu, %zu factors, form %d%d%d%d%d, %s: %g times the tolerance",
          family_names[p->family], p->n, p->K, p->n_factors, how.is_float, how.is_column_major,
          how.single_precision, how.has_offset, how.has_weights, gpumc_isa_name(isa), error);
    CHECK(broken > 1, "a derivative that is wrong by 2e-13 was accepted: %g", broken);
    free(memory);
    return error;
}

static void test_values(gpumc_isa isa)
{
    static const size_t sizes[][2] = { { 1, 1 }, { 7, 3 }, { 100, 4 }, { 1000, 0 }, { 3001, 9 },
                                       { 700, 38 } };
    double worst = 0;
    for (int family = 0; family < GPUMC__GLM_N; family++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int factors = CROSSED; factors <= ALONE; factors++) {
                const problem p = make_problem((gpumc_glm_family)family, sizes[s][0], sizes[s][1], factors);
                for (int bits = 0; bits < 32; bits++) {
                    const form how = { bits & 1, bits >> 1 & 1, bits >> 4 & 1, bits >> 2 & 1, bits >> 3 & 1 };
                    if (s < 4 || bits % 9 == factors) worst = check_worst(worst, test_form(&p, how, isa));
                }
                free_problem(&p);
            }
    printf("%s: largest error %.2g of the tolerance\n", gpumc_isa_name(isa), worst);
}

/* Every derivative against central differences; with a step of 1e-5 their truncation error is of order 1e-10. */
static void test_differences(void)
{
    for (int family = 0; family < GPUMC__GLM_N; family++) {
        const problem p = make_problem((gpumc_glm_family)family, 50, 3, CROSSED);
        const form how = { 0, 0, 0, 1, 1 };
        gpumc_glm_factor factors[MOST_FACTORS];
        const gpumc_glm_data d = describe(&p, factors, how, GPUMC_ISA_AUTO);
        void *memory;
        const gpumc_glm *glm = compile(&d, &memory);
        double *work = work_of(glm, 1, 1);
        values g, unused, v = make_values(2);
        memset(&g, 0, sizeof g);
        evaluate(glm, v.v, g.v, work);
        for (size_t j = 0; j < N_VALUES; j++) {
            const double here = v.v[j], step = 1e-5;
            double above, below;
            v.v[j] = here + step;
            above = evaluate(glm, v.v, unused.v, work);
            v.v[j] = here - step;
            below = evaluate(glm, v.v, unused.v, work);
            v.v[j] = here;
            CHECK(check_distance(g.v[j], (above - below) / (2 * step), 1) < 2e-7,
                  "%s: derivative %zu: %g, %g", family_names[family], j, g.v[j],
                  (above - below) / (2 * step));
        }
        free(work);
        free(memory);
        free_problem(&p);
    }
}

/* Extreme linear predictors: no NaN where the density has a value, and the correct slope of its tail. */
static void test_extremes(void)
{
    static const double y[] = { 1, 0, 1, 0 }, offset[] = { 800, -800, -800, 800 };
    static const double counts[] = { 0, 3, 1e6, 1e9 }, logs[] = { -800, 2, 13.8, 20.7 };
    static const double zero = 0, large = 1e8;
    const gpumc_glm_point at = { &zero, NULL, NULL, NULL, NULL, &large };
    gpumc_glm_data d;
    double work[8192], slope = 0, by_phi = 0, known = 0, known_slope = 0, known_phi = 0, value;
    const gpumc_glm_gradient to = { &slope, NULL, NULL, NULL, NULL, &by_phi };
    void *memory;
    const gpumc_glm *glm;
    memset(&d, 0, sizeof d);
    d.family = GPUMC_GLM_BERNOULLI_LOGIT;
    d.n_rows = 4;
    d.y = y;
    d.offset = offset;
    glm = compile(&d, &memory);
    CHECK(gpumc_glm_work(glm, 1, 1) <= 8192, "work");
    value = gpumc_glm_eval(glm, &at, &to, work);
    CHECK(value == -1600 && slope == 0, "bernoulli at +-800: %g, slope %g", value, slope);
    free(memory);
    d.family = GPUMC_GLM_NEG_BINOMIAL_2_LOG;
    d.y = counts;
    d.offset = logs;
    glm = compile(&d, &memory);
    value = gpumc_glm_eval(glm, &at, &to, work);
    for (int i = 0; i < 4; i++)
        known += gpumc_neg_binomial_2_log_lpmf(counts[i], logs[i], large, &known_slope, &known_phi);
    CHECK(check_distance(value, known, 1) < 1e-9, "phi 1e8: %.17g, known %.17g", value, known);
    CHECK(check_distance(slope, known_slope, 1) < 1e-9, "phi 1e8: slope %g, known %g", slope, known_slope);
    CHECK(check_distance(by_phi, known_phi, 1) < 1e-7, "phi 1e8: by phi %g, known %g", by_phi, known_phi);
    free(memory);
}

/* A batch of no points is allowed. */
static void test_no_points(void)
{
    const double x[3] = { 1, 2, 3 }, y[3] = { 0, 1, 2 };
    const gpumc_glm_data d = { .family = GPUMC_GLM_NORMAL, .n_rows = 3, .n_columns = 1, .x = x, .y = y };
    void *memory;
    const gpumc_glm *glm = compile(&d, &memory);
    double *work = work_of(glm, 1, 1);
    gpumc_glm_eval_batch(glm, 0, NULL, NULL, NULL, work, NULL);
    CHECK(work != NULL, "no work");
    free(work);
    free(memory);
}

/* ---- the same bits, however a pass is shared out ----------------------------------------------------- */
static void eval_on_threads(const gpumc_glm *glm, size_t n, const gpumc_glm_point *at,
                            const gpumc_glm_gradient *to, size_t n_threads, double *lp)
{
    double *work = work_of(glm, n, n_threads);
    gpumc_team *team = n_threads > 1 ? (gpumc_team *)must(gpumc_team_start((int)n_threads, NULL)) : NULL;
    gpumc_glm_eval_batch(glm, n, at, to, lp, work, team);
    gpumc_team_stop(team);
    free(work);
}

static void test_bits_of(const problem *p, form how, gpumc_isa isa)
{
    gpumc_glm_factor factors[MOST_FACTORS];
    const gpumc_glm_data d = describe(p, factors, how, isa);
    void *memory;
    const gpumc_glm *glm = compile(&d, &memory);
    double *work = work_of(glm, 1, 1);
    values v[MOST_POINTS], alone[MOST_POINTS], batch[MOST_POINTS];
    gpumc_glm_point at[MOST_POINTS];
    gpumc_glm_gradient to[MOST_POINTS];
    pointers s[MOST_POINTS];
    double lp_alone[MOST_POINTS], lp[MOST_POINTS];
    memset(alone, 0, sizeof alone);
    for (unsigned i = 0; i < MOST_POINTS; i++) {
        v[i] = make_values(i);
        lp_alone[i] = evaluate(glm, v[i].v, alone[i].v, work);
        point_at(&s[i], v[i].v, batch[i].v);
        at[i] = s[i].at;
        to[i] = s[i].to;
    }
    for (size_t n = 1; n <= MOST_POINTS; n++)
        for (size_t n_threads = 1; n_threads <= 16; n_threads += 3) {
            memset(batch, 0, sizeof batch);
            eval_on_threads(glm, n, at, to, n_threads, lp);
            CHECK(!memcmp(lp, lp_alone, n * sizeof *lp) && !memcmp(batch, alone, n * sizeof *batch),
                  "%s, %s: %zu points on %zu threads differ", family_names[p->family], gpumc_isa_name(isa), n,
                  n_threads);
        }
    lp_alone[0] *= 1 + 2 * DBL_EPSILON;
    CHECK(memcmp(lp, lp_alone, sizeof *lp) != 0, "a changed bit was not seen");
    CHECK(glm->n_chunks > 5, "only %zu chunks", glm->n_chunks);
    free(work);
    free(memory);
}

static void test_bits(gpumc_isa isa)
{
    for (int family = 0; family < GPUMC__GLM_N; family++) {
        const problem p = make_problem((gpumc_glm_family)family, 8003, 21, CROSSED);
        const form plain = { 0, 0, 0, 0, 0 }, full = { 1, 1, 0, 1, 1 };
        test_bits_of(&p, plain, isa);
        test_bits_of(&p, full, isa);
        free_problem(&p);
    }
}

/* ---- parameters left out ------------------------------------------------------------------------------- */
static void test_parts_left_out(void)
{
    const problem p = make_problem(GPUMC_GLM_NORMAL, 30, 2, CROSSED);
    const form how = { 0, 0, 0, 0, 0 };
    gpumc_glm_factor factors[MOST_FACTORS];
    const gpumc_glm_data d = describe(&p, factors, how, GPUMC_ISA_AUTO);
    void *memory;
    const gpumc_glm *glm = compile(&d, &memory);
    double *work = work_of(glm, 1, 1), expected = 0;
    const double sigma = 2, negative = -1;
    gpumc_glm_point at;
    gpumc_glm_gradient to;
    memset(&at, 0, sizeof at);
    memset(&to, 0, sizeof to);
    at.sigma = &sigma;
    for (size_t i = 0; i < p.n; i++) expected += gpumc_normal_lpdf(p.y[i], 0, 2, NULL, NULL, NULL);
    CHECK(check_distance(gpumc_glm_eval(glm, &at, &to, work), expected, 1) < 1e-13, "nothing but sigma");
    CHECK(check_distance(gpumc_glm_eval(glm, &at, NULL, work), expected, 1) < 1e-13, "no gradient");
    at.sigma = &negative;
    CHECK(isnan(gpumc_glm_eval(glm, &at, &to, work)), "a negative sigma is NaN");
    at.sigma = NULL;
    CHECK(isnan(gpumc_glm_eval(glm, &at, &to, work)), "a missing sigma is NaN");
    free(work);
    free(memory);
    free_problem(&p);
}

/* ---- bad input ----------------------------------------------------------------------------------- */
static void refused(const gpumc_glm_data *d, const char *text)
{
    gpumc_error error = { GPUMC_OK, "" };
    const size_t bytes = gpumc_glm_bytes(d, &error);
    void *memory = must(malloc(bytes + 1));
    CHECK(!gpumc_glm_init(d, memory, bytes, &error), "accepted where \"%s\" was expected", text);
    CHECK(error.status == GPUMC_ERROR_ARGUMENT && strstr(error.text, text), "\"%s\" instead of \"%s\"",
          error.text, text);
    free(memory);
}

static void test_bad_input(void)
{
    problem p = make_problem(GPUMC_GLM_BERNOULLI_LOGIT, 40, 3, CROSSED);
    const form how = { 0, 0, 0, 1, 1 };
    gpumc_glm_factor factors[MOST_FACTORS];
    const gpumc_glm_data good = describe(&p, factors, how, GPUMC_ISA_AUTO);
    gpumc_glm_data d = good;
    gpumc_error error;
    char memory[64];
#define BAD(change, undo, text) change; refused(&d, text); undo; d = good
    refused(NULL, "data is NULL");
    BAD(d.family = (gpumc_glm_family)17, (void)0, "family is unknown");
    BAD(d.n_rows = 0, (void)0, "no rows");
    BAD(d.y = NULL, (void)0, "no rows");
    BAD(d.x_float = p.row_major_float, (void)0, "both x and x_float");
    BAD(d.x = NULL, (void)0, "contradict");
    BAD(d.n_columns = 0, (void)0, "contradict");
    BAD(d.factors = NULL, (void)0, "factors and n_factors belong together");
    BAD(factors[1].level = NULL, factors[1].level = p.level[1], "factor 1: level is NULL");
    BAD(factors[1].n_levels = 0, factors[1].n_levels = LEVELS_1, "n_levels, 0,");
    BAD(factors[2].n_levels = 2, factors[2].n_levels = LEVELS_2, "level of factor 2 is 2 in row 27 (from 0)");
    BAD(p.y[5] = 0.5, p.y[5] = 1, "y is 0.5 in row 5 (from 0); it must be 0 or 1");
    BAD(p.y[5] = NAN, p.y[5] = 1, "in row 5");
    BAD((d.family = GPUMC_GLM_POISSON_LOG, p.y[8] = -1), p.y[8] = 1, "must be 0, 1, 2, ...");
    BAD((d.family = GPUMC_GLM_NORMAL, p.y[9] = INFINITY), p.y[9] = 1, "must be a finite number");
    BAD(p.row_major[7] = NAN, p.row_major[7] = 1, "x in column 1 is nan in row 2");
    BAD(p.row_major[8] = INFINITY, p.row_major[8] = 1, "x in column 2 is inf in row 2");
    BAD((d.single_precision = 1, p.row_major[8] = 1e300), p.row_major[8] = 1, "finite in single precision");
    BAD(p.weights[3] = -1, p.weights[3] = 1, "weight is -1 in row 3");
    d = good;
    d.family = GPUMC_GLM_POISSON_LOG;
    p.weights[3] = 0;
    p.y[3] = 1e306;                         /* log y! overflows */
    const size_t bytes = gpumc_glm_bytes(&d, &error);
    void *room = must(malloc(bytes));
    const gpumc_glm *light = gpumc_glm_init(&d, room, bytes, &error);
    CHECK(light && light->constant - light->constant == 0, "%s", light ? "a row of weight 0 counts" : error.text);
    free(room);
    p.weights[3] = p.y[3] = 1;
    d = good;
    BAD(p.weights[3] = NAN, p.weights[3] = 1, "weight is nan in row 3");
    BAD(p.offset[4] = INFINITY, p.offset[4] = 1, "offset is inf in row 4");
    BAD(d.n_rows = SIZE_MAX / 2, (void)0, "overflow");
    BAD(d.n_rows = d.n_columns = SIZE_MAX, (void)0, "overflow");
#undef BAD
    CHECK(!gpumc_glm_init(&good, memory, sizeof memory, &error), "short memory");
    CHECK(strstr(error.text, "gpumc_glm_init: memory must") != NULL, "%s", error.text);
    CHECK(!gpumc_glm_init(&good, NULL, 1 << 20, &error) && strstr(error.text, "not 0"), "no memory");
    d.family = (gpumc_glm_family)-1;
    CHECK(gpumc_glm_bytes(&d, NULL) == 0, "without an error to fill");
    free_problem(&p);
}

int main(void)
{
    test_no_points();
    const gpumc_isa best = gpumc_isa_resolve(GPUMC_ISA_AVX512);
    for (int isa = GPUMC_ISA_BASELINE; isa <= (int)best; isa++) {
        test_values((gpumc_isa)isa);
        test_bits((gpumc_isa)isa);
    }
    test_differences();
    test_extremes();
    test_parts_left_out();
    test_bad_input();
    return check_end();
}
