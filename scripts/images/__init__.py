"""Images of containers, assembled from packages of Debian and wheels."""
