/* stop_signal_rows.h: likelihoods of the stop-signal models, one trial or cell a row, with all derivatives.

   Evidence with unit noise, rate v and threshold B reaches it at a Wald time; two such accumulators race, one
   matching the stimulus (v_plus), one not (v_minus), and a stop process whose finishing time is ex-Gaussian
   (mu, sigma, tau), counted from the stop signal and truncated below, races against both. On stop trials of
   the ABCD task the signal replaces the stimulus after a delay, so the rates begin at v0 and grow towards
   those of go trials at speed g (Weigard et al. 2023). Probabilities of go failure and trigger failure come
   as probits y_gf and y_tf. Times in seconds, all other parameters on their natural scale.

       row              parameters p                                             columns x
       ss_go            B t0 v_won v_lost                                        rt
       ss_failed        B t0 v_won v_lost v0 g mu sigma tau y_tf                 rt delay truncation
       ss_stop          B t0 v_plus v_minus v0 g mu sigma tau y_gf y_tf          delay truncation; nodes
       ss_counts        y_gf                                                     omissions responses

   Winner and loser enter a likelihood alike but for their parts, so correct responses and errors are the same
   row with the rates exchanged. What go failures add is in ss_counts, but for successful stops. ss_stop is
   one row for all stops of a subject at one delay, their number its weight; its nodes are Gauss-Legendre
   abscissae and weights on (-1, 1), 48 of them for errors below 1e-8.

   Plain C for gcc, clang and nvcc; include after gpumc.h. The inner leaves of gpumc.h (gpumc__) that it uses
   take positive arguments only. Read first: ss_race. */
#ifndef STOP_SIGNAL_ROWS_H
#define STOP_SIGNAL_ROWS_H

#define SS_INV_ROOT_2PI GPUMC_R(0.39894228040143267794)     /* phi(0) */

/* exp(-x^2/2), and the larger of two; NaN comes through. */
GPUMC_FN gpumc_real ss_bell(gpumc_real x) { return gpumc__exp_fall(GPUMC_R(-0.5) * x * x); }
GPUMC_FN gpumc_real ss_max(gpumc_real a, gpumc_real b) { return a < b ? b : a; }

/* ---- go: racing diffusions ----------------------------------------------------------------------- */

/* log f(t; v) S(t; w): accumulator v reaches the threshold at t, w has not yet. With z = (b - w t) / sqrt t
   and y = (b + w t) / sqrt t, S = Phi(z) - exp(2 b w) Phi(-y) = Phi(z) - phi(z) M(y), M the Mills ratio, and
   beyond the mean S / phi(z) = M(-z) - M(y). Adds the derivatives by b, v, w, t to g. */
GPUMC_FN gpumc_real ss_race(gpumc_real b, gpumc_real v, gpumc_real w, gpumc_real t, gpumc_real *g)
{
    const gpumc_real root = gpumc__rsqrt_normal(t), inv = root * root, d = b - v * t, slope = d * inv;
    const gpumc_real z = (b - w * t) * root, far = gpumc__mills((b + w * t) * root);
    const gpumc_real near = gpumc__mills(gpumc_fabs(z)), phi = ss_bell(z) * SS_INV_ROOT_2PI;
    const gpumc_real rest = z < 0 ? near - far : 1 - phi * (near + far);
    const gpumc_real share = 2 * (z < 0 ? 1 : phi) / rest;          /* 2 phi(z) / S */
    const gpumc_real scale = b * root * inv;
    g[0] += 1 / b - slope + share * (root - w * far);
    g[1] += d;
    g[2] -= b * far * share;
    g[3] += slope * (v + GPUMC_R(0.5) * slope) - GPUMC_R(1.5) * inv - GPUMC_R(0.5) * scale * share;
    return gpumc__log_normal(scale * rest) - GPUMC_R(0.5) * d * slope
         - (z < 0 ? GPUMC_R(0.5) * z * z + GPUMC_R(GPUMC_LOG_2PI) : GPUMC_R(GPUMC_LOG_SQRT_2PI));
}
/* No response comes before t0: the proposal is rejected. */
GPUMC_FN gpumc_real ss_if_after(gpumc_real t, gpumc_real value) { return 0 < t ? value : -GPUMC_INF; }

