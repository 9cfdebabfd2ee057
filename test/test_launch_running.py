# SPDX-License-Identifier: Apache-2.0
"""What the launch file of the simulation starts runs, with every robot and in a namespace."""

import numpy as np
import pytest
from cases import SHIPPED
from launch_cases import FALL
from launch_recorder import evaluate

from vm_dynamics.paths import robot_file, robot_parameters

pytestmark = pytest.mark.usefixtures("everything_installed")


@pytest.mark.slow
@pytest.mark.parametrize("robot", SHIPPED)
def test_every_robot_comes_to_torque_and_a_driven_one_stays_where_it_is(tmp_path, robot):
    from nav_msgs.msg import Odometry
    from ros_graph import Graph
    from std_msgs.msg import Float64MultiArray

    from vm_dynamics.ros.node import COMMAND

    driven = robot_parameters(robot_file(robot), "propulsion") is not None
    arguments = {"robot": robot, "dynamics": "false", **({"gravity": FALL} if driven else {})}
    if driven:  # a flight on a machine that runs other tests too
        arguments["real_time_factor"] = "0.5"
    launch = evaluate("sim", arguments)
    graph = Graph(tmp_path)
    try:
        for item in launch.started.values():
            graph.start(item.executable, arguments=item.ros_arguments(tmp_path))
        outputs = [graph.collect(Float64MultiArray, "compensator_node/commands", COMMAND)]
        if driven:
            outputs.append(graph.collect(Float64MultiArray, "compensator_node/thrusts", COMMAND))
        true = graph.collect(Odometry, "ground_truth/odom", COMMAND)
        graph.until(lambda: all(out and np.any(out[-1].data) for out in outputs), "torque")
        graph.until(lambda: true, "the truth")
        if driven:
            begin = true[-1].header.stamp.sec
            graph.until(lambda: true[-1].header.stamp.sec > begin + 4, "seconds of flight")
            place = true[-1].pose.pose.position
            off = np.linalg.norm([place.x, place.y, place.z])
            logs = "\n".join(process.output for process in graph.processes)
            assert off < 1.0, f"4 s of free fall are 78 m\n{logs}"
        nodes = {f"/{name}" for name in launch.started}
        graph.until(
            lambda: all(
                graph.diagnostics.get(n, ("", "", {}))[2].get("state") == "active" for n in nodes
            ),
            "nodes that are all active",
        )
        assert all(process.process.poll() is None for process in graph.processes)
    finally:
        graph.close()


def test_what_the_simulation_starts_runs_in_a_namespace(tmp_path):
    from nav_msgs.msg import Odometry
    from ros_graph import Graph
    from std_msgs.msg import Float64MultiArray

    from vm_dynamics.ros.node import COMMAND

    graph = Graph(tmp_path)
    try:
        launch = evaluate(
            "sim",
            {
                "robot": "planar_3link",
                "namespace": "robot1",
                "clock": "/robot1/clock",
                "initial_twist": "[0.0, 0.0, 0.0, 0.0, 0.0, 0.1]",
            },
        )
        for item in launch.started.values():
            graph.start(
                item.executable,
                arguments=item.ros_arguments(tmp_path),
            )
        commands = graph.collect(Float64MultiArray, "/robot1/compensator_node/commands", COMMAND)
        seen = graph.collect(Odometry, "/robot1/observer_node/odom", COMMAND)
        true = graph.collect(Odometry, "/robot1/ground_truth/odom", COMMAND)
        graph.until(lambda: commands and np.any(commands[-1].data), "torque", patience=60.0)
        turning = 0.1

        def observed():
            return seen and true and abs(seen[-1].twist.twist.angular.z - turning) < 0.05

        graph.until(observed, "an estimate of the turning base", patience=60.0)
        assert abs(true[-1].twist.twist.angular.z) > 0.01
        fine = {f"/robot1/{name}" for name in launch.started}
        graph.until(lambda: fine <= set(graph.diagnostics), "diagnostics of all nodes")
        assert not [name for name in graph.diagnostics if name not in fine]
        for process in graph.processes:
            assert process.stop() == 0, process.output
            assert "Traceback" not in process.output
    finally:
        graph.close()
