#!/usr/bin/env python3
"""Writes known_dist.h: densities, cdfs, quantiles, moments and all their partial derivatives at 60 digits
(mpmath).

Only densities and cdfs are defined here; derivatives are central differences at high precision, so they
share no derivation with gpumc.h. Every value comes with its sensitivity sum_j |x_j d value / d x_j|, from which
a test computes how much error the rounding of the arguments alone may cause.

    python3 known_dist.py > known_dist.h        (a minute)
"""
from mpmath import mp, mpf, log, exp, sqrt, pi, erfc, erf, gamma, loggamma, atan, log1p, expm1, inf
from mpmath import besseli, cos, matrix, det, inverse, euler, isinf, isnan, nan, sin

mp.dps = 60
STEP = mpf(10) ** -18


def positive_series(ratio):
    """1 + r(0) + r(0) r(1) + ..., all terms positive: nothing cancels."""
    total, term, n = mpf(1), mpf(1), 0
    while term > total * mpf(10) ** -mp.dps:
        term *= ratio(n)
        total += term
        n += 1
    return total


def beta_series(a, b, x):
    """DLMF 8.17.8"""
    series = positive_series(lambda n: (a + b + n) / (a + 1 + n) * x)
    return exp(a * log(x) + b * log1p(-x) - lbeta(a, b)) / a * series


def I(a, b, x):
    """Regularised incomplete beta function, from the nearer end unless that loses more than 15 digits."""
    a, b, x = mpf(a), mpf(b), mpf(x)
    if x > min(a / (a + b), mpf("0.9")):
        rest = 1 - beta_series(b, a, 1 - x)
        if x > a / (a + b) or rest > mpf("1e-15"):
            return rest
    return beta_series(a, b, x)


def P(a, x):
    """Regularised lower incomplete gamma function: DLMF 8.11.4, or the complement of Q."""
    a, x = mpf(a), mpf(x)
    if x > a + 1:
        return 1 - Q(a, x)
    return exp(a * log(x) - x - loggamma(a + 1)) * positive_series(lambda n: x / (a + 1 + n))


def Q(a, x):
    """Regularised upper incomplete gamma function: the continued fraction DLMF 8.9.2 by Lentz's method."""
    a, x = mpf(a), mpf(x)
    if x <= a + 1:
        return 1 - P(a, x)
    b, c = x + 1 - a, mpf(10) ** 200
    d = 1 / b
    h, change, n = d, mpf(2), 0
    while abs(change - 1) > mpf(10) ** -mp.dps:
        n += 1
        b += 2
        d = 1 / (b - n * (n - a) * d)
        c = b - n * (n - a) / c
        change = c * d
        h *= change
    return exp(a * log(x) - x - loggamma(a)) * h


def Phi(z):
    return erfc(-z / sqrt(mpf(2))) / 2


def lbeta(a, b):
    return loggamma(a) + loggamma(b) - loggamma(a + b)


def lchoose(n, k):
    return loggamma(n + 1) - loggamma(k + 1) - loggamma(n - k + 1)


def logit_inv(x):
    return 1 / (1 + exp(-x))


def t_tail(z, nu):
    """P(T > |z|)"""
    return I(nu / 2, mpf(1) / 2, nu / (nu + z * z)) / 2


def t_lpdf(z, nu):
    return loggamma((nu + 1) / 2) - loggamma(nu / 2) - log(nu * pi) / 2 - (nu + 1) / 2 * log1p(z * z / nu)


def half_t_mean(nu):
    return 2 * sqrt(nu / pi) * gamma((nu + 1) / 2) / gamma(nu / 2) / (nu - 1)


def cauchy_tail(z):
    return atan(1 / abs(z)) / pi if z else mpf(1) / 2


def laplace_cdf(z):
    return exp(z) / 2 if z < 0 else 1 - exp(-z) / 2


def beta_lpdf(y, a, b):
    return (a - 1) * log(y) + (b - 1) * log1p(-y) - lbeta(a, b)


def nb_lpmf(y, mu, phi):
    return lchoose(y + phi - 1, y) + y * log(mu / (mu + phi)) + phi * log(phi / (mu + phi))


def bb_lpmf(y, n, a, b):
    return lchoose(n, y) + lbeta(y + a, n - y + b) - lbeta(a, b)


def passed(y, m, s, r):
    """P(X < y < X + T) for X ~ normal(m, s), T ~ exponential(r)"""
    return exp(r * (m - y) + (r * s) ** 2 / 2) * Phi((y - m) / s - r * s)


def owen(h, a):
    """Owen's T for h, a > 0 (Owen 1956), with the digits that its alternating sum loses, and those that the difference
    to T(h, infinity) loses."""
    half = h * h / 2
    with mp.workdps(mp.dps + 20 + int(half * (1 + a * a))):
        terms, power = [exp(-half)], mpf(a)
        while terms[-1] * max(power, 1) > mpf(10) ** -mp.dps or len(terms) < half * max(a * a, 1):
            terms.append(terms[-1] * half / len(terms))
            power *= a * a
        rest, total = mpf(0), mpf(0)
        for j in range(len(terms) - 1, -1, -1):     # rest: the sum of the terms after j
            total += (-1) ** j * rest * power / (2 * j + 1)
            rest += terms[j]
            power /= a * a
        return (atan(a) - total) / (2 * pi)


