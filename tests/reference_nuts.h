/* A second NUTS, written the way the papers tell it: recursive, one function a notion, states copied freely.
   It takes the same random numbers as gpumc_nuts (the list at >>nuts of gpumc.h) and must agree with it bit
   for bit. What the two share is arithmetic that has tests of its own: the generator, exp and log, the
   metric's operators, the dot product. Each fault is a mistake that is easily made; a comparison that lets
   one pass is worth nothing. */
#ifndef REFERENCE_NUTS_H
#define REFERENCE_NUTS_H

#include "densities.h"

typedef enum reference_fault {
    FAULT_NONE, FAULT_NO_CROSS_CHECKS, FAULT_TURN_BEFORE_SELECTION, FAULT_UNBIASED_SELECTION,
    FAULT_FIRST_LEAF, FAULT_DIVERGENT_SUBTREE_KEPT, FAULT_TURNING_SUBTREE_KEPT, FAULT_DEPTH_LIMIT,
    FAULT_ONE_SIDED, FAULT_BLOCK_AHEAD, FAULT_BIASED_BLOCK, FAULT_END
} reference_fault;

typedef struct reference_point {
    double q[DENSITY_DIM], p[DENSITY_DIM], g[DENSITY_DIM], lp;
} reference_point;

/* First and last state of a stretch of trajectory, in the order in which it is integrated. */
typedef struct reference_span { reference_point begin, end; } reference_span;

typedef struct reference_chain {
    size_t dim;
    const gpumc_metric *metric;
    log_density density;
    double step_size;
    int max_treedepth;
    uint64_t seed;
    uint32_t chain, draw;
    reference_fault fault;
    reference_point current;
    /* of the transition under way */
    double H0, subtree_weight, candidate_energy, accept_sum, sym_sum;
    gpumc_rng uniforms;
    int direction, has_candidate, block;
    int32_t steps[2], candidate_index;
    reference_point candidate;
    gpumc_draw_stats stats;
} reference_chain;

static double reference_kinetic(const reference_chain *c, const reference_point *a)
{
    double v[DENSITY_DIM];
    gpumc__metric_velocity(c->metric, a->p, v);
    return 0.5 * gpumc__dot(a->p, v, c->dim);
}

static double reference_energy(const reference_chain *c, const reference_point *a)
{
    const double H = reference_kinetic(c, a) - a->lp;
    return isfinite(H) ? H : GPUMC_INF;
}

static void reference_momentum(const reference_chain *c, uint32_t stream, reference_point *a)
{
    gpumc_rng rng = gpumc_rng_at(c->seed, stream, c->draw, c->chain);
    gpumc_rng_normals(&rng, a->p, c->dim);
    gpumc__metric_momentum(c->metric, a->p);
}

static void reference_leapfrog(const reference_chain *c, const reference_point *from, double eps,
                               reference_point *to)
{
    const double half = 0.5 * eps;
    double v[DENSITY_DIM];
    for (size_t i = 0; i < c->dim; i++) to->p[i] = from->p[i] + half * from->g[i];
    gpumc__metric_velocity(c->metric, to->p, v);
    for (size_t i = 0; i < c->dim; i++) to->q[i] = from->q[i] + eps * v[i];
    to->lp = c->density(to->q, to->g, c->dim);
    for (size_t i = 0; i < c->dim; i++) to->p[i] += half * to->g[i];
}

static double reference_log_sum(double a, double b)
{
    const double high = fmax(a, b), low = fmin(a, b);
    return low == -GPUMC_INF ? high : high + gpumc_log1p(gpumc_exp(low - high));
}

/* From a to b, does the position move along the momenta at both? */
static int reference_moves_on(const reference_chain *c, const reference_point *a, const reference_point *b)
{
    double difference[DENSITY_DIM];
    for (size_t i = 0; i < c->dim; i++) difference[i] = b->q[i] - a->q[i];
    return c->direction * gpumc__dot(difference, a->p, c->dim) > 0
        && c->direction * gpumc__dot(difference, b->p, c->dim) > 0;
}

