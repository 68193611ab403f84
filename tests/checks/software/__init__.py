"""Tests of what jobs need besides hardware."""
