"""Finds the line of each key in a TOML document, which tomllib does not provide.

tomllib has already parsed the document, so it is well-formed, and the scanner need not validate it.
"""

import re
from collections import defaultdict

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}#]+(?: \d\d:[^\s,\]}#]+)?")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def key_lines(document: str) -> dict[Path, int]:
    """Maps each key and each array element of a well-formed TOML document to its line, counted from 1.

    An array element is identified by its index: `("streams", 0, "pattern")`. A table has the line of its first mention.
    """
    return _Scanner(document).scan()


class _Scanner:
    """Scans a document once, and records where each key begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[Path, int] = {}
        self._array_tables: defaultdict[Path, int] = defaultdict(int)

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._peek("[["):
                array = self._header(2)
                table = (*array, self._array_tables[array])
                self._array_tables[array] += 1
                self._note_all(table, self._at)
            elif self._peek("["):
                table = self._header(1)
                self._note_all(table, self._at)
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self._lines

    def _header(self, brackets: int) -> Path:
        """Scans `[a.b]` or `[[a.b]]`; the returned path contains the latest index of each array of tables in it."""
        self._at += brackets
        keys = self._keys()
        self._at += brackets
        path: Path = ()
        for position, key in enumerate(keys):
            path = (*path, key)
            if position < len(keys) - 1 or brackets == 1:
                path = (*path, self._array_tables[path] - 1) if self._array_tables[path] else path
        return path

    def _pair(self, table: Path) -> None:
        """Scans `key = value`."""
        start = self._at
        path = (*table, *self._keys())
        self._note_all(path, start)
        self._at += 1
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        """Scans a value, and records the elements of arrays and the keys of inline tables."""
        if self._peek("["):
            self._at += 1
            self._skip(_BLANK)
            index = 0
            while not self._peek("]"):
                self._note_all((*path, index), self._at)
                self._value((*path, index))
                index += 1
                self._skip_comma()
            self._at += 1
        elif self._peek("{"):
            self._at += 1
            self._skip(_BLANK)
            while not self._peek("}"):
                self._pair(path)
                self._skip_comma()
            self._at += 1
        elif not self._skip(_STRING):
            self._skip(_SCALAR)

    def _keys(self) -> list[str]:
        """Scans a dotted key, up to the `=` or `]` that follows it."""
        keys = []
        while True:
            self._skip(_SPACE)
            start = self._at
            if self._skip(_STRING):
                keys.append(_unquoted(self._text[start : self._at]))
            else:
                self._skip(_BARE)
                keys.append(self._text[start : self._at])
            self._skip(_SPACE)
            if not self._peek("."):
                return keys
            self._at += 1

    def _peek(self, expected: str) -> bool:
        return self._text.startswith(expected, self._at)

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        if match is None:
            return False
        self._at = match.end()
        return True

    def _skip_comma(self) -> None:
        self._skip(_BLANK)
        if self._peek(","):
            self._at += 1
            self._skip(_BLANK)

    def _note_all(self, path: Path, at: int) -> None:
        """Records the line of the offset `at` for a path, and for its parents that have none yet."""
        line = self._text.count("\n", 0, at) + 1
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)


def _unquoted(quoted: str) -> str:
    """Returns the text of a quoted key."""
    if quoted.startswith("'"):
        return quoted[1:-1]
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if m[1][0] in "uU" else _ESCAPED.get(m[1], m[1]), quoted[1:-1])
