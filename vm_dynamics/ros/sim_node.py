# SPDX-License-Identifier: Apache-2.0
"""A simulated robot: takes joint efforts, thrusts and a wrench, publishes what sensors would say.

MuJoCo steps it (a robot with added mass, or on another base than SE3, is stepped by the package
itself, and the log says so). Joint states come fast, the pose slowly, late and noisy; the truth is
on ``ground_truth/odom``. Time is simulated and published on ``/clock``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, PoseStamped, Quaternion, WrenchStamped
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger

from vm_dynamics.dynamics.propulsion import Propulsion
from vm_dynamics.errors import (
    DivergedError,
    ParameterError,
    UnknownJointError,
    VmDynamicsError,
)
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model import xml
from vm_dynamics.model.hydrodynamics import Hydrodynamics
from vm_dynamics.paths import robot_file
from vm_dynamics.robot import Robot
from vm_dynamics.ros.diagnostics import ERROR, OK, WARN
from vm_dynamics.ros.messages import (
    fill_pose,
    fill_twist,
    fill_wrench,
    nanoseconds,
    pose_matrix,
    to_stamp,
    twist_of_group,
    wrench_vector,
)
from vm_dynamics.ros.node import COMMAND, LATCHED, VmNode
from vm_dynamics.ros.parameters import ModelParameters, numbers_by_name, parameter
from vm_dynamics.ros.process import run
from vm_dynamics.ros.watchdog import timeout_parameter
from vm_dynamics.simulation import Sensing, Simulator, State
from vm_dynamics.simulation.viewer import Viewer

IDLE_POLL_PERIOD = 0.05  # [s] between looks at whether there is something to do
PICTURE_PERIOD = 1.0 / 60.0  # [s] of the wall's clock between two pictures
CATCH_UP_POLL_PERIOD = 5e-4  # [s] between looks at whether others have caught up
MAX_CATCH_UP = 0.1  # [s]: what is behind by more is not caught up with
FOLLOWER_TIMEOUT = 1.0  # [s] of the wall's clock that somebody is waited for
MIN_SPEED_SHARE = 0.95  # of the wanted speed; below it the diagnostics warn


@dataclass(frozen=True)
class SimParameters(ModelParameters):
    """Parameters of the simulation node."""

    GROUPS: ClassVar[tuple[str, ...]] = ("initial", "pose", "grasp")

    robot: str = parameter(
        "satellite_arm7",
        "name of a robot of the package, or path of a URDF file",
        read_only=True,
    )
    robot_description: str = parameter("", "URDF text, instead of robot", read_only=True)
    current: tuple[float, ...] = parameter(
        (),
        "velocity of the water in the world's axes; if empty, what the file says",
        unit="m/s",
        of=float,
        read_only=True,
    )
    propulsion: str = parameter(
        "", "YAML file with a section propulsion; empty for no thrusters", read_only=True
    )
    initial_pose: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
        "where the base starts: x y z [m] and quaternion x y z w",
        of=float,
        read_only=True,
    )
    initial_twist: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "how the base moves at the start: v and w in the root link's frame",
        unit="m/s, rad/s",
        of=float,
        read_only=True,
    )
    initial_joints: tuple[str, ...] = parameter(
        (), "where joints start: name=position [rad or m]; zero for all others", read_only=True
    )
    initial_hold: bool = parameter(
        False, "stand still until the first command that is not zero", read_only=True
    )
    friction: bool = parameter(
        True,
        "whether joints rub as the URDF says; false for drives that compensate their friction",
        read_only=True,
    )
    step: float = parameter(
        1e-3, "step of the physics", unit="s", minimum=1e-6, maximum=0.1, read_only=True
    )
    joint_rate: float = parameter(
        500.0,
        "joint states, truths and clock ticks a second of simulated time",
        unit="Hz",
        minimum=0.1,
        maximum=1e4,
        read_only=True,
    )
    real_time_factor: float = parameter(
        1.0, "simulated seconds in a second; 0 for as many as there can be", minimum=0.0
    )
    most_lead: float = parameter(
        0.0,
        "how far simulated time may run ahead of the stamps on torques and odom, so that nodes on "
        "a busy machine keep up; 0 to wait for nobody",
        unit="s",
        minimum=0.0,
        read_only=True,
    )
    joint_position_deviation: float = parameter(
        0.0, "noise of joint positions", unit="rad or m", minimum=0.0
    )
    joint_velocity_deviation: float = parameter(
        5e-3, "noise of joint velocities", unit="rad/s or m/s", minimum=0.0
    )
    pose_rate: float = parameter(
        10.0, "poses a second of simulated time", unit="Hz", minimum=1e-3, maximum=1e4
    )
    pose_position_deviation: float = parameter(
        5e-3, "noise of the pose's position", unit="m", minimum=0.0
    )
    pose_attitude_deviation: float = parameter(
        5.236e-3, "noise of the pose's attitude", unit="rad", minimum=0.0
    )
    pose_delay: float = parameter(
        0.05, "from when a pose is taken to when it is published", unit="s", minimum=0.0
    )
    pose_dropout: float = parameter(
        0.0, "part of the poses that never come", minimum=0.0, maximum=1.0
    )
    failed_joints: tuple[str, ...] = parameter((), "joints whose motors give no effort now")
    grasp_link: str = parameter("", "link that holds a body now; empty for none")
    grasp_mass: float = parameter(0.0, "mass of that body", unit="kg", minimum=0.0)
    grasp_com: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "its centre of mass in the link's frame", unit="m", of=float
    )
    grasp_inertia: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "xx xy xz yy yz zz about its centre of mass, in the link's axes",
        unit="kg m^2",
        of=float,
    )
    command_timeout: float = timeout_parameter(
        "simulated time without commands after which motors and thrusters give nothing, as the "
        "watchdog of a real driver has it"
    )
    world_frame: str = parameter("world", "frame of poses and odometry", read_only=True)
    seed: int = parameter(0, "of all noise", minimum=0, read_only=True)
    viewer: bool = parameter(
        False, "open MuJoCo's window, where there is a screen", read_only=True
    )

    def __post_init__(self) -> None:
        """Check lengths of vectors."""
        super().__post_init__()
        self.require_lengths(current=(0, 3), initial_pose=(7,), initial_twist=(6,))
        self.require_lengths(grasp_com=(3,), grasp_inertia=(6,))
        self.start  # noqa: B018 - raises what is wrong with it

    @property
    def start(self) -> Array:
        """Pose in which the base starts, shape (4, 4)."""
        x, y, z, *q = self.initial_pose
        return pose_matrix(Point(x=x, y=y, z=z), Quaternion(x=q[0], y=q[1], z=q[2], w=q[3]))

    @property
    def fluid(self) -> Hydrodynamics | None:
        """The water, which flows as it is told to."""
        still = super().fluid
        if not self.current:
            return still
        if still is None:
            raise ParameterError("parameter current: there is no water without hydrodynamics")
        return replace(still, current=self.current)

    @property
    def grasp(self) -> tuple[str, float, tuple[float, ...], tuple[float, ...]]:
        """Link, mass, centre of mass and inertia of what is held."""
        return self.grasp_link, self.grasp_mass, self.grasp_com, self.grasp_inertia

    @property
    def sensing(self) -> Sensing:
        """What the sensors are like."""
        return Sensing(**{item.name: getattr(self, item.name) for item in fields(Sensing)})


class SimNode(VmNode):
    """A simulated robot with its sensors and motors as a lifecycle node that makes the time."""

    PARAMETERS = SimParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("sim_node")
        self.simulator: Simulator | None = None
        self._viewer: Viewer | None = None
        self._diverged = ""

    def start(self) -> None:
        """Build the robot, then its topics."""
        p = self.parameters
        text = _text(p)
        robot = p.robot_of(text)
        self.simulator = _simulator(p, robot, text)
        log = self.get_logger()
        log.info(f"robot {robot!r}")
        if self.simulator.why_own:
            log.warning(
                f"stepped by this package's own integrator, not by MuJoCo: "
                f"{self.simulator.why_own}"
            )
        fill_pose(PoseStamped().pose, self.simulator.state.g)  # compiled before the first cycle
        self._steps = max(1, round(1.0 / (p.joint_rate * p.step)))
        self._message = JointState(
            name=list(robot.joint_names),
            **{key: [0.0] * robot.n for key in ("position", "velocity", "effort")},
        )
        buffers = self._message.position, self._message.velocity, self._message.effort
        self._buffers = tuple(np.frombuffer(buffer, dtype=float) for buffer in buffers)
        self._ticks = self.publisher(Clock, "/clock", COMMAND, sole=True)
        self._joints = self.publisher(JointState, "joint_states", COMMAND, sole=True)
        self._pose = self.publisher(PoseStamped, "pose", COMMAND, sole=True)
        self._truth = self.publisher(Odometry, "ground_truth/odom", COMMAND)
        self._wrench = self.publisher(WrenchStamped, "thruster_wrench", COMMAND)
        self.publisher(String, "robot_description", LATCHED).publish(String(data=text))
        self.listen(Float64MultiArray, "commands", self._on_commands, COMMAND, sole=True)
        self.listen(Float64MultiArray, "thrusts", self._on_thrusts, COMMAND, sole=True)
        self.listen(WrenchStamped, "base_wrench", self._on_wrench, COMMAND)
        self._followers: dict[str, int] = {}  # newest stamps of those who are waited for [ns]
        if p.most_lead > 0.0:
            self.listen(JointState, "torques", self._followed("torques"), COMMAND)
            self.listen(Odometry, "odom", self._followed("odom"), COMMAND)
        self.serve(Trigger, "~/reset", self._on_reset)
        if p.viewer:
            self._open(text)

    def _open(self, text: str) -> None:
        try:
            self._viewer = Viewer(text)
        except VmDynamicsError as error:
            self.get_logger().warning(f"{error}; going on without")

    def accept(self, changed: SimParameters, names: set[str]) -> None:
        """Joints that fail must be the robot's, and it stays the same robot."""
        fixed = names & {item.name for item in fields(ModelParameters)}
        if fixed:
            raise ParameterError(
                f"parameter {', '.join(sorted(fixed))}: fixed while the simulation runs"
            )
        if self.simulator is not None:
            _check_joints("failed_joints", changed.failed_joints, self.simulator.robot)
            if changed.grasp_link:
                self.simulator.robot.with_payload(*changed.grasp)  # raises what is wrong with it

    def use_parameters(self, before: SimParameters) -> None:
        """Sensors and failures may change at any time."""
        if self.simulator is not None:
            self.simulator.sensing = self.parameters.sensing
            self.simulator.fail(self.parameters.failed_joints)
            self.simulator.command_timeout = self.parameters.command_timeout
            if self.parameters.grasp != before.grasp:
                self.simulator.grasp(*self.parameters.grasp)
        self._begin_pace()

    # -- inputs ---------------------------------------------------------------------------------

    def _on_commands(self, message: Float64MultiArray) -> None:
        if self.simulator is not None:
            self.simulator.command(np.array(message.data))

    def _on_thrusts(self, message: Float64MultiArray) -> None:
        if self.simulator is not None:
            self.simulator.thrust(np.array(message.data))

    def _on_wrench(self, message: WrenchStamped) -> None:
        if self.simulator is None:
            return
        frame = message.header.frame_id
        root = self.parameters.frame_of(self.simulator.robot.root_link)
        if frame not in ("", root):
            raise ParameterError(f"base_wrench: is in frame {frame!r}, expected {root!r}")
        self.simulator.push(wrench_vector(message.wrench))

    def _followed(self, topic: str) -> Callable[[Any], None]:
        """Remember how far somebody has come."""

        def heard(message: Any) -> None:
            self._followers[topic] = nanoseconds(message.header.stamp)

        return heard

    def _on_reset(self, request: Any, response: Any) -> Any:
        with self.lock:
            response.success = self.simulator is not None
            response.message = "there is no simulation: the node is not configured"
            if self.simulator is not None:
                self.simulator.reset()
                self._diverged = ""
                self._begin_pace()
                response.message = "back at the start"
        self.get_logger().info(response.message)
        return response

    # -- time -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Time runs while the node is active."""
        self._begin_pace()

    def _begin_pace(self) -> None:
        self._next = self._drawn = self._moved = time.monotonic()
        self._pace_from = self._next, 0 if self.simulator is None else self.simulator.nanos

    def work(self) -> float:
        """The steps between two joint states, and what the sensors say of them."""
        now = time.monotonic()
        if not self.is_active or self.simulator is None or self._diverged:
            return now + IDLE_POLL_PERIOD
        if self._ahead(self.simulator.nanos, now):
            return now + CATCH_UP_POLL_PERIOD
        self._moved = now
        start = time.perf_counter()
        try:
            self.simulator.advance(self._steps)
        except DivergedError as error:
            self._diverged = str(error)
            self.get_logger().error(f"{error}; the simulation stands still until ~/reset")
            return now + IDLE_POLL_PERIOD
        self._publish(self.simulator)
        self.health.cycle(start)
        factor = self.parameters.real_time_factor
        if factor == 0.0:
            return now
        self._next += self._steps * self.parameters.step / factor
        if self._next < now - MAX_CATCH_UP:
            self._next = now
        return self._next

    def _ahead(self, nanos: int, now: float) -> bool:
        """Whether somebody is too far behind, who has not been waited for too long."""
        least = nanos - int(1e9 * self.parameters.most_lead)
        late = [topic for topic, stamp in self._followers.items() if stamp < least]
        if late and now > self._moved + FOLLOWER_TIMEOUT:
            for topic in late:
                del self._followers[topic]  # until it is heard again
            self.get_logger().warning(f"not waiting any longer for {', '.join(late)}")
            return False
        return bool(late)

    def _publish(self, simulator: Simulator) -> None:
        state, stamp = simulator.state, to_stamp(simulator.nanos)
        self._ticks.publish(Clock(clock=stamp))
        q, qd = simulator.joints(state)
        for buffer, values in zip(self._buffers, (q, qd, simulator.efforts), strict=True):
            buffer[:] = values
        group, root = (
            simulator.robot.base_group,
            self.parameters.frame_of(simulator.robot.root_link),
        )
        if simulator.propulsion is not None or simulator.held:
            wrench = WrenchStamped()
            wrench.header.stamp, wrench.header.frame_id = stamp, root
            fill_wrench(wrench.wrench, simulator.driving_wrench)
            self._wrench.publish(wrench)
        for taken, g in simulator.poses(state.g):
            pose = PoseStamped()
            pose.header.stamp, pose.header.frame_id = to_stamp(taken), self.parameters.world_frame
            fill_pose(pose.pose, g)
            self._pose.publish(pose)
        # after all that a step of the others needs with it
        self._message.header.stamp = stamp
        self._joints.publish(self._message)
        if self._truth.get_subscription_count() > 0:
            truth = Odometry(child_frame_id=root)
            truth.header.stamp, truth.header.frame_id = stamp, self.parameters.world_frame
            fill_pose(truth.pose.pose, state.g)
            fill_twist(truth.twist.twist, twist_of_group(group, state.V))
            self._truth.publish(truth)
        self._draw(state)

    def _draw(self, state: State) -> None:
        now = time.monotonic()
        if self._viewer is None or now < self._drawn + PICTURE_PERIOD:
            return
        if self._viewer.is_open:
            self._viewer.show(state)
            self._drawn = now
        else:
            self._viewer = None

    def stamp(self) -> Time:
        """Simulated time, as those who listen to the clock have it."""
        return to_stamp(0 if self.simulator is None else self.simulator.nanos)

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """Whether the simulation keeps up with the wall's clock."""
        simulator = self.simulator
        if simulator is None:
            return WARN, "no robot", {}
        since, nanos = self._pace_from
        spent = max(time.monotonic() - since, 1e-9)
        factor = 1e-9 * (simulator.nanos - nanos) / spent
        values = {
            "robot": repr(simulator.robot),
            "engine": "own" if simulator.why_own else "MuJoCo",
            "simulated time [s]": f"{1e-9 * simulator.nanos:.3f}",
            "real-time factor": f"{factor:.3f}",
            "held": str(simulator.held),
        }
        if self._diverged:
            return ERROR, f"stands still: {self._diverged}", values
        self._pace_from = time.monotonic(), simulator.nanos
        wanted = self.parameters.real_time_factor
        if factor < MIN_SPEED_SHARE * wanted:
            return WARN, f"slower than wanted: {factor:.2f} of {wanted:g}", values
        return OK, "running", values

    def forget(self) -> None:
        """No robot, no window."""
        if self._viewer is not None:
            self._viewer.close()
        self._viewer, self.simulator, self._diverged = None, None, ""


