"""The truncated normal population for test_centring.c at 60 digits: the log density at theta, and theta as a function
of the standard score z, with derivatives by theta or z, location and scale; locations up to 300 scales outside the
bounds.
    python3 known_hier.py >known_hier.h
"""
import random
from mpmath import erfinv, log, mp, mpf, ncdf, pi, sqrt

mp.dps = 60
STEP = mpf(10) ** -25


def inside(a, b):
    return ncdf(b) - ncdf(a) if a < 0 else ncdf(-a) - ncdf(-b)


def log_density(theta, mu, tau, low, high):
    y = (theta - mu) / tau
    return -y * y / 2 - log(tau * sqrt(2 * pi) * inside((low - mu) / tau, (high - mu) / tau))


def score(theta, mu, tau, low, high):
    a, y, b = (low - mu) / tau, (theta - mu) / tau, (high - mu) / tau
    below, above = inside(a, y) / inside(a, b), inside(y, b) / inside(a, b)
    return -sqrt(mpf(2)) * erfinv(1 - 2 * below) if below < above else sqrt(mpf(2)) * erfinv(1 - 2 * above)


def slope(f, at, k):
    up, down = list(at), list(at)
    up[k] += STEP
    down[k] -= STEP
    return (f(*up) - f(*down)) / (2 * STEP)


def quantile(z, mu, tau, low, high):
    """Bisection between the bounds until theta is known to 30 digits, then Newton's method."""
    a, b = low, high
    for _ in range(100):
        middle = (a + b) / 2
        a, b = (middle, b) if score(middle, mu, tau, low, high) < z else (a, middle)
    theta = (a + b) / 2
    for _ in range(3):
        theta -= (score(theta, mu, tau, low, high) - z) / slope(score, (theta, mu, tau, low, high), 0)
    return theta


def row(scales, tau, width, upper):
    low = random.uniform(-2, 2)
    high = low + width * tau
    mu = high + scales * tau if upper else low - scales * tau
    theta, z = low + random.random() * (high - low), random.uniform(-2, 2)
    bounds = [mpf(v) for v in (mu, tau, low, high)]
    at = [mpf(theta)] + bounds
    density = [log_density(*at)] + [slope(log_density, at, k) for k in range(3)]
    place = quantile(mpf(z), *bounds)
    by = [slope(score, [place] + bounds, k) for k in range(3)]
    return [theta, z, mu, tau, low, high] + density + [place, 1 / by[0], -by[1] / by[0], -by[2] / by[0]]


random.seed(1)
print('/* Written by known_hier.py. */')
print('static const struct { double theta, z, mu, tau, low, high, density[4], quantile[4]; } '
      'known_truncated[] = {')
for scales in (-3.7, -0.2, 0.01, 2, 8, 24, 26, 38.2, 41, 100, 300):
    for upper in (False, True):
        v = [repr(float(x)) for x in row(scales, 10 ** random.uniform(-2, 1), 10 ** random.uniform(0.6, 2), upper)]
        print('    { %s,\n      { %s },\n      { %s } },' % (', '.join(v[:6]), ', '.join(v[6:10]), ', '.join(v[10:])))
print('};')
