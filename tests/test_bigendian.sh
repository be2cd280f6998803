#!/bin/sh
# Files from a machine that stores the high byte first, by a cross compiler and user-mode emulation: stores,
# .npy, CSV and JSON are compared with fixed bytes and texts that hold for any machine. Stores, which take two minutes
# here, only with `make long`.
. ./check.sh
crossed s390x s390x-linux-gnu-gcc
export QUICK=1

for name in test_output ${LONG:+test_zarr}; do check "$name on s390x" emulated -O1 $name; done
finish
