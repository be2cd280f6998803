/* Learned centring as a transform: every kind of location and scale, with weights all centred, all non-centred and
   mixed. The gradient in the sampler's coordinates against central differences, the log Jacobian against a numerical
   determinant, the map to the centred frame and back, and what warm-up learns on models where the answer is known and
   from starts far away. */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "known_hier.h"
#include "check.h"
#include "schools.h"

enum { MOST = 48 };

/* A smooth density without symmetry over all natural values. */
static double bumpy(const double *x, double *g, void *data)
{
    const size_t n = *(const size_t *)data;
    double lp = 0;
    for (size_t i = 0; i < n; i++) {
        const double m = 0.3 * (double)(i % 7) - 1, w = 1 + (double)(i % 3), d = x[i] - m;
        lp -= 0.5 * w * d * d + 0.1 * sin(d);
        g[i] -= w * d + 0.1 * cos(d);
    }
    return lp;
}

typedef struct machine {
    size_t n_natural;
    gpumc_model model;
    gpumc_layout *layout;
    double *work;
} machine;

static void machine_open(machine *m, const gpumc_param *params, size_t n)
{
    gpumc_error error;
    size_t bytes;
    memset(m, 0, sizeof *m);
    m->model.params = params;
    m->model.n_params = n;
    m->model.log_density = bumpy;
    m->model.data = &m->n_natural;
    bytes = gpumc_layout_bytes(&m->model, &error);
    CHECK(bytes > 0, "%s", error.text);
    if (bytes == 0) exit(check_end());
    m->layout = gpumc_layout_init(&m->model, malloc(bytes), bytes, &error);
    m->work = (double *)malloc(gpumc_layout_work(m->layout) * sizeof(double));
    m->n_natural = gpumc_layout_natural(m->layout);
}

static void machine_close(machine *m)
{
    free(m->layout);
    free(m->work);
}

/* Weights of all elements by kind: 0 centred; 1 non-centred; 2 and 3 two mixtures; 4 all in between. Units (tau0)
   differ by kind. In 3 and 4 anchors are in force, or messages in blocks that pass them on; in 3 one such block has
   no data. In odd kinds distances have normal scores: bent in 1, with light tails in 3, but for the first of a block.
   In 4 the information of the data goes with the first positive value, even where that is the scale of elements.
   Values that data share have slopes. */
static void set_weights(gpumc_layout *l, int kind)
{
    size_t positive = 0;
    while (positive + 1 < l->n_parts && l->parts[positive].param->kind != GPUMC_POSITIVE) positive++;
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__noise noise = { l->parts[positive].at, i % 2 ? 3 : -4, 0.7 }, none = { 0, 0, 1 };
        gpumc__link *k = &l->parts[i].link;
        for (size_t j = 0; j < l->parts[i].free_size; j++) {
            const gpumc__shape bent = { 0.4 + 0.1 * (double)j, 0.6 - 0.02 * (double)j };
            const gpumc__shape light = { -1.2 - 0.1 * (double)j, 0 }, logarithm = { 0, 0 };
            if (gpumc__is_distance(&l->parts[i].constraint, j))
                l->shapes[l->parts[i].free_at + j] = kind == 1 ? bent : kind == 3 && j > 0 ? light : logarithm;
        }
        if (!l->parts[i].linked) continue;
        for (size_t j = 0; j < k->size; j++)
            k->notches[j] = (unsigned char)(kind == 0 || gpumc__link_is_start(k, j) ? GPUMC__FULL
                                            : kind == 1 ? 0
                                            : kind == 4 ? 12
                                                        : (j * (kind == 2 ? 7 : 3) + 1) % (GPUMC__FULL + 1));
        k->anchored = kind > 2;
        k->noise = kind == 4 ? noise : none;
        for (size_t j = 0; j < k->size; j++) k->anchors[j] = cos(2.3 * (double)j + kind);
        for (size_t j = 0; j < k->size && k->tells; j++) {
            const double known = kind == 3 && &l->parts[i] == l->leader ? 0 : 1;
            l->evidence[k->at + j] = known * (0.5 + 2 * fabs(sin(3.7 * (double)j)));
            l->evidence[l->n_natural + k->at + j] = known * 2 * cos(1.9 * (double)j + kind);
        }
        for (size_t u = 0; u < k->n_units; u++) k->per_unit[u] = exp(0.2 * (double)u - 0.3 * kind);
        gpumc__link_update(k);
    }
    for (size_t b = 0; b < l->n_bundles; b++) {
        const gpumc__noise noise = { l->parts[positive].at, -3, 1.3 }, none = { 0, 0, 1 };
        gpumc__bundle *j = &l->bundles[b];
        const size_t n = j->n, K = j->most;
        j->K = 0;
        for (size_t i = 0; i < l->n_parts; i++)
            if (l->parts[i].link.bundle == j) {
                l->parts[i].link.seat = j->K;
                j->members[j->K++] = &l->parts[i].link;
            }
        for (size_t i = 0; i < n; i++)                              /* of rank 2, which is less than K */
            for (size_t c = 0; c < K; c++) {
                const double y = (double)(i + c) + kind;
                for (size_t a = 0; a <= c; a++)
                    j->J[gpumc__triangle(a, c) * n + i] = sin(1 + 3.1 * y) * sin(1 + 3.1 * ((double)(i + a) + kind))
                        + 4 * cos(2.3 * y) * cos(2.3 * ((double)(i + a) + kind));
                j->b[c * n + i] = 2 * sin(1.9 * y);
                for (size_t s = 0; s < l->n_shared; s++) j->slopes[(s * K + c) * n + i] = cos(1.3 * y + (double)s);
            }
        j->noise = kind == 4 ? noise : none;
        if (kind < 3) j->K = 0;
        gpumc__bundle_update(l, j);
    }
    for (size_t s = 0; s < l->n_shared; s++) {
        l->shared[s].middle = 0.4;
        for (size_t e = 0; e < l->n_natural; e++)
            l->slopes[s * l->n_natural + e] = sin(1.1 * (double)(e + s) + kind);
    }
}

/* Largest difference between the gradient and central differences. broken: element 1 of the gradient is off by 1 % or
   more. */
static double gradient_error(const machine *m, const double *q, int broken)
{
    const size_t n = gpumc_layout_dim(m->layout);
    double g[MOST], unused[MOST], point[MOST], worst = 0;
    gpumc_model_eval(m->layout, q, g, m->work);
    if (broken) g[1] -= 0.01 * fabs(g[1]) + 0.01;
    memcpy(point, q, n * sizeof *q);
    for (size_t i = 0; i < n; i++) {
        const double h = 1e-5;
        double up, down;
        point[i] = q[i] + h;
        up = gpumc_model_eval(m->layout, point, unused, m->work);
        point[i] = q[i] - h;
        down = gpumc_model_eval(m->layout, point, unused, m->work);
        point[i] = q[i];
        worst = check_worst(worst, fabs((up - down) / (2 * h) - g[i]) / fmax(1, fabs(g[i])));
    }
    return worst;
}

/* Which natural values are free: all but those on and above the diagonal of a factor. */
static size_t free_values(const gpumc_layout *l, size_t *which)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__placed *p = &l->parts[i];
        const size_t K = p->param->kind == GPUMC_CHOLESKY_CORR ? p->param->dims[1] : 0;
        for (size_t j = 0; j < p->size; j++) if (K == 0 || j / K > j % K) which[n++] = p->at + j;
    }
    return n;
}

/* log |det| of d natural / d free by differences and elimination. */
static double numerical_log_det(const machine *m, const double *q)
{
    const size_t n = gpumc_layout_dim(m->layout);
    size_t which[MOST];
    static double a[MOST][MOST];
    double point[MOST], up[MOST], down[MOST], sum = 0;
    memcpy(point, q, n * sizeof *q);
    CHECK(free_values(m->layout, which) == n, "%zu free values", n);
    for (size_t j = 0; j < n; j++) {
        point[j] = q[j] + 1e-5;
        gpumc_model_natural(m->layout, point, up, m->work);
        point[j] = q[j] - 1e-5;
        gpumc_model_natural(m->layout, point, down, m->work);
        point[j] = q[j];
        for (size_t i = 0; i < n; i++) a[i][j] = (up[which[i]] - down[which[i]]) / 2e-5;
    }
    for (size_t k = 0; k < n; k++) {
        size_t pivot = k;
        for (size_t i = k; i < n; i++) if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        for (size_t j = 0; j < n; j++) { const double t = a[k][j]; a[k][j] = a[pivot][j]; a[pivot][j] = t; }
        sum += log(fabs(a[k][k]));
        for (size_t i = k + 1; i < n; i++) {
            const double f = a[i][k] / a[k][k];
            for (size_t j = k; j < n; j++) a[i][j] -= f * a[k][j];
        }
    }
    return sum;
}

static double log_jacobian(const machine *m, const double *q)
{
    double g[MOST], x[MOST], lp = gpumc_model_eval(m->layout, q, g, m->work);
    memset(g, 0, sizeof g);
    gpumc_model_natural(m->layout, q, x, m->work);
    return lp - bumpy(x, g, m->model.data);
}

/* Mapping from frame a to the centred one and on to frame b must give what an evaluation in frame b gives. */
static double frame_error(const machine *m, const double *from, int a, int b)
{
    const size_t n = gpumc_layout_dim(m->layout);
    double q[MOST], g[MOST], direct[MOST], lp, change, worst;
    memcpy(q, from, n * sizeof *q);
    set_weights(m->layout, a);
    lp = gpumc_model_eval(m->layout, q, g, m->work);
    change = gpumc__to_centred(m->layout, q, g, m->work);
    set_weights(m->layout, b);
    change += gpumc__from_centred(m->layout, q, g, m->work);
    worst = fabs(gpumc_model_eval(m->layout, q, direct, m->work) - lp - change);
    for (size_t i = 0; i < n; i++) worst = check_worst(worst, fabs(direct[i] - g[i]) / fmax(1, fabs(g[i])));
    return worst;
}

static void check_machine(const char *name, const gpumc_param *params, size_t n_params)
{
    machine m;
    double q[MOST], x[MOST], back[MOST];
    size_t n;
    machine_open(&m, params, n_params);
    n = gpumc_layout_dim(m.layout);
    for (int trial = 0; trial < 5; trial++)
        for (int kind = 0; kind < 5; kind++) {
            double round_trip = 0;
            for (size_t i = 0; i < n; i++) q[i] = sin(1.7 * (double)i + trial + 1);
            set_weights(m.layout, kind);
            CHECK(gradient_error(&m, q, 0) < 1e-7, "%s, weights %d: %g", name, kind,
                  gradient_error(&m, q, 0));
            CHECK(gradient_error(&m, q, 1) > 1e-4, "%s: a wrong gradient passed", name);
            CHECK(fabs(log_jacobian(&m, q) - numerical_log_det(&m, q)) < 1e-6, "%s, weights %d: %g for %g",
                  name, kind, log_jacobian(&m, q), numerical_log_det(&m, q));
            gpumc_model_natural(m.layout, q, x, m.work);
            CHECK(gpumc_model_unconstrain(m.layout, x, back, m.work, NULL) == GPUMC_OK, "%s", name);
            for (size_t i = 0; i < n; i++) round_trip = fmax(round_trip, fabs(back[i] - q[i]));
            CHECK(round_trip < 1e-11, "%s, weights %d: %g", name, kind, round_trip);
            for (int to = 0; to < 5; to++)
                CHECK(frame_error(&m, q, kind, to) < 1e-11, "%s, %d to %d: %g", name, kind, to,
                      frame_error(&m, q, kind, to));
        }
    machine_close(&m);
}

