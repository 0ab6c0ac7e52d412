"""What all rooms of the core speak in: errors, limits, positions, signals."""
