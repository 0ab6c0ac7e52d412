"""What runs on the one node of YARN: its applications, and the JVMs of their containers."""

import json
import urllib.request
from contextlib import suppress
from typing import Any

import psutil
from scripts.brokers import Yarn

EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
LAUNCHER = "org.apache.spark.deploy.yarn.ExecutorLauncher"
"""The application master of a driver that runs elsewhere."""
MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
"""The application master in which the driver runs."""
_ANSWER_S = 60.0


class Submitted:
    """An application that was submitted last.

    Attributes:
        id: Its id.
    """

    def __init__(self, yarn: Yarn, known: set[str]) -> None:
        """Finds it: the one that is not among the `known` ones.

        Raises:
            LookupError: There is none yet.
        """
        self._yarn = yarn
        new = applications(yarn) - known
        if not new:
            raise LookupError("no application was submitted")
        (self.id,) = new

    def containers(self, main: str) -> list[int]:
        """The JVMs of its containers that have this main class, by process id."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                # The shell that has started a JVM has all of its words in one.
                if main in words and any(self.id in word for word in words):
                    found.append(process.pid)
        return found

    def environments(self) -> list[str]:
        """The environments in the folders of its containers that have a Python."""
        folders = (self._yarn.folder / "local" / "usercache").glob(f"*/appcache/{self.id}/container_*")
        return [folder.name for folder in folders if (folder / "environment" / "bin" / "python").exists()]

    @property
    def attempts(self) -> int:
        """How often its application master was started."""
        return len(_get(self._yarn, f"apps/{self.id}/appattempts")["appAttempts"]["appAttempt"])

    @property
    def state(self) -> str:
        """RUNNING, FINISHED, FAILED, KILLED or one of the states before them."""
        return str(_get(self._yarn, f"apps/{self.id}/state")["state"])

    def end(self) -> None:
        """Has YARN end it."""
        request = urllib.request.Request(
            f"{self._yarn.url}/ws/v1/cluster/apps/{self.id}/state",
            data=json.dumps({"state": "KILLED"}).encode(),
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        urllib.request.urlopen(request, timeout=_ANSWER_S).close()

    def logs(self) -> str:
        """The ends of what its containers have printed."""
        files = sorted((self._yarn.container_logs / self.id).glob("*/std*"))
        return "\n".join(f"=== {file}\n{file.read_text(errors='replace')[-2000:]}" for file in files)


def applications(yarn: Yarn) -> set[str]:
    """The ids of all applications that were submitted."""
    listed = _get(yarn, "apps")["apps"] or {"app": []}
    return {application["id"] for application in listed["app"]}


def _get(yarn: Yarn, what: str) -> Any:
    with urllib.request.urlopen(f"{yarn.url}/ws/v1/cluster/{what}", timeout=_ANSWER_S) as answer:
        return json.load(answer)
