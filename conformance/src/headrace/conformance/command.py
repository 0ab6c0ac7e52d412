"""`headrace conformance`: judges whether a connector keeps the rules of the protocol."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from headrace.contract.errors import HeadraceError
from headrace.terminal import (
    EXIT_FAILED,
    EXIT_INVALID,
    Failure,
    ProgramGroup,
    console,
    counted,
    json_option,
    print_line,
    print_result,
    run_program,
)

if TYPE_CHECKING:
    from headrace.conformance.core.spec import Spec
    from headrace.conformance.runner import AnyCheck, Result

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@click.group(cls=ProgramGroup)
def conformance() -> None:
    """Judge whether a connector, in any language, keeps the rules of the protocol.

    The kit plays the gateway: it starts the connector's command, speaks to it over gRPC, interrupts and kills it, and checks
    what it does. Neither Spark nor a gateway is needed.

    Exit codes: 0 all checks passed, 1 a check failed, 2 usage or specification error, 3 the command cannot be started, 130 and
    143 the run was stopped, after it has killed the connector.

    \b
    Examples:
      headrace conformance source --spec source.toml -- ./my-source --gateway {gateway}
      headrace conformance sink --spec sink.toml -- ./my-sink
    """


def _options(command: _Command) -> _Command:
    """The options of both commands."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.argument("words", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED),
        click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Also write the results as JUnit's XML."),
        json_option(),
        click.option("--list", "list_them", is_flag=True, help="List the checks, and run nothing."),
        click.option("--jobs", metavar="N", type=click.IntRange(1), default=1, show_default=True, help="Checks at a time."),
        click.option("--only", metavar="CHECK", multiple=True, help="Run this check. Repeatable."),
        click.option("--spec", metavar="FILE", type=file, help="What the connector can do, in TOML."),
    ):
        command = option(command)
    return command


@conformance.command("source")
@_options
@click.pass_context
def source(ctx: click.Context, /, **options: Any) -> None:
    """Judge a source.

    COMMAND starts the source: write -- before it. In it, {gateway} and {token} stand for the gateway's address and the token. The
    command also finds them in its environment, as HEADRACE_GATEWAY and HEADRACE_TOKEN.

    \b
    Examples:
      headrace conformance source --spec source.toml -- ./my-source --gateway {gateway}
      headrace conformance source --spec source.toml --only resume -- ./my-source
      headrace conformance source --list
    """
    _quiet_grpc()
    from headrace.conformance.core.spec import SourceSpec
    from headrace.conformance.sources import SOURCE_CHECKS, new_source_trial

    _run(ctx, "source", SOURCE_CHECKS, SourceSpec, new_source_trial, **options)


@conformance.command("sink")
@_options
@click.pass_context
def sink(ctx: click.Context, /, **options: Any) -> None:
    """Judge a sink, by the mode that its specification declares.

    COMMAND starts the sink: write -- before it. In it, {gateway} and {token} stand for the gateway's address and the token. The
    command also finds them in its environment, as HEADRACE_GATEWAY and HEADRACE_TOKEN.

    \b
    Examples:
      headrace conformance sink --spec sink.toml -- ./my-sink --gateway {gateway}
      headrace conformance sink --spec sink.toml --junit sink.xml -- ./my-sink
    """
    _quiet_grpc()
    from headrace.conformance.core.spec import SinkSpec
    from headrace.conformance.sinks import SINK_CHECKS, new_sink_trial

    _run(ctx, "sink", SINK_CHECKS, SinkSpec, new_sink_trial, **options)


def _run(
    ctx: click.Context,
    kind: str,
    checks: "Sequence[AnyCheck]",
    model: "type[Spec]",
    new_trial: Callable[..., Any],
    *,
    spec: Path | None,
    only: tuple[str, ...],
    jobs: int,
    list_them: bool,
    as_json: bool,
    junit: Path | None,
    words: tuple[str, ...],
) -> None:
    """Runs or lists checks, and exits with the code of the run."""
    from headrace.conformance.core.spec import load_spec
    from headrace.conformance.report import document, print_check, summary
    from headrace.conformance.report import junit as to_junit

    selected = _selected(checks, only)
    if list_them:
        _list(selected, as_json)
        return
    if not words:
        raise click.UsageError("name the command that starts the connector, after --")
    results: list[Result] = []
    try:
        declared = load_spec(model, spec, tuple(check.name for check in checks))
        trial = _bound(new_trial, words, declared)
        asyncio.run(_until_signal(_collect(selected, declared, trial, jobs, results, None if as_json else print_check)))
    except HeadraceError as error:
        result = {"checks": document(results)}
        raise Failure(str(error), error.exit_code, summary="the run could not be finished", result=result) from None
    if junit is not None:
        _write(junit, to_junit(kind, results))
    failed = [result.check.name for result in results if result.outcome.fails_the_run]
    if as_json:
        wrong = f"failed: {', '.join(failed)}" if failed else None
        print_result(summary(results), {"checks": document(results)}, error=wrong)
    else:
        print_line(summary(results))
    ctx.exit(EXIT_FAILED if failed else 0)


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Does the work. SIGTERM, SIGHUP and Ctrl-C cancel it, which ends the connectors that it runs.

    Raises:
        Interrupted: A signal has cancelled it.
    """
    from headrace.conformance.core.errors import Interrupted

    loop, running = asyncio.get_running_loop(), asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if not received:
            received.append(number)
            running.cancel()

    for number in _ENDING:
        loop.add_signal_handler(number, end, number)
    try:
        await running
    except asyncio.CancelledError:
        if not received:
            raise
        raise Interrupted(received[0]) from None
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)


async def _collect(
    checks: "Sequence[AnyCheck]",
    spec: "Spec",
    new_trial: Callable[..., Any],
    jobs: int,
    results: "list[Result]",
    report: "Callable[[Result], None] | None",
) -> None:
    """Runs checks; keeps each result, and reports it at once."""
    from headrace.conformance.runner import Runner

    async for result in Runner(checks, spec, new_trial, jobs).results():
        results.append(result)
        if report is not None:
            report(result)


def _bound(new_trial: Callable[..., Any], words: tuple[str, ...], spec: "Spec") -> Callable[..., Any]:
    return lambda check, work, trace, changes, token: new_trial(check, words, spec, work, trace, changes, token)


def _selected(checks: "Sequence[AnyCheck]", only: tuple[str, ...]) -> "list[AnyCheck]":
    from headrace.configuration import nearest

    names = [check.name for check in checks]
    for name in only:
        if name not in names:
            raise Failure(f"--only: there is no check {name}{nearest(name, names) or '; --list shows all'}", EXIT_INVALID)
    return [check for check in checks if not only or check.name in only]


def _list(checks: "Sequence[AnyCheck]", as_json: bool) -> None:
    from headrace.conformance.report import listing
    from headrace.terminal.tables import plain_table

    if as_json:
        print_result(counted(len(checks), "check"), {"checks": listing(checks)})
        return
    table = plain_table("check", "rules", "needs", "fails if", prose=True)
    for check in checks:
        table.add_row(check.name, " ".join(check.rules), " ".join(check.needs) or "-", check.fault)
    console().print(table)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise Failure(f"--junit: cannot write {path}: {error.strerror}", EXIT_INVALID) from None


def _quiet_grpc() -> None:
    """Silences gRPC's own log lines, which are about the connections that the kit cuts; to be called before gRPC is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


_PROGRAM = "headrace-conformance"

program = conformance.program(_PROGRAM)


def main() -> NoReturn:
    """Runs `headrace-conformance`, and exits with its code."""
    run_program(program, _PROGRAM)
