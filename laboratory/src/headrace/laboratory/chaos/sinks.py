"""The batch-idempotent sink, a connector: `python -m headrace.laboratory.chaos.sinks FOLDER --gateway ADDRESS`."""

import argparse
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from headrace.laboratory.chaos.evidence import IDEMPOTENT, Layout
from headrace.sdk import IdempotentSink, Rows, Transaction, run


class Store(IdempotentSink):
    """Writes rows and the transaction's id in one database transaction."""

    name = IDEMPOTENT

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._connect()) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE IF NOT EXISTS batches (pipeline, batch INTEGER, PRIMARY KEY (pipeline, batch))")
            database.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, key BLOB, value BLOB)")

    def write(self, transaction: Transaction, rows: Iterator[Rows]) -> None:
        """Writes all rows, or nothing if the id already exists."""
        id_ = (transaction.pipeline, transaction.batch)
        with closing(self._connect()) as database, database:
            if database.execute("INSERT OR IGNORE INTO batches VALUES (?, ?)", id_).rowcount:
                messages = ((message.key, message.value) for some in rows for message in some.messages())
                database.executemany("INSERT INTO rows (key, value) VALUES (?, ?)", messages)

    def last(self, pipeline: str) -> int | None:
        """Returns the last batch that was written; None if there is none."""
        with closing(self._connect()) as database:
            found = database.execute("SELECT max(batch) FROM batches WHERE pipeline = ?", (pipeline,)).fetchone()[0]
        return None if found is None else int(found)

    def pipelines(self) -> Sequence[str]:
        """Returns every pipeline that has written."""
        with closing(self._connect()) as database:
            return [name for (name,) in database.execute("SELECT DISTINCT pipeline FROM batches")]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30)


def main() -> int:
    """Runs the sink, and returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--instance", default=IDEMPOTENT)
    arguments = parser.parse_args()
    return run(Store(Layout(arguments.folder).store), gateway=arguments.gateway, instance=arguments.instance)


if __name__ == "__main__":
    sys.exit(main())
