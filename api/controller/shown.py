"""Every drain in force is shown with its owner, its way out, and beside it what else bears on the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api.controller.burn_in import progress
from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.controller.quiet import why_paused
from api.ports import DrainView
from checks.wire import Finding, clean
from slurm.reason import Owner, owner_of, parse
from slurm.state import NodeState

SHOWN = 3


def drain_views(core: Core) -> list[DrainView]:
    """Every drain in force, whoever owns it, with its way out."""
    records = core.records.open_drains(core.cluster)
    failing = core.store.all_failing(core.cluster)
    views = []
    for name, state in sorted(core.view.states.items()):
        record, reason = records.get(name), state.active_reason
        owner = owner_of(state) or (Owner(record.owner) if record is not None and record.state == "testing" else None)
        if owner is None:
            continue
        ours = parse(reason.text) if reason else None
        views.append(
            DrainView(
                cluster=core.cluster,
                node=name,
                owner=owner.value,
                reason=clean(reason.text) if reason else "",
                code=ours.code if ours else None,
                token=ours.token if ours else "",
                since=reason.at if reason else None,
                actor=record.actor if record else (reason.user or "" if reason else ""),
                state=str(state),
                phase=record.state if record else "",
                exit=_exit(core, owner, record, state),
                ticket=core.ticket(name),
                beside=tuple(clean(said) for said in _beside(core, owner, state, failing.get(name, ()))),
            )
        )
    return views


def _beside(core: Core, owner: Owner, state: NodeState, failing: Sequence[Finding]) -> Iterator[str]:
    """What a person should know of a drained node beside its reason."""
    if owner in (Owner.SLURM, Owner.OTHER):
        if known := core.slurms_own(state.name)[0]:
            yield known
        # What only the policy calls a failure is the kernel's memory of a fault that is over.
        bad = [f for f in failing if f.status == "fail"]
        told = [f"{f.code} {f.target}: {f.message}" for f in bad[:SHOWN]]
        more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        if told:
            yield f"we find {'; '.join(told)}{more}"
    if (pause := core.quiet.paused(state.name, core.clock())) is not None:
        yield why_paused(pause)
    for silence in core.quiet.silences(core.clock()):
        if (not silence.node or silence.node == state.name) and (
            not silence.partition or silence.partition in state.partitions
        ):
            what = f"check {silence.check} is" if silence.check else "every check is"
            yield f"{what} silenced by {silence.actor} until {silence.until:%Y-%m-%d %H:%M} UTC: {silence.reason}"
    if risk := core.risk(state.name):
        yield risk


def way_out(core: Core, state: NodeState, record: DrainRecord | None) -> str:
    """What brings back a node that is out of service or that hands are off."""
    return _exit(core, owner_of(state) or Owner.OTHER, record, state)


def _exit(core: Core, owner: Owner, record: DrainRecord | None, state: NodeState) -> str:
    """What brings this node back."""
    if record is not None and record.state == "testing":
        return "a job of ours in a reservation of ours; when it ends well and a look is clean the node is in service"
    if state.hands_off:
        return f"hands off while {state.hands_off}"
    if paused := core.paused(state.name):
        return f"hands off: {paused}"
    if owner is Owner.SLURM:
        way = core.slurms_own(state.name)[1] or "find the cause, then scontrol update nodename=… state=resume"
        return f"slurm's own drain: {way}"
    if owner is Owner.OTHER or record is None:
        return "whoever drained it resumes it"
    if record.resume_by:
        part = f"{record.part}; " if record.part else ""
        return f"{part}verification {record.rounds} of {core.settings.verify_rounds}, asked for by {record.resume_by}"
    said = "; ".join(word for word in (record.part, record.held) if word)
    if record.automatic and record.step == "burn-in":
        way = f"mend it; {progress(core, record)}, then it is resumed"
    elif record.automatic and record.step == "verify":
        way = f"mend it; {core.settings.verify_rounds} clean verifications in a row then resume it"
    else:
        way = "mend it; then nodevet resume"
    return f"{said}; {way}" if said else way
