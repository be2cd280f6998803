/* stop_signal_model.h: the hierarchical stop-signal models, described to >>api-hier from trials and options.

   Parameters of subject i, each independent of the others (k is a name such as B or v_plus):
       form U    log k[i] ~ normal(m_k, s_k), probit k[i] for the failure probabilities
                 m_k ~ normal(typical, prior_sd),  s_k ~ half-normal(0.5)
   s_k is one for each parameter (22 hyperparameters for RDEX-ABCD), or with pooled_scales one for each group:
   s_go, s_rates, s_stop, s_failures (15). Covariates are taken in units of their standard deviation from their
   mean and have coefficients b_k ~ normal(0, 0.5), added to m_k.

   Include after gpumc.h, stop_signal_data.h and stop_signal_rows.h. Read first: ss_model_create. */
#ifndef STOP_SIGNAL_MODEL_H
#define STOP_SIGNAL_MODEL_H

#define SS_TRUNCATION 0.05    /* seconds: where the stop process may finish at the earliest */
#define SS_UNTRUNCATED -1e3   /* stands for minus infinity */

typedef enum ss_form { SS_FORM_U } ss_form;
typedef struct ss_model_options {
    ss_kind kind;
    ss_form form;
    int pooled_scales;
    double truncation;        /* seconds; 0: SS_TRUNCATION, and none for BEESTS; negative: none */
    int nodes;                /* of a stop's quadrature; 0: 48, and 64 for BEESTS */
    const char *covariates;   /* "age:B,age:v_plus": column and parameter; NULL: none */
    gpumc_centring centring;  /* of all subjects' parameters */
    gpumc_isa isa;
    int threads, team;        /* as in gpumc_hier_data */
} ss_model_options;

/* What rows a model has and which parameters they take, for correct responses. */
typedef struct ss_likelihood {
    const gpumc_row_kind *go, *failed, *stop;
    int n_go, n_failed, n_stop;
    ss_parameter takes[3][12];
} ss_likelihood;
static inline const ss_likelihood *ss_likelihood_get(ss_kind kind)
{
    static const ss_likelihood table[SS_N_KINDS] = {
        { &ss_go, &ss_failed, &ss_stop, 4, 10, 11,
          { { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS },
            { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU, SS_PTF },
            { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } } },
    };
    return &table[kind];
}
/* An error is a correct response with the accumulators exchanged. */
static inline ss_parameter ss_exchanged(ss_parameter k)
{
    static const ss_parameter pairs[][2] = { { SS_V_PLUS, SS_V_MINUS }, { SS_MU_GO, SS_MU_ERR },
                                             { SS_SIGMA_GO, SS_SIGMA_ERR }, { SS_TAU_GO, SS_TAU_ERR } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int side = 0; side < 2; side++)
            if (pairs[i][side] == k) return pairs[i][1 - side];
    return k;
}

enum { SS_GO_RIGHT, SS_GO_WRONG, SS_FAILED_RIGHT, SS_FAILED_WRONG, SS_STOPS, SS_COUNTED, SS_N_SETS,
       SS_MAX_BLOCKS = 5 * SS_N_PARAMETERS };

/* Rows of one set, as many as there is room for: all trials. */
typedef struct ss_set {
    size_t n, *subject;
    double *columns[3], *weights;
    const double *given[3];
    gpumc_hier_take takes[12];
} ss_set;

typedef struct ss_names { char location[16], scale[16], coefficients[16], probit[24]; } ss_names;

typedef struct ss_model {
    ss_model_options options;             /* resolved */
    const ss_data *data;
    const ss_kind_info *kind;
    gpumc_hier_data description;
    gpumc_hier *hier;
    gpumc_param params[SS_MAX_BLOCKS];
    gpumc_prior priors[SS_MAX_BLOCKS];
    gpumc_population populations[SS_N_PARAMETERS];
    gpumc_hier_rows rows[SS_N_SETS];
    ss_set sets[SS_N_SETS];
    ss_names names[SS_N_PARAMETERS];
    double *covariates[SS_N_PARAMETERS];  /* subjects x n, row by row */
    size_t n_covariates[SS_N_PARAMETERS];
    double *init, *nodes[2], *fastest;    /* fastest: response of each subject */
} ss_model;

