"""The signatures of torch's operators: ``python -m gg_datalog.tracing.schemas`` prints them.

That is what ``extract/schemas/torch.txt`` holds, one schema a line in torch's own notation: names,
types and defaults of arguments, what aliases what, what is written. ``make schemas`` writes the
file; a test says where it differs from the torch that is installed. What torch's schemas leave out
is in ``extract/schemas/corrections.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator

NAMESPACES = (
    "aten",
    "prims",
    "c10d",
    "c10d_functional",
    "_c10d_functional",
    "_c10d_functional_autograd",
    "symm_mem",
)


def registered() -> Iterator[str]:
    """The schemas of all operators of :data:`NAMESPACES`, sorted by name."""
    import torch
    import torch._prims
    import torch.distributed._functional_collectives
    import torch.distributed._symmetric_memory

    for full in sorted(set(torch._C._dispatch_get_all_op_names())):
        name, _, overload = full.partition(".")
        if name.partition("::")[0] in NAMESPACES:
            yield str(torch._C._get_schema(name, overload))


def composite() -> set[str]:
    """Operators that are made of others and whose schema says nothing of aliases: what they return
    may be what they were given. In the notation of a graph (`aten.type_as.default`)."""
    import torch

    found = set()
    for full in set(torch._C._dispatch_get_all_op_names()):
        name, _, overload = full.partition(".")
        space, _, kernel = name.partition("::")
        if space != "aten":
            continue
        results = torch._C._get_schema(name, overload).returns
        silent = results and not any(r.alias_info for r in results)
        if silent and torch._C._dispatch_has_kernel_for_dispatch_key(
            full, "CompositeImplicitAutograd"
        ):
            found.add(f"{space}.{kernel}.{overload or 'default'}")
    return found


def is_drawn(name: str) -> bool:
    """Does the operator `aten.rand.default` draw random numbers, as its tags say?"""
    import torch

    space, kernel, overload = name.split(".")
    packet = getattr(getattr(torch.ops, space), kernel, None)
    tags = getattr(getattr(packet, overload, None), "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


def main() -> None:
    """Prints the schemas. Marks behind a line: `~` is of a composite operator (:func:`composite`),
    `?` of one that draws random numbers."""
    made = composite()
    for line in registered():
        name = line.partition("(")[0].replace("::", ".")
        name = name if name.count(".") > 1 else f"{name}.default"
        marks = ["~"] if name in made else []
        marks += ["?"] if is_drawn(name) else []
        print(" ".join([line, *marks]))


if __name__ == "__main__":
    main()
