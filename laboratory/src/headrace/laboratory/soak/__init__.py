"""`headrace soak`: everything runs at a steady rate with a state of fixed size, and no process may grow."""
