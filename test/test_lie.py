# SPDX-License-Identifier: Apache-2.0
"""SE(3) and its subgroups: closed forms against series, group axioms, near identity and pi."""

import pickle

import numpy as np
import pytest
from cases import GROUPS, derivative
from scipy.linalg import expm

from vm_dynamics import errors, lie
from vm_dynamics.lie import se3

TOLERANCE = 1e-12  # what the closed forms must reach everywhere
ANGLES = {
    "identity": 0.0,
    "1e-8": 1e-8,
    "1e-7": 1e-7,
    "1e-3": 1e-3,
    "below the series": 0.9999,
    "above the series": 1.0001,
    "random": 2.0,
    "near pi": np.pi - 1e-4,
    "1e-8 from pi": np.pi - 1e-8,
}


def twist(angle, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=3)
    return np.concatenate((rng.normal(size=3), angle * w / np.linalg.norm(w)))


def dexp_series(x):
    total = term = np.eye(6)
    for k in range(1, 60):
        term = term @ se3.ad(x) / (k + 1)
        total = total + term
    return total


@pytest.mark.parametrize("angle", ANGLES.values(), ids=ANGLES)
@pytest.mark.parametrize("seed", range(5))
class TestClosedForms:
    def test_exp_equals_the_matrix_exponential(self, angle, seed):
        x = twist(angle, seed)
        assert abs(se3.exp(x) - expm(se3.hat(x))).max() < TOLERANCE

    def test_log_inverts_exp(self, angle, seed):
        x = twist(angle, seed)
        assert abs(se3.log(se3.exp(x)) - x).max() < TOLERANCE

    def test_dexp_equals_its_series(self, angle, seed):
        x = twist(angle, seed)
        assert abs(se3.dexp(x) - dexp_series(x)).max() < TOLERANCE

    def test_dexp_inv_inverts_dexp(self, angle, seed):
        x = twist(angle, seed)
        assert abs(se3.dexp_inv(x) @ dexp_series(x) - np.eye(6)).max() < TOLERANCE

    def test_dexp_is_the_derivative_of_exp_on_both_sides(self, angle, seed):
        x, y = twist(angle, seed), twist(1.0, seed + 100)
        rate = derivative(se3.exp, x, y)
        g = se3.exp(x)
        assert abs(se3.vee(rate @ se3.inverse(g)) - se3.dexp(x) @ y).max() < 1e-11
        assert abs(se3.vee(se3.inverse(g) @ rate) - se3.dexp(-x) @ y).max() < 1e-11


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (-1, 2, -3)])
def test_log_at_half_a_turn_is_half_a_turn(axis):
    w = np.pi * np.array(axis) / np.linalg.norm(axis)
    g = se3.exp(np.concatenate(([1.0, 2.0, 3.0], w)))
    x = se3.log(g)
    assert abs(np.linalg.norm(x[3:]) - np.pi) < TOLERANCE
    assert abs(se3.exp(x) - g).max() < TOLERANCE


def test_tiny_and_huge_translations_survive_exp_and_log():
    for scale in (1e-12, 1e12):
        x = np.array([scale, -scale, scale, 0.3, -0.2, 0.1])
        assert abs(se3.log(se3.exp(x)) - x).max() < TOLERANCE * max(scale, 1.0)


def test_hat_and_vee_are_inverse():
    x = twist(0.7)
    assert np.array_equal(se3.vee(se3.hat(x)), x)


def test_adjoint_moves_twists_between_frames():
    g, x = se3.exp(twist(1.2, 1)), twist(0.4, 2)
    assert abs(se3.hat(se3.adjoint(g) @ x) - g @ se3.hat(x) @ se3.inverse(g)).max() < TOLERANCE


def test_ad_is_the_bracket_and_ad_tilde_exchanges_velocity_and_momentum():
    x, y, h = twist(1.0, 1), twist(1.0, 2), twist(1.0, 3)
    bracket = se3.hat(x) @ se3.hat(y) - se3.hat(y) @ se3.hat(x)
    assert abs(se3.hat(se3.ad(x) @ y) - bracket).max() < TOLERANCE
    assert abs(se3.ad(x).T @ h - se3.ad_tilde(h) @ x).max() < TOLERANCE
    assert np.array_equal(se3.ad_tilde(h), -se3.ad_tilde(h).T)


@pytest.fixture(params=GROUPS)
def group(request):
    return lie.group(request.param)


def coordinates(group, seed=0, size=1.0):
    return size * np.random.default_rng(seed).uniform(-1.0, 1.0, group.dimension)


DIMENSIONS = dict(SE3=6, SE2=3, SO3=3, X=4, T3=3, T2=2, C=2, SO2=1, T1=1, H=1)


def test_there_are_ten_groups_of_the_known_dimensions():
    assert {name: lie.group(name).dimension for name in GROUPS} == DIMENSIONS


