"""XML with positions: every element knows its bytes, so that a file can be changed in place.

Standard readers forget quotes, comments and spaces. Here the bytes are kept, `Element` says where
a tag begins and ends in them, and `Edits` splices new text in; all else stays as it was. Elements
read names, numbers and vectors from their attributes, with errors that give the place. Document
types and entities are refused: no robot needs them, and they are a way to attack.
"""

from __future__ import annotations

import codecs
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import RobotFileError
from bodysense.spatial.arrays import Array

_START_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE = re.compile(rb"""([^\s=<>"'/]+)\s*=\s*("[^"]*"|'[^']*')""")
_DECLARED = re.compile(rb"""\A<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LARGEST = 1.0e30  # SI units; beyond it, products of masses and lengths overflow
_OWNERS = ("link", "joint", "sensor")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_STARTS = ((b"<\x00", "utf-16-le"), (b"\x00<", "utf-16-be"))  # of files without a mark


@dataclass(eq=False)
class Element:
    """One element of a document.

    Attributes:
        tag: its name.
        attributes: in the order of the file, entities resolved.
        where: the file, for messages.
        line: of its start tag, counted from 1.
        start: byte of ``<``, in UTF-8.
        parent: that it is in.
        inner: first byte after the start tag.
        close: byte of ``</``, or `inner` for an element that closes itself.
        end: first byte after the element.
        children: inside it.
    """

    tag: str
    attributes: Mapping[str, str]
    where: str
    line: int
    start: int
    parent: Element | None = field(default=None, repr=False)
    inner: int = 0
    close: int = 0
    end: int = 0
    children: list[Element] = field(default_factory=list, repr=False)

    @property
    def place(self) -> str:
        """File, line and element, with the link, joint or sensor that it belongs to."""
        tags, owner = [self], self.parent
        if self.tag not in _OWNERS:
            while owner is not None and owner.tag not in _OWNERS:
                owner = owner.parent
            tags = [self] if owner is None else [owner, self]
        path = " ".join(
            f"<{tag.tag} name={tag.attributes['name']!r}>"
            if "name" in tag.attributes
            else f"<{tag.tag}>"
            for tag in tags
        )
        return f"{self.where}, line {self.line}, {path}"

    def fail(self, message: str) -> NoReturn:
        """Raise `RobotFileError` about this element."""
        raise RobotFileError(f"{self.place}: {message}")

    def all(self, tag: str) -> list[Element]:
        """Direct children with this tag."""
        return [child for child in self.children if child.tag == tag]

    def only_child(self, tag: str) -> Element | None:
        """Return the child with this tag, `None` if there is none."""
        result = self.all(tag)
        if len(result) > 1:
            first = result[0].line
            result[1].fail(f"there is a <{tag}> in line {first} already; keep one of the two.")
        return result[0] if result else None

    def required_child(self, tag: str) -> Element:
        """Return the child with this tag, which must be there."""
        result = self.only_child(tag)
        if result is None:
            self.fail(f"<{tag}> is missing; add it.")
        return result

    def text(self, attribute: str) -> str:
        """Return an attribute that must be there and not be empty."""
        value = self.attributes.get(attribute, "").strip()
        if not value:
            self.fail(f"the attribute {attribute} is missing or empty; give it.")
        return value

    def number(self, attribute: str, most: float = _LARGEST) -> float:
        """Return an attribute as a finite number, no larger than `most`."""
        return self._number(self.text(attribute), attribute, most)

    def vector(self, attribute: str) -> Array:
        """Return an attribute as three numbers."""
        words = self.text(attribute).split()
        if len(words) != 3:
            self.fail(f"{attribute} has {len(words)} numbers; it needs three.")
        return np.array([self._number(word, attribute, _LARGEST) for word in words])

    def origin(self) -> tuple[Array, Array]:
        """Translation and roll-pitch-yaw of the child <origin>, zero where not given."""
        element = self.only_child("origin")
        if element is not None and "quat_xyzw" in element.attributes:
            element.fail("quat_xyzw is not supported; write the rotation as rpy.")
        xyz, rpy = (
            np.zeros(3) if element is None or key not in element.attributes else element.vector(key)
            for key in ("xyz", "rpy")
        )
        return xyz, rpy

    def _number(self, word: str, attribute: str, most: float) -> float:
        if "${" in word or "$(" in word:
            self.fail(f"{attribute}={word!r} is a xacro expression; run xacro first.")
        value = float(word) if _NUMBER.fullmatch(word) else math.nan
        if not math.isfinite(value):
            self.fail(f"{attribute}={word!r} is not a finite number; correct it.")
        if abs(value) > most:
            self.fail(f"{attribute}={word} is too large; check its unit.")
        return value


@dataclass(frozen=True, eq=False)
class Document:
    """A parsed file: its outermost element, whose positions refer to `text`, which is UTF-8.

    The file itself may have another encoding, and a byte order mark.
    """

    root: Element
    text: bytes
    encoding: str
    mark: bytes

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Document:
        """Parse the bytes of an XML file.

        Raises `RobotFileError`: empty, broken, in an unknown encoding, or with a document type.
        """
        if not data.strip():
            raise RobotFileError(f"{where} is empty: it must hold a robot description in XML.")
        mark, encoding = next(
            ((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "")
        )
        declared = _DECLARED.match(data)
        if not encoding:
            encoding = next((name for start, name in _STARTS if data.startswith(start)), "")
        if not encoding:
            encoding = declared.group(1).decode("ascii") if declared else "utf-8"
        try:
            text = data[len(mark) :].decode(encoding)
            if text.encode(encoding) != data[len(mark) :]:
                raise RobotFileError(
                    f"{where} is not cleanly encoded as {encoding}: convert it to UTF-8."
                )
            utf8 = text.encode("utf-8")
            if "\0" in text:  # else expat takes it for UTF-16, and positions are of other bytes
                raise RobotFileError(
                    f"{where} holds null characters: convert it to UTF-8, or repair it."
                )
        except (LookupError, UnicodeError, TypeError, AttributeError) as error:
            raise RobotFileError(
                f"{where} cannot be read as {encoding} text ({error}): convert it to UTF-8."
            ) from error
        return cls(_parse(utf8, where), utf8, encoding, mark)

    def encode(self, text: bytes) -> bytes:
        """Return UTF-8 `text` as bytes in the file's own encoding."""
        return self.mark + text.decode("utf-8").encode(self.encoding)


def _parse(text: bytes, where: str) -> Element:
    parser = expat.ParserCreate("utf-8")  # overrides what the file declares
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    open_elements: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        position = parser.CurrentByteIndex
        parent = open_elements[-1] if open_elements else None
        element = Element(tag, attributes, where, parser.CurrentLineNumber, position, parent)
        match = _START_TAG.match(text, position)
        element.inner = match.end() if match else position
        (roots if parent is None else parent.children).append(element)
        open_elements.append(element)

    def end(tag: str) -> None:
        element = open_elements.pop()
        if text[element.inner - 2 : element.inner] == b"/>":
            element.close = element.end = element.inner
        else:
            element.close = parser.CurrentByteIndex
            element.end = text.index(b">", element.close) + 1

    def refuse_document_type(*_: object) -> None:
        raise RobotFileError(
            f"{where}, line {parser.CurrentLineNumber}: a document type (<!DOCTYPE …>) is not "
            "accepted: remove it, and write out the entities that it defines."
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse_document_type
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise RobotFileError(
            f"{where}, line {error.lineno}, column {error.offset + 1}: broken XML: "
            f"{expat.ErrorString(error.code)}. Repair the file there."
        ) from error
    return roots[0]


class Edits:
    """Changes to a document, collected first and applied at once."""

    def __init__(self, document: Document) -> None:
        self._text = document.text
        self._splices: list[tuple[int, int, bytes]] = []
        self._newline = b"\r\n" if b"\r\n" in document.text else b"\n"

    def set_attributes(self, element: Element, values: Mapping[str, str]) -> None:
        """Set attributes of an element; those that it lacks are appended to its start tag."""
        tag = self._text[element.start : element.inner]
        places = {
            match.group(1).decode("utf-8"): (match.start(2), match.end(2))
            for match in _ATTRIBUTE.finditer(tag)
        }
        added = b""
        for name, value in values.items():
            if name in places:
                start, end = (element.start + offset for offset in places[name])
                self._splices.append((start + 1, end - 1, value.encode("utf-8")))
            else:
                added += f' {name}="{value}"'.encode()
        if added:
            body = tag[:-2] if tag.endswith(b"/>") else tag[:-1]
            place = element.start + len(body.rstrip())
            self._splices.append((place, place, added))

    def insert(self, parent: Element, lines: list[str], *, first: bool = False) -> None:
        """Insert elements, one per line, before or after what `parent` holds."""
        outer = self._indentation(parent)
        inner, place = outer + b"  ", parent.inner
        if parent.children:
            neighbour = parent.children[0 if first else -1]
            inner = self._indentation(neighbour)
            place = parent.inner if first else neighbour.end
        block = b"".join(self._newline + inner + line.encode("utf-8") for line in lines)
        if parent.inner == parent.end:  # <tag/>
            body = self._text[parent.start : parent.inner - 2].rstrip()
            block = b">" + block + self._newline + outer + f"</{parent.tag}>".encode()
            self._splices.append((parent.start + len(body), parent.inner, block))
            return
        if b"\n" not in self._text[place : parent.close]:
            block += self._newline + (outer if not parent.children or not first else inner)
        self._splices.append((place, place, block))

    def remove(self, element: Element) -> None:
        """Take an element out; the spaces around it stay."""
        self._splices.append((element.start, element.end, b""))

    def apply(self) -> bytes:
        """Return the document's text with all changes made."""
        text = self._text
        # From the back, so that earlier positions hold; sorting is stable for equal places.
        for start, end, new in sorted(self._splices, key=lambda splice: splice[0], reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _indentation(self, element: Element) -> bytes:
        line = self._text.rfind(b"\n", 0, element.start) + 1
        before = self._text[line : element.start]
        return before[: len(before) - len(before.lstrip())]


# New elements.

DYNAMICS = {
    "damping": "Fv",
    "friction": "Fc",
    "static_friction": "Fs",
    "offset": "Fo",
    "armature": "Ia",
}
"""Attributes of <dynamics> and the parameters they hold; all but the first two are our own."""

INERTIA_ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def format_numbers(values: ArrayLike) -> str:
    """Numbers in full precision, separated by blanks; zeros without sign."""
    return " ".join(repr(float(value) + 0.0) for value in np.atleast_1d(np.asarray(values)))


def inertia_attributes(I: Array) -> dict[str, float]:
    """Attributes of <inertia> that hold a tensor (3, 3)."""
    return dict(zip(INERTIA_ENTRIES, I[np.triu_indices(3)], strict=True))


def inertial_element(mass: float, com: Array, I: Array) -> ET.Element:
    """An <inertial> with the tensor I (3, 3) about the centre of mass, in the link's axes."""
    inertial = ET.Element("inertial")
    ET.SubElement(inertial, "origin", xyz=format_numbers(com), rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=format_numbers(mass))
    entries = {key: format_numbers(value) for key, value in inertia_attributes(I).items()}
    ET.SubElement(inertial, "inertia", entries)
    return inertial


def add_joint(
    robot: ET.Element, name: str, kind: str, links: tuple[str, str], xyz: Array, rpy: Array
) -> ET.Element:
    """Add a <joint> between its parent and its child link, with its place unless that is zero."""
    joint = ET.SubElement(robot, "joint", name=name, type=kind)
    if xyz.any() or rpy.any():
        ET.SubElement(joint, "origin", xyz=format_numbers(xyz), rpy=format_numbers(rpy))
    for end, link in zip(("parent", "child"), links, strict=True):
        ET.SubElement(joint, end, link=link)
    return joint
