"""GRES strings and gres.conf tell how many GPUs a node has and which device file each index means.

SLURM_JOB_GPUS holds indices into the list of files that gres.conf gives for ``Name=gpu``; the digits at the end of a
file's name are the device minor. Index, minor and NVML's index are three different numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slurm import hostlist

MAX_FILES = 4096

_EMPTY = frozenset({"", "(null)", "N/A", "n/a", "none"})
_DETAIL = re.compile(r"\((?P<body>[^()]*)\)")
_COUNT = re.compile(r"(?P<number>[0-9]{1,12})(?P<unit>[KkMmGgTtPp]?)")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_INDICES = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_SETTING = re.compile(r'([A-Za-z]+)=("[^"]*"|\S+)')
_MINOR = re.compile(r"([0-9]{1,7})$")
_NO_GPU = ("nvidia-cap", "renderD", "card")


class GresError(ValueError):
    """A gres.conf or a GRES string could not be understood."""


@dataclass(frozen=True, slots=True)
class Gres:
    """One entry of a GRES string: ``gpu:h100:8(S:0-1)``; `indices` only where Slurm tells them (IDX)."""

    name: str
    type: str | None = None
    count: int = 1
    indices: tuple[int, ...] | None = None
    sockets: str | None = None


def parse_gres(text: str | None) -> tuple[Gres, ...]:
    """Read every entry of a GRES string; nothing from ``(null)`` or ``N/A``."""
    if text is None or text.strip() in _EMPTY:
        return ()
    return tuple(_entry(entry) for entry in _entries(text.strip()))


def gpu_count(text: str | None) -> int:
    """Return how many GPUs a GRES string names, over all types (MIG devices counted as they are configured)."""
    return sum(gres.count for gres in parse_gres(text) if gres.name == "gpu")


def gpu_files(gres_conf: str, node: str, *, gres: str | None = None) -> tuple[str, ...]:
    """Return the device files of the node's GPUs by index; empty where gres.conf leaves them to AutoDetect.

    `gres` is the node's Gres as slurmctld has it. It decides the order where GPUs have several types (measured on
    22.05: slurm.conf's order of types, within a type gres.conf's); without it such a node raises GresError.
    """
    lines = list(_gpu_lines(gres_conf, node))
    if len({type_ for type_, _, _ in lines}) > 1 or len(_gpu_types(gres)) > 1:
        order = _gpu_types(gres)
        for type_, _, _ in lines:
            if type_ not in order:
                raise GresError(f"gres.conf: place of GPU type {type_} of node {node} among {list(order)} is not known")
        lines.sort(key=lambda line: order.index(line[0]))
    whole = [file for _, found, parts in lines if not parts for file in found]
    if len(set(whole)) != len(whole):
        raise GresError(f"gres.conf names a GPU file of node {node} twice")
    return tuple(file for _, found, _ in lines for file in found)


def promised_gpus(gres_conf: str, node: str) -> int | None:
    """Return how many GPUs gres.conf names by file for the node, None where it names none.

    Of MIG devices it is their parents that count, however often each is named; what is only capabilities counts as
    nothing. The order of types does not matter here.
    """
    files = {file for _, found, _ in _gpu_lines(gres_conf, node) for file in found if minor(file) is not None}
    return len(files) or None


def promised_parts(gres_conf: str, node: str) -> tuple[str, ...]:
    """Return how gres.conf hands out each GPU that it names by file, by device minor.

    ``0:`` is a whole GPU, ``1:1g.10gb`` one instance (MIG) of that type of another; a type that is not named is "?".
    """
    found = []
    for type_, files, parts in _gpu_lines(gres_conf, node):
        numbers = [number for file in files if (number := minor(file)) is not None]
        found += [f"{number}:{(type_ or '?') if parts else ''}" for number in numbers]
    return tuple(found)


def minor(file: str) -> int | None:
    """Return the device minor that a file's name ends in: 3 for ``/dev/nvidia3``.

    The number of a MIG capability or of another maker's device is no such minor: None.
    """
    match = _MINOR.search(file)
    return int(match.group(1)) if match and not file.rpartition("/")[2].startswith(_NO_GPU) else None


def autodetect(gres_conf: str, node: str) -> str | None:
    """Return the AutoDetect setting that holds for the node (``nvml``, ``rsmi``, ``off``), or None."""
    found: str | None = None
    for settings in _conf_lines(gres_conf):
        if "autodetect" in settings and _for_node(settings, node):
            found = settings["autodetect"].lower()
    return found


def _gpu_lines(gres_conf: str, node: str) -> Iterator[tuple[str | None, tuple[str, ...], bool]]:
    """Yield type and files of each line that gives GPUs to the node, and whether they are parts (MIG) of them.

    The MultipleFiles of a line are one MIG device: the GPU that it is a part of stands for it.
    """
    total = 0
    for settings in _conf_lines(gres_conf):
        if settings.get("name", "").lower() != "gpu" or not _for_node(settings, node):
            continue
        patterns = _commas(settings.get("file") or settings.get("multiplefiles") or "")
        files = tuple(file for pattern in patterns for file in _files(pattern))
        total += len(files)
        if total > MAX_FILES:
            raise GresError(f"gres.conf names more than {MAX_FILES} GPU files for node {node}")
        parts = "file" not in settings
        if parts:
            files = tuple(file for file in files if minor(file) is not None)[:1] or files[:1]
        if files:
            yield settings.get("type"), files, parts


def _gpu_types(gres: str | None) -> tuple[str | None, ...]:
    return tuple(dict.fromkeys(entry.type for entry in parse_gres(gres) if entry.name == "gpu"))


def _entries(text: str) -> Iterator[str]:
    """Yield what stands between the commas outside of parentheses."""
    depth, begin = 0, 0
    for position, char in enumerate(text):
        if char in "()":
            depth += 1 if char == "(" else -1
        elif char == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


def _entry(entry: str) -> Gres:
    details = [match["body"] for match in _DETAIL.finditer(entry)]
    plain = _DETAIL.sub("", entry).strip().removeprefix("gres:").replace("/", ":").removeprefix("gres:")
    words = [word for word in plain.split(":") if word != "no_consume"]
    # `gpu:4`, `gpu:h100:4`, `gpu:h100` (one of them) and `gpu` (one); a type may hold dots: a100_1g.5gb.
    number = _COUNT.fullmatch(words[-1]) if len(words) > 1 else None
    names = words[:-1] if number else words
    if not names[0] or len(names) > 2 or any("(" in word or ")" in word for word in words):
        raise GresError(f"{entry[:64]!r} is no GRES entry")
    indices = next((_indices(body[4:]) for body in details if body.startswith("IDX:")), None)
    return Gres(
        name=names[0],
        type=names[1] if len(names) == 2 else None,
        count=int(number["number"]) * _UNITS[number["unit"].lower()] if number else 1,
        indices=indices,
        sockets=next((body[2:] for body in details if body.startswith("S:")), None),
    )


def _indices(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        match = _INDICES.fullmatch(part.strip())
        if match is None:
            if part.strip() in _EMPTY:
                continue
            raise GresError(f"{text[:64]!r} is no list of indices")
        found.extend(range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1))
        if len(found) > MAX_FILES:
            raise GresError(f"index list names more than {MAX_FILES} devices")
    return tuple(found)


def _conf_lines(text: str) -> Iterator[dict[str, str]]:
    for line in text.replace("\\\n", " ").split("\n"):
        plain = line.split("#", 1)[0]
        settings = {key.lower(): value.strip('"') for key, value in _SETTING.findall(plain)}
        if settings:
            yield settings


def _for_node(settings: dict[str, str], node: str) -> bool:
    names = settings.get("nodename")
    if names is None:
        return True
    try:
        return names.upper() == "ALL" or node in hostlist.expand(names)
    except hostlist.HostlistError as error:
        raise GresError(f"gres.conf: NodeName={names[:64]}: {error}") from error


def _commas(text: str) -> list[str]:
    return [part for part in re.split(r",(?![^\[]*\])", text) if part]


def _files(pattern: str) -> tuple[str, ...]:
    """Expand ``/dev/nvidia[0-7]``: the directory is kept, the last part is a host list."""
    directory, slash, name = pattern.rpartition("/")
    if not slash:
        raise GresError(f"gres.conf: File={pattern[:64]} is not an absolute path")
    try:
        return tuple(f"{directory}/{item}" for item in hostlist.expand(name, limit=MAX_FILES))
    except hostlist.HostlistError as error:
        raise GresError(f"gres.conf: File={pattern[:64]}: {error}") from error
