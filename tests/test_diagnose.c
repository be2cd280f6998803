/* R-hat, effective sample sizes, Monte Carlo errors, intervals, PSIS, leave-one-out cross-validation, warnings
   and the printed summary. Numbers with ten digits come from the R packages posterior 1.4.0 and loo 2.5.1 (ESS of
   the sd, nested R-hat and HDI: from an implementation of their newer definitions). On random series the library
   is compared with a second implementation, slow and straight from the definitions; the library must be found to
   differ from each broken variant of it. */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "check.h"
#include <locale.h>

/* ---- series ------------------------------------------------------------------------------------ */

enum { MAX_DRAWS = 40000 };

static uint32_t lcg;

static double uniform(void)
{
    lcg = 1664525u * lcg + 1013904223u;
    return lcg / 4294967296.0;
}

static double irwin_hall(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum - 6;
}

/* m chains of n draws of an autoregression; chain c is shifted by c * offset. */
static gpumc_series autoregression(double *x, size_t m, size_t n, double phi, double offset, uint32_t seed)
{
    gpumc_series s = { x, m, n, 0, 0 };
    if (seed) lcg = seed;
    for (size_t c = 0; c < m; c++) {
        double y = 0;
        for (size_t t = 0; t < n; t++) {
            y = phi * y + irwin_hall();
            x[c * n + t] = y + offset * (double)c;
        }
    }
    return s;
}

#define SAME_DIGITS(value, expected, digits) do { \
    const double near_value = (value), near_expected = (expected); \
    CHECK(check_distance(near_value, near_expected, 1e-300) <= (digits), #value " is %.12g, expected %.12g", \
          near_value, near_expected); \
} while (0)
#define SAME(value, expected) SAME_DIGITS(value, expected, 1e-9)

static double x1[MAX_DRAWS], x2[MAX_DRAWS];

static void check_e1(void)
{
    const gpumc_series s = autoregression(x1, 4, 100, 0.6, 0, 42);
    const double ebfmi[] = { 1.163014706, 0.8101390953, 0.6587736096, 1.021410829 };
    const gpumc_series one = { x1, 1, 100, 0, 0 }, few = { x1, 4, 12, 100, 1 };
    double low, high;
    SAME(x1[0], -0.6713014911);
    SAME(x1[2], 0.7130284761);
    SAME(x1[399], -0.1716320283);
    SAME(gpumc_mean(s).value, 0.201320634);
    SAME(gpumc_sd(s).value, 1.168301372);
    SAME(gpumc_r_hat_basic(s).value, 1.027291499);
    SAME(gpumc_r_hat(s).value, 1.026699667);
    SAME(gpumc_ess_mean(s).value, 143.4189861);
    SAME(gpumc_ess_bulk(s).value, 146.9779603);
    SAME(gpumc_ess_tail(s).value, 181.5083998);
    SAME(gpumc_ess_quantile(s, 0.05).value, 181.5083998);
    SAME(gpumc_ess_quantile(s, 0.5).value, 174.4030952);
    SAME(gpumc_ess_quantile(s, 0.95).value, 311.964251);
    SAME(gpumc_ess_sd(s).value, 230.7818701);
    SAME(gpumc_mcse_mean(s).value, 0.09755545587);
    SAME(gpumc_mcse_sd(s).value, 0.05146440614);
    SAME(gpumc_mcse_quantile(s, 0.05).value, 0.1425718157);
    SAME(gpumc_mcse_quantile(s, 0.5).value, 0.1370801338);
    SAME(gpumc_mcse_quantile(s, 0.95).value, 0.1095837912);
    SAME(gpumc_quantile(s, 0.05).value, -1.926276976);
    SAME(gpumc_quantile(s, 0.5).value, 0.2389138745);
    SAME(gpumc_quantile(s, 0.95).value, 2.076096949);
    for (size_t c = 0; c < 4; c++) SAME(gpumc_ebfmi(x1 + 100 * c, 100, 1).value, ebfmi[c]);
    SAME(gpumc_hdi(s, 0.9, &low, &high).value, 2.24500497 + 1.572210992);
    SAME(low, -1.572210992);
    SAME(high, 2.24500497);
    gpumc_hdi(s, 0.5, &low, &high);
    SAME(low, -0.3731334963);
    SAME(high, 1.171961624);
    SAME(gpumc_r_hat_nested(s, 2).value, 1.003521255);
    SAME(gpumc_r_hat_nested(s, 4).value, 1.007497189);
    SAME(gpumc_r_hat(one).value, 1.033089596);
    SAME(gpumc_ess_bulk(one).value, 39.80272068);
    CHECK(gpumc_r_hat(one).flags == GPUMC_FLAG_ONE_CHAIN, "flags %d", gpumc_r_hat(one).flags);
    CHECK(gpumc_r_hat(s).flags == 0, "flags %d", gpumc_r_hat(s).flags);
    SAME_DIGITS(gpumc_r_hat(few).value, 1.117431, 5e-7);
    SAME_DIGITS(gpumc_ess_bulk(few).value, 28.03147, 5e-7);
    SAME_DIGITS(gpumc_ess_tail(few).value, 32.9112, 5e-6);
}

static void check_e2(void)
{
    const gpumc_series s = autoregression(x2, 3, 51, 0.3, 0.5, 7);
    SAME(x2[0], 0.5677403151);
    SAME(x2[152], 1.505765523);
    SAME(gpumc_mean(s).value, 0.2861534487);
    SAME(gpumc_sd(s).value, 1.054293642);
    SAME(gpumc_r_hat_basic(s).value, 1.04151134);
    SAME(gpumc_r_hat(s).value, 1.039860127);
    SAME(gpumc_ess_mean(s).value, 80.14763936);
    SAME(gpumc_ess_bulk(s).value, 83.9645375);
    SAME(gpumc_ess_tail(s).value, 112.4792801);
    SAME(gpumc_ess_quantile(s, 0.05).value, 128.5367416);
    SAME(gpumc_ess_quantile(s, 0.5).value, 117.8640552);
    SAME(gpumc_ess_quantile(s, 0.95).value, 112.4792801);
    SAME(gpumc_ess_sd(s).value, 105.6069199);
    SAME(gpumc_mcse_mean(s).value, 0.1177649955);
    SAME(gpumc_mcse_sd(s).value, 0.07120048934);
    SAME(gpumc_mcse_quantile(s, 0.05).value, 0.1839781612);
    SAME(gpumc_mcse_quantile(s, 0.5).value, 0.1475927943);
    SAME(gpumc_mcse_quantile(s, 0.95).value, 0.2053278756);
    SAME(gpumc_quantile(s, 0.05).value, -1.268713599);
    SAME(gpumc_quantile(s, 0.5).value, 0.07280805495);
    SAME(gpumc_quantile(s, 0.95).value, 2.094915423);
}

/* Series with ties, too short for an ESS. */
static void check_e3(void)
{
    const double x[] = { 1, 2, 2, 3, 5, 4, 4, 6, 2, 1, 3, 3, 4, 6, 5, 5 };
    const double z[] = { -1.48154449, -0.76184278, -0.76184278, -0.23348526, 0.76184278, 0.23348526,
                         0.23348526, 1.48154449, -0.76184278, -1.48154449, -0.23348526, -0.23348526,
                         0.23348526, 1.48154449, 0.76184278, 0.76184278 };
    const gpumc_series s = { x, 2, 8, 0, 0 };
    gpumc__sheet sheet;
    SAME(gpumc_r_hat_basic(s).value, 1.990107112);
    SAME(gpumc_r_hat(s).value, 1.782895645);
    CHECK(isnan(gpumc_ess_bulk(s).value) && gpumc_ess_bulk(s).flags == GPUMC_FLAG_FEW_DRAWS, "not refused");
    if (!gpumc__open_series(&sheet, s, NULL)) return;
    SAME(gpumc__r_hat_of(&sheet, GPUMC__DISTANCES), 0.8818935039);
    gpumc__score_values(&sheet);
    for (size_t i = 0; i < 16; i++) SAME_DIGITS(sheet.y[i], z[i], 1e-8);
    gpumc__close_sheet(&sheet);
}

/* Antithetic draws, whose ESS is capped. */
static void check_e4(void)
{
    const gpumc_series s = autoregression(x2, 2, 40, 0, 0, 11);
    for (size_t i = 0; i < 80; i++) x2[i] = 0.1 * x2[i] + (i % 40 % 2 ? 1 : -1);
    SAME(gpumc_ess_mean(s).value, 152.247199);
    SAME(gpumc_ess_bulk(s).value, 152.247199);
    CHECK(gpumc_ess_mean(s).flags == GPUMC_FLAG_CAPPED, "flags %d", gpumc_ess_mean(s).flags);
    SAME(gpumc_ess_tail(s).value, 79.52372362);
    SAME(gpumc_ess_quantile(s, 0.5).value, 152.247199);
    SAME(gpumc_r_hat_basic(s).value, 0.9752700189);
    SAME(gpumc_r_hat(s).value, 0.9936445521);
}

/* Normal scores, autocovariances and folding, through private functions. */
static void check_inside(void)
{
    const double gamma1[] = { 0.5771918651, 0.2010370391, 0.03035942453, -0.08900130057 };
    const double gamma2[] = { 0.6791367996, 0.094619535, -0.09421360662, -0.1341653607 };
    const double z1[] = { -0.7424101847, -0.02818568586, 0.3952043705 };
    const double z2[] = { 0.2962293862, 0.476183817, -0.9007514886 };
    for (int e = 0; e < 2; e++) {
        const gpumc_series s = e ? autoregression(x1, 3, 51, 0.3, 0.5, 7)
                                 : autoregression(x1, 4, 100, 0.6, 0, 42);
        const size_t half = s.n_draws / 2;
        gpumc__sheet sheet;
        if (!gpumc__open_series(&sheet, s, NULL)) return;
        gpumc__score_values(&sheet);
        for (size_t i = 0; i < 3; i++) SAME(sheet.y[i], (e ? z2 : z1)[i]);
        SAME(gpumc__r_hat_of(&sheet, GPUMC__DISTANCES), e ? 0.9981461347 : 1.021118542);
        memset(sheet.y, 0, sheet.total * sizeof(double));                /* all halves constant but one */
        for (size_t i = 0; i < half; i++) sheet.y[i] = x1[i];
        gpumc__demean(&sheet);
        for (size_t t = 0; t < 4; t++)
            SAME(gpumc__lag(&sheet, t) * (double)sheet.n_halves, (e ? gamma2 : gamma1)[t]);
        gpumc__close_sheet(&sheet);
    }
}

