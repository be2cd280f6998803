/* The calibration test with 4000 simulations a model instead of 1000. */
#define N_SIMULATIONS 4000
#define SAMPLERS GPUMC_SAMPLER_AUTO, GPUMC_SAMPLER_NUTS, GPUMC_SAMPLER_MAMS, GPUMC_SAMPLER_HMC
#include "test_sbc.c"
