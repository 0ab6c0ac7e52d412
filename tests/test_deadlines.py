"""A test waits for a condition for at least a minute: where others use the machine, what takes a second takes twenty."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MIN_DEADLINE_S = 60.0
WAITS = {"asyncio.timeout": 0, "asyncio.wait_for": 1}
"""Functions that raise an error when time is over, with the place of the seconds among their arguments."""
ENDS = {"communicate", "join", "result", "wait"}
"""Methods that wait for what ends: a process, a thread, a future. Shorter than a second, it is a pause between two looks."""
LIMITS = {"timeout", "timeout_s", "deadline_s"}
"""Parameters of functions that give up, by their names. Shorter than two seconds, it is a pause, or what the test is about."""
EXPECTED = {
    # gRPC itself gives up after a minute, and the test is about what happens before.
    "gateway/test_frozen_peers.py": "GIVEN_UP_S",
    # Planted faults and what a client does, which are impatient.
    "conformance/connector.py": "asyncio.timeout(1)",
    "conformance/source_faults.py": "asyncio.wait_for(read(), 1.0)",
    # Time that is over is a result, and the caller looks again.
    "connectors/nats/rig.py": "asyncio.wait_for(client.close(), 2)",
    "connectors/nats/test_cluster.py": "ATTEMPT_S",
    # The time of this clock is made.
    "connectors/kafka/test_unheard.py": "site.wait(",
    "connectors/rabbitmq/test_unreadable.py": "asyncio.wait_for(server.wait_closed(), 5)",
    "connectors/test_vanished_clients.py": "asyncio.timeout(2)",
    "gateway/test_hostile.py": "asyncio.wait_for(reader.read(), 5)",
}
"""What may be shorter, by file."""


def short(source: str) -> Iterator[str]:
    """The waits in a module that fail after less than a minute."""
    module = ast.parse(source)
    constants = {
        target.id: each.value
        for each in module.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }

    def is_short(given: ast.expr, least_s: float) -> bool:
        value = constants.get(given.id) if isinstance(given, ast.Name) else given
        seconds = value.value if isinstance(value, ast.Constant) else None
        return type(seconds) in (int, float) and least_s <= seconds < MIN_DEADLINE_S  # type: ignore[operator]

    for node in ast.walk(module):
        given: list[ast.expr] = []
        least_s = 0.0
        if isinstance(node, ast.Call):
            name = _name(node.func)
            if name in WAITS:
                given = node.args[WAITS[name] :]
            elif isinstance(node.func, ast.Attribute) and node.func.attr in ENDS and name != "asyncio.wait":
                given, least_s = [*node.args, *(word.value for word in node.keywords if word.arg == "timeout")], 1.0
            else:
                given = [word.value for word in node.keywords if word.arg in LIMITS]
                least_s = 0.0 if name == "subprocess.run" else 2.0
        elif isinstance(node, ast.arguments):
            positional = [*node.posonlyargs, *node.args]
            optional = [*positional[len(positional) - len(node.defaults) :], *node.kwonlyargs]
            defaults = zip(optional, [*node.defaults, *node.kw_defaults], strict=True)
            given, least_s = [default for parameter, default in defaults if default and parameter.arg in LIMITS], 2.0
        elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Call) and _name(node.left.func) == "time.monotonic":
            given, least_s = [node.right], 2.0
        if any(is_short(each, least_s) for each in given):
            yield ast.unparse(node)


def _name(function: ast.expr) -> str:
    """A function as it is called, if by one or two names."""
    match function:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(module), name):
            return f"{module}.{name}"
    return ""


def test_no_test_gives_up_within_a_minute() -> None:
    found = [
        f"{name}: {wait}"
        for name, path in ((str(path.relative_to(TESTS)), path) for path in sorted(TESTS.rglob("*.py")))
        for wait in short(path.read_text())
        if EXPECTED.get(name, "\0") not in wait
    ]
    assert found == []


@pytest.mark.parametrize(
    "wait",
    [
        "await asyncio.wait_for(task, 10)",
        "async with asyncio.timeout(LIMIT_S): pass",
        "deadline = time.monotonic() + 20",
        "process.wait(30)",
        "process.communicate(timeout=5)",
        "subprocess.run(command, timeout=10)",
        "await messages.fetch(10, timeout=5)",
        "def wait(timeout_s: float = 20): pass",
    ],
)
def test_a_short_wait_is_found(wait: str) -> None:
    assert len(list(short(f"LIMIT_S = 30.0\nasync def test():\n    {wait}\n"))) == 1


def test_a_pause_between_two_looks_is_none() -> None:
    assert list(short("over.wait(0.05)\nasyncio.wait({task}, timeout=0.25)\nprocess.wait(60)\n")) == []
