"""Tests of the central service."""