static inline void ss_model_free(ss_model *m)
{
    if (!m) return;
    gpumc_hier_free(m->hier);
    for (int s = 0; s < SS_N_SETS; s++) {
        free(m->sets[s].subject);
        free(m->sets[s].weights);
        for (int c = 0; c < 3; c++) free(m->sets[s].columns[c]);
    }
    for (int k = 0; k < SS_N_PARAMETERS; k++) free(m->covariates[k]);
    for (int c = 0; c < 2; c++) free(m->nodes[c]);
    free(m->init);
    free(m->fastest);
    free(m);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

/* Abscissae and weights of Gauss-Legendre quadrature on (-1, 1), by Newton's method on the polynomial. */
static inline void ss_gauss_legendre(int n, double *x, double *w)
{
    for (int i = 0; i < n; i++) {
        double z = cos(GPUMC_PI * (i + 0.75) / (n + 0.5)), slope = 1, step = 1;
        for (int k = 0; k < 100 && fabs(step) > 1e-15; k++) {
            double p = 1, before = 0;
            for (int j = 0; j < n; j++) {
                const double next = ((2 * j + 1) * z * p - j * before) / (j + 1);
                before = p;
                p = next;
            }
            slope = n * (z * p - before) / (z * z - 1);
            step = p / slope;
            z -= step;
        }
        x[i] = z;
        w[i] = 2 / ((1 - z * z) * slope * slope);
    }
}

static inline void ss_set_add(ss_set *s, size_t subject, double a, double b, double c, double weight)
{
    s->subject[s->n] = subject;
    s->columns[0][s->n] = a;
    s->columns[1][s->n] = b;
    s->columns[2][s->n] = c;
    s->weights[s->n++] = weight;
}

/* A successful stop: one more in the cell of its subject and delay. */
static inline void ss_set_stop(ss_set *s, size_t subject, double delay, double truncation)
{
    for (size_t i = s->n; i-- > 0 && s->subject[i] == subject;)
        if (!(s->columns[0][i] < delay || delay < s->columns[0][i])) { s->weights[i]++; return; }
    ss_set_add(s, subject, delay, truncation, 0, 1);
}

static inline void ss_trial_add(ss_model *m, const ss_trial *t)
{
    const size_t i = (size_t)t->subject;
    const int right = t->response == t->stimulus || m->options.kind == SS_BEESTS;
    const int go = t->ssd_ms == SS_NONE, none = t->response == SS_NONE;
    const double delay = 1e-3 * t->ssd_ms, truncation = m->options.truncation;
    ss_set *counted = &m->sets[SS_COUNTED];
    if (!go && m->options.kind == SS_WALD) return;
    if (!none) {
        counted->columns[1][i]++;
        if (t->rt < m->fastest[i]) m->fastest[i] = t->rt;
    }
    if (go && none) counted->columns[0][i]++;
    else if (none) ss_set_stop(&m->sets[SS_STOPS], i, delay, truncation);
    else if (go) ss_set_add(&m->sets[right ? SS_GO_RIGHT : SS_GO_WRONG], i, t->rt, 0, 0, 1);
    else ss_set_add(&m->sets[right ? SS_FAILED_RIGHT : SS_FAILED_WRONG], i, t->rt, delay, truncation, 1);
}

/* Describes the rows of a set, if it has any; -1: omissions and responses are counted. */
static inline void ss_set_describe(ss_model *m, int which, const char *name, const gpumc_row_kind *kind,
                                   const ss_parameter *takes, int n, int wrong)
{
    ss_set *s = &m->sets[which];
    gpumc_hier_rows *r = &m->rows[m->description.n_rows];
    if (s->n == 0 || !kind) return;
    m->description.n_rows++;
    for (int k = 0; k < n; k++) {
        const ss_parameter from = wrong ? ss_exchanged(takes[k]) : takes[k];
        s->takes[k].name = ss_parameter_get(from)->probit ? m->names[from].probit : ss_parameter_get(from)->name;
        s->takes[k].index = s->subject;
    }
    for (int c = 0; c < 3; c++) s->given[c] = s->columns[c];
    r->name = name;
    r->takes = s->takes;
    r->n_takes = (size_t)n;
    r->data.kind = kind;
    r->data.n_rows = s->n;
    r->data.columns = s->given;
    r->data.isa = m->options.isa;
    if (which != SS_STOPS) return;
    r->data.weights = s->weights;
    r->data.nodes = (const double *const *)m->nodes;
    r->data.n_nodes = (size_t)m->options.nodes;
}

static inline int ss_model_rows(ss_model *m, gpumc_error *error)
{
    static const ss_parameter counted[] = { SS_PGF };
    const ss_likelihood *l = ss_likelihood_get(m->options.kind);
    const size_t n_subjects = m->data->n_subjects, n = n_subjects + m->data->n_trials;
    int full = 1;
    for (int s = 0; s < SS_N_SETS; s++) {
        m->sets[s].subject = (size_t *)malloc(n * sizeof(size_t));
        m->sets[s].weights = (double *)malloc(n * sizeof(double));
        full &= m->sets[s].subject && m->sets[s].weights;
        for (int c = 0; c < 3; c++) {
            m->sets[s].columns[c] = (double *)malloc(n * sizeof(double));
            full &= m->sets[s].columns[c] != NULL;
        }
    }
    for (int c = 0; c < 2; c++) {
        m->nodes[c] = (double *)malloc((size_t)m->options.nodes * sizeof(double));
        full &= m->nodes[c] != NULL;
    }
    m->fastest = (double *)malloc(n_subjects * sizeof(double));
    if (!full || !m->fastest) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    ss_gauss_legendre(m->options.nodes, m->nodes[0], m->nodes[1]);
    for (size_t i = 0; i < n_subjects; i++) {
        m->fastest[i] = INFINITY;
        ss_set_add(&m->sets[SS_COUNTED], i, 0, 0, 0, 1);
    }
    for (size_t i = 0; i < m->data->n_trials; i++) ss_trial_add(m, &m->data->trials[i]);
    ss_set_describe(m, SS_GO_RIGHT, "go_correct", l->go, l->takes[0], l->n_go, 0);
    ss_set_describe(m, SS_GO_WRONG, "go_error", l->go, l->takes[0], l->n_go, 1);
    ss_set_describe(m, SS_FAILED_RIGHT, "failed_stop_correct", l->failed, l->takes[1], l->n_failed, 0);
    ss_set_describe(m, SS_FAILED_WRONG, "failed_stop_error", l->failed, l->takes[1], l->n_failed, 1);
    ss_set_describe(m, SS_STOPS, "stop", l->stop, l->takes[2], l->n_stop, 0);
    ss_set_describe(m, SS_COUNTED, "counts", m->options.kind == SS_WALD ? NULL : &ss_counts, counted, 1, 0);
    return 1;
}

/* ---- covariates ---------------------------------------------------------------------------------- */

/* The column in units of its standard deviation from its mean, into column j of n. */
static inline int ss_standardise(const double *from, size_t n_subjects, double *to, size_t j, size_t n)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n_subjects; i++) mean += from[i] / (double)n_subjects;
    for (size_t i = 0; i < n_subjects; i++) square += (from[i] - mean) * (from[i] - mean);
    if (!(square > 0)) return 0;
    for (size_t i = 0; i < n_subjects; i++)
        to[i * n + j] = (from[i] - mean) / sqrt(square / (double)(n_subjects - 1));
    return 1;
}

