"""Installs what `make dist` has built where nothing of a checkout is, and uses it as a new user would: `make dist-trial`.

What Headrace needs of others comes from the indexes that the tools of this machine use; Headrace itself from `dist/` only. Each
step prints its time; the first one that fails ends the trial, with what it printed.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scripts.dist.parts import GO_MODULE
from scripts.set_version import present
from tests.scaffold.projects import ROOT, ci_script

from headrace.contract.languages import LANGUAGES

_SETTINGS = """
<settings>
  <profiles>
    <profile>
      <id>dist</id>
      <repositories><repository><id>dist</id><url>{url}</url></repository></repositories>
    </profile>
  </profiles>
  <activeProfiles><activeProfile>dist</activeProfile></activeProfiles>
</settings>
"""


class Trial:
    """An empty folder with an environment of Python, which has nothing of this checkout.

    Attributes:
        dist: The folder of the packages.
        folder: The folder.
    """

    def __init__(self, dist: Path, folder: Path) -> None:
        """Creates the environment; it is empty."""
        self.dist = dist
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of all commands: each tool finds what was built in the way that it offers."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "PYTHON", "VIRTUAL_"))
        }
        proxies = subprocess.run(["go", "env", "GOPROXY"], capture_output=True, text=True, check=True).stdout.strip()
        return {
            **inherited,
            "PATH": f"{self.folder / 'env' / 'bin'}:{inherited['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_FIND_LINKS": str(self.dist / "python"),
            "PIP_PROGRESS_BAR": "off",
            "GOPROXY": f"{(self.dist / 'go').as_uri()},{proxies}",
            "GONOSUMDB": GO_MODULE,
            "GOMODCACHE": str(self.folder / "modules"),
            "GOFLAGS": "-modcacherw",
        }

    def run(self, script: str, folder: Path | None = None) -> str:
        """Runs commands in a shell, which ends at the first one that fails; returns what they print.

        Raises:
            SystemExit: One has failed.
        """
        options = f"--batch-mode --quiet --settings '{self.folder}/settings.xml' '-Dmaven.repo.local={self.folder}/m2'"
        command = ["bash", "-euo", "pipefail", "-c", f'mvn() {{ command mvn {options} "$@"; }}\n{script}']
        done = subprocess.run(
            command,
            cwd=folder or self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{script}\nexit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def create(self, kind: str, name: str, *language: str) -> Path:
        """Has the installed `headrace new` create a project; returns its folder."""
        self.run(shlex.join(["headrace", "new", kind, *language, name]))
        return self.folder / name

    def prepare_registries(self) -> None:
        """Lets Maven and Cargo take from `dist` what no registry has yet. The project of a user contains none of this."""
        (self.folder / "settings.xml").write_text(_SETTINGS.format(url=(self.dist / "maven").as_uri()))
        (crate,) = (self.dist / "cargo").glob("*.crate")
        with tarfile.open(crate) as archive:
            archive.extractall(self.folder / "crates", filter="data")
        (self.folder / ".cargo").mkdir()
        unpacked = self.folder / "crates" / crate.stem
        (self.folder / ".cargo" / "config.toml").write_text(f'[patch.crates-io]\nheadrace.path = "{unpacked}"\n')


@contextmanager
def step(does: str) -> Iterator[None]:
    """Prints what a step does, and how long it took."""
    print(f"{does} ...", end="", flush=True)
    began = time.monotonic()
    yield
    print(f" {time.monotonic() - began:.0f} s", flush=True)


def try_all(trial: Trial, languages: list[str]) -> None:
    """Does one thing after the other."""
    version = present(ROOT)
    with step("pip install headrace"):
        trial.run(f"pip install --quiet 'headrace[conformance,laboratory]=={version}'")
        origin = trial.run("python -c 'import headrace.cli; print(headrace.cli.__file__)'").strip()
        if not Path(origin).is_relative_to(trial.folder):
            raise SystemExit(f"{origin} is not what was installed")
    with step("headrace demo"):
        trial.run("headrace demo")
    with step("an application: headrace new app, its CI"):
        app = trial.create("app", "my-words")
        trial.run(f"{ci_script(app)}\nheadrace run app.py --dry-run", app)
    trial.prepare_registries()
    for language in languages:
        with step(f"a connector in {LANGUAGES[language].title}: headrace new source, its CI"):
            folder = trial.create("source", f"{language}-lines", "--lang", language)
            before = {"go": "go mod tidy\n", "typescript": f"npm install --no-audit {trial.dist}/npm/*.tgz\n"}
            trial.run(before.get(language, "") + ci_script(folder), folder)
            manifests = "" if language == "python" else f"HEADRACE_CONNECTORS={shlex.quote(str(trial.folder))} "
            trial.run(f"{manifests}headrace connector describe {folder.name}")


def main(arguments: list[str] | None = None) -> None:
    """Runs the trial."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="of the connectors; all without any")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", metavar="FOLDER", help="what was built; default: dist")
    options = parser.parse_args(arguments)
    if unknown := set(options.languages) - set(LANGUAGES):
        parser.error(f"no language {', '.join(sorted(unknown))}; there are {', '.join(LANGUAGES)}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-trial-") as folder:
        try_all(Trial(options.dist.resolve(), Path(folder)), options.languages or list(LANGUAGES))
    print(f"all of it works without a checkout: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
