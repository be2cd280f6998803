/* Incomplete gamma and beta functions against known_special.h, their inverses and edges, and the families that are built
   on them at parameters where a plain formula loses all digits. Every tolerance has a broken twin that must fail it. */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "check.h"
#include "known_special.h"

#define COUNT(array) (sizeof array / sizeof *array)
#define VALUE_TOLERANCE 1e-12
#define SLOPE_TOLERANCE 1e-9

/* Error of a log tail in units of the tolerance: of the tail itself where it is small, of 1 less it where it is near 1, as
   far as the logarithm's own rounding (1e-15 relative) lets it be. */
static double value_error(double value, double known)
{
    const double size = fabs(known), unit = fmax(VALUE_TOLERANCE * fmin(1, size), 1e-15 * size);
    if (value == known) return 0;
    return isfinite(value) ? fabs(value - known) / unit : INFINITY;
}

static double slope_error(double slope, double known) { return check_distance(slope, known, 1e-300) / SLOPE_TOLERANCE; }

typedef struct worst { double error; double at[3]; } worst;

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
    CHECK(w->error <= 1, "%s: %g times the tolerance at %.17g, %.17g, %.17g", what, w->error, w->at[0], w->at[1], w->at[2]);
}

/* ---- values and derivatives; scale 1 is the library, others are broken twins ----------------------- */
static void gamma_table(double value_scale, double slope_scale, worst *value, worst *slope, worst *density)
{
    for (size_t i = 0; i < COUNT(known_gamma); i++) {
        const double *k = known_gamma[i], a = k[0], x = k[1];
        double pa = 0, px = 0, qa = 0, qx = 0;
        const double p = gpumc_log_gamma_p(a, x, &pa, &px), q = gpumc_log_gamma_q(a, x, &qa, &qx);
        const double log_density = gpumc_gamma_lpdf(x, a, 1, NULL, NULL, NULL);
        keep_worst(value, fmax(value_error(p * value_scale, k[2]), value_error(q * value_scale, k[3])), a, 0, x);
        keep_worst(slope, fmax(slope_error(pa * slope_scale, k[4]), slope_error(qa * slope_scale, k[5])), a, 0, x);
        keep_worst(density, fmax(slope_error(px, exp(log_density - k[2])), slope_error(-qx, exp(log_density - k[3]))), a, 0, x);
    }
}

static void beta_table(double value_scale, double slope_scale, worst *value, worst *slope, worst *density)
{
    for (size_t i = 0; i < COUNT(known_beta); i++) {
        const double *k = known_beta[i], a = k[0], b = k[1], x = k[2];
        double pa = 0, pb = 0, px = 0, qa = 0, qb = 0, qx = 0;
        const double p = gpumc_log_beta_p(a, b, x, &pa, &pb, &px), q = gpumc_log_beta_q(a, b, x, &qa, &qb, &qx);
        const double log_density = gpumc_beta_lpdf(x, a, b, NULL, NULL, NULL);
        keep_worst(value, fmax(value_error(p * value_scale, k[3]), value_error(q * value_scale, k[4])), a, b, x);
        keep_worst(slope, fmax(slope_error(pa * slope_scale, k[5]), slope_error(qa * slope_scale, k[6])), a, b, x);
        keep_worst(slope, fmax(slope_error(pb * slope_scale, k[7]), slope_error(qb * slope_scale, k[8])), a, b, x);
        keep_worst(density, fmax(slope_error(px, exp(log_density - k[3])), slope_error(-qx, exp(log_density - k[4]))), a, b, x);
    }
}

static void test_tables(void)
{
    worst value[2] = { { 0, { 0 } }, { 0, { 0 } } }, slope[2], density[2], broken_value[2], broken_slope[2], unused;
    memcpy(slope, value, sizeof value);
    memcpy(density, value, sizeof value);
    memcpy(broken_value, value, sizeof value);
    memcpy(broken_slope, value, sizeof value);
    unused = value[0];
    gamma_table(1, 1, &value[0], &slope[0], &density[0]);
    beta_table(1, 1, &value[1], &slope[1], &density[1]);
    report("gamma values", &value[0]);
    report("gamma derivatives by a", &slope[0]);
    report("gamma derivatives by x", &density[0]);
    report("beta values", &value[1]);
    report("beta derivatives by a and b", &slope[1]);
    report("beta derivatives by x", &density[1]);
    gamma_table(1 + 2e-12, 1 - 2e-9, &broken_value[0], &broken_slope[0], &unused);
    beta_table(1 + 2e-12, 1 - 2e-9, &broken_value[1], &broken_slope[1], &unused);
    for (int i = 0; i < 2; i++) {
        CHECK(broken_value[i].error > 1, "a value off by 2e-12 was accepted");
        CHECK(broken_slope[i].error > 1, "a derivative off by 2e-9 was accepted");
    }
}

