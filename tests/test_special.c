/* Incomplete gamma and beta functions against known_special.h, their inverses and edges; then the families
   built on them, where a plain formula loses all digits. Every tolerance has a twin that must fail it. */
#include <float.h>
#include "../gpumc.h"
#include "check.h"
#include "known_special.h"

#define COUNT(array) (sizeof array / sizeof *array)
#define VALUE_TOLERANCE 1e-12
#define SLOPE_TOLERANCE 1e-9

/* Error of a log tail in units of the tolerance: relative to the tail where that is small, to 1 less the tail
   where it is near 1, as far as the logarithm's own rounding (1e-15 relative) lets it be. */
static double value_error(double value, double known)
{
    const double size = fabs(known), unit = fmax(VALUE_TOLERANCE * fmin(1, size), 1e-15 * size);
    if (value == known) return 0;
    return isfinite(value) ? fabs(value - known) / unit : INFINITY;
}

static double slope_error(double slope, double known)
{
    return check_distance(slope, known, 1e-300) / SLOPE_TOLERANCE;
}

typedef struct worst { double error, at[3]; } worst;

static void keep_worst(worst *w, double error, double a, double b, double x)
{
    if (error <= w->error) return;
    w->error = error;
    w->at[0] = a;
    w->at[1] = b;
    w->at[2] = x;
}

static void report(const char *what, const worst *w)
{
    CHECK(w->error <= 1, "%s: %g times the tolerance at %.17g, %.17g, %.17g",
          what, w->error, w->at[0], w->at[1], w->at[2]);
}

/* ---- values and derivatives; scale 1 is the library, others are broken twins ------------------------ */
typedef struct table_errors { worst value, slope, density; } table_errors;

static table_errors gamma_table(double value_scale, double slope_scale)
{
    table_errors w;
    memset(&w, 0, sizeof w);
    for (size_t i = 0; i < COUNT(known_gamma); i++) {
        const double *k = known_gamma[i], a = k[0], x = k[1];
        double pa = 0, px = 0, qa = 0, qx = 0;
        const double p = gpumc_log_gamma_p(a, x, &pa, &px), q = gpumc_log_gamma_q(a, x, &qa, &qx);
        const double log_density = gpumc_gamma_lpdf(x, a, 1, NULL, NULL, NULL);
        keep_worst(&w.value, value_error(p * value_scale, k[2]), a, 0, x);
        keep_worst(&w.value, value_error(q * value_scale, k[3]), a, 0, x);
        keep_worst(&w.slope, slope_error(pa * slope_scale, k[4]), a, 0, x);
        keep_worst(&w.slope, slope_error(qa * slope_scale, k[5]), a, 0, x);
        keep_worst(&w.density, slope_error(px * slope_scale, exp(log_density - k[2])), a, 0, x);
        keep_worst(&w.density, slope_error(qx * slope_scale, -exp(log_density - k[3])), a, 0, x);
    }
    return w;
}

static table_errors beta_table(double value_scale, double slope_scale)
{
    table_errors w;
    memset(&w, 0, sizeof w);
    for (size_t i = 0; i < COUNT(known_beta); i++) {
        const double *k = known_beta[i], a = k[0], b = k[1], x = k[2];
        double pa = 0, pb = 0, px = 0, qa = 0, qb = 0, qx = 0;
        const double p = gpumc_log_beta_p(a, b, x, &pa, &pb, &px);
        const double q = gpumc_log_beta_q(a, b, x, &qa, &qb, &qx);
        const double log_density = gpumc_beta_lpdf(x, a, b, NULL, NULL, NULL);
        keep_worst(&w.value, value_error(p * value_scale, k[3]), a, b, x);
        keep_worst(&w.value, value_error(q * value_scale, k[4]), a, b, x);
        keep_worst(&w.slope, slope_error(pa * slope_scale, k[5]), a, b, x);
        keep_worst(&w.slope, slope_error(qa * slope_scale, k[6]), a, b, x);
        keep_worst(&w.slope, slope_error(pb * slope_scale, k[7]), a, b, x);
        keep_worst(&w.slope, slope_error(qb * slope_scale, k[8]), a, b, x);
        keep_worst(&w.density, slope_error(px * slope_scale, exp(log_density - k[3])), a, b, x);
        keep_worst(&w.density, slope_error(qx * slope_scale, -exp(log_density - k[4])), a, b, x);
    }
    return w;
}

