/* stop_signal_model.h: the hierarchical stop-signal models, described to >>api-hier from trials and options.

   Parameters of subject i, each independent of the others (k is a name such as B or v_plus):
       form U       log k[i] ~ normal(m_k, s_k), for failure probabilities probit k[i]
                    m_k ~ normal(typical, prior_sd),  s_k ~ half-normal(0.5)
       form T       k[i] ~ normal(m_k, s_k) truncated at bounds, for failure probabilities probit k[i] without
                    m_k ~ a wide normal within the bounds,  s_k ~ exponential(1)
       legacy       the priors of an earlier program, for RDEX-ABCD alone
       beests       those of the program BEESTS (Matzke et al. 2013), for its models: truncated as in form T, m_k
                    and s_k uniform; failure probabilities, which it did not have, as in form T
   There is one s_k for each parameter (22 hyperparameters for RDEX-ABCD), or with pooled_scales one for each group
   of parameters: s_go, s_rates, s_stop, s_failures (15). Covariates are standardised to mean 0 and standard
   deviation 1 and add b_k times their value to m_k, b_k ~ normal(0, 0.5). The baseline has a hierarchy of its own.

   In form U, with centring learned, sigma and tau of the stop process are sampled as follows. Stop trials inform
   well about its spread w = log(sigma^2 + tau^2) / 2, and hardly about how sigma and tau share it. So the two
   are computed from z_sigma, z_tau ~ normal(0, 1), rotated by the angle at which the first moves w and the
   second does not,
       log sigma = m_sigma + s_sigma (cos a z_sigma - sin a z_tau),
       log tau   = m_tau   + s_tau   (sin a z_sigma + cos a z_tau),   tan a = tau^2 s_tau / (sigma^2 s_sigma)
   at the population's sigma and tau. Log sigma and log tau remain independent and normal, and the model is the
   same, but z_sigma stays where it is when the population moves along the ridge of equal w.

   Include after gpumc.h, stop_signal_data.h and stop_signal_rows.h. Read first: ss_model_create. */
#ifndef STOP_SIGNAL_MODEL_H
#define STOP_SIGNAL_MODEL_H

#define SS_TRUNCATION 0.05    /* seconds after the signal: the earliest end of a stop process */
#define SS_UNTRUNCATED -1e3   /* stands for minus infinity */

typedef enum ss_form { SS_FORM_U, SS_FORM_T, SS_FORM_LEGACY, SS_FORM_BEESTS } ss_form;
typedef struct ss_model_options {
    ss_kind kind;
    ss_form form;
    int pooled_scales;
    double truncation;        /* seconds; 0: SS_TRUNCATION, and none for BEESTS; negative: none */
    double deadline;          /* seconds: no response counts that comes later; 0: any does */
    int nodes;                /* of a stop's quadrature; 0: 48, and 64 for BEESTS */
    const char *covariates;   /* "age:B,age:v_plus": column and parameter; NULL: none */
    gpumc_centring centring;  /* of all subjects' parameters */
    gpumc_isa isa;
    int threads, team;        /* as in gpumc_hier_data */
    gpumc_place place;
} ss_model_options;

/* Defaults of sampling. Trajectories have a given length (MAMS), because a tree ends for all parameters at
   once: most would have made their U-turn before the population's sigma and tau, which trade off along a curved
   ridge, have moved. They are long for the same reason, and in large studies, where the ridge is narrow for its
   length, draws are thinned. */
static inline void ss_sampling(size_t n_subjects, gpumc_sample_options *o)
{
    const int many = n_subjects > 150 ? 3 : n_subjects > 25 ? 2 : 1;
    if (o->sampler == GPUMC_SAMPLER_AUTO) o->sampler = GPUMC_SAMPLER_MAMS;
    if (o->thin == 0) o->thin = o->sampler == GPUMC_SAMPLER_NUTS ? 1 : many;
    if (!(o->path_length > 0)) o->path_length = 4.5;
}

/* The width, in units of rates, over which the guide rounds kinks off. A wide one allows long steps, but takes
   the guide further from the likelihood, the more so the more subjects there are, so that more proposals are
   rejected. */
static inline double ss_guide_width(size_t n_subjects)
{
    return fmin(0.3, 0.15 * cbrt(100.0 / (double)n_subjects));
}

/* Nodes of a stop's quadrature in the guide: a third, rounded up to a multiple of GPUMC_LANES. */
static inline int ss_guide_nodes(int nodes)
{
    const int of = 3 * GPUMC_LANES;
    return (nodes + of - 1) / of * GPUMC_LANES;
}

