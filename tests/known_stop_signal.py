"""Log likelihoods of single trials and their derivatives by every parameter, for test_stop_signal.c, from the
definitions in examples/stop_signal_rows.h: textbook densities, the integral of a stop by quadrature, derivatives by
differences, all with 30 digits. (Models with a range of thresholds under that integral would take hours; other tests
cover them.)
"""
from mpmath import mp, mpf, erfc, exp, log, ncdf, quad, sqrt

mp.dps = 30
LIMIT = mpf('0.05')
NONE, NO_SIGNAL = 1e5, 1e6      # no deadline; a go trial


def density(t, b, v):
    return b / sqrt(2 * mp.pi * t ** 3) * exp(-(b - v * t) ** 2 / (2 * t)) if t > 0 else mpf(0)


def survivor(t, b, v):
    if t <= 0:
        return mpf(1)
    r = sqrt(t)
    return (erfc((v * t - b) / r / sqrt(mpf(2))) - exp(2 * b * v) * erfc((b + v * t) / r / sqrt(mpf(2)))) / 2


def over_range(f, t, b, width, v):
    return quad(lambda k: f(t, k, v), [b, b + width / 2, b + width]) / width


def finishing(x, mu, sigma, tau):
    return exp((mu - x) / tau + sigma ** 2 / (2 * tau ** 2)) / tau * ncdf((x - mu) / sigma - sigma / tau)


def later(x, mu, sigma, tau):
    return ncdf((mu - x) / sigma) + tau * finishing(x, mu, sigma, tau)


def rate(v, v0, reach):
    return v0 + max(-reach, min(reach, v - v0))


def not_stopped(x, stop, limit):
    q = later(x, *stop[:3]) / later(limit, *stop[:3]) if x > limit else 1
    ptf = ncdf(stop[3])
    return log(ptf + (1 - ptf) * q)


def stopped(running, stop, x, begin):
    """running(t): the probability that no go process has finished t seconds after the stimulus; x: delay,
    truncation, deadline, after which no response counts. Two probits, or none where nothing fails."""
    delay, limit, deadline = x
    mu, sigma, tau = stop[:3]
    pgf, ptf = [ncdf(y) for y in stop[3:]] or [0, 0]
    last = deadline - delay
    late = running(deadline) if deadline < NONE else 0
    if last <= limit:
        return log(pgf + (1 - pgf) * late)
    points = sorted({p for p in (limit, begin - delay, begin - delay + 0.03, mu, mu + sigma, mu + 4 * sigma,
                                 mu + 3 * tau, mu + 8 * sigma + 10 * tau, mu + 12 * sigma + 40 * tau)
                     if limit <= p < last} | ({last} if late else set()))
    P = quad(lambda s: finishing(s, mu, sigma, tau) * running(s + delay), points)
    P = (P + late * later(last, mu, sigma, tau)) / later(limit, mu, sigma, tau)
    return log(pgf + (1 - pgf) * (ptf * late + (1 - ptf) * P))


def ss_go(p, x):
    t = x[0] - p[1]
    return log(density(t, p[0], p[2]) * survivor(t, p[0], p[3]))


def ss_counts(p, x):
    return x[0] * log(ncdf(p[0])) + x[1] * log(ncdf(-p[0]))


def ss_failed(p, x):
    won, lost = rate(p[2], p[4], p[5] * x[1]), rate(p[3], p[4], p[5] * x[1])
    return ss_go([p[0], p[1], won, lost], x) + not_stopped(x[0] - x[1], p[6:], x[2])


def ss_stop(p, x):
    plus, minus = rate(p[2], p[4], p[5] * x[0]), rate(p[3], p[4], p[5] * x[0])
    return stopped(lambda s: survivor(s - p[1], p[0], plus) * survivor(s - p[1], p[0], minus),
                   p[6:], x, p[1])


def ss_rdex_failed(p, x):
    return ss_go(p[:4], x) + not_stopped(x[0] - x[1], p[4:], x[2])


def ss_rdex_stop(p, x):
    return stopped(lambda s: survivor(s - p[1], p[0], p[2]) * survivor(s - p[1], p[0], p[3]),
                   p[4:], x, p[1])


