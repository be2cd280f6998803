/* regression.c: a first model, a straight line with predictions.

   Forbes (1857) wanted to read altitude off a kettle: boiling point of water (degrees Fahrenheit) and
   barometric pressure (inches of mercury) at seventeen places in the Alps and in Scotland. The logarithm of
   pressure is close to a straight line in the boiling point; one place lies far off, hence Student-t errors:
       100 log10(pressure[i] / 25) ~ student_t(4, alpha + beta (boiling[i] - 203), sigma)
       alpha ~ normal(0, 10),  beta ~ normal(0, 5),  sigma ~ exponential(1)
   `predicted` is the pressure to expect where water boils at the temperatures of `asked`, with the
   uncertainty of the line and of a new reading; `log_lik` feeds leave-one-out cross-validation.

   Build:  cc -O2 examples/regression.c -o regression -lm -pthread
   Run:    ./regression                         (./regression help lists the arguments)
   Output: (times differ from run to run, last digits between compilers)

   water boils at 190 F: pressure 19.05 inches, 90 % between 18.91 and 19.20
   water boils at 200 F: pressure 23.39 inches, 90 % between 23.23 and 23.55
   water boils at 210 F: pressure 28.71 inches, 90 % between 28.51 and 28.93
   elpd_loo 0.5, standard error 8.7, largest Pareto k 0.40
   regression: 4 chains x 1000 draws after 200 of warm-up, 0.01 s
   step size 0.824, low-rank metric, 0 divergences
   sampler MAMS: the metric fits: variance to metric 1.19, E-BFMI 1.07, trees span 3.3
               mean       mcse         sd         q5        q50        q95  ess_bulk  ess_tail   r_hat
   alpha   -0.22069    0.00058    0.03799   -0.28560   -0.21996   -0.15788      4469      2804   1.001
   beta     0.89106    0.00011    0.00689    0.87959    0.89126    0.90201      4374      2942   1.000
   sigma    0.13864    0.00060    0.03986    0.08687    0.13215    0.21248      4944      2756   1.000
   predicted: 3 predicted values, not shown
   log_lik: 17 log likelihoods, not shown
   gradients=14943 divergences=0 warmup_s=0.0032 sampling_s=0.0073
*/
#define GPUMC_STATIC     /* one file only: what it does not use is left out */
#define GPUMC_IMPLEMENTATION
#include "../gpumc.h"
#include "arguments.h"

enum { N_ROWS = 17, N_ASKED = 3 };

static const double boiling[N_ROWS] = { 194.5, 194.3, 197.9, 198.4, 199.4, 199.9, 200.9, 201.1, 201.4, 201.3,
                                        203.6, 204.6, 209.5, 208.6, 210.7, 211.9, 212.2 };
static const double pressure[N_ROWS] = { 20.79, 20.79, 22.40, 22.67, 23.15, 23.35, 23.89, 23.99, 24.02, 24.01,
                                         25.14, 26.57, 28.49, 27.76, 29.04, 29.88, 30.06 };
static const double asked[N_ASKED] = { 190, 200, 210 };

/* In the order of the parameter list below. */
struct line { double alpha, beta, sigma; };

static double line_at(const struct line *p, double t) { return p->alpha + p->beta * (t - 203); }

/* Log likelihood of row i; adds its derivatives to g, which may be NULL. */
static double row(const struct line *p, int i, struct line *g)
{
    const double y = 100 * log10(pressure[i] / 25), mu = line_at(p, boiling[i]);
    double dmu = 0, lp;
    if (!g) return gpumc_student_t_lpdf(y, 4, mu, p->sigma, NULL, NULL, NULL, NULL);
    lp = gpumc_student_t_lpdf(y, 4, mu, p->sigma, NULL, NULL, &dmu, &g->sigma);
    g->alpha += dmu;
    g->beta += dmu * (boiling[i] - 203);
    return lp;
}

static double log_density(const double *x, double *grad, void *data)
{
    const struct line *p = (const struct line *)x;
    struct line *g = (struct line *)grad;
    double lp = gpumc_normal_lpdf(p->alpha, 0, 10, &g->alpha, NULL, NULL)
              + gpumc_normal_lpdf(p->beta, 0, 5, &g->beta, NULL, NULL)
              + gpumc_exponential_lpdf(p->sigma, 1, &g->sigma, NULL);
    (void)data;
    for (int i = 0; i < N_ROWS; i++) lp += row(p, i, g);
    return lp;
}

/* Called once a kept draw: fills predicted, then log_lik, in the order of the outputs below. */
static void generate(const double *x, gpumc_rng *rng, double *out, void *data)
{
    const struct line *p = (const struct line *)x;
    (void)data;
    for (int k = 0; k < N_ASKED; k++)
        *out++ = 25 * pow(10, gpumc_student_t_rng(rng, 4, line_at(p, asked[k]), p->sigma) / 100);
    for (int i = 0; i < N_ROWS; i++) *out++ = row(p, i, NULL);
}

static void print_predictions(const gpumc_fit *fit)
{
    const size_t first = gpumc_column(fit, "predicted[1]");
    for (size_t k = 0; k < N_ASKED; k++) {
        const gpumc_summary s = gpumc_summarise(fit, first + k);
        printf("water boils at %.0f F: pressure %.2f inches, 90 %% between %.2f and %.2f\n", asked[k], s.mean,
               s.q5, s.q95);
    }
}

int main(int argc, char **argv)
{
    const gpumc_param params[] = { { .name = "alpha" }, { .name = "beta" },
                                   { .name = "sigma", .kind = GPUMC_POSITIVE } };
    const gpumc_output outputs[] = {
        { .name = "predicted", .size = N_ASKED, .group = GPUMC_POSTERIOR_PREDICTIVE },
        { .name = "log_lik", .size = N_ROWS, .group = GPUMC_LOG_LIKELIHOOD },
    };
    const gpumc_model model = {
        .name = "regression", .params = params, .n_params = 3, .log_density = log_density,
        .generate = generate, .outputs = outputs, .n_outputs = 2,
    };
    run r = { .summary = NULL };
    gpumc_fit fit;
    gpumc_loo loo;
    gpumc_error error;
    int status = arguments_read(argc, argv, &r, NULL, 0);
    if (status != GO_ON) return status;
    if (run_sample(&r, &model, &fit) != GPUMC_OK) status = run_ended(&fit);
    else if (gpumc_loo_psis(&fit, &loo, NULL, NULL, &error) != GPUMC_OK) status = run_failed(error.text);
    else {
        print_predictions(&fit);
        printf("elpd_loo %.1f, standard error %.1f, largest Pareto k %.2f\n", loo.elpd, loo.se, loo.worst_k);
        status = run_report(&r, &fit);
    }
    gpumc_free(&fit);
    return status;
}
