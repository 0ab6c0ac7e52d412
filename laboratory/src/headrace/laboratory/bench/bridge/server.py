"""A PostgreSQL server of its own, whose log is a logical one, with a table of rows to capture."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from headrace.laboratory.bench.bridge.programs import ProgramsMissing
from headrace.laboratory.bench.rig import end, wait_for

TABLE = "public.bulk"
_USER = "postgres"
_STARTS_S = 120.0
_COLUMNS = "id bigint PRIMARY KEY, name text NOT NULL, amount int NOT NULL, at timestamptz NOT NULL DEFAULT now()"
_TRANSACTION = 1_000


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int

    @contextmanager
    def connection(self) -> Iterator["psycopg.Connection[Any]"]:
        """Connects; each statement is a transaction."""
        address = f"host=127.0.0.1 port={self.port} user={_USER} dbname={_USER}"
        with psycopg.connect(address, autocommit=True) as connection:
            yield connection

    def make_table(self) -> None:
        """Makes the table anew, without rows."""
        with self.connection() as db:
            db.execute(f"DROP TABLE IF EXISTS {TABLE}")
            db.execute(f"CREATE TABLE {TABLE} ({_COLUMNS})")

    def insert(self, rows: int, text_bytes: int = 60) -> None:
        """Inserts rows with a text of about this size, in transactions of 1,000 rows."""
        with self.connection() as db:
            for first in range(1, rows + 1, _TRANSACTION):
                last = min(rows, first + _TRANSACTION - 1)
                db.execute(
                    f"INSERT INTO {TABLE} SELECT n, 'row ' || n || repeat('x', %s::int), n %% 100"
                    " FROM generate_series(%s::bigint, %s) n",
                    [text_bytes, first, last],
                )

    def make_slot(self, name: str) -> None:
        """Makes a slot, after whose making all changes are kept, and a publication of the table with its name."""
        with self.connection() as db:
            db.execute(f"CREATE PUBLICATION {name} FOR TABLE {TABLE}")
            db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

    def drop_slot(self, name: str) -> None:
        """Drops the slot and the publication, once nobody uses them."""
        with self.connection() as db:
            used = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
            wait_for("the slot to be free", lambda: db.execute(used, [name]).fetchone() is None, _STARTS_S)
            db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [name])
            db.execute(f"DROP PUBLICATION IF EXISTS {name}")


@contextmanager
def server() -> Iterator[Server]:
    """Runs a server in a temporary folder, without a password, on this machine only.

    Raises:
        ProgramsMissing: PostgreSQL is not installed.
    """
    programs, user = _programs(), _user()
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        folder = Path(name)
        if user:
            # Its user must reach the folder.
            folder.parent.chmod(0o711)
            shutil.chown(folder, user)
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"] if user else []
        data, log = folder / "data", folder / "log"
        initdb = [*as_user, str(programs / "initdb"), f"--pgdata={data}", "--auth=trust", f"--username={_USER}", "--no-sync"]
        subprocess.run([*initdb, "--encoding=UTF8", "--locale=C.UTF-8"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_wal_size": "4GB",
        }
        command = [
            *as_user,
            str(programs / "postgres"),
            "-D",
            str(data),
            *(f"--{key}={value}" for key, value in settings.items()),
        ]
        with log.open("w") as output:
            process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        try:
            made = Server(port)
            wait_for("PostgreSQL to answer", lambda: _answers(made, process, log), _STARTS_S)
            yield made
        finally:
            end(process)


def _answers(made: Server, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"PostgreSQL has ended with {process.returncode}: {log.read_text()}")
    try:
        with made.connection():
            return True
    except psycopg.OperationalError:
        return False


def _user() -> str | None:
    """The user of the server, which refuses to run as root; Debian's package creates it."""
    return _USER if os.geteuid() == 0 else None


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    in_path = shutil.which("postgres")
    if not found and in_path is None:
        raise ProgramsMissing("PostgreSQL is not installed; on Debian, run: apt-get install postgresql")
    return found[-1].parent if found else Path(in_path or "").resolve().parent
