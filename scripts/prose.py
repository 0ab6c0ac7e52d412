"""Finds constructions that stop a reader, in pages, docstrings, texts and comments: part of `make lint`.

Texts are help, errors, log lines, and the docstrings of attributes. Comments are read in `proto/` and in all languages, and all
that `headrace new` writes. Texts of tests do not count: they quote what the product prints, and what it must not print.

Name the thing instead of a pronoun (`those of`, `those that`), and write who does what, in the order in which it happens.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import lru_cache
from io import StringIO
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ROOTS = ("engine/java", "examples", "gateway/console", "sdk")
PAGES = (
    "*.md",
    "docs/**/*.md",
    "*/README.md",
    "sdk/*/*.md",
    "examples/*/README.md",
    "sdk/examples/*/README.md",
    "conformance/*/README.md",
)
COMMENTED = ("proto/**/*.proto", *(f"{root}/**/*{end}" for root in _ROOTS for end in (".go", ".java", ".rs", ".ts", ".tsx")))
TEMPLATES = "src/headrace/scaffold/templates/**/*.template"
GENERATED = {"gen", "node_modules", "protocol", "target", "dist"}
"""Folders of stubs, and of what builds leave."""
DATED = "docs/internals/decisions/2"
"""Decisions are dated, and stay as they were written."""

CONSTRUCTIONS = {
    "name the thing again": r"\b(?:that|those) of\b",
    "name the deadline, or whatever it is": r"\b(?:by default|than|as|like) that (?:for|in|on|at|from|by|with)\b",
    "name which one": r"\b(?:is|are|was|were) (?:that|those) (?:in|on|at|by|from|to) which\b",
    "name them": r"\bthose (?:that|which|who|whose|with|in|on|at|for)\b",
    "name the subject": r"(?:^|[.:;] )What (?:is|was|are|has|a|an|the|it|they|you|others|nobody|no|cannot)\b[^?:|]*?\.",
    "name the content": r"\b(?:say|says|said) so\b",
    "continues, or another verb": r"\b(?:go|goes|going|went) on\b",
    "who tells whom?": r"\b(?:is|are|was|were) told(?! to stop)\b",
    "start with the subject": r"\bAs for\b|\bso many\b(?! (?:as|that))|\b(?:of|after|for) so long\b(?! (?:as|that))",
    "permanently, or forever": r"\bfor good\b",
    "no longer": r"\b(?:not|never|nothing|nobody|no|none)\b[^.;:]*\bany more\b",
    "name the place": r"\bas\b[^.:;,()]{1,40}\b(?:has|have|had) (?:it|them)\b(?! [a-z]+ed\b)",
    "name who says it, or the report": r"\bwhat (?:is|was) (?:said|told)\b",
    "contain, get, keep or own": r"\b(?:has|have|had) it\b(?! [a-z]+ed\b)",
}
EXCEPTIONS = frozenset[str]()
_PATTERNS = {advice: re.compile(words.replace(" ", r"\s+"), re.MULTILINE) for advice, words in CONSTRUCTIONS.items()}
Search = Callable[[str], Iterator[tuple[int, str, str]]]
_COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"'])//[^\n]*(?:\n[ \t]*//[^\n]*)*", re.DOTALL)
_LITERAL = re.compile(r'(?<=")(?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*(?=")')
_SKIPPED = re.compile(r"^```.*?^```$|<!--.*?-->|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """The line of each construction in a page, its words, and what to do instead. Code and comments do not count."""
    prose = _SKIPPED.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)
    for advice, pattern in _PATTERNS.items():
        for match in pattern.finditer(prose):
            words = " ".join(match[0].split())
            if words not in EXCEPTIONS:
                yield prose.count("\n", 0, match.start()) + 1, words, advice


def pages() -> list[Path]:
    """The pages that are checked."""
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(path for path in found if not path.relative_to(ROOT).as_posix().startswith(DATED))


def sources() -> list[Path]:
    """The modules of the product; the laboratory is not published."""
    folders = [folder for folder in ROOT.glob("*/src/headrace") if folder.parts[-3] != "laboratory"]
    folders += [ROOT / "src/headrace", ROOT / "sdk/python/src/headrace"]
    found = (path for folder in folders for path in folder.rglob("*.py"))
    return sorted(path for path in found if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")))


def modules() -> list[Path]:
    """The modules that are checked: of the product, of the laboratory, of examples and of this folder."""
    others = (path for folder in ("laboratory", "examples", "sdk/examples", "scripts") for path in (ROOT / folder).rglob("*.py"))
    return sorted({*sources(), *(path for path in others if not GENERATED.intersection(path.relative_to(ROOT).parts))})


def tests() -> list[Path]:
    """The modules of the tests, whose docstrings and comments are checked."""
    return sorted(path for path in (ROOT / "tests").rglob("*.py") if not GENERATED.intersection(path.relative_to(ROOT).parts))


def commented() -> list[Path]:
    """The files whose comments are checked: the protocol's source, and everything in languages other than Python."""
    found = {path for pattern in COMMENTED for path in ROOT.glob(pattern)}
    return sorted(path for path in found if path.suffix == ".proto" or not GENERATED.intersection(path.relative_to(ROOT).parts))


