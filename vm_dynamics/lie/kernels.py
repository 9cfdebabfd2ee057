# SPDX-License-Identifier: Apache-2.0
"""Compiled formulas of SO(3) and SE(3), twists ordered [v; w].

Every function writes into arrays of the caller, so that the other kernels of the package can
call it without allocation. The closed forms lose digits near the identity; below
``SERIES_BELOW`` the power series takes over, with enough terms for full precision there.
"""

import math

from vm_dynamics.compiled import entry, exact

# At 1 rad the worst closed form (a fifth power in the denominator) still has 13 digits.
SERIES_BELOW = 1.0
SERIES_TERMS = 9
# A pose read from a message or a file is orthonormal to about single precision.
POSE_TOLERANCE = 1e-6

# B_2k / (2k)!, k = 1 to 10, B the Bernoulli numbers: the even part of z / (exp(z) - 1).
BERNOULLI = (
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30240.0,
    -1.0 / 1209600.0,
    1.0 / 47900160.0,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
)


@exact
def _reciprocal_factorials(x, first, m):
    """Sum of (-x)^k / (2k + m)! over k, with ``first`` = 1 / m!."""
    total = first
    term = first
    for k in range(SERIES_TERMS):
        term *= -x / ((m + 2 * k + 1) * (m + 2 * k + 2))
        total += term
    return total


@exact
def exp_coefficients(x):
    """(sin t)/t, (1 - cos t)/t^2 and (t - sin t)/t^3 of x = t^2, t the angle [rad]."""
    if x < SERIES_BELOW:
        return (
            _reciprocal_factorials(x, 1.0, 1),
            _reciprocal_factorials(x, 1.0 / 2.0, 2),
            _reciprocal_factorials(x, 1.0 / 6.0, 3),
        )
    t = math.sqrt(x)
    s = math.sin(t)
    half = math.sin(0.5 * t)
    return s / t, 2.0 * half * half / x, (t - s) / (t * x)


@exact
def log_coefficient(x):
    """(1 - (t/2) cot(t/2)) / t^2 of x = t^2: the inverse of dexp on SO(3)."""
    if x < SERIES_BELOW:
        total = 0.0
        for k in range(len(BERNOULLI) - 1, -1, -1):
            total = BERNOULLI[k] - x * total
        return total
    half = 0.5 * math.sqrt(x)
    return (1.0 - half * math.cos(half) / math.sin(half)) / x


@exact
def dexp_coefficients(x):
    """a1 to a4 of dexp = I + a1 ad + a2 ad^2 + a3 ad^3 + a4 ad^4 on SE(3), of x = t^2.

    dexp is (e^z - 1) / z at z = ad, and ad (ad^2 + t^2)^2 = 0 on se(3), so a quartic that
    matches it at z = 0 and, with the derivative, at z = +-it is exact.
    """
    if x < SERIES_BELOW:
        c3 = _reciprocal_factorials(x, 1.0 / 6.0, 3)
        c4 = _reciprocal_factorials(x, 1.0 / 24.0, 4)
        c5 = _reciprocal_factorials(x, 1.0 / 120.0, 5)
        a3 = 0.5 * (c3 - 2.0 * c4)
        a4 = 0.5 * (c4 - 3.0 * c5)
        return 0.5 - x * c4 + x * a3, c3 + x * a4, a3, a4
    t = math.sqrt(x)
    s = math.sin(t)
    c = math.cos(t)
    return (
        (4.0 - t * s - 4.0 * c) / (2.0 * x),
        (4.0 * t - 5.0 * s + t * c) / (2.0 * x * t),
        (2.0 - t * s - 2.0 * c) / (2.0 * x * x),
        (2.0 * t - 3.0 * s + t * c) / (2.0 * x * x * t),
    )


@exact
def dexp_inv_coefficients(x):
    """c2 and c4 of dexp^-1 = I - ad/2 + c2 ad^2 + c4 ad^4 on SE(3), of x = t^2."""
    if x < SERIES_BELOW:
        slope = 0.0
        for k in range(len(BERNOULLI) - 1, 0, -1):
            slope = k * BERNOULLI[k] - x * slope
        return log_coefficient(x) + x * slope, slope
    t = math.sqrt(x)
    half = math.sin(0.5 * t)
    versine = 2.0 * half * half
    s = math.sin(t)
    return (
        2.0 / x - (t + 3.0 * s) / (4.0 * t * versine),
        1.0 / (x * x) - (t + s) / (4.0 * x * t * versine),
    )


