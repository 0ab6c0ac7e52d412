"""Is there a Java that Spark runs on?"""

import os
import re
import shutil
import subprocess

from headrace.demo._errors import EnvironmentLacks

_OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HINTS = (
    ("apt-get", f"sudo apt-get install -y openjdk-{_OLDEST}-jre-headless"),
    ("dnf", f"sudo dnf install -y java-{_OLDEST}-openjdk-headless"),
    ("brew", f"brew install openjdk@{_OLDEST}"),
)


def require_java() -> None:
    """Raises EnvironmentLacks where there is none, or too old a one, with the command that installs it."""
    home = os.environ.get("JAVA_HOME")
    version = _version(os.path.join(home, "bin", "java") if home else "java")
    if version is None or version < _OLDEST:
        found = "none" if version is None else str(version)
        where = f"JAVA_HOME ({home})" if home else "PATH"
        raise EnvironmentLacks(f"Spark needs Java {_OLDEST} or newer, found {found} in {where}; {_hint()}")


def _version(java: str) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = (done.stderr + done.stdout).strip()
    match = _VERSION.search(said)
    if done.returncode and not match:
        causes = [line for line in said.splitlines() if not line.startswith("NOTE:")]
        raise EnvironmentLacks(f"{java} does not start: {causes[0] if causes else f'exit code {done.returncode}'}")
    return int(match.group(1)) if match else None


def _hint() -> str:
    for program, command in _HINTS:
        if shutil.which(program):
            return f"run: {command}"
    return f"install OpenJDK {_OLDEST}"
