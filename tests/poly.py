"""The coefficients of the polynomials and rational functions in gpumc.h, section api-math, and of the one that
examples/stop_signal_rows.h has (mills).

    python3 poly.py              prints the private leaves gpumc__poly_* as they stand there
    python3 poly.py FILES        compares them with the text of these files

Each fit interpolates in Chebyshev points at 50 digits, which is within a factor of about three of the best
possible, and is rounded to double. The error stated is that of the rounded coefficients in exact arithmetic,
relative to the function or, where the fit is a correction, to what it corrects. Polynomials are evaluated by
Horner's rule in x^4 over groups of four, which has a third of the latency of Horner's rule in x.
"""
import functools
import sys
from mpmath import (atanh, besseli, cos, digamma, erf, erfc, erfinv, exp, expm1, findroot, log, loggamma, lu_solve,
                    matrix, mp, mpf, nstr, pi, polyval, sin, sqrt)

mp.dps = 50


def chebyshev(a, b, n):
    return [(a + b) / 2 + (b - a) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]


def rational(f, points, top, bottom):
    """Coefficients N, D with N(x) / D(x) = f(x) in the points, lowest power first, D(0) = 1."""
    n = top + bottom + 1
    a, y = matrix(n, n), matrix(n, 1)
    for i, x in enumerate(points):
        y[i] = f(x)
        for j in range(top + 1):
            a[i, j] = x ** j
        for j in range(1, bottom + 1):
            a[i, top + j] = -y[i] * x ** j
    c = list(lu_solve(a, y))
    return c[:top + 1], [mpf(1)] + c[top + 1:]


def rounded(c):
    return [mpf(float(v)) for v in c]


def value(c, x):
    return polyval(c[::-1], x)


def leaf(name, c):
    lines = ['GPUMC__POLY(%s, %d,' % (name, len(c))]
    for i, v in enumerate(c):
        text = ' ' + repr(float(v)) + (')' if i + 1 == len(c) else ',')
        if len(lines[-1] + text) > 110:
            lines.append('   ')
        lines[-1] += text
    return '\n'.join(lines) + '\n'


class Fit:
    """A function of x on the image of [a, b] under to_x (whose arguments are the Chebyshev points)."""

    def __init__(self, name, text, f, a, b, top, bottom=0, to_x=lambda t: t, size=None):
        self.name, self.text, self.f, self.top, self.bottom = name, text, f, top, bottom
        self.a, self.b, self.to_x, self.size = mpf(a), mpf(b), to_x, size or f

    def leaves(self):
        points = [self.to_x(t) for t in chebyshev(self.a, self.b, self.top + self.bottom + 1)]
        n, d = map(rounded, rational(self.f, points, self.top, self.bottom))
        error = mpf(0)
        for k in range(300):
            x = self.to_x(self.a + (self.b - self.a) * (k + mpf('0.37')) / 300)
            error = max(error, abs((value(n, x) / value(d, x) - self.f(x)) / self.size(x)))
        ends = sorted(0 if abs(self.to_x(t)) < 1e-9 else float(self.to_x(t)) for t in (self.a, self.b))
        degree = 'degrees %d / %d' % (self.top, self.bottom) if self.bottom else 'degree %d' % self.top
        fit = '%s, x in [%.3g, %.3g], error %s */\n' % (degree, ends[0], ends[1], nstr(error, 2))
        head = '/* ' + self.text + (': ' if len(self.text + fit) < 105 else ':\n   ') + fit
        if self.bottom:
            return head + leaf(self.name + '_top', n) + leaf(self.name + '_bottom', d)
        return head + leaf(self.name, n)


def from_unit(k, shift=0):
    """The map from t in (-1, 1) to x in (-shift, infinity) with t = (x + shift - k) / (x + shift + k)."""
    return lambda t: mpf(k) * (1 + t) / (1 - t) - shift


def to_unit(x, k):
    return (mpf(x) - k) / (mpf(x) + k)


def scaled_erfc(x):
    if x < 60:
        return exp(x * x) * erfc(x)
    term, total = mpf(1), mpf(0)
    for k in range(12):
        total += term
        term *= -(2 * k + 1) / (2 * x * x)
    return total / (x * sqrt(pi))


