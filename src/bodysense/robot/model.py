"""The Pinocchio model of a robot in the form that bodysense works with, and as arrays for kernels.

Every joint has one axis and one coordinate: continuous joints become revolute ones without
limits (Pinocchio stores their cosine and sine), so that nq = nv for a fixed base. The only joint
with more is the free flyer of a floating base, which comes first. Everything else is refused with
the reason. The result is always a new model: the caller's is never touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import (
    BodysenseError,
    InconsistentInertiaError,
    MismatchError,
    RobotFileError,
    ShapeError,
    UnsupportedJointError,
)
from bodysense.robot._kernels.tree import Tree
from bodysense.robot.actuators import COUPLED_TERMS, Actuators
from bodysense.robot.friction import Friction
from bodysense.robot.layout import ParameterLayout
from bodysense.spatial.arrays import Array, one_each
from bodysense.spatial.pseudo_inertia import spatial_inertia

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot
    from bodysense.sensors.sensor import Sensor


_REVOLUTE = {"JointModelRX", "JointModelRY", "JointModelRZ", "JointModelRevoluteUnaligned"}
_UNBOUNDED = {
    "JointModelRUBX",
    "JointModelRUBY",
    "JointModelRUBZ",
    "JointModelRevoluteUnboundedUnaligned",
}
_PRISMATIC = {"JointModelPX", "JointModelPY", "JointModelPZ", "JointModelPrismaticUnaligned"}
_FREE_FLYER = "JointModelFreeFlyer"


def normalise_model(model: pin.Model) -> pin.Model:
    """Return a copy of `model` with one coordinate per joint and at most a free flyer as root.

    Joints are numbered depth first, which Pinocchio's algorithms rely on without checking.
    """
    new = pin.Model()
    new.name = model.name
    new.gravity = model.gravity
    place = {0: 0}
    drives: dict[str, list[float]] = {"armature": [], "damping": [], "friction": []}
    for i in _depth_first(model):
        kind = model.joints[i].shortname()
        index_q, index_v = model.joints[i].idx_q, model.joints[i].idx_v
        n_q, n_v = model.joints[i].nq, model.joints[i].nv
        lower = model.lowerPositionLimit[index_q : index_q + n_q]
        upper = model.upperPositionLimit[index_q : index_q + n_q]
        if kind == _FREE_FLYER and len(place) == 1:
            joint = pin.JointModelFreeFlyer()
        else:
            joint = _one_axis_joint(model, i, kind)
            if kind in _UNBOUNDED:
                lower, upper = np.array([-np.inf]), np.array([np.inf])
        if model.parents[i] == 0 and has_floating_base(new):
            raise UnsupportedJointError(
                f"robot {model.name!r} floats at joint {new.names[1]!r}, and joint "
                f"{model.names[i]!r} starts a second tree on the ground: load them as two robots."
            )
        place[i] = new.addJoint(
            place[model.parents[i]],
            joint,
            model.jointPlacements[i],
            model.names[i],
            model.effortLimit[index_v : index_v + n_v],
            model.velocityLimit[index_v : index_v + n_v],
            lower,
            upper,
        )
        new.inertias[place[i]] = model.inertias[i]  # adding it to nothing rounds, see Pinocchio
        for name, values in drives.items():
            values.extend(getattr(model, name)[index_v : index_v + n_v])
    for k in range(1, model.nframes):
        frame = pin.Frame(model.frames[k])
        frame.parentJoint = place[frame.parentJoint]
        new.addFrame(frame, False)
    for name, values in drives.items():
        setattr(new, name, np.array(values))
    return new


def _depth_first(model: pin.Model) -> list[int]:
    order: list[int] = []
    stack = [0]
    while stack:
        i = stack.pop()
        order.append(i)
        stack.extend(reversed(list(model.children[i])))
    return order[1:]


def has_floating_base(model: pin.Model) -> bool:
    """Whether the first joint is a free flyer."""
    return bool(model.njoints > 1 and model.joints[1].shortname() == _FREE_FLYER)


def one_axis_joints(model: pin.Model) -> range:
    """Indices of the joints with one axis: all but the universe and a floating base."""
    return range(2 if has_floating_base(model) else 1, model.njoints)


def _is_prismatic(model: pin.Model, joint: int) -> bool:
    """Whether a joint slides."""
    return model.joints[joint].shortname() in _PRISMATIC


def _joint_axis(model: pin.Model, joint: int) -> Array:
    """(3,) unit axis of a one-axis joint, in the frame of its child link."""
    S = _motion_subspace(model, joint)
    axis: Array = S[:3] if _is_prismatic(model, joint) else S[3:]
    return axis


def initial_parameters(
    model: pin.Model,
    friction: Friction,
    actuators: Actuators,
    coefficients: Mapping[str, ArrayLike],
    where: str,
) -> tuple[ParameterLayout, Array]:
    """Names and values of all parameters of a normalised model.

    `coefficients` count before the model's own values. Raises `RobotFileError` if a name is taken.
    """
    layout = ParameterLayout(
        link_names=_link_names(model),
        joint_names=tuple(model.names[i] for i in one_axis_joints(model)),
        friction_terms=friction.model.terms,
        coupled=actuators.coupled,
        floating_base=has_floating_base(model),
    )
    require_distinct("joint", layout.joint_names, where)
    require_distinct("link", layout.link_names, where)
    theta = np.zeros(layout.size)
    for k in range(layout.n_links):
        theta[layout.link(k)] = model.inertias[k + 1].toDynamicParameters()
    first = model.nv - layout.n_joints
    own = {"Ia": model.armature, "Fv": model.damping, "Fc": model.friction}
    values: dict[str, ArrayLike] = {
        prefix: np.array(drives[first:])
        for prefix, drives in own.items()
        if prefix in ("Ia", *layout.friction_terms)
    }
    for prefix, value in {**values, **coefficients}.items():
        places = layout.places(prefix)
        theta[places] = one_each(value, places.size, prefix)
    return layout, theta


def _link_names(model: pin.Model) -> tuple[str, ...]:
    """Name of the link that each joint moves, the floating base first if there is one.

    Links that hang on it by fixed joints are merged into it; its own name is that of the first
    body frame which coincides with the joint's frame.
    """
    names = []
    for i in range(1, model.njoints):
        bodies = [f for f in model.frames if f.parentJoint == i and f.type == pin.FrameType.BODY]
        exact = [f for f in bodies if f.placement.isIdentity(1e-12)]
        names.append((exact or bodies or [None])[0].name if bodies else model.names[i])
    return tuple(names)


def joint_limits(model: pin.Model, n_joints: int) -> tuple[Array, Array, Array, Array]:
    """Lower, upper, velocity and effort limits of the one-axis joints, infinite without one."""
    q, v = slice(model.nq - n_joints, None), slice(model.nv - n_joints, None)
    huge = np.finfo(float).max  # what Pinocchio writes where a file gives no limit
    lower, upper = model.lowerPositionLimit[q], model.upperPositionLimit[q]
    # A limit of zero means "not given" in many files.
    velocity, effort = (
        np.where((limit[v] > 0.0) & (limit[v] < huge), limit[v], np.inf)
        for limit in (model.velocityLimit, model.effortLimit)
    )
    lower, upper = np.where(lower <= -huge, -np.inf, lower), np.where(upper >= huge, np.inf, upper)
    return lower, upper, velocity, effort


def link_inertia(name: str, pi: Array) -> pin.Inertia:
    """Pinocchio's inertia of a link with parameters (10,), which may be negative."""
    if pi[0] != 0.0:
        return pin.Inertia.FromDynamicParameters(pi)
    if pi[1:4].any():
        raise ShapeError(
            f"link {name!r} has no mass but a first moment {pi[1:4]}: give it a mass, or pass "
            "theta to the kernels, which do not need one."
        )
    inertia = pin.Inertia.Zero()  # its tensor is set: the constructor checks the sign
    inertia.inertia = spatial_inertia(pi)[3:, 3:]
    return inertia


