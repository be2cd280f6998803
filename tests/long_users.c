/* The users' models with more seeds. */
#define N_SEEDS 100
#include "test_users.c"
