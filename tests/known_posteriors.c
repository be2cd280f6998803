/* Reference moments of three posteriors on simulated data, for test_posteriors.c: a regression, a hierarchy
   and a mixture. Takes about 80 seconds:
       cc -O2 -o known_posteriors known_posteriors.c -lm && ./known_posteriors >known_posteriors.h

   Nothing here is shared with gpumc: the densities are written out on free coordinates with their Jacobians
   and have no gradient, the sampler is a slice sampler that moves one coordinate at a time (stepping out and
   shrinkage; Neal (2003), Slice Sampling, Annals of Statistics 31). Standard errors are those of batch means
   over all chains. A run whose errors reach 0.005 sd, or whose chains disagree, prints no table. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_CHAINS = 8, N_BATCHES = 32, N_WARMUP = 4000, MAX_DIM = 15 };

/* ---- random numbers: xoshiro256** (Blackman and Vigna), seeded by splitmix64 --------------------- */

typedef struct generator { uint64_t s[4]; } generator;

static generator seeded(uint64_t seed)
{
    generator g;
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15ULL;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        g.s[i] = z ^ (z >> 31);
    }
    return g;
}

static uint64_t rotated(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

/* On (0, 1), ends excluded. */
static double uniform(generator *g)
{
    uint64_t *s = g->s;
    const uint64_t result = rotated(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 45);
    return ((double)(result >> 12) + 0.5) / 4503599627370496.0;
}

/* Marsaglia's polar method; the second number of a pair is not used. */
static double normal(generator *g)
{
    for (;;) {
        const double u = 2 * uniform(g) - 1, v = 2 * uniform(g) - 1, s = u * u + v * v;
        if (s < 1 && s > 0) return u * sqrt(-2 * log(s) / s);
    }
}

/* ---- densities, up to a constant ----------------------------------------------------------------- */

static double log_normal(double y, double mu, double sigma)
{
    const double z = (y - mu) / sigma;
    return -0.5 * z * z - log(sigma);
}

/* y ~ normal(alpha + x beta, sigma), alpha ~ normal(0, 5), beta ~ normal(0, 2), sigma ~ half_normal(2).
   Free: alpha, beta[3], log sigma. */
enum { REGRESSION_ROWS = 60, REGRESSION_PARAMS = 5 };
static double regression_x[REGRESSION_ROWS][3], regression_y[REGRESSION_ROWS];

static void regression_simulate(generator *g)
{
    for (int i = 0; i < REGRESSION_ROWS; i++) {
        double *x = regression_x[i];
        x[0] = normal(g);
        x[1] = 0.9 * x[0] + sqrt(1 - 0.81) * normal(g);
        x[2] = normal(g);
        regression_y[i] = 1 + 1.5 * x[0] - 0.5 * x[1] + 0.3 * x[2] + 1.2 * normal(g);
    }
}

static void regression_natural(const double *q, double *x)
{
    for (int i = 0; i < 4; i++) x[i] = q[i];
    x[4] = exp(q[4]);
}

static double regression_density(const double *q)
{
    const double *beta = q + 1, sigma = exp(q[4]);
    double lp = log_normal(q[0], 0, 5) + log_normal(sigma, 0, 2) + q[4];
    for (int j = 0; j < 3; j++) lp += log_normal(beta[j], 0, 2);
    for (int i = 0; i < REGRESSION_ROWS; i++) {
        const double *x = regression_x[i], mean = q[0] + x[0] * beta[0] + x[1] * beta[1] + x[2] * beta[2];
        const double z = (regression_y[i] - mean) / sigma;
        lp -= 0.5 * z * z;
    }
    return lp - REGRESSION_ROWS * q[4];
}

/* y ~ normal(theta[group], sigma), theta ~ normal(mu, tau), mu ~ normal(0, 5), tau and sigma ~
   half_normal(2). Free: mu, log tau, log sigma, and (theta - mu) / tau. */
enum { HIERARCHY_GROUPS = 12, HIERARCHY_ROWS = 110, HIERARCHY_PARAMS = 3 + HIERARCHY_GROUPS };
static const int group_size[HIERARCHY_GROUPS] = { 9, 2, 14, 5, 20, 3, 10, 6, 17, 4, 12, 8 };
static int hierarchy_group[HIERARCHY_ROWS];
static double hierarchy_y[HIERARCHY_ROWS];

static void hierarchy_simulate(generator *g)
{
    int row = 0;
    for (int j = 0; j < HIERARCHY_GROUPS; j++) {
        const double theta = 1 + 2 * normal(g);
        for (int i = 0; i < group_size[j]; i++, row++) {
            hierarchy_group[row] = j;
            hierarchy_y[row] = theta + 1.5 * normal(g);
        }
    }
}

static void hierarchy_natural(const double *q, double *x)
{
    x[0] = q[0];
    x[1] = exp(q[1]);
    x[2] = exp(q[2]);
    for (int j = 0; j < HIERARCHY_GROUPS; j++) x[3 + j] = x[0] + x[1] * q[3 + j];
}

static double hierarchy_density(const double *q)
{
    double x[HIERARCHY_PARAMS], lp;
    hierarchy_natural(q, x);
    lp = log_normal(x[0], 0, 5) + log_normal(x[1], 0, 2) + q[1] + log_normal(x[2], 0, 2) + q[2];
    for (int j = 0; j < HIERARCHY_GROUPS; j++) lp -= 0.5 * q[3 + j] * q[3 + j];
    for (int i = 0; i < HIERARCHY_ROWS; i++) {
        const double z = (hierarchy_y[i] - x[3 + hierarchy_group[i]]) / x[2];
        lp -= 0.5 * z * z;
    }
    return lp - HIERARCHY_ROWS * q[2];
}

/* y ~ w normal(mu[1], sigma[1]) + (1 - w) normal(mu[2], sigma[2]), mu ~ normal(0, 5) with mu[1] < mu[2],
   sigma ~ half_normal(2), w ~ beta(5, 5). Free: mu[1], log(mu[2] - mu[1]), log sigma, logit w. */
enum { MIXTURE_ROWS = 150, MIXTURE_PARAMS = 5 };
static double mixture_y[MIXTURE_ROWS];

static void mixture_simulate(generator *g)
{
    for (int i = 0; i < MIXTURE_ROWS; i++)
        mixture_y[i] = uniform(g) < 0.4 ? -1 + 0.8 * normal(g) : 2 + 1.2 * normal(g);
}

static void mixture_natural(const double *q, double *x)
{
    x[0] = q[0];
    x[1] = q[0] + exp(q[1]);
    x[2] = exp(q[2]);
    x[3] = exp(q[3]);
    x[4] = 1 / (1 + exp(-q[4]));
}

static double mixture_density(const double *q)
{
    double x[MIXTURE_PARAMS], lp, log_w, log_rest;
    mixture_natural(q, x);
    log_w = -log1p(exp(-q[4]));
    log_rest = -log1p(exp(q[4]));
    lp = log_normal(x[0], 0, 5) + log_normal(x[1], 0, 5) + log_normal(x[2], 0, 2) + log_normal(x[3], 0, 2)
        + 4 * log_w + 4 * log_rest;
    lp += q[1] + q[2] + q[3] + log_w + log_rest;
    for (int i = 0; i < MIXTURE_ROWS; i++) {
        const double u = (mixture_y[i] - x[0]) / x[2], v = (mixture_y[i] - x[1]) / x[3];
        const double a = log_w - 0.5 * u * u - q[2], b = log_rest - 0.5 * v * v - q[3];
        lp += fmax(a, b) + log1p(exp(-fabs(a - b)));
    }
    return lp;
}

typedef struct target {
    const char *name, *params[MAX_DIM];
    int dim;                  /* as many free coordinates as parameters */
    long batch;               /* sweeps in a batch */
    double (*density)(const double *q);
    void (*natural)(const double *q, double *x);
} target;

static const target targets[] = {
    { "regression", { "alpha", "beta[1]", "beta[2]", "beta[3]", "sigma" }, REGRESSION_PARAMS, 6000,
      regression_density, regression_natural },
    { "hierarchy", { "mu", "tau", "sigma", "theta[1]", "theta[2]", "theta[3]", "theta[4]", "theta[5]",
      "theta[6]", "theta[7]", "theta[8]", "theta[9]", "theta[10]", "theta[11]", "theta[12]" },
      HIERARCHY_PARAMS, 10000, hierarchy_density, hierarchy_natural },
    { "mixture", { "mu[1]", "mu[2]", "sigma[1]", "sigma[2]", "w" }, MIXTURE_PARAMS, 3000, mixture_density,
      mixture_natural }
};
enum { N_TARGETS = sizeof targets / sizeof *targets };

/* ---- sampling ------------------------------------------------------------------------------------ */

typedef struct chain { generator random; double q[MAX_DIM], width[MAX_DIM], lp; } chain;

static double density_at(const target *t, chain *c, int k, double value)
{
    c->q[k] = value;
    return t->density(c->q);
}

static void move_coordinate(const target *t, chain *c, int k)
{
    const double from = c->q[k], width = c->width[k], level = c->lp + log(uniform(&c->random));
    double left = from - width * uniform(&c->random), right = left + width;
    while (density_at(t, c, k, left) > level) left -= width;
    while (density_at(t, c, k, right) > level) right += width;
    for (;;) {
        const double to = left + (right - left) * uniform(&c->random);
        c->lp = density_at(t, c, k, to);
        if (c->lp > level) return;
        if (to < from) left = to;
        else right = to;
    }
}

/* Widths become three times the mean move of the second quarter; the natural values of the second half are
   added to sum. */
static void warm_up(const target *t, chain *c, double *sum)
{
    double moved[MAX_DIM] = { 0 }, x[MAX_DIM];
    for (int k = 0; k < t->dim; k++) {
        c->q[k] = 4 * uniform(&c->random) - 2;
        c->width[k] = 1;
    }
    c->lp = t->density(c->q);
    for (int sweep = 0; sweep < N_WARMUP; sweep++) {
        for (int k = 0; k < t->dim; k++) {
            const double from = c->q[k];
            move_coordinate(t, c, k);
            if (sweep > N_WARMUP / 4) moved[k] += fabs(c->q[k] - from);
            if (sweep == N_WARMUP / 2) c->width[k] = 3 * moved[k] / (N_WARMUP / 4);
        }
        t->natural(c->q, x);
        for (int k = 0; k < t->dim && sweep >= N_WARMUP / 2; k++) sum[k] += x[k];
    }
}

/* Means over a batch of x and (x - centre)^2. */
static void run_batch(const target *t, chain *c, const double *centre, double mean[2][MAX_DIM])
{
    double x[MAX_DIM];
    for (int k = 0; k < t->dim; k++) mean[0][k] = mean[1][k] = 0;
    for (long sweep = 0; sweep < t->batch; sweep++) {
        for (int k = 0; k < t->dim; k++) move_coordinate(t, c, k);
        t->natural(c->q, x);
        for (int k = 0; k < t->dim; k++) {
            mean[0][k] += x[k] / (double)t->batch;
            mean[1][k] += (x[k] - centre[k]) * (x[k] - centre[k]) / (double)t->batch;
        }
    }
}

/* Of x (0) and (x - centre)^2 (1). */
typedef struct moments {
    double centre[MAX_DIM], mean[2][MAX_DIM], error[2][MAX_DIM];
    double farthest;          /* largest distance of a chain from all, in standard errors of one chain */
} moments;

/* Mean, error and farthest chain of statistic s of parameter k. */
static void summarise(double (*batch)[N_BATCHES][2][MAX_DIM], int s, int k, moments *m)
{
    const double n = (double)N_CHAINS * N_BATCHES;
    double square = 0, chain_error, of_chain[N_CHAINS] = { 0 };
    for (int c = 0; c < N_CHAINS; c++) {
        for (int b = 0; b < N_BATCHES; b++) of_chain[c] += batch[c][b][s][k] / N_BATCHES;
        m->mean[s][k] += of_chain[c] / N_CHAINS;
    }
    for (int c = 0; c < N_CHAINS; c++)
        for (int b = 0; b < N_BATCHES; b++) square += pow(batch[c][b][s][k] - m->mean[s][k], 2);
    m->error[s][k] = sqrt(square / (n - 1) / n);
    chain_error = m->error[s][k] * sqrt(N_CHAINS);
    for (int c = 0; c < N_CHAINS; c++)
        m->farthest = fmax(m->farthest, fabs(of_chain[c] - m->mean[s][k]) / chain_error);
}

static moments sample(const target *t)
{
    static double batch[N_CHAINS][N_BATCHES][2][MAX_DIM];
    chain chains[N_CHAINS];
    moments m = { { 0 }, { { 0 } }, { { 0 } }, 0 };
    for (int c = 0; c < N_CHAINS; c++) {
        chains[c].random = seeded(1000 * (uint64_t)(t - targets + 1) + (uint64_t)c);
        warm_up(t, &chains[c], m.centre);
    }
    for (int k = 0; k < t->dim; k++)
        m.centre[k] = floor(1000 * m.centre[k] / (N_CHAINS * (N_WARMUP / 2)) + 0.5) / 1000;
    for (int c = 0; c < N_CHAINS; c++)
        for (int b = 0; b < N_BATCHES; b++) run_batch(t, &chains[c], m.centre, batch[c][b]);
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < t->dim; k++) summarise(batch, s, k, &m);
    return m;
}

