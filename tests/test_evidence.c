/* Log evidences against those known by quadrature or by construction, with their standard errors, for every kind of
   block and for hierarchies; Bayes factors; and what must be refused. */
#include "../gpumc.h"
#include "check.h"
#include "schools.h"
#include "ledger.h"

enum { N_SEEDS = 20 };
static const gpumc_sample_options defaults;

/* z of many seeds: their root mean square, and the largest. With 20 seeds a true standard error puts the former in
   0.5 to 1.6 but for one set of seeds in 2000, and the latter below 4.5 but for one in 7000. Standard errors are a
   little too large with many coordinates, as the moments of the normal are those of few draws: see `least`. */
typedef struct spread { double rms, most, se; int ok; } spread;
static spread spread_of(const gpumc_model *m, gpumc_sample_options o, double truth)
{
    spread s = { 0, 0, 0, 1 };
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        o.seed = seed;
        double log_evidence = 0, se = 0;
        gpumc_fit fit;
        gpumc_error error = { GPUMC_OK, "" };
        if (gpumc_sample(m, &o, &fit) != GPUMC_OK
            || gpumc_log_evidence(m, &fit, &log_evidence, &se, &error) != GPUMC_OK) {
            printf("%s: %s%s\n", m->name, fit.message, error.text);
            s.ok = 0;
        }
        const double z = (log_evidence - truth) / se;
        s.rms += z * z / N_SEEDS;
        s.most = check_worst(s.most, fabs(z));
        s.se += se / N_SEEDS;
        gpumc_free(&fit);
    }
    s.rms = sqrt(s.rms);
    return s;
}
static void expect(const gpumc_model *m, gpumc_sample_options o, double truth, double least, double most_se)
{
    const spread s = spread_of(m, o, truth);
    CHECK(s.ok && s.rms > least && s.rms < 1.6 && s.most < 4.5, "%s: rms z %g, largest %g", m->name, s.rms, s.most);
    printf("%s: log evidence %.3f, standard error %.4f, rms z of %d runs %.2f\n", m->name, truth, s.se, (int)N_SEEDS,
           s.rms);
    CHECK(s.se < most_se, "%s: standard error %g", m->name, s.se);
}

/* ---- priors, whose evidence is 1 ------------------------------------------------------------------------ */
static double missing;                                   /* from the constant of a density */
static const size_t square[] = { 3, 3 };
static double all_priors(const double *x, double *g, void *data)
{
    static const double counts[3] = { 2, 3, 4 };
    double lp = gpumc_dirichlet_lpdf(x, counts, 3, g, NULL) + gpumc_lkj_corr_cholesky_lpdf(x + 3, 3, 2, g + 3, NULL)
        + gpumc_beta_lpdf(x[12], 2, 3, &g[12], NULL, NULL) + gpumc_gamma_lpdf(x[13], 2, 3, &g[13], NULL, NULL)
        + gpumc_uniform_lpdf(x[14], -1, 4, &g[14], NULL, NULL) + log(6) /* of three in order */ - missing
        + gpumc_half_normal_lpdf(x[18] - 5, 2, &g[18], NULL) + gpumc_half_normal_lpdf(7 - x[19], 2, NULL, NULL)
        + gpumc_normal_lpdf(x[20], 1000, 20, &g[20], NULL, NULL) + log(2);
    (void)data;
    g[19] += (7 - x[19]) / 4;
    for (int i = 15; i < 18; i++) lp += gpumc_std_normal_lpdf(x[i], &g[i]);
    lp += gpumc_exponential_lpdf(x[21], 1, &g[21], NULL) + gpumc_exponential_lpdf(x[22], 1, &g[22], NULL);
    return lp;
}
static const gpumc_param every_kind[] = {
    { .name = "simplex", .kind = GPUMC_SIMPLEX, .size = 3 },
    { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = square, .n_dims = 2 },
    { .name = "unit", .kind = GPUMC_UNIT },
    { .name = "positive", .kind = GPUMC_POSITIVE },
    { .name = "interval", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 4 },
    { .name = "ordered", .kind = GPUMC_ORDERED, .size = 3 },
    { .name = "lower", .kind = GPUMC_LOWER, .lower = 5 },
    { .name = "upper", .kind = GPUMC_UPPER, .upper = 7 },
    { .name = "affine", .kind = GPUMC_AFFINE, .offset = 1000, .multiplier = 10 },
    { .name = "above", .kind = GPUMC_POSITIVE_ORDERED, .size = 2 },
};
static void check_priors(void)
{
    const gpumc_model m = { .name = "priors", .params = every_kind,
        .n_params = sizeof every_kind / sizeof *every_kind, .log_density = all_priors };
    expect(&m, defaults, 0, 0.5, 0.03);
    missing = 0.1;                                       /* about five standard errors: must be seen */
    const spread s = spread_of(&m, defaults, 0);
    CHECK(s.rms > 3, "a constant that is missing passes: rms z %g", s.rms);
    missing = 0;
}

