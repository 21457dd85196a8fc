"""XML with positions: every element knows its bytes, so that a file can be changed in place.

Standard readers forget quotes, comments and spaces. Here the bytes are kept, `Element` says where
a tag begins and ends in them, and `Edits` splices new text in; all else stays as it was.
`UrdfReader` reads names, numbers and vectors from attributes, with errors that give the place.
Document types and entities are refused: no robot needs them, and they are a way to attack.
"""

from __future__ import annotations

import codecs
import math
import re
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
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(eq=False)
class Element:
    """One element of a document.

    Attributes:
        tag: its name.
        attributes: in the order of the file, entities resolved.
        line: of its start tag, counted from 1.
        start: byte of ``<``, in UTF-8.
        inner: first byte after the start tag.
        close: byte of ``</``, or `inner` for an element that closes itself.
        end: first byte after the element.
        children: elements inside it.
    """

    tag: str
    attributes: Mapping[str, str]
    line: int
    start: int
    inner: int = 0
    close: int = 0
    end: int = 0
    children: list[Element] = field(default_factory=list)

    @property
    def closes_itself(self) -> bool:
        """Whether it is written ``<tag/>``."""
        return self.inner == self.end

    def all(self, tag: str) -> list[Element]:
        """Direct children with this tag."""
        return [child for child in self.children if child.tag == tag]


@dataclass(frozen=True, eq=False)
class Document:
    """A parsed file.

    Attributes:
        root: its outermost element; positions refer to `text`.
        text: the file in UTF-8, without a byte order mark.
        encoding: what the file is encoded in.
        mark: its byte order mark, if any.
    """

    root: Element
    text: bytes
    encoding: str
    mark: bytes

    def encode(self, text: bytes) -> bytes:
        """Return UTF-8 `text` as bytes in the file's own encoding."""
        return self.mark + text.decode("utf-8").encode(self.encoding)


def parse_document(data: bytes, where: str) -> Document:
    """Parse the bytes of an XML file.

    Raises:
        RobotFileError: empty, broken (with line and column), in an unknown encoding, or with a
            document type.
    """
    if not data.strip():
        raise RobotFileError(f"{where} is empty: it must hold a robot description in XML.")
    mark, encoding = next(
        ((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "")
    )
    declared = _DECLARED.match(data)
    if not encoding:
        encoding = declared.group(1).decode("ascii") if declared else "utf-8"
    try:
        text = data[len(mark) :].decode(encoding)
        if text.encode(encoding) != data[len(mark) :]:
            raise RobotFileError(
                f"{where} is not cleanly encoded as {encoding}: convert it to UTF-8."
            )
        utf8 = text.encode("utf-8")
    except (LookupError, UnicodeError, TypeError, AttributeError) as error:
        raise RobotFileError(
            f"{where} cannot be read as {encoding} text ({error}): convert it to UTF-8."
        ) from error
    return Document(_parse(utf8, where), utf8, encoding, mark)


def _parse(text: bytes, where: str) -> Element:
    parser = expat.ParserCreate("utf-8")  # overrides what the file declares
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    open_elements: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        position = parser.CurrentByteIndex
        element = Element(tag, attributes, parser.CurrentLineNumber, position)
        result = _START_TAG.match(text, position)
        element.inner = result.end() if result else position
        (open_elements[-1].children if open_elements else roots).append(element)
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
        if parent.closes_itself:
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


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LARGEST = 1.0e30  # SI units; beyond it, products of masses and lengths overflow


def format_numbers(values: ArrayLike) -> str:
    """Numbers in full precision, separated by blanks; zeros without sign."""
    return " ".join(repr(float(value) + 0.0) for value in np.atleast_1d(np.asarray(values)))


class UrdfReader:
    """Reads attributes of elements; `where` names the file in messages."""

    def __init__(self, where: str) -> None:
        self.where = where

    def place(self, element: Element, owner: Element | None = None) -> str:
        """File, line and element, with the link or joint that it belongs to."""
        tags = [element] if owner is None or owner is element else [owner, element]
        path = " ".join(
            f"<{tag.tag} name={tag.attributes['name']!r}>"
            if "name" in tag.attributes
            else f"<{tag.tag}>"
            for tag in tags
        )
        return f"{self.where}, line {element.line}, {path}"

    def fail(self, element: Element, message: str, owner: Element | None = None) -> NoReturn:
        """Raise `RobotFileError` about an element."""
        raise RobotFileError(f"{self.place(element, owner)}: {message}")

    def name(self, element: Element) -> str:
        return self.text(element, "name", element)

    def text(self, element: Element, attribute: str, owner: Element) -> str:
        """Return an attribute that must be there and not be empty."""
        value = element.attributes.get(attribute, "").strip()
        if not value:
            self.fail(element, f"the attribute {attribute} is missing or empty; give it.", owner)
        return value

    def number(
        self, element: Element, attribute: str, owner: Element, most: float = _LARGEST
    ) -> float:
        """Return an attribute as a finite number, no larger than `most`."""
        return self._number(self.text(element, attribute, owner), element, attribute, owner, most)

    def vector(self, element: Element, attribute: str, owner: Element) -> Array:
        """Return an attribute as three numbers."""
        words = self.text(element, attribute, owner).split()
        if len(words) != 3:
            self.fail(element, f"{attribute} has {len(words)} numbers; it needs three.", owner)
        return np.array([self._number(word, element, attribute, owner, _LARGEST) for word in words])

    def origin(self, parent: Element, owner: Element) -> tuple[Array, Array]:
        """Translation and roll-pitch-yaw of the child <origin>, zero where not given."""
        element = self.only_child(parent, "origin", owner)
        xyz, rpy = np.zeros(3), np.zeros(3)
        if element is None:
            return xyz, rpy
        if "quat_xyzw" in element.attributes:
            self.fail(element, "quat_xyzw is not supported; write the rotation as rpy.", owner)
        if "xyz" in element.attributes:
            xyz = self.vector(element, "xyz", owner)
        if "rpy" in element.attributes:
            rpy = self.vector(element, "rpy", owner)
        return xyz, rpy

    def only_child(self, parent: Element, tag: str, owner: Element | None = None) -> Element | None:
        """Return the child with this tag, `None` if there is none."""
        result = parent.all(tag)
        if len(result) > 1:
            self.fail(
                result[1],
                f"there is a <{tag}> in line {result[0].line} already; keep one of the two.",
                owner or parent,
            )
        return result[0] if result else None

    def required_child(self, parent: Element, tag: str, owner: Element) -> Element:
        """Return the child with this tag, which must be there."""
        result = self.only_child(parent, tag, owner)
        if result is None:
            self.fail(parent, f"<{tag}> is missing; add it.", owner)
        return result

    def _number(
        self, word: str, element: Element, attribute: str, owner: Element, most: float
    ) -> float:
        if "${" in word or "$(" in word:
            self.fail(
                element, f"{attribute}={word!r} is a xacro expression; run xacro first.", owner
            )
        value = float(word) if _NUMBER.fullmatch(word) else math.nan
        if not math.isfinite(value):
            self.fail(element, f"{attribute}={word!r} is not a finite number; correct it.", owner)
        if abs(value) > most:
            self.fail(element, f"{attribute}={word} is too large; check its unit.", owner)
        return value
