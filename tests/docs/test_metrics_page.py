"""The page about metrics holds what the gateway measures."""

from scripts import generate_metrics_page


def test_tables_are_current() -> None:
    assert not generate_metrics_page.stale(), "run python -m scripts.generate_metrics_page"
