/* artists.c: scores of albums, with artists whose level walks from album to album.

       y[i] ~ normal(level[artist[i], album[i]] + x[i] . beta + rho previous[i], sigma)
       level[a, 1] ~ normal(mu, sd[1]),  level[a, t] ~ normal(level[a, t - 1], sd[2])
       mu ~ normal(0, 1),  sd[1] ~ half-normal(0.5),  sd[2] ~ half-normal(0.1),  beta ~ normal(0, 1),
       rho ~ normal(0, 0.3) on (-0.99, 0.99),  sigma ~ half-normal(1)

   100 artists with 5 albums, 1000 scores, 10 features: 515 parameters. The data are drawn from the model (sd
   0.5 and 0.1, rho 0.3, sigma 0.6), or with kind=noise are numbers around 70 with standard deviation 15 that
   have nothing to do with it: priors and data then contradict each other.

   Build:  cc -O2 examples/artists.c -o artists -lm -pthread
   Run:    ./artists                            (./artists help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: level 421 of 500
   artists: 4 chains x 1000 draws after 130 of warm-up, 0.09 s
   step size 1.49, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 3 %, variance to metric 1.30
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01413    0.00079    0.05445   -0.07645    0.01360    0.10392      4707      3700   1.002
   sd[1]         0.49753    0.00064    0.04297    0.43139    0.49581    0.57314      4467      2956   1.001
   sd[2]         0.05986    0.00066    0.03878    0.00562    0.05594    0.12958      3747      3152   1.001
   beta[1]       1.06340    0.00030    0.02050    1.02958    1.06351    1.09666      4572      3478   1.000
   beta[2]       0.35023    0.00029    0.01943    0.31845    0.35003    0.38271      4485      3397   1.000
   beta[3]      -0.13482    0.00030    0.01959   -0.16718   -0.13450   -0.10314      4370      3733   1.000
   beta[4]      -0.02766    0.00030    0.01904   -0.05878   -0.02753    0.00400      4054      3041   1.000
   beta[5]       0.85248    0.00030    0.01979    0.82009    0.85252    0.88473      4437      3610   1.000
   beta[6]       0.07750    0.00033    0.02086    0.04282    0.07768    0.11230      3955      3372   1.000
   beta[7]       0.54945    0.00029    0.01910    0.51771    0.54950    0.58074      4369      3630   1.001
   beta[8]      -0.28697    0.00031    0.02051   -0.32054   -0.28678   -0.25333      4380      3516   1.000
   beta[9]       0.58127    0.00030    0.01990    0.54748    0.58122    0.61301      4495      3414   1.000
   beta[10]     -0.41961    0.00030    0.01948   -0.45197   -0.41948   -0.38709      4290      3613   1.000
   rho           0.27804    0.00029    0.01950    0.24558    0.27795    0.30963      4401      3356   1.001
   sigma         0.59154    0.00023    0.01458    0.56813    0.59097    0.61637      4018      3851   1.000
   level[1,1]    -0.1963     0.0027     0.1799    -0.4899    -0.1964     0.1042      4595      3408   1.000
   level[1,2]    -0.2144     0.0025     0.1722    -0.5008    -0.2146     0.0642      4713      3831   1.000
   level[1,3]    -0.2121     0.0025     0.1747    -0.5056    -0.2125     0.0733      4736      3362   1.001
   level[1,4]    -0.2004     0.0027     0.1817    -0.4990    -0.2007     0.1013      4688      3398   1.001
   level[1,5]    -0.1795     0.0029     0.1961    -0.4952    -0.1849     0.1480      4693      3480   1.000
   level[2,1]     0.8998     0.0025     0.1736     0.6059     0.9012     1.1858      4846      3582   1.000
   level[2,2]     0.9092     0.0024     0.1690     0.6257     0.9098     1.1877      5004      3734   1.000
   level[2,3]     0.9195     0.0024     0.1696     0.6388     0.9206     1.1997      4792      3772   1.001
   level[2,4]     0.9273     0.0026     0.1765     0.6339     0.9253     1.2187      4468      3750   1.000
   level[2,5]     0.9264     0.0029     0.1885     0.6204     0.9252     1.2378      4125      3646   1.000
   ... 490 more, largest r_hat: level[50,4] 1.003; smallest ess: level[49,3] 3009
   gradients=10224 divergences=0 warmup_s=0.0327 sampling_s=0.0608
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

enum { FEATURES = 10, ALBUMS = 5 };

/* p: the level, then beta, rho, sigma; x: the score, the features, the score before. Written out, because a
   loop inside a row would keep the loop over rows from becoming vector code. */
