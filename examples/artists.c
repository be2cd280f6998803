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

   90 % intervals that hold the truth: level 422 of 500
   artists: 4 chains x 1000 draws after 360 of warm-up, 2.45 s
   step size 0.322, diagonal metric, 0 divergences
   sampler MAMS: the metric fits: variance to metric 4.14, E-BFMI 1.01, trees span 5.2
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01415    0.00076    0.05535   -0.07492    0.01402    0.10672      5226      2501   1.002
   sd[1]         0.49689    0.00062    0.04237    0.43167    0.49522    0.57056      4660      2406   1.002
   sd[2]          0.0588     0.0019     0.0377     0.0047     0.0556     0.1251       396       981   1.010
   beta[1]       1.06292    0.00029    0.02060    1.02905    1.06264    1.09654      4988      2298   1.000
   beta[2]       0.35011    0.00028    0.01977    0.31791    0.35040    0.38192      4885      2603   1.002
   beta[3]      -0.13451    0.00028    0.01940   -0.16702   -0.13449   -0.10277      4888      2510   1.000
   beta[4]      -0.02779    0.00028    0.01937   -0.05896   -0.02772    0.00412      4714      2344   1.002
   beta[5]       0.85177    0.00028    0.02024    0.81668    0.85178    0.88527      5121      2322   1.000
   beta[6]       0.07702    0.00029    0.02094    0.04237    0.07724    0.11169      5111      2524   1.002
   beta[7]       0.54894    0.00028    0.01964    0.51603    0.54866    0.58142      4860      2384   1.002
   beta[8]      -0.28652    0.00028    0.01981   -0.31940   -0.28645   -0.25402      5053      2817   1.000
   beta[9]       0.58091    0.00028    0.02022    0.54787    0.58075    0.61399      5124      2483   1.000
   beta[10]     -0.41969    0.00028    0.01955   -0.45245   -0.41938   -0.38777      4869      2345   1.004
   rho           0.27786    0.00027    0.01923    0.24640    0.27795    0.30930      4937      2412   1.003
   sigma         0.59103    0.00021    0.01420    0.56808    0.59076    0.61421      4333      1896   1.001
   level[1,1]    -0.2023     0.0025     0.1761    -0.4840    -0.2044     0.0949      5124      2514   1.002
   level[1,2]    -0.2208     0.0023     0.1708    -0.4932    -0.2243     0.0580      5625      2322   1.001
   level[1,3]    -0.2199     0.0023     0.1735    -0.4998    -0.2250     0.0675      5640      2580   1.002
   level[1,4]    -0.2064     0.0025     0.1816    -0.4945    -0.2113     0.1043      5505      2444   1.003
   level[1,5]    -0.1891     0.0026     0.1950    -0.5032    -0.1920     0.1356      5503      2674   1.002
   level[2,1]     0.9013     0.0024     0.1716     0.6154     0.9027     1.1839      5037      2371   1.002
   level[2,2]     0.9109     0.0022     0.1657     0.6379     0.9112     1.1855      5752      2821   1.000
   level[2,3]     0.9227     0.0022     0.1686     0.6432     0.9231     1.1943      5948      3026   1.001
   level[2,4]     0.9285     0.0023     0.1745     0.6421     0.9275     1.2097      5876      2892   1.001
   level[2,5]     0.9287     0.0025     0.1875     0.6292     0.9280     1.2425      5598      2278   1.001
   ... 490 more, largest r_hat: level[20,2] 1.006; smallest ess: level[30,1] 1656
   warning GPUMC_W_ESS: ESS is below 100 a chain for 1 of 515 quantities (sd[2] 397): estimates are noisy; R-hat is good, just run longer
   gradients=70418 divergences=0 warmup_s=1.5071 sampling_s=0.9432
*/
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
        { .name = "sd", .kind = GPUMC_POSITIVE, .size = 2, .softplus = 0.05 },    /* sd[2] comes close to 0 */
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
