"""Tables of files that an application writes: tasks write the files, and the driver shows them once `commits/N` exists."""
