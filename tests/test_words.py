"""Code, messages, reports and documentation use the words of the field (CONTRIBUTING, "Words")."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [
    path
    for pattern in ("src/**/*.py", "src/**/*.j2", "src/**/*.js", "docs/**/*.md", "README.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "benchmarks.md"  # recorded results, in the words of their day
]
BANNED = {
    "prior": r"\bbelie(?:f|fs|ve|ved|ves)\b",
    "contact, estimated": r"\bfelt\b",
    "recovered": r"\bfound back\b",
    "invalid value …; expected …": r"\bcannot be meant\b",
    "physically consistent": r"\bcan(?:not)? (?:physically )?exist\b",
    "converged": r"\bc[ao]me to rest\b",
    "fix": r"\bmend(?:s|ed|ing)?\b",
    "contact (noun)": r"\b(?:a|the|every|each|this|of|no) touch(?:es)?\b",
    "per": r"\b(?:one|once|rows?|samples|readings|times|values?|numbers?) an? "
    r"(?:joint|link|sample|second|sensor|channel|row|log|motion|pose|parameter)\b(?!')",
    # The moment of a force, of a mass distribution or of a random variable is one.
    "sample, time step": r"(?<!first )(?<!second )(?<!principal )(?<!transverse )(?<!and )(?<!\")"
    r"\b(?:at|every|each|one|single|many|several|this|that|all|some|most|\d+) moments?\b"
    r"(?! of (?:inertia|mass|the mass))",
}


@pytest.mark.parametrize("instead", BANNED)
def test_words_of_the_field_are_used(instead):
    pattern = re.compile(BANNED[instead], re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:90]}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"say {instead!r} instead:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "banned"),
    [
        ("the estimate of one moment", True),
        ("at all moments of the log", True),
        ("the moment of inertia about x", False),
        ("second moments of the noise", False),
        ("one row a joint", True),
        ("one per joint", False),
        ("links that cannot exist", True),
    ],
)
def test_the_patterns_tell_words_apart(text, banned):
    assert any(re.search(pattern, text, re.I) for pattern in BANNED.values()) is banned
