"""What is tried on a drained node before a person has to come: planned, bounded, written down, and off by default."""
