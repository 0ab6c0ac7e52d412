"""The languages with an SDK: whatever lists, builds or tests them reads them here. To add a language, add a row first."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """A language with an SDK.

    Attributes:
        name: The folder of its SDK, and its name in options.
        title: Its name for people.
        tools: The commands that build and run its programs.
        needs: What to install for them.
    """

    name: str
    title: str
    tools: tuple[str, ...]
    needs: str


LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (
        Language("python", "Python", (), "Python 3.11 or newer"),
        Language("go", "Go", ("go",), "Go 1.26 or newer"),
        Language("typescript", "TypeScript", ("node", "npm", "npx"), "Node.js 20 or newer"),
        Language("java", "Java", ("mvn", "java", "javac"), "a JDK 17 or newer and Maven"),
        Language("rust", "Rust", ("cargo",), "Rust 1.88 or newer"),
    )
}
"""By name."""