@exact
def se3_exp(twist, pose):
    """Write exp of a twist [v; w], shape (6,), into a pose, shape (4, 4)."""
    vx, vy, vz = twist[0], twist[1], twist[2]
    wx, wy, wz = twist[3], twist[4], twist[5]
    x = wx * wx + wy * wy + wz * wz
    c1, c2, c3 = exp_coefficients(x)
    pose[0, 0] = 1.0 - c2 * (wy * wy + wz * wz)
    pose[1, 1] = 1.0 - c2 * (wx * wx + wz * wz)
    pose[2, 2] = 1.0 - c2 * (wx * wx + wy * wy)
    pose[0, 1] = c2 * wx * wy - c1 * wz
    pose[1, 0] = c2 * wx * wy + c1 * wz
    pose[0, 2] = c2 * wx * wz + c1 * wy
    pose[2, 0] = c2 * wx * wz - c1 * wy
    pose[1, 2] = c2 * wy * wz - c1 * wx
    pose[2, 1] = c2 * wy * wz + c1 * wx
    # p = v + c2 w x v + c3 w x (w x v)
    ux = wy * vz - wz * vy
    uy = wz * vx - wx * vz
    uz = wx * vy - wy * vx
    pose[0, 3] = vx + c2 * ux + c3 * (wy * uz - wz * uy)
    pose[1, 3] = vy + c2 * uy + c3 * (wz * ux - wx * uz)
    pose[2, 3] = vz + c2 * uz + c3 * (wx * uy - wy * ux)
    pose[3, 0] = 0.0
    pose[3, 1] = 0.0
    pose[3, 2] = 0.0
    pose[3, 3] = 1.0


@exact
def quaternion(rotation):
    """Unit quaternion (x, y, z, w), w >= 0, of a rotation matrix, shape (3, 3) or larger.

    The largest of the four components is found first (Shepperd), so that no digits are lost at
    any angle, near pi included.
    """
    xx, yy, zz = rotation[0, 0], rotation[1, 1], rotation[2, 2]
    trace = xx + yy + zz
    if trace >= xx and trace >= yy and trace >= zz:
        w = 1.0 + trace
        x = rotation[2, 1] - rotation[1, 2]
        y = rotation[0, 2] - rotation[2, 0]
        z = rotation[1, 0] - rotation[0, 1]
    elif xx >= yy and xx >= zz:
        w = rotation[2, 1] - rotation[1, 2]
        x = 1.0 + xx - yy - zz
        y = rotation[0, 1] + rotation[1, 0]
        z = rotation[0, 2] + rotation[2, 0]
    elif yy >= zz:
        w = rotation[0, 2] - rotation[2, 0]
        x = rotation[0, 1] + rotation[1, 0]
        y = 1.0 - xx + yy - zz
        z = rotation[1, 2] + rotation[2, 1]
    else:
        w = rotation[1, 0] - rotation[0, 1]
        x = rotation[0, 2] + rotation[2, 0]
        y = rotation[1, 2] + rotation[2, 1]
        z = 1.0 - xx - yy + zz
    scale = 1.0 / math.sqrt(x * x + y * y + z * z + w * w)
    if w < 0.0:
        scale = -scale
    return x * scale, y * scale, z * scale, w * scale


@exact
def se3_log(pose, twist):
    """Write the logarithm of a pose, shape (4, 4), into a twist [v; w], angle at most pi."""
    x, y, z, w = quaternion(pose)
    s = math.sqrt(x * x + y * y + z * z)
    # atan2 keeps full precision at both ends; its quotient with s tends to 2 at the identity.
    scale = 2.0 * math.atan2(s, w) / s if s > 1e-150 else 2.0
    wx, wy, wz = scale * x, scale * y, scale * z
    b = log_coefficient(wx * wx + wy * wy + wz * wz)
    px, py, pz = pose[0, 3], pose[1, 3], pose[2, 3]
    ux = wy * pz - wz * py
    uy = wz * px - wx * pz
    uz = wx * py - wy * px
    twist[0] = px - 0.5 * ux + b * (wy * uz - wz * uy)
    twist[1] = py - 0.5 * uy + b * (wz * ux - wx * uz)
    twist[2] = pz - 0.5 * uz + b * (wx * uy - wy * ux)
    twist[3] = wx
    twist[4] = wy
    twist[5] = wz


# -- what Python calls ----------------------------------------------------------------------------


@entry("(float64[::1], float64[:, ::1])")
def exp(twist, pose):
    """Exp of a twist, shape (6,), into a pose, shape (4, 4)."""
    se3_exp(twist, pose)


@entry("(float64[:, ::1], float64[::1])")
def log(pose, twist):
    """Log of a pose, shape (4, 4), into a twist, shape (6,)."""
    se3_log(pose, twist)


@entry("(float64[:, ::1],)")
def unit_quaternion(rotation):
    """Quaternion x, y, z, w of a rotation or a pose."""
    return quaternion(rotation)


@entry("(float64,)")
def dexp_polynomial(x):
    """Coefficients of dexp at a squared angle."""
    return dexp_coefficients(x)


@entry("(float64,)")
def dexp_inv_polynomial(x):
    """Coefficients of the inverse of dexp at a squared angle."""
    return dexp_inv_coefficients(x)
