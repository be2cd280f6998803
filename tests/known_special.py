#!/usr/bin/env python3
"""Writes known_special.h: incomplete gamma and beta functions, shapes from 1e-3 to 1e5, far tails included.

Both are computed here as power series of positive terms (DLMF 8.7.1, 8.17.8), with so many digits that 1 minus the
sum keeps a hundred; derivatives by the shapes are central differences. Nothing is shared with the quadrature in
gpumc.h.      python3 known_special.py > known_special.h      (a minute)
"""
import random

from mpmath import mp, mpf, log, exp, log1p, loggamma

random.seed(7)
DIGITS = 50
STEP = mpf(10) ** -20


def gamma_series(a, x):
    """P(a, x)"""
    term, total, n = 1 / a, 1 / a, 0
    while term > total * mpf(10) ** (-mp.dps):
        n += 1
        term *= x / (a + n)
        total += term
    return exp(a * log(x) - x - loggamma(a)) * total


def beta_series(a, b, x, y):
    """P(a, b, x), y = 1 - x"""
    term, total, n = 1 / a, 1 / a, 0
    while term > total * mpf(10) ** (-mp.dps) or n < a + b:
        n += 1
        term *= x * (a + b + n - 1) / (a + n)
        total += term
        if term < total * mpf(10) ** (-mp.dps) and x * (a + b + n) < a + n + 1:
            break
    return exp(a * log(x) + b * log(y) - loggamma(a) - loggamma(b) + loggamma(a + b)) * total


def logs(p, q_first):
    """log of p and of 1 - p, in reverse order if q_first"""
    pair = log(p), log1p(-p) if p < 1 else mpf(-10 * mp.dps)      # 1 - p is lost: a value that asks for more digits
    return pair[::-1] if q_first else pair


def gamma_tails(a, x):
    return logs(gamma_series(a, x), False)


def beta_tails(a, b, x):
    y = 1 - x
    if x > mpf("0.9") or x * (a + b) > a and y < mpf("0.9"):
        return logs(beta_series(b, a, y, x), True)
    return logs(beta_series(a, b, x, y), False)


def with_slopes(f, args, shapes):
    """log tails, then the derivatives of both by each shape, with digits for the smaller tail."""
    lost, needed = -1, 0
    while needed > lost:
        lost = needed
        mp.dps = 2 * DIGITS + lost
        needed = max(int(max(abs(v), -log(abs(v))) / 2.3) for v in f(*args))
    out = list(f(*args))
    for i in range(shapes):
        h = args[i] * STEP
        up, down = list(args), list(args)
        up[i] += h
        down[i] -= h
        out += [(s - t) / (2 * h) for s, t in zip(f(*up), f(*down))]
    return out


def number(v):
    return repr(float(v)) if v else "0"


def row(args, out):
    return "    { " + ", ".join(number(v) for v in list(args) + out) + " },"


def wrap(line):
    lines = []
    while len(line) > 110:
        cut = line.rfind(", ", 0, 110) + 1
        lines.append(line[:cut])
        line = "      " + line[cut:].lstrip()
    return "\n".join(lines + [line])


def exact(v):
    return mpf(float(v))


def gamma_points():
    shapes = [1e-3, 0.03, 0.5, 0.999, 1, 1.02, 3, 10, 77.7, 1e3, 1e4, 1e5]
    for a in shapes:
        spread = 1 / (a ** 0.5 + a)
        for z in (-30, -8, -2, -0.1, 0, 0.1, 2, 8, 20):
            yield exact(a), exact(a * exp(z * spread if a >= 1 else z))
    for a in shapes[:8]:
        for x in (1e-300, 1e-20, 0.99, 1.01, 40, 600):
            yield exact(a), exact(x)
    for _ in range(60):
        a = 10 ** random.uniform(-3, 5)
        yield exact(a), exact(a * exp(random.gauss(0, 6) / (a ** 0.5 + min(a, 1))))


def not_too_far(a, b, x):
    """Tails below 1e-400 or so would need as many digits."""
    return 0 < x < 1 and a * log(x) + b * log1p(-x) - loggamma(a) - loggamma(b) + loggamma(a + b) > -1000


def beta_points():
    shapes = [1e-3, 0.5, 1, 2.2, 40, 1e3, 1e5]
    for a in shapes:
        for b in shapes:
            for z in (-12, -3, -0.2, 0.5, 6):
                width = (1 / mpf(a) + 1 / mpf(b)) ** 0.5 if a >= 1 and b >= 1 else mpf(1)
                x = exact(1 / (1 + mpf(b) / mpf(a) * exp(-z * width)))
                if not_too_far(a, b, x) and 1 - x > 1e-12:
                    yield exact(a), exact(b), x
    for a, b, x in ((0.5, 3, 1e-200), (2, 5, 1e-100), (300, 2, 0.01), (1e-3, 1e-3, 0.5), (1e5, 1e5, 0.48),
                    (5, 1e5, 0.006)):
        yield exact(a), exact(b), exact(x)
    for _ in range(60):
        a, b = 10 ** random.uniform(-3, 5), 10 ** random.uniform(-3, 5)
        width = (1 / mpf(a + 0.1) + 1 / mpf(b + 0.1)) ** 0.5
        x = exact(1 / (1 + mpf(b) / mpf(a) * exp(mpf(random.gauss(0, 4)) * width)))
        if not_too_far(a, b, x) and 1 - x > 1e-9:
            yield exact(a), exact(b), x


