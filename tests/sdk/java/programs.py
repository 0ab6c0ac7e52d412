"""Programs in Java, which start quickly: tests start many of them."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.gateway.processes import gateway_process

_DEADLINE_S = 150.0
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""Flags for what is over before the optimising compiler and a parallel collector pay off."""
QUICK = (*QUICK_START, "-Xmx64m")
"""Flags for a quick start and a small heap."""


@dataclass(frozen=True)
class Programs:
    """Classes of a package, and what runs them."""

    java: str
    classes: str
    package: str
    flags: tuple[str, ...] = QUICK

    def command(self, name: str, *arguments: str | Path) -> list[str]:
        """The command that runs a class."""
        return [self.java, *self.flags, "-cp", self.classes, f"{self.package}.{name}", *map(str, arguments)]


def archived(programs: Programs, folder: Path, name: str, *arguments: str | Path, **environ: str) -> Programs:
    """The same programs with an archive of the classes that one of them loads for a session, which halves the time of a start.

    Java continues without the archive where it cannot use it.

    Args:
        programs: Them.
        folder: Where the archive will be.
        name: The class of the one that runs.
        arguments: Its arguments.
        environ: The variables that it needs in its environment.
    """
    archive, log = folder / "classes.jsa", folder / "log"
    making = replace(programs, flags=(*programs.flags, f"-XX:ArchiveClassesAtExit={archive}"))
    with gateway_process() as gateway, log.open("wb") as out:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        variables = {**inherited, **environ, "HEADRACE_GATEWAY": gateway.address}
        process = subprocess.Popen(making.command(name, *arguments), stdout=out, stderr=out, env=variables)
        try:
            deadline = time.monotonic() + _DEADLINE_S
            while "connected to gateway" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            assert process.wait(_DEADLINE_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
    return replace(programs, flags=(*programs.flags, f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"))