def require_distinct(kind: str, names: Sequence[str], where: str) -> None:
    """Raise `RobotFileError` if a name occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RobotFileError(
                f"{where}: the {kind} name {name!r} occurs twice: rename one of them; logs and "
                "parameters refer to it by name."
            )
        seen.add(name)


def _one_axis_joint(model: pin.Model, joint: int, kind: str) -> pin.JointModel:
    axis = None
    if kind in _REVOLUTE | _UNBOUNDED:
        axis = _motion_subspace(model, joint)[3:]
        aligned = (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ)
        general = pin.JointModelRevoluteUnaligned
    elif kind in _PRISMATIC:
        axis = _motion_subspace(model, joint)[:3]
        aligned = (pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ)
        general = pin.JointModelPrismaticUnaligned
    if axis is None:
        raise UnsupportedJointError(
            f"joint {model.names[joint]!r} of robot {model.name!r} is a "
            f"{kind.removeprefix('JointModel')}: bodysense models revolute, continuous, prismatic "
            "and fixed joints, and a floating base as the first joint. Replace it by a chain of "
            "one-axis joints."
        )
    for k in range(3):
        if axis[k] == 1.0:
            return aligned[k]()
    return general(axis)


def _motion_subspace(model: pin.Model, joint: int) -> Array:
    data = model.joints[joint].createData()
    model.joints[joint].calc(data, pin.neutral(model))
    S: Array = np.asarray(data.S, dtype=np.float64).reshape(6)
    return S


_LOAD_ANYWAY = "Correct the file, or leave out allow_inconsistent=False to load it anyway."


def require_feasible_links(
    robot: Robot, where: str, remedy: str = _LOAD_ANYWAY, but: Collection[str] = ()
) -> None:
    """Raise `InconsistentInertiaError` that names the links with an infeasible inertia.

    Links without volume pass, and massless ones that carry others (`Robot.structural`).

    Args:
        robot: to be checked.
        where: it is used.
        remedy: what to do.
        but: links that are not looked at.
    """
    checks = zip(robot.link_names, robot.consistency(), robot.structural(), strict=True)
    bad = [
        f"link {name!r}: {check.reason}"
        for name, check, structural in checks
        if not (check.feasible or structural or name in but)
    ]
    if bad:
        more = f"; and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise InconsistentInertiaError(f"{where}: {'; '.join(bad[:5])}{more}. {remedy}")


def require_rotor_inertias(robot: Robot, where: str) -> None:
    """Raise `InconsistentInertiaError` that names a joint with a negative rotor inertia."""
    for name, value in zip(robot.joint_names, robot.theta[robot.layout.rotor], strict=True):
        if value < 0.0:
            raise InconsistentInertiaError(
                f"{where}: the rotor inertia of joint {name!r} is {value:g}; it must be zero or "
                "positive: identify it with a consistent method (pc-wls), or correct it."
            )


def check_sensors(robot: Robot, sensors: Iterable[Sensor]) -> tuple[Sensor, ...]:
    """Return the sensors if all of them fit the robot, by name and by where they sit."""
    mounted: dict[str, Sensor] = {}
    for sensor in sensors:
        if not callable(getattr(sensor, "measurement", None)):
            raise ShapeError(f"{sensor!r:.60} is not a sensor: build one of bodysense.sensors.")
        if sensor.name in mounted:
            raise MismatchError(
                f"two sensors of robot {robot.name!r} are named {sensor.name!r} (a "
                f"{mounted[sensor.name].kind} and a {sensor.kind}): rename one of them."
            )
        sensor.measurement(robot)  # refuses what it cannot resolve
        mounted[sensor.name] = sensor
    return tuple(mounted.values())


def fitting_sensors(robot: Robot, sensors: Iterable[Sensor]) -> tuple[Sensor, ...]:
    """Those of the sensors whose joint the robot has, or whose link moves."""

    def fits(sensor: Sensor) -> bool:
        try:
            sensor.measurement(robot)
        except BodysenseError:
            return False
        return True

    return tuple(filter(fits, sensors))


_TERM_CODES = {"Fv": 0, "Fc": 1, "Fs": 2, "Fo": 3, "Fl": 4}  # of the kernels


def kernel_tree(model: pin.Model, friction: Friction, actuators: Actuators) -> Tree:
    """Lay out a normalised model (see `normalise_model`) as plain arrays for the kernels."""
    joints = one_axis_joints(model)
    n, floating = len(joints), int(has_floating_base(model))
    parent = np.array([model.parents[i] - 1 - floating for i in joints], dtype=np.int64)
    R_world_root = model.jointPlacements[1].rotation if floating else np.eye(3)
    coupled = actuators.coupled
    names = friction.model.shape
    width = friction.shape[:, names.index("width")] if "width" in names else np.zeros(n)
    return Tree(
        floating=floating,
        parent=parent,
        prismatic=np.array([_is_prismatic(model, i) for i in joints], dtype=np.int64),
        rotation=np.array([_rotation_terms(model, i) for i in joints]).reshape(n, 3, 9),
        position=np.array([model.jointPlacements[i].translation for i in joints]).reshape(n, 3),
        axis=np.array([_joint_axis(model, i) for i in joints]).reshape(n, 3),
        gravity=R_world_root.T @ model.gravity.linear,
        term=_term_codes(friction),
        custom=friction.model.address,
        bristles=int(friction.model.has_state),
        shape=_shape_columns(friction),
        coupling=np.array([actuators.coupling[k] for _, k in coupled]).reshape(len(coupled), n),
        coupled_term=np.array([COUPLED_TERMS.index(t) for t, _ in coupled], dtype=np.int64),
        coupled_width=np.array([width[k] for _, k in coupled], dtype=np.float64),
        dof_parent=_elimination_tree(parent, floating, _inertial_coupling(actuators)),
    )


def _rotation_terms(model: pin.Model, joint: int) -> Array:
    """(3, 9) constant part and factors of cos q and sin q of R_parent_link."""
    R = model.jointPlacements[joint].rotation
    if _is_prismatic(model, joint):
        return np.array([R.ravel(), np.zeros(9), np.zeros(9)])
    k = _joint_axis(model, joint)  # Rodrigues: k kᵀ + cos (1 - k kᵀ) + sin [k]×
    along = np.outer(k, k)
    terms = (R @ along, R @ (np.eye(3) - along), R @ pin.skew(k))
    return np.array([term.ravel() for term in terms])


def _term_codes(friction: Friction) -> NDArray[np.int64]:
    model = friction.model
    codes = [-1 if model.custom is not None else _TERM_CODES[term] for term in model.terms]
    return np.array(codes, dtype=np.int64)


def _shape_columns(friction: Friction) -> Array:
    if friction.model.custom is not None:
        return np.array(friction.shape)
    columns = ("width", "vs", "delta", "sigma0", "sigma1")
    table = np.zeros((friction.shape.shape[0], len(columns)))
    for k, name in enumerate(friction.model.shape):
        table[:, columns.index(name)] = friction.shape[:, k]
    return table


def _inertial_coupling(actuators: Actuators) -> Array:
    """Rows of C whose motors have an inertia of their own: these alone enter the mass matrix."""
    rows = [actuators.coupling[k] for term, k in actuators.coupled if term == "Iam"]
    return np.array(rows).reshape(len(rows), actuators.n_joints)


def _elimination_tree(
    parent: NDArray[np.int64], floating: int, coupling: Array
) -> NDArray[np.int64]:
    """Featherstone's branch-induced sparsity: a dof only couples with those above it.

    A motor that couples joints of different branches breaks that: then the matrix is treated as
    dense, a single chain.
    """
    n, base = parent.size, 6 * floating
    above = [set[int]() for _ in range(n)]
    for j in range(n):
        if parent[j] >= 0:
            above[j] = above[parent[j]] | {int(parent[j])}
    dof_parent = np.arange(-1, base + n - 1, dtype=np.int64)
    coupled = (coupling != 0.0).astype(np.int64)  # not C itself, whose terms could cancel
    pairs = np.argwhere(coupled.T @ coupled)
    if all(i == j or i in above[j] or j in above[i] for i, j in pairs):
        dof_parent[base:] = np.where(parent >= 0, parent + base, base - 1)
    return dof_parent
