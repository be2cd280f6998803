#!/bin/sh
# Reads gpumc's files with the programs they are meant for: ArviZ and xarray with zarr 2 and with zarr 3, cmdstanpy,
# NumPy, and R's posterior. Draws must agree to the last bit, diagnostics to 1e-9. The Python packages are installed
# once, in these versions, to build/readers2 and build/readers3; what cannot be installed is skipped.
. ./check.sh
CC=${CC:-cc}
common="pandas==2.2.3 scipy==1.13.1"
pins2="arviz==0.20.0 xarray==2024.11.0 zarr==2.18.7 numcodecs==0.13.1 numpy==1.26.4 matplotlib==3.9.4
 cmdstanpy==1.2.5 $common"
pins3="arviz==0.23.4 xarray==2025.12.0 zarr==3.1.6 numpy==2.2.6 matplotlib==3.10.7 $common"

# Writes to the given folder: a store with every group and with labels, a streamed store of the same draws, the store
# of a stopped stream, a merged store, .npy, tidy CSV, Stan CSV, and the summary.
cat >"$scratch/write.c" <<'C'
#define GPUMC_IMPLEMENTATION
#include "gpumc.h"
#include <stdlib.h>
static const double y[3] = { 0.5, 1.5, -1 };
static double log_density(const double *x, double *grad, void *data)
{
    double lp = gpumc_normal_lpdf(x[0], 0, 1, &grad[0], NULL, NULL)
              + gpumc_half_normal_lpdf(x[1], 1, &grad[1], NULL);
    (void)data;
    for (int j = 0; j < 3; j++)
        lp += gpumc_normal_lpdf(x[2 + j], x[0], x[1], &grad[2 + j], &grad[0], &grad[1])
            + gpumc_normal_lpdf(y[j], x[2 + j], 1, NULL, &grad[2 + j], NULL);
    for (int j = 0; j < 6; j++) lp += gpumc_normal_lpdf(x[5 + j], j, 1 + j, &grad[5 + j], NULL, NULL);
    return lp;
}
static void generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    (void)data;
    for (int j = 0; j < 3; j++) out[j] = gpumc_normal_lpdf(y[j], x[2 + j], 1, NULL, NULL, NULL);
    for (int j = 0; j < 3; j++) out[3 + j] = x[2 + j] + gpumc_rng_normal(rng);
}
static int stop_at_77(const gpumc_progress *p, void *user)
{
    (void)user;
    return !p->warmup && p->iteration > 377;
}
static char path[600];
static const char *in(const char *folder, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
int main(int argc, char **argv)
{
    static const size_t dims[] = { 2, 3 };
    static const char *const names[] = { "A", "Bb", "Z\303\274rich" };
    static const gpumc_dimension dimensions[] = {
        { "theta", 0, "school", names }, { "log_lik", 0, "school", names }, { "y_rep", 0, "school", names },
        { "y", 0, "school", names }
    };
    const gpumc_param params[] = {
        { .name = "mu" }, { .name = "tau", .kind = GPUMC_POSITIVE },
        { .name = "theta", .size = 3, .location = "mu", .scale = "tau" },
        { .name = "A", .dims = dims, .n_dims = 2 }
    };
    const gpumc_output outputs[] = { { .name = "log_lik", .size = 3, .group = GPUMC_LOG_LIKELIHOOD },
                                     { .name = "y_rep", .size = 3, .group = GPUMC_POSTERIOR_PREDICTIVE } };
    const gpumc_model model = { .name = "shapes", .params = params, .n_params = 4, .log_density = log_density,
                                .generate = generate, .outputs = outputs, .n_outputs = 2 };
    const gpumc_sample_options usual = { .num_warmup = 300, .num_samples = 200, .save_warmup = 1, .seed = 3,
                                         .save_unconstrained = 1, .sampler = GPUMC_SAMPLER_NUTS };
    gpumc_sample_options options = usual;
    gpumc_data data = { 0 };
    gpumc_store_options store = { .observed_data = &data, .dimensions = dimensions, .n_dimensions = 4,
                                  .created_at = "2026-01-31T12:00:00+00:00" };
    const char text[] = "{\"y\":[0.5,1.5,-1],\"n\":3}", *folder = argv[1];
    gpumc_fit fit, other;
    gpumc_error e;
    gpumc_stream *z;
    char one[600], two[600];
    const char *both[2] = { one, two };
#define TRY(call) if ((call) < 0) { fprintf(stderr, "%s: %s\n", #call, e.text); return 1; }
    if (argc != 2) return 2;
    TRY(gpumc_parse_json(text, sizeof text - 1, &data, &e))
    TRY(gpumc_sample(&model, &options, &fit))
    TRY(gpumc_write_store(&fit, in(folder, "whole.zarr"), &store, &e))
    TRY(gpumc_write_npy(&fit, "A", in(folder, "A.npy"), &e))
    TRY(gpumc_write_tidy_csv(&fit, in(folder, "tidy.csv"), &e))
    TRY(gpumc_write_stan_csv(&fit, in(folder, "stan"), &e))
    TRY(gpumc_write_summary_csv(&fit, in(folder, "summary.csv"), &e))
    options.save_unconstrained = 0;      /* which a stream does not get */
    z = gpumc_stream_open(in(folder, "stream.zarr"), &model, &options, &store, &e);
    if (!z || gpumc_sample(&model, &options, &other) < 0) return 1;
    TRY(gpumc_stream_close(z, &other, &e))
    gpumc_free(&other);
    options = usual;
    options.save_unconstrained = 0;
    options.progress = stop_at_77;
    options.threads = 1;                 /* so that no chain is left behind */
    z = gpumc_stream_open(in(folder, "stopped.zarr"), &model, &options, &store, &e);
    if (!z || gpumc_sample(&model, &options, &other) != GPUMC_STOPPED) return 1;
    TRY(gpumc_stream_close(z, &other, &e))
    gpumc_free(&other);
    options = usual;
    options.first_chain_id = 4;
    snprintf(one, sizeof one, "%s", in(folder, "whole.zarr"));
    snprintf(two, sizeof two, "%s", in(folder, "second.zarr"));
    TRY(gpumc_sample(&model, &options, &other))
    TRY(gpumc_write_store(&other, two, &store, &e))
    gpumc_free(&other);
    TRY(gpumc_merge(both, 2, NULL, &other))
    TRY(gpumc_write_store(&other, in(folder, "merged.zarr"), NULL, &e))
    TRY(gpumc_write_summary_csv(&other, in(folder, "merged.csv"), &e))
    gpumc_free(&other);
    gpumc_free(&fit);
    gpumc_data_free(&data);
    return 0;
}
C

# read.py FOLDER: exits with 0 if everything agrees. With a second argument the draws are read in the wrong order, and
# the comparison must fail.
cat >"$scratch/read.py" <<'PY'
import os, sys, warnings
import numpy, pandas, xarray, zarr, arviz
warnings.simplefilter("error", xarray.SerializationWarning)
folder, wrong = sys.argv[1], len(sys.argv) > 2
def opened(store):
    store = os.path.join(folder, store)
    if zarr.__version__ < "3": return arviz.from_zarr(store)
    return arviz.InferenceData.from_datatree(xarray.open_datatree(store, engine="zarr"))
def column(name):
    block, _, indices = name.rstrip("]").partition("[")
    return block, tuple(int(i) - 1 for i in indices.split(",")) if indices else ()
def close(what, a, b):
    assert abs(a - b) <= 1e-9 * abs(b), (what, a, b)
def compare_summary(data, table):
    groups = [data[g] for g in ("posterior", "log_likelihood", "posterior_predictive") if g in data.groups()]
    for _, row in pandas.read_csv(os.path.join(folder, table), float_precision="round_trip").iterrows():
        block, at = column(row.variable)
        x = next(g for g in groups if block in g)[block].values
        x = x[(slice(None), slice(None)) + at]
        if wrong: x = x.reshape(x.shape[::-1])
        close("mean", x.mean(), row["mean"]) if abs(row["mean"]) > 1e-3 else None
        close("sd", x.std(ddof=1), row.sd)
        close("q5", numpy.quantile(x, 0.05), row.q5)
        close("q95", numpy.quantile(x, 0.95), row.q95)
        close("mcse", arviz.mcse(x, method="mean"), row.mcse)
        close("bulk", arviz.ess(x, method="bulk"), row.ess_bulk)
        close("tail", arviz.ess(x, method="tail"), row.ess_tail)
        close("r_hat", arviz.rhat(x), row.r_hat)
compare_summary(opened("schools.zarr"), "schools.csv")
compare_summary(opened("groups.zarr"), "groups.csv")
compare_summary(opened("merged.zarr"), "merged.csv")
data, stream, stopped = opened("whole.zarr"), opened("stream.zarr"), opened("stopped.zarr")
compare_summary(data, "summary.csv")
assert set(data.groups()) == {"posterior", "unconstrained_posterior", "sample_stats", "log_likelihood",
    "posterior_predictive", "observed_data", "warmup_posterior", "warmup_sample_stats"}, data.groups()
p, s = data.posterior, data.sample_stats
assert p.theta.dims == ("chain", "draw", "school") and list(p.school.values) == ["A", "Bb", "Zürich"]
assert p.A.shape == (4, 200, 2, 3) and p.theta.sel(school="Bb").equals(p.theta[..., 1])
assert s.diverging.dtype == bool and s.tree_depth.dtype == numpy.int64 and s.lp.shape == (4, 200)
assert data.warmup_posterior.mu.shape == (4, 300) and data.warmup_sample_stats.energy.shape == (4, 300)
assert numpy.allclose(numpy.exp(data.unconstrained_posterior.tau), p.tau, rtol=1e-12)
assert list(data.observed_data.y.values) == [0.5, 1.5, -1] and data.observed_data.n.item() == 3
assert data.observed_data.n.dtype == numpy.int64 and p.attrs["created_at"].startswith("2026")
assert numpy.isfinite(arviz.loo(data, var_name="log_lik").elpd_loo)
assert len(opened("merged.zarr").posterior.chain) == 8
for group in ("posterior", "sample_stats", "log_likelihood", "posterior_predictive", "warmup_posterior"):
    n = stopped[group].sizes["draw"]
    for name in data[group].data_vars:
        a, b, c = (d[group][name].values for d in (data, stream, stopped))
        assert numpy.array_equal(a, b), ("stream", group, name)
        assert numpy.array_equal(a[:, :n], c), ("stopped", group, name)
assert 0 < stopped.posterior.sizes["draw"] < 200, stopped.posterior.sizes
assert stopped.posterior.attrs["gpumc_stopped_early"] == 1
alone = xarray.open_zarr(os.path.join(folder, "whole.zarr"), group="posterior", consolidated=False)
assert alone.load().identical(p.load()), "a group alone"
assert numpy.array_equal(numpy.load(os.path.join(folder, "A.npy"), mmap_mode="r"), p.A.values), ".npy"
tidy = pandas.read_csv(os.path.join(folder, "tidy.csv"), float_precision="round_trip")
assert numpy.array_equal(tidy["A[2,3]"].values.reshape(4, 200), p.A.values[:, :, 1, 2]), "tidy"
if zarr.__version__ < "3":
    import logging, cmdstanpy
    logging.getLogger("cmdstanpy").setLevel(logging.CRITICAL)
    stan = cmdstanpy.from_csv([os.path.join(folder, "stan_%d.csv" % c) for c in range(1, 5)])
    assert numpy.array_equal(stan.stan_variable("A").reshape(4, 200, 2, 3), p.A.values), "cmdstanpy"
    assert numpy.array_equal(stan.method_variables()["energy__"][-200:].T, s.energy.values), "cmdstanpy"
PY

cat >"$scratch/read.R" <<'R'
suppressMessages(library(posterior))
f <- commandArgs(trailingOnly = TRUE)
x <- as_draws_df(read.csv(file.path(f[1], "tidy.csv"), check.names = FALSE))
if (length(f) > 1) x$.chain <- rep(1:4, times = 200)
s <- summarise_draws(x, mean, mcse = mcse_mean, sd, q5 = ~quantile(.x, 0.05), q95 = ~quantile(.x, 0.95),
                     ess_bulk, ess_tail, r_hat = rhat)
ours <- read.csv(file.path(f[1], "summary.csv"))
stopifnot(nchains(x) == 4, niterations(x) == 200, setequal(s$variable, ours$variable))
s <- as.data.frame(s[match(ours$variable, s$variable), ])
names(s) <- c("variable", "mean", "mcse", "sd", "q5", "q95", "ess_bulk", "ess_tail", "r_hat")
for (k in names(s)[-1]) stopifnot(abs(s[[k]] - ours[[k]]) <= 1e-9 * abs(ours[[k]]) + 1e-15)
R

folder=$scratch/files
mkdir "$folder"
example() {
    name=$1
    shift
    $CC -O1 -DGPUMC__IMPLEMENTED "../examples/$name.c" build/gpumc.o -o "$scratch/$name" -lm -pthread \
        && "$scratch/$name" num_samples=300 "$@"
}
check 'the implementation' built build/gpumc.o
check 'the writer' $CC -std=c99 -O1 -I.. -DGPUMC__IMPLEMENTED "$scratch/write.c" build/gpumc.o \
    -o "$scratch/write" -lm -pthread
check 'everything is written' "$scratch/write" "$folder"
check 'eight_schools: output=' \
    example eight_schools output="$folder/schools.zarr" summary="$folder/schools.csv"
check 'hierarchical: output=' \
    example hierarchical size=12 output="$folder/groups.zarr" summary="$folder/groups.csv"
check 'artists: output=' example artists size=5 rows=50 output="$folder/artists.zarr"
check_fails 'a store that exists is written over' \
    "$scratch/eight_schools" num_samples=50 output="$folder/schools.zarr"
for generation in 2 3; do
    eval pins=\$pins$generation
    if provide build/readers$generation "$pins" >"$scratch/pip" 2>&1; then
        check "zarr $generation: read" build/readers$generation/bin/python "$scratch/read.py" "$folder"
        check_fails "zarr $generation: draws in the wrong order pass" \
            build/readers$generation/bin/python "$scratch/read.py" "$folder" wrong
    else
        skip "zarr $generation: pip could not install its readers: $(tail -n 1 "$scratch/pip" | cut -c 1-100)"
    fi
done
if have Rscript && Rscript -e 'library(posterior)' >/dev/null 2>&1; then
    check 'posterior (R): read' Rscript "$scratch/read.R" "$folder"
    check_fails 'posterior (R): draws in the wrong order pass' Rscript "$scratch/read.R" "$folder" wrong
else
    skip 'no R with posterior (Debian: r-cran-posterior)'
fi
finish
