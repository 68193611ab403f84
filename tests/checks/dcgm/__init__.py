"""Tests of the questions to DCGM."""
