/* stop_signal_rows.h: likelihoods of the stop-signal models, one trial or cell a row, with all derivatives.

   Evidence that grows with rate v and unit noise reaches a threshold B at a Wald time; two such accumulators
   race, one matching the stimulus (v_plus), one not (v_minus), and a stop process whose finishing time is
   ex-Gaussian (mu, sigma, tau), counted from the stop signal and truncated below, races against both. On stop
   trials of the ABCD task the signal replaces the stimulus after a delay, so the rates begin at v0 and grow
   towards those of go trials at speed g (Weigard et al. 2023). Probabilities of go failure and trigger failure
   come as probits y_gf and y_tf. Times in seconds, all other parameters on their natural scale.

       row              parameters p                                             columns x
       ss_go            B t0 v_won v_lost                                        rt
       ss_failed        B t0 v_won v_lost v0 g mu sigma tau y_tf                 rt delay truncation width
       ss_stop          B t0 v_plus v_minus v0 g mu sigma tau y_gf y_tf          delay truncation deadline
                                                                                 width; nodes
       ss_counts        y_gf                                                     omissions responses
   and with _failed and _stop as above, with the same columns but for the width
       ss_rdex_...      as RDEX-ABCD without v0 and g; its go row is ss_go
       ss_range_go      B range t0 v_won v_lost            thresholds uniform on (B, B + range)
       ss_beests_go     mu_go sigma_go tau_go              one ex-Gaussian go process, not truncated
       ss_beests2_go    those of winner and loser          one for each choice
       ss_..._nofail_.. BEESTS without y_gf and y_tf: neither go nor trigger failures
       ss_wald          B t0 v_won                         the winner's density alone; no other row

   A likelihood depends on which accumulator has won, not on which matches the stimulus, so correct responses and
   errors take the same row with the rates exchanged. The contribution of go failures is in ss_counts, except
   for successful stops. ss_stop has one row for all stops of a subject at one delay, weighted by their number;
   its nodes are Gauss-Legendre abscissae and weights on (-1, 1), 48 of them for errors below 1e-8.

   A deadline is the time from the onset of the stimulus after which no response counts; SS_NO_DEADLINE stands
   for none. With one, a go trial without a response may also be a late response. It is a row of ss_stop with a
   delay of SS_NO_SIGNAL: the signal comes after the deadline, when all rates have reached those of go trials.

   The rates of stop trials have kinks where they reach those of go trials; a trajectory that crosses one between
   two gradients gains or loses energy. Rows with a width above 0, in units of rates, round the kinks off: these
   guide trajectories, while rows of width 0 decide whether their ends are accepted.

   Plain C for gcc, clang and nvcc; include after gpumc.h. The inner leaves of gpumc.h (gpumc__) that it uses
   take positive arguments only. Read first: ss_race. */
#ifndef STOP_SIGNAL_ROWS_H
#define STOP_SIGNAL_ROWS_H

#define SS_NO_DEADLINE 1e5    /* seconds */
#define SS_NO_SIGNAL 1e6
#define SS_INV_ROOT_2PI GPUMC_R(0.39894228040143267794)     /* phi(0) */

/* exp(-x^2/2), and the larger of two values; NaN is passed on. */
GPUMC_FN gpumc_real ss_bell(gpumc_real x) { return gpumc__exp_neg(GPUMC_R(-0.5) * x * x); }
GPUMC_FN gpumc_real ss_max(gpumc_real a, gpumc_real b) { return a < b ? b : a; }
/* ((y + 5) M(y) - 1) (y + 5), M the Mills ratio, x = (y - 5) / (y + 5):
   degree 23, x in [-1, 1], error 3.3e-17 */
GPUMC__POLY(mills, 24, 9.280810471531577, -7.3978554803580225, 5.017615135380624, -2.84149562008494,
    1.2949515372427471, -0.4375958036258766, 0.08365922048062602, 0.008626392239518754, -0.011373227349713478,
    0.0022853644871090348, 0.0007970330324963342, -0.00045032447057413, -3.217519735127879e-05,
    6.757500151928843e-05, -1.8835522585701035e-06, -1.024832208812561e-05, 7.014960060832095e-07,
    1.6728974124561607e-06, -1.05169802948032e-07, -2.82339433774545e-07, 8.720230759425635e-09,
    4.1860437444245755e-08, -1.7142774262008796e-10, -3.728815011600475e-09)
/* gpumc_mills for x >= 0, with one division; error 6.5 ULP */
GPUMC_FN double ss_mills(double x)
{
    const double y = 1.0 / (x + 5.0);
    return y + y * (y * gpumc__poly_mills(1.0 - 10.0 * y));
}

/* ---- go: racing diffusions ----------------------------------------------------------------------- */

/* log f(t; v) S(t; w): accumulator v reaches the threshold at t, w has not yet. With z = (b - w t) / sqrt t
   and y = (b + w t) / sqrt t, S = Phi(z) - exp(2 b w) Phi(-y) = Phi(z) - phi(z) M(y), M the Mills ratio, and
   beyond the mean S / phi(z) = M(-z) - M(y). Adds the derivatives by b, v, w, t to g. */
