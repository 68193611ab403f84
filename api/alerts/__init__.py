"""Incidents are told to Alertmanager and to a webhook by a thread of their own; off unless an address is given."""
