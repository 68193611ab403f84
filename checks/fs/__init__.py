"""File systems and mounts."""
