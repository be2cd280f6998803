/* The fourteen posteriors of the posteriordb development set, written by hand from the formulas in its
   README. Parameters and outputs have the names of the reference's columns, so that columns are found by name.
   Read first: `posteriors` at the end, then any one density. The linear regressions share one. */
#ifndef POSTERIORS_H
#define POSTERIORS_H

/* A model with all that it refers to; opened by posterior_open, released by posterior_close. */
typedef struct posterior_model {
    gpumc_model model;
    gpumc_data file;
    void *state;              /* one block from calloc, freed at the end */
    const char *error;        /* NULL, or what is missing */
} posterior_model;

/* ---- reading the data ---------------------------------------------------------------------------- */

/* The n values of a variable; n = 0: of any number. If it is missing, m->error is set and NULL returned. */
static const double *values_of(posterior_model *m, const char *name, size_t n)
{
    const gpumc_variable *v = gpumc_data_get(&m->file, name, n, 0, NULL);
    if (!v && !m->error) m->error = name;
    return v ? v->values : NULL;
}

static size_t count_of(posterior_model *m, const char *name)
{
    const gpumc_variable *v = gpumc_data_get(&m->file, name, 0, 0, NULL);
    if (!v && !m->error) m->error = name;
    return v ? v->n_values : 0;
}

static void *state_of(posterior_model *m, size_t bytes)
{
    m->state = calloc(1, bytes);
    if (!m->state) m->error = "memory";
    m->model.data = m->state;
    return m->state;
}

#define LENGTH(list) (sizeof(list) / sizeof *(list))
#define SET_PARAMS(m, list) ((m)->model.params = (list), (m)->model.n_params = LENGTH(list))
#define SET_OUTPUTS(m, list) ((m)->model.outputs = (list), (m)->model.n_outputs = LENGTH(list))
#define BETA_AND_SIGMA(k) { { .name = "beta", .size = (k) }, { .name = "sigma", .kind = GPUMC_POSITIVE } }

/* ---- linear regressions --------------------------------------------------------------------------
   y ~ N(Z beta, sigma), Z n x k. From Z = Q R and c = Q'y: |y - Z beta|^2 = rest + |c - R beta|^2, with R the
   square root of the cross products; so a gradient costs k^2, whatever n, and nothing cancels.
   Natural values: beta (k of them, in one or two blocks), sigma. */
enum { MAX_COLUMNS = 25 };
typedef struct regression {
    size_t n, k;
    double R[MAX_COLUMNS][MAX_COLUMNS], c[MAX_COLUMNS], rest;
    double (*prior)(const double *x, double *grad);      /* NULL: flat */
} regression;

static double regression_density(const double *x, double *grad, void *data)
{
    const regression *r = (const regression *)data;
    const double sigma = x[r->k], inv = 1 / (sigma * sigma);
    double S = r->rest, lp = r->prior ? r->prior(x, grad) : 0;
    for (size_t i = 0; i < r->k; i++) {
        double e = r->c[i];
        for (size_t j = i; j < r->k; j++) e -= r->R[i][j] * x[j];
        for (size_t j = i; j < r->k; j++) grad[j] += r->R[i][j] * e * inv;
        S += e * e;
    }
    grad[r->k] += (S * inv - (double)r->n) / sigma;
    return lp - (double)r->n * (gpumc_log(sigma) + GPUMC_LOG_SQRT_2PI) - 0.5 * S * inv;
}

/* Modified Gram-Schmidt on the columns of [Z y], column-major with n rows each, which is overwritten. */
static void regression_factor(regression *r, double *Z)
{
    const size_t n = r->n, k = r->k;
    for (size_t j = 0; j <= k; j++) {
        double *column = Z + j * n, square = 0;
        for (size_t i = 0; i < j; i++) {
            double dot = 0;
            for (size_t t = 0; t < n; t++) dot += Z[i * n + t] * column[t];
            for (size_t t = 0; t < n; t++) column[t] -= dot * Z[i * n + t];
            if (j < k) r->R[i][j] = dot;
            else r->c[i] = dot;
        }
        for (size_t t = 0; t < n; t++) square += column[t] * column[t];
        if (j == k) { r->rest = square; return; }
        r->R[j][j] = sqrt(square);
        for (size_t t = 0; t < n; t++) column[t] /= r->R[j][j];
    }
}

