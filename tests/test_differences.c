/* Models of which only the log density is known: gradients by differences agree with exact ones for every kind of
   block, draws are of the density however coarse the step, and a guide spares all differences. */
#include "../gpumc.h"
#include "check.h"
#include "same.h"
#include "schools.h"

/* ---- gradients ------------------------------------------------------------------------------------- */
static const size_t square[] = { 3, 3 }, walks[] = { 2, 3 };
static const double covariates[] = { -1, 0.5, 1, 2 };
static const gpumc_param every_kind[] = {
    { .name = "real", .size = 2 },
    { .name = "positive", .kind = GPUMC_POSITIVE },
    { .name = "touching", .kind = GPUMC_POSITIVE, .typical = -2, .bend = 0.5 },
    { .name = "lower", .kind = GPUMC_LOWER, .lower = -3 },
    { .name = "upper", .kind = GPUMC_UPPER, .upper = 100 },
    { .name = "interval", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 3 },
    { .name = "unit", .kind = GPUMC_UNIT, .size = 2 },
    { .name = "units", .kind = GPUMC_AFFINE, .offset = 2000, .multiplier = 10 },
    { .name = "ordered", .kind = GPUMC_ORDERED, .size = 3 },
    { .name = "above", .kind = GPUMC_POSITIVE_ORDERED, .size = 3 },
    { .name = "zero", .kind = GPUMC_SUM_TO_ZERO, .size = 4 },
    { .name = "simplex", .kind = GPUMC_SIMPLEX, .size = 4 },
    { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = square, .n_dims = 2 },
    { .name = "slope" },
    { .name = "group", .size = 4, .location = "real", .location_index = (const size_t[]) { 0, 1, 1, 0 },
      .scale = "positive", .covariates = covariates, .n_covariates = 1, .coefficients = "slope" },
    { .name = "walk", .dims = walks, .n_dims = 2, .walk_dim = 2, .scale = "positive" },
};
enum { N_KINDS = sizeof every_kind / sizeof *every_kind };

/* Smooth wherever the kinds put values, and with a third derivative, which central differences show. */
static double curved(const double *x, double *g, void *data)
{
    const size_t n = *(const size_t *)data;
    double lp = 0;
    for (size_t i = 0; i < n; i++) {
        const double t = x[i] / 5, next = i + 1 < n ? x[i + 1] / 5 : 0;
        lp += sin(t) - log(1 + t * t) + 0.3 * t * next;
        g[i] += (cos(t) - 2 * t / (1 + t * t) + 0.3 * next) / 5;
        if (i + 1 < n) g[i + 1] += 0.3 * t / 5;
    }
    return lp;
}

static double curved_only(const double *x, void *data)
{
    double g[64] = { 0 };
    return curved(x, g, data);
}

/* The largest difference between the gradients of two forms of a model, relative to 1 or their size. */
static double apart(const gpumc_model *a, const gpumc_model *b, double spread, uint64_t seed)
{
    const gpumc_model *const models[2] = { a, b };
    double q[64], grad[2][64], x[2][64], lp[2], worst = 0;
    gpumc_rng rng = gpumc_rng_at(seed, 1, 0, 0);
    for (size_t i = 0; i < 64; i++) q[i] = spread * gpumc_rng_normal(&rng);
    size_t dim = 0, n = 0;
    for (int k = 0; k < 2; k++) {
        gpumc_error error;
        const size_t bytes = gpumc_layout_bytes(models[k], &error);
        void *memory = malloc(bytes);
        const gpumc_layout *l = gpumc_layout_init(models[k], memory, bytes, &error);
        double *work = (double *)malloc(gpumc_layout_work(l) * sizeof *work);
        dim = gpumc_layout_dim(l), n = gpumc_layout_natural(l);
        lp[k] = gpumc_model_eval(l, q, grad[k], work);
        memcpy(x[k], work, n * sizeof(double));
        free(work);
        free(memory);
    }
    CHECK(memcmp(x[0], x[1], n * sizeof(double)) == 0, "natural values differ");
    if (!(fabs(lp[0] - lp[1]) <= 1e-12 * (1 + fabs(lp[0])))) return INFINITY;
    for (size_t i = 0; i < dim; i++) worst = check_worst(worst, check_distance(grad[1][i], grad[0][i], 1));
    return worst;
}

