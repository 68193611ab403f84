"""Who asks, and what may they do."""
