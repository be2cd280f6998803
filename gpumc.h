/* gpumc.h: Bayesian inference for C programs in one header                                version 0.1.0

   You write a log density and its gradient. gpumc draws from the posterior (NUTS and MAMS, warm-up pooled
   over chains, learned centring of hierarchical parameters), says how far the draws can be trusted, and
   writes files that ArviZ, Stan's tools and R read. C99 or C++11; no dependencies beyond the C library and
   threads. MIT-0 or public domain.

   DO THIS  in one C or C++ file:    #define GPUMC_IMPLEMENTATION
                                     #include "gpumc.h"
            and build with:          cc -O2 main.c -lm -pthread     (on Windows gcc of MinGW, the same)
   Other files include it without the #define. Readers of the interface stop at the line of #### below.

   A COMPLETE PROGRAM

       #define GPUMC_IMPLEMENTATION
       #include "gpumc.h"

       static const double y[5] = { 1.1, -0.4, 2.3, 0.9, 1.6 };

       static double log_density(const double *x, double *grad, void *data)
       {
           const double mu = x[0], sigma = x[1];        // in the order of the parameter list below
           double lp = gpumc_normal_lpdf(mu, 0, 10, &grad[0], NULL, NULL)
                     + gpumc_half_normal_lpdf(sigma, 5, &grad[1], NULL);
           (void)data;
           for (int i = 0; i < 5; i++)
               lp += gpumc_normal_lpdf(y[i], mu, sigma, NULL, &grad[0], &grad[1]);
           return lp;
       }

       int main(void)
       {
           gpumc_param params[] = { { .name = "mu" }, { .name = "sigma", .kind = GPUMC_POSITIVE } };
           gpumc_model model = { .params = params, .n_params = 2, .log_density = log_density };
           gpumc_fit fit;
           if (gpumc_sample(&model, NULL, &fit) != GPUMC_OK) {
               fprintf(stderr, "%s\n", fit.message);
               return 1;
           }
           gpumc_print_summary(&fit, stdout);
           gpumc_free(&fit);
       }

   CONTENTS    search for the tag
     interface        >>api-platform  >>api-error  >>api-memory  >>api-math  >>api-special  >>api-rng
                      >>api-dist  >>api-transform  >>api-model  >>api-rows  >>api-glm  >>api-device
                      >>api-hier  >>api-nuts  >>api-mams  >>api-adapt  >>api-run  >>api-diagnose
                      >>api-output  >>api-report
     implementation   >>platform  >>error  >>memory  >>math  >>rng  >>dist  >>transform  >>model  >>rows
                      >>glm  >>device  >>hier  >>nuts  >>mams  >>adapt  >>diagnose  >>output  >>report  >>run

   THE DENSITY
     - It gets natural values x (a positive parameter is positive, a simplex sums to one) in the order of the
       parameter list, block after block, and returns the log density. Transforms, their Jacobians and their
       chain rule are the library's: do not add them.
     - grad arrives zeroed; ADD the partial derivatives. Every density of the library returns its normalised
       log density and adds its derivatives to the pointers it is given; NULL means: this one is a constant.
     - NaN or -infinity rejects the point. It is called from several threads at once, with the same data:
       memory that it writes to, as the work of gpumc_glm_eval, must be the call's own.
     - A struct of doubles laid over x and grad gives the values names: see examples/eight_schools.c.
     - The gradient is checked against differences at the start of every run, and a wrong one is refused by
       name; gpumc_check_gradient does the same while you develop.

   PARAMETERS  are blocks (gpumc_param); what is left zero has its default
       { .name = "beta", .size = 4 }                                         four real numbers
       { .name = "sigma", .kind = GPUMC_POSITIVE }                           all kinds: see gpumc_kind
       { .name = "rho", .kind = GPUMC_INTERVAL, .lower = -1, .upper = 1 }
       { .name = "p", .kind = GPUMC_SIMPLEX, .size = 3 }
       { .name = "L", .kind = GPUMC_CHOLESKY_CORR, .dims = dims, .n_dims = 2 }     size_t dims[] = { 3, 3 };
       { .name = "theta", .size = 8, .location = "mu", .scale = "tau" }      hierarchical, in natural form

   HIERARCHIES  Elements that spread around a location with a scale should say so. The density stays the
     natural one; the sampler's coordinates move between centred and non-centred, element by element, as
     warm-up learns how much and what the data say about each. A location may be one value, an element of
     another block (location_index), the element before (walk_dim: random walks, which start at the location,
     or without one anywhere), and may have group covariates added; scales likewise (scale_index).
     Location and scale stand earlier in the list, and the scale has a positive kind. .centring forces a form.
     In walks, and where the groups of one block lie in those of another, what data know of an element through
     those after it is passed back to it, so that long walks with little data cost no more draws than others.
     So it is to a location that is no element itself, unless .centring = GPUMC_CENTRED leaves that as it is.
     Scales that touch zero are known by their draws: warm-up gives their coordinates another map. So is the
     scale of the data's noise, if one value has it, and so are slopes, where no more than 16 real values
     belong to no hierarchy: what data say of the elements follows these.
     Chains that would start far from the posterior climb to it first, except what has an init.

   HIERARCHICAL MODELS AS DATA  Groups, parameters with populations, rows in groups: such a model needs no
     callback. Say what the parameters are (params as above), where they come from (priors by family, the
     population from location and scale), and which blocks a row takes; one row is a leaf (GPUMC_ROW):
         gpumc_prior priors[] = { { "mu", gpumc_prior_normal, 0, 5, 0 },
                                  { "tau", gpumc_prior_half_normal, 5, 0, 0 } };
         gpumc_hier_take takes[] = { { "theta", group }, { "sigma", NULL } };  // group[i]: theta's of row i
         gpumc_hier_rows rows = { .name = "y", .data = { .kind = &row, .n_rows = n, .columns = columns },
                                  .takes = takes, .n_takes = 2 };
         gpumc_hier *h = gpumc_hier_create(&description, &error);   gpumc_sample(gpumc_hier_model(h), ...)
     A population block of kind GPUMC_POSITIVE or GPUMC_UNIT lives behind a log, logit or probit link; other
     populations are named, or leaves. Scales may be shared, locations nested, walking or regressed; rows of
     several kinds take what they need, by indices that may differ. Centring is learned as for any model;
     start values, pointwise log likelihoods and predictions from prior and posterior come with it. See
     >>api-hier, examples/hierarchical.c, artists.c (a walk) and bradley_terry.c (two indices).

   GPU  gpumc_hot_rows and gpumc_hot_glm put data where a gradient is fastest: on the GPU in programs that
     define GPUMC_CUDA and link gpumc_cuda.cu (nvcc -O3 -c gpumc_cuda.cu -DGPUMC_ROWS='"my_rows.h"'), on all
     cores in others. log_density_batch then serves all chains that wait in one call: examples/logistic.c.

   OUTPUTS  Generated quantities are blocks too (gpumc_output), filled by the generate callback once a kept
     draw: predictions (group GPUMC_POSTERIOR_PREDICTIVE), pointwise log likelihood (GPUMC_LOG_LIKELIHOOD:
     what gpumc_loo_psis works on), anything else (GPUMC_GENERATED). The last are in summaries; predictions
     are there to be held against data, in a report that is given these. See examples/regression.c.
     Two models of the same data: gpumc_loo_compare, of what gpumc_loo_psis says of each observation.

   REGRESSIONS  with many rows: gpumc_glm holds a design matrix, families normal, bernoulli_logit,
     poisson_log, neg_binomial_2_log and student_t, offset, weights and varying intercepts of any grouping
     factors. gpumc_glm_eval adds log likelihood and gradient in one pass, _batch for many points in the same
     pass and by a team of threads; to be called in a log density, whose priors stay ordinary densities.

   RUNNING  gpumc_sample(&model, &options, &fit). Options left zero are defaults and resolved in fit.options:
     4 chains, 200 warm-up iterations a chain (400 for one chain) or fewer, 1000 draws each, target acceptance
     0.8, tree depth 10, seed 0. Warm-up ends after 110 (320) where HMC, see below, has nothing left to learn.
     Draws lie in fit.draws[chain][draw][column]; gpumc_column finds a column by name, gpumc_fit_series hands
     one to the diagnostics. In C++11 write gpumc_sample_options options = {}; and set members.

   LONG RUNS  options.checkpoint = "FILE" saves everything, warm-up and draws included, every ten minutes and
     on a stop (gpumc_stop, from a signal handler say); gpumc_resume goes on with the very draws of a run in
     one go. No new run overwrites the file (GPUMC_ERROR_EXISTS), none removes it; two that go on at the same
     time would, so each needs a name of its own. Where it is damaged,
     FILE.old stands in and a warning says so. on_draw, which alone sees discarded draws, is called once for
     each after a stop, and again for those since the last saving after a crash. See run_sample in
     examples/arguments.h.

   SAMPLERS  Warm-up runs NUTS and learns a metric: scales, the correlations of what belongs to one group
     of a hierarchy (linked parameters of one size), and up to 64 directions that these get wrong, among at
     most 16,384 coordinates.
     Where it makes the posterior nearly round, trajectories of fixed lengths then give 1.5 to 13 times as
     many effective draws a gradient. Where gradients are within a fifth of those of a normal, as with many
     data or many groups, that is HMC which moves exactly as that normal would and corrects only for what
     differs, in one or two gradients a draw in any number of dimensions; warm-up goes over to it as soon as
     it sees this (with fewer than 8 parameters only within a twentieth). Else it is MAMS, the
     Metropolis-adjusted microcanonical sampler, or HMC with random lengths in small models whose scales move
     far. Where warm-up saw slow energies, divergences or long trees, NUTS stays, because it says so when a
     region is missed. fit.sampler and the summary say what was chosen and why; options.sampler forces one.
     Paths take 1 to 5 gradients a draw instead of 7 to 15: where memory counts use thin. Where a density has
     kinks or is dear, a smoother or cheaper one like it
     may lead the paths: see guide in gpumc_model.

   READING THE SUMMARY
     mean, mcse (its Monte Carlo standard error), sd, q5, q50, q95 (quantiles), ess_bulk and ess_tail (how
     many independent draws these are worth: want 100 a chain), r_hat (want 1.01 at most). Then warnings:
       divergent    the density is too curved somewhere: a hierarchy without location and scale, a prior that
                    reaches zero; then try a higher target_accept. More draws never mend it.
       held         a chain stayed at one point for long: a narrow region, missed elsewhere; as for divergent
       treedepth    trajectories are cut short: correlated or badly scaled parameters; costs time only
       e-bfmi       energies move slowly: heavy tails, a scale that touches zero
       r_hat, ess   chains disagree or move slowly: a longer run first, then think of several modes, or of
                    sums that the data do not identify
       restarted    a chain lagged in warm-up and was moved beside a healthy one. If the posterior has
                    several modes this hides one: compare with keep_stuck_chains
       not mixed    the chains had not met when warm-up ended
       stuck, acceptance, metric   steps are too long or too short, or of one length where scales vary
     The line about the sampler says what its choice rests on: how far gradients are from those of a normal
     distribution with the learned mean and metric; the largest variance of a parameter in units of that
     metric (1 where it fits); E-BFMI; and how far trees reached, in standard deviations.

   RESULTS  gpumc_write_store makes a folder that Python opens, gpumc_write_stan_csv files for R and Stan's
     tools; also .npy, a tidy CSV, the metric as JSON, from which another run starts (initial_metric).
     gpumc_stream_open writes while sampling, keeps nothing in memory, and is resumed with the checkpoint.
     gpumc_merge reads stores of separate jobs into one fit, for diagnostics of all chains; it needs the file
     gpumc.json (model, seed, chains, shapes) that every store of ours has and other readers pass over.
         xarray, ArviZ 1:  xarray.open_datatree("fit.zarr", engine="zarr"); arviz.from_zarr("fit.zarr")
         ArviZ before 1:   with zarr 2 from_zarr; with zarr 3 InferenceData.from_datatree of the first

   A PAGE TO LOOK AT  gpumc_write_report(&fit, NULL, "fit.html", &error): warnings, table and plots as HTML.

   STEP BY STEP  for programs with a loop, memory or processes of their own: gpumc_layout_init compiles a
     model in your memory, gpumc_nuts_ask and _tell take one gradient at a time, gpumc_adapt_update tunes a
     set of chains. See examples/embed.c.

   DISTRIBUTIONS  For every univariate FAMILY of the table at >>api-dist:
       gpumc_FAMILY_lpdf (continuous) or _lpmf (discrete), _lcdf, _lccdf     value, parameters, derivatives
       gpumc_FAMILY_quantile(p, parameters), _rng(rng, parameters), _mean(parameters), _variance(parameters)
     Invalid parameters give NaN, values outside the support -infinity. Counts are whole numbers in a double.
     sigma is a standard deviation; gamma and exponential take a rate. For densities of your own, and in rows:
     gpumc_exp, _expm1, _log, _log1p, _log1p_exp, _log_sum_exp (of two), _sqrt, _inv_logit, _logit, _tanh,
     _erf, _erfc, _erfcx, _log_Phi, _inv_Phi, _lgamma, _digamma, _lbeta (>>api-math), and incomplete gamma and
     beta functions with derivatives (>>api-special).

   ROWS  A likelihood that sums over many data rows goes through GPUMC_ROW(name, group, shared, columns): one
     row as a plain scalar function, compiled for SSE2, AVX2 and AVX-512 (or NEON), chosen at run time;
     GPUMC_ISA in the environment forces one. gpumc_rows_init sorts the rows by group once; gpumc_rows_eval,
     called from your density, adds up value and gradient. See >>api-rows.

   ERRORS   Calls return a gpumc_status: 0 success, 1 stopped on request, negative an error. The text is in
     fit.message, or in the gpumc_error you pass. Nothing is printed unless you ask, nothing calls exit.
   MEMORY   One block for the results, one for the run, through options.allocator; sampling allocates
     nothing. With discard_draws memory does not grow with the draws: on_draw sees each one.
   THREADS, SEEDS  Same program, seed and num_chains: the same draws, bit for bit, whatever the thread count.
     Another compiler or processor: the same distribution. Chains of other processes: set first_chain_id.
     Threads that no chain needs share the rows of hierarchical models where these are 10,000 or more.
   SWITCHES GPUMC_STATIC makes all functions private to the file: for programs of one file, which then compile
     in half the time, as what they do not use is left out. GPUMC_NO_THREADS builds without threads.
     clang's -ffast-math is refused for the implementation, because rejecting a point needs NaN: put it into
     a file of its own without that flag, or define GPUMC_ALLOW_FAST_MATH. GPUMC_MAX_JSON_DEPTH (16) and
     GPUMC_MAX_FILE_BYTES (4 GiB) bound what the readers take.
   WHAT IT DOES NOT DO  no automatic differentiation, no modelling language, no discrete parameters. */
#ifndef GPUMC_H
#define GPUMC_H

/* ================================================================================= >>api-platform
   Version, switches a user may set before including, and the few words that differ between compilers. */
#define GPUMC_VERSION_MAJOR 0
#define GPUMC_VERSION_MINOR 1
#define GPUMC_VERSION_PATCH 0
#define GPUMC_VERSION "0.1.0"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* GPUMC_API marks the ordinary functions: external, or private to this file under GPUMC_STATIC.
   GPUMC_FN marks leaf functions: scalar C without branches or libm, which compilers vectorise and nvcc
   compiles. GPUMC_LOOP marks functions whose loops over leaves must become vector code at any optimisation
   level. gcc needs no-trapping-math to turn ?: into selects, and no-fast-math keeps NaN meaningful under a
   user's flags. */
#if defined(__GNUC__) || defined(__clang__)
#define GPUMC__UNUSED __attribute__((unused))
#define GPUMC__NOINLINE __attribute__((noinline, unused))
#define GPUMC__INLINE static inline __attribute__((always_inline, unused))
#define GPUMC__RESTRICT __restrict__
#define GPUMC__PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define GPUMC__UNUSED
#define GPUMC__NOINLINE
#define GPUMC__INLINE static inline
#define GPUMC__RESTRICT
#define GPUMC__PRINTF(f, a)
#endif

#if defined(GPUMC_STATIC) && !defined(GPUMC__IMPLEMENTED)
#define GPUMC_API static GPUMC__UNUSED
#else
#define GPUMC_API extern
#endif

#if defined(__CUDACC__)
#define GPUMC_FN static __host__ __device__ __forceinline__
#define GPUMC_TEAM __host__ __device__
#define GPUMC_LOOP
#elif defined(__clang__)
#define GPUMC_FN static inline __attribute__((always_inline, unused))
#define GPUMC_LOOP
#elif defined(__GNUC__)
#define GPUMC_FN static inline __attribute__((always_inline, unused, optimize("no-fast-math")))
#define GPUMC__LOOP_OPTIONS "no-fast-math", "O2", "tree-vectorize", "vect-cost-model=dynamic", \
    "no-trapping-math", "fp-contract=fast", "no-thread-jumps", "no-tree-loop-distribute-patterns"
#define GPUMC_LOOP __attribute__((optimize(GPUMC__LOOP_OPTIONS)))
#else
#define GPUMC_FN static inline
#define GPUMC_LOOP
#endif

/* Instruction sets of which one program holds a copy each of its hot loops. GPUMC__ISA_COPIES(X, ...) writes
   X(suffix, attributes, pragma, ...) once for each; GPUMC__ISA_TABLE(name) lists name_suffix in the order of
   gpumc_isa. clang wants the width of 512 bits said before the loop, and would warn of every such loop at -O1
   and -Os, which follow no hints. (For equal bits: GPUMC__COPIES.) */
#if defined(__clang__) && defined(__OPTIMIZE__)
#define GPUMC__LANE_LOOP _Pragma("clang loop vectorize(enable)")
#define GPUMC__WIDE_LOOP _Pragma("clang loop vectorize_width(8)")
#define GPUMC__HINTS _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wpass-failed\"")
#define GPUMC__HINTS_END _Pragma("clang diagnostic pop")
#else
#define GPUMC__LANE_LOOP
#define GPUMC__WIDE_LOOP
#define GPUMC__HINTS
#define GPUMC__HINTS_END
#endif
#define GPUMC__ISA_BASELINE(X, ...) \
    GPUMC__HINTS X(baseline, GPUMC_LOOP, GPUMC__LANE_LOOP, __VA_ARGS__) GPUMC__HINTS_END
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
#define GPUMC__AVX2 GPUMC_LOOP __attribute__((target("avx2,fma")))
#if defined(__clang__)
#define GPUMC__AVX512 \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"), min_vector_width(512)))
#else
#define GPUMC__AVX512 GPUMC_LOOP \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")))
#endif
#define GPUMC__ISA_COPIES(X, ...) \
    GPUMC__ISA_BASELINE(X, __VA_ARGS__) GPUMC__HINTS \
    X(avx2, GPUMC__AVX2, GPUMC__LANE_LOOP, __VA_ARGS__) \
    X(avx512, GPUMC__AVX512, GPUMC__WIDE_LOOP, __VA_ARGS__) GPUMC__HINTS_END
#define GPUMC__ISA_TABLE(name) { name##_baseline, name##_avx2, name##_avx512 }
#else
#define GPUMC__ISA_COPIES(X, ...) GPUMC__ISA_BASELINE(X, __VA_ARGS__)
#define GPUMC__ISA_TABLE(name) { name##_baseline, name##_baseline, name##_baseline }
#endif
/* A strip is as many lanes as a register holds, its loop one vector operation; GPUMC__FLAT marks short loops
   inside it. (clang does not see to one of two doubles.) Rows of few parameters mostly wait for themselves:
   gcc interleaves two strips of WOVEN lanes, by the attributes of ROW. Longer rows want all registers. */
#define GPUMC__STRIP_avx2 4
#define GPUMC__STRIP_avx512 8
#define GPUMC__ROW_baseline(attributes) attributes
#define GPUMC__ROW_avx512(attributes) attributes
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define GPUMC__STRIP_baseline 2
#define GPUMC__WOVEN 4
#define GPUMC__ROW_avx2(attributes) \
    __attribute__((target("avx2,fma"), optimize(GPUMC__LOOP_OPTIONS, "schedule-insns", "sched-pressure")))
#define GPUMC__FLAT _Pragma("GCC unroll 64")
#else
#define GPUMC__STRIP_baseline 4
#define GPUMC__WOVEN 0
#define GPUMC__ROW_avx2(attributes) attributes
#define GPUMC__FLAT
#endif
#if defined(__clang__) && defined(__OPTIMIZE__)
#define GPUMC__STRIP_LOOP_baseline _Pragma("clang loop vectorize_width(2) interleave_count(2)")
#else
#define GPUMC__STRIP_LOOP_baseline
#endif
#define GPUMC__STRIP_LOOP_avx2 GPUMC__LANE_LOOP
#define GPUMC__STRIP_LOOP_avx512 GPUMC__WIDE_LOOP
typedef enum gpumc_isa { GPUMC_ISA_AUTO = 0, GPUMC_ISA_BASELINE, GPUMC_ISA_AVX2, GPUMC_ISA_AVX512 } gpumc_isa;
enum { GPUMC__N_ISA = 3 };

/* GPUMC__LOOP_INLINE: a loop that each instruction set inlines; it has the attributes of one itself, because
   gcc optimises it once before. GPUMC__PEEL unrolls loops of a few vectors. GPUMC__FETCH asks for a line in
   the second-level cache: what goes to the first waits for one of its few open misses. */
#if defined(__GNUC__) && !defined(__CUDACC__)
#define GPUMC__LOOP_INLINE static inline __attribute__((always_inline, unused)) GPUMC_LOOP
#define GPUMC__FETCH(p) __builtin_prefetch(p, 0, 2)
#else
#define GPUMC__LOOP_INLINE static inline
#define GPUMC__FETCH(p) ((void)(p))
#endif
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define GPUMC__PEEL __attribute__((optimize("peel-loops")))
#else
#define GPUMC__PEEL
#endif

/* Marks what a team of GPU threads runs too: the sampler's state machine and what it stands on. */
#if !defined(GPUMC_TEAM)
#define GPUMC_TEAM
#endif

/* Before a loop over the lanes of a sum: gcc then keeps the lanes in registers; clang does so by itself.
   GPUMC__OF_LANE: what depends on parameters alone leaves the loop over tiles as vectors in gcc, which keeps
   scalar choices inside, and as scalars in clang. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define GPUMC__UNROLL _Pragma("GCC unroll 8")
#define GPUMC__OF_LANE(l) (l)
#else
#define GPUMC__UNROLL
#define GPUMC__OF_LANE(l) 0
#endif

/* The number type of leaf functions: double, or float in a single-precision device build. */
#ifndef GPUMC_REAL
#define GPUMC_REAL double
#endif
typedef GPUMC_REAL gpumc_real;
#define GPUMC_R(x) ((gpumc_real)(x))

#ifdef __cplusplus
extern "C" {
#endif

/* The set that wanted stands for on this machine: AUTO is the one that the environment variable GPUMC_ISA
   names (baseline, avx2, avx512), or the best; a set that is missing here becomes the best below it. */
GPUMC_API gpumc_isa gpumc_isa_resolve(gpumc_isa wanted);
/* "SSE2", "AVX2", "AVX-512", "NEON" or "baseline". */
GPUMC_API const char *gpumc_isa_name(gpumc_isa isa);

/* ==================================================================================== >>api-error
   Calls return a status by value; the text that names the argument, its value and the remedy goes to the
   fit where there is one, otherwise to a gpumc_error, which may be NULL. Calls that return a status check
   what they get; those made for every gradient, in a density or step by step, trust it. */
#define GPUMC_STATUS_LIST(X) \
    X(GPUMC_OK, 0, "success") \
    X(GPUMC_STOPPED, 1, "stopped on request; the draws so far are kept") \
    X(GPUMC_ERROR_ARGUMENT, -1, "an argument is invalid") \
    X(GPUMC_ERROR_MODEL, -2, "the model is invalid") \
    X(GPUMC_ERROR_GRADIENT, -3, "the gradient disagrees with the log density") \
    X(GPUMC_ERROR_START, -4, "no usable start point was found") \
    X(GPUMC_ERROR_MEMORY, -5, "out of memory") \
    X(GPUMC_ERROR_FILE, -6, "a file could not be read or written") \
    X(GPUMC_ERROR_FORMAT, -7, "a file is malformed") \
    X(GPUMC_ERROR_NUMERIC, -8, "a computation failed") \
    X(GPUMC_ERROR_DEVICE, -9, "the GPU failed") \
    X(GPUMC_ERROR_EXISTS, -10, "a checkpoint is there already")

#define GPUMC__ENUMERATE(name, value, text) name = value,
typedef enum gpumc_status { GPUMC_STATUS_LIST(GPUMC__ENUMERATE) GPUMC__STATUS_END = 127 } gpumc_status;

typedef struct gpumc_error { gpumc_status status; char text[256]; } gpumc_error;

/* The meaning of a status in words, never NULL. */
GPUMC_API const char *gpumc_status_text(gpumc_status status);

/* =================================================================================== >>api-memory
   All allocation goes through one pair of functions; both NULL means malloc and free. */
typedef struct gpumc_allocator {
    void *(*allocate)(size_t bytes, void *user);
    void (*release)(void *block, void *user);
    void *user;
} gpumc_allocator;

/* Threads that wait for work to share: at most num_threads with the caller's own; 0: one a core it may use.
   One thread at a time may use a team. run is called once for each part below n_parts; member is below the
   number of threads. NULL when out of memory. */
typedef struct gpumc_team gpumc_team;
GPUMC_API gpumc_team *gpumc_team_start(int num_threads, const gpumc_allocator *allocator);
GPUMC_API int gpumc_team_threads(const gpumc_team *team);
GPUMC_API void gpumc_team_run(gpumc_team *team, void (*run)(size_t part, int member, void *user),
                              size_t n_parts, void *user);
GPUMC_API void gpumc_team_stop(gpumc_team *team);

/* ===================================================================================== >>api-math
   Elementary and special functions as leaves: straight-line scalar C without libm, which compilers turn into
   vector code inside a GPUMC_LOOP and nvcc compiles for the device. They compute in double. The error given
   is the largest seen in over a million points (tests/long_math.c), in units in the last place (ULP), with or
   without fused multiply-adds. NaN, infinities, zeros and subnormal numbers are right; outside its domain a
   function is NaN. Of code compiled with -ffast-math, only loops marked GPUMC_LOOP by gcc keep this.
   Choices are ternaries between values computed before, written so that NaN falls through.
   First come the polynomials, made by tests/poly.py, then what takes numbers apart, then the functions.
   Read first: gpumc_exp and gpumc_log, whose idioms the others share. */
#define GPUMC_PI 3.14159265358979323846
#define GPUMC_LOG_2 0.69314718055994530942
#define GPUMC_LOG_PI 1.14472988584940017414
#define GPUMC_LOG_2PI 1.83787706640934548356
#define GPUMC_LOG_SQRT_2PI 0.91893853320467274178
#define GPUMC__ROOT_HALF 0.70710678118654752440
#define GPUMC__ROOT_2_OVER_PI 0.79788456080286535588
#define GPUMC_INF gpumc__from_bits(0x7ff0000000000000ULL)
#define GPUMC_NAN gpumc__from_bits(0x7ff8000000000000ULL)

/* ---- polynomials, made by tests/poly.py ---------------------------------------------------------
   Coefficients from the lowest power on, summed by Horner's rule in x^4 over groups of four: a third of the
   latency of that in x. GPUMC__P<n> is a polynomial of n coefficients, with q = x^2. */
#define GPUMC__PAIR(a, b, rest) ((a + b * x) + q * (rest))
#define GPUMC__FOUR(a, b, c, d, rest) (((a + b * x) + q * (c + d * x)) + (q * q) * (rest))
#define GPUMC__P2(a, b) (a + b * x)
#define GPUMC__P3(a, b, c) GPUMC__PAIR(a, b, c)
#define GPUMC__P4(a, b, ...) GPUMC__PAIR(a, b, GPUMC__P2(__VA_ARGS__))
#define GPUMC__P5(a, b, ...) GPUMC__PAIR(a, b, GPUMC__P3(__VA_ARGS__))
#define GPUMC__P6(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P2(__VA_ARGS__))
#define GPUMC__P7(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P3(__VA_ARGS__))
#define GPUMC__P8(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P4(__VA_ARGS__))
#define GPUMC__P9(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P5(__VA_ARGS__))
#define GPUMC__P10(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P6(__VA_ARGS__))
#define GPUMC__P11(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P7(__VA_ARGS__))
#define GPUMC__P12(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P8(__VA_ARGS__))
#define GPUMC__P13(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P9(__VA_ARGS__))
#define GPUMC__P15(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P11(__VA_ARGS__))
#define GPUMC__P16(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P12(__VA_ARGS__))
#define GPUMC__P17(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P13(__VA_ARGS__))
#define GPUMC__P19(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P15(__VA_ARGS__))
#define GPUMC__P20(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P16(__VA_ARGS__))
#define GPUMC__P21(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P17(__VA_ARGS__))
#define GPUMC__P24(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P20(__VA_ARGS__))
#define GPUMC__P28(a, b, c, d, ...) GPUMC__FOUR(a, b, c, d, GPUMC__P24(__VA_ARGS__))
#define GPUMC__POLY(name, n, ...) \
    GPUMC_FN double gpumc__poly_##name(double x) { const double q = x * x; return GPUMC__P##n(__VA_ARGS__); }

/* (exp(x) - 1 - x) / x^2: degree 9, x in [-0.347, 0.347], error 2.3e-16 */
GPUMC__POLY(exp, 10, 0.5000000000000001, 0.16666666666666669, 0.041666666666624094, 0.00833333333333006,
    0.0013888888917230724, 0.00019841269863066696, 2.4801521269532122e-05, 2.7557268439678e-06,
    2.7620101012098e-07, 2.5100395159429243e-08)
/* (2 atanh(sqrt x) / sqrt x - 2) / x: degree 6, x in [0, 0.0295], error 4.7e-16 */
GPUMC__POLY(log, 7, 0.666666666666667, 0.3999999999989889, 0.28571428626253836, 0.22222211089379496,
    0.1818289243253687, 0.15331611722055008, 0.14617807153417325)
/* the same: degree 9, x in [0, 0.111], error 1.9e-16 */
GPUMC__POLY(log1p_unit, 10, 0.6666666666666666, 0.40000000000014585, 0.2857142856710876, 0.22222222717427864,
    0.18181789436132859, 0.15385570064958623, 0.13314144209654935, 0.12001072809590713, 0.08800738486144674,
    0.1616404561194353)
/* (sin(2 pi sqrt x) / sqrt x - 2 pi) / x: degree 5, x in [0, 0.0156], error 1.3e-16 */
GPUMC__POLY(sin, 6, -41.341702240399755, 81.6052492760517, -76.70585973562093, 42.05868918088512,
    -15.094054182079999, 3.78643334956545)
/* (cos(2 pi sqrt x) - 1) / x: degree 6, x in [0, 0.0156], error 6.4e-17 */
GPUMC__POLY(cos, 7, -19.739208802178716, 64.93939402266824, -85.4568172066438, 60.24464135270201,
    -26.426253275854723, 7.903206911569678, -1.6990343940660637)
/* erf(sqrt x) / sqrt x - 1: degree 9, x in [0, 0.562], error 7.9e-17 */
GPUMC__POLY(erf, 10, 0.1283791670955125, -0.3761263890318123, 0.11283791670806737, -0.02686617061128781,
    0.005223977232952475, -0.0008548300832069432, 0.00012054266028326731, -1.489862284147446e-05,
    1.6044523839624666e-06, -1.2711547089821422e-07)
/* ((1 + 2x) erfcx(x) - 1) / x: degrees 10 / 11, x in [0, 6e+18], error 2.1e-17 */
GPUMC__POLY(erfcx_top, 11, 0.8716208329044874, 1.865669590608154, 1.9882577693877577, 1.3645314065023162,
    0.6613839595848857, 0.23526367312888113, 0.06202086999633911, 0.011952578967463679, 0.0016117444244623741,
    0.00013731211774791415, 5.5738163128957846e-06)
GPUMC__POLY(erfcx_bottom, 12, 1.0, 3.582323651437257, 6.014800764564714, 6.262302783259667, 4.504251394460853,
    2.3575458885540606, 0.9198166588996889, 0.26880538496642614, 0.05802115430427502, 0.008883390864116375,
    0.0008787780585331845, 4.3416828750329334e-05)
/* ((y + 5) M(y) - 1) (y + 5), M the Mills ratio, x = (y - 5) / (y + 5):
   degree 23, x in [-1, 1], error 3.3e-17 */
GPUMC__POLY(mills, 24, 9.280810471531577, -7.3978554803580225, 5.017615135380624, -2.84149562008494,
    1.2949515372427471, -0.4375958036258766, 0.08365922048062602, 0.008626392239518754, -0.011373227349713478,
    0.0022853644871090348, 0.0007970330324963342, -0.00045032447057413, -3.217519735127879e-05,
    6.757500151928843e-05, -1.8835522585701035e-06, -1.024832208812561e-05, 7.014960060832095e-07,
    1.6728974124561607e-06, -1.05169802948032e-07, -2.82339433774545e-07, 8.720230759425635e-09,
    4.1860437444245755e-08, -1.7142774262008796e-10, -3.728815011600475e-09)
/* ((y + 4) (1 / M(y) - y) - 1) (y + 4), x = (y - 4) / (y + 4): degree 27, x in [-1, 1], error 4.5e-17 */
GPUMC__POLY(mills_excess, 28, 6.4388572473261485, -3.01877876482809, 0.19687486562184428, 0.7370182890044853,
    -0.36877764283212383, -0.09914830162214619, 0.15410391838283283, -0.012299715808038134,
    -0.048208436094342916, 0.015482850274267568, 0.012494171827402397, -0.007392149516711519,
    -0.002633349899815317, 0.00269055203621238, 0.0003763877602799668, -0.0008260917715167524,
    1.2591249204708019e-05, 0.00021706337386759967, -3.588443818544383e-05, -4.7132636133334446e-05,
    1.6907196599718912e-05, 7.540487041231908e-06, -5.257336815439377e-06, -5.724635343902483e-07,
    1.0778306037965934e-06, -7.10442266710089e-08, -1.1017071051602332e-07, 1.809159984707054e-08)
/* Phi^-1(1/2 + q) / q - 2.5, x = 0.180625 - q^2: degrees 7 / 7, x in [0, 0.181], error 8.4e-17 */
GPUMC__POLY(quantile_middle_top, 8, 0.8871328727963667, 27.381686458950067, 254.18361004681728,
    249.35065806139554, -7122.45487672348, -31115.05747196757, -38598.89867727885, -10633.669849573715)
GPUMC__POLY(quantile_middle_bottom, 8, 1.0, 42.33964617460838, 688.1204066511777, 5406.237161533368,
    21283.090388493958, 39483.91408913094, 28897.686960518477, 5265.264700725937)
/* -Phi^-1(exp(-(x + 1.6)^2)) - 1.4375 - 1.5 x: degrees 11 / 10, x in [0, 25.7], error 1.5e-17 */
GPUMC__POLY(quantile_tail_top, 12, -0.014062889250316424, 0.1753635019832995, 0.32409049198246853,
    0.2177073231664231, 0.0680466245343555, 0.008204589805847378, -0.000772697542874855,
    -0.00033796769379484156, -3.5980879790010434e-05, -1.572322603333223e-06, -2.6882073325804105e-08,
    -1.3235324747113512e-10)
GPUMC__POLY(quantile_tail_bottom, 11, 1.0, 2.3028829111929965, 2.2231525033344157, 1.1793435081626988,
    0.3774095267328367, 0.07469200157774343, 0.008941186418377826, 0.0006092444892289689,
    2.1390171548558037e-05, 3.28169609546246e-07, 1.5428568122517739e-09)
/* (lgamma(2 + x) / x - (1 - gamma)) / x: degree 18, x in [-0.586, 0.5], error 5.6e-17 */
GPUMC__POLY(lgamma, 19, 0.3224670334241132, -0.0673523010531981, 0.020580808427785563, -0.007385551028673516,
    0.0028905103306385493, -0.001192753911732451, 0.0005096695287740465, -0.0002231547573145649,
    9.945743337153756e-05, -4.49262633832755e-05, 2.050809798580096e-05, -9.439129307236145e-06,
    4.3690058818506105e-06, -2.041996143749471e-06, 9.781695107214452e-07, -4.371111105314444e-07,
    1.6148415715279787e-07, -1.2771776692906304e-07, 9.9381224386534e-08)
/* y times what Stirling's formula leaves of lgamma(y), x = y^-2:
   degree 6, x in [0, 0.0237], error 1.7e-16 */
GPUMC__POLY(stirling, 7, 0.08333333333333333, -0.0027777777777380146, 0.0007936507665900421,
    -0.0005952311428421684, 0.000840891399401838, -0.0018619001080884038, 0.0045368906301007815)
/* (y + 1/2) gpumc__binet(y), x = 1 - 3 / (y + 1/2): degree 16, x in [-1, 1], error 1.2e-17 */
GPUMC__POLY(binet, 17, 0.09948862055980887, -0.018718200500397922, 0.002904685792566519,
    -0.0003974177246247539, 6.751105936523802e-05, -1.3483472674843222e-05, 1.8482278606665558e-06,
    -3.2705557843249896e-07, 9.927849751826644e-08, -3.0775014248134474e-09, 2.318984724967352e-09,
    -1.463619027236496e-09, -5.085190944025221e-10, -1.7610248462986022e-10, 2.2241728771231814e-11,
    4.067015201759005e-11, 1.2356003374551402e-11)
/* -(y + 0.75) gpumc__half_stirling(y), x = (y - 0.75) / (y + 0.75):
   degree 20, x in [-0.2, 1], error 6.6e-16 */
GPUMC__POLY(half_stirling, 21, 0.0771732229314753, -0.05834098998843658, 0.03565184886092887,
    -0.020567688223060134, 0.012993218141012385, -0.008952772230702708, 0.00646748718945982,
    -0.0048924903444466546, 0.0038293373095114555, -0.003073785681560125, 0.0025233330042107776,
    -0.0021092427484255137, 0.00179053951591337, -0.0015259347504653132, 0.0012616925238651921,
    -0.0009527933148662003, 0.0006092986676537482, -0.0003046447987672605, 0.00010880814623040338,
    -2.430339048062025e-05, 2.5258476164749898e-06)
/* digamma(1 + x) / (1 + x - root) - 5/8: degrees 9 / 9, x in [0, 5.5], error 2.0e-17 */
GPUMC__POLY(digamma_top, 10, 0.6253801375034054, 0.6808567656651828, 0.08067465272987878,
    -0.15289045716083782, -0.07681460896204749, -0.015366333070067111, -0.0014868414991261124,
    -6.837766413035181e-05, -1.2982529161914663e-06, -6.927657255312774e-09)
GPUMC__POLY(digamma_bottom, 10, 1.0, 2.4553867866623897, 2.2815070053323483, 1.0618157680491391,
    0.2719321404366464, 0.039222245632878135, 0.003108914839647974, 0.00012543649888030456,
    2.1874506570606106e-06, 1.1124139137843672e-08)
/* (log y - 1 / (2y) - digamma(y)) / x, x = y^-2: degree 6, x in [0, 0.0237], error 1.7e-15 */
GPUMC__POLY(digamma_far, 7, 0.0833333333333332, -0.00833333333276881, 0.003968253583742833,
    -0.004166567710032352, 0.007563487416484688, -0.020294145808169236, 0.056117935628883)

/* ---- numbers taken apart --------------------------------------------------------------------- */
#define GPUMC__SIGN_BIT 0x8000000000000000ULL
#define GPUMC__ONE_BITS 0x3ff0000000000000ULL
#define GPUMC__TWO_52 4503599627370496.0
#define GPUMC__TWO_54 18014398509481984.0
#define GPUMC__SHIFT 6755399441055744.0                     /* 1.5 2^52 */
#define GPUMC__SMALLEST_NORMAL 2.2250738585072014e-308

GPUMC_FN uint64_t gpumc__bits_of(double x) { uint64_t u; memcpy(&u, &x, sizeof u); return u; }
GPUMC_FN double gpumc__from_bits(uint64_t u) { double x; memcpy(&x, &u, sizeof x); return x; }
/* |x|. Exact. */
GPUMC_FN double gpumc_fabs(double x) { return gpumc__from_bits(gpumc__bits_of(x) & ~GPUMC__SIGN_BIT); }

GPUMC_FN double gpumc__with_sign_of(double x, double sign)
{ return gpumc__from_bits(gpumc__bits_of(gpumc_fabs(x)) | (gpumc__bits_of(sign) & GPUMC__SIGN_BIT)); }
/* The upper 26 bits of x: their square is exact, and so is x less them. */
GPUMC_FN double gpumc__upper(double x) { return gpumc__from_bits(gpumc__bits_of(x) & 0xfffffffff8000000ULL); }
/* Adding 2^52 or 1.5 2^52 rounds to a whole number and leaves it in the low bits; this takes it out again.
   Clearing the sign, which is clear already, keeps compilers that ignore rounding from folding both steps. */
GPUMC_FN double gpumc__whole_in(double sum, double shift)
{ return gpumc__from_bits(gpumc__bits_of(sum) & ~GPUMC__SIGN_BIT) - shift; }
/* The whole number nearest to x for |x| < 2^52. */
GPUMC_FN double gpumc__nearest(double x)
{ return gpumc__with_sign_of(gpumc__whole_in(gpumc_fabs(x) + GPUMC__TWO_52, GPUMC__TWO_52), x); }
/* The largest whole number that is not above x. Exact. */
GPUMC_FN double gpumc_floor(double x)
{
    const double nearest = gpumc__nearest(x), below = nearest - (x < nearest ? 1.0 : 0.0);
    return gpumc_fabs(x) < GPUMC__TWO_52 ? gpumc__with_sign_of(below, x) : x;
}

/* ---- exponential ----------------------------------------------------------------------------- */
#define GPUMC__LOG_2_HI 6.93147180369123816490e-01          /* 32 bits, so that small multiples are exact */
#define GPUMC__LOG_2_LO 1.90821492927058770002e-10
#define GPUMC__LOG2_E 1.44269504088896338700

/* y exp(x + lo) for |lo| < 1e-4: x = n log 2 + r; y joins the sum 1 + r + ... before its last rounding; 2^n
   comes in two factors, so that subnormal results are right. */
GPUMC_FN double gpumc__times_exp(double y, double x, double lo)
{
    const double above = x < -746.0 ? -746.0 : x, clamped = 710.0 < above ? 710.0 : above;
    const double sum = clamped * GPUMC__LOG2_E + (GPUMC__SHIFT + 2046.0);
    const double n = gpumc__whole_in(sum, GPUMC__SHIFT + 2046.0);
    const double r = ((clamped - n * GPUMC__LOG_2_HI) - n * GPUMC__LOG_2_LO) + lo;
    const uint64_t k = gpumc__bits_of(sum) & 0xfff, half = k >> 1;
    const double p = y + y * (r + (r * r) * gpumc__poly_exp(r));
    return (p * gpumc__from_bits(half << 52)) * gpumc__from_bits((k - half) << 52);
}
/* exp(x). 1.1 ULP */
GPUMC_FN double gpumc_exp(double x) { return gpumc__times_exp(1.0, x, -0.0); }
/* exp(x) for x <= 0: 2^n as 2^(n + 64) 2^-64. */
GPUMC_FN double gpumc__exp_fall(double x)
{
    const double sum = x * GPUMC__LOG2_E + (GPUMC__SHIFT + 1087.0);
    const double n = gpumc__whole_in(sum, GPUMC__SHIFT + 1087.0);
    const double r = (x - n * GPUMC__LOG_2_HI) - n * GPUMC__LOG_2_LO;
    const double p = 1.0 + (r + (r * r) * gpumc__poly_exp(r));
    const double y = (p * gpumc__from_bits(gpumc__bits_of(sum) << 52)) * 5.421010862427522e-20;
    return x < -746.0 ? 0.0 : y;
}
/* y exp(scale x^2) for x >= 0 and scale a power of two or its negative: the square in two parts. */
GPUMC_FN double gpumc__times_exp_square(double y, double x, double scale)
{
    const double a = 64.0 < x ? 64.0 : x, h = gpumc__upper(a);
    return gpumc__times_exp(y, scale * (h * h), scale * ((a + h) * (a - h)));
}
/* exp(x) - 1: r + c is the reduced argument, s = 2^(n-1). 1.5 ULP */
GPUMC_FN double gpumc_expm1(double x)
{
    const double above = x < -50.0 ? -50.0 : x, clamped = 709.9 < above ? 709.9 : above;
    const double sum = clamped * GPUMC__LOG2_E + (GPUMC__SHIFT + 1022.0);
    const double n = gpumc__whole_in(sum, GPUMC__SHIFT + 1022.0);
    const double hi = clamped - n * GPUMC__LOG_2_HI, lo = n * GPUMC__LOG_2_LO, r = hi - lo, c = (hi - r) - lo;
    const double s = gpumc__from_bits(gpumc__bits_of(sum) << 52);
    const double a = s - 0.5, b = s * r, u = a + b, v = b - (u - a);
    const double y = 2.0 * (u + (v + s * ((r * r) * gpumc__poly_exp(r) + (c + c * r))));
    return gpumc_fabs(x) < 1e-17 ? x : y;
}

/* ---- logarithm ------------------------------------------------------------------------------- */
#define GPUMC__ROOT_HALF_BITS 0x3fe6a09e00000000ULL         /* the upper half of sqrt(1/2) */
#define GPUMC__EXPONENT_BITS 0x7ff0000000000000ULL

/* x = 2^k (1 + f) with f from sqrt(1/2) - 1 to sqrt(2) - 1; returns k. x positive and normal. */
GPUMC_FN double gpumc__log_split(double x, double *f)
{
    const uint64_t u = gpumc__bits_of(x) + (GPUMC__ONE_BITS - GPUMC__ROOT_HALF_BITS);
    *f = gpumc__from_bits((u & 0x000fffffffffffffULL) + GPUMC__ROOT_HALF_BITS) - 1.0;
    return gpumc__from_bits((u >> 52) | 0x4330000000000000ULL) - (GPUMC__TWO_52 + 1023.0);
}
/* The same for subnormal x too. */
GPUMC_FN double gpumc__log_split_any(double x, double *f)
{
    const int subnormal = x < GPUMC__SMALLEST_NORMAL;
    const double k = gpumc__log_split(x * (subnormal ? GPUMC__TWO_54 : 1.0), f);
    return k - (subnormal ? 54.0 : 0.0);
}
/* log(2^k (1 + f)) + e = k LOG_2_HI + (f - rest) for small e: by the series of 2 atanh(f / (2 + f)). */
GPUMC_FN double gpumc__log_rest(double k, double f, double e)
{
    const double s = f / (2.0 + f), z = s * s;
    return s * (f - z * gpumc__poly_log(z)) - (k * GPUMC__LOG_2_LO + e);
}
/* log(x) for positive normal x. */
GPUMC_FN double gpumc__log_normal(double x)
{
    double f;
    const double k = gpumc__log_split(x, &f);
    return k * GPUMC__LOG_2_HI + (f - gpumc__log_rest(k, f, -0.0));
}
/* log(x), -infinity at 0. 0.9 ULP */
GPUMC_FN double gpumc_log(double x)
{
    double f;
    const double k = gpumc__log_split_any(x, &f);
    const double y = k * GPUMC__LOG_2_HI + (f - gpumc__log_rest(k, f, -0.0));
    const double outside = x < 0.0 ? GPUMC_NAN : -GPUMC_INF, inside = 0.0 < x ? y : outside;
    return x < GPUMC_INF ? inside : x;
}
/* log(u + lo) for normal u > 0 and |lo| at most half an ULP of u; over = u + lo - 1 is used where k = 0. */
GPUMC_FN double gpumc__log_sum(double u, double lo, double over)
{
    double f_u;
    const double k = gpumc__log_split(u, &f_u), f = k == 0.0 ? over : f_u;
    const uint64_t shifted = gpumc__bits_of(u) + (GPUMC__ONE_BITS - GPUMC__ROOT_HALF_BITS);
    const double over_2_k = gpumc__from_bits(GPUMC__EXPONENT_BITS - (shifted & GPUMC__EXPONENT_BITS));
    const double c = k == 0.0 ? 0.0 : 0.5 * lo * over_2_k;
    const double e = c * (0.98 - f * (0.95 - 0.71 * f));     /* about c / (1 + f), for c = lo 2^-k */
    return k * GPUMC__LOG_2_HI + (f - gpumc__log_rest(k, f, e));
}
/* log(1 + x), -infinity at -1. 0.9 ULP */
GPUMC_FN double gpumc_log1p(double x)
{
    const double u = 1.0 + x, part = u - 1.0, lo = (1.0 - (u - part)) + (x - part);
    const double y = gpumc__log_sum(u, lo, x);
    const double outside = u < 0.0 ? GPUMC_NAN : -GPUMC_INF, inside = 0.0 < u ? y : outside;
    return x < GPUMC_INF ? gpumc__with_sign_of(inside, x) : x;                  /* the sign: of log1p(-0) */
}
/* log(1 + x) for x in [0, 1], by the series alone. */
GPUMC_FN double gpumc__log1p_unit(double x)
{
    const double s = x / (2.0 + x), z = s * s;
    return x - s * (x - z * gpumc__poly_log1p_unit(z));
}

/* ---- square root ----------------------------------------------------------------------------- */
/* 1 / sqrt(x) to 3e-12, x positive and normal: halving the exponent, then two steps of third order. */
GPUMC_FN double gpumc__rsqrt_start(double x)
{
    const double y_0 = gpumc__from_bits(0x5fe6eb50c7b537a9ULL - (gpumc__bits_of(x) >> 1));
    const double e_0 = 1.0 - x * y_0 * y_0, y_1 = y_0 + y_0 * e_0 * (0.5 + 0.375 * e_0);
    const double e_1 = 1.0 - x * y_1 * y_1;
    return y_1 + y_1 * e_1 * (0.5 + 0.375 * e_1);
}
/* sqrt(x); compilers do not vectorise the library's. 0.501 ULP
   One Newton step from s, the residue x - s^2 exact by halves; small x is scaled by 2^108 to keep it so. */
GPUMC_FN double gpumc_sqrt(double x)
{
    const int tiny = x < 1e-290;
    const double a = x * (tiny ? GPUMC__TWO_54 * GPUMC__TWO_54 : 1.0), y = gpumc__rsqrt_start(a);
    const double s = a * y, h = gpumc__upper(s), l = s - h, residue = ((a - h * h) - 2.0 * h * l) - l * l;
    const double root = (s + 0.5 * residue * y) * (tiny ? 1.0 / GPUMC__TWO_54 : 1.0);
    const double outside = x == 0.0 ? x : GPUMC_NAN, inside = 0.0 < x ? root : outside;
    return x < GPUMC_INF ? inside : x;
}
/* For x from 1e-290 on, short of infinity. */
GPUMC_FN double gpumc__rsqrt_normal(double x)
{
    const double y = gpumc__rsqrt_start(x);
    return y + 0.5 * (y * (1.0 - x * y * y));
}
/* 1 / sqrt(x), at 0 infinity of its sign. 1.3 ULP */
GPUMC_FN double gpumc_rsqrt(double x)
{
    const int tiny = x < 1e-290;
    const double a = x * (tiny ? GPUMC__TWO_54 * GPUMC__TWO_54 : 1.0);
    const double root = gpumc__rsqrt_normal(a) * (tiny ? GPUMC__TWO_54 : 1.0);
    const double of_zero = gpumc__with_sign_of(GPUMC_INF, x), outside = x == 0.0 ? of_zero : GPUMC_NAN;
    const double inside = 0.0 < x ? root : outside;
    return x < GPUMC_INF ? inside : x == GPUMC_INF ? 0.0 : x;
}

/* ---- logistic and hyperbolic functions ------------------------------------------------------- */
/* log(1 + exp(x)). 1.7 ULP */
GPUMC_FN double gpumc_log1p_exp(double x)
{ return (0.0 < x ? x : 0.0) + gpumc__log1p_unit(gpumc__exp_fall(-gpumc_fabs(x))); }
/* log(exp(a) + exp(b)). 1.7 ULP of the largest of |a|, |b| and the result */
GPUMC_FN double gpumc_log_sum_exp(double a, double b)
{
    const double gap = a == b ? 0.0 : gpumc_fabs(a - b);
    return (a < b ? b : a) + gpumc__log1p_unit(gpumc__exp_fall(-gap));
}
/* 1 / (1 + exp(-x)). 2.2 ULP */
GPUMC_FN double gpumc_inv_logit(double x)
{
    const double e = gpumc__exp_fall(-gpumc_fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
/* log(p / (1 - p)), -infinity at 0, infinity at 1. 1.5 ULP
   = +-log(1 + (1 - 2 t) / t) with t the smaller of p and 1 - p; where 1 / t might overflow, of 2^64 t. */
GPUMC_FN double gpumc_logit(double p)
{
    const double smaller = p < 0.5 ? p : 1.0 - p, t = gpumc_fabs(smaller);
    const int tiny = t < 1e-300;
    const double odds = (1.0 - 2.0 * t) / (t * (tiny ? 18446744073709551616.0 : 1.0));
    const double any = gpumc_log1p(odds) + (tiny ? 64.0 * GPUMC_LOG_2 : 0.0);
    const double y = smaller < 0.0 ? GPUMC_NAN : any;
    return p < 0.5 ? -y : y;
}
/* tanh(x). 2.6 ULP */
GPUMC_FN double gpumc_tanh(double x)
{
    const double e = gpumc_expm1(-2.0 * gpumc_fabs(x));
    return gpumc__with_sign_of(e / (2.0 + e), x);
}

/* ---- sine and cosine ------------------------------------------------------------------------- */
/* sin(2 pi u) and cos(2 pi u) for every finite u. 2 ULP each
   u less the nearest whole number is exact, and so is the rest r in [-1/8, 1/8] from the nearest quarter. */
GPUMC_FN void gpumc__sincos_turn(double f, double *sine, double *cosine)
{
    const double sum = 4.0 * f + GPUMC__SHIFT, r = f - 0.25 * gpumc__whole_in(sum, GPUMC__SHIFT), z = r * r;
    const double s = r * (2.0 * GPUMC_PI) + r * (z * gpumc__poly_sin(z)), c = 1.0 + z * gpumc__poly_cos(z);
    const uint64_t quarter = gpumc__bits_of(sum), odd = (uint64_t)0 - (quarter & 1);
    const uint64_t s_bits = gpumc__bits_of(s), c_bits = gpumc__bits_of(c), swap = (s_bits ^ c_bits) & odd;
    *sine = gpumc__from_bits(s_bits ^ swap ^ ((quarter & 2) << 62));
    *cosine = gpumc__from_bits(c_bits ^ swap ^ (((quarter + 1) & 2) << 62));
}
GPUMC_FN void gpumc_sincos_2pi(double u, double *sine, double *cosine)
{
    const double turn = u - gpumc__nearest(u);
    gpumc__sincos_turn(gpumc_fabs(u) < GPUMC__TWO_52 ? turn : u - u, sine, cosine);
}

/* ---- error function and normal distribution -------------------------------------------------- */
/* (1 + 2x) erfcx(x) - 1, x >= 0, after Shepherd & Laframboise (1981): at most 1/4, of positive terms. */
GPUMC_FN double gpumc__erfcx_rest(double x)
{
    const double a = 1e18 < x ? 1e18 : x;
    return a * gpumc__poly_erfcx_top(a) / gpumc__poly_erfcx_bottom(a);
}
/* erfcx(x), x >= 0. 2.6 ULP */
GPUMC_FN double gpumc__erfcx_above(double x)
{
    const double r = 0.5 / (x + 0.5);
    return r + r * gpumc__erfcx_rest(x);
}
/* erfcx(x) = exp(x^2) erfc(x), infinity below -26.7. 2.6 ULP */
GPUMC_FN double gpumc_erfcx(double x)
{
    const double a = gpumc_fabs(x), y = gpumc__erfcx_above(a), e = gpumc__times_exp_square(2.0, a, 1.0);
    return x < 0.0 ? e - y : y;
}
/* erfc(x) = 1 - erf(x), with its relative accuracy down to the smallest number. 3.3 ULP */
GPUMC_FN double gpumc_erfc(double x)
{
    const double a = gpumc_fabs(x), y = gpumc__times_exp_square(gpumc__erfcx_above(a), a, -1.0);
    return x < 0.0 ? 2.0 - y : y;
}
/* erf(x). 1.6 ULP */
GPUMC_FN double gpumc_erf(double x)
{
    const double a = gpumc_fabs(x), y = a + a * gpumc__poly_erf(a * a);
    const double tail = gpumc__times_exp_square(gpumc__erfcx_above(a), a, -1.0);
    return gpumc__with_sign_of(a < 0.75 ? y : 1.0 - tail, x);
}
/* erfcx(x / sqrt 2) / 2, x >= 0: the quotient z and d = z + 1/2 with what their rounding loses, lo. */
GPUMC_FN double gpumc__half_erfcx(double x)
{
    const double root = 0.70710678118654752440, root_hi = 0.7071067690849304, root_lo = 1.210161710447897e-08;
    const double a = 1e300 < x ? 1e300 : x, h = gpumc__upper(a), z = a * root, d = z + 0.5, part = d - z;
    const double z_lo = (h * root_hi - z) + (h * root_lo + (a - h) * root), r = 0.5 / d;
    const double lo = z_lo + ((z - (d - part)) + (0.5 - part));
    return 0.5 * (r + r * (gpumc__erfcx_rest(z) - 2.0 * lo * r));
}
/* Phi(x) = erfc(-x / sqrt 2) / 2, the standard normal distribution function. 3.2 ULP */
GPUMC_FN double gpumc_Phi(double x)
{
    const double a = gpumc_fabs(x), tail = gpumc__times_exp_square(gpumc__half_erfcx(a), a, -0.5);
    return 0.0 < x ? 1.0 - tail : tail;
}
/* log Phi(x). 3.8 ULP
   Below 0 the logarithm of erfcx / 2 less x^2 / 2, above 0 that of 1 less the other tail. */
GPUMC_FN double gpumc_log_Phi(double x)
{
    const double a = gpumc_fabs(x), half = gpumc__half_erfcx(a);
    const double tail = gpumc__times_exp_square(half, a, -0.5);
    const double upper = 1.0 - tail, lo = (1.0 - upper) - tail;
    const double y = gpumc__log_sum(x < 0.0 ? half : upper, x < 0.0 ? 0.0 : lo, -tail);
    return y - (x < 0.0 ? 0.5 * x * x : 0.0);
}
/* Phi(-x) / phi(x) for x >= 0, by one division. 6.5 ULP */
GPUMC_FN double gpumc__mills(double x)
{
    const double y = 1.0 / (x + 5.0);
    return y + y * (y * gpumc__poly_mills(1.0 - 10.0 * y));
}
/* Its reciprocal less x, for x >= 0; the rounding of x + 4 is put right by the derivative. */
GPUMC_FN double gpumc__mills_excess(double x)
{
    const double d = x + 4.0, y = 1.0 / d, D = y + y * (y * gpumc__poly_mills_excess(1.0 - 8.0 * y));
    return x < 1e15 ? D + (x - (d - 4.0)) * (D * (x + D) - 1.0) : D;
}
/* Phi(-x) / phi(x), the Mills ratio, infinity below -37.7: 1 / gpumc_mills(-x) is the derivative of
   log Phi(x), in both tails. 3.4 ULP */
GPUMC_FN double gpumc_mills(double x)
{
    const double a = gpumc_fabs(x), y = 1.0 / (a + gpumc__mills_excess(a));
    const double e = gpumc__times_exp_square(2.5066282746310002, a, 0.5);
    return x < 0.0 ? e - y : y;
}
/* 1 / gpumc_mills(x) - x, the mean of Z - x where Z > x is N(0, 1), without the difference. 4.7 ULP */
GPUMC_FN double gpumc_mills_excess(double x)
{
    const double a = gpumc_fabs(x), y = gpumc__mills_excess(a);
    const double e = gpumc__times_exp_square(2.5066282746310002, a, 0.5);
    return x < 0.0 ? a + 1.0 / (e - 1.0 / (a + y)) : y;
}

/* The standard normal quantile Phi^-1(p), -infinity at 0, infinity at 1. 3.2 ULP
   As Wichura (1988, algorithm AS 241) by rational functions of q = p - 1/2 in the middle and of sqrt(-log p)
   in the tails, here each as a correction to a straight line, which makes its errors count little. */
GPUMC_FN double gpumc_inv_Phi(double p)
{
    const double q = p - 0.5, m = p < 0.5 ? p : 1.0 - p, v = 0.180625 - q * q;
    const double x = gpumc_sqrt(-gpumc_log(m)) - 1.6;
    const double top = gpumc__poly_quantile_middle_top(v), bottom = gpumc__poly_quantile_middle_bottom(v);
    const double tail_top = gpumc__poly_quantile_tail_top(x);
    const double tail_bottom = gpumc__poly_quantile_tail_bottom(x);
    const int in_tail = m < 0.075;
    const double correction = (in_tail ? tail_top : top) / (in_tail ? tail_bottom : bottom);
    const double middle = gpumc_fabs(q) * (2.5 + correction), tail = (1.4375 + correction) + 1.5 * x;
    const double inside = in_tail ? tail : middle, z = m == 0.0 ? GPUMC_INF : inside;
    return q < 0.0 ? -z : z;
}

/* ---- gamma and beta functions ---------------------------------------------------------------- */
/* What lgamma(x) = lgamma(2 + u) +- log m needs for x < 6.5: returns the number of whole steps x - u, and in
   product m, that of the numbers stepped over. sqrt 2 instead of 1.5: where k = 0 in log_split ends. */
#define GPUMC__ROOT_2 1.4142131805419922
GPUMC_FN double gpumc__gamma_steps(double x, double *product)
{
    const double up = (x < GPUMC__ROOT_2 ? x : 1.0) * (x < 0.5 ? x + 1.0 : 1.0);
    const double two = (x < 2.5 ? 1.0 : x - 1.0) * (x < 3.5 ? 1.0 : x - 2.0);
    const double four = (x < 4.5 ? 1.0 : x - 3.0) * (x < 5.5 ? 1.0 : x - 4.0);
    const double low = (x < 0.5 ? 0.0 : 1.0) + (x < GPUMC__ROOT_2 ? 0.0 : 1.0) + (x < 2.5 ? 0.0 : 1.0);
    *product = up * (two * four);
    return low + (x < 3.5 ? 0.0 : 1.0) + (x < 4.5 ? 0.0 : 1.0) + (x < 5.5 ? 0.0 : 1.0);
}

/* log Gamma(x) for x >= 0, infinity at 0; relative accuracy also at its zeros 1 and 2. 3.5 ULP
   Below 6.5 by steps to [1.4, 2.5), from there on by Stirling's series. Around 1, where f = u, the linear
   terms of lgamma(2 + u) and log m are joined, (1 - gamma) - 1 with Euler's gamma, before any rounding. */
GPUMC_FN double gpumc_lgamma(double x)
{
    double product, f;
    const double u = x - gpumc__gamma_steps(x, &product), inv = 1.0 / x;
    const double k = gpumc__log_split_any(x < 6.5 ? product : x, &f), hi = k * GPUMC__LOG_2_HI;
    const double rounding = x - ((x + 1.0) - 1.0), e = x < 0.5 ? rounding * (1.0 - 0.7 * x) : 0.0;
    const double rest = gpumc__log_rest(k, f, e);
    const int low = x < GPUMC__ROOT_2, joined = low && !(x < 0.5 * GPUMC__ROOT_2);
    const double slope = (joined ? -0.57721566490153286 : 0.42278433509846714) + u * gpumc__poly_lgamma(u);
    const double log_m = (joined ? 0.0 : f) + (hi - rest), y_near = u * slope + (low ? 0.0 - log_m : log_m);
    const double series = (GPUMC_LOG_SQRT_2PI - 0.5) + inv * gpumc__poly_stirling(inv * inv);
    const double y_far = (x - 0.5) * ((hi - 1.0) + (f - rest)) + series;
    const double y = x < 6.5 ? y_near : y_far, outside = x == 0.0 ? GPUMC_INF : GPUMC_NAN;
    return 0.0 < x ? y : outside;
}
/* The derivative of log Gamma for x >= 0, -infinity at 0; relative accuracy also at its zero 1.46. 3.6 ULP
   Below 6.5 a rational function of u on [1, 6.5), one step down below 1; then the asymptotic series. */
GPUMC_FN double gpumc_digamma(double x)
{
    const double inv = 1.0 / x, w = inv * inv, u = x < 1.0 ? x : x - 1.0;
    const double from_root = (u - 0.46163214496836236) + 1.5522348162858677e-17;
    const double slope = 0.625 + gpumc__poly_digamma_top(u) / gpumc__poly_digamma_bottom(u);
    const double y_near = from_root * slope - (x < 1.0 ? inv : 0.0);
    const double y_far = gpumc__log_normal(x) - (0.5 * inv + w * gpumc__poly_digamma_far(w));
    const double y = x < 6.5 ? y_near : y_far, outside = x == 0.0 ? -GPUMC_INF : GPUMC_NAN;
    const double inside = 0.0 < x ? y : outside;
    return x < GPUMC_INF ? inside : x;
}
/* lgamma(1/2 + y) - (y (log y - 1) + log(2 pi) / 2) for y >= 1/2. About the half, Stirling's series has no
   singularity down to y = 0, so that one polynomial serves everywhere. */
GPUMC_FN double gpumc__half_stirling(double y)
{
    const double inv = 1.0 / (y + 0.75);
    return -inv * gpumc__poly_half_stirling(1.0 - 1.5 * inv);
}

/* log B(a, b) = lgamma(a) + lgamma(b) - lgamma(a + b), infinity if either is 0. 4.3 ULP of it or of 1
   That cancels unless each is written by its half_stirling and the large terms are combined: with p <= q,
   A = p + 1/2, B = q + 1/2, C = B + p
       p log(A / C) + B log(B / C) - log(p q / (p + q) / sqrt A) + (log(2 pi) - 1) / 2 + the three series. */
GPUMC_FN double gpumc_lbeta(double a, double b)
{
    const double p = b < a ? b : a, q = b < a ? a : b, A = p + 0.5, B = q + 0.5, C = B + p;
    const double log_a = gpumc_log(A / C), log_b = gpumc_log1p(-p / C);
    const double up = p < 1e-290 ? 54.0 : 0.0, s = p * (p < 1e-290 ? GPUMC__TWO_54 : 1.0) / (1.0 + p / q);
    const double lost = (0.5 - (A - p)) + (0.5 - (B - q)) * log_b;     /* in rounding A and B; C cancels */
    const double series = gpumc__half_stirling(A) + gpumc__half_stirling(B) - gpumc__half_stirling(C);
    const double rest = (series + lost + (GPUMC_LOG_SQRT_2PI - 0.5)) - (gpumc_log(s * gpumc_rsqrt(A))
                                                                        - up * GPUMC_LOG_2);
    const double y = (p * log_a + rest) + B * log_b;
    const double outside = p == 0.0 ? GPUMC_INF : GPUMC_NAN, inside = q < GPUMC_INF ? y : -q;
    return 0.0 < p ? inside : outside;
}

/* ================================================================================== >>api-special
   Incomplete gamma and beta functions, both tails, their logarithms and all derivatives.
   P and Q = 1 - P are each as accurate as the other, however small; logarithms go on where they underflow.
   Partial derivatives are ADDED to the pointers that are not NULL, as the densities do. Values are good to
   1e-11 relative and derivatives to 1e-9 for shapes from 1e-3 to 1e5, and hardly worse far beyond; a call
   takes 2 to 8 microseconds whatever the shapes. Invalid shapes give NaN; x beyond its range gives 0 or 1. */

/* P(a, x) = int_0^x t^(a-1) exp(-t) dt / Gamma(a) and Q = 1 - P;   a > 0, x >= 0.
   The inverses give the x with P(a, x) = p, or with Q(a, x) = q: where p is close to 1, start from q. */
GPUMC_API double gpumc_gamma_p(double a, double x, double *da, double *dx);
GPUMC_API double gpumc_gamma_q(double a, double x, double *da, double *dx);
GPUMC_API double gpumc_log_gamma_p(double a, double x, double *da, double *dx);
GPUMC_API double gpumc_log_gamma_q(double a, double x, double *da, double *dx);
GPUMC_API double gpumc_gamma_p_inverse(double a, double p);
GPUMC_API double gpumc_gamma_q_inverse(double a, double q);

/* P(a, b, x) = int_0^x t^(a-1) (1-t)^(b-1) dt / B(a, b), often written I_x(a, b), and Q = 1 - P;
   a, b > 0, 0 <= x <= 1. Where x is close to 1, Q(a, b, x) = P(b, a, 1 - x) may be wanted instead. */
GPUMC_API double gpumc_beta_p(double a, double b, double x, double *da, double *db, double *dx);
GPUMC_API double gpumc_beta_q(double a, double b, double x, double *da, double *db, double *dx);
GPUMC_API double gpumc_log_beta_p(double a, double b, double x, double *da, double *db, double *dx);
GPUMC_API double gpumc_log_beta_q(double a, double b, double x, double *da, double *db, double *dx);
GPUMC_API double gpumc_beta_p_inverse(double a, double b, double p);
GPUMC_API double gpumc_beta_q_inverse(double a, double b, double q);

/* Leaves for densities with large parameters, in which log Gamma itself would lose all digits: each is the
   difference of a function and its leading terms, computed without taking the difference. */

/* Where log(1 + x) is better computed from x than from 1 + x. */
GPUMC_FN int gpumc__is_near_0(gpumc_real x) { return (3 * x > -1) & (2 * x < 1); }
/* (atanh(sqrt x) / sqrt x - 1) / x for x < 1/25 */
GPUMC__POLY(atanh, 11, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19,
    1.0 / 21, 1.0 / 23)

/* log(r) - (r - 1) for r = 1 + x, from x and log r: near 0 by a series in s = x / (2 + x), |s| < 1/5. */
GPUMC_FN gpumc_real gpumc__log_less(gpumc_real x, gpumc_real log_r)
{
    const gpumc_real s = x / (2 + x), z = s * s, near_0 = 2 * s * z * GPUMC_R(gpumc__poly_atanh(z)) - x * s;
    return gpumc__is_near_0(x) ? near_0 : log_r - x;
}
/* log(1 + x) - x */
GPUMC_FN gpumc_real gpumc__log1p_less(gpumc_real x) { return gpumc__log_less(x, gpumc_log1p(x)); }
/* w / (1 + w) - log(1 + w), given share = w / (1 + w) and log(1 + w) */
GPUMC_FN gpumc_real gpumc__share_less_log(gpumc_real w, gpumc_real share, gpumc_real log_1w)
{ return gpumc__is_near_0(w) ? -gpumc__log_less(w, log_1w) - w * share : share - log_1w; }
/* log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2, x >= 1 */
GPUMC_FN gpumc_real gpumc__binet(gpumc_real x)
{
    const gpumc_real inv = 1 / (x + GPUMC_R(0.5));
    return inv * GPUMC_R(gpumc__poly_binet(1 - 3 * inv));
}
/* log Gamma(x + 1) - x log x + x, x >= 0: what Stirling's leading terms leave, close to log(2 pi x) / 2. */
GPUMC_FN gpumc_real gpumc__stirling_rest(gpumc_real x)
{
    const gpumc_real half = GPUMC_R(0.5), up = x < 1 ? x + 1 : x, log_up = gpumc_log(up);
    const gpumc_real below_1 = (x + half) * log_up - x * gpumc_log(x > 0 ? x : 1) - 1;
    const gpumc_real rest = (x < 1 ? below_1 : half * log_up) + gpumc__binet(up);
    return x > 0 ? rest + GPUMC_R(GPUMC_LOG_SQRT_2PI) : 0 * x;
}
/* log x - digamma(x), x > 0 */
GPUMC_FN gpumc_real gpumc__log_less_digamma(gpumc_real x)
{
    const gpumc_real p = 1 / (x < 8 ? 8 : x), w = p * p, direct = gpumc_log(x) - gpumc_digamma(x);
    return x < 8 ? direct : GPUMC_R(0.5) * p + w * GPUMC_R(gpumc__poly_digamma_far(w));
}

/* [digamma(x + d) - log(x + d)] - [digamma(x) - log x], x > 0, d >= 0, relatively accurate as d -> 0 and as
   x -> infinity. Below 8 by recurrence from x + 8; there by differences of the powers of p and q. */
GPUMC_FN gpumc_real gpumc__digamma_rise(gpumc_real x, gpumc_real d)
{
    const gpumc_real up = x < 8 ? 8 : 0, rise = x < 8 ? d : 0, y = x + d, one = 1;
    const gpumc_real s_0 = rise / x / y, s_1 = rise / ((x + 1) * (y + 1)), s_2 = rise / ((x + 2) * (y + 2));
    const gpumc_real s_3 = rise / ((x + 3) * (y + 3)), s_4 = rise / ((x + 4) * (y + 4));
    const gpumc_real s_5 = rise / ((x + 5) * (y + 5)), s_6 = rise / ((x + 6) * (y + 6));
    const gpumc_real sum = ((rise / ((x + 7) * (y + 7)) + s_6) + (s_5 + s_4)) + ((s_3 + s_2) + s_1);
    const gpumc_real logs = gpumc_log1p(d / (x + up)) - gpumc_log1p(d / x);
    const gpumc_real p = 1 / (x + up), q = 1 / (y + up), P = p * p, Q = q * q, gap = d * p * q;
    /* divided differences of w/12 - w^2/120 + w^3/252 - ... at P and Q: f by Horner's rule, g beside it */
    const gpumc_real f_7 = -(one / 12), g_7 = f_7;
    const gpumc_real f_6 = f_7 * P + 691 * one / 32760, g_6 = g_7 * Q + f_6;
    const gpumc_real f_5 = f_6 * P - one / 132, g_5 = g_6 * Q + f_5;
    const gpumc_real f_4 = f_5 * P + one / 240, g_4 = g_5 * Q + f_4;
    const gpumc_real f_3 = f_4 * P - one / 252, g_3 = g_4 * Q + f_3;
    const gpumc_real f_2 = f_3 * P + one / 120, g_2 = g_3 * Q + f_2;
    const gpumc_real f_1 = f_2 * P - one / 12, g_1 = g_2 * Q + f_1;
    const gpumc_real far_off = gap * (GPUMC_R(0.5) - (p + q) * g_1);
    return x < 8 ? (s_0 + sum) + (logs + far_off) : far_off;
}
/* ====================================================================================== >>api-rng
   Philox4x32-10 (Salmon et al. 2011): a block cipher over a counter, so any order of work and any number of
   threads gives the same numbers. Key: the 64-bit seed. Counter words: block, stream, draw, chain. */
typedef struct gpumc_rng {
    uint32_t key[2];
    /* block (advances), stream (purpose << 24 | tree leaf), draw, global chain number */
    uint32_t counter[4];
    uint32_t words[4];        /* the output of the last block */
    uint32_t left;            /* how many of them are unused; taken from words[0] on */
} gpumc_rng;

/* A generator at the start of a stream; different stream, draw or chain numbers never overlap. The sampler
   takes none of the streams below 2^24. */
GPUMC_API GPUMC_TEAM gpumc_rng gpumc_rng_at(uint64_t seed, uint32_t stream, uint32_t draw, uint32_t chain);
GPUMC_API GPUMC_TEAM uint32_t gpumc_rng_word(gpumc_rng *rng);              /* 32 uniform bits */
GPUMC_API GPUMC_TEAM double gpumc_rng_uniform(gpumc_rng *rng);  /* (0, 1), (k + 1/2) 2^-52: neither 0 nor 1 */
GPUMC_API GPUMC_TEAM double gpumc_rng_normal(gpumc_rng *rng);  /* N(0, 1) by Box-Muller, first of the pair */
GPUMC_API double gpumc_rng_exponential(gpumc_rng *rng);         /* rate 1 */
GPUMC_API double gpumc_rng_gamma(gpumc_rng *rng, double shape); /* scale 1 (Marsaglia & Tsang 2000) */
GPUMC_API double gpumc_rng_beta(gpumc_rng *rng, double a, double b);
GPUMC_API uint64_t gpumc_rng_below(gpumc_rng *rng, uint64_t n); /* 0 .. n - 1, without bias */
/* n of N(0, 1), vectorised, of 64 bits a pair: none is beyond 7.6 */
GPUMC_API GPUMC_TEAM void gpumc_rng_normals(gpumc_rng *rng, double *z, size_t n);

/* ===================================================================================== >>api-dist
   Distributions. Every univariate family has the same members, arguments in the order of the list below:

       gpumc_<family>_lpdf(y, parameters, *dy, *dparameters)   normalised log density; discrete: _lpmf, no dy
       gpumc_<family>_lcdf, _lccdf                             log P(Y <= y), log P(Y > y), called likewise
       gpumc_<family>_quantile(p, parameters)                  smallest y with P(Y <= y) >= p
       gpumc_<family>_rng(rng, parameters)                     one draw
       gpumc_<family>_mean(parameters), _variance(parameters)  infinite or NaN where they are so

   A density or cdf ADDS its partial derivatives to the pointers that are not NULL; n of a binomial has none.
   Invalid parameters, and NaN anywhere, give NaN. Outside the support a density is -infinity and its
   derivatives mean nothing; a cdf goes on to 0 and 1. Counts are numbers that hold whole values: a density at
   any other is -infinity, a cdf takes the whole number below. An infinite y is an end of the line, no error.

   Where programs differ: sigma is a standard deviation or scale, never a variance; exponential and gamma take
   a rate, weibull and inv_gamma (shape, scale); neg_binomial_2 (mean, phi) has variance mu + mu^2 / phi;
   geometric counts failures before the first success; half forms are normalised. */

/* X(shape, cdf, family, parameters, support), one line a family.
   shape: REAL_k is continuous with k parameters, COUNT_k discrete, TRIALS_k discrete after a whole n.
   cdf:   LEAF where lcdf and lccdf are leaf functions, CALL where they are ordinary ones. */
#define GPUMC_FAMILIES(X) \
    X(REAL_2, LEAF, normal, "mu real, sigma > 0", "real") \
    X(REAL_0, LEAF, std_normal, "", "real") \
    X(REAL_3, CALL, student_t, "nu > 0, mu real, sigma > 0", "real") \
    X(REAL_2, CALL, cauchy, "mu real, sigma > 0", "real") \
    X(REAL_2, LEAF, laplace, "mu real, sigma > 0", "real") \
    X(REAL_2, LEAF, logistic, "mu real, sigma > 0", "real") \
    X(REAL_2, LEAF, gumbel, "mu real, beta > 0", "real") \
    X(REAL_2, LEAF, lognormal, "mu real, sigma > 0", "y > 0") \
    X(REAL_1, LEAF, exponential, "rate > 0", "y >= 0") \
    X(REAL_2, CALL, gamma, "shape > 0, rate > 0", "y >= 0") \
    X(REAL_2, CALL, inv_gamma, "shape > 0, scale > 0", "y > 0") \
    X(REAL_1, CALL, chi_square, "nu > 0", "y >= 0") \
    X(REAL_2, LEAF, weibull, "shape > 0, scale > 0", "y >= 0") \
    X(REAL_1, LEAF, half_normal, "sigma > 0", "y >= 0") \
    X(REAL_1, CALL, half_cauchy, "sigma > 0", "y >= 0") \
    X(REAL_2, CALL, half_student_t, "nu > 0, sigma > 0", "y >= 0") \
    X(REAL_2, CALL, beta, "a > 0, b > 0", "0 <= y <= 1") \
    X(REAL_2, CALL, beta_proportion, "mu in (0, 1), kappa > 0", "0 <= y <= 1") \
    X(REAL_2, LEAF, uniform, "a real, b > a", "a <= y <= b") \
    X(COUNT_1, LEAF, bernoulli, "p in [0, 1]", "0, 1") \
    X(COUNT_1, LEAF, bernoulli_logit, "eta real", "0, 1") \
    X(TRIALS_1, CALL, binomial, "n whole, p in [0, 1]", "0 .. n") \
    X(TRIALS_1, CALL, binomial_logit, "n whole, eta real", "0 .. n") \
    X(COUNT_1, CALL, poisson, "lambda >= 0", "0, 1, 2, ...") \
    X(COUNT_1, CALL, poisson_log, "eta real", "0, 1, 2, ...") \
    X(COUNT_2, CALL, neg_binomial_2, "mu > 0, phi > 0", "0, 1, 2, ...") \
    X(COUNT_2, CALL, neg_binomial_2_log, "eta real, phi > 0", "0, 1, 2, ...") \
    X(COUNT_1, LEAF, geometric, "p in (0, 1]", "0, 1, 2, ...")

/* What a density or cdf of each shape takes: GPUMC__REAL_1(real, real *, y, a) is y, a, dy, da with types,
   and GPUMC__REAL_1(,, y, a) hands them on. */
#define GPUMC__REAL_0(real, pointer, y) real y, pointer d##y
#define GPUMC__REAL_1(real, pointer, y, a) real y, real a, pointer d##y, pointer d##a
#define GPUMC__REAL_2(real, pointer, y, a, b) real y, real a, real b, pointer d##y, pointer d##a, pointer d##b
#define GPUMC__REAL_3(real, pointer, y, a, b, c) \
    real y, real a, real b, real c, pointer d##y, pointer d##a, pointer d##b, pointer d##c
#define GPUMC__COUNT_1(real, pointer, y, a) real y, real a, pointer d##a
#define GPUMC__COUNT_2(real, pointer, y, a, b) real y, real a, real b, pointer d##a, pointer d##b
#define GPUMC__TRIALS_1(real, pointer, y, n, a) real y, real n, real a, pointer d##a
#define GPUMC__TAKES(shape, ...) GPUMC__##shape(gpumc_real, gpumc_real *, __VA_ARGS__)

/* Declarations of the ordinary functions, in double even where the leaves of a device build are float. */
#define GPUMC__DECLARE_REAL_0(cdf, family) \
    GPUMC_API double gpumc_##family##_quantile(double p); \
    GPUMC_API double gpumc_##family##_rng(gpumc_rng *rng); \
    GPUMC_API double gpumc_##family##_mean(void); \
    GPUMC_API double gpumc_##family##_variance(void);
#define GPUMC__DECLARE(cdf, family, arguments, ...) \
    GPUMC__DECLARE_CDF_##cdf(family, arguments) \
    GPUMC_API double gpumc_##family##_quantile(double p, __VA_ARGS__); \
    GPUMC_API double gpumc_##family##_rng(gpumc_rng *rng, __VA_ARGS__); \
    GPUMC_API double gpumc_##family##_mean(__VA_ARGS__); \
    GPUMC_API double gpumc_##family##_variance(__VA_ARGS__);
#define GPUMC__DECLARE_REAL_1(cdf, f) \
    GPUMC__DECLARE(cdf, f, (GPUMC__REAL_1(double, double *, y, a)), double a)
#define GPUMC__DECLARE_REAL_2(cdf, f) \
    GPUMC__DECLARE(cdf, f, (GPUMC__REAL_2(double, double *, y, a, b)), double a, double b)
#define GPUMC__DECLARE_REAL_3(cdf, f) \
    GPUMC__DECLARE(cdf, f, (GPUMC__REAL_3(double, double *, y, a, b, c)), double a, double b, double c)
#define GPUMC__DECLARE_COUNT_1(cdf, f) \
    GPUMC__DECLARE(cdf, f, (GPUMC__COUNT_1(double, double *, y, a)), double a)
#define GPUMC__DECLARE_COUNT_2(cdf, f) \
    GPUMC__DECLARE(cdf, f, (GPUMC__COUNT_2(double, double *, y, a, b)), double a, double b)
#define GPUMC__DECLARE_TRIALS_1(cdf, f) \
    GPUMC__DECLARE(cdf, f, (GPUMC__TRIALS_1(double, double *, y, n, a)), double n, double a)
#define GPUMC__DECLARE_CDF_LEAF(family, arguments)
#define GPUMC__DECLARE_CDF_CALL(family, arguments) \
    GPUMC_API double gpumc_##family##_lcdf arguments; \
    GPUMC_API double gpumc_##family##_lccdf arguments;
#define GPUMC__DECLARE_FAMILY(shape, cdf, family, parameters, support) GPUMC__DECLARE_##shape(cdf, family)
GPUMC_FAMILIES(GPUMC__DECLARE_FAMILY)
/* Heads gpumc__<family>_cdf(side, ...), the one function behind _lcdf and _lccdf, which are defined here too:
   side is 1 for P(Y <= y), -1 for P(Y > y). */
enum { GPUMC__LOWER = 1, GPUMC__UPPER = -1 };
#define GPUMC__CDF(own, open, real, shape, family, ...) \
    own real gpumc__##family##_cdf(real side, GPUMC__##shape(real, real *, __VA_ARGS__)); \
    open real gpumc_##family##_lcdf(GPUMC__##shape(real, real *, __VA_ARGS__)) \
    { return gpumc__##family##_cdf(GPUMC__LOWER, GPUMC__##shape(,, __VA_ARGS__)); } \
    open real gpumc_##family##_lccdf(GPUMC__##shape(real, real *, __VA_ARGS__)) \
    { return gpumc__##family##_cdf(GPUMC__UPPER, GPUMC__##shape(,, __VA_ARGS__)); } \
    own real gpumc__##family##_cdf(real side, GPUMC__##shape(real, real *, __VA_ARGS__))
#define GPUMC__CDF_LEAF(shape, ...) GPUMC__CDF(GPUMC_FN, GPUMC_FN, gpumc_real, shape, __VA_ARGS__)
#define GPUMC__CDF_CALL(shape, ...) GPUMC__CDF(static, GPUMC_API, double, shape, __VA_ARGS__)

/* What every leaf density is made of. Conditions are written so that NaN fails "valid", passes "outside". */
GPUMC_FN void gpumc__add(gpumc_real *p, gpumc_real v) { if (p) *p += v; }
GPUMC_FN void gpumc__add_2(gpumc_real *p, gpumc_real v, gpumc_real *q, gpumc_real w)
{ gpumc__add(p, v), gpumc__add(q, w); }
GPUMC_FN void gpumc__add_3(gpumc_real *p, gpumc_real v, gpumc_real *q, gpumc_real w,
                           gpumc_real *r, gpumc_real x)
{ gpumc__add_2(p, v, q, w), gpumc__add(r, x); }
GPUMC_FN gpumc_real gpumc__valid(int condition, gpumc_real value) { return condition ? value : GPUMC_NAN; }
GPUMC_FN gpumc_real gpumc__outside(int condition, gpumc_real value) { return condition ? -GPUMC_INF : value; }
/* Infinity is not whole; NaN counts as whole, so that it goes on. Beyond 2^52 all are, but the sum may round,
   by 1 or more. (With a negation gcc stays scalar.) */
GPUMC_FN int gpumc__is_whole(gpumc_real y)
{
    const double size = gpumc_fabs(y), gap = gpumc__whole_in(size + GPUMC__TWO_52, GPUMC__TWO_52) - size;
    return (gap == 0) | (gap * gap > 0.5) | (y != y);
}
/* y where it is inside (y > 0), a harmless number where the density is -infinity anyway; NaN stays. */
GPUMC_FN gpumc_real gpumc__positive(gpumc_real y) { return y <= 0 ? GPUMC_R(1e-30) : y; }
/* A log cdf before the support. */
GPUMC_FN gpumc_real gpumc__before(gpumc_real side) { return side > 0 ? -GPUMC_INF : GPUMC_R(0.0); }
/* log(1 - exp(-x)) for x >= 0, accurate at both ends; its derivative is 1 / expm1(x). */
GPUMC_FN gpumc_real gpumc__log1m_exp(gpumc_real x)
{
    const gpumc_real near_0 = gpumc_log(-gpumc_expm1(-x)), far_out = gpumc_log1p(-gpumc_exp(-x));
    return x < GPUMC_R(GPUMC_LOG_2) ? near_0 : far_out;
}
/* log P(T <= t) or log P(T > t) of an exponential T with rate 1, and its slope in log t, even where t
   underflows. */
GPUMC_FN gpumc_real gpumc__exponential_log_t(gpumc_real side, gpumc_real log_t, gpumc_real *slope)
{
    const gpumc_real t_any = gpumc_exp(log_t), least = GPUMC_R(1e-30), most = GPUMC_R(800.0);
    const gpumc_real t_some = t_any < least ? least : t_any, t = most < t_some ? most : t_some;
    const gpumc_real tail = gpumc_exp(-t), rest = -gpumc_expm1(-t);
    const gpumc_real near_0 = gpumc_log(rest / t) + log_t, far_out = gpumc_log1p(-tail);
    *slope = side > 0 ? t * tail / rest : -t_any;
    return side < 0 ? -t_any : log_t < GPUMC_R(-0.4) ? near_0 : far_out;
}
/* a log x, where 0 log 0 is 0. */
GPUMC_FN gpumc_real gpumc__times_log(gpumc_real a, gpumc_real log_x)
{
    const gpumc_real product = a * log_x;
    return a < 0 ? product : a > 0 ? product : a;
}
/* Adds the derivatives of a function of z = (y - mu) / sigma from its slope in z; inv is 1 / sigma.
   The clamp makes a bound at infinity, where a log cdf has slope 0, add 0. */
GPUMC_FN void gpumc__add_standard(gpumc_real slope, gpumc_real z, gpumc_real inv,
                                  gpumc_real *dy, gpumc_real *dmu, gpumc_real *dsigma)
{
    const gpumc_real v = slope * inv;
    gpumc__add_3(dy, v, dmu, -v, dsigma, -v * (z - z == 0 ? z : GPUMC_R(0.0)));
}

/* Below, z = (y - mu) / sigma and inv = 1 / sigma, or what stands for them. Sources: Johnson, Kotz &
   Balakrishnan (1994, 1995) and, for counts, Johnson, Kemp & Kotz (2005). */

/* ---- normal: log p = -z^2/2 - log sigma - log sqrt(2 pi), P(Y <= y) = Phi(z) -------- >>normal */
/* phi(z) / Phi(z), the slope of log Phi: by erfcx in the lower tail, where phi and Phi underflow. */
GPUMC_FN gpumc_real gpumc__log_Phi_slope(gpumc_real z)
{
    const gpumc_real t = gpumc_fabs(z) * GPUMC_R(GPUMC__ROOT_HALF);
    const gpumc_real scaled = gpumc_erfcx(t), bell = gpumc_exp(-t * t);
    const gpumc_real lower = 1 / scaled, upper = bell / (2 - bell * scaled);
    return GPUMC_R(GPUMC__ROOT_2_OVER_PI) * (z < 0 ? lower : upper);
}
GPUMC_FN gpumc_real gpumc_normal_lpdf(GPUMC__TAKES(REAL_2, y, mu, sigma))
{
    const gpumc_real inv = 1 / sigma, z = (y - mu) * inv;
    gpumc__add_3(dy, -z * inv, dmu, z * inv, dsigma, (z * z - 1) * inv);
    return gpumc__valid(sigma > 0, GPUMC_R(-0.5) * z * z - gpumc_log(sigma) - GPUMC_R(GPUMC_LOG_SQRT_2PI));
}
GPUMC__CDF_LEAF(REAL_2, normal, y, mu, sigma)
{
    const gpumc_real inv = 1 / sigma, z = (y - mu) * inv;
    gpumc__add_standard(side * gpumc__log_Phi_slope(side * z), z, inv, dy, dmu, dsigma);
    return gpumc__valid(sigma > 0, gpumc_log_Phi(side * z));
}
/* ---- std_normal: the law normal(0, 1) ------------------------------------------- >>std_normal */
GPUMC_FN gpumc_real gpumc_std_normal_lpdf(GPUMC__TAKES(REAL_0, y))
{ gpumc__add(dy, -y); return GPUMC_R(-0.5) * y * y - GPUMC_R(GPUMC_LOG_SQRT_2PI); }
GPUMC__CDF_LEAF(REAL_0, std_normal, y) { return gpumc__normal_cdf(side, y, 0, 1, dy, NULL, NULL); }
/* ---- cauchy: log p = -log(1 + z^2) - log(pi sigma), P(Y <= y) = 1/2 + atan(z) / pi -- >>cauchy */
GPUMC_FN gpumc_real gpumc_cauchy_lpdf(GPUMC__TAKES(REAL_2, y, mu, sigma))
{
    const gpumc_real inv = 1 / sigma, z = (y - mu) * inv, weight = 1 / (1 + z * z);
    gpumc__add_3(dy, -2 * z * weight * inv, dmu, 2 * z * weight * inv, dsigma, (1 - 2 * weight) * inv);
    return gpumc__valid(sigma > 0, -gpumc_log(1 + z * z) - gpumc_log(sigma) - GPUMC_R(GPUMC_LOG_PI));
}
/* ---- laplace: log p = -|z| - log(2 sigma), P(Y <= y) = exp(z)/2 or 1 - exp(-z)/2 ---- >>laplace
   The standard deviation is sigma sqrt 2. */
GPUMC_FN gpumc_real gpumc_laplace_lpdf(GPUMC__TAKES(REAL_2, y, mu, sigma))
{
    const gpumc_real inv = 1 / sigma, z = (y - mu) * inv, toward = z < 0 ? inv : z > 0 ? -inv : GPUMC_R(0.0);
    gpumc__add_3(dy, toward, dmu, -toward, dsigma, (gpumc_fabs(z) - 1) * inv);
    return gpumc__valid(sigma > 0, -gpumc_fabs(z) - gpumc_log(2 * sigma));
}
GPUMC__CDF_LEAF(REAL_2, laplace, y, mu, sigma)
{
    const gpumc_real inv = 1 / sigma, z = (y - mu) * inv, x = side * z;
    const gpumc_real tail = GPUMC_R(0.5) * gpumc_exp(-gpumc_fabs(x)), far_out = gpumc_log1p(-tail);
    gpumc__add_standard(side * (x < 0 ? GPUMC_R(1.0) : tail / (1 - tail)), z, inv, dy, dmu, dsigma);
    return gpumc__valid(sigma > 0, x < 0 ? x - GPUMC_R(GPUMC_LOG_2) : far_out);
}
/* ---- logistic: P(Y <= y) = 1 / (1 + exp(-z)) -------------------------------------- >>logistic
   log p = -|z| - 2 log(1 + exp(-|z|)) - log sigma; the standard deviation is sigma pi / sqrt 3. */
GPUMC_FN gpumc_real gpumc_logistic_lpdf(GPUMC__TAKES(REAL_2, y, mu, sigma))
{
    const gpumc_real inv = 1 / sigma, z = (y - mu) * inv, far_out = gpumc_fabs(z);
    const gpumc_real fall = gpumc_expm1(-far_out), size = -fall / (2 + fall);   /* tanh(|z| / 2) */
    const gpumc_real slope = z < 0 ? size : -size;
    gpumc__add_3(dy, slope * inv, dmu, -slope * inv, dsigma, (size * far_out - 1) * inv);
    return gpumc__valid(sigma > 0, -far_out - 2 * gpumc_log1p(1 + fall) - gpumc_log(sigma));
}
GPUMC__CDF_LEAF(REAL_2, logistic, y, mu, sigma)
{
    const gpumc_real inv = 1 / sigma, z = (y - mu) * inv;
    gpumc__add_standard(side * gpumc_inv_logit(-side * z), z, inv, dy, dmu, dsigma);
    return gpumc__valid(sigma > 0, -gpumc_log1p_exp(-side * z));
}
/* ---- gumbel: log p = -z - t - log beta, P(Y <= y) = exp(-t), t = exp(-z) ------------- >>gumbel
   Of largest values: the long tail is the upper one. t is exponential with rate 1, z = (y - mu) / beta. */
GPUMC_FN gpumc_real gpumc_gumbel_lpdf(GPUMC__TAKES(REAL_2, y, mu, beta))
{
    const gpumc_real inv = 1 / beta, z = (y - mu) * inv, slope = gpumc_expm1(-z), sum = -z - (1 + slope);
    gpumc__add_3(dy, slope * inv, dmu, -slope * inv, dbeta, (-slope * z - 1) * inv);
    return gpumc__valid(beta > 0, (z < -GPUMC_R(1e30) ? -GPUMC_INF : sum) - gpumc_log(beta));
}
GPUMC__CDF_LEAF(REAL_2, gumbel, y, mu, beta)
{
    gpumc_real slope;
    const gpumc_real inv = 1 / beta, z = (y - mu) * inv, value = gpumc__exponential_log_t(-side, -z, &slope);
    gpumc__add_standard(-slope, z, inv, dy, dmu, dbeta);
    return gpumc__valid(beta > 0, value);
}
/* ---- lognormal: the law of exp(X), X of normal(mu, sigma); z = (log y - mu) / sigma - >>lognormal */
GPUMC_FN gpumc_real gpumc_lognormal_lpdf(GPUMC__TAKES(REAL_2, y, mu, sigma))
{
    const gpumc_real x = gpumc__positive(y), log_y = gpumc_log(x), inv = 1 / sigma, z = (log_y - mu) * inv;
    const gpumc_real value = GPUMC_R(-0.5) * z * z - log_y - gpumc_log(sigma) - GPUMC_R(GPUMC_LOG_SQRT_2PI);
    gpumc__add_3(dy, -(1 + z * inv) / x, dmu, z * inv, dsigma, (z * z - 1) * inv);
    return gpumc__valid(sigma > 0, gpumc__outside(y <= 0, value));
}
GPUMC__CDF_LEAF(REAL_2, lognormal, y, mu, sigma)
{
    const gpumc_real x = gpumc__positive(y), inv = 1 / sigma, z = (gpumc_log(x) - mu) * inv;
    const gpumc_real slope = y <= 0 ? GPUMC_R(0.0) : side * gpumc__log_Phi_slope(side * z);
    gpumc__add(dy, slope * inv / x);
    gpumc__add_standard(slope, z, inv, NULL, dmu, dsigma);
    return gpumc__valid(sigma > 0, y <= 0 ? gpumc__before(side) : gpumc_log_Phi(side * z));
}
/* ---- exponential: log p = log rate - rate y, P(Y > y) = exp(-rate y) ----------- >>exponential */
GPUMC_FN gpumc_real gpumc_exponential_lpdf(GPUMC__TAKES(REAL_1, y, rate))
{
    gpumc__add_2(dy, -rate, drate, 1 / rate - y);
    return gpumc__valid(rate > 0, gpumc__outside(y < 0, gpumc_log(rate) - rate * y));
}
GPUMC__CDF_LEAF(REAL_1, exponential, y, rate)
{
    const gpumc_real x = y < 0 ? GPUMC_R(0.0) : y, t = rate * x, lower = gpumc__log1m_exp(t);
    const gpumc_real inside = side > 0 ? 1 / gpumc_expm1(t) : GPUMC_R(-1.0);
    const gpumc_real slope = y < 0 ? GPUMC_R(0.0) : inside;
    gpumc__add_2(dy, rate * slope, drate, gpumc__times_log(slope, x));
    return gpumc__valid(rate > 0, side > 0 ? lower : -t);
}
/* ---- weibull: t = (y / scale)^shape is exponential with rate 1 --------------------- >>weibull
   log p = log(shape / scale) + (shape - 1) log(y / scale) - t
   At y = 0 the density is 0, 1 / scale or infinite as the shape is above, at or below 1. */
GPUMC_FN gpumc_real gpumc_weibull_lpdf(GPUMC__TAKES(REAL_2, y, shape, scale))
{
    const gpumc_real inv = 1 / scale, x = gpumc__positive(y), log_x = gpumc_log(x * inv);
    const gpumc_real t = gpumc_exp(shape * log_x), log_y = y <= 0 ? -GPUMC_INF : log_x;
    const gpumc_real value = gpumc_log(shape * inv) + gpumc__times_log(shape - 1, log_y) - t;
    gpumc__add_2(dy, (shape - 1 - shape * t) / x, dscale, shape * (t - 1) * inv);
    gpumc__add(dshape, 1 / shape + log_x * (1 - t));
    return gpumc__valid((shape > 0) & (scale > 0), gpumc__outside((y < 0) | (y == GPUMC_INF), value));
}
GPUMC__CDF_LEAF(REAL_2, weibull, y, shape, scale)
{
    gpumc_real slope_any;
    const gpumc_real inv = 1 / scale, x = gpumc__positive(y), log_x = gpumc_log(x * inv);
    const gpumc_real value = gpumc__exponential_log_t(side, shape * log_x, &slope_any);
    const gpumc_real slope = y <= 0 ? GPUMC_R(0.0) : slope_any, by_y = slope * shape;
    gpumc__add_3(dy, by_y / x, dshape, gpumc__times_log(slope, log_x), dscale, -by_y * inv);
    return gpumc__valid((shape > 0) & (scale > 0), y <= 0 ? gpumc__before(side) : value);
}
/* ---- half_normal: the law of |X|, X of normal(0, sigma); P(Y <= y) = erf(z / sqrt 2) - >>half_normal */
GPUMC_FN gpumc_real gpumc_half_normal_lpdf(GPUMC__TAKES(REAL_1, y, sigma))
{
    const gpumc_real whole = gpumc_normal_lpdf(y, GPUMC_R(0.0), sigma, dy, NULL, dsigma);
    return gpumc__valid(sigma > 0, gpumc__outside(y < 0, whole + GPUMC_R(GPUMC_LOG_2)));
}
GPUMC__CDF_LEAF(REAL_1, half_normal, y, sigma)
{
    const gpumc_real inv = 1 / sigma, z = y < 0 ? GPUMC_R(0.0) : y * inv, t = z * GPUMC_R(GPUMC__ROOT_HALF);
    const gpumc_real low = gpumc_erf(t), scaled = gpumc_erfcx(t), root = GPUMC_R(GPUMC__ROOT_2_OVER_PI);
    const gpumc_real near_0 = side > 0 ? gpumc_log(low) : gpumc_log1p(-low);
    const gpumc_real far_out = side > 0 ? gpumc_log1p(-gpumc_erfc(t)) : gpumc_log(scaled) - t * t;
    const gpumc_real slope = side > 0 ? root * gpumc_exp(-t * t) / low : -root / scaled;
    const int before = side > 0 ? z <= 0 : y < 0;
    gpumc__add_standard(before ? GPUMC_R(0.0) : slope, z, inv, dy, NULL, dsigma);
    return gpumc__valid(sigma > 0, t < GPUMC_R(0.5) ? near_0 : far_out);
}
/* ---- half_cauchy: the law of |X|, X of cauchy(0, sigma); P(Y <= y) = 2 atan(z) / pi - >>half_cauchy */
GPUMC_FN gpumc_real gpumc_half_cauchy_lpdf(GPUMC__TAKES(REAL_1, y, sigma))
{
    const gpumc_real whole = gpumc_cauchy_lpdf(y, GPUMC_R(0.0), sigma, dy, NULL, dsigma);
    return gpumc__valid(sigma > 0, gpumc__outside(y < 0, whole + GPUMC_R(GPUMC_LOG_2)));
}
/* ---- uniform: log p = -log(b - a), P(Y <= y) = (y - a) / (b - a) ------------------- >>uniform */
GPUMC_FN gpumc_real gpumc_uniform_lpdf(GPUMC__TAKES(REAL_2, y, a, b))
{
    const gpumc_real width = b - a, value = 0 * y - gpumc_log(width);
    gpumc__add_3(dy, GPUMC_R(0.0), da, 1 / width, db, -1 / width);
    return gpumc__valid((width > 0) & (width < GPUMC_INF), gpumc__outside((y < a) | (y > b), value));
}
/* The logarithm is taken of the smaller of part and rest, of which part is the one asked for. */
GPUMC__CDF_LEAF(REAL_2, uniform, y, a, b)
{
    const gpumc_real width = b - a, part = side > 0 ? y - a : b - y, rest = side > 0 ? b - y : y - a;
    const int inside = (y > a) & (y < b);
    const gpumc_real inv = inside ? 1 / part : GPUMC_R(0.0), scale = inside ? 1 / width : GPUMC_R(0.0);
    const gpumc_real share = inside ? rest / width * inv : GPUMC_R(0.0), sum = 1 / (part + rest);
    const gpumc_real near_0 = gpumc_log(part * sum), near_1 = gpumc_log1p(-rest * sum);
    const gpumc_real value = part < rest ? near_0 : near_1;
    gpumc__add_3(dy, side * inv, da, side > 0 ? -share : scale, db, side > 0 ? -scale : share);
    return gpumc__valid((width > 0) & (width < GPUMC_INF),
                        part <= 0 ? -GPUMC_INF : rest <= 0 ? GPUMC_R(0.0) : value);
}
/* ---- bernoulli: P(Y = 1) = p ----------------------------------------------------- >>bernoulli */
/* The outcome's value from those of 0 and 1, which are their own squares; NaN stays NaN, anything else is
   outside. */
GPUMC_FN gpumc_real gpumc__binary(gpumc_real y, gpumc_real at_0, gpumc_real at_1)
{
    const gpumc_real square = y * y;
    return y - square == 0 ? (y > 0 ? at_1 : at_0) : -GPUMC_INF - square;
}

/* The log cdf from its value between 0 and 1, and the slope of that. */
GPUMC_FN gpumc_real gpumc__binary_cdf(gpumc_real side, gpumc_real y, gpumc_real between, gpumc_real slope,
                                      gpumc_real *d)
{
    const gpumc_real late = y >= 1 ? gpumc__before(-side) : y < 1 ? between : y;
    gpumc__add(d, ((y < 0) | (y >= 1)) ? GPUMC_R(0.0) : slope);
    return y < 0 ? gpumc__before(side) : late;
}
GPUMC_FN gpumc_real gpumc_bernoulli_lpmf(GPUMC__TAKES(COUNT_1, y, p))
{
    gpumc__add(dp, y > 0 ? 1 / p : -1 / (1 - p));
    return gpumc__valid((p >= 0) & (p <= 1), gpumc__binary(y, gpumc_log1p(-p), gpumc_log(p)));
}
GPUMC__CDF_LEAF(COUNT_1, bernoulli, y, p)
{
    const gpumc_real between = side > 0 ? gpumc_log1p(-p) : gpumc_log(p);
    const gpumc_real value = gpumc__binary_cdf(side, y, between, side > 0 ? -1 / (1 - p) : 1 / p, dp);
    return gpumc__valid((p >= 0) & (p <= 1), value);
}
/* ---- bernoulli_logit: log p = -log(1 + exp(-eta)), y = 1, or -log(1 + exp(eta)) ---- >>bernoulli_logit */
GPUMC_FN gpumc_real gpumc_bernoulli_logit_lpmf(GPUMC__TAKES(COUNT_1, y, eta))
{
    const gpumc_real against = y > 0 ? -eta : eta, miss = gpumc_inv_logit(against);
    const gpumc_real value = -gpumc_log1p_exp(against);
    gpumc__add(deta, y > 0 ? miss : -miss);
    return gpumc__binary(y, value, value);
}
GPUMC__CDF_LEAF(COUNT_1, bernoulli_logit, y, eta)
{
    const gpumc_real between = -gpumc_log1p_exp(side * eta), slope = -side * gpumc_inv_logit(side * eta);
    return gpumc__valid(eta == eta, gpumc__binary_cdf(side, y, between, slope, deta));
}
/* ---- geometric: log p = log p + y log(1 - p), P(Y > y) = (1 - p)^(y + 1) --------- >>geometric */
GPUMC_FN gpumc_real gpumc_geometric_lpmf(GPUMC__TAKES(COUNT_1, y, p))
{
    const gpumc_real value = gpumc_log(p) + gpumc__times_log(y, gpumc_log1p(-p));
    gpumc__add(dp, 1 / p - gpumc__times_log(y, 1 / (1 - p)));
    return gpumc__valid((p > 0) & (p <= 1), gpumc__outside((y < 0) | !gpumc__is_whole(y), value));
}
GPUMC__CDF_LEAF(COUNT_1, geometric, y, p)
{
    const gpumc_real most = side > 0 ? GPUMC_R(1e30) : GPUMC_INF, k = most < y ? most : gpumc_floor(y);
    const gpumc_real trials = k + 1, log_q = gpumc_log1p(-p), t = y < 0 ? GPUMC_R(0.0) : -trials * log_q;
    const gpumc_real lower = gpumc__log1m_exp(t), upper_slope = -trials / (1 - p);
    const gpumc_real lower_slope = trials * gpumc_exp(gpumc__times_log(k, log_q)) / -gpumc_expm1(-t);
    gpumc__add(dp, y < 0 ? GPUMC_R(0.0) : side > 0 ? lower_slope : upper_slope);
    return gpumc__valid((p > 0) & (p <= 1), side > 0 ? lower : -t);
}
/* ---- student_t ------------------------------------------------------------------ >>student_t
   log p = -(nu + 1)/2 log(1 + z^2/nu) - log B(nu/2, 1/2) - log(nu)/2 - log sigma
   sigma is a scale: the standard deviation is sigma sqrt(nu / (nu - 2)). */
GPUMC_FN gpumc_real gpumc_student_t_lpdf(GPUMC__TAKES(REAL_3, y, nu, mu, sigma))
{
    const gpumc_real half = GPUMC_R(0.5), inv = 1 / sigma, z = (y - mu) * inv, square = z * z;
    const gpumc_real inv_nu = 1 / nu, r = square * inv_nu, share = r / (1 + r), log_1r = gpumc_log1p(r);
    const gpumc_real pull = (nu + 1) / (nu + square);
    const gpumc_real rise = gpumc__digamma_rise(half * nu, half) + gpumc__log1p_less(inv_nu);
    gpumc__add_3(dy, -pull * z * inv, dmu, pull * z * inv, dsigma, (pull * square - 1) * inv);
    gpumc__add(dnu, half * (rise + gpumc__share_less_log(r, share, log_1r) + share * inv_nu));
    return gpumc__valid((nu > 0) & (sigma > 0), -half * (nu + 1) * log_1r - gpumc_lbeta(half * nu, half)
                                                - half * gpumc_log(nu) - gpumc_log(sigma));
}
/* ---- half_student_t: the law of |X|, X of student_t(nu, 0, sigma) ----------- >>half_student_t */
GPUMC_FN gpumc_real gpumc_half_student_t_lpdf(GPUMC__TAKES(REAL_2, y, nu, sigma))
{
    const gpumc_real whole = gpumc_student_t_lpdf(y, nu, GPUMC_R(0.0), sigma, dy, dnu, NULL, dsigma);
    return gpumc__valid((nu > 0) & (sigma > 0), gpumc__outside(y < 0, whole + GPUMC_R(GPUMC_LOG_2)));
}
/* ---- gamma: log p = a log t - t - log Gamma(a) - log y, t = rate y, a the shape ------ >>gamma
   At y = 0 the density is 0, the rate or infinite as the shape is above, at or below 1. */

/* How a count or shape a > 0 compares with its expectation r a: the densities from here on are sums of terms
   a (log r - (r - 1)), which are small where a is near r a however large both are, and their derivatives are
   sums of log r. Loader (2000), "Fast and accurate computation of binomial probabilities". */
typedef struct gpumc__ratio { gpumc_real less, log; } gpumc__ratio;             /* log r - (r - 1), log r */

GPUMC_FN gpumc__ratio gpumc__compare(gpumc_real a, gpumc_real excess, gpumc_real log_r)
{
    gpumc__ratio ratio;
    const gpumc_real x = excess / a;
    ratio.less = gpumc__log_less(x, log_r);
    ratio.log = gpumc__is_near_0(x) ? x + ratio.less : log_r;
    return ratio;
}
/* log(t^a exp(-t) / Gamma(a + 1)), a >= 0, t >= 0 */
GPUMC_FN gpumc_real gpumc__gamma_kernel(gpumc_real a, gpumc_real t, gpumc_real log_t, gpumc__ratio *ratio)
{
    const gpumc_real some = a > 0 ? a : 1;
    *ratio = gpumc__compare(some, t - a, log_t - gpumc_log(some));
    return (a > 0 ? a * ratio->less : -t) - gpumc__stirling_rest(a);
}

/* log(a p(t)) for the density p of t from gamma(a, 1), and the derivative by a. */
GPUMC_FN gpumc_real gpumc__gamma_of_t(gpumc_real a, gpumc_real t, gpumc_real *da)
{
    gpumc__ratio ratio;
    const gpumc_real value = gpumc__gamma_kernel(a, t, gpumc_log(t), &ratio);
    gpumc__add(da, ratio.log + gpumc__log_less_digamma(a));
    return value;
}
GPUMC_FN gpumc_real gpumc_gamma_lpdf(GPUMC__TAKES(REAL_2, y, shape, rate))
{
    const gpumc_real x = gpumc__positive(y), t = rate * x;
    const gpumc_real value = gpumc__gamma_of_t(shape, t, dshape) + (gpumc_log(shape) - gpumc_log(x));
    const gpumc_real at_0 = shape < 1 ? GPUMC_INF : shape > 1 ? -GPUMC_INF : gpumc_log(rate);
    gpumc__add_2(dy, (shape - 1) / x - rate, drate, (shape - t) / rate);
    return gpumc__valid((shape > 0) & (rate > 0),
                        gpumc__outside((y < 0) | (y == GPUMC_INF), y == 0 ? at_0 : value));
}
/* ---- inv_gamma: the law of 1 / X, X of gamma(shape, rate = scale); t = scale / y ---- >>inv_gamma */
GPUMC_FN gpumc_real gpumc_inv_gamma_lpdf(GPUMC__TAKES(REAL_2, y, shape, scale))
{
    const gpumc_real x = gpumc__positive(y), t = scale / x, excess = t - shape;
    const gpumc_real value = gpumc__gamma_of_t(shape, t, dshape) + (gpumc_log(shape) - gpumc_log(x));
    gpumc__add_2(dy, (excess - 1) / x, dscale, -excess / scale);
    return gpumc__valid((shape > 0) & (scale > 0), gpumc__outside((y <= 0) | (y == GPUMC_INF), value));
}
/* ---- chi_square: the law gamma(shape = nu / 2, rate = 1 / 2) -------------------- >>chi_square */
GPUMC_FN gpumc_real gpumc_chi_square_lpdf(GPUMC__TAKES(REAL_1, y, nu))
{
    gpumc_real dshape = 0;
    const gpumc_real half = GPUMC_R(0.5), value = gpumc_gamma_lpdf(y, half * nu, half, dy, &dshape, NULL);
    gpumc__add(dnu, half * dshape);
    return value;
}
/* ---- beta: log p = (a - 1) log y + (b - 1) log(1 - y) - log B(a, b) ------------------- >>beta
   At y = 0 the density is 0, b or infinite as a is above, at or below 1; likewise at 1. */

/* log(Gamma(n + 1) / Gamma(a + 1) / Gamma(b + 1) p^a q^b), n = a + b, a >= 0, b >= 0, p + q = 1, from
   d = b p - a q = n p - a. The ratios compare a with n p, b with n q. */
GPUMC_FN gpumc_real gpumc__binomial_kernel(gpumc_real a, gpumc_real b, gpumc_real d, gpumc_real log_p,
                                           gpumc_real log_q, gpumc__ratio *ratio_a, gpumc__ratio *ratio_b)
{
    const gpumc_real n = a + b, some_a = a > 0 ? a : 1, some_b = b > 0 ? b : 1;
    *ratio_a = gpumc__compare(some_a, d, log_p + gpumc_log(n / some_a));
    *ratio_b = gpumc__compare(some_b, -d, log_q + gpumc_log(n / some_b));
    return gpumc__stirling_rest(n) - gpumc__stirling_rest(a) - gpumc__stirling_rest(b)
        + ((a > 0 ? a * ratio_a->less : -d) + (b > 0 ? b * ratio_b->less : d));
}

/* The density from y and d = b y - a (1 - y). */
GPUMC_FN gpumc_real gpumc__beta_density(gpumc_real y, gpumc_real a, gpumc_real b, gpumc_real d,
                                        gpumc_real *dy, gpumc__ratio *ratio_a, gpumc__ratio *ratio_b)
{
    const gpumc_real p = gpumc__positive(y), q = gpumc__positive(1 - y), log_p = gpumc_log(p);
    const gpumc_real log_q = p < GPUMC_R(0.5) ? gpumc_log1p(-p) : gpumc_log(q);
    const gpumc_real kernel = gpumc__binomial_kernel(a, b, d, log_p, log_q, ratio_a, ratio_b);
    const gpumc_real value = kernel + gpumc_log(a * (b / (a + b))) - log_p - log_q;
    const gpumc_real at_0 = a < 1 ? GPUMC_INF : a > 1 ? -GPUMC_INF : gpumc_log(b);
    const gpumc_real at_1 = b < 1 ? GPUMC_INF : b > 1 ? -GPUMC_INF : gpumc_log(a);
    gpumc__add(dy, (a - 1) / p - (b - 1) / q);
    return gpumc__outside((y < 0) | (y > 1), y == 0 ? at_0 : y == 1 ? at_1 : value);
}
GPUMC_FN gpumc_real gpumc_beta_lpdf(GPUMC__TAKES(REAL_2, y, a, b))
{
    gpumc__ratio of_a, of_b;
    const gpumc_real value = gpumc__beta_density(y, a, b, b * y - a * (1 - y), dy, &of_a, &of_b);
    gpumc__add_2(da, of_a.log + gpumc__digamma_rise(a, b), db, of_b.log + gpumc__digamma_rise(b, a));
    return gpumc__valid((a > 0) & (b > 0), value);
}
/* ---- beta_proportion: the law beta(mu kappa, (1 - mu) kappa) with mean mu ------ >>beta_proportion */
GPUMC_FN gpumc_real gpumc_beta_proportion_lpdf(GPUMC__TAKES(REAL_2, y, mu, kappa))
{
    gpumc__ratio of_a, of_b;
    const gpumc_real rest = 1 - mu, a = mu * kappa, b = rest * kappa;
    const gpumc_real rise_a = gpumc__digamma_rise(a, b), rise_b = gpumc__digamma_rise(b, a);
    const gpumc_real value = gpumc__beta_density(y, a, b, kappa * (y - mu), dy, &of_a, &of_b);
    gpumc__add(dmu, kappa * ((of_a.log + rise_a) - (of_b.log + rise_b)));
    gpumc__add(dkappa, mu * (of_a.less + rise_a) + rest * (of_b.less + rise_b));
    return gpumc__valid((mu > 0) & (mu < 1) & (kappa > 0), value);
}
/* ---- binomial: log p = log(n choose y) + y log p + (n - y) log(1 - p) ------------- >>binomial */
GPUMC_FN gpumc_real gpumc__binomial_support(gpumc_real y, gpumc_real n, gpumc_real value)
{
    const gpumc_real inside = gpumc__outside((y < 0) | (y > n), gpumc__outside(!gpumc__is_whole(y), value));
    return gpumc__valid((n >= 0) & gpumc__is_whole(n), inside);
}
GPUMC_FN gpumc_real gpumc_binomial_lpmf(GPUMC__TAKES(TRIALS_1, y, n, p))
{
    gpumc__ratio successes, failures;
    const gpumc_real rest = n - y, q = 1 - p, d = rest * p - y * q, log_q = gpumc_log1p(-p);
    const gpumc_real value = gpumc__binomial_kernel(y, rest, d, gpumc_log(p), log_q, &successes, &failures);
    gpumc__add(dp, gpumc__times_log(y, 1 / p) - gpumc__times_log(rest, 1 / q));
    return gpumc__valid((p >= 0) & (p <= 1), gpumc__binomial_support(y, n, value));
}
/* ---- binomial_logit: the law binomial(n, 1 / (1 + exp(-eta))) --------------- >>binomial_logit */
GPUMC_FN gpumc_real gpumc_binomial_logit_lpmf(GPUMC__TAKES(TRIALS_1, y, n, eta))
{
    gpumc__ratio successes, failures;
    const gpumc_real rest = n - y, p = gpumc_inv_logit(eta), q = gpumc_inv_logit(-eta), d = rest * p - y * q;
    const gpumc_real log_p = -gpumc_log1p_exp(-eta), log_q = -gpumc_log1p_exp(eta);
    const gpumc_real value = gpumc__binomial_kernel(y, rest, d, log_p, log_q, &successes, &failures);
    gpumc__add(deta, -d);
    return gpumc__binomial_support(y, n, value);
}
/* ---- poisson: log p = y log lambda - lambda - log y! ------------------------------- >>poisson */
GPUMC_FN gpumc_real gpumc__count_support(gpumc_real y, gpumc_real value)
{ return gpumc__outside((y < 0) | !gpumc__is_whole(y), value); }
/* The mass from lambda and its logarithm; for whole y > 0 Stirling's rest takes the logarithm of y alone. */
GPUMC_FN gpumc_real gpumc__poisson_mass(gpumc_real y, gpumc_real lambda, gpumc_real log_lambda)
{
    const gpumc_real some = y <= 0 ? 1 : y, log_y = gpumc_log(some);
    const gpumc_real less = gpumc__compare(some, lambda - some, log_lambda - log_y).less;
    const gpumc_real rest = GPUMC_R(0.5) * log_y + GPUMC_R(GPUMC_LOG_SQRT_2PI) + gpumc__binet(some);
    return gpumc__count_support(y, y <= 0 ? -lambda : some * less - rest);
}
GPUMC_FN gpumc_real gpumc_poisson_lpmf(GPUMC__TAKES(COUNT_1, y, lambda))
{
    gpumc__add(dlambda, gpumc__times_log(y, 1 / lambda) - 1);
    return gpumc__valid(lambda >= 0, gpumc__poisson_mass(y, lambda, gpumc_log(lambda)));
}
/* ---- poisson_log: the law poisson(exp(eta)) ------------------------------------ >>poisson_log */
GPUMC_FN gpumc_real gpumc_poisson_log_lpmf(GPUMC__TAKES(COUNT_1, y, eta))
{
    const gpumc_real lambda = gpumc_exp(eta);
    gpumc__add(deta, y - lambda);
    return gpumc__poisson_mass(y, lambda, eta);
}
/* ---- neg_binomial_2 -------------------------------------------------------- >>neg_binomial_2
   log p = log Gamma(y + phi) - log Gamma(phi) - log y! + phi log p + y log(1 - p),  p = phi / (phi + mu)
   mu is the mean, the variance mu + mu^2 / phi; for phi -> infinity this is poisson(mu). */

/* The mass from p and q = 1 - p, whose kernel's d is by_log_mu, the derivative by log mu. */
GPUMC_FN gpumc_real gpumc__neg_binomial_mass(gpumc_real y, gpumc_real phi, gpumc_real log_p, gpumc_real log_q,
                                             gpumc_real by_log_mu, gpumc_real *dphi)
{
    gpumc__ratio ratio_phi, ratio_y;
    const gpumc_real kernel = gpumc__binomial_kernel(phi, y, by_log_mu, log_p, log_q, &ratio_phi, &ratio_y);
    gpumc__add(dphi, ratio_phi.less + gpumc__digamma_rise(phi, y));
    return gpumc__count_support(y, kernel - gpumc_log1p(y / phi));
}
GPUMC_FN gpumc_real gpumc_neg_binomial_2_lpmf(GPUMC__TAKES(COUNT_2, y, mu, phi))
{
    const gpumc_real inv = 1 / (phi + mu), p = phi * inv, log_p = gpumc_log(p), by_log_mu = p * (y - mu);
    const gpumc_real value = gpumc__neg_binomial_mass(y, phi, log_p, gpumc_log(mu * inv), by_log_mu, dphi);
    gpumc__add(dmu, by_log_mu / mu);
    return gpumc__valid((mu > 0) & (phi > 0), value);
}
/* ---- neg_binomial_2_log: the law neg_binomial_2(exp(eta), phi) ---------- >>neg_binomial_2_log */
GPUMC_FN gpumc_real gpumc_neg_binomial_2_log_lpmf(GPUMC__TAKES(COUNT_2, y, eta, phi))
{
    const gpumc_real logit_p = gpumc_log(phi) - eta;
    const gpumc_real by_log_mu = y * gpumc_inv_logit(logit_p) - phi * gpumc_inv_logit(-logit_p);
    const gpumc_real log_p = -gpumc_log1p_exp(-logit_p), log_q = -gpumc_log1p_exp(logit_p);
    const gpumc_real value = gpumc__neg_binomial_mass(y, phi, log_p, log_q, by_log_mu, dphi);
    gpumc__add(deta, by_log_mu);
    return gpumc__valid(phi > 0, value);
}

/* ---- families of vectors --------------------------------------------- >>api-dist-vectors
   Families of vectors are ordinary functions: arrays in, derivatives ADDED to arrays that are not NULL,
   nothing allocated; where scratch is needed the caller gives it as work. Matrices are square, row-major; of
   a factor or a symmetric matrix only the lower triangle is read. NaN and -infinity as above. */

/* ---- categorical_logit -------------------------------------------------- >>categorical_logit
   y in 0 .. K - 1, counted from 0; eta real.   P(Y = k) = exp(eta_k) / sum_j exp(eta_j)
   mean and variance are those of the indicators of 0 .. K - 1, K of each. */
GPUMC_API double gpumc_categorical_logit_lpmf(double y, const double *eta, size_t K, double *deta);
GPUMC_API double gpumc_categorical_logit_rng(gpumc_rng *rng, const double *eta, size_t K);
GPUMC_API void gpumc_categorical_logit_mean(const double *eta, size_t K, double *mean);
GPUMC_API void gpumc_categorical_logit_variance(const double *eta, size_t K, double *variance);

/* ---- ordered_logistic ---------------------------------------------------- >>ordered_logistic
   y in 0 .. K - 1, counted from 0; eta real; K - 1 cutpoints c, increasing.
   P(Y <= k) = 1 / (1 + exp(eta - c_k)).   mean and variance as for categorical_logit. */
GPUMC_API double gpumc_ordered_logistic_lpmf(double y, double eta, const double *cutpoints, size_t K,
                                             double *deta, double *dcutpoints);
GPUMC_API double gpumc_ordered_logistic_rng(gpumc_rng *rng, double eta, const double *cutpoints, size_t K);
GPUMC_API void gpumc_ordered_logistic_mean(double eta, const double *cutpoints, size_t K, double *mean);
GPUMC_API void gpumc_ordered_logistic_variance(double eta, const double *cutpoints, size_t K,
                                               double *variance);

/* ---- multi_normal_cholesky ------------------------------------------ >>multi_normal_cholesky
   y, mu of length n, L the Cholesky factor of the covariance L L', diagonal > 0; z = L^-1 (y - mu)
   log p = -z'z/2 - sum_i log L_ii - n log sqrt(2 pi).   work: 2 n numbers. */
GPUMC_API double gpumc_multi_normal_cholesky_lpdf(const double *y, const double *mu, const double *L,
                                                  size_t n, double *dy, double *dmu, double *dL,
                                                  double *work);
GPUMC_API void gpumc_multi_normal_cholesky_rng(gpumc_rng *rng, const double *mu, const double *L, size_t n,
                                               double *y);
GPUMC_API void gpumc_multi_normal_cholesky_mean(const double *mu, const double *L, size_t n, double *mean);
GPUMC_API void gpumc_multi_normal_cholesky_variance(const double *mu, const double *L, size_t n,
                                                    double *variance);

/* ---- multi_normal ------------------------------------------------------------ >>multi_normal
   multi_normal_cholesky by the covariance S, positive definite (or NaN).
   work: n (n + 2) numbers, n n for a draw.
   dS is symmetric and counts every element once, G = (w w' - S^-1) / 2 with w = S^-1 (y - mu), so that
   d log p = sum_ij G_ij dS_ij; where S_ij and S_ji are one parameter, its derivative is G_ij + G_ji. */
GPUMC_API double gpumc_multi_normal_lpdf(const double *y, const double *mu, const double *S, size_t n,
                                         double *dy, double *dmu, double *dS, double *work);
GPUMC_API void gpumc_multi_normal_rng(gpumc_rng *rng, const double *mu, const double *S, size_t n,
                                      double *y, double *work);
GPUMC_API void gpumc_multi_normal_mean(const double *mu, const double *S, size_t n, double *mean);
GPUMC_API void gpumc_multi_normal_variance(const double *mu, const double *S, size_t n, double *variance);

/* ---- dirichlet ------------------------------------------------------------------ >>dirichlet
   x of length K >= 1 on the simplex (x >= 0, sum 1 within 1e-8), alpha > 0; derivatives as if x were free.
   log p = sum_k (alpha_k - 1) log x_k - log B(alpha),  B(alpha) = prod_k Gamma(alpha_k) / Gamma(sum alpha) */
GPUMC_API double gpumc_dirichlet_lpdf(const double *x, const double *alpha, size_t K,
                                      double *dx, double *dalpha);
GPUMC_API void gpumc_dirichlet_rng(gpumc_rng *rng, const double *alpha, size_t K, double *x);
GPUMC_API void gpumc_dirichlet_mean(const double *alpha, size_t K, double *mean);
GPUMC_API void gpumc_dirichlet_variance(const double *alpha, size_t K, double *variance);

/* ---- lkj_corr_cholesky -------------------------------------------------- >>lkj_corr_cholesky
   L the K x K Cholesky factor of a correlation matrix (squares of a row sum to 1 within 1e-8, diagonal > 0),
   eta > 0. A density over the elements of L below the diagonal, so it contains the Jacobian from L to L L';
   over L L' it is proportional to det(L L')^(eta - 1).   Rows i from 0:
   log p = sum_{i >= 1} [(K - i + 2 eta - 3) log L_ii - (i / 2) log pi + log Gamma(eta + (K - 1) / 2)
                         - log Gamma(eta + (K - 1 - i) / 2)]
   dL as if the elements of L were free. mean and variance: those of each element of L, K x K. */
GPUMC_API double gpumc_lkj_corr_cholesky_lpdf(const double *L, size_t K, double eta,
                                              double *dL, double *deta);
GPUMC_API void gpumc_lkj_corr_cholesky_rng(gpumc_rng *rng, size_t K, double eta, double *L);
GPUMC_API void gpumc_lkj_corr_cholesky_mean(size_t K, double eta, double *mean);
GPUMC_API void gpumc_lkj_corr_cholesky_variance(size_t K, double eta, double *variance);

/* ================================================================================ >>api-transform
   A constraint maps free coordinates q in R^f to natural values x. Kinds marked (vector) constrain the last
   dimension of a block, the correlation factor its last two; further dimensions repeat them. */
typedef enum gpumc_kind {
    GPUMC_UNBOUNDED = 0,      /* x = q */
    GPUMC_POSITIVE,           /* x = exp q; where x may touch zero, with typical s and E = -log Phi(-q):
                                 x = s E, s > 0, or x = -s E / sqrt(1 + E), s < 0, whose tail is normal */
    GPUMC_LOWER,              /* x = lower + what it is above */
    GPUMC_UPPER,              /* x = upper - exp q */
    GPUMC_INTERVAL,           /* x = lower + (upper - lower) logistic q */
    GPUMC_UNIT,               /* x = logistic q, a probability */
    GPUMC_AFFINE,             /* x = offset + multiplier q, constants */
    GPUMC_ORDERED,            /* (vector) x[0] = q[0], x[k] = x[k-1] + exp q[k] */
    GPUMC_POSITIVE_ORDERED,   /* (vector) x[0] = exp q[0], x[k] = x[k-1] + exp q[k] */
    GPUMC_SUM_TO_ZERO,        /* (vector) orthonormal basis, one free coordinate less */
    GPUMC_SIMPLEX,            /* (vector) softmax of a sum-to-zero vector, one free coordinate less */
    GPUMC_CHOLESKY_CORR       /* K x K lower factor of a correlation matrix, K (K - 1) / 2 free coordinates */
} gpumc_kind;

typedef struct gpumc_transform {
    gpumc_kind kind;
    size_t size;              /* values in one vector (elementwise kinds: all values); K for a K x K factor */
    size_t count;             /* how many vectors or factors; 0 means 1 */
    double lower, upper;      /* bounds */
    double offset, multiplier;/* GPUMC_AFFINE */
    double typical;           /* GPUMC_POSITIVE and GPUMC_LOWER; 0 means exponential */
} gpumc_transform;

GPUMC_API size_t gpumc_transform_free_size(const gpumc_transform *t);
GPUMC_API size_t gpumc_transform_natural_size(const gpumc_transform *t);
/* x from q; returns log |dx/dq|. */
GPUMC_API double gpumc_constrain(const gpumc_transform *t, const double *q, double *x);
/* q from x; GPUMC_ERROR_ARGUMENT when x is not strictly inside the constraint. */
GPUMC_API gpumc_status gpumc_unconstrain(const gpumc_transform *t, const double *x, double *q,
                                         gpumc_error *error);
/* Chain rule: dq = J' dx + d log |J| / dq, with x = gpumc_constrain(q). dq is overwritten. */
GPUMC_API void gpumc_constrain_gradient(const gpumc_transform *t, const double *q, const double *x,
                                        const double *dx, double *dq);

/* ==================================================================================== >>api-model
   A model is a list of named parameter blocks and a log density on their natural values. */
typedef enum gpumc_centring {
    GPUMC_CENTRING_LEARNED = 0, GPUMC_CENTRED, GPUMC_NONCENTRED, GPUMC_CENTRING_WEIGHT
} gpumc_centring;

typedef struct gpumc_param {
    const char *name;  /* [A-Za-z][A-Za-z0-9_]*, not ending in __, unique whatever the letter case; not chain,
                          draw, sample or pred_id */
    gpumc_kind kind;
    size_t size;              /* number of values; 0: product of dims, or 1 */
    const size_t *dims;  /* shape for output, row-major; NULL: one dimension, or a scalar where size is 0 */
    size_t n_dims;
    double lower, upper;      /* GPUMC_LOWER, GPUMC_UPPER, GPUMC_INTERVAL */
    double offset, multiplier;/* GPUMC_AFFINE */
    double typical;           /* GPUMC_POSITIVE, GPUMC_LOWER: see gpumc_kind; 0: learned */
    const double *init;  /* natural start values, one an element; NULL: free coordinates uniform on (-2, 2) */
    /* Hierarchy: elements spread around a location with a scale (names of earlier blocks; NULL: 0 and 1).
       The density still sees natural values; only the sampler's coordinates change. */
    const char *location, *scale;
    /* element of that block for each of ours; NULL: its only, or the same */
    const size_t *location_index, *scale_index;
    size_t walk_dim;  /* d > 0: along dimension d (from 1) each element's location is the one before; of the
                         first it is `location`, and without one the sampler takes it as it is */
    /* size x n_covariates, row-major: adds covariates . coefficients to the location */
    const double *covariates;
    size_t n_covariates;
    const char *coefficients; /* block of n_covariates values */
    gpumc_centring centring;
    double centring_weight;   /* GPUMC_CENTRING_WEIGHT: 0 (non-centred) to 1 (centred) in tenths; below 1,
                                 elements whose scale is near zero are non-centred all the same */
    size_t n_inits;           /* init holds that many start points in a row, taken in turn by chains; 0: 1 */
} gpumc_param;

typedef enum gpumc_group {
    GPUMC_GENERATED = 0, GPUMC_LOG_LIKELIHOOD, GPUMC_POSTERIOR_PREDICTIVE
} gpumc_group;

typedef struct gpumc_output {             /* a block of generated quantities, computed once a kept draw */
    const char *name;
    size_t size;                          /* as in gpumc_param */
    const size_t *dims;
    size_t n_dims;
    gpumc_group group;
} gpumc_output;

typedef struct gpumc_model {
    const char *name;
    const gpumc_param *params;
    size_t n_params;
    /* log density at natural values x; adds its gradient to grad, which arrives zeroed. NaN or -infinity
       rejects the point. Called from several threads at once, it must depend on x and data alone. */
    double (*log_density)(const double *x, double *grad, void *data);
    /* In place of log_density: n points one after the other, natural values; writes n log densities to lp. */
    void (*log_density_batch)(size_t n, const double *x, double *grad, double *lp, void *data);
    /* Optional: fills out with the blocks of outputs, one after the other. Called as log_density is. */
    void (*generate)(const double *x, gpumc_rng *rng, double *out, void *data);
    const gpumc_output *outputs;
    size_t n_outputs;
    void *data;
    /* Optional, for runs with more threads than chains: at most so many calls of the density will go on at
       once, and each may keep so many threads busy, with the same result. Returns whether it will. At the end
       of the run it is called again, with one thread. */
    int (*share)(int calls, int threads, void *data);
    /* Optional, beside log_density: a smoother or cheaper density close to it, which warm-up adapts to and
       whose gradient, exact or not, leads the paths of MAMS and HMC. log_density decides at their ends, so
       that draws are its own. A model with a guide is sampled by MAMS, or on request by HMC; by NUTS without
       it. */
    double (*guide)(const double *x, double *grad, void *data);
    /* Optional: why the density at x is not finite, as an error with its text; GPUMC_OK where it is. */
    gpumc_status (*explain)(const double *x, void *data, gpumc_error *error);
} gpumc_model;

/* How many doubles x has, and how many generate fills. */
GPUMC_API size_t gpumc_model_n_values(const gpumc_model *model);
GPUMC_API size_t gpumc_model_n_outputs(const gpumc_model *model);

/* The compiled form of a model: sizes, offsets, links between blocks and the current centring. Made in
   caller's memory of gpumc_layout_bytes, referring to the model, which must stay. Both return 0 or NULL with
   a text on error. */
typedef struct gpumc_layout gpumc_layout;
GPUMC_API size_t gpumc_layout_bytes(const gpumc_model *model, gpumc_error *error);
GPUMC_API gpumc_layout *gpumc_layout_init(const gpumc_model *model, void *memory, size_t bytes,
                                          gpumc_error *error);
GPUMC_API size_t gpumc_layout_dim(const gpumc_layout *layout);        /* free coordinates */
GPUMC_API size_t gpumc_layout_natural(const gpumc_layout *layout);    /* natural values */
GPUMC_API size_t gpumc_layout_work(const gpumc_layout *layout);  /* doubles of scratch for one evaluation */

/* The only place where a log density is called: maps q to natural values (left in work[0 ..]), adds the log
   Jacobians and applies the chain rule. Returns -infinity for a rejected point, never NaN. */
GPUMC_API double gpumc_model_eval(const gpumc_layout *layout, const double *q, double *grad, double *work);
/* Natural values of q alone, and the way back. */
GPUMC_API void gpumc_model_natural(const gpumc_layout *layout, const double *q, double *x, double *work);
GPUMC_API gpumc_status gpumc_model_free(const gpumc_layout *layout, const double *x, double *q, double *work,
                                        gpumc_error *error);

typedef struct gpumc_gradient_report {
    char name[256];           /* the worst component, as theta[3], or "direction 2" */
    double analytic, numeric, relative_error;
    size_t n_checked, n_failed;
} gpumc_gradient_report;

/* Evaluates the density again at one point, in a run by all threads: another value is an error. Then
   compares the gradient with finite differences in free coordinates, sign included: every component up to
   200, beyond that 200 of them and eight directions. A component fails when it is beyond 1e-4 relative, plus
   rounding noise, off both one-sided differences and the central one, so that a kink passes, and off those by
   the step, of a wide range, at which differences agree among themselves. x: natural values, or NULL for the
   model's start values (blocks without init: free coordinates 0.5). */
GPUMC_API gpumc_status gpumc_check_gradient(const gpumc_model *model, const double *x,
                                            gpumc_gradient_report *report, gpumc_error *error);

/* ===================================================================================== >>api-rows
   A likelihood that is a sum over data rows, each with the parameters of its group and shared ones. The user
   writes one row as a leaf, at file scope:

       GPUMC_ROW(response, 2, 1, 1)                            // group, shared parameters; columns
       {
           return gpumc_student_t_lpdf(x[0], p[2], p[0], p[1], NULL, &g[2], &g[0], &g[1]);
       }

   p: the group's parameters, then the shared ones; x: this row's columns; g: arrives zeroed, gets d/dp; the
   value is the log likelihood. A leaf has no libm, no loops of varying length, no branch but ?:. The macro
   compiles the loop over rows for every instruction set and defines a gpumc_row_kind of that name.

   GPUMC_CELLS(name, group, shared, columns, node columns) is a row in two stages, for quadrature and
   mixtures: its body is the leaf of one node (x: the columns of the row, then those of the node), summed with
   its derivatives over the nodes, which all rows share. The body after GPUMC_FINISH(name) makes the row's log
   likelihood of sum[0] and, in g, its derivatives of sum[1 + k], the derivative of sum[0] by p[k]. */
#define GPUMC_LANES 16
enum { GPUMC__MOST_ROW_PARAMS = 64 };

/* What one call of a compiled loop works on: slices (see >>rows), and their tiles one after the other. */
typedef struct gpumc__row_args {
    size_t n_slices;
    const uint32_t *tiles;         /* of each slice */
    const unsigned char *active;   /* of each tile: lanes that count; the others come last */
    const double *columns;         /* of each tile: columns x lanes */
    const double *weights;         /* of each tile: lanes; NULL: 1 for active ones */
    const double *zeros;           /* GPUMC_LANES of them, after as many ones */
    const double *p[GPUMC__MOST_ROW_PARAMS];   /* of groups: lanes of each slice; shared: one value */
    double *sums[GPUMC__MOST_ROW_PARAMS];      /* gradients of groups, added to: lanes of each slice */
    double *totals;                            /* value, gradients of shared parameters: lanes */
    const double *nodes;           /* of each tile of nodes: node columns x lanes */
    size_t n_nodes;
} gpumc__row_args;
typedef void gpumc__row_loop(const gpumc__row_args *a);

typedef struct gpumc_row_kind {
    const char *name;
    size_t n_group, n_shared, n_columns, n_node_columns;
    gpumc__row_loop *loops[GPUMC__N_ISA];
} gpumc_row_kind;

GPUMC_FN double gpumc__sum_16(const double *a)
{
    double b[8], c[4];
    for (int l = 0; l < 8; l++) b[l] = a[l] + a[8 + l];
    for (int l = 0; l < 4; l++) c[l] = b[l] + b[4 + l];
    return (c[0] + c[2]) + (c[1] + c[3]);
}
/* Members of the arguments, which a loop then keeps in registers. */
GPUMC_FN const double *gpumc__row_weights(const double *weights, const double *zeros,
                                          const unsigned char *active, size_t tile)
{ return weights ? weights + tile * GPUMC_LANES : zeros - active[tile]; }
/* n columns of which idle lanes repeat the first. */
GPUMC_FN void gpumc__row_repeat(double *at, const double *x, size_t n, size_t active)
{
    for (size_t i = 0; i < n * GPUMC_LANES; i++) {
        const size_t first = i / GPUMC_LANES * GPUMC_LANES, from = i - first < active ? i : first;
        at[i] = x[from];
    }
}

/* Adds a leaf's values and derivatives in lanes l to sum[0], sum[1 + k]; parameter, column: the k-th. The
   zero in g is negative because adding to that is no operation, not even to the compiler. */
#define GPUMC__ROW_LANES(pragma, lanes, leaf, n_p, n_x, parameter, column, weight) \
    pragma for (int l = 0; l < (lanes); l++) { \
        gpumc_real q[(n_p) + 1], c[n_x], g[(n_p) + 1]; \
        GPUMC__FLAT for (int k = 0; k < (n_p); k++) q[k] = (gpumc_real)(parameter); \
        GPUMC__FLAT for (int k = 0; k < (n_p); k++) g[k] = GPUMC_R(-0.0); \
        GPUMC__FLAT for (int k = 0; k < (n_x); k++) c[k] = (gpumc_real)(column); \
        sum[0][l] += (weight)[l] * leaf(q, c, g); \
        GPUMC__FLAT for (int k = 0; k < (n_p); k++) sum[k + 1][l] += (weight)[l] * g[k]; \
    }
#define GPUMC__ROW_PARAMETER(k, l, n_group) \
    (k) < (n_group) ? own[k][l] : shared[(k) < (n_group) ? 0 : (k) - (n_group)]
#define GPUMC__ROW_TILE(set, name, n_group, n_shared, n_columns, x, w) \
    GPUMC__ROW_LANES(GPUMC__STRIP_LOOP_##set, GPUMC__STRIP_##set, name##_row, (n_group) + (n_shared), \
        n_columns, p[k][(k) < (n_group) ? l : GPUMC__OF_LANE(l)], (x)[k * GPUMC_LANES + l], w)

/* A few slices, a strip of lanes as wide as a vector register: what depends on parameters alone then does not
   depend on the loop over tiles, and the compiler moves it out. The sums of the value and of shared gradients
   go on from slice to slice, those of group gradients start at zero. (Copied by loops: gcc makes pieces of 16
   bytes of memcpy, which wide loads then wait for.) */
#define GPUMC__ROW_STRIP(set, attributes, pragma, name, n_group, n_shared, n_columns) \
    attributes GPUMC__INLINE void name##_tiles_##set(const gpumc__row_args *a, size_t t, size_t end, \
        size_t strip, const double *const *p, double (*GPUMC__RESTRICT sum)[GPUMC__STRIP_##set]) \
    { \
        const size_t each = (n_columns) * GPUMC_LANES; \
        const unsigned char *const active = a->active; \
        const double *const weights = a->weights, *const zeros = a->zeros; \
        for (; GPUMC__STRIP_##set == GPUMC__WOVEN && (n_group) + (n_shared) < 5 && t + 1 < end; t += 2) { \
            const double *x = a->columns + t * each + strip, *x_2 = x + each; \
            const double *w = gpumc__row_weights(weights, zeros, active, t) + strip; \
            const double *w_2 = gpumc__row_weights(weights, zeros, active, t + 1) + strip; \
            GPUMC__ROW_TILE(set, name, n_group, n_shared, n_columns, x, w) \
            GPUMC__ROW_TILE(set, name, n_group, n_shared, n_columns, x_2, w_2) \
        } \
        for (; t < end; t++) { \
            const double *x = a->columns + t * each + strip; \
            const double *w = gpumc__row_weights(weights, zeros, active, t) + strip; \
            GPUMC__ROW_TILE(set, name, n_group, n_shared, n_columns, x, w) \
        } \
    } \
    attributes GPUMC__INLINE void name##_strip_##set(const gpumc__row_args *a, size_t s, size_t end, \
        size_t t, size_t strip, const double *GPUMC__RESTRICT shared, double *GPUMC__RESTRICT total) \
    { \
        double sum[1 + (n_group) + (n_shared)][GPUMC__STRIP_##set]; \
        const double *p[(n_group) + (n_shared) + 1]; \
        double own[(n_shared) + 1][GPUMC__STRIP_##set];       /* seen to be the same for all slices */ \
        GPUMC__FLAT for (int k = 0; k < (n_shared); k++) \
            p[(n_group) + k] = GPUMC__STRIP_##set > 2 && (n_group) + (n_shared) > 4 \
                ? own[k] : shared + k * GPUMC_LANES; \
        GPUMC__STRIP_LOOP_##set for (int l = 0; l < GPUMC__STRIP_##set; l++) \
            GPUMC__FLAT for (int k = 0; k < (n_shared); k++) own[k][l] = shared[k * GPUMC_LANES + l]; \
        GPUMC__STRIP_LOOP_##set for (int l = 0; l < GPUMC__STRIP_##set; l++) { \
            GPUMC__FLAT for (int k = 0; k < (n_group); k++) sum[1 + k][l] = 0; \
            GPUMC__FLAT for (int k = 0; k <= (n_shared); k++) \
                sum[k ? k + (n_group) : 0][l] = total[k * GPUMC_LANES + l]; \
        } \
        for (; s < end; t += a->tiles[s++]) { \
            for (int k = 0; k < (n_group); k++) p[k] = a->p[k] + s * GPUMC_LANES + strip; \
            name##_tiles_##set(a, t, t + a->tiles[s], strip, p, sum); \
            for (int k = 0; k < (n_group); k++) { \
                double *to = a->sums[k] + s * GPUMC_LANES + strip; \
                GPUMC__STRIP_LOOP_##set for (int l = 0; l < GPUMC__STRIP_##set; l++) { \
                    to[l] += sum[1 + k][l]; \
                    sum[1 + k][l] = 0; \
                } \
            } \
        } \
        for (int k = 0; k <= (n_shared); k++) \
            GPUMC__STRIP_LOOP_##set for (int l = 0; l < GPUMC__STRIP_##set; l++) \
                total[k * GPUMC_LANES + l] = sum[k ? k + (n_group) : 0][l]; \
    }
#define GPUMC__ROW_LOOP(set, attributes, pragma, name, n_group, n_shared, n_columns) \
    GPUMC__ROW_##set(attributes) static void name##_loop_##set(const gpumc__row_args *a) \
    { \
        double shared[((n_shared) + 1) * GPUMC_LANES], total[((n_shared) + 1) * GPUMC_LANES] = { 0 }; \
        for (int i = 0; i < (n_shared) * GPUMC_LANES; i++) shared[i] = *a->p[(n_group) + i / GPUMC_LANES]; \
        for (size_t s = 0, t = 0, end; s < a->n_slices;) { \
            end = a->n_slices - s < 4 ? a->n_slices : s + 4; \
            for (size_t strip = 0; strip < GPUMC_LANES; strip += GPUMC__STRIP_##set) \
                name##_strip_##set(a, s, end, t, strip, shared, total + strip); \
            for (; s < end; s++) t += a->tiles[s]; \
        } \
        for (int i = 0; i < ((n_shared) + 1) * GPUMC_LANES; i++) a->totals[i] = total[i]; \
    }
#define GPUMC__ROW_KIND(name, n_group, n_shared, n_columns, ...) \
    static GPUMC__UNUSED const gpumc_row_kind name = { #name, n_group, n_shared, n_columns, 0, \
        __VA_ARGS__ }; \
    GPUMC_FN gpumc_real name##_row(const gpumc_real *p GPUMC__UNUSED, const gpumc_real *x GPUMC__UNUSED, \
                                   gpumc_real *g GPUMC__UNUSED)
#define GPUMC_ROW(name, n_group, n_shared, n_columns) \
    GPUMC_FN gpumc_real name##_row(const gpumc_real *p, const gpumc_real *x, gpumc_real *g); \
    GPUMC__ISA_COPIES(GPUMC__ROW_STRIP, name, n_group, n_shared, n_columns) \
    GPUMC__ISA_COPIES(GPUMC__ROW_LOOP, name, n_group, n_shared, n_columns) \
    GPUMC__ROW_KIND(name, n_group, n_shared, n_columns, GPUMC__ISA_TABLE(name##_loop))
#define GPUMC__ROW_PLAIN(name, n_group, n_shared, n_columns) \
    GPUMC_FN gpumc_real name##_row(const gpumc_real *p, const gpumc_real *x, gpumc_real *g); \
    GPUMC__ISA_BASELINE(GPUMC__ROW_STRIP, name, n_group, n_shared, n_columns) \
    GPUMC__ISA_BASELINE(GPUMC__ROW_LOOP, name, n_group, n_shared, n_columns) \
    GPUMC__ROW_KIND(name, n_group, n_shared, n_columns, \
                    { name##_loop_baseline, name##_loop_baseline, name##_loop_baseline })

/* Two stages: the lanes are the nodes of one row, then 16 rows; idle lanes of the second repeat the first. */
#define GPUMC__CELLS_NODES(set, attributes, pragma, name, n_group, n_shared, n_columns, n_node) \
    attributes static GPUMC__NOINLINE void name##_nodes_##set(const gpumc__row_args *a, int n_cells, \
        double (*own)[GPUMC_LANES], const double *shared, double (*at)[GPUMC_LANES], \
        double (*GPUMC__RESTRICT sum)[GPUMC_LANES]) \
    { \
        for (int cell = 0; cell < n_cells; cell++) { \
            double fixed[(n_group) + (n_shared) + (n_columns)]; \
            GPUMC__FLAT for (int k = 0; k < (n_group) + (n_shared); k++) \
                fixed[k] = GPUMC__ROW_PARAMETER(k, cell, n_group); \
            GPUMC__FLAT for (int k = 0; k < (n_columns); k++) \
                fixed[(n_group) + (n_shared) + k] = at[1 + (n_group) + (n_shared) + k][cell]; \
            GPUMC__FLAT for (int k = 0; k <= (n_group) + (n_shared); k++) \
                for (int l = 0; l < GPUMC_LANES; l++) sum[k][l] = 0; \
            for (size_t i = 0; i < a->n_nodes; i += GPUMC_LANES) { \
                const size_t left = a->n_nodes - i, live = left < GPUMC_LANES ? left : GPUMC_LANES; \
                const double *node = a->nodes + i * (n_node), *w = a->zeros - live; \
                GPUMC__ROW_LANES(pragma, GPUMC_LANES, name##_node, (n_group) + (n_shared), \
                    (n_columns) + (n_node), fixed[k], k < (n_columns) ? fixed[(n_group) + (n_shared) + k] \
                                              : node[(k - (n_columns)) * GPUMC_LANES + l], w) \
            } \
            GPUMC__FLAT for (int k = 0; k <= (n_group) + (n_shared); k++) \
                at[k][cell] = gpumc__sum_16(sum[k]); \
        } \
    }
#define GPUMC__CELLS_LOOP(set, attributes, pragma, name, n_group, n_shared, n_columns) \
    attributes static void name##_cells_##set(const gpumc__row_args *a) \
    { \
        enum { FIRST = 1 + (n_group) + (n_shared) }; \
        double shared[(n_shared) + 1], sum[FIRST][GPUMC_LANES]; \
        for (int k = 0; k < (n_shared); k++) shared[k] = *a->p[(n_group) + k]; \
        memset(sum, 0, sizeof sum); \
        for (size_t s = 0, t = 0; s < a->n_slices; s++) { \
            for (const size_t end = t + a->tiles[s]; t < end; t++) { \
                double at[FIRST + (n_columns)][GPUMC_LANES], p[(n_group) + 1][GPUMC_LANES]; \
                double scratch[FIRST][GPUMC_LANES]; \
                const double *w = gpumc__row_weights(a->weights, a->zeros, a->active, t); \
                gpumc__row_repeat(at[FIRST], a->columns + t * (n_columns) * GPUMC_LANES, n_columns, \
                    a->active[t]); \
                for (int k = 0; k < (n_group); k++) \
                    gpumc__row_repeat(p[k], a->p[k] + s * GPUMC_LANES, 1, a->active[t]); \
                name##_nodes_##set(a, a->active[t], p, shared, at, scratch); \
                gpumc__row_repeat(at[0], at[0], FIRST, a->active[t]); \
                GPUMC__ROW_LANES(pragma, GPUMC_LANES, name##_whole, (n_group) + (n_shared), \
                    FIRST + (n_columns), (k) < (n_group) ? p[(k) < (n_group) ? (k) : 0][l] \
                        : shared[(k) < (n_group) ? 0 : (k) - (n_group)], at[k][l], w) \
            } \
            for (int k = 0; k < (n_group); k++) \
                for (int l = 0; l < GPUMC_LANES; l++) { \
                    a->sums[k][s * GPUMC_LANES + (size_t)l] += sum[1 + k][l]; \
                    sum[1 + k][l] = 0; \
                } \
        } \
        for (int k = 0; k < 1 + (n_shared); k++) \
            for (int l = 0; l < GPUMC_LANES; l++) \
                a->totals[k * GPUMC_LANES + l] = sum[k ? k + (n_group) : 0][l]; \
    }
#define GPUMC_CELLS(name, n_group, n_shared, n_columns, n_node) \
    GPUMC_FN gpumc_real name##_node(const gpumc_real *p, const gpumc_real *x, gpumc_real *g); \
    GPUMC_FN gpumc_real name##_finish(const gpumc_real *sum, const gpumc_real *p, const gpumc_real *x, \
                                      gpumc_real *g); \
    GPUMC_FN gpumc_real name##_whole(const gpumc_real *p, const gpumc_real *x, gpumc_real *g) \
    { return name##_finish(x, p, x + 1 + (n_group) + (n_shared), g); } \
    GPUMC__ISA_COPIES(GPUMC__CELLS_NODES, name, n_group, n_shared, n_columns, n_node) \
    GPUMC__ISA_COPIES(GPUMC__CELLS_LOOP, name, n_group, n_shared, n_columns) \
    static GPUMC__UNUSED const gpumc_row_kind name = { #name, n_group, n_shared, n_columns, n_node, \
        GPUMC__ISA_TABLE(name##_cells) }; \
    GPUMC_FN gpumc_real name##_node(const gpumc_real *p GPUMC__UNUSED, const gpumc_real *x GPUMC__UNUSED, \
                                    gpumc_real *g GPUMC__UNUSED)
#define GPUMC_FINISH(name) \
    GPUMC_FN gpumc_real name##_finish( \
        const gpumc_real *sum GPUMC__UNUSED, const gpumc_real *p GPUMC__UNUSED, \
        const gpumc_real *x GPUMC__UNUSED, gpumc_real *g GPUMC__UNUSED)

/* Rows of one kind. A model may have several, on the same parameters. */
typedef struct gpumc_rows_data {
    const gpumc_row_kind *kind;
    size_t n_rows, n_groups;
    const size_t *group;               /* of each row, from 0; NULL: all rows are of one group */
    const double *const *columns;      /* of n_rows values each */
    const char *const *column_names;   /* for messages; NULL: numbers from 0 */
    size_t n_columns;                  /* how many you give, compared with the kind; 0: not compared */
    const double *weights;             /* of each row, >= 0: multiplies its log likelihood; NULL: 1 */
    int single_precision;              /* store columns as float; arithmetic and sums stay double */
    gpumc_isa isa;                     /* AUTO: see gpumc_isa_resolve */
    const double *const *nodes;        /* GPUMC_CELLS: node columns of n_nodes values each */
    size_t n_nodes;
    const gpumc_allocator *allocator;  /* for the time of these two calls: 30 bytes a row; NULL: malloc */
} gpumc_rows_data;

/* The rows sorted and laid out in caller's memory of gpumc_rows_bytes, which keeps nothing of data but the
   kind. Both return 0 or NULL, with a text that names the row, on an index out of range, NaN or infinity. */
typedef struct gpumc_rows gpumc_rows;
GPUMC_API size_t gpumc_rows_bytes(const gpumc_rows_data *data, gpumc_error *error);
GPUMC_API gpumc_rows *gpumc_rows_init(const gpumc_rows_data *data, void *memory, size_t bytes,
                                      gpumc_error *error);

typedef struct gpumc_rows_info {
    gpumc_isa isa;                     /* what runs */
    size_t n_rows, n_groups, n_empty;  /* n_empty: groups without rows (or with rows of weight 0 alone) */
    size_t n_segments, n_slices;       /* blocks of one large group; of 16 small ones */
    size_t n_tiles;                    /* of 16 lanes each, with one row of weight above 0 or none */
} gpumc_rows_info;
GPUMC_API gpumc_rows_info gpumc_rows_describe(const gpumc_rows *rows);

/* Returns the log likelihood. p: for each group parameter its n_groups values, for each shared one its value;
   the gradient is ADDED to grad, of the same form, where NULL means not wanted. Neither the number of threads
   nor that of points changes a bit. work: gpumc_rows_work doubles, of the call's own. */
GPUMC_API size_t gpumc_rows_work(const gpumc_rows *rows);
GPUMC_API double gpumc_rows_eval(const gpumc_rows *rows, const double *const *p, double *const *grad,
                                 double *work);

/* The same at n_points points, whose pointers follow each other in p and grad, in one pass over the columns;
   lp gets the log likelihoods. team (NULL: this thread alone) shares out the rows. work: gpumc_rows_work
   doubles for every point or every thread of the team, whichever are more. */
GPUMC_API void gpumc_rows_eval_batch(const gpumc_rows *rows, size_t n_points, const double *const *p,
                                     double *const *grad, double *lp, double *work, gpumc_team *team);

/* The weighted log likelihood of every row, in the caller's order. */
GPUMC_API void gpumc_rows_pointwise(const gpumc_rows *rows, const double *const *p, double *log_lik,
                                    double *work);
/* After a value that is not finite: names the first row whose log likelihood or gradient is not, or is OK. */
GPUMC_API gpumc_status gpumc_rows_explain(const gpumc_rows *rows, const double *const *p, double *work,
                                          gpumc_error *error);

/* ====================================================================================== >>api-glm
   Regressions with a dense design matrix X: y[i] ~ family(eta[i]) with
       eta = intercept + X beta + offset + the sum over factors f of effect_f[level_f[i]].
   One pass over X gives the log likelihood and its whole gradient, for one point or for all that wait; priors
   are left to the caller. Factors are the grouping variables of varying intercepts, crossed or nested, and
   the cheap form of indicator columns: one index a row in place of one column a level. Sums have a fixed
   order: the same bits for any number of points a pass and of threads. */

/* X(NAME, name, support): the families, the law of y named as in >>api-dist with its location eta. sigma
   belongs to normal and student_t, nu to student_t, phi to neg_binomial_2_log. */
#define GPUMC_GLM_FAMILIES(X) \
    X(NORMAL, normal, "a finite number") \
    X(BERNOULLI_LOGIT, bernoulli_logit, "0 or 1") \
    X(POISSON_LOG, poisson_log, "0, 1, 2, ...") \
    X(NEG_BINOMIAL_2_LOG, neg_binomial_2_log, "0, 1, 2, ...") \
    X(STUDENT_T, student_t, "a finite number")
#define GPUMC__GLM_ENUMERATE(NAME, name, support) GPUMC_GLM_##NAME,
typedef enum gpumc_glm_family { GPUMC_GLM_FAMILIES(GPUMC__GLM_ENUMERATE) GPUMC__GLM_N } gpumc_glm_family;

typedef struct gpumc_glm_factor {
    const size_t *level;      /* one a row, from 0 */
    size_t n_levels;
} gpumc_glm_factor;

typedef struct gpumc_glm_data {
    gpumc_glm_family family;
    size_t n_rows, n_columns;
    const double *x;          /* n_rows x n_columns, or x_float; both NULL without columns */
    const float *x_float;     /* is also stored so */
    int column_major;         /* 0: one row after the other */
    const double *y;
    const double *offset;     /* one a row; NULL: 0 */
    const double *weights;    /* not negative, a factor of each row's log likelihood; NULL: 1 */
    const gpumc_glm_factor *factors;
    size_t n_factors;
    int single_precision;     /* stores x as float: half the traffic; arithmetic and sums stay double */
    gpumc_isa isa;            /* AUTO: the best */
} gpumc_glm_data;

typedef struct gpumc_glm gpumc_glm;
/* Bytes that _init wants; 0 with an error where sizes or pointers cannot be. _init looks at the values. */
GPUMC_API size_t gpumc_glm_bytes(const gpumc_glm_data *data, gpumc_error *error);
/* Copies what it needs into memory, which must live as long as the result; NULL with an error that names row
   and column or factor. */
GPUMC_API gpumc_glm *gpumc_glm_init(const gpumc_glm_data *data, void *memory, size_t bytes,
                                    gpumc_error *error);

/* Where the parameters of a point stand. An intercept, effect or slope that is NULL is 0; a sigma, nu or phi
   that the family needs must be there. */
typedef struct gpumc_glm_point {
    const double *intercept, *beta, *const *effects;     /* effects: a pointer for each factor */
    const double *sigma, *nu, *phi;
} gpumc_glm_point;
/* Where derivatives are ADDED; NULL means not wanted. */
typedef struct gpumc_glm_gradient {
    double *intercept, *beta, *const *effects;
    double *sigma, *nu, *phi;
} gpumc_glm_gradient;

/* Doubles of work for n_points a pass on n_threads; calls at the same time need work of their own. */
GPUMC_API size_t gpumc_glm_work(const gpumc_glm *glm, size_t n_points, size_t n_threads);
/* Log likelihood; NaN for invalid parameters. gradient may be NULL. */
GPUMC_API double gpumc_glm_eval(const gpumc_glm *glm, const gpumc_glm_point *at,
                                const gpumc_glm_gradient *gradient, double *work);
/* The same for n points in one pass over X, which team (NULL: this thread alone) shares out. */
GPUMC_API void gpumc_glm_eval_batch(const gpumc_glm *glm, size_t n, const gpumc_glm_point *at,
                                    const gpumc_glm_gradient *gradient, double *log_lik, double *work,
                                    gpumc_team *team);
/* Log likelihood of every row, without its weight. */
GPUMC_API void gpumc_glm_pointwise(const gpumc_glm *glm, const gpumc_glm_point *at, double *log_lik,
                                   double *work);

/* =================================================================================== >>api-device
   Hot loops where they run fastest: data go once to the GPU, or stay with the CPU where there is none, and
   every call evaluates all points that wait. The GPU wants programs that define GPUMC_CUDA and link
   gpumc_cuda.cu. Parameters of a point lie one after the other, and its derivatives likewise:
     rows   the values of each group parameter in all groups, then the shared parameters;
     glm    intercept, slopes, effects of each factor, then sigma or phi and nu where the family has them. */
typedef struct gpumc_device_info {
    char name[256];
    int n_devices, major, minor;          /* compute capability */
    int driver, runtime;                  /* 1000 major + 10 minor */
    size_t bytes, bytes_free;
} gpumc_device_info;
/* GPUMC_ERROR_DEVICE with the driver's words where there is no GPU. */
GPUMC_API gpumc_status gpumc_device_describe(gpumc_device_info *info, gpumc_error *error);

typedef enum gpumc_place { GPUMC_ANYWHERE = 0, GPUMC_ON_CPU, GPUMC_ON_GPU } gpumc_place;

typedef struct gpumc_hot {                /* data that are ready to be evaluated */
    const char *where;                    /* "GPU", or "CPU" */
    char reason[256];                     /* why not the GPU, if it was not refused: to be said once */
    size_t n_params;                      /* of a point */
    gpumc_status (*eval)(struct gpumc_hot *hot, size_t n, const double *p, double *grad, double *lp,
                         gpumc_error *error);
    void (*release)(struct gpumc_hot *hot);
} gpumc_hot;

/* Checks and copies the data. ANYWHERE takes the GPU if it can have it, ON_GPU fails where it cannot. At most
   max_points are evaluated at once, more in turns. NULL on error. */
GPUMC_API gpumc_hot *gpumc_hot_rows(const gpumc_rows_data *data, size_t max_points, gpumc_place place,
                                    gpumc_error *error);
GPUMC_API gpumc_hot *gpumc_hot_glm(const gpumc_glm_data *data, size_t max_points, gpumc_place place,
                                   gpumc_error *error);
/* Writes n log likelihoods to lp and ADDS the derivatives to grad. The same bits however many points a call
   has; those of CPU and GPU differ by rounding. One thread at a time. */
GPUMC_API gpumc_status gpumc_hot_eval(gpumc_hot *hot, size_t n, const double *p, double *grad, double *lp,
                                      gpumc_error *error);
GPUMC_API void gpumc_hot_release(gpumc_hot *hot);

/* What gpumc_cuda.cu fills in. */
typedef struct gpumc__device {
    gpumc_status (*describe)(gpumc_device_info *info, gpumc_error *error);
    gpumc_hot *(*rows)(const gpumc_rows_data *data, size_t max_points, gpumc_error *error);
    gpumc_hot *(*glm)(const gpumc_glm_data *data, size_t max_points, gpumc_error *error);
} gpumc__device;
#if defined(GPUMC_CUDA)
extern const gpumc__device *gpumc__cuda_device(void);
#endif

/* ===================================================================================== >>api-hier
   Hierarchical models as data: parameter blocks as in any model, a prior or a population for each, and sets
   of rows; the result is a complete gpumc_model. Everything is referred to by name. A block with a location,
   scale, walk or covariates has a population, every other block has a prior. Without a location a population
   is about 0, and a walk starts there: where data lie elsewhere give it one.

   The kind of a block with a population says where its values lie, a link how they get there:
       GPUMC_UNBOUNDED           the identity                     sampled as NAME itself
       GPUMC_POSITIVE, _LOWER    lower + exp                      sampled as log_NAME
       GPUMC_UNIT, _INTERVAL     lower + width logistic, or       sampled as logit_NAME
                                 lower + width Phi, if asked for  sampled as probit_NAME
   Location, scale and population are then those of log_NAME and so on, and the values NAME are generated
   quantities. Rows may take both. A block between bounds with GPUMC_LINK_IDENTITY is sampled centred, which
   wants a population on these bounds. */

/* Families of priors and populations are functions, so that under GPUMC_STATIC a program holds only those it
   names: gpumc_prior_FAMILY for each continuous family of >>api-dist, and gpumc_prior_flat, of log density 0
   everywhere, which is improper and cannot be drawn from. */
typedef const struct gpumc__prior_law *gpumc_prior_family(void);
#define GPUMC__IF_REAL_0(...) __VA_ARGS__
#define GPUMC__IF_REAL_1(...) __VA_ARGS__
#define GPUMC__IF_REAL_2(...) __VA_ARGS__
#define GPUMC__IF_REAL_3(...) __VA_ARGS__
#define GPUMC__IF_COUNT_1(...)
#define GPUMC__IF_COUNT_2(...)
#define GPUMC__IF_TRIALS_1(...)
#define GPUMC__DECLARE_PRIOR(shape, cdf, family, parameters, support) \
    GPUMC__IF_##shape(GPUMC_API gpumc_prior_family gpumc_prior_##family;)
GPUMC_FAMILIES(GPUMC__DECLARE_PRIOR)
GPUMC_API gpumc_prior_family gpumc_prior_flat;

/* What of a prior lies beyond the bounds of its block is cut off, and the rest normalised. */
typedef struct gpumc_prior {
    const char *name;                     /* of a block, or of one element, counted from 1: "sd[2]" */
    gpumc_prior_family *family;
    double a, b, c;                       /* its parameters, in the order of the density's */
} gpumc_prior;

typedef enum gpumc_hier_link {
    GPUMC_LINK_BY_KIND = 0, GPUMC_LINK_IDENTITY, GPUMC_LINK_LOG, GPUMC_LINK_LOGIT, GPUMC_LINK_PROBIT
} gpumc_hier_link;
typedef const struct gpumc__population_law *gpumc_population_family(void);
GPUMC_API gpumc_population_family gpumc_population_student_t;        /* shape: degrees of freedom */
GPUMC_API gpumc_population_family gpumc_population_truncated_normal; /* to the bounds; link: the identity */

/* Where a population is not the normal one, or a link not that of the kind. Leaves are row functions with
   p = value, location, scale, then the shape, and x = lower and upper bound. In the quantile form z_NAME is
   sampled, N(0, 1), and NAME is the quantile of the population with Phi(z) below. With a second block of as
   many elements, in the quantile form too, it may be any function of z, location and scale of both: two
   parameters that are correlated, or whose sum the data know better than either. */
typedef struct gpumc_population {
    const char *name;
    gpumc_hier_link link;
    gpumc_population_family *family;      /* NULL: normal */
    const char *shape;                    /* a block of further parameters */
    const gpumc_row_kind *density;        /* GPUMC_ROW(f, 3, size of shape, 2): instead of a family */
    const gpumc_row_kind *quantile;       /* GPUMC_ROW(f, 3, 0, 2): of z, location, scale; with: f, 6, 0, 2 */
    int quantile_form;
    const char *with;                     /* the second block */
} gpumc_population;

/* What a row function gets as p: first blocks with an index, of which row i gets element index[i], then
   blocks without, all of whose values follow each other. Indices may differ: winners and losers, say. */
typedef struct gpumc_hier_take { const char *name; const size_t *index; } gpumc_hier_take;

typedef struct gpumc_hier_rows {
    const char *name;                     /* for messages */
    gpumc_rows_data data; /* kind, n_rows, columns, ...; group and n_groups follow from takes */
    const gpumc_rows_data *guide;         /* what the model's guide has instead: rows of the same takes */
    const gpumc_hier_take *takes;
    size_t n_takes;
    /* Simulates one row from its parameters and columns: n_simulated values (0: 1) to y. */
    void (*simulate)(const double *p, const double *x, gpumc_rng *rng, double *y);
    size_t n_simulated;
    const char *log_lik, *predictive;     /* names of these among the draws; NULL: left out */
} gpumc_hier_rows;

typedef struct gpumc_hier_data {
    const char *name;
    const gpumc_param *params;  /* init: of what is sampled; NULL: from priors and rows, some 60 gradients */
    size_t n_params;
    const gpumc_prior *priors;
    size_t n_priors;
    const gpumc_population *populations;
    size_t n_populations;
    const gpumc_hier_rows *rows;
    size_t n_rows;
    int threads;                          /* how many may evaluate at once; more wait. 0: cores / team */
    /* Threads that share the rows of each evaluation, where they are 10,000 or more; not a bit changes. 0: in
       gpumc_sample with more threads than chains, as many as there are for each chain, elsewhere 1. */
    int team;
    gpumc_isa isa;
    gpumc_allocator allocator;
} gpumc_hier_data;

/* NULL with a text on error. data and all it points to must stay; only a team's memory is allocated later. */
typedef struct gpumc_hier gpumc_hier;
GPUMC_API gpumc_hier *gpumc_hier_create(const gpumc_hier_data *data, gpumc_error *error);
GPUMC_API void gpumc_hier_free(gpumc_hier *hier);
GPUMC_API const gpumc_model *gpumc_hier_model(const gpumc_hier *hier);
/* Draws the parameters of the model, gpumc_model_n_values doubles, from priors and populations. Its generate
   then simulates rows, gpumc_model_n_outputs doubles, output after output:
       gpumc_rng rng = gpumc_rng_at(seed, 0, draw, 0);
       gpumc_hier_prior_draw(hier, &rng, x, &error);   model->generate(x, &rng, out, model->data); */
GPUMC_API gpumc_status gpumc_hier_prior_draw(const gpumc_hier *hier, gpumc_rng *rng, double *x,
                                             gpumc_error *error);
/* Why the density at x is not finite: names the prior, population or row at fault; GPUMC_OK when it is. */
GPUMC_API gpumc_status gpumc_hier_explain(const gpumc_hier *hier, const double *x, gpumc_error *error);

/* ===================================================================================== >>api-nuts
   The no-U-turn sampler as a state machine: ask where a gradient is wanted, tell it, repeat. It works on free
   coordinates, owns no memory and no threads, and calls nobody. */
typedef enum gpumc_metric_kind {
    GPUMC_METRIC_AUTO = 0, GPUMC_METRIC_DIAG, GPUMC_METRIC_LOW_RANK, GPUMC_METRIC_DENSE, GPUMC_METRIC_UNIT,
    GPUMC_METRIC_BLOCKS
} gpumc_metric_kind;

/* Inverse mass matrix M^-1, an estimate of the posterior covariance: diagonal S^2, low rank
   S (I + U (Lambda - I) U') S, blocks S C (I + U (Lambda - I) U') C' S, dense L L' (lower). C is block lower
   triangular with rows of norm one; a block holds what belongs to one group of a hierarchy: element j of each
   of several linked parameters. */
typedef struct gpumc_metric {
    gpumc_metric_kind kind;
    size_t dim, rank;
    double *scale;            /* S */
    double *mean;             /* centre: for whitening, and where HMC's spring is fixed */
    int spring;               /* HMC: not 0 where the target is nearly the normal of mean and M^-1 */
    double *vectors;          /* U, rank rows of dim */
    double *lambda;           /* Lambda, rank, at most 64 */
    double *covariance;       /* M^-1 itself, dim x dim (dense) */
    double *factor;           /* L, dim x dim, row-major, zeros above the diagonal (dense) */
    size_t n_blocks, block_size;  /* in force, 0 before the first estimate; members of each */
    size_t *members;          /* member k of block j is coordinate members[k] + j */
    double *blocks;           /* C: element (k, l <= k) of every block, n_blocks of them together */
} gpumc_metric;

typedef struct gpumc_draw_stats {
    /* log density with Jacobians; H of the draw; differences to H0 */
    double lp, energy, energy_error, max_energy_error;
    double accept_stat, accept_sym;  /* means over the leaves of min(1, e^w) and 2 / (1 + e^|w|) */
    double step_size, fisher_residual;  /* |x + g|^2 in whitened coordinates; 0: the metric fits */
    int32_t tree_depth, n_leapfrog, selected; /* depth: doublings that were kept; selected: signed leaf index,
                                                 0 = did not move */
    uint8_t divergent, hit_max_treedepth;
} gpumc_draw_stats;

typedef struct gpumc_nuts gpumc_nuts;
GPUMC_API size_t gpumc_nuts_bytes(size_t dim, int max_treedepth);
/* chain: global number, keys the random numbers with seed; q: start point, copied. metric must stay;
   step_size 0 searches one first. Returns NULL with a text on error. */
GPUMC_API gpumc_nuts *gpumc_nuts_init(void *memory, size_t bytes, size_t dim, int max_treedepth,
                                      const gpumc_metric *metric, double step_size, uint64_t seed,
                                      uint32_t chain, const double *q, gpumc_error *error);
/* The point at which log density and gradient are wanted. */
GPUMC_API GPUMC_TEAM const double *gpumc_nuts_ask(gpumc_nuts *s);
/* Tells them; returns 1 when this completed a draw, else 0. The first completed draw is the start point
   itself. */
GPUMC_API GPUMC_TEAM int gpumc_nuts_tell(gpumc_nuts *s, double lp, const double *grad);
GPUMC_API GPUMC_TEAM const double *gpumc_nuts_draw(const gpumc_nuts *s);              /* the current draw */
GPUMC_API GPUMC_TEAM const double *gpumc_nuts_gradient(const gpumc_nuts *s);          /* its gradient */
GPUMC_API GPUMC_TEAM const gpumc_draw_stats *gpumc_nuts_stats(const gpumc_nuts *s);
/* where the last divergent step began */
GPUMC_API GPUMC_TEAM const double *gpumc_nuts_divergence(const gpumc_nuts *s);
/* between transitions; 0: search */
GPUMC_API GPUMC_TEAM void gpumc_nuts_set_step_size(gpumc_nuts *s, double step_size);
/* 1 when the density at the start point was not finite: give another one. */
GPUMC_API GPUMC_TEAM int gpumc_nuts_bad_start(const gpumc_nuts *s);
GPUMC_API GPUMC_TEAM void gpumc_nuts_restart(gpumc_nuts *s, const double *q);

/* ===================================================================================== >>api-mams
   Transitions of the same machine along one path of known length instead of a tree: the Metropolis-adjusted
   microcanonical sampler and Hamiltonian Monte Carlo, which swings about the metric's mean where that has a
   spring: one step a draw will do where the target is that normal, in any number of dimensions. */
typedef enum gpumc_sampler {
    GPUMC_SAMPLER_AUTO = 0, GPUMC_SAMPLER_NUTS, GPUMC_SAMPLER_MAMS, GPUMC_SAMPLER_HMC
} gpumc_sampler;

/* Between transitions: GPUMC_SAMPLER_NUTS, or paths whose lengths fill length * (1 -+ window) evenly, in
   units of whitened coordinates (a quarter turn of a standard normal is pi / 2), the same lengths in every
   chain. MAMS needs two dimensions; with one it is HMC. On the spring of its metric HMC takes as many equal
   steps as reach `length`, one or an even number, none longer than the step size, so that a path ends with
   them; otherwise paths are whole numbers of steps. */
GPUMC_API GPUMC_TEAM void gpumc_nuts_set_path(gpumc_nuts *s, gpumc_sampler sampler, double length,
                                              double window);

/* ==================================================================================== >>api-adapt
   Warm-up for a set of chains that share metric, step size and centring. One is allowed. */
typedef struct gpumc_adapt_options {
    size_t num_chains;        /* 0: 1 */
    size_t num_warmup;        /* 0: 200 a chain, 400 with one chain, and early_stop */
    double target_accept;     /* 0: 0.8; MAMS and HMC at least 0.85, on the spring 0.93 */
    int max_treedepth;        /* 0: 10; paths have fewer than 2^max_treedepth steps */
    gpumc_metric_kind metric;
    gpumc_sampler sampler;    /* 0: chosen when metric and centring are done */
    int early_stop;           /* ends once HMC on its spring has held for two windows: of the default after
                                 110 iterations at the earliest, 320 with one chain */
    int keep_stuck_chains;    /* do not restart a chain that lags behind */
    uint64_t seed;
    uint32_t first_chain_id;
    double path_length;       /* of MAMS and HMC, as in gpumc_nuts_set_path; 0: 1.45, more for slow scales,
                                 on the spring 1.7 */
} gpumc_adapt_options;

typedef struct gpumc_adapt gpumc_adapt;
/* layout may be NULL (free coordinates only, no centring): then dim counts; otherwise dim is the layout's. */
GPUMC_API size_t gpumc_adapt_bytes(const gpumc_layout *layout, size_t dim,
                                   const gpumc_adapt_options *options);
GPUMC_API gpumc_adapt *gpumc_adapt_init(void *memory, size_t bytes, gpumc_layout *layout, size_t dim,
                                        const gpumc_adapt_options *options, gpumc_error *error);
/* Metric of one chain: its own early on, later the shared one; the pointer stays valid and the same. */
GPUMC_API const gpumc_metric *gpumc_adapt_metric(const gpumc_adapt *a, size_t chain);
/* To be called each time every chain has completed a draw, from the start point on; returns 1 while warm-up
   goes on, 0 when it has ended and the chains may run freely. */
GPUMC_API int gpumc_adapt_update(gpumc_adapt *a, gpumc_nuts *const *chains);
/* The sampler in force, and why it was chosen, in words (reason may be NULL). */
GPUMC_API gpumc_sampler gpumc_adapt_sampler(const gpumc_adapt *a, const char **reason);

/* ====================================================================================== >>api-run
   Chains on threads. */
typedef struct gpumc_progress {
    size_t chain, n_chains;           /* from 0 */
    size_t iteration, total;          /* of this chain, warm-up included */
    int warmup;                       /* 1 during warm-up */
    double step_size, mean_leapfrog;  /* gradients a draw so far in this phase */
    size_t divergences;               /* after warm-up */
    double elapsed, remaining;        /* seconds, of the whole run */
} gpumc_progress;

typedef struct gpumc_stop_flag { volatile int requested; } gpumc_stop_flag;
GPUMC_API void gpumc_stop(gpumc_stop_flag *flag);      /* safe in a signal handler and from any thread */

typedef struct gpumc_sample_options {
    int num_chains;           /* 0: 4 */
    int num_warmup;           /* 0: see gpumc_adapt_options; -1: none. fit.n_warmup: what was done */
    int num_samples;          /* 0: 1000 kept draws a chain */
    int thin;                 /* 0: 1; every thin-th draw is kept, num_samples counts kept ones */
    double target_accept;     /* 0: 0.8 */
    int max_treedepth;        /* 0: 10 */
    gpumc_metric_kind metric; /* 0: by dimension and links */
    gpumc_sampler sampler;    /* 0: chosen at the end of warm-up, see fit.sampler_reason */
    double step_size;         /* 0: found in warm-up; needed when num_warmup is -1 */
    double path_length;       /* of MAMS and HMC, in standard deviations (0: see gpumc_adapt_options) */
    uint64_t seed;
    uint32_t first_chain_id;  /* global number of the first chain, for jobs split over processes */
    int threads;  /* 0: one a core it may use; what chains leave idle goes to the model, see its share */
    double init_radius;       /* 0: 2; start points uniform on (-r, r) in free coordinates */
    int early_stop, keep_stuck_chains;               /* see gpumc_adapt_options */
    int save_warmup, save_unconstrained;
    int skip_gradient_check;
    int discard_draws;        /* keep none in memory: the draw callback sees them */
    /* Down to here and but for threads, options are part of a checkpoint. */
    int (*progress)(const gpumc_progress *progress, void *user);     /* non-zero stops */
    void *progress_user;
    FILE *progress_stream;    /* the built-in printer, when progress is NULL */
    int (*on_draw)(size_t chain, size_t draw, const double *values, const gpumc_draw_stats *stats,
                   void *user);
    void *draw_user;          /* values: n_columns; called under a lock; non-zero stops */
    const gpumc_stop_flag *stop;
    const char *checkpoint;   /* file that the state is saved to, and FILE.old the time before */
    double checkpoint_seconds; /* 0: 600, and at least 20 times what saving takes */
    struct gpumc_stream *stream;       /* set by gpumc_stream_open; saved and resumed with the run */
    const gpumc_metric *initial_metric;        /* as of an earlier fit, or a file: see below */
    gpumc_allocator allocator;
} gpumc_sample_options;

typedef enum gpumc_warning_code {
    GPUMC_W_DIVERGENT = 0, GPUMC_W_TREEDEPTH, GPUMC_W_EBFMI, GPUMC_W_RHAT, GPUMC_W_ESS, GPUMC_W_FEW_CHAINS,
    GPUMC_W_FEW_DRAWS, GPUMC_W_CONSTANT, GPUMC_W_NOT_FINITE, GPUMC_W_ACCEPT, GPUMC_W_STUCK, GPUMC_W_RESTARTED,
    GPUMC_W_NOT_MIXED, GPUMC_W_METRIC, GPUMC_W_CHECKPOINT, GPUMC_W_HELD
} gpumc_warning_code;
typedef struct gpumc_warning {
    gpumc_warning_code code;
    int note;
    double value;
    char text[320];
} gpumc_warning;

typedef struct gpumc_block {              /* a named block of columns in a fit */
    const char *name;
    const size_t *dims;
    size_t n_dims, offset, size;          /* n_dims 0: a scalar */
    int is_output;                        /* 0: parameter; 1: generated quantity */
    gpumc_group group;
} gpumc_block;

typedef struct gpumc_fit {
    gpumc_status status;
    char message[256];
    gpumc_sample_options options;         /* resolved */
    const char *model_name;
    /* n_draws: complete in every chain; parameters first, then outputs */
    size_t n_chains, n_draws, n_columns;
    size_t n_params_columns, n_free;
    gpumc_block *blocks;
    size_t n_blocks;
    double *draws;                        /* [chain][draw][column] with stride draw_capacity draws a chain */
    gpumc_draw_stats *stats;              /* [chain][draw] */
    double *unconstrained;                /* [chain][draw][free], on request; for learned scores logarithms */
    size_t *free_blocks;                  /* [block][2]: first free coordinate, number; 0: untransformed */
    double *warmup_draws;                 /* [chain][iteration][column], on request; outputs are NaN */
    gpumc_draw_stats *warmup_stats;       /* [chain][iteration], on request */
    size_t draw_capacity, n_warmup;       /* n_warmup: iterations done, saved or not */
    gpumc_metric metric;                  /* in free coordinates */
    double step_size, tree_step_size;     /* of the sampler; of NUTS, which files carry */
    gpumc_sampler sampler;                /* that made the draws, and why */
    char sampler_reason[160];
    double *centring;                     /* share of data in what is known of an element; others 1 */
    double *typical;                      /* of every free coordinate; 0: its map is another */
    struct gpumc_summary *summaries;      /* of columns, for gpumc_summarise; flags -1: not worked out yet */
    gpumc_warning *warnings;
    size_t n_warnings;
    uint64_t warmup_gradients, sampling_gradients;
    double warmup_seconds, sampling_seconds, gradient_seconds, forecast_seconds;
    size_t n_divergent, n_restarted;
    int threads;                          /* that ran chains, or shared the densities of one */
    int resumable;                        /* stopped, and gpumc_resume goes on from here */
    void *memory;                         /* private: what gpumc_free releases */
    gpumc_allocator allocator;
} gpumc_fit;

/* With initial_metric, of the model's free coordinates (for what is learned those of fit->centring and
   fit->typical: better to fix centring_weight and typical then), warm-up starts from its variances and from
   step_size, and learns as ever.
   With num_warmup -1 they are what the run uses: fit->metric with fit->step_size and fit->sampler, or what a
   file has, whose step size is that of NUTS, where its metric was dense or diagonal. Chains start as ever, at
   init or at random; none is looked after, so give an init near the posterior. */

/* Draws from the posterior of a model: num_chains chains on as many threads as the machine has cores.
   options may be NULL (defaults); fit receives draws, statistics and warnings, to be released by gpumc_free.
   Returns GPUMC_OK; GPUMC_STOPPED with the draws so far when a callback or the stop flag asked for it;
   otherwise an error, with fit->message naming the argument, its value and the remedy. Same seed, same draws,
   whatever the thread count. */
GPUMC_API gpumc_status gpumc_sample(const gpumc_model *model, const gpumc_sample_options *options,
                                    gpumc_fit *fit);
/* Goes on with the run saved in file, and saves there: the draws are those it would have made uninterrupted,
   by the same binary on the same kind of processor. Threads, callbacks, stop flag, allocator and
   checkpoint_seconds are those given; all else comes from the file, and is refused where it is given
   otherwise. */
GPUMC_API gpumc_status gpumc_resume(const gpumc_model *model, const gpumc_sample_options *options,
                                    const char *file, gpumc_fit *fit);
GPUMC_API void gpumc_free(gpumc_fit *fit);
/* Name of a column, theta[3] or L[2,1], counting from 1; returns its length as snprintf does. */
GPUMC_API size_t gpumc_column_name(const gpumc_fit *fit, size_t column, char *text, size_t size);
/* Column of a name as above; SIZE_MAX when there is none. */
GPUMC_API size_t gpumc_column(const gpumc_fit *fit, const char *name);

/* ================================================================================= >>api-diagnose
   Convergence diagnostics and estimates, by the definitions of the R package posterior. */
typedef struct gpumc_series {  /* one quantity: value (c, i) is x[c * chain_stride + i * draw_stride] */
    const double *x;
    size_t n_chains, n_draws;
    size_t chain_stride, draw_stride;     /* 0 and 0: n_draws and 1 */
} gpumc_series;

enum {
    GPUMC_FLAG_NAN = 1, GPUMC_FLAG_INFINITE = 2, GPUMC_FLAG_CONSTANT = 4, GPUMC_FLAG_CONSTANT_CHAIN = 8,
    GPUMC_FLAG_FEW_DRAWS = 16, GPUMC_FLAG_CAPPED = 32, GPUMC_FLAG_MEMORY = 64, GPUMC_FLAG_ONE_CHAIN = 128
};
typedef struct gpumc_stat { double value; int flags; } gpumc_stat;

GPUMC_API gpumc_series gpumc_fit_series(const gpumc_fit *fit, size_t column);
GPUMC_API gpumc_stat gpumc_mean(gpumc_series s);
GPUMC_API gpumc_stat gpumc_sd(gpumc_series s);
GPUMC_API gpumc_stat gpumc_quantile(gpumc_series s, double p);               /* type 7 */
GPUMC_API gpumc_stat gpumc_r_hat(gpumc_series s);            /* rank-normalised, split, folded */
GPUMC_API gpumc_stat gpumc_r_hat_basic(gpumc_series s);                      /* split only */
GPUMC_API gpumc_stat gpumc_r_hat_nested(gpumc_series s, size_t n_super);     /* equal groups of chains */
GPUMC_API gpumc_stat gpumc_ess_bulk(gpumc_series s);
GPUMC_API gpumc_stat gpumc_ess_tail(gpumc_series s);
GPUMC_API gpumc_stat gpumc_ess_mean(gpumc_series s);
GPUMC_API gpumc_stat gpumc_ess_sd(gpumc_series s);
GPUMC_API gpumc_stat gpumc_ess_quantile(gpumc_series s, double p);
GPUMC_API gpumc_stat gpumc_mcse_mean(gpumc_series s);
GPUMC_API gpumc_stat gpumc_mcse_sd(gpumc_series s);
GPUMC_API gpumc_stat gpumc_mcse_quantile(gpumc_series s, double p);
GPUMC_API gpumc_stat gpumc_ebfmi(const double *energy, size_t n, size_t stride);
GPUMC_API gpumc_stat gpumc_hdi(gpumc_series s, double mass, double *lower, double *upper);

/* Pareto-smoothed importance sampling: n log ratios become normalised log weights; returns k-hat. r_eff 0
   means 1. */
GPUMC_API gpumc_stat gpumc_psis(double *log_ratios, size_t n, double r_eff, double *ess);

typedef struct gpumc_loo {                /* leave-one-out cross-validation */
    double elpd, se, p_loo, looic;
    size_t n_observations, n_bad_k;       /* k above min(1 - 1 / log10 S, 0.7) */
    double k_threshold, worst_k;
} gpumc_loo;
/* Over every column of group GPUMC_LOG_LIKELIHOOD; pointwise_elpd and pareto_k, one each, may be NULL. */
GPUMC_API gpumc_status gpumc_loo_psis(const gpumc_fit *fit, gpumc_loo *loo, double *pointwise_elpd,
                                      double *pareto_k, gpumc_error *error);

/* Of what two models make of the same n observations: the sum of elpd_a - elpd_b, positive where a predicts
   better, and its standard error, root of n times the variance. */
GPUMC_API gpumc_status gpumc_loo_compare(const double *elpd_a, const double *elpd_b, size_t n,
                                         double *difference, double *se, gpumc_error *error);

typedef struct gpumc_summary {
    double mean, mcse, sd, q5, q50, q95, ess_bulk, ess_tail, r_hat;
    int flags;
} gpumc_summary;
GPUMC_API gpumc_summary gpumc_summarise(const gpumc_fit *fit, size_t column);
/* A header, a row a column (of a block with more than 12 the first 10, then the worst of the others; log
   likelihoods and predictions a row a block), then the warnings. */
GPUMC_API gpumc_status gpumc_print_summary(const gpumc_fit *fit, FILE *stream);

/* =================================================================================== >>api-output
   Files, with numbers that do not depend on the locale. Each is written under another name first and complete
   or not there. */
GPUMC_API gpumc_status gpumc_write_summary_csv(const gpumc_fit *fit, const char *path, gpumc_error *error);
/* Stan CSV, one file a chain: PREFIX_1.csv, PREFIX_2.csv, ..., of chains from first_chain_id + 1 on. */
GPUMC_API gpumc_status gpumc_write_stan_csv(const gpumc_fit *fit, const char *prefix, gpumc_error *error);
/* One row a draw, with columns .chain, .iteration and .draw before the others: for R, and small results. */
GPUMC_API gpumc_status gpumc_write_tidy_csv(const gpumc_fit *fit, const char *path, gpumc_error *error);
/* A NumPy file [chain][draw][...] of one block, or [chain][draw][column] where block is NULL. */
GPUMC_API gpumc_status gpumc_write_npy(const gpumc_fit *fit, const char *block, const char *path,
                                       gpumc_error *error);
/* Step size and metric as CmdStan's save_metric has them and its metric_file takes them; of low rank and
   blocks only the diagonal. They belong to the coordinates as learned: fit->centring, fit->typical. */
GPUMC_API gpumc_status gpumc_write_metric_json(const gpumc_fit *fit, const char *path, gpumc_error *error);
/* Reads one, for gpumc_nuts_init. metric is released by gpumc_metric_free; allocator may be NULL (malloc). */
GPUMC_API gpumc_status gpumc_read_metric_json(const char *path, const gpumc_allocator *allocator,
                                              gpumc_metric *metric, double *step_size, gpumc_error *error);
GPUMC_API void gpumc_metric_free(const gpumc_allocator *allocator, gpumc_metric *metric);

typedef struct gpumc_variable {           /* one variable of a data file, row-major */
    char *name;
    size_t *dims;
    size_t n_dims, n_values;
    int is_integer;
    double *values;
} gpumc_variable;
typedef struct gpumc_data {
    gpumc_variable *variables;
    size_t n_variables;
    gpumc_allocator allocator;
} gpumc_data;

/* Readers of Stan JSON and of CSV. data arrives zeroed, perhaps with its allocator set, and is released by
   gpumc_data_free; errors name variable, line and column. */
GPUMC_API gpumc_status gpumc_parse_json(const char *text, size_t length, gpumc_data *data,
                                        gpumc_error *error);
GPUMC_API gpumc_status gpumc_read_json(const char *path, gpumc_data *data, gpumc_error *error);

typedef struct gpumc_csv_options {
    char delimiter;           /* 0: comma */
    int no_header;            /* columns are then named V1, V2, ... */
    int skip_comments;        /* lines that start with # */
    int missing_is_error;     /* empty, NA, NaN, nan: error instead of NaN */
} gpumc_csv_options;
GPUMC_API gpumc_status gpumc_parse_csv(const char *text, size_t length, const gpumc_csv_options *options,
                                       gpumc_data *data, gpumc_error *error);
GPUMC_API gpumc_status gpumc_read_csv(const char *path, const gpumc_csv_options *options, gpumc_data *data,
                                      gpumc_error *error);
/* The variable of a name; NULL, and an error text, also where n_values > 0 or integer are not met. */
GPUMC_API const gpumc_variable *gpumc_data_get(const gpumc_data *data, const char *name, size_t n_values,
                                               int integer, gpumc_error *error);
GPUMC_API void gpumc_data_free(gpumc_data *data);
/* Shortest of 15, 16 or 17 digits that reads back equal, decimal point whatever the locale; nan, inf, -inf.
   text holds 32 bytes; returns the length. */
GPUMC_API size_t gpumc_format_number(double value, char *text);

/* A store is a folder in the Zarr format, version 2, as ArviZ and xarray open it: draws, statistics, data,
   warm-up and free coordinates where the fit has them; large arrays have a file a chain. It grows as
   PATH.tmp, which a killed program leaves and its user removes, and is complete or not there. A PATH that
   exists is an error. */
typedef struct gpumc_dimension {          /* what a dimension is called, and labels of its places */
    const char *block;                    /* a parameter, output or variable of the data */
    size_t dim;                           /* which of its dimensions, from 0 */
    const char *name;                     /* several blocks may share it; NULL: BLOCK_dim_0 and so on */
    const char *const *labels;            /* UTF-8, one a place; NULL: 0, 1, ... */
} gpumc_dimension;
typedef struct gpumc_store_options {
    const gpumc_data *observed_data, *constant_data;
    const gpumc_dimension *dimensions;
    size_t n_dimensions;
    const char *created_at;               /* 2026-01-31T12:00:00+00:00; NULL: left out */
} gpumc_store_options;
/* options may be NULL. */
GPUMC_API gpumc_status gpumc_write_store(const gpumc_fit *fit, const char *path,
                                         const gpumc_store_options *options, gpumc_error *error);

/* The same while sampling, with a mebibyte of memory a chain, however many draws: open a stream with the
   options of the run, in which it sets discard_draws, on_draw and draw_user; sample; close it with the fit. A
   write that fails stops the run, and closing says why. An on_draw of your own passes its arguments on to
   gpumc_stream_draw. Closing with a NULL fit, or one that failed, leaves nothing. What options point to must
   stay until then; those of the run name the stream until another is opened with them.
   With a checkpoint, its name set before, a stream grows as PATH.NUMBER.tmp, the number that of its run. This
   has at least the draws of the last checkpoint, whatever happens: closing with a fit that is resumable, or
   failing later, leaves it. Opened with the same options, it goes on in gpumc_resume. */
typedef struct gpumc_stream gpumc_stream;
GPUMC_API gpumc_stream *gpumc_stream_open(const char *path, const gpumc_model *model,
                                          gpumc_sample_options *sampling, const gpumc_store_options *options,
                                          gpumc_error *error);
GPUMC_API int gpumc_stream_draw(size_t chain, size_t draw, const double *values,
                                const gpumc_draw_stats *stats, void *stream);
GPUMC_API gpumc_status gpumc_stream_close(gpumc_stream *stream, const gpumc_fit *fit, gpumc_error *error);

/* Reads stores, as of separate jobs, back into one fit, with all their chains, for diagnostics, summaries and
   writers: draws and statistics, not data, warm-up, metric and free coordinates. Names, shapes, labels and
   what the stores have of data must agree, so give them their observed_data, and no chain (seed and number)
   may come twice. Chains are cut to the length of the shortest, which fit->message then says. allocator may
   be NULL. */
GPUMC_API gpumc_status gpumc_merge(const char *const *paths, size_t n_paths, const gpumc_allocator *allocator,
                                   gpumc_fit *fit);

/* =================================================================================== >>api-report
   A fit as one HTML page, to be read in any browser, mailed or printed: warnings, summary, and plots of what
   needs a look. No scripts, nothing fetched, less than 2 MB; the same bytes for the same fit. */
typedef struct gpumc_report_options {
    const char *const *names;             /* up to 5 quantities to look at, as theta[3]; NULL: chosen */
    size_t n_names;
    const double *observed;   /* the data that a block of group GPUMC_POSTERIOR_PREDICTIVE predicts; with */
    size_t n_observed;        /* log likelihoods in the same order there is LOO-PIT, too */
    const gpumc_fit *other;               /* to be compared with: what has the same name */
    const char *other_name;
} gpumc_report_options;
/* options may be NULL. */
GPUMC_API gpumc_status gpumc_write_report(const gpumc_fit *fit, const gpumc_report_options *options,
                                          const char *path, gpumc_error *error);

#ifdef __cplusplus
}
#endif
#endif /* GPUMC_H */

/* ####################################################################################################
   Readers of the interface can stop here. What follows is the implementation.
   #################################################################################################### */
#if defined(GPUMC_IMPLEMENTATION) && !defined(GPUMC__IMPLEMENTED)
#define GPUMC__IMPLEMENTED

/* ===================================================================================== >>platform
   What the implementation needs from compiler and system, and nearly every #if of the file. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <direct.h>
#include <fenv.h>
#include <io.h>
#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if !defined(GPUMC_NO_THREADS)
#include <pthread.h>
#include <sched.h>
#endif
#endif

#if defined(__clang__) && !defined(GPUMC_ALLOW_FAST_MATH)                                                    \
    && (defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__))
#error                                                                                                       \
    "gpumc: compile the implementation without -ffast-math (put it in a file of its own); rejection needs NaN"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* All but the sign, read through memory: even if the compiler was told that there is no NaN or infinity. */
static GPUMC__UNUSED GPUMC_TEAM uint64_t gpumc__magnitude_bits(double x)
{
    volatile double kept = x;
    const double value = kept;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffffffffffULL;
}

static GPUMC__UNUSED GPUMC_TEAM int gpumc__is_finite(double x)
{ return gpumc__magnitude_bits(x) < 0x7ff0000000000000ULL; }
static GPUMC__UNUSED int gpumc__is_nan(double x) { return gpumc__magnitude_bits(x) > 0x7ff0000000000000ULL; }

/* A function in two copies, for any x86-64 and for AVX2; the body follows. A call takes the latter where
   IS_LONG says that it pays (wide loads of short vectors stall where narrow code has just written them) and
   the processor has it. GIVE is return, or empty for void. Neither copy has fused products, so that both give
   the same bits: the sampler's draws stand on it. Copies by GPUMC__ISA_COPIES agree to rounding only. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX2__) && !defined(__FMA__)                      \
    && !defined(__CUDACC__)
#define GPUMC__COPIES(give, result, name, parameters, arguments, is_long) \
    static inline __attribute__((always_inline)) GPUMC_LOOP result name##_text parameters; \
    static GPUMC_LOOP result name##_any parameters { give name##_text arguments; } \
    static GPUMC_LOOP __attribute__((target("avx2"))) result name##_avx2 parameters \
    { \
        give name##_text arguments; \
    } \
    static result name parameters \
    { \
        if ((is_long) && __builtin_cpu_supports("avx2")) give name##_avx2 arguments; \
        else give name##_any arguments; \
    } \
    static inline GPUMC_LOOP result name##_text parameters
#else
#define GPUMC__COPIES(give, result, name, parameters, arguments, is_long) \
    static GPUMC_TEAM GPUMC_LOOP result name parameters
#endif

/* Before it, a third copy for AVX-512, for what computes more than it loads; GPUMC__WIDEST calls it where it
   can. Only gcc can be kept from fusing products there. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__AVX2__)                    \
    && !defined(__FMA__) && !defined(__CUDACC__)
#define GPUMC__COPY_512(give, result, name, parameters, arguments) \
    static inline __attribute__((always_inline)) GPUMC_LOOP result name##_text parameters; \
    static __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,prefer-vector-width=512"), \
                          optimize(GPUMC__LOOP_OPTIONS, "fp-contract=off"))) result name##_avx512 parameters \
    { \
        give name##_text arguments; \
    }
#define GPUMC__WIDEST(name, arguments) \
    (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") \
     && __builtin_cpu_supports("avx512bw") ? name##_avx512 arguments : name arguments)
#else
#define GPUMC__COPY_512(give, result, name, parameters, arguments)
#define GPUMC__WIDEST(name, arguments) name arguments
#endif

/* Around code that runs seldom, or once a run: fewer passes of the optimiser, or in clang less inlining, as a
   user waits for the compiler (bench/compile.sh). Loops in it keep their attributes, and with them speed. At
   O0 gcc drops unused functions only if they are declared inline. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && defined(__OPTIMIZE__)
#define GPUMC__SELDOM _Pragma("GCC push_options") \
    _Pragma("GCC optimize(\"O1\", \"no-tree-bit-ccp\", \"no-tree-ch\", \"no-tree-copy-prop\")") \
    _Pragma("GCC optimize(\"no-tree-dominator-opts\", \"no-tree-loop-optimize\", \"no-tree-pta\")") \
    _Pragma("GCC optimize(\"no-tree-dse\", \"no-tree-sink\", \"no-compare-elim\", \"no-cprop-registers\")") \
    _Pragma("GCC optimize(\"no-dse\", \"no-forward-propagate\", \"no-if-conversion\")") \
    _Pragma("GCC optimize(\"no-guess-branch-probability\", \"no-move-loop-invariants\")") \
    _Pragma("GCC optimize(\"no-reorder-blocks\")")
#define GPUMC__ONCE _Pragma("GCC push_options") _Pragma("GCC optimize(\"O0\")")
#define GPUMC__OFTEN _Pragma("GCC pop_options")
#elif defined(__clang__) && !defined(__CUDACC__) && defined(__OPTIMIZE__)
#define GPUMC__SELDOM _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)") \
    _Pragma("clang attribute push(__attribute__((noinline)), apply_to = function)")
#define GPUMC__ONCE GPUMC__SELDOM
#define GPUMC__OFTEN _Pragma("clang attribute pop") _Pragma("clang attribute pop")
#else
#define GPUMC__SELDOM
#define GPUMC__ONCE
#define GPUMC__OFTEN
#endif

/* ---- instruction sets -------------------------------------------------------------------------- */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
static gpumc_isa gpumc__isa_best(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return GPUMC_ISA_BASELINE;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
                   && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
               ? GPUMC_ISA_AVX512
               : GPUMC_ISA_AVX2;
}
#define GPUMC__ISA_NAMES { "SSE2", "AVX2", "AVX-512" }
#elif defined(__aarch64__)
static gpumc_isa gpumc__isa_best(void) { return GPUMC_ISA_BASELINE; }
#define GPUMC__ISA_NAMES { "NEON", "NEON", "NEON" }
#else
static gpumc_isa gpumc__isa_best(void) { return GPUMC_ISA_BASELINE; }
#define GPUMC__ISA_NAMES { "baseline", "baseline", "baseline" }
#endif

GPUMC_API gpumc_isa gpumc_isa_resolve(gpumc_isa wanted)
{
    static const char *const names[GPUMC__N_ISA] = { "baseline", "avx2", "avx512" };
    const gpumc_isa best = gpumc__isa_best();
    const char *forced = wanted == GPUMC_ISA_AUTO ? getenv("GPUMC_ISA") : NULL;
    for (int i = 0; forced && i < GPUMC__N_ISA; i++)
        if (!strcmp(forced, names[i])) wanted = (gpumc_isa)(GPUMC_ISA_BASELINE + i);
    return wanted == GPUMC_ISA_AUTO || wanted > best ? best : wanted;
}

GPUMC_API const char *gpumc_isa_name(gpumc_isa isa)
{
    static const char *const names[GPUMC__N_ISA] = GPUMC__ISA_NAMES;
    return names[gpumc_isa_resolve(isa) - 1];
}

/* ---- files, clock, terminal, threads: POSIX, Win32, or neither --------------------------------- */

/* -std=c99 hides these names of POSIX, not their functions. */
#if !defined(_WIN32) && !defined(__cplusplus) && !defined(CLOCK_MONOTONIC) && defined(__linux__)
struct gpumc__timespec { time_t tv_sec; long tv_nsec; };
extern int clock_gettime(int clock, struct gpumc__timespec *now);
#define GPUMC__CLOCK 1
#elif !defined(_WIN32) && defined(CLOCK_MONOTONIC)
#define gpumc__timespec timespec
#define GPUMC__CLOCK CLOCK_MONOTONIC
#endif
#if !defined(_WIN32) && !defined(__cplusplus)
extern int fsync(int file);
extern int ftruncate(int file, off_t bytes);
#if defined(__STRICT_ANSI__) && !defined(_POSIX_C_SOURCE)
extern int fileno(FILE *stream);
#endif
#endif
#if defined(__linux__) && !defined(__cplusplus)
extern int syncfs(int file);
extern int madvise(void *at, size_t bytes, int advice);
extern int sync_file_range(int file, int64_t offset, int64_t bytes, unsigned flags);
#endif

#if defined(_WIN32)
static int gpumc__sync(FILE *file) { return _commit(_fileno(file)) == 0; }
static int gpumc__rename(const char *from, const char *to)
{ return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0; }
static void gpumc__sync_folder(const char *folder) { (void)folder; }     /* written through above */
static int gpumc__exists(const char *path) { return _access(path, 0) == 0; }
static int gpumc__is_replaceable(const char *path) { (void)path; return 1; }
static int gpumc__make_folder(const char *path) { return _mkdir(path) == 0; }
static void gpumc__remove_folder(const char *path) { (void)_rmdir(path); }
static int gpumc__truncate(FILE *file, size_t bytes) { return _chsize_s(_fileno(file), (int64_t)bytes) == 0; }
#else
static int gpumc__sync(FILE *file) { return fsync(fileno(file)) == 0; }
static int gpumc__rename(const char *from, const char *to) { return rename(from, to) == 0; }
/* Puts renames onto the disk. File systems that cannot do that for folders do it by themselves. */
static void gpumc__sync_folder(const char *folder)
{
    const int file = open(folder, O_RDONLY);
    if (file < 0) return;
    (void)fsync(file);
    close(file);
}
static int gpumc__exists(const char *path) { return access(path, F_OK) == 0; }
/* Whether a file may take a name: not that of a device, a pipe or a folder, which it would replace. */
static int gpumc__is_replaceable(const char *path)
{
    struct stat there;
    return stat(path, &there) != 0 || S_ISREG(there.st_mode);
}
static int gpumc__make_folder(const char *path) { return mkdir(path, 0777) == 0; }
static void gpumc__remove_folder(const char *path) { (void)rmdir(path); }
static int gpumc__truncate(FILE *file, size_t bytes) { return ftruncate(fileno(file), (off_t)bytes) == 0; }
#endif /* _WIN32 */
/* Brings thousands of files to the disk at once, where the system can; fsync of each takes milliseconds. The
   disk had better begin with each as soon as it is there. */
#if defined(__linux__)
#define GPUMC__HAS_SYNC_ALL 1
static void gpumc__sync_begin(FILE *file) { (void)sync_file_range(fileno(file), 0, 0, 2); }
static int gpumc__sync_all(const char *folder)
{
    FILE *file = fopen(folder, "r");
    const int done = file && syncfs(fileno(file)) == 0;
    if (file) fclose(file);
    return done;
}
#else
#define GPUMC__HAS_SYNC_ALL 0
static void gpumc__sync_begin(FILE *file) { (void)file; }
static int gpumc__sync_all(const char *folder) { return folder != NULL; }
#endif

/* Memory that is read over and over, in any order, had better come in pages of 2 MB. Not what is filled once:
   a virtual machine may have to ask its host for large ones, while it has small ones to spare. */
#if defined(__linux__)
#define GPUMC__LARGE_PAGE ((size_t)1 << 21)
static void gpumc__want_large_pages(void *at, size_t bytes) { (void)madvise(at, bytes, 14 /* HUGEPAGE */); }
#else
#define GPUMC__LARGE_PAGE SIZE_MAX
static void gpumc__want_large_pages(void *at, size_t bytes) { (void)at, (void)bytes; }
#endif

static double gpumc__seconds(void)
{
#if defined(_WIN32)
    LARGE_INTEGER now, frequency;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return (double)now.QuadPart / (double)frequency.QuadPart;
#elif defined(GPUMC__CLOCK)
    struct gpumc__timespec now;
    clock_gettime(GPUMC__CLOCK, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#else
    return (double)clock() / CLOCKS_PER_SEC;
#endif
}

static int gpumc__is_terminal(FILE *stream)
{
#if defined(_WIN32)
    return _isatty(_fileno(stream));
#else
    return isatty(fileno(stream));
#endif
}

/* How many processors this process may use, on clusters fewer than there are; 0: unknown. The system refuses
   sets too small for it, so every processor is in them. And a remedy: a woken thread may be put onto its
   waker's processor and stay for milliseconds while another is idle, usual in virtual machines: it leaves. */
#if defined(__linux__) && !defined(GPUMC_NO_THREADS)
#if defined(CPU_SETSIZE)
typedef cpu_set_t gpumc__cpu_set;
#else                                          /* hidden as above */
typedef unsigned long gpumc__cpu_set;
extern int sched_getcpu(void);
extern int sched_getaffinity(pid_t thread, size_t bytes, gpumc__cpu_set *set);
extern int sched_setaffinity(pid_t thread, size_t bytes, const gpumc__cpu_set *set);
#endif
typedef union gpumc__cpus { gpumc__cpu_set set; unsigned long bits[128]; } gpumc__cpus;
#define GPUMC__CPU_WORD (8 * (int)sizeof(unsigned long))

static int gpumc__allowed(gpumc__cpus *cpus)
{
    int n = 0;
    memset(cpus, 0, sizeof *cpus);
    if (sched_getaffinity(0, sizeof *cpus, &cpus->set) < 0) return 0;
    for (size_t i = 0; i < sizeof cpus->bits / sizeof *cpus->bits; i++)
        for (unsigned long word = cpus->bits[i]; word; word &= word - 1) n++;
    return n;
}

static int gpumc__processor(void) { return sched_getcpu(); }
static void gpumc__leave_processor(int cpu)
{
    gpumc__cpus all, others;
    if (cpu < 0 || cpu != gpumc__processor() || gpumc__allowed(&all) < 2) return;
    others = all;
    others.bits[cpu / GPUMC__CPU_WORD] &= ~(1ul << cpu % GPUMC__CPU_WORD);
    if (sched_setaffinity(0, sizeof others, &others.set) == 0)
        (void)sched_setaffinity(0, sizeof all, &all.set);
}
#else
typedef int gpumc__cpus;
static GPUMC__UNUSED int gpumc__allowed(gpumc__cpus *cpus) { return *cpus = 0; }
static int gpumc__processor(void) { return -1; }
static void gpumc__leave_processor(int cpu) { (void)cpu; }
#endif

/* How many processors' time a container may take, rounded up: its quota and period in microseconds stand in a
   file of Linux. 0 where there is no limit. */
static GPUMC__UNUSED long gpumc__quota(const char *path)
{
    FILE *file = fopen(path, "r");
    long quota = 0, period = 0;
    const int found = file && fscanf(file, "%ld %ld", &quota, &period) == 2;
    if (file) fclose(file);
    return found && quota > 0 && period > 0 ? (quota - 1) / period + 1 : 0;
}

static int gpumc__cores(void)
{
#if defined(GPUMC_NO_THREADS)
    return 1;
#elif defined(_WIN32)
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
#else
    gpumc__cpus cpus;
    const long allowed = gpumc__allowed(&cpus), n = allowed ? allowed : sysconf(_SC_NPROCESSORS_ONLN);
    const long quota = gpumc__quota("/sys/fs/cgroup/cpu.max"), least = quota > 0 && quota < n ? quota : n;
    return least > 0 && least < 4096 ? (int)least : 1;
#endif
}

/* A mutex with two conditions, and threads that run one function. start returns 0 on failure. */
#if defined(GPUMC_NO_THREADS)
typedef int gpumc__mutex;
typedef int gpumc__condition;
typedef int gpumc__thread;
#define GPUMC__HAS_THREADS 0
static void gpumc__mutex_init(gpumc__mutex *m) { *m = 0; }
static void gpumc__mutex_free(gpumc__mutex *m) { *m = 0; }
static void gpumc__lock(gpumc__mutex *m) { *m = 1; }
static void gpumc__unlock(gpumc__mutex *m) { *m = 0; }
static void gpumc__condition_init(gpumc__condition *c) { *c = 0; }
static void gpumc__condition_free(gpumc__condition *c) { *c = 0; }
static void gpumc__wait(gpumc__condition *c, gpumc__mutex *m) { *c = *m; }
static void gpumc__give_way(void) {}
static void gpumc__wake(gpumc__condition *c) { *c = 1; }
static int gpumc__thread_start(gpumc__thread *t, void *(*run)(void *), void *user)
{
    *t = 0;
    return run == NULL && user;
}
static void gpumc__thread_join(gpumc__thread t) { (void)t; }
#elif defined(_WIN32)
typedef CRITICAL_SECTION gpumc__mutex;
typedef CONDITION_VARIABLE gpumc__condition;
/* env: rounding as in the thread that starts this one. exp and log of MinGW use the old registers, in which
   the first thread keeps 64 bits and a new one 53: draws would depend on who drew. */
typedef struct gpumc__thread { HANDLE handle; void *(*run)(void *); void *user; fenv_t env; } gpumc__thread;
#define GPUMC__HAS_THREADS 1
static void gpumc__mutex_init(gpumc__mutex *m) { InitializeCriticalSection(m); }
static void gpumc__mutex_free(gpumc__mutex *m) { DeleteCriticalSection(m); }
static void gpumc__lock(gpumc__mutex *m) { EnterCriticalSection(m); }
static void gpumc__unlock(gpumc__mutex *m) { LeaveCriticalSection(m); }
static void gpumc__condition_init(gpumc__condition *c) { InitializeConditionVariable(c); }
static void gpumc__condition_free(gpumc__condition *c) { (void)c; }
static void gpumc__wait(gpumc__condition *c, gpumc__mutex *m) { SleepConditionVariableCS(c, m, INFINITE); }
static void gpumc__wake(gpumc__condition *c) { WakeAllConditionVariable(c); }
static void gpumc__give_way(void) { SwitchToThread(); }
static DWORD WINAPI gpumc__thread_entry(LPVOID thread)
{
    const gpumc__thread *t = (const gpumc__thread *)thread;
    fesetenv(&t->env);
    t->run(t->user);
    return 0;
}
static int gpumc__thread_start(gpumc__thread *t, void *(*run)(void *), void *user)
{
    t->run = run;
    t->user = user;
    fegetenv(&t->env);
    t->handle = CreateThread(NULL, 0, gpumc__thread_entry, t, 0, NULL);
    return t->handle != NULL;
}
static void gpumc__thread_join(gpumc__thread t)
{
    WaitForSingleObject(t.handle, INFINITE);
    CloseHandle(t.handle);
}
#else
typedef pthread_mutex_t gpumc__mutex;
typedef pthread_cond_t gpumc__condition;
typedef pthread_t gpumc__thread;
#define GPUMC__HAS_THREADS 1
static void gpumc__mutex_init(gpumc__mutex *m) { pthread_mutex_init(m, NULL); }
static void gpumc__mutex_free(gpumc__mutex *m) { pthread_mutex_destroy(m); }
static void gpumc__lock(gpumc__mutex *m)
{
    for (int tries = 0; tries < 64; tries++)           /* falling asleep takes longer than what is locked */
        if (pthread_mutex_trylock(m) == 0) return;
    pthread_mutex_lock(m);
}
static void gpumc__unlock(gpumc__mutex *m) { pthread_mutex_unlock(m); }
static void gpumc__condition_init(gpumc__condition *c) { pthread_cond_init(c, NULL); }
static void gpumc__condition_free(gpumc__condition *c) { pthread_cond_destroy(c); }
static void gpumc__wait(gpumc__condition *c, gpumc__mutex *m) { pthread_cond_wait(c, m); }
static void gpumc__wake(gpumc__condition *c) { pthread_cond_broadcast(c); }
static void gpumc__give_way(void) { sched_yield(); }
static int gpumc__thread_start(gpumc__thread *t, void *(*run)(void *), void *user)
{ return pthread_create(t, NULL, run, user) == 0; }
static void gpumc__thread_join(gpumc__thread t) { pthread_join(t, NULL); }
#endif

/* Flags that threads share. take returns 1 to the one thread that may have it; give publishes its writes. */
#if defined(__GNUC__) || defined(__clang__)
static int gpumc__load_flag(const volatile int *f) { return __atomic_load_n(f, __ATOMIC_RELAXED); }
static void gpumc__store_flag(volatile int *f, int value) { __atomic_store_n(f, value, __ATOMIC_RELAXED); }
static GPUMC__UNUSED int gpumc__take_flag(volatile int *f)
{ return !__atomic_exchange_n(f, 1, __ATOMIC_ACQUIRE); }
static GPUMC__UNUSED void gpumc__give_flag(volatile int *f) { __atomic_store_n(f, 0, __ATOMIC_RELEASE); }
#else
static int gpumc__load_flag(const volatile int *f) { return *f; }
static void gpumc__store_flag(volatile int *f, int value) { *f = value; }
#if defined(_WIN32)
static int gpumc__take_flag(volatile int *f) { return !InterlockedExchange((volatile LONG *)f, 1); }
#else
static int gpumc__take_flag(volatile int *f) { return *f ? 0 : (*f = 1); }
#endif
static void gpumc__give_flag(volatile int *f) { *f = 0; }
#endif

/* ======================================================================================== >>error
   Texts of statuses from the list above; failures that return their status. */
GPUMC_API const char *gpumc_status_text(gpumc_status status)
{
    switch (status) {
#define GPUMC__TEXT(name, value, text) case name: return text;
    GPUMC_STATUS_LIST(GPUMC__TEXT)
#undef GPUMC__TEXT
    case GPUMC__STATUS_END: break;
    }
    return "unknown status";
}

/* Records a failure and returns its status, so that callers can write: return gpumc__fail(...). */
static GPUMC__PRINTF(3, 4) gpumc_status
    gpumc__fail(gpumc_error *error, gpumc_status status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        error->status = status;
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

static GPUMC__UNUSED gpumc_status gpumc__fail_memory(gpumc_error *error, size_t bytes)
{ return gpumc__fail(error, GPUMC_ERROR_MEMORY, "out of memory: %.0f bytes were refused", (double)bytes); }

/* ======================================================================================= >>memory
   Sizes are added and multiplied with saturation: a sum that overflowed is SIZE_MAX, which no allocation
   grants. */
static GPUMC__UNUSED size_t gpumc__size_add(size_t a, size_t b)
{ return a > SIZE_MAX - b ? SIZE_MAX : a + b; }
static GPUMC__UNUSED size_t gpumc__size_mul(size_t a, size_t b)
{ return b && a > SIZE_MAX / b ? SIZE_MAX : a * b; }

static GPUMC__UNUSED size_t gpumc__larger(size_t a, size_t b) { return a < b ? b : a; }
static GPUMC__UNUSED size_t gpumc__smaller(size_t a, size_t b) { return a < b ? a : b; }

static GPUMC__UNUSED void *gpumc__allocate(const gpumc_allocator *allocator, size_t bytes)
{
    if (bytes == SIZE_MAX) return NULL;
    if (bytes == 0) bytes = 1;
    if (allocator && allocator->allocate) return allocator->allocate(bytes, allocator->user);
    return malloc(bytes);
}

static GPUMC__UNUSED void gpumc__release(const gpumc_allocator *allocator, void *block)
{
    if (!block) return;
    if (allocator && allocator->release) allocator->release(block, allocator->user);
    else free(block);
}

/* The first cache line that begins at p or behind it. */
static GPUMC__UNUSED void *gpumc__aligned(void *p)
{ return p ? (char *)p + (64 - (uintptr_t)p % 64) % 64 : NULL; }

/* What to allocate for bytes that begin at a cache line, or fill large pages where they are many. */
static GPUMC__UNUSED size_t gpumc__room(size_t bytes)
{
    const size_t page = GPUMC__LARGE_PAGE;
    if (bytes < page / 2 || bytes > SIZE_MAX - 2 * page) return gpumc__size_add(bytes, 64);
    return (bytes + page - 1) / page * page + page;
}

/* Where in such room they begin. */
static GPUMC__UNUSED char *gpumc__settle(void *room, size_t bytes)
{
    const size_t page = GPUMC__LARGE_PAGE, all = gpumc__room(bytes);
    char *at;
    if (!room || all < 2 * page) return (char *)gpumc__aligned(room);
    at = (char *)room + (page - (uintptr_t)room % page) % page;
    gpumc__want_large_pages(at, all - page);
    return at;
}

/* Hands out parts of one block, 64-byte aligned from an aligned base; with base NULL it only counts. */
typedef struct gpumc__arena { char *base; size_t used; } gpumc__arena;

static GPUMC__UNUSED void *gpumc__take(gpumc__arena *arena, size_t count, size_t each)
{
    const size_t at = arena->used, bytes = gpumc__size_mul(count, each);
    const size_t rounded = bytes > SIZE_MAX - 63 ? SIZE_MAX : (bytes + 63) / 64 * 64;
    arena->used = gpumc__size_add(at, rounded);
    return arena->base && arena->used != SIZE_MAX ? arena->base + at : NULL;
}

static GPUMC__UNUSED double *gpumc__take_doubles(gpumc__arena *arena, size_t count)
{ return (double *)gpumc__take(arena, count, sizeof(double)); }

/* ---- teams of threads -------------------------------------------------------------------------- */

typedef struct gpumc__member { gpumc_team *team; gpumc__thread thread; int rank; } gpumc__member;

struct gpumc_team {
    gpumc_allocator allocator;
    gpumc__mutex mutex;
    gpumc__condition work, done;
    int n_threads, n_busy, open, stop;    /* busy: members in the round; open: until its parts are taken */
    int first_home, home;                 /* the processors of the threads that started and that called */
    volatile int round, idle, n_here;     /* idle: no member is busy; n_here: members that have begun */
    size_t next, n_parts;
    void (*run)(size_t part, int member, void *user);
    void *user;
    gpumc__member *members;
};

/* A sleeping thread takes tens of microseconds to wake: rounds that follow each other closely find the others
   still looking, who give way to whoever else wants their processors. */
static void gpumc__team_look(const volatile int *flag, int old)
{
    const double end = gpumc__seconds() + 3e-4;
    while (gpumc__load_flag(flag) == old && gpumc__seconds() < end) gpumc__give_way();
}

/* Takes parts until none is left, several at once while there are many. */
static void gpumc__team_share(gpumc_team *t, int member)
{
    for (;;) {
        size_t from, n;
        gpumc__lock(&t->mutex);
        from = t->next;
        n = (t->n_parts - from) / (4 * (size_t)t->n_threads);
        n = n ? n : from < t->n_parts;
        t->next += n;
        gpumc__unlock(&t->mutex);
        if (n == 0) return;
        for (size_t i = from; i < from + n; i++) t->run(i, member, t->user);
    }
}

/* Who comes when the parts are gone has no part in the round: nobody waits for it. */
static void *gpumc__team_member(void *user)
{
    gpumc__member *m = (gpumc__member *)user;
    gpumc_team *t = m->team;
    int seen = 0;
    gpumc__leave_processor(t->first_home);
    gpumc__lock(&t->mutex);
    gpumc__store_flag(&t->n_here, t->n_here + 1);
    gpumc__unlock(&t->mutex);
    for (;;) {
        int stop, joins, home;
        gpumc__team_look(&t->round, seen);
        gpumc__lock(&t->mutex);
        while (t->round == seen && !t->stop) gpumc__wait(&t->work, &t->mutex);
        seen = t->round;
        stop = t->stop;
        joins = t->open;
        home = t->home;
        t->n_busy += joins;
        gpumc__store_flag(&t->idle, t->n_busy == 0);
        gpumc__unlock(&t->mutex);
        if (stop) return NULL;
        if (!joins) continue;
        gpumc__leave_processor(home);
        gpumc__team_share(t, m->rank);
        gpumc__lock(&t->mutex);
        if (--t->n_busy == 0) {
            gpumc__store_flag(&t->idle, 1);
            gpumc__wake(&t->done);
        }
        gpumc__unlock(&t->mutex);
    }
}

/* Gives way for a millisecond at most to members that have not begun: they may stand on this processor. */
static void gpumc__team_gather(const gpumc_team *t)
{
    const double end = gpumc__seconds() + 1e-3;
    while (gpumc__load_flag(&t->n_here) < t->n_threads - 1 && gpumc__seconds() < end) gpumc__give_way();
}

GPUMC_API gpumc_team *gpumc_team_start(int num_threads, const gpumc_allocator *allocator)
{
    const int wanted = !GPUMC__HAS_THREADS ? 1 : num_threads > 0 ? num_threads : gpumc__cores();
    gpumc__arena arena = { NULL, 0 };
    gpumc_team *t;
    gpumc__take(&arena, 1, sizeof *t);
    gpumc__take(&arena, (size_t)wanted, sizeof *t->members);
    arena.base = (char *)gpumc__allocate(allocator, arena.used);
    arena.used = 0;
    if (!arena.base) return NULL;
    t = (gpumc_team *)gpumc__take(&arena, 1, sizeof *t);
    memset(t, 0, sizeof *t);
    t->members = (gpumc__member *)gpumc__take(&arena, (size_t)wanted, sizeof *t->members);
    if (allocator) t->allocator = *allocator;
    gpumc__mutex_init(&t->mutex);
    gpumc__condition_init(&t->work);
    gpumc__condition_init(&t->done);
    t->first_home = gpumc__processor();
    for (t->n_threads = 1; t->n_threads < wanted; t->n_threads++) {
        gpumc__member *m = &t->members[t->n_threads];
        m->team = t;
        m->rank = t->n_threads;
        if (!gpumc__thread_start(&m->thread, gpumc__team_member, m)) break;
    }
    gpumc__team_gather(t);
    return t;
}

GPUMC_API int gpumc_team_threads(const gpumc_team *team) { return team->n_threads; }

GPUMC_API void gpumc_team_run(gpumc_team *team, void (*run)(size_t part, int member, void *user),
                              size_t n_parts, void *user)
{
    gpumc__lock(&team->mutex);
    team->run = run;
    team->user = user;
    team->n_parts = n_parts;
    team->next = 0;
    team->open = 1;
    team->home = gpumc__processor();
    gpumc__store_flag(&team->round, (team->round + 1) & 0xffff);
    gpumc__wake(&team->work);
    gpumc__unlock(&team->mutex);
    gpumc__team_share(team, 0);
    gpumc__lock(&team->mutex);
    team->open = 0;
    gpumc__store_flag(&team->idle, team->n_busy == 0);
    gpumc__unlock(&team->mutex);
    gpumc__team_look(&team->idle, 0);
    gpumc__lock(&team->mutex);
    while (team->n_busy > 0) gpumc__wait(&team->done, &team->mutex);
    gpumc__unlock(&team->mutex);
}

GPUMC_API void gpumc_team_stop(gpumc_team *team)
{
    if (!team) return;
    gpumc__lock(&team->mutex);
    team->stop = 1;
    gpumc__wake(&team->work);
    gpumc__unlock(&team->mutex);
    for (int i = 1; i < team->n_threads; i++) gpumc__thread_join(team->members[i].thread);
    gpumc__mutex_free(&team->mutex);
    gpumc__condition_free(&team->work);
    gpumc__condition_free(&team->done);
    const gpumc_allocator allocator = team->allocator;
    gpumc__release(&allocator, team);
}

/* ========================================================================================= >>math
   Incomplete gamma and beta functions by one method each side of shape 1.

   The gamma law of log t, and the beta law of logit t, has a smooth log density that is concave. So a tail
   that starts at x, beyond the mean, is the density there times int_0^inf exp(h(v)) dv, where h is concave
   and falls from h(0) = 0, whatever the shapes. It is cut off where h = -40: by concavity that leaves out
   less than e^-40 of the whole. Two Gauss-Legendre panels give the rest to 1e-14, and derivatives by the
   shapes are means of a positive weight over the same nodes. Where a shape below 1 makes such a tail nearly
   everything, there is a power series instead. The other tail is 1 less this one.

   Read first: gpumc__gamma_tail and gpumc__beta_tail, which choose; gpumc__beta_point, the integrand. */

/* Leaves are inlined wherever they stand, which is right in loops over rows and wasteful elsewhere: code that
   is no such loop calls these twins, and the header compiles a quarter faster. */
#define GPUMC__CALL(name) static GPUMC__NOINLINE double gpumc__##name(double x) { return gpumc_##name(x); }
GPUMC__CALL(exp) GPUMC__CALL(expm1) GPUMC__CALL(log) GPUMC__CALL(log1p) GPUMC__CALL(sqrt)
GPUMC__CALL(lgamma) GPUMC__CALL(digamma) GPUMC__CALL(inv_Phi) GPUMC__CALL(inv_logit) GPUMC__CALL(log1p_exp)
static GPUMC__NOINLINE double gpumc__lbeta(double a, double b) { return gpumc_lbeta(a, b); }
/* One tail of a law on the log scale, with its derivatives: by the shapes a and b; by log x (gamma) or logit
   x (beta); and by a at fixed a (1 - x) / x, by b at fixed b x / (1 - x). These last are for Student's t and
   the negative binomial law: for large a they are of order 1 / a^2, differences of two of order 1 / a. */
typedef struct gpumc__tail { double side, value, by_a, by_b, by_log, by_a_fixed, by_b_fixed; } gpumc__tail;

/* A tail of probability 0 or 1, from its logarithm; NaN makes all of it NaN. */
static gpumc__tail gpumc__certain_tail(double side, double value)
{
    const double by = value != value ? value : 0;
    const gpumc__tail tail = { side, value, by, by, by, by, by };
    return tail;
}
/* The same law seen from the wanted side. */
static gpumc__tail gpumc__tail_at(double side, gpumc__tail tail)
{
    const double factor = tail.value < 0 ? -1 / expm1(-tail.value) : 0;
    const gpumc__tail other = { side, gpumc__log1m_exp(-tail.value), factor * tail.by_a, factor * tail.by_b,
                                factor * tail.by_log, factor * tail.by_a_fixed, factor * tail.by_b_fixed };
    return tail.side == side || tail.value != tail.value ? tail : other;
}
/* The law of 1 - X for a beta law of X. */
static gpumc__tail gpumc__mirrored(gpumc__tail tail)
{
    const gpumc__tail mirror = { -tail.side, tail.value, tail.by_b, tail.by_a, -tail.by_log,
                                 tail.by_b_fixed, tail.by_a_fixed };
    return mirror;
}

/* log Gamma(z + d) - log Gamma(z), accurate relative to d: Stirling's series from z = 8 on, the difference of
   its powers by Horner's rule for divided differences. */
static double gpumc__lgamma_rise(double z, double d)
{
    static const double series[] = { 1 / 156.0, -691 / 360360.0, 1 / 1188.0, -1 / 1680.0,
                                     1 / 1260.0, -1 / 360.0, 1 / 12.0 };
    double steps = 0, p, q, value = 0, difference = 0;
    for (; z < 8; z++) steps += gpumc__log1p(d / z);
    p = 1 / z;
    q = 1 / (z + d);
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        difference = difference * q * q + value;
        value = value * p * p + series[i];
    }
    difference = value + q * (p + q) * difference;         /* of w (1/12 - w^2/360 + ...) between p and q */
    return (z - 0.5) * gpumc__log1p(d / z) - d + d * gpumc__log(z + d) - d * p * q * difference - steps;
}
/* (exp(x) - 1 - x) / x^2 for |x| <= 1/2: 1 / n! from n = 2 on */
GPUMC__POLY(expm1_less, 13, 1 / 2.0, 1 / 6.0, 1 / 24.0, 1 / 120.0, 1 / 720.0, 1 / 5040.0, 1 / 40320.0,
    1 / 362880.0, 1 / 3628800.0, 1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0, 1 / 87178291200.0)

/* exp(t) - 1 - t */
static double gpumc__expm1_less(double t)
{ return fabs(t) > 0.5 ? gpumc__expm1(t) - t : t * t * gpumc__poly_expm1_less(t); }

/* ---- by quadrature -------------------------------------------------------------------------- */
typedef struct gpumc__law {
    double a, b, x, y;       /* beta: the lower tail of x, y = 1 - x, a y >= b x */
    double sign;             /* gamma: -1 for the lower, 1 for the upper tail; b and y unused */
    double slope;            /* -h'(0) */
} gpumc__law;

typedef struct gpumc__point {
    double exponent, fall;   /* h(v) and -h'(v) */
    double weight[4];        /* of the derivatives by a and b, free and fixed */
} gpumc__point;

/* h(v) = -slope v - x (exp(t) - 1 - t) with t = +-v */
static gpumc__point gpumc__gamma_point(const gpumc__law *law, double v)
{
    const double t = law->sign * v, fall = law->slope + law->x * fabs(gpumc__expm1(t));
    const gpumc__point point = { -law->slope * v - law->x * gpumc__expm1_less(t), fall, { t, 0, 0, 0 } };
    return point;
}

/* h(v) = -slope v - (a + b) K(v), K(v) = log(x + y e^v) - y v = log(y + x e^-v) + x v, by the form that has
   the smaller of x and y in front. In the fixed weights the derivative by x is integrated by parts. */
static gpumc__point gpumc__beta_point(const gpumc__law *law, double v)
{
    const double a = law->a, b = law->b, x = law->x, y = law->y, slope = law->slope, e = gpumc__expm1(v);
    const double up = y * e, down = x * gpumc__expm1(-v);
    const double up_share = up / (1 + up), down_share = -x * e / (1 + up);            /* down / (1 + down) */
    const double log_up = gpumc__log1p(up), log_down = gpumc__log1p(down);
    const double near_0 = y < x ? y * gpumc__expm1_less(v) + gpumc__log_less(up, log_up)
                                : x * gpumc__expm1_less(-v) + gpumc__log_less(down, log_down);
    const double bend = v < 0.5 ? near_0 : y < x ? log_up - y * v : log_down + x * v;
    const gpumc__point point = {
        -slope * v - (a + b) * bend, slope - (a + b) * y * down_share,
        { -log_up, -log_down, gpumc__share_less_log(up, up_share, log_up) - slope / a * up_share,
          gpumc__share_less_log(down, down_share, log_down) + slope / b * down_share }
    };
    return point;
}

static gpumc__point gpumc__law_point(const gpumc__law *law, double v)
{ return law->sign < 0 || law->sign > 0 ? gpumc__gamma_point(law, v) : gpumc__beta_point(law, v); }
/* Where h has fallen to about -40, by Newton's method: as h is concave, all steps but the first come from
   beyond. */
static double gpumc__reach(const gpumc__law *law)
{
    const double sharp = law->sign < 0 || law->sign > 0 ? law->x : (law->a + law->b) * law->x * law->y;
    double v = 1 / (law->slope + sqrt(sharp));
    for (int step = 0; step < 100; step++) {
        const gpumc__point point = gpumc__law_point(law, v);
        if (point.exponent <= -40 && point.exponent > -44) break;
        v += (point.exponent + 40) / point.fall;
    }
    return v;
}

/* The integral of exp(h); mean[k] becomes that of weight k over it. Ten pairs of nodes a panel; the
   panels [0, 1/4] and [1/4, 1] of the reach suit a straight h, a parabola, and one that is flat first. */
static double gpumc__integrate(const gpumc__law *law, double mean[4])
{
    static const double nodes[10][2] = {                             /* distance from 1/2 in (0, 1), weight */
        { 0.03826326056674867, 0.07637669356536292 }, { 0.11389292557082253, 0.07458649323630187 },
        { 0.18685304435770977, 0.07104805465919102 }, { 0.25543350097541356, 0.06584431922458832 },
        { 0.3180268403632575, 0.059097265980759206 }, { 0.3731659532300754, 0.05096505990862022 },
        { 0.4195584859111094, 0.04163837078835238 }, { 0.456117214125663, 0.031336024167054534 },
        { 0.4819859636389569, 0.02030071490019347 }, { 0.49656429959254744, 0.008807003569576059 }
    };
    const double reach = gpumc__reach(law);
    double sum = 0;
    for (int k = 0; k < 4; k++) mean[k] = 0;
    for (int i = 0; i < 40; i++) {
        const double *node = nodes[i / 4], offset = i & 1 ? -node[0] : node[0];
        const double start = i & 2 ? 0.25 : 0, width = i & 2 ? 0.75 : 0.25;
        const gpumc__point point = gpumc__law_point(law, reach * (start + width * (0.5 + offset)));
        const double mass = width * node[1] * gpumc__exp(point.exponent);
        sum += mass;
        for (int k = 0; k < 4; k++) mean[k] += mass * point.weight[k];
    }
    for (int k = 0; k < 4; k++) mean[k] /= sum;
    return sum * reach;
}
/* Lower tail for x < a, where a >= 1, upper tail from there on. */
static gpumc__tail gpumc__gamma_by_quadrature(double a, double x, double log_x)
{
    const gpumc__law law = { a, 0, x, 0, x < a ? -1.0 : 1.0, fabs(x - a) };
    gpumc__ratio ratio;
    double mean[4];
    const double integral = gpumc__integrate(&law, mean);
    const double value = gpumc__gamma_kernel(a, x, log_x, &ratio) + gpumc__log(a * integral);
    const gpumc__tail tail = { -law.sign, value, ratio.log + gpumc__log_less_digamma(a) + mean[0], 0,
                               -law.sign / integral, 0, 0 };
    return tail;
}
/* Lower tail for a y >= b x, where a >= 1. */
static gpumc__tail gpumc__beta_by_quadrature(double a, double b, double x, double y,
                                             double log_x, double log_y)
{
    const gpumc__law law = { a, b, x, y, 0, a * y - b * x };
    gpumc__tail tail = gpumc__certain_tail(GPUMC__LOWER, 0);
    gpumc__ratio of_a, of_b;
    const double rise_a = gpumc__digamma_rise(a, b), rise_b = gpumc__digamma_rise(b, a);
    double mean[4];
    const double integral = gpumc__integrate(&law, mean);
    tail.value = gpumc__binomial_kernel(a, b, -law.slope, log_x, log_y, &of_a, &of_b)
        + gpumc__log(a * integral) + gpumc__log(b / (a + b));
    tail.by_a = of_a.log + rise_a + mean[0];
    tail.by_b = of_b.log + rise_b + mean[1];
    tail.by_log = 1 / integral;
    tail.by_a_fixed = of_a.less + rise_a + mean[2];
    tail.by_b_fixed = of_b.less + rise_b + mean[3];
    return tail;
}

/* ---- by series ------------------------------------------------------------------------------
   sum_n c_n / (a + n) from n = 1 on, c_n = (1-b)(2-b)..(n-b) u^n / n!: the lower tail of the beta law is
   u^a / (a B(a, b)) (1 + a sum) (DLMF 8.17.7). For the gamma law b u stands for x, and u is 0 (DLMF 8.7.1).
   With a < 1, u <= 1/2 and b u <= 1 sixty terms suffice, and sums lose at most a digit. */
typedef struct gpumc__series { double sum, by_a, by_b, by_b_fixed; } gpumc__series;

static gpumc__series gpumc__tail_series(double a, double u, double bu, double v_by_b)
{
    gpumc__series s = { 0, 0, 0, 0 };
    double term = 1, by_b = 0, by_b_fixed = 0;
    for (int i = 1; i <= 60; i++) {
        const double n = i, factor = (n * u - bu) / n, share = 1 / (a + n);
        by_b = by_b * factor - term * u / n;
        by_b_fixed = by_b_fixed * factor - term * u * (u / n + v_by_b);
        term *= factor;
        s.sum += term * share;
        s.by_a -= term * share * share;
        s.by_b += by_b * share;
        s.by_b_fixed += by_b_fixed * share;
    }
    return s;
}
/* Lower tail for a < 1 and x < 1. */
static gpumc__tail gpumc__gamma_by_series(double a, double x, double log_x)
{
    const gpumc__series s = gpumc__tail_series(a, 0, x, 0);
    const double whole = 1 + a * s.sum, by_a = log_x - gpumc__digamma(1 + a) + (s.sum + a * s.by_a) / whole;
    const double value = a * log_x - gpumc__lgamma_rise(1, a) + gpumc__log1p(a * s.sum);
    const gpumc__tail tail = { GPUMC__LOWER, value, by_a, 0, a * gpumc__exp(-x) / whole, 0, 0 };
    return tail;
}
/* Lower tail for a < 1, x <= 1/2 and b x <= 1. */
static gpumc__tail gpumc__beta_by_series(double a, double b, double x, double y, double log_x)
{
    gpumc__tail tail = gpumc__certain_tail(GPUMC__LOWER, 0);
    const gpumc__series s = gpumc__tail_series(a, x, b * x, y / b);
    const double whole = 1 + a * s.sum, rise = gpumc__digamma_rise(b, a);
    tail.value = a * log_x + gpumc__lgamma_rise(b, a) - gpumc__lgamma_rise(1, a) + gpumc__log1p(a * s.sum);
    tail.by_a = log_x + gpumc__digamma(b + a) - gpumc__digamma(1 + a) + (s.sum + a * s.by_a) / whole;
    tail.by_b = rise + gpumc__log1p(a / b) + a * s.by_b / whole;
    tail.by_log = a * gpumc__exp(b * gpumc__log1p(-x)) / whole;
    tail.by_a_fixed = tail.by_a + tail.by_log / a;
    tail.by_b_fixed = rise + gpumc__log1p_less(a / b) + a * (x / b + s.by_b_fixed / whole);
    return tail;
}

/* ---- which ---------------------------------------------------------------------------------- */
/* log x comes apart from x, which may have underflowed. */
static gpumc__tail gpumc__gamma_tail(double a, double x, double log_x)
{
    if (!(a > 0) || log_x != log_x) return gpumc__certain_tail(GPUMC__LOWER, GPUMC_NAN);
    if (log_x == -GPUMC_INF) return gpumc__certain_tail(GPUMC__LOWER, -GPUMC_INF);
    if (x == GPUMC_INF) return gpumc__certain_tail(GPUMC__UPPER, -GPUMC_INF);
    return a < 1 && x < 1 ? gpumc__gamma_by_series(a, x, log_x) : gpumc__gamma_by_quadrature(a, x, log_x);
}
/* x + y = 1, each with its logarithm. Beyond the series' ranges the tail from the mean outwards belongs to a
   shape of at least 1. */
static gpumc__tail gpumc__beta_tail(double a, double b, double x, double y, double log_x, double log_y)
{
    if (!(a > 0 && b > 0) || log_x != log_x) return gpumc__certain_tail(GPUMC__LOWER, GPUMC_NAN);
    if (log_x == -GPUMC_INF) return gpumc__certain_tail(GPUMC__LOWER, -GPUMC_INF);
    if (log_y == -GPUMC_INF) return gpumc__certain_tail(GPUMC__UPPER, -GPUMC_INF);
    if (a < 1 && x <= 0.5 && b * x <= 1) return gpumc__beta_by_series(a, b, x, y, log_x);
    if (b < 1 && y <= 0.5 && a * y <= 1) return gpumc__mirrored(gpumc__beta_by_series(b, a, y, x, log_y));
    if (a * y >= b * x) return gpumc__beta_by_quadrature(a, b, x, y, log_x, log_y);
    return gpumc__mirrored(gpumc__beta_by_quadrature(b, a, y, x, log_y, log_x));
}
/* The same from x alone, on the wanted side. */
static gpumc__tail gpumc__gamma_tail_of(double a, double x, double side)
{ return gpumc__tail_at(side, gpumc__gamma_tail(a, x, x <= 0 ? -GPUMC_INF : gpumc__log(x))); }
static gpumc__tail gpumc__beta_tail_of(double a, double b, double x, double side)
{
    const double log_x = x <= 0 ? -GPUMC_INF : gpumc__log(x);
    const double log_y = x >= 1 ? -GPUMC_INF : x < 0.5 ? gpumc__log1p(-x) : gpumc__log(1 - x);
    return gpumc__tail_at(side, gpumc__beta_tail(a, b, x, 1 - x, log_x, log_y));
}

/* ---- what the user calls --------------------------------------------------------------------- */
static double gpumc__share(const gpumc__tail *tail, int is_log, double width,
                           double *da, double *db, double *dx)
{
    const double share = gpumc__exp(tail->value), factor = is_log ? 1 : share;
    gpumc__add_3(da, factor * tail->by_a, db, factor * tail->by_b, dx,
                 width > 0 ? factor * tail->by_log / width : 0);
    return is_log ? tail->value : share;
}
static double gpumc__gamma_share(double side, int is_log, double a, double x, double *da, double *dx)
{
    const gpumc__tail tail = gpumc__gamma_tail_of(a, x, side);
    return gpumc__share(&tail, is_log, x, da, NULL, dx);
}
static double gpumc__beta_share(double side, int is_log, double a, double b, double x,
                                double *da, double *db, double *dx)
{
    const gpumc__tail tail = gpumc__beta_tail_of(a, b, x, side);
    return gpumc__share(&tail, is_log, x * (1 - x), da, db, dx);
}
#define GPUMC__GAMMA_SHARE(name, side, is_log) \
    GPUMC_API double gpumc_##name(double a, double x, double *da, double *dx) \
    { return gpumc__gamma_share(side, is_log, a, x, da, dx); }
#define GPUMC__BETA_SHARE(name, side, is_log) \
    GPUMC_API double gpumc_##name(double a, double b, double x, double *da, double *db, double *dx) \
    { return gpumc__beta_share(side, is_log, a, b, x, da, db, dx); }
GPUMC__GAMMA_SHARE(gamma_p, GPUMC__LOWER, 0) GPUMC__GAMMA_SHARE(log_gamma_p, GPUMC__LOWER, 1)
GPUMC__GAMMA_SHARE(gamma_q, GPUMC__UPPER, 0) GPUMC__GAMMA_SHARE(log_gamma_q, GPUMC__UPPER, 1)
GPUMC__BETA_SHARE(beta_p, GPUMC__LOWER, 0) GPUMC__BETA_SHARE(log_beta_p, GPUMC__LOWER, 1)
GPUMC__BETA_SHARE(beta_q, GPUMC__UPPER, 0) GPUMC__BETA_SHARE(log_beta_q, GPUMC__UPPER, 1)

/* ---- inverses -------------------------------------------------------------------------------
   Log tails are concave in log x and logit x, so that Newton's method started beyond the root, where the tail
   is too small, comes back without ever stepping over it. A last step in x itself restores digits that the
   logarithm of a large or tiny x has lost. */

/* x with log tail = target <= log(1/2). P(a, x) <= x^a / Gamma(a + 1) starts the lower one; for the upper one
   Q <= exp(-tau) at a + sqrt(2 a tau) + tau (Laurent & Massart 2000, lemma 1), at tau if a < 1. */
static double gpumc__gamma_solve(double a, double target, double side)
{
    const double tau = -target, most = a < 1 ? tau : a + sqrt(2 * a * tau) + tau;
    double s = side > 0 ? (target + gpumc__lgamma_rise(1, a)) / a : gpumc__log(most), x, miss = 1;
    gpumc__tail tail;
    for (int step = 0; step < 200 && fabs(miss) > 1e-9 && s > -750; step++) {
        tail = gpumc__tail_at(side, gpumc__gamma_tail(a, gpumc__exp(s), s));
        miss = target - tail.value;
        s += miss / tail.by_log;
    }
    x = gpumc__exp(s);
    if (x < DBL_MIN) return x;
    tail = gpumc__gamma_tail_of(a, x, side);
    return x + x * (target - tail.value) / tail.by_log;
}

typedef struct gpumc__pair { double x, y, logit; } gpumc__pair;  /* x + y = 1 */

static gpumc__tail gpumc__beta_tail_at_logit(double a, double b, double s)
{
    const double log_x = -gpumc__log1p_exp(-s), log_y = -gpumc__log1p_exp(s);
    const gpumc__tail tail = gpumc__beta_tail(a, b, gpumc__inv_logit(s), gpumc__inv_logit(-s), log_x, log_y);
    return gpumc__tail_at(GPUMC__LOWER, tail);
}

/* x with log lower tail = target <= log(1/2). P <= odds^a / (a B(a, b)) starts it. */
static gpumc__pair gpumc__beta_solve(double a, double b, double target)
{
    double s = (target + gpumc__lbeta(a, b) + gpumc__log(a)) / a, miss = 1, change;
    gpumc__pair root = { 0, 1, 0 };
    gpumc__tail tail;
    for (int step = 0; step < 200 && fabs(miss) > 1e-9 && s > -750; step++) {
        tail = gpumc__beta_tail_at_logit(a, b, s);
        miss = target - tail.value;
        s += miss / tail.by_log;
    }
    root.x = gpumc__inv_logit(s), root.y = gpumc__inv_logit(-s), root.logit = s;
    if (root.x < DBL_MIN || root.y < DBL_MIN) return root;
    tail = gpumc__beta_tail(a, b, root.x, root.y, gpumc__log(root.x), gpumc__log(root.y));
    tail = gpumc__tail_at(GPUMC__LOWER, tail);
    change = root.x * root.y * (target - tail.value) / tail.by_log;
    root.x += change, root.y -= change, root.logit += (target - tail.value) / tail.by_log;
    return root;
}

/* The quantile from p and q = 1 - p, of which the smaller one is accurate. */
static double gpumc__gamma_root(double a, double p, double q)
{
    if (!(a > 0 && p >= 0 && q >= 0)) return GPUMC_NAN;
    if (p == 0 || q == 0) return p == 0 ? 0 : GPUMC_INF;
    return gpumc__gamma_solve(a, gpumc__log(p < q ? p : q), p < q ? GPUMC__LOWER : GPUMC__UPPER);
}
static gpumc__pair gpumc__beta_root(double a, double b, double p, double q)
{
    gpumc__pair root = { GPUMC_NAN, GPUMC_NAN, GPUMC_NAN };
    gpumc__pair mirror = { q == 0 ? 0.0 : 1.0, q == 0 ? 1.0 : 0.0, q == 0 ? -GPUMC_INF : GPUMC_INF };
    if (!(a > 0 && b > 0 && p >= 0 && q >= 0)) return root;
    if (0 < p && p < q) return gpumc__beta_solve(a, b, gpumc__log(p));
    if (0 < q && q <= p) mirror = gpumc__beta_solve(b, a, gpumc__log(q));
    root.x = mirror.y;
    root.y = mirror.x;
    root.logit = -mirror.logit;
    return root;
}
GPUMC_API double gpumc_gamma_p_inverse(double a, double p) { return gpumc__gamma_root(a, p, 1 - p); }
GPUMC_API double gpumc_gamma_q_inverse(double a, double q) { return gpumc__gamma_root(a, 1 - q, q); }
GPUMC_API double gpumc_beta_p_inverse(double a, double b, double p)
{ return gpumc__beta_root(a, b, p, 1 - p).x; }
GPUMC_API double gpumc_beta_q_inverse(double a, double b, double q)
{ return gpumc__beta_root(a, b, 1 - q, q).x; }

/* ---- dense linear algebra, n x n, row-major ----------------------------------------------------- */
/* A team of threads can share a chain: loops over coordinates are dealt out, sums go through a reduction,
   scalars are computed alike by every member. On the CPU a team has one member and nothing remains of it. */
#ifndef GPUMC_TEAM_SIZE
#define GPUMC_TEAM_SIZE 1
#define GPUMC_TEAM_RANK 0
#define GPUMC_TEAM_SUM(x) (x)
#define GPUMC_TEAM_SYNC() ((void)0)
#endif
#define GPUMC_EACH(i, n) for (size_t i = GPUMC_TEAM_RANK; i < (n); i += GPUMC_TEAM_SIZE)
/* Sums run over lanes, so that they are vector code without reassociation. One sum a loop: gcc keeps the
   lanes of two in memory and is five times slower. */
#define GPUMC__LANES 8
GPUMC_FN double gpumc__lane_sum(const double *a)
{ return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])); }

/* sum = the team's terms of i from 0 to n - 1, each evaluated once */
#define GPUMC__SUM(sum, i, n, term) \
    do { \
        double lane_sums[GPUMC__LANES] = { 0 }; \
        size_t block = (size_t)GPUMC__LANES * GPUMC_TEAM_RANK; \
        for (; block + GPUMC__LANES <= (n); block += (size_t)GPUMC__LANES * GPUMC_TEAM_SIZE) { \
            GPUMC__UNROLL for (size_t lane = 0; lane < GPUMC__LANES; lane++) { \
                const size_t i = block + lane; \
                lane_sums[lane] += (term); \
            } \
        } \
        for (size_t i = block; i < (n); i++) lane_sums[i - block] += (term); \
        (sum) = GPUMC_TEAM_SUM(gpumc__lane_sum(lane_sums)); \
    } while (0)

GPUMC__COPIES(return, double, gpumc__dot,
              (const double *GPUMC__RESTRICT a, const double *GPUMC__RESTRICT b, size_t n), (a, b, n), n > 64)
{
    double sum;
    GPUMC_TEAM_SYNC();                       /* lanes read what other members wrote by GPUMC_EACH */
    GPUMC__SUM(sum, i, n, a[i] * b[i]);
    return sum;
}
GPUMC__COPIES(return, double, gpumc__sum, (const double *v, size_t n), (v, n), n > 64)
{
    double sum;
    GPUMC__SUM(sum, i, n, v[i]);
    return sum;
}
static int gpumc__compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* y += f x and y = f x. */
GPUMC__COPIES(, void, gpumc__add_multiple,
              (double *GPUMC__RESTRICT y, double f, const double *GPUMC__RESTRICT x, size_t n), (y, f, x, n),
              n >= 32)
{ for (size_t i = 0; i < n; i++) y[i] += f * x[i]; }
GPUMC__COPIES(, void, gpumc__scaled,
              (size_t n, double f, const double *GPUMC__RESTRICT x, double *GPUMC__RESTRICT y), (n, f, x, y),
              n >= 32)
{ for (size_t i = 0; i < n; i++) y[i] = f * x[i]; }

/* a = L L'; the upper triangle of L is zeroed. Returns 0 when a is not positive definite. */
static GPUMC_LOOP int gpumc__cholesky(double *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            const double sum = a[i * n + j] - gpumc__dot(a + i * n, a + j * n, j);
            if (i == j && !(sum > 0 && gpumc__is_finite(sum))) return 0;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
        for (size_t j = i + 1; j < n; j++) a[i * n + j] = 0;
    }
    return 1;
}

/* v becomes (L L')^-1 v. */
static void gpumc__cholesky_solve(const double *L, size_t n, double *v)
{
    for (size_t i = 0; i < n; i++) v[i] = (v[i] - gpumc__dot(L + i * n, v, i)) / L[i * n + i];
    for (size_t i = n; i-- > 0;) {
        v[i] /= L[i * n + i];
        for (size_t j = 0; j < i; j++) v[j] -= L[i * n + j] * v[i];
    }
}

/* Householder reduction of a symmetric matrix to tridiagonal d, e; row k of a then holds the reflector k. */
static GPUMC_LOOP void gpumc__tridiagonal(double *a, size_t n, double *d, double *e, double *tau, double *w)
{
    for (size_t k = 0; k + 2 < n; k++) {
        double *GPUMC__RESTRICT v = a + k * n + k + 1;    /* row k right of the diagonal: to be reflected */
        const size_t m = n - k - 1;
        const double norm = sqrt(gpumc__dot(v, v, m)), alpha = v[0] > 0 ? -norm : norm;
        double scale;
        d[k] = a[k * n + k];
        e[k] = alpha;
        tau[k] = 0;
        if (!(norm > 0)) continue;
        v[0] -= alpha;
        tau[k] = 2 / gpumc__dot(v, v, m);
        for (size_t i = 0; i < m; i++) w[i] = tau[k] * gpumc__dot(a + (k + 1 + i) * n + k + 1, v, m);
        scale = 0.5 * tau[k] * gpumc__dot(w, v, m);
        for (size_t i = 0; i < m; i++) w[i] -= scale * v[i];
        for (size_t i = 0; i < m; i++) {                     /* A <- A - v w' - w v' */
            double *GPUMC__RESTRICT row = a + (k + 1 + i) * n + k + 1;
            const double vi = v[i], wi = w[i];
            for (size_t j = 0; j < m; j++) row[j] -= vi * w[j] + wi * v[j];
        }
    }
    for (size_t k = n > 1 ? n - 2 : 0; k < n; k++) d[k] = a[k * n + k];
    if (n > 1) e[n - 2] = a[(n - 2) * n + n - 1];
    e[n - 1] = 0;
}
/* Rows i and i + 1 of z turned by an angle. */
static GPUMC_LOOP void gpumc__rotate_rows(double *GPUMC__RESTRICT z, double *GPUMC__RESTRICT y, size_t n,
                                          double c, double s)
{
    for (size_t k = 0; k < n; k++) {
        const double f = y[k], g = z[k];
        y[k] = s * g + c * f;
        z[k] = c * g - s * f;
    }
}

/* Implicit QL with Wilkinson shifts on the tridiagonal d, e; rows of z, if it is not NULL, become the
   eigenvectors. Zero is what is small beside the whole matrix: of many zero eigenvalues none is, beside its
   neighbours. */
static int gpumc__tridiagonal_ql(double *d, double *e, double *z, size_t n)
{
    double zero = 0;
    for (size_t k = 0; k < n; k++) zero = fmax(zero, DBL_EPSILON * (fabs(d[k]) + fabs(e[k])));
    for (size_t l = 0; l < n; l++) {
        for (int sweep = 0;; sweep++) {
            size_t m = l;
            double g, r, s = 1, c = 1, p = 0;
            while (m + 1 < n && fabs(e[m]) > zero) m++;
            if (m == l) break;
            if (sweep == 60) return 0;
            g = (d[l + 1] - d[l]) / (2 * e[l]);
            r = sqrt(g * g + 1);
            g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
            for (size_t i = m; i-- > l;) {
                const double f = s * e[i], b = c * e[i];
                r = sqrt(f * f + g * g);
                e[i + 1] = r;
                if (!(r > 0)) { d[i + 1] -= p; e[m] = 0; break; }
                s = f / r;
                c = g / r;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                if (z) gpumc__rotate_rows(z + i * n, z + (i + 1) * n, n, c, s);
                if (i == l) { d[l] -= p; e[l] = g; e[m] = 0; }
            }
        }
    }
    return 1;
}

/* An eigenvector of the tridiagonal in the axes of the matrix it was made of: the last reflector first. */
static GPUMC_LOOP void gpumc__reflect_back(const double *a, size_t n, const double *tau, double *vector)
{
    for (size_t k = n > 2 ? n - 2 : 0; k-- > 0;) {
        const double *GPUMC__RESTRICT v = a + k * n + k + 1;
        double *GPUMC__RESTRICT row = vector + k + 1;
        const double f = tau[k] * gpumc__dot(row, v, n - k - 1);
        for (size_t j = 0; j < n - k - 1; j++) row[j] -= f * v[j];
    }
}

/* x becomes (T - lambda)^-1 x for the tridiagonal T of d, e, by elimination with pivots; rows: 3 n. A pivot
   of nearly zero, as lambda makes one, is taken for `zero`. */
static void gpumc__tridiagonal_solve(const double *d, const double *e, size_t n, double lambda, double zero,
                                     double *x, double *rows)
{
    double *pivot = rows, *first = pivot + n, *second = first + n, a = d[0] - lambda, b = e[0];
    for (size_t i = 0; i < n; i++) {                 /* a, b: what is left of row i, from the diagonal on */
        const double below = i + 1 < n ? e[i] : 0, next = i + 1 < n ? d[i + 1] - lambda : 0;
        const double after = i + 2 < n ? e[i + 1] : 0, here = x[i];
        const int swaps = fabs(below) > fabs(a);
        const double f = swaps ? a / below : below / (fabs(a) > zero ? a : zero);
        pivot[i] = swaps ? below : fabs(a) > zero ? a : zero;
        first[i] = swaps ? next : b;
        second[i] = swaps ? after : 0;
        if (i + 1 == n) break;
        x[i] = swaps ? x[i + 1] : here;
        x[i + 1] = swaps ? here - f * x[i + 1] : x[i + 1] - f * here;
        a = swaps ? b - f * next : next - f * b;
        b = swaps ? -f * after : after;
    }
    for (size_t i = n; i-- > 0;) {
        if (i + 1 < n) x[i] -= first[i] * x[i + 1];
        if (i + 2 < n) x[i] -= second[i] * x[i + 2];
        x[i] /= pivot[i];
    }
}

/* Row `found` of the vectors becomes the eigenvector of the tridiagonal for lambda, at right angles to those
   before it, which equal eigenvalues would not give by themselves: inverse iteration. */
static GPUMC_LOOP void gpumc__tridiagonal_vector(const double *d, const double *e, size_t n, double lambda,
                                                 double *vectors, size_t found, double *rows)
{
    double *x = vectors + found * n, zero = DBL_MIN;
    for (size_t i = 0; i < n; i++) {
        zero = fmax(zero, DBL_EPSILON * (fabs(d[i]) + fabs(e[i])));
        x[i] = 1 + (double)((i + found) * 7 % 11) / 11;                  /* at a right angle to hardly any */
    }
    for (int round = 0; round < 3; round++) {
        double norm;
        gpumc__tridiagonal_solve(d, e, n, lambda, zero, x, rows);
        for (int twice = 0; twice < 2; twice++) {
            norm = sqrt(gpumc__dot(x, x, n));
            for (size_t i = 0; i < n; i++) x[i] /= norm;
            for (size_t k = 0; k < found; k++) {
                const double *GPUMC__RESTRICT v = vectors + k * n;
                const double along = gpumc__dot(x, v, n);
                for (size_t i = 0; i < n; i++) x[i] -= along * v[i];
            }
        }
        norm = sqrt(gpumc__dot(x, x, n));
        for (size_t i = 0; i < n; i++) x[i] /= norm;
    }
}

/* Eigenvalues of symmetric a into d, eigenvectors into the rows of z; a and work (3 n) are used up. */
static GPUMC_LOOP int gpumc__eigen(double *a, size_t n, double *d, double *z, double *work)
{
    double *e = work, *tau = e + n, *w = tau + n;
    memset(tau, 0, n * sizeof(double));
    gpumc__tridiagonal(a, n, d, e, tau, w);
    memset(z, 0, n * n * sizeof(double));
    for (size_t i = 0; i < n; i++) z[i * n + i] = 1;
    if (!gpumc__tridiagonal_ql(d, e, z, n)) return 0;
    for (size_t i = 0; i < n; i++) gpumc__reflect_back(a, n, tau, z + i * n);
    return 1;
}

/* ========================================================================================== >>rng
   Philox4x32-10 and the samplers that need more than a quantile function. A generator is a value: copy it to
   repeat a stream, start another by gpumc_rng_at. One stream holds 2^32 blocks (1.7e10 normals in bulk) and
   then repeats. Samplers use leaf functions, not libm, so that a seed means the same draws on every system.
   Read first: Salmon, Moraes, Dror & Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3". */
GPUMC_FN void gpumc__philox_round(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d,
                                  uint32_t key_0, uint32_t key_1)
{
    const uint32_t even = 0xD2511F53u, odd = 0xCD9E8D57u, low_a = even * *a, low_c = odd * *c;
    const uint32_t high_a = (uint32_t)((uint64_t)even * *a >> 32);
    const uint32_t high_c = (uint32_t)((uint64_t)odd * *c >> 32);
    *a = high_c ^ *b ^ key_0;
    *b = low_c;
    *c = high_a ^ *d ^ key_1;
    *d = low_a;
}
/* The key moves on by the golden ratio and by sqrt(3) - 1 a round, as fractions of 2^32. */
#define GPUMC__PHILOX_ROUNDS 10
#define GPUMC__PHILOX_STEP_0 0x9E3779B9u
#define GPUMC__PHILOX_STEP_1 0xBB67AE85u
static GPUMC_TEAM void gpumc__philox(uint32_t *w, const uint32_t *key)
{
    for (uint32_t r = 0; r < GPUMC__PHILOX_ROUNDS; r++)
        gpumc__philox_round(&w[0], &w[1], &w[2], &w[3],
                            key[0] + r * GPUMC__PHILOX_STEP_0, key[1] + r * GPUMC__PHILOX_STEP_1);
}
/* (k + 1/2) 2^-52 from the upper 52 of 64 bits: exact, symmetric about 1/2, and never 0 or 1. */
GPUMC_FN double gpumc__unit(uint32_t low, uint32_t high)
{
    const uint64_t k = ((uint64_t)high << 32 | low) >> 12;
    return gpumc__from_bits(k | 0x3ff0000000000000ULL) - (1 - 0.5 * DBL_EPSILON);
}
/* -2 log u lies between 2e-16 and 74, so that x / sqrt(x) is its root without any special case. */
GPUMC_FN void gpumc__box_muller(double u, double v, double *z_0, double *z_1)
{
    const double square = -2 * gpumc__log_normal(u), radius = square * gpumc__rsqrt_normal(square);
    double sine, cosine;
    gpumc__sincos_turn(v, &sine, &cosine);
    *z_0 = radius * cosine;
    *z_1 = radius * sine;
}
GPUMC_API GPUMC_TEAM gpumc_rng gpumc_rng_at(uint64_t seed, uint32_t stream, uint32_t draw, uint32_t chain)
{
    const gpumc_rng rng = { { (uint32_t)seed, (uint32_t)(seed >> 32) }, { 0, stream, draw, chain },
                            { 0, 0, 0, 0 }, 0 };
    return rng;
}
GPUMC_API GPUMC_TEAM uint32_t gpumc_rng_word(gpumc_rng *rng)
{
    if (rng->left == 0) {
        memcpy(rng->words, rng->counter, sizeof rng->words);
        gpumc__philox(rng->words, rng->key);
        rng->counter[0]++;
        rng->left = 4;
    }
    return rng->words[4 - rng->left--];
}
GPUMC_API GPUMC_TEAM double gpumc_rng_uniform(gpumc_rng *rng)
{
    const uint32_t low = gpumc_rng_word(rng), high = gpumc_rng_word(rng);
    return gpumc__unit(low, high);
}
GPUMC_API GPUMC_TEAM double gpumc_rng_normal(gpumc_rng *rng)
{
    const double u = gpumc_rng_uniform(rng), v = gpumc_rng_uniform(rng);
    double first, second;
    gpumc__box_muller(u, v, &first, &second);
    return first;
}
GPUMC_API double gpumc_rng_exponential(gpumc_rng *rng) { return -gpumc_log(gpumc_rng_uniform(rng)); }
GPUMC_API uint64_t gpumc_rng_below(gpumc_rng *rng, uint64_t n)
{
    const uint64_t excess = n ? (UINT64_MAX % n + 1) % n : 0;      /* 2^64 mod n values too many */
    uint64_t bits;
    if (n == 0) return 0;
    do {
        bits = gpumc_rng_word(rng);
        bits |= (uint64_t)gpumc_rng_word(rng) << 32;
    } while (bits > UINT64_MAX - excess);
    return bits % n;
}

/* Two normals from 64 bits: 40 for the radius, which so reaches 7.5, and 24 for the angle. */
GPUMC_FN void gpumc__normal_pair(uint32_t low, uint32_t high, double *z_0, double *z_1)
{
    const uint64_t k = (uint64_t)high << 32 | low, one = 0x3ff0000000000000ULL;
    const double u = gpumc__from_bits(k >> 24 << 12 | one) - (1 - 4.547473508864641e-13);         /* 2^-41 */
    const double v = gpumc__from_bits((k & 0xffffff) << 28 | one) - (1 - 2.9802322387695312e-08); /* 2^-25 */
    gpumc__box_muller(u, v, z_0, z_1);
}

/* A strip of 16 blocks from the generator's counter on becomes 64 normals: block i the pair z[2i], z[2i + 1]
   by its first words, and z[32 + 2i], z[33 + 2i] by the others. Eight blocks and one half give 16. Lanes are
   the inner loops, one round at a time: gcc makes half as fast code of ten rounds a lane. Sixteen hide each
   other's latencies. */
#define GPUMC__RNG_LANES 16
GPUMC_FN void gpumc__normal_blocks(const gpumc_rng *rng, double *GPUMC__RESTRICT z, uint32_t lanes,
                                   int halves)
{
    uint32_t a[GPUMC__RNG_LANES], b[GPUMC__RNG_LANES], c[GPUMC__RNG_LANES], d[GPUMC__RNG_LANES];
    uint32_t key_0 = rng->key[0], key_1 = rng->key[1];
    for (uint32_t i = 0; i < lanes; i++) {
        a[i] = rng->counter[0] + i, b[i] = rng->counter[1];
        c[i] = rng->counter[2], d[i] = rng->counter[3];
    }
    for (int r = 0; r < GPUMC__PHILOX_ROUNDS; r++) {
        for (uint32_t i = 0; i < lanes; i++)
            gpumc__philox_round(&a[i], &b[i], &c[i], &d[i], key_0, key_1);
        key_0 += GPUMC__PHILOX_STEP_0;
        key_1 += GPUMC__PHILOX_STEP_1;
    }
    for (uint32_t i = 0; i < lanes; i++) gpumc__normal_pair(a[i], b[i], &z[2 * i], &z[2 * i + 1]);
    for (uint32_t i = 0; i < lanes && halves > 1; i++)
        gpumc__normal_pair(c[i], d[i], &z[2 * lanes + 2 * i], &z[2 * lanes + 2 * i + 1]);
}
GPUMC__COPY_512(, void, gpumc__normals_64, (const gpumc_rng *rng, double *GPUMC__RESTRICT z), (rng, z))
GPUMC__COPIES(, void, gpumc__normals_64, (const gpumc_rng *rng, double *GPUMC__RESTRICT z), (rng, z), 1)
{ gpumc__normal_blocks(rng, z, 16, 2); }
GPUMC__COPIES(, void, gpumc__normals_16, (const gpumc_rng *rng, double *GPUMC__RESTRICT z), (rng, z), 1)
{ gpumc__normal_blocks(rng, z, 8, 1); }

/* Starts at a fresh block, so that z[i] depends on the counter and i alone. */
GPUMC_API GPUMC_TEAM void gpumc_rng_normals(gpumc_rng *rng, double *z, size_t n)
{
    double last[64];
    rng->left = 0;
    for (; n >= 64; z += 64, n -= 64, rng->counter[0] += 16) GPUMC__WIDEST(gpumc__normals_64, (rng, z));
    if (n > 32) {
        GPUMC__WIDEST(gpumc__normals_64, (rng, last));
        memcpy(z, last, n * sizeof *z);
        rng->counter[0] += 16;
        return;
    }
    for (size_t m; n > 0; z += m, n -= m, rng->counter[0] += 8) {
        m = n < 16 ? n : 16;
        gpumc__normals_16(rng, m < 16 ? last : z);
        if (m < 16) memcpy(z, last, m * sizeof *z);
    }
}

/* ---- gamma and beta --------------------------------------------------------------------------
   Marsaglia & Tsang (2000) for shape >= 1. A smaller one draws from shape + 1 and multiplies by U^(1/shape):
   that power, returned as its logarithm, is what underflows when the shape is tiny. */
static double gpumc__gamma_boosted(gpumc_rng *rng, double shape, double *log_power)
{
    const double d = (shape < 1 ? shape + 1 : shape) - 1 / 3.0, c = 1 / (3 * gpumc_sqrt(d));
    double x, v;
    do {
        x = gpumc_rng_normal(rng);
        v = (1 + c * x) * (1 + c * x) * (1 + c * x);
    } while (v <= 0 || !(-gpumc_rng_exponential(rng) < 0.5 * x * x + d * (1 - v + gpumc_log(v))));
    *log_power = shape < 1 ? -gpumc_rng_exponential(rng) / shape : 0;
    return d * v;
}
static double gpumc__rng_log_gamma(gpumc_rng *rng, double shape)
{
    double log_power;
    const double boosted = gpumc__gamma_boosted(rng, shape, &log_power);
    return gpumc_log(boosted) + log_power;
}
/* A draw below the smallest normal number is returned as that number, never as 0. */
GPUMC_API double gpumc_rng_gamma(gpumc_rng *rng, double shape)
{
    double log_power, x;
    if (!(shape > 0 && shape <= DBL_MAX)) return GPUMC_NAN;
    x = gpumc__gamma_boosted(rng, shape, &log_power);
    x *= gpumc_exp(log_power);
    return x < DBL_MIN ? DBL_MIN : x;
}
/* A ratio of gammas on the log scale, which for small a and b still tells draws near 0 from draws near 1. */
GPUMC_API double gpumc_rng_beta(gpumc_rng *rng, double a, double b)
{
    const double most = 1 - 0.5 * DBL_EPSILON;
    double x;
    if (!(a > 0 && a <= DBL_MAX && b > 0 && b <= DBL_MAX)) return GPUMC_NAN;
    x = gpumc__rng_log_gamma(rng, a);
    x = gpumc__inv_logit(x - gpumc__rng_log_gamma(rng, b));
    return x < DBL_MIN ? DBL_MIN : x > most ? most : x;
}

/* ---- counts ----------------------------------------------------------------------------------
   Transformed rejection with squeeze for means of 10 and more (Hoermann 1993: PTRS for the Poisson, BTRS for
   the binomial law); below that waiting times, which need one uniform number an event. */
static GPUMC__NOINLINE double gpumc__poisson_log_mass(double k, double mean)
{ return gpumc_poisson_lpmf(k, mean, NULL); }
static GPUMC__NOINLINE double gpumc__binomial_log_mass(double k, double n, double p)
{ return gpumc_binomial_lpmf(k, n, p, NULL); }
static double gpumc__poisson_rejection(gpumc_rng *rng, double mean)
{
    const double b = 0.931 + 2.53 * gpumc__sqrt(mean), a = -0.059 + 0.02483 * b;
    const double log_alpha = gpumc__log(1.1239 + 1.1328 / (b - 3.4)), squeeze = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = gpumc_rng_uniform(rng) - 0.5, v = gpumc_rng_uniform(rng), edge = 0.5 - gpumc_fabs(u);
        const double k = gpumc_floor((2 * a / edge + b) * u + mean + 0.43);
        if (edge >= 0.07 && v <= squeeze) return k;
        if (k < 0 || (edge < 0.013 && v > edge)) continue;
        if (gpumc__log(v / (a / (edge * edge) + b)) + log_alpha <= gpumc__poisson_log_mass(k, mean)) return k;
    }
}

static GPUMC__UNUSED double gpumc__rng_poisson(gpumc_rng *rng, double mean)
{
    double product, count = 0;
    if (!(mean >= 0 && mean <= DBL_MAX)) return GPUMC_NAN;
    if (mean >= 10) return gpumc__poisson_rejection(rng, mean);
    product = gpumc_rng_uniform(rng);
    for (const double least = gpumc__exp(-mean); product > least; count++) product *= gpumc_rng_uniform(rng);
    return count;
}

/* p <= 1/2 and n p >= 10 */
static double gpumc__binomial_rejection(gpumc_rng *rng, double n, double p)
{
    const double spread = gpumc__sqrt(n * p * (1 - p));
    const double b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
    const double alpha = (2.83 + 5.1 / b) * spread, squeeze = 0.92 - 4.2 / b;
    const double log_mode = gpumc__binomial_log_mass(gpumc_floor((n + 1) * p), n, p);
    for (;;) {
        const double u = gpumc_rng_uniform(rng) - 0.5, edge = 0.5 - gpumc_fabs(u);
        double v = gpumc_rng_uniform(rng);
        const double k = gpumc_floor((2 * a / edge + b) * u + n * p + 0.5);
        if (edge >= 0.07 && v <= squeeze) return k;
        if (k < 0 || k > n) continue;
        v = gpumc__log(v * alpha / (a / (edge * edge) + b));
        if (v <= gpumc__binomial_log_mass(k, n, p) - log_mode) return k;
    }
}
/* Failures between successes are geometric: Devroye (1986), X.4.3, first waiting time algorithm. */
static double gpumc__binomial_waiting(gpumc_rng *rng, double n, double p)
{
    const double rate = gpumc_fabs(gpumc_log1p(-p));         /* +0 for p = 0: an infinite wait */
    double count = 0;
    for (double trial = 0;; count++) {
        trial += gpumc_floor(gpumc_rng_exponential(rng) / rate) + 1;
        if (trial > n) return count;
    }
}
static GPUMC__UNUSED double gpumc__rng_binomial(gpumc_rng *rng, double n, double p)
{
    if (!(n >= 0 && n <= DBL_MAX && p >= 0 && p <= 1)) return GPUMC_NAN;
    if (p > 0.5) return n - gpumc__rng_binomial(rng, n, 1 - p);
    return n * p >= 10 ? gpumc__binomial_rejection(rng, n, p) : gpumc__binomial_waiting(rng, n, p);
}

/* ========================================================================================= >>dist
   Cdfs that are no leaves, quantiles, draws and moments, in the order of api-dist; then families of vectors.
   A draw is the quantile of a uniform number where no better way is at hand. */
#define GPUMC__DOUBLES_1(a) double a
#define GPUMC__DOUBLES_2(a, b) double a, double b
#define GPUMC__DOUBLES_3(a, b, c) double a, double b, double c
/* The last four members of a family with n parameters, NaN unless the condition on these holds; u is the
   probability of which the quantile is wanted. */
#define GPUMC__MEMBERS(family, n, names, condition, quantile_value, rng_value, mean_value, variance_value) \
    GPUMC_API double gpumc_##family##_quantile(double u, GPUMC__DOUBLES_##n names) \
    { return gpumc__valid(gpumc__is_probability(u) && (condition), quantile_value); } \
    GPUMC_API double gpumc_##family##_rng(gpumc_rng *rng, GPUMC__DOUBLES_##n names) \
    { return gpumc__valid(condition, rng_value); } \
    GPUMC_API double gpumc_##family##_mean(GPUMC__DOUBLES_##n names) \
    { return gpumc__valid(condition, mean_value); } \
    GPUMC_API double gpumc_##family##_variance(GPUMC__DOUBLES_##n names) \
    { return gpumc__valid(condition, variance_value); }

static int gpumc__is_probability(double p) { return p >= 0 && p <= 1; }
static int gpumc__is_scaled(double mu, double sigma) { return mu == mu && sigma > 0; }
static int gpumc__are_positive(double a, double b) { return a > 0 && b > 0; }

GPUMC__MEMBERS(normal, 2, (mu, sigma), gpumc__is_scaled(mu, sigma), mu + sigma * gpumc__inv_Phi(u),
               mu + sigma * gpumc_rng_normal(rng), mu, sigma * sigma)

GPUMC_API double gpumc_std_normal_quantile(double p) { return gpumc_normal_quantile(p, 0, 1); }
GPUMC_API double gpumc_std_normal_rng(gpumc_rng *rng) { return gpumc_rng_normal(rng); }
GPUMC_API double gpumc_std_normal_mean(void) { return 0; }
GPUMC_API double gpumc_std_normal_variance(void) { return 1; }
/* With the angle that is small in the tail. */
GPUMC__CDF_CALL(REAL_2, cauchy, y, mu, sigma)
{
    const double z = (y - mu) / sigma, x = side * z, tail = atan2(1, fabs(x)) / GPUMC_PI;
    const double slope = 1 / (GPUMC_PI * (1 + x * x) * (x < 0 ? tail : 1 - tail));
    gpumc__add_standard(side * slope, z, 1 / sigma, dy, dmu, dsigma);
    return gpumc__valid(sigma > 0, x < 0 ? log(tail) : log1p(-tail));
}

/* tan(pi (p - 1/2)), the standard Cauchy quantile: a cotangent of the distance to the nearer end. */
static double gpumc__cauchy_standard(double p)
{
    double sine, cosine;
    gpumc_sincos_2pi(0.5 * (p < 0.5 ? p : 1 - p), &sine, &cosine);
    return p < 0.5 ? -cosine / sine : cosine / sine;
}
GPUMC__MEMBERS(cauchy, 2, (mu, sigma), gpumc__is_scaled(mu, sigma), mu + sigma * gpumc__cauchy_standard(u),
               gpumc_cauchy_quantile(gpumc_rng_uniform(rng), mu, sigma), GPUMC_NAN, GPUMC_NAN)
GPUMC__MEMBERS(laplace, 2, (mu, sigma), gpumc__is_scaled(mu, sigma),
               mu + sigma * (u < 0.5 ? gpumc__log(2 * u) : -gpumc__log(2 * (1 - u))),
               gpumc_laplace_quantile(gpumc_rng_uniform(rng), mu, sigma), mu, 2 * sigma * sigma)
GPUMC__MEMBERS(logistic, 2, (mu, sigma), gpumc__is_scaled(mu, sigma), mu + sigma * gpumc_logit(u),
               gpumc_logistic_quantile(gpumc_rng_uniform(rng), mu, sigma), mu,
               GPUMC_PI * GPUMC_PI / 3 * sigma * sigma)
GPUMC__MEMBERS(gumbel, 2, (mu, beta), gpumc__is_scaled(mu, beta), mu - beta * gpumc__log(-gpumc__log(u)),
               mu - beta * gpumc__log(gpumc_rng_exponential(rng)),
               mu + 0.57721566490153286061 * beta,                                     /* Euler's constant */
               GPUMC_PI * GPUMC_PI / 6 * beta * beta)
static double gpumc__lognormal_variance(double mu, double square)
{
    const double root = gpumc__exp(mu + 0.5 * square);
    return square > 40 ? gpumc__exp(2 * mu + 2 * square) : gpumc__expm1(square) * root * root;
}
GPUMC__MEMBERS(lognormal, 2, (mu, sigma), gpumc__is_scaled(mu, sigma),
               gpumc__exp(gpumc_normal_quantile(u, mu, sigma)), gpumc__exp(gpumc_normal_rng(rng, mu, sigma)),
               gpumc__exp(mu + 0.5 * sigma * sigma),
               gpumc__lognormal_variance(mu, sigma * sigma))
GPUMC__MEMBERS(exponential, 1, (rate), rate > 0, -gpumc__log1p(-u) / rate, gpumc_rng_exponential(rng) / rate,
               1 / rate, 1 / rate / rate)

static double gpumc__weibull_from(double exponential, double shape, double scale)
{ return scale * gpumc__exp(gpumc__log(exponential) / shape); }
static double gpumc__weibull_spread(double shape)
{
    const double h = 1 / shape, first = gpumc__lgamma(1 + h), second = gpumc__lgamma(1 + 2 * h);
    const double series = h * h * (GPUMC_PI * GPUMC_PI / 6 - h * (2.4041138063191885 - h * (3.788131317988984
                                       - h * (6.2215665308602198 - h * 10.512544973839308))));
    return gpumc__exp(2 * first) * gpumc__expm1(h < 1e-3 ? series : second - 2 * first);
}
GPUMC__MEMBERS(weibull, 2, (shape, scale), gpumc__are_positive(shape, scale),
               gpumc__weibull_from(-gpumc__log1p(-u), shape, scale),
               gpumc__weibull_from(gpumc_rng_exponential(rng), shape, scale),
               scale * gpumc__exp(gpumc__lgamma(1 + 1 / shape)), scale * scale * gpumc__weibull_spread(shape))

/* The root z of erf(z / sqrt 2) = p < 1/2 by Newton steps: inv_Phi near 1/2 has no relative accuracy. */
static double gpumc__half_normal_low(double p)
{
    double z = p / GPUMC__ROOT_2_OVER_PI;
    for (int step = 0; step < 5; step++)
        z -= (gpumc_erf(z * GPUMC__ROOT_HALF) - p) / (GPUMC__ROOT_2_OVER_PI * gpumc__exp(-0.5 * z * z));
    return z;
}
GPUMC__MEMBERS(half_normal, 1, (sigma), sigma > 0,
               sigma * (u < 0.5 ? gpumc__half_normal_low(u) : -gpumc__inv_Phi(0.5 * (1 - u))),
               sigma * gpumc_fabs(gpumc_rng_normal(rng)), GPUMC__ROOT_2_OVER_PI * sigma,
               (1 - 2 / GPUMC_PI) * sigma * sigma)

GPUMC__CDF_CALL(REAL_1, half_cauchy, y, sigma)
{
    const double z = y <= 0 ? 0 : y / sigma;
    const double above = atan2(1, z) * 2 / GPUMC_PI, below = atan2(z, 1) * 2 / GPUMC_PI;
    const double part = side > 0 ? below : above, rest = side > 0 ? above : below;
    const double slope = side * 2 / (GPUMC_PI * (1 + z * z) * part);
    gpumc__add_standard((side > 0 ? y <= 0 : y < 0) ? 0 : slope, z, 1 / sigma, dy, NULL, dsigma);
    return gpumc__valid(sigma > 0, part < rest ? log(part) : log1p(-rest));
}
GPUMC__MEMBERS(half_cauchy, 1, (sigma), sigma > 0,
               u > 0.5 ? -sigma * gpumc__cauchy_standard(0.5 * (1 - u))
                       : -sigma / gpumc__cauchy_standard(0.5 * u),
               gpumc_half_cauchy_quantile(gpumc_rng_uniform(rng), sigma), GPUMC_INF, GPUMC_NAN)
GPUMC__MEMBERS(uniform, 2, (a, b), b > a, u < 0.5 ? a + u * (b - a) : b - (1 - u) * (b - a),
               gpumc_uniform_quantile(gpumc_rng_uniform(rng), a, b), a + 0.5 * (b - a),
               (b - a) * (b - a) / 12)
GPUMC__MEMBERS(bernoulli, 1, (p), gpumc__is_probability(p), u > 1 - p, gpumc_rng_uniform(rng) < p, p,
               p * (1 - p))
GPUMC__MEMBERS(bernoulli_logit, 1, (eta), eta == eta, u > gpumc__inv_logit(-eta),
               gpumc_bernoulli_rng(rng, gpumc__inv_logit(eta)), gpumc__inv_logit(eta),
               gpumc__inv_logit(eta) * gpumc__inv_logit(-eta))

static double gpumc__geometric_at(double u, double p)
{
    const double log_above = gpumc__log1p(-u), k = ceil(log_above / gpumc__log1p(-p)) - 1;
    double y = k > 0 ? k : 0;
    if (y > 0 && gpumc_geometric_lccdf(y - 1, p, NULL) <= log_above) y--;       /* the division rounded up */
    return p < 1 ? y : 0;
}
GPUMC__MEMBERS(geometric, 1, (p), p > 0 && p <= 1, gpumc__geometric_at(u, p),
               gpumc_floor(gpumc_rng_exponential(rng) / -gpumc__log1p(-p)), (1 - p) / p, (1 - p) / p / p)

/* Student's t: P(|Z| > |z|) is the lower tail of beta(nu/2, 1/2) at x = nu / (nu + z^2); its derivative by
   nu at fixed z is half the one by a at fixed a (1 - x) / x = z^2 / 2. */
static gpumc__tail gpumc__t_outside(double z, double nu)
{
    const double root = sqrt(nu), size = fabs(z), r = size < root ? size / root : root / size;
    const double rest = 1 / (1 + r * r), share = r * r * rest, log_rest = -gpumc__log1p(r * r);
    const double log_r = -fabs(gpumc__log(size) - gpumc__log(root)), log_share = 2 * log_r + log_rest;
    return size < root ? gpumc__beta_tail(0.5 * nu, 0.5, rest, share, log_rest, log_share)
                       : gpumc__beta_tail(0.5 * nu, 0.5, share, rest, log_share, log_rest);
}

static GPUMC__NOINLINE double gpumc__t_log_density(double z, double nu)
{ return gpumc_student_t_lpdf(z, nu, 0, 1, NULL, NULL, NULL, NULL); }

/* The density over the tail is taken on the log scale. */
GPUMC__CDF_CALL(REAL_3, student_t, y, nu, mu, sigma)
{
    const double z = (y - mu) / sigma, x = side * z;
    const double log_density = gpumc__t_log_density(x, nu);
    gpumc__tail tail = gpumc__tail_at(GPUMC__LOWER, gpumc__t_outside(x, nu));
    tail.value -= GPUMC_LOG_2;
    if (x > 0) tail = gpumc__tail_at(GPUMC__UPPER, tail);
    const double slope = tail.value > -GPUMC_INF ? side * gpumc__exp(log_density - tail.value) : 0;
    gpumc__add_standard(slope, z, 1 / sigma, dy, dmu, dsigma);
    gpumc__add(dnu, 0.5 * tail.by_a_fixed);
    return gpumc__valid(sigma > 0, tail.value);
}

/* r with P(|Z| <= r) = p, from p and q = 1 - p. */
static double gpumc__t_radius(double p, double q, double nu)
{
    const gpumc__pair root = gpumc__beta_root(0.5 * nu, 0.5, q, p);
    return sqrt(nu) * gpumc__exp(-0.5 * root.logit);
}
static double gpumc__t_draw(gpumc_rng *rng, double nu, double sigma)
{
    const double z = gpumc_rng_normal(rng);
    const double half = 0.5 * nu;
    return sigma * z * (nu < 1 ? gpumc__exp(0.5 * (gpumc__log(half) - gpumc__rng_log_gamma(rng, half)))
                        : 1 / sqrt(gpumc_rng_gamma(rng, half) / half));
}
static double gpumc__t_variance(double nu) { return nu > 2 ? nu / (nu - 2) : nu > 1 ? GPUMC_INF : GPUMC_NAN; }
GPUMC__MEMBERS(student_t, 3, (nu, mu, sigma), nu > 0 && gpumc__is_scaled(mu, sigma),
               u < 0.5 ? mu - sigma * gpumc__t_radius(1 - 2 * u, 2 * u, nu)
                       : mu + sigma * gpumc__t_radius(1 - 2 * (1 - u), 2 * (1 - u), nu),
               mu + gpumc__t_draw(rng, nu, sigma), nu > 1 ? mu : GPUMC_NAN,
               sigma * sigma * gpumc__t_variance(nu))

GPUMC__CDF_CALL(REAL_2, half_student_t, y, nu, sigma)
{
    const double z = y < 0 ? 0 : y / sigma;
    const gpumc__tail tail = gpumc__tail_at(-side, gpumc__t_outside(z, nu));
    const double log_density = gpumc__t_log_density(z, nu) + GPUMC_LOG_2;
    const double size = y < 0 || !(tail.value > -GPUMC_INF) ? 0 : gpumc__exp(log_density - tail.value);
    gpumc__add_standard(side * size, z, 1 / sigma, dy, NULL, dsigma);
    gpumc__add(dnu, 0.5 * tail.by_a_fixed);
    return gpumc__valid(sigma > 0, tail.value);
}
static double gpumc__half_t_mean(double nu)
{ return nu > 1 ? 2 * sqrt(nu) / (nu - 1) * gpumc__exp(-gpumc__lbeta(0.5 * nu, 0.5)) : GPUMC_INF; }
static double gpumc__half_t_variance(double nu)
{
    const double mean = gpumc__half_t_mean(nu), whole = gpumc__t_variance(nu);
    return nu > 2 ? whole - mean * mean : whole;
}
GPUMC__MEMBERS(half_student_t, 2, (nu, sigma), gpumc__are_positive(nu, sigma),
               sigma * gpumc__t_radius(u, 1 - u, nu), fabs(gpumc__t_draw(rng, nu, sigma)),
               sigma * gpumc__half_t_mean(nu), sigma * sigma * gpumc__half_t_variance(nu))

GPUMC__CDF_CALL(REAL_2, gamma, y, shape, rate)
{
    const gpumc__tail tail = gpumc__gamma_tail_of(shape, rate * y, side);
    gpumc__add_3(dy, y > 0 ? tail.by_log / y : 0, dshape, tail.by_a, drate, tail.by_log / rate);
    return gpumc__valid(rate > 0, tail.value);
}
GPUMC__MEMBERS(gamma, 2, (shape, rate), gpumc__are_positive(shape, rate),
               gpumc_gamma_p_inverse(shape, u) / rate, gpumc_rng_gamma(rng, shape) / rate, shape / rate,
               shape / rate / rate)

GPUMC__CDF_CALL(REAL_2, inv_gamma, y, shape, scale)
{
    const gpumc__tail tail = gpumc__gamma_tail_of(shape, y <= 0 ? GPUMC_INF : scale / y, -side);
    gpumc__add_3(dy, y > 0 ? -tail.by_log / y : 0, dshape, tail.by_a, dscale, tail.by_log / scale);
    return gpumc__valid(scale > 0, tail.value);
}
static double gpumc__inv_gamma_variance(double shape)
{
    const double mean = 1 / (shape - 1);
    return shape > 2 ? mean * mean / (shape - 2) : shape > 1 ? GPUMC_INF : GPUMC_NAN;
}
GPUMC__MEMBERS(inv_gamma, 2, (shape, scale), gpumc__are_positive(shape, scale),
               scale / gpumc_gamma_q_inverse(shape, u), scale / gpumc_rng_gamma(rng, shape),
               shape > 1 ? scale / (shape - 1) : GPUMC_INF, scale * scale * gpumc__inv_gamma_variance(shape))

GPUMC__CDF_CALL(REAL_1, chi_square, y, nu)
{
    double dshape = 0;
    const double value = gpumc__gamma_cdf(side, y, 0.5 * nu, 0.5, dy, &dshape, NULL);
    gpumc__add(dnu, 0.5 * dshape);
    return value;
}
GPUMC__MEMBERS(chi_square, 1, (nu), nu > 0, gpumc_gamma_quantile(u, 0.5 * nu, 0.5),
               gpumc_gamma_rng(rng, 0.5 * nu, 0.5), nu, 2 * nu)

GPUMC__CDF_CALL(REAL_2, beta, y, a, b) { return gpumc__beta_share(side, 1, a, b, y, da, db, dy); }
GPUMC__MEMBERS(beta, 2, (a, b), gpumc__are_positive(a, b), gpumc_beta_p_inverse(a, b, u),
               gpumc_rng_beta(rng, a, b), a / (a + b), a / (a + b) * (b / (a + b)) / (a + b + 1))

static int gpumc__is_proportion(double mu, double kappa) { return mu > 0 && mu < 1 && kappa > 0; }
GPUMC__CDF_CALL(REAL_2, beta_proportion, y, mu, kappa)
{
    double da = 0, db = 0;
    const double value = gpumc__beta_cdf(side, y, mu * kappa, (1 - mu) * kappa, dy, &da, &db);
    gpumc__add_2(dmu, kappa * (da - db), dkappa, mu * da + (1 - mu) * db);
    return gpumc__valid(gpumc__is_proportion(mu, kappa), value);
}
GPUMC__MEMBERS(beta_proportion, 2, (mu, kappa), gpumc__is_proportion(mu, kappa),
               gpumc_beta_quantile(u, mu * kappa, (1 - mu) * kappa),
               gpumc_beta_rng(rng, mu * kappa, (1 - mu) * kappa), mu, mu * (1 - mu) / (kappa + 1))

/* A law of counts as a tail function: P(Y <= k) is a gamma or beta tail with k + 1 for a shape. */
typedef struct gpumc__count {
    gpumc__tail (*tail)(const struct gpumc__count *law, double k);
    double size;                       /* n of a binomial, phi of a negative binomial law */
    double x, y, log_x, log_y;         /* where its tail starts; a gamma tail needs x only */
    double most, mean, variance;
} gpumc__count;

static gpumc__tail gpumc__count_tail(const gpumc__count *law, double y, double side)
{
    const double k = floor(y);
    if (y != y) return gpumc__certain_tail(side, y);
    if (k < 0) return gpumc__certain_tail(side, gpumc__before(side));
    if (k >= law->most || k == GPUMC_INF) return gpumc__certain_tail(side, gpumc__before(-side));
    return gpumc__tail_at(side, law->tail(law, k));
}
/* Whether P(Y <= k) >= p, up to the rounding of both, so that p = P(Y <= k) as computed finds k itself. */
static int gpumc__count_reaches(const gpumc__count *law, double k, double p)
{
    const double slack = 64 * DBL_EPSILON;
    if (p < 0.5) return gpumc__count_tail(law, k, GPUMC__LOWER).value >= gpumc__log(p) - slack;
    return gpumc__count_tail(law, k, GPUMC__UPPER).value <= gpumc__log1p(-p) + slack + DBL_EPSILON / (1 - p);
}

/* From the normal approximation outwards in doubling steps, then by halving. */
static double gpumc__count_quantile(gpumc__count law, double p)
{
    const double spread = law.variance <= DBL_MAX ? sqrt(law.variance) : 0;
    const double guess = floor(law.mean + spread * gpumc__inv_Phi(p));
    if (!gpumc__is_probability(p) || !(law.mean >= 0 && law.mean <= DBL_MAX)) return GPUMC_NAN;
    if (p == 0 || p == 1) return p == 0 ? 0 : law.variance > 0 ? law.most : law.mean;
    double above = guess < 0 ? 0 : guess < law.most ? guess : law.most;
    for (double step = 1; !gpumc__count_reaches(&law, above, p); step *= 2) above += step;
    double below = above - 1;
    for (double step = 1; below >= 0 && gpumc__count_reaches(&law, below, p); step *= 2) {
        above = below;
        below -= step;
    }
    if (below < -1) below = -1;
    while (above - below > 1) {
        const double middle = below + floor(0.5 * (above - below));
        if (middle <= below || middle >= above) break;              /* counts beyond 2^53 */
        if (gpumc__count_reaches(&law, middle, p)) above = middle;
        else below = middle;
    }
    return above;
}

/* Binomial: P(Y <= k) is the lower tail of beta(n - k, k + 1) at 1 - p. */
static gpumc__tail gpumc__binomial_tail(const gpumc__count *law, double k)
{ return gpumc__beta_tail(law->size - k, k + 1, law->x, law->y, law->log_x, law->log_y); }
static gpumc__count gpumc__binomial_by_p(double n, double p)
{
    const double q = 1 - p, log_p = p < 0.5 ? gpumc__log(p) : gpumc__log1p(-q);
    const gpumc__count law = { gpumc__binomial_tail, n, q, p, gpumc__log1p(-p), log_p, n, n * p, n * p * q };
    return law;
}
static gpumc__count gpumc__binomial_by_logit(double n, double eta)
{
    const double p = gpumc__inv_logit(eta), q = gpumc__inv_logit(-eta);
    const double log_p = -gpumc__log1p_exp(-eta), log_q = -gpumc__log1p_exp(eta);
    const gpumc__count law = { gpumc__binomial_tail, n, q, p, log_q, log_p, n, n * p, n * p * q };
    return law;
}
static int gpumc__is_trials(double n) { return n >= 0 && gpumc__is_whole(n); }
static int gpumc__is_binomial(double n, double p) { return gpumc__is_trials(n) && gpumc__is_probability(p); }
GPUMC__CDF_CALL(TRIALS_1, binomial, y, n, p)
{
    const gpumc__count law = gpumc__binomial_by_p(n, p);
    const gpumc__tail tail = gpumc__count_tail(&law, y, side);
    const double k = floor(y);
    if (k >= 0 && k < n && tail.value > -GPUMC_INF)   /* n P(k of n - 1), right at p = 0 and 1 too */
        gpumc__add(dp, -side * n * gpumc__exp(gpumc__binomial_log_mass(k, n - 1, p) - tail.value));
    return gpumc__valid(gpumc__is_binomial(n, p), tail.value);
}
GPUMC__MEMBERS(binomial, 2, (n, p), gpumc__is_binomial(n, p),
               gpumc__count_quantile(gpumc__binomial_by_p(n, p), u), gpumc__rng_binomial(rng, n, p),
               n * p, n * p * (1 - p))

GPUMC__CDF_CALL(TRIALS_1, binomial_logit, y, n, eta)
{
    const gpumc__count law = gpumc__binomial_by_logit(n, eta);
    const gpumc__tail tail = gpumc__count_tail(&law, y, side);
    gpumc__add(deta, -tail.by_log);
    return gpumc__valid(gpumc__is_trials(n) && eta == eta, tail.value);
}
GPUMC__MEMBERS(binomial_logit, 2, (n, eta), gpumc__is_trials(n) && eta == eta,
               gpumc__count_quantile(gpumc__binomial_by_logit(n, eta), u),
               gpumc__rng_binomial(rng, n, gpumc__inv_logit(eta)), n * gpumc__inv_logit(eta),
               n * gpumc__inv_logit(eta) * gpumc__inv_logit(-eta))

/* Poisson: P(Y <= k) is the upper tail of gamma(k + 1, 1) at lambda. */
static gpumc__tail gpumc__poisson_tail(const gpumc__count *law, double k)
{
    gpumc__tail tail = gpumc__gamma_tail(k + 1, law->x, law->log_x);
    tail.side = -tail.side;
    return tail;
}
static gpumc__count gpumc__poisson_count(double lambda, double log_lambda)
{
    const gpumc__count law = { gpumc__poisson_tail, 0, lambda, 0, log_lambda, 0, GPUMC_INF, lambda, lambda };
    return law;
}
GPUMC__CDF_CALL(COUNT_1, poisson, y, lambda)
{
    const gpumc__count law = gpumc__poisson_count(lambda, gpumc__log(lambda));
    const gpumc__tail tail = gpumc__count_tail(&law, y, side);
    if (tail.value > -GPUMC_INF)                      /* P(Y = k), right at lambda = 0 too */
        gpumc__add(dlambda, -side * gpumc__exp(gpumc__poisson_log_mass(floor(y), lambda) - tail.value));
    return gpumc__valid(lambda >= 0, tail.value);
}
GPUMC__MEMBERS(poisson, 1, (lambda), lambda >= 0,
               gpumc__count_quantile(gpumc__poisson_count(lambda, gpumc__log(lambda)), u),
               gpumc__rng_poisson(rng, lambda), lambda, lambda)

GPUMC__CDF_CALL(COUNT_1, poisson_log, y, eta)
{
    const gpumc__count law = gpumc__poisson_count(gpumc__exp(eta), eta);
    const gpumc__tail tail = gpumc__count_tail(&law, y, side);
    gpumc__add(deta, tail.by_log);
    return gpumc__valid(eta == eta, tail.value);
}
GPUMC__MEMBERS(poisson_log, 1, (eta), eta == eta,
               gpumc__count_quantile(gpumc__poisson_count(gpumc__exp(eta), eta), u),
               gpumc__rng_poisson(rng, gpumc__exp(eta)), gpumc__exp(eta), gpumc__exp(eta))

/* Negative binomial: P(Y <= k) is the lower tail of beta(phi, k + 1) at x = phi / (phi + mu); its derivative
   by phi is that by a at fixed a (1 - x) / x = mu, and logit x falls as log mu rises. */
static gpumc__tail gpumc__neg_binomial_tail(const gpumc__count *law, double k)
{ return gpumc__beta_tail(law->size, k + 1, law->x, law->y, law->log_x, law->log_y); }
static gpumc__count gpumc__neg_binomial_count(double mu, double log_mu, double phi)
{
    const double logit = gpumc__log(phi) - log_mu;
    const gpumc__count law = { gpumc__neg_binomial_tail, phi, 1 / (1 + mu / phi), 1 / (1 + phi / mu),
                               -gpumc__log1p_exp(-logit), -gpumc__log1p_exp(logit),
                               GPUMC_INF, mu, mu + mu * (mu / phi) };
    return law;
}
static double gpumc__neg_binomial_cdf(double side, double y, double mu, double log_mu, double phi,
                                      double *dlog_mu, double *dphi)
{
    const gpumc__count law = gpumc__neg_binomial_count(mu, log_mu, phi);
    const gpumc__tail tail = gpumc__count_tail(&law, y, side);
    gpumc__add_2(dlog_mu, -tail.by_log, dphi, tail.by_a_fixed);
    return gpumc__valid(log_mu == log_mu && phi > 0, tail.value);
}
GPUMC__CDF_CALL(COUNT_2, neg_binomial_2, y, mu, phi)
{
    double dlog_mu = 0;
    const double value = gpumc__neg_binomial_cdf(side, y, mu, gpumc__log(mu), phi, &dlog_mu, dphi);
    gpumc__add(dmu, dlog_mu / mu);
    return gpumc__valid(mu > 0, value);
}
GPUMC__MEMBERS(neg_binomial_2, 2, (mu, phi), gpumc__are_positive(mu, phi),
               gpumc__count_quantile(gpumc__neg_binomial_count(mu, gpumc__log(mu), phi), u),
               gpumc__rng_poisson(rng, gpumc_rng_gamma(rng, phi) * (mu / phi)), mu, mu + mu * (mu / phi))

GPUMC__CDF_CALL(COUNT_2, neg_binomial_2_log, y, eta, phi)
{ return gpumc__neg_binomial_cdf(side, y, gpumc__exp(eta), eta, phi, deta, dphi); }
GPUMC__MEMBERS(neg_binomial_2_log, 2, (eta, phi), eta == eta && phi > 0,
               gpumc__count_quantile(gpumc__neg_binomial_count(gpumc__exp(eta), eta, phi), u),
               gpumc__rng_poisson(rng, gpumc_rng_gamma(rng, phi) * (gpumc__exp(eta) / phi)), gpumc__exp(eta),
               gpumc__neg_binomial_count(gpumc__exp(eta), eta, phi).variance)

/* ---- families of vectors ------------------------------------------------------- >>dist-vectors
   Triangular systems are solved so that matrices are read along their rows: forwards by dot products with
   what is known, backwards by taking each new element out of those still to come. */
static void gpumc__add_at(double *array, size_t i, double v) { if (array) array[i] += v; }
/* Whole and in 0 .. K - 1. NaN is not. */
static int gpumc__is_category(double y, size_t K) { return y >= 0 && y < (double)K && gpumc__is_whole(y); }
static void gpumc__indicator_variance(double *p, size_t K)
{ for (size_t k = 0; k < K; k++) p[k] *= 1 - p[k]; }
static double gpumc__largest(const double *x, size_t n)
{
    double largest = -GPUMC_INF;
    for (size_t i = 0; i < n; i++) largest = largest < x[i] ? x[i] : largest;
    return largest;
}
static double gpumc__log_sum_exp_of(const double *x, size_t n)
{
    const double most = gpumc__largest(x, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += gpumc__exp(x[i] - most);
    return most + gpumc__log(sum);
}
GPUMC_API double gpumc_categorical_logit_lpmf(double y, const double *eta, size_t K, double *deta)
{
    const double total = gpumc__log_sum_exp_of(eta, K);
    if (total != total || y != y) return GPUMC_NAN;
    if (!gpumc__is_category(y, K)) return -GPUMC_INF;
    for (size_t k = 0; k < K; k++) gpumc__add_at(deta, k, -gpumc__exp(eta[k] - total));
    gpumc__add_at(deta, (size_t)y, 1);
    return eta[(size_t)y] - total;
}
GPUMC_API void gpumc_categorical_logit_mean(const double *eta, size_t K, double *mean)
{
    const double total = gpumc__log_sum_exp_of(eta, K);
    for (size_t k = 0; k < K; k++) mean[k] = gpumc__exp(eta[k] - total);
}
GPUMC_API void gpumc_categorical_logit_variance(const double *eta, size_t K, double *variance)
{ gpumc_categorical_logit_mean(eta, K, variance), gpumc__indicator_variance(variance, K); }
GPUMC_API double gpumc_categorical_logit_rng(gpumc_rng *rng, const double *eta, size_t K)
{
    const double total = gpumc__log_sum_exp_of(eta, K);
    double left = gpumc_rng_uniform(rng);
    size_t k = 0;
    if (total != total || K == 0) return GPUMC_NAN;
    while (k < K - 1 && (left -= gpumc__exp(eta[k] - total)) >= 0) k++;
    return (double)k;
}

/* With a = c_(k-1) - eta and b = c_k - eta:  P(Y = k) = inv_logit(b) inv_logit(-a) (1 - exp(a - b)). */
static int gpumc__is_ordered(double eta, const double *cutpoints, size_t K)
{
    int valid = eta == eta && K > 0 && (K == 1 || cutpoints[0] == cutpoints[0]);
    for (size_t k = 1; k + 1 < K; k++) valid &= cutpoints[k - 1] < cutpoints[k];
    return valid;
}
GPUMC_API double gpumc_ordered_logistic_lpmf(double y, double eta, const double *cutpoints, size_t K,
                                             double *deta, double *dcutpoints)
{
    if (y != y || !gpumc__is_ordered(eta, cutpoints, K)) return GPUMC_NAN;
    if (!gpumc__is_category(y, K)) return -GPUMC_INF;
    const size_t k = (size_t)y;
    const double a = k > 0 ? cutpoints[k - 1] - eta : -GPUMC_INF;
    const double b = k < K - 1 ? cutpoints[k] - eta : GPUMC_INF;
    const double gap = k > 0 && k < K - 1 ? cutpoints[k] - cutpoints[k - 1] : GPUMC_INF;
    const double step = 1 / gpumc__expm1(gap);
    gpumc__add(deta, gpumc_inv_logit(a) - gpumc_inv_logit(-b));
    if (k > 0) gpumc__add_at(dcutpoints, k - 1, -gpumc_inv_logit(a) - step);
    if (k < K - 1) gpumc__add_at(dcutpoints, k, gpumc_inv_logit(-b) + step);
    return gpumc__log1m_exp(gap) - gpumc_log1p_exp(-b) - gpumc_log1p_exp(a);
}
GPUMC_API void gpumc_ordered_logistic_mean(double eta, const double *cutpoints, size_t K, double *mean)
{
    for (size_t k = 0; k < K; k++)
        mean[k] = gpumc__exp(gpumc_ordered_logistic_lpmf((double)k, eta, cutpoints, K, NULL, NULL));
}
GPUMC_API void gpumc_ordered_logistic_variance(double eta, const double *cutpoints, size_t K,
                                               double *variance)
{ gpumc_ordered_logistic_mean(eta, cutpoints, K, variance), gpumc__indicator_variance(variance, K); }
/* The latent logistic variable falls below its cutpoint. */
GPUMC_API double gpumc_ordered_logistic_rng(gpumc_rng *rng, double eta, const double *cutpoints, size_t K)
{
    const double latent = gpumc_logistic_rng(rng, eta, 1);
    size_t k = 0;
    if (!gpumc__is_ordered(eta, cutpoints, K)) return GPUMC_NAN;
    while (k < K - 1 && latent > cutpoints[k]) k++;
    return (double)k;
}
/* 0, or NaN for a factor without a positive diagonal. */
static double gpumc__factor_offset(const double *L, size_t n)
{
    int valid = 1;
    for (size_t i = 0; i < n; i++) valid &= L[i * n + i] > 0;
    return gpumc__valid(valid, 0);
}

/* z = L^-1 (y - mu) and w = L'^-1 z = dmu; returns the log density. */
static double gpumc__normal_whiten(const double *y, const double *mu, const double *L, size_t n,
                                   double *z, double *w, double *dy, double *dmu)
{
    double log_det = 0;
    for (size_t i = 0; i < n; i++) {
        z[i] = (y[i] - mu[i] - gpumc__dot(&L[i * n], z, i)) / L[i * n + i];
        log_det += gpumc__log(L[i * n + i]);
    }
    memcpy(w, z, n * sizeof *w);
    for (size_t i = n; i-- > 0;) {
        w[i] /= L[i * n + i];
        for (size_t j = 0; j < i; j++) w[j] -= L[i * n + j] * w[i];
        gpumc__add_at(dy, i, -w[i]);
        gpumc__add_at(dmu, i, w[i]);
    }
    return -0.5 * gpumc__dot(z, z, n) - log_det - (double)n * GPUMC_LOG_SQRT_2PI;
}
GPUMC_API double gpumc_multi_normal_cholesky_lpdf(const double *y, const double *mu, const double *L,
                                                  size_t n, double *dy, double *dmu, double *dL, double *work)
{
    double *z = work, *w = work + n, value = gpumc__factor_offset(L, n);
    if (value != value) return value;
    value = gpumc__normal_whiten(y, mu, L, n, z, w, dy, dmu);
    for (size_t i = 0; dL && i < n; i++) {
        for (size_t j = 0; j <= i; j++) dL[i * n + j] += w[i] * z[j];
        dL[i * n + i] -= 1 / L[i * n + i];
    }
    return value;
}

/* From the last element up, so that the normals below it are still there. */
GPUMC_API void gpumc_multi_normal_cholesky_rng(gpumc_rng *rng, const double *mu, const double *L, size_t n,
                                               double *y)
{
    const double offset = gpumc__factor_offset(L, n);
    gpumc_rng_normals(rng, y, n);
    for (size_t i = n; i-- > 0;) y[i] = mu[i] + gpumc__dot(&L[i * n], y, i + 1) + offset;
}
GPUMC_API void gpumc_multi_normal_cholesky_mean(const double *mu, const double *L, size_t n, double *mean)
{
    const double offset = gpumc__factor_offset(L, n);
    for (size_t i = 0; i < n; i++) mean[i] = mu[i] + offset;
}
GPUMC_API void gpumc_multi_normal_cholesky_variance(const double *mu, const double *L, size_t n,
                                                    double *variance)
{
    const double offset = gpumc__factor_offset(L, n);
    for (size_t i = 0; i < n; i++)
        variance[i] = gpumc__valid(mu[i] == mu[i], gpumc__dot(&L[i * n], &L[i * n], i + 1) + offset);
}
/* The lower factor of S in L; 0 if S is not positive definite. */
static int gpumc__factor_of(const double *S, size_t n, double *L)
{
    for (size_t i = 0; i < n; i++) memcpy(&L[i * n], &S[i * n], (i + 1) * sizeof *L);
    return gpumc__cholesky(L, n);
}

/* L becomes its own inverse: row i needs the rows above it, already inverted. */
static void gpumc__invert_lower(double *L, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double pivot = 1 / L[i * n + i];
        for (size_t j = 0; j < i; j++) {
            double sum = 0;
            for (size_t k = j; k < i; k++) sum += L[i * n + k] * L[k * n + j];
            L[i * n + j] = -pivot * sum;
        }
        L[i * n + i] = pivot;
    }
}
GPUMC_API double gpumc_multi_normal_lpdf(const double *y, const double *mu, const double *S, size_t n,
                                         double *dy, double *dmu, double *dS, double *work)
{
    double *z = work, *w = work + n, *L = work + 2 * n, value;
    if (!gpumc__factor_of(S, n, L)) return GPUMC_NAN;
    value = gpumc__normal_whiten(y, mu, L, n, z, w, dy, dmu);
    if (!dS) return value;
    gpumc__invert_lower(L, n);
    for (size_t k = 0; k < n; k++)          /* S^-1 = sum_k l_k' l_k over the rows of L^-1 */
        for (size_t i = 0; i <= k; i++)
            for (size_t j = 0; j <= k; j++) dS[i * n + j] -= 0.5 * L[k * n + i] * L[k * n + j];
    for (size_t i = 0; i < n * n; i++) dS[i] += 0.5 * w[i / n] * w[i % n];
    return value;
}

/* The factor lies in work, then multi_normal_cholesky draws; a diagonal of NaN stands for a failed factor. */
GPUMC_API void gpumc_multi_normal_rng(gpumc_rng *rng, const double *mu, const double *S, size_t n,
                                      double *y, double *work)
{
    if (!gpumc__factor_of(S, n, work))
        for (size_t i = 0; i < n; i++) work[i * n + i] = GPUMC_NAN;
    gpumc_multi_normal_cholesky_rng(rng, mu, work, n, y);
}
GPUMC_API void gpumc_multi_normal_mean(const double *mu, const double *S, size_t n, double *mean)
{ for (size_t i = 0; i < n; i++) mean[i] = gpumc__valid(S[i * n + i] > 0, mu[i]); }
GPUMC_API void gpumc_multi_normal_variance(const double *mu, const double *S, size_t n, double *variance)
{
    for (size_t i = 0; i < n; i++)
        variance[i] = gpumc__valid(S[i * n + i] > 0 && mu[i] == mu[i], S[i * n + i]);
}
static const double gpumc__sum_tolerance = 1e-8;

/* The sum of alpha, NaN if any of them is not positive and finite. */
static double gpumc__concentration(const double *alpha, size_t K)
{
    const double sum = gpumc__sum(alpha, K);
    int valid = K > 0 && sum <= DBL_MAX;
    for (size_t k = 0; k < K; k++) valid &= alpha[k] > 0;
    return gpumc__valid(valid, sum);
}
/* 1 inside the simplex, 0 outside, NaN if x holds one. */
static double gpumc__on_simplex(const double *x, size_t K)
{
    const double sum = gpumc__sum(x, K);
    int inside = gpumc_fabs(sum - 1) <= gpumc__sum_tolerance;
    for (size_t k = 0; k < K; k++) inside &= x[k] >= 0;
    return sum == sum ? inside : sum;
}

/* B(alpha) is a product of beta functions B(alpha_0 + .. + alpha_(k-1), alpha_k): no large terms cancel. */
GPUMC_API double gpumc_dirichlet_lpdf(const double *x, const double *alpha, size_t K,
                                      double *dx, double *dalpha)
{
    const double total = gpumc__concentration(alpha, K), inside = gpumc__on_simplex(x, K);
    double sum = 0, before = 0;
    if (total != total || inside != inside) return GPUMC_NAN;
    if (inside == 0) return -GPUMC_INF;
    for (size_t k = 0; k < K; before += alpha[k], k++) {
        const double a = alpha[k], log_x = gpumc__log(x[k]);
        sum += gpumc__times_log(a - 1, log_x) - (k > 0 ? gpumc__lbeta(before, a) : 0);
        gpumc__add_at(dx, k, gpumc__times_log(a - 1, 1 / x[k]));
        gpumc__add_at(dalpha, k, log_x + gpumc__digamma(total) - gpumc__digamma(a));
    }
    return sum;
}

/* Gammas on the log scale, normalised: small alpha give draws near a corner, not 0 / 0. */
GPUMC_API void gpumc_dirichlet_rng(gpumc_rng *rng, const double *alpha, size_t K, double *x)
{
    const double total = gpumc__concentration(alpha, K);
    for (size_t k = 0; k < K; k++) x[k] = total == total ? gpumc__rng_log_gamma(rng, alpha[k]) : total;
    gpumc_categorical_logit_mean(x, K, x);
    for (size_t k = 0; k < K; k++) x[k] = x[k] < DBL_MIN ? DBL_MIN : x[k];
}
GPUMC_API void gpumc_dirichlet_mean(const double *alpha, size_t K, double *mean)
{
    const double total = gpumc__concentration(alpha, K);
    for (size_t k = 0; k < K; k++) mean[k] = alpha[k] / total;
}
GPUMC_API void gpumc_dirichlet_variance(const double *alpha, size_t K, double *variance)
{
    const double total = gpumc__concentration(alpha, K);
    for (size_t k = 0; k < K; k++) variance[k] = alpha[k] / total * (1 - alpha[k] / total) / (total + 1);
}
/* lkj_corr_cholesky: row i >= 1 is a point in the unit ball of i dimensions, uniform in direction, with
   1 - L_ii^2 distributed as Beta(i / 2, b_i), b_i = eta + (K - 1 - i) / 2, rows independent of each other
   (the onion method of Lewandowski, Kurowicka & Joe 2009). */
static double gpumc__lkj_shape(size_t K, double eta, size_t i) { return eta + 0.5 * (double)(K - 1 - i); }

/* 1 for a factor of a correlation matrix, 0 for another matrix, NaN if one is in it. */
static double gpumc__is_correlation_factor(const double *L, size_t K)
{
    int inside = 1;
    for (size_t i = 0; i < K; i++) {
        const double square = gpumc__dot(&L[i * K], &L[i * K], i + 1);
        if (square != square) return square;
        inside &= L[i * K + i] > 0 && gpumc_fabs(square - 1) <= gpumc__sum_tolerance;
    }
    return inside;
}
GPUMC_API double gpumc_lkj_corr_cholesky_lpdf(const double *L, size_t K, double eta, double *dL, double *deta)
{
    const double inside = gpumc__is_correlation_factor(L, K), top = gpumc__lkj_shape(K, eta, 0);
    double sum = 0;
    if (!(eta > 0) || inside != inside) return GPUMC_NAN;
    if (inside == 0) return -GPUMC_INF;
    for (size_t i = 1; i < K; i++) {
        const double diagonal = L[i * K + i], log_diagonal = gpumc__log(diagonal);
        const double half = 0.5 * (double)i, b = gpumc__lkj_shape(K, eta, i);
        sum += 2 * (b - 1) * log_diagonal - half * GPUMC_LOG_PI + gpumc__lgamma(half) - gpumc__lbeta(half, b);
        gpumc__add_at(dL, i * K + i, 2 * (b - 1) / diagonal);
        gpumc__add(deta, 2 * log_diagonal + gpumc__digamma(top) - gpumc__digamma(b));
    }
    return sum;
}
GPUMC_API void gpumc_lkj_corr_cholesky_rng(gpumc_rng *rng, size_t K, double eta, double *L)
{
    for (size_t i = 0; i < K; i++) {
        double *row = &L[i * K], scale;
        const double square = i ? gpumc_rng_beta(rng, 0.5 * (double)i, gpumc__lkj_shape(K, eta, i)) : 0;
        gpumc_rng_normals(rng, row, i);
        scale = i ? gpumc__sqrt(square / gpumc__dot(row, row, i)) : 0;
        for (size_t j = 0; j < K; j++) row[j] = j < i ? row[j] * scale : 0;
        row[i] = gpumc__valid(eta > 0, gpumc__sqrt(1 - square));
    }
}
/* E L_ii = B(i / 2, b + 1/2) / B(i / 2, b); elements off the diagonal are symmetric about 0. */
GPUMC_API void gpumc_lkj_corr_cholesky_mean(size_t K, double eta, double *mean)
{
    for (size_t i = 0; i < K; i++) {
        const double half = 0.5 * (double)i, b = gpumc__lkj_shape(K, eta, i);
        for (size_t j = 0; j < K; j++) mean[i * K + j] = gpumc__valid(eta > 0, 0);
        mean[i * K + i] += i ? gpumc__exp(gpumc__lbeta(half, b + 0.5) - gpumc__lbeta(half, b)) : 1;
    }
}
/* E L_ii^2 = b / (b + i / 2), and the rest of the unit row is shared evenly. */
GPUMC_API void gpumc_lkj_corr_cholesky_variance(size_t K, double eta, double *variance)
{
    gpumc_lkj_corr_cholesky_mean(K, eta, variance);
    for (size_t i = 0; i < K; i++) {
        double *row = &variance[i * K];
        const double half = 0.5 * (double)i, b = gpumc__lkj_shape(K, eta, i);
        for (size_t j = 0; j < i; j++) row[j] += 0.5 / (b + half);
        row[i] = b / (b + half) - row[i] * row[i];
    }
}

/* ==================================================================================== >>transform
   Constraints, a block each: the map x(q) with its log Jacobian (NAME_map), the way back (NAME_inverse), the
   chain rule dq = J' dx + d log |J| / dq (NAME_pull). Three rules hold in every block:
   - Values stay strictly inside: where rounding would reach a bound, the double next to it is taken, and the
     smallest normal number beside a bound of zero. So logarithms and reciprocals of distances to a bound are
     finite, and gpumc_unconstrain accepts what gpumc_constrain made of it.
   - Log Jacobians come from q, where nothing saturates; 1 - logistic q and sech q are never differences.
   - Chain rules take distances to a bound from x, as the density saw them: then its 1 / (x - lower) times our
     x - lower is 1, even where rounding has left nothing else of the distance.
   Read first: gpumc__elementwise_map. Free coordinates are numbered as in the Stan reference manual, chapter
   "Constraint transforms". */

/* What elementwise constraints share: x = base + width h(q), lower < x < upper; least and greatest are the
   first values inside. */
typedef struct gpumc__range { double base, width, log_width, lower, upper, least, greatest; } gpumc__range;

typedef enum gpumc__shape {
    GPUMC__IDENTITY, GPUMC__AFFINE, GPUMC__EXPONENTIAL, GPUMC__LOGISTIC
} gpumc__shape;

/* A transform made ready, once a layout and not once a gradient. */
typedef struct gpumc__constraint {
    const struct gpumc__formula *formula;            /* NULL: the kind is unknown */
    gpumc_kind kind;
    size_t size, n, n_free;          /* of one vector: size (K of a factor), values, free coordinates */
    size_t count;                    /* vectors; an elementwise block is one */
    gpumc__shape shape;              /* elementwise */
    gpumc__range range;
    double typical;                  /* of all values where typicals is NULL; 0: exponential */
    const double *typicals;
} gpumc__constraint;

typedef struct gpumc__formula {      /* for one vector; map returns log |J|, inverse gets a checked x */
    double (*map)(const gpumc__constraint *c, const double *q, double *x);
    void (*inverse)(const gpumc__constraint *c, const double *x, double *q);
    void (*pull)(const gpumc__constraint *c, const double *q, const double *x, const double *dx, double *dq);
} gpumc__formula;

/* NaN stays NaN. */
GPUMC_FN double gpumc__within(double x, double least, double greatest)
{
    x = x < least ? least : x;
    return greatest < x ? greatest : x;
}

/* ---- positive, lower, upper; interval, unit; affine, unbounded -----------------------------------
   exponential   x = base + width e^q, width 1 or -1      log |J| = sum q      q = log |x - base|
                 dq = (x - base) dx + 1
   scored        x = base + s E, E = -log Phi(-q), exponential for normal q       log |J| = sum log s + log h
                 dq = s h dx + h - q, h = phi(q) / Phi(-q)      q = -Phi^-1(e^-u), u = (x - base) / s
   logistic      x = lower + w p = upper - w (1 - p), p = logistic q, the sum that is nearer to its bound
                 log |J| = sum log w + log p + log(1 - p) = sum log w - |q| - 2 log(1 + e^-|q|)
                 q = log(x - lower) - log(upper - x)
                 dq = (x - lower) (upper - x) / w dx + ((upper - x) - (x - lower)) / w
   affine        x = offset + multiplier q                log |J| = n log |multiplier|
                 dq = multiplier dx                                                                     */

/* Sum of log(1 + e) over numbers e in [0, 1], by logarithms of products of 512, which are at most 2^512. */
static GPUMC_LOOP double gpumc__sum_log1p(const double *e, size_t n)
{
    double sum = 0;
    for (size_t i = 0, end; i < n; i = end) {
        double p[GPUMC__LANES] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        end = n - i < 512 ? n : i + 512;
        for (; i + GPUMC__LANES <= end; i += GPUMC__LANES) {
            GPUMC__UNROLL for (size_t l = 0; l < GPUMC__LANES; l++) p[l] *= 1 + e[i + l];
        }
        for (size_t l = 0; i < end; i++, l++) p[l] *= 1 + e[i];
        sum += gpumc_log(((p[0] * p[4]) * (p[2] * p[6])) * ((p[1] * p[5]) * (p[3] * p[7])));
    }
    return sum;
}

/* Sum of log x over positive numbers, none of them subnormal: of exponents, and by products of fractions. */
static GPUMC_LOOP double gpumc__sum_log(const double *x, size_t n)
{
    double sum = 0, f;
    for (size_t i = 0, end; i < n; i = end) {
        double p[GPUMC__LANES] = { 1, 1, 1, 1, 1, 1, 1, 1 }, k[GPUMC__LANES] = { 0 };
        end = n - i < 512 ? n : i + 512;
        for (; i + GPUMC__LANES <= end; i += GPUMC__LANES) {
            GPUMC__UNROLL for (size_t l = 0; l < GPUMC__LANES; l++) {
                k[l] += gpumc__log_split(x[i + l], &f);
                p[l] *= 1 + f;
            }
        }
        for (size_t l = 0; i < end; i++, l++) {
            k[l] += gpumc__log_split(x[i], &f);
            p[l] *= 1 + f;
        }
        sum += gpumc_log(((p[0] * p[4]) * (p[2] * p[6])) * ((p[1] * p[5]) * (p[3] * p[7])));
        sum += GPUMC_LOG_2 * (((k[0] + k[4]) + (k[2] + k[6])) + ((k[1] + k[5]) + (k[3] + k[7])));
    }
    return sum;
}

/* Normal scores: x = |s| y, y = E or for negative s E / sqrt(1 + E), where E = -log Phi(-q). Where q is a
   standard normal, x is exponential by the first, and by the second nearly what a bound leaves of a normal,
   half of it at |s| = twice the mean. h = dE / dq; log h by E where that cancels nothing. */
static GPUMC__NOINLINE double gpumc__score_E(double q) { return -gpumc_log_Phi(-q); }
GPUMC__INLINE double gpumc__scored(double s, double E) { return s < 0 ? E / sqrt(1 + E) : E; }
GPUMC__INLINE double gpumc__unscored(double s, double y)
{ return s < 0 ? y * (0.5 * y + sqrt(0.25 * y * y + 1)) : y; }
GPUMC__INLINE double gpumc__score_ratio(double s, double E)             /* dy / dE */
{ return s < 0 ? (1 + 0.5 * E) / ((1 + E) * sqrt(1 + E)) : 1; }
static GPUMC__NOINLINE double gpumc__score_log_h(double q, double E)
{ return q > 1 ? gpumc__log(gpumc__log_Phi_slope(-q)) : E - 0.5 * q * q - GPUMC_LOG_SQRT_2PI; }
/* d log |dx / dq| / dq. */
GPUMC__INLINE double gpumc__score_bend(double s, double q, double E, double h)
{ return h + (s < 0 ? h * (1 / (2 + E) - 1.5 / (1 + E)) : 0) - q; }
/* The score of E; where e^-E is no number any more, by Newton steps. */
static GPUMC__NOINLINE double gpumc__score_of(double E)
{
    double q = sqrt(2 * E);
    if (E < 0.7) return gpumc__inv_Phi(fmax(-gpumc_expm1(-E), DBL_MIN));
    if (E < 700) return -gpumc__inv_Phi(gpumc__exp(-E));
    for (int i = 0; i < 5; i++) {
        const double reached = gpumc__score_E(q);
        q -= (reached - E) * gpumc__exp(-gpumc__score_log_h(q, reached));
    }
    return q;
}
GPUMC__INLINE double gpumc__typical(const gpumc__constraint *c, size_t i)
{ return c->typicals ? c->typicals[i] : c->typical; }

/* x also holds what is summed on the way. */
static GPUMC_LOOP double gpumc__elementwise_map(const gpumc__constraint *c, const double *q, double *x)
{
    const gpumc__range r = c->range;
    const size_t n = c->n;
    double log_jacobian = (double)n * r.log_width;
    switch (c->shape) {
    case GPUMC__IDENTITY: memcpy(x, q, n * sizeof(double)); return 0;
    case GPUMC__EXPONENTIAL:
        for (size_t i = 0; i < n; i++)
            x[i] = gpumc__within(r.base + r.width * gpumc_exp(q[i]), r.least, r.greatest);
        log_jacobian = n == 1 ? q[0] : gpumc__sum(q, n);
        for (size_t i = 0; i < n; i++) {
            const double s = gpumc__typical(c, i), E = s != 0 ? gpumc__score_E(q[i]) : 0;
            if (s == 0) continue;
            x[i] = gpumc__within(r.base + fabs(s) * gpumc__scored(s, E), r.least, r.greatest);
            log_jacobian += gpumc_log(fabs(s) * gpumc__score_ratio(s, E)) + gpumc__score_log_h(q[i], E)
                - q[i];
        }
        return log_jacobian;
    case GPUMC__LOGISTIC:
        for (size_t i = 0; i < n; i++) x[i] = gpumc_fabs(q[i]);
        log_jacobian -= gpumc__sum(x, n);
        for (size_t i = 0; i < n; i++) x[i] = gpumc_exp(-x[i]);
        log_jacobian -= 2 * gpumc__sum_log1p(x, n);
        for (size_t i = 0; i < n; i++) {
            const double step = r.width * (x[i] / (1 + x[i]));
            x[i] = gpumc__within(q[i] < 0 ? r.lower + step : r.upper - step, r.least, r.greatest);
        }
        return log_jacobian;
    default:
        for (size_t i = 0; i < n; i++) x[i] = r.base + r.width * q[i];
        return log_jacobian;
    }
}

static GPUMC_LOOP void gpumc__elementwise_inverse(const gpumc__constraint *c, const double *x, double *q)
{
    const gpumc__range r = c->range;
    for (size_t i = 0; i < c->n; i++) {
        const double gap = x[i] - r.base, u = gap / r.width, s = gpumc__typical(c, i);
        q[i] = c->shape == GPUMC__EXPONENTIAL ? gpumc_log(r.width * gap)
            : c->shape == GPUMC__LOGISTIC ? gpumc_log(x[i] - r.lower) - gpumc_log(r.upper - x[i]) : u;
        if (s != 0) q[i] = gpumc__score_of(gpumc__unscored(s, gap / fabs(s)));
    }
}

static GPUMC_LOOP void gpumc__elementwise_pull(const gpumc__constraint *c, const double *q, const double *x,
                                               const double *dx, double *dq)
{
    const gpumc__range r = c->range;
    const double inv = 1 / r.width;
    const size_t n = c->n;
    switch (c->shape) {
    case GPUMC__IDENTITY: memcpy(dq, dx, n * sizeof(double)); break;
    case GPUMC__EXPONENTIAL:
        for (size_t i = 0; i < n; i++) dq[i] = (x[i] - r.base) * dx[i] + 1;
        for (size_t i = 0; i < n; i++) {
            const double s = gpumc__typical(c, i);
            if (s == 0) continue;
            const double E = gpumc__unscored(s, (x[i] - r.base) / fabs(s));
            const double h = gpumc_exp(gpumc__score_log_h(q[i], E));
            dq[i] = fabs(s) * h * gpumc__score_ratio(s, E) * dx[i] + gpumc__score_bend(s, q[i], E, h);
        }
        break;
    case GPUMC__LOGISTIC:
        for (size_t i = 0; i < n; i++) {
            const double below = (x[i] - r.lower) * inv, above = r.upper - x[i];
            dq[i] = below * above * dx[i] + (above * inv - below);
        }
        break;
    default: for (size_t i = 0; i < n; i++) dq[i] = r.width * dx[i];
    }
}

/* ---- ordered, positive ordered ------------------------------------------------------------------
   x[k] = x[k-1] + e^q[k], from x[0] = q[0], or x[0] = e^q[0] (as if x[-1] were 0) where positive
   log |J| = sum of the q that are exponents      q[k] = log(x[k] - x[k-1])
   dq[k] = (x[k] - x[k-1]) sum_{m >= k} dx[m] + 1, without gap and 1 for the first unless positive      */
static GPUMC_LOOP double gpumc__ordered_map(const gpumc__constraint *c, const double *q, double *x)
{
    const size_t first = c->kind == GPUMC_ORDERED, n = c->n;
    double previous = 0;
    for (size_t k = 0; k < n; k++) x[k] = gpumc__within(gpumc_exp(q[k]), DBL_MIN, DBL_MAX);
    if (first) previous = x[0] = q[0];
    for (size_t k = first; k < n; k++) {
        const double next = previous + x[k];
        x[k] = previous = next <= previous ? nextafter(previous, GPUMC_INF) : next;
    }
    return gpumc__sum(q + first, n - first);
}

static void gpumc__ordered_inverse(const gpumc__constraint *c, const double *x, double *q)
{
    for (size_t k = c->n; k-- > 1;) q[k] = gpumc_log(x[k] - x[k - 1]);
    q[0] = c->kind == GPUMC_ORDERED ? x[0] : gpumc_log(x[0]);
}

static void gpumc__ordered_pull(const gpumc__constraint *c, const double *q, const double *x,
                                const double *dx, double *dq)
{
    double sum = 0;
    (void)q;
    for (size_t k = c->n; k-- > 0;) {
        sum += dx[k];
        dq[k] = (k ? x[k] - x[k - 1] : x[0]) * sum + 1;
    }
    if (c->kind == GPUMC_ORDERED) dq[0] = sum;
}

/* ---- sum to zero, simplex -----------------------------------------------------------------------
   Sum to zero: x = V q with the orthonormal columns v_k = (1, ..., 1, -k, 0, ..., 0) / sqrt(k (k + 1)), k
   ones, k from 1                log |J| = 0      q = V' x      dq = V' dx
   A suffix sum gives V q, a prefix sum V' x, in O(n).
   Simplex: x = softmax z, z = V q, lse = log sum exp z
   log |J| = sum log x + 1/2 log n = -n lse + 1/2 log n, by the first n - 1 of x: the eigenvalues of
   diag x - x x' on the plane of V multiply to n prod x, and V without its last row has determinant n^-1/2
   q = V' log x      dq = V' g, g = x (dx - x'dx) - n x                                                 */
static double gpumc__helmert(size_t k) { return 1 / sqrt((double)k * ((double)k + 1)); }

static double gpumc__zero_sum_map(const gpumc__constraint *c, const double *q, double *x)
{
    double later = 0;
    for (size_t k = c->n; k-- > 1;) {
        const double step = gpumc__helmert(k) * q[k - 1];
        x[k] = later - (double)k * step;
        later += step;
    }
    x[0] = later;
    return 0;
}

static GPUMC_LOOP double gpumc__simplex_map(const gpumc__constraint *c, const double *q, double *x)
{
    const size_t n = c->n;
    gpumc__zero_sum_map(c, q, x);
    const double top = gpumc__largest(x, n);
    for (size_t k = 0; k < n; k++) x[k] = gpumc_exp(x[k] - top);
    const double sum = gpumc__sum(x, n), inv = 1 / sum;
    for (size_t k = 0; k < n; k++) x[k] = gpumc__within(x[k] * inv, DBL_MIN, 1);
    return 0.5 * gpumc_log((double)n) - (double)n * (top + gpumc_log(sum));
}

/* Element k of V' v, once v[k] is known; before: the sum of the v so far. */
static void gpumc__project(size_t k, double v, double *before, double *out)
{
    if (k > 0) out[k - 1] = gpumc__helmert(k) * (*before - (double)k * v);
    *before += v;
}

static void gpumc__zero_sum_inverse(const gpumc__constraint *c, const double *x, double *q)
{
    double before = 0;
    for (size_t k = 0; k < c->n; k++)
        gpumc__project(k, c->kind == GPUMC_SIMPLEX ? gpumc_log(x[k]) : x[k], &before, q);
}

static void gpumc__zero_sum_pull(const gpumc__constraint *c, const double *q, const double *x,
                                 const double *dx, double *dq)
{
    const int simplex = c->kind == GPUMC_SIMPLEX;
    const double centre = simplex ? gpumc__dot(x, dx, c->n) + (double)c->n : 0;
    double before = 0;
    (void)q;
    for (size_t k = 0; k < c->n; k++)
        gpumc__project(k, simplex ? x[k] * (dx[k] - centre) : dx[k], &before, dq);
}

/* ---- Cholesky factor of a correlation matrix ----------------------------------------------------
   Row i: x[i][j] = w[j] tanh q[i][j] for j < i, w[0] = 1, w[j+1] = w[j] sech q[i][j], x[i][i] = w[i]; a row
   has norm 1, as w[j]^2 is what its first j values leave over.
   log |J| = sum_{i > j} (i - j + 1) log sech q[i][j]: two for tanh, one for each later w of the row
   q[i][j] = asinh(x[i][j] / w[j+1]), w[j] = hypot(w[j+1], x[i][j]) backward from w[i] = x[i][i]
   dq[i][j] = w[j+1] sech(q) dx[i][j] - tanh(q) (i - j + 1 + sum_{m > j} x[i][m] dx[i][m]), m up to i, because
   q[i][j] scales all later values of its row by d log sech = -tanh.
   With d = expm1(-2 |q|): tanh |q| = -d / (2 + d), sech q = 2 e^-|q| / (2 + d), log sech q = -|q| - log(1 +
   d / 2). The free coordinates of all rows lie in a row, so pieces of them run on over the ends of rows. */
typedef struct gpumc__piece { double tanh_q[64], sech_q[64], log_sech_q[64]; } gpumc__piece;

static GPUMC_LOOP void gpumc__tanh_sech(size_t n, const double *q, gpumc__piece *p)
{
    for (size_t i = 0, end = n < 64 ? n : 64; i < end; i++) {
        const double a = gpumc_fabs(q[i]), d = gpumc_expm1(-2 * a), inv = 1 / (2 + d);
        p->tanh_q[i] = q[i] < 0 ? d * inv : -d * inv;
        p->sech_q[i] = 2 * gpumc_exp(-a) * inv;
        p->log_sech_q[i] = -a - gpumc_log1p(0.5 * d);
    }
}

static double gpumc__correlation_map(const gpumc__constraint *c, const double *q, double *x)
{
    const size_t n = c->size;
    gpumc__piece p;
    double log_jacobian = 0;
    memset(x, 0, c->n * sizeof(double));
    for (size_t i = 0, k = 0; i < n; i++) {
        double w = 1;
        for (size_t j = 0; j < i; j++, k++) {
            const size_t in = k % 64;
            if (in == 0) gpumc__tanh_sech(c->n_free - k, q + k, &p);
            x[i * n + j] = w * p.tanh_q[in];
            w *= p.sech_q[in];
            log_jacobian += (double)(i - j + 1) * p.log_sech_q[in];
        }
        x[i * n + i] = w < DBL_MIN ? DBL_MIN : w;
    }
    return log_jacobian;
}

static void gpumc__correlation_inverse(const gpumc__constraint *c, const double *x, double *q)
{
    const size_t n = c->size;
    for (size_t i = 1; i < n; q += i, i++) {
        double w = x[i * n + i];
        for (size_t j = i; j-- > 0;) {
            q[j] = asinh(x[i * n + j] / w);
            w = hypot(w, x[i * n + j]);
        }
    }
}

/* The sums over the rest of a row, backward, into dq; then forward with the running w. */
static void gpumc__correlation_pull(const gpumc__constraint *c, const double *q, const double *x,
                                    const double *dx, double *dq)
{
    const size_t n = c->size;
    gpumc__piece p;
    for (size_t i = 1, k = 0; i < n; i++) {
        const double *x_i = x + i * n, *dx_i = dx + i * n;
        double rest = 0, w = 1;
        for (size_t j = i; j-- > 0;) dq[k + j] = rest += x_i[j + 1] * dx_i[j + 1];
        for (size_t j = 0; j < i; j++, k++) {
            const size_t in = k % 64;
            if (in == 0) gpumc__tanh_sech(c->n_free - k, q + k, &p);
            w *= p.sech_q[in];
            dq[k] = w * p.sech_q[in] * dx_i[j] - p.tanh_q[in] * ((double)(i - j + 1) + dq[k]);
        }
    }
}

/* ---- a whole block ------------------------------------------------------------------------------ */

static const gpumc__formula gpumc__formulas[] = {    /* all elementwise kinds, then the kinds of vectors */
    { gpumc__elementwise_map, gpumc__elementwise_inverse, gpumc__elementwise_pull },
    { gpumc__ordered_map, gpumc__ordered_inverse, gpumc__ordered_pull },
    { gpumc__ordered_map, gpumc__ordered_inverse, gpumc__ordered_pull },
    { gpumc__zero_sum_map, gpumc__zero_sum_inverse, gpumc__zero_sum_pull },
    { gpumc__simplex_map, gpumc__zero_sum_inverse, gpumc__zero_sum_pull },
    { gpumc__correlation_map, gpumc__correlation_inverse, gpumc__correlation_pull },
};

/* The first usable value on the inner side of a bound. */
static double gpumc__beside(double bound, double inner)
{
    if (bound < 0 || bound > 0) return nextafter(bound, inner);
    return inner > 0 ? DBL_MIN : -DBL_MIN;
}

static gpumc__constraint gpumc__constraint_of(const gpumc_transform *t)
{
    const size_t K = t->size, less = K ? K - 1 : 0;
    const int vectors = t->kind >= GPUMC_ORDERED, known = (int)t->kind >= 0 && t->kind <= GPUMC_CHOLESKY_CORR;
    gpumc__constraint c = { NULL, t->kind, K, K, K, t->count ? t->count : 1, GPUMC__EXPONENTIAL,
                            { 0, 1, 0, -GPUMC_INF, GPUMC_INF, 0, 0 }, 0, NULL };
    gpumc__range *r = &c.range;
    if (known) c.formula = &gpumc__formulas[vectors ? t->kind - GPUMC_ORDERED + 1 : 0];
    switch (t->kind) {
    case GPUMC_UNBOUNDED: c.shape = GPUMC__IDENTITY; break;
    case GPUMC_POSITIVE: r->lower = 0; break;
    case GPUMC_LOWER: r->base = r->lower = t->lower; break;
    case GPUMC_UPPER: r->base = r->upper = t->upper; r->width = -1; break;
    case GPUMC_INTERVAL: c.shape = GPUMC__LOGISTIC; r->lower = t->lower; r->upper = t->upper; break;
    case GPUMC_UNIT: c.shape = GPUMC__LOGISTIC; r->lower = 0; r->upper = 1; break;
    case GPUMC_AFFINE: c.shape = GPUMC__AFFINE; r->base = t->offset; r->width = t->multiplier; break;
    case GPUMC_SUM_TO_ZERO: case GPUMC_SIMPLEX: c.n_free = less; break;
    case GPUMC_CHOLESKY_CORR:
        c.n = gpumc__size_mul(K, K);
        c.n_free = K % 2 ? gpumc__size_mul(less / 2, K) : gpumc__size_mul(K / 2, less);
        break;
    default: break;
    }
    if (c.shape == GPUMC__LOGISTIC) r->width = r->upper - r->lower;
    if (t->kind == GPUMC_POSITIVE || t->kind == GPUMC_LOWER) c.typical = t->typical;
    if (!vectors) { c.n = c.n_free = gpumc__size_mul(K, c.count); c.count = 1; }
    if (K == 0 || !known) c.count = 0;
    r->log_width = gpumc_log(gpumc_fabs(r->width));
    r->least = gpumc__beside(r->lower, r->upper);
    r->greatest = gpumc__beside(r->upper, r->lower);
    return c;
}

static double gpumc__map(const gpumc__constraint *c, const double *q, double *x)
{
    double log_jacobian = 0;
    for (size_t v = 0; v < c->count; v++) log_jacobian += c->formula->map(c, q + v * c->n_free, x + v * c->n);
    return log_jacobian;
}

static void gpumc__pull(const gpumc__constraint *c, const double *q, const double *x, const double *dx,
                        double *dq)
{
    for (size_t v = 0; v < c->count; v++, q += c->n_free, x += c->n, dx += c->n, dq += c->n_free)
        c->formula->pull(c, q, x, dx, dq);
}

/* Why value i of a vector cannot be taken back; NULL when it can, bounds apart. */
static const char *gpumc__misfit(const gpumc__constraint *c, size_t i, const double *x)
{
    const size_t row = i / c->size, column = i % c->size;
    const int rising = c->kind == GPUMC_ORDERED || c->kind == GPUMC_POSITIVE_ORDERED;
    if (!gpumc__is_finite(x[i])) return "is not finite; give a number";
    if (rising && i > 0 && !(x[i] > x[i - 1])) return "is not above the value before; sort, without ties";
    if (c->kind == GPUMC_POSITIVE_ORDERED && !(x[i] > 0)) return "is not positive; start above 0";
    if (c->kind == GPUMC_SIMPLEX && !(x[i] > 0)) return "is not positive; every part of a simplex must be";
    if (c->kind != GPUMC_CHOLESKY_CORR || column < row) return NULL;
    if (column > row) return x[i] < 0 || x[i] > 0 ? "is above the diagonal; set it to 0" : NULL;
    return x[i] > 0 ? NULL : "is on the diagonal and not positive; give a Cholesky factor";
}

/* Sums of vectors, norms of rows. at: index of x[0] within the block, for the text. */
static gpumc_status gpumc__check_sums(const gpumc__constraint *c, size_t at, const double *x,
                                      gpumc_error *error)
{
    const int factor = c->kind == GPUMC_CHOLESKY_CORR, zero = c->kind == GPUMC_SUM_TO_ZERO;
    double size = 1;
    for (size_t i = 0; i < c->n; i++) size = fmax(size, fabs(x[i]));
    for (size_t i = 0; i < c->n && c->kind >= GPUMC_SUM_TO_ZERO; i += c->size) {
        const double sum = factor ? gpumc__dot(x + i, x + i, c->size) : gpumc__sum(x + i, c->size);
        if (fabs(sum - !zero) <= (1 + factor) * gpumc__sum_tolerance * size) continue;
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "x[%.0f] to x[%.0f]%s %.9g, not %s", (double)(at + i),
                           (double)(at + i + c->size - 1), factor ? ", a row, have norm" : " sum to",
                           factor ? sqrt(sum) : sum, factor ? "1; divide by the norm"
                           : zero ? "to 0; subtract their mean" : "to 1; divide by the sum");
    }
    return GPUMC_OK;
}

static gpumc_status gpumc__check_natural(const gpumc__constraint *c, size_t at, const double *x,
                                         gpumc_error *error)
{
    for (size_t i = 0; i < c->n; i++) {
        const char *reason = gpumc__misfit(c, i, x);
        const int low = x[i] <= c->range.lower;
        if (reason)
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "x[%.0f] = %.9g %s", (double)(at + i), x[i],
                               reason);
        if (low || x[i] >= c->range.upper)
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                               "x[%.0f] = %.17g is not %s bound %.17g; give a value strictly inside",
                               (double)(at + i), x[i], low ? "above the lower" : "below the upper",
                               low ? c->range.lower : c->range.upper);
    }
    return gpumc__check_sums(c, at, x, error);
}

static gpumc_status gpumc__inverse(const gpumc__constraint *c, const double *x, double *q, gpumc_error *error)
{
    gpumc_status status = GPUMC_OK;
    if (!c->formula)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "kind %d is unknown; use a GPUMC_... kind",
                           (int)c->kind);
    for (size_t v = 0; v < c->count && status == GPUMC_OK; v++, x += c->n, q += c->n_free) {
        status = gpumc__check_natural(c, v * c->n, x, error);
        if (status == GPUMC_OK) c->formula->inverse(c, x, q);
        for (size_t i = 0; status == GPUMC_OK && i < c->n_free; i++)
            if (!gpumc__is_finite(q[i]))
                status = gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "x[%.0f]...x[%.0f] has no finite free "
                                     "coordinate: check bounds, multiplier and size", (double)(v * c->n),
                                     (double)((v + 1) * c->n - 1));
    }
    return status;
}

GPUMC_API size_t gpumc_transform_free_size(const gpumc_transform *t)
{
    const gpumc__constraint c = gpumc__constraint_of(t);
    return gpumc__size_mul(c.n_free, c.count);
}

GPUMC_API size_t gpumc_transform_natural_size(const gpumc_transform *t)
{
    const gpumc__constraint c = gpumc__constraint_of(t);
    return gpumc__size_mul(c.n, c.count);
}

GPUMC_API double gpumc_constrain(const gpumc_transform *t, const double *q, double *x)
{
    const gpumc__constraint c = gpumc__constraint_of(t);
    return c.formula ? gpumc__map(&c, q, x) : GPUMC_NAN;
}

GPUMC_API gpumc_status gpumc_unconstrain(const gpumc_transform *t, const double *x, double *q,
                                         gpumc_error *error)
{
    gpumc__constraint c;
    if (!t || !x || !q)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_unconstrain: t, x or q is NULL");
    c = gpumc__constraint_of(t);
    return gpumc__inverse(&c, x, q, error);
}

GPUMC_API void gpumc_constrain_gradient(const gpumc_transform *t, const double *q, const double *x,
                                        const double *dx, double *dq)
{
    const gpumc__constraint c = gpumc__constraint_of(t);
    if (c.formula) gpumc__pull(&c, q, x, dx, dq);
}

/* ---- learned centring -------------------------------------------------------------------------
   Elements theta spread around a location mu with a scale tau, t = tau / tau0 in a unit of its own size. The
   sampler's coordinate q is set by a weight c:
       theta = mu + r (q - c mu),   r = t / h,   h^2 = 1 - c + c t^2,   log |d theta / d q| = log r.
   c = 0 is the non-centred form, c = 1 the centred one. Where the data hold a share c of what is known of
   theta at t = 1, theta given tau has a standard deviation proportional to r, and so q has one that tau does
   not change. r falls as t near t = 0, so there is no funnel, and stays below 1 / sqrt(c), so that in walks
   the product of many 1 - c r does not grow, as it would with r = t^(1 - c). c = 1 has a pole at t = 0, by
   which a chain that falls in would seem the best of all; learned, it is taken for .999, asked for, as it is.
   Once the bulk is reached, warm-up also knows where the data alone would have theta, the anchor m. Then
       theta = mu + (1 - k) (m - mu) + r q,   k = (1 - c) / h^2,
   k the population's share of what is known. Where data and population are normal, q is normal with a mean
   and a spread that neither mu nor tau moves (at a known tau: Papaspiliopoulos, Roberts & Skold 2003).
   Where tau is below 1e-13 of |mu|, theta - mu is made of rounding errors, and so is any density by it; below
   1e-100, 1 / tau^2 may overflow. There is no density there, lest a chain that is thrown in stays, with steps
   as small as the noise wants them.
   With G the total derivative by theta (through all that depends on it), the chain rule is
       d/dq = r G,   d/dmu += (1 - c r) G,   d/dlog tau += k ((theta - mu) G + 1),
   and with an anchor d/dmu += k G and d/dlog tau += k ((theta - mu + (1 - k) (m - mu)) G + 1).
   What data know may itself go with a value that all of them share: with sigma^-2, where sigma is the scale
   of their noise. Warm-up finds the value and the power p. With s = (sigma / sigma0)^p, h^2 = 1 - c + c s t^2
   and d/dlog sigma += p (1 - k) / 2 (((1 + k) (m - mu) - (theta - mu)) G - 1).
   Weights have few values, notches, so that a scale has a small table.
   mu may be one value, an element of another block by index, the element before (walk), or have a linear
   predictor added. The first element of a walk that starts at no location is no deviation from anything: all
   that follow hang on it, and tied to tau it would make a funnel of them. Elements are visited in order of
   dependence, forward for values, backward for derivatives.

   r = 1 everywhere is the centred frame: there the gradient of every other block is free of these terms,
   which makes it the frame in which warm-up keeps its draws while weights change. */
#define GPUMC__NONE SIZE_MAX
#define GPUMC__FINEST 1e-13
#define GPUMC__SMALLEST 1e-100
/* A unit's table: r, log r, k, d theta / d mu and d theta / d m by notches of c. */
enum { GPUMC__FULL = 20, GPUMC__LOG_R = 21, GPUMC__SLOPE = 42, GPUMC__BY_MU = 63, GPUMC__BY_ANCHOR = 84,
       GPUMC__TABLE = 105 };
static const double gpumc__notch[] = { 0, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5,
                                       0.6, 0.7, 0.8, 0.9, 0.94, 0.97, 0.984, 0.992, 1 };
static unsigned char gpumc__nearest_notch(double c)
{
    int p = c > 0.5 * gpumc__notch[1];
    for (; p > 0 && p < GPUMC__FULL; p++) {            /* by odds, whose ratios count */
        const double here = gpumc__notch[p], next = p + 1 < GPUMC__FULL ? gpumc__notch[p + 1] : 0.996;
        if (c * c * (1 - here) * (1 - next) < here * next * (1 - c) * (1 - c)) break;
    }
    return (unsigned char)p;
}

/* What data know of the elements goes with (x[at] per_unit)^(halves / 2); halves 0: with nothing. */
typedef struct gpumc__noise { size_t at; int halves; double per_unit; } gpumc__noise;

typedef struct gpumc__link {
    size_t at, size;                 /* natural offset and number of elements */
    size_t scale;                    /* natural offset of that block, or GPUMC__NONE */
    size_t *from, *unit; /* an element: natural index of its location or GPUMC__NONE; which scale value */
    size_t step;         /* from an element to that which is visited next */
    const double *covariates;
    size_t n_covariates, coefficients;
    size_t n_scales, n_units; /* scale values (1 without a scale); units: these and, for starts of walks, 1 */
    size_t table;                    /* where the units' tables lie in work */
    unsigned char *notches;          /* of c, one an element */
    double *anchors;                 /* m, one an element */
    double *per_unit;                /* 1 / tau0, one a unit */
    double most;                     /* c of the last notch */
    unsigned in_use;                 /* notches, a bit each */
    int first_in_use;
    int anchored;                    /* the anchors are in force */
    gpumc__noise noise, found;       /* with them; found: to be in force next */
    int tells, passes;               /* has messages; its locations in other blocks have some too */
    size_t messages, n_all;          /* where they lie in work, of how many natural values */
    const size_t *places;            /* of every natural value among them */
    size_t width, back;              /* elements of a row of them, places to the row before */
    int even;                        /* every row has one scale value */
    int single;  /* one location and scale for all, nothing else */
    int uniform; /* and one weight: the vector loops apply */
    double count[GPUMC__FULL + 1], sum[GPUMC__FULL + 1];     /* elements of every weight, their anchors */
} gpumc__link;

/* Whether element i is the first of a walk that starts at no location: theta = q, and nothing to learn. */
GPUMC__INLINE int gpumc__link_is_start(const gpumc__link *k, size_t i) { return k->unit[i] == k->n_scales; }

GPUMC__INLINE double gpumc__link_scale(const gpumc__link *k, size_t unit, const double *x)
{ return k->scale == GPUMC__NONE || unit == k->n_scales ? 1 : x[k->scale + unit]; }

/* Elements beside each other in a walk wait for each other: where there are several walks, all of them take
   their first step, then their second. */
static size_t gpumc__walk_step(size_t stride, size_t length, size_t size)
{ return stride == 1 && size / length >= 8 ? length : 1; }

GPUMC_FN double gpumc__link_mu(const gpumc__link *k, size_t i, const double *x)
{
    double mu = k->from[i] == GPUMC__NONE ? 0 : x[k->from[i]];
    for (size_t j = 0; j < k->n_covariates; j++)
        mu += k->covariates[i * k->n_covariates + j] * x[k->coefficients + j];
    return mu;
}

/* How much the data know at x, in units of what they know at the usual noise. */
static double gpumc__link_news(const gpumc__link *k, const double *x)
{
    const int n = k->noise.halves < 0 ? -k->noise.halves : k->noise.halves;
    double ratio, s;
    if (n == 0) return 1;
    ratio = x[k->noise.at] * k->noise.per_unit;
    s = n % 2 ? sqrt(ratio) : 1;
    for (int i = 0; i < n / 2; i++) s *= ratio;
    return k->noise.halves < 0 ? 1 / s : s;
}

/* To be called when weights or anchors have changed. */
static void gpumc__link_settle(gpumc__link *k)
{
    k->in_use = 0;
    k->single = k->n_covariates == 0;
    memset(k->count, 0, sizeof k->count);
    memset(k->sum, 0, sizeof k->sum);
    for (size_t i = 0; i < k->size; i++) {
        k->in_use |= 1u << k->notches[i];
        k->count[k->notches[i]]++;
        k->sum[k->notches[i]] += k->anchors[i];
        k->single &= k->from[i] == k->from[0] && k->unit[i] == k->unit[0];
    }
    k->uniform = k->single && k->in_use == 1u << k->notches[0];
    for (k->first_in_use = 0; !(k->in_use >> k->first_in_use & 1); k->first_in_use++) continue;
}

/* The tables of every scale value, for the weights in use. */
static void gpumc__link_tables(const gpumc__link *k, const double *x, double *work)
{
    double *table = work + k->table;
    const double news = gpumc__link_news(k, x);
    for (size_t u = 0; u < k->n_units; u++, table += GPUMC__TABLE) {
        const double t = gpumc__link_scale(k, u, x) * k->per_unit[u];
        for (int p = k->first_in_use; k->in_use >> p; p++) {
            const double c = p < GPUMC__FULL ? gpumc__notch[p] : u < k->n_scales ? k->most : 1, rest = 1 - c;
            if (!(k->in_use >> p & 1)) continue;
            const double inv = 1 / (rest + c * (t * t * news)), rr = t * t * inv;     /* 1 / h^2, r^2 */
            const int plain = p == 0 || rest == 0;             /* h is 1 or t */
            table[p] = rest == 0 ? 1 : plain ? t : sqrt(rr);
            table[GPUMC__LOG_R + p] = rest == 0 ? 0 : plain ? gpumc_log(t) : 0.5 * gpumc_log(rr);
            table[GPUMC__SLOPE + p] = plain ? rest : rest * inv;
            table[GPUMC__BY_MU + p] = k->anchored ? table[GPUMC__SLOPE + p] : 1 - gpumc__notch[p] * table[p];
            table[GPUMC__BY_ANCHOR + p] = k->anchored ? c * (t * t * news) * inv : 0;      /* 1 - k */
        }
    }
}

GPUMC__INLINE const double *gpumc__link_table(const gpumc__link *k, size_t i, const double *work)
{ return work + k->table + k->unit[i] * GPUMC__TABLE; }

/* Column column (0: r) of the table for element i. */
GPUMC__INLINE double gpumc__link_look_up(const gpumc__link *k, size_t i, const double *work, int column)
{ return gpumc__link_table(k, i, work)[column + k->notches[i]]; }

/* The largest |mu| from which elements of a unit can still be told, negative where there is none. */
GPUMC__INLINE double gpumc__link_reach(const gpumc__link *k, size_t unit, const double *x)
{
    const double tau = k->scale == GPUMC__NONE ? GPUMC_INF : gpumc__link_scale(k, unit, x);
    return tau >= GPUMC__SMALLEST ? tau / GPUMC__FINEST : -1;
}

/* ---- messages ----------------------------------------------------------------------------------
   In a walk, or where groups lie in groups, data know of an element also through those after it, and the less
   the wider the scale between: weights cannot follow that. Let the data of an element alone say
   b theta - J theta^2 / 2. From the last to the first, every element tells its location what it knows,
       k = 1 / (1 + tau^2 J),   J += k J,   b += k b   (the right sides its own, the left its location's),
   the information filter run backward. All that is known of theta but by its location then gives
       theta = k mu + v b + sqrt(v) q,   v = tau^2 k.
   Where data and populations are normal, every q is a standard normal of its own, whatever the scales are.
   What has no location itself, as the first element of a walk that starts at none or a parameter about which
   a block spreads, has k = 0 and v = 1 / J. Elements that none tells anything have their tables, and no
   messages but to their locations. Derivatives come back through the messages from the first element to the
   last.

   Elements are visited in rows that do not wait within: all walks take their first step, then their second; a
   block that is no walk is one row. A few walks have rows of one. In these arrays rows lie one behind the
   other, which for walks beside each other is not the order of the natural values. */
typedef struct gpumc__messages {
    double *J, *b, *k, *r, *by_J, *by_b, *theta, *G, *target, *moment, *spare;  /* spare: two rows */
} gpumc__messages;
enum { GPUMC__MESSAGES = 1 + sizeof(gpumc__messages) / sizeof(double *) };

GPUMC__INLINE int gpumc__link_is_told(const gpumc__link *k) { return k->tells && k->anchored; }
GPUMC__INLINE int gpumc__link_informs(const gpumc__link *k) { return k->passes && !k->tells && k->anchored; }

/* In work: what is known, k, r = sqrt(v), the log density's derivatives; and room of a block's size. */
GPUMC__INLINE gpumc__messages gpumc__link_messages(const gpumc__link *k, double *work)
{
    double *at = work + k->messages;
    const size_t n = k->n_all;
    const gpumc__messages m = { at, at + n, at + 2 * n, at + 3 * n, at + 4 * n, at + 5 * n, at + 6 * n,
                                at + 7 * n, at + 8 * n, at + 9 * n, at + 10 * n };
    return m;
}

/* Values of a block in the order of its rows, and back. */
static void gpumc__told_in_rows(const gpumc__link *k, const double *natural, double *rows)
{
    if (k->step == 1) memcpy(rows, natural, k->size * sizeof *rows);
    else for (size_t t = 0; t < k->step; t++, rows += k->width)
        for (size_t i = 0; i < k->width; i++) rows[i] = natural[i * k->step + t];
}

static void gpumc__told_from_rows(const gpumc__link *k, const double *rows, double *natural)
{
    if (k->step == 1) memcpy(natural, rows, k->size * sizeof *rows);
    else for (size_t t = 0; t < k->step; t++, rows += k->width)
        for (size_t i = 0; i < k->width; i++) natural[i * k->step + t] = rows[i];
}

/* The element with which the row at place at begins; the next is k->step on. */
GPUMC__INLINE size_t gpumc__told_begin(const gpumc__link *k, size_t at)
{ return k->step == 1 ? at : at / k->width; }
/* Whether the row's locations are the elements of one before, k->back places from it. */
GPUMC__INLINE int gpumc__told_follows(const gpumc__link *k, size_t i)
{ return k->from[i] >= k->at && k->from[i] != GPUMC__NONE; }

/* 1 / tau^2; 0 for the first element of a walk that starts at no location, NaN where there is no density. */
GPUMC__INLINE double gpumc__link_precision(const gpumc__link *k, size_t unit, const double *x)
{
    const double tau = gpumc__link_scale(k, unit, x);
    return unit == k->n_scales ? 0 : tau >= GPUMC__SMALLEST ? 1 / (tau * tau) : GPUMC_NAN;
}

/* Hands on what a row that follows none has for its locations, where these are told. */
static void gpumc__told_give(const gpumc__link *k, size_t i, const double *a, const double *b, double *to_a,
                            double *to_b)
{
    for (size_t w = 0; k->passes && w < k->width; w++, i += k->step) {
        if (k->from[i] == GPUMC__NONE) continue;
        to_a[k->places[k->from[i]]] += a[w];
        to_b[k->places[k->from[i]]] += b[w];
    }
}

/* The scales' share of what the rows' moments are. */
static void gpumc__told_moments(const gpumc__link *k, size_t i, const double *moment, const double *x,
                               double *target)
{
    if (k->even) {
        const double sum = k->width == 1 ? moment[0] : gpumc__sum(moment, k->width);
        if (k->unit[i] < k->n_scales) target[k->scale + k->unit[i]] += sum / x[k->scale + k->unit[i]];
        return;
    }
    for (size_t w = 0; w < k->width; w++, i += k->step)
        if (k->unit[i] < k->n_scales) target[k->scale + k->unit[i]] += moment[w] / x[k->scale + k->unit[i]];
}

GPUMC__COPIES(, void, gpumc__tell_row,
              (size_t n, const double *GPUMC__RESTRICT precision, const double *GPUMC__RESTRICT J,
               const double *GPUMC__RESTRICT b, double *GPUMC__RESTRICT k, double *GPUMC__RESTRICT r,
               double *GPUMC__RESTRICT to_J, double *GPUMC__RESTRICT to_b),
              (n, precision, J, b, k, r, to_J, to_b), n >= GPUMC__LANES)
{
    for (size_t i = 0; i < n; i++) {
        const double sum = precision[i] + J[i], known = sum >= 1e-290 ? sum : 1, share = precision[i] / known;
        k[i] = share;
        r[i] = gpumc__rsqrt_normal(known);
        to_J[i] += share * J[i];
        to_b[i] += share * b[i];
    }
}

/* What elements tell, r included; of a block after all those that tell it something. */
static void gpumc__link_tell(const gpumc__link *k, const double *x, double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    const size_t n = k->width;
    double *precision = m.moment, *spare = m.spare;
    for (size_t at = k->size; at > 0;) {
        const size_t i = gpumc__told_begin(k, at -= n), e = k->at + at;
        const int follows = gpumc__told_follows(k, i);
        double *J = follows ? m.J + e - k->back : spare, *b = follows ? m.b + e - k->back : spare + n;
        const double common = gpumc__link_precision(k, k->unit[i], x);
        for (size_t w = 0; w < n; w++)
            precision[w] = k->even ? common : gpumc__link_precision(k, k->unit[i + w * k->step], x);
        if (!follows) memset(spare, 0, 2 * n * sizeof *spare);
        gpumc__tell_row(n, precision, m.J + e, m.b + e, m.k + e, m.r + e, J, b);
        if (!follows) gpumc__told_give(k, i, J, b, m.J, m.b);
    }
}

/* What elements without messages of their own tell their locations: k J = (1 - k) / tau^2, about the anchor.
   Fills the tables. Of a single location and scale all elements of one weight are told of at once. */
static void gpumc__link_inform(const gpumc__link *k, const double *x, double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    size_t to = k->places[k->from[0]], unit = k->unit[0];
    double precision = gpumc__link_precision(k, unit, x);
    gpumc__link_tables(k, x, work);
    for (int p = k->first_in_use; k->single && k->in_use >> p; p++) {
        const double J = precision * gpumc__link_table(k, 0, work)[GPUMC__BY_ANCHOR + p];
        if (!(k->in_use >> p & 1)) continue;
        m.J[to] += k->count[p] * J;
        m.b[to] += k->sum[p] * J;
    }
    for (size_t i = 0; !k->single && i < k->size; i++) {
        if (k->unit[i] != unit) precision = gpumc__link_precision(k, unit = k->unit[i], x);
        const double J = precision * gpumc__link_look_up(k, i, work, GPUMC__BY_ANCHOR);
        to = k->places[k->from[i]];
        m.J[to] += J;
        m.b[to] += J * k->anchors[i];
    }
}

/* The chain rule through that: by log tau k J goes with -2 (1 - k), by the logarithm of the news with k. */
static void gpumc__inform_pull_back(const gpumc__link *k, const double *x, double *target, double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    size_t from = k->places[k->from[0]], unit = k->unit[0];
    double precision = gpumc__link_precision(k, unit, x), moment = 0, heard = 0;
    for (int p = k->first_in_use; k->single && k->in_use >> p; p++) {
        const double rest = gpumc__link_table(k, 0, work)[GPUMC__BY_ANCHOR + p];
        if (!(k->in_use >> p & 1)) continue;
        const double moved = precision * rest * (k->count[p] * m.by_J[from] + k->sum[p] * m.by_b[from]);
        moment += rest * moved;
        heard += (1 - rest) * moved;
    }
    for (size_t i = 0; !k->single && i < k->size; i++) {
        const double rest = gpumc__link_look_up(k, i, work, GPUMC__BY_ANCHOR);
        if (k->unit[i] != unit) {
            target[k->scale + unit] -= 2 * moment / x[k->scale + unit];
            precision = gpumc__link_precision(k, unit = k->unit[i], x);
            moment = 0;
        }
        from = k->places[k->from[i]];
        const double moved = precision * rest * (m.by_J[from] + k->anchors[i] * m.by_b[from]);
        moment += rest * moved;
        heard += (1 - rest) * moved;
    }
    target[k->scale + unit] -= 2 * moment / x[k->scale + unit];
    if (k->noise.halves) target[k->noise.at] += 0.5 * k->noise.halves * heard / x[k->noise.at];
}

/* mu of the row at place at, which begins with element i. */
GPUMC__INLINE const double *gpumc__told_mu(const gpumc__link *k, size_t at, size_t i, const double *x,
                                          const gpumc__messages *m)
{
    double *mu = m->spare + k->width;
    if (gpumc__told_follows(k, i)) return m->theta + k->at + at - k->back;
    for (size_t w = 0; w < k->width; w++, i += k->step) mu[w] = k->from[i] == GPUMC__NONE ? 0 : x[k->from[i]];
    return mu;
}

/* Returns how many locations are beyond reach: |mu| > tau / FINEST, where k = r^2 / tau^2. */
GPUMC__COPIES(return, uint64_t, gpumc__told_map_row,
              (size_t n, const double *GPUMC__RESTRICT q, const double *GPUMC__RESTRICT mu,
               const double *GPUMC__RESTRICT b, const double *GPUMC__RESTRICT k,
               const double *GPUMC__RESTRICT r, double *GPUMC__RESTRICT theta), (n, q, mu, b, k, r, theta),
              n >= GPUMC__LANES)
{
    uint64_t beyond = 0;
    for (size_t i = 0; i < n; i++) {
        const double reach = r[i] * (1 / GPUMC__FINEST);
        theta[i] = k[i] * mu[i] + r[i] * (r[i] * b[i] + q[i]);
        beyond += mu[i] * mu[i] * k[i] < reach * reach ? 0 : 1;
    }
    return beyond;
}

static double gpumc__told_map(const gpumc__link *k, const double *q, double *x, double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    const size_t n = k->width;
    uint64_t beyond = 0;
    gpumc__told_in_rows(k, q, m.G);
    for (size_t at = 0; at < k->size; at += n) {
        const size_t e = k->at + at;
        const double *mu = gpumc__told_mu(k, at, gpumc__told_begin(k, at), x, &m), *from = m.G + at;
        beyond += gpumc__told_map_row(n, from, mu, m.b + e, m.k + e, m.r + e, m.theta + e);
    }
    gpumc__told_from_rows(k, m.theta + k->at, x + k->at);
    return beyond ? -GPUMC_INF : gpumc__sum_log(m.r + k->at, k->size);
}

static double gpumc__told_inverse(const gpumc__link *k, const double *x, double *q, double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    const size_t n = k->width;
    gpumc__told_in_rows(k, x + k->at, m.theta + k->at);
    for (size_t at = 0; at < k->size; at += n) {
        const size_t e = k->at + at;
        const double *mu = gpumc__told_mu(k, at, gpumc__told_begin(k, at), x, &m), *theta = m.theta + e;
        for (size_t w = 0; w < n; w++)
            m.G[at + w] = (theta[w] - m.k[e + w] * mu[w]) / m.r[e + w] - m.r[e + w] * m.b[e + w];
    }
    gpumc__told_from_rows(k, m.G, q);
    return gpumc__sum_log(m.r + k->at, k->size);
}

/* G becomes dq. theta is what map or inverse have left. */
GPUMC__COPIES(, void, gpumc__told_pull_row,
              (size_t n, const double *GPUMC__RESTRICT theta, const double *GPUMC__RESTRICT mu,
               const double *GPUMC__RESTRICT J, const double *GPUMC__RESTRICT b,
               const double *GPUMC__RESTRICT k, const double *GPUMC__RESTRICT r, double *GPUMC__RESTRICT G,
               double *GPUMC__RESTRICT by_J, double *GPUMC__RESTRICT by_b, double *GPUMC__RESTRICT to,
               double *GPUMC__RESTRICT moment), (n, theta, mu, J, b, k, r, G, by_J, by_b, to, moment),
              n >= GPUMC__LANES)
{
    for (size_t i = 0; i < n; i++) {
        const double g = G[i], v = r[i] * r[i], share = k[i], middle = share * mu[i] + v * b[i];
        G[i] = r[i] * g;
        by_b[i] = v * g;
        by_J[i] = -0.5 * v * (g * (theta[i] + middle) + 1);
        to[i] += share * g;
        moment[i] = share * (g * (2 * v * (b[i] - J[i] * mu[i]) + theta[i] - middle) + 1);
    }
}

static void gpumc__told_pull(const gpumc__link *k, const double *x, const double *G, double *target,
                             double *dq, double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    const size_t n = k->width;
    double *receives = G == target ? m.G : m.target;
    gpumc__told_in_rows(k, G + k->at, m.G);
    if (G != target) gpumc__told_in_rows(k, target + k->at, m.target);
    for (size_t at = k->size; at > 0;) {
        const size_t i = gpumc__told_begin(k, at -= n), e = k->at + at;
        const int follows = gpumc__told_follows(k, i);
        const double *theta = m.theta + e, *mu = gpumc__told_mu(k, at, i, x, &m);
        double *to = follows ? receives + at - k->back : m.spare, *by_J = m.by_J + e, *by_b = m.by_b + e;
        if (!follows) memset(to, 0, n * sizeof *to);
        gpumc__told_pull_row(n, theta, mu, m.J + e, m.b + e, m.k + e, m.r + e, m.G + at, by_J, by_b, to,
                             m.moment);
        gpumc__told_moments(k, i, m.moment, x, target);
        for (size_t w = 0; w < n && !follows; w++)
            if (k->from[i + w * k->step] != GPUMC__NONE) target[k->from[i + w * k->step]] += to[w];
    }
    gpumc__told_from_rows(k, m.G, dq);
    if (G != target) gpumc__told_from_rows(k, m.target, target + k->at);
}

GPUMC__COPIES(, void, gpumc__told_pull_back_row,
              (size_t n, const double *GPUMC__RESTRICT J, const double *GPUMC__RESTRICT b,
               const double *GPUMC__RESTRICT k, const double *GPUMC__RESTRICT r,
               const double *GPUMC__RESTRICT of_J, const double *GPUMC__RESTRICT of_b,
               double *GPUMC__RESTRICT by_J, double *GPUMC__RESTRICT by_b, double *GPUMC__RESTRICT moment),
              (n, J, b, k, r, of_J, of_b, by_J, by_b, moment), n >= GPUMC__LANES)
{
    for (size_t i = 0; i < n; i++) {
        const double by_k = k[i] * r[i] * r[i], pulls = b[i] * of_b[i];
        by_J[i] += k[i] * k[i] * of_J[i] - by_k * pulls;
        by_b[i] += k[i] * of_b[i];
        moment[i] = -2 * by_k * J[i] * (J[i] * of_J[i] + pulls);
    }
}

/* The chain rule through what elements tell, of a block after its location. */
static void gpumc__told_pull_back(const gpumc__link *k, const double *x, double *target, double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    const size_t n = k->width;
    for (size_t at = 0; at < k->size; at += n) {
        const size_t i = gpumc__told_begin(k, at), e = k->at + at;
        const int follows = gpumc__told_follows(k, i);
        const double *of_J = follows ? m.by_J + e - k->back : m.spare;
        const double *of_b = follows ? m.by_b + e - k->back : m.spare + n;
        if (!follows && !k->passes) continue;
        for (size_t w = 0; w < n && !follows; w++) {
            const size_t from = k->from[i + w * k->step];
            m.spare[w] = from == GPUMC__NONE ? 0 : m.by_J[k->places[from]];
            m.spare[n + w] = from == GPUMC__NONE ? 0 : m.by_b[k->places[from]];
        }
        gpumc__told_pull_back_row(n, m.J + e, m.b + e, m.k + e, m.r + e, of_J, of_b, m.by_J + e, m.by_b + e,
                                  m.moment);
        gpumc__told_moments(k, i, m.moment, x, target);
    }
}

/* r and d theta / d mu of element i, in all forms. */
GPUMC__INLINE double gpumc__link_r(const gpumc__link *k, size_t i, double *work)
{
    return gpumc__link_is_told(k) ? gpumc__link_messages(k, work).r[k->places[k->at + i]]
                                  : gpumc__link_look_up(k, i, work, 0);
}
GPUMC__INLINE double gpumc__link_by_mu(const gpumc__link *k, size_t i, double *work)
{
    return gpumc__link_is_told(k) ? gpumc__link_messages(k, work).k[k->places[k->at + i]]
                                  : gpumc__link_look_up(k, i, work, GPUMC__BY_MU);
}

/* ---- links of all forms ------------------------------------------------------------------------ */

/* theta from q, after the blocks before it; fills the tables. Returns log |d theta / d q|, -infinity where a
   location is beyond reach. */
static GPUMC_LOOP double gpumc__link_map(const gpumc__link *k, const double *q, double *x, double *work)
{
    double *theta = x + k->at, log_jacobian = 0;
    const double *anchors = k->anchors;
    const size_t n = k->size, step = k->step, *units = k->unit;
    const unsigned char *notches = k->notches;
    if (gpumc__link_is_told(k)) return gpumc__told_map(k, q, x, work);
    if (!gpumc__link_informs(k)) gpumc__link_tables(k, x, work);
    if (k->uniform) {
        const double mu = gpumc__link_mu(k, 0, x), r = gpumc__link_look_up(k, 0, work, 0);
        const double shift = mu * gpumc__link_look_up(k, 0, work, GPUMC__BY_MU);
        const double by_anchor = gpumc__link_look_up(k, 0, work, GPUMC__BY_ANCHOR);
        if (by_anchor > 0)
            for (size_t i = 0; i < n; i++) theta[i] = shift + r * q[i] + by_anchor * anchors[i];
        else for (size_t i = 0; i < n; i++) theta[i] = shift + r * q[i];
        if (!(fabs(mu) <= gpumc__link_reach(k, units[0], x))) return -GPUMC_INF;
        return (double)n * gpumc__link_look_up(k, 0, work, GPUMC__LOG_R);
    }
    for (size_t t = 0; t < step; t++)
        for (size_t i = t; i < n;) {
            const size_t unit = units[i];
            const double *table = gpumc__link_table(k, i, work), reach = gpumc__link_reach(k, unit, x);
            do {
                const double *at = table + notches[i], mu = gpumc__link_mu(k, i, x);
                theta[i] = at[0] * q[i] + at[GPUMC__BY_MU] * mu + at[GPUMC__BY_ANCHOR] * anchors[i];
                if (!(fabs(mu) <= reach)) log_jacobian = -GPUMC_INF;
                log_jacobian += at[GPUMC__LOG_R];
            } while ((i += step) < n && units[i] == unit);
        }
    return log_jacobian;
}

/* q from theta; fills the tables. Returns log |d theta / d q| as well. */
static double gpumc__link_inverse(const gpumc__link *k, const double *x, double *q, double *work)
{
    double log_jacobian = 0;
    if (gpumc__link_is_told(k)) return gpumc__told_inverse(k, x, q, work);
    if (!gpumc__link_informs(k)) gpumc__link_tables(k, x, work);
    for (size_t i = 0; i < k->size; i++) {
        const double *at = gpumc__link_table(k, i, work) + k->notches[i], mu = gpumc__link_mu(k, i, x);
        const double c = k->anchored ? 0 : gpumc__notch[k->notches[i]];
        q[i] = (x[k->at + i] - mu - at[GPUMC__BY_ANCHOR] * (k->anchors[i] - mu)) / at[0] + c * mu;
        log_jacobian += at[GPUMC__LOG_R];
    }
    return log_jacobian;
}

/* What the noise of the data receives: sum is over (1 - k) (((1 + k) (m - mu) - (theta - mu)) G - 1). */
static void gpumc__link_hear(const gpumc__link *k, const double *x, double sum, double *target)
{ if (k->noise.halves) target[k->noise.at] += 0.25 * k->noise.halves * sum / x[k->noise.at]; }

/* Backward sweep: dq = r G from total derivatives G, and what location and scale of every element receive is
   added to target (natural offsets, like G). G and target may be one array: then a walk's contributions reach
   the elements before in time. */
static GPUMC_LOOP void gpumc__link_pull(const gpumc__link *k, const double *x, const double *G,
                                        double *target, double *dq, double *work)
{
    const double *theta = x + k->at, *g = G + k->at, *anchors = k->anchors;
    const size_t step = k->step, *from = k->from, *units = k->unit;
    const unsigned char *notches = k->notches;
    double received = 0, heard = 0;
    if (gpumc__link_is_told(k)) { gpumc__told_pull(k, x, G, target, dq, work); return; }
    if (k->uniform) {
        const double *at = gpumc__link_table(k, 0, work) + notches[0], r = at[0], slope = at[GPUMC__SLOPE];
        const double sum = slope > 0 ? gpumc__sum(g, k->size) : 0;     /* centred: nothing is received */
        const size_t scale = k->scale + k->unit[0];
        if (slope > 0) {
            const double mu = gpumc__link_mu(k, 0, x), by_anchor = at[GPUMC__BY_ANCHOR];
            const double moment = gpumc__dot(theta, g, k->size) - mu * sum;
            const double away = by_anchor > 0 ? gpumc__dot(anchors, g, k->size) - mu * sum : 0;
            const double n = (double)k->size;
            if (k->from[0] != GPUMC__NONE) target[k->from[0]] += at[GPUMC__BY_MU] * sum;
            gpumc__link_hear(k, x, by_anchor * ((1 + slope) * away - moment - n), target);
            if (k->scale != GPUMC__NONE)
                target[scale] += slope * (moment + by_anchor * away + n) / x[scale];
        }
        for (size_t i = 0; i < k->size; i++) dq[i] = r * g[i];
        return;
    }
    for (size_t t = k->step; t-- > 0;)
        for (size_t i = t + (k->size - 1 - t) / step * step + step; i > t;) {
            const size_t unit = units[i - step];
            const double *table = gpumc__link_table(k, i - step, work);
            double moment = 0;
            do {
                const size_t place = from[i -= step];
                const double *at = table + notches[i], g_i = g[i], mu = gpumc__link_mu(k, i, x);
                const double away = at[GPUMC__BY_ANCHOR] * (anchors[i] - mu), slope = at[GPUMC__SLOPE];
                moment += slope * ((theta[i] - mu + away) * g_i + 1);
                heard += ((1 + slope) * away - at[GPUMC__BY_ANCHOR] * (theta[i] - mu)) * g_i
                    - at[GPUMC__BY_ANCHOR];
                dq[i] = at[0] * g_i;
                if (i > t && from[i - step] == place) { received += at[GPUMC__BY_MU] * g_i; continue; }
                if (place != GPUMC__NONE) target[place] += received + at[GPUMC__BY_MU] * g_i;
                received = 0;
            } while (i > t && units[i - step] == unit);
            if (k->scale != GPUMC__NONE && unit < k->n_scales)
                target[k->scale + unit] += moment / x[k->scale + unit];
        }
    gpumc__link_hear(k, x, heard, target);
    for (size_t i = 0; i < k->size * k->n_covariates; i++) {
        const size_t e = i / k->n_covariates;
        target[k->coefficients + i % k->n_covariates] += k->covariates[i] * g[e]
            * gpumc__link_look_up(k, e, work, GPUMC__BY_MU);
    }
}

/* ======================================================================================== >>model
   From a list of parameter blocks to one function of free coordinates. The layout is the model compiled once:
   where every block lies in the free and the natural vector, its constraint, its links to other blocks. Read
   first: gpumc_model_eval, the only caller of a log density; then gpumc__layout_place, which fills the
   layout. */
typedef struct gpumc__placed {
    const gpumc_param *param;
    gpumc__constraint constraint;
    size_t free_at, free_size, at, size;
    int linked; /* has a location, scale, walk or covariates, or hears of those: link instead of constraint */
    gpumc__link link;
} gpumc__placed;

/* Values that data of all elements share, as a slope or an intercept: b of an element goes with them. */
enum { GPUMC__MOST_SHARED = 16 };
typedef struct gpumc__shared { size_t at; double middle; } gpumc__shared;

struct gpumc_layout {
    const gpumc_model *model;
    gpumc__placed *parts;
    size_t *order;                   /* of the parts: those without link first */
    size_t leader;                   /* the first part that passes messages on, or GPUMC__NONE */
    double *evidence;                /* J, then b, of the data alone for every natural value, by places */
    size_t *places;                  /* where in messages a natural value stands */
    gpumc__shared shared[GPUMC__MOST_SHARED];
    size_t n_shared;
    double *slopes;                  /* of every b in every shared value from its middle on, as evidence */
    size_t n_parts, n_free, n_natural, n_work, n_linked;
    unsigned char *notches;          /* of every free coordinate; GPUMC__FULL where centring has no meaning */
    double *anchors;                 /* of every free coordinate of a link */
    double *typical;                 /* of every free coordinate, 0 where its map is another */
};
GPUMC__SELDOM

/* ---- validation -------------------------------------------------------------------------------- */

static int gpumc__is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int gpumc__name_is_valid(const char *name)
{
    static const char *const reserved[] = { "chain", "draw", "sample", "pred_id" };
    size_t n = 0;
    for (; name[n]; n++)
        if (!gpumc__is_letter(name[n]) && (n == 0 || (name[n] != '_' && (name[n] < '0' || name[n] > '9'))))
            return 0;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(name, reserved[i]) == 0) return 0;
    return n > 0 && n <= 200 && !(n > 1 && name[n - 1] == '_' && name[n - 2] == '_');
}

/* Of valid names, regardless of case. */
static int gpumc__same_word(const char *a, const char *b)
{
    while (*a && (*a == *b || (gpumc__is_letter(*a) && (*a ^ *b) == 'a' - 'A'))) a++, b++;
    return *a == *b;
}

/* Parameters, then outputs, as blocks of one kind. */
static gpumc_output gpumc__nth_block(const gpumc_model *m, size_t i)
{
    const gpumc_param *p = &m->params[i < m->n_params ? i : 0];
    const gpumc_output block = { p->name, p->size, p->dims, p->n_dims, GPUMC_GENERATED };
    return i < m->n_params ? block : m->outputs[i - m->n_params];
}

/* Number of values of a block; 0 when size and dims contradict each other or overflow. */
static size_t gpumc__nth_size(const gpumc_model *m, size_t i)
{
    const gpumc_output b = gpumc__nth_block(m, i);
    size_t product = 1;
    for (size_t d = 0; d < b.n_dims; d++) product = gpumc__size_mul(product, b.dims[d]);
    if (b.n_dims == 0) product = b.size ? b.size : 1;
    return product >= SIZE_MAX / 1024 || (b.size && b.size != product) ? 0 : product;
}

/* Fails with a text that names the block first. */
static GPUMC__PRINTF(4, 5) gpumc_status
    gpumc__bad_block(gpumc_error *error, const char *what, const char *name, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gpumc__fail(error, GPUMC_ERROR_MODEL, "%s \"%.48s\": %s", what, name, text);
}
/* The same for block i where something is wrong: whether it was. */
#define GPUMC__WRONG(m, i, error, wrong, ...) \
    ((wrong) && gpumc__bad_block(error, (i) < (m)->n_params ? "parameter" : "output", \
                                 gpumc__nth_block(m, i).name, __VA_ARGS__) < 0)

static int gpumc__block_is_wrong(const gpumc_model *m, size_t i, gpumc_error *error)
{
    const gpumc_output b = gpumc__nth_block(m, i);
    const int is_param = i < m->n_params;
    size_t twin = 0;
    while (b.name && twin < i && !gpumc__same_word(b.name, gpumc__nth_block(m, twin).name)) twin++;
    if (!b.name)
        return gpumc__fail(error, GPUMC_ERROR_MODEL, "%s %.0f has no name; set .name",
                           is_param ? "parameter" : "output", (double)(is_param ? i : i - m->n_params)) < 0;
    return GPUMC__WRONG(m, i, error, !gpumc__name_is_valid(b.name), "names are letters, digits and _, start "
                        "with a letter, do not end in __, and are not chain, draw, sample or pred_id")
        || GPUMC__WRONG(m, i, error, twin < i,
                        "the name stands twice; letter case does not tell blocks apart")
        || GPUMC__WRONG(m, i, error, !b.n_dims != !b.dims, "n_dims is %.0f and dims is %s; give both or none",
                        (double)b.n_dims, b.dims ? "given" : "NULL")
        || GPUMC__WRONG(m, i, error, gpumc__nth_size(m, i) == 0, "size %.0f and dims contradict each other, "
                        "hold a zero or overflow; leave size 0 to take the product of dims", (double)b.size)
        || GPUMC__WRONG(m, i, error, (int)b.group < 0 || b.group > GPUMC_POSTERIOR_PREDICTIVE,
                        "group %d is unknown", (int)b.group);
}

static int gpumc__kind_is_wrong(const gpumc_model *m, size_t i, gpumc_error *error)
{
    const gpumc_param *p = &m->params[i];
    const size_t last = p->n_dims ? p->dims[p->n_dims - 1] : gpumc__nth_size(m, i);
    const int interval = p->kind == GPUMC_INTERVAL, factor = p->kind == GPUMC_CHOLESKY_CORR;
    const int shrinks = factor || p->kind == GPUMC_SIMPLEX || p->kind == GPUMC_SUM_TO_ZERO;
    const double lower = interval || p->kind == GPUMC_LOWER ? p->lower : 0;
    const double upper = interval || p->kind == GPUMC_UPPER ? p->upper : 0;
    const double offset = p->kind == GPUMC_AFFINE ? p->offset : 0;
    const double multiplier = p->kind == GPUMC_AFFINE ? p->multiplier : 1;
    const int bounded = (p->lower != 0 && p->lower > -GPUMC_INF) || (p->upper != 0 && p->upper < GPUMC_INF);
    return GPUMC__WRONG(m, i, error, (int)p->kind < 0 || p->kind > GPUMC_CHOLESKY_CORR,
                        "kind %d is unknown; use a GPUMC_... kind", (int)p->kind)
        || GPUMC__WRONG(m, i, error, factor && (p->n_dims < 2 || p->dims[p->n_dims - 2] != last),
                        "a GPUMC_CHOLESKY_CORR block needs dims that end in K, K")
        || GPUMC__WRONG(m, i, error, shrinks && last < 2, "a simplex, sum-to-zero vector or correlation "
                        "factor needs at least 2 values a vector, not %.0f", (double)last)
        || GPUMC__WRONG(m, i, error, !gpumc__is_finite(lower) || !gpumc__is_finite(upper),
                        "bounds %g and %g must be finite", p->lower, p->upper)
        || GPUMC__WRONG(m, i, error, interval && !(lower < upper && gpumc__is_finite(upper - lower)),
                        "lower %g must be below upper %g (set both)", lower, upper)
        || GPUMC__WRONG(m, i, error, p->kind == GPUMC_UNBOUNDED && bounded, "lower %g and upper %g are given "
                        "but no kind; set .kind to GPUMC_LOWER, GPUMC_UPPER or GPUMC_INTERVAL", p->lower,
                        p->upper)
        || GPUMC__WRONG(m, i, error, !(multiplier > 0 && gpumc__is_finite(multiplier + fabs(offset))),
                        "offset %g must be finite, multiplier %g positive and finite", offset, multiplier)
        || GPUMC__WRONG(m, i, error, !gpumc__is_finite(p->typical), "typical %g is not finite; 0 is learned",
                        p->typical);
}

/* Index of the block a name stands for, among the first n; n when there is none. */
static size_t gpumc__find_param(const gpumc_model *m, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && !(name && strcmp(m->params[i].name, name) == 0)) i++;
    return i;
}

static int gpumc__is_positive(const gpumc_param *p)
{
    switch (p->kind) {
    case GPUMC_POSITIVE: case GPUMC_UNIT: case GPUMC_POSITIVE_ORDERED: case GPUMC_SIMPLEX: return 1;
    case GPUMC_LOWER: case GPUMC_INTERVAL: return p->lower >= 0;
    default: return 0;
    }
}

/* A location or scale must stand earlier, have a fitting size and, as a scale, be positive. */
static int gpumc__link_is_wrong(const gpumc_model *m, size_t i, const char *role, const char *name,
                                const size_t *index, gpumc_error *error)
{
    const size_t at = gpumc__find_param(m, i, name), size = gpumc__nth_size(m, i), n = gpumc__nth_size(m, at);
    size_t k = 0;
    while (index && k < size && index[k] < n) k++;
    if (!name)
        return GPUMC__WRONG(m, i, error, index != NULL, "%s_index is given without %s; name the block", role,
                            role);
    return GPUMC__WRONG(m, i, error, at == i, "%s \"%.60s\" is no parameter that stands earlier in the list; "
                        "add it or move it up", role, name)
        || GPUMC__WRONG(m, i, error, role[0] == 's' && !gpumc__is_positive(&m->params[at]),
                        "scale \"%.60s\" is not positive by declaration (kind %d); declare it GPUMC_POSITIVE",
                        name, (int)m->params[at].kind)
        || GPUMC__WRONG(m, i, error, !index && n != 1 && n != size, "%s \"%.60s\" has %.0f values where 1 or "
                        "%.0f would fit; give %s_index", role, name, (double)n, (double)size, role)
        || GPUMC__WRONG(m, i, error, index && k < size, "%s_index[%.0f] = %.0f is outside 0..%.0f (size of "
                        "\"%.60s\"); indices count from 0", role, (double)k,
                        index && k < size ? (double)index[k] : 0, (double)(n - 1), name);
}

static int gpumc__is_linked(const gpumc_param *p)
{ return p->location || p->scale || p->walk_dim > 0 || p->covariates; }

static int gpumc__hierarchy_is_wrong(const gpumc_model *m, size_t i, gpumc_error *error)
{
    const gpumc_param *p = &m->params[i];
    const size_t n_dims = p->n_dims ? p->n_dims : 1, at = gpumc__find_param(m, i, p->coefficients);
    const double tenths = p->centring == GPUMC_CENTRING_WEIGHT ? 10 * p->centring_weight : 0;
    const int misfits = p->coefficients && (at == i || gpumc__nth_size(m, at) != p->n_covariates);
    const size_t n = p->covariates ? gpumc__nth_size(m, i) * p->n_covariates : 0;
    size_t k = 0;
    while (k < n && gpumc__is_finite(p->covariates[k])) k++;
    return gpumc__link_is_wrong(m, i, "location", p->location, p->location_index, error)
        || gpumc__link_is_wrong(m, i, "scale", p->scale, p->scale_index, error)
        || GPUMC__WRONG(m, i, error, gpumc__is_linked(p) && p->kind != GPUMC_UNBOUNDED, "a block with "
                        "location, scale, walk or covariates must be GPUMC_UNBOUNDED, not kind %d; model its "
                        "logarithm instead", (int)p->kind)
        || GPUMC__WRONG(m, i, error, p->walk_dim > n_dims, "walk_dim %.0f is more than its %.0f dimensions",
                        (double)p->walk_dim, (double)n_dims)
        || GPUMC__WRONG(m, i, error, !p->covariates != !p->n_covariates || !p->covariates != !p->coefficients,
                        "covariates, n_covariates and coefficients belong together; give all or none")
        || GPUMC__WRONG(m, i, error, misfits, "coefficients \"%.60s\" must be an earlier block of %.0f "
                        "values", p->coefficients ? p->coefficients : "", (double)p->n_covariates)
        || GPUMC__WRONG(m, i, error, k < n, "covariates[%.0f] = %g is not finite", (double)k,
                        k < n ? p->covariates[k] : 0)
        || GPUMC__WRONG(m, i, error, (int)p->centring < 0 || p->centring > GPUMC_CENTRING_WEIGHT
                            || !(tenths >= 0 && tenths <= 10 && fabs(tenths - floor(tenths + 0.5)) < 1e-9),
                        "centring %d, weight %g; a weight is 0, 0.1, ... 1", (int)p->centring,
                        p->centring_weight);
}

static gpumc_status gpumc__check_model(const gpumc_model *m, gpumc_error *error)
{
    if (!m) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "model is NULL");
    if (!m->params || m->n_params == 0)
        return gpumc__fail(error, GPUMC_ERROR_MODEL, "the model has no parameters; set params and n_params");
    if (!m->log_density && !m->log_density_batch)
        return gpumc__fail(error, GPUMC_ERROR_MODEL,
                           "the model has no density; set log_density or log_density_batch");
    if (m->guide && !m->log_density)
        return gpumc__fail(error, GPUMC_ERROR_MODEL, "the model has a guide but no log_density for it to "
                           "guide; log_density_batch does not do");
    if (m->n_outputs > 0 && (!m->outputs || !m->generate))
        return gpumc__fail(error, GPUMC_ERROR_MODEL, "n_outputs is %.0f but outputs or generate is NULL",
                           (double)m->n_outputs);
    for (size_t i = 0; i < m->n_params + m->n_outputs; i++) {
        if (gpumc__block_is_wrong(m, i, error)) return GPUMC_ERROR_MODEL;
        if (i >= m->n_params) continue;
        if (gpumc__kind_is_wrong(m, i, error) || gpumc__hierarchy_is_wrong(m, i, error))
            return GPUMC_ERROR_MODEL;
    }
    return GPUMC_OK;
}

/* ---- layout ------------------------------------------------------------------------------------ */

static gpumc__constraint gpumc__param_constraint(const gpumc_param *p, size_t size)
{
    const size_t last = p->kind >= GPUMC_ORDERED && p->n_dims ? p->dims[p->n_dims - 1] : size;
    const gpumc_transform t = { p->kind, last, size / (p->kind == GPUMC_CHOLESKY_CORR ? last * last : last),
                                p->lower, p->upper, p->offset, p->multiplier, p->typical };
    return gpumc__constraint_of(&t);
}

static int gpumc__may_tell(const gpumc_param *p)
{ return p->scale && !p->covariates && p->centring == GPUMC_CENTRING_LEARNED; }

/* Whether a block is the location of elements that may tell. */
static int gpumc__hears(const gpumc_model *m, size_t i)
{
    size_t j = i + 1;
    while (j < m->n_params && !(gpumc__may_tell(&m->params[j]) && m->params[j].location
                                && strcmp(m->params[j].location, m->params[i].name) == 0)) j++;
    return j < m->n_params;
}
/* A location without one of its own: in messages, its elements are first ones. */
static int gpumc__only_hears(const gpumc_model *m, size_t i)
{
    const gpumc_param *p = &m->params[i];
    return !gpumc__is_linked(p) && p->kind == GPUMC_UNBOUNDED && p->centring == GPUMC_CENTRING_LEARNED
        && gpumc__hears(m, i);
}

/* Real values that no link is about: data of many elements may share them. */
static int gpumc__is_shared(const gpumc_model *m, size_t i)
{
    const gpumc_kind kind = m->params[i].kind;
    return (kind == GPUMC_UNBOUNDED || kind == GPUMC_AFFINE || kind == GPUMC_INTERVAL)
        && !gpumc__is_linked(&m->params[i]) && !gpumc__hears(m, i);
}
static int gpumc__shares(const gpumc_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_params; i++) if (gpumc__is_shared(m, i)) n += gpumc__nth_size(m, i);
    return n > 0 && n <= GPUMC__MOST_SHARED;
}

/* Whether a block's elements know of each other, of another block's or of what they share, by messages. */
static int gpumc__tells(const gpumc_model *m, size_t i, int shares)
{
    const gpumc_param *p = &m->params[i];
    const size_t location = gpumc__find_param(m, i, p->location);
    return gpumc__may_tell(p) && (p->walk_dim > 0 || gpumc__hears(m, i) || shares
                                  || (location < i && gpumc__may_tell(&m->params[location])));
}

/* Whether a block has elements at no location. */
static size_t gpumc__starts_freely(const gpumc_model *m, size_t i)
{
    const gpumc_param *p = &m->params[i];
    return (p->walk_dim > 0 && p->scale && !p->location && !p->covariates) || gpumc__only_hears(m, i);
}

/* What the last notch stands for: a learned 1 is kept off the pole, see the centring part of >>transform. */
static double gpumc__most_centring(const gpumc_param *p)
{ return p->scale && p->centring == GPUMC_CENTRING_LEARNED ? 0.999 : 1; }

/* The way through a block, the rows of its messages, and the places of its elements. */
static void gpumc__link_rows(gpumc__link *k, size_t stride, size_t length, size_t *places)
{
    k->step = gpumc__walk_step(stride, length, k->size);
    k->width = length == 1 ? k->size : k->step > 1 ? k->size / length : stride >= GPUMC__LANES ? stride : 1;
    k->back = k->step > 1 ? k->width : stride;
    for (size_t i = 0; i < k->size; i++) places[k->at + i] = k->at + i % k->step * k->width + i / k->step;
}

/* Tables by element, and which other blocks they refer to; those are placed. */
static void gpumc__link_init(gpumc__link *k, const gpumc_layout *l, const gpumc_param *p)
{
    const size_t n = (size_t)(p - l->model->params), scale = gpumc__find_param(l->model, n, p->scale);
    const size_t location = gpumc__find_param(l->model, n, p->location);
    const size_t coefficients = gpumc__find_param(l->model, n, p->coefficients);
    const unsigned char forced = gpumc__nearest_notch(p->centring == GPUMC_CENTRED ? 1
        : p->centring == GPUMC_CENTRING_WEIGHT ? p->centring_weight : 0);
    size_t stride = 1, length = p->n_dims ? 0 : k->size;
    for (size_t d = p->walk_dim; d < p->n_dims; d++) stride *= p->dims[d];
    if (p->walk_dim > 0 && p->n_dims) length = p->dims[p->walk_dim - 1];
    k->scale = p->scale ? l->parts[scale].at : GPUMC__NONE;
    k->most = gpumc__most_centring(p);
    k->covariates = p->covariates;
    k->n_covariates = p->n_covariates;
    k->coefficients = p->coefficients ? l->parts[coefficients].at : 0;
    gpumc__link_rows(k, stride, p->walk_dim ? length : 1, l->places);
    k->passes = p->location && l->parts[location].link.tells && gpumc__may_tell(p);
    for (size_t i = 0; i < k->size; i++) {
        const int own_scale = p->scale && l->parts[scale].size > 1;
        const int own_location = p->location && l->parts[location].size > 1;
        k->unit[i] = p->scale_index ? p->scale_index[i] : own_scale ? i : 0;
        k->from[i] = !p->location ? GPUMC__NONE : l->parts[location].at
            + (p->location_index ? p->location_index[i] : own_location ? i : 0);
        k->notches[i] = forced;
        if (p->walk_dim > 0 && i / stride % length > 0) k->from[i] = k->at + i - stride;
        else if (k->n_units > k->n_scales) {
            k->unit[i] = k->n_scales;
            k->notches[i] = GPUMC__FULL;
        }
    }
    for (size_t u = 0; u < k->n_units; u++) k->per_unit[u] = 1;
    k->even = 1;
    for (size_t at = 0; at < k->size; at += k->width)
        for (size_t i = gpumc__told_begin(k, at), w = 0; w < k->width; w++)
            k->even &= k->unit[i + w * k->step] == k->unit[i];
    gpumc__link_settle(k);
}

/* Fills a layout, or with an arena that only counts, finds its size. The model has been checked. */
static gpumc_layout *gpumc__layout_place(gpumc__arena *arena, const gpumc_model *m)
{
    gpumc_layout *placed = (gpumc_layout *)gpumc__take(arena, 1, sizeof(gpumc_layout)), l;
    size_t n_tables = 0, n_ordered = 0;
    const int shares = gpumc__shares(m);
    memset(&l, 0, sizeof l);
    l.model = m;
    l.n_parts = m->n_params;
    l.leader = GPUMC__NONE;
    l.parts = (gpumc__placed *)gpumc__take(arena, m->n_params, sizeof(gpumc__placed));
    for (size_t i = 0; i < m->n_params; i++) {
        gpumc__placed p;
        memset(&p, 0, sizeof p);
        p.param = &m->params[i];
        p.at = p.link.at = l.n_natural;
        p.size = p.link.size = gpumc__nth_size(m, i);
        p.constraint = gpumc__param_constraint(p.param, p.size);
        p.free_at = l.n_free;
        p.free_size = gpumc__size_mul(p.constraint.n_free, p.constraint.count);
        p.linked = gpumc__is_linked(p.param) || gpumc__only_hears(m, i);
        l.n_free = gpumc__size_add(l.n_free, p.free_size);
        l.n_natural = gpumc__size_add(l.n_natural, p.size);
        l.n_linked += (size_t)p.linked;
        if (p.linked) {
            const char *scale = p.param->scale;
            p.link.n_scales = scale ? gpumc__nth_size(m, gpumc__find_param(m, i, scale)) : 1;
            p.link.n_units = gpumc__size_add(p.link.n_scales, gpumc__starts_freely(m, i));
            p.link.from = (size_t *)gpumc__take(arena, p.size, sizeof(size_t));
            p.link.unit = (size_t *)gpumc__take(arena, p.size, sizeof(size_t));
            p.link.per_unit = gpumc__take_doubles(arena, p.link.n_units);
            p.link.table = n_tables;
            n_tables += p.link.n_units * GPUMC__TABLE;
            p.link.tells = gpumc__tells(m, i, shares) || gpumc__only_hears(m, i);
            if (p.link.tells && l.leader == GPUMC__NONE) l.leader = i;
        }
        for (size_t j = 0; shares && gpumc__is_shared(m, i) && j < p.size; j++) {
            const gpumc__shared value = { p.at + j, 0 };
            l.shared[l.n_shared++] = value;
        }
        if (arena->base) l.parts[i] = p;
    }
    if (l.leader == GPUMC__NONE) l.n_shared = 0;
    l.notches = (unsigned char *)gpumc__take(arena, l.n_free, 1);
    l.anchors = gpumc__take_doubles(arena, l.n_free);
    l.typical = gpumc__take_doubles(arena, l.n_free);
    l.order = (size_t *)gpumc__take(arena, l.n_parts, sizeof(size_t));
    l.evidence = gpumc__take_doubles(arena, l.leader == GPUMC__NONE ? 0 : 2 * l.n_natural);
    l.slopes = gpumc__take_doubles(arena, gpumc__size_mul(l.n_shared, l.n_natural));
    l.n_work = 3 * l.n_natural + n_tables + (l.leader == GPUMC__NONE ? 0 : GPUMC__MESSAGES * l.n_natural);
    l.places = (size_t *)gpumc__take(arena, l.n_natural, sizeof(size_t));
    if (!arena->base) return NULL;
    for (size_t i = 0; i < l.n_natural; i++) l.places[i] = i;
    memset(l.evidence, 0, l.leader == GPUMC__NONE ? 0 : 2 * l.n_natural * sizeof(double));
    memset(l.slopes, 0, l.n_shared * l.n_natural * sizeof(double));
    memset(l.notches, GPUMC__FULL, l.n_free);
    memset(l.anchors, 0, l.n_free * sizeof *l.anchors);
    memset(l.typical, 0, l.n_free * sizeof *l.typical);
    for (size_t i = 0; i < l.n_parts; i++) {
        gpumc__placed *p = &l.parts[i];
        p->link.notches = l.notches + p->free_at;
        p->link.anchors = l.anchors + p->free_at;
        p->link.table += 3 * l.n_natural;
        p->link.messages = 3 * l.n_natural + n_tables;
        p->link.n_all = l.n_natural;
        p->link.places = l.places;
        p->constraint.typicals = l.typical + p->free_at;
        for (size_t k = 0; k < p->free_size; k++) l.typical[p->free_at + k] = p->constraint.typical;
        if (p->linked) gpumc__link_init(&p->link, &l, p->param);
        else l.order[n_ordered++] = i;
    }
    for (size_t i = 0; i < l.n_parts; i++)
        if (l.parts[i].linked) l.order[n_ordered++] = i;
    *placed = l;
    return placed;
}

GPUMC_API size_t gpumc_layout_bytes(const gpumc_model *model, gpumc_error *error)
{
    gpumc__arena arena = { NULL, 0 };
    if (gpumc__check_model(model, error) != GPUMC_OK) return 0;
    gpumc__layout_place(&arena, model);
    if (arena.used != SIZE_MAX) return arena.used;
    gpumc__fail(error, GPUMC_ERROR_MODEL, "the sizes of the parameters overflow");
    return 0;
}

GPUMC_API gpumc_layout *gpumc_layout_init(const gpumc_model *model, void *memory, size_t bytes,
                                          gpumc_error *error)
{
    gpumc__arena arena = { (char *)memory, 0 };
    const size_t needed = gpumc_layout_bytes(model, error);
    if (needed == 0) return NULL;
    if (memory && bytes >= needed && (uintptr_t)memory % sizeof(double) == 0)
        return gpumc__layout_place(&arena, model);
    gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                "gpumc_layout_init: memory must be aligned for double and hold %.0f bytes, not %.0f",
                (double)needed, memory ? (double)bytes : 0.0);
    return NULL;
}

static size_t gpumc__sum_sizes(const gpumc_model *m, size_t i, size_t end)
{
    size_t sum = 0;
    for (; i < end; i++) sum = gpumc__size_add(sum, gpumc__nth_size(m, i));
    return sum;
}
GPUMC_API size_t gpumc_model_n_values(const gpumc_model *model)
{ return model ? gpumc__sum_sizes(model, 0, model->n_params) : 0; }
GPUMC_API size_t gpumc_model_n_outputs(const gpumc_model *model)
{ return model ? gpumc__sum_sizes(model, model->n_params, model->n_params + model->n_outputs) : 0; }

GPUMC_API size_t gpumc_layout_dim(const gpumc_layout *layout) { return layout->n_free; }
GPUMC_API size_t gpumc_layout_natural(const gpumc_layout *layout) { return layout->n_natural; }
GPUMC_API size_t gpumc_layout_work(const gpumc_layout *layout) { return layout->n_work; }
GPUMC__OFTEN

/* ---- evaluation -------------------------------------------------------------------------------- */

/* Parts are visited in an order in which all scales are known before the first link. Then all messages are
   passed at once, when the first part that tells is mapped; their chain rule comes after its own. */
static gpumc__placed *gpumc__part(const gpumc_layout *l, size_t i) { return &l->parts[l->order[i]]; }

static void gpumc__tell(const gpumc_layout *l, const gpumc__placed *p, const double *x, double *work)
{
    const size_t n = l->n_natural;
    if ((size_t)(p - l->parts) != l->leader || !p->link.anchored) return;
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__link *k = &l->parts[i].link;
        const gpumc__messages m = gpumc__link_messages(&p->link, work);
        if (!k->tells) continue;
        const double news = gpumc__link_news(k, x), *own = l->evidence + k->at;
        gpumc__scaled(k->size, news, own, m.J + k->at);
        gpumc__scaled(k->size, news, own + n, m.b + k->at);
        for (size_t s = 0; s < l->n_shared; s++)
            gpumc__add_multiple(m.b + k->at, news * (x[l->shared[s].at] - l->shared[s].middle),
                                l->slopes + s * n + k->at, k->size);
    }
    for (size_t i = l->n_parts; i-- > 0;) {
        const gpumc__link *k = &l->parts[i].link;
        if (k->tells) gpumc__link_tell(k, x, work);
        else if (gpumc__link_informs(k)) gpumc__link_inform(k, x, work);
    }
}

/* The chain rule through J and b of a link's elements, once by_J and by_b are known: shared values move b,
   the noise both. */
static void gpumc__told_own(const gpumc_layout *l, const gpumc__link *k, const double *x, double *target,
                            double *work)
{
    const gpumc__messages m = gpumc__link_messages(k, work);
    const double news = gpumc__link_news(k, x), *J = l->evidence + k->at, *by_b = m.by_b + k->at;
    double sum = k->noise.halves == 0 ? 0 : gpumc__dot(m.by_J + k->at, J, k->size)
        + gpumc__dot(by_b, J + l->n_natural, k->size);
    for (size_t s = 0; s < l->n_shared; s++) {
        const double by = gpumc__dot(by_b, l->slopes + s * l->n_natural + k->at, k->size);
        const gpumc__shared *of = &l->shared[s];
        target[of->at] += news * by;
        sum += (x[of->at] - of->middle) * by;
    }
    if (k->noise.halves) target[k->noise.at] += 0.5 * k->noise.halves * news * sum / x[k->noise.at];
}

/* dq of a link from total derivatives, what others receive added to target, as gpumc__link_pull. */
static void gpumc__part_pull(const gpumc_layout *l, const gpumc__placed *p, const double *x, const double *G,
                             double *target, double *dq, double *work)
{
    gpumc__link_pull(&p->link, x, G, target, dq + p->free_at, work);
    if ((size_t)(p - l->parts) != l->leader || !p->link.anchored) return;
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__link *k = &l->parts[i].link;
        if (gpumc__link_informs(k)) gpumc__inform_pull_back(k, x, target, work);
        if (!k->tells) continue;
        gpumc__told_pull_back(k, x, target, work);
        gpumc__told_own(l, k, x, target, work);
    }
}

/* One block, of all free coordinates q and natural values x. */
static double gpumc__part_map(const gpumc_layout *l, const gpumc__placed *p, const double *q, double *x,
                              double *work)
{
    gpumc__tell(l, p, x, work);
    return p->linked ? gpumc__link_map(&p->link, q + p->free_at, x, work)
                     : gpumc__map(&p->constraint, q + p->free_at, x + p->at);
}

static gpumc_status gpumc__part_inverse(const gpumc_layout *l, const gpumc__placed *p, const double *x,
                                        double *q, double *work, gpumc_error *error)
{
    const gpumc_status status = gpumc__inverse(&p->constraint, x + p->at, q + p->free_at, error);
    gpumc__tell(l, p, x, work);
    if (p->linked && status == GPUMC_OK) gpumc__link_inverse(&p->link, x, q + p->free_at, work);
    return status;
}

/* Natural values from free coordinates; returns the log Jacobian. */
static double gpumc__to_natural(const gpumc_layout *l, const double *q, double *x, double *work)
{
    double log_jacobian = 0;
    for (size_t i = 0; i < l->n_parts; i++) log_jacobian += gpumc__part_map(l, gpumc__part(l, i), q, x, work);
    return log_jacobian;
}

/* Everything but the call of the density, so that one point and a batch share it: the chain rule, which uses
   up the gradient by natural values in work. */
static double gpumc__eval_finish(const gpumc_layout *l, const double *q, double log_jacobian, double lp,
                                 double *grad, double *work)
{
    double *x = work, *g = work + l->n_natural;
    const double total = lp + log_jacobian;
    if (!gpumc__is_finite(total)) {
        memset(grad, 0, l->n_free * sizeof(double));
        return -GPUMC_INF;
    }
    for (size_t i = l->n_parts; i-- > 0;) {
        const gpumc__placed *p = gpumc__part(l, i);
        if (p->linked) gpumc__part_pull(l, p, x, g, g, grad, work);
        else gpumc__pull(&p->constraint, q + p->free_at, x + p->at, g + p->at, grad + p->free_at);
    }
    return total;
}

/* The density alone, or the guide's, at natural values; g is overwritten. */
static double gpumc__density(const gpumc_layout *l, int guided, const double *x, double *g)
{
    const gpumc_model *m = l->model;
    double lp = -GPUMC_INF;
    memset(g, 0, l->n_natural * sizeof(double));
    if (guided) return m->guide(x, g, m->data);
    if (m->log_density) return m->log_density(x, g, m->data);
    m->log_density_batch(1, x, g, &lp, m->data);
    return lp;
}

static double gpumc__eval(const gpumc_layout *l, int guided, const double *q, double *grad, double *work)
{
    const double log_jacobian = gpumc__to_natural(l, q, work, work);
    const double lp = gpumc__is_finite(log_jacobian) ? gpumc__density(l, guided, work, work + l->n_natural)
                                                     : -GPUMC_INF;
    return gpumc__eval_finish(l, q, log_jacobian, lp, grad, work);
}

GPUMC_API double gpumc_model_eval(const gpumc_layout *layout, const double *q, double *grad, double *work)
{ return gpumc__eval(layout, 0, q, grad, work); }

GPUMC_API void gpumc_model_natural(const gpumc_layout *layout, const double *q, double *x, double *work)
{ gpumc__to_natural(layout, q, x, work); }

GPUMC_API gpumc_status gpumc_model_free(const gpumc_layout *layout, const double *x, double *q, double *work,
                                        gpumc_error *error)
{
    if (!layout || !x || !q || !work)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_model_free: layout, x, q or work is NULL");
    for (size_t i = 0; i < layout->n_parts; i++) {
        const gpumc__placed *p = gpumc__part(layout, i);
        gpumc_error inner;
        if (gpumc__part_inverse(layout, p, x, q, work, &inner) != GPUMC_OK)
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "parameter \"%.60s\": %.180s", p->param->name,
                               inner.text);
    }
    return GPUMC_OK;
}

/* ---- the centred frame (see the centring part of >>transform) ---------------------------------- */

/* dq += sign J' delta for a block that is no link: the chain rule is affine in its argument. delta, the
   block's, is used up. */
static void gpumc__add_pulled(const gpumc_layout *l, const gpumc__placed *p, const double *q, double *delta,
                              double sign, double *dq, double *work)
{
    double *pulled = work + l->n_natural + p->at;
    for (int zero = 0; zero < 2; zero++, sign = -sign) {
        gpumc__pull(&p->constraint, q + p->free_at, work + p->at, delta + p->at, pulled);
        for (size_t i = 0; i < p->free_size; i++) dq[p->free_at + i] += sign * pulled[i];
        memset(delta + p->at, 0, p->size * sizeof(double));
    }
}

/* A positive element between x = e^u, with gradient h, and the scored map of a typical size s; to: towards
   the latter. Returns the change of the log density. */
static double gpumc__rescore(double s, int to, double *q, double *g)
{
    const double score = to ? gpumc__score_of(gpumc__unscored(s, gpumc__exp(*q) / fabs(s))) : *q;
    const double E = gpumc__score_E(score), log_h = gpumc__score_log_h(score, E), h = gpumc__exp(log_h);
    const double y = gpumc__scored(s, E), bent = gpumc__score_ratio(s, E), ratio = h * bent / y;
    const double log_x = to ? *q : gpumc__log(fabs(s) * y);
    const double change = gpumc__log(fabs(s) * bent) + log_h - log_x;
    const double bend = gpumc__score_bend(s, score, E, h);
    *g = to ? (*g - 1) * ratio + bend : (*g - bend) / ratio + 1;
    *q = to ? score : log_x;
    return to ? change : -change;
}
static double gpumc__rescore_all(const gpumc_layout *l, int to, double *q, double *g)
{
    double change = 0;
    for (size_t i = 0; i < l->n_free; i++)
        if (l->typical[i] != 0) change += gpumc__rescore(l->typical[i], to, q + i, g + i);
    return change;
}

/* Free coordinates by the maps of the model's description: learned scores become logarithms. */
static void gpumc__unscore(const gpumc_layout *l, const double *q, double *u)
{
    memcpy(u, q, l->n_free * sizeof *u);
    for (size_t i = 0; i < l->n_parts; i++)
        for (size_t j = l->parts[i].free_at; j < l->parts[i].free_at + l->parts[i].free_size; j++)
            if (l->typical[j] != 0 && l->parts[i].param->typical == 0)
                u[j] = gpumc__log(fabs(l->typical[j]) * gpumc__scored(l->typical[j], gpumc__score_E(q[j])));
}

/* Free coordinates and gradient in the current frame become those of the centred frame, with logarithms for
   scores; returns the change of the log density, which is minus the log Jacobian of links and scores. */
static double gpumc__to_centred(const gpumc_layout *l, const double *q, const double *g, double *u, double *h,
                                double *work)
{
    double *x = work, *total = work + l->n_natural, *delta = total + l->n_natural, change = 0;
    memmove(u, q, l->n_free * sizeof(double));
    memmove(h, g, l->n_free * sizeof(double));
    memset(delta, 0, l->n_natural * sizeof(double));
    for (size_t i = 0; i < l->n_parts && l->n_linked > 0; i++) {
        const gpumc__placed *p = gpumc__part(l, i);
        const double log_jacobian = gpumc__part_map(l, p, q, x, work);
        if (!p->linked) continue;
        change -= log_jacobian;
        memcpy(u + p->free_at, x + p->at, p->size * sizeof(double));
    }
    for (size_t i = l->n_linked > 0 ? l->n_parts : 0; i-- > 0;) {
        const gpumc__placed *p = gpumc__part(l, i);
        double *h_i = h + p->free_at;
        if (!p->linked) { gpumc__add_pulled(l, p, q, delta, -1, h, work); continue; }
        for (size_t j = 0; j < p->size; j++) total[p->at + j] = h_i[j] / gpumc__link_r(&p->link, j, work);
        gpumc__part_pull(l, p, x, total, delta, h, work);
        for (size_t j = 0; j < p->size; j++) h_i[j] = total[p->at + j] - delta[p->at + j];
    }
    return change + gpumc__rescore_all(l, 0, u, h);
}

/* The way back. */
static double gpumc__from_centred(const gpumc_layout *l, const double *u, const double *h, double *q,
                                  double *g, double *work)
{
    double *x = work, *delta = work + 2 * l->n_natural, change = 0;
    memmove(q, u, l->n_free * sizeof(double));
    memmove(g, h, l->n_free * sizeof(double));
    change = gpumc__rescore_all(l, 1, q, g);
    if (l->n_linked == 0) return change;
    memset(delta, 0, l->n_natural * sizeof(double));
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__placed *p = gpumc__part(l, i);
        if (!p->linked) { gpumc__part_map(l, p, q, x, work); continue; }
        memcpy(x + p->at, u + p->free_at, p->size * sizeof(double));
        memcpy(delta + p->at, h + p->free_at, p->size * sizeof(double));
        gpumc__tell(l, p, x, work);
        change += gpumc__link_inverse(&p->link, x, q + p->free_at, work);
    }
    for (size_t i = l->n_parts; i-- > 0;) {
        const gpumc__placed *p = gpumc__part(l, i);
        if (p->linked) gpumc__part_pull(l, p, x, delta, delta, g, work);
        else gpumc__add_pulled(l, p, q, delta, 1, g, work);
    }
    return change;
}
GPUMC__SELDOM

/* ---- gradient check ---------------------------------------------------------------------------- */

/* Name of element i of a block, indices from 1: theta, theta[3], L[2,1]. Returns the length as snprintf
   does. */
static size_t gpumc__element_name(const char *name, size_t size, const size_t *dims, size_t n_dims, size_t i,
                                  char *text, size_t room)
{
    size_t used = (size_t)snprintf(text, room, "%s", name), below = size;
    for (size_t d = 0; d < n_dims; d++) {
        below /= dims[d];
        used += (size_t)snprintf(used < room ? text + used : NULL, used < room ? room - used : 0,
                                 "%s%.0f%s", d == 0 ? "[" : ",", (double)(i / below % dims[d] + 1),
                                 d + 1 < n_dims ? "" : "]");
    }
    return used;
}

static void gpumc__free_name(const gpumc_layout *l, size_t i, char *text, size_t room)
{
    const gpumc__placed *p = l->parts;
    while (i >= p->free_at + p->free_size) p++;
    i -= p->free_at;
    if (p->free_size == p->size)
        gpumc__element_name(p->param->name, p->size, p->param->n_dims ? p->param->dims : &p->size,
                            p->param->n_dims ? p->param->n_dims : p->param->size > 0, i, text, room);
    else snprintf(text, room, "%.60s (free coordinate %.0f)", p->param->name, (double)(i + 1));
}

typedef struct gpumc__probe {
    const gpumc_layout *layout;
    const double *q, *g, *x;
    double lp, *direction, *point, *unused, *work; /* density, gradient, natural values at q; scratch */
    double slope, seen;              /* derivative along the direction, and what differences say */
    double least;                    /* a step below which natural values may stay as they are */
} gpumc__probe;

/* Single coordinates and, where there are more, random directions beside them. */
enum { GPUMC__PROBE_COMPONENTS = 200, GPUMC__PROBES = 208 };

/* A check: what its probes share, scratch of every member of a team, what each probe found. */
typedef struct gpumc__probing {
    gpumc__probe probe;
    double *scratch;
    size_t stride;
    double distances[GPUMC__PROBES], slopes[GPUMC__PROBES], seen[GPUMC__PROBES];
} gpumc__probing;

/* Difference quotients about the point, how far those of the sides are apart (infinity where one ends), their
   step, and what rounding of the log density may do to them. */
typedef struct gpumc__quotient { double h, central, forward, backward, bend, noise; } gpumc__quotient;

static gpumc__quotient gpumc__probe_quotient(gpumc__probe *p, double h)
{
    gpumc__quotient d = { h, 0, 0, 0, 0, 16 * DBL_EPSILON * (fabs(p->lp) + 1) / h };
    double f[2];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < p->layout->n_free; i++)
            p->point[i] = p->q[i] + (side ? -h : h) * p->direction[i];
        f[side] = gpumc_model_eval(p->layout, p->point, p->unused, p->work);
    }
    d.forward = (f[0] - p->lp) / h;
    d.backward = (p->lp - f[1]) / h;
    d.bend = fabs(d.forward - d.backward);
    d.central = (f[0] - f[1]) / (2 * h);
    if (!gpumc__is_finite(d.central)) d.central = gpumc__is_finite(d.forward) ? d.forward : d.backward;
    return d;
}

/* How far the slope is from a quotient, relative to the larger; 1e6 is added where that is more than 1e-4 and
   doubt, the absolute error that the quotient may have, explain. */
static double gpumc__probe_compare(const gpumc__probe *p, double quotient, double doubt)
{
    const double error = fabs(quotient - p->slope), scale = fmax(fabs(quotient), fabs(p->slope));
    if (!gpumc__is_finite(quotient)) return GPUMC_INF;
    return error / fmax(scale, 1e-8) + (error <= 1e-4 * scale + doubt ? 0 : 1e6);
}

/* Whether a step sees a peak or, as a finer one tells, a kink: the sides do not get closer with the step. */
static int gpumc__probe_bent(const gpumc__quotient *d, const gpumc__quotient *finer)
{
    if (!gpumc__is_finite(d->bend) || d->bend < 0.1 * fabs(d->central)) return 0;
    return d->bend >= 1 / d->h + d->noise || (finer && d->bend > d->noise && finer->bend > d->bend / 2);
}

/* Relative distance of the slope from differences, 1e6 more where they disagree: worse than any agreement. A
   step of 6e-6 mostly decides. If not, the one of a ladder, from the point's size to 1e-8 or, where it is
   steep, less, whose quotient is most like its neighbours': curvature rules above it, rounding below, of the
   log density or of what it is made of (mu = 1e9 moves by 1e-7). One that sees a peak or a kink, or where
   nothing moves, is none, and one beside a border yields to those inside. What remains of the differences
   counts as doubt, but not where they hardly have a slope in common. Others of little doubt may agree too:
   the error of a solver inside the density has slopes of its own. */
static double gpumc__probe_distance(gpumc__probe *p, double size)
{
    enum { MOST = 24 };
    gpumc__quotient d[MOST];
    const gpumc__quotient first = gpumc__probe_quotient(p, 6e-6 * size);
    const double sides[] = { first.central, first.forward, first.backward }, slope = fabs(p->slope);
    const double stop = fmax(1.5e-8 / fmax(1, 1e-3 * slope), fmin(p->least, 1e-3 * size));
    double distance = GPUMC_INF, others = GPUMC_INF, least = GPUMC_INF, spread = 0, most = 0, h = 10 * size;
    int n = 0, best = 0;
    for (int k = 0; k < 3; k++) distance = fmin(distance, gpumc__probe_compare(p, sides[k], first.noise));
    p->seen = first.central;
    if (distance < 1e6 && first.noise < 1e-3 * slope && first.h > 100 * p->least
        && !gpumc__probe_bent(&first, NULL)) return distance;
    while (n < MOST && h > stop) d[n++] = gpumc__probe_quotient(p, h /= 10);
    for (int k = 1; k + 1 < n; k++) {
        const double at = d[k].central, border = gpumc__is_finite(d[k].bend) ? 1 : 1e100;
        const double apart = fmax(fabs(at - d[k - 1].central), fabs(at - d[k + 1].central));
        const double doubt = (apart + d[k].noise + 0.02 * p->least / d[k].h * slope) * border;
        if (gpumc__probe_bent(&d[k], &d[k + 1]) || (d[k].forward == 0 && d[k].backward == 0)) continue;
        if (doubt < 1e-3 * fabs(at)) others = fmin(others, gpumc__probe_compare(p, at, apart + d[k].noise));
        if (!(doubt < least)) continue;
        least = doubt;
        spread = apart;
        best = k;
    }
    if (best == 0) return distance;
    p->seen = d[best].central;
    if (gpumc__is_finite(d[best].forward)) most = fabs(d[best].forward);
    if (gpumc__is_finite(d[best].backward)) most = fmax(most, fabs(d[best].backward));
    return fmin(others, gpumc__probe_compare(p, p->seen, d[best].noise + fmin(spread, 0.01 * most)));
}

/* Sets a unit vector, of a coordinate or with which >= n a random one; returns the point's size along it. */
static double gpumc__probe_aim(gpumc__probe *p, size_t which)
{
    const size_t n = p->layout->n_free;
    const double size = which < n ? fmax(1, fabs(p->q[which])) : 1;
    gpumc_rng rng = gpumc_rng_at(0, 7u << 24, (uint32_t)which, 0);
    double norm, all = 0, moved = 0;
    memset(p->direction, 0, n * sizeof(double));
    if (which < n) p->direction[which] = 1;
    else gpumc_rng_normals(&rng, p->direction, n);
    norm = sqrt(gpumc__dot(p->direction, p->direction, n));
    for (size_t i = 0; i < n; i++) p->direction[i] /= norm;
    p->slope = 0;
    for (size_t i = 0; i < n; i++) {
        if (p->direction[i] != 0) p->slope += p->g[i] * p->direction[i];
        p->point[i] = p->q[i] + 0.01 * size * p->direction[i];
    }
    gpumc__to_natural(p->layout, p->point, p->work, p->work);
    for (size_t j = 0; j < p->layout->n_natural; j++) {
        const double step = fabs(p->work[j] - p->x[j]);
        all += step > 0 ? fabs(p->x[j]) : 0;
        moved += step > 0 ? step : 0;
    }
    p->least = moved > 0 ? 1e-16 * size * all / moved : 0;
    return size;
}

/* The coordinate that a probe is along; n and more: a random direction. */
static size_t gpumc__probe_which(size_t probe, size_t n)
{
    const size_t n_components = gpumc__smaller(n, GPUMC__PROBE_COMPONENTS);
    return probe < n_components ? probe * n / n_components : n + probe;
}

static void gpumc__probe_one(size_t k, int member, void *user)
{
    gpumc__probing *all = (gpumc__probing *)user;
    gpumc__probe p = all->probe;
    const size_t n = p.layout->n_free;
    double size;
    p.direction = all->scratch + (size_t)member * all->stride;
    p.point = p.direction + n;
    p.unused = p.point + n;
    p.work = p.unused + n;
    size = gpumc__probe_aim(&p, gpumc__probe_which(k, n));
    all->distances[k] = gpumc__probe_distance(&p, size);
    all->slopes[k] = p.slope;
    all->seen[k] = p.seen;
}

/* Evaluates the density again at q, for a while; every other part somewhere else, so that threads that share
   what they should not disturb each other. */
static void gpumc__probe_again(size_t k, int member, void *user)
{
    gpumc__probing *all = (gpumc__probing *)user;
    const size_t n = all->probe.layout->n_free;
    double *g = all->scratch + (size_t)member * all->stride, *q = g + n, *work = g + 3 * n, apart = 0;
    const double begin = gpumc__seconds(), lp = all->probe.lp;
    const int elsewhere = (k + 1) / 2 % 2;             /* of pairs that two threads take one at each place */
    for (size_t i = 0; i < n; i++) q[i] = all->probe.q[i] + (elsewhere ? 0.01 * (double)k : 0);
    for (int i = 0; i == 0 || (i < 64 && gpumc__seconds() < begin + 1e-5); i++) {
        all->seen[k] = gpumc_model_eval(all->probe.layout, q, g, work);
        if (elsewhere) continue;
        apart = fabs(all->seen[k] - lp) / (fabs(lp) + 1);
        for (size_t j = 0; j < n; j++)
            apart = fmax(apart, fabs(g[j] - all->probe.g[j]) / (fabs(all->probe.g[j]) + fabs(lp) + 1));
        all->distances[k] = gpumc__is_finite(all->seen[k]) ? fmax(all->distances[k], apart) : GPUMC_INF;
        if (all->distances[k] > 1e-9) return;
    }
}

/* Whether all of that gave the value and gradient at q that are known. */
static gpumc_status gpumc__check_same_value(gpumc__probing *all, gpumc_team *team, gpumc_error *error)
{
    const size_t n = team ? 4 * (size_t)gpumc_team_threads(team) : 1;
    const size_t n_parts = gpumc__smaller(n, GPUMC__PROBES);
    if (team) gpumc_team_run(team, gpumc__probe_again, n_parts, all);
    else gpumc__probe_again(0, 0, all);
    for (size_t k = 0; k < n_parts; k++) {
        const int same = fabs(all->seen[k] - all->probe.lp) <= 1e-9 * (fabs(all->probe.lp) + 1);
        if (all->distances[k] > 1e-9)
            return gpumc__fail(error, GPUMC_ERROR_GRADIENT, "evaluated again at one point the %s is another "
                               "(log density %.17g, then %.17g): it must depend on x and data alone; is "
                               "memory written to that several threads share?",
                               same ? "gradient" : "log density", all->probe.lp, all->seen[k]);
    }
    return GPUMC_OK;
}

/* Doubles of scratch of a check, for each member of a team. */
static size_t gpumc__check_gradient_stride(const gpumc_layout *l)
{ return gpumc__size_add(gpumc__size_mul(3, l->n_free), l->n_work); }

/* scratch: a gradient, natural values, then that of every member; team may be NULL. */
static gpumc_status gpumc__check_gradient_at(const gpumc_layout *l, const double *q, double *scratch,
                                             gpumc_team *team, gpumc_gradient_report *report,
                                             gpumc_error *error)
{
    const size_t n = l->n_free, n_probes = n > GPUMC__PROBE_COMPONENTS ? (size_t)GPUMC__PROBES : n;
    double worst = -1;
    gpumc__probing all;
    gpumc_status status;
    memset(report, 0, sizeof *report);
    memset(&all, 0, sizeof all);
    all.scratch = scratch + n + l->n_natural;
    all.stride = gpumc__check_gradient_stride(l);
    all.probe.layout = l;
    all.probe.q = q;
    all.probe.g = scratch;
    all.probe.x = scratch + n;
    all.probe.lp = gpumc_model_eval(l, q, scratch, all.scratch + 3 * n);
    memcpy(scratch + n, all.scratch + 3 * n, l->n_natural * sizeof(double));
    if (!gpumc__is_finite(all.probe.lp))
        return gpumc__fail(error, GPUMC_ERROR_START, "the log density is not finite at the point of the "
                           "gradient check; give another point");
    status = gpumc__check_same_value(&all, team, error);
    if (status != GPUMC_OK) return status;
    if (team) gpumc_team_run(team, gpumc__probe_one, n_probes, &all);
    else for (size_t k = 0; k < n_probes; k++) gpumc__probe_one(k, 0, &all);
    for (size_t k = 0; k < n_probes; k++) {
        const size_t which = gpumc__probe_which(k, n);
        const double distance = all.distances[k];
        report->n_checked++;
        report->n_failed += distance >= 1e6;
        if (!(distance > worst)) continue;
        worst = distance;
        report->analytic = all.slopes[k];
        report->numeric = all.seen[k];
        report->relative_error = distance >= 1e6 ? distance - 1e6 : distance;
        if (which < n) gpumc__free_name(l, which, report->name, sizeof report->name);
        else snprintf(report->name, sizeof report->name, "direction %.0f",
                      (double)(k - GPUMC__PROBE_COMPONENTS + 1));
    }
    if (report->n_failed == 0) return GPUMC_OK;
    worst = fabs(report->analytic + report->numeric) / fabs(report->numeric);
    return gpumc__fail(error, GPUMC_ERROR_GRADIENT, "gradient of \"%.100s\" is %.6g where differences give "
                       "%.6g%s (free coordinates; %.0f of %.0f components disagree)", report->name,
                       report->analytic, report->numeric, worst < 1e-3 ? ": sign error?" : "",
                       (double)report->n_failed, (double)report->n_checked);
}

/* Of a point and the scratch of its check. */
static size_t gpumc__check_gradient_bytes(const gpumc_layout *l, size_t n_members)
{
    const size_t scratch = gpumc__size_mul(n_members, gpumc__check_gradient_stride(l));
    const size_t shared = gpumc__size_add(gpumc__size_mul(2, l->n_free), l->n_natural);
    return gpumc__size_mul(gpumc__size_add(shared, scratch), sizeof(double));
}

/* Natural start values of the blocks that have them, through the links of the others; free coordinates
   elsewhere. */
static gpumc_status gpumc__start_point(const gpumc_layout *l, size_t chain, double *q, double *work,
                                       gpumc_error *error)
{
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__placed *p = gpumc__part(l, i);
        const double *init = p->param->init;
        gpumc_error inner;
        if (!init) { gpumc__part_map(l, p, q, work, work); continue; }
        if (p->param->n_inits > 0) init += chain % p->param->n_inits * p->size;
        for (size_t j = 0; j < p->size; j++)
            if (!gpumc__is_finite(init[j]))
                return gpumc__fail(error, GPUMC_ERROR_MODEL, "parameter \"%.48s\": init[%.0f] = %g is not "
                                   "finite", p->param->name, (double)(&init[j] - p->param->init), init[j]);
        memcpy(work + p->at, init, p->size * sizeof(double));
        if (gpumc__part_inverse(l, p, work, q, work, &inner) != GPUMC_OK)
            return gpumc__fail(error, GPUMC_ERROR_MODEL, "parameter \"%.48s\": init: %.170s",
                               p->param->name, inner.text);
    }
    return GPUMC_OK;
}

GPUMC_API gpumc_status gpumc_check_gradient(const gpumc_model *model, const double *x,
                                            gpumc_gradient_report *report, gpumc_error *error)
{
    gpumc_error unread;
    if (!error) error = &unread;
    const size_t bytes = gpumc_layout_bytes(model, error);
    void *memory = bytes ? gpumc__allocate(NULL, bytes) : NULL;
    gpumc_layout *l = memory ? gpumc_layout_init(model, memory, bytes, error) : NULL;
    double *q = l ? (double *)gpumc__allocate(NULL, gpumc__check_gradient_bytes(l, 1)) : NULL;
    gpumc_gradient_report unwanted;
    gpumc_status status = GPUMC_OK;
    if (report) memset(report, 0, sizeof *report);
    if (bytes == 0) return error->status;
    if (!q) status = gpumc__fail_memory(error, l ? gpumc__check_gradient_bytes(l, 1) : bytes);
    for (size_t i = 0; q && i < l->n_free; i++) q[i] = 0.5;
    if (q)
        status = x ? gpumc_model_free(l, x, q, q + l->n_free, error)
                   : gpumc__start_point(l, 0, q, q + l->n_free, error);
    if (status == GPUMC_OK)
        status = gpumc__check_gradient_at(l, q, q + l->n_free, NULL, report ? report : &unwanted, error);
    gpumc__release(NULL, q);
    gpumc__release(NULL, memory);
    return status;
}

/* ---- the climb -----------------------------------------------------------------------------------
   Start points near the posterior, from one that may be far off. The posterior is approximated by the nearest
   normal distribution of independent free coordinates, with all links centred (Kucukelbir et al. 2017).
   Expectations under it come from two points, mean + sd and mean - sd with random signs: half the sum is
   right for a quadratic, and the difference of the gradients is the curvature, cross terms but for noise.
   Means take Newton steps and standard deviations follow. The mode would be no start: it may be the spike at
   a scale of 0, which has no volume. */
enum { GPUMC__CLIMB_MOST = 96, GPUMC__CLIMB_STRETCH = 12, GPUMC__CLIMB_HELD = 255 };
typedef struct gpumc__climb {
    const gpumc_layout *layout;              /* all centred */
    int guided, arrived;
    gpumc_rng rng;
    uint64_t gradients;
    unsigned char *waits;                    /* steps of each block before it moves; HELD: never */
    double *first, *mean, *log_sd, *step, *log_step, *away, *point, *g[2], *work;
} gpumc__climb;

static size_t gpumc__climb_bytes(const gpumc_layout *l)
{
    const size_t doubles = gpumc__size_add(gpumc__size_mul(9, l->n_free), l->n_work);
    return gpumc__size_add(gpumc__size_mul(doubles, sizeof(double)), l->n_parts);
}

static gpumc__climb gpumc__climb_place(const gpumc_layout *l, int guided, gpumc_rng rng, double *memory)
{
    gpumc__climb c;
    double **const vectors[] = { &c.first, &c.mean, &c.log_sd, &c.step, &c.log_step, &c.away, &c.point,
                                 &c.g[0], &c.g[1], &c.work };
    memset(memory, 0, gpumc__climb_bytes(l));
    c.layout = l;
    c.guided = guided;
    c.arrived = 0;
    c.rng = rng;
    c.gradients = 0;
    c.waits = (unsigned char *)(memory + 9 * l->n_free + l->n_work);
    for (size_t k = 0; k < 10; k++) *vectors[k] = memory + k * l->n_free;
    return c;
}

/* All links centred, and exactly: at .999, theta - mu of thousands, as far away, holds tau where it is. With
   notches, back to these. */
static void gpumc__layout_centre(gpumc_layout *l, const unsigned char *notches)
{
    if (notches) memcpy(l->notches, notches, l->n_free);
    else memset(l->notches, GPUMC__FULL, l->n_free);
    for (size_t i = 0; i < l->n_parts; i++) {
        gpumc__link *k = &l->parts[i].link;
        if (!l->parts[i].linked) continue;
        k->most = notches ? gpumc__most_centring(l->parts[i].param) : 1;
        gpumc__link_settle(k);
    }
}

/* Linked blocks move first, then what they hang on, then the rest: a scale of the data would grow to make up
   for populations that have yet to reach these. */
static void gpumc__climb_order(gpumc__climb *c)
{
    const gpumc_layout *l = c->layout;
    for (size_t i = 0; i < l->n_parts; i++)
        c->waits[i] = l->n_linked > 0 && !gpumc__is_linked(l->parts[i].param) ? 8 : 0;
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc_param *p = l->parts[i].param;
        const char *const on[] = { p->location, p->scale };
        for (size_t k = 0; k < 2; k++) {
            if (!on[k]) continue;
            unsigned char *waits = &c->waits[gpumc__find_param(l->model, i, on[k])];
            *waits = *waits > 4 ? 4 : *waits;
        }
    }
}

static double gpumc__climb_eval(gpumc__climb *c, const double *q, double *g)
{
    c->gradients++;
    return gpumc__eval(c->layout, c->guided, q, g, c->work);
}

/* The evidence bound at a part of the step, with both gradients. Held values have a log_sd of -infinity. */
static double gpumc__climb_look(gpumc__climb *c, double part)
{
    const size_t n = c->layout->n_free;
    double bound = 0;
    for (size_t i = 0; i < n; i++) {
        const double log_sd = c->log_sd[i] + part * c->log_step[i], sd = gpumc__exp(log_sd);
        c->away[i] = gpumc_rng_word(&c->rng) & 1 ? sd : -sd;
        if (sd > 0) bound += log_sd;
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            c->point[i] = c->mean[i] + part * c->step[i] + (side ? c->away[i] : -c->away[i]);
        bound += 0.5 * gpumc__climb_eval(c, c->point, c->g[side]);
    }
    return bound;
}

/* The next step, at most 1 on curved scales. */
static void gpumc__climb_plan(gpumc__climb *c, int t)
{
    for (size_t k = 0; k < c->layout->n_parts; k++) {
        const gpumc__placed *p = &c->layout->parts[k];
        const double most = t < c->waits[k] ? 0 : p->param->kind == GPUMC_UNBOUNDED ? GPUMC_INF : 1;
        for (size_t i = p->free_at; i < p->free_at + p->free_size && c->waits[k] != GPUMC__CLIMB_HELD; i++) {
            const double log_curvature = gpumc__log(fabs((c->g[1][i] - c->g[0][i]) / (2 * c->away[i])));
            c->log_step[i] = fmin(fmax(-0.5 * log_curvature - c->log_sd[i], -2.3), 2.3);
            c->step[i] = 0.5 * (c->g[0][i] + c->g[1][i]) * gpumc__exp(2 * (c->log_sd[i] + c->log_step[i]));
            c->step[i] = fmin(fmax(c->step[i], -most), most);
        }
    }
}

/* From the first point, as long as the bound rises. Signs make noise in it: it may fall a little, and by more
   where so small a step shows only noise. */
static void gpumc__climb_up(gpumc__climb *c)
{
    const size_t n = c->layout->n_free;
    double bound = -GPUMC_INF, before = bound, part = 1;
    memcpy(c->mean, c->first, n * sizeof(double));
    for (size_t k = 0; k < c->layout->n_parts; k++) {
        const gpumc__placed *p = &c->layout->parts[k];
        for (size_t i = p->free_at; i < p->free_at + p->free_size; i++)
            c->log_sd[i] = c->waits[k] == GPUMC__CLIMB_HELD ? -GPUMC_INF : -2.3;
    }
    for (int t = 0; t < GPUMC__CLIMB_MOST; t++) {
        const double next = gpumc__climb_look(c, part), least = bound - sqrt((double)n);
        if (!(next > least) && (part > 0.01 || !gpumc__is_finite(next))) {
            part /= 4;
        } else {
            for (size_t i = 0; i < n; i++) {
                c->mean[i] += part * c->step[i];
                c->log_sd[i] += part * c->log_step[i];
            }
            gpumc__climb_plan(c, t);
            bound = next;
            part = fmin(4 * part, 1);
        }
        if ((t + 1) % GPUMC__CLIMB_STRETCH != 0) continue;
        if (t > GPUMC__CLIMB_STRETCH && !(bound > before + (double)n)) return;
        before = bound;
    }
}

/* The least log density of a start: not far below that of mean and first point. */
static double gpumc__climb_least(gpumc__climb *c)
{
    return fmax(gpumc__climb_eval(c, c->mean, c->g[0]), gpumc__climb_eval(c, c->first, c->g[0]))
           - 4 * (double)c->layout->n_free;
}

/* A draw of twice the standard deviation, or nearer the mean where the density is less than the least; its
   natural values are left in work. Returns 0 if all that is too far out. */
static int gpumc__climb_draw(gpumc__climb *c, double least)
{
    const size_t n = c->layout->n_free;
    gpumc_rng_normals(&c->rng, c->away, n);
    for (double width = 2; least > -GPUMC_INF && width > 0.2; width /= 2) {
        for (size_t i = 0; i < n; i++)
            c->point[i] = c->mean[i] + width * gpumc__exp(c->log_sd[i]) * c->away[i];
        if (gpumc__climb_eval(c, c->point, c->g[0]) >= least) return 1;
    }
    return 0;
}

/* ========================================================================================= >>rows
   Rows of a likelihood in tiles of 16 lanes, column after column, and what is summed from them. Where a
   group is large, the lanes are its rows: a segment. Where groups are small, the lanes are 16 groups of like
   size, ordered by size, and each keeps its own gradient: a slice (SELL-C-sigma of sparse matrices; Kreutzer
   et al. 2014). A lane left over repeats a row of its group with weight zero, so that there is one code path.
   Slices and segments are bundled in chunks, the unit that threads share: every chunk has its own place for
   its sums, which are added in order, so no bit depends on who computed them.
   Read first: gpumc__chunk_eval. */
enum { GPUMC__CHUNK_TILES = 128, GPUMC__CHUNK_SLICES = 32 };
#define GPUMC__NO_ROW UINT32_MAX

typedef struct gpumc__chunk {
    size_t slice, n_slices, tile, n_tiles;
    int in_row;                          /* the groups of its slices follow each other without a gap */
} gpumc__chunk;

struct gpumc_rows {
    gpumc_row_kind kind;
    gpumc_rows_info info;
    size_t n_blocks, n_chunks, n_nodes;  /* blocks: segments, then slices */
    gpumc__chunk *chunks;
    uint32_t *tiles, *groups;            /* of each block: its tiles, the groups of its lanes */
    const uint32_t *taken[GPUMC__MOST_ROW_PARAMS];     /* elements by lane; NULL: the groups */
    unsigned char *lanes;                /* of each block: how many of them are groups of their own */
    uint32_t *row;                       /* of each lane of each tile: the caller's row, or GPUMC__NO_ROW */
    unsigned char *active;
    double *weights, *columns, *nodes;
    float *single;                       /* instead of columns */
};

static const double gpumc__ones_then_zeros[2 * GPUMC_LANES] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
};
/* ---- checks ------------------------------------------------------------------------------------ */
static gpumc_status gpumc__check_column(const gpumc_rows_data *d, const double *values, size_t n,
                                        const char *what, const char *name, size_t c, gpumc_error *error)
{
    char label[64];
    if (name) snprintf(label, sizeof label, "%s \"%.40s\"", what, name);
    else snprintf(label, sizeof label, "%s %.0f", what, (double)c);
    if (!values)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": %s is NULL", d->kind->name, label);
    for (size_t i = 0; i < n; i++)
        if (!gpumc__is_finite(values[i]) || (d->single_precision && fabs(values[i]) > (double)FLT_MAX))
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": %s is %g in row %.0f (from 0)%s",
                               d->kind->name, label, values[i], (double)i,
                               gpumc__is_finite(values[i]) ? ", too large for single precision" : "");
    return GPUMC_OK;
}

static gpumc_status gpumc__check_groups(const gpumc_rows_data *d, gpumc_error *error)
{
    const size_t n = d->n_groups;
    if (d->n_rows >= GPUMC__NO_ROW || n >= GPUMC__NO_ROW)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": %.0f rows, %.0f groups; at most "
                           "%.0f", d->kind->name, (double)d->n_rows, (double)n, (double)GPUMC__NO_ROW - 1);
    if (n == 0 || (!d->group && n > 1))
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": n_groups is %.0f%s", d->kind->name,
                           (double)n, n ? " but group is NULL" : "; set 1 for rows without groups");
    for (size_t i = 0; d->group && i < d->n_rows; i++)
        if (d->group[i] >= n)
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": group "
                               "index %.0f in row %.0f (from 0) is outside 0..%.0f; groups count from 0",
                               d->kind->name, (double)d->group[i], (double)i, (double)n - 1);
    for (size_t i = 0; d->weights && i < d->n_rows; i++)
        if (!(d->weights[i] >= 0 && gpumc__is_finite(d->weights[i])))
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": weight %g of row %.0f (from "
                               "0) must be finite and not negative", d->kind->name, d->weights[i], (double)i);
    return GPUMC_OK;
}

static gpumc_status gpumc__check_rows(const gpumc_rows_data *d, gpumc_error *error)
{
    const gpumc_row_kind *k = d ? d->kind : NULL;
    gpumc_status status = GPUMC_OK;
    if (!k)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_rows: %s", d
                           ? "kind is NULL; point it to a GPUMC_ROW" : "data is NULL; describe rows in it");
    if (k->n_columns == 0 || !d->columns || (d->n_columns && d->n_columns != k->n_columns))
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": the row has %.0f columns, the data "
                           "%.0f", k->name, (double)k->n_columns, d->columns ? (double)d->n_columns : 0.0);
    if (k->n_group + k->n_shared > GPUMC__MOST_ROW_PARAMS)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "rows \"%.40s\": %.0f parameters, at most %d",
                           k->name, (double)(k->n_group + k->n_shared), GPUMC__MOST_ROW_PARAMS);
    if (k->n_node_columns ? !d->nodes || d->n_nodes == 0 : d->nodes || d->n_nodes)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                           "rows \"%.40s\": nodes belong to GPUMC_CELLS, which needs them", k->name);
    status = gpumc__check_groups(d, error);
    for (size_t c = 0; status == GPUMC_OK && c < k->n_columns; c++)
        status = gpumc__check_column(d, d->columns[c], d->n_rows, "column",
                                     d->column_names ? d->column_names[c] : NULL, c, error);
    for (size_t c = 0; status == GPUMC_OK && c < k->n_node_columns; c++)
        status = gpumc__check_column(d, d->nodes[c], d->n_nodes, "node column", NULL, c, error);
    return status;
}

/* ---- layout ------------------------------------------------------------------------------------ */
/* The rows that count, group by group, and the groups from large to small. */
typedef struct gpumc__rows_plan {
    uint32_t *size, *sorted;
    size_t *start;
    uint64_t *order;
    size_t n_kept, n_used;
} gpumc__rows_plan;

static int gpumc__ascending_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void *gpumc__plan_place(gpumc__rows_plan *plan, const gpumc_rows_data *d, gpumc__arena *arena)
{
    plan->order = (uint64_t *)gpumc__take(arena, d->n_groups, sizeof *plan->order);
    plan->start = (size_t *)gpumc__take(arena, d->n_groups + 1, sizeof *plan->start);
    plan->size = (uint32_t *)gpumc__take(arena, d->n_groups, sizeof *plan->size);
    plan->sorted = (uint32_t *)gpumc__take(arena, d->n_rows, sizeof *plan->sorted);
    return arena->base;
}

/* Returns the block to be released, NULL when out of memory. */
static void *gpumc__plan_rows(gpumc__rows_plan *plan, const gpumc_rows_data *d, gpumc_error *error)
{
    gpumc__arena arena = { NULL, 0 };
    memset(plan, 0, sizeof *plan);
    gpumc__plan_place(plan, d, &arena);
    arena.base = (char *)gpumc__allocate(d->allocator, arena.used);
    if (!arena.base) { gpumc__fail_memory(error, arena.used); return NULL; }
    arena.used = 0;
    gpumc__plan_place(plan, d, &arena);
    memset(plan->start, 0, (d->n_groups + 1) * sizeof *plan->start);
    for (size_t i = 0; i < d->n_rows; i++)
        plan->start[(d->group ? d->group[i] : 0) + 1] += !d->weights || d->weights[i] > 0;
    for (size_t g = 0; g < d->n_groups; g++) {
        plan->size[g] = (uint32_t)plan->start[g + 1];
        plan->n_used += plan->size[g] > 0;
        plan->order[g] = (uint64_t)(GPUMC__NO_ROW - plan->size[g]) << 32 | g;
        plan->start[g + 1] += plan->start[g];
    }
    plan->n_kept = plan->start[d->n_groups];
    qsort(plan->order, d->n_groups, sizeof *plan->order, gpumc__ascending_keys);
    for (size_t i = 0; i < d->n_rows; i++)
        if (!d->weights || d->weights[i] > 0)
            plan->sorted[plan->start[d->group ? d->group[i] : 0]++] = (uint32_t)i;
    for (size_t g = 0; g < d->n_groups; g++) plan->start[g] -= plan->size[g];
    return arena.base;
}

static uint32_t gpumc__plan_group(const gpumc__rows_plan *plan, size_t i)
{ return (uint32_t)(plan->order[i] & UINT32_MAX); }
/* Whether groups first .. first + n - 1 by size shall be one slice: it takes as many tiles as the largest has
   rows, and must fit into a chunk; segments share tiles better, but each costs about four to begin with. */
static int gpumc__is_slice(const gpumc__rows_plan *plan, size_t first, size_t n)
{
    const size_t largest = plan->size[gpumc__plan_group(plan, first)];
    size_t apart = 0;
    for (size_t i = first; i < first + n; i++)
        apart += (plan->size[gpumc__plan_group(plan, i)] + GPUMC_LANES - 1) / GPUMC_LANES + 4;
    return largest <= apart && largest <= GPUMC__CHUNK_TILES;
}

/* Puts a tile's lane: the row at place i of group g, beyond the last of them a copy that does not count. */
static void gpumc__fill_lane(gpumc_rows *r, const gpumc_rows_data *d, const gpumc__rows_plan *plan,
                             size_t tile, size_t lane, size_t g, size_t i, int live)
{
    const size_t at = tile * GPUMC_LANES + lane, n_columns = r->kind.n_columns, size = plan->size[g];
    const uint32_t from = plan->sorted[plan->start[g] + (i < size ? i : size - 1)];
    const int counts = live && i < size;
    r->row[at] = counts ? from : GPUMC__NO_ROW;
    r->active[tile] = (unsigned char)(r->active[tile] + counts);
    if (r->weights) r->weights[at] = counts ? d->weights[from] : 0.0;
    for (size_t c = 0; c < n_columns; c++) {
        const size_t to = (tile * n_columns + c) * GPUMC_LANES + lane;
        if (r->single) r->single[to] = (float)d->columns[c][from];
        else r->columns[to] = d->columns[c][from];
    }
}

/* Adds a block of n_tiles: of 16 groups, or of one and its rows from begin on. Without arrays it counts. */
static void gpumc__add_block(gpumc_rows *r, const gpumc_rows_data *d, const gpumc__rows_plan *plan,
                             size_t first, size_t n_groups, size_t begin, size_t n_tiles, int is_slice)
{
    const size_t b = r->n_blocks++, t_0 = r->info.n_tiles;
    r->info.n_tiles += n_tiles;
    if (is_slice) r->info.n_slices++;
    else r->info.n_segments++;
    if (!r->tiles) return;
    r->tiles[b] = (uint32_t)n_tiles;
    r->lanes[b] = (unsigned char)n_groups;
    for (size_t l = 0; l < GPUMC_LANES; l++) {
        const size_t i = first + (l < n_groups ? l : 0);
        r->groups[b * GPUMC_LANES + l] = gpumc__plan_group(plan, i);
    }
    for (size_t t = 0; t < n_tiles; t++)
        for (size_t l = 0; l < GPUMC_LANES; l++)
            gpumc__fill_lane(r, d, plan, t_0 + t, l, r->groups[b * GPUMC_LANES + l],
                             is_slice ? t : begin + t * GPUMC_LANES + l, !is_slice || l < n_groups);
}

static void gpumc__add_segments(gpumc_rows *r, const gpumc_rows_data *d, const gpumc__rows_plan *plan,
                                size_t i)
{
    const size_t most = (size_t)GPUMC__CHUNK_TILES * GPUMC_LANES,
                 size = plan->size[gpumc__plan_group(plan, i)];
    for (size_t begin = 0; begin < size; begin += most) {
        const size_t n = size - begin < most ? size - begin : most;
        gpumc__add_block(r, d, plan, i, 1, begin, (n + GPUMC_LANES - 1) / GPUMC_LANES, 0);
    }
}

/* All segments, then all slices. */
static void gpumc__add_blocks(gpumc_rows *r, const gpumc_rows_data *d, const gpumc__rows_plan *plan)
{
    for (int slices = 0; slices < 2; slices++)
        for (size_t first = 0; first < plan->n_used; first += GPUMC_LANES) {
            const size_t left = plan->n_used - first, n = left < GPUMC_LANES ? left : GPUMC_LANES;
            if (gpumc__is_slice(plan, first, n) != slices) continue;
            if (slices)
                gpumc__add_block(r, d, plan, first, n, 0, plan->size[gpumc__plan_group(plan, first)], 1);
            else
                for (size_t i = first; i < first + n; i++) gpumc__add_segments(r, d, plan, i);
        }
}

/* Blocks of one sort, as many as fit into 16 kB of parameters and sums and into the tiles of a chunk. */
static size_t gpumc__slices_of_chunk(const gpumc_row_kind *kind)
{
    const size_t n = 64 / (kind->n_group + 1), most = GPUMC__CHUNK_SLICES;
    return n < 1 ? 1 : n > most ? most : n;
}
/* Whether the groups of block b are those from `group` on, one a lane. */
static int gpumc__is_in_row(const gpumc_rows *r, size_t b, size_t group)
{
    size_t l = 0;
    while (l < GPUMC_LANES && r->groups[b * GPUMC_LANES + l] == group + l) l++;
    return l == GPUMC_LANES;
}
static void gpumc__add_chunks(gpumc_rows *r)
{
    const size_t most = gpumc__slices_of_chunk(&r->kind);
    gpumc__chunk *chunk = NULL;
    size_t next = 0;                         /* the group that would continue the chunk in row */
    for (size_t b = 0, tile = 0; b < r->n_blocks; tile += r->tiles[b++], next += GPUMC_LANES) {
        if (!chunk || chunk->n_slices == most || b == r->info.n_segments
            || chunk->n_tiles + r->tiles[b] > GPUMC__CHUNK_TILES
            || (chunk->in_row && !gpumc__is_in_row(r, b, next))) {
            chunk = &r->chunks[r->n_chunks++];
            memset(chunk, 0, sizeof *chunk);
            chunk->slice = b;
            chunk->tile = tile;
            next = r->groups[b * GPUMC_LANES];
            chunk->in_row = gpumc__is_in_row(r, b, next);
        }
        chunk->n_slices++;
        chunk->n_tiles += r->tiles[b];
    }
}

static void gpumc__copy_nodes(gpumc_rows *r, const gpumc_rows_data *d)
{
    const size_t n = r->kind.n_node_columns, lanes = GPUMC_LANES;
    for (size_t i = 0; i < (r->n_nodes + lanes - 1) / lanes * lanes; i++)
        for (size_t c = 0; c < n; c++)
            r->nodes[(i / lanes * n + c) * lanes + i % lanes] =
                d->nodes[c][i < r->n_nodes ? i : r->n_nodes - 1];
}

/* The rows in the arena, or their size if that has no memory. */
static gpumc_rows *gpumc__rows_place(gpumc__arena *arena, const gpumc_rows_data *d,
                                     const gpumc__rows_plan *plan)
{
    gpumc_rows counted, *r = (gpumc_rows *)gpumc__take(arena, 1, sizeof *r);
    memset(&counted, 0, sizeof counted);
    counted.kind = *d->kind;
    counted.n_nodes = d->n_nodes;
    gpumc__add_blocks(&counted, d, plan);
    const size_t n = counted.n_blocks, tiles = counted.info.n_tiles,
                 cells = gpumc__size_mul(tiles, GPUMC_LANES);
    const size_t values = gpumc__size_mul(cells, d->kind->n_columns);
    const size_t nodes = gpumc__size_mul((d->n_nodes + GPUMC_LANES - 1) / GPUMC_LANES, GPUMC_LANES);
    counted.chunks = (gpumc__chunk *)gpumc__take(arena, n, sizeof *counted.chunks);
    counted.tiles = (uint32_t *)gpumc__take(arena, n, sizeof *counted.tiles);
    counted.groups = (uint32_t *)gpumc__take(arena, n, GPUMC_LANES * sizeof *counted.groups);
    counted.lanes = (unsigned char *)gpumc__take(arena, n, 1);
    counted.row = (uint32_t *)gpumc__take(arena, cells, sizeof *counted.row);
    counted.active = (unsigned char *)gpumc__take(arena, tiles, 1);
    counted.weights = d->weights ? gpumc__take_doubles(arena, cells) : NULL;
    counted.nodes = gpumc__take_doubles(arena, gpumc__size_mul(nodes, d->kind->n_node_columns));
    counted.columns = d->single_precision ? NULL : gpumc__take_doubles(arena, values);
    counted.single = d->single_precision ? (float *)gpumc__take(arena, values, sizeof(float)) : NULL;
    if (!r) return NULL;
    *r = counted;
    memset(&r->info, 0, sizeof r->info);
    memset(r->active, 0, tiles);
    r->n_blocks = 0;
    gpumc__add_blocks(r, d, plan);
    gpumc__add_chunks(r);
    gpumc__copy_nodes(r, d);
    r->info.isa = gpumc_isa_resolve(d->isa);
    r->info.n_rows = d->n_rows;
    r->info.n_groups = d->n_groups;
    r->info.n_empty = d->n_groups - plan->n_used;
    return r;
}

/* Both public calls: bytes gets what is needed; memory NULL counts only. */
static gpumc_rows *gpumc__rows_make(const gpumc_rows_data *d, void *memory, size_t given, size_t *bytes,
                                    gpumc_error *error)
{
    gpumc__arena arena = { NULL, 0 };
    gpumc__rows_plan plan;
    gpumc_rows *r = NULL;
    void *block;
    *bytes = 0;
    if (gpumc__check_rows(d, error) != GPUMC_OK) return NULL;
    block = gpumc__plan_rows(&plan, d, error);
    if (!block) return NULL;
    gpumc__rows_place(&arena, d, &plan);
    *bytes = arena.used;
    arena.base = (char *)memory;
    arena.used = 0;
    if (memory && given >= *bytes && (uintptr_t)memory % sizeof(double) == 0)
        r = gpumc__rows_place(&arena, d, &plan);
    gpumc__release(d->allocator, block);
    return r;
}

GPUMC_API size_t gpumc_rows_bytes(const gpumc_rows_data *data, gpumc_error *error)
{
    size_t bytes;
    gpumc__rows_make(data, NULL, 0, &bytes, error);
    if (bytes != SIZE_MAX) return bytes;
    gpumc__fail(error, GPUMC_ERROR_MEMORY, "rows \"%.40s\": the sizes overflow", data->kind->name);
    return 0;
}

GPUMC_API gpumc_rows *gpumc_rows_init(const gpumc_rows_data *data, void *memory, size_t bytes,
                                      gpumc_error *error)
{
    size_t needed;
    gpumc_rows *r = gpumc__rows_make(data, memory, bytes, &needed, error);
    if (!r && needed)
        gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_rows_init: memory must be aligned "
                    "for double and hold %.0f bytes, not %.0f", (double)needed, memory ? (double)bytes : 0.0);
    return r;
}

GPUMC_API gpumc_rows_info gpumc_rows_describe(const gpumc_rows *rows) { return rows->info; }

/* ---- rows that take elements ------------------------------------------------------------------- */
/* Each group parameter may come from an element of its own choice. Every row is a group then, numbered so
   that the lanes of a tile are rows far apart: neighbours often take the same element, and to add to that
   again at once would wait for the last store. */
static size_t gpumc__apart_groups(size_t n_rows)
{ return (n_rows + GPUMC_LANES - 1) / GPUMC_LANES * GPUMC_LANES; }
static size_t gpumc__apart_group(size_t row, size_t n_rows)
{
    const size_t each = gpumc__apart_groups(n_rows) / GPUMC_LANES;
    return row % each * GPUMC_LANES + row / each;
}

/* index: of each group parameter and row; taken: room for a number of each parameter and lane. */
static size_t gpumc__taken_size(const gpumc_rows *r) { return r->n_blocks * r->kind.n_group * GPUMC_LANES; }
static void gpumc__rows_take(gpumc_rows *r, const size_t *const *index, uint32_t *taken)
{
    const size_t n = r->n_blocks * GPUMC_LANES;
    for (size_t i = 0; i < n; i++)
        r->groups[i] = r->row[r->row[i] == GPUMC__NO_ROW ? i / GPUMC_LANES * GPUMC_LANES : i];
    for (size_t c = 0; c < r->n_chunks; c++) r->chunks[c].in_row = 0;
    for (size_t k = 0; k < r->kind.n_group; k++, taken += n) {
        for (size_t i = 0; i < n; i++) taken[i] = (uint32_t)index[k][r->groups[i]];
        r->taken[k] = taken;
    }
}
GPUMC__OFTEN

/* ---- evaluation -------------------------------------------------------------------------------- */
/* Where things lie in the work of one point or thread: sums of chunks, sums of segments, sums of lanes that
   take elements; then scratch. */
static size_t gpumc__chunk_sums(const gpumc_rows *r) { return r->n_chunks * (1 + r->kind.n_shared); }
static size_t gpumc__segment_sums(const gpumc_rows *r)
{ return gpumc__chunk_sums(r) + r->info.n_segments * r->kind.n_group; }
static size_t gpumc__rows_sums(const gpumc_rows *r)
{ return gpumc__segment_sums(r) + (r->taken[0] ? gpumc__taken_size(r) : 0); }
GPUMC_API size_t gpumc_rows_work(const gpumc_rows *rows)
{
    const gpumc_row_kind *k = &rows->kind;
    const size_t slices = gpumc__slices_of_chunk(k) * 2 * k->n_group + 1 + k->n_shared;
    const size_t columns = rows->single ? GPUMC__CHUNK_TILES * k->n_columns : 0;
    return gpumc__rows_sums(rows) + k->n_shared + (slices + columns) * GPUMC_LANES;
}

/* Parameter k of the groups of n blocks into their lanes; a gradient from there. */
static const uint32_t *gpumc__places(const gpumc_rows *r, size_t k, size_t first)
{ return (r->taken[k] ? r->taken[k] : r->groups) + first * GPUMC_LANES; }
static void gpumc__gather(const gpumc_rows *r, size_t k, size_t first, size_t n, const double *p,
                          double *lanes)
{
    const uint32_t *places = gpumc__places(r, k, first);
    for (size_t i = 0; i < n * GPUMC_LANES; i++) lanes[i] = p[places[i]];
}
static void gpumc__scatter(const gpumc_rows *r, size_t k, size_t first, size_t n, const double *lanes,
                           double *grad)
{
    const uint32_t *places = gpumc__places(r, k, first);
    for (size_t b = first; b < first + n; b++, places += GPUMC_LANES, lanes += GPUMC_LANES) {
        const size_t own = r->lanes[b];
        for (size_t l = 0; l < own; l++) grad[places[l]] += lanes[l];
    }
}

static GPUMC_LOOP void gpumc__widen(const float *GPUMC__RESTRICT from, double *GPUMC__RESTRICT to, size_t n)
{ for (size_t i = 0; i < n; i++) to[i] = (double)from[i]; }
/* The arguments of a loop over n blocks from first on, whose tiles begin at tile. scratch holds sums and, if
   grad is NULL, parameters gathered and gradients to be scattered. */
static void gpumc__row_args_of(const gpumc_rows *r, size_t first, size_t n, size_t tile,
                               const double *columns, const double *const *p, double *const *grad,
                               double *scratch, gpumc__row_args *a)
{
    const size_t n_group = r->kind.n_group, lanes = n * GPUMC_LANES;
    a->n_slices = n;
    a->tiles = r->tiles + first;
    a->active = r->active + tile;
    a->columns = columns;
    a->weights = r->weights ? r->weights + tile * GPUMC_LANES : NULL;
    a->zeros = gpumc__ones_then_zeros + GPUMC_LANES;
    a->nodes = r->nodes;
    a->n_nodes = r->n_nodes;
    a->totals = scratch;
    scratch += (1 + r->kind.n_shared) * GPUMC_LANES;
    for (size_t k = 0; k < n_group + r->kind.n_shared; k++) a->p[k] = p[k];
    for (size_t k = 0; k < n_group; k++, scratch += 2 * lanes) {
        const size_t g = r->groups[first * GPUMC_LANES];
        a->p[k] = grad ? p[k] + g : scratch;
        a->sums[k] = grad && grad[k] ? grad[k] + g : scratch + lanes;
        if (!grad) gpumc__gather(r, k, first, n, p[k], scratch);
        if (!grad || !grad[k]) memset(a->sums[k], 0, lanes * sizeof(double));
    }
}

/* The sums of the lanes of a chunk that takes elements, for group parameter k. */
static double *gpumc__taken_sums(const gpumc_rows *r, const gpumc__chunk *chunk, size_t k, double *places)
{
    const size_t before = chunk->slice * r->kind.n_group + k * chunk->n_slices;
    return places + gpumc__segment_sums(r) + before * GPUMC_LANES;
}

/* One chunk at one point: its sums go to their places, gradients of the groups of slices, which no other
   chunk has, to grad, and so those of elements, which others may have too, unless they wait. */
static void gpumc__chunk_eval(const gpumc_rows *r, size_t c, const double *columns, const double *const *p,
                              double *const *grad, double *places, double *scratch, int waits)
{
    const gpumc__chunk chunk = r->chunks[c];
    const size_t n_group = r->kind.n_group, n_shared = r->kind.n_shared;
    const int is_slice = chunk.slice >= r->info.n_segments;
    gpumc__row_args a;
    double *sums = places + c * (1 + n_shared), *own = places + gpumc__chunk_sums(r) + chunk.slice * n_group;
    gpumc__row_args_of(r, chunk.slice, chunk.n_slices, chunk.tile, columns, p, chunk.in_row ? grad : NULL,
                       scratch, &a);
    r->kind.loops[r->info.isa - 1](&a);
    for (size_t k = 0; k < 1 + n_shared; k++) sums[k] = gpumc__sum_16(a.totals + k * GPUMC_LANES);
    for (size_t k = 0; k < n_group && is_slice && !chunk.in_row; k++)
        if (waits)
            memcpy(gpumc__taken_sums(r, &chunk, k, places), a.sums[k],
                   chunk.n_slices * GPUMC_LANES * sizeof(double));
        else if (grad[k]) gpumc__scatter(r, k, chunk.slice, chunk.n_slices, a.sums[k], grad[k]);
    for (size_t k = 0; k < n_group && !is_slice; k++)
        for (size_t b = 0; b < chunk.n_slices; b++)
            own[b * n_group + k] = gpumc__sum_16(a.sums[k] + b * GPUMC_LANES);
}

/* Adds the sums of all chunks in their order, and those of lanes that wait. */
static double gpumc__rows_total(const gpumc_rows *r, double *const *grad, double *places, int waits)
{
    const size_t n_group = r->kind.n_group, n_shared = r->kind.n_shared;
    const double *own = places + gpumc__chunk_sums(r);
    double total = 0;
    for (const gpumc__chunk *c = r->chunks; waits && c < r->chunks + r->n_chunks; c++)
        for (size_t k = 0; k < n_group; k++)
            if (grad[k])
                gpumc__scatter(r, k, c->slice, c->n_slices, gpumc__taken_sums(r, c, k, places), grad[k]);
    for (size_t c = 0; c < r->n_chunks; c++, places += 1 + n_shared) {
        total += places[0];
        for (size_t k = 0; k < n_shared; k++)
            if (grad[n_group + k]) *grad[n_group + k] += places[1 + k];
    }
    for (size_t b = 0; b < r->info.n_segments; b++)
        for (size_t k = 0; k < n_group; k++)
            if (grad[k]) grad[k][r->groups[b * GPUMC_LANES]] += own[b * n_group + k];
    return total;
}

typedef struct gpumc__rows_job {
    const gpumc_rows *rows;
    size_t n_points, n_work;
    const double *const *p;
    double *const *grad;
    double *work;
    int waits;                               /* gradients of elements that threads share */
} gpumc__rows_job;

/* One chunk at all points: places in the work of each, scratch in that of the thread. */
static void gpumc__rows_part(size_t c, int member, void *user)
{
    const gpumc__rows_job *job = (const gpumc__rows_job *)user;
    const gpumc_rows *r = job->rows;
    const size_t n_p = r->kind.n_group + r->kind.n_shared, width = r->kind.n_columns * GPUMC_LANES;
    double *scratch = job->work + (size_t)member * job->n_work + gpumc__rows_sums(r);
    const double *columns = r->single ? scratch : r->columns + r->chunks[c].tile * width;
    if (r->single) {
        gpumc__widen(r->single + r->chunks[c].tile * width, scratch, r->chunks[c].n_tiles * width);
        scratch += GPUMC__CHUNK_TILES * width;
    }
    for (size_t i = 0; i < job->n_points; i++)
        gpumc__chunk_eval(r, c, columns, job->p + i * n_p, job->grad + i * n_p, job->work + i * job->n_work,
                          scratch, job->waits);
}

GPUMC_API void gpumc_rows_eval_batch(const gpumc_rows *rows, size_t n_points, const double *const *p,
                                     double *const *grad, double *lp, double *work, gpumc_team *team)
{
    const size_t n_p = rows->kind.n_group + rows->kind.n_shared;
    const int waits = team && rows->taken[0];
    gpumc__rows_job job = { rows, n_points, gpumc_rows_work(rows), p, grad, work, waits };
    if (team) gpumc_team_run(team, gpumc__rows_part, rows->n_chunks, &job);
    else for (size_t c = 0; c < rows->n_chunks; c++) gpumc__rows_part(c, 0, &job);
    for (size_t i = 0; i < n_points; i++)
        lp[i] = gpumc__rows_total(rows, grad + i * n_p, work + i * job.n_work, waits);
}

GPUMC_API double gpumc_rows_eval(const gpumc_rows *rows, const double *const *p, double *const *grad,
                                 double *work)
{
    double lp;
    gpumc_rows_eval_batch(rows, 1, p, grad, &lp, work, NULL);
    return lp;
}

/* ---- row by row -------------------------------------------------------------------------------- */
/* Evaluates one tile of a block, each lane for itself: totals and sums are those of single rows. */
static gpumc__row_args gpumc__tile_eval(const gpumc_rows *r, size_t block, size_t tile,
                                        const double *const *p, double *scratch)
{
    static const uint32_t one_tile = 1;
    const size_t width = r->kind.n_columns * GPUMC_LANES;
    const double *columns = r->single ? scratch : r->columns + tile * width;
    gpumc__row_args a;
    if (r->single) {
        gpumc__widen(r->single + tile * width, scratch, width);
        scratch += width;
    }
    gpumc__row_args_of(r, block, 1, tile, columns, p, NULL, scratch, &a);
    a.tiles = &one_tile;
    r->kind.loops[r->info.isa - 1](&a);
    return a;
}

GPUMC_API void gpumc_rows_pointwise(const gpumc_rows *rows, const double *const *p, double *log_lik,
                                    double *work)
{
    size_t tile = 0;
    for (size_t i = 0; i < rows->info.n_rows; i++) log_lik[i] = 0;
    for (size_t b = 0; b < rows->n_blocks; b++)
        for (size_t end = tile + rows->tiles[b]; tile < end; tile++) {
            const double *value = gpumc__tile_eval(rows, b, tile, p, work).totals;
            for (size_t l = 0; l < rows->active[tile]; l++)
                log_lik[rows->row[tile * GPUMC_LANES + l]] = value[l];
        }
}

GPUMC_API gpumc_status gpumc_rows_explain(const gpumc_rows *rows, const double *const *p, double *work,
                                          gpumc_error *error)
{
    size_t n_group, n, tile = 0, row = GPUMC__NO_ROW, group = 0, what = 0;
    double value = 0;
    if (!rows || !p || !work)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_rows_explain: rows, p or work is NULL");
    n_group = rows->kind.n_group;
    n = 1 + n_group + rows->kind.n_shared;
    for (size_t b = 0; b < rows->n_blocks; b++)
        for (size_t end = tile + rows->tiles[b]; tile < end; tile++) {
            const gpumc__row_args a = gpumc__tile_eval(rows, b, tile, p, work);
            for (size_t i = 0; i < n * GPUMC_LANES; i++) {
                const size_t l = i % GPUMC_LANES, k = i / GPUMC_LANES, at = rows->row[tile * GPUMC_LANES + l];
                const double v = k < 1 ? a.totals[i] : k <= n_group ? a.sums[k - 1][l]
                                                                    : a.totals[i - n_group * GPUMC_LANES];
                if (gpumc__is_finite(v) || at >= row) continue;
                row = at;
                group = rows->groups[b * GPUMC_LANES + l];
                what = k;
                value = v;
            }
        }
    if (row == GPUMC__NO_ROW) return GPUMC_OK;
    if (what == 0)
        return gpumc__fail(error, GPUMC_ERROR_NUMERIC, "rows \"%.40s\": the log likelihood of row %.0f, "
                           "group %.0f (from 0), is %g", rows->kind.name, (double)row, (double)group, value);
    return gpumc__fail(error, GPUMC_ERROR_NUMERIC,
                       "rows \"%.40s\": the derivative of row %.0f, group %.0f (from 0), by p[%.0f] is %g",
                       rows->kind.name, (double)row, (double)group, (double)what - 1, value);
}

/* ========================================================================================== >>glm
   X lies in blocks of 8 rows, column by column, so that both products with it are maps over lanes: eta += X
   b takes four columns a step, X'r four blocks, into lanes that are summed at the end of a chunk; what they
   read of X serves up to four points. Groups of blocks form tiles that stay in cache from eta to X'r, while
   the next tile is fetched; tiles form chunks, whose sums are added in order. A row computes the terms of
   log p that depend on eta; the others come once an evaluation, from the total weight or, for counts, from
   that of each distinct one.
   Read first: gpumc__glm_tile. */
enum {
    GPUMC__GLM_LANES = 8,
    GPUMC__GLM_GROUP = 32,                   /* rows of four blocks; tiles hold whole groups */
    GPUMC__GLM_MOST = 512,                   /* rows of a tile; gpumc__sum_log1p bounds it */
    GPUMC__GLM_TILE_BYTES = 32768,           /* of X, in the second-level cache from its fetch on */
    GPUMC__GLM_CHUNKS = 128,
    GPUMC__GLM_TOGETHER = 4,                 /* points that products take at once */
    GPUMC__GLM_STRIDE = GPUMC__GLM_MOST + 104, /* from array to array: in whole pages they would share sets */
    GPUMC__GLM_POINT = 5 * GPUMC__GLM_STRIDE /* scratch of one: eta of the rows of a tile, their outputs */
};
/* Outputs of rows, GPUMC__GLM_STRIDE apart; their sums come first among those of a chunk, followed by the
   derivatives by beta and by the effects of each factor. a is sigma or phi, b is nu. */
enum { GPUMC__GLM_BY_ETA, GPUMC__GLM_VALUE, GPUMC__GLM_BY_A, GPUMC__GLM_BY_B, GPUMC__GLM_BY_BETA };

/* ---- rows: terms of log p that depend on eta, with derivatives in g, which arrives zeroed ---------- */
#define GPUMC__GLM_ROW(name) \
    GPUMC_FN gpumc_real gpumc__glm_##name(gpumc_real y, gpumc_real eta, gpumc_real a GPUMC__UNUSED, \
                                          gpumc_real b GPUMC__UNUSED, gpumc_real *g)
GPUMC__GLM_ROW(normal)
{
    const gpumc_real inv = 1 / a, z = (y - eta) * inv;
    g[GPUMC__GLM_BY_ETA] = z * inv;
    g[GPUMC__GLM_BY_A] = z * z * inv;
    return GPUMC_R(-0.5) * z * z;
}

/* log p = min(z, 0) - log(1 + e), z = (2 y - 1) eta. The second term is left to gpumc__sum_log1p, which takes
   one logarithm a tile, and e stands in place of a derivative. */
GPUMC__GLM_ROW(bernoulli_logit)
{
    const gpumc_real s = 2 * y - 1, z = s * eta, e = gpumc__exp_fall(-gpumc_fabs(z));
    g[GPUMC__GLM_BY_ETA] = (z < 0 ? s : s * e) / (1 + e);
    g[GPUMC__GLM_BY_A] = e;
    return z < 0 ? z : 0;
}
GPUMC__GLM_ROW(bernoulli_weighted) { return gpumc_bernoulli_logit_lpmf(y, eta, &g[GPUMC__GLM_BY_ETA]); }
GPUMC__GLM_ROW(poisson_log)
{
    const gpumc_real mean = gpumc_exp(eta);
    g[GPUMC__GLM_BY_ETA] = y - mean;
    return y * eta - mean;
}

/* phi log p + y log q, q = mean / (mean + phi), t = logit q */
GPUMC__GLM_ROW(neg_binomial_2_log)
{
    const gpumc_real t = eta - gpumc_log(a), e = gpumc__exp_fall(-gpumc_fabs(t)), inv = 1 / (1 + e);
    const gpumc_real p = (t < 0 ? 1 : e) * inv, q = (t < 0 ? e : 1) * inv, slope = y * p - a * q;
    const gpumc_real minus_log_p = (t < 0 ? 0 : t) + gpumc__log1p_unit(e);
    g[GPUMC__GLM_BY_ETA] = slope;
    g[GPUMC__GLM_BY_A] = -minus_log_p - slope / a;
    return y * t - (y + a) * minus_log_p;
}
/* What that leaves out: log(Gamma(y + phi) / (Gamma(phi) y!)). */
GPUMC__GLM_ROW(neg_binomial_rest)
{
    const gpumc_real some = y > 0 ? y : 1, rest = -gpumc_lbeta(a, some) - gpumc_log(some);
    g[GPUMC__GLM_BY_ETA] = 0 * eta;
    g[GPUMC__GLM_BY_A] = gpumc__digamma_rise(a, y) + gpumc_log1p(y / a);
    return y > 0 ? rest : 0;
}

GPUMC__GLM_ROW(student_t)
{
    const gpumc_real half = GPUMC_R(0.5), inv = 1 / a, z = (y - eta) * inv, inv_b = 1 / b, r = z * z * inv_b;
    const gpumc_real share = r / (1 + r), log_1r = gpumc_log1p(r), pull = (b + 1) / (b + z * z);
    g[GPUMC__GLM_BY_ETA] = pull * z * inv;
    g[GPUMC__GLM_BY_A] = pull * z * z * inv;
    g[GPUMC__GLM_BY_B] = half * (gpumc__share_less_log(r, share, log_1r) + share * inv_b);
    return -half * (b + 1) * log_1r;
}

/* ---- loops, one copy an instruction set ------------------------------------------------------------
   Before every 32 products a point they fetch two lines, step bytes apart, from next on; a step below the
   length of a line spreads the same lines over more work. */

/* eta += X b at P points: what is read of X serves all. Where columns end within four, those read beyond them
   are finite and count 0 times. */
GPUMC__LOOP_INLINE void gpumc__glm_predict(size_t P, const double *GPUMC__RESTRICT x, size_t n_columns,
                                           size_t n_blocks, const double *const *b,
                                           double *GPUMC__RESTRICT eta, const char *next, size_t step)
{
    enum { V = GPUMC__GLM_LANES };
    for (size_t k = 0; k < n_columns; k += 4) {
        double by[GPUMC__GLM_TOGETHER][4];
        for (size_t p = 0; p < P; p++)
            for (size_t j = 0; j < 4; j++) by[p][j] = b[p] && k + j < n_columns ? b[p][k + j] : 0;
        for (size_t i = 0; i < n_blocks; i++, next += 2 * step) {
            const double *GPUMC__RESTRICT c = x + (i * n_columns + k) * V;
            double *GPUMC__RESTRICT e = eta + i * V;
            GPUMC__FETCH(next);
            GPUMC__FETCH(next + step);
            GPUMC__WIDE_LOOP for (size_t l = 0; l < V; l++) {
                const double c_0 = c[l], c_1 = c[V + l], c_2 = c[2 * V + l], c_3 = c[3 * V + l];
                GPUMC__FLAT for (size_t p = 0; p < P; p++)
                    e[p * GPUMC__GLM_POINT + l] = (((e[p * GPUMC__GLM_POINT + l] + c_0 * by[p][0])
                                                    + c_1 * by[p][1]) + c_2 * by[p][2]) + c_3 * by[p][3];
            }
        }
    }
}

/* lanes[k][p][l] += X'r at P points */
GPUMC__LOOP_INLINE void gpumc__glm_push(size_t P, const double *GPUMC__RESTRICT x, size_t n_columns,
                                        size_t n_blocks, const double *GPUMC__RESTRICT r,
                                        double *GPUMC__RESTRICT lanes, const char *next, size_t step)
{
    enum { V = GPUMC__GLM_LANES };
    const size_t s = n_columns * V;
    for (size_t i = 0; i < n_blocks; i += 4, x += 4 * s, r += 4 * V) {
        for (size_t k = 0; k < n_columns; k++, next += 2 * step) {
            const double *GPUMC__RESTRICT c = x + k * V;
            double *GPUMC__RESTRICT sum = lanes + k * P * V;
            GPUMC__FETCH(next);
            GPUMC__FETCH(next + step);
            GPUMC__WIDE_LOOP for (size_t l = 0; l < V; l++) {
                const double c_0 = c[l], c_1 = c[s + l], c_2 = c[2 * s + l], c_3 = c[3 * s + l];
                GPUMC__FLAT for (size_t p = 0; p < P; p++) {
                    const double *q = r + p * GPUMC__GLM_POINT;
                    sum[p * V + l] = (((sum[p * V + l] + c_0 * q[l]) + c_1 * q[V + l]) + c_2 * q[2 * V + l])
                                     + c_3 * q[3 * V + l];
                }
            }
        }
    }
}

typedef void gpumc__glm_predict_fn(const double *x, size_t n_columns, size_t n_blocks, const double *const *b,
                                   double *eta, const char *next, size_t step);
typedef void gpumc__glm_push_fn(const double *x, size_t n_columns, size_t n_blocks, const double *r,
                                double *lanes, const char *next, size_t step);
/* Rows go in whole lanes: y and out have room for those beyond n, whose outputs nobody reads. */
typedef void gpumc__glm_rows_fn(size_t n, const double *y, const double *eta, const double *a_b, double *out);
typedef struct gpumc__glm_loops {
    gpumc__glm_predict_fn *predict[2];               /* for one point, for GPUMC__GLM_TOGETHER */
    gpumc__glm_push_fn *push[2];
    void (*widen)(const float *from, double *to, size_t n);
    gpumc__glm_rows_fn *rows[GPUMC__GLM_N + 1];      /* the families and bernoulli_weighted */
} gpumc__glm_loops;

#define GPUMC__GLM_PRODUCTS(suffix, attributes, pragma, P) \
    attributes GPUMC__PEEL static void gpumc__glm_predict_##P##_##suffix( \
        const double *GPUMC__RESTRICT x, size_t n_columns, size_t n_blocks, const double *const *b, \
        double *GPUMC__RESTRICT eta, const char *next, size_t step) \
    { gpumc__glm_predict(P, x, n_columns, n_blocks, b, eta, next, step); } \
    attributes GPUMC__PEEL static void gpumc__glm_push_##P##_##suffix( \
        const double *GPUMC__RESTRICT x, size_t n_columns, size_t n_blocks, const double *GPUMC__RESTRICT r, \
        double *GPUMC__RESTRICT lanes, const char *next, size_t step) \
    { gpumc__glm_push(P, x, n_columns, n_blocks, r, lanes, next, step); }
#define GPUMC__GLM_ROWS(suffix, attributes, pragma, name) \
    attributes static void gpumc__glm_##name##_##suffix( \
        size_t n, const double *GPUMC__RESTRICT y, const double *GPUMC__RESTRICT eta, \
        const double *GPUMC__RESTRICT a_b, double *GPUMC__RESTRICT out) \
    { \
        const gpumc_real a = GPUMC_R(a_b[0]), b = GPUMC_R(a_b[1]); \
        for (size_t at = 0; at < n; at += GPUMC__STRIP_##suffix) { \
            double *o = out + at; \
            GPUMC__STRIP_LOOP_##suffix for (size_t l = 0; l < GPUMC__STRIP_##suffix; l++) { \
                gpumc_real g[4] = { 0, 0, 0, 0 }; \
                g[GPUMC__GLM_VALUE] = gpumc__glm_##name(y[at + l], eta[at + l], a, b, g); \
                GPUMC__FLAT for (size_t q = 0; q < 4; q++) o[q * GPUMC__GLM_STRIDE + l] = g[q]; \
            } \
        } \
    }
#define GPUMC__GLM_LOOPS(suffix, attributes, pragma, ...) \
    attributes static void gpumc__glm_widen_##suffix( \
        const float *GPUMC__RESTRICT from, double *GPUMC__RESTRICT to, size_t n) \
    { pragma for (size_t i = 0; i < n; i++) to[i] = (double)from[i]; } \
    static const gpumc__glm_loops gpumc__glm_loops_##suffix = { \
        { gpumc__glm_predict_1_##suffix, gpumc__glm_predict_4_##suffix }, \
        { gpumc__glm_push_1_##suffix, gpumc__glm_push_4_##suffix }, gpumc__glm_widen_##suffix, \
        { gpumc__glm_normal_##suffix, gpumc__glm_bernoulli_logit_##suffix, gpumc__glm_poisson_log_##suffix, \
          gpumc__glm_neg_binomial_2_log_##suffix, gpumc__glm_student_t_##suffix, \
          gpumc__glm_bernoulli_weighted_##suffix } };
GPUMC__ISA_COPIES(GPUMC__GLM_PRODUCTS, 1)
GPUMC__ISA_COPIES(GPUMC__GLM_PRODUCTS, 4)    /* GPUMC__GLM_TOGETHER, as a number for the names */
GPUMC__ISA_COPIES(GPUMC__GLM_ROWS, normal)
GPUMC__ISA_COPIES(GPUMC__GLM_ROWS, bernoulli_logit)
GPUMC__ISA_COPIES(GPUMC__GLM_ROWS, bernoulli_weighted)
GPUMC__ISA_COPIES(GPUMC__GLM_ROWS, poisson_log)
GPUMC__ISA_COPIES(GPUMC__GLM_ROWS, neg_binomial_2_log)
GPUMC__ISA_COPIES(GPUMC__GLM_ROWS, student_t)
GPUMC__ISA_COPIES(GPUMC__GLM_LOOPS, 0)
GPUMC__ISA_BASELINE(GPUMC__GLM_ROWS, neg_binomial_rest)
static const gpumc__glm_loops *const gpumc__glm_isa[] = GPUMC__ISA_TABLE(&gpumc__glm_loops);

/* ---- one pass -------------------------------------------------------------------------------------- */
struct gpumc_glm {
    gpumc_glm_data data;            /* y, offset and weights are copies; x and factors are stored as below */
    const gpumc__glm_loops *loops;
    gpumc__glm_rows_fn *rows;
    size_t tile_rows, chunk_rows, n_chunks;
    size_t n_outputs, width;        /* outputs a row; sums a chunk and point */
    size_t each;                    /* bytes of an element of x: of a float or a double */
    int is_product;                 /* rows are bernoulli_logit */
    char *x;
    uint32_t *level;                /* factor after factor */
    size_t *effect_at;              /* where the effects of each factor begin in the sums */
    double total_weight, constant;  /* constant: what no parameter changes */
    double *counts, *count_weights; /* negative binomial: each distinct count and its total weight */
    size_t n_counts;
};

static size_t gpumc__round_up(size_t n, size_t to) { return gpumc__size_add(n, to - 1) / to * to; }
/* sigma or phi, and nu; NaN for one that was not given. */
static void gpumc__glm_parameters(const gpumc_glm *g, const gpumc_glm_point *at, double *a_b)
{
    const double *a = g->data.family == GPUMC_GLM_NEG_BINOMIAL_2_LOG ? at->phi : at->sigma;
    a_b[0] = a ? *a : GPUMC_NAN;
    a_b[1] = at->nu ? *at->nu : GPUMC_NAN;
}

/* Where the columns of rows from first on are stored. */
static const char *gpumc__glm_at(const gpumc_glm *g, size_t first)
{ return g->x + first * g->data.n_columns * g->each; }
/* The same in double: widened, with the three columns beyond the end that may be read. */
static const double *gpumc__glm_columns(const gpumc_glm *g, size_t first, size_t filled, double *wide)
{
    const void *x = gpumc__glm_at(g, first);
    if (g->each == sizeof(double)) return (const double *)x;
    g->loops->widen((const float *)x, wide, filled * g->data.n_columns + 3 * GPUMC__GLM_LANES);
    return wide;
}

/* What is fetched of the next tile: burst bytes before every loop over rows, the rest by the products. */
typedef struct gpumc__glm_next { const char *at; size_t step, burst; } gpumc__glm_next;

static void gpumc__glm_fetch(gpumc__glm_next *next)
{
    for (size_t i = 0; i < next->burst; i += 64) GPUMC__FETCH(next->at + i);
    next->at += next->burst;
}

/* eta of n rows but for X b; those that fill up the last group get the intercept alone. */
static GPUMC_LOOP void gpumc__glm_eta(const gpumc_glm *g, const gpumc_glm_point *at, size_t first, size_t n,
                                      double *eta, gpumc__glm_next *next)
{
    const size_t filled = gpumc__round_up(n, GPUMC__GLM_GROUP);
    const double intercept = at->intercept ? *at->intercept : 0;
    for (size_t i = 0; i < filled; i++) eta[i] = intercept;
    for (size_t i = 0; g->data.offset && i < n; i++) eta[i] += g->data.offset[first + i];
    for (size_t f = 0; at->effects && f < g->data.n_factors; f++) {
        const uint32_t *level = g->level + f * g->data.n_rows + first;
        const double *effect = at->effects[f];
        gpumc__glm_fetch(next);
        for (size_t i = 0; effect && i < n; i++) eta[i] += effect[level[i]];
    }
}

/* Runs a loop over rows, weighs its outputs and adds them up. */
static GPUMC_LOOP void gpumc__glm_add_rows(const gpumc_glm *g, gpumc__glm_rows_fn *rows, size_t n,
                                           const double *y, const double *eta, const double *weights,
                                           const double *a_b, double *out, double *sums)
{
    rows(n, y, eta, a_b, out);
    for (size_t q = 0; q < g->n_outputs; q++) {
        double *v = out + q * GPUMC__GLM_STRIDE;
        for (size_t i = 0; weights && i < n; i++) v[i] = weights[i] > 0 ? v[i] * weights[i] : 0;
        sums[q] += gpumc__sum(v, n);
    }
    if (g->is_product)
        sums[GPUMC__GLM_VALUE] -= gpumc__sum_log1p(out + (size_t)GPUMC__GLM_BY_A * GPUMC__GLM_STRIDE, n);
}

/* From eta of n rows to r, the derivatives by it, which follow it; adds to sums at one point. */
static void gpumc__glm_respond(const gpumc_glm *g, const gpumc_glm_point *at, size_t first, size_t n,
                               double *eta, double *sums, gpumc__glm_next *next)
{
    const double *weights = g->data.weights ? g->data.weights + first : NULL;
    double *r = eta + GPUMC__GLM_STRIDE, a_b[2];
    gpumc__glm_parameters(g, at, a_b);
    gpumc__glm_fetch(next);
    gpumc__glm_add_rows(g, g->rows, n, g->data.y + first, eta, weights, a_b, r, sums);
    for (size_t f = 0; f < g->data.n_factors; f++) {
        const uint32_t *level = g->level + f * g->data.n_rows + first;
        double *GPUMC__RESTRICT by_effect = sums + g->effect_at[f];
        gpumc__glm_fetch(next);
        for (size_t i = 0; i < n; i++) by_effect[level[i]] += r[i];
    }
    memset(r + n, 0, (gpumc__round_up(n, GPUMC__GLM_GROUP) - n) * sizeof *r);
}

/* What rows first .. first + n add at P points: to sums of each, and X'r to lanes. */
static void gpumc__glm_tile(const gpumc_glm *g, size_t P, const gpumc_glm_point *at, size_t first, size_t n,
                            const double *x, gpumc__glm_next *next, double *scratch, double *sums,
                            double *lanes)
{
    const size_t K = g->data.n_columns, n_blocks = gpumc__round_up(n, GPUMC__GLM_GROUP) / GPUMC__GLM_LANES;
    const int several = P > 1;
    const double *beta[GPUMC__GLM_TOGETHER];
    for (size_t p = 0; p < P; p++) {
        beta[p] = at[p].beta;
        gpumc__glm_eta(g, &at[p], first, n, scratch + p * GPUMC__GLM_POINT, next);
    }
    g->loops->predict[several](x, K, n_blocks, beta, scratch, next->at, next->step);
    next->at += n_blocks * K / 2 * next->step;
    for (size_t p = 0; p < P; p++)
        gpumc__glm_respond(g, &at[p], first, n, scratch + p * GPUMC__GLM_POINT, sums + p * g->width, next);
    g->loops->push[several](x, K, n_blocks, scratch + GPUMC__GLM_STRIDE, lanes, next->at, next->step);
    next->at += n_blocks * K / 2 * next->step;
}

/* How many of n points go through a tile together. */
static size_t gpumc__glm_together(size_t n) { return n < GPUMC__GLM_TOGETHER ? 1 : GPUMC__GLM_TOGETHER; }

/* How P of n points fetch their share of a tile. */
static gpumc__glm_next gpumc__glm_share(const gpumc_glm *g, size_t P, size_t n)
{
    const size_t values = g->tile_rows * g->data.n_columns, share = values * g->each * P / n;
    const size_t bursts = P * (2 * g->data.n_factors + 1);
    gpumc__glm_next next = { NULL, 0, gpumc__smaller(1024, share / (bursts + 1)) };
    if (values) next.step = (share - bursts * next.burst) / (values / 8);
    return next;
}

/* Doubles of scratch of one thread. */
static size_t gpumc__glm_scratch(const gpumc_glm *g, size_t n_points)
{
    const size_t K = g->data.n_columns, V = GPUMC__GLM_LANES;
    const size_t wide = g->each == sizeof(double) ? 0 : g->tile_rows * K + 3 * V;
    return gpumc__glm_together(n_points) * GPUMC__GLM_POINT + wide + n_points * K * V;
}

/* Sums of every chunk and point, scratch of every thread. */
typedef struct gpumc__glm_pass {
    const gpumc_glm *g;
    size_t n;
    const gpumc_glm_point *at;
    double *sums, *scratch;
} gpumc__glm_pass;

/* The sums of a chunk at all points. */
static void gpumc__glm_chunk(size_t chunk, int member, void *user)
{
    const gpumc__glm_pass *pass = (const gpumc__glm_pass *)user;
    const gpumc_glm *g = pass->g;
    const size_t n = pass->n, K = g->data.n_columns, V = GPUMC__GLM_LANES;
    const size_t from = chunk * g->chunk_rows, to = gpumc__smaller(from + g->chunk_rows, g->data.n_rows);
    double *sums = pass->sums + chunk * n * g->width;
    double *scratch = pass->scratch + (size_t)member * gpumc__glm_scratch(g, n);
    double *lanes = scratch + gpumc__glm_together(n) * GPUMC__GLM_POINT, *wide = lanes + n * K * V;
    gpumc__glm_next alone = gpumc__glm_share(g, 1, n);
    gpumc__glm_next many = gpumc__glm_share(g, GPUMC__GLM_TOGETHER, n);
    memset(sums, 0, n * g->width * sizeof *sums);
    memset(lanes, 0, n * K * V * sizeof *lanes);
    for (size_t first = from; first < to; first += g->tile_rows) {
        const size_t rows = gpumc__smaller(g->tile_rows, to - first);
        const double *x = gpumc__glm_columns(g, first, gpumc__round_up(rows, GPUMC__GLM_GROUP), wide);
        const char *next = gpumc__glm_at(g, first + g->tile_rows);
        for (size_t p = 0, P; p < n; p += P) {
            gpumc__glm_next *share = (P = gpumc__glm_together(n - p)) > 1 ? &many : &alone;
            share->at = next;
            gpumc__glm_tile(g, P, &pass->at[p], first, rows, x, share, scratch, sums + p * g->width,
                            lanes + p * K * V);
            next = share->at;
        }
    }
    for (size_t p = 0, P; p < n; p += P) {
        P = gpumc__glm_together(n - p);
        for (size_t k = 0; k < K; k++)
            for (size_t j = 0; j < P; j++)
                sums[(p + j) * g->width + GPUMC__GLM_BY_BETA + k]
                    = gpumc__lane_sum(lanes + (p * K + k * P + j) * V);
    }
}

GPUMC_API size_t gpumc_glm_work(const gpumc_glm *g, size_t n_points, size_t n_threads)
{ return n_points * g->n_chunks * g->width + n_threads * gpumc__glm_scratch(g, n_points) + 8; }

/* What rows of the real families leave out, the same for all, with its derivatives by a and b. */
static double gpumc__glm_rest(gpumc_glm_family family, const double *a_b, double *by_a, double *by_b)
{
    if (family == GPUMC_GLM_NORMAL) return gpumc_normal_lpdf(0, 0, a_b[0], NULL, NULL, by_a);
    if (family != GPUMC_GLM_STUDENT_T) return 0;
    return gpumc_student_t_lpdf(0, a_b[1], 0, a_b[0], NULL, by_b, NULL, by_a);
}

/* Adds what all rows leave out. */
static void gpumc__glm_add_rest(const gpumc_glm *g, const double *a_b, double *sums, double *out)
{
    double by_a = 0, by_b = 0;
    const double value = gpumc__glm_rest(g->data.family, a_b, &by_a, &by_b);
    sums[GPUMC__GLM_VALUE] += g->total_weight * value + g->constant;
    sums[GPUMC__GLM_BY_A] += g->total_weight * by_a;
    sums[GPUMC__GLM_BY_B] += g->total_weight * by_b;
    for (size_t i = 0; i < g->n_counts; i += GPUMC__GLM_MOST)
        gpumc__glm_add_rows(g, gpumc__glm_neg_binomial_rest_baseline,
                            gpumc__smaller(GPUMC__GLM_MOST, g->n_counts - i), g->counts + i, g->counts + i,
                            g->count_weights + i, a_b, out, sums);
}

static void gpumc__add_all(double *to, const double *from, size_t n)
{ for (size_t i = 0; to && i < n; i++) to[i] += from[i]; }
static void gpumc__glm_add_gradient(const gpumc_glm *g, const double *sums, const gpumc_glm_gradient *to)
{
    const int has_phi = g->data.family == GPUMC_GLM_NEG_BINOMIAL_2_LOG;
    gpumc__add_all(to->intercept, sums + GPUMC__GLM_BY_ETA, 1);
    gpumc__add_all(has_phi ? to->phi : to->sigma, sums + GPUMC__GLM_BY_A, g->n_outputs > GPUMC__GLM_BY_A);
    gpumc__add_all(to->nu, sums + GPUMC__GLM_BY_B, g->n_outputs > GPUMC__GLM_BY_B);
    gpumc__add_all(to->beta, sums + GPUMC__GLM_BY_BETA, g->data.n_columns);
    for (size_t f = 0; to->effects && f < g->data.n_factors; f++)
        gpumc__add_all(to->effects[f], sums + g->effect_at[f], g->effect_at[f + 1] - g->effect_at[f]);
}

GPUMC_API void gpumc_glm_eval_batch(const gpumc_glm *g, size_t n, const gpumc_glm_point *at,
                                    const gpumc_glm_gradient *gradient, double *log_lik, double *work,
                                    gpumc_team *team)
{
    double *sums = (double *)gpumc__aligned(work), *scratch = sums + n * g->n_chunks * g->width, a_b[2];
    gpumc__glm_pass pass = { g, n, at, sums, scratch };
    if (n == 0) return;
    if (team) gpumc_team_run(team, gpumc__glm_chunk, g->n_chunks, &pass);
    else for (size_t c = 0; c < g->n_chunks; c++) gpumc__glm_chunk(c, 0, &pass);
    for (size_t c = 1; c < g->n_chunks; c++) gpumc__add_all(sums, sums + c * n * g->width, n * g->width);
    for (size_t p = 0; p < n; p++, sums += g->width) {
        gpumc__glm_parameters(g, &at[p], a_b);
        gpumc__glm_add_rest(g, a_b, sums, scratch);
        log_lik[p] = sums[GPUMC__GLM_VALUE];
        if (gradient) gpumc__glm_add_gradient(g, sums, &gradient[p]);
    }
}

GPUMC_API double gpumc_glm_eval(const gpumc_glm *g, const gpumc_glm_point *at,
                                const gpumc_glm_gradient *gradient, double *work)
{
    double log_lik;
    gpumc_glm_eval_batch(g, 1, at, gradient, &log_lik, work, NULL);
    return log_lik;
}

/* Adds to the values of n rows what they leave out. */
static void gpumc__glm_complete(gpumc_glm_family family, size_t n, const double *y, const double *a_b,
                                double *values, double *out)
{
    const double *rest = out + (size_t)GPUMC__GLM_VALUE * GPUMC__GLM_STRIDE;
    double by_a = 0, by_b = 0;
    const double same = gpumc__glm_rest(family, a_b, &by_a, &by_b);
    if (family == GPUMC_GLM_NEG_BINOMIAL_2_LOG) gpumc__glm_neg_binomial_rest_baseline(n, y, y, a_b, out);
    for (size_t i = 0; i < n; i++) {
        if (family == GPUMC_GLM_POISSON_LOG) values[i] -= gpumc__lgamma(y[i] + 1);
        else if (family == GPUMC_GLM_NEG_BINOMIAL_2_LOG) values[i] += rest[i];
        else values[i] += same;
    }
}

GPUMC_API void gpumc_glm_pointwise(const gpumc_glm *g, const gpumc_glm_point *at, double *log_lik,
                                   double *work)
{
    double *eta = (double *)gpumc__aligned(work), *out = eta + GPUMC__GLM_STRIDE, a_b[2];
    double *wide = eta + GPUMC__GLM_POINT;
    gpumc__glm_next nothing = { g->x, 0, 0 };
    gpumc__glm_parameters(g, at, a_b);
    for (size_t first = 0; first < g->data.n_rows; first += g->tile_rows) {
        const size_t n = gpumc__smaller(g->tile_rows, g->data.n_rows - first);
        const double *x = gpumc__glm_columns(g, first, gpumc__round_up(n, GPUMC__GLM_GROUP), wide);
        const double *y = g->data.y + first;
        gpumc__glm_eta(g, at, first, n, eta, &nothing);
        g->loops->predict[0](x, g->data.n_columns, gpumc__round_up(n, GPUMC__GLM_GROUP) / GPUMC__GLM_LANES,
                             &at->beta, eta, g->x, 0);
        (g->is_product ? g->loops->rows[GPUMC__GLM_N] : g->rows)(n, y, eta, a_b, out);
        memcpy(log_lik + first, out + (size_t)GPUMC__GLM_VALUE * GPUMC__GLM_STRIDE, n * sizeof *log_lik);
        gpumc__glm_complete(g->data.family, n, y, a_b, log_lik + first, out);
    }
}
GPUMC__SELDOM

/* ---- from data to tiles ---------------------------------------------------------------------------- */
static gpumc_status gpumc__glm_check_shape(const gpumc_glm_data *d, gpumc_error *error)
{
    const char *wrong = NULL;
    if (!d) wrong = "data is NULL; describe a design matrix in it";
    else if ((int)d->family < 0 || d->family >= GPUMC__GLM_N) wrong = "family is unknown; use GPUMC_GLM_...";
    else if (d->n_rows == 0 || !d->y) wrong = "there are no rows; set n_rows and y";
    else if (d->x && d->x_float) wrong = "both x and x_float are given; leave one NULL";
    else if ((d->x || d->x_float) != (d->n_columns > 0)) wrong = "x and n_columns contradict each other";
    else if (d->n_factors && !d->factors) wrong = "n_factors is set but factors is NULL";
    if (wrong) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "glm: %s", wrong);
    for (size_t f = 0; f < d->n_factors; f++)
        if (!d->factors[f].level || d->factors[f].n_levels == 0 || d->factors[f].n_levels > UINT32_MAX)
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "glm: factor %.0f: level is NULL or n_levels, "
                               "%.0f, is not in 1..2^32 - 1", (double)f, (double)d->factors[f].n_levels);
    return GPUMC_OK;
}

static double gpumc__glm_x(const gpumc_glm_data *d, size_t row, size_t column)
{
    const size_t at = d->column_major ? column * d->n_rows + row : row * d->n_columns + column;
    return d->x ? d->x[at] : (double)d->x_float[at];
}

static int gpumc__glm_supports(gpumc_glm_family family, double y)
{
    if (!gpumc__is_finite(y)) return 0;
    if (family == GPUMC_GLM_NORMAL || family == GPUMC_GLM_STUDENT_T) return 1;
    return y >= 0 && gpumc_floor(y) == y && (y <= 1 || family != GPUMC_GLM_BERNOULLI_LOGIT);
}

static gpumc_status gpumc__glm_bad(gpumc_error *error, size_t row, const char *what, double value,
                                   const char *wanted)
{
    return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "glm: %s is %g in row %.0f (from 0); it must be %s", what,
                       value, (double)row, wanted);
}

static gpumc_status gpumc__glm_check_row(const gpumc_glm_data *d, size_t i, gpumc_error *error)
{
#define GPUMC__GLM_SUPPORT(NAME, name, support) support,
    static const char *const supports[] = { GPUMC_GLM_FAMILIES(GPUMC__GLM_SUPPORT) };
    const double most = d->single_precision ? (double)FLT_MAX : DBL_MAX;
    char what[64];
    if (!gpumc__glm_supports(d->family, d->y[i]))
        return gpumc__glm_bad(error, i, "y", d->y[i], supports[d->family]);
    if (d->offset && !gpumc__is_finite(d->offset[i]))
        return gpumc__glm_bad(error, i, "offset", d->offset[i], "finite");
    if (d->weights && !(gpumc__is_finite(d->weights[i]) && d->weights[i] >= 0))
        return gpumc__glm_bad(error, i, "weight", d->weights[i], "finite and not negative");
    for (size_t f = 0; f < d->n_factors; f++) {
        if (d->factors[f].level[i] < d->factors[f].n_levels) continue;
        snprintf(what, sizeof what, "level of factor %.0f", (double)f);
        return gpumc__glm_bad(error, i, what, (double)d->factors[f].level[i], "below n_levels");
    }
    for (size_t k = 0; k < d->n_columns; k++) {
        const double x = gpumc__glm_x(d, i, k);
        if (gpumc__is_finite(x) && fabs(x) <= most) continue;
        snprintf(what, sizeof what, "x in column %.0f", (double)k);
        return gpumc__glm_bad(error, i, what, x, most < DBL_MAX ? "finite in single precision" : "finite");
    }
    return GPUMC_OK;
}

/* Sizes. A chunk is long enough for its sums to cost little beside its rows. */
static gpumc_glm gpumc__glm_measure(const gpumc_glm_data *d)
{
    static const size_t n_outputs[] = { 3, 2, 2, 3, 4 };
    const size_t K = d->n_columns, fit = GPUMC__GLM_TILE_BYTES / sizeof(double) / (K ? K : 1);
    const int is_bernoulli = d->family == GPUMC_GLM_BERNOULLI_LOGIT;
    gpumc_glm g;
    memset(&g, 0, sizeof g);
    g.data = *d;
    g.n_outputs = n_outputs[d->family];
    g.each = d->single_precision || d->x_float ? sizeof(float) : sizeof(double);
    g.is_product = is_bernoulli && !d->weights;
    g.loops = gpumc__glm_isa[gpumc_isa_resolve(d->isa) - 1];
    g.rows = g.loops->rows[is_bernoulli && d->weights ? GPUMC__GLM_N : d->family];
    g.width = gpumc__size_add(GPUMC__GLM_BY_BETA, K);
    for (size_t f = 0; f < d->n_factors; f++) g.width = gpumc__size_add(g.width, d->factors[f].n_levels);
    g.width = gpumc__round_up(g.width, GPUMC__GLM_LANES);
    g.tile_rows = gpumc__smaller(fit / GPUMC__GLM_GROUP * GPUMC__GLM_GROUP, GPUMC__GLM_MOST);
    if (g.tile_rows == 0) g.tile_rows = GPUMC__GLM_GROUP;
    const size_t tiles = (d->n_rows - 1) / g.tile_rows + 1;
    const double work = (double)d->n_rows * (double)(K + d->n_factors + 8) / (256.0 * (double)g.width);
    const size_t chunks = gpumc__smaller(GPUMC__GLM_CHUNKS, work < 1000 ? 1 + (size_t)work : 1000);
    g.chunk_rows = ((tiles - 1) / chunks + 1) * g.tile_rows;
    g.n_chunks = (d->n_rows - 1) / g.chunk_rows + 1;
    return g;
}

/* Values of x that are stored: whole groups of rows, and a tile that may be fetched beyond the end. */
static size_t gpumc__glm_stored(const gpumc_glm *g)
{
    const size_t rows = gpumc__size_add(gpumc__round_up(g->data.n_rows, GPUMC__GLM_GROUP), 2 * g->tile_rows);
    return gpumc__size_add(gpumc__size_mul(rows, g->data.n_columns), 3 * GPUMC__GLM_LANES);
}

/* A copy of n numbers in the arena, with zeros up to whole lanes; NULL of NULL. */
static const double *gpumc__keep(gpumc__arena *arena, const double *from, size_t n)
{
    const size_t lanes = gpumc__round_up(n, GPUMC__GLM_LANES);
    double *kept = from ? gpumc__take_doubles(arena, lanes) : NULL;
    if (kept) memcpy(kept, from, n * sizeof *kept), memset(kept + n, 0, (lanes - n) * sizeof *kept);
    return kept;
}

/* Lays a glm out, or with an arena that only counts, finds its size. */
static gpumc_glm *gpumc__glm_place(gpumc__arena *arena, const gpumc_glm_data *d)
{
    gpumc_glm g = gpumc__glm_measure(d), *kept = (gpumc_glm *)gpumc__take(arena, 1, sizeof *kept);
    const size_t N = d->n_rows, n_counts = d->family == GPUMC_GLM_NEG_BINOMIAL_2_LOG ? N : 0;
    g.x = (char *)gpumc__take(arena, gpumc__glm_stored(&g), g.each);
    g.data.y = gpumc__keep(arena, d->y, N);
    g.data.offset = gpumc__keep(arena, d->offset, N);
    g.data.weights = gpumc__keep(arena, d->weights, N);
    g.counts = gpumc__take_doubles(arena, gpumc__round_up(n_counts, GPUMC__GLM_LANES));
    g.count_weights = gpumc__take_doubles(arena, n_counts);
    g.level = (uint32_t *)gpumc__take(arena, gpumc__size_mul(N, d->n_factors), sizeof *g.level);
    g.effect_at = (size_t *)gpumc__take(arena, gpumc__size_add(d->n_factors, 1), sizeof *g.effect_at);
    if (kept) *kept = g;
    return kept;
}

GPUMC_API size_t gpumc_glm_bytes(const gpumc_glm_data *data, gpumc_error *error)
{
    gpumc__arena arena = { NULL, 0 };
    if (gpumc__glm_check_shape(data, error) != GPUMC_OK) return 0;
    gpumc__glm_place(&arena, data);
    if (arena.used < SIZE_MAX - 64) return arena.used + 64;
    gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "glm: the sizes overflow");
    return 0;
}

static void gpumc__glm_store_columns(gpumc_glm *g, const gpumc_glm_data *d)
{
    memset(g->x, 0, gpumc__glm_stored(g) * g->each);
    for (size_t i = 0; i < g->data.n_rows; i++)
        for (size_t k = 0; k < g->data.n_columns; k++) {
            const size_t V = GPUMC__GLM_LANES, at = (i / V * g->data.n_columns + k) * V + i % V;
            void *x = g->x + at * g->each;
            if (g->each == sizeof(float)) *(float *)x = (float)gpumc__glm_x(d, i, k);
            else *(double *)x = gpumc__glm_x(d, i, k);
        }
}

/* Distinct counts in order, with their weights. */
static void gpumc__glm_tally(gpumc_glm *g)
{
    const size_t each = sizeof(double);
    memcpy(g->counts, g->data.y, gpumc__round_up(g->data.n_rows, GPUMC__GLM_LANES) * each);
    qsort(g->counts, g->data.n_rows, each, gpumc__compare_doubles);
    for (size_t i = 0; i < g->data.n_rows; i++)
        if (i == 0 || g->counts[i] != g->counts[g->n_counts - 1]) g->counts[g->n_counts++] = g->counts[i];
    memset(g->count_weights, 0, g->n_counts * each);
    for (size_t i = 0; i < g->data.n_rows; i++) {
        const void *found = bsearch(&g->data.y[i], g->counts, g->n_counts, each, gpumc__compare_doubles);
        g->count_weights[(const double *)found - g->counts] += g->data.weights ? g->data.weights[i] : 1;
    }
}

/* Levels, and what is known of the sums before any parameter. */
static void gpumc__glm_store_factors(gpumc_glm *g, const gpumc_glm_data *d)
{
    for (size_t i = 0; i < g->data.n_rows; i++) {
        const double weight = d->weights ? d->weights[i] : 1;
        g->total_weight += weight;
        if (d->family == GPUMC_GLM_POISSON_LOG) g->constant -= weight * gpumc__lgamma(d->y[i] + 1);
    }
    g->effect_at[0] = GPUMC__GLM_BY_BETA + g->data.n_columns;
    for (size_t f = 0; f < g->data.n_factors; f++) {
        g->effect_at[f + 1] = g->effect_at[f] + d->factors[f].n_levels;
        for (size_t i = 0; i < g->data.n_rows; i++)
            g->level[f * g->data.n_rows + i] = (uint32_t)d->factors[f].level[i];
    }
}

GPUMC_API gpumc_glm *gpumc_glm_init(const gpumc_glm_data *data, void *memory, size_t bytes,
                                    gpumc_error *error)
{
    gpumc__arena arena = { (char *)gpumc__aligned(memory), 0 };
    const size_t needed = gpumc_glm_bytes(data, error);
    if (needed == 0) return NULL;
    if (!memory || bytes < needed) {
        gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "glm: %.0f bytes of memory where gpumc_glm_bytes says %.0f",
                    memory ? (double)bytes : 0.0, (double)needed);
        return NULL;
    }
    for (size_t i = 0; i < data->n_rows; i++)
        if (gpumc__glm_check_row(data, i, error) != GPUMC_OK) return NULL;
    gpumc_glm *g = gpumc__glm_place(&arena, data);
    gpumc__glm_store_columns(g, data);
    gpumc__glm_store_factors(g, data);
    if (g->data.family == GPUMC_GLM_NEG_BINOMIAL_2_LOG) gpumc__glm_tally(g);
    return g;
}

/* ======================================================================================= >>device
   The table of gpumc_cuda.cu, or one that has nothing; and the CPU in its place. */
#if !defined(GPUMC_CUDA)
static gpumc_status gpumc__no_device(gpumc_device_info *info, gpumc_error *error)
{
    memset(info, 0, sizeof *info);
    return gpumc__fail(error, GPUMC_ERROR_DEVICE, "no GPU: this program was built without GPUMC_CUDA");
}
static const gpumc__device *gpumc__cuda_device(void)
{
    static const gpumc__device none = { gpumc__no_device, NULL, NULL };
    return &none;
}
#endif
GPUMC_API gpumc_status gpumc_device_describe(gpumc_device_info *info, gpumc_error *error)
{
    if (!info) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_device_describe: info is NULL");
    return gpumc__cuda_device()->describe(info, error);
}

/* Rows or a design matrix on this CPU, in blocks of their own. */
enum { GPUMC__HOT_POINTS = 16 };          /* in one pass */
typedef struct gpumc__cpu_hot {
    gpumc_hot hot;
    gpumc_rows *rows;
    gpumc_glm *glm;
    size_t n_pointers;                    /* of a point: parameters of rows, factors */
    gpumc_team *team;
    void *memory;
    double *work, **grad;
    const double **p;
} gpumc__cpu_hot;

static void gpumc__cpu_release(gpumc_hot *hot)
{
    gpumc__cpu_hot *h = (gpumc__cpu_hot *)hot;
    gpumc_team_stop(h->team);
    gpumc__release(NULL, h->memory);
    gpumc__release(NULL, h->work);
    gpumc__release(NULL, h->grad);
    gpumc__release(NULL, (void *)h->p);
    gpumc__release(NULL, h);
}

static gpumc_status gpumc__cpu_rows_eval(gpumc_hot *hot, size_t n, const double *p, double *grad, double *lp,
                                         gpumc_error *error)
{
    gpumc__cpu_hot *h = (gpumc__cpu_hot *)hot;
    const gpumc_rows *r = h->rows;
    (void)error;
    for (size_t done = 0, some; done < n; done += some) {
        size_t k = 0;
        some = gpumc__smaller(n - done, GPUMC__HOT_POINTS);
        for (size_t i = 0, at = done * hot->n_params; i < some; i++)
            for (size_t j = 0; j < h->n_pointers; at += j++ < r->kind.n_group ? r->info.n_groups : 1) {
                h->p[k] = p + at;
                h->grad[k++] = grad + at;
            }
        gpumc_rows_eval_batch(h->rows, some, h->p, h->grad, lp + done, h->work, h->team);
    }
    return GPUMC_OK;
}

/* Behind the effects stand sigma or phi, and nu, of the families that have them. */
static void gpumc__cpu_glm_point(gpumc__cpu_hot *h, size_t i, const double *p, double *grad,
                                 gpumc_glm_point *at, gpumc_glm_gradient *to)
{
    const double **effects = h->p + i * h->n_pointers;
    double **to_effects = h->grad + i * h->n_pointers;
    const size_t n_aux = h->glm->n_outputs - GPUMC__GLM_BY_A, k = h->hot.n_params - n_aux;
    for (size_t f = 0; f < h->n_pointers; f++) {
        effects[f] = p + (h->glm->effect_at[f] - GPUMC__GLM_BY_BETA + 1);
        to_effects[f] = grad + (effects[f] - p);
    }
    const double *a = n_aux > 0 ? p + k : NULL, *b = n_aux > 1 ? p + k + 1 : NULL;
    double *to_a = n_aux > 0 ? grad + k : NULL, *to_b = n_aux > 1 ? grad + k + 1 : NULL;
    const gpumc_glm_point from = { p, p + 1, effects, a, b, a };
    const gpumc_glm_gradient into = { grad, grad + 1, to_effects, to_a, to_b, to_a };
    *at = from;
    *to = into;
}

static gpumc_status gpumc__cpu_glm_eval(gpumc_hot *hot, size_t n, const double *p, double *grad, double *lp,
                                        gpumc_error *error)
{
    gpumc__cpu_hot *h = (gpumc__cpu_hot *)hot;
    gpumc_glm_point at[GPUMC__HOT_POINTS];
    gpumc_glm_gradient to[GPUMC__HOT_POINTS];
    (void)error;
    for (size_t done = 0, some; done < n; done += some) {
        some = gpumc__smaller(n - done, GPUMC__HOT_POINTS);
        for (size_t i = 0, from = done * hot->n_params; i < some; i++, from += hot->n_params)
            gpumc__cpu_glm_point(h, i, p + from, grad + from, &at[i], &to[i]);
        gpumc_glm_eval_batch(h->glm, some, at, to, lp + done, h->work, h->team);
    }
    return GPUMC_OK;
}

/* The doubles of work that rows need; 0 where they are refused. */
static size_t gpumc__cpu_take_rows(gpumc__cpu_hot *h, const gpumc_rows_data *data, size_t bytes,
                                   gpumc_error *error)
{
    h->rows = gpumc_rows_init(data, h->memory, bytes, error);
    if (!h->rows) return 0;
    h->hot.n_params = data->kind->n_group * data->n_groups + data->kind->n_shared;
    h->hot.eval = gpumc__cpu_rows_eval;
    return gpumc__size_mul(gpumc_rows_work(h->rows),
                           gpumc__larger((size_t)gpumc_team_threads(h->team), GPUMC__HOT_POINTS));
}
static size_t gpumc__cpu_take_glm(gpumc__cpu_hot *h, const gpumc_glm_data *data, size_t bytes,
                                  gpumc_error *error)
{
    h->glm = gpumc_glm_init(data, h->memory, bytes, error);
    if (!h->glm) return 0;
    h->hot.n_params = 1 + h->glm->effect_at[data->n_factors] - GPUMC__GLM_BY_BETA + h->glm->n_outputs
        - GPUMC__GLM_BY_A;
    h->hot.eval = gpumc__cpu_glm_eval;
    return gpumc_glm_work(h->glm, GPUMC__HOT_POINTS, (size_t)gpumc_team_threads(h->team));
}

/* Released whole when memory ends. */
static gpumc_hot *gpumc__cpu_open(const gpumc_rows_data *rows, const gpumc_glm_data *glm, size_t bytes,
                                  gpumc_error *error)
{
    const size_t n_pointers = rows ? rows->kind->n_group + rows->kind->n_shared : glm->n_factors;
    const size_t of_pointers = gpumc__size_mul(n_pointers + 1, GPUMC__HOT_POINTS * sizeof(double *));
    size_t n_work = 1;
    gpumc__cpu_hot *h = (gpumc__cpu_hot *)gpumc__allocate(NULL, sizeof *h);
    if (h) {
        memset(h, 0, sizeof *h);
        h->hot.where = "CPU";
        h->hot.release = gpumc__cpu_release;
        h->n_pointers = n_pointers;
        h->memory = gpumc__allocate(NULL, bytes);
        h->p = (const double **)gpumc__allocate(NULL, of_pointers);
        h->grad = (double **)gpumc__allocate(NULL, of_pointers);
        h->team = gpumc_team_start(0, NULL);
        if (h->memory && h->p && h->grad && h->team) {
            n_work = rows ? gpumc__cpu_take_rows(h, rows, bytes, error)
                          : gpumc__cpu_take_glm(h, glm, bytes, error);
            bytes = gpumc__size_mul(n_work, sizeof(double));
            h->work = n_work ? (double *)gpumc__allocate(NULL, bytes) : NULL;
        }
        if (h->work) return &h->hot;
        gpumc__cpu_release(&h->hot);
    }
    if (n_work) gpumc__fail_memory(error, bytes);
    return NULL;
}

/* The GPU's answer, or the CPU's with the reason. */
static gpumc_hot *gpumc__hot_open(const gpumc_rows_data *rows, const gpumc_glm_data *glm, size_t max_points,
                                  gpumc_place place, gpumc_error *error)
{
    const gpumc__device *gpu = gpumc__cuda_device();
    const size_t bytes = rows ? gpumc_rows_bytes(rows, error) : gpumc_glm_bytes(glm, error);
    gpumc_error why = { GPUMC_OK, "" };
    gpumc_device_info info;
    gpumc_hot *hot = NULL;
    if (!bytes) return NULL;
    for (size_t i = 0; glm && i < glm->n_rows && place != GPUMC_ON_CPU; i++)  /* there gpumc_glm_init does */
        if (gpumc__glm_check_row(glm, i, error) != GPUMC_OK) return NULL;
    if (!max_points) {
        gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_hot_%s: max_points is 0; use at least 1",
                    rows ? "rows" : "glm");
        return NULL;
    }
    if (place != GPUMC_ON_CPU && gpu->describe(&info, &why) == GPUMC_OK)
        hot = rows ? gpu->rows(rows, max_points, &why) : gpu->glm(glm, max_points, &why);
    if (hot) return hot;
    if (place == GPUMC_ON_GPU) {
        gpumc__fail(error, why.status, "%s", why.text);
        return NULL;
    }
    hot = gpumc__cpu_open(rows, glm, bytes, error);
    if (hot) memcpy(hot->reason, why.text, sizeof hot->reason);
    return hot;
}
GPUMC_API gpumc_hot *gpumc_hot_rows(const gpumc_rows_data *data, size_t max_points, gpumc_place place,
                                    gpumc_error *error)
{
    if (data) return gpumc__hot_open(data, NULL, max_points, place, error);
    gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_hot_rows: data is NULL");
    return NULL;
}
GPUMC_API gpumc_hot *gpumc_hot_glm(const gpumc_glm_data *data, size_t max_points, gpumc_place place,
                                   gpumc_error *error)
{ return gpumc__hot_open(NULL, data, max_points, place, error); }
GPUMC_API gpumc_status gpumc_hot_eval(gpumc_hot *hot, size_t n, const double *p, double *grad, double *lp,
                                      gpumc_error *error)
{
    if (hot && (n == 0 || (p && grad && lp))) return hot->eval(hot, n, p, grad, lp, error);
    return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_hot_eval: %s is NULL", !hot ? "hot" : "an array");
}
GPUMC_API void gpumc_hot_release(gpumc_hot *hot)
{ if (hot) hot->release(hot); }

/* ========================================================================================= >>hier
   A description is resolved once: names become places, priors and populations functions, rows row objects.
   An evaluation goes forward over the blocks (priors, populations, values from coordinates), over the sets of
   rows, and backward over the blocks (gradients by values to coordinates). Coordinates are what the model
   samples, values what the description calls by name. Read first: gpumc__hier_density, then
   gpumc__hier_resolve. */
#define GPUMC__BAD_PARAM(error, ...) gpumc__bad_block(error, "parameter", __VA_ARGS__)

/* ---- priors: a function a family, with a number that says what is wanted ------------------------- */
enum { GPUMC__DENSITY = 0, GPUMC__QUANTILE = 2 };    /* beside GPUMC__LOWER and GPUMC__UPPER: log cdfs */
typedef double gpumc__prior_fn(int what, double y, const double *a, double *dy);
typedef struct gpumc__prior_law { gpumc__prior_fn *f; const char *name, *parameters; } gpumc__prior_law;
typedef struct gpumc__prior { gpumc__prior_fn *f; double a[3], log_mass; } gpumc__prior;

#define GPUMC__PRIOR_LAW(family, parameters) \
    GPUMC_API const gpumc__prior_law *gpumc_prior_##family(void) \
    { \
        static const gpumc__prior_law law = { gpumc__prior_##family, #family, parameters }; \
        return &law; \
    }
#define GPUMC__PRIOR(family, density, cdf, quantile) \
    static double gpumc__prior_##family(int what, double y, const double *a GPUMC__UNUSED, double *dy) \
    { \
        if (what == GPUMC__DENSITY) return gpumc_##family##_lpdf density; \
        if (what == GPUMC__QUANTILE) return gpumc_##family##_quantile quantile; \
        return gpumc__##family##_cdf cdf; \
    }
#define GPUMC__PRIOR_REAL_0(family) GPUMC__PRIOR(family, (y, dy), (what, y, NULL), (y))
#define GPUMC__PRIOR_REAL_1(family) \
    GPUMC__PRIOR(family, (y, *a, dy, NULL), (what, y, *a, NULL, NULL), (y, *a))
#define GPUMC__PRIOR_REAL_2(family) GPUMC__PRIOR(family, (y, a[0], a[1], dy, NULL, NULL), \
    (what, y, a[0], a[1], NULL, NULL, NULL), (y, a[0], a[1]))
#define GPUMC__PRIOR_REAL_3(family) GPUMC__PRIOR(family, (y, a[0], a[1], a[2], dy, NULL, NULL, NULL), \
    (what, y, a[0], a[1], a[2], NULL, NULL, NULL, NULL), (y, a[0], a[1], a[2]))
#define GPUMC__PRIOR_OF(shape, cdf, family, parameters, support) \
    GPUMC__IF_##shape(GPUMC__PRIOR_##shape(family) GPUMC__PRIOR_LAW(family, parameters))
GPUMC_FAMILIES(GPUMC__PRIOR_OF)
static double gpumc__prior_flat(int what, double y, const double *a GPUMC__UNUSED, double *dy GPUMC__UNUSED)
{ return what == GPUMC__DENSITY ? 0 * y : GPUMC_NAN; }
GPUMC__PRIOR_LAW(flat, "")

/* Log probability between the bounds, from the tail that is smaller. */
static double gpumc__prior_log_mass(const gpumc__prior *p, double lower, double upper)
{
    const int side = p->f(GPUMC__LOWER, lower, p->a, NULL) < -GPUMC_LOG_2 ? GPUMC__LOWER : GPUMC__UPPER;
    const double all = p->f(side, side == GPUMC__LOWER ? upper : lower, p->a, NULL);
    return all + gpumc__log1m_exp(all - p->f(side, side == GPUMC__LOWER ? lower : upper, p->a, NULL));
}

static gpumc_status gpumc__prior_init(gpumc__prior *p, const gpumc_prior *given, const gpumc__range *r,
                                      gpumc_error *error)
{
    const gpumc__prior_law *law = given->family ? given->family() : NULL;
    double least, most;
    if (!law || p->f)
        return GPUMC__BAD_PARAM(error, given->name, "its prior has no family, or this is a second prior");
    p->f = law->f;
    p->a[0] = given->a;
    p->a[1] = given->b;
    p->a[2] = given->c;
    if (given->family == gpumc_prior_flat) return GPUMC_OK;
    least = p->f(GPUMC__QUANTILE, 0, p->a, NULL);
    most = p->f(GPUMC__QUANTILE, 1, p->a, NULL);
    if (gpumc__is_nan(p->f(GPUMC__QUANTILE, 0.5, p->a, NULL)))
        return GPUMC__BAD_PARAM(error, given->name, "prior %s(%g, %g, %g) needs %s", law->name, given->a,
                                given->b, given->c, law->parameters);
    p->log_mass = gpumc__prior_log_mass(p, r->lower, r->upper);
    if (r->lower < least || r->upper > most || !(p->log_mass > -18))
        return GPUMC__BAD_PARAM(error, given->name,
                                "prior %s lives on %g..%g, the block on %g..%g: set a kind and bounds inside "
                                "that leave some probability", law->name, least, most, r->lower, r->upper);
    return GPUMC_OK;
}

/* The value with the share u of what lies between the bounds below it. */
static double gpumc__prior_quantile(const gpumc__prior *p, const gpumc__range *r, double u)
{
    const double at = gpumc__exp(p->f(GPUMC__LOWER, r->lower, p->a, NULL)) + u * gpumc__exp(p->log_mass);
    return gpumc__within(p->f(GPUMC__QUANTILE, fmin(at, 1), p->a, NULL), r->least, r->greatest);
}
GPUMC__OFTEN

/* ---- populations --------------------------------------------------------------------------------- */
GPUMC_ROW(gpumc__normal_population, 3, 0, 2)
{ return gpumc_normal_lpdf(p[0], p[1], p[2], &g[0], &g[1], &g[2]); }
GPUMC_ROW(gpumc__student_t_population, 3, 1, 2)
{ return gpumc_student_t_lpdf(p[0], p[3], p[1], p[2], &g[0], &g[3], &g[1], &g[2]); }
GPUMC_FN double gpumc__phi(double z) { return gpumc_exp(-0.5 * z * z) * 0.39894228040143267794; }
/* What the bounds leave of N(0, 1), mirrored by side so that the nearer tail is the upper one: from a to b,
   cut off where nothing is left. In a tail, a > 0, mass and densities are in units of phi(a), which itself
   underflows where the location is far outside: mass = M(a) - M(b) phi(b) / phi(a) by Mills ratios. */
typedef struct gpumc__truncated { double side, a, b, at_a, at_b, above_b, mass; int tail; } gpumc__truncated;
GPUMC_FN gpumc__truncated gpumc__between_bounds(const double *p, const double *x)
{
    const double low = (x[0] - p[1]) / p[2], high = (x[1] - p[1]) / p[2], width = (x[1] - x[0]) / p[2];
    const double a = gpumc__within(high < 0 ? -high : low, -40, 1e100), from = a > 0 ? a : 0;
    const double further = gpumc__within(a > 0 ? width : high, 0, 40), b = from + further;
    const double ratio = gpumc_exp(-0.5 * further * (further + 2 * from));          /* phi(b) / phi(from) */
    const double above_b = a > 0 ? gpumc_mills(b) * ratio : gpumc_Phi(-b);
    const gpumc__truncated t = { high < 0 ? -1.0 : 1.0, a, b, a > 0 ? 1 : gpumc__phi(a),
                                  a > 0 ? ratio : gpumc__phi(b), above_b,
                                  (a > 0 ? gpumc_mills(a) : gpumc_Phi(-a)) - above_b, a > 0 };
    return t;
}
/* Distance from the bound in a tail, else from the location. */
GPUMC_FN double gpumc__beyond(const gpumc__truncated *t, const double *p, const double *x)
{ return (t->tail ? t->side > 0 ? p[0] - x[0] : x[1] - p[0] : t->side * (p[0] - p[1])) / p[2]; }

GPUMC_ROW(gpumc__truncated_population, 3, 0, 2)
{
    const gpumc__truncated t = gpumc__between_bounds(p, x);
    const double y = t.side * (p[0] - p[1]) / p[2], inv = 1 / p[2], share = 1 / t.mass;
    const double from = gpumc__beyond(&t, p, x), twice = t.tail ? 2 * t.a : 0;
    g[0] -= t.side * y * inv;
    g[1] += t.side * (y + (t.at_b - t.at_a) * share) * inv;
    g[2] += (y * y - 1 + (t.b * t.at_b - t.a * t.at_a) * share) * inv;
    return gpumc__outside((p[0] < x[0]) | (x[1] < p[0]), -0.5 * from * (from + twice)
                          - gpumc_log(p[2] * t.mass) - (t.tail ? 0 : GPUMC_LOG_SQRT_2PI));
}

/* u where Phi(-a - u) = phi(a) q, a > 0; by steps of Newton's on the logarithm where phi(a) may underflow. */
GPUMC_FN double gpumc__upper_step(double a, double q, double u)
{
    const double mills = gpumc_mills(a + u);
    return u + mills * (gpumc_log(mills / q) - 0.5 * u * (u + 2 * a));
}
GPUMC_FN double gpumc__upper_quantile(double a, double q)
{
    const double drop = -2 * gpumc_log(q / gpumc_mills(a)), u = drop / (gpumc_sqrt(a * a + drop) + a);
    const double beyond = gpumc__upper_step(a, q, gpumc__upper_step(a, q, u));
    return a < 25 ? -gpumc_inv_Phi(q * gpumc__phi(a)) - a : beyond;
}

/* theta = mu + sigma y, where Phi(z) of what lies between the bounds is below y. */
GPUMC__ROW_PLAIN(gpumc__truncated_quantile, 3, 0, 2)       /* large: compiled once, not for every set */
{
    const gpumc__truncated t = gpumc__between_bounds(p, x);
    const double z = t.side * p[0], above = gpumc_Phi(-z), below = gpumc_Phi(z);
    const double P = gpumc_Phi(t.a) + below * t.mass, Q = t.above_b + above * t.mass;
    const double u = t.tail ? gpumc__upper_quantile(t.a, Q) : P < Q ? gpumc_inv_Phi(P) : -gpumc_inv_Phi(Q);
    const double y = t.tail ? t.a + u : u, at_a = t.at_a * above, at_b = t.at_b * below;
    const double inv = t.tail ? gpumc_exp(0.5 * u * (u + 2 * t.a)) : 1 / gpumc__phi(y);
    g[0] = p[2] * gpumc__phi(z) * t.mass * inv;
    g[1] = 1 - (at_a + at_b) * inv;
    g[2] = t.side * (y - (t.a * at_a + t.b * at_b) * inv);
    return gpumc__within((t.tail ? t.side > 0 ? x[0] : x[1] : p[1]) + t.side * p[2] * u, x[0], x[1]);
}

/* A family of populations. draw: z for a draw of location + scale z; NULL: normal, or by the quantile. */
typedef struct gpumc__population_law {
    const gpumc_row_kind *density, *quantile;
    double (*draw)(gpumc_rng *rng, const double *shape);
} gpumc__population_law;
static double gpumc__draw_t(gpumc_rng *rng, const double *shape) { return gpumc__t_draw(rng, *shape, 1); }
GPUMC_API const gpumc__population_law *gpumc_population_student_t(void)
{
    static const gpumc__population_law law = { &gpumc__student_t_population, NULL, gpumc__draw_t };
    return &law;
}
GPUMC_API const gpumc__population_law *gpumc_population_truncated_normal(void)
{
    static const gpumc__population_law law = { &gpumc__truncated_population, &gpumc__truncated_quantile,
                                               NULL };
    return &law;
}

/* The common case, one location and one scale: adds the gradient of a normal density by theta; returns the
   sum of theta - mu and leaves that of its squares. */
GPUMC_FN void gpumc__spread_one(double away, double precision, double *grad, double *sum, double *square)
{
    *grad -= away * precision;
    *sum += away;
    *square += away * away;
}
GPUMC_FN double gpumc__spread_sums(const double *GPUMC__RESTRICT theta, size_t n, double mu, double precision,
                                   double *GPUMC__RESTRICT grad, double *squares)
{
    double sum[GPUMC_LANES] = { 0 }, square[GPUMC_LANES] = { 0 };
    for (size_t i = 0; i < n; i += GPUMC_LANES) {
        const size_t lanes = n - i < GPUMC_LANES ? n - i : GPUMC_LANES;
        if (lanes == GPUMC_LANES)
            for (size_t l = 0; l < GPUMC_LANES; l++)
                gpumc__spread_one(theta[i + l] - mu, precision, &grad[i + l], &sum[l], &square[l]);
        else
            for (size_t l = 0; l < lanes; l++)
                gpumc__spread_one(theta[i + l] - mu, precision, &grad[i + l], &sum[l], &square[l]);
    }
    *squares = gpumc__sum_16(square);
    return gpumc__sum_16(sum);
}
#define GPUMC__SPREAD(set, attributes, pragma, unused) \
    attributes static double gpumc__spread_##set(const double *theta, size_t n, double mu, double precision, \
                                                 double *grad, double *squares) \
    { return gpumc__spread_sums(theta, n, mu, precision, grad, squares); }
GPUMC__ISA_COPIES(GPUMC__SPREAD, )

static double gpumc__spread(gpumc_isa isa, const double *theta, size_t n, double mu, double tau, double *grad,
                            double *dmu, double *dtau)
{
    static double (*const sets[])(const double *, size_t, double, double, double *, double *)
        = GPUMC__ISA_TABLE(gpumc__spread);
    const double precision = 1 / (tau * tau), count = (double)n;
    double squares;
    const double sum = sets[isa - GPUMC_ISA_BASELINE](theta, n, mu, precision, grad, &squares);
    gpumc__add(dmu, sum * precision);
    gpumc__add(dtau, (squares * precision - count) / tau);
    return -0.5 * squares * precision - count * (gpumc__log(tau) + GPUMC_LOG_SQRT_2PI);
}

/* ---- links --------------------------------------------------------------------------------------- */
/* A value and its slope; what lies near the upper bound is counted from there. */
GPUMC_FN double gpumc__link_value(int link, const gpumc__range r, double q, double *slope)
{
    const double e = gpumc_exp(link == GPUMC_LINK_LOG ? q : -gpumc_fabs(q)), share = e / (1 + e);
    const double tail = link == GPUMC_LINK_PROBIT ? gpumc_Phi(-gpumc_fabs(q)) : share, step = r.width * tail;
    const double x = link == GPUMC_LINK_LOG ? r.lower + e : q < 0 ? r.lower + step : r.upper - step;
    const double bell = link == GPUMC_LINK_PROBIT ? gpumc__phi(q) : share / (1 + e);
    *slope = link == GPUMC_LINK_LOG ? e : r.width * bell;
    return gpumc__within(x, r.least, r.greatest);
}
#define GPUMC__LINK_LANES(set, attributes, pragma, name, link) \
    attributes static void gpumc__##name##_##set(const gpumc__range *range, \
        const double *GPUMC__RESTRICT q, double *GPUMC__RESTRICT x, double *GPUMC__RESTRICT slope) \
    { \
        const gpumc__range r = *range; \
        pragma for (int l = 0; l < GPUMC_LANES; l++) x[l] = gpumc__link_value(link, r, q[l], &slope[l]); \
    }
GPUMC__ISA_COPIES(GPUMC__LINK_LANES, link_log, GPUMC_LINK_LOG)
GPUMC__ISA_COPIES(GPUMC__LINK_LANES, link_logit, GPUMC_LINK_LOGIT)
GPUMC__ISA_COPIES(GPUMC__LINK_LANES, link_probit, GPUMC_LINK_PROBIT)

static void gpumc__apply_link(gpumc_hier_link link, gpumc_isa isa, const gpumc__range *r, size_t n,
                        const double *q, double *x, double *slope)
{
    static void (*const sets[][GPUMC__N_ISA])(const gpumc__range *, const double *, double *, double *) = {
        GPUMC__ISA_TABLE(gpumc__link_log), GPUMC__ISA_TABLE(gpumc__link_logit),
        GPUMC__ISA_TABLE(gpumc__link_probit)
    };
    double last[3][GPUMC_LANES] = { { 0 } };
    const size_t whole = n / GPUMC_LANES * GPUMC_LANES, left = n - whole;
    for (size_t i = 0; i < whole; i += GPUMC_LANES)
        sets[link - GPUMC_LINK_LOG][isa - GPUMC_ISA_BASELINE](r, q + i, x + i, slope + i);
    if (left == 0) return;
    memcpy(last[0], q + whole, left * sizeof *q);
    sets[link - GPUMC_LINK_LOG][isa - GPUMC_ISA_BASELINE](r, last[0], last[1], last[2]);
    memcpy(x + whole, last[1], left * sizeof *x);
    memcpy(slope + whole, last[2], left * sizeof *slope);
}

/* ---- the object ---------------------------------------------------------------------------------- */
typedef struct gpumc__hier_block {
    const gpumc_param *given;
    const gpumc_population *population;      /* what the description says of it, perhaps nothing */
    gpumc__range range;                      /* of the values */
    size_t at, size, values;                 /* in x; in scratch, if they differ: values, slopes, gradient */
    char *name;                              /* of the coordinates */
    gpumc__prior *priors;                    /* one, or one an element; none with a population */
    size_t n_priors;
    size_t location, scale;                  /* places in x; GPUMC__NONE: 0 and 1 */
    size_t *locations, *scales;              /* of each element, where these differ */
    size_t coefficients, shape, n_shape;
    const struct gpumc__hier_block *with;    /* whose z, location and scale the quantile takes too */
    size_t step;                             /* normal by element: to that visited next; 0: another way */
    gpumc_hier_link link;
    int has_population, quantile_form;
    gpumc__population_law law;               /* the family's, or the leaves given */
    gpumc_rows *density, *quantile;          /* no density: normal, or quantile form */
} gpumc__hier_block;

/* Where one parameter of a row comes from: an element of a block, or the one that the index says. */
typedef struct gpumc__hier_source {
    size_t block, element;
    const size_t *index;
    int values;                              /* rather than coordinates */
} gpumc__hier_source;
typedef struct gpumc__hier_set {
    const gpumc_hier_rows *given;
    gpumc__hier_source *sources;
    size_t n_group, n_p, dims[2];
    int gathered;                            /* indices differ: see gpumc__rows_take */
    gpumc_rows *rows, *guide;                /* guide: rows, where it has none of its own */
} gpumc__hier_set;

typedef struct gpumc__hier_slot {            /* scratch of one thread */
    volatile int taken;
    double *work;
    const double **p;
    double **grad;
    gpumc_team *team;                        /* NULL: rows are for the thread alone */
    double *team_work;                       /* for its members */
} gpumc__hier_slot;

struct gpumc_hier {
    const gpumc_hier_data *data;
    gpumc_model model;
    gpumc_param *params;
    gpumc_output *outputs;
    gpumc__hier_block *blocks;
    gpumc__hier_set *sets;
    gpumc__hier_slot *slots;
    /* work: values of all blocks, room for one population, rows_work for its rows, a gradient */
    size_t n_slots, n_natural, n_values, n_room, rows_work, n_p;
    size_t *identity;
    double *bounds[2];
    gpumc_isa isa;
    void *memory;                            /* a chain of blocks; each begins with the next one's address */
    int out_of_memory;
    volatile int shared;                     /* by a run, whose teams the slots have */
};

/* ---- evaluation ---------------------------------------------------------------------------------- */
typedef struct gpumc__hier_point {
    const gpumc_hier *h;
    const double *x;
    double *grad;                            /* NULL: values only */
    gpumc__hier_slot *slot;
    double *room, *rows_work;                /* of the slot's work */
} gpumc__hier_point;

/* A point with scratch that no other thread uses, waiting until there is some; gpumc__give_flag ends it. */
static gpumc__hier_point gpumc__hier_enter(const gpumc_hier *h, const double *x, double *grad)
{
    gpumc__hier_point e = { h, x, grad, NULL, NULL, NULL };
    size_t k = 0;
    while (!gpumc__take_flag(&h->slots[k].taken)) k = (k + 1) % h->n_slots;
    e.slot = &h->slots[k];
    e.room = e.slot->work + h->n_values;
    e.rows_work = e.room + h->n_room;
    return e;
}

enum { GPUMC__POPULATION_ROOM = 5 };      /* doubles an element: location, scale, the gradient by all three */

/* Points p at value, location, scale and shape of every element, grad at room for their gradients: from place
   `first` on, 3 for a second block. */
static void gpumc__population_point(const gpumc__hier_point *e, const gpumc__hier_block *b, size_t first,
                                    const double *value, double *value_grad)
{
    const size_t n = b->size, n_covariates = b->given->n_covariates;
    double *mu = e->room + (first ? GPUMC__POPULATION_ROOM * n : 0), *tau = mu + n, *gradient = tau + n;
    const double **p = e->slot->p + first;
    double **grad = e->slot->grad + first;
    for (size_t i = 0; i < n; i++) {
        const size_t from = b->locations ? b->locations[i] : b->location;
        const size_t unit = b->scales ? b->scales[i] : b->scale;
        mu[i] = from == GPUMC__NONE ? 0 : e->x[from];
        tau[i] = unit == GPUMC__NONE ? 1 : e->x[unit];
        for (size_t j = 0; j < n_covariates; j++)
            mu[i] += b->given->covariates[i * n_covariates + j] * e->x[b->coefficients + j];
    }
    memset(gradient, 0, 3 * n * sizeof(double));
    p[0] = value;
    grad[0] = value_grad ? value_grad : gradient + 2 * n;
    for (size_t k = 1; k < 3; k++) {
        p[k] = mu + (k - 1) * n;
        grad[k] = gradient + (k - 1) * n;
    }
    for (size_t k = 0; k < b->n_shape; k++) {
        p[3 + k] = e->x + b->shape + k;
        grad[3 + k] = e->grad ? e->grad + b->shape + k : NULL;
    }
}

/* Points at what a quantile takes. */
static void gpumc__quantile_point(const gpumc__hier_point *e, const gpumc__hier_block *b, double *z_grad)
{
    gpumc__population_point(e, b, 0, e->x + b->at, z_grad);
    if (b->with) gpumc__population_point(e, b->with, 3, e->x + b->with->at, NULL);
}

/* Adds d[i] to target at places[i], or all of it at the common place. Runs of one place are summed first: to
   add to memory again and again would wait for each store. */
static void gpumc__collect(const size_t *places, size_t common, const double *d, size_t n, double *target)
{
    size_t i = 0;
    while (i < n && places) {
        const size_t place = places[i];
        double sum = d[i++];
        while (i < n && places[i] == place) sum += d[i++];
        if (place != GPUMC__NONE) target[place] += sum;
    }
    if (!places && common != GPUMC__NONE) target[common] += gpumc__sum(d, n);
}

/* Hands the gradients by locations and scales on to what these are made of. */
static void gpumc__population_push(const gpumc__hier_point *e, const gpumc__hier_block *b, size_t first)
{
    const size_t n_covariates = b->given->n_covariates;
    const double *dmu = e->slot->grad[first + 1];
    gpumc__collect(b->locations, b->location, dmu, b->size, e->grad);
    gpumc__collect(b->scales, b->scale, e->slot->grad[first + 2], b->size, e->grad);
    for (size_t k = 0; k < b->size * n_covariates; k++)
        e->grad[b->coefficients + k % n_covariates] += b->given->covariates[k] * dmu[k / n_covariates];
}

/* Normal elements that differ in location or scale. They are visited as in >>transform, so that neighbours in
   time seldom differ in scale and do not wait for each other. */
static GPUMC_LOOP double gpumc__normal_elements(const gpumc__hier_point *e, const gpumc__hier_block *b)
{
    const size_t n = b->size, step = b->step, n_covariates = b->given->n_covariates, *from = b->locations,
                 *scales = b->scales;
    const double *x = e->x, *theta = x + b->at;
    double *all = e->grad, *grad = all + b->at, *pulls = e->room, received = 0, lp = 0;
    for (size_t t = 0; t < step; t++)
        for (size_t i = t; i < n;) {
            const size_t scale = scales[i];
            const double tau = scale == GPUMC__NONE ? 1 : x[scale], precision = 1 / (tau * tau);
            double squares = 0, count = 0;
            do {
                const size_t place = from[i];
                double away = theta[i] - (place == GPUMC__NONE ? 0 : x[place]);
                for (size_t j = 0; j < n_covariates; j++)
                    away -= b->given->covariates[i * n_covariates + j] * x[b->coefficients + j];
                pulls[i] = away * precision;
                grad[i] -= pulls[i];
                received += pulls[i];
                squares += away * away;
                count++;
                if ((i += step) < n && from[i] == place) continue;
                if (place != GPUMC__NONE) all[place] += received;
                received = 0;
            } while (i < n && scales[i] == scale);
            lp -= 0.5 * squares * precision + count * (gpumc__log(tau) + GPUMC_LOG_SQRT_2PI);
            if (scale != GPUMC__NONE) all[scale] += (squares * precision - count) / tau;
        }
    for (size_t k = 0; k < n * n_covariates; k++)
        all[b->coefficients + k % n_covariates] += b->given->covariates[k] * pulls[k / n_covariates];
    return lp;
}

static double gpumc__population(const gpumc__hier_point *e, const gpumc__hier_block *b)
{
    double *grad = e->grad + b->at, lp;
    const int moved = !b->quantile_form && b->location != GPUMC__NONE;
    const int scaled = !b->quantile_form && b->scale != GPUMC__NONE;
    if (b->step) return gpumc__normal_elements(e, b);
    if (!b->density)
        return gpumc__spread(e->h->isa, e->x + b->at, b->size, moved ? e->x[b->location] : 0,
                             scaled ? e->x[b->scale] : 1, grad, moved ? e->grad + b->location : NULL,
                             scaled ? e->grad + b->scale : NULL);
    gpumc__population_point(e, b, 0, e->x + b->at, grad);
    lp = gpumc_rows_eval(b->density, e->slot->p, e->slot->grad, e->rows_work);
    gpumc__population_push(e, b, 0);
    return lp;
}

static double gpumc__hier_prior(const gpumc__hier_point *e, const gpumc__hier_block *b)
{
    const gpumc__prior *p = b->priors;
    double *grad = e->grad + b->at, lp = 0;
    if (b->has_population) return gpumc__population(e, b);
    if (b->n_priors == 1 && p->f == gpumc__prior_normal)
        return gpumc__spread(e->h->isa, e->x + b->at, b->size, p->a[0], p->a[1], grad, NULL, NULL)
             - (double)b->size * p->log_mass;
    for (size_t i = 0; i < b->size; i++, p += b->n_priors > 1)
        lp += p->f(GPUMC__DENSITY, e->x[b->at + i], p->a, &grad[i]) - p->log_mass;
    return lp;
}

/* Values from coordinates, with slopes, or room for them, and a zeroed gradient behind. */
static void gpumc__hier_values(const gpumc__hier_point *e, const gpumc__hier_block *b)
{
    double *values;
    if (b->values == GPUMC__NONE) return;
    values = e->slot->work + b->values;
    memset(values + b->size, 0, 2 * b->size * sizeof(double));
    if (!b->quantile_form) {
        gpumc__apply_link(b->link, e->h->isa, &b->range, b->size, e->x + b->at, values, values + b->size);
        return;
    }
    gpumc__quantile_point(e, b, NULL);
    gpumc_rows_pointwise(b->quantile, e->slot->p, values, e->rows_work);
}

/* The chain rule back: G, the gradient by values, becomes one by coordinates, locations and scales. */
static void gpumc__hier_pull(const gpumc__hier_point *e, const gpumc__hier_block *b)
{
    double *slope, *G;
    if (b->values == GPUMC__NONE) return;
    slope = e->slot->work + b->values + b->size;
    G = slope + b->size;
    if (b->quantile_form) {
        gpumc__quantile_point(e, b, slope);
        gpumc_rows_eval(b->quantile, e->slot->p, e->slot->grad, e->rows_work);
        for (size_t k = 1; k < (b->with ? 6 : 3); k++)
            for (size_t i = 0; i < b->size; i++) e->slot->grad[k][i] *= G[i];
        gpumc__population_push(e, b, 0);
        if (b->with) gpumc__population_push(e, b->with, 3);
        for (size_t i = 0; i < b->size && b->with; i++) e->grad[b->with->at + i] += e->slot->grad[3][i];
    }
    for (size_t i = 0; i < b->size; i++) e->grad[b->at + i] += slope[i] * G[i];
}

/* Where the block of a source has its numbers, and their gradient. */
static const double *gpumc__source_values(const gpumc__hier_point *e, const gpumc__hier_source *s)
{
    const gpumc__hier_block *b = &e->h->blocks[s->block];
    return s->values ? e->slot->work + b->values : e->x + b->at;
}
static double *gpumc__source_grad(const gpumc__hier_point *e, const gpumc__hier_source *s)
{
    const gpumc__hier_block *b = &e->h->blocks[s->block];
    return s->values ? e->slot->work + b->values + 2 * b->size : e->grad + b->at;
}

/* Points p at what the rows of a set take. */
static void gpumc__set_point(const gpumc__hier_point *e, const gpumc__hier_set *s)
{
    for (size_t k = 0; k < s->n_p; k++)
        e->slot->p[k] = gpumc__source_values(e, &s->sources[k]) + s->sources[k].element;
}

enum { GPUMC__TEAM_ROWS = 10000 };        /* fewer are done before another thread is awake */
static int gpumc__slot_team(const gpumc_hier *h, gpumc__hier_slot *slot, int threads)
{
    const gpumc_allocator *from = &h->data->allocator;
    const size_t work = gpumc__size_mul(h->rows_work, (size_t)threads);
    slot->team_work = (double *)gpumc__allocate(from, gpumc__size_mul(work, sizeof(double)));
    slot->team = slot->team_work ? gpumc_team_start(threads, from) : NULL;
    return slot->team != NULL;
}
static void gpumc__slot_alone(const gpumc_hier *h, gpumc__hier_slot *slot)
{
    gpumc_team_stop(slot->team);
    gpumc__release(&h->data->allocator, slot->team_work);
    slot->team = NULL;
    slot->team_work = NULL;
}

/* Teams for as long as a run lasts; of runs at the same time the first has them. */
static int gpumc__hier_share(int calls, int threads, void *data)
{
    gpumc_hier *h = (gpumc_hier *)data;
    const size_t n = (size_t)calls < h->n_slots ? (size_t)calls : h->n_slots;
    int many = 0, granted = threads > 1;
    for (size_t s = 0; s < h->data->n_rows; s++) many |= h->data->rows[s].data.n_rows >= GPUMC__TEAM_ROWS;
    if (threads > 1 && (!many || h->data->team != 0 || !gpumc__take_flag(&h->shared))) return 0;
    for (size_t k = 0; k < n; k++) {
        gpumc__hier_slot *slot = &h->slots[k];
        while (!gpumc__take_flag(&slot->taken)) continue;
        gpumc__slot_alone(h, slot);
        granted = granted && gpumc__slot_team(h, slot, threads);
        gpumc__give_flag(&slot->taken);
    }
    if (granted) return 1;
    if (threads > 1) return gpumc__hier_share(calls, 1, data);       /* no memory: none for any */
    gpumc__give_flag(&h->shared);
    return 0;
}

static double gpumc__set_eval(const gpumc__hier_point *e, const gpumc__hier_set *s, const gpumc_rows *rows)
{
    gpumc_team *const team = s->dims[0] < GPUMC__TEAM_ROWS ? NULL : e->slot->team;
    double lp;
    gpumc__set_point(e, s);
    for (size_t k = 0; k < s->n_p; k++)
        e->slot->grad[k] = gpumc__source_grad(e, &s->sources[k]) + s->sources[k].element;
    gpumc_rows_eval_batch(rows, 1, e->slot->p, e->slot->grad, &lp, team ? e->slot->team_work : e->rows_work,
                          team);
    return lp;
}

static double gpumc__hier_sum(const gpumc_hier *h, int guided, const double *x, double *grad)
{
    const gpumc__hier_point e = gpumc__hier_enter(h, x, grad);
    double lp = 0;
    for (size_t i = 0; i < h->model.n_params; i++) {
        lp += gpumc__hier_prior(&e, &h->blocks[i]);
        gpumc__hier_values(&e, &h->blocks[i]);
    }
    for (const gpumc__hier_set *s = h->sets; s < h->sets + h->data->n_rows; s++)
        lp += gpumc__set_eval(&e, s, guided ? s->guide : s->rows);
    for (size_t i = h->model.n_params; i-- > 0;) gpumc__hier_pull(&e, &h->blocks[i]);
    gpumc__give_flag(&e.slot->taken);
    return lp;
}
static double gpumc__hier_density(const double *x, double *grad, void *data)
{ return gpumc__hier_sum((const gpumc_hier *)data, 0, x, grad); }
static double gpumc__hier_guide(const double *x, double *grad, void *data)
{ return gpumc__hier_sum((const gpumc_hier *)data, 1, x, grad); }

/* ---- what is generated --------------------------------------------------------------------------- */
static void gpumc__set_simulate(const gpumc__hier_point *e, const gpumc__hier_set *s, gpumc_rng *rng,
                                double *y)
{
    const gpumc_rows_data *d = &s->given->data;
    double *p = e->rows_work, *x = p + s->n_p;
    for (size_t i = 0; i < d->n_rows; i++, y += s->dims[1]) {
        for (size_t k = 0; k < s->n_p; k++) {
            const gpumc__hier_source *from = &s->sources[k];
            p[k] = gpumc__source_values(e, from)[from->index ? from->index[i] : from->element];
        }
        for (size_t k = 0; k < d->kind->n_columns; k++) x[k] = d->columns[k][i];
        s->given->simulate(p, x, rng, y);
    }
}

/* Fills the outputs in their order: values, then log likelihoods and predictions of each set. */
static void gpumc__hier_generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    const gpumc_hier *h = (const gpumc_hier *)data;
    const gpumc__hier_point e = gpumc__hier_enter(h, x, NULL);
    for (size_t i = 0; i < h->model.n_params; i++) {
        const gpumc__hier_block *b = &h->blocks[i];
        if (b->values == GPUMC__NONE) continue;
        gpumc__hier_values(&e, b);
        memcpy(out, e.slot->work + b->values, b->size * sizeof(double));
        out += b->size;
    }
    for (size_t k = 0; k < h->data->n_rows; k++) {
        const gpumc__hier_set *s = &h->sets[k];
        gpumc__set_point(&e, s);
        if (s->given->log_lik) {
            gpumc_rows_pointwise(s->rows, e.slot->p, out, e.rows_work);
            out += s->dims[0];
        }
        if (!s->given->predictive) continue;
        gpumc__set_simulate(&e, s, rng, out);
        out += s->dims[0] * s->dims[1];
    }
    gpumc__give_flag(&e.slot->taken);
}

/* Draws a population, or without rng its median: standard numbers moved to their places. In walks each step
   needs the one before: one by one, or through a leaf in as many passes. */
static gpumc_status gpumc__population_draw(const gpumc__hier_point *e, const gpumc__hier_block *b,
                                           gpumc_rng *rng, double *x, gpumc_error *error)
{
    const gpumc_param *g = b->given;
    const size_t steps = !g->walk_dim ? 1 : g->n_dims ? g->dims[g->walk_dim - 1] : b->size;
    const size_t passes = b->quantile_form ? 0 : b->quantile ? steps : 1;
    double *z = e->rows_work + e->h->rows_work;
    if (rng && b->population && b->population->density && !b->quantile)
        return GPUMC__BAD_PARAM(error, g->name, "its population has no quantile to draw it by");
    for (size_t i = 0; i < b->size; i++)
        z[i] = !rng ? 0 : b->law.draw ? b->law.draw(rng, x + b->shape) : gpumc_rng_normal(rng);
    memcpy(x + b->at, z, b->size * sizeof(double));
    if (!b->quantile) memset(x + b->at, 0, b->size * sizeof(double));
    for (size_t pass = 0; pass < passes; pass++) {
        gpumc__population_point(e, b, 0, z, NULL);
        if (b->quantile) gpumc_rows_pointwise(b->quantile, e->slot->p, x + b->at, e->rows_work);
        else for (size_t i = 0; i < b->size; i++) {
            const size_t from = b->locations ? b->locations[i] : b->location;
            const double before = from >= b->at && from - b->at < i ? x[from] : 0;
            x[b->at + i] = before + e->slot->p[1][i] + e->slot->p[2][i] * z[i];
        }
    }
    return GPUMC_OK;
}

GPUMC_API gpumc_status gpumc_hier_prior_draw(const gpumc_hier *hier, gpumc_rng *rng, double *x,
                                             gpumc_error *error)
{
    gpumc__hier_point e;
    gpumc_status status = GPUMC_OK;
    if (!hier || !rng || !x)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_hier_prior_draw: hier, rng or x is NULL");
    e = gpumc__hier_enter(hier, x, NULL);
    for (size_t k = 0; k < hier->model.n_params && status == GPUMC_OK; k++) {
        const gpumc__hier_block *b = &hier->blocks[k];
        if (b->has_population) status = gpumc__population_draw(&e, b, rng, x, error);
        for (size_t i = 0; i < b->size && !b->has_population; i++) {
            const gpumc__prior *p = &b->priors[b->n_priors > 1 ? i : 0];
            x[b->at + i] = gpumc__prior_quantile(p, &b->range, gpumc_rng_uniform(rng));
            if (gpumc__is_nan(x[b->at + i]))
                status = GPUMC__BAD_PARAM(error, b->given->name, "a flat prior cannot be drawn from");
        }
    }
    gpumc__give_flag(&e.slot->taken);
    return status;
}

GPUMC_API gpumc_status gpumc_hier_explain(const gpumc_hier *hier, const double *x, gpumc_error *error)
{
    gpumc__hier_point e;
    gpumc_status status = GPUMC_OK;
    if (!hier || !x)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "gpumc_hier_explain: hier or x is NULL");
    e = gpumc__hier_enter(hier, x, NULL);
    e.grad = e.rows_work + hier->rows_work;
    for (size_t i = 0; i < hier->model.n_params && status == GPUMC_OK; i++) {
        const gpumc__hier_block *b = &hier->blocks[i];
        const double lp = gpumc__hier_prior(&e, b);
        gpumc__hier_values(&e, b);
        if (!gpumc__is_finite(lp))
            status = gpumc__fail(error, GPUMC_ERROR_NUMERIC, "parameter \"%.60s\": its %s has log density %g",
                                 b->given->name, b->has_population ? "population" : "prior", lp);
    }
    for (size_t k = 0; k < hier->data->n_rows && status == GPUMC_OK; k++) {
        gpumc__set_point(&e, &hier->sets[k]);
        status = gpumc_rows_explain(hier->sets[k].rows, e.slot->p, e.rows_work, error);
    }
    gpumc__give_flag(&e.slot->taken);
    return status;
}
GPUMC__SELDOM

/* ---- names to places ----------------------------------------------------------------------------- */
static void *gpumc__hier_new(gpumc_hier *h, size_t count, size_t each)
{
    const size_t bytes = gpumc__size_mul(count, each), room = gpumc__room(bytes);
    void **block = (void **)gpumc__allocate(&h->data->allocator, gpumc__size_add(room, 64));
    if (!block) { h->out_of_memory = 1; return NULL; }
    *block = h->memory;
    h->memory = block;
    return memset(gpumc__settle((char *)block + 64, bytes), 0, bytes);
}

static size_t gpumc__param_size(const gpumc_param *p)
{
    const gpumc_model alone = { NULL, p, 1, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL };
    return gpumc__nth_size(&alone, 0);
}

/* What must hold before anything is looked up. */
static gpumc_status gpumc__hier_check(const gpumc_hier_data *d, gpumc_error *error)
{
    int missing = !d || !d->params || (d->n_priors && !d->priors) || (d->n_rows && !d->rows)
        || (d->n_populations && !d->populations);
    for (size_t i = 0; !missing && i < d->n_priors; i++) missing |= !d->priors[i].name;
    for (size_t i = 0; !missing && i < d->n_populations; i++) missing |= !d->populations[i].name;
    for (size_t i = 0; !missing && i < d->n_params; i++) missing |= !d->params[i].name;
    for (size_t s = 0; !missing && s < d->n_rows; s++) {
        const gpumc_hier_rows *r = &d->rows[s];
        missing |=
            !r->name || !r->takes || !r->data.kind || r->data.n_rows == 0 || (r->predictive && !r->simulate);
    }
    if (d && !(d->team >= 0 && d->team <= 1 << 16 && d->threads >= 0 && d->threads <= 1 << 16))
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "team is %d and threads %d; they must be in 0 to "
                           "65536", d->team, d->threads);
    if (missing)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "the description, one of its lists or "
                           "names, or the takes, kind, n_rows or wanted simulator of a set of rows is NULL");
    for (size_t i = 0; i < d->n_params; i++) {
        const gpumc_param *p = &d->params[i];
        if (p->kind >= GPUMC_ORDERED)
            return GPUMC__BAD_PARAM(error, p->name, "kind %d has no univariate "
                                    "prior; such a model wants a callback", (int)p->kind);
        if (!p->n_dims != !p->dims || gpumc__param_size(p) == 0)
            return GPUMC__BAD_PARAM(error, p->name, "size %.0f and %.0f dims contradict each other, hold a "
                                    "zero or overflow, or dims is NULL", (double)p->size, (double)p->n_dims);
    }
    return GPUMC_OK;
}

/* Memory for what is resolved; row objects and scratch follow. */
static void gpumc__hier_allocate(gpumc_hier *h)
{
    const gpumc_hier_data *d = h->data;
    size_t most = 1;
    h->params = (gpumc_param *)gpumc__hier_new(h, d->n_params, sizeof(gpumc_param));
    h->outputs = (gpumc_output *)gpumc__hier_new(h, d->n_params + 2 * d->n_rows, sizeof(gpumc_output));
    h->blocks = (gpumc__hier_block *)gpumc__hier_new(h, d->n_params, sizeof(gpumc__hier_block));
    h->sets = (gpumc__hier_set *)gpumc__hier_new(h, d->n_rows, sizeof(gpumc__hier_set));
    for (size_t i = 0; i < d->n_params && !h->out_of_memory; i++) {
        const size_t n = gpumc__param_size(&d->params[i]), linked = gpumc__is_linked(&d->params[i]) ? n : 0;
        gpumc__hier_block *b = &h->blocks[i];
        b->locations = (size_t *)gpumc__hier_new(h, linked, sizeof(size_t));
        b->scales = (size_t *)gpumc__hier_new(h, linked, sizeof(size_t));
        b->priors = (gpumc__prior *)gpumc__hier_new(h, n - linked, sizeof(gpumc__prior));
        b->name = (char *)gpumc__hier_new(h, strlen(d->params[i].name) + sizeof "probit_", 1);
        most = gpumc__larger(most, n);
    }
    for (size_t s = 0; s < d->n_rows && !h->out_of_memory; s++) {
        const gpumc_row_kind *kind = d->rows[s].data.kind;
        h->sets[s].n_p = kind->n_group + kind->n_shared;
        h->sets[s].sources =
            (gpumc__hier_source *)gpumc__hier_new(h, h->sets[s].n_p, sizeof(gpumc__hier_source));
    }
    h->identity = (size_t *)gpumc__hier_new(h, most, sizeof(size_t));
    for (int k = 0; k < 2; k++) h->bounds[k] = (double *)gpumc__hier_new(h, most, sizeof(double));
    for (size_t i = 0; i < most && !h->out_of_memory; i++) h->identity[i] = i;
}

/* Decides on link, leaves and form of a block with a population. */
static gpumc_status gpumc__hier_form(gpumc__hier_block *b, const gpumc_population *o, gpumc_error *error)
{
    const gpumc_param *g = b->given;
    const int above = g->kind == GPUMC_POSITIVE || g->kind == GPUMC_LOWER;
    const int between = g->kind == GPUMC_UNIT || g->kind == GPUMC_INTERVAL;
    const gpumc__population_law none = { NULL, NULL, NULL }, *law = o->family ? o->family() : &none;
    const int truncated = law->quantile != NULL;
    b->law = o->density ? none : *law;
    if (o->density) b->law.density = o->density;
    if (o->quantile) { b->law.quantile = o->quantile; b->law.draw = NULL; }
    b->quantile_form = o->quantile_form && (b->law.quantile || b->law.density);
    b->link = o->link != GPUMC_LINK_BY_KIND ? o->link : truncated || b->quantile_form ? GPUMC_LINK_IDENTITY
        : above ? GPUMC_LINK_LOG : between ? GPUMC_LINK_LOGIT : GPUMC_LINK_IDENTITY;
    if ((int)o->link < 0 || o->link > GPUMC_LINK_PROBIT || (b->link == GPUMC_LINK_LOG && !above)
        || (b->link > GPUMC_LINK_LOG && !between) || g->typical != 0
        || (truncated && b->link != GPUMC_LINK_IDENTITY) || g->kind == GPUMC_AFFINE
        || (g->kind == GPUMC_UPPER && !truncated && !o->density && !o->quantile))
        return GPUMC__BAD_PARAM(error, g->name, "link %d is unknown or does not fit "
                                "kind %d: log wants POSITIVE or LOWER (not typical), logit and probit UNIT "
                                "or INTERVAL, a truncated normal the identity; UPPER a truncated normal or "
                                "a leaf", (int)b->link, (int)g->kind);
    if (b->link == GPUMC_LINK_IDENTITY && g->kind != GPUMC_UNBOUNDED && !truncated && !o->density
        && !o->quantile)
        return GPUMC__BAD_PARAM(error, g->name, "between bounds without a link the population must end "
                                "there: gpumc_population_truncated_normal, or a leaf");
    if (b->quantile_form ? !b->law.quantile || b->link != GPUMC_LINK_IDENTITY || g->walk_dim > 0
        : b->link == GPUMC_LINK_IDENTITY && g->kind != GPUMC_UNBOUNDED
            && (o->quantile_form || g->centring > GPUMC_CENTRED))
        return GPUMC__BAD_PARAM(error, g->name, "between bounds without a link a block is sampled centred, "
                                "or as the quantile of a truncated normal or a leaf, which cannot walk");
    return GPUMC_OK;
}

/* Names the coordinates of block i and presents those with a population as unbounded and hierarchical, so
   that the checks of any model apply. */
static gpumc_status gpumc__hier_name(gpumc_hier *h, size_t i, gpumc_error *error)
{
    static const char *const prefixes[] = { "", "", "log_", "logit_", "probit_" };
    const gpumc_population normal = { NULL, GPUMC_LINK_BY_KIND, NULL, NULL, NULL, NULL, 0, NULL };
    const gpumc_model alone = { NULL, &h->data->params[i], 1, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL,
                                NULL };
    gpumc__hier_block *b = &h->blocks[i];
    gpumc_param *p = &h->params[i];
    gpumc_status status;
    *p = h->data->params[i];
    b->given = &h->data->params[i];
    b->size = gpumc__param_size(p);
    b->values = b->location = b->scale = GPUMC__NONE;
    b->range = gpumc__param_constraint(b->given, b->size).range;
    b->at = h->n_natural;
    h->n_natural += b->size;
    b->has_population = gpumc__is_linked(p);
    for (size_t k = 0; k < h->data->n_populations; k++)
        if (strcmp(h->data->populations[k].name, p->name) == 0) b->population = &h->data->populations[k];
    if (!b->has_population) return GPUMC_OK;
    if (gpumc__kind_is_wrong(&alone, 0, error)) return GPUMC_ERROR_MODEL;
    status = gpumc__hier_form(b, b->population ? b->population : &normal, error);
    if (status != GPUMC_OK) return status;
    sprintf(b->name, "%s%s", b->quantile_form ? "z_" : prefixes[b->link], p->name);
    p->name = b->name;
    p->kind = GPUMC_UNBOUNDED;
    p->lower = p->upper = 0;
    if (b->population && b->population->quantile_form && !b->quantile_form) p->centring = GPUMC_NONCENTRED;
    return GPUMC_OK;
}

/* Where the named block has what element e of block i refers to. */
static size_t gpumc__hier_place(const gpumc_hier *h, size_t i, const char *name, const size_t *index,
                                size_t e)
{
    const gpumc__hier_block *b;
    if (!name) return GPUMC__NONE;
    b = &h->blocks[gpumc__find_param(&h->model, i, name)];
    return b->at + (index ? index[e] : b->size == h->blocks[i].size ? e : 0);
}

/* A list of places is needed only where they differ. */
static size_t *gpumc__unlike(size_t *places, size_t n, size_t *common)
{
    *common = places[0];
    for (size_t e = 1; e < n; e++) if (places[e] != places[0]) return places;
    return NULL;
}

/* Places, and the way of a normal block: simple, by element, or, where scales change often, as rows, which
   take logarithms in vectors. */
static void gpumc__hier_places(gpumc_hier *h, size_t i)
{
    gpumc__hier_block *b = &h->blocks[i];
    const gpumc_param *g = b->given;
    const size_t length = !g->walk_dim ? 1 : g->n_dims ? g->dims[g->walk_dim - 1] : b->size;
    size_t stride = 1, changes = 0, step, *locations, *scales;
    for (size_t d = g->walk_dim; d < g->n_dims; d++) stride *= g->dims[d];
    step = gpumc__walk_step(stride, length, b->size);
    for (size_t e = 0; e < b->size; e++) {
        b->locations[e] = e / stride % length > 0 ? b->at + e - stride
            : gpumc__hier_place(h, i, g->location, g->location_index, e);
        b->scales[e] = gpumc__hier_place(h, i, g->scale, g->scale_index, e);
        changes += e >= step && b->scales[e] != b->scales[e - step];
    }
    b->coefficients = gpumc__hier_place(h, i, g->coefficients, NULL, 0);
    locations = gpumc__unlike(b->locations, b->size, &b->location);
    scales = gpumc__unlike(b->scales, b->size, &b->scale);
    if (!b->law.density && !b->quantile_form && (locations || scales || g->covariates)) {
        if (changes <= b->size / 8) { b->step = step; return; }
        b->law.density = &gpumc__normal_population;
    }
    b->locations = locations;
    b->scales = scales;
}

/* The block that the quantile takes with its own. */
static gpumc_status gpumc__hier_pair(const gpumc_hier *h, gpumc__hier_block *b, gpumc_error *error)
{
    const char *name = b->population->with;
    for (size_t i = 0; i < h->model.n_params; i++)
        if (strcmp(h->data->params[i].name, name) == 0) b->with = &h->blocks[i];
    if (b->with && b->with != b && b->with->size == b->size && b->with->quantile_form && b->quantile_form)
        return GPUMC_OK;
    return GPUMC__BAD_PARAM(error, b->given->name, "its population goes with \"%.60s\", which is no other "
                            "block of as many elements, or both are not in the quantile form", name);
}

/* Block i with a population, now that its names have been checked. */
static gpumc_status gpumc__hier_finish(gpumc_hier *h, size_t i, gpumc_error *error)
{
    gpumc__hier_block *b = &h->blocks[i];
    gpumc_param *p = &h->params[i];
    const gpumc_param *g = b->given;
    const gpumc_row_kind *q = b->law.quantile, *f;
    const char *shape = b->population ? b->population->shape : NULL;
    const size_t at = shape ? gpumc__find_param(&h->model, i, shape) : i;
    gpumc_status status;
    gpumc__hier_places(h, i);
    status = b->population && b->population->with ? gpumc__hier_pair(h, b, error) : GPUMC_OK;
    if (status != GPUMC_OK) return status;
    f = b->law.density;
    b->shape = h->blocks[at].at;
    b->n_shape = shape ? h->blocks[at].size : 0;
    if ((shape && (at == i || !f))
        || (f && (f->n_group != 3 || f->n_shared != b->n_shape || f->n_columns != 2))
        || (q && (q->n_group != (b->with ? 6 : 3) || q->n_shared != 0 || q->n_columns != 2)))
        return GPUMC__BAD_PARAM(error, g->name, "shape \"%.48s\" is no earlier block or there is no density "
                                "for it, or a leaf is not of 3 parameters, shape (%.0f; a quantile: none, "
                                "or 6 of a pair) and 2 columns", shape ? shape : "", (double)b->n_shape);
    if (b->quantile_form || (b->link == GPUMC_LINK_IDENTITY && g->kind != GPUMC_UNBOUNDED)) {
        memset(p, 0, sizeof *p);
        p->name = b->name;
        p->size = g->size;
        p->dims = g->dims;
        p->n_dims = g->n_dims;
        p->init = g->init;
        p->n_inits = g->n_inits;
        if (!b->quantile_form) { p->kind = g->kind; p->lower = g->lower; p->upper = g->upper; }
    }
    if (b->quantile_form || b->link > GPUMC_LINK_IDENTITY) {
        const gpumc_output values = { g->name, g->size, g->dims, g->n_dims, GPUMC_GENERATED };
        h->outputs[h->model.n_outputs++] = values;
        b->values = h->n_values;
        h->n_values += 3 * b->size;
    }
    return GPUMC_OK;
}

/* The block that a prior is for, n_params if none: all of it (element SIZE_MAX), or one element. */
static size_t gpumc__prior_block(const gpumc_hier *h, const char *name, size_t *element)
{
    const size_t length = strcspn(name, "["), n = h->model.n_params;
    size_t i = 0;
    char *end = NULL;
    while (i < n && (strncmp(h->data->params[i].name, name, length) || h->data->params[i].name[length])) i++;
    *element = SIZE_MAX;
    if (i == n || !name[length]) return i;
    *element = (size_t)strtoul(name + length + 1, &end, 10) - 1;
    return strcmp(end, "]") || *element >= h->blocks[i].size ? n : i;
}

static gpumc_status gpumc__hier_priors(gpumc_hier *h, gpumc_error *error)
{
    gpumc_status status = GPUMC_OK;
    for (size_t k = 0; k < h->data->n_priors && status == GPUMC_OK; k++) {
        const gpumc_prior *prior = &h->data->priors[k];
        size_t element, i = gpumc__prior_block(h, prior->name, &element);
        gpumc__hier_block *b = &h->blocks[i];
        if (i == h->model.n_params || b->has_population)
            return GPUMC__BAD_PARAM(error, prior->name, "a prior is given, but there is no such parameter, "
                                    "or it has a population");
        b->n_priors = element == SIZE_MAX ? 1 : b->size;
        for (size_t j = 0; j < b->size && status == GPUMC_OK; j++)
            if (element == SIZE_MAX || element == j)
                status = gpumc__prior_init(&b->priors[j], prior, &b->range, error);
    }
    for (size_t i = 0; i < h->model.n_params && status == GPUMC_OK; i++)
        for (size_t j = 0; j < h->blocks[i].size && !h->blocks[i].has_population; j++)
            if (!h->blocks[i].priors[j].f && status == GPUMC_OK)
                status = GPUMC__BAD_PARAM(error, h->data->params[i].name, "it has no prior "
                                          "(gpumc_prior_flat says that none is meant), location or scale");
    return status;
}

/* Looks up what a take names: coordinates, else values; n_params when there is neither. */
static size_t gpumc__take_block(const gpumc_hier *h, const char *name, int *values)
{
    const size_t n = h->model.n_params, found = name ? gpumc__find_param(&h->model, n, name) : n;
    size_t i = 0;
    *values = found == n;
    if (found < n || !name) return found;
    while (i < n && (h->blocks[i].values == GPUMC__NONE || strcmp(h->blocks[i].given->name, name))) i++;
    return i;
}

static gpumc_status gpumc__set_sources(gpumc_hier *h, gpumc__hier_set *set, gpumc_error *error)
{
    const gpumc_hier_rows *r = set->given;
    size_t k = 0;
    int misplaced = 0;
    for (size_t t = 0; t < r->n_takes; t++) {
        const size_t *index = r->takes[t].index;
        gpumc__hier_source s = { 0, 0, index, 0 };
        size_t size, i = 0;
        s.block = gpumc__take_block(h, r->takes[t].name, &s.values);
        if (s.block == h->model.n_params)
            return gpumc__fail(error, GPUMC_ERROR_MODEL, "rows \"%.60s\": there is no parameter \"%.60s\"",
                               r->name, r->takes[t].name ? r->takes[t].name : "");
        size = h->blocks[s.block].size;
        while (index && i < set->dims[0] && index[i] < size) i++;
        if (index && i < set->dims[0])
            return gpumc__fail(error, GPUMC_ERROR_MODEL, "rows \"%.60s\": index %.0f "
                               "in row %.0f is outside 0..%.0f (size of \"%.60s\"); rows must count from 0",
                               r->name, (double)index[i], (double)i, (double)size - 1, r->takes[t].name);
        for (s.element = 0; s.element < (index ? 1 : size); s.element++, k++) {
            misplaced |= k >= set->n_p || !index != (k >= set->n_group);
            if (!misplaced) set->sources[k] = s;
        }
        if (index && !misplaced)
            set->gathered |= size != h->blocks[set->sources->block].size
                || memcmp(index, set->sources->index, set->dims[0] * sizeof *index) != 0;
    }
    if (k == set->n_p && !misplaced) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_ERROR_MODEL,
                       "rows \"%.60s\": %.60s takes %.0f parameters with an index, then %.0f values without",
                       r->name, r->data.kind->name, (double)set->n_group, (double)(set->n_p - set->n_group));
}

static gpumc_status gpumc__set_resolve(gpumc_hier *h, size_t k, gpumc_error *error)
{
    gpumc__hier_set *s = &h->sets[k];
    const gpumc_hier_rows *r = s->given = &h->data->rows[k];
    const gpumc_output log_lik = { r->log_lik, r->data.n_rows, NULL, 0, GPUMC_LOG_LIKELIHOOD };
    const size_t each = r->n_simulated ? r->n_simulated : 1;
    const gpumc_output predictive = { r->predictive, gpumc__size_mul(r->data.n_rows, each), s->dims,
                                      each > 1 ? 2u : 1u, GPUMC_POSTERIOR_PREDICTIVE };
    if (r->guide) h->model.guide = gpumc__hier_guide;
    if (r->guide && (!r->guide->kind || r->guide->n_rows != r->data.n_rows
                     || r->guide->kind->n_group != r->data.kind->n_group
                     || r->guide->kind->n_shared != r->data.kind->n_shared))
        return gpumc__fail(error, GPUMC_ERROR_MODEL, "rows \"%.60s\": guide must have as many rows, and a "
                           "kind that takes as many parameters", r->name);
    s->n_group = r->data.kind->n_group;
    s->dims[0] = r->data.n_rows;
    s->dims[1] = each;
    if (r->log_lik) h->outputs[h->model.n_outputs++] = log_lik;
    if (r->predictive) h->outputs[h->model.n_outputs++] = predictive;
    return gpumc__set_sources(h, s, error);
}

/* gpumc_hier_explain as the model's own explain. */
static gpumc_status gpumc__hier_why(const double *x, void *data, gpumc_error *error)
{ return gpumc_hier_explain((const gpumc_hier *)data, x, error); }

static gpumc_status gpumc__hier_resolve(gpumc_hier *h, gpumc_error *error)
{
    const size_t n = h->data->n_params;
    const gpumc_model model = { h->data->name, h->params, n, gpumc__hier_density, NULL, gpumc__hier_generate,
                                h->outputs, 0, h, gpumc__hier_share, NULL /* see gpumc__set_resolve */,
                                gpumc__hier_why };
    gpumc_status status = GPUMC_OK;
    h->model = model;
    h->isa = gpumc_isa_resolve(h->data->isa);
    for (size_t i = 0; i < n && status == GPUMC_OK; i++) status = gpumc__hier_name(h, i, error);
    for (size_t k = 0; k < h->data->n_populations && status == GPUMC_OK; k++) {
        const gpumc_population *o = &h->data->populations[k];
        size_t i = 0;
        while (i < n && (h->blocks[i].population != o || !h->blocks[i].has_population)) i++;
        if (i == n)
            status = GPUMC__BAD_PARAM(error, o->name, "a population is given, "
                                      "but there is no such parameter with location or scale, or it has two");
    }
    if (status == GPUMC_OK) status = gpumc__check_model(&h->model, error);
    if (status == GPUMC_OK) status = gpumc__hier_priors(h, error);
    for (size_t i = 0; i < n && status == GPUMC_OK; i++)
        if (h->blocks[i].has_population) status = gpumc__hier_finish(h, i, error);
    for (size_t s = 0; s < h->data->n_rows && status == GPUMC_OK; s++)
        status = gpumc__set_resolve(h, s, error);
    return status == GPUMC_OK ? gpumc__check_model(&h->model, error) : status;
}

/* ---- row objects and scratch --------------------------------------------------------------------- */
static gpumc_rows *gpumc__hier_rows_new(gpumc_hier *h, gpumc_rows_data *data, gpumc_error *error)
{
    size_t bytes;
    gpumc_rows *rows;
    void *memory;
    data->isa = h->isa;
    data->allocator = &h->data->allocator;
    bytes = gpumc_rows_bytes(data, error);
    memory = bytes ? gpumc__hier_new(h, bytes, 1) : NULL;
    rows = memory ? gpumc_rows_init(data, memory, bytes, error) : NULL;
    if (rows) h->rows_work = gpumc__larger(h->rows_work, gpumc_rows_work(rows));
    return rows;
}

/* A population that is not the simple one has a row for each element, a group of its own. */
static int gpumc__hier_block_rows(gpumc_hier *h, gpumc__hier_block *b, gpumc_error *error)
{
    const double *const bounds[] = { h->bounds[0], h->bounds[1] };
    gpumc_rows_data data;
    memset(&data, 0, sizeof data);
    data.n_rows = data.n_groups = b->size;
    data.group = h->identity;
    data.columns = bounds;
    for (size_t e = 0; e < b->size; e++) {
        h->bounds[0][e] = b->range.least;
        h->bounds[1][e] = b->range.greatest;
    }
    data.kind = b->quantile_form ? NULL : b->law.density;
    if (data.kind && !(b->density = gpumc__hier_rows_new(h, &data, error))) return 0;
    data.kind = b->law.quantile;
    return !data.kind || (b->quantile = gpumc__hier_rows_new(h, &data, error)) != NULL;
}

/* Rows whose parameters come by indices that differ. */
static gpumc_rows *gpumc__hier_rows_gathered(gpumc_hier *h, const gpumc__hier_set *s, gpumc_rows_data *data,
                                             gpumc_error *error)
{
    const size_t *index[GPUMC__MOST_ROW_PARAMS];
    const size_t n = data->n_rows;
    size_t *apart = (size_t *)gpumc__allocate(&h->data->allocator, gpumc__size_mul(n, sizeof *apart));
    gpumc_rows *rows = NULL;
    uint32_t *taken = NULL;
    for (size_t i = 0; apart && i < n; i++) apart[i] = gpumc__apart_group(i, n);
    data->n_groups = gpumc__apart_groups(n);
    data->group = apart;
    if (apart) rows = gpumc__hier_rows_new(h, data, error);
    if (rows) taken = (uint32_t *)gpumc__hier_new(h, gpumc__taken_size(rows), sizeof *taken);
    if (taken) {
        for (size_t k = 0; k < s->n_group; k++) index[k] = s->sources[k].index;
        gpumc__rows_take(rows, index, taken);
        h->rows_work = gpumc__larger(h->rows_work, gpumc_rows_work(rows));
    }
    gpumc__release(&h->data->allocator, apart);
    return taken ? rows : NULL;
}

static gpumc_rows *gpumc__hier_set_rows(gpumc_hier *h, const gpumc__hier_set *s, gpumc_rows_data data,
                                        gpumc_error *error)
{
    gpumc_error inner = { GPUMC_ERROR_MEMORY, "out of memory" };
    gpumc_rows *rows;
    data.n_groups = s->n_group ? h->blocks[s->sources->block].size : 1;
    data.group = s->n_group ? s->sources->index : NULL;
    rows = s->gathered ? gpumc__hier_rows_gathered(h, s, &data, &inner)
                       : gpumc__hier_rows_new(h, &data, &inner);
    if (!rows) gpumc__fail(error, inner.status, "rows \"%.48s\": %.190s", s->given->name, inner.text);
    return rows;
}

/* Row objects, and room for what populations and sets need; returns 0 on failure. */
static int gpumc__hier_rows_all(gpumc_hier *h, gpumc_error *error)
{
    for (size_t i = 0; i < h->model.n_params; i++) {
        gpumc__hier_block *b = &h->blocks[i];
        if (b->has_population && !gpumc__hier_block_rows(h, b, error)) return 0;
        h->n_room = gpumc__larger(h->n_room, 2 * GPUMC__POPULATION_ROOM * b->size);
        h->n_p = gpumc__larger(h->n_p, 6 + b->n_shape);
    }
    for (size_t k = 0; k < h->data->n_rows; k++) {
        gpumc__hier_set *s = &h->sets[k];
        s->rows = gpumc__hier_set_rows(h, s, s->given->data, error);
        s->guide = s->rows && s->given->guide ? gpumc__hier_set_rows(h, s, *s->given->guide, error) : s->rows;
        if (!s->guide) return 0;
        h->rows_work = gpumc__larger(h->rows_work, s->n_p + s->given->data.kind->n_columns);
        h->n_p = gpumc__larger(h->n_p, s->n_p);
    }
    return 1;
}

static void gpumc__hier_slots(gpumc_hier *h)
{
    const int team = h->data->team > 1 ? h->data->team : 1, own = (gpumc__cores() + team - 1) / team;
    const size_t n = (size_t)(h->data->threads > 0 ? h->data->threads : own);
    const size_t work = h->n_values + h->n_room + h->rows_work + h->n_natural;
    h->n_slots = n;
    h->slots = (gpumc__hier_slot *)gpumc__hier_new(h, n, sizeof(gpumc__hier_slot));
    for (size_t k = 0; k < n && h->slots; k++) {
        h->slots[k].work = (double *)gpumc__hier_new(h, work, sizeof(double));
        h->slots[k].p = (const double **)gpumc__hier_new(h, h->n_p, sizeof(double *));
        h->slots[k].grad = (double **)gpumc__hier_new(h, h->n_p, sizeof(double *));
        h->out_of_memory |= team > 1 && !gpumc__slot_team(h, &h->slots[k], team);
    }
}

/* ---- start values ------------------------------------------------------------------------------ */
enum { GPUMC__STARTS = 8 };

static void gpumc__hier_draw_starts(gpumc_hier *h, gpumc__climb *c, double *starts)
{
    const double least = gpumc__climb_least(c);
    for (size_t k = 0; k < GPUMC__STARTS && least > -GPUMC_INF; k++) {
        if (!gpumc__climb_draw(c, least)) gpumc_model_natural(c->layout, c->first, c->work, c->work);
        for (size_t i = 0; i < h->model.n_params; i++) {
            const gpumc__hier_block *b = &h->blocks[i];
            if (b->given->init) continue;
            memcpy(starts + b->at * GPUMC__STARTS + k * b->size, c->work + b->at, b->size * sizeof(double));
            h->params[i].init = starts + b->at * GPUMC__STARTS;
            h->params[i].n_inits = GPUMC__STARTS;
        }
    }
}

/* From the start point there is, which remains where the density is not finite. */
static void gpumc__hier_climb(gpumc_hier *h)
{
    const size_t bytes = gpumc_layout_bytes(&h->model, NULL);
    double *starts = (double *)gpumc__hier_new(h, h->n_natural, GPUMC__STARTS * sizeof(double)), *v = NULL;
    void *memory = gpumc__allocate(&h->data->allocator, bytes);
    gpumc_layout *l = memory ? gpumc_layout_init(&h->model, memory, bytes, NULL) : NULL;
    if (starts && l) v = (double *)gpumc__allocate(&h->data->allocator, gpumc__climb_bytes(l));
    h->out_of_memory |= !v;
    if (v) {
        gpumc__climb c = gpumc__climb_place(l, 0, gpumc_rng_at(0, 0, 0, 0), v);
        if (gpumc__start_point(l, 0, c.first, c.work, NULL) == GPUMC_OK) {
            gpumc__layout_centre(l, NULL);
            gpumc_model_free(l, c.work, c.first, c.work, NULL);
            gpumc__climb_order(&c);
            for (size_t i = 0; i < l->n_parts; i++)
                if (h->blocks[i].given->init) c.waits[i] = GPUMC__CLIMB_HELD;
            gpumc__climb_up(&c);
            gpumc__hier_draw_starts(h, &c, starts);
        }
    }
    gpumc__release(&h->data->allocator, v);
    gpumc__release(&h->data->allocator, memory);
}

/* Where the density is 0 at x, draws from the priors until it is not, if they can be drawn from. */
static void gpumc__hier_find(gpumc_hier *h, double *x)
{
    double *y = (double *)gpumc__hier_new(h, h->n_natural, sizeof(double));
    gpumc_error unread;
    if (!y || gpumc_hier_explain(h, x, &unread) == GPUMC_OK) return;
    for (uint32_t k = 0; k < 200; k++) {
        gpumc_rng rng = gpumc_rng_at(0, 0, k, 0);
        if (gpumc_hier_prior_draw(h, &rng, y, &unread) != GPUMC_OK) return;
        for (size_t i = 0; i < h->model.n_params; i++) {
            const gpumc__hier_block *b = &h->blocks[i];
            if (b->given->init) memcpy(y + b->at, b->given->init, b->size * sizeof(double));
            else for (size_t j = b->at; j < b->at + b->size && h->params[i].kind != GPUMC_UNBOUNDED; j++)
                y[j] = gpumc__within(y[j], b->range.least, b->range.greatest);
        }
        if (gpumc_hier_explain(h, y, &unread) != GPUMC_OK) continue;
        memcpy(x, y, h->n_natural * sizeof(double));
        return;
    }
}

/* Start values where none are given: medians of priors, and of populations as far as what they depend on has
   a start; with rows, from there on those above. */
static void gpumc__hier_start(gpumc_hier *h)
{
    double *x = (double *)gpumc__hier_new(h, h->n_natural, sizeof(double));
    const gpumc__hier_point e = gpumc__hier_enter(h, x, NULL);
    for (size_t i = 0; i < h->model.n_params && x; i++) {
        const gpumc__hier_block *b = &h->blocks[i];
        const int given = h->params[i].init != NULL, bounded = h->params[i].kind != GPUMC_UNBOUNDED;
        int known = 1;
        if (given) memcpy(x + b->at, h->params[i].init, b->size * sizeof(double));
        else if (b->has_population) gpumc__population_draw(&e, b, NULL, x, NULL);
        for (size_t j = b->at; j < b->at + b->size; j++) {
            if (!given && !b->has_population)
                x[j] = gpumc__prior_quantile(&b->priors[b->n_priors > 1 ? j - b->at : 0], &b->range, 0.5);
            if (!given && bounded) x[j] = gpumc__within(x[j], b->range.least, b->range.greatest);
            known &= !gpumc__is_nan(x[j]);
        }
        if (known && h->params[i].n_inits < 2) h->params[i].init = x + b->at;
    }
    gpumc__give_flag(&e.slot->taken);
    if (h->data->n_rows > 0 && x) gpumc__hier_find(h, x);
    if (h->data->n_rows > 0 && x) gpumc__hier_climb(h);
}

GPUMC_API gpumc_hier *gpumc_hier_create(const gpumc_hier_data *data, gpumc_error *error)
{
    gpumc_hier *h;
    int done = 0;
    if (gpumc__hier_check(data, error) != GPUMC_OK) return NULL;
    h = (gpumc_hier *)gpumc__allocate(&data->allocator, sizeof *h);
    if (!h) { gpumc__fail_memory(error, sizeof *h); return NULL; }
    memset(h, 0, sizeof *h);
    h->data = data;
    gpumc__hier_allocate(h);
    if (!h->out_of_memory && gpumc__hier_resolve(h, error) == GPUMC_OK) done = gpumc__hier_rows_all(h, error);
    if (done) gpumc__hier_slots(h);
    if (done && !h->out_of_memory) gpumc__hier_start(h);
    if (h->out_of_memory) gpumc__fail(error, GPUMC_ERROR_MEMORY, "out of memory for a hierarchical model");
    if (done && !h->out_of_memory) return h;
    gpumc_hier_free(h);
    return NULL;
}

GPUMC_API void gpumc_hier_free(gpumc_hier *hier)
{
    void *block = hier ? hier->memory : NULL;
    for (size_t k = 0; hier && hier->slots && k < hier->n_slots; k++)
        gpumc__slot_alone(hier, &hier->slots[k]);
    while (block) {
        void *next = *(void **)block;
        gpumc__release(&hier->data->allocator, block);
        block = next;
    }
    if (hier) gpumc__release(&hier->data->allocator, hier);
}

GPUMC_API const gpumc_model *gpumc_hier_model(const gpumc_hier *hier) { return hier ? &hier->model : NULL; }
GPUMC__OFTEN

/* ========================================================================================= >>nuts
   The no-U-turn sampler as a state machine: it asks for a gradient, is told one, and advances by one leapfrog
   step. No recursion, no callback, no allocation: O(depth) states in the caller's block, so the same text
   drives one chain in a loop, a batch of chains that wait for one gradient call, and a team of GPU threads
   that share a chain. Letters as in Hoffman & Gelman (2014) and Betancourt (2017): q position, p momentum, g
   gradient of the log density, H energy, H0 the energy a transition starts from, eps step size, w = H0 - H
   the log weight of a leaf. Read first: Betancourt, appendix A; then gpumc_nuts_tell below, the only place
   where a tree grows.

   Random numbers of transition t (counter words: block, stream, t, chain; streams below):
     MOMENTUM      dim normals, gpumc_rng_normals
     TREE          uniforms in the order of use: of a first block where the draw lies in it, then one for each
                   further leaf; of a doubling its direction (above 1/2: forward), then one for each leaf of
                   its reservoir but the first, last the join, if it comes to one
     SEARCH | k    dim normals, the momentum of attempt k of the step size search before transition t */
#define GPUMC__STREAM_MOMENTUM (1u << 24)
#define GPUMC__STREAM_TREE (2u << 24)
#define GPUMC__STREAM_SEARCH (4u << 24)
#define GPUMC__STREAM_START (5u << 24)
#define GPUMC__STREAM_GENERATE (6u << 24)
#define GPUMC__MAX_DEPTH 20
#define GPUMC__MAX_RANK 64
#define GPUMC__DIVERGENCE 1000.0     /* energy error that counts as divergent, Stan's constant */

GPUMC_FN double gpumc__square(double x) { return x * x; }

/* ---- the metric -------------------------------------------------------------------------------- */

/* x <- (I + U (Lambda^(half_power / 2) - I) U') x, for -1, 1 or 2 */
static GPUMC_TEAM GPUMC_LOOP void gpumc__metric_stretch(const gpumc_metric *m, int half_power, double *x)
{
    double c[GPUMC__MAX_RANK];
    for (size_t k = 0; k < m->rank; k++) {
        const double lambda = m->lambda[k], root = gpumc_sqrt(lambda);
        c[k] = ((half_power == 2 ? lambda : half_power == 1 ? root : 1 / root) - 1)
               * gpumc__dot(m->vectors + k * m->dim, x, m->dim);
    }
    for (size_t k = 0; k < m->rank; k++) {
        const double *GPUMC__RESTRICT u = m->vectors + k * m->dim;
        GPUMC_EACH(i, m->dim) x[i] += c[k] * u[i];
    }
}

/* The blocks' factor, in place: x <- C x, C' x (transposed), C^-1 x (inverse) or C'^-1 x. Members are visited
   in the order in which each one needs the others as they were, or, to solve, as they have become. */
static GPUMC_TEAM GPUMC_LOOP void gpumc__metric_blocks(const gpumc_metric *m, int transposed, int inverse,
                                                       double *x)
{
    const size_t K = m->block_size, n = m->n_blocks;
    if (n == 0) return;
    GPUMC_TEAM_SYNC();
    for (size_t step = 0; step < K; step++) {
        const size_t k = transposed != inverse ? step : K - 1 - step;
        const double *GPUMC__RESTRICT pivot = m->blocks + (k * (k + 1) / 2 + k) * n, sign = inverse ? -1 : 1;
        double *GPUMC__RESTRICT to = x + m->members[k];
        if (!inverse) GPUMC_EACH(j, n) to[j] *= pivot[j];
        for (size_t l = transposed ? k + 1 : 0; l < (transposed ? K : k); l++) {
            const double *GPUMC__RESTRICT from = x + m->members[l];
            const size_t at = l < k ? k * (k + 1) / 2 + l : l * (l + 1) / 2 + k;
            const double *GPUMC__RESTRICT c = m->blocks + at * n;
            GPUMC_EACH(j, n) to[j] += sign * c[j] * from[j];
        }
        if (inverse) GPUMC_EACH(j, n) to[j] /= pivot[j];
    }
    GPUMC_TEAM_SYNC();
}

/* Element i of C u. */
static double gpumc__metric_mixed(const gpumc_metric *m, const double *u, size_t i)
{
    double sum = 0;
    size_t k = 0;
    while (k < m->block_size && !(m->members[k] <= i && i < m->members[k] + m->n_blocks)) k++;
    if (m->n_blocks == 0 || k == m->block_size) return u[i];
    for (size_t l = 0; l <= k; l++) {
        const size_t j = i - m->members[k];
        sum += m->blocks[(k * (k + 1) / 2 + l) * m->n_blocks + j] * u[m->members[l] + j];
    }
    return sum;
}

/* Whether such a metric may hold directions beside its diagonal or blocks. */
static int gpumc__metric_has_rank(gpumc_metric_kind kind)
{ return kind == GPUMC_METRIC_LOW_RANK || kind == GPUMC_METRIC_BLOCKS; }

/* Element i of the diagonal of M^-1. */
static double gpumc__metric_variance(const gpumc_metric *m, size_t i)
{
    const size_t rank = gpumc__metric_has_rank(m->kind) ? m->rank : 0;
    double stretch = 1;
    if (m->kind == GPUMC_METRIC_DENSE) return m->covariance[i * m->dim + i];
    for (size_t l = 0; l < rank; l++)
        stretch += (m->lambda[l] - 1) * gpumc__square(gpumc__metric_mixed(m, m->vectors + l * m->dim, i));
    return m->scale[i] * m->scale[i] * stretch;
}

/* v = M^-1 p */
static GPUMC_TEAM GPUMC_LOOP void gpumc__metric_velocity(const gpumc_metric *m,
                                                         const double *GPUMC__RESTRICT p,
                                                         double *GPUMC__RESTRICT v)
{
    const double *GPUMC__RESTRICT s = m->scale, *GPUMC__RESTRICT column = m->covariance;
    if (m->kind == GPUMC_METRIC_DENSE) {
        GPUMC_TEAM_SYNC();
        GPUMC_EACH(i, m->dim) v[i] = 0;
        for (size_t j = 0; j < m->dim; j++, column += m->dim) GPUMC_EACH(i, m->dim) v[i] += column[i] * p[j];
    } else if (m->rank > 0 || m->n_blocks > 0) {
        GPUMC_EACH(i, m->dim) v[i] = s[i] * p[i];
        gpumc__metric_blocks(m, 1, 0, v);
        gpumc__metric_stretch(m, 2, v);
        gpumc__metric_blocks(m, 0, 0, v);
        GPUMC_EACH(i, m->dim) v[i] *= s[i];
    } else {
        GPUMC_EACH(i, m->dim) v[i] = s[i] * s[i] * p[i];
    }
}

/* Standard normal z becomes a momentum of covariance M, in place. */
static GPUMC_TEAM GPUMC_LOOP void gpumc__metric_momentum(const gpumc_metric *m, double *z)
{
    const size_t n = m->dim;
    if (m->kind == GPUMC_METRIC_DENSE) {             /* L' p = z, from the last row up */
        GPUMC_TEAM_SYNC();
        for (size_t i = n; GPUMC_TEAM_RANK == 0 && i-- > 0;) {
            z[i] /= m->factor[i * n + i];
            for (size_t j = 0; j < i; j++) z[j] -= m->factor[i * n + j] * z[i];
        }
        GPUMC_TEAM_SYNC();
        return;
    }
    gpumc__metric_stretch(m, -1, z);
    gpumc__metric_blocks(m, 1, 1, z);
    GPUMC_EACH(i, n) z[i] /= m->scale[i];
}

/* Whitened coordinates x, q = mean + W x with W W' = M^-1: r = W' g */
static GPUMC_TEAM GPUMC_LOOP void gpumc__metric_pull(const gpumc_metric *m, const double *GPUMC__RESTRICT g,
                                                     double *GPUMC__RESTRICT r)
{
    const size_t n = m->dim;
    if (m->kind == GPUMC_METRIC_DENSE) {
        GPUMC_TEAM_SYNC();
        GPUMC_EACH(j, n) r[j] = 0;
        for (size_t i = 0; i < n; i++) GPUMC_EACH(j, i + 1) r[j] += m->factor[i * n + j] * g[i];
        return;
    }
    GPUMC_EACH(i, n) r[i] = m->scale[i] * g[i];
    gpumc__metric_blocks(m, 1, 0, r);
    gpumc__metric_stretch(m, 1, r);
}

/* v = W u */
static GPUMC_TEAM GPUMC_LOOP void gpumc__metric_push(const gpumc_metric *m, const double *GPUMC__RESTRICT u,
                                                     double *GPUMC__RESTRICT v)
{
    const size_t n = m->dim;
    if (m->kind == GPUMC_METRIC_DENSE) {
        GPUMC_TEAM_SYNC();
        GPUMC_EACH(i, n) {
            double sum = 0;
            for (size_t j = 0; j <= i; j++) sum += m->factor[i * n + j] * u[j];
            v[i] = sum;
        }
        return;
    }
    GPUMC_EACH(i, n) v[i] = u[i];
    gpumc__metric_stretch(m, 1, v);
    gpumc__metric_blocks(m, 0, 0, v);
    GPUMC_EACH(i, n) v[i] *= m->scale[i];
}

/* x = W^-1 (q - mean) */
static GPUMC_TEAM GPUMC_LOOP void gpumc__metric_whiten(const gpumc_metric *m, const double *GPUMC__RESTRICT q,
                                                       double *GPUMC__RESTRICT x)
{
    const size_t n = m->dim;
    GPUMC_EACH(i, n) x[i] = q[i] - m->mean[i];
    if (m->kind == GPUMC_METRIC_DENSE) {
        const double *row = m->factor;
        GPUMC_TEAM_SYNC();
        for (size_t i = 0; GPUMC_TEAM_RANK == 0 && i < n; i++, row += n) {
            for (size_t j = 0; j < i; j++) x[i] -= row[j] * x[j];
            x[i] /= row[i];
        }
        GPUMC_TEAM_SYNC();
        return;
    }
    GPUMC_EACH(i, n) x[i] /= m->scale[i];
    gpumc__metric_blocks(m, 0, 1, x);
    gpumc__metric_stretch(m, -1, x);
}

/* |x + r|^2 */
GPUMC__COPIES(return, double, gpumc__distance,
              (const double *GPUMC__RESTRICT x, const double *GPUMC__RESTRICT r, size_t n), (x, r, n), n > 64)
{
    double square;
    GPUMC__SUM(square, i, n, gpumc__square(x[i] + r[i]));
    return square;
}

/* The same at q with gradient g, both whitened: zero where the metric makes the target a standard normal. */
static GPUMC_TEAM GPUMC_LOOP double gpumc__metric_residual(const gpumc_metric *m, const double *q,
                                                           const double *g, double *GPUMC__RESTRICT x,
                                                           double *GPUMC__RESTRICT r)
{
    gpumc__metric_whiten(m, q, x);
    gpumc__metric_pull(m, g, r);
    GPUMC_TEAM_SYNC();
    return gpumc__distance(x, r, m->dim);
}

/* ---- the machine's state ----------------------------------------------------------------------- */

enum {
    GPUMC__PHASE_START, GPUMC__PHASE_BAD, GPUMC__PHASE_READY, GPUMC__PHASE_SEARCH, GPUMC__PHASE_TREE,
    GPUMC__PHASE_PATH
};

/* Counted references to states spare a leapfrog step every copy; a state without uses is free. */
typedef struct gpumc__state { double *q, *p, *g, lp; int uses; } gpumc__state;

/* A finished subtree on the stack: its first and last state in integration order. Levels decrease strictly
   upwards. */
typedef struct gpumc__node { int level; gpumc__state *begin, *end; } gpumc__node;

struct gpumc_nuts {
    size_t dim;
    int max_treedepth, depth_limit;  /* in force: warm-up lowers it while step sizes are still wild */
    double step_size;
    uint64_t seed;
    uint32_t chain, draw;            /* draw: number of the transition */
    int phase, n_states;

    gpumc_rng uniforms;              /* stream TREE */
    double H0, shift, weight;        /* a leaf weighs e^(w - shift); weight: of the main tree's leaves */
    int32_t steps[2];                /* of these either way */

    int direction, n_stack;          /* the subtree: +1 or -1 */
    int32_t n_leaves, candidate_index;
    int32_t block, behind;           /* leaves of a block; those of the first one that lie behind the draw */
    double subtree_weight, candidate_energy;

    uint32_t attempt;                /* step size search */
    int search_direction, flat;
    gpumc_draw_stats stats;          /* within a transition: what is known so far, sums instead of means */

    gpumc_sampler sampler;           /* NUTS, or a path: see >>mams */
    double length, window, kinetic, norms, cosine, slope, tau, zeta, step, sine, kicks[2], residual;
    double apart[2], guided_accept;  /* log density above the guide's: where the path starts, where it ends */
    int32_t n_steps;

    const gpumc_metric *metric;      /* from here on pointers, which a checkpoint cannot hold */
    double *scratch, *x, *divergence;    /* 2 dim, dim and dim doubles; x: whitened, of HMC's path */
    gpumc__node *stack;
    gpumc__state *states, *current, *next, *from;    /* the draw; what is asked for; what that follows */
    gpumc__state *ends[2], *selected;        /* main tree; ends[0] backward, ends[1] forward */
    gpumc__state *candidate;         /* selection of the subtree so far */
};

/* The lowest free state, so that short trees stay within few cache lines. There is always one: two a node on
   the stack, the two ends, the draw, both selections, the one asked for and one being merged are in use. */
static GPUMC_TEAM gpumc__state *gpumc__state_new(gpumc_nuts *s)
{
    gpumc__state *a = s->states;
    while (a->uses > 0) a++;
    a->uses = 1;
    return a;
}

/* One reference less to the old state of *at, one more to the new one; either may be NULL. */
static GPUMC_TEAM void gpumc__state_set(gpumc__state **at, gpumc__state *to)
{
    if (to) to->uses++;
    if (*at) (*at)->uses--;
    *at = to;
}

static gpumc_nuts *gpumc__nuts_place(gpumc__arena *arena, size_t dim, int max_treedepth)
{
    const size_t n_states = 2 * ((size_t)max_treedepth + 1) + 7;
    const size_t stride = gpumc__size_add(dim, (8 - dim % 8) % 8);
    gpumc_nuts plan, *s = (gpumc_nuts *)gpumc__take(arena, 1, sizeof(gpumc_nuts));
    double *values = gpumc__take_doubles(arena, gpumc__size_mul(3 * n_states + 4, stride));
    memset(&plan, 0, sizeof plan);
    plan.dim = dim;
    plan.max_treedepth = plan.depth_limit = max_treedepth;
    plan.sampler = GPUMC_SAMPLER_NUTS;
    plan.n_states = (int)n_states;
    plan.states = (gpumc__state *)gpumc__take(arena, n_states, sizeof(gpumc__state));
    plan.stack = (gpumc__node *)gpumc__take(arena, (size_t)max_treedepth + 2, sizeof(gpumc__node));
    if (!arena->base) return NULL;
    plan.divergence = values;
    plan.scratch = values + stride;
    plan.x = values + 3 * stride;
    memset(plan.divergence, 0, dim * sizeof(double));
    for (size_t k = 0; k < n_states; k++) {
        gpumc__state *a = &plan.states[k];
        a->q = values + (3 * k + 4) * stride;
        a->p = a->q + stride;
        a->g = a->p + stride;
        a->uses = 0;
    }
    *s = plan;
    s->current = gpumc__state_new(s);
    return s;
}

GPUMC_API size_t gpumc_nuts_bytes(size_t dim, int max_treedepth)
{
    gpumc__arena arena = { NULL, 0 };
    if (dim < 1 || max_treedepth < 1 || max_treedepth > GPUMC__MAX_DEPTH) return 0;
    gpumc__nuts_place(&arena, dim, max_treedepth);
    return arena.used;
}

GPUMC_API gpumc_nuts *gpumc_nuts_init(void *memory, size_t bytes, size_t dim, int max_treedepth,
                                      const gpumc_metric *metric, double step_size, uint64_t seed,
                                      uint32_t chain, const double *q, gpumc_error *error)
{
    gpumc__arena arena = { (char *)memory, 0 };
    const size_t needed = gpumc_nuts_bytes(dim, max_treedepth);
    const char *wrong = !memory ? "memory is NULL" : !metric ? "metric is NULL" : !q ? "q is NULL"
        : (uintptr_t)memory % sizeof(double) ? "memory is not aligned for double"
        : needed == 0 || bytes < needed || metric->dim != dim || !(step_size >= 0)
            || metric->rank > GPUMC__MAX_RANK || !gpumc__is_finite(step_size) ? "out of range" : NULL;
    gpumc_nuts *s;
    if (wrong) {
        gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                    "gpumc_nuts_init: %s (dim %.0f of at least 1, the metric's dimension %.0f; max_treedepth "
                    "%d of 1..%d; memory of %.0f bytes of %.0f needed; step size %g of 0 or more)", wrong,
                    (double)dim, metric ? (double)metric->dim : 0.0, max_treedepth, GPUMC__MAX_DEPTH,
                    (double)bytes, (double)needed, step_size);
        return NULL;
    }
    s = gpumc__nuts_place(&arena, dim, max_treedepth);
    s->metric = metric;
    s->seed = seed;
    s->chain = chain;
    gpumc_nuts_set_step_size(s, step_size);
    gpumc_nuts_restart(s, q);
    return s;
}

GPUMC_API GPUMC_TEAM void gpumc_nuts_restart(gpumc_nuts *s, const double *q)
{
    for (int k = 0; k < s->n_states; k++) s->states[k].uses = s->current == &s->states[k];
    s->ends[0] = s->ends[1] = s->selected = s->candidate = s->from = NULL;
    s->n_stack = 0;
    memcpy(s->current->q, q, s->dim * sizeof(double));
    s->next = s->current;
    s->phase = GPUMC__PHASE_START;
    memset(&s->stats, 0, sizeof s->stats);
}

/* Puts the draw somewhere else between transitions, with its log density and gradient. */
static void gpumc__nuts_move(gpumc_nuts *s, const double *q, double lp, const double *g)
{
    memcpy(s->current->q, q, s->dim * sizeof(double));
    memcpy(s->current->g, g, s->dim * sizeof(double));
    s->current->lp = lp;
}

GPUMC_API GPUMC_TEAM void gpumc_nuts_set_step_size(gpumc_nuts *s, double step_size)
{
    s->step_size = step_size;
    s->attempt = step_size > 0 ? 0 : 1;
}

/* ---- integrator -------------------------------------------------------------------------------- */

static GPUMC_TEAM double gpumc__kinetic(gpumc_nuts *s, const gpumc__state *at)
{
    gpumc__metric_velocity(s->metric, at->p, s->scratch);
    return 0.5 * gpumc__dot(at->p, s->scratch, s->dim);
}

/* A fresh momentum for the draw; returns the energy there. */
static GPUMC_TEAM double gpumc__nuts_refresh(gpumc_nuts *s, uint32_t stream)
{
    double *p = s->current->p;
    if (GPUMC_TEAM_RANK == 0) {
        gpumc_rng rng = gpumc_rng_at(s->seed, stream, s->draw, s->chain);
        gpumc_rng_normals(&rng, p, s->dim);
    }
    GPUMC_TEAM_SYNC();
    gpumc__metric_momentum(s->metric, p);
    return gpumc__kinetic(s, s->current) - s->current->lp;
}

static GPUMC_TEAM int gpumc__is_diagonal(const gpumc_metric *m)
{ return m->rank == 0 && m->n_blocks == 0 && m->kind != GPUMC_METRIC_DENSE; }

/* Vectors of this length repay the AVX2 copies. */
static GPUMC_TEAM GPUMC__UNUSED int gpumc__is_long(const gpumc_nuts *s) { return s->dim > 64; }

/* First half of a leapfrog step, up to the point where the gradient is needed: kick, then drift. */
GPUMC__COPIES(, void, gpumc__leapfrog_begin,
              (gpumc_nuts *s, const gpumc__state *from, gpumc__state *to, double eps), (s, from, to, eps),
              gpumc__is_long(s))
{
    const double *GPUMC__RESTRICT q0 = from->q, *GPUMC__RESTRICT p0 = from->p, *GPUMC__RESTRICT g0 = from->g;
    const double *GPUMC__RESTRICT S = s->metric->scale, *GPUMC__RESTRICT v = s->scratch, half = 0.5 * eps;
    double *GPUMC__RESTRICT q = to->q, *GPUMC__RESTRICT p = to->p;
    if (gpumc__is_diagonal(s->metric)) {
        GPUMC_EACH(i, s->dim) {
            p[i] = p0[i] + half * g0[i];
            q[i] = q0[i] + eps * S[i] * S[i] * p[i];
        }
        return;
    }
    GPUMC_EACH(i, s->dim) p[i] = p0[i] + half * g0[i];
    gpumc__metric_velocity(s->metric, p, s->scratch);
    GPUMC_EACH(i, s->dim) q[i] = q0[i] + eps * v[i];
}

/* Second half: kick with the new gradient; returns the energy, +infinity where it is not finite. */
GPUMC__COPIES(return, double, gpumc__leapfrog_end, (gpumc_nuts *s, gpumc__state *to, double eps),
              (s, to, eps), gpumc__is_long(s))
{
    const double *GPUMC__RESTRICT g = to->g, *GPUMC__RESTRICT S = s->metric->scale, half = 0.5 * eps;
    double *GPUMC__RESTRICT p = to->p, energy;
    if (gpumc__is_diagonal(s->metric)) {
        GPUMC_TEAM_SYNC();
        GPUMC__SUM(energy, i, s->dim, gpumc__square(S[i] * (p[i] += half * g[i])));
        energy *= 0.5;
    } else {
        GPUMC_EACH(i, s->dim) p[i] += half * g[i];
        energy = gpumc__kinetic(s, to);
    }
    return gpumc__is_finite(energy - to->lp) ? energy - to->lp : GPUMC_INF;
}

static GPUMC_TEAM void gpumc__nuts_step(gpumc_nuts *s, int direction)
{
    s->next = gpumc__state_new(s);
    gpumc__leapfrog_begin(s, s->from, s->next, direction * s->step_size);
}

/* ---- turning ----------------------------------------------------------------------------------- */

/* No-U-turn condition over two adjacent spans A (older) and B in integration order: the position difference
   must point along the momenta at both ends of the joined span, and of the two spans that reach from one part
   into the other (samplers that leave the latter out miss turns: Stan pull request 2800), which single leaves
   (level 0) do not have. Position differences need no metric. */
GPUMC__COPIES(return, int, gpumc__turns, (const gpumc_nuts *s, const gpumc__node *a, const gpumc__node *b),
              (s, a, b), gpumc__is_long(s))
{
    const gpumc__state *const from[] = { a->begin, a->begin, a->end };
    const gpumc__state *const to[] = { b->end, b->begin, b->end };
    for (int k = 0; k < (a->level > 0 ? 3 : 1); k++) {
        const double *q0 = from[k]->q, *p0 = from[k]->p, *q1 = to[k]->q, *p1 = to[k]->p;
        double first, last;
        GPUMC__SUM(first, i, s->dim, (q1[i] - q0[i]) * p0[i]);
        GPUMC__SUM(last, i, s->dim, (q1[i] - q0[i]) * p1[i]);
        if (!(s->direction * first > 0 && s->direction * last > 0)) return 1;
    }
    return 0;
}

/* ---- transitions ------------------------------------------------------------------------------- */

static GPUMC_TEAM void gpumc__nuts_double(gpumc_nuts *s)
{
    const int forward = gpumc_rng_uniform(&s->uniforms) > 0.5;
    s->direction = forward ? 1 : -1;
    s->from = s->ends[forward];
    s->n_leaves = 0;
    s->subtree_weight = 0;
    gpumc__nuts_step(s, s->direction);
}

/* A tree turns when it spans pi or somewhat more of a standard normal. Where eight leaves do not and twelve
   do, doublings start from blocks of three leaves, not one, lest they go on to sixteen. */
static GPUMC_TEAM int32_t gpumc__nuts_block(const gpumc_nuts *s)
{ return s->depth_limit > 3 && 8 * s->step_size < 3.2 && 12 * s->step_size >= 3.2 ? 3 : 1; }

/* The next leaf of the first block, which counts as two doublings. Each of the three would have built the
   same block as often, so that one is selected by weight alone, once it is complete. */
static GPUMC_TEAM void gpumc__nuts_base(gpumc_nuts *s)
{
    if (s->n_leaves == s->block) {
        gpumc__state_set(&s->selected, s->candidate);
        s->stats.energy = s->candidate_energy;
        s->stats.selected = s->candidate_index;
        s->stats.tree_depth = 2;
        s->weight = s->subtree_weight;
        gpumc__nuts_double(s);
        return;
    }
    s->direction = s->steps[0] < s->behind ? -1 : 1;
    s->from = s->ends[s->direction > 0];
    gpumc__nuts_step(s, s->direction);
}

static GPUMC_TEAM void gpumc__nuts_begin(gpumc_nuts *s)
{
    memset(&s->stats, 0, sizeof s->stats);
    s->uniforms = gpumc_rng_at(s->seed, GPUMC__STREAM_TREE, s->draw, s->chain);
    s->H0 = s->stats.energy = gpumc__nuts_refresh(s, GPUMC__STREAM_MOMENTUM);
    s->shift = 0;
    s->weight = 1;
    s->ends[0] = s->ends[1] = s->selected = s->current;
    s->current->uses += 3;
    s->steps[0] = s->steps[1] = 0;
    s->phase = GPUMC__PHASE_TREE;
    s->block = gpumc__nuts_block(s);
    if (s->block == 1) { gpumc__nuts_double(s); return; }
    s->behind = (int32_t)(s->block * gpumc_rng_uniform(&s->uniforms));
    gpumc__state_set(&s->candidate, s->current);
    s->candidate_energy = s->H0;
    s->candidate_index = 0;
    s->subtree_weight = 1;
    s->n_leaves = 1;
    gpumc__nuts_base(s);
}

/* Ends the transition with the main tree's selection; what is left of an unfinished subtree is dropped. */
static GPUMC_TEAM int gpumc__nuts_finish(gpumc_nuts *s)
{
    gpumc_draw_stats *t = &s->stats;
    while (s->n_stack > 0) {
        gpumc__node *node = &s->stack[--s->n_stack];
        gpumc__state_set(&node->begin, NULL);
        gpumc__state_set(&node->end, NULL);
    }
    gpumc__state_set(&s->candidate, NULL);
    gpumc__state_set(&s->ends[0], NULL);
    gpumc__state_set(&s->ends[1], NULL);
    gpumc__state_set(&s->current, s->selected);
    gpumc__state_set(&s->selected, NULL);
    t->lp = s->current->lp;
    t->energy_error = t->energy - s->H0;
    t->step_size = s->step_size;
    t->accept_stat /= t->n_leapfrog;
    t->accept_sym /= t->n_leapfrog;
    t->fisher_residual = s->sampler == GPUMC_SAMPLER_HMC && s->phase == GPUMC__PHASE_PATH ? s->residual
        : gpumc__metric_residual(s->metric, s->current->q, s->current->g, s->scratch, s->scratch + s->dim);
    s->draw++;
    s->phase = GPUMC__PHASE_READY;
    return 1;
}

/* Joins the complete subtree, the stack's only node, to the main tree. Its candidate stays eligible even when
   the joined tree turns: only turns inside the subtree would have made it ineligible. */
static GPUMC_TEAM int gpumc__nuts_join(gpumc_nuts *s)
{
    gpumc_draw_stats *t = &s->stats;
    const int forward = s->direction > 0;
    const gpumc__node tree = { t->tree_depth, s->ends[!forward], s->ends[forward] };
    gpumc__node *b = &s->stack[0];
    const int turns = gpumc__turns(s, &tree, b);
    if (gpumc_rng_uniform(&s->uniforms) * s->weight < s->subtree_weight) {
        gpumc__state_set(&s->selected, s->candidate);
        t->energy = s->candidate_energy;
        t->selected = s->candidate_index;
    }
    s->weight += s->subtree_weight;
    gpumc__state_set(&s->ends[forward], b->end);
    gpumc__state_set(&b->begin, NULL);
    gpumc__state_set(&b->end, NULL);
    s->n_stack = 0;
    t->tree_depth++;
    t->hit_max_treedepth = !turns && t->tree_depth == s->depth_limit;
    if (turns || t->hit_max_treedepth) return gpumc__nuts_finish(s);
    gpumc__nuts_double(s);
    return 0;
}

/* Merges equal levels at the top of the stack; returns 1 when a merged subtree turns. */
static GPUMC_TEAM int gpumc__nuts_merge(gpumc_nuts *s)
{
    while (s->n_stack > 1 && s->stack[s->n_stack - 1].level == s->stack[s->n_stack - 2].level) {
        gpumc__node *a = &s->stack[s->n_stack - 2], *b = a + 1;
        if (gpumc__turns(s, a, b)) return 1;
        gpumc__state_set(&b->begin, NULL);
        gpumc__state_set(&a->end, b->end);
        gpumc__state_set(&b->end, NULL);
        a->level++;
        s->n_stack--;
    }
    return 0;
}

/* Weight of a leaf. One that outweighs the start by more than e^500, as on the way in from a far tail, moves
   the shift, lest sums overflow. */
static GPUMC_TEAM double gpumc__leaf_weight(gpumc_nuts *s, double w)
{
    if (w - s->shift > 500) {
        const double factor = gpumc_exp(s->shift - w);
        s->weight *= factor;
        s->subtree_weight *= factor;
        s->shift = w;
    }
    return gpumc_exp(w - s->shift);
}

/* A new leaf of the current subtree, in slot next, with its gradient there. */
static GPUMC_TEAM int gpumc__nuts_leaf(gpumc_nuts *s)
{
    const double H = gpumc__leapfrog_end(s, s->next, s->direction * s->step_size), w = s->H0 - H;
    const int divergent = !(-w <= GPUMC__DIVERGENCE), forward = s->direction > 0;
    const int level = s->block > 1 ? 2 : 0;       /* of a block: three leaves are nearly two doublings */
    const double e = divergent ? 0 : gpumc_exp(-fabs(w));
    const double weight = divergent ? 0 : s->shift == 0 && w <= 0 ? e : gpumc__leaf_weight(s, w);
    gpumc__node *node = &s->stack[s->n_stack];
    gpumc_draw_stats *t = &s->stats;
    t->n_leapfrog++;
    t->accept_stat += w > 0 ? 1 : e;
    t->accept_sym += 2 * e / (1 + e);
    if (fabs(w) > fabs(t->max_energy_error)) t->max_energy_error = -w;
    if (divergent) {
        t->divergent = 1;
        memcpy(s->divergence, s->from->q, s->dim * sizeof(double));
        gpumc__state_set(&s->next, NULL);
        return gpumc__nuts_finish(s);
    }
    s->steps[forward]++;
    s->subtree_weight += weight;
    if (s->n_leaves++ == 0 || gpumc_rng_uniform(&s->uniforms) * s->subtree_weight < weight) {
        gpumc__state_set(&s->candidate, s->next);
        s->candidate_energy = H;
        s->candidate_index = s->direction * s->steps[forward];
    }
    if (t->tree_depth < level) {                  /* the first block */
        gpumc__state_set(&s->ends[forward], s->next);
        gpumc__state_set(&s->next, NULL);
        gpumc__nuts_base(s);
        return 0;
    }
    s->from = s->next;
    if ((s->n_leaves - 1) % s->block == 0) {
        node->level = level;
        node->begin = node->end = s->next;
        s->next->uses++;                          /* the reference of next goes over to the node */
        s->n_stack++;
    } else {
        gpumc__state_set(&node[-1].end, s->next);
        s->next->uses--;
    }
    if (s->n_leaves % s->block == 0 && gpumc__nuts_merge(s)) return gpumc__nuts_finish(s);
    if (s->n_leaves == s->block << (t->tree_depth - level)) return gpumc__nuts_join(s);
    gpumc__nuts_step(s, s->direction);
    return 0;
}

/* ---- search for a first step size (Stan's rule) ------------------------------------------------ */

/* From step_size (0.1 at first), doubled or halved with a fresh momentum each time until the acceptance of
   one step crosses 0.8. A step size beyond 1e7 means a density without curvature: the search ends and says so
   by flat. */
static GPUMC_TEAM void gpumc__nuts_search(gpumc_nuts *s)
{
    if (!(s->step_size > 0)) s->step_size = 0.1;
    s->phase = GPUMC__PHASE_SEARCH;
    s->H0 = gpumc__nuts_refresh(s, GPUMC__STREAM_SEARCH | s->attempt);
    s->from = s->current;
    gpumc__nuts_step(s, 1);
}

static GPUMC_TEAM void gpumc__nuts_searched(gpumc_nuts *s)
{
    const double w = s->H0 - gpumc__leapfrog_end(s, s->next, s->step_size);
    const int direction = w > -0.2231435513142097558 /* log 0.8 */ ? 1 : -1;
    gpumc__state_set(&s->next, NULL);
    s->phase = GPUMC__PHASE_READY;
    if (s->attempt == 1) s->search_direction = direction;
    s->flat = s->step_size > 1e7 || s->step_size < 1e-300;
    if (direction != s->search_direction || s->flat) { s->attempt = 0; return; }
    s->step_size *= direction > 0 ? 2 : 0.5;
    s->attempt++;
}

/* ---- public ------------------------------------------------------------------------------------ */

static GPUMC_TEAM void gpumc__path_begin(gpumc_nuts *s);          /* both in >>mams */
static GPUMC_TEAM int gpumc__path_step(gpumc_nuts *s);

GPUMC_API GPUMC_TEAM const double *gpumc_nuts_ask(gpumc_nuts *s)
{
    if (s->phase == GPUMC__PHASE_READY) {
        if (s->attempt > 0) gpumc__nuts_search(s);
        else if (s->sampler != GPUMC_SAMPLER_NUTS) gpumc__path_begin(s);
        else gpumc__nuts_begin(s);
    }
    return s->next->q;
}

/* Where a driver may write the gradient of the point asked for, to spare a copy. */
static GPUMC_TEAM double *gpumc__nuts_gradient_wanted(gpumc_nuts *s) { return s->next->g; }

GPUMC_API GPUMC_TEAM GPUMC_LOOP int gpumc_nuts_tell(gpumc_nuts *s, double lp, const double *grad)
{
    double *GPUMC__RESTRICT g = s->next->g;
    const double *GPUMC__RESTRICT given = grad;
    if (g != grad) GPUMC_EACH(i, s->dim) g[i] = given[i];
    s->next->lp = lp;
    switch (s->phase) {
    case GPUMC__PHASE_TREE: return gpumc__nuts_leaf(s);
    case GPUMC__PHASE_PATH: return gpumc__path_step(s);
    case GPUMC__PHASE_SEARCH: gpumc__nuts_searched(s); return 0;
    default:
        s->stats.lp = lp;
        s->phase = gpumc__is_finite(lp) && gpumc__is_finite(gpumc__dot(g, g, s->dim)) ? GPUMC__PHASE_READY
            : GPUMC__PHASE_BAD;
        return s->phase == GPUMC__PHASE_READY;
    }
}

GPUMC_API GPUMC_TEAM int gpumc_nuts_bad_start(const gpumc_nuts *s) { return s->phase == GPUMC__PHASE_BAD; }
GPUMC_API GPUMC_TEAM const double *gpumc_nuts_draw(const gpumc_nuts *s)
{ return s->current->q; }
GPUMC_API GPUMC_TEAM const double *gpumc_nuts_gradient(const gpumc_nuts *s)
{ return s->current->g; }
GPUMC_API GPUMC_TEAM const gpumc_draw_stats *gpumc_nuts_stats(const gpumc_nuts *s) { return &s->stats; }
GPUMC_API GPUMC_TEAM const double *gpumc_nuts_divergence(const gpumc_nuts *s) { return s->divergence; }

/* ========================================================================================= >>mams
   Transitions along one path whose length is fixed before it starts, accepted or rejected at its end. In
   whitened coordinates x, q = mean + W x with W W' = M^-1 and whitened gradient r = W' g:
     HMC    velocities u are standard normal, kicks add r. Where the metric has a spring, the target is taken
            for nearly N(0, 1): x and u turn about the mean exactly and only r + x kicks (Shahbaba, Lan,
            Johnson & Neal 2014), by what leaves the least error of first order in it. A path is one step or
            pairs of equal ones.
     MAMS   a velocity u of length one, uniform on the sphere at the start; x moves by sqrt(d) eps u, kicks
            turn u towards r. The energy is -lp plus the kinetic energy that the kicks add, zero at the
            start: what they stretch and squeeze the sphere by (Robnik, Cohn-Gordon & Seljak 2025).
   Lengths come from a window around `length`, by Halton numbers of the transition's number: the same in every
   chain, so that chains on a device end together, and fixed beforehand, so that detailed balance is that of
   every single length. A window that reached from 0 to 2 length would map x to -x near length pi and leave
   squares unmixed. Any force that depends on the position alone keeps steps reversible and their Jacobian
   known, so gradients may be a guide's; only the energies at both ends must be the density's. Steps are then
   tuned by the guide's energies: what lies between the two no step size mends. Read first: gpumc__mams_kick,
   then gpumc__path_step.

   Random numbers of transition t: MOMENTUM as in >>nuts; the first uniform of TREE decides acceptance. */

GPUMC_API GPUMC_TEAM void gpumc_nuts_set_path(gpumc_nuts *s, gpumc_sampler sampler, double length,
                                              double window)
{
    s->sampler = sampler == GPUMC_SAMPLER_AUTO ? GPUMC_SAMPLER_NUTS
        : sampler == GPUMC_SAMPLER_MAMS && s->dim < 2 ? GPUMC_SAMPLER_HMC : sampler;
    s->length = length;
    s->window = window;
}

/* ---- the microcanonical step -------------------------------------------------------------------- */

/* Turns a unit velocity u towards the unit vector e for a while tau, zeta = e^-tau, with cosine = u.e:
   u <- along e + keep u, again of length one. The kinetic energy gained is, in units of d - 1,
   tau - log 2 + log of what this returns. */
static GPUMC_TEAM double gpumc__mams_kick(double cosine, double zeta, double *along, double *keep)
{
    const double norm = 1 + cosine + (1 - cosine) * zeta * zeta;
    *along = (1 - zeta) * (1 + zeta + cosine * (1 - zeta)) / norm;
    *keep = 2 * zeta / norm;
    return norm;
}

/* A standard normal velocity for the draw. */
static GPUMC_TEAM void gpumc__path_velocity(gpumc_nuts *s)
{
    if (GPUMC_TEAM_RANK == 0) {
        gpumc_rng rng = gpumc_rng_at(s->seed, GPUMC__STREAM_MOMENTUM, s->draw, s->chain);
        gpumc_rng_normals(&rng, s->current->p, s->dim);
    }
}

/* A uniform direction for the draw; returns the energy there. */
static GPUMC_TEAM double gpumc__mams_refresh(gpumc_nuts *s)
{
    double *u = s->current->p, norm;
    gpumc__path_velocity(s);
    norm = 1 / sqrt(gpumc__dot(u, u, s->dim));
    GPUMC_EACH(i, s->dim) u[i] *= norm;
    s->kinetic = 0;
    s->norms = 1;
    return -s->current->lp;
}

/* The whitened gradient, into scratch, its length, and the cosine of its angle with the velocity. */
GPUMC__COPIES(, void, gpumc__mams_angle, (gpumc_nuts *s, const gpumc__state *at), (s, at), gpumc__is_long(s))
{
    const double *GPUMC__RESTRICT g = at->g, *GPUMC__RESTRICT u = at->p;
    const double *GPUMC__RESTRICT S = s->metric->scale;
    double *GPUMC__RESTRICT r = s->scratch, square, dot, cosine;
    const int diagonal = gpumc__is_diagonal(s->metric);
    if (!diagonal) gpumc__metric_pull(s->metric, g, r);
    GPUMC_TEAM_SYNC();
    if (diagonal) GPUMC__SUM(square, i, s->dim, gpumc__square(r[i] = S[i] * g[i]));
    else GPUMC__SUM(square, i, s->dim, r[i] * r[i]);
    GPUMC__SUM(dot, i, s->dim, r[i] * u[i]);
    s->slope = sqrt(square);
    cosine = dot / s->slope;
    s->cosine = !(s->slope > 1e-13) ? 0 : cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

/* The gradient there is known. tau: how long a whole step kicks, half of it at either end; where there is no
   slope, not at all. */
static GPUMC_TEAM void gpumc__mams_meet(gpumc_nuts *s, const gpumc__state *at)
{
    const double d = (double)s->dim;
    gpumc__mams_angle(s, at);
    s->tau = s->slope > 1e-13 ? s->step_size * sqrt(d) * s->slope / (d - 1) : 0;
}

/* u <- along r + keep u, then q moves by eps W u. */
GPUMC__COPIES(, void, gpumc__mams_drift,
              (gpumc_nuts *s, const gpumc__state *from, gpumc__state *to, double along, double keep),
              (s, from, to, along, keep), gpumc__is_long(s))
{
    const double *GPUMC__RESTRICT r = s->scratch, *GPUMC__RESTRICT v = s->scratch + s->dim;
    const double *GPUMC__RESTRICT q0 = from->q, *GPUMC__RESTRICT u0 = from->p;
    const double *GPUMC__RESTRICT S = s->metric->scale, eps = s->step_size * sqrt((double)s->dim);
    double *GPUMC__RESTRICT q = to->q, *GPUMC__RESTRICT u = to->p;
    if (gpumc__is_diagonal(s->metric)) {
        GPUMC_EACH(i, s->dim) {
            u[i] = along * r[i] + keep * u0[i];
            q[i] = q0[i] + eps * S[i] * u[i];
        }
        return;
    }
    GPUMC_EACH(i, s->dim) u[i] = along * r[i] + keep * u0[i];
    gpumc__metric_push(s->metric, u, s->scratch + s->dim);
    GPUMC_EACH(i, s->dim) q[i] = q0[i] + eps * v[i];
}

/* Kicks for half a step, the path's first, or a whole one, which is two half kicks at one point; then drifts.
   kinetic, in units of d - 1, lacks the logarithm of norms, what kicks returned multiplied: one for many. */
static GPUMC_TEAM void gpumc__mams_step(gpumc_nuts *s, int is_first)
{
    const double tau = (is_first ? 0.5 : 1) * s->tau, zeta = is_first ? gpumc_exp(-tau) : s->zeta;
    double along, keep;
    s->norms *= gpumc__mams_kick(s->cosine, zeta, &along, &keep);
    s->kinetic += tau - GPUMC_LOG_2;
    if (s->norms < 1e-100 || s->norms > 1e100) {
        s->kinetic += gpumc_log(s->norms);
        s->norms = 1;
    }
    s->next = gpumc__state_new(s);
    gpumc__mams_drift(s, s->from, s->next, s->slope > 1e-13 ? along / s->slope : 0, keep);
}

/* Energy at the end of a step, its last half kick included; +infinity where it is not finite. Leaves zeta to
   a step that follows. */
static GPUMC_TEAM double gpumc__mams_energy(gpumc_nuts *s, const gpumc__state *at)
{
    const double zeta = gpumc_exp(-s->tau), norm = 1 + s->cosine + (1 - s->cosine) * zeta;
    const double gained = 0.5 * s->tau - GPUMC_LOG_2;
    const double H = ((double)s->dim - 1) * (s->kinetic + gained + gpumc_log(s->norms * norm)) - at->lp;
    s->zeta = zeta;
    return gpumc__is_finite(H) && gpumc__is_finite(s->slope) ? H : GPUMC_INF;
}

/* ---- the spring --------------------------------------------------------------------------------- */

/* Half a kick for a turn by h. Along the orbit, what the spring leaves of the log density is made of
   harmonics m: linear terms of the first, quadratic ones of the second, cubic ones of the first and, a third
   as much, of the third. Two half kicks of k balance all but sin(m h / 2) - k m cos(m h / 2) of each. This k
   makes the sum of their squares least, weighted 3, 3, 1: h / 2 where h is small, and 0 at a quarter turn,
   where what is left is an independent proposal. */
static GPUMC_TEAM double gpumc__spring_kick(double sine, double c)
{ return sine * c * (1 + c) / (1 + c * (-2 + c * (2 + 3 * c))); }

/* The same for two turns by h, with half kicks of k[0] at both ends and of k[1] between: they balance all but
   sin(m h) - m (k[0] cos(m h) + k[1]) of each. Two numbers for three harmonics leave far less than one does;
   where h is small they are h / 3 and 2 h / 3, Simpson's rule. */
static GPUMC_TEAM void gpumc__spring_kicks(double sine, double c, double *k)
{
    const double per = sine * c / (1 + c * (-2 + c * (1 + c * (18 + 15 * c))));
    k[0] = per * (1 + 5 * c * (1 + c));
    k[1] = per * (1 + c) * (1 + c * (2 + 4 * c * (1 + c)));
}

/* Velocity for the draw, its position and gradient whitened, and what one step does; returns the energy
   there. */
static GPUMC_TEAM double gpumc__hmc_refresh(gpumc_nuts *s)
{
    const double *u = s->current->p;
    gpumc__path_velocity(s);
    gpumc__metric_whiten(s->metric, s->current->q, s->x);
    gpumc__metric_pull(s->metric, s->current->g, s->scratch);
    GPUMC_TEAM_SYNC();
    s->residual = gpumc__distance(s->x, s->scratch, s->dim);
    gpumc_sincos_2pi(s->metric->spring ? s->step / (2 * GPUMC_PI) : 0, &s->sine, &s->cosine);
    s->kicks[0] = s->kicks[1] = s->metric->spring ? gpumc__spring_kick(s->sine, s->cosine) : 0.5 * s->step;
    if (s->metric->spring && s->n_steps > 1) gpumc__spring_kicks(s->sine, s->cosine, s->kicks);
    return 0.5 * gpumc__dot(u, u, s->dim) - s->current->lp;
}

/* Half a kick by the force that the spring does not make, then its motion. */
GPUMC__COPIES(, void, gpumc__hmc_begin, (gpumc_nuts *s, const gpumc__state *from, gpumc__state *to),
              (s, from, to), gpumc__is_long(s))
{
    const double kick = s->kicks[s->stats.n_leapfrog % 2], spring = s->metric->spring;
    const double cosine = s->cosine, sine = s->sine;
    const double reach = s->metric->spring ? sine : s->step;
    const double *GPUMC__RESTRICT u0 = from->p, *GPUMC__RESTRICT r = s->scratch;
    const double *GPUMC__RESTRICT S = s->metric->scale, *GPUMC__RESTRICT mean = s->metric->mean;
    double *GPUMC__RESTRICT x = s->x, *GPUMC__RESTRICT u = to->p, *GPUMC__RESTRICT q = to->q;
    GPUMC_EACH(i, s->dim) {
        const double x0 = x[i], kicked = u0[i] + kick * (r[i] + spring * x0);
        u[i] = cosine * kicked - sine * x0;
        x[i] = cosine * x0 + reach * kicked;
    }
    if (gpumc__is_diagonal(s->metric)) {             /* apart: gcc vectorises no loop over so many arrays */
        GPUMC_EACH(i, s->dim) q[i] = mean[i] + S[i] * x[i];
        return;
    }
    gpumc__metric_push(s->metric, x, q);
    GPUMC_EACH(i, s->dim) q[i] += mean[i];
}

/* The other half of the kick; returns the energy, +infinity where it is not finite. */
GPUMC__COPIES(return, double, gpumc__hmc_end, (gpumc_nuts *s, gpumc__state *to), (s, to), gpumc__is_long(s))
{
    const double kick = s->kicks[(s->stats.n_leapfrog + 1) % 2], spring = s->metric->spring;
    const double *GPUMC__RESTRICT g = to->g, *GPUMC__RESTRICT x = s->x;
    const double *GPUMC__RESTRICT S = s->metric->scale;
    double *GPUMC__RESTRICT u = to->p, *GPUMC__RESTRICT r = s->scratch, energy;
    if (gpumc__is_diagonal(s->metric)) GPUMC_EACH(i, s->dim) r[i] = S[i] * g[i];
    else gpumc__metric_pull(s->metric, g, r);
    GPUMC_TEAM_SYNC();
    GPUMC__SUM(energy, i, s->dim, gpumc__square(u[i] += kick * (r[i] + spring * x[i])));
    energy *= 0.5;
    return gpumc__is_finite(energy - to->lp) ? energy - to->lp : GPUMC_INF;
}

static GPUMC_TEAM void gpumc__hmc_step(gpumc_nuts *s)
{
    s->next = gpumc__state_new(s);
    gpumc__hmc_begin(s, s->from, s->next);
}

/* ---- transitions ------------------------------------------------------------------------------- */

/* Number k of the Halton sequence: the digits of k mirrored at the point. */
static GPUMC_TEAM double gpumc__halton(uint32_t k, uint32_t base)
{
    uint64_t mirrored = 0, places = 1;
    for (; k > 0; k /= base, places *= base) mirrored = mirrored * base + k % base;
    return (double)mirrored / (double)places;
}

/* On the spring as few steps as reach the length, and no longer a path than they reach. */
static GPUMC_TEAM int32_t gpumc__path_steps(gpumc_nuts *s)
{
    const double most = (double)((1 << s->max_treedepth) - 1), eps = s->step_size;
    const double share = 1 - s->window + 2 * s->window * gpumc__halton(s->draw + 1, 2);
    const int even = s->sampler == GPUMC_SAMPLER_HMC && s->metric->spring;
    const double n = even ? s->length / eps + (1 - 1e-9)
        : s->length * share / eps + gpumc__halton(s->draw + 1, 3);
    int32_t n_steps = (int32_t)(n >= most ? most : n > 1 ? n : 1);
    if (even && n_steps > 1 && n_steps % 2) n_steps += n_steps < most ? 1 : -1;
    s->stats.hit_max_treedepth = n >= most + 1;
    s->step = even ? fmin(eps, s->length * share / n_steps) : eps;
    return n_steps;
}

static GPUMC_TEAM void gpumc__path_begin(gpumc_nuts *s)
{
    memset(&s->stats, 0, sizeof s->stats);
    s->n_steps = gpumc__path_steps(s);
    s->from = s->current;
    s->from->uses++;
    s->phase = GPUMC__PHASE_PATH;
    if (s->sampler == GPUMC_SAMPLER_HMC) {
        s->H0 = gpumc__hmc_refresh(s);
        gpumc__hmc_step(s);
        return;
    }
    s->H0 = gpumc__mams_refresh(s);
    gpumc__mams_meet(s, s->from);
    gpumc__mams_step(s, 1);
}

/* Accepts or rejects the end of the path, with energy H. */
static GPUMC_TEAM int gpumc__path_finish(gpumc_nuts *s, double H)
{
    gpumc_draw_stats *t = &s->stats;
    gpumc_rng rng = gpumc_rng_at(s->seed, GPUMC__STREAM_TREE, s->draw, s->chain);
    const double w = s->H0 - H, e = t->divergent ? 0 : gpumc_exp(-fabs(w));
    const double by_guide = w - (s->apart[1] - s->apart[0]);
    const int accepted = !t->divergent && gpumc_rng_uniform(&rng) < (w > 0 ? 1 : e);
    if (t->divergent) memcpy(s->divergence, s->from->q, s->dim * sizeof(double));
    gpumc__state_set(&s->selected, accepted ? s->next : s->current);
    t->energy = accepted ? H : s->H0;
    t->selected = accepted ? t->n_leapfrog : 0;
    t->accept_stat = t->n_leapfrog * (w > 0 && !t->divergent ? 1 : e);
    t->accept_sym = t->n_leapfrog * 2 * e / (1 + e);
    s->guided_accept = t->divergent && t->n_leapfrog < s->n_steps ? 0   /* at the end the density refuses */
        : by_guide < 0 ? gpumc_exp(by_guide) : by_guide >= 0;
    if (accepted) s->apart[0] = s->apart[1];
    if (accepted && s->sampler == GPUMC_SAMPLER_HMC) s->residual = gpumc__distance(s->x, s->scratch, s->dim);
    gpumc__state_set(&s->next, NULL);
    gpumc__state_set(&s->from, NULL);
    return gpumc__nuts_finish(s);
}

/* Whether the point asked for is the last of a path, so that the density decides there and not a guide. */
static int gpumc__path_ends(const gpumc_nuts *s)
{ return s->phase == GPUMC__PHASE_PATH && s->stats.n_leapfrog + 1 >= s->n_steps; }

/* The gradient at the end of a step is known. A path that diverges is rejected where it does. */
static GPUMC_TEAM int gpumc__path_step(gpumc_nuts *s)
{
    const int is_hmc = s->sampler == GPUMC_SAMPLER_HMC;
    gpumc_draw_stats *t = &s->stats;
    double H, w;
    if (!is_hmc) gpumc__mams_meet(s, s->next);
    H = is_hmc ? gpumc__hmc_end(s, s->next) : gpumc__mams_energy(s, s->next);
    t->n_leapfrog++;
    w = s->H0 - H + (t->n_leapfrog < s->n_steps ? s->apart[0] : 0);     /* on the way, by the guide */
    if (fabs(w) > fabs(t->max_energy_error)) t->max_energy_error = -w;
    t->divergent = !(-w <= GPUMC__DIVERGENCE);
    if (t->divergent || t->n_leapfrog == s->n_steps) return gpumc__path_finish(s, H);
    gpumc__state_set(&s->from, NULL);
    s->from = s->next;                            /* the reference of next goes over */
    if (is_hmc) gpumc__hmc_step(s);
    else gpumc__mams_step(s, 0);
    return 0;
}

/* ======================================================================================== >>adapt
   Warm-up of a set of chains that learn together: one metric, one step size, one set of centring weights,
   from the draws and gradients of all of them. Everything happens in gpumc_adapt_update, between iterations,
   in chain order, so results do not depend on threads.
       iterations      what is shared                   estimates
       0 .. 30         centring; own metric and step    every 10, from the last 10 to 20 iterations
       .. early_end    everything                       every 10, likewise
       .. final        everything                       every 10; windows of W/5 growing by 1.5
       .. W            everything                       step size of the sampler chosen when final begins
   Trees give way to HMC on its spring as soon as that pays, from the first shared metric on. Where warm-up
   may stop early, early_end is then; windows take 20 and 30 iterations, the final phase 20; more with fewer
   than four chains. Anchors of hierarchies are learned after early_end: before, they would be of the way.
   Draws are kept in the chains' own coordinates; when centring changes they are carried over to the new ones.
   Read first: Seyboldt, Carlson & Carpenter (2026) for the Fisher metric; then gpumc_adapt_update at the end.
   */
GPUMC__SELDOM
/* ---- dual averaging (Hoffman & Gelman 2014, section 3.2) --------------------------------------- */

typedef struct gpumc__dual { double mu, x, x_mean, h, limit; int t; } gpumc__dual; /* limit: of x */

static void gpumc__dual_start(gpumc__dual *a, double step_size)
{
    a->mu = gpumc__log(10 * step_size);
    a->x = a->x_mean = gpumc__log(step_size);
    a->h = 0;
    a->limit = GPUMC_INF;
    a->t = 0;
}

static void gpumc__dual_update(gpumc__dual *a, double accept, double target)
{
    const double t = ++a->t, eta = 1 / (t + 10), weight = 1 / (sqrt(t) * sqrt(sqrt(t)));
    a->h = (1 - eta) * a->h + eta * (target - (accept < 1 ? accept : 1));
    a->x = fmin(a->mu - a->h * sqrt(t) / 0.05, a->limit);
    a->x_mean = (1 - weight) * a->x_mean + weight * a->x;
}

/* The low-rank metric: ridge of the second moments, in whitened units, for few draws and for enough; variance
   ratio that counts for trees; what one direction adds to the cost of a step; the residual |x + y|^2 of a
   draw, x and y whitened, below which HMC on its spring gains no more. */
#ifndef GPUMC__RIDGE
#define GPUMC__RIDGE 0.02
#define GPUMC__FINE_RIDGE 1e-5
#define GPUMC__CUTOFF 2.0
#define GPUMC__DIRECTION (1.0 / 64)
#define GPUMC__RESIDUAL 0.03
#endif
#define GPUMC__MISFIT 0.4          /* of x + y, by gpumc__adapt_misfit: below, no direction is looked for */
#define GPUMC__SPRING_PAYS 0.2     /* see the choice of the sampler */

/* ---- state ------------------------------------------------------------------------------------- */

/* Parts of the draws over which moments of links are summed; draws in which the noise is sought. */
enum { GPUMC__CENTRING_PARTS = 4, GPUMC__NOISE_DRAWS = 64 };

typedef struct gpumc__restart {
    size_t iteration, chain, source;
    double level, healthy_level;
} gpumc__restart;
#define GPUMC__MAX_RESTARTS 16

typedef struct gpumc__trial { double n, span, diverged, energy, mean, squares, jumps; } gpumc__trial;

struct gpumc_adapt {
    gpumc_adapt_options options;             /* resolved */
    size_t dim, n_chains, iteration;         /* iteration: completed ones, the start point not counted */
    int started;
    size_t own_end, early_end, final_start;  /* see the head of the section */
    size_t next_switch, window;
    gpumc__dual dual;
    size_t n_kept, capacity, foreground, background;         /* where the two overlapping windows begin */
    size_t best, n_selected, n_units;        /* best: the chain of the highest level */
    double tolerance;                        /* how far below that is too far */
    gpumc__restart restarts[GPUMC__MAX_RESTARTS];
    size_t n_restarts;
    double mixing;                           /* R-hat of the log density over the final phase */
    double residual, n_residual;             /* summed over draws since the last estimate; their number */
    double off_before;                       /* how far those were off by the metric in force then */
    double tree_step;                        /* step size of trees, before the spring */
    size_t spring_since;                     /* the iteration after which it was taken */
    double two_steps[2];                     /* paths of as many, once tuned: their number, sum accepted */
    double swung[2];                         /* paths on the spring: their number, how many diverged */
    gpumc_sampler sampler;                   /* in force, and why */
    int guided;                              /* by the model's guide, which trees take for the model */
    char reason[160];

    gpumc_layout *layout;                    /* or NULL; from here on pointers, as in gpumc_nuts */
    gpumc_metric shared, *metrics;           /* metrics: one a chain, its own or a copy of shared */
    gpumc__dual *duals;
    double *q, *g, *lp;                      /* kept draws, oldest first */
    uint32_t *owner;                         /* their chains */
    unsigned char *healthy;                  /* chains that do not lag; one more, 0, owns what none does */
    double *sums;  /* 3 a chain: count, mean, squared deviations of the log density in the final phase */
    gpumc__trial *trials;                    /* what is watched of every chain before that */

    double *levels, *masses;  /* scratch of one update: recent log density and log mass of every chain */
    double *moments;                         /* means and variances: 4 dim, of parts for links 6 dim each */
    size_t *selected, noise_draws[GPUMC__NOISE_DRAWS];       /* kept draws that are looked at */
    double *x, *y;                           /* selected draws and gradients, scaled; basis; matrices */
    double *basis, *matrices, *slopes;       /* as found, one a coordinate for every shared value */
    double middles[GPUMC__MOST_SHARED];
    gpumc_team *team;                        /* or NULL; model_work has room for each of its members */
    double *model_work;
    double *pairs;                           /* of one coordinate, 2 a kept draw, twice */
    double *units;                           /* of every unit, and part: see gpumc__adapt_units */
};

/* What belongs to one group of a hierarchy: element j of every parameter of n elements, two of which at least
   are linked. Of several n that which covers most coordinates; size 0 where there is none. */
#define GPUMC__MAX_BLOCK 32
/* Up to FULL_DIM coordinates the correlations of all are looked at, where few directions do not do. Beyond
   RANK_DIM directions must be asked for: what it takes to look for them is memory. */
enum { GPUMC__FULL_DIM = 256, GPUMC__RANK_DIM = 1 << 14 };
typedef struct gpumc__blocks { size_t size, n, members[GPUMC__MAX_BLOCK]; } gpumc__blocks;

static gpumc__blocks gpumc__layout_blocks(const gpumc_layout *l)
{
    gpumc__blocks best = { 0, 0, { 0 } };
    for (size_t i = 0; l && i < l->n_parts; i++) {
        gpumc__blocks b = { 0, l->parts[i].size, { 0 } };
        size_t n_linked = 0;
        if (!l->parts[i].linked) continue;
        for (size_t k = 0; k < l->n_parts; k++) {
            if (l->parts[k].size != b.n || l->parts[k].free_size != b.n) continue;
            if (b.size < GPUMC__MAX_BLOCK) b.members[b.size] = l->parts[k].free_at;
            b.size++;
            n_linked += (size_t)gpumc__is_linked(l->parts[k].param);
        }
        if (n_linked > 1 && b.size <= GPUMC__MAX_BLOCK && b.size * b.n > best.size * best.n) best = b;
    }
    return best;
}

static gpumc_metric gpumc__metric_place(gpumc__arena *arena, gpumc_metric_kind kind, size_t dim,
                                        const gpumc__blocks *of)
{
    const size_t most = gpumc__metric_has_rank(kind) ? GPUMC__MAX_RANK : 0;
    const size_t rank = dim < most ? dim : most;
    const size_t square = kind == GPUMC_METRIC_DENSE ? gpumc__size_mul(dim, dim) : 0;
    const size_t K = kind == GPUMC_METRIC_BLOCKS ? of->size : 0;
    gpumc_metric m;
    memset(&m, 0, sizeof m);
    m.kind = kind == GPUMC_METRIC_DENSE ? GPUMC_METRIC_DIAG : kind;  /* dense from its first estimate on */
    m.dim = dim;
    m.scale = gpumc__take_doubles(arena, dim);
    m.mean = gpumc__take_doubles(arena, dim);
    m.vectors = gpumc__take_doubles(arena, gpumc__size_mul(rank, dim));
    m.lambda = gpumc__take_doubles(arena, rank);
    m.covariance = gpumc__take_doubles(arena, square);
    m.factor = gpumc__take_doubles(arena, square);
    m.block_size = K;
    m.members = (size_t *)gpumc__take(arena, K, sizeof(size_t));
    m.blocks = gpumc__take_doubles(arena, gpumc__size_mul(K * (K + 1) / 2, K ? of->n : 0));
    for (size_t i = 0; arena->base && i < dim; i++) { m.scale[i] = 1; m.mean[i] = 0; }
    if (arena->base && K) memcpy(m.members, of->members, K * sizeof(size_t));
    return m;
}

static void gpumc__adapt_resolve(gpumc_adapt_options *o, const gpumc_layout *layout, size_t dim)
{
    if (o->num_chains == 0) o->num_chains = 1;
    if (o->num_warmup == 0) {
        o->num_warmup = o->num_chains == 1 ? 400 : 200;
        o->early_stop = 1;
    }
    if (!(o->target_accept > 0)) o->target_accept = 0.8;
    if (o->max_treedepth == 0) o->max_treedepth = 10;
    if (o->metric == GPUMC_METRIC_AUTO)
        o->metric = gpumc__layout_blocks(layout).size > 0 ? GPUMC_METRIC_BLOCKS
            : dim <= GPUMC__RANK_DIM ? GPUMC_METRIC_LOW_RANK : GPUMC_METRIC_DIAG;
}

/* Iterations in which anchors and step size of a spring are learned at least: some 80 draws. */
static size_t gpumc__adapt_span(const gpumc_adapt *a) { return a->n_chains < 4 ? 80 / a->n_chains : 20; }

/* The switch that follows one at iteration t, or final_start when none fits before it. */
static size_t gpumc__next_switch(const gpumc_adapt *a, size_t t, size_t *window)
{
    if (t < a->early_end) return t + 10 < a->early_end ? t + 10 : a->early_end;
    if (t > a->early_end) *window += *window / 2;
    else *window = a->spring_since == t ? gpumc__adapt_span(a) : a->options.num_warmup / 5;
    if (*window < 10) *window = 10;
    return t + *window + *window / 2 < a->final_start ? t + *window : a->final_start;
}

static void gpumc__adapt_schedule(gpumc_adapt *a, size_t t)
{
    const size_t W = a->options.num_warmup;
    a->final_start = W - W / 5;
    a->early_end = W * 3 / 10 < 60 ? W * 3 / 100 * 10 : 60;
    a->own_end = W * 15 / 100 < 30 ? W * 15 / 1000 * 10 : 30;
    if (a->own_end < 10) a->own_end = W < 40 ? W / 4 : 10;
    if (a->early_end < a->own_end) a->early_end = a->own_end;
    a->window = 0;
    a->next_switch = gpumc__next_switch(a, t, &a->window);
}

/* Most iterations that the foreground window ever spans. */
static size_t gpumc__longest_window(const gpumc_adapt *plan)
{
    size_t foreground = 0, background = 0, longest = 0, t = 0, window = 0;
    while (t < plan->final_start) {
        const size_t next = gpumc__next_switch(plan, t, &window);
        if (next - foreground > longest) longest = next - foreground;
        foreground = background;
        background = t = next > t ? next : t + 1;
    }
    return longest + 10 + (plan->options.early_stop ? gpumc__adapt_span(plan) : 0);
}

static gpumc_adapt *gpumc__adapt_place(gpumc__arena *arena, gpumc_layout *layout, size_t dim,
                                       const gpumc_adapt_options *options)
{
    const size_t C = options->num_chains;
    const gpumc__blocks blocks = gpumc__layout_blocks(layout);
    const int dense = options->metric == GPUMC_METRIC_DENSE, ranked = gpumc__metric_has_rank(options->metric);
    const size_t whole = dense || (ranked && dim <= GPUMC__FULL_DIM) ? dim : 0;
    const size_t n_selected = (dense && dim > 64) || (ranked && dim > 64 && dim <= 128) ? 2 * dim
        : dense || ranked ? 128 : 0;      /* 2 dim show all correlations; too dear beyond 128 unless asked */
    const size_t n_basis = ranked && dim > GPUMC__MAX_RANK ? GPUMC__MAX_RANK : 0;
    const size_t wide = n_basis && whole < n_selected ? n_selected : whole;   /* with products of draws */
    const size_t side = wide > blocks.size ? wide : blocks.size;              /* of the largest matrix */
    gpumc_adapt plan, *a = (gpumc_adapt *)gpumc__take(arena, 1, sizeof(gpumc_adapt));
    size_t n_units = 0, n_rows;
    for (size_t i = 0; layout && i < layout->n_parts; i++)
        if (layout->parts[i].linked) n_units = gpumc__size_add(n_units, layout->parts[i].link.n_units);
    memset(&plan, 0, sizeof plan);
    plan.options = *options;
    plan.layout = layout;
    plan.dim = dim;
    plan.n_chains = C;
    gpumc__adapt_schedule(&plan, 0);
    plan.capacity = gpumc__size_mul(gpumc__longest_window(&plan), C);
    plan.n_selected = n_selected;
    plan.sampler = GPUMC_SAMPLER_NUTS;
    plan.metrics = (gpumc_metric *)gpumc__take(arena, C, sizeof(gpumc_metric));
    for (size_t c = 0; c < C; c++) {
        const gpumc_metric own = gpumc__metric_place(arena, GPUMC_METRIC_DIAG, dim, &blocks);
        if (arena->base) plan.metrics[c] = own;
    }
    plan.shared = gpumc__metric_place(arena, options->metric, dim, &blocks);
    plan.duals = (gpumc__dual *)gpumc__take(arena, C, sizeof(gpumc__dual));
    plan.q = gpumc__take_doubles(arena, gpumc__size_mul(plan.capacity, dim));
    plan.g = gpumc__take_doubles(arena, gpumc__size_mul(plan.capacity, dim));
    plan.lp = gpumc__take_doubles(arena, plan.capacity);
    plan.owner = (uint32_t *)gpumc__take(arena, plan.capacity, sizeof(uint32_t));
    plan.levels = gpumc__take_doubles(arena, C);
    plan.masses = gpumc__take_doubles(arena, C);
    plan.healthy = (unsigned char *)gpumc__take(arena, C + 1, 1);
    plan.n_units = n_units;
    plan.moments = gpumc__take_doubles(arena, gpumc__size_mul(n_units ? 6 * GPUMC__CENTRING_PARTS : 4, dim));
    n_rows = gpumc__size_mul(n_selected, dim);
    if (n_rows < plan.capacity * plan.shared.block_size) n_rows = plan.capacity * plan.shared.block_size;
    if (n_rows < plan.capacity * n_basis) n_rows = gpumc__size_mul(plan.capacity, n_basis);
    plan.selected = (size_t *)gpumc__take(arena, n_selected, sizeof(size_t));
    plan.x = gpumc__take_doubles(arena, n_rows);
    plan.y = gpumc__take_doubles(arena, n_rows);
    plan.basis = gpumc__take_doubles(arena, gpumc__size_mul(n_basis, dim));
    plan.matrices = gpumc__take_doubles(arena, gpumc__size_mul(gpumc__size_mul(4, side) + 5, side));
    plan.model_work = gpumc__take_doubles(arena, layout ? layout->n_work : 0);
    plan.slopes = gpumc__take_doubles(arena, gpumc__size_mul(layout ? layout->n_shared : 0, dim));
    plan.pairs = gpumc__take_doubles(arena, gpumc__size_mul(4, layout ? plan.capacity : 0));
    plan.units = gpumc__take_doubles(arena, gpumc__size_mul(3 * GPUMC__CENTRING_PARTS, n_units));
    plan.sums = gpumc__take_doubles(arena, gpumc__size_mul(3, C));
    plan.trials = (gpumc__trial *)gpumc__take(arena, C, sizeof(gpumc__trial));
    if (!arena->base) return NULL;
    memset(plan.healthy, 1, C);
    plan.healthy[C] = 0;
    memset(plan.sums, 0, 3 * C * sizeof(double));
    memset(plan.trials, 0, C * sizeof(gpumc__trial));
    *a = plan;
    return a;
}

/* The options in force and dim, from what the caller gave. */
static gpumc_status gpumc__adapt_options(const gpumc_layout *layout, size_t *dim,
                                         const gpumc_adapt_options *given, gpumc_adapt_options *o,
                                         gpumc_error *error)
{
    memset(o, 0, sizeof *o);
    if (given) *o = *given;
    if (layout) *dim = layout->n_free;
    gpumc__adapt_resolve(o, layout, *dim);
    if (*dim < 1)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                           "dim is 0; a model needs at least one free coordinate");
    if (o->target_accept < 1 && o->max_treedepth >= 1 && o->max_treedepth <= GPUMC__MAX_DEPTH
        && (int)o->metric >= 0 && o->metric <= GPUMC_METRIC_BLOCKS
        && (int)o->sampler >= 0 && o->sampler <= GPUMC_SAMPLER_HMC
        && o->path_length >= 0 && o->path_length <= 1e3
        && o->num_chains <= 1u << 20 && o->num_warmup <= 1u << 24) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                       "target_accept %g (between 0 and 1), max_treedepth %d (1..%d), metric %d (0..%d), "
                       "sampler %d (0..%d), path_length %g (at most 1000), num_chains %.0f (at most 2^20) or "
                       "num_warmup %.0f (at most 2^24) is out of range",
                       o->target_accept, o->max_treedepth, GPUMC__MAX_DEPTH, (int)o->metric,
                       (int)GPUMC_METRIC_BLOCKS, (int)o->sampler, (int)GPUMC_SAMPLER_HMC, o->path_length,
                       (double)o->num_chains, (double)o->num_warmup);
}

GPUMC_API size_t gpumc_adapt_bytes(const gpumc_layout *layout, size_t dim, const gpumc_adapt_options *options)
{
    gpumc__arena arena = { NULL, 0 };
    gpumc_adapt_options o;
    if (gpumc__adapt_options(layout, &dim, options, &o, NULL) != GPUMC_OK) return 0;
    gpumc__adapt_place(&arena, (gpumc_layout *)layout, dim, &o);
    return arena.used;
}

GPUMC_API gpumc_adapt *gpumc_adapt_init(void *memory, size_t bytes, gpumc_layout *layout, size_t dim,
                                        const gpumc_adapt_options *options, gpumc_error *error)
{
    gpumc__arena arena = { (char *)memory, 0 };
    const size_t needed = gpumc_adapt_bytes(layout, dim, options);
    gpumc_adapt_options o;
    if (gpumc__adapt_options(layout, &dim, options, &o, error) != GPUMC_OK) return NULL;
    if (memory && bytes >= needed && (uintptr_t)memory % sizeof(double) == 0)
        return gpumc__adapt_place(&arena, layout, dim, &o);
    gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                "gpumc_adapt_init: memory must be aligned for double and hold %.0f bytes, not %.0f",
                (double)needed, memory ? (double)bytes : 0.0);
    return NULL;
}

GPUMC_API const gpumc_metric *gpumc_adapt_metric(const gpumc_adapt *a, size_t chain)
{ return &a->metrics[chain]; }

/* ---- kept draws -------------------------------------------------------------------------------- */

static int gpumc__adapt_is_linked(const gpumc_adapt *a) { return a->layout && a->layout->n_linked > 0; }

/* Draws that did not move carry no news, and those next to the start of a divergent step are biased towards
   it; start points are kept for once. */
static void gpumc__adapt_keep(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const size_t n = a->dim;
    for (size_t c = 0; c < a->n_chains; c++) {
        const gpumc_draw_stats *t = gpumc_nuts_stats(chains[c]);
        const int is_close = t->selected >= -4 && t->selected <= 4;
        if (a->n_kept == a->capacity) return;
        if (a->iteration > 0 && (t->selected == 0 || (t->divergent && is_close))) continue;
        memcpy(a->q + a->n_kept * n, gpumc_nuts_draw(chains[c]), n * sizeof(double));
        memcpy(a->g + a->n_kept * n, gpumc_nuts_gradient(chains[c]), n * sizeof(double));
        a->lp[a->n_kept] = chains[c]->current->lp;
        a->owner[a->n_kept++] = (uint32_t)c;
    }
}

/* Forgets what lies before the foreground window. */
static void gpumc__adapt_forget(gpumc_adapt *a)
{
    const size_t from = a->foreground, kept = a->n_kept - from, n = a->dim;
    memmove(a->q, a->q + from * n, kept * n * sizeof(double));
    memmove(a->g, a->g + from * n, kept * n * sizeof(double));
    memmove(a->lp, a->lp + from, kept * sizeof(double));
    memmove(a->owner, a->owner + from, kept * sizeof(uint32_t));
    a->n_kept = kept;
    a->background -= from;
    a->foreground = 0;
}

static double gpumc__median_of(double *x, size_t n)
{
    qsort(x, n, sizeof *x, gpumc__compare_doubles);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

GPUMC__COPIES(, void, gpumc__welford,
              (double *GPUMC__RESTRICT mean, double *GPUMC__RESTRICT squares, const double *GPUMC__RESTRICT x,
               size_t n, double weight), (mean, squares, x, n, weight), n > 64)
{
    for (size_t i = 0; i < n; i++) {
        const double d = x[i] - mean[i];
        mean[i] += weight * d;
        squares[i] += d * (x[i] - mean[i]);
    }
}

/* The median log density of the draws listed and the sum of log scales, Fisher's as below, that they span;
   -infinity when there are too few. */
static double gpumc__adapt_mass(gpumc_adapt *a, const size_t *draws, size_t n_draws)
{
    const size_t n = a->dim;
    double *mean_q = a->moments, *var_q = mean_q + n, *mean_g = var_q + n, *var_g = mean_g + n, mass;
    double recent[20];
    if (n_draws < 3) return -GPUMC_INF;
    memset(a->moments, 0, 4 * n * sizeof(double));
    for (size_t k = 0; k < n_draws; k++) {
        recent[k] = a->lp[draws[k]];
        gpumc__welford(mean_q, var_q, a->q + draws[k] * n, n, 1 / (double)(k + 1));
        gpumc__welford(mean_g, var_g, a->g + draws[k] * n, n, 1 / (double)(k + 1));
    }
    mass = gpumc__median_of(recent, n_draws);
    for (size_t i = 0; i < n; i++)           /* at most 3 sd: a constant gradient would count as endless */
        mass += 0.5 * gpumc__log(fmin(sqrt(var_q[i] / var_g[i]), 9 * var_q[i] / (double)(n_draws - 1)));
    return mass;
}

/* A chain that lags far below the best one would poison the pool, and so would draws from before a chain
   arrived. Chains are judged by their last 20 kept draws: log density plus log volume is, up to a constant,
   the log mass of where a chain is, in any coordinates, while the log density alone is highest where a scale
   of a hierarchy has collapsed. The volume of what is correlated or on its way comes out too large, not too
   small: of two coordinates the lower mass counts. Draws are judged by their distance to the log density of
   the best chain. Both in units of its median deviation, which has bounds unless even that chain is still on
   its way: then the gradients of all tell more than the few draws that have reached its level. */
static void gpumc__adapt_judge(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const double root = sqrt((double)a->dim);
    double recent[20], mad = root;
    size_t draws[20], best = 0;
    for (size_t c = 0; c < a->n_chains; c++) {
        size_t n = 0;
        for (size_t k = a->n_kept; k-- > a->foreground && n < 20;)
            if (a->owner[k] == c) draws[n++] = k;
        for (size_t k = 0; k < n; k++) recent[k] = a->lp[draws[k]];
        a->levels[c] = n ? gpumc__median_of(recent, n) : chains[c]->current->lp;
        a->masses[c] = gpumc__adapt_mass(a, draws, n);
        if (c > 0 && !(a->masses[c] > a->masses[best])) continue;
        best = c;
        for (size_t k = 0; k < n; k++) recent[k] = fabs(recent[k] - a->levels[c]);
        mad = n ? gpumc__median_of(recent, n) : root;
        if (mad < 3 * root) mad = fmin(fmax(mad, 0.2 * root), root);
    }
    a->tolerance = 10 * mad;
    a->best = best;
    for (size_t c = 0; c < a->n_chains; c++) a->healthy[c] = !(a->masses[c] < a->masses[best] - a->tolerance);
}

/* Whether kept draw k counts for an estimate of one chain, or of all (GPUMC__NONE). */
static int gpumc__adapt_uses(const gpumc_adapt *a, size_t k, size_t chain)
{
    if (chain != GPUMC__NONE) return a->owner[k] == chain && a->lp[k] >= a->levels[chain] - a->tolerance;
    return a->healthy[a->owner[k]] && a->lp[k] >= a->levels[a->best] - a->tolerance;
}

/* ---- work for the team --------------------------------------------------------------------------
   Between iterations no chain runs: passes over the kept draws are split over the team, by draws or by strips
   of coordinates, such that every sum is taken in one order whatever the team. */
enum { GPUMC__STRIP_COLUMNS = 96 };                   /* more than 64, from which on vectors are wide */

static void gpumc__adapt_share(const gpumc_adapt *a, size_t n_parts, void (*run)(size_t, int, void *),
                               void *user)
{
    if (a->team && n_parts > 1) gpumc_team_run(a->team, run, n_parts, user);
    else for (size_t k = 0; k < n_parts; k++) run(k, 0, user);
}

static size_t gpumc__strips(size_t n) { return (n + GPUMC__STRIP_COLUMNS - 1) / GPUMC__STRIP_COLUMNS; }
static size_t gpumc__strip_of(size_t n, size_t part, size_t *from)
{ *from = part * GPUMC__STRIP_COLUMNS; return gpumc__smaller(n - *from, GPUMC__STRIP_COLUMNS); }

/* Picks up to `most` of the healthy draws of the foreground window, evenly; returns how many. */
static size_t gpumc__adapt_pick(const gpumc_adapt *a, size_t most, size_t *draws)
{
    size_t available = 0, seen = 0, n = 0;
    for (size_t k = a->foreground; k < a->n_kept; k++)
        available += (size_t)gpumc__adapt_uses(a, k, GPUMC__NONE);
    for (size_t k = a->foreground; k < a->n_kept && n < most; k++) {
        if (!gpumc__adapt_uses(a, k, GPUMC__NONE)) continue;
        if (available > most && seen++ * most / available < n) continue;
        draws[n++] = k;
    }
    return n;
}

/* ---- metric ------------------------------------------------------------------------------------ */

typedef struct gpumc__estimate { gpumc_adapt *adapt; gpumc_metric *metric; size_t chain; } gpumc__estimate;

/* Fisher diagonal of the draws of one chain, or of all healthy ones (GPUMC__NONE): scale^4 = Var x / Var g,
   which is exact for a Gaussian with independent coordinates from its third draw on. */
static void gpumc__diagonal_strip(size_t part, int member, void *estimate)
{
    const gpumc__estimate *of = (const gpumc__estimate *)estimate;
    const gpumc_adapt *a = of->adapt;
    gpumc_metric *m = of->metric;
    size_t from;
    const size_t dim = a->dim, n = gpumc__strip_of(dim, part, &from);
    double *mean_q = a->moments + from, *var_q = mean_q + dim, *mean_g = var_q + dim, *var_g = mean_g + dim;
    double count = 0;
    (void)member;
    for (int k = 0; k < 4; k++) memset(mean_q + (size_t)k * dim, 0, n * sizeof(double));
    for (size_t k = a->foreground; k < a->n_kept; k++) {
        if (!gpumc__adapt_uses(a, k, of->chain)) continue;
        count++;
        gpumc__welford(mean_q, var_q, a->q + k * dim + from, n, 1 / count);
        gpumc__welford(mean_g, var_g, a->g + k * dim + from, n, 1 / count);
    }
    for (size_t i = 0; i < n && count >= 3; i++) {
        const double scale = sqrt(sqrt(var_q[i] / var_g[i]));
        if (scale > 0 && gpumc__is_finite(scale)) m->scale[from + i] = scale;
        m->mean[from + i] = mean_q[i] + m->scale[from + i] * m->scale[from + i] * mean_g[i];
    }
}

static void gpumc__adapt_diagonal(gpumc_adapt *a, gpumc_metric *m, size_t chain)
{
    gpumc__estimate of = { a, m, chain };
    gpumc__adapt_share(a, gpumc__strips(a->dim), gpumc__diagonal_strip, &of);
}

/* n_draws rows of n numbers in x and in y. */
typedef struct gpumc__selection {
    gpumc_adapt *adapt;
    const gpumc_metric *metric;
    size_t n_draws, n;
} gpumc__selection;

static void gpumc__centre_strip(size_t part, int member, void *selection)
{
    const gpumc__selection *of = (const gpumc__selection *)selection;
    size_t from;
    const size_t n = gpumc__strip_of(of->n, part, &from);
    double *mean = of->adapt->moments + from;
    (void)member;
    for (int which = 0; which < 2; which++) {
        double *rows = (which ? of->adapt->y : of->adapt->x) + from;
        memset(mean, 0, n * sizeof(double));
        for (size_t k = 0; k < of->n_draws; k++) gpumc__add_multiple(mean, 1, rows + k * of->n, n);
        for (size_t i = 0; i < n; i++) mean[i] /= (double)of->n_draws;
        for (size_t k = 0; k < of->n_draws; k++) gpumc__add_multiple(rows + k * of->n, -1, mean, n);
    }
}

/* Rows of x and y, n_draws of n numbers, about their means. */
static void gpumc__adapt_centre(gpumc_adapt *a, size_t n_draws, size_t n)
{
    gpumc__selection of = { a, NULL, n_draws, n };
    gpumc__adapt_share(a, gpumc__strips(n), gpumc__centre_strip, &of);
}

static void gpumc__whiten_row(size_t row, int member, void *selection)
{
    const gpumc__selection *of = (const gpumc__selection *)selection;
    const size_t n = of->n, k = of->adapt->selected[row];
    const double *q = of->adapt->q + k * n, *g = of->adapt->g + k * n, *scale = of->metric->scale;
    double *x = of->adapt->x + row * n, *y = of->adapt->y + row * n;
    (void)member;
    for (size_t i = 0; i < n; i++) { x[i] = q[i] / scale[i]; y[i] = g[i] * scale[i]; }
    gpumc__metric_blocks(of->metric, 0, 1, x);
    gpumc__metric_blocks(of->metric, 1, 0, y);
}

/* Evenly spaced healthy draws, centred and whitened by diagonal and blocks, into x and y; their number. */
static size_t gpumc__adapt_select(gpumc_adapt *a, const gpumc_metric *m)
{
    gpumc__selection of = { a, m, 0, a->dim };
    of.n_draws = gpumc__adapt_pick(a, a->n_selected, a->selected);
    gpumc__adapt_share(a, of.n_draws, gpumc__whiten_row, &of);
    gpumc__adapt_centre(a, of.n_draws, a->dim);
    return of.n_draws;
}

/* The largest second moment of x + y in any direction, by power iteration. What the metric takes for a
   standard normal has x + y = 0; a direction of variance v and precision 1 / v adds v (1 - 1/v)^2, at least
   1/2 beyond a factor 2: well below that there is none to be found. Stops at the first that is enough. Leaves
   the sums in y. */
static GPUMC_LOOP double gpumc__adapt_misfit(gpumc_adapt *a, size_t n_draws)
{
    const size_t n = a->dim;
    double *v = a->moments + 2 * n, *w = v + n, norm = 0;
    gpumc__add_multiple(a->y, 1, a->x, n_draws * n);
    memcpy(w, a->y, n * sizeof *w);
    for (int k = 0; k < 10 && (k < 2 || norm < GPUMC__MISFIT); k++) {
        norm = sqrt(gpumc__dot(w, w, n));
        for (size_t i = 0; i < n; i++) v[i] = norm > 0 ? w[i] / norm : 0;
        memset(w, 0, n * sizeof(double));
        for (size_t d = 0; d < n_draws; d++) {
            const double *sum = a->y + d * n;
            gpumc__add_multiple(w, gpumc__dot(sum, v, n) / (double)n_draws, sum, n);
        }
    }
    return sqrt(gpumc__dot(w, w, n));
}

static void gpumc__products_row(size_t i, int member, void *selection)
{
    const gpumc__selection *of = (const gpumc__selection *)selection;
    const size_t N = of->n_draws, n = of->n;
    double *products = of->adapt->matrices;
    const double *y = of->adapt->y;
    (void)member;
    for (size_t j = 0; j <= i; j++)
        products[i * N + j] = products[j * N + i] = gpumc__dot(y + i * n, y + j * n, n) / (double)N;
}

/* Of the products of the draws in y, in the matrices: reflectors, eigenvectors that are asked for,
   eigenvalues, then the tridiagonal that has them. */
typedef struct gpumc__spectrum { double *a, *vectors, *d, *diagonal, *beside, *tau, *rows; } gpumc__spectrum;

static gpumc__spectrum gpumc__spectrum_of(const gpumc_adapt *a, size_t N)
{
    double *m = a->matrices, *d = m + 2 * N * N;
    const gpumc__spectrum s = { m, m + N * N, d, d + N, d + 2 * N, d + 3 * N, d + 4 * N };
    return s;
}

/* Returns 0 when the eigenvalues are not to be had. */
static int gpumc__adapt_products(gpumc_adapt *a, size_t N)
{
    gpumc__selection of = { a, NULL, N, a->dim };
    const gpumc__spectrum s = gpumc__spectrum_of(a, N);
    gpumc__adapt_share(a, N, gpumc__products_row, &of);
    memset(s.tau, 0, N * sizeof(double));
    gpumc__tridiagonal(s.a, N, s.diagonal, s.beside, s.tau, s.rows);
    memcpy(s.d, s.diagonal, N * sizeof(double));
    memcpy(s.rows, s.beside, N * sizeof(double));
    return gpumc__tridiagonal_ql(s.d, s.rows, NULL, N);
}

/* Orthonormal rows of the basis, after r that are there: the directions in which the second moment of x + y,
   which misfit has left in y, is above a least, strongest first, as far as a metric holds them. A normal
   target has no others in x + y, however many coordinates and however few draws: noise is in x and -y alike.
   Returns their number; outside gets the moment in all others. */
static GPUMC_LOOP size_t gpumc__adapt_directions(gpumc_adapt *a, size_t N, double least, size_t r,
                                                 double *outside)
{
    const size_t n = a->dim;
    const gpumc__spectrum s = gpumc__spectrum_of(a, N);
    for (size_t found = 0; r < GPUMC__MAX_RANK && found < N; r++, found++) {
        double *row = a->basis + r * n, *weights = s.rows + 3 * N, root;
        size_t k = 0;
        for (size_t i = 1; i < N; i++) if (s.d[i] > s.d[k]) k = i;
        if (!(s.d[k] > least)) break;
        gpumc__tridiagonal_vector(s.diagonal, s.beside, N, s.d[k], s.vectors, found, s.rows);
        memcpy(weights, s.vectors + found * N, N * sizeof(double));
        gpumc__reflect_back(s.a, N, s.tau, weights);
        root = sqrt((double)N * s.d[k]);
        memset(row, 0, n * sizeof(double));
        for (size_t i = 0; i < N; i++) gpumc__add_multiple(row, weights[i] / root, a->y + i * n, n);
        s.d[k] = 0;
    }
    *outside = 0;
    for (size_t i = 0; i < N; i++) *outside += fmax(s.d[i], 0);
    return r;
}

/* The diagonal of what r such directions leave. Without this the diagonal shares what is theirs, and is wrong
   in all others. */
static void gpumc__adapt_rescale(gpumc_adapt *a, size_t r)
{
    const size_t n = a->dim, n_draws = gpumc__adapt_select(a, &a->shared);
    gpumc_metric *m = &a->shared;
    double *of_x = a->moments + 2 * n, *of_y = of_x + n;
    memset(of_x, 0, 2 * n * sizeof(double));
    for (size_t k = 0; k < n_draws; k++) {
        double *x = a->x + k * n, *y = a->y + k * n;
        for (size_t j = 0; j < r; j++) {
            const double *row = a->basis + j * n;
            gpumc__add_multiple(x, -gpumc__dot(x, row, n), row, n);
            gpumc__add_multiple(y, -gpumc__dot(y, row, n), row, n);
        }
        for (size_t i = 0; i < n; i++) { of_x[i] += x[i] * x[i]; of_y[i] += y[i] * y[i]; }
    }
    for (size_t i = 0; i < n; i++) {
        const double change = sqrt(of_x[i] / of_y[i]);
        if (change > 0.01 && change < 100) m->scale[i] *= sqrt(change);   /* else hardly anything is left */
    }
}

/* c = x'x / n + ridge I. The ridge keeps directions that few draws have seen in x but not in g from looking
   infinitely long. */
static GPUMC_LOOP void gpumc__gram(const double *x, size_t n_draws, size_t r, double *c)
{
    const double ridge = n_draws < 2 * r ? GPUMC__RIDGE : GPUMC__FINE_RIDGE;
    memset(c, 0, r * r * sizeof(double));
    for (size_t k = 0; k < n_draws; k++)
        for (size_t i = 0; i < r; i++)
            gpumc__add_multiple(c + i * r, x[k * r + i] / (double)n_draws, x + k * r, r);
    for (size_t i = 0; i < r; i++) c[i * r + i] += ridge;
}

/* out = a b, all n x n; with transpose, a' b. */
static GPUMC_LOOP void gpumc__multiply(const double *a, int transpose, const double *b, double *out, size_t n)
{
    memset(out, 0, n * n * sizeof(double));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            const double f = transpose ? a[k * n + i] : a[i * n + k];
            if (f != 0) gpumc__add_multiple(out + i * n, f, b + k * n, n);
        }
}

/* b <- L'^-1 b for lower triangular l, b n x n. */
static GPUMC_LOOP void gpumc__back_substitute(const double *l, double *b, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        for (size_t j = 0; j < n; j++) b[i * n + j] /= l[i * n + i];
        for (size_t k = 0; k < i; k++) gpumc__add_multiple(b + k * n, -l[i * n + k], b + i * n, n);
    }
}

/* Fisher estimate Sigma with Sigma C_g Sigma = C_x: with C_g = L L' and L' C_x L = V K V', it is B B' for
   B = L'^-1 V K^(1/4). Leaves Sigma in matrices[0]; returns 0 when the numbers do not allow it. */
static GPUMC_LOOP int gpumc__fisher_dense(gpumc_adapt *a, size_t n_draws, size_t r)
{
    const size_t rr = r * r;
    double *cx = a->matrices, *l = cx + rr, *t = l + rr, *v = t + rr, *d = v + rr;
    gpumc__gram(a->x, n_draws, r, cx);
    gpumc__gram(a->y, n_draws, r, l);
    if (!gpumc__cholesky(l, r)) return 0;
    gpumc__multiply(cx, 0, l, t, r);
    gpumc__multiply(l, 1, t, cx, r);
    if (!gpumc__eigen(cx, r, d, v, d + r)) return 0;
    for (size_t i = 0; i < r; i++) {                 /* columns of t: eigenvectors times K^(1/4) */
        const double f = sqrt(sqrt(d[i]));
        if (!(f > 0 && gpumc__is_finite(f))) return 0;
        for (size_t j = 0; j < r; j++) t[j * r + i] = f * v[i * r + j];
    }
    gpumc__back_substitute(l, t, r);
    for (size_t i = 0; i < r; i++)
        for (size_t j = 0; j <= i; j++)
            cx[i * r + j] = cx[j * r + i] = gpumc__dot(t + i * r, t + j * r, r);
    return 1;
}

/* The members of block j, whitened by the diagonal, into x and y. Returns the number of draws. */
static size_t gpumc__adapt_gather(gpumc_adapt *a, const gpumc_metric *m, size_t j)
{
    const size_t K = m->block_size;
    size_t n = 0;
    for (size_t d = a->foreground; d < a->n_kept; d++) {
        if (!gpumc__adapt_uses(a, d, GPUMC__NONE)) continue;
        for (size_t k = 0; k < K; k++) {
            const size_t i = m->members[k] + j;
            a->x[n * K + k] = a->q[d * a->dim + i] / m->scale[i];
            a->y[n * K + k] = a->g[d * a->dim + i] * m->scale[i];
        }
        n++;
    }
    gpumc__adapt_centre(a, n, K);
    return n;
}

/* Fisher's estimate for every block by itself: a factor of its correlations, and the scales that go with
   them. None where the draws do not allow it. */
static void gpumc__adapt_blocks(gpumc_adapt *a, size_t n_blocks)
{
    gpumc_metric *m = &a->shared;
    const size_t K = m->block_size;
    double *sigma = a->matrices;
    for (size_t j = 0; j < n_blocks; j++) {
        const size_t n = gpumc__adapt_gather(a, m, j);
        if (n < 4 * K || !gpumc__fisher_dense(a, n, K) || !gpumc__cholesky(sigma, K)) return;
        for (size_t k = 0; k < K; k++) {
            const double norm = sqrt(gpumc__dot(sigma + k * K, sigma + k * K, k + 1));
            m->scale[m->members[k] + j] *= norm;
            for (size_t l = 0; l <= k; l++)
                m->blocks[(k * (k + 1) / 2 + l) * n_blocks + j] = sigma[k * K + l] / norm;
        }
    }
    m->n_blocks = n_blocks;
}

/* Healthy draws, whitened by diagonal and blocks, along r rows of the basis: into x and y. Returns their
   number. */
static size_t gpumc__adapt_gather_along(gpumc_adapt *a, size_t r)
{
    const gpumc_metric *m = &a->shared;
    const size_t n = a->dim;
    double *x = a->moments, *y = x + n;
    size_t count = 0;
    for (size_t d = a->foreground; d < a->n_kept; d++) {
        if (!gpumc__adapt_uses(a, d, GPUMC__NONE)) continue;
        for (size_t i = 0; i < n; i++) {
            x[i] = a->q[d * n + i] / m->scale[i];
            y[i] = a->g[d * n + i] * m->scale[i];
        }
        gpumc__metric_blocks(m, 0, 1, x);
        gpumc__metric_blocks(m, 1, 0, y);
        for (size_t j = 0; j < r; j++) {
            a->x[count * r + j] = gpumc__dot(x, a->basis + j * n, n);
            a->y[count * r + j] = gpumc__dot(y, a->basis + j * n, n);
        }
        count++;
    }
    gpumc__adapt_centre(a, count, r);
    return count;
}

/* One more direction of variance lambda: z, in coordinates of the basis if there is one. */
static void gpumc__adapt_add(gpumc_adapt *a, const double *z, size_t r, int projected, double lambda)
{
    gpumc_metric *m = &a->shared;
    double *to = m->vectors + m->rank * a->dim;
    memset(to, 0, a->dim * sizeof(double));
    for (size_t j = 0; projected && j < r; j++)
        gpumc__add_multiple(to, z[j], a->basis + j * a->dim, a->dim);
    if (!projected) memcpy(to, z, r * sizeof(double));
    m->lambda[m->rank++] = lambda;
}

static double gpumc__adapt_direction_cost(const gpumc_adapt *a)
{ return a->shared.block_size > 0 ? 0 : GPUMC__DIRECTION; }      /* blocks, which dear densities have */

/* For trees: keeps directions whose variance is off by more than a factor 2, the strongest first, as many as
   pay: steps go with the root of the ratio between the largest and the least variance left, within the factor
   where not all are known. */
static void gpumc__adapt_keep_wide(gpumc_adapt *a, size_t r, int projected, const double *z, double *d)
{
    const double many = (double)a->dim / (double)(a->dim + GPUMC__FULL_DIM);
    const double direction = many * gpumc__adapt_direction_cost(a);      /* in few, a leaf costs more */
    gpumc_metric *m = &a->shared;
    double least = GPUMC_INF;
    size_t best = 0;
    for (;;) {
        double low = projected ? 1 / GPUMC__CUTOFF : GPUMC_INF, high = projected ? GPUMC__CUTOFF : 0, cost;
        size_t k = r;
        for (size_t i = 0; i < r; i++) {
            if (!(d[i] > 0)) continue;                            /* taken already */
            if (k == r || fabs(gpumc__log(d[i])) > fabs(gpumc__log(d[k]))) k = i;
            low = fmin(low, d[i]);
            high = fmax(high, d[i]);
        }
        cost = sqrt(high > low ? high / low : 1) * (1 + (double)m->rank * direction);
        if (cost <= least) { least = cost; best = m->rank; }
        if (m->rank == GPUMC__MAX_RANK || k == r || !gpumc__is_finite(d[k])) break;
        if (!(d[k] > GPUMC__CUTOFF || d[k] < 1 / GPUMC__CUTOFF)) break;
        gpumc__adapt_add(a, z + k * r, r, projected, d[k]);
        d[k] = 0;
    }
    m->rank = best;
}

/* What direction z of variance d takes off the residual of a draw, which falls by it. */
static double gpumc__adapt_gain(const gpumc_adapt *a, const double *z, double d, size_t n_draws, size_t r,
                                double *residual)
{
    double before = 0, after = 0;
    for (size_t k = 0; k < n_draws; k++) {
        const double x = gpumc__dot(z, a->x + k * r, r), y = gpumc__dot(z, a->y + k * r, r);
        before += gpumc__square(x + y) / (double)n_draws;
        after += gpumc__square(x + d * y) / d / (double)n_draws;
    }
    *residual += before;
    return before - after;
}

/* For HMC on its spring, whose steps go with residual^(-1/4): keeps those directions that gain most, as many
   as make a draw a tenth cheaper, and all that trees would want; one of these is enough to shorten steps.
   Returns 0, and keeps none, where even all would leave gradients too far from the normal's, and where draws
   are too few to tell. outside: the residual that no direction reaches. */
static int gpumc__adapt_keep_gains(gpumc_adapt *a, size_t n_draws, size_t r, int projected, double outside,
                                   const double *z, const double *d, double *gain)
{
    const double direction = gpumc__adapt_direction_cost(a);
    double residual = outside, least = GPUMC_INF, left;
    size_t best = 0;
    int wanted = 1;
    if (n_draws < 2 * r) return 0;
    for (size_t i = 0; i < r; i++)
        gain[i] = gpumc__adapt_gain(a, z + i * r, d[i], n_draws, r, &residual);
    left = residual;
    for (size_t i = 0; i < r; i++) left -= fmax(gain[i], 0);
    if (!(left < gpumc__square(GPUMC__SPRING_PAYS) * (double)a->dim)) return 0;
    for (;;) {
        const double cost = sqrt(sqrt(fmax(residual, GPUMC__RESIDUAL)))
            * (1 + (double)a->shared.rank * direction);
        size_t k = 0;
        if (wanted || cost < 0.9 * least) { least = cost; best = a->shared.rank; }
        for (size_t i = 1; i < r; i++) if (gain[i] > gain[k]) k = i;
        if (a->shared.rank == GPUMC__MAX_RANK || !(gain[k] > 0)) break;
        gpumc__adapt_add(a, z + k * r, r, projected, d[k]);
        wanted = d[k] > GPUMC__CUTOFF || d[k] < 1 / GPUMC__CUTOFF;
        residual -= gain[k];
        gain[k] = 0;
    }
    a->shared.rank = best;
    return 1;
}

/* The directions of the metric, from the draws in x and y and the matrix that fisher_dense has left. */
static GPUMC_LOOP void gpumc__adapt_low_rank(gpumc_adapt *a, size_t n_draws, size_t r, int projected,
                                             double outside)
{
    double *sigma = a->matrices, *z = sigma + r * r, *d = sigma + 4 * r * r;
    a->shared.rank = 0;
    if (!gpumc__eigen(sigma, r, d, z, d + r)) return;
    if (!gpumc__adapt_keep_gains(a, n_draws, r, projected, outside, z, d, d + r))
        gpumc__adapt_keep_wide(a, r, projected, z, d);
}

static void gpumc__adapt_dense(gpumc_adapt *a)
{
    gpumc_metric *m = &a->shared;
    const size_t n = a->dim;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            m->factor[i * n + j] = m->covariance[i * n + j] = m->scale[i] * a->matrices[i * n + j]
                                                              * m->scale[j];
    m->kind = gpumc__cholesky(m->factor, n) ? GPUMC_METRIC_DENSE : GPUMC_METRIC_DIAG;
}

/* Directions that diagonal and blocks get wrong: all at once where coordinates are few or draws show those of
   a normal exactly, which is dear in many, else those of x + y. Strong ones are taken out of the diagonal
   first, unless blocks stand on it. */
static void gpumc__adapt_correlations(gpumc_adapt *a)
{
    const size_t n = a->dim;
    const double worth = n > GPUMC__MAX_RANK ? 10 * GPUMC__RESIDUAL : GPUMC__RESIDUAL;
    const int free_diagonal = n > GPUMC__MAX_RANK && a->shared.block_size == 0;
    size_t n_draws = gpumc__adapt_select(a, &a->shared), r = 0;
    const int all = n <= GPUMC__FULL_DIM && n_draws >= 2 * n;
    const int whole = all || n <= GPUMC__MAX_RANK || (n <= GPUMC__FULL_DIM && !free_diagonal);
    double misfit, outside = 0;
    if (n_draws < 10) return;
    misfit = gpumc__adapt_misfit(a, n_draws);
    if (all ? gpumc__dot(a->y, a->y, n_draws * n) < worth * (double)n_draws : misfit < GPUMC__MISFIT) return;
    if ((free_diagonal || !whole) && !gpumc__adapt_products(a, n_draws)) return;
    if (free_diagonal) r = gpumc__adapt_directions(a, n_draws, 5 * GPUMC__MISFIT, 0, &outside);
    if (r > 0 && (8 * r <= n || n > GPUMC__FULL_DIM)) {
        gpumc__adapt_rescale(a, r);
        r = 0;
        n_draws = gpumc__adapt_select(a, &a->shared);
        if (!all && gpumc__adapt_misfit(a, n_draws) < GPUMC__MISFIT) return;
        if (!all && !gpumc__adapt_products(a, n_draws)) return;
    }
    if (!whole) r = gpumc__adapt_directions(a, n_draws, GPUMC__MISFIT, r, &outside);
    if (whole || (8 * r > n && n <= GPUMC__FULL_DIM)) {
        n_draws = gpumc__adapt_select(a, &a->shared);
        if (gpumc__fisher_dense(a, n_draws, n)) gpumc__adapt_low_rank(a, n_draws, n, 0, 0);
        return;
    }
    n_draws = gpumc__adapt_gather_along(a, r);
    if (n_draws < 4 * r) gpumc__adapt_gather_along(a, r = n_draws / 4);
    if (r > 0 && gpumc__fisher_dense(a, n_draws, r)) gpumc__adapt_low_rank(a, n_draws, r, 1, outside);
}

static void gpumc__mean_strip(size_t part, int member, void *estimate)
{
    const gpumc_adapt *a = ((const gpumc__estimate *)estimate)->adapt;
    size_t from;
    const size_t n = gpumc__strip_of(a->dim, part, &from);
    double *mean_q = a->moments + from, *mean_g = mean_q + a->dim, count = 0;
    (void)member;
    memset(mean_q, 0, n * sizeof(double));
    memset(mean_g, 0, n * sizeof(double));
    for (size_t k = a->foreground; k < a->n_kept; k++) {
        if (!gpumc__adapt_uses(a, k, GPUMC__NONE)) continue;
        gpumc__add_multiple(mean_q, 1, a->q + k * a->dim + from, n);
        gpumc__add_multiple(mean_g, 1, a->g + k * a->dim + from, n);
        count++;
    }
    for (size_t i = 0; i < n; i++) { mean_q[i] /= count; mean_g[i] /= count; }
}

/* The centre of the normal whose gradients these are at these draws, exact as the diagonal's. */
static void gpumc__adapt_mean(gpumc_adapt *a, gpumc_metric *m)
{
    gpumc__estimate of = { a, m, GPUMC__NONE };
    const double *mean_q = a->moments, *mean_g = mean_q + a->dim;
    size_t count = 0;
    for (size_t k = a->foreground; k < a->n_kept; k++) count += (size_t)gpumc__adapt_uses(a, k, GPUMC__NONE);
    if (count < 3) return;
    gpumc__adapt_share(a, gpumc__strips(a->dim), gpumc__mean_strip, &of);
    gpumc__metric_velocity(m, mean_g, m->mean);
    for (size_t i = 0; i < a->dim; i++) m->mean[i] += mean_q[i];
}

/* The pooled metric. Correlations are looked at when a window ends (full), the diagonal every time; not in
   the early phase, where they are those of the way to the bulk. */
static void gpumc__adapt_pooled_metric(gpumc_adapt *a, int full)
{
    gpumc_metric *m = &a->shared;
    const gpumc__blocks blocks = gpumc__layout_blocks(a->layout);
    size_t n_draws;
    if (m->kind == GPUMC_METRIC_UNIT) return;
    if (!full || (a->n_selected == 0 && m->block_size == 0)) {
        if (gpumc__is_diagonal(m)) gpumc__adapt_diagonal(a, m, GPUMC__NONE);
        return;
    }
    m->rank = m->n_blocks = 0;
    gpumc__adapt_diagonal(a, m, GPUMC__NONE);
    if (m->block_size > 0) gpumc__adapt_blocks(a, blocks.n);
    if (a->options.metric == GPUMC_METRIC_DENSE) {
        n_draws = gpumc__adapt_select(a, m);
        if (n_draws >= 10 && gpumc__fisher_dense(a, n_draws, a->dim)) gpumc__adapt_dense(a);
    } else gpumc__adapt_correlations(a);
    gpumc__adapt_mean(a, m);
}

/* ---- centring ---------------------------------------------------------------------------------- */

/* Of every unit of a link: mean and squared deviations of log tau, and the sum of tau^2. */
static double *gpumc__adapt_units(const gpumc_adapt *a, const gpumc__link *k)
{ return a->units + 3 * ((k->table - 3 * a->layout->n_natural) / GPUMC__TABLE); }

/* What is summed over some of the draws: a group of rows of moments, units, and how many draws there were. */
typedef struct gpumc__centring_sums {
    const gpumc_adapt *adapt;
    double *work, *moments, *units, count;   /* work of the model, x first; moments: 4 rows, and 2 of room */
} gpumc__centring_sums;

static double *gpumc__units_in(const gpumc__centring_sums *s, const gpumc__link *k)
{ return s->units + (gpumc__adapt_units(s->adapt, k) - s->adapt->units); }

/* A draw of a link, g the gradient there, on the way to the bulk: mean and squares of tau G, where G is the
   total derivative by theta. */
static void gpumc__centring_add_early(const gpumc__centring_sums *s, const gpumc__placed *p, const double *g)
{
    const gpumc__link *k = &p->link;
    const double *x = s->work;
    double *value = s->work + 2 * s->adapt->layout->n_natural, *m = s->moments + p->free_at;
    for (size_t i = 0; i < k->size; i++)
        value[i] = gpumc__link_scale(k, k->unit[i], x) * (g[i] / gpumc__link_r(k, i, s->work));
    gpumc__welford(m, m + s->adapt->dim, value, k->size, 1 / s->count);
}

/* The pull of the data on every element of a link, G + (theta - mu) / tau^2 where G is the total derivative
   and g that by its coordinate: in work, behind two rows of natural values. Where it is told of later
   elements, what these pull, collected in the second row, is not the data's. */
static double *gpumc__centring_pulls(const gpumc_layout *l, const gpumc__placed *p, const double *g,
                                     double *work)
{
    const gpumc__link *k = &p->link;
    double *x = work, *told = x + l->n_natural, *pulls = told + l->n_natural, precision = 0;
    for (size_t i = k->size, unit = GPUMC__NONE; i-- > 0;) {
        const size_t e = k->at + i, place = k->from[i];
        const double G = g[i] / gpumc__link_r(k, i, work);
        if (k->unit[i] != unit) {
            const double tau = gpumc__link_scale(k, unit = k->unit[i], x);
            precision = 1 / (tau * tau);
        }
        const double off = (x[e] - gpumc__link_mu(k, i, x)) * precision;
        pulls[i] = G + (k->tells && gpumc__link_is_start(k, i) ? 0 : off) - (k->tells ? told[e] : 0);
        if ((k->tells || k->passes) && place != GPUMC__NONE)
            told[place] += off + gpumc__link_by_mu(k, i, work) * G;
    }
    return pulls;
}

/* Mean and squares of theta, mean of the pull, products of both: rows of m that lie dim apart. */
static GPUMC_LOOP void gpumc__add_weighted(size_t n, size_t dim, const double *GPUMC__RESTRICT square,
                                           const double *GPUMC__RESTRICT weight,
                                           const double *GPUMC__RESTRICT theta,
                                           const double *GPUMC__RESTRICT pull, double *GPUMC__RESTRICT m)
{
    for (size_t i = 0; i < n; i++) {
        const double theta_off = theta[i] - m[i], pull_off = pull[i] - m[2 * dim + i];
        m[i] += weight[i] * theta_off;
        m[2 * dim + i] += weight[i] * pull_off;
        m[dim + i] += square[i] * theta_off * (theta[i] - m[i]);
        m[3 * dim + i] += square[i] * pull_off * (theta[i] - m[i]);
    }
}

/* A draw in the bulk, weighted by tau^2 as wide populations leave data the most to say. */
static void gpumc__centring_add_late(const gpumc__centring_sums *s, const gpumc__placed *p, const double *g)
{
    const gpumc__link *k = &p->link;
    const size_t dim = s->adapt->dim;
    const double *x = s->work, *units = gpumc__units_in(s, k), inv_news = 1 / gpumc__link_news(k, x);
    double *pulls = gpumc__centring_pulls(s->adapt->layout, p, g, s->work);
    double *square = s->moments + 4 * dim, *weight = square + dim;
    for (size_t i = 0; i < k->size; i++) {
        const double tau = gpumc__link_scale(k, k->unit[i], x);
        pulls[i] *= inv_news;
        square[i] = tau * tau;
        weight[i] = tau * tau / units[3 * k->unit[i] + 2];
    }
    gpumc__add_weighted(k->size, dim, square, weight, x + k->at, pulls, s->moments + p->free_at);
}

/* A draw, all links, units first. */
static void gpumc__centring_add(gpumc__centring_sums *s, size_t draw, int late)
{
    const gpumc_adapt *a = s->adapt;
    const gpumc_layout *l = a->layout;
    s->count++;
    gpumc__to_natural(l, a->q + draw * a->dim, s->work, s->work);
    memset(s->work + l->n_natural, 0, l->n_natural * sizeof(double));
    for (size_t i = l->n_parts; i-- > 0;) {
        const gpumc__placed *p = &l->parts[i];
        const double *g = a->g + draw * a->dim + p->free_at;
        for (size_t u = 0; p->linked && u < p->link.n_units; u++) {
            const double tau = gpumc__link_scale(&p->link, u, s->work), value = gpumc__log(tau);
            double *unit = gpumc__units_in(s, &p->link) + 3 * u;
            gpumc__welford(&unit[0], &unit[1], &value, 1, 1 / s->count);
            unit[2] += tau * tau;
        }
        if (p->linked && late) gpumc__centring_add_late(s, p, g);
        else if (p->linked) gpumc__centring_add_early(s, p, g);
    }
}

/* Two means and their squares and products, of b draws or weights, join those of a. Rows lie dim apart. */
static void gpumc__join_moments(double *to, const double *from, size_t dim, double a, double b)
{
    const double theta_off = from[0] - to[0], pull_off = from[2 * dim] - to[2 * dim], share = b / (a + b);
    to[0] += share * theta_off;
    to[2 * dim] += share * pull_off;
    to[dim] += from[dim] + a * share * theta_off * theta_off;
    to[3 * dim] += from[3 * dim] + a * share * theta_off * pull_off;
}

/* The sums of one part of the draws join those of the parts before. */
static void gpumc__centring_join(gpumc__centring_sums *to, const gpumc__centring_sums *of, int late)
{
    const gpumc_layout *l = to->adapt->layout;
    if (of->count == 0) return;
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__link *k = &l->parts[i].link;
        const size_t at = l->parts[i].free_at;
        if (!l->parts[i].linked) continue;
        double *unit = gpumc__units_in(to, k), *more = gpumc__units_in(of, k);
        for (size_t j = 0; j < k->size; j++) {
            const size_t u = 3 * k->unit[j] + 2;
            gpumc__join_moments(to->moments + at + j, of->moments + at + j, to->adapt->dim,
                                late ? unit[u] : to->count, late ? more[u] : of->count);
        }
        for (size_t u = 0; u < 3 * k->n_units; u += 3) {
            const double off = more[u] - unit[u], share = of->count / (to->count + of->count);
            unit[u] += share * off;
            unit[u + 1] += more[u + 1] + to->count * share * off * off;
            unit[u + 2] += more[u + 2];
        }
    }
    to->count += of->count;
}

typedef struct gpumc__centring_parts {
    gpumc__centring_sums sums[GPUMC__CENTRING_PARTS];
    int late;
} gpumc__centring_parts;

static void gpumc__centring_part(size_t part, int member, void *parts)
{
    gpumc__centring_parts *of = (gpumc__centring_parts *)parts;
    gpumc__centring_sums *s = &of->sums[part];
    const gpumc_adapt *a = s->adapt;
    const size_t from = a->foreground, n = a->n_kept - from;
    s->work = a->model_work + (size_t)member * a->layout->n_work;
    memset(s->moments, 0, 4 * a->dim * sizeof(double));
    memset(s->units, 0, 3 * a->n_units * sizeof(double));
    for (size_t k = n * part / GPUMC__CENTRING_PARTS; k < n * (part + 1) / GPUMC__CENTRING_PARTS; k++)
        if (gpumc__adapt_uses(a, from + k, GPUMC__NONE)) gpumc__centring_add(s, from + k, of->late);
}

/* Fills the units and the moments, over the healthy draws of the foreground window. Returns their number. */
static double gpumc__centring_moments(gpumc_adapt *a, int late)
{
    gpumc__centring_parts parts;
    parts.late = late;
    for (size_t k = 0; k < GPUMC__CENTRING_PARTS; k++) {
        const gpumc__centring_sums none = { a, NULL, a->moments + 6 * k * a->dim,
                                            a->units + 3 * k * a->n_units, 0 };
        parts.sums[k] = none;
    }
    gpumc__adapt_share(a, GPUMC__CENTRING_PARTS, gpumc__centring_part, &parts);
    for (size_t k = 1; k < GPUMC__CENTRING_PARTS; k++)
        gpumc__centring_join(&parts.sums[0], &parts.sums[k], late);
    return parts.sums[0].count;
}

/* Shares of information that the data hold, s = 1 - 1 / v, shrunk towards the block's mean by how much of
   their spread is noise (the relative variance of a variance is 2 / n, counted twice for dependent draws). */
static void gpumc__centring_shares(const gpumc__link *k, double *v, double n)
{
    double size = 0, mean = 0, variance = 0, noise = 0, w;
    for (size_t i = 0; i < k->size; i++) size += !gpumc__link_is_start(k, i);
    for (size_t i = 0; i < k->size; i++) {
        v[i] = v[i] > 0.5 ? 1 - 1 / v[i] : -1;
        if (gpumc__link_is_start(k, i)) continue;
        mean += v[i] / size;
        noise += (1 - v[i]) * (1 - v[i]) * 4 / n / size;
    }
    for (size_t i = 0; i < k->size; i++)
        if (!gpumc__link_is_start(k, i)) variance += (v[i] - mean) * (v[i] - mean) / size;
    w = variance > 0 ? fmax(0, 1 - noise / variance) : 0;
    for (size_t i = 0; i < k->size; i++) v[i] = fmin(fmax(mean + w * (v[i] - mean), 0), 0.999);
}

/* On the way to the bulk: weights from how much gradients vary, Var(tau G) = 1 / (1 - share). Leans to
   non-centred where the scale is uncertain. */
static void gpumc__centring_early(gpumc_adapt *a, const gpumc__placed *p, double n, double *weights)
{
    const gpumc__link *k = &p->link;
    const double *units = gpumc__adapt_units(a, k);
    double *share = a->moments + a->dim + p->free_at;
    for (size_t j = 0; j < k->size; j++) share[j] /= n - 1;
    gpumc__centring_shares(k, share, n);
    for (size_t j = 0; j < k->size; j++) {
        const double sd = sqrt(units[3 * k->unit[j] + 1] / (n - 1));
        const double odds = gpumc__exp(-2 * sd) * share[j] / (1 - share[j]), c = odds / (1 + odds);
        weights[j] = gpumc__nearest_notch(c > 0.95 ? 1 : fmin(c, 0.9));
    }
}

/* The notch for data that know an element of link k with precision J. */
static unsigned char gpumc__centring_notch(const gpumc_adapt *a, const gpumc__link *k, size_t j, double J)
{
    const double odds = J * gpumc__exp(2 * gpumc__adapt_units(a, k)[3 * k->unit[j]]);
    return gpumc__nearest_notch(odds < 1e9 ? odds / (1 + odds) : 1);
}

/* In the bulk: data that know theta with precision J pull by b - J theta. On entry weights are mean pulls and
   anchors their products with theta, on return J and b. */
static void gpumc__centring_told(gpumc_adapt *a, const gpumc__placed *p, double *weights, double *anchors)
{
    const double *theta = a->moments + p->free_at;
    for (size_t j = 0; j < p->size; j++) {
        const double J = -anchors[j] / theta[a->dim + j];
        anchors[j] = weights[j] + (J > 0 ? J * theta[j] : 0);
        weights[j] = J > 0 ? J : 0;
    }
}

/* What data know of elements where they also hang on values that all share: with z for these, pulls are b - J
   theta + s (z - middle), by least squares of every element over the draws picked. */
enum { GPUMC__SHARING_DRAWS = 128 };
typedef struct gpumc__sharing {
    gpumc_adapt *adapt;
    size_t n_draws, n;
    double *J, *b, z[(size_t)GPUMC__SHARING_DRAWS * GPUMC__MOST_SHARED]; /* z: n a draw, about middles */
    double factor[GPUMC__MOST_SHARED * GPUMC__MOST_SHARED];
} gpumc__sharing;

/* A draw: natural values of elements into x, pulls into y, values into z. */
static void gpumc__sharing_row(size_t row, int member, void *sharing)
{
    gpumc__sharing *of = (gpumc__sharing *)sharing;
    const gpumc_adapt *a = of->adapt;
    const gpumc_layout *l = a->layout;
    const size_t dim = a->dim, draw = a->selected[row];
    double *x = a->model_work + (size_t)member * l->n_work;
    gpumc__to_natural(l, a->q + draw * dim, x, x);
    memset(x + l->n_natural, 0, l->n_natural * sizeof *x);
    for (size_t s = 0; s < of->n; s++) of->z[row * of->n + s] = x[l->shared[s].at];
    for (size_t i = l->n_parts; i-- > 0;) {
        const gpumc__placed *p = &l->parts[i];
        double *theta = a->x + row * dim + p->free_at, *pull = a->y + row * dim + p->free_at;
        memset(theta, 0, p->free_size * sizeof *theta);
        memset(pull, 0, p->free_size * sizeof *pull);
        if (!p->linked) continue;
        gpumc__scaled(p->size, 1 / gpumc__link_news(&p->link, x),
                      gpumc__centring_pulls(l, p, a->g + draw * dim + p->free_at, x), pull);
        memcpy(theta, x + p->at, p->size * sizeof *x);
    }
}

/* Least squares of the elements in a strip of coordinates. */
static void gpumc__sharing_strip(size_t part, int member, void *sharing)
{
    gpumc__sharing *of = (gpumc__sharing *)sharing;
    gpumc_adapt *a = of->adapt;
    enum { WIDTH = GPUMC__STRIP_COLUMNS };
    double sums[2 * GPUMC__MOST_SHARED + 4][WIDTH];       /* means, theta^2, theta pull; z theta, z pull */
    double (*by_theta)[WIDTH] = sums + 4, (*by_pull)[WIDTH] = by_theta + of->n;
    size_t from;
    const size_t n = gpumc__strip_of(a->dim, part, &from), S = of->n;
    (void)member;
    memset(sums, 0, sizeof sums);
    for (int which = 0; which < 2; which++) {
        double *rows = (which ? a->y : a->x) + from, *mean = sums[which];
        for (size_t k = 0; k < of->n_draws; k++)
            gpumc__add_multiple(mean, 1 / (double)of->n_draws, rows + k * a->dim, n);
        for (size_t k = 0; k < of->n_draws; k++) gpumc__add_multiple(rows + k * a->dim, -1, mean, n);
    }
    for (size_t k = 0; k < of->n_draws; k++) {
        const double *theta = a->x + k * a->dim + from, *pull = a->y + k * a->dim + from;
        for (size_t i = 0; i < n; i++) sums[2][i] += theta[i] * theta[i];
        for (size_t i = 0; i < n; i++) sums[3][i] += theta[i] * pull[i];
        for (size_t s = 0; s < S; s++) {
            gpumc__add_multiple(by_theta[s], of->z[k * S + s], theta, n);
            gpumc__add_multiple(by_pull[s], of->z[k * S + s], pull, n);
        }
    }
    for (size_t i = 0; i < n; i++) {
        double v[GPUMC__MOST_SHARED], left = sums[2][i], product = sums[3][i], J;
        for (size_t s = 0; s < S; s++) v[s] = by_theta[s][i];
        gpumc__cholesky_solve(of->factor, S, v);
        for (size_t s = 0; s < S; s++) {
            left -= by_theta[s][i] * v[s];
            product -= by_pull[s][i] * v[s];
        }
        J = left > 1e-9 * sums[2][i] && product < 0 ? -product / left : 0;
        for (size_t s = 0; s < S; s++) v[s] = by_pull[s][i] + J * by_theta[s][i];
        gpumc__cholesky_solve(of->factor, S, v);
        of->J[from + i] = J;
        of->b[from + i] = sums[1][i] + J * sums[0][i];
        for (size_t s = 0; s < S; s++) a->slopes[s * a->dim + from + i] = v[s];
    }
}

/* J, b and slopes of all coordinates, of which those of links that tell count. Returns 0 where nothing is
   shared or too few draws tell. */
static int gpumc__sharing_learn(gpumc_adapt *a, double *J, double *b)
{
    const size_t n = a->layout->n_shared, most = gpumc__smaller(a->n_selected, GPUMC__SHARING_DRAWS);
    gpumc__sharing of;
    memset(a->slopes, 0, n * a->dim * sizeof *a->slopes);
    if (n == 0) return 0;
    of.adapt = a;
    of.n = n;
    of.J = J;
    of.b = b;
    of.n_draws = gpumc__adapt_pick(a, most, a->selected);
    if (of.n_draws < 40 + 2 * n) return 0;
    gpumc__adapt_share(a, of.n_draws, gpumc__sharing_row, &of);
    memset(of.factor, 0, sizeof of.factor);
    for (size_t s = 0; s < n; s++) {
        double *z = of.z + s, sum = 0;
        for (size_t k = 0; k < of.n_draws; k++) sum += z[k * n];
        a->middles[s] = sum / (double)of.n_draws;
        for (size_t k = 0; k < of.n_draws; k++) z[k * n] -= a->middles[s];
    }
    for (size_t k = 0; k < of.n_draws; k++)
        for (size_t s = 0; s < n; s++)
            gpumc__add_multiple(of.factor + s * n, of.z[k * n + s], of.z + k * n, n);
    if (!gpumc__cholesky(of.factor, n)) return 0;
    gpumc__adapt_share(a, gpumc__strips(a->dim), gpumc__sharing_strip, &of);
    return 1;
}

/* The same as weights (notches) and anchors b / J, from far fewer draws than variances need. Weights that are
   alike, within a factor of two, become one, as then the vector loops apply; units make up for the difference
   to its notch. */
static void gpumc__centring_late(gpumc_adapt *a, const gpumc__placed *p, double *weights, double *anchors)
{
    const gpumc__link *k = &p->link;
    const double *theta = a->moments + p->free_at;
    double *units = gpumc__adapt_units(a, k), least = GPUMC_INF, most = 0, sum = 0, mean;
    size_t size = 0, common;
    int alike;
    for (size_t j = 0; j < k->size; j++) {
        const double odds = -anchors[j] / theta[a->dim + j] * gpumc__exp(2 * units[3 * k->unit[j]]);
        anchors[j] = weights[j];                       /* the mean pull, until the weight is known */
        weights[j] = odds > 0 ? odds / (1 + odds) : 0;
        if (gpumc__link_is_start(k, j)) continue;
        least = fmin(least, odds > 0 ? odds : 0);
        most = fmax(most, odds);
        sum += odds;
        size++;
    }
    alike = most < 2 * least && sum <= 1e9 * (double)size;
    mean = sum / (double)(size > 0 ? size : 1);
    common = alike ? gpumc__smaller(gpumc__nearest_notch(mean / (1 + mean)), GPUMC__FULL - 1) : 0;
    for (size_t u = 0; u < k->n_scales && common > 0; u++)
        units[3 * u] -= 0.5 * gpumc__log(mean * (1 / gpumc__notch[common] - 1));
    for (size_t j = 0; j < k->size; j++) {
        const double tau0 = gpumc__exp(units[3 * k->unit[j]]);
        const int notch = alike ? (int)common : gpumc__nearest_notch(weights[j]);
        const double c = gpumc__notch[notch], odds = c / (1 - c);
        weights[j] = notch;
        anchors[j] = notch > 0 && notch < GPUMC__FULL ? theta[j] + anchors[j] * tau0 * tau0 / odds : theta[j];
    }
}

/* ---- the noise of the data ----
   How much more the data of a link know in one draw than on average is sum w (b - J theta) pull over sum
   w (b - J theta)^2: where they are normal exactly, whatever J and b, as w their own sizes will do. A single
   positive value that explains most of it across draws, by a power, is the scale of their noise. */
enum { GPUMC__NOISE_LEAST = 20 };

/* J and b of every element, from weights and anchors as found, into the first two rows of moments. */
static void gpumc__noise_expect(gpumc_adapt *a, const double *weights)
{
    double *J = a->moments, *b = J + a->dim;
    for (size_t i = 0; i < a->layout->n_parts; i++) {
        const gpumc__placed *p = &a->layout->parts[i];
        const gpumc__link *k = &p->link;
        for (size_t j = 0; p->linked && j < p->size; j++) {
            const size_t at = p->free_at + j;
            const int notch = k->tells ? 0 : (int)weights[at];
            const double c = notch < GPUMC__FULL ? gpumc__notch[notch] : k->most;
            J[at] = k->tells ? weights[at]
                : c / (1 - c) * gpumc__exp(-2 * gpumc__adapt_units(a, k)[3 * k->unit[j]]);
            b[at] = weights[a->dim + at] * (k->tells ? 1 : J[at]);
        }
    }
}

/* The logarithm of the news in one of the selected draws, of every link. */
static void gpumc__noise_look(size_t row, int member, void *adapt)
{
    const gpumc_adapt *a = (const gpumc_adapt *)adapt;
    const gpumc_layout *l = a->layout;
    const size_t draw = a->noise_draws[row];
    double *x = a->model_work + (size_t)member * l->n_work, *log_news = a->pairs + row * l->n_parts;
    gpumc__to_natural(l, a->q + draw * a->dim, x, x);
    memset(x + l->n_natural, 0, l->n_natural * sizeof *x);
    for (size_t i = l->n_parts; i-- > 0;) {
        const gpumc__placed *p = &l->parts[i];
        const double *J = a->moments + p->free_at, *b = J + a->dim, *g = a->g + draw * a->dim + p->free_at;
        const double *pulls = p->linked ? gpumc__centring_pulls(l, p, g, x) : NULL;
        double product = 0, square = 0;
        for (size_t j = 0; p->linked && j < p->size; j++) {
            const double expected = b[j] - J[j] * x[p->at + j];
            product += expected * pulls[j];
            square += expected * expected;
        }
        log_news[i] = product > 0 ? gpumc__log(product / square) : GPUMC_NAN;
    }
}

/* What the news of a link, one number a draw, go with: with the value of part c by a power, or with nothing.
   fit: least share of their variance; on return the one explained. */
static gpumc__noise gpumc__noise_regress(const gpumc_adapt *a, const size_t *draws, const double *log_news,
                                         size_t n_draws, size_t c, double *fit)
{
    const gpumc__placed *p = &a->layout->parts[c];
    gpumc__noise noise = { p->at, 0, 1 };
    double n = 0, mean[2] = { 0, 0 }, xx = 0, xy = 0, yy = 0, slope;
    for (size_t k = 0; k < n_draws; k++) {
        double value, off[2];
        gpumc__map(&p->constraint, a->q + draws[k] * a->dim + p->free_at, &value);
        off[0] = gpumc__log(value) - mean[0];
        off[1] = log_news[k * a->layout->n_parts] - mean[1];
        if (!gpumc__is_finite(off[1])) continue;
        n++;
        mean[0] += off[0] / n;
        mean[1] += off[1] / n;
        xx += off[0] * off[0] * (n - 1) / n;
        xy += off[0] * off[1] * (n - 1) / n;
        yy += off[1] * off[1] * (n - 1) / n;
    }
    slope = xy / xx;
    if (n < (double)GPUMC__NOISE_LEAST || !(xy * xy > *fit * xx * yy) || !(fabs(slope) <= 4)) return noise;
    *fit = xy * xy / (xx * yy);
    noise.halves = (int)floor(2 * slope + 0.5);
    noise.per_unit = gpumc__exp(-mean[0]);
    return noise;
}

/* Whether part c may be a noise: one positive value by which, or about which, no others spread. */
static int gpumc__noise_may_be(const gpumc_model *m, size_t c)
{
    int named = 0;
    for (size_t i = c + 1; i < m->n_params; i++)
        named |= gpumc__find_param(m, i, m->params[i].scale) == c
            || gpumc__find_param(m, i, m->params[i].location) == c;
    return !named && m->params[c].kind == GPUMC_POSITIVE && gpumc__nth_size(m, c) == 1;
}

/* Finds the noise of every link whose anchors are to be learned. */
static void gpumc__centring_noise(gpumc_adapt *a, const double *weights)
{
    const gpumc_layout *l = a->layout;
    const size_t n = l->n_parts, room = 4 * a->capacity / n;
    const size_t most = gpumc__smaller(room, GPUMC__NOISE_DRAWS);
    size_t *draws = a->noise_draws, taken = 0, n_candidates = 0;
    for (size_t c = 0; c < n; c++) n_candidates += (size_t)gpumc__noise_may_be(l->model, c);
    if (n_candidates > 0) gpumc__noise_expect(a, weights);
    if (n_candidates > 0) taken = gpumc__adapt_pick(a, most, draws);
    gpumc__adapt_share(a, taken, gpumc__noise_look, a);
    for (size_t i = 0; i < n; i++) {
        gpumc__link *k = &l->parts[i].link;
        double fit = 0.5;
        k->found.halves = 0;
        for (size_t c = 0; c < n && l->parts[i].linked && taken >= GPUMC__NOISE_LEAST; c++) {
            if (!gpumc__noise_may_be(l->model, c)) continue;
            const gpumc__noise noise = gpumc__noise_regress(a, draws, a->pairs + i, taken, c, &fit);
            if (noise.halves) k->found = noise;
        }
    }
}

/* Coordinates to the centred frame or back; or, without the links, scores alone to logarithms or back. */
typedef struct gpumc__reframe { gpumc_adapt *adapt; int links, back; } gpumc__reframe;

static double gpumc__reframe_point(const gpumc__reframe *of, double *q, double *g, double *work)
{
    const gpumc_layout *l = of->adapt->layout;
    if (!of->links) return gpumc__rescore_all(l, of->back, q, g);
    return of->back ? gpumc__from_centred(l, q, g, q, g, work) : gpumc__to_centred(l, q, g, q, g, work);
}

static void gpumc__reframe_draw(size_t k, int member, void *reframe)
{
    const gpumc__reframe *of = (const gpumc__reframe *)reframe;
    const gpumc_adapt *a = of->adapt;
    a->lp[k] += gpumc__reframe_point(of, a->q + k * a->dim, a->g + k * a->dim,
                                     a->model_work + (size_t)member * a->layout->n_work);
}

/* Carries the kept draws and the chains' states from the coordinates before to those after a change. */
static void gpumc__adapt_reframe(gpumc_adapt *a, gpumc_nuts *const *chains, int links, int back)
{
    gpumc__reframe of = { a, links, back };
    double *u = a->moments, *h = u + a->dim;
    gpumc__adapt_share(a, a->n_kept, gpumc__reframe_draw, &of);
    for (size_t c = 0; c < a->n_chains; c++) {
        memcpy(u, gpumc_nuts_draw(chains[c]), a->dim * sizeof *u);
        memcpy(h, gpumc_nuts_gradient(chains[c]), a->dim * sizeof *h);
        const double change = gpumc__reframe_point(&of, u, h, a->model_work);
        gpumc__nuts_move(chains[c], u, chains[c]->current->lp + change, h);
    }
}

/* Puts weights (notches, one a coordinate), anchors if they are known, and the units' means into force. */
static void gpumc__adapt_recentre(gpumc_adapt *a, gpumc_nuts *const *chains, const double *weights, int late)
{
    const gpumc_layout *l = a->layout;
    gpumc__adapt_reframe(a, chains, 1, 0);
    for (size_t s = 0; s < l->n_shared && late; s++) a->layout->shared[s].middle = a->middles[s];
    for (size_t i = 0; i < l->n_parts; i++) {
        gpumc__link *k = &l->parts[i].link;
        const double *weight = weights + l->parts[i].free_at;
        if (!l->parts[i].linked) continue;
        for (size_t j = 0; j < k->size; j++)
            k->notches[j] = k->tells && late ? gpumc__centring_notch(a, k, j, weight[j])
                                             : (unsigned char)weight[j];
        for (size_t u = 0; u < k->n_units; u++) k->per_unit[u] = gpumc__exp(-gpumc__adapt_units(a, k)[3 * u]);
        k->anchored = late && l->parts[i].param->centring == GPUMC_CENTRING_LEARNED;
        if (k->anchored) k->noise = k->found;
        if (k->anchored && k->tells) {
            gpumc__told_in_rows(k, weight, l->evidence + k->at);
            gpumc__told_in_rows(k, weight + a->dim, l->evidence + l->n_natural + k->at);
            for (size_t s = 0; s < l->n_shared; s++)
                gpumc__told_in_rows(k, a->slopes + s * a->dim + l->parts[i].free_at,
                                    l->slopes + s * l->n_natural + k->at);
        } else if (k->anchored) memcpy(k->anchors, weight + a->dim, k->size * sizeof *weight);
        gpumc__link_settle(k);
    }
    gpumc__adapt_reframe(a, chains, 1, 1);
}

/* ---- scores ------------------------------------------------------------------------------------
   A scale that the data leave near zero is no normal on the log scale: its density there falls as e^u only.
   Scored maps take it to one, that of an exponential law where its tail is long, else one with the tail of a
   normal. Which is best shows in Var q Var g, 1 for a normal and more for everything else: a map must gain a
   tenth to be changed for. Coordinates that are normal enough as they are cost one pass. */
#define GPUMC__SCORE_GAIN 0.9

/* Pairs q, g of a coordinate, from one map to the logarithm or from that to another. */
typedef struct gpumc__rescoring { double typical; int to; size_t n; double *pairs; } gpumc__rescoring;
enum { GPUMC__RESCORED = 32 };  /* in a part of the team's */

static void gpumc__rescore_part(size_t part, int member, void *rescoring)
{
    const gpumc__rescoring *of = (const gpumc__rescoring *)rescoring;
    const size_t end = (part + 1) * GPUMC__RESCORED < of->n ? (part + 1) * GPUMC__RESCORED : of->n;
    (void)member;
    for (size_t k = part * GPUMC__RESCORED; k < end; k++)
        gpumc__rescore(of->typical, of->to, of->pairs + 2 * k, of->pairs + 2 * k + 1);
}

static void gpumc__adapt_rescore(const gpumc_adapt *a, double typical, int to, double *pairs, size_t n)
{
    gpumc__rescoring of = { typical, to, n, pairs };
    const size_t n_parts = (n + GPUMC__RESCORED - 1) / GPUMC__RESCORED;
    if (typical == 0) return;
    gpumc__adapt_share(a, n_parts, gpumc__rescore_part, &of);
}

/* The first pairs: those of coordinate i in the healthy draws of the foreground window, on the log scale.
   Returns their number; mean_x gets the mean of x - base. */
static size_t gpumc__score_gather(const gpumc_adapt *a, size_t i, double *mean_x)
{
    double square = 0;
    size_t n = 0;
    for (size_t k = a->foreground; k < a->n_kept; k++) {
        if (!gpumc__adapt_uses(a, k, GPUMC__NONE)) continue;
        a->pairs[2 * n] = a->q[k * a->dim + i];
        a->pairs[2 * n++ + 1] = a->g[k * a->dim + i];
    }
    gpumc__adapt_rescore(a, a->layout->typical[i], 0, a->pairs, n);
    *mean_x = 0;
    for (size_t k = 0; k < n; k++) {
        const double x = gpumc__exp(a->pairs[2 * k]);
        gpumc__welford(mean_x, &square, &x, 1, 1 / (double)(k + 1));
    }
    return n;
}

/* How far the first n pairs are from a normal's as the map of a typical size would have them: Var q Var g,
   over a power of Cov(q, g)^2, which is 1 but for chance, much of it what moves the variances, too; infinite
   where gradients do not pull back. A power of 0 is set to the one that leaves least of that chance, where
   pairs are normal. */
static double gpumc__score_trial(const gpumc_adapt *a, size_t n, double typical, double *power)
{
    double mean[2] = { 0, 0 }, square[2] = { 0, 0 }, product = 0, spread, *mapped = a->pairs + 2 * n;
    const double degrees = (double)n - 1;
    if (n <= 10) return GPUMC_NAN;
    memcpy(mapped, a->pairs, 2 * n * sizeof(double));
    gpumc__adapt_rescore(a, typical, 1, mapped, n);
    for (size_t k = 0; k < n; k++) {
        const double *pair = mapped + 2 * k, d = pair[0] - mean[0];
        gpumc__welford(mean, square, pair, 2, 1 / (double)(k + 1));
        product += d * (pair[1] - mean[1]);
    }
    spread = square[0] * square[1];
    if (*power == 0) *power = 2 * product * product / (spread + product * product);
    return product < 0 ? spread / (degrees * degrees)
                         * gpumc__exp(-2 * *power * gpumc__log(-product / degrees)) : GPUMC_INF;
}

/* The map for coordinate i: the logarithm where that will do, else another than that in force if it pays.
   Light tails, which cost much where they are wrong, as on the way to the bulk, must pay beside long ones
   too, and are dropped where a medium size does not. */
static double gpumc__score_choice(const gpumc_adapt *a, size_t i)
{
    static const double by_size[] = { -1.5, -3, -0.75 };
    const double given = a->layout->typical[i];
    double size, best = 0, power = 0, trial;
    const size_t n = gpumc__score_gather(a, i, &size);
    double least = gpumc__score_trial(a, n, 0, &power);
    if (!(least * GPUMC__SCORE_GAIN > 1)) return 0;
    const double s = given > size / 3 && given < 3 * size ? given : size;
    trial = gpumc__score_trial(a, n, s, &power);
    if (given > 0 ? trial * GPUMC__SCORE_GAIN <= least : trial < least * GPUMC__SCORE_GAIN)
        best = s, least = trial;
    if (given < 0 && gpumc__score_trial(a, n, given, &power) < least) return given;
    least *= GPUMC__SCORE_GAIN;
    for (int k = 0; k < 3 && a->iteration > a->early_end && (k == 0 || best < 0); k++) {
        trial = gpumc__score_trial(a, n, by_size[k] * size, &power);
        if (trial < least) best = by_size[k] * size, least = trial;
    }
    return best;
}

/* Chooses the maps of positive coordinates; returns 1 when one changed. */
static int gpumc__adapt_scores(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const gpumc_layout *l = a->layout;
    double *chosen = a->moments + 2 * a->dim;
    int changed = 0;
    for (size_t i = 0; l && i < l->n_parts; i++) {
        const gpumc__placed *p = &l->parts[i];
        const int above = p->param->kind == GPUMC_POSITIVE || p->param->kind == GPUMC_LOWER;
        for (size_t j = p->free_at; j < p->free_at + p->free_size; j++) {
            const int learned = above && !p->linked && p->param->typical == 0;
            chosen[j] = learned ? gpumc__score_choice(a, j) : l->typical[j];
            changed |= chosen[j] != l->typical[j];
        }
    }
    if (!changed) return 0;
    gpumc__adapt_reframe(a, chains, 0, 0);
    memcpy(l->typical, chosen, a->dim * sizeof *chosen);
    gpumc__adapt_reframe(a, chains, 0, 1);
    gpumc__adapt_judge(a, chains);
    return 1;
}

/* Learns weights, anchors and units of the links; returns 1 when coordinates changed much. */
static int gpumc__adapt_centring(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const gpumc_layout *l = a->layout;
    const int late = a->iteration > a->early_end;
    const double n = gpumc__adapt_is_linked(a) ? gpumc__centring_moments(a, late) : 0;
    double *weights = a->moments + 2 * a->dim;
    int changed = 0, moved = late, shares;
    if (n < 5) return 0;
    shares = late && gpumc__sharing_learn(a, a->moments + 6 * a->dim, a->moments + 7 * a->dim);
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__link *k = &l->parts[i].link;
        const int learned = l->parts[i].param->centring == GPUMC_CENTRING_LEARNED;
        double *weight = weights + l->parts[i].free_at, *units = gpumc__adapt_units(a, k);
        if (!l->parts[i].linked) continue;
        if (late && k->tells && shares) {
            memcpy(weight, weight + 4 * a->dim, k->size * sizeof *weight);
            memcpy(weight + a->dim, weight + 5 * a->dim, k->size * sizeof *weight);
        } else if (late && k->tells) gpumc__centring_told(a, &l->parts[i], weight, weight + a->dim);
        else if (late) gpumc__centring_late(a, &l->parts[i], weight, weight + a->dim);
        else gpumc__centring_early(a, &l->parts[i], n, weight);
        for (size_t j = 0; j < k->size; j++) {
            const int told = late && k->tells;
            if (!learned || (gpumc__link_is_start(k, j) && !told)) weight[j] = k->notches[j];
            changed |= fabs((told ? gpumc__centring_notch(a, k, j, weight[j]) : weight[j]) - k->notches[j])
                > k->anchored;
        }
        changed |= late && learned && !k->anchored;
        for (size_t u = 0; u < k->n_units; u++)
            moved |= fabs(units[3 * u] + gpumc__log(k->per_unit[u])) > 0.1;
    }
    if (late) gpumc__centring_noise(a, weights);
    for (size_t i = 0; i < l->n_parts && late; i++)
        changed |= l->parts[i].link.found.halves != l->parts[i].link.noise.halves;
    if (changed || moved) {
        gpumc__adapt_recentre(a, chains, weights, late);
        gpumc__adapt_judge(a, chains);               /* log densities are those of the new coordinates */
    }
    return changed;
}

/* ---- choice of the sampler --------------------------------------------------------------------- */

/* Paths of a fixed length beat trees where the metric makes the target nearly round. How far it is from that
   shows in kappa, the largest variance of a coordinate in units of the metric; elements of a hierarchy are
   left out, their scales tell. Where gradients are the metric's normal's but for 0.2 of their length, or for
   0.3 if that lasts, HMC on its spring beats both: a step makes an energy error of about h^2 root(rho), rho
   the residual |x + g|^2 of a draw, so that steps reach rho^(-1/4). This is known from the first pooled
   metric on, and the rest of warm-up gains by it too. A large kappa then says that chains are still on their
   way: where it is clear that even there gradients are the normal's, the spring takes them in. The constants
   were fitted to hierarchical models of 10 to 1000 groups and to published posteriors. */
#define GPUMC__PATH_LENGTH 1.45
/* A quarter turn forgets where it began. Somewhat more takes a draw to the other side, for better means, and
   costs what depends on squares nothing yet. */
#define GPUMC__SPRING_LENGTH 1.7
#define GPUMC__SPRING_WINDOW 0.2
#define GPUMC__SPRING_MAY 0.3      /* if it was so before, too */
#define GPUMC__SPRING_KEEPS 0.4    /* once it is taken */
#define GPUMC__SPRING_CLEAR 0.1    /* however far draws spread */
/* Of few coordinates one may have a tail that is far from normal, where chains then stay for long, and yet
   hardly show in the mean over all draws; and trees cost nothing there. */
#define GPUMC__SPRING_DIM 8
#define GPUMC__SPRING_FEW 0.05

static double gpumc__path_aim(const gpumc_metric *m, double target_accept)
{ return fmax(target_accept, m->spring ? 0.93 : 0.85); }

static int gpumc__adapt_is_top(const gpumc_adapt *a, size_t i)
{
    const gpumc_layout *l = a->layout;
    size_t k = 0;
    if (!l) return 1;
    while (i >= l->parts[k].free_at + l->parts[k].free_size) k++;
    return !gpumc__is_linked(l->parts[k].param);
}

/* NaN when there are too few draws. */
static double gpumc__adapt_kappa(gpumc_adapt *a)
{
    const gpumc_metric *m = &a->shared;
    const size_t n = a->dim;
    double *mean = a->moments, *square = mean + n, count = 0, kappa = 0;
    memset(a->moments, 0, 2 * n * sizeof(double));
    for (size_t k = a->foreground; k < a->n_kept; k++)
        if (gpumc__adapt_uses(a, k, GPUMC__NONE)) gpumc__welford(mean, square, a->q + k * n, n, 1 / ++count);
    for (size_t i = 0; i < n; i++)
        if (gpumc__adapt_is_top(a, i))
            kappa = fmax(kappa, square[i] / (count - 1) / gpumc__metric_variance(m, i));
    return count < 50 ? GPUMC_NAN : kappa;
}

/* The last draws before the final phase; a change of centring, which moves the energies, begins anew. */
static void gpumc__adapt_watch(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    if (a->iteration + a->options.num_warmup / 5 <= a->final_start || a->iteration > a->final_start) return;
    for (size_t c = 0; c < a->n_chains; c++) {
        const gpumc_draw_stats *t = gpumc_nuts_stats(chains[c]);
        gpumc__trial *trial = &a->trials[c];
        const double n = ++trial->n, d = t->energy - trial->mean;
        if (n > 1) trial->jumps += (t->energy - trial->energy) * (t->energy - trial->energy);
        trial->energy = t->energy;
        trial->mean += d / n;
        trial->squares += d * (t->energy - trial->mean);
        trial->span += t->n_leapfrog * t->step_size;
        trial->diverged += t->divergent;
    }
}

/* How normal the target is: see the choice. */
static void gpumc__adapt_measure(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    for (size_t c = 0; c < a->n_chains; c++) {
        a->residual += gpumc_nuts_stats(chains[c])->fisher_residual;
        a->n_residual++;
        a->swung[0] += a->shared.spring != 0;
        a->swung[1] += a->shared.spring && gpumc_nuts_stats(chains[c])->divergent;
    }
}

/* Whether paths on the spring end too often where there is no density, beyond a wall: no step mends that. */
static int gpumc__spring_hits(const gpumc_adapt *a) { return a->swung[1] > 2 + 0.05 * a->swung[0]; }

/* The same under a metric that has just been learned, by the last draws that are kept. */
static void gpumc__adapt_remeasure(gpumc_adapt *a)
{
    const size_t n = a->dim, last = 64;
    double *x = a->moments, *r = x + n;
    a->residual = a->n_residual = 0;
    for (size_t k = a->n_kept > last ? a->n_kept - last : 0; k < a->n_kept; k++) {
        if (!gpumc__adapt_uses(a, k, GPUMC__NONE)) continue;
        a->residual += gpumc__metric_residual(&a->shared, a->q + k * n, a->g + k * n, x, r);
        a->n_residual++;
    }
}

/* Draws that the metric was learned from flatter it; what is less than clear must have held before, too. */
static int gpumc__spring_pays(const gpumc_adapt *a, double off)
{
    if (gpumc__spring_hits(a)) return 0;
    if (a->dim < GPUMC__SPRING_DIM) return off < GPUMC__SPRING_FEW;
    return off < GPUMC__SPRING_PAYS || (off < GPUMC__SPRING_MAY && a->off_before < GPUMC__SPRING_MAY);
}

/* Whether the final phase may have the spring. With too few draws kappa is NaN. */
static int gpumc__adapt_swings(double kappa, double off)
{ return off < (kappa <= 2 ? GPUMC__SPRING_KEEPS : kappa > 2 ? GPUMC__SPRING_CLEAR : 0); }

/* The rule. A slow energy means heavy tails or a funnel: paths may go wrong there without a sign, trees
   diverge and say so. */
static gpumc_sampler gpumc__adapt_rule(gpumc_adapt *a, double kappa, double off)
{
    double n = 0, span = 0, diverged = 0, ebfmi = 0;
    const char *kept = NULL;
    if (gpumc__spring_pays(a, off)) {
        snprintf(a->reason, sizeof a->reason, "nearly normal: gradients within %.0f %%, variance to metric "
                 "%.2f", ceil(100 * off), kappa);
        return GPUMC_SAMPLER_HMC;
    }
    for (size_t c = 0; c < a->n_chains; c++) {
        n += a->trials[c].n;
        span += a->trials[c].span;
        diverged += a->trials[c].diverged;
        ebfmi += a->trials[c].jumps / a->trials[c].squares / (double)a->n_chains;
    }
    if (!(kappa <= 16)) kept = kappa > 16 ? "the metric fits badly" : "too few draws to judge by";
    else if (diverged > 1 + 0.01 * n || gpumc__spring_hits(a)) kept = "warm-up diverged";
    else if (!(ebfmi >= 0.6)) kept = "energies move slowly";
    else if (!(span <= 7 * n)) kept = "trees are long";
    snprintf(a->reason, sizeof a->reason, "%s: variance to metric %.2f, E-BFMI %.2f, trees span %.1f",
             kept ? kept : kappa < 4 ? "the metric fits" : "the metric fits roughly", kappa, ebfmi, span / n);
    return kept ? GPUMC_SAMPLER_NUTS : a->dim < 16 && kappa >= 1.4 ? GPUMC_SAMPLER_HMC : GPUMC_SAMPLER_MAMS;
}

static gpumc_sampler gpumc__adapt_asked(gpumc_adapt *a)
{
    const int mams = a->options.sampler == GPUMC_SAMPLER_MAMS;
    const char *reason = "asked for";
    if (!a->options.sampler) reason = "no warm-up to choose by";
    else if (mams && a->dim < 2) reason = "one dimension, MAMS needs two";
    else if (mams && a->guided) reason = "the model has a guide";
    snprintf(a->reason, sizeof a->reason, "%s", reason);
    return a->options.sampler;
}

/* The density where a guide has led: where that is 0, so far below the guide that any path to the support is
   taken, and no further, as the guide's own energies must not drown. */
static double gpumc__density_led(const gpumc_layout *l, const double *q, double *g, double *work,
                                 double guide)
{ return fmax(gpumc_model_eval(l, q, g, work), guide - 1e12); }

/* From here on paths are decided on by the model itself. */
static void gpumc__adapt_unguide(gpumc_adapt *a, gpumc_nuts *const *chains, gpumc_sampler sampler)
{
    for (size_t c = 0; c < a->n_chains && a->guided && sampler != GPUMC_SAMPLER_NUTS; c++) {
        gpumc_nuts *s = chains[c];
        const double guide = s->current->lp;
        s->current->lp = gpumc__density_led(a->layout, gpumc_nuts_draw(s), s->scratch, a->model_work, guide);
        s->apart[0] = s->current->lp - guide;
    }
}

/* Starts paths of one sort, or trees, and the tuning of their steps from eps on, up to `most`. */
static void gpumc__adapt_paths(gpumc_adapt *a, gpumc_nuts *const *chains, gpumc_sampler sampler, int spring,
                               double length, double window, double eps, double most)
{
    a->shared.spring = spring;
    for (size_t c = 0; c < a->n_chains; c++) a->metrics[c].spring = spring;
    gpumc__dual_start(&a->dual, fmin(eps, most));
    memset(a->two_steps, 0, sizeof a->two_steps);
    a->dual.mu = gpumc__log(1.5) + a->dual.x;
    a->dual.limit = gpumc__log(most);
    for (size_t c = 0; c < a->n_chains; c++) {
        gpumc_nuts_set_path(chains[c], sampler, length, window);
        gpumc_nuts_set_step_size(chains[c], gpumc__exp(a->dual.x));
    }
    a->sampler = chains[0]->sampler;
}

/* How far gradients are from the metric's normal's, of their own length; NaN where nothing is known. */
static double gpumc__adapt_off(const gpumc_adapt *a)
{ return sqrt(a->residual / (a->n_residual * (double)a->dim)); }

/* The step that the residual lets HMC on the spring take. */
static double gpumc__adapt_reach(const gpumc_adapt *a) { return 1 / sqrt(sqrt(a->residual / a->n_residual)); }

static void gpumc__adapt_swing(gpumc_adapt *a, gpumc_nuts *const *chains, double eps)
{
    const double asked = a->options.path_length, length = asked > 0 ? asked : GPUMC__SPRING_LENGTH;
    gpumc__adapt_paths(a, chains, GPUMC_SAMPLER_HMC, 1, length, GPUMC__SPRING_WINDOW, eps,
                       length * (1 + GPUMC__SPRING_WINDOW));
}

static void gpumc__adapt_trees(gpumc_adapt *a, gpumc_nuts *const *chains)
{ gpumc__adapt_paths(a, chains, GPUMC_SAMPLER_NUTS, 0, 0, 0, a->tree_step, GPUMC_INF); }

/* Between the first pooled metric and the final phase: trees or the spring, by the draws since the last
   estimate. eps: the step size in force. */
static void gpumc__adapt_try(gpumc_adapt *a, gpumc_nuts *const *chains, double eps)
{
    const double off = gpumc__adapt_off(a);
    if (a->options.sampler == GPUMC_SAMPLER_NUTS || a->guided) return;
    if (a->sampler != GPUMC_SAMPLER_NUTS && (!(off < GPUMC__SPRING_KEEPS) || gpumc__spring_hits(a)))
        gpumc__adapt_trees(a, chains);
    else if (a->sampler == GPUMC_SAMPLER_NUTS && gpumc__spring_pays(a, off)) {
        a->tree_step = eps;
        a->spring_since = a->iteration;
        gpumc__adapt_swing(a, chains, gpumc__adapt_reach(a));
        if (!a->options.early_stop || a->iteration > a->early_end) return;
        a->early_end = a->iteration;
        a->next_switch = gpumc__next_switch(a, a->iteration, &a->window);
    }
}

/* Whether the spring has held for two windows, with no chain left behind: more draws would teach nothing. */
static int gpumc__adapt_settled(const gpumc_adapt *a, size_t n_restarts)
{
    const size_t two_windows = gpumc__adapt_span(a) * 5 / 2;
    int settled = a->options.early_stop && a->options.sampler != GPUMC_SAMPLER_MAMS && a->shared.spring
                  && a->iteration >= a->spring_since + two_windows && a->n_restarts == n_restarts;
    for (size_t c = 0; c < a->n_chains; c++) settled &= a->healthy[c];
    return settled;
}

/* The final phase begins at a switch, sooner than planned, if the choice will be the spring. n_restarts:
   before what this switch has learned. */
static void gpumc__adapt_stop_early(gpumc_adapt *a, size_t n_restarts)
{
    const double off = gpumc__adapt_off(a);
    if (!gpumc__adapt_settled(a, n_restarts) || !gpumc__spring_pays(a, off)
        || !gpumc__adapt_swings(gpumc__adapt_kappa(a), off)) return;
    a->final_start = a->iteration;
    a->options.num_warmup = gpumc__smaller(a->options.num_warmup, a->iteration + gpumc__adapt_span(a));
}

/* Takes what was asked for or follows the rule, and starts the tuning of paths. */
static void gpumc__adapt_choose(gpumc_adapt *a, gpumc_nuts *const *chains, double eps)
{
    const double kappa = gpumc__adapt_kappa(a), slow = kappa > 1 ? kappa : 1, off = gpumc__adapt_off(a);
    const int was_tree = a->sampler == GPUMC_SAMPLER_NUTS, is_unit = a->shared.kind == GPUMC_METRIC_UNIT;
    const int swings = gpumc__adapt_swings(kappa, off);
    const double stretch = is_unit && kappa > 0 ? sqrt(kappa) /* unlearned */
        : fmin(gpumc__exp(0.3 * gpumc__log(slow)), 3);
    const double asked = a->options.path_length, length = asked > 0 ? asked : GPUMC__PATH_LENGTH * stretch;
    const gpumc_sampler sampler = a->options.sampler ? gpumc__adapt_asked(a)
        : gpumc__adapt_rule(a, kappa, swings ? off : GPUMC_INF);
    if (was_tree) a->tree_step = eps;
    gpumc__adapt_unguide(a, chains, sampler);
    if (sampler == GPUMC_SAMPLER_HMC && swings)
        gpumc__adapt_swing(a, chains, was_tree ? gpumc__adapt_reach(a) : eps);
    else if (sampler != GPUMC_SAMPLER_NUTS)
        gpumc__adapt_paths(a, chains, sampler, 0, length, slow < 2 ? 0.4 : 0.8, a->tree_step, length);
    else if (!was_tree) gpumc__adapt_trees(a, chains);
}

/* The step size at the end: dual averaging's. What that averages may lie on both sides of where two steps no
   longer reach: if paths of two were accepted nearly as often as they should be, it is enough for them. */
static double gpumc__path_settle(const gpumc_adapt *a, const gpumc_nuts *s)
{
    const double eps = gpumc__exp(a->dual.x_mean), *seen = a->two_steps;
    const double enough = gpumc__path_aim(&a->shared, a->options.target_accept) - 0.03;
    return seen[0] >= 10 && seen[1] >= enough * seen[0] ? fmax(eps, s->length / 2) : eps;
}

static int gpumc__path_tune(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const int done = a->iteration == a->options.num_warmup, n_steps = chains[0]->n_steps;
    double mean = 0, eps;
    for (size_t c = 0; c < a->n_chains; c++)
        mean += (a->guided ? chains[c]->guided_accept : gpumc_nuts_stats(chains[c])->accept_stat)
                / (double)a->n_chains;
    gpumc__dual_update(&a->dual, mean, gpumc__path_aim(&a->shared, a->options.target_accept));
    if (n_steps == 2 && a->shared.spring) { a->two_steps[0]++; a->two_steps[1] += mean; }
    eps = done ? gpumc__path_settle(a, chains[0]) : gpumc__exp(a->dual.x);
    for (size_t c = 0; c < a->n_chains; c++) gpumc_nuts_set_step_size(chains[c], eps);
    return !done;
}

/* Without warm-up. */
static int gpumc__adapt_skip(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const gpumc_sampler asked = gpumc__adapt_asked(a);
    const int swings = asked == GPUMC_SAMPLER_HMC && a->shared.spring;
    const double length = a->options.path_length > 0 ? a->options.path_length
        : swings ? GPUMC__SPRING_LENGTH : GPUMC__PATH_LENGTH;
    for (size_t c = 0; c < a->n_chains; c++)
        gpumc_nuts_set_path(chains[c], asked, length, swings ? GPUMC__SPRING_WINDOW : 0.4);
    a->sampler = chains[0]->sampler;
    if (swings) snprintf(a->reason, sizeof a->reason, "the metric given has a spring");
    gpumc__adapt_unguide(a, chains, asked);
    return 0;
}

static const char *gpumc__sampler_name(gpumc_sampler sampler)
{
    static const char *const names[] = { "automatic", "NUTS", "MAMS", "HMC" };
    return names[sampler];
}

GPUMC_API gpumc_sampler gpumc_adapt_sampler(const gpumc_adapt *a, const char **reason)
{
    if (reason) *reason = a->reason;
    return a->sampler;
}

/* ---- the update -------------------------------------------------------------------------------- */

static void gpumc__adapt_set_step_sizes(const gpumc_adapt *a, gpumc_nuts *const *chains, double step_size)
{ for (size_t c = 0; c < a->n_chains; c++) gpumc_nuts_set_step_size(chains[c], step_size); }

/* Before the first iteration: units of the scales from the start points, metrics from the gradients there;
   with three chains from both. */
static void gpumc__adapt_begin(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const gpumc_layout *l = a->layout;
    double *weights = a->moments + 2 * a->dim;
    gpumc__adapt_keep(a, chains);
    for (size_t c = 0; c < a->n_chains; c++) a->levels[c] = -GPUMC_INF;
    if (gpumc__adapt_is_linked(a)) {
        gpumc__centring_moments(a, 0);
        for (size_t i = 0; i < a->dim; i++) weights[i] = l->notches[i];
        gpumc__adapt_recentre(a, chains, weights, 0);
    }
    for (size_t i = 0; i < a->dim && a->shared.kind != GPUMC_METRIC_UNIT; i++) {
        double mean_log = 0;
        for (size_t c = 0; c < a->n_chains; c++) {
            const double curvature = fabs(gpumc_nuts_gradient(chains[c])[i]);
            a->metrics[c].scale[i] = 1 / sqrt(fmin(fmax(curvature, 1e-6), 1e20));
            mean_log += gpumc__log(a->metrics[c].scale[i]) / (double)a->n_chains;
        }
        a->shared.scale[i] = gpumc__exp(mean_log);
    }
    if (a->n_kept >= 3 && a->shared.kind != GPUMC_METRIC_UNIT) {
        gpumc__adapt_diagonal(a, &a->shared, GPUMC__NONE);
        for (size_t c = 0; c < a->n_chains; c++)
            memcpy(a->metrics[c].scale, a->shared.scale, a->dim * sizeof(double));
    }
    a->n_kept = 0;
    gpumc__adapt_set_step_sizes(a, chains, 0);
}

/* Puts every chain that lags behind onto a draw of the best one, and remembers that for the report. */
static void gpumc__adapt_rescue(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    for (size_t c = 0; c < a->n_chains; c++) {
        gpumc_rng rng = gpumc_rng_at(a->options.seed, 8u << 24, (uint32_t)a->iteration,
                                     a->options.first_chain_id + (uint32_t)c);
        const size_t last = GPUMC__MAX_RESTARTS - 1;
        gpumc__restart *r = &a->restarts[a->n_restarts < last ? a->n_restarts : last];
        size_t source = 0;
        uint64_t seen = 0;
        if (a->healthy[c]) continue;
        for (size_t k = a->foreground; k < a->n_kept; k++)
            if (gpumc__adapt_uses(a, k, a->best) && gpumc_rng_below(&rng, ++seen) == 0) source = k;
        if (seen == 0) return;
        for (size_t k = 0; k < a->n_kept; k++) if (a->owner[k] == c) a->owner[k] = (uint32_t)a->n_chains;
        gpumc__nuts_move(chains[c], a->q + source * a->dim, a->lp[source], a->g + source * a->dim);
        r->iteration = a->iteration;
        r->chain = c;
        r->source = a->best;
        r->level = a->levels[c];
        r->healthy_level = a->levels[a->best];
        a->n_restarts++;
        a->healthy[c] = 1;
    }
}

/* One update with the mean over the chains: a sequence of single ones would oscillate. */
static void gpumc__adapt_step_size(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const int final = a->iteration > a->final_start, bounded = a->shared.kind != GPUMC_METRIC_UNIT;
    double mean = 0, n = 0;
    for (size_t c = 0; c < a->n_chains; c++) {
        const gpumc_draw_stats *t = gpumc_nuts_stats(chains[c]);
        const double accept = final ? t->accept_sym : t->accept_stat;
        gpumc__dual *own = &a->duals[c];
        if (a->iteration == 1) gpumc__dual_start(own, chains[c]->step_size);
        mean += a->healthy[c] ? accept : 0;
        n += a->healthy[c];
        if (a->iteration >= a->own_end) continue;
        gpumc__dual_update(own, accept, fmin(a->options.target_accept, 0.8));  /* shorter steps can wait */
        if (bounded)
            own->x = fmin(own->x, 1.1447298858494002 /* log pi: stability in whitened coordinates */);
        gpumc_nuts_set_step_size(chains[c], gpumc__exp(own->x));
    }
    if (a->own_end == 0 && a->iteration == 1) {         /* chains had no step sizes of their own before */
        gpumc__dual_start(&a->dual, chains[0]->step_size);
        a->dual.mu = a->dual.x;
    }
    if (a->iteration <= a->own_end) return;
    gpumc__dual_update(&a->dual, mean / n, a->options.target_accept);
    if (bounded) a->dual.x = fmin(a->dual.x, 1.1447298858494002);
    gpumc__adapt_set_step_sizes(a, chains, gpumc__exp(a->dual.x));
}

static void gpumc__adapt_restart_step(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    double sum = 0, n = 0;
    if (a->sampler != GPUMC_SAMPLER_NUTS) return;
    if (a->iteration < a->own_end) {
        for (size_t c = 0; c < a->n_chains; c++) gpumc__dual_start(&a->duals[c], chains[c]->step_size);
        return;
    }
    for (size_t c = 0; c < a->n_chains; c++) {
        sum += a->healthy[c] ? gpumc__log(chains[c]->step_size) : 0;
        n += a->healthy[c];
    }
    gpumc__dual_start(&a->dual, gpumc__exp(sum / n));
    if (a->options.num_warmup < 20) a->dual.mu = a->dual.x;       /* too few updates to come back */
    gpumc__adapt_set_step_sizes(a, chains, gpumc__exp(sum / n));
}

/* Estimates at a tenth iteration or a switch of windows. */
static void gpumc__adapt_learn(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const int switches = a->iteration == a->next_switch, pooled = a->iteration >= a->own_end;
    int restart = a->iteration == a->own_end;
    gpumc__adapt_judge(a, chains);
    if (switches && (gpumc__adapt_scores(a, chains) | gpumc__adapt_centring(a, chains))) {
        restart = 1;
        if (a->iteration < a->final_start) memset(a->trials, 0, a->n_chains * sizeof *a->trials);
    }
    if (pooled) {
        gpumc__adapt_pooled_metric(a, switches && a->iteration >= a->early_end);
        for (size_t c = 0; c < a->n_chains; c++) a->metrics[c] = a->shared;
    } else {
        for (size_t c = 0; c < a->n_chains && a->shared.kind != GPUMC_METRIC_UNIT; c++)
            gpumc__adapt_diagonal(a, &a->metrics[c], c);
    }
    if (switches && !a->options.keep_stuck_chains && a->iteration * 10 >= a->options.num_warmup * 4)
        gpumc__adapt_rescue(a, chains);
    if (restart || a->iteration == a->final_start) gpumc__adapt_restart_step(a, chains);
    if (switches) {
        a->foreground = a->background;
        a->background = a->n_kept;
        gpumc__adapt_forget(a);
        a->next_switch = gpumc__next_switch(a, a->iteration, &a->window);
    }
}

/* R-hat of the log density over the final phase, where metric and centring stand still. */
static void gpumc__adapt_mixing(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    double mean = 0, between = 0, within = 0;
    const double C = (double)a->n_chains;
    for (size_t c = 0; c < a->n_chains; c++) {
        double *sum = a->sums + 3 * c;
        sum[0]++;
        gpumc__welford(&sum[1], &sum[2], &gpumc_nuts_stats(chains[c])->lp, 1, 1 / sum[0]);
        mean += sum[1] / C;
        within += sum[2] / fmax(sum[0] - 1, 1) / C;
    }
    for (size_t c = 0; c < a->n_chains; c++)
        between += (a->sums[3 * c + 1] - mean) * (a->sums[3 * c + 1] - mean) / fmax(C - 1, 1);
    a->mixing = sqrt(1 + between / within);
}

/* Long trees are lost work in coordinates that are still to be learned, but bring chains in from afar, where
   gradients have little to do with any metric: the first 20 iterations may have them. Models with a guide are
   hard: after shorter ones their R-hat is larger. */
static void gpumc__adapt_limit_trees(const gpumc_adapt *a, gpumc_nuts *const *chains)
{
    const int early = a->iteration < a->early_end;
    const int learns = a->iteration < a->early_end + a->options.num_warmup / 5;
    for (size_t c = 0; c < a->n_chains; c++) {
        const int is_near = a->iteration >= 20
            || gpumc_nuts_stats(chains[c])->fisher_residual < (double)a->dim;
        const int limit = early && is_near ? 2 + a->guided
            : learns ? 4 + a->guided : GPUMC__MAX_DEPTH;
        chains[c]->depth_limit = chains[c]->max_treedepth < limit ? chains[c]->max_treedepth : limit;
    }
}

GPUMC_API int gpumc_adapt_update(gpumc_adapt *a, gpumc_nuts *const *chains)
{
    if (!a->started) {
        a->started = 1;
        if (a->options.num_warmup > 0) gpumc__adapt_begin(a, chains);
        return a->options.num_warmup > 0;
    }
    a->iteration++;
    if (a->iteration > a->final_start) {
        gpumc__adapt_mixing(a, chains);
        if (a->sampler != GPUMC_SAMPLER_NUTS) return gpumc__path_tune(a, chains);
    }
    gpumc__adapt_keep(a, chains);
    gpumc__adapt_watch(a, chains);
    gpumc__adapt_measure(a, chains);
    if (a->sampler == GPUMC_SAMPLER_NUTS) gpumc__adapt_step_size(a, chains);
    else gpumc__path_tune(a, chains);
    if (a->iteration <= a->final_start && (a->iteration % 10 == 0 || a->iteration == a->next_switch)) {
        const double eps = a->iteration > a->own_end ? gpumc__exp(a->dual.x_mean) : chains[0]->step_size;
        const int is_tree = a->sampler == GPUMC_SAMPLER_NUTS;    /* else a window may wait for its end */
        const int switches = a->iteration == a->next_switch;
        const size_t n_restarts = a->n_restarts;
        a->off_before = gpumc__adapt_off(a);
        if (is_tree || switches) {
            gpumc__adapt_learn(a, chains);
            if (a->iteration > a->own_end) gpumc__adapt_remeasure(a);
        }
        if (switches) gpumc__adapt_stop_early(a, n_restarts);
        if (a->iteration == a->final_start) gpumc__adapt_choose(a, chains, eps);
        else if (a->iteration > a->own_end) gpumc__adapt_try(a, chains, eps);
        a->residual = a->n_residual = 0;
    }
    gpumc__adapt_limit_trees(a, chains);
    if (a->iteration < a->options.num_warmup) return 1;
    for (size_t c = 0; c < a->n_chains && a->sampler == GPUMC_SAMPLER_NUTS; c++)
        gpumc_nuts_set_step_size(chains[c], a->dual.t > 0 ? gpumc__exp(a->dual.x_mean)
                                                          : chains[c]->step_size);
    return 0;
}

/* ===================================================================================== >>diagnose
   How far the draws of one quantity can be trusted, and what that says about a whole fit. Definitions are
   those of the R package posterior (Vehtari, Gelman, Simpson, Carpenter & Buerkner 2021, Bayesian Analysis
   16); smoothed importance weights those of loo (Vehtari, Simpson, Gelman, Yao & Gabry 2024). A quantity is
   worked out on a sheet: gathered once, sorted once. Read first: gpumc__look, gpumc__centre and gpumc__ess,
   through which every R-hat and every effective sample size goes. */

/* Flags of draws that have ranks at most. */
enum { GPUMC__NO_NUMBERS = GPUMC_FLAG_NAN | GPUMC_FLAG_INFINITE };

/* A value and where it stands on its sheet. */
typedef struct gpumc__ranked { double value; size_t index; } gpumc__ranked;

/* Chains are split in halves; the middle draw of an odd chain belongs to neither, only to the quantiles. */
typedef struct gpumc__sheet {
    size_t n_chains, n_draws, total, half, n_halves, kept;                      /* kept = n_halves * half */
    double *x, *y;                  /* all draws, chain by chain; the series under study */
    gpumc__ranked *sorted, *spare;  /* all of sorted_of ascending; what is being ranked */
    const double *sorted_of;
    double *scores;                 /* of ranks among kept values and of those between, once has_scores */
    double within, between;         /* mean variance of the halves of y, variance of their means */
    double *lags;                   /* autocovariances of y, mean over the halves; n_lags are known */
    double *wave;                   /* work of the Fourier transform, whose length is at least twice half */
    size_t n_lags, length;
    double *weights;                /* logarithms of importance weights */
    double mean, sd;                /* of all draws, by gpumc__take_moments */
    int has_scores, flags;
    const gpumc_allocator *allocator;
} gpumc__sheet;

static GPUMC_LOOP void gpumc__shift(const double *x, size_t n, double by, double *y)
{ for (size_t i = 0; i < n; i++) y[i] = x[i] - by; }

static GPUMC_LOOP void gpumc__exp_shifted(const double *x, size_t n, double by, double *y)
{ for (size_t i = 0; i < n; i++) y[i] = gpumc_exp(x[i] - by); }

/* y becomes x minus its mean, which is returned. Differences to the first number are what is summed, so that
   a large offset costs nothing and constant numbers have themselves as mean. */
static double gpumc__subtract_mean(const double *x, size_t n, double *y)
{
    const double first = x[0];
    gpumc__shift(x, n, first, y);
    const double rest = gpumc__sum(y, n) / (double)n;
    gpumc__shift(y, n, rest, y);
    return first + rest;
}

/* Mean and sum of squares about it, one number at a time (Welford 1962). */
typedef struct gpumc__tally { double n, mean, scatter; } gpumc__tally;

static void gpumc__count_in(gpumc__tally *t, double x)
{
    const double step = x - t->mean;
    t->n += 1;
    t->mean += step / t->n;
    t->scatter += step * (x - t->mean);
}

/* Variance, 0 for a single number. */
static double gpumc__tally_variance(const gpumc__tally *t) { return t->n > 1 ? t->scatter / (t->n - 1) : 0; }

/* ---- the sheet ----------------------------------------------------------------------------------- */

static int gpumc__flags_of_value(double x)
{ return gpumc__is_finite(x) ? 0 : gpumc__is_nan(x) ? GPUMC_FLAG_NAN : GPUMC_FLAG_INFINITE; }

/* Whether all are finite, and whether any is smaller or larger than the first. */
static GPUMC_LOOP int gpumc__all_finite(const double *x, size_t n, int *varies)
{
    const double first = x[0];
    uint64_t special = 0, different = 0;     /* into the top bit of a sum, exponents of all ones carry */
    for (size_t i = 0; i < n; i++) {
        special |= (gpumc__bits_of(x[i]) & ~GPUMC__SIGN_BIT) + 0x0010000000000000ULL;
        different |= (uint64_t)(x[i] < first) | (uint64_t)(x[i] > first);
    }
    *varies = different != 0;
    return !(special >> 63);
}

/* Copies a series of the sheet's shape and notes what is unusual about it. */
static void gpumc__fill_sheet(gpumc__sheet *s, gpumc_series series)
{
    const int strided = series.chain_stride || series.draw_stride;
    const size_t stride = strided ? series.draw_stride : 1;
    int one_varies = 0, one_is_constant = 0;
    s->flags = s->n_chains == 1 ? GPUMC_FLAG_ONE_CHAIN : 0;
    s->sorted_of = NULL;
    for (size_t c = 0; c < s->n_chains; c++) {
        const double *from = series.x + c * (strided ? series.chain_stride : s->n_draws), first = from[0];
        double *x = s->x + c * s->n_draws;
        int varies;
        for (size_t i = 0; i < s->n_draws; i++) x[i] = from[i * stride];
        if (!gpumc__all_finite(x, s->n_draws, &varies))
            for (size_t i = 0; i < s->n_draws; i++) s->flags |= gpumc__flags_of_value(x[i]);
        one_is_constant |= !varies;
        one_varies |= varies || first < s->x[0] || first > s->x[0];
    }
    if (s->flags & GPUMC_FLAG_NAN || !one_is_constant) return;
    s->flags |= one_varies ? GPUMC_FLAG_CONSTANT_CHAIN : GPUMC_FLAG_CONSTANT;
}

/* A sheet for series of this shape, filled with the first. On failure the flags say why and there is nothing
   to close. */
static int gpumc__open_series(gpumc__sheet *s, gpumc_series series, const gpumc_allocator *allocator)
{
    memset(s, 0, sizeof *s);
    s->flags = series.x && series.n_chains && series.n_draws ? GPUMC_FLAG_MEMORY : GPUMC_FLAG_FEW_DRAWS;
    if (s->flags == GPUMC_FLAG_FEW_DRAWS) return 0;
    s->allocator = allocator;
    s->n_chains = series.n_chains;
    s->n_draws = series.n_draws;
    s->total = gpumc__size_mul(s->n_chains, s->n_draws);
    s->half = s->n_draws / 2;
    s->n_halves = 2 * s->n_chains;
    s->kept = s->n_halves * s->half;
    for (s->length = 2; s->length < s->n_draws && s->length <= SIZE_MAX / 4; s->length *= 2) continue;
    const size_t of_chain = gpumc__size_add(gpumc__size_mul(6, s->length), s->half + GPUMC__LANES);
    const size_t room = gpumc__size_add(gpumc__size_mul(9, s->total), of_chain);     /* of ranked: two each */
    s->x = (double *)gpumc__allocate(allocator, gpumc__size_mul(room, sizeof(double)));
    if (!s->x) return 0;
    s->y = s->x + s->total;
    s->scores = s->y + s->total;
    s->weights = s->scores + 2 * s->total;
    s->lags = s->weights + s->total;
    s->wave = s->lags + s->half + GPUMC__LANES;
    s->sorted = (gpumc__ranked *)(s->wave + 6 * s->length);
    s->spare = s->sorted + s->total;
    gpumc__fill_sheet(s, series);
    return 1;
}

static void gpumc__close_sheet(gpumc__sheet *s) { gpumc__release(s->allocator, s->x); }

/* Mean and standard deviation of all draws; y becomes x minus the mean. */
static int gpumc__take_moments(gpumc__sheet *s)
{
    s->mean = s->sd = GPUMC_NAN;
    if (s->flags & GPUMC__NO_NUMBERS) return 0;
    s->mean = gpumc__subtract_mean(s->x, s->total, s->y);
    s->sd = sqrt(gpumc__dot(s->y, s->y, s->total) / ((double)s->total - 1));
    if (!gpumc__is_finite(s->mean)) s->flags |= GPUMC_FLAG_INFINITE;       /* the sum overflowed */
    return 1;
}

/* Integers that order as the numbers do; returns the bits in which they differ. */
static GPUMC_LOOP uint64_t gpumc__sort_keys(const double *GPUMC__RESTRICT x, size_t n,
                                            uint64_t *GPUMC__RESTRICT keys)
{
    uint64_t differ = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = gpumc__bits_of(x[i]);
        keys[i] = bits ^ ((0 - (bits >> 63)) | GPUMC__SIGN_BIT);
    }
    for (size_t i = 0; i < n; i++) differ |= keys[i] ^ keys[0];
    return differ;
}

/* One pass of a radix sort: by the eleven bits from low on, the order of equal ones kept. */
static void gpumc__sort_pass(const uint64_t *from, uint64_t *to, size_t n, unsigned low)
{
    size_t start[2048] = { 0 }, sum = 0;
    for (size_t i = 0; i < n; i++) start[from[i] >> low & 2047]++;
    for (int b = 0; b < 2048; b++) {
        sum += start[b];
        start[b] = sum - start[b];
    }
    for (size_t i = 0; i < n; i++) to[start[from[i] >> low & 2047]++] = from[i];
}

/* Puts right what the passes have left; gives up after so many steps. */
static int gpumc__sort_insert(gpumc__ranked *v, size_t n, size_t steps)
{
    for (size_t i = 1; i < n && steps > 0; i++) {
        const gpumc__ranked x = v[i];
        size_t k = i;
        for (; k > 0 && x.value < v[k - 1].value && steps > 0; k--, steps--) v[k] = v[k - 1];
        v[k] = x;
    }
    return steps > 0;
}

static int gpumc__compare_ranked(const void *a, const void *b)
{
    const gpumc__ranked *x = (const gpumc__ranked *)a, *y = (const gpumc__ranked *)b;
    const int by_value = (x->value > y->value) - (x->value < y->value);
    return by_value ? by_value : (x->index > y->index) - (x->index < y->index);
}

/* s->sorted becomes x ascending, equal values in their order. What is sorted are words: the bits of the key
   from the first in which values differ, of which the leading 33 tell nearly all of them apart, then the
   index. */
static void gpumc__sort(gpumc__sheet *s, const double *x)
{
    const size_t n = s->total;
    uint64_t *words = (uint64_t *)s->spare, *other = words + n;
    unsigned shift = 0, index_bits = 0;
    if (s->sorted_of == x) return;
    s->sorted_of = x;
    const uint64_t differ = gpumc__sort_keys(x, n, words);
    while (shift < 63 && !(differ >> (63 - shift))) shift++;
    while (n >> index_bits) index_bits++;
    for (size_t i = 0; i < n; i++) words[i] = words[i] << shift >> index_bits << index_bits | i;
    gpumc__sort_pass(words, other, n, 31);
    gpumc__sort_pass(other, words, n, 42);
    gpumc__sort_pass(words, other, n, 53);
    for (size_t k = 0; k < n; k++) {
        s->sorted[k].index = (size_t)(other[k] & (((uint64_t)1 << index_bits) - 1));
        s->sorted[k].value = x[s->sorted[k].index];
    }
    if (gpumc__sort_insert(s->sorted, n, 8 * n)) return;
    qsort(s->sorted, n, sizeof *s->sorted, gpumc__compare_ranked);
}

/* Type 7 of Hyndman & Fan (1996). */
static double gpumc__quantile(gpumc__sheet *s, double p)
{
    if (!(p >= 0 && p <= 1)) return GPUMC_NAN;
    gpumc__sort(s, s->x);
    const double position = p * (double)(s->total - 1);
    const size_t at = (size_t)position, next = at + 1 < s->total ? at + 1 : at;
    const double low = s->sorted[at].value, high = s->sorted[next].value;
    return low < high && position > (double)at ? low + (position - (double)at) * (high - low) : low;
}

/* ---- autocovariance ------------------------------------------------------------------------------ */

static double *gpumc__half(const gpumc__sheet *s, size_t h)
{ return s->y + h / 2 * s->n_draws + h % 2 * (s->n_draws - s->half); }

/* The next eight lags, summed one by one. */
static void gpumc__lags_directly(gpumc__sheet *s)
{
    for (size_t t = s->n_lags; t < s->n_lags + GPUMC__LANES && t < s->half; t++) {
        double sum = 0;
        for (size_t h = 0; h < s->n_halves; h++)
            sum += gpumc__dot(gpumc__half(s, h), gpumc__half(s, h) + t, s->half - t);
        s->lags[t] = sum / (double)s->kept;
    }
    s->n_lags += GPUMC__LANES;
}

/* sum_j z_j exp(-2 pi i jk / n) for all k; turn[k] = exp(-2 pi i k / n) for k < n / 2. Stockham's passes lead
   from one array to the other and leave the result in order; returns the array that holds it. */
static double *gpumc__fourier(double *z, double *other, const double *turn, size_t n)
{
    for (size_t stride = 1; stride < n; stride *= 2) {
        double *from = z, *to = other;
        for (size_t p = 0; p < n / 2; p += stride)
            for (size_t q = 0; q < stride; q++) {
                const double *a = from + 2 * (p + q), *b = a + n;
                double *sum = to + 2 * (2 * p + q), *difference = sum + 2 * stride;
                const double re = a[0] - b[0], im = a[1] - b[1];
                sum[0] = a[0] + b[0];
                sum[1] = a[1] + b[1];
                difference[0] = turn[2 * p] * re - turn[2 * p + 1] * im;
                difference[1] = turn[2 * p] * im + turn[2 * p + 1] * re;
            }
        z = to;
        other = from;
    }
    return z;
}

/* All further lags from the power spectrum. Two halves a and b go into one transform as a + ib: the inverse
   transform of its power has the sum of both autocovariances as its real part. */
static void gpumc__lags_by_spectrum(gpumc__sheet *s)
{
    const size_t n = s->length;
    double *z = s->wave, *other = z + 2 * n, *power = other + 2 * n, *turn = power + n;
    for (size_t k = 0; k < n / 2; k++)
        gpumc_sincos_2pi(-(double)k / (double)n, &turn[2 * k + 1], &turn[2 * k]);
    memset(power, 0, n * sizeof(double));
    for (size_t h = 0; h < s->n_halves; h += 2) {
        const double *pair[] = { gpumc__half(s, h), gpumc__half(s, h + 1) };
        memset(z, 0, 2 * n * sizeof(double));
        for (size_t i = 0; i < 2 * s->half; i++) z[i] = pair[i % 2][i / 2];
        const double *spectrum = gpumc__fourier(z, other, turn, n);
        for (size_t k = 0; k < 2 * n; k++) power[k / 2] += spectrum[k] * spectrum[k];
    }
    memset(z, 0, 2 * n * sizeof(double));
    for (size_t k = 0; k < n; k++) z[2 * k] = power[k];
    z = gpumc__fourier(z, other, turn, n);
    for (size_t t = s->n_lags; t < s->half; t++) s->lags[t] = z[2 * t] / ((double)n * (double)s->kept);
    s->n_lags = s->half;
}

/* Autocovariance of y at lag t < half. Few lags are wanted of chains that mix: the transform comes late. */
static double gpumc__lag(gpumc__sheet *s, size_t t)
{
    while (s->n_lags <= t) {
        if (s->n_lags < 64) gpumc__lags_directly(s);
        else gpumc__lags_by_spectrum(s);
    }
    return s->lags[t];
}

/* ---- R-hat and effective sample size of y -------------------------------------------------------- */

/* Centres each half of y, exactly for constant ones, and compares the halves. */
static void gpumc__centre(gpumc__sheet *s)
{
    gpumc__tally means = { 0, 0, 0 };
    double sum = 0;
    s->n_lags = 0;
    s->within = s->between = GPUMC_NAN;
    if (s->half < 2) s->flags |= GPUMC_FLAG_FEW_DRAWS;
    if (s->half < 2) return;
    for (size_t h = 0; h < s->n_halves; h++) {
        double *y = gpumc__half(s, h);
        gpumc__count_in(&means, gpumc__subtract_mean(y, s->half, y));
        sum += gpumc__dot(y, y, s->half);
    }
    s->within = sum / ((double)s->kept - (double)s->n_halves);
    s->between = gpumc__tally_variance(&means);
}

/* sqrt(B / (n W) + (n - 1) / n) */
static double gpumc__r_hat(const gpumc__sheet *s)
{
    const double n = (double)s->half;
    if (!gpumc__is_finite(s->within)) return GPUMC_NAN;
    if (!(s->within > 0)) return s->between > 0 ? GPUMC_INF : GPUMC_NAN;
    return sqrt(s->between / s->within + (n - 1) / n);
}

/* Geyer's (1992) initial monotone sequence: autocorrelations in pairs as long as a pair is positive, no pair
   larger than the one before. Replaces s->lags by the sequence and returns its last index. */
static size_t gpumc__geyer_sequence(gpumc__sheet *s)
{
    const double n = (double)s->half, first = gpumc__lag(s, 0);
    const double within = first * n / (n - 1), all = first + s->between;
    double *r = s->lags;
    size_t t = 0;
    r[1] = 1 - (within - gpumc__lag(s, 1)) / all;
    for (r[0] = 1; t + 5 < s->half && r[t] + r[t + 1] > 0;) {
        t += 2;
        for (size_t k = t; k < t + 2; k++) r[k] = 1 - (within - gpumc__lag(s, k)) / all;
    }
    if (!(r[t] > 0 || r[t] + r[t + 1] >= 0)) r[t] = 0;
    for (size_t k = 2; k + 2 <= t; k += 2)
        if (r[k] + r[k + 1] > r[k - 2] + r[k - 1]) r[k] = r[k + 1] = (r[k - 2] + r[k - 1]) / 2;
    return t;
}

/* kept / tau, with tau at least 1 / log10 kept */
static double gpumc__ess(gpumc__sheet *s)
{
    const double bound = 1 / log10((double)s->kept), all = s->within + s->between;
    if (s->half < 6) s->flags |= GPUMC_FLAG_FEW_DRAWS;
    if (s->half < 6 || !(all > 0 && gpumc__is_finite(all))) return GPUMC_NAN;
    const size_t last = gpumc__geyer_sequence(s);
    const double tau = last ? 2 * gpumc__sum(s->lags, last) + s->lags[last] - 1 : 0;
    if (tau < bound) s->flags |= GPUMC_FLAG_CAPPED;
    return (double)s->kept / fmax(tau, bound);
}

/* Normal scores of the ranks 0, 1/2, 1, ... n - 1: ties share the score of their mean rank. */
static GPUMC_LOOP void gpumc__fill_scores(double *scores, size_t n)
{
    const double scale = 1 / ((double)n + 0.25);
    for (size_t i = 0; i < n; i++) scores[i] = gpumc_inv_Phi((0.5 * (double)i + 0.625) * scale);
    for (size_t i = n; i + 1 < 2 * n; i++) scores[i] = -scores[2 * n - 2 - i];
}

static int gpumc__is_kept(const gpumc__sheet *s, size_t index)
{ return s->n_draws % 2 == 0 || index % s->n_draws != s->half; }

/* y becomes the normal scores of the kept values in s->spare, which stand there in ascending order. */
static void gpumc__score(gpumc__sheet *s)
{
    const gpumc__ranked *v = s->spare;
    const size_t n = s->kept;
    if (!s->has_scores) gpumc__fill_scores(s->scores, n);
    s->has_scores = 1;
    for (size_t a = 0, b; a < n; a = b) {
        for (b = a + 1; b < n && v[b].value <= v[a].value; b++) continue;
        for (size_t k = a; k < b; k++) s->y[v[k].index] = s->scores[a + b - 1];
    }
}

static void gpumc__score_values(gpumc__sheet *s)
{
    size_t n = 0;
    gpumc__sort(s, s->x);
    for (size_t k = 0; k < s->total; k++)
        if (gpumc__is_kept(s, s->sorted[k].index)) s->spare[n++] = s->sorted[k];
    gpumc__score(s);
}

/* Scores of the distances to the median: the largest of what is left stands at either end. Which one nobody
   can predict, so there is no branch. */
static GPUMC_LOOP void gpumc__score_distances(gpumc__sheet *s, double median)
{
    const gpumc__ranked *v = s->sorted;
    size_t low = 0, high = s->total - 1;
    for (size_t n = s->kept; n > 0;) {
        const size_t is_low = median - v[low].value > v[high].value - median;
        const size_t at = high ^ ((high ^ low) & (0 - is_low));
        s->spare[n - 1].value = fabs(v[at].value - median);
        s->spare[n - 1].index = v[at].index;
        n -= (size_t)gpumc__is_kept(s, v[at].index);
        low += is_low;
        high -= 1 - is_low;
    }
    gpumc__score(s);
}

typedef enum gpumc__view {
    GPUMC__VALUES,
    GPUMC__SQUARES,                       /* ((x - mean) / sd)^2 */
    GPUMC__BELOW,                         /* x <= quantile p */
    GPUMC__SCORES,                        /* the two by ranks, which may be of infinite values */
    GPUMC__DISTANCES
} gpumc__view;

/* y becomes a view, centred. Returns 0 where there is none. */
static int gpumc__look(gpumc__sheet *s, gpumc__view view, double p)
{
    if (view < GPUMC__SCORES && s->flags & GPUMC__NO_NUMBERS) return 0;
    if (view <= GPUMC__SQUARES) gpumc__take_moments(s);
    if (view == GPUMC__SCORES) gpumc__score_values(s);
    if (view == GPUMC__BELOW || view == GPUMC__DISTANCES) {
        const double limit = gpumc__quantile(s, view == GPUMC__DISTANCES ? 0.5 : p);
        if (!gpumc__is_finite(limit)) return 0;
        if (view == GPUMC__DISTANCES) gpumc__score_distances(s, limit);
        else for (size_t i = 0; i < s->total; i++) s->y[i] = s->x[i] <= limit;
    }
    for (size_t i = 0; view == GPUMC__SQUARES && i < s->total; i++)
        s->y[i] = (s->y[i] / s->sd) * (s->y[i] / s->sd);
    gpumc__centre(s);
    return 1;
}

static double gpumc__r_hat_of(gpumc__sheet *s, gpumc__view view)
{ return gpumc__look(s, view, 0) ? gpumc__r_hat(s) : GPUMC_NAN; }

/* Of p = 1 a draw is left above, or the view would be constant. */
static double gpumc__ess_of(gpumc__sheet *s, gpumc__view view, double p)
{ return gpumc__look(s, view, p == 1 ? 1 - 0.5 / (double)s->total : p) ? gpumc__ess(s) : GPUMC_NAN; }

/* ---- statistics ---------------------------------------------------------------------------------- */

/* Margossian et al. (2024): superchains are compared by their means; the variance within one is the mean
   variance of its chains plus the variance of their means. */
static double gpumc__r_hat_nested(gpumc__sheet *s, size_t n_super)
{
    const size_t each = n_super ? s->n_chains / n_super : 0;
    gpumc__tally super_means = { 0, 0, 0 };
    double within = 0;
    if (n_super < 2 || each * n_super != s->n_chains || !gpumc__take_moments(s)) return GPUMC_NAN;
    for (size_t c = 0; c < s->n_chains; c += each) {
        gpumc__tally chain_means = { 0, 0, 0 };
        for (size_t k = c; k < c + each; k++) {
            gpumc__tally chain = { 0, 0, 0 };
            for (size_t i = 0; i < s->n_draws; i++) gpumc__count_in(&chain, s->y[k * s->n_draws + i]);
            gpumc__count_in(&chain_means, chain.mean);
            within += gpumc__tally_variance(&chain) / (double)s->n_chains;
        }
        gpumc__count_in(&super_means, chain_means.mean);
        within += gpumc__tally_variance(&chain_means) / (double)n_super;
    }
    return sqrt(1 + gpumc__tally_variance(&super_means) / within);
}

/* Delta method: sd(c^2) / sqrt(ESS) / (2 sd), with c = x - mean. */
static double gpumc__mcse_sd(gpumc__sheet *s)
{
    const double ess = gpumc__ess_of(s, GPUMC__SQUARES, 0), n = (double)s->total;
    double fourth = 0;
    if (!(ess > 0) || !gpumc__take_moments(s)) return GPUMC_NAN;
    const double variance = gpumc__dot(s->y, s->y, s->total) / n;
    for (size_t i = 0; i < s->total; i++) fourth += pow(s->y[i] * (s->y[i] / variance), 2);
    return sqrt(variance * (fourth / n - 1) / ess / 4);
}

/* Half the distance of the draws one standard deviation of the rank's beta distribution to either side. */
static double gpumc__mcse_quantile(gpumc__sheet *s, double p)
{
    const double n = (double)s->total, ess = gpumc__ess_of(s, GPUMC__BELOW, p);
    const double a = ess * p + 1, b = ess * (1 - p) + 1;
    if (!(ess > 0)) return GPUMC_NAN;
    const double lower = fmin(fmax(floor(gpumc_beta_quantile(0.1586553, a, b) * n), 1), n);
    const double upper = fmin(fmax(ceil(gpumc_beta_quantile(0.8413447, a, b) * n), 1), n);
    return (s->sorted[(size_t)upper - 1].value - s->sorted[(size_t)lower - 1].value) / 2;
}

static gpumc_stat gpumc__stat(double value, int flags)
{
    const gpumc_stat stat = { value, flags };
    return stat;
}

static gpumc_stat gpumc__measure(gpumc_series series, double (*statistic)(gpumc__sheet *, double), double p)
{
    gpumc__sheet s;
    const int open = gpumc__open_series(&s, series, NULL);
    const double value = !open || s.flags & GPUMC_FLAG_NAN ? GPUMC_NAN : statistic(&s, p);
    gpumc__close_sheet(&s);
    return gpumc__stat(value, s.flags);
}

/* A public statistic from what it is of a sheet; the second kind has an argument. */
#define GPUMC__STATISTIC(name, of_sheet) \
    static double gpumc__stat_##name(gpumc__sheet *s, double p) { (void)p; return of_sheet; } \
    GPUMC_API gpumc_stat gpumc_##name(gpumc_series s) { return gpumc__measure(s, gpumc__stat_##name, 0); }
#define GPUMC__STATISTIC_AT(name, type, p, of_sheet) \
    static double gpumc__stat_##name(gpumc__sheet *s, double p) { return of_sheet; } \
    GPUMC_API gpumc_stat gpumc_##name(gpumc_series s, type p) \
    { return gpumc__measure(s, gpumc__stat_##name, (double)p); }

GPUMC__STATISTIC(mean, gpumc__take_moments(s) ? s->mean : GPUMC_NAN)
GPUMC__STATISTIC(sd, gpumc__take_moments(s) ? s->sd : GPUMC_NAN)
GPUMC__STATISTIC_AT(quantile, double, p, s->flags & GPUMC__NO_NUMBERS ? GPUMC_NAN : gpumc__quantile(s, p))
GPUMC__STATISTIC(r_hat, fmax(gpumc__r_hat_of(s, GPUMC__SCORES), gpumc__r_hat_of(s, GPUMC__DISTANCES)))
GPUMC__STATISTIC(r_hat_basic, gpumc__r_hat_of(s, GPUMC__VALUES))
GPUMC__STATISTIC_AT(r_hat_nested, size_t, n_super, gpumc__r_hat_nested(s, (size_t)n_super))
GPUMC__STATISTIC(ess_bulk, gpumc__ess_of(s, GPUMC__SCORES, 0))
/* A quantile of discrete draws can be one that no draw exceeds; then the other tail speaks alone. */
GPUMC__STATISTIC(ess_tail, fmin(gpumc__ess_of(s, GPUMC__BELOW, 0.05), gpumc__ess_of(s, GPUMC__BELOW, 0.95)))
GPUMC__STATISTIC(ess_mean, gpumc__ess_of(s, GPUMC__VALUES, 0))
GPUMC__STATISTIC(ess_sd, gpumc__ess_of(s, GPUMC__SQUARES, 0))
GPUMC__STATISTIC_AT(ess_quantile, double, p, gpumc__ess_of(s, GPUMC__BELOW, p))
GPUMC__STATISTIC(mcse_mean, gpumc__take_moments(s) ? s->sd / sqrt(gpumc__stat_ess_mean(s, 0)) : s->sd)
GPUMC__STATISTIC(mcse_sd, gpumc__mcse_sd(s))
GPUMC__STATISTIC_AT(mcse_quantile, double, p, gpumc__mcse_quantile(s, p))
#undef GPUMC__STATISTIC
#undef GPUMC__STATISTIC_AT

/* Mean squared step of the energy over its variance (Betancourt 2016). */
GPUMC_API gpumc_stat gpumc_ebfmi(const double *energy, size_t n, size_t stride)
{
    gpumc__tally differences = { 0, 0, 0 };       /* to the first energy */
    double steps = 0;
    int flags = n < 4 ? GPUMC_FLAG_FEW_DRAWS : 0;
    for (size_t i = 0; i < n; i++) {
        const double e = energy[i * stride], step = i ? e - energy[(i - 1) * stride] : 0;
        flags |= gpumc__flags_of_value(e);
        gpumc__count_in(&differences, e - energy[0]);
        steps += step * step;
    }
    if (!flags && !(steps > 0)) flags = GPUMC_FLAG_CONSTANT;
    return gpumc__stat(flags ? GPUMC_NAN : steps / differences.scatter, flags);
}

/* The narrowest interval between draws floor(mass S) apart; meaningful for one mode only. */
GPUMC_API gpumc_stat gpumc_hdi(gpumc_series series, double mass, double *lower, double *upper)
{
    gpumc__sheet s;
    double low = GPUMC_NAN, high = GPUMC_NAN;
    const int done = gpumc__open_series(&s, series, NULL) && !(s.flags & GPUMC__NO_NUMBERS);
    const size_t apart = done && mass > 0 && mass < 1 ? (size_t)(mass * (double)s.total) : 0;
    if (apart) gpumc__sort(&s, s.x);
    for (size_t i = 0; apart && i + apart < s.total; i++) {
        if (s.sorted[i + apart].value - s.sorted[i].value >= high - low) continue;
        low = s.sorted[i].value;
        high = s.sorted[i + apart].value;
    }
    gpumc__close_sheet(&s);
    if (lower) *lower = low;
    if (upper) *upper = high;
    return gpumc__stat(high - low, s.flags);
}

/* ---- importance weights -------------------------------------------------------------------------- */

static GPUMC_LOOP double gpumc__mean_log1p(const double *y, size_t n, double theta, double *work)
{
    for (size_t i = 0; i < n; i++) work[i] = gpumc_log1p(-theta * y[i]);
    return gpumc__sum(work, n) / (double)n;
}

/* Generalised Pareto distribution fitted to ascending y by Zhang & Stephens (2009), a running average over
   their grid. Returns k shrunk towards 1/2 with the weight of ten observations, infinity where the fit fails.
   work: n. */
static double gpumc__fit_pareto(const double *y, size_t n, double *work, double *sigma)
{
    const double count = (double)n, m = 30 + floor(sqrt(count));
    const double quartile = y[(size_t)(count / 4 + 0.5) - 1];
    double largest = -GPUMC_INF, total = 0, theta = 0;
    for (double j = 0.5; j < m && quartile > y[0]; j++) {
        const double t = 1 / y[n - 1] + (1 - sqrt(m / j)) / (3 * quartile);
        const double mean = gpumc__mean_log1p(y, n, t, work), l = count * (log(-t / mean) - mean - 1);
        const double fade = l > largest ? exp(largest - l) : 1, weight = l > largest ? 1 : exp(l - largest);
        largest = l > largest ? l : largest;
        total = total * fade + weight;
        theta = theta * fade + weight * t;
    }
    theta /= total;                       /* 0 / 0 where the quartile is the smallest */
    const double k = gpumc__mean_log1p(y, n, theta, work);
    *sigma = -k / theta;
    return gpumc__is_nan(k / theta) ? GPUMC_INF : (count * k + 5) / (count + 10);
}

/* Replaces the n_tail largest log ratios, whose maximum is 0, by expected order statistics of the fit: its
   quantiles sigma ((1 - p)^-k - 1) / k above the next smaller ratio. */
static double gpumc__smooth_tail(gpumc__sheet *s, double *log_ratios, size_t n_tail)
{
    double sigma;
    gpumc__sort(s, log_ratios);
    const gpumc__ranked *tail = s->sorted + (s->total - n_tail);
    const double cutoff = exp(tail[-1].value);
    if (tail[n_tail - 1].value - tail[0].value < DBL_EPSILON / 100) {
        s->flags |= GPUMC_FLAG_CONSTANT;
        return GPUMC_INF;
    }
    for (size_t i = 0; i < n_tail; i++) s->y[i] = exp(tail[i].value) - cutoff;
    const double k = gpumc__fit_pareto(s->y, n_tail, s->y + n_tail, &sigma);
    for (size_t i = 0; i < n_tail && gpumc__is_finite(k); i++) {
        const double t = -log1p(-((double)i + 0.5) / (double)n_tail);
        const double excess = k != 0 ? sigma * expm1(k * t) / k : sigma * t;
        log_ratios[tail[i].index] = fmin(0, log(cutoff + excess));
    }
    return k;
}

/* Pareto-smooths as many log ratios as the sheet has values, of finite maximum, and normalises them; returns
   k, ess receives r_eff / sum of squared weights. */
static double gpumc__smooth_weights(gpumc__sheet *s, double *log_ratios, double r_eff, double *ess)
{
    const size_t n = s->total, n_tail = (size_t)ceil(fmin(0.2 * (double)n, 3 * sqrt((double)n / r_eff)));
    gpumc__shift(log_ratios, n, gpumc__largest(log_ratios, n), log_ratios);
    if (n_tail < 5) s->flags |= GPUMC_FLAG_FEW_DRAWS;
    const double k = n_tail < 5 ? GPUMC_INF : gpumc__smooth_tail(s, log_ratios, n_tail);
    gpumc__exp_shifted(log_ratios, n, 0, s->y);
    const double total = gpumc__sum(s->y, n);
    *ess = r_eff * total * total / gpumc__dot(s->y, s->y, n);
    gpumc__shift(log_ratios, n, log(total), log_ratios);
    return k;
}

GPUMC_API gpumc_stat gpumc_psis(double *log_ratios, size_t n, double r_eff, double *ess)
{
    const gpumc_series series = { log_ratios, 1, n, 0, 0 };
    gpumc__sheet s;
    double k = GPUMC_NAN, effective = GPUMC_NAN;
    if (gpumc__open_series(&s, series, NULL)) s.flags &= GPUMC_FLAG_NAN;
    if (!s.flags && !gpumc__is_finite(gpumc__largest(log_ratios, n))) s.flags = GPUMC_FLAG_INFINITE;
    if (!s.flags) k = gpumc__smooth_weights(&s, log_ratios, r_eff > 0 ? r_eff : 1, &effective);
    gpumc__close_sheet(&s);
    if (ess) *ess = effective;
    return gpumc__stat(k, s.flags);
}

/* ---- columns of a fit ---------------------------------------------------------------------------- */

GPUMC_API gpumc_series gpumc_fit_series(const gpumc_fit *fit, size_t column)
{
    const gpumc_series none = { NULL, 0, 0, 0, 0 };
    if (!fit || !fit->draws || column >= fit->n_columns) return none;
    const gpumc_series s = { fit->draws + column, fit->n_chains, fit->n_draws,
                             gpumc__size_mul(fit->draw_capacity, fit->n_columns), fit->n_columns };
    return s;
}

/* Everything from one sort; the scores serve both R-hat and bulk ESS. */
static gpumc_summary gpumc__summarise_sheet(gpumc__sheet *s)
{
    const double nan = GPUMC_NAN;
    gpumc_summary r = { nan, nan, nan, nan, nan, nan, nan, nan, nan, s->flags };
    if (s->flags & (GPUMC_FLAG_NAN | GPUMC_FLAG_MEMORY) || !s->total) return r;
    r.mcse = gpumc__stat_mcse_mean(s, 0);
    r.mean = s->mean;
    r.sd = s->sd;
    r.q5 = gpumc__stat_quantile(s, 0.05);
    r.q50 = gpumc__stat_quantile(s, 0.5);
    r.q95 = gpumc__stat_quantile(s, 0.95);
    r.ess_bulk = gpumc__stat_ess_bulk(s, 0);
    r.r_hat = gpumc__r_hat(s);
    r.r_hat = fmax(r.r_hat, gpumc__r_hat_of(s, GPUMC__DISTANCES));
    r.ess_tail = gpumc__stat_ess_tail(s, 0);
    r.flags = s->flags;
    return r;
}

/* As kept in the fit, or worked out on a sheet of its shape. */
static int gpumc__summary_is_kept(const gpumc_fit *fit, size_t column)
{ return fit && fit->summaries && column < fit->n_columns && fit->summaries[column].flags >= 0; }
static gpumc_summary gpumc__summary_of(const gpumc_fit *fit, size_t column, gpumc__sheet *s)
{
    if (gpumc__summary_is_kept(fit, column)) return fit->summaries[column];
    gpumc__fill_sheet(s, gpumc_fit_series(fit, column));
    return gpumc__summarise_sheet(s);
}

GPUMC_API gpumc_summary gpumc_summarise(const gpumc_fit *fit, size_t column)
{
    gpumc__sheet s;
    if (gpumc__summary_is_kept(fit, column)) return fit->summaries[column];
    gpumc__open_series(&s, gpumc_fit_series(fit, column), fit ? &fit->allocator : NULL);
    const gpumc_summary r = gpumc__summarise_sheet(&s);
    gpumc__close_sheet(&s);
    return r;
}

static const gpumc_block *gpumc__block_of(const gpumc_fit *fit, size_t column)
{
    const gpumc_block *b = fit->blocks;
    while (column - b->offset >= b->size) b++;
    return b;
}

/* Each sheet takes every n-th column. */
typedef struct gpumc__summarising {
    gpumc_fit *fit;
    size_t n_sheets;
    gpumc__sheet *sheets;
} gpumc__summarising;
static void gpumc__summarise_part(size_t part, int member, void *user)
{
    const gpumc__summarising *u = (const gpumc__summarising *)user;
    gpumc_fit *f = u->fit;
    (void)member;
    for (size_t c = part; c < f->n_columns; c += u->n_sheets)
        if (gpumc__block_of(f, c)->group == GPUMC_GENERATED)
            f->summaries[c] = gpumc__summary_of(f, c, &u->sheets[part]);
}
static gpumc_status gpumc__summarise_all(gpumc_fit *fit, gpumc_team *team)
{
    const size_t threads = (size_t)gpumc_team_threads(team), most = fit->n_columns / 8 + 1;
    const size_t wanted = threads < most ? threads : most;
    gpumc__summarising u = { fit, 0, NULL };      /* as many sheets as there is memory for */
    u.sheets = (gpumc__sheet *)gpumc__allocate(&fit->allocator, wanted * sizeof(gpumc__sheet));
    while (u.sheets && u.n_sheets < wanted && gpumc__open_series(&u.sheets[u.n_sheets],
                                                                 gpumc_fit_series(fit, 0), &fit->allocator))
        u.n_sheets++;
    gpumc_team_run(team, gpumc__summarise_part, u.n_sheets, &u);
    for (size_t i = 0; i < u.n_sheets; i++) gpumc__close_sheet(&u.sheets[i]);
    gpumc__release(&fit->allocator, u.sheets);
    return u.n_sheets ? GPUMC_OK : GPUMC_ERROR_MEMORY;
}

/* Leaves out the observation whose log likelihoods are on the sheet: log p(y_i | y_-i) by smoothed weights
   1 / p(y_i | draw). */
static void gpumc__leave_out(gpumc__sheet *s, gpumc_loo *loo, gpumc__tally *tally, double *elpds, double *ks)
{
    const size_t n = s->total, at = loo->n_observations++;
    double *w = s->weights, weights_ess;
    gpumc__exp_shifted(s->x, n, gpumc__largest(s->x, n), s->y);
    gpumc__centre(s);
    const double ess = gpumc__ess(s);     /* of the likelihood; taken for n where it cannot be told */
    for (size_t i = 0; i < n; i++) w[i] = -s->x[i];
    const double k = gpumc__smooth_weights(s, w, ess > 0 ? ess / (double)s->kept : 1, &weights_ess);
    for (size_t i = 0; i < n; i++) w[i] += s->x[i];
    const double elpd = gpumc__log_sum_exp_of(w, n);
    gpumc__count_in(tally, elpd);
    loo->elpd += elpd;
    loo->p_loo += gpumc__log_sum_exp_of(s->x, n) - log((double)n) - elpd;
    loo->worst_k = at ? fmax(loo->worst_k, k) : k;
    loo->n_bad_k += k > loo->k_threshold;
    if (elpds) elpds[at] = elpd;
    if (ks) ks[at] = k;
}

/* Leaves out every observation in turn, and calls then, unless it is NULL, behind each. Returns the first
   column with log likelihoods that are not finite, SIZE_MAX where all are. */
static size_t gpumc__leave_each_out(const gpumc_fit *fit, gpumc__sheet *s, gpumc_loo *loo, double *elpds,
                                    double *ks, void (*then)(void *user, size_t observation), void *user)
{
    gpumc__tally tally = { 0, 0, 0 };
    memset(loo, 0, sizeof *loo);
    loo->k_threshold = fmin(1 - 1 / log10((double)s->total), 0.7);
    for (size_t c = 0; c < fit->n_columns; c++) {
        if (gpumc__block_of(fit, c)->group != GPUMC_LOG_LIKELIHOOD) continue;
        gpumc__fill_sheet(s, gpumc_fit_series(fit, c));
        if (s->flags & GPUMC__NO_NUMBERS) return c;
        gpumc__leave_out(s, loo, &tally, elpds, ks);
        if (then) then(user, loo->n_observations - 1);
    }
    loo->se = sqrt(tally.n * gpumc__tally_variance(&tally));
    loo->looic = -2 * loo->elpd;
    return SIZE_MAX;
}

GPUMC_API gpumc_status gpumc_loo_psis(const gpumc_fit *fit, gpumc_loo *loo, double *pointwise_elpd,
                                      double *pareto_k, gpumc_error *error)
{
    gpumc_loo sums;
    gpumc__sheet s;
    char name[128];
    if (loo) memset(loo, 0, sizeof *loo);
    if (!fit || !loo) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "%s is NULL", fit ? "loo" : "fit");
    if (!gpumc__open_series(&s, gpumc_fit_series(fit, 0), &fit->allocator))
        return s.flags & GPUMC_FLAG_MEMORY
             ? gpumc__fail(error, GPUMC_ERROR_MEMORY, "out of memory for %.0f draws", (double)s.total)
             : gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "fit holds no draws; sample without discard_draws");
    const size_t bad = gpumc__leave_each_out(fit, &s, &sums, pointwise_elpd, pareto_k, NULL, NULL);
    gpumc__close_sheet(&s);
    if (bad != SIZE_MAX) {
        gpumc_column_name(fit, bad, name, sizeof name);
        return gpumc__fail(error, GPUMC_ERROR_NUMERIC, "%s has draws that are not finite; leaving out needs "
                           "finite log likelihoods", name);
    }
    if (!sums.n_observations)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "the model has no output block of group "
                           "GPUMC_LOG_LIKELIHOOD; declare one with the log likelihood of each observation");
    *loo = sums;
    return GPUMC_OK;
}

GPUMC_API gpumc_status gpumc_loo_compare(const double *elpd_a, const double *elpd_b, size_t n,
                                         double *difference, double *se, gpumc_error *error)
{
    gpumc__tally tally = { 0, 0, 0 };
    if (!elpd_a || !elpd_b || !difference || !se || n < 2)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "%s", n < 2 ? "n is below 2: nothing to compare"
                           : "elpd_a, elpd_b, difference or se is NULL");
    *difference = 0;
    for (size_t i = 0; i < n; i++) {
        *difference += elpd_a[i] - elpd_b[i];
        gpumc__count_in(&tally, elpd_a[i] - elpd_b[i]);
    }
    *se = sqrt((double)n * gpumc__tally_variance(&tally));
    return GPUMC_OK;
}

/* ---- numbers in print, whatever the locale ------------------------------------------------------- */

enum { GPUMC__CELL = 40, GPUMC__NAMES = 160, GPUMC__MAX_ROWS = 12, GPUMC__LONGEST_NAME = 32 };

static int gpumc__is_digit(char c) { return c >= '0' && c <= '9'; }

/* Puts a point where the radix of a locale, a comma or the Arabic U+066B, stands between digits, but not in
   names like theta[1,2]. */
static void gpumc__put_points(char *text)
{
    int in_name = 0;
    for (char *at = text; *at; at++) {
        const size_t length = *at == ',' ? 1 : strncmp(at, "\xd9\xab", 2) == 0 ? 2 : 0;
        in_name = *at == '[' || (in_name && *at != ']' && *at != ' ');
        if (in_name || !length || at == text || !gpumc__is_digit(at[-1]) || !gpumc__is_digit(at[length]))
            continue;
        *at = '.';
        memmove(at + 1, at + length, strlen(at + length) + 1);
    }
}

/* Exponent of the leading digit of a finite number once it is rounded to so many digits, else 0. */
static int gpumc__leading_exponent(double x, int digits)
{
    char text[GPUMC__CELL];
    snprintf(text, sizeof text, "%.*e", digits - 1, x);
    return gpumc__is_finite(x) ? atoi(strchr(text, 'e') + 1) : 0;
}

/* x with a fixed number of decimals, halves up; neither nan nor what is rounded to zero has a sign. */
static const char *gpumc__fixed(double x, int decimals, char *text)
{
    if (!(fabs(x) >= 0.5 * pow(10, -decimals))) x = fabs(x);
    snprintf(text, GPUMC__CELL, "%.*f", decimals, x * (1 + 4 * DBL_EPSILON));
    gpumc__put_points(text);
    return text;
}

/* x with decimals where that fits a narrow column, else d.dde+dd with as many of its digits as fit. */
static const char *gpumc__decimal(double x, int decimals, char *text)
{
    if (!gpumc__is_finite(x) || (decimals <= 6 && fabs(x) < 1e7))
        return gpumc__fixed(x, decimals < 0 ? 0 : decimals, text);
    const int digits = gpumc__leading_exponent(x, 4) + decimals;
    snprintf(text, GPUMC__CELL, "%.*e", digits < 0 ? 0 : digits > 3 ? 3 : digits, x);
    gpumc__put_points(text);
    return text;
}

/* x with so many significant digits. */
static const char *gpumc__significant(double x, int digits, char *text)
{ return gpumc__decimal(x, digits - 1 - gpumc__leading_exponent(x, digits), text); }

/* ---- warnings ------------------------------------------------------------------------------------ */

/* Appends a warning to the fit, or a note. */
static GPUMC__PRINTF(5, 6) gpumc_status
    gpumc__warn(gpumc_fit *fit, gpumc_warning_code code, int note, double value, const char *format, ...)
{
    const size_t n = fit->n_warnings;
    gpumc_warning *all = (gpumc_warning *)gpumc__allocate(&fit->allocator, (n + 1) * sizeof *all);
    if (!all) return GPUMC_ERROR_MEMORY;
    if (n) memcpy(all, fit->warnings, n * sizeof *all);
    gpumc__release(&fit->allocator, fit->warnings);
    fit->warnings = all;
    gpumc_warning *w = &all[fit->n_warnings++];
    va_list arguments;
    w->code = code;
    w->note = note;
    w->value = value;
    va_start(arguments, format);
    vsnprintf(w->text, sizeof w->text, format, arguments);
    va_end(arguments);
    if (code != GPUMC_W_CHECKPOINT) gpumc__put_points(w->text);       /* which has the names of files */
    return GPUMC_OK;
}

/* How many columns or chains fail a check, and the three that fail it most. */
typedef struct gpumc__worst { double count, value[3]; size_t which[3]; } gpumc__worst;

static void gpumc__add_worst(gpumc__worst *w, size_t which, double value)
{
    size_t at = w->count < 3 ? (size_t)w->count : 2;
    if (w->count++ >= 3 && !(value > w->value[2])) return;
    for (; at > 0 && value > w->value[at - 1]; at--) {
        w->which[at] = w->which[at - 1];
        w->value[at] = w->value[at - 1];
    }
    w->which[at] = which;
    w->value[at] = value;
}

/* The first few columns: "tau 1.034, theta[3] 1.021", or "tau, theta[3], ..." where decimals is negative. */
static const char *gpumc__name_worst(const gpumc_fit *fit, const gpumc__worst *w, size_t most, int decimals,
                                     char *text)
{
    size_t n = 0;
    text[0] = 0;
    for (size_t k = 0; (double)k < w->count && k < most; k++) {
        char name[33], value[GPUMC__CELL];
        gpumc_column_name(fit, w->which[k], name, sizeof name);
        n += (size_t)snprintf(text + n, GPUMC__NAMES - n, "%s%s%s%s", k ? ", " : "", name,
                              decimals < 0 ? "" : " ",
                              decimals < 0 ? "" : gpumc__fixed(fabs(w->value[k]), decimals, value));
    }
    if (decimals < 0 && w->count > (double)most) snprintf(text + n, GPUMC__NAMES - n, ", ...");
    return text;
}

/* What one pass over the chains and one over the columns of a fit has found. */
typedef struct gpumc__review {
    gpumc_fit *fit;
    gpumc__sheet sheet;
    double draws, divergent, deep, accept, residual, still; /* sums over draws that have statistics */
    double n_columns, constant_params;
    gpumc__worst stuck, slow, held;                         /* chains */
    gpumc__worst r_hat, ess, constant, not_finite;          /* columns */
    gpumc__worst apart;                   /* parameters in which diverging draws differ from the rest */
} gpumc__review;

static void gpumc__review_chain(gpumc__review *v, size_t c)
{
    const gpumc_draw_stats *stats = v->fit->stats + c * v->fit->draw_capacity;
    const size_t n = v->fit->n_draws;
    const double ebfmi = gpumc_ebfmi(&stats->energy, n, sizeof *stats / sizeof(double)).value;
    double stuck = 0, run = 0, longest = 0;
    for (size_t i = 0; i < n; i++) {
        const int moved = i == 0 || stats[i].selected != 0 || stats[i].lp != stats[i - 1].lp;
        run = moved ? 0 : run + 1;
        longest = fmax(longest, run);
        v->still += !moved;
        v->divergent += stats[i].divergent != 0;
        v->deep += stats[i].hit_max_treedepth != 0;
        v->accept += stats[i].accept_stat;
        v->residual += stats[i].fisher_residual;
        stuck += stats[i].selected == 0;
    }
    v->draws += (double)n;
    if (2 * stuck > (double)n) gpumc__add_worst(&v->stuck, c, stuck / (double)n);
    if (ebfmi < 0.3) gpumc__add_worst(&v->slow, c, -ebfmi);
    gpumc__add_worst(&v->held, c, longest * (v->fit->options.thin > 1 ? v->fit->options.thin : 1));
}

/* How many transitions in a row a chain may stay where it is: so many as chance allows in one of 10,000 runs
   if all are rejected alike, and 20. Beyond that steps are too long there, and so they are to go there. Most
   runs of a funnel that come out wrong do so (tests/test_mams.c). */
static double gpumc__held_limit(const gpumc__review *v)
{
    const double thin = v->fit->options.thin > 1 ? v->fit->options.thin : 1, often = v->still / v->draws;
    return fmax(20, often > 0 ? thin * log(1e4 * v->draws) / -log(often) : 0);
}

/* |mean relative rank of the diverging draws|, ranks running from -1 to 1. Where divergences have nothing to
   do with a parameter its standard deviation is 1 / sqrt(3 n); what is within three of them is no finding. */
static void gpumc__review_divergences(gpumc__review *v, size_t column)
{
    gpumc__sheet *s = &v->sheet;
    double sum = 0;
    gpumc__sort(s, s->x);
    for (size_t k = 0; k < s->total; k++) {
        const size_t chain = s->sorted[k].index / s->n_draws, draw = s->sorted[k].index % s->n_draws;
        if (v->fit->stats[chain * v->fit->draw_capacity + draw].divergent) sum += (double)k + 0.5;
    }
    const double distance = fabs(2 * sum / (v->divergent * (double)s->total) - 1);
    if (distance > 3 / sqrt(3 * v->divergent)) gpumc__add_worst(&v->apart, column, distance);
}

/* Square factors have zeros above the diagonal and ones on it by construction. */
static int gpumc__is_structural(const gpumc_block *block, size_t element, double value)
{
    const size_t n = block->n_dims < 2 ? 0 : block->dims[block->n_dims - 1];
    if (n == 0 || block->dims[block->n_dims - 2] != n) return 0;
    const size_t row = element / n % n, column = element % n;
    return (row < column && value == 0) || (row == column && value == 1);
}

static void gpumc__review_column(gpumc__review *v, const gpumc_block *block, size_t column)
{
    const gpumc_series series = gpumc_fit_series(v->fit, column);
    const gpumc_summary r = gpumc__summary_of(v->fit, column, &v->sheet);
    const double ess = fmin(r.ess_bulk, r.ess_tail);
    const int constant = (r.flags & GPUMC_FLAG_CONSTANT) && v->sheet.total > 1;
    if (constant && gpumc__is_structural(block, column - block->offset, series.x[0])) return;
    v->n_columns++;
    v->constant_params += constant && !block->is_output;
    if (constant) gpumc__add_worst(&v->constant, column, 0);
    if (r.flags & GPUMC__NO_NUMBERS) gpumc__add_worst(&v->not_finite, column, 0);
    if (r.r_hat > 1.01) gpumc__add_worst(&v->r_hat, column, r.r_hat);
    if (ess < 100 * (double)series.n_chains) gpumc__add_worst(&v->ess, column, -floor(ess));
    if (!(v->divergent > 0) || block->is_output || constant || r.flags & GPUMC_FLAG_NAN) return;
    gpumc__fill_sheet(&v->sheet, series);
    gpumc__review_divergences(v, column);
}

/* Appends what was found, gravest first, and returns 0 when memory was refused. As long as its list. */
static int gpumc__report_findings(gpumc_fit *fit, const gpumc__review *v)
{
    const double chains = (double)fit->n_chains, draws = (double)fit->n_draws, n = v->n_columns;
    const double all = v->draws * (fit->options.thin > 1 ? fit->options.thin : 1);
    const double divergent = fit->options.thin > 1      /* else all are there but what a stop has cut off */
        ? fmin(fmax((double)fit->n_divergent, v->divergent), all) : v->divergent;
    const double deep = v->deep / v->draws;
    const double accept = v->accept / v->draws, asked = fit->options.target_accept;
    const double aim = fit->sampler > GPUMC_SAMPLER_NUTS ? gpumc__path_aim(&fit->metric, asked) : asked;
    const double residual = v->residual / (v->draws * (double)(fit->n_free ? fit->n_free : 1));
    char names[GPUMC__NAMES], number[GPUMC__CELL];
    int done = 1;
#define GPUMC__WARN(found, name, note, value, ...) \
    if (found) done &= !gpumc__warn(fit, GPUMC_W_##name, note, value, __VA_ARGS__)
    GPUMC__WARN(v->draws > 0 && divergent > 0, DIVERGENT, 0, divergent / all, "%.0f of %.0f draws (%s %%) "
        "diverged%s%s: estimates may be biased, a region of high curvature is missed; check priors and "
        "scales, non-centre, then raise target_accept", divergent, all,
        gpumc__significant(100 * divergent / all, 2, number),
        v->apart.count > 0 ? ", unlike the rest in " : "", gpumc__name_worst(fit, &v->apart, 3, -1, names));
    GPUMC__WARN(deep > 0, TREEDEPTH, deep <= 0.05, deep, "%.0f of %.0f draws (%s %%) reached max_treedepth "
        "%d: trajectories were cut short, which costs speed, not validity; rescale or decorrelate, then "
        "raise it", v->deep, v->draws, gpumc__significant(100 * deep, 2, number), fit->options.max_treedepth);
    GPUMC__WARN(v->slow.count > 0, EBFMI, 0, -v->slow.value[0], "E-BFMI is below 0.3 in %.0f of %.0f chains "
        "(%.2f in chain %.0f): the range of energies is explored slowly, tails may be missed; heavy tails or "
        "a funnel, reparameterise", v->slow.count, chains, -v->slow.value[0], (double)v->slow.which[0] + 1);
    GPUMC__WARN(v->r_hat.count > 0, RHAT, 0, v->r_hat.value[0], "R-hat is above 1.01 for %.0f of %.0f "
        "quantities (%s): chains disagree; run longer first, then suspect several modes, label switching, "
        "priors", v->r_hat.count, n, gpumc__name_worst(fit, &v->r_hat, 3, 4, names));
    GPUMC__WARN(v->ess.count > 0, ESS, 0, -v->ess.value[0], "ESS is below 100 a chain for %.0f of %.0f "
        "quantities (%s): estimates are noisy; %s", v->ess.count, n,
        gpumc__name_worst(fit, &v->ess, 3, 0, names),
        v->r_hat.count > 0 ? "see R-hat first" : "R-hat is good, just run longer");
    GPUMC__WARN(v->constant.count > 0, CONSTANT, !(v->constant_params > 0), v->constant.count,
        "%.0f of %.0f quantities never change (%s)", v->constant.count, n,
        gpumc__name_worst(fit, &v->constant, 3, -1, names));
    GPUMC__WARN(v->not_finite.count > 0, NOT_FINITE, 0, v->not_finite.count, "%.0f of %.0f quantities have "
        "draws that are NaN or infinite, so that they have no mean (%s)", v->not_finite.count, n,
        gpumc__name_worst(fit, &v->not_finite, 3, -1, names));
    GPUMC__WARN(v->stuck.count > 0, STUCK, 0, v->stuck.value[0], "%.0f of %.0f chains did not move in more "
        "than half of their draws (%s %% in chain %.0f): steps are too long where they are; look at the "
        "start, raise target_accept", v->stuck.count, chains,
        gpumc__fixed(100 * v->stuck.value[0], 0, number), (double)v->stuck.which[0] + 1);
    GPUMC__WARN(v->draws > 0 && v->held.value[0] >= gpumc__held_limit(v) && !(v->stuck.count > 0), HELD, 0,
        v->held.value[0], "chain %.0f stayed at one point for %.0f transitions in a row: a narrow region "
        "that is hard to leave is hard to find, and estimates may lack it; %scheck priors and scales, "
        "non-centre, then raise target_accept", (double)v->held.which[0] + 1, v->held.value[0],
        fit->sampler > GPUMC_SAMPLER_NUTS ? "compare with the sampler NUTS, " : "");
    GPUMC__WARN(fit->n_warmup && aim > 0 && fabs(accept - aim) > 0.1, ACCEPT, accept > aim, accept,
        "mean acceptance is %.2f where %.2f was wanted: the step size came out too %s; a longer num_warmup "
        "may help", accept, aim, accept > aim ? "short, which costs speed"
        : "long, or the model's guide lies too far from it, if there is one");
    GPUMC__WARN(residual > 10, METRIC, 0, residual, "the metric does not fit: the squared Fisher residual "
        "is %s a dimension, where 0 is perfect; scales vary over the posterior, reparameterise",
        gpumc__significant(residual, 2, number));
    GPUMC__WARN(chains < 4, FEW_CHAINS, 1, chains, "%.0f chain%s", chains, chains > 1
        ? "s: R-hat is more dependable with 4"
        : ": only its halves can be compared, another mode would go unseen; run 4");
    GPUMC__WARN(draws < 100, FEW_DRAWS, 1, draws,
        "%.0f draws a chain: diagnostics and intervals are not dependable below 100", draws);
#undef GPUMC__WARN
    return done;
}

/* Makes all checks and appends what they found to fit->warnings. */
static gpumc_status gpumc__collect_warnings(gpumc_fit *fit)
{
    gpumc__review v;
    memset(&v, 0, sizeof v);
    v.fit = fit;
    if (!gpumc__open_series(&v.sheet, gpumc_fit_series(fit, 0), &fit->allocator))
        return v.sheet.flags & GPUMC_FLAG_MEMORY ? GPUMC_ERROR_MEMORY : GPUMC_OK;
    for (size_t c = 0; fit->stats && c < fit->n_chains; c++) gpumc__review_chain(&v, c);
    for (const gpumc_block *b = fit->blocks; b < fit->blocks + fit->n_blocks; b++)
        for (size_t k = 0; b->group == GPUMC_GENERATED && k < b->size; k++)
            gpumc__review_column(&v, b, b->offset + k);
    gpumc__close_sheet(&v.sheet);
    return gpumc__report_findings(fit, &v) ? GPUMC_OK : GPUMC_ERROR_MEMORY;
}

/* ---- the printed summary ------------------------------------------------------------------------- */

static const char *const gpumc__warning_names[] = {
    "DIVERGENT", "TREEDEPTH", "EBFMI", "RHAT", "ESS", "FEW_CHAINS", "FEW_DRAWS", "CONSTANT", "NOT_FINITE",
    "ACCEPT", "STUCK", "RESTARTED", "NOT_MIXED", "METRIC", "CHECKPOINT", "HELD" };
static const char *const gpumc__metric_names[] = { "automatic", "diagonal", "low-rank", "dense", "unit",
                                                   "blocks" };

static void gpumc__print_header(const gpumc_fit *fit, FILE *stream)
{
    char step[GPUMC__CELL], seconds[GPUMC__CELL];
    fprintf(stream, "%s: %.0f chains x %.0f draws after %.0f of warm-up, %s s%s\n",
            fit->model_name ? fit->model_name : "model", (double)fit->n_chains, (double)fit->n_draws,
            (double)fit->n_warmup, gpumc__decimal(fit->warmup_seconds + fit->sampling_seconds, 2, seconds),
            fit->status == GPUMC_STOPPED ? ", stopped early" : "");
    fprintf(stream, "step size %s, %s metric, %.0f divergence%s\n",
            gpumc__significant(fit->step_size, 3, step), gpumc__metric_names[fit->metric.kind],
            (double)fit->n_divergent, fit->n_divergent == 1 ? "" : "s");
    if (fit->sampler)
        fprintf(stream, "sampler %s: %s\n", gpumc__sampler_name(fit->sampler), fit->sampler_reason);
    if (fit->status < 0) fprintf(stream, "%s: %s\n", gpumc_status_text(fit->status), fit->message);
}

/* The mean is known to the second digit of its Monte Carlo error; what is on its scale is printed as far. */
static int gpumc__row_decimals(const gpumc_summary *r)
{ return r->mcse > 0 ? 1 - gpumc__leading_exponent(r->mcse, 2) : 3 - gpumc__leading_exponent(r->mean, 4); }

static void gpumc__print_row(FILE *stream, const char *name, int width, const gpumc_summary *r)
{
    const double values[] = { r->mean, r->mcse, r->sd, r->q5, r->q50, r->q95 };
    const int decimals = gpumc__row_decimals(r);
    char cell[GPUMC__CELL];
    fprintf(stream, "%-*s", width, name);
    for (size_t k = 0; k < 6; k++) fprintf(stream, " %10s", gpumc__decimal(values[k], decimals, cell));
    fprintf(stream, " %9s", gpumc__fixed(floor(r->ess_bulk), 0, cell));
    fprintf(stream, " %9s", gpumc__fixed(floor(r->ess_tail), 0, cell));
    fprintf(stream, " %7s\n", gpumc__fixed(r->r_hat, 3, cell));
}

/* The first rows of a block, then one line for the others. */
static void gpumc__print_block(const gpumc_fit *fit, FILE *stream, const gpumc_block *block, int width,
                               gpumc__sheet *s)
{
    const size_t rows = block->size > GPUMC__MAX_ROWS ? GPUMC__MAX_ROWS - 2 : block->size;
    gpumc__worst r_hat = { 0, { 0 }, { 0 } }, ess = r_hat;
    char names[GPUMC__NAMES];
    for (size_t k = 0; k < block->size; k++) {
        const size_t column = block->offset + k;
        const gpumc_summary r = gpumc__summary_of(fit, column, s);
        gpumc_column_name(fit, column, names, 128);
        if (k < rows) gpumc__print_row(stream, names, width, &r);
        if (k >= rows && r.r_hat > 0) gpumc__add_worst(&r_hat, column, r.r_hat);
        if (k >= rows && r.ess_bulk > 0) gpumc__add_worst(&ess, column, -floor(fmin(r.ess_bulk, r.ess_tail)));
    }
    if (rows == block->size) return;
    fprintf(stream, "... %.0f more", (double)(block->size - rows));
    if (r_hat.count > 0) fprintf(stream, ", largest r_hat: %s", gpumc__name_worst(fit, &r_hat, 1, 3, names));
    if (ess.count > 0) fprintf(stream, "; smallest ess: %s", gpumc__name_worst(fit, &ess, 1, 0, names));
    fprintf(stream, "\n");
}

static void gpumc__print_table(const gpumc_fit *fit, FILE *stream, gpumc__sheet *s)
{
    const gpumc_block *end = fit->blocks + fit->n_blocks;
    int width = 4;
    for (const gpumc_block *b = fit->blocks; b < end; b++)
        for (size_t k = 0; b->group == GPUMC_GENERATED && k < b->size && k < GPUMC__MAX_ROWS; k++)
            width = (int)fmax(width, (double)gpumc_column_name(fit, b->offset + k, NULL, 0));
    width = width < GPUMC__LONGEST_NAME ? width : GPUMC__LONGEST_NAME;
    fprintf(stream, "%-*s %10s %10s %10s %10s %10s %10s %9s %9s %7s\n", width, "", "mean", "mcse", "sd", "q5",
            "q50", "q95", "ess_bulk", "ess_tail", "r_hat");
    for (const gpumc_block *b = fit->blocks; b < end; b++)
        if (b->group == GPUMC_GENERATED) gpumc__print_block(fit, stream, b, width, s);
        else fprintf(stream, "%s: %.0f %s, not shown\n", b->name, (double)b->size,
                     b->group == GPUMC_LOG_LIKELIHOOD ? "log likelihoods" : "predicted values");
}

/* Writes that failed are remembered by the stream. */
GPUMC_API gpumc_status gpumc_print_summary(const gpumc_fit *fit, FILE *stream)
{
    gpumc__sheet s;
    if (!fit || !stream) return GPUMC_ERROR_ARGUMENT;
    gpumc__print_header(fit, stream);
    const int open = gpumc__open_series(&s, gpumc_fit_series(fit, 0), &fit->allocator);
    if (open) gpumc__print_table(fit, stream, &s);
    else if (s.flags & GPUMC_FLAG_MEMORY) return GPUMC_ERROR_MEMORY;
    gpumc__close_sheet(&s);
    for (size_t i = 0; i < fit->n_warnings; i++)
        fprintf(stream, "%s GPUMC_W_%s: %s\n", fit->warnings[i].note ? "note" : "warning",
                gpumc__warning_names[fit->warnings[i].code], fit->warnings[i].text);
    return fflush(stream) != 0 || ferror(stream) ? GPUMC_ERROR_FILE : GPUMC_OK;
}

/* ======================================================================================= >>output
   Data files read, results written. Numbers look the same in every locale, a reader believes nothing it is
   given, and a writer leaves a complete file or none. Read first: gpumc__scan_literal, through which every
   number comes in; gpumc__json_value, the one loop that knows nested arrays; gpumc__write_files, through
   which every file goes out. */

/* ---- numbers as text --------------------------------------------------------------------------- */

/* What a text turns out to be. An integer is written as one and, as a double, exact. */
enum { GPUMC__NO_NUMBER = 0, GPUMC__REAL, GPUMC__INTEGER };

enum { GPUMC__KEPT = 800 };

/* A decimal number: digits as a whole number * 10^exponent. A point half way between two doubles has at most
   767 digits, so of those not kept it only matters whether they are zero; else the last one kept is not. */
typedef struct gpumc__literal {
    const char *start, *end;             /* its first digit or point; one past its last character */
    size_t before, has_point, after, n;  /* digits on either side of the point; digits kept */
    uint64_t leading;                    /* the first 19 of these, all that surely fit */
    int64_t exponent;
    int negative, is_integer;            /* is_integer: written without point and exponent */
    char digits[GPUMC__KEPT + 32];       /* from the first that is not 0 */
} gpumc__literal;

static const char *gpumc__scan_digits(gpumc__literal *d, const char *at, const char *end)
{
    size_t n = d->n;
    for (; at < end && gpumc__is_digit(*at); at++) {
        if (n < 19) d->leading = d->leading * 10 + (uint64_t)(*at - '0');
        if (n < GPUMC__KEPT && d->leading > 0) d->digits[n++] = *at;
        else d->exponent += n > 0;
        if (n == GPUMC__KEPT && *at != '0') d->digits[n - 1] |= 1;
    }
    d->n = n;
    return at;
}

/* The longest number that text begins with: [+-] digits [. digits] [e [+-] digits], with a digit somewhere
   before the e. Returns 0 when there is none. The exponent stops growing far beyond what matters. */
static int gpumc__scan_literal(gpumc__literal *d, const char *at, const char *end)
{
    int64_t power = 0;
    memset(d, 0, offsetof(gpumc__literal, digits));
    d->negative = at < end && *at == '-';
    d->start = at + (at < end && (*at == '-' || *at == '+'));
    at = gpumc__scan_digits(d, d->start, end);
    d->before = (size_t)(at - d->start);
    d->has_point = at < end && *at == '.';
    d->is_integer = !d->has_point && (at == end || (*at != 'e' && *at != 'E'));
    if (d->has_point) at = gpumc__scan_digits(d, at + 1, end);
    d->after = (size_t)(at - d->start) - d->before - d->has_point;
    if (at < end && (*at == 'e' || *at == 'E')) {
        const int negative = ++at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        if (at == end || !gpumc__is_digit(*at)) return 0;
        for (; at < end && gpumc__is_digit(*at); at++)
            if (power < 100000000000000000) power = power * 10 + (*at - '0');
        if (negative) power = -power;
    }
    d->exponent += power - (int64_t)d->after;
    d->end = at;
    return d->before + d->after > 0;
}

/* Correctly rounded; too large for a double is no number. A whole number up to 2^53 and a power of ten up to
   10^22 are doubles, so that their product or quotient is rounded once (Clinger 1990). Others go to strtod,
   as a whole number with an exponent: without a radix there is no locale. */
static int gpumc__literal_value(gpumc__literal *d, double *value)
{
    static const double powers[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    const int exact = d->n <= 16 && d->leading <= 9007199254740992;
    double size = (double)d->leading;
    if (FLT_EVAL_METHOD != 0 || !exact || d->exponent < -22 || d->exponent > 22) {
        snprintf(d->digits + d->n, 16, "e%d", (int)fmax(fmin((double)d->exponent, 2000), -2000));
        size = d->n ? strtod(d->digits, NULL) : 0;
    } else size = d->exponent < 0 ? size / powers[-d->exponent] : size * powers[d->exponent];
    *value = d->negative ? -size : size;
    return !gpumc__is_finite(size) ? GPUMC__NO_NUMBER : d->is_integer && exact ? GPUMC__INTEGER : GPUMC__REAL;
}

/* nan, inf or infinity, any letter case, with or without a sign. */
static int gpumc__scan_word(const char *text, size_t length, double *value)
{
    const size_t sign = length > 0 && (*text == '-' || *text == '+');
    char word[16] = "";
    for (size_t i = sign; i < length && i < 12; i++) word[i - sign] = (char)(text[i] | 32);
    if (strcmp(word, "nan") == 0) *value = GPUMC_NAN;
    else if (strcmp(word, "inf") == 0 || strcmp(word, "infinity") == 0)
        *value = *text == '-' ? -GPUMC_INF : GPUMC_INF;
    else return GPUMC__NO_NUMBER;
    return GPUMC__REAL;
}

/* The number that the whole of text is; with GPUMC__NO_NUMBER infinity where it was too large, else 0. */
static double gpumc__parse_number(const char *text, size_t length, int *kind)
{
    gpumc__literal d;
    double value = 0;
    const int is_literal = gpumc__scan_literal(&d, text, text + length) && d.end == text + length;
    *kind = is_literal ? gpumc__literal_value(&d, &value) : gpumc__scan_word(text, length, &value);
    return value;
}

GPUMC_API size_t gpumc_format_number(double value, char *text)
{
    int kind, finite = gpumc__is_finite(value);
    if (!finite) strcpy(text, gpumc__is_nan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    for (int n = 15; finite && n <= 17; n++) {
        snprintf(text, 32, "%.*g", n, value);
        gpumc__put_points(text);
        if (gpumc__parse_number(text, strlen(text), &kind) == value) break;
    }
    return strlen(text);
}

/* ---- what the readers share -------------------------------------------------------------------- */

/* Limits of the readers; a program may set its own before the implementation. */
#ifndef GPUMC_MAX_JSON_DEPTH
#define GPUMC_MAX_JSON_DEPTH 16
#endif
#ifndef GPUMC_MAX_FILE_BYTES
#define GPUMC_MAX_FILE_BYTES 4294967296.0
#endif

typedef struct gpumc__buffer { void *items; size_t n, room; } gpumc__buffer;

/* The parts of a reader return 0 on failure. */
typedef struct gpumc__reader {
    const char *text, *at, *end;
    const char *path;                    /* for messages; NULL: read from memory */
    gpumc_csv_options csv;
    gpumc_data *data;
    size_t room;                         /* for variables */
    gpumc__buffer values;                /* of the variable at work (JSON), of all rows (CSV) */
    const char *field;                   /* of CSV, without blanks and quotes around it */
    size_t field_length;
    const char *subject;                 /* the variable to be named in messages, or NULL */
    int takes_texts;                     /* a text where a number should be is NaN, not an error */
    gpumc_status failure;                /* what a 0 means: no memory, unless gpumc__malformed was called */
    gpumc_error *error;
} gpumc__reader;

/* Records what is wrong at a place of the text: file, line, column in characters, variable. Returns 0. */
static GPUMC__PRINTF(3, 4) int gpumc__malformed(gpumc__reader *r, const char *at, const char *format, ...)
{
    char what[120];
    double line = 1, column = 1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    for (const char *p = r->text; p < at; p++) {
        line += *p == '\n';
        column = *p == '\n' ? 1 : column + (((unsigned char)*p & 0xc0) != 0x80);
    }
    r->failure = gpumc__fail(r->error, GPUMC_ERROR_FORMAT, "%.80s%sline %.0f, column %.0f: %s%.60s%s%s",
                             r->path ? r->path : "", r->path ? ": " : "", line, column,
                             r->subject ? "variable \"" : "", r->subject ? r->subject : "",
                             r->subject ? "\": " : "", what);
    return 0;
}

/* Makes room for at least so many more items, and half as many again as there are; 0 when that is refused. */
static int gpumc__reserve(const gpumc_allocator *allocator, gpumc__buffer *b, size_t more, size_t each,
                          gpumc_error *error)
{
    if (b->room - b->n >= more) return 1;
    const size_t room = gpumc__size_add(gpumc__size_add(b->n, more), b->n / 2 + 16);
    const size_t bytes = gpumc__size_mul(room, each);
    void *items = gpumc__allocate(allocator, bytes);
    if (!items) return gpumc__fail_memory(error, bytes) == GPUMC_OK;
    if (b->n > 0) memcpy(items, b->items, b->n * each);
    gpumc__release(allocator, b->items);
    b->items = items;
    b->room = room;
    return 1;
}

static int gpumc__push_value(gpumc__reader *r, double value)
{
    gpumc__buffer *b = &r->values;
    if (b->n == b->room && !gpumc__reserve(&r->data->allocator, b, 1, sizeof value, r->error)) return 0;
    ((double *)b->items)[b->n++] = value;
    return 1;
}

/* The next code point of UTF-8 (RFC 3629, section 4), behind which text is moved; 0 where there is none. */
static uint32_t gpumc__code_point(const char **text)
{
    static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
    const unsigned char *p = (const unsigned char *)*text, first = *p++;
    const int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    uint32_t c = more ? first & 0x3fu >> more : first;
    if ((first >= 0x80 && first < 0xc0) || first > 0xf4) return 0;
    for (int i = 0; i < more; i++, p++) {
        if ((*p & 0xc0) != 0x80) return 0;
        c = c << 6 | (*p & 0x3fu);
    }
    *text = (const char *)p;
    return c < least[more] || c > 0x10ffff || c >> 11 == 0x1b ? 0 : c;    /* 0x1b: surrogates, as in UTF-16 */
}

/* Without control characters. */
static int gpumc__is_utf8(const char *text)
{
    while (*text) if (gpumc__code_point(&text) < 32) return 0;
    return 1;
}

/* Adds a variable, still empty. A pair of quotes in its name stands for one, as in CSV; JSON has none. */
static int gpumc__add_variable(gpumc__reader *r, const char *at, const char *name, size_t length)
{
    gpumc_data *data = r->data;
    gpumc__buffer all = { data->variables, data->n_variables, r->room };
    if (!gpumc__reserve(&data->allocator, &all, 1, sizeof(gpumc_variable), r->error)) return 0;
    data->variables = (gpumc_variable *)all.items;
    r->room = all.room;
    gpumc_variable *v = &data->variables[data->n_variables];
    memset(v, 0, sizeof *v);
    char *to = v->name = (char *)gpumc__allocate(&data->allocator, length + 1);
    if (!to) return gpumc__fail_memory(r->error, length + 1) == GPUMC_OK;
    v->is_integer = 1;
    data->n_variables++;
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '"' && (++i == length || name[i] != '"'))
            return gpumc__malformed(r, at, "a stray quote");
        *to++ = name[i];
    }
    *to = 0;
    if (length == 0) return gpumc__malformed(r, at, "a variable without a name");
    if (v->name + strlen(v->name) < to || !gpumc__is_utf8(v->name))
        return gpumc__malformed(r, at, "a name that is not valid UTF-8");
    r->subject = v->name;
    for (const gpumc_variable *other = data->variables; other < v; other++)
        if (strcmp(other->name, v->name) == 0) return gpumc__malformed(r, at, "the second of this name");
    return 1;
}

/* Gives a variable its shape and every stride-th of the values read. One block holds both. */
static int gpumc__fill_variable(const gpumc__reader *r, gpumc_variable *v, const size_t *dims, size_t n_dims,
                                size_t n_values, size_t first, size_t stride)
{
    const double *from = (const double *)r->values.items;
    const size_t bytes = gpumc__size_add(gpumc__size_mul(n_values, sizeof(double)), n_dims * sizeof(size_t));
    v->values = (double *)gpumc__allocate(&r->data->allocator, bytes);
    if (!v->values) return gpumc__fail_memory(r->error, bytes) == GPUMC_OK;
    v->n_values = n_values;
    v->dims = (size_t *)(v->values + n_values);
    v->n_dims = n_dims;
    for (size_t i = 0; i < n_dims; i++) v->dims[i] = dims[i];
    for (size_t i = 0; i < n_values; i++) v->values[i] = from[first + i * stride];
    return 1;
}

/* Runs one of the readers on a text, behind its byte-order mark. The allocator of data is the caller's; what
   else it held is forgotten. */
static gpumc_status gpumc__read_text(const char *text, size_t length, const char *path, gpumc_data *data,
                                     const gpumc_csv_options *csv, int (*parse)(gpumc__reader *r),
                                     gpumc_error *error)
{
    const gpumc_csv_options defaults = { 0, 0, 0, 0 };
    if (!data || (!text && length)) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "text or data is NULL");
    const char *start = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
    gpumc__reader r = { start, start, length ? text + length : text, path, csv ? *csv : defaults, data, 0,
                        { NULL, 0, 0 }, NULL, 0, NULL, 0, GPUMC_ERROR_MEMORY, error };
    data->variables = NULL;
    data->n_variables = 0;
    const int done = parse(&r);
    gpumc__release(&data->allocator, r.values.items);
    if (!done) gpumc_data_free(data);
    return done ? GPUMC_OK : r.failure;
}

/* ---- JSON as Stan writes it -------------------------------------------------------------------- */

/* The next character that is not blank, 0 at the end. */
static char gpumc__peek(gpumc__reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) r->at++;
    return r->at < r->end ? *r->at : (char)0;
}

static int gpumc__unexpected(gpumc__reader *r, const char *wanted)
{
    const size_t left = (size_t)(r->end - r->at);
    size_t n = left > 0;
    while (n < left && n < 24 && !strchr(" \t\r\n,:[]{}", r->at[n])) n++;
    return n ? gpumc__malformed(r, r->at, "\"%.*s\" where %s should be", (int)n, r->at, wanted)
             : gpumc__malformed(r, r->at, "the text ends where %s should be", wanted);
}

static int gpumc__json_name(gpumc__reader *r)
{
    if (gpumc__peek(r) != '"') return gpumc__unexpected(r, "the name of a variable in quotes");
    const char *start = r->at, *end = start + 1;
    while (end < r->end && *end != '"' && *end != '\\') end++;
    if (end == r->end) return gpumc__malformed(r, start, "a name that does not end");
    if (*end == '\\') return gpumc__malformed(r, end, "an escape in a name: write the character itself");
    r->at = end + 1;
    return gpumc__add_variable(r, start, start + 1, (size_t)(end - start - 1));
}

/* NaN, Infinity or -Infinity, or any spelling of these in quotes. */
static int gpumc__json_word(gpumc__reader *r, double *value)
{
    static const char *const words[] = { "NaN", "Infinity", "-Infinity" };
    const size_t left = (size_t)(r->end - r->at), quoted = left > 0 && *r->at == '"';
    const char *word = r->at + quoted, *quote = quoted ? (const char *)memchr(word, '"', left - 1) : NULL;
    size_t length = quoted && quote ? (size_t)(quote - word) : 0;
    for (size_t i = 0; i < 3 && !quoted; i++)
        if (left >= strlen(words[i]) && strncmp(word, words[i], strlen(words[i])) == 0)
            length = strlen(words[i]);
    *value = GPUMC_NAN;
    if (!gpumc__scan_word(word, length, value) && !(r->takes_texts && quoted && quote))
        return gpumc__unexpected(r, "a number or an array");
    r->at = word + length + quoted;
    return 1;
}

/* JSON wants digits on both sides of a point, no leading zeros, no plus. */
static int gpumc__json_number(gpumc__reader *r, double *value, int *kind)
{
    const char *start = r->at;
    gpumc__literal d;
    *kind = GPUMC__REAL;
    if (!gpumc__scan_literal(&d, start, r->end) || d.before == 0 || *start == '+'
        || (*d.start == '0' && d.before > 1) || (d.has_point && d.after == 0))
        return gpumc__json_word(r, value);
    *kind = gpumc__literal_value(&d, value);
    r->at = d.end;
    return *kind || gpumc__malformed(r, start, "a number too large for a double");
}

/* A number or a nested array: each round opens arrays, reads a number, and closes all that ends behind it.
   count[d] and dims[d]: elements so far of the array within d brackets, and of its earlier siblings. */
static int gpumc__json_value(gpumc__reader *r, gpumc_variable *v)
{
    size_t count[GPUMC_MAX_JSON_DEPTH + 1], dims[GPUMC_MAX_JSON_DEPTH + 1], depth = 0, n_dims = 0;
    double value = 0;
    int kind;
    count[0] = 0;
    for (r->values.n = 0;; r->at++) {
        for (; gpumc__peek(r) == '['; r->at++) {
            if (depth == GPUMC_MAX_JSON_DEPTH)
                return gpumc__malformed(r, r->at, "more than %.0f nested arrays", (double)depth);
            if (depth == n_dims && r->values.n > 0)
                return gpumc__malformed(r, r->at, "ragged array: an array where there were numbers before");
            count[++depth] = 0;
            if (depth > n_dims) dims[n_dims = depth] = SIZE_MAX;
        }
        const char *start = r->at;
        if (depth == 0 || count[depth] > 0 || gpumc__peek(r) != ']') {         /* not an empty array */
            if (!gpumc__json_number(r, &value, &kind) || !gpumc__push_value(r, value)) return 0;
            if (depth != n_dims)
                return gpumc__malformed(r, start, "ragged array: a number where there were arrays before");
            v->is_integer &= kind == GPUMC__INTEGER;
            count[depth]++;
        }
        for (; depth > 0 && gpumc__peek(r) == ']'; r->at++) {
            if (dims[depth] != SIZE_MAX && dims[depth] != count[depth])
                return gpumc__malformed(r, r->at, "ragged array: %.0f elements where there were %.0f before",
                                        (double)count[depth], (double)dims[depth]);
            dims[depth] = count[depth];
            count[--depth]++;
        }
        if (depth == 0) return gpumc__fill_variable(r, v, dims + 1, n_dims, r->values.n, 0, 1);
        if (gpumc__peek(r) != ',') return gpumc__unexpected(r, "a comma or ]");
    }
}

static int gpumc__json_object(gpumc__reader *r)
{
    if (gpumc__peek(r) != '{') return gpumc__unexpected(r, "the { of an object");
    r->at++;
    for (int more = gpumc__peek(r) != '}'; more; r->at += more) {
        if (!gpumc__json_name(r)) return 0;
        if (gpumc__peek(r) != ':') return gpumc__unexpected(r, "a colon");
        r->at++;
        if (!gpumc__json_value(r, &r->data->variables[r->data->n_variables - 1])) return 0;
        r->subject = NULL;
        more = gpumc__peek(r) == ',';
    }
    if (gpumc__peek(r) != '}') return gpumc__unexpected(r, "a comma or }");
    r->at++;
    return gpumc__peek(r) == 0 && r->at == r->end ? 1 : gpumc__unexpected(r, "the end of the text");
}

GPUMC_API gpumc_status gpumc_parse_json(const char *text, size_t length, gpumc_data *data, gpumc_error *error)
{ return gpumc__read_text(text, length, NULL, data, NULL, gpumc__json_object, error); }

/* ---- CSV --------------------------------------------------------------------------------------- */

static int gpumc__csv_line_ends(const gpumc__reader *r) { return r->at == r->end || *r->at == '\n'; }

/* Blanks around a field do not count, unless they separate fields; nor does the return before a new line. */
static int gpumc__csv_is_blank(const gpumc__reader *r, char c)
{ return (c == ' ' || c == '\t' || c == '\r') && c != r->csv.delimiter; }

/* Leaves the content of a field in r->field, and r->at where it ends. */
static int gpumc__csv_field(gpumc__reader *r)
{
    int quoted = 0;
    while (r->at < r->end && gpumc__csv_is_blank(r, *r->at)) r->at++;
    r->field = r->at;
    for (; !gpumc__csv_line_ends(r) && (quoted || *r->at != r->csv.delimiter); r->at++)
        quoted ^= *r->at == '"';
    if (quoted) return gpumc__malformed(r, r->field, "a quote that does not end in its line");
    const char *end = r->at;
    while (end > r->field && gpumc__csv_is_blank(r, end[-1])) end--;
    if (end > r->field + 1 && *r->field == '"' && end[-1] == '"') { r->field++; end--; }
    r->field_length = (size_t)(end - r->field);
    return 1;
}

/* Makes a variable of a field of the first line. Without a name it is called by its place. */
static int gpumc__csv_name(gpumc__reader *r, const char *start)
{
    char place[32];
    if (!r->csv.no_header && r->field_length > 0)
        return gpumc__add_variable(r, start, r->field, r->field_length);
    snprintf(place, sizeof place, "V%.0f", (double)r->data->n_variables + 1);
    return gpumc__add_variable(r, start, place, strlen(place));
}

static int gpumc__csv_value(gpumc__reader *r, const char *start, gpumc_variable *v)
{
    const int n = r->field_length < 24 ? (int)r->field_length : 24;
    int kind;
    double value = gpumc__parse_number(r->field, r->field_length, &kind);
    if (kind == GPUMC__NO_NUMBER && n > 0 && !(n == 2 && memcmp(r->field, "NA", 2) == 0))
        return gpumc__malformed(r, start, "\"%.*s\" is %s", n, r->field,
                                value == 0 ? "not a number" : "too large for a double");
    if (kind == GPUMC__NO_NUMBER) value = GPUMC_NAN;
    if (r->csv.missing_is_error && gpumc__is_nan(value))
        return gpumc__malformed(r, start, "the value is missing");
    v->is_integer &= kind == GPUMC__INTEGER;
    return gpumc__push_value(r, value);
}

/* The first line makes the variables, the others fill them. */
static int gpumc__csv_line(gpumc__reader *r)
{
    const size_t n = r->data->n_variables;
    const char *line = r->at;
    for (size_t i = 0, more = 1; more; i++, r->at += r->at < r->end) {
        const char *start = r->at;
        gpumc_variable *v = n ? &r->data->variables[i] : NULL;
        r->subject = v ? v->name : NULL;
        if (!gpumc__csv_field(r)) return 0;
        if (!(v ? gpumc__csv_value(r, start, v) : gpumc__csv_name(r, start))) return 0;
        r->subject = NULL;
        more = !gpumc__csv_line_ends(r);
        if (v && more == (i + 1 == n))
            return gpumc__malformed(r, r->at, "a row of %s than %.0f fields", more ? "more" : "less",
                                    (double)n);
    }
    if (n == 0 && r->csv.no_header) r->at = line;
    return 1;
}

/* Passes a comment or an empty line. */
static int gpumc__csv_skip_line(gpumc__reader *r, const char **empty)
{
    const char *line = r->at;
    const int is_empty = *line == '\n' || (*line == '\r' && (line + 1 == r->end || line[1] == '\n'));
    if (!is_empty && (*line != '#' || !r->csv.skip_comments)) return 0;
    if (is_empty && !*empty) *empty = line;
    while (!gpumc__csv_line_ends(r)) r->at++;
    r->at += r->at < r->end;
    return 1;
}

static int gpumc__csv_table(gpumc__reader *r)
{
    const char *empty = NULL;            /* the first empty line: only more of them may follow */
    if (!r->csv.delimiter) r->csv.delimiter = ',';
    if (strchr("0123456789+-.eE\"#\r\n", r->csv.delimiter))
        return gpumc__malformed(r, r->at, "character %d cannot separate fields", r->csv.delimiter);
    while (r->at < r->end) {
        if (gpumc__csv_skip_line(r, &empty)) continue;
        if (empty) return gpumc__malformed(r, empty, "an empty line before others (a missing value is NA)");
        if (!gpumc__csv_line(r)) return 0;
    }
    const size_t n = r->data->n_variables, n_rows = n ? r->values.n / n : 0;
    if (n == 0) return gpumc__malformed(r, r->at, "no line that names or holds anything");
    for (size_t k = 0; k < n; k++)
        if (!gpumc__fill_variable(r, &r->data->variables[k], &n_rows, 1, n_rows, k, n)) return 0;
    return 1;
}

GPUMC_API gpumc_status gpumc_parse_csv(const char *text, size_t length, const gpumc_csv_options *options,
                                       gpumc_data *data, gpumc_error *error)
{ return gpumc__read_text(text, length, NULL, data, options, gpumc__csv_table, error); }

/* ---- data files -------------------------------------------------------------------------------- */

static gpumc_status gpumc__file_failed(gpumc_error *error, const char *path, const char *what)
{
    const int reason = errno;
    return gpumc__fail(error, GPUMC_ERROR_FILE, "%.160s: cannot be %s: %s (errno %d)", path, what,
                       reason == ENOENT   ? "no such file or directory"
                       : reason == EACCES ? "permission denied"
                       : reason == EEXIST ? "it exists; remove it or take another name"
                       : reason == EISDIR ? "a folder has this name"
                       : reason == EFBIG  ? "larger than the system allows"
                       : reason == ENOSPC ? "no space left on the device" : "input or output error", reason);
}

static gpumc_status gpumc__read_path(const char *path, gpumc_data *data, const gpumc_csv_options *csv,
                                     int (*parse)(gpumc__reader *r), gpumc_error *error)
{
    gpumc__buffer all = { NULL, 0, 0 };
    gpumc_status status = GPUMC_OK;
    if (!path || !data) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "path or data is NULL");
    FILE *file = fopen(path, "rb");
    if (!file) return gpumc__file_failed(error, path, "opened");
    for (size_t got = 1; got > 0 && status == GPUMC_OK; all.n += got) {
        got = 0;
        if (!gpumc__reserve(&data->allocator, &all, 65536, 1, error)) status = GPUMC_ERROR_MEMORY;
        else got = fread((char *)all.items + all.n, 1, all.room - all.n, file);
        if (ferror(file)) status = gpumc__file_failed(error, path, "read");
        if ((double)all.n + (double)got > (double)GPUMC_MAX_FILE_BYTES)
            status = gpumc__fail(error, GPUMC_ERROR_FILE, "%.160s: larger than GPUMC_MAX_FILE_BYTES, %.0f",
                                 path, (double)GPUMC_MAX_FILE_BYTES);
    }
    fclose(file);
    if (status == GPUMC_OK)
        status = gpumc__read_text((const char *)all.items, all.n, path, data, csv, parse, error);
    gpumc__release(&data->allocator, all.items);
    return status;
}

GPUMC_API gpumc_status gpumc_read_json(const char *path, gpumc_data *data, gpumc_error *error)
{ return gpumc__read_path(path, data, NULL, gpumc__json_object, error); }

GPUMC_API gpumc_status gpumc_read_csv(const char *path, const gpumc_csv_options *options, gpumc_data *data,
                                      gpumc_error *error)
{ return gpumc__read_path(path, data, options, gpumc__csv_table, error); }

GPUMC_API const gpumc_variable *gpumc_data_get(const gpumc_data *data, const char *name, size_t n_values,
                                               int integer, gpumc_error *error)
{
    const gpumc_variable *v = NULL;
    for (size_t i = 0; data && name && i < data->n_variables && !v; i++)
        if (strcmp(data->variables[i].name, name) == 0) v = &data->variables[i];
    if (!v) gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "no variable \"%.100s\" in the data", name ? name : "");
    else if (n_values > 0 && v->n_values != n_values)
        gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "variable \"%.100s\": %.0f values where %.0f should be",
                    name, (double)v->n_values, (double)n_values);
    else if (integer && !v->is_integer)
        gpumc__fail(error, GPUMC_ERROR_ARGUMENT,
                    "variable \"%.100s\" must hold integers, without point or exponent, up to 2^53", name);
    else return v;
    return NULL;
}

GPUMC_API void gpumc_data_free(gpumc_data *data)
{
    if (!data) return;
    for (size_t i = 0; i < data->n_variables; i++) {
        gpumc__release(&data->allocator, data->variables[i].name);
        gpumc__release(&data->allocator, data->variables[i].values);
    }
    gpumc__release(&data->allocator, data->variables);
    data->variables = NULL;
    data->n_variables = 0;
}

/* ---- files that are complete or not there ------------------------------------------------------ */

/* After the first failure, whose errno `failed` is, nothing more is written. */
typedef struct gpumc__writer { FILE *file; int failed; } gpumc__writer;

static int gpumc__reason(int failed) { return !failed ? 0 : errno ? errno : -1; }

/* Never with %g and its kin, whose radix the locale decides. */
static GPUMC__PRINTF(2, 3) void gpumc__put(gpumc__writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!w->failed) w->failed = gpumc__reason(vfprintf(w->file, format, arguments) < 0);
    va_end(arguments);
}

static void gpumc__put_number(gpumc__writer *w, const char *before, double value)
{
    char text[32];
    gpumc_format_number(value, text);
    gpumc__put(w, "%s%s", before, text);
}

typedef void (*gpumc__contents)(gpumc__writer *w, const void *of, size_t part);

/* Writes a file, or with mode "ab" more of it; a complete one has reached the disk. */
static gpumc_status gpumc__write_file(const char *path, const char *mode, int complete, const void *of,
                                      size_t part, gpumc__contents contents, gpumc_error *error)
{
    gpumc__writer w = { fopen(path, mode), 0 };
    if (!w.file) return gpumc__file_failed(error, path, "created");
    contents(&w, of, part);
    if (!w.failed) w.failed = gpumc__reason(fflush(w.file) != 0 || (complete && !gpumc__sync(w.file)));
    if (!complete) gpumc__sync_begin(w.file);
    const int closed = fclose(w.file) == 0;
    if (closed && !w.failed) return GPUMC_OK;
    if (w.failed) errno = w.failed > 0 ? w.failed : EIO;
    return gpumc__file_failed(error, path, "written");
}

/* Name of the only file, or of that of a chain, and behind it that of the incomplete one. */
static void gpumc__file_names(const gpumc_fit *fit, const char *base, int per_chain, size_t chain,
                              char *name, size_t room)
{
    const double id = (double)fit->options.first_chain_id + (double)chain + 1;
    if (per_chain) snprintf(name, room, "%s_%.0f.csv", base, id);
    else strcpy(name, base);
    strcat(strcpy(name + room, name), ".tmp");
}

static gpumc_status gpumc__no_draws(const gpumc_fit *fit, gpumc_error *error)
{
    return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "the fit holds no draws%s",
                       fit->options.discard_draws ? ": discard_draws was set" : "");
}

/* The file base, or base_1.csv and so on for every chain: first all under temporary names, then, once all are
   complete, under their own; after a failure none is left. */
static gpumc_status gpumc__write_files(const gpumc_fit *fit, const char *base, int per_chain,
                                       gpumc__contents contents, gpumc_error *error)
{
    if (!fit || !base || !*base) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "no fit, or no file name");
    if (!fit->draws || fit->n_draws == 0) return gpumc__no_draws(fit, error);
    const size_t n = per_chain ? fit->n_chains : 1, room = gpumc__size_add(strlen(base), 40);
    char *name = (char *)gpumc__allocate(&fit->allocator, gpumc__size_mul(room, 2));
    if (!name) return gpumc__fail_memory(error, gpumc__size_mul(room, 2));
    char *temporary = name + room;
    gpumc_status status = GPUMC_OK;
    size_t done = 0;                     /* written, then renamed */
    for (; status == GPUMC_OK && done < 2 * n; done += status == GPUMC_OK) {
        gpumc__file_names(fit, base, per_chain, done % n, name, room);
        if (!gpumc__is_replaceable(name))
            status = gpumc__fail(error, GPUMC_ERROR_FILE, "%.160s: is there and no ordinary file", name);
        else if (done < n) status = gpumc__write_file(temporary, "wb", 1, fit, done, contents, error);
        else if (!gpumc__rename(temporary, name)) status = gpumc__file_failed(error, name, "replaced");
    }
    for (size_t i = 0; status != GPUMC_OK && i < n && i <= done; i++) {
        gpumc__file_names(fit, base, per_chain, i, name, room);
        (void)remove(i + n < done ? name : temporary);
    }
    gpumc__release(&fit->allocator, name);
    return status;
}

static void gpumc__summary_contents(gpumc__writer *w, const void *of, size_t part)
{
    const gpumc_fit *fit = (const gpumc_fit *)of;
    char name[512];
    (void)part;
    gpumc__put(w, "variable,mean,mcse,sd,q5,q50,q95,ess_bulk,ess_tail,r_hat\n");
    for (size_t k = 0; k < fit->n_columns && !w->failed; k++) {
        const gpumc_summary s = gpumc_summarise(fit, k);
        const double values[] = { s.mean, s.mcse, s.sd, s.q5, s.q50, s.q95, s.ess_bulk, s.ess_tail, s.r_hat };
        gpumc_column_name(fit, k, name, sizeof name);
        gpumc__put(w, strchr(name, ',') ? "\"%s\"" : "%s", name);
        for (size_t i = 0; i < 9; i++) gpumc__put_number(w, ",", values[i]);
        gpumc__put(w, "\n");
    }
}

GPUMC_API gpumc_status gpumc_write_summary_csv(const gpumc_fit *fit, const char *path, gpumc_error *error)
{ return gpumc__write_files(fit, path, 0, gpumc__summary_contents, error); }

/* ---- Stan CSV ----------------------------------------------------------------------------------
   The dialect of CmdStan 2.36. Readers hold files to details that no specification names: matrices go first
   index fastest (cmdstanpy ignores the indices in the names), the adaptation block is these lines and no
   other, integers bear no point, and the elapsed times begin in column 18. */

static const char *const gpumc__stan_metrics[] = { "diag_e", "diag_e", "diag_e", "dense_e", "unit_e",
                                                  "diag_e" };

/* num_samples counts draws before thinning, as Stan has it. The settings of Stan's step-size adaptation and
   windows are left out: ours has none of them, and no reader needs them. */
static void gpumc__stan_header(gpumc__writer *w, const gpumc_fit *fit, size_t chain)
{
    const gpumc_sample_options *o = &fit->options;
    const int thin = o->thin > 1 ? o->thin : 1, saved = fit->warmup_draws && fit->n_warmup > 0;
    const double num_warmup = fit->n_warmup ? (double)fit->n_warmup : o->num_warmup > 0 ? o->num_warmup : 0;
    gpumc__put(w, "# stan_version_major = 2\n# stan_version_minor = 36\n# stan_version_patch = 0\n"
               "# model = ");
    for (const char *c = fit->model_name && *fit->model_name ? fit->model_name : "model"; *c; c++)
        gpumc__put(w, "%c", (unsigned char)*c < 32 || *c == '=' ? '_' : *c);
    gpumc__put(w, "\n# method = sample\n# num_samples = %.0f\n# num_warmup = %.0f\n# save_warmup = %d\n"
               "# thin = %d\n# engaged = %d\n", (double)fit->n_draws * thin, num_warmup, saved, thin,
               num_warmup > 0);
    gpumc__put_number(w, "# delta = ", o->target_accept);
    gpumc__put(w, "\n# algorithm = hmc\n# engine = nuts\n# max_depth = %d\n# metric = %s\n",
               o->max_treedepth, gpumc__stan_metrics[fit->metric.dim ? fit->metric.kind : GPUMC_METRIC_UNIT]);
    gpumc__put_number(w, "# stepsize = ", o->step_size > 0 ? o->step_size : 1);
    if (fit->sampler > GPUMC_SAMPLER_NUTS)           /* readers know nuts and static only */
        gpumc__put(w, "\n# sampler = %s", gpumc__sampler_name(fit->sampler));
    gpumc__put(w, "\n# id = %.0f\n# seed = %llu\n# generated_by = gpumc " GPUMC_VERSION "\n",
               (double)o->first_chain_id + (double)chain + 1, (unsigned long long)o->seed);
}

/* Element of a row-major block that comes at place j with the first index running fastest; with w its name is
   written, as A.2.1. */
static size_t gpumc__stan_element(const gpumc_block *b, size_t j, gpumc__writer *w)
{
    const size_t n_dims = b->n_dims == 0 && b->size > 1 ? 1 : b->n_dims;
    size_t element = 0;
    if (w) gpumc__put(w, ",%s", b->name);
    for (size_t d = 0; d < n_dims; d++) {
        const size_t length = b->n_dims ? b->dims[d] : b->size;
        element = element * length + j % length;
        if (w) gpumc__put(w, ".%.0f", (double)(j % length) + 1);
        j /= length;
    }
    return b->offset + element;
}

static void gpumc__stan_rows(gpumc__writer *w, const gpumc_fit *fit, const double *draws,
                             const gpumc_draw_stats *s, size_t n, size_t step)
{
    for (size_t i = 0; i < n && !w->failed; i += step) {
        gpumc__put_number(w, "", s[i].lp);
        gpumc__put_number(w, ",", s[i].accept_stat);
        gpumc__put_number(w, ",", s[i].step_size);
        gpumc__put(w, ",%d,%d,%d", (int)s[i].tree_depth, (int)s[i].n_leapfrog, s[i].divergent != 0);
        gpumc__put_number(w, ",", s[i].energy);
        for (const gpumc_block *b = fit->blocks; b < fit->blocks + fit->n_blocks; b++)
            for (size_t j = 0; j < b->size; j++)
                gpumc__put_number(w, ",", draws[i * fit->n_columns + gpumc__stan_element(b, j, NULL)]);
        gpumc__put(w, "\n");
    }
}

static void gpumc__stan_adaptation(gpumc__writer *w, const gpumc_fit *fit)
{
    const gpumc_metric *m = &fit->metric;
    const int dense = m->kind == GPUMC_METRIC_DENSE, unit = m->kind == GPUMC_METRIC_UNIT || !m->dim;
    gpumc__put_number(w, "# Adaptation terminated\n# Step size = ", fit->step_size);
    gpumc__put(w, "\n# %s\n", unit    ? "No free parameters for unit metric"
                              : dense ? "Elements of inverse mass matrix:"
                                      : "Diagonal elements of inverse mass matrix:");
    for (size_t k = 0; k < (dense ? m->dim : !unit) * m->dim; k++) {
        gpumc__put_number(w, k % m->dim ? ", " : "# ",
                          dense ? m->covariance[k] : gpumc__metric_variance(m, k));
        if ((k + 1) % m->dim == 0) gpumc__put(w, "\n");
    }
}

/* Of saved warm-up every thin-th row: readers count on ceil(num_warmup / thin) of them. */
static void gpumc__stan_contents(gpumc__writer *w, const void *of, size_t chain)
{
    const gpumc_fit *fit = (const gpumc_fit *)of;
    const size_t thin = fit->options.thin > 1 ? (size_t)fit->options.thin : 1;
    const size_t warmup = chain * fit->n_warmup, kept = chain * fit->draw_capacity;
    gpumc__stan_header(w, fit, chain);
    gpumc__put(w, "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__");
    for (const gpumc_block *b = fit->blocks; b < fit->blocks + fit->n_blocks; b++)
        for (size_t j = 0; j < b->size; j++) gpumc__stan_element(b, j, w);
    gpumc__put(w, "\n");
    if (fit->warmup_draws)
        gpumc__stan_rows(w, fit, fit->warmup_draws + warmup * fit->n_columns, fit->warmup_stats + warmup,
                         fit->n_warmup, thin);
    gpumc__stan_adaptation(w, fit);
    gpumc__stan_rows(w, fit, fit->draws + kept * fit->n_columns, fit->stats + kept, fit->n_draws, 1);
    gpumc__put_number(w, "# \n#  Elapsed Time: ", fit->warmup_seconds);
    gpumc__put_number(w, " seconds (Warm-up)\n#                ", fit->sampling_seconds);
    gpumc__put_number(w, " seconds (Sampling)\n#                ",
                      fit->warmup_seconds + fit->sampling_seconds);
    gpumc__put(w, " seconds (Total)\n# \n");
}

/* Values that are not finite are written, but Stan's own reader would take them for 0: error says so. */
GPUMC_API gpumc_status gpumc_write_stan_csv(const gpumc_fit *fit, const char *prefix, gpumc_error *error)
{
    const gpumc_status status = gpumc__write_files(fit, prefix, 1, gpumc__stan_contents, error);
    char name[256];
    for (size_t c = 0; status == GPUMC_OK && c < fit->n_chains; c++)
        for (size_t i = 0; i < fit->n_draws * fit->n_columns; i++) {
            if (gpumc__is_finite(fit->draws[c * fit->draw_capacity * fit->n_columns + i])) continue;
            gpumc_column_name(fit, i % fit->n_columns, name, sizeof name);
            return gpumc__fail(error, GPUMC_OK, "note: %.99s is not always finite: Stan's reader sees 0",
                               name);
        }
    return status;
}

/* ---- R, NumPy, CmdStan's metric ---------------------------------------------------------------- */

/* R reads nan as a word. */
static void gpumc__tidy_contents(gpumc__writer *w, const void *of, size_t part)
{
    const gpumc_fit *fit = (const gpumc_fit *)of;
    char name[512];
    (void)part;
    gpumc__put(w, ".chain,.iteration,.draw");
    for (const gpumc_block *b = fit->blocks; b < fit->blocks + fit->n_blocks; b++)
        for (size_t j = 0; j < b->size; j++) {
            gpumc_column_name(fit, gpumc__stan_element(b, j, NULL), name, sizeof name);
            gpumc__put(w, strchr(name, ',') ? ",\"%s\"" : ",%s", name);
        }
    for (size_t i = 0; i < fit->n_chains * fit->n_draws && !w->failed; i++) {
        const size_t c = i / fit->n_draws, draw = i % fit->n_draws;
        const double *row = fit->draws + (c * fit->draw_capacity + draw) * fit->n_columns;
        gpumc__put(w, "\n%.0f,%.0f,%.0f", (double)c + 1, (double)draw + 1, (double)i + 1);
        for (const gpumc_block *b = fit->blocks; b < fit->blocks + fit->n_blocks; b++)
            for (size_t j = 0; j < b->size; j++) {
                const double x = row[gpumc__stan_element(b, j, NULL)];
                if (gpumc__is_finite(x)) gpumc__put_number(w, ",", x);
                else gpumc__put(w, gpumc__is_nan(x) ? ",NaN" : x > 0 ? ",Inf" : ",-Inf");
            }
    }
    gpumc__put(w, "\n");
}

GPUMC_API gpumc_status gpumc_write_tidy_csv(const gpumc_fit *fit, const char *path, gpumc_error *error)
{ return gpumc__write_files(fit, path, 0, gpumc__tidy_contents, error); }

static void gpumc__put_bytes(gpumc__writer *w, const void *bytes, size_t n)
{ if (!w->failed) w->failed = gpumc__reason(fwrite(bytes, 1, n, w->file) != n); }

/* Eight bytes, the lowest first on every host; flat, the loop becomes one store. */
static unsigned char *gpumc__put_bits(unsigned char *to, uint64_t bits)
{
    GPUMC__FLAT
    for (int i = 0; i < 8; i++) to[i] = (unsigned char)(bits >> 8 * i);
    return to + 8;
}

enum { GPUMC__F8, GPUMC__I8, GPUMC__B1, GPUMC__U4 };       /* numbers in files; U4: labels */

/* n rows, stride bytes apart, of count values: doubles, or one that is an int32_t or a flag. NULL: zeros.
   What lies in memory as in files goes out a row at a time, or all at once. */
static void gpumc__put_rows(gpumc__writer *w, int type, const void *rows, size_t stride, size_t n,
                            size_t count)
{
    const uint16_t one = 1;
    const int as_in_files = type == GPUMC__F8 && rows && *(const uint8_t *)&one == 1;
    unsigned char bytes[8];
    if (as_in_files && stride == count * sizeof(double)) { count *= n; n = 1; }
    for (size_t i = 0; i < n && !w->failed; i++) {
        const void *row = rows ? (const char *)rows + i * stride : NULL;
        if (as_in_files) gpumc__put_bytes(w, row, count * sizeof(double));
        for (size_t k = 0; k < count && !as_in_files; k++) {
            gpumc__put_bits(bytes, !row ? 0 : type == GPUMC__F8 ? gpumc__bits_of(((const double *)row)[k])
                                   : type == GPUMC__I8 ? (uint64_t)*(const int32_t *)row
                                                       : *(const uint8_t *)row != 0);
            gpumc__put_bytes(w, bytes, type == GPUMC__B1 ? 1 : 8);
        }
    }
}

#define GPUMC__FNV_START 0xcbf29ce484222325ULL

/* FNV-1a, a bijection of what came before, so that no single changed byte escapes. NULL has no bytes. */
static uint64_t gpumc__checksum(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;
    while (at && bytes-- > 0) sum = (sum ^ *at++) * 0x100000001b3ULL;
    return sum;
}

enum { GPUMC__MAX_DIMS = 30 };           /* NumPy takes 32 */

/* The one block that the fit is given; the header fills up lines of 64 bytes. */
static void gpumc__npy_contents(gpumc__writer *w, const void *of, size_t part)
{
    const gpumc_fit *fit = (const gpumc_fit *)of;
    const gpumc_block *b = fit->blocks;
    char header[128 + 22 * GPUMC__MAX_DIMS];
    size_t n = (size_t)snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': False, 'shape': "
                                "(%.0f, %.0f", (double)fit->n_chains, (double)fit->n_draws);
    for (size_t d = part; d < b->n_dims; d++)
        n += (size_t)snprintf(header + n, sizeof header - n, ", %.0f", (double)b->dims[d]);
    n += (size_t)snprintf(header + n, sizeof header - n, "), }");
    const size_t length = (n + 10) / 64 * 64 + 54;
    const unsigned char first[] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)length,
                                    (unsigned char)(length >> 8) };
    gpumc__put_bytes(w, first, sizeof first);
    gpumc__put(w, "%s%*s\n", header, (int)(length - n - 1), "");
    for (size_t c = 0; c < fit->n_chains; c++)
        gpumc__put_rows(w, GPUMC__F8, fit->draws + c * fit->draw_capacity * fit->n_columns + b->offset,
                        fit->n_columns * sizeof(double), fit->n_draws, b->size);
}

GPUMC_API gpumc_status gpumc_write_npy(const gpumc_fit *fit, const char *block, const char *path,
                                       gpumc_error *error)
{
    if (!fit) return gpumc__write_files(NULL, path, 0, gpumc__npy_contents, error);
    gpumc_fit one = *fit;
    gpumc_block all = { "", &fit->n_columns, 1, 0, fit->n_columns, 0, GPUMC_GENERATED };
    size_t i = 0;
    while (block && i < fit->n_blocks && strcmp(fit->blocks[i].name, block) != 0) i++;
    if (block && i == fit->n_blocks)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "no block \"%.100s\" in the fit; NULL writes all "
                           "columns", block);
    one.blocks = block ? &fit->blocks[i] : &all;
    if (one.blocks->n_dims > GPUMC__MAX_DIMS)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "block \"%.100s\" has %.0f dimensions; at most %d "
                           "fit beside chain and draw", block, (double)one.blocks->n_dims, GPUMC__MAX_DIMS);
    return gpumc__write_files(&one, path, 0, gpumc__npy_contents, error);
}

static void gpumc__metric_contents(gpumc__writer *w, const void *of, size_t part)
{
    const gpumc_fit *fit = (const gpumc_fit *)of;
    const gpumc_metric *m = &fit->metric;
    const size_t n = m->dim, dense = m->kind == GPUMC_METRIC_DENSE;
    gpumc__put_number(w, "{\"stepsize\":", fit->tree_step_size > 0 ? fit->tree_step_size : fit->step_size);
    gpumc__put(w, ",\"metric_type\":\"%s\",\"inv_metric\":[", gpumc__stan_metrics[m->kind]);
    for (size_t k = part; k < (dense ? n * n : n); k++)
        gpumc__put_number(w, dense && k % n == 0 ? k ? "],[" : "[" : k ? "," : "",
                          dense ? m->covariance[k] : gpumc__metric_variance(m, k));
    gpumc__put(w, dense ? "]]}\n" : "]}\n");
}

GPUMC_API gpumc_status gpumc_write_metric_json(const gpumc_fit *fit, const char *path, gpumc_error *error)
{
    if (fit && (fit->metric.dim == 0 || !(fit->step_size > 0 && gpumc__is_finite(fit->step_size))))
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "the fit has no metric, or no step size: merged fits "
                           "and runs stopped in warm-up have none");
    if (fit && fit->sampler > GPUMC_SAMPLER_NUTS && !(fit->tree_step_size > 0))
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "a run of %s without warm-up has no step size of "
                           "NUTS, which files carry", fit->sampler == GPUMC_SAMPLER_HMC ? "HMC" : "MAMS");
    return gpumc__write_files(fit, path, 0, gpumc__metric_contents, error);
}

/* Stan's data, but a text where a number should be is NaN. */
static int gpumc__json_with_texts(gpumc__reader *r)
{
    r->takes_texts = 1;
    return gpumc__json_object(r);
}

/* Fills a metric from a list of variances or a covariance matrix; returns what is wrong with it, or NULL. */
static const char *gpumc__metric_from(const gpumc_variable *v, gpumc_metric *m)
{
    const size_t n = m->dim, dense = v->n_dims == 2;
    m->kind = dense ? GPUMC_METRIC_DENSE : GPUMC_METRIC_DIAG;
    for (size_t i = 0; i < n; i++) {
        const double variance = v->values[dense ? i * n + i : i];
        if (!(variance > 0 && gpumc__is_finite(variance))) return "has a variance that is not positive";
        m->scale[i] = sqrt(variance);
        for (size_t j = 0; dense && j <= i; j++) {       /* but for the rounding of whoever computed it */
            const double a = v->values[i * n + j], b = v->values[j * n + i], mean = 0.5 * (a + b);
            if (!(fabs(a - b) <= 1e-8 * m->scale[i] * m->scale[j])) return "is not symmetric";
            m->covariance[i * n + j] = m->covariance[j * n + i] = mean;
            m->factor[i * n + j] = m->factor[j * n + i] = mean;
        }
    }
    return dense && !gpumc__cholesky(m->factor, n) ? "is not positive definite" : NULL;
}

GPUMC_API gpumc_status gpumc_read_metric_json(const char *path, const gpumc_allocator *allocator,
                                              gpumc_metric *metric, double *step_size, gpumc_error *error)
{
    gpumc__arena arena = { NULL, 0 };
    gpumc_data data;
    if (!metric || !step_size) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "metric or step_size is NULL");
    memset(&data, 0, sizeof data);
    memset(metric, 0, sizeof *metric);
    if (allocator) data.allocator = *allocator;
    gpumc_status status = gpumc__read_path(path, &data, NULL, gpumc__json_with_texts, error);
    if (status != GPUMC_OK) return status;
    const gpumc_variable *step = gpumc_data_get(&data, "stepsize", 1, 0, error);
    const gpumc_variable *v = step ? gpumc_data_get(&data, "inv_metric", 0, 0, error) : NULL;
    const int positive = step && step->values[0] > 0 && gpumc__is_finite(step->values[0]);
    const char *wrong = !v ? "or stepsize is missing"
        : !positive ? "comes with a stepsize that is not positive"
        : v->n_dims < 1 || v->n_dims > 2 || v->n_values == 0 || v->dims[v->n_dims - 1] != v->dims[0]
            ? "is neither a list of variances nor a square matrix" : NULL;
    for (int placed = 0; !wrong && placed < 2; placed++) {
        const gpumc_metric_kind kind = v->n_dims == 2 ? GPUMC_METRIC_DENSE : GPUMC_METRIC_DIAG;
        if (placed) arena.base = (char *)gpumc__allocate(allocator, arena.used);
        if (placed && !arena.base) { status = gpumc__fail_memory(error, arena.used); break; }
        arena.used = 0;
        *metric = gpumc__metric_place(&arena, kind, v->dims[0], NULL);
    }
    if (arena.base) wrong = gpumc__metric_from(v, metric);
    if (wrong) status = gpumc__fail(error, GPUMC_ERROR_FORMAT, "%.150s: inv_metric %s", path, wrong);
    if (status == GPUMC_OK) *step_size = step->values[0];
    else gpumc_metric_free(allocator, metric);
    gpumc_data_free(&data);
    return status;
}

GPUMC_API void gpumc_metric_free(const gpumc_allocator *allocator, gpumc_metric *metric)
{
    if (!metric) return;
    gpumc__release(allocator, metric->scale);          /* the first in their block */
    memset(metric, 0, sizeof *metric);
}

/* ---- stores: what is in one --------------------------------------------------------------------
   Zarr version 2 in the schema of ArviZ: a list of entries (the root, groups, arrays), sorted, as readers of
   consolidated metadata insist on. Arrays of draws have a file a chain, or several of 128 MiB, to which rows
   are appended; the last is filled up, because readers refuse a short one. What is known to take a mebibyte
   at most has all chains in one file: making one costs a disk as much. Fill values are null: 0 and false
   would be read as missing. gpumc.json tells gpumc_merge what it needs, as data for our own reader. */
enum {
    GPUMC__ROOT, GPUMC__CONSTANT_DATA, GPUMC__LOG_LIKELIHOODS, GPUMC__OBSERVED_DATA, GPUMC__POSTERIOR,
    GPUMC__PREDICTIVE, GPUMC__STATS, GPUMC__FREE, GPUMC__WARMUP, GPUMC__WARMUP_STATS
};
static const char *const gpumc__group_names[] = {
    "", "constant_data", "log_likelihood", "observed_data", "posterior", "posterior_predictive",
    "sample_stats", "unconstrained_posterior", "warmup_posterior", "warmup_sample_stats"
};
typedef struct gpumc__stat_field { const char *name; int type; size_t at; } gpumc__stat_field;
#define GPUMC__STAT(name, type, member) { name, type, offsetof(gpumc_draw_stats, member) }
static const gpumc__stat_field gpumc__stat_fields[] = {
    GPUMC__STAT("lp", GPUMC__F8, lp), GPUMC__STAT("acceptance_rate", GPUMC__F8, accept_stat),
    GPUMC__STAT("accept_sym", GPUMC__F8, accept_sym), GPUMC__STAT("step_size", GPUMC__F8, step_size),
    GPUMC__STAT("energy", GPUMC__F8, energy), GPUMC__STAT("energy_error", GPUMC__F8, energy_error),
    GPUMC__STAT("max_energy_error", GPUMC__F8, max_energy_error),
    GPUMC__STAT("fisher_residual", GPUMC__F8, fisher_residual),
    GPUMC__STAT("tree_depth", GPUMC__I8, tree_depth), GPUMC__STAT("n_steps", GPUMC__I8, n_leapfrog),
    GPUMC__STAT("selected", GPUMC__I8, selected), GPUMC__STAT("diverging", GPUMC__B1, divergent),
    GPUMC__STAT("reached_max_treedepth", GPUMC__B1, hit_max_treedepth)
};
enum { GPUMC__N_STATS = sizeof gpumc__stat_fields / sizeof *gpumc__stat_fields };

/* Those of blocks, by gpumc_group. */
static const int gpumc__block_groups[] = { GPUMC__POSTERIOR, GPUMC__LOG_LIKELIHOODS, GPUMC__PREDICTIVE };

enum { GPUMC__IS_GROUP, GPUMC__IS_DIMENSION, GPUMC__IS_DATA, GPUMC__IS_SAMPLED };     /* forms */

typedef struct gpumc__entry {
    char name[224];                      /* "" for the root and groups */
    int group, type, form;
    const size_t *dims;                  /* of data, or of one draw */
    size_t n_dims, count;                /* count: their product; places of a dimension */
    size_t at, chunk, chains;            /* sampled: bytes into the row of a draw; draws, chains a file */
    const double *values;                /* of data */
    const char *const *labels;           /* of a dimension, the longest of width code points; NULL: numbers */
    size_t width;
} gpumc__entry;

typedef struct gpumc__store {
    const gpumc_fit *fit;                /* names, shapes, facts */
    gpumc_store_options options;
    size_t planned, n_draws;             /* draws a chain: that files are laid out for, that there are */
    gpumc__buffer entries;
    char *path;                          /* PATH.tmp, then what lies in it; PATH itself is at path + room */
    size_t root, room;
    gpumc_status status;                 /* after the first failure nothing more is done */
    int has_checkpoint, keeps;           /* PATH.tmp may be there; it stays after a failure */
    gpumc_allocator allocator;
    gpumc_error *error;
} gpumc__store;

#define GPUMC__REFUSE(s, ...) ((s)->status = gpumc__fail((s)->error, GPUMC_ERROR_ARGUMENT, __VA_ARGS__))

static gpumc__entry *gpumc__nth_entry(const gpumc__store *s, size_t i)
{ return (gpumc__entry *)s->entries.items + i; }

/* Path of a file of an entry, or with "" of its folder. */
static const char *gpumc__in_store(gpumc__store *s, const gpumc__entry *e, const char *file)
{
    snprintf(s->path + s->root, s->room - s->root, "%s%s%s%s%s%s", e->group ? "/" : "",
             gpumc__group_names[e->group], *e->name ? "/" : "", e->name, *file ? "/" : "", file);
    return s->path;
}

static const char *gpumc__in_root(gpumc__store *s, const char *file)
{ return gpumc__in_store(s, gpumc__nth_entry(s, 0), file); }

/* Makes the folder of an entry and puts it in its place. */
static void gpumc__add_entry(gpumc__store *s, const gpumc__entry *e)
{
    size_t place = 0;
    for (size_t i = 0; i < s->entries.n && !s->status; i++) {
        const gpumc__entry *other = gpumc__nth_entry(s, i);
        if (other->group < e->group) place = i + 1;
        if (other->group != e->group) continue;
        if (strcmp(other->name, e->name) < 0) place = i + 1;
        if (gpumc__same_word(other->name, e->name))
            GPUMC__REFUSE(s, "\"%.100s\" stands twice in %s, as variable or dimension; letter case does not "
                          "tell them apart: rename one", e->name, gpumc__group_names[e->group]);
    }
    if (!s->status && !gpumc__reserve(&s->allocator, &s->entries, 1, sizeof *e, s->error))
        s->status = GPUMC_ERROR_MEMORY;
    if (!s->status && !gpumc__make_folder(gpumc__in_store(s, e, "")) && !(s->keeps && gpumc__exists(s->path)))
        s->status = gpumc__file_failed(s->error, s->path, "created");
    if (s->status) return;
    gpumc__entry *to = gpumc__nth_entry(s, place);
    memmove(to + 1, to, (s->entries.n++ - place) * sizeof *e);
    *to = *e;
}

/* Text that needs no escapes in JSON. */
static int gpumc__is_plain(const char *text)
{ return text && gpumc__is_utf8(text) && !strpbrk(text, "\"\\"); }

/* A dimension of a group, which several of its variables may share. */
static void gpumc__add_dimension(gpumc__store *s, int group, const char *name, size_t count,
                                 const char *const *labels)
{
    gpumc__entry e = { "", group, labels ? GPUMC__U4 : GPUMC__I8, GPUMC__IS_DIMENSION, NULL, 1, count, 0, 0,
                       1, NULL, labels, 1 };
    strcpy(e.name, name);
    for (size_t i = 0; i < s->entries.n && !s->status; i++) {
        const gpumc__entry *other = gpumc__nth_entry(s, i);
        if (other->group != group || other->form != e.form || strcmp(other->name, name) != 0) continue;
        if (other->count == count && other->labels == labels) return;
        GPUMC__REFUSE(s, "dimension \"%.100s\" of %s: %.0f places here, %.0f there, or other labels; use "
                      "different names", name, gpumc__group_names[group], (double)other->count,
                      (double)count);
    }
    for (size_t k = 0, length = 0; labels && k < count && !s->status; k++, length = 0) {
        if (!labels[k] || !gpumc__is_utf8(labels[k]))
            GPUMC__REFUSE(s, "label %.0f of dimension \"%.100s\" is NULL or not UTF-8 without control "
                          "characters", (double)k + 1, name);
        else for (const char *at = labels[k]; *at; length++) gpumc__code_point(&at);
        e.width = gpumc__larger(e.width, length);
    }
    if (!s->status) gpumc__add_entry(s, &e);
}

/* What the options say of a dimension. Free coordinates do not have the shape of the values. */
static const gpumc_dimension *gpumc__option_of(const gpumc__store *s, const gpumc__entry *e, size_t d)
{
    const gpumc_dimension *all = s->options.dimensions;
    const size_t n = e->form < GPUMC__IS_DATA || e->group == GPUMC__FREE ? 0 : s->options.n_dimensions;
    size_t k = 0;
    while (k < n && (all[k].dim != d || !all[k].block || strcmp(all[k].block, e->name) != 0)) k++;
    return k < n ? &all[k] : NULL;
}

/* Name of a dimension of an entry, behind chain and draw; text holds 224 bytes. */
static const char *gpumc__dimension_name(const gpumc__store *s, const gpumc__entry *e, size_t d, char *text)
{
    const gpumc_dimension *option = gpumc__option_of(s, e, d);
    if (e->form == GPUMC__IS_DIMENSION) return e->name;
    if (option && option->name) return option->name;
    snprintf(text, 224, "%.200s_dim_%.0f", e->name, (double)d);
    return text;
}

/* A variable with its dimensions, and its group if that is new. */
static void gpumc__add_variable_entry(gpumc__store *s, int group, int form, int type, const char *name,
                                      const size_t *dims, size_t n_dims, size_t at, const double *values)
{
    const size_t length = group >= GPUMC__WARMUP ? s->fit->n_warmup : s->planned;
    const gpumc__entry head = { "", group, 0, GPUMC__IS_GROUP, NULL, 0, 0, 0, 0, 1, NULL, NULL, 0 };
    gpumc__entry e = { "", group, type, form, dims, n_dims, 1, at, 1, 1, values, NULL, 0 };
    char text[224];
    size_t i = 0;
    while (i < s->entries.n && gpumc__nth_entry(s, i)->group != group) i++;
    if (i == s->entries.n && !s->status) gpumc__add_entry(s, &head);
    if (!s->status && (!gpumc__name_is_valid(name) || n_dims > GPUMC__MAX_DIMS))
        GPUMC__REFUSE(s, "variable \"%.60s\": names are at most 200 letters, digits and _, start with a "
                      "letter, do not end in __, are not chain, draw, sample or pred_id; at most %d "
                      "dimensions", name, GPUMC__MAX_DIMS);
    if (s->status) return;
    strcpy(e.name, name);
    for (size_t d = 0; d < n_dims; d++) e.count *= dims[d];
    e.chunk = gpumc__larger(gpumc__smaller(((size_t)1 << 24) / gpumc__larger(e.count, 1), length), 1);
    if ((s->n_draws == s->planned || group >= GPUMC__WARMUP)        /* all is there */
        && (double)e.count * (double)length * (double)s->fit->n_chains <= 131072) e.chains = s->fit->n_chains;
    gpumc__add_entry(s, &e);
    for (size_t d = 0; d < n_dims && !s->status; d++) {
        const gpumc_dimension *option = gpumc__option_of(s, &e, d);
        if (option && option->name && !gpumc__name_is_valid(option->name))
            GPUMC__REFUSE(s, "dimension %.0f of \"%.60s\" as \"%.60s\": a name is at most 200 letters, "
                          "digits and _, and starts with a letter", (double)d, e.name, option->name);
        else gpumc__add_dimension(s, group, gpumc__dimension_name(s, &e, d, text), dims[d],
                             option ? option->labels : NULL);
    }
    if (form != GPUMC__IS_SAMPLED || s->status) return;
    gpumc__add_dimension(s, group, "chain", s->fit->n_chains, NULL);
    if (!s->status) gpumc__add_dimension(s, group, "draw", length, NULL);
}

/* Values, in warm-up without what is generated. */
static void gpumc__add_draws(gpumc__store *s, int warmup)
{
    for (const gpumc_block *b = s->fit->blocks; b < s->fit->blocks + s->fit->n_blocks; b++)
        if (!warmup || !b->is_output)
            gpumc__add_variable_entry(s, warmup ? GPUMC__WARMUP : gpumc__block_groups[b->group],
                                      GPUMC__IS_SAMPLED, GPUMC__F8, b->name, b->dims, b->n_dims,
                                      b->offset * sizeof(double), NULL);
}

/* Free coordinates of what is transformed, in the shape of the values where that holds as many. */
static void gpumc__add_free(gpumc__store *s)
{
    for (size_t i = 0; s->fit->unconstrained && s->fit->free_blocks && i < s->fit->n_blocks; i++) {
        const gpumc_block *b = &s->fit->blocks[i];
        const size_t *at = &s->fit->free_blocks[2 * i];
        if (at[1] > 0)
            gpumc__add_variable_entry(s, GPUMC__FREE, GPUMC__IS_SAMPLED, GPUMC__F8, b->name,
                                      at[1] == b->size ? b->dims : &at[1], at[1] == b->size ? b->n_dims : 1,
                                      at[0] * sizeof(double), NULL);
    }
}

static void gpumc__add_stats(gpumc__store *s, int group)
{
    for (const gpumc__stat_field *f = gpumc__stat_fields; f < gpumc__stat_fields + GPUMC__N_STATS; f++)
        gpumc__add_variable_entry(s, group, GPUMC__IS_SAMPLED, f->type, f->name, NULL, 0, f->at, NULL);
}

static void gpumc__add_data(gpumc__store *s, int group, const gpumc_data *data)
{
    for (size_t i = 0; data && i < data->n_variables; i++) {
        const gpumc_variable *v = &data->variables[i];
        gpumc__add_variable_entry(s, group, GPUMC__IS_DATA, v->is_integer ? GPUMC__I8 : GPUMC__F8, v->name,
                                  v->dims, v->n_dims, 0, v->values);
    }
}

/* Every dimension that the options describe is there, once, and its name can be one. */
static void gpumc__check_dimensions(gpumc__store *s)
{
    for (size_t i = 0; i < s->options.n_dimensions && !s->status; i++) {
        const gpumc_dimension *d = &s->options.dimensions[i];
        size_t k = 0;
        while (k < s->entries.n && (d->dim >= gpumc__nth_entry(s, k)->n_dims
                                  || gpumc__option_of(s, gpumc__nth_entry(s, k), d->dim) != d)) k++;
        if (k == s->entries.n)
            GPUMC__REFUSE(s, "dimension %.0f of \"%.60s\" as \"%.60s\": there is none (the first is 0), or "
                          "it is described twice", (double)d->dim, d->block ? d->block : "",
                          d->name ? d->name : "");
    }
}

/* ---- stores: bytes ----------------------------------------------------------------------------- */

typedef struct gpumc__slab {             /* rows of draws for one file; NULL: zeros */
    const gpumc__entry *e;
    const char *rows;
    size_t stride, n;
} gpumc__slab;

static void gpumc__slab_contents(gpumc__writer *w, const void *of, size_t part)
{
    const gpumc__slab *p = (const gpumc__slab *)of;
    (void)part;
    gpumc__put_rows(w, p->e->type, p->rows ? p->rows + p->e->at : NULL, p->stride, p->n, p->e->count);
}

/* Data, or the numbers or labels of a dimension. */
static void gpumc__static_contents(gpumc__writer *w, const void *of, size_t part)
{
    const gpumc__entry *e = (const gpumc__entry *)of;
    unsigned char bytes[8];
    for (size_t j = part; j < e->count && !w->failed; j++) {
        const char *label = e->labels ? e->labels[j] : "";
        const double value = e->values ? e->values[j] : (double)j;
        gpumc__put_bits(bytes, e->type == GPUMC__F8 ? gpumc__bits_of(value) : (uint64_t)(int64_t)value);
        if (!e->labels) gpumc__put_bytes(w, bytes, 8);
        for (size_t i = 0; i < e->width && e->labels; i++) {
            gpumc__put_bits(bytes, *label ? gpumc__code_point(&label) : 0);
            gpumc__put_bytes(w, bytes, 4);
        }
    }
}

/* File k of a chain, or that of data. */
static const char *gpumc__chunk_file(gpumc__store *s, const gpumc__entry *e, size_t chain, size_t k)
{
    char name[128] = "0";
    const int sampled = e->form == GPUMC__IS_SAMPLED;
    if (sampled) snprintf(name, 64, "%.0f.%.0f", (double)(chain / e->chains), (double)k);
    for (size_t d = sampled ? 0 : 1; d < e->n_dims; d++) strcat(name, ".0");
    return gpumc__in_store(s, e, name);
}

/* Writes a file of a store. Complete ones reach the disk: all at once in the end, if the system can. */
static void gpumc__write_part(gpumc__store *s, const char *path, const char *mode, int complete,
                              const void *of, size_t part, gpumc__contents contents)
{
    complete = (complete || s->has_checkpoint) && !GPUMC__HAS_SYNC_ALL;
    if (!s->status) s->status = gpumc__write_file(path, mode, complete, of, part, contents, s->error);
}

/* Adds rows of a chain, the first being its draw number first, to the files of an entry. */
static void gpumc__append(gpumc__store *s, const gpumc__entry *e, size_t chain, size_t first,
                          const char *rows, size_t stride, size_t n)
{
    for (size_t done = 0, m; done < n && !s->status; done += m) {
        const size_t at = (first + done) % e->chunk;
        m = gpumc__smaller(n - done, e->chunk - at);
        const gpumc__slab slab = { e, rows + done * stride, stride, m };
        gpumc__write_part(s, gpumc__chunk_file(s, e, chain, (first + done) / e->chunk),
                          at + chain % e->chains ? "ab" : "wb",
                          at + m == e->chunk, &slab, 0, gpumc__slab_contents);
    }
}

/* The rows of a chain from which an entry is taken. */
static const char *gpumc__rows_of(const gpumc_fit *f, int group, size_t chain, size_t *stride)
{
    const int warmup = group >= GPUMC__WARMUP;
    const size_t row = chain * (warmup ? f->n_warmup : f->draw_capacity);
    const size_t columns = group == GPUMC__FREE ? f->n_free : f->n_columns;
    const double *values = warmup ? f->warmup_draws : group == GPUMC__FREE ? f->unconstrained : f->draws;
    const int stats = group == GPUMC__STATS || group == GPUMC__WARMUP_STATS;
    *stride = stats ? sizeof(gpumc_draw_stats) : columns * sizeof(double);
    return stats ? (const char *)((warmup ? f->warmup_stats : f->stats) + row)
                 : (const char *)(values + row * columns);
}

/* ---- stores: metadata -------------------------------------------------------------------------- */

static size_t gpumc__draws_in(const gpumc__store *s, int group)
{ return group >= GPUMC__WARMUP ? s->fit->n_warmup : s->n_draws; }

/* [4,1000,8], or what of that is in one file. */
static void gpumc__put_shape(gpumc__writer *w, const gpumc__store *s, const gpumc__entry *e, int of_file)
{
    const int sampled = e->form == GPUMC__IS_SAMPLED;
    gpumc__put(w, "[");
    if (sampled) gpumc__put(w, "%.0f,%.0f", (double)(of_file ? e->chains : s->fit->n_chains),
                            (double)(of_file ? e->chunk : gpumc__draws_in(s, e->group)));
    for (size_t d = 0; d < e->n_dims; d++) {
        const size_t n = e->dims ? e->dims[d] : e->count;
        gpumc__put(w, "%s%.0f", d || sampled ? "," : "", (double)(of_file ? gpumc__larger(n, 1) : n));
    }
    gpumc__put(w, "]");
}

static void gpumc__put_array(gpumc__writer *w, const gpumc__store *s, const gpumc__entry *e)
{
    static const char *const types[] = { "<f8", "<i8", "|b1", "<U" };
    gpumc__put(w, "{\"chunks\":");
    gpumc__put_shape(w, s, e, 1);
    gpumc__put(w, ",\"compressor\":null,\"dtype\":\"%s", types[e->type]);
    if (e->labels) gpumc__put(w, "%.0f", (double)e->width);
    gpumc__put(w, "\",\"fill_value\":%s,\"filters\":null,\"order\":\"C\",\"shape\":",
               e->type == GPUMC__F8 ? "\"NaN\"" : "null");
    gpumc__put_shape(w, s, e, 0);
    gpumc__put(w, ",\"zarr_format\":2}");
}

static void gpumc__put_group(gpumc__writer *w, const gpumc__store *s, int group)
{
    const gpumc_fit *f = s->fit;
    const char *between = "";
    gpumc__put(w, "{\"inference_library\":\"gpumc\",\"inference_library_version\":\"" GPUMC_VERSION "\"");
    if (s->options.created_at) gpumc__put(w, ",\"created_at\":\"%s\"", s->options.created_at);
    if (group != GPUMC__CONSTANT_DATA && group != GPUMC__OBSERVED_DATA) {
        gpumc__put(w, ",\"sample_dims\":[\"chain\",\"draw\"],\"sampled_variables\":[");
        for (size_t i = 0; i < s->entries.n; i++) {
            const gpumc__entry *e = gpumc__nth_entry(s, i);
            if (e->group != group || e->form != GPUMC__IS_SAMPLED) continue;
            gpumc__put(w, "%s\"%s\"", between, e->name);
            between = ",";
        }
        gpumc__put(w, "],\"seed\":%llu,\"tuning_steps\":%.0f,\"gpumc_stopped_early\":%d",
                   (unsigned long long)f->options.seed, (double)f->n_warmup, f->status == GPUMC_STOPPED);
        gpumc__put_number(w, ",\"sampling_time\":", fmax(0, fmin(f->sampling_seconds, DBL_MAX)));
    }
    gpumc__put(w, "}");
}

/* The two metadata files of an entry, in the order of their names. */
static const char *gpumc__meta_name(const gpumc__entry *e, int second)
{ return e->form == GPUMC__IS_GROUP ? second ? ".zgroup" : ".zattrs" : second ? ".zattrs" : ".zarray"; }

static void gpumc__put_meta(gpumc__writer *w, const gpumc__store *s, const gpumc__entry *e, int second)
{
    char text[224];
    if (e->form == GPUMC__IS_GROUP && second) gpumc__put(w, "{\"zarr_format\":2}");
    else if (e->form == GPUMC__IS_GROUP && !e->group)
        gpumc__put(w, "{\"creation_library\":\"gpumc\",\"creation_library_language\":\"C\","
                   "\"creation_library_version\":\"" GPUMC_VERSION "\",\"name\":\"%s\"}", s->fit->model_name);
    else if (e->form == GPUMC__IS_GROUP) gpumc__put_group(w, s, e->group);
    else if (!second) gpumc__put_array(w, s, e);
    else {
        const int sampled = e->form == GPUMC__IS_SAMPLED;
        gpumc__put(w, "{\"_ARRAY_DIMENSIONS\":[%s", sampled ? "\"chain\",\"draw\"" : "");
        for (size_t d = 0; d < e->n_dims; d++)
            gpumc__put(w, "%s\"%s\"", d || sampled ? "," : "", gpumc__dimension_name(s, e, d, text));
        gpumc__put(w, "]}");
    }
}

/* Of data and labels; model, and names and shapes of what is drawn, are compared as they are. */
static uint64_t gpumc__digest_of(const gpumc__store *s)
{
    uint64_t digest = GPUMC__FNV_START;
    unsigned char bytes[8];
    for (size_t i = 0; i < s->entries.n; i++) {
        const gpumc__entry *e = gpumc__nth_entry(s, i);
        if (!e->values) continue;
        bytes[0] = (unsigned char)e->group;
        digest = gpumc__checksum(gpumc__checksum(digest, bytes, 1), e->name, strlen(e->name) + 1);
        for (size_t j = 0; j < e->n_dims + e->count; j++) {
            gpumc__put_bits(bytes, j < e->n_dims ? e->dims[j] : gpumc__bits_of(e->values[j - e->n_dims]));
            digest = gpumc__checksum(digest, bytes, 8);
        }
    }
    for (size_t i = 0; i < s->entries.n; i++) {
        const gpumc__entry *e = gpumc__nth_entry(s, i);
        for (size_t k = 0; e->labels && k < e->count; k++)
            digest = gpumc__checksum(digest, e->labels[k], strlen(e->labels[k]) + 1);
    }
    return digest;
}

/* gpumc.json: facts of the run under "model NAME", or "merge NAME" where the chains are of several, then
   blocks in the order of columns, then statistics, each with the chains and the draws a file, 1 for generated
   quantities, and the shape of a draw. */
enum { GPUMC__A_CHAINS, GPUMC__A_DRAWS, GPUMC__A_OUTPUT, GPUMC__A_SHAPE };
enum {
    GPUMC__FACT_DIGEST, GPUMC__FACT_SEED = 2, GPUMC__FACT_FIRST = 4, GPUMC__FACT_CHAINS, GPUMC__FACT_DRAWS,
    GPUMC__FACT_WARMUP, GPUMC__FACT_DEPTH, GPUMC__FACT_THIN, GPUMC__FACT_SAMPLER, GPUMC__FACT_METRIC,
    GPUMC__FACT_FREE, GPUMC__FACT_DIVERGENT, GPUMC__FACT_TARGET, GPUMC__FACT_STEP, GPUMC__FACT_SECONDS,
    GPUMC__FACT_WARMUP_SECONDS, GPUMC__N_FACTS
};

/* Of several stores, of which gpumc__merge_facts leaves the options of the first. */
static int gpumc__is_merged(const gpumc_fit *f)
{ return f->options.num_chains > 0 && (size_t)f->options.num_chains < f->n_chains; }

static void gpumc__put_index(gpumc__writer *w, const gpumc__store *s)
{
    const gpumc_fit *f = s->fit;
    const gpumc_sample_options *o = &f->options;
    const uint64_t digest = gpumc__digest_of(s);
    const double facts[GPUMC__N_FACTS] = {
        (double)(digest >> 32), (double)(digest & 0xffffffff), (double)(o->seed >> 32),
        (double)(o->seed & 0xffffffff), (double)o->first_chain_id, (double)f->n_chains, (double)s->n_draws,
        (double)f->n_warmup, (double)o->max_treedepth, (double)o->thin, (double)f->sampler,
        (double)f->metric.kind, (double)f->n_free, (double)f->n_divergent,
        f->sampler > GPUMC_SAMPLER_NUTS ? gpumc__path_aim(&f->metric, o->target_accept) : o->target_accept,
        f->step_size, f->sampling_seconds, f->warmup_seconds
    };
    gpumc__put(w, "{\"%s %s\":[", gpumc__is_merged(f) ? "merge" : "model", f->model_name);
    for (size_t k = 0; k < GPUMC__N_FACTS; k++)
        gpumc__put_number(w, k ? "," : "", gpumc__is_finite(facts[k]) ? facts[k] : 0);
    gpumc__put(w, "]");
    for (size_t b = 0; b <= f->n_blocks; b++)
        for (size_t i = 0; i < s->entries.n; i++) {
            const gpumc__entry *e = gpumc__nth_entry(s, i);
            const gpumc_block *block = b < f->n_blocks ? &f->blocks[b] : NULL;
            const int group = block ? gpumc__block_groups[block->group] : GPUMC__STATS;
            if (e->form != GPUMC__IS_SAMPLED || e->group != group
                || (block && strcmp(e->name, block->name) != 0)) continue;
            gpumc__put(w, ",\"%s/%s\":[%.0f,%.0f,%d", gpumc__group_names[e->group], e->name,
                       (double)e->chains, (double)e->chunk, block && block->is_output);
            for (size_t d = 0; d < e->n_dims; d++) gpumc__put(w, ",%.0f", (double)e->dims[d]);
            gpumc__put(w, "]");
        }
    gpumc__put(w, "}\n");
}

/* A metadata file: which = 2 i or 2 i + 1 for the two of entry i, beyond that all of them in one, or with
   SIZE_MAX gpumc.json. */
static void gpumc__meta_contents(gpumc__writer *w, const void *of, size_t which)
{
    const gpumc__store *s = (const gpumc__store *)of;
    const size_t all = 2 * s->entries.n;
    if (which == SIZE_MAX) gpumc__put_index(w, s);
    else if (which < all) gpumc__put_meta(w, s, gpumc__nth_entry(s, which / 2), (int)(which % 2));
    if (which != all) return;
    gpumc__put(w, "{\"metadata\":{");
    for (size_t i = 0; i < all; i++) {
        const gpumc__entry *e = gpumc__nth_entry(s, i / 2);
        gpumc__put(w, "%s\"%s%s%s%s%s\":", i ? "," : "", gpumc__group_names[e->group], e->group ? "/" : "",
                   e->name, *e->name ? "/" : "", gpumc__meta_name(e, i % 2));
        gpumc__put_meta(w, s, e, (int)(i % 2));
    }
    gpumc__put(w, "},\"zarr_consolidated_format\":1}");
}

/* ---- stores: from beginning to end ------------------------------------------------------------- */

/* Checks what is to be written and makes the folders for it. run: of a stream that is resumed, else 0. */
static void gpumc__open_store(gpumc__store *s, const char *path, const gpumc_fit *fit, size_t planned,
                              const gpumc_store_options *options, uint64_t run, gpumc_error *error)
{
    const gpumc__entry root = { "", GPUMC__ROOT, 0, GPUMC__IS_GROUP, NULL, 0, 0, 0, 0, 1, NULL, NULL, 0 };
    const char *name = fit->model_name, *date = options ? options->created_at : NULL;
    size_t length = strlen(path);
    memset(s, 0, sizeof *s);
    s->fit = fit;
    s->planned = planned;
    s->n_draws = fit->n_draws;
    if (options) s->options = *options;
    s->allocator = fit->allocator;
    s->error = error;
    if (!gpumc__is_plain(name) || (date && !gpumc__is_plain(date))) {
        GPUMC__REFUSE(s, "name of the model \"%.80s\", created_at \"%.40s\": must be UTF-8 without quotes, "
                      "backslashes and control characters", name ? name : "", date ? date : "");
        return;
    }
    while (length > 1 && path[length - 1] == '/') length--;
    s->room = gpumc__size_add(length, 500);
    const size_t bytes = gpumc__size_add(s->room, length + 1);
    s->path = (char *)gpumc__allocate(&s->allocator, bytes);
    if (!s->path) { s->status = gpumc__fail_memory(error, bytes); return; }
    s->root = (size_t)snprintf(s->path, s->room, "%.*s", (int)length, path);
    if (run) s->root += (size_t)snprintf(s->path + s->root, 20, ".%08lx", (unsigned long)(run & 0xffffffff));
    strcpy(s->path + s->root, ".tmp");
    snprintf(s->path + s->room, length + 1, "%s", path);
    errno = EEXIST;
    if (gpumc__exists(path)) { s->status = gpumc__file_failed(error, path, "created"); return; }
    s->root += 4;
    s->has_checkpoint = run != 0;
    s->keeps = run && gpumc__exists(s->path);
    gpumc__add_entry(s, &root);
    gpumc__add_draws(s, 0);
    gpumc__add_free(s);
    gpumc__add_stats(s, GPUMC__STATS);
    gpumc__add_data(s, GPUMC__OBSERVED_DATA, s->options.observed_data);
    gpumc__add_data(s, GPUMC__CONSTANT_DATA, s->options.constant_data);
    gpumc__check_dimensions(s);
}

/* Releases a store; of one that failed nothing is left on the disk. */
static gpumc_status gpumc__close_store(gpumc__store *s)
{
    for (size_t i = s->status && !s->keeps ? s->entries.n : 0; i-- > 0;) {
        const gpumc__entry *e = gpumc__nth_entry(s, i);
        const size_t n = e->form == GPUMC__IS_SAMPLED ? s->fit->n_chains : e->form != GPUMC__IS_GROUP;
        for (size_t c = 0; c < n; c++)
            for (size_t k = 0; remove(gpumc__chunk_file(s, e, c, k)) == 0; k++) continue;
        for (int k = 0; k < 2; k++) (void)remove(gpumc__in_store(s, e, gpumc__meta_name(e, k)));
        if (i == 0) (void)remove(gpumc__in_store(s, e, "gpumc.json"));
        if (i == 0) (void)remove(gpumc__in_store(s, e, ".zmetadata"));
        gpumc__remove_folder(gpumc__in_store(s, e, ""));
    }
    gpumc__release(&s->allocator, s->entries.items);
    gpumc__release(&s->allocator, s->path);
    return s->status;
}

/* Completes the files of a chain: the rows of the fit, unless n are there already, then zeros to a full file.
   Files behind the last draw, from chains that were ahead when the run was stopped, go. */
static void gpumc__complete_chain(gpumc__store *s, const gpumc__entry *e, size_t chain, size_t n,
                                  int streamed)
{
    const size_t last = (n - 1) / e->chunk, rest = (last + 1) * e->chunk - n;
    const gpumc__slab zeros = { e, NULL, 0, rest };
    size_t stride;
    const char *rows = streamed ? NULL : gpumc__rows_of(s->fit, e->group, chain, &stride);
    if (rows) gpumc__append(s, e, chain, 0, rows, stride, n);
    if (rest > 0 || s->n_draws < s->planned)
        gpumc__write_part(s, gpumc__chunk_file(s, e, chain, last), "ab", 1, &zeros, 0, gpumc__slab_contents);
    for (size_t k = (gpumc__draws_in(s, e->group) - 1) / e->chunk + 1; k <= last; k++)
        (void)remove(gpumc__chunk_file(s, e, chain, k));
}

/* What is missing of arrays. A run stopped in its first file has files as long as the chain furthest on. */
static void gpumc__complete_arrays(gpumc__store *s, const size_t *received)
{
    size_t most = s->n_draws;
    for (size_t c = 0; received && c < s->fit->n_chains; c++) most = gpumc__larger(most, received[c]);
    for (size_t i = 0; i < s->entries.n && !s->status; i++) {
        gpumc__entry *e = gpumc__nth_entry(s, i);
        const int streamed = received && e->group < GPUMC__WARMUP, sampled = e->form == GPUMC__IS_SAMPLED;
        if (streamed && sampled && e->chunk > most) e->chunk = most;
        if (e->form == GPUMC__IS_DIMENSION && strcmp(e->name, "draw") == 0)
            e->count = gpumc__draws_in(s, e->group);
        for (size_t c = 0; sampled && c < s->fit->n_chains; c++)
            gpumc__complete_chain(s, e, c, streamed ? received[c] : gpumc__draws_in(s, e->group), streamed);
        if (!sampled && e->form != GPUMC__IS_GROUP && e->count > 0)
            gpumc__write_part(s, gpumc__chunk_file(s, e, 0, 0), "wb", 1, e, 0, gpumc__static_contents);
    }
}

/* The rest of a store, .zmetadata at last, and the name that makes it one. received: draws of each chain that
   are in it already; NULL: none. */
static gpumc_status gpumc__finish_store(gpumc__store *s, const gpumc_fit *fit, const size_t *received)
{
    if (s->status) return gpumc__close_store(s);
    s->fit = fit;
    if (fit->warmup_draws && fit->n_warmup > 0) {
        gpumc__add_draws(s, 1);
        gpumc__add_stats(s, GPUMC__WARMUP_STATS);
    }
    gpumc__complete_arrays(s, received);
    for (size_t i = 0; i < 2 * s->entries.n; i++) {
        const gpumc__entry *e = gpumc__nth_entry(s, i / 2);
        const char *path = gpumc__in_store(s, e, gpumc__meta_name(e, i % 2));
        gpumc__write_part(s, path, "wb", 1, s, i, gpumc__meta_contents);
    }
    gpumc__write_part(s, gpumc__in_root(s, "gpumc.json"), "wb", 1, s, SIZE_MAX, gpumc__meta_contents);
    gpumc__write_part(s, gpumc__in_root(s, ".zmetadata"), "wb", 1, s, 2 * s->entries.n, gpumc__meta_contents);
    if (!s->status && (!gpumc__sync_all(gpumc__in_root(s, "")) || !gpumc__rename(s->path, s->path + s->room)))
        s->status = gpumc__file_failed(s->error, s->path + s->room, "created");
    return gpumc__close_store(s);
}

GPUMC_API gpumc_status gpumc_write_store(const gpumc_fit *fit, const char *path,
                                         const gpumc_store_options *options, gpumc_error *error)
{
    gpumc__store s;
    if (!fit || !path || !*path) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "no fit, or no path");
    if (!fit->draws || fit->n_draws == 0) return gpumc__no_draws(fit, error);
    gpumc__open_store(&s, path, fit, fit->n_draws, options, 0, error);
    return gpumc__finish_store(&s, fit, NULL);
}

/* ---- streams: stores that grow while sampling -------------------------------------------------- */

struct gpumc_stream {
    gpumc__store store;
    gpumc_fit rows;                      /* as a fit: the latest draws, draw_capacity a chain */
    size_t *received, *written;          /* draws of each chain */
    gpumc_error error;
};

static void gpumc__place_blocks(gpumc__arena *arena, gpumc_fit *f, const gpumc_model *m);    /* in >>run */
static char *gpumc__take_text(gpumc__arena *arena, const char *text);
static uint64_t gpumc__digest_model(const gpumc_model *m);

/* A mebibyte of rows a chain. */
static gpumc_stream *gpumc__place_stream(gpumc__arena *arena, const gpumc_model *model, size_t planned,
                                         gpumc_fit rows)
{
    gpumc_stream *z = (gpumc_stream *)gpumc__take(arena, 1, sizeof *z);
    gpumc__place_blocks(arena, &rows, model);
    const size_t fitting = ((size_t)1 << 20) / (rows.n_columns * sizeof(double) + sizeof(gpumc_draw_stats));
    rows.draw_capacity = gpumc__larger(gpumc__smaller(fitting, planned), 1);
    const size_t n = gpumc__size_mul(rows.n_chains, rows.draw_capacity);
    rows.draws = gpumc__take_doubles(arena, gpumc__size_mul(n, rows.n_columns));
    rows.stats = (gpumc_draw_stats *)gpumc__take(arena, n, sizeof *rows.stats);
    size_t *received = (size_t *)gpumc__take(arena, 2 * rows.n_chains, sizeof *received);
    if (!arena->base) return NULL;
    z->rows = rows;
    z->received = received;
    z->written = received + rows.n_chains;
    memset(received, 0, 2 * rows.n_chains * sizeof *received);
    return z;
}

static int gpumc__holds_draws(gpumc__store *s)
{
    for (size_t i = 0; i < s->entries.n * s->fit->n_chains; i++) {
        const gpumc__entry *e = gpumc__nth_entry(s, i / s->fit->n_chains);
        if (e->form == GPUMC__IS_SAMPLED && gpumc__exists(gpumc__chunk_file(s, e, i % s->fit->n_chains, 0)))
            return 1;
    }
    return 0;
}

GPUMC_API gpumc_stream *gpumc_stream_open(const char *path, const gpumc_model *model,
                                          gpumc_sample_options *sampling, const gpumc_store_options *options,
                                          gpumc_error *error)
{
    gpumc__arena arena = { NULL, 0 };
    gpumc_fit rows;
    memset(&rows, 0, sizeof rows);
    if (!path || !*path || !sampling || sampling->num_chains < 0 || sampling->num_samples < 0) {
        gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "no path, no sampling options, or num_chains or num_samples "
                    "is negative");
        return NULL;
    }
    if (!gpumc_layout_bytes(model, error)) return NULL;
    const size_t planned = sampling->num_samples ? (size_t)sampling->num_samples : 1000;
    rows.n_chains = sampling->num_chains ? (size_t)sampling->num_chains : 4;
    const uint64_t parts[] = { sampling->seed, sampling->first_chain_id, rows.n_chains, planned };
    const uint64_t run = gpumc__checksum(gpumc__digest_model(model), parts, sizeof parts);
    rows.model_name = model->name ? model->name : "model";
    rows.allocator = sampling->allocator;
    gpumc__place_stream(&arena, model, planned, rows);
    arena.base = (char *)gpumc__allocate(&rows.allocator, arena.used);
    if (!arena.base) { gpumc__fail_memory(error, arena.used); return NULL; }
    arena.used = 0;
    gpumc_stream *z = gpumc__place_stream(&arena, model, planned, rows);
    gpumc__open_store(&z->store, path, &z->rows, planned, options, sampling->checkpoint ? run : 0, &z->error);
    if (z->store.status) { gpumc_stream_close(z, NULL, error); return NULL; }
    sampling->discard_draws = 1;
    sampling->stream = z;
    if (!sampling->on_draw || sampling->on_draw == gpumc_stream_draw) {      /* of an earlier stream */
        sampling->on_draw = gpumc_stream_draw;
        sampling->draw_user = z;
    }
    return z;
}

/* Writes the latest draws of a chain. */
static void gpumc__flush_stream(gpumc_stream *z, size_t chain)
{
    const size_t from = z->written[chain], n = z->received[chain] - from;
    for (size_t i = 0; i < z->store.entries.n; i++) {
        const gpumc__entry *e = gpumc__nth_entry(&z->store, i);
        size_t stride;
        const char *rows = gpumc__rows_of(&z->rows, e->group, chain, &stride);
        if (e->form == GPUMC__IS_SAMPLED)
            gpumc__append(&z->store, e, chain, from, rows + from % z->rows.draw_capacity * stride, stride, n);
    }
    z->written[chain] = z->received[chain];
}

/* Brings all draws to the disk, before a checkpoint that counts on them. */
static gpumc_status gpumc__save_stream(gpumc_stream *z, gpumc_error *error)
{
    gpumc__store *s = &z->store;
    for (size_t c = 0; c < z->rows.n_chains; c++) gpumc__flush_stream(z, c);
    if (!s->status && !gpumc__sync_all(gpumc__in_root(s, "")))
        s->status = gpumc__file_failed(s->error, s->path, "written");
    s->keeps = 1;
    if (s->status) *error = z->error;
    return s->status;
}

/* Takes a chain back to its first n draws: those behind a checkpoint come again. */
static void gpumc__rewind_stream(gpumc_stream *z, size_t chain, size_t n)
{
    gpumc__store *s = &z->store;
    for (size_t i = 0; i < s->entries.n && !s->status; i++) {
        const gpumc__entry *e = gpumc__nth_entry(s, i);
        const size_t row = e->count * (e->type == GPUMC__B1 ? 1 : 8);
        if (e->form != GPUMC__IS_SAMPLED) continue;
        for (size_t k = 0, first = 0; !s->status; first = ++k * e->chunk) {
            const size_t keep = n <= first ? 0 : gpumc__smaller(n - first, e->chunk);
            FILE *file = fopen(gpumc__chunk_file(s, e, chain, k), "r+b");
            if (!file && !keep) break;
            if (!file || fseek(file, 0, SEEK_END) != 0 || (double)ftell(file) < (double)keep * (double)row)
                GPUMC__REFUSE(s, "%.150s has fewer draws than the checkpoint: not the same run, or damaged",
                              s->path);
            else if (!gpumc__truncate(file, keep * row))
                s->status = gpumc__file_failed(s->error, s->path, "cut");
            if (file) fclose(file);
            if (!s->status && !keep && remove(s->path) != 0)
                s->status = gpumc__file_failed(s->error, s->path, "removed");
        }
    }
    z->received[chain] = z->written[chain] = n;
}

GPUMC_API int gpumc_stream_draw(size_t chain, size_t draw, const double *values,
                                const gpumc_draw_stats *stats, void *stream)
{
    gpumc_stream *z = (gpumc_stream *)stream;
    if (!z) return 1;
    gpumc_fit *f = &z->rows;
    if (!z->store.status && (chain >= f->n_chains || draw != z->received[chain] || draw >= z->store.planned))
        GPUMC__REFUSE(&z->store, "draw %.0f of chain %.0f is not the next one: sample with the options that "
                      "the stream was opened with", (double)draw + 1, (double)chain + 1);
    if (z->store.status) return 1;
    const size_t at = chain * f->draw_capacity + draw % f->draw_capacity;
    memcpy(f->draws + at * f->n_columns, values, f->n_columns * sizeof(double));
    f->stats[at] = *stats;
    if (++z->received[chain] % f->draw_capacity == 0) gpumc__flush_stream(z, chain);
    return z->store.status != GPUMC_OK;
}

GPUMC_API gpumc_status gpumc_stream_close(gpumc_stream *stream, const gpumc_fit *fit, gpumc_error *error)
{
    if (!stream) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "stream is NULL");
    gpumc__store *s = &stream->store;
    const gpumc_fit *f = &stream->rows;
    const gpumc_allocator allocator = f->allocator;
    size_t least = SIZE_MAX;
    for (size_t c = 0; c < f->n_chains; c++) if (stream->received[c] < least) least = stream->received[c];
    s->n_draws = least;
    if (!s->status && (!fit || fit->resumable)) s->status = GPUMC_STOPPED;
    if (!s->status && fit->status < 0) s->status = gpumc__fail(s->error, fit->status, "%.250s", fit->message);
    if (!s->status && (fit->n_columns != f->n_columns || fit->n_chains != f->n_chains))
        GPUMC__REFUSE(s, "the fit is not that of the stream: it has other numbers of columns or chains");
    if (!s->status && least == 0)
        GPUMC__REFUSE(s, "a chain has no draws: the run was stopped too early, or its on_draw does not call "
                      "gpumc_stream_draw");
    for (size_t c = 0; c < f->n_chains && !s->status; c++) gpumc__flush_stream(stream, c);
    const gpumc_status status = gpumc__finish_store(s, fit, stream->received);
    if (error && status < 0) *error = stream->error;
    gpumc__release(&allocator, stream);
    return status < 0 || (fit && fit->resumable) ? status : GPUMC_OK;
}

/* ---- stores read back -------------------------------------------------------------------------- */

typedef struct gpumc__merge {
    gpumc_fit *fit;
    const char *const *paths;
    gpumc_data *index;                   /* gpumc.json of each store: facts first, then what the arrays are */
    char *path;
    size_t room;
    gpumc_error *error;
} gpumc__merge;

static const double *gpumc__facts(const gpumc__merge *m, size_t store)
{ return m->index[store].variables->values; }

static int gpumc__same_chains(const double *a, const double *b)
{
    return a[GPUMC__FACT_FIRST] < b[GPUMC__FACT_FIRST] + b[GPUMC__FACT_CHAINS]
        && b[GPUMC__FACT_FIRST] < a[GPUMC__FACT_FIRST] + a[GPUMC__FACT_CHAINS]
        && memcmp(a + GPUMC__FACT_SEED, b + GPUMC__FACT_SEED, 2 * sizeof *a) == 0;
}

/* The group in the name of a variable of an index; GPUMC__ROOT when that is no such name. */
static int gpumc__group_in(const char *name)
{
    const char *slash = strchr(name, '/');
    for (int group = GPUMC__STATS; group > GPUMC__ROOT; group--)
        if (slash && strncmp(name, gpumc__group_names[group], (size_t)(slash - name)) == 0
            && !gpumc__group_names[group][slash - name] && gpumc__name_is_valid(slash + 1)) return group;
    return GPUMC__ROOT;
}

/* Whether a variable of an index describes an array, and as another one does. */
static int gpumc__same_array(const gpumc_variable *v, const gpumc_variable *like)
{
    int same = strcmp(v->name, like->name) == 0 && v->n_dims == 1 && v->is_integer
               && v->n_values >= GPUMC__A_SHAPE && v->n_values <= (size_t)GPUMC__MAX_DIMS + GPUMC__A_SHAPE
               && v->n_values == like->n_values && gpumc__group_in(v->name) != GPUMC__ROOT;
    for (size_t d = 0; same && d < v->n_values; d++)
        same = v->values[d] >= (d != GPUMC__A_OUTPUT) && v->values[d] < 4294967296.0
               && (d <= GPUMC__A_DRAWS || memcmp(&v->values[d], &like->values[d], sizeof(double)) == 0);
    return same;
}

/* What is wrong with the index of a store, or between it and those before; NULL: nothing. */
static const char *gpumc__wrong_index(const gpumc__merge *m, size_t store, const char **name)
{
    const gpumc_data *index = &m->index[store];
    const gpumc_variable *v = index->variables, *like = m->index->variables;
    const int merged = index->n_variables > 0 && strncmp(v->name, "merge ", 6) == 0;
    if (index->n_variables < 2 || v->n_values != GPUMC__N_FACTS
        || (!merged && strncmp(v->name, "model ", 6) != 0)) return "gpumc.json is not that of a store";
    *name = m->paths[merged ? store : 0];
    if (store > 0 && (merged || strncmp(like->name, "merge ", 6) == 0))
        return "merge the stores that a merge was made of, as it does not say which chains it has: ";
    *name = "";
    for (int k = 0; k < GPUMC__N_FACTS; k++)
        if (!(v->values[k] >= (k == GPUMC__FACT_CHAINS || k == GPUMC__FACT_DRAWS)
              && (v->values[k] < 4294967296.0 || k >= GPUMC__FACT_TARGET)))
            return "gpumc.json holds an impossible number";
    if (index->n_variables != m->index->n_variables) return "more or fewer variables than in the first store";
    for (size_t i = 0; i < index->n_variables; i++) {
        *name = v[i].name;
        if (i == 0 && strcmp(v->name, like->name) != 0) return "another model than that of the first store: ";
        if (i > 0 && (!gpumc__same_array(&v[i], &like[i])
                      || (v[i].values[GPUMC__A_CHAINS] > 1
                          && v[i].values[GPUMC__A_CHAINS] != v->values[GPUMC__FACT_CHAINS])))
            return "a name or shape is unsound, or not that in the first store: ";
    }
    *name = "";
    if (memcmp(v->values, like->values, 2 * sizeof(double)) != 0)
        return "other data or labels than in the first store";
    for (size_t other = 0; other < store; other++) {
        *name = m->paths[other];
        if (gpumc__same_chains(v->values, gpumc__facts(m, other)))
            return "its chains (by seed and number) are also in ";
    }
    return NULL;
}

/* Reads the n first rows of each chain in a file of draws to places that lie stride apart. */
static gpumc_status gpumc__load_file(const gpumc__merge *m, int type, size_t count, size_t chains,
                                     size_t chunk, size_t n, char *to, size_t stride)
{
    const size_t width = type == GPUMC__B1 ? 1 : 8;
    const size_t total = gpumc__size_mul(gpumc__size_mul(chunk, count), chains);
    unsigned char bytes[8] = { 0 };
    size_t j = 0;
    FILE *file = fopen(m->path, "rb");
    if (!file) return gpumc__file_failed(m->error, m->path, "opened");
    for (; j < total && fread(bytes, 1, width, file) == width; j++) {
        const size_t row = j / count % chunk, chain = j / count / chunk;
        char *at = to + (chain * m->fit->n_draws + row) * stride;
        uint64_t bits = 0;
        for (int i = 8; i-- > 0;) bits = bits << 8 | bytes[i];
        const double value = gpumc__from_bits(bits);
        const int32_t whole = (int32_t)(uint32_t)bits;
        if (row >= n) continue;
        if (type == GPUMC__F8) memcpy(at + j % count * sizeof value, &value, sizeof value);
        else if (type == GPUMC__I8) memcpy(at, &whole, sizeof whole);
        else *at = bytes[0] != 0;
    }
    const int complete = j == total && fgetc(file) == EOF && !ferror(file);
    fclose(file);
    if (complete) return GPUMC_OK;
    return gpumc__fail(m->error, GPUMC_ERROR_FORMAT, "%.150s: %.0f bytes are due, the file has more or "
                       "fewer; copy the store again", m->path, (double)total * (double)width);
}

/* Reads an array of a store, for chains from first_chain on, whose rows begin at to. */
static gpumc_status gpumc__load_array(const gpumc__merge *m, size_t store, const gpumc_variable *v, int type,
                                      size_t first_chain, size_t count, char *to, size_t stride)
{
    const size_t n = m->fit->n_draws, chains = (size_t)v->values[GPUMC__A_CHAINS];
    const size_t chunk = (size_t)v->values[GPUMC__A_DRAWS];
    gpumc_status status = GPUMC_OK;
    for (size_t c = 0; c < (size_t)gpumc__facts(m, store)[GPUMC__FACT_CHAINS]; c += chains)
        for (size_t at = 0; at < n && !status; at += chunk) {
            snprintf(m->path, m->room, "%s/%s/%.0f.%.0f", m->paths[store], v->name, (double)(c / chains),
                     (double)(at / chunk));
            for (size_t d = GPUMC__A_SHAPE; d < v->n_values; d++) strcat(m->path, ".0");
            status = gpumc__load_file(m, type, count, chains, chunk, gpumc__smaller(n - at, chunk),
                                      to + ((first_chain + c) * n + at) * stride, stride);
        }
    return status;
}

/* Blocks as the first index has them, then room for all draws. */
static void gpumc__place_merge(gpumc__arena *arena, gpumc__merge *m)
{
    gpumc_fit *f = m->fit;
    size_t offset = 0;
    f->blocks = (gpumc_block *)gpumc__take(arena, f->n_blocks, sizeof(gpumc_block));
    f->model_name = gpumc__take_text(arena, m->index->variables[0].name + 6);   /* of "model ", "merge " */
    for (size_t i = 0; i < f->n_blocks; i++) {
        const gpumc_variable *v = &m->index->variables[1 + i];
        size_t *dims = (size_t *)gpumc__take(arena, v->n_values, sizeof(size_t)), size = 1;
        gpumc_block b = { gpumc__take_text(arena, strchr(v->name, '/') + 1), dims,
                          v->n_values - GPUMC__A_SHAPE, offset, 0, v->values[GPUMC__A_OUTPUT] > 0,
                          GPUMC_GENERATED };
        for (size_t d = GPUMC__A_SHAPE; d < v->n_values; d++) {
            size = gpumc__size_mul(size, (size_t)v->values[d]);
            if (dims) dims[d - GPUMC__A_SHAPE] = (size_t)v->values[d];
        }
        const int group = gpumc__group_in(v->name);
        b.group = group == GPUMC__LOG_LIKELIHOODS ? GPUMC_LOG_LIKELIHOOD
                  : group == GPUMC__PREDICTIVE    ? GPUMC_POSTERIOR_PREDICTIVE : GPUMC_GENERATED;
        b.size = size;
        if (arena->base) f->blocks[i] = b;
        offset = gpumc__size_add(offset, size);
        if (!b.is_output) f->n_params_columns = offset;
    }
    f->n_columns = offset;
    const size_t rows = gpumc__size_mul(f->n_chains, f->n_draws);
    f->draws = gpumc__take_doubles(arena, gpumc__size_mul(rows, offset));
    f->stats = (gpumc_draw_stats *)gpumc__take(arena, rows, sizeof *f->stats);
}

static gpumc_status gpumc__load_stores(const gpumc__merge *m, size_t n)
{
    const gpumc__stat_field *end = gpumc__stat_fields + GPUMC__N_STATS;
    gpumc_fit *f = m->fit;
    gpumc_status status = GPUMC_OK;
    size_t chain = 0;
    for (size_t store = 0; store < n; store++) {
        const gpumc_variable *v = m->index[store].variables + 1;
        for (const gpumc_block *b = f->blocks; b < f->blocks + f->n_blocks && !status; b++, v++)
            status = gpumc__load_array(m, store, v, GPUMC__F8, chain, b->size, (char *)(f->draws + b->offset),
                                       f->n_columns * sizeof(double));
        for (; v < m->index[store].variables + m->index[store].n_variables && !status; v++)
            for (const gpumc__stat_field *k = gpumc__stat_fields; k < end && !status; k++)
                if (strcmp(strchr(v->name, '/') + 1, k->name) == 0)
                    status = gpumc__load_array(m, store, v, k->type, chain, 1, (char *)f->stats + k->at,
                                               sizeof *f->stats);
        chain += (size_t)gpumc__facts(m, store)[GPUMC__FACT_CHAINS];
    }
    return status;
}

/* What the stores say of their runs: that of the first, the longest times, all divergences. */
static void gpumc__merge_facts(const gpumc__merge *m, size_t n)
{
    gpumc_fit *f = m->fit;
    gpumc_sample_options *o = &f->options;
    const double *facts = m->index->variables[0].values;
    f->n_warmup = (size_t)facts[GPUMC__FACT_WARMUP];
    f->n_free = (size_t)facts[GPUMC__FACT_FREE];
    f->draw_capacity = f->n_draws;
    f->step_size = facts[GPUMC__FACT_STEP];
    f->metric.kind = (gpumc_metric_kind)fmin(facts[GPUMC__FACT_METRIC], GPUMC_METRIC_BLOCKS);
    f->sampler = (gpumc_sampler)fmin(facts[GPUMC__FACT_SAMPLER], GPUMC_SAMPLER_HMC);
    strcpy(f->sampler_reason, "as in the stores");
    o->num_chains = strncmp(m->index->variables[0].name, "merge ", 6) == 0 ? 1       /* gpumc__is_merged */
        : (int)fmin(facts[GPUMC__FACT_CHAINS], INT32_MAX);
    o->num_samples = (int)fmin((double)f->n_draws, INT32_MAX);
    o->max_treedepth = (int)fmin(facts[GPUMC__FACT_DEPTH], GPUMC__MAX_DEPTH);
    o->thin = (int)fmin(facts[GPUMC__FACT_THIN], 1 << 20);
    o->target_accept = facts[GPUMC__FACT_TARGET];
    o->first_chain_id = (uint32_t)facts[GPUMC__FACT_FIRST];
    o->seed = (uint64_t)facts[GPUMC__FACT_SEED] << 32 | (uint64_t)facts[GPUMC__FACT_SEED + 1];
    for (size_t i = 0; i < n; i++) {
        facts = gpumc__facts(m, i);
        f->warmup_seconds = fmax(f->warmup_seconds, facts[GPUMC__FACT_WARMUP_SECONDS]);
        f->sampling_seconds = fmax(f->sampling_seconds, facts[GPUMC__FACT_SECONDS]);
        f->n_divergent += (size_t)facts[GPUMC__FACT_DIVERGENT];
    }
}

/* All but the memory for the indices and for paths. */
static gpumc_status gpumc__merge_stores(gpumc__merge *m, size_t n)
{
    gpumc_fit *f = m->fit;
    gpumc__arena arena = { NULL, 0 };
    gpumc_status status = GPUMC_OK;
    double longest = 0;
    f->n_draws = SIZE_MAX;
    for (size_t i = 0; i < n && !status; i++) {
        snprintf(m->path, m->room, "%s/gpumc.json", m->paths[i]);
        status = gpumc_read_json(m->path, &m->index[i], m->error);
    }
    for (size_t i = 0; i < n && !status; i++) {
        const char *name = "", *wrong = gpumc__wrong_index(m, i, &name);
        if (wrong)
            return gpumc__fail(m->error, GPUMC_ERROR_FORMAT, "%.110s: %s%.70s", m->paths[i], wrong, name);
        const double draws = gpumc__facts(m, i)[GPUMC__FACT_DRAWS];
        f->n_chains += (size_t)gpumc__facts(m, i)[GPUMC__FACT_CHAINS];
        f->n_draws = (size_t)fmin((double)f->n_draws, draws);
        longest = fmax(longest, draws);
    }
    if (status) return status;
    while (1 + f->n_blocks < m->index->n_variables
           && gpumc__group_in(m->index->variables[1 + f->n_blocks].name) != GPUMC__STATS) f->n_blocks++;
    gpumc__place_merge(&arena, m);
    f->memory = arena.base = (char *)gpumc__allocate(&f->allocator, arena.used);
    if (!arena.base) return gpumc__fail_memory(m->error, arena.used);
    arena.used = 0;
    gpumc__place_merge(&arena, m);
    memset(f->stats, 0, f->n_chains * f->n_draws * sizeof *f->stats);
    gpumc__merge_facts(m, n);
    status = gpumc__load_stores(m, n);
    if (!status) status = gpumc__collect_warnings(f);
    if (!status && longest > (double)f->n_draws)
        gpumc__fail(m->error, GPUMC_OK, "note: chains were cut to %.0f draws, the length of the shortest; "
                    "the longest had %.0f", (double)f->n_draws, longest);
    return status;
}

GPUMC_API gpumc_status gpumc_merge(const char *const *paths, size_t n_paths, const gpumc_allocator *allocator,
                                   gpumc_fit *fit)
{
    gpumc_error error = { GPUMC_OK, "" };
    gpumc__merge m = { fit, paths, NULL, NULL, 500, &error };
    gpumc_status status = GPUMC_OK;
    if (!fit) return GPUMC_ERROR_ARGUMENT;
    memset(fit, 0, sizeof *fit);
    if (allocator) fit->allocator = fit->options.allocator = *allocator;
    if (!paths || n_paths == 0) status = gpumc__fail(&error, GPUMC_ERROR_ARGUMENT, "no stores to merge");
    for (size_t i = 0; i < n_paths && !status; i++) {
        if (!paths[i]) status = gpumc__fail(&error, GPUMC_ERROR_ARGUMENT, "path %.0f is NULL", (double)i);
        else m.room = gpumc__larger(m.room, gpumc__size_add(strlen(paths[i]), 500));
    }
    const size_t bytes = gpumc__size_mul(n_paths, sizeof *m.index);
    if (!status) m.index = (gpumc_data *)gpumc__allocate(&fit->allocator, gpumc__size_add(bytes, m.room));
    if (!status && !m.index) status = gpumc__fail_memory(&error, bytes);
    if (!status) {
        m.path = (char *)m.index + bytes;
        memset(m.index, 0, bytes);
        for (size_t i = 0; i < n_paths; i++) m.index[i].allocator = fit->allocator;
        status = gpumc__merge_stores(&m, n_paths);
        for (size_t i = 0; i < n_paths; i++) gpumc_data_free(&m.index[i]);
        gpumc__release(&fit->allocator, m.index);
    }
    if (status) gpumc_free(fit);
    fit->status = status;
    memcpy(fit->message, error.text, sizeof fit->message);
    return status;
}

/* ======================================================================================= >>report
   A fit as one HTML page that needs nothing but a browser: tables and inline SVG, no scripts, nothing
   fetched. However large the model there are at most 40 panels, each of bounded length, and what may be wrong
   comes first. Panels are paths, dots and words on one pair of axes in whole tenths of a pixel: no coordinate
   knows a locale or can be NaN. Plots after Gabry et al. (2019), ranks after Saeilynoja, Buerkner & Vehtari
   (2022). Read first: gpumc__report_contents, the page from top to bottom; gpumc__open_panel and
   gpumc__put_path, through which nearly everything is drawn. */
GPUMC__ONCE

enum {
    GPUMC__LOOKED_AT = 5, GPUMC__PAIRED = 4,   /* quantities with five panels each; and six for their pairs */
    GPUMC__FORESTS = 3, GPUMC__FOREST_ROWS = 40,
    GPUMC__DRAWN = 8,                          /* chains in a panel, as many as there are colours */
    GPUMC__POINTS = 200, GPUMC__RANKS = 100,   /* of a curve, and columns of a trace; of a line of ranks */
    GPUMC__DOTS = 1000, GPUMC__REPLICATES = 100, GPUMC__BINS = 30,
    GPUMC__OPEN_ROWS = 25, GPUMC__TABLE_ROWS = 1000,         /* the others are folded away */
    GPUMC__BARE = 8, GPUMC__NUMBERED = 42                    /* margins left of a panel */
};

/* Values low to high lie at pixels from to to. */
typedef struct gpumc__axis { double low, high, from, to; } gpumc__axis;

typedef struct gpumc__page {
    gpumc_fit fit;                    /* a copy; first, because gpumc__write_files hands on its address */
    gpumc_report_options options;
    gpumc__writer *w;
    gpumc__sheet sheet, other;        /* other: for columns of the second fit */
    gpumc_summary *summaries;         /* one a column */
    gpumc__ranked *listed, *apart;    /* columns that fail, by R-hat, then others; all by |z| of two fits */
    size_t n_listed, n_apart, focus[GPUMC__LOOKED_AT], n_focus, n_divergent;
    size_t n_groups, drawn[GPUMC__DRAWN], n_drawn;       /* chains, or the halves of a single one */
    double *counts, *reach;           /* of groups: ranks counted, how far these are from even */
    const gpumc_block *predictive;
    double *bins;                     /* how many values each replicate, then the data, have in each */
    double *pits, *ks, *elpds[2];     /* of every observation that has a log likelihood; elpds[1]: of other */
    size_t n_observations;
    gpumc_loo loo;                    /* where has_loo */
    int has_loo, others_loo, with_pit;
    gpumc__axis x, y;                 /* of the open panel */
    int in_panel;
    double u[2 * GPUMC__POINTS], v[2 * GPUMC__POINTS], zeros[GPUMC__POINTS];
} gpumc__page;

static const char *const gpumc__line_styles[] = { "l c0", "l c1", "l c2", "l c3",
                                                  "l c4", "l c5", "l c6", "l c7" };

/* ---- the plotting core --------------------------------------------------------------------------- */

static inline void gpumc__put_escaped(gpumc__page *p, const char *text)
{
    static const char special[] = "<>&\"\n", *const written[] = { "&lt;", "&gt;", "&amp;", "&quot;", " " };
    for (size_t n; *text; text += n) {
        const char *found = strchr(special, *text);
        n = found ? 1 : strcspn(text, special);
        gpumc__put(p->w, "%.*s", found ? 6 : (int)n, found ? written[found - special] : text);
    }
}

static inline void gpumc__put_column_name(gpumc__page *p, size_t column)
{
    char name[512];
    gpumc_column_name(&p->fit, column, name, sizeof name);
    gpumc__put_escaped(p, name);
}

/* The end of a long name, where its indices are. */
static inline void gpumc__short_name(const gpumc__page *p, size_t column, size_t most, char *name)
{
    char whole[512];
    gpumc_column_name(&p->fit, column, whole, sizeof whole);
    const size_t length = strlen(whole), kept = gpumc__smaller(length, most);
    memcpy(name, whole + length - kept, kept + 1);
    if (kept < length) name[0] = name[1] = '.';
}

/* A number to so many significant digits, or decimals where these are negative; with 0 what stands before its
   point. A dash where there is none. */
static inline void gpumc__put_figure(gpumc__page *p, const char *before, double x, int digits,
                                     const char *after)
{
    char text[GPUMC__CELL];
    gpumc__put(p->w, "%s%s%s", before, gpumc__is_nan(x) ? "&#8211;"
               : digits > 0 ? gpumc__significant(x, digits, text)
               : gpumc__fixed(digits ? x : floor(x), -digits, text), after);
}

/* In tenths of a pixel; what is beyond an end lies at the end. */
static inline long gpumc__at(const gpumc__axis *a, double value)
{
    const double share = fmin(fmax((value - a->low) / (a->high - a->low), 0), 1);
    return lround(10 * (a->from + (a->to - a->from) * share));
}

static inline void gpumc__put_tenths(gpumc__page *p, const char *before, long tenths)
{
    const long size = tenths < 0 ? -tenths : tenths;
    gpumc__put(p->w, "%s%s%ld", before, tenths < 0 ? "-" : "", size / 10);
    if (size % 10) gpumc__put(p->w, ".%ld", size % 10);
}

/* From point to point, interrupted where a value is not finite; with low, back along low, and filled. */
static inline void gpumc__put_path(gpumc__page *p, const char *style, size_t n, const double *x,
                                   const double *y, const double *low)
{
    long last_x = 0, last_y = 0;
    gpumc__put(p->w, "<path class=\"%s\" d=\"", style);
    for (size_t k = 0, points = 0; k < (low ? 2 * n : n); k++) {
        const size_t i = k < n ? k : 2 * n - 1 - k;
        const double value = k < n ? y[i] : low[i];
        const long to_x = gpumc__at(&p->x, x[i]), to_y = gpumc__at(&p->y, value);
        points = gpumc__is_finite(value) ? points + 1 : 0;
        if (points == 0) continue;
        gpumc__put_tenths(p, points == 1 ? "M" : points == 2 ? "l" : " ", points > 1 ? to_x - last_x : to_x);
        gpumc__put_tenths(p, " ", points > 1 ? to_y - last_y : to_y);
        last_x = to_x;
        last_y = to_y;
    }
    gpumc__put(p->w, low ? "z\"/>" : "\"/>");
}

static inline void gpumc__put_rule(gpumc__page *p, const char *style, double x_0, double y_0, double x_1,
                                   double y_1)
{
    const double x[] = { x_0, x_1 }, y[] = { y_0, y_1 };
    gpumc__put_path(p, style, 2, x, y, NULL);
}

/* Part of a path of dots; none outside the axes. */
static inline void gpumc__put_dot(gpumc__page *p, double x, double y)
{
    if (!(x >= p->x.low && x <= p->x.high && y >= p->y.low && y <= p->y.high)) return;
    gpumc__put_tenths(p, "M", gpumc__at(&p->x, x));
    gpumc__put_tenths(p, " ", gpumc__at(&p->y, y));
    gpumc__put(p->w, "h.1");
}

static inline void gpumc__put_words(gpumc__page *p, const char *style, double x, double y, const char *words)
{
    gpumc__put(p->w, "<text class=\"%s", style);
    gpumc__put_tenths(p, "\" x=\"", lround(10 * x));
    gpumc__put_tenths(p, "\" y=\"", lround(10 * y));
    gpumc__put(p->w, "\">");
    gpumc__put_escaped(p, words);
    gpumc__put(p->w, "</text>");
}

/* An axis has two ends, also for a single value. */
static inline void gpumc__set_range(gpumc__axis *a, double low, double high)
{
    const double apart = fabs(high - low), middle = gpumc__is_finite(apart) ? 0.5 * low + 0.5 * high : 0;
    const double half = fabs(middle) > 0 ? 0.1 * fabs(middle) : 1;
    const int wide = gpumc__is_finite(apart) && apart > fmax(fabs(middle) * 1e-12, 1e-300);
    a->low = wide ? low : middle - half;
    a->high = wide ? high : middle + half;
}

/* Steps of 1, 2 or 5 times a power of ten, as short as the labels allow; an upright axis has hairlines. */
static inline void gpumc__put_ticks(gpumc__page *p, const gpumc__axis *a)
{
    const int upright = a == &p->y;
    const double range = a->high - a->low, length = fabs(a->to - a->from);
    double step = range, decimals = 0, wanted = length + 1;
    double most = fmax(1, floor(length / (upright ? 18 : 22)));
    char text[GPUMC__CELL];
    for (; most >= 1 && wanted > step / range * length; most--) {
        const double power = pow(10, floor(log10(range / most))), least = range / most / power;
        step = power * (least <= 1 ? 1 : least <= 2 ? 2 : least <= 5 ? 5 : 10);
        decimals = -floor(log10(step) + 1e-9);
        gpumc__decimal(a->low < 0 ? a->low : a->high, (int)decimals, text);
        wanted = upright ? 0 : 5.5 * (double)strlen(text) + 6;
    }
    for (double k = ceil(a->low / step - 1e-9); k * step <= a->high + 1e-9 * step; k++) {
        const double at = (double)gpumc__at(a, k * step) / 10;
        if (upright) gpumc__put_rule(p, "g", p->x.low, k * step, p->x.high, k * step);
        gpumc__decimal(k * step, (int)decimals, text);
        if (upright) gpumc__put_words(p, "e", p->x.from - 4, at + 3, text);
        else gpumc__put_words(p, "m", at, p->y.from + 12, text);
    }
}

/* Begins a panel of 1 to 6 columns of the page and ends the one before. */
static inline void gpumc__open_panel(gpumc__page *p, int columns, double height, int margin,
                                     const char *title, double x_0, double x_1, double y_0, double y_1)
{
    const gpumc__axis x = { 0, 1, (double)margin, 182.0 * columns - 22 }, y = { 0, 1, height - 16, 22 };
    p->x = x;
    p->y = y;
    gpumc__set_range(&p->x, x_0, x_1);
    gpumc__set_range(&p->y, y_0, y_1);
    gpumc__put(p->w, "%s\n<svg class=\"u%d\" viewBox=\"0 0 %d %.0f\" role=\"img\"><title>",
               p->in_panel ? "</svg>" : "", columns, 182 * columns - 14, height);
    p->in_panel = 1;
    gpumc__put_escaped(p, title);
    gpumc__put(p->w, "</title>");
    gpumc__put_words(p, "h", 0, 10, title);
    if (margin == GPUMC__NUMBERED) gpumc__put_ticks(p, &p->y);
    gpumc__put_ticks(p, &p->x);
    gpumc__put_rule(p, "x", p->x.low, p->y.low, p->x.high, p->y.low);
}

static inline void gpumc__close_panels(gpumc__page *p)
{
    gpumc__put(p->w, p->in_panel ? "</svg></div>\n" : "</div>\n");
    p->in_panel = 0;
}

/* A thin bar from the 5 % to the 95 % quantile, a thick one between the quartiles, a dot at the median. */
static inline void gpumc__put_interval(gpumc__page *p, const char *style, const double *q, double at)
{
    for (int k = 0; k < 3; k++) {
        char name[16];
        snprintf(name, sizeof name, "%s i%d", style, k);
        gpumc__put_rule(p, name, q[k], at, q[4 - k], at);
    }
}

static inline void gpumc__take_quantiles(gpumc__sheet *s, double *q)
{
    static const double levels[] = { 0.05, 0.25, 0.5, 0.75, 0.95 };
    for (int k = 0; k < 5; k++)
        q[k] = s->flags & GPUMC__NO_NUMBERS ? GPUMC_NAN : gpumc__quantile(s, levels[k]);
}

/* ---- curves -------------------------------------------------------------------------------------- */

/* The ends of the draws, but no further beyond the outer half percents than a third of what lies between. */
static inline void gpumc__fence(gpumc__sheet *s, double *low, double *high)
{
    const double first = gpumc__quantile(s, 0.005), last = gpumc__quantile(s, 0.995);
    *low = fmax(gpumc__quantile(s, 0), first - (last - first) / 3);
    *high = fmin(gpumc__quantile(s, 1), last + (last - first) / 3);
}

/* Silverman's (1986) rule; whole numbers, of which there are few, keep apart. */
static inline double gpumc__kernel_width(gpumc__sheet *s, double range)
{
    const double quartiles = gpumc__quantile(s, 0.75) - gpumc__quantile(s, 0.25);
    int whole = range <= 40;
    for (size_t i = 0; i < s->total && whole; i++) whole = floor(s->x[i]) >= s->x[i];
    gpumc__take_moments(s);
    const double spread = quartiles > 0 ? fmin(s->sd, quartiles / 1.34) : s->sd;
    return whole ? 0.15 : 0.9 * spread * pow((double)s->total, -0.2);
}

/* A density at GPUMC__POINTS points u from low to high: a normal kernel, mirrored at both ends, beyond which
   there is nothing. Returns its largest value. */
static inline double gpumc__estimate_density(const double *x, size_t n, double low, double high, double width,
                                             double *u, double *density)
{
    enum { last = GPUMC__POINTS - 1 };
    const double step = (high - low) / (int)last;
    const int reach = (int)fmin(fmax(ceil(4 * width / step), 1), last);
    double mass[GPUMC__POINTS] = { 0 }, kernel[GPUMC__POINTS], total = -1, largest = 0;
    for (size_t i = 0; i < n; i++) {
        const double at = (x[i] - low) / step;
        if (!(at >= 0 && at <= (int)last)) continue;
        const int k = (int)fmin(at, last - 1);
        mass[k] += k + 1 - at;
        mass[k + 1] += at - k;
    }
    mass[0] *= 2;
    mass[last] *= 2;
    for (int d = 0; d <= reach; d++) total += 2 * (kernel[d] = exp(-0.5 * gpumc__square(d * step / width)));
    for (int i = 0; i <= last; i++) {
        double sum = 0;
        for (int d = -reach; d <= reach; d++)
            sum += kernel[abs(d)] * mass[abs(i + d) <= last ? abs(i + d) : 2 * last - i - d];
        u[i] = low + step * i;
        density[i] = sum / (total * step * (double)n);
        largest = fmax(largest, density[i]);
    }
    return largest;
}

/* Standard deviations within which so many Brownian bridges all stay with 99 %, at z = 1 %, ..., 99 %. In log
   odds of z they are stationary; this is a fit, within 0.005 up to 65536 lines, to the level that they cross
   with 1 %, by Siegmund's (1985) approximation for crossings in steps. */
static inline double gpumc__band_width(double n_lines) { return sqrt(12.85 + 2.01 * log(n_lines)); }

/* Lines ECDF(z) - z, in the band of n even numbers for so many of them: binomial quantiles of one level. */
static inline void gpumc__gap_panel(gpumc__page *p, int columns, double height, const char *title,
                                    size_t n_points, const double *z, double (*gaps)[GPUMC__RANKS],
                                    size_t n_lines, double n, double of)
{
    const double width = gpumc__band_width(of), level = gpumc_Phi(-width);
    double reach = 0.55 * width / sqrt(n), low[GPUMC__RANKS], high[GPUMC__RANKS];
    for (size_t i = 0; i < n_points; i++) {
        low[i] = gpumc_binomial_quantile(level, n, z[i]) / n - z[i];
        high[i] = gpumc_binomial_quantile(1 - level, n, z[i]) / n - z[i];
        for (size_t l = 0; l < n_lines; l++) reach = fmax(reach, fabs(gaps[l][i]));
    }
    gpumc__open_panel(p, columns, height, GPUMC__NUMBERED, title, 0, 1, -reach, reach);
    gpumc__put_path(p, "b", n_points, z, high, low);
    for (size_t l = 0; l < n_lines; l++)
        gpumc__put_path(p, gpumc__line_styles[l], n_points, z, gaps[l], NULL);
}

/* ---- one quantity -------------------------------------------------------------------------------- */

/* ECDF of each group minus that of all, at most GPUMC__RANKS times and never within ties. Leaves p->reach,
   z = p->u and the differences of the groups that are drawn; returns how many. */
static inline size_t gpumc__rank_gaps(gpumc__page *p, double (*gaps)[GPUMC__RANKS])
{
    const gpumc__sheet *s = &p->sheet;
    const double total = (double)s->total, each = total / (double)p->n_groups;
    const size_t of_group = s->n_chains > 1 ? s->n_draws : (s->total + 1) / 2;
    size_t n = 0;
    for (size_t g = 0; g < p->n_groups; g++) p->counts[g] = p->reach[g] = 0;
    for (size_t k = 0; k < s->total;) {
        p->counts[s->sorted[k].index / of_group]++;
        const int tied = ++k < s->total && s->sorted[k].value <= s->sorted[k - 1].value;
        if (tied || k == s->total || (double)(k * GPUMC__RANKS) < total * (double)(n + 1)) continue;
        p->u[n] = (double)k / total;
        for (size_t g = 0; g < p->n_groups; g++)
            p->reach[g] = fmax(p->reach[g], fabs(p->counts[g] / each - p->u[n]));
        for (size_t l = 0; l < p->n_drawn; l++) gaps[l][n] = p->counts[p->drawn[l]] / each - p->u[n];
        n++;
    }
    return n;
}

/* The groups furthest from even ranks are drawn, in their own order. */
static inline void gpumc__choose_chains(gpumc__page *p)
{
    p->n_drawn = 0;
    gpumc__rank_gaps(p, NULL);
    for (size_t l = 0; l < p->n_groups && l < GPUMC__DRAWN; l++) {
        size_t furthest = 0;
        for (size_t g = 1; g < p->n_groups; g++) if (p->reach[g] > p->reach[furthest]) furthest = g;
        p->reach[furthest] = -1;
    }
    for (size_t g = 0; g < p->n_groups; g++) if (p->reach[g] < 0) p->drawn[p->n_drawn++] = g;
}

/* The band is that of as many independent draws as the chains are worth by themselves: what keeps them apart
   must not widen it. A group of m is compared with all, itself included: as good as m / (1 - 1 / groups). */
static inline void gpumc__rank_panel(gpumc__page *p)
{
    double gaps[GPUMC__DRAWN][GPUMC__RANKS];
    const double all = (double)p->sheet.total, groups = (double)p->n_groups;
    gpumc__look(&p->sheet, GPUMC__SCORES, 0);
    p->sheet.between = 0;
    const double ess = gpumc__ess(&p->sheet), n = fmin(ess > 0 ? ess : all, all) / (groups - 1);
    const size_t n_points = gpumc__rank_gaps(p, gaps);
    gpumc__gap_panel(p, 1, 140, "Ranks", n_points, p->u, gaps, p->n_drawn, floor(fmax(n, 1)), groups);
}

static inline size_t gpumc__row_of(const gpumc__page *p, size_t draw)    /* draws of all chains are counted */
{ return draw / p->fit.n_draws * p->fit.draw_capacity + draw % p->fit.n_draws; }

static inline int gpumc__diverged(const gpumc__page *p, size_t draw)
{ return p->fit.stats && p->fit.stats[gpumc__row_of(p, draw)].divergent; }

/* Up to GPUMC__DOTS draws, by two columns; without them, at their places below a trace. */
static inline void gpumc__put_draws(gpumc__page *p, int divergent, size_t a, size_t b)
{
    const size_t total = p->fit.n_chains * p->fit.n_draws;
    const size_t step = (divergent ? p->n_divergent : total) / GPUMC__DOTS + 1;
    gpumc__put(p->w, "<path class=\"%s\" d=\"", divergent ? "o d" : "o c0");
    for (size_t i = 0, seen = 0; i < total; i++) {
        const double *x = p->fit.draws + gpumc__row_of(p, i) * p->fit.n_columns;
        if (gpumc__diverged(p, i) != divergent || seen++ % step > 0) continue;
        if (a == SIZE_MAX) gpumc__put_dot(p, (double)(i % p->fit.n_draws) + 1, p->y.low);
        else gpumc__put_dot(p, x[a], x[b]);
    }
    gpumc__put(p->w, "\"/>");
}

/* The smallest and the largest draw of each of up to GPUMC__POINTS stretches. */
static inline void gpumc__trace_panel(gpumc__page *p)
{
    const gpumc__sheet *s = &p->sheet;
    const size_t n = s->n_draws, bins = gpumc__smaller(n, GPUMC__POINTS);
    gpumc__open_panel(p, 2, 140, GPUMC__NUMBERED, "Trace", 1, (double)n, s->sorted[0].value,
                      s->sorted[s->total - 1].value);
    for (size_t l = 0; l < p->n_drawn && l < s->n_chains; l++) {
        const double *x = s->x + (s->n_chains > 1 ? p->drawn[l] : 0) * n;
        for (size_t b = 0; b < bins; b++) {
            const size_t from = b * n / bins, to = (b + 1) * n / bins;
            double low = x[from], high = x[from];
            for (size_t i = from; i < to; i++) {
                low = fmin(low, x[i]);
                high = fmax(high, x[i]);
            }
            p->u[2 * b] = p->u[2 * b + 1] = (double)(from + to + 1) / 2;
            p->v[2 * b] = b % 2 ? high : low;
            p->v[2 * b + 1] = b % 2 ? low : high;
        }
        gpumc__put_path(p, gpumc__line_styles[l], 2 * bins, p->u, p->v, NULL);
    }
    gpumc__put_draws(p, 1, SIZE_MAX, SIZE_MAX);
}

static inline void gpumc__density_panel(gpumc__page *p)
{
    gpumc__sheet *s = &p->sheet;
    double q[5], low, high;
    gpumc__take_quantiles(s, q);
    gpumc__fence(s, &low, &high);
    const double width = gpumc__kernel_width(s, high - low);
    const double top = gpumc__estimate_density(s->x, s->total, low, high, width, p->u, p->v);
    gpumc__open_panel(p, 1, 140, GPUMC__BARE, "Density", low, high, -0.12 * top, top);
    gpumc__put_path(p, "a", GPUMC__POINTS, p->u, p->v, p->zeros);
    gpumc__put_interval(p, "k", q, -0.06 * top);
}

static inline void gpumc__lags_panel(gpumc__page *p)
{
    gpumc__sheet *s = &p->sheet;
    const size_t n = s->n_draws, n_lags = gpumc__smaller(n / 4, 50);
    const double noise = 1.96 / sqrt((double)n), ends[] = { 0, (double)n_lags };
    const double below[] = { -noise, -noise }, above[] = { noise, noise };
    gpumc__open_panel(p, 1, 140, GPUMC__NUMBERED, "Autocorrelation", 0, ends[1], -0.25, 1);
    gpumc__put_path(p, "b", 2, ends, above, below);
    for (size_t l = 0; l < p->n_drawn && l < s->n_chains; l++) {
        gpumc__subtract_mean(s->x + (s->n_chains > 1 ? p->drawn[l] : 0) * n, n, s->y);
        for (size_t t = 0; t <= n_lags; t++) {
            p->u[t] = (double)t;
            p->v[t] = gpumc__dot(s->y, s->y + t, n - t) / gpumc__dot(s->y, s->y, n);
        }
        gpumc__put_path(p, gpumc__line_styles[l], n_lags + 1, p->u, p->v, NULL);
    }
}

/* Twenty times the first draws of each chain, on a shorter sheet in the same memory. */
static inline void gpumc__growth_panel(gpumc__page *p, size_t column)
{
    enum { n_points = 20 };
    double bulk[n_points], tail[n_points], most = 100 * (double)p->fit.n_chains;
    const double enough = most, n_draws = (double)p->fit.n_draws;
    for (size_t k = 0; k < n_points; k++) {
        gpumc__sheet s = p->sheet;
        s.n_draws = s.n_draws * (k + 1) / n_points;
        s.total = s.n_chains * s.n_draws;
        s.half = s.n_draws / 2;
        s.kept = s.n_halves * s.half;
        s.has_scores = 0;
        p->u[k] = (double)s.n_draws;
        if (s.n_draws > 0) gpumc__fill_sheet(&s, gpumc_fit_series(&p->fit, column));
        bulk[k] = s.half < 6 ? GPUMC_NAN : gpumc__stat_ess_bulk(&s, 0);
        tail[k] = s.half < 6 ? GPUMC_NAN : gpumc__stat_ess_tail(&s, 0);
        most = fmax(most, fmax(bulk[k], tail[k]));
    }
    p->sheet.has_scores = 0;
    gpumc__open_panel(p, 1, 140, GPUMC__NUMBERED, "ESS by draws a chain", 0, n_draws, 0, 1.05 * most);
    gpumc__put_rule(p, "t", 0, enough, n_draws, enough);
    gpumc__put_path(p, "l k", n_points, p->u, bulk, NULL);
    gpumc__put_path(p, "l k t", n_points, p->u, tail, NULL);
}

static inline int gpumc__can_be_drawn(int flags)
{ return !(flags & GPUMC__NO_NUMBERS) && !(flags & GPUMC_FLAG_CONSTANT); }

static inline void gpumc__put_quantity(gpumc__page *p, size_t column)
{
    const gpumc_summary *r = &p->summaries[column];
    gpumc__put(p->w, "<h3>");
    gpumc__put_column_name(p, column);
    gpumc__put_figure(p, " <small>R-hat ", r->r_hat, -3, "");
    gpumc__put_figure(p, ", ESS ", r->ess_bulk, 0, " bulk");
    gpumc__put_figure(p, ", ", r->ess_tail, 0, " tail</small></h3>\n<div class=\"p\">");
    gpumc__fill_sheet(&p->sheet, gpumc_fit_series(&p->fit, column));
    if (gpumc__can_be_drawn(p->sheet.flags)) {
        gpumc__sort(&p->sheet, p->sheet.x);
        gpumc__choose_chains(p);
        gpumc__trace_panel(p);
        gpumc__density_panel(p);
        gpumc__rank_panel(p);
        gpumc__lags_panel(p);
        gpumc__growth_panel(p, column);
    } else gpumc__put(p->w, "<p class=\"u2\">%s</p>", p->sheet.flags & GPUMC_FLAG_CONSTANT
                      ? "It never changes." : "Some draws are NaN or infinite.");
    gpumc__close_panels(p);
}

/* ---- several quantities -------------------------------------------------------------------------- */

/* Appends a column that can be drawn and is not among them yet. */
static inline void gpumc__add_column(const gpumc__page *p, size_t *columns, size_t *n, size_t most,
                                     size_t column)
{
    int is_new = *n < most && gpumc__can_be_drawn(p->summaries[column].flags);
    for (size_t k = 0; k < *n; k++) is_new &= columns[k] != column;
    if (is_new) columns[(*n)++] = column;
}

/* The column of the second fit that stands where this one does in a block of the same name and size;
   SIZE_MAX where there is none. */
static inline size_t gpumc__other_column(const gpumc__page *p, size_t column)
{
    const gpumc_fit *other = p->options.other;
    const gpumc_block *mine = gpumc__block_of(&p->fit, column);
    for (const gpumc_block *b = other->blocks; b < other->blocks + other->n_blocks; b++)
        if (strcmp(b->name, mine->name) == 0 && b->size == mine->size)
            return b->offset + (column - mine->offset);
    return SIZE_MAX;
}

static inline void gpumc__fill_other(gpumc__page *p, size_t column)
{ gpumc__fill_sheet(&p->other, gpumc_fit_series(p->options.other, gpumc__other_column(p, column))); }

/* Intervals of columns, one a row. With is_both those of two fits, in standard deviations of the first about
   its mean, so that one axis serves them all; z follows the name. */
static inline void gpumc__forest_panel(gpumc__page *p, const char *title, const size_t *columns, size_t n,
                                       int is_both)
{
    double q[GPUMC__FOREST_ROWS][2][5], low = GPUMC_INF, high = -GPUMC_INF;
    char name[64], z[GPUMC__CELL];
    size_t longest = 0;
    for (size_t k = 0; k < n; k++) {
        const gpumc_summary *r = &p->summaries[columns[k]];
        gpumc__fill_sheet(&p->sheet, gpumc_fit_series(&p->fit, columns[k]));
        if (is_both) gpumc__fill_other(p, columns[k]);
        for (int i = 0; i <= is_both; i++) {
            gpumc__take_quantiles(i ? &p->other : &p->sheet, q[k][i]);
            for (int j = 0; j < 5 && is_both; j++) q[k][i][j] = (q[k][i][j] - r->mean) / r->sd;
            low = fmin(low, q[k][i][0]);
            high = fmax(high, q[k][i][4]);
        }
        gpumc__short_name(p, columns[k], 24, name);
        longest = gpumc__larger(longest, strlen(name));
    }
    gpumc__open_panel(p, 2 + is_both, 40 + (is_both ? 18.0 : 14.0) * (double)n,
                      10 + 6 * (int)(longest + (is_both ? 7 : 0)), title, low, high, (double)n, 0);
    gpumc__put_rule(p, "g", 0, 0, 0, (double)n);
    for (size_t k = 0; k < n; k++) {
        const double at = (double)k + 0.5;
        gpumc__short_name(p, columns[k], 24, name);
        if (is_both) snprintf(name + strlen(name), 16, " (%s)", gpumc__significant(p->apart[k].value, 2, z));
        gpumc__put_words(p, "e", p->x.from - 6, (double)gpumc__at(&p->y, at) / 10 + 3.5, name);
        gpumc__put_interval(p, is_both ? "c0" : "k", q[k][0], at - 0.18 * is_both);
        if (is_both) gpumc__put_interval(p, "c1", q[k][1], at + 0.18);
    }
}

/* Energies about their mean, and steps from draw to draw: much narrower steps mean a slow walk through the
   energies (Betancourt 2016). */
static inline void gpumc__energy_panel(gpumc__page *p)
{
    const size_t each = sizeof(gpumc_draw_stats) / sizeof(double);
    const gpumc_series energies = { &p->fit.stats->energy, p->fit.n_chains, p->fit.n_draws,
                                    p->fit.draw_capacity * each, each };
    gpumc__sheet *s = &p->sheet;
    double low, high, *steps = s->weights;
    size_t n = 0;
    gpumc__fill_sheet(s, energies);
    if (!gpumc__can_be_drawn(s->flags) || s->n_draws < 4) return;
    gpumc__fence(s, &low, &high);
    const double width = gpumc__kernel_width(s, GPUMC_INF), half = fmax(s->mean - low, high - s->mean);
    for (size_t i = 0; i < s->total; i++) if (i % s->n_draws) steps[n++] = s->x[i] - s->x[i - 1];
    const double top = gpumc__estimate_density(s->y, s->total, -half, half, width, p->u, p->v);
    const double peak = gpumc__estimate_density(steps, n, -half, half, width, p->u, p->v + GPUMC__POINTS);
    gpumc__open_panel(p, 2, 200, GPUMC__BARE, "Energy about its mean (filled) and its steps (line)",
                      -half, half, 0, 1.02 * fmax(top, peak));
    gpumc__put_path(p, "a", GPUMC__POINTS, p->u, p->v, p->zeros);
    gpumc__put_path(p, "l c1", GPUMC__POINTS, p->u, p->v + GPUMC__POINTS, NULL);
}

static inline void gpumc__steps_panel(gpumc__page *p)
{
    const size_t n = p->fit.n_warmup, n_points = gpumc__smaller(n, GPUMC__POINTS);
    double low = GPUMC_INF, high = -GPUMC_INF;
    for (size_t i = 0; i < p->fit.n_chains * n; i++) {
        const double step = log10(p->fit.warmup_stats[i].step_size);
        low = fmin(low, step);
        high = fmax(high, step);
    }
    gpumc__open_panel(p, 2, 200, GPUMC__NUMBERED, "Step size in warm-up, log10", 1, (double)n, low, high);
    for (size_t l = 0; l < p->fit.n_chains && l < GPUMC__DRAWN; l++) {
        for (size_t k = 0; k < n_points; k++) {
            p->u[k] = (double)(k * n / n_points) + 1;
            p->v[k] = log10(p->fit.warmup_stats[l * n + k * n / n_points].step_size);
        }
        gpumc__put_path(p, gpumc__line_styles[l], n_points, p->u, p->v, NULL);
    }
}

static inline void gpumc__pair_panel(gpumc__page *p, size_t a, size_t b)
{
    const size_t columns[] = { a, b };
    double low[2], high[2];
    char names[2][12], title[32];                         /* as much as fits above a panel */
    for (int k = 0; k < 2; k++) {
        gpumc__fill_sheet(&p->sheet, gpumc_fit_series(&p->fit, columns[k]));
        gpumc__fence(&p->sheet, &low[k], &high[k]);
        gpumc__short_name(p, columns[k], sizeof names[k] - 1, names[k]);
    }
    snprintf(title, sizeof title, "%s by %s", names[1], names[0]);
    gpumc__open_panel(p, 1, 160, GPUMC__NUMBERED, title, low[0], high[0], low[1], high[1]);
    gpumc__put_draws(p, 0, a, b);
    gpumc__put_draws(p, 1, a, b);
}

/* Those in which diverging draws differ most from the rest, then those looked at, then any. */
static inline void gpumc__put_pairs(gpumc__page *p)
{
    gpumc__review v;
    size_t columns[GPUMC__PAIRED], n = 0;
    memset(&v, 0, sizeof v);
    v.fit = &p->fit;
    v.sheet = p->sheet;
    v.divergent = (double)p->n_divergent;
    for (size_t k = 0; p->n_divergent > 0 && k < p->n_listed; k++) {
        gpumc__fill_sheet(&v.sheet, gpumc_fit_series(&p->fit, p->listed[k].index));
        if (gpumc__can_be_drawn(v.sheet.flags)) gpumc__review_divergences(&v, p->listed[k].index);
    }
    for (size_t k = 0; k < 3 && (double)k < v.apart.count; k++)
        gpumc__add_column(p, columns, &n, GPUMC__PAIRED, v.apart.which[k]);
    for (size_t k = 0; k < p->n_focus; k++) gpumc__add_column(p, columns, &n, GPUMC__PAIRED, p->focus[k]);
    for (size_t k = 0; k < p->n_listed; k++)
        gpumc__add_column(p, columns, &n, GPUMC__PAIRED, p->listed[k].index);
    if (n < 2) return;
    gpumc__put(p->w, "<h3>Pairs <small>%s</small></h3>\n<div class=\"p\">",
               p->n_divergent ? "squares: draws that diverged" : "no draw diverged");
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++) gpumc__pair_panel(p, columns[a], columns[b]);
    gpumc__close_panels(p);
}

/* ---- predictions --------------------------------------------------------------------------------- */

static inline const double *gpumc__replicate(const gpumc__page *p, size_t draw)
{ return p->fit.draws + gpumc__row_of(p, draw) * p->fit.n_columns + p->predictive->offset; }

/* How many data lie in each bin, and how many of a replicated data set: its middle 90 and 50 %. Of counts the
   square roots, after Kleiber & Zeileis's (2016) rootogram. */
static inline void gpumc__predictive_panel(gpumc__page *p)
{
    const size_t n = p->options.n_observed, total = p->sheet.total;
    const double *y = p->options.observed;
    double low = y[0], high = y[0], top = 0;
    int whole = 1;
    for (size_t i = 0; i < n; i++) {
        low = fmin(low, y[i]);
        high = fmax(high, y[i]);
        whole &= floor(y[i]) >= y[i];
    }
    whole &= high - low < 1e15;                                      /* beyond, all doubles are whole */
    const double margin = whole ? 0.5 : high > low ? 0.15 * (high - low) : 1, from = low - margin;
    const double most = (double)GPUMC__BINS;
    const double width = whole ? floor((high - low) / most) + 1 : (high - low + 2 * margin) / most;
    const size_t n_bins = (size_t)(whole ? (high - low) / width + 1 : most);
    for (size_t k = 0; k <= GPUMC__REPLICATES; k++) {
        const double *values = k < GPUMC__REPLICATES ? gpumc__replicate(p, k * total / GPUMC__REPLICATES) : y;
        for (size_t i = 0; i < n; i++) {
            const double at = (values[i] - from) / width, last = (double)n_bins - 1;
            const size_t bin = (size_t)fmax(0, fmin(at, last));            /* NaN: the last */
            p->bins[bin * (GPUMC__REPLICATES + 1) + k]++;
        }
    }
    for (size_t k = 0; k < n_bins * (GPUMC__REPLICATES + 1); k++) {
        if (whole) p->bins[k] = sqrt(p->bins[k]);
        top = fmax(top, p->bins[k]);
    }
    gpumc__open_panel(p, 2, 200, GPUMC__NUMBERED, whole ? "Data (bars) and predictions, roots of counts"
                      : "Data (bars) and predictions, counts", from, from + width * (double)n_bins, 0, top);
    for (size_t b = 0; b < n_bins; b++) {
        double *counts = p->bins + b * (GPUMC__REPLICATES + 1), left = from + width * (double)b;
        const double x[] = { left + 0.06 * width, left + 0.94 * width }, middle = left + 0.5 * width;
        const double bar[] = { counts[GPUMC__REPLICATES], counts[GPUMC__REPLICATES] };
        qsort(counts, GPUMC__REPLICATES, sizeof *counts, gpumc__compare_doubles);
        gpumc__put_path(p, "a", 2, x, bar, p->zeros);
        gpumc__put_rule(p, "c1", middle, counts[5], middle, counts[94]);
        gpumc__put_rule(p, "c1 i1", middle, counts[25], middle, counts[74]);
    }
}

/* Notes P(replicate of observation i < observed | the others), ties broken by a number that depends on i
   alone. The weights of the draws are those that gpumc__leave_out has just left. */
static inline void gpumc__note_pit(void *page, size_t i)
{
    const gpumc__page *p = (const gpumc__page *)page;
    const gpumc__sheet *s = &p->sheet;
    gpumc_rng rng = gpumc_rng_at(0, 0, (uint32_t)i, 0);
    const double y = p->options.observed[i], share = gpumc_rng_uniform(&rng);
    double below = 0;
    for (size_t k = 0; k < s->total; k++) {
        const double replicate = gpumc__replicate(p, k)[i], weight = exp(s->weights[k] - s->x[k]);
        below += replicate < y ? weight : replicate <= y ? share * weight : 0;
    }
    p->pits[i] = below;
}

static inline void gpumc__pit_panel(gpumc__page *p)
{
    const size_t n = p->n_observations;
    double z[GPUMC__RANKS - 1], gaps[1][GPUMC__RANKS];
    qsort(p->pits, n, sizeof *p->pits, gpumc__compare_doubles);
    for (size_t k = 0, below = 0; k < GPUMC__RANKS - 1; k++) {
        z[k] = (double)(k + 1) / (double)GPUMC__RANKS;
        while (below < n && p->pits[below] <= z[k]) below++;
        gaps[0][k] = (double)below / (double)n - z[k];
    }
    gpumc__gap_panel(p, 2, 200, "LOO-PIT, ECDF minus even", GPUMC__RANKS - 1, z, gaps, 1, (double)n, 1);
}

/* Infinite ones stand at the top. */
static inline void gpumc__pareto_panel(gpumc__page *p, const gpumc_loo *loo)
{
    const size_t n = loo->n_observations;
    double low = 0, high = 1.05;
    for (size_t i = 0; i < n; i++) {
        p->ks[i] = fmin(p->ks[i], 3);
        low = fmin(low, p->ks[i]);
        high = fmax(high, p->ks[i]);
    }
    gpumc__open_panel(p, 2, 200, GPUMC__NUMBERED, "Pareto k by observation", 1, (double)n, low, high);
    gpumc__put_rule(p, "t", 1, loo->k_threshold, (double)n, loo->k_threshold);
    for (int bad = 0; bad < 2; bad++) {
        const size_t step = (bad ? loo->n_bad_k : n - loo->n_bad_k) / GPUMC__DOTS + 1;
        gpumc__put(p->w, "<path class=\"%s\" d=\"", bad ? "o d" : "o c0");
        for (size_t i = 0, seen = 0; i < n; i++)
            if ((p->ks[i] > loo->k_threshold) == bad && seen++ % step == 0)
                gpumc__put_dot(p, (double)i + 1, p->ks[i]);
        gpumc__put(p->w, "\"/>");
    }
}

/* Leaving out each observation, of the other fit as well if it has as many. */
static inline void gpumc__leave_out_all(gpumc__page *p)
{
    gpumc_loo others;
    p->with_pit = p->predictive && p->predictive->size == p->n_observations;
    p->has_loo = p->n_observations > 0
        && gpumc__leave_each_out(&p->fit, &p->sheet, &p->loo, p->elpds[0], p->ks,
                                 p->with_pit ? gpumc__note_pit : NULL, p) == SIZE_MAX;
    size_t n = 0;
    for (size_t i = 0; p->options.other && i < p->options.other->n_blocks; i++)
        if (p->options.other->blocks[i].group == GPUMC_LOG_LIKELIHOOD) n += p->options.other->blocks[i].size;
    p->others_loo = p->has_loo && n == p->n_observations
        && gpumc__leave_each_out(p->options.other, &p->other, &others, p->elpds[1], NULL, NULL, NULL)
           == SIZE_MAX;
}

static inline void gpumc__put_predictions(gpumc__page *p)
{
    const int has_loo = p->has_loo, with_pit = p->with_pit;
    if (!p->predictive && p->n_observations == 0) return;
    gpumc__put(p->w, "<h2>Predictions</h2>\n<p>");
    if (p->predictive)
        gpumc__put(p->w, "Of %d predicted data sets the middle 90&#160;%% in each bin (thin) and 50&#160;%% "
                   "(thick); the outer bins hold all beyond. ", (int)GPUMC__REPLICATES);
    if (has_loo) {
        gpumc__put_figure(p, "Each observation left out in turn: elpd ", p->loo.elpd, 4, "");
        gpumc__put_figure(p, " (standard error ", p->loo.se, 2, "),");
        gpumc__put_figure(p, " effective parameters ", p->loo.p_loo, 3, "; ");
        gpumc__put(p->w, "Pareto k is above its threshold for %.0f of %.0f observations. ",
                   (double)p->loo.n_bad_k, (double)p->loo.n_observations);
    } else if (p->n_observations > 0)
        gpumc__put(p->w, "No observation can be left out: some log likelihoods are not finite. ");
    if (has_loo && with_pit)
        gpumc__put(p->w, "LOO-PIT, where an observation lies in its predictions, stays in the grey "
                   "99&#160;%% band when these are calibrated.");
    gpumc__put(p->w, "</p>\n<div class=\"p\">");
    if (p->predictive) gpumc__predictive_panel(p);
    if (has_loo && with_pit) gpumc__pit_panel(p);
    if (has_loo) gpumc__pareto_panel(p, &p->loo);
    gpumc__close_panels(p);
}

/* ---- the page ------------------------------------------------------------------------------------ */

/* Colours after Okabe & Ito (2008), for the colour-blind; the second four are dashed in small panels. */
static const char gpumc__report_style[] =
    ":root{color-scheme:light dark;--bg:#fff;--ink:#1b2430;--soft:#566272;--line:#e3e7ec;--band:#eceff3;"
    "--warn:#b3261e}body{margin:0 auto;max-width:1078px;padding:28px 24px 48px;background:var(--bg);"
    "color:var(--ink);font:14px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:24px;margin:0}h2{font-size:17px;margin:40px 0 4px;padding-top:10px;border-top:1px solid "
    "var(--line)}h3{font-size:14px;margin:22px 0 8px;break-after:avoid}small{font-size:12px;font-weight:400;"
    "margin-left:6px}small,p,dt,summary{color:var(--soft)}p{margin:4px 0 12px}p.v{font-size:17px;"
    "color:var(--ink);margin:18px 0 6px}ul{list-style:none;padding:0}li{margin:6px 0;padding:4px 12px;"
    "border-left:3px solid var(--line)}li.w{border-color:var(--warn)}li b{font-size:12px;margin-right:6px}"
    ".w b,td.w{color:var(--warn);font-weight:700}\n"
    "dl{display:flex;flex-wrap:wrap;gap:10px 40px;margin:16px 0}dt{font-size:12px}dd{margin:0;font-size:19px}"
    ".s{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}dd,table{"
    "font-variant-numeric:tabular-nums}th,td{padding:3px 10px;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid var(--line);font-weight:400}tr:first-child th{color:var(--soft);font-size:12px}"
    "th:first-child{text-align:left;padding-left:0}summary{cursor:pointer;margin:8px 0}\n"
    ".p{display:grid;grid-template-columns:repeat(6,minmax(0,1fr));gap:16px 14px;align-items:start;"
    "break-inside:avoid}.u2{grid-column:span 2}.u3{grid-column:span 3}svg{width:100%;overflow:visible}"
    ".q{columns:3;column-gap:14px}.q svg{display:inline-block;break-inside:avoid;margin-bottom:16px}"
    "text{fill:var(--soft);font-size:10px}.h{fill:var(--ink);font-size:11px;font-weight:600}"
    ".e{text-anchor:end}.m{text-anchor:middle}path{fill:none;"
    "stroke:currentColor}.g{color:var(--line)}.x,.t{color:var(--soft)}"
    ".l{stroke-linejoin:round;stroke-width:1.2}.u2 .l{stroke-width:.9}.t{stroke-dasharray:3 3}"
    ".a{fill:#4a9fd4;fill-opacity:.35;stroke:none}.b{fill:var(--band);stroke:none}.i1{stroke-width:3.5}"
    ".i2,.o{stroke-width:7;stroke-linecap:round}.o{stroke-width:2.4;stroke-opacity:.45}"
    ".d{color:var(--warn);stroke-linecap:square;stroke-width:3.4;stroke-opacity:.9}.k{color:var(--ink)}\n"
    ".c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#b8609a}.c4{color:#3d9bd6}"
    ".c5{color:#c78500}.c6{color:#6a4c93}.c7{color:#777}"
    ".u1 .c4,.u1 .c5,.u1 .c6,.u1 .c7{stroke-dasharray:4 2}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--bg:#12161c;--ink:#e7ebf0;--soft:#9aa6b5;"
    "--line:#2a323d;--band:#232b35;--warn:#ff8a80}.c0{color:#56a8e0}.c1{color:#f2884b}.c2{color:#3cc79c}"
    ".c3{color:#e39ac8}.c4{color:#a9d8f7}.c5{color:#f4c152}.c6{color:#b7a0e0}.c7{color:#a8a8a8}}\n"
    "@media screen and (max-width:760px){.p{grid-template-columns:repeat(2,minmax(0,1fr))}"
    ".q{columns:1}.u2,.u3{grid-column:span 2}}@media print{body{font-size:10px;padding:0}h2{margin-top:20px}"
    "table{font-size:9px}th,td{padding:1px 5px}}\n";

static inline void gpumc__put_header(gpumc__page *p)
{
    const gpumc_fit *fit = &p->fit;
    const char *title = fit->model_name ? fit->model_name : "model";
    gpumc__put(p->w, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta "
               "name=\"viewport\" content=\"width=device-width,initial-scale=1\"/><title>");
    gpumc__put_escaped(p, title);
    gpumc__put(p->w, "</title>\n<style>\n%s</style></head>\n<body>\n<h1>", gpumc__report_style);
    gpumc__put_escaped(p, title);
    gpumc__put(p->w, "</h1>\n<p>%.0f chain%s of %.0f draws after %.0f iterations of warm-up%s",
               (double)fit->n_chains, fit->n_chains == 1 ? "" : "s", (double)fit->n_draws,
               (double)fit->n_warmup, fit->status == GPUMC_STOPPED ? ", stopped early" : "");
    gpumc__put_figure(p, ", ", fit->warmup_seconds + fit->sampling_seconds, 2, " s. ");
    gpumc__put(p->w, "%s, %s metric", gpumc__sampler_name(fit->sampler),
               gpumc__metric_names[fit->metric.kind]);
    gpumc__put_figure(p, ", step size ", fit->step_size, 3, "");
    gpumc__put(p->w, ", seed %llu. gpumc " GPUMC_VERSION ".</p>\n", (unsigned long long)fit->options.seed);
}

static inline void gpumc__put_finding(gpumc__page *p, int note, const char *name, const char *text)
{
    gpumc__put(p->w, note ? "<li><b>note %s</b>" : "<li class=\"w\"><b>warning %s</b>", name);
    gpumc__put_escaped(p, text);
    gpumc__put(p->w, "</li>\n");
}

/* The numbers behind a verdict; the two columns are those with the largest R-hat and the smallest ESS. */
static inline void gpumc__put_worst(gpumc__page *p)
{
    const gpumc_summary *r = p->summaries;
    size_t least = p->listed[0].index, most = least;
    for (size_t k = 0; k < p->n_listed; k++) {
        const size_t c = p->listed[k].index;
        if (r[c].r_hat > r[most].r_hat) most = c;
        if (fmin(r[c].ess_bulk, r[c].ess_tail) < fmin(r[least].ess_bulk, r[least].ess_tail)) least = c;
    }
    gpumc__put_figure(p, "<dl>\n<div><dt>largest R-hat</dt><dd>", r[most].r_hat, -3, "<small>");
    gpumc__put_column_name(p, most);
    gpumc__put_figure(p, "</small></dd></div>\n<div><dt>smallest ESS, bulk or tail</dt><dd>",
                      fmin(r[least].ess_bulk, r[least].ess_tail), 0, "<small>");
    gpumc__put_column_name(p, least);
    gpumc__put(p->w, "</small></dd></div>\n<div><dt>divergences</dt><dd>%.0f</dd></div>\n"
               "<div><dt>E-BFMI by chain</dt><dd>", (double)p->fit.n_divergent);
    for (size_t c = 0; p->fit.stats && c < p->fit.n_chains && c < GPUMC__DRAWN; c++) {
        const double *energies = &p->fit.stats[c * p->fit.draw_capacity].energy;
        const gpumc_stat e = gpumc_ebfmi(energies, p->fit.n_draws, sizeof *p->fit.stats / sizeof *energies);
        gpumc__put_figure(p, c ? " " : "", e.value, -2, "");
    }
    gpumc__put(p->w, "%s</dd></div>\n</dl>\n", p->fit.n_chains > GPUMC__DRAWN ? " &#8230;" : "");
}

/* What the run has found, as it stands in the fit. */
static inline void gpumc__put_verdict(gpumc__page *p)
{
    const gpumc_warning *w = p->fit.warnings;
    const int bad_k = p->has_loo && p->loo.n_bad_k > 0;
    size_t n = (p->fit.status < 0) + (size_t)bad_k, worst = 0;
    char text[200];
    for (size_t i = 0; i < p->fit.n_warnings; i++) n += !w[i].note;
    gpumc__put(p->w, "<p class=\"v\">");
    if (n == 0) gpumc__put(p->w, "The checks found nothing wrong.");
    else gpumc__put(p->w, "%.0f warning%s: read before using the draws.", (double)n, n > 1 ? "s" : "");
    gpumc__put(p->w, "</p>\n<ul>\n");
    if (p->fit.status < 0) gpumc__put_finding(p, 0, gpumc_status_text(p->fit.status), p->fit.message);
    for (size_t i = 0; i < p->fit.n_warnings; i++)
        gpumc__put_finding(p, w[i].note, gpumc__warning_names[w[i].code], w[i].text);
    for (size_t i = 0; bad_k && i < p->n_observations; i++) if (p->ks[i] > p->ks[worst]) worst = i;
    snprintf(text, sizeof text, "elpd may be wrong: %.0f of %.0f observations, above all number %.0f, move "
             "the posterior too far when left out; look at them, or fit without each in turn",
             (double)p->loo.n_bad_k, (double)p->n_observations, (double)worst + 1);
    if (bad_k) gpumc__put_finding(p, 0, "Pareto k", text);
    gpumc__put(p->w, "</ul>\n");
    if (p->n_listed > 0) gpumc__put_worst(p);
}

static inline void gpumc__put_comparison(gpumc__page *p)
{
    const size_t n = gpumc__smaller(p->n_apart, GPUMC__FOREST_ROWS);
    size_t columns[GPUMC__FOREST_ROWS];
    double difference, se;
    if (!p->options.other) return;
    gpumc__put(p->w, "<h2>Comparison</h2>\n");
    if (p->others_loo && gpumc_loo_compare(p->elpds[0], p->elpds[1], p->n_observations, &difference, &se,
                                           NULL) == GPUMC_OK) {
        gpumc__put_figure(p, "<p>Leaving each observation out, elpd of this fit is larger by ", difference, 3,
                          "");
        gpumc__put_figure(p, " (standard error ", se, 2, ").</p>\n");
    }
    gpumc__put(p->w, "<p><b class=\"c0\">&#9679;</b> This fit, "
               "<b class=\"c1\">&#9679;</b> ");
    gpumc__put_escaped(p, p->options.other_name ? p->options.other_name : "the other");
    gpumc__put(p->w, ": %.0f of %.0f quantities, the furthest apart first. In brackets the difference of the "
               "means over its Monte Carlo standard error: beyond 4 they are not fits of one posterior.</p>\n"
               "<div class=\"p\">", (double)n, (double)p->n_apart);
    for (size_t k = 0; k < n; k++) columns[k] = p->apart[k].index;
    if (n > 0) gpumc__forest_panel(p, "Intervals in standard deviations of this fit", columns, n, 1);
    gpumc__close_panels(p);
}

static inline void gpumc__put_row(gpumc__page *p, size_t column)
{
    const gpumc_summary *r = &p->summaries[column];
    const double values[] = { r->mean, r->mcse, r->sd, r->q5, r->q50, r->q95 };
    const double enough = 100 * (double)p->fit.n_chains;
    const int decimals = gpumc__row_decimals(r);
    char cell[GPUMC__CELL];
    gpumc__put(p->w, "<tr><th>");
    gpumc__put_column_name(p, column);
    gpumc__put(p->w, "</th>");
    for (size_t k = 0; k < 6; k++) gpumc__put(p->w, "<td>%s</td>", gpumc__is_nan(values[k]) ? "&#8211;"
                                              : gpumc__decimal(values[k], decimals, cell));
    gpumc__put_figure(p, r->ess_bulk < enough ? "<td class=\"w\">" : "<td>", r->ess_bulk, 0, "</td>");
    gpumc__put_figure(p, r->ess_tail < enough ? "<td class=\"w\">" : "<td>", r->ess_tail, 0, "</td>");
    gpumc__put_figure(p, r->r_hat > 1.01 ? "<td class=\"w\">" : "<td>", r->r_hat, -3, "</td></tr>\n");
}

/* The first rows, then those that are folded away. */
static inline void gpumc__put_table(gpumc__page *p)
{
    const size_t n = p->n_listed, shown = gpumc__smaller(n, GPUMC__TABLE_ROWS);
    gpumc__put(p->w, "<h2>Summary</h2>\n<p>What fails a check first, by R-hat. mcse: Monte Carlo standard "
               "error of the mean. Wanted: R-hat at most 1.01, ESS at least 100 a chain.</p>\n");
    for (size_t k = 0, end; k < shown; k = end) {
        end = gpumc__smaller(shown, k ? shown : (size_t)GPUMC__OPEN_ROWS);
        if (k > 0) gpumc__put(p->w, "<details><summary>%.0f more%s</summary>\n", (double)(n - k),
                              shown < n ? ", not all of them listed" : "");
        gpumc__put(p->w, "<div class=\"s\"><table>\n<tr><th></th><th>mean</th><th>mcse</th><th>sd</th>"
                   "<th>5&#160;%%</th><th>median</th><th>95&#160;%%</th><th>ESS bulk</th><th>ESS tail</th>"
                   "<th>R-hat</th></tr>\n");
        for (size_t i = k; i < end; i++) gpumc__put_row(p, p->listed[i].index);
        gpumc__put(p->w, k > 0 ? "</table></div>\n</details>\n" : "</table></div>\n");
    }
}

static inline void gpumc__put_quantities(gpumc__page *p)
{
    gpumc__put(p->w, "<h2>Quantities</h2>\n<p>Below a density: 5 to 95&#160;%%, quartiles, median. Ranks: "
               "ECDF of a chain minus that of all, in the grey 99&#160;%% band when chains agree. ESS: bulk "
               "solid, tail dashed; it should grow steadily, beyond the level line.<br/>");
    if (p->n_groups > GPUMC__DRAWN)
        gpumc__put(p->w, "%d of %.0f chains are drawn, for each quantity those that differ most. ",
                   (int)GPUMC__DRAWN, (double)p->n_groups);
    else for (size_t g = 0; g < p->n_groups; g++)
        gpumc__put(p->w, "<b class=\"c%d\">&#8212;</b> %s %d ", (int)g,
                   p->fit.n_chains == 1 ? "half" : "chain", (int)g + 1);
    gpumc__put(p->w, "%s</p>\n", p->n_divergent ? "<b class=\"d\">&#9632;</b> divergences" : "");
    for (size_t k = 0; k < p->n_focus; k++) gpumc__put_quantity(p, p->focus[k]);
}

/* The sampler and blocks, then pairs. */
static inline void gpumc__put_overview(gpumc__page *p)
{
    size_t n_blocks = 0, columns[GPUMC__FOREST_ROWS];
    char title[160];
    gpumc__put(p->w, "<h2>Sampler and blocks</h2>\n<p>Steps in energy should be about as wide as the "
               "energies. Intervals: 5 to 95&#160;%%, quartiles, median.</p>\n<div class=\"q\">");
    if (p->fit.stats) gpumc__energy_panel(p);
    if (p->fit.warmup_stats && p->fit.n_warmup > 1) gpumc__steps_panel(p);
    for (const gpumc_block *b = p->fit.blocks; b < p->fit.blocks + p->fit.n_blocks; b++) {
        const size_t n = gpumc__smaller(b->size, GPUMC__FOREST_ROWS);
        if (b->group != GPUMC_GENERATED || b->size < 2 || n_blocks++ >= GPUMC__FORESTS) continue;
        for (size_t k = 0; k < n; k++) columns[k] = b->offset + k * (b->size - 1) / (n - 1);
        snprintf(title, sizeof title, n < b->size ? "%.99s: %.0f of %.0f" : "%.99s", b->name, (double)n,
                 (double)b->size);
        gpumc__forest_panel(p, title, columns, n, 0);
    }
    gpumc__close_panels(p);
    if (n_blocks > GPUMC__FORESTS)
        gpumc__put(p->w, "<p>The first %d of %.0f blocks.</p>\n", (int)GPUMC__FORESTS, (double)n_blocks);
    gpumc__put_pairs(p);
}

static inline void gpumc__report_contents(gpumc__writer *w, const void *of, size_t part)
{
    gpumc__page *p = (gpumc__page *)(uintptr_t)of;       /* whose first member is the fit */
    (void)part;
    p->w = w;
    gpumc__put_header(p);
    gpumc__put_verdict(p);
    gpumc__put_comparison(p);
    gpumc__put_table(p);
    gpumc__put_quantities(p);
    gpumc__put_overview(p);
    gpumc__put_predictions(p);
    gpumc__put(w, "</body></html>\n");
}

/* ---- what the page will show --------------------------------------------------------------------- */

/* Returns the bytes wanted; NULL: only these. */
static inline size_t gpumc__place_page(gpumc__page *p, void *base)
{
    gpumc__arena arena = { (char *)base, 0 };
    const size_t n = p->fit.n_columns;
    p->summaries = (gpumc_summary *)gpumc__take(&arena, n, sizeof(gpumc_summary));
    p->listed = (gpumc__ranked *)gpumc__take(&arena, n, sizeof(gpumc__ranked));
    p->apart = (gpumc__ranked *)gpumc__take(&arena, n, sizeof(gpumc__ranked));
    p->counts = gpumc__take_doubles(&arena, p->n_groups);
    p->reach = gpumc__take_doubles(&arena, p->n_groups);
    p->bins = gpumc__take_doubles(&arena, GPUMC__BINS * (GPUMC__REPLICATES + 1));
    p->pits = gpumc__take_doubles(&arena, p->n_observations);
    p->ks = gpumc__take_doubles(&arena, p->n_observations);
    for (int k = 0; k < 2; k++) p->elpds[k] = gpumc__take_doubles(&arena, p->n_observations);
    return arena.used;
}

static inline int gpumc__largest_first(const void *a, const void *b)
{
    const gpumc__ranked *x = (const gpumc__ranked *)a, *y = (const gpumc__ranked *)b;
    const int order = (x->value < y->value) - (x->value > y->value);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Whether a quantity fails a check of the summary. */
static inline int gpumc__fails(const gpumc__page *p, const gpumc_summary *r)
{
    const double enough = 100 * (double)p->fit.n_chains;
    return r->r_hat > 1.01 || r->ess_bulk < enough || r->ess_tail < enough;
}

/* Parameters and generated quantities: what fails a check, by R-hat, then the rest in the model's order; and
   by the z of what two fits have in common. */
static inline void gpumc__list_columns(gpumc__page *p)
{
    for (const gpumc_block *b = p->fit.blocks; b < p->fit.blocks + p->fit.n_blocks; b++)
        for (size_t i = 0; b->group == GPUMC_GENERATED && i < b->size; i++) {
            gpumc_summary *r = &p->summaries[b->offset + i];
            gpumc__ranked next = { 0, b->offset + i };
            *r = gpumc__summary_of(&p->fit, next.index, &p->sheet);
            if (r->flags & GPUMC_FLAG_CONSTANT
                && gpumc__is_structural(b, i, gpumc_fit_series(&p->fit, next.index).x[0])) continue;
            next.value = gpumc__is_nan(r->r_hat) ? -1 : gpumc__fails(p, r) ? r->r_hat : 0;
            p->listed[p->n_listed++] = next;
            if (!p->options.other || gpumc__other_column(p, next.index) == SIZE_MAX) continue;
            gpumc__fill_other(p, next.index);
            const gpumc_summary o = gpumc__summarise_sheet(&p->other);
            next.value = fabs(r->mean - o.mean) / sqrt(r->mcse * r->mcse + o.mcse * o.mcse);
            if (gpumc__is_finite(next.value)) p->apart[p->n_apart++] = next;
        }
    qsort(p->listed, p->n_listed, sizeof *p->listed, gpumc__largest_first);
    qsort(p->apart, p->n_apart, sizeof *p->apart, gpumc__largest_first);
}

/* What the user names; or what fails a check, scalars, and the rest, in the order of the list. */
static inline gpumc_status gpumc__choose_focus(gpumc__page *p, gpumc_error *error)
{
    const size_t most = GPUMC__LOOKED_AT, n_named = p->options.n_names;
    if (n_named > most)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "n_names: at most %.0f", (double)most);
    for (size_t k = 0; k < n_named; k++) {
        const char *name = p->options.names[k] ? p->options.names[k] : "";
        const size_t column = p->focus[p->n_focus++] = gpumc_column(&p->fit, name);
        if (column == SIZE_MAX)
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "names[%.0f]: the fit has no \"%.100s\"",
                               (double)k, name);
        p->summaries[column] = gpumc__summary_of(&p->fit, column, &p->sheet);
    }
    for (int round = 0; round < 3 && n_named == 0; round++)
        for (size_t k = 0; k < p->n_listed; k++) {
            const size_t column = p->listed[k].index;
            const gpumc_summary *r = &p->summaries[column];
            if (round == 0 ? gpumc__fails(p, r) : round == 2 || gpumc__block_of(&p->fit, column)->size == 1)
                gpumc__add_column(p, p->focus, &p->n_focus, most, column);
        }
    return GPUMC_OK;
}

/* The block that predicts the data. */
static inline gpumc_status gpumc__find_predictive(gpumc__page *p, gpumc_error *error)
{
    const size_t n = p->options.n_observed;
    for (const gpumc_block *b = p->fit.blocks; b < p->fit.blocks + p->fit.n_blocks; b++) {
        const int predicts = b->group == GPUMC_POSTERIOR_PREDICTIVE && n > 0 && b->size == n;
        if (predicts && !p->predictive) p->predictive = b;
        if (b->group == GPUMC_LOG_LIKELIHOOD) p->n_observations += b->size;
    }
    if (n > 0 && !p->predictive)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "observed: the fit has no block of group "
                           "GPUMC_POSTERIOR_PREDICTIVE with n_observed, %.0f values", (double)n);
    for (size_t i = 0; i < n; i++)
        if (!gpumc__is_finite(p->options.observed[i]))
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "observed[%.0f] is not finite", (double)i);
    return GPUMC_OK;
}

static inline gpumc_status gpumc__prepare_page(gpumc__page *p, void **block, gpumc_error *error)
{
    const gpumc_fit *other = p->options.other;
    const gpumc_status status = gpumc__find_predictive(p, error);
    if (status != GPUMC_OK) return status;
    p->n_groups = p->fit.n_chains == 1 ? 2 : p->fit.n_chains;
    const size_t bytes = gpumc__place_page(p, NULL);
    *block = gpumc__allocate(&p->fit.allocator, bytes);
    if (!*block || !gpumc__open_series(&p->sheet, gpumc_fit_series(&p->fit, 0), &p->fit.allocator))
        return gpumc__fail_memory(error, bytes);
    if (other && !gpumc__open_series(&p->other, gpumc_fit_series(other, 0), &p->fit.allocator))
        return p->other.flags & GPUMC_FLAG_MEMORY ? gpumc__fail_memory(error, bytes)
             : gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "other: the fit holds no draws");
    memset(*block, 0, bytes);
    gpumc__place_page(p, *block);
    for (size_t i = 0; i < p->sheet.total; i++) p->n_divergent += (size_t)gpumc__diverged(p, i);
    gpumc__list_columns(p);
    gpumc__leave_out_all(p);
    return gpumc__choose_focus(p, error);
}

GPUMC__OFTEN
/* A fit that cannot be shown is refused by the writer. */
GPUMC_API gpumc_status gpumc_write_report(const gpumc_fit *fit, const gpumc_report_options *options,
                                          const char *path, gpumc_error *error)
{
    gpumc__page p;
    void *block = NULL;
    if (!fit || !fit->draws || fit->n_draws == 0)
        return gpumc__write_files(fit, path, 0, gpumc__report_contents, error);
    memset(&p, 0, sizeof p);
    p.fit = *fit;
    if (options) p.options = *options;
    if (!p.options.names) p.options.n_names = 0;
    if (!p.options.observed) p.options.n_observed = 0;
    gpumc_status status = gpumc__prepare_page(&p, &block, error);
    if (status == GPUMC_OK) status = gpumc__write_files(&p.fit, path, 0, gpumc__report_contents, error);
    gpumc__close_sheet(&p.sheet);
    gpumc__close_sheet(&p.other);
    gpumc__release(&fit->allocator, block);
    return status;
}

/* ========================================================================================== >>run
   From a model to a fit: start points, gradient check, warm-up, chains on threads, callbacks.
   A chain is advanced by whichever thread is free; its numbers depend on its own counters alone, and what
   chains learn from each other happens between iterations on one thread, in chain order. So draws do not
   depend on threads. Read first: gpumc_sample at the end, then gpumc__advance. */

GPUMC_API void gpumc_stop(gpumc_stop_flag *flag) { if (flag) gpumc__store_flag(&flag->requested, 1); }

typedef struct gpumc__chain {
    size_t done, goal;                       /* completed draws of this phase, and how many to reach */
    uint64_t gradients, leapfrogs;           /* of all phases; of this phase */
    size_t divergences;
    int busy;
    gpumc_progress progress;                 /* as last reported, under the lock */
    gpumc_nuts *nuts;                        /* from here on pointers, as in gpumc_nuts */
    double *work, *row;                      /* scratch of the model; one row of columns */
    int member;                              /* in whose cache it is; no checkpoint needs to know */
    char apart[64];                          /* from the counters of the next, which another thread writes */
} gpumc__chain;

/* Writes or reads the state, and sums up what passes. */
typedef struct gpumc__carrier { FILE *file; int reading, failed; uint64_t sum; } gpumc__carrier;

/* What a checkpoint file begins with, in every format. */
typedef struct gpumc__seal {
    char magic[8], version[16];
    uint32_t format, byte_order;
    uint64_t build, model;
} gpumc__seal;

typedef struct gpumc__checkpoint {
    char *path, *older, *unfinished, *folder;        /* one block; path NULL: none */
    gpumc__carrier from;                     /* from.file: what is resumed, or NULL */
    gpumc__seal seal;                        /* its */
    int is_whole;                            /* path holds a generation to be kept as the older one */
    double interval, due;                    /* seconds */
    gpumc_error read, written;               /* what was wrong with the newest file, with the last saving */
} gpumc__checkpoint;

typedef struct gpumc__run {
    const gpumc_model *model;
    gpumc_layout *layout;
    gpumc_adapt *adapt;
    gpumc_fit *fit;
    gpumc_sample_options *options;           /* the fit's resolved copy */
    gpumc__chain *chains;
    gpumc_nuts **machines;
    size_t n_chains, chunk; /* chunk: draws a thread makes before it looks for the chain behind */
    size_t n_iterations[2];                  /* of a chain: sampling, warm-up */
    int warmup;
    volatile int stopped;
    double *batch; /* natural values, gradients, densities, Jacobians of waiting chains */
    double begin, phase_begin, last_print;
    int printed_lines;
    gpumc__mutex lock;                       /* callbacks, which chain is taken */
    gpumc_team *team;
    int share;                       /* threads that each density may use */
    gpumc__checkpoint *checkpoint;
} gpumc__run;

static int gpumc__stops(const gpumc__run *r)
{
    return gpumc__load_flag(&r->stopped)
           || (r->options->stop && gpumc__load_flag(&r->options->stop->requested));
}

/* ---- progress: callers hold the lock, where there are threads -------------------------------------- */

static void gpumc__note_progress(gpumc__run *r, size_t c)
{
    const gpumc__chain *chain = &r->chains[c];
    const size_t before = r->warmup ? 0 : r->n_iterations[1], total = r->n_iterations[0] + r->n_iterations[1];
    const double now = gpumc__seconds(), due = (double)((total - before) * r->n_chains);
    double done = 0;
    gpumc_progress *p = &r->chains[c].progress;
    p->chain = c;
    p->n_chains = r->n_chains;
    p->iteration = before + chain->done;
    p->total = total;
    p->warmup = r->warmup;
    p->step_size = chain->nuts->step_size;
    p->mean_leapfrog = chain->done ? (double)chain->leapfrogs / (double)chain->done : 0;
    p->divergences = chain->divergences;
    p->elapsed = now - r->begin;
    for (size_t k = 0; k < r->n_chains; k++) done += (double)(r->chains[k].progress.iteration - before);
    p->remaining = done > 0 ? (now - r->phase_begin) * (due / done - 1) : 0;
}

/* A terminal gets one line a chain, redrawn at most four times a second; a log gets one line a chain per
   tenth. */
static void gpumc__print_progress(gpumc__run *r, size_t c, size_t before)
{
    FILE *stream = r->options->progress_stream;
    const gpumc_progress *p = &r->chains[c].progress;
    size_t first = c, end = c + 1;
    if (gpumc__is_terminal(stream)) {
        if (p->elapsed - r->last_print < 0.25 && p->iteration != p->total) return;
        if (r->printed_lines) fprintf(stream, "\033[%dA", r->printed_lines);
        r->printed_lines = (int)r->n_chains;
        r->last_print = p->elapsed;
        first = 0;
        end = r->n_chains;
    } else if (10 * p->iteration / p->total == 10 * before / p->total) return;
    for (; first < end; first++) {
        p = &r->chains[first].progress;
        fprintf(stream, "chain %2.0f  %-8s %6.0f / %.0f (%3.0f%%)  step %.3g  %.1f gradients a draw  "
                "%.0f divergences  %.1f s, %.1f s to go%s", (double)(first + 1),
                p->warmup ? "warm-up" : "sampling", (double)p->iteration, (double)p->total,
                100 * (double)p->iteration / (double)p->total, p->step_size, p->mean_leapfrog,
                (double)p->divergences, p->elapsed, p->remaining, r->printed_lines ? "\033[K\n" : "\n");
    }
    fflush(stream);
}

static void gpumc__report(gpumc__run *r, size_t c)
{
    const gpumc_sample_options *o = r->options;
    const size_t phase = r->n_iterations[r->warmup], done = r->chains[c].done;
    const size_t before = r->chains[c].progress.iteration;
    if (done % (phase < 200 ? 1 : phase / 100) != 0 && done != phase) return;
    gpumc__note_progress(r, c);
    if (!o->progress) gpumc__print_progress(r, c, before);
    else if (o->progress(&r->chains[c].progress, o->progress_user)) gpumc__store_flag(&r->stopped, 1);
}

/* ---- draws ------------------------------------------------------------------------------------- */

/* Natural values of the draw. A path that was accepted ends where the density was last called. */
static void gpumc__natural_draw(gpumc__run *r, gpumc__chain *chain, double *row)
{
    const gpumc_nuts *s = chain->nuts;
    if (s->sampler != GPUMC_SAMPLER_NUTS && gpumc_nuts_stats(s)->selected > 0)
        memcpy(row, chain->work, r->layout->n_natural * sizeof(double));
    else gpumc__to_natural(r->layout, gpumc_nuts_draw(s), row, chain->work);
}

static void gpumc__keep_warmup(gpumc__run *r, size_t c)
{
    gpumc_fit *f = r->fit;
    gpumc__chain *chain = &r->chains[c];
    const size_t at = c * f->n_warmup + chain->done;
    double *row = f->warmup_draws + at * f->n_columns;
    gpumc__natural_draw(r, chain, row);
    for (size_t i = f->n_params_columns; i < f->n_columns; i++) row[i] = GPUMC_NAN;
    f->warmup_stats[at] = *gpumc_nuts_stats(chain->nuts);
}

static void gpumc__keep_draw(gpumc__run *r, size_t c)
{
    gpumc_fit *f = r->fit;
    gpumc__chain *chain = &r->chains[c];
    const gpumc_sample_options *o = r->options;
    const gpumc_draw_stats *stats = gpumc_nuts_stats(chain->nuts);
    const size_t thin = (size_t)o->thin, draw = chain->done / thin, at = c * f->draw_capacity + draw;
    double *row = f->draws ? f->draws + at * f->n_columns : chain->row;
    chain->divergences += stats->divergent;
    if ((chain->done + 1) % thin != 0) return;
    gpumc__natural_draw(r, chain, row);
    if (r->model->n_outputs > 0) {
        gpumc_rng rng = gpumc_rng_at(o->seed, GPUMC__STREAM_GENERATE, chain->nuts->draw,
                                     o->first_chain_id + (uint32_t)c);
        r->model->generate(row, &rng, row + f->n_params_columns, r->model->data);
    }
    if (f->stats) f->stats[at] = *stats;
    if (f->unconstrained)
        gpumc__unscore(r->layout, gpumc_nuts_draw(chain->nuts), f->unconstrained + at * f->n_free);
    if (!o->on_draw) return;
    gpumc__lock(&r->lock);
    if (o->on_draw(c, draw, row, stats, o->draw_user)) gpumc__store_flag(&r->stopped, 1);
    gpumc__unlock(&r->lock);
}

static void gpumc__completed(gpumc__run *r, size_t c)
{
    gpumc__chain *chain = &r->chains[c];
    chain->leapfrogs += (uint64_t)gpumc_nuts_stats(chain->nuts)->n_leapfrog;
    if (!r->warmup) gpumc__keep_draw(r, c);
    else if (r->fit->warmup_draws) gpumc__keep_warmup(r, c);
    chain->done++;
    if (!r->options->progress && !r->options->progress_stream) return;
    gpumc__lock(&r->lock);
    gpumc__report(r, c);
    gpumc__unlock(&r->lock);
}

/* ---- checkpoints -------------------------------------------------------------------------------
   A file holds a seal, the options and the state, and ends with the checksum of all that. Reading places the
   same layout in new memory and fills it: structures up to their first pointer, then what the pointers lead
   to; references to a machine's states go as numbers. One function a structure both writes and reads, so that
   the two cannot differ. Scratch is left out. Checksums show accidents, not malice.

   Chains may stand anywhere in a transition, between two gradients, the next of each still to be told. How
   far they are when a file is written depends on threads; what they will be told does not. */
#define GPUMC__MAGIC "gpumc-ck"
#define GPUMC__CHECKPOINT_FORMAT 6     /* to be raised when what is carried changes */

static void gpumc__carry(gpumc__carrier *k, void *data, size_t bytes)
{
    if (k->failed || bytes == 0) return;
    k->failed = (k->reading ? fread(data, 1, bytes, k->file) : fwrite(data, 1, bytes, k->file)) != bytes;
    if (!k->failed) k->sum = gpumc__checksum(k->sum, data, bytes);
}

/* Rows of an array that may not be there. */
static void gpumc__carry_rows(gpumc__carrier *k, void *rows, size_t each, size_t first, size_t n)
{ if (rows) gpumc__carry(k, (char *)rows + first * each, n * each); }

static void gpumc__carry_state(gpumc__carrier *k, const gpumc_nuts *s, gpumc__state **at)
{
    int32_t number = !k->reading && *at ? (int32_t)(*at - s->states) : -1;
    gpumc__carry(k, &number, sizeof number);
    if (number < -1 || number >= s->n_states) k->failed = 1;
    if (k->reading) *at = k->failed || number < 0 ? NULL : s->states + number;
}

static void gpumc__carry_nuts(gpumc__carrier *k, gpumc_nuts *s)
{
    gpumc__state **const roles[] = { &s->current, &s->next, &s->from, &s->ends[0], &s->ends[1], &s->selected,
                                     &s->candidate };
    const size_t bytes = s->dim * sizeof(double);
    gpumc__carry(k, s, offsetof(gpumc_nuts, metric));
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) gpumc__carry_state(k, s, roles[i]);
    for (int i = 0; i < s->n_stack && !k->failed; i++) {
        gpumc__carry(k, &s->stack[i].level, sizeof s->stack[i].level);
        gpumc__carry_state(k, s, &s->stack[i].begin);
        gpumc__carry_state(k, s, &s->stack[i].end);
    }
    gpumc__carry(k, s->divergence, bytes);
    if (s->phase == GPUMC__PHASE_PATH && s->sampler == GPUMC_SAMPLER_HMC) gpumc__carry(k, s->x, bytes);
    for (gpumc__state *a = s->states; a < s->states + s->n_states && !k->failed; a++) {
        gpumc__carry(k, &a->uses, sizeof a->uses);
        if (a->uses == 0) continue;
        gpumc__carry(k, &a->lp, sizeof a->lp);
        gpumc__carry(k, a->q, bytes);
        gpumc__carry(k, a->p, bytes);
        gpumc__carry(k, a->g, bytes);
    }
}

static void gpumc__carry_metric(gpumc__carrier *k, gpumc_metric *m)
{
    const size_t bytes = m->dim * sizeof(double);
    gpumc__carry(k, &m->kind, sizeof m->kind);
    gpumc__carry(k, &m->rank, sizeof m->rank);
    gpumc__carry(k, &m->spring, sizeof m->spring);
    gpumc__carry(k, &m->n_blocks, sizeof m->n_blocks);
    gpumc__carry(k, m->scale, bytes);
    gpumc__carry(k, m->mean, bytes);
    gpumc__carry_rows(k, m->vectors, bytes, 0, m->rank);
    gpumc__carry_rows(k, m->lambda, sizeof(double), 0, m->rank);
    gpumc__carry_rows(k, m->blocks, m->n_blocks * sizeof(double), 0, m->block_size * (m->block_size + 1) / 2);
    if (m->kind != GPUMC_METRIC_DENSE) return;
    gpumc__carry_rows(k, m->covariance, bytes, 0, m->dim);
    gpumc__carry_rows(k, m->factor, bytes, 0, m->dim);
}

/* Once metrics are pooled, that of every chain is a copy of the shared one, arrays and all. */
static void gpumc__carry_adapt(gpumc__carrier *k, gpumc_adapt *a)
{
    const size_t chains = a->n_chains;
    int pooled = a->metrics[0].scale == a->shared.scale;
    gpumc__carry(k, a, offsetof(gpumc_adapt, layout));
    gpumc__carry(k, &pooled, sizeof pooled);
    gpumc__carry_metric(k, &a->shared);
    for (size_t c = 0; c < chains; c++)
        if (!pooled) gpumc__carry_metric(k, &a->metrics[c]);
        else if (k->reading) a->metrics[c] = a->shared;
    gpumc__carry(k, a->duals, chains * sizeof *a->duals);
    gpumc__carry(k, a->q, a->n_kept * a->dim * sizeof *a->q);
    gpumc__carry(k, a->g, a->n_kept * a->dim * sizeof *a->g);
    gpumc__carry(k, a->lp, a->n_kept * sizeof *a->lp);
    gpumc__carry(k, a->owner, a->n_kept * sizeof *a->owner);
    gpumc__carry(k, a->healthy, chains);
    gpumc__carry(k, a->sums, 3 * chains * sizeof *a->sums);
    gpumc__carry(k, a->trials, chains * sizeof *a->trials);
}

/* With the rows it has filled, in warm-up or since. */
static void gpumc__carry_chain(gpumc__carrier *k, gpumc__run *r, size_t c)
{
    gpumc_fit *f = r->fit;
    gpumc__chain *chain = &r->chains[c];
    const size_t row = f->n_columns * sizeof(double), stats = sizeof *f->stats, at = c * f->draw_capacity;
    size_t n, warmup;
    gpumc__carry(k, chain, offsetof(gpumc__chain, nuts));
    gpumc__carry_nuts(k, chain->nuts);
    n = r->warmup ? 0 : chain->done / (size_t)r->options->thin;
    warmup = r->warmup ? chain->done : f->n_warmup;
    gpumc__carry_rows(k, f->warmup_draws, row, c * f->n_warmup, warmup);
    gpumc__carry_rows(k, f->warmup_stats, stats, c * f->n_warmup, warmup);
    gpumc__carry_rows(k, f->draws, row, at, n);
    gpumc__carry_rows(k, f->stats, stats, at, n);
    gpumc__carry_rows(k, f->unconstrained, f->n_free * sizeof(double), at, n);
}

static void gpumc__carry_layout(gpumc__carrier *k, gpumc_layout *l)
{
    gpumc__carry(k, l->notches, l->n_free);
    gpumc__carry(k, l->anchors, l->n_free * sizeof *l->anchors);
    gpumc__carry(k, l->typical, l->n_free * sizeof *l->typical);
    if (l->leader != GPUMC__NONE) gpumc__carry(k, l->evidence, 2 * l->n_natural * sizeof *l->evidence);
    gpumc__carry(k, l->shared, sizeof l->shared);
    gpumc__carry(k, l->slopes, l->n_shared * l->n_natural * sizeof *l->slopes);
    for (size_t i = 0; i < l->n_parts; i++) {
        gpumc__link *link = &l->parts[i].link;
        if (!l->parts[i].linked) continue;
        gpumc__carry(k, link->per_unit, link->n_units * sizeof(double));
        gpumc__carry(k, &link->anchored, sizeof link->anchored);
        gpumc__carry(k, &link->noise, sizeof link->noise);
        if (k->reading) gpumc__link_settle(link);
    }
}

/* The log density where the first chain stands: other data or another density show in it. */
static double gpumc__density_here(gpumc__run *r)
{
    const gpumc__chain *chain = &r->chains[0];
    return gpumc_model_eval(r->layout, gpumc_nuts_draw(chain->nuts), chain->nuts->scratch, chain->work);
}

static void gpumc__carry_run(gpumc__carrier *k, gpumc__run *r, double *probe)
{
    gpumc_fit *f = r->fit;
    const double now = gpumc__seconds();
    double elapsed[2] = { now - r->begin, now - r->phase_begin };
    gpumc__carry(k, elapsed, sizeof elapsed);
    if (k->reading) r->begin = now - elapsed[0], r->phase_begin = now - elapsed[1];
    gpumc__carry(k, probe, sizeof *probe);
    gpumc__carry(k, &r->warmup, sizeof r->warmup);
    gpumc__carry(k, r->n_iterations, sizeof r->n_iterations);
    gpumc__carry(k, &f->n_warmup, sizeof f->n_warmup);
    gpumc__carry(k, &f->warmup_gradients, sizeof f->warmup_gradients);
    gpumc__carry(k, &f->warmup_seconds, sizeof f->warmup_seconds);
    gpumc__carry_layout(k, r->layout);
    gpumc__carry_adapt(k, r->adapt);
    for (size_t c = 0; c < r->n_chains && !k->failed; c++) gpumc__carry_chain(k, r, c);
}

/* ---- what must agree: format, build, model, options ---- */

static uint64_t gpumc__digest_text(uint64_t sum, const char *text)
{ return gpumc__checksum(sum, text ? text : "", text ? strlen(text) + 1 : 1); }

static uint64_t gpumc__digest_model(const gpumc_model *m)
{
    uint64_t sum = gpumc__digest_text(GPUMC__FNV_START, m->name);
    for (size_t i = 0; i < m->n_params + m->n_outputs; i++) {
        const gpumc_output b = gpumc__nth_block(m, i);
        const size_t sizes[] = { gpumc__nth_size(m, i), b.n_dims, (size_t)b.group, i < m->n_params };
        sum = gpumc__checksum(gpumc__digest_text(sum, b.name), sizes, sizeof sizes);
        sum = gpumc__checksum(sum, b.dims, b.n_dims * sizeof *b.dims);
    }
    for (const gpumc_param *p = m->params; p < m->params + m->n_params; p++) {
        const size_t n = gpumc__nth_size(m, (size_t)(p - m->params));
        const double values[] = { p->lower, p->upper, p->offset, p->multiplier, p->typical, (double)p->kind,
                                  (double)p->centring, p->centring_weight, (double)p->walk_dim };
        sum = gpumc__checksum(sum, values, sizeof values);
        sum = gpumc__digest_text(gpumc__digest_text(sum, p->location), p->scale);
        sum = gpumc__digest_text(sum, p->coefficients);
        sum = gpumc__checksum(sum, p->location_index, n * sizeof *p->location_index);
        sum = gpumc__checksum(sum, p->scale_index, n * sizeof *p->scale_index);
        sum = gpumc__checksum(sum, p->covariates, n * p->n_covariates * sizeof(double));
    }
    return sum;
}

static gpumc__seal gpumc__seal_of(const gpumc_model *m)
{
    const size_t sizes[] = { sizeof(void *), sizeof(gpumc_nuts), sizeof(gpumc_adapt), sizeof(gpumc__chain),
                             sizeof(gpumc_sample_options), sizeof(gpumc_draw_stats) };
    gpumc__seal s;
    memset(&s, 0, sizeof s);
    memcpy(s.magic, GPUMC__MAGIC, sizeof s.magic);
    snprintf(s.version, sizeof s.version, "%s", GPUMC_VERSION);
    s.format = GPUMC__CHECKPOINT_FORMAT;
    s.byte_order = 0x01020304;
    s.build = gpumc__checksum(gpumc__digest_text(GPUMC__FNV_START, s.version), sizes, sizeof sizes);
    s.model = m ? gpumc__digest_model(m) : 0;
    return s;
}

static gpumc_status gpumc__check_seal(const gpumc__seal *s, const char *path, gpumc_error *error)
{
    const gpumc__seal own = gpumc__seal_of(NULL);
    const char *what = s->byte_order != own.byte_order ? "on a machine with another byte order"
        : s->format != own.format ? "in another format"
        : s->build != own.build ? "by another build" : NULL;
    if (!what) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_ERROR_FORMAT, "%.100s was written %s (gpumc %.15s, this is %s): resume "
                       "with the program that wrote it", path, what, s->version, own.version);
}

/* Options become those saved; one that is given, but not as it was, is a mistake. */
static gpumc_status gpumc__merge_options(gpumc_sample_options *o, const gpumc_sample_options *saved,
                                         gpumc_error *error)
{
    const struct { const char *name; double given, saved; } pairs[] = {
        { "num_chains", (double)o->num_chains, (double)saved->num_chains },
        { "num_warmup", (double)o->num_warmup, (double)saved->num_warmup },
        { "num_samples", (double)o->num_samples, (double)saved->num_samples },
        { "thin", (double)o->thin, (double)saved->thin }, { "step_size", o->step_size, saved->step_size },
        { "target_accept", o->target_accept, saved->target_accept },
        { "path_length", o->path_length, saved->path_length },
        { "max_treedepth", (double)o->max_treedepth, (double)saved->max_treedepth },
        { "metric", (double)o->metric, (double)saved->metric },
        { "sampler", (double)o->sampler, (double)saved->sampler },
        { "init_radius", o->init_radius, saved->init_radius },
        { "seed", (double)o->seed, (double)saved->seed },
        { "seed modulo 2^32", (double)(uint32_t)o->seed, (double)(uint32_t)saved->seed },
        { "first_chain_id", (double)o->first_chain_id, (double)saved->first_chain_id },
        { "early_stop", o->early_stop ? 1. : 0., saved->early_stop ? 1. : 0. },
        { "keep_stuck_chains", o->keep_stuck_chains ? 1. : 0., saved->keep_stuck_chains ? 1. : 0. },
        { "save_warmup", o->save_warmup ? 1. : 0., saved->save_warmup ? 1. : 0. },
        { "save_unconstrained", o->save_unconstrained ? 1. : 0., saved->save_unconstrained ? 1. : 0. },
        { "discard_draws", o->discard_draws ? 1. : 0., saved->discard_draws ? 1. : 0. },
    };
    const int threads = o->threads;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].given != 0 && pairs[i].given != pairs[i].saved)
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "%s is %.10g here and %.10g in the checkpoint; "
                               "leave it 0, or remove the file to begin anew", pairs[i].name, pairs[i].given,
                               pairs[i].saved);
    memcpy(o, saved, offsetof(gpumc_sample_options, progress));
    o->threads = threads;
    return GPUMC_OK;
}

/* ---- files ---- */

static void gpumc__checkpoint_contents(gpumc__writer *w, const void *of, size_t part)
{
    gpumc__run *r = (gpumc__run *)of;                /* writing leaves it as it is */
    gpumc__seal seal = gpumc__seal_of(r->model);
    gpumc__carrier k = { w->file, 0, 0, GPUMC__FNV_START };
    double probe = gpumc__density_here(r);
    (void)part;
    gpumc__carry(&k, &seal, sizeof seal);
    gpumc__carry(&k, r->options, offsetof(gpumc_sample_options, progress));
    gpumc__carry_run(&k, r, &probe);
    gpumc__carry(&k, &k.sum, sizeof k.sum);
    w->failed = gpumc__reason(k.failed);
}

/* Two generations, each complete and on the disk before it takes the name; at any moment one of them is
   there. */
static gpumc_status gpumc__save_as(gpumc__run *r, gpumc_error *error)
{
    gpumc__checkpoint *p = r->checkpoint;
    gpumc_status status = r->options->stream ? gpumc__save_stream(r->options->stream, error) : GPUMC_OK;
    if (!status) status = gpumc__write_file(p->unfinished, "wb", 1, r, 0, gpumc__checkpoint_contents, error);
    if (status != GPUMC_OK) return status;
    if (p->is_whole && gpumc__exists(p->path) && !gpumc__rename(p->path, p->older))
        return gpumc__file_failed(error, p->older, "replaced");
    p->is_whole = gpumc__rename(p->unfinished, p->path);
    if (!p->is_whole) return gpumc__file_failed(error, p->path, "replaced");
    gpumc__sync_folder(p->folder);
    return GPUMC_OK;
}

/* A saving that fails leaves the generations before it, and the run goes on. Returns whether it did not. */
static int gpumc__save(gpumc__run *r)
{
    gpumc__checkpoint *p = r->checkpoint;
    const double begin = gpumc__seconds();
    const int saved = p->path && gpumc__save_as(r, &p->written) == GPUMC_OK;
    const double end = gpumc__seconds();
    if (saved) p->written.status = GPUMC_OK;
    else if (p->path) (void)remove(p->unfinished);
    p->due = end + (p->interval > 0 ? p->interval : fmax(600, 20 * (end - begin)));
    return saved;
}

static int gpumc__is_due(const gpumc__run *r)
{ return r->checkpoint->path && gpumc__seconds() >= r->checkpoint->due; }

/* Opens a file of which not a byte is wrong; the last eight are the checksum of the others. */
static gpumc_status gpumc__open_whole(const char *path, FILE **file, gpumc_error *error)
{
    unsigned char bytes[sizeof(uint64_t) + 4096], *const read = bytes + sizeof(uint64_t);
    uint64_t sum = GPUMC__FNV_START;
    size_t held = 0, got;                 /* held: the last bytes, which stand before what is read */
    int is_ours = 0, failed;
    FILE *f = *file = fopen(path, "rb");
    if (!f) return gpumc__file_failed(error, path, "opened");
    while ((got = fread(read, 1, 4096, f)) > 0) {
        const size_t n = held + got, keep = n < sizeof sum ? n : sizeof sum;
        if (held == 0 && n >= 8) is_ours = memcmp(read, GPUMC__MAGIC, 8) == 0;
        sum = gpumc__checksum(sum, read - held, n - keep);
        memmove(read - keep, read + got - keep, keep);
        held = keep;
    }
    failed = ferror(f) || fseek(f, 0, SEEK_SET) != 0;
    if (!failed && is_ours && held == sizeof sum && memcmp(bytes, &sum, sizeof sum) == 0) return GPUMC_OK;
    if (failed) gpumc__file_failed(error, path, "read");
    else gpumc__fail(error, GPUMC_ERROR_FORMAT, "%.160s %s", path, is_ours
                     ? "is damaged or cut short (checksum)" : "is no checkpoint of gpumc");
    fclose(f);
    *file = NULL;
    return error->status;
}

/* The newest generation that is whole, and its options. */
static gpumc_status gpumc__open_newest(gpumc__checkpoint *p, gpumc_sample_options *o, gpumc_error *error)
{
    gpumc_sample_options saved;
    gpumc_error older;
    gpumc_status status = gpumc__open_whole(p->path, &p->from.file, error);
    const char *path = p->path;
    p->is_whole = status == GPUMC_OK;
    if (status != GPUMC_OK) {
        path = p->older;
        if (gpumc__open_whole(path, &p->from.file, &older) != GPUMC_OK) return status;
        p->read = *error;
        memset(error, 0, sizeof *error);
    }
    p->from.reading = 1;
    gpumc__carry(&p->from, &p->seal, sizeof p->seal);
    status = p->from.failed ? GPUMC_OK : gpumc__check_seal(&p->seal, path, error);
    if (status != GPUMC_OK) return status;
    gpumc__carry(&p->from, &saved, offsetof(gpumc_sample_options, progress));
    if (p->from.failed) return gpumc__file_failed(error, path, "read");
    return gpumc__merge_options(o, &saved, error);
}

/* A new run must not overwrite what an old one left. */
static gpumc_status gpumc__refuse_present(const char *path, gpumc_error *error)
{
    if (!gpumc__exists(path)) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_ERROR_EXISTS, "%.160s is there already: gpumc_resume goes on with it, or "
                       "remove it", path);
}

static gpumc_status gpumc__checkpoint_open(gpumc__checkpoint *p, gpumc_fit *f, int resume, gpumc_error *error)
{
    const char *path = f->options.checkpoint;
    const size_t length = strlen(path), room = gpumc__size_add(length, 5);
    gpumc_status status;
    FILE *trial;
    char *slash;
    if (length == 0) return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "the checkpoint has no file name");
    p->path = (char *)gpumc__allocate(&f->allocator, gpumc__size_mul(room, 4));
    if (!p->path) return gpumc__fail_memory(error, gpumc__size_mul(room, 4));
    p->older = strcat(strcpy(p->path + room, path), ".old");
    p->unfinished = strcat(strcpy(p->older + room, path), ".tmp");
    p->folder = strcpy(p->unfinished + room, path);
    strcpy(p->path, path);
    slash = strrchr(p->folder, '/');
    if (slash) slash[slash == p->folder] = 0;
    else strcpy(p->folder, ".");
    p->interval = f->options.checkpoint_seconds;
    p->due = gpumc__seconds() + (p->interval > 0 ? p->interval : 600);
    if (resume) return gpumc__open_newest(p, &f->options, error);
    if (!gpumc__exists(p->unfinished)) {                /* better now than when there is something to save */
        trial = fopen(p->unfinished, "ab");
        if (!trial) return gpumc__file_failed(error, p->unfinished, "created");
        fclose(trial);
        remove(p->unfinished);
    }
    status = gpumc__refuse_present(p->path, error);
    return status == GPUMC_OK ? gpumc__refuse_present(p->older, error) : status;
}

static void gpumc__checkpoint_close(gpumc__checkpoint *p, const gpumc_allocator *allocator)
{
    if (p->from.file) fclose(p->from.file);
    gpumc__release(allocator, p->path);
}

/* Fills what was placed with the state in the file, which has been found whole. */
static gpumc_status gpumc__load(gpumc__run *r, gpumc_error *error)
{
    gpumc__checkpoint *p = r->checkpoint;
    double probe = 0, here;
    if (p->seal.model != gpumc__seal_of(r->model).model)
        return gpumc__fail(error, GPUMC_ERROR_MODEL, "%.100s is of another model: names, kinds, sizes, "
                           "bounds or links of its blocks differ", p->path);
    gpumc__carry_run(&p->from, r, &probe);
    if (p->from.failed)
        return gpumc__fail(error, GPUMC_ERROR_FORMAT, "%.160s: its parts do not fit together", p->path);
    here = gpumc__density_here(r);
    if (fabs(here - probe) <= 1e-8 * (1 + fabs(probe))) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_ERROR_MODEL, "%.100s is of other data or another density: %.12g where it "
                       "was %.12g", p->path, here, probe);
}

/* A stream has the draws that a checkpoint has, or none. */
static gpumc_status gpumc__begin_stream(gpumc__run *r, gpumc_error *error)
{
    gpumc_stream *z = r->options->stream;
    const int resumes = r->checkpoint->from.file != NULL;
    if (!z) return GPUMC_OK;
    if (z->rows.n_chains != r->n_chains || z->rows.n_columns != r->fit->n_columns)
        return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "the stream has %.0f chains and %.0f columns, the "
                           "run %.0f and %.0f: open it with the options of the run", (double)z->rows.n_chains,
                           (double)z->rows.n_columns, (double)r->n_chains, (double)r->fit->n_columns);
    if (!resumes && gpumc__holds_draws(&z->store))
        return gpumc__fail(error, GPUMC_ERROR_EXISTS, "%.150s is a draw of an earlier run, of which there is "
                           "no checkpoint to resume; remove the folder to begin anew", z->store.path);
    for (size_t c = 0; c < r->n_chains && resumes; c++)
        gpumc__rewind_stream(z, c, r->warmup ? 0 : r->chains[c].done / (size_t)r->options->thin);
    if (z->store.status) *error = z->error;
    return z->store.status;
}

/* ---- drivers ----------------------------------------------------------------------------------- */

/* Log density and gradient where a chain asks: the guide's, but for the log density where a path ends. */
static double gpumc__chain_eval(gpumc__run *r, gpumc__chain *chain, const double *q, double *g)
{
    gpumc_nuts *s = chain->nuts;
    const double guide = gpumc__eval(r->layout, r->adapt->guided, q, g, chain->work);
    double lp;
    chain->gradients++;
    if (!r->adapt->guided || !gpumc__path_ends(s)) return guide;
    chain->gradients++;
    lp = gpumc__density_led(r->layout, q, s->scratch, chain->work, guide);
    s->apart[1] = lp - guide;
    return lp;
}

/* One chain to its goal or by a chunk, through the callback for single points. */
static void gpumc__advance_chain(gpumc__run *r, size_t c, size_t n_draws)
{
    gpumc__chain *chain = &r->chains[c];
    while (n_draws > 0 && chain->done < chain->goal && !gpumc__stops(r)) {
        const double *q = gpumc_nuts_ask(chain->nuts);
        double *g = gpumc__nuts_gradient_wanted(chain->nuts);
        const double lp = gpumc__chain_eval(r, chain, q, g);
        if (!gpumc_nuts_tell(chain->nuts, lp, g)) continue;
        gpumc__completed(r, c);
        n_draws--;
    }
}

/* The chain furthest behind that nobody works on, before others one that this member had last, or NULL. */
static gpumc__chain *gpumc__behind(const gpumc__run *r, int member)
{
    gpumc__chain *behind = NULL;
    for (gpumc__chain *k = r->chains; k < r->chains + r->n_chains; k++) {
        if (k->busy || k->done >= k->goal) continue;
        if (!behind || k->done < behind->done
            || (k->done == behind->done && k->member == member && behind->member != member)) behind = k;
    }
    return behind;
}

/* What every thread does: take such a chain by a chunk, until none is left. */
static void gpumc__take_chains(size_t part, int member, void *run)
{
    gpumc__run *r = (gpumc__run *)run;
    (void)part;
    gpumc__lock(&r->lock);
    for (;;) {
        gpumc__chain *behind = gpumc__behind(r, member);
        if (!behind || gpumc__stops(r)) break;
        behind->busy = 1;
        behind->member = member;
        gpumc__unlock(&r->lock);
        gpumc__advance_chain(r, (size_t)(behind - r->chains), r->chunk);
        gpumc__lock(&r->lock);
        behind->busy = 0;
        if (gpumc__is_due(r)) break;
    }
    gpumc__unlock(&r->lock);
}

/* All chains that wait, in one call of the batch callback; none waits for another's tree. */
static void gpumc__advance_batch(gpumc__run *r)
{
    const size_t nn = r->layout->n_natural;
    double *x = r->batch, *g = x + r->n_chains * nn, *lp = g + r->n_chains * nn, *jacobian = lp + r->n_chains;
    while (!gpumc__stops(r)) {
        size_t n = 0;
        for (gpumc__chain *k = r->chains; k < r->chains + r->n_chains; k++) {
            if (k->done >= k->goal) continue;
            jacobian[n] = gpumc__to_natural(r->layout, gpumc_nuts_ask(k->nuts), k->work, k->work);
            memcpy(x + n * nn, k->work, nn * sizeof(double));
            lp[n++] = -GPUMC_INF;
        }
        if (n == 0) return;
        memset(g, 0, n * nn * sizeof(double));
        r->model->log_density_batch(n, x, g, lp, r->model->data);
        n = 0;
        for (size_t c = 0; c < r->n_chains; c++) {
            gpumc__chain *k = &r->chains[c];
            if (k->done >= k->goal) continue;        /* it has not asked */
            double *grad = gpumc__nuts_gradient_wanted(k->nuts), total;
            memcpy(k->work + nn, g + n * nn, nn * sizeof(double));
            total = gpumc__eval_finish(r->layout, gpumc_nuts_ask(k->nuts), jacobian[n], lp[n], grad, k->work);
            n++;
            k->gradients++;
            if (gpumc_nuts_tell(k->nuts, total, grad)) gpumc__completed(r, c);
        }
        if (gpumc__is_due(r)) return;
    }
}

/* Every chain to the goal, with pauses to save; returns 0 when stopped before. */
static int gpumc__advance(gpumc__run *r, size_t goal)
{
    for (size_t c = 0; c < r->n_chains; c++) r->chains[c].goal = goal;
    for (;;) {
        size_t c = 0;
        if (r->batch) gpumc__advance_batch(r);
        else gpumc_team_run(r->team, gpumc__take_chains, (size_t)gpumc_team_threads(r->team), r);
        while (c < r->n_chains && r->chains[c].done >= goal) c++;
        if (c == r->n_chains) return 1;
        const int stopped = gpumc__stops(r), saved = (stopped || gpumc__is_due(r)) && gpumc__save(r);
        r->fit->resumable = stopped && saved;
        if (stopped) return 0;
    }
}

/* ---- options ----------------------------------------------------------------------------------- */

static gpumc_status gpumc__check_options(const gpumc_sample_options *o, gpumc_error *error)
{
    const struct { const char *name; double value, least, most; } ranges[] = {
        { "num_chains", (double)o->num_chains, 0, 1 << 20 }, { "thin", (double)o->thin, 0, 1 << 20 },
        { "num_warmup", (double)o->num_warmup, -1, 1 << 24 },
        { "num_samples", (double)o->num_samples, 0, INT32_MAX / 2 },
        { "max_treedepth", (double)o->max_treedepth, 0, GPUMC__MAX_DEPTH },
        { "threads", (double)o->threads, 0, 1 << 16 },
        { "metric", (double)o->metric, 0, GPUMC_METRIC_BLOCKS },
        { "sampler", (double)o->sampler, 0, GPUMC_SAMPLER_HMC },
        { "init_radius", o->init_radius, 0, 700 }, { "step_size", o->step_size, 0, DBL_MAX },
        { "target_accept", o->target_accept, 0, 1 - DBL_EPSILON }, { "path_length", o->path_length, 0, 1e3 },
        { "checkpoint_seconds", o->checkpoint_seconds, 0, DBL_MAX },
    };
    const char *reason = o->num_warmup == -1 && !(o->step_size > 0)
            ? "num_warmup is -1 (none) and step_size 0; give a step size"
        : !o->allocator.allocate != !o->allocator.release
            ? "allocator: give both allocate and release, or neither"
        : o->discard_draws && !o->on_draw
            ? "discard_draws without on_draw would lose every draw; set on_draw" : NULL;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most))
            return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "%s is %.10g; it must be in %.10g to %s%.10g (0: "
                               "the default)", ranges[i].name, ranges[i].value, ranges[i].least,
                               ranges[i].most < 1 ? "below " : "", ranges[i].most);
    return reason ? gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "%s", reason) : GPUMC_OK;
}

static gpumc_adapt_options gpumc__adapt_options_of(const gpumc_sample_options *o)
{
    const gpumc_adapt_options a = {
        (size_t)o->num_chains, (size_t)(o->num_warmup < 0 ? 1 : o->num_warmup), o->target_accept,
        o->max_treedepth, o->metric, o->sampler, o->early_stop, o->keep_stuck_chains, o->seed,
        o->first_chain_id, o->path_length
    };
    return a;
}

/* Returns how many threads there are for each of those that run chains. */
static int gpumc__resolve_options(gpumc_sample_options *o, const gpumc_layout *layout)
{
    const int threads = !GPUMC__HAS_THREADS ? 1 : o->threads ? o->threads : gpumc__cores();
    gpumc_adapt_options a;
    if (o->num_chains == 0) o->num_chains = 4;
    if (o->num_samples == 0) o->num_samples = 1000;
    if (o->thin == 0) o->thin = 1;
    if (layout->model->guide && o->sampler == GPUMC_SAMPLER_AUTO) o->sampler = GPUMC_SAMPLER_MAMS;
    if (o->num_warmup < 0 && o->sampler == GPUMC_SAMPLER_AUTO && o->initial_metric
        && o->initial_metric->spring)
        o->sampler = GPUMC_SAMPLER_HMC;      /* whose steps may be longer than trees can be stable with */
    if (!(o->init_radius > 0)) o->init_radius = 2;
    o->threads = threads < o->num_chains ? threads : o->num_chains;
    if (o->initial_metric && o->metric == GPUMC_METRIC_AUTO && o->num_warmup < 0)
        o->metric = o->initial_metric->kind;
    a = gpumc__adapt_options_of(o);
    gpumc__adapt_resolve(&a, layout, layout->n_free);
    if (o->num_warmup == 0) o->num_warmup = (int)a.num_warmup;
    o->early_stop = a.early_stop;
    o->target_accept = a.target_accept;
    o->max_treedepth = a.max_treedepth;
    o->metric = a.metric;
    return threads / o->threads;
}

static int gpumc__all_above(double bound, const double *x, size_t n, size_t stride)
{
    for (size_t i = 0; i < n; i++) if (!(x[i * stride] > bound && x[i * stride] < GPUMC_INF)) return 0;
    return 1;
}
/* What is wrong with a metric in itself; NULL: nothing. */
static const char *gpumc__metric_fault(const gpumc_metric *m)
{
    const size_t n = m->dim, rank = gpumc__metric_has_rank(m->kind) ? m->rank : 0;
    const size_t n_blocks = m->kind == GPUMC_METRIC_BLOCKS ? m->n_blocks : 0;
    const int dense = m->kind == GPUMC_METRIC_DENSE;
    if (m->kind <= GPUMC_METRIC_AUTO || m->kind > GPUMC_METRIC_BLOCKS) return "has no kind";
    if (!m->scale || (dense && !(m->covariance && m->factor)) || (rank && !(m->vectors && m->lambda))
        || (n_blocks && !m->blocks))
        return "lacks an array that its kind has: scale, for dense covariance and factor, vectors and lambda";
    if (rank > GPUMC__MAX_RANK) return "is of a rank above 64";
    if (!gpumc__all_above(0, m->scale, n, 1) || !gpumc__all_above(0, m->lambda, rank, 1)
        || !gpumc__all_above(0, m->covariance, dense ? n : 0, n + 1)
        || !gpumc__all_above(0, m->factor, dense ? n : 0, n + 1))
        return "has a variance that is not positive and finite";
    if (!gpumc__all_above(-GPUMC_INF, m->vectors, rank * n, 1)
        || !gpumc__all_above(-GPUMC_INF, m->covariance, dense ? n * n : 0, 1)
        || !gpumc__all_above(-GPUMC_INF, m->factor, dense ? n * n : 0, 1)
        || !gpumc__all_above(-GPUMC_INF, m->mean, m->mean ? n : 0, 1)
        || !gpumc__all_above(-GPUMC_INF, m->blocks, n_blocks * (m->block_size * (m->block_size + 1) / 2), 1))
        return "has a value that is not finite";
    return NULL;
}

/* An initial metric is one of the model's, and where nothing is learned there is room for it. */
static gpumc_status gpumc__check_metric(const gpumc_sample_options *o, const gpumc_layout *layout,
                                        gpumc_error *error)
{
    const gpumc_metric *m = o->initial_metric;
    const size_t dim = layout->n_free;
    const gpumc__blocks b = gpumc__layout_blocks(layout);
    const int foreign = m && ((m->n_blocks > 0 && (m->n_blocks != b.n || m->block_size != b.size))
                              || (m->rank > 0 && !gpumc__metric_has_rank(m->kind)));
    const char *wrong = !m ? NULL : m->dim != dim || foreign ? "does not fit the model" : gpumc__metric_fault(m);
    if (m && !wrong && o->num_warmup < 0 && o->metric != m->kind && !gpumc__is_diagonal(m))
        wrong = "is of another kind than option metric (leave that 0)";
    for (size_t i = 0; m && !wrong && i < dim; i++)
        if (!(gpumc__metric_variance(m, i) > 0 && gpumc__is_finite(gpumc__metric_variance(m, i))))
            wrong = "has a variance that is not positive and finite";
    if (!wrong) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_ERROR_ARGUMENT, "initial_metric, %.0f coordinates for %.0f free ones, %s",
                       (double)m->dim, (double)dim, wrong);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static char *gpumc__take_text(gpumc__arena *arena, const char *text)
{
    const size_t length = strlen(text) + 1;
    char *copy = (char *)gpumc__take(arena, length, 1);
    return copy ? (char *)memcpy(copy, text, length) : NULL;
}

/* Descriptions of the columns, with names and dimensions of their own: the model may be gone later. */
static void gpumc__place_blocks(gpumc__arena *arena, gpumc_fit *f, const gpumc_model *m)
{
    size_t offset = 0;
    f->n_blocks = m->n_params + m->n_outputs;
    f->blocks = (gpumc_block *)gpumc__take(arena, f->n_blocks, sizeof(gpumc_block));
    for (size_t i = 0; i < f->n_blocks; i++) {
        const gpumc_output from = gpumc__nth_block(m, i);
        const size_t size = gpumc__nth_size(m, i), n_dims = from.n_dims ? from.n_dims : from.size > 0;
        size_t *dims = (size_t *)gpumc__take(arena, n_dims, sizeof(size_t));
        const gpumc_block to = { gpumc__take_text(arena, from.name), dims, n_dims, offset, size,
                                 i >= m->n_params, from.group };
        for (size_t d = 0; arena->base && d < n_dims; d++) dims[d] = from.n_dims ? from.dims[d] : size;
        if (arena->base) f->blocks[i] = to;
        offset = gpumc__size_add(offset, size);
        if (i + 1 == m->n_params) f->n_params_columns = offset;
    }
    f->n_columns = offset;
}

/* NULL where there are no rows. */
static void *gpumc__take_rows(gpumc__arena *arena, size_t rows, size_t columns, size_t each)
{ return rows ? gpumc__take(arena, gpumc__size_mul(rows, columns), each) : NULL; }

/* Everything that outlives the run, in one block. */
static void gpumc__place_fit(gpumc__arena *arena, gpumc_fit *f, const gpumc_layout *l)
{
    const gpumc__blocks blocks = gpumc__layout_blocks(l);
    const gpumc_sample_options *o = &f->options;
    size_t rows, warmup;
    f->n_chains = (size_t)o->num_chains;
    f->n_free = l->n_free;
    f->draw_capacity = o->discard_draws ? 0 : (size_t)o->num_samples;
    f->n_warmup = o->num_warmup > 0 ? (size_t)o->num_warmup : 0;
    f->model_name = gpumc__take_text(arena, l->model->name ? l->model->name : "model");
    gpumc__place_blocks(arena, f, l->model);
    f->free_blocks = (size_t *)gpumc__take(arena, 2 * f->n_blocks, sizeof(size_t));
    for (size_t i = 0; arena->base && i < f->n_blocks; i++) {
        const gpumc__placed *p = i < l->n_parts ? &l->parts[i] : NULL;
        const int transformed = p && (p->linked || p->param->kind != GPUMC_UNBOUNDED);
        f->free_blocks[2 * i] = transformed ? p->free_at : 0;
        f->free_blocks[2 * i + 1] = transformed ? p->free_size : 0;
    }
    f->metric = gpumc__metric_place(arena, o->metric, l->n_free, &blocks);
    f->centring = gpumc__take_doubles(arena, l->n_free);
    f->typical = gpumc__take_doubles(arena, l->n_free);
    rows = gpumc__size_mul(f->n_chains, f->draw_capacity);
    warmup = o->save_warmup ? gpumc__size_mul(f->n_chains, f->n_warmup) : 0;
    f->draws = (double *)gpumc__take_rows(arena, rows, f->n_columns, sizeof(double));
    f->summaries = (gpumc_summary *)gpumc__take_rows(arena, rows ? f->n_columns : 0, 1,
                                                     sizeof(gpumc_summary));
    f->stats = (gpumc_draw_stats *)gpumc__take_rows(arena, rows, 1, sizeof(gpumc_draw_stats));
    f->unconstrained = (double *)gpumc__take_rows(arena, o->save_unconstrained ? rows : 0, l->n_free,
                                                  sizeof(double));
    f->warmup_draws = (double *)gpumc__take_rows(arena, warmup, f->n_columns, sizeof(double));
    f->warmup_stats = (gpumc_draw_stats *)gpumc__take_rows(arena, warmup, 1, sizeof(gpumc_draw_stats));
}

/* Scratch of the run: machines, warm-up, rows. */
static gpumc_status gpumc__place_run(gpumc__arena *arena, gpumc__run *r, const gpumc_fit *f,
                                     gpumc_error *error)
{
    const gpumc_sample_options *o = &f->options;
    const gpumc_adapt_options a = gpumc__adapt_options_of(o);
    const size_t chains = f->n_chains, dim = r->layout->n_free;
    const size_t adapt_bytes = gpumc_adapt_bytes(r->layout, 0, &a);
    const size_t nuts_bytes = gpumc_nuts_bytes(dim, o->max_treedepth);
    char *adapt = (char *)gpumc__take(arena, adapt_bytes, 1);
    double *q = gpumc__take_doubles(arena, dim), *scratch;
    r->chains = (gpumc__chain *)gpumc__take(arena, chains, sizeof(gpumc__chain));
    r->machines = (gpumc_nuts **)gpumc__take(arena, chains, sizeof(gpumc_nuts *));
    r->batch = (double *)gpumc__take_rows(arena, r->model->log_density ? 0 : chains,
                                          2 * r->layout->n_natural + 2, sizeof(double));
    scratch = (double *)gpumc__take_rows(arena, (size_t)o->threads, r->layout->n_work, sizeof(double));
    if (arena->base) {
        memset(r->chains, 0, chains * sizeof(gpumc__chain));
        memset(q, 0, dim * sizeof(double));
        r->adapt = gpumc_adapt_init(adapt, adapt_bytes, r->layout, 0, &a, error);
        if (!r->adapt) return error->status;
        r->adapt->model_work = scratch;
        r->adapt->guided = r->model->guide && o->sampler != GPUMC_SAMPLER_NUTS;
    }
    for (size_t c = 0; c < chains; c++) {
        char *machine = (char *)gpumc__take(arena, nuts_bytes, 1);
        double *work = gpumc__take_doubles(arena, r->layout->n_work);
        double *row = o->discard_draws ? gpumc__take_doubles(arena, f->n_columns) : NULL;
        if (!arena->base) continue;
        r->machines[c] = r->chains[c].nuts = gpumc_nuts_init(
            machine, nuts_bytes, dim, o->max_treedepth, gpumc_adapt_metric(r->adapt, c), o->step_size,
            o->seed, o->first_chain_id + (uint32_t)c, q, error);
        if (!r->machines[c]) return error->status;
        r->chains[c].work = work;
        r->chains[c].row = row;
    }
    return GPUMC_OK;
}

/* Says why no start point was usable: what the density returned at the last one, and where that was. */
static gpumc_status gpumc__start_failed(gpumc__run *r, size_t c, int tries, gpumc_error *error)
{
    double *work = r->chains[c].work, *g = work + r->layout->n_natural;
    double lp = gpumc__density(r->layout, 0, work, g);
    const int by_guide = gpumc__is_finite(lp) && r->adapt->guided;
    if (by_guide) lp = gpumc__density(r->layout, 1, work, g);
    char where[120] = "";
    gpumc_error why;
    if (r->model->explain && r->model->explain(work, r->model->data, &why) != GPUMC_OK)
        return gpumc__fail(error, GPUMC_ERROR_START, "chain %.0f: the density is not finite at all of %d "
                           "start points; %.180s", (double)(c + 1), tries, why.text);
    for (size_t i = 0; i < r->layout->n_parts && strlen(where) < 80; i++) {
        const gpumc__placed *p = &r->layout->parts[i];
        snprintf(where + strlen(where), sizeof where - strlen(where), "%s%.30s%s %.4g", i ? ", " : "",
                 p->param->name, p->size > 1 ? "[1]" : "", work[p->at]);
    }
    return gpumc__fail(error, GPUMC_ERROR_START, "chain %.0f: the %s is not finite at all of %d start points "
                       "(last %g at %s); check the density there, give init or a smaller init_radius",
                       (double)(c + 1), gpumc__is_finite(lp) ? "gradient" : by_guide ? "guide"
                       : "log density", tries, lp, where);
}

/* Puts a chain's machine at a point; returns 0 where it cannot start, with the density there. */
static int gpumc__begin_at(gpumc__run *r, size_t c, const double *q, double *lp)
{
    gpumc_nuts *s = r->chains[c].nuts;
    double *g;
    gpumc_nuts_restart(s, q);
    g = gpumc__nuts_gradient_wanted(s);
    *lp = gpumc__chain_eval(r, &r->chains[c], gpumc_nuts_ask(s), g);
    if (!gpumc_nuts_tell(s, *lp, g) || !r->adapt->guided) return !gpumc_nuts_bad_start(s);
    *lp = gpumc_model_eval(r->layout, q, s->scratch, r->chains[c].work);
    return gpumc__is_finite(*lp);
}

enum { GPUMC__START_TRIES = 100 };

static gpumc_rng gpumc__start_rng(const gpumc__run *r, size_t c, int k)
{
    return gpumc_rng_at(r->options->seed, GPUMC__STREAM_START | (uint32_t)k, 0,
                        r->options->first_chain_id + (uint32_t)c);
}

/* Scales what a start point has drawn. */
static void gpumc__start_scale(const gpumc_layout *l, double *q, double by)
{
    for (const gpumc__placed *p = l->parts; p < l->parts + l->n_parts; p++)
        for (size_t i = p->free_at; !p->param->init && i < p->free_at + p->free_size; i++) q[i] *= by;
}

/* Takes half of a start point, again and again, where it is too far out by orders of magnitude: slopes of
   exp(80 b) at b = 2 tell a metric nothing about the posterior, nor does a chain find there from so far. */
static void gpumc__start_nearer(gpumc__run *r, size_t c, double *q)
{
    const double n = (double)r->layout->n_free;
    double worth = 1000 * n, lp = r->chains[c].nuts->current->lp;
    for (int k = 0; k < 12; k++, worth = n) {
        gpumc__start_scale(r->layout, q, 0.5);
        const double next = gpumc__eval(r->layout, r->adapt->guided, q, r->chains[c].nuts->scratch,
                                        r->chains[c].work);
        if (!(next > lp + worth)) { gpumc__start_scale(r->layout, q, 2); break; }
        lp = next;
    }
    if (worth <= n) gpumc__begin_at(r, c, q, &lp);
}

/* Free coordinates uniform on (-radius, radius), up to 100 tries; blocks with init start there. */
static gpumc_status gpumc__find_start(gpumc__run *r, size_t c, double *q, gpumc_error *error)
{
    const gpumc_layout *l = r->layout;
    int tries = 1;
    double lp = -GPUMC_INF;
    for (size_t i = 0; i < l->n_parts; i++) if (!l->parts[i].param->init) tries = GPUMC__START_TRIES;
    for (int k = 0; k < tries; k++) {
        gpumc_rng rng = gpumc__start_rng(r, c, k);
        gpumc_status status;
        for (size_t i = 0; i < l->n_free; i++)
            q[i] = r->options->init_radius * (2 * gpumc_rng_uniform(&rng) - 1);
        status = gpumc__start_point(l, r->options->first_chain_id + c, q, r->chains[c].work, error);
        if (status != GPUMC_OK) return status;
        if (!gpumc__begin_at(r, c, q, &lp)) continue;
        if (tries > 1) gpumc__start_nearer(r, c, q);
        return GPUMC_OK;
    }
    return gpumc__start_failed(r, c, tries, error);
}

/* From natural values in work. Arrives where that brings more than 1000 a coordinate, and leaves the start's
   natural values there. */
static void gpumc__climb_chain(size_t chain, int member, void *climbs)
{
    gpumc__climb *c = (gpumc__climb *)climbs + chain;
    const gpumc_layout *l = c->layout;
    double least, bar;
    (void)member;
    if (gpumc_model_free(l, c->work, c->first, c->work, NULL) != GPUMC_OK) return;
    bar = gpumc__climb_eval(c, c->first, c->g[0]) + 1000 * (double)l->n_free;
    gpumc__climb_order(c);
    for (size_t i = 0; i < l->n_parts; i++) if (l->parts[i].param->init) c->waits[i] = GPUMC__CLIMB_HELD;
    gpumc__climb_up(c);
    least = gpumc__climb_least(c);
    c->arrived = least > bar && gpumc__climb_draw(c, least);
}

/* Chains that fall from far away into a hierarchical model land in its necks. Those for which it is worth it
   start at a draw of the climb's approximation instead. */
static gpumc_status gpumc__climb_chains(gpumc__run *r, gpumc_error *error)
{
    gpumc_layout *l = r->layout;
    const size_t n = l->n_free, stride = gpumc__climb_bytes(l) / sizeof(double) + 1;
    const size_t one = gpumc__size_add(sizeof(gpumc__climb), gpumc__size_mul(stride, sizeof(double)));
    const size_t bytes = gpumc__size_add(gpumc__size_mul(r->n_chains, one), n);
    gpumc__climb *climbs;
    unsigned char *notches;
    int given = 1;
    for (size_t i = 0; i < l->n_parts; i++) given &= l->parts[i].param->init != NULL;
    if (given || l->n_linked == 0) return GPUMC_OK;
    climbs = (gpumc__climb *)gpumc__allocate(&r->options->allocator, bytes);
    if (!climbs) return gpumc__fail_memory(error, bytes);
    notches = (unsigned char *)climbs + bytes - n;
    memcpy(notches, l->notches, n);
    for (size_t c = 0; c < r->n_chains; c++) {
        const gpumc_rng rng = gpumc__start_rng(r, c, GPUMC__START_TRIES);
        double *memory = (double *)(climbs + r->n_chains) + c * stride;
        climbs[c] = gpumc__climb_place(l, r->adapt->guided, rng, memory);
        gpumc_model_natural(l, gpumc_nuts_draw(r->machines[c]), climbs[c].work, climbs[c].work);
    }
    gpumc__layout_centre(l, NULL);
    gpumc_team_run(r->team, gpumc__climb_chain, r->n_chains, climbs);
    gpumc__layout_centre(l, notches);
    for (size_t c = 0; c < r->n_chains; c++) {
        gpumc__climb *k = &climbs[c];
        double lp;
        r->chains[c].gradients += k->gradients;
        if (!k->arrived || gpumc_model_free(l, k->work, k->first, k->work, NULL) != GPUMC_OK) continue;
        memcpy(k->mean, gpumc_nuts_draw(r->machines[c]), n * sizeof(double));
        if (!gpumc__begin_at(r, c, k->first, &lp)) gpumc__begin_at(r, c, k->mean, &lp);
    }
    gpumc__release(&r->options->allocator, climbs);
    return GPUMC_OK;
}

static gpumc_status gpumc__start_chains(gpumc__run *r, gpumc_error *error)
{
    const size_t n = r->layout->n_free;
    const size_t bytes = gpumc__check_gradient_bytes(r->layout, (size_t)gpumc_team_threads(r->team));
    double *q = (double *)gpumc__allocate(&r->options->allocator, bytes);
    gpumc_gradient_report report;
    gpumc_status status = GPUMC_OK;
    if (!q) return gpumc__fail_memory(error, bytes);
    for (size_t c = 0; c < r->n_chains && status == GPUMC_OK; c++) {
        status = gpumc__find_start(r, c, q, error);
        if (status == GPUMC_OK && c == 0 && !r->options->skip_gradient_check)
            status = gpumc__check_gradient_at(r->layout, q, q + n, r->team, &report, error);
    }
    gpumc__release(&r->options->allocator, q);
    return status == GPUMC_OK ? gpumc__climb_chains(r, error) : status;
}

/* Seconds of one gradient, from at least 20 microseconds of calls, and what the run may take. */
static void gpumc__time_gradient(gpumc__run *r)
{
    const gpumc_sample_options *o = r->options;
    const double begin = gpumc__seconds();
    gpumc__chain *chain = &r->chains[0];
    double elapsed = 0;
    int n = 0;
    for (; n < 64 && elapsed < 2e-5; n++) {
        gpumc__eval(r->layout, r->adapt->guided, gpumc_nuts_draw(chain->nuts), chain->nuts->scratch,
                    chain->work);
        elapsed = gpumc__seconds() - begin;
    }
    r->fit->gradient_seconds = elapsed / n;
    r->fit->forecast_seconds = 10 * (elapsed / n) * (double)((r->n_iterations[0] + r->n_iterations[1])
                                                             * r->n_chains) / o->threads;
    if (o->progress_stream && !o->progress)
        fprintf(o->progress_stream, "one gradient takes %.3g s; with 10 gradients a draw the run would take "
                "about %.3g s\n", r->fit->gradient_seconds, r->fit->forecast_seconds);
}

/* ---- phases ------------------------------------------------------------------------------------ */

static void gpumc__phase(gpumc__run *r, int warmup)
{
    r->warmup = warmup;
    r->phase_begin = gpumc__seconds();
    for (size_t c = 0; c < r->n_chains; c++) {
        r->chains[c].done = 0;
        r->chains[c].leapfrogs = 0;
        r->chains[c].progress.iteration = warmup ? 0 : r->n_iterations[1];
    }
    for (size_t c = 0; c < r->n_chains; c++) gpumc__note_progress(r, c);
}

static uint64_t gpumc__count_gradients(const gpumc__run *r)
{
    uint64_t n = 0;
    for (size_t c = 0; c < r->n_chains; c++) n += r->chains[c].gradients;
    return n;
}

static void gpumc__metric_copy(gpumc_metric *to, const gpumc_metric *from)
{
    const size_t bytes = from->dim * sizeof(double), dense = from->kind == GPUMC_METRIC_DENSE ? from->dim : 0;
    to->kind = from->kind;
    to->rank = gpumc__metric_has_rank(from->kind) ? from->rank : 0;
    to->n_blocks = from->kind == GPUMC_METRIC_BLOCKS ? from->n_blocks : 0;
    to->spring = from->mean && from->spring;
    memcpy(to->scale, from->scale, bytes);
    if (from->mean) memcpy(to->mean, from->mean, bytes);
    if (to->rank) memcpy(to->vectors, from->vectors, to->rank * bytes);
    if (to->rank) memcpy(to->lambda, from->lambda, to->rank * sizeof(double));
    if (to->n_blocks)
        memcpy(to->blocks, from->blocks,
               to->n_blocks * (to->block_size * (to->block_size + 1) / 2) * sizeof(double));
    if (dense) memcpy(to->covariance, from->covariance, dense * bytes);
    if (dense) memcpy(to->factor, from->factor, dense * bytes);
}

/* Puts initial_metric into force: all of it, or what warm-up starts from. */
static void gpumc__start_metric(gpumc__run *r, int warmup)
{
    const gpumc_metric *from = r->options->initial_metric;
    gpumc_adapt *a = r->adapt;
    if (!from) return;
    if (!warmup) gpumc__metric_copy(&a->shared, from);
    for (size_t c = 0; c < a->n_chains; c++) {
        if (!warmup) a->metrics[c] = a->shared;
        for (size_t i = 0; warmup && a->shared.kind != GPUMC_METRIC_UNIT && i < a->dim; i++)
            a->metrics[c].scale[i] = a->shared.scale[i] = sqrt(gpumc__metric_variance(from, i));
    }
    gpumc__adapt_set_step_sizes(a, r->machines, r->options->step_size);
}

/* Returns 0 when stopped before its end. */
static int gpumc__warm_up(gpumc__run *r)
{
    gpumc_fit *f = r->fit;
    gpumc_adapt *a = r->adapt;
    const size_t columns = f->n_columns, planned = r->n_iterations[1];
    int more = planned > 0;
    size_t goal;
    const int fresh = !a->started;
    if (fresh && !more) gpumc__start_metric(r, 0);
    if (!more) gpumc__adapt_skip(a, r->machines);
    else if (fresh) gpumc_adapt_update(a, r->machines);
    if (fresh && more) gpumc__start_metric(r, 1);
    if (!r->checkpoint->from.file) gpumc__phase(r, 1);
    while (more && gpumc__advance(r, a->iteration + 1)) more = gpumc_adapt_update(a, r->machines);
    f->n_warmup = r->n_iterations[1] = goal = a->iteration;
    for (size_t c = 1; f->warmup_draws && c < r->n_chains; c++) {  /* stopped early: close the gaps */
        memmove(f->warmup_draws + c * goal * columns, f->warmup_draws + c * planned * columns,
                goal * columns * sizeof(double));
        memmove(f->warmup_stats + c * goal, f->warmup_stats + c * planned, goal * sizeof(gpumc_draw_stats));
    }
    f->warmup_gradients = gpumc__count_gradients(r);
    f->warmup_seconds = gpumc__seconds() - r->begin;
    return !more;
}

static gpumc_status gpumc__flat(const gpumc__run *r, gpumc_error *error)
{
    size_t c = 0;
    while (c < r->n_chains && !r->machines[c]->flat) c++;
    if (c == r->n_chains) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_ERROR_NUMERIC, "chain %.0f: the search for a step size ended at %.3g: "
                       "the density looks %s there; check that priors make it proper", (double)(c + 1),
                       r->machines[c]->step_size, r->machines[c]->step_size > 1 ? "flat" : "broken");
}

/* A location that hears from its elements has a coordinate of this run; the metric that is handed on has it
   in natural units, as it is about the metric's mean. */
static void gpumc__metric_unhear(gpumc_metric *m, const gpumc_layout *l, double *work)
{
    const size_t dim = m->kind == GPUMC_METRIC_DENSE ? m->dim : 0;
    if (!m->mean || m->kind == GPUMC_METRIC_UNIT) return;
    gpumc__to_natural(l, m->mean, work, work);
    for (size_t i = 0; i < l->n_parts; i++) {
        const gpumc__placed *p = &l->parts[i];
        const int hears = gpumc__link_is_told(&p->link) && !gpumc__is_linked(p->param);
        for (size_t j = 0; hears && j < p->size; j++) {
            const size_t at = p->free_at + j;
            const double r = gpumc__link_r(&p->link, j, work);
            m->scale[at] *= r;
            m->mean[at] = work[p->at + j];
            for (size_t k = 0; k < dim; k++) {
                m->covariance[at * dim + k] *= r;
                m->covariance[k * dim + at] *= r;
                m->factor[at * dim + k] *= r;
            }
        }
    }
}

static void gpumc__finish_fit(gpumc__run *r)
{
    gpumc_fit *f = r->fit;
    const char *reason;
    size_t done = SIZE_MAX;
    for (size_t i = 0; f->summaries && i < f->n_columns; i++) f->summaries[i].flags = -1;
    for (size_t c = 0; c < r->n_chains; c++) {
        done = r->chains[c].done < done ? r->chains[c].done : done;
        f->n_divergent += r->chains[c].divergences;
    }
    f->n_draws = r->warmup ? 0 : done / (size_t)r->options->thin;
    f->sampling_gradients = gpumc__count_gradients(r) - f->warmup_gradients;
    f->sampling_seconds = gpumc__seconds() - r->begin - f->warmup_seconds;
    f->step_size = r->chains[0].nuts->step_size;
    f->tree_step_size = r->adapt->sampler != GPUMC_SAMPLER_NUTS ? r->adapt->tree_step : f->step_size;
    gpumc__metric_copy(&f->metric, &r->adapt->shared);
    gpumc__metric_unhear(&f->metric, r->layout, r->chains[0].work);
    for (size_t i = 0; i < f->n_free; i++) f->centring[i] = gpumc__notch[r->layout->notches[i]];
    memcpy(f->typical, r->layout->typical, f->n_free * sizeof *f->typical);
    f->n_restarted = r->adapt->n_restarts;
    f->sampler = gpumc_adapt_sampler(r->adapt, &reason);
    memcpy(f->sampler_reason, reason, sizeof f->sampler_reason);
}

static gpumc_status gpumc__run_warnings(gpumc__run *r)
{
    gpumc_fit *f = r->fit;
    const gpumc_adapt *a = r->adapt;
    const size_t n = a->n_restarts < GPUMC__MAX_RESTARTS ? a->n_restarts : GPUMC__MAX_RESTARTS;
    const gpumc__checkpoint *p = r->checkpoint;
    gpumc_status status = GPUMC_OK;
    if (p->read.status != GPUMC_OK)
        status = gpumc__warn(f, GPUMC_W_CHECKPOINT, 0, 0, "resumed from the generation before: %.200s",
                             p->read.text);
    if (p->written.status != GPUMC_OK && status == GPUMC_OK)
        status = gpumc__warn(f, GPUMC_W_CHECKPOINT, 0, 0, "the last checkpoint failed: %.200s",
                             p->written.text);
    for (size_t i = 0; i < n && status == GPUMC_OK; i++)
        status = gpumc__warn(
            f, GPUMC_W_RESTARTED, 0, (double)a->restarts[i].chain,
            "chain %.0f lagged at log density %.4g in warm-up iteration %.0f and was restarted from chain "
            "%.0f at %.4g: mostly slow from a far start (init, init_radius), but a second mode would be "
            "hidden by this (option keep_stuck_chains)",
            (double)(a->restarts[i].chain + 1), a->restarts[i].level, (double)a->restarts[i].iteration,
            (double)(a->restarts[i].source + 1), a->restarts[i].healthy_level);
    if (status == GPUMC_OK && r->n_chains > 1 && a->mixing > 1.3)
        status = gpumc__warn(f, GPUMC_W_NOT_MIXED, 0, a->mixing, "the chains had not mixed at the end of "
                             "warm-up (R-hat %.2f of the log density): a longer num_warmup may help",
                             a->mixing);
    return status == GPUMC_OK && f->draws ? gpumc__collect_warnings(f) : status;
}

/* The run proper, with all memory at hand. */
static gpumc_status gpumc__run_phases(gpumc__run *r, gpumc_error *error)
{
    const gpumc__checkpoint *p = r->checkpoint;
    const double n_draws = (double)r->n_iterations[0];
    gpumc_status status, summarised = GPUMC_OK;
    int finished;
    r->team = gpumc_team_start(r->batch ? 1 : r->options->threads, &r->options->allocator);
    if (!r->team) return gpumc__fail_memory(error, sizeof *r->team);
    r->adapt->team = r->team;
    status = p->from.file ? gpumc__load(r, error) : gpumc__start_chains(r, error);
    if (status == GPUMC_OK) status = gpumc__begin_stream(r, error);
    if (status != GPUMC_OK) { gpumc_team_stop(r->team); return status; }
    gpumc__time_gradient(r);
    r->chunk = (size_t)fmin(fmax(1e-3 / (8 * r->fit->gradient_seconds), 1), /* a millisecond, at most 1/20 */
                            n_draws / 20 + 1);
    gpumc__mutex_init(&r->lock);
    r->fit->threads = gpumc_team_threads(r->team) * r->share;
    finished = !r->warmup || gpumc__warm_up(r);
    status = gpumc__flat(r, error);
    if (status == GPUMC_OK && finished) {
        if (r->warmup) {
            gpumc__phase(r, 0);
            if (r->options->stream) (void)gpumc__save(r);        /* no draws on the disk without one */
        }
        finished = gpumc__advance(r, r->n_iterations[0]);
    }
    if (status == GPUMC_OK) {
        gpumc__finish_fit(r);
        if (r->fit->draws && r->fit->n_draws) summarised = gpumc__summarise_all(r->fit, r->team);
    }
    gpumc_team_stop(r->team);
    gpumc__mutex_free(&r->lock);
    if (status != GPUMC_OK) return status;
    const int incomplete = (gpumc__run_warnings(r) != GPUMC_OK) | (summarised != GPUMC_OK);
    if (incomplete)                                                      /* draws are worth more than these */
        gpumc__fail(error, GPUMC_OK, "memory ran out while the warnings were collected: they are incomplete");
    const char *where = !p->path ? "" : r->fit->resumable ? ", saved in " : "; NOT SAVED: ";
    if (finished) return GPUMC_OK;
    return gpumc__fail(error, GPUMC_STOPPED, "stopped on request after %.0f draws a chain%s%.160s%s",
                       (double)r->fit->n_draws, where,
                       !p->path ? "" : r->fit->resumable ? p->path : p->written.text,
                       incomplete ? "; memory ran out for warnings" : "");
}

/* The same with the threads that chains leave idle given to the model, if it wants them. */
static gpumc_status gpumc__run_shared(gpumc__run *r, gpumc_error *error)
{
    const gpumc_model *m = r->model;
    const int wanted = r->share > 1 && !r->batch && m->share;
    gpumc_status status;
    if (!wanted || !m->share(r->options->threads, r->share, m->data)) r->share = 1;
    status = gpumc__run_phases(r, error);
    if (r->share > 1) m->share(r->options->threads, 1, m->data);
    return status;
}

/* Allocates what a checked model needs, then runs. */
static gpumc_status gpumc__sample_layout(gpumc_layout *layout, gpumc_fit *fit, gpumc__checkpoint *checkpoint,
                                         gpumc_error *error)
{
    gpumc_sample_options *o = &fit->options;
    gpumc__run run;
    gpumc__arena kept = { NULL, 0 }, scratch = { NULL, 0 };
    void *block;
    gpumc_status status;
    memset(&run, 0, sizeof run);
    run.model = layout->model;
    run.layout = layout;
    run.fit = fit;
    run.options = o;
    run.checkpoint = checkpoint;
    run.warmup = 1;
    run.begin = gpumc__seconds();
    run.share = gpumc__resolve_options(o, layout);
    run.n_chains = (size_t)o->num_chains;
    run.n_iterations[0] = (size_t)o->num_samples * (size_t)o->thin;
    run.n_iterations[1] = o->num_warmup > 0 ? (size_t)o->num_warmup : 0;
    gpumc__place_fit(&kept, fit, layout);
    gpumc__place_run(&scratch, &run, fit, error);
    fit->memory = gpumc__allocate(&fit->allocator, gpumc__size_add(kept.used, 64));
    block = gpumc__allocate(&fit->allocator, gpumc__size_add(scratch.used, 64));
    kept.base = (char *)gpumc__aligned(fit->memory);
    scratch.base = (char *)gpumc__aligned(block);
    if (kept.base && scratch.base) {
        kept.used = scratch.used = 0;
        gpumc__place_fit(&kept, fit, layout);
        status = gpumc__check_metric(o, layout, error);
        if (status == GPUMC_OK) status = gpumc__place_run(&scratch, &run, fit, error);
        if (status == GPUMC_OK) status = gpumc__run_shared(&run, error);
    } else
        status = gpumc__fail(error, GPUMC_ERROR_MEMORY, "out of memory: %.0f bytes for draws, %.0f for the "
                             "run; fewer draws, thin or discard_draws need less", (double)kept.used,
                             (double)scratch.used);
    gpumc__release(&fit->allocator, block);
    return status;
}

/* Starts a run, or goes on with the one that options.checkpoint holds. */
static gpumc_status gpumc__sample(const gpumc_model *model, const gpumc_sample_options *options, int resume,
                                  gpumc_fit *fit)
{
    gpumc_error error = { GPUMC_OK, "" };
    gpumc__checkpoint checkpoint;
    gpumc_status status;
    size_t bytes = 0;
    void *memory;
    gpumc_layout *layout;
    memset(fit, 0, sizeof *fit);
    memset(&checkpoint, 0, sizeof checkpoint);
    fit->options = *options;
    fit->allocator = fit->options.allocator;
    status = gpumc__check_options(&fit->options, &error);
    if (status == GPUMC_OK) bytes = gpumc_layout_bytes(model, &error);
    if (bytes && fit->options.checkpoint) {
        if (gpumc__checkpoint_open(&checkpoint, fit, resume, &error) != GPUMC_OK
            || gpumc__check_options(&fit->options, &error) != GPUMC_OK) bytes = 0;
    }
    memory = bytes ? gpumc__allocate(&fit->allocator, bytes) : NULL;
    layout = memory ? gpumc_layout_init(model, memory, bytes, &error) : NULL;
    if (layout) status = gpumc__sample_layout(layout, fit, &checkpoint, &error);
    else status = bytes && !memory ? gpumc__fail_memory(&error, bytes) : error.status;
    gpumc__release(&fit->allocator, memory);
    gpumc__checkpoint_close(&checkpoint, &fit->allocator);
    if (status < 0) gpumc_free(fit);
    fit->status = status;
    memcpy(fit->message, error.text, sizeof fit->message);
    return status;
}

GPUMC_API gpumc_status gpumc_sample(const gpumc_model *model, const gpumc_sample_options *options,
                                    gpumc_fit *fit)
{
    gpumc_sample_options o;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    return fit ? gpumc__sample(model, &o, 0, fit) : GPUMC_ERROR_ARGUMENT;
}

GPUMC_API gpumc_status gpumc_resume(const gpumc_model *model, const gpumc_sample_options *options,
                                    const char *file, gpumc_fit *fit)
{
    gpumc_sample_options o;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    o.checkpoint = file ? file : "";
    return fit ? gpumc__sample(model, &o, 1, fit) : GPUMC_ERROR_ARGUMENT;
}

GPUMC_API void gpumc_free(gpumc_fit *fit)
{
    if (!fit) return;
    gpumc__release(&fit->allocator, fit->warnings);
    gpumc__release(&fit->allocator, fit->memory);
    memset(fit, 0, sizeof *fit);
}

/* ---- columns ----------------------------------------------------------------------------------- */

GPUMC_API size_t gpumc_column_name(const gpumc_fit *fit, size_t column, char *text, size_t size)
{
    for (size_t i = 0; fit && i < fit->n_blocks; i++) {
        const gpumc_block *b = &fit->blocks[i];
        if (column - b->offset < b->size && column >= b->offset)
            return gpumc__element_name(b->name, b->size, b->dims, b->n_dims, column - b->offset, text, size);
    }
    if (size > 0) text[0] = 0;
    return 0;
}

GPUMC_API size_t gpumc_column(const gpumc_fit *fit, const char *name)
{
    char text[512];
    for (size_t i = 0; fit && name && i < fit->n_blocks; i++) {
        const gpumc_block *b = &fit->blocks[i];
        const size_t n = strlen(b->name);
        if (strncmp(name, b->name, n) != 0 || (name[n] != 0 && name[n] != '[')) continue;
        for (size_t k = 0; k < b->size; k++) {
            gpumc__element_name(b->name, b->size, b->dims, b->n_dims, k, text, sizeof text);
            if (strcmp(text, name) == 0) return b->offset + k;
        }
    }
    return SIZE_MAX;
}
GPUMC__OFTEN

#ifdef __cplusplus
}
#endif
#endif /* GPUMC_IMPLEMENTATION */
