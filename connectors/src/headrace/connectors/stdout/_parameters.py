"""What the stdout sink can be told, and how it is made."""

from pydantic import Field

from headrace.connectors._parameters import Parameters
from headrace.connectors._registry import Implementation
from headrace.connectors.stdout._sink import StdoutSink


class StdoutSinkParameters(Parameters):
    """Print messages, at least once."""

    sink: str = Field(description='What Spark calls it: format("headrace").option("sink", SINK).', examples=["alerts"])
    as_json: bool = Field(
        default=False, alias="json", description="Print all of a message as a line of JSON, instead of its value."
    )


def _sink(parameters: StdoutSinkParameters) -> StdoutSink:
    return StdoutSink(parameters.sink, as_json=parameters.as_json)


STDOUT_SINK = Implementation(StdoutSinkParameters, _sink)