/* Sets up the density; fill writes the columns of [Z y] from the variables named in list. */
typedef void fill_design(const double *const *v, size_t n, size_t k, double *Z);
static void regression_build(posterior_model *m, size_t n, size_t k, const char *const *list,
                             fill_design *fill, double (*prior)(const double *x, double *grad))
{
    const double *v[12] = { NULL };
    regression *r = (regression *)state_of(m, sizeof(regression));
    double *Z = (double *)malloc(n * (k + 1) * sizeof *Z);
    for (size_t i = 0; list[i]; i++) v[i] = values_of(m, list[i], 0);
    if (!Z && !m->error) m->error = "memory";
    if (!m->error) {
        r->n = n;
        r->k = k;
        r->prior = prior;
        fill(v, n, k, Z);
        regression_factor(r, Z);
    }
    free(Z);
    m->model.log_density = regression_density;
}

static double normal_priors(const double *x, double *grad, size_t n, double sd)
{
    double lp = 0;
    for (size_t i = 0; i < n; i++) lp += gpumc_normal_lpdf(x[i], 0, sd, &grad[i], NULL, NULL);
    return lp;
}

/* arK: regression of y[t] on a constant and the five values before it. */
static double ark_prior(const double *x, double *grad)
{
    return normal_priors(x, grad, 6, 10) + gpumc_half_cauchy_lpdf(x[6], 2.5, &grad[6], NULL);
}
static void ark_fill(const double *const *v, size_t n, size_t k, double *Z)
{
    for (size_t t = 0; t < n; t++) {
        Z[t] = 1;
        for (size_t j = 1; j < k; j++) Z[j * n + t] = v[0][t + 5 - j];
        Z[k * n + t] = v[0][t + 5];
    }
}
static void ark_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "alpha" }, { .name = "beta", .size = 5 },
        { .name = "sigma", .kind = GPUMC_POSITIVE } };
    static const char *const list[] = { "y", NULL };
    SET_PARAMS(m, params);
    regression_build(m, count_of(m, "y") - 5, 6, list, ark_fill, ark_prior);
}

/* diamonds: 24 centred columns, then the constant. */
static double diamonds_prior(const double *x, double *grad)
{
    return normal_priors(x, grad, 24, 1) + gpumc_student_t_lpdf(x[24], 3, 8, 10, &grad[24], NULL, NULL, NULL)
        + gpumc_half_student_t_lpdf(x[25], 3, 10, &grad[25], NULL, NULL);
}
static void diamonds_fill(const double *const *v, size_t n, size_t k, double *Z)
{
    for (size_t j = 1; j < k; j++) {
        double mean = 0;
        for (size_t t = 0; t < n; t++) mean += v[0][t * k + j] / (double)n;
        for (size_t t = 0; t < n; t++) Z[(j - 1) * n + t] = v[0][t * k + j] - mean;
    }
    for (size_t t = 0; t < n; t++) { Z[(k - 1) * n + t] = 1; Z[k * n + t] = v[1][t]; }
}
static void diamonds_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "b", .size = 24 }, { .name = "Intercept" },
        { .name = "sigma", .kind = GPUMC_POSITIVE } };
    static const char *const list[] = { "X", "Y", NULL };
    SET_PARAMS(m, params);
    regression_build(m, count_of(m, "Y"), 25, list, diamonds_fill, diamonds_prior);
}

/* earnings: log earnings on height, male and their product. */
static void earnings_fill(const double *const *v, size_t n, size_t k, double *Z)
{
    for (size_t t = 0; t < n; t++) {
        const double row[] = { 1, v[1][t], v[2][t], v[1][t] * v[2][t], log(v[0][t]) };
        for (size_t j = 0; j <= k; j++) Z[j * n + t] = row[j];
    }
}
static void earnings_build(posterior_model *m)
{
    static const gpumc_param params[] = BETA_AND_SIGMA(4);
    static const char *const list[] = { "earn", "height", "male", NULL };
    SET_PARAMS(m, params);
    regression_build(m, count_of(m, "earn"), 4, list, earnings_fill, NULL);
}

/* kidiq: score on high school and IQ of the mother. */
static double kidiq_prior(const double *x, double *grad)
{
    return gpumc_half_cauchy_lpdf(x[3], 2.5, &grad[3], NULL);
}
static void kidiq_fill(const double *const *v, size_t n, size_t k, double *Z)
{
    for (size_t t = 0; t < n; t++) {
        const double row[] = { 1, v[1][t], v[2][t], v[0][t] };
        for (size_t j = 0; j <= k; j++) Z[j * n + t] = row[j];
    }
}
static void kidiq_build(posterior_model *m)
{
    static const gpumc_param params[] = BETA_AND_SIGMA(3);
    static const char *const list[] = { "kid_score", "mom_hs", "mom_iq", NULL };
    SET_PARAMS(m, params);
    regression_build(m, count_of(m, "kid_score"), 3, list, kidiq_fill, kidiq_prior);
}

