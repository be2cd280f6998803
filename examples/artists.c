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

   90 % intervals that hold the truth: level 424 of 500
   artists: 4 chains x 1000 draws after 200 of warm-up, 0.14 s
   step size 0.786, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 7 %, variance to metric 1.25
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01376    0.00091    0.05454   -0.07910    0.01379    0.10652      3570      3294   1.002
   sd[1]         0.49767    0.00074    0.04293    0.43094    0.49589    0.57258      3360      3346   1.001
   sd[2]         0.05978    0.00078    0.03871    0.00583    0.05602    0.12898      2618      3902   1.000
   beta[1]       1.06328    0.00037    0.02048    1.02939    1.06324    1.09691      3079      3463   1.000
   beta[2]       0.35026    0.00034    0.01937    0.31886    0.35019    0.38199      3169      3107   1.001
   beta[3]      -0.13498    0.00039    0.01993   -0.16696   -0.13540   -0.10264      2575      3203   1.001
   beta[4]      -0.02799    0.00037    0.01911   -0.05998   -0.02783    0.00348      2681      3034   1.000
   beta[5]       0.85269    0.00035    0.01985    0.81986    0.85271    0.88531      3248      3185   1.000
   beta[6]       0.07763    0.00042    0.02088    0.04332    0.07783    0.11151      2414      3093   1.001
   beta[7]       0.54955    0.00038    0.01905    0.51780    0.54944    0.58083      2581      3170   1.001
   beta[8]      -0.28663    0.00040    0.02056   -0.32019   -0.28674   -0.25296      2642      3090   1.001
   beta[9]       0.58153    0.00035    0.01966    0.54815    0.58133    0.61379      3117      3374   1.001
   beta[10]     -0.41964    0.00036    0.01926   -0.45153   -0.41958   -0.38708      2934      3400   1.000
   rho           0.27835    0.00036    0.01966    0.24652    0.27832    0.31029      3059      3157   1.000
   sigma         0.59142    0.00026    0.01455    0.56805    0.59086    0.61556      3106      2929   1.000
   level[1,1]    -0.1981     0.0030     0.1801    -0.4959    -0.2004     0.0983      3498      3542   1.000
   level[1,2]    -0.2168     0.0029     0.1714    -0.4972    -0.2160     0.0639      3560      3560   1.000
   level[1,3]    -0.2141     0.0029     0.1741    -0.5041    -0.2151     0.0706      3600      3433   1.000
   level[1,4]    -0.2023     0.0030     0.1807    -0.4980    -0.2029     0.0861      3662      3629   1.000
   level[1,5]    -0.1812     0.0033     0.1956    -0.4947    -0.1870     0.1470      3624      3597   0.999
   level[2,1]     0.8990     0.0029     0.1734     0.6111     0.9016     1.1838      3657      3210   1.001
   level[2,2]     0.9089     0.0027     0.1680     0.6253     0.9068     1.1863      3832      3760   1.001
   level[2,3]     0.9193     0.0028     0.1699     0.6357     0.9200     1.1984      3737      3612   1.001
   level[2,4]     0.9274     0.0029     0.1764     0.6340     0.9238     1.2198      3764      3388   1.001
   level[2,5]     0.9263     0.0031     0.1894     0.6112     0.9262     1.2404      3675      3243   1.001
   ... 490 more, largest r_hat: level[31,5] 1.004; smallest ess: level[55,1] 2856
   gradients=17083 divergences=0 warmup_s=0.0693 sampling_s=0.0701
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
    d->n_artists = A ? (size_t)A->values[0] : 0;
    d->n = N ? (size_t)N->values[0] : 0;
    for (int k = 0; N && k < 5 && (k == 0 || v[k - 1]); k++)
        v[k] = gpumc_data_get(&file, names[k], d->n * (k == 2 ? FEATURES : 1), k < 2, error);
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
        { .name = "level", .dims = shape, .n_dims = 2, .location = "mu", .walk_dim = 2, .scale = "sd",
          .scale_index = d->step, .centring = form },
    };
    const gpumc_prior priors[] = {
        { "mu", gpumc_prior_normal, 0, 1, 0 },         { "sd[1]", gpumc_prior_half_normal, 0.5, 0, 0 },
        { "sd[2]", gpumc_prior_half_normal, 0.1, 0, 0 }, { "beta", gpumc_prior_normal, 0, 1, 0 },
        { "rho", gpumc_prior_normal, 0, 0.3, 0 },      { "sigma", gpumc_prior_half_normal, 1, 0, 0 },
    };
    const gpumc_hier_take takes[] = {
        { "level", d->level }, { "beta", NULL }, { "rho", NULL }, { "sigma", NULL }
    };
    const gpumc_hier_rows rows = { .name = "scores", .takes = takes, .n_takes = 4,
                                   .data = { .kind = &score, .n_rows = d->n,
                                             .columns = (const double *const *)d->columns } };
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
    if (path && !albums_read(&d, path, &error)) return run_failed(error.text);
    d.step = (size_t *)malloc(d.n_artists * ALBUMS * sizeof *d.step);
    truth = (double *)malloc(d.n_artists * ALBUMS * sizeof *truth);
    for (size_t j = 0; d.step && j < d.n_artists * ALBUMS; j++) d.step[j] = j % ALBUMS > 0;
    status = truth && d.step && (path || albums_generate(&d, noise, data_seed, truth))
        ? sample(&d, (gpumc_centring)form, &r, noise || path ? NULL : truth) : run_failed(error.text);
    free(truth);
    free(d.step);
    free(d.level);
    for (int k = 0; k < FEATURES + 2; k++) free(d.columns[k]);
    return status;
}
