"""Kernel logs that somebody kept, in whatever form: read only when asked for one, never by an agent."""
