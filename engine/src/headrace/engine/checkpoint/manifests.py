"""Which files of a checkpoint are the states of its buckets: one manifest for each micro-batch.

The tasks of a micro-batch write files, each attempt its own, and report them to the driver. The driver names the valid ones in
a manifest, which it writes before Spark writes `commits/N`: the states after micro-batch N are valid if and only if `commits/N`
exists. A manifest is named `N.R`, after its micro-batch and the number of the run that wrote it. A micro-batch that was not
committed is repeated by a later run, whose number is higher, so that no manifest is ever replaced.
"""

import json
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.folder import Folder
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.pipelines.runtime import Metered

STATES = "headrace/states"
"""The folder of files and manifests in a checkpoint."""
MANIFESTS = f"{STATES}/manifests"
RESTORE = (
    "restore the file from a backup of the checkpoint, or set the query back to an earlier micro-batch (docs/run/positions.md)"
)
"""What to do about a damaged file."""
BY_COMMAND = 0
"""The number of the run in a manifest that a command writes for a new checkpoint."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The states of one bucket.

    Attributes:
        file: The file that its last micro-batch with messages has written.
        offset: Where in that file the description of the states begins, in bytes.
        bytes: The size of the description.
        needs: All files that contain parts of the states.
        checksum: The checksum of the description.
    """

    file: str
    offset: int
    bytes: int
    needs: tuple[str, ...]
    checksum: int


Bucket = tuple[int, int]
"""The number of shuffles before a stage, and the id of one of its buckets."""


