"""Checks that the site brings along as executables."""