static void test_table(const char *name, table_errors (*table)(double, double))
{
    const table_errors library = table(1, 1), broken = table(1 + 2e-12, 1 - 2e-9);
    printf("%s: value %.2g, derivatives by shapes %.2g, by x %.2g of the tolerances\n",
           name, library.value.error, library.slope.error, library.density.error);
    report(name, &library.value);
    report(name, &library.slope);
    report(name, &library.density);
    CHECK(broken.value.error > 1, "%s: values off by 2e-12 were accepted", name);
    CHECK(broken.slope.error > 1, "%s: derivatives by shapes off by 2e-9 were accepted", name);
    CHECK(broken.density.error > 1, "%s: derivatives by x off by 2e-9 were accepted", name);
}

/* The functions themselves are the exponentials of their logarithms, with derivatives to match. */
static int same(double a, double b) { return check_distance(a, b, 0) < 2e-15; }

static void test_linear(void)
{
    double d[3] = { 0, 0, 0 }, log_d[3] = { 0, 0, 0 }, p = gpumc_gamma_p(2.5, 1.5, &d[0], &d[2]);
    double log_p = gpumc_log_gamma_p(2.5, 1.5, &log_d[0], &log_d[2]);
    CHECK(same(log(p), log_p) && same(d[0], p * log_d[0]) && same(d[2], p * log_d[2]), "gamma_p");
    CHECK(same(gpumc_gamma_q(2.5, 1.5, &d[0], &d[2]), 1 - p), "gamma_q");
    CHECK(fabs(d[0]) + fabs(d[2]) < 1e-15, "derivatives are added, and those of gamma_q cancel gamma_p's");
    memset(log_d, 0, sizeof log_d);
    p = gpumc_beta_p(2.5, 0.5, 0.25, &d[0], &d[1], &d[2]);
    log_p = gpumc_log_beta_p(2.5, 0.5, 0.25, &log_d[0], &log_d[1], &log_d[2]);
    CHECK(same(log(p), log_p) && same(d[0], p * log_d[0]) && same(d[1], p * log_d[1]), "beta_p");
    CHECK(same(d[2], p * log_d[2]), "beta_p by x");
    CHECK(same(gpumc_beta_q(2.5, 0.5, 0.25, &d[0], &d[1], &d[2]), 1 - p), "beta_q");
    CHECK(fabs(d[0]) + fabs(d[1]) + fabs(d[2]) < 1e-15, "derivatives of beta_q cancel beta_p's");
}

/* ---- inverses ------------------------------------------------------------------------------------- */
static const double shapes[] = { 1e-3, 0.05, 0.5, 1, 1.5, 7, 300, 1e5, 1e9 };
static const double probabilities[] = { 1e-300, 1e-100, 1e-12, 1e-3, 0.1, 0.49, 0.5, 0.51, 0.9, 0.999 };

/* Back to log p, allowing for x to be rounded. */
static double round_trip(double log_tail, double p, double slope, double x)
{
    return fabs(log_tail - log(p)) / (4 * VALUE_TOLERANCE + 4 * DBL_EPSILON * fabs(slope) * x);
}

static void gamma_inverse(double a, double p, double broken, worst *w)
{
    const double x = gpumc_gamma_p_inverse(a, p) * (1 + broken);
    const double y = gpumc_gamma_q_inverse(a, p) * (1 + broken);
    double px = 0, qy = 0;
    const double lower = gpumc_log_gamma_p(a, x, NULL, &px), upper = gpumc_log_gamma_q(a, y, NULL, &qy);
    if (x < DBL_MIN) CHECK(gpumc_gamma_p(a, DBL_MIN, NULL, NULL) >= p, "inverse %g of %g at %g", x, p, a);
    else keep_worst(w, round_trip(lower, p, px, x), a, 0, p);
    if (y > DBL_MIN) keep_worst(w, round_trip(upper, p, qy, y), a, 0, p);
}

