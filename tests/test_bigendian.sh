#!/bin/sh
# Files from a machine that stores the high byte first, by a cross compiler and user-mode emulation: stores,
# .npy, CSV and JSON are compared with the bytes and texts that are written down for any machine. Stores, which
# take two minutes here, with `make long`.
. ./check.sh
cross=${CROSS_CC:-s390x-linux-gnu-gcc}
emulator=
for name in qemu-s390x qemu-s390x-static; do have $name && emulator=$name; done
if ! have "$cross" || [ -z "$emulator" ]; then
    skip "no $cross or qemu-user: a big-endian machine"
    finish
fi

emulated() {
    $cross -std=c99 -O1 -static "$1.c" $object -o "$scratch/program" -lm -pthread \
        && QUICK=1 $emulator "$scratch/program" >"$scratch/output"
    status=$?
    tail -n 5 "$scratch/output"
    return $status
}

for name in test_output ${LONG:+test_zarr}; do
    object=$scratch/gpumc.o
    holds_implementation $name.c && object=
    [ -z "$object" ] || [ -f "$object" ] || check 'the implementation' \
        $cross -std=c99 -O1 -DGPUMC_IMPLEMENTATION -x c -c ../gpumc.h -o "$object"
    check "$name on s390x" emulated $name
done
finish