static void check_kinds(void)
{
    gpumc_model exact = { .params = every_kind, .n_params = N_KINDS, .log_density = curved }, only = exact;
    size_t n = gpumc_model_n_values(&exact);
    only.log_density = NULL;
    only.log_density_only = curved_only;
    exact.data = only.data = &n;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const double error = apart(&exact, &only, 1, seed);
        CHECK(error < 1e-7, "gradients differ by %g", error);
    }
    only.difference_step = 1e-2;
    CHECK(apart(&exact, &only, 1, 1) > 1e-5 && apart(&exact, &only, 1, 1) < 1e-2, "a coarse step: %g",
          apart(&exact, &only, 1, 1));
}

/* Steps grow with the coordinate: at 1e9 one of 1e-5 is lost in rounding. */
static double distant(const double *x, void *data)
{ (void)data; return -1e-18 * x[0] * x[0]; }

/* Beside an edge the difference is one-sided, between two of them there is none, and outside no gradient. */
static double room = 1;
static double cornered(const double *x, void *data)
{
    (void)data;
    return x[0] > -room && x[0] < 1 ? -x[0] * x[0] : x[0] > 5 ? NAN : -INFINITY;
}
static void check_edges(void)
{
    const gpumc_param one = { .name = "x" };
    gpumc_model m = { .params = &one, .n_params = 1, .log_density_only = cornered, .difference_step = 0.01 };
    gpumc_error error;
    const size_t bytes = gpumc_layout_bytes(&m, &error);
    void *memory = malloc(bytes);
    const gpumc_layout *l = gpumc_layout_init(&m, memory, bytes, &error);
    double *work = (double *)malloc(gpumc_layout_work(l) * sizeof *work), q = 0.995, g = 7;
    CHECK(gpumc_model_eval(l, &q, &g, work) == -q * q && fabs(g + 2 * q - 0.01) < 1e-9 && work[0] == q,
          "at the upper edge %g", g);
    q = -0.995;
    CHECK(gpumc_model_eval(l, &q, &g, work) == -q * q && fabs(g + 2 * q + 0.01) < 1e-9, "at the lower edge %g", g);
    room = 0.001, q = 0.9995;
    CHECK(gpumc_model_eval(l, &q, &g, work) == -q * q && fabs(g + 2 * q - 0.01) < 1e-9, "still on one side %g", g);
    room = -0.999;
    CHECK(gpumc_model_eval(l, &q, &g, work) == -q * q && g == 0, "between edges %g", g);
    for (q = 1.5; q < 8; q += 5) {
        g = 7;
        CHECK(gpumc_model_eval(l, &q, &g, work) == -INFINITY && g == 0, "outside %g", g);
    }
    m.log_density_only = distant, m.difference_step = 0, q = 1e9;
    CHECK(fabs(gpumc_model_eval(l, &q, &g, work) + 1) < 1e-12 && fabs(g + 2e-9) < 1e-16, "at 1e9 %g", g);
    room = 1;
    free(work);
    free(memory);
}

/* ---- draws ----------------------------------------------------------------------------------------- */
/* Gamma(3, 1) by the sampler's own acceptance: the errors of a step of 0.8 in log x are no errors of the draws.
   Judged in standard errors: 4 of them, over 2 x 4 numbers, give a false alarm in 2000 seeds. */
