"""Which deliveries a query declares as dead letters."""

import pytest

from headrace.engine.sink.delivery import delivery_start
from headrace.engine.sink.options import SinkOptions, parse_sink
from headrace.engine.wire.gateway_options import Defaults
from headrace.protocol.v1 import sink_pb2


@pytest.mark.parametrize(
    ("given", "sink", "declared"),
    [
        ({"application": "app", "sink": "out,failed", "failed": "failed"}, "failed", True),
        ({"application": "app", "sink": "out,failed", "failed": "failed"}, "out", False),
        ({"application": "app", "sink": "out,other"}, "other", False),
        ({"sink": "out", "deadLetters": "errors"}, "out", False),
        ({"sink": "out", "deadLetters": "errors"}, "errors", True),
    ],
)
def test_only_what_goes_to_the_sink_for_dead_letters_is_declared(given: dict[str, str], sink: str, declared: bool) -> None:
    options = parse_sink(given, Defaults())
    of_sink: SinkOptions | None = options.for_dead_letters() if sink == options.dead_letters else options.for_sink(sink)
    assert of_sink is not None
    start = delivery_start(of_sink, sink_pb2.Part(), 1)
    assert (start.sink, start.dead_letters) == (sink, declared)
