"""NVML's health mask of a GPU's fabric is read field by field, with the widths of its header."""

from __future__ import annotations

from dataclasses import dataclass

# Two bits a question: 0 not supported, 1 true, 2 false. Source: nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*.
_TRUE, _FALSE = 1, 2
_SLOW = {0: "bandwidth degraded", 2: "route recovery in progress", 6: "access timeout recovery"}
_CONFIGURATIONS = {
    2: "system GUID is wrong",
    3: "chassis serial number is wrong",
    4: "no partition",
    5: "too few NVLinks",
    6: "GPU firmware does not fit",
    7: "location is not valid",
    8: "state of the GPU is not valid",
}
_TOO_FEW_LINKS = 5


@dataclass(frozen=True, slots=True)
class Health:
    """What a mask says: ``broken`` ends jobs, ``slow`` hinders them, ``wrong`` is set so, ``alone``: no manager."""

    broken: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    alone: bool = False


def health(mask: int) -> Health:
    """Read the mask; what a driver does not support, or a value that we do not know, says nothing."""
    slow = [name for shift, name in _SLOW.items() if mask >> shift & 3 == _TRUE]
    configured = mask >> 8 & 15
    if configured == _TOO_FEW_LINKS:
        slow.append(_CONFIGURATIONS[configured])
    wrong = [_CONFIGURATIONS[configured]] if configured in _CONFIGURATIONS and configured != _TOO_FEW_LINKS else []
    if mask >> 12 & 3 == _FALSE and not wrong:
        wrong.append("no partition assigned")
    return Health(
        broken=("route unhealthy",) if mask >> 4 & 3 == _TRUE else (),
        slow=tuple(slow),
        wrong=tuple(wrong),
        alone=mask >> 14 & 3 == _FALSE,
    )
