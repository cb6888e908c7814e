"""Programs of a cross entropy whose logits stay cut by vocabulary, as torch's ``loss_parallel``
captures them, and of the kernels of ``F.cross_entropy``."""

from __future__ import annotations

from .build import Case

# Of `{t}` tokens this rank has the classes [{lo}, {hi}), which are `{n}`.
SOFTMAX = """
x: f32[{t}, {n}]
y: i64[{t}]
m = all_reduce(amax(x, [1], True), "max", "t")
s = sub.Tensor(x, m)
z = all_reduce(sum.dim_IntList(exp(s), [1], True), "sum", "t")
ls = sub.Tensor(s, log(z))
valid = ne.Scalar(y, -100)
zero: i64[()] = const(0)
none: f32[()] = const(0.0)
y1: i64[{t}] = where.self(valid, y, zero)
c: i64[()] = sum(valid)
count = _to_copy(c, dtype='float32')
"""
LOOKUP = """
u = unsqueeze(y1, 1)
mask: b[{t}, 1] = bitwise_or.Tensor(lt.Scalar(u, {lo}), ge.Scalar(u, {hi}))
there: i64[{t}, 1] = index_put(sub.Tensor(clone(u), {lo}), [mask], zero)
found = index_put(gather(ls, 1, there), [mask], none)
of = all_reduce(found, "sum", "t")
each: f32[{t}] = where.self(valid, neg(squeeze.dim(of, 1)), none)
"""
COLUMN = """
g: f32[()]
by = div.Tensor(g, count)
mask: b[{t}] = bitwise_or.Tensor(lt.Scalar(y1, {lo}), ge.Scalar(y1, {hi}))
there: i64[{t}] = index_put(sub.Tensor(clone(y1), {lo}), [mask], zero)
far: f32[{t}] = _to_copy(mask, dtype='float32')
rows: i64[{t}] = arange({t})
empty: f32[{t}, {n}] = zeros([{t}, {n}])
hot = index_put(empty, [rows, there], sub.Tensor(far, 1.0))
kept = ne.Scalar(unsqueeze(y, 1), -100)
q: f32[{t}, 1] = where.self(kept, by, none)
dx = mul.Tensor(add.Tensor(hot, exp(ls)), q)
"""
SEQ = "x: f32[6, 12]\ny: i64[6]\nls = _log_softmax(x, 1, False)\n"
NLL = "l = nll_loss_forward(ls, y, None, 1, -100)\n"
BACK = NLL + "g: f32[()]\nb: f32[6, 12] = nll_loss_backward(g, ls, y, None, 1, -100, l[1])\n"
BACK += "dx = _log_softmax_backward_data(b, ls, 1, 'float32')\n"
T = {"t": [[0, 1, 2]]}


def filled(text: str, t: int = 6, n: str = "4", lo: str = "4 * rank", hi: str = "") -> str:
    """The program for these sizes and bounds."""
    sizes = {"t": str(t), "n": n, "lo": lo, "hi": hi or f"{lo} + {n}"}
    for key, value in sizes.items():
        text = text.replace("{" + key + "}", value)
    return text


def of(case: Case, name: str, seq: tuple[str, str], dist: tuple[str, str], right: bool) -> Case:
    """A sibling with other text on both sides, where the first text is."""
    assert seq[0] in case.seq and dist[0] in case.dist, name
    texts = {"seq": case.seq.replace(*seq), "dist": case.dist.replace(*dist)}
    return case.but(name, maps=None if right else (), **texts)


def misses(case: Case, listed: str, ids: str = "") -> list[Case]:
    """Siblings, one a line: `what | old | new`, and outputs that are still right; with `=` in
    front all of them are."""
    found = []
    for line in filter(None, listed.replace("{y}", ids).splitlines()):
        what, old, new, *right = (part.strip() for part in line.split("|"))
        maps = None if what.startswith("=") else tuple(" ".join(right).split())
        found.append(case.miss(what.removeprefix("= "), old, new, maps=maps))
    return found
