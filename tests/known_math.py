"""Values of the leaf functions for test_math.c at 60 digits: at random points, and near difficult ones, where the
function has a zero or its domain an end, or where the code switches between formulas.
    python3 known_math.py >known_math.h
"""
import math
import random
from mpmath import (mp, mpf, cospi, digamma, erf, erfc, erfinv, exp, expm1, findroot, floor, log, log1p,
                    loggamma, sinpi, sqrt, tanh)

mp.dps = 60
TINY, NORMAL, HUGE = 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308
INF = math.inf


def short(x):
    return float('%.9g' % x)


def even(a, b, n):
    return [short(random.uniform(a, b)) for _ in range(n)]


def sizes(a, b, n):
    """n log-uniform points from a to b, which have the same sign."""
    sign = -1 if a < 0 else 1
    low, high = sorted((math.log(abs(a)), math.log(abs(b))))
    return [sign * max(short(math.exp(random.uniform(low, high))), TINY) for _ in range(n)]


def around(*centres):
    """Neighbours of a point, and points that approach it."""
    result = []
    for c in centres:
        result += [c, math.nextafter(c, INF), math.nextafter(c, -INF)]
        result += [c + s * max(abs(c), NORMAL) * 2.0 ** -k for k in (6, 20, 35, 48) for s in (1, -1)]
    return result


def scaled_erfc(x):
    return exp(x * x) * erfc(x) if x < 1e8 else far_mills(x * sqrt(mpf(2))) * sqrt(2 / mp.pi)


def mills(x):
    return sqrt(mp.pi / 2) * scaled_erfc(x / sqrt(mpf(2)))


def far_mills(x):
    y = 1 / x ** 2
    return (1 - y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y * (1 - 9 * y))))) / x


def mills_excess(x):
    return 1 / mills(x) - x if x < 1e8 else (1 - 2 / x ** 2 + 10 / x ** 4 - 74 / x ** 6) / x


def log_normal(x):
    if x > 0:
        return log1p(-erfc(x / sqrt(mpf(2))) / 2)
    return log(erfc(-x / sqrt(mpf(2))) / 2)


def quantile(p):
    if p == 0.5:
        return mpf(0)
    q = p if p < 0.5 else 1 - p
    z = sqrt(mpf(2)) * erfinv(2 * p - 1) if 0.01 < p < 0.99 else None
    if z is None:
        r = sqrt(-2 * log(q))
        z = r - (log(r) + mpf('0.9')) / r
        for _ in range(60):
            tail = erfc(z / sqrt(mpf(2))) / 2
            step = (log(tail) - log(q)) * tail * sqrt(2 * mp.pi) * exp(z * z / 2)
            z += step
            if abs(step) < mpf(10) ** -50 * z:
                break
        z = -z if p < 0.5 else z
    return z


def lbeta(a, b):
    return loggamma(a) + loggamma(b) - loggamma(a + b)


ROOT = float(findroot(digamma, mpf('1.4616321449683623')))
LGAMMA_STEPS = [0.5, 0.5 * 1.4142131805419922, 1.4142131805419922, 2.5, 3.5, 4.5, 5.5, 6.5]
ROOT_2 = math.sqrt(2)


def pairs(a, b):
    return list(zip(a, b))


