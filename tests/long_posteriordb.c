/* The comparison with posteriordb for all posteriors and 20 seeds each. */
#define N_SEEDS 20
#include "test_posteriordb.c"