/* The rows of a model and the parameters that they take, for correct responses. */
typedef struct ss_likelihood {
    const gpumc_row_kind *go, *failed, *stop;
    int n_go, n_failed, n_stop;
    int takes[3][12];
} ss_likelihood;
static inline const ss_likelihood *ss_likelihood_get(ss_kind kind)
{
    static const ss_likelihood table[SS_N_KINDS] = {
        { &ss_go, &ss_failed, &ss_stop, 4, 10, 11,
          { { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS },
            { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU, SS_PTF },
            { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } } },
        { &ss_go, &ss_rdex_failed, &ss_rdex_stop, 4, 8, 9,
          { { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS },
            { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PTF },
            { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } } },
        { &ss_range_go, &ss_range_failed, &ss_range_stop, 5, 9, 10,
          { { SS_B, SS_A, SS_T0, SS_V_PLUS, SS_V_MINUS },
            { SS_B, SS_A, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PTF },
            { SS_B, SS_A, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } } },
        { &ss_beests_go, &ss_beests_failed, &ss_beests_stop, 3, 7, 8,
          { { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU, SS_SIGMA, SS_TAU, SS_PTF },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } } },
        { &ss_beests2_go, &ss_beests2_failed, &ss_beests2_stop, 6, 10, 11,
          { { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR, SS_MU, SS_SIGMA,
              SS_TAU, SS_PTF },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR, SS_MU, SS_SIGMA,
              SS_TAU, SS_PGF, SS_PTF } } },
        { &ss_beests_go, &ss_beests_nofail_failed, &ss_beests_nofail_stop, 3, 6, 6,
          { { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU, SS_SIGMA, SS_TAU },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU, SS_SIGMA, SS_TAU } } },
        { &ss_beests2_go, &ss_beests2_nofail_failed, &ss_beests2_nofail_stop, 6, 9, 9,
          { { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR, SS_MU, SS_SIGMA,
              SS_TAU },
            { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR, SS_MU, SS_SIGMA,
              SS_TAU } } },
        { &ss_wald, NULL, NULL, 3, 0, 0, { { SS_B, SS_T0, SS_V_PLUS }, { SS_B }, { SS_B } } },
    };
    return &table[kind];
}
/* An error is a correct response with the accumulators exchanged. */
static inline int ss_exchanged(int k)
{
    static const int pairs[][2] = { { SS_V_PLUS, SS_V_MINUS }, { SS_MU_GO, SS_MU_ERR },
                                             { SS_SIGMA_GO, SS_SIGMA_ERR }, { SS_TAU_GO, SS_TAU_ERR } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int side = 0; side < 2; side++)
            if (pairs[i][side] == k) return pairs[i][1 - side];
    return k;
}

enum { SS_GO_RIGHT, SS_GO_WRONG, SS_FAILED_RIGHT, SS_FAILED_WRONG, SS_STOPS, SS_COUNTED, SS_N_SETS,
       SS_MAX_BLOCKS = 5 * SS_N_PARAMETERS };

/* The rows of one set, with memory for all trials. */
typedef struct ss_set {
    size_t n, *subject;
    double *columns[4], *weights;
    const double *given[4], *guide_columns[4];
    gpumc_rows_data guide;                /* the same, smoother and of fewer nodes */
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
    double start[SS_N_PARAMETERS][2];     /* of location and scale */
    double *init, *fastest;               /* of t0; the fastest response of each subject */
    double *nodes[2], *guide_nodes[2], *guide_widths;       /* quadrature; widths of the guide */
} ss_model;

