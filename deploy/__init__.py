"""How Nodevet gets onto machines."""
