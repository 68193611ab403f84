"""``python -I -m daemon`` is the nodevet command, whatever PATH and PYTHONPATH hold."""

from __future__ import annotations

from daemon.cli.main import main

if __name__ == "__main__":
    main()