static double gamma_only(const double *x, void *data)
{
    (void)data;
    return gpumc_gamma_lpdf(x[0], 3, 1, NULL, NULL, NULL) + gpumc_gamma_lpdf(x[1], 3, 1, NULL, NULL, NULL);
}
static double worst_z(const gpumc_fit *fit)
{
    double worst = 0;
    for (size_t column = 0; column < 2; column++) {
        double *about[4], truth[4] = { 3, 12, 0.2, 0.8 };         /* mean, mean square, and two probabilities */
        const size_t n = fit->n_chains * fit->n_draws;
        const double low = gpumc_gamma_quantile(0.2, 3, 1), high = gpumc_gamma_quantile(0.8, 3, 1);
        for (size_t k = 0; k < 4; k++) about[k] = (double *)malloc(n * sizeof(double));
        for (size_t i = 0; i < n; i++) {
            const double x = fit->draws[(i / fit->n_draws * fit->draw_capacity + i % fit->n_draws) * fit->n_columns
                                        + column];
            about[0][i] = x, about[1][i] = x * x, about[2][i] = x < low, about[3][i] = x < high;
        }
        for (size_t k = 0; k < 4; k++) {
            const gpumc_series series = { about[k], fit->n_chains, fit->n_draws, fit->n_draws, 1 };
            double mean = 0;
            for (size_t i = 0; i < n; i++) mean += about[k][i] / (double)n;
            worst = fmax(worst, fabs(mean - truth[k]) / gpumc_mcse_mean(series).value);
            free(about[k]);
        }
    }
    return worst;
}
static void check_coarse(void)
{
    const gpumc_param two = { .name = "x", .size = 2, .kind = GPUMC_POSITIVE };
    gpumc_model m = { .params = &two, .n_params = 1, .log_density_only = gamma_only, .difference_step = 0.8 };
    static const gpumc_sampler samplers[] = { GPUMC_SAMPLER_NUTS, GPUMC_SAMPLER_HMC, GPUMC_SAMPLER_MAMS };
    for (int k = 0; k < 3; k++) {
        gpumc_fit fit;
        gpumc_sample_options o = { .num_samples = 4000, .seed = 5, .sampler = samplers[k] };
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        CHECK(worst_z(&fit) < 4, "sampler %d: %g standard errors", k, worst_z(&fit));
        gpumc_free(&fit);
    }
}

/* Eight schools, whose exact gradient is known: as good draws at as many gradients. */
static double schools_only(const double *x, void *data)
{
    double g[10] = { 0 };
    return schools_density(x, g, data);
}
static void check_schools(void)
{
    gpumc_model m = { .params = schools_params, .n_params = 3, .log_density = schools_density,
        .generate = schools_generate, .outputs = &schools_output, .n_outputs = 1 };
    gpumc_sample_options o = { .seed = 2 };
    gpumc_fit exact, fit, again;
    CHECK(gpumc_sample(&m, &o, &exact) == GPUMC_OK, "%s", exact.message);
    m.log_density = NULL;
    m.log_density_only = schools_only;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK && fit.n_warnings == exact.n_warnings, "%s", fit.message);
    const double ratio = (double)(fit.warmup_gradients + fit.sampling_gradients)
                       / (double)(exact.warmup_gradients + exact.sampling_gradients);
    CHECK(ratio > 0.8 && ratio < 1.25, "%g times as many gradients", ratio);
    for (size_t i = 0; i < 10; i++) {
        const gpumc_summary a = gpumc_summarise(&exact, i), b = gpumc_summarise(&fit, i);
        const double z = (a.mean - b.mean) / hypot(a.mcse, b.mcse);
        CHECK(fabs(z) < 4, "column %d: %g standard errors", (int)i, z);
        CHECK(b.ess_bulk > 0.7 * a.ess_bulk, "column %d: ESS %g of %g", (int)i, b.ess_bulk, a.ess_bulk);
    }
    o.threads = 1;
    CHECK(gpumc_sample(&m, &o, &again) == GPUMC_OK && same_draws(&fit, &again), "draws depend on threads");
    gpumc_free(&exact);
    gpumc_free(&fit);
    gpumc_free(&again);
}

/* Threads beyond the chains share the differences of a costly density, and change nothing else. */
static int at_once, overlapped;
static double costly(const double *x, void *data)
{
    double g[10], lp = 0;
    if (__atomic_add_fetch(&at_once, 1, __ATOMIC_SEQ_CST) > 1) __atomic_store_n(&overlapped, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 1000; i++) lp = schools_density(x, g, data);
    __atomic_sub_fetch(&at_once, 1, __ATOMIC_SEQ_CST);
    return lp;
}
static void check_shared(void)
{
    const gpumc_model m = { .params = schools_params, .n_params = 3, .log_density_only = costly };
    gpumc_fit fit[2];
    for (int k = 0; k < 2; k++) {
        const gpumc_sample_options o = { .num_chains = 1, .num_samples = 20, .num_warmup = 60, .threads = k ? 3 : 1,
            .seed = 4 };
        CHECK(gpumc_sample(&m, &o, &fit[k]) == GPUMC_OK && fit[k].threads == o.threads, "%d threads: %s",
              fit[k].threads, fit[k].message);
        CHECK(overlapped == k, "%s with %d threads", k ? "one call at a time" : "calls at once", o.threads);
    }
    CHECK(same_draws(&fit[0], &fit[1]), "draws depend on who takes the differences");
    gpumc_free(&fit[0]);
    gpumc_free(&fit[1]);
}