GPUMC_ROW(ss_go, 4, 0, 1)
{
    const gpumc_real t = x[0] - p[1];
    gpumc_real race[4] = { 0, 0, 0, 0 };
    const gpumc_real value = ss_race(p[0], p[2], p[3], t, race);
    g[0] += race[0];
    g[1] -= race[3];
    g[2] += race[1];
    g[3] += race[2];
    return ss_if_after(t, value);
}

GPUMC_ROW(ss_counts, 1, 0, 2)
{
    const gpumc_real none = 1 / gpumc_mills(-p[0]), some = 1 / gpumc_mills(p[0]);
    g[0] += x[0] * none - x[1] * some;
    return x[0] * gpumc_log_Phi(p[0]) + x[1] * gpumc_log_Phi(-p[0]);
}

/* ---- stop: ex-Gaussian finishing times ----------------------------------------------------------- */

/* tau q = base density and Q = base tail, q the density and Q the survivor at x. With u = (x - mu) / sigma,
   a = sigma / tau and w = a - u,
       tau q = phi(u) M(w) = exp(a (a/2 - u)) Phi(-w),    Q = Phi(-u) + tau q;
   the first form serves w >= 0 and with it tau -> 0, the second w < 0 and with it sigma -> 0. Everything
   that is differentiated needs only the excess D = 1 / M(w) - w:
       d log q = (D - u, u - D, u^2 - D (a + u)) / sigma by x, mu, sigma, (a D - 1) / tau by tau
       dQ = q (-1, 1, u - D, a D). */
typedef struct ss_time { gpumc_real log_base, density, tail, u, a, excess; } ss_time;

GPUMC_FN ss_time ss_time_at(gpumc_real x, gpumc_real mu, gpumc_real sigma, gpumc_real tau)
{
    const gpumc_real u = (x - mu) / sigma, a = sigma / tau, w = a - u, size = gpumc_fabs(w);
    const gpumc_real excess = gpumc__mills_excess(size), far = 1 / (size + excess);
    const gpumc_real near = gpumc__mills(gpumc_fabs(u)), phi_u = ss_bell(u) * SS_INV_ROOT_2PI;
    const gpumc_real phi_w = ss_bell(w) * SS_INV_ROOT_2PI, most = 1 - phi_w * far;       /* Phi(|w|) */
    const gpumc_real below = u < 0 ? 0 : GPUMC_R(-0.5) * u * u - GPUMC_R(GPUMC_LOG_SQRT_2PI);
    const gpumc_real density = u < 0 ? phi_u * far : far, tail = u < 0 ? 1 - phi_u * (near - far) : near + far;
    const ss_time at = { w < 0 ? a * (GPUMC_R(0.5) * a - u) : below, w < 0 ? most : density,
                         w < 0 ? most + phi_w * near : tail, u, a, w < 0 ? size + phi_w / most : excess };
    return at;
}
GPUMC_FN gpumc_real ss_log_tail(ss_time at) { return at.log_base + gpumc__log_normal(at.tail); }
/* Adds weight times the derivatives of log Q by mu, sigma, tau to g. */
GPUMC_FN void ss_push_log_tail(ss_time at, gpumc_real tau, gpumc_real weight, gpumc_real *g)
{
    const gpumc_real hazard = weight * at.density / (at.tail * tau);
    g[0] += hazard;
    g[1] += hazard * (at.u - at.excess);
    g[2] += hazard * at.a * at.excess;
}

/* log of ptf + (1 - ptf) Q(x), x the time since the signal: no stop process, or one that has not finished.
   p, g: mu sigma tau y_tf. */
