"""Trees that the tests of estimators share: chains, random trees, humanoids on any of their links.

What the files below share, the dense oracle and the truth of Pinocchio, lies in this folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.robot import Robot

sys.path.insert(0, str(Path(__file__).parent))

TREES: dict[str, tuple[str, str | None, bool | None]] = {
    "chain": ("serial", None, None),
    "tree": ("branched", None, None),
    "tx40": ("tx40", None, None),
    "panda": ("example:panda", None, None),
    "floating tree": ("floating", None, None),
    "floating tree on a leaf": ("floating", "link13", None),
    "floating tree on a fork": ("floating", "link3", None),
    "floating tree held at a leaf": ("floating", "link13", True),
    "floating tree held": ("floating", None, True),
    "icub": ("example:icub", None, None),
    "icub on a hand": ("example:icub", "l_hand", None),
    "icub standing": ("example:icub", "r_ankle_2", True),
    "icub held": ("example:icub", None, True),
    "talos": ("example:talos", None, None),
    "talos on an arm": ("example:talos", "arm_left_7_link", None),
    "talos on the torso": ("example:talos", "torso_2_link", None),
    "talos standing": ("example:talos", "leg_left_6_link", True),
    "talos with hands": ("example:talos_full", None, None),
    "talos held": ("example:talos", None, True),
}
"""Robot, root, and whether the root is held, by name."""


@pytest.fixture(scope="session")
def tree_named(robot_of: Callable[[str], Robot]) -> Callable[[str], BodyTree]:
    """Build one of `TREES`, once."""

    @cache
    def build(name: str) -> BodyTree:
        robot, base, fixed = TREES[name]
        return BodyTree.of(robot_of(robot), base=base, fixed=fixed)

    return build


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `each_tree` gets the names of all trees, one after the other."""
    if "each_tree" in metafunc.fixturenames:
        metafunc.parametrize("each_tree", sorted(TREES))
