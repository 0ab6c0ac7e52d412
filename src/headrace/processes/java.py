"""Finds the Java that Spark runs on."""

import os
import re
import shutil
import subprocess

from headrace.contract.errors import HeadraceError

_OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HINTS = (
    ("apt-get", f"sudo apt-get install -y openjdk-{_OLDEST}-jre-headless"),
    ("dnf", f"sudo dnf install -y java-{_OLDEST}-openjdk-headless"),
    ("brew", f"brew install openjdk@{_OLDEST}"),
)


class JavaMissing(HeadraceError):
    """This machine has no Java that Spark runs on; the message names the command that installs one."""


def require_java() -> None:
    """Checks that Spark can start.

    Raises:
        JavaMissing: There is no Java, or it is too old or does not start.
    """
    version, where = find_java()
    if version is None or version < _OLDEST:
        found = "none" if version is None else str(version)
        raise JavaMissing(f"Spark needs Java {_OLDEST} or newer, found {found} in {where}; {_hint()}")


def find_java() -> tuple[int | None, str]:
    """Returns the version of the Java that Spark runs on, None if there is none, and where it was looked for.

    Raises:
        JavaMissing: There is one, but it does not start.
    """
    home = os.environ.get("JAVA_HOME")
    version = _version(os.path.join(home, "bin", "java") if home else "java")
    return version, f"JAVA_HOME ({home})" if home else "PATH"


def _version(java: str) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = (done.stderr + done.stdout).strip()
    match = _VERSION.search(said)
    if done.returncode and not match:
        causes = [line for line in said.splitlines() if not line.startswith("NOTE:")]
        raise JavaMissing(f"{java} does not start: {causes[0] if causes else f'exit code {done.returncode}'}")
    return int(match.group(1)) if match else None


def _hint() -> str:
    for program, command in _HINTS:
        if shutil.which(program):
            return f"run: {command}"
    return f"install OpenJDK {_OLDEST}"
