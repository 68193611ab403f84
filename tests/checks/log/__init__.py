"""Tests of checks/log."""
