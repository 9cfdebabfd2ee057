# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 nodes: thin shells of parameters, messages and life cycle around the library."""