/* The functions themselves are the exponentials of their logarithms, with derivatives to match. */
static void test_linear(void)
{
    double a = 0, b = 0, x = 0, log_a = 0, log_b = 0, log_x = 0;
    const double p = gpumc_gamma_p(2.5, 1.5, &a, &x), log_p = gpumc_log_gamma_p(2.5, 1.5, &log_a, &log_x);
    CHECK(check_distance(log(p), log_p, 0) < 1e-15 && check_distance(a, p * log_a, 0) < 1e-15
          && check_distance(x, p * log_x, 0) < 1e-15, "gamma_p");
    CHECK(check_distance(gpumc_gamma_q(2.5, 1.5, &a, &x), 1 - p, 0) < 1e-15 && fabs(a) < 1e-15 && fabs(x) < 1e-15,
          "gamma_q: derivatives are added, and cancel those of gamma_p");
    a = x = log_a = log_x = 0;
    const double r = gpumc_beta_p(2.5, 0.5, 0.25, &a, &b, &x), log_r = gpumc_log_beta_p(2.5, 0.5, 0.25, &log_a, &log_b, &log_x);
    CHECK(check_distance(log(r), log_r, 0) < 1e-15 && check_distance(a, r * log_a, 0) < 1e-15
          && check_distance(b, r * log_b, 0) < 1e-15 && check_distance(x, r * log_x, 0) < 1e-15, "beta_p");
    CHECK(check_distance(gpumc_beta_q(2.5, 0.5, 0.25, &a, &b, &x), 1 - r, 0) < 1e-15 && fabs(a) < 1e-15 && fabs(b) < 1e-15
          && fabs(x) < 1e-15, "beta_q");
}

/* ---- inverses ------------------------------------------------------------------------------------- */
static const double shapes[] = { 1e-3, 0.05, 0.5, 1, 1.5, 7, 300, 1e5, 1e9 };
static const double probabilities[] = { 1e-300, 1e-100, 1e-12, 1e-3, 0.1, 0.49, 0.5, 0.51, 0.9, 0.999 };

/* Back to log p, allowing for x to be rounded. */
static double round_trip(double log_tail, double p, double slope, double x)
{
    return fabs(log_tail - log(p)) / (4 * VALUE_TOLERANCE + 4 * DBL_EPSILON * fabs(slope) * x);
}

static void test_inverses(double broken)
{
    worst w = { 0, { 0 } }, v = { 0, { 0 } };
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t j = 0; j < COUNT(probabilities); j++) {
            const double a = shapes[i], p = probabilities[j];
            const double x = gpumc_gamma_p_inverse(a, p) * (1 + broken), y = gpumc_gamma_q_inverse(a, p) * (1 + broken);
            double slope = 0, other = 0;
            if (x < DBL_MIN) CHECK(gpumc_gamma_p(a, DBL_MIN, NULL, NULL) >= p, "inverse %g of %g at %g", x, p, a);
            else keep_worst(&w, round_trip(gpumc_log_gamma_p(a, x, NULL, &slope), p, slope, x), a, 0, p);
            if (y > DBL_MIN) keep_worst(&w, round_trip(gpumc_log_gamma_q(a, y, NULL, &other), p, other, y), a, 0, p);
        }
    for (size_t i = 0; i < COUNT(shapes) * COUNT(shapes); i++)
        for (size_t j = 0; j < COUNT(probabilities); j++) {
            const double a = shapes[i % COUNT(shapes)], b = shapes[i / COUNT(shapes)], p = probabilities[j];
            const double x = gpumc_beta_p_inverse(a, b, p) * (1 + broken), y = gpumc_beta_q_inverse(a, b, p) * (1 + broken);
            double slope = 0, other = 0;
            if (x < DBL_MIN) CHECK(gpumc_beta_p(a, b, DBL_MIN, NULL, NULL, NULL) >= p, "inverse %g of %g at %g, %g", x, p, a, b);
            else if (x < 1) keep_worst(&v, round_trip(gpumc_log_beta_p(a, b, x, NULL, NULL, &slope), p, slope, x), a, b, p);
            if (y > DBL_MIN && y < 1)
                keep_worst(&v, round_trip(gpumc_log_beta_q(a, b, y, NULL, NULL, &other), p, other, y), a, b, p);
        }
    if (broken > 0) {
        CHECK(w.error > 1 && v.error > 1, "an inverse off by %g was accepted", broken);
        return;
    }
    report("gamma inverses", &w);
    report("beta inverses", &v);
}

