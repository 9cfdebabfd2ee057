# SPDX-License-Identifier: Apache-2.0
"""Package set-up, for pip and for colcon (ament_python)."""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "vm_dynamics"
ROS_MESSAGES = "5.3.6"
NODES = (
    "dynamics_node",
    "observer_node",
    "compensator_node",
    "ccf_node",
    "identifier_node",
    "sim_node",
    "joint_force_node",
    "odom_tf_node",
)


def shared(folder):
    """List every file under `folder` with the share/ directory it is installed to."""
    files = (
        path
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    )
    return [(f"share/{NAME}/{path.parent.as_posix()}", [path.as_posix()]) for path in files]


setup(
    name=NAME,
    version="0.1.0",
    description="Dynamics, observation and control of robots whose base moves",
    license="Apache-2.0",
    maintainer="vm_dynamics maintainers",
    maintainer_email="maintainers@example.org",
    python_requires=">=3.10",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    # says that the annotations are meant for type checkers of others too
    package_data={NAME: ["py.typed"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *shared("launch"),
        *shared("config"),
    ],
    # The lower bounds are what Ubuntu 24.04, the home of ROS 2 Jazzy, ships.
    install_requires=[
        "numpy>=1.26,<3",
        "scipy>=1.11,<2",
        "numba>=0.58",
        "pyyaml",
        "tqdm",
        "urdf-parser-py",
    ],
    extras_require={
        # colcon looks for pytest under this name before it runs the tests with it.
        "test": [
            "casadi>=3.6.4,<4",
            "hypothesis>=6.100",
            "matplotlib>=3.6",
            "pin>=4,<5",
            # has wheels for these only; the tests that compare with it are left out elsewhere
            "pybullet>=3.2.6; python_version < '3.12'",
            "pytest>=7.4",
            "sympy>=1.12",
            "xacro>=2",
        ],
        # The simulated robot, the distances of links in plans, and what the demo records.
        "sim": ["mujoco>=3.2,<5", "rosbags>=0.11"],
        # Pictures of the commands ccf, atlas and reorient, and of the demo.
        "plot": ["matplotlib>=3.6"],
        # The real rclpy for machines without a ROS installation. Pinned because the newest
        # wheels belong to another ROS distribution.
        "ros": [
            "ros-jazzy-rclpy[fastrtps]==7.1.6",
            f"ros-diagnostic-msgs=={ROS_MESSAGES}",
            f"ros-geometry-msgs=={ROS_MESSAGES}",
            f"ros-nav-msgs=={ROS_MESSAGES}",
            f"ros-sensor-msgs=={ROS_MESSAGES}",
            f"ros-std-msgs=={ROS_MESSAGES}",
            f"ros-std-srvs=={ROS_MESSAGES}",
            f"ros-trajectory-msgs=={ROS_MESSAGES}",
            f"ros-visualization-msgs=={ROS_MESSAGES}",
        ],
    },
    entry_points={
        "console_scripts": [
            f"{NAME} = {NAME}.cli:main",
            *(f"{node} = {NAME}.ros.{node}:main" for node in NODES),
        ]
    },
    # Numba caches kernels beside their files, and type checkers look for py.typed there.
    zip_safe=False,
)
