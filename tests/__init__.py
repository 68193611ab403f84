"""Nodevet: tests mirror the folders they speak of."""
