"""Shared by the commands that start all of Headrace: demo, chaos, soak and bench."""

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from headrace.logs.output import is_verbose
from headrace.processes import scratch_folder
from headrace.terminal import EXIT_INVALID, Failure, print_line

if TYPE_CHECKING:
    from headrace.laboratory.errors import DemoError

keep_option = click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Work in this new folder and keep it: logs, checkpoints, results.",
)
_LOOKS_EVERY_S = 0.2


def end_at_sigterm() -> None:
    """Makes SIGTERM raise an exception in the program, so that it ends the processes that it started; exit code 143."""
    signal.signal(signal.SIGTERM, _terminate)


def say(text: str) -> None:
    """Shows progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def new_folder(keep: Path | None, command: str) -> Path:
    """Returns the folder of a run: the one that `--keep` names, or a new temporary one.

    Raises:
        Failure: The folder of `--keep` is not empty.
    """
    if keep is None:
        return Path(tempfile.mkdtemp(prefix=f"headrace-{command}-"))
    if keep.exists() and any(keep.iterdir()):
        raise Failure(f"{keep} is not empty: --keep needs a new folder, since a checkpoint belongs to one run", EXIT_INVALID)
    keep.mkdir(parents=True, exist_ok=True)
    return keep.absolute()


@contextmanager
def work_folder(keep: Path | None, command: str) -> Iterator[Path]:
    """Yields the folder of a run, and removes it when the block ends, unless `--keep` names it.

    Raises:
        Failure: The folder of `--keep` is not empty.
    """
    kept = nullcontext(new_folder(keep, command)) if keep is not None else scratch_folder(command)
    with kept as folder, shown_logs(folder):
        yield folder


@contextmanager
def shown_logs(folder: Path) -> Iterator[None]:
    """With --verbose, copies what is added to the logs in a folder to standard error, until the block ends."""
    if not is_verbose():
        yield
        return
    over = threading.Event()
    follower = threading.Thread(target=_follow, args=(folder, over), name="logs")
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()


def _follow(folder: Path, over: threading.Event) -> None:
    shown: dict[Path, int] = {}
    while True:
        # After the end, reads once more what was written last.
        is_over = over.wait(_LOOKS_EVERY_S)
        for log in sorted(folder.glob("*.log")):
            with log.open("rb") as file:
                file.seek(shown.get(log, 0))
                added = file.read()
            # An incomplete last line is read later.
            whole = len(added) if is_over else added.rfind(b"\n") + 1
            shown[log] = shown.get(log, 0) + whole
            for line in added[:whole].decode(errors="replace").splitlines():
                say(f"{log.stem}: {line}")
        if is_over:
            return


def report_stuck(error: "DemoError", as_json: bool) -> NoReturn:
    """Ends a command whose run did not finish.

    Raises:
        Failure: Always. The last lines of the log are printed before, or are in the result.
    """
    if not as_json:
        for line in error.log:
            print_line(f"  {line}", err=True)
    raise Failure(str(error), error.exit_code, summary="the run did not finish", result={"log": error.log}) from None


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)