/* ---- hierarchies, by quadrature over the scale ---------------------------------------------------------- */
/* The log of the mean, over tau by its quantiles, of the density of y ~ normal(mu, tau^2 + error^2), where
   mu ~ normal(0, 5). */
static double marginal(const double *y, const double *error, int n, double (*quantile)(double))
{
    enum { STEPS = 100000 };
    static double at[STEPS];
    double most = -INFINITY, sum = 0;
    for (int k = 0; k < STEPS; k++) {
        const double tau = quantile((k + 0.5) / STEPS);
        double a = 1.0 / 25, b = 0, c = 0, lp = -0.5 * log(25);
        for (int i = 0; i < n; i++) {
            const double v = error[i] * error[i] + tau * tau;
            a += 1 / v, b += y[i] / v, c += y[i] * y[i] / v, lp -= 0.5 * log(2 * acos(-1) * v);
        }
        at[k] = lp - 0.5 * (c - b * b / a + log(a));
        most = fmax(most, at[k]);
    }
    for (int k = 0; k < STEPS; k++) sum += exp(at[k] - most) / STEPS;
    return most + log(sum);
}
static double cauchy_scale(double p) { return gpumc_half_cauchy_quantile(p, 5); }

/* schools_density leaves out the constants of its half-Cauchy prior. */
static double normalised(const double *x, double *g, void *data)
{ return schools_density(x, g, data) + log(2 / (acos(-1) * 5)); }
static double normalised_only(const double *x, void *data)
{
    double g[10] = { 0 };
    return normalised(x, g, data);
}
static gpumc_model schools(void)
{
    const gpumc_model m = { .name = "schools", .params = schools_params, .n_params = 3, .log_density = normalised,
        .generate = schools_generate, .outputs = &schools_output, .n_outputs = 1 };
    return m;
}
static void check_schools(void)
{
    gpumc_model m = schools();
    const double truth = marginal(schools_effect, schools_error, 8, cauchy_scale);
    expect(&m, defaults, truth, 0.5, 0.03);
    m.log_density = NULL, m.log_density_only = normalised_only, m.name = "schools, by differences";
    expect(&m, defaults, truth, 0.5, 0.03);
}

/* A hundred groups, whose coordinates must be those that warm-up learned; and as many groups of a model without
   differences between them, for a Bayes factor that is known. */
enum { N_GROUPS = 100 };
static double y[N_GROUPS], error_of[N_GROUPS];
static double groups(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL) + gpumc_half_normal_lpdf(x[1], 2, &g[1], NULL);
    (void)data;
    for (int j = 0; j < N_GROUPS; j++)
        lp += gpumc_normal_lpdf(x[2 + j], x[0], x[1], &g[2 + j], &g[0], &g[1])
            + gpumc_normal_lpdf(y[j], x[2 + j], error_of[j], NULL, &g[2 + j], NULL);
    return lp;
}
static double one_mean(const double *x, double *g, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL);
    (void)data;
    for (int j = 0; j < N_GROUPS; j++) lp += gpumc_normal_lpdf(y[j], x[0], error_of[j], NULL, &g[0], NULL);
    return lp;
}
static double normal_scale(double p) { return gpumc_half_normal_quantile(p, 2); }
static double no_scale(double p) { return 0 * p; }
static void check_groups(void)
{
    const gpumc_param of_groups[] = { { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = N_GROUPS, .location = "mu", .scale = "tau" } };
    const gpumc_model many = { .name = "groups", .params = of_groups, .n_params = 3, .log_density = groups };
    const gpumc_model one = { .name = "one mean", .params = of_groups, .n_params = 1, .log_density = one_mean };
    gpumc_rng rng = gpumc_rng_at(7, 0, 0, 0);
    for (int j = 0; j < N_GROUPS; j++) {
        error_of[j] = j % 3 ? 0.01 : 2;
        y[j] = 1 + 0.3 * gpumc_rng_normal(&rng) + error_of[j] * gpumc_rng_normal(&rng);
    }
    expect(&many, defaults, marginal(y, error_of, N_GROUPS, normal_scale), 0.2, 0.045);
    expect(&one, defaults, marginal(y, error_of, N_GROUPS, no_scale), 0.5, 0.01);
}

