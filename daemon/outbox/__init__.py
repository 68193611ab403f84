"""Reports wait in append-only segment files until the central service has stored them."""
