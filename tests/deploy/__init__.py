"""Tests of the simulated cluster: its Slurm, its hosts and their faults."""
