"""Writes known_transform.h: constrained values, log Jacobians and pulled-back gradients to double precision.

Only the maps are written here, from their definitions. Jacobians are numerical: central differences with steps of
1e-30 are accurate to 50 digits if the working precision is high enough (tanh(700) differs from 1 in digit 608). The
log Jacobian is the log determinant over the constrained values that `chart` selects as coordinates; for the
sum-to-zero vector it is half the log determinant of J'J. Takes two minutes.

    python3 known_transform.py > known_transform.h
"""
import random
import textwrap
import mpmath as mp

H = mp.mpf(10) ** -30


def logistic(q):
    return 1 / (1 + mp.exp(-q))


def basis(n):
    """Orthonormal columns (1, ..., 1, -k, 0, ..., 0) / sqrt(k (k + 1))."""
    entry = lambda i, k: (1 if i < k else -k if i == k else 0) / mp.sqrt(k * (k + 1))
    return [[entry(i, k) for k in range(1, n)] for i in range(n)]


def zero_sum(q, c):
    return [mp.fsum(v * y for v, y in zip(row, q)) for row in basis(c['size'])]


def simplex(q, c):
    e = [mp.exp(z) for z in zero_sum(q, c)]
    return [v / mp.fsum(e) for v in e]


def ordered(q, c):
    x = [q[0]]
    for y in q[1:]:
        x.append(x[-1] + above(y, c))
    return x


def positive_ordered(q, c):
    return [mp.fsum(above(y, c) for y in q[:k + 1]) for k in range(len(q))]


