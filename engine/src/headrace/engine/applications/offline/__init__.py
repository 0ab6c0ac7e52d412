"""Reads the states of an application, which may run, and changes the checkpoint of one that does not.

Others use `Kept`, `StateSize`, `StoredPositions`, `StoredStates`, `plain`, `read_state`, `rescale`.
"""
