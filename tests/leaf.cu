// leaf.cu: every leaf function in a kernel of its own, for test_cuda.sh, which compiles it for every
// architecture and reads registers and spills off the assembler. The families come from the header's own
// list.
#include "../gpumc.h"

#define INDEX (blockIdx.x * (size_t)blockDim.x + threadIdx.x)

// ---- elementary functions -----------------------------------------------------------------------

#define UNARY(X) \
    X(exp) X(expm1) X(log) X(log1p) X(sqrt) X(rsqrt) X(fabs) X(floor) X(erf) X(erfc) X(erfcx) X(Phi) \
    X(log_Phi) X(mills) X(mills_excess) X(inv_Phi) X(lgamma) X(digamma) X(log1p_exp) X(logit) X(inv_logit) \
    X(tanh)
#define UNARY_KERNEL(name) \
    __global__ void math_##name(const gpumc_real *x, gpumc_real *out) { out[INDEX] = gpumc_##name(x[INDEX]); }
UNARY(UNARY_KERNEL)

#define BINARY_KERNEL(name) \
    __global__ void math_##name(const gpumc_real *x, gpumc_real *out) \
    { \
        out[INDEX] = gpumc_##name(x[INDEX], out[INDEX]); \
    }
BINARY_KERNEL(log_sum_exp)
BINARY_KERNEL(lbeta)
__global__ void math_sincos_2pi(const double *x, double *out)
{
    double sine, cosine;
    gpumc_sincos_2pi(x[INDEX], &sine, &cosine);
    out[INDEX] = sine + 2 * cosine;
}

// ---- families: value and every derivative -------------------------------------------------------

#define ARGUMENTS(n) const gpumc_real *x = in + (n) * INDEX; gpumc_real g[(n)] = { 0 }, value
#define CALL_REAL_0(name) ARGUMENTS(1); value = name(x[0], &g[0]); out[INDEX] = value + g[0]
#define CALL_REAL_1(name) ARGUMENTS(2); value = name(x[0], x[1], &g[0], &g[1]); \
    out[INDEX] = value + g[0] + g[1]
#define CALL_REAL_2(name) ARGUMENTS(3); value = name(x[0], x[1], x[2], &g[0], &g[1], &g[2]); \
    out[INDEX] = value + g[0] + g[1] + g[2]
#define CALL_REAL_3(name) ARGUMENTS(4); value = name(x[0], x[1], x[2], x[3], &g[0], &g[1], &g[2], &g[3]); \
    out[INDEX] = value + g[0] + g[1] + g[2] + g[3]
#define CALL_COUNT_1(name) ARGUMENTS(2); value = name(x[0], x[1], &g[1]); out[INDEX] = value + g[1]
#define CALL_COUNT_2(name) ARGUMENTS(3); value = name(x[0], x[1], x[2], &g[1], &g[2]); \
    out[INDEX] = value + g[1] + g[2]
#define CALL_TRIALS_1(name) ARGUMENTS(3); value = name(x[0], x[1], x[2], &g[2]); out[INDEX] = value + g[2]
#define CALL_TRIALS_2(name) ARGUMENTS(4); value = name(x[0], x[1], x[2], x[3], &g[2], &g[3]); \
    out[INDEX] = value + g[2] + g[3]

#define DENSITY_REAL_0(family) gpumc_##family##_lpdf
#define DENSITY_REAL_1(family) gpumc_##family##_lpdf
#define DENSITY_REAL_2(family) gpumc_##family##_lpdf
#define DENSITY_REAL_3(family) gpumc_##family##_lpdf
#define DENSITY_COUNT_1(family) gpumc_##family##_lpmf
#define DENSITY_COUNT_2(family) gpumc_##family##_lpmf
#define DENSITY_TRIALS_1(family) gpumc_##family##_lpmf
#define DENSITY_TRIALS_2(family) gpumc_##family##_lpmf

#define KERNEL(name, call) __global__ void name(const gpumc_real *in, gpumc_real *out) { call; }
#define CDF_CALL(shape, family)
#define CDF_LEAF(shape, family) \
    KERNEL(lcdf_##family, CALL_##shape(gpumc_##family##_lcdf)) \
    KERNEL(lccdf_##family, CALL_##shape(gpumc_##family##_lccdf))
#define FAMILY(shape, cdf, family, parameters, support) \
    KERNEL(density_##family, CALL_##shape(DENSITY_##shape(family))) \
    CDF_##cdf(shape, family)
GPUMC_FAMILIES(FAMILY)
KERNEL(density_von_mises, CALL_REAL_2(gpumc_von_mises_lpdf))
KERNEL(zero_inflated, ARGUMENTS(3); value = gpumc_zero_inflated(x[0], x[1], x[2], &g[0], &g[1]);
       out[INDEX] = value + g[0] + g[1])
KERNEL(density_wiener, ARGUMENTS(6);
       value = gpumc_wiener_lpdf(x[0], x[1], x[2], x[3], x[4], x[5], &g[0], &g[1], &g[2], &g[3], &g[4]);
       out[INDEX] = value + g[0] + g[1] + g[2] + g[3] + g[4])

#ifdef SPILL
// A kernel that cannot keep its values in registers: test_cuda.sh must notice.
__global__ void __launch_bounds__(1024, 2) spilling(const gpumc_real *in, gpumc_real *out)
{
    gpumc_real v[64], sum = 0;
    for (int i = 0; i < 64; i++) v[i] = in[INDEX * 64 + i];
    for (int i = 0; i < 64; i++) for (int k = 0; k < 64; k++) sum += gpumc_sqrt(v[i] * v[k] + sum);
    for (int i = 0; i < 64; i++) out[INDEX * 64 + i] = v[i] + sum;
}
#endif
