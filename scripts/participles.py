"""Finds names that are participles, such as `told` or `kept`: part of `make lint`. They do not say what they hold.

It looks at names that more than one function reads: functions, methods, classes, parameters, fields, attributes and modules.
The names in `participles.txt` stay until somebody finds better ones; `python -m scripts.participles --list` prints all.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.prose import ROOT, sources

WORDS = frozenset(
    [
        *("asked", "begun", "found", "given", "gone", "kept", "known", "lost", "made"),
        *("met", "named", "said", "seen", "shown", "taken", "told", "wanted"),
    ]
)
EXCEPTIONS = Path(__file__).with_name("participles.txt")
_SOME = re.compile(rf"(?<![^\W_])(?:{'|'.join(sorted(WORDS))})(?![^\W_])")
"""Whether a module may have such a name: most need not be parsed."""


def names(tree: ast.AST, within: str = "") -> Iterator[tuple[int, str]]:
    """Yields the line and the name of each participle; a parameter with its function."""
    for node in ast.iter_child_nodes(tree):
        inside = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not within and _is_participle(node.name):
                yield node.lineno, node.name
            if not isinstance(node, ast.ClassDef):
                inside = node.name
                for argument in ast.walk(node.args):
                    if isinstance(argument, ast.arg) and _is_participle(argument.arg):
                        yield argument.lineno, f"{node.name}({argument.arg})"
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_participle(node.attr):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not within and _is_participle(node.id):
            yield node.lineno, node.id
        yield from names(node, inside)


def _is_participle(name: str) -> bool:
    return name.strip("_") in WORDS


def findings() -> dict[str, int]:
    """Returns each participle of the product, as `module name`, with its first line."""
    found: dict[str, int] = {}
    for path in sources():
        module = path.relative_to(ROOT).as_posix().partition("src/headrace/")[2].removesuffix(".py")
        if _is_participle(path.stem):
            found.setdefault(f"{module} {path.stem}", 1)
        source = path.read_text()
        for line, name in names(ast.parse(source)) if _SOME.search(source) else ():
            found.setdefault(f"{module} {name}", line)
    return found


def main() -> int:
    """Prints each new participle, and each exception that is no longer needed; returns how the process ends."""
    found = findings()
    if "--list" in sys.argv:
        print(*sorted(found), sep="\n")
        return 0
    listed = set(EXCEPTIONS.read_text().splitlines())
    lines = [f"{at.replace(' ', f'.py:{line}: ')}: name what it holds" for at, line in found.items() if at not in listed]
    lines += [f"{EXCEPTIONS.name}: {at}: remove the line, there is no such name" for at in sorted(listed - set(found))]
    print(*lines, sep="\n", end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