GPUMC_FN gpumc_real ss_not_stopped(const gpumc_real *p, gpumc_real x, gpumc_real truncation, gpumc_real *g)
{
    const ss_time at = ss_time_at(x, p[0], p[1], p[2]), first = ss_time_at(truncation, p[0], p[1], p[2]);
    const int begun = truncation < x;
    const gpumc_real log_Q = begun ? ss_log_tail(at) - ss_log_tail(first) : 0;
    const gpumc_real late = gpumc_log_Phi(-p[3]) + log_Q, failed = gpumc_log_Phi(p[3]);
    const gpumc_real value = gpumc_log_sum_exp(failed, late), share = gpumc_exp(late - value);
    const gpumc_real weight = begun ? share : 0;
    ss_push_log_tail(at, p[2], weight, g);
    ss_push_log_tail(first, p[2], -weight, g);
    g[3] += (1 - share) / gpumc_mills(-p[3]) - share / gpumc_mills(p[3]);
    return value;
}

/* ---- the rates of stop trials -------------------------------------------------------------------- */

/* v0 + clamp(v - v0, -reach, reach), reach = g delay. */
GPUMC_FN gpumc_real ss_rate(gpumc_real v, gpumc_real v0, gpumc_real reach)
{
    const gpumc_real above = v0 + reach < v ? v0 + reach : v;
    return above < v0 - reach ? v0 - reach : above;
}
/* Hands the derivative by that rate on to those by v, v0 and g: the rate has arrived, or grows still. */
GPUMC_FN void ss_push_rate(gpumc_real v, const gpumc_real *p, gpumc_real delay, gpumc_real slope,
                           gpumc_real *by_v, gpumc_real *by_v0_g)
{
    const int arrived = gpumc_fabs(v - p[0]) <= p[1] * delay;
    const gpumc_real moving = arrived ? 0 : slope;
    *by_v += arrived ? slope : 0;
    by_v0_g[0] += moving;
    by_v0_g[1] += p[0] < v ? moving * delay : -moving * delay;
}

GPUMC_ROW(ss_failed, 10, 0, 3)
{
    const gpumc_real t = x[0] - p[1], reach = p[5] * x[1];
    const gpumc_real won = ss_rate(p[2], p[4], reach), lost = ss_rate(p[3], p[4], reach);
    gpumc_real race[4] = { 0, 0, 0, 0 };
    const gpumc_real value = ss_race(p[0], won, lost, t, race) + ss_not_stopped(p + 6, x[0] - x[1], x[2], g + 6);
    g[0] += race[0];
    g[1] -= race[3];
    ss_push_rate(p[2], p + 4, x[1], race[1], &g[2], &g[4]);
    ss_push_rate(p[3], p + 4, x[1], race[2], &g[3], &g[4]);
    return ss_if_after(t, value);
}

/* ---- successful stops ---------------------------------------------------------------------------- */

/* P = int q(s) S+(s + delay - t0) S-(s + delay - t0) ds: below s_on, where no accumulator can have arrived
   (each S < 1 by less than 1e-13), by the distribution function of q, above it by quadrature in y, s = mu +
   sigma (1 + sinh(k y) / k), whose step is about sigma near the Gaussian part and grows with the distance.
   The limits are constants to the derivatives: what they contribute cancels, or is below 1e-12. */
#define SS_GROWTH GPUMC_R(0.7)                              /* k */

GPUMC_FN gpumc_real ss_asinh(gpumc_real x)
{
    const gpumc_real size = gpumc_fabs(x), y = gpumc__log_normal(size + gpumc_sqrt(size * size + 1));
    return x < 0 ? -y : y;
}
typedef struct ss_limits { gpumc_real middle, half; } ss_limits;      /* in k y */
/* From lo, in seconds, on; the tail above is less than 3e-11 of P. */
GPUMC_FN ss_limits ss_limits_from(gpumc_real lo, gpumc_real mu, gpumc_real sigma, gpumc_real tau)
{
    const gpumc_real hi = ss_max(lo, mu) + 8 * sigma + 25 * tau, unit = SS_GROWTH / sigma;
    const gpumc_real a = ss_asinh(unit * (lo - mu - sigma)), b = ss_asinh(unit * (hi - mu - sigma));
    const ss_limits limits = { GPUMC_R(0.5) * (b + a), GPUMC_R(0.5) * (b - a) };
    return limits;
}
/* Where the stop process may begin, and where the go process may. */
GPUMC_FN gpumc_real ss_first(gpumc_real mu, gpumc_real sigma, gpumc_real truncation)
{ return ss_max(truncation, mu - 10 * sigma); }
GPUMC_FN gpumc_real ss_on(gpumc_real b, gpumc_real t0, gpumc_real fastest, gpumc_real delay)
{ return t0 - delay + b * b / (64 + 2 * b * fastest); }

