"""The names of files in tables: who has written a file for which micro-batch, as readers and the next driver find out."""

import re
import uuid
from dataclasses import dataclass

from headrace.engine.sink.writer import Task

BATCH_FOLDER = "micro_batch="
"""How the name of a micro-batch's folder begins."""
_FILE = re.compile(r"headrace-([0-9a-f]{1,32})-(\d+)-(\d+)-(\d+)-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a file.

    Attributes:
        query: The query, in hexadecimal digits.
        batch: The micro-batch.
        run: The number of the run.
    """

    query: str
    batch: int
    run: int


def digits_of(query: str) -> str:
    """Spark's id of a query, without dashes."""
    return query.replace("-", "")


def new_name(task: Task) -> str:
    """The name of a new file: each attempt has files of its own, so that a repeated or late one cannot damage another's."""
    return f"headrace-{digits_of(task.query_id)}-{task.batch}-{task.run_number}-{task.partition}-{uuid.uuid4().hex}.parquet"


def writer_of(name: str) -> Writer | None:
    """The writer of a file; None if it is foreign."""
    found = _FILE.fullmatch(name)
    return None if found is None else Writer(found[1], int(found[2]), int(found[3]))


def folder_of(query: str, batch: int) -> str:
    """The folder that readers find the files of a micro-batch in, in a table without a log."""
    return f"{BATCH_FOLDER}{batch:012d}-{digits_of(query)}"
