/* The posteriors of the posteriordb development set: log densities and gradients against its check.json,
   draws against its reference summaries. The files are looked for in $GPUMC_POSTERIORDB, then beside the
   project.

   Draws: for every column of the reference, z = (estimate - reference) / sqrt(mcse^2 + reference mcse^2) of
   the mean and of the mean square; where the mean is over ten sd from 0, so that the square hardly sees the
   sd, the sd takes its place. The bound of |z| has a false-alarm rate of 0.1 % over all of them. */
#include "check.h"
#include "../gpumc.h"
#include "posteriors.h"

#ifndef N_SEEDS
#define N_SEEDS 1             /* runs a posterior; with one, only the cheap posteriors are sampled */
#endif
enum { N_COLUMNS = 112, MAX_PARAMS = 26, N_POINTS = 3 };  /* columns of all references together */

/* ---- files --------------------------------------------------------------------------------------- */

static const char *folder;

static int file_exists(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

static void path_of(const char *posterior_name, const char *what, char *path, size_t room)
{
    snprintf(path, room, "%s/%s.%s.json", folder, posterior_name, what);
}

static int find_folder(void)
{
    static const char *const beside[] = { "../../shared/posteriordb", "../shared/posteriordb" };
    char path[1024];
    for (int i = -1; i < 2; i++) {
        folder = i < 0 ? getenv("GPUMC_POSTERIORDB") : beside[i];
        if (!folder) continue;
        path_of(posteriors[0].name, "check", path, sizeof path);
        if (file_exists(path)) return 1;
    }
    return 0;
}

/* A reference or check file: numbers, and one list of names. */
typedef struct summary_file {
    gpumc_data numbers;
    char names[MAX_PARAMS][32];
    size_t n;
} summary_file;

/* The names in a line like "params": ["a","b[1]"], from the colon on. */
static void read_names(const char *line, summary_file *f)
{
    const char *at = strchr(line, ':');
    while (at && f->n < MAX_PARAMS && (at = strchr(at, '"')) != NULL) {
        const size_t length = strcspn(++at, "\"");
        snprintf(f->names[f->n++], sizeof f->names[0], "%.*s", (int)length, at);
        at += length + 1;
    }
}

/* One key a line. Lines with strings are no data to gpumc_parse_json: one gives the names, the others go. */
static int read_summary(const char *path, const char *names_key, summary_file *f)
{
    static char text[1 << 16], line[1 << 14], key[64];
    FILE *file = fopen(path, "rb");
    gpumc_error error = { GPUMC_OK, "cannot be opened" };
    size_t used = 0;
    int status = 1;
    memset(f, 0, sizeof *f);
    snprintf(key, sizeof key, "\"%s\"", names_key);
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) == 0) read_names(line, f);
        else if (!value || !strchr(value, '"'))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", line);
    }
    if (file) {
        fclose(file);
        status = gpumc_parse_json(text, used, &f->numbers, &error);
    }
    CHECK(status == GPUMC_OK && f->n > 0, "%s: %s", path, error.text);
    return status == GPUMC_OK && f->n > 0;
}

static const double *numbers_of(const summary_file *f, const char *name, size_t n)
{
    const gpumc_variable *v = gpumc_data_get(&f->numbers, name, n, 0, NULL);
    CHECK(v != NULL, "no %s in the summary", name);
    return v ? v->values : NULL;
}

static int open_model(const posterior *p, posterior_model *m)
{
    char path[1024];
    path_of(p->name, "data", path, sizeof path);
    posterior_open(p, path, m);
    CHECK(!m->error, "%s: %s", path, m->error);
    return !m->error;
}

/* ---- values and gradients ------------------------------------------------------------------------ */

/* Place of a parameter called theta[3] or mu among the natural values. */
static size_t place_of(const posterior *p, const gpumc_model *model, const char *name)
{
    size_t at = 0;
    for (int i = 0; i < 2; i++)
        if (p->renamed[i][0] && strcmp(p->renamed[i][0], name) == 0) name = p->renamed[i][1];
    for (size_t i = 0; i < model->n_params; i++) {
        const gpumc_param *param = &model->params[i];
        const size_t length = strlen(param->name);
        if (strncmp(name, param->name, length) == 0 && (name[length] == '[' || name[length] == 0))
            return at + (name[length] ? (size_t)atoi(name + length + 1) - 1 : 0);
        at += param->size ? param->size : 1;
    }
    return SIZE_MAX;
}

typedef struct check_point { double x[MAX_PARAMS], lp, grad[MAX_PARAMS]; } check_point;

