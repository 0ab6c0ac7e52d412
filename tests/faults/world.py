"""An application that reads two sources, with every process that it needs, each of which can be killed."""

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from tests.faults.processes import Process
from tests.faults.rig import Rig
from tests.faults.sources import Dated, Numbers

PARTITIONS = ("0", "1")
MODES = {
    "micro-batches": ["--option", "maxMessagesPerTrigger=100"],
    "real-time": ["--real-time", "--trigger-interval", "300ms", "--real-time-workers", "2"],
}


class World:
    """A gateway, two sources, a sink and a driver, each of which can be killed."""

    def __init__(self, folder: Path, application: str, mode: str) -> None:
        self.rig = Rig(folder)
        self.output, self.program, self.checkpoint = folder / "output", folder / "meetings.py", folder / "checkpoint"
        self.program.write_text(application)
        made = (Numbers(self.rig.source_folder("numbers")), Dated(self.rig.source_folder("dated")))
        self.sources: dict[str, Numbers] = {source.name: source for source in made}
        command = ["-m", "headrace.cli", "run", str(self.program), "--checkpoint", str(self.checkpoint), "--finish"]
        command += ["--gateway", self.rig.gateway.address, "--master", "local[2]", "--parallelism", "3", *MODES[mode]]
        driver = Process("driver", command, folder)
        self.rig.processes.append(driver)
        self._connectors = {name: self.rig.connector(name) for name in self.sources}
        self.processes = [self.rig.gateway, *self._connectors.values(), self.rig.file_sink("out", self.output), driver]

    def start(self, *, without: Collection[str] = ()) -> None:
        """Starts everything, but for the connectors of some sources."""
        absent = [self._connectors[name] for name in without]
        for process in self.processes:
            if process not in absent:
                process.start()

    def kill(self) -> None:
        """Kills everything that runs."""
        for process in reversed(self.processes):
            if process.alive:
                process.kill()

    def offer(self, last: int, *, ends: bool) -> None:
        for connector in self._connectors.values():
            # It ends with its last stream.
            connector.expected = not ends
        for source in self.sources.values():
            for partition in PARTITIONS:
                source.offer(partition, last)
                if ends:
                    source.end(partition)

    def lines(self) -> Counter[str]:
        return Counter(line for path in self.output.glob("*.lines") for line in path.read_text().splitlines())