static void check_kinds(void)
{
    static const size_t six[] = { 0, 1, 1, 0, 1, 0 }, grid[] = { 3, 4 }, many[] = { 9, 3 };
    static const size_t wide[] = { 3, 9 }, album[] = { 4, 26, 1, 1, 0, 13, 25, 2, 2, 2, 9, 18 },
                        twelve[] = { 0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0 };
    static const size_t rows[] = { 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2 },
                        backward[] = { 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 };
    static size_t later[27], column[27], own_scale[27];
    static double trend[27];
    static const double covariates[] = { 1, .5, -1, 2, .3, -.7, 0, 1, -2, .1, .6, 1 };
    const gpumc_param scalar[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 6, .location = "mu", .scale = "tau" } };
    const gpumc_param gaps[] = { { .name = "cuts", .kind = GPUMC_ORDERED, .dims = grid, .n_dims = 2 },
        { .name = "steps", .kind = GPUMC_POSITIVE_ORDERED, .size = 3 }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 6, .scale = "tau" } };
    const gpumc_param no_scale[] = { { .name = "mu" }, { .name = "s", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 6, .location = "mu" } };
    const gpumc_param no_location[] = { { .name = "mu" },
                                        { .name = "tau", .kind = GPUMC_POSITIVE, .typical = 0.1 },
                                        { .name = "theta", .size = 6, .scale = "tau" } };
    const gpumc_param own[] = { { .name = "mu", .size = 6 },
                                { .name = "tau", .kind = GPUMC_POSITIVE, .size = 6 },
                                { .name = "theta", .size = 6, .location = "mu", .scale = "tau" } };
    const gpumc_param index[] = { { .name = "mu", .size = 2 },
                                  { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
                                  { .name = "theta",
                                    .size = 6,
                                    .location = "mu",
                                    .scale = "tau",
                                    .location_index = six,
                                    .scale_index = six } };
    const gpumc_param walk[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = grid, .n_dims = 2, .location = "mu", .scale = "tau", .walk_dim = 2 } };
    const gpumc_param across[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = grid, .n_dims = 2, .location = "mu", .scale = "tau", .walk_dim = 1 } };
    const gpumc_param walks[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "level", .dims = many, .n_dims = 2, .location = "mu", .scale = "tau", .scale_index = later,
          .walk_dim = 2 } };
    const gpumc_param free_walk[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = &grid[1], .n_dims = 1, .scale = "tau", .walk_dim = 1 } };
    const gpumc_param from_zero[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = grid, .n_dims = 2, .scale = "tau", .walk_dim = 2, .walk_from_zero = 1 } };
    const gpumc_param slopes[] = { { .name = "rho", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 },
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "beta", .size = 3 }, { .name = "mu" },
        { .name = "level", .dims = many, .n_dims = 2, .location = "mu", .scale = "tau", .walk_dim = 2 } };
    const gpumc_param free_walks[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "level", .dims = many, .n_dims = 2, .scale = "tau", .scale_index = later, .walk_dim = 2 } };
    const gpumc_param drift[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "beta" }, { .name = "level", .dims = many, .n_dims = 2, .location = "mu", .scale = "tau",
          .walk_dim = 2, .covariates = trend, .n_covariates = 1, .coefficients = "beta" } };
    const gpumc_param abreast[] = { { .name = "mu", .size = 9 }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = wide, .n_dims = 2, .location = "mu", .location_index = column,
          .scale = "tau", .walk_dim = 1 } };
    const gpumc_param uneven[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = 9 },
        { .name = "level", .dims = many, .n_dims = 2, .location = "mu", .scale = "tau",
          .scale_index = own_scale, .walk_dim = 2 } };
    const gpumc_param below[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = many, .n_dims = 2, .location = "mu", .scale = "tau", .walk_dim = 2 },
        { .name = "sigma", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "song", .size = 12, .location = "level", .location_index = album, .scale = "sigma",
          .scale_index = twelve } };
    const gpumc_param linear[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "beta", .size = 2 }, { .name = "theta", .size = 6, .location = "mu", .scale = "tau",
        .covariates = covariates, .n_covariates = 2, .coefficients = "beta" } };
    const gpumc_param nested[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "school", .size = 2, .location = "mu", .scale = "tau" },
        { .name = "sigma", .kind = GPUMC_INTERVAL, .upper = 5 },
        { .name = "class", .size = 6, .location = "school", .location_index = six, .scale = "sigma" } };
    const gpumc_param shared[] = { { .name = "mu" },
                                   { .name = "tau", .kind = GPUMC_POSITIVE },
                                   { .name = "a", .size = 3, .location = "mu", .scale = "tau" },
                                   { .name = "b", .size = 4, .location = "mu", .scale = "tau" } };
    static const size_t square[] = { 3, 3, 2, 2 }, zeros[4] = { 0 }, ones[] = { 1, 1, 1, 1 }, four[] = { 1, 0, 1, 1 };
    const gpumc_param correlated[] = { { .name = "mu", .size = 2 },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 }, { .name = "beta" },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = square, .n_dims = 2 },
        { .name = "a", .size = 4, .location = "mu", .location_index = four, .scale = "tau", .scale_index = four,
          .covariates = covariates, .n_covariates = 1, .coefficients = "beta", .factor = "L" },
        { .name = "b", .size = 4, .location = "a", .scale = "tau", .scale_index = six, .factor = "L" },
        { .name = "between", .size = 4, .location = "a" },
        { .name = "c", .size = 4, .location = "mu", .location_index = six, .covariates = covariates,
          .n_covariates = 1, .coefficients = "beta", .factor = "L" } };
    const gpumc_param pair[] = { { .name = "mu", .size = 2 }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "a", .size = 9, .location = "mu", .location_index = later, .scale = "tau" },
        { .name = "m" }, { .name = "s", .kind = GPUMC_POSITIVE, .size = 9 },
        { .name = "b", .size = 9, .location = "m", .scale = "s" } };
    const gpumc_param bundled[] = { { .name = "m" }, { .name = "s", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = &square[2], .n_dims = 2 },
        { .name = "plain", .size = 4, .location = "m", .scale = "s", .scale_index = six },
        { .name = "a", .size = 4, .scale = "s", .scale_index = four, .factor = "L" },
        { .name = "beta", .size = 2 }, { .name = "slope" },
        { .name = "t", .size = 4, .scale = "s", .scale_index = four, .covariates = covariates,
          .n_covariates = 2, .coefficients = "beta" },
        { .name = "b", .size = 4, .location = "m", .factor = "L" } };
    const gpumc_param telling[] = { { .name = "two", .size = 2 }, { .name = "s", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = &square[2], .n_dims = 2 }, { .name = "m" },
        { .name = "slope", .size = 2 }, { .name = "noise", .kind = GPUMC_POSITIVE },
        { .name = "a", .size = 4, .location = "m", .scale = "s", .scale_index = four, .factor = "L" },
        { .name = "b", .size = 4, .scale = "s", .scale_index = six },
        { .name = "c", .size = 4, .location = "two", .location_index = zeros, .scale = "s",
          .scale_index = four, .factor = "L" },
        { .name = "d", .size = 4, .location = "two", .location_index = ones, .scale = "s", .scale_index = six },
        { .name = "too", .size = 3, .location = "m", .scale = "s", .scale_index = six } };
    const gpumc_param trio[] = { { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = square, .n_dims = 2 }, { .name = "x" },
        { .name = "a", .size = 9, .scale = "tau", .scale_index = later, .factor = "L" },
        { .name = "b", .size = 9, .scale = "tau", .scale_index = later, .factor = "L" },
        { .name = "c", .size = 9, .location = "x", .scale = "tau", .scale_index = later, .factor = "L" } };
    const gpumc_param series[] = { { .name = "phi", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 },
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "mu" },
        { .name = "level", .dims = &grid[1], .n_dims = 1, .location = "mu", .scale = "tau", .walk_dim = 1,
          .walk_coefficient = "phi" } };
    const gpumc_param series_abreast[] = { { .name = "phi", .kind = GPUMC_UNIT, .size = 9 },
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "mu", .size = 9 },
        { .name = "level", .dims = wide, .n_dims = 2, .location = "mu", .location_index = column,
          .scale = "tau", .walk_dim = 1, .walk_coefficient = "phi" } };
    const gpumc_param series_nested[] = { { .name = "phi", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 }, { .name = "mu" }, { .name = "beta" },
        { .name = "mean", .size = 3, .location = "mu", .scale = "tau", .scale_index = six },
        { .name = "level", .dims = grid, .n_dims = 2, .location = "mean", .location_index = rows,
          .scale = "tau", .scale_index = later, .walk_dim = 2, .walk_coefficient = "phi" },
        { .name = "about", .size = 12, .location = "level", .location_index = backward, .scale = "tau",
          .scale_index = twelve } };
    const gpumc_param series_about_0[] = { { .name = "phi", .kind = GPUMC_UNIT, .size = 3 },
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "rho", .kind = GPUMC_UNIT },
        { .name = "level", .dims = grid, .n_dims = 2, .scale = "tau", .walk_dim = 2, .walk_coefficient = "phi" },
        { .name = "fixed", .size = 4, .scale = "tau", .walk_dim = 1, .walk_coefficient = "rho",
          .centring = GPUMC_CENTRING_WEIGHT, .centring_weight = 0.3 } };
    const gpumc_param correlated_walks[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = &square[2], .n_dims = 2 },
        { .name = "alone", .kind = GPUMC_CHOLESKY_CORR, .dims = &square[2], .n_dims = 2 },
        { .name = "level", .dims = grid, .n_dims = 2, .scale = "tau", .walk_dim = 2, .factor = "L" },
        { .name = "trend", .dims = grid, .n_dims = 2, .location = "mu", .scale = "tau", .walk_dim = 2,
          .factor = "L" } };
    for (size_t i = 0; i < 27; i++) {
        later[i] = i % 3 > 0;
        column[i] = i % 9;
        own_scale[i] = i / 3;
        trend[i] = sin((double)i);
    }
    check_machine("two blocks that data know together", pair, 6);
    check_machine("four such blocks, two correlated", bundled, 9);
    check_machine("four such blocks, which tell three locations", telling, 11);
    check_machine("three correlated blocks that data know together", trio, 6);
    check_machine("scalar", scalar, 3);
    check_machine("no scale", no_scale, 3);
    check_machine("no location", no_location, 3);
    check_machine("one each", own, 3);
    check_machine("index", index, 3);
    check_machine("walk", walk, 3);
    check_machine("walk down columns", across, 3);
    check_machine("many walks", walks, 3);
    check_machine("walk that starts anywhere", free_walk, 3);
    check_machine("walks that start at zero", from_zero, 3);
    check_machine("walks that start anywhere", free_walks, 3);
    check_machine("many walks and what their data share", slopes, 5);
    check_machine("many walks with covariates", drift, 4);
    check_machine("many walks side by side", abreast, 3);
    check_machine("many walks with a scale each", uneven, 3);
    check_machine("elements about those of many walks", below, 5);
    check_machine("covariates", linear, 4);
    check_machine("gaps", gaps, 4);
    check_machine("nested", nested, 5);
    check_machine("shared location and scale", shared, 4);
    check_machine("correlated", correlated, 8);
    check_machine("correlated walks", correlated_walks, 6);
    check_machine("series", series, 4);
    check_machine("many series side by side", series_abreast, 4);
    check_machine("elements about those of series about others", series_nested, 7);
    check_machine("series about 0", series_about_0, 5);
}

/* With messages the last element of every walk is given by its own location, scale, evidence and coordinate alone;
   and a point is rejected where a scale is lost in rounding beside its location. */
static void check_rows(void)
{
    static const size_t many[] = { 9, 3 };
    size_t own_scale[27];
    const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = 9 },
        { .name = "level", .dims = many, .n_dims = 2, .location = "mu", .scale = "tau",
          .scale_index = own_scale, .walk_dim = 2 } };
    machine m;
    double q[MOST], x[MOST], g[MOST];
    for (size_t i = 0; i < 27; i++) own_scale[i] = i / 3;
    machine_open(&m, params, 3);
    for (size_t i = 0; i < 37; i++) q[i] = sin(1.7 * (double)i + 1);
    set_weights(m.layout, 3);
    m.layout->shapes[1].typical = 0;
    for (size_t j = 0; j < 9; j++) m.layout->evidence[28 + j] = 0.5 + (double)j;       /* of the last step */
    gpumc_model_natural(m.layout, q, x, m.work);
    for (size_t j = 0; j < 9; j++) {
        const double J = 0.5 + (double)j, b = m.layout->evidence[37 + 28 + j], tau = x[1 + j];
        const double k = 1 / (1 + tau * tau * J), v = tau * tau * k, own = x[10 + 3 * j + 2];
        const double expected = k * x[10 + 3 * j + 1] + v * b + sqrt(v) * q[10 + 3 * j + 2];
        CHECK(fabs(own - expected) < 1e-13 * fmax(1, fabs(own)), "walk %d: %.17g for %.17g", (int)j, own,
              expected);
    }
    q[0] = 1;
    q[1] = log(1e-12);
    CHECK(gpumc_model_eval(m.layout, q, g, m.work) > -GPUMC_INF, "no density within reach");
    q[1] = log(1e-14);
    CHECK(gpumc_model_eval(m.layout, q, g, m.work) == -GPUMC_INF, "a scale is lost, and has a density");
    machine_close(&m);
}

/* Moments of links over n draws, summed in parts and joined, against those of a single pass over n_passed draws: the
   largest difference, over all rows of moments and all units. */
static double joined_error(int late, size_t n, size_t n_passed)
{
    enum { DIM = 37, SCALES = 9, UNITS = SCALES + 2, BEFORE = 2 };      /* draws before the window */
    static const size_t many[] = { 9, 3 };
    static double moments[7 * DIM], units[3 * UNITS];
    size_t own_scale[27];
    const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE, .size = SCALES },
        { .name = "level", .dims = many, .n_dims = 2, .location = "mu", .scale = "tau",
          .scale_index = own_scale, .walk_dim = 2 } };
    machine m;
    gpumc_adapt_options o;
    gpumc_error error;
    double worst = 0;
    for (size_t i = 0; i < 27; i++) own_scale[i] = i / 3;
    machine_open(&m, params, 3);
    memset(&o, 0, sizeof o);
    const size_t bytes = gpumc_adapt_bytes(m.layout, 0, &o);
    void *memory = malloc(bytes);
    gpumc_adapt *a = gpumc_adapt_init(memory, bytes, m.layout, 0, &o, &error);
    gpumc__centring_sums whole = { a, m.work, moments, units, 0, late };
    memset(moments, 0, sizeof moments);
    memset(units, 0, sizeof units);
    a->levels[0] = a->tolerance = 0;
    for (size_t k = 0; k < BEFORE + n; k++) {
        a->lp[k] = 0;
        a->owner[k] = 0;
        for (size_t i = 0; i < DIM; i++) {
            a->q[k * DIM + i] = sin(1.3 * (double)(k * DIM + i));
            a->g[k * DIM + i] = cos(2.9 * (double)(k * DIM + i));
        }
    }
    a->background = BEFORE;
    a->n_kept = BEFORE + n;
    gpumc__adapt_forget(a);
    set_weights(m.layout, 2);
    CHECK(gpumc__centring_moments(a, late) == (double)n, "draws are lost");
    for (size_t k = 0; k < n_passed; k++) gpumc__centring_add(&whole, k);
    for (size_t i = DIM - 27; i < (late ? 5 : 4) * DIM; i++)
        if (i % DIM >= DIM - 27)
            worst = check_worst(worst, fabs(a->moments[i] - moments[i]) / fmax(1, fabs(moments[i])));
    for (size_t i = 0; i < 3 * UNITS; i++)
        worst = check_worst(worst, fabs(a->units[i] - units[i]) / fmax(1, fabs(units[i])));
    free(memory);
    machine_close(&m);
    return worst;
}

static void check_joined(void)
{
    static const size_t numbers[] = { 1, 3, 40 };            /* with 1 and 3 the first part has no draws */
    for (size_t i = 0; i < 3; i++)
        for (int late = 0; late < 2; late++) {
            const size_t n = numbers[i];
            CHECK(joined_error(late, n, n) < 1e-12, "late %d, %d draws: off by %g", late, (int)n,
                  joined_error(late, n, n));
            CHECK(n < 2 || joined_error(late, n, n - 1) > 1e-4, "late %d, %d draws: one may be missing", late,
                  (int)n);
        }
}

/* J groups by the sums and numbers of their rows; sd 2 within groups, 1 between. */
typedef struct groups { size_t J; double sum[100], count[100]; } groups;

