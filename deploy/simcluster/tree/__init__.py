"""The generated /sys, /proc, /dev and /etc of one simulated node."""

from __future__ import annotations

from deploy.simcluster.tree.board import PROFILES, Board, Identity
from deploy.simcluster.tree.files import Content, baseline, directories, put, write_tree

__all__ = ["PROFILES", "Board", "Content", "Identity", "baseline", "directories", "put", "write_tree"]
