#!/bin/sh
# Compiles the header in every language version that it promises, with warnings as errors, by gcc and by clang.
# Optimisation and the C library's checks, which reveal uninitialised values and overruns, are on where the Makefile
# compiles it by gcc -O2 and test_vectors.sh by clang; with make long this script adds gcc -O3, which inlines further,
# and clang at -O1 and -Os, where no warning about loops that were not vectorised may appear. A gpumc.h with a planted
# fault must be refused, to show that these checks can fail.
. ./check.sh

warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion -Wundef
          -Wcast-align -Wformat=2 -Wvla -Wpointer-arith -Wwrite-strings -Werror -I..'
c_warnings="$warnings -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition"

cat >"$scratch/declarations.c" <<'C'
#include "gpumc.h"
#include "gpumc.h"
int main(void) { return gpumc_exp(0) != 1; }
C
printf '#define GPUMC_IMPLEMENTATION\n' | cat - "$scratch/declarations.c" >"$scratch/implementation.c"
printf '#define GPUMC_STATIC\n' | cat - "$scratch/implementation.c" >"$scratch/static.c"
for file in declarations implementation static; do cp "$scratch/$file.c" "$scratch/$file.cc"; done

for compiler in gcc clang; do
    if ! have $compiler; then skip "no $compiler"; continue; fi
    for standard in c99 c11 c17 gnu11; do
        for file in declarations implementation static; do
            check "$compiler -std=$standard: $file" \
                $compiler -std=$standard $c_warnings -fsyntax-only "$scratch/$file.c"
        done
    done
done
if have gcc && [ -n "${LONG:-}" ]; then
    check 'gcc -O3' gcc -std=c99 -O3 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 $c_warnings \
        "$scratch/implementation.c" -o "$scratch/program" -lm -pthread
    check 'gcc -O3: the program runs' "$scratch/program"
fi

if have clang && [ -n "${LONG:-}" ]; then
    # Without its pragma the header must provoke that warning from clang, or the check shows nothing.
    mkdir "$scratch/told"
    sed 's/ _Pragma("clang diagnostic ignored [^)]*)//' ../gpumc.h >"$scratch/told/gpumc.h"
    for level in -O1 -Os; do
        check "clang $level" clang -std=c99 $level $c_warnings -c "$scratch/implementation.c" \
            -o "$scratch/object"
    done
    check_fails 'clang -O1 must refuse what it cannot vectorise, without the pragma' \
        clang -std=c99 -O1 -I"$scratch/told" $c_warnings -c "$scratch/implementation.c" -o "$scratch/object"
fi

for compiler in g++ clang++; do
    if ! have $compiler; then skip "no $compiler"; continue; fi
    for standard in c++11 c++17 c++20; do
        for file in declarations implementation static; do
            check "$compiler -std=$standard: $file" \
                $compiler -std=$standard -fno-exceptions -fno-rtti $warnings -fsyntax-only "$scratch/$file.cc"
        done
    done
    # g++ takes four times as long, and test_header.sh runs programs by it.
    [ $compiler = g++ ] && have clang++ && [ -z "${LONG:-}" ] && continue
    check "$compiler: a program" $compiler -std=c++11 -O0 -fno-exceptions -fno-rtti $warnings \
        "$scratch/implementation.cc" -o "$scratch/program" -pthread
    check "$compiler: the program runs" "$scratch/program"
done

# windows.h defines these names as macros; test_windows.sh uses the real windows.h.
taken='-Dnear= -Dfar= -DNEAR= -DFAR= -DIN= -DOUT= -DOPTIONAL= -Dsmall=char -Dhyper=__int64 -Dinterface=struct'
for compiler in gcc clang; do
    have $compiler && check "$compiler: names that windows.h takes" \
        $compiler -std=c99 $taken $c_warnings -fsyntax-only "$scratch/implementation.c"
done

# Without threads: no pthread, nothing left unused.
printf '#define GPUMC_NO_THREADS\n' | cat - "$scratch/implementation.c" >"$scratch/no_threads.c"
for compiler in gcc clang; do
    have $compiler || continue
    check "$compiler: GPUMC_NO_THREADS" $compiler -std=c99 $c_warnings -fsyntax-only "$scratch/no_threads.c"
