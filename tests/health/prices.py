"""An application that fails at bad prices; a module of its own since each of Spark's Python processes imports it."""

from collections.abc import Callable

from headrace.pipelines import Pipeline


def strict(line: str) -> str:
    if line == "bad":
        raise ValueError("no price in 'bad'")
    return line


def lenient(line: str) -> str:
    return line


def priced(name: str, price: Callable[[str], str] = lenient) -> Pipeline:
    app = Pipeline(name)
    app.source(f"{name}/*", decode=bytes.decode).map(price, name="price").sink(name)
    return app
