"""A source that ignores its position is named, and what it yields again is counted."""

import pytest
from tests.fake_gateway.sources import decode_frame
from tests.sdk.python.test_session import VALUES, resume

from headrace.sdk import Message, Source

IGNORES = "stream log/0: read() ignores its position: it yields what was received before; begin after position.sequence"


class Forgetful(Source):
    name = "log"

    def read(self, partition, position):
        for at, value in enumerate(VALUES[:10], 1):
            yield Message(value, sequence=at)
        while True:
            yield None


async def all_sent(session) -> None:
    sent = []
    while not sent or sent[-1].sequence < 10:
        sent += decode_frame((await session.next("frame")).frame)
    assert [message.sequence for message in sent] == list(range(1, 11))


async def test_a_source_that_ignores_its_position_is_named_and_what_it_sends_again_is_counted(gateway, connect, caplog):
    connect(Forgetful())
    session = await gateway.session()
    await session.open(resume=resume(7))
    await all_sent(session)
    await session.next("report", ignore=("backlog",))
    assert caplog.messages.count(IGNORES) == 1
    assert "stream log/0: messages sent again: 7" in caplog.messages


@pytest.mark.parametrize("opened", [{"resume": resume(7, b"0")}, {"resume": resume(7), "skip_lost": True}, {}])
async def test_a_source_that_goes_back_to_a_cursor_or_has_no_position_is_not_named(gateway, connect, caplog, opened):
    connect(Forgetful())
    session = await gateway.session()
    await session.open(**opened)
    await all_sent(session)
    await session.next("report", ignore=("backlog",))
    assert not [line for line in caplog.messages if "again" in line or "ignores" in line]
