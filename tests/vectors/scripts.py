"""The scripts of sessions."""

from typing import Any

from tests.vectors.files import FOLDER, read

Script = dict[str, Any]


def scripts(side: str) -> dict[str, Script]:
    """The scripts that play one side, `connector` or `gateway`, by their names."""
    files = sorted(path.name for path in (FOLDER / "sessions").glob("*.json") if not path.name.endswith(".schema.json"))
    found = [script for name in files for script in read(f"sessions/{name}")["scripts"] if side in script["plays"]]
    names = [script["name"] for script in found]
    assert len(set(names)) == len(names)
    return dict(zip(names, found, strict=True))


def is_of_sink(script: Script) -> bool:
    """Whether a script is of a session of a sink."""
    hello = next((step["connector"] for step in script["steps"] if "connector" in step), {})
    return "sink" in hello.get("hello", {}) or "busy" in hello


def step_of(step: dict[str, Any]) -> tuple[str, Any]:
    """Who acts in a step, and what they do."""
    ((who, what),) = step.items()
    return who, what
