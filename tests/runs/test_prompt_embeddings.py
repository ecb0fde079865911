"""Studies that use the embeddings of their prompts: pairs of prompt and answer, and PAK-UCB and DAK-UCB."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.inputs import load_arms
from genmix.journal.integrity import check_run
from genmix.journal.prompts import embeddings_of_prompts
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from genmix.runs.check import check_study
from genmix.runs.export import export
from genmix.runs.snapshot import read_snapshot
from genmix.runs.timeline import Live

TOPICS = ("travel", "food", "code")
JOINT = {"vendi": {"kernel": {"joint": {"prompt": "cosine", "output": "cosine"}}}}


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))


def embed(texts: list[str]) -> Any:
    """Embed a prompt by its topic."""
    return np.array([np.eye(3)[TOPICS.index(text.split()[0])] for text in texts])


def specialist(topic: str) -> Any:
    """An arm that varies only on its own topic, where its quality is also best."""

    def answer(seeds: list[int], prompts: list[str]) -> list[Any]:
        found = []
        for seed, prompt in zip(seeds, prompts, strict=True):
            is_own = prompt.split()[0] == topic
            mode = np.random.default_rng(seed).integers(6) if is_own else 0
            quality = 0.9 if is_own else 0.2
            found.append({"vector": np.eye(6)[mode].tolist(), "prompt": prompt, "quality": quality})
        return found

    return answer


def study(folder: Path, repeat: int = 4, count: int = 9, **more: Any) -> dict[str, Any]:
    rows = [{"text": f"{TOPICS[i % 3]} {i}", "topic": TOPICS[i % 3]} for i in range(count)]
    vectors = embed([str(row["text"]) for row in rows]).tolist()
    lines = (json.dumps(row | {"v": v}) for row, v in zip(rows, vectors, strict=True))
    (folder / "prompts.jsonl").write_text("\n".join(lines), "utf-8")
    prompts = {"file": str(folder / "prompts.jsonl"), "repeat": repeat, "encoder": embed}
    return {
        "arms": {t: {"kind": "callable", "function": specialist(t)} for t in TOPICS},
        "prompts": prompts | more.pop("prompts", {}),
        "objective": "vendi",
        "warm_start": 3,
        "resolve_growth": 0.2,
        "retries": {"attempts": 1, "first_wait": 0},
        **more,
    }


def stop_at(count: int) -> Any:
    def stop(live: Live) -> None:
        if live.told >= count:
            live.loop.stop("interrupted")

    return stop


def rows_of(run: gx.Run) -> Any:
    with JournalReader.open(run.folder) as journal:
        return np.stack([embedding_of(row) for row in journal.told_rows()])


# -- pairs -------------------------------------------------------------------------------------------


def test_samples_are_told_with_the_embeddings_of_their_prompts(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, objective=JOINT, prompts={"group": "topic"}), tmp_path / "run")
    rows, samples = rows_of(run), list(run.samples())
    assert rows[:, :3].tolist() == embed([row["prompt"] for row in samples]).tolist()
    assert rows.shape == (36, 9)
    arms: dict[str, list[Any]] = {}
    for row, sample in zip(rows, samples, strict=True):
        arms.setdefault(sample["model_name"], []).append(row)
    joint = gx.Joint(3, gx.Cosine(), gx.Cosine())
    pooled = gx.score({"all": rows}, gx.Vendi(kernel=joint)).pooled["vendi"]
    found = run.summary["pooled_score"]["vendi"]
    assert found["value"] == pytest.approx(pooled, abs=1e-9)
    for key in ("prompts", "conditional"):
        assert float(found["details"][key]) == pytest.approx(pooled.details[key], abs=1e-9)
    assert float(found["details"]["prompts"]) == pytest.approx(3.0)
    assert float(run.summary["score"]["vendi"]["details"]["conditional"]) > 1
    assert check_run(run.folder).journal == "verified"


def test_each_group_learns_the_arm_whose_answers_to_its_prompts_differ(tmp_path: Path) -> None:
    plain = study(tmp_path, repeat=10, objective=JOINT, prompts={"group": "topic"})
    for topic, weights in gx.run(plain, tmp_path / "run").summary["weights_by_group"].items():
        assert max(weights, key=lambda arm: weights[arm]) == topic


def test_exports_contain_the_embeddings_of_the_answers_alone(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, objective=JOINT), tmp_path / "run")
    with np.load(export(run.folder, "npz", tmp_path / "features.npz")) as features:
        assert any(array.shape == (36, 6) for array in features.values())
    table = export(run.folder, "jsonl", tmp_path / "samples.jsonl", embeddings=True)
    first = json.loads(table.read_text("utf-8").splitlines()[0])
    assert len(first["embedding"]) == 6
    for arm in load_arms([str(run.folder)]):
        assert arm.features is not None
        assert arm.features.shape[1] == 6
        assert arm.prompt_features is not None
        assert arm.prompt_features.shape == (len(arm), 3)


@pytest.mark.parametrize("source", ["prompts", "study", "column"])
def test_the_embeddings_come_from_an_encoder_or_a_column(tmp_path: Path, source: str) -> None:
    plain = study(tmp_path, objective=JOINT)
    if source != "prompts":
        del plain["prompts"]["encoder"]
    if source == "study":
        plain["encoder"] = embed
    if source == "column":
        plain["prompts"]["embedding"] = "v"
    run = gx.run(plain, tmp_path / "run")
    with JournalReader.open(run.folder) as journal:
        found = embeddings_of_prompts(journal)
    assert np.stack(list(found.values())).tolist() == np.eye(3)[[0, 1, 2] * 3].tolist()


def test_a_damaged_embedding_of_a_prompt_is_detected(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, objective=JOINT), tmp_path / "run")
    with sqlite3.connect(run.folder / "journal.sqlite") as database:
        database.execute(
            "UPDATE prompt_embeddings SET embedding = zeroblob(12) WHERE prompt_id = 4"
        )
    assert check_run(run.folder).journal == "corrupt"


def test_journals_without_need_have_no_embeddings(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, prompts={"groups": 3}), tmp_path / "run")
    assert sorted(run.summary["weights_by_group"]) == ["group 1", "group 2", "group 3"]
    with JournalReader.open(run.folder) as journal:
        assert not journal.has_table("prompt_embeddings")
        assert journal.prompt_columns == 0


# -- policies ----------------------------------------------------------------------------------------

POLICIES = ["pak-ucb", "dak-ucb", "mixture-dak-ucb"]


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_get_the_prompts_and_learn_from_them(tmp_path: Path, policy: str) -> None:
    run = gx.run(study(tmp_path, repeat=6, policy=policy, resolve_growth=1.0), tmp_path / "run")
    later = list(run.samples())[27:]
    own = [row["model_name"] == row["prompt"].split()[0] for row in later]
    assert np.mean(own) > 0.45  # 1/3 by chance


@pytest.mark.parametrize(
    ("policy", "objective"),
    [
        ("dak-ucb", JOINT),
        ("mixture-dak-ucb", "vendi"),
        pytest.param("pak-ucb", "vendi", marks=pytest.mark.drill),
        pytest.param("dak-ucb", "vendi", marks=pytest.mark.drill),
        pytest.param("mixture-ucbv", JOINT, marks=pytest.mark.drill),
    ],
)
def test_a_run_that_is_cut_and_replayed_is_the_same_bit_for_bit(
    tmp_path: Path, policy: str, objective: Any
) -> None:
    plain = study(
        tmp_path, repeat=3, policy=policy, objective=objective, prompts={"group": "topic"}
    )
    whole = gx.run(plain, tmp_path / "whole")
    gx.run(plain, tmp_path / "cut", callbacks=[stop_at(15)])
    (tmp_path / "cut" / "selector.npz").unlink()  # the journal alone reproduces it
    cut = gx.resume(tmp_path / "cut", study=plain, callbacks=[stop_at(21)])
    assert cut.status == "interrupted"
    later = gx.resume(tmp_path / "cut", study=plain)  # from its snapshot
    assert list(later.samples()) == list(whole.samples())
    assert rows_of(later).tobytes() == rows_of(whole).tobytes()
    assert later.weights == whole.weights
    states = [state_of(run) for run in (later, whole)]
    assert states[0] == states[1]


def state_of(run: gx.Run) -> bytes:
    """Return the policy's memory and the random numbers at the end of a run."""
    with JournalReader.open(run.folder) as journal:
        saved = read_snapshot(journal)
    assert saved is not None
    state = saved.selector.state_dict()
    return repr([state.get("memory"), state["rng"], state["weights"]]).encode()


