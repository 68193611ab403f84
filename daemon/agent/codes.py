"""What the agent says about itself: always unknown and our own trouble, never the node's fault."""

from __future__ import annotations

from checks.declare import code

CHECK = "agent"

HOOK_UNANSWERED = code(
    "hook_unanswered",
    "unknown",
    "self",
    "{count} hook calls were not answered: {causes}",
    explain="Slurm's hook could not ask the agent and let the job through. "
    "Confirm: `journalctl -u nodevet-agent` at that time. Do: see why the agent was away or late; `nodevet hook test`.",
)
STATE_DIR_HUNG = code(
    "state_dir_hung",
    "unknown",
    "self",
    "state directory has owed an answer for {seconds} s, limit {limit} s",
    explain="The disk under /var/lib/nodevet does not answer. Decisions stand; reports are kept in memory. "
    "Confirm: `ls /var/lib/nodevet`, the kernel's log. Do: mend the disk, then restart the agent.",
)
STATE_DIR_FAILED = code(
    "state_dir_failed",
    "unknown",
    "self",
    "state directory takes no reports: {error}",
    explain="The disk is full, read-only or broken for us. Decisions stand; reports are kept in memory. "
    "Confirm: `df -h /var/lib/nodevet`, `df -i /var/lib/nodevet`. Do: make room or mend the disk.",
)
REPORTS_LOST = code(
    "reports_lost",
    "unknown",
    "self",
    "{count} reports were dropped, limits of memory and disk reached",
    explain="The central service was not reached for so long that the oldest reports had to go. Decisions stand. "
    "Do: see why it is not reached (`nodevet status`, the agent's log).",
)
CONFIG_BROKEN = code(
    "config_broken",
    "unknown",
    "self",
    "configuration is not used: {error}",
    explain="The agent admits every job until the configuration is mended and the agent reloaded. "
    "Confirm: `nodevet config check`. Do: mend what it names, reload the agent.",
)
CONFIG_KEPT = code(
    "config_not_taken",
    "unknown",
    "self",
    "new configuration was not taken over, the former stays in force: {error}",
    explain="Do: `nodevet config check`, mend what it names, reload the agent.",
)
NO_NAME = code(
    "node_name_unknown",
    "unknown",
    "self",
    "node's or cluster's name is not set: [agent] node and cluster, SLURMD_NODENAME, or the first hook tell it",
    explain="Nothing is reported or drained under a guessed name. Do: set node under [agent] in nodevet.toml.",
)
SECOND_AGENT = code(
    "agent_predecessor",
    "unknown",
    "self",
    "an earlier agent still listened, pid {pid}",
    explain="This agent answers the hooks now. Do: look at the earlier process; it may wait inside a hung call.",
)
LANES_LOST = code(
    "lanes_lost",
    "unknown",
    "self",
    "{error}",
    explain="The process that makes the workers ended, so no check can be asked; jobs are admitted and the agent "
    "starts itself again. Do: look for the out-of-memory killer in the kernel log.",
)
GPU_MAP_UNKNOWN = code(
    "job_gpus_unknown",
    "unknown",
    "self",
    "job's GPUs are not known on this node: {why}",
    explain="SLURM_JOB_GPUS could not be mapped over gres.conf to device minors, so the job's GPUs were not "
    "looked at. Confirm: `scontrol show job -d <id>`, gres.conf. Do: name File= for each GPU.",
)
