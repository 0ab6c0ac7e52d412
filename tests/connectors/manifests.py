"""Connectors in folders: manifests, and programs that write out what they got."""

import json
import os
import sys
from pathlib import Path
from typing import Any

MANIFEST = """
manifest_version = 1
name = "{name}"
kind = "source"
replayable = true
summary = "a queue of Acme"
version = "1.2.0"
language = "shell"
command = ["./run", "--from", "{{folder}}/x y"]
check = ["./check"]
capabilities = ["pace", "report"]

[parameters.source]
type = "text"
required = true
description = "The stream is named SOURCE/0."
examples = ["orders"]

[parameters.password]
type = "text"
secret = true
description = "Whom to be."

[parameters.hosts]
type = "text"
several = true
default = ["localhost"]
description = "Where it is."

[parameters.prefetch]
type = "integer"
default = 100
minimum = 1
maximum = 1000
description = "How many at once."

[parameters.buffer]
type = "size"
default = "64mb"
description = "How much is kept."

[parameters.wait]
type = "duration"
minimum = "1s"
description = "How long to wait."

[parameters.order]
type = "text"
choices = ["old", "new"]
default = "old"
description = "Which first."

[parameters.last]
type = "boolean"
default = false
description = "Whether to begin at the end."

[parameters.folder]
type = "path"
description = "Where to keep things."
"""

DUMP = f"""#!{sys.executable} -IS
import json, os, sys
seen = {{"argv": sys.argv, "environ": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}}
print(json.dumps(seen), flush=True)
"""
"""A program that prints what it got."""


def add(folder: Path, name: str = "acme", text: str = MANIFEST, **programs: str) -> Path:
    """A folder of the search path with a connector; returns its manifest."""
    own = folder / name
    before = os.umask(0o022)
    try:
        own.mkdir(parents=True)
        manifest = own / "headrace-connector.toml"
        manifest.write_text(text.format(name=name))
    finally:
        os.umask(before)
    for program, source in programs.items():
        (own / program).write_text(source)
        (own / program).chmod(0o755)
    return manifest


def environ(folder: Path, **variables: str) -> dict[str, str]:
    """An environment in which only the connectors of a folder are there besides the bundled ones."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return {**inherited, "HEADRACE_CONNECTORS": str(folder), "XDG_DATA_HOME": str(folder / "none"), "COLUMNS": "250", **variables}


def seen(output: str | bytes) -> dict[str, Any]:
    """The output of the program of `DUMP` printed."""
    document: dict[str, Any] = json.loads(output)
    return document
