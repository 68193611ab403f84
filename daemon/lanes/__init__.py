"""Isolated worker processes for calls that may hang, forked from a clean ancestor and never waited for.

Nothing is imported here: the ancestor and every worker would carry the event loop that only the agent needs.
"""
