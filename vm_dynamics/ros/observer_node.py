# SPDX-License-Identifier: Apache-2.0
"""Observes the base velocity from a slow, noisy, late pose and fast joint states.

The estimate is propagated with every joint state and published with its stamp: odometry with
covariance, the twist in the root link's frame, locked velocity and momentum. A pose that is older
than the newest joint state goes to its place in the history. Where joint states have efforts and
somebody listens, contacts are looked for too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from geometry_msgs.msg import (
    TwistStamped,
    TwistWithCovarianceStamped,
    WrenchStamped,
)
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu
from std_msgs.msg import Float64MultiArray, String

from vm_dynamics.errors import ParameterError
from vm_dynamics.estimation import (
    OBSERVERS,
    ContactObserver,
    InvariantEkf,
    Observer,
    PoseDelay,
)
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot
from vm_dynamics.ros.base_inputs import (
    POSE_TYPES,
    BaseParameters,
    Seconds,
    read_pose,
    read_wrench,
)
from vm_dynamics.ros.consistency import Consistency
from vm_dynamics.ros.contacts import ContactReporter
from vm_dynamics.ros.diagnostics import OK, WARN
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.matrices import Encoder, base_names
from vm_dynamics.ros.messages import (
    fill_pose,
    fill_twist,
    nanoseconds,
    to_stamp,
    twist_of_group,
    world_covariance,
)
from vm_dynamics.ros.node import COMMAND, LATCHED, SENSOR
from vm_dynamics.ros.parameters import parameter
from vm_dynamics.ros.process import run
from vm_dynamics.ros.robot_node import RobotNode

KNOWN_DELAY = 0.005  # [s], deviation with which a delay is taken off the stamps
COVARIANCE_PERIOD = 100_000_000  # [ns] between covariances of the locked velocity


@dataclass(frozen=True)
class ObserverParameters(BaseParameters):
    """Parameters of the observer node."""

    GROUPS: ClassVar[tuple[str, ...]] = ("payload", "pose", "imu")

    observer: str = parameter("invariant_ekf", "which observer", choices=tuple(OBSERVERS))
    pose_timeout: float = parameter(
        1.0, "age of the last pose from which the estimate is coasting", unit="s", minimum=1e-3
    )
    pose_find_delay: bool = parameter(
        False, "whether to find a delay beyond pose.delay, up to half a second, and take it off"
    )
    joint_velocity_deviation: float = parameter(
        5e-3, "noise of joint velocities", unit="rad/s or m/s", minimum=1e-9
    )
    disturbance: float = parameter(
        1e-3,
        "random walk of the locked velocity by what is not in the model; 1e-4 if it is calibrated",
        unit="m/s/sqrt(s), rad/s/sqrt(s)",
        minimum=1e-12,
    )
    external_wrench: str = parameter(
        "none",
        "whether to estimate a constant wrench on the base, and along which axes it is constant",
        choices=("none", "body", "world"),
    )
    gate: float = parameter(
        0.9999,
        "probability with which a good measurement passes the test for outliers",
        minimum=0.5,
        maximum=1.0 - 1e-12,
    )
    patience: int = parameter(
        5, "poses rejected in a row after which the estimate begins anew", minimum=1
    )
    imu_link: str = parameter(
        "", "link whose axes the topic imu has; empty for no gyroscope", read_only=True
    )
    imu_deviation: float = parameter(
        2e-3, "noise of a gyroscope that comes without covariance", unit="rad/s", minimum=1e-9
    )
    imu_bias_walk: float = parameter(
        1e-5, "how a gyroscope's bias wanders", unit="rad/s/sqrt(s)", minimum=1e-12
    )
    velocity_axes: str = parameter(
        "none",
        "axes of the topic velocity, linear velocity of the root link; none to ignore it",
        choices=("none", "body", "world"),
        read_only=True,
    )
    velocity_deviation: float = parameter(
        2e-2, "noise of a velocity that comes without covariance", unit="m/s", minimum=1e-9
    )
    stamp_deviation: float = parameter(
        2.5e-2,
        "how far stamps of poses may be off against those of the joints; widens the covariances",
        unit="s",
        minimum=1e-9,
    )
    history: int = parameter(
        2048, "events that are remembered, for poses that come late", minimum=8, maximum=1_000_000
    )
    mass_uncertainty: float = parameter(
        0.05,
        "contact: by which part the masses of the links may be wrong, before their errors are "
        "learnt",
        minimum=1e-6,
        maximum=1.0,
    )


class _Prepared(NamedTuple):
    """Observers of a robot; of contacts only if it has joints."""

    observer: Observer
    contact: ContactObserver | None
    delay: PoseDelay | None


class ObserverNode(RobotNode):
    """Lifecycle node around an observer: joint states and poses in, base velocity out."""

    PARAMETERS = ObserverParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("observer_node")
        self.observer: Observer | None = None
        self._delay: PoseDelay | None = None
        self._found_delay = 0.0  # [s] that is taken off the stamps of poses
        self._state = ""  # that was last published
        self._covariance_nanos = 0  # stamp of the last one that was
        self._seconds = Seconds()
        self._world = ""

    def start(self) -> None:
        """Topics in and out."""
        p = self.parameters
        self._odom = self.publisher(Odometry, "~/odom", COMMAND)
        self._twist = self.publisher(TwistWithCovarianceStamped, "~/twist", COMMAND)
        self._locked = self.publisher(TwistStamped, "~/locked_velocity", COMMAND)
        self._locked_covariance = self.publisher(
            TwistWithCovarianceStamped, "~/locked_velocity_with_covariance", COMMAND
        )
        self._estimate_state = self.publisher(String, "~/estimate_state", LATCHED)
        self._momentum = self.publisher(Float64MultiArray, "~/momentum", COMMAND)
        self._touched = self.publisher(WrenchStamped, "~/contact", COMMAND)
        self.listen(POSE_TYPES[p.pose_type], "pose", self._on_pose, SENSOR, sole=True)
        self.listen(WrenchStamped, "base_wrench", self._on_wrench, SENSOR)
        if p.imu_link:
            self.listen(Imu, "imu", self._on_imu, SENSOR)
        if p.velocity_axes != "none":
            self.listen(TwistWithCovarianceStamped, "velocity", self._on_velocity, SENSOR)

    def prepare(self, robot: Robot, parameters: ObserverParameters) -> _Prepared:
        """Observers for the robot, compiled."""
        fill_pose(Odometry().pose.pose, np.eye(4))
        delay = None
        if parameters.pose_find_delay:
            delay = PoseDelay(robot, **_filter_options(parameters))
        contact = _contact_observer(robot, parameters)
        return _Prepared(_observer(robot, parameters), contact, delay)

    def use_robot(self, robot: Robot, prepared: _Prepared) -> None:
        """Begin anew with another robot."""
        self.observer, self._delay = prepared.observer, prepared.delay
        self._found_delay = 0.0
        self._consistency = Consistency(prepared.observer)
        self._contacts = ContactReporter(
            prepared.contact, self._touched, self.parameters.frame_of, self.get_logger().info
        )
        self._seconds = Seconds()
        self._root = root = self.parameters.frame_of(robot.root_link)
        self._messages = Odometry(), TwistWithCovarianceStamped(), TwistStamped()
        odom, twist, locked = self._messages
        odom.child_frame_id = twist.header.frame_id = locked.header.frame_id = root
        self._encoder = Encoder("momentum", root, (base_names(robot.base_group),))

    def use_payload(self, robot: Robot, prepared: _Prepared, before: Any) -> None:
        """Go on with another payload, pose and twist as they are."""
        former, seconds, delay = self.observer, self._seconds, self._found_delay
        self.use_robot(robot, prepared)
        if former is not None and prepared.observer.take_over(former):
            self._seconds, self._found_delay = seconds, delay

    def retune(self, prepared: _Prepared, before: ObserverParameters) -> None:
        """Begin anew with another observer."""
        self.use_robot(prepared.observer.robot, prepared)

    def end(self) -> None:
        """Forget: what comes after a pause has nothing to do with what was before."""
        if self.observer is not None:
            self.observer.reset()
            self._contacts.reset()
        if self._delay is not None:
            self._delay.reset()

    # -- inputs ---------------------------------------------------------------------------------

    def _ready(self) -> bool:
        return self.is_active and self.observer is not None

    def _on_pose(self, message: Any) -> None:
        if not self._ready() or self.robot is None or self.observer is None:
            return
        pose = read_pose(message, self.robot, self.parameters)
        self._world = pose.frame
        stamp = self._seconds(nanoseconds(message.header.stamp)) - self.parameters.pose_delay
        if self._delay is not None:
            self._delay.pose(stamp, pose.g, pose.covariance)
            self._note_delay(self._delay)
        self.observer.pose(stamp - self._found_delay, pose.g, pose.covariance)
        self._consistency.heard_pose()

    def _note_delay(self, delay: PoseDelay) -> None:
        """Use the delay that was found, once it is known."""
        if delay.deviation <= KNOWN_DELAY:
            if not self._found_delay:
                self.get_logger().info(
                    f"poses are {delay.value:.3f} s late beyond pose.delay, which is taken off"
                )
            self._found_delay = delay.value

    def _on_wrench(self, message: WrenchStamped) -> None:
        if not self._ready() or self.robot is None or self.observer is None:
            return
        F = read_wrench(message, self.robot, self.parameters)
        stamp = self._seconds(nanoseconds(message.header.stamp))
        self.observer.base_wrench(stamp, F)
        self._contacts.base_wrench = F
        if self._delay is not None:
            self._delay.base_wrench(stamp, F)

    def _on_imu(self, message: Imu) -> None:
        if self._ready() and isinstance(self.observer, InvariantEkf):
            w = message.angular_velocity
            covariance = np.array(message.angular_velocity_covariance).reshape(3, 3)
            known = covariance if covariance[0, 0] > 0.0 else None
            stamp = self._seconds(nanoseconds(message.header.stamp))
            self.observer.gyro(stamp, (w.x, w.y, w.z), known)

    def _on_velocity(self, message: TwistWithCovarianceStamped) -> None:
        if self._ready() and isinstance(self.observer, InvariantEkf):
            v = message.twist.twist.linear
            covariance = np.array(message.twist.covariance).reshape(6, 6)[:3, :3]
            known = np.ascontiguousarray(covariance) if covariance[0, 0] > 0.0 else None
            stamp = self._seconds(nanoseconds(message.header.stamp))
            self.observer.velocity(
                stamp, (v.x, v.y, v.z), known, axes=self.parameters.velocity_axes
            )

    def on_joints(self, sample: JointSample) -> None:
        """Propagate and publish."""
        observer = self.observer
        if observer is None:
            return
        if sample.restarted:
            self.get_logger().warning("the clock began anew, and so does the estimate")
            observer.reset()
            if self._delay is not None:
                self._delay.reset()
            self._contacts.reset()
            self._seconds = Seconds()
        stamp = self._seconds(sample.nanos)
        observer.joints(stamp, sample.q, sample.qd)
        if self._delay is not None:
            self._delay.joints(stamp, sample.q, sample.qd)
        state = observer.status.state
        if state != "waiting":
            self._publish(observer, sample.nanos)
            self._contacts.look(observer, stamp, sample)
        self._publish_trust(observer, state, sample.nanos)

    # -- outputs --------------------------------------------------------------------------------

    def _publish_trust(self, observer: Observer, state: str, nanos: int) -> None:
        """What others need to know before they rely on the estimate."""
        if state != self._state:
            self._state = state
            self._estimate_state.publish(String(data=state))
        since = nanos - self._covariance_nanos
        if 0 <= since < COVARIANCE_PERIOD:
            return
        if self._locked_covariance.get_subscription_count() == 0:
            return
        covariance = observer.locked_velocity_covariance
        if covariance is None:
            return
        self._covariance_nanos = nanos
        group, message = observer.robot.base_group, TwistWithCovarianceStamped()
        message.header.stamp, message.header.frame_id = to_stamp(nanos), self._root
        fill_twist(message.twist.twist, twist_of_group(group, observer.locked_velocity))
        message.twist.covariance = (group.iota @ covariance @ group.iota.T).ravel()
        self._locked_covariance.publish(message)

    def _publish(self, observer: Observer, nanos: int) -> None:
        stamp, group = to_stamp(nanos), observer.robot.base_group
        odom, twist, locked = self._messages
        V = twist_of_group(group, observer.twist)
        wants_odom = self._odom.get_subscription_count() > 0
        wants_twist = self._twist.get_subscription_count() > 0
        pose_noise, twist_noise = None, None
        if wants_odom or wants_twist:
            pose_noise, twist_noise = _covariances(observer)
        if wants_odom:
            g = observer.base_pose
            odom.header.stamp = stamp
            odom.header.frame_id = self.parameters.world_frame or self._world
            fill_pose(odom.pose.pose, g)
            fill_twist(odom.twist.twist, V)
            if pose_noise is not None and twist_noise is not None:
                odom.pose.covariance = world_covariance(pose_noise, g, group).ravel()
                odom.twist.covariance = (group.iota @ twist_noise @ group.iota.T).ravel()
            self._odom.publish(odom)
        if wants_twist:
            twist.header.stamp = stamp
            fill_twist(twist.twist.twist, V)
            if twist_noise is not None:
                twist.twist.covariance = (group.iota @ twist_noise @ group.iota.T).ravel()
            self._twist.publish(twist)
        if self._locked.get_subscription_count() > 0:
            locked.header.stamp = stamp
            fill_twist(locked.twist, twist_of_group(group, observer.locked_velocity))
            self._locked.publish(locked)
        if self._momentum.get_subscription_count() > 0:
            self._encoder.values[...] = observer.momentum
            self._momentum.publish(self._encoder.stamped(nanos))

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """State of the observer, its counters, the last innovation."""
        if self.observer is None:
            return WARN, "no observer", {}
        status = self.observer.status
        values = {
            "observer": self.parameters.observer,
            "estimate": status.state,
            "nis": f"{self.observer.nis:.3g}",
            "contact": self._contacts.summary,
        }
        for key in ("used", "rejected", "late", "future", "repeated", "malformed"):
            values[f"measurements {key}"] = str(getattr(status, key))
        values["reinitialisations"] = str(status.reinitialisations)
        values["nis mean"] = f"{self._consistency.mean_nis:.3g}"
        if isinstance(self.observer, InvariantEkf):
            values["nis windowed"] = f"{self.observer.windowed_nis:.3g}"
            values["disturbance factor"] = f"{self.observer.disturbance_factor:.3g}"
        if self._delay is not None:
            found = self._delay
            values["pose delay"] = f"{found.value:.4f} +- {found.deviation:.4f} s"
        doubts = self._consistency.doubts(time.monotonic())
        if status.state == "inconsistent":
            return (
                WARN,
                f"inconsistent: {'; '.join(filter(None, (status.doubts, doubts)))}",
                values,
            )
        if status.state == "tracking" and doubts:
            return WARN, f"tracking, but {doubts}", values
        if status.state == "tracking":
            return OK, "tracking", values
        why = "waiting for a pose" if status.state == "waiting" else "no pose, on the model alone"
        return WARN, why, values


def _covariances(observer: Observer) -> tuple[Array | None, Array | None]:
    """Covariances of pose and twist in {1}, (b, b) each, where the observer has them."""
    both = observer.covariance
    if both is None:
        return None, None
    b = len(both) // 2
    return both[:b, :b], both[b:, b:]


def _filter_options(p: ObserverParameters) -> dict[str, Any]:
    """Options that every filter of these parameters has."""
    return {
        "pose_deviation": p.pose_deviation,
        "joint_velocity_deviation": p.joint_velocity_deviation,
        "disturbance": p.disturbance,
    }


def _observer(robot: Robot, p: ObserverParameters) -> Observer:
    """Observer of a robot and parameters."""
    options: dict[str, Any] = {
        "history": p.history,
        "pose_timeout": p.pose_timeout,
        "pose_deviation": p.pose_deviation,
    }
    if p.observer == "invariant_ekf":
        options |= {
            **_filter_options(p),
            "external_wrench": None if p.external_wrench == "none" else p.external_wrench,
            "gyro_link": p.imu_link or None,
            "gyro_deviation": p.imu_deviation,
            "gyro_bias_walk": p.imu_bias_walk,
            "velocity_deviation": p.velocity_deviation,
            "stamp_deviation": p.stamp_deviation,
            "gate": p.gate,
            "patience": p.patience,
        }
    elif p.imu_link or p.velocity_axes != "none":
        raise ParameterError(
            f"parameter observer: {p.observer} takes neither imu nor velocity; invariant_ekf does"
        )
    return OBSERVERS[p.observer](robot, **options)


def _contact_observer(robot: Robot, p: ObserverParameters) -> ContactObserver | None:
    """Observer of contacts of a robot and parameters."""
    if robot.n == 0:
        return None
    return ContactObserver(
        robot,
        mass_uncertainty=p.mass_uncertainty,
        joint_velocity_deviation=p.joint_velocity_deviation,
    )


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(ObserverNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
