/* Rows of bench/device.c, compiled by cc and by nvcc alike. */
GPUMC_ROW(bench_normal, 1, 1, 1) { return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]); }
GPUMC_ROW(bench_logit, 2, 0, 2)
{
    gpumc_real r = 0;
    const gpumc_real value = gpumc_bernoulli_logit_lpmf(x[0], p[0] + p[1] * x[1], &r);
    g[0] = r;
    g[1] = r * x[1];
    return value;
}
