"""Xid catalogue: how bad each Xid error of the driver is, what it means, and what to do.

The facts are those of NVIDIA's Xid catalog for Ampere and later cards (docs.nvidia.com/deploy/xid-errors, "Analyzing
Xid Errors with the Xid Catalog") and, for what it does not judge, of its workflows. Alert rules, runbook and dashboard
are tested against this table. A number that is not in it raises no alert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]

_RESET = "stop the work, reset the GPU; again within a week: to the owner of the hardware"
_MEMORY = "stop the work, reset the GPU; its results are in doubt; look at ECC errors and remapped rows"
_LINK = "look at the links (`nvidia-smi nvlink -e`), reset all GPUs of the fabric; again: seat, cable, bridge or switch"
_RESTART = "start the program again; in any other program on this card, too: to the owner of the hardware"
_PROGRAM = "look for the fault in the program, first with compute-sanitizer"
_REPLACE = "plan without this card: to the owner of the hardware"
_REPORT = "nothing at once; often: report it to NVIDIA with nvidia-bug-report.sh"


@dataclass(frozen=True, slots=True)
class XidMeaning:
    """An Xid error: critical leaves GPU or memory in doubt; info is a program's fault, harmless, or follows another."""

    number: int
    severity: Severity
    meaning: str
    action: str


def _critical(number: int, meaning: str, action: str = _RESET) -> XidMeaning:
    return XidMeaning(number, "critical", meaning, action)


def _warning(number: int, meaning: str, action: str) -> XidMeaning:
    return XidMeaning(number, "warning", meaning, action)


def _info(number: int, meaning: str, action: str = _RESTART) -> XidMeaning:
    return XidMeaning(number, "info", meaning, action)


def _engines() -> Iterator[XidMeaning]:
    """Errors of single engines of the GPU: whoever used it loses its channel, the GPU goes on."""
    copy = (*(39, 40, 41, 70, 71, 72, 75, 76, 77, 85), *range(126, 136))
    yield from (_info(number, "copy engine error") for number in copy)
    yield from (_info(number, "video decoder error") for number in (68, 83, 84, 88, 89, 96, 97, 98))
    yield from (_info(number, "JPEG decoder error") for number in (82, *range(99, 106)))
    yield from (_info(number, "optical flow engine error") for number in (86, 139))
    yield _info(142, "video encoder error")
    yield _info(60, "video processor error")


