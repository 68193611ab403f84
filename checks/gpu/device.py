"""One GPU's handle, through which a question that stands beside its check asks NVML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from checks.gpu.values import Fault, NvmlError

T = TypeVar("T")
_INVALID_ARGUMENT = 2
# By NVML's value type: double, unsigned int, long and long long, signed long long and int, unsigned short.
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_NOT_AVAILABLE = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""What an unsigned field holds where the driver has no value for it."""


@contextmanager
def answers() -> Iterator[None]:
    """Turn whatever pynvml raises into NvmlError."""
    import pynvml

    try:
        yield
    except pynvml.NVMLError as error:
        raise NvmlError(Fault.of(int(getattr(error, "value", 998))), str(error)) from error
    except getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError) as error:
        # The driver's library is older than pynvml and lacks the function.
        raise NvmlError(Fault.NOT_SUPPORTED, str(error)) from error
    except (UnicodeDecodeError, ValueError, TypeError, OverflowError) as error:
        raise NvmlError(Fault.OTHER, f"garbled answer: {error}") from error


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU's handle, for a question that stands beside its check; ``lib`` is pynvml.

    Symbols are named in full, so that a search finds them and a test proves that pynvml has them.
    """

    lib: Any
    handle: Any

    def call(self, name: str, *arguments: object) -> Any:
        """What pynvml's function ``name`` answers; one that an older pynvml lacks is not supported."""
        function = getattr(self.lib, name, None)
        if function is None:
            raise NvmlError(Fault.NOT_SUPPORTED)
        with answers():
            return function(self.handle, *arguments)

    def number(self, name: str, *arguments: object) -> int | None:
        """The same as a whole number; None where it is not supported."""
        try:
            told = self.call(name, *arguments)
            with answers():
                return available(int(told))
        except NvmlError as error:
            if error.fault is Fault.NOT_SUPPORTED:
                return None
            raise

    def fields(self, *names: str) -> tuple[int | None, ...]:
        """Values of the fields ``NVML_FI_...`` in one call; None for each that is not supported."""
        numbers = {name: getattr(self.lib, name) for name in names if hasattr(self.lib, name)}
        told: dict[str, int | None] = {}
        if numbers:
            values = self.call("nvmlDeviceGetFieldValues", list(numbers.values()))
            told = {name: _field(value) for name, value in zip(numbers, values, strict=True)}
        return tuple(told.get(name) for name in names)

    def scoped(self, *wanted: tuple[str, int]) -> dict[tuple[str, int], int]:
        """Values of fields that are asked of one part, such as a link, in one call; what is not supported is left out.

        ``wanted`` are pairs of a field's name and the number of the part.
        """
        known = [(name, part) for name, part in wanted if hasattr(self.lib, name)]
        if not known:
            return {}
        values = self.call("nvmlDeviceGetFieldValues", [(getattr(self.lib, name), part) for name, part in known])
        told = {asked: _field(value) for asked, value in zip(known, values, strict=True)}
        return {asked: value for asked, value in told.items() if value is not None}


def available(number: int) -> int | None:
    """The number itself, None for the one that stands for no value."""
    return None if number in _NOT_AVAILABLE else number


def flag(number: int) -> bool:
    """A yes or no; a driver that says anything else has not answered, and a fault never rests on that."""
    if number not in (0, 1):
        raise NvmlError(Fault.OTHER, f"garbled answer: {number} is no flag")
    return number == 1


Question = Callable[[Device], T]


def _field(value: Any) -> int | None:
    """The value of one field; a driver that does not know the field says "invalid argument"."""
    status = int(value.nvmlReturn)
    if status == _INVALID_ARGUMENT or Fault.of(status) is Fault.NOT_SUPPORTED:
        return None
    if status != 0:
        raise NvmlError(Fault.of(status))
    member = _MEMBERS.get(int(value.valueType))
    with answers():
        number = None if member is None else int(getattr(value.value, member))
    return None if number is None else available(number)