#define EACH_SLOPE(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define ADD_TERM(k) mean += p[k] * x[k];
#define ADD_SLOPE(k) g[k] = dmean * x[k];
GPUMC_ROW(score, 1, FEATURES + 2, FEATURES + 2)
{
    gpumc_real mean = p[0], dmean = 0, lp;
    EACH_SLOPE(ADD_TERM)
    lp = gpumc_normal_lpdf(x[0], mean, p[FEATURES + 2], NULL, &dmean, &g[FEATURES + 2]);
    g[0] = dmean;
    EACH_SLOPE(ADD_SLOPE)
    return lp;
}

struct albums { size_t n_artists, n, *level, *step; double *columns[FEATURES + 2]; };

/* Draws the data; truth gets the levels, artist by artist. */
static int albums_generate(struct albums *d, int noise, uint64_t seed, double *truth)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    double beta[FEATURES];
    d->level = (size_t *)malloc(d->n * sizeof *d->level);
    for (int k = 0; k < FEATURES + 2; k++)
        if (!(d->columns[k] = (double *)malloc(d->n * sizeof(double)))) return 0;
    if (!d->level) return 0;
    for (size_t j = 0; j < d->n_artists * ALBUMS; j++)
        truth[j] = j % ALBUMS ? truth[j - 1] + 0.1 * gpumc_rng_normal(&rng) : 0.5 * gpumc_rng_normal(&rng);
    for (int k = 0; k < FEATURES; k++) beta[k] = 0.5 * gpumc_rng_normal(&rng);
    for (size_t i = 0; i < d->n; i++) {
        double mean;
        for (int k = 0; k < FEATURES + 2; k++) d->columns[k][i] = gpumc_rng_normal(&rng);
        d->level[i] = (size_t)gpumc_rng_below(&rng, d->n_artists * ALBUMS);
        mean = truth[d->level[i]] + 0.3 * d->columns[FEATURES + 1][i];
        for (int k = 0; k < FEATURES; k++) mean += beta[k] * d->columns[k + 1][i];
        d->columns[0][i] = noise ? 70 + 15 * d->columns[0][i] : mean + 0.6 * d->columns[0][i];
        if (noise) d->columns[FEATURES + 1][i] = 70 + 15 * d->columns[FEATURES + 1][i];
    }
    return 1;
}

/* The numbers of a file: A artists, T = 5 albums, N rows, K = 10 features; artist and album count from 1. */
static int albums_read(struct albums *d, const char *path, gpumc_error *error)
{
    static const char *const names[] = { "artist", "album", "X", "prev", "y" };
    const gpumc_variable *v[5] = { NULL }, *A, *N;
    gpumc_data file = { 0 };
    int done = 0;
    if (gpumc_read_json(path, &file, error) != GPUMC_OK) return 0;
    A = gpumc_data_get(&file, "A", 1, 1, error);
    N = A ? gpumc_data_get(&file, "N", 1, 1, error) : NULL;
    if (N && (A->values[0] < 1 || N->values[0] < 1)) {
        snprintf(error->text, sizeof error->text, "%s: A and N must be at least 1", path);
        N = NULL;
    }
    d->n_artists = N ? (size_t)A->values[0] : 0;
    d->n = N ? (size_t)N->values[0] : 0;
    for (int k = 0; N && k < 5 && (k == 0 || v[k - 1]); k++)
        v[k] = gpumc_data_get(&file, names[k], d->n * (k == 2 ? FEATURES : 1), k < 2, error);
    if (v[4] && (v[2]->n_dims != 2 || v[2]->dims[0] != d->n)) {
        snprintf(error->text, sizeof error->text, "%s: X must have N rows of %d features", path, FEATURES);
        v[4] = NULL;
    }
    d->level = (size_t *)malloc((d->n + 1) * sizeof *d->level);
    for (int k = 0; k < FEATURES + 2; k++) d->columns[k] = (double *)malloc((d->n + 1) * sizeof(double));
    for (size_t i = 0; v[4] && d->level && i < d->n; i++) {
        const double artist = v[0]->values[i], album = v[1]->values[i];
        if (!(artist >= 1 && artist <= (double)d->n_artists && album >= 1 && album <= ALBUMS)) {
            snprintf(error->text, sizeof error->text, "%s: row %.0f has artist %g of %.0f, album %g of %d", path,
                     (double)i + 1, artist, (double)d->n_artists, album, ALBUMS);
            v[4] = NULL;
            break;
        }
        d->level[i] = ((size_t)artist - 1) * ALBUMS + (size_t)album - 1;
        d->columns[0][i] = v[4]->values[i];
        for (int k = 0; k < FEATURES; k++) d->columns[k + 1][i] = v[2]->values[i * FEATURES + (size_t)k];
        d->columns[FEATURES + 1][i] = v[3]->values[i];
        done = i + 1 == d->n;
    }
    gpumc_data_free(&file);
    return done;
}

