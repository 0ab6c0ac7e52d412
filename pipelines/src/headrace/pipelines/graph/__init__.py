"""The graph of steps that an application describes."""
