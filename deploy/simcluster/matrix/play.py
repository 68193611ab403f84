"""Playing a part brings its cluster up, gives every scenario nodes of its own, and writes down how each ended."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from daemon.central import CentralError
from daemon.cli.output import Refused, Unreachable
from deploy.simcluster.cluster import SimCluster, new_base
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.matrix.rows import Outcome, Row, owner
from deploy.simcluster.matrix.scenario import Act, Part, Scenario, Turn, undisturbed
from deploy.simcluster.matrix.stage import Stage, Tell

TROUBLES = (LabError, CentralError, Unreachable, Refused, OSError, subprocess.SubprocessError, KeyError, ValueError)
Cast = tuple[Scenario, Turn]


@dataclass(slots=True)
class Player:
    """Plays one part on one release; ``kept`` says where its files are after a row that did not pass."""

    part: Part
    release: str
    tell: Tell
    rows: list[Row] = field(default_factory=list)
    kept: str = ""

    def play(self) -> list[Row]:
        """Bring the cluster up, play every act, and take it down; a cluster that does not come up is one bad row."""
        base = new_base()
        nodes = sum(s.nodes for act in self.part.acts for s in act.scenarios)
        cluster = SimCluster(base, replace(self.part.options(base), nodes=max(nodes, 2)))
        stage = Stage(cluster, self.release)
        passed = False
        try:
            self._all(stage)
            passed = all(row.passed for row in self.rows)
        finally:
            stage.ended.set()
            cluster.stop()
            stage.tidy()
            if passed:
                cluster.remove()
            else:
                self.kept = f"{base}/log"
                self.tell(f"  logs of the part with the {self.part.name} are in {self.kept}")
        return self.rows

    def _all(self, stage: Stage) -> None:
        names = iter(stage.lab.names)
        try:
            stage.cluster.start(lambda text: self.tell(f"  {self.part.name}: {text}"))
            stage.connected()
        except TROUBLES as error:
            self.rows.append(not_begun(self.part.name, self.release, str(error)))
            return
        for act in self.part.acts:
            self._act(stage, act, names)

    def _act(self, stage: Stage, act: Act, names: Iterator[str]) -> None:
        cast = [(s, Turn(stage, tuple(next(names) for _ in range(s.nodes)))) for s in act.scenarios]
        for scenario, turn in cast:
            self.tell(f"  {scenario.name} on {','.join(turn.nodes)} {act.settings}".rstrip())
        with ThreadPoolExecutor(act.at_once) as pool:
            try:
                if act.during is undisturbed:
                    list(pool.map(self._whole, cast))
                else:
                    with act.during(stage, [turn for _, turn in cast]):
                        list(pool.map(self._begin, cast))
                    list(pool.map(self._end, cast))
            except TROUBLES as error:
                for _, turn in cast:
                    turn.went_wrong(f"act failed: {error}")
            except BaseException:
                stage.ended.set()
                raise
        rows = [self._row(scenario, turn, act) for scenario, turn in cast]
        for row in rows:
            if not row.passed:
                self.tell(f"  {row.scenario} on {row.node}: {row.state} {row.observed}; {row.trouble}")
        self.rows += rows

    def _whole(self, cast: Cast) -> None:
        self._begin(cast)
        self._end(cast)

    def _begin(self, cast: Cast) -> None:
        scenario, turn = cast
        try:
            turn.counts()
            scenario.play(turn)
        except TROUBLES as error:
            turn.went_wrong(error)

    def _end(self, cast: Cast) -> None:
        """Wait for what must come; where nothing must happen to a node, until everything that could has."""
        scenario, turn = cast
        expected, stage = scenario.expected, turn.stage
        try:
            if turn.job is not None:
                stage.job(turn.job, expected.job, timeout=60)
            if expected.drained:
                stage.drained(turn.judged, by=expected.owner, timeout=60)
            turn.seconds = time.monotonic() - turn.began
            if not expected.drained or expected.owner != "ours":
                stage.steps()
            self._settle(turn, expected.also)
        except TROUBLES as error:
            said = stage.decisions(turn.job) if turn.job is not None else ""
            turn.went_wrong(f"{error}; {said}" if said else error)

    def _settle(self, turn: Turn, wanted: str) -> None:
        """What is counted by others may arrive a little later than what it counts."""
        with suppress(LabError):
            turn.stage.wait(lambda: also(turn) == wanted, 20, "")

    def _row(self, scenario: Scenario, turn: Turn, act: Act) -> Row:
        seen, state, reason = Outcome(False, "unknown"), "", ""
        try:
            state, reason = turn.stage.state(turn.judged)
            job = "-" if turn.job is None else turn.stage.lab.job_state(turn.job)
            seen = Outcome("DRAIN" in state, owner(reason, state), job, also(turn))
        except TROUBLES as error:
            turn.went_wrong(f"not seen: {error}")
        return Row(
            part=self.part.name,
            scenario=scenario.name,
            release=self.release,
            node=turn.judged,
            state=state,
            reason=reason[:120],
            observed=seen,
            expected=scenario.expected,
            seconds=round(turn.seconds or time.monotonic() - turn.began, 1),
            passed=seen == scenario.expected and not turn.trouble,
            trouble=turn.trouble,
            settings=act.settings,
        )


def also(turn: Turn) -> str:
    """What else is to be seen now, in words."""
    return "; ".join(look() for look in turn.looks)


def not_begun(part: str, release: str, why: str) -> Row:
    """The row of a cluster that did not come up."""
    nothing = Outcome(False, "unknown")
    return Row(
        part=part,
        scenario="cluster comes up",
        release=release,
        node="-",
        state="",
        reason="",
        observed=nothing,
        expected=Outcome(drained=False, owner="none"),
        seconds=0.0,
        passed=False,
        trouble=why[:300],
    )


def play(parts: Sequence[Part], release: str, tell: Tell) -> list[Row]:
    """Every row of these parts on the Slurm that is installed here."""
    return [row for part in parts for row in Player(part, release, tell).play()]
