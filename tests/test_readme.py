"""The README tells the truth: its Python blocks and its marked shell blocks run.

Python blocks run in order in one namespace. Shell blocks run when `<!-- tested -->` stands before
the fence; the others (installation, `make test` itself) cannot run within a test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
MARK = "<!-- tested -->"
FENCE = re.compile(
    rf"^(?P<mark>{MARK} *\n(?: *\n)?)?"
    r"```(?P<language>bash|python) *\n(?P<code>.*?)^``` *$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    marked: bool


def blocks(markdown: str) -> list[Block]:
    """All bash and python blocks of a markdown text, with the line their code starts at."""
    return [
        Block(
            language=match["language"],
            code=match["code"],
            line=markdown.count("\n", 0, match.start("code")) + 1,
            marked=match["mark"] is not None,
        )
        for match in FENCE.finditer(markdown)
    ]


def run_python(markdown: str, name: str) -> dict[str, object]:
    """Run all python blocks in one namespace; tracebacks show the lines of the document."""
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks(markdown):
        if block.language == "python":
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, name, "exec"), namespace)
    return namespace


def run_bash(block: Block, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a block so that any failing line fails it, with this environment's commands first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


def marked_bash(markdown: str) -> list[Block]:
    return [block for block in blocks(markdown) if block.language == "bash" and block.marked]


def test_python_blocks_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_python(README.read_text(encoding="utf-8"), str(README))


@pytest.mark.parametrize(
    "block",
    marked_bash(README.read_text(encoding="utf-8")),
    ids=lambda block: f"line {block.line}",
)
def test_marked_bash_blocks_of_the_readme_run(block, tmp_path):
    process = run_bash(block, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr


def test_every_mark_in_the_readme_belongs_to_a_bash_block():
    text = README.read_text(encoding="utf-8")
    assert len(marked_bash(text)) == text.count(MARK) >= 1


SAMPLE = f"""# Title

```python
x = 1
```

```bash
exit 3
```

{MARK}
```bash
echo first
false
echo last
```

{MARK}

```bash
echo fine
```

```python
y = x + 1
```
"""


def test_blocks_are_found_with_their_lines_and_marks():
    found = [(block.language, block.line, block.marked) for block in blocks(SAMPLE)]
    assert found == [
        ("python", 4, False),
        ("bash", 8, False),
        ("bash", 13, True),
        ("bash", 21, True),
        ("python", 25, False),
    ]


def test_python_blocks_share_a_namespace():
    assert run_python(SAMPLE, "sample.md")["y"] == 2


def test_failing_python_block_fails_with_its_line():
    with pytest.raises(ZeroDivisionError) as failure:
        run_python("text\n\n```python\nx = 1\nx / 0\n```\n", "sample.md")
    place = traceback.extract_tb(failure.value.__traceback__)[-1]
    assert (place.filename, place.lineno) == ("sample.md", 5)


def test_failing_line_fails_a_bash_block(tmp_path):
    failing, fine = marked_bash(SAMPLE)
    assert run_bash(failing, tmp_path).returncode == 1
    assert run_bash(failing, tmp_path).stdout == "first\n"
    assert run_bash(fine, tmp_path).returncode == 0
