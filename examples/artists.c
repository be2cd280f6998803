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
   step size 1.43, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 3 %, variance to metric 1.23
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01372    0.00079    0.05445   -0.07660    0.01332    0.10320      4743      3630   1.002
   sd[1]         0.49737    0.00064    0.04244    0.43185    0.49574    0.57226      4347      2753   1.001
   sd[2]         0.05934    0.00073    0.03857    0.00588    0.05481    0.12833      2697      2999   1.000
   beta[1]       1.06340    0.00031    0.02060    1.02970    1.06337    1.09725      4526      3416   1.000
   beta[2]       0.35023    0.00028    0.01933    0.31889    0.35009    0.38262      4681      3726   1.000
   beta[3]      -0.13464    0.00030    0.01966   -0.16697   -0.13442   -0.10252      4344      3512   1.001
   beta[4]      -0.02764    0.00028    0.01902   -0.05863   -0.02747    0.00375      4498      3321   1.000
   beta[5]       0.85246    0.00029    0.01984    0.81984    0.85268    0.88439      4571      3723   0.999
   beta[6]       0.07776    0.00033    0.02096    0.04327    0.07785    0.11294      4013      3501   1.000
   beta[7]       0.54938    0.00029    0.01902    0.51790    0.54959    0.58056      4386      3503   1.000
   beta[8]      -0.28684    0.00031    0.02049   -0.32048   -0.28657   -0.25329      4465      3598   1.001
   beta[9]       0.58111    0.00030    0.01975    0.54798    0.58119    0.61252      4415      3244   1.001
   beta[10]     -0.41972    0.00030    0.01945   -0.45208   -0.41954   -0.38774      4255      3472   1.000
   rho           0.27820    0.00030    0.01957    0.24559    0.27814    0.30989      4380      3255   1.000
   sigma         0.59159    0.00022    0.01457    0.56806    0.59092    0.61626      4311      3766   1.000
   level[1,1]    -0.1962     0.0027     0.1793    -0.4891    -0.1970     0.1021      4526      3441   1.001
   level[1,2]    -0.2149     0.0025     0.1710    -0.4986    -0.2149     0.0591      4637      3701   1.001
   level[1,3]    -0.2125     0.0025     0.1740    -0.5029    -0.2137     0.0725      4673      3372   1.000
   level[1,4]    -0.2015     0.0026     0.1804    -0.4954    -0.2012     0.0979      4697      3398   1.001
   level[1,5]    -0.1805     0.0029     0.1952    -0.4926    -0.1885     0.1458      4596      3472   1.000
   level[2,1]     0.9001     0.0025     0.1731     0.6102     0.9000     1.1859      4829      3472   1.001
   level[2,2]     0.9090     0.0024     0.1682     0.6270     0.9090     1.1884      5077      3685   1.001
   level[2,3]     0.9199     0.0025     0.1693     0.6364     0.9216     1.2005      4745      3717   1.001
   level[2,4]     0.9280     0.0026     0.1756     0.6333     0.9253     1.2160      4500      3550   1.001
   level[2,5]     0.9266     0.0028     0.1878     0.6226     0.9271     1.2347      4370      3439   1.001
   ... 490 more, largest r_hat: level[50,4] 1.004; smallest ess: level[49,3] 2939
   gradients=10775 divergences=0 warmup_s=0.0413 sampling_s=0.0581
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
