"""The agent as a real process, and its parts as values."""
