// team.cu: the no-U-turn state machine as device code, one chain a block, for test_cuda.sh: the same text
// that the CPU runs with a team of one. Every member has scalars of its own and computes them alike; the
// vectors are the block's. Compiled only: whoever launches this places the states.
#if defined(__CUDA_ARCH__)
__device__ double team_sum(double x)
{
    __shared__ double parts[32];
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (unsigned i = 0; i < (blockDim.x + 31) / 32; i++) x += parts[i];
    return x;
}
#define GPUMC_TEAM_SIZE blockDim.x
#define GPUMC_TEAM_RANK threadIdx.x
#define GPUMC_TEAM_SUM(x) team_sum(x)
#define GPUMC_TEAM_SYNC() __syncthreads()
#endif
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"

// Independent standard normals, n draws of a chain into out.
__global__ void run_chains(gpumc_nuts **members, size_t dim, size_t n_draws, double *gradients, double *out)
{
    gpumc_nuts *s = members[blockIdx.x * blockDim.x + threadIdx.x];
    double *grad = gradients + blockIdx.x * dim;
    for (size_t done = 0; done < n_draws;) {
        const double *q = gpumc_nuts_ask(s);
        double lp = 0;
        for (size_t i = threadIdx.x; i < dim; i += blockDim.x) {
            lp -= q[i] * q[i] / 2;
            grad[i] = -q[i];
        }
        lp = GPUMC_TEAM_SUM(lp);
        if (!gpumc_nuts_tell(s, lp, grad)) continue;
        for (size_t i = threadIdx.x; i < dim; i += blockDim.x)
            out[(blockIdx.x * n_draws + done) * dim + i] = gpumc_nuts_draw(s)[i];
        done++;
    }
}
