"""Commands ask a supervisor that another version has started: its answers may lack fields, have more, or be none."""

import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.json_shape import result_of

from headrace.cli import cli
from headrace.deploy.control import SOCKET_FILE

PROCESS: dict[str, Any] = {
    "name": "orders",
    "kind": "connector",
    "pipelines": ["totals"],
    "state": "waits",
    "state_age_ms": 5_000,
    "restarts": 2,
    "reason": "ended with exit code 1",
    "reason_age_ms": 5_000,
    "log_fault": "orders.log: no space left",
    "log_fault_age_ms": 100,
    "last_warning": None,
    "next_start_ms": 700,
    "version": "1.0",
    "memory_bytes": 1 << 20,
    "pid": 4711,
}
RESULT: dict[str, Any] = {
    "processes_in_all": 1,
    "gateway_fault": "no gateway at 127.0.0.1:1",
    "file_fault": "x is no option",
    "file_fault_age_ms": 3_000,
}
RESTARTED = {"name": "orders", "state": "runs", "pid": 2, "stopped_pid": 1, "stopped_exit_code": 0, "duration_ms": 1_500}


@contextmanager
def answering(line: str) -> Iterator[Path]:
    """A supervisor that answers each request with this line. Yields the file of its deployment."""
    with tempfile.TemporaryDirectory() as made, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        file = Path(made, "deploy.toml")
        file.write_text('folder = "run"\n')
        (file.parent / "run").mkdir()
        listener.bind(str(file.parent / "run" / SOCKET_FILE))
        listener.listen()

        def answer() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    if not connection.makefile().readline():
                        return
                    connection.sendall(f"{line}\n".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield file
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
                last.connect(str(file.parent / "run" / SOCKET_FILE))
            thread.join()


def of_another_version(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The fields, of which some are absent or of another type, and further ones."""
    some = st.sets(st.sampled_from(sorted(fields)))
    other = st.sampled_from([None, {}, [7], "?", 1.5])
    return st.builds(
        lambda absent, changed, more: {
            **{key: changed.get(key, value) for key, value in fields.items() if key not in absent},
            **more,
        },
        some,
        st.dictionaries(st.sampled_from(sorted(fields)), other, max_size=2),
        st.just({"another": {"a": 1}}) | st.just({}),
    )


@given(of_another_version(PROCESS), of_another_version(RESULT))
@settings(max_examples=25, deadline=None)
def test_ps_shows_what_a_supervisor_of_any_version_tells(process: dict[str, Any], result: dict[str, Any]) -> None:
    with answering(json.dumps({"ok": True, "result": {**result, "processes": [process]}, "version": 9})) as file:
        table = CliRunner().invoke(cli, ["ps", "--deployment", str(file)])
        listed = CliRunner().invoke(cli, ["ps", "--deployment", str(file), "--json"])
    assert (table.exit_code, listed.exit_code) == (0, 0), (table.output, table.exception)
    (deployment,) = result_of(listed.stdout)["deployments"]
    (shown,) = deployment["processes"]
    assert shown.keys() == PROCESS.keys()
    assert all(shown[key] == process[key] for key in PROCESS if key in process and type(process[key]) is type(PROCESS[key]))
    assert all(deployment[key] == result[key] for key in ("gateway_fault", "file_fault") if isinstance(result.get(key), str))


@given(of_another_version(RESTARTED))
@settings(max_examples=15, deadline=None)
def test_a_restart_by_a_supervisor_of_any_version_is_told(restarted: dict[str, Any]) -> None:
    with answering(json.dumps({"ok": True, "result": restarted})) as file:
        done = CliRunner().invoke(cli, ["restart", "orders", "--deployment", str(file)])
    assert (done.exit_code, done.output.startswith("orders is restarted")) == (0, True), (done.output, done.exception)


@pytest.mark.parametrize("line", ["hello", "[]", "{}", '{"ok": false}', '{"ok": false, "error": 7}', "[" * 5_000])
@pytest.mark.parametrize("command", [["ps"], ["restart", "orders"]])
def test_an_answer_that_is_none_ends_a_command_with_one_line(line: str, command: list[str]) -> None:
    with answering(line) as file:
        done = CliRunner().invoke(cli, [*command, "--deployment", str(file)])
    assert done.exit_code == 1
    assert "the supervisor of the deployment" in " ".join(done.output.split())
    assert not isinstance(done.exception, KeyError | ValueError | TypeError)


@pytest.mark.parametrize("result", [None, [], "x", {"processes": 7}, {"processes": [None, 7], "processes_in_all": 2}])
def test_a_result_of_another_shape_is_shown_as_far_as_it_is_known(result: object) -> None:
    with answering(json.dumps({"ok": True, "result": result})) as file:
        assert CliRunner().invoke(cli, ["ps", "--deployment", str(file)]).exit_code == 0
