#!/bin/sh
# The mathematics, the generator, rows and a whole run on 64-bit ARM, by a cross compiler and user-mode
# emulation: another instruction set, where multiply-adds are always fused. `make long` adds densities and threads.
. ./check.sh
export QUICK=1
crossed aarch64 aarch64-linux-gnu-gcc

check 'the implementation' \
    $cross -std=c99 -O2 -DGPUMC_IMPLEMENTATION -x c -c ../gpumc.h -o "$scratch/gpumc.o"
for name in test_math test_rng test_special test_transform test_rows ${LONG:+test_dist test_threads}; do
    [ -f $name.c ] && check "$name on aarch64" emulated -O2 $name
done

# Eight schools: the posterior mean of mu is 4.4 and of tau 3.6.
eight_schools() {
    emulated -O2 ../examples/eight_schools || return 1
    awk '$1 == "mu" { mu = $2 }
         $1 == "tau" { tau = $2 }
         END { exit !(mu > 3.9 && mu < 4.9 && tau > 3.1 && tau < 4.1) }' "$scratch/output"
}
check 'eight schools on aarch64' eight_schools
finish
