"""Build our seccomp profiles in the engine's format.

`seccomp.json` holds the data: the system calls that a container without extra capabilities may make, in
groups with a reason each. The profile refuses every other call with EPERM. `refused` in that file names the
important ones of these, and the calls that the strict profile removes from `allowed`. Only 64-bit x86 and ARM
calls pass: the 32-bit and x32 entry points end the process.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

ProfileName = Literal["default", "strict"]
# Local sockets alone; also TCP by IPv4 with small buffers; also the internet protocols; or every kind,
# netlink included.
Sockets = Literal["local", "relayed", "internet", "all"]

INT_BITS = 32
_DATA = Path(__file__).with_name("seccomp.json")


@cache
def profile(
    name: ProfileName | Literal["shared"],
    *,
    sockets: Sockets = "local",
    root_agent: bool = False,
    foreign: bool = False,
    errnos: bool = True,
) -> str:
    """Return the profile as the JSON text that follows `seccomp=` in a container's `security_opt`.

    `default` is for shells and agents. `strict` is for graders of pure code. It allows local sockets alone,
    whatever `sockets` is, no System V IPC and no message queues. multiprocessing and asyncio still work with
    it. `shared` is `strict` for programs that want no sockets. It allows no sockets but local pairs, and none
    of the calls that could connect these with others.
    A `root_agent` also gets none of the resources that the kernel counts for root of the whole machine.
    A `foreign` image gets the calls that programs of any image need, although the kernel counts some of them
    for the whole machine. Without `errnos`, the profile is for a runtime that can refuse calls with EPERM
    alone. It then allows the calls that have to fail with another error, and leaves them to the runtime's own
    kernel.
    """
    data: dict[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    allowed = _names(data["allowed"])
    refused_with_errno = data["refused_with_errno"]
    if root_agent:
        refused_with_errno += data["refused_to_root_with_errno"]
        allowed -= _names(data["refused_to_root_with_errno"])
    if foreign:
        allowed |= _names(data["allowed_to_foreign_images"])
        refused_with_errno = [group for group in refused_with_errno if not allowed & {*group["names"]}]
    if name != "default":
        allowed -= _names(data["refused"]["strict"])
    if name == "shared":
        allowed -= _names(data["refused"]["shared"])
    if name == "default" and sockets == "relayed":
        allowed -= _names(data["refused"]["relayed"])
    rules = [{"names": sorted(allowed), "action": "SCMP_ACT_ALLOW"}]
    for group in data["allowed_by_argument"]:
        wanted = name in group.get("profiles", (name,))
        if wanted and (name != "default" or sockets in group.get("sockets", (sockets,))):
            rules += _by_argument(group, sockets if name == "default" else "local", errnos=errnos)
    for group in refused_with_errno:
        if not errnos:
            rules.append({"names": group["names"], "action": "SCMP_ACT_ALLOW"})
            continue
        rules.append({"names": group["names"], "action": "SCMP_ACT_ERRNO", "errnoRet": group["errno"]})
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "archMap": [
                {"architecture": architecture, "subArchitectures": []}
                for architecture in data["architectures"]
            ],
            "syscalls": rules,
        }
    )


def _names(groups: list[dict[str, Any]]) -> set[str]:
    return {name for group in groups for name in group["names"]}


def _by_argument(group: dict[str, Any], sockets: Sockets, *, errnos: bool) -> list[dict[str, Any]]:
    """Return one rule for each allowed value, because a rule 'not equal to' a refused value could be evaded.

    The filter compares 64 bits, but the kernel may read only 32 of them. A refused value with a high bit set
    would therefore pass.
    """
    index = group["argument"]
    if "other_than" in group:
        return [
            _allow(group["name"], [condition]) for condition in _list_other_values(index, group["other_than"])
        ]
    if "forbidden_bits" in group:
        mask = group["forbidden_bits"]
        conditions = [[{"index": index, "op": "SCMP_CMP_MASKED_EQ", "value": mask, "valueTwo": 0}]]
    else:
        values = group["values"]
        if isinstance(values, dict):
            values = values[sockets]
        conditions = [[_equals(index, value)] for value in values]
    for also in group.get("also", ()):
        further = [_equals(also["argument"], value) for value in also["values"]]
        conditions = [[*condition, other] for condition in conditions for other in further]
    rules = [_allow(group["name"], condition) for condition in conditions]
    if errnos and "absent" in group:
        refusal = {"names": [group["name"]], "action": "SCMP_ACT_ERRNO", "errnoRet": group["absent_errno"]}
        rules += [{**refusal, "args": [_equals(index, value)]} for value in group["absent"][sockets]]
    return rules


def _list_other_values(index: int, values: list[int]) -> list[dict[str, Any]]:
    """Return conditions. One of them holds for each argument of 32 bits that is not in `values`.

    The conditions leave out the high half of the register, because the kernel reads such an argument as an
    int. Each condition compares the bits from the highest down to the first one that differs from all values.
    """
    conditions = []
    prefixes = [0]
    for bit in reversed(range(INT_BITS)):
        mask = (1 << INT_BITS) - (1 << bit)
        candidates = [prefix | last << bit for prefix in prefixes for last in (0, 1)]
        prefixes = [prefix for prefix in candidates if any(value & mask == prefix for value in values)]
        conditions += [
            {"index": index, "op": "SCMP_CMP_MASKED_EQ", "value": mask, "valueTwo": prefix}
            for prefix in candidates
            if prefix not in prefixes
        ]
    return conditions


def _allow(name: str, condition: list[dict[str, Any]]) -> dict[str, Any]:
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": condition}


def _equals(argument: int, value: int) -> dict[str, Any]:
    return {"index": argument, "op": "SCMP_CMP_EQ", "value": value}
