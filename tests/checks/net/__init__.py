"""Tests of checks/net."""
