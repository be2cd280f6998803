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

   90 % intervals that hold the truth: level 420 of 500
   artists: 4 chains x 1000 draws after 130 of warm-up, 0.10 s
   step size 1.29, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 3 %, variance to metric 1.27
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01424    0.00082    0.05457   -0.07590    0.01355    0.10431      4446      3514   1.003
   sd[1]         0.49737    0.00065    0.04276    0.43163    0.49596    0.57272      4255      2742   1.001
   sd[2]         0.05945    0.00073    0.03854    0.00567    0.05522    0.12857      2818      3086   1.000
   beta[1]       1.06334    0.00032    0.02061    1.02951    1.06348    1.09694      4218      3371   1.000
   beta[2]       0.35021    0.00030    0.01949    0.31889    0.34988    0.38289      4345      3522   1.001
   beta[3]      -0.13479    0.00031    0.01958   -0.16750   -0.13437   -0.10330      4007      3593   1.000
   beta[4]      -0.02769    0.00030    0.01904   -0.05872   -0.02753    0.00404      4068      3113   1.000
   beta[5]       0.85247    0.00030    0.01989    0.82004    0.85247    0.88508      4272      3091   1.000
   beta[6]       0.07763    0.00033    0.02091    0.04301    0.07769    0.11257      3990      3526   1.000
   beta[7]       0.54939    0.00029    0.01908    0.51752    0.54948    0.58063      4194      3551   1.001
   beta[8]      -0.28693    0.00032    0.02057   -0.32053   -0.28677   -0.25307      4173      3548   1.000
   beta[9]       0.58131    0.00031    0.01993    0.54758    0.58132    0.61314      4165      3208   1.000
   beta[10]     -0.41980    0.00030    0.01940   -0.45192   -0.41965   -0.38764      4136      3499   1.000
   rho           0.27821    0.00030    0.01950    0.24562    0.27808    0.30963      4138      3327   1.001
   sigma         0.59159    0.00023    0.01459    0.56791    0.59103    0.61635      3871      3490   1.000
   level[1,1]    -0.1960     0.0028     0.1819    -0.4933    -0.1961     0.1051      4286      3008   1.001
   level[1,2]    -0.2143     0.0026     0.1737    -0.5006    -0.2141     0.0638      4423      3577   1.000
   level[1,3]    -0.2114     0.0026     0.1759    -0.5079    -0.2135     0.0744      4502      3286   1.000
   level[1,4]    -0.2006     0.0027     0.1827    -0.4986    -0.2005     0.1012      4442      3138   1.001
   level[1,5]    -0.1803     0.0030     0.1975    -0.4939    -0.1872     0.1475      4373      3310   1.000
   level[2,1]     0.9000     0.0026     0.1729     0.6127     0.9008     1.1857      4551      3136   1.001
   level[2,2]     0.9089     0.0024     0.1684     0.6263     0.9098     1.1891      4730      3444   1.000
   level[2,3]     0.9199     0.0026     0.1693     0.6393     0.9210     1.2024      4378      3513   1.000
   level[2,4]     0.9282     0.0027     0.1758     0.6345     0.9259     1.2179      4229      3642   1.000
   level[2,5]     0.9264     0.0030     0.1880     0.6198     0.9265     1.2397      4019      3331   1.001
   ... 490 more, largest r_hat: level[50,4] 1.004; smallest ess: level[49,3] 2674
   gradients=10191 divergences=0 warmup_s=0.0413 sampling_s=0.0581
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
        if (!(artist >= 1 && artist <= (double)d->n_artists && album >= 1 && album <= (double)ALBUMS)) {
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