/* A node at y in (-1, 1): its u and its density times ds, both but for constants; excess as above. */
typedef struct ss_node { gpumc_real u, mass, excess; } ss_node;
GPUMC_FN ss_node ss_node_at(ss_limits limits, gpumc_real y, gpumc_real weight, gpumc_real a)
{
    const gpumc_real e = gpumc_exp(limits.middle + limits.half * y), inv = 1 / e;
    const gpumc_real u = 1 + (GPUMC_R(0.5) / SS_GROWTH) * (e - inv), w = a - u, size = gpumc_fabs(w);
    const gpumc_real ahead = gpumc__mills_excess(size), phi = ss_bell(u) * SS_INV_ROOT_2PI;
    const gpumc_real far = phi / (size + ahead), fall = gpumc__exp_fall(a * (GPUMC_R(0.5) * a - u));
    const gpumc_real tau_q = w < 0 ? fall - far : far;
    const ss_node node = { u, (e + inv) * weight * tau_q, w < 0 ? size + phi / tau_q : ahead };
    return node;
}
/* What ss_node.mass lacks of q ds. */
GPUMC_FN gpumc_real ss_mass_unit(ss_limits limits, gpumc_real a)
{ return (GPUMC_R(0.5) / SS_GROWTH) * limits.half * a; }
/* Adds mass times the derivatives of log q to g, by mu and sigma times sigma, by tau times tau. */
GPUMC_FN void ss_push_node(ss_node node, gpumc_real a, gpumc_real mass, gpumc_real *g)
{
    g[0] += mass * (node.u - node.excess);
    g[1] += mass * (node.u * node.u - node.excess * (a + node.u));
    g[2] += mass * (a * node.excess - 1);
}

/* S and its derivatives by b and v, and by t0 but for the factor -b t^(-3/2). */
typedef struct ss_survivor { gpumc_real S, by_b, by_v, phi; } ss_survivor;
GPUMC_FN ss_survivor ss_survivor_at(gpumc_real b, gpumc_real v, gpumc_real t, gpumc_real root)
{
    const gpumc_real z = (b - v * t) * root, far = gpumc__mills((b + v * t) * root);
    const gpumc_real near = gpumc__mills(gpumc_fabs(z)), phi = ss_bell(z) * SS_INV_ROOT_2PI;
    const ss_survivor s = { z < 0 ? phi * (near - far) : 1 - phi * (near + far),
                            2 * phi * (root - v * far), -2 * b * (phi * far), phi };
    return s;
}
/* Adds mass times S+ S- and its derivatives by b, t0, v+, v-. Before 1e-8 s both are 1 to the last bit. */
GPUMC_FN gpumc_real ss_both_survive(gpumc_real b, gpumc_real v, gpumc_real w, gpumc_real t, gpumc_real mass,
                                    gpumc_real *g)
{
    const gpumc_real after = ss_max(t, GPUMC_R(1e-8)), root = gpumc__rsqrt_normal(after);
    const ss_survivor plus = ss_survivor_at(b, v, after, root), minus = ss_survivor_at(b, w, after, root);
    const gpumc_real by_plus = mass * minus.S, by_minus = mass * plus.S;
    g[0] += by_plus * plus.by_b + by_minus * minus.by_b;
    g[1] += b * (root * root * root) * (by_plus * plus.phi + by_minus * minus.phi);
    g[2] += by_plus * plus.by_v;
    g[3] += by_minus * minus.by_v;
    return by_plus * plus.S;
}

