"""What one policy file may hold: rules per code, and tables of what lines, numbers and counters mean."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Literal

import msgspec

from checks.wire import Action, Blame, Status

PolicyStep = Literal["verify", "burn-in", "person"]
Remedy = Annotated[str, msgspec.Meta(pattern=r"^(reset-gpu|reboot|run:[A-Za-z0-9][A-Za-z0-9._-]{0,63})$")]

_COUNTER = re.compile(r"(?:(?:hw_)?counters|statistics)/\w{1,64}|ethtool/[\w*]{1,64}", re.ASCII)


@cache
def expression(text: str) -> re.Pattern[str]:
    """The compiled form of a policy's regular expression: made when its file is read, and never again."""
    return re.compile(text)


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every entry of a table may say of itself: where its values come from, and why they are what they are."""

    origin: str | None = None
    reason: str | None = None


TOLD = Told.__struct_fields__


class Rule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What follows from one code.

    ``status``/``blame`` override the code's own. ``prolog`` and ``interval`` are the wanted actions. ``confirm`` is
    the number of consecutive rounds before anything follows, at a hook as between jobs. ``lease``: a permit
    may be leased in advance. ``device_lost``: refuse even a job that would not be requeued. ``breaks_every_job``:
    a late drain may requeue a started job. ``refuse_up_to_nodes``: larger jobs are admitted and the node drained
    afterwards. ``resume``: what brings the node back. ``remedy``: what may be tried on the drained node, the mildest
    first, each once, and then a person; done only where the site has switched it on. ``shadow``: recorded, never acted
    upon.
    """

    status: Status | None = None
    blame: Blame | None = None
    prolog: Action | None = None
    interval: Action | None = None
    confirm: int | None = None
    lease: bool | None = None
    device_lost: bool | None = None
    breaks_every_job: bool | None = None
    refuse_up_to_nodes: int | None = None
    resume: PolicyStep | None = None
    remedy: tuple[Remedy, ...] | None = None
    shadow: bool | None = None


class KernelRule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one kind of line in the kernel's log means; any field may be left out by a layer over another.

    ``match`` and ``clear`` are regular expressions with the groups ``target``; ``means`` are our words for people.
    ``at_least`` lines about one target ``within`` seconds make a finding with ``code``, which stands ``hold`` seconds.
    ``judge``: the check that looks at the present state. ``off``: the site does not want it.
    """

    match: str | None = None
    clear: str | None = None
    code: str | None = None
    means: str | None = None
    status: Status | None = None
    blame: Blame | None = None
    at_least: int | None = None
    within: float | None = None
    hold: float | None = None
    judge: str | None = None
    off: bool | None = None

    def __post_init__(self) -> None:
        for text in (self.match, self.clear):
            try:
                expression(text or "")
            except re.error as error:
                raise ValueError(f"no regular expression: {error}") from error
        if self.blame == "self":
            raise ValueError("blame self is our own trouble, which no line of the kernel tells")


class CounterRule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a counter of an RDMA port has grown too fast: by more than ``limit`` within ``within`` seconds.

    ``path``: below the port's folder, or ``statistics/`` of an Ethernet interface or ``ethtool/`` of its driver.
    ``layer``: the one link layer that is meant, empty for both. ``end``: where it stops counting. ``means``: our
    words. ``off``: the site does not want it.
    """

    path: str | None = None
    limit: int | None = None
    within: float | None = None
    end: int | None = None
    means: str | None = None
    layer: Literal["", "InfiniBand", "Ethernet"] | None = None
    status: Literal["warn", "fail"] | None = None
    blame: Literal["node", "fabric", "job", "config"] | None = None
    off: bool | None = None

    def __post_init__(self) -> None:
        if self.path is not None and not _COUNTER.fullmatch(self.path):
            raise ValueError(f"path {self.path!r}: expected counters/NAME, hw_counters/, statistics/ or ethtool/")
        if self.within is not None and not 10 <= self.within <= 86400:
            raise ValueError(f"within {self.within:g}: expected 10 to 86400 s")


XidCode = Literal["gpu_xid_reset", "gpu_xid_replace", "gpu_xid_nvlink", "gpu_xid_warn", "gpu_xid_job"]