/* Reads "column:parameter" at text; returns its length, 0 with a text on error. */
static inline size_t ss_covariate_read(const ss_model *m, const char *text, size_t *column, ss_parameter *k,
                                       gpumc_error *error)
{
    const size_t length = strcspn(text, ","), name = strcspn(text, ":,");
    const size_t other = name < length ? length - name - 1 : 0;
    int found = -1;
    for (*column = 0; *column < m->data->n_covariates; ++*column)
        if (strlen(m->data->covariate_names[*column]) == name
            && strncmp(m->data->covariate_names[*column], text, name) == 0) break;
    for (int i = 0; i < m->kind->n; i++) {
        const char *candidate = ss_parameter_get(m->kind->parameters[i])->name;
        if (strlen(candidate) == other && strncmp(candidate, text + length - other, other) == 0) found = i;
    }
    if (*column < m->data->n_covariates && found >= 0) {
        *k = m->kind->parameters[found];
        return length;
    }
    ss_fail(error, GPUMC_ERROR_ARGUMENT, "covariate \"%.*s\": %s", (int)(length < 60 ? length : 60), text,
            name == length ? "write column:parameter"
            : found < 0 ? "the model has no such parameter" : "the data have no such column");
    return 0;
}

static inline int ss_model_covariates(ss_model *m, gpumc_error *error)
{
    size_t used[SS_N_PARAMETERS] = { 0 }, column = 0, length;
    ss_parameter k = SS_B;
    if (!m->options.covariates) return 1;
    for (int fill = 0; fill < 2; fill++) {
        for (const char *at = m->options.covariates; *at; at += length + (at[length] == ',')) {
            length = ss_covariate_read(m, at, &column, &k, error);
            if (length == 0) return 0;
            if (!fill) m->n_covariates[k]++;
            else if (!ss_standardise(m->data->covariates + column * m->data->n_subjects, m->data->n_subjects,
                                     m->covariates[k], used[k]++, m->n_covariates[k]))
                return ss_fail(error, GPUMC_ERROR_ARGUMENT, "covariate \"%.60s\" is the same for all subjects",
                               m->data->covariate_names[column]);
        }
        for (int i = 0; i < SS_N_PARAMETERS && !fill; i++) {
            if (m->n_covariates[i] == 0) continue;
            m->covariates[i] = (double *)malloc(m->n_covariates[i] * m->data->n_subjects * sizeof(double));
            if (!m->covariates[i]) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
        }
    }
    return 1;
}

