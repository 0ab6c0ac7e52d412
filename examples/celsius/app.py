"""Celsius: converts temperatures to Fahrenheit. It keeps no state, so there is no shuffle."""

from headrace.pipelines import Pipeline


def to_fahrenheit(celsius: float) -> float:
    """Converts a temperature: water freezes at 32 and boils at 212."""
    return celsius * 1.8 + 32


def write(fahrenheit: float) -> str:
    """Formats a temperature, to a tenth of a degree."""
    return f"{fahrenheit:.1f}"


app = Pipeline("celsius")
app.source("celsius/*", decode=float).map(to_fahrenheit).map(write).sink("fahrenheit")
