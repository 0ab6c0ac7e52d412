"""Counts as text: `1 deployment`, `1,000 deployments`."""

_VERBS = {"": "", "is": " are", "was": " were", "has": " have", "does": " do"}


def counted(count: int, noun: str, verb: str = "") -> str:
    """Formats a count for people: `1 deployment`, `1,000 deployments`, `2 micro-batches are`.

    Args:
        count: How many.
        noun: The noun in the singular, which may follow an adjective.
        verb: The verb that follows, in the singular: is, was, has or does; empty for none.
    """
    if count == 1:
        return f"1 {noun} {verb}".rstrip()
    plural = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    return f"{count:,} {plural}{_VERBS[verb]}"
