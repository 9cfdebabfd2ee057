# SPDX-License-Identifier: Apache-2.0
"""A controller of one's own: joints on springs and dampers, with the weight of the arms carried.

compensator_node runs it by its import path, from any folder or package that Python finds::

    PYTHONPATH=examples ros2 run vm_dynamics compensator_node --ros-args \
        -p controller:=gravity_pd:GravityPd -p 'controller_settings:=["stiffness=30.0"]'
"""

from __future__ import annotations

import numpy as np

import vm_dynamics as vm


class GravityPd(vm.Controller):
    """tau = g(q) - K (q - q_d) - D (qd - qd_d), the weight g(q) as on a base that is held up."""

    needs = frozenset({"pose"})  # which way down is, seen from the base

    def __init__(self, robot, stiffness=20.0, damping=4.0):
        """K [N m/rad or N/m] and D [N m s/rad or N s/m]: numbers, or one for each joint."""
        if np.min(stiffness) < 0.0 or np.min(damping) < 0.0:
            raise ValueError("a negative gain drives a joint away from its target")
        self.robot, self.stiffness, self.damping = robot, np.array(stiffness), np.array(damping)
        self._rest = np.zeros(robot.b), np.zeros(robot.n)
        self.set_target(np.zeros(robot.n))

    def set_target(self, q, qd=0.0, qdd=0.0):
        self._q, self._qd = q, qd

    def reset(self):
        """No integral action, so there is nothing to forget."""

    def command(self, state):
        _, weight = self.robot.inverse_dynamics(state.g, state.q, *self._rest, *self._rest)
        pull = self.stiffness * (state.q - self._q) + self.damping * (state.qd - self._qd)
        return vm.Efforts(weight - pull)
