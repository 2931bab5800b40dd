"""Coefficients of the polynomials in this folder: near-minimax fits (interpolation at Chebyshev nodes), computed with mpmath.

python3 coefficients.py writes the files of coefficients/ but for mod.rs. Each coefficient is rounded to the width that it is
used in.
"""

import struct
from pathlib import Path

import mpmath as mp
from mpmath import mpf

mp.mp.prec = 400

# Stands for 0, where the functions below are 0 / 0.
tiny = mpf(2) ** -90


def rounded(c, bits):
    """The f32 or f64 nearest to c."""
    if bits == 64:
        return mpf(float(c))
    return mpf(struct.unpack("f", struct.pack("f", float(c)))[0])


def fit(f, a, b, terms):
    """Monomial coefficients, lowest power first, of the interpolant of f on [a, b]."""
    a, b = mpf(a), mpf(b)
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * terms)) for i in range(terms)]
    # A node may fall on the removable pole at 0.
    xs = [(a + b) / 2 + (b - a) / 2 * t for t in nodes]
    xs = [x if abs(x) > tiny else tiny for x in xs]
    ys = [f(x) for x in xs]
    # Divided differences, then Horner's scheme to monomials.
    d = list(ys)
    for k in range(1, terms):
        for i in range(terms - 1, k - 1, -1):
            d[i] = (d[i] - d[i - 1]) / (xs[i] - xs[i - k])
    poly = [mpf(0)]
    for i in range(terms - 1, -1, -1):
        new = [mpf(0)] * (len(poly) + 1)
        for j, c in enumerate(poly):
            new[j + 1] += c
            new[j] -= c * xs[i]
        new[0] += d[i]
        poly = new
    return poly[:terms]


def fitted(f, a, b, terms, bits):
    """The same in the width that they are used in."""
    return [rounded(c, bits) for c in fit(f, a, b, terms)]


def error(f, a, b, poly, relative=False):
    worst = mpf(0)
    for i in range(401):
        x = a + (b - a) * mpf(i) / 400
        if abs(x) < tiny:
            continue
        y = f(x)
        p = sum(c * x**j for j, c in enumerate(poly))
        e = abs(p - y)
        if relative:
            e /= abs(y)
        worst = max(worst, e)
    return mp.nstr(mp.log(worst, 2), 4)


FAMILIES = {"elementary": [], "error": [], "gamma": [], "bessel": []}
TITLES = {
    "elementary": "exponentials, logarithms, powers and circular functions",
    "error": "the error function, its complement and its inverse",
    "gamma": "the gamma function and its logarithm",
    "bessel": "Bessel functions",
}


def family(name):
    """The file of a polynomial."""
    if name.startswith("BESSEL"):
        return "bessel"
    if name.startswith("ERF"):
        return "error"
    return "gamma" if "GAMMA" in name or name in ("STIRLING", "SIN_PI") else "elementary"


def show(name, doc, f, a, b, terms, bits):
    a, b = mpf(a), mpf(b)
    poly = fitted(f, a, b, terms, bits)
    lines = [f"/// {doc} Error 2^{error(f, a, b, poly)}.", f"pub(in super::super) const {name}: [f64; {terms}] = ["]
    lines += [f"    {float(c)!r}," for c in reversed(poly)]
    FAMILIES[family(name)].append("\n".join([*lines, "];", ""]))


def both(name, doc, f, a, b, single, double):
    show(name + "_F32", doc, f, a, b, single, 32)
    show(name + "_F64", doc, f, a, b, double, 64)


def expm1_rest(r):
    return (mp.expm1(r) - r) / r**2


def log1p_rest(f):
    return (mp.log1p(f) - f) / f**2


def atan_rest(t):
    s = mp.sqrt(t)
    return (mp.atan(s) - s) / (t * s)


def asin_rest(t):
    s = mp.sqrt(t)
    return (mp.asin(s) - s) / (t * s)


def exp10_slope(r):
    return (mpf(10) ** r - 1) / r