/* The log likelihood of a stop, from pgf + (1 - pgf) (1 - ptf) P, given what the nodes sum up: the integral
   and its derivatives, without ss_mass_unit and the normalisation of the truncated q. on: before it P is the
   distribution function; p, by: mu sigma tau y_gf y_tf, by of the integral, to become those of the result.
   Returns the value, in *scale what multiplies derivatives of the integral by other parameters. */
GPUMC_FN gpumc_real ss_stopped(const gpumc_real *p, gpumc_real truncation, gpumc_real on, gpumc_real integral,
                               const gpumc_real *by, gpumc_real *g, gpumc_real *scale)
{
    const gpumc_real mu = p[0], sigma = p[1], tau = p[2], from = ss_first(mu, sigma, truncation);
    const int waits = from < on;
    const ss_limits limits = ss_limits_from(waits ? on : from, mu, sigma, tau);
    const ss_time first = ss_time_at(truncation, mu, sigma, tau), at = ss_time_at(on, mu, sigma, tau);
    const gpumc_real base = gpumc_exp(-first.log_base) / first.tail, unit = ss_mass_unit(limits, first.a) * base;
    const gpumc_real base_on = waits ? gpumc_exp(at.log_base) * base : 0, Q_on = base_on * at.tail;
    const gpumc_real above = unit * integral, P = above + (waits ? 1 - Q_on : 0);
    const gpumc_real pgf = gpumc_Phi(p[3]), go = gpumc_Phi(-p[3]), trigger = gpumc_Phi(-p[4]);
    const gpumc_real like = pgf + go * (trigger * P), slope = go * trigger / like;
    const gpumc_real phi_gf = ss_bell(p[3]) * SS_INV_ROOT_2PI, phi_tf = ss_bell(p[4]) * SS_INV_ROOT_2PI;
    gpumc_real of_first[3] = { 0, 0, 0 };
    ss_push_log_tail(first, tau, above - Q_on, of_first);
    *scale = slope * unit;
    g[0] += slope * (unit * by[0] / sigma - base_on * at.density / tau - of_first[0]);
    g[1] += slope * (unit * by[1] / sigma - base_on * at.density * (at.u - at.excess) / tau - of_first[1]);
    g[2] += slope * ((unit * by[2] - base_on * at.density * (at.a * at.excess)) / tau - of_first[2]);
    g[3] += phi_gf * (1 - trigger * P) / like;
    g[4] -= phi_tf * go * P / like;
    return gpumc_log(like);
}

GPUMC_FN gpumc_real ss_stop_on(const gpumc_real *p, gpumc_real delay)
{
    const gpumc_real reach = p[5] * delay;
    return ss_on(p[0], p[1], ss_max(ss_rate(p[2], p[4], reach), ss_rate(p[3], p[4], reach)), delay);
}
/* x: delay, truncation; abscissa and weight. */
GPUMC_CELLS(ss_stop, 11, 0, 2, 2)
{
    const gpumc_real reach = p[5] * x[0], v = ss_rate(p[2], p[4], reach), w = ss_rate(p[3], p[4], reach);
    const gpumc_real from = ss_max(ss_first(p[6], p[7], x[1]), ss_on(p[0], p[1], ss_max(v, w), x[0]));
    const gpumc_real a = p[7] / p[8];
    const ss_node node = ss_node_at(ss_limits_from(from, p[6], p[7], p[8]), x[2], x[3], a);
    const gpumc_real t = p[6] + p[7] * node.u + x[0] - p[1];
    const gpumc_real value = ss_both_survive(p[0], v, w, t, node.mass, g);
    ss_push_node(node, a, value, g + 6);
    return value;
}
GPUMC_FINISH(ss_stop)
{
    const gpumc_real on = ss_stop_on(p, x[0]);
    gpumc_real scale;
    const gpumc_real value = ss_stopped(p + 6, x[1], on, sum[0], sum + 7, g + 6, &scale);
    g[0] += scale * sum[1];
    g[1] += scale * sum[2];
    ss_push_rate(p[2], p + 4, x[0], scale * sum[3], &g[2], &g[4]);
    ss_push_rate(p[3], p + 4, x[0], scale * sum[4], &g[3], &g[4]);
    return value;
}

#endif
