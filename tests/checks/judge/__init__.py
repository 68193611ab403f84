"""Tests of checks/judge."""
