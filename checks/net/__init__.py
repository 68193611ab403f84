"""Network adapters and their ports."""