done
no_pthread() {
    $1 -std=c99 -O0 -I.. -c "$scratch/no_threads.c" -o "$scratch/no_threads.o" || return 1
    ! nm "$scratch/no_threads.o" | grep pthread
}
for compiler in clang gcc; do
    have $compiler && check "$compiler: GPUMC_NO_THREADS uses no pthread" no_pthread $compiler && break
done

# Another C library, musl (that of Alpine), linked statically, as for a machine where nothing can be installed.
if have musl-gcc; then
    check 'musl' musl-gcc -std=c99 $c_warnings -fsyntax-only "$scratch/implementation.c"
    # The threads of musl have a stack of 128 kB by default.
    mkdir "$scratch/deep"
    cat >"$scratch/deep/deep.c" <<'C'
#define GPUMC_STATIC
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
static double log_density(const double *x, double *grad, void *data)
{
    volatile double work[100000];
    (void)data;
    for (int i = 0; i < 100000; i++) work[i] = x[0];
    return gpumc_normal_lpdf(work[x[0] > 0 ? 99999 : 0], 0, 1, &grad[0], NULL, NULL);
}
int main(void)
{
    gpumc_param x = { .name = "x" };
    gpumc_model model = { .params = &x, .n_params = 1, .log_density = log_density };
    gpumc_sample_options o = { .num_warmup = 20, .num_samples = 10, .threads = 4 };
    gpumc_fit fit;
    return gpumc_sample(&model, &o, &fit) != GPUMC_OK;
}
C
    deep() {
        sed "$1" ../gpumc.h >"$scratch/deep/gpumc.h"
        musl-gcc -O1 -static "$scratch/deep/deep.c" -o "$scratch/deep/program" -lm -pthread
    }
    check 'musl: a density with 800 kB on the stack' deep ''
    check 'musl: it runs in every thread' "$scratch/deep/program"
    if [ -n "${LONG:-}" ]; then
        check 'musl: the same with the stack that threads usually have' deep 's/(size_t)8 << 20/(size_t)0/'
        check_fails 'musl: it runs' "$scratch/deep/program"
    fi
    check 'musl: eight schools' musl-gcc -O0 -static ../examples/eight_schools.c -o "$scratch/program" \
        -lm -pthread
    check 'musl: eight schools runs' "$scratch/program"
else skip 'no musl-gcc'; fi

# The declarations must be harmless under any flags of the user. The implementation recognises NaN under them, or
# refuses to compile. Samplers and diagnostics handle NaN: with too few draws to choose a sampler NUTS is kept, and
# the Monte Carlo error of a quantile of a constant is NaN.
printf '#include "gpumc.h"\n' >"$scratch/user.c"
cat >"$scratch/fast.c" <<'C'
#define GPUMC_STATIC                    /* what is not used is not compiled */
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
static double density_of_nan(const double *x, double *grad, void *nan)
{
    grad[0] = -x[0];
    return *(double *)nan;
}
static double log_density(const double *x, double *grad, void *data)
{
    (void)data;
    grad[0] = -x[0];
    return -0.5 * x[0] * x[0];
}
static int rejects(void)
{
    static double memory[512];
    uint64_t bits = 0x7ff8000000000000ULL;
    double nan, q = 2, grad, work[128], lp;
    memcpy(&nan, &bits, sizeof nan);
    const gpumc_param mu = { .name = "mu" };
    const gpumc_model model = { .params = &mu, .n_params = 1, .log_density = density_of_nan, .data = &nan };
    gpumc_layout *layout = gpumc_layout_init(&model, memory, sizeof memory, NULL);
    if (!layout || gpumc_layout_work(layout) > 128) return 0;
    lp = gpumc_model_eval(layout, &q, &grad, work);
    memcpy(&bits, &lp, sizeof bits);
    return bits == 0xfff0000000000000ULL;
}
static int judges(void)
{
    const gpumc_param mu = { .name = "mu" };
    const gpumc_model model = { .params = &mu, .n_params = 1, .log_density = log_density };
    const gpumc_sample_options options = { .num_chains = 1, .num_warmup = 20, .num_samples = 500 };
    double constant[400], error;
    uint64_t bits;
    gpumc_fit fit;
    for (int i = 0; i < 400; i++) constant[i] = 3;
    const gpumc_series series = { constant, 4, 100, 0, 0 };
    error = gpumc_mcse_quantile(series, 0.1).value;
    memcpy(&bits, &error, sizeof bits);
    return gpumc_sample(&model, &options, &fit) == GPUMC_OK && fit.sampler == GPUMC_SAMPLER_NUTS
        && bits << 1 > (uint64_t)0x7ff << 53;
}
int main(int argc, char **argv) { return (void)argv, argc > 1 ? !judges() : !rejects(); }
C
# Leaf functions in a file compiled with such flags, under which clang once cancelled the addition and subtraction of
# 1.5 2^52.
cat >"$scratch/leaf.c" <<'C'
#include "gpumc.h"
static int is(double x, double y) { return x - y < 1e-12 && y - x < 1e-12; }
int main(int argc, char **argv)
{
    const double x = 1.3 * argc;
    double slope = 0;
    (void)argv;
    return !(is(gpumc_exp(x), 3.6692966676192444) && is(gpumc_tanh(x), 0.86172315931330635)
             && is(gpumc_bernoulli_logit_lpmf(1, x, &slope), -0.24100845383299282) && is(slope, 0.21416501695744139));
}
C
for compiler in gcc clang; do
    have $compiler || continue
    check "$compiler -ffast-math: declarations" \
        $compiler -std=c99 -Ofast -ffast-math $c_warnings -c "$scratch/user.c" -o "$scratch/user.o"
    check "$compiler -ffast-math: implementation" \
        $compiler -std=c99 -O2 -ffast-math -I.. "$scratch/fast.c" -o "$scratch/fast" -lm -pthread
    check "$compiler -ffast-math: a NaN density rejects" "$scratch/fast"
    check "$compiler -ffast-math: what is not known is no reason" "$scratch/fast" judge
    for flags in -Ofast '-O2 -ffast-math' '-O2 -funsafe-math-optimizations -ffp-contract=fast'; do
        check "$compiler $flags: a user's file" $compiler $flags -I.. "$scratch/leaf.c" -o "$scratch/leaf" -lm
        check "$compiler $flags: values there" "$scratch/leaf"
    done