static void check_spectrum(void)
{
    const size_t lengths[] = { 12, 13, 64, 100, 255, 256, 257, 1000, 2049 };
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        const gpumc_series s = autoregression(x1, 3, lengths[k], 0.95, 0, 5);
        gpumc__sheet direct, spectral;
        double worst = 0;
        if (!gpumc__open_series(&direct, s, NULL) || !gpumc__open_series(&spectral, s, NULL)) return;
        memcpy(direct.y, direct.x, direct.total * sizeof(double));
        memcpy(spectral.y, direct.x, direct.total * sizeof(double));
        gpumc__demean(&direct);
        gpumc__demean(&spectral);
        while (direct.n_lags < direct.half) gpumc__next_lag(&direct);
        gpumc__lags_by_spectrum(&spectral);
        for (size_t t = 0; t < direct.half; t++)
            worst = check_worst(worst, fabs(direct.lags[t] - spectral.lags[t]) / direct.lags[0]);
        CHECK(worst < 1e-13, "%d draws: lags differ by %g of the variance", (int)lengths[k], worst);
        gpumc__close_sheet(&direct);
        gpumc__close_sheet(&spectral);
    }
}

/* ---- a second implementation ------------------------------------------------------------------- */

/* The broken variants. */
enum {
    RIGHT, NO_SPLIT, NO_FOLD, NO_RANK, UNBIASED_LAGS, NOT_MONOTONE, NO_BETWEEN, FOLD_AT_MEAN, TIES_IN_ORDER,
    N_BREAKS
};

static double mean_of(const double *x, size_t n)
{
    double mean = 0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    return mean;
}

static double variance_of(const double *x, size_t n)
{
    const double mean = mean_of(x, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum / (double)(n - 1);
}

/* Normal scores of mean ranks, found by counting, O(n^2). */
static void ranks_to_scores(const double *x, size_t n, double *z, int broken)
{
    for (size_t i = 0; i < n; i++) {
        double below = 0, equal = 0;
        for (size_t j = 0; j < n; j++) {
            below += x[j] < x[i] || (broken == TIES_IN_ORDER && x[j] == x[i] && j < i);
            equal += broken == TIES_IN_ORDER ? j == i : x[j] == x[i];
        }
        z[i] = gpumc_inv_Phi((below + (equal + 1) / 2 - 0.375) / ((double)n + 0.25));
    }
}

static double slow_r_hat(const double *x, size_t m, size_t n)
{
    double means[64], variances[64], w, b;
    for (size_t c = 0; c < m; c++) {
        means[c] = mean_of(x + c * n, n);
        variances[c] = variance_of(x + c * n, n);
    }
    w = mean_of(variances, m);
    b = (double)n * variance_of(means, m);
    return sqrt((b / w + (double)n - 1) / (double)n);
}

static double slow_rho(const double *x, size_t m, size_t n, size_t t, int broken)
{
    double means[64], at = 0, a0 = 0, v;
    for (size_t c = 0; c < m; c++) {
        double sum = 0;
        means[c] = mean_of(x + c * n, n);
        for (size_t i = 0; i + t < n; i++) sum += (x[c * n + i] - means[c]) * (x[c * n + i + t] - means[c]);
        at += sum / (double)(broken == UNBIASED_LAGS ? n - t : n) / (double)m;
        a0 += variance_of(x + c * n, n) * ((double)n - 1) / (double)n / (double)m;
    }
    v = a0 + (m > 1 && broken != NO_BETWEEN ? variance_of(means, m) : 0);
    return 1 - (a0 * (double)n / ((double)n - 1) - at) / v;
}

static double slow_ess(const double *x, size_t m, size_t n, int broken)
{
    static double r[MAX_DRAWS];
    const double bound = 1 / log10((double)(m * n));
    double even = 1, odd = slow_rho(x, m, n, 1, broken), tau = -1;
    size_t t = 0, last;
    memset(r, 0, (n + 2) * sizeof(double));
    r[0] = 1;
    r[1] = odd;
    while (t + 5 < n && even + odd > 0) {
        t += 2;
        even = slow_rho(x, m, n, t, broken);
        odd = slow_rho(x, m, n, t + 1, broken);
        if (even + odd >= 0) {
            r[t] = even;
            r[t + 1] = odd;
        }
    }
    last = t;
    if (even > 0) r[last] = even;
    for (t = 2; t + 2 <= last && broken != NOT_MONOTONE; t += 2)
        if (r[t] + r[t + 1] > r[t - 2] + r[t - 1]) r[t] = r[t + 1] = (r[t - 2] + r[t - 1]) / 2;
    for (t = 0; t < last; t++) tau += 2 * r[t];
    tau += r[last];
    return (double)(m * n) / (last == 0 || tau < bound ? bound : tau);
}

typedef struct slow { double r_hat, ess_bulk, ess_mean, ess_tail; } slow;

/* Writes the half chains of s one after the other, or whole chains in the variant without the split. */
static size_t split(gpumc_series s, double *y, size_t *m, int broken)
{
    const size_t n = broken == NO_SPLIT ? s.n_draws : s.n_draws / 2;
    size_t at = 0;
    *m = broken == NO_SPLIT ? s.n_chains : 2 * s.n_chains;
    for (size_t c = 0; c < s.n_chains; c++)
        for (size_t i = 0; i < s.n_draws; i++)
            if (broken == NO_SPLIT || i < n || i >= s.n_draws - n) y[at++] = s.x[c * s.n_draws + i];
    return n;
}

static slow slow_statistics(gpumc_series s, int broken)
{
    static double y[MAX_DRAWS], z[MAX_DRAWS], folded[MAX_DRAWS];
    size_t m;
    const size_t n = split(s, y, &m, broken), total = m * n;
    const double centre = broken == FOLD_AT_MEAN ? gpumc_mean(s).value : gpumc_quantile(s, 0.5).value;
    slow r;
    if (broken == NO_RANK) memcpy(z, y, total * sizeof(double));
    else ranks_to_scores(y, total, z, broken);
    r.r_hat = slow_r_hat(z, m, n);
    r.ess_bulk = slow_ess(z, m, n, broken);
    r.ess_mean = slow_ess(y, m, n, broken);
    for (size_t i = 0; i < total; i++) folded[i] = fabs(y[i] - centre);
    if (broken == NO_RANK) memcpy(z, folded, total * sizeof(double));
    else ranks_to_scores(folded, total, z, broken);
    if (broken != NO_FOLD) r.r_hat = fmax(r.r_hat, slow_r_hat(z, m, n));
    r.ess_tail = INFINITY;
    for (int tail = 0; tail < 2; tail++) {
        const double limit = gpumc_quantile(s, tail ? 0.95 : 0.05).value;
        for (size_t i = 0; i < total; i++) z[i] = y[i] <= limit;
        if (variance_of(z, total) > 0) r.ess_tail = fmin(r.ess_tail, slow_ess(z, m, n, broken));
    }
    return r;
}

/* Series that are normal, slowly mixing, antithetic, heavy-tailed or discrete, some with chains that differ in
   location or scale. Short series are not made discrete: there the sum of a pair of autocorrelations could be
   exactly zero, and rounding would decide where Geyer's sequence is truncated. */
static gpumc_series random_series(double *x, int trial)
{
    const double phis[] = { 0, 0.5, 0.9, -0.5, 0.98 };
    const size_t lengths[] = { 12, 13, 40, 101, 250 };
    const size_t m = 1 + (size_t)trial % 5, n = lengths[trial / 5 % 5];
    const gpumc_series s = autoregression(x, m, n, phis[trial % 7 % 5], trial % 3 == 1 ? 0.3 : 0,
                                          100u + (uint32_t)trial);
    for (size_t i = 0; i < m * n; i++) {
        if (trial % 4 == 1 && n >= 40) x[i] = floor(2 * x[i]);
        if (trial % 4 == 2) x[i] = exp(2 * x[i]);
        if (trial % 4 == 3 && i < n) x[i] *= 2;
    }
    return s;
}

static double slow_distance(gpumc_series s, slow r)
{
    double d = check_distance(gpumc_r_hat(s).value, r.r_hat, 1e-300);
    d = fmax(d, check_distance(gpumc_ess_bulk(s).value, r.ess_bulk, 1e-300));
    d = fmax(d, check_distance(gpumc_ess_mean(s).value, r.ess_mean, 1e-300));
    return fmax(d, check_distance(gpumc_ess_tail(s).value, r.ess_tail, 1e-300));
}

static void check_against_slow(void)
{
    const int n_breaks = getenv("QUICK") ? RIGHT + 1 : N_BREAKS;
    int told[N_BREAKS] = { 0 };
    double worst = 0;
    for (int trial = 0; trial < 140; trial++) {
        const gpumc_series s = random_series(x1, trial);
        for (int broken = RIGHT; broken < n_breaks; broken++) {
            const double d = slow_distance(s, slow_statistics(s, broken));
            told[broken] += d > 1e-4;
            if (broken == RIGHT) worst = check_worst(worst, d);
        }
    }
    CHECK(worst < 1e-9, "the two implementations differ by %g", worst);
    for (int broken = RIGHT + 1; broken < n_breaks; broken++)
        CHECK(told[broken] >= 10, "variant %d with a mistake was told apart in %d series only", broken,
              told[broken]);
}

/* Slowly mixing chains, whose many lags the library finds by FFT and the reference by the definition. */
static void check_long_chain(void)
{
    const gpumc_series s = autoregression(x1, 2, 3000, 0.995, 0, 9);
    size_t m;
    const size_t n = split(s, x2, &m, RIGHT);
    SAME_DIGITS(gpumc_ess_mean(s).value, slow_ess(x2, m, n, RIGHT), 1e-9);
}

/* ---- edge cases -------------------------------------------------------------------------------- */

static int is_nan_with(gpumc_stat s, int flag) { return isnan(s.value) && (s.flags & flag); }

static void check_not_numbers(void)
{
    const gpumc_series s = autoregression(x1, 4, 100, 0.6, 0, 42);
    gpumc_stat (*const all[])(gpumc_series) = {
        gpumc_r_hat, gpumc_ess_bulk,                                           /* defined by ranks alone */
        gpumc_mean, gpumc_sd, gpumc_r_hat_basic, gpumc_ess_tail, gpumc_ess_mean, gpumc_ess_sd,
        gpumc_mcse_mean, gpumc_mcse_sd };
    const size_t n = sizeof all / sizeof all[0];
    x1[77] = NAN;
    for (size_t k = 0; k < n; k++) CHECK(is_nan_with(all[k](s), GPUMC_FLAG_NAN), "statistic %d", (int)k);
    CHECK(is_nan_with(gpumc_quantile(s, 0.5), GPUMC_FLAG_NAN), "quantile");
    CHECK(is_nan_with(gpumc_mcse_quantile(s, 0.5), GPUMC_FLAG_NAN), "mcse of a quantile");
    x1[77] = INFINITY;
    x1[78] = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        const gpumc_stat r = all[k](s);
        CHECK((isnan(r.value) != 0) == (k > 1) && r.flags == GPUMC_FLAG_INFINITE,
              "statistic %d: %g, flags %d", (int)k, r.value, r.flags);
    }
    CHECK(is_nan_with(gpumc_quantile(s, 0.5), GPUMC_FLAG_INFINITE), "quantile");
    CHECK(is_nan_with(gpumc_hdi(s, 0.5, NULL, NULL), GPUMC_FLAG_INFINITE), "interval");
    CHECK(is_nan_with(gpumc_r_hat_nested(s, 2), GPUMC_FLAG_INFINITE), "nested");
}