/* mesquite: log weight on the logarithms of volume, area and shape of the canopy, of height and density. */
static void mesquite_fill(const double *const *v, size_t n, size_t k, double *Z)
{
    for (size_t t = 0; t < n; t++) {
        const double d1 = v[1][t], d2 = v[2][t];
        const double row[] = { 1, log(d1 * d2 * v[3][t]), log(d1 * d2), log(d1 / d2), log(v[4][t]),
                               log(v[5][t]), v[6][t], log(v[0][t]) };
        for (size_t j = 0; j <= k; j++) Z[j * n + t] = row[j];
    }
}
static void mesquite_build(posterior_model *m)
{
    static const gpumc_param params[] = BETA_AND_SIGMA(7);
    static const char *const list[] = { "weight", "diam1", "diam2", "canopy_height", "total_height",
        "density", "group", NULL };
    SET_PARAMS(m, params);
    regression_build(m, count_of(m, "weight"), 7, list, mesquite_fill, NULL);
}

/* nes: party on seven predictors, age in four classes. */
static void nes_fill(const double *const *v, size_t n, size_t k, double *Z)
{
    for (size_t t = 0; t < n; t++) {
        const int age = (int)v[3][t];
        const double row[] = { 1, v[1][t], v[2][t], age == 2, age == 3, age == 4, v[4][t], v[5][t], v[6][t],
                               v[0][t] };
        for (size_t j = 0; j <= k; j++) Z[j * n + t] = row[j];
    }
}
static void nes_build(posterior_model *m)
{
    static const gpumc_param params[] = BETA_AND_SIGMA(9);
    static const char *const list[] = { "partyid7", "real_ideo", "race_adj", "age_discrete", "educ1",
        "gender", "income", NULL };
    SET_PARAMS(m, params);
    regression_build(m, count_of(m, "partyid7"), 9, list, nes_fill, NULL);
}

/* sblrc: five columns as they are. */
static double sblrc_prior(const double *x, double *grad)
{
    return normal_priors(x, grad, 5, 10) + gpumc_half_normal_lpdf(x[5], 10, &grad[5], NULL);
}
static void sblrc_fill(const double *const *v, size_t n, size_t k, double *Z)
{
    for (size_t t = 0; t < n; t++) {
        for (size_t j = 0; j < k; j++) Z[j * n + t] = v[1][t * k + j];
        Z[k * n + t] = v[0][t];
    }
}
static void sblrc_build(posterior_model *m)
{
    static const gpumc_param params[] = BETA_AND_SIGMA(5);
    static const char *const list[] = { "y", "X", NULL };
    SET_PARAMS(m, params);
    regression_build(m, count_of(m, "y"), 5, list, sblrc_fill, sblrc_prior);
}

/* ---- eight schools ------------------------------------------------------------------------------- */
typedef struct schools { const double *y, *sigma; } schools;
typedef struct schools_values { double mu, tau, theta[8]; } schools_values;   /* theta, or theta_trans */

static double schools_hyperprior(const schools_values *x, schools_values *g)
{
    return gpumc_normal_lpdf(x->mu, 0, 5, &g->mu, NULL, NULL)
        + gpumc_half_cauchy_lpdf(x->tau, 5, &g->tau, NULL);
}

static double centred_density(const double *values, double *grad, void *data)
{
    const schools *s = (const schools *)data;
    const schools_values *x = (const schools_values *)values;
    schools_values *g = (schools_values *)grad;
    double lp = schools_hyperprior(x, g);
    for (int j = 0; j < 8; j++)
        lp += gpumc_normal_lpdf(x->theta[j], x->mu, x->tau, &g->theta[j], &g->mu, &g->tau)
            + gpumc_normal_lpdf(s->y[j], x->theta[j], s->sigma[j], NULL, &g->theta[j], NULL);
    return lp;
}

static double noncentred_density(const double *values, double *grad, void *data)
{
    const schools *s = (const schools *)data;
    const schools_values *x = (const schools_values *)values;
    schools_values *g = (schools_values *)grad;
    double lp = schools_hyperprior(x, g);
    for (int j = 0; j < 8; j++) {
        double d = 0;
        lp += gpumc_std_normal_lpdf(x->theta[j], &g->theta[j])
            + gpumc_normal_lpdf(s->y[j], x->mu + x->tau * x->theta[j], s->sigma[j], NULL, &d, NULL);
        g->mu += d;
        g->tau += d * x->theta[j];
        g->theta[j] += d * x->tau;
    }
    return lp;
}

