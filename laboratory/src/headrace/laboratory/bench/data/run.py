"""`headrace bench data`: blocks as columns, lakes, files of the past, and states beyond memory, each beside what is usual."""

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from headrace.laboratory.bench.data.orders import AVRO_SCHEMA, COLUMNS, Order, avro_payloads, json_payloads
from headrace.laboratory.bench.figures import Figure, Progress, itself, machine, measured

_VALUES = 16_384
"""The most that a block of the source has."""
_ROUNDS = 20
_QUICK_ROUNDS = 2
_JSON_TIMES, _AVRO_TIMES = 3.0, 5.0


def run(parts: Sequence[str], quick: bool, say: Progress, *, keys: int | None = None) -> tuple[list[Figure], dict[str, Any]]:
    """Measures parts, in processor time. Returns their figures and the conditions.

    Args:
        parts: Names of `PARTS`.
        quick: Whether to only check that everything works.
        say: Called with lines of progress.
        keys: The number of keys of the part `spill`; None for its own.
    """
    figures = list[Figure]()
    for name in parts:
        if say.begins(name):
            say(f"{name} ...")
            part = partial(_spill, keys) if name == "spill" else PARTS[name]
            figures += measured(name, partial(part, quick), say)
    conditions = {
        "quick": quick,
        "values": _VALUES,
        "json_bytes": len(json_payloads(1)[0]),
        "avro_bytes": len(avro_payloads(1)[0]),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "time": "processor time of the process, of lakes with Spark's",
    }
    return figures, machine() | conditions


def json_decode(quick: bool) -> Iterator[Figure]:
    """JSON in Arrow columns, compared to `json.loads` of each value, which makes dicts."""
    import json

    import pyarrow as pa

    from headrace.pipelines.formats import json_columns

    column, reader = pa.array(json_payloads(_VALUES)), json_columns(COLUMNS)
    yield from _compared(
        "json_decode",
        lambda: reader.read(column.to_pylist()).batch.num_rows,
        lambda: len([json.loads(value) for value in column.to_pylist()]),
        _QUICK_ROUNDS if quick else _ROUNDS,
        _JSON_TIMES,
    )


def avro_decode(quick: bool) -> Iterator[Figure]:
    """Avro in Arrow columns, compared to fastavro's reading of each record, which makes dicts."""
    import io
    import json

    import fastavro
    import pyarrow as pa

    from headrace.pipelines.formats import avro_columns

    column, reader = pa.array(avro_payloads(_VALUES)), avro_columns("avro", json.dumps(AVRO_SCHEMA))
    schema, read = fastavro.parse_schema(AVRO_SCHEMA), fastavro.schemaless_reader
    yield from _compared(
        "avro_decode",
        lambda: reader.read(column.to_pylist()).batch.num_rows,
        lambda: len([read(io.BytesIO(value), schema, None) for value in column.to_pylist()]),
        _QUICK_ROUNDS if quick else _ROUNDS,
        _AVRO_TIMES,
    )


def avro_objects(quick: bool) -> Iterator[Figure]:
    """Avro in objects of a dataclass by columns, compared to msgspec's making of each from the dict of fastavro."""
    from headrace.pipelines.formats import avro

    payloads, decode = avro_payloads(_VALUES), avro(AVRO_SCHEMA, Order).decoder()
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    yield from _compared(
        "avro_objects", lambda: len(decode.at_once(payloads) or ()), lambda: len(list(map(decode, payloads))), rounds
    )


def avro_class_columns(quick: bool) -> Iterator[Figure]:
    """Avro in the columns of a dataclass at once, compared to columns of objects that are read one by one."""
    from headrace.pipelines.formats import Format, avro

    form = avro(AVRO_SCHEMA, Order)
    payloads, at_once, one_by_one = avro_payloads(_VALUES), form.columns(), Format.columns(form)
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    yield from _compared(
        "avro_class_columns",
        lambda: at_once.read(payloads).batch.num_rows,
        lambda: one_by_one.read(payloads).batch.num_rows,
        rounds,
    )


def _lake(format: str, quick: bool) -> Iterator[Figure]:
    """Messages in a table, compared to Spark's own file sink."""
    from headrace.laboratory.bench.data.lakes import lake  # Spark, which the other parts do not need

    return lake(format, quick)


def _history(quick: bool) -> Iterator[Figure]:
    """Files of the past through an application, compared to Spark's own reading."""
    from headrace.laboratory.bench.data.history import history  # Spark, which the other parts do not need

    return history(quick)


def _state_query(quick: bool) -> Iterator[Figure]:
    """The state of one key of many."""
    from headrace.laboratory.bench.data.state_query import state_query  # stages of Spark, which the other parts do not need

    return state_query(quick)


def _spill(keys: int | None, quick: bool) -> Iterator[Figure]:
    """States of many keys with little memory, compared to all of them in memory."""
    from headrace.laboratory.bench.data.spill import spill  # stages of Spark, which the other parts do not need

    return spill(keys, quick)


PARTS: Mapping[str, Callable[[bool], Iterator[Figure]]] = {
    "json_decode": json_decode,
    "avro_decode": avro_decode,
    "avro_objects": avro_objects,
    "avro_class_columns": avro_class_columns,
    "lake_parquet": partial(_lake, "parquet"),
    "lake_delta": partial(_lake, "delta"),
    "lake_iceberg": partial(_lake, "iceberg"),
    "history": _history,
    "state_query": _state_query,
    "spill": partial(_spill, None),
}


def _compared(
    name: str, columns: Callable[[], int], one_by_one: Callable[[], int], rounds: int, times: float | None = None
) -> Iterator[Figure]:
    """Yields the rate of both, and their ratio; in turns, so that both have the same neighbours."""
    of_columns, of_values = list[float](), list[float]()
    for _ in range(rounds):
        of_columns.append(_rate(columns))
        of_values.append(_rate(one_by_one))
    fastest, usual = max(of_columns), max(of_values)
    yield Figure(f"{name}.values_s", fastest, "values/s", usual)
    ratio = fastest / usual
    target, met = ("", None) if times is None else (f">= {times:g}", ratio >= times)
    yield Figure(f"{name}.ratio", ratio, "times", target=target, met=met)
    yield from itself(f"{name}.values_s", of_columns, "values/s")


def _rate(work: Callable[[], int]) -> float:
    gc.collect()
    begun = time.process_time()
    count = work()
    return count / (time.process_time() - begun)
