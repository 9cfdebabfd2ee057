# SPDX-License-Identifier: Apache-2.0
"""A good robot to spoil, and the check that a description is refused."""

import warnings

import pytest
from urdf_text import joint, link, robot

import vm_dynamics as vm

A, B, C = link("a"), link("b"), link("c")
J = joint("j", "a", "b")
GOOD = robot(A, B, J)


def refused(urdf, error, *words, **options):
    """Check that a description is refused with just this class, its message naming the words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vm.UrdfWarning)
        with pytest.raises(vm.VmDynamicsError) as caught:
            vm.load(urdf, **options)
    assert type(caught.value) is error, repr(caught.value)
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))
    return str(caught.value)
