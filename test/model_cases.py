# SPDX-License-Identifier: Apache-2.0
"""Robots that reading and the Robot as a value are tested on."""

import numpy as np
import pytest
from cases import SHIPPED, text
from random_robots import random_urdf
from urdf_text import LIMIT, joint, link, robot

# The same sums in another order, in double precision.
ROUNDING = 1e-12
RANDOM = {seed: random_urdf(seed, 8, mimic=0.2) for seed in range(20, 25)}
DOCUMENTS = {
    **{name: text(name) for name in SHIPPED},
    **{f"tree{k}": t for k, t in RANDOM.items()},
}
documents = pytest.mark.parametrize("urdf", DOCUMENTS.values(), ids=DOCUMENTS)
A, B, C, D = (link(name) for name in "abcd")
GRIPPER = robot(
    *(A, B, C, D),
    joint("k", "a", "d"),
    joint("m", "b", "c", "prismatic", f'{LIMIT}<mimic joint="k" multiplier="-2" offset="0.1"/>'),
    joint("j", "a", "b"),
)


def shape(robot, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, robot.n)
