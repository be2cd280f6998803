/* Simulation-based calibration (Talts et al. 2018, Modrak et al. 2023): parameters are drawn from the prior
   and data given them, the posterior is sampled, and the rank of the true value among thinned draws must be
   uniform. Ranks are taken of every parameter, the log likelihood (which reveals a sampler that ignores the data),
   the log density and a product of two parameters.

   Ranks of N_SIMULATIONS simulations are judged twice, by chi-square over 20 bins (spread) and by the
   Kolmogorov-Smirnov distance (shift); LIMIT is the smallest p-value that passes. With 92 p-values in all
   the false-alarm rate is below 0.01 for an arbitrary seed; the seed is fixed. Five kinds of wrong sampler
   must be caught. */
#include "check.h"
#include "../gpumc.h"
#include "samplers.h"

#ifndef N_SIMULATIONS
#define N_SIMULATIONS 1000           /* long_sbc.c: 4000, by every sampler */
#endif
enum { N_RANKED = 99, N_BINS = 20, MAX_QUANTITIES = 16, MAX_NATURAL = 10 };
static const double LIMIT = 1e-4;

/* ---- models ---------------------------------------------------------------------------------- */

/* Both have mu, a scale tau and n group effects; the second a residual scale sigma as well. The ways in which a
   density is wrong in broken variants: */
typedef enum mistake { RIGHT, NO_JACOBIAN, NO_LIKELIHOOD, WRONG_PRIOR, WRONG_SIGN } mistake;

typedef struct problem {
    const char *name;
    const gpumc_param *params;
    size_t n_params, n_natural;
    double (*prior)(const double *x, double *grad, mistake wrong);
    double (*likelihood)(const double *x, double *grad, const double *y);
    void (*draw)(gpumc_rng *rng, double *x, double *y);
} problem;

typedef struct simulation { const problem *problem; mistake wrong; double y[16]; } simulation;

static double simulation_density(const double *x, double *grad, void *data)
{
    const simulation *s = data;
    double lp = s->problem->prior(x, grad, s->wrong);
    if (s->wrong != NO_LIKELIHOOD) lp += s->problem->likelihood(x, grad, s->y);
    if (s->wrong == NO_JACOBIAN) { /* of log tau, whose Jacobian is tau */
        lp -= log(x[1]);
        grad[1] -= 1 / x[1];
    }
    if (s->wrong == WRONG_SIGN) grad[0] = -grad[0];
    return lp;
}

/* Eight schools: mu ~ normal(0, 5), tau ~ half-normal(5), theta ~ normal(mu, tau), effect ~ normal(theta,
   error). */
static const double error[8] = { 15, 10, 16, 11, 9, 11, 10, 18 };
static const gpumc_param schools_params[] = {
    { .name = "mu" },
    { .name = "tau", .kind = GPUMC_POSITIVE },
    { .name = "theta", .size = 8, .location = "mu", .scale = "tau" },
};

static double schools_prior(const double *x, double *g, mistake wrong)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 5, &g[0], NULL, NULL)
        + gpumc_half_normal_lpdf(x[1], wrong == WRONG_PRIOR ? 2.5 : 5, &g[1], NULL);
    for (int j = 2; j < 10; j++) lp += gpumc_normal_lpdf(x[j], x[0], x[1], &g[j], &g[0], &g[1]);
    return lp;
}

static double schools_likelihood(const double *x, double *g, const double *y)
{
    double lp = 0;
    for (int j = 0; j < 8; j++) lp += gpumc_normal_lpdf(y[j], x[2 + j], error[j], NULL, &g[2 + j], NULL);
    return lp;
}

static void schools_draw(gpumc_rng *rng, double *x, double *y)
{
    x[0] = 5 * gpumc_rng_normal(rng);
    x[1] = fabs(5 * gpumc_rng_normal(rng));
    for (int j = 0; j < 8; j++) {
        x[2 + j] = x[0] + x[1] * gpumc_rng_normal(rng);
        y[j] = x[2 + j] + error[j] * gpumc_rng_normal(rng);
    }
}

/* Four groups of three: mu ~ normal(0, 1), tau ~ lognormal(-1/2, 1), sigma ~ exponential(1), theta ~
   normal(mu, tau), y ~ normal(theta, sigma). */
