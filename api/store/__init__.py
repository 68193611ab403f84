"""What the central service remembers."""
