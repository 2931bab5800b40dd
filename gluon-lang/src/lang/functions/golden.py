"""Exact values of the functions in this folder, computed with mpmath, for tests.

python3 golden.py > tests/golden.txt writes a line a point: the function, the width of its operands, their bits as f64, and
the value as the sum of two f64.
"""

import struct
from mpmath import mp, mpf

mp.prec = 300
state = 1


def uniform():
    """From 0 to 1, from a linear congruential generator."""
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 11) / 2.0**53


def bits(x):
    return struct.pack(">d", x).hex()


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def erfinv(x):
    """By Newton's method on the complement, which keeps its bits near 1."""
    rest = 1 - abs(x)
    y = abs(mp.erfinv(x))
    for _ in range(6):
        step = (mp.erfc(y) - rest) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step / (1 + y * step)
    return y if x > 0 else -y


def lgamma(x):
    if x > 0:
        return mp.loggamma(x)
    return mp.log(abs(mp.pi / (x * mp.sin(mp.pi * x)))) - mp.loggamma(-x)


def remainder(x, y):
    return x - mp.nint(x / y) * y


# Name, function, and from where to where operands go.
UNARY = [
    ("tan", mp.tan, -100, 100),
    ("asin", mp.asin, -1, 1),
    ("acos", mp.acos, -1, 1),
    ("atan", mp.atan, -30, 30),
    ("sinh", mp.sinh, -80, 80),
    ("cosh", mp.cosh, -80, 80),
    ("asinh", mp.asinh, -1e4, 1e4),
    ("acosh", mp.acosh, 1, 1e4),
    ("atanh", mp.atanh, -1, 1),
    ("exp10", lambda x: mpf(10) ** x, -44, 38),
    ("expm1", mp.expm1, -20, 88),
    ("log10", mp.log10, 0, 1e6),
    ("log1p", mp.log1p, -1, 1e6),
    ("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), -1e6, 1e6),
    ("erfc", mp.erfc, -4, 10),
    ("erfinv", erfinv, -1, 1),
    ("normcdf", lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, -13, 6),
    ("lgamma", lgamma, -2.25, 100),
]
BINARY = [
    ("atan2", mp.atan2, (-4, 4), (-4, 4)),
    ("pow", lambda x, y: x**y, (0, 8), (-40, 40)),
    ("hypot", lambda x, y: mp.sqrt(x * x + y * y), (-4, 4), (-4, 4)),
    ("remainder", remainder, (-100, 100), (-7, 7)),
]


def erfcinv(x):
    """By Newton's method on the logarithm, which is nearly a parabola."""
    if x > 1:
        return -erfcinv(2 - x)
    w = -mp.log(x)
    y = mp.sqrt(w) if x < mpf("0.1") else mpf("0.5")
    for _ in range(200):
        c = mp.erfc(y)
        step = (mp.log(c) - mp.log(x)) * c * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mpf(2) ** -250:
            break
    return y


LATER = [
    ("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), -9, 60),
    ("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), 10, 13),
    ("erfcinv", erfcinv, 0, 2),
    ("erfcinv", erfcinv, 0, 1e-20),
    ("erfcinv", erfcinv, 0, 1e-100),
    ("erfcinv", erfcinv, 0, 1e-300),
    ("normcdfinv", lambda x: -mp.sqrt(2) * erfcinv(2 * x), 0, 1),
    ("tgamma", mp.gamma, -20, 35),
    ("tgamma", mp.gamma, 0, 3),
    ("tgamma", mp.gamma, -170, 171),
    ("sinpi", lambda x: mp.sin(mp.pi * x), -20, 20),
    ("cospi", lambda x: mp.cos(mp.pi * x), -20, 20),
    ("j0", lambda x: mp.besselj(0, x), -12, 40),
    ("j1", lambda x: mp.besselj(1, x), -12, 40),
    ("y0", lambda x: mp.bessely(0, x), 0, 40),
    ("y1", lambda x: mp.bessely(1, x), 0, 40),
    ("j0", lambda x: mp.besselj(0, x), 8, 3000),
    ("y1", lambda x: mp.bessely(1, x), 8, 3000),
    ("cyl_bessel_i0", lambda x: mp.besseli(0, x), -20, 85),
    ("cyl_bessel_i1", lambda x: mp.besseli(1, x), -20, 85),
    ("cyl_bessel_i1", lambda x: mp.besseli(1, x), 80, 700),
]


def point(low, high, at):
    """Spread over the range, small, or near 1."""
    spread = low + (high - low) * uniform()
    near = uniform() * 2 - 1
    near *= 2.0 ** -int(uniform() * 40)
    candidate = [spread, near, 1 + near][at % 3]
    return candidate if low < candidate < high else spread


def show(name, width, operands, value):
    if value == 0 or abs(value) > mpf(2) ** (127 if width == 32 else 1023):
        return
    high = float(value)
    low = float(value - mpf(high))
    print(name, width, *[bits(x) for x in operands], bits(high), bits(low))


for name, function, low, high in UNARY:
    for at in range(120):
        width = 32 if at % 3 == 0 else 64
        x = point(low, high, at // 3)
        x = single(x) if width == 32 else x
        if low < x < high:
            show(name, width, [x], function(mpf(x)))
for name, function, (low, high), (low2, high2) in BINARY:
    for at in range(120):
        width = 32 if at % 3 == 0 else 64
        x, y = point(low, high, at // 3), point(low2, high2, at // 6)
        x, y = (single(x), single(y)) if width == 32 else (x, y)
        show(name, width, [x, y], function(mpf(x), mpf(y)))

# What came later stands behind, so that the points above stay.
for name, function, low, high in LATER:
    for at in range(120):
        width = 32 if at % 3 == 0 else 64
        x = point(low, high, at // 3)
        x = single(x) if width == 32 else x
        if low < x < high:
            show(name, width, [x], function(mpf(x)))