static void noncentred_generate(const double *values, gpumc_rng *rng, double *out, void *data)
{
    const schools_values *x = (const schools_values *)values;
    (void)rng;
    (void)data;
    for (int j = 0; j < 8; j++) out[j] = x->mu + x->tau * x->theta[j];
}

static void schools_data(posterior_model *m)
{
    schools *s = (schools *)state_of(m, sizeof(schools));
    if (!s) return;
    s->y = values_of(m, "y", 8);
    s->sigma = values_of(m, "sigma", 8);
}

static void centred_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 8, .location = "mu", .scale = "tau" } };
    SET_PARAMS(m, params);
    schools_data(m);
    m->model.log_density = centred_density;
}

static void noncentred_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta_trans", .size = 8 } };
    static const gpumc_output outputs[] = { { .name = "theta", .size = 8 } };
    SET_PARAMS(m, params);
    SET_OUTPUTS(m, outputs);
    schools_data(m);
    m->model.log_density = noncentred_density;
    m->model.generate = noncentred_generate;
}

/* ---- garch ---------------------------------------------------------------------------------------
   s2_t = alpha0 + alpha1 (y[t-1] - mu)^2 + beta1 s2_{t-1}. The region 0 < beta1 < 1 - alpha1 is that of the
   unit parameter w = beta1 / (1 - alpha1); its log Jacobian log(1 - alpha1) is part of the density. */
typedef struct garch { const double *y; size_t n; double sigma1; } garch;
enum { MU, ALPHA0, ALPHA1, BETA1, N_GARCH };         /* in the density's x the last one is w */

/* Log likelihood as a function of mu, alpha0, alpha1, beta1; d: its gradient. */
static double garch_likelihood(const garch *g, const double *p, double *d)
{
    double s2 = g->sigma1 * g->sigma1, ds2[N_GARCH] = { 0 }, lp = 0;
    for (size_t t = 0; t < g->n; t++) {
        const double r = g->y[t] - p[MU], inv = 1 / s2, slope = 0.5 * inv * (r * r * inv - 1);
        lp -= 0.5 * (gpumc_log(s2) + r * r * inv) + GPUMC_LOG_SQRT_2PI;
        for (int k = 0; k < N_GARCH; k++) d[k] += slope * ds2[k];
        d[MU] += r * inv;
        for (int k = 0; k < N_GARCH; k++) ds2[k] *= p[BETA1];
        ds2[MU] -= 2 * p[ALPHA1] * r;
        ds2[ALPHA0] += 1;
        ds2[ALPHA1] += r * r;
        ds2[BETA1] += s2;
        s2 = p[ALPHA0] + p[ALPHA1] * r * r + p[BETA1] * s2;
    }
    return lp;
}

/* Converts lp and the gradient in beta1 to those in w, with the log Jacobian. x holds w. */
static void garch_to_w(const double *x, double *lp, double *grad)
{
    const double left = 1 - x[ALPHA1];
    *lp += gpumc_log(left);
    grad[ALPHA1] -= x[BETA1] * grad[BETA1] + 1 / left;
    grad[BETA1] *= left;
}

static double garch_density(const double *x, double *grad, void *data)
{
    const double p[N_GARCH] = { x[MU], x[ALPHA0], x[ALPHA1], x[BETA1] * (1 - x[ALPHA1]) };
    double lp = garch_likelihood((const garch *)data, p, grad);
    garch_to_w(x, &lp, grad);
    return lp;
}

static void garch_generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)rng;
    (void)data;
    out[0] = x[BETA1] * (1 - x[ALPHA1]);
}

static void garch_from_check(double *x, double *lp, double *grad)
{
    x[BETA1] /= 1 - x[ALPHA1];
    garch_to_w(x, lp, grad);
}

static void garch_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "mu" }, { .name = "alpha0", .kind = GPUMC_POSITIVE },
        { .name = "alpha1", .kind = GPUMC_UNIT }, { .name = "w", .kind = GPUMC_UNIT } };
    static const gpumc_output outputs[] = { { .name = "beta1" } };
    garch *g = (garch *)state_of(m, sizeof(garch));
    SET_PARAMS(m, params);
    SET_OUTPUTS(m, outputs);
    m->model.log_density = garch_density;
    m->model.generate = garch_generate;
    if (!g) return;
    g->n = count_of(m, "y");
    g->y = values_of(m, "y", 0);
    if (values_of(m, "sigma1", 1)) g->sigma1 = values_of(m, "sigma1", 1)[0];
}

