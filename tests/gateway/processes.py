"""`headrace gateway` and its like as processes of their own."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 150.0


@dataclass
class GatewayProcess:
    """A gateway that listens."""

    process: subprocess.Popen[bytes]
    address: str
    log_file: Path

    @property
    def log(self) -> str:
        """Everything that it has logged."""
        return self.log_file.read_text()

    def wait_for_log(self, text: str) -> None:
        """Waits until it has logged something."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.log:
            assert time.monotonic() < deadline, f"never logged {text!r}: {self.log}"
            time.sleep(0.01)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(DEADLINE_S)


def headrace(*arguments: str | Path, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(_command(*arguments), env=_environ(environ), capture_output=True, text=True, timeout=300, check=False)


@contextmanager
def gateway_process(
    *arguments: str | Path, environ: Mapping[str, str] | None = None, descriptors: int | None = None
) -> Iterator[GatewayProcess]:
    """A gateway on a free port of 127.0.0.1, unless the arguments say otherwise.

    Args:
        arguments: What follows `headrace gateway`.
        environ: Further variables of its environment.
        descriptors: How many descriptors the system permits it; None for as many as this process may have.
    """
    with tempfile.TemporaryDirectory() as folder:
        ready, log = Path(folder, "address"), Path(folder, "log")
        listening = ("--listen", "127.0.0.1:0", "--ready-file", ready)
        with log.open("wb") as out:
            command = _command("gateway", *listening, *arguments)
            if descriptors is not None:
                command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
            process = subprocess.Popen(command, env=_environ(environ), stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not ready.exists():
                assert process.poll() is None, f"the gateway ended with {process.returncode}: {log.read_text()}"
                assert time.monotonic() < deadline, f"the gateway never listened: {log.read_text()}"
                time.sleep(0.01)
            yield GatewayProcess(process, ready.read_text().strip(), log)
        finally:
            process.kill()
            process.wait()


def _command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "headrace.cli", *map(str, arguments)]


def _environ(more: Mapping[str, str] | None) -> dict[str, str]:
    """This process's environment without what would configure headrace."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return {**plain, **(more or {})}
