"""The documentation tells the truth: its code runs and prints what the pages say.

Python blocks of a page run in order in one namespace. A `text` block right after a Python block,
or after a `bodysense` command, is what it prints. There "…" within a line stands for anything, and
as a line of its own for any lines. A shell block runs if such a block follows it, or if
`<!-- tested -->` stands before it; others (installation, `make test`) cannot run within a test.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bodysense.cli.main import main
from bodysense.errors import MissingDependencyError
from bodysense.robot import friction

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"[|&;<>$`*?#~\\()]")
MARK = "<!-- tested -->"
BLOCK = re.compile(
    rf"^(?P<mark>{MARK} *\n(?: *\n)?)?```(?P<language>\w+) *\n(?P<code>.*?)^``` *$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    output: str | None
    marked: bool


def blocks(markdown: str) -> list[Block]:
    """Fenced blocks, each with the `text` block that directly follows it as its output."""
    found = list(BLOCK.finditer(markdown))
    result = []
    for k, match in enumerate(found):
        output = None
        for following in found[k + 1 : k + 2]:
            between = markdown[match.end() : following.start()]
            if following["language"] == "text" and not between.strip():
                output = following["code"]
        line = markdown.count("\n", 0, match.start("code")) + 1
        marked = match["mark"] is not None
        result.append(Block(match["language"], match["code"], line, output, marked))
    return result


def matches(printed: str, expected: str) -> bool:
    """Whether `printed` is what the page says, up to the places marked with "…"."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r" *\n"
        for line in expected.splitlines()
    ]
    return re.fullmatch("".join(lines), printed) is not None


def run_command(code: str, folder: Path) -> str:
    """What a command prints; one that needs no shell runs in this process, which is at hand."""
    if "\n" not in code.strip() and not SHELL.search(code):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = main(shlex.split(code)[1:])
        assert status == 0, printed.getvalue()
        return printed.getvalue()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def run_page(markdown: str, name: str, folder: Path) -> int:
    """Run a page in a folder, the working one; return how many outputs were compared."""
    namespace: dict[str, object] = {"__name__": "page"}
    compared = 0
    for block in blocks(markdown):
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (block.line - 1) + block.code, name, "exec"), namespace)
            text = printed.getvalue()
        elif block.language == "bash" and (
            block.marked or (block.output is not None and block.code.startswith("bodysense "))
        ):
            text = run_command(block.code, folder)
        else:
            continue
        if block.output is not None:
            place = f"{name}, line {block.line}"
            assert matches(text, block.output), f"{place} prints:\n{text}"
            compared += 1
    return compared


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # What a page registers is forgotten after it.
    monkeypatch.setattr(friction, "_REGISTRY", friction.friction_models())
    try:
        run_page(page.read_text(encoding="utf-8"), str(page), tmp_path)
    except MissingDependencyError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mark_belongs_to_a_shell_block(page):
    text = page.read_text(encoding="utf-8")
    marked = [block for block in blocks(text) if block.marked]
    assert len(marked) == text.count(MARK)
    assert all(block.language == "bash" for block in marked)


SAMPLE = """
```python
print("a")
print("b", 1.25)
```

```text
a
b 1.…
```

Words in between.

```text
not an output
```

```python
print("c")
```
"""


def test_outputs_are_compared(tmp_path):
    assert run_page(SAMPLE, "sample.md", tmp_path) == 1
    with pytest.raises(AssertionError, match=r"sample\.md, line 3 prints:"):
        run_page(SAMPLE.replace("b 1.…", "b 2.…"), "sample.md", tmp_path)


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("a\nb\nc\n", "a\n…\nc\n", True),
        ("a\nc\n", "a\n…\nc\n", True),
        ("a\nb\n", "a\n…\nc\n", False),
        ("from /x/tx40.yaml\n", "from …tx40.yaml\n", True),
        ("a\nb\n", "a\n", False),
        ("a\n", "b\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_dots_stand_for_anything_left_out(printed, expected, same):
    assert matches(printed, expected) is same


@pytest.mark.parametrize(
    ("mark", "fails"), [(MARK + "\n", True), (MARK + "\n\n", True), ("", False)]
)
def test_marked_shell_blocks_run_and_any_failing_line_fails_them(mark, fails, tmp_path):
    page = f"{mark}```bash\necho first\nfalse\necho last\n```\n"
    with pytest.raises(AssertionError, match="first") if fails else contextlib.nullcontext():
        run_page(page, "sample.md", tmp_path)


def test_failing_python_blocks_show_their_line(tmp_path):
    with pytest.raises(ZeroDivisionError) as failure:
        run_page("# Title\n\n```python\nx = 1\nx / 0\n```\n", "sample.md", tmp_path)
    assert failure.traceback[-1].lineno == 4
