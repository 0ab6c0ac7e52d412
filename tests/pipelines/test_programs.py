"""Keyed steps whose function is a program: what it gets, what becomes of its answers, and how it may fail."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.pipelines import Flow, GraphError, Message, OnError, Pipeline, ProgramError, StateError, StepError, Trial
from headrace.protocol.v1.program_pb2 import FailedMessage, ProgramReady, ProgramResponse, ProgramResults, StateColumn

HERE = Path(__file__).parent
COUNTING = [sys.executable, str(HERE / "counting_program.py")]
SCRIPTED = [sys.executable, "-S", "-E", str(HERE / "scripted_program.py")]
DEADLINE_S = 150.0


def application(
    command: list[str], *, state: Iterable[str] = ("count",), on_error: OnError = OnError.FAIL, timeout: str = "30 seconds"
) -> Pipeline:
    app = Pipeline("votes", dead_letters="failed")
    votes: Flow[Message] = app.source("votes/*")
    keyed = votes.key_by()
    keyed.stateful_program(command, state=list(state), name="count", on_error=on_error, timeout=timeout).sink("counts")
    return app


def vote(key: str, value: str = "", event_time: int | None = None) -> Message:
    return Message(value.encode(), key.encode(), event_time, "votes/0")


# What a program gets, and what becomes of its answers


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_program_counts_by_key_and_continues_after_a_restart(buckets: int) -> None:
    trial = Trial(application(COUNTING), buckets)
    trial.send(vote("a"), vote("b"), vote("a", event_time=5))
    trial.send(vote("a"))
    trial.restart()
    trial.send(vote("b"))
    assert sorted(trial.values("counts")) == [
        b"a 1 votes/0/1 at None",
        b"a 2 votes/0/3 at 5",
        b"a 3 votes/0/4 at None",
        b"b 1 votes/0/2 at None",
        b"b 2 votes/0/5 at None",
    ]
    assert {written.key for written in trial.written["counts"]} == {b"a", b"b"}
    assert trial.states("count") == {b"a": {"count": b"3"}, b"b": {"count": b"2"}}


def test_many_messages_go_in_several_blocks_and_each_result_belongs_to_its_message() -> None:
    trial = Trial(application(COUNTING))
    trial.send(*(vote(str(number % 1000)) for number in range(10_000)))
    assert [written.key for written in trial.written["counts"]] == [b"%d" % (number % 1000) for number in range(10_000)]
    assert [value.split(b" at")[0] for value in trial.values("counts")] == [
        b"%d %d votes/0/%d" % (number % 1000, number // 1000 + 1, number + 1) for number in range(10_000)
    ]


def test_large_messages_go_in_small_blocks() -> None:
    trial = Trial(application(COUNTING))
    trial.send(*(Message(bytes(400_000), b"a", stream="votes/0") for _ in range(12)))
    assert trial.states("count") == {b"a": {"count": b"12"}}


def test_a_message_that_a_program_cannot_process_follows_the_policy_of_the_step() -> None:
    votes = vote("a"), vote("a", "fail"), vote("a")
    trial = Trial(application(COUNTING, on_error=OnError.DEAD_LETTER))
    trial.send(*votes)
    assert trial.states("count") == {b"a": {"count": b"2"}}
    assert len(trial.failed) == 1
    assert "step count, key b'a', stream votes/0, sequence 2: ProgramFailure: it refuses" in trial.failed[0]
    trial = Trial(application(COUNTING, on_error=OnError.SKIP))
    trial.send(*votes)
    assert trial.counts["skipped", "count"] == 1
    with pytest.raises(StepError, match="sequence 2: ProgramFailure: it refuses"):
        Trial(application(COUNTING)).send(*votes)


def test_a_state_without_fields_is_removed() -> None:
    trial = Trial(application(COUNTING))
    trial.send(vote("a"), vote("b"), vote("a", "forget"))
    assert trial.states("count") == {b"b": {"count": b"1"}}
    trial.send(vote("a"))
    assert trial.values("counts")[-1].startswith(b"a 1 ")


def test_values_may_be_text_and_keys_of_any_type() -> None:
    app = Pipeline("texts")
    texts = app.source("votes/*", decode=bytes.decode).key_by(lambda text: (len(text), None))
    texts.stateful_program(COUNTING, state=["count"], name="count").sink("counts")
    trial = Trial(app)
    trial.send(vote("", "x"), vote("", "y"), vote("", "long"))
    assert [value.split(b" votes")[0] for value in trial.values("counts")] == [b"(1, None) 1", b"(1, None) 2", b"(4, None) 1"]


def test_a_value_that_is_not_bytes_needs_an_encode_function() -> None:
    def numbers(encode: object = None) -> Trial:
        app = Pipeline("numbers")
        keyed = app.source("votes/*", decode=int).key_by(lambda number: number)
        keyed.stateful_program(COUNTING, state=["count"], name="count", encode=encode).sink("counts")  # type: ignore[arg-type]
        return Trial(app)

    with pytest.raises(StepError, match="cannot pass a value of type int to a program: pass an encode function"):
        numbers().send(vote("", "7"))
    with pytest.raises(StepError, match="encode returned a value of type str"):
        numbers(str).send(vote("", "7"))
    trial = numbers(lambda number: b"%d" % number)
    trial.send(vote("", "7"))
    assert trial.values("counts")[0].startswith(b"7 1 ")


def test_a_program_that_has_ended_is_started_again_for_the_next_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "application"
    folder.mkdir()
    script = folder / "dies-once"
    script.write_text(f"#!/bin/sh\n[ -e died ] && exec {' '.join(COUNTING)}\ntouch died; echo out of luck >&2; exit 7\n")
    script.chmod(0o755)
    app = application(["./dies-once"])
    app._folder = folder
    with pytest.raises(ProgramError, match=r"ended with exit code 7, at its start\.(.|\n)*out of luck"):
        Trial(app).send(vote("a"))
    trial = Trial(app)
    trial.send(vote("a"))
    assert trial.states("count") == {b"a": {"count": b"1"}}


# How a program may fail


def delimited(response: ProgramResponse) -> str:
    data = response.SerializeToString()
    assert len(data) < 0x80
    return (bytes([len(data)]) + data).hex()


def ready(version: int = 1, *fields: str) -> str:
    return delimited(ProgramResponse(ready=ProgramReady(protocol_version=version, state_fields=fields or ["count"])))


def results(block: int, **columns: object) -> str:
    return delimited(ProgramResponse(results=ProgramResults(block=block, **columns)))  # type: ignore[arg-type]


def u32(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def count(value: bytes) -> StateColumn:
    return StateColumn(values=value, lengths=u32(len(value)))


BROKEN = {
    "another version": ([ready(2)], "speaks version 2 of the protocol for programs, and this worker speaks version 1"),
    "other fields": ([ready(1, "count", "sum")], "keeps the fields count, sum in its states, and state= of the step names count"),
    "no handshake": ([results(1)], "did not answer ProgramHello with ProgramReady"),
    "ends at the start": (["say:no configuration+exit:2"], "ended with exit code 2, at its start.*no configuration"),
    "ends with a block": ([ready(), "say:bad luck+exit:3"], "exit code 3, while it had block 1 with 2 messages.*bad luck"),
    "is killed": ([ready(), "say:first+say:second+kill"], "was killed by signal 9, while it had block 1.*first\n    second"),
    "ends well": ([ready(), "exit:0"], "ended with exit code 0, while it had block 1 with 2 messages of votes/0"),
    "is stale": ([ready(), results(0)], "answered block 0, while it had block 1"),
    "is ahead": ([ready(), results(2)], "answered block 2, while it had block 1"),
    # The second one arrives before the next block, or as its answer.
    "answers twice": ([ready(), f"{results(1)}+{results(1)}", results(2)],
                      "wrote to standard output without being asked|answered block 1, while it had block 2"),
    "answers twice at once": ([ready(), results(1) + results(1), ""], "wrote to standard output without being asked"),
    "is ready twice": ([ready(), ready()], "did not answer with ProgramResults"),
    "prints": ([b"Hello, I am here, and I write far more than you might like to read, since I like to write.\n".hex()],
               "wrote something else than messages to standard output, beginning with b'ello, I am here"),
    "announces too much": ([ready(), "ffffffff0f"], "a message of 4,294,967,295 bytes, and the limit is 67,108,864"),
    "no length": ([ready(), "ff" * 12], r"something else than messages to standard output, beginning with b'\\xff"),
    "another message": (
        [ready(), results(1, message_indices=u32(2), values=b"x", value_lengths=u32(1))],
        "broke the protocol: message_indices names message 2, but the block has messages 0 to 1",
    ),
    "out of order": (
        [ready(), results(1, message_indices=u32(1, 0), value_lengths=u32(0, 0))],
        "broke the protocol: the results are not in the order of their messages",
    ),
    "a null": ([ready(), results(1, message_indices=u32(0), value_lengths=u32(0xFFFFFFFF))], "a result is null"),
    "lengths that are more": (
        [ready(), results(1, message_indices=u32(0), values=b"x", value_lengths=u32(2))],
        "the lengths of values add up to 2, and the size of the column is 1",
    ),
    "no index": ([ready(), results(1, value_lengths=u32(0))], "message_indices has 0 entries, and value_lengths has 1"),
    "half an index": ([ready(), results(1, message_indices=b"xx")], "message_indices has 2 bytes, which is not a multiple of 4"),
    "another key": ([ready(), results(1, changed_keys=u32(1), states=[count(b"1")])],
                    "the state of key 1 has changed, but the keys of the block are 0 to 0"),
    "a key twice": ([ready(), results(1, changed_keys=u32(0, 0), states=[count(b"1")])], "changed_keys has a key twice"),
    "no states": ([ready(), results(1, changed_keys=u32(0))], "states has 0 columns, and the states have 1 field"),
    "too few states": ([ready(), results(1, changed_keys=u32(0), states=[StateColumn()])],
                       "the field count in states has 0 entries, and changed_keys has 1"),
    "another failed message": ([ready(), results(1, failed=[FailedMessage(message=5)])],
                               "message 5 has failed, but the messages of the block are 0 to 1"),
    "a failure with a result": (
        [ready(), results(1, message_indices=u32(0), value_lengths=u32(0), failed=[FailedMessage(message=0)])],
        "a message that has failed has a result",
    ),
}  # fmt: skip


def send_blocks(trial: Trial, number: int) -> None:
    for _ in range(number):
        trial.send(vote("a"), vote("a"))


@pytest.mark.parametrize("fault", BROKEN)
def test_a_program_that_breaks_the_protocol_fails_the_step_with_an_error_that_names_both(fault: str) -> None:
    answers, said = BROKEN[fault]
    trial = Trial(application([*SCRIPTED, *answers]))
    with pytest.raises(ProgramError, match=f"(?s){said}") as raised:
        send_blocks(trial, len(answers))
    assert str(raised.value).startswith("pipeline votes, step count: the program `")
    assert "scripted_program.py" in str(raised.value)
    assert "start the query again" in str(raised.value)
    assert trial.states("count") == {}


@pytest.mark.parametrize(
    ("pipe", "command", "said"),
    [
        ("stderr", "exec sleep 600", "has not answered within 1 s, the timeout= of the step, at its start"),
        ("stderr", "exit 3", r"ended with exit code 3, at its start"),
        ("stdout", "exec sleep 600", "wrote to standard output without being asked"),
    ],
)
def test_a_program_that_writes_as_fast_as_it_is_read_is_ended(
    pipe: str, command: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, flooded = os.read, set[int]()

    class Started(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **words: Any) -> None:
            super().__init__(*arguments, **words)
            flooded.add(getattr(self, pipe).fileno())

    def read_or_noise(file: int, size: int) -> bytes:
        try:
            return read(file, size)
        except BlockingIOError:
            if file in flooded:
                return b"noise\n" + bytes(size - 6)
            raise

    monkeypatch.setattr(os, "read", read_or_noise)
    monkeypatch.setattr(subprocess, "Popen", Started)
    trial = Trial(application(["/bin/sh", "-c", command], timeout="1 second"))
    with pytest.raises(ProgramError, match=said):
        trial.send(vote("a"))


def test_the_last_lines_of_a_program_that_floods_standard_error_are_in_the_error() -> None:
    trial = Trial(application(["/bin/sh", "-c", "(yes noise >&2); :"], timeout="1 second"))
    with pytest.raises(ProgramError, match=r"(?s)has not answered within 1 s.*last lines of its standard error:\n    noise\n"):
        trial.send(vote("a"))


@pytest.mark.parametrize(("answers", "when"), [(["hang"], "at its start"), ([ready(), "hang"], "while it had block 1")])
def test_a_program_that_is_late_is_killed(answers: list[str], when: str) -> None:
    trial = Trial(application([*SCRIPTED, *answers], timeout="1 second"))
    with pytest.raises(ProgramError, match=f"has not answered within 1 s, the timeout= of the step, {when}"):
        trial.send(vote("a"))


def test_a_message_above_the_limit_is_not_sent() -> None:
    trial = Trial(application(COUNTING))
    with pytest.raises(ProgramError, match=r"cannot receive 1 message of votes/0 with .* and the limit is 67,108,864"):
        trial.send(Message(bytes(2**26), b"a", stream="votes/0"))


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"step count: the program `no-such-program` cannot be started: .*No such file"):
        Trial(application(["no-such-program"])).send(vote("a"))
    app = application(["./votes"])
    app._folder = tmp_path
    with pytest.raises(ProgramError, match=r"the program `\./votes` needs \./votes, which is not in .*; build the program"):
        Trial(app).send(vote("a"))
    (tmp_path / "votes").touch(0o644)
    with pytest.raises(ProgramError, match=r"is not executable; run: chmod \+x \./votes"):
        Trial(app).send(vote("a"))


def test_a_program_ends_with_the_process_that_started_it() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER.format(command=COUNTING)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert worker.stdout is not None
    program = int(worker.stdout.readline())
    try:
        os.kill(program, 0)
        worker.kill()
        worker.wait()
        deadline = time.monotonic() + DEADLINE_S
        while _runs(program):
            assert time.monotonic() < deadline, "the program has outlived its worker"
            time.sleep(0.01)
    finally:
        worker.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL)


_WORKER = """
import signal
from headrace.pipelines import Message, Pipeline, Trial
from headrace.pipelines.programs.process import running
app = Pipeline("votes")
app.source("votes/*").key_by().stateful_program({command}, state=["count"], name="count").sink("counts")
Trial(app).send(Message(b"", b"a", stream="votes/0"))
print(running(app.graph.programs[0], app.folder).pid, flush=True)
signal.pause()
"""


def _runs(pid: int) -> bool:
    """Whether a process has not ended; one that nobody waits for is not gone, and has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# States and descriptions


