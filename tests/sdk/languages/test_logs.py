"""HEADRACE_LOG_FORMAT and HEADRACE_VERBOSE mean the same in each language, and lines of JSON have the same fields."""

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.processes import gateway_process
from tests.sdk.languages.programs import LANGUAGES, Language
from tests.sdk.processes import DEADLINE_S, connector
from tests.sdk.queries import Reader

from headrace.deploy.logs import last_error_line
from headrace.logs.output import HEAD

pytestmark = pytest.mark.timeout(1800)  # The first builds compile gRPC.

each = pytest.mark.parametrize("language", LANGUAGES.values(), ids=list(LANGUAGES))
FOR_PEOPLE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR): \S")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def lines_of(log: str) -> list[str]:
    """The lines that are logged: the examples also tell, in words of their own, that they are closed."""
    return [line for line in log.splitlines() if line and not re.fullmatch(r"[^{\d].*closed\.?", line)]


def documents_of(log: str) -> list[dict[str, Any]]:
    documents = [json.loads(line) for line in lines_of(log)]
    for document in documents:
        assert set(HEAD) <= document.keys(), document
        assert TIMESTAMP.fullmatch(document["timestamp"]), document
        assert document["level"] in {"info", "warning", "error"}, document
    return documents


@each
async def test_logs_are_lines_of_json_with_the_same_fields_or_lines_for_people(language: Language, tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"a\n")
    command = [*language.source(), tmp_path / "0"]
    as_json = ["env", "HEADRACE_LOG_FORMAT=json", "HEADRACE_VERBOSE=1", *command]
    as_text = ["env", "HEADRACE_LOG_FORMAT=console", "HEADRACE_VERBOSE=1", *command]
    with gateway_process() as gateway:
        query = Reader(gateway.address, "lines/0")
        async with connector(gateway.address, tmp_path / "json", *as_json) as first:
            await query.read(1)
            async with connector(gateway.address, tmp_path / "text", *as_text) as second:
                assert await first.end(signal.SIGCONT) == 1, first.log
                with (tmp_path / "0").open("ab") as file:
                    file.write(b"b\n")
                await query.read(2)
                assert await second.end(signal.SIGTERM) == 0, second.log
        await query.close()

    documents = documents_of(first.log)
    ours = [document for document in documents if document["logger"] == "headrace.sdk"]
    of_sessions = [document for document in ours if "session" in document]
    assert {document["instance"] for document in of_sessions} == {"lines"}, first.log
    assert "lines/0" in {document.get("stream") for document in of_sessions}, first.log
    assert documents[-1]["level"] == "error", "the reason comes last"
    assert last_error_line(tmp_path / "json", 0).startswith(documents[-1]["event"])

    assert [line for line in lines_of(second.log) if not FOR_PEOPLE.match(line)] == []
    assert any("INFO: " in line for line in lines_of(second.log))


@each
@pytest.mark.parametrize("verbose", ["", "0", "off"])
async def test_only_problems_are_logged_unless_more_is_asked_for(language: Language, verbose: str, tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"a\n")
    command = ["env", "HEADRACE_LOG_FORMAT=json", f"HEADRACE_VERBOSE={verbose}", *language.source(), tmp_path / "0"]
    with gateway_process() as gateway:
        query = Reader(gateway.address, "lines/0")
        async with connector(gateway.address, tmp_path / "log", *command) as source:
            await query.read(1)
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                with (tmp_path / "0").open("ab") as file:
                    file.write(b"b\n")
                await query.read(2)
                assert await source.end(signal.SIGTERM) == 0, source.log
        await query.close()
    documents = documents_of(source.log)
    assert {document["level"] for document in documents} == {"warning"}, "the lost session: " + source.log
    assert {document["instance"] for document in documents} == {"lines"}, source.log
    assert all(document["error"] for document in documents), source.log


@each
def test_a_format_that_does_not_exist_is_named(language: Language, tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"a\n")
    command = ["env", "HEADRACE_LOG_FORMAT=xml", *language.source(), tmp_path / "0"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 2, done.stderr
    assert "HEADRACE_LOG_FORMAT" in done.stderr or "--log-format" in done.stderr, done.stderr
    assert "xml" in done.stderr, done.stderr
    assert "json" in done.stderr, done.stderr
