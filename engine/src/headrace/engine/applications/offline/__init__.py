"""Reads and changes a checkpoint whose application does not run.

Others use `Kept`, `StateSize`, `StoredPositions`, `StoredStates`, `rescale`.
"""