def ss_range_go(p, x):
    t = x[0] - p[2]
    return log(over_range(density, t, p[0], p[1], p[3]) * over_range(survivor, t, p[0], p[1], p[4]))


def ss_range_failed(p, x):
    return ss_range_go(p[:5], x) + not_stopped(x[0] - x[1], p[5:], x[2])


def ss_beests_go(p, x):
    return log(finishing(x[0], *p))


def ss_beests_failed(p, x):
    return ss_beests_go(p[:3], x) + not_stopped(x[0] - x[1], p[3:], x[2])


def ss_beests_stop(p, x):
    return stopped(lambda s: later(s, *p[:3]), p[3:], x, p[0])


def ss_beests_nofail_failed(p, x):
    return ss_beests_failed(p + [-mp.inf], x)


def ss_beests_nofail_stop(p, x):
    return ss_beests_stop(p, x)


def ss_beests2_go(p, x):
    return log(finishing(x[0], *p[:3]) * later(x[0], *p[3:]))


def ss_beests2_failed(p, x):
    return ss_beests2_go(p[:6], x) + not_stopped(x[0] - x[1], p[6:], x[2])


def ss_beests2_stop(p, x):
    return stopped(lambda s: later(s, *p[:3]) * later(s, *p[3:6]), p[6:], x, p[0])


def ss_beests2_nofail_failed(p, x):
    return ss_beests2_failed(p + [-mp.inf], x)


def ss_beests2_nofail_stop(p, x):
    return ss_beests2_stop(p, x)


def ss_wald(p, x):
    return log(density(x[0] - p[1], p[0], p[2]))