/* ---- Gaussian process ----------------------------------------------------------------------------
   C = alpha^2 E + sigma I, E_ij = exp(-(x_i - x_j)^2 / (2 rho^2))
   d log p / dC = (a a' - C^-1) / 2, a = C^-1 y                                                         */
enum { N_GP = 11 };
typedef struct gp { const double *x, *y; } gp;

/* Inverts a, symmetric positive definite, in place, by Gauss-Jordan elimination; returns log det a, or NaN. */
static double invert(double a[N_GP][N_GP])
{
    double log_determinant = 0;
    for (int k = 0; k < N_GP; k++) {
        const double pivot = a[k][k];
        if (!(pivot > 0)) return NAN;
        log_determinant += gpumc_log(pivot);
        a[k][k] = 1;
        for (int j = 0; j < N_GP; j++) a[k][j] /= pivot;
        for (int i = 0; i < N_GP; i++) {
            const double factor = a[i][k];
            if (i == k) continue;
            a[i][k] = 0;
            for (int j = 0; j < N_GP; j++) a[i][j] -= factor * a[k][j];
        }
    }
    return log_determinant;
}

static double gp_density(const double *v, double *grad, void *data)
{
    const gp *d = (const gp *)data;
    const double rho = v[0], alpha = v[1], sigma = v[2];
    double E[N_GP][N_GP], C[N_GP][N_GP], a[N_GP] = { 0 }, log_determinant, quadratic = 0;
    for (int i = 0; i < N_GP; i++)
        for (int j = 0; j < N_GP; j++) {
            const double r = (d->x[i] - d->x[j]) / rho;
            E[i][j] = gpumc_exp(-0.5 * r * r);
            C[i][j] = alpha * alpha * E[i][j] + (i == j ? sigma : 0);
        }
    log_determinant = invert(C);
    for (int i = 0; i < N_GP; i++)
        for (int j = 0; j < N_GP; j++) a[i] += C[i][j] * d->y[j];
    for (int i = 0; i < N_GP; i++) quadratic += a[i] * d->y[i];
    for (int i = 0; i < N_GP; i++)
        for (int j = 0; j < N_GP; j++) {
            const double slope = 0.5 * (a[i] * a[j] - C[i][j]), r = (d->x[i] - d->x[j]) / rho;
            grad[0] += slope * alpha * alpha * E[i][j] * r * r / rho;
            grad[1] += slope * 2 * alpha * E[i][j];
            if (i == j) grad[2] += slope;
        }
    return gpumc_gamma_lpdf(rho, 25, 4, &grad[0], NULL, NULL)
        + gpumc_half_normal_lpdf(alpha, 2, &grad[1], NULL) + gpumc_half_normal_lpdf(sigma, 1, &grad[2], NULL)
        - 0.5 * quadratic - 0.5 * log_determinant - N_GP * GPUMC_LOG_SQRT_2PI;
}

static void gp_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "rho", .kind = GPUMC_POSITIVE },
        { .name = "alpha", .kind = GPUMC_POSITIVE }, { .name = "sigma", .kind = GPUMC_POSITIVE } };
    gp *d = (gp *)state_of(m, sizeof(gp));
    SET_PARAMS(m, params);
    m->model.log_density = gp_density;
    if (!d) return;
    d->x = values_of(m, "x", N_GP);
    d->y = values_of(m, "y", N_GP);
}

/* ---- hidden Markov model -------------------------------------------------------------------------
   Forward filter with probabilities normalised at every step, then backward smoothing, which gives the
   gradient: by mu_k the smoothed probability of k times (y - mu_k), by theta_jk the expected number of
   transitions over theta_jk. */
enum { N_HMM = 100 };
typedef struct hmm { const double *y; } hmm;

/* Forward filter. f: filtered probabilities; e: emission density divided by the step's sum; both [t][k]; theta[j][k].
   Returns the log likelihood. */
static double hmm_filter(const hmm *h, double theta[2][2], const double *mu, double f[N_HMM][2],
                         double e[N_HMM][2])
{
    double lp = -N_HMM * GPUMC_LOG_SQRT_2PI;
    for (int t = 0; t < N_HMM; t++) {
        const double z0 = h->y[t] - mu[0], z1 = h->y[t] - mu[1], near = fmin(z0 * z0, z1 * z1);
        double sum = 0;
        e[t][0] = gpumc_exp(0.5 * (near - z0 * z0));
        e[t][1] = gpumc_exp(0.5 * (near - z1 * z1));
        for (int k = 0; k < 2; k++) {
            f[t][k] = (t ? f[t - 1][0] * theta[0][k] + f[t - 1][1] * theta[1][k] : 1) * e[t][k];
            sum += f[t][k];
        }
        for (int k = 0; k < 2; k++) { f[t][k] /= sum; e[t][k] /= sum; }
        lp += gpumc_log(sum) - 0.5 * near;
    }
    return lp;
}

