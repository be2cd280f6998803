"""Posterior moments of eight schools (mu ~ normal(0, 5), tau ~ half-Cauchy(5)) for test_targets.c.

Given tau everything else is normal and integrates in closed form, so each moment is one integral over log
tau, taken with 30 digits.
    python3 known_targets.py >known_targets.h
"""
from mpmath import mp, mpf, quad, log, exp, sqrt

mp.dps = 30
EFFECT = [28, 8, -3, 7, -1, 1, 18, 12]
ERROR = [15, 10, 16, 11, 9, 11, 10, 18]


def given(log_tau):
    """Weight of log tau, then means and covariances of mu and theta at that value."""
    t2 = exp(2 * log_tau)
    precision = [1 / (mpf(s) ** 2 + t2) for s in ERROR]
    v = 1 / (mpf(1) / 25 + sum(precision))
    m = v * sum(p * y for p, y in zip(precision, EFFECT))
    # log p(y | tau): y is normal around mu with these precisions, mu normal around 0
    lp = sum(log(p) for p in precision) / 2 + log(v) / 2
    lp -= (sum(p * mpf(y) ** 2 for p, y in zip(precision, EFFECT)) - m ** 2 / v) / 2
    lp += log_tau - log(1 + t2 / 25)                   # the prior of tau and the Jacobian
    w = [t2 / (t2 + mpf(s) ** 2) for s in ERROR]
    theta = [wj * y + (1 - wj) * m for wj, y in zip(w, EFFECT)]
    variance = [mpf(s) ** 2 * wj + (1 - wj) ** 2 * v for wj, s in zip(w, ERROR)]
    return exp(lp + 30), m, v, theta, variance, [(1 - wj) * v for wj in w]


def expectation(f):
    return quad(lambda u: f(u, *given(u)), [-14, -4, -1, 0, 1, 2, 3, 4, 6, 10, 20])


def main():
    total = expectation(lambda u, p, *_: p)
    mean = [expectation(lambda u, p, *_: p * u) / total, expectation(lambda u, p, m, *_: p * m) / total]
    mean += [expectation(lambda u, p, m, v, th, *_, j=j: p * th[j]) / total for j in range(8)]
    variance = [expectation(lambda u, p, *_: p * (u - mean[0]) ** 2) / total,
                expectation(lambda u, p, m, v, *_: p * (v + (m - mean[1]) ** 2)) / total]
    tau_theta, mu_theta = [], []
    for j in range(8):
        at = mean[2 + j]
        variance.append(expectation(lambda u, p, m, v, th, vt, c: p * (vt[j] + (th[j] - at) ** 2)) / total)
        tau_theta.append(expectation(lambda u, p, m, v, th, vt, c: p * (u - mean[0]) * (th[j] - at)) / total)
        mu_theta.append(expectation(
            lambda u, p, m, v, th, vt, c: p * (c[j] + (m - mean[1]) * (th[j] - at))) / total)
    print('/* Made by known_targets.py: eight schools, in the order log tau, mu, theta[1..8]. */')
    for name, values in [('mean', mean), ('variance', variance), ('log_tau_theta', tau_theta),
                         ('mu_theta', mu_theta)]:
        print('static const double schools_%s[%d] = {' % (name, len(values)))
        for value in values:
            print('    %s,' % mp.nstr(value, 17))
        print('};')


main()