def _text(p: SimParameters) -> str:
    """URDF text of the parameters."""
    if p.robot_description:
        return p.robot_description
    text = xml.read(robot_file(p.robot))
    return text if isinstance(text, str) else text.decode()


def _simulator(p: SimParameters, robot: Robot, text: str) -> Simulator:
    joints = numbers_by_name("initial.joints", p.initial_joints)
    _check_joints("initial.joints", joints, robot)
    q = np.array([joints.get(name, 0.0) for name in robot.joint_names])
    V = robot.base_group.iota_pinv @ np.array(p.initial_twist)
    start = State(p.start, q, V, np.zeros(robot.n))
    out = Simulator(
        robot,
        text,
        start,
        step=p.step,
        propulsion=Propulsion.load(robot, p.propulsion) if p.propulsion else None,
        sensing=p.sensing,
        friction=p.friction,
        hold=p.initial_hold,
        command_timeout=p.command_timeout,
        seed=p.seed,
    )
    out.fail(p.failed_joints)
    if p.grasp_link:
        out.grasp(*p.grasp)
    return out


def _check_joints(name: str, joints: Iterable[str], robot: Robot) -> None:
    for joint in joints:
        if joint not in robot.joint_names:
            raise UnknownJointError(f"parameter {name}", joint, robot.joint_names)


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(SimNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
