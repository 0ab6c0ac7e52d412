"""Assembles the files of an image: a minimal system of Debian's packages, and the programs of wheels."""

import shutil
import sys
from pathlib import Path

from scripts.dist.parts import ROOT, BuildError, run
from scripts.images.contents import PROGRAMS, PYTHON, SUITE, USER_ID, Image
from scripts.images.libraries import remove_unneeded

UV = str(Path(sys.executable).with_name("uv"))
_LEFT_OUT = (
    *("./usr/share/doc", "./usr/share/man", "./usr/share/info", "./usr/share/locale", "./usr/share/lintian", "./usr/share/bug"),
    *("./usr/share/debconf", "./usr/share/perl5", "./usr/share/bash-completion", "./usr/share/polkit-1", "./usr/share/pixmaps"),
    *("./var", "./sbin", "./usr/sbin", "./lib/systemd", "./etc/systemd", "./etc/init.d", "./etc/cron*", "./etc/perl"),
    *("./bin/tar", "./usr/bin/openssl", "./usr/share/gcc", "./usr/lib/x86_64-linux-gnu/engines-3"),
    *("./usr/bin/dpkg*", "./usr/bin/debconf*", "./usr/bin/update-alternatives", "./usr/bin/c_rehash", "./usr/bin/perl*"),
    *("./usr/lib/x86_64-linux-gnu/gconv", "./usr/lib/x86_64-linux-gnu/perl*", "./usr/lib/x86_64-linux-gnu/krb5"),
    *("./usr/lib/python3.11/test", "./usr/lib/python3.11/pydoc_data", "./usr/lib/python3.11/lib2to3"),
    *("./usr/lib/python3.11/idlelib", "./usr/lib/python3.11/turtle*", "./usr/lib/python3.11/ensurepip"),
    # They need libraries of their own, and nothing here stores such databases, or asks such a directory.
    *("./usr/lib/python3.11/lib-dynload/_dbm*", "./usr/lib/python3.11/lib-dynload/nis*"),
    # Nobody types into a container.
    *("./usr/lib/python3.11/lib-dynload/readline*", "./usr/lib/python3.11/lib-dynload/_curses*"),
)
"""What nothing in an image runs or reads, as patterns."""
_EMPTY = ("proc", "sys", "dev", "run", "tmp")
_AUTHORITIES = "usr/share/ca-certificates"
_USER = f"headrace:x:{USER_ID}:{USER_ID}::/tmp:/usr/sbin/nologin\n"


def assemble(image: Image, wheels: Path, into: Path) -> None:
    """Makes the folders `system` and `programs` of an image in a new folder, and its Containerfile.

    Args:
        image: The image.
        wheels: A folder with the wheels of all distributions.
        into: The folder.

    Raises:
        BuildError: A tool is missing or has failed.
    """
    into.mkdir(parents=True)
    system, programs = into / "system", into / "programs"
    _unpack_packages(image.packages, system)
    _install(image.requirement, wheels, programs)
    remove_unneeded(system, programs)
    (into / "Containerfile").write_text(containerfile(image))


def containerfile(image: Image) -> str:
    """The Containerfile of an image, whose context is the folder of its files.

    The first stage compiles what runs, since nobody writes to the root of a container.
    """
    compiled = [PYTHON, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/usr/lib/python3.11", PROGRAMS]
    lines = [
        "FROM scratch AS files",
        "COPY system/ /",
        f"COPY programs/ {PROGRAMS}/",
        f"RUN {_words(compiled)}" if image.compiles else "",
        "",
        "FROM scratch",
        "COPY --from=files / /",
        *(f"ENV {name}={value}" for name, value in environment(image).items()),
        f"USER {USER_ID}:{USER_ID}",
        "WORKDIR /tmp",
        f"ENTRYPOINT {_words(image.entrypoint)}",
        f"CMD {_words(image.arguments)}",
        f"HEALTHCHECK --interval=30s --timeout=20s --start-period=60s CMD {_words(image.health)}" if image.health else "",
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def environment(image: Image) -> dict[str, str]:
    """The variables of an image."""
    path = f"{PROGRAMS}/bin:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "PYTHONPATH": PROGRAMS, "HOME": "/tmp", "LANG": "C.UTF-8", **(image.environment or {})}


def _words(words: "tuple[str, ...] | list[str]") -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def _unpack_packages(packages: tuple[str, ...], system: Path) -> None:
    """Unpacks packages with what they depend on. None of their scripts runs: what those would make is made here."""
    archive = system.with_suffix(".tar")
    run(["mmdebstrap", "--variant=extract", f"--include={','.join(packages)}", SUITE, str(archive)], ROOT)
    system.mkdir()
    run(["tar", "-xf", str(archive), "--no-same-owner", *(f"--exclude={one}" for one in _LEFT_OUT)], system)
    archive.unlink()
    for name in _EMPTY:
        shutil.rmtree(system / name, ignore_errors=True)
        (system / name).mkdir()
    (system / "tmp").chmod(0o1777)
    (system / "etc" / "passwd").write_text(f"root:x:0:0::/:/usr/sbin/nologin\n{_USER}")
    (system / "etc" / "group").write_text(f"root:x:0:\nheadrace:x:{USER_ID}:\n")
    bundle = system / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(file.read_bytes() for file in sorted((system / _AUTHORITIES).rglob("*.crt"))))
    shutil.rmtree(system / _AUTHORITIES)


def _install(requirement: str, wheels: Path, programs: Path) -> None:
    """Installs a distribution of ours, with what it requires, into a folder that `PYTHONPATH` names."""
    name = requirement.partition("[")[0]
    (wheel,) = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    arguments = ["pip", "install", "--quiet", "--python", sys.executable, "--target", str(programs), "--find-links", str(wheels)]
    arguments += ["--constraint", "constraints.txt", f"{requirement} @ {wheel.resolve().as_uri()}"]
    try:
        run([UV, *arguments, "--offline"], ROOT)
    except BuildError:
        shutil.rmtree(programs, ignore_errors=True)
        run([UV, *arguments], ROOT)
    for program in (programs / "bin").glob("*"):
        if not program.name.startswith("headrace"):
            program.unlink()
            continue
        _, _, rest = program.read_text().partition("\n")
        program.write_text(f"#!{PYTHON}\n{rest}")
    for typed in [*programs.rglob("*.pyi"), *programs.rglob("*.pxd")]:
        typed.unlink()
