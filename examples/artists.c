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
   artists: 4 chains x 1000 draws after 200 of warm-up, 0.09 s
   step size 0.890, low-rank metric, 0 divergences
   sampler HMC: nearly normal: gradients within 7 %, variance to metric 1.19
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01376    0.00093    0.05445   -0.07849    0.01349    0.10521      3467      3201   1.002
   sd[1]         0.49753    0.00074    0.04272    0.43177    0.49580    0.57217      3298      3315   1.001
   sd[2]         0.05970    0.00082    0.03867    0.00554    0.05556    0.12819      2330      3357   1.000
   beta[1]       1.06326    0.00037    0.02052    1.02914    1.06310    1.09662      3051      3340   1.000
   beta[2]       0.35009    0.00036    0.01941    0.31857    0.34998    0.38169      2928      3107   1.001
   beta[3]      -0.13518    0.00040    0.01992   -0.16725   -0.13579   -0.10282      2523      3048   1.001
   beta[4]      -0.02790    0.00037    0.01905   -0.05977   -0.02767    0.00338      2684      3147   1.000
   beta[5]       0.85256    0.00035    0.01978    0.82012    0.85260    0.88489      3127      3323   1.000
   beta[6]       0.07752    0.00044    0.02095    0.04340    0.07780    0.11139      2305      2973   1.001
   beta[7]       0.54950    0.00039    0.01907    0.51805    0.54938    0.58073      2410      3092   1.001
   beta[8]      -0.28664    0.00040    0.02056   -0.31980   -0.28690   -0.25283      2666      2989   1.001
   beta[9]       0.58143    0.00036    0.01967    0.54803    0.58126    0.61389      2992      3196   1.001
   beta[10]     -0.41951    0.00037    0.01932   -0.45125   -0.41949   -0.38721      2737      3356   1.001
   rho           0.27831    0.00036    0.01966    0.24663    0.27839    0.31067      2911      3026   1.001
   sigma         0.59145    0.00026    0.01454    0.56808    0.59086    0.61557      3053      2881   1.000
   level[1,1]    -0.1984     0.0031     0.1805    -0.4960    -0.2020     0.0978      3401      3417   1.000
   level[1,2]    -0.2171     0.0029     0.1715    -0.4987    -0.2175     0.0629      3474      3432   1.000
   level[1,3]    -0.2141     0.0029     0.1743    -0.5053    -0.2149     0.0682      3517      3332   1.000
   level[1,4]    -0.2028     0.0030     0.1806    -0.4988    -0.2028     0.0827      3582      3629   1.001
   level[1,5]    -0.1814     0.0033     0.1957    -0.4948    -0.1861     0.1452      3495      3283   1.000
   level[2,1]     0.8993     0.0029     0.1738     0.6120     0.9020     1.1854      3468      3160   1.001
   level[2,2]     0.9091     0.0028     0.1687     0.6244     0.9068     1.1897      3701      3559   1.001
   level[2,3]     0.9193     0.0028     0.1704     0.6327     0.9200     1.2024      3569      3460   1.001
   level[2,4]     0.9276     0.0030     0.1769     0.6331     0.9238     1.2216      3491      3354   1.001
   level[2,5]     0.9269     0.0032     0.1902     0.6126     0.9259     1.2418      3543      3188   1.001
   ... 490 more, largest r_hat: level[31,5] 1.004; smallest ess: level[76,5] 2759
   gradients=13871 divergences=0 warmup_s=0.0447 sampling_s=0.0404
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
