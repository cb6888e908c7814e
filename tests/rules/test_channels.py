"""Convolutions and norms over groups of channels (``extract/lower_channels.py``)."""

from __future__ import annotations

from .build import Case, check, table
from .conftest import Outcomes
from .test_backward import family, pair

# ---- convolutions: `[2], [1], [1]` is how far they step, what they pad, how far positions are apart
HOW = "[2], [1], [1], False, [0], "
OUT = "x: f32[2, 4, 7]\nw: f32[{12|4}, 4, 3]\nb: f32[{12|4}]\n"
OUT += f"y: f32[2, {{12|4}}, 4] = convolution(x, w, b, {HOW}1)\nreturn y"
BY_OUTPUT = pair("channels of the output", OUT, 3)
IN = "x: f32[2, {12|4}, 7]\nw: f32[5, {12|4}, 3]\n"
IN += f"y: f32[2, 5, 4] = convolution(x, w, None, {HOW}1)\nreturn {{y|SUM(y)}}"
BY_INPUT = pair("channels of the input", IN, 3)
GROUPS = "x: f32[2, {8|4}, 3, 5]\nw: f32[{12|6}, 2, 3, 2]\nb: f32[{12|6}]\n"
GROUPS += (
    "y: f32[2, {12|6}, 3, 2] = convolution(x, w, b, [1, 2], [1, 0], [1, 1], False, [0, 0], {4|2})\n"
)
BY_GROUP = pair("groups", GROUPS + "return y")
ONE_GROUP = pair("one group of four", (GROUPS + "return y").replace("{8|4}", "{8|2}")
                 .replace("{12|6}", "{12|3}").replace("{4|2}", "{4|1}"), 4)  # fmt: skip
DEEP = "x: f32[2, {6|2}, 8]\nw: f32[{6|2}, 1, 3]\n"
DEEP += "y: f32[2, {6|2}, 6] = convolution(x, w, None, [1], [0], [1], False, [0], {6|2})\nreturn y"
DEPTHWISE = pair("a group per channel", DEEP, 3)
UP = "x: f32[2, {6|3}, 4]\nw: f32[{6|3}, 5, 3]\n"
UP += "y: f32[2, 5, 9] = convolution(x, w, None, [2], [0], [1], True, [0], 1)\nreturn {y|SUM(y)}"
TRANSPOSED = pair("transposed", UP)
BATCH = "x: f32[{6|2}, 4, 7]\nw: f32[12, 4, 3]\nb: f32[12]\n"
BATCH += f"y: f32[{{6|2}}, 12, 4] = convolution(x, w, b, {HOW}1)\nreturn y"
LONG = "x: f32[2, 4, {8|4}]\nw: f32[3, 4, 1]\n"
LONG += "y: f32[2, 3, {8|4}] = convolution(x, w, None, [1], [0], [1], False, [0], 1)\nreturn y"
SHORT = "x: f32[2, 4, 7]\nw: f32[12, 4, 3]\ny: f32[2, 12, 4] = {conv1d(x, w, None, [2], [1])|"
SHORT += f"convolution(x, w, None, {HOW}1)}}\nreturn y"
CONVOLUTIONS = (
    *family(
        BY_OUTPUT,
        """
        padded otherwise | f32[2, 4, 4] = convolution(x, w, b, [2], [1] | f32[2, 4, 3] = convolution(x, w, b, [2], [0]
        positions further apart | [2], [1], [1] | [2], [2], [2]
        another bias | b, [2] | None, [2]""",
    ),
    *family(
        BY_INPUT,
        """
        not reduced | SUM(y) | y
        averaged | "sum" | "avg"
        the largest | "sum" | "max" """,
    ),
    BY_GROUP,
    BY_GROUP.miss("channels of another group", "convolution(x", "convolution(roll(x, [1], [1])"),
    BY_GROUP.miss("sides swapped", "6, 3, 2] = convolution(x, w, b, [1, 2], [1, 0]",
                  "6, 1, 5] = convolution(x, w, b, [2, 1], [0, 1]"),
    ONE_GROUP,
    DEPTHWISE,
    DEPTHWISE.miss("the next channels", "convolution(x", "convolution(roll(x, [1], [1])"),
    *family(TRANSPOSED, "not reduced | SUM(y) | y"),
    pair("the batch", BATCH, 3),
    pair("positions, each by itself", LONG),
    pair("positions that need their neighbours", LONG.replace("4, 1]", "4, 3]").replace("[1], [0], [1]", "[1], [1], [1]"),
         maps=()),
    pair("a short form", SHORT),
    pair("a short form: another step", SHORT.replace("[2, 12, 4] = {", "[2, 12, {4|7}] = {")
         .replace("|convolution(x, w, None, [2]", "|convolution(x, w, None, [1]"), maps=()),
)  # fmt: skip

