"""Tests of checks/system."""
