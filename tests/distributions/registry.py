"""A folder that serves pip as a registry would: what is built here, and wheels of what is installed in this environment."""

import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name
from tests.distributions.wheels import Wheel

_NOT_SHIPPED = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")
"""What an installer adds to the metadata."""


def fill(folder: Path, wheels: Mapping[str, Wheel], sources: Iterable[str], wanted: Iterable[str]) -> None:
    """Fills a folder with all that distributions need.

    Args:
        folder: The folder; it is created.
        wheels: The wheels that are built here, by name.
        sources: Those of them that the folder has as source archives only, as a registry has Spark.
        wanted: The distributions. Wheels that are built here may be among them, and is needed by name.
    """
    folder.mkdir()
    left_out = set(sources)
    for name, wheel in wheels.items():
        if name not in left_out:
            shutil.copy2(wheel.path, folder)
        else:
            (archive,) = wheel.path.parent.glob(f"{name.replace('-', '_')}-*.tar.gz")
            shutil.copy2(archive, folder)
    for name in sorted(needed(wanted) - wheels.keys()):
        _pack(distribution(name), folder)


def needed(wanted: Iterable[str]) -> set[str]:
    """The canonical names of distributions and of all that they need on this machine."""
    found: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), "") for name in wanted]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in found:
            found.add((name, extra))
            waiting += _requirements(name, extra)
    return {name for name, _ in found}


def _requirements(name: str, extra: str) -> Iterator[tuple[str, str]]:
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            for each in ("", *requirement.extras):
                yield canonicalize_name(requirement.name), each


def _pack(found: Distribution, folder: Path) -> None:
    """Makes a wheel of an installed distribution again. Programs are left out: an installer makes the ones that it names anew."""
    tags = re.findall(r"^Tag: (\S+)$", found.read_text("WHEEL") or "", re.MULTILINE)
    supported = {str(tag) for tag in sys_tags()}
    tag = next(tag for tag in tags if tag in supported)
    name = canonicalize_name(found.name).replace("-", "_")
    names = []
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as wheel:
        for file in found.files or ():
            if ".." not in file.parts and file.suffix != ".pyc" and file.name not in _NOT_SHIPPED:
                wheel.write(str(file.locate()), str(file))
                names.append(str(file))
        (info,) = {name.partition("/")[0] for name in names if name.endswith(".dist-info/METADATA")}
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*names, f"{info}/RECORD"]))
