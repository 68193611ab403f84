"""An order that disturbs the node is written down before it is carried out, so that no restart carries it out twice."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from checks.wire import Outcome, Remedied, clean

KNOWN = 64
TOLD = 16
TEXT_LIMIT = 400


class _Written(msgspec.Struct, frozen=True):
    orders: list[Remedied]
    hung: tuple[int, int] = (0, 0)


class Ledger:
    """The last orders of this kind and what became of each; ``hung``: pid and start time of what does not end."""

    def __init__(self) -> None:
        self.hung: tuple[int, int] = (0, 0)
        self._known: OrderedDict[str, Remedied] = OrderedDict()

    @property
    def told(self) -> tuple[Remedied, ...]:
        """What the service hears with each poll: hearing it twice does no harm."""
        return tuple(self._known.values())[-TOLD:]

    @property
    def document(self) -> bytes:
        """What the next agent on this node must know."""
        return msgspec.json.encode(_Written(list(self._known.values()), self.hung))

    def recall(self, document: bytes) -> None:
        """Take over what an earlier agent wrote; what it had begun and not ended is lost, and not tried again."""
        try:
            found = msgspec.json.decode(document, type=_Written)
        except msgspec.MsgspecError:
            return
        self.hung = found.hung
        for one in found.orders[-KNOWN:]:
            lost = one.outcome == "running"
            text = "the agent ended while it was carried out, so what became of it is not known"
            self._known[one.order] = Remedied(order=one.order, outcome="lost", text=text) if lost else one

    def knows(self, order: str) -> bool:
        """Whether this order was begun or refused before."""
        return order in self._known

    def settle(self, order: str, outcome: Outcome, text: str = "") -> None:
        """Write what became of an order."""
        self._known[order] = Remedied(order=order, outcome=outcome, text=clean(text, TEXT_LIMIT))
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)