/* ---- edges ---------------------------------------------------------------------------------------- */
static void test_edges(void)
{
    double da = 0, db = 0, dx = 0;
    CHECK(gpumc_log_gamma_p(2, 0, &da, &dx) == -INFINITY && gpumc_log_gamma_q(2, 0, &da, &dx) == 0, "x = 0");
    CHECK(gpumc_log_gamma_p(2, INFINITY, &da, &dx) == 0 && gpumc_log_gamma_q(2, INFINITY, &da, &dx) == -INFINITY, "x = inf");
    CHECK(gpumc_log_gamma_p(2, -1, &da, &dx) == -INFINITY && gpumc_gamma_q(2, -1, &da, &dx) == 1, "x < 0");
    CHECK(gpumc_log_beta_p(2, 3, 0, &da, &db, &dx) == -INFINITY && gpumc_log_beta_q(2, 3, 0, &da, &db, &dx) == 0, "x = 0");
    CHECK(gpumc_log_beta_p(2, 3, 1, &da, &db, &dx) == 0 && gpumc_log_beta_q(2, 3, 1, &da, &db, &dx) == -INFINITY, "x = 1");
    CHECK(gpumc_beta_p(2, 3, -1, &da, &db, &dx) == 0 && gpumc_beta_p(2, 3, 2, &da, &db, &dx) == 1, "outside");
    CHECK(da == 0 && db == 0 && dx == 0, "derivatives at the edges: %g %g %g", da, db, dx);
    CHECK(isnan(gpumc_gamma_p(0, 1, NULL, NULL)) && isnan(gpumc_gamma_p(-1, 1, NULL, NULL)) && isnan(gpumc_gamma_p(NAN, 1, NULL, NULL))
          && isnan(gpumc_log_gamma_q(1, NAN, NULL, NULL)), "invalid gamma arguments");
    CHECK(isnan(gpumc_beta_p(0, 1, 0.5, NULL, NULL, NULL)) && isnan(gpumc_beta_p(1, -1, 0.5, NULL, NULL, NULL))
          && isnan(gpumc_beta_q(1, 1, NAN, NULL, NULL, NULL)) && isnan(gpumc_beta_q(NAN, 1, 0, NULL, NULL, NULL)), "invalid beta arguments");
    CHECK(gpumc_gamma_p_inverse(2, 0) == 0 && gpumc_gamma_p_inverse(2, 1) == INFINITY && gpumc_gamma_q_inverse(2, 1) == 0, "p = 0, 1");
    CHECK(gpumc_beta_p_inverse(2, 3, 0) == 0 && gpumc_beta_p_inverse(2, 3, 1) == 1 && gpumc_beta_q_inverse(2, 3, 0) == 1, "p = 0, 1");
    CHECK(isnan(gpumc_gamma_p_inverse(2, -0.1)) && isnan(gpumc_gamma_p_inverse(2, 1.1)) && isnan(gpumc_gamma_p_inverse(-1, 0.5))
          && isnan(gpumc_beta_p_inverse(1, 2, NAN)) && isnan(gpumc_beta_p_inverse(1, 0, 0.5)), "invalid inverses");
}

