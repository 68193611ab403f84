"""What people and programs ask: each route parses in its signature, works in the store, answers a value."""
