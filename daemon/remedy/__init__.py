"""What an agent does to its own node when it is ordered to, and nothing unless its own configuration lets it."""
