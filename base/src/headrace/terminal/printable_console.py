"""A console of Rich that shows only what is printable, whoever has written it."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from headrace.contract.printable import printable


class PrintableConsole(Console):
    """Writes unprintable characters as escapes. Its own controls, such as the controls of a live view, remain.

    Text is never markup: a name in brackets would be taken for a style, or be an error.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Renders a string. It is replaced here too, so that its width is known before it is laid out."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders anything into segments."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
