"""What this machine lends to processes: ports, descriptors, and folders that belong to them until they end."""