def erfcx_rest(x):
    return ((1 + 2 * x) * scaled_erfc(x) - 1) / x


def mills(x):
    return sqrt(pi / 2) * scaled_erfc(x / sqrt(mpf(2)))


def mills_excess(x):
    if x < 12:
        return 1 / mills(x) - x
    rest = mpf(0)
    for k in range(200, 0, -1):
        rest = k / (x + rest)
    return rest


def second_term(f, k):
    """The function second_term in f(x) = y + y^2 second_term, where y = 1 / (x + k)."""
    def term(t):
        x = from_unit(k)(t)
        return ((x + k) * f(x) - 1) * (x + k)
    return term


def stirling(w):
    x = 1 / sqrt(w)
    return (loggamma(x) - (x - mpf(1) / 2) * log(x) + x - log(2 * pi) / 2) * x


def binet(t):
    shifted = 3 / (1 - t)
    y = shifted - mpf(1) / 2
    rest = 1 / (12 * y) - 1 / (360 * y ** 3)
    if y < 1e8:
        rest = loggamma(y) - (y - mpf(1) / 2) * log(y) + y - log(2 * pi) / 2
    return rest * shifted


def digamma_slope(u):
    return digamma(1 + u) / (1 + u - ROOT)


@functools.lru_cache(None)
def tail_quantile(x):
    """z with Phi(-z) = exp(-r^2), r = x + 1.6, by Newton's method on the logarithm."""
    r = x + mpf('1.6')
    z = sqrt(2 * r * r - mpf('1.3') * log(1 + r * r))
    for _ in range(80):
        tail = erfc(z / sqrt(mpf(2))) / 2
        step = (log(tail) + r * r) * tail / (exp(-z * z / 2) / sqrt(2 * pi))
        z += step
        if abs(step) < mpf(10) ** -40 * z:
            return z
    raise ArithmeticError('no convergence at %s' % nstr(x))


@functools.lru_cache(None)
def middle_quantile(x):
    q = sqrt(MIDDLE - x)
    return sqrt(mpf(2)) * erfinv(2 * q) / q if q else sqrt(2 * pi)


def middle_points(y):
    """Makes the points dense where q approaches 1/2, the singularity."""
    return MIDDLE * (1 - expm1(-y) / expm1(-MIDDLE_LOG))


def bessel(order, x):
    return besseli(order, 2 * sqrt(x))


def bessel_far(x):
    """sqrt(x) exp(-x) I_0(x) and x (1 - I_1(x) / I_0(x)), from terms that are all positive: DLMF 10.40.1"""
    if x < 300:
        return sqrt(x) * exp(-x) * besseli(0, x), x * (1 - besseli(1, x) / besseli(0, x))
    a = b = total = mpf(1)
    gap = mpf(0)
    for k in range(1, 80):
        a *= mpf((2 * k - 1) ** 2) / (8 * k * x)
        b *= mpf((2 * k - 1) ** 2 - 4) / (8 * k * x)
        total += a
        gap += a - b
    return total / sqrt(2 * pi), x * gap / total


