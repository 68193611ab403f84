"""Alerts, against servers that are there, hang, refuse, redirect and come back."""