static void test_family_edges(void)
{
    double d = 0;
    CHECK(gpumc_binomial_lpmf(0, 5, 0, &d) == 0 && d == -5, "no success at p = 0: %g", d);
    CHECK(gpumc_binomial_lpmf(1, 5, 0, NULL) == -INFINITY, "a success at p = 0");
    d = 0;
    CHECK(gpumc_binomial_lpmf(5, 5, 1, &d) == 0 && d == 5, "no failure at p = 1: %g", d);
    CHECK(gpumc_binomial_lpmf(0, 0, 0.3, NULL) == 0, "no trials");
    d = 0;
    CHECK(gpumc_binomial_lcdf(0, 5, 0, &d) == 0 && d == -5, "cdf at p = 0: %g", d);
    d = 0;
    CHECK(gpumc_binomial_lccdf(4, 5, 1, &d) == 0 && d == 5, "ccdf at p = 1: %g", d);
    d = 0;
    CHECK(gpumc_poisson_lpmf(0, 0, &d) == 0 && d == -1, "mean 0: %g", d);
    CHECK(gpumc_poisson_lpmf(2, 0, NULL) == -INFINITY, "mean 0");
    d = 0;
    CHECK(gpumc_poisson_lcdf(0, 0, &d) == 0 && d == -1 && gpumc_poisson_lccdf(0, 0, NULL) == -INFINITY, "cdf at mean 0: %g", d);
    CHECK(gpumc_poisson_lpmf(0.5, 1, NULL) == -INFINITY && gpumc_poisson_lpmf(-1, 1, NULL) == -INFINITY
          && gpumc_poisson_lpmf(INFINITY, 1, NULL) == -INFINITY, "no count");
    CHECK(gpumc_poisson_log_lpmf(1, -800, NULL) == -800 && gpumc_poisson_log_lpmf(3, 800, NULL) == -INFINITY, "mean under- and overflows");
    CHECK(check_distance(gpumc_poisson_log_lccdf(1, -800, NULL), -1600 - log(2), 0) < 1e-15, "ccdf where the mean underflows");
    CHECK(check_distance(gpumc_neg_binomial_2_log_lpmf(0, 800, 2, NULL, NULL), -2 * (800 - log(2)), 0) < 1e-15, "mean overflows");
    CHECK(check_distance(gpumc_gamma_lpdf(0, 1, 3, NULL, NULL, NULL), log(3), 0) < 1e-15 && gpumc_gamma_lpdf(0, 0.5, 3, NULL, NULL, NULL) == INFINITY
          && gpumc_gamma_lpdf(0, 2, 3, NULL, NULL, NULL) == -INFINITY, "gamma at 0");
    CHECK(check_distance(gpumc_beta_lpdf(0, 1, 3, NULL, NULL, NULL), log(3), 0) < 1e-15 && gpumc_beta_lpdf(1, 2, 0.5, NULL, NULL, NULL) == INFINITY
          && gpumc_beta_lpdf(1, 2, 3, NULL, NULL, NULL) == -INFINITY, "beta at its ends");
    CHECK(check_distance(gpumc_student_t_lcdf(-1e160, 1, 0, 1, NULL, NULL, NULL, NULL), -log(GPUMC_PI) - 160 * log(10), 0) < 1e-15,
          "Cauchy tail where z^2 overflows");
    CHECK(gpumc_student_t_quantile(0.5, 3, 2, 1) == 2 && gpumc_student_t_quantile(0, 3, 2, 1) == -INFINITY
          && gpumc_student_t_quantile(1, 3, 2, 1) == INFINITY, "quantiles of Student's t");
    CHECK(gpumc_poisson_quantile(1, 3) == INFINITY && gpumc_binomial_quantile(1, 9, 0.5) == 9, "p = 1");
    for (double k = 0; k < 30; k++)
        CHECK(gpumc_poisson_quantile(exp(gpumc_poisson_lcdf(k, 9, NULL)), 9) == k, "quantile of P(Y <= %g)", k);
}

/* ---- large and tiny parameters -------------------------------------------------------------------- */
static double call_large(const char *name, const double *x, double *d)
{
    const int cdf = strstr(name, "_lcdf") != NULL;
    if (!strncmp(name, "student_t", 9))
        return (cdf ? gpumc_student_t_lcdf : gpumc_student_t_lpdf)(x[0], x[1], 0, 1, &d[0], &d[1], NULL, NULL);
    if (!strcmp(name, "gamma")) return gpumc_gamma_lpdf(x[0], x[1], x[2], &d[0], &d[1], &d[2]);
    if (!strcmp(name, "beta")) return gpumc_beta_lpdf(x[0], x[1], x[2], &d[0], &d[1], &d[2]);
    if (!strcmp(name, "beta_proportion")) return gpumc_beta_proportion_lpdf(x[0], x[1], x[2], &d[0], &d[1], &d[2]);
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
            CHECK(off < 1e-8, "%s(%.17g, %g, %g): derivative %d is %.17g, off by %g", name, x[0], x[1], x[2], j, d[j], off);
        }
    }
}

int main(void)
{
    test_tables();
    test_linear();
    test_inverses(0);
    test_inverses(1e-10);
    test_edges();
    test_family_edges();
    test_large();
    return check_end();
}