/* ---- with a guide ---------------------------------------------------------------------------------- */
static int n_calls;
static double counted(const double *x, void *data)
{
    double g[2];
    (void)data;
    n_calls++;
    return gpumc_std_normal_lpdf(x[0], g) + gpumc_student_t_lpdf(x[1], 5, 0, 1, NULL, NULL, NULL, NULL);
}
static double close_by(const double *x, double *g, void *data)
{
    (void)data;
    return gpumc_std_normal_lpdf(x[0], &g[0]) + gpumc_std_normal_lpdf(x[1] / 1.2, &g[1]);
}
static void check_guide(void)
{
    const gpumc_param two = { .name = "x", .size = 2 };
    const gpumc_model m = { .params = &two, .n_params = 1, .log_density_only = counted, .guide = close_by };
    const gpumc_sample_options o = { .num_chains = 2, .num_samples = 2000, .threads = 1 };
    gpumc_fit fit;
    n_calls = 0;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
    CHECK(n_calls > 4000 && n_calls < 7000, "%d calls for 4000 draws", n_calls);
    const gpumc_summary s = gpumc_summarise(&fit, 1);
    CHECK(fabs(s.mean) < 4 * s.mcse && s.sd > 1.1 && s.sd < 1.5, "mean %g, sd %g", s.mean, s.sd);
    gpumc_free(&fit);
}

/* ---- refusals and warnings ------------------------------------------------------------------------- */
static void refuse(int line, gpumc_model m, const char *words)
{
    gpumc_fit fit;
    const gpumc_status status = gpumc_sample(&m, NULL, &fit);
    CHECK(status == GPUMC_ERROR_MODEL && strstr(fit.message, words), "line %d: %d, %s", line, (int)status,
          fit.message);
    gpumc_free(&fit);
}
static double of_the_first(const double *x, void *data)
{ (void)data; return gpumc_std_normal_lpdf(x[0], NULL); }
static double normals(const double *x, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 3; i++) lp += gpumc_std_normal_lpdf(x[i], NULL);
    return lp;
}
/* As of a solver's tolerance: an error that is the same whenever the density is evaluated at the same point. */
static double rough(const double *x, void *data)
{
    const double t = 1e7 * x[0] + 3e6 * x[1];
    (void)data;
    return gpumc_std_normal_lpdf(x[0], NULL) + gpumc_std_normal_lpdf(x[1], NULL) + 1e-5 * sin(t);
}
static void check_refusals(void)
{
    const gpumc_param two = { .name = "x", .size = 2 };
    gpumc_model m = { .params = &two, .n_params = 1, .log_density_only = gamma_only };
    gpumc_model other = m;
    other.log_density = close_by;
    refuse(__LINE__, other, "a density with a gradient beside log_density_only");
    other = m, other.difference_step = -1e-3;
    refuse(__LINE__, other, "difference_step -0.001 must be 0, or above 0 and below 1");
    other.difference_step = 1;
    refuse(__LINE__, other, "difference_step 1 must");
    other.difference_step = NAN;
    refuse(__LINE__, other, "difference_step");
    other.difference_step = 1e-3, other.log_density_only = NULL, other.log_density = close_by;
    refuse(__LINE__, other, "beside log_density_only");
    other = m, other.log_density_only = NULL;
    refuse(__LINE__, other, "log_density_only");
    other = m, other.log_density_only = of_the_first;
    refuse(__LINE__, other, "does not depend on \"x[2]\"");
    gpumc_gradient_report report;
    gpumc_error error;
    m.log_density_only = rough;
    CHECK(gpumc_check_gradient(&m, NULL, &report, &error) == GPUMC_OK && report.n_checked == 0, "%s", error.text);
}

