"""The central service."""
