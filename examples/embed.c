/* embed.c: the sampler as a guest in somebody else's loop.

   A program that has its own main loop, memory and threads does not want a library with others. gpumc_nuts
   asks for one gradient at a time and owns nothing, so each turn of the loop below does the program's own
   work and then evaluates one gradient. The model is a bioassay (Racine et al. 1986): deaths among five animals
   at four doses,
       deaths[i] ~ binomial_logit(5, alpha + beta dose[i]),  alpha ~ normal(0, 2),  beta ~ normal(10, 10)
   and the quantity of interest the dose that kills half of them, -alpha / beta.

   Build:  cc -O2 examples/embed.c -o embed -lm
   Run:    ./embed
   Output: (last digits differ between compilers)

   dose that kills half: -0.091, sd 0.092, from 4000 draws
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include <math.h>
#include <stdlib.h>

enum { MAX_TREEDEPTH = 10, N_DRAWS = 4000 };

static const double dose[4] = { -0.86, -0.30, -0.05, 0.73 };
static const double deaths[4] = { 0, 1, 3, 5 };

/* In the order of the parameter list below. */
struct line { double alpha, beta; };

static double log_density(const double *x, double *grad, void *data)
{
    const struct line *p = (const struct line *)x;
    struct line *g = (struct line *)grad;
    double lp = gpumc_normal_lpdf(p->alpha, 0, 2, &g->alpha, NULL, NULL)
              + gpumc_normal_lpdf(p->beta, 10, 10, &g->beta, NULL, NULL);
    (void)data;
    for (int i = 0; i < 4; i++) {
        double deta = 0;
        lp += gpumc_binomial_logit_lpmf(deaths[i], 5, p->alpha + p->beta * dose[i], &deta);
        g->alpha += deta;
        g->beta += deta * dose[i];
    }
    return lp;
}

static const gpumc_param params[] = { { .name = "alpha" }, { .name = "beta" } };
static const gpumc_model model = { .name = "bioassay", .params = params, .n_params = 2,
                                   .log_density = log_density };

/* All the memory that the sampler gets. */
static double memory[1 << 15];
static size_t memory_used;

/* The next part of it, or NULL when it is used up. */
static void *take(size_t bytes)
{
    double *part = memory + memory_used;
    const size_t n = (bytes + sizeof *memory - 1) / sizeof *memory;
    if (n > sizeof memory / sizeof *memory - memory_used) return NULL;
    memory_used += n;
    return part;
}

struct guest { gpumc_layout *layout; gpumc_adapt *adapt; gpumc_nuts *chain; double *grad, *work; };

static int guest_init(struct guest *s, gpumc_error *error)
{
    const gpumc_adapt_options options = { .max_treedepth = MAX_TREEDEPTH, .seed = 1 };
    const double start[2] = { 0, 0 };
    size_t bytes = gpumc_layout_bytes(&model, error), dim;
    s->layout = gpumc_layout_init(&model, take(bytes), bytes, error);
    if (!s->layout) return 0;
    dim = gpumc_layout_dim(s->layout);
    s->grad = (double *)take(dim * sizeof(double));
    s->work = (double *)take(gpumc_layout_work(s->layout) * sizeof(double));
    bytes = gpumc_adapt_bytes(s->layout, dim, &options);
    s->adapt = gpumc_adapt_init(take(bytes), bytes, s->layout, dim, &options, error);
    if (!s->adapt) return 0;
    bytes = gpumc_nuts_bytes(dim, MAX_TREEDEPTH);
    s->chain = gpumc_nuts_init(take(bytes), bytes, dim, MAX_TREEDEPTH, gpumc_adapt_metric(s->adapt, 0), 0,
                               options.seed, 0, start, error);
    return s->chain != NULL && s->grad && s->work;
}

/* Evaluates the gradient that the sampler asks for; returns 1 when that completed a draw. */
static int guest_turn(struct guest *s)
{
    const double *q = gpumc_nuts_ask(s->chain);
    const double lp = gpumc_model_eval(s->layout, q, s->grad, s->work);
    return gpumc_nuts_tell(s->chain, lp, s->grad);
}

int main(void)
{
    struct guest s;
    gpumc_error error;
    double mean = 0, squares = 0, x[2];
    int warmup = 1, n = 0;
    if (!guest_init(&s, &error)) { fprintf(stderr, "error: %s\n", error.text); return EXIT_FAILURE; }
    while (n < N_DRAWS) {
        /* ... whatever else this program does in a turn ... */
        if (!guest_turn(&s)) {
            if (!gpumc_nuts_bad_start(s.chain)) continue;
            fprintf(stderr, "error: the density is not finite at the start\n");
            return EXIT_FAILURE;
        }
        if (warmup) { warmup = gpumc_adapt_update(s.adapt, &s.chain); continue; }
        gpumc_model_natural(s.layout, gpumc_nuts_draw(s.chain), x, s.work);
        const double ld50 = -x[0] / x[1], away = ld50 - mean;
        n++;
        mean += away / n;
        squares += away * (ld50 - mean);
    }
    printf("dose that kills half: %.3f, sd %.3f, from %d draws\n", mean, sqrt(squares / (n - 1)), n);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
