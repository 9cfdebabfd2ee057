# SPDX-License-Identifier: Apache-2.0
"""What the first steps of controllers, observers and nodes compile, load or import.

``python test/compilations.py core`` (or ``nodes``) prints, as JSON, what the first steps of each
case had to wait for; all of it should have been there when the thing was built. Each case runs in
a process that has compiled nothing yet.
"""

import itertools
import json
import multiprocessing
import sys
from pathlib import Path

import numba.core.dispatcher
import numpy as np
from scipy.spatial.transform import Rotation

import vm_dynamics as vm
from vm_dynamics.estimation import OBSERVERS
from vm_dynamics.simulation import Simulator, State

ROOT = Path(__file__).resolve().parent.parent
ROBOTS = ROOT / "config" / "robots"
EARTH = (0.0, 0.0, -9.81)


def load(name, *, base=None, gravity=(0.0, 0.0, 0.0), wet=False):
    robot = vm.load(ROBOTS / f"{name}.urdf", base=base, gravity=gravity)
    return vm.submerge(robot, ROBOTS / f"{name}.yaml") if wet else robot


KINDS = {
    "dry": lambda: load("satellite_arm7"),
    "mimic": lambda: load("satellite_dual_arm"),
    "wet": lambda: load("auv_arm4", gravity=EARTH, wet=True),
    "heavy": lambda: load("hexa_arm2", gravity=EARTH),
    **{
        f"base {base}": (lambda base=base: load("satellite_arm7", base=base))
        for base in ("X", "SE2", "T1")  # four, three and one dimension
    },
}


def states(robot):
    """Some states that are nothing special."""
    random = np.random.default_rng(0)
    q = np.clip(np.zeros(robot.n), robot.lower_limits, robot.upper_limits)
    for _ in range(3):
        g = robot.base_group.exp(0.1 * random.normal(size=robot.b))
        yield (
            g,
            q + 0.05 * random.normal(size=robot.n),
            0.1 * random.normal(size=robot.b),
            0.1 * random.normal(size=robot.n),
        )


# -- core objects: each case builds something and returns its steps -------------------------------


def momentum(robot, law):
    controller = vm.MomentumCompensator(robot, 20.0, law=law)

    def steps():
        for g, q, V, qd in states(robot):
            controller.set_target(q + 0.1, qd, 0.1 * qd)
            controller.step(q, qd, V, g=g)
            controller.step(q, qd, V, g=g, base_wrench=V)

    return steps


def flight(robot, name):
    propulsion = vm.Propulsion.load(robot, ROBOTS / f"{name}.yaml")
    free = propulsion.rank == 6
    gains = np.array([2.0 * free, 2.0 * free, 2.0, 5.0, 5.0, 5.0] + [10.0] * robot.n)
    controller = vm.ComputedTorque(
        robot, propulsion, stiffness=gains, damping=gains, integral=0.1 * gains
    )

    def steps():
        for far in (0.1, 1e3):  # within the thrusters' limits and far beyond
            for g, q, V, qd in states(robot):
                aim = g.copy()
                aim[2, 3] += far
                controller.set_target(aim, q + 0.1, qd=qd)
                controller.step(g, q, V, qd, dt=0.01)

    return steps


def reaction(robot, position_only):
    controller = vm.ReactionMode(robot, robot.tip_link, position_only=position_only)

    def steps():
        for g, q, V, qd in states(robot):
            tool = g @ robot.link_pose(q, robot.tip_link)
            controller.set_target(tool[:3, 3] if position_only else tool)
            controller.step(g, q, V, qd)
            controller.failed = robot.joint_names[:1]
            controller.step(g, q, V, qd, base_wrench=V)

    return steps


def pose_control(robot):
    controller = vm.PoseControl(robot, 1.0, 2.0, integral=0.1)

    def steps():
        for g, q, V, qd in states(robot):
            controller.set_target(g)
            controller.step(g, q, V, qd, qdd=qd, dt=0.01)

    return steps


def guidance():
    from vm_dynamics.control import TiltGuidance

    tilt = TiltGuidance(EARTH, stiffness=1.0, damping=1.0)
    place = np.eye(4)
    place[0, 3] = 1.0
    return lambda: tilt.target(place, np.eye(4), np.zeros(6))


def observer(robot, name):
    options = {}
    if name == "invariant_ekf":
        options = {"gyro_link": robot.root_link, "external_wrench": "world"}
    made = OBSERVERS[name](robot, **options)

    def steps():
        for k, (g, q, V, qd) in enumerate(itertools.chain(*[states(robot)] * 4)):
            made.joints(0.01 * k, q, qd)
            made.base_wrench(0.01 * k, V)
            made.pose(0.01 * k, g)
            if k > 2:
                made.pose(0.01 * k - 0.015, g)  # late
            if options:
                made.gyro(0.01 * k, (0.1, 0.0, 0.0))
                made.velocity(0.01 * k, (0.1, 0.0, 0.0), axes="world")
        for read in ("base_pose", "twist", "locked_velocity", "momentum", "covariance", "nis"):
            getattr(made, read)
        made.status  # noqa: B018 - reads it
        made.reset()

    return steps