static void check_constant(void)
{
    const gpumc_series s = autoregression(x1, 4, 100, 0.6, 0, 42);
    gpumc_stat r;
    for (size_t i = 0; i < 100; i++) x1[i] = 3;
    SAME(gpumc_r_hat(s).value, 1.561190867);
    SAME(gpumc_ess_bulk(s).value, 7.72445076);
    SAME(gpumc_ess_tail(s).value, gpumc_ess_quantile(s, 0.05).value);
    CHECK(isnan(gpumc_ess_quantile(s, 0.95).value), "the upper tail is constant");
    CHECK(gpumc_r_hat(s).flags == GPUMC_FLAG_CONSTANT_CHAIN, "flags %d", gpumc_r_hat(s).flags);
    for (size_t i = 0; i < 400; i++) x1[i] = 0.1;
    CHECK(is_nan_with(gpumc_r_hat(s), GPUMC_FLAG_CONSTANT), "R-hat %g", gpumc_r_hat(s).value);
    CHECK(is_nan_with(gpumc_ess_bulk(s), GPUMC_FLAG_CONSTANT), "ESS %g", gpumc_ess_bulk(s).value);
    CHECK(is_nan_with(gpumc_ess_tail(s), GPUMC_FLAG_CONSTANT), "ESS %g", gpumc_ess_tail(s).value);
    CHECK(is_nan_with(gpumc_ess_mean(s), GPUMC_FLAG_CONSTANT), "ESS %g", gpumc_ess_mean(s).value);
    CHECK(is_nan_with(gpumc_mcse_mean(s), GPUMC_FLAG_CONSTANT), "MCSE %g", gpumc_mcse_mean(s).value);
    CHECK(is_nan_with(gpumc_mcse_sd(s), GPUMC_FLAG_CONSTANT), "MCSE %g", gpumc_mcse_sd(s).value);
    r = gpumc_mean(s);
    CHECK(r.value == 0.1 && r.flags == GPUMC_FLAG_CONSTANT, "mean %g", r.value);
    CHECK(gpumc_sd(s).value == 0 && gpumc_quantile(s, 0.3).value == 0.1, "sd %g", gpumc_sd(s).value);
    for (size_t i = 0; i < 400; i++) x1[i] = (double)(i / 100);                 /* W = 0, B > 0 */
    CHECK(gpumc_r_hat(s).value == INFINITY, "R-hat %g", gpumc_r_hat(s).value);
    CHECK(gpumc_r_hat_basic(s).value == INFINITY, "R-hat %g", gpumc_r_hat_basic(s).value);
    for (size_t i = 0; i < 400; i++) x1[i] = (double)(i % 2);      /* all equally far from the median */
    CHECK(gpumc_r_hat(s).value < 1, "R-hat %g", gpumc_r_hat(s).value);
}

static void expect_few(gpumc_stat s, int few, size_t n)
{
    CHECK(few ? is_nan_with(s, GPUMC_FLAG_FEW_DRAWS) : s.value > 0, "%g of %d draws, flags %d", s.value,
          (int)n,
          s.flags);
}

static void check_few(void)
{
    const gpumc_series empty = { x1, 4, 0, 0, 0 }, none = { NULL, 4, 10, 0, 0 };
    const gpumc_series huge = { x1, SIZE_MAX / 4, 64, 1, 1 };
    double ess, log_ratios[20];
    autoregression(x1, 4, 100, 0.6, 0, 42);
    for (size_t n = 1; n <= 13; n++) {
        const gpumc_series s = { x1, 4, n, 0, 0 };
        expect_few(gpumc_r_hat(s), n < 4, n);
        expect_few(gpumc_ess_bulk(s), n < 12, n);
        expect_few(gpumc_mcse_mean(s), n < 12, n);
        expect_few(gpumc_ebfmi(x1, n, 1), n < 4, n);
        CHECK(isfinite(gpumc_quantile(s, 0.9).value), "quantile of %d draws", (int)n);
    }
    CHECK(is_nan_with(gpumc_mean(empty), GPUMC_FLAG_FEW_DRAWS), "no draws");
    CHECK(is_nan_with(gpumc_ebfmi(NULL, 10, 1), GPUMC_FLAG_FEW_DRAWS), "no energies");
    CHECK(is_nan_with(gpumc_mean(none), GPUMC_FLAG_FEW_DRAWS), "no values");
    CHECK(is_nan_with(gpumc_mean(huge), GPUMC_FLAG_MEMORY), "more than there is memory");
    for (size_t i = 0; i < 20; i++) log_ratios[i] = irwin_hall();
    CHECK(gpumc_psis(log_ratios, 20, 0, &ess).value == INFINITY && ess > 1 && ess < 20, "ess %g", ess);
    CHECK(is_nan_with(gpumc_psis(log_ratios, 0, 0, &ess), GPUMC_FLAG_FEW_DRAWS) && isnan(ess), "no ratios");
}

static void check_invalid(void)
{
    const gpumc_series s = autoregression(x1, 4, 100, 0.6, 0, 42);
    const double bad[] = { -0.1, 1.1, NAN };
    double low, high;
    for (size_t k = 0; k < 3; k++) {
        CHECK(isnan(gpumc_quantile(s, bad[k]).value), "p = %g", bad[k]);
        CHECK(isnan(gpumc_ess_quantile(s, bad[k]).value), "p = %g", bad[k]);
        CHECK(isnan(gpumc_mcse_quantile(s, bad[k]).value), "p = %g", bad[k]);
        CHECK(isnan(gpumc_hdi(s, bad[k], &low, &high).value) && isnan(low) && isnan(high), "mass %g", bad[k]);
    }
    CHECK(isnan(gpumc_hdi(s, 0.001, &low, &high).value) && isnan(low), "fewer than one draw apart");
    CHECK(isnan(gpumc_r_hat_nested(s, 3).value) && isnan(gpumc_r_hat_nested(s, 1).value), "groups");
    CHECK(isnan(gpumc_r_hat_nested(s, 0).value), "no groups");
    CHECK(isfinite(gpumc_ess_quantile(s, 1).value) && isfinite(gpumc_ess_quantile(s, 0).value),
          "extreme quantiles");
    SAME(gpumc_quantile(s, 0).value, gpumc_quantile(s, 1e-12).value);
}

/* A large offset changes no R-hat, ESS or standard deviation. Values are multiples of 1/8, so that adding it is
   exact. */
static void check_offset(void)
{
    gpumc_series s = autoregression(x1, 4, 100, 0.6, 0, 42), shifted = s;
    for (size_t i = 0; i < 400; i++) {
        x1[i] = floor(8 * x1[i]) / 8;
        x2[i] = x1[i] + 1e15;
    }
    shifted.x = x2;
    SAME_DIGITS(gpumc_sd(shifted).value, gpumc_sd(s).value, 1e-12);
    SAME_DIGITS(gpumc_r_hat_basic(shifted).value, gpumc_r_hat_basic(s).value, 1e-12);
    SAME_DIGITS(gpumc_r_hat(shifted).value, gpumc_r_hat(s).value, 1e-12);
    SAME_DIGITS(gpumc_ess_mean(shifted).value, gpumc_ess_mean(s).value, 1e-12);
    SAME_DIGITS(gpumc_ess_sd(shifted).value, gpumc_ess_sd(s).value, 1e-12);
    SAME_DIGITS(gpumc_mcse_sd(shifted).value, gpumc_mcse_sd(s).value, 1e-12);
    SAME_DIGITS(gpumc_r_hat_nested(shifted, 2).value, gpumc_r_hat_nested(s, 2).value, 1e-12);
    SAME_DIGITS(gpumc_ebfmi(x2, 100, 1).value, gpumc_ebfmi(x1, 100, 1).value, 1e-12);
    SAME(gpumc_mean(shifted).value - 1e15, floor(8 * gpumc_mean(s).value + 0.5) / 8);
}

/* Strides: a transposed matrix, and one column among several, give the same statistics. */
static void check_strides(void)
{
    const gpumc_series s = autoregression(x1, 4, 100, 0.6, 0, 42);
    const gpumc_series turned = { x2, 4, 100, 1, 4 }, column = { x2 + 1, 4, 100, 300, 3 };
    for (size_t i = 0; i < 400; i++) x2[i % 100 * 4 + i / 100] = x1[i];
    CHECK(gpumc_ess_bulk(turned).value == gpumc_ess_bulk(s).value, "transposed");
    memset(x2, 0, 1200 * sizeof(double));
    for (size_t i = 0; i < 400; i++) x2[3 * i + 1] = x1[i];
    CHECK(gpumc_r_hat(column).value == gpumc_r_hat(s).value, "one column of three");
    const gpumc_series apart = { x2, 4, 100, 150, 0 };
    for (size_t i = 0; i < 400; i++) x2[i / 100 * 150 + i % 100] = x1[i];
    CHECK(gpumc_r_hat(apart).value == gpumc_r_hat(s).value, "chains apart, draws side by side");
}