static double two_modes(const double *x, void *data)
{
    (void)data;
    return gpumc_log_sum_exp(gpumc_normal_lpdf(x[0], -20, 1, NULL, NULL, NULL),
                             gpumc_normal_lpdf(x[0], 20, 1, NULL, NULL, NULL))
        + gpumc_std_normal_lpdf(x[1], NULL);
}

/* Differences that an error of the density spoils are no wrong gradient, derivatives that nobody has computed do not
   show that a value has no prior, and those by a location are not compared bit by bit. */
static void check_innocent(void)
{
    const gpumc_param two = { .name = "x", .size = 2 }, group[] = { { .name = "mu" },
        { .name = "theta", .size = 2, .location = "mu" } };
    gpumc_model m = { .params = &two, .n_params = 1, .log_density_only = rough };
    gpumc_fit fit;
    CHECK(gpumc_sample(&m, NULL, &fit) == GPUMC_OK, "%s", fit.message);
    for (size_t i = 0; i < fit.n_warnings; i++)
        CHECK(fit.warnings[i].code != GPUMC_W_GRADIENT && fit.warnings[i].code != GPUMC_W_IMPROPER, "%s",
              fit.warnings[i].text);
    gpumc_free(&fit);
    m.log_density_only = two_modes;
    CHECK(gpumc_sample(&m, NULL, &fit) == GPUMC_OK && fit.n_warnings > 0, "%s", fit.message);
    for (size_t i = 0; i < fit.n_warnings; i++)
        CHECK(fit.warnings[i].code != GPUMC_W_GRADIENT && fit.warnings[i].code != GPUMC_W_IMPROPER, "%s",
              fit.warnings[i].text);
    gpumc_free(&fit);
    m.log_density_only = rough;
    m.difference_step = 0.02;
    CHECK(gpumc_sample(&m, NULL, &fit) == GPUMC_OK && fit.n_warnings == 0, "%s",
          fit.n_warnings ? fit.warnings[0].text : fit.message);
    gpumc_free(&fit);
    m.params = group, m.n_params = 2, m.log_density_only = normals, m.difference_step = 0;
    CHECK(gpumc_sample(&m, NULL, &fit) == GPUMC_OK, "%s", fit.message);
    gpumc_free(&fit);
}

/* An energy in joules and the logarithm of a density: rates at eight temperatures, and a prior. */
static double joules(const double *x, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 1.2e-19, 4e-20, NULL, NULL, NULL)
              + gpumc_normal_lpdf(x[1], 54, 2, NULL, NULL, NULL);
    (void)data;
    for (int i = 0; i < 8; i++) {
        const double kT = 1.380649e-23 * (300 + 20 * i);
        lp += gpumc_normal_lpdf(54.7 - 1e-19 / kT + (i % 2 ? 0.1 : -0.1), x[1] - x[0] / kT, 0.1, NULL, NULL, NULL);
    }
    return lp;
}
/* Normal, but for a grid of 0.001 to which the simulator rounds. */
static double gridded(const double *x, void *data)
{
    (void)data;
    return gpumc_normal_lpdf(floor(1e3 * x[0]) / 1e3, 1, 0.3, NULL, NULL, NULL)
        + gpumc_normal_lpdf(floor(1e3 * x[1]) / 1e3, 2, 0.5, NULL, NULL, NULL);
}
/* Differences whose steps are longer than a value's scale are named before all else, and units are the remedy; of
   steps too short for the errors of the density longer ones are asked for, and they are the remedy. */