/* Chains that hardly move: the error is that of few independent draws. */
static double skew(const double *x, double *g, void *data)
{ (void)data; return gpumc_gumbel_lpdf(x[0], 0, 1, &g[0], NULL, NULL); }
static void check_slow_chains(void)
{
    const gpumc_param one = { .name = "x" };
    const gpumc_model m = { .name = "slow chains", .params = &one, .n_params = 1, .log_density = skew };
    const gpumc_sample_options slow = { .sampler = GPUMC_SAMPLER_NUTS, .step_size = 0.2, .max_treedepth = 1,
        .num_warmup = -1, .num_samples = 4000 };
    expect(&m, slow, 0, 0.5, 0.2);
}

/* ---- the same from any number of threads, files and errors ---------------------------------------------- */
static double of_other_data(const double *x, double *g, void *data)
{
    const double slope = 3 / schools_error[0] / schools_error[0];     /* as if the first effect were greater by 3 */
    g[2] += slope;
    return normalised(x, g, data) + slope * x[2];
}
static double alien(const double *x, double *g, void *data)
{
    (void)g, (void)data;
    return x[0] > 1e6 ? 0 : -INFINITY;
}
static int ignore(size_t chain, size_t draw, const double *x, const gpumc_draw_stats *stats, void *user)
{ (void)chain, (void)draw, (void)x, (void)stats, (void)user; return 0; }
static void check_rest(void)
{
    gpumc_model m = schools(), other = m;
    gpumc_sample_options o = { .seed = 3, .threads = 1 };
    gpumc_fit fit, again, merged;
    gpumc_error error;
    double e[3], se[3];
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
    CHECK(gpumc_log_evidence(&m, &fit, &e[0], &se[0], NULL) == GPUMC_OK, "an error needs no text");
    o.threads = 3;
    CHECK(gpumc_sample(&m, &o, &again) == GPUMC_OK, "%s", again.message);
    CHECK(gpumc_log_evidence(&m, &again, &e[1], &se[1], &error) == GPUMC_OK && e[0] == e[1] && se[0] == se[1],
          "%.17g and %.17g by threads", e[0], e[1]);
    const char *const path = "build/evidence.zarr";
    CHECK(system("rm -rf build/evidence.zarr") == 0 && gpumc_write_store(&fit, path, NULL, &error) == GPUMC_OK, "%s",
          error.text);
    CHECK(gpumc_merge(&path, 1, NULL, &merged) == GPUMC_OK, "%s", merged.message);
    CHECK(gpumc_log_evidence(&m, &merged, &e[2], &se[2], &error) == GPUMC_OK
              && fabs(e[2] - e[0]) < 4 * hypot(se[2], se[0]), "of a file %g, se %g; %g, se %g", e[2], se[2], e[0],
          se[0]);
    gpumc_free(&merged);
    gpumc_free(&again);

#define REFUSE(model, fit, status, words) \
    CHECK(gpumc_log_evidence(model, fit, &e[0], &se[0], &error) == (status) && strstr(error.text, words), "%s", \
          error.text)
    REFUSE(NULL, &fit, GPUMC_ERROR_ARGUMENT, "NULL");
    REFUSE(&m, NULL, GPUMC_ERROR_ARGUMENT, "NULL");
    other.n_params = 2;
    REFUSE(&other, &fit, GPUMC_ERROR_ARGUMENT, "the model has 2 values, the fit 10");
    other = m, other.n_params = 0;
    REFUSE(&other, &fit, GPUMC_ERROR_MODEL, "no parameters");
    other = m, other.log_density = alien;
    REFUSE(&other, &fit, GPUMC_ERROR_NUMERIC, "not finite at a draw");
    CHECK(isnan(e[0]) && isnan(se[0]), "numbers in spite of an error");
    other = m, other.log_density = of_other_data;
    REFUSE(&other, &fit, GPUMC_ERROR_NUMERIC, "of another model, or of other data");
    other.log_density = schools_density;                    /* without a constant */
    CHECK(gpumc_log_evidence(&other, &fit, &e[2], &se[2], &error) == GPUMC_OK
              && fabs(e[1] - e[2] - log(2 / (acos(-1) * 5))) < 1e-9, "%s: %g and %g", error.text, e[1], e[2]);
    const gpumc_param ten = { .name = "p", .size = 10, .kind = GPUMC_SIMPLEX };
    other = m, other.params = &ten, other.n_params = 1;
    REFUSE(&other, &fit, GPUMC_ERROR_ARGUMENT, "the fit 10 (free: 9, 10)");
    fit.draws[4 * fit.n_columns + 1] = -1;                  /* a scale */
    REFUSE(&m, &fit, GPUMC_ERROR_NUMERIC, "of this model");
    fit.draws[4 * fit.n_columns + 1] = 1;
    fit.draws[(fit.n_draws - 4) * fit.n_columns + 1] = -1;
    REFUSE(&m, &fit, GPUMC_ERROR_NUMERIC, "not finite at a draw");
    gpumc_free(&fit);
    for (o.num_samples = 23; o.num_samples <= 24; o.num_samples++) {
        CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
        if (o.num_samples == 23) REFUSE(&m, &fit, GPUMC_ERROR_ARGUMENT, "fit holds 23 draws a chain: it takes 24");
        else REFUSE(&m, &fit, GPUMC_ERROR_NUMERIC, "96 draws give no covariance of 10 free coordinates");
        gpumc_free(&fit);
    }
    o.discard_draws = 1, o.on_draw = ignore;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
    REFUSE(&m, &fit, GPUMC_ERROR_ARGUMENT, "discard_draws");
    gpumc_free(&fit);
}

