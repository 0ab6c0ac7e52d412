"""Generates the lists in docs/write/conformance.md from the kit's declarations. With --check, fails if one is stale.

A list is between `<!-- keys: MODEL -->` and `<!-- end -->`.
"""

import re
import sys

from pydantic import BaseModel
from scripts.generate_connector_pages import escaped
from scripts.generated_page import ROOT, generate, is_stale

from headrace.conformance.core.spec import Deadlines, SinkSpec, SourceSpec, Spec

PAGE = ROOT / "docs" / "write" / "conformance.md"
MODELS: dict[str, type[BaseModel]] = {"both": Spec, "source": SourceSpec, "sink": SinkSpec, "deadlines": Deadlines}

_LIST = re.compile(r"(<!-- keys: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Returns the page with all its tables up to date."""
    return _LIST.sub(lambda match: "\n".join([match[1], *keys(match[2]), "", match[3]]), text)


def keys(name: str) -> list[str]:
    """Returns the list of the keys of a specification that are not in the table for both kinds."""
    model = MODELS[name]
    common = set() if model is Spec else set(Spec.model_fields)
    fields = [(key, field) for key, field in model.model_fields.items() if key not in common]
    return [f"- `{key}`{_default(field.default)}: {escaped(field.description or '')}" for key, field in fields]


def _default(value: object) -> str:
    """Returns a default as it is written in the file, in parentheses; nothing for none."""
    if value is None or value == () or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return f" (`{str(value).lower()}`)"
    return f' (`"{value}"`)' if isinstance(value, str) else f" (`{value:g}`)"


def stale() -> bool:
    """Whether a table of the page is out of date."""
    return is_stale(PAGE, filled)


if __name__ == "__main__":
    sys.exit(generate(PAGE, filled, "scripts.generate_conformance_page", __doc__))
