/* artists.c: scores of albums, with artists whose level walks from album to album.

       y[i] ~ normal(level[artist[i], album[i]] + x[i] . beta + rho previous[i], sigma)
       level[a, 1] ~ normal(mu, sd[1]),  level[a, t] ~ normal(level[a, t - 1], sd[2])
       mu ~ normal(0, 1),  sd[1] ~ half-normal(0.5),  sd[2] ~ half-normal(0.1),  beta ~ normal(0, 1),
       rho ~ normal(0, 0.3) on (-0.99, 0.99),  sigma ~ half-normal(1)

   100 artists with 5 albums, 1000 scores, 10 features: 515 parameters. The data are drawn from the model (sd
   0.5 and 0.1, rho 0.3, sigma 0.6), or with data=noise are numbers around 70 with standard deviation 15 that
   have nothing to do with it: priors and data then contradict each other.

   Build:  cc -O2 examples/artists.c -o artists -lm -pthread
   Run:    ./artists                            (./artists help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: level 419 of 500
   artists: 4 chains x 1000 draws after 300 of warm-up, 2.80 s
   step size 0.354, diagonal metric, 0 divergences
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01414    0.00059    0.05401   -0.07473    0.01445    0.10339      8590      2424   1.001
   sd[1]         0.49852    0.00060    0.04315    0.43148    0.49625    0.57544      5436      2607   1.003
   sd[2]          0.0581     0.0016     0.0365     0.0055     0.0551     0.1235       510      1056   1.006
   beta[1]       1.06377    0.00024    0.02093    1.02925    1.06389    1.09729      7668      2596   1.000
   beta[2]       0.35060    0.00022    0.01949    0.31809    0.35055    0.38273      8073      2953   1.002
   beta[3]      -0.13529    0.00020    0.01954   -0.16727   -0.13498   -0.10313      9609      3070   1.002
   beta[4]      -0.02762    0.00021    0.01833   -0.05773   -0.02755    0.00198      8004      2993   1.002
   beta[5]       0.85200    0.00021    0.02024    0.81863    0.85156    0.88534      9346      2936   1.000
   beta[6]       0.07668    0.00022    0.02042    0.04309    0.07633    0.11095      8856      3120   1.000
   beta[7]       0.54865    0.00018    0.01965    0.51679    0.54860    0.58010     11504      3186   1.000
   beta[8]      -0.28678    0.00020    0.01941   -0.31885   -0.28667   -0.25553      9237      3066   1.000
   beta[9]       0.58141    0.00022    0.02010    0.54824    0.58119    0.61504      8738      2754   1.000
   beta[10]     -0.41962    0.00020    0.01973   -0.45123   -0.42009   -0.38717      9660      3144   1.000
   rho           0.27788    0.00020    0.01926    0.24577    0.27788    0.30984      9830      2923   1.002
   sigma         0.59134    0.00022    0.01455    0.56783    0.59090    0.61614      4208      2858   1.000
   level[1,1]    -0.1989     0.0020     0.1806    -0.4970    -0.1986     0.0979      8341      2773   1.002
   level[1,2]    -0.2145     0.0018     0.1715    -0.4973    -0.2128     0.0634      8746      3034   1.001
   level[1,3]    -0.2131     0.0019     0.1733    -0.5034    -0.2128     0.0678      8567      3142   1.003
   level[1,4]    -0.2000     0.0021     0.1790    -0.4937    -0.2001     0.0978      7497      3053   1.001
   level[1,5]    -0.1823     0.0025     0.1917    -0.4961    -0.1871     0.1404      6022      2943   1.001
   level[2,1]     0.9021     0.0019     0.1763     0.6127     0.9039     1.1891      8709      2870   1.000
   level[2,2]     0.9106     0.0019     0.1703     0.6307     0.9111     1.1894      8155      2870   1.001
   level[2,3]     0.9207     0.0019     0.1736     0.6361     0.9196     1.2044      7880      2694   1.001
   level[2,4]     0.9259     0.0020     0.1795     0.6343     0.9270     1.2222      7753      2849   1.002
   level[2,5]     0.9256     0.0022     0.1962     0.6016     0.9252     1.2505      7725      2985   1.001
   ... 490 more, largest r_hat: level[70,2] 1.008; smallest ess: level[20,1] 1891
   gradients=100953 divergences=0 warmup_s=1.0890 sampling_s=1.7093
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

static void report_truth(const gpumc_fit *fit, const double *truth, size_t n)
{
    const size_t first = gpumc_column(fit, "level[1,1]");
    size_t held = 0;
    for (size_t j = 0; j < n; j++) {
        const gpumc_series s = gpumc_fit_series(fit, first + j);
        held += gpumc_quantile(s, 0.05).value <= truth[j] && truth[j] <= gpumc_quantile(s, 0.95).value;
    }
    printf("90 %% intervals that hold the truth: level %.0f of %.0f\n", (double)held, (double)n);
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
        { "mu", GPUMC_PRIOR_NORMAL, 0, 1, 0 },         { "sd[1]", GPUMC_PRIOR_HALF_NORMAL, 0.5, 0, 0 },
        { "sd[2]", GPUMC_PRIOR_HALF_NORMAL, 0.1, 0, 0 }, { "beta", GPUMC_PRIOR_NORMAL, 0, 1, 0 },
        { "rho", GPUMC_PRIOR_NORMAL, 0, 0.3, 0 },      { "sigma", GPUMC_PRIOR_HALF_NORMAL, 1, 0, 0 },
    };
    const gpumc_hier_take takes[] = {
        { "level", d->level }, { "beta", NULL }, { "rho", NULL }, { "sigma", NULL }
    };
    const gpumc_hier_rows rows = { .name = "scores", .takes = takes, .n_takes = 4,
                                   .data = { .kind = &score, .n_rows = d->n,
                                             .columns = (const double *const *)d->columns } };
    const gpumc_hier_data data = { .name = "artists", .params = params, .n_params = 6, .priors = priors,
                                   .n_priors = 6, .rows = &rows, .n_rows = 1, .threads = r->options.threads };
    gpumc_error error;
    gpumc_hier *hier = gpumc_hier_create(&data, &error);
    gpumc_fit fit;
    int status;
    if (!hier) return run_failed(error.text);
    if (gpumc_sample(gpumc_hier_model(hier), &r->options, &fit) != GPUMC_OK) status = run_failed(fit.message);
    else {
        if (truth) report_truth(&fit, truth, d->n_artists * ALBUMS);
        status = run_report(r, &fit);
    }
    gpumc_free(&fit);
    gpumc_hier_free(hier);
    return status;
}

int main(int argc, char **argv)
{
    struct albums d = { 0 };
    run r = { .summary = NULL };
    int size = 100, rows = 1000, noise = 0, form = GPUMC_CENTRING_LEARNED, status;
    uint64_t data_seed = 42;
    double *truth = NULL;
    const argument own[] = {
        { "size", WHOLE, &size, "artists (100)" },
        { "rows", WHOLE, &rows, "scores (1000)" },
        { "data_seed", SEED, &data_seed, "of the data (42)" },
        { "data", CHOICE, &noise, "model|noise" },
        { "form", CHOICE, &form, "learned|centred|noncentred" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 1 || rows < 1 || size > 10000000 || rows > 10000000)
        return run_failed("size and rows must be 1 to 1e7");
    d.n_artists = (size_t)size;
    d.n = (size_t)rows;
    d.step = (size_t *)malloc(d.n_artists * ALBUMS * sizeof *d.step);
    truth = (double *)malloc(d.n_artists * ALBUMS * sizeof *truth);
    for (size_t j = 0; d.step && j < d.n_artists * ALBUMS; j++) d.step[j] = j % ALBUMS > 0;
    status = truth && d.step && albums_generate(&d, noise, data_seed, truth)
        ? sample(&d, (gpumc_centring)form, &r, noise ? NULL : truth) : run_failed("out of memory");
    free(truth);
    free(d.step);
    free(d.level);
    for (int k = 0; k < FEATURES + 2; k++) free(d.columns[k]);
    return status;
}
