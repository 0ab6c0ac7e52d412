"""What this machine lends to processes: memory, ports, descriptors, and folders that belong to them until they end."""
