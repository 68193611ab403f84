"""Questions to NVIDIA's DCGM, where it is installed."""