def simulator(robot, name):
    thrusters = ROBOTS / f"{name}.yaml"
    propulsion = vm.Propulsion.load(robot, thrusters) if thrusters.is_file() else None
    text = (ROBOTS / f"{name}.urdf").read_text()
    made = Simulator(robot, text, State.at_rest(robot), propulsion=propulsion)

    def steps():
        for _ in range(3):
            made.command(np.full(robot.n, 0.1))
            made.push(np.full(6, 0.1))
            if propulsion is not None:
                made.thrust(np.full(len(propulsion.rotors), 1.0))
            made.advance(200)
            made.joints(made.state)
            list(made.poses(made.state.g))
            made.driving_wrench  # noqa: B018 - reads it

    return steps


def core_cases():
    for kind, make in KINDS.items():
        for law in (1, 2):
            yield f"momentum {law}, {kind}", lambda m=make, x=law: momentum(m(), x)
        for name in OBSERVERS:
            if (name, kind) != ("lie_group", "wet"):  # knows no fluid, and says so
                yield f"{name}, {kind}", lambda m=make, x=name: observer(m(), x)
    for kind in ("dry", "mimic", "wet", "base SE2"):
        for position_only in (False, True):
            yield (
                f"reaction {position_only}, {kind}",
                lambda m=KINDS[kind], x=position_only: reaction(m(), x),
            )
        yield f"pose control, {kind}", lambda m=KINDS[kind]: pose_control(m())
    yield "computed torque, heavy", lambda: flight(KINDS["heavy"](), "hexa_arm2")
    yield "computed torque, wet", lambda: flight(KINDS["wet"](), "auv_arm4")
    yield "tilt", guidance
    yield "simulator, dry", lambda: simulator(KINDS["dry"](), "satellite_arm7")
    yield "simulator, wet", lambda: simulator(KINDS["wet"](), "auv_arm4")
    yield "simulator, heavy", lambda: simulator(KINDS["heavy"](), "hexa_arm2")
    yield "simulator, base SE2", lambda: simulator(KINDS["base SE2"](), "satellite_arm7")


# -- nodes: the same with messages ----------------------------------------------------------------


def node(module, kind, **parameters):
    """A node that is active, and what hears messages as they would come."""
    import importlib

    import rclpy
    import rclpy.publisher

    name, gravity, wet = kind
    sys.path.append(str(ROOT / "examples"))
    rclpy.publisher.Publisher.get_subscription_count = lambda self: 1  # all is wanted
    parameters = {
        "robot_description": (ROBOTS / f"{name}.urdf").read_text(),
        "gravity": list(gravity),
        "hydrodynamics": str(ROBOTS / f"{name}.yaml") if wet else "",
        **parameters,
    }
    arguments = [
        item for key, value in parameters.items() for item in ("-p", f"{key}:={json.dumps(value)}")
    ]
    rclpy.init(args=["--ros-args", *arguments], domain_id=101)
    made = importlib.import_module(f"vm_dynamics.ros.{module}")
    cls = next(
        value
        for key, value in vars(made).items()
        if key.endswith("Node") and getattr(value, "__module__", "") == made.__name__
    )
    out = cls()
    assert out.autostart(), f"{module} does not start"
    return out


def feed(made, robot):
    """Messages of all kinds, as the node's own subscriptions would hand them over."""
    from geometry_msgs.msg import PoseStamped, TwistStamped, TwistWithCovarianceStamped
    from nav_msgs.msg import Odometry
    from sensor_msgs.msg import Imu, JointState

    from vm_dynamics.ros.messages import fill_twist, to_stamp, twist_of_group

    hear = {s.topic.strip("/").split("/")[-1]: s.callback for s in made.subscriptions}
    for g, q, V, qd in itertools.chain(*[states(robot)] * 3):
        stamp = to_stamp(made.get_clock().now().nanoseconds)
        twist = twist_of_group(robot.base_group, V)
        pose, odom, velocity = PoseStamped(), Odometry(), TwistStamped()
        base, imu = TwistWithCovarianceStamped(), Imu()
        for message in (pose, odom, velocity, base, imu):
            message.header.stamp = stamp
        for place in (pose.pose, odom.pose.pose):
            place.position.x, place.position.y, place.position.z = g[:3, 3].tolist()
            x, y, z, w = Rotation.from_matrix(g[:3, :3]).as_quat().tolist()
            turn = place.orientation
            turn.x, turn.y, turn.z, turn.w = x, y, z, w
        fill_twist(odom.twist.twist, twist)
        fill_twist(velocity.twist, twist)
        fill_twist(base.twist.twist, twist)
        joints = JointState(name=list(robot.joint_names), position=q, velocity=qd)
        joints.header.stamp = stamp
        messages = {
            "locked_velocity": velocity,
            "odom": odom,
            "pose": pose,
            "base_twist": base,
            "imu": imu,
            "velocity": base,
            "base_target": pose,
            "tool_target": pose,
            "joint_states": joints,
        }
        for topic, message in messages.items():
            if topic in hear:
                hear[topic](message)
    made.report()
    assert not [k for k in made.health.counts if k.startswith("error")], made.health.counts


