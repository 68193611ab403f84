"""Tests of what the node's own controller is asked."""
