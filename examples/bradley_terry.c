/* bradley_terry.c: strengths of players from the results of their matches, a two-way model as data.

       P(a beats b) = 1 / (1 + exp(skill[b] - skill[a])),  skill[j] ~ normal(0, tau),  tau ~ half-normal(1)

   Each row takes two elements of one block by two indices, the winner's skill and the loser's. The results
   are drawn from the model itself with tau = 1.

   Build:  cc -O2 examples/bradley_terry.c -o bradley_terry -lm -pthread
   Run:    ./bradley_terry                      (./bradley_terry help lists the arguments)
   Output: (times differ from run to run, last digits between machines)

   90 % intervals that hold the truth: skill 86 of 100
   bradley_terry: 4 chains x 1000 draws after 300 of warm-up, 2.30 s
   step size 0.511, low-rank metric, 0 divergences
                   mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   tau           1.0049     0.0014     0.0900     0.8648     1.0010     1.1562      4225      3079   1.002
   skill[1]     -0.6800     0.0047     0.3770    -1.3115    -0.6786    -0.0614      6517      2736   1.008
   skill[2]      0.8711     0.0040     0.3425     0.3286     0.8663     1.4414      7493      3026   1.003
   skill[3]     -1.7345     0.0057     0.4823    -2.5621    -1.7149    -0.9778      7402      2290   1.001
   skill[4]      0.8498     0.0049     0.3867     0.2228     0.8424     1.4904      6234      2642   1.001
   skill[5]     -0.4953     0.0045     0.3625    -1.0804    -0.4956     0.1019      6590      2685   1.002
   skill[6]     -1.2262     0.0047     0.3647    -1.8407    -1.2145    -0.6557      6142      2822   1.002
   skill[7]     -0.9288     0.0044     0.3642    -1.5268    -0.9178    -0.3383      6956      3011   1.002
   skill[8]      0.3139     0.0043     0.3242    -0.2200     0.3189     0.8491      5646      2961   1.003
   skill[9]     -0.3488     0.0039     0.3224    -0.8930    -0.3465     0.1763      6845      2908   1.000
   skill[10]     0.2561     0.0040     0.3186    -0.2677     0.2596     0.7724      6457      3063   1.000
   ... 90 more, largest r_hat: skill[29] 1.005; smallest ess: skill[74] 2171
   gradients=56857 divergences=0 warmup_s=0.9550 sampling_s=1.3434
*/
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

/* Bernoulli, seen from the winner: p is the skill of winner and loser, x = 1 means that the winner won. */
GPUMC_ROW(match, 2, 0, 1)
{
    const gpumc_real lp = gpumc_bernoulli_logit_lpmf(x[0], p[0] - p[1], &g[0]);
    g[1] = -g[0];
    return lp;
}

struct matches { size_t n_players, n, *winner, *loser; double *won, *skill; };

static int matches_generate(struct matches *m, uint64_t seed)
{
    gpumc_rng rng = gpumc_rng_at(seed, 0, 0, 0);
    m->winner = (size_t *)malloc(m->n * sizeof *m->winner);
    m->loser = (size_t *)malloc(m->n * sizeof *m->loser);
    m->won = (double *)malloc(m->n * sizeof *m->won);
    m->skill = (double *)malloc(m->n_players * sizeof *m->skill);
    if (!m->winner || !m->loser || !m->won || !m->skill) return 0;
    gpumc_rng_normals(&rng, m->skill, m->n_players);
    for (size_t i = 0; i < m->n; i++) {
        const size_t a = (size_t)gpumc_rng_below(&rng, m->n_players);
        const size_t b = (a + 1 + (size_t)gpumc_rng_below(&rng, m->n_players - 1)) % m->n_players;
        const int a_wins = gpumc_rng_uniform(&rng) < 1 / (1 + exp(m->skill[b] - m->skill[a]));
        m->winner[i] = a_wins ? a : b;
        m->loser[i] = a_wins ? b : a;
        m->won[i] = 1;
    }
    return 1;
}

/* How many 90 % intervals hold the skill that the results were drawn from. */
static void report_truth(const gpumc_fit *fit, const struct matches *m)
{
    size_t held = 0;
    for (size_t j = 0; j < m->n_players; j++) {
        const gpumc_series s = gpumc_fit_series(fit, 1 + j);
        held += gpumc_quantile(s, 0.05).value <= m->skill[j] && m->skill[j] <= gpumc_quantile(s, 0.95).value;
    }
    printf("90 %% intervals that hold the truth: skill %.0f of %.0f\n", (double)held, (double)m->n_players);
}

static int sample(const struct matches *m, const run *r)
{
    const gpumc_param params[] = {
        { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "skill", .size = m->n_players, .scale = "tau" },
    };
    const gpumc_prior prior = { "tau", GPUMC_PRIOR_HALF_NORMAL, 1, 0, 0 };
    const double *const won = m->won;
    const gpumc_hier_take takes[] = { { "skill", m->winner }, { "skill", m->loser } };
    const gpumc_hier_rows rows = { .name = "matches", .takes = takes, .n_takes = 2,
                                   .data = { .kind = &match, .n_rows = m->n, .columns = &won } };
    const gpumc_hier_data data = { .name = "bradley_terry", .params = params, .n_params = 2, .priors = &prior,
                                   .n_priors = 1, .rows = &rows, .n_rows = 1, .threads = r->options.threads };
    gpumc_error error;
    gpumc_hier *hier = gpumc_hier_create(&data, &error);
    gpumc_fit fit;
    int status;
    if (!hier) return run_failed(error.text);
    if (gpumc_sample(gpumc_hier_model(hier), &r->options, &fit) != GPUMC_OK) status = run_failed(fit.message);
    else {
        report_truth(&fit, m);
        status = run_report(r, &fit);
    }
    gpumc_free(&fit);
    gpumc_hier_free(hier);
    return status;
}

int main(int argc, char **argv)
{
    struct matches m = { 0 };
    run r = { .summary = NULL };
    int size = 100, rows = 2000, status;
    uint64_t data_seed = 42;
    const argument own[] = {
        { "size", WHOLE, &size, "players (100)" },
        { "rows", WHOLE, &rows, "matches (2000)" },
        { "data_seed", SEED, &data_seed, "of the data (42)" },
    };
    status = arguments_read(argc, argv, &r, own, sizeof own / sizeof *own);
    if (status != GO_ON) return status;
    if (size < 2 || rows < 1) return run_failed("size must be 2 or more, rows 1 or more");
    m.n_players = (size_t)size;
    m.n = (size_t)rows;
    status = matches_generate(&m, data_seed) ? sample(&m, &r) : run_failed("out of memory");
    free(m.winner);
    free(m.loser);
    free(m.won);
    free(m.skill);
    return status;
}
