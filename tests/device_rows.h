/* Rows of the tests and the benchmark of gpumc_cuda.cu, compiled by cc and by nvcc alike. */
GPUMC_ROW(device_normal, 1, 1, 1) { return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]); }
GPUMC_ROW(device_student, 2, 2, 2)
{
    gpumc_real eta = 0;
    const gpumc_real value = gpumc_student_t_lpdf(x[0], p[3], p[0] + p[2] * x[1], p[1], NULL, &g[3], &eta, &g[1]);
    g[0] = eta;
    g[2] = eta * x[1];
    return value;
}
/* A logistic regression, of every group its own and of all together. */
GPUMC_FN gpumc_real device_line(const gpumc_real *p, const gpumc_real *x, gpumc_real *g)
{
    gpumc_real eta = 0;
    const gpumc_real value = gpumc_bernoulli_logit_lpmf(x[0], p[0] + p[1] * x[1], &eta);
    g[0] = eta;
    g[1] = eta * x[1];
    return value;
}
GPUMC_ROW(device_logit, 2, 0, 2) { return device_line(p, x, g); }
GPUMC_ROW(device_shared, 0, 2, 2) { return device_line(p, x, g); }