/* Point i of check.json in the coordinates of our density. */
static int read_point(const posterior *p, const gpumc_model *model, const summary_file *f, size_t i,
                      check_point *c)
{
    const double *at = numbers_of(f, "at", N_POINTS * f->n), *grad = numbers_of(f, "grad", N_POINTS * f->n);
    const double *lp = numbers_of(f, "lp", N_POINTS);
    memset(c, 0, sizeof *c);
    if (!at || !grad || !lp) return 0;
    for (size_t k = 0; k < f->n; k++) {
        const size_t place = place_of(p, model, f->names[k]);
        CHECK(place < f->n, "%s: no parameter %s", p->name, f->names[k]);
        if (place >= f->n) return 0;
        c->x[place] = at[i * f->n + k];
        c->grad[place] = grad[i * f->n + k];
    }
    c->lp = lp[i];
    if (p->from_check) p->from_check(c->x, &c->lp, c->grad);
    return 1;
}

/* Largest errors of lp, by its differences to the first point, and of the gradient: relative, or absolute
   where less than 1 is expected. */
static void density_errors(const gpumc_model *model, const check_point *c, size_t n, double *lp_error,
                           double *gradient_error)
{
    double first = 0;
    *lp_error = *gradient_error = 0;
    for (int i = 0; i < N_POINTS; i++) {
        double grad[MAX_PARAMS] = { 0 };
        const double lp = model->log_density(c[i].x, grad, model->data), expected = c[i].lp - c[0].lp;
        if (i == 0) first = lp;
        *lp_error = fmax(*lp_error, check_distance(lp - first, expected, 1));
        for (size_t k = 0; k < n; k++)
            *gradient_error = fmax(*gradient_error, check_distance(grad[k], c[i].grad[k], 1));
    }
}

static void check_density(const posterior *p)
{
    char path[1024];
    check_point points[N_POINTS];
    double lp_error, gradient_error;
    posterior_model m;
    summary_file f;
    int good = 1;
    path_of(p->name, "check", path, sizeof path);
    if (open_model(p, &m) && read_summary(path, "free_params", &f)) {
        const int ode = m.model.log_density == lynx_density;
        for (size_t i = 0; i < N_POINTS; i++) good &= read_point(p, &m.model, &f, i, &points[i]);
        if (ode) ((lynx *)m.state)->steps = 1000;        /* as many as check.json was made with */
        density_errors(&m.model, points, f.n, &lp_error, &gradient_error);
        CHECK(good && lp_error < 1e-8, "%s: log density is off by %g", p->name, lp_error);
        CHECK(good && gradient_error < 1e-8, "%s: gradient is off by %g", p->name, gradient_error);
        if (ode) {
            ((lynx *)m.state)->steps = 20;
            density_errors(&m.model, points, f.n, &lp_error, &gradient_error);
            CHECK(lp_error < 1e-5 && gradient_error < 1e-3, "%s: 20 steps are off by %g, %g", p->name,
                  lp_error, gradient_error);
        }
        points[1].x[0] *= 1 + 1e-4;                          /* the check must see a wrong point */
        density_errors(&m.model, points, f.n, &lp_error, &gradient_error);
        CHECK(lp_error > 1e-7 && gradient_error > 1e-7, "%s: a wrong point passes", p->name);
        gpumc_data_free(&f.numbers);
    }
    posterior_close(&m);
}

/* ---- draws --------------------------------------------------------------------------------------- */

/* What |z| exceeds with probability 0.001 / n, with n = two statistics a column and run. */
static double bound(void) { return -gpumc_inv_Phi(0.0005 / (2.0 * N_COLUMNS * N_SEEDS)); }

typedef struct outcome {
    double worst_z, min_ess, max_r_hat, gradients, seconds;
    size_t n_divergent, n_columns;
    char worst[40];           /* the column of worst_z */
} outcome;

static void note_z(outcome *o, const char *column, const char *statistic, double z)
{
    if (fabs(z) <= o->worst_z) return;
    o->worst_z = isnan(z) ? INFINITY : fabs(z);
    snprintf(o->worst, sizeof o->worst, "%.24s %s", column, statistic);
}

static double z_of(gpumc_stat estimate, gpumc_stat mcse, double reference, double reference_mcse)
{
    return (estimate.value - reference) / sqrt(mcse.value * mcse.value + reference_mcse * reference_mcse);
}

