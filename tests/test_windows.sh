#!/bin/sh
# Windows, by a cross compiler and wine: header and examples beside all of windows.h, whose macros take names
# like near, far and small; the tests that need nothing of POSIX, threads among them; files byte for byte those
# of Linux.
. ./check.sh
cross=x86_64-w64-mingw32-gcc emulator=wine
export WINEDEBUG=-all WINEPREFIX="$scratch/wine"
have $cross || { skip "no $cross: Windows"; finish; }

warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
printf '#include <windows.h>\n#define GPUMC_IMPLEMENTATION\n#include "%s/gpumc.h"\n' "${PWD%/*}" >"$scratch/all.c"
echo 'int main(void) { return gpumc_exp(0) != 1; }' >>"$scratch/all.c"
cp "$scratch/all.c" "$scratch/all.cc"
check '-std=c99' $cross -std=c99 -O1 $warnings "$scratch/all.c" -o "$scratch/all.exe" -pthread
check '-std=c17' $cross -std=c17 -fsyntax-only $warnings "$scratch/all.c"
if have ${cross%gcc}g++; then
    check '-std=c++11' ${cross%gcc}g++ -std=c++11 -fsyntax-only $warnings "$scratch/all.cc"
else skip "no ${cross%gcc}g++"; fi
for source in ../examples/*.c; do
    name=${source##*/}
    check "$name" $cross -fsyntax-only -Wall -Wextra -Werror "$source"
done

have wine || { skip 'no wine: programs for Windows'; finish; }
check 'the implementation' \
    $cross -std=c99 -O1 -DGPUMC_IMPLEMENTATION -x c -c ../gpumc.h -o "$scratch/gpumc.o"
for name in test_diagnose test_math test_rng test_rows test_run test_threads test_transform; do
    check "$name on Windows" emulated -O1 $name
done

# Times apart, eight schools writes there what it writes here: draws as CSV, as a Zarr store, and the summary.
without_times() { [ -s "$1" ] || return 1; tr -d '\r' <"$1" | sed -E 's/(_s=|time":)[-+.0-9e]+//g; s/, [.0-9]+ s$//; / seconds \(/d'; }
same_file() { without_times "linux$1" >one && without_times "windows$1" >two && cmp one two; }
cd "$scratch" || exit 1
example="$tests/../examples/eight_schools.c"
check 'eight schools for Windows' $cross -O1 "$example" -o eight_schools.exe -lm -pthread
check 'eight schools for Linux' cc -O1 "$example" -o eight_schools -lm -pthread
check 'eight schools here' sh -c './eight_schools csv=linux output=linux.zarr summary=linux.summary >linux.txt'
check 'eight schools there' sh -c 'wine eight_schools.exe csv=windows output=windows.zarr \
                                   summary=windows.summary >windows.txt'
for file in .txt .summary _1.csv _4.csv .zarr/posterior/theta/0.0.0 .zarr/posterior/.zattrs; do
    check "the same $file" same_file "$file"
done
echo checkpoint >>linux.txt
check_fails 'a file that differs must be seen' same_file .txt
finish
