"""The ends of flows: sinks of the gateway, and tables of files."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.pipelines import arguments as check
from headrace.pipelines.build import own_name
from headrace.pipelines.formats import Format
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.split_steps import split_into
from headrace.pipelines.steps.lake import Lake, lake_columns
from headrace.pipelines.steps.lake_partitions import partition_columns
from headrace.pipelines.steps.lake_places import file_bytes, opened_with
from headrace.pipelines.steps.stateless import Sink, to_bytes
from headrace.pipelines.steps.step import OnError

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.pipelines._flow import KeyedFlow

T_co = TypeVar("T_co", covariant=True)


class Outputs(ABC, Generic[T_co]):
    """The place of a flow in the graph of its pipeline, and the methods that end it."""

    def __init__(self, builder: GraphBuilder, number: int) -> None:
        self._builder = builder
        self._number = number

    @abstractmethod
    def _keyed(self, number: int) -> "KeyedFlow[Any]":
        """Returns the flow of a step's results, which have keys."""

    def sink(
        self,
        sink: str,
        encode: Callable[[T_co], bytes] | Format[T_co] | None = None,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Writes the values to a sink of the gateway.

        Args:
            sink: The name of the sink.
            encode: A format such as `json(Order)`, or a function that returns the payload of a value. By default, values must
                be bytes or str.
            name: The step's name.
            on_error: The policy for values that `encode` cannot write.
        """
        builder = self._builder
        check.name(builder.where(name, None, "sink"), "sink", sink)
        where = builder.where(name, f"to-{sink}", "sink")
        encoder = _encoder(where, encode)
        policy = builder.policy(where, on_error)
        builder.add(Sink(builder.name_for(name, f"to-{sink}"), policy, sink, encoder), self._number)

    def sink_by(
        self,
        function: Callable[[T_co], str | None],
        sinks: Sequence[str],
        encode: Callable[[T_co], bytes] | Format[T_co] | None = None,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Writes each value to the sink that a function names, one of a list.

        Args:
            function: Returns the name of the sink of a value; None to write it nowhere.
            sinks: The names of all sinks that it may return.
            encode: As of `sink`.
            name: The step's name.
            on_error: The policy for values for which the function raises or returns another name, or that `encode` cannot write.

        Raises:
            GraphError: A parameter is invalid.
        """
        builder = self._builder
        where = builder.where(name, own_name(function) or "sinkby", "sink_by")
        encoder = _encoder(where, encode)
        for sink in check.texts(where, "sinks", sinks):
            check.name(where, "sinks", sink)
        parts = split_into(builder, self._number, "sink_by", function, "sinks", sinks, name, on_error)
        policy = builder.policy(where, on_error)
        for sink, number in parts.items():
            builder.add(Sink(builder.name_for(None, f"to-{sink}"), policy, sink, encoder), number)

    def lake(
        self,
        path: str | Path,
        *,
        schema: "type[Any] | pa.Schema",
        format: str = "parquet",
        partition_by: Sequence[str] = (),
        table: str | None = None,
        options: Mapping[str, str] | None = None,
        file_size: str | int = "256mb",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Writes the values as rows of a table of files, each once. Readers see whole micro-batches, after their commit.

        Args:
            path: The folder of the table, on a disk that all workers share, or, of a Delta table, `hdfs://namenode:9820/folder`,
                or `s3://bucket/folder`, with credentials, region and endpoint from the environment (`AWS_...`) of driver and
                workers.
            schema: The columns: a dataclass, `NamedTuple`, `TypedDict`, msgspec `Struct` or pydantic model, or a schema of
                pyarrow. With the latter, values are dicts, or objects with these attributes. The columns of a columnar step are
                converted to the types of the schema, without a loss.
            format: "parquet": files in a folder for each micro-batch, without a log; "delta": a Delta table, whose log also knows
                the micro-batches. It needs `headrace-engine[lake]` on the driver, on S3 and HDFS also on the workers. "iceberg":
                an Iceberg table in a folder. It needs `headrace-engine[iceberg]` on the driver.
            partition_by: The columns that divide the table: texts, signed integers, booleans or dates. Each combination of
                values has files of its own, of Parquet in a folder such as `day=2026-11-29`.
            table: The name of an Iceberg table, as `catalog.namespace.table`.
            options: Options of the format's library, beside the environment: deltalake's storage options, such as
                `aws_endpoint_url`, or properties of pyiceberg's catalog, such as `uri`.
            file_size: About how large a file becomes before a task begins a further one for the same micro-batch: text such as
                "64mb", or bytes; 4 GiB at most. What tasks of many micro-batches write becomes larger files only by
                `headrace lake compact`.
            name: The step's name.
            on_error: The policy for values that the columns cannot hold.

        Raises:
            GraphError: A parameter is invalid, or another step writes to this table.
        """
        builder = self._builder
        where = builder.where(name, "lake", "lake")
        policy = builder.policy(where, on_error)
        place, columns = lake_columns(where, path, format, schema)
        divided_by = partition_columns(where, partition_by, columns.schema)
        known = (*opened_with(where, format, table, options), file_bytes(where, file_size))
        builder.add(Lake(builder.name_for(name, "lake"), policy, place, format, columns, divided_by, *known), self._number)


def _encoder(where: str, encode: Any) -> Callable[[Any], Any]:
    """Returns the function that makes payloads.

    Raises:
        GraphError: It is no such function, nor a format.
    """
    if isinstance(encode, Format):
        return encode.encoder()
    if encode is None:
        return to_bytes
    check.function(where, "encode", encode, "value", instead_of_yield="yield in a flat_map before the sink")
    found: Callable[[Any], Any] = encode
    return found
