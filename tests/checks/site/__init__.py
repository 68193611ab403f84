"""Tests of checks/site."""