@dataclass(frozen=True)
class Manifest:
    """The states of all buckets after a micro-batch.

    Attributes:
        entries: The states of each bucket.
        lakes: The files that the micro-batch has written to tables. Its driver shows them once it is committed.
        metered: The counters and histograms of the application, by step.
    """

    entries: Mapping[Bucket, Entry] = field(default_factory=dict)
    lakes: tuple[LakeBatch, ...] = ()
    metered: Mapping[str, Metered] = field(default_factory=dict)

    @property
    def files(self) -> frozenset[str]:
        """All files that contain parts of the states."""
        return frozenset(name for entry in self.entries.values() for name in entry.needs)

    def after(
        self,
        changed: Mapping[Bucket, Entry],
        lakes: tuple[LakeBatch, ...] = (),
        metered: Mapping[str, Metered] = MappingProxyType({}),
    ) -> "Manifest":
        """The manifest of the next micro-batch, which has changed some buckets, has written to lakes, and has counted."""
        return Manifest({**self.entries, **changed}, lakes, metered)

    def dumps(self, *, whole: bool = True) -> str:
        """The manifest as text; without `Entry.needs`, lakes and counters if it is not to be whole."""
        states = [
            [*bucket, entry.file, entry.offset, entry.bytes, list(entry.needs) if whole else [], entry.checksum]
            for bucket, entry in self.entries.items()
        ]
        document: Any = states
        if whole and (self.lakes or self.metered):
            document = {"states": states, "lakes": [each.to_json() for each in self.lakes]}
        if whole and self.metered:
            document["metered"] = {step: [each.bounds, each.series] for step, each in self.metered.items()}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> "Manifest":
        """The manifest of a text.

        Raises:
            ValueError: The text is not a manifest.
        """
        document = json.loads(text)
        states, lakes = (document["states"], document["lakes"]) if isinstance(document, dict) else (document, [])
        metered = document.get("metered", {}) if isinstance(document, dict) else {}
        return cls(
            {
                (int(level), int(bucket)): Entry(str(file), int(offset), int(size), tuple(needs), int(checksum))
                for level, bucket, file, offset, size, needs, checksum in states
            },
            tuple(map(LakeBatch.of_json, lakes)),
            {step: _metered(*each) for step, each in metered.items()},
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """The writer of a file of states.

    Attributes:
        batch: The micro-batch.
        run: The number of its run; None if a command has written the file.
    """

    batch: int
    run: int | None


def new_file(bucket: Bucket, batch: int, run: int | None) -> str:
    """The name of a new file: each attempt has a file of its own, so that one that is repeated or late cannot damage another."""
    origin = f"{batch}" if run is None else f"{batch}-{run}"
    return f"{bucket[0]}-{bucket[1]}-{origin}-{uuid.uuid4().hex}"


def origin_of(file: str) -> Origin | None:
    """The writer of a file; None if it is not a file of states."""
    *numbers, _ = file.split("-")
    if len(numbers) not in (3, 4) or not all(number.isdecimal() for number in numbers):
        return None
    return Origin(int(numbers[2]), int(numbers[3]) if len(numbers) == 4 else None)


class ManifestLog:
    """The manifests of one checkpoint."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read(self, batch: int, run: int | None = None) -> Manifest | None:
        """The manifest of a committed micro-batch; None if there is none.

        Args:
            batch: The micro-batch.
            run: The number of the run that has committed it, since others may have written a manifest, too; None for the last one
                that has.

        Raises:
            CheckpointError: The manifest cannot be read.
        """
        valid = self.valid_run(batch, run)
        return None if valid is None else self._read(batch, valid)

    def after(self, batch: int, run: int | None = None) -> Manifest:
        """The states after a micro-batch of an application, which is in the commit log. Arguments as of `read`.

        Raises:
            CheckpointError: There is no manifest, or it cannot be read.
        """
        found = self.read(batch, run)
        if found is None:
            raise CheckpointError(
                f"the checkpoint has no manifest of the states after micro-batch {batch}, which is in its commit log: restore "
                f"{MANIFESTS} from the same backup as the rest"
            )
        return found

    def valid_run(self, batch: int, run: int | None = None) -> int | None:
        """The run whose manifest of a committed micro-batch is valid; None if there is no manifest. Arguments as of `read`."""
        runs = [of for number, of in self._all() if number == batch]
        if not runs:
            return None
        return run if run is not None and run in runs else max(runs)

    def read_all(self) -> dict[tuple[int, int], Manifest]:
        """All manifests, by micro-batch and run.

        Raises:
            CheckpointError: A manifest cannot be read.
        """
        return {(batch, run): self._read(batch, run) for batch, run in self._all()}

    def newest_run(self) -> int:
        """The highest number of a run that has written a manifest; 0 if there is none."""
        return max((run for _, run in self._all()), default=0)

    def write(self, batch: int, run: int, manifest: Manifest) -> None:
        """Writes the manifest of a micro-batch, before it is committed.

        Raises:
            FileExistsError: The run has already written it.
        """
        text = manifest.dumps()
        self._folder.write(manifest_name(batch, run), f"{text}\n{_sum_of(text)}")

    def delete_before(self, batch: int) -> None:
        """Deletes the manifests of micro-batches before `batch`, which must be committed."""
        for number, run in self._all():
            if number < batch:
                self._folder.delete(manifest_name(number, run))

    def delete_incomplete(self, batch: int) -> None:
        """Deletes what drivers have left behind that died while they wrote the manifest of a micro-batch before `batch`."""
        for name in self._folder.names():
            hidden, *parts = name.split(".")
            if not hidden and len(parts) > 2 and parts[0].isdecimal() and parts[1].isdecimal() and int(parts[0]) < batch:
                self._folder.delete(name)

    def _read(self, batch: int, run: int) -> Manifest:
        name = manifest_name(batch, run)
        try:
            text, _, checksum = self._folder.read(name).partition("\n")
            if checksum != _sum_of(text):
                raise ValueError("its checksum is another one")
            return Manifest.loads(text)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{MANIFESTS}/{name} in the checkpoint is not a manifest of states ({error}); {RESTORE}"
            ) from None

    def _all(self) -> list[tuple[int, int]]:
        parts = (name.split(".") for name in self._folder.names())
        return [(int(part[0]), int(part[1])) for part in parts if len(part) == 2 and part[0].isdecimal() and part[1].isdecimal()]


def _metered(bounds: list[float] | None, series: dict[str, list[int]]) -> Metered:
    return Metered(
        None if bounds is None else tuple(map(float, bounds)),
        {value: tuple(map(int, numbers)) for value, numbers in series.items()},
    )


def manifest_name(batch: int, run: int) -> str:
    """The name of the manifest that a run writes for a micro-batch."""
    return f"{batch}.{run}"


def _sum_of(text: str) -> str:
    return f"crc32:{zlib.crc32(text.encode()):08x}"
