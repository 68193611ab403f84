"""Tests of the doctor on a machine of its own."""
