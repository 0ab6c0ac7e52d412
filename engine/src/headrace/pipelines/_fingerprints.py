"""What the states of a step rest on besides its name, so that a checkpoint is not taken on by a step that is another one."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipelines._errors import StateError


@dataclass(frozen=True)
class Fingerprint:
    """What the states of a step rest on.

    Attributes:
        kind: What the step keeps.
        key: What its values are keyed by: the name of a function, as far as it has one.
        windows: Its windows; empty where it has none.
        sources: The patterns of the streams that reach it.
    """

    kind: str
    key: str
    windows: str
    sources: tuple[str, ...]

    def changes(self, now: "Fingerprint") -> list[str]:
        """What has changed so that the states may be another's. A source may come or go, as long as one stays."""
        pairs = (
            ("it keeps what is for", self.kind, now.kind),
            ("it is keyed by", self.key, now.key),
            ("its windows are", self.windows, now.windows),
        )
        found = [f"{what} {is_now or 'none'} now, and {was or 'none'} there" for what, was, is_now in pairs if was != is_now]
        if not set(self.sources) & set(now.sources):
            found.append(f"it reads {', '.join(now.sources)} now, and {', '.join(self.sources)} there")
        return found


def check_fingerprints(there: Mapping[str, Fingerprint], now: Mapping[str, Fingerprint], migrated: Collection[str] = ()) -> None:
    """Compares the steps of a checkpoint with those of a pipeline.

    Raises:
        StateError: states would be taken on by a step that is another one, and is not among those to be `migrated`.
    """
    for name, was in there.items():
        changes = was.changes(now[name]) if name in now and name not in migrated else []
        if changes:
            raise StateError(
                f"step {name} is another one than that which the checkpoint has states of: {'; '.join(changes)}; give the step "
                "another name, and it begins anew, or have it take on these states as they are: "
                f"headrace run --migrate-states {name}"
            )


def named(function: Callable[..., Any]) -> str:
    """A function as people call it; all lambdas alike."""
    name = getattr(function, "__name__", "")
    if name == "<lambda>":
        return "a lambda"
    return name if name and (inspect.isroutine(function) or isinstance(function, type)) else f"a {type(function).__name__}"
