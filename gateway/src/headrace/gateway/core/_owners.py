"""Whose a query's transactions are: nobody else may deliver, vote or settle for it."""

from collections import OrderedDict
from dataclasses import dataclass, field

from headrace.gateway._identity import Identity
from headrace.gateway.core._errors import NotPermitted

MAX_QUERIES = 10_000
"""Live queries settle every second, so that only those that have long ended are forgotten."""


@dataclass(slots=True)
class QueryOwners:
    """The identity that first used each query, by name: a token that is replaced keeps its queries."""

    _names: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def claim(self, query: str, identity: Identity) -> None:
        """Binds a query to who calls, or checks that it is.

        Raises:
            NotPermitted: it is somebody else's.
        """
        owner = self._names.setdefault(query, identity.name)
        if owner != identity.name:
            raise NotPermitted(f"query {query} belongs to the token of {owner!r}, and this is the token of {identity.name!r}")
        self._names.move_to_end(query)
        if len(self._names) > MAX_QUERIES:
            self._names.popitem(last=False)
