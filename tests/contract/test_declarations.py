"""What users set is declared once, and the name of a duration tells its unit in one way."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.test_layers import ROOT, modules

PACKAGES = (
    "headrace.sdk",
    "headrace.pipelines",
    "headrace.engine",
    "headrace.connectors",
    *(f"headrace.connectors.{name}" for name in ("file", "http", "kafka", "nats", "postgresql", "rabbitmq", "stdout", "tcp")),
)
OTHER_UNITS = re.compile(r"_(s|secs?|ms|millis|milliseconds|us|minutes|hours)$")
IN_NUMBERS = re.compile(r"\b(\w+(?:[sS]econds?|[sS]ecs|[mM]illis|[mM]illiseconds|Ms|_ms|_s))\b")
SETTINGS = {
    "go": "sdk/go/headrace/options.go",
    "java": "sdk/java/sdk/src/main/java/io/headrace/sdk/Settings.java",
    "rust": "sdk/rust/src/settings.rs",
    "typescript": "sdk/typescript/src/options.ts",
}


def options() -> Mapping[str, Sequence[str]]:
    """Where each option of a command is declared, by its declaration."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "click.option":
                found[ast.unparse(node)].append(name)
    return found


def test_no_two_commands_declare_the_same_option() -> None:
    found = options()
    assert len(found) > 80
    assert {declaration: names for declaration, names in found.items() if len(names) > 1} == {}


def parameters(package: str) -> Iterator[str]:
    """The parameters and fields of everything that a package lists."""
    module = importlib.import_module(package)
    for one in (getattr(module, name) for name in module.__all__):
        if inspect.isclass(one):
            yield from inspect.get_annotations(one)
            functions = [each for each in vars(one).values() if inspect.isfunction(each)]
        else:
            functions = [one] if inspect.isfunction(one) else []
        for function in functions:
            yield from inspect.signature(function).parameters


@pytest.mark.parametrize("package", PACKAGES)
def test_durations_of_the_python_interface_are_in_seconds_and_named_so(package: str) -> None:
    public = {name for name in parameters(package) if not name.startswith("_")}
    assert public
    # A point in time, as Spark gives it.
    assert {name for name in public if OTHER_UNITS.search(name)} - {"time_ms"} == set()


def test_durations_of_the_gateways_configuration_are_in_milliseconds() -> None:
    durations = {name for name in parameters("headrace.gateway") if re.search(r"_(?:timeout|lease|after)", name)}
    assert len(durations) >= 7
    assert {name for name in durations if not name.endswith("_ms")} == set()


@pytest.mark.parametrize("language", SETTINGS)
def test_durations_of_other_sdks_have_a_type_of_their_own_or_are_in_milliseconds(language: str) -> None:
    text = Path(ROOT, SETTINGS[language]).read_text()
    declared = {
        "go": r"^\t([A-Z]\w*) (?:u?int|float)\w*",
        "java": r"^    private (?:final )?(?:int|long|double) (\w+)",
        "rust": r"^    pub (\w+): (?:usize|[uif]\d+)",
        "typescript": r"^  readonly (\w+)\??: number",
    }[language]
    numbers = re.findall(declared, text, re.MULTILINE)
    assert numbers, "the pattern matches what the file declares"
    units = {name for name in numbers if IN_NUMBERS.fullmatch(name)}
    assert units == ({name for name in numbers if name.endswith("Ms")} if language == "typescript" else set())
    assert bool(units) == (language == "typescript")
