"""Generates the lists in docs/reference/connectors/ and docs/write/plugins.md. With --check, fails if one is stale.

A list is between `<!-- parameters: NAME -->` and `<!-- end -->`; NAME is a connector, or `[gateway]` for the list that all
connectors share. `<!-- shared parameters: NAMES -->` starts the parameters that several connectors declare alike, which the other
lists leave out. `<!-- connectors -->` starts the list of all connectors, `<!-- manifest -->` the keys of a manifest, and
`<!-- manifest: parameter -->` the fields of a parameter in it. `<!-- behaviour: PAGE -->` starts what a connector does with
unusual input, as tests show; PAGE is the page's own name.
"""

import argparse
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from pydantic import BaseModel
from scripts.behaviours import behaviours, rows

from headrace.connectors import CONNECTORS, Connector, Parameter, declared
from headrace.connectors.configuration import GatewayTable
from headrace.connectors.manifests import Manifest, ParameterTable

ROOT = Path(__file__).resolve().parent.parent
PAGES = (*sorted((ROOT / "docs" / "reference" / "connectors").glob("*.md")), ROOT / "docs" / "write" / "plugins.md")

_WHAT = r"connectors|manifest|manifest: parameter|parameters: \S+|shared parameters: [\w -]+?|behaviour: \S+"
_LIST = re.compile(rf"(<!-- ({_WHAT}) -->\n).*?(<!-- end -->)", re.DOTALL)
_SHARED = re.compile(r"<!-- shared parameters: ([\w -]+?) -->")
_SHORT = {
    "list of ": "",
    "true or false": "Boolean",
    "whole number": "integer",
    ", at least ": " ≥ ",
    ", more than ": " > ",
    ", at most ": ", ≤ ",
}
LEFT_OUT = ("sink", "bad_records", "dead_letters")
"""Parameters that all sinks or all sources have: the README explains them, and no list repeats them."""
_OF_MANIFESTS: dict[str, type[BaseModel]] = {"manifest": Manifest, "manifest: parameter": ParameterTable}


def filled(text: str) -> str:
    """Returns a page with all its tables up to date.

    Raises:
        LookupError: The page names a connector that does not exist.
        ValueError: A mark of a test is wrong, or contradicts another one.
    """
    groups = [names.split() for names in _SHARED.findall(text)]

    def table(found: re.Match[str]) -> str:
        kind, _, name = found[2].partition(": ")
        match kind:
            case "connectors":
                lines = connectors()
            case "parameters":
                lines = parameters([name], groups)
            case "shared parameters":
                lines = parameters(name.split(), groups[: groups.index(name.split())])
            case "behaviour":
                lines = rows(name, behaviours(ROOT / "tests"))
            case _:
                lines = keys(_OF_MANIFESTS[found[2]])
        return "\n".join([found[1], *lines, "", found[3]])

    return _LIST.sub(table, text)


def parameters(names: list[str], groups: list[list[str]]) -> list[str]:
    """Returns the list of the parameters that connectors declare alike, without parameters that groups of them share."""
    above = {row for group in groups if set(names) <= set(group) for row in _common(group)}
    return [row for row in _common(names) if row not in above]


def _common(names: list[str]) -> list[str]:
    """Returns the items that several connectors share, in the order of the first."""
    first, *others = map(_rows, names)
    return [row for row in first if all(row in other for other in others)]


@cache
def _rows(name: str) -> list[str]:
    """Returns an item for each parameter of a connector."""
    known = {connector.name: connector for connector in CONNECTORS}
    if name not in known and name != "[gateway]":
        raise LookupError(f"there is no connector {name}")
    model = GatewayTable if name == "[gateway]" else known[name].load().parameters
    return [_row(parameter) for parameter in declared(model) if parameter.name not in LEFT_OUT]


def connectors() -> list[str]:
    """Returns the list of all connectors."""
    return list(map(_summary, CONNECTORS))


def keys(model: type[BaseModel]) -> list[str]:
    """Returns the list of the keys of a manifest, or of a table in it."""
    return [
        f"- `{name}`{' (required)' if field.is_required() else ''}: {escaped(field.description or '')}"
        for name, field in model.model_fields.items()
    ]


def _row(parameter: Parameter) -> str:
    """Returns the item of a parameter."""
    default = "required" if parameter.required else f"`{parameter.default_text}`" if parameter.default_text else ""
    value = "; ".join(part for part in (_type(parameter), default) if part)
    secret = " Secret." if parameter.secret else ""
    more = f" ({escaped(value)})" if value else ""
    return f"- `{parameter.name}`{more}: {escaped(parameter.description)}{secret}"


def _type(parameter: Parameter) -> str:
    """Returns the type of a parameter in the short form of a list: nothing for a text."""
    if parameter.type == "text":
        return ""
    for words, short in _SHORT.items():
        parameter = replace(parameter, type=parameter.type.replace(words, short))
    return parameter.type


def _summary(connector: Connector) -> str:
    """Returns the item of a connector, with a link to the page of its system."""
    page = connector.module.partition(":")[0].rpartition(".")[2]
    promise = connector.guarantee.partition(":")[0]
    return f"- [`{connector.name}`]({page}.md) ({connector.kind}; {promise}): {escaped(connector.summary)}"


def escaped(text: str) -> str:
    """Escapes text for Markdown."""
    return text.replace("<", "&lt;")


def stale(page: Path) -> bool:
    """Whether a table of a page is out of date."""
    return page.read_text() != filled(page.read_text())


def main() -> int:
    """Generates or checks the lists."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with code 1 if a page is stale")
    check: bool = parser.parse_args().check
    pages = [page for page in PAGES if stale(page)]
    if check and pages:
        names = ", ".join(str(page.relative_to(ROOT)) for page in pages)
        print(f"not current: {names}; run: {sys.executable} -m scripts.generate_connector_pages", file=sys.stderr)
        return 1
    for page in pages:
        page.write_text(filled(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
