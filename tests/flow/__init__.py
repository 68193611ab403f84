"""Whole jobs through real Slurm, real agents and the real central service; only the hardware is simulated."""
