"""One temporary folder for each test session, which is gone at its end with all processes that belong to it.

Everything that a test starts keeps its temporary files there, Spark's JVMs too, and `tmp_path` is in it. SIGTERM ends a session
as Ctrl-C does. The next session removes the rest of a session that was killed.
"""

import os
import signal
import tempfile
from collections.abc import Iterator
from types import FrameType

import pytest

from headrace.processes import Scratch

_scratch = pytest.StashKey[Scratch]()


_received: list[int] = []
"""The signals that have ended the session."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    scratch = config.stash[_scratch] = Scratch("tests")
    # PostgreSQL runs as a user of its own where this is root.
    scratch.path.chmod(0o711)
    java = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={scratch.path}"
    os.environ |= {"TMPDIR": str(scratch.path), "SPARK_LOCAL_DIRS": str(scratch.path), "SPARK_SUBMIT_OPTS": java.strip()}
    # No test calls the gateway that whoever runs the tests uses.
    os.environ["HEADRACE_CONTEXTS"] = str(scratch.path / "contexts.toml")
    os.environ.pop("HEADRACE_CONTEXT", None)
    tempfile.tempdir = None
    # Directly below, since tests have sockets in `tmp_path`, whose paths must be short.
    config.option.basetemp = config.option.basetemp or str(scratch.path / "t")
    signal.signal(signal.SIGTERM, _terminate)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """From here on, what was started is ended; another signal must not keep that from happening."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Where a test has taken the interrupt for an error of its own, the session ends all the same."""
    if _received:
        raise KeyboardInterrupt


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    yield
    if signal.SIGTERM in _received:
        session.exitstatus = 128 + signal.SIGTERM


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_scratch].remove()


def _terminate(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt
