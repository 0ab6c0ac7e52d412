"""Serialisation of keyed states, and changes of their classes."""
