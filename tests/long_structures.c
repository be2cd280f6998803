/* Simulation-based calibration over structures: hierarchies are put together at random, of blocks with populations
   that have any kind of location, scale, link or correlation, walks and series among them, and of sets of rows that
   take one to three blocks by random indices. Each is drawn from its own prior, with data given that, and fitted with
   default options. The rank of one true value of each block, and of the log density, must be uniform.

   Ranks are pooled by the role of the block; with 16 p-values the false-alarm rate of an arbitrary seed is below
   0.01. Data of elements that lie farther out than declared must be caught. Few runs may end in warnings. */
#include "../gpumc.h"
#include "check.h"
#include "ranks.h"

enum { N_STRUCTURES = 300, N_BROKEN = 60, MAX_BLOCKS = 40, MAX_SETS = 4, MAX_ROWS = 800,
       MAX_VALUES = 2000, MAX_ELEMENTS = 80, N_FAMILIES = 3 };

/* ---- rows: normal, Bernoulli and Poisson data of p[0], p[0] + x[1] p[1], or p[0] + x[1] p[1] + p[2] ---- */
#define TERMS_1 p[0]
#define TERMS_2 (p[0] + x[1] * p[1])
#define TERMS_3 (p[0] + x[1] * p[1] + p[2])
#define PULL_1 g[0] += d
#define PULL_2 g[0] += d, g[1] += d * x[1]
#define PULL_3 g[0] += d, g[1] += d * x[1], g[2] += d
#define ROW(name, n, shared, columns, log_density) \
    GPUMC_ROW(name##_##n, n, shared, columns) \
    { \
        gpumc_real d = 0; \
        const gpumc_real lp = log_density; \
        PULL_##n; \
        return lp; \
    }
#define MAKER(name, n, value) \
    static void make_##name##_##n(const double *p, const double *x, gpumc_rng *rng, double *y) \
    { (void)x, *y = value; }
#define FAMILIES(n, columns) \
    ROW(normal, n, 1, columns, gpumc_normal_lpdf(x[0], TERMS_##n, p[n], NULL, &d, &g[n])) \
    ROW(binary, n, 0, columns, gpumc_bernoulli_logit_lpmf(x[0], TERMS_##n, &d)) \
    ROW(count, n, 0, columns, gpumc_poisson_log_lpmf(x[0], TERMS_##n, &d)) \
    MAKER(normal, n, TERMS_##n + p[n] * gpumc_rng_normal(rng)) \
    MAKER(binary, n, gpumc_rng_uniform(rng) < gpumc_inv_logit(TERMS_##n)) \
    MAKER(count, n, gpumc_poisson_rng(rng, fmin(exp(TERMS_##n), 1e6)))
FAMILIES(1, 1)
FAMILIES(2, 2)
FAMILIES(3, 2)
static const gpumc_row_kind *const row_kinds[N_FAMILIES][3] = {
    { &normal_1, &normal_2, &normal_3 }, { &binary_1, &binary_2, &binary_3 }, { &count_1, &count_2, &count_3 } };
static void (*const makers[N_FAMILIES][3])(const double *, const double *, gpumc_rng *, double *) = {
    { make_normal_1, make_normal_2, make_normal_3 }, { make_binary_1, make_binary_2, make_binary_3 },
    { make_count_1, make_count_2, make_count_3 } };

/* ---- a structure ---------------------------------------------------------------------------------- */
typedef enum role { LOCATION, SCALE, NOISE, ELEMENT, SERIES, CORRELATION, COEFFICIENT, DENSITY, N_ROLES } role;
static const char *const role_names[N_ROLES] = { "locations", "scales", "noises", "elements", "series' coefficients",
                                                 "correlations", "regression coefficients", "log density" };

typedef struct structure {
    gpumc_rng rng;
    gpumc_param params[MAX_BLOCKS];
    gpumc_prior priors[MAX_BLOCKS];
    role roles[MAX_BLOCKS];
    char names[MAX_BLOCKS][12];
    size_t dims[MAX_BLOCKS][2], n_params, n_priors;
    size_t index[MAX_BLOCKS][2][MAX_ELEMENTS];              /* of locations and scales */
    double covariates[MAX_BLOCKS][3 * MAX_ELEMENTS];
    size_t open[MAX_BLOCKS], n_open;                        /* populations that no rows take so far */
    gpumc_hier_rows rows[MAX_SETS];
    gpumc_hier_take takes[MAX_SETS][4];
    size_t taken[MAX_SETS][3][MAX_ROWS], n_sets;
    double y[MAX_SETS][MAX_ROWS], x[MAX_SETS][MAX_ROWS];
    const double *columns[MAX_SETS][2];
    char outputs[MAX_SETS][12];
} structure;

static size_t any(structure *s, size_t n) { return gpumc_rng_below(&s->rng, n); }
static int one_in(structure *s, size_t n) { return any(s, n) == 0; }

static gpumc_param *add(structure *s, const char *name, gpumc_kind kind, size_t size, role of)
{
    gpumc_param *p = &s->params[s->n_params];
    snprintf(s->names[s->n_params], sizeof *s->names, "%s%d", name, (int)s->n_params);
    memset(p, 0, sizeof *p);
    p->name = s->names[s->n_params];
    p->kind = kind;
    p->size = size;
    s->roles[s->n_params++] = of;
    return p;
}
static gpumc_param *with_prior(structure *s, gpumc_param *p, gpumc_prior_family *family, double a, double b)
{
    const gpumc_prior prior = { p->name, family, a, b, 0 };
    s->priors[s->n_priors++] = prior;
    return p;
}
static gpumc_param *add_location(structure *s, size_t n)
{
    const double mean = 2 * gpumc_rng_uniform(&s->rng) - 1, sd = 0.3 + gpumc_rng_uniform(&s->rng);
    return with_prior(s, add(s, "mu", GPUMC_UNBOUNDED, n, LOCATION), gpumc_prior_normal, mean, sd);
}
static gpumc_param *add_scale(structure *s, size_t n)
{
    gpumc_prior_family *const families[] = { gpumc_prior_half_normal, gpumc_prior_half_normal,
                                             gpumc_prior_exponential, gpumc_prior_lognormal, gpumc_prior_gamma };
    const double a[] = { 1, 0.3, 1.5, -0.5, 2 }, b[] = { 0, 0, 0, 0.7, 2 };
    const size_t k = any(s, 5);
    return with_prior(s, add(s, "tau", GPUMC_POSITIVE, n, SCALE), families[k], a[k], b[k]);
}

/* Two or three correlated blocks. */
static void add_correlated(structure *s, size_t n)
{
    const size_t K = 2 + any(s, 2);
    const gpumc_param *location[3], *scale[3];
    for (size_t i = 0; i < K; i++) {
        location[i] = add_location(s, 1);
        scale[i] = add_scale(s, 1);
    }
    size_t *dims = s->dims[s->n_params];
    gpumc_param *L = add(s, "L", GPUMC_CHOLESKY_CORR, 0, CORRELATION);
    dims[0] = dims[1] = K;
    L->dims = dims;
    L->n_dims = 2;
    with_prior(s, L, gpumc_prior_lkj_corr_cholesky, 0.7 + 2 * gpumc_rng_uniform(&s->rng), 0);
    for (size_t i = 0; i < K; i++) {
        s->open[s->n_open++] = s->n_params;
        gpumc_param *p = add(s, "u", one_in(s, 4) ? GPUMC_POSITIVE : GPUMC_UNBOUNDED, n, ELEMENT);
        p->location = location[i]->name;
        p->scale = scale[i]->name;
        p->factor = L->name;
    }
}

static const size_t *some_index(structure *s, size_t *index, size_t n, size_t of)
{
    for (size_t i = 0; i < n; i++) index[i] = any(s, of);
    return n == of ? NULL : index;
}

/* A population with a location of its own, one of several by index, another population or none, and likewise a
   scale; it may be a walk, or several, a stationary series, or regressed on covariates. last: the last one. */
static const gpumc_param *add_population(structure *s, size_t n, const gpumc_param *last, const gpumc_param **shared)
{
    const size_t form = any(s, 6), several = 2 + any(s, 4);
    const int walks = form < 2 && n > 2;
    const gpumc_param *location = NULL, *scale, *phi = NULL, *beta = NULL;
    const size_t *by_location = NULL, *by_scale = NULL;
    size_t(*index)[MAX_ELEMENTS] = s->index[s->n_params];
    const int choice = (int)any(s, 5);
    if (choice == 0 && !walks) by_location = some_index(s, index[0], n, (location = add_location(s, several))->size);
    else if (choice == 1 && !walks && last) by_location = some_index(s, index[0], n, (location = last)->size);
    else if (choice > 1) location = add_location(s, 1);
    if (*shared && one_in(s, 4)) scale = *shared;
    else if (one_in(s, 4)) by_scale = some_index(s, index[1], n, (scale = add_scale(s, 2 + any(s, 2)))->size);
    else scale = *shared = add_scale(s, 1);
    if (form == 1 && walks && location && scale->size == 1)
        phi = with_prior(s, add(s, "phi", GPUMC_UNIT, 0, SERIES), gpumc_prior_beta, 2, 1.5);
    if (form == 2) beta = with_prior(s, add(s, "beta", GPUMC_UNBOUNDED, 1 + any(s, 3), COEFFICIENT),
                                     gpumc_prior_normal, 0, 0.7);
    const gpumc_kind kind = !one_in(s, 5) ? GPUMC_UNBOUNDED : one_in(s, 2) ? GPUMC_POSITIVE : GPUMC_UNIT;
    const size_t at = s->n_params;
    gpumc_param *p = add(s, "theta", kind, n, ELEMENT);
    p->location = location ? location->name : NULL;
    p->location_index = by_location;
    p->scale = scale->name;
    p->scale_index = by_scale;
    p->walk_dim = (size_t)walks;
    p->walk_coefficient = phi ? phi->name : NULL;
    if (walks && n % 2 == 0 && n > 4 && one_in(s, 2)) {
        s->dims[at][0] = n / 2;
        s->dims[at][1] = 2;
        p->dims = s->dims[at];
        p->n_dims = 2;
    }
    for (size_t i = 0; beta && i < n * beta->size; i++) s->covariates[at][i] = gpumc_rng_normal(&s->rng);
    if (beta) {
        p->covariates = s->covariates[at];
        p->n_covariates = beta->size;
        p->coefficients = beta->name;
    }
    s->open[s->n_open++] = at;
    return kind == GPUMC_UNBOUNDED ? p : last;
}

/* A set of rows that takes the last n of the open blocks. */
static void add_rows(structure *s, size_t n)
{
    const size_t q = s->n_sets++, family = any(s, N_FAMILIES), each = 1 + any(s, one_in(s, 3) ? 1 : 12);
    size_t n_rows = 0;
    gpumc_hier_rows *r = &s->rows[q];
    for (size_t t = 0; t < n; t++) n_rows = n_rows > s->params[s->open[s->n_open - 1 - t]].size * each ? n_rows
            : s->params[s->open[s->n_open - 1 - t]].size * each;
    if (one_in(s, 4)) n_rows = n_rows / 2 + 1;
    if (n_rows > MAX_ROWS) n_rows = MAX_ROWS;
    const double about = one_in(s, 4) ? 2 : 0;
    for (size_t i = 0; i < n_rows; i++) s->x[q][i] = about + gpumc_rng_normal(&s->rng);
    for (size_t t = 0; t < n; t++) {
        const gpumc_param *p = &s->params[s->open[--s->n_open]];
        for (size_t i = 0; i < n_rows; i++) s->taken[q][t][i] = any(s, p->size);
        s->takes[q][t].name = p->name;
        s->takes[q][t].index = s->taken[q][t];
    }
    if (family == 0) {
        const gpumc_param *sigma = with_prior(s, add(s, "sigma", GPUMC_POSITIVE, 0, NOISE),
                                              one_in(s, 2) ? gpumc_prior_half_normal : gpumc_prior_gamma, 0.7, 1.5);
        s->takes[q][n].name = sigma->name;
        s->takes[q][n].index = NULL;
    }
    memset(r, 0, sizeof *r);
    s->columns[q][0] = s->y[q];
    s->columns[q][1] = s->x[q];
    snprintf(s->outputs[q], sizeof *s->outputs, "y%d", (int)q);
    r->name = "y";
    r->data.kind = row_kinds[family][n - 1];
    r->data.n_rows = n_rows;
    r->data.columns = s->columns[q];
    r->takes = s->takes[q];
    r->n_takes = n + (family == 0);
    r->simulate = makers[family][n - 1];
    r->n_simulated = 1;
    r->predictive = s->outputs[q];
}

static void build(structure *s, uint32_t seed)
{
    const gpumc_param *last = NULL, *shared = NULL;
    s->rng = gpumc_rng_at(99, seed, 0, 0);
    s->n_params = s->n_priors = s->n_open = s->n_sets = 0;
    for (size_t n = 1 + any(s, 3); n > 0; n--) {
        const size_t size = 2 + any(s, one_in(s, 4) ? 60 : 12);
        if (one_in(s, 8)) add_correlated(s, size);
        else last = add_population(s, size, last, &shared);
    }
    while (s->n_open > 0 && s->n_sets < MAX_SETS) {
        const size_t most = s->n_open < 3 ? s->n_open : 3;
        add_rows(s, s->n_sets + 1 == MAX_SETS ? most : 1 + any(s, most));
    }
}

/* ---- ranks ---------------------------------------------------------------------------------------- */
/* Number of values of a block. */
static size_t n_values(size_t size, const size_t *dims, size_t n_dims)
{
    size_t n = n_dims > 0 ? 1 : size > 0 ? size : 1;
    for (size_t d = 0; d < n_dims; d++) n *= dims[d];
    return n;
}

static double density_at(const gpumc_model *m, const double *x)
{
    static double g[MAX_VALUES];
    memset(g, 0, sizeof g);
    return m->log_density(x, g, m->data);
}

static void rank_all(structure *s, const gpumc_model *m, const gpumc_fit *f, const double *truth, tally *t)
{
    const double lp = density_at(m, truth);
    double less = 0;
    for (size_t b = 0, at = 0, n; b <= s->n_params; b++, at += n) {
        const int whole = b == s->n_params;
        const gpumc_param *p = whole ? NULL : &m->params[b];
        n = whole ? 0 : n_values(p->size, p->dims, p->n_dims);
        const size_t i = whole ? 0 : at + (s->roles[b] == CORRELATION ? n - 2 : any(s, n));
        less = 0;
        for (size_t k = 0; k < N_RANKED; k++) {
            const size_t c = k % f->n_chains, d = (k / f->n_chains * 2 + 1) * f->n_draws * f->n_chains / N_RANKED / 2;
            const double *x = f->draws + (c * f->draw_capacity + d) * f->n_columns;
            less += whole ? density_at(m, x) < lp : x[i] < truth[i];
        }
        count_rank(t, (int)(whole ? DENSITY : s->roles[b]), less, gpumc_rng_uniform(&s->rng));
    }
}

/* Draws parameters and data, fits, ranks. wide: a factor that elements are multiplied by before there are data. */
static void run(structure *s, uint32_t seed, double wide, tally *t)
{
    static double truth[MAX_VALUES], out[2 * MAX_SETS * MAX_ROWS + 4 * MAX_VALUES];
    const gpumc_hier_data data = { .params = s->params, .n_params = s->n_params, .priors = s->priors,
                                   .n_priors = s->n_priors, .rows = s->rows, .n_rows = s->n_sets };
    const gpumc_sample_options options = { .seed = seed };
    gpumc_rng rng = gpumc_rng_at(7, seed, 0, 0);
    gpumc_error error;
    gpumc_fit f;
    memset(s->y, 0, sizeof s->y);
    gpumc_hier *h = gpumc_hier_create(&data, &error);
    CHECK(h != NULL, "structure %d: %s", (int)seed, error.text);
    if (!h) return;
    const gpumc_model *m = gpumc_hier_model(h);
    CHECK(gpumc_hier_prior_draw(h, &rng, truth, &error) == GPUMC_OK, "structure %d: %s", (int)seed, error.text);
    for (size_t b = 0, at = 0; b < s->n_params; b++) {
        const gpumc_param *p = &m->params[b];
        const size_t n = n_values(p->size, p->dims, p->n_dims);
        for (size_t i = 0; i < n; i++, at++) if (s->roles[b] == ELEMENT) truth[at] *= wide;
    }
    m->generate(truth, &rng, out, m->data);
    double most = 0;
    for (size_t o = 0, at = 0; o < m->n_outputs; o++) {
        const gpumc_output *b = &m->outputs[o];
        const size_t n = n_values(b->size, b->dims, b->n_dims);
        for (size_t q = 0; q < s->n_sets; q++)
            for (size_t i = 0; strcmp(b->name, s->outputs[q]) == 0 && i < n; i++) {
                s->y[q][i] = out[at + i];
                most = fmax(most, s->rows[q].data.kind == row_kinds[2][s->rows[q].n_takes - 1] ? out[at + i] : 0);
            }
        at += n;
    }
    gpumc_hier_free(h);
    if (most > 300) return;                                 /* counts that leave next to nothing open */
    h = gpumc_hier_create(&data, &error);
    CHECK(h && gpumc_sample(m = gpumc_hier_model(h), &options, &f) == GPUMC_OK, "structure %d: %s", (int)seed,
          h ? f.message : error.text);
    if (!h) return;
    t->n_runs++;
    int doubted = 0;
    for (size_t i = 0; i < f.n_warnings; i++) doubted |= !f.warnings[i].note;
    t->n_doubted += doubted;
    if (f.n_draws > 0) rank_all(s, m, &f, truth, t);
    gpumc_free(&f);
    gpumc_hier_free(h);
}

int main(void)
{
    static structure s;
    static tally right, broken;
    for (uint32_t seed = 1; seed <= N_STRUCTURES; seed++) {
        build(&s, seed);
        run(&s, seed, 1, &right);
    }
    for (uint32_t seed = 1; seed <= N_BROKEN; seed++) {
        build(&s, seed);
        run(&s, seed, 1.6, &broken);
    }
    printf("%d of %d runs end in warnings\n", right.n_doubted, right.n_runs);
    CHECK(right.n_runs > N_STRUCTURES / 2, "only %d runs", right.n_runs);
    CHECK(right.n_doubted < 0.08 * right.n_runs, "%d of %d runs end in warnings", right.n_doubted, right.n_runs);
    CHECK(least_p(&right, role_names, N_ROLES, "as declared") > 5e-4, "ranks are not uniform");
    CHECK(least_p(&broken, role_names, N_ROLES, "farther out") < 5e-4, "data of elements farther out are not caught");
    return check_end();
}
