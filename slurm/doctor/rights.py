"""Slurm knows this node, its GPUs and the account that drains, and lets that account drain."""

from __future__ import annotations

from collections.abc import Mapping

from slurm.doctor.advice import Advice
from slurm.errors import ClockSkew, NoCommand, PermissionDenied, SlurmError
from slurm.gres import GresError, autodetect, gpu_count, gpu_files
from slurm.state import NodeState

GRANT = "sacctmgr add user {user} account=root adminlevel=administrator"


def drain_right(error: SlurmError | None, user: str, *, root: bool, service: bool) -> Advice:
    """What the proof of a drain came to (`slurm.proof.prove_writes`); ``service``: this account drains for real."""
    about, why = "drain rights", "a refusal without a drain is admitted: bad nodes stay in service"
    if error is None:
        seen = f"slurmctld accepts a drain from {user}"
        proof = "root always may; `nodevet doctor` as the service's account proves that one" if root else ""
        return Advice("ok", about, seen, proof)
    if isinstance(error, PermissionDenied):
        if not service:
            return Advice("ok", about, f"{user} may not drain, and need not: only the central service's account does")
        return Advice("problem", about, f"{user} may not drain: {error}", why, GRANT.format(user=user))
    if isinstance(error, NoCommand):
        return Advice(
            "problem", about, str(error), why, "install Slurm's client commands, or link scontrol into /usr/bin"
        )
    if isinstance(error, ClockSkew):
        return Advice("problem", about, str(error), "clocks of two machines differ", "systemctl restart chronyd")
    return Advice("problem", about, str(error), why, "scontrol ping")


def admin_level(text: str, user: str, slurm_user: str | None) -> Advice:
    """What ``sacctmgr -nP show user format=user,adminlevel`` says of the service's account."""
    levels = dict(line.strip().partition("|")[::2] for line in text.splitlines() if "|" in line)
    level = levels.get(user, "")
    if user == slurm_user or level.lower().startswith("admin"):
        return Advice("ok", "AdminLevel", f"{user}: {level or 'is SlurmUser'}")
    seen = f"{user} has AdminLevel {level or 'none: unknown to accounting'}"
    why = "only SlurmUser, root and administrators may drain"
    verb = f"sacctmgr modify user {user} set adminlevel=administrator" if level else GRANT.format(user=user)
    return Advice("problem", "AdminLevel", seen, why, verb)


def node_known(name: str, nodes: Mapping[str, NodeState]) -> Advice:
    """Whether the configured name is one of slurmctld's nodes."""
    if name in nodes:
        return Advice("ok", "node name", f"{name} is known to Slurm, state {nodes[name]}")
    why = "findings of a node that Slurm does not know lead to nothing"
    return Advice(
        "problem", "node name", f"{name} is no node of Slurm", why, 'nodevet.toml: [agent] node = "<NodeName>"'
    )


def gpus_promised(node: NodeState, gres_conf: str | None) -> Advice | None:
    """The GPUs that slurm.conf gives the node against the File lines of gres.conf; None: a node without GPUs."""
    promised = gpu_count(node.gres)
    if gres_conf is None:
        why = "which GPUs a job has cannot be told: a job's hook then judges no GPU"
        return Advice("warning", "gres.conf", "gres.conf not readable", why) if promised else None
    try:
        files = gpu_files(gres_conf, node.name, gres=node.gres)
    except GresError as error:
        why = "indices in SLURM_JOB_GPUS cannot be mapped to devices"
        return Advice("warning", "gres.conf", str(error), why, "one File= line a type")
    if not promised and not files:
        return None
    if not files:
        detect = autodetect(gres_conf, node.name)
        why = "the order of devices is Slurm's own; without File= the map from index to GPU is not known"
        seen = f"no File= line for {node.name}" + (f", AutoDetect={detect}" if detect else "")
        line = f"NodeName={node.name} Name=gpu File=/dev/nvidia[0-{promised - 1}]"
        return Advice("warning", "gres.conf", seen, why, line)
    if len(files) != promised:
        seen = f"gres.conf names {len(files)} GPU files of {node.name}, slurmctld has Gres={node.gres}"
        why = "Slurm sets a node with fewer GPUs than promised to INVALID_REG; with more, some are never used"
        return Advice("warning", "gres.conf", seen, why, f"slurm.conf: NodeName={node.name} Gres=gpu:{len(files)}")
    return Advice("ok", "gres.conf", f"{promised} GPU files of {node.name}")


def munge(path: str, trouble: str) -> Advice:
    """Whether MUNGE's socket takes a connection; ``trouble`` says why not."""
    if not trouble:
        return Advice("ok", "MUNGE", path)
    why = "no Slurm command works without it, and none of that is the node's fault"
    return Advice("problem", "MUNGE", f"{path}: {trouble}", why, "systemctl restart munge")


def slurm_silent(error: SlurmError) -> Advice:
    """The running configuration could not be asked for."""
    if isinstance(error, NoCommand):
        line = "install Slurm's client commands, or link scontrol into /usr/bin"
        return Advice("problem", "scontrol", str(error), "nothing can be drained from here", line)
    return Advice("problem", "slurmctld", str(error), "what Slurm runs with is not known", "scontrol ping")
