"""The verbs of the nodevet command."""
