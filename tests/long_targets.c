/* The targets with ten times as many draws, which shows errors a third as large, and other seeds, by every
   sampler. */
#define N_DRAWS 40000
#define SEED 1000
#define SAMPLERS GPUMC_SAMPLER_AUTO, GPUMC_SAMPLER_NUTS, GPUMC_SAMPLER_MAMS, GPUMC_SAMPLER_HMC
#include "test_targets.c"
