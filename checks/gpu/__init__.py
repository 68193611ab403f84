"""GPUs: presence, health, memory errors, links and who holds them."""