_ENTRIES: tuple[XidMeaning, ...] = (
    _critical(46, "the GPU stopped processing and did not come back in time"),
    _critical(48, "uncorrectable memory error", _MEMORY),
    _critical(62, "the GPU's power controller (PMU) halted"),
    _critical(64, "a broken row of memory could not be remapped, a page not retired", _MEMORY),
    _critical(74, "NVLink error", _LINK),
    _critical(79, "the GPU fell off the bus", "restart the host; again: seat, power cable, riser, then a replacement"),
    _critical(95, "uncorrectable memory error that was not contained: other programs may be hit", _MEMORY),
    _critical(109, "a context switch timed out"),
    _critical(110, "security fault"),
    _critical(119, "the GPU's system processor (GSP) did not answer"),
    _critical(120, "the GPU's system processor (GSP) failed"),
    _critical(136, "NVLink training failed", _LINK),
    _critical(140, "uncorrectable memory error that the driver could not recover from", _MEMORY),
    _critical(143, "the GPU could not be initialized"),
    _critical(155, "NVLink error that software declared fatal", _LINK),
    _critical(158, "the GPU does not answer: fatal timeout"),
    _critical(167, "PCIe does not answer: fatal timeout", "restart the host; again: seat, riser, then a replacement"),
    _critical(169, "the GPU's security controller (SEC2) halted"),
    _critical(171, "uncorrectable error in device memory, the details of a 48", _MEMORY),
    _critical(172, "uncorrectable error in on-chip memory (SRAM), the details of a 48", _MEMORY),
    _warning(54, "no auxiliary power at the card", "look at the card's power cables"),
    _warning(78, "a virtual GPU could not start", "bring driver and vGPU software to matching versions"),
    _warning(92, "very many correctable memory errors", "look at ECC errors and remapped rows; plan a reset"),
    _warning(
        94,
        "uncorrectable memory error, contained to one program, which was ended",
        "start the program again; reset the GPU when it is next free",
    ),
    _warning(121, "error of the link between CPU and GPU (C2C)", "reset the GPU when it is next free"),
    _warning(144, "NVLink 5 error (SAW)", _LINK),
    _warning(145, "NVLink 5 error (RLW)", _LINK),
    _warning(146, "NVLink 5 error (TLW)", _LINK),
    _warning(147, "NVLink 5 error (TREX)", _LINK),
    _warning(148, "NVLink 5 error (NVLPW)", _LINK),
    _warning(149, "NVLink 5 error (NETIR)", _LINK),
    _warning(150, "NVLink 5 error (MSE)", _LINK),
    _warning(151, "rotation of keys failed (confidential computing)", "restart the virtual machine"),
    _warning(
        154,
        "the recovery that the GPU needs has changed",
        "do what `nvidia-smi -q` names as GPU Recovery Action; GpuRecoveryNeeded stays until then",
    ),
    _warning(156, "a broken part of the GPU is to be retired", "reset the GPU when it is next free"),
    _warning(157, "a broken part of the GPU could not be retired", _REPLACE),
    _warning(161, "a broken channel could not be retired", _REPORT),
    _warning(164, "the part that smooths the card's power is near its end", "plan its replacement"),
    _warning(165, "the part that smooths the card's power is worn out", "to the owner of the hardware"),
    _warning(168, "the GPU has less memory: errors in its protected region", "to the owner of the hardware"),
    _info(8, "the GPU stopped processing for one program"),
    _info(11, "commands of a program were damaged", _PROGRAM),
    _info(13, "a program's kernel failed, often an access outside its memory", _PROGRAM),
    _info(25, "commands of a program were not valid", _PROGRAM),
    _info(31, "a program accessed memory that is not its own", _PROGRAM),
    _info(32, "commands of a program were damaged on their way", _PROGRAM),
    _info(37, "firmware got a command that it does not know", _REPORT),
    _info(38, "firmware took too long", _REPORT),
    _info(43, "a program's channel was reset after its own fault", _PROGRAM),
    _info(44, "fault during a context switch", _REPORT),
    _info(45, "a program was ended: killed, or after another Xid", "look for the Xid before it; alone it is a kill"),
    _info(63, "a row of memory is to be remapped, or a page was retired", "reset the GPU when it is next free"),
    _info(66, "the driver used a register that it must not", _REPORT),
    _info(67, "the driver used a register that it must not", _REPORT),
    _info(69, "a program used the graphics engine wrongly", _PROGRAM),
    _info(80, "commands of a program were damaged on their way", _PROGRAM),
    _info(93, "the card's own store is written too often", _REPORT),
    _info(106, "test message of the management controller", "nothing"),
    _info(107, "test message of the management controller", "nothing"),
    _info(137, "a program's access over NVLink was refused, often after a fault at the other end", _PROGRAM),
    _info(141, "CUDA's fast path failed", _REPORT),
    _info(152, "deep-learning accelerator error", _REPORT),
    _info(153, "the deep-learning accelerator timed out", _REPORT),
    _info(159, "the link to the CPU reported an error without data", _REPORT),
    _info(160, "a broken channel was retired", _REPORT),
    _info(162, "the smoothing of the card's power is on again", "nothing"),
    _info(163, "the smoothing of the card's power is off", "nothing"),
    _info(166, "NVLink traffic before encryption was set up", _REPORT),
    _info(170, "interrupt in confidential computing", _REPORT),
    *_engines(),
)

CATALOG: dict[int, XidMeaning] = {each.number: each for each in sorted(_ENTRIES, key=lambda each: each.number)}
"""Every Xid that is used by Ampere and later cards, by its number."""


def meaning(number: int) -> str:
    """Meaning of an Xid in words; of an unknown one that it is unknown."""
    return CATALOG[number].meaning if number in CATALOG else "not in NVIDIA's catalogue"


def numbers(severity: Severity) -> tuple[int, ...]:
    """The Xids of this severity, in order."""
    return tuple(number for number, each in CATALOG.items() if each.severity == severity)
