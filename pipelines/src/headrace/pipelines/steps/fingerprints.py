"""Fingerprints of steps, so that a step does not use the states of a different step with the same name."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipelines._errors import StateError


@dataclass(frozen=True)
class Fingerprint:
    """The properties of a step on which its states depend.

    Attributes:
        kind: The kind of states.
        key: The key of its values: the name of the function, if it has one.
        windows: Its windows; empty if it has none.
        sources: The patterns of the streams that reach it.
    """

    kind: str
    key: str
    windows: str
    sources: tuple[str, ...]

    def changes(self, now: "Fingerprint") -> list[str]:
        """The changes that make the states unusable. Sources may be added and removed, as long as one remains."""
        pairs = (
            ("its states are for", self.kind, now.kind),
            ("it is keyed by", self.key, now.key),
            ("its windows are", self.windows, now.windows),
        )
        there = "in the checkpoint"
        found = [f"{what} {is_now or 'none'} now, and {was or 'none'} {there}" for what, was, is_now in pairs if was != is_now]
        if not set(self.sources) & set(now.sources):
            found.append(f"it reads {', '.join(now.sources)} now, and {', '.join(self.sources)} {there}")
        return found


def check_fingerprints(there: Mapping[str, Fingerprint], now: Mapping[str, Fingerprint], migrated: Collection[str] = ()) -> None:
    """Compares the steps of a checkpoint with the steps of a pipeline.

    Args:
        there: The fingerprints in the checkpoint.
        now: The fingerprints of the pipeline.
        migrated: Steps that keep their states in spite of changes.

    Raises:
        StateError: A step has changed so that its states are unusable, and is not in `migrated`.
    """
    for name, was in there.items():
        changes = was.changes(now[name]) if name in now and name not in migrated else []
        if changes:
            raise StateError(
                f"step {name} is not the step that the checkpoint has states of: {'; '.join(changes)}; give the step "
                "another name, so that it starts without states, or keep the states as they are: "
                f"headrace run --migrate-states {name}"
            )


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, for the fingerprint; the same for all lambdas."""
    name = getattr(function, "__name__", "")
    if name == "<lambda>":
        return "a lambda"
    return name if name and (inspect.isroutine(function) or isinstance(function, type)) else f"a {type(function).__name__}"
