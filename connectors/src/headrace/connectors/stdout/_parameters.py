"""The parameters of the stdout sink, and how it is built."""

from pydantic import Field

from headrace.connectors._connector import Implementation
from headrace.connectors._parameters import Parameters
from headrace.connectors.stdout._sink import StdoutSink


class StdoutSinkParameters(Parameters):
    """Print messages, at least once."""

    sink: str = Field(description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"])
    as_json: bool = Field(
        default=False, alias="json", description="Print the whole message as a line of JSON, instead of its value."
    )


def _sink(parameters: StdoutSinkParameters) -> StdoutSink:
    return StdoutSink(parameters.sink, as_json=parameters.as_json)


STDOUT_SINK = Implementation(StdoutSinkParameters, _sink)
