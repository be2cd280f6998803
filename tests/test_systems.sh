#!/bin/sh
# Systems other than this machine's. For macOS, the BSDs and Windows on ARM the header must compile without a warning,
# by a clang newer than the system's; with `make long` it must also link, and the examples compile; nothing is run.
# Programs for WebAssembly run in wasmtime and must make the draws of this machine. The compiler (zig, with the
# headers and libraries of every system) and wasmtime are Python packages, installed once to build/systems. Programs
# for 32-bit x86, by a cross compiler, run directly.
. ./check.sh
pins="ziglang==0.17.1 wasmtime==50.0.1"
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
export ZIG_GLOBAL_CACHE_DIR="$tests/build/zig" ZIG_LOCAL_CACHE_DIR="$tests/build/zig" QUICK=1

# ---- 32 bits: sizes overflow sooner, and doubles are aligned to 4 bytes
cross='i686-linux-gnu-gcc -msse2 -mfpmath=sse' emulator=
if have i686-linux-gnu-gcc; then
    [ -z "${LONG:-}" ] || check 'the implementation for 32 bits' \
        $cross -std=c99 -O1 $warnings -DGPUMC_IMPLEMENTATION -x c -c ../gpumc.h -o "$scratch/gpumc.o"
    for name in test_checkpoint ${LONG:+test_centring test_diagnose test_glm test_hier test_mams test_nuts
                test_output test_platform test_rows test_zarr}; do
        check "$name in 32 bits" emulated -O1 $name
    done
else skip 'no i686-linux-gnu-gcc: 32 bits'; fi

provide build/systems "$pins" || { skip 'no zig or wasmtime from PyPI: macOS, the BSDs, WebAssembly'; finish; }
zig() { language=$1; shift; "$tests/build/systems/bin/python" -m ziglang $language "$@"; }

# ---- compiled: GPUMC_STATIC, so that code is generated only for what is used; -O2, which turns on checks of the C
# library that replace its functions by macros
printf '#define GPUMC_STATIC\n#define GPUMC_IMPLEMENTATION\n#include "%s/gpumc.h"
int main(void) { return gpumc_exp(0) != 1; }\n' "${PWD%/*}" >"$scratch/main.c"
cp "$scratch/main.c" "$scratch/main.cc"
sed '/GPUMC_STATIC/d' "$scratch/main.c" >"$scratch/whole.c"
for system in aarch64-macos x86_64-freebsd x86_64-netbsd x86_64-openbsd aarch64-windows-gnu wasm32-wasi; do
    for standard in c99 c23; do
        check "$system -std=$standard" zig cc -target $system -std=$standard -O2 $warnings -c "$scratch/main.c" \
            -o "$scratch/main.o"
    done
    check "$system -std=c++11" zig c++ -target $system -std=c++11 -O2 $warnings -c "$scratch/main.cc" \
        -o "$scratch/main.o"
done
mkdir "$scratch/wrong"
sed 's/extern int fsync(int/extern long fsync(int/' ../gpumc.h >"$scratch/wrong/gpumc.h"
sed 's|".*/gpumc.h"|"gpumc.h"|' "$scratch/main.c" >"$scratch/wrong/main.c"
check_fails 'a function declared otherwise than macOS has it' \
    zig cc -target aarch64-macos -c "$scratch/wrong/main.c" -o "$scratch/main.o"

# The whole implementation, linked; and the examples, compiled.
if [ -n "${LONG:-}" ]; then
    for system in aarch64-macos x86_64-macos x86_64-freebsd x86_64-netbsd x86_64-openbsd aarch64-windows-gnu; do
        check "$system: linked" zig cc -target $system -O1 "$scratch/whole.c" -o "$scratch/program" -lm
        for source in ../examples/*.c; do
            check "$system: $source" zig cc -target $system $warnings -c "$source" -o "$scratch/main.o"
        done
    done
fi

# ---- WebAssembly
cat >"$scratch/run.py" <<'PY'
import sys, wasmtime
engine = wasmtime.Engine()
linker, store, wasi = wasmtime.Linker(engine), wasmtime.Store(engine), wasmtime.WasiConfig()
linker.define_wasi()
wasi.argv = sys.argv[1:]
wasi.inherit_stdout()
wasi.inherit_stderr()
wasi.preopen_dir(".", ".")
store.set_wasi(wasi)
program = linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1]))
try:
    program.exports(store)["_start"](store)
except wasmtime.ExitTrap as end:
    sys.exit(end.code)
PY
cd "$scratch" || exit 1
schools="$tests/../examples/eight_schools.c"
check 'eight schools for WebAssembly' zig cc -target wasm32-wasi -O1 -D_WASI_EMULATED_SIGNAL \
    -lwasi-emulated-signal "$schools" -o schools.wasm -lm
check 'eight schools for this machine' built build/eight_schools
check 'eight schools here' "$tests/build/eight_schools" csv=here summary=here.csv
check 'eight schools there' "$tests/build/systems/bin/python" run.py schools.wasm csv=there summary=there.csv
check 'the same summary to the last digit' cmp here.csv there.csv
echo >>there.csv
check_fails 'a summary that differs passes' cmp here.csv there.csv
finish
