"""Builds and checks what a release publishes: `python -m scripts.dist [PART ...]`; `make dist` for all.

Without --no-check, each registry's own check runs. With --twice, each part is built again, and must be the same byte by byte.
The exit code is 0, or 1 if a part could not be built or failed a check; the others are built nevertheless.
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
import time
from pathlib import Path

from scripts.dist.checks import CHECKS
from scripts.dist.parts import PARTS, ROOT, BuildError

SUMS = "SHA256SUMS"


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder, by its path there, sorted."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def build(part: str, into: Path, *, check: bool, twice: bool) -> None:
    """Builds a part into its own folder, in place of an earlier one.

    Raises:
        BuildError: It cannot be built, its registry would refuse it, or a second build differs.
    """
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    PARTS[part](into)
    if check:
        CHECKS[part](into)
    if twice:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[part](Path(folder))
            first, second = digests(into), digests(Path(folder))
        if different := sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name)):
            raise BuildError(f"a second build differs: {', '.join(different)}")


def main(arguments: list[str] | None = None) -> int:
    """Builds the parts, prints what was built, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all without any")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", metavar="FOLDER", help="default: dist")
    parser.add_argument("--twice", action="store_true", help="build each part again, and compare")
    parser.add_argument("--no-check", action="store_true", help="only build")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    into, failed = options.into.resolve(), []
    for part in options.parts or PARTS:
        began = time.monotonic()
        print(f"{part}: builds", flush=True)
        try:
            build(part, into / part, check=not options.no_check, twice=options.twice)
        except BuildError as error:
            print(f"{part}: {error}", file=sys.stderr)
            failed.append(part)
        else:
            files = [path for path in (into / part).rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files) / 1e6
            print(f"{part}: {len(files)} files, {size:.1f} MB, in {time.monotonic() - began:.0f} s", flush=True)
    (into / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in digests(into).items()))
    print(f"failed: {', '.join(failed)}" if failed else f"all in {into}, with {SUMS}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
