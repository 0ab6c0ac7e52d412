"""Generates the console's types of the gateway's documents from the OpenAPI description that the gateway serves.

Usage: python -m scripts.generate_console_types

Needs Node.js with npm: openapi-typescript, a dependency of the console, makes the types. They are not committed: its pages are
built without them, and only its lint checks them.
Exit codes: 0 if the types are written, 3 if this machine has no npm, 1 if the generator has failed.
"""

import json
import sys
import tempfile
from pathlib import Path

from scripts import build_console

from headrace.gateway.http.openapi import openapi_document

FILE = build_console.CONSOLE / build_console.TYPES
_HEADER = "/** The documents of the gateway's API, made of its OpenAPI description by scripts/generate_console_types.py. */\n\n"


def generate() -> None:
    """Writes the types.

    Raises:
        NpmMissing: There is no npm.
        BuildFailed: npm or the generator has failed.
    """
    build_console.install()
    document = openapi_document()
    # The console makes its requests itself, and takes the documents' types only.
    schemas = {**document, "paths": {}, "components": {"schemas": document["components"]["schemas"]}}
    with tempfile.TemporaryDirectory(dir=build_console.CONSOLE / "node_modules", prefix=".types-") as folder:
        given, made = Path(folder, "openapi.json"), Path(folder, "openapi.ts")
        given.write_text(json.dumps(schemas))
        generator = build_console.CONSOLE / "node_modules" / ".bin" / "openapi-typescript"
        build_console.run(build_console.CONSOLE, str(generator), str(given), "--output", str(made))
        made.write_text(_HEADER + made.read_text())
        made.replace(FILE)


if __name__ == "__main__":
    try:
        generate()
    except build_console.NpmMissing as error:
        print(f"headrace: no types of the console: {error}", file=sys.stderr)
        sys.exit(3)
    except build_console.BuildFailed as error:
        print(f"headrace: no types of the console: {error}", file=sys.stderr)
        sys.exit(1)