static void check_steps(void)
{
    gpumc_param one[] = { { .name = "E" }, { .name = "log_n" } };
    const gpumc_param two = { .name = "x", .size = 2 };
    gpumc_model m = { .params = one, .n_params = 2, .log_density_only = joules };
    gpumc_sample_options o = { .seed = 0 };
    gpumc_fit fit;
    int named = 0;
    for (; o.seed < 6; o.seed++) {
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        CHECK(fit.n_warnings > 0 && fit.warnings[0].code == GPUMC_W_GRADIENT
              && strstr(fit.warnings[0].text, "with E:"), "%s", fit.n_warnings ? fit.warnings[0].text : "no warning");
        gpumc_free(&fit);
    }
    one[0].kind = GPUMC_AFFINE;
    one[0].multiplier = 1e-20;
    CHECK(gpumc_sample(&m, NULL, &fit) == GPUMC_OK && fit.n_warnings == 0, "%s",
          fit.n_warnings ? fit.warnings[0].text : fit.message);
    CHECK(fabs(gpumc_summarise(&fit, 0).mean - 1e-19) < 1e-20, "%g", gpumc_summarise(&fit, 0).mean);
    gpumc_free(&fit);
    m.params = &two, m.n_params = 1, m.log_density_only = gridded;
    for (o.seed = 0; o.seed < 6; o.seed++) {
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        named += fit.n_warnings > 0 && fit.warnings[0].code == GPUMC_W_JUMPS
            && strstr(fit.warnings[0].text, "set difference_step") != NULL;
        gpumc_free(&fit);
    }
    CHECK(named >= 3, "%d of 6", named);
    m.difference_step = 0.02;
    CHECK(gpumc_sample(&m, NULL, &fit) == GPUMC_OK && fit.n_warnings == 0, "%s",
          fit.n_warnings ? fit.warnings[0].text : fit.message);
    gpumc_free(&fit);
}

/* x^-1.5 near 0: differences, unlike slopes, do not overflow where numbers end, and chains that pile up there mix.
   x^-1 spreads draws over many orders of magnitude: towards 0, where differences say that it does not fall. */
static double endless(const double *x, void *data)
{ return *(const double *)data * log(x[0]) - x[0] + gpumc_std_normal_lpdf(x[1], NULL); }
static void check_improper(void)
{
    static const gpumc_kind kinds[] = { GPUMC_POSITIVE, GPUMC_LOWER, GPUMC_POSITIVE };
    static const char *const words[] = { "", "", "towards zero" };
    double powers[] = { -1.5, -1.5, -1 };
    for (int k = 0; k < 3; k++) {
        const gpumc_param two[] = { { .name = "a", .kind = kinds[k] }, { .name = "b" } };
        const gpumc_model m = { .params = two, .n_params = 2, .log_density_only = endless, .data = &powers[k] };
        gpumc_fit fit;
        CHECK(gpumc_sample(&m, NULL, &fit) == GPUMC_OK, "%s", fit.message);
        CHECK(fit.n_warnings > 0 && fit.warnings[0].code == GPUMC_W_IMPROPER
              && strstr(fit.warnings[0].text, words[k]), "an improper density passes: %s",
              fit.n_warnings ? fit.warnings[0].text : "no warning");
        gpumc_free(&fit);
    }
}

/* Stopped in its draws and resumed, a run gives the draws of one that was not. */
static int stop_at(const gpumc_progress *p, void *user)
{ return p->iteration == 300 && !p->warmup && (*(int *)user)++ == 0; }
static void check_resume(void)
{
    const char *const path = "build/differences.checkpoint";
    const gpumc_model m = { .params = schools_params, .n_params = 3, .log_density_only = schools_only };
    gpumc_sample_options o = { .seed = 9 };
    gpumc_fit whole, parts;
    int n_stops = 0;
    CHECK(gpumc_sample(&m, &o, &whole) == GPUMC_OK, "%s", whole.message);
    remove(path);
    o.checkpoint = path;
    o.progress = stop_at;
    o.progress_user = &n_stops;
    CHECK(gpumc_sample(&m, &o, &parts) == GPUMC_STOPPED, "%s", parts.message);
    gpumc_free(&parts);
    CHECK(gpumc_resume(&m, NULL, path, &parts) == GPUMC_OK && same_draws(&whole, &parts), "%s", parts.message);
    gpumc_free(&parts);
    gpumc_free(&whole);
    remove(path);
}

int main(void)
{
    check_kinds();
    check_edges();
    check_coarse();
    check_schools();
    check_shared();
    check_guide();
    check_refusals();
    check_innocent();
    check_improper();
    if (!getenv("QUICK")) check_steps();
    check_resume();
    return check_end();
}
