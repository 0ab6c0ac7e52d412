"""The figures of an airline, the file in which Spark writes them, and the independent computation that checks them."""

import csv
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

from headrace.laboratory.demo.flights import MISSING


@dataclass(frozen=True)
class Airline:
    """The figures of one airline. Whole numbers only, so that two computations compare exactly."""

    carrier: str
    flights: int
    cancelled: int
    delays: int
    """The number of flights whose departure delay is known."""
    delay_minutes: int | None
    """The sum of these delays, where early departures are negative; None if there are none."""
    worst_delay: int | None
    """The largest of them, in minutes."""

    @property
    def mean_delay(self) -> float | None:
        """The mean of these delays, in minutes."""
        return self.delay_minutes / self.delays if self.delays and self.delay_minutes is not None else None


@dataclass(frozen=True)
class Table:
    """The figures of all airlines after one micro-batch."""

    batch_id: int
    airlines: tuple[Airline, ...]


@dataclass(frozen=True)
class Difference:
    """A figure that differs from the expected one."""

    carrier: str
    figure: str
    spark: int | None
    plain: int | None

    def __str__(self) -> str:
        return f"{self.carrier} {self.figure}: Spark has {self.spark}, the plain computation {self.plain}"


FIGURES = tuple(field.name for field in fields(Airline) if field.name != "carrier")


def write_table(path: Path, table: Table) -> None:
    """Replaces the table atomically: readers see one micro-batch, and writing it again changes nothing."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(asdict(table)))
    temporary.replace(path)


def read_table(path: Path) -> Table | None:
    """Returns the present table; None if no micro-batch has been written yet."""
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Table(document["batch_id"], tuple(Airline(**airline) for airline in document["airlines"]))


def plain_computation(path: Path) -> tuple[Airline, ...]:
    """Computes the same figures with one loop over the same file, without Headrace and without Spark."""
    rows: dict[str, list[tuple[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["carrier"], []).append((row["dep_time"], row["dep_delay"]))
    return tuple(_airline(carrier, rows[carrier]) for carrier in sorted(rows))


def _airline(carrier: str, rows: list[tuple[str, str]]) -> Airline:
    delays = [int(delay) for _, delay in rows if delay != MISSING]
    return Airline(
        carrier=carrier,
        flights=len(rows),
        cancelled=sum(departed == MISSING for departed, _ in rows),
        delays=len(delays),
        delay_minutes=sum(delays) if delays else None,
        worst_delay=max(delays, default=None),
    )


def compare(spark: Iterable[Airline], plain: Iterable[Airline]) -> list[Difference]:
    """Returns every figure that differs; a missing airline differs in all its figures."""
    spark_figures, plain_figures = _by_carrier(spark), _by_carrier(plain)
    return [
        Difference(carrier, figure, one, other)
        for carrier in sorted(spark_figures.keys() | plain_figures.keys())
        for figure, one, other in zip(
            FIGURES, spark_figures.get(carrier, _NOTHING), plain_figures.get(carrier, _NOTHING), strict=True
        )
        if one != other
    ]


_NOTHING: tuple[int | None, ...] = (None,) * len(FIGURES)


def _by_carrier(airlines: Iterable[Airline]) -> dict[str, tuple[int | None, ...]]:
    return {airline.carrier: astuple(airline)[1:] for airline in airlines}
