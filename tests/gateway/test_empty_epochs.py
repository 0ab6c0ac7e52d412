"""A queue that is opened again and has nothing to deliver: its new epoch is empty, and nobody waits for anything of it."""

from collections.abc import Callable

from tests.gateway.wire import REDELIVERING, Connector, Engine, numbered, until_gone

from headrace.protocol.v1 import admin_pb2, source_pb2

MakeConnector = Callable[[], Connector]
MakeEngine = Callable[..., Engine]


async def opened_again(address: str, connector: MakeConnector, pipeline: Engine) -> Connector:
    """A session that opened the queue again, after the pipeline had committed all of it."""
    source = connector()
    await source.hello()
    await source.open(kind=REDELIVERING)
    epoch = (await source.expect("stream_opened")).epoch
    await source.send(frame=numbered(1, 1, 5))
    await pipeline.plan_until("orders/0", 5)
    await pipeline.plan({"orders/0": (epoch, 5)}, wait_ms=0)
    await source.close()
    await until_gone(address, "test-0")
    again = connector()
    await again.hello()
    await again.open(kind=REDELIVERING)
    assert (await again.expect("stream_opened")).epoch > epoch
    return again


async def test_nobody_holds_back_its_acknowledgements(address: str, connector: MakeConnector, engine: MakeEngine) -> None:
    pipeline = engine()
    await pipeline.attach()
    source = await opened_again(address, connector, pipeline)
    (stream,) = (await pipeline.status()).streams
    assert not stream.holders
    await pipeline.detach()
    (stream,) = (await pipeline.status()).streams
    assert (stream.state, stream.detail) == (admin_pb2.STREAM_STATE_LIVE, "")
    await source.close()


async def test_its_end_reaches_the_checkpoint(address: str, connector: MakeConnector, engine: MakeEngine) -> None:
    pipeline = engine()
    await pipeline.attach()
    source = await opened_again(address, connector, pipeline)
    committed = (await pipeline.status()).pipelines[0].committed[0].position
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True))
    await pipeline.status_once(lambda status: status.streams[0].state == admin_pb2.STREAM_STATE_ENDED)
    answer = await pipeline.plan(wait_ms=0, tell_ends=True)
    (end,) = answer.ranges
    assert (end.stream, end.ended, end.messages, answer.all_ended) == ("orders/0", True, 0, True)
    assert await pipeline.fetch("orders/0", committed, end.end) == []
    answer = await pipeline.plan({"orders/0": end.end}, wait_ms=0, tell_ends=True, ended=["orders/0"])
    assert (list(answer.ranges), answer.all_ended) == ([], True)


async def test_a_queue_that_is_gone_is_forgotten(address: str, connector: MakeConnector, engine: MakeEngine) -> None:
    pipeline = engine()
    await pipeline.attach()
    source = await opened_again(address, connector, pipeline)
    await source.send(close_stream=source_pb2.CloseStream(stream_id=1, end_of_stream=True, gone=True))
    await source.open("orders/1", stream_id=2)
    await source.expect("stream_opened")
    await source.send(frame=numbered(2, 0, 1))
    answer = await pipeline.plan()
    assert ([r.stream for r in answer.ranges], list(answer.forgotten)) == (["orders/1"], ["orders/0"])
