/* The samplers that a test of draws goes through: those of SAMPLERS, or only the one that the program's first
   argument names. To be included after gpumc.h. */
#ifndef SAMPLERS_H
#define SAMPLERS_H

#ifndef SAMPLERS
#define SAMPLERS GPUMC_SAMPLER_AUTO, GPUMC_SAMPLER_NUTS              /* long_*.c: all four */
#endif
static const char *const sampler_names[] = { "auto", "nuts", "mams", "hmc" };

/* Stores the k-th of them; returns 0 when there are no more. */
static int sampler_at(size_t k, int argc, char **argv, gpumc_sampler *sampler)
{
    static const gpumc_sampler samplers[] = { SAMPLERS };
    const size_t n = argc > 1 ? 1 : sizeof samplers / sizeof *samplers;
    size_t named = 0;
    while (argc > 1 && named < 4 && strcmp(argv[1], sampler_names[named]) != 0) named++;
    if (k >= n || named == 4) return 0;
    *sampler = argc > 1 ? (gpumc_sampler)named : samplers[k];
    return 1;
}
#endif
