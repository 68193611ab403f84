"""The only writer of automatic drains: guard, permits, gate, verification."""