GPUMC_FN gpumc_real ss_race(gpumc_real b, gpumc_real v, gpumc_real w, gpumc_real t, gpumc_real *g)
{
    const gpumc_real root = gpumc__rsqrt_normal(t), inv = root * root, d = b - v * t, slope = d * inv;
    const gpumc_real z = (b - w * t) * root, outer = ss_mills((b + w * t) * root);
    const gpumc_real inner = ss_mills(gpumc_fabs(z)), phi = ss_bell(z) * SS_INV_ROOT_2PI;
    const gpumc_real rest = z < 0 ? inner - outer : 1 - phi * (inner + outer);
    const gpumc_real share = 2 * (z < 0 ? 1 : phi) / rest;          /* 2 phi(z) / S */
    const gpumc_real scale = b * root * inv;
    g[0] += 1 / b - slope + share * (root - w * outer);
    g[1] += d;
    g[2] -= b * outer * share;
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
    const gpumc_real excess = gpumc__mills_excess(size), outer = 1 / (size + excess);
    const gpumc_real inner = ss_mills(gpumc_fabs(u)), phi_u = ss_bell(u) * SS_INV_ROOT_2PI;
    const gpumc_real phi_w = ss_bell(w) * SS_INV_ROOT_2PI, most = 1 - phi_w * outer;       /* Phi(|w|) */
    const gpumc_real below = u < 0 ? 0 : GPUMC_R(-0.5) * u * u - GPUMC_R(GPUMC_LOG_SQRT_2PI);
    const gpumc_real density = u < 0 ? phi_u * outer : outer;
    const gpumc_real tail = u < 0 ? 1 - phi_u * (inner - outer) : inner + outer;
    const ss_time at = { w < 0 ? a * (GPUMC_R(0.5) * a - u) : below, w < 0 ? most : density,
                         w < 0 ? most + phi_w * inner : tail, u, a, w < 0 ? size + phi_w / most : excess };
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

/* The probabilities of a failure, of which y is the probit, and of none. */
typedef struct ss_failure { gpumc_real fails, works; } ss_failure;
GPUMC_FN ss_failure ss_failure_of(gpumc_real y)
{
    const gpumc_real less = gpumc_Phi(-gpumc_fabs(y)), more = 1 - less;
    const ss_failure of = { y < 0 ? less : more, y < 0 ? more : less };
    return of;
}

/* log of ptf + (1 - ptf) Q(x), x the time since the signal: no stop process, or one that has not finished.
   p, g: mu sigma tau y_tf. */
GPUMC_FN gpumc_real ss_not_stopped(const gpumc_real *p, gpumc_real x, gpumc_real truncation, gpumc_real *g)
{
    const ss_time at = ss_time_at(x, p[0], p[1], p[2]), first = ss_time_at(truncation, p[0], p[1], p[2]);
    const ss_failure trigger = ss_failure_of(p[3]);
    const int begun = truncation < x;
    const gpumc_real after = gpumc_exp(at.log_base - first.log_base) * at.tail / first.tail;
    const gpumc_real Q = begun ? after : 1, late = trigger.works * Q, like = trigger.fails + late;
    const gpumc_real inv = 1 / like, weight = begun ? late * inv : 0;
    ss_push_log_tail(at, p[2], weight, g);
    ss_push_log_tail(first, p[2], -weight, g);
    g[3] += ss_bell(p[3]) * SS_INV_ROOT_2PI * (1 - Q) * inv;
    return gpumc_log(like);
}

/* ---- the rates of stop trials -------------------------------------------------------------------- */

/* How far the parabola that rounds off |x| < width is above |x|, */
GPUMC_FN gpumc_real ss_rounding(gpumc_real x, gpumc_real width)
{
    const gpumc_real size = gpumc_fabs(x), within = width - (size < width ? size : width);
    return within * within / ss_max(2 * width, GPUMC_R(1e-30));
}
/* and the derivative of |x| plus that. */
GPUMC_FN gpumc_real ss_bend(gpumc_real x, gpumc_real width)
{
    const gpumc_real slope = x / ss_max(width, GPUMC_R(1e-30));
    return slope < -1 ? -1 : slope < 1 ? slope : 1;
}
/* v0 + clamp(v - v0, -reach, reach), reach = g delay, its corners rounded off over the width. */
GPUMC_FN gpumc_real ss_rate(gpumc_real v, gpumc_real v0, gpumc_real reach, gpumc_real width)
{
    const gpumc_real low = v0 - reach, high = v0 + reach, above = high < v ? high : v;
    return (above < low ? low : above)
         + GPUMC_R(0.5) * (ss_rounding(v - low, width) - ss_rounding(v - high, width));
}
/* Passes the derivative by that rate, slope, on to those by v, v0 and g. */
GPUMC_FN void ss_push_rate(gpumc_real v, const gpumc_real *p, gpumc_real delay, gpumc_real width,
                           gpumc_real slope, gpumc_real *by_v, gpumc_real *by_v0_g)
{
    const gpumc_real away = v - p[0], reach = p[1] * delay, half = GPUMC_R(0.5) * slope;
    const gpumc_real lower = half * ss_bend(away + reach, width), upper = half * ss_bend(away - reach, width);
    *by_v += lower - upper;
    by_v0_g[0] += slope - (lower - upper);
    by_v0_g[1] += (lower + upper) * delay;
}

GPUMC_ROW(ss_failed, 10, 0, 4)
{
    const gpumc_real t = x[0] - p[1], reach = p[5] * x[1];
    const gpumc_real won = ss_rate(p[2], p[4], reach, x[3]), lost = ss_rate(p[3], p[4], reach, x[3]);
    gpumc_real race[4] = { 0, 0, 0, 0 };
    const gpumc_real value =
        ss_race(p[0], won, lost, t, race) + ss_not_stopped(p + 6, x[0] - x[1], x[2], g + 6);
    g[0] += race[0];
    g[1] -= race[3];
    ss_push_rate(p[2], p + 4, x[1], x[3], race[1], &g[2], &g[4]);
    ss_push_rate(p[3], p + 4, x[1], x[3], race[2], &g[3], &g[4]);
    return ss_if_after(t, value);
}

/* ---- no response on a stop trial ------------------------------------------------------------------ */

/* P = int q(s) S+(s + delay - t0) S-(s + delay - t0) ds: below s_on, where no accumulator can have arrived
   (each S < 1 by less than 1e-13), by the distribution function of q, above it by quadrature in y, s = mu +
   sigma (1 + sinh(k y) / k), whose step is about sigma near the Gaussian part and grows with the distance.
   The derivatives take the limits for constants: what these would contribute cancels, or is below 1e-12.

   With a deadline T the integral ends at `last` = T - delay; if the stop process has not finished by then, with
   probability Q(last), there is no response only if the go process is late: G(T) = S+ S- at T - t0. */
#define SS_GROWTH GPUMC_R(0.7)                              /* k */

GPUMC_FN gpumc_real ss_asinh(gpumc_real x)
{
    const gpumc_real size = gpumc_fabs(x), square = size * size + 1;
    const gpumc_real y = gpumc__log_normal(size + square * gpumc__rsqrt_normal(square));
    return x < 0 ? -y : y;
}
typedef struct ss_limits { gpumc_real middle, half; } ss_limits;      /* in k y */
/* The limits from lo to last, in seconds, or to less, where the tail above is under 3e-11 of P. */
GPUMC_FN ss_limits ss_limits_from(gpumc_real lo, gpumc_real last, gpumc_real mu, gpumc_real sigma,
                                  gpumc_real tau)
{
    const gpumc_real end = ss_max(lo, mu) + 8 * sigma + 25 * tau, unit = SS_GROWTH / sigma;
    const gpumc_real hi = ss_max(lo, last < end ? last : end);
    const gpumc_real a = ss_asinh(unit * (lo - mu - sigma)), b = ss_asinh(unit * (hi - mu - sigma));
    const ss_limits limits = { GPUMC_R(0.5) * (b + a), GPUMC_R(0.5) * (b - a) };
    return limits;
}
/* The lower limit of the stop process' time (ss_first), and the earliest time of the go process (ss_on). */
GPUMC_FN gpumc_real ss_first(gpumc_real mu, gpumc_real sigma, gpumc_real truncation)
{ return ss_max(truncation, mu - 10 * sigma); }
/* x: delay truncation deadline */
GPUMC_FN gpumc_real ss_last(const gpumc_real *x) { return x[2] - x[0]; }
GPUMC_FN gpumc_real ss_on(gpumc_real b, gpumc_real t0, gpumc_real fastest, const gpumc_real *x)
{
    const gpumc_real on = t0 - x[0] + b * b / (64 + 2 * b * fastest), last = ss_last(x);
    return last < on ? last : on;
}

/* A node at y in (-1, 1): its u, its density times ds up to the factor ss_mass_unit, and the excess as above.
   */
typedef struct ss_node { gpumc_real u, mass, excess; } ss_node;
GPUMC_FN ss_node ss_node_at(ss_limits limits, gpumc_real y, gpumc_real weight, gpumc_real a)
{
    const gpumc_real e = gpumc_exp(limits.middle + limits.half * y), inv = 1 / e;
    const gpumc_real u = 1 + (GPUMC_R(0.5) / SS_GROWTH) * (e - inv), w = a - u, size = gpumc_fabs(w);
    const gpumc_real ahead = gpumc__mills_excess(size), phi = ss_bell(u) * SS_INV_ROOT_2PI;
    const gpumc_real outer = phi / (size + ahead), fall = gpumc__exp_neg(a * (GPUMC_R(0.5) * a - u));
    const gpumc_real tau_q = w < 0 ? fall - outer : outer;
    const ss_node node = { u, (e + inv) * weight * tau_q, w < 0 ? size + phi / tau_q : ahead };
    return node;
}
/* The factor that ss_node.mass lacks to be q ds. */
GPUMC_FN gpumc_real ss_mass_unit(ss_limits limits, gpumc_real a)
{ return (GPUMC_R(0.5) / SS_GROWTH) * limits.half * a; }
/* Adds mass times the derivatives of log q to g: those by mu and sigma times sigma, that by tau times tau. */
GPUMC_FN void ss_push_node(ss_node node, gpumc_real a, gpumc_real mass, gpumc_real *g)
{
    g[0] += mass * (node.u - node.excess);
    g[1] += mass * (node.u * node.u - node.excess * (a + node.u));
    g[2] += mass * (a * node.excess - 1);
}

/* S and its derivatives by b and v; phi is that by t0 but for the factor b t^(-3/2). */
typedef struct ss_survivor { gpumc_real S, by_b, by_v, phi; } ss_survivor;
GPUMC_FN ss_survivor ss_survivor_at(gpumc_real b, gpumc_real v, gpumc_real t, gpumc_real root)
{
    const gpumc_real z = (b - v * t) * root, outer = ss_mills((b + v * t) * root);
    const gpumc_real inner = ss_mills(gpumc_fabs(z)), phi = ss_bell(z) * SS_INV_ROOT_2PI;
    const ss_survivor s = { z < 0 ? phi * (inner - outer) : 1 - phi * (inner + outer),
                            2 * phi * (root - v * outer), -2 * b * (phi * outer), phi };
    return s;
}
/* Returns mass times S+ S- and adds its derivatives by b, t0, v+, v- to g. Before 1e-8 s both S are 1 to the
   last bit. */
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

/* The log of pgf + (1 - pgf) [ptf G(T) + (1 - ptf) (P + Q(last) G(T))] from the sums over nodes: the integral
   and by, its derivatives by mu, sigma, tau, both without ss_mass_unit and the normalisation of the truncated
   q. on: before it P is the distribution function; late: G(T); p, g: mu sigma tau y_gf y_tf. Returns the value,
   and in scale the factors of the derivatives of the integral and of late by the other parameters. */
GPUMC_FN gpumc_real ss_stopped(const gpumc_real *p, const gpumc_real *x, gpumc_real on, gpumc_real late,
                               gpumc_real integral, const gpumc_real *by, gpumc_real *g, gpumc_real *scale)
{
    const gpumc_real mu = p[0], sigma = p[1], tau = p[2], from = ss_first(mu, sigma, x[1]), last = ss_last(x);
    const int waits = from < on, begun = x[1] < last;
    const ss_limits limits = ss_limits_from(waits ? on : from, last, mu, sigma, tau);
    const ss_time first = ss_time_at(x[1], mu, sigma, tau), at = ss_time_at(on, mu, sigma, tau);
    const ss_time end = ss_time_at(last, mu, sigma, tau);
    const gpumc_real base = gpumc_exp(-first.log_base) / first.tail;
    const gpumc_real unit = ss_mass_unit(limits, first.a) * base;
    const gpumc_real scale_on = gpumc_exp(at.log_base) * base, base_on = waits ? scale_on : 0;
    const gpumc_real Q_on = base_on * at.tail, above = unit * integral, before = 1 - Q_on;
    const gpumc_real Q_end = gpumc_exp(end.log_base) * base * end.tail, Q_last = begun ? Q_end : 1;
    const gpumc_real both_late = begun ? late * Q_last : 0;
    const gpumc_real P = above + (waits ? before : 0) + late * Q_last;
    const ss_failure go = ss_failure_of(p[3]), trigger = ss_failure_of(p[4]);
    const gpumc_real none = trigger.fails * late + trigger.works * P;
    const gpumc_real like = go.fails + go.works * none, slope = go.works * trigger.works / like;
    const gpumc_real phi_gf = ss_bell(p[3]) * SS_INV_ROOT_2PI, phi_tf = ss_bell(p[4]) * SS_INV_ROOT_2PI;
    gpumc_real of_tails[3] = { 0, 0, 0 };
    ss_push_log_tail(first, tau, above - Q_on + both_late, of_tails);
    ss_push_log_tail(end, tau, -both_late, of_tails);
    scale[0] = slope * unit;
    scale[1] = go.works * (trigger.fails + trigger.works * Q_last) / like;
    g[0] += slope * (unit * by[0] / sigma - base_on * at.density / tau - of_tails[0]);
    g[1] += slope * (unit * by[1] / sigma - base_on * at.density * (at.u - at.excess) / tau - of_tails[1]);
    g[2] += slope * ((unit * by[2] - base_on * at.density * (at.a * at.excess)) / tau - of_tails[2]);
    g[3] += phi_gf * (1 - none) / like;
    g[4] -= phi_tf * go.works * (P - late) / like;
    return gpumc_log(like);
}
/* 1 with a deadline, else 0: the weight of G(T). */
GPUMC_FN gpumc_real ss_timed(const gpumc_real *x) { return x[2] < GPUMC_R(SS_NO_DEADLINE) ? 1 : 0; }
/* G(T), the race at the deadline. Adds its derivatives by b, t0, v+, v- to g. */
GPUMC_FN gpumc_real ss_race_late(const gpumc_real *p, const gpumc_real *x, gpumc_real *g)
{ return ss_both_survive(p[0], p[2], p[3], x[2] - p[1], ss_timed(x), g); }

/* node: abscissa and weight */
GPUMC_FN ss_node ss_node_of(const gpumc_real *p, const gpumc_real *x, const gpumc_real *node, gpumc_real on)
{
    const gpumc_real from = ss_max(ss_first(p[0], p[1], x[1]), on);
    return ss_node_at(ss_limits_from(from, ss_last(x), p[0], p[1], p[2]), node[0], node[1], p[1] / p[2]);
}
/* A node of the race of two diffusions and the stop: p, g: b t0 v+ v-; s, by: mu sigma tau. */
GPUMC_FN gpumc_real ss_race_node(const gpumc_real *p, const gpumc_real *s, const gpumc_real *x,
                                 const gpumc_real *of, gpumc_real *g, gpumc_real *by)
{
    const ss_node node = ss_node_of(s, x, of, ss_on(p[0], p[1], ss_max(p[2], p[3]), x));
    const gpumc_real t = s[0] + s[1] * node.u + x[0] - p[1];
    const gpumc_real value = ss_both_survive(p[0], p[2], p[3], t, node.mass, g);
    ss_push_node(node, s[1] / s[2], value, by);
    return value;
}

/* x: delay truncation deadline width */
GPUMC_FN void ss_stop_rates(const gpumc_real *p, const gpumc_real *x, gpumc_real *effective)
{
    effective[0] = p[0];
    effective[1] = p[1];
    effective[2] = ss_rate(p[2], p[4], p[5] * x[0], x[3]);
    effective[3] = ss_rate(p[3], p[4], p[5] * x[0], x[3]);
}
/* The sums over nodes have derivatives by the rates at this delay. */
GPUMC_CELLS(ss_stop, 11, 0, 4, 2)
{
    gpumc_real go[4];
    ss_stop_rates(p, x, go);
    return ss_race_node(go, p + 6, x, x + 4, g, g + 6);
}
GPUMC_FINISH(ss_stop)
{
    gpumc_real go[4], by[4] = { 0, 0, 0, 0 }, scale[2];
    ss_stop_rates(p, x, go);
    const gpumc_real on = ss_on(go[0], go[1], ss_max(go[2], go[3]), x), late = ss_race_late(go, x, by);
    const gpumc_real value = ss_stopped(p + 6, x, on, late, sum[0], sum + 7, g + 6, scale);
    GPUMC__FLAT for (int k = 0; k < 4; k++) by[k] = scale[0] * sum[1 + k] + scale[1] * by[k];
    g[0] += by[0];
    g[1] += by[1];
    ss_push_rate(p[2], p + 4, x[0], x[3], by[2], &g[2], &g[4]);
    ss_push_rate(p[3], p + 4, x[0], x[3], by[3], &g[3], &g[4]);
    return value;
}

/* ---- RDEX: rates as on go trials ----------------------------------------------------------------- */

GPUMC_ROW(ss_rdex_failed, 8, 0, 3)
{
    const gpumc_real t = x[0] - p[1];
    gpumc_real race[4] = { 0, 0, 0, 0 };
    const gpumc_real value =
        ss_race(p[0], p[2], p[3], t, race) + ss_not_stopped(p + 4, x[0] - x[1], x[2], g + 4);
    g[0] += race[0];
    g[1] -= race[3];
    g[2] += race[1];
    g[3] += race[2];
    return ss_if_after(t, value);
}
GPUMC_CELLS(ss_rdex_stop, 9, 0, 3, 2)
{
    return ss_race_node(p, p + 4, x, x + 3, g, g + 4);
}
GPUMC_FINISH(ss_rdex_stop)
{
    gpumc_real by[4] = { 0, 0, 0, 0 }, scale[2];
    const gpumc_real on = ss_on(p[0], p[1], ss_max(p[2], p[3]), x), late = ss_race_late(p, x, by);
    const gpumc_real value = ss_stopped(p + 4, x, on, late, sum[0], sum + 5, g + 4, scale);
    GPUMC__FLAT for (int k = 0; k < 4; k++) g[k] += scale[0] * sum[1 + k] + scale[1] * by[k];
    return value;
}

/* ---- start points that vary: the threshold is uniform on (b, b + range) --------------------------- */

/* A density or survivor and its derivatives by b, range, v and t, all divided by exp(log_base). */
typedef struct ss_part { gpumc_real log_base, value, by_b, by_range, by_v, by_t; } ss_part;

/* Density and survivor for a fixed threshold. */
GPUMC_FN ss_part ss_density(gpumc_real b, gpumc_real v, gpumc_real t)
{
    const gpumc_real root = gpumc__rsqrt_normal(t), inv = root * root, x = (b - v * t) * root;
    const gpumc_real slope = x * root;
    const gpumc_real f = SS_INV_ROOT_2PI * b * root * inv;
    const ss_part part = { GPUMC_R(-0.5) * x * x, f, f * (1 / b - slope), 0, f * (b - v * t),
                           f * (slope * (v + GPUMC_R(0.5) * slope) - GPUMC_R(1.5) * inv) };
    return part;
}
GPUMC_FN ss_part ss_survival(gpumc_real b, gpumc_real v, gpumc_real t)
{
    const gpumc_real root = gpumc__rsqrt_normal(t), z = (b - v * t) * root;
    const gpumc_real inner = ss_mills(gpumc_fabs(z)), outer = ss_mills((b + v * t) * root);
    const gpumc_real phi = (z < 0 ? 1 : ss_bell(z)) * SS_INV_ROOT_2PI;
    const ss_part part = { z < 0 ? GPUMC_R(-0.5) * z * z : 0,
                           z < 0 ? phi * (inner - outer) : 1 - phi * (inner + outer),
                           2 * phi * (root - v * outer), 0, -2 * b * phi * outer,
                           -b * phi * root * root * root };
    return part;
}
/* Adds a part, brought to the base of the mean, with a weight; share: the place of its threshold in the range.
   */
GPUMC_FN void ss_mean_add(ss_part *mean, ss_part part, gpumc_real weight, gpumc_real share)
{
    const gpumc_real w = weight * gpumc_exp(part.log_base - mean->log_base);
    mean->value += w * part.value;
    mean->by_b += w * part.by_b;
    mean->by_range += w * share * part.by_b;
    mean->by_v += w * part.by_v;
    mean->by_t += w * part.by_t;
}
/* The mean over a small range, by four Gauss-Legendre points. */
#define SS_SMALL_MEAN(part, b, range, v, t, mean) \
    (mean)->log_base = part((b) + GPUMC_R(0.5) * (range), v, t).log_base; \
    ss_mean_add(mean, part((b) + SS_POINT_1 * (range), v, t), SS_OUTER, SS_POINT_1); \
    ss_mean_add(mean, part((b) + SS_POINT_2 * (range), v, t), SS_INNER, SS_POINT_2); \
    ss_mean_add(mean, part((b) + (1 - SS_POINT_2) * (range), v, t), SS_INNER, 1 - SS_POINT_2); \
    ss_mean_add(mean, part((b) + (1 - SS_POINT_1) * (range), v, t), SS_OUTER, 1 - SS_POINT_1)
#define SS_POINT_1 GPUMC_R(0.06943184420297371)
#define SS_POINT_2 GPUMC_R(0.33000947820757187)
#define SS_OUTER GPUMC_R(0.17392742256872693)
#define SS_INNER GPUMC_R(0.32607257743127307)

/* One end k of the range, x = (k - v t) / sqrt t and y = (k + v t) / sqrt t; all but k divided by
   exp(log_base). below, above: Phi(x), Phi(-x); survivor: S(t; k); total: an antiderivative of S by k, or of
   S - 1 where early, and by_v its derivative. */
typedef struct ss_end { gpumc_real k, phi, below, above, survivor, total, by_v; } ss_end;
GPUMC_FN ss_end ss_end_at(gpumc_real k, gpumc_real v, gpumc_real t, gpumc_real root, gpumc_real log_base,
                          int early)
{
    const gpumc_real x = (k - v * t) * root, r = t * root, half = GPUMC_R(0.5) / v, size = gpumc_fabs(x);
    const gpumc_real unit = gpumc_exp(-log_base);
    const gpumc_real phi = gpumc_exp(GPUMC_R(-0.5) * x * x - log_base) * SS_INV_ROOT_2PI;
    const gpumc_real excess = gpumc__mills_excess(size), inner = 1 / (size + excess);
    const gpumc_real outer = ss_mills((k + v * t) * root), tail = phi * inner, rest = unit - tail;
    const gpumc_real below = x < 0 ? tail : rest, above = x < 0 ? rest : tail, both = below + phi * outer;
    const gpumc_real step = phi * excess * inner + (x < 0 ? 0 : unit * x);          /* x Phi(x) + phi(x) */
    const gpumc_real late = phi * (r - k * outer) / v, gap = phi * (inner - outer);
    const ss_end end = { k, phi, below, above, early ? -(above + phi * outer) : below - phi * outer,
                         early ? phi * r * excess * inner + gap * half : r * step - both * half,
                         early ? phi * t * inner - 2 * gap * half * half + late
                               : 2 * both * half * half - t * below + late };
    return end;
}
/* The probability that a normal variable lies between the ends. */
GPUMC_FN gpumc_real ss_between(ss_end a, ss_end b, int early)
{ return early ? a.above - b.above : b.below - a.below; }
GPUMC_FN ss_part ss_either(int first, ss_part a, ss_part b)
{
    const ss_part part = { first ? a.log_base : b.log_base, first ? a.value : b.value,
                           first ? a.by_b : b.by_b, first ? a.by_range : b.by_range,
                           first ? a.by_v : b.by_v, first ? a.by_t : b.by_t };
    return part;
}
GPUMC_FN int ss_is_small(gpumc_real range, gpumc_real x_1, gpumc_real x_2, gpumc_real root)
{ return range * root * ss_max(1, ss_max(gpumc_fabs(x_1), gpumc_fabs(x_2))) < GPUMC_R(0.2); }

/* Mean density and mean survivor: closed forms or, where their terms would cancel, the means of the points. */
GPUMC_FN ss_part ss_range_density(gpumc_real b, gpumc_real range, gpumc_real v, gpumc_real t)
{
    const gpumc_real root = gpumc__rsqrt_normal(t), cube = root * root * root, inv = 1 / range;
    const gpumc_real x_1 = (b - v * t) * root, x_2 = x_1 + range * root;
    const gpumc_real nearest = x_1 < 0 ? x_2 < 0 ? x_2 : 0 : x_1, base = GPUMC_R(-0.5) * nearest * nearest;
    const ss_end lo = ss_end_at(b, v, t, root, base, !(x_1 < 0));
    const ss_end hi = ss_end_at(b + range, v, t, root, base, !(x_1 < 0));
    const gpumc_real between = ss_between(lo, hi, !(x_1 < 0)), gap = lo.phi - hi.phi;
    const gpumc_real f = (v * between + gap * root) * inv, f_hi = hi.k * hi.phi * cube;
    const ss_part closed = { base, f, (f_hi - lo.k * lo.phi * cube) * inv, (f_hi - f) * inv,
                             (between - (hi.k * hi.phi - lo.k * lo.phi) * root) * inv,
                             GPUMC_R(-0.5) * inv * cube * (gap + root * root
                             * (hi.k * (hi.k + v * t) * hi.phi - lo.k * (lo.k + v * t) * lo.phi)) };
    ss_part mean = { 0, 0, 0, 0, 0, 0 };
    SS_SMALL_MEAN(ss_density, b, range, v, t, &mean);
    return ss_either(ss_is_small(range, x_1, x_2, root), mean, closed);
}
GPUMC_FN ss_part ss_range_survival(gpumc_real b, gpumc_real range, gpumc_real v, gpumc_real t)
{
    const gpumc_real root = gpumc__rsqrt_normal(t), inv = 1 / range;
    const gpumc_real x_1 = (b - v * t) * root, x_2 = x_1 + range * root, nearest = x_2 < 0 ? x_2 : 0;
    const int early = !(x_1 < 0);
    const gpumc_real base = GPUMC_R(-0.5) * nearest * nearest;
    const ss_end lo = ss_end_at(b, v, t, root, base, early);
    const ss_end hi = ss_end_at(b + range, v, t, root, base, early);
    const gpumc_real mean_S = (hi.total - lo.total) * inv;                 /* less 1 where early */
    const ss_part closed = { base, early ? 1 + mean_S : mean_S, (hi.survivor - lo.survivor) * inv,
                             (hi.survivor - mean_S) * inv, (hi.by_v - lo.by_v) * inv,
                             -(v * ss_between(lo, hi, early) + (lo.phi - hi.phi) * root) * inv };
    ss_part mean = { 0, 0, 0, 0, 0, 0 };
    SS_SMALL_MEAN(ss_survival, b, range, v, t, &mean);
    return ss_either(ss_is_small(range, x_1, x_2, root), mean, closed);
}

/* As ss_race, at b range t0 v_won v_lost and the time of the response. */
GPUMC_FN gpumc_real ss_range_race(const gpumc_real *p, gpumc_real rt, gpumc_real *g)
{
    const gpumc_real t = rt - p[2];
    const ss_part f = ss_range_density(p[0], p[1], p[3], t), S = ss_range_survival(p[0], p[1], p[4], t);
    const gpumc_real by_f = 1 / f.value, by_S = 1 / S.value;
    g[0] += by_f * f.by_b + by_S * S.by_b;
    g[1] += by_f * f.by_range + by_S * S.by_range;
    g[2] -= by_f * f.by_t + by_S * S.by_t;
    g[3] += by_f * f.by_v;
    g[4] += by_S * S.by_v;
    return ss_if_after(t, f.log_base + S.log_base + gpumc_log(f.value) + gpumc_log(S.value));
}
GPUMC_ROW(ss_range_go, 5, 0, 1) { return ss_range_race(p, x[0], g); }
GPUMC_ROW(ss_range_failed, 9, 0, 3)
{
    return ss_range_race(p, x[0], g) + ss_not_stopped(p + 5, x[0] - x[1], x[2], g + 5);
}
/* Returns weight times S+ S- at t and adds its derivatives to g. */
GPUMC_FN gpumc_real ss_range_survive(const gpumc_real *p, gpumc_real t, gpumc_real weight, gpumc_real *g)
{
    const gpumc_real after = ss_max(t, GPUMC_R(1e-8));
    const ss_part plus = ss_range_survival(p[0], p[1], p[3], after);
    const ss_part minus = ss_range_survival(p[0], p[1], p[4], after);
    const gpumc_real one = gpumc_exp(plus.log_base), other = gpumc_exp(minus.log_base);
    const gpumc_real mass = weight * one * other;
    const gpumc_real by_plus = mass * minus.value, by_minus = mass * plus.value;
    g[0] += by_plus * plus.by_b + by_minus * minus.by_b;
    g[1] += by_plus * plus.by_range + by_minus * minus.by_range;
    g[2] -= by_plus * plus.by_t + by_minus * minus.by_t;
    g[3] += by_plus * plus.by_v;
    g[4] += by_minus * minus.by_v;
    return by_plus * plus.value;
}
GPUMC_CELLS(ss_range_stop, 10, 0, 3, 2)
{
    const ss_node node = ss_node_of(p + 5, x, x + 3, ss_on(p[0], p[2], ss_max(p[3], p[4]), x));
    const gpumc_real value = ss_range_survive(p, p[5] + p[6] * node.u + x[0] - p[2], node.mass, g);
    ss_push_node(node, p[6] / p[7], value, g + 5);
    return value;
}
GPUMC_FINISH(ss_range_stop)
{
    gpumc_real by[5] = { 0, 0, 0, 0, 0 }, scale[2];
    const gpumc_real on = ss_on(p[0], p[2], ss_max(p[3], p[4]), x);
    const gpumc_real late = ss_range_survive(p, x[2] - p[2], ss_timed(x), by);
    const gpumc_real value = ss_stopped(p + 5, x, on, late, sum[0], sum + 6, g + 5, scale);
    GPUMC__FLAT for (int k = 0; k < 5; k++) g[k] += scale[0] * sum[1 + k] + scale[1] * by[k];
    return value;
}

/* ---- BEESTS: ex-Gaussian go processes ------------------------------------------------------------- */

/* The log density of a go response at rt, with parameters mu sigma tau. */
GPUMC_FN gpumc_real ss_push_density(const gpumc_real *p, gpumc_real rt, gpumc_real *g)
{
    const gpumc_real u = (rt - p[0]) / p[1], a = p[1] / p[2], w = a - u, excess = gpumc_mills_excess(w);
    const gpumc_real above = -(GPUMC_R(0.5) * u * u + GPUMC_R(GPUMC_LOG_SQRT_2PI) + gpumc_log(w + excess));
    const gpumc_real below = a * (GPUMC_R(0.5) * a - u) + gpumc_log_Phi(-w);
    g[0] += (u - excess) / p[1];
    g[1] += (u * u - excess * (a + u)) / p[1];
    g[2] += (a * excess - 1) / p[2];
    return (w < 0 ? below : above) - gpumc_log(p[2]);
}
GPUMC_FN gpumc_real ss_push_tail(const gpumc_real *p, gpumc_real rt, gpumc_real *g)
{
    const ss_time at = ss_time_at(rt, p[0], p[1], p[2]);
    ss_push_log_tail(at, p[2], 1, g);
    return ss_log_tail(at);
}
/* The probability that an accumulator has not finished at a time, *survivor; adds its derivatives to by. */
GPUMC_FN void ss_linear_tail(const gpumc_real *p, gpumc_real time, gpumc_real *survivor, gpumc_real *by)
{
    const ss_time at = ss_time_at(time, p[0], p[1], p[2]);
    *survivor = gpumc_exp(at.log_base) * at.tail;
    ss_push_log_tail(at, p[2], *survivor, by);
}

/* Returns mass times the survivor of one go process at a time, or of two, and adds the derivatives to g. */
GPUMC_FN gpumc_real ss_one_survives(const gpumc_real *p, gpumc_real time, gpumc_real mass, gpumc_real *g)
{
    gpumc_real S, by[3] = { 0, 0, 0 };
    ss_linear_tail(p, time, &S, by);
    GPUMC__FLAT for (int k = 0; k < 3; k++) g[k] += mass * by[k];
    return mass * S;
}
GPUMC_FN gpumc_real ss_two_survive(const gpumc_real *p, gpumc_real time, gpumc_real mass, gpumc_real *g)
{
    gpumc_real S[2], by[6] = { 0, 0, 0, 0, 0, 0 };
    ss_linear_tail(p, time, &S[0], by);
    ss_linear_tail(p + 3, time, &S[1], by + 3);
    GPUMC__FLAT for (int k = 0; k < 6; k++) g[k] += mass * by[k] * S[k < 3];
    return mass * S[0] * S[1];
}
/* log Q(x), where nothing can fail; p, g: mu sigma tau. */
GPUMC_FN gpumc_real ss_running(const gpumc_real *p, gpumc_real x, gpumc_real truncation, gpumc_real *g)
{
    const ss_time at = ss_time_at(x, p[0], p[1], p[2]), first = ss_time_at(truncation, p[0], p[1], p[2]);
    const gpumc_real begun = truncation < x ? 1 : 0, log_Q = ss_log_tail(at) - ss_log_tail(first);
    ss_push_log_tail(at, p[2], begun, g);
    ss_push_log_tail(first, p[2], -begun, g);
    return truncation < x ? log_Q : 0;
}
/* As ss_stopped, by mu sigma tau alone: with these probits neither process fails. */
GPUMC_FN gpumc_real ss_stopped_surely(const gpumc_real *p, const gpumc_real *x, gpumc_real late,
                                      gpumc_real integral, const gpumc_real *by, gpumc_real *g,
                                      gpumc_real *scale)
{
    const gpumc_real all[5] = { p[0], p[1], p[2], -40, -40 };
    gpumc_real of_all[5] = { 0, 0, 0, 0, 0 };
    const gpumc_real value = ss_stopped(all, x, x[1], late, integral, by, of_all, scale);
    GPUMC__FLAT for (int k = 0; k < 3; k++) g[k] += of_all[k];
    return value;
}

GPUMC_ROW(ss_beests_go, 3, 0, 1) { return ss_push_density(p, x[0], g); }
GPUMC_ROW(ss_beests_failed, 7, 0, 3)
{
    return ss_push_density(p, x[0], g) + ss_not_stopped(p + 3, x[0] - x[1], x[2], g + 3);
}
GPUMC_ROW(ss_beests_nofail_failed, 6, 0, 3)
{
    return ss_push_density(p, x[0], g) + ss_running(p + 3, x[0] - x[1], x[2], g + 3);
}
GPUMC_FN gpumc_real ss_beests_at_node(const gpumc_real *p, const gpumc_real *x, gpumc_real *g)
{
    const ss_node node = ss_node_of(p + 3, x, x + 3, x[1]);
    const gpumc_real value = ss_one_survives(p, p[3] + p[4] * node.u + x[0], node.mass, g);
    ss_push_node(node, p[4] / p[5], value, g + 3);
    return value;
}
GPUMC_CELLS(ss_beests_stop, 8, 0, 3, 2) { return ss_beests_at_node(p, x, g); }
GPUMC_FINISH(ss_beests_stop)
{
    gpumc_real by[3] = { 0, 0, 0 }, scale[2];
    const gpumc_real late = ss_one_survives(p, x[2], ss_timed(x), by);
    const gpumc_real value = ss_stopped(p + 3, x, x[1], late, sum[0], sum + 4, g + 3, scale);
    GPUMC__FLAT for (int k = 0; k < 3; k++) g[k] += scale[0] * sum[1 + k] + scale[1] * by[k];
    return value;
}
GPUMC_CELLS(ss_beests_nofail_stop, 6, 0, 3, 2) { return ss_beests_at_node(p, x, g); }
GPUMC_FINISH(ss_beests_nofail_stop)
{
    gpumc_real by[3] = { 0, 0, 0 }, scale[2];
    const gpumc_real late = ss_one_survives(p, x[2], ss_timed(x), by);
    const gpumc_real value = ss_stopped_surely(p + 3, x, late, sum[0], sum + 4, g + 3, scale);
    GPUMC__FLAT for (int k = 0; k < 3; k++) g[k] += scale[0] * sum[1 + k] + scale[1] * by[k];
    return value;
}

/* One process for each choice; the first has won. */
GPUMC_ROW(ss_beests2_go, 6, 0, 1) { return ss_push_density(p, x[0], g) + ss_push_tail(p + 3, x[0], g + 3); }
GPUMC_ROW(ss_beests2_failed, 10, 0, 3)
{
    return ss_push_density(p, x[0], g) + ss_push_tail(p + 3, x[0], g + 3)
         + ss_not_stopped(p + 6, x[0] - x[1], x[2], g + 6);
}
GPUMC_ROW(ss_beests2_nofail_failed, 9, 0, 3)
{
    return ss_push_density(p, x[0], g) + ss_push_tail(p + 3, x[0], g + 3)
         + ss_running(p + 6, x[0] - x[1], x[2], g + 6);
}
GPUMC_FN gpumc_real ss_beests2_at_node(const gpumc_real *p, const gpumc_real *x, gpumc_real *g)
{
    const ss_node node = ss_node_of(p + 6, x, x + 3, x[1]);
    const gpumc_real value = ss_two_survive(p, p[6] + p[7] * node.u + x[0], node.mass, g);
    ss_push_node(node, p[7] / p[8], value, g + 6);
    return value;
}
GPUMC_CELLS(ss_beests2_stop, 11, 0, 3, 2) { return ss_beests2_at_node(p, x, g); }
GPUMC_FINISH(ss_beests2_stop)
{
    gpumc_real by[6] = { 0, 0, 0, 0, 0, 0 }, scale[2];
    const gpumc_real late = ss_two_survive(p, x[2], ss_timed(x), by);
    const gpumc_real value = ss_stopped(p + 6, x, x[1], late, sum[0], sum + 7, g + 6, scale);
    GPUMC__FLAT for (int k = 0; k < 6; k++) g[k] += scale[0] * sum[1 + k] + scale[1] * by[k];
    return value;
}
GPUMC_CELLS(ss_beests2_nofail_stop, 9, 0, 3, 2) { return ss_beests2_at_node(p, x, g); }
GPUMC_FINISH(ss_beests2_nofail_stop)
{
    gpumc_real by[6] = { 0, 0, 0, 0, 0, 0 }, scale[2];
    const gpumc_real late = ss_two_survive(p, x[2], ss_timed(x), by);
    const gpumc_real value = ss_stopped_surely(p + 6, x, late, sum[0], sum + 7, g + 6, scale);
    GPUMC__FLAT for (int k = 0; k < 6; k++) g[k] += scale[0] * sum[1 + k] + scale[1] * by[k];
    return value;
}

/* ---- the baseline: the winner's density alone ------------------------------------------------------ */
GPUMC_ROW(ss_wald, 3, 0, 1)
{
    const gpumc_real t = x[0] - p[1], inv = 1 / t, d = p[0] - p[2] * t, slope = d * inv;
    g[0] += 1 / p[0] - slope;
    g[1] += GPUMC_R(1.5) * inv - slope * (p[2] + GPUMC_R(0.5) * slope);
    g[2] += d;
    return ss_if_after(t, gpumc_log(p[0]) - GPUMC_R(GPUMC_LOG_SQRT_2PI) - GPUMC_R(1.5) * gpumc__log_normal(t)
                          - GPUMC_R(0.5) * d * slope);
}

#endif
