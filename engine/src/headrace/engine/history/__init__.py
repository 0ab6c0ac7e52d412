"""Messages of the past, in files: which there are, in which order an application reads them, and where its streams continue."""
