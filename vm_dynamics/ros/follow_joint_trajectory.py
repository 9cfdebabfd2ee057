# SPDX-License-Identifier: Apache-2.0
"""The action ``follow_joint_trajectory``, as MoveIt and others execute trajectories.

Its type is in ``control_msgs``, which is not on PyPI, so the action exists where that is
installed. :class:`Goals` decides what becomes of a goal and knows nothing of rclpy;
:class:`Server` puts it behind an action server. Its callbacks, and a timer that runs while
there is a goal, are served in the thread of services. None of them waits: control tells the
outcome, the timer hands it on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.action.server import ActionServer, CancelResponse, GoalResponse
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from trajectory_msgs.msg import JointTrajectoryPoint

from vm_dynamics.errors import ParameterError, VmDynamicsError
from vm_dynamics.ros.joint_trajectories import Code, JointTrajectories, Order, Outcome, Progress
from vm_dynamics.ros.messages import to_stamp
from vm_dynamics.ros.trajectory_messages import goal_tolerances

NAME = "~/follow_joint_trajectory"
CANCELLED = Outcome(Code.SUCCESSFUL, "cancelled")


def action_type() -> Any:
    """The action's type, None where ``control_msgs`` is not installed."""
    try:
        from control_msgs.action import FollowJointTrajectory
    except ImportError:
        return None
    return FollowJointTrajectory


