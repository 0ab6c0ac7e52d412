"""Removes the shared libraries of a system that no program in it needs."""

from collections.abc import Iterator
from pathlib import Path

from scripts.dist.parts import ROOT, run

_FOLDERS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")
_OPENED = ("ld-linux", "libnss_dns", "libnss_files", "libresolv", "libgcc_s")
"""How the names of libraries begin that glibc opens by name."""
_MAGIC = b"\x7fELF"


def remove_unneeded(system: Path, programs: Path) -> None:
    """Removes them from a system whose programs are its own, and others.

    Raises:
        BuildError: `readelf` is missing or has failed.
    """
    libraries = {path.name: path for folder in _FOLDERS for path in (system / folder).glob("*.so*")}
    roots = [path for tree in (system, programs) for path in _binaries(tree) if path.name not in libraries]
    roots += [path for name, path in libraries.items() if name.startswith(_OPENED)]
    kept, following = set(roots), roots
    while following:
        names = {name for name in _needed(following) if name in libraries}
        following = [libraries[name] for name in names if libraries[name] not in kept]
        kept.update(following)
    targets = {path.resolve() for path in kept}
    for path in libraries.values():
        if path not in kept and path.resolve() not in targets:
            path.unlink()
    for path in libraries.values():
        if path.is_symlink() and not path.exists():
            path.unlink()


def _binaries(tree: Path) -> Iterator[Path]:
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(len(_MAGIC)) == _MAGIC:
                    yield path


def _needed(binaries: list[Path]) -> set[str]:
    listed = run(["readelf", "--dynamic", "--wide", *(str(path) for path in binaries)], ROOT)
    return {line.partition("[")[2].rstrip("]") for line in listed.splitlines() if "(NEEDED)" in line}
