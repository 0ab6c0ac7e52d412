"""Each example says how to run it, with commands that exist, and that feed its streams and serve its sinks."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.docs.pages import blocks, prose
from tests.examples.loading import FOLDER, Example

from headrace.cli import cli
from headrace.pipelines.runtime import matches

ROOT = FOLDER.parent
EXAMPLES = sorted(path.parent.name for path in FOLDER.glob("*/app.py") if not path.with_name("deploy.toml").exists())
"""Those without a deployment of their own."""


def command_lines(example: str) -> list[list[str]]:
    page = f"examples/{example}/README.md"
    return [shlex.split(line) for block in blocks(page, "bash") for line in block.text.splitlines()]


def options(words: list[str]) -> dict[str, str]:
    return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}


def test_all_examples_are_here() -> None:
    assert EXAMPLES == ["alerts", "alphabet", "celsius", "flights", "fraud", "go_application", "market_spread", "word_count"]


def linked(page: str) -> set[str]:
    return {link.strip("/") for link in re.findall(r"\]\(([^)]+)\)", prose(page))}


def folders(examples: Path) -> set[str]:
    return {path.name for path in examples.iterdir() if (path / "README.md").exists()}


def test_the_index_of_connectors_has_them_all() -> None:
    assert linked("sdk/examples/README.md") == folders(ROOT / "sdk" / "examples") | {"../../examples/README.md"}


def test_the_index_has_them_all_and_its_program_runs() -> None:
    page = "examples/README.md"
    others = {"kubernetes", "../docs/run/kubernetes.md", "../sdk/examples/README.md"}
    assert linked(page) == folders(FOLDER) | others
    (program,) = blocks(page, "python")
    done = subprocess.run(
        [sys.executable, "-c", program.text], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES)
def test_commands_and_their_options_exist(example: str) -> None:
    lines = [words[1:] for words in command_lines(example) if words[0] == "headrace"]
    assert ["gateway"] in lines
    for words in lines:
        command: click.Command = cli
        for word in words:
            if isinstance(command, click.Group) and (inner := command.get_command(click.Context(cli), word)) is not None:
                command = inner
            elif word.startswith("--"):
                known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
                assert word in known, words
        assert command is not cli, words


@pytest.mark.parametrize("example", EXAMPLES)
def test_programs_and_pages_that_are_named_exist(example: str) -> None:
    for words in command_lines(example):
        assert words[0] in ("headrace", "python", *(["go"] if example.startswith("go_") else [])), words
        for word in words:
            assert not word.startswith("examples/") or (ROOT / word).exists(), words
    for link in re.findall(r"\]\(([^)]+)\)", prose(f"examples/{example}/README.md")):
        assert (FOLDER / example / link).exists(), link


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_commands_feed_its_streams_and_serve_its_sinks(example: str) -> None:
    graph = Example(example).app.app.graph
    lines = command_lines(example)
    assert [words[2] for words in lines if words[:2] == ["headrace", "run"]] == [f"examples/{example}/app.py"]
    served = {options(words)["--sink"] for words in lines if "--sink" in words}
    assert served == set(graph.sinks)
    fed = [f"{options(words)['--source']}/{Path(options(words)['--path']).name}" for words in lines if "--source" in words]
    fed += ["market/nbbo", "market/orders"] if ["python", "examples/market_spread/source.py"] in [w[:2] for w in lines] else []
    patterns = [pattern for source in graph.sources.values() for pattern in source.streams]
    assert all(any(matches(pattern, stream) for stream in fed) for pattern in patterns)
    assert all(any(matches(pattern, stream) for pattern in patterns) for stream in fed)
    written = {words[words.index(">") + 1] for words in lines if ">" in words}
    assert {options(words)["--path"] for words in lines if "--source" in words} == written
