"""A profile as tables, one for each case."""

from typing import Any

from headrace.terminal.tables import FittingTable, plain_table


def tables(profile: dict[str, Any]) -> list[FittingTable]:
    """Returns a table of the parts of each case, with what the same run measured again."""
    drawn = []
    for name, case in profile.items():
        title = f"{name}: {case['what']}; {case['profiler']:.0%} beside it for the profiler itself"
        rows = plain_table("part", "#us/message", "#again", "#us/frame", "#share", title=title, title_justify="left")
        for part in case["parts"]:
            us, again, of_frame = part["us_per_message"], part["again"], part["us_per_frame"]
            rows.add_row(part["part"], f"{us:.3f}", f"{again:.3f}", f"{of_frame:,.1f}", f"{part['share']:.1%}")
        of_frame = case["us_per_message"] * case["messages_of_a_frame"]
        rows.add_row("all", f"{case['us_per_message']:.3f}", f"{case['again']:.3f}", f"{of_frame:,.1f}", "")
        drawn.append(rows)
    return drawn