static double groups_density(const double *x, double *g, void *data)
{
    const groups *d = (const groups *)data;
    const double mu = x[0], tau = x[1], *theta = x + 2;
    double lp = gpumc_normal_lpdf(mu, 0, 10, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(tau, 5, &g[1], NULL);
    for (size_t j = 0; j < d->J; j++)
        lp += gpumc_normal_lpdf(theta[j], mu, tau, &g[2 + j], &g[0], &g[1])
              + gpumc_normal_lpdf(d->sum[j] / d->count[j], theta[j], 2 / sqrt(d->count[j]), NULL, &g[2 + j],
                                  NULL);
    return lp;
}

/* Mean weights that warm-up learns for the groups with few and with many rows. */
static void learned(double few, double many, gpumc_centring form, double *c_few, double *c_many)
{
    groups d;
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    gpumc_fit fit;
    gpumc_status status;
    const gpumc_param params[] = { { .name = "mu" },
                                   { .name = "tau", .kind = GPUMC_POSITIVE },
                                   { .name = "theta",
                                     .size = 100,
                                     .location = "mu",
                                     .scale = "tau",
                                     .centring = form,
                                     .centring_weight = form == GPUMC_CENTRING_WEIGHT ? 0.3 : 0 } };
    const gpumc_model model = {
        .name = "groups", .params = params, .n_params = 3, .log_density = groups_density, .data = &d
    };
    d.J = 100;
    for (size_t j = 0; j < d.J; j++) {
        d.count[j] = j % 2 ? many : few;
        d.sum[j] = d.count[j] * (gpumc_rng_normal(&rng) + 2 / sqrt(d.count[j]) * gpumc_rng_normal(&rng));
    }
    status = gpumc_sample(&model, NULL, &fit);
    CHECK(status == GPUMC_OK, "%s", fit.message);
    *c_few = *c_many = 0;
    if (status != GPUMC_OK) return;
    for (size_t j = 0; j < d.J; j++) *(j % 2 ? c_many : c_few) += fit.centring[2 + j] / 50;
    CHECK(gpumc_r_hat(gpumc_fit_series(&fit, 1)).value < 1.02, "R-hat %g",
          gpumc_r_hat(gpumc_fit_series(&fit, 1)).value);
    gpumc_free(&fit);
}

/* With n rows the data hold the share s = n / (n + 4) of the information on a group; c is near s, but leans towards
   the non-centred form. */
static void check_learning(void)
{
    double few, many;
    learned(400, 400, GPUMC_CENTRING_LEARNED, &few, &many);
    CHECK(few > 0.95 && many > 0.95, "all informed: %g, %g", few, many);
    learned(0.1, 0.1, GPUMC_CENTRING_LEARNED, &few, &many);
    CHECK(few < 0.1 && many < 0.1, "none informed: %g, %g", few, many);
    learned(1, 200, GPUMC_CENTRING_LEARNED, &few, &many);
    CHECK(few < 0.35 && many > 0.85, "mixed: %g, %g", few, many);
    learned(1, 200, GPUMC_CENTRED, &few, &many);
    CHECK(fabs(few - 1) < 1e-9 && fabs(many - 1) < 1e-9, "forced: %g, %g", few, many);
    learned(1, 200, GPUMC_NONCENTRED, &few, &many);
    CHECK(fabs(few) < 1e-9 && fabs(many) < 1e-9, "forced: %g, %g", few, many);
    learned(1, 200, GPUMC_CENTRING_WEIGHT, &few, &many);
    CHECK(fabs(few - 0.3) < 1e-9 && fabs(many - 0.3) < 1e-9, "forced: %g, %g", few, many);
}

/* With normal data of known variance warm-up finds every weight, its odds c / (1 - c) within a factor of two of
   tau0^2 over that variance, and every anchor, so that only mu and tau are left to the sampler: a gradient is worth
   more than 0.2 effective draws. Before there were anchors it was 0.1. */
static void check_anchors(void)
{
    const gpumc_model model = { .params = schools_params, .n_params = 3, .log_density = schools_density,
                                .outputs = &schools_output, .n_outputs = 1, .generate = schools_generate };
    const gpumc_sample_options o = { .seed = 5, .num_samples = 4000 };
    double mean_log = 0, least = HUGE_VAL;
    gpumc_fit fit;
    CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
    for (size_t i = 0; i < 16000; i++) mean_log += log(fit.draws[i * fit.n_columns + 1]) / 16000;
    for (size_t j = 0; j < 8; j++) {
        const double c = fit.centring[2 + j], odds = c / (1 - c);
        const double wanted = exp(2 * mean_log) / (schools_error[j] * schools_error[j]);
        CHECK(fabs(log(odds / wanted)) < log(2), "school %d: odds %g, not %g", (int)j, odds, wanted);
    }
    for (size_t i = 0; i < 10; i++) {
        const gpumc_summary row = gpumc_summarise(&fit, i);
        least = fmin(least, fmin(row.ess_bulk, row.ess_tail));
    }
    printf("eight schools: %.0f effective draws in %.0f gradients\n", least, (double)fit.sampling_gradients);
    CHECK(least > 0.2 * (double)fit.sampling_gradients, "%g effective draws in %g gradients", least,
          (double)fit.sampling_gradients);
    gpumc_free(&fit);
}

/* Five hundred groups of ten rows with unknown noise: the parameter is its scale or its precision, and there is
   another single value beside it. Warm-up finds which one it is: a gradient is worth more than 0.45 effective
   draws. */
enum { NOISY = 500 };
static double noisy_density(const double *x, double *g, void *data)
{
    const double *y = (const double *)data, power = y[2 * NOISY], *theta = x + 4;
    const double sigma = pow(x[2], power);
    double of_sigma = 0, lp = gpumc_normal_lpdf(x[0], 0, 100, &g[0], NULL, NULL)
        + gpumc_half_normal_lpdf(x[1], 50, &g[1], NULL) + gpumc_lognormal_lpdf(x[2], 0, 5, &g[2], NULL, NULL)
        + gpumc_lognormal_lpdf(x[3], 0, 0.5, &g[3], NULL, NULL);
    for (size_t j = 0; j < NOISY; j++) {
        const double off = y[j] - theta[j], squares = y[NOISY + j] + 10 * off * off;
        lp += gpumc_normal_lpdf(theta[j], x[0], x[1], &g[4 + j], &g[0], &g[1])
            - 0.5 * squares / (sigma * sigma) - 10 * log(sigma);
        g[4 + j] += 10 * off / (sigma * sigma);
        of_sigma += squares / (sigma * sigma * sigma) - 10 / sigma;
    }
    g[2] += of_sigma * power * sigma / x[2];
    return lp;
}

static void check_noise(void)
{
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "noise", .kind = GPUMC_POSITIVE },
        { .name = "other", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = NOISY, .location = "mu", .scale = "tau" },
    };
    double y[2 * NOISY + 1];
    const gpumc_model model = { .params = params, .n_params = 5, .log_density = noisy_density, .data = y };
    for (int inverse = 0; inverse < 2; inverse++) {
        const gpumc_sample_options o = { .seed = 2 };
        gpumc_rng rng = gpumc_rng_at(9, 0, 0, 0);
        double least = HUGE_VAL, gradients;
        gpumc_fit fit;
        for (size_t j = 0; j < NOISY; j++) {
            y[j] = 50 + 10 * gpumc_rng_normal(&rng) + 2 / sqrt(10) * gpumc_rng_normal(&rng);
            y[NOISY + j] = 4 * 2 * gpumc_rng_gamma(&rng, 4.5);
        }
        y[2 * NOISY] = inverse ? -0.5 : 1;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        gradients = (double)fit.sampling_gradients;
        for (size_t i = 0; i < fit.n_columns; i++) {
            const gpumc_summary row = gpumc_summarise(&fit, i);
            least = fmin(least, fmin(row.ess_bulk, row.ess_tail));
        }
        printf("500 groups, %s of noise unknown: %.0f effective draws in %.0f gradients\n",
               inverse ? "precision" : "scale", least, gradients);
        CHECK(least > 0.45 * gradients, "%g effective draws in %g gradients", least, gradients);
        gpumc_free(&fit);
    }
}

/* Five values: one that the data keep from its bound, three that touch their bounds, one whose map is given. */
static double scales_density(const double *x, double *g, void *data)
{
    double below = 0, lp = gpumc_gamma_lpdf(x[0], 50, 10, &g[0], NULL, NULL)
        + gpumc_normal_lpdf(x[1], 1, 1, &g[1], NULL, NULL) + gpumc_exponential_lpdf(x[2] - 3, 100, &g[2], NULL)
        + gpumc_half_normal_lpdf(5 - x[3], 1, &below, NULL) + gpumc_half_normal_lpdf(x[4], 1, &g[4], NULL);
    g[3] -= below;
    (void)data;
    return lp;
}

/* A value that touches its bound, and no other, is mapped by normal scores: with light tails (typical below 0) where
   its density is part of a normal and not where it is exponential, and of a typical size within a factor of ten of
   its mean distance from the bound. There it mixes as freely as the rest, and the maps can be handed on with the
   metric. */
static void check_scores(void)
{
    gpumc_param params[] = {
        { .name = "held", .kind = GPUMC_POSITIVE }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "above", .kind = GPUMC_LOWER, .lower = 3 },
        { .name = "below", .kind = GPUMC_UPPER, .upper = 5 },
        { .name = "given", .kind = GPUMC_POSITIVE, .typical = 2 },
    };
    const gpumc_model model = { .params = params, .n_params = 5, .log_density = scales_density };
    gpumc_sample_options options = { .seed = 11 };
    gpumc_fit fit, again;
    gpumc_summary row;
    const double mean = 1 + exp(-0.5) / sqrt(2 * GPUMC_PI) / gpumc_Phi(1);
    CHECK(gpumc_sample(&model, &options, &fit) == GPUMC_OK, "%s", fit.message);
    CHECK(fit.typical[0] == 0 && fit.typical[4] == 2, "typical %g, %g", fit.typical[0], fit.typical[4]);
    CHECK(fabs(log(-fit.typical[1] / mean)) < log(10) && fabs(log(fit.typical[2] / 0.01)) < log(10)
          && fabs(log(-fit.typical[3] / 0.8)) < log(10), "typical %g, %g, %g", fit.typical[1], fit.typical[2],
          fit.typical[3]);
    for (size_t i = 1; i < 4; i++) {
        row = gpumc_summarise(&fit, i);
        printf("%s: %.0f effective draws in the bulk, %.0f in the tail\n", params[i].name, row.ess_bulk,
               row.ess_tail);
        CHECK(row.ess_bulk > 2000 && row.ess_tail > 2000, "%s: %g, %g", params[i].name, row.ess_bulk,
              row.ess_tail);
    }
    for (int i = 1; i < 4; i++) {
        params[i].typical = fit.typical[i];
        params[i].bend = fit.bend[i];
    }
    options.num_warmup = -1;
    options.initial_metric = &fit.metric;
    options.step_size = fit.step_size;
    options.sampler = fit.sampler;
    CHECK(gpumc_sample(&model, &options, &again) == GPUMC_OK, "%s", again.message);
    row = gpumc_summarise(&again, 1);
    CHECK(row.ess_bulk > 2000 && fabs(row.mean - mean) < 4 * row.mcse, "handed on: %g, mean %g +- %g",
          row.ess_bulk, row.mean, row.mcse);
    gpumc_free(&fit);
    gpumc_free(&again);
}

/* A half-normal above 2 and its reflection below -2: the draws are mirror images, bit for bit. */
static double half_density(const double *x, double *g, void *upper)
{
    const double side = upper ? -1 : 1;
    double by = 0;
    const double lp = gpumc_half_normal_lpdf(side * x[0] - 2, 0.3, &by, NULL);
    g[0] += side * by;
    return lp;
}
static void check_mirror(void)
{
    const gpumc_param params[] = { { .name = "x", .kind = GPUMC_LOWER, .lower = 2 },
                                   { .name = "x", .kind = GPUMC_UPPER, .upper = -2 } };
    gpumc_sample_options options = { .seed = 3 };
    gpumc_fit fit[2];
    size_t apart = 0;
    for (int k = 0; k < 2; k++) {
        const gpumc_model model = { .params = params + k, .n_params = 1, .log_density = half_density,
                                    .data = k ? &options : NULL };
        CHECK(gpumc_sample(&model, &options, &fit[k]) == GPUMC_OK && fit[k].typical[0] != 0, "typical %g: %s",
              fit[k].typical[0], fit[k].message);
    }
    for (size_t i = 0; i < fit[0].n_chains * fit[0].n_draws; i++)
        apart += fit[0].draws[i * fit[0].n_columns] != -fit[1].draws[i * fit[1].n_columns];
    CHECK(apart == 0, "%zu draws are no mirror image", apart);
    for (int k = 0; k < 2; k++) gpumc_free(&fit[k]);
}

/* The map against its formula, for scales down to about a thousandth of a percent of their unit, where for every
   learned weight the spread of the coordinate no longer depends on the scale. A forced weight of 1 leaves theta as it
   is, bit for bit. */
static void check_map(void)
{
    const gpumc_param params[] = {
        { .name = "mu", .centring = GPUMC_CENTRED }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 3, .location = "mu", .scale = "tau" },
    };
    gpumc_param centred[3];
    machine m, forced;
    memcpy(centred, params, sizeof params);
    centred[2].centring = GPUMC_CENTRED;
    machine_open(&m, params, 3);
    machine_open(&forced, centred, 3);
    for (int kind = 0; kind < 5; kind++)
        for (double log_tau = -12; log_tau < 4; log_tau += 0.5) {
            const double q[5] = { 0.7, log_tau, -1.2, 0.4, 2.3 };
            const gpumc__link *k = &m.layout->parts[2].link;
            double x[5];
            set_weights(m.layout, kind);
            m.layout->shapes[1].typical = 0;
            gpumc_model_natural(m.layout, q, x, m.work);
            for (int i = 0; i < 3; i++) {
                const double c = gpumc__notch[k->notches[i]], t = exp(log_tau) * k->per_unit[0];
                const double news = kind == 4 ? pow(exp(log_tau) * 0.7, -2) : 1, held = c < 1 ? c : 0.999;
                const double square = 1 - held + held * t * t * news, r = t / sqrt(square);
                const double to_anchor = (1 - (1 - held) / square) * (k->anchors[i] - q[0]);
                const double theta = q[0] + r * q[2 + i] + (kind > 2 ? to_anchor : -c * r * q[0]);
                CHECK(fabs(x[2 + i] - theta) < 1e-14 * (1 + fabs(theta)), "weight %g at log tau %g: %.17g, "
                      "not %.17g", c, log_tau, x[2 + i], theta);
            }
            gpumc_model_natural(forced.layout, q, x, forced.work);
            CHECK(memcmp(x + 2, q + 2, 3 * sizeof *q) == 0, "centred by force, theta moves at log tau %g",
                  log_tau);
        }
    machine_close(&m);
    machine_close(&forced);
}

/* What the definition promises: if at tau = tau0 and sigma = 3 rows hold a share c of the information on theta, and
   alone would have it at the anchor, then the coordinate's mean and spread, given mu, tau and sigma, are the same for
   all values of these. */
static void check_promise(void)
{
    const gpumc_param params[] = {
        { .name = "mu", .centring = GPUMC_CENTRED }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = GPUMC__FULL - 1, .location = "mu", .scale = "tau" },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
    };
    const gpumc__noise noise = { 2 + GPUMC__FULL - 1, -4, 1 / 3. };
    machine m;
    gpumc__link *k;
    machine_open(&m, params, 4);
    k = &m.layout->parts[2].link;
    k->noise = noise;
    for (size_t i = 0; i < k->size; i++) {
        k->notches[i] = (unsigned char)(i + 1);
        k->anchors[i] = (double)i - 7;
    }
    k->per_unit[0] = 0.5;                                                        /* tau0 = 2 */
    k->anchored = 1;
    gpumc__link_update(k);
    for (double log_tau = -5; log_tau < 6; log_tau++)
        for (size_t i = 0; i < k->size; i++) {
            double q[MOST] = { log_tau - 2, log_tau }, low[MOST], high[MOST];
            const double c = gpumc__notch[i + 1], tau = exp(log_tau), sigma = exp(q[noise.at] = 0.3 * log_tau);
            const double usual = 4 * (1 - c) / c, of_rows = usual * sigma * sigma / 9;
            const double precision = 1 / (tau * tau) + 1 / of_rows, sd_0 = sqrt(1 / (1 / 4. + 1 / usual));
            const double mean = (q[0] / (tau * tau) + k->anchors[i] / of_rows) / precision;
            gpumc_model_natural(m.layout, q, low, m.work);
            q[2 + i] = 1;
            gpumc_model_natural(m.layout, q, high, m.work);
            const double of_q = 1 / sqrt(precision) / (high[2 + i] - low[2 + i]);
            CHECK(fabs(of_q / sd_0 - 1) < 1e-12, "share %g at log tau %g: the coordinate's spread is %g, at "
                  "tau0 %g", c, log_tau, of_q, sd_0);
            CHECK(fabs(low[2 + i] - mean) < 1e-12 * (1 + fabs(mean)), "share %g at log tau %g: at 0 theta is "
                  "%g, its mean %g", c, log_tau, low[2 + i], mean);
        }
    machine_close(&m);
}

/* What messages promise: districts, schools in them and a walk for each school, all with normal data whose noise has
   a scale of its own, about a mean with a normal prior. Given the scales and a slope that the data share, the
   coordinates are independent standard normals. broken: 1 forgets one element's own data, 2 the noise, 3 one
   element's slope. Returns the largest difference between the gradient and minus the coordinate. */
enum { TOLD = 2 + 5 + 5 * 4, SIGMA = 4 + TOLD, BETA, ALL };
static double told_density(const double *x, double *g, void *data)
{
    static const size_t district[] = { 0, 1, 1, 0, 1 };
    double lp = gpumc_normal_lpdf(x[0], 0, 1, &g[0], NULL, NULL);
    (void)data;
    for (size_t i = 0; i < TOLD; i++) {
        const size_t t = i < 7 ? 0 : (i - 7) % 4, s = i < 2 ? 1 : i < 7 ? 2 : 3;
        const size_t from = i < 2 ? 0 : i < 7 ? 4 + district[i - 2] : t > 0 ? 3 + i : 6 + (i - 7) / 4;
        lp += gpumc_normal_lpdf(x[4 + i], x[from], x[s], &g[4 + i], &g[from], &g[s])
            + gpumc_normal_lpdf(x[4 + i], sin(5.0 * (double)i) - cos((double)i) * (x[BETA] - 1),
                                x[SIGMA] * (0.3 + 0.1 * (double)(i % 5)), &g[4 + i], NULL, NULL);
    }
    return lp;
}