static void beta_inverse(double a, double b, double p, double broken, worst *w)
{
    const double x = gpumc_beta_p_inverse(a, b, p) * (1 + broken);
    const double y = gpumc_beta_q_inverse(a, b, p) * (1 + broken);
    double px = 0, qy = 0;
    const double lower = gpumc_log_beta_p(a, b, x, NULL, NULL, &px);
    const double upper = gpumc_log_beta_q(a, b, y, NULL, NULL, &qy);
    if (x < DBL_MIN) CHECK(gpumc_beta_p(a, b, DBL_MIN, NULL, NULL, NULL) >= p, "inverse %g of %g", x, p);
    else if (x < 1) keep_worst(w, round_trip(lower, p, px, x), a, b, p);
    if (y > DBL_MIN && y < 1) keep_worst(w, round_trip(upper, p, qy, y), a, b, p);
}

static void inverses(double broken, worst *gamma, worst *beta)
{
    memset(gamma, 0, sizeof *gamma);
    memset(beta, 0, sizeof *beta);
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t k = 0; k < COUNT(probabilities); k++) {
            gamma_inverse(shapes[i], probabilities[k], broken, gamma);
            for (size_t j = 0; j < COUNT(shapes); j++)
                beta_inverse(shapes[i], shapes[j], probabilities[k], broken, beta);
        }
}

static void test_inverses(void)
{
    worst gamma, beta;
    inverses(0, &gamma, &beta);
    report("gamma inverses", &gamma);
    report("beta inverses", &beta);
    inverses(1e-10, &gamma, &beta);
    CHECK(gamma.error > 1 && beta.error > 1, "an inverse off by 1e-10 was accepted");
}

/* ---- edges ---------------------------------------------------------------------------------------- */
static void test_edges(void)
{
    double da = 0, db = 0, dx = 0;
    CHECK(gpumc_log_gamma_p(2, 0, &da, &dx) == -INFINITY, "x = 0");
    CHECK(gpumc_log_gamma_q(2, 0, &da, &dx) == 0, "x = 0");
    CHECK(gpumc_log_gamma_p(2, INFINITY, &da, &dx) == 0, "x infinite");
    CHECK(gpumc_log_gamma_q(2, INFINITY, &da, &dx) == -INFINITY, "x infinite");
    CHECK(gpumc_log_gamma_p(2, -1, &da, &dx) == -INFINITY && gpumc_gamma_q(2, -1, &da, &dx) == 1, "x < 0");
    CHECK(gpumc_log_beta_p(2, 3, 0, &da, &db, &dx) == -INFINITY, "x = 0");
    CHECK(gpumc_log_beta_q(2, 3, 0, &da, &db, &dx) == 0, "x = 0");
    CHECK(gpumc_log_beta_p(2, 3, 1, &da, &db, &dx) == 0, "x = 1");
    CHECK(gpumc_log_beta_q(2, 3, 1, &da, &db, &dx) == -INFINITY, "x = 1");
    CHECK(gpumc_beta_p(2, 3, -1, &da, &db, &dx) == 0 && gpumc_beta_p(2, 3, 2, &da, &db, &dx) == 1, "outside");
    CHECK(da == 0 && db == 0 && dx == 0, "derivatives at the edges: %g %g %g", da, db, dx);
    CHECK(gpumc_gamma_p_inverse(2, 0) == 0 && gpumc_gamma_p_inverse(2, 1) == INFINITY, "p = 0, 1");
    CHECK(gpumc_gamma_q_inverse(2, 1) == 0 && gpumc_gamma_q_inverse(2, 0) == INFINITY, "q = 0, 1");
    CHECK(gpumc_beta_p_inverse(2, 3, 0) == 0 && gpumc_beta_p_inverse(2, 3, 1) == 1, "p = 0, 1");
    CHECK(gpumc_beta_q_inverse(2, 3, 0) == 1 && gpumc_beta_q_inverse(2, 3, 1) == 0, "q = 0, 1");
}

