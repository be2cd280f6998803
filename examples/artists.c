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
   artists: 4 chains x 1000 draws after 180 of warm-up, 0.10 s
   step size 1.27, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 4 %, variance to metric 1.18
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01394    0.00081    0.05458   -0.07644    0.01334    0.10418      4595      3512   1.003
   sd[1]         0.49737    0.00063    0.04237    0.43217    0.49589    0.57236      4502      3446   1.001
   sd[2]         0.05934    0.00073    0.03854    0.00553    0.05512    0.12803      2670      3137   1.000
   beta[1]       1.06341    0.00031    0.02059    1.02957    1.06332    1.09671      4360      3480   1.000
   beta[2]       0.35014    0.00029    0.01934    0.31873    0.34992    0.38257      4476      3344   1.000
   beta[3]      -0.13470    0.00030    0.01970   -0.16737   -0.13446   -0.10262      4278      3546   1.001
   beta[4]      -0.02761    0.00029    0.01902   -0.05879   -0.02750    0.00399      4235      3354   1.000
   beta[5]       0.85263    0.00030    0.01985    0.81997    0.85286    0.88464      4438      3364   0.999
   beta[6]       0.07785    0.00034    0.02082    0.04350    0.07791    0.11255      3715      3500   1.000
   beta[7]       0.54948    0.00030    0.01913    0.51762    0.54982    0.58072      4196      3473   1.000
   beta[8]      -0.28678    0.00031    0.02050   -0.32023   -0.28660   -0.25313      4356      3625   1.000
   beta[9]       0.58115    0.00030    0.01974    0.54828    0.58115    0.61239      4331      3163   1.001
   beta[10]     -0.41983    0.00030    0.01941   -0.45192   -0.41969   -0.38777      4277      3712   1.001
   rho           0.27828    0.00030    0.01953    0.24602    0.27817    0.30990      4291      3188   1.000
   sigma         0.59153    0.00023    0.01460    0.56787    0.59098    0.61598      4131      3450   1.000
   level[1,1]    -0.1973     0.0028     0.1801    -0.4898    -0.1977     0.0979      4274      3178   1.001
   level[1,2]    -0.2157     0.0026     0.1714    -0.4996    -0.2155     0.0595      4404      3583   1.001
   level[1,3]    -0.2132     0.0026     0.1745    -0.5088    -0.2138     0.0710      4469      3182   1.000
   level[1,4]    -0.2022     0.0027     0.1805    -0.4972    -0.2029     0.0951      4453      3132   1.002
   level[1,5]    -0.1817     0.0030     0.1955    -0.4964    -0.1896     0.1464      4335      3382   1.000
   level[2,1]     0.8998     0.0026     0.1724     0.6158     0.8998     1.1858      4490      3099   1.000
   level[2,2]     0.9087     0.0024     0.1678     0.6269     0.9094     1.1886      4734      3470   1.001
   level[2,3]     0.9198     0.0025     0.1692     0.6399     0.9209     1.2036      4442      3480   1.001
   level[2,4]     0.9281     0.0027     0.1756     0.6334     0.9250     1.2175      4344      3597   1.000
   level[2,5]     0.9266     0.0030     0.1880     0.6203     0.9265     1.2339      4063      3263   1.001
   ... 490 more, largest r_hat: level[50,4] 1.005; smallest ess: level[49,3] 2612
   gradients=10938 divergences=0 warmup_s=0.0413 sampling_s=0.0581
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

enum { FEATURES = 10, ALBUMS = 5 };

/* p: the level, then beta, rho, sigma; x: the score, the features, the previous score. The sum is written out,
   because a loop inside a row would keep the loop over rows from being vectorised. */
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

/* Reads a file: A artists, T = 5 albums, N rows, K = 10 features; artist and album count from 1. */
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
