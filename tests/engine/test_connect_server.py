"""A Spark Connect server: it refuses some things before it starts Spark, and gives its sessions their settings."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.errors import StreamingQueryException

from headrace.contract.errors import HeadraceError
from headrace.engine.spark import connect_server as module


@pytest.fixture(autouse=True)
def nothing_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has no session yet, and must not get one."""

    def create(*arguments: object, **options: object) -> None:
        raise AssertionError("Spark must not be started")

    monkeypatch.setattr(module, "has_jvm", lambda: False)
    monkeypatch.setattr(module, "settings_before_jvm", dict)
    monkeypatch.setattr(module, "create_session", create)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "connect.example", "127.0.0.1.example.com"])
def test_whoever_reaches_it_runs_programs_so_other_hosts_need_a_token(host: str) -> None:
    with (
        pytest.raises(HeadraceError, match=r"could run programs as this user: set spark\.connect\.authenticate\.token"),
        module.connect_server(host, 15002, None, {}),
    ):
        pass


KILLED = """
import sys
from headrace.engine.spark import connect_server as module

def starts_spark(*arguments, **options):
    print("starting", flush=True)
    sys.stdin.read()

module.create_session = starts_spark
with module.connect_server("127.0.0.1", 0, None, {}):
    pass
"""


def test_the_folder_with_the_token_of_a_server_that_was_killed_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", KILLED], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"starting\n"
        (left,) = tmp_path.glob(f"{module.PREFIX}*")
        with pytest.raises(AssertionError, match="must not be started"), module.connect_server("127.0.0.1", 0, None, {}):
            pass
        assert list(tmp_path.iterdir()) == [left], "the folder of a server that runs stays, and the one of a failed start goes"
        server.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with pytest.raises(AssertionError, match="must not be started"), module.connect_server("127.0.0.1", 0, None, {}):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_a_session_serves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_jvm", lambda: True)
    with (
        pytest.raises(HeadraceError, match="this process already has a Spark session"),
        module.connect_server("127.0.0.1", 0, None, {}),
    ):
        pass


def test_settings_of_the_user_are_kept_beside_what_sessions_need(tmp_path: Path) -> None:
    own = {
        "spark.sql.streaming.streamingQueryListeners": "a.Listener",
        "spark.driver.extraClassPath": str(tmp_path),
        "spark.sql.streaming.checkpointFileManagerClass": "a.Manager",
    }
    found = module.session_settings(own)
    assert found["spark.sql.streaming.streamingQueryListeners"] == "a.Listener,headrace.engine.SessionQueries"
    assert found["spark.driver.extraClassPath"].startswith(f"{tmp_path}:")
    assert found["spark.sql.headrace.checkpointFileManagerClass"] == "a.Manager"
    assert module.session_settings(found) == found, "it adds nothing twice"


def test_a_query_that_does_not_stop_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spark = Mock()
    stuck, other = Mock(), Mock()
    stuck.name, stuck.stop.side_effect = "orders", StreamingQueryException("no answer within 5 s")
    monkeypatch.setattr(
        module, "monitored_sessions", lambda: [Mock(streams=Mock(active=[stuck])), Mock(streams=Mock(active=[other]))]
    )
    module.ConnectServer("127.0.0.1:1", spark).stop()
    other.stop.assert_called_once_with()
    assert "query orders does not stop, and ends with Spark: no answer within 5 s" in caplog.text
    assert module._service(spark).stop.called
