"""One command, `python -m benchmarks`, measures what Nodevet costs beside what it is compared with, in one run.

Both sides of a ratio are measured in turn in the same seconds (true, hook against an echo, hook against an agent, ...),
so that a busy machine slows both alike: believe the ratios and differences, not the absolute times. Nothing here is a
test and nothing fails a build: each line says its target and whether it was met. Hooks, agents, lanes, Slurm's
controller and the central service are the real ones; the hardware below the agents is always simulated (a generated
tree and a stand-in for NVML that takes as long as its table of latencies says), and such lines are marked SIM.

    python -m benchmarks                  everything, about three minutes
    python -m benchmarks --quick          fewer rounds and agents, under a minute
    python -m benchmarks --only job       one part: checks, hook, agent, job, nhc, server
    python -m benchmarks --json out.json  the same lines for machines
"""
