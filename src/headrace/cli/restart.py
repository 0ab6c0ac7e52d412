"""`headrace restart`: restarts a connector of a running deployment."""

from pathlib import Path

import click

from headrace.terminal import Failure, print_action


@click.command()
@click.argument("name")
@click.option(
    "--deployment",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default="deploy.toml",
    show_default=True,
    help="The file of the deployment.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Time until it has a session at the gateway again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print {command, ok, summary, result, error}.")
def restart(name: str, deployment: Path, timeout: float, as_json: bool) -> None:
    """Restart a connector of a running deployment, on the machine and as the user that runs it.

    The connector stops as with SIGTERM: a source sends what it has read and waits for acknowledgements, a sink answers what it
    has received. It then starts at once, with what the file says about it now. No other process is restarted.

    \b
    Examples:
      headrace restart orders
      headrace restart orders --deployment /srv/orders/deploy.toml --json

    Exit codes: 0 it has restarted, 1 it has failed, has not restarted in time or the deployment does not run, 2 the deployment
    has no such connector.
    """
    from headrace.configuration import ConfigurationError
    from headrace.deploy import DeploymentError, ask_restart, run_folder

    try:
        done = ask_restart(run_folder(deployment), name, timeout)
    except (ConfigurationError, DeploymentError) as error:
        if not as_json:
            raise Failure(str(error), error.exit_code) from None
        print_action("restart", f"{name} is not restarted", error=str(error))
        click.get_current_context().exit(error.exit_code)
    if done["stopped_pid"] is None:
        before = "was not running"
    else:
        before = f"process {done['stopped_pid']} ended with exit code {done['stopped_exit_code']}"
    now = "runs" if done["state"] == "runs" else "has reached its end"
    summary = f"{name} is restarted: {before}, process {done['pid']} {now} ({done['seconds']} s)"
    if as_json:
        print_action("restart", summary, done)
    else:
        click.echo(summary)