done
if have clang; then
    sed 's/^GPUMC__PRECISE$//; s/^GPUMC__PRECISE_END$//' ../gpumc.h >"$scratch/gpumc.h"
    check 'clang -ffast-math without GPUMC__PRECISE' clang -O2 -ffast-math -I"$scratch" "$scratch/leaf.c" \
        -o "$scratch/leaf" -lm
    check_fails 'values there' "$scratch/leaf"
fi
# Programs may define macros with the names of attributes.
cat >"$scratch/named.c" <<'C'
#define unused __attribute__((__unused__))
#define noinline __attribute__((__noinline__))
#define always_inline inline __attribute__((__always_inline__))
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
C
for compiler in gcc clang; do
    have $compiler && check "$compiler: macros unused, noinline, always_inline" \
        $compiler -std=c99 $c_warnings -I.. -fsyntax-only "$scratch/named.c"
done
# A macro whose name is one capital letter does no harm or is refused by an error that says so.
told() { cc -std=c99 -I.. -D$1=10 -fsyntax-only "$scratch/implementation.c" 2>&1 | grep -q 'one capital letter'; }
for letter in A B C D E G H J K L M N P Q R S U V W X Y Z; do check "a macro $letter is refused" told $letter; done
for letter in F I O T; do
    check "a macro $letter does no harm" cc -std=c99 -I.. -D$letter=10 -fsyntax-only \
        "$scratch/implementation.c"
done

# Broken variants: one with an implicit conversion and one with a shadowed name, which these flags must reject.
mkdir "$scratch/broken"
for fault in 'GPUMC__INLINE int gpumc__fault(double x) { return x; }' \
             'GPUMC__INLINE int gpumc__fault(int x) { if (x > 0) { int x = 1; return x; } return 0; }'; do
    awk -v fault="$fault" '/^\/\* =+ >>error/ { print fault } { print }' ../gpumc.h >"$scratch/broken/gpumc.h"
    sed 's|"gpumc.h"|"broken/gpumc.h"|' "$scratch/static.c" >"$scratch/broken.c"
    for compiler in gcc clang; do
        have $compiler || continue
        check_fails "$compiler must refuse: $fault" \
            $compiler -std=c99 $c_warnings -fsyntax-only "$scratch/broken.c"
    done
done
finish
