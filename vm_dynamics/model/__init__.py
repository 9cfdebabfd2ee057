# SPDX-License-Identifier: Apache-2.0
"""From ``robot_description`` to a tree of bodies: reading, checking, merging, packing."""
