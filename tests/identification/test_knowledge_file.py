"""Knowledge files, good and bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bodysense.errors import (
    BodysenseError,
    FileReadError,
    MismatchError,
    ShapeError,
    UnknownNameError,
)
from bodysense.identification.knowledge import (
    EqualLinks,
    Knowledge,
    Mirror,
    _parse_knowledge,
    read_knowledge,
    with_shortcuts,
)
from bodysense.robot.shapes.link_shapes import link_hulls

ALL = """
total_mass: 28.5
masses: {link2: 4.1, link3: 3}
symmetric:
  link2: [y, {axis: z, offset: 0.1}]
  link3: x
equal:
  - [link4, link5]
  - {first: link1, second: link6, mirror: {axis: y, offset: -0.2}}
com_inside:
  link2: {lower: [-0.1, -0.1, 0], upper: [0.1, 0.1, 0.4]}
  link3: [[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]]
"""


@pytest.fixture
def told(tmp_path, tx40):
    def read(text: str) -> Knowledge:
        file = tmp_path / "known.yaml"
        file.write_text(text, encoding="utf-8")
        return read_knowledge(file, tx40)

    return read


def test_everything_at_once(told):
    known = told(ALL)
    assert known.total_mass == 28.5
    assert known.masses == {"link2": 4.1, "link3": 3.0}
    assert known.symmetric == {"link2": (Mirror("y"), Mirror("z", 0.1)), "link3": (Mirror("x"),)}
    assert known.equal == (
        EqualLinks("link4", "link5"),
        EqualLinks("link1", "link6", Mirror("y", -0.2)),
    )
    box, tetrahedron = known.com_inside["link2"], known.com_inside["link3"]
    points = [[0.09, 0.0, 0.39], [0.0, 0.0, -0.01], [0.02, 0.02, 0.02]]
    assert box.contains(points).tolist() == [True, False, True]
    assert tetrahedron.contains(points).tolist() == [False, False, True]


def test_an_empty_key_says_nothing(told):
    known = told("masses:\ntotal_mass: 20\n")
    assert known == Knowledge(total_mass=20.0)


@pytest.mark.parametrize("shapes", ["auto", "boxes"])
def test_shapes_of_the_robot(told, tx40, shapes):
    known = told(f"com_inside: {shapes}")
    hulls = link_hulls(tx40, shapes)
    assert list(known.com_inside) == list(tx40.link_names)
    for link, hull in known.com_inside.items():
        np.testing.assert_array_equal(hull.offsets, hulls[link].offsets)


def test_ranges_of_masses(told, tx40):
    known = told("masses: {link2: [3.5, 4.5], link3: 3, link4: [0, 1]}")
    assert known.masses == {"link3": 3.0}
    assert known.mass_ranges == {"link2": (3.5, 4.5), "link4": (0.0, 1.0)}
    assert "link2 has 3.5 to 4.5 kg" in known.summary()
    options = {"link2": [4.0], "link3": [2.0, 3.0]}
    more = with_shortcuts(known, tx40, masses=options, total_mass=20.0)
    assert more.masses == {"link2": 4.0}
    assert more.mass_ranges == {"link3": (2.0, 3.0), "link4": (0.0, 1.0)}
    with pytest.raises(MismatchError, match="masses of link2, link4, link3 sum up to 6 kg"):
        with_shortcuts(known, tx40, masses=options, total_mass=5.0)


def test_options_come_on_top(told, tx40):
    known = with_shortcuts(told("total_mass: 20"), tx40, total_mass=25.0, com_inside="boxes")
    assert known.total_mass == 25.0
    assert set(known.com_inside) == set(tx40.link_names)
    assert with_shortcuts(Knowledge(), tx40) == Knowledge()


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("mass: 3", UnknownNameError, "'mass': did you mean 'masses'"),
        ("total_mass: heavy", FileReadError, "total_mass: expected a finite number, got 'heavy'"),
        ("total_mass: true", FileReadError, "total_mass: expected a finite number, got True"),
        ("total_mass: -3", ShapeError, "the known mass of all links is -3 kg"),
        ("masses: {link9: 3}", UnknownNameError, "unknown link 'link9'"),
        ("masses: {link2: .nan}", FileReadError, "link2: expected a finite number, got nan"),
        ("masses: [3, 4]", FileReadError, "masses: expected a mapping"),
        ("masses: {link2: [3]}", FileReadError, "link2: expected a list of 2 numbers"),
        ("masses: {link2: [4, 3]}", ShapeError, "link2 is known to lie between 4 and 3 kg"),
        ("symmetric: {link2: [w]}", UnknownNameError, "unknown axis 'w'"),
        ("symmetric: {link2: [3]}", FileReadError, "3 is no mirror plane"),
        (
            "symmetric: {link2: {axis: y, offset: far}}",
            FileReadError,
            "expected a finite number, got 'far'",
        ),
        ("symmetric: {link2: {axis: y, at: 1}}", FileReadError, "is no mirror plane"),
        ("symmetric: {hand: [y]}", UnknownNameError, "unknown link 'hand'"),
        ("equal: {link2: link3}", FileReadError, "is no list of pairs"),
        ("equal: [[link2]]", FileReadError, "equal, entry 1: ['link2'] is no pair of links"),
        ("equal: [[link2, link2]]", FileReadError, "'link2' is always equal to itself"),
        ("equal: [[link2, hand]]", UnknownNameError, "unknown link 'hand'"),
        ("equal: [{first: link2}]", FileReadError, "is no pair of links"),
        ("com_inside: hull", UnknownNameError, "unknown shapes 'hull'"),
        ("com_inside: {link2: auto}", FileReadError, "neither a box"),
        ("com_inside: {link2: []}", FileReadError, "com_inside, link2: "),
        ("com_inside: {link2: [[0, 0]]}", FileReadError, "com_inside, link2: "),
        (
            "com_inside: {link2: {lower: [1, 0, 0], upper: [0, 1, 1]}}",
            FileReadError,
            "is empty: swap its corners",
        ),
        ("com_inside: {hand: [[0, 0, 0]]}", UnknownNameError, "unknown link 'hand'"),
        ("[1, 2]", FileReadError, "must be a YAML mapping"),
        ("", FileReadError, "is empty"),
        ("total_mass: 3\ntotal_mass: 4", FileReadError, "occurs twice"),
    ],
)
def test_what_cannot_be_meant(told, text, error, part):
    with pytest.raises(error) as caught:
        told(text)
    assert part in str(caught.value)


def test_a_missing_file(tx40):
    with pytest.raises(FileReadError, match=r"cannot read nowhere\.yaml"):
        read_knowledge(Path("nowhere.yaml"), tx40)


def test_links_that_are_heavier_than_all_together(told, tx40):
    known = told("total_mass: 5\nmasses: {link2: 4, link3: 2}")
    with pytest.raises(MismatchError, match=r"link2, link3 sum up to 6 kg.*have 5 kg"):
        with_shortcuts(known, tx40)


def test_a_robot_without_shapes(tx40):
    with pytest.raises(BodysenseError, match="boxes"):
        _parse_knowledge({"com_inside": "collision"}, tx40)
