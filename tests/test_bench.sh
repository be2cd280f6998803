#!/bin/sh
# The programs of bench/ that need no GPU run to their end, each at its smallest size, and print figures: programs
# that nobody runs for weeks would otherwise break unnoticed. The values of the figures are not checked.
. ./check.sh
cd ..

# runs FIGURES PROGRAM ARGUMENT...: built with GPUMC_STATIC, the program prints FIGURES lines with a figure
runs() {
    figures=$1 program=$2
    shift 2
    [ -x "$scratch/$program" ] \
        || ${CC:-cc} -O1 -DGPUMC_STATIC bench/$program.c -o "$scratch/$program" -lm -pthread || return
    (cd "$scratch" && "./$program" "$@" >figures) || return
    cat "$scratch/figures"
    [ "$(grep -v '^command' "$scratch/figures" | grep -cE ' [0-9]+\.[0-9]+')" -ge "$figures" ]
}

check 'glm' runs 1 glm 1 small
check 'kernels' runs 8 kernels
check 'output' runs 1 output folder="$scratch" repeats=1
check 'sampler targets' runs 8 sampler targets seeds=1
check 'sampler overhead' runs 3 sampler overhead seeds=1
finish
