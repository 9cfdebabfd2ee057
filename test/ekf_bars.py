# SPDX-License-Identifier: Apache-2.0
"""Bars of the invariant filter, which several of its tests share.

Error pairs are deg/s and mm/s. The floor is the error that the noise of the joints' velocities
makes by itself, A n_qd, in the same window of the same run.
"""

ANGULAR, LINEAR = 1.3, 3.0  # of the floor, with the right model
BETTER = 5.0  # than a differentiated pose
SETTLED = 3.0  # [s], to 0.5 deg/s and 5 mm/s
WRONG_MODEL = 5.0  # of the floor, with masses wrong by 10 %
NIS_RANGE = (5.0, 7.0)  # mean, for 6 degrees of freedom
FEW = 1.0  # for the mean of fifty poses, which scatters by 0.5
EXTERNAL = 0.1  # of an unknown wrench, relative
INSIDE = 0.985  # share within 3 sigma; of a normal distribution it is 0.997
