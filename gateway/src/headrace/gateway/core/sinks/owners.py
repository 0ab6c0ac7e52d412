"""Records which token owns a query: no other may deliver, vote or report commits for it."""

from collections import OrderedDict
from dataclasses import dataclass, field

from headrace.gateway.core.base.errors import NotPermitted
from headrace.gateway.identity import Identity

MAX_QUERIES = 10_000
"""The maximum number of remembered queries. Running queries report every second, so only long-ended ones are forgotten."""


@dataclass(slots=True)
class QueryOwners:
    """The name of the token that first used each query. A rotated token keeps its name, and so its queries."""

    _names: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def claim(self, query: str, identity: Identity) -> None:
        """Makes the caller the owner of a query without one; otherwise checks that it is the owner.

        Raises:
            NotPermitted: the query belongs to another token.
        """
        owner = self._names.setdefault(query, identity.name)
        if owner != identity.name:
            raise NotPermitted(f"query {query} belongs to the token of {owner!r}, and this is the token of {identity.name!r}")
        self._names.move_to_end(query)
        if len(self._names) > MAX_QUERIES:
            self._names.popitem(last=False)
