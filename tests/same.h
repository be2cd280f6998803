/* Whether two runs gave the same bits; after gpumc.h. */
#ifndef SAME_H
#define SAME_H
#include <string.h>

static __attribute__((unused)) int same_stats(const gpumc_draw_stats *a, const gpumc_draw_stats *b, size_t n)
{
    for (; n-- > 0; a++, b++)
        if (memcmp(&a->lp, &b->lp, 8 * sizeof(double)) != 0 || a->tree_depth != b->tree_depth
            || a->n_leapfrog != b->n_leapfrog || a->selected != b->selected || a->divergent != b->divergent
            || a->hit_max_treedepth != b->hit_max_treedepth)
            return 0;
    return 1;
}

static __attribute__((unused)) int same_doubles(const double *a, const double *b, size_t n)
{
    return (!a && !b) || (a && b && memcmp(a, b, n * sizeof(double)) == 0);
}

static __attribute__((unused)) int same_draws(const gpumc_fit *a, const gpumc_fit *b)
{
    return a->n_draws == b->n_draws && a->n_chains == b->n_chains && a->n_columns == b->n_columns
        && same_doubles(a->draws, b->draws, a->n_chains * a->n_draws * a->n_columns);
}
#endif
