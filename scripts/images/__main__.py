"""Builds images of containers: `python -m scripts.images [IMAGE ...]`; `make images` for all.

Each image is assembled in a folder of its own, with a Containerfile that any builder takes. With buildah, it is also built into
an archive, which `docker load` and `podman load` read; --no-build leaves that out. Needs mmdebstrap, readelf, and root.
"""

import argparse
import gzip
import shutil
import sys
import time
from pathlib import Path

from scripts.dist.parts import ROOT, BuildError, build_python, commit_time, run
from scripts.images.assemble import assemble
from scripts.images.contents import IMAGES
from scripts.set_version import present

_MB = 1e6


def build(name: str, into: Path) -> Path:
    """Builds the image whose files are in a folder; returns its compressed archive.

    Raises:
        BuildError: buildah is missing or has failed.
    """
    tag, archive, store = f"headrace/{name}:{present(ROOT)}", into / f"{name}.tar", into / ".store"
    buildah = ["buildah", "--storage-driver", "vfs", "--root", str(store), "--runroot", str(store / "run")]
    try:
        options = ["--isolation", "chroot", "--format", "docker", "--timestamp", str(commit_time())]
        run([*buildah, "bud", *options, "--tag", tag, "."], into / name)
        archive.unlink(missing_ok=True)
        run([*buildah, "push", "--quiet", tag, f"docker-archive:{archive}:{tag}"], into)
    finally:
        shutil.rmtree(store, ignore_errors=True)
    compressed = archive.with_suffix(".tar.gz")
    with archive.open("rb") as plain, compressed.open("wb") as out, gzip.GzipFile("", "wb", 6, out, 0) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    archive.unlink()
    return compressed


def main(arguments: list[str] | None = None) -> int:
    """Builds the images, prints their sizes, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="*", metavar="IMAGE", help=f"{', '.join(IMAGES)}; all without any")
    parser.add_argument("--into", type=Path, default=ROOT / "dist" / "images", metavar="FOLDER", help="default: dist/images")
    parser.add_argument("--no-build", action="store_true", help="only assemble what an image consists of")
    options = parser.parse_args(arguments)
    if unknown := set(options.images) - set(IMAGES):
        parser.error(f"no image {', '.join(sorted(unknown))}; there are {', '.join(IMAGES)}")
    into = options.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    try:
        wheels = into / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        wheels.mkdir()
        build_python(wheels)
        for name in options.images or IMAGES:
            began = time.monotonic()
            shutil.rmtree(into / name, ignore_errors=True)
            assemble(IMAGES[name], wheels, into / name)
            files = [path for path in (into / name).rglob("*") if path.is_file() and not path.is_symlink()]
            line = f"{name}: {sum(path.stat().st_size for path in files) / _MB:.1f} MB"
            if not options.no_build:
                line += f", compiled and compressed {build(name, into).stat().st_size / _MB:.1f} MB"
            print(f"{line}, in {time.monotonic() - began:.0f} s", flush=True)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