RACE = [1.25, 0.16, 3.25, 0.5]
GROWTH = [2.125, 5]
STOP = [0.1875, 0.046875, 0.078125]
FAST = [0.75, 0.203125, 5.5, 1.5]
RANGE = [0.875, 0.5, 0.171875, 3.25, 0.625]
GO, ERROR = [0.4375, 0.0625, 0.125], [0.625, 0.125, 0.15625]
PROBITS = [-1.875, -1.25]
CASES = [
    (ss_go, RACE, [0.53125]), (ss_go, RACE, [0.1875]), (ss_go, RACE, [4.5]), (ss_go, FAST, [0.328125]),
    (ss_go, [3, 0.4375, 1, 4], [0.9375]), (ss_go, [0.4375, 0.03125, 7, 0.125], [0.0625]),
    (ss_counts, [-1.875], [7, 291]), (ss_counts, [3], [2, 1]),
    (ss_failed, RACE + GROWTH + STOP + PROBITS[1:], [0.46875, 0.125, LIMIT]),
    (ss_failed, RACE[:2] + RACE[:1:-1] + GROWTH + STOP + PROBITS[1:], [0.609375, 0.34375, LIMIT]),
    (ss_failed, FAST + GROWTH + [0.5, 0.00390625, 0.25, -3], [1.25, 0.3125, LIMIT]),
    (ss_failed, RACE + GROWTH + [0.125, 0.125, 0.00390625, -4], [1.5, 0.0625, LIMIT]),
    (ss_failed, RACE + GROWTH + STOP + PROBITS[1:], [0.375, 0.34375, LIMIT]),
    (ss_stop, RACE + GROWTH + STOP + PROBITS, [0.1875, LIMIT, NONE]),
    (ss_stop, RACE + GROWTH + STOP + PROBITS, [0, LIMIT, NONE]),
    (ss_stop, RACE + GROWTH + STOP + PROBITS, [0.5625, LIMIT, NONE]),
    (ss_stop, FAST + [3, 0.75] + [0.046875, 0.0078125, 0.25] + PROBITS, [0.25, LIMIT, NONE]),
    (ss_stop, RACE + GROWTH + [0.25, 0.125, 0.0078125] + PROBITS, [0.125, LIMIT, NONE]),
    (ss_stop, RACE + GROWTH + STOP + PROBITS, [0.1875, LIMIT, 0.75]),
    (ss_stop, RACE + GROWTH + STOP + PROBITS, [0.375, LIMIT, 0.5]),
    (ss_stop, RACE + GROWTH + STOP + PROBITS, [0.5, LIMIT, 0.53125]),
    (ss_stop, FAST + [3, 0.75] + [0.046875, 0.0078125, 0.25] + PROBITS, [0.25, LIMIT, 0.5]),
    (ss_stop, RACE + GROWTH + STOP + PROBITS, [NO_SIGNAL, LIMIT, 0.625]),
    (ss_rdex_failed, RACE + STOP + PROBITS[1:], [0.46875, 0.125, LIMIT]),
    (ss_rdex_stop, RACE + STOP + PROBITS, [0.1875, LIMIT, NONE]),
    (ss_rdex_stop, RACE + STOP + PROBITS, [0.1875, LIMIT, 0.75]),
    (ss_range_go, RANGE, [0.53125]), (ss_range_go, RANGE, [0.21875]), (ss_range_go, RANGE, [2.5]),
    (ss_range_go, RANGE[:1] + [0.0625] + RANGE[2:], [0.46875]),
    (ss_range_go, RANGE[:1] + [1e-4] + RANGE[2:], [0.46875]),
    (ss_range_failed, RANGE + STOP + PROBITS[1:], [0.46875, 0.125, LIMIT]),
    (ss_beests_go, GO, [0.53125]), (ss_beests_failed, GO + STOP + PROBITS[1:], [0.5, 0.125, -1000]),
    (ss_beests_stop, GO + STOP + PROBITS, [0.25, LIMIT, NONE]),
    (ss_beests_stop, GO + STOP + PROBITS, [0.25, LIMIT, 0.625]),
    (ss_beests_stop, GO + STOP + PROBITS, [NO_SIGNAL, -1000, 0.75]),
    (ss_beests_nofail_failed, GO + STOP, [0.5, 0.125, -1000]),
    (ss_beests_nofail_failed, GO + STOP, [0.5, 0.46875, LIMIT]),
    (ss_beests_nofail_stop, GO + STOP, [0.25, LIMIT, NONE]),
    (ss_beests_nofail_stop, GO + STOP, [0.25, LIMIT, 0.625]),
    (ss_beests2_go, GO + ERROR, [0.53125]),
    (ss_beests2_failed, ERROR + GO + STOP + PROBITS[1:], [0.5, 0.125, LIMIT]),
    (ss_beests2_stop, GO + ERROR + STOP + PROBITS, [0.25, LIMIT, NONE]),
    (ss_beests2_stop, GO + ERROR + STOP + PROBITS, [0.25, LIMIT, 0.625]),
    (ss_beests2_nofail_failed, ERROR + GO + STOP, [0.5, 0.125, LIMIT]),
    (ss_beests2_nofail_stop, GO + ERROR + STOP, [0.25, LIMIT, NONE]),
    (ss_beests2_nofail_stop, GO + ERROR + STOP, [0.25, LIMIT, 0.625]),
    (ss_wald, [1.25, 0.16, 3.25], [0.4375]),
]


def main():
    print('/* Made by known_stop_signal.py: parameters, columns, log likelihood, its derivatives. */')
    print('typedef struct {\n    const gpumc_row_kind *kind;')
    print('    double p[11], x[3], value, by[11];\n} known_trial;')
    print('static const known_trial known_trials[] = {')
    for f, p, x in CASES:
        p, x = [mpf(float(v)) for v in p], [mpf(float(v)) for v in x]
        value = f(p, x)
        by = []
        for k in range(len(p)):
            h = mpf(10) ** (-mp.dps // 5) * max(1, abs(p[k])) / 8

            def at(j):
                return f(p[:k] + [p[k] + j * h] + p[k + 1:], x)
            by.append((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h))

        def text(values):
            return ', '.join('%.17g' % float(v) for v in values)
        print('    { &%s, { %s },\n      { %s }, %s,' % (f.__name__, text(p), text(x), text([value])))
        print('      { %s } },' % text(by))
    print('};')


main()
