# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels against the readable sums over links of ``vm_dynamics.dynamics.plain``."""

import numpy as np
import pytest
from cases import ALL, GROUPS, State, derivative, load, relative

from vm_dynamics.dynamics import plain

ROUNDING = 1e-12  # two orders of summation of some hundred terms
REDUCED = ("M_b", "Lambda_q", "A", "A_dot", "P", "S", "Gamma_q", "B", "D_qd", "D_mu")


@pytest.fixture(params=[(name, base) for name in ALL for base in GROUPS], ids="-".join)
def case(request):
    robot = load(*request.param)
    return robot, State(robot, seed=1)


def test_mass_matrix_and_connection_equal_the_sums_over_links(case):
    robot, s = case
    M, A = robot.mass_and_connection(s.q)
    assert relative(M, plain.mass_matrix(robot, s.q)) < ROUNDING
    assert relative(A, plain.connection(robot, s.q)) < ROUNDING
    # each is compiled by itself, and may sum in another order
    assert relative(robot.mass_matrix(s.q), M) < ROUNDING
    assert relative(robot.connection(s.q), A) < ROUNDING
    assert np.array_equal(M, M.T)


def test_hamel_matrices_equal_the_sums_over_links(case):
    robot, s = case
    M, C = robot.hamel(s.q, s.V, s.qd)
    assert relative(M, robot.mass_matrix(s.q)) < ROUNDING
    assert relative(C, plain.coriolis(robot, s.q, s.V, s.qd)) < ROUNDING


def test_reduced_matrices_equal_the_printed_sums(case):
    robot, s = case
    ours, printed = robot.reduced(s.q, s.qd, s.mu), plain.reduced(robot, s.q, s.qd, s.mu)
    # what cancels to zero leaves the rounding of the terms it is made of
    floor = 1e-2 * max(abs(x).max(initial=0.0) for x in printed.values())
    errors = {k: relative(getattr(ours, k), printed[k], floor) for k in REDUCED}
    assert {k: e for k, e in errors.items() if not e < 10 * ROUNDING} == {}


def test_curvature_equals_the_printed_theorem_2(case):
    robot, s = case
    # one (b, n) matrix for each joint, none for a robot without joints
    rows = np.array(plain.curvature(robot, s.q)).reshape(robot.n, robot.b, robot.n)
    assert relative(robot.curvature(s.q), rows.transpose(1, 0, 2)) < 10 * ROUNDING


def test_coriolis_matrix_makes_the_energy_balance_skew(case):
    robot, s = case
    M_dot = derivative(robot.mass_matrix, s.q, s.qd)
    balance = M_dot - 2.0 * robot.hamel(s.q, s.V, s.qd).C
    assert abs(balance + balance.T).max() < 1e-9 * max(abs(balance).max(), 1.0)
