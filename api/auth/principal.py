"""A principal is a token's role and, for an agent, the one node that it speaks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from api.problems import Forbidden, Unauthorized
from api.store.views import TokenView

Role = Literal["viewer", "operator", "admin", "agent"]
ROLES: tuple[Role, ...] = ("viewer", "operator", "admin", "agent")
_RANK = {"viewer": 1, "operator": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks; ``name`` goes into the audit. Without a token the role is None."""

    name: str
    role: Role | None = None
    cluster: str | None = None
    node: str | None = None
    scopes: frozenset[str] = frozenset()

    def need(self, least: Role, scope: str = "") -> None:
        """Raise unless this principal has at least the role; agents never have a person's.

        A token with scopes may do only what they name: ``read``, ``jobs``, ``drain``, ``order``, ``ack``, ``admin``.
        """
        if self.role is None:
            raise Unauthorized("a token is needed: Authorization: Bearer <token>")
        if _RANK.get(self.role, 0) < _RANK[least]:
            raise Forbidden(f"role {self.role}, expected {least}")
        if self.scopes and scope not in self.scopes:
            raise Forbidden(f"token's scopes are {', '.join(sorted(self.scopes))}, expected {scope}")

    def need_any_agent(self) -> None:
        """Raise unless this is an agent."""
        if self.role is None:
            raise Unauthorized("an agent's token is needed: Authorization: Bearer <token>")
        if self.role != "agent":
            raise Forbidden(f"role {self.role}, expected agent")

    def need_agent(self, cluster: str, node: str) -> None:
        """Raise unless this is the agent of just this node."""
        self.need_any_agent()
        if (self.cluster, self.node) != (cluster, node):
            raise Forbidden(f"token is for node {self.node} of {self.cluster}, request speaks for {node} of {cluster}")


def principal_of(token: TokenView) -> Principal:
    """The principal behind a good token."""
    role = next((r for r in ROLES if r == token.role), None)
    return Principal(
        name=f"{token.label or token.role} ({token.prefix})",
        role=role,
        cluster=token.cluster,
        node=token.node,
        scopes=frozenset(token.scopes),
    )