def t_lpdf(y, nu):
    return loggamma((nu + 1) / 2) - loggamma(nu / 2) - log(nu * mp.pi) / 2 - (nu + 1) / 2 * log1p(y * y / nu)


def neg_binomial_lpmf(y, mu, phi):
    choose = loggamma(y + phi) - loggamma(phi) - loggamma(y + 1)
    return choose - phi * log1p(mu / phi) + y * log(mu / (phi + mu))


def neg_binomial_lcdf(y, mu, phi):
    return log1p(-beta_series(y + 1, phi, mu / (phi + mu), phi / (phi + mu)))


def t_lcdf(y, nu):
    x = nu / (nu + y * y)
    half = mpf(1) / 2
    outside = beta_series(nu / 2, half, x, 1 - x) if x < 0.5 else 1 - beta_series(half, nu / 2, 1 - x, x)
    return log(outside / 2 if y < 0 else 1 - outside / 2)


def binomial_lpmf(y, n, p):
    return loggamma(n + 1) - loggamma(y + 1) - loggamma(n - y + 1) + y * log(p) + (n - y) * log1p(-p)


def beta_lpdf(y, a, b):
    return loggamma(a + b) - loggamma(a) - loggamma(b) + (a - 1) * log(y) + (b - 1) * log1p(-y)


# name in the test, function, indices of the arguments to differentiate by, points with large or tiny parameters
LARGE = [
    ("student_t", t_lpdf, (0, 1), [(1.5, 1e8), (-30, 1e8), (1e6, 1e8), (0.3, 1e15), (2, 1e-3), (1e100, 0.5)]),
    ("student_t_lcdf", t_lcdf, (0, 1), [(1.5, 1e8), (-1, 1e8), (-3, 1e6), (-2.5, 1e-3), (0.01, 1e10)]),
    ("gamma", lambda y, a, r: a * log(r) + (a - 1) * log(y) - r * y - loggamma(a), (0, 1, 2),
     [(1001000, 1e6, 1), (1e6, 1e6, 1.5), (1e-12, 1e-6, 2), (3e10, 1e10, 0.333), (1e15, 2, 1e-14)]),
    ("beta", beta_lpdf, (0, 1, 2),
     [(0.5001, 1e6, 1e6), (1e-7, 3, 2e7), (0.5, 1e-3, 1e5), (0.999, 1e5, 1e-3)]),
    ("beta_proportion", lambda y, m, k: beta_lpdf(y, m * k, (1 - m) * k), (0, 1, 2),
     [(0.3, 0.3001, 1e8), (0.01, 0.9, 1e3)]),
    ("binomial", binomial_lpmf, (2,), [(500300, 1e6, 0.5), (3, 1e9, 2e-9), (999999, 1e6, 0.25)]),
    ("poisson", lambda y, l: y * log(l) - l - loggamma(y + 1), (1,),
     [(1001000, 1e6), (10000100000, 1e10), (3, 1e-200), (0, 1e9)]),
    ("neg_binomial_2", neg_binomial_lpmf, (1, 2),
     [(3, 2.5, 1e10), (0, 1e-8, 1e10), (100200, 1e5, 1e10), (2, 1e-30, 1e10),
      (3, 1e6, 0.01), (5e4, 2.5, 0.3)]),
    ("neg_binomial_2_lcdf", neg_binomial_lcdf, (1, 2),
     [(3, 2.5, 1e10), (0, 1e-8, 1e10), (1000, 950, 1e7), (20, 2.5, 1e5)]),
]


def large_row(name, f, slots, point):
    mp.dps = 100
    x = [exact(v) for v in point]
    d = []
    for i in range(3):
        if i not in slots:
            d.append(mpf(0))
            continue
        h = abs(x[i]) * STEP
        up, down = list(x), list(x)
        up[i] += h
        down[i] -= h
        d.append((f(*up) - f(*down)) / (2 * h))
    arguments = ", ".join(map(number, x + [mpf(0)] * (3 - len(x))))
    slopes = ", ".join(map(number, d))
    return wrap('    { "%s", { %s }, %s, { %s } },' % (name, arguments, number(f(*x)), slopes))


print("/* Made by known_special.py; do not edit. */")
print("/* family, first arguments, log density (or what the name says), derivatives by these arguments */")
print("static const struct { const char *name; double x[3], value, slope[3]; } known_large[] = {")
for name, f, slots, points in LARGE:
    for point in points:
        print(large_row(name, f, slots, point))
print("};\n")
print("/* a, x, log P, log Q, their derivatives by a */")
print("static const double known_gamma[][6] = {")
for a, x in gamma_points():
    if x > 2 * a + 1000:                     # would lose as many digits
        continue
    print(wrap(row((a, x), with_slopes(gamma_tails, (a, x), 1))))
print("};\n\n/* a, b, x, log P, log Q, their derivatives by a, their derivatives by b */")
print("static const double known_beta[][9] = {")
for a, b, x in beta_points():
    print(wrap(row((a, b, x), with_slopes(beta_tails, (a, b, x), 2))))
print("};")
