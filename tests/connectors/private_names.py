"""Which private names a module uses: of others, or of what it subclasses."""

import ast
import re
from pathlib import Path


def private_names(path: Path) -> set[str]:
    """The private names that a module uses as attributes, or defines as functions or methods."""
    tree = ast.parse(path.read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in used if re.fullmatch(r"_[a-z]\w*", name)}
