/* Loops of fixed length over every leaf, for test_math_builds.sh, which reads their machine code. */
#include "../gpumc.h"
#include <math.h>
#define LOOPS_LENGTH 1024
#include "math_loops.h"

#ifdef BROKEN
LOOPS_DEFINE(, baseline, broken, x < 0 ? exp(x) : x)
loops_fn *vector_broken(void);
loops_fn *vector_broken(void) { return loops_broken_baseline; }
#endif

loops_fn *vector_loop(size_t leaf, int set);
loops_fn *vector_loop(size_t leaf, int set)
{
    return set < loops_sets() ? loops_leaves[leaf].run[set] : NULL;
}
