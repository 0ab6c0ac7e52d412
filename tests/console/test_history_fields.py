"""The history's fields: the gateway keeps the fields that it names, and the console's types are made from them."""

from scripts import generate_history_fields
from tests.gateway.wire import Engine, serve

from headrace.gateway.core.status.history import FIELDS, HISTORY_S, History


def test_the_console_has_the_types_that_are_made() -> None:
    made = generate_history_fields.text()
    assert generate_history_fields.FILE.read_text() == made, (
        "run `python -m scripts.generate_history_fields`, and commit the result"
    )


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
