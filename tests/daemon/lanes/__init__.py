"""Tests of the lanes, with real processes."""