def test_a_field_that_is_no_longer_declared_is_an_error() -> None:
    class Fields:
        value: bytes

    def counts(*state: str, function: bool = False) -> Pipeline:
        if not function:
            return application([*SCRIPTED, ready(1, *state), stored], state=state)
        app = Pipeline("votes")
        app.source("votes/*").key_by().stateful(lambda value, state: b"", Fields, name="count").sink("counts")
        return app

    stored = results(1, changed_keys=u32(0), states=[count(b"1"), count(b"2")])
    trial = Trial(counts("count", "sum"))
    trial.send(vote("a"))
    assert trial.states("count") == {b"a": {"count": b"1", "sum": b"2"}}
    trial.restart(counts("sum", "count", "mean"))
    assert trial.states("count") == {b"a": {"count": b"1", "sum": b"2"}}
    with pytest.raises(StateError, match="the checkpoint has states with sum, which state= does not name; name the field again"):
        trial.restart(counts("count"))
    with pytest.raises(StateError, match="its states are for stateful now, and program in the checkpoint"):
        trial.restart(counts(function=True))


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({"command": []}, "a program needs a command, such as"),
        ({"command": "./votes"}, "command is a list of texts, not './votes'"),
        ({"command": ["./votes", "a\0b"]}, r"command has 'a\\x00b', which is no valid text for a program"),
        ({"files": ["\ud800"]}, "files has .*, which is no valid text for a program"),
        ({"state": []}, "a program needs the names of the fields"),
        ({"state": "count"}, "state is a list of texts, not 'count'"),
        ({"state": ["count", "count"]}, "'count' cannot be a field"),
        ({"state": ["__dict__"]}, "'__dict__' cannot be a field"),
        ({"state": ["x" * 256]}, "fields have 1 to 255 bytes"),
        ({"command": ["../votes"]}, r"the file \.\./votes must be below the folder of the application"),
        ({"files": ["/etc/votes"]}, "the file /etc/votes must be below the folder of the application"),
        ({"timeout": "0s"}, "step count: timeout"),
    ],
)
def test_a_description_that_is_wrong_is_rejected(description: dict[str, object], said: str) -> None:
    words = {"command": ["./votes"], "state": ["count"], **description}
    with pytest.raises(GraphError, match=said):
        Pipeline("votes").source("votes/*").key_by().stateful_program(**words, name="count")  # type: ignore[arg-type]


def test_a_step_travels_to_workers_as_a_description() -> None:
    graph = application(["java", "-jar", "votes.jar"], state=["count", "sum"]).graph
    assert "program java    after keyby" in graph.describe()
    assert pickle.loads(pickle.dumps(graph)).programs == graph.programs
