"""Hostile input for everything that reads text or bytes of others; README.md tells how to run it for hours."""
