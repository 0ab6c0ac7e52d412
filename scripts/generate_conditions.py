"""Generates the console's list of conditions from the words of the gateway's documents.

Usage: python -m scripts.generate_conditions [--check]
"""

import sys
from typing import get_args

from scripts.generated_page import ROOT, generate

from headrace.gateway_status.document import Condition

FILE = ROOT / "gateway" / "console" / "src" / "model" / "conditions.ts"


def text() -> str:
    """Returns the file's content."""
    words = "".join(f'  "{word}",\n' for word in get_args(Condition))
    return (
        "/** What a part does, in a word that the gateway decides. Made by scripts/generate_conditions.py. */\n\n"
        f"export const CONDITIONS = [\n{words}] as const;\n\n"
        "export type Condition = (typeof CONDITIONS)[number];\n"
    )


if __name__ == "__main__":
    sys.exit(generate(FILE, lambda _: text(), "scripts.generate_conditions", __doc__))
