"""``explain``, ``certificate`` and ``check`` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ..command import Cli
from .conftest import ROOT, Proved, run


def test_a_certificate_is_written_and_checked(cli: Cli, block: Proved, tmp_path: Path) -> None:
    proof = tmp_path / "new" / "proof.json"
    made = cli("certificate", block.result, "-o", proof)
    assert (made.status, made.out) == (0, "")
    found = cli("check", proof, block.facts)
    assert found.status == 0
    assert "1 of 1 outputs are proved: add_1" in found.out


def test_a_certificate_of_other_facts_ends_with_1(
    cli: Cli, block: Proved, gpt: Proved, tmp_path: Path
) -> None:
    proof = tmp_path / "proof.json"
    cli("certificate", block.result, "-o", proof)
    found = cli("check", proof, gpt.facts)
    assert (found.status, found.out) == (1, "")
    assert "does not hold: it is about other facts" in found.err


def test_steps_of_other_facts_are_looked_through(
    cli: Cli, block: Proved, gpt: Proved, tmp_path: Path
) -> None:
    """Whatever hash a certificate names: what it proves is proved of these facts."""
    proof = tmp_path / "proof.json"
    document = {**block.document, "facts": gpt.document["facts"]}
    proof.write_text(json.dumps(document), encoding="utf-8")
    found = cli("check", proof, gpt.facts)
    assert (found.status, found.out) == (1, "")
    assert "does not hold: step " in found.err


def _pair(folder: Path, kept: bool) -> Path:
    """Facts with two outputs, of which one is mapped, and perhaps the other one."""
    node = {"op": "placeholder", "dtype": "float32"}
    seq = [{"name": name, "target": name, "shape": [4], **node} for name in ("a", "b")]
    end = {"name": "output", "op": "output", "args": [[{"node": "a"}, {"node": "b"}]]}
    folder.mkdir()
    (folder / "seq.json").write_text(json.dumps({"nodes": [*seq, end]}))
    for rank in (0, 1):
        (folder / f"dist.r{rank}.json").write_text(json.dumps({"nodes": [*seq, end]}))
    rows = [{"seq": "a", "rank": rank, "dist": "a"} for rank in (0, 1)]
    rows += [{"seq": "b", "rank": rank, "dist": "b"} for rank in range(1 + kept)]
    (folder / "relations.json").write_text(json.dumps(rows))
    return folder


@pytest.mark.parametrize("kept", [True, False])
def test_only_all_outputs_are_enough(cli: Cli, tmp_path: Path, kept: bool) -> None:
    facts, proof = run(_pair(tmp_path / "case", kept), tmp_path / "facts"), tmp_path / "proof.json"
    assert cli("certificate", facts / "result", "-o", proof).status == 0
    found = cli("check", proof, facts)
    assert found.status == (0 if kept else 1)
    told = (
        "2 of 2 outputs are proved: a, b" if kept else "1 of 2 outputs are proved: a; not proved: b"
    )
    assert found.out == f"{len(json.loads(proof.read_text())['steps'])} steps hold; {told}\n"
    document = json.loads(proof.read_text())
    document["outputs"] = document["outputs"][:1]
    used = {number for share in document["outputs"][0]["shares"].values() for number in share}
    document["steps"] = [step for step in document["steps"] if step["step"] in used]
    proof.write_text(json.dumps(document))
    assert cli("check", proof, facts).status == 1


def test_collectives_that_do_not_line_up_are_not_proved(cli: Cli, tmp_path: Path) -> None:
    """The run says that it does not refine; its certificate may say nothing else."""
    case = shutil.copytree(ROOT / "examples" / "tp_block" / "case", tmp_path / "case")
    graph = json.loads((case / "dist.r1.json").read_text())
    place = next(i for i, n in enumerate(graph["nodes"]) if "all_reduce" in str(n.get("target")))
    again = {**graph["nodes"][place], "name": "once_more"}
    graph["nodes"].insert(place, again)
    (case / "dist.r1.json").write_text(json.dumps(graph))
    facts, proof = run(case, tmp_path / "facts"), tmp_path / "proof.json"
    report = json.loads((facts / "result" / "report.json").read_text())
    assert report["verdict"] == "does-not-refine"
    if cli("certificate", facts / "result", "-o", proof).status == 0:
        found = cli("check", proof, facts)
        assert found.status == 1 and "do not line up" in found.out


def test_a_certificate_names_the_facts(cli: Cli, block: Proved, tmp_path: Path) -> None:
    manifest = json.loads((block.facts / "manifest.json").read_text())
    assert block.document["facts"] == manifest["hash"]
    proof = tmp_path / "proof.json"
    document = {k: v for k, v in block.document.items() if k != "facts"}
    proof.write_text(json.dumps(document))
    found = cli("check", proof, block.facts)
    assert found.status == 2 and "does not say which facts" in found.err
    result = shutil.copytree(block.result, tmp_path / "result")
    manifest = json.loads((result / "manifest.json").read_text())
    del manifest["hash"]
    (result / "manifest.json").write_text(json.dumps(manifest))
    found = cli("certificate", result, "-o", tmp_path / "other.json")
    assert found.status == 2 and "of which facts" in found.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("{", "this is no JSON"),
        ("[]", "this is no certificate"),
        ('{"form": "other", "steps": [], "outputs": []}', "this is no certificate"),
        ('{"form": "gg-datalog certificate 1", "steps": 3, "outputs": []}', "have to be lists"),
    ],
)
def test_bad_certificates(
    text: str | None, message: str, cli: Cli, block: Proved, tmp_path: Path
) -> None:
    proof = tmp_path / "proof.json"
    if text is not None:
        proof.write_text(text, encoding="utf-8")
    found = cli("check", proof, block.facts)
    assert (found.status, found.out) == (2, "")
    assert message in found.err and str(proof) in found.err and "Traceback" not in found.err


@pytest.mark.parametrize("line", [3, None, [], {}, {"step": 0}, {"wants": 0}])
def test_malformed_steps_are_refused_with_their_number(
    line: Any, cli: Cli, block: Proved, tmp_path: Path
) -> None:
    proof = tmp_path / "proof.json"
    document = {**block.document, "steps": [line, *block.document["steps"][1:]]}
    proof.write_text(json.dumps(document), encoding="utf-8")
    found = cli("check", proof, block.facts)
    assert found.status == 1 and "step 0: " in found.err


def test_nothing_mapped_is_nothing_to_prove(cli: Cli, broken: Path, tmp_path: Path) -> None:
    found = cli("certificate", broken / "result", "-o", tmp_path / "proof.json")
    assert found.status == 2 and "no output is mapped" in found.err
    assert not (tmp_path / "proof.json").exists()


# ---- explain -------------------------------------------------------------------------------
def lines(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All nodes of a tree."""
    return [x for node in nodes for x in (node, *lines(node["premises"]))]