static const gpumc_param groups_params[] = {
    { .name = "mu" },
    { .name = "tau", .kind = GPUMC_POSITIVE },
    { .name = "theta", .size = 4, .location = "mu", .scale = "tau" },
    { .name = "sigma", .kind = GPUMC_POSITIVE },
};

static double groups_prior(const double *x, double *g, mistake wrong)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 1, &g[0], NULL, NULL)
        + gpumc_lognormal_lpdf(x[1], -0.5, wrong == WRONG_PRIOR ? 0.5 : 1, &g[1], NULL, NULL)
        + gpumc_exponential_lpdf(x[6], 1, &g[6], NULL);
    for (int j = 2; j < 6; j++) lp += gpumc_normal_lpdf(x[j], x[0], x[1], &g[j], &g[0], &g[1]);
    return lp;
}

static double groups_likelihood(const double *x, double *g, const double *y)
{
    double lp = 0;
    for (int i = 0; i < 12; i++)
        lp += gpumc_normal_lpdf(y[i], x[2 + i / 3], x[6], NULL, &g[2 + i / 3], &g[6]);
    return lp;
}

static void groups_draw(gpumc_rng *rng, double *x, double *y)
{
    x[0] = gpumc_rng_normal(rng);
    x[1] = exp(gpumc_rng_normal(rng) - 0.5);
    x[6] = gpumc_rng_exponential(rng);
    for (int j = 0; j < 4; j++) x[2 + j] = x[0] + x[1] * gpumc_rng_normal(rng);
    for (int i = 0; i < 12; i++) y[i] = x[2 + i / 3] + x[6] * gpumc_rng_normal(rng);
}

static const problem schools = { "eight schools", schools_params,     3,           10,
                                 schools_prior,   schools_likelihood, schools_draw };
static const problem groups = { "hierarchical normal", groups_params,     4,          7,
                                groups_prior,          groups_likelihood, groups_draw };

/* ---- ranks ----------------------------------------------------------------------------------- */

/* The ranked quantities: natural values, log likelihood, log density and mu theta[1], all by the correct model. */
static size_t quantities(const problem *p, const double *x, const double *y, double *out)
{
    double unused[MAX_NATURAL] = { 0 };
    const double likelihood = p->likelihood(x, unused, y);
    memcpy(out, x, p->n_natural * sizeof(double));
    out[p->n_natural] = likelihood;
    out[p->n_natural + 1] = likelihood + p->prior(x, unused, RIGHT);
    out[p->n_natural + 2] = x[0] * x[2];
    return p->n_natural + 3;
}

typedef struct ranks { size_t n, counts[MAX_QUANTITIES][N_RANKED + 1]; } ranks;

/* Ranks of the true values among N_RANKED of the draws, evenly spaced; ties are broken at random. */
static void rank_draws(ranks *r, const problem *p, const double *truth, const double *y, const double *draws,
                       size_t n_draws, gpumc_rng *rng)
{
    double wanted[MAX_QUANTITIES], seen[MAX_QUANTITIES];
    size_t below[MAX_QUANTITIES] = { 0 };
    r->n = quantities(p, truth, y, wanted);
    for (size_t d = 0; d < N_RANKED; d++) {
        quantities(p, draws + (d * n_draws / N_RANKED) * p->n_natural, y, seen);
        for (size_t k = 0; k < r->n; k++)
            below[k] += seen[k] < wanted[k] || (seen[k] == wanted[k] && gpumc_rng_uniform(rng) < 0.5);
    }
    for (size_t k = 0; k < r->n; k++) r->counts[k][below[k]]++;
}

/* ---- samplers -------------------------------------------------------------------------------- */

/* Fills draws with n rows of natural values; returns the number of the run's warnings that are about a failure of the
   sampler. */
typedef int (*sampler)(simulation *s, uint64_t seed, double *draws, size_t n);

static gpumc_sampler chosen;          /* of all runs of gpumc */

