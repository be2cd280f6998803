/* The generator and its samplers. Statistics are looked at with fixed seeds; each is allowed what a right
   generator exceeds with probability 1e-5 or less, about 60 of them: new seeds fail once in 1500 runs. */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "check.h"

/* ---- Philox4x32-10: the published answers (Random123, tests/kat_vectors) ------------------------- */
static void check_published(void)
{
    static const uint32_t published[3][10] = {
        { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
          0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
          0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
    };
    for (int i = 0; i < 3; i++) {
        gpumc_rng rng = gpumc_rng_at(0, 0, 0, 0);
        memcpy(rng.counter, published[i], sizeof rng.counter);
        memcpy(rng.key, published[i] + 4, sizeof rng.key);
        for (int w = 0; w < 4; w++) {
            const uint32_t word = gpumc_rng_word(&rng);
            CHECK(word == published[i][6 + w], "vector %d, word %d: %08x", i, w, (unsigned)word);
        }
        CHECK(rng.counter[0] == published[i][0] + 1u, "the block counter stands at %08x",
              (unsigned)rng.counter[0]);
    }
}

/* Where gpumc_rng_at puts its numbers: samplers, checkpoints and the GPU rely on it. */
static void check_layout(void)
{
    const gpumc_rng rng = gpumc_rng_at(0x0123456789abcdefULL, 7, 8, 9);
    CHECK(rng.key[0] == 0x89abcdef && rng.key[1] == 0x01234567, "key %08x %08x", (unsigned)rng.key[0],
          (unsigned)rng.key[1]);
    CHECK(rng.counter[0] == 0 && rng.counter[1] == 7 && rng.counter[2] == 8 && rng.counter[3] == 9,
          "counter %u %u %u %u", (unsigned)rng.counter[0], (unsigned)rng.counter[1], (unsigned)rng.counter[2],
          (unsigned)rng.counter[3]);
}

/* Words of neighbouring streams, draws, chains, seeds and blocks are all different: the 2592 pairs of 64 bits
   looked at collide by chance with probability 2e-13. */
static int by_word(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int overlaps(uint32_t stride)
{
    enum { WORDS = 32 };
    static uint64_t seen[3 * 3 * 3 * 3 * WORDS];
    size_t n = 0;
    for (uint32_t i = 0; i < 81; i++) {
        gpumc_rng rng = gpumc_rng_at(i % 3 * stride, i / 3 % 3 * stride, i / 9 % 3 * stride, i / 27 * stride);
        for (int w = 0; w < WORDS; w++) {
            seen[n] = (uint64_t)gpumc_rng_word(&rng) << 32;
            seen[n++] |= gpumc_rng_word(&rng);
        }
    }
    qsort(seen, n, sizeof *seen, by_word);
    for (size_t i = 1; i < n; i++)
        if (seen[i - 1] == seen[i]) return 1;
    return 0;
}

/* ---- uniform ---------------------------------------------------------------------------------- */
static gpumc_rng with_words(uint32_t low, uint32_t high)
{
    gpumc_rng rng = gpumc_rng_at(1, 0, 0, 0);
    rng.words[0] = rng.words[2] = low;
    rng.words[1] = rng.words[3] = high;
    rng.left = 4;
    return rng;
}

static void check_uniform(void)
{
    gpumc_rng least = with_words(0, 0), most = with_words(~0u, ~0u), half = with_words(0, 0x80000000u);
    gpumc_rng rng = gpumc_rng_at(2, 0, 0, 0), again;
    const double ulp = 1.0 / 9007199254740992.0;        /* 2^-53 */
    double u = gpumc_rng_uniform(&least);
    CHECK(u == ulp, "the least uniform number is %.17g", u);
    u = gpumc_rng_uniform(&most);
    CHECK(u == 1 - ulp, "the largest uniform number is 1 - %.17g", 1 - u);
    u = gpumc_rng_uniform(&half);
    CHECK(u == 0.5 + ulp, "the first number above 1/2 is %.17g", u);
    again = rng;
    u = gpumc_rng_uniform(&rng);
    {
        const uint64_t low = gpumc_rng_word(&again), high = gpumc_rng_word(&again);
        CHECK(u == ((double)((high << 32 | low) >> 12) + 0.5) * 2 * ulp, "not (k + 1/2) 2^-52: %.17g", u);
    }
    CHECK(fabs(gpumc_rng_normal(&most)) < 9 && fabs(gpumc_rng_normal(&least)) < 9,
          "a normal of the extreme words");
}

/* Below n: every value equally often (chi-square), and no bias where n does not divide 2^64. */
static void check_below(void)
{
    enum { CELLS = 7, DRAWS = 70000 };
    gpumc_rng rng = gpumc_rng_at(3, 0, 0, 0);
    double statistic = 0, upper = 0;
    int count[CELLS] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        const uint64_t k = gpumc_rng_below(&rng, CELLS);
        if (k >= CELLS) { CHECK(0, "%u is not below 7", (unsigned)k); return; }
        count[k]++;
    }
    for (int k = 0; k < CELLS; k++) statistic += pow(count[k] - DRAWS / CELLS, 2) / (DRAWS / CELLS);
    CHECK(statistic < 33, "chi-square with 6 degrees of freedom: %g", statistic);
    for (int i = 0; i < 1000; i++)      /* 3/4 of the range: a plain remainder gives 2/3 in the lower third */
        upper += gpumc_rng_below(&rng, 0xc000000000000000ULL) < 0x4000000000000000ULL;
    CHECK(fabs(upper - 1000 / 3.0) < 4.5 * sqrt(1000 * 2 / 9.0), "%g of 1000 in the lower third", upper);
    CHECK(gpumc_rng_below(&rng, 1) == 0 && gpumc_rng_below(&rng, 0) == 0, "below 1 and below 0");
}

/* ---- samplers against their cdfs ---------------------------------------------------------------- */
#define N_DRAWS 20000
typedef struct sampler {
    const char *name;
    double (*draw)(gpumc_rng *rng);
    double (*cdf)(double y);
    double mean, variance, fourth;                      /* fourth central moment */
} sampler;

static double draw_uniform(gpumc_rng *rng) { return gpumc_rng_uniform(rng); }
static double cdf_uniform(double y) { return y; }
static double draw_normal(gpumc_rng *rng) { return gpumc_rng_normal(rng); }
static double cdf_normal(double y) { return 0.5 * erfc(-y * sqrt(0.5)); }
static double draw_exponential(gpumc_rng *rng) { return gpumc_rng_exponential(rng); }
static double cdf_exponential(double y) { return -expm1(-y); }
static double draw_gamma_1(gpumc_rng *rng) { return gpumc_rng_gamma(rng, 1); }
static double draw_gamma_3(gpumc_rng *rng) { return gpumc_rng_gamma(rng, 3); }
static double cdf_gamma_3(double y) { return 1 - exp(-y) * (1 + y + y * y / 2); }
static double draw_gamma_half(gpumc_rng *rng) { return gpumc_rng_gamma(rng, 0.5); }
static double cdf_gamma_half(double y) { return erf(sqrt(y)); }
static double draw_beta_2_3(gpumc_rng *rng) { return gpumc_rng_beta(rng, 2, 3); }
static double cdf_beta_2_3(double y) { return y * y * (6 - 8 * y + 3 * y * y); }
static double draw_beta_arcsine(gpumc_rng *rng) { return gpumc_rng_beta(rng, 0.5, 0.5); }
static double cdf_arcsine(double y) { return asin(sqrt(y)) / asin(1); }
static double draw_beta_power(gpumc_rng *rng) { return gpumc_rng_beta(rng, 0.05, 1); }
static double cdf_power(double y) { return pow(y, 0.05); }
static double draw_biased(gpumc_rng *rng) { return 1.03 * gpumc_rng_normal(rng) + 0.02; }
static double draw_vector(gpumc_rng *rng)
{
    double z[3];
    gpumc_rng_normals(rng, z, 3);
    return z[rng->counter[0] / 2 % 3];
}

static const sampler samplers[] = {
    { "uniform", draw_uniform, cdf_uniform, 0.5, 1 / 12.0, 1 / 80.0 },
    { "normal", draw_normal, cdf_normal, 0, 1, 3 },
    { "normals", draw_vector, cdf_normal, 0, 1, 3 },
    { "exponential", draw_exponential, cdf_exponential, 1, 1, 9 },
    { "gamma(1)", draw_gamma_1, cdf_exponential, 1, 1, 9 },
    { "gamma(3)", draw_gamma_3, cdf_gamma_3, 3, 3, 45 },
    { "gamma(1/2)", draw_gamma_half, cdf_gamma_half, 0.5, 0.5, 3.75 },
    { "beta(2, 3)", draw_beta_2_3, cdf_beta_2_3, 0.4, 0.04, 0.00377142857142857 },
    { "beta(1/2, 1/2)", draw_beta_arcsine, cdf_arcsine, 0.5, 0.125, 3 / 128.0 },
    { "beta(1/20, 1)", draw_beta_power, cdf_power, 1 / 21.0, 400 / 18081.0, 0.0095395 },
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov, mean and variance, in units of the bound. */
static double sampler_error(const sampler *s)
{
    static double draws[N_DRAWS];
    gpumc_rng rng = gpumc_rng_at(4, 0, 0, 0);
    double sum = 0, square = 0, distance = 0, mean, variance;
    for (int i = 0; i < N_DRAWS; i++) {
        draws[i] = s->draw(&rng);
        sum += draws[i] - s->mean;
        square += (draws[i] - s->mean) * (draws[i] - s->mean);
    }
    qsort(draws, N_DRAWS, sizeof *draws, by_value);
    for (int i = 0; i < N_DRAWS; i++) {
        const double u = s->cdf(draws[i]);
        distance = fmax(distance, fmax(u - i / (double)N_DRAWS, (i + 1) / (double)N_DRAWS - u));
    }
    mean = fabs(sum / N_DRAWS) / sqrt(s->variance / N_DRAWS) / 4.42;
    variance = fabs(square / N_DRAWS - s->variance) / sqrt((s->fourth - s->variance * s->variance) / N_DRAWS);
    return fmax(sqrt(N_DRAWS) * distance / 2.471, fmax(mean, variance / 4.8));
}

static void check_samplers(void)
{
    const sampler biased = { "biased", draw_biased, cdf_normal, 0, 1, 3 };
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++)
        CHECK(sampler_error(&samplers[i]) <= 1, "%s: %g of the bound", samplers[i].name,
              sampler_error(&samplers[i]));
    CHECK(!(sampler_error(&biased) <= 1), "a biased sampler is accepted");
}

/* ---- small shapes ------------------------------------------------------------------------------ */
static void check_small_shapes(void)
{
    gpumc_rng rng = gpumc_rng_at(5, 0, 0, 0);
    double logs = 0, high = 0;
    int zeros = 0, ones = 0;
    for (int i = 0; i < 4000; i++) {
        const double g = gpumc_rng_gamma(&rng, 1e-3), b = gpumc_rng_beta(&rng, 1e-3, 2e-3);
        zeros += g <= 0 || b <= 0;
        ones += b >= 1;
        logs += g < 1e-200;
        high += b > 0.5;
    }
    CHECK(zeros == 0 && ones == 0, "%d draws of 0 and %d of 1 with shapes of 0.001", zeros, ones);
    /* P(gamma(a) < x) = x^a / Gamma(a + 1) for small x, here 0.63; P(beta(a, b) > 1/2) is nearly a / (a +
       b). */
    CHECK(fabs(logs / 4000 - pow(1e-200, 1e-3) / tgamma(1.001)) < 4.5 * 0.5 / sqrt(4000), "%g", logs / 4000);
    CHECK(fabs(high / 4000 - 1 / 3.0) < 0.002 + 4.5 * 0.5 / sqrt(4000), "%g above 1/2", high / 4000);
    CHECK(isnan(gpumc_rng_gamma(&rng, 0)) && isnan(gpumc_rng_gamma(&rng, -1)),
          "gamma of a shape not above 0");
    CHECK(isnan(gpumc_rng_gamma(&rng, NAN)) && isnan(gpumc_rng_gamma(&rng, INFINITY)),
          "gamma of no finite shape");
    CHECK(isnan(gpumc_rng_beta(&rng, 0, 1)) && isnan(gpumc_rng_beta(&rng, 1, NAN)), "beta of invalid shapes");
}

/* ---- normals in bulk ---------------------------------------------------------------------------- */

/* z is Box-Muller's of 64 bits a pair, 40 of them for the radius: of the first words of 16 blocks from the
   counter on, then of their last words, up to rounding. */
static void check_normals(void)
{
    double z[203], worst = 0;
    const size_t sizes[] = { 0, 1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 203 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        gpumc_rng bulk = gpumc_rng_at(6, 1, 2, 3), single = bulk;
        const size_t n = sizes[s], rest = n % 64;
        const uint32_t blocks = (uint32_t)(n / 64 * 16 + (rest > 16 ? 16 : rest > 0 ? 8 : 0));
        gpumc_rng_word(&bulk);                          /* part of a block is given up */
        for (size_t i = 0; i < 203; i++) z[i] = -99;
        gpumc_rng_normals(&bulk, z, n);
        for (size_t i = 0; i < n; i += 2) {
            const size_t place = i % 64, half = place / 32;
            double words[4], radius, angle;
            single.counter[0] = (uint32_t)(1 + i / 64 * 16 + place % 32 / 2);
            single.left = 0;
            for (int w = 0; w < 4; w++) words[w] = gpumc_rng_word(&single);
            radius = ldexp(words[2 * half + 1], 8) + floor(ldexp(words[2 * half], -24));     /* 40 bits */
            angle = fmod(words[2 * half], 0x1p24);
            radius = sqrt(-2 * log(ldexp(radius + 0.5, -40)));
            angle = 2 * GPUMC_PI * ldexp(angle + 0.5, -24);
            worst = check_worst(worst, fabs(z[i] - radius * cos(angle)));
            if (i + 1 < n) worst = check_worst(worst, fabs(z[i + 1] - radius * sin(angle)));
        }
        CHECK(n == 203 || z[n] == -99, "n = %d: written past the end", (int)n);
        CHECK(bulk.counter[0] == 1 + blocks && bulk.left == 0, "n = %d: counter %u", (int)n,
              (unsigned)bulk.counter[0]);
    }
    CHECK(worst < 1e-14, "bulk and single differ by %g", worst);
}

/* The number a place receives must not depend on how many are asked for. */
static void check_prefix(void)
{
    double all[100], some[100];
    gpumc_rng one = gpumc_rng_at(7, 0, 0, 0);
    gpumc_rng_normals(&one, all, 100);
    for (size_t n = 1; n < 100; n++) {
        gpumc_rng other = gpumc_rng_at(7, 0, 0, 0);
        gpumc_rng_normals(&other, some, n);
        CHECK(!memcmp(all, some, n * sizeof *all), "a request of %d gives other numbers", (int)n);
    }
}

/* Correlations at lags 1 .. 4, and (lag 0) between chains: 4.5 standard errors of 1 / sqrt(n). */
static void check_correlations(void)
{
    enum { N = 40000 };
    static double z[N], other[N];
    gpumc_rng rng = gpumc_rng_at(8, 0, 0, 0), next = gpumc_rng_at(8, 0, 0, 1);
    gpumc_rng_normals(&rng, z, N);
    gpumc_rng_normals(&next, other, N);
    for (int lag = 0; lag <= 4; lag++) {
        double sum = 0, squares = 0;
        for (int i = 0; i + lag < N; i++) {
            sum += z[i] * (lag ? z[i + lag] : other[i]);
            squares += (z[i] * z[i] - 1) * ((lag ? z[i + lag] * z[i + lag] : other[i] * other[i]) - 1);
        }
        CHECK(fabs(sum) < 4.5 * sqrt(N), "lag %d: correlation %g", lag, sum / N);
        CHECK(fabs(squares) < 4.5 * 2 * sqrt(N), "lag %d: correlation of squares %g", lag, squares / 2 / N);
    }
}

/* ---- counts: both algorithms, around the switch at a mean of 10 ----------------------------------- */
static double count_error(double mean, double n, int binomial)
{
    enum { DRAWS = 20000 };
    gpumc_rng rng = gpumc_rng_at(9, 0, 0, 0);
    const double p = binomial ? mean / n : 0, variance = binomial ? mean * (1 - p) : mean;
    const double excess = binomial ? (1 - 6 * p * (1 - p)) / variance : 1 / mean;
    double sum = 0, square = 0;
    for (int i = 0; i < DRAWS; i++) {
        const double k = binomial ? gpumc__rng_binomial(&rng, n, p) : gpumc__rng_poisson(&rng, mean);
        if (k != floor(k) || k < 0 || (binomial && k > n)) return INFINITY;
        sum += k - mean;
        square += (k - mean) * (k - mean);
    }
    return fmax(fabs(sum / DRAWS) / sqrt(variance / DRAWS) / 4.42,
                fabs(square / DRAWS - variance) / (variance * sqrt((2 + excess) / DRAWS)) / 4.8);
}

static void check_counts(void)
{
    const double means[] = { 0.01, 1, 9.99, 10, 30, 1e3, 1e9, 1e15 };
    gpumc_rng rng = gpumc_rng_at(10, 0, 0, 0);
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        const double poisson = count_error(means[i], 0, 0), n = floor(3 * means[i]) + 1;
        const double binomial = count_error(means[i], n, 1);
        CHECK(poisson <= 1, "poisson(%g): %g times the bound", means[i], poisson);
        CHECK(binomial <= 1, "binomial of mean %g: %g times the bound", means[i], binomial);
    }
    CHECK(count_error(19, 20, 1) <= 1 && count_error(970, 1000, 1) <= 1, "binomial with p above 1/2");
    CHECK(gpumc__rng_poisson(&rng, 0) == 0 && gpumc__rng_binomial(&rng, 5, 0) == 0, "certain zeros");
    CHECK(gpumc__rng_binomial(&rng, 5, 1) == 5 && gpumc__rng_binomial(&rng, 0, 0.3) == 0, "certain counts");
    CHECK(isnan(gpumc__rng_poisson(&rng, -1)) && isnan(gpumc__rng_poisson(&rng, NAN)), "invalid means");
    CHECK(isnan(gpumc__rng_binomial(&rng, 5, 1.5)) && isnan(gpumc__rng_binomial(&rng, NAN, 0.5)),
          "invalid p or n");
}

/* Of the exit of an interval: one function by two series, which take over from each other at 1. */
static void check_straight_share(void)
{
    const double early = gpumc__exit_ratio(1 - 1e-15), late = gpumc__exit_ratio(1);
    CHECK(fabs(early - late) < 1e-14, "early %.17g, late %.17g", early, late);
    CHECK(gpumc__exit_ratio(1e-3) == 1 && gpumc__exit_ratio(1e3) == 0, "ends");
}

int main(void)
{
    check_published();
    check_straight_share();
    check_layout();
    CHECK(!overlaps(1), "streams share words");
    CHECK(overlaps(0), "the search for shared words finds none in equal streams");
    check_uniform();
    check_below();
    check_samplers();
    check_small_shapes();
    check_normals();
    check_prefix();
    check_correlations();
    check_counts();
    return check_end();
}
