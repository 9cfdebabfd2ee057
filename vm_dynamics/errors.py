# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package, one tree under :class:`VmDynamicsError`."""

from __future__ import annotations

from collections.abc import Iterable


class VmDynamicsError(Exception):
    """Base of every error this package raises on purpose."""


class DimensionError(VmDynamicsError, ValueError):
    """An array argument has the wrong shape or cannot become a float array."""


class NonFiniteError(VmDynamicsError, ValueError):
    """An array argument holds NaN or infinity."""


class UnknownNameError(VmDynamicsError, KeyError):
    """A name is not among the valid ones, which the message lists."""

    def __init__(self, what: str, name: object, valid: Iterable[str]) -> None:
        """Remember what was asked for and what would have been valid."""
        self.what, self.name, self.valid = what, name, tuple(valid)
        super().__init__(what, name, self.valid)

    def __str__(self) -> str:
        """Name what came and list the valid names."""
        shown = ", ".join(self.valid) if self.valid else "none"
        return f"unknown {self.what} {self.name!r}; valid: {shown}"


class UnknownLinkError(UnknownNameError):
    """A link name that the robot does not have."""


class UnknownJointError(UnknownNameError):
    """A joint name that the robot does not have, or has only as a fixed joint."""


class UnknownGroupError(UnknownNameError):
    """A base group that is not a displacement subgroup of SE(3)."""


class UnknownMethodError(UnknownNameError):
    """A formulation of the dynamics that does not exist."""


class ParameterError(VmDynamicsError, ValueError):
    """A parameter, of a call or a file, that has no meaning or that nothing can be done with."""


class DivergedError(VmDynamicsError, ArithmeticError):
    """A simulation whose motion grew beyond all bounds."""


class NotInGroupError(VmDynamicsError, ValueError):
    """A pose that is no rigid displacement, or not one of the base group."""


class UrdfError(VmDynamicsError, ValueError):
    """Base of everything that can be wrong with a robot description."""


class UrdfNotFoundError(UrdfError, FileNotFoundError):
    """Neither XML text nor the path of a readable file."""


class UrdfTooLargeError(UrdfError):
    """A robot description beyond the size that any real robot needs."""


class UrdfSyntaxError(UrdfError):
    """Not well-formed XML, or XML that is not a robot."""


class UrdfEntityError(UrdfError):
    """A document type or entity declaration, which a robot never needs."""


class UrdfValueError(UrdfError):
    """An attribute is missing or is not what its name promises."""


class NonFiniteNumberError(UrdfValueError):
    """NaN or infinity where a number is needed."""


class ZeroAxisError(UrdfValueError):
    """A joint axis without direction."""


class DuplicateNameError(UrdfError):
    """Two links or two joints of the same name."""


class NoLinkError(UrdfError):
    """A robot without a single link."""


class MultipleRootsError(UrdfError):
    """More than one link without a parent."""


class KinematicLoopError(UrdfError):
    """Links that form a loop, or a link with two parents."""


class MissingLinkError(UrdfError):
    """A joint whose parent or child does not exist or is not given."""


class UnknownJointTypeError(UrdfError):
    """A joint type that URDF does not know."""


class UnsupportedJointError(UrdfError):
    """A floating or planar joint inside the arm."""


class MimicError(UrdfError):
    """A mimic joint that follows nothing, itself or another follower."""


class UnphysicalInertiaError(UrdfError):
    """An inertia that no mass distribution has."""


class NegativeMassError(UnphysicalInertiaError):
    """A mass below zero."""


class SingularMassMatrixError(UnphysicalInertiaError):
    """A motion without inertia, as that of a massless link at the end of a joint."""


class SimulationWarning(UserWarning):
    """A simulation by another engine than the one to be expected."""


class UrdfWarning(UserWarning):
    """A robot description that can be used but says something doubtful."""
