"""Who may import whom: the table in imports.toml, checked against every import that runs."""

import ast
import importlib
import importlib.util
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMPORTS = ROOT / "tests/imports.toml"
SOURCES = tuple(sorted({path.parent for path in ROOT.glob("**/src/headrace") if ".venv" not in path.parts}))
GENERATED = "headrace.protocol.v1."
CONTRACT = "contract"
"""The package that every other one may import."""
WITH_A_FACE = ("engine.codec", "sdk.wire")
"""Packages whose `__init__` has all that others use: their modules are imported by nobody else."""
ROOMS = tuple(
    f"gateway.core.{room}"
    for room in ("batches", "connections", "control", "intake", "pipelines", "sinks", "state", "status", "streams")
)
"""Packages whose `__init__` has all that other packages use; tests look into them."""
ROOMS_BY_MODULE = tuple(
    f"engine.applications.{room}" for room in ("shipping", "states", "stages", "real_time", "batches", "starting", "offline")
)
"""Packages whose docstring lists all that other packages use: each process imports the modules that it needs, and no others."""
PLAIN = ("connectors", "engine", "pipelines", "sdk", "telemetry")
"""Parts whose modules have an underscore only where the package's `__init__` lists public names of them."""
CLOSED = ("connectors", "pipelines", "sdk")
"""Parts of which others import packages, and no modules but these."""
OPEN_MODULES = ("headrace.pipelines.runtime", "headrace.engine.applications.", "headrace.telemetry.")
"""How modules begin that others, tests too, import by name."""
IMPATIENT = {("tests.sdk.python.test_reports", "headrace.sdk.wire._reports")}
"""Tests that make an interval shorter than anybody could configure."""


@dataclass(frozen=True)
class Import:
    """One module imports another one, each with the package of the table that it belongs to."""

    importer: str
    imported: str
    package: str
    other: str


WITHOUT_PUBLIC = {
    ("tests.cluster.served_files", "headrace.engine.checkpoint.state_files"): "a service between a JVM and its tasks",
    ("tests.cluster.served_files", "headrace.engine.spark.served_files"): "the same",
    ("tests.spark_versions.test_spark_versions", "headrace.engine.spark.versions"): "what `register` refuses",
    ("tests.contract.test_same_everywhere", "headrace.engine.source.options"): "what options mean, without a query",
    ("tests.docs.test_reference", "headrace.engine.sink.options"): "the names of all options",
    ("tests.docs.test_reference", "headrace.engine.source.options"): "the names of all options, and their defaults",
    ("tests.docs.test_reference", "headrace.engine.wire.gateway_options"): "their defaults",
    ("tests.faults.without_spark", "headrace.engine.spark.format"): "what Spark calls, called without Spark",
}
"""Tests that use private modules of another package, and for what."""


def rows() -> Mapping[str, set[str]]:
    """What each package may import besides the contract, by its name without `headrace.`."""
    return {package: set(names) for package, names in tomllib.loads(IMPORTS.read_text()).items()}


def package_of(module: str, packages: Mapping[str, set[str]]) -> str:
    """The package of the table with the longest name that a module begins with."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    found = next((name for name in names if name in packages), None)
    assert found is not None, f"{module} belongs to no package in {IMPORTS.name}"
    return found


@cache
def modules() -> Mapping[str, Path]:
    """All modules that are written by hand, by name."""
    found = {}
    for source in SOURCES:
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: path for name, path in found.items() if not name.startswith(GENERATED)}


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a module imports when it runs, anywhere in it; imports for type checkers do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "relative import"
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules() else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from imported(node)


@cache
def imported_by(path: Path) -> frozenset[str]:
    """The imports of the module in a file."""
    return frozenset(imported(ast.parse(path.read_text())))


@cache
def imports() -> tuple[Import, ...]:
    """Every import of a module of Headrace by one of another package."""
    packages = rows()
    found = []
    for module, path in sorted(modules().items()):
        package = package_of(module, packages)
        for name in imported_by(path):
            if name.startswith("headrace.") and (other := package_of(name, packages)) not in (package, CONTRACT):
                found.append(Import(module, name, package, other))
    return tuple(found)


def test_all_distributions_are_looked_at() -> None:
    assert {"gateway", "engine", "sdk", "pipelines", "laboratory", "cli"} <= {name.split(".")[1] for name in modules()}
    assert len(imports()) > 500


def test_packages_import_only_what_the_table_permits() -> None:
    permitted = rows()
    wrong = [f"{one.importer} imports {one.imported}" for one in imports() if one.other not in permitted[one.package]]
    assert wrong == []


def test_the_table_permits_nothing_that_is_not_used() -> None:
    used = {(one.package, one.other) for one in imports()}
    assert {(package, other) for package, others in rows().items() for other in others} - used == set()


def test_no_package_reaches_itself() -> None:
    permitted = rows()

    def visit(package: str, path: tuple[str, ...]) -> None:
        assert package not in path, " imports ".join((*path[path.index(package) :], package))
        for other in permitted[package]:
            visit(other, (*path, package))

    for package in permitted:
        visit(package, ())


@cache
def imported_by_types_too(path: Path) -> frozenset[str]:
    """The modules that a module imports, also imports for type checkers."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    known = {**modules(), **modules_of_tests()}
    found = {name if name in known else name.rpartition(".")[0] for name in names}
    return frozenset(found | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names})


def test_no_module_reaches_itself() -> None:
    graph = {name: set(imported_by_types_too(path) - {name}) for name, path in modules().items()}
    # The only types that name each other: a flow inherits or makes them, and their methods return flows.
    for module in ("_windowed", "flow_joins", "flow_outputs", "flow_states"):
        graph[f"headrace.pipelines.{module}"].remove("headrace.pipelines._flow")
    TopologicalSorter(graph).prepare()


