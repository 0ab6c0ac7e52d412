"""Generates the console's words from the words of the gateway's documents: the console and the commands use the same ones.

Usage: python -m scripts.generate_words [--check]
"""

import sys
from typing import get_args

from scripts.generated_page import ROOT, generate

from headrace.gateway.core import Kind, Problem
from headrace.gateway_status.timeline import MESSAGE_STATES
from headrace.protocol.v1.admin_documents import Condition, ProcessStateKind

FILE = ROOT / "gateway" / "console" / "src" / "model" / "words.ts"


def text() -> str:
    """Returns the file's content."""
    conditions = "".join(f'  "{word}",\n' for word in get_args(Condition))
    no_faults = ", ".join(f'"{kind}"' for kind in Kind if not Problem("", kind, "", 0, "").is_fault)
    states = "".join(f'  {_key(state)}: "{meaning}",\n' for state, meaning in MESSAGE_STATES.items())
    processes = ", ".join(f'"{word}"' for word in get_args(ProcessStateKind))
    return (
        "/** The words of the gateway's documents. Made by scripts/generate_words.py. */\n\n"
        "/** What a part does, as the gateway decides it. */\n"
        f"export const CONDITIONS = [\n{conditions}] as const;\n\n"
        "export type Condition = (typeof CONDITIONS)[number];\n\n"
        "/** The kinds of problems with which nothing is wrong. */\n"
        f"export const NO_FAULTS: readonly string[] = [{no_faults}];\n\n"
        "/** What a message does, by its state. */\n"
        f"export const MESSAGE_STATES: Record<string, string> = {{\n{states}}};\n\n"
        "/** What a process of a deployment does. */\n"
        f"export const PROCESS_STATES = [{processes}] as const;\n"
    )


def _key(word: str) -> str:
    return f'"{word}"' if "-" in word else word


if __name__ == "__main__":
    sys.exit(generate(FILE, lambda _: text(), "scripts.generate_words", __doc__))
