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
   step size 1.52, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 3 %, variance to metric 1.18
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01395    0.00080    0.05455   -0.07629    0.01348    0.10413      4631      3545   1.003
   sd[1]         0.49725    0.00064    0.04244    0.43161    0.49577    0.57230      4440      3333   1.001
   sd[2]         0.05929    0.00075    0.03845    0.00568    0.05502    0.12774      2583      3138   1.000
   beta[1]       1.06345    0.00031    0.02059    1.02979    1.06335    1.09677      4374      3448   1.000
   beta[2]       0.35019    0.00029    0.01935    0.31884    0.34998    0.38260      4470      3325   1.000
   beta[3]      -0.13470    0.00030    0.01969   -0.16733   -0.13450   -0.10254      4255      3513   1.001
   beta[4]      -0.02761    0.00029    0.01902   -0.05878   -0.02750    0.00393      4198      3296   1.000
   beta[5]       0.85267    0.00030    0.01986    0.82002    0.85288    0.88478      4380      3334   0.999
   beta[6]       0.07785    0.00035    0.02083    0.04354    0.07793    0.11269      3659      3502   1.000
   beta[7]       0.54946    0.00029    0.01914    0.51770    0.54976    0.58072      4224      3505   1.000
   beta[8]      -0.28678    0.00031    0.02051   -0.32043   -0.28661   -0.25312      4306      3669   1.001
   beta[9]       0.58117    0.00030    0.01972    0.54830    0.58117    0.61249      4372      3189   1.001
   beta[10]     -0.41980    0.00030    0.01942   -0.45194   -0.41968   -0.38770      4270      3629   1.000
   rho           0.27825    0.00030    0.01955    0.24578    0.27821    0.30998      4360      3188   1.000
   sigma         0.59155    0.00022    0.01459    0.56785    0.59100    0.61609      4224      3435   1.000
   level[1,1]    -0.1973     0.0028     0.1801    -0.4905    -0.1981     0.0985      4289      3159   1.001
   level[1,2]    -0.2156     0.0026     0.1714    -0.5011    -0.2144     0.0585      4409      3618   1.001
   level[1,3]    -0.2130     0.0026     0.1743    -0.5087    -0.2134     0.0710      4472      3099   1.000
   level[1,4]    -0.2021     0.0027     0.1806    -0.4989    -0.2019     0.0943      4434      3058   1.001
   level[1,5]    -0.1815     0.0030     0.1952    -0.4954    -0.1890     0.1459      4322      3380   1.000
   level[2,1]     0.8997     0.0026     0.1723     0.6167     0.8997     1.1859      4518      3058   1.001
   level[2,2]     0.9085     0.0024     0.1677     0.6287     0.9092     1.1885      4715      3469   1.001
   level[2,3]     0.9196     0.0025     0.1690     0.6401     0.9210     1.2040      4425      3512   1.001
   level[2,4]     0.9277     0.0027     0.1752     0.6352     0.9248     1.2155      4186      3661   1.000
   level[2,5]     0.9262     0.0030     0.1874     0.6224     0.9268     1.2328      3966      3209   1.001
   ... 490 more, largest r_hat: level[50,4] 1.005; smallest ess: level[49,3] 2690
   gradients=10894 divergences=0 warmup_s=0.0413 sampling_s=0.0581
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