/* x1 is sorted correctly: ascending, complete and stable. */
static void check_sorted(const char *what)
{
    const gpumc_series s = { x1, 1, 3000, 0, 0 };
    gpumc__sheet sheet;
    int ascending = 1, complete = 1, stable = 1;
    double sum = 0;
    if (!gpumc__open_series(&sheet, s, NULL)) return;
    gpumc__sort(&sheet, x1);
    for (size_t i = 0; i < 3000; i++) {
        const gpumc__ranked *sorted = &sheet.sorted[i];
        if (i && !(sorted[-1].value <= sorted->value)) ascending = 0;
        if (sorted->value != x1[sorted->index]) complete = 0;
        if (i && memcmp(&sorted[-1].value, &sorted->value, sizeof(double)) == 0
            && sorted[-1].index > sorted->index) stable = 0;
        sum += (double)sorted->index;
    }
    CHECK(ascending && complete && sum == 3000.0 * 2999 / 2, "%s are not sorted", what);
    CHECK(stable, "%s: equal ones lost their order", what);
    gpumc__close_sheet(&sheet);
}

/* Radix passes over words made of places in the range sort bell-shaped values, and must report that they fail for
   long tails; passes over words made of the bits of the numbers sort both. */
static void check_words(void)
{
    const gpumc_series s = { x1, 1, 3000, 0, 0 };
    gpumc__sheet sheet;
    for (int tails = 0; tails < 2; tails++) {
        for (size_t i = 0; i < 3000; i++) x1[i] = tails ? exp(100 * irwin_hall()) : irwin_hall();
        if (!gpumc__open_series(&sheet, s, NULL)) return;
        gpumc__words_by_place(x1, 3000, 20, (uint64_t *)sheet.spare);
        CHECK(gpumc__sort_words(&sheet, x1, 12, 10, 2) == !tails, "by places, tails %d", tails);
        uint64_t *words = (uint64_t *)sheet.spare;
        CHECK(gpumc__words_by_bits(x1, 3000, words) >> 52 != 0, "same exponents");
        for (size_t i = 0; i < 3000; i++) words[i] = words[i] >> 12 << 12 | i;
        CHECK(gpumc__sort_words(&sheet, x1, 12, 10, 3), "by bits, tails %d", tails);
        gpumc__close_sheet(&sheet);
    }
    for (size_t n = 1; n < 12; n++)
        for (size_t at = 0; at < n; at++) {
            double least, most;
            memset(x1, 0, n * sizeof *x1);
            x1[at] = 1;
            gpumc__ends(x1, n, &least, &most);
            CHECK(least == (n == 1) && most == 1, "ends of %d, the largest at %d", (int)n, (int)at);
            x1[at] = -1;
            gpumc__ends(x1, n, &least, &most);
            CHECK(least == -1 && most == (n == 1 ? -1 : 0), "ends of %d, the least at %d", (int)n, (int)at);
        }
}

/* Zeros of either sign, at the median or anywhere, are equal: their signs change no statistic. */
static void check_signed_zeros(void)
{
    const double few[] = { 0, -0.0, -0.0, 0, 0, -0.0, 0, -0.0 }, five[] = { -0.0, -0.5, 0, 0, -0.0 };
    const gpumc_series eight = { few, 1, 8, 0, 0 }, odd = { five, 1, 5, 0, 0 };
    CHECK(isnan(gpumc_r_hat(eight).value), "zeros alone: %g", gpumc_r_hat(eight).value);
    CHECK(!isnan(gpumc_r_hat(odd).value), "five: %g", gpumc_r_hat(odd).value);
    for (int k = 0; k < 60; k++) {
        const size_t n = 10 + (size_t)k % 2, first = (size_t)k % 32;     /* zeros that are positive */
        const gpumc_series s = { x1, 4, n, 0, 0 }, plain = { x2, 4, n, 0, 0 };
        gpumc__sheet sheet, other;
        for (size_t i = 0, zeros = 0; i < 4 * n; i++) {
            const int is_zero = i % 10 % 3 != 2;
            x2[i] = is_zero ? 0 : (double)(i * 7 % 40 + 1) * (k % 3 ? 1 : i % 4 ? 1 : -1);
            x1[i] = is_zero && zeros++ >= first ? -0.0 : x2[i];
        }
        if (!gpumc__open_series(&sheet, s, NULL) || !gpumc__open_series(&other, plain, NULL)) return;
        for (size_t i = 0; i < 4 * n; i++) sheet.y[i] = other.y[i] = NAN;
        const double r = gpumc__r_hat_of(&sheet, GPUMC__DISTANCES), same = gpumc__r_hat_of(&other, GPUMC__DISTANCES);
        CHECK(r == same, "zeros %d: %g and %g", k, r, same);
        gpumc__close_sheet(&sheet);
        gpumc__close_sheet(&other);
    }
}

static void check_sort(void)
{
    for (size_t i = 0; i < 3000; i++)
        x1[i] = i % 10 == 3 ? -0.0 : i % 10 == 4 ? 0.0 : exp(600 * (uniform() - 0.5)) * (i % 2 ? 1 : -1);
    x1[7] = INFINITY;
    x1[8] = -INFINITY;
    x1[9] = 5e-324;
    check_sorted("values of all sizes");
    for (size_t i = 0; i < 3000; i++) x1[i] = 1 + floor(4096 * uniform()) * DBL_EPSILON;
    x1[1234] = -1;
    check_sorted("values that differ in their last bits but for one");
    for (size_t i = 0; i < 3000; i++) x1[i] = 3;
    check_sorted("equal values");
    for (size_t i = 0; i < 3000; i++) x1[i] = floor(100 * irwin_hall()) / 100;
    check_sorted("values with ties");
    for (size_t i = 0; i < 3000; i++) x1[i] = 1e-300 * irwin_hall();
    x1[77] = 1e300;
    check_sorted("values in one place but for one");
    for (size_t i = 0; i < 3000; i++) x1[i] = 1.7e308 * (2 * uniform() - 1);
    check_sorted("values that lie too far apart");
    for (size_t i = 0; i < 3000; i++) x1[i] = 5e-324 * floor(100 * uniform());
    check_sorted("values that lie too close");
}

/* ---- importance weights and leave-one-out ------------------------------------------------------ */

static void check_psis(void)
{
    static double l[200], raw[200];
    const size_t top[] = { 88, 59, 21 };
    const double smoothed[] = { -2.053380434, -2.620489833, -2.980592547 };
    double ess, most = -INFINITY, total = 0;
    gpumc_stat k;
    lcg = 2024;
    for (size_t i = 0; i < 200; i++) {
        l[i] = raw[i] = 1.5 * irwin_hall();
        most = fmax(most, raw[i]);
    }
    SAME_DIGITS(l[0], 1.6167252, 1e-7);
    SAME_DIGITS(l[2], -0.75288654, 1e-7);
    k = gpumc_psis(l, 200, 1, &ess);
    SAME(k.value, 0.6816026704);
    SAME(ess, 29.57606137);
    for (size_t i = 0; i < 3; i++) SAME(l[top[i]], smoothed[i]);
    for (size_t i = 0; i < 200; i++) total += exp(raw[i] - most);
    SAME(-log(total), -2.081416818);
    total = 0;
    for (size_t i = 0; i < 200; i++) total += exp(l[i]);
    SAME_DIGITS(total, 1, 1e-13);
    memcpy(l, raw, sizeof l);
    CHECK(gpumc_psis(l, 200, 0, &ess).value == k.value, "r_eff 0 is not 1");
    memcpy(l, raw, sizeof l);
    CHECK(gpumc_psis(l, 200, 50, &ess).value != k.value && ess > 50, "r_eff is not used");
    l[3] = NAN;
    CHECK(is_nan_with(gpumc_psis(l, 200, 1, &ess), GPUMC_FLAG_NAN), "NaN");
    l[3] = INFINITY;
    CHECK(is_nan_with(gpumc_psis(l, 200, 1, &ess), GPUMC_FLAG_INFINITE), "infinite weight");
    memcpy(l, raw, sizeof l);
    l[3] = -INFINITY;
    CHECK(gpumc_psis(l, 200, 1, &ess).value < 1 && l[3] == -INFINITY, "weight zero");
    for (size_t i = 0; i < 200; i++) l[i] = 7;
    k = gpumc_psis(l, 200, 1, &ess);
    CHECK(k.value == 0 && (k.flags & GPUMC_FLAG_CONSTANT) && fabs(ess - 200) < 1e-9,
          "equal weights: %g", ess);
    for (size_t i = 0; i < 200; i++) l[i] = i % 2 ? 7 : 7 - fabs(raw[i]);
    k = gpumc_psis(l, 200, 1, &ess);
    CHECK(k.value == 0 && (k.flags & GPUMC_FLAG_CONSTANT) && ess > 100,
          "weights up to a bound: k %g, ess %g", k.value, ess);
}

/* The number of weights that PSIS smooths; it should be min(S / 5, 3 sqrt(S / r_eff)). Found as the number of log
   weights whose distance from the smallest changed, plus the largest, which may happen to keep its distance. */
static size_t smoothed_of(size_t n, double r_eff)
{
    static double l[2000], raw[2000];
    double ess;
    size_t smallest = 0, largest = 0, changed = 0;
    lcg = 2025;
    for (size_t i = 0; i < n; i++) {
        l[i] = raw[i] = 1.5 * irwin_hall();
        if (raw[i] < raw[smallest]) smallest = i;
        if (raw[i] > raw[largest]) largest = i;
    }
    gpumc_psis(l, n, r_eff, &ess);
    for (size_t i = 0; i < n; i++)
        changed += i == largest || fabs((l[i] - raw[i]) - (l[smallest] - raw[smallest])) > 1e-12;
    return changed;
}