static int library(simulation *s, uint64_t seed, double *draws, size_t n)
{
    const gpumc_model model = { .name = s->problem->name,
                                .params = s->problem->params,
                                .n_params = s->problem->n_params,
                                .log_density = simulation_density,
                                .data = s };
    const gpumc_sample_options options = { .num_chains = 2,
                                           .num_samples = (int)(n / 2),
                                           .thin = 4,
                                           .target_accept = 0.9,
                                           .threads = 1,
                                           .seed = seed,
                                           .skip_gradient_check = s->wrong == WRONG_SIGN,
                                           .sampler = chosen,
                                           .max_treedepth = 6 };
    gpumc_fit fit;
    int complaints = 0;
    if (gpumc_sample(&model, &options, &fit) != GPUMC_OK) {
        CHECK(s->wrong == WRONG_SIGN, "%s: %s", s->problem->name, fit.message);
        memset(draws, 0, n * s->problem->n_natural * sizeof(double));
        gpumc_free(&fit);
        return 1;
    }
    memcpy(draws, fit.draws, n * s->problem->n_natural * sizeof(double));
    for (size_t i = 0; i < fit.n_warnings; i++) {
        const gpumc_warning_code code = fit.warnings[i].code;
        complaints += code == GPUMC_W_DIVERGENT || code == GPUMC_W_ACCEPT || code == GPUMC_W_RHAT
            || code == GPUMC_W_NOT_MIXED || code == GPUMC_W_STUCK || code == GPUMC_W_TREEDEPTH;
    }
    gpumc_free(&fit);
    return complaints;
}

/* A wrong sampler: HMC trajectories of ten steps, all accepted, without the Metropolis test. */
static int hmc_without_test(simulation *s, uint64_t seed, double *draws, size_t n)
{
    static double memory[4096];
    const gpumc_model model = { .name = "x", .params = s->problem->params, .n_params = s->problem->n_params,
                                .log_density = simulation_density, .data = s };
    const gpumc_layout *layout = gpumc_layout_init(&model, memory, sizeof memory, NULL);
    const size_t dim = gpumc_layout_dim(layout);
    gpumc_rng rng = gpumc_rng_at(seed, 9, 9, 9);
    double q[MAX_NATURAL] = { 0 }, p[MAX_NATURAL], g[MAX_NATURAL], work[512];
    for (size_t d = 0; d < n; d++) {
        gpumc_rng_normals(&rng, p, dim);
        gpumc_model_eval(layout, q, g, work);
        for (int step = 0; step < 10; step++) {
            for (size_t i = 0; i < dim; i++) { p[i] += 0.25 * g[i]; q[i] += 0.5 * p[i]; }
            if (!(gpumc_model_eval(layout, q, g, work) > -1e6))
                memset(q, 0, sizeof q); /* diverged: start again */
            for (size_t i = 0; i < dim; i++) p[i] += 0.25 * g[i];
        }
        gpumc_model_natural(layout, q, draws + d * s->problem->n_natural, work);
    }
    return 0;
}

static void calibrate(const problem *p, sampler sample, mistake wrong, size_t n_simulations, ranks *r)
{
    enum { N_DRAWS = 100 };
    double draws[N_DRAWS * MAX_NATURAL], truth[MAX_NATURAL];
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < n_simulations; i++) {
        gpumc_rng rng = gpumc_rng_at(2024, 5, (uint32_t)i, 0);
        simulation s = { p, wrong, { 0 } };
        p->draw(&rng, truth, s.y);
        sample(&s, 1000 + i, draws, N_DRAWS);
        rank_draws(r, p, truth, s.y, draws, N_DRAWS, &rng);
    }
}

/* ---- uniformity ------------------------------------------------------------------------------ */

/* P(chi^2 with 19 degrees of freedom > x) by Wilson and Hilferty's approximation, accurate enough for a limit. */
static double chi_square_tail(double x)
{
    const double k = N_BINS - 1, z = (cbrt(x / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));
    return 0.5 * erfc(z / sqrt(2));
}

/* P(sqrt(n) D > x), Kolmogorov's limit; conservative for ranks, which are discrete. */
static double kolmogorov_tail(double x)
{
    double sum = 0;
    if (x < 0.3) return 1;
    for (int k = 1; k < 50; k++) sum += (k % 2 ? 2 : -2) * exp(-2.0 * k * k * x * x);
    return sum;
}