static double sd_of(const moments *m, int k)
{
    return sqrt(m->mean[1][k] - pow(m->mean[0][k] - m->centre[k], 2));
}

/* The chance that one of 400 chain means is over 5 standard errors off is 0.02 %. */
static int is_good(const target *t, const moments *m)
{
    double worst = 0;
    for (int k = 0; k < t->dim; k++) worst = check_worst(worst, m->error[0][k] / sd_of(m, k));
    fprintf(stderr, "%s: errors of means up to %.4f sd, a chain up to %.2f standard errors off\n", t->name,
            worst, m->farthest);
    return worst < 0.005 && m->farthest < 5;
}

/* ---- the table ----------------------------------------------------------------------------------- */

static void print_numbers(const char *name, const double *values, int n, int columns)
{
    if (columns > 1) printf("static const double %s[%d][%d] = {\n", name, n, columns);
    else printf("static const double %s[%d] = {\n", name, n);
    for (int i = 0; i < n; i++) {
        printf(columns > 1 ? "    { " : "    ");
        for (int j = 0; j < columns; j++)
            printf("%.17g%s", values[i * columns + j], j < columns - 1 ? ", " : "");
        printf(columns > 1 ? " },\n" : ",\n");
    }
    printf("};\n");
}

static void print_groups(void)
{
    printf("static const int hierarchy_group[%d] = {\n   ", HIERARCHY_ROWS);
    for (int i = 0; i < HIERARCHY_ROWS; i++)
        printf(" %d,%s", hierarchy_group[i], i == HIERARCHY_ROWS - 1 ? "\n" : i % 22 == 21 ? "\n   " : "");
    printf("};\n");
}