def test_a_relation_is_explained_down_to_the_inputs(cli: Cli, block: Proved) -> None:
    found = cli("explain", block.result, "add_1", "--depth", 99, "--format", "json")
    assert found.status == 0
    document = json.loads(found.out)
    assert document["mapped"] and document["side"] == "seq"
    nodes = lines(document["explanations"])
    assert all(node["rule"] for node in nodes if node["state"] == "holds")
    ends = [node for node in nodes if not node["premises"] and node["state"] == "holds"]
    assert ends and all(node["rule"] == "related_input" and not node["more"] for node in ends)
    assert any("Partial(sum over 0:2 of 4 in addmm_1)" in node["text"] for node in nodes)
    assert any("model.py:" in place["source"] for node in nodes for place in node["at"])


def test_a_tensor_of_a_rank(cli: Cli, block: Proved) -> None:
    for arguments in (["r1.mm"], ["mm", "--rank", "1"]):
        found = cli("explain", block.result, *arguments, "--format", "json", "--depth", 0)
        document = json.loads(found.out)
        assert (document["tensor"], document["rank"]) == ("r1.mm", 1)
        texts = {node["text"] for node in document["explanations"]}
        assert "r1.mm = Partial(sum over 2:4 of 4 in addmm_1) of addmm_1" in texts
        assert all(x["more"] > 0 and x["premises"] == [] for x in document["explanations"])
        assert not document["mapped"]


def test_what_is_not_mapped_is_explained_the_other_way(cli: Cli, broken: Path) -> None:
    found = cli("explain", broken / "result", "add_1")
    assert found.status == 0
    assert "add_1 is not mapped" in found.out
    assert "cannot be rebuilt" in found.out
    assert "closest: r0.mm = Partial(sum over 0:2 of 4 in addmm_1) of addmm_1" in found.out
    assert "model.py:" in found.out and "\x1b" not in found.out


@pytest.mark.parametrize(
    ("tensor", "hint"),
    [("ad_1", "did you mean add_1"), ("r7.mm", "r1.mm"), ("zzzzzz", "as in the graphs")],
)
def test_a_tensor_that_is_not_there(tensor: str, hint: str, cli: Cli, block: Proved) -> None:
    found = cli("explain", block.result, tensor)
    assert (found.status, found.out) == (2, "")
    assert f"there is no node `{tensor}`" in found.err and hint in found.err


def test_a_rank_that_is_not_there(cli: Cli, block: Proved) -> None:
    found = cli("explain", block.result, "mm", "--rank", 5)
    assert found.status == 2 and "there is no rank 5" in found.err


def test_any_node_can_be_explained(cli: Cli, block: Proved, broken: Path) -> None:
    """No traceback, whatever is asked for."""
    from gg_datalog.result.folder import open_result

    for result in (block.result, broken / "result"):
        with open_result(result) as database:
            rows = database.sql("SELECT side, rank, name, tensor FROM graph_node").fetchall()
        for side, rank, name, tensor in rows[::7]:
            node = name if side == "seq" else f"r{rank}.{name}"
            found = cli("explain", result, node, "--depth", 2)
            assert found.status == (0 if tensor else 2), (node, found.err)
            assert found.out.startswith((f"{node} is ", f"{node} holds ")) or not tensor


def test_both_engines_give_the_same(cli: Cli, tmp_path: Path) -> None:
    if shutil.which("souffle") is None:
        pytest.skip("souffle is not on the PATH")
    case = ROOT / "examples" / "tp_block" / "case"
    texts, proofs = [], []
    for engine in ("clingo", "souffle"):
        facts = run(case, tmp_path / engine, engine=engine)
        texts.append(cli("explain", facts / "result", "add_1", "--depth", 99).out)
        cli("certificate", facts / "result", "-o", tmp_path / f"{engine}.json")
        proofs.append((tmp_path / f"{engine}.json").read_text(encoding="utf-8"))
    assert texts[0] == texts[1] and proofs[0] == proofs[1]
