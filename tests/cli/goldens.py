"""What commands printed when somebody last looked at it."""

import os
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def expected(name: str, found: str) -> str:
    """The golden text; written anew where UPDATE_GOLDEN is set, for a person to look at the difference."""
    if "UPDATE_GOLDEN" in os.environ:
        (GOLDEN / name).write_text("".join(f"{line.rstrip()}\n" for line in found.splitlines()), encoding="utf-8")
    return (GOLDEN / name).read_text(encoding="utf-8")