static double told_misfit(int broken)
{
    static const size_t district[] = { 0, 1, 1, 0, 1 }, dims[] = { 5, 4 };
    static const size_t school[] = { 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4 };
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "a", .kind = GPUMC_POSITIVE }, { .name = "b", .kind = GPUMC_POSITIVE },
        { .name = "c", .kind = GPUMC_POSITIVE },
        { .name = "district", .size = 2, .location = "mu", .scale = "a" },
        { .name = "school", .size = 5, .location = "district", .location_index = district, .scale = "b" },
        { .name = "level", .dims = dims, .n_dims = 2, .location = "school", .location_index = school,
          .scale = "c", .walk_dim = 2 },
        { .name = "sigma", .kind = GPUMC_POSITIVE }, { .name = "beta" },
    };
    const gpumc__noise noise = { SIGMA, broken == 2 ? 0 : -4, 1 };
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    double worst = 0;
    machine m;
    machine_open(&m, params, 9);
    m.model.log_density = told_density;
    m.layout->shared[0].middle = 1;
    for (size_t i = 0; i < TOLD; i++) {
        const double sd = 0.3 + 0.1 * (double)(i % 5);
        m.layout->evidence[4 + i] = broken == 1 && i == TOLD - 1 ? 0 : 1 / (sd * sd);
        m.layout->evidence[m.layout->n_natural + 4 + i] = m.layout->evidence[4 + i] * sin(5.0 * (double)i);
        m.layout->slopes[4 + i] = broken == 3 && i == 3 ? 0 : -m.layout->evidence[4 + i] * cos((double)i);
    }
    m.layout->evidence[0] = 1;
    for (size_t p = 0; p < 7; p++) {
        if (!m.layout->parts[p].linked) continue;
        m.layout->parts[p].link.anchored = 1;
        if (p > 0) m.layout->parts[p].link.noise = noise;
    }
    for (int point = 0; point < 20; point++) {
        double q[ALL], g[ALL];
        for (size_t i = 0; i < ALL; i++) q[i] = gpumc_rng_normal(&rng) * (i > 0 && i < 4 ? 2 : 1);
        gpumc_model_eval(m.layout, q, g, m.work);
        for (size_t i = 4; i < 4 + TOLD; i++) worst = check_worst(worst, fabs(g[i] + q[i]));
        worst = check_worst(worst, fabs(g[0] + q[0]));
    }
    machine_close(&m);
    return worst;
}

/* The same for a mean about which elements spread that have tables instead of messages: its coordinate is a standard
   normal, whatever the scales and elements are. mixed: elements have different weights. broken: 1 forgets the noise,
   2 displaces one anchor, 3 forgets the prior. */
enum { HEARD = 6 };
typedef struct heard { double precision[HEARD], mean[HEARD]; } heard;
static double heard_density(const double *x, double *g, void *data)
{
    const heard *d = (const heard *)data;
    double lp = gpumc_normal_lpdf(x[0], 3, 2, &g[0], NULL, NULL);
    for (size_t j = 0; j < HEARD; j++) {
        const double unit = 1 / sqrt(d->precision[j]), *theta = &x[3 + j];
        double by_sd = 0;
        lp += gpumc_normal_lpdf(*theta, x[0], x[1], &g[3 + j], &g[0], &g[1])
            + gpumc_normal_lpdf(*theta, d->mean[j], x[2] * unit, &g[3 + j], NULL, &by_sd);
        g[2] += by_sd * unit;
    }
    return lp;
}

static double heard_misfit(int mixed, int broken)
{
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = HEARD, .location = "mu", .scale = "tau" },
    };
    const gpumc__noise noise = { 2, broken == 1 ? 0 : -4, 1 };
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    double worst = 0;
    gpumc__link *k;
    heard d;
    machine m;
    machine_open(&m, params, 4);
    m.model.log_density = heard_density;
    m.model.data = &d;
    k = &m.layout->parts[3].link;
    k->per_unit[0] = 0.7;
    m.layout->evidence[0] = 0.25;
    m.layout->evidence[m.layout->n_natural] = broken == 3 ? 0 : 0.75;
    for (size_t j = 0; j < HEARD; j++) {
        const double c = gpumc__notch[k->notches[j] = (unsigned char)(mixed ? 3 * j : 14)];
        d.precision[j] = fmax(c / (1 - c) * 0.49, 1e-20);
        k->anchors[j] = d.mean[j] = sin(5.0 * (double)j);
    }
    if (broken == 2) k->anchors[1] += 1;
    k->noise = noise;
    k->anchored = m.layout->parts[0].link.anchored = 1;
    gpumc__link_update(k);
    for (int point = 0; point < 20; point++) {
        double q[3 + HEARD], g[3 + HEARD];
        for (size_t i = 0; i < 3 + HEARD; i++) q[i] = gpumc_rng_normal(&rng);
        gpumc_model_eval(m.layout, q, g, m.work);
        worst = check_worst(worst, fabs(g[0] + q[0]));
    }
    machine_close(&m);
    return worst;
}

static void check_told(void)
{
    CHECK(told_misfit(0) < 1e-9, "off by %g", told_misfit(0));
    CHECK(told_misfit(1) > 0.01, "data forgotten: off by only %g", told_misfit(1));
    CHECK(told_misfit(2) > 0.01, "noise forgotten: off by only %g", told_misfit(2));
    CHECK(told_misfit(3) > 0.01, "a slope forgotten: off by only %g", told_misfit(3));
    for (int mixed = 0; mixed < 2; mixed++) {
        CHECK(heard_misfit(mixed, 0) < 1e-12, "mixed %d: off by %g", mixed, heard_misfit(mixed, 0));
        for (int broken = 1; broken < 4; broken++)
            CHECK(heard_misfit(mixed, broken) > 0.01, "mixed %d, broken %d: off by only %g", mixed, broken,
                  heard_misfit(mixed, broken));
    }
}

/* The elements of a walk whose data share two slopes and a noise scale: J, b and slopes, learned from draws, are
   exact where all is normal. extra: the error put into the gradient of one element. Returns the largest error of what
   was learned. */
enum { SHARERS = 12, SHARING = 4 + SHARERS };
static double sharing_density(const double *x, double *g, void *data)
{
    double lp = gpumc_lognormal_lpdf(x[0], 0, 1, &g[0], NULL, NULL)
        + gpumc_normal_lpdf(x[1], 0.2, 0.5, &g[1], NULL, NULL)
        + gpumc_normal_lpdf(x[2], -0.3, 0.4, &g[2], NULL, NULL)
        + gpumc_lognormal_lpdf(x[3], 0, 1, &g[3], NULL, NULL);
    (void)data;
    for (size_t t = 0; t < SHARERS; t++) {
        const double w[] = { cos((double)t), sin(2.0 * (double)t) }, unit = 0.5 + 0.1 * (double)t;
        const double y = (double)t - w[0] * x[1] - w[1] * x[2], *level = &x[4 + t];
        double by_y = 0, by_sd = 0;
        lp += gpumc_normal_lpdf(y, *level, x[3] * unit, &by_y, &g[4 + t], &by_sd);
        g[1] -= w[0] * by_y;
        g[2] -= w[1] * by_y;
        g[3] += unit * by_sd;
        if (t > 0) lp += gpumc_normal_lpdf(*level, level[-1], x[0], &g[4 + t], &g[3 + t], &g[0]);
    }
    return lp;
}

static double sharing_error(double extra)
{
    static const size_t dims[] = { SHARERS };
    const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "beta", .size = 2 },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = dims, .n_dims = 1, .scale = "tau", .walk_dim = 1 } };
    const gpumc_adapt_options o = { .num_chains = 4 };
    const gpumc__noise noise = { 3, -4, 1 };
    gpumc_rng rng = gpumc_rng_at(6, 0, 0, 0);
    double rows[4 * SHARING], *J = rows, *b = rows + SHARING, worst = 0;
    gpumc_error error;
    machine m;
    machine_open(&m, params, 4);
    m.model.log_density = sharing_density;
    m.layout->parts[3].link.noise = m.layout->parts[3].link.found = noise;
    const size_t bytes = gpumc_adapt_bytes(m.layout, 0, &o);
    void *memory = malloc(bytes);
    gpumc_adapt *a = gpumc_adapt_init(memory, bytes, m.layout, 0, &o, &error);
    a->levels[0] = a->tolerance = 0;
    for (a->n_kept = 0; a->n_kept < 100; a->n_kept++) {
        double *q = a->q + a->n_kept * SHARING, *g = a->g + a->n_kept * SHARING;
        a->lp[a->n_kept] = 0;
        a->owner[a->n_kept] = 0;
        for (size_t i = 0; i < SHARING; i++) q[i] = gpumc_rng_normal(&rng);
        gpumc_model_eval(m.layout, q, g, m.work);
        g[6] += extra * q[1] * q[5];
    }
    gpumc__adapt_list(a, GPUMC__NONE);
    CHECK(gpumc__sharing_learn(a, rows), "too few draws");
    for (size_t t = 0; t < SHARERS; t++) {
        const double sd = 0.5 + 0.1 * (double)t, known = 1 / (sd * sd);
        const double w[] = { cos((double)t), sin(2.0 * (double)t) };
        double off = (double)t;
        for (size_t s = 0; s < 2; s++) {
            off -= w[s] * a->middles[s];
            worst = check_worst(worst, fabs(a->slopes[s * SHARING + 4 + t] + known * w[s]));
        }
        worst = check_worst(check_worst(worst, fabs(J[4 + t] - known)), fabs(b[4 + t] - known * off));
    }
    free(memory);
    machine_close(&m);
    return worst;
}

/* Three correlated blocks whose data inform each little but their sum well. Their joint information is learned from
   draws, and with it the coordinates of the elements and of their two locations are standard normals, whatever the
   other values are. broken: 1 understates J of a pair, 2 forgets the noise, 3 one slope of what the data share, 4
   understates a location's own information. Returns the largest difference between gradients and minus the
   coordinates. */
enum { BUNDLED = 4, BUNDLE = 9 + 3 * BUNDLED, BUNDLE_ROWS = 6 };    /* m, n, slope, tau 2, sigma, L: 3 free */
static double bundle_density(const double *x, double *g, void *data)
{
    enum { SLOPE = 2, TAU = 3, AT_SIGMA = 5, L = 6, THETA = 15 };
    double lp = gpumc_lkj_corr_cholesky_lpdf(x + L, 3, 2, g + L, NULL);
    for (size_t i = 0; i < TAU; i++)
        lp += gpumc_normal_lpdf(x[i], i == 0, i == 0 ? 2 : 1, &g[i], NULL, NULL);
    for (size_t i = TAU; i < L; i++) lp += gpumc_lognormal_lpdf(x[i], 0, 1, &g[i], NULL, NULL);
    (void)data;
    for (size_t i = 0; i < BUNDLED; i++) {
        const double tau[3] = { x[TAU], x[TAU + 1], x[TAU + 1] }, mu[3] = { x[0], 0, x[1] };
        double z[3], dz[3] = { 0 }, zero[3] = { 0 }, work[9];
        for (size_t c = 0; c < 3; c++) z[c] = (x[THETA + c * BUNDLED + i] - mu[c]) / tau[c];
        lp += gpumc_multi_normal_cholesky_lpdf(z, zero, x + L, 3, dz, NULL, g + L, work);
        for (size_t c = 0; c < 3; c++) {
            g[THETA + c * BUNDLED + i] += dz[c] / tau[c];
            if (c != 1) g[c / 2] -= dz[c] / tau[c];
            lp -= log(tau[c]);
            g[TAU + (c > 0)] -= (1 + dz[c] * z[c]) / tau[c];
        }
        for (size_t r = 0; r < BUNDLE_ROWS; r++) {
            const double at = (double)(i + 5 * r), w[3] = { 1, 20 + cos(at), sin(3 * at) };
            double eta = cos(at) * x[SLOPE], by_eta = 0;
            for (size_t c = 0; c < 3; c++) eta += w[c] * x[THETA + c * BUNDLED + i];
            lp += gpumc_normal_lpdf(sin(7 * at), eta, x[AT_SIGMA], NULL, &by_eta, &g[AT_SIGMA]);
            g[SLOPE] += cos(at) * by_eta;
            for (size_t c = 0; c < 3; c++) g[THETA + c * BUNDLED + i] += w[c] * by_eta;
        }
    }
    return lp;
}

static double bundle_misfit(int broken)
{
    static const size_t square[] = { 3, 3 }, own[BUNDLED] = { 0 }, second[BUNDLED] = { 1, 1, 1, 1 };
    const gpumc_param params[] = { { .name = "m" }, { .name = "n" }, { .name = "slope" },
        { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 }, { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = square, .n_dims = 2 },
        { .name = "a", .size = BUNDLED, .location = "m", .scale = "tau", .scale_index = own, .factor = "L" },
        { .name = "b", .size = BUNDLED, .scale = "tau", .scale_index = second, .factor = "L" },
        { .name = "c", .size = BUNDLED, .location = "n", .scale = "tau", .scale_index = second, .factor = "L" } };
    const gpumc_adapt_options o = { .num_chains = 4 };
    const gpumc__noise noise = { 5, -4, 1 };
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0);
    double rows[4 * BUNDLE], q[BUNDLE], g[BUNDLE], worst = 0;
    gpumc_error error;
    machine m;
    machine_open(&m, params, 9);
    m.model.log_density = bundle_density;
    CHECK(m.layout->n_bundles == 1 && m.layout->n_free == BUNDLE, "%zu bundles", m.layout->n_bundles);
    for (size_t p = 6; p < 9; p++) m.layout->parts[p].link.noise = m.layout->parts[p].link.found = noise;
    const size_t bytes = gpumc_adapt_bytes(m.layout, 0, &o);
    void *memory = malloc(bytes);
    gpumc_adapt *a = gpumc_adapt_init(memory, bytes, m.layout, 0, &o, &error);
    gpumc__bundle *j = &m.layout->bundles[0];
    a->levels[0] = a->tolerance = 0;
    for (a->n_kept = 0; a->n_kept < 100; a->n_kept++) {
        a->lp[a->n_kept] = 0;
        a->owner[a->n_kept] = 0;
        for (size_t i = 0; i < BUNDLE; i++) a->q[a->n_kept * BUNDLE + i] = 0.5 * gpumc_rng_normal(&rng);
        gpumc_model_eval(m.layout, a->q + a->n_kept * BUNDLE, a->g + a->n_kept * BUNDLE, m.work);
    }
    gpumc__adapt_list(a, GPUMC__NONE);
    CHECK(gpumc__sharing_learn(a, rows) && j->wanted == 3, "%zu blocks", j->wanted);
    for (size_t i = 0; i < m.layout->n_shared; i++) m.layout->shared[i].middle = a->middles[i];
    j->K = 3;
    j->noise = noise;
    gpumc__bundle_update(m.layout, j);
    CHECK(j->top->K == 2, "%zu locations", j->top->K);
    for (size_t p = 0; p < 9; p++) m.layout->parts[p].link.anchored = m.layout->parts[p].linked;
    for (size_t i = 0; i < 2; i++) {
        m.layout->evidence[i] = rows[i] * (broken == 4 ? 0.9 : 1);
        m.layout->evidence[m.layout->n_natural + i] = rows[BUNDLE + i];
    }
    if (broken == 1) j->J[gpumc__triangle(0, 1) * BUNDLED] *= 0.99;
    if (broken == 2) j->noise.halves = 0;
    if (broken == 3) j->slopes[0] = 0;
    for (int point = 0; point < 20; point++) {
        for (size_t i = 0; i < BUNDLE; i++) q[i] = gpumc_rng_normal(&rng);
        gpumc_model_eval(m.layout, q, g, m.work);
        for (size_t i = 0; i < BUNDLE; i++) if (i < 2 || i > 8) worst = check_worst(worst, fabs(g[i] + q[i]));
    }
    free(memory);
    machine_close(&m);
    return worst;
}

/* Warm-up of four chains by hand. Returns the error of what it learned of the mean's prior (precision, precision
   times mean). shares: data share slopes and elements pass on messages, and the differences of their and the mean's
   gradients from minus the coordinates count as well; else elements have tables, and the noise a scale. */
