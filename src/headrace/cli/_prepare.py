"""`headrace prepare`."""

import click

from headrace.terminal import EXIT_ENVIRONMENT, EXIT_FAILED, Failure, bytes_text, print_action


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}, and no progress.")
@click.pass_context
def prepare(ctx: click.Context, as_json: bool) -> None:
    """Have Spark start quicker on this machine; worth it once after each installation.

    Runs a short job, and keeps an archive of the classes that Spark's JVM has loaded for it (200 MB) in this Python
    environment. Local sessions of Headrace start from it. Without it everything works, and takes some seconds longer to start.

    \b
    Example:
      headrace prepare
    """
    from headrace.demo._errors import DemoError
    from headrace.demo._java import require_java
    from headrace.preparation import PreparationFailed
    from headrace.preparation import prepare as run

    try:
        require_java()
    except DemoError as error:
        ctx.exit(_report(str(error), [], as_json, EXIT_ENVIRONMENT))
    if not as_json:
        click.echo("runs a short job on Spark, which takes about a minute ...", err=True)
    try:
        made = run()
    except OSError as error:
        ctx.exit(_report(f"cannot write {error.filename}: {error.strerror}", [], as_json, EXIT_ENVIRONMENT))
    except PreparationFailed as error:
        ctx.exit(_report(str(error), error.detail, as_json, EXIT_FAILED))
    summary = f"Spark starts from {made.archive} ({bytes_text(made.bytes)}), made in {made.took_s:.0f} s"
    if as_json:
        print_action("prepare", summary, {"archive": str(made.archive), "bytes": made.bytes, "took_s": round(made.took_s, 1)})
    else:
        click.echo(summary)


def _report(what: str, detail: list[str], as_json: bool, code: int) -> int:
    """Says what went wrong, after what the job said; the exit code."""
    if not as_json:
        for line in detail:
            click.echo(line, err=True)
        raise Failure(what, code)
    print_action("prepare", "nothing is prepared", error=what)
    return code