/* x: theta1[1], theta2[1], mu[1], mu[2]. */
static double hmm_density(const double *x, double *grad, void *data)
{
    const hmm *h = (const hmm *)data;
    const double *mu = x + 2;
    double theta[2][2] = { { x[0], 1 - x[0] }, { x[1], 1 - x[1] } }, later[2] = { 1, 1 };
    double f[N_HMM][2], e[N_HMM][2], lp = hmm_filter(h, theta, mu, f, e);
    for (int t = N_HMM - 1; t >= 0; t--) {
        const double to[2] = { e[t][0] * later[0], e[t][1] * later[1] };
        for (int k = 0; k < 2; k++) grad[2 + k] += f[t][k] * later[k] * (h->y[t] - mu[k]);
        for (int j = 0; j < 2 && t > 0; j++) {
            grad[j] += f[t - 1][j] * (to[0] - to[1]);
            later[j] = theta[j][0] * to[0] + theta[j][1] * to[1];
        }
    }
    return lp + gpumc_normal_lpdf(mu[0], 3, 1, &grad[2], NULL, NULL)
        + gpumc_normal_lpdf(mu[1], 10, 1, &grad[3], NULL, NULL);
}

static void hmm_generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)rng;
    (void)data;
    for (int j = 0; j < 2; j++) { out[2 * j] = x[j]; out[2 * j + 1] = 1 - x[j]; }
}

static void hmm_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "p", .kind = GPUMC_UNIT, .size = 2 },
        { .name = "mu", .kind = GPUMC_POSITIVE_ORDERED, .size = 2 } };
    static const gpumc_output outputs[] = { { .name = "theta1", .size = 2 },
        { .name = "theta2", .size = 2 } };
    hmm *h = (hmm *)state_of(m, sizeof(hmm));
    SET_PARAMS(m, params);
    SET_OUTPUTS(m, outputs);
    m->model.log_density = hmm_density;
    m->model.generate = hmm_generate;
    if (h) h->y = values_of(m, "y", N_HMM);
}

/* ---- predator and prey ---------------------------------------------------------------------------
   u' = (a - b v) u, v' = (d u - c) v by the classical Runge-Kutta scheme, with the derivatives of u and v by
   a, b, c, d, u(0), v(0) carried along: s' = (df/dz) s + df/dtheta, the columns of s six numbers each. */
enum { N_SENSE = 6 };
typedef struct lynx { const double *y_init, *y; size_t n, steps; } lynx;      /* steps a unit of time */
typedef struct lynx_state { double u, v, su[N_SENSE], sv[N_SENSE]; } lynx_state;

/* Time derivative at the state z + h k, into slope, which may be k itself. */
GPUMC_FN void lynx_slope(const double *theta, const lynx_state *z, const lynx_state *k, double h,
                         lynx_state *slope)
{
    const double u = z->u + h * k->u, v = z->v + h * k->v;
    const double uu = theta[0] - theta[1] * v, uv = -theta[1] * u;
    const double vu = theta[3] * v, vv = theta[3] * u - theta[2];
    slope->u = uu * u;
    slope->v = vv * v;
    for (int i = 0; i < N_SENSE; i++) {
        const double su = z->su[i] + h * k->su[i], sv = z->sv[i] + h * k->sv[i];
        slope->su[i] = uu * su + uv * sv;
        slope->sv[i] = vu * su + vv * sv;
    }
    slope->su[0] += u;
    slope->su[1] -= u * v;
    slope->sv[2] -= v;
    slope->sv[3] += u * v;
}

GPUMC_FN void lynx_add(lynx_state *sum, double weight, const lynx_state *k)
{
    sum->u += weight * k->u;
    sum->v += weight * k->v;
    for (int i = 0; i < N_SENSE; i++) {
        sum->su[i] += weight * k->su[i];
        sum->sv[i] += weight * k->sv[i];
    }
}

/* Advances the state by one unit of time. */
static GPUMC_LOOP void lynx_advance(const double *theta, size_t steps, lynx_state *z)
{
    const double h = 1 / (double)steps;
    lynx_state k, sum;
    for (size_t s = 0; s < steps; s++) {
        sum = *z;
        lynx_slope(theta, z, z, 0, &k);
        lynx_add(&sum, h / 6, &k);
        lynx_slope(theta, z, &k, h / 2, &k);
        lynx_add(&sum, h / 3, &k);
        lynx_slope(theta, z, &k, h / 2, &k);
        lynx_add(&sum, h / 3, &k);
        lynx_slope(theta, z, &k, h, &k);
        lynx_add(&sum, h / 6, &k);
        *z = sum;
    }
}