/* ---- parameters ---------------------------------------------------------------------------------- */

/* The scale that a parameter shares with those of its group. */
static inline const char *ss_pooled_scale(ss_parameter k)
{
    switch (k) {
    case SS_V_PLUS: case SS_V_MINUS: case SS_V0: case SS_G: return "s_rates";
    case SS_MU: case SS_SIGMA: case SS_TAU: return "s_stop";
    case SS_PGF: case SS_PTF: return "s_failures";
    default: return "s_go";
    }
}

static inline gpumc_param *ss_param_add(ss_model *m, const char *name, gpumc_kind kind)
{
    gpumc_param *p = &m->params[m->description.n_params++];
    p->name = name;
    p->kind = kind;
    return p;
}
static inline void ss_prior_add(ss_model *m, const char *name, gpumc_prior_family *family, double a, double b)
{
    const gpumc_prior prior = { name, family, a, b, 0 };
    m->priors[m->description.n_priors++] = prior;
}

/* Location, scale and coefficients of one parameter; the first of those that share a scale adds it. */
static inline void ss_group_add(ss_model *m, ss_parameter k)
{
    const ss_parameter_info *info = ss_parameter_get(k);
    ss_names *names = &m->names[k];
    int known = 0;
    snprintf(names->location, sizeof names->location, "m_%s", info->name);
    snprintf(names->scale, sizeof names->scale, "s_%s", info->name);
    snprintf(names->coefficients, sizeof names->coefficients, "b_%s", info->name);
    snprintf(names->probit, sizeof names->probit, "probit_%s", info->name);
    if (m->options.pooled_scales) strcpy(names->scale, ss_pooled_scale(k));
    ss_param_add(m, names->location, GPUMC_UNBOUNDED);
    ss_prior_add(m, names->location, gpumc_prior_normal,
                 info->probit ? gpumc_inv_Phi(info->typical) : log(info->typical), info->prior_sd);
    for (size_t i = 0; i < m->description.n_params; i++) known |= !strcmp(m->params[i].name, names->scale);
    if (!known) {
        ss_param_add(m, names->scale, GPUMC_POSITIVE);
        ss_prior_add(m, names->scale, gpumc_prior_half_normal, 0.5, 0);
    }
    if (m->n_covariates[k] > 0) {
        ss_param_add(m, names->coefficients, GPUMC_UNBOUNDED)->size = m->n_covariates[k];
        ss_prior_add(m, names->coefficients, gpumc_prior_normal, 0, 0.5);
    }
}