def test_no_module_of_the_tests_reaches_itself() -> None:
    TopologicalSorter({name: imported_by_types_too(path) - {name} for name, path in modules_of_tests().items()}).prepare()


@cache
def modules_of_tests() -> Mapping[str, Path]:
    """All modules of the tests, by name."""
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "tests").rglob("*.py")}


@cache
def names_from_rooms() -> Mapping[str, frozenset[tuple[str, str, str]]]:
    """What modules import from each room or a module in it, even if only type checkers see it: importer, module, name."""
    found: dict[str, set[tuple[str, str, str]]] = {room: set() for room in (*ROOMS, *ROOMS_BY_MODULE)}
    for importer, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            for room in found:
                is_outside = not f"{importer}.".startswith(f"headrace.{room}.")
                if is_outside and f"{node.module}.".startswith(f"headrace.{room}."):
                    found[room] |= {(importer, node.module, alias.name) for alias in node.names}
    return {room: frozenset(names) for room, names in found.items()}


@pytest.mark.parametrize("room", ROOMS)
def test_what_passes_from_a_room_to_others_is_what_it_lists(room: str) -> None:
    imports = names_from_rooms()[room]
    assert [one for one in imports if one[1] != f"headrace.{room}"] == []
    assert set(importlib.import_module(f"headrace.{room}").__all__) == {name for _, _, name in imports}


@pytest.mark.parametrize("room", ROOMS_BY_MODULE)
def test_what_passes_from_a_room_to_others_stands_in_its_docstring(room: str) -> None:
    docstring = ast.get_docstring(ast.parse(modules()[f"headrace.{room}"].read_text()))
    assert docstring is not None
    listed = re.findall(r"`(\w+)`", docstring.partition("Others use ")[2])
    assert sorted(listed) == sorted({name for _, _, name in names_from_rooms()[room]})


@pytest.mark.parametrize("package", WITH_A_FACE)
def test_others_and_tests_import_what_a_package_offers_and_none_of_its_modules(package: str) -> None:
    inside = f"headrace.{package}."
    found = {
        (module, name)
        for module, path in {**modules(), **modules_of_tests()}.items()
        if not f"{module}.".startswith(inside)
        for name in imported_by(path)
        if name.startswith(inside)
    }
    assert found - IMPATIENT == set()


def is_private(module: str) -> bool:
    """Whether only the part that a module belongs to, and its tests, may import it."""
    is_package = module in modules() and modules()[module].name == "__init__.py"
    is_inside = module.split(".")[1] in PLAIN and not is_package and not module.startswith(OPEN_MODULES)
    return "._" in module or is_inside


def test_tests_use_the_public_interfaces_of_other_packages_than_their_own() -> None:
    """A test of a package may test its parts one by one: the tests of `headrace.engine` are in `tests/engine`."""
    found = {
        (module, name)
        for module, path in modules_of_tests().items()
        for name in imported_by(path)
        if name.startswith("headrace.") and is_private(name) and name.split(".")[1] != module.split(".")[1]
    }
    assert found == set(WITHOUT_PUBLIC)


@pytest.mark.parametrize("part", CLOSED)
def test_parts_import_no_module_of_another_part(part: str) -> None:
    found = [
        (importer, name)
        for importer, path in modules().items()
        for name in imported_by(path)
        if name.startswith(f"headrace.{part}.") and importer.split(".")[1] != part and is_private(name)
    ]
    assert found == []


@pytest.mark.parametrize("part", PLAIN)
def test_a_module_has_an_underscore_where_its_package_lists_names_of_it(part: str) -> None:
    packages = {name: path for name, path in modules().items() if f"{name}.".startswith(f"headrace.{part}.")}
    found = {name for name in packages if name.rpartition(".")[2].startswith("_")}
    listed = set()
    for package, path in packages.items():
        if path.name == "__init__.py":
            public = getattr(importlib.import_module(package), "__all__", ())
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and {alias.name for alias in node.names} & set(public):
                    listed |= {str(node.module)} & {name for name in packages if name.rpartition(".")[0] == package}
    assert found == {name for name in listed if packages[name].name != "__init__.py"}


@pytest.mark.parametrize(
    "module",
    ["headrace.contract.names", "headrace.contract.units", "headrace.contract.position", "headrace.machine.owned_folder"],
)
def test_the_contract_needs_the_standard_library_alone(module: str) -> None:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    names = set(imported_by(Path(spec.origin)))
    assert not {name for name in names if name.split(".")[0] in {"grpc", "google", "numpy", "pyarrow", "pyspark", "pydantic"}}


@pytest.mark.parametrize(
    "module", [name for name in sorted(modules()) if name.startswith(("headrace.gateway.", "headrace.sdk."))]
)
def test_gateway_and_sdk_read_the_time_and_draw_randomness_in_one_place(module: str) -> None:
    """A second clock or source of randomness would escape the simulation."""
    tree = ast.parse(modules()[module].read_text())
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not names & {"time.monotonic", "time.time", "time.time_ns", "time.monotonic_ns", "time.perf_counter"}
    assert not {name for name in calls | names if name.startswith(("random.", "uuid."))}
    assert not calls & {"datetime.now", "datetime.utcnow"}


def test_folders_are_removed_by_the_one_function_that_raises_no_error() -> None:
    """`shutil.rmtree` raises the errors of some operations although a caller asks it to ignore all."""
    found = {
        name
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "rmtree"
    }
    assert found == {"headrace.machine.owned_folder"}
