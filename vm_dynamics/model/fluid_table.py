# SPDX-License-Identifier: Apache-2.0
"""Layout of the elements of a fluid: one row for each link with coefficients of its own."""

BODY = 0
OFFSET = 1  # 12 numbers, rows of [R p]: the link in its body's frame
LINEAR = 13  # 36 numbers
QUADRATIC = 49  # 36 numbers
DISPLACED = 85  # mass of the fluid that it displaces
CENTRE = 86  # 3 numbers, in the link's frame
WIDTH = 89
