"""Generates the console's types from the gateway's list of the fields of the history.

Usage: python -m scripts.generate_history_fields [--check]
"""

import sys

from scripts.generated_page import ROOT, generate

from headrace.gateway.core.status.history import FIELDS

FILE = ROOT / "gateway" / "console" / "src" / "model" / "history_fields.ts"


def text() -> str:
    """Returns the file's content."""
    kinds = [f"  {kind}:\n" + "\n".join(f'    | "{field}"' for field in fields) + ";\n" for kind, fields in FIELDS.items()]
    return (
        "/** The fields of the history, by kind of part. Made by scripts/generate_history_fields.py. */\n\n"
        f"export interface HistoryFields {{\n{''.join(kinds)}}}\n"
    )


if __name__ == "__main__":
    sys.exit(generate(FILE, lambda _: text(), "scripts.generate_history_fields", __doc__))
