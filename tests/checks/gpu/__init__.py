"""Tests of checks/gpu."""