enum { LEARNED = 3 + SHARERS };
static double learned_density(const double *x, double *g, void *data)
{
    const int shares = *(const int *)data;
    double lp = gpumc_normal_lpdf(x[0], 3, 2, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 5, &g[1], NULL)
        + gpumc_lognormal_lpdf(x[2], 0, 0.3, &g[2], NULL, NULL);
    for (size_t s = LEARNED; shares && s < LEARNED + 2; s++)
        lp += gpumc_normal_lpdf(x[s], 1, 1, &g[s], NULL, NULL);
    for (size_t t = 0; t < SHARERS; t++) {
        const double w[] = { cos((double)t), sin(2.0 * (double)t) }, unit = 0.5 + 0.1 * (double)(t % 5);
        const double moved = shares ? w[0] * x[LEARNED] + w[1] * x[LEARNED + 1] : 0;
        double by_y = 0, by_sd = 0;
        lp += gpumc_normal_lpdf(x[3 + t], x[0], x[1], &g[3 + t], &g[0], &g[1])
            + gpumc_normal_lpdf((double)t - moved, x[3 + t], (shares ? 1 : x[2]) * unit, &by_y, &g[3 + t],
                                &by_sd);
        g[2] += shares ? 0 : unit * by_sd;
        for (size_t s = 0; shares && s < 2; s++) g[LEARNED + s] -= w[s] * by_y;
    }
    return lp;
}

static double learned_misfit(int shares)
{
    enum { CHAINS = 4 };
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = SHARERS, .location = "mu", .scale = "tau" }, { .name = "beta", .size = 2 },
    };
    const gpumc_adapt_options o = { .num_chains = CHAINS };
    gpumc_rng rng = gpumc_rng_at(6, 0, 0, 0);
    gpumc_nuts *chains[CHAINS];
    double q[LEARNED + 2], g[LEARNED + 2], worst;
    machine m;
    machine_open(&m, params, shares ? 5 : 4);
    m.model.log_density = learned_density;
    m.model.data = &shares;
    const size_t n = gpumc_layout_dim(m.layout), bytes = gpumc_adapt_bytes(m.layout, 0, &o);
    const size_t each = gpumc_nuts_bytes(n, 10);
    void *memory = malloc(bytes);
    gpumc_adapt *a = gpumc_adapt_init(memory, bytes, m.layout, 0, &o, NULL);
    for (size_t c = 0; c < CHAINS; c++) {
        for (size_t i = 0; i < n; i++) q[i] = gpumc_rng_normal(&rng);
        chains[c] = gpumc_nuts_init(malloc(each), each, n, 10, gpumc_adapt_metric(a, c), 0, 5, (uint32_t)c, q,
                                    NULL);
        while (!gpumc_nuts_tell(chains[c], gpumc_model_eval(m.layout, gpumc_nuts_ask(chains[c]), g, m.work), g))
            continue;
    }
    while (gpumc_adapt_update(a, chains))
        for (size_t c = 0; c < CHAINS; c++)
            while (!gpumc_nuts_tell(chains[c], gpumc_model_eval(m.layout, gpumc_nuts_ask(chains[c]), g, m.work),
                                    g)) continue;
    worst = fmax(fabs(m.layout->evidence[0] - 0.25), fabs(m.layout->evidence[m.layout->n_natural] - 0.75));
    for (int point = 0; point < 20 && shares; point++) {
        for (size_t i = 0; i < n; i++) q[i] = gpumc_rng_normal(&rng);
        gpumc_model_eval(m.layout, q, g, m.work);
        for (size_t i = 0; i < LEARNED; i++) if (i == 0 || i > 2) worst = check_worst(worst, fabs(g[i] + q[i]));
    }
    for (size_t c = 0; c < CHAINS; c++) free(chains[c]);
    free(memory);
    machine_close(&m);
    return worst;
}

static void check_sharing(void)
{
    CHECK(bundle_misfit(0) < 1e-6, "off by %g", bundle_misfit(0));
    for (int broken = 1; broken < 5; broken++)
        CHECK(bundle_misfit(broken) > 1e-3, "broken %d: off by only %g", broken, bundle_misfit(broken));
    CHECK(sharing_error(0) < 1e-9, "off by %g", sharing_error(0));
    CHECK(sharing_error(0.1) > 1e-3, "a wrong gradient is off by only %g", sharing_error(0.1));
    for (int shares = 0; shares < 2; shares++)
        CHECK(learned_misfit(shares) < 1e-6, "learned, shares %d: off by %g", shares, learned_misfit(shares));
}

/* Districts about a regression line. x: shift, beta, tau, sigma, the 12 districts, 5 schools in each. */
enum { DISTRICTS = 12, SCHOOLS = 60 };
static double district_x[DISTRICTS], school_y[SCHOOLS];
static double districts_density(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 1, &g[0], NULL, NULL) + gpumc_normal_lpdf(x[1], 0, 1, &g[1], NULL, NULL)
        + gpumc_half_normal_lpdf(x[2], 1, &g[2], NULL) + gpumc_half_normal_lpdf(x[3], 0.2, &g[3], NULL);
    (void)data;
    for (size_t d = 0; d < DISTRICTS; d++) {
        double by_mean = 0;
        lp += gpumc_normal_lpdf(x[4 + d], district_x[d] * x[1], x[2], &g[4 + d], &by_mean, &g[2]);
        g[1] += by_mean * district_x[d];
    }
    for (size_t i = 0; i < SCHOOLS; i++) {
        const size_t d = 4 + i / 5, at = 4 + DISTRICTS + i;
        double by_mean = 0;
        lp += gpumc_normal_lpdf(x[at], x[d], x[3], &g[at], &g[d], &g[3])
            + gpumc_normal_lpdf(school_y[i], x[at] + x[0], 0.15, NULL, &by_mean, NULL);
        g[at] += by_mean;
        g[0] += by_mean;
    }
    return lp;
}

/* A location with covariates receives no messages, so what the data of its elements say of it counts as its own data:
   5 schools say much about their district. */
static void check_location_untold(void)
{
    size_t of[SCHOOLS];
    const gpumc_param params[] = { { .name = "shift" }, { .name = "beta" },
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "district", .size = DISTRICTS, .scale = "tau", .covariates = district_x, .n_covariates = 1,
          .coefficients = "beta" },
        { .name = "school", .size = SCHOOLS, .location = "district", .location_index = of, .scale = "sigma" } };
    const gpumc_model model = { .params = params, .n_params = 6, .log_density = districts_density };
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    gpumc_fit fit;
    for (size_t i = 0; i < SCHOOLS; i++) of[i] = i / 5;
    for (size_t d = 0; d < DISTRICTS; d++) {
        const double mean = 1.5 * gpumc_rng_normal(&rng);
        district_x[d] = sin(2.1 * (double)d);
        for (size_t i = 5 * d; i < 5 * d + 5; i++) school_y[i] = mean + 0.25 * gpumc_rng_normal(&rng);
    }
    CHECK(gpumc_sample(&model, NULL, &fit) == GPUMC_OK, "%s", fit.message);
    for (size_t d = 4; d < 4 + DISTRICTS; d++)
        CHECK(fit.centring[d] > 0.9, "district %d: share of data %g", (int)d - 3, fit.centring[d]);
    gpumc_free(&fit);
}

/* Two correlated blocks. x: tau, L, the first block, of which every other element has data, and the second, of which
   all have. */
enum { PAIRS = 30, PAIRS_AT = 6 };          /* tau 2, L 2 x 2 */
static double pairs_y[PAIRS];
static double pairs_density(const double *x, double *g, void *data)
{
    static const double middle[2] = { 0, 0 };
    double lp = gpumc_lkj_corr_cholesky_lpdf(x + 2, 2, 1, g + 2, NULL);
    (void)data;
    for (int k = 0; k < 2; k++) lp += gpumc_half_normal_lpdf(x[k], 1, &g[k], NULL);
    for (size_t i = PAIRS_AT; i < PAIRS_AT + PAIRS; i++) {
        const double r[2] = { x[i] / x[0], x[i + PAIRS] / x[1] }, y = pairs_y[i - PAIRS_AT];
        double dr[2] = { 0, 0 }, work[4];
        lp += gpumc_multi_normal_cholesky_lpdf(r, middle, x + 2, 2, dr, NULL, g + 2, work) - log(x[0] * x[1])
            + gpumc_normal_lpdf(y, x[i + PAIRS], 0.3, NULL, &g[i + PAIRS], NULL);
        if (i % 2) lp += gpumc_normal_lpdf(0.8 * y, x[i], 0.3, NULL, &g[i], NULL);
        for (size_t k = 0; k < 2; k++) {
            g[i + k * PAIRS] += dr[k] / x[k];
            g[k] -= (dr[k] * r[k] + 1) / x[k];
        }
    }
    return lp;
}

/* What the elements of a block know through the elements they are correlated with is not their own data. */
static void check_kin_untold(void)
{
    static const size_t two[] = { 2, 2 }, second[PAIRS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const size_t first[PAIRS] = { 0 };
    const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE, .size = 2 },
        { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = two, .n_dims = 2 },
        { .name = "first", .size = PAIRS, .scale = "tau", .scale_index = first, .factor = "L" },
        { .name = "second", .size = PAIRS, .scale = "tau", .scale_index = second, .factor = "L" } };
    const gpumc_model model = { .params = params, .n_params = 4, .log_density = pairs_density };
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    gpumc_fit fit;
    gpumc_rng_normals(&rng, pairs_y, PAIRS);
    CHECK(gpumc_sample(&model, NULL, &fit) == GPUMC_OK, "%s", fit.message);
    for (size_t i = 0; i < PAIRS; i++) {
        const double share = fit.centring[3 + i];           /* after tau and the one free value of L */
        CHECK(i % 2 ? share > 0.8 : share < 0.1, "element %d: share of data %g", (int)i + 1, share);
    }
    gpumc_free(&fit);
}

/* Which blocks are linked, which pass messages on, and which count as part of a hierarchy: a location with no
   location of its own is linked for messages alone. */
static void check_hears(void)
{
    static const double x[] = { 1, 2, 3 };
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "nu" }, { .name = "beta" },
        { .name = "a", .size = 5, .location = "mu", .scale = "tau" },
        { .name = "b", .size = 4, .location = "mu", .scale = "tau", .centring = GPUMC_CENTRED },
        { .name = "c", .size = 3, .location = "mu", .scale = "tau", .covariates = x, .n_covariates = 1,
          .coefficients = "beta" },
        { .name = "d", .size = 7, .location = "nu", .scale = "tau" },
    };
    const int hears[] = { 1, 0, 1, 0, 1, 1, 1, 1 }, passes[] = { 0, 0, 0, 0, 1, 0, 0, 1 };
    const unsigned char waits[] = { 4, 4, 4, 8, 0, 0, 0, 0 };
    const gpumc_adapt_options o = { .num_chains = 1 };
    unsigned char found[8];
    gpumc__climb climb;
    machine m;
    machine_open(&m, params, 8);
    const size_t bytes = gpumc_adapt_bytes(m.layout, 0, &o);
    void *memory = malloc(bytes);
    const gpumc_adapt *a = gpumc_adapt_init(memory, bytes, m.layout, 0, &o, NULL);
    memset(&climb, 0, sizeof climb);
    climb.layout = m.layout;
    climb.waits = found;
    gpumc__climb_order(&climb);
    for (size_t i = 0; i < 8; i++) {
        const gpumc__placed *p = &m.layout->parts[i];
        CHECK(p->linked == hears[i] && p->link.passes == passes[i], "%s: linked %d, passes on %d", params[i].name,
              p->linked, p->link.passes);
        CHECK(found[i] == waits[i], "%s waits %d", params[i].name, found[i]);
        CHECK(gpumc__adapt_is_top(a, p->free_at) == (i < 4), "%s is at the top, or not", params[i].name);
    }
    CHECK(gpumc__layout_blocks(m.layout).size == 0, "locations belong to no group");
    free(memory);
    machine_close(&m);
}

/* A mean that receives messages, with priors for the scales. */
static double heard_held(const double *x, double *g, void *data)
{
    return heard_density(x, g, data) + gpumc_half_normal_lpdf(x[1], 5, &g[1], NULL)
        + gpumc_lognormal_lpdf(x[2], 0, 0.3, &g[2], NULL, NULL);
}

/* In the metric that a fit returns such a mean is in its own units. */
static void check_heard_metric(void)
{
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = HEARD, .location = "mu", .scale = "tau" },
    };
    heard d = { { 4, 4, 4, 4, 4, 4 }, { 11, 14, 12, 17, 9, 15 } };
    const gpumc_model model = { .params = params, .n_params = 4, .log_density = heard_held, .data = &d };
    const gpumc_metric_kind kinds[] = { GPUMC_METRIC_DIAG, GPUMC_METRIC_LOW_RANK, GPUMC_METRIC_DENSE };
    for (size_t k = 0; k < 3; k++) {
        const gpumc_sample_options o = { .seed = 4, .metric = kinds[k] };
        gpumc_fit fit;
        gpumc_summary row;
        double sd;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        if (fit.status != GPUMC_OK) continue;
        row = gpumc_summarise(&fit, 0);
        sd = sqrt(gpumc__metric_variance(&fit.metric, 0));
        CHECK(fabs(log(sd / row.sd)) < 0.5 && fabs(fit.metric.mean[0] - row.mean) < 0.5 * row.sd,
              "metric %d: %g +- %g, draws %g +- %g", (int)kinds[k], fit.metric.mean[0], sd, row.mean, row.sd);
        for (size_t i = 0; i < fit.n_free && fit.metric.kind == GPUMC_METRIC_DENSE; i++) {
            const double *L = fit.metric.factor, *row_i = L + i * fit.n_free;
            const double product = gpumc__dot(L, row_i, fit.n_free), held = fit.metric.covariance[i];
            CHECK(fabs(product - held) < 1e-12 * fit.metric.covariance[0], "factor and covariance part at %d: "
                  "%g, %g", (int)i, product, held);
        }
        gpumc_free(&fit);
    }
}

/* A walk of 100 steps that starts anywhere, with normal data: warm-up learns the information of every datum, so that
   every q is a standard normal, and a gradient is worth more than half an effective draw of the scale. */
enum { LEVELS = 100 };
static double steps_density(const double *x, double *g, void *data)
{
    const double *y = (const double *)data;
    double lp = gpumc_half_normal_lpdf(x[0], 1, &g[0], NULL);
    for (size_t t = 0; t < LEVELS; t++) {
        lp += gpumc_normal_lpdf(y[t], x[1 + t], t % 2 ? 1 : 2, NULL, &g[1 + t], NULL);
        if (t > 0) lp += gpumc_normal_lpdf(x[1 + t], x[t], x[0], &g[1 + t], &g[t], &g[0]);
    }
    return lp;
}

static void check_steps(void)
{
    static const size_t dims[] = { LEVELS };
    const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = dims, .n_dims = 1, .scale = "tau", .walk_dim = 1 } };
    const gpumc_sample_options o = { .seed = 2 };
    double y[LEVELS], level = 0, ess;
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0);
    gpumc_fit fit;
    for (size_t t = 0; t < LEVELS; t++) {
        level += 0.3 * gpumc_rng_normal(&rng);
        y[t] = level + (t % 2 ? 1 : 2) * gpumc_rng_normal(&rng);
    }
    const gpumc_model model = { .params = params, .n_params = 2, .log_density = steps_density, .data = y };
    CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
    ess = gpumc_ess_bulk(gpumc_fit_series(&fit, 0)).value;
    printf("walk of 100 steps: %.0f effective draws of its scale in %.0f gradients\n", ess,
           (double)fit.sampling_gradients);
    CHECK(ess > 0.5 * (double)fit.sampling_gradients, "%g effective draws", ess);
    gpumc_free(&fit);
}