def skew_tail(z, alpha):
    """P(Y <= z) of a standard skew normal Y, which depends on T by a sum or a difference of the normal tail's."""
    if z > 0:
        return 1 - skew_tail(-z, -alpha)
    if alpha < 0 and (z * alpha) ** 2 > 300:    # T beyond alpha is nothing in 60 digits
        return 2 * Phi(z)
    with mp.workdps(mp.dps + 20 + int(z * z * (1 + alpha * alpha))):
        t = owen(-z, abs(alpha)) if alpha else 0
        return Phi(z) - 2 * t if alpha > 0 else Phi(z) + 2 * t


def skew_delta(alpha):
    return alpha / sqrt(1 + alpha ** 2)


def unbend(y, m, s, xi):
    return log1p(xi * (y - m) / s) / xi if xi else (y - m) / s


# family: (lpdf, cdf, ccdf, mean, variance)
def location_scale(lpdf, cdf, ccdf, mean, variance):
    return (lambda y, m, s: lpdf((y - m) / s) - log(s), lambda y, m, s: cdf((y - m) / s),
            lambda y, m, s: ccdf((y - m) / s), lambda m, s: mean(m, s), lambda m, s: variance(m, s))


std_lpdf = lambda z: -z * z / 2 - log(2 * pi) / 2
FAMILIES = {
    "normal": location_scale(std_lpdf, Phi, lambda z: Phi(-z), lambda m, s: m, lambda m, s: s * s),
    "std_normal": (std_lpdf, Phi, lambda z: Phi(-z), lambda: mpf(0), lambda: mpf(1)),
    "student_t": (
        lambda y, nu, m, s: t_lpdf((y - m) / s, nu) - log(s),
        lambda y, nu, m, s: t_tail((y - m) / s, nu) if y < m else 1 - t_tail((y - m) / s, nu),
        lambda y, nu, m, s: t_tail((y - m) / s, nu) if y > m else 1 - t_tail((y - m) / s, nu),
        lambda nu, m, s: m if nu > 1 else nan,
        lambda nu, m, s: s * s * nu / (nu - 2) if nu > 2 else (inf if nu > 1 else nan)),
    "cauchy": location_scale(
        lambda z: -log1p(z * z) - log(pi),
        lambda z: cauchy_tail(z) if z < 0 else 1 - cauchy_tail(z),
        lambda z: cauchy_tail(z) if z > 0 else 1 - cauchy_tail(z),
        lambda m, s: nan,
        lambda m, s: nan),
    "laplace": location_scale(
        lambda z: -abs(z) - log(2),
        laplace_cdf,
        lambda z: laplace_cdf(-z),
        lambda m, s: m,
        lambda m, s: 2 * s * s),
    "logistic": location_scale(
        lambda z: -z - 2 * log1p(exp(-z)),
        logit_inv,
        lambda z: logit_inv(-z),
        lambda m, s: m,
        lambda m, s: pi ** 2 / 3 * s * s),
    "gumbel": location_scale(
        lambda z: -z - exp(-z),
        lambda z: exp(-exp(-z)),
        lambda z: -expm1(-exp(-z)),
        lambda m, s: m + euler * s,
        lambda m, s: pi ** 2 / 6 * s * s),
    "gev": (
        lambda y, m, s, xi: -(1 + xi) * unbend(y, m, s, xi) - exp(-unbend(y, m, s, xi)) - log(s),
        lambda y, m, s, xi: exp(-exp(-unbend(y, m, s, xi))),
        lambda y, m, s, xi: -expm1(-exp(-unbend(y, m, s, xi))),
        lambda m, s, xi: m + s * ((gamma(1 - xi) - 1) / xi if xi else euler) if xi < 1 else inf,
        lambda m, s, xi: s * s * ((gamma(1 - 2 * xi) - gamma(1 - xi) ** 2) / xi ** 2 if xi else pi ** 2 / 6)
        if xi < 0.5 else (inf if xi < 1 else nan)),
    "exp_mod_normal": (
        lambda y, m, s, r: log(r) + r * (m - y) + (r * s) ** 2 / 2 + log(Phi((y - m) / s - r * s)),
        lambda y, m, s, r: Phi((y - m) / s) - passed(y, m, s, r),
        lambda y, m, s, r: Phi((m - y) / s) + passed(y, m, s, r),
        lambda m, s, r: m + 1 / r,
        lambda m, s, r: s * s + 1 / r ** 2),
    "skew_normal": (
        lambda y, m, s, a: log(2) + std_lpdf((y - m) / s) + log(Phi(a * (y - m) / s)) - log(s),
        lambda y, m, s, a: skew_tail((y - m) / s, a),
        lambda y, m, s, a: skew_tail((m - y) / s, -a),
        lambda m, s, a: m + s * skew_delta(a) * sqrt(2 / pi),
        lambda m, s, a: s * s * (1 - 2 / pi * skew_delta(a) ** 2)),
    "lognormal": (
        lambda y, m, s: std_lpdf((log(y) - m) / s) - log(s * y),
        lambda y, m, s: Phi((log(y) - m) / s),
        lambda y, m, s: Phi((m - log(y)) / s),
        lambda m, s: exp(m + s * s / 2),
        lambda m, s: expm1(s * s) * exp(2 * m + s * s)),
    "inv_gaussian": (
        lambda y, m, s: log(s / (2 * pi * y ** 3)) / 2 - s * (y - m) ** 2 / (2 * m * m * y),
        lambda y, m, s: Phi(sqrt(s / y) * (y / m - 1)) + exp(2 * s / m) * Phi(-sqrt(s / y) * (y / m + 1)),
        lambda y, m, s: Phi(-sqrt(s / y) * (y / m - 1)) - exp(2 * s / m) * Phi(-sqrt(s / y) * (y / m + 1)),
        lambda m, s: m,
        lambda m, s: m ** 3 / s),
    "exponential": (
        lambda y, r: log(r) - r * y,
        lambda y, r: -expm1(-r * y),
        lambda y, r: exp(-r * y),
        lambda r: 1 / r,
        lambda r: 1 / r ** 2),
    "gamma": (
        lambda y, a, r: a * log(r) + (a - 1) * log(y) - r * y - loggamma(a),
        lambda y, a, r: P(a, r * y),
        lambda y, a, r: Q(a, r * y),
        lambda a, r: a / r,
        lambda a, r: a / r ** 2),
    "inv_gamma": (
        lambda y, a, s: a * log(s) - (a + 1) * log(y) - s / y - loggamma(a),
        lambda y, a, s: Q(a, s / y),
        lambda y, a, s: P(a, s / y),
        lambda a, s: s / (a - 1) if a > 1 else inf,
        lambda a, s: s * s / ((a - 1) ** 2 * (a - 2)) if a > 2 else (inf if a > 1 else nan)),
    "chi_square": (
        lambda y, nu: (nu / 2 - 1) * log(y) - y / 2 - nu / 2 * log(2) - loggamma(nu / 2),
        lambda y, nu: P(nu / 2, y / 2),
        lambda y, nu: Q(nu / 2, y / 2),
        lambda nu: nu,
        lambda nu: 2 * nu),
    "weibull": (
        lambda y, k, s: log(k / s) + (k - 1) * log(y / s) - (y / s) ** k,
        lambda y, k, s: -expm1(-(y / s) ** k),
        lambda y, k, s: exp(-(y / s) ** k),
        lambda k, s: s * gamma(1 + 1 / k),
        lambda k, s: s * s * (gamma(1 + 2 / k) - gamma(1 + 1 / k) ** 2)),
    "loglogistic": (
        lambda y, s, k: log(k / s) + (k - 1) * log(y / s) - 2 * log1p((y / s) ** k),
        lambda y, s, k: 1 / (1 + (s / y) ** k),
        lambda y, s, k: 1 / (1 + (y / s) ** k),
        lambda s, k: s * pi / k / sin(pi / k) if k > 1 else inf,
        lambda s, k: s * s * (2 * pi / k / sin(2 * pi / k) - (pi / k / sin(pi / k)) ** 2) if k > 2
        else (inf if k > 1 else nan)),
    "gen_pareto": (
        lambda y, m, s, xi: -(1 + xi) * unbend(y, m, s, xi) - log(s),
        lambda y, m, s, xi: -expm1(-unbend(y, m, s, xi)),
        lambda y, m, s, xi: exp(-unbend(y, m, s, xi)),
        lambda m, s, xi: m + s / (1 - xi) if xi < 1 else inf,
        lambda m, s, xi: s * s / (1 - xi) ** 2 / (1 - 2 * xi) if xi < 0.5 else (inf if xi < 1 else nan)),
    "pareto": (
        lambda y, l, k: log(k) + k * log(l) - (k + 1) * log(y),
        lambda y, l, k: 1 - (l / y) ** k,
        lambda y, l, k: (l / y) ** k,
        lambda l, k: l * k / (k - 1) if k > 1 else inf,
        lambda l, k: l * l * k / (k - 1) ** 2 / (k - 2) if k > 2 else (inf if k > 1 else nan)),
    "half_normal": (
        lambda y, s: std_lpdf(y / s) - log(s) + log(2),
        lambda y, s: erf(y / s / sqrt(mpf(2))),
        lambda y, s: erfc(y / s / sqrt(mpf(2))),
        lambda s: s * sqrt(2 / pi),
        lambda s: s * s * (1 - 2 / pi)),
    "half_cauchy": (
        lambda y, s: log(2 / pi) - log1p((y / s) ** 2) - log(s),
        lambda y, s: atan(y / s) * 2 / pi,
        lambda y, s: atan(s / y) * 2 / pi,
        lambda s: inf,
        lambda s: nan),
    "half_student_t": (
        lambda y, nu, s: t_lpdf(y / s, nu) - log(s) + log(2),
        lambda y, nu, s: 1 - 2 * t_tail(y / s, nu),
        lambda y, nu, s: 2 * t_tail(y / s, nu),
        lambda nu, s: s * half_t_mean(nu) if nu > 1 else inf,
        lambda nu, s: s * s * (nu / (nu - 2) - half_t_mean(nu) ** 2) if nu > 2 else (inf if nu > 1 else nan)),
    "beta": (
        beta_lpdf,
        lambda y, a, b: I(a, b, y),
        lambda y, a, b: I(b, a, 1 - y),
        lambda a, b: a / (a + b),
        lambda a, b: a * b / (a + b) ** 2 / (a + b + 1)),
    "beta_proportion": (
        lambda y, m, k: beta_lpdf(y, m * k, (1 - m) * k),
        lambda y, m, k: I(m * k, (1 - m) * k, y),
        lambda y, m, k: I((1 - m) * k, m * k, 1 - y),
        lambda m, k: m,
        lambda m, k: m * (1 - m) / (k + 1)),
    "uniform": (
        lambda y, a, b: -log(b - a),
        lambda y, a, b: (y - a) / (b - a),
        lambda y, a, b: (b - y) / (b - a),
        lambda a, b: (a + b) / 2,
        lambda a, b: (b - a) ** 2 / 12),
    "bernoulli": (
        lambda y, p: log(p if y else 1 - p),
        lambda y, p: 1 if y else 1 - p,
        lambda y, p: 0 if y else p,
        lambda p: p,
        lambda p: p * (1 - p)),
    "bernoulli_logit": (
        lambda y, e: -log1p(exp(-e if y else e)),
        lambda y, e: 1 if y else logit_inv(-e),
        lambda y, e: 0 if y else logit_inv(e),
        logit_inv,
        lambda e: logit_inv(e) * logit_inv(-e)),
    "binomial": (
        lambda y, n, p: lchoose(n, y) + y * log(p) + (n - y) * log1p(-p),
        lambda y, n, p: I(n - y, y + 1, 1 - p) if y < n else 1,
        lambda y, n, p: I(y + 1, n - y, p) if y < n else 0,
        lambda n, p: n * p,
        lambda n, p: n * p * (1 - p)),
    "binomial_logit": (
        lambda y, n, e: lchoose(n, y) - y * log1p(exp(-e)) - (n - y) * log1p(exp(e)),
        lambda y, n, e: I(n - y, y + 1, logit_inv(-e)) if y < n else 1,
        lambda y, n, e: I(y + 1, n - y, logit_inv(e)) if y < n else 0,
        lambda n, e: n * logit_inv(e),
        lambda n, e: n * logit_inv(e) * logit_inv(-e)),
    "beta_binomial": (
        bb_lpmf,
        lambda y, n, a, b: sum(exp(bb_lpmf(k, n, a, b)) for k in range(int(y) + 1)),
        lambda y, n, a, b: sum((exp(bb_lpmf(k, n, a, b)) for k in range(int(y) + 1, int(n) + 1)), mpf(0)),
        lambda n, a, b: n * a / (a + b),
        lambda n, a, b: n * a * b * (a + b + n) / ((a + b) ** 2 * (a + b + 1))),
    "poisson": (
        lambda y, l: y * log(l) - l - loggamma(y + 1),
        lambda y, l: Q(y + 1, l),
        lambda y, l: P(y + 1, l),
        lambda l: l,
        lambda l: l),
    "poisson_log": (
        lambda y, e: y * e - exp(e) - loggamma(y + 1),
        lambda y, e: Q(y + 1, exp(e)),
        lambda y, e: P(y + 1, exp(e)),
        exp,
        exp),
    "neg_binomial_2": (
        nb_lpmf,
        lambda y, mu, phi: I(phi, y + 1, phi / (phi + mu)),
        lambda y, mu, phi: I(y + 1, phi, mu / (phi + mu)),
        lambda mu, phi: mu,
        lambda mu, phi: mu + mu * mu / phi),
    "neg_binomial_2_log": (
        lambda y, e, phi: nb_lpmf(y, exp(e), phi),
        lambda y, e, phi: I(phi, y + 1, phi / (phi + exp(e))),
        lambda y, e, phi: I(y + 1, phi, exp(e) / (phi + exp(e))),
        lambda e, phi: exp(e),
        lambda e, phi: exp(e) + exp(2 * e) / phi),
    "geometric": (
        lambda y, p: log(p) + y * log1p(-p),
        lambda y, p: -expm1((y + 1) * log1p(-p)),
        lambda y, p: exp((y + 1) * log1p(-p)),
        lambda p: (1 - p) / p,
        lambda p: (1 - p) / p ** 2),
}
DISCRETE = {"bernoulli", "bernoulli_logit", "binomial", "binomial_logit", "poisson", "poisson_log",
            "neg_binomial_2",
            "neg_binomial_2_log", "geometric", "beta_binomial"}