/* Every allocation refused in turn: a status, and nothing left. No matrix for draws that are too few. */
enum { MANY = 1000 };
static double many_normals(const double *x, double *g, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < MANY; i++) lp += gpumc_std_normal_lpdf(x[i], &g[i]);
    return lp;
}
static void check_memory(void)
{
    ledger l = { 0, 0, 0, 0, 0, 0 };
    const gpumc_model m = schools();
    const gpumc_sample_options o = { .threads = 2, .allocator = ledger_allocator(&l) };
    gpumc_fit fit;
    gpumc_error error;
    double e, se;
    CHECK(gpumc_sample(&m, &o, &fit) == GPUMC_OK, "%s", fit.message);
    const size_t live = l.live, before = l.calls;
    CHECK(gpumc_log_evidence(&m, &fit, &e, &se, &error) == GPUMC_OK && l.live == live, "%s", error.text);
    const size_t calls = l.calls - before;
    int n_refused = 0;
    for (size_t k = 1; k <= calls; k++) {
        l.refuse_at = l.calls + k;
        const gpumc_status status = gpumc_log_evidence(&m, &fit, &e, &se, &error);
        CHECK((status == GPUMC_OK || status == GPUMC_ERROR_MEMORY) && l.live == live, "call %d: %d, %d blocks left",
              (int)k, (int)status, (int)(l.live - live));
        n_refused += status == GPUMC_ERROR_MEMORY;
    }
    CHECK(n_refused >= 2, "%d of %d refusals matter", n_refused, (int)calls);
    l.refuse_at = 0;
    gpumc_free(&fit);
    CHECK(l.live == 0, "%d blocks left", (int)l.live);

    const gpumc_param wide = { .name = "x", .size = MANY };
    const gpumc_model large = { .params = &wide, .n_params = 1, .log_density = many_normals };
    gpumc_sample_options few = o;
    few.num_samples = 24, few.num_warmup = 20;
    CHECK(gpumc_sample(&large, &few, &fit) == GPUMC_OK, "%s", fit.message);
    l.most = l.bytes;
    CHECK(gpumc_log_evidence(&large, &fit, &e, &se, &error) == GPUMC_ERROR_NUMERIC
              && l.most - l.bytes < (size_t)MANY * MANY, "%s: %.0f bytes", error.text, (double)(l.most - l.bytes));
    gpumc_free(&fit);
}

int main(void)
{
    if (!getenv("QUICK")) {
        check_priors();
        check_schools();
        check_groups();
        check_slow_chains();
    }
    check_rest();
    check_memory();
    return check_end();
}