/* Adjacent spans of 2^level leaves each, or three quarters of that. */
static int reference_turns(const reference_chain *c, const reference_span *a, const reference_span *b,
                           int level)
{
    if (!reference_moves_on(c, &a->begin, &b->end)) return 1;
    if (level == 0 || c->fault == FAULT_NO_CROSS_CHECKS) return 0;
    return !reference_moves_on(c, &a->begin, &b->begin) || !reference_moves_on(c, &a->end, &b->end);
}

/* One more leaf beyond `from`; returns 0 when it diverges. */
static int reference_leaf(reference_chain *c, const reference_point *from, reference_span *span)
{
    const int side = c->direction > 0;
    double H, w;
    reference_leapfrog(c, from, c->direction * c->step_size, &span->begin);
    span->end = span->begin;
    H = reference_energy(c, &span->begin);
    w = c->H0 - H;
    c->stats.n_leapfrog++;
    c->steps[side]++;
    if (fabs(w) > fabs(c->stats.max_energy_error)) c->stats.max_energy_error = -w;
    if (-w > 1000) { c->stats.divergent = 1; return 0; }
    c->accept_sum += w > 0 ? 1 : gpumc_exp(-fabs(w));
    c->sym_sum += 2 * gpumc_exp(-fabs(w)) / (1 + gpumc_exp(-fabs(w)));
    c->subtree_weight = reference_log_sum(c->subtree_weight, w);
    if (c->has_candidate) {
        const double u = gpumc_rng_uniform(&c->uniforms);
        if (!(gpumc_log(u) < w - c->subtree_weight) || c->fault == FAULT_FIRST_LEAF)
            return 1;
    }
    c->candidate = span->begin;
    c->candidate_energy = H;
    c->candidate_index = c->direction * c->steps[side];
    c->has_candidate = 1;
    return 1;
}

/* A block of leaves beyond `from`; returns 0 when one diverges. */
static int reference_block(reference_chain *c, const reference_point *from, reference_span *span)
{
    reference_span next;
    if (!reference_leaf(c, from, span)) return 0;
    for (int i = 1; i < c->block; i++) {
        if (!reference_leaf(c, &span->end, &next)) return 0;
        span->end = next.end;
    }
    return 1;
}

/* 2^depth leaves beyond `from`, or three quarters of that in blocks of three; returns 0 when they diverge or
   turn among themselves. */
static int reference_subtree(reference_chain *c, int depth, const reference_point *from, reference_span *span)
{
    reference_span a, b;
    if (depth == (c->block == 3 ? 2 : 0)) return reference_block(c, from, span);
    if (!reference_subtree(c, depth - 1, from, &a) || !reference_subtree(c, depth - 1, &a.end, &b)) return 0;
    span->begin = a.begin;
    span->end = b.end;
    return !reference_turns(c, &a, &b, depth - 1) || c->fault == FAULT_TURNING_SUBTREE_KEPT;
}

static void reference_select(reference_chain *c)
{
    c->current = c->candidate;
    c->stats.energy = c->candidate_energy;
    c->stats.selected = c->candidate_index;
}

