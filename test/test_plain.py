# SPDX-License-Identifier: Apache-2.0
"""The page of plain algebra: its equations of motion, its derivatives, and other backends.

That its matrices are those of the kernels on every robot and base group is in ``test_kernels``.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from cases import GROUPS, State, derivative, load, relative
from test_kernels import REDUCED

from vm_dynamics.dynamics import plain

SAME = 1e-11  # of two orders of summation, and of an inverse without pivots
DIFFERENCES = 1e-9  # of the central difference of order eight


@pytest.fixture(params=["planar_3link", "tree2", "mimic"])
def name(request):
    return request.param


@pytest.mark.parametrize("base", GROUPS)
def test_both_rows_of_18_give_the_forward_dynamics(name, base):
    robot = load(name, base)
    s = State(robot, seed=20)
    A = robot.connection(s.q)
    r = plain.reduced(robot, s.q, s.qd, s.V + A @ s.qd)
    mu_dot, qdd = plain.accelerations(r, s.V + A @ s.qd, s.qd, s.F, s.tau)
    Vd, expected = robot.forward_dynamics(np.eye(4), s.q, s.V, s.qd, s.tau, s.F)
    assert relative(qdd, expected) < 1e-9
    assert relative(mu_dot - A @ qdd - r["A_dot"] @ s.qd, Vd) < 1e-9


def test_rates_are_those_of_finite_differences(name):
    robot = load(name)
    s = State(robot, seed=21)
    rate = derivative(lambda q: plain.mass_matrix(robot, q), s.q, s.qd)
    assert relative(plain.mass_rate(robot, s.q, s.qd), rate) < DIFFERENCES
    A_dot = derivative(lambda q: plain.connection(robot, q), s.q, s.qd)
    assert relative(plain.reduced(robot, s.q, s.qd, s.mu)["A_dot"], A_dot) < DIFFERENCES


def test_curvature_is_that_of_finite_differences(name):
    robot = load(name, "SE2")
    s = State(robot, seed=22)
    A = plain.connection(robot, s.q)
    slopes = [derivative(lambda q: plain.connection(robot, q), s.q, e) for e in np.eye(robot.n)]
    for i, DA in enumerate(plain.curvature(robot, s.q)):
        dA = slopes[i] - np.array([slope[:, i] for slope in slopes]).T
        assert relative(DA, dA - robot.base_group.ad(A[:, i]) @ A) < DIFFERENCES


# -- symbolic backends ----------------------------------------------------------------------------


class SymPy:
    """Functions of columns that are built from SymPy's expressions."""

    xp = SimpleNamespace(
        array=sympy.Matrix,
        block=sympy.Matrix,
        sin=sympy.sin,
        cos=sympy.cos,
        solve=lambda a, b: a.LDLsolve(b),
    )

    def column(self, name, size):
        return sympy.Matrix(sympy.symbols(f"{name}:{size}"))

    def function(self, columns, matrices):
        return sympy.lambdify(columns, matrices, cse=True)


class CasADi:
    """The same of CasADi's expressions: SX, of scalars, or MX, of matrices."""

    def __init__(self, kind):
        self.casadi = casadi = pytest.importorskip("casadi")
        self.kind = getattr(casadi, kind)
        self.xp = SimpleNamespace(
            array=lambda x: self.kind(casadi.DM(x)),
            block=casadi.blockcat,
            sin=casadi.sin,
            cos=casadi.cos,
            solve=casadi.solve,
        )

    def column(self, name, size):
        return self.kind.sym(name, size)

    def function(self, columns, matrices):
        call = self.casadi.Function("f", columns, matrices)
        return lambda *x: [np.array(out) for out in call(*x)]


def everything(robot, backend):
    """Names of all matrices of the page, and the function of q, qd, mu that returns them."""
    q, qd = backend.column("q", robot.n), backend.column("qd", robot.n)
    mu, xp = backend.column("mu", robot.b), backend.xp
    out = {
        "mass_matrix": plain.mass_matrix(robot, q, xp),
        "connection": plain.connection(robot, q, xp),
        "C": plain.coriolis(robot, q, mu, qd, xp),
        **plain.reduced(robot, q, qd, mu, xp),
    }
    for i, DA in enumerate(plain.curvature(robot, q, xp)):
        out[f"DA {i}"] = DA
    return list(out), backend.function([q, qd, mu], list(out.values()))


def of_kernels(robot, s):
    """What the compiled code has under the same names."""
    r = robot.reduced(s.q, s.qd, s.mu)
    return {
        "mass_matrix": robot.mass_matrix(s.q),
        "connection": robot.connection(s.q),
        "C": robot.hamel(s.q, s.mu, s.qd).C,
        **{name: getattr(r, name) for name in REDUCED},
        **{f"DA {i}": robot.curvature(s.q)[:, i, :] for i in range(robot.n)},
    }


@pytest.mark.parametrize(
    ("backend", "name", "base"),
    [
        # its expressions grow: ten seconds even for a small robot in a plane
        pytest.param(SymPy, "planar_3link", "SE2", id="sympy", marks=pytest.mark.slow),
        pytest.param(lambda: CasADi("SX"), "planar_3link", "SE3", id="casadi-sx"),
        pytest.param(lambda: CasADi("SX"), "tree0", "SE3", id="casadi-sx-tree"),
        pytest.param(lambda: CasADi("SX"), "mimic", "H", id="casadi-sx-mimic"),
        pytest.param(lambda: CasADi("MX"), "planar_3link", "X", id="casadi-mx"),
    ],
)
def test_symbols_of_another_backend_have_the_numbers_of_the_kernels(backend, name, base):
    robot = load(name, base)
    names, function = everything(robot, backend())
    for seed in range(3):
        s = State(robot, seed)
        found = dict(zip(names, function(s.q, s.qd, s.mu), strict=True))
        expected = of_kernels(robot, s)
        floor = 1e-2 * max(abs(x).max() for x in expected.values())
        errors = {k: relative(found[k], expected[k], floor) for k in names}
        assert {k: e for k, e in errors.items() if not e < SAME} == {}