def correlation(q, c):
    n, left = c['size'], list(q)
    rows = [[mp.mpf(0)] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            rows[i][j] = mp.tanh(left.pop(0)) * mp.sqrt(1 - mp.fsum(v * v for v in rows[i][:j]))
        rows[i][i] = mp.sqrt(1 - mp.fsum(v * v for v in rows[i][:i]))
    return [v for row in rows for v in row]


def above(y, c):
    """exp(y), or with `typical` the map that makes the value of a standard normal v exponential (typical > 0) or
    half-normal or the like (typical < 0)."""
    w = c['bend']
    v = w * y - (1 - w) * mp.log(1 + mp.exp(-y - 3)) if w else y
    E = -mp.log(mp.erfc(v / mp.sqrt(2)) / 2)
    return mp.exp(y) if not c['typical'] else c['typical'] * E if c['typical'] > 0 \
        else -c['typical'] * E / mp.sqrt(1 + E)


def each(f):
    return lambda q, c: [f(y, c) for y in q]


MAPS = {
    'UNBOUNDED': each(lambda y, c: y),
    'POSITIVE': each(above),
    'LOWER': each(lambda y, c: c['lower'] + above(y, c)),
    'UPPER': each(lambda y, c: c['upper'] - above(y, c)),
    'INTERVAL': each(lambda y, c: c['lower'] + (mp.mpf(c['upper']) - c['lower']) / (1 + 1 / above(y, c))),
    'UNIT': each(lambda y, c: logistic(y)),
    'AFFINE': each(lambda y, c: c['offset'] + mp.mpf(c['multiplier']) * y),
    'ORDERED': ordered,
    'POSITIVE_ORDERED': positive_ordered,
    'SUM_TO_ZERO': zero_sum,
    'SIMPLEX': simplex,
    'CHOLESKY_CORR': correlation,
}


def n_free(kind, n):
    return {'SUM_TO_ZERO': n - 1, 'SIMPLEX': n - 1, 'CHOLESKY_CORR': n * (n - 1) // 2}.get(kind, n)


def chart(kind, n):
    """Indices of x that serve as coordinates."""
    if kind == 'SIMPLEX':
        return list(range(n - 1))
    if kind == 'CHOLESKY_CORR':
        return [i * n + j for i in range(n) for j in range(i)]
    return list(range(n))


def jacobian(f, q):
    columns = []
    for k in range(len(q)):
        up, down = list(q), list(q)
        up[k] += H
        down[k] -= H
        columns.append([(a - b) / (2 * H) for a, b in zip(f(up), f(down))])
    return mp.matrix(columns).T if q else mp.matrix(0, 0)


def log_jacobian(kind, n, f, q):
    if not q:
        return mp.mpf(0)
    J = jacobian(f, q)
    if kind == 'SUM_TO_ZERO':
        return mp.log(mp.det(J.T * J)) / 2
    rows = chart(kind, n)
    return mp.log(abs(mp.det(mp.matrix([[J[r, k] for k in range(len(q))] for r in rows]))))


def shift(q, k, by):
    return [y + (by if i == k else 0) for i, y in enumerate(q)]


def listed(values):
    return ', '.join(repr(float(v)) for v in values)


def case(kind, n, q, dx, **given):
    c = dict(size=n, lower=0.0, upper=0.0, offset=0.0, multiplier=0.0, typical=0.0, bend=0.0)
    c.update(given)
    q = [mp.mpf(y) for y in q]
    mp.mp.dps = 100 + int(2 * max([0] + [abs(y) for y in q])) * (4 if kind == 'CHOLESKY_CORR' else 1)
    if c['typical']:                                     # Phi(-30) is 4.9e-198, and values are as small
        q = [max(y, mp.mpf(-30)) for y in q]
        mp.mp.dps += 1000
    f = lambda point: MAPS[kind](point, c)
    J, step = jacobian(f, q), H ** mp.mpf('0.5')
    at = lambda point: log_jacobian(kind, n, f, point)
    dq = []
    for k in range(len(q)):
        slope = (at(shift(q, k, step)) - at(shift(q, k, -step))) / (2 * step)
        dq.append(mp.fsum(J[i, k] * mp.mpf(dx[i]) for i in range(len(dx))) + slope)
    head = [c[k] for k in ('lower', 'upper', 'offset', 'multiplier', 'typical', 'bend')] + [at(q)]
    print(f'    {{ GPUMC_{kind}, {n}, {listed(head)},')
    for values, end in ((q, ','), (dx, ','), (f(q), ','), (dq, ' },')):
        text = '{ ' + listed(values or [0]) + ' }' + end
        print(textwrap.fill(text, 110, initial_indent=' ' * 6, subsequent_indent=' ' * 8))


def main():
    rng = random.Random(1)
    print('/* Made by known_transform.py. */')
    print('enum { KNOWN_FREE = 10, KNOWN_NATURAL = 25 };')
    print('typedef struct known_transform {')
    print('    gpumc_kind kind;\n    size_t size;')
    print('    double lower, upper, offset, multiplier, typical, bend, log_jacobian;')
    print('    double q[KNOWN_FREE], dx[KNOWN_NATURAL], x[KNOWN_NATURAL], dq[KNOWN_FREE];')
    print('} known_transform;')
    print('static const known_transform known_transforms[] = {')
    settings = [('UNBOUNDED', {}), ('POSITIVE', {}), ('POSITIVE', dict(typical=0.5)),
                ('LOWER', dict(lower=-1.5)), ('LOWER', dict(lower=2.0, typical=3.0)),
                ('UPPER', dict(upper=2.5)), ('INTERVAL', dict(lower=-1.0, upper=3.0)),
                ('INTERVAL', dict(lower=0.0, upper=1e-3)), ('UNIT', {}),
                ('AFFINE', dict(offset=1.0, multiplier=2.5)), ('ORDERED', {}), ('POSITIVE_ORDERED', {}),
                ('SUM_TO_ZERO', {}), ('SIMPLEX', {}), ('CHOLESKY_CORR', {}),
                ('POSITIVE', dict(typical=-0.5)), ('LOWER', dict(lower=2.0, typical=-3.0)),
                ('UPPER', dict(upper=2.5, typical=0.5)), ('UPPER', dict(upper=-2.0, typical=-3.0)),
                ('POSITIVE', dict(typical=0.5, bend=0.375)), ('UPPER', dict(upper=2.5, typical=-1.0, bend=0.75)),
                ('ORDERED', dict(typical=0.5, bend=0.5)), ('POSITIVE_ORDERED', dict(typical=-2.0)),
                ('INTERVAL', dict(upper=100.0, typical=0.05, bend=0.25)),
                ('INTERVAL', dict(lower=-1.0, upper=3.0, typical=-0.5))]
    for kind, given in settings:
        for n in (1, 2, 5):
            free = n_free(kind, n)
            natural = n * n if kind == 'CHOLESKY_CORR' else n
            points = [[round(rng.gauss(0, 1.2), 6) for _ in range(free)]]
            if free:
                points.append([rng.choice((-1, 1)) * 5.5 + round(rng.gauss(0, 1), 6) for _ in range(free)])
                points.append([rng.choice((-40.0, 0.3, 40.0)) for _ in range(free)])
                points.append([rng.choice((-700.0, -0.7, 700.0)) for _ in range(free)])
            for q in points:
                case(kind, n, q, [round(rng.gauss(0, 1), 6) for _ in range(natural)], **given)
    print('};')


main()
