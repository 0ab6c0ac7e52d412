"""What precedes the first line of a file: a hole of zeros, and a byte order mark. Finds the encoding of the lines."""

from headrace.connectors.file._encoding import Encoding, marked, may_be_marked

_UNDECIDED_BYTES = 64 * 1024


class Beginning:
    """The beginning of a file of lines."""

    def __init__(self, default: Encoding, before: Encoding | None) -> None:
        """Creates it, without data.

        Args:
            default: The encoding of files without a byte order mark.
            before: The encoding of the file before it in its stream; None if that is unknown, or there is none.
        """
        self._default = default
        self._before = before
        self.zeros = 0
        """The number of zero bytes that were skipped, so far: no text begins with them.

        A log that was truncated under a writer that does not append begins with a hole as long as the log was.
        """

    def skipped(self, data: bytes, *, is_whole: bool) -> tuple[int, Encoding | None]:
        """Returns how many bytes of the next data to skip, and the encoding of the lines; None as long as that is unknown.

        Args:
            data: The data after what was skipped.
            is_whole: Whether no more data follows.
        """
        zeros = len(data) - len(data.lstrip(b"\0"))
        # The last zero bytes before others may belong to a code unit.
        zeros -= zeros % max(self._default.unit, 1 if self._before is None else self._before.unit)
        self.zeros += zeros
        text = data[zeros:]
        encoding = self._encoding(text, is_whole=is_whole) if text else None
        if encoding is None:
            return zeros, None
        mark = encoding.byte_order_mark
        if encoding is Encoding.UTF_32_BE and self.zeros == 2:
            self.zeros, mark = 0, mark[2:]
        return zeros + (len(mark) if text.startswith(mark) else 0), encoding

    def _encoding(self, text: bytes, *, is_whole: bool) -> Encoding | None:
        """Returns the encoding of a file that begins with some text; None as long as that is too little to tell."""
        if self._default is Encoding.BYTES:
            return self._default
        if may_be_marked(text) and not is_whole:
            return None
        found = marked(text)
        if found is Encoding.UTF_16_BE and self.zeros == 2:
            # The mark of UTF-32 begins with two zeros.
            return Encoding.UTF_32_BE
        if found is not None or self._default.unit > 1:
            return found or self._default
        if self._before is None or self._before.unit == 1:
            return Encoding.UTF_8
        return self._unmarked(text, self._before, is_enough=is_whole or len(text) >= _UNDECIDED_BYTES)

    @staticmethod
    def _unmarked(text: bytes, before: Encoding, *, is_enough: bool) -> Encoding | None:
        """Returns the encoding of text without a mark, whose stream had large code units before.

        A log that is truncated while its writer keeps it open begins without a mark. A line in UTF-16 has a zero byte, if only
        in its line feed; text in UTF-8 has none.
        """
        end = text.find(b"\n")
        if b"\0" in (text if end < 0 else text[: end + before.unit]):
            return before
        return Encoding.UTF_8 if end >= 0 or is_enough else None