static void test_invalid(void)
{
    const double wrong[] = { 0, -1, NAN };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK(isnan(gpumc_gamma_p(wrong[i], 1, NULL, NULL)), "gamma, a = %g", wrong[i]);
        CHECK(isnan(gpumc_beta_p(wrong[i], 1, 0.5, NULL, NULL, NULL)), "beta, a = %g", wrong[i]);
        CHECK(isnan(gpumc_beta_q(1, wrong[i], 0, NULL, NULL, NULL)), "beta, b = %g", wrong[i]);
        CHECK(isnan(gpumc_gamma_p_inverse(wrong[i], 0.5)), "gamma inverse, a = %g", wrong[i]);
        CHECK(isnan(gpumc_beta_p_inverse(1, wrong[i], 0.5)), "beta inverse, b = %g", wrong[i]);
    }
    CHECK(isnan(gpumc_log_gamma_q(1, NAN, NULL, NULL)), "x = NaN");
    CHECK(isnan(gpumc_log_beta_q(1, 1, NAN, NULL, NULL, NULL)), "x = NaN");
    CHECK(isnan(gpumc_gamma_p_inverse(2, -0.1)) && isnan(gpumc_gamma_p_inverse(2, 1.1)), "p outside 0..1");
    CHECK(isnan(gpumc_beta_p_inverse(1, 2, NAN)) && isnan(gpumc_beta_q_inverse(1, 2, 1.1)), "p outside 0..1");
}

/* What a family gives at an edge, value and one derivative. */
static void check_edge(const char *what, double value, double known, double slope, double known_slope)
{
    CHECK(value == known || same(value, known), "%s: %.17g, not %.17g", what, value, known);
    CHECK(slope == known_slope, "%s: derivative %g, not %g", what, slope, known_slope);
}

static void test_family_edges(void)
{
    double d[6] = { 0 };
    const double no_success = gpumc_binomial_lpmf(0, 5, 0, &d[0]);
    const double no_failure = gpumc_binomial_lpmf(5, 5, 1, &d[1]);
    const double lower = gpumc_binomial_lcdf(0, 5, 0, &d[2]), upper = gpumc_binomial_lccdf(4, 5, 1, &d[3]);
    const double none = gpumc_poisson_lpmf(0, 0, &d[4]), at_most_none = gpumc_poisson_lcdf(0, 0, &d[5]);
    check_edge("no success at p = 0", no_success, 0, d[0], -5);
    check_edge("no failure at p = 1", no_failure, 0, d[1], 5);
    check_edge("binomial lcdf at p = 0", lower, 0, d[2], -5);
    check_edge("binomial lccdf at p = 1", upper, 0, d[3], 5);
    check_edge("poisson mean 0", none, 0, d[4], -1);
    check_edge("poisson lcdf at mean 0", at_most_none, 0, d[5], -1);
    CHECK(gpumc_binomial_lpmf(1, 5, 0, NULL) == -INFINITY, "a success at p = 0");
    CHECK(gpumc_binomial_lpmf(0, 0, 0.3, NULL) == 0, "no trials");
    CHECK(gpumc_poisson_lpmf(2, 0, NULL) == -INFINITY, "two of mean 0");
    CHECK(gpumc_poisson_lccdf(0, 0, NULL) == -INFINITY, "more than none of mean 0");
    CHECK(gpumc_poisson_lpmf(0.5, 1, NULL) == -INFINITY, "half a count");
    CHECK(gpumc_poisson_lpmf(INFINITY, 1, NULL) == -INFINITY, "an infinite count");
    CHECK(gpumc_poisson_log_lpmf(1, -800, NULL) == -800, "the mean underflows");
    CHECK(gpumc_poisson_log_lpmf(3, 800, NULL) == -INFINITY, "the mean overflows");
    CHECK(same(gpumc_poisson_log_lccdf(1, -800, NULL), -1600 - log(2)), "lccdf where the mean underflows");
    CHECK(same(gpumc_neg_binomial_2_log_lpmf(0, 800, 2, NULL, NULL), -2 * (800 - log(2))), "mean overflows");
    CHECK(same(gpumc_gamma_lpdf(0, 1, 3, NULL, NULL, NULL), log(3)), "gamma at 0, shape 1");
    CHECK(gpumc_gamma_lpdf(0, 0.5, 3, NULL, NULL, NULL) == INFINITY, "gamma at 0, shape below 1");
    CHECK(gpumc_gamma_lpdf(0, 2, 3, NULL, NULL, NULL) == -INFINITY, "gamma at 0, shape above 1");
    CHECK(same(gpumc_beta_lpdf(0, 1, 3, NULL, NULL, NULL), log(3)), "beta at 0, a = 1");
    CHECK(gpumc_beta_lpdf(1, 2, 0.5, NULL, NULL, NULL) == INFINITY, "beta at 1, b below 1");
    CHECK(gpumc_beta_lpdf(1, 2, 3, NULL, NULL, NULL) == -INFINITY, "beta at 1, b above 1");
    CHECK(same(gpumc_student_t_lcdf(-1e160, 1, 0, 1, NULL, NULL, NULL, NULL), -log(GPUMC_PI) - 160 * log(10)),
          "a Cauchy tail where z^2 overflows");
}

