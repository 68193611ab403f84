"""Tests of the nodevet command."""