def scaled_erfc(k):
    def g(t):
        a = k * (1 + t) / (1 - t)
        return mp.exp(a * a) * mp.erfc(a) * (1 + 2 * a)

    return g


def lgamma_near_two(z):
    return mp.loggamma(2 + z) / z


def stirling(u):
    x = 1 / mp.sqrt(u)
    return (mp.loggamma(x) - (x - mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def sin_pi(t):
    r = mp.sqrt(t)
    return mp.sin(mp.pi * r) / r


def erf_rest(t):
    s = mp.sqrt(t)
    return mp.erf(s) / s - 1


def erfinv_of_root(r):
    return erfinv_of(r * r)


def erfinv_of(w):
    """erfinv(x) / x where w = -ln(1 - x^2)."""
    w = max(w, tiny)
    x = mp.sqrt(-mp.expm1(-w))
    # Newton from the asymptotic form, on the complement, which keeps its bits near 1.
    tail = mp.exp(-w) / (1 + x)
    y = mp.sqrt(w - mp.log(mp.pi * w) / 2) if w > 4 else x * mpf("0.886")
    for _ in range(200):
        step = (mp.erfc(y) - tail) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        step = step / (1 + y * step)
        y += step
        if abs(step) < mpf(2) ** -200:
            break
    return y / x


def log2_slope(f):
    return mp.log1p(f) / f / mp.log(2)


def atanh_tail(z):
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2 - 2 * z / 3) / z**2


def exp2(r):
    return mpf(2) ** r


def sin_pi_rest(t):
    r = mp.sqrt(t)
    return (mp.sin(mp.pi * r) / r - mp.pi) / t


def cos_pi_rest(t):
    return (mp.cos(mp.pi * mp.sqrt(t)) - 1) / t


def erfinv_share(s):
    """erfinv(x) / x / r where s = 1 / r and r^2 = -ln(1 - x^2)."""
    return erfinv_of(1 / s**2) * s


def bessel_j0(u):
    return mp.besselj(0, mp.sqrt(32 * (u + 1)))


def bessel_j1(u):
    x = mp.sqrt(32 * (u + 1))
    return mp.besselj(1, x) / x


def bessel_y0(u):
    x = mp.sqrt(32 * (u + 1))
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def bessel_y1(u):
    x = mp.sqrt(32 * (u + 1))
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def wave(order, is_sine):
    """Of z = (8 / x)^2: P or Q x / 8 of J = sqrt(2 / (pi x)) (P cos c - Q sin c), Y = sqrt(2 / (pi x)) (P sin c + Q cos c)."""

    def f(z):
        x = 8 / mp.sqrt(z)
        with mp.workprec(500):
            c = x - (2 * order + 1) * mp.pi / 4
            j, y = mp.besselj(order, x), mp.bessely(order, x)
            scale = mp.sqrt(mp.pi * x / 2)
            if is_sine:
                return scale * (y * mp.cos(c) - j * mp.sin(c)) * x / 8
            return scale * (j * mp.cos(c) + y * mp.sin(c))

    return f


def bessel_i0(v):
    x = 4 * (v + 1)
    return mp.exp(-x) * mp.besseli(0, x)


def bessel_i1(v):
    x = 4 * (v + 1)
    return mp.exp(-x) * mp.besseli(1, x) / x


def bessel_i_far(order):
    def f(v):
        x = 16 / (v + 1)
        return mp.exp(-x) * mp.besseli(order, x) * mp.sqrt(x)

    return f

if __name__ == "__main__":
    ln2 = mp.log(2)
    b = ln2 / 2 * mpf("1.0001")
    both("EXPM1", "`(e^r - 1 - r) / r^2` for `|r| <= ln 2 / 2`.", expm1_rest, -b, b, 6, 12)
    both("LOG1P", "`(ln(1 + f) - f) / f^2` for `-1/3 <= f <= 1/3`.", log1p_rest, mpf(-1) / 3, mpf(1) / 3, 10, 21)
    both("ATAN", "`(atan(s) - s) / s^3` in `t = s^2` up to 1.", atan_rest, 0, 1, 10, 23)
    both("ASIN", "`(asin(s) - s) / s^3` in `t = s^2` up to 1/4.", asin_rest, 0, mpf(1) / 4, 6, 14)
    l = mp.log10(2) / 2 * mpf("1.0001")
    both("EXP10", "`(10^r - 1) / r` for `|r| <= log10(2) / 2`.", exp10_slope, -l, l, 7, 12)
    show("ERFCX_F32", "`e^(a^2) erfc(a) (1 + 2 a)` in `t = (a - 4) / (a + 4)` for `a <= 11`.", scaled_erfc(4), -1, mpf(7) / 15, 13, 32)
    show("ERFCX_F64", "`e^(a^2) erfc(a) (1 + 2 a)` in `t = (a - 4) / (a + 4)` for `a <= 28`.", scaled_erfc(4), -1, mpf(24) / 32, 26, 64)
    both("ERF", "`erf(s) / s - 1` in `t = s^2` for `s <= 1/2`.", erf_rest, 0, mpf(1) / 4, 6, 11)
    show("LGAMMA_NEAR_2", "`ln Gamma(2 + z) / z` for `|z| <= 1/2`.", lgamma_near_two, -mpf(1) / 2, mpf(1) / 2, 20, 64)
    show("STIRLING", "`x (ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2)` in `u = 1/x^2` for `x >= 8`.", stirling, mpf(10)**-12, mpf(1) / 64, 8, 64)
    show("SIN_PI", "`sin(pi r) / r` in `t = r^2` for `r <= 1/2`.", sin_pi, 0, mpf(1) / 4, 9, 64)
    show("ERFINV_NEAR_F32", "`erfinv(x) / x` in `w - 2.5`, `w = -ln(1 - x^2)`, for `w <= 5`.", lambda v: erfinv_of(v + mpf(5) / 2), -mpf(5) / 2, mpf(5) / 2, 10, 32)
    show("ERFINV_FAR_F32", "`erfinv(x) / x` in `sqrt(w) - 3` for `5 <= w <= 17`.", lambda v: erfinv_of_root(v + 3), mp.sqrt(5) - 3, mp.sqrt(17) - 3, 10, 32)
    show("ERFINV_NEAR_F64", "`erfinv(x) / x` in `w - 3` for `w <= 6`.", lambda v: erfinv_of(v + 3), -3, 3, 25, 64)
    show("ERFINV_MIDDLE_F64", "`erfinv(x) / x` in `sqrt(w) - 3.25` for `6 <= w <= 16`.", lambda v: erfinv_of_root(v + mpf(13) / 4), mp.sqrt(6) - mpf(13) / 4, 4 - mpf(13) / 4, 20, 64)
    show("ERFINV_FAR_F64", "`erfinv(x) / x` in `sqrt(w) - 5` for `16 <= w <= 37`.", lambda v: erfinv_of_root(v + 5), -1, mp.sqrt(37) - 5, 19, 64)
    show("ATANH_TAIL", "`(2 atanh(s) / s - 2 - 2 z / 3) / z^2` in `z = s^2` for `s <= 3 - sqrt(8)`.", atanh_tail, mpf(2)**-60, (3 - mp.sqrt(8)) ** 2, 9, 64)
    show("LOG2", "`log2(1 + f) / f` for `-1/3 <= f <= 1/3`, as exact as a power in f32 wants.", log2_slope, -mpf(1) / 3, mpf(1) / 3, 15, 64)
    show("EXP2", "`2^r` for `|r| <= 1/2`, as exact as a power in f32 wants.", exp2, -mpf(1) / 2, mpf(1) / 2, 9, 64)
    both("SIN_PI_REST", "`(sin(pi r) / r - pi) / r^2` in `t = r^2` for `r <= 1/4`.", sin_pi_rest, 0, mpf(1) / 16, 4, 7)
    both("COS_PI_REST", "`(cos(pi r) - 1) / r^2` in `t = r^2` for `r <= 1/4`.", cos_pi_rest, 0, mpf(1) / 16, 4, 8)
    show("ERFINV_TAIL_F32", "`erfinv(x) / (x r)` in `s = 1 / r - 0.17`, `r^2 = -ln(1 - x^2)`, for `17 <= r^2 <= 105`.", lambda v: erfinv_share(v + mpf(17) / 100), 1 / mp.sqrt(105) - mpf(17) / 100, 1 / mp.sqrt(17) - mpf(17) / 100, 9, 32)
    show("ERFINV_TAIL_F64", "`erfinv(x) / (x r)` in `s = 1 / r - 0.11`, `r^2 = -ln(1 - x^2)`, for `37 <= r^2 <= 180`.", lambda v: erfinv_share(v + mpf(11) / 100), 1 / mp.sqrt(180) - mpf(11) / 100, 1 / mp.sqrt(37) - mpf(11) / 100, 20, 64)
    show("ERFINV_END_F64", "`erfinv(x) / (x r)` in `s = 1 / r - 0.055`, `r^2 = -ln(1 - x^2)`, for `180 <= r^2 <= 746`.", lambda v: erfinv_share(v + mpf(55) / 1000), 1 / mp.sqrt(746) - mpf(55) / 1000, 1 / mp.sqrt(180) - mpf(55) / 1000, 18, 64)
    show("GAMMA_NEAR_2", "`Gamma(2 + z)` for `|z| <= 1/2`.", lambda z: mp.gamma(2 + z), -mpf(1) / 2, mpf(1) / 2, 20, 64)
    show("BESSEL_J0", "`J0(x)` in `u = x^2 / 32 - 1` for `x <= 8`.", bessel_j0, -1, 1, 19, 64)
    show("BESSEL_J1", "`J1(x) / x` in `u = x^2 / 32 - 1` for `x <= 8`.", bessel_j1, mpf(2) ** -60 - 1, 1, 18, 64)
    show("BESSEL_Y0", "`Y0(x) - 2 / pi ln(x) J0(x)` in `u = x^2 / 32 - 1` for `x <= 8`.", bessel_y0, mpf(2) ** -60 - 1, 1, 20, 64)
    show("BESSEL_Y1", "`(Y1(x) - 2 / pi (ln(x) J1(x) - 1 / x)) / x` in `u = x^2 / 32 - 1` for `x <= 8`.", bessel_y1, mpf(2) ** -60 - 1, 1, 19, 64)
    for order in (0, 1):
        show(f"BESSEL_COS_{order}", f"`P` of J{order} and Y{order} in `z = (8 / x)^2 <= 1`.", wave(order, False), mpf(2) ** -40, 1, 13, 64)
        show(f"BESSEL_SIN_{order}", f"`Q x / 8` of J{order} and Y{order} in `z = (8 / x)^2 <= 1`.", wave(order, True), mpf(2) ** -40, 1, 13, 64)
    show("BESSEL_I0", "`e^-x I0(x)` in `v = x / 4 - 1` for `x <= 8`.", bessel_i0, -1, 1, 30, 64)
    show("BESSEL_I1", "`e^-x I1(x) / x` in `v = x / 4 - 1` for `x <= 8`.", bessel_i1, mpf(2) ** -60 - 1, 1, 29, 64)
    for order in (0, 1):
        show(f"BESSEL_I{order}_FAR", f"`e^-x I{order}(x) sqrt(x)` in `v = 16 / x - 1` for `x >= 8`.", bessel_i_far(order), -1 + mpf(2) ** -40, 1, 25, 64)
    folder = Path(__file__).parent / "coefficients"
    for name, polynomials in FAMILIES.items():
        (folder / f"{name}.rs").write_text(f"//! Coefficients of {TITLES[name]}.\n\n" + "".join(polynomials))
