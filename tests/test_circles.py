"""No file reaches itself by what it uses. `test_layers.py` has the modules of Python; Go's compiler checks packages."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNIT_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*", re.DOTALL)
"""Tests at the end of a file in Rust."""
COMMENTS_AND_TEXTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def code(path: Path) -> str:
    """The text of a file without comments and literals."""
    return COMMENTS_AND_TEXTS.sub("", path.read_text())


def typescript(source: Path) -> Mapping[Path, frozenset[Path]]:
    """The files below a folder, each with the files that it imports, even if only for their types."""
    found = {}
    for path in (one for one in source.rglob("*.ts*") if "gen" not in one.relative_to(source).parts):
        names = re.findall(r'(?:from|import) "(\.{1,2}/[^"]+)"', path.read_text())
        stems = [path.parent / name.removesuffix(".js") for name in names]
        files = [stem.with_name(stem.name + ending).resolve() for stem in stems for ending in (".ts", ".tsx")]
        found[path.resolve()] = frozenset(one for one in files if one.exists())
    return found


@pytest.mark.parametrize("folder", ["sdk/typescript/src", "gateway/console/src"])
def test_no_file_in_typescript_reaches_itself(folder: str) -> None:
    graph = typescript(ROOT / folder)
    assert sum(map(len, graph.values())) > 100
    TopologicalSorter(graph).prepare()


def java(source: Path) -> Mapping[str, frozenset[str]]:
    """The classes below a folder, each with the others that it names. A sealed type must list its subtypes, which is no use."""
    texts = {".".join(path.relative_to(source).with_suffix("").parts): code(path) for path in source.rglob("*.java")}
    found = {}
    for name, text in texts.items():
        package = name.rpartition(".")[0]
        imports = re.findall(r"^import (?:static )?([\w.]+);", text, re.MULTILINE)
        body = re.sub(r"^(?:import|package) .*$|\bpermits\b[^{]*", "", text, flags=re.MULTILINE)
        words = set(re.findall(r"\b[A-Z]\w*", body))
        by_import = {one for each in imports for one in (each, each.rpartition(".")[0])}
        imported = {each.rpartition(".")[2] for each in imports}
        beside = {f"{package}.{word}" for word in words - imported}
        found[name] = frozenset((by_import | beside) & set(texts) - {name})
    return found


JAVA = (
    "sdk/java/sdk",
    "sdk/java/examples",
    "sdk/java/benchmarks",
    "sdk/examples/java-jdbc",
    "engine/java",
    "bridges/kafka-connect",
    "bridges/kafka-connect/benchmarks",
)


@pytest.mark.parametrize("project", JAVA)
def test_no_file_in_java_reaches_itself(project: str) -> None:
    graph = java(ROOT / project / "src/main/java")
    assert graph
    TopologicalSorter(graph).prepare()


def test_classes_in_java_are_found() -> None:
    graph = java(ROOT / "sdk/java/sdk/src/main/java")
    assert sum(map(len, graph.values())) > 200
    assert "io.headrace.sdk.source.Source" in graph["io.headrace.sdk.source.ReplayableSource"]


Name = tuple[str, ...]
"""The path of a module in Rust, such as `("source", "reader")`; empty for the crate itself."""


def leaves(tree: str) -> Iterator[str]:
    """The paths in a tree of `use`, such as `a::b` and `a::c` in `a::{b, c}`."""
    opening = tree.find("{")
    if opening < 0:
        yield tree.split(" as ")[0].strip()
        return
    depth, item = 0, ""
    for letter in tree[opening + 1 : tree.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter != "," or depth:
            item += letter
            continue
        if item.strip():
            yield from (tree[:opening].strip() + leaf for leaf in leaves(item))
        item = ""


class Crate:
    """The modules of a crate, and what each uses."""

    def __init__(self, source: Path) -> None:
        """Reads the crate whose `lib.rs` or `main.rs` is in a folder."""
        paths = [(path.relative_to(source).with_suffix("").parts, path) for path in source.rglob("*.rs")]
        roots = ("mod", "lib", "main")
        self.texts: dict[Name, str] = {}
        for parts, path in paths:
            self.texts[parts[: len(parts) - (parts[-1] in roots)]] = UNIT_TESTS.sub("", code(path))
        self.passed_on = {name: {path[-1]: path for path in self.paths(name, "pub")} for name in self.texts}

    def paths(self, name: Name, visibility: str = "") -> Iterator[Name]:
        """The paths that a module names with `use`, or with `pub use`, in full; others only if they begin with `crate`."""
        text = self.texts[name]
        uses = re.findall(r"^\s*(?:(pub)(?:\([^)]*\))? )?use ([^;]+);", text, re.MULTILINE)
        found = [leaf for public, tree in uses if public == visibility for leaf in leaves(tree)]
        if not visibility:
            found += re.findall(r"\bcrate(?:::\w+)+", re.sub(r"^\s*(?:pub\S* )?use [^;]+;", "", text, flags=re.MULTILINE))
        for first, *rest in (re.split(r"\s*::\s*", path) for path in found):
            if first == "crate":
                yield tuple(rest)
            elif first in ("self", "super"):
                up = [first, *takewhile("super".__eq__, rest)].count("super")
                yield (*name[: len(name) - up], *rest[max(up - 1, 0) :])
            elif (*name, first) in self.texts:
                yield (*name, first, *rest)

    def module(self, path: Name) -> Name:
        """The module that declares what a path names, also where others pass it on."""
        length = next(length for length in range(len(path), -1, -1) if path[:length] in self.texts)
        module, rest = path[:length], path[length:]
        further = self.passed_on[module].get(rest[0]) if rest else None
        return self.module(further) if further else module

    def graph(self) -> Mapping[Name, frozenset[Name]]:
        """The modules, each with the others that it uses. That a module passes on a name of another one is no use."""
        return {name: frozenset(map(self.module, self.paths(name))) - {name} for name in self.texts}


RUST = ("sdk/rust", "sdk/examples/rust-archive", "sdk/examples/rust-syslog")


@pytest.mark.parametrize("crate", RUST)
def test_no_file_in_rust_reaches_itself(crate: str) -> None:
    graph = Crate(ROOT / crate / "src").graph()
    assert sum(map(len, graph.values())) >= 8
    TopologicalSorter(graph).prepare()


def test_uses_in_rust_are_found() -> None:
    graph = Crate(ROOT / "sdk/rust/src").graph()
    assert sum(map(len, graph.values())) > 150
    assert ("sink", "types") in graph["sink", "kind"], "by the name that `sink` passes on"
    assert ("source",) in graph["source", "served"], "by `super`"
    assert ("frame",) in graph["packed",], "by `crate`"
    assert list(leaves("a::{b, c::{d, e as f}, g}")) == ["a::b", "a::c::d", "a::c::e", "a::g"]


def test_no_project_is_left_out() -> None:
    tracked = subprocess.run(["git", "ls-files", "*pom.xml", "*Cargo.toml"], cwd=ROOT, capture_output=True, text=True, check=True)
    projects = {path.rpartition("/")[0] for path in tracked.stdout.splitlines()}
    without_code = {
        "sdk/java",
        "sdk/java/bom",
        "sdk/java/protocol",
        "sdk/rust/stubs",
        "bridges/kafka-connect/plugins/debezium-jdbc",
        "bridges/kafka-connect/presets/debezium-mariadb",
        "bridges/kafka-connect/presets/debezium-mysql",
        "bridges/kafka-connect/presets/debezium-postgresql",
    }
    assert projects - without_code == {*JAVA, *RUST}
