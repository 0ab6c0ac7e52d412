"""What the user has chosen: the view, the order, the filter and the page. Keys change it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.gateway_cli.live.rows import Row
from headrace.gateway_cli.live.views import VIEWS, Column

_NAMES = tuple(VIEWS)
_HIDDEN_WHEN_PAGED = 1
_MAX_FILTER = 60


@dataclass(frozen=True, slots=True)
class Order:
    """A column to sort by."""

    column: int = 0
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The user's choices."""

    view: str = _NAMES[0]
    orders: dict[str, Order] = field(default_factory=dict)
    """By view; the names in order where there is none."""
    filters: dict[str, str] = field(default_factory=dict)
    """By view."""
    top: int = 0
    """The first row that is shown."""
    is_typing: bool = False
    """Whether keys are typed into the filter."""
    ended: bool = False

    @property
    def order(self) -> Order:
        """The order of the view."""
        return self.orders.get(self.view, Order())

    @property
    def filter(self) -> str:
        """The filter of the view: rows whose texts contain it are shown; empty for all."""
        return self.filters.get(self.view, "")

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        """Returns the rows of the view that pass the filter, in order."""
        columns, wanted = VIEWS[self.view], self.filter.lower()
        found = [row for row in rows if wanted in _text(row, columns)] if wanted else list(rows)
        column = columns[self.order.column]
        found.sort(key=lambda row: _sortable(row[column.title]), reverse=self.order.reverse)
        return found

    def press(self, key: str, rows: int, page: int) -> "State":
        """Returns what is chosen once a key was pressed.

        Args:
            key: The key: a character, or the name of a key such as `up`.
            rows: How many rows pass the filter.
            page: How many rows fit.
        """
        if key == "interrupt":
            return replace(self, ended=True)
        if self.is_typing:
            return self._type(key)
        if key == "q":
            return replace(self, ended=True)
        if key == "/":
            return replace(self, is_typing=True)
        if key == "escape":
            return self._filtered("")
        if key in ("tab", "right", "left", "backtab"):
            return self._turn(1 if key in ("tab", "right") else -1)
        if key.isdigit() and 0 < int(key) <= len(_NAMES):
            return replace(self, view=_NAMES[int(key) - 1], top=0)
        if key in ("<", ">", "r"):
            return self._sorted(key)
        last, step = max(0, rows - page), max(1, page - _HIDDEN_WHEN_PAGED)
        moves = {"up": -1, "down": 1, "pageup": -step, "pagedown": step, " ": step, "home": -rows, "end": rows}
        return replace(self, top=min(last, max(0, min(self.top, last) + moves.get(key, 0))))

    def _type(self, key: str) -> "State":
        if key == "escape":
            return replace(self._filtered(""), is_typing=False)
        if key == "enter":
            return replace(self, is_typing=False)
        if key == "backspace":
            return self._filtered(self.filter[:-1])
        return self._filtered((self.filter + key)[:_MAX_FILTER]) if len(key) == 1 and key.isprintable() else self

    def _filtered(self, text: str) -> "State":
        return replace(self, filters={**self.filters, self.view: text}, top=0)

    def _turn(self, by: int) -> "State":
        return replace(self, view=_NAMES[(_NAMES.index(self.view) + by) % len(_NAMES)], top=0)

    def _sorted(self, key: str) -> "State":
        order, columns = self.order, VIEWS[self.view]
        if key == "r":
            order = replace(order, reverse=not order.reverse)
        else:
            column = (order.column + (1 if key == ">" else -1)) % len(columns)
            order = Order(column, reverse=columns[column].is_number)
        return replace(self, orders={**self.orders, self.view: order}, top=0)


def _text(row: Row, columns: Sequence[Column]) -> str:
    return " ".join(str(row[column.title]) for column in columns if not column.is_number).lower()


def _sortable(value: object) -> tuple[bool, object]:
    """Returns a key to sort by: what is not known comes first, or last in reverse."""
    return (value is not None, value if value is not None else 0)
