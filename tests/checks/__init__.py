"""Tests of what is true of a node, as values."""
