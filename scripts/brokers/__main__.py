"""`python -m scripts.brokers`: installs, starts and stops brokers for development; their data is in .build/brokers."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from scripts.brokers import BROKERS, MORE_BROKERS, Broker, BrokerFailed

_FOLDER = Path(__file__).parents[2] / ".build" / "brokers"
_KINDS = {**BROKERS, **MORE_BROKERS}
_names = click.argument("names", nargs=-1, type=click.Choice(list(_KINDS)))


@click.group()
def main() -> None:
    """Run real brokers on loopback, without Docker. Without names, commands apply to RabbitMQ, NATS, Kafka and PostgreSQL."""


@main.command()
@_names
def install(names: tuple[str, ...]) -> None:
    """Install brokers that are not installed yet. One that fails keeps no other from being installed."""
    kinds = [_KINDS[name] for name in names or BROKERS]
    with ThreadPoolExecutor(len(kinds)) as threads:
        errors = [error for error in threads.map(_error_of_installing, kinds) if error]
    if errors:
        raise BrokerFailed("\n".join(errors))


@main.command()
@_names
def start(names: tuple[str, ...]) -> None:
    """Start brokers that are not running, and wait until they are ready."""
    brokers = _brokers(names)
    with ThreadPoolExecutor(len(brokers)) as threads:
        list(threads.map(Broker.start, brokers))
    _show(brokers)


@main.command()
@_names
def stop(names: tuple[str, ...]) -> None:
    """Stop running brokers cleanly; their data stays."""
    with ThreadPoolExecutor(len(BROKERS)) as threads:
        list(threads.map(Broker.stop, _brokers(names)))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_names
def status(names: tuple[str, ...], as_json: bool) -> None:
    """Show which brokers are running, and their addresses."""
    brokers = _brokers(names)
    if as_json:
        print(json.dumps({"brokers": [_document(broker) for broker in brokers]}))
    else:
        _show(brokers)


def _error_of_installing(kind: type[Broker]) -> str:
    try:
        kind.install()
    except BrokerFailed as error:
        return f"{kind.name} is not installed: {error}"
    return ""


def _brokers(names: tuple[str, ...]) -> list[Broker]:
    return [_KINDS[name](_FOLDER / name, usual_ports=True) for name in names or BROKERS]


def _document(broker: Broker) -> dict[str, object]:
    running = broker.running
    return {
        "name": broker.name,
        "installed": broker.is_installed(),
        "running": running,
        "url": broker.url if running else None,
        "host": broker.host,
        "ports": broker.ports if running else {},
        "folder": str(broker.folder),
    }


def _show(brokers: list[Broker]) -> None:
    for broker in brokers:
        state = broker.url if broker.running else "stopped" if broker.is_installed() else "not installed; run: make brokers"
        print(f"{broker.name:<12} {state}")


if __name__ == "__main__":
    try:
        main(prog_name="python -m scripts.brokers")
    except BrokerFailed as error:
        sys.exit(f"brokers: {error}")