/* The smaller of both p-values for one quantity. */
static double uniformity(const size_t *counts)
{
    double total = 0, chi = 0, distance = 0, cumulative = 0, p, q;
    for (size_t k = 0; k <= N_RANKED; k++) total += (double)counts[k];
    for (size_t b = 0; b < N_BINS; b++) {
        double seen = 0;
        for (size_t k = 0; k < (N_RANKED + 1) / N_BINS; k++)
            seen += (double)counts[b * ((N_RANKED + 1) / N_BINS) + k];
        chi += (seen - total / N_BINS) * (seen - total / N_BINS) / (total / N_BINS);
    }
    for (size_t k = 0; k <= N_RANKED; k++) {
        cumulative += (double)counts[k];
        distance = fmax(distance, fabs(cumulative / total - (double)(k + 1) / (N_RANKED + 1)));
    }
    p = chi_square_tail(chi);
    q = kolmogorov_tail(distance * sqrt(total));
    return p < q ? p : q;
}

static double worst_quantity(const ranks *r, size_t *which)
{
    double worst = 2;
    *which = 0;
    for (size_t k = 0; k < r->n; k++) {
        const double p = uniformity(r->counts[k]);
        if (p < worst) { worst = p; *which = k; }
    }
    return worst;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void check_calibrated(const problem *p)
{
    ranks r;
    calibrate(p, library, RIGHT, N_SIMULATIONS, &r);
    for (size_t k = 0; k < r.n; k++)
        CHECK(uniformity(r.counts[k]) > LIMIT, "%s, %s: ranks of quantity %d are not uniform, p = %.2g",
              p->name, sampler_names[chosen], (int)k, uniformity(r.counts[k]));
}

static void check_caught(const problem *p, sampler sample, mistake wrong, const char *what)
{
    ranks r;
    size_t which;
    calibrate(p, sample, wrong, 200, &r);
    CHECK(worst_quantity(&r, &which) < LIMIT, "%s: %s went unnoticed, smallest p = %.2g", p->name, what,
          worst_quantity(&r, &which));
    if (wrong == NO_LIKELIHOOD)
        CHECK(uniformity(r.counts[p->n_natural]) < LIMIT,
              "%s: ranks of the log likelihood do not see that it is ignored", p->name);
}

/* A gradient of wrong sign is refused. With the gradient check switched off, the acceptance test keeps the limiting
   distribution correct, but trajectories lead nowhere: nearly every run must warn. */
static void check_wrong_sign(const problem *p)
{
    gpumc_rng rng = gpumc_rng_at(1, 1, 1, 1);
    simulation s = { p, WRONG_SIGN, { 0 } };
    const gpumc_model model = { .name = "x",
                                .params = p->params,
                                .n_params = p->n_params,
                                .log_density = simulation_density,
                                .data = &s };
    double truth[MAX_NATURAL], draws[100 * MAX_NATURAL];
    int complaints = 0;
    gpumc_fit fit;
    p->draw(&rng, truth, s.y);
    CHECK(gpumc_sample(&model, NULL, &fit) == GPUMC_ERROR_GRADIENT && strstr(fit.message, "mu"), "%s: %s",
          p->name, fit.message);
    gpumc_free(&fit);
    for (uint64_t i = 0; i < 20; i++) {
        p->draw(&rng, truth, s.y);
        complaints += library(&s, i, draws, 100) > 0;
    }
    CHECK(complaints >= 18, "%s: only %d of 20 runs with a gradient of wrong sign complain", p->name,
          complaints);
}

/* With an argument, auto, nuts, mams or hmc, only the calibration by that sampler. */
int main(int argc, char **argv)
{
    for (size_t k = 0; sampler_at(k, argc, argv, &chosen); k++) {
        check_calibrated(&schools);
        check_calibrated(&groups);
    }
    if (argc > 1) return check_end();
    chosen = GPUMC_SAMPLER_AUTO;
    check_caught(&groups, library, NO_JACOBIAN, "a missing Jacobian");
    check_caught(&groups, library, NO_LIKELIHOOD, "an ignored likelihood");
    check_caught(&groups, library, WRONG_PRIOR, "a wrong prior scale");
    check_caught(&groups, hmc_without_test, RIGHT, "a trajectory without acceptance test");
    check_caught(&schools, library, NO_LIKELIHOOD, "an ignored likelihood");
    check_caught(&schools, library, WRONG_PRIOR, "a wrong prior scale");
    check_caught(&schools, hmc_without_test, RIGHT, "a trajectory without acceptance test");
    check_wrong_sign(&groups);
    check_wrong_sign(&schools);
    return check_end();
}
