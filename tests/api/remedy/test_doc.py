"""docs/remediation.md tells every state and setting of remedies as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from api.alerts.settings import AlertSettings, Target
from api.remedy.record import MOVES, RemedyState
from api.remedy.settings import Reboot, RemedySettings, ResetGpu, Run
from daemon.config import RemedySettings as NodeSettings

PAGE = (Path(__file__).parents[3] / "docs/remediation.md").read_text(encoding="utf-8")


def test_the_states_and_their_moves_are_told() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|$", PAGE, re.MULTILINE))
    for state in get_args(RemedyState):
        assert sorted(re.findall(r"`(\w+)`", rows[state])) == sorted(MOVES.get(state, ())), state


def test_every_setting_is_told() -> None:
    for kind in (RemedySettings, ResetGpu, Reboot, Run, NodeSettings, Target):
        for name in kind.__struct_fields__:
            told = rf"\b{name}\b" if name not in ("reset_gpu", "reboot", "run") else name
            assert re.search(told, PAGE) or name in ("ca_file", "plain"), f"{kind.__name__}.{name}"
    assert "resend" in PAGE and "resend" in AlertSettings.__struct_fields__
