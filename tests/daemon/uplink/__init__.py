"""The uplink and the REST client against a real server."""
