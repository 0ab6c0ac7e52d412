"""The progress of a long run of schedules, in a file, so that a run that was stopped continues."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.simulation.simulating import Result

SAVE_EVERY = 100


class Progress:
    """The sums of all schedules of a run, and the seeds that failed."""

    def __init__(self, which: Mapping[str, Any], file: Path | None) -> None:
        """Begins a run, or continues the one in the file.

        Args:
            which: What decides which schedules run: only a run of the same continues.
            file: Where to keep it; None for nowhere.

        Raises:
            ValueError: The file is of other schedules.
        """
        self._file = file
        self._which = dict(which)
        self.counts = Counter[str]()
        """Among them `schedules`, of which each has the next seed."""
        self.seconds = {"virtual": 0.0, "processor": 0.0}
        self.failed: list[str] = []
        if file is not None and file.exists():
            stored = json.loads(file.read_text())
            if stored["which"] != self._which:
                raise ValueError(f"{file} is of {stored['which']}, and not of {self._which}: name another file")
            self.counts.update(stored["counts"])
            self.seconds.update(stored["seconds"])
            self.failed += stored["failed"]

    def add(self, result: Result) -> None:
        """Adds a schedule that has run."""
        self.counts.update(result.counts)
        self.counts.update(schedules=1, callbacks=result.callbacks)
        self.seconds["virtual"] += result.virtual_s
        self.seconds["processor"] += result.cpu_s
        if result.violations:
            self.failed.append(result.schedule.seed)
        if self.counts["schedules"] % SAVE_EVERY == 0:
            self.save()

    def save(self) -> None:
        """Writes the file; a run that is killed meanwhile leaves the one before."""
        if self._file is not None:
            document = {"which": self._which, "counts": self.counts, "seconds": self.seconds, "failed": self.failed}
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(document, indent=1) + "\n")
            os.replace(new, self._file)
