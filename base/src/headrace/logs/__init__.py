"""The logs of all parts: their format, the context of a line, and what keeps repeated lines from filling them."""
