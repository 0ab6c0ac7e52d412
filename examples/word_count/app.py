"""Word count: how often each word has been seen so far."""

import re
from dataclasses import dataclass

from headrace.pipelines import Pipeline

_WORD = re.compile(r"[a-z']+")


@dataclass(slots=True)
class Tally:
    """The state of a word."""

    seen: int = 0


def words(line: str) -> list[str]:
    """Returns the words of a line, in lower case."""
    return _WORD.findall(line.lower())


def count(word: str, tally: Tally) -> str:
    """Counts a word, and returns it with its count."""
    tally.seen += 1
    return f"{word} {tally.seen}"


app = Pipeline("word_count")
lines = app.source("lines/*", decode=bytes.decode)
lines.flat_map(words).key_by(lambda word: word).stateful(count, Tally, name="tallies").sink("counts")