TRIALS = {"binomial", "binomial_logit", "beta_binomial"}

Z = [-40, -8.25, -1.5, -0.01, 0.375, 2, 6, 40]           # standardised points, both far tails among them
POSITIVE = [1e-12, 0.015625, 0.7, 1.75, 9]
POINTS = {
    "normal": [(0.7 + 1.3 * z, 0.7, 1.3) for z in Z],
    "std_normal": [(z,) for z in Z],
    "student_t": [(0.7 + 1.3 * z, nu, 0.7, 1.3) for nu in (0.8, 4.5, 30) for z in (-40, -2.5, -0.01, 0.375, 6,
                                                                                   1000)]
                 + [(2.5, 1e5, 0, 1)],
    "cauchy": [(0.7 + 1.3 * z, 0.7, 1.3) for z in Z + [1e8, -1e8]],
    "laplace": [(0.7 + 1.3 * z, 0.7, 1.3) for z in Z],
    "logistic": [(0.7 + 1.3 * z, 0.7, 1.3) for z in Z + [500, -500]],
    "gumbel": [(0.7 + 1.3 * z, 0.7, 1.3) for z in (-6, -3.3, -1.5, -0.4, 0.01, 0.6, 2, 40, 800)],
    "gev": [(0.7 + 1.3 * z, 0.7, 1.3, xi) for xi in (0, 1e-12, -3e-5, 0.01, 0.3, -0.2, 1.5, -1.25)
            for z in (-3, -0.6, -0.01, 0.375, 0.7, 4, 30) if xi * z > -1] + [(1e5, 0, 1, 0.75), (-1e3, 0, 1, -0.25)],
    "exp_mod_normal": [(0.7 + 1.3 * z, 0.7, 1.3, r) for r in (1e-3, 0.4, 3, 40)
                       for z in (-40, -6, -1.5, 0.01, 2, 8.5, 40)],
    "skew_normal": [(0.7 + 1.3 * z, 0.7, 1.3, a) for a in (-2.5, 0.375, 3) for z in (-4, -1.5, -0.3, 0, 0.375,
                                                                                    2, 4)]
                   + [(z, 0, 1, a) for z, a in ((-12, 0.25), (9, 0.25), (-0.004, 200), (0.004, 200), (1.5, 200),
                                                (-0.0625, -20), (5, 0.01))],
    "lognormal": [(y, 0.7, 1.3) for y in POSITIVE + [1e6]],
    "inv_gaussian": [(y, m, s) for m, s in ((1.5, 2.5), (0.4, 30), (3, 0.08)) for y in (0.001, 0.3, 1.4, 9, 200)],
    "exponential": [(y, 1.7) for y in POSITIVE + [300]],
    "gamma": [(y, a, 1.7) for a in (0.05, 0.8, 3.5) for y in (1e-12, 0.7, 9)]
             + [(y, 150.0, 2.5) for y in (20, 58, 61, 130)] + [(1e4, 1e4, 1.01)],
    "inv_gamma": [(y, a, 1.7) for a in (0.8, 3.5, 40) for y in (0.03, 0.7, 9)],
    "chi_square": [(y, nu) for nu in (1, 2, 7.5, 120) for y in (0.015625, 1.75, 60)],
    "weibull": [(y, k, 1.3) for k in (0.6, 1, 2.5) for y in (1e-12, 0.7, 1.75, 9)],
    "loglogistic": [(y, 1.3, k) for k in (0.6, 1, 2.5, 80) for y in (1e-12, 0.7, 1.75, 9)],
    "gen_pareto": [(0.7 + 1.3 * z, 0.7, 1.3, xi) for xi in (0, 1e-12, -3e-5, 0.01, 0.3, -0.2, 1.5, -1.25)
                   for z in (0.001, 0.375, 0.7, 4, 30) if xi * z > -1] + [(1e5, 0, 1, 0.75), (3.99, 0, 1, -0.25)],
    "pareto": [(y, 0.5, k) for k in (0.4, 1.5, 6) for y in (0.50390625, 0.7, 9, 1e4)],
    "half_normal": [(y, 1.3) for y in POSITIVE + [50]],
    "half_cauchy": [(y, 1.3) for y in POSITIVE + [1e8]],
    "half_student_t": [(y, nu, 1.3) for nu in (0.8, 4.5) for y in (1e-6, 0.7, 9, 1000)],
    "beta": [(y, a, b) for a, b in ((0.3, 0.6), (2.5, 1.5), (40, 7)) for y in (1e-9, 0.15, 0.5, 0.93)]
            + [(0.45, 500, 600), (0.999, 3, 0.05)],
    "beta_proportion": [(y, m, k) for m, k in ((0.25, 1.5), (0.7, 30)) for y in (1e-9, 0.15, 0.5, 0.93)],
    "uniform": [(y, -1.25, 3.5) for y in (-1.2499999, -1, 0.3, 3.4, 3.4999999)],
    "bernoulli": [(0, 0.3), (1, 0.3), (0, 1e-12), (1, 1e-12)],
    "bernoulli_logit": [(0, 1.5), (1, 1.5), (0, -40), (1, -40), (0, 40), (1, 300)],
    "binomial": [(y, n, p) for n, p in ((1, 0.4), (20, 0.3), (500, 0.02)) for y in (0, 1, n)]
                + [(7, 20, 0.3), (400, 1000, 0.5), (90000, 100000, 0.9)],
    "binomial_logit": [(y, 20, e) for e in (-1.5, 0.8, 30) for y in (0, 7, 20)] + [(400, 1000, 0.1)],
    "beta_binomial": [(y, n, a, b) for n, a, b in ((1, 0.4, 2), (20, 0.3, 0.6), (50, 1, 1), (400, 30, 7))
                      for y in (0, 1, n // 2, n)] + [(7, 20, 1e8, 3e8), (150, 300, 2e4, 1.9e4)],
    "poisson": [(y, l) for l in (0.02, 3.7, 60) for y in (0, 1, 5, 90)] + [(10050, 10000)],
    "poisson_log": [(y, e) for e in (-4, 1.3, 4.1) for y in (0, 1, 5, 90)],
    "neg_binomial_2": [(y, mu, phi) for mu, phi in ((0.6, 0.3), (8, 2.5), (30, 400)) for y in (0, 1, 12, 70)]
                      + [(6, 5, 1e9)],
    "neg_binomial_2_log": [(y, e, phi) for e, phi in ((-1, 0.3), (2.1, 2.5), (3.4, 400)) for y in (0, 1, 12,
                                                                                                   70)],
    "geometric": [(y, p) for p in (1e-6, 0.3, 0.9) for y in (0, 1, 12, 70)],
}


def slots(family):
    """The arguments that are not differentiated: y of discrete families, and n."""
    skip = {0} if family in DISCRETE else set()
    return skip | ({1} if family in TRIALS else set())


def step(x):
    return STEP * max(abs(x), mpf(10) ** -6)


def gradient(f, x, skip):
    g = []
    for i in range(len(x)):
        if i in skip:
            g.append(mpf(0))
            continue
        h = step(x[i])
        up, down = list(x), list(x)
        up[i] += h
        down[i] -= h
        g.append((f(*up) - f(*down)) / (2 * h))
    return g


def log_of(share, rest):
    """Log of a probability, computed from the smaller of it and its complement, so that no digits are lost."""
    def value(*x):
        r = mpf(rest(*x))
        return log1p(-r) if r < 0.5 else (log(share(*x)) if share(*x) > 0 else -inf)
    return value


def known(f, x, skip):
    """Value, gradient and the sensitivity of each of them."""
    v = f(*x)
    if isinf(v) or v == 0:
        return [v] + [mpf(0)] * 4, [mpf(0)] * 5
    g = gradient(f, x, skip)
    sens = [sum(abs(a * b) for a, b in zip(x, g))] + [mpf(0)] * 4
    for j in range(len(x)):
        if j in skip:
            continue
        h = step(x[j]) * mpf(10) ** 8
        up = list(x)
        up[j] += h
        for i, (a, b) in enumerate(zip(gradient(f, up, skip), g)):
            sens[i + 1] += abs(x[j] * (a - b) / h)
    return [v] + g + [mpf(0)] * (4 - len(g)), sens


def number(v):
    v = mpf(v)
    if isnan(v):
        return "NAN"
    if isinf(v) or abs(v) > mpf("1.79e308"):
        return "INFINITY" if v > 0 else "-INFINITY"
    return repr(float(v)) if v else "0"


def braces(values):
    return "{ " + ", ".join(number(v) for v in values) + " }"


def print_points():
    print("static const known_point known_points[] = {")
    for family, points in POINTS.items():
        lpdf, cdf, ccdf = FAMILIES[family][:3]
        for point in points:
            x = [mpf(float(v)) for v in point]
            skip = slots(family)
            rows = []
            for f in (lpdf, log_of(cdf, ccdf), log_of(ccdf, cdf)):
                rows += known(f, x, skip)
            print('    { "%s", %s, %s,' % (family, number(x[0]), braces(x[1:] or [0])))
            print(",\n".join("      " + braces(r) for r in rows) + " },")
    print("};\n")


def continuous_quantile(f, p, y):
    lpdf, cdf, ccdf = f
    for _ in range(200):
        x = list(y)
        gap = log(cdf(*x)) - log(p) if p < 0.5 else log1p(-p) - log(ccdf(*x))
        slope = exp(lpdf(*x)) / (cdf(*x) if p < 0.5 else ccdf(*x))
        x[0] -= gap / slope
        if abs(x[0] - y[0]) <= abs(x[0]) * mpf(10) ** -40:
            return x
        y = x
    raise ValueError("no quantile")


def print_quantiles():
    print("static const known_quantile known_quantiles[] = {")
    for family, points in POINTS.items():
        lpdf, cdf, ccdf, mean, variance = FAMILIES[family]
        for point in points:
            x = [mpf(float(v)) for v in point]
            c = mpf(cdf(*x))
            if family in DISCRETE:
                before = mpf(cdf(x[0] - 1, *x[1:])) if x[0] > 0 else mpf(0)
                p = mpf(float((c + before) / 2))
                if not before < p < c or c - before < mpf("1e-9"):
                    continue
                q, sens = x[0], mpf(0)
            else:
                p = mpf(float(c))
                if p < mpf("1e-250") or 1 - p < mpf("1e-9"):
                    continue
                x = continuous_quantile((lpdf, cdf, ccdf), p, x)
                density = exp(lpdf(*x))
                moved = gradient(cdf, x, {0})
                q, sens = x[0], (p + sum(abs(a * b) for a, b in zip(x, moved))) / density
            t = x[1:]
            numbers = [number(v) for v in (q, sens, mean(*t), variance(*t))]
            print('    { "%s", %s, %s, %s },' % (family, number(p), braces(t or [0]), ", ".join(numbers)))
    print("};\n")


# ---- families of vectors: a dictionary of named inputs, one function of all of them
def categorical(k, eta):
    return eta[k] - log(sum(exp(e) for e in eta))


def ordered(k, eta, cut):
    lower = logit_inv(cut[k - 1] - eta) if k > 0 else mpf(0)
    upper = logit_inv(cut[k] - eta) if k < len(cut) else mpf(1)
    return log(upper - lower) if upper < mpf("0.5") else log((1 - lower) - (1 - upper))


def ordered_probit(k, eta, cut):
    lower = cut[k - 1] - eta if k > 0 else -inf
    upper = cut[k] - eta if k < len(cut) else inf
    outside = Phi(lower) + Phi(-upper)
    if outside < 0.5:
        return log1p(-outside)
    return log(Phi(upper) - Phi(lower)) if upper < 0 else log(Phi(-lower) - Phi(-upper))


def square(flat):
    n = int(sqrt(mpf(len(flat))) + mpf("0.5"))
    return matrix([[flat[i * n + j] for j in range(n)] for i in range(n)])


def normal_cov(y, mu, cov):
    d = matrix([a - b for a, b in zip(y, mu)])
    return -(d.T * inverse(cov) * d)[0] / 2 - log(det(cov)) / 2 - len(y) * log(2 * pi) / 2


def normal_factor(y, mu, flat):
    L = square(flat)
    return normal_cov(y, mu, L * L.T)


def student_factor(y, nu, mu, flat):
    L, n, d = square(flat), len(y), matrix([a - b for a, b in zip(y, mu)])
    distance = (d.T * inverse(L * L.T) * d)[0]
    return (loggamma((nu + n) / 2) - loggamma(nu / 2) - log(nu * pi) * n / 2 - log(det(L * L.T)) / 2
            - (nu + n) / 2 * log1p(distance / nu))


def normal_symmetric(y, mu, flat):
    S = square(flat)
    return normal_cov(y, mu, (S + S.T) / 2)


def dirichlet(x, alpha):
    return loggamma(sum(alpha)) + sum((a - 1) * log(v) - loggamma(a) for v, a in zip(x, alpha))


def lkj(flat, eta):
    """Normalised over the matrix as in Lewandowski et al. (2009), then the Jacobian from L to L L'."""
    L, K = square(flat), int(sqrt(mpf(len(flat))) + mpf("0.5"))
    total = mpf(0)
    for k in range(1, K):
        b = eta + mpf(K - 1 - k) / 2
        total -= (2 * eta - 2 + K - k) * (K - k) * log(2) + (K - k) * lbeta(b, b)
    log_det = 2 * sum(log(L[i, i]) for i in range(1, K))
    return total + (eta - 1) * log_det + sum((K - 1 - i) * log(L[i, i]) for i in range(1, K))


def wiener(choice, y, alpha, tau, beta, delta):
    """By the method of images: sources at w + 2k for all |k| up to where they are negligible, with additional digits,
    because the sum may be small."""
    w, v = (1 - beta, -delta) if choice else (beta, delta)
    u = (y - tau) / alpha ** 2
    with mp.workdps(mp.dps + int(u * 3) + 20):
        reach = int(sqrt(u * mp.dps * 2)) + 5
        images = sum((w + 2 * k) * exp(-(w + 2 * k) ** 2 / (2 * u)) for k in range(-reach, reach + 1))
        return log(images / sqrt(2 * pi * u ** 3) / alpha ** 2) - v * alpha * w - v ** 2 * (y - tau) / 2


def inflated(y, theta, mu):
    base = exp(y * log(mu) - mu - loggamma(y + 1))
    return log((theta if y == 0 else 0) + (1 - theta) * base)


def von_mises(y, mu, kappa):
    return kappa * cos(y - mu) - log(2 * pi * besseli(0, kappa))


def multinomial(y, p):
    n = sum(y)
    return loggamma(n + 1) + sum(k * log(q) - loggamma(k + 1) for k, q in zip(y, p))


def unit_rows(rows):
    flat = []
    for i, row in enumerate(rows):
        norm = sqrt(sum(mpf(v) ** 2 for v in row))
        flat += [mpf(float(v / norm)) for v in row] + [mpf(0)] * (len(rows) - len(row))
    return flat


def lower(rows):
    return [mpf(v) for i, row in enumerate(rows) for v in list(row) + [0] * (len(rows) - len(row))]


def symmetric(rows):
    n = len(rows)
    return [mpf(rows[max(i, j)][min(i, j)]) for i in range(n) for j in range(n)]


L3 = lower([[1.3], [0.4, 0.75], [-0.6, 1.1, 2.25]])
S3 = symmetric([[2.5], [0.75, 1.5], [-0.5, 0.25, 3.0]])
Y3, MU3 = [0.5, -1.25, 2.0], [0.25, 0.5, -0.75]
LKJ4 = [[1], [0.5, 1.25], [-0.4, 0.3, 0.9], [0.2, -0.7, 0.6, 0.35]]
WIENER = [[t + 0.3, alpha, 0.3, beta, delta] for alpha, beta, delta in ((1.5, 0.5, 2.25), (0.8, 0.3, -1.5))
          for t in (0.02, 0.2, 0.7, 0.725, 3.0)] + [[0.21, 2.5, 0.2, 0.5, 0.0], [1.25, 1.0, 0.25, 0.96875, -6.0],
          [0.7, 1.75, -0.5, 0.0625, 4.0], [0.6, 2.0, 0.5, 0.984375, 1.0], [0.50001, 0.25, 0.5, 0.25, -9.0]]
VECTORS = [   # name, function of the lists, lists
    ("categorical_logit", lambda a: categorical(2, a), ([0.5, -1.25, 2.0, 0.75],), 2),
    ("categorical_logit", lambda a: categorical(1, a), ([700, -650.5, 2.0],), 1),
    ("ordered_logistic", lambda a, b: ordered(0, a[0], b), ([0.4], [-1.5, 0.25, 2.0]), 0),
    ("ordered_logistic", lambda a, b: ordered(2, a[0], b), ([0.4], [-1.5, 0.25, 2.0]), 2),
    ("ordered_logistic", lambda a, b: ordered(3, a[0], b), ([0.4], [-1.5, 0.25, 2.0]), 3),
    ("ordered_logistic", lambda a, b: ordered(1, a[0], b), ([-30.5], [-1.5, 0.25, 2.0]), 1),
    ("ordered_logistic", lambda a, b: ordered(1, a[0], b), ([35.0], [-1.5, -1.4999, 2.0]), 1),
] + [("ordered_probit", lambda a, b, k=k: ordered_probit(k, a[0], b), ([eta], cut), k)
     for eta, cut, ks in ((0.4, [-1.5, 0.25, 2.0], (0, 1, 2, 3)), (-30.5, [-1.5, 0.25, 2.0], (1, 2, 3)),
                          (35.0, [-1.5, -1.4999, 2.0], (0, 1, 2))) for k in ks] + [
    ("ordered_probit", lambda a, b: ordered_probit(1, a[0], b), ([0.5], [-7.0, 8.5]), 1),
    ("ordered_probit", lambda a, b: ordered_probit(1, a[0], b), ([0.125], [-0.25, 0.375]), 1),
    ("multi_normal_cholesky", normal_factor, (Y3, MU3, L3), 0),
    ("multi_normal_cholesky", normal_factor, ([0.5], [2.0], [1.75]), 0),
] + [("multi_student_t_cholesky", lambda a, b, c: student_factor(a[1:], a[0], b, c), ([nu] + Y3, MU3, L3), 0)
     for nu in (0.4, 4.5, 1e7)] + [
    ("multi_student_t_cholesky", lambda a, b, c: student_factor(a[1:], a[0], b, c), ([3.0, 50.0], [2.0], [1.75]), 0),
    ("multi_normal", normal_symmetric, (Y3, MU3, S3), 0),
    ("dirichlet", dirichlet, ([0.125, 0.5, 0.375], [0.4, 2.5, 1.0]), 0),
    ("dirichlet", dirichlet, ([0.25, 0.25, 0.375, 0.125], [1e4, 1.1e4, 1.4e4, 5e3]), 0),
    ("lkj_corr_cholesky", lambda a, b: lkj(a, b[0]), (unit_rows(LKJ4), [1.0]), 0),
    ("lkj_corr_cholesky", lambda a, b: lkj(a, b[0]), (unit_rows(LKJ4), [2.75]), 0),
    ("lkj_corr_cholesky", lambda a, b: lkj(a, b[0]), (unit_rows(LKJ4[:2]), [0.6]), 0),
    ("multinomial", multinomial, ([3, 0, 12, 1], [0.125, 0.25, 0.5, 0.125]), 0),
    ("multinomial", multinomial, ([52000, 23000, 25000], [0.5, 0.25, 0.25]), 0),
] + [("zero_inflated", lambda a, y=y: inflated(y, *a), ([theta, mu],), y)
     for theta, mu in ((0.25, 1.75), (0.984375, 30.0), (1e-6, 0.375), (1e-12, 27.0)) for y in (0, 3)
] + [("von_mises", lambda a: von_mises(*a), ([y, 0.4, k],), 0)
     for k in (1e-6, 0.3, 2.5, 11.9, 12.1, 40, 1e4) for y in (-2.5, 0.375, 7)
] + [("wiener", lambda a, c=c: wiener(c, *a), (x,), c) for c in (0, 1) for x in WIENER]


def print_vectors():
    print("static const known_vector known_vectors[] = {")
    for name, f, lists, y in VECTORS:
        flat = [mpf(float(v)) for part in lists for v in part]
        sizes = [len(part) for part in lists]
        free = lambda *a: f(*[list(a[sum(sizes[:i]):sum(sizes[:i + 1])]) for i in range(len(sizes))])
        skip = set()
        for i, part in enumerate(lists):    # the strict upper triangle of a factor is no argument
            if name.endswith("cholesky") and i == (0 if name.startswith("lkj") else 2):
                n = int(len(part) ** 0.5 + 0.5)
                skip |= {sum(sizes[:i]) + r * n + c for r in range(n) for c in range(r + 1, n)}
            if name == "multinomial" and i == 0:
                skip |= set(range(sizes[0]))
        g = gradient(free, flat, skip)
        sens = sum(abs(a * b) for a, b in zip(flat, g))
        print('    { "%s", %d, %s, %s, %s,' % (name, y, braces(sizes), number(free(*flat)), number(sens)))
        print("      " + braces(flat) + ",\n      " + braces(g) + " },")
    print("};\n")


def wrap(text):
    """Breaks lines of numbers at 110 columns."""
    out = []
    for line in text.split("\n"):
        while len(line) > 110:
            cut = line.rfind(", ", 0, 110) + 1
            out.append(line[:cut])
            line = "        " + line[cut:].lstrip()
        out.append(line)
    return "\n".join(out)


if __name__ == "__main__":
    import contextlib
    import io
    with contextlib.redirect_stdout(io.StringIO()) as text:
        print("""/* Made by known_dist.py; do not edit.
   Arrays of 5 hold a value and its derivatives by y and three parameters; the array after each holds
   sum_j |x_j d/dx_j| of those five. */
typedef struct known_point {
    const char *family;
    double y, t[3], density[5], density_sens[5], lower[5], lower_sens[5], upper[5], upper_sens[5];
} known_point;
typedef struct known_quantile {
    const char *family;
    double p, t[3], quantile, quantile_sens, mean, variance;
} known_quantile;
typedef struct known_vector {
    const char *family;
    int y;
    double sizes[3], value, sens, x[32], gradient[32];
} known_vector;
""")
        print_points()
        print_quantiles()
        print_vectors()
    print(wrap(text.getvalue()), end="")
