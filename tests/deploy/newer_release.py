"""What the next release has that this one has not: a field on the wire, which its SDK sends and its status shows."""

import subprocess
import sys
from pathlib import Path

BUILT = "at noon"
"""What the SDK of the newer release says in the new field, `build`."""
_CHANGES = {
    "proto/headrace/protocol/v1/connector.proto": (
        "  string language = 3;\n",
        "  string language = 3;\n  // How it was built.\n  string build = 4;\n",
    ),
    "sdk/python/src/headrace/sdk/wire/_reports.py": ('language="python")', f'language="python", build="{BUILT}")'),
    "base/src/headrace/protocol/v1/admin_documents.py": ("    language: str\n", "    language: str\n    build: str\n"),
}
"""Each file with what is replaced once in it."""
_STUBS = "headrace/protocol/v1/connector.proto"


def change(tree: Path) -> None:
    """Makes a copy of the tree the newer release."""
    for name, (before, after) in _CHANGES.items():
        text = (tree / name).read_text()
        assert text.count(before) == 1, (name, before)
        (tree / name).write_text(text.replace(before, after))
    out = tree / "base/src"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tree / 'proto'}", f"--python_out={out}", _STUBS]
    subprocess.run(command, check=True, cwd=tree, timeout=300)
