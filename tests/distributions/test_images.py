"""What an image consists of runs as it does in a container: a root that nobody can write to, and a user without rights."""

import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripts.images.assemble import assemble, containerfile, environment
from scripts.images.contents import IMAGES, PROGRAMS, USER_ID
from tests.absent import absent
from tests.distributions.wheels import Wheel

DEADLINE_S = 150.0
MAX_SDK_MB = 20.0
"""How large the image of the SDK may be, compressed as in a registry, in units of a million bytes."""
ENTER = """
set -e
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
mount -o remount,bind,ro "$1"
root=$1 user=$2
shift 2
exec chroot --userspec="$user:$user" "$root" "$@"
"""
LOOKS = """
import os
for folder in ("/", "/etc", "/opt/headrace", "/usr/lib", "/tmp"):
    try:
        open(folder + "/file", "w").close()
        print("writes to", folder)
    except OSError:
        pass
print("user", os.getuid())
"""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def roots(wheels: Mapping[str, Wheel], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The file systems of the smallest images, without bytecode."""
    if os.geteuid() != 0:
        absent("the file system of an image is made by root")
    if missing := [tool for tool in ("mmdebstrap", "readelf", "ip") if shutil.which(tool) is None]:
        absent(f"not installed: {', '.join(missing)}; Debian has mmdebstrap, binutils and iproute2")
    packages = next(iter(wheels.values())).path.parent
    found = {}
    for name in ("sdk", "gateway"):
        folder = tmp_path_factory.mktemp("images") / name
        assemble(IMAGES[name], packages, folder)
        shutil.move(folder / "programs", folder / "system" / PROGRAMS.removeprefix("/"))
        found[name] = folder / "system"
    return found


def in_container(name: str, root: Path, *command: str) -> list[str]:
    enter = ["unshare", "--mount", "--net", "/bin/sh", "-c", ENTER, "sh", str(root), str(USER_ID)]
    return [*variables(name), *enter, *command]


def variables(name: str) -> list[str]:
    return ["env", "-i", *(f"{variable}={value}" for variable, value in environment(IMAGES[name]).items())]


def run(name: str, root: Path, *command: str) -> str:
    """Runs a command in a container of an image; returns what it prints."""
    words = in_container(name, root, *command)
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sdk_alone_is_small_and_runs_without_rights(roots: Mapping[str, Path]) -> None:
    root = roots["sdk"]
    said = run("sdk", root, *IMAGES["sdk"].entrypoint, "-c", f"import headrace.sdk\n{LOOKS}")
    assert said.splitlines() == ["writes to /tmp", f"user {USER_ID}"]
    authorities = "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 50)"
    assert run("sdk", root, *IMAGES["sdk"].entrypoint, "-c", authorities) == "True\n"
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, packed, 0) as out, tarfile.open(fileobj=out, mode="w|") as archive:
        archive.add(root, "")
    assert packed.getbuffer().nbytes / 1e6 < MAX_SDK_MB


def test_a_gateway_runs_and_its_health_check_tells_that(roots: Mapping[str, Path]) -> None:
    image, root = IMAGES["gateway"], roots["gateway"]
    with started("gateway", root, *image.entrypoint) as pid:
        health = [
            "nsenter",
            "--target",
            str(pid),
            "--mount",
            "--net",
            "/usr/sbin/chroot",
            f"--userspec={USER_ID}:{USER_ID}",
            str(root),
        ]
        deadline = time.monotonic() + DEADLINE_S
        while (
            done := subprocess.run([*variables("gateway"), *health, *image.health], capture_output=True, text=True, check=False)
        ).returncode:
            assert time.monotonic() < deadline, done.stdout + done.stderr
        assert json.loads(done.stdout)["ok"]
    assert subprocess.run(in_container("gateway", root, *image.health), capture_output=True, check=False).returncode == 1


@contextmanager
def started(name: str, root: Path, *command: str) -> Iterator[int]:
    """A container that runs; its process is killed at the end."""
    with subprocess.Popen(in_container(name, root, *command)) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("name", IMAGES)
def test_a_containerfile_names_a_user_without_rights_and_no_base_image(name: str) -> None:
    lines = containerfile(IMAGES[name]).splitlines()
    assert [line for line in lines if line.startswith("FROM")] == ["FROM scratch AS files", "FROM scratch"]
    assert f"USER {USER_ID}:{USER_ID}" in lines
    assert [line.startswith("HEALTHCHECK") for line in lines].count(True) == bool(IMAGES[name].health)
