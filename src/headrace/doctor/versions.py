"""Checks of what is installed: the distributions of Headrace, and the packages that they require."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from headrace.doctor.finding import Finding, Site, failed, ok

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*([^;\[]*?)\s*(?:;\s*(.*))?")
_SPECIFIER = re.compile(r"(==|>=|<=|<|>|!=)\s*([0-9][^,\s]*)")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_SHOWN = ("pyspark", "pyarrow", "grpcio")
_HOLDS = {
    "==": lambda has, wanted: has == wanted,
    "!=": lambda has, wanted: has != wanted,
    ">=": lambda has, wanted: has >= wanted,
    "<=": lambda has, wanted: has <= wanted,
    ">": lambda has, wanted: has > wanted,
    "<": lambda has, wanted: has < wanted,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of an installed distribution of Headrace.

    Attributes:
        by: That distribution.
        name: The required distribution.
        wanted: The versions it accepts, such as `>=4.3,<4.4`; empty for any.
        installed: The installed version; None if it is not installed.
    """

    by: str
    name: str
    wanted: str
    installed: str | None

    @property
    def is_met(self) -> bool:
        """Whether the installed version satisfies the requirement."""
        has = self.installed
        if has is None:
            return False
        return all(_HOLDS[operator](*_padded(has, version)) for operator, version in _SPECIFIER.findall(self.wanted))


def check_versions(site: Site) -> Finding:
    """Checks whether the distributions of Headrace have the same version, and their requirements are met."""
    ours = {name: version for name in _distributions() if (version := _installed(name)) is not None}
    versions = sorted(set(ours.values()))
    if len(versions) > 1:
        newest = max(versions, key=lambda version: _padded(version, "")[0])
        found = ", ".join(f"{name} {version}" for name, version in sorted(ours.items()))
        old = " ".join(f"'{name}=={newest}'" for name, version in sorted(ours.items()) if version != newest)
        return failed(f"distributions of different releases: {found}", f"pip install {old}")
    unmet = list({need.name: need for name in ours for need in requirements(name) if not need.is_met}.values())
    if unmet:
        found = "; ".join(f"{need.name} {need.installed or 'is missing'}, but {need.by} requires {need.wanted}" for need in unmet)
        return failed(found, "pip install " + " ".join(f"'{need.name}{need.wanted}'" for need in unmet))
    shown = [f"{name} {version}" for name in _SHOWN if (version := _installed(name)) is not None]
    return ok(", ".join([f"headrace {' '.join(versions)}", *shown]))


def requirements(distribution: str, extra: str | None = None) -> Iterator[Requirement]:
    """Yields the requirements of a distribution, or only the requirements that `extra` adds."""
    for text in metadata.requires(distribution) or ():
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            continue
        name, wanted, marker = match[1], match[2].strip("() "), match[3] or ""
        of_extra = _EXTRA.search(marker)
        if (of_extra[1] if of_extra else None) == extra:
            yield Requirement(distribution, name, wanted, _installed(name))


def _distributions() -> list[str]:
    """Returns the installed distributions of Headrace."""
    names = {str(found.metadata["Name"]) for found in metadata.distributions()}
    return sorted(name for name in names if name == "headrace" or name.startswith("headrace-"))


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _padded(one: str, other: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the numeric parts of two versions, padded to the same length."""
    numbers = [[int(part) for part in re.findall(r"\d+", re.split(r"[^0-9.]", version)[0])] for version in (one, other)]
    length = max(map(len, numbers))
    first, second = (tuple(found + [0] * (length - len(found))) for found in numbers)
    return first, second
