"""Text as payload."""

import codecs
from collections.abc import Callable
from dataclasses import dataclass

from headrace.pipelines._errors import GraphError
from headrace.pipelines.formats._format import Format


@dataclass(frozen=True)
class Text(Format[str]):
    """Text in an encoding that Python knows."""

    encoding: str = "utf-8"

    def __call__(self, encoding: str = "utf-8", *, drop_null: bool = False) -> "Text":
        """Returns the format of text in another encoding.

        Raises:
            GraphError: Python does not know the encoding.
        """
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise GraphError(f"text({encoding!r}): Python has no such encoding; take 'utf-8' or 'latin-1'") from error
        return Text(drop_null, encoding)

    @property
    def name(self) -> str:
        """The format, with an encoding other than UTF-8."""
        return "text" if self.encoding == "utf-8" else f"text({self.encoding!r})"

    def reader(self) -> Callable[[bytes], str]:
        """As `Format.reader`."""
        return lambda payload: payload.decode(self.encoding)

    def writer(self) -> Callable[[str], bytes]:
        """As `Format.writer`."""
        return lambda value: value.encode(self.encoding)


text = Text()
"""Text in UTF-8. `text("latin-1")` is text in another encoding."""
