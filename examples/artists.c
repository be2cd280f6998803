/* artists.c: scores of albums, with artists whose level walks from album to album.

       y[i] ~ normal(level[artist[i], album[i]] + x[i] . beta + rho previous[i], sigma)
       level[a, 1] ~ normal(mu, sd[1]),  level[a, t] ~ normal(level[a, t - 1], sd[2])
       mu ~ normal(0, 1),  sd[1] ~ half-normal(0.5),  sd[2] ~ half-normal(0.1),  beta ~ normal(0, 1),
       rho ~ normal(0, 0.3) on (-0.99, 0.99),  sigma ~ half-normal(1)

   100 artists with 5 albums, 1000 scores, 10 features: 515 parameters. The data are drawn from the model (sd 0.5
   and 0.1, rho 0.3, sigma 0.6), or with data=noise are numbers around 70 with standard deviation 15 that have
   nothing to do with it: priors and data then contradict each other, and sd[2] touches zero.

   Build:  cc -O2 examples/artists.c -o artists -lm -pthread
   Run:    ./artists                            (./artists help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: level 421 of 500
   artists: 4 chains x 1000 draws after 300 of warm-up, 6.39 s
   step size 0.336, diagonal metric, 0 divergences
                    mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   mu            0.01437    0.00061    0.05442   -0.07651    0.01465    0.10266      8105      2590   1.001
   sd[1]         0.49755    0.00061    0.04322    0.43174    0.49505    0.57375      5002      2526   1.001
   sd[2]          0.0577     0.0019     0.0377     0.0052     0.0540     0.1234       373       588   1.005
   beta[1]       1.06373    0.00023    0.02087    1.02926    1.06411    1.09735      8006      2614   1.002
   beta[2]       0.35067    0.00021    0.01954    0.31838    0.35053    0.38266      8513      3094   1.001
   beta[3]      -0.13517    0.00021    0.01935   -0.16721   -0.13505   -0.10412      8274      3047   1.000
   beta[4]      -0.02778    0.00021    0.01915   -0.05945   -0.02757    0.00332      7952      2968   1.001
   beta[5]       0.85218    0.00022    0.02065    0.81716    0.85242    0.88579      8578      2486   1.000
   beta[6]       0.07659    0.00023    0.02049    0.04265    0.07673    0.11035      7954      2762   1.000
   beta[7]       0.54907    0.00020    0.01919    0.51737    0.54903    0.58080      9144      3185   1.000
   beta[8]      -0.28668    0.00023    0.01939   -0.31916   -0.28667   -0.25431      6824      2920   1.000
   beta[9]       0.58104    0.00022    0.02045    0.54835    0.58057    0.61531      8684      2800   1.000
   beta[10]     -0.41991    0.00020    0.02003   -0.45301   -0.42007   -0.38719      9535      3162   1.001
   rho           0.27780    0.00020    0.01861    0.24704    0.27807    0.30822      9058      3137   1.001
   sigma         0.59124    0.00024    0.01455    0.56784    0.59106    0.61545      3771      2614   1.000
   level[1,1]    -0.1979     0.0021     0.1766    -0.4899    -0.2019     0.0990      7170      2989   1.004
   level[1,2]    -0.2156     0.0019     0.1688    -0.4926    -0.2171     0.0625      7898      3074   1.004
   level[1,3]    -0.2137     0.0019     0.1675    -0.4944    -0.2146     0.0627      8196      2891   1.003
   level[1,4]    -0.1999     0.0021     0.1748    -0.4884    -0.1994     0.0900      6997      2948   1.001
   level[1,5]    -0.1823     0.0025     0.1885    -0.4918    -0.1841     0.1318      5704      2962   1.002
   level[2,1]     0.9018     0.0020     0.1740     0.6202     0.9016     1.1943      7663      2788   1.001
   level[2,2]     0.9119     0.0019     0.1698     0.6436     0.9098     1.1978      8186      3037   1.000
   level[2,3]     0.9227     0.0019     0.1711     0.6460     0.9194     1.2110      8071      3260   1.000
   level[2,4]     0.9291     0.0020     0.1774     0.6438     0.9260     1.2180      7544      2801   1.000
   level[2,5]     0.9293     0.0022     0.1931     0.6161     0.9255     1.2466      7593      3074   1.001
   ... 490 more, largest r_hat: level[37,5] 1.007; smallest ess: level[33,1] 1673
   warning GPUMC_W_ESS: ESS is below 100 a chain for 1 of 515 quantities (sd[2] 373): estimates are noisy; R-hat is good, just run longer
   gradients=102302 divergences=0 warmup_s=2.8924 sampling_s=3.4973
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
        { .name = "sd", .kind = GPUMC_POSITIVE, .size = 2 },
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
    const gpumc_hier_take takes[] = { { "level", d->level }, { "beta", NULL }, { "rho", NULL }, { "sigma", NULL } };
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
