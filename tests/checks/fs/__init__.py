"""Tests of checks/fs."""