def templates() -> list[Path]:
    """The files of new projects, which are checked whole."""
    return sorted(ROOT.glob(TEMPLATES))


def comment_findings(source: str) -> Iterator[tuple[int, str, str]]:
    """The line of each construction in the comments of a file, its words, and what to do instead."""
    for match in _COMMENT.finditer(source):
        text = re.sub(r"^[ \t]*(?://[/!]?|/\*\*?|\*/?)[ \t]*", "", match[0], flags=re.MULTILINE)
        for line, words, advice in findings(text):
            yield source.count("\n", 0, match.start()) + line, words, advice


@lru_cache(maxsize=1)
def _nodes(source: str) -> tuple[ast.AST, ...]:
    """The nodes of a module. Several searches follow each other in one."""
    return tuple(ast.walk(ast.parse(source)))


@lru_cache(maxsize=1)
def _docstrings(source: str) -> tuple[ast.Constant, ...]:
    parents = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = (node.body[0] for node in _nodes(source) if isinstance(node, parents) and node.body)
    values = (statement.value for statement in first if isinstance(statement, ast.Expr))
    return tuple(value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str))


def literal_findings(source: str) -> Iterator[tuple[int, str, str]]:
    """The line of each construction in the texts of a file in another language than Python, its words, and what to do instead."""
    code = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    for match in _LITERAL.finditer(code):
        for line, words, advice in findings(match[0]):
            if advice != "name the subject":
                yield code.count("\n", 0, match.start()) + line, words, advice


def docstring_findings(source: str) -> Iterator[tuple[int, str, str]]:
    """The line of each construction in the docstrings of a module, its words, and what to do instead."""
    for text in _docstrings(source):
        for line, words, advice in findings(str(text.value)):
            yield text.lineno + line - 1, words, advice


def python_comment_findings(source: str) -> Iterator[tuple[int, str, str]]:
    """The line of each construction in the comments of a module, its words, and what to do instead. Adjacent lines are one."""
    # Tokens cost much, and few modules have such words behind a `#`, be it in a text or not.
    behind = "\n".join(line.partition("#")[2].lstrip("# ") for line in source.splitlines())
    if not any(pattern.search(behind) for pattern in _PATTERNS.values()):
        return
    found = [token for token in tokenize.generate_tokens(StringIO(source).readline) if token.type == tokenize.COMMENT]
    for _, comment in groupby(enumerate(found), lambda numbered: numbered[1].start[0] - numbered[0]):
        lines = [token for _, token in comment]
        for line, words, advice in findings("\n".join(token.string.lstrip("# ") for token in lines)):
            yield lines[0].start[0] + line - 1, words, advice


def text_findings(source: str) -> Iterator[tuple[int, str, str]]:
    """The line of each construction in the texts of a module, its words, and what to do instead. A text may be no sentence."""
    docstrings = set(_docstrings(source))
    for node in _nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings and " " in node.value:
            for line, words, advice in findings(node.value):
                if advice != "name the subject":
                    yield node.lineno + line - 1, words, advice


def main() -> int:
    """Prints each construction with its place, and returns how the process ends."""
    searches: list[tuple[Path, Search]] = [(page, findings) for page in pages()]
    of_source = (docstring_findings, text_findings, python_comment_findings)
    searches += [(source, search) for source in modules() for search in of_source]
    searches += [(test, search) for test in tests() for search in (docstring_findings, python_comment_findings)]
    searches += [(source, search) for source in commented() for search in (comment_findings, literal_findings)]
    searches += [(template, findings) for template in templates()]
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {words!r}: {advice}"
        for path, search in searches
        for line, words, advice in sorted(search(path.read_text()))
    ]
    print(*lines, sep="\n", end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
