"""The application of a soak, in a folder of its own, whose modules are brought to the workers."""
