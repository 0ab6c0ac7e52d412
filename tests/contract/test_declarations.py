"""What users set is declared once, and the name of a duration tells its unit in one way."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from tests.test_layers import ROOT, modules

from headrace.configuration import takes_duration
from headrace.connectors import CONNECTORS
from headrace.deploy.tables import GatewayOptions, PipelineOptions
from headrace.gateway.config import Config

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


def tables(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model of a configuration file, and the models of its tables."""
    yield model
    for field in model.model_fields.values():
        for part in (field.annotation, *get_args(field.annotation)):
            if inspect.isclass(part) and issubclass(part, BaseModel):
                yield from tables(part)


FILES = {
    "gateway.toml": [*tables(Config)],
    "deploy.toml": [GatewayOptions, PipelineOptions],
    **{connector.name: [connector.load().parameters] for connector in CONNECTORS},
}


@pytest.mark.parametrize("file", FILES)
def test_durations_of_configuration_files_are_named_for_seconds_and_also_take_a_unit(file: str) -> None:
    fields = {name: field for table in FILES[file] for name, field in table.model_fields.items()}
    assert fields
    assert {name for name in fields if OTHER_UNITS.search(name)} == set()
    for name, field in fields.items():
        # The options of a process are checked by that process.
        passed_on = {float, str} <= set(get_args(field.annotation))
        assert name.endswith("_seconds") == (takes_duration(field) or passed_on), f"{file}: {name}"


def test_options_of_commands_that_are_durations_are_named_for_seconds() -> None:
    # Measurements, which nobody installs, last for minutes.
    product = [found for found, names in options().items() if not names[0].startswith("headrace.laboratory")]
    assert len(product) > 60
    for declaration in product:
        for name in re.findall(r"'(--[\w-]+)'", declaration):
            assert not OTHER_UNITS.search(name.replace("-", "_")), declaration
            assert name.endswith("-seconds") or not re.search(r"metavar='(?:SECONDS|S|MS)'", declaration), declaration


TYPESCRIPT_FIELD = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s*readonly (\w+)\??: number", re.DOTALL)
IS_DURATION = re.compile(r"\b(how (?:long|often)|longest wait|milliseconds|seconds)\b", re.IGNORECASE)


def test_durations_of_the_typescript_sdk_are_in_milliseconds_and_named_so() -> None:
    """The one exception: whoever writes TypeScript knows durations as `setTimeout` takes them."""
    files = [path for path in (ROOT / "sdk/typescript/src").rglob("*.ts") if "gen" not in path.parts]
    fields = [field for path in files for field in TYPESCRIPT_FIELD.findall(path.read_text())]
    durations = {name for comment, name in fields if IS_DURATION.search(comment)}
    assert {"drainMs", "maxBackoffMs", "idleMs"} <= durations
    assert durations == {name for _, name in fields if IN_NUMBERS.fullmatch(name)}
    assert {name for name in durations if not name.endswith("Ms")} == set()
    for page in ("sdk/typescript/README.md", "sdk/typescript/src/options.ts"):
        assert "milliseconds" in (ROOT / page).read_text(), page


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


BOUND = "MOST|LONGEST|LARGEST|SHORTEST|SMALLEST|LEAST|FEWEST|MAXIMUM|MINIMUM"
BOUNDS = re.compile(rf"(?:^|\s|,\s)_?(?:{BOUND})(?:_[A-Z]+)*(?=[ ,:=])")


def test_constants_for_bounds_begin_with_max_or_min() -> None:
    others = ("bridges/*/src", "engine/java/src", "gateway/console/src", "sdk/java/*/src", "sdk/typescript/src", "sdk/rust/src")
    roots = [root for pattern in others for root in ROOT.glob(pattern)]
    listed = [path for root in roots for kind in ("java", "ts", "tsx", "rs") for path in root.rglob(f"*.{kind}")]
    files = [*modules().values(), *(path for path in listed if "gen" not in path.parts)]
    assert len(files) > 1_000
    assert [str(path.relative_to(ROOT)) for path in files if BOUNDS.search(path.read_text())] == []
