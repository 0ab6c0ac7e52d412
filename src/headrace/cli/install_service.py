"""`headrace install-service`: writes the unit of systemd that runs a deployment."""

import grp
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from headrace.machine.replacement import replace_text
from headrace.terminal import (
    EXIT_ENVIRONMENT,
    EXIT_INVALID,
    Failure,
    ProgramCommand,
    json_option,
    print_line,
    print_result,
)

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_VERIFY_S = 60.0


@click.command("install-service", cls=ProgramCommand)
@click.argument("config", metavar="DEPLOYMENT", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", metavar="[-- OPTION...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", metavar="NAME", default="headrace", show_default=True, help="The name of the service.")
@click.option("--user", metavar="USER", default="headrace", show_default=True, help="The user that it runs as, which must exist.")
@click.option("--group", metavar="GROUP", help="The group that it runs as.  [default: the user's first one]")
@click.option(
    "--environment-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Variables for its environment. Put secrets into the deployment's env_file, which a reload reads again.",
)
@click.option(
    "--writable",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="A folder that a sink writes to, outside of /var/lib/NAME and /var/log/NAME. Repeatable.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/etc/systemd/system"),
    show_default=True,
    help="Where the unit is written.",
)
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the unit instead.")
@click.option("--replace", is_flag=True, help="Replace a unit that differs.")
@json_option()
def install_service(
    config: Path,
    arguments: tuple[str, ...],
    name: str,
    user: str,
    group: str | None,
    environment_file: Path | None,
    writable: tuple[Path, ...],
    folder: Path,
    to_stdout: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Write a unit of systemd that runs a deployment as a service.

    The unit runs this installation's headrace, restarts it after a failure, raises the limit of open files, and protects the
    rest of the host from it. Folders that the deployment writes to are created. headrace run gets the options behind --.

    \b
    Examples:
      headrace install-service /etc/headrace/deploy.toml
      headrace install-service deploy.toml --user data --writable /srv/results -- --tls-ca ca.pem

    Exit codes: 0 written, 1 another unit has this name, or it cannot be written, 2 the deployment or an option is invalid, 3 the
    user does not exist.
    """
    from headrace.configuration import ConfigurationError
    from headrace.deploy import Unit, UnitError, load_deployment, written_by

    for option, value in (("name", name), ("user", user), ("group", group)):
        if value is not None and not _NAME.fullmatch(value):
            raise Failure(f"--{option} {value}: it may contain letters, digits and ._- only", EXIT_INVALID)
    # That of an environment is a link, which may lead into the home of the user who made it.
    interpreter = Path(sys.executable).resolve()
    try:
        written = written_by(load_deployment(config))
        unit = Unit(
            name=name,
            program=_program(),
            config=config.absolute(),
            arguments=arguments,
            user=user,
            group=group or _group_of(user, to_stdout),
            env_file=environment_file.absolute() if environment_file else None,
            writable=[path.absolute() for path in (*written, *writable)],
            reads=[interpreter],
        )
        text = unit.text()
    except (ConfigurationError, UnitError) as error:
        raise Failure(str(error), EXIT_INVALID) from None
    if to_stdout:
        print_line(text.rstrip("\n"))
        return
    for path in (unit.program, interpreter, unit.config):
        _check_reachable(path, user)
    _verify(name, text)
    for opened in unit.opened():
        _create(opened, user, unit.group)
    path = folder / f"{name}.service"
    _write(path, text, replace)
    if as_json:
        print_result(f"{path} is written", {"unit": str(path), "name": name, "user": user})
    else:
        print_line(f"{path} is written; start it: systemctl daemon-reload && systemctl enable --now {name}")


def _program() -> Path:
    """The path by which this program was called, through links: such a link selects the release."""
    called = shutil.which(sys.argv[0])
    return Path(called).absolute() if called and Path(called).name == "headrace" else Path(sys.executable).with_name("headrace")


def _group_of(user: str, may_be_absent: bool) -> str:
    try:
        return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
    except KeyError:
        if may_be_absent:
            return user
        advice = f"useradd --system --user-group --home-dir /var/lib/{user} {user}"
        what = f"there is no user {user}: create it, such as by {advice}, or name another with --user"
        raise Failure(what, EXIT_ENVIRONMENT) from None


def _check_reachable(path: Path, user: str) -> None:
    """Checks that a user may enter the folders of a path.

    Raises:
        Failure: The user may not enter one of them.
    """
    account = pwd.getpwnam(user)
    groups = os.getgrouplist(user, account.pw_gid)
    for folder in reversed(path.parents):
        found = folder.stat()
        bit = stat.S_IXUSR if found.st_uid == account.pw_uid else stat.S_IXGRP if found.st_gid in groups else stat.S_IXOTH
        if account.pw_uid != 0 and not found.st_mode & bit:
            what = f"{user} may not enter {folder}, and so would not find {path}"
            raise Failure(f"{what}: install into /opt and configure in /etc, or allow it to enter", EXIT_INVALID)


def _verify(name: str, text: str) -> None:
    """Has systemd judge the unit, where its program for that is installed.

    Raises:
        Failure: The unit is invalid, or names a program that is not there.
    """
    if (verifier := shutil.which("systemd-analyze")) is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder, f"{name}.service")
        unit.write_text(text)
        done = subprocess.run(
            [verifier, "verify", unit], capture_output=True, text=True, errors="replace", timeout=_VERIFY_S, check=False
        )
    # It judges units that this one needs, too.
    if problems := [line for line in done.stderr.splitlines() if unit.name in line]:
        raise Failure(f"systemd rejects the unit: {'; '.join(problems)}")


def _create(folder: Path, user: str, group: str) -> None:
    """Creates a folder that systemd opens for the service, for its user alone, unless it is there.

    Raises:
        Failure: It cannot be created.
    """
    try:
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
            if os.geteuid() == 0:
                shutil.chown(folder, user, group)
    except (OSError, LookupError) as error:
        raise Failure(f"{folder}, which the service writes to, cannot be created: {error}") from None


def _write(path: Path, text: str, replace: bool) -> None:
    """Writes the unit in one step.

    Raises:
        Failure: It cannot be written, or another one is there.
    """
    try:
        if path.exists() and path.read_text(errors="replace") != text and not replace:
            raise Failure(f"{path} is there and differs: compare it with --stdout, and add --replace")
        replace_text(path, text)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}; run as root, or name another --folder") from None