def tables():
    """name, f, arguments (of two-argument functions: pairs)"""
    yield ('exp', exp, even(-708, 709, 70) + even(-745, -708, 20) + even(-1, 1, 60)
           + around(math.log(2) / 2, -math.log(2) / 2, 1e-8) + [709.782712893384, -745.13, -708.4])
    yield ('expm1', expm1, even(-40, 709, 50) + even(-1, 1, 70) + sizes(TINY, 1, 30) + sizes(-TINY, -40, 30)
           + around(1e-17, math.log(2) / 2, -50.0) + [709.782712893384])
    yield ('log', log, sizes(TINY, HUGE, 80) + even(0.5, 2, 60)
           + around(1.0, ROOT_2, 1 / ROOT_2, NORMAL) + [TINY, HUGE])
    yield ('log1p', log1p, sizes(TINY, HUGE, 60) + sizes(-TINY, -1, 50) + even(-0.9, 2, 50)
           + around(ROOT_2 - 1, 1 / ROOT_2 - 1, 1e-17) + [-1 + 2.0 ** -53, HUGE, TINY, -TINY])
    for name, f in ('sqrt', sqrt), ('rsqrt', lambda x: 1 / sqrt(x)):
        yield (name, f, sizes(TINY, HUGE, 100) + even(0.5, 4, 60)
               + around(NORMAL, 1e-290, 4.0) + [TINY, HUGE])
    yield ('fabs', abs, sizes(-TINY, -HUGE, 20) + [HUGE, TINY])
    yield ('floor', floor, even(-1000, 1000, 40) + around(1.0, -1.0, -7.0, 2.0 ** 52, -2.0 ** 52, 2.0 ** 51)
           + [TINY, -TINY, HUGE, 2.0 ** 52 - 0.5, 0.5 - 2.0 ** -54])
    yield ('erf', erf, even(-6, 6, 80) + sizes(TINY, 1, 50) + even(0, 1, 60)
           + around(0.75, -0.75) + [5.9, TINY])
    yield ('erfc', erfc, even(-6, 6, 60) + even(6, 26.5, 60) + even(26.5, 27.2, 20) + even(0, 1, 40)
           + sizes(TINY, 1, 20))
    yield ('erfcx', scaled_erfc, even(0, 10, 80) + sizes(TINY, 0.1, 30) + sizes(0.1, HUGE, 50)
           + even(-26, 0, 40) + around(1e18))
    yield ('Phi', lambda x: erfc(-x / sqrt(mpf(2))) / 2, even(-8, 8, 80) + even(-37.5, -8, 60)
           + even(-38.4, -37.5, 20) + even(-1, 1, 40) + [TINY, -1e-10])
    yield ('log_Phi', log_normal, even(-10, 10, 60) + even(-1, 3, 60) + even(10, 38.4, 40)
           + sizes(-1, -1e150, 50) + [TINY, -TINY])
    yield ('inv_Phi', quantile, even(0, 1, 80) + sizes(TINY, 0.5, 80) + around(0.5, 0.075, 0.925)
           + [1 - 2.0 ** -k for k in range(2, 54, 3)] + [1e-300, TINY])
    yield ('lgamma', loggamma, even(0, 8, 80) + sizes(TINY, 0.5, 30) + sizes(6, 2.5e305, 40)
           + around(1.0, 2.0, *LGAMMA_STEPS))
    yield ('digamma', digamma, even(0, 1, 50) + even(1, 7, 60) + sizes(1e-300, 1, 30) + sizes(6, HUGE, 30)
           + around(ROOT, 1.0, 6.5))
    yield ('lbeta', lbeta, pairs(sizes(1e-3, 1e3, 70), sizes(1e-3, 1e3, 70))
           + pairs(sizes(1e-300, 1e18, 40), sizes(1e-300, 1e18, 40)) + pairs(even(0, 5, 40), even(0, 5, 40))
           + pairs(sizes(1e-10, 1, 30), sizes(1e3, 1e10, 30))
           + [(1e5, 1e5), (1e-3, 1e6), (1.0, 1.0), (0.5, 0.5), (1e-300, 1e-300), (2.0, 1e15), (1e15, 1e15)])
    yield ('log1p_exp', lambda x: log1p(exp(x)), even(-40, 40, 60) + even(-745, 800, 40) + even(-1, 1, 50)
           + [TINY, -TINY])
    yield ('log_sum_exp', lambda a, b: log(exp(a) + exp(b)), pairs(even(-10, 10, 70), even(-10, 10, 70))
           + pairs(even(-800, 800, 40), even(-800, 800, 40))
           + [(0.0, 0.0), (1e-9, 0.0), (700.0, 700.0), (1.0, -1e300)])
    yield ('logit', lambda p: log(p) - log1p(-p), even(0, 1, 60) + sizes(TINY, 0.5, 60) + around(0.5, 1e-300)
           + [1 - 2.0 ** -k for k in range(2, 54, 3)] + [TINY])
    yield ('inv_logit', lambda x: 1 / (1 + exp(-x)), even(-40, 40, 60) + even(-744, -40, 40) + even(-1, 1, 40)
           + [TINY])
    yield ('tanh', tanh, even(-20, 20, 60) + sizes(TINY, 1, 50) + even(-1, 1, 60) + [-TINY])
    turns = even(0, 1, 70) + sizes(1e-300, 1, 30) + even(-1e6, 1e6, 40)
    turns += around(0.125, 0.25, 0.375, 0.5, 0.75) + [2.0 ** 50 + 0.25]
    yield ('sin_2pi', lambda u: sinpi(2 * u), turns)
    yield ('cos_2pi', lambda u: cospi(2 * u), turns)
    yield ('mills', mills, even(0, 10, 80) + sizes(TINY, 0.1, 30) + sizes(0.1, HUGE, 50) + even(-37.6, 0, 40))
    yield ('mills_excess', mills_excess, even(0, 10, 80) + sizes(TINY, 0.1, 30) + sizes(0.1, HUGE, 50)
           + even(-38, 0, 40))


def ulp(v):
    return mpf(2) ** max(math.frexp(v)[1] - 53, -1074)


def main():
    random.seed(1)
    print('/* Made by known_math.py: arguments, value as a double, what this lacks in units of its last place. */')
    print('typedef struct { double x, y, value, rest; } known_point;')
    entries = []
    for name, f, arguments in tables():
        rows = 0
        print('static const known_point known_%s[] = {' % name)
        for point in arguments:
            pair = point if isinstance(point, tuple) else (point, 0.0)
            exact = f(*map(mpf, point)) if isinstance(point, tuple) else f(mpf(point))
            value = float(exact)
            if math.isinf(value):
                continue
            rest = float((exact - mpf(value)) / ulp(value))
            print('{%r,%s,%r,%.3g},' % (pair[0], repr(pair[1]) if pair[1] else '0', value, rest))
            rows += 1
        print('};')
        entries.append('    { "%s", known_%s, %d },' % (name, name, rows))
    print('static const struct { const char *name; const known_point *points; size_t n; } known_tables[] = {')
    print('\n'.join(entries))
    print('};')


main()
