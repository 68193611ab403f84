"""The backend that talks to slurmrestd, for a server that is no Slurm machine itself."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from slurm.backend import Backend, checked_job, checked_node, checked_reason
from slurm.config import SlurmLimits
from slurm.errors import BadAnswer, NoCommand, NotFound, PermissionDenied, Unreachable, Unsupported
from slurm.job import JobState
from slurm.nodes import nodes_from_json
from slurm.rest import answers
from slurm.rest.door import MAX_BODY, Answer, Door, parse_address
from slurm.rest.token import TokenSource, checked_user, expired, subject
from slurm.rest.versions import APIS, Api, named
from slurm.state import NodeState

# Seconds for one question: look-up, connection and answer together. Without slurmctld slurmrestd gives up after 9
# (22.05, 24.11) or 10 (26.05), and what it then says is better than a time-out of ours.
TIMEOUT = 12.0


class Rest:
    """Talks to slurmctld through slurmrestd.

    ``url`` is ``http://host:port``, ``https://host:port`` or ``unix:/path``; ``user`` is by default the one whom the
    token names. What the API of a release lacks (requeue and limits before v0.0.45) is asked of ``beside`` where that
    is given, never anything else.
    """

    def __init__(
        self,
        url: str,
        *,
        token: TokenSource,
        user: str = "",
        timeout: float = TIMEOUT,
        version: str | None = None,
        ca_file: str = "",
        max_body: int = MAX_BODY,
        beside: Backend | None = None,
    ) -> None:
        self._door = Door(parse_address(url), ca_file=ca_file, max_body=max_body)
        self._token = token
        self._user = checked_user(user) if user else ""
        self._timeout = timeout
        self._wanted = named(version) if version else None
        self._api = self._wanted
        self._beside = beside

    def api(self) -> Api:
        """Return the newest version that both sides speak; asked once, and again after slurmrestd was replaced."""
        if self._api is None:
            self._api = self._found()
        return self._api

    def node(self, name: str) -> NodeState:
        """Return one node, or raise NotFound."""
        step = "slurmrestd node"
        found = self._nodes(f"/node/{checked_node(name)}", step)
        if name not in found:
            raise NotFound(f"{step}: node {name} is not in the answer")
        return found[name]

    def nodes(self) -> dict[str, NodeState]:
        """Return every node by name, in one question; an answer without any node is a BadAnswer."""
        found = self._nodes("/nodes", "slurmrestd nodes")
        if not found:
            raise BadAnswer("slurmrestd nodes: no node in the answer")
        return found

    def drain(self, name: str, reason: str) -> None:
        """Let running jobs end and start no other on the node; a reason that stands there is overwritten."""
        path, text = f"/node/{checked_node(name)}", checked_reason(reason)
        self._ask("POST", path, self.api().drain(text), step="slurmrestd drain")

    def set_reason(self, name: str, reason: str) -> None:
        """Overwrite the reason and leave the state alone."""
        path, text = f"/node/{checked_node(name)}", checked_reason(reason)
        self._ask("POST", path, self.api().set_reason(text), step="slurmrestd reason")

    def resume(self, name: str) -> None:
        """Give the node back to the scheduler."""
        path = f"/node/{checked_node(name)}"
        self._ask("POST", path, self.api().resume(), step="slurmrestd resume")

    def job(self, job_id: int) -> JobState | None:
        """Return one job; None when slurmctld does not remember it."""
        try:
            found = self._ask("GET", f"/job/{checked_job(job_id)}", step="slurmrestd job")
        except NotFound:
            return None
        return answers.job_from(found, job_id)

    def requeue(self, job_id: int) -> None:
        """Stop the job where it runs and queue it again under the same id."""
        checked_job(job_id)
        try:
            path = self.api().requeue(job_id)
        except Unsupported:
            if self._beside is None:
                raise
            self._beside.requeue(job_id)
            return
        self._ask("GET", path, step="slurmrestd requeue")

    def limits(self) -> SlurmLimits:
        """Return the limits of the running slurmctld; before v0.0.45, and with nobody beside, all but the release
        and the cluster are None."""
        try:
            return answers.limits(self._ask("GET", self.api().conf(), step="slurmrestd conf"))
        except Unsupported:
            told = answers.release(self._ask("GET", "/ping", step="slurmrestd ping"))
        if self._beside is None:
            return told
        try:
            return self._beside.limits()
        except NoCommand:
            return told

    def ping(self) -> bool:
        """Return whether any slurmctld, primary or backup, answers."""
        api, step = self.api(), "slurmrestd ping"
        token, answer = self._exchange("GET", f"/slurm/{api.version}/ping", None, step=step)
        try:
            seen = answers.pings(self._understood(answer, token, step))
        except Unreachable:
            return False  # slurmrestd answered, and says that slurmctld does not
        return any(api.up(ping) for ping in seen)

    def _found(self) -> Api:
        """Try the versions, newest first: a path of an unknown one is a 404, whatever the token."""
        for api in APIS:
            step = f"slurmrestd {api.version}"
            token, answer = self._exchange("GET", f"/slurm/{api.version}/ping", None, step=step)
            if answer.status in answers.REFUSED:
                self._understood(answer, token, step)
            if answer.status != 404:
                return api
        known = f"{APIS[-1].version} to {APIS[0].version}"
        raise Unsupported(f"slurmrestd at {self._door.address} speaks none of the API versions {known}")

    def _nodes(self, path: str, step: str) -> dict[str, NodeState]:
        answer = self._asked("GET", path, None, step)[0]
        return nodes_from_json(answer.body)

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None, *, step: str) -> answers.Document:
        return self._asked(method, path, body, step)[1]

    def _asked(
        self, method: str, path: str, body: Mapping[str, object] | None, step: str
    ) -> tuple[Answer, answers.Document]:
        data = None if body is None else msgspec.json.encode(body)
        token, answer = self._exchange(method, f"/slurm/{self.api().version}{path}", data, step=step)
        return answer, self._understood(answer, token, step)

    def _exchange(self, method: str, path: str, body: bytes | None, *, step: str) -> tuple[str, Answer]:
        token = self._token()
        headers = {"X-SLURM-USER-TOKEN": token}
        if name := self._user or subject(token):  # 22.05 does not look at a token without a name
            headers["X-SLURM-USER-NAME"] = name
        return token, self._door.ask(method, path, headers, body, timeout=self._timeout, step=step)

    def _understood(self, answer: Answer, token: str, step: str) -> answers.Document:
        try:
            return answers.document(answer, step=step)
        except (Unreachable, PermissionDenied) as error:
            if expired(token, time.time()):
                raise PermissionDenied(f"{error} (the token has expired)") from error
            raise
        except Unsupported:
            self._api = self._wanted  # another slurmrestd may stand there now
            raise