ROOT = findroot(digamma, mpf('1.4616321449683623'))
MIDDLE = mpf('0.180625')
MIDDLE_LOG = -log(1 - 4 * MIDDLE)
HALF_LOG_2 = log(mpf(2)) / 2 * mpf('1.0002')
EPS = mpf('1e-18')
FITS = [
    Fit('exp', '(exp(x) - 1 - x) / x^2', lambda x: (exp(x) - 1 - x) / x ** 2, -HALF_LOG_2, HALF_LOG_2, 9),
    Fit('log', '(2 atanh(sqrt x) / sqrt x - 2) / x', lambda x: (2 * atanh(sqrt(x)) / sqrt(x) - 2) / x,
        EPS, (3 - 2 * sqrt(mpf(2))) ** 2 * mpf('1.001'), 6),
    Fit('log1p_unit', 'the same', lambda x: (2 * atanh(sqrt(x)) / sqrt(x) - 2) / x, EPS, mpf(1) / 9, 9),
    Fit('sin', '(sin(2 pi sqrt x) / sqrt x - 2 pi) / x',
        lambda x: (sin(2 * pi * sqrt(x)) / sqrt(x) - 2 * pi) / x, EPS, mpf(1) / 64, 5),
    Fit('cos', '(cos(2 pi sqrt x) - 1) / x', lambda x: (cos(2 * pi * sqrt(x)) - 1) / x, EPS, mpf(1) / 64, 6),
    Fit('erf', 'erf(sqrt x) / sqrt x - 1', lambda x: erf(sqrt(x)) / sqrt(x) - 1, EPS, mpf('0.5625'), 9,
        size=lambda x: 1),
    Fit('erfcx', '((1 + 2x) erfcx(x) - 1) / x', erfcx_rest, -1 + EPS, 1 - EPS, 10, 11, from_unit(3),
        lambda x: 1 / x + erfcx_rest(x)),
    Fit('mills', '((y + 5) M(y) - 1) (y + 5), M the Mills ratio, x = (y - 5) / (y + 5)',
        second_term(mills, 5), -1, 1 - EPS, 23, size=lambda t: 10 / (1 - t) + second_term(mills, 5)(t)),
    Fit('mills_excess', '((y + 4) (1 / M(y) - y) - 1) (y + 4), M the Mills ratio, x = (y - 4) / (y + 4)',
        second_term(mills_excess, 4), -1, 1 - EPS, 27,
        size=lambda t: 8 / (1 - t) + second_term(mills_excess, 4)(t)),
    Fit('quantile_middle', 'Phi^-1(1/2 + q) / q - 2.5, x = 0.180625 - q^2',
        lambda x: middle_quantile(x) - mpf('2.5'), 0, MIDDLE_LOG, 7, 7, middle_points, middle_quantile),
    Fit('quantile_tail', '-Phi^-1(exp(-(x + 1.6)^2)) - 1.4375 - 1.5 x',
        lambda x: tail_quantile(x) - mpf('1.4375') - mpf('1.5') * x, to_unit('1.6', 4), to_unit('27.3', 4),
        11, 10, from_unit(4, mpf('1.6')), tail_quantile),
    Fit('lgamma', '(lgamma(2 + x) / x - (1 - gamma)) / x', lambda x: (loggamma(2 + x) / x - digamma(2)) / x,
        sqrt(mpf(2)) - 2, mpf('0.5'), 18),
    Fit('stirling', "y times what Stirling's formula leaves of lgamma(y), x = y^-2",
        stirling, EPS, mpf('6.5') ** -2, 6),
    Fit('binet', '(y + 1/2) gpumc__binet(y), x = 1 - 3 / (y + 1/2)', binet, -1, 1 - EPS, 16,
        size=lambda t: 3 / (1 - t)),
    Fit('digamma', 'digamma(1 + x) / (1 + x - root) - 5/8',
        lambda x: digamma_slope(x) - mpf('0.625'), 0, mpf('5.5') + EPS, 9, 9, size=digamma_slope),
    Fit('digamma_far', '(log y - 1 / (2y) - digamma(y)) / x, x = y^-2',
        lambda x: (-log(x) / 2 - sqrt(x) / 2 - digamma(1 / sqrt(x))) / x, EPS, mpf('6.5') ** -2, 6),
    Fit('bessel', '(I_0(2 sqrt x) - 1) / x', lambda x: (bessel(0, x) - 1) / x, EPS, 36, 18),
    Fit('bessel_ratio', 'I_1(2 sqrt x) / (2 sqrt x) / I_0(2 sqrt x)',
        lambda x: bessel(1, x) / (2 * sqrt(x)) / bessel(0, x), EPS, 36, 9, 9),
    Fit('bessel_far', 'sqrt(y) exp(-y) I_0(y), x = 12 / y', lambda x: bessel_far(12 / x)[0], EPS, 1, 14),
    Fit('bessel_less', 'y (1 - I_1(y) / I_0(y)), x = 12 / y', lambda x: bessel_far(12 / x)[1], EPS, 1, 18),
]


def main():
    there = ''.join(open(path).read() for path in sys.argv[1:])
    missing = 0
    for fit in FITS:
        text = fit.leaves()
        if not there:
            print(text)
        elif text not in there:
            print('not in %s:\n%s' % (' or '.join(sys.argv[1:]), text))
            missing += 1
    return missing


sys.exit(main() != 0)
