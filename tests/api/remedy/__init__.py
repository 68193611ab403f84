"""Remedies: what is tried on a drained node before a person has to come."""
