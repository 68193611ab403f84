"""Tests against a real Slurm, brought up for them on this machine."""