static void check_tail_sizes(void)
{
    static const struct { size_t n, smoothed; double r_eff; } cases[] = {
        { 200, 40, 1 }, { 2000, 135, 1 }, { 2000, 135, 0 }, { 2000, 269, 0.25 }, { 2000, 68, 4 },
        { 2000, 400, 0.05 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        CHECK(smoothed_of(cases[k].n, cases[k].r_eff) == cases[k].smoothed, "%d of %d are smoothed with r_eff %g",
              (int)smoothed_of(cases[k].n, cases[k].r_eff), (int)cases[k].n, cases[k].r_eff);
}

static void check_pareto(void)
{
    static double l[200], y[40], work[40];
    double sigma, k, cutoff = 0, most = -INFINITY;
    size_t n = 0;
    lcg = 2024;
    for (size_t i = 0; i < 200; i++) l[i] = 1.5 * irwin_hall();
    for (size_t i = 0; i < 200; i++) most = fmax(most, l[i]);
    for (size_t i = 0; i < 200; i++) l[i] = exp(l[i] - most);
    for (size_t rank = 40; rank-- > 0;)            /* the 40 largest, and the next as cutoff */
        for (size_t i = 0; i < 200; i++) {
            size_t above = 0;
            for (size_t j = 0; j < 200; j++) above += l[j] > l[i];
            if (above == rank) y[n++] = l[i];
            if (above == 40 && rank == 39) cutoff = l[i];
        }
    for (size_t i = 0; i < 40; i++) y[i] -= cutoff;
    k = gpumc__fit_pareto(y, 40, work, &sigma);
    SAME(sigma, 0.04241121098);
    SAME((k * 50 - 5) / 40, 0.727003338);
    static const double five[] = { 0.1, 0.25, 0.5, 1.1, 3 };                /* their first quartile is the smallest */
    k = gpumc__fit_pareto(five, 5, work, &sigma);
    SAME(sigma, 0.5177981759);
    SAME(k, 0.5605916989);
    for (size_t i = 0; i < 40; i++) y[i] = 2;
    CHECK(gpumc__fit_pareto(y, 40, work, &sigma) == INFINITY, "equal values were fitted");
}

/* ---- fits made by hand ------------------------------------------------------------------------- */

enum { FIT_CHAINS = 4, FIT_DRAWS = 400, FIT_CAPACITY = 410, FIT_COLUMNS = 40 };

typedef struct hand {
    gpumc_fit fit;
    gpumc_block blocks[6];
    double draws[FIT_CHAINS * FIT_CAPACITY * FIT_COLUMNS];
    gpumc_draw_stats stats[FIT_CHAINS * FIT_CAPACITY];
} hand;

static void add_block(gpumc_fit *f, const char *name, const size_t *dims, size_t n_dims, int is_output,
                      gpumc_group group)
{
    gpumc_block *b = &f->blocks[f->n_blocks++];
    memset(b, 0, sizeof *b);
    b->name = name;
    b->dims = dims;
    b->n_dims = n_dims;
    b->offset = f->n_columns;
    b->size = 1;
    for (size_t k = 0; k < n_dims; k++) b->size *= dims[k];
    b->is_output = is_output;
    b->group = group;
    f->n_columns += b->size;
    if (!is_output) f->n_params_columns += b->size;
}

static double *draw_of(hand *h, size_t c, size_t i)
{
    return h->draws + (c * FIT_CAPACITY + i) * h->fit.n_columns;
}

static gpumc_draw_stats *stats_of(hand *h, size_t c, size_t i) { return h->stats + c * FIT_CAPACITY + i; }

/* mu, tau, theta[5] with independent draws, a 2 x 2 factor and its constants, z[14] generated, log_lik[3]. */
static void make_fit(hand *h)
{
    static const size_t five = 5, two[] = { 2, 2 }, fourteen = 14, three = 3;
    gpumc_fit *f = &h->fit;
    memset(h, 0, sizeof *h);
    f->blocks = h->blocks;
    f->draws = h->draws;
    f->stats = h->stats;
    f->model_name = "by_hand";
    f->n_chains = FIT_CHAINS;
    f->n_draws = FIT_DRAWS;
    f->draw_capacity = FIT_CAPACITY;
    f->n_warmup = 200;
    f->n_free = 8;
    f->step_size = 0.4321;
    f->metric.kind = GPUMC_METRIC_LOW_RANK;
    f->warmup_seconds = 0.25;
    f->sampling_seconds = 1;
    f->options.target_accept = 0.8;
    f->options.max_treedepth = 10;
    add_block(f, "mu", NULL, 0, 0, GPUMC_GENERATED);
    add_block(f, "tau", NULL, 0, 0, GPUMC_GENERATED);
    add_block(f, "theta", &five, 1, 0, GPUMC_GENERATED);
    add_block(f, "L", two, 2, 0, GPUMC_GENERATED);
    add_block(f, "z", &fourteen, 1, 1, GPUMC_GENERATED);
    add_block(f, "log_lik", &three, 1, 1, GPUMC_LOG_LIKELIHOOD);
    lcg = 12345;
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++) {
            double *x = draw_of(h, c, i);
            gpumc_draw_stats *s = stats_of(h, c, i);
            for (size_t k = 0; k < f->n_columns; k++) x[k] = irwin_hall();
            x[0] = 1234.5 + 20 * x[0];
            x[1] = exp(x[1]);
            x[7] = 1;
            x[8] = 0;
            s->energy = irwin_hall();
            s->accept_stat = 0.8;
            s->selected = 1;
        }
}

static void free_warnings(gpumc_fit *f)
{
    gpumc__release(&f->allocator, f->warnings);
    f->warnings = NULL;
    f->n_warnings = 0;
}

static hand h;

/* Compares the warnings of the fit, written as "code:note " one after the other, with the expected text. */
static void expect_warnings(const char *expected, const char *what)
{
    char seen[400] = "";
    gpumc__collect_warnings(&h.fit, 0);
    CHECK(h.fit.status == GPUMC_OK, "%s: status %d", what, h.fit.status);
    for (size_t i = 0; i < h.fit.n_warnings; i++) {
        const gpumc_warning *w = &h.fit.warnings[i];
        const size_t length = strlen(seen);
        snprintf(seen + length, sizeof seen - length, "%s%s%s", i ? " " : "",
                 gpumc__warning_names[w->code], w->note ? "(note)" : "");
        CHECK(strlen(w->text) < sizeof w->text - 1, "%s: text is cut off: %s", what, w->text);
    }
    CHECK(!strcmp(seen, expected), "%s: seen \"%s\", expected \"%s\"", what, seen, expected);
}

/* The text of the first warning must contain a phrase. */
static void expect_text(const char *phrase)
{
    const char *text = h.fit.n_warnings ? h.fit.warnings[0].text : "";
    CHECK(strstr(text, phrase), "\"%s\" is not in \"%s\"", phrase, text);
    free_warnings(&h.fit);
}

/* A fit by HMC on the spring. Its squared residuals are powers of exponential numbers of mean 1, each kept for
   `stay` draws; in two chains they are 50, far too large, for 4 lump draws on end. */
static void slow_residuals(size_t stay, double power, size_t lump)
{
    double residual = 0;
    make_fit(&h);
    h.fit.sampler = GPUMC_SAMPLER_HMC;
    h.fit.metric.spring = 1;
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++) {
            if (i % stay == 0) residual = pow(-log(uniform()), power);
            stats_of(&h, c, i)->fisher_residual = residual;
            stats_of(&h, c, i)->accept_stat = 0.93;
        }
    for (size_t i = 0; i < 4 * lump; i++)
        stats_of(&h, 1, 100 + i)->fisher_residual = stats_of(&h, 2, 200 + i)->fisher_residual = 50;
}

/* Chain 2 does not move for n draws from draw `from` on. */
static void hold(size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        stats_of(&h, 1, i)->selected = i == from;
        stats_of(&h, 1, i)->lp = stats_of(&h, 1, from)->lp;
    }
}

static void check_sampler_warnings(void)
{
    make_fit(&h);
    expect_warnings("", "a healthy fit");
    for (size_t i = 0; i < 30; i++) {
        stats_of(&h, 1, 10 * i)->divergent = 1;
        draw_of(&h, 1, 10 * i)[1] = 0.01 * (double)i;
    }
    expect_warnings("DIVERGENT", "divergences at small tau");
    expect_text("30 of 1600 draws (1.9 %) diverged, unlike the others in tau: ");
    make_fit(&h);
    stats_of(&h, 3, 5)->divergent = 1;
    expect_warnings("DIVERGENT", "one divergence");
    expect_text("1 of 1600 draws (0.063 %) diverged: estimates may be biased");
    stats_of(&h, 3, 5)->max_energy_error = INFINITY;
    expect_warnings("DIVERGENT", "where there is no density");
    expect_text("1 of 1600 draws (0.063 %) diverged: the density is 0 or not a number there");
    stats_of(&h, 3, 5)->max_energy_error = NAN;
    expect_warnings("DIVERGENT", "where the gradient is not finite");
    expect_text("1 of 1600 draws (0.063 %) diverged: a derivative is not a number there, or too large, though");
    make_fit(&h);
    h.fit.n_divergent = 7;
    h.fit.options.thin = 10;
    expect_warnings("DIVERGENT", "divergences among draws that were not kept");
    expect_text("7 of 16000 draws (0.044 %) diverged: ");
    h.fit.n_divergent = 70000;
    expect_warnings("DIVERGENT", "divergences of a chain that went further before a stop");
    expect_text("16000 of 16000 draws (100 %) diverged: ");
    h.fit.options.thin = 1;
    stats_of(&h, 3, 5)->divergent = 1;
    expect_warnings("DIVERGENT", "the same where all draws are kept");
    expect_text("1 of 1600 draws (0.063 %) diverged: ");
    make_fit(&h);
    for (size_t i = 0; i < 20; i++) stats_of(&h, 0, i)->hit_max_treedepth = 1;
    expect_warnings("TREEDEPTH(note)", "few long trajectories");
    expect_text("20 of 1600 draws (1.3 %) reached max_treedepth 10");
    for (size_t i = 0; i < 100; i++) stats_of(&h, 0, i)->hit_max_treedepth = 1;
    expect_warnings("TREEDEPTH", "many long trajectories");
    expect_text("100 of 1600 draws (6.3 %)");
    make_fit(&h);
    for (size_t i = 1; i < FIT_DRAWS; i++)
        stats_of(&h, 2, i)->energy += 0.95 * stats_of(&h, 2, i - 1)->energy;
    expect_warnings("EBFMI", "slow energy");
    expect_text("in 1 of 4 chains (0.");
    make_fit(&h);
    for (size_t i = 0; i < FIT_DRAWS; i++) stats_of(&h, 3, i)->selected = i % 3 == 0;
    expect_warnings("STUCK", "a chain that does not move");
    expect_text("(67 % in chain 4)");
    make_fit(&h);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++) stats_of(&h, c, i)->lp = (double)i;
    hold(100, 20);
    expect_warnings("", "19 transitions at one point");
    hold(100, 21);
    expect_warnings("HELD", "20 transitions at one point");
    expect_text("chain 2 stayed at one point for 20 transitions in a row");
    h.fit.options.thin = 3;
    expect_warnings("HELD", "as many kept draws");
    expect_text("chain 2 stayed at one point for 60 transitions");
    h.fit.options.thin = 0;
    make_fit(&h);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++) stats_of(&h, c, i)->lp = (double)i;
    h.fit.sampler = GPUMC_SAMPLER_MAMS;
    hold(100, 12);
    expect_warnings("", "11 transitions of a path at one point");
    hold(100, 13);
    expect_warnings("HELD", "12 transitions of a path at one point");
    expect_text("chain 2 stayed at one point for 12 transitions");
    make_fit(&h);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++) {
            stats_of(&h, c, i)->selected = i % 45 == 0 || i % 45 > 20;
            stats_of(&h, c, i)->lp = (double)(i % 45 < 21 ? i - i % 45 : i);
        }
    expect_warnings("", "20 at one point, where half of all draws are");
    make_fit(&h);
    for (size_t i = 100; i < 140; i++) stats_of(&h, 1, i)->selected = 1;
    expect_warnings("", "a flat density: equal values, other points");
    make_fit(&h);
    for (size_t i = 0; i < FIT_CHAINS * FIT_CAPACITY; i++) h.stats[i].accept_stat = 0.65;
    expect_warnings("ACCEPT", "low acceptance");
    expect_text("mean acceptance is 0.65, where 0.80 was wanted: the step size came out too long");
    for (size_t i = 0; i < FIT_CHAINS * FIT_CAPACITY; i++) h.stats[i].accept_stat = 0.95;
    expect_warnings("ACCEPT(note)", "high acceptance");
    expect_text("too short");
    h.fit.n_warmup = 0;
    expect_warnings("", "acceptance was not adapted");
    slow_residuals(1, 0.5, 0);
    expect_warnings("", "residuals of independent draws");
    slow_residuals(1, 0.5, 1);
    expect_warnings("HELD", "a lump that was entered twice");
    expect_text("8 draws, in 2 visits, lie where the density is far from the normal that HMC moves by");
    slow_residuals(4, 1.5, 0);
    expect_warnings("", "chains as slow where the normal nearly fits");
    slow_residuals(4, 1.5, 5);
    expect_warnings("HELD", "a lump in which they stay for longer");
    expect_text("far from the normal that HMC moves by");
    slow_residuals(1, 0.5, 1);
    h.fit.metric.spring = 0;
    expect_warnings("", "no spring");
    make_fit(&h);
    for (size_t i = 0; i < FIT_CHAINS * FIT_CAPACITY; i++) h.stats[i].fisher_residual = 20 * 8;
    expect_warnings("METRIC", "a metric that does not fit");
    expect_text("is 20 a dimension");
}

