"""All adapters of one board have the same firmware, the one that the profile names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.net.adapters import Adapter, adapters
from checks.net.ports import optional
from checks.net.route import management
from checks.wire import Finding

DIFFERS = code(
    "rdma_firmware_differs",
    "warn",
    "config",
    "adapters of board {board} have different firmware: {versions}",
    explain="One was replaced or an update missed it. Confirm: `grep . /sys/class/infiniband/*/fw_ver`, "
    "`mlxfwmanager`. Do: bring all to one version.",
)
OTHER = code(
    "rdma_firmware_other",
    "warn",
    "config",
    "firmware {version}, expected {expected} for board {board}",
    explain="Confirm: `cat /sys/class/infiniband/<hca>/fw_ver`, `mlxfwmanager`. Do: update it, or correct the profile.",
)


@check(lane="rdma", interval=3600, timeout=3.0, codes=(DIFFERS, OTHER))
def rdma_firmware(host: Host, *, versions: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Firmware of each adapter against the others of its board id (PSID) and against ``versions``.

    A version is named for a board: ``MT_0000000838=28.43.2026``. Boards that are not named are compared within the
    node only; adapters that tell no board or version, and that of the default route, are left out.
    Confirm by hand: ``grep . /sys/class/infiniband/*/{board_id,fw_ver}``.

    ``ignore``: adapters that are left out.
    """
    expected = dict(_pair(text) for text in versions)
    boards: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    serving = management(host)
    for adapter in adapters(host):
        board, version = _line(host, adapter, "board_id"), _line(host, adapter, "fw_ver")
        if board and version.strip("0.") and adapter.name not in ignore and adapter.device not in serving:
            boards[board][version].append(adapter.name)
    if not boards:
        raise Skip("no RDMA adapter tells its board and firmware")
    for board, found in sorted(boards.items()):
        yield from _judge(board, found, expected.get(board, ""))


def _judge(board: str, found: dict[str, list[str]], expected: str) -> Iterator[Finding]:
    if expected:
        for version, names in sorted(found.items()):
            if version != expected:
                yield from (OTHER(name, version=version, expected=expected, board=board) for name in names)
    elif len(found) > 1:
        told = "; ".join(f"{version} on {', '.join(names)}" for version, names in sorted(found.items()))
        yield DIFFERS(board, board=board, versions=told)
    if len(found) == 1:
        (version, names), *_ = found.items()
        yield ok(board, f"{len(names)} adapters with firmware {version}", adapters=len(names), firmware=version)


def _pair(text: str) -> tuple[str, str]:
    board, sign, version = text.partition("=")
    if not (board.strip() and sign and version.strip()):
        raise ValueError(f"version {text[:60]!r}: expected BOARD=VERSION")
    return board.strip(), version.strip()


def _line(host: Host, adapter: Adapter, name: str) -> str:
    return (optional(host, adapter.path / name) or "")[:64]
