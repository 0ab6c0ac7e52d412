"""`headrace dead-letters`: the commands about dead letters, of the gateway and of the connectors."""

from headrace import connectors_cli, gateway_cli
from headrace.terminal import ProgramGroup

dead_letters = ProgramGroup(
    "dead-letters",
    commands={**gateway_cli.dead_letters.commands, **connectors_cli.dead_letters.commands},
    help="""Show what sinks and steps have refused, and replay it.

    A gateway shows the last dead letters that it has passed on, and has a deployment replay them: list and replay. The sink's
    files contain all of them: list-files, replay-files and discard-files, on the host with these files.

    \b
    Examples:
      headrace dead-letters list
      headrace dead-letters replay errors --source again
      headrace dead-letters list-files errors
      headrace dead-letters replay-files errors --source again
      headrace dead-letters discard-files errors --yes
    """,
)