def test_open_tickets_keep_their_prompts(tmp_path: Path) -> None:
    plain = study(tmp_path, policy="dak-ucb", in_flight=5)
    gx.run(plain, tmp_path / "run", callbacks=[stop_at(17)])
    run = gx.resume(tmp_path / "run", study=plain)
    assert run.status == "finished"
    assert len(list(run.samples())) == 36


def test_a_policy_that_needs_quality_says_so_before_the_run(tmp_path: Path) -> None:
    plain = study(tmp_path, policy="pak-ucb")
    assert check_study(plain).problems == []

    def without(seeds: list[int], prompts: list[str]) -> list[Any]:
        return [[1.0, 0.0] for _ in seeds]

    plain["arms"] = {"a": without, "b": without}
    assert "pak-ucb needs one" in check_study(plain).problems[0]


def test_check_embeds_a_prompt(tmp_path: Path) -> None:
    assert check_study(study(tmp_path, objective=JOINT)).problems == []
    assert check_study(study(tmp_path, objective=JOINT), draw=False).problems == []

    def broken(texts: list[str]) -> Any:
        raise RuntimeError("no model")

    [problem] = check_study(study(tmp_path, objective=JOINT, prompts={"encoder": broken})).problems
    assert "no model" in problem


# -- many arms ---------------------------------------------------------------------------------------