/* A point is rejected where a scale is so small that elements cannot be distinguished from their location (1e-13 of
   it), or its square from zero (1e-100); just above, it is not. */
static void check_reach(void)
{
    static const size_t each[] = { 0, 0, 0 };
    for (int kind = 0; kind < 3; kind++) {
        const gpumc_param params[] = {
            { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
            { .name = "theta", .size = 3, .location = kind < 2 ? "mu" : NULL, .scale = "tau",
              .scale_index = kind ? each : NULL },
        };
        const double mu = kind < 2 ? 40 : 0, least = kind < 2 ? 40e-13 : 1e-100;
        double q[5] = { mu, 0, 0.1, -0.2, 0.3 }, g[5];
        machine m;
        machine_open(&m, params, 3);
        if (kind == 1) m.layout->parts[2].link.notches[0] = 3;      /* not uniform */
        gpumc__link_update(&m.layout->parts[2].link);
        q[1] = log(least * 1.01);
        CHECK(gpumc__is_finite(gpumc_model_eval(m.layout, q, g, m.work)), "kind %d: no density above", kind);
        q[1] = log(least * 0.99);
        CHECK(gpumc_model_eval(m.layout, q, g, m.work) == -HUGE_VAL, "kind %d: a density below", kind);
        machine_close(&m);
    }
}

/* The same for the scale that a factor leaves, tau L_kk; in kind 1 there is no tau. */
static void check_factor_reach(void)
{
    static const size_t two[] = { 2, 2 };
    for (int kind = 0; kind < 2; kind++) {
        const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
            { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = two, .n_dims = 2 },
            { .name = "a", .size = 1, .location = "mu", .scale = kind ? NULL : "tau", .factor = "L" },
            { .name = "b", .size = 1, .location = "mu", .scale = kind ? NULL : "tau", .factor = "L" } };
        double q[5] = { 40, 0, 0, 0, 0.3 }, g[5];
        machine m;
        machine_open(&m, params, 5);
        q[2] = log(2 / 40e-13) - 0.01;                  /* L_22 = sech q */
        CHECK(gpumc__is_finite(gpumc_model_eval(m.layout, q, g, m.work)), "kind %d: no density above", kind);
        q[2] += 0.02;
        CHECK(gpumc_model_eval(m.layout, q, g, m.work) == -HUGE_VAL, "kind %d: a density below", kind);
        machine_close(&m);
    }
}

/* A point is rejected, too, where a distance from a bound or from the value before overflows: beyond, the density
   would stay as it is while the log Jacobian grows without end. */
static double heavy(const double *x, double *g, void *data)
{
    (void)data;
    for (int i = 0; i < 2; i++) g[i] -= 1.5 / (x[i] < 0 ? x[i] - 1 : x[i] + 1);
    return -1.5 * (log1p(fabs(x[0])) + log1p(fabs(x[1])));
}
static void check_overflow(void)
{
    static const gpumc_kind kinds[] = { GPUMC_POSITIVE, GPUMC_LOWER, GPUMC_UPPER, GPUMC_ORDERED,
                                        GPUMC_POSITIVE_ORDERED };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const gpumc_param x = { .name = "x", .size = 2, .kind = kinds[k] };
        double q[2] = { 1, 705 }, g[2];
        machine m;
        machine_open(&m, &x, 1);
        m.model.log_density = heavy;
        CHECK(gpumc__is_finite(gpumc_model_eval(m.layout, q, g, m.work)), "kind %d: none below", (int)kinds[k]);
        q[1] = 1500;
        CHECK(gpumc_model_eval(m.layout, q, g, m.work) == -HUGE_VAL, "kind %d: one beyond", (int)kinds[k]);
        machine_close(&m);
    }
}

/* What is learned of a walk does not depend on its first element where that is no deviation from anything. */
static void check_start_share(void)
{
    enum { N = 6 };
    static const size_t dims[] = { N };
    const gpumc_param params[] = {
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .dims = dims, .n_dims = 1, .walk_dim = 1, .scale = "tau" },
    };
    double share[2][N];
    machine m;
    machine_open(&m, params, 2);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++) share[k][i] = 3 + i;
        share[k][0] = k ? 1e6 : 0.1;
        gpumc__centring_shares(&m.layout->parts[1].link, share[k], 50);
    }
    for (int i = 1; i < N; i++)
        CHECK(share[0][i] == share[1][i], "the start of a walk moves the share of element %d: %g, %g", i,
              share[0][i], share[1][i]);
    machine_close(&m);
}

/* ---- starts far away ------------------------------------------------------------------------------ */

/* Normal rows in groups, as sufficient statistics: rows in a group, their mean, and the sum of all squared
   deviations. */
enum { MOST_GROUPS = 500, FAR_SEEDS = 30 };
typedef struct rows { size_t n; double count[MOST_GROUPS], mean[MOST_GROUPS], squares; } rows;

/* The log likelihood of the rows, but for a constant. */
static double rows_fit(const rows *d, const double *theta, double sigma, double *g_theta, double *g_sigma)
{
    double squares = d->squares, n = 0;
    for (size_t j = 0; j < d->n; j++) {
        const double r = d->mean[j] - theta[j];
        g_theta[j] += d->count[j] * r / (sigma * sigma);
        squares += d->count[j] * r * r;
        n += d->count[j];
    }
    *g_sigma += squares / (sigma * sigma * sigma) - n / sigma;
    return -n * log(sigma) - 0.5 * squares / (sigma * sigma);
}

static double rows_density(const double *x, double *g, void *data)
{
    const rows *d = (const rows *)data;
    double lp = gpumc_normal_lpdf(x[0], 0, 100, &g[0], NULL, NULL)
        + gpumc_normal_lpdf(x[1], 0, 50, &g[1], NULL, NULL)
        + gpumc_normal_lpdf(x[2], 0, 10, &g[2], NULL, NULL);
    for (size_t j = 0; j < d->n; j++)
        lp += gpumc_normal_lpdf(x[3 + j], x[0], x[1], &g[3 + j], &g[0], &g[1]);
    return lp + rows_fit(d, x + 3, x[2], g + 3, &g[2]);
}

/* Groups with few and with many rows alternate. Start points are about 0. */
static void rows_make(rows *d, size_t n, int few, int many, double mu, double tau)
{
    gpumc_rng rng = gpumc_rng_at(42, 0, 0, 0);
    memset(d, 0, sizeof *d);
    d->n = n;
    for (size_t j = 0; j < n; j++) {
        const double theta = mu + tau * gpumc_rng_normal(&rng);
        const int count = j % 2 ? many : few;
        for (int i = 0; i < count; i++) {
            const double y = theta + 2 * gpumc_rng_normal(&rng), off = y - d->mean[j];
            d->count[j]++;
            d->mean[j] += off / d->count[j];
            d->squares += off * (y - d->mean[j]);
        }
    }
}

enum { FAR_CHAINS = 4 };

/* Start values as the library draws them, non-centred and uniform on (-2, 2); given as init, they do not make chains
   climb. */
static void far_starts(size_t n, uint64_t seed, double starts[3][FAR_CHAINS], double *theta)
{
    gpumc_rng rng = gpumc_rng_at(seed, 9, 0, 0);
    for (size_t c = 0; c < FAR_CHAINS; c++) {
        for (int i = 0; i < 3; i++) starts[i][c] = 4 * gpumc_rng_uniform(&rng) - 2;
        for (int i = 1; i < 3; i++) starts[i][c] = exp(starts[i][c]);
        for (size_t j = 0; j < n; j++)
            theta[c * n + j] = starts[0][c] + starts[1][c] * (4 * gpumc_rng_uniform(&rng) - 2);
    }
}

/* Far away energies are in the millions, and chains are thrown into necks where tau is e^-40. None may stay there,
   nor spoil what the others learn: R-hat must be below 1.1 in every run. Runs of 200 x 4 are lost if the old draws of
   a chain that was moved still count; a few of them end warm-up in a neck and then build trees of the greatest
   size. */
static void check_far_starts(void)
{
    const struct { const char *name; size_t n; int few, many; double mu, tau; uint64_t first; } cases[] = {
        { "500 x 10", 500, 10, 10, 50, 10, 1 }, { "200 x 1 or 200", 200, 1, 200, 50, 1, 1 },
        { "200 x 4", 200, 4, 4, 500, 1, 111 }, { "10 x 30", 10, 30, 30, 50, 0.3, 51 },
    };
    static rows d;
    static double starts[3][FAR_CHAINS], theta[FAR_CHAINS * MOST_GROUPS];
    const uint64_t seeds = getenv("QUICK") ? 3 : FAR_SEEDS;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double worst = 0;
        int lost = 0;
        rows_make(&d, cases[k].n, cases[k].few, cases[k].many, cases[k].mu, cases[k].tau);
        const gpumc_param params[] = {
            { .name = "mu", .init = starts[0], .n_inits = FAR_CHAINS },
            { .name = "tau", .kind = GPUMC_POSITIVE, .init = starts[1], .n_inits = FAR_CHAINS },
            { .name = "sigma", .kind = GPUMC_POSITIVE, .init = starts[2], .n_inits = FAR_CHAINS },
            { .name = "theta", .size = d.n, .location = "mu", .scale = "tau", .init = theta,
              .n_inits = FAR_CHAINS },
        };
        const gpumc_model model = { .name = "far", .params = params, .n_params = 4,
                                    .log_density = rows_density, .data = &d };
        for (uint64_t seed = cases[k].first; seed < cases[k].first + seeds; seed++) {
            const gpumc_sample_options o = { .num_chains = FAR_CHAINS, .num_samples = 500, .seed = seed,
                                             .skip_gradient_check = 1, .max_treedepth = 7 };
            gpumc_fit fit;
            double r_hat = 0;
            far_starts(d.n, seed, starts, theta);
            CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
            for (size_t i = 0; i < 3; i++) r_hat = fmax(r_hat, gpumc_r_hat(gpumc_fit_series(&fit, i)).value);
            worst = check_worst(worst, r_hat);
            lost += !(r_hat < 1.1);
            gpumc_free(&fit);
        }
        CHECK(lost == 0, "%s: %d of %d runs from far away do not converge, R-hat up to %.2f", cases[k].name,
              lost, (int)seeds, worst);
        printf("%s: R-hat at most %.3f in %d runs from far away\n", cases[k].name, worst, (int)seeds);
    }
}

enum { REGIONS = 8, CLIMB_GROUPS = 40, CLIMB_SEEDS = 15 };

/* mu, two scales, sigma, regions about mu, groups about their regions. */
static double regions_density(const double *x, double *g, void *data)
{
    const rows *d = (const rows *)data;
    const double *region = x + 4, *theta = region + REGIONS;
    double lp = gpumc_normal_lpdf(x[0], 0, 10000, &g[0], NULL, NULL);
    for (int i = 1; i < 4; i++) lp += gpumc_half_normal_lpdf(x[i], 50, &g[i], NULL);
    for (int r = 0; r < REGIONS; r++) lp += gpumc_normal_lpdf(region[r], x[0], x[1], &g[4 + r], &g[0], &g[1]);
    for (size_t j = 0; j < d->n; j++)
        lp += gpumc_normal_lpdf(theta[j], region[j % REGIONS], x[2], &g[4 + REGIONS + j], &g[4 + j % REGIONS],
                                &g[2]);
    return lp + rows_fit(d, theta, x[3], g + 4 + REGIONS, &g[3]);
}

/* Groups of a Student t population: from afar its density hardly shows where the bulk is. */
static double heavy_density(const double *x, double *g, void *data)
{
    const rows *d = (const rows *)data;
    double lp = gpumc_normal_lpdf(x[0], 0, 10000, &g[0], NULL, NULL)
        + gpumc_half_cauchy_lpdf(x[1], 5, &g[1], NULL) + gpumc_half_normal_lpdf(x[2], 50, &g[2], NULL);
    for (size_t j = 0; j < d->n; j++)
        lp += gpumc_student_t_lpdf(x[3 + j], 4, x[0], x[1], &g[3 + j], NULL, &g[0], &g[1]);
    return lp + rows_fit(d, x + 3, x[2], g + 3, &g[2]);
}

/* Steps of the climb against their formulas, in few and in many coordinates, and at their bounds. */
enum { CLIMB_STEPS = 40 };
static void check_climb_steps(void)
{
    double slope[CLIMB_STEPS], bend[CLIMB_STEPS], log_sd[CLIMB_STEPS], log_step[CLIMB_STEPS],
           step[CLIMB_STEPS];
    gpumc_rng rng = gpumc_rng_at(1, 9, 0, 0);
    for (size_t n = 3; n <= CLIMB_STEPS; n += CLIMB_STEPS - 3) {
        for (size_t i = 0; i < n; i++) {
            slope[i] = gpumc_rng_normal(&rng) * exp(3 * gpumc_rng_normal(&rng));
            bend[i] = gpumc_rng_normal(&rng) * exp(5 * gpumc_rng_normal(&rng));
            log_sd[i] = gpumc_rng_normal(&rng);
        }
        bend[0] = 0;
        slope[1] = 1e9;
        slope[2] = -1e9;
        gpumc__climb_steps(slope, bend, log_sd, 1, log_step, step, n);
        for (size_t i = 0; i < n; i++) {
            const double turn = fmin(fmax(-0.5 * log(fabs(bend[i])) - log_sd[i], -2.3), 2.3);
            const double move = fmin(fmax(0.5 * slope[i] * exp(2 * (log_sd[i] + turn)), -1), 1);
            CHECK(fabs(log_step[i] - turn) < 1e-14 && fabs(step[i] - move) < 1e-13,
                  "%d of %d: step %g and %g, not %g and %g", (int)i + 1, (int)n, log_step[i], step[i], turn, move);
        }
    }
}

static double flat_density(const double *x, double *g, void *data) { (void)x, (void)g, (void)data; return 0; }

/* The climb evaluates at two points on opposite sides of the mean: one standard deviation away in every coordinate,
   with random signs. */
static void check_climb_sides(void)
{
    const gpumc_param params[] = { { .name = "x", .size = CLIMB_STEPS } };
    const gpumc_model model = { .params = params, .n_params = 1, .log_density = flat_density };
    const size_t bytes = gpumc_layout_bytes(&model, NULL);
    void *memory = malloc(bytes);
    const gpumc_layout *l = gpumc_layout_init(&model, memory, bytes, NULL);
    double *scratch = (double *)malloc(gpumc__climb_bytes(l));
    gpumc__climb c = gpumc__climb_place(l, 0, gpumc_rng_at(1, 9, 0, 0), scratch);
    size_t above = 0;
    for (size_t i = 0; i < CLIMB_STEPS; i++) c.log_sd[i] = 0.75;
    for (size_t i = 0; i < CLIMB_STEPS; i++) c.log_step[i] = 0.25;
    gpumc__climb_elbo(&c);
    for (size_t i = 0; i < CLIMB_STEPS; i++) {
        CHECK(fabs(fabs(c.away[i]) - exp(1)) < 1e-14 && c.point[i] == c.away[i], "%g, %g", c.away[i], c.point[i]);
        above += c.away[i] > 0;
    }
    CHECK(above > CLIMB_STEPS / 4 && above < 3 * CLIMB_STEPS / 4, "%d of %d above", (int)above, CLIMB_STEPS);
    free(scratch);
    free(memory);
}

/* Incomes by height in centimetres, sex and their product, with starts within 2 of 0: Newton steps of the climb are
   far too long until the scale of the data has grown; then chains arrive. A chain left behind would be restarted, in
   at most one of 20 runs. */
