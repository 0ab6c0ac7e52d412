"""Sets the version of a release in all files that contain it: `python -m scripts.set_version X.Y.Z`.

The version stands in pyproject.toml. CONTRIBUTING.md lists the other files; lock files and changelogs are not among them.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FORM = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_TABLE = re.compile(r"^### Files with a version$.*?(?=^#|\Z)", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| (`.+?) \|", re.MULTILINE)


def present(root: Path) -> str:
    """The version that the distribution `headrace` has."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return version


def shown(version: str) -> re.Pattern[str]:
    """Returns what finds a version in a text, and no other version that contains it."""
    return re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.]*\d|(?:a|b|rc)\d)")


def files(root: Path) -> list[Path]:
    """The files with a version, by the table in CONTRIBUTING.md, except changelogs: their headings are history."""
    table = _TABLE.search((root / "CONTRIBUTING.md").read_text())
    patterns = re.findall(r"`([^`]+)`", " ".join(_ROW.findall(table[0] if table else "")))
    found = {path for pattern in patterns for path in root.glob(pattern)}
    return sorted(path for path in found if path.name != "CHANGELOG.md")


def set_version(root: Path, version: str) -> list[Path]:
    """Replaces the present version, and returns the files that have changed.

    Raises:
        ValueError: This is no version of a release.
    """
    if not _FORM.fullmatch(version):
        raise ValueError(f"{version!r} is no version: write three numbers, and a1, b1 or rc1 before a release")
    old = shown(present(root))
    texts = {path: path.read_text() for path in files(root)}
    changed = {path: new for path, text in texts.items() if (new := old.sub(version, text)) != text}
    for path, text in changed.items():
        path.write_text(text)
    return list(changed)


def main(arguments: list[str]) -> int:
    """Sets the version that is given, prints the files, and returns how the process ends."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    try:
        changed = set_version(ROOT, arguments[0])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(*(path.relative_to(ROOT) for path in changed), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