/* Row of the reference against the draws of one column, copied to x and x^2. */
static void judge_column(const gpumc_fit *fit, const summary_file *f, size_t row, double *copy, outcome *o)
{
    const double mean = numbers_of(f, "mean", f->n)[row], sd = numbers_of(f, "sd", f->n)[row];
    const double n_reference = numbers_of(f, "n_draws", 1)[0];
    const size_t column = gpumc_column(fit, f->names[row]), n = fit->n_chains * fit->n_draws;
    const gpumc_series x = column < SIZE_MAX ? gpumc_fit_series(fit, column) : (gpumc_series){ 0 };
    const gpumc_series square = { copy, fit->n_chains, fit->n_draws, 0, 0 };
    CHECK(column < SIZE_MAX, "%s: no column %s", fit->model_name, f->names[row]);
    if (column == SIZE_MAX) return;
    for (size_t i = 0; i < n; i++) {
        const double v = x.x[i / fit->n_draws * x.chain_stride + i % fit->n_draws * x.draw_stride];
        copy[i] = v * v;
    }
    note_z(o, f->names[row], "mean",
           z_of(gpumc_mean(x), gpumc_mcse_mean(x), mean, numbers_of(f, "mcse", f->n)[row]));
    if (fabs(mean) > 10 * sd)
        note_z(o, f->names[row], "sd", z_of(gpumc_sd(x), gpumc_mcse_sd(x), sd, sd / sqrt(2 * n_reference)));
    else
        note_z(o, f->names[row], "square", z_of(gpumc_mean(square), gpumc_mcse_mean(square),
                                                numbers_of(f, "mean_sq", f->n)[row],
                                                numbers_of(f, "mcse_mean_sq", f->n)[row]));
    o->min_ess = fmin(o->min_ess, fmin(gpumc_ess_bulk(x).value, gpumc_ess_tail(x).value));
    o->max_r_hat = fmax(o->max_r_hat, gpumc_r_hat(x).value);
    o->n_columns++;
}

static gpumc_sampler sampler;          /* of all runs */

/* One run with default settings. */
static void judge_run(const gpumc_model *model, const summary_file *f, uint64_t seed, outcome *o)
{
    const gpumc_sample_options options = { .seed = seed, .sampler = sampler };
    gpumc_fit fit;
    const gpumc_status status = gpumc_sample(model, &options, &fit);
    double *copy = (double *)malloc((fit.n_chains * fit.n_draws + 1) * sizeof *copy);
    CHECK(status == GPUMC_OK && copy, "%s: %s", model->name, fit.message);
    for (size_t row = 0; status == GPUMC_OK && copy && row < f->n; row++) judge_column(&fit, f, row, copy, o);
    o->gradients += (double)(fit.warmup_gradients + fit.sampling_gradients);
    o->seconds += fit.warmup_seconds + fit.sampling_seconds;
    o->n_divergent += fit.n_divergent;
    free(copy);
    gpumc_free(&fit);
}

/* All seeds of a posterior; prints its row of the table. */
static void judge(const posterior *p, size_t *n_columns)
{
    outcome o = { 0, INFINITY, 0, 0, 0, 0, 0, "" };
    char path[1024];
    posterior_model m;
    summary_file f;
    path_of(p->name, "reference", path, sizeof path);
    if (open_model(p, &m) && read_summary(path, "params", &f)) {
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) judge_run(&m.model, &f, seed, &o);
        printf("%-40s %5.2f %-20s %7.0f %7.3f %10.0f %6.1f %5d\n", p->name, o.worst_z, o.worst, o.min_ess,
               o.max_r_hat, o.gradients / N_SEEDS, o.seconds / N_SEEDS, (int)o.n_divergent);
        CHECK(o.worst_z < bound(), "%s: %s is %.2f standard errors off", p->name, o.worst, o.worst_z);
        CHECK(o.n_columns == N_SEEDS * f.n, "%s: columns are missing", p->name);
        *n_columns += f.n;
        gpumc_data_free(&f.numbers);
    }
    posterior_close(&m);
}

/* A regression that takes its residuals for those of fewer observations: the comparison must notice it. */
static void check_caught(void)
{
    outcome o = { 0, INFINITY, 0, 0, 0, 0, 0, "" };
    char path[1024];
    posterior_model m;
    summary_file f;
    path_of(posteriors[0].name, "reference", path, sizeof path);
    if (open_model(&posteriors[0], &m) && read_summary(path, "params", &f)) {
        ((regression *)m.state)->n -= 5;
        judge_run(&m.model, &f, 0, &o);
        CHECK(o.worst_z > bound(), "five observations less pass: %.2f", o.worst_z);
        gpumc_data_free(&f.numbers);
    }
    posterior_close(&m);
}

/* An argument names the sampler: auto (the default), nuts, mams or hmc. */
int main(int argc, char **argv)
{
    static const char *const names[] = { "auto", "nuts", "mams", "hmc" };
    size_t n_columns = 0;
    for (int k = 0; k < 4 && argc > 1; k++) if (strcmp(argv[1], names[k]) == 0) sampler = (gpumc_sampler)k;
    if (!find_folder()) {
        check_skip("no posteriordb files (set GPUMC_POSTERIORDB to their folder)");
        return check_end();
    }
    for (size_t i = 0; i < N_POSTERIORS; i++) check_density(&posteriors[i]);
    check_caught();
    printf("%2d seeds, |z| below %.2f                    |z| at                   min ESS   R-hat  gradients "
           "seconds  div.\n", N_SEEDS, bound());
    for (size_t i = 0; i < N_POSTERIORS; i++)
        if (N_SEEDS > 1 || posteriors[i].cheap) judge(&posteriors[i], &n_columns);
    CHECK(N_SEEDS == 1 || n_columns == N_COLUMNS, "%d columns, not %d", (int)n_columns, N_COLUMNS);
    return check_end();
}