class _Goal:
    """A goal that was accepted, and what has come of it."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.outcome: Outcome | None = None

    def tell(self, outcome: Outcome) -> None:
        """Remember the first outcome; called in the thread of control."""
        if self.outcome is None:
            self.outcome = outcome


class Goals:
    """One goal at a time: the next one replaces it.

    Handles are those of rclpy: ``request``, ``execute()``, ``publish_feedback(feedback)``,
    ``succeed()``, ``abort()``, ``canceled()``, ``is_cancel_requested``.
    """

    def __init__(
        self,
        trajectories: JointTrajectories,
        kind: Any,
        *,
        conclude: Callable[[Any, Callable[[Any], Any]], None],
        busy: Callable[[bool], None],
        trouble: Callable[[str, str], None],
    ) -> None:
        """No goal yet.

        Args:
            trajectories: who follows them.
            kind: type of the action, with ``Result`` and ``Feedback``.
            conclude: called with a handle and a function of it that ends the goal and returns its
                result.
            busy: called with whether :meth:`look` has to be called again and again.
            trouble: called with a kind and a text, for what is refused.
        """
        self._trajectories, self._kind = trajectories, kind
        self._conclude, self._busy, self._trouble = conclude, busy, trouble
        self._present: _Goal | None = None
        self._read: tuple[Any, Order] | None = None  # a request that was accepted

    def accepts(self, request: Any) -> bool:
        """Whether a goal can be followed; if not, the log says why."""
        try:
            self._read = request, self._order(request)
        except VmDynamicsError as error:
            self._trajectories.refusal = str(error)
            self._trouble("refused goal", f"goal refused: {error}")
            return False
        return True

    def _order(self, request: Any) -> Order:
        if request.multi_dof_trajectory.points:
            raise ParameterError("multi_dof_trajectory: has points, expected joints only")
        if not request.trajectory.points:
            raise ParameterError("trajectory: has no points, expected at least one")
        order = self._trajectories.read(request.trajectory)
        tolerances = goal_tolerances(self._trajectories.robot, request, order.tolerances)
        return order._replace(tolerances=tolerances)

    def begin(self, handle: Any) -> None:
        """Follow a goal that was accepted; the one before it ends."""
        goal, former = _Goal(handle), self._present
        handle.execute()
        try:
            request, order = self._read or (None, None)
            if order is None or request is not handle.request:
                order = self._order(handle.request)
            self._trajectories.follow(order._replace(told=goal.tell))
        except VmDynamicsError as error:
            # it was well when it was accepted; the goal before it goes on
            goal.tell(Outcome(Code.INVALID_GOAL, str(error)))
            self._end(goal)
            return
        finally:
            self._read = None
        if former is not None:
            self._end(former)
        self._present = goal
        self._busy(True)

    def cancel(self, handle: Any) -> bool:
        """Stop the joints of a goal; False if it is over."""
        goal = self._present
        if goal is None or goal.handle is not handle or goal.outcome is not None:
            return False
        self._trajectories.stop(CANCELLED)
        return True

    def look(self) -> None:
        """Say how far the goal is, or how it ended."""
        goal = self._present
        if goal is None:
            return
        self._trajectories.look()
        if goal.outcome is not None:
            self._present = None
            self._busy(False)
            self._end(goal)
        elif self._trajectories.progress is not None:
            goal.handle.publish_feedback(self._feedback(self._trajectories.progress))

    def close(self) -> None:
        """No more goals."""
        self._present = self._read = None

    def _end(self, goal: _Goal) -> None:
        outcome = goal.outcome or Outcome(Code.INVALID_GOAL, "replaced by another goal")
        result = self._kind.Result(error_code=int(outcome.code), error_string=outcome.text)

        def ended(handle: Any) -> Any:
            if handle.is_cancel_requested and outcome is CANCELLED:
                handle.canceled()
            elif outcome.code is Code.SUCCESSFUL and outcome is not CANCELLED:
                handle.succeed()
            else:
                handle.abort()
            return result

        self._conclude(goal.handle, ended)

    def _feedback(self, progress: Progress) -> Any:
        out = self._kind.Feedback()
        out.header.stamp = to_stamp(progress.nanos)
        out.joint_names = list(self._trajectories.robot.joint_names)
        out.desired = _point(*progress.desired)
        out.actual = _point(*progress.actual)
        out.error = _point(*(progress.desired[:2] - progress.actual))
        return out


def _point(*parts: Any) -> JointTrajectoryPoint:
    """A point of positions, velocities and, if there are any, accelerations."""
    names = ("positions", "velocities", "accelerations")
    return JointTrajectoryPoint(
        **{name: np.asarray(part).tolist() for name, part in zip(names, parts, strict=False)}
    )


class _DeferredServer(ActionServer):
    """An action server whose goals are executed elsewhere, and end when they are told to.

    rclpy would run a callback from begin to end, which keeps its thread, or a coroutine, which it
    asks again and again without a pause.
    """

    def notify_execute(
        self, goal_handle: Any, execute_callback: Callable[[Any], Any] | None
    ) -> None:
        """Run the callback that ends a goal; there is none when it begins."""
        if execute_callback is not None:
            super().notify_execute(goal_handle, execute_callback)


class Server:
    """An action server of a node, with a timer that runs while there is a goal."""

    def __init__(self, node: Any, kind: Any, trajectories: JointTrajectories, rate: float) -> None:
        """Serve goals.

        Args:
            node: the node; its executor serves the action.
            kind: type of the action.
            trajectories: who follows the goals.
            rate: of feedback [Hz].
        """
        self._node = node
        # of the machine's clock: an end must be told although simulated time stands still
        self._timer = node.create_timer(
            1.0 / rate, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )
        self._timer.cancel()
        self.goals = Goals(
            trajectories,
            kind,
            conclude=self._finish,
            busy=lambda on: self._timer.reset() if on else self._timer.cancel(),
            trouble=node.health.trouble,
        )
        self._server = _DeferredServer(
            node,
            kind,
            NAME,
            self.goals.begin,  # rclpy needs one, and never calls it
            goal_callback=self._consider,
            handle_accepted_callback=self.goals.begin,
            cancel_callback=self._cancel,
        )

    def destroy(self) -> None:
        """Serve no more."""
        self.goals.close()
        self._node.destroy_timer(self._timer)
        self._server.destroy()

    def _look(self) -> None:
        self.goals.look()

    def _finish(self, handle: Any, ended: Callable[[Any], Any]) -> None:
        self._server.notify_execute(handle, ended)

    def _consider(self, request: Any) -> GoalResponse:
        return GoalResponse.ACCEPT if self.goals.accepts(request) else GoalResponse.REJECT

    def _cancel(self, handle: Any) -> CancelResponse:
        return CancelResponse.ACCEPT if self.goals.cancel(handle) else CancelResponse.REJECT
