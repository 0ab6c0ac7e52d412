"""Files of variables for a configuration, `NAME=value` line by line, as systemd and Compose read them."""

import re
from collections.abc import Mapping
from pathlib import Path

from headrace.configuration.errors import ConfigurationError, Problem

MAX_BYTES = 1 << 20

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"\\$`]*)\"")


def read_env_file(path: Path) -> Mapping[str, str]:
    """Returns the variables of a file.

    Blank lines and lines that begin with `#` are skipped. A value reaches to the end of its line, without the white space around
    it; quotes around all of it are not part of it. Nothing is expanded.

    Raises:
        ConfigurationError: The file cannot be read, or a line is invalid. The error shows no values.
    """
    found: dict[str, str] = {}
    problems = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            problems.append(Problem(str(path), number, "", "write NAME=value, without spaces around ="))
            continue
        name, value = match[1], match[2].strip()
        quoted = _QUOTED.fullmatch(value)
        if quoted is not None:
            value = quoted[1] if quoted[1] is not None else quoted[2]
        elif value[:1] in ("'", '"'):
            problems.append(
                Problem(str(path), number, name, "quotes go around the whole value; write '...' if it contains \\, $ or `")
            )
        if name in found:
            problems.append(Problem(str(path), number, name, "has a value above already; remove one of the two"))
        found[name] = value
    if problems:
        raise ConfigurationError(problems)
    return found


def _text(path: Path) -> str:
    try:
        # A FIFO would block, or could be read once only: the processes of a deployment read the file, too.
        if path.exists() and not path.is_file():
            raise _unreadable(path, "is a folder or a device, and no file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise _unreadable(path, f"is too large: more than {MAX_BYTES:,} bytes")
        if b"\0" in content:
            raise _unreadable(path, "is binary, and no text")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise _unreadable(path, "there is no such file") from None
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _unreadable(path, "is not UTF-8 text") from None


def _unreadable(path: Path, message: str) -> ConfigurationError:
    return ConfigurationError([Problem(str(path), None, "", message)])
