# SPDX-License-Identifier: Apache-2.0
"""What a robot is, without its dynamics: names, limits, frames, base group, packed tree."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.errors import (
    DimensionError,
    NegativeMassError,
    NonFiniteError,
    ParameterError,
    UnknownLinkError,
    UnphysicalInertiaError,
)
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.drawing import draw
from vm_dynamics.model.hydrodynamics import Fluid, Hydrodynamics, fluid_around
from vm_dynamics.model.inertia import Inertia
from vm_dynamics.model.spec import Description, locked_positions
from vm_dynamics.model.tree import Frame, Tree, build

Self = TypeVar("Self", bound="RobotModel")
NO_ADDED_MASS = np.empty((0, 6, 6))


class RobotModel:
    """A tree of rigid bodies on a base that moves in a displacement subgroup of SE(3).

    Immutable; equal and hashed by content.

    Attributes:
        name: the robot's name.
        n: number of joints that move by themselves.
        b: dimension of the base group.
        joint_names: their names, the order of q: depth first, children in document order.
        prismatic: which of them slide, shape (n,), bool: in metres and newtons, where the others
            are in radians and newton metres.
        link_names: names of all links, depth first.
        root_link: name of the link whose frame is {1}.
        tip_link: name of the link that ``tip_wrench`` acts on.
        base_group: the base's displacement subgroup.
        gravity: acceleration of free fall in the world frame, shape (3,) [m/s^2].
        total_mass: [kg].
        lower_limits: position limits, shape (n,) [rad or m], infinite without one.
        upper_limits: the same from above.
        velocity_limits: shape (n,) [rad/s or m/s].
        effort_limits: shape (n,) [N m or N].
        damping: viscous friction of the joints, shape (n,) [N m s/rad or N s/m].
        friction: dry friction of the joints, shape (n,) [N m or N].
        description: all links and joints as they were read.
        tree: the bodies that are left when fixed joints are merged.
        packed: the same as one array, which kernels take.
        fluid: the fluid around it, see :func:`vm_dynamics.submerge`; None in the dry.
    """

    fluid: Fluid | None = None
    name: str
    n: int
    b: int
    joint_names: tuple[str, ...]
    prismatic: NDArray[np.bool_]
    link_names: tuple[str, ...]
    root_link: str
    tip_link: str
    base_group: DisplacementGroup
    gravity: Array
    total_mass: float
    lower_limits: Array
    upper_limits: Array
    velocity_limits: Array
    effort_limits: Array
    damping: Array
    friction: Array
    description: Description
    tree: Tree
    packed: Array
    _square: tuple[int, int]
    _wide: tuple[int, int]

    def __init__(
        self,
        description: Description,
        base_group: DisplacementGroup,
        gravity: ArrayLike = (0.0, 0.0, 0.0),
        tip_link: str | None = None,
    ) -> None:
        """Merge and pack a description."""
        tip = description.links[-1].name if tip_link is None else tip_link
        if tip not in description.link_names:
            raise UnknownLinkError("tip_link", tip, description.link_names)
        free_fall = vector("gravity", gravity, 3)
        tree = build(description, base_group, free_fall)
        n, b = len(tree.drivers), base_group.dimension

        def of_joints(key: str) -> Array:
            return _frozen(np.array([getattr(j, key) for j in tree.drivers], dtype=float))

        self.__dict__.update(
            name=description.name,
            n=n,
            b=b,
            joint_names=tuple(j.name for j in tree.drivers),
            prismatic=_frozen(np.array([j.kind == "prismatic" for j in tree.drivers], dtype=bool)),
            link_names=description.link_names,
            root_link=description.root,
            tip_link=tip,
            base_group=base_group,
            gravity=_frozen(free_fall),
            total_mass=float(sum(x.mass for x in tree.inertias)),
            lower_limits=of_joints("lower"),
            upper_limits=of_joints("upper"),
            velocity_limits=of_joints("velocity"),
            effort_limits=of_joints("effort"),
            damping=of_joints("damping"),
            friction=of_joints("friction"),
            description=description,
            tree=tree,
            packed=tree.packed,
            fluid=None,
            _square=(b + n, b + n),
            _wide=(b, n),
        )

    def _enter(self, hydrodynamics: Hydrodynamics | None) -> None:
        """Be in a fluid from now on, while being built."""
        if hydrodynamics is not None:
            bodies = len(self.tree.inertias)
            self.__dict__["fluid"] = fluid_around(bodies, self.link_frame, hydrodynamics)

    @property
    def added_mass(self) -> Array:
        """Added mass of every body in its own frame, shape (nj + 1, 6, 6); no rows in the dry."""
        return NO_ADDED_MASS if self.fluid is None else self.fluid.added_mass

    @cached_property
    def body_inertias(self) -> Array:
        """Inertia of every body in its own frame, base first, shape (nj + 1, 6, 6).

        With the added mass of a fluid, if there is one.
        """
        # writeable, as the packed model: kernels do not take read-only arrays
        rigid = np.array([inertia.matrix for inertia in self.tree.inertias])
        return rigid if self.fluid is None else rigid + self.fluid.added_mass

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a robot does not change."""
        raise AttributeError(
            f"{name}: a Robot is immutable; with_payload and with_locked make new ones"
        )

    def __delattr__(self, name: str) -> None:
        """Refuse: a robot does not change."""
        raise AttributeError(f"{name}: a Robot is immutable")

    @property
    def _content(self) -> tuple[Any, ...]:
        hydrodynamics = None if self.fluid is None else self.fluid.hydrodynamics
        return (
            self.description,
            self.base_group,
            tuple(self.gravity.tolist()),
            self.tip_link,
            hydrodynamics,
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self._content)

    def __hash__(self) -> int:
        """Hash of the content."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Robots are equal when descriptions, base group, gravity and tip are."""
        return isinstance(other, RobotModel) and self._content == other._content

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content; the rest is built again."""
        return type(self), self._content

    def __repr__(self) -> str:
        """One line: name, base and size."""
        return (
            f"<Robot {self.name!r}: base {self.base_group.name} (b = {self.b}), n = {self.n}, "
            f"{self.total_mass:.6g} kg>"
        )

    def __str__(self) -> str:
        """The tree of links and joints."""
        return draw(self.description, self.base_group, self.joint_names, self.total_mass)

    def with_payload(
        self: Self, link: str, mass: float, com: ArrayLike, inertia: ArrayLike | None = None
    ) -> Self:
        """A new robot that carries a rigid payload.

        Args:
            link: name of the link that holds it.
            mass: [kg], not negative.
            com: its centre of mass in the link's frame, shape (3,) [m].
            inertia: about its centre of mass, in the link's axes, shape (3, 3) or six numbers
                xx xy xz yy yz zz [kg m^2]; a point mass if None.

        Raises:
            UnknownLinkError: the robot has no such link.
            UnphysicalInertiaError: no body has such an inertia.
            NegativeMassError: the mass is below zero.
        """
        payload = _physical(f"payload at {link!r}", mass, com, inertia)
        return self._changed(self.description.with_payload(link, payload))

    def with_inertia(
        self: Self, link: str, mass: float, com: ArrayLike, inertia: ArrayLike | None = None
    ) -> Self:
        """A new robot one of whose links has another inertia, as a tank that was emptied.

        Args:
            link: name of the link.
            mass: [kg], not negative.
            com: its centre of mass in the link's frame, shape (3,) [m].
            inertia: as in :meth:`with_payload`.

        Raises:
            UnknownLinkError: the robot has no such link.
            UnphysicalInertiaError: no body has such an inertia.
            NegativeMassError: the mass is below zero.
        """
        own = _physical(f"link {link!r}", mass, com, inertia)
        return self._changed(self.description.with_inertia(link, own))

    def with_friction(self: Self, damping: ArrayLike, friction: ArrayLike) -> Self:
        """A new robot whose joints rub in another way.

        Args:
            damping: viscous friction of the joints, not negative, shape (n,).
            friction: dry friction of the joints, not negative, shape (n,).

        Raises:
            ParameterError: one is negative.
        """
        viscous, dry = vector("damping", damping, self.n), vector("friction", friction, self.n)
        for name, values in (("damping", viscous), ("friction", dry)):
            if (values < 0.0).any():
                raise ParameterError(f"{name}: got {values}, expected numbers not below 0")
        new = dict(
            zip(self.joint_names, zip(viscous.tolist(), dry.tolist(), strict=True), strict=True)
        )
        joints = tuple(
            replace(j, damping=new[j.name][0], friction=new[j.name][1]) if j.name in new else j
            for j in self.description.joints
        )
        return self._changed(replace(self.description, joints=joints))

    def with_locked(self: Self, joints: Any) -> Self:
        """A new robot with some joints fixed.

        Args:
            joints: mapping of joint names to positions [rad or m], or names to fix at zero.
                Joints that mimic one of them are fixed with it.
        """
        return self._changed(self.description.with_locked(locked_positions(joints)))

    def _changed(self: Self, description: Description) -> Self:
        return type(self)(description, *self._content[1:])

    def link_frame(self, link: str) -> Frame:
        """Body of a link and the link's pose in the body's frame.

        Raises:
            UnknownLinkError: the robot has no such link.
        """
        try:
            return self.tree.frames[link]
        except (KeyError, TypeError):
            raise UnknownLinkError("link", link, self.link_names) from None


def _physical(what: str, mass: float, com: ArrayLike, inertia: ArrayLike | None) -> Inertia:
    """An inertia that some body has, or an error that says why none does."""
    out = Inertia.of(mass, com, np.zeros(6) if inertia is None else inertia)
    reason = out.unphysical() or out.triangle_violation()
    if reason is not None:
        kind = NegativeMassError if out.mass < 0.0 else UnphysicalInertiaError
        raise kind(f"{what}: {reason}")
    return out


def vector(name: str, value: Any, size: int) -> Array:
    """Fresh contiguous float array of a given length, or an error that names the argument."""
    try:
        out = np.array(value, dtype=float, order="C")
    except (TypeError, ValueError) as error:
        raise DimensionError(
            f"{name}: got {type(value).__name__}, expected {size} numbers ({error})"
        ) from error
    if out.shape != (size,):
        raise DimensionError(f"{name}: got shape {out.shape}, expected ({size},)")
    if not np.isfinite(out).all():
        raise NonFiniteError(f"{name}: holds NaN or infinity: {out}")
    return out


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
