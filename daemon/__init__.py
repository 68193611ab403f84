"""The agent on each node and the nodevet command."""
