/* Eight schools, with a new one as output. To be included after gpumc.h; SCHOOLS_AT, if defined, is told of
   every point. */
#ifndef SCHOOLS_H
#define SCHOOLS_H

#ifndef SCHOOLS_AT
#define SCHOOLS_AT(mu) ((void)(mu))
#endif

static double schools_effect[8] = { 28, 8, -3, 7, -1, 1, 18, 12 };
static const double schools_error[8] = { 15, 10, 16, 11, 9, 11, 10, 18 };

struct schools { double mu, tau, theta[8]; };

static double schools_density(const double *x, double *grad, void *data)
{
    const struct schools *p = (const struct schools *)x;
    struct schools *g = (struct schools *)grad;
    double lp = gpumc_normal_lpdf(p->mu, 0, 5, &g->mu, NULL, NULL) - log1p(p->tau * p->tau / 25);
    (void)data;
    SCHOOLS_AT(p->mu);
    g->tau -= 2 * p->tau / (25 + p->tau * p->tau);
    for (int j = 0; j < 8; j++)
        lp += gpumc_normal_lpdf(p->theta[j], p->mu, p->tau, &g->theta[j], &g->mu, &g->tau)
            + gpumc_normal_lpdf(schools_effect[j], p->theta[j], schools_error[j], NULL, &g->theta[j], NULL);
    return lp;
}

static void schools_generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    const struct schools *p = (const struct schools *)x;
    (void)data;
    *out = p->mu + p->tau * gpumc_rng_normal(rng);
}

static const gpumc_param schools_params[] = {
    { .name = "mu" },
    { .name = "tau", .kind = GPUMC_POSITIVE },
    { .name = "theta", .size = 8, .location = "mu", .scale = "tau" },
};
static const gpumc_output schools_output = { .name = "new_school", .group = GPUMC_POSTERIOR_PREDICTIVE };
#endif
