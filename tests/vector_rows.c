/* Rows and cells for test_vectors.sh, which reads the machine code of their loops. */
#include "../gpumc.h"
#include <math.h>

#ifdef BROKEN
GPUMC_ROW(vector_broken, 1, 0, 1)
{
    const gpumc_real e = exp(x[0] - p[0]);
    g[0] = e;
    return -e;
}
#elif defined(RATINGS)
GPUMC_ROW(vector_ratings, 6, 0, 1)
{
    const gpumc_real y = x[0];
    const gpumc_real c = y == 0 ? p[1] : y == 1 ? p[2] : y == 2 ? p[3] : y == 3 ? p[4] : p[5], z = c - p[0];
    g[0] = y == 4 ? -1 / gpumc_mills(z) : 1 / gpumc_mills(-z);
    return y == 4 ? gpumc_log_Phi(-z) : gpumc_log_Phi(z);
}
#else
GPUMC_ROW(vector_normal, 2, 0, 1)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}
GPUMC_ROW(vector_lognormal, 1, 1, 1)
{
    return gpumc_lognormal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}
GPUMC_ROW(vector_logit, 1, 3, 4)
{
    gpumc_real d = 0;
    const gpumc_real eta = p[0] + p[1] * x[1] + p[2] * x[2] + p[3] * x[3];
    const gpumc_real value = gpumc_bernoulli_logit_lpmf(x[0], eta, &d);
    g[0] = d;
    g[1] = d * x[1];
    g[2] = d * x[2];
    g[3] = d * x[3];
    return value;
}
GPUMC_ROW(vector_wald, 3, 0, 1)
{
    const gpumc_real t = x[0] - p[2], inv = 1 / t, d = p[0] - p[1] * t, dt = d * inv;
    g[0] = 1 / p[0] - dt;
    g[1] = d;
    g[2] = GPUMC_R(1.5) * inv - dt * (p[1] + GPUMC_R(0.5) * dt);
    return gpumc_log(p[0]) - GPUMC_R(GPUMC_LOG_SQRT_2PI) - GPUMC_R(1.5) * gpumc_log(t)
           - GPUMC_R(0.5) * d * dt;
}
GPUMC_ROW(vector_poisson, 1, 0, 1) { return gpumc_poisson_lpmf(x[0], p[0], &g[0]); }
GPUMC_ROW(vector_count, 0, 2, 2)
{
    gpumc_real d = 0;
    const gpumc_real value = gpumc_poisson_log_lpmf(x[0], p[0] + p[1] * x[1], &d);
    g[0] = d;
    g[1] = d * x[1];
    return value;
}
GPUMC_ROW(vector_wiener, 4, 0, 2)
{
    return gpumc_wiener_lpdf(x[0], x[1], p[0], p[1], p[2], p[3], NULL, &g[0], &g[1], &g[2], &g[3]);
}
GPUMC_ROW(vector_modified, 3, 0, 1)
{
    return gpumc_exp_mod_normal_lpdf(x[0], p[0], p[1], p[2], NULL, &g[0], &g[1], &g[2]);
}
GPUMC_ROW(vector_skewed, 3, 0, 1)
{
    return gpumc_skew_normal_lpdf(x[0], p[0], p[1], p[2], NULL, &g[0], &g[1], &g[2]);
}
GPUMC_ROW(vector_extreme, 3, 0, 1) { return gpumc_gev_lpdf(x[0], p[0], p[1], p[2], NULL, &g[0], &g[1], &g[2]); }
GPUMC_ROW(vector_excess, 3, 0, 1)
{
    return gpumc_gen_pareto_lccdf(x[0], p[0], p[1], p[2], NULL, &g[0], &g[1], &g[2]);
}
GPUMC_ROW(vector_passage, 2, 0, 1) { return gpumc_inv_gaussian_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]); }
GPUMC_ROW(vector_race, 2, 0, 1) { return gpumc_inv_gaussian_lccdf(x[0], p[0], p[1], NULL, &g[0], &g[1]); }
GPUMC_ROW(vector_survival, 2, 0, 1) { return gpumc_loglogistic_lccdf(x[0], p[0], p[1], NULL, &g[0], &g[1]); }
GPUMC_ROW(vector_angle, 2, 0, 1) { return gpumc_von_mises_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]); }
GPUMC_ROW(vector_overspread, 2, 0, 2)
{
    return gpumc_beta_binomial_lpmf(x[0], x[1], p[0], p[1], &g[0], &g[1]);
}
GPUMC_ROW(vector_inflated, 2, 0, 1)
{
    gpumc_real d = 0, weight = 0;
    const gpumc_real log_p = gpumc_poisson_lpmf(x[0], p[1], &d);
    const gpumc_real value = gpumc_zero_inflated(x[0], log_p, p[0], &weight, &g[0]);
    g[1] += weight * d;
    return value;
}
GPUMC_ROW(vector_tail, 2, 0, 1) { return gpumc_normal_lccdf(x[0], p[0], p[1], NULL, &g[0], &g[1]); }

GPUMC_CELLS(vector_mixture, 1, 1, 1, 2)
{
    const gpumc_real d = x[0] - p[0] - p[1] * x[1], part = x[2] * gpumc_exp(GPUMC_R(-0.5) * d * d);
    g[0] = part * d;
    g[1] = part * d * x[1];
    return part;
}
GPUMC_FINISH(vector_mixture)
{
    const gpumc_real inv = 1 / sum[0];
    g[0] = sum[1] * inv;
    g[1] = sum[2] * inv;
    return gpumc_log(sum[0]);
}
#endif

const gpumc_row_kind *vector_row(int i);
const gpumc_row_kind *vector_row(int i)
{
    static const gpumc_row_kind *const all[] = {
#ifdef BROKEN
        &vector_broken,
#elif defined(RATINGS)
        &vector_ratings,
#else
        &vector_normal, &vector_lognormal, &vector_logit, &vector_wald, &vector_poisson, &vector_count,
        &vector_wiener, &vector_modified, &vector_skewed, &vector_extreme, &vector_excess, &vector_passage,
        &vector_race, &vector_survival, &vector_angle, &vector_overspread, &vector_inflated, &vector_tail,
        &vector_mixture,
#endif
    };
    return all[i];
}