# ---- their gradients
BACK = "g: f32[2, {12|4}, 4]\nx: f32[2, 4, 7]\nw: f32[{12|4}, 4, 3]\n"
BACK += f"o = convolution_backward(g, x, w, [{{12|4}}], {HOW}1, [True, True, True])\n"
BACK += "dx: f32[2, 4, 7] = o[0]\ndw: f32[{12|4}, 4, 3] = o[1]\ndb: f32[{12|4}] = o[2]\n"
BACK_OUT = pair("gradients, channels of the output", BACK + "return {dx|SUM(dx)}, dw, db", 3)
BACK_TOKENS = pair(
    "gradients, the batch",
    BACK.replace("{12|4}", "12").replace("f32[2,", "f32[{6|2},")
    + "return dx, {dw|SUM(dw)}, {db|SUM(db)}",
    3,
)
BACK_IN = "g: f32[2, 5, 4]\nx: f32[2, {12|4}, 7]\nw: f32[5, {12|4}, 3]\n"
BACK_IN += f"o = convolution_backward(g, x, w, [5], {HOW}1, [True, True, False])\n"
BACK_IN += "dx: f32[2, {12|4}, 7] = o[0]\ndw: f32[5, {12|4}, 3] = o[1]\nreturn dx, dw"
BACK_GROUPS = "g: f32[2, {12|6}, 3, 2]\nx: f32[2, {8|4}, 3, 5]\nw: f32[{12|6}, 2, 3, 2]\n"
BACK_GROUPS += (
    "o = convolution_backward(g, x, w, None, [1, 2], [1, 0], [1, 1], False, [0, 0], {4|2}, "
)
BACK_GROUPS += (
    "[True, True, False])\ndx: f32[2, {8|4}, 3, 5] = o[0]\ndw: f32[{12|6}, 2, 3, 2] = o[1]\n"
)
BACK_GROUPS += "return dx, dw"
GRADIENTS = (
    *family(
        BACK_OUT,
        """
        dx is not reduced | SUM(dx) | dx | dw db
        dw is reduced, too | , dw, | , SUM(dw), | dx db""",
    ),
    *family(
        BACK_TOKENS,
        """
        dw is not reduced | SUM(dw) | dw | dx db
        db is not reduced | SUM(db) | db | dx dw
        averaged | "sum" | "avg" | dx""",
    ),
    pair("gradients, channels of the input", BACK_IN, 3),
    pair("gradients, groups", BACK_GROUPS),
    pair("gradients, transposed",
         "g: f32[2, 5, 9]\nx: f32[2, {6|3}, 4]\nw: f32[{6|3}, 5, 3]\n"
         "o = convolution_backward(g, x, w, None, [2], [0], [1], True, [0], 1, [True, True, False])\n"
         "dx: f32[2, {6|3}, 4] = o[0]\ndw: f32[{6|3}, 5, 3] = o[1]\nreturn dx, dw"),
)  # fmt: skip

# ---- norms over groups of channels
NORM = "x: f32[3, {12|6}, 5]\nw: f32[{12|6}]\nb: f32[{12|6}]\n"
NORM += "f = native_group_norm(x, w, b, 3, {12|6}, 5, {4|2}, 1e-5)\n"
NORM += "y: f32[3, {12|6}, 5] = f[0]\nreturn y"
NORMED = pair("groups are normed", NORM)
NORM_BACK = NORM.replace("return y", "").replace("x:", "dy: f32[3, {12|6}, 5]\nx:")
NORM_BACK += "m: f32[3, {4|2}] = f[1]\nr: f32[3, {4|2}] = f[2]\n"
NORM_BACK += (
    "o = native_group_norm_backward(dy, x, m, r, w, 3, {12|6}, 5, {4|2}, [True, True, True])\n"
)
NORM_BACK += "dx: f32[3, {12|6}, 5] = o[0]\ndw: f32[{12|6}] = o[1]\ndb: f32[{12|6}] = o[2]\n"
NORM_BATCH = NORM_BACK.replace("{12|6}", "12").replace("{4|2}", "4").replace("[3,", "[{6|3},")
NORM_BATCH = NORM_BATCH.replace("b, 3,", "b, {6|3},").replace("w, 3,", "w, {6|3},")
BACK_NORM = pair("gradients of a norm", NORM_BACK + "return dx, dw, db")
NORMS = (
    *family(
        NORMED,
        """
        one group of two | 5, 2, 1e-5 | 5, 1, 1e-5
        smaller groups | 5, 2, 1e-5 | 5, 3, 1e-5
        another epsilon | 1e-5 | 1e-6""",
    ),
    NORMED.miss("other sizes than those of the input", "3, 6, 5, 2", "5, 6, 3, 2"),
    pair("one group a rank", NORM.replace("{12|6}", "{12|3}").replace("{4|2}", "{4|1}"), 4),
    *family(
        BACK_NORM,
        """
        statistics exchanged | dy, x, m, r | dy, x, r, m | db
        another weight | m, r, w | m, r, b | dw db""",
    ),
    *family(
        pair(
            "gradients of a norm, the batch", NORM_BATCH + "return dx, {dw|SUM(dw)}, {db|SUM(db)}"
        ),
        "\ndw is not reduced | SUM(dw) | dw | dx db\ndb is not reduced | SUM(db) | db | dx dw",
    ),
)

# ---- a gradient that is the same at every token: the mean of all of them goes on
ALIKE = "e: f32[{4|2}, 6]\nx: f32[{4|2}, 3, 6]\nw: f32[6]\nb: f32[6]\n"
ALIKE += "dy: f32[{4|2}, 3, 6] = expand(unsqueeze(e, 1), [{4|2}, 3, 6])\n"
ALIKE += "f = native_layer_norm(x, [6], w, b, 1e-5)\n"
ALIKE += "o = native_layer_norm_backward(dy, x, [6], f[1], f[2], w, b, [True, True, True])\n"
ALIKE += "dx = o[0]\ndw = {o[1]|SUM(o[1])}\ndb = {o[2]|SUM(o[2])}\nreturn dx, dw, db"
MEANS = family(
    pair("one gradient for all tokens", ALIKE),
    "\ndb is not reduced | SUM(o[2]) | o[2] | dx dw",
)


@table(*CONVOLUTIONS, *GRADIENTS, *NORMS, *MEANS)
def test_channels(case: Case, outcomes: Outcomes) -> None:
    """Channels, groups of channels and the batch may be cut, positions in space may not."""
    check(case, outcomes(case))