static void print_moments(const target *t, const moments *m)
{
    printf("static const known_moments %s_known[%d] = {\n", t->name, t->dim);
    for (int k = 0; k < t->dim; k++)
        printf("    { \"%s\", %.3f, %.9g, %.9g, %.9g, %.3g, %.3g },\n", t->params[k], m->centre[k],
               m->mean[0][k], sd_of(m, k), m->mean[1][k], m->error[0][k], m->error[1][k]);
    printf("};\n");
}

int main(void)
{
    generator g = seeded(1);
    moments m[N_TARGETS];
    int good = 1;
    regression_simulate(&g);
    hierarchy_simulate(&g);
    mixture_simulate(&g);
    for (int i = 0; i < N_TARGETS; i++) {
        m[i] = sample(&targets[i]);
        good &= is_good(&targets[i], &m[i]);
    }
    if (!good) return 1;
    printf("/* Made by known_posteriors.c: simulated data of three models and moments of their posteriors.\n"
           "   square is the mean of (x - centre)^2; the errors are standard errors. */\n"
           "typedef struct known_moments {\n    const char *name;\n"
           "    double centre, mean, sd, square, mean_error, square_error;\n} known_moments;\n\n");
    printf("enum { REGRESSION_ROWS = %d, HIERARCHY_GROUPS = %d, HIERARCHY_ROWS = %d, MIXTURE_ROWS = %d };\n",
           REGRESSION_ROWS, HIERARCHY_GROUPS, HIERARCHY_ROWS, MIXTURE_ROWS);
    print_numbers("regression_x", &regression_x[0][0], REGRESSION_ROWS, 3);
    print_numbers("regression_y", regression_y, REGRESSION_ROWS, 1);
    print_groups();
    print_numbers("hierarchy_y", hierarchy_y, HIERARCHY_ROWS, 1);
    print_numbers("mixture_y", mixture_y, MIXTURE_ROWS, 1);
    for (int i = 0; i < N_TARGETS; i++) print_moments(&targets[i], &m[i]);
    return 0;
}
