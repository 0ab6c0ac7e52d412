"""The programs that are measured: `numbers` in each language, built from the sources of a checkout into its `.build`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.contract.errors import HeadraceError
from headrace.contract.languages import LANGUAGES
from headrace.laboratory.bench.parts import Say

PYTHON = (sys.executable, "-m", "headrace.laboratory.bench.sdks.numbers")
_ROOT = Path(__file__).parents[6]
_BUILD = _ROOT / ".build"


class ProgramsMissing(HeadraceError):
    """There are no programs to measure; the message says what to do."""


def build(languages: Sequence[str], say: Say) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Builds the programs of languages. Returns their commands by language, and why languages were left out.

    A language whose tools are not installed is left out.

    Raises:
        ProgramsMissing: This is no checkout, a build failed, or, with CI=true, a language would be left out.
    """
    commands, left_out = {}, {}
    for name in languages:
        language = LANGUAGES[name]
        if not (_ROOT / "sdk" / name).is_dir():
            raise ProgramsMissing(f"sdk/{name} is not here: this benchmark builds its programs, so run it in a checkout")
        missing = [tool for tool in language.tools if shutil.which(tool) is None]
        if missing:
            left_out[name] = f"{' and '.join(missing)} not found on PATH: install {language.needs}"
            say(f"{name} is left out: {left_out[name]}")
            if os.environ.get("CI") == "true":
                raise ProgramsMissing(left_out[name])
            continue
        say(f"building the program for {name} ...")
        commands[name] = _BUILDS[name]()
    return commands, left_out


def _go() -> list[str]:
    program = _BUILD / "go" / "numbers"
    _run(["go", "build", "-o", str(program), "./benchmarks/numbers"], "go", {"GOCACHE": str(_BUILD / "go" / "cache")})
    return [str(program)]


def _rust() -> list[str]:
    target = _BUILD / "rust" / "target"
    _run(["cargo", "build", "--release", "--example", "numbers"], "rust", {"CARGO_TARGET_DIR": str(target)})
    return [str(target / "release" / "examples" / "numbers")]


def _java() -> list[str]:
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", f"-Dmaven.repo.local={_BUILD / 'm2'}"]
    skipped = ["-DskipTests", "-Dmaven.javadoc.skip", "-Dspotless.check.skip"]
    _run([*maven, *skipped, "package", "-pl", "benchmarks", "-am"], "java", {})
    target = _ROOT / "sdk" / "java" / "benchmarks" / "target"
    # Without a bound, the heap grows with the machine's memory before anything is collected.
    return ["java", "-Xmx128m", "-cp", f"{target}/*:{target}/lib/*", "io.headrace.benchmarks.Numbers"]


def _typescript() -> list[str]:
    sdk, cache = _ROOT / "sdk" / "typescript", {"npm_config_cache": str(_BUILD / "typescript" / "npm")}
    # Installing takes long, so it is done again only if what to install has changed.
    lock, installed = sdk / "package-lock.json", sdk / "node_modules" / ".headrace-lock"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        _run(["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"], "typescript", cache)
        shutil.copyfile(lock, installed)
    _run(["npx", "tsc", "--build"], "typescript", cache)
    return ["node", str(sdk / "dist" / "benchmarks" / "numbers.js")]


def _run(command: Sequence[str], language: str, environ: Mapping[str, str]) -> None:
    """Runs a build in the SDK of a language; its output goes to standard error."""
    done = subprocess.run(command, cwd=_ROOT / "sdk" / language, env={**os.environ, **environ}, stdout=sys.stderr, check=False)
    if done.returncode:
        raise ProgramsMissing(f"in sdk/{language}, {' '.join(command[:2])} ended with {done.returncode}; its output is above")


_BUILDS: Mapping[str, Callable[[], list[str]]] = {"go": _go, "typescript": _typescript, "java": _java, "rust": _rust}
"""Builds the program of a language, and returns its command."""