static inline void ss_model_free(ss_model *m)
{
    if (!m) return;
    gpumc_hier_free(m->hier);
    for (int s = 0; s < SS_N_SETS; s++) {
        free(m->sets[s].subject);
        free(m->sets[s].weights);
        for (int c = 0; c < 4; c++) free(m->sets[s].columns[c]);
    }
    for (int k = 0; k < SS_N_PARAMETERS; k++) free(m->covariates[k]);
    for (int c = 0; c < 2; c++) {
        free(m->nodes[c]);
        free(m->guide_nodes[c]);
    }
    free(m->guide_widths);
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

/* The log likelihood, by ss_go, ss_failed or ss_stop, of one trial of a typical subject with the given rates,
   to be compared with known answers and simulations. For a response log(1 - pgf) is added, which models have in
   the row of counts. NAN when out of memory. */
static inline double ss_typical_trial(const gpumc_row_kind *kind, double won, double lost, double rt,
                                      double delay)
{
    enum { NODES = 48, N = 11 };
    const int stop = kind == &ss_stop;
    const double truncation = SS_TRUNCATION, none = SS_NO_DEADLINE, width = 0;
    const double *const columns[2][4] = { { &rt, &delay, &truncation, &width },
                                          { &delay, &truncation, &none, &width } };
    double nodes[NODES], weights[NODES], given[N], value = NAN, *unwanted[N] = { NULL };
    const double *p[N], *const node_columns[2] = { nodes, weights };
    gpumc_rows_data data = { .kind = kind, .n_rows = 1, .n_groups = 1, .columns = columns[stop] };
    gpumc_error error;
    ss_gauss_legendre(NODES, nodes, weights);
    if (stop) data.nodes = node_columns;
    data.n_nodes = stop ? NODES : 0;
    for (int k = 0; k < N; k++) {
        const ss_parameter_info *info = ss_parameter_get(k);
        given[k] = info->probit ? gpumc_inv_Phi(info->typical) : info->typical;
        p[k] = &given[!stop && k == SS_PGF ? SS_PTF : k];
    }
    given[SS_V_PLUS] = won;
    given[SS_V_MINUS] = lost;
    const size_t bytes = gpumc_rows_bytes(&data, &error);
    void *memory = malloc(bytes + 1);
    gpumc_rows *rows = memory ? gpumc_rows_init(&data, memory, bytes, &error) : NULL;
    double *work = rows ? (double *)malloc((gpumc_rows_work(rows) + 1) * sizeof(double)) : NULL;
    if (work) value = gpumc_rows_eval(rows, p, unwanted, work);
    free(work);
    free(memory);
    return stop ? value : value + log1p(-ss_parameter_get(SS_PGF)->typical);
}

static inline void ss_set_add(ss_set *s, size_t subject, double a, double b, double c, double weight)
{
    s->subject[s->n] = subject;
    s->columns[0][s->n] = a;
    s->columns[1][s->n] = b;
    s->columns[2][s->n] = c;
    s->weights[s->n++] = weight;
}

/* A trial without a response: adds 1 to the weight of the row of its subject and delay. */
static inline void ss_set_stop(ss_set *s, size_t subject, double delay, double truncation, double deadline)
{
    for (size_t i = s->n; i-- > 0 && s->subject[i] == subject;)
        if (!(s->columns[0][i] < delay || delay < s->columns[0][i])) { s->weights[i]++; return; }
    ss_set_add(s, subject, delay, truncation, deadline, 1);
}

static inline void ss_trial_add(ss_model *m, const ss_trial *t)
{
    const size_t i = (size_t)t->subject;
    const int right = t->response == t->stimulus || ss_ex_gaussians(m->options.kind) == 1;
    const int go = t->ssd_ms == SS_NONE, none = t->response == SS_NONE, timed = m->options.deadline > 0;
    const double delay = go ? SS_NO_SIGNAL : 1e-3 * t->ssd_ms, truncation = m->options.truncation;
    const double deadline = timed ? m->options.deadline : SS_NO_DEADLINE;
    ss_set *counted = &m->sets[SS_COUNTED];
    if (!go && m->options.kind == SS_WALD) return;
    if (!none) {
        counted->columns[1][i]++;
        if (t->rt < m->fastest[i]) m->fastest[i] = t->rt;
    }
    if (go && none && !timed) counted->columns[0][i]++;
    else if (none) ss_set_stop(&m->sets[SS_STOPS], i, delay, truncation, deadline);
    else if (go) ss_set_add(&m->sets[right ? SS_GO_RIGHT : SS_GO_WRONG], i, t->rt, 0, 0, 1);
    else ss_set_add(&m->sets[right ? SS_FAILED_RIGHT : SS_FAILED_WRONG], i, t->rt, delay, truncation, 1);
}

/* Describes the rows of a set, if it has any. */
static inline void ss_set_describe(ss_model *m, int which, const char *name, const gpumc_row_kind *kind,
                                   const int *takes, int n, int wrong)
{
    ss_set *s = &m->sets[which];
    gpumc_hier_rows *r = &m->rows[m->description.n_rows];
    if (s->n == 0 || !kind) return;
    m->description.n_rows++;
    for (int k = 0; k < n; k++) {
        const int from = wrong ? ss_exchanged(takes[k]) : takes[k];
        s->takes[k].name =
            ss_parameter_get(from)->probit ? m->names[from].probit : ss_parameter_get(from)->name;
        s->takes[k].index = s->subject;
    }
    for (size_t i = 0; i < s->n; i++) s->columns[3][i] = 0;
    for (int c = 0; c < 4; c++) s->given[c] = s->guide_columns[c] = s->columns[c];
    s->guide_columns[3] = m->guide_widths;
    r->name = name;
    r->takes = s->takes;
    r->n_takes = (size_t)n;
    r->data.kind = kind;
    r->data.n_rows = s->n;
    r->data.columns = s->given;
    r->data.isa = m->options.isa;
    if (which == SS_STOPS) {
        r->data.weights = s->weights;
        r->data.nodes = (const double *const *)m->nodes;
        r->data.n_nodes = (size_t)m->options.nodes;
    }
    if (kind->n_columns < 4 && which != SS_STOPS) return;       /* neither widths nor nodes: its own guide */
    r->guide = &s->guide;
    s->guide = r->data;
    s->guide.columns = s->guide_columns;
    if (which != SS_STOPS) return;
    s->guide.nodes = (const double *const *)m->guide_nodes;
    s->guide.n_nodes = (size_t)ss_guide_nodes(m->options.nodes);
}

static inline int ss_model_rows(ss_model *m, gpumc_error *error)
{
    static const int counted[] = { SS_PGF };
    const ss_likelihood *l = ss_likelihood_get(m->options.kind);
    const size_t n_subjects = m->data->n_subjects, n = n_subjects + m->data->n_trials;
    const int nodes = m->options.nodes, guide_nodes = ss_guide_nodes(nodes);
    int full = 1;
    for (int s = 0; s < SS_N_SETS; s++) {
        m->sets[s].subject = (size_t *)malloc(n * sizeof(size_t));
        m->sets[s].weights = (double *)malloc(n * sizeof(double));
        full &= m->sets[s].subject && m->sets[s].weights;
        for (int c = 0; c < 4; c++) {
            m->sets[s].columns[c] = (double *)malloc(n * sizeof(double));
            full &= m->sets[s].columns[c] != NULL;
        }
    }
    for (int c = 0; c < 2; c++) {
        m->nodes[c] = (double *)malloc((size_t)nodes * sizeof(double));
        m->guide_nodes[c] = (double *)malloc((size_t)guide_nodes * sizeof(double));
        full &= m->nodes[c] && m->guide_nodes[c];
    }
    m->fastest = (double *)malloc(n_subjects * sizeof(double));
    m->guide_widths = (double *)malloc(n * sizeof(double));
    if (!full || !m->fastest || !m->guide_widths) return ss_fail(error, GPUMC_ERROR_MEMORY, "out of memory");
    ss_gauss_legendre(nodes, m->nodes[0], m->nodes[1]);
    ss_gauss_legendre(guide_nodes, m->guide_nodes[0], m->guide_nodes[1]);
    for (size_t i = 0; i < n; i++) m->guide_widths[i] = ss_guide_width(n_subjects);
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
    if (ss_has(m->options.kind, SS_PGF)) ss_set_describe(m, SS_COUNTED, "counts", &ss_counts, counted, 1, 0);
    return 1;
}

/* ---- covariates ---------------------------------------------------------------------------------- */

/* Standardises a column to mean 0 and standard deviation 1, into column j of n. */
static inline int ss_standardise(const double *from, size_t n_subjects, double *to, size_t j, size_t n)
{
    double mean = 0, square = 0;
    size_t same = 1;
    while (same < n_subjects && !(from[same] < from[0] || from[same] > from[0])) same++;
    if (same >= n_subjects) return 0;
    for (size_t i = 0; i < n_subjects; i++) mean += from[i] / (double)n_subjects;
    for (size_t i = 0; i < n_subjects; i++) square += (from[i] - mean) * (from[i] - mean);
    for (size_t i = 0; i < n_subjects; i++)
        to[i * n + j] = (from[i] - mean) / sqrt(square / (double)(n_subjects - 1));
    return 1;
}

/* Reads "column:parameter" at text; returns its length, 0 with a text on error. */
static inline size_t ss_covariate_read(const ss_model *m, const char *text, size_t *column, int *k,
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
    int k = SS_B;
    if (!m->options.covariates) return 1;
    for (int fill = 0; fill < 2; fill++) {
        for (const char *at = m->options.covariates; *at; at += length + (at[length] == ',')) {
            length = ss_covariate_read(m, at, &column, &k, error);
            if (length == 0) return 0;
            if (!fill) m->n_covariates[k]++;
            else if (!ss_standardise(m->data->covariates + column * m->data->n_subjects, m->data->n_subjects,
                                     m->covariates[k], used[k]++, m->n_covariates[k]))
                return ss_fail(error, GPUMC_ERROR_ARGUMENT,
                               "covariate \"%.60s\" is the same for all subjects",
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
static inline const char *ss_pooled_scale(int k)
{
    switch (k) {
    case SS_V_PLUS: case SS_V_MINUS: case SS_V0: case SS_G: return "s_rates";
    case SS_MU: case SS_SIGMA: case SS_TAU: return "s_stop";
    case SS_PGF: case SS_PTF: return "s_failures";
    default: return "s_go";
    }
}

/* The support of a parameter's values, their population, and the priors of location and scale. */
typedef struct ss_law {
    gpumc_kind kind;
    double lower, upper;
    gpumc_hier_link link;
    gpumc_population_family *family;
    const gpumc_row_kind *density, *quantile;          /* instead of a family */
    const char *with;                     /* the other parameter that the quantile takes */
    int quantile_form, unscaled;
    gpumc_kind m_kind;
    double m_lower, m_upper;
    gpumc_prior_family *m_prior;
    double m_a, m_b;
    gpumc_prior_family *s_prior;
    double s_a, s_b;
    double start[2];                      /* of location and scale */
} ss_law;

static inline ss_law ss_law_u(int k)
{
    const ss_parameter_info *info = ss_parameter_get(k);
    ss_law law = { .kind = GPUMC_POSITIVE, .m_prior = gpumc_prior_normal, .m_b = info->prior_sd,
                   .s_prior = gpumc_prior_half_normal, .s_a = 0.5 };
    law.m_a = info->probit ? gpumc_inv_Phi(info->typical) : log(info->typical);
    law.start[0] = law.m_a;
    law.start[1] = 0.2;
    if (info->probit) {
        law.kind = GPUMC_UNIT;
        law.link = GPUMC_LINK_PROBIT;
    }
    return law;
}

/* A normal population truncated to (lower, upper). */
static inline void ss_law_cut(ss_law *law, double lower, double upper)
{
    law->kind = law->m_kind = upper < INFINITY ? GPUMC_INTERVAL : GPUMC_LOWER;
    law->lower = law->m_lower = lower;
    law->upper = law->m_upper = upper;
    law->link = GPUMC_LINK_IDENTITY;
    law->family = gpumc_population_truncated_normal;
}

static inline ss_law ss_law_t(int k)
{
    static const double m[SS_N_PARAMETERS][2] = {
        { 1, 1 }, { 0.3, 0.5 }, { 2, 2 }, { 1, 2 }, { 2, 2 }, { 3, 4 }, { 0.3, 0.5 }, { 0.1, 0.5 },
        { 0.1, 0.5 }, { -2, 2 }, { -2, 2 }, { 0.5, 1 }, { 0.5, 0.5 }, { 0.1, 0.5 }, { 0.1, 0.5 },
        { 0.5, 0.5 }, { 0.1, 0.5 }, { 0.1, 0.5 },
    };
    const ss_parameter_info *info = ss_parameter_get(k);
    const int unlimited = k == SS_B || k == SS_A || (k >= SS_V_PLUS && k <= SS_G);
    ss_law law = ss_law_u(k);
    law.m_a = m[k][0];
    law.m_b = m[k][1];
    law.s_prior = gpumc_prior_exponential;
    law.s_a = 1;
    if (info->probit) return law;
    ss_law_cut(&law, k == SS_T0 ? 0.02 : 0, unlimited ? INFINITY : 1);
    law.quantile_form = 1;
    law.start[0] = info->typical;
    law.start[1] = 0.2 * info->typical;
    return law;
}

/* The priors of BEESTS, its milliseconds in seconds. The process of errors has the bounds of the go process. */
static inline ss_law ss_law_beests(int k)
{
    const int go = k >= SS_MU_GO, mean = k == SS_MU || k == SS_MU_GO || k == SS_MU_ERR;
    const double lower = mean ? 1e-6 : 1e-3, upper = go ? (mean ? 1 : 0.5) : mean ? 0.6 : 0.35;
    ss_law law = ss_law_t(k);
    if (ss_parameter_get(k)->probit) return law;
    ss_law_cut(&law, lower, upper);
    law.m_prior = law.s_prior = gpumc_prior_uniform;
    law.m_a = lower;
    law.m_b = upper;
    law.s_a = 1e-5;
    law.s_b = mean ? 0.3 : 0.2;
    return law;
}

static inline ss_law ss_law_baseline(int k)
{
    ss_law law = ss_law_u(k);
    if (k == SS_B) {
        law.m_a = 0;
        law.m_b = 1;
    } else if (k == SS_T0) {
        ss_law_cut(&law, 0, 0.5);
        law.quantile_form = 1;
        law.m_kind = GPUMC_UNIT;
        law.m_lower = law.m_upper = 0;
        law.m_prior = gpumc_prior_beta;
        law.m_a = 3;
        law.m_b = 17;
        law.s_a = 0.1;
        law.start[0] = 0.15;
        law.start[1] = 0.05;
    } else {
        law.kind = GPUMC_UNBOUNDED;
        law.m_a = k == SS_V_PLUS ? 2 : 1;
        law.m_b = 1;
        law.start[0] = law.m_a;
    }
    return law;
}

GPUMC_ROW(ss_legacy_threshold, 3, 0, 2)
{
    gpumc_real by = 0;
    const gpumc_real lp = gpumc_lognormal_lpdf(p[0], gpumc_log(p[1]), p[2], &g[0], &by, &g[2]);
    g[1] += by / p[1];
    return lp;
}
GPUMC_ROW(ss_legacy_growth, 3, 0, 2)
{
    gpumc_real by = 0;
    const gpumc_real lp = gpumc_gamma_lpdf(p[0], 4, GPUMC_R(1.5) / p[1], &g[0], NULL, &by);
    g[1] -= by * GPUMC_R(1.5) / (p[1] * p[1]);
    return lp;
}
GPUMC_ROW(ss_legacy_spread, 3, 0, 2)
{
    gpumc_real by = 0;
    const gpumc_real lp = gpumc_half_normal_lpdf(p[0], p[1] + p[2], &g[0], &by);
    g[1] += by;
    g[2] += by;
    return lp;
}
static inline ss_law ss_law_legacy(int k)
{
    static const double bounds[][2] = { { 0, 0 }, { 0.05, 0.5 }, { 1, INFINITY }, { 0.3, INFINITY },
                                        { 1.5, INFINITY }, { 0, 0 }, { 0.05, 0.5 } };
    static const double m[][2] = { { -0.2, 0.3 }, { 3, 17 }, { 3, 0.5 }, { 0.8, 0.3 }, { 2.2, 0.4 },
                                   { 4, 1.5 }, { 0.25, 0.1 }, { 0.1, 0 }, { 0.1, 0 }, { -2, 1 }, { -2, 1 } };
    static const double s[] = { 0.5, 0.05, 0.5, 0.5, 0.5, 1, 0.05, 0.05, 0.05, 0.5, 0.5 };
    ss_law law = ss_law_u(k);
    law.m_a = m[k][0];
    law.m_b = m[k][1];
    law.s_a = s[k];
    if (ss_parameter_get(k)->probit) return law;
    law.link = GPUMC_LINK_IDENTITY;
    law.start[0] = ss_parameter_get(k)->typical;
    law.start[1] = 0.1 * law.start[0];
    if (k <= SS_MU && bounds[k][0] > 0) ss_law_cut(&law, bounds[k][0], bounds[k][1]);
    else {
        law.m_kind = GPUMC_POSITIVE;
        law.density = k == SS_B ? &ss_legacy_threshold : k == SS_G ? &ss_legacy_growth : &ss_legacy_spread;
        law.unscaled = k == SS_G;
    }
    if (k == SS_B) law.m_prior = gpumc_prior_lognormal;
    if (k == SS_T0) {
        law.m_prior = gpumc_prior_beta;
        law.m_kind = GPUMC_UNIT;
        law.m_lower = law.m_upper = 0;
    }
    if (k == SS_G) law.m_prior = gpumc_prior_gamma;
    if (k == SS_MU) law.m_lower = 0;
    if (k == SS_SIGMA || k == SS_TAU) law.m_prior = gpumc_prior_half_normal;
    return law;
}

/* The rotated z that multiplies s_sigma (which = 0) or s_tau (1) in the formulas of the head. p: z, location
   and scale of sigma, then of tau; adds the derivatives to g. */
GPUMC_FN gpumc_real ss_turned(const gpumc_real *p, int which, gpumc_real *g)
{
    const gpumc_real log_tan = 2 * (p[4] - p[1]) + gpumc_log(p[5]) - gpumc_log(p[2]);
    const gpumc_real c = gpumc_sqrt(gpumc_inv_logit(-2 * log_tan));
    const gpumc_real s = gpumc_sqrt(gpumc_inv_logit(2 * log_tan));
    const gpumc_real own = c * p[0] - s * p[3], other = s * p[0] + c * p[3];
    const gpumc_real turn = c * s * (which ? own : -other);                   /* derivative by log_tan */
    g[0] += which ? s : c;
    g[1] -= 2 * turn;
    g[2] -= turn / p[2];
    g[3] += which ? c : -s;
    g[4] += 2 * turn;
    g[5] += turn / p[5];
    return which ? other : own;
}
GPUMC_FN gpumc_real ss_held(gpumc_real value, const gpumc_real *bounds)
{
    const gpumc_real above = ss_max(bounds[0], value);
    return above < bounds[1] ? above : bounds[1];
}
GPUMC_ROW(ss_sigma_of_pair, 6, 0, 2)
{
    gpumc_real by[6] = { 0, 0, 0, 0, 0, 0 };
    const gpumc_real z = ss_turned(p, 0, by), sigma = ss_held(gpumc_exp(p[1] + p[2] * z), x);
    GPUMC__FLAT for (int k = 0; k < 6; k++) g[k] = sigma * p[2] * by[k];
    g[1] += sigma;
    g[2] += sigma * z;
    return sigma;
}
/* p: of tau, then of sigma. */
GPUMC_ROW(ss_tau_of_pair, 6, 0, 2)
{
    const gpumc_real q[6] = { p[3], p[4], p[5], p[0], p[1], p[2] };
    gpumc_real by[6] = { 0, 0, 0, 0, 0, 0 };
    const gpumc_real z = ss_turned(q, 1, by), tau = ss_held(gpumc_exp(p[1] + p[2] * z), x);
    GPUMC__FLAT for (int k = 0; k < 6; k++) g[k] = tau * p[2] * by[(k + 3) % 6];
    g[1] += tau;
    g[2] += tau * z;
    return tau;
}

static inline ss_law ss_law_of(const ss_model *m, int k)
{
    ss_law law = m->options.kind == SS_WALD ? ss_law_baseline(k)
        : m->options.form == SS_FORM_T ? ss_law_t(k)
        : m->options.form == SS_FORM_BEESTS ? ss_law_beests(k)
        : m->options.form == SS_FORM_LEGACY ? ss_law_legacy(k) : ss_law_u(k);
    if (m->options.form != SS_FORM_U || m->options.centring != GPUMC_CENTRING_LEARNED) return law;
    if (k != SS_SIGMA && k != SS_TAU) return law;
    law.quantile = k == SS_TAU ? &ss_tau_of_pair : &ss_sigma_of_pair;
    law.with = ss_parameter_get(k == SS_TAU ? SS_SIGMA : SS_TAU)->name;
    law.quantile_form = 1;
    return law;
}

static inline gpumc_param *ss_param_add(ss_model *m, const char *name, gpumc_kind kind, double lower,
                                        double upper)
{
    gpumc_param *p = &m->params[m->description.n_params++];
    p->name = name;
    p->kind = kind;
    p->lower = lower;
    p->upper = upper;
    return p;
}
static inline void ss_prior_add(ss_model *m, const char *name, gpumc_prior_family *family, double a, double b)
{
    const gpumc_prior prior = { name, family, a, b, 0 };
    m->priors[m->description.n_priors++] = prior;
}

/* Adds location, scale and coefficients of one parameter; a shared scale is added by the first that has it. */
static inline void ss_group_add(ss_model *m, int k)
{
    const char *name = ss_parameter_get(k)->name;
    const ss_law law = ss_law_of(m, k);
    ss_names *names = &m->names[k];
    int known = law.unscaled;
    snprintf(names->location, sizeof names->location, "m_%s", name);
    snprintf(names->scale, sizeof names->scale, "s_%s", name);
    snprintf(names->coefficients, sizeof names->coefficients, "b_%s", name);
    snprintf(names->probit, sizeof names->probit, "probit_%s", name);
    if (m->options.pooled_scales) strcpy(names->scale, ss_pooled_scale(k));
    memcpy(m->start[k], law.start, sizeof law.start);
    ss_param_add(m, names->location, law.m_kind, law.m_lower, law.m_upper)->init = &m->start[k][0];
    ss_prior_add(m, names->location, law.m_prior, law.m_a, law.m_b);
    for (int i = 0; i < k && m->options.pooled_scales; i++) {
        if (strcmp(m->names[i].scale, names->scale) != 0) continue;
        known = 1;
        m->start[k][1] = m->start[i][1];
    }
    if (!known) {
        gpumc_param *scale = law.s_prior == gpumc_prior_uniform
            ? ss_param_add(m, names->scale, GPUMC_INTERVAL, law.s_a, law.s_b)
            : ss_param_add(m, names->scale, GPUMC_POSITIVE, 0, 0);
        scale->init = &m->start[k][1];
        ss_prior_add(m, names->scale, law.s_prior, law.s_a, law.s_b);
    }
    if (m->n_covariates[k] > 0) {
        ss_param_add(m, names->coefficients, GPUMC_UNBOUNDED, 0, 0)->size = m->n_covariates[k];
        ss_prior_add(m, names->coefficients, gpumc_prior_normal, 0, 0.5);
    }
}

/* The sampled value for a start value: itself, its logarithm, or z of the quantile form. */
static inline double ss_start_at(const ss_law *law, const double *start, double value)
{
    const double low = gpumc_Phi((law->lower - start[0]) / start[1]);
    const double high = gpumc_Phi((law->upper - start[0]) / start[1]);
    if (law->link == GPUMC_LINK_BY_KIND) return log(value);
    if (!law->quantile_form) return value;
    return gpumc_inv_Phi((gpumc_Phi((value - start[0]) / start[1]) - low) / (high - low));
}

/* Adds the block of the subjects' values. t0 starts below the fastest response. */
static inline void ss_subjects_add(ss_model *m, int k)
{
    const ss_law law = ss_law_of(m, k);
    const size_t n = m->data->n_subjects;
    gpumc_param *p = ss_param_add(m, ss_parameter_get(k)->name, law.kind, law.lower, law.upper);
    p->size = n;
    p->location = m->names[k].location;
    p->scale = law.unscaled ? NULL : m->names[k].scale;
    p->centring = law.link == GPUMC_LINK_IDENTITY ? GPUMC_CENTRING_LEARNED : m->options.centring;
    if (m->n_covariates[k] > 0) {
        p->covariates = m->covariates[k];
        p->n_covariates = m->n_covariates[k];
        p->coefficients = m->names[k].coefficients;
    }
    if (k == SS_T0) {
        for (size_t i = 0; i < n; i++)
            m->init[i] =
                ss_start_at(&law, m->start[k], fmin(ss_parameter_get(k)->typical, 0.7 * m->fastest[i]));
        p->init = m->init;
    }
    if (law.link != GPUMC_LINK_BY_KIND || law.quantile) {
        gpumc_population *o = &m->populations[m->description.n_populations++];
        o->name = p->name;
        o->link = law.link;
        o->family = law.family;
        o->density = law.density;
        o->quantile_form = law.quantile_form;
        o->quantile = law.quantile;
        o->with = law.with;
    }
}

/* Refuses data to which the likelihood would give probability 0, and options that do not go together. */
static inline int ss_model_refuse(const ss_data *d, const ss_model_options *o, gpumc_error *error)
{
    const char *name = ss_kind_get(o->kind)->name;
    size_t omissions = 0, late = 0;
    for (size_t i = 0; i < d->n_trials; i++) {
        omissions += d->trials[i].response == SS_NONE && d->trials[i].ssd_ms == SS_NONE;
        late += d->trials[i].rt > o->deadline;
    }
    if (o->form == SS_FORM_LEGACY && o->kind != SS_RDEX_ABCD)
        return ss_fail(error, GPUMC_ERROR_ARGUMENT, "the legacy priors are for rdex_abcd, not for %s", name);
    if (o->form == SS_FORM_T && o->kind == SS_WALD)
        return ss_fail(error, GPUMC_ERROR_ARGUMENT, "the priors of form t are not for %s, which has its own", name);
    if (o->form == SS_FORM_BEESTS && ss_ex_gaussians(o->kind) == 0)
        return ss_fail(error, GPUMC_ERROR_ARGUMENT, "the priors of BEESTS are for beests, not for %s", name);
    if (o->deadline != 0 && (o->kind == SS_WALD || !(o->deadline > 0 && o->deadline < SS_NO_DEADLINE)))
        return ss_fail(error, GPUMC_ERROR_ARGUMENT, "%s with a deadline of %g s cannot be", name,
                       o->deadline);
    if (o->deadline > 0 && late > 0)
        return ss_fail(error, GPUMC_ERROR_ARGUMENT, "%.0f responses come after the deadline of %g s",
                       (double)late, o->deadline);
    if (o->deadline > 0 || omissions == 0 || o->kind == SS_WALD || ss_has(o->kind, SS_PGF)) return 1;
    return ss_fail(error, GPUMC_ERROR_ARGUMENT, "%s has no go failures, but %.0f go trials are without a "
                   "response: give a deadline, leave them out, or take the model with failures", name,
                   (double)omissions);
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
    const int beests = ss_ex_gaussians(options->kind) > 0;
    if (options->nodes <= 0) m->options.nodes = beests ? 64 : 48;
    m->options.truncation = options->truncation < 0 || (beests && !(options->truncation > 0)) ? SS_UNTRUNCATED
        : options->truncation > 0 ? options->truncation : SS_TRUNCATION;
    if (!ss_model_refuse(data, options, error)) { ss_model_free(m); return NULL; }
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
    d->place = options->place;
    m->hier = gpumc_hier_create(d, error);
    if (m->hier) return m;
    ss_model_free(m);
    return NULL;
}
static inline const gpumc_model *ss_model_get(const ss_model *m) { return gpumc_hier_model(m->hier); }

#endif