static int sample(const struct albums *d, gpumc_centring form, const run *r, const double *truth)
{
    const size_t shape[] = { d->n_artists, ALBUMS };
    const gpumc_param params[] = {
        { .name = "mu" },
        { .name = "sd", .kind = GPUMC_POSITIVE, .size = 2 },    /* sd[2] comes close to 0 */
        { .name = "beta", .size = FEATURES },
        { .name = "rho", .kind = GPUMC_INTERVAL, .lower = -0.99, .upper = 0.99 },
        { .name = "sigma", .kind = GPUMC_POSITIVE },
        { .name = "level", .dims = shape, .n_dims = 2, .location = "mu", .scale = "sd",
          .scale_index = d->step, .walk_dim = 2, .centring = form },
    };
    const gpumc_prior priors[] = {
        { "mu", gpumc_prior_normal, 0, 1, 0 },         { "sd[1]", gpumc_prior_half_normal, 0.5, 0, 0 },
        { "sd[2]", gpumc_prior_half_normal, 0.1, 0, 0 }, { "beta", gpumc_prior_normal, 0, 1, 0 },
        { "rho", gpumc_prior_normal, 0, 0.3, 0 },      { "sigma", gpumc_prior_half_normal, 1, 0, 0 },
    };
    const gpumc_hier_take takes[] = {
        { "level", d->level }, { "beta", NULL }, { "rho", NULL }, { "sigma", NULL }
    };
    const gpumc_hier_rows rows = { .name = "scores",
                                   .data = { .kind = &score, .n_rows = d->n,
                                             .columns = (const double *const *)d->columns },
                                   .takes = takes, .n_takes = 4 };
    const gpumc_hier_data data = { .name = "artists", .params = params, .n_params = 6, .priors = priors,
                                   .n_priors = 6, .rows = &rows, .n_rows = 1, .threads = r->options.threads };
    const run_truth levels = { "level", truth, d->n_artists * ALBUMS };
    gpumc_error error;
    gpumc_hier *hier = gpumc_hier_create(&data, &error);
    int status;
    if (!hier) return run_failed(error.text);
    status = run_model(r, gpumc_hier_model(hier), &levels, truth ? 1 : 0);
    gpumc_hier_free(hier);
    return status;
}

int main(int argc, char **argv)
{
    struct albums d = { 0 };
    run r = { .summary = NULL };
    int size = 100, rows = 1000, noise = 0, form = GPUMC_CENTRING_LEARNED, status;
    uint64_t data_seed = 42;
    const char *path = NULL;
    gpumc_error error = { GPUMC_OK, "out of memory" };
    double *truth = NULL;
    const argument own[] = {
        { "size", WHOLE, &size, "artists (100)" },
        { "rows", WHOLE, &rows, "scores (1000)" },
        { "data_seed", SEED, &data_seed, "of the data (42)" },
        { "kind", CHOICE, &noise, "model|noise" },
        { "data", TEXT, &path, "FILE: A, T, N, K, artist, album, X, prev and y as JSON, in place of drawn data" },
        { "form", CHOICE, &form, "learned|centred|noncentred" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 1 || rows < 1 || size > 10000000 || rows > 10000000)
        return run_failed("size and rows must be 1 to 1e7");
    d.n_artists = (size_t)size;
    d.n = (size_t)rows;
    status = !path || albums_read(&d, path, &error);
    d.step = (size_t *)malloc((d.n_artists + 1) * ALBUMS * sizeof *d.step);
    truth = (double *)malloc((d.n_artists + 1) * ALBUMS * sizeof *truth);
    for (size_t j = 0; d.step && j < d.n_artists * ALBUMS; j++) d.step[j] = j % ALBUMS > 0;
    status = status && truth && d.step && (path || albums_generate(&d, noise, data_seed, truth))
        ? sample(&d, (gpumc_centring)form, &r, noise || path ? NULL : truth) : run_failed(error.text);
    free(truth);
    free(d.step);
    free(d.level);
    for (int k = 0; k < FEATURES + 2; k++) free(d.columns[k]);
    return status;
}
