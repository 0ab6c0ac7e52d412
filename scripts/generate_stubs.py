"""Generates the stubs of every language from proto/: `make stubs`. With --check, fails if the committed ones differ."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from scripts.generate_documents import Documents

from headrace.contract.languages import LANGUAGES

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = Path("headrace/protocol/v1")

_GO_BUILD = ROOT / ".build" / "go"
GO_ENVIRON = {
    "GOCACHE": str(_GO_BUILD / "cache"),
    # Without inlining and debug information, to compile takes half as long; with the same flags everywhere, once.
    "GOFLAGS": "'-gcflags=all=-l -dwarf=false' -ldflags=-w",
    "STATICCHECK_CACHE": str(_GO_BUILD / "staticcheck"),
}
"""The environment in which Go builds what only this checkout uses: tests and this script compile once what they share."""
GO_PLUGINS = {
    "google.golang.org/protobuf/cmd/protoc-gen-go": "v1.36.12",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc": "v1.6.2",
}
GO_STUBS = Path("sdk/go/internal/protocol")
CONNECTOR_PROTOS = (PACKAGE / "source.proto", PACKAGE / "sink.proto")
"""What a connector needs, with what these import."""
RUST_STUBS = Path("sdk/rust/src/protocol/v1")
TYPESCRIPT = Path("sdk/typescript")
PYTHON_INIT = '''"""The generated stubs of protocol version 1."""

import headrace.contract  # noqa: F401 - before the stubs import gRPC
'''
BUF_VERSION = "1.75.0"
"""The same version as in lint_protos.sh."""


@dataclass(frozen=True)
class Stubs:
    """The stubs of one language, or of a part of it."""

    language: str
    folder: Path
    """The folder where they are committed. It contains nothing else."""
    generate: Callable[[Path], None]
    """Writes them into a folder that it creates."""
    tools: tuple[str, ...] = ()
    """The required programs that are not in this environment."""


def protoc(*arguments: str | Path, sources: Sequence[Path] = ()) -> None:
    """Runs the protoc of grpcio-tools on files of proto/, by default on all of them."""
    sources = sources or sorted(path.relative_to(PROTO) for path in PROTO.rglob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{well_known}", *arguments, *sources]
    subprocess.run(command, check=True, cwd=PROTO)


def generate_python(folder: Path) -> None:
    """Writes the Python stubs and their types, and the types of the status document."""
    plugins = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as out:
        protoc(
            f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            f"--mypy_grpc_out=quiet:{out}",
            f"--descriptor_set_out={out}/descriptors",
            "--include_imports",
            "--include_source_info",
        )
        shutil.copytree(Path(out) / PACKAGE, folder)
        documents = Documents((Path(out) / "descriptors").read_bytes()).text()
    for services in folder.rglob("*_pb2_grpc.py"):
        if "class " not in services.read_text():
            services.unlink()
            services.with_suffix(".pyi").unlink()
    (folder / "__init__.py").write_text(PYTHON_INIT)
    (folder / "admin_documents.py").write_text(documents)


def generate_go(folder: Path) -> None:
    """Writes the Go stubs that a connector needs, according to `buf.gen.yaml`."""
    with tempfile.TemporaryDirectory() as out:
        path = os.pathsep.join((str(go_plugins()), os.environ.get("PATH", "")))
        command = ["npx", "--yes", f"--package=@bufbuild/buf@{BUF_VERSION}", "--", "buf", "generate", "--output", out]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PATH": path})
        shutil.copytree(Path(out) / GO_STUBS, folder)


def generate_typescript(folder: Path) -> None:
    """Writes the TypeScript stubs of what a connector needs, as the script of the SDK says."""
    subprocess.run([ROOT / TYPESCRIPT / "scripts" / "generate-stubs", folder], check=True)


def go_plugins() -> Path:
    """Returns the folder of protoc's Go plugins, after installing missing ones at their pinned versions."""
    folder = ROOT / ".build" / "go-bin" / "-".join(GO_PLUGINS.values())
    environ = {**os.environ, **GO_ENVIRON, "GOBIN": str(folder)}
    for package, version in GO_PLUGINS.items():
        if not (folder / Path(package).name).exists():
            subprocess.run(["go", "install", f"{package}@{version}"], check=True, env=environ)
    return folder


def generate_rust(folder: Path) -> None:
    """Writes the Rust stubs that a connector needs, with a generator that needs no protoc."""
    environ = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / ".build" / "rust" / "stubs"), "CARGO_INCREMENTAL": "0"}
    manifest = ROOT / "sdk" / "rust" / "stubs" / "Cargo.toml"
    with tempfile.TemporaryDirectory() as out:
        descriptors = Path(out) / "descriptors"
        protoc(f"--descriptor_set_out={descriptors}", "--include_imports", "--include_source_info", sources=CONNECTOR_PROTOS)
        command: list[str | Path] = ["cargo", "run", "--quiet", "--manifest-path", manifest, "--", descriptors, folder]
        subprocess.run(command, check=True, cwd=ROOT, env=environ)


ALL = (
    Stubs(LANGUAGES["python"].title, ROOT / "base" / "src" / PACKAGE, generate_python),
    Stubs(LANGUAGES["go"].title, ROOT / GO_STUBS, generate_go, tools=("go", "npx")),
    Stubs(LANGUAGES["rust"].title, ROOT / RUST_STUBS, generate_rust, tools=("cargo",)),
    Stubs(LANGUAGES["typescript"].title, ROOT / TYPESCRIPT / "src" / "gen", generate_typescript, tools=("npx",)),
)


def differences(fresh: Path, committed: Path) -> list[str]:
    """Returns the names of all files that differ between the folders."""

    def contents(root: Path) -> dict[str, bytes]:
        found = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {str(path.relative_to(root)): path.read_bytes() for path in found}

    now, before = contents(fresh), contents(committed)
    return sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))


def run(stubs: Stubs, *, check: bool) -> bool:
    """Generates or checks the stubs of one language. Returns False if that failed, or was not possible in CI."""
    missing = [tool for tool in stubs.tools if shutil.which(tool) is None]
    if missing:
        verb = "checked" if check else "generated"
        print(f"{stubs.language} stubs were NOT {verb}: {', '.join(missing)} not installed", file=sys.stderr)
        return os.environ.get("CI") != "true"
    with tempfile.TemporaryDirectory() as temporary:
        fresh = Path(temporary) / "stubs"
        stubs.generate(fresh)
        if check:
            stale = differences(fresh, stubs.folder)
            if stale:
                print(f"{stubs.language} stubs are not current: {', '.join(stale)}; run: make stubs", file=sys.stderr)
            return not stale
        shutil.rmtree(stubs.folder, ignore_errors=True)
        shutil.copytree(fresh, stubs.folder)
    return True


def main() -> int:
    """Generates or checks the stubs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with code 1 if the committed stubs are stale")
    check: bool = parser.parse_args().check
    results = [run(stubs, check=check) for stubs in ALL]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
