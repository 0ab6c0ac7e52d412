"""Time windows."""
