/* Ranks of true values among draws, in pools that must each be uniform: the spread is judged by chi-square over ten
   bins, a shift by the mean rank. */
#ifndef RANKS_H
#define RANKS_H
#include <math.h>

enum { N_RANKED = 100, N_BINS = 10, MOST_POOLS = 24 };          /* draws among which a value is ranked */
typedef struct tally {
    double bins[MOST_POOLS][N_BINS], sum[MOST_POOLS], n[MOST_POOLS];
    int n_runs, n_doubted;
} tally;

/* less: how many draws are; jitter: uniform on 0..1. */
static void count_rank(tally *t, int pool, double less, double jitter)
{
    const double u = (less + jitter) / (N_RANKED + 1);
    t->bins[pool][(int)fmin(N_BINS * u, N_BINS - 1)]++;
    t->sum[pool] += u - 0.5;
    t->n[pool]++;
}

/* The smallest of the p-values of all pools with 20 ranks or more, spread and shift. */
static double least_p(const tally *t, const char *const *names, int n_pools, const char *what)
{
    double least = 1;
    for (int k = 0; k < n_pools; k++) {
        double chi = 0;
        const double n = t->n[k], z = n > 0 ? t->sum[k] / sqrt(n / 12) : 0;
        for (int b = 0; b < N_BINS && n > 0; b++) chi += pow(t->bins[k][b] - n / N_BINS, 2) / (n / N_BINS);
        const double spread = exp(gpumc_chi_square_lccdf(chi, N_BINS - 1, NULL, NULL));
        const double shift = 2 * exp(gpumc_std_normal_lccdf(fabs(z), NULL));
        printf("%s: %-26s %5.0f ranks, p-values %.4f (spread) and %.4f (shift)\n", what, names[k], n, spread, shift);
        if (n >= 20) least = fmin(least, fmin(spread, shift));
    }
    return least;
}
#endif
