"""A module of an application, as a text that tests write into a folder of their own."""

COUNTING = """
from dataclasses import dataclass

@dataclass
class Count:
    seen: int = 0

def count(number, state):
    state.seen += 1
    return str(state.seen)
"""
