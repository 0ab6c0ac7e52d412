"""Dead letters in the files of a file sink: shown, and given again as they were."""

import asyncio
import json
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.json_shape import result_of
from tests.fake_gateway.sources import FakeGateway

from headrace.connectors import DeadLetterSource, FileSink, dead_letters
from headrace.sdk import InvalidSource, Message, Part, Position, Rows, Transaction

ORIGINALS = [
    Message(b"plain", b"k", event_time=1_700_000_000_123_456, message_id="one", headers=[("own", b"1"), ("none", None)]),
    Message(b"\xff\x00", None),
    Message(None, b"\xfe"),
]


def why(place: int) -> list[tuple[str, bytes | None]]:
    """The headers that the engine adds."""
    return [
        ("headrace-sink", b"alerts" if place else b"other"),
        ("headrace-reason", b"bad %d" % place),
        ("headrace-batch", b"7"),
        ("headrace-stream", b"orders/0"),
        ("headrace-sequence", b"%d" % (100 + place)),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three dead letters, as a file sink writes them."""
    rows = [
        Message(m.value, m.key, event_time=m.event_time, message_id=m.message_id, headers=[*(m.headers or ()), *why(n)])
        for n, m in enumerate(ORIGINALS)
    ]
    with closing(FileSink("errors", tmp_path / "errors")) as sink:
        sink.recover()
        part = Part(Transaction("p", 7), 0, "a")
        sink.stage(part, iter([Rows.of(*rows)]))
        sink.prepare(part.transaction, [part])
        sink.commit(part.transaction)
    return tmp_path / "errors"


def as_sent(message: Message) -> tuple[object, ...]:
    time = message.event_time
    micros = time if isinstance(time, int) or time is None else round(time.timestamp() * 1_000_000)
    return message.value, message.key, micros, message.message_id, list(message.headers or ())


def test_a_message_that_a_step_of_an_application_refused(tmp_path: Path) -> None:
    headers = {"pipeline": "orders", "step": "decide", "reason": "ValueError: odd", "stream": "orders/0", "sequence": "7"}
    document = {"value": "3", "headers": [{"name": f"headrace-{name}", "value": value} for name, value in headers.items()]}
    (tmp_path / "errors-1.jsonl").write_text(json.dumps(document) + "\n")
    (letter,) = dead_letters(tmp_path)
    assert (letter.sink, letter.reason, letter.stream, letter.sequence) == ("orders/decide", "ValueError: odd", "orders/0", 7)
    assert letter.message.value == b"3"


def test_messages_come_back_as_they_were(folder: Path) -> None:
    letters = list(dead_letters(folder))
    assert [as_sent(letter.message) for letter in letters] == [as_sent(message) for message in ORIGINALS]
    assert [(letter.sink, letter.reason, letter.batch) for letter in letters] == [
        ("other", "bad 0", 7),
        ("alerts", "bad 1", 7),
        ("alerts", "bad 2", 7),
    ]
    assert [(letter.stream, letter.sequence) for letter in letters] == [("orders/0", 100), ("orders/0", 101), ("orders/0", 102)]


def test_a_replay_goes_on_after_a_position(folder: Path) -> None:
    source = DeadLetterSource("again", folder)
    (partition,) = source.partitions()
    everything = list(source.read(partition, None))
    assert [as_sent(message) for message in everything] == [as_sent(message) for message in ORIGINALS]
    assert everything[0].sequence is not None
    rest = list(source.read(partition, Position(sequence=everything[0].sequence)))
    assert rest == everything[1:]
    assert list(DeadLetterSource("again", folder, "alerts").read(partition, None)) == everything[1:]


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match="nowhere does not exist; name the folder"):
        list(dead_letters(tmp_path / "nowhere"))
    (tmp_path / "x.jsonl").write_text('{"value": "no headers"}\n')
    with pytest.raises(InvalidSource, match=r"x\.jsonl, byte 0: not a dead letter"):
        list(dead_letters(tmp_path))
    with pytest.raises(InvalidSource, match=r"x\.jsonl is no folder"):
        list(dead_letters(tmp_path / "x.jsonl"))


async def dead_letters_of_files(*arguments: str | Path) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "headrace.cli", "dead-letters", *map(str, arguments)]
    return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)


async def test_show(folder: Path) -> None:
    shown = await dead_letters_of_files("list-files", folder, "--limit", "2")
    out, _ = await shown.communicate()
    assert shown.returncode == 0
    assert "bad 1" in out.decode()
    assert "... and 1 more" in out.decode()
    as_json = await dead_letters_of_files("list-files", folder, "--json")
    out, _ = await as_json.communicate()
    assert [letter["sequence"] for letter in result_of(out)["dead_letters"]] == [100, 101, 102]


async def replayed(folder: Path, *more: str) -> tuple[int | None, str]:
    """How a replay ends that needs no gateway, since there is nothing to send."""
    command = [sys.executable, "-m", "headrace.cli", "dead-letters", "replay-files", str(folder), "--source", "again", *more]
    # Nobody listens there.
    replay = await asyncio.create_subprocess_exec(*command, "--gateway", "127.0.0.1:9", stderr=asyncio.subprocess.PIPE)
    _, said = await replay.communicate()
    return replay.returncode, said.decode()


async def test_a_replay_of_nothing_ends(tmp_path: Path) -> None:
    code, said = await replayed(tmp_path)
    assert (code, "has no dead letters: nothing is replayed" in said) == (0, True)


async def test_a_replay_of_what_nobody_refused_is_an_error_that_names_who_has(folder: Path) -> None:
    code, said = await replayed(folder, "--sink", "alrets")
    assert code == 2
    assert "no dead letters that alrets refused, but letters of: alerts, other" in " ".join(said.split())


async def test_replay(folder: Path) -> None:
    gateway = FakeGateway()
    await gateway.start()
    try:
        replay = await dead_letters_of_files("replay-files", folder, "--source", "again", "--gateway", gateway.address)
        session = await gateway.session()
        stream = await session.open()
        messages = await session.messages(len(ORIGINALS))
        assert [as_sent(message) for message in messages] == [as_sent(message) for message in ORIGINALS]
        session.ack(stream, messages[-1].sequence or 0)
        await session.next("close_stream")
        await session.next("goodbye")
        async with asyncio.timeout(120):
            assert await replay.wait() == 0
    finally:
        await gateway.stop()
