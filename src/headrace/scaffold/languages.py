"""What each language demands of the names, the SDK and the first commands of a project."""

import keyword
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.contract.languages import LANGUAGES, Language
from headrace.scaffold.names import InvalidName, NotAnSdk, joined, snake_case

_JAVA = (
    "abstract assert boolean break byte case catch char class const continue default do double else enum extends false final "
    "finally float for goto if implements import instanceof int interface long native new null package private protected "
    "public return short static strictfp super switch synchronized this throw throws transient true try void volatile "
    "while"
)
_RUST = (
    "abstract alloc as async await become box break const continue core crate do dyn else enum extern false final fn for gen "
    "if impl in let loop macro match mod move mut override priv proc pub ref return self static std struct super test trait "
    "true try type typeof union unsafe unsized use virtual where while yield"
)
_RUST_CRATES = "async-stream futures-util headrace serde serde-json sha2 tempfile tokio"
_PYTHON_PACKAGES = "headrace mypy pydantic pytest ruff src tests"


@dataclass(frozen=True, slots=True)
class Scaffold:
    """How projects in a language are created.

    Attributes:
        language: The language.
        reserved: Names that the last part of a package must not bear, in the form that `package` returns.
        package: Derives the name of the package from the name of the project.
        marker: A file of the SDK, and a text in it, by which the SDK is recognised.
        build: The commands that build a new project, in its folder.
        command: The command of its manifest, as TOML without the brackets; empty if it needs no manifest. `{folder}` is for the
            manifest; `{name}` and `{package}` are the project's.
    """

    language: Language
    reserved: frozenset[str]
    package: Callable[[str], str]
    marker: tuple[str, str]
    build: tuple[str, ...]
    command: str

    def package_of(self, name: str) -> str:
        """Returns the name of the package of a project.

        Raises:
            InvalidName: The language or the project needs the name itself.
        """
        package = self.package(name)
        if package in self.reserved:
            raise InvalidName(
                f"the name {name} is not valid: its package would be {package}, which {self.language.title} or the project "
                "itself uses already; choose another name"
            )
        return package

    def sdk(self, path: Path) -> Path:
        """Returns the absolute path of an SDK in a checkout of Headrace.

        Raises:
            NotAnSdk: It is something else.
        """
        file, text = self.marker
        try:
            found = text in (path / file).read_text()
        except (OSError, UnicodeDecodeError):
            found = False
        if not found:
            raise NotAnSdk(
                f"{path} is not the SDK for {self.language.title}: it has no {file} with {text}; give the folder "
                f"sdk/{self.language.name} of a checkout of Headrace"
            )
        return path.resolve()


SCAFFOLDS = {
    scaffold.language.name: scaffold
    for scaffold in (
        Scaffold(
            LANGUAGES["python"],
            frozenset((*_PYTHON_PACKAGES.split(), *sys.stdlib_module_names, *keyword.kwlist)),
            snake_case,
            ("pyproject.toml", 'name = "headrace-sdk"'),
            ("pip install -e '.[dev]'",),
            "",
        ),
        Scaffold(
            LANGUAGES["go"],
            frozenset(),
            str,
            ("go.mod", "module github.com/headrace/headrace/sdk/go"),
            ("go mod tidy", "go build -o connector ."),
            '"{folder}/connector"',
        ),
        Scaffold(
            LANGUAGES["typescript"],
            frozenset(),
            str,
            ("package.json", '"name": "@headrace/sdk"'),
            ("npm install", "npm run build"),
            '"node", "{folder}/dist/src/main.js"',
        ),
        Scaffold(
            LANGUAGES["java"],
            frozenset(_JAVA.split()),
            joined,
            ("pom.xml", "<artifactId>headrace-java</artifactId>"),
            ("mvn package",),
            '"java", "-cp", "{folder}/target/connector.jar:{folder}/target/lib/*", "com.example.{package}.Main"',
        ),
        Scaffold(
            LANGUAGES["rust"],
            frozenset((*_RUST.split(), *_RUST_CRATES.split())),
            str,
            ("Cargo.toml", 'name = "headrace"'),
            ("cargo build --release",),
            '"{folder}/target/release/{name}"',
        ),
    )
}