static void check_column_warnings(void)
{
    make_fit(&h);
    for (size_t i = 0; i < FIT_DRAWS; i++) draw_of(&h, 1, i)[3] += 0.8;
    expect_warnings("RHAT ESS", "one chain elsewhere");
    expect_text("R-hat is above 1.01 for 1 of 23 quantities (theta[2] 1.0");
    make_fit(&h);
    for (size_t i = 0; i < FIT_DRAWS; i++) draw_of(&h, 2, i)[3] *= 2;
    expect_warnings("RHAT ESS", "one chain wider: folded");
    expect_text("theta[2]");
    make_fit(&h);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 1; i < FIT_DRAWS; i++)
            draw_of(&h, c, i)[0] += 0.65 * (draw_of(&h, c, i - 1)[0] - 1234.5);
    expect_warnings("ESS", "a slow quantity");
    expect_text("(mu ");
    make_fit(&h);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++) draw_of(&h, c, i)[4] = 3;
    expect_warnings("CONSTANT", "a parameter that never changes");
    expect_text("1 of 23 quantities never change (theta[3])");
    make_fit(&h);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++)
            for (size_t k = 12; k < 17; k++) draw_of(&h, c, i)[k] = 1;
    expect_warnings("CONSTANT(note)", "generated quantities that never change");
    expect_text("5 of 23 quantities never change (z[2], z[3], z[4], ...)");
    make_fit(&h);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++) draw_of(&h, c, i)[7] = 2;
    expect_warnings("CONSTANT", "a diagonal element that is not 1");
    expect_text("L[1,1]");
    h.fit.n_chains = h.fit.n_draws = 1;
    expect_warnings("FEW_CHAINS(note) FEW_DRAWS(note)", "one draw does not change");
    free_warnings(&h.fit);
    make_fit(&h);
    draw_of(&h, 0, 17)[2] = NAN;
    draw_of(&h, 0, 18)[15] = INFINITY;
    expect_warnings("NOT_FINITE", "not a number");
    expect_text("2 of 23 quantities have draws that are NaN or infinite");
    make_fit(&h);
    draw_of(&h, 0, 17)[25] = NAN;
    expect_warnings("", "log likelihoods are not reviewed");
    h.fit.n_chains = 1;
    expect_warnings("FEW_CHAINS(note)", "one chain");
    expect_text("1 chain: only its halves");
    h.fit.n_chains = 3;
    expect_warnings("FEW_CHAINS(note)", "three chains");
    expect_text("3 chains: R-hat");
    make_fit(&h);
    h.fit.n_draws = 3;
    expect_warnings("FEW_DRAWS(note)", "three draws");
    expect_text("3 draws a chain");
    for (size_t n = 99; n <= 100; n++) {
        h.fit.n_draws = n;
        expect_warnings(n < 100 ? "RHAT ESS FEW_DRAWS(note)" : "RHAT ESS", "about a hundred draws");
        free_warnings(&h.fit);
    }
    h.fit.n_draws = 0;
    expect_warnings("", "no draws");
    make_fit(&h);
    h.fit.stats = NULL;
    expect_warnings("", "no statistics");
    h.fit.draws = NULL;
    expect_warnings("", "draws were discarded");
}

/* Values just below and just above the thresholds of warnings. */
static void check_limits(void)
{
    for (int more = 0; more < 2; more++) {
        make_fit(&h);
        for (size_t i = 1; i < FIT_DRAWS; i++)                         /* E-BFMI 0.3 */
            stats_of(&h, 2, i)->energy += (more ? 0.87 : 0.79) * stats_of(&h, 2, i - 1)->energy;
        expect_warnings(more ? "EBFMI" : "", "slow energy");
        free_warnings(&h.fit);
        make_fit(&h);
        for (size_t i = 0; i < FIT_DRAWS; i++) stats_of(&h, 3, i)->selected = i % 2 == 0 || (!more && i == 201);
        for (size_t i = 0; i < FIT_DRAWS; i++) stats_of(&h, 3, i)->lp = (double)i;
        stats_of(&h, 3, 200)->selected = !more;
        expect_warnings(more ? "STUCK" : "", "half of all draws");
        free_warnings(&h.fit);
        make_fit(&h);
        for (size_t i = 0; i < 80 + (size_t)more; i++) stats_of(&h, 0, i)->hit_max_treedepth = 1;
        expect_warnings(more ? "TREEDEPTH" : "TREEDEPTH(note)", "one in twenty");
        free_warnings(&h.fit);
        make_fit(&h);
        for (size_t i = 0; i < FIT_CHAINS * FIT_CAPACITY; i++) h.stats[i].accept_stat = more ? 0.69 : 0.71;
        expect_warnings(more ? "ACCEPT" : "", "a tenth less than wanted");
        free_warnings(&h.fit);
        h.fit.sampler = GPUMC_SAMPLER_HMC;                             /* higher target acceptance */
        h.fit.metric.spring = 1;
        expect_warnings(more ? "ACCEPT" : "", "a tenth less than trees want, on the spring");
        free_warnings(&h.fit);
        make_fit(&h);
        for (size_t i = 0; i < FIT_CHAINS * FIT_CAPACITY; i++) h.stats[i].fisher_residual = (more ? 10.5 : 9.5) * 8;
        expect_warnings(more ? "METRIC" : "", "a residual of ten");
        free_warnings(&h.fit);
    }
    make_fit(&h);
    for (size_t i = 0; i < FIT_DRAWS; i++) draw_of(&h, 1, i)[3] += 0.45;
    expect_warnings("RHAT", "R-hat of 1.01");
    free_warnings(&h.fit);
}

/* More warnings than the first allocation holds. */
static void check_many_warnings(void)
{
    make_fit(&h);
    for (int i = 0; i < 70; i++)
        gpumc__warn(&h.fit, GPUMC_W_RESTARTED, i % 2, i, "number %d", i);
    CHECK(h.fit.status == GPUMC_OK, "status %d", h.fit.status);
    CHECK(h.fit.n_warnings == 70 && !strcmp(h.fit.warnings[69].text, "number 69")
          && h.fit.warnings[3].value == 3, "lost");
    free_warnings(&h.fit);
}

/* Numbers in warnings have a decimal point in every locale tried; commas between indices stay. */
static void check_points(void)
{
    const char *const locales[] = { "C", "de_DE.UTF-8", "fr_FR.UTF-8", "pt_BR.UTF-8" };
    make_fit(&h);
    for (int i = 0; i < 4; i++) {
        if (!setlocale(LC_NUMERIC, locales[i])) continue;
        gpumc__warn(&h.fit, GPUMC_W_METRIC, 0, 1, "L[1,2] %.2f, %.4g, %.0f", 0.5, -1.25e9, 3.0);
        setlocale(LC_NUMERIC, "C");
        expect_text("L[1,2] 0.50, -1.25e+09, 3");
    }
}

static double normal_lpdf(double y, double mean, double variance)
{
    return -0.5 * (y - mean) * (y - mean) / variance - 0.5 * log(2 * GPUMC_PI * variance);
}

/* Normal data y_i ~ N(theta, 1), theta ~ N(0, 2^2): the leave-one-out densities are known in closed form. */
/* One parameter and the log likelihoods of twelve observations. */
static void make_loo_fit(void)
{
    static const size_t twelve = 12;
    make_fit(&h);
    h.fit.n_blocks = h.fit.n_columns = h.fit.n_params_columns = 0;
    add_block(&h.fit, "theta", NULL, 0, 0, GPUMC_GENERATED);
    add_block(&h.fit, "log_lik", &twelve, 1, 1, GPUMC_LOG_LIKELIHOOD);
}

