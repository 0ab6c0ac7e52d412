"""Text for a terminal: what others have named or said, without the characters that steer a terminal or reorder a line."""


def printable(text: str, keep: str = "\n\t") -> str:
    r"""Returns a text in which each character that is not printable is written as Python writes it: ESC as `\x1b`.

    That are controls (C0, DEL and C1), marks of direction, surrogates, and what Unicode has not assigned. A terminal would obey
    some of them, and could be made to show another text, set its title, or clear its screen.

    Args:
        text: The text.
        keep: Characters that stay as they are; ends of lines and tabs by default.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _written(c) for c in text)


def _written(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
