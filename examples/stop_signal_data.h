/* stop_signal_data.h: trials of the stop-signal task, and the parameters that the models share.

   Times are in seconds, delays in whole milliseconds. C99; include after gpumc.h.
   Parts: the structures; models and their parameters; tables of text; the reader of trials. */
#ifndef STOP_SIGNAL_DATA_H
#define STOP_SIGNAL_DATA_H

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

enum { SS_NONE = -1 /* no response; no stop signal */ };

typedef struct ss_trial {
    int subject;              /* from 0 */
    int stimulus;             /* 0 or 1 */
    int response;             /* 0, 1 or SS_NONE; correct when it equals the stimulus */
    double rt;                /* seconds; NAN without a response */
    int ssd_ms;               /* SS_NONE: a go trial */
    int run;                  /* from 0; a staircase starts anew with each */
} ss_trial;

/* Trials are sorted by subject and keep the order of the file within one. */
typedef struct ss_data {
    size_t n_subjects, n_trials, n_covariates;
    ss_trial *trials;
    char **subject_names;     /* n_subjects */
    char **covariate_names;   /* n_covariates */
    double *covariates;       /* of covariate c and subject i: [c * n_subjects + i], as in the file */
} ss_data;

/* ---- models and their parameters ----------------------------------------------------------------- */

typedef enum ss_kind {
    SS_RDEX_ABCD,             /* 11 parameters: racing diffusions, context-independence violation */
    SS_RDEX,                  /* without the violation: no v0, no g */
    SS_RDEX_A,                /* RDEX with start-point variability */
    SS_BEESTS,                /* one ex-Gaussian go runner: no errors */
    SS_BEESTS2,               /* one ex-Gaussian an accumulator */
    SS_WALD,                  /* go responses only, the winner's density alone: the baseline */
    SS_N_KINDS
} ss_kind;

/* Every parameter has one number in all models; arrays of a subject's parameters have SS_N_PARAMETERS. */
typedef enum ss_parameter {
    SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF,
    SS_A, SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR,
    SS_N_PARAMETERS
} ss_parameter;

typedef struct ss_parameter_info {
    const char *name;
    double typical;           /* the generating group; the prior's median */
    double spread;            /* between subjects, on the unconstrained scale (log; probit where `probit`) */
    double prior_sd;          /* of the group's location */
    int probit;
} ss_parameter_info;

static inline const ss_parameter_info *ss_parameter_get(int k)
{
    static const ss_parameter_info table[SS_N_PARAMETERS] = {
        { "B", 1.25, 0.20, 0.5, 0 },        { "t0", 0.16, 0.30, 0.5, 0 },
        { "v_plus", 3.3, 0.18, 0.5, 0 },    { "v_minus", 0.5, 0.60, 1.0, 0 },
        { "v0", 2.1, 0.25, 0.6, 0 },        { "g", 5, 0.40, 1.0, 0 },
        { "mu", 0.16, 0.30, 0.5, 0 },       { "sigma", 0.05, 0.50, 0.8, 0 },
        { "tau", 0.07, 0.50, 0.8, 0 },      { "pgf", 0.03, 0.5, 1.0, 1 },
        { "ptf", 0.10, 0.5, 1.0, 1 },       { "A", 0.5, 0.30, 0.8, 0 },
        { "mu_go", 0.45, 0.20, 0.5, 0 },    { "sigma_go", 0.08, 0.30, 0.8, 0 },
        { "tau_go", 0.10, 0.40, 0.8, 0 },   { "mu_err", 0.65, 0.20, 0.5, 0 },
        { "sigma_err", 0.12, 0.30, 0.8, 0 }, { "tau_err", 0.15, 0.40, 0.8, 0 },
    };
    return &table[k];
}

typedef struct ss_kind_info {
    const char *name;
    int n;
    int parameters[12];       /* ss_parameter, in the order of the model's blocks */
} ss_kind_info;

static inline const ss_kind_info *ss_kind_get(ss_kind kind)
{
    static const ss_kind_info table[SS_N_KINDS] = {
        { "rdex_abcd", 11, { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_V0, SS_G, SS_MU, SS_SIGMA, SS_TAU,
                             SS_PGF, SS_PTF } },
        { "rdex", 9, { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } },
        { "rdex_a", 10, { SS_B, SS_A, SS_T0, SS_V_PLUS, SS_V_MINUS, SS_MU, SS_SIGMA, SS_TAU, SS_PGF,
                          SS_PTF } },
        { "beests", 8, { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU, SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } },
        { "beests2", 11, { SS_MU_GO, SS_SIGMA_GO, SS_TAU_GO, SS_MU_ERR, SS_SIGMA_ERR, SS_TAU_ERR, SS_MU,
                           SS_SIGMA, SS_TAU, SS_PGF, SS_PTF } },
        { "wald", 4, { SS_B, SS_T0, SS_V_PLUS, SS_V_MINUS } },
    };
    return &table[kind];
}
#endif