static void check_loo(void)
{
    const double scale = 2;
    const size_t total = FIT_CHAINS * FIT_DRAWS;
    double y[12], sum = 0, exact = 0, log_mean = 0, elpd[12], k[12], worst = 0, variance, mean;
    gpumc_loo loo;
    gpumc_error error;
    make_loo_fit();
    lcg = 77;
    for (size_t i = 0; i < 12; i++) sum += y[i] = 1 + irwin_hall();
    variance = 1 / (12 + 1 / (scale * scale));
    mean = sum * variance;
    for (size_t s = 0; s < total; s++) {                               /* quantiles at equal
                                        steps, scrambled */
        const double u = ((double)(s * 1009 % total) + 0.5) / (double)total;
        double *x = draw_of(&h, s / FIT_DRAWS, s % FIT_DRAWS);
        x[0] = mean + sqrt(variance) * gpumc_inv_Phi(u);
        for (size_t i = 0; i < 12; i++) x[1 + i] = normal_lpdf(y[i], x[0], 1);
    }
    CHECK(gpumc_loo_psis(&h.fit, &loo, elpd, k, &error) == GPUMC_OK, "%s", error.text);
    for (size_t i = 0; i < 12; i++) {
        const double v = 1 / (11 + 1 / (scale * scale)), m = (sum - y[i]) * v;
        const double left_out = normal_lpdf(y[i], m, 1 + v);
        exact += left_out;
        log_mean += normal_lpdf(y[i], mean, 1 + variance);
        worst = check_worst(worst, fabs(elpd[i] - left_out));
    }
    CHECK(worst < 2e-3, "an observation is off by %g", worst);
    CHECK(fabs(loo.elpd - exact) < 4e-3, "elpd %g, exact %g", loo.elpd, exact);
    CHECK(fabs(loo.p_loo - (log_mean - exact)) < 4e-3, "p_loo %g, exact %g", loo.p_loo, log_mean - exact);
    CHECK(loo.looic == -2 * loo.elpd && loo.n_observations == 12 && loo.n_bad_k == 0, "bookkeeping");
    SAME(loo.se, sqrt(12 * variance_of(elpd, 12)));
    double by_hand[12], other[12], difference = 0, se = 0, apart = 0;
    for (size_t i = 0; i < 12; i++) {
        other[i] = elpd[i] - 0.3 * sin((double)i);
        by_hand[i] = elpd[i] - other[i];
        apart += by_hand[i];
    }
    CHECK(gpumc_loo_compare(elpd, other, 12, &difference, &se, &error) == GPUMC_OK, "%s", error.text);
    CHECK(fabs(difference - apart) < 1e-12 && fabs(se - sqrt(12 * variance_of(by_hand, 12))) < 1e-12,
          "two models differ by %g, se %g", difference, se);
    CHECK(gpumc_loo_compare(elpd, other, 1, &difference, &se, &error) == GPUMC_ERROR_ARGUMENT, "one alone");
    other[3] = NAN;
    CHECK(gpumc_loo_compare(elpd, other, 12, &difference, &se, &error) == GPUMC_ERROR_ARGUMENT
          && strstr(error.text, "elpd_b[3] = "), "NaN: %s", error.text);
    SAME(loo.worst_k, gpumc__largest(k, 12));
    SAME(loo.k_threshold, 1 - 1 / log10(1600) < 0.7 ? 1 - 1 / log10(1600) : 0.7);
    draw_of(&h, 2, 2)[4] = -INFINITY;
    CHECK(gpumc_loo_psis(&h.fit, &loo, NULL, NULL, &error) == GPUMC_ERROR_NUMERIC
          && strstr(error.text, "log_lik[4]"), "%s", error.text);
    CHECK(loo.n_observations == 0, "result of a failure");
    h.fit.blocks[1].group = GPUMC_GENERATED;
    CHECK(gpumc_loo_psis(&h.fit, &loo, NULL, NULL, &error) == GPUMC_ERROR_ARGUMENT, "no log likelihoods");
    h.fit.draws = NULL;
    CHECK(gpumc_loo_psis(&h.fit, &loo, NULL, NULL, NULL) == GPUMC_ERROR_ARGUMENT, "no draws");
    CHECK(gpumc_loo_psis(NULL, &loo, NULL, NULL, &error) == GPUMC_ERROR_ARGUMENT, "no fit");
    CHECK(gpumc_loo_psis(&h.fit, NULL, NULL, NULL, &error) == GPUMC_ERROR_ARGUMENT, "no result");
}

/* Summaries and leave-one-out by teams of any size equal, bit for bit, those of single columns or one thread. */
static void check_teams(void)
{
    enum { C = 3, N = 251, ROOM = 300, COLUMNS = 419, LEFT = 400 };
    static double draws[C * ROOM * COLUMNS], elpd[3][LEFT], k[3][LEFT];
    static gpumc_summary summaries[COLUMNS];
    static size_t size = COLUMNS - LEFT, left = LEFT;
    gpumc_block blocks[2] = { { "x", &size, 1, 0, COLUMNS - LEFT, 0, GPUMC_GENERATED },
                              { "log_lik", &left, 1, COLUMNS - LEFT, LEFT, 1, GPUMC_LOG_LIKELIHOOD } };
    gpumc_fit fit, alone;
    gpumc_loo loo[3];
    gpumc_error error;
    memset(&fit, 0, sizeof fit);
    fit.blocks = blocks;
    fit.n_blocks = 2;
    fit.n_columns = COLUMNS;
    fit.n_chains = C;
    fit.n_draws = N;
    fit.draw_capacity = ROOM;
    fit.draws = draws;
    for (size_t i = 0; i < C * ROOM * COLUMNS; i++) draws[i] = -uniform() * (double)(1 + i % COLUMNS % 7);
    for (int t = 0; t < 3; t++) {
        fit.options.threads = t + 1;
        CHECK(gpumc_loo_psis(&fit, &loo[t], elpd[t], k[t], &error) == GPUMC_OK, "%s", error.text);
        CHECK(memcmp(&loo[t], &loo[0], sizeof loo[t]) == 0 && memcmp(elpd[t], elpd[0], sizeof elpd[t]) == 0
              && memcmp(k[t], k[0], sizeof k[t]) == 0, "leaving out by %d threads differs", t + 1);
        alone = fit;
        fit.summaries = summaries;
        for (size_t i = 0; i < COLUMNS; i++) summaries[i].flags = -1;
        gpumc_team *team = gpumc_team_start(t + 1, NULL);
        if (!team) return;
        CHECK(gpumc__each_column(&fit, team, GPUMC_GENERATED, gpumc__summarise_column, &fit), "no memory");
        gpumc_team_stop(team);
        for (size_t i = 0; i < COLUMNS; i++) {
            const gpumc_summary r = gpumc_summarise(&alone, i);
            CHECK(i < COLUMNS - LEFT ? memcmp(&r.mean, &summaries[i].mean, 9 * sizeof r.mean) == 0
                  : summaries[i].flags == -1, "column %d by %d threads", (int)i, t + 1);
        }
        fit.summaries = NULL;
    }
    CHECK(C * N * LEFT > GPUMC__WORTH_A_TEAM, "too little for a team");
    draws[(ROOM + 7) * COLUMNS + 200] = draws[COLUMNS + 300] = -INFINITY;
    elpd[0][181] = k[0][181] = -77;
    CHECK(gpumc_loo_psis(&fit, &loo[0], elpd[0], k[0], &error) == GPUMC_ERROR_NUMERIC
          && strstr(error.text, "log_lik[182]"), "%s", error.text);
    CHECK(elpd[0][181] == -77 && k[0][181] == -77, "results of what cannot be left out");
}

/* Autocorrelated draws: k is that of PSIS with the relative efficiency of the likelihood. One observation, far from
   what most draws predict, is counted as having a bad k, and its k is worst_k. */
static void check_loo_efficiency(void)
{
    double k[12], likelihood[FIT_CHAINS * FIT_DRAWS], ratios[FIT_CHAINS * FIT_DRAWS], ess;
    const gpumc_series s = { likelihood, FIT_CHAINS, FIT_DRAWS, 0, 0 };
    gpumc_loo loo;
    gpumc_error error;
    make_loo_fit();
    autoregression(x1, FIT_CHAINS, FIT_DRAWS, 0.7, 0, 78);
    for (size_t c = 0; c < FIT_CHAINS; c++)
        for (size_t i = 0; i < FIT_DRAWS; i++)
            for (size_t j = 0; j < 12; j++)
                draw_of(&h, c, i)[1 + j] = normal_lpdf(j == 7 ? 9 : 0.1 * (double)j, 0.25 * x1[c * FIT_DRAWS + i], 1);
    CHECK(gpumc_loo_psis(&h.fit, &loo, NULL, k, &error) == GPUMC_OK, "%s", error.text);
    for (size_t j = 0; j < 12; j++) {
        for (size_t i = 0; i < FIT_CHAINS * FIT_DRAWS; i++) {
            const double l = draw_of(&h, i / FIT_DRAWS, i % FIT_DRAWS)[1 + j];
            likelihood[i] = exp(l);
            ratios[i] = -l;
        }
        const double r_eff = gpumc_ess_mean(s).value / (FIT_CHAINS * FIT_DRAWS);
        SAME(k[j], gpumc_psis(ratios, FIT_CHAINS * FIT_DRAWS, r_eff, &ess).value);
        CHECK(j == 7 ? k[j] > loo.k_threshold : k[j] < 0.5, "observation %d: k %g, r_eff %g", (int)j, k[j], r_eff);
    }
    CHECK(loo.n_bad_k == 1 && loo.worst_k >= k[7] && loo.worst_k <= k[7], "%d bad, the worst %g", (int)loo.n_bad_k,
          loo.worst_k);
}

/* A summary equals the single statistics. */
static void check_summary(void)
{
    gpumc_summary r;
    gpumc_series s;
    make_fit(&h);
    for (size_t column = 0; column < 3; column++) {
        s = gpumc_fit_series(&h.fit, column);
        r = gpumc_summarise(&h.fit, column);
        CHECK(s.x == h.draws + column && s.chain_stride == FIT_CAPACITY * h.fit.n_columns, "series");
        CHECK(r.mean == gpumc_mean(s).value && r.sd == gpumc_sd(s).value
              && r.mcse == gpumc_mcse_mean(s).value, "moments");
        CHECK(r.q5 == gpumc_quantile(s, 0.05).value && r.q95 == gpumc_quantile(s, 0.95).value, "quantiles");
        CHECK(r.q50 == gpumc_quantile(s, 0.5).value && r.r_hat == gpumc_r_hat(s).value, "median, R-hat");
        CHECK(r.ess_bulk == gpumc_ess_bulk(s).value && r.ess_tail == gpumc_ess_tail(s).value, "ESS");
    }
    r = gpumc_summarise(&h.fit, h.fit.n_columns);
    CHECK(isnan(r.mean) && r.flags == GPUMC_FLAG_FEW_DRAWS, "a column that is not there");
    CHECK(isnan(gpumc_summarise(NULL, 0).mean), "no fit");
    draw_of(&h, 1, 1)[0] = INFINITY;
    r = gpumc_summarise(&h.fit, 0);
    CHECK(isnan(r.mean) && isnan(r.q5) && r.r_hat > 0.9 && r.ess_bulk > 0 && r.flags == GPUMC_FLAG_INFINITE,
          "infinite draw");
    draw_of(&h, 1, 2)[0] = NAN;
    r = gpumc_summarise(&h.fit, 0);
    CHECK(isnan(r.mean) && isnan(r.r_hat) && (r.flags & GPUMC_FLAG_NAN), "NaN");
}

