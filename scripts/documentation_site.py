"""What the documentation site takes from the pages, as hooks of MkDocs: navigation, links that leave docs/, and llms.txt.

MkDocs is in an environment of its own (`make docs`), so its types are unknown here.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "README.md"
REPOSITORY = "https://github.com/headrace/headrace"

_LINK = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?(\))")
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([\w/.-]+\.md)\): (.+)$", re.MULTILINE)


def sections() -> dict[str, list[tuple[str, str, str]]]:
    """The sections of the index: of each page its title, its path below docs/, and its subject."""
    parts = re.split(r"^## (.+)$", INDEX.read_text(), flags=re.MULTILINE)
    return {heading: _ENTRY.findall(body) for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def rewritten(markdown: str, page: str) -> str:
    """A page with the links that leave docs/ as links to the repository. `page` is its path below docs/."""

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), match[2]))
        is_inside = target.startswith("docs/") and not (ROOT / target).is_dir()
        if not match[2] or "://" in match[2] or is_inside:
            return match[0]
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{match[1]}{REPOSITORY}/{kind}/main/{target}{match[3] or ''}{match[4]}"

    return _LINK.sub(link, markdown)


def llms_text() -> str:
    """The index for language models, in the format of llms.txt."""
    summary = re.findall(r"^[A-Z].+$", (ROOT / "README.md").read_text(), re.MULTILINE)[0]
    lines = ["# Headrace", "", "> " + re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", summary)]
    for heading, pages in sections().items():
        lines += ["", f"## {heading}", ""]
        lines += [f"- [{title}]({REPOSITORY}/blob/main/docs/{path}): {subject}" for title, path, subject in pages]
    return "\n".join([*lines, ""])


def on_config(config: Any) -> Any:
    """Makes the navigation of the index."""
    config.nav = [{"Documentation": "README.md"}]
    config.nav += [{heading: [{title: path} for title, path, _ in pages]} for heading, pages in sections().items()]
    decisions = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/internals/decisions").glob("2*.md"))
    config.nav += [{"Decisions, by date": decisions}]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lets links of a page that leave docs/ lead to the repository."""
    return rewritten(markdown, page.file.src_uri)


def on_post_build(config: Any) -> None:
    """Writes llms.txt beside the pages."""
    Path(config.site_dir, "llms.txt").write_text(llms_text())
