# SPDX-License-Identifier: Apache-2.0
"""Who meets whom: our calls and those of Pinocchio and dynibo, on the same robot and states.

Every candidate is a plain loop over its inputs with the function bound to a local name. Both
sides get ready-made arrays; the states change from call to call, so remembering the last one
would not help.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import dynibo
import numpy as np
import pinocchio as pin
from chain import chain_urdf
from peer import Peer, pinocchio_q
from timing import Candidate

import vm_dynamics as vm

STATES = 50
BATCH = 10_000
BATCH_JOINTS = 7
SAME = 1e-9  # relative: what two ways of summing up to 100 links may differ by
DYNIBO_GRAVITY = 9.80665  # [m/s^2], along -z, always
SAME_DIFFERENCES = 1e-6  # relative: what central differences are good for

# Pairs of a row: (what, our candidate, the peer's candidate)
PAIRS = (
    ("mass_and_connection", "mass_and_connection", "crba + solve"),
    ("mass_matrix", "mass_matrix", "crba"),
    ("mass_matrix, peer in WORLD convention", "mass_matrix", "crba WORLD"),
    ("mass_matrix, peer dynibo", "mass_matrix", "dynibo mass"),
    ("reduced", "reduced", "Lemma 2"),
    ("reduced, peer without dccrba", "reduced", "Lemma 2 lean"),
    ("curvature", "curvature", "differences"),
    ("forward_dynamics", "forward_dynamics", "aba"),
    ("forward_dynamics, peer dynibo", "forward_dynamics", "dynibo forward"),
)
OURS = tuple(dict.fromkeys(ours for _, ours, _ in PAIRS))


@dataclass(frozen=True)
class Contest:
    """One robot in both libraries, with the states both are asked at."""

    robot: vm.Robot
    peer: Peer
    rust: dynibo.FloatingRobot
    states: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    peer_states: list[tuple[np.ndarray, np.ndarray, np.ndarray]]

    @classmethod
    def of_size(cls, n: int) -> Contest:
        """A random chain of n joints and STATES random states (q, qd, mu)."""
        urdf = chain_urdf(n)
        rng = np.random.default_rng(n)
        states = [
            (rng.uniform(-3, 3, n), rng.normal(size=n), rng.normal(size=6)) for _ in range(STATES)
        ]
        peer_states = [(pinocchio_q(q), qd, mu) for q, qd, mu in states]
        with tempfile.NamedTemporaryFile("w", suffix=".urdf") as file:
            file.write(urdf)
            file.flush()
            rust = dynibo.FloatingRobot.from_urdf(file.name)
        return cls(vm.load(urdf, base="SE3"), Peer(urdf), rust, states, peer_states)

    def candidates(self) -> dict[str, Candidate]:
        """All that is timed at every n."""
        return self._shape_candidates() | self._motion_candidates() | self.forward_candidates()

    def forward_candidates(self) -> dict[str, Candidate]:
        """Forward dynamics of a passive base and all joints, no gravity, random torques."""
        robot, model, data = self.robot, self.peer.model, self.peer.data
        pose = np.eye(4)
        states = [(q, mu, qd, np.sin(q)) for q, qd, mu in self.states]
        peer_states = [
            (peer_q, np.concatenate((mu, qd)), np.concatenate((np.zeros(6), np.sin(q))))
            for (q, qd, mu), (peer_q, _, _) in zip(self.states, self.peer_states, strict=True)
        ]

        def forward_dynamics(states, call=robot.forward_dynamics):
            for q, V, qd, tau in states:
                call(pose, q, V, qd, tau)

        def aba(states, call=pin.aba):
            for q, v, tau in states:
                call(model, data, q, v, tau)

        rust_states = [
            (_base(V), q, qd, np.concatenate((np.zeros(6), tau))) for q, V, qd, tau in states
        ]

        def dynibo_forward(states, call=self.rust.forward_dynamics):
            for base, q, qd, force in states:
                call(base, q, qd, force)

        return {
            "forward_dynamics": Candidate(forward_dynamics, states),
            "aba": Candidate(aba, peer_states),
            "dynibo forward": Candidate(dynibo_forward, rust_states),
        }

    def _shape_candidates(self) -> dict[str, Candidate]:
        robot, model, data = self.robot, self.peer.model, self.peer.data
        qs, peer_qs = [s[0] for s in self.states], [s[0] for s in self.peer_states]

        def mass_and_connection(qs, call=robot.mass_and_connection):
            for q in qs:
                call(q)

        def mass_and_connection_peer(qs, crba=pin.crba, solve=np.linalg.solve):
            for q in qs:
                M = crba(model, data, q)
                solve(M[:6, :6], M[:6, 6:])

        def mass_matrix(qs, call=robot.mass_matrix):
            for q in qs:
                call(q)

        def mass_matrix_peer(qs, crba=pin.crba):
            for q in qs:
                crba(model, data, q)

        def mass_matrix_world(qs, crba=pin.crba, world=pin.Convention.WORLD):
            for q in qs:
                crba(model, data, q, world)

        at_origin = dynibo.BaseState()

        def dynibo_mass(qs, call=self.rust.mass_matrix):
            for q in qs:
                call(at_origin, q)

        return {
            "dynibo mass": Candidate(dynibo_mass, qs),
            "mass_and_connection": Candidate(mass_and_connection, qs),
            "crba + solve": Candidate(mass_and_connection_peer, peer_qs),
            "mass_matrix": Candidate(mass_matrix, qs),
            "crba": Candidate(mass_matrix_peer, peer_qs),
            "crba WORLD": Candidate(mass_matrix_world, peer_qs),
        }

    def _motion_candidates(self) -> dict[str, Candidate]:
        robot, peer = self.robot, self.peer
        qs, peer_qs = [s[0] for s in self.states], [s[0] for s in self.peer_states]

        def reduced(states, call=robot.reduced):
            for q, qd, mu in states:
                call(q, qd, mu)

        def reduced_peer(states, call=peer.reduced):
            for q, qd, mu in states:
                call(q, qd, mu)

        def reduced_lean(states, call=peer.reduced_lean):
            for q, qd, mu in states:
                call(q, qd, mu)

        def curvature(qs, call=robot.curvature):
            for q in qs:
                call(q)

        def curvature_peer(qs, call=peer.curvature):
            for q in qs:
                call(q)

        return {
            "reduced": Candidate(reduced, self.states),
            "Lemma 2": Candidate(reduced_peer, self.peer_states),
            "Lemma 2 lean": Candidate(reduced_lean, self.peer_states),
            "curvature": Candidate(curvature, qs),
            "differences": Candidate(curvature_peer, peer_qs),
        }

    def disagreement(self) -> dict[str, float]:
        """Largest relative difference of each result between the two, at the first state.

        Raises:
            RuntimeError: they do not compute the same.
        """
        q, qd, mu = self.states[0]
        peer_q = self.peer_states[0][0]
        M, A = self.robot.mass_and_connection(q)
        found = {
            "M": _difference(M, pin.crba(self.peer.model, self.peer.data, peer_q)),
            "A": _difference(A, self.peer.connection(peer_q)),
        }
        ours = self.robot.reduced(q, qd, mu)
        for theirs in (self.peer.reduced, self.peer.reduced_lean):
            error = _reduced_difference(ours, theirs(peer_q, qd, mu), np.concatenate((mu, qd)))
            found["reduced"] = max(error, found.get("reduced", 0.0))
        found["curvature"] = _difference(self.robot.curvature(q), self.peer.curvature(peer_q))
        forces = np.concatenate((np.zeros(6), np.sin(q)))
        velocity = np.concatenate((mu, qd))
        there = pin.aba(self.peer.model, self.peer.data, peer_q, velocity, forces)
        here = self.robot.forward_dynamics(np.eye(4), q, mu, qd, np.sin(q))
        found["forward"] = _difference(np.concatenate(here), there)
        base = dynibo.BaseState()
        theirs = _linear_first(self.rust.mass_matrix(base, q).reshape(M.shape))
        found["M"] = max(found["M"], _difference(M, theirs))
        there = _linear_first(self.rust.forward_dynamics(base, q, qd, forces))
        there[2] += DYNIBO_GRAVITY  # on a free base it does nothing but fall
        here = self.robot.forward_dynamics(np.eye(4), q, np.zeros(6), qd, np.sin(q))
        found["forward"] = max(found["forward"], _difference(np.concatenate(here), there))
        for what, error in found.items():
            if not error < (SAME_DIFFERENCES if what == "curvature" else SAME):
                raise RuntimeError(f"n = {self.robot.n}: {what} differs by {error:.1e}, relative")
        return found


def batch_candidates(count: int = BATCH) -> dict[str, Candidate]:
    """M and A of many configurations against a loop of ``crba``."""
    contest = Contest.of_size(BATCH_JOINTS)
    model, data = contest.peer.model, contest.peer.data
    shapes = np.random.default_rng(0).uniform(-3, 3, (count, BATCH_JOINTS))

    def batch(batches, call=contest.robot.batch_mass_and_connection):
        for Q in batches:
            call(Q)

    def one_by_one(qs, crba=pin.crba):
        for q in qs:
            crba(model, data, q)

    return {
        "batch": Candidate(batch, [shapes, shapes[::-1].copy()], calls=1, share=count),
        "crba each": Candidate(one_by_one, [pinocchio_q(q) for q in shapes], calls=count),
    }


def _base(V: np.ndarray) -> dynibo.BaseState:
    """A base at the origin with a twist [v; w]."""
    return dynibo.BaseState(velocity=dynibo.Twist(angular=tuple(V[3:]), linear=tuple(V[:3])))


def _linear_first(x: np.ndarray) -> np.ndarray:
    """A vector or matrix of dynibo, which has [w; v], with [v; w]."""
    order = np.r_[3:6, 0:3, 6 : len(x)]
    return x[order] if x.ndim == 1 else x[np.ix_(order, order)]


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(abs(ours - theirs).max() / abs(theirs).max())


def _reduced_difference(ours, theirs, xi: np.ndarray) -> float:
    """Of the matrices both have, and of the Coriolis force, whose matrix is not unique."""
    names = ("M_b", "Lambda_q", "A", "A_dot", "P")
    errors = [_difference(getattr(ours, name), getattr(theirs, name)) for name in names]
    return max(*errors, _difference((ours.D_qd - ours.D_mu) @ xi, theirs.Gamma @ xi))
