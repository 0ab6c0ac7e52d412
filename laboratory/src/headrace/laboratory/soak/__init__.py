"""`headrace soak`: runs everything at a steady rate with a state of fixed size, and checks that no process's memory grows."""
