"""Many payloads at once, as a record batch with a column for each field."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any

from headrace.pipelines._errors import FormatError, Unavailable, reason_of

if TYPE_CHECKING:
    import pyarrow as pa

PIECE = 1024
"""How many payloads are objects at a time: more would not fit into the processor's cache."""


@dataclass(frozen=True)
class Block:
    """The values of many payloads.

    Attributes:
        batch: A row for each payload that is neither null nor faulty, in order.
        there: The index of the payload of each row.
        errors: The error of each faulty payload, by its index.
    """

    batch: "pa.RecordBatch"
    there: Sequence[int]
    errors: Mapping[int, FormatError] = field(default_factory=dict)


class ColumnReader(ABC):
    """Reads the payloads of a block into columns."""

    @property
    @abstractmethod
    def schema(self) -> "pa.Schema":
        """The columns."""

    @abstractmethod
    def read(self, payloads: Sequence[bytes | None]) -> Block:
        """Returns the values of payloads. A payload that is None, or reads as null, has no row.

        Raises:
            Unavailable: A registry, or another service of the format, did not answer.
        """


@dataclass(frozen=True)
class ObjectReader(ColumnReader):
    """Reads payloads one by one, and makes columns of a piece of them.

    Attributes:
        name: The format, for errors.
        columns: The columns.
        read_one: Returns the value of a payload; None for a null. It may raise any exception.
        batch_of: Returns the rows of values. It may raise any exception if a value does not fit.
    """

    name: str
    columns: "pa.Schema"
    read_one: Callable[[bytes], Any]
    batch_of: Callable[[Sequence[Any]], "pa.RecordBatch"]

    @property
    def schema(self) -> "pa.Schema":
        """The columns."""
        return self.columns

    def read(self, payloads: Sequence[bytes | None]) -> Block:
        """As `ColumnReader.read`."""
        blocks = [self._piece(payloads[begin : begin + PIECE]) for begin in range(0, len(payloads), PIECE)]
        return joined(self.columns, blocks, PIECE)

    def _piece(self, payloads: Sequence[Any]) -> Block:
        try:
            values = list(map(self.read_one, payloads))
            if NoneType not in set(map(type, values)):
                return Block(self.batch_of(values), range(len(values)))
        except Unavailable:
            raise
        except Exception:
            pass  # one of the payloads is null or faulty
        return self._one_by_one(payloads)

    def _one_by_one(self, payloads: Sequence[bytes | None]) -> Block:
        values, there, errors = list[Any](), list[int](), dict[int, FormatError]()
        for index, payload in enumerate(payloads):
            if payload is None:
                continue
            try:
                value = self.read_one(payload)
                if value is not None:
                    self.batch_of([value])
            except (FormatError, Unavailable) as error:
                if isinstance(error, Unavailable):
                    raise
                errors[index] = error
            except Exception as error:
                errors[index] = FormatError(f"{self.name}: {reason_of(error)}")
            else:
                if value is not None:
                    values.append(value)
                    there.append(index)
        return Block(self.batch_of(values), there, errors)


def joined(schema: "pa.Schema", blocks: Sequence[Block], size: int) -> Block:
    """Returns the values of consecutive blocks of `size` payloads each, of which the last one may have fewer."""
    import pyarrow as pa

    if len(blocks) == 1:
        return blocks[0]
    there, errors = list[int](), dict[int, FormatError]()
    for number, block in enumerate(blocks):
        there += [number * size + index for index in block.there]
        errors |= {number * size + index: error for index, error in block.errors.items()}
    batches = pa.Table.from_batches([block.batch for block in blocks], schema).combine_chunks().to_batches()
    return Block(batches[0] if batches else empty(schema), there, errors)


def merged(schema: "pa.Schema", blocks: Sequence[Block]) -> Block:
    """Returns the values of blocks whose payloads alternate, in the order of the payloads."""
    import pyarrow as pa

    if len(blocks) == 1:
        return blocks[0]
    there = [index for block in blocks for index in block.there]
    errors = {index: error for block in blocks for index, error in block.errors.items()}
    if not there:
        return Block(empty(schema), there, errors)
    order = sorted(range(len(there)), key=there.__getitem__)
    table = pa.Table.from_batches([block.batch for block in blocks], schema).take(order)
    return Block(table.combine_chunks().to_batches()[0], [there[index] for index in order], errors)


def empty(schema: "pa.Schema") -> "pa.RecordBatch":
    """Returns no rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)
