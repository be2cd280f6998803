/* The targets with ten times as many draws, which shows errors a third as large, and other seeds. */
#define N_DRAWS 40000
#define SEED 1000
#include "test_targets.c"
