"""The backend that talks to slurmrestd, for a server that is no Slurm machine itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec

from slurm.backend import AfterReboot, Backend, Field
from slurm.batch import Batch, checked_batch
from slurm.config import SlurmLimits
from slurm.errors import (
    BadAnswer,
    Exists,
    InvalidTransition,
    NoCommand,
    NotFound,
    PermissionDenied,
    Unreachable,
    Unsupported,
)
from slurm.exclusions import Exclusion, exclusions_from_json
from slurm.job import JobState
from slurm.names import checked_job, checked_node, checked_note, checked_reason, checked_word
from slurm.nodes import nodes_from_json
from slurm.reservation import Reservation, Reserved, checked_reservation, reservations_from_json
from slurm.rest import answers
from slurm.rest.door import MAX_BODY, Answer, Door, parse_address
from slurm.rest.doors import Doors
from slurm.rest.token import TokenSource, checked_user, expired, subject
from slurm.rest.versions import APIS, V43, Api, named
from slurm.state import NodeState
from slurm.topology import Topology

# Seconds for one question: look-up, connection and answer together. Without slurmctld slurmrestd gives up after 9
# (22.05, 24.11) or 10 (26.05), and what it then says is better than a time-out of ours.
TIMEOUT = 12.0


class Rest:
    """Talks to slurmctld through slurmrestd.

    ``url`` is ``http://host:port``, ``https://host:port`` or ``unix:/path``, or several of them in the order of wish;
    ``user`` is by default the one whom the token names. What the API of a release lacks (a requeue, the limits before
    v0.0.45, reboots, the topology) is asked of ``beside`` where that is given, never anything else.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        token: TokenSource,
        user: str = "",
        timeout: float = TIMEOUT,
        version: str | None = None,
        ca_file: str = "",
        max_body: int = MAX_BODY,
        beside: Backend | None = None,
    ) -> None:
        urls = (url,) if isinstance(url, str) else url
        self._door = Doors([Door(parse_address(one), ca_file=ca_file, max_body=max_body) for one in urls])
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

    def set_note(self, name: str, field: Field, text: str) -> None:
        """Overwrite a text that belongs to others as well."""
        path, text = f"/node/{checked_node(name)}", checked_note(text)
        self._ask("POST", path, self.api().set_note(field, text), step=f"slurmrestd {field}")

    def reboot(self, name: str, reason: str, *, asap: bool = True, then: AfterReboot | None = "resume") -> None:
        """Have the node rebooted, by whom stands beside: no API of slurmrestd can."""
        self._other("reboot nodes").reboot(name, reason, asap=asap, then=then)

    def cancel_reboot(self, name: str) -> None:
        """Take back a reboot, by whom stands beside: no API of slurmrestd can."""
        self._other("take back a reboot").cancel_reboot(name)

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

    def job_note(self, job_id: int) -> str:
        """Return the job's AdminComment; NotFound when slurmctld does not remember the job."""
        return answers.job_note(self._ask("GET", f"/job/{checked_job(job_id)}", step="slurmrestd job"), job_id)

    def set_job_note(self, job_id: int, text: str) -> None:
        """Overwrite the job's AdminComment."""
        path, text = f"/job/{checked_job(job_id)}", checked_note(text)
        try:
            body = self.api().set_job_note(text)
        except Unsupported:
            if self._beside is None:
                raise
            self._beside.set_job_note(job_id, text)
            return
        self._ask("POST", path, body, step="slurmrestd admin comment")

    def submit(self, batch: Batch) -> int:
        """Hand in a job as the account that the token names, and return its id."""
        checked_batch(batch)
        try:
            body = self.api().submit(batch)
        except Unsupported:
            if self._beside is None:
                raise
            return self._beside.submit(batch)
        return answers.job_id(self._ask("POST", "/job/submit", body, step="slurmrestd submit"))

    def cancel(self, job_id: int) -> None:
        """End the job wherever it is; one that has ended is left as it is."""
        path = f"/job/{checked_job(job_id)}"
        try:
            self._ask("DELETE", path, step="slurmrestd cancel")
        except InvalidTransition:
            return  # it ended before

    def exclusions(self) -> list[Exclusion]:
        """Return what jobs that wait or run exclude, in one question."""
        return exclusions_from_json(self._ask("GET", "/jobs", step="slurmrestd jobs"))

    def reservations(self) -> dict[str, Reserved]:
        """Return every reservation by name, in one question."""
        found = self._ask("GET", "/reservations", step="slurmrestd reservations")
        return reservations_from_json(found.get("reservations"))

    def create_reservation(self, wish: Reservation) -> None:
        """Reserve nodes from now on, or raise Exists when the name or a node is taken."""
        checked_reservation(wish)
        try:
            body = self.api().reserve(wish, int(time.time()))
        except Unsupported:
            if self._beside is None:
                raise
            self._beside.create_reservation(wish)
            return
        if wish.name in self.reservations():  # a POST to a name that is taken would change that reservation
            raise Exists(f"slurmrestd reservation: {wish.name} is there already")
        self._ask("POST", "/reservation", body, step="slurmrestd reservation")

    def delete_reservation(self, name: str) -> None:
        """End a reservation, or raise NotFound."""
        path = f"/reservation/{checked_word(name, 'reservation')}"
        if isinstance(self.api(), V43):
            self._ask("DELETE", path, step="slurmrestd reservation")
        else:
            self._other("end reservations").delete_reservation(name)

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

    def topology(self) -> Topology:
        """Return which nodes share a switch or a block, as who stands beside says: no API of slurmrestd does."""
        return self._other("tell the topology").topology()

    def ping(self) -> bool:
        """Return whether any slurmctld, primary or backup, answers."""
        api, step = self.api(), "slurmrestd ping"
        token, answer = self._exchange("GET", f"/slurm/{api.version}/ping", None, step=step)
        try:
            seen = answers.pings(self._understood(answer, token, step))
        except Unreachable:
            return False  # slurmrestd answered, and says that slurmctld does not
        return any(api.up(ping) for ping in seen)

    def _other(self, what: str) -> Backend:
        """Whoever stands beside, for what this API lacks."""
        if self._beside is None:
            raise Unsupported(f"API {self.api().version} of slurmrestd cannot {what}, and nothing stands beside it")
        return self._beside

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