static void check_numbers(void)
{
    const struct { double x; int decimals; const char *text; } fixed[] = {
        { 0, 2, "0.00" }, { -0.004, 2, "0.00" }, { -0.006, 2, "-0.01" }, { 0.999, 2, "1.00" },
        { 12.5, 0, "13" }, { 3.14159, 3, "3.142" }, { -1.05, 1, "-1.1" }, { 123456.7, 1, "123456.7" },
        { NAN, 2, "nan" }, { INFINITY, 2, "inf" }, { -INFINITY, 0, "-inf" }, { 1e7, 2, "1.000e+07" },
        { 1.2345e-9, 11, "1.23e-09" }, { -9.9996e12, -9, "-1.000e+13" }, { 1.5e300, -298, "1.50e+300" },
        { 0, 12, "0.000e+00" }, { 2.5e-310, 311, "2.5e-310" } };
    char text[GPUMC__CELL];
    for (size_t k = 0; k < sizeof fixed / sizeof fixed[0]; k++) {
        gpumc__decimal(fixed[k].x, fixed[k].decimals, text);
        CHECK(!strcmp(text, fixed[k].text), "%g is printed %s, not %s", fixed[k].x, text, fixed[k].text);
    }
    CHECK(!strcmp(gpumc__in_row(2459000.5123397, 7, text), "2.4590005123397e+06"), "%s", text);
    CHECK(!strcmp(gpumc__in_row(1.496000041e11, -2, text), "1.496000041e+11"), "%s", text);
    CHECK(!strcmp(gpumc__in_row(0, 12, text), "0.000e+00"), "%s", text);
    gpumc__significant(0.0996, 2, text);
    CHECK(!strcmp(text, "0.10"), "%s", text);
    gpumc__significant(0.43215, 3, text);
    CHECK(!strcmp(text, "0.432"), "%s", text);
    gpumc__significant(1234, 2, text);
    CHECK(!strcmp(text, "1234"), "%s", text);
}

static const char expected_page[] =
    "by_hand: 4 chains x 400 draws after 200 of warm-up, 1.25 s\n"
    "step size 0.432, low-rank metric, 0 divergences\n"
    "               mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat\n"
    "mu          1234.70       0.50      20.10    1201.92    1234.68    1268.04      1645      1502   1.000\n"
    "tau           1.525      0.043      1.698      0.188      0.989      4.648      1350      1600   1.002\n"
    "theta[1]      0.005      0.026      1.011     -1.659      0.004      1.654      1515      1579   1.001\n"
    "theta[2]       0.06       0.15       1.14      -1.64       0.00       1.97        98        27   1.033\n"
    "theta[3]     -0.037      0.029      0.987     -1.709     -0.040      1.496      1168      1511   1.001\n"
    "theta[4]      0.004      0.026      1.001     -1.645     -0.036      1.644      1499      1508   1.002\n"
    "theta[5]     -0.033      0.024      1.001     -1.695     -0.032      1.615      1694      1533   1.002\n"
    "L[2,1]       -0.028      0.025      0.990     -1.616     -0.057      1.648      1546      1612   0.999\n"
    "L[2,2]        0.023      0.025      1.024     -1.647      0.052      1.665      1684      1534   1.003\n"
    "... 2 constant\n"
    "z[1]         -0.011      0.025      1.007     -1.631     -0.043      1.729      1591      1460   0.999\n"
    "z[2]         -0.012      0.025      1.004     -1.659     -0.040      1.633      1604      1560   0.999\n"
    "z[3]          0.020      0.026      1.007     -1.602      0.034      1.652      1489      1515   1.001\n"
    "z[4]         -0.026      0.024      0.976     -1.624     -0.009      1.591      1608      1571   1.001\n"
    "z[5]          0.005      0.025      0.996     -1.677      0.008      1.662      1535      1639   1.000\n"
    "z[6]          0.017      0.025      1.021     -1.652      0.001      1.740      1687      1572   1.003\n"
    "z[7]          0.002      0.025      1.005     -1.651     -0.002      1.669      1682      1603   1.000\n"
    "z[8]          0.046      0.027      1.002     -1.531      0.051      1.752      1390      1509   1.001\n"
    "z[9]         -0.028      0.025      0.979     -1.672     -0.017      1.562      1482      1458   1.000\n"
    "z[10]         0.015      0.024      0.999     -1.699      0.042      1.569      1692      1613   0.999\n"
    "... 4 more, largest r_hat: z[13] 1.001; smallest ess: z[12] 1487\n"
    "log_lik: 3 log likelihoods, not shown\n"
    "note GPUMC_W_TREEDEPTH: 1 of 1600 draws (0.063 %) reached max_treedepth 10: trajectories were cut "
    "short, which costs speed, not validity; rescale or decorrelate, then raise it\n"
    "warning GPUMC_W_RHAT: R-hat is above 1.01 for 1 of 23 quantities (theta[2] 1.0331): chains "
    "disagree; run longer first, then suspect sums that the data do not identify, several modes, label "
    "switching (GPUMC_ORDERED), covariates far from 0, priors\n"
    "warning GPUMC_W_ESS: ESS is below 100 a chain for 1 of 23 quantities (theta[2] 27): estimates are "
    "noisy; see R-hat first\n";

static void check_print(void)
{
    char page[8000] = "";
    FILE *file = tmpfile(), *full;
    size_t length;
    if (!file) return;
    make_fit(&h);
    for (size_t i = 0; i < 60; i++) draw_of(&h, 1, i)[3] += 3;
    stats_of(&h, 0, 3)->hit_max_treedepth = 1;
    gpumc__collect_warnings(&h.fit, 0);
    CHECK(h.fit.status == GPUMC_OK, "warnings");
    CHECK(gpumc_print_summary(&h.fit, file) == GPUMC_OK, "printing failed");
    rewind(file);
    length = fread(page, 1, sizeof page - 1, file);
    page[length] = 0;
    fclose(file);
    CHECK(!strcmp(page, expected_page), "the page reads\n%s", page);
    full = fopen("/dev/full", "w");
    if (full) {
        CHECK(gpumc_print_summary(&h.fit, full) == GPUMC_ERROR_FILE, "a full disk was not noticed");
        fclose(full);
    }
    free_warnings(&h.fit);
    CHECK(gpumc_print_summary(NULL, stdout) == GPUMC_ERROR_ARGUMENT, "no fit");
    CHECK(gpumc_print_summary(&h.fit, NULL) == GPUMC_ERROR_ARGUMENT, "no stream");
}

/* The summary says that a run was stopped, or why one failed. */
static void check_print_status(void)
{
    static const struct { gpumc_status status; const char *says, *not; int drawless; } cases[] = {
        { GPUMC_OK, " s\nstep size", "stopped early", 0 }, { GPUMC_OK, "no draws and judged none", "q50", 1 },
        { GPUMC_STOPPED, " s, stopped early\nstep size", "no table", 0 },
        { GPUMC_ERROR_FILE, "a file could not be read or written: no such place\n", "stopped early", 0 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char page[8000] = "";
        FILE *file = tmpfile();
        if (!file) return;
        make_fit(&h);
        h.fit.status = cases[k].status;
        if (cases[k].drawless) h.fit.draws = NULL;
        strcpy(h.fit.message, "no such place");
        CHECK(gpumc_print_summary(&h.fit, file) == GPUMC_OK, "printing failed");
        rewind(file);
        page[fread(page, 1, sizeof page - 1, file)] = 0;
        fclose(file);
        CHECK(strstr(page, cases[k].says) && !strstr(page, cases[k].not), "status %d: %.300s",
              (int)cases[k].status, page);
    }
}

/* ---- memory ------------------------------------------------------------------------------------ */

static long allowed, outstanding;

static void *refusing_allocate(size_t bytes, void *user)
{
    (void)user;
    if (allowed-- <= 0) return NULL;
    outstanding++;
    return malloc(bytes);
}

static void counting_release(void *block, void *user)
{
    (void)user;
    outstanding--;
    free(block);
}

static int attempt(int what, FILE *sink)
{
    gpumc_loo loo;
    h.fit.status = GPUMC_OK;
    if (what == 0) {
        gpumc__collect_warnings(&h.fit, 0);
        return h.fit.status == GPUMC_OK;
    }
    if (what == 1) return gpumc_summarise(&h.fit, 0).flags != GPUMC_FLAG_MEMORY;
    if (what == 2) return gpumc_loo_psis(&h.fit, &loo, NULL, NULL, NULL) == GPUMC_OK;
    return gpumc_print_summary(&h.fit, sink) == GPUMC_OK;
}

/* Refuses the first, second, ... allocation until the call succeeds; no memory may leak. */
static void check_memory(void)
{
    FILE *sink = tmpfile();
    if (!sink) return;
    make_fit(&h);
    stats_of(&h, 0, 0)->divergent = 1;
    h.fit.allocator.allocate = refusing_allocate;
    h.fit.allocator.release = counting_release;
    for (int what = 0; what < 4; what++) {
        int failures = 0;
        for (long n = 0; n < 20; n++) {
            int done;
            allowed = n;
            done = attempt(what, sink);
            free_warnings(&h.fit);
            CHECK(outstanding == 0, "call %d, refusal %ld: %ld blocks lost", what, n, outstanding);
            if (done) break;
            failures++;
        }
        CHECK(failures >= 1 && failures <= 5, "call %d failed %d times", what, failures);
    }
    fclose(sink);
}

int main(void)
{
    check_e1();
    check_e2();
    check_e3();
    check_e4();
    check_inside();
    check_spectrum();
    check_against_slow();
    check_long_chain();
    check_not_numbers();
    check_constant();
    check_few();
    check_invalid();
    check_offset();
    check_strides();
    check_words();
    check_signed_zeros();
    check_sort();
    check_psis();
    check_tail_sizes();
    check_pareto();
    check_sampler_warnings();
    check_column_warnings();
    check_limits();
    check_many_warnings();
    check_points();
    check_loo();
    check_teams();
    check_loo_efficiency();
    check_summary();
    check_numbers();
    check_print();
    check_print_status();
    check_memory();
    return check_end();
}
