"""An application that reads two sources, with every process that it needs, each of which can be killed."""

from collections import Counter
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
        self._sources = [Numbers(self.rig.source_folder("numbers")), Dated(self.rig.source_folder("dated"))]
        command = ["-m", "headrace.cli", "run", str(self.program), "--checkpoint", str(self.checkpoint), "--finish"]
        command += ["--gateway", self.rig.gateway.address, "--master", "local[2]", "--parallelism", "3", *MODES[mode]]
        driver = Process("driver", command, folder)
        self.rig.processes.append(driver)
        self._connectors = [self.rig.connector(source.name) for source in self._sources]
        self.processes = [self.rig.gateway, *self._connectors, self.rig.file_sink("out", self.output), driver]

    def start(self) -> None:
        for process in self.processes:
            process.start()

    def kill(self) -> None:
        for process in reversed(self.processes):
            process.kill()

    def offer(self, last: int, *, ends: bool) -> None:
        for connector in self._connectors:
            # It ends with its last stream.
            connector.expected = not ends
        for source in self._sources:
            for partition in PARTITIONS:
                source.offer(partition, last)
                if ends:
                    source.end(partition)

    def lines(self) -> Counter[str]:
        return Counter(line for path in self.output.glob("*.lines") for line in path.read_text().splitlines())
