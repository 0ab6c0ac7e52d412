"""The application of a soak, in a separate folder, whose modules are shipped to the workers."""
