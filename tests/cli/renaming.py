"""Cases whose nodes have other names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

Rename = Callable[[str], str]


def renamed(files: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    """The documents of a case, every node under its new name."""
    changed: dict[str, Any] = copy.deepcopy(dict(files))
    for name, document in changed.items():
        if name == "seq" or name.startswith("dist.r"):
            for node in document["nodes"]:
                node["name"] = rename(node["name"])
                for part in ("args", "kwargs"):
                    node[part] = _referring(node.get(part, {} if part == "kwargs" else []), rename)
    for row in changed.get("relations", ()):
        row.update(seq=rename(row["seq"]), dist=rename(row["dist"]))
    for row in changed.get("outputs", ()):
        held = row["dist"]
        names = {r: rename(n) for r, n in held.items()} if isinstance(held, dict) else rename(held)
        row.update(seq=rename(row["seq"]), dist=names)
    return changed


def _referring(value: Any, rename: Rename) -> Any:
    if isinstance(value, list):
        return [_referring(item, rename) for item in value]
    if isinstance(value, dict):
        if set(value) == {"node"}:
            return {"node": rename(value["node"])}
        return {key: _referring(item, rename) for key, item in value.items()}
    return value