/* Doubles the tree once; returns 0 when that was the last time. ends: backward, forward. */
static int reference_double(reference_chain *c, reference_point *ends, double *log_weight)
{
    const int forward = gpumc_rng_uniform(&c->uniforms) > 0.5 || c->fault == FAULT_ONE_SIDED;
    double u;
    reference_span tree = { ends[!forward], ends[forward] }, subtree;
    int turns;
    c->direction = forward ? 1 : -1;
    c->subtree_weight = -GPUMC_INF;
    c->has_candidate = 0;
    if (!reference_subtree(c, c->stats.tree_depth, &tree.end, &subtree)) {
        if (c->fault == FAULT_DIVERGENT_SUBTREE_KEPT && c->stats.divergent && c->has_candidate
            && gpumc_log(gpumc_rng_uniform(&c->uniforms)) < c->subtree_weight - *log_weight)
            reference_select(c);
        return 0;
    }
    u = gpumc_rng_uniform(&c->uniforms);
    turns = reference_turns(c, &tree, &subtree, c->stats.tree_depth);
    if (c->fault == FAULT_UNBIASED_SELECTION) *log_weight = reference_log_sum(*log_weight, c->subtree_weight);
    if (gpumc_log(u) < c->subtree_weight - *log_weight && !(turns && c->fault == FAULT_TURN_BEFORE_SELECTION))
        reference_select(c);
    if (c->fault != FAULT_UNBIASED_SELECTION) *log_weight = reference_log_sum(*log_weight, c->subtree_weight);
    ends[forward] = subtree.end;
    c->stats.tree_depth++;
    if (turns) return 0;
    c->stats.hit_max_treedepth = c->stats.tree_depth == c->max_treedepth + (c->fault == FAULT_DEPTH_LIMIT);
    return !c->stats.hit_max_treedepth;
}

/* The block of three in which the draw lies anywhere; returns 0 when a leaf diverges. */
static int reference_base(reference_chain *c, reference_point *ends, double *log_weight)
{
    const int behind = c->fault == FAULT_BLOCK_AHEAD ? 0 : (int)(3 * gpumc_rng_uniform(&c->uniforms));
    c->candidate = c->current;
    c->candidate_energy = c->H0;
    c->candidate_index = 0;
    c->has_candidate = 1;
    c->subtree_weight = c->fault == FAULT_BIASED_BLOCK ? -GPUMC_INF : 0;
    for (int i = 0; i < 2; i++) {
        reference_span span;
        c->direction = i < behind ? -1 : 1;
        if (!reference_leaf(c, &ends[c->direction > 0], &span)) return 0;
        ends[c->direction > 0] = span.end;
    }
    reference_select(c);
    *log_weight = c->subtree_weight;
    c->stats.tree_depth = 2;
    return 1;
}

static void reference_transition(reference_chain *c)
{
    const double eps = c->step_size;
    reference_point ends[2];
    double log_weight = 0;
    memset(&c->stats, 0, sizeof c->stats);
    c->steps[0] = c->steps[1] = 0;
    c->accept_sum = c->sym_sum = 0;
    c->uniforms = gpumc_rng_at(c->seed, 2u << 24, c->draw, c->chain);
    reference_momentum(c, 1u << 24, &c->current);
    ends[0] = ends[1] = c->current;
    c->H0 = c->stats.energy = reference_energy(c, &c->current);
    c->block = c->max_treedepth > 3 && eps < 3.2 / 8 && eps >= 3.2 / 12 ? 3 : 1;
    if (c->block == 1 || reference_base(c, ends, &log_weight))
        while (reference_double(c, ends, &log_weight)) continue;
    c->stats.lp = c->current.lp;
    c->stats.energy_error = c->stats.energy - c->H0;
    c->stats.step_size = c->step_size;
    c->stats.accept_stat = c->accept_sum / c->stats.n_leapfrog;
    c->stats.accept_sym = c->sym_sum / c->stats.n_leapfrog;
    c->draw++;
}

/* The search for a first step size: doubled or halved, each time with a fresh momentum, until the acceptance
   of one step crosses 0.8. */
static void reference_search(reference_chain *c, double first)
{
    int direction = 0;
    c->step_size = first;
    for (uint32_t attempt = 1;; attempt++) {
        reference_point to;
        double w;
        int now;
        reference_momentum(c, 4u << 24 | attempt, &c->current);
        reference_leapfrog(c, &c->current, c->step_size, &to);
        w = reference_energy(c, &c->current) - reference_energy(c, &to);
        now = w > log(0.8) ? 1 : -1;
        if (direction == 0) direction = now;
        if (now != direction) return;
        c->step_size *= now > 0 ? 2 : 0.5;
    }
}

static void reference_start(reference_chain *c, const double *q)
{
    memcpy(c->current.q, q, c->dim * sizeof *q);
    c->current.lp = c->density(c->current.q, c->current.g, c->dim);
}
#endif
