# SPDX-License-Identifier: Apache-2.0
"""Dynamics of a tree on a moving base: one module per formulation, compiled kernels below."""
