#!/bin/sh
# Stan CSV files of a short run, read by cmdstanpy: draws, shapes, metric, step size, warm-up.
# PYTHON names the interpreter; without cmdstanpy nothing is tested.
. ./check.sh
CC=${CC:-cc}
PYTHON=${PYTHON:-python3}
readers=build/readers2                                # of test_readers.sh, once that has made it
"$PYTHON" -c 'import cmdstanpy' 2>/dev/null || [ ! -e $readers/pins ] || PYTHON=$readers/bin/python
if ! "$PYTHON" -c 'import cmdstanpy' 2>/dev/null; then
    skip "no cmdstanpy for $PYTHON"
    finish
fi

# Writes PREFIX_1.csv and PREFIX_2.csv for `write METRIC THIN PREFIX` and prints every draw of A, last index fastest.
cat >"$scratch/write.c" <<'C'
#include "gpumc.h"
static double log_density(const double *x, double *grad, void *data)
{
    double lp = 0;
    (void)data;
    for (int i = 0; i < 9; i++) lp += gpumc_normal_lpdf(x[i], i, 0.1 + i, &grad[i], NULL, NULL);
    return lp;
}
int main(int argc, char **argv)
{
    static const size_t dims[] = { 2, 3 };
    gpumc_param params[3] = { { .name = "mu" }, { .name = "theta", .size = 2 },
                              { .name = "A", .dims = dims, .n_dims = 2 } };
    gpumc_model model = { .name = "shapes", .params = params, .n_params = 3, .log_density = log_density };
    gpumc_sample_options options = { .num_chains = 2, .num_warmup = 100, .num_samples = 50, .save_warmup = 1 };
    gpumc_error error = { GPUMC_OK, "" };
    gpumc_fit fit;
    if (argc != 4) return 2;
    options.metric = (gpumc_metric_kind)(argv[1][0] - '0');
    options.thin = argv[2][0] - '0';
    if (gpumc_sample(&model, &options, &fit) != GPUMC_OK) { fprintf(stderr, "%s\n", fit.message); return 1; }
    if (gpumc_write_stan_csv(&fit, argv[3], &error) != GPUMC_OK) { fprintf(stderr, "%s\n", error.text); return 1; }
    printf("%.17g\n", fit.step_size);
    for (size_t i = 0; i < 2 * fit.n_draws; i++)
        for (int k = 3; k < 9; k++) printf("%.17g%c", fit.draws[i * fit.n_columns + k], k < 8 ? ' ' : '\n');
    gpumc_free(&fit);
    return 0;
}
C

# Prints for every run whether all that cmdstanpy reads equals what was written; also with the matrices transposed,
# which must not be equal.
cat >"$scratch/read.py" <<'PY'
import logging, math, sys
import cmdstanpy, numpy
logging.getLogger("cmdstanpy").setLevel(logging.CRITICAL)
for run in sys.argv[2:]:
    metric, thin = run.split(":")
    prefix, thin = "%s/%s" % (sys.argv[1], run), int(thin)
    lines = open(prefix + ".txt").read().split("\n")
    step_size = float(lines[0])
    draws = numpy.array([[float(x) for x in line.split()] for line in lines[1:] if line])
    fit = cmdstanpy.from_csv([prefix + "_1.csv", prefix + "_2.csv"])
    rest = (fit.stan_variable("theta").shape == (100, 2)
            and fit.draws(inc_warmup=True).shape == (50 + math.ceil(100 / thin), 2, 16)
            and fit.metric_type == {"1": "diag_e", "2": "diag_e", "3": "dense_e", "4": "unit_e"}[metric]
            and bool(numpy.all(fit.step_size == step_size)))
    right, transposed = draws.reshape(100, 2, 3), draws.reshape(100, 3, 2).transpose(0, 2, 1)
    for name, A in ("", right), (" transposed", transposed):
        print(run + name, rest and numpy.array_equal(fit.stan_variable("A"), A))
PY

check 'the implementation' built build/gpumc.o
check 'the program compiles' $CC -std=c99 -O1 -I.. "$scratch/write.c" build/gpumc.o -o "$scratch/write" -lm -pthread
runs='1:1 2:3 3:1 3:7 4:2'
for run in $runs; do
    "$scratch/write" "${run%:*}" "${run#*:}" "$scratch/$run" >"$scratch/$run.txt"
done
check 'cmdstanpy reads them' sh -c "$PYTHON $scratch/read.py $scratch $runs >$scratch/read"
for run in $runs; do
    check "metric ${run%:*}, thinned by ${run#*:}" grep -qx "$run True" "$scratch/read"
    check_fails "metric ${run%:*}, thinned by ${run#*:}, transposed" grep -qx "$run transposed True" "$scratch/read"
done
finish
