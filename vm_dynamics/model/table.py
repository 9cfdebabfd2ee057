# SPDX-License-Identifier: Apache-2.0
"""Layout of the packed model: the one float array that every kernel reads.

A compiled call pays about 0.1 us for each array argument, so the whole model travels in one.
Row 0 is the base, rows 1 to ``nj`` are the moving bodies in depth-first order, and the last six
rows hold ``iota`` of the base group in their first b columns. A body's frame has its joint's
axis along z, so a revolute joint only mixes two columns of the rotation.
"""

# Row 0
N_DOF = 0  # n, joints that move by themselves
N_BASE = 1  # b, dimension of the base group
N_BODIES = 2  # nj, moving bodies: n and the mimic joints
GRAVITY = 3  # 3 numbers: acceleration of free fall in the world frame

# Rows 1 to nj
PARENT = 0  # row of the parent body, 0 for the base
RUN_START = 1  # first row of the run of bodies, each the parent of the next, that ends here
PRISMATIC = 2  # 1 for prismatic, 0 for revolute
DOF = 3  # index in q of the joint that drives this one
MULTIPLIER = 4  # q_joint = multiplier * q[DOF] + offset
OFFSET = 5
ROTATION = 6  # 9 numbers, row major: joint frame at zero in the parent body's frame
POSITION = 15  # 3 numbers

# Rows 0 to nj
MASS = 18
COM = 19  # 3 numbers, in the body's frame
INERTIA = 22  # xx xy xz yy yz zz about the centre of mass, in the body's axes

WIDTH = 28
