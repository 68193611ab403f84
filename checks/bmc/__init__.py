"""The node's own controller: power supplies, fans, temperatures and its event log."""
