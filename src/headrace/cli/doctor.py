"""`headrace doctor`."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from headrace.terminal import (
    DEFAULT_GATEWAY,
    Connection,
    ProgramCommand,
    connection_options,
    console,
    json_option,
    print_result,
    print_text,
)

if TYPE_CHECKING:
    from headrace.doctor import Check, Finding
    from headrace.terminal.tables import FittingTable

_STYLES = {"ok": "green", "skipped": "dim", "warning": "yellow", "failed": "bold red"}


@click.command(cls=ProgramCommand)
@click.option("--spark", is_flag=True, help="Also start Spark and run a Python function on it; takes up to a minute.")
@click.option(
    "-c",
    "--config",
    "files",
    metavar="FILE[:NAME]",
    multiple=True,
    help="Check these connectors, or this deployment. Repeatable.",
)
@json_option()
@connection_options
@click.pass_context
def doctor(ctx: click.Context, /, spark: bool, files: tuple[str, ...], as_json: bool, connection: Connection) -> None:
    """Check this machine, and suggest fixes.

    Checks Python, Java, the installed versions, memory, disk, Spark, the gateway and its port, brokers and plugins; of a
    deployment also its connectors, ports, files, tokens, certificates, descriptors, disks, proxies and names, and whether its
    supervisor can call its gateway with --token-file and --tls-ca, as given here. Changes nothing. The gateway must be running
    only if you name it, with --gateway, HEADRACE_GATEWAY or a context. If it runs, the check health lists the problems that its
    /readyz names.

    Exit codes: 0 no check failed (warnings do not count), 1 the gateway, its health, a broker or Spark failed, 2 a configuration
    file is invalid, 3 something is missing on this machine.

    \b
    Examples:
      headrace doctor
      headrace doctor --spark
      headrace doctor --gateway gateway.example:7433 --tls-ca ca.pem
      headrace doctor -c deploy.toml --json

    \b
    With --json, result is {"checks": [...]}, and each check has
      check      its name; health is listed once for each degraded part
      level      ok, skipped, warning or failed
      finding    what is there, or what is wrong
      fix        what to do; null if there is nothing to do
    """
    # gRPC's own log lines would garble the table.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from headrace.doctor import Site, examine

    typed = ctx.get_parameter_source("gateway") not in (ParameterSource.DEFAULT, None)
    supervisor = None if typed else _of_supervisor(ctx, connection)
    findings = examine(Site(connection, typed or connection.context is not None, spark, files, supervisor))
    code = exit_code([finding for _, finding in findings])
    if as_json:
        summary = summary_of(findings)
        print_result(summary, document(findings), error=summary if code else None)
    else:
        console().print(table(findings))
        print_text(summary_of(findings))
    ctx.exit(code)


def _of_supervisor(ctx: click.Context, connection: Connection) -> Connection:
    """The connection without what a context in use adds, since no supervisor uses contexts."""
    if connection.context is None:
        return connection
    mine = {
        name: getattr(connection, name)
        for name in ("token", "token_file", "tls", "tls_ca", "tls_cert", "tls_key")
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    return Connection(DEFAULT_GATEWAY, **{"token": None if "token_file" in mine else os.environ.get("HEADRACE_TOKEN"), **mine})


def exit_code(findings: "Sequence[Finding]") -> int:
    """Returns the highest exit code of the failed findings, 0 if none failed."""
    return max((finding.exit_code for finding in findings if finding.level == "failed"), default=0)


def summary_of(findings: "Sequence[tuple[Check, Finding]]") -> str:
    """Returns one line that names what failed and what to watch."""
    failed = dict.fromkeys(check.name for check, finding in findings if finding.level == "failed")
    warnings = dict.fromkeys(check.name for check, finding in findings if finding.level == "warning")
    parts = [f"failed: {', '.join(failed)}"] if failed else []
    parts += [f"warnings: {', '.join(warnings)}"] if warnings else []
    return "; ".join(parts) or "no problems found"


def document(findings: "Sequence[tuple[Check, Finding]]") -> dict[str, Any]:
    """Returns the result that --json prints."""
    return {
        "checks": [
            {"check": check.name, "level": str(finding.level), "finding": finding.text, "fix": finding.fix or None}
            for check, finding in findings
        ]
    }


def table(findings: "Sequence[tuple[Check, Finding]]") -> "FittingTable":
    """Returns a table of the findings, each with its fix below it."""
    from rich.text import Text

    from headrace.terminal.tables import plain_table

    table = plain_table("check", "", "finding", prose=True)
    for check, finding in findings:
        text = Text(finding.text)
        if finding.fix:
            text.append(f"\nfix: {finding.fix}" if finding.level in ("warning", "failed") else f"\n{finding.fix}", "italic")
        table.add_row(check.name, Text(str(finding.level), _STYLES[finding.level]), text)
    return table
