# SPDX-License-Identifier: Apache-2.0
"""A window in which MuJoCo draws the robot.

It is a process of its own, for no trouble with a screen may stop a simulation: run as a module it
reads the URDF and then poses and shapes from its standard input.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import numpy as np

from vm_dynamics.errors import ParameterError
from vm_dynamics.robot import load
from vm_dynamics.simulation.plants import MujocoPlant
from vm_dynamics.simulation.trajectory import State

WINDOW_CLOSE_TIMEOUT = 2.0  # [s] for the window to close


class Viewer:
    """Draws states of a robot, whatever steps it."""

    def __init__(self, urdf: str) -> None:
        """Open the window.

        Raises:
            ParameterError: there is no screen.
        """
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise ParameterError("viewer: cannot open a window: there is no screen")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C is for the simulation, which closes the window
        )
        text = urdf.encode()
        self._write(len(text).to_bytes(8, "little") + text)

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed the window."""
        return self._process.poll() is None

    def show(self, state: State) -> None:
        """Draw a state."""
        self._write(np.concatenate((state.g.ravel(), state.q)).tobytes())

    def close(self) -> None:
        """Close the window."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(WINDOW_CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _write(self, data: bytes) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # closed by hand: is_open says so
                self._process.stdin.write(data)


def _main() -> None:
    """The window itself."""
    import mujoco.viewer

    stream = sys.stdin.buffer
    urdf = stream.read(int.from_bytes(stream.read(8), "little")).decode()
    robot = load(urdf.encode(), base="SE3")
    drawn = MujocoPlant(robot, urdf, 1e-3)
    still = np.zeros(6), np.zeros(robot.n)
    size = 8 * (16 + robot.n)
    drawn.model.vis.headlight.ambient[:] = 0.5  # a URDF has no lamps
    panels = {"show_left_ui": False, "show_right_ui": False}
    with mujoco.viewer.launch_passive(drawn.model, drawn.data, **panels) as window:
        window.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        window.cam.trackbodyid = drawn.model.joint(0).bodyid[0]
        window.cam.distance = 1.5 * drawn.model.stat.extent
        while window.is_running():
            data = stream.read(size)
            if len(data) < size:
                break
            numbers = np.frombuffer(data)
            with window.lock():
                drawn.state = State(numbers[:16].reshape(4, 4), numbers[16:], *still)
            window.sync()
    os._exit(0)  # some drivers hang on the way out


if __name__ == "__main__":
    _main()
