"""Projects as `headrace new` creates them, built and tested by the commands of their own CI file."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.generate_stubs import GO_ENVIRON as GO
from tests.absent import absent
from tests.sdk.java.programs import QUICK_START, Programs, archived
from tests.sdk.rust.conftest import ENVIRON as RUST

from headrace.contract.languages import LANGUAGES

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build"
PROGRAMS = Path(sys.executable).parent
PATHS = {"source": "lines.txt", "sink": "out"}

_BEFORE_CI = {"typescript": "npm install --no-save "}
"""How the command begins that a new project needs once."""
_SHELL = """
set -eu
# Nothing of Headrace is published: it is installed already.
pip() { :; }
# `npm install` was just done.
npm() { [ "$1" = ci ] || command npm "$@"; }
mvn() { command mvn --batch-mode --quiet "-Dmaven.repo.local=$MAVEN_REPOSITORY" "$@"; }
"""


@dataclass(frozen=True)
class Project:
    """A project that was created.

    Attributes:
        language: Its language.
        kind: `source`, `sink` or `app`.
        folder: Where it is.
        commands: The next commands, as the command has printed them.
    """

    language: str
    kind: str
    folder: Path
    commands: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its commands, with the caches of the SDKs' tests."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        return {
            **inherited,
            "PATH": f"{PROGRAMS}:{inherited['PATH']}",
            **RUST,
            **GO,
            "HEADRACE_CONNECTORS": str(self.folder.parent) if self.language != "python" else "",
            "JDK_JAVA_OPTIONS": " ".join(QUICK_START),
            "MAVEN_REPOSITORY": str(BUILD / "m2"),
            "MYPY_CACHE_DIR": str(BUILD / "scaffold" / "mypy"),
            "PYTHONPATH": str(self.site),
            "npm_config_cache": str(BUILD / "typescript" / "npm"),
            "npm_config_prefer_offline": "true",
        }

    @property
    def site(self) -> Path:
        """Where its package is installed, if it is one for Python."""
        return self.folder.parent / f"{self.name}-site"

    def shell(self, script: str, **environ: str) -> str:
        """Runs commands that must succeed in its folder, and returns what they print."""
        variables = self.environ | environ
        done = subprocess.run(
            ["bash", "-c", _SHELL + script], cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def checked_by_ci(self) -> str:
        """Prepares it as its user would, then runs all commands of its CI file, and returns what they print."""
        if self.language == "python":
            self.shell(f"uv pip install --quiet --no-deps --no-build-isolation --target {self.site} .")
        elif self.language == "rust":
            built = BUILD / "rust" / "target"
            built.mkdir(parents=True, exist_ok=True)
            (self.folder / "target").symlink_to(built)
        if (begin := _BEFORE_CI.get(self.language)) is not None:
            (command,) = (one for one in self.commands if one.startswith(begin))
            self.shell(command)
        script = ci_script(self.folder)
        if self.language != "java":
            return self.shell(script)
        build, kit = re.split(r"^(?=pip install)", script, flags=re.MULTILINE)
        return self.shell(build) + self.shell(kit, JDK_JAVA_OPTIONS=" ".join(self._quick_start()))

    def _quick_start(self) -> tuple[str, ...]:
        """The options with which its program in Java, which is built, starts quickly: the kit starts it often."""
        target = self.folder / "target"
        package = re.search(r"(com\.example\.\w+)\.Main", ci_script(self.folder))
        assert package is not None
        programs = Programs("java", f"{target}/connector.jar:{target}/lib/*", package[1])
        path = target / PATHS[self.kind]
        if self.kind == "source":
            path.touch()
        parameters = json.dumps({self.kind: self.name, "path": str(path)})
        return (*archived(programs, target, "Main", HEADRACE_PARAMETERS=parameters).flags, "-Xlog:cds*=off")


def create(kind: str, language: str, into: Path, name: str | None = None, sdk: Path | None = None) -> Project:
    """Has `headrace new` create a project with the SDK of this checkout."""
    sdk = sdk or ROOT / "sdk" / language
    name = name or f"{language}-{kind}"
    lang = () if kind == "app" else ("--lang", language)
    done = headrace("new", kind, *lang, name, "--into", str(into), "--sdk", str(sdk), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    created: dict[str, Any] = json.loads(done.stdout)["result"]
    assert sorted(created["files"]) == sorted(
        str(path.relative_to(created["folder"])) for path in Path(created["folder"]).rglob("*") if path.is_file()
    )
    return Project(language, kind, Path(created["folder"]), tuple(created["next"]))


def headrace(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line."""
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ci_script(folder: Path) -> str:
    """All commands of a project's CI file, in order."""
    text = (folder / ".github" / "workflows" / "ci.yml").read_text()
    one, block = r"run: (?!\|)(?P<one>.+)\n", r"run: \|\n(?P<block>(?:[ ]{10}.+\n)+)"
    found = [match["one"] or textwrap.dedent(match["block"]) for match in re.finditer(f"(?:{one})|(?:{block})", text)]
    assert len(found) == text.count("run: ")
    return "\n".join(found)


def require_tools(language: str) -> None:
    """Skips a test whose tools are missing; with CI=true it fails."""
    missing = [tool for tool in LANGUAGES[language].tools if shutil.which(tool) is None]
    if missing:
        text = f"{', '.join(missing)} not installed, which a new project in {language} needs"
        absent(text)
