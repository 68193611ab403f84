"""A drain reason says who owns the drain: ours starts with ``nodevet:``, Slurm's own are known by their words.

Ours, one line of at most 200 characters: ``nodevet: gpu_lost GPU 3 (0000:5d:00.0) fell off the bus; Xid 79 [7f3a9c]``.
The token at the end ties the text to our record of the drain. Reasons are public (`sinfo -R`): paths are taken out
here, and callers put no user or job name in.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from slurm.state import NodeState

PREFIX = "nodevet:"
PERSON_PREFIX = "nodevet/person:"
MAX_CHARS = 200


class Owner(enum.Enum):
    """Who took a node out of service."""

    OURS_AUTOMATIC = "ours-automatic"
    PERSON_THROUGH_US = "person-through-us"
    SLURM = "slurm"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class OurReason:
    """A reason of ours, taken apart; `appended` is what Slurm itself added behind it (" : reboot issued")."""

    owner: Owner
    code: str | None
    detail: str
    token: str
    appended: str = ""


_TOKEN = re.compile(r"[0-9a-f]{4,32}")
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OURS = re.compile(
    r"nodevet(?P<person>/person)?: (?P<body>.+?) \[(?P<token>[0-9a-f]{4,32})\](?P<appended>(?: : reboot [a-z ]{1,40})*)"
)
_PATH = re.compile(r"(?<![\w/])/(?!dev/[a-z]+\d+\b)[^\s,;:()\[\]]+")

# What slurmctld and slurmd write by themselves, 20.11 to 26.05.
_SLURM = re.compile(
    r"""(?x)
    (Prolog|Epilog)\ (error|failed)\b | Prolog/Epilog\ failure | Kill\ task\ failed | batch\ job\ complete\ failure
    | Not\ responding | gres/\S+\ count\ reported\ lower | Low\ (RealMemory|CPUs|TmpDisk|socket\*core\*thread\ count)
    | Duplicate\ jobid | Job\ env\ setup\ error | CoreSpec\ differ | Reboot\ ASAP | Node\ unexpectedly\ rebooted
    | Node\ silently\ failed | Epilog\ msg\ | ResumeTimeout\ reached | Invalid\ gres | Node\ was\ not\ responding
    | launch\ failed | Scheduled\ reboot | reboot\ (issued|timed\ out|complete) | Powered\ down\ after\ resume
    """
)


def one_line(text: str, limit: int = MAX_CHARS) -> str:
    """Bring any text into one printable line of at most `limit` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 16 * limit]).split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


def compose(code: str, detail: str, *, token: str) -> str:
    """Write the reason of an automatic drain."""
    if _CODE.fullmatch(code) is None:
        raise ValueError(f"code {code!r} is not lower case letters, digits and underscores")
    return _composed(f"{PREFIX} {code}", detail, token)


def compose_person(detail: str, *, token: str) -> str:
    """Write the reason of a drain that a person asked us for; it is never resumed automatically."""
    return _composed(PERSON_PREFIX, detail, token)


def parse(text: str) -> OurReason | None:
    """Take a reason of ours apart; None when it is not ours word for word."""
    match = _OURS.fullmatch(text)
    if match is None:
        return None
    body = match["body"]
    if match["person"]:
        return OurReason(Owner.PERSON_THROUGH_US, None, body, match["token"], match["appended"])
    code, _, detail = body.partition(" ")
    if _CODE.fullmatch(code) is None:
        return None
    return OurReason(Owner.OURS_AUTOMATIC, code, detail, match["token"], match["appended"])


def needs_repair(text: str) -> bool:
    """Whether a reason is ours but stored with quotation marks around it, as a careless writer leaves it."""
    bare = text.strip().strip("\"'").strip()
    return bare != text and parse(bare) is not None


def owner_of(state: NodeState) -> Owner | None:
    """Say who took the node out of service; None when it is in service, whatever reason is left over."""
    if not state.out_of_service:
        return None
    text = state.reason.text if state.reason else ""
    if (ours := parse(text)) is not None:
        return ours.owner
    return Owner.SLURM if _SLURM.match(text) else Owner.OTHER


def _composed(head: str, detail: str, token: str) -> str:
    if _TOKEN.fullmatch(token) is None:
        raise ValueError(f"token {token!r} is not 4 to 32 lower-case hexadecimal digits")
    room = MAX_CHARS - len(head) - len(token) - 4
    # The head of the long text is cut before paths are taken out, so that the work stays bounded.
    plain = _PATH.sub("(path)", one_line(detail, 4 * MAX_CHARS))
    return f"{head} {one_line(plain, room) or 'no detail'} [{token}]"
