"""Links lead somewhere, and the commands, tests, files and targets that the pages name exist."""

import re
import shlex
from itertools import takewhile

import click
import pytest
from scripts.documentation_site import sections
from tests.docs.pages import PAGES, ROOT, anchors, blocks, functions, prose, spans, text

from headrace import conformance, connectors_cli, gateway_cli
from headrace.cli import cli

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?:\.venv/bin/)?(headrace(?= [a-z])|headrace-gateway|headrace-connectors|headrace-conformance) (.*)")
_PROGRAMS: dict[str, click.Command] = {
    "headrace": cli,
    "headrace-gateway": gateway_cli.program,
    "headrace-connectors": connectors_cli.program,
    "headrace-conformance": conformance.program,
}
_PLUGINS = "docs/write/plugins.md"
_CELL_END = re.compile(r"(?<!\\)\|")
_REPOSITORY = re.compile(r"https://github\.com/headrace/headrace/(blob|tree)/main/([^#]+)(#.+)?")
_PATH = re.compile(r"(?:tests|docs|src|proto|gateway|engine|connectors|sdk|examples|scripts)/[\w./-]*\w/?(?:::\w+)?")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in _LINK.findall(prose(page)):
        if here := _REPOSITORY.fullmatch(link):
            # Pages that the package index shows, too, link to the repository, where a folder has another address than a file.
            target, anchor = ROOT / here[2], (here[3] or "").removeprefix("#")
            assert target.is_dir() == (here[1] == "tree"), f"{page}: {link}"
        elif link.startswith("https://"):
            continue
        else:
            path, _, anchor = link.partition("#")
            target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(target.resolve().relative_to(ROOT).as_posix()), f"{page}: {link}"


@pytest.mark.parametrize("page", PAGES)
def test_every_row_stands_in_a_table_with_a_head_and_has_all_cells(page: str) -> None:
    for paragraph in re.split(r"\n\s*\n", prose(page)):
        rows = [line for line in paragraph.splitlines() if line.startswith("|")]
        if rows:
            assert re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", "".join(rows[1:2])), f"{page}: {rows[0]}"
            assert rows == paragraph.strip("\n").splitlines(), f"{page}: {rows[0]}"
            for row in rows:
                assert len(_CELL_END.findall(row)) == len(_CELL_END.findall(rows[0])), f"{page}: {row}"


def commands() -> list[tuple[str, str, list[str]]]:
    """Every command line of the pages: page, program and words."""
    found = []
    for page in PAGES:
        lines = [*spans(page), *(line for block in blocks(page, "bash") for line in block.text.splitlines())]
        matches = [match for line in lines if (match := _COMMAND.fullmatch(line.strip()))]
        found += [(page, match[1], shlex.split(match[2], comments=True)) for match in matches]
    return found


def test_commands_and_their_options_exist() -> None:
    assert {program for _, program, _ in commands()} == set(_PROGRAMS)
    for page, program, words in commands():
        if page == _PLUGINS:
            continue  # test_plugins_page.py checks its commands where its plugins are installed.
        command = _PROGRAMS[program]
        context = click.Context(command)
        for word in takewhile(lambda word: word != "--", words):
            if isinstance(command, click.Group) and (inner := command.get_command(context, word)) is not None:
                command = inner
            elif word.startswith("--"):
                known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
                assert word.partition("=")[0] in known | {"--help", "--version"}, f"{page}: {program} {' '.join(words)}"
        assert command is not cli, f"{page}: there is no command: headrace {' '.join(words)}"
        assert command is not connectors_cli.program, f"{page}: there is no command: headrace-connectors {' '.join(words)}"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        lines = [*spans(page), *(line for block in blocks(page, "bash") for line in block.text.splitlines())]
        named = {match[1] for line in lines if (match := re.match(r"make ([a-z-]+)", line))}
        assert named <= targets, page


@pytest.mark.parametrize("page", [page for page in PAGES if "/README" not in page])
def test_named_files_and_tests_exist(page: str) -> None:
    for span in spans(page):
        if not _PATH.fullmatch(span):
            continue
        path, _, name = span.partition("::")
        assert (ROOT / path).exists(), f"{page}: {span}"
        if name:
            assert name in functions(path), f"{page}: {span}"


def test_decisions_are_listed_and_whole() -> None:
    folder = ROOT / "docs/internals/decisions"
    files = sorted(path.name for path in folder.glob("2*.md"))
    assert sorted(re.findall(r"\((2\S+\.md)\)", text("docs/internals/decisions/README.md"))) == files
    for name in files:
        headings = re.findall(r"^## (.+)$", text(f"docs/internals/decisions/{name}"), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], name


@pytest.mark.parametrize("page", ["docs/reference/protocol.md", "docs/write/writing-a-source.md", "docs/write/writing-a-sink.md"])
def test_authors_in_any_language_find_each_rule_on_the_page_and_not_in_a_test(page: str) -> None:
    assert "tests/" not in text(page)


def test_the_index_has_a_section_for_each_room() -> None:
    folders = {path.name for path in (ROOT / "docs").iterdir() if path.is_dir()}
    listed = sections()
    assert {heading.lower() for heading in listed} == folders
    for heading, pages in listed.items():
        assert {path.partition("/")[0] for _, path, _ in pages} == {heading.lower()}


def test_the_index_lists_every_page_once() -> None:
    """The decisions have an index of their own."""
    listed = re.findall(r"\]\(([\w/.-]+\.md)\)", text("docs/README.md"))
    there = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")} - {"README.md"}
    assert sorted(listed) == sorted(page for page in there if not page.startswith("internals/decisions/2"))