static void test_quantile_edges(void)
{
    CHECK(gpumc_student_t_quantile(0.5, 3, 2, 1) == 2, "median of Student's t");
    CHECK(gpumc_student_t_quantile(0, 3, 2, 1) == -INFINITY, "p = 0");
    CHECK(gpumc_student_t_quantile(1, 3, 2, 1) == INFINITY, "p = 1");
    CHECK(gpumc_poisson_quantile(1, 3) == INFINITY && gpumc_binomial_quantile(1, 9, 0.5) == 9, "p = 1");
    for (double k = 0; k < 30; k++) {
        const double p = exp(gpumc_poisson_lcdf(k, 9, NULL));
        CHECK(gpumc_poisson_quantile(p, 9) == k, "quantile of P(Y <= %g)", k);
    }
}

/* ---- large and tiny parameters -------------------------------------------------------------------- */
static double call_large(const char *name, const double *x, double *d)
{
    const int cdf = strstr(name, "_lcdf") != NULL;
    if (!strncmp(name, "student_t", 9))
        return (cdf ? gpumc_student_t_lcdf : gpumc_student_t_lpdf)(x[0], x[1], 0, 1, &d[0], &d[1], NULL,
            NULL);
    if (!strcmp(name, "gamma")) return gpumc_gamma_lpdf(x[0], x[1], x[2], &d[0], &d[1], &d[2]);
    if (!strcmp(name, "beta")) return gpumc_beta_lpdf(x[0], x[1], x[2], &d[0], &d[1], &d[2]);
    if (!strcmp(name, "beta_proportion")) return gpumc_beta_proportion_lpdf(x[0], x[1], x[2], &d[0], &d[1],
        &d[2]);
    if (!strcmp(name, "binomial")) return gpumc_binomial_lpmf(x[0], x[1], x[2], &d[2]);
    if (!strcmp(name, "poisson")) return gpumc_poisson_lpmf(x[0], x[1], &d[1]);
    return (cdf ? gpumc_neg_binomial_2_lcdf : gpumc_neg_binomial_2_lpmf)(x[0], x[1], x[2], &d[1], &d[2]);
}

static void test_large(void)
{
    for (size_t i = 0; i < COUNT(known_large); i++) {
        const char *name = known_large[i].name;
        const double *x = known_large[i].x;
        double d[3] = { 0, 0, 0 };
        const double value = call_large(name, x, d), error = check_distance(value, known_large[i].value, 1);
        CHECK(error < 1e-12, "%s(%.17g, %g, %g) is %.17g, off by %g", name, x[0], x[1], x[2], value, error);
        for (int j = 0; j < 3; j++) {
            const double off = check_distance(d[j], known_large[i].slope[j], 1e-300);
            CHECK(off < 1e-8, "%s(%.17g, %g, %g): derivative %d is %.17g, off by %g", name, x[0], x[1],
                  x[2], j, d[j], off);
        }
    }
}

int main(void)
{
    test_table("gamma", gamma_table);
    test_table("beta", beta_table);
    test_linear();
    test_inverses();
    test_edges();
    test_invalid();
    test_family_edges();
    test_quantile_edges();
    test_large();
    return check_end();
}
