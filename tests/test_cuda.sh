#!/bin/sh
# Compiles the leaf functions, the team and gpumc_cuda.cu as CUDA device code for the architectures from sm_75 on that
# the installed nvcc knows (one per family; with make long all of them): warnings are errors, and no register may
# spill. This needs no GPU. GPUMC_CUDA_ARCHS limits the architectures, as in GPUMC_CUDA_ARCHS="75 90".
. ./check.sh
if ! have nvcc; then
    skip 'no nvcc: CUDA device code'
    finish
fi
known=$(nvcc --list-gpu-arch | sed -nE 's/^compute_([0-9]+)$/\1/p' | awk '$1 >= 75' | sort -un)
archs=${GPUMC_CUDA_ARCHS:-$known}
set -- $archs
oldest=$1
for newest; do :; done
strict='-std=c++17 -O3 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-function'

source_of() { if [ "$1" = gpumc_cuda ]; then echo ../gpumc_cuda.cu; else echo "$1.cu"; fi; }

# compile NAME ARCH [FLAG...]: compiles device code alone (output=-cubin) or with the host's code (output=-c); the
# assembler's report goes to $scratch/NAME.ARCH, its input to $scratch/ARCH/NAME.ptx
output=-cubin
compile() {
    name=$1 arch=$2
    shift 2
    mkdir -p "$scratch/$arch"
    nvcc $strict -Xptxas -v,-warn-spills -gencode arch=compute_"$arch",code=sm_"$arch" "$@" \
        --keep --keep-dir "$scratch/$arch" $output "$(source_of "$name")" -o "$scratch/object" \
        >"$scratch/$name.$arch" 2>&1 && return
    grep -m 5 -E 'error|warning' "$scratch/$name.$arch"
    return 1
}
# assemble NAME ARCH [FLAG...]: assembles for ARCH the PTX that the compiler made for the oldest architecture
assemble() {
    name=$1 arch=$2
    shift 2
    ptxas -v -warn-spills -Werror "$@" -arch=sm_"$arch" "$scratch/$oldest/$name.ptx" \
        -o "$scratch/object" >"$scratch/$name.$arch" 2>&1 && return
    grep -m 5 -E 'error|warning' "$scratch/$name.$arch"
    return 1
}
# The largest number of registers of any kernel, and the bytes spilled by all.
registers() { sed -nE 's/.*Used ([0-9]+) registers.*/\1/p' "$1" | sort -n | tail -n 1; }
spilled() {
    awk '/spill stores/ { for (i = 2; i <= NF; i++) if ($i == "spill") n += $(i - 2) }
         END { print n + 0 }' "$1"
}
kernels() { grep -c 'Used .* registers' "$1"; }
no_spills() {
    echo "$(kernels "$1") kernels, $(spilled "$1") bytes spilled"
    [ "$(spilled "$1")" = 0 ] && [ "$(kernels "$1")" -gt 0 ]
}

# device HOW NAME ARCH [FLAG...]: checks that HOW (compile or assemble) succeeds and that no kernel spills
device() {
    how=$1
    shift
    check "$1, sm_$2" $how "$@"
    check "$1, sm_$2: no spills" no_spills "$scratch/$1.$2"
    report=$scratch/$1.$2
    echo "$1, sm_$2: $(kernels "$report") kernels, at most $(registers "$report") registers"
}

# The oldest architecture (gpumc_cuda.cu with its host code) and the newest go through the compiler; no source tests
# __CUDA_ARCH__, so those between need only the assembler. Leaf functions keep everything in registers: for them local
# memory is an error too. With make long also what takes the compiler longest: the team for the newest, and
# gpumc_cuda.cu in single precision.
ends=$(printf '%s\n' "$oldest" "$newest" | sort -u)
between=$(printf '%s\n' $archs | grep -vxF "$ends")
[ -n "${LONG:-}" ] || between=$(echo "$between" | awk '{ family = int($1 / 10) } !seen[family]++')
printf '#include "tests/device_rows.h"\n#include "examples/verify_rows.h"\n' >"$scratch/rows.h"
rows="-I.. -DGPUMC_ROWS=\"$scratch/rows.h\""
for arch in $ends; do device compile leaf "$arch" -Xptxas -warn-lmem-usage; done
output=-c
device compile gpumc_cuda "$oldest" $rows
output=-cubin
[ "$newest" = "$oldest" ] || device assemble gpumc_cuda "$newest"
device compile team "$oldest"
[ -z "${LONG:-}" ] || [ "$newest" = "$oldest" ] || device compile team "$newest"
[ -z "${LONG:-}" ] || device compile gpumc_cuda "$newest" $rows -DGPUMC_REAL=float
check_fails 'a source asks for the architecture' grep __CUDA_ARCH__ ../gpumc.h ../gpumc_cuda.cu leaf.cu
for arch in $between; do
    device assemble leaf "$arch" -warn-lmem-usage
    device assemble gpumc_cuda "$arch"
done
# The rows of the stop-signal models, in one stage and in two: 40 s per architecture, so only with make long.
stop_rows="-I.. -DGPUMC_ROWS=\"examples/stop_signal_rows.h\""
if [ -n "${LONG:-}" ]; then for arch in $archs; do device compile gpumc_cuda "$arch" $stop_rows; done; fi

# Where there is a GPU, kernels are launched too: by the same program that test_device.sh runs on the CPU.
if nvidia-smi >/dev/null 2>&1; then
    check 'gpumc_cuda.cu for this GPU' nvcc $strict -arch=native $rows -c ../gpumc_cuda.cu -o "$scratch/cuda.o"
    check 'a program with it' sh -c "cc -std=c99 -O1 -DGPUMC_STATIC -DGPUMC_IMPLEMENTATION \
            -DGPUMC_CUDA -c test_hot.c -o $scratch/device.o
        && nvcc $scratch/device.o $scratch/cuda.o -o $scratch/device"
    check 'sums on the GPU' sh -c "$scratch/device >$scratch/output && ! grep -q ^skipped $scratch/output ||
        { grep failed: $scratch/output; tail -n 1 $scratch/output; false; }"
else
    skip 'no GPU: launches of gpumc_cuda.cu'
fi

spills_noticed() { compile leaf "$oldest" -DSPILL && no_spills "$scratch/leaf.$oldest"; }
check_fails 'a kernel that spills must be noticed' spills_noticed

# The whole header in a file that nvcc compiles for the host, without optimisation: test_compilers.sh covers that.
cat >"$scratch/host.cu" <<'C'
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
int main() { return gpumc_exp(0) != 1; }
C
check 'the implementation through nvcc' \
    nvcc $strict -O0 -I.. -arch=sm_"$oldest" "$scratch/host.cu" -o "$scratch/host"
check 'and it runs' "$scratch/host"
finish
