"""Tests of the advice on the running Slurm."""
