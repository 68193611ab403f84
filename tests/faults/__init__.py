"""Our own trouble, provoked: it may cost an answer, never a node."""