enum { INCOMES = 200 };
static double income_density(const double *x, double *g, void *data)
{
    double lp = gpumc_half_cauchy_lpdf(x[4], 1e4, &g[4], NULL);
    (void)data;
    for (size_t k = 0; k < 4; k++) lp += gpumc_normal_lpdf(x[k], 0, 1e5, &g[k], NULL, NULL);
    for (size_t i = 0; i < INCOMES; i++) {
        const double male = (double)(i % 2), height = 164 + 13 * male + 8 * sin(3.7 * (double)i);
        const double w[4] = { 1, height, male, male * height };
        const double income = 300 * height - 35000 + 5000 * male + 15000 * sin(1.3 * (double)i * (double)i);
        double eta = 0, d = 0;
        for (size_t k = 0; k < 4; k++) eta += w[k] * x[k];
        lp += gpumc_normal_lpdf(income, eta, x[4], NULL, &d, &g[4]);
        for (size_t k = 0; k < 4; k++) g[k] += w[k] * d;
    }
    return lp;
}

static void check_climb_of_raw_columns(void)
{
    const gpumc_param params[] = { { .name = "b", .size = 4 }, { .name = "sigma", .kind = GPUMC_POSITIVE } };
    const gpumc_model model = { .params = params, .n_params = 2, .log_density = income_density };
    size_t restarted = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const gpumc_sample_options o = { .seed = seed, .num_samples = 100 };
        gpumc_fit fit;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        restarted += fit.n_restarted > 0;
        gpumc_free(&fit);
    }
    CHECK(restarted <= 1, "%d of 20 runs restarted chains", (int)restarted);
}

/* Six groups whose data determine them to a thousandth of tau, down to a billionth, some better than others. If
   weights were at most .999, the best determined ones would have a handful of effective draws: when the location
   moves, it drags along what the data hold in place. */
typedef struct sharp { double sd, y[6]; } sharp;
static double sharp_density(const double *x, double *g, void *data)
{
    const sharp *s = (const sharp *)data;
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 2, &g[1], NULL);
    for (int i = 0; i < 6; i++)
        lp += gpumc_normal_lpdf(x[2 + i], x[0], x[1], &g[2 + i], &g[0], &g[1])
            + gpumc_normal_lpdf(s->y[i], x[2 + i], s->sd * (1 + i), NULL, &g[2 + i], NULL);
    return lp;
}
static void check_sharp_data(void)
{
    static sharp s = { 0, { 0, 0.7, 1.1, 1.4, 1.6, 1.8 } };
    const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
                                   { .name = "theta", .size = 6, .location = "mu", .scale = "tau" } };
    const gpumc_model model = { .params = params, .n_params = 3, .log_density = sharp_density, .data = &s };
    for (s.sd = 1e-3; s.sd > 1e-10; s.sd *= 0.01)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const gpumc_sample_options o = { .seed = seed };
            gpumc_fit fit;
            CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
            const gpumc_summary tau = gpumc_summarise(&fit, 1);
            /* by quadrature over tau, theta being y */
            CHECK(fabs(tau.mean - 0.8692) < 4.5 * tau.mcse && tau.ess_bulk > 1000, "sd %g: %g, mcse %g, %.0f draws",
                  s.sd, tau.mean, tau.mcse, tau.ess_bulk);
            gpumc_free(&fit);
        }
}

/* Groups at 5000: chains that do not climb but are left to fall there need far more warm-up gradients, and some never
   leave the necks. */
static void check_climb(void)
{
    static rows d;
    static size_t region_of[CLIMB_GROUPS];
    const gpumc_param regions[] = {
        { .name = "mu" }, { .name = "between", .kind = GPUMC_POSITIVE },
        { .name = "within", .kind = GPUMC_POSITIVE }, { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "region", .size = REGIONS, .location = "mu", .scale = "between" },
        { .name = "theta", .size = CLIMB_GROUPS, .location = "region", .scale = "within",
          .location_index = region_of },
    };
    const gpumc_param heavy[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = CLIMB_GROUPS, .location = "mu", .scale = "tau" },
    };
    const gpumc_model models[] = {
        { .name = "regions", .params = regions, .n_params = 6, .log_density = regions_density, .data = &d },
        { .name = "heavy tails", .params = heavy, .n_params = 4, .log_density = heavy_density, .data = &d },
    };
    rows_make(&d, CLIMB_GROUPS, 10, 10, 5000, 10);
    for (size_t j = 0; j < CLIMB_GROUPS; j++) region_of[j] = j % REGIONS;
    for (int k = 0; k < 4; k++) {
        const gpumc_model *model = &models[k / 2];
        double warmup[CLIMB_SEEDS], worst = 0;
        for (int i = 0; i < CLIMB_SEEDS; i++) {
            const gpumc_sample_options o = { .num_chains = k % 2 ? 1 : 4, .num_samples = 500,
                                             .seed = (uint64_t)i + 1, .skip_gradient_check = 1 };
            gpumc_fit fit;
            CHECK(gpumc_sample(model, &o, &fit) == GPUMC_OK, "%s", fit.message);
            for (size_t j = 0; j < model->n_params - 1; j++)
                worst = check_worst(worst, gpumc_r_hat(gpumc_fit_series(&fit, j)).value);
            warmup[i] = (double)fit.warmup_gradients / (double)fit.n_chains;
            gpumc_free(&fit);
        }
        qsort(warmup, CLIMB_SEEDS, sizeof *warmup, gpumc__compare_doubles);
        printf("%s at 5000: R-hat at most %.3f, warm-up of a chain %.0f gradients, at most %.0f\n",
               model->name, worst, warmup[CLIMB_SEEDS / 2], warmup[CLIMB_SEEDS - 1]);
        CHECK(worst < 1.1, "%s, from far away: R-hat up to %.2f", model->name, worst);
        CHECK(warmup[CLIMB_SEEDS / 2] < 6000, "%s, from far away: warm-up takes %.0f gradients", model->name,
              warmup[CLIMB_SEEDS / 2]);
    }
}

/* A chain's start is the point at which the gradient is timed: the last one that is evaluated twice in a row. */
enum { WATCHED = 23 };
typedef struct watch {
    rows rows;
    size_t n_calls;
    double first[WATCHED], last[WATCHED], start[WATCHED];
} watch;

static double watched_density(const double *x, double *g, void *data)
{
    watch *w = (watch *)data;
    if (w->n_calls++ == 0) memcpy(w->first, x, sizeof w->first);
    else if (memcmp(w->last, x, sizeof w->last) == 0) memcpy(w->start, x, sizeof w->start);
    memcpy(w->last, x, sizeof w->last);
    return rows_density(x, g, &w->rows);
}

/* Chains climb from far away only, and values with an init stay where they are. */
static void check_climb_starts(void)
{
    static watch w;
    static const double given[] = { 7 };
    for (int k = 0; k < 4; k++) {
        const int is_far = k % 2, held = k / 2;
        const gpumc_param params[] = {
            { .name = "mu", .init = held ? given : NULL }, { .name = "tau", .kind = GPUMC_POSITIVE },
            { .name = "sigma", .kind = GPUMC_POSITIVE },
            { .name = "theta", .size = WATCHED - 3, .location = "mu", .scale = "tau" },
        };
        const gpumc_model model = { .name = "watched", .params = params, .n_params = 4,
                                    .log_density = watched_density, .data = &w };
        const gpumc_sample_options o = { .num_chains = 1, .num_warmup = 1, .num_samples = 1, .seed = 3,
                                         .init_radius = is_far ? 0 : 0.5,
                                         .skip_gradient_check = 1 };
        gpumc_fit fit;
        int reached = 0;
        memset(&w, 0, sizeof w);
        rows_make(&w.rows, WATCHED - 3, is_far ? 10 : 2, is_far ? 10 : 2, is_far ? 500 : held ? 7 : 0, 1);
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        for (int j = 3; j < WATCHED; j++) reached += fabs(w.start[j] - 500) < 10;
        CHECK((memcmp(w.first, w.start, sizeof w.start) == 0) == !is_far, "%s: the start %s",
              is_far ? "far away" : "near", is_far ? "is left there" : "is moved");
        CHECK(!is_far || reached == WATCHED - 3, "%d of %d groups have reached their rows", reached,
              WATCHED - 3);
        CHECK(fit.warmup_gradients > 4 * GPUMC__CLIMB_STRETCH, "the climb is not counted");
        CHECK(!held || w.start[0] == 7, "mu is given as 7 and starts at %g", w.start[0]);
        gpumc_free(&fit);
    }
}

/* A single chain that starts with every element at its location is pulled into the neck first of all; it must get
   out. */
static void check_level_starts(void)
{
    static const double zeros[MOST_GROUPS] = { 0 }, ones[1] = { 1 };
    static rows d;
    int lost = 0;
    rows_make(&d, 97, 10, 10, 50, 10);
    const gpumc_param params[] = {
        { .name = "mu", .init = zeros }, { .name = "tau", .kind = GPUMC_POSITIVE, .init = ones },
        { .name = "sigma", .kind = GPUMC_POSITIVE, .init = ones },
        { .name = "theta", .size = d.n, .location = "mu", .scale = "tau", .init = zeros },
    };
    const gpumc_model model = { .name = "level", .params = params, .n_params = 4, .log_density = rows_density,
                                .data = &d };
    for (uint64_t seed = 1; seed <= FAR_SEEDS; seed++) {
        const gpumc_sample_options o = { .num_chains = 1, .num_samples = 500, .seed = seed,
                                         .skip_gradient_check = 1 };
        gpumc_fit fit;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        lost += !(gpumc_r_hat(gpumc_fit_series(&fit, 1)).value < 1.1) || fit.step_size < 1e-3;
        gpumc_free(&fit);
    }
    CHECK(lost == 0, "%d of %d single chains that start at one level are lost", lost, FAR_SEEDS);
}

/* A walk whose first element, at 50, has a diffuse prior: it is no deviation from anything, and all elements after it
   depend on it. The bound for the median R-hat over seeds is stricter than that for the largest, because tau has a
   long left tail. */
enum { STEPS = 40, WALK_SEEDS = 15 };
typedef struct walk { double mean[STEPS]; } walk;
static double walk_density(const double *x, double *g, void *data)
{
    const walk *d = (const walk *)data;
    const double *theta = x + 1;
    double lp = gpumc_half_normal_lpdf(x[0], 50, &g[0], NULL)
        + gpumc_normal_lpdf(theta[0], 0, 100, &g[1], NULL, NULL);
    for (int j = 1; j < STEPS; j++)
        lp += gpumc_normal_lpdf(theta[j], theta[j - 1], x[0], &g[1 + j], &g[j], &g[0]);
    for (int j = 0; j < STEPS; j++) lp += gpumc_normal_lpdf(d->mean[j], theta[j], 1, NULL, &g[1 + j], NULL);
    return lp;
}
static void check_diffuse_walk(void)
{
    static const size_t steps[] = { STEPS };
    const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .dims = steps, .n_dims = 1, .scale = "tau", .walk_dim = 1 } };
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    walk d;
    double level = 50, r_hats[WALK_SEEDS];
    for (int j = 0; j < STEPS; j++) {
        level += 0.3 * gpumc_rng_normal(&rng);
        d.mean[j] = level + gpumc_rng_normal(&rng);
    }
    const gpumc_model model = { .name = "walk", .params = params, .n_params = 2, .log_density = walk_density,
                                .data = &d };
    for (int k = 0; k < WALK_SEEDS; k++) {
        const gpumc_sample_options o = { .num_samples = 500, .seed = (uint64_t)k + 1,
                                         .skip_gradient_check = 1 };
        gpumc_fit fit;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        r_hats[k] = 0;
        for (size_t i = 0; i <= STEPS; i++)
            r_hats[k] = fmax(r_hats[k], gpumc_r_hat(gpumc_fit_series(&fit, i)).value);
        gpumc_free(&fit);
    }
    qsort(r_hats, WALK_SEEDS, sizeof *r_hats, gpumc__compare_doubles);
    printf("diffuse walk: R-hat %.3f to %.3f\n", r_hats[0], r_hats[WALK_SEEDS - 1]);
    CHECK(r_hats[WALK_SEEDS - 1] < 1.1 && r_hats[WALK_SEEDS / 2] < 1.02,
          "a walk from a diffuse first element: R-hat in the median %.3f, at most %.3f",
          r_hats[WALK_SEEDS / 2], r_hats[WALK_SEEDS - 1]);
}

/* Stochastic volatility: log variances are a stationary series, on which each observation holds little information.
   Declared as a series, the smallest ESS per gradient is over twice that of a mere walk; 1.5 times is required. */
enum { DAYS = 150, SERIES_SEEDS = 5 };
static double volatility_density(const double *x, double *g, void *data)                /* mu, phi, tau, h */
{
    const double *y = (const double *)data, mu = x[0], phi = x[1], tau = x[2], root = sqrt(1 - phi * phi);
    const double *h = x + 3;
    double first = 0, by_u = 0, *dh = g + 3;
    double lp = gpumc_normal_lpdf(mu, 0, 2, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(tau, 0.5, &g[2], NULL)
        + gpumc_beta_lpdf((phi + 1) / 2, 20, 1.5, &by_u, NULL, NULL)
        + gpumc_normal_lpdf(h[0], mu, tau / root, &dh[0], &g[0], &first);
    g[1] += by_u / 2 + first * tau * phi / (root * root * root);
    g[2] += first / root;
    for (int t = 0; t < DAYS; t++) {
        const double sigma = exp(h[t] / 2);
        double by_mean = 0, by_sigma = 0;
        lp += gpumc_normal_lpdf(y[t], 0, sigma, NULL, NULL, &by_sigma);
        dh[t] += by_sigma * sigma / 2;
        if (t == 0) continue;
        lp += gpumc_normal_lpdf(h[t], mu + phi * (h[t - 1] - mu), tau, &dh[t], &by_mean, &g[2]);
        dh[t - 1] += phi * by_mean;
        g[0] += (1 - phi) * by_mean;
        g[1] += (h[t - 1] - mu) * by_mean;
    }
    return lp;
}
static void check_volatility(void)
{
    gpumc_param params[] = { { .name = "mu" }, { .name = "phi", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 },
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "h", .size = DAYS, .location = "mu", .scale = "tau", .walk_dim = 1 } };
    double y[DAYS], h = 0, per_gradient[2] = { 0, 0 };
    int warned = 0;
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    for (int t = 0; t < DAYS; t++) {
        h = t == 0 ? 0.3 / sqrt(1 - 0.95 * 0.95) * gpumc_rng_normal(&rng) : 0.95 * h + 0.3 * gpumc_rng_normal(&rng);
        y[t] = exp((h - 0.5) / 2) * gpumc_rng_normal(&rng);
    }
    const gpumc_model model = { .name = "volatility", .params = params, .n_params = 4,
                                .log_density = volatility_density, .data = y };
    for (int k = 0; k < 2 * SERIES_SEEDS; k++) {
        const gpumc_sample_options o = { .seed = (uint64_t)(k / 2) + 1, .skip_gradient_check = k > 0 };
        double least = GPUMC_INF;
        gpumc_fit fit;
        params[3].walk_coefficient = k % 2 ? "phi" : NULL;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        for (size_t i = 0; i < fit.n_columns; i++)
            least = fmin(least, gpumc_ess_bulk(gpumc_fit_series(&fit, i)).value);
        per_gradient[k % 2] += least / (double)(fit.warmup_gradients + fit.sampling_gradients);
        for (size_t i = 0; i < fit.n_warnings; i++) warned += k % 2 && !fit.warnings[i].note;
        gpumc_free(&fit);
    }
    printf("volatility: %.4f effective draws a gradient as a series, %.4f as a walk; %d warnings\n",
           per_gradient[1] / SERIES_SEEDS, per_gradient[0] / SERIES_SEEDS, warned);
    CHECK(per_gradient[1] > 1.5 * per_gradient[0], "a series is sampled at %.2g effective draws a gradient, a walk "
          "at %.2g", per_gradient[1], per_gradient[0]);
}

