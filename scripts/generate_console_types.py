"""Generates the console's types of the gateway's documents from the OpenAPI description that the gateway serves.

Usage: python -m scripts.generate_console_types [--check]

Needs Node.js with npm: openapi-typescript, a dependency of the console, makes the types.
"""

import json
import sys
import tempfile
from pathlib import Path

from scripts import build_console
from scripts.generated_page import ROOT, generate

from headrace.gateway.http.openapi import openapi_document

FILE = ROOT / "gateway" / "console" / "src" / "client" / "openapi.ts"
_HEADER = "/** The documents of the gateway's API, made of its OpenAPI description by scripts/generate_console_types.py. */\n\n"


def text() -> str:
    """Returns the file's content.

    Raises:
        NpmMissing: There is no npm.
        BuildFailed: npm or the generator has failed.
    """
    build_console.install()
    document = openapi_document()
    # The console makes its requests itself, and takes the documents' types only.
    schemas = {**document, "paths": {}, "components": {"schemas": document["components"]["schemas"]}}
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "openapi.json"), Path(folder, "openapi.ts")
        given.write_text(json.dumps(schemas))
        generator = build_console.CONSOLE / "node_modules" / ".bin" / "openapi-typescript"
        build_console.run(build_console.CONSOLE, str(generator), str(given), "--output", str(made))
        return _HEADER + made.read_text()


if __name__ == "__main__":
    FILE.touch()
    sys.exit(generate(FILE, lambda _: text(), "scripts.generate_console_types", __doc__))