class XidRule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one Xid number means; any field may be left out by a layer over another.

    ``code`` says what follows, ``status`` and ``blame`` override it, ``judge`` names the check of the present state.
    ``primary``: other errors come of it. ``follows``: it may be such a consequence, of an error of the same GPU
    ("gpu") or of any GPU of the node ("node"). ``ends``: the numbers that it takes back.
    """

    name: str | None = None
    code: XidCode | None = None
    status: Status | None = None
    blame: Blame | None = None
    judge: str | None = None
    primary: bool | None = None
    follows: Literal["", "gpu", "node"] | None = None
    ends: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.blame == "self":
            raise ValueError("blame self is our own trouble, which no line of the kernel tells")


class NvlinkRule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one unit of an NVLink5 port reports by Xid 144 to 150.

    It fits the number ``xid`` from one of ``units`` where the error status has one of ``bits`` or is one of
    ``values``, and the sub-code is one of ``subcodes``; what is not given is not asked. ``step``: "reset" is asked
    for, the present "state" decides, "ignore", or "quiet": no fault of this GPU although the driver calls it fatal.
    """

    xid: int | None = None
    units: tuple[str, ...] | None = None
    bits: int | None = None
    values: tuple[int, ...] | None = None
    subcodes: tuple[int, ...] | None = None
    step: Literal["reset", "state", "ignore", "quiet"] | None = None
    off: bool | None = None


class SxidRule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What errors of an NVSwitch mean: of one kind, or of one number, whose own values go over its kind's.

    ``kind`` of a number: the entry it follows whatever the driver says; without one the driver's own word decides,
    "fatal", "nonfatal" or "unsaid". ``name``: our words for a number. ``ends``: the number that it takes back.
    The rest is as in the table ``kernel``.
    """

    kind: str | None = None
    name: str | None = None
    code: Literal["nvswitch_fatal", "nvswitch_errors"] | None = None
    means: str | None = None
    status: Literal["warn", "fail"] | None = None
    blame: Literal["node", "fabric", "config"] | None = None
    at_least: int | None = None
    within: float | None = None
    hold: float | None = None
    judge: str | None = None
    ends: str | None = None
    off: bool | None = None


class LinkRule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When an error counter of an NVLink has grown too fast: by more than ``limit`` within ``within`` seconds.

    ``field``: NVML's name of it, ``NVML_FI_DEV_NVLINK_...``. ``per``: a counter of each link, or of the whole GPU.
    ``unless``: not asked where that other entry can be. With ``ber`` the field is a bit error rate, too high above
    that while the counter ``errors`` grows. ``means``: our words. ``off``: the site does not want it.
    """

    field: str | None = None
    per: Literal["link", "gpu"] | None = None
    unless: str | None = None
    limit: int | None = None
    within: float | None = None
    ber: float | None = None
    errors: str | None = None
    means: str | None = None
    off: bool | None = None

    def __post_init__(self) -> None:
        for name in (self.field, self.errors):
            if name is not None and not re.fullmatch(r"NVML_FI_DEV_NVLINK_\w{1,64}", name):
                raise ValueError(f"field {name!r}: expected NVML_FI_DEV_NVLINK_...")
        if self.within is not None and not 10 <= self.within <= 86400:
            raise ValueError(f"within {self.within:g}: expected 10 to 86400 s")


class DcgmRule(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one error of NVIDIA's DCGM means, by its number, or all of one severity (key ``severity-1`` to ``-6``).

    ``code`` is one that the check dcgm_diag declares; ``status`` and ``blame`` override what it says. ``judge``: the
    check that looks at the present state. ``off``: the site does not want it.
    """

    name: str | None = None
    code: str | None = None
    status: Literal["warn", "fail", "unknown", "skipped"] | None = None
    blame: Literal["node", "fabric", "shared", "config", "job"] | None = None
    judge: str | None = None
    off: bool | None = None


class Pack(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One policy file: a version, defaults per "status.blame", rules per code, and tables of what things mean.

    ``origin`` and ``reason`` of the file hold for each entry that gives none of its own.
    """

    version: str
    defaults: dict[str, Rule] = {}
    codes: dict[str, Rule] = {}
    xid: dict[str, XidRule] = {}
    kernel: dict[str, KernelRule] = {}
    counter: dict[str, CounterRule] = {}
    sxid: dict[str, SxidRule] = {}
    nvlink5: dict[str, NvlinkRule] = {}
    dcgm: dict[str, DcgmRule] = {}
    nvlink: dict[str, LinkRule] = {}
