"""Where the rules of the protocol are described."""

PAGE = "https://github.com/headrace/headrace/blob/main/docs/reference/protocol.md"


def link(rule: str) -> str:
    """The address of a rule, such as `SRC-12`."""
    return f"{PAGE}#{rule.lower()}"
