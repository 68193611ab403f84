"""What agents ask all the time: raw bodies, msgspec, no framework between."""