def robot_node(module, kind, **parameters):
    made = node(module, kind, **parameters)
    return lambda: feed(made, made.robot)


def sim_node(kind, **parameters):
    made = node("sim_node", kind, **parameters)
    made.begin()

    def steps():
        for _ in range(100):
            made.work()
        assert made.simulator.nanos > 0

    return steps


def node_cases():
    dry, wet = ("satellite_arm7", (0.0, 0.0, 0.0), False), ("auv_arm4", EARTH, True)
    mimic, heavy = ("satellite_dual_arm", (0.0, 0.0, 0.0), False), ("hexa_arm2", EARTH, False)
    on = {"require_enable": False, "resume": "at_once"}
    rotors = {
        kind: {"controller": "computed_torque", "propulsion": str(ROBOTS / f"{kind[0]}.yaml")}
        for kind in (wet, heavy)
    }
    for kind in (dry, wet, mimic):
        yield f"dynamics_node, {kind[0]}", lambda k=kind: robot_node("dynamics_node", k)
        yield f"observer_node, {kind[0]}", lambda k=kind: robot_node("observer_node", k)
        yield f"ccf_node, {kind[0]}", lambda k=kind: robot_node("ccf_node", k)
        for law in (0, 1):
            yield (
                f"compensator_node {law}, {kind[0]}",
                lambda k=kind, x=law: robot_node("compensator_node", k, law=x, **on),
            )
        yield (
            f"compensator_node reaction, {kind[0]}",
            lambda k=kind: robot_node("compensator_node", k, controller="reaction", **on),
        )
    for frame in ("centroidal", "virtual_chassis"):
        yield (
            f"dynamics_node {frame}",
            lambda f=frame: robot_node("dynamics_node", dry, frame=f),
        )
    yield (
        "observer_node with imu and velocity",
        lambda: robot_node(
            "observer_node", dry, **{"imu.link": "base_link", "velocity_axes": "world"}
        ),
    )
    yield "dynamics_node, base SO2", lambda: robot_node("dynamics_node", dry, base="SO2")
    for kind in (wet, heavy):
        yield (
            f"compensator_node computed_torque, {kind[0]}",
            lambda k=kind: robot_node("compensator_node", k, **on, **rotors[k]),
        )
        yield (
            f"sim_node, {kind[0]}",
            lambda k=kind: sim_node(k, propulsion=rotors[k]["propulsion"]),
        )
    yield "sim_node, satellite_arm7", lambda: sim_node(dry)
    own = {"controller": "gravity_pd:GravityPd", **on}
    for kind in (wet, heavy):
        yield (
            f"compensator_node with a class of one's own, {kind[0]}",
            lambda k=kind: robot_node("compensator_node", k, **own),
        )


# -- counting -------------------------------------------------------------------------------------


def waited_for(make):
    """Names of what the steps of a case compile or load, and of slow modules they import."""
    steps = make()
    compiled, before = [], set(sys.modules)
    original = numba.core.dispatcher.Dispatcher.compile

    def compile(self, signature):
        compiled.append(self.py_func.__name__)
        return original(self, signature)

    numba.core.dispatcher.Dispatcher.compile = compile
    steps()
    imported = {".".join(module.split(".")[:2]) for module in set(sys.modules) - before}
    slow = {m for m in imported if m.split(".")[0] in ("scipy", "mujoco", "yaml", "vm_dynamics")}
    return sorted({*compiled, *slow})


def _in_child(make, pipe):
    try:
        pipe.send(waited_for(make))
    except BaseException as error:
        pipe.send([f"{type(error).__name__}: {error}"])


def main(which):
    found = {}
    fork = multiprocessing.get_context("fork")
    for name, make in core_cases() if which == "core" else node_cases():
        here, there = fork.Pipe(duplex=False)
        child = fork.Process(target=_in_child, args=(make, there))
        child.start()
        there.close()
        try:
            found[name] = here.recv()
        except EOFError:
            found[name] = [f"ended with {child.exitcode}"]
        child.join()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