def many_arms(count: int, samples: int) -> dict[str, Any]:
    """A study of many arms, of which two are needed."""

    def arm(modes: int, first: int) -> Any:
        return lambda seeds: [
            np.eye(16)[first + np.random.default_rng(seed).integers(modes)].tolist()
            for seed in seeds
        ]

    arms = {f"poor {i}": arm(1, 0) for i in range(count - 2)}
    arms |= {"low": arm(8, 0), "high": arm(8, 8)}
    return {
        "arms": arms,
        "objective": "vendi",
        "policy": {"successive-halving": {"samples": 4, "rounds": 2}},
        "warm_start": 4,
        "resolve_growth": 0.05,
        "budget": {"samples": samples},
    }


@pytest.mark.parametrize(
    ("count", "samples"), [(20, 130), pytest.param(50, 280, marks=pytest.mark.drill)]
)
def test_successive_halving_drops_most_of_many_arms(
    tmp_path: Path, count: int, samples: int
) -> None:
    run = gx.run(many_arms(count, samples), tmp_path / "run")
    assert [arm for arm, count in run.counts.items() if count > 10] == ["low", "high"]


@pytest.mark.drill
def test_successive_halving_resumes_bit_for_bit(tmp_path: Path) -> None:
    plain = many_arms(50, 280)
    whole = gx.run(plain, tmp_path / "whole")
    for cut in (150, 203, 230):
        folder = tmp_path / f"cut {cut}"
        gx.run(plain, folder, callbacks=[stop_at(cut)])
        later = gx.resume(folder, study=plain)
        assert later.counts == whole.counts
        assert later.weights == whole.weights


# -- missing packages --------------------------------------------------------------------------------


def test_a_missing_scipy_is_named_before_the_run_and_in_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = r"needs the scipy package; install it with pip install scipy"
    selector = gx.Selector(["a", "b"], gx.Vendi(), gx.MixtureDAKUCB(), warm_start=1)
    for ticket in selector.ask(2, prompt=[1.0, 0.0]):
        selector.tell(ticket, [1.0, 0.0])
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(gx.InputError, match=rf"^MixtureDAKUCB {command} \(the extra 'genmix\["):
        selector.ask(prompt=[1.0, 0.0])
    monkeypatch.setattr("genmix.runs.prepare.is_installed", lambda module: module != "scipy")
    with pytest.raises(gx.InputError, match=rf"^the study {command}\.$"):
        gx.run(study(tmp_path, policy="mixture-dak-ucb"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
