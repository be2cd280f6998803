/* The row of verify.c, in a file of its own so that nvcc can compile it for the GPU:
       nvcc -O3 -arch=native -c gpumc_cuda.cu -DGPUMC_ROWS='"examples/verify_rows.h"'                        */
GPUMC_ROW(measurement, 1 /* level of the group */, 1 /* sigma */, 1 /* y */)
{
    return gpumc_normal_lpdf(x[0], p[0], p[1], NULL, &g[0], &g[1]);
}