/* x: theta[4], z_init[2], sigma[2]. */
static double lynx_density(const double *x, double *grad, void *data)
{
    const lynx *d = (const lynx *)data;
    lynx_state z = { 0, 0, { 0 }, { 0 } };
    double lp = 0;
    for (int i = 0; i < 4; i++) {
        const double mean = i % 2 ? 0.05 : 1, sd = i % 2 ? 0.05 : 0.5;
        lp += gpumc_normal_lpdf(x[i], mean, sd, &grad[i], NULL, NULL) - gpumc_log_Phi(mean / sd);
    }
    for (int i = 0; i < 2; i++)
        lp += gpumc_lognormal_lpdf(x[4 + i], log(10), 1, &grad[4 + i], NULL, NULL)
            + gpumc_lognormal_lpdf(x[6 + i], -1, 1, &grad[6 + i], NULL, NULL);
    z.u = x[4];
    z.v = x[5];
    z.su[4] = z.sv[5] = 1;
    for (size_t t = 0; t <= d->n; t++) {
        const double *y = t ? d->y + 2 * (t - 1) : d->y_init;
        double du = 0, dv = 0;
        if (t) lynx_advance(x, d->steps, &z);
        if (!(z.u > 0 && z.v > 0 && z.u < 1e100 && z.v < 1e100)) return -INFINITY;
        lp += gpumc_lognormal_lpdf(y[0], gpumc_log(z.u), x[6], NULL, &du, &grad[6])
            + gpumc_lognormal_lpdf(y[1], gpumc_log(z.v), x[7], NULL, &dv, &grad[7]);
        for (int i = 0; i < N_SENSE; i++) grad[i] += du / z.u * z.su[i] + dv / z.v * z.sv[i];
    }
    return lp;
}

static void lynx_build(posterior_model *m)
{
    static const double theta[] = { 0.5, 0.025, 0.8, 0.025 }, z_init[] = { 30, 4 }, sigma[] = { 0.3, 0.3 };
    static const gpumc_param params[] = {            /* with init, since wide starts reach minor modes */
        { .name = "theta", .kind = GPUMC_POSITIVE, .size = 4, .init = theta },
        { .name = "z_init", .kind = GPUMC_POSITIVE, .size = 2, .init = z_init },
        { .name = "sigma", .kind = GPUMC_POSITIVE, .size = 2, .init = sigma } };
    lynx *d = (lynx *)state_of(m, sizeof(lynx));
    SET_PARAMS(m, params);
    m->model.log_density = lynx_density;
    if (!d) return;
    d->n = count_of(m, "y") / 2;
    d->y = values_of(m, "y", 0);
    d->y_init = values_of(m, "y_init", 2);
    d->steps = 20;
}

/* ---- mixture -------------------------------------------------------------------------------------
   log(theta N1 + (1 - theta) N2) by the difference of the two logarithms; r: the probability of the first. */
typedef struct mixture { const double *y; size_t n; } mixture;

/* r and the log density of m values, but for its constant. */
static GPUMC_LOOP void mixture_piece(const double *y, size_t m, const double *mu, const double *inv,
                                     const double *log_weight, double *r, double *lp)
{
    const double mu_0 = mu[0], mu_1 = mu[1], inv_0 = inv[0], inv_1 = inv[1];
    const double w_0 = log_weight[0], w_1 = log_weight[1];
    for (size_t i = 0; i < m; i++) {
        const double z_0 = (y[i] - mu_0) * inv_0, z_1 = (y[i] - mu_1) * inv_1;
        const double a = w_0 - 0.5 * z_0 * z_0, b = w_1 - 0.5 * z_1 * z_1;
        const double e = gpumc_exp(-gpumc_fabs(a - b)), inv_sum = 1 / (1 + e);
        r[i] = a < b ? e * inv_sum : inv_sum;
        lp[i] = (a < b ? b : a) + gpumc_log1p(e);
    }
}

