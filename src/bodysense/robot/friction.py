"""Friction models: torque that opposes a joint's own motion.

A model is a sum of terms, each a coefficient (identified, part of theta) times a fixed function
of the joint velocity, and of the load T for the last one of laws that have it:

    tau_f(v) = sum_k F_k phi_k(v; shape)  +  Fl |T| s(v)

The shape parameters (smoothing width, Stribeck velocity, …) are not identified linearly; they
belong to the joint and stay fixed. LuGre adds a state z per joint; its steady state is Stribeck's
curve, so that regressors treat it as Stribeck and only simulations see the state.

    s(v) = sign(v) if width = 0, else tanh(v / width)
    e(v) = exp(-|v / vs|^delta)

with width and vs in rad/s (m/s for a sliding joint). LuGre's sigma0 is in N·m/rad, sigma1 in
N·m·s/rad; Fv is its sigma2.

| term | phi                    | meaning                                         |
|------|------------------------|-------------------------------------------------|
| Fv   | v                      | viscous, N·m·s/rad                              |
| Fc   | s(v), or s(v)(1 - e)   | Coulomb, N·m (the second form beside Fs)        |
| Fs   | s(v) e(v)              | static level of the Stribeck curve, N·m         |
| Fo   | 1                      | offset, N·m (asymmetry, or a zero-torque error) |
| Fl   | s(v), per unit of load | friction that grows with the load, no unit      |

The load is the torque of the drive without friction, of links and rotors: T = (M a + h)_j. Gears
have more friction the more torque goes through them, several per cent of it in robot arms (Hamon,
Gautier and Garrec 2010 write the same law for the torque at the link, T - Ia a). With the rotor in
it the load is a function of the base parameters, as all other torque is: which part of an inertia
is the rotor's can often not be identified, and what simulates base parameters needs no more of
them. On recordings of an UR10e both predict held-out torque alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import BodysenseError, ShapeError, unknown_name
from bodysense.robot.actuators import COUPLED_TERMS
from bodysense.robot.layout import INERTIAL_TERMS
from bodysense.spatial.arrays import Array, as_array, one_each, read_only

CustomBasis = Callable[[float, Array, Array, Array], None]

# Default shape parameters, in rad/s, rad/s, 1, N·m/rad and N·m·s/rad.
_DEFAULTS = {"width": 0.0, "vs": 0.05, "delta": 2.0, "sigma0": 1.0e4, "sigma1": 1.0e2}


@dataclass(frozen=True)
class FrictionModel:
    """The form of a friction law, the same for all joints of a robot.

    Attributes:
        name: as given to `friction_model` and in files.
        terms: prefixes of the coefficients, one per term.
        shape: names of the shape parameters, one column each of `Friction.shape`.
        defaults: values of the shape parameters where none are given.
        description: one line for tables.
        custom: a numba-compiled ``basis(v, shape, phi, dphi)`` that writes the terms and their
            derivatives by v; `None` for the built-in models, whose code is in the kernels.
        address: of its C form, for the kernels; 0 for the built-in models.
    """

    name: str
    terms: tuple[str, ...]
    shape: tuple[str, ...] = ()
    defaults: tuple[float, ...] = ()
    description: str = ""
    custom: CustomBasis | None = field(default=None, compare=False)
    address: int = field(default=0, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        # By name: the address is that of this process, and compiled code does not travel.
        return friction_model, (self.name,)

    @property
    def has_state(self) -> bool:
        """Whether the law has an internal state per joint (LuGre)."""
        return self.custom is None and "sigma0" in self.shape

    @property
    def dissipative_terms(self) -> tuple[str, ...]:
        """Terms that would drive a joint if they were negative; own laws may have any sign."""
        return () if self.custom is not None else tuple(t for t in self.terms if t != "Fo")

    @property
    def depends_on_load(self) -> bool:
        """Whether its last term is per unit of load (Fl)."""
        return self.custom is None and self.terms[-1:] == ("Fl",)

    @property
    def with_load(self) -> FrictionModel | None:
        """The law with a load-dependent term; `None` for laws that none is built in for."""
        return self if self.depends_on_load else _REGISTRY.get(f"{self.name}{_LOAD}")

    @property
    def without_load(self) -> FrictionModel:
        """The law without its load-dependent term."""
        return friction_model(self.name.removesuffix(_LOAD)) if self.depends_on_load else self

    def basis(self, v: ArrayLike, shape: Array) -> tuple[Array, Array]:
        """The terms of one joint and their derivatives, phi and dphi/dv, both (n, n_terms).

        Velocities v are (n,) [rad/s], the joint's shape parameters (len(self.shape),). Fl's is per
        unit of load.
        """
        velocity = as_array(v, (None,), "v")
        phi = np.empty((velocity.size, len(self.terms)))
        dphi = np.empty_like(phi)
        if self.custom is not None:
            for k, value in enumerate(velocity):
                self.custom(value, shape, phi[k], dphi[k])
            return phi, dphi
        value_of = dict(zip(self.shape, shape, strict=True))
        s, ds = _smooth_sign(velocity, value_of.get("width", 0.0))
        e, de = np.zeros_like(s), np.zeros_like(s)
        if "vs" in value_of:
            ratio = np.abs(velocity) / value_of["vs"]
            delta = value_of["delta"]
            e = np.exp(-(ratio**delta))
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = delta * ratio ** (delta - 1.0) / value_of["vs"] * np.sign(velocity)
            de = -e * np.where(velocity == 0.0, 0.0, slope)
        columns = {
            "Fv": (velocity, np.ones_like(velocity)),
            "Fc": (s * (1.0 - e), ds * (1.0 - e) - s * de),
            "Fs": (s * e, ds * e + s * de),
            "Fo": (np.ones_like(velocity), np.zeros_like(velocity)),
            "Fl": (s, ds),
        }
        for k, term in enumerate(self.terms):
            phi[:, k], dphi[:, k] = columns[term]
        return phi, dphi


def _smooth_sign(v: Array, width: float) -> tuple[Array, Array]:
    if width == 0.0:
        return np.sign(v), np.zeros_like(v)
    s = np.tanh(v / width)
    return s, (1.0 - s * s) / width


def _built_in(name: str, terms: str, shape: str, description: str) -> FrictionModel:
    shape_names = tuple(shape.split())
    defaults = tuple(_DEFAULTS[s] for s in shape_names)
    return FrictionModel(name, tuple(terms.split()), shape_names, defaults, description)


_LOAD = "-load"  # ends the names of laws with a load-dependent term

_PLAIN = (
    _built_in("none", "", "", "no friction"),
    _built_in("viscous", "Fv", "", "proportional to velocity"),
    _built_in("coulomb", "Fv Fc", "width", "viscous and Coulomb"),
    _built_in("offset", "Fv Fc Fo", "width", "viscous, Coulomb and a constant"),
    _built_in("stribeck", "Fv Fc Fs", "width vs delta", "viscous and a Stribeck curve"),
    _built_in("stribeck-offset", "Fv Fc Fs Fo", "width vs delta", "Stribeck curve and a constant"),
    _built_in(
        "lugre", "Fv Fc Fs", "width vs delta sigma0 sigma1", "bristles with a state per joint"
    ),
)


def _under_load(model: FrictionModel) -> FrictionModel:
    """The law with a last term of load-dependent friction."""
    return dataclasses.replace(
        model,
        name=f"{model.name}{_LOAD}",
        terms=(*model.terms, "Fl"),
        description=f"{model.description}, more under load",
    )


_SHARP = tuple(model for model in _PLAIN if "Fc" in model.terms and not model.has_state)
_REGISTRY: dict[str, FrictionModel] = {
    model.name: model for model in (*_PLAIN, *map(_under_load, _SHARP))
}


_COMPILED: list[object] = []  # keeps the code alive that addresses point to


def friction_models() -> Mapping[str, FrictionModel]:
    """All registered friction models by name."""
    return dict(_REGISTRY)


def friction_model(name: str) -> FrictionModel:
    """Look a friction model up by name."""
    if name not in _REGISTRY:
        raise unknown_name(
            "friction model", name, _REGISTRY, "Register your own with register_friction_model."
        )
    return _REGISTRY[name]


def register_friction_model(
    name: str,
    basis: CustomBasis,
    *,
    terms: tuple[str, ...],
    shape: Mapping[str, float] | None = None,
    description: str = "",
    replace: bool = False,
) -> FrictionModel:
    """Register a friction law of your own, usable wherever a built-in one is.

    Args:
        name: a new name.
        basis: ``basis(v, shape, phi, dphi)``: writes the value of each term at velocity `v` into
            `phi` and its derivative into `dphi`. It is compiled with numba, so it may use
            arithmetic and `math` only.
        terms: prefix of each coefficient; must not collide with the inertial names.
        shape: names and default values of the shape parameters.
        description: one line for tables.
        replace: take the place of a law of yours with the same name, as in a notebook. Robots
            that have the old one keep it.
    """
    present = _REGISTRY.get(name)
    if present is not None and (present.custom is None or not replace):
        remedy = "" if present.custom is None else ", or pass replace=True"
        raise BodysenseError(
            f"friction model {name!r} exists already: choose another name{remedy}."
        )
    _require_terms(name, terms)
    shape = dict(shape or {})
    from bodysense.robot._kernels.friction import compile_custom_basis, wrapped_basis

    compiled = compile_custom_basis(name, basis, len(terms), np.array(list(shape.values()), float))
    pointer = wrapped_basis(compiled, len(terms), len(shape))
    _COMPILED.append(pointer)
    defaults, address = tuple(shape.values()), int(pointer.address)
    _REGISTRY[name] = FrictionModel(
        name, tuple(terms), tuple(shape), defaults, description, compiled, address
    )
    return _REGISTRY[name]


def _require_terms(name: str, terms: tuple[str, ...]) -> None:
    reserved = {*INERTIAL_TERMS, "Ia", *COUPLED_TERMS}
    # A number follows the prefix: with "F1" the name F11 would be read in two ways.
    numbered = any(not term[-1:].isalpha() for term in terms)
    if reserved & set(terms) or numbered or len(set(terms)) != len(terms) or not terms:
        raise BodysenseError(
            f"friction model {name!r} needs at least one term, with distinct prefixes that end in "
            f"a letter, other than {', '.join(sorted(reserved))}; got {terms}."
        )


@dataclass(frozen=True, eq=False)
class Friction:
    """A friction model with its shape parameters (n_joints, len(model.shape)), read-only."""

    model: FrictionModel
    shape: Array

    @classmethod
    def from_model(cls, name: str | FrictionModel, n_joints: int, **shape: ArrayLike) -> Friction:
        """Build the friction of a robot, e.g. ``Friction.from_model("coulomb", 6, width=0.01)``.

        Shape parameters are numbers (the same for all joints) or one number per joint.
        """
        model = friction_model(name) if isinstance(name, str) else name
        for key in shape:
            if key not in model.shape:
                kind = f"shape parameter of friction {model.name!r}"
                raise unknown_name(kind, key, model.shape)
        columns = np.empty((n_joints, len(model.shape)))
        for k, (parameter, default) in enumerate(zip(model.shape, model.defaults, strict=True)):
            columns[:, k] = one_each(shape.get(parameter, default), n_joints, parameter)
        _check_shape(model, columns)
        return cls(model, read_only(columns))


def _check_shape(model: FrictionModel, shape: Array) -> None:
    if model.custom is not None:
        return
    for k, name in enumerate(model.shape):
        lowest = 0.0 if name in ("width", "sigma1") else np.finfo(float).tiny
        if (shape[:, k] < lowest).any():
            joint = int(np.argmin(shape[:, k]))
            raise ShapeError(
                f"{name} of joint {joint + 1} is {shape[joint, k]:g}: it must be "
                f"{'zero or positive' if lowest == 0.0 else 'positive'}."
            )
