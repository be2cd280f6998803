/* The calibration test with 4000 simulations a model instead of 400. */
#define N_SIMULATIONS 4000
#include "test_sbc.c"
