# SPDX-License-Identifier: Apache-2.0
"""A simulated robot (sim_node, MuJoCo) and the suite on it.

All arguments of vm_dynamics.launch.py are arguments here too.
"""

from vm_dynamics.ros import launching, suite

FIXED = {"use_sim_time": True}
ARGUMENTS = (
    ("robot", "satellite_arm7", "robot of the package, or path of a URDF or xacro file"),
    ("use_sim_time", "true", "always true here"),
    ("require_enable", "false", "no torque until the service compensator_node/enable says so"),
    (
        "timeout",
        "1.0",
        "age of joint states or estimate that stops the torques [s]: by the wall's clock too, on "
        "which a busy machine makes pauses",
    ),
    ("resume", "at_once", "what follows a stop of the torques: enable, ramp or at_once"),
    (
        "second_publisher",
        "warn",
        "when a topic that torques depend on has two publishers: stop (no torques) or warn",
    ),
    ("viewer", "false", "whether to open MuJoCo's own window"),
    ("real_time_factor", "1.0", "simulated seconds in a second; 0 for as many as there can be"),
    (
        "initial_pose",
        "",
        "where the base starts: '[x, y, z, qx, qy, qz, qw]'; if empty, at the origin",
    ),
    (
        "initial_twist",
        "",
        "how the base moves at first, in its own axes: '[vx, vy, vz, wx, wy, "
        "wz]' [m/s, rad/s]; if empty, not at all",
    ),
    (
        "base_wrench",
        "thruster_wrench",
        "topic of the wrench that the observer counts with: what the simulated thrusters give",
    ),
    (
        "hold",
        "auto",
        "whether all stands still until the first command that is not zero; auto: if it would "
        "fall until its rotors turn",
    ),
)
TOPICS = ("robot_description", "joint_states", "pose", "commands", "thrusts")


def generate_launch_description():
    return suite.description(everything, ARGUMENTS)


def everything(context):
    launching.only(context, FIXED, "in a simulation it is always")
    robot = launching.robot_text(context, needed=True)
    return [*suite.nodes(context, robot), simulator(context, robot)]


def simulator(context, robot):
    parameters = {
        **suite.model(context, robot),
        "use_sim_time": False,  # it makes the time of the others
        "real_time_factor": launching.numbers(context, "real_time_factor", 1)[0],
        "viewer": launching.switch(context, "viewer"),
    }
    for name, count in (("initial_pose", 7), ("initial_twist", 6)):
        if launching.given(context, name):
            parameters[name.replace("_", ".")] = launching.numbers(context, name, count)
    if launching.beside(context, "propulsion"):
        parameters["propulsion"] = launching.beside(context, "propulsion")
    parameters["initial.hold"] = held(context, parameters)
    if launching.given(context, "world_frame"):
        parameters["world_frame"] = launching.given(context, "world_frame")
    wiring = [(name, launching.topic(context, name)) for name in TOPICS]
    # whom simulated time waits for, with most_lead
    wiring += [("torques", "compensator_node/torques"), ("odom", "observer_node/odom")]
    return suite.node(context, "sim_node", parameters, wiring, robot)


def held(context, parameters):
    """Whether the robot waits for its controller."""
    if launching.given(context, "hold") != "auto":
        return launching.switch(context, "hold")
    falls = any(parameters.get("gravity", ())) and "propulsion" in parameters
    return falls and "initial.twist" not in parameters