/* A walk whose scale has its bulk away from zero, while its density at zero is still a tenth of the highest. A normal
   with the spread of the bulk has next to no mass there, so that chains which come near zero are held, as they are
   with normal scores that are not bent (k = 1). Learned bends (0) and a given one (2) prevent that. */
enum { BEND_STEPS = 20, BEND_SEEDS = 8 };
static double bend_density(const double *x, double *g, void *data)                    /* tau, mu, w */
{
    const double *y = (const double *)data;
    double lp = gpumc_half_normal_lpdf(x[0], 1, &g[0], NULL) + gpumc_normal_lpdf(x[1], 0, 3, &g[1], NULL, NULL);
    for (int t = 0; t < BEND_STEPS; t++)
        lp += gpumc_normal_lpdf(x[2 + t], x[1 + t], x[0], &g[2 + t], &g[1 + t], &g[0])
              + gpumc_normal_lpdf(y[t], x[2 + t], 0.5, NULL, &g[2 + t], NULL);
    return lp;
}
static size_t longest_stay(const gpumc_fit *fit)
{
    size_t longest = 0;
    for (size_t c = 0; c < fit->n_chains; c++)
        for (size_t i = 0, stay = 0; i < fit->n_draws; i++) {
            stay = fit->stats[c * fit->draw_capacity + i].selected ? 0 : stay + 1;
            longest = stay > longest ? stay : longest;
        }
    return longest;
}
static void check_bend(void)
{
    gpumc_param params[] = {
        { .name = "tau", .kind = GPUMC_POSITIVE }, { .name = "mu" },
        { .name = "w", .size = BEND_STEPS, .location = "mu", .scale = "tau", .walk_dim = 1 },
    };
    double y[BEND_STEPS], level = 0;
    size_t longest[3] = { 0, 0, 0 };
    gpumc_rng rng = gpumc_rng_at(2, 0, 0, 0);
    for (int t = 0; t < BEND_STEPS; t++) {
        level += 0.2 * gpumc_rng_normal(&rng);
        y[t] = level + 0.5 * gpumc_rng_normal(&rng);
    }
    const gpumc_model model = { .params = params, .n_params = 3, .log_density = bend_density, .data = y };
    for (int k = 0; k < 3; k++)
        for (int seed = 1; seed <= BEND_SEEDS; seed++) {
            const gpumc_sample_options o = { .seed = (uint64_t)seed, .sampler = GPUMC_SAMPLER_HMC };
            gpumc_fit fit;
            CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
            const size_t stay = longest_stay(&fit);
            longest[k] = stay > longest[k] ? stay : longest[k];
            CHECK(k == 1 || (fit.bend[0] > 0.2 && fit.bend[0] < 0.7), "bend %g", fit.bend[0]);
            if (k == 0 && seed == BEND_SEEDS) params[0].typical = fit.typical[0];
            if (k == 1 && seed == BEND_SEEDS) params[0].bend = 0.45;
            gpumc_free(&fit);
        }
    printf("longest stays: %zu bent, %zu not, %zu of a given bend\n", longest[0], longest[1], longest[2]);
    CHECK(longest[0] < 15 && longest[2] < 15 && longest[1] > 20, "stays of %zu, %zu, %zu", longest[0], longest[1],
          longest[2]);
}

/* Degrees of freedom, which the data keep away from zero and which scale no block: with a bent map NUTS would
   diverge. */
enum { DEGREES_ROWS = 60 };
static double degrees_density(const double *x, double *g, void *data)                /* a, b, sigma, nu */
{
    const double *y = (const double *)data, *u = y + DEGREES_ROWS;
    double lp = gpumc_normal_lpdf(x[0], 0, 10, &g[0], NULL, NULL) + gpumc_normal_lpdf(x[1], 0, 10, &g[1], NULL, NULL)
                + gpumc_half_normal_lpdf(x[2], 5, &g[2], NULL) + gpumc_gamma_lpdf(x[3], 2, 0.1, &g[3], NULL, NULL);
    for (int i = 0; i < DEGREES_ROWS; i++) {
        double by_mean = 0;
        lp += gpumc_student_t_lpdf(y[i], x[3], x[0] + x[1] * u[i], x[2], NULL, &g[3], &by_mean, &g[2]);
        g[0] += by_mean;
        g[1] += by_mean * u[i];
    }
    return lp;
}
static void check_degrees(void)
{
    static const gpumc_param params[] = { { .name = "a" }, { .name = "b" },
        { .name = "sigma", .kind = GPUMC_POSITIVE }, { .name = "nu", .kind = GPUMC_POSITIVE } };
    double data[2 * DEGREES_ROWS];
    gpumc_rng rng = gpumc_rng_at(20, 0, 0, 0);
    for (int i = 0; i < DEGREES_ROWS; i++) {
        data[DEGREES_ROWS + i] = gpumc_rng_normal(&rng);
        data[i] = 1 + 2 * data[DEGREES_ROWS + i] + gpumc_student_t_rng(&rng, 4, 0, 1.5);
    }
    const gpumc_model model = { .params = params, .n_params = 4, .log_density = degrees_density, .data = data };
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const gpumc_sample_options o = { .seed = seed };
        gpumc_fit fit;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        CHECK(fit.n_warnings == 0, "seed %d: %s", (int)seed, fit.n_warnings ? fit.warnings->text : "");
        CHECK(fit.bend[2] == 0 && fit.bend[3] == 0, "seed %d: bends %g, %g", (int)seed, fit.bend[2], fit.bend[3]);
        gpumc_free(&fit);
    }
}

/* A scale declared with bounds, as for a uniform prior, lies near the lower one: the odds of its place between them
   are mapped by normal scores; those of a correlation are not. */
static double odds_density(const double *x, double *g, void *data)                   /* tau, rho, noise */
{
    (void)data;
    return gpumc_half_normal_lpdf(x[0], 1, &g[0], NULL) + gpumc_normal_lpdf(x[1], 0.3, 0.2, &g[1], NULL, NULL)
           + gpumc_gamma_lpdf(x[2], 9, 3, &g[2], NULL, NULL);
}
static void check_odds(void)
{
    static const gpumc_param params[] = { { .name = "tau", .kind = GPUMC_INTERVAL, .upper = 50 },
        { .name = "rho", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 },
        { .name = "noise", .kind = GPUMC_POSITIVE } };
    const gpumc_model model = { .params = params, .n_params = 3, .log_density = odds_density };
    for (int seed = 1; seed <= 4; seed++) {
        const gpumc_sample_options o = { .seed = (uint64_t)seed, .save_unconstrained = 1 };
        gpumc_fit fit;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK && fit.n_warnings == 0, "%s", fit.message);
        const gpumc_summary tau = gpumc_summarise(&fit, 0), rho = gpumc_summarise(&fit, 1);
        CHECK(fit.typical[0] != 0 && fit.typical[1] == 0, "typical %g, %g", fit.typical[0], fit.typical[1]);
        CHECK(fabs(tau.mean - 0.7978845608) < 4.5 * tau.mcse && tau.ess_bulk > 1000, "tau %g, mcse %g, ess %g",
              tau.mean, tau.mcse, tau.ess_bulk);
        CHECK(fabs(rho.mean - 0.2998254254) < 4.5 * rho.mcse, "rho %g, mcse %g", rho.mean, rho.mcse);
        size_t wrong = 0;
        for (size_t i = 0; i < 4000; i++) {            /* what is saved is that of the kind: a logit, its Jacobian */
            const double *x = fit.draws + 3 * i, *q = fit.unconstrained + 3 * i, p = x[0] / 50, v = (x[1] + 1) / 2;
            double g[3];
            const double lp = odds_density(x, g, NULL) + log(50 * p * (1 - p)) + log(2 * v * (1 - v)) + log(x[2]);
            wrong += !(fabs(q[0] - log(p / (1 - p))) < 1e-9 && fabs(fit.stats[i].lp - lp) < 1e-9);
        }
        CHECK(wrong == 0, "%d of 4000 draws", (int)wrong);
        gpumc_free(&fit);
    }
}

/* Gaps between ordered normals may be close to 0: on their logarithms NUTS diverged in two runs of three. The means
   are those of order statistics; chance fails one of the 48 checks in one of 300 sets of seeds. */
static double ordered_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 4; i++) lp += gpumc_normal_lpdf(x[i], 0, 1, &g[i], NULL, NULL);
    return lp;
}
static void check_ordered(void)
{
    static const double means[] = { -1.029375373, -0.297011383, 0.297011383, 1.029375373 };
    const gpumc_param x = { .name = "x", .size = 4, .kind = GPUMC_ORDERED };
    const gpumc_model model = { .params = &x, .n_params = 1, .log_density = ordered_density };
    size_t divergent = 0, shaped = 0;
    for (int seed = 1; seed <= 12; seed++) {
        const gpumc_sample_options o = { .seed = (uint64_t)seed };
        gpumc_fit fit;
        CHECK(gpumc_sample(&model, &o, &fit) == GPUMC_OK, "%s", fit.message);
        divergent += fit.n_divergent;
        for (size_t i = 0; i < 4; i++) {
            const gpumc_summary row = gpumc_summarise(&fit, i);
            CHECK(fabs(row.mean - means[i]) < 4 * row.mcse, "%g, not %g", row.mean, means[i]);
            shaped += fit.typical[i] != 0;
        }
        CHECK(fit.typical[0] == 0, "the first is no distance");
        gpumc_free(&fit);
    }
    printf("ordered normals: %zu divergences, %zu of 36 gaps with scores\n", divergent, shaped);
    CHECK(divergent == 0 && shaped > 18, "%zu divergences, %zu gaps", divergent, shaped);
}

/* Many distances that keep away from zero: the departures from a normal that a bend adds to each would add up and
   rule out HMC on the spring. */
static double many_density(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 200; i++) lp += gpumc_gamma_lpdf(x[i], 8, 1, &g[i], NULL, NULL);
    return lp;
}
static void check_many(void)
{
    const gpumc_param x = { .name = "x", .size = 200, .kind = GPUMC_POSITIVE };
    const gpumc_model model = { .params = &x, .n_params = 1, .log_density = many_density };
    gpumc_fit fit;
    CHECK(gpumc_sample(&model, NULL, &fit) == GPUMC_OK, "%s", fit.message);
    CHECK(fit.sampler == GPUMC_SAMPLER_HMC && fit.metric.spring, "%s", fit.sampler_reason);
    gpumc_free(&fit);
}

/* Standard deviation, over sets of pairs, of the log of the trial's excess. Gradients have the correlation -r with
   positions, as those of a normal have where other coordinates move them, too. power as in gpumc__score_trial. */
static double trial_sd(double r, double power)
{
    enum { N = 240, SETS = 500 };
    const gpumc__shape logarithm = { 0, 0 };
    static gpumc_adapt a;
    double pairs[4 * N], mean = 0, square = 0;
    gpumc_rng rng = gpumc_rng_at(31, 0, 0, 0);
    a.pairs = pairs;
    a.n_used = N;
    for (int k = 0; k < SETS; k++) {
        double own = power, x;
        for (int i = 0; i < N; i++) {
            pairs[2 * i] = gpumc_rng_normal(&rng);
            pairs[2 * i + 1] = -pairs[2 * i] + sqrt(1 / (r * r) - 1) * gpumc_rng_normal(&rng);
        }
        x = log(gpumc__score_trial(&a, logarithm, &own).excess);
        gpumc__welford(&mean, &square, &x, 1, 1 / (double)(k + 1));
    }
    CHECK(fabs(mean + 2 * log(r)) < 0.1, "correlation %g, power %g: mean %g, not %g", r, power, mean,
          -2 * log(r));
    return sqrt(square / (SETS - 1));
}

/* The statistic that chooses the maps of scales: exact where gradients are those of one normal, elsewhere with a
   smaller sampling error than Var q Var g (power 1e-9) and 1 / R^2 (power 1), infinite where gradients push away. */
static void check_score_trial(void)
{
    static const double r[] = { 0.95, 0.7, 0.4 };
    const gpumc__shape logarithm = { 0, 0 };
    double pairs[4 * 20], power = 0;
    static gpumc_adapt a;
    a.pairs = pairs;
    a.n_used = 20;
    for (int i = 0; i < 20; i++) pairs[2 * i + 1] = -7 * (pairs[2 * i] = sin(i));
    CHECK(fabs(gpumc__score_trial(&a, logarithm, &power).excess - 1) < 1e-12 && fabs(power - 1) < 1e-12,
          "one normal");
    a.n_used = 10;
    CHECK(isnan(gpumc__score_trial(&a, logarithm, &power).excess), "too few");
    a.n_used = 20;
    for (int i = 0; i < 20; i++) pairs[2 * i + 1] = pairs[2 * i];
    CHECK(gpumc__score_trial(&a, logarithm, &power).excess == HUGE_VAL, "gradients that push away");
    for (size_t k = 0; k < sizeof r / sizeof *r; k++) {
        const double best = trial_sd(r[k], 0), plain = trial_sd(r[k], 1e-9), whole = trial_sd(r[k], 1);
        printf("correlation %g: the measure of a map varies by %.3f, Var q Var g by %.3f, 1 / R^2 by %.3f\n",
               r[k], best, plain, whole);
        CHECK(best < 0.9 * plain && best < 0.9 * whole, "correlation %g: %g, %g, %g", r[k], best, plain, whole);
    }
}

/* ---- the truncated normal, however far outside the location is ------------------------------------ */
static void check_truncated(void)
{
    for (size_t k = 0; k < sizeof known_truncated / sizeof *known_truncated; k++) {
        const double at[2][3] = { { known_truncated[k].theta, known_truncated[k].mu, known_truncated[k].tau },
                                  { known_truncated[k].z, known_truncated[k].mu, known_truncated[k].tau } };
        const double bounds[2] = { known_truncated[k].low, known_truncated[k].high };
        double g[2][3] = { { 0 }, { 0 } };
        const double got[2] = { gpumc__truncated_population_row(at[0], bounds, g[0]),
                                gpumc__truncated_quantile_row(at[1], bounds, g[1]) };
        const double theta = known_truncated[k].quantile[0], edge = fmin(theta - bounds[0], bounds[1] - theta);
        double worst = check_worst(fabs(got[0] - known_truncated[k].density[0]) / (1 + fabs(got[0])),
                            0.1 * fabs(got[1] - theta) / edge);
        for (int i = 0; i < 3; i++) {
            const double d = known_truncated[k].density[1 + i], q = known_truncated[k].quantile[1 + i];
            worst = check_worst(worst, fabs(g[0][i] - d) / (1 / at[0][2] + fabs(d)));
            worst = check_worst(worst, 0.1 * fabs(g[1][i] - q) / (1e-2 + fabs(q)));
        }
        CHECK(worst < 1e-10, "mu %g, tau %g between %g and %g: off by %g", at[0][1], at[0][2], bounds[0],
              bounds[1], worst);
    }
}

int main(void)
{
    check_truncated();
    check_kinds();
    check_rows();
    check_joined();
    check_map();
    check_promise();
    check_reach();
    check_factor_reach();
    check_overflow();
    check_learning();
    check_anchors();
    check_noise();
    check_told();
    check_sharing();
    check_location_untold();
    check_kin_untold();
    check_hears();
    check_heard_metric();
    check_steps();
    check_scores();
    check_mirror();
    check_bend();
    check_degrees();
    check_odds();
    check_ordered();
    check_many();
    check_score_trial();
    check_start_share();
    check_far_starts();
    check_climb_steps();
    check_climb_sides();
    check_sharp_data();
    check_climb_of_raw_columns();
    check_climb();
    check_climb_starts();
    check_level_starts();
    check_diffuse_walk();
    check_volatility();
    return check_end();
}
