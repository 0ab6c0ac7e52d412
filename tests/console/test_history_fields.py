"""The history's fields: the gateway keeps the fields that it names."""

from tests.gateway.wire import Engine, serve

from headrace.gateway.core.status.history import FIELDS, HISTORY_S, History


async def test_the_gateway_keeps_all_fields_and_no_others() -> None:
    async with serve() as (gateway, address):
        history, reader = History(gateway), Engine(address)
        gateway.stream("orders/0")
        gateway.sink("out")
        await reader.attach()
        await history.take()
        await reader.close()
    for kind, name in {"gateway": "", "stream": "orders/0", "pipeline": "p", "sink": "out"}.items():
        found = history.read(kind, name, HISTORY_S)
        assert found is not None
        assert tuple(found.values) == FIELDS[kind], kind
