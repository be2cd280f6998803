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
/* Has no density below 0. */
GPUMC_ROW(device_positive, 1, 0, 1) { return gpumc_lognormal_lpdf(x[0], p[0], 1, NULL, &g[0], NULL); }
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
/* A mixture over the nodes, two stages: a normal variable whose mean moves with the node. */
GPUMC_CELLS(device_mixture, 2, 1, 2, 2)
{
    gpumc_real by[3] = { 0, 0, 0 };
    const gpumc_real lp = gpumc_normal_lpdf(x[1], p[0] + p[1] * x[2] + x[0], p[2], NULL, &by[0], &by[2]);
    const gpumc_real mass = x[3] * gpumc_exp(lp);
    g[0] = mass * by[0];
    g[1] = mass * by[0] * x[2];
    g[2] = mass * by[2];
    return mass;
}
GPUMC_FINISH(device_mixture)
{
    GPUMC__FLAT for (int k = 0; k < 3; k++) g[k] = sum[1 + k] / sum[0];
    return gpumc_log(sum[0]);
}
