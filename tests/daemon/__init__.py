"""Tests of the agent and the nodevet command."""