/* The subjects' values. t0 starts below the fastest response. */
static inline void ss_subjects_add(ss_model *m, ss_parameter k)
{
    const ss_parameter_info *info = ss_parameter_get(k);
    const size_t n = m->data->n_subjects;
    gpumc_param *p = ss_param_add(m, info->name, info->probit ? GPUMC_UNIT : GPUMC_POSITIVE);
    p->size = n;
    p->location = m->names[k].location;
    p->scale = m->names[k].scale;
    p->centring = m->options.centring;
    if (m->n_covariates[k] > 0) {
        p->covariates = m->covariates[k];
        p->n_covariates = m->n_covariates[k];
        p->coefficients = m->names[k].coefficients;
    }
    if (k == SS_T0) {
        for (size_t i = 0; i < n; i++) m->init[i] = log(fmin(info->typical, 0.7 * m->fastest[i]));
        p->init = m->init;
    }
    if (info->probit) {
        gpumc_population *o = &m->populations[m->description.n_populations++];
        o->name = info->name;
        o->link = GPUMC_LINK_PROBIT;
    }
}

/* NULL with a text on error; data must stay. */
static inline ss_model *ss_model_create(const ss_data *data, const ss_model_options *options,
                                        gpumc_error *error)
{
    ss_model *m = (ss_model *)calloc(1, sizeof *m);
    gpumc_hier_data *d;
    if (!m) { ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory"); return NULL; }
    d = &m->description;
    m->data = data;
    m->options = *options;
    m->kind = ss_kind_get(options->kind);
    const int beests = options->kind == SS_BEESTS || options->kind == SS_BEESTS2;
    if (options->nodes <= 0) m->options.nodes = beests ? 64 : 48;
    m->options.truncation = options->truncation < 0 || (beests && !(options->truncation > 0)) ? SS_UNTRUNCATED
        : options->truncation > 0 ? options->truncation : SS_TRUNCATION;
    if (!ss_likelihood_get(options->kind)->go) {
        ss_fail(error, GPUMC_ERROR_ARGUMENT, "the model %s has no rows yet", m->kind->name);
        ss_model_free(m);
        return NULL;
    }
    m->init = (double *)malloc(data->n_subjects * sizeof(double));
    if (!m->init) ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    if (!m->init || !ss_model_covariates(m, error)) { ss_model_free(m); return NULL; }
    for (int k = 0; k < m->kind->n; k++) ss_group_add(m, m->kind->parameters[k]);
    if (!ss_model_rows(m, error)) { ss_model_free(m); return NULL; }
    for (int k = 0; k < m->kind->n; k++) ss_subjects_add(m, m->kind->parameters[k]);
    d->name = m->kind->name;
    d->params = m->params;
    d->priors = m->priors;
    d->populations = m->populations;
    d->rows = m->rows;
    d->threads = options->threads;
    d->team = options->team;
    d->isa = options->isa;
    m->hier = gpumc_hier_create(d, error);
    if (m->hier) return m;
    ss_model_free(m);
    return NULL;
}
static inline const gpumc_model *ss_model_get(const ss_model *m) { return gpumc_hier_model(m->hier); }

/* ---- results ------------------------------------------------------------------------------------- */

/* Mean time from the stop signal to the end of the stop process. */
static inline double ss_ssrt(double mu, double sigma, double tau, double truncation)
{
    const double u = (truncation - mu) / sigma;
    const ss_time first = ss_time_at(truncation, mu, sigma, tau);
    if (truncation <= SS_UNTRUNCATED) return mu + tau;
    return truncation + tau + sigma * gpumc_Phi(-u) * gpumc_mills_excess(u) / exp(ss_log_tail(first));
}

/* The parameters of one subject in a draw of the fit, those that the model lacks NAN. */
static inline void ss_subject_of(const ss_model *m, const gpumc_fit *fit, const double *draw, size_t subject,
                                 double *parameters)
{
    for (int k = 0; k < SS_N_PARAMETERS; k++) parameters[k] = NAN;
    for (int k = 0; k < m->kind->n; k++) {
        const ss_parameter which = m->kind->parameters[k];
        for (size_t b = 0; b < fit->n_blocks; b++)
            if (strcmp(fit->blocks[b].name, ss_parameter_get(which)->name) == 0)
                parameters[which] = draw[fit->blocks[b].offset + subject];
    }
}

#endif