class TestEveryGroup:
    def test_products_and_inverses_stay_in_the_group(self, group):
        g, h = group.exp(coordinates(group, 1)), group.exp(coordinates(group, 2))
        assert group.contains(g @ h)
        assert group.contains(group.inverse(g))
        assert group.contains(group.identity())

    def test_log_inverts_exp(self, group):
        for size in (0.0, 1e-8, 1e-3, 1.0):
            x = coordinates(group, 3, size)
            assert abs(group.log(group.exp(x)) - x).max() < TOLERANCE

    def test_the_algebra_is_closed_and_ad_is_its_bracket(self, group):
        x, y = coordinates(group, 4), coordinates(group, 5)
        full = se3.ad(group.iota @ x) @ group.iota @ y
        assert abs(group.iota @ (group.ad(x) @ y) - full).max() < TOLERANCE

    def test_ad_tilde_exchanges_velocity_and_momentum(self, group):
        x, h = coordinates(group, 6), coordinates(group, 7)
        assert abs(group.ad(x).T @ h - group.ad_tilde(h) @ x).max() < TOLERANCE
        assert abs(group.ad_tilde(h) + group.ad_tilde(h).T).max() < TOLERANCE

    def test_adjoint_is_a_homomorphism_with_ad_as_derivative(self, group):
        x, y = coordinates(group, 8), coordinates(group, 9)
        g, h = group.exp(x), group.exp(y)
        product = group.adjoint(g) @ group.adjoint(h)
        assert abs(group.adjoint(g @ h) - product).max() < TOLERANCE
        rate = derivative(
            lambda t: group.adjoint(group.exp(x * float(t[0]))), np.zeros(1), np.ones(1)
        )
        assert abs(rate - group.ad(x)).max() < 1e-11

    def test_dexp_is_the_derivative_of_exp(self, group):
        x, y = coordinates(group, 10), coordinates(group, 11)
        rate = derivative(group.exp, x, y)
        spatial = group.iota_pinv @ se3.vee(rate @ se3.inverse(group.exp(x)))
        assert abs(spatial - group.dexp(x) @ y).max() < 1e-11
        assert abs(group.dexp(x) @ group.dexp_inv(x) - np.eye(group.dimension)).max() < TOLERANCE

    def test_another_axis_gives_a_conjugate_group(self, group):
        axis = np.array([1.0, -2.0, 0.5])
        turned = lie.group(group.name, axis=axis, pitch=0.3 if group.name == "H" else None)
        x, y = coordinates(turned, 12), coordinates(turned, 13)
        full = se3.ad(turned.iota @ x) @ turned.iota @ y
        assert abs(turned.iota @ (turned.ad(x) @ y) - full).max() < TOLERANCE
        if group.name in ("SO2", "H", "C", "X", "SE2"):
            w = turned.iota[3:] @ np.eye(turned.dimension)[-1]
            assert abs(w - axis / np.linalg.norm(axis)).max() < TOLERANCE

    def test_groups_are_equal_and_hash_by_content(self, group):
        assert lie.group(group.name) == group
        assert hash(lie.group(group.name)) == hash(group)
        assert (lie.group(group.name) == lie.group("SE3")) == (group.name == "SE3")

    def test_a_pickled_group_is_the_same_and_still_read_only(self, group):
        again = pickle.loads(pickle.dumps(group))
        assert again == group and not again.iota.flags.writeable

    def test_vectors_of_a_wrong_length_are_refused(self, group):
        with pytest.raises(errors.DimensionError, match=group.name):
            group.exp(np.zeros(group.dimension + 1))


def test_the_rail_runs_along_x_and_the_other_axes_are_z():
    assert np.array_equal(lie.group("T1").iota[:, 0], np.eye(6)[0])
    assert np.array_equal(lie.group("SO2").iota[:, 0], np.eye(6)[5])
    assert np.array_equal(lie.group("SE2").iota, np.eye(6)[:, [0, 1, 5]])


def test_the_helical_group_advances_by_its_pitch_beyond_half_a_turn():
    group = lie.group("H", pitch=0.2)
    g = group.exp([5.0])
    assert abs(g[2, 3] - 1.0) < TOLERANCE
    assert abs(group.log(g)[0] - 5.0) < TOLERANCE
    assert group != lie.group("H", pitch=0.3)


def test_a_pose_outside_the_group_is_refused():
    lifted = np.eye(4)
    lifted[2, 3] = 0.1
    assert not lie.SE2.contains(lifted)
    with pytest.raises(errors.NotInGroupError, match="SE2"):
        lie.SE2.log(lifted)


@pytest.mark.parametrize(
    ("pose", "error"),
    [
        (np.eye(3), errors.DimensionError),
        (np.diag([1.0, 1.0, -1.0, 1.0]), errors.NotInGroupError),
        (np.diag([2.0, 1.0, 1.0, 1.0]), errors.NotInGroupError),
        (np.full((4, 4), np.nan), errors.NonFiniteError),
    ],
)
def test_what_is_no_rigid_displacement_is_refused(pose, error):
    with pytest.raises(error, match="pose"):
        lie.check_pose(pose)


@pytest.mark.parametrize("name", ["SE4", ["SE3"], None, 3])
def test_an_unknown_group_is_refused_with_the_valid_names(name):
    with pytest.raises(errors.UnknownGroupError, match="SE3, SE2, SO3"):
        lie.group(name)


@pytest.mark.parametrize("axis", [(0, 0, 0), (1, 2), "z", (np.nan, 0, 0)])
def test_an_axis_without_direction_is_refused(axis):
    with pytest.raises(errors.DimensionError, match="axis"):
        lie.group("SO2", axis=axis)


@pytest.mark.parametrize("pitch", [np.inf, np.nan, "steep"])
def test_a_pitch_that_is_no_number_is_refused(pitch):
    with pytest.raises(errors.NonFiniteError, match="pitch"):
        lie.group("H", pitch=pitch)


@pytest.mark.parametrize("name", sorted(set(lie.GROUP_NAMES) - {"H"}))
def test_a_pitch_for_a_group_that_has_none_is_refused(name):
    with pytest.raises(errors.ParameterError, match=f"pitch: got 0.3 .* {name}.*only H"):
        lie.group(name, pitch=0.3)
