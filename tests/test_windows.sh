#!/bin/sh
# Windows, by a cross compiler and wine: the header after all of windows.h, whose macros take names like near, far and
# small; the examples; the tests that need no POSIX, threads included; files must be byte for byte those of Linux.
. ./check.sh
cross=x86_64-w64-mingw32-gcc emulator=wine
export QUICK=1 WINEDEBUG=-all WINEPREFIX="$scratch/wine"
have $cross || { skip "no $cross: Windows"; finish; }

warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
printf '#include <windows.h>\n#define GPUMC_IMPLEMENTATION\n#include "%s/gpumc.h"\n' "${PWD%/*}" >"$scratch/all.c"
cp "$scratch/all.c" "$scratch/all.cc"
check '-std=c99' $cross -std=c99 -O${LONG:-0} $warnings -c "$scratch/all.c" -o "$scratch/gpumc.o"
printf '#include "gpumc.h"\nint main(void) { return gpumc_exp(0) != 1; }\n' >"$scratch/main.c"
check 'a program' $cross -std=c99 -I.. "$scratch/main.c" "$scratch/gpumc.o" -o "$scratch/main.exe" -pthread
check '-std=c17' $cross -std=c17 -fsyntax-only $warnings "$scratch/all.c"
if have ${cross%gcc}g++; then
    check '-std=c++11' ${cross%gcc}g++ -std=c++11 -fsyntax-only $warnings "$scratch/all.cc"
else skip "no ${cross%gcc}g++"; fi
for source in ../examples/*.c; do
    name=${source##*/}
    check "$name" $cross -fsyntax-only -Wall -Wextra -Werror "$source"
done

have wine || { skip 'no wine: programs for Windows'; finish; }
trap '{ wineserver -k; wineserver -w; rm -rf "$scratch"; } 2>/dev/null' EXIT     # wine writes there to its end
for name in test_diagnose test_math test_rng test_rows test_run test_threads test_transform; do
    check "$name on Windows" emulated -O1 $name
done

# A run that is stopped twice, saving over the file it was resumed from, makes the draws of an uninterrupted run.
cat >"$scratch/stopped.c" <<'C'
#include "gpumc.h"
static gpumc_stop_flag stop;
static int left;
static double log_density(const double *x, double *grad, void *data)
{
    (void)data;
    if (left > 0 && --left == 0) gpumc_stop(&stop);
    return gpumc_student_t_lpdf(x[0], 5, 0, 1, &grad[0], NULL, NULL, NULL)
         + gpumc_normal_lpdf(x[1], x[0], 1, &grad[1], &grad[0], NULL);
}
int main(void)
{
    gpumc_param x = { .name = "x", .size = 2 };
    gpumc_model model = { .params = &x, .n_params = 1, .log_density = log_density };
    gpumc_sample_options o = { .num_samples = 300, .threads = 1 };
    gpumc_fit whole, fit;
    if (gpumc_sample(&model, &o, &whole) != GPUMC_OK) return 1;
    o.stop = &stop;
    o.checkpoint = "state";
    left = 4000;
    if (gpumc_sample(&model, &o, &fit) != GPUMC_STOPPED || !fit.resumable) return 2;
    gpumc_free(&fit);
    stop.requested = 0;
    left = 2000;
    if (gpumc_resume(&model, &o, "state", &fit) != GPUMC_STOPPED || !fit.resumable)
        return puts(fit.message), 3;
    gpumc_free(&fit);
    stop.requested = 0;
    if (gpumc_resume(&model, &o, "state", &fit) != GPUMC_OK) return puts(fit.message), 4;
    return memcmp(whole.draws, fit.draws, 4 * 300 * 2 * sizeof(double)) != 0;
}
C
check 'stopped and resumed, for Windows' \
    $cross -std=c99 -O1 -I.. "$scratch/stopped.c" "$scratch/gpumc.o" -o "$scratch/stopped.exe" -pthread
check 'stopped and resumed twice' sh -c "cd $scratch && wine stopped.exe"

# Except for times, eight schools writes on Windows what it writes here: draws as CSV and Zarr store, the summary.
without_times() { [ -s "$1" ] || return 1; tr -d '\r' <"$1" | sed -E 's/(_s=|time":)[-+.0-9e]+//g; s/, [.0-9]+ s$//; / seconds \(/d'; }
same_file() { without_times "linux$1" >one && without_times "windows$1" >two && cmp one two; }
cd "$scratch" || exit 1
example="$tests/../examples/eight_schools.c"
check 'eight schools for Windows' $cross -O1 "$example" -o eight_schools.exe -lm -pthread
check 'eight schools for Linux' built build/eight_schools
check 'eight schools here' sh -c "$tests/build/eight_schools csv=linux output=linux.zarr \
                                 summary=linux.summary >linux.txt"
check 'eight schools there' sh -c 'wine eight_schools.exe csv=windows output=windows.zarr \
                                   summary=windows.summary >windows.txt'
for file in .txt .summary _1.csv _4.csv .zarr/posterior/theta/0.0.0 .zarr/posterior/.zattrs; do
    check "the same $file" same_file "$file"
done
echo checkpoint >>linux.txt
check_fails 'a file that differs must be seen' same_file .txt
finish
