"""The messages that values of a pipeline come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.pipelines.elements.headers import Headers

Times = npt.NDArray[np.int64]
"""Microseconds since 1970-01-01 UTC."""

NO_TIME = -(2**63)
"""An unknown event time, or a watermark before all times."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Messages of one stream, in its order, that elements come from.

    Attributes:
        stream: Its name.
        sequences: The sequence of each message.
        raw: The value of each message, if a step may still need it; None for a tombstone.
        keys: The key of each message, if a step may still need it.
        times: The event time of each message, NO_TIME if it has none; None if no step needs times.
        ids: The id of each message, if a step may need it.
        headers: The headers of each message, if a step or a sink may need them; None also if no message has any.
    """

    stream: str
    sequences: npt.NDArray[np.int64]
    raw: Sequence[bytes | None] | None = None
    keys: Sequence[bytes | None] | None = None
    times: Times | None = None
    ids: Sequence[str | None] | None = None
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.sequences)
