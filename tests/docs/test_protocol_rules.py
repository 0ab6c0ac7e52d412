"""The rules of the protocol have numbers that stay, and whatever cites a rule cites one that exists."""

import re
from itertools import pairwise
from pathlib import Path

from tests.docs.pages import ROOT, codes, prose, section, table, text

PAGE = "docs/reference/protocol.md"
CITING = ("proto", "docs", "base", "sdk", "gateway", "conformance", "examples", "tests")
LANGUAGES = {".proto", ".md", ".json", ".py", ".pyi", ".go", ".ts", ".java", ".rs", ".toml", ".yaml"}
BUILT = {"node_modules", "target", "build", "dist", "__pycache__"}
STANDARDS = {"UTF", "SHA", "ISO", "RFC", "BSD", "MPL", "KIP"}
"""What looks like the subject of a rule, and is none."""

_RULE = re.compile(r'^- <a id="([a-z]{3}-\d+)"></a>\*\*([A-Z]{3})-(\d+)\*\* (.+(?:\n  .+)*)', re.MULTILINE)
_CITED = re.compile(r"\b([A-Z]{3})-(\d+)\b")
_RANGE = re.compile(r"\b([A-Z]{3})-(\d+) to ([A-Z]{3})-(\d+)\b")


def rules() -> list[tuple[str, int, str]]:
    """Each rule of the page, in order: subject, number and text."""
    return [(match[2], int(match[3]), match[4]) for match in _RULE.finditer(prose(PAGE))]


def subjects() -> list[str]:
    return [codes(row[0])[0] for row in table(PAGE, "Rules and their numbers")]


def citing_files() -> list[Path]:
    found = (path for folder in CITING for path in (ROOT / folder).rglob("*") if path.suffix in LANGUAGES)
    return [path for path in found if not BUILT.intersection(path.relative_to(ROOT).parts) and path.is_file()]


def test_rules_are_numbered_once_and_none_is_missing() -> None:
    # A rule that no longer applies stays as withdrawn: a gap would be a number that somebody may use again.
    assert {subject for subject, _, _ in rules()} == set(subjects())
    for subject in subjects():
        numbers = sorted(number for each, number, _ in rules() if each == subject)
        assert numbers == list(range(1, len(numbers) + 1)), subject


def test_rules_stand_in_ascending_order_where_they_stand_together() -> None:
    for heading in re.findall(r"^#+ (.+)$", prose(PAGE), re.MULTILINE):
        for paragraph in section(PAGE, heading).split("\n\n"):
            together = [(match[2], int(match[3])) for match in _RULE.finditer(paragraph)]
            assert all(one < next_one for one, next_one in pairwise(together) if one[0] == next_one[0]), (heading, together)


def test_each_rule_has_an_address_and_says_who_must_do_what() -> None:
    marked = re.findall(r"<a id=", text(PAGE))
    assert len(rules()) == len(marked), "a rule that is not written as the others are"
    for match in _RULE.finditer(prose(PAGE)):
        assert match[1] == f"{match[2]}-{match[3]}".lower()
        assert match[4].endswith((".", ":")), match[0]
        assert len(re.findall(r"[.:] ", match[4])) < 8, f"too long to be one rule: {match[0]}"


def test_every_rule_that_is_cited_exists() -> None:
    known = {(subject, number) for subject, number, _ in rules()}
    cited = set()
    for path in citing_files():
        for match in _CITED.finditer(path.read_text()):
            if match[1] in STANDARDS:
                continue
            rule = (match[1], int(match[2]))
            assert rule in known, f"{path.relative_to(ROOT)}: there is no rule {match[0]}"
            cited.add(rule)
    assert len(cited) > len(known) / 2


def test_the_protos_cite_rules_of_every_subject() -> None:
    protos = "".join(path.read_text() for path in (ROOT / "proto").rglob("*.proto"))
    assert {match[1] for match in _CITED.finditer(protos)} - STANDARDS == set(subjects())
    for match in _RANGE.finditer(protos):
        assert (match[1], int(match[2])) < (match[3], int(match[4])), match[0]