/* x: mu[2], sigma[2], theta. */
static double mixture_density(const double *x, double *grad, void *data)
{
    enum { PIECE = 64 };
    const mixture *d = (const mixture *)data;
    const double inv[] = { 1 / x[2], 1 / x[3] }, *mu = x, theta = x[4];
    const double log_weight[] = { gpumc_log(theta * inv[0]), gpumc_log1p(-theta) - gpumc_log(x[3]) };
    double lp = -(double)d->n * GPUMC_LOG_SQRT_2PI, r[PIECE], piece[PIECE];
    double sum[2] = { 0 }, z1[2] = { 0 }, z2[2] = { 0 };
    for (size_t at = 0, m; at < d->n; at += m) {
        m = d->n - at < PIECE ? d->n - at : PIECE;
        mixture_piece(d->y + at, m, mu, inv, log_weight, r, piece);
        for (size_t i = 0; i < m; i++) {
            const double a = (d->y[at + i] - mu[0]) * inv[0], b = (d->y[at + i] - mu[1]) * inv[1];
            lp += piece[i];
            sum[0] += r[i];
            z1[0] += r[i] * a;
            z2[0] += r[i] * a * a;
            sum[1] += 1 - r[i];
            z1[1] += (1 - r[i]) * b;
            z2[1] += (1 - r[i]) * b * b;
        }
    }
    for (int k = 0; k < 2; k++) {
        grad[k] += z1[k] * inv[k];
        grad[2 + k] += (z2[k] - sum[k]) * inv[k];
        lp += gpumc_normal_lpdf(mu[k], 0, 2, &grad[k], NULL, NULL)
            + gpumc_half_normal_lpdf(x[2 + k], 2, &grad[2 + k], NULL);
    }
    grad[4] += sum[0] / theta - sum[1] / (1 - theta);
    return lp + gpumc_beta_lpdf(theta, 5, 5, &grad[4], NULL, NULL);
}

static void mixture_build(posterior_model *m)
{
    static const gpumc_param params[] = { { .name = "mu", .kind = GPUMC_ORDERED, .size = 2 },
        { .name = "sigma", .kind = GPUMC_POSITIVE, .size = 2 }, { .name = "theta", .kind = GPUMC_UNIT } };
    mixture *d = (mixture *)state_of(m, sizeof(mixture));
    SET_PARAMS(m, params);
    m->model.log_density = mixture_density;
    if (!d) return;
    d->n = count_of(m, "y");
    d->y = values_of(m, "y", 0);
}

/* ---- the table ----------------------------------------------------------------------------------- */

typedef struct posterior {
    const char *name;
    void (*build)(posterior_model *m);
    int cheap;                           /* a run takes well under a second */
    /* Converts the point, log density and gradient of check.json, already in our order, to our coordinates;
       NULL: they are the same. */
    void (*from_check)(double *x, double *lp, double *grad);
    const char *renamed[2][2];           /* pairs of its name and ours, where they differ */
} posterior;

static const posterior posteriors[] = {
    { "arK-arK", ark_build, 1, NULL, { { NULL } } },
    { "diamonds-diamonds", diamonds_build, 0, NULL, { { NULL } } },
    { "earnings-logearn_interaction", earnings_build, 1, NULL, { { NULL } } },
    { "eight_schools-eight_schools_centered", centred_build, 1, NULL, { { NULL } } },
    { "eight_schools-eight_schools_noncentered", noncentred_build, 1, NULL, { { NULL } } },
    { "garch-garch11", garch_build, 1, garch_from_check, { { "beta1", "w" } } },
    { "gp_pois_regr-gp_regr", gp_build, 1, NULL, { { NULL } } },
    { "hmm_example-hmm_example", hmm_build, 1, NULL, { { "theta1[1]", "p[1]" }, { "theta2[1]", "p[2]" } } },
    { "hudson_lynx_hare-lotka_volterra", lynx_build, 0, NULL, { { NULL } } },
    { "kidiq-kidscore_momhsiq", kidiq_build, 1, NULL, { { NULL } } },
    { "low_dim_gauss_mix-low_dim_gauss_mix", mixture_build, 0, NULL, { { NULL } } },
    { "mesquite-logmesquite_logvas", mesquite_build, 1, NULL, { { NULL } } },
    { "nes2000-nes", nes_build, 1, NULL, { { NULL } } },
    { "sblrc-blr", sblrc_build, 1, NULL, { { NULL } } }
};
enum { N_POSTERIORS = sizeof posteriors / sizeof *posteriors };

/* Reads the data at a path and builds the model; on failure m->error is set. To be closed in any case. */
static void posterior_open(const posterior *p, const char *path, posterior_model *m)
{
    gpumc_error error;
    memset(m, 0, sizeof *m);
    m->model.name = p->name;
    if (gpumc_read_json(path, &m->file, &error) != GPUMC_OK) m->error = "data file";
    else p->build(m);
}

static void posterior_close(posterior_model *m)
{
    free(m->state);
    gpumc_data_free(&m->file);
}
#endif
