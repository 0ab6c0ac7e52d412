"""Generates the console's words from the words of the gateway's documents, and its types from the fields of the history.

The console and the commands use the same words.

Usage: python -m scripts.generate_console_words [--check]
"""

import sys
from functools import partial
from pathlib import Path
from typing import get_args

from scripts.generated_page import ROOT, generate

from headrace.gateway.core import Kind, Problem
from headrace.gateway.core.status.history import FIELDS
from headrace.gateway_status.timeline import MESSAGE_STATES
from headrace.protocol.v1.admin_documents import Condition, ProcessStateKind

MODEL = ROOT / "gateway" / "console" / "src" / "model"


def texts() -> dict[Path, str]:
    """Returns the content of each file."""
    return {MODEL / "words.ts": _words(), MODEL / "history_fields.ts": _history_fields()}


def _words() -> str:
    conditions = "".join(f'  "{word}",\n' for word in get_args(Condition))
    no_faults = ", ".join(f'"{kind}"' for kind in Kind if not Problem("", kind, "", 0, "").is_fault)
    states = "".join(f'  {_key(state)}: "{meaning}",\n' for state, meaning in MESSAGE_STATES.items())
    processes = ", ".join(f'"{word}"' for word in get_args(ProcessStateKind))
    return (
        "/** The words of the gateway's documents. Made by scripts/generate_console_words.py. */\n\n"
        "/** The activity of a part, as the gateway decides it. */\n"
        f"export const CONDITIONS = [\n{conditions}] as const;\n\n"
        "export type Condition = (typeof CONDITIONS)[number];\n\n"
        "/** The kinds of problems with which nothing is wrong. */\n"
        f"export const NO_FAULTS: readonly string[] = [{no_faults}];\n\n"
        "/** The progress of a message, by its state. */\n"
        f"export const MESSAGE_STATES: Record<string, string> = {{\n{states}}};\n\n"
        "/** The state of a process of a deployment. */\n"
        f"export const PROCESS_STATES = [{processes}] as const;\n"
    )


def _history_fields() -> str:
    kinds = [f"  {kind}:\n" + "\n".join(f'    | "{field}"' for field in fields) + ";\n" for kind, fields in FIELDS.items()]
    return (
        "/** The fields of the history, by kind of part. Made by scripts/generate_console_words.py. */\n\n"
        f"export interface HistoryFields {{\n{''.join(kinds)}}}\n"
    )


def _whole(text: str, before: str) -> str:
    del before
    return text


def _key(word: str) -> str:
    return f'"{word}"' if "-" in word else word


if __name__ == "__main__":
    made = {file: partial(_whole, text) for file, text in texts().items()}
    sys.exit(generate(made, "scripts.generate_console_words", __doc__))
