"""Celsius: turns temperatures into Fahrenheit. Nothing is kept, so nothing is shuffled."""

from headrace.pipelines import Pipeline


def to_fahrenheit(celsius: float) -> float:
    """Water freezes at 32 and boils at 212."""
    return celsius * 1.8 + 32


def write(fahrenheit: float) -> str:
    """A line, to a tenth of a degree."""
    return f"{fahrenheit:.1f}"


app = Pipeline("celsius")
app.source("celsius/*", decode=float).map(to_fahrenheit).map(write).sink("fahrenheit")
