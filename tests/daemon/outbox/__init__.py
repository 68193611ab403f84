"""The outbox on real disks."""
