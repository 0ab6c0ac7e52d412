"""The vectors of conformance/vectors, as every SDK reads them."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "conformance/vectors"


def read(name: str) -> Any:
    """A file of vectors."""
    return json.loads((FOLDER / name).read_text())


def named(cases: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Cases by their names."""
    return {case["name"]: case for case in cases}
