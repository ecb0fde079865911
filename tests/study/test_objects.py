"""Python objects in a study: objectives, kernels, policies, functions and arrays."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import genmix as gx
from genmix.core.python_objects import PythonObject, digest_of, function_label, missing_in
from genmix.encoders.references import read_reference
from genmix.policies.policy import Decision
from genmix.study.components import make_objective, make_policy
from genmix.study.study import Study, StudyError, json_schema, read_study, study_from
from tests.support.conformance import ARMS, OBJECTIVES, POLICIES, own_kernel

REAL = np.random.default_rng(0).normal(size=(30, 3))


def vectors(seeds: list[int]) -> list[Any]:
    return [np.random.default_rng(seed).normal(size=3) for seed in seeds]


def study(**changes: Any) -> dict[str, Any]:
    arms = dict.fromkeys(ARMS, vectors)
    return {"arms": arms, "objective": "vendi", "budget": {"samples": 60}, **changes}


def objective_of(found: Study) -> gx.Objective:
    return make_objective(found, lambda path: read_reference(path, Path(), None, lambda _: None))


def journaled(found: Study) -> Study:
    """The study as another process reads it from the journal."""
    return study_from(json.loads(json.dumps(found.plain())))


def problem(**changes: Any) -> str:
    with pytest.raises(StudyError) as error:
        study_from(study(**changes))
    return str(error.value)


# -- objectives, kernels and policies ----------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_study_builds_the_objective_that_it_was_given(name: str) -> None:
    given = OBJECTIVES[name](REAL)
    found = study_from(study(objective=given))
    assert objective_of(found) == given
    assert journaled(found) == found


@pytest.mark.parametrize("name", POLICIES)
def test_a_study_builds_the_policy_that_it_was_given(name: str) -> None:
    given = POLICIES[name](ARMS)
    needs_distance = isinstance(given, gx.FrechetUCB)
    objective: Any = gx.FrechetDistance(REAL) if needs_distance else "vendi"
    prompts = {"prompts": {"file": "p.txt", "embedding": "v"}} if given.needs_prompts else {}
    if getattr(given, "needs_references", False):
        with pytest.raises(gx.InputError, match="which a study does not have"):
            study_from(study(objective=objective, policy=given, **prompts))
        return
    found = study_from(study(objective=objective, policy=given, **prompts))
    assert make_policy(found) == given
    assert make_policy(journaled(found)) == given


def test_objects_from_genmix_are_stored_like_the_names_in_a_file() -> None:
    given = 0.5 * gx.Vendi(kernel=gx.Gaussian(2.0, features=16)) + gx.Cost()
    names = [
        {"vendi": {"kernel": {"gaussian": {"bandwidth": 2.0, "features": 16}}, "weight": 0.5}},
        "cost",
    ]
    assert study_from(study(objective=given)) == study_from(study(objective=names))


def test_objects_can_stand_inside_names_and_lists() -> None:
    written = [
        {"vendi": {"kernel": gx.Gaussian(2.0)}},
        gx.Quality() + 2 * gx.Cost(),
        {"precision": {"k": 3, "reference": REAL}},
        {"kernel-distance": {"kernel": own_kernel}},
    ]
    found = objective_of(study_from(study(objective=written, reference=torch.tensor(REAL))))
    assert found == (
        gx.Vendi(kernel=gx.Gaussian(2.0))
        + gx.Quality()
        + 2 * gx.Cost()
        + gx.Precision(REAL, k=3)
        + gx.KernelDistance(REAL, own_kernel)
    )


@pytest.mark.parametrize("reference", [(np.zeros(3), np.eye(3), 50), (np.zeros(3), np.eye(3))])
def test_moments_can_be_a_reference(reference: Any) -> None:
    found = study_from(study(objective="fd", reference=reference))
    assert objective_of(found) == gx.FrechetDistance(reference)


@dataclass(frozen=True, eq=False)
class Strict(gx.Precision):
    name = "strict"


@dataclass(frozen=True, eq=False)
class Favorite(gx.Policy):
    arm: str

    def decide(self, situation: Any) -> Decision:
        return Decision(np.array([float(arm == self.arm) for arm in situation.arms]))


def test_classes_of_the_user_are_kept_as_they_are() -> None:
    given = gx.Vendi() + 0.3 * Strict(REAL, k=4)
    found = study_from(study(objective=given, policy=Favorite("a")))
    assert objective_of(found) == given
    assert make_policy(found) == Favorite("a")
    stored = journaled(found)
    assert stored == found
    labels = [each.label.rpartition(":")[2] for each in missing_in(stored)]
    assert labels == ["vectors", "vectors", "vectors", "Strict", "Favorite"]
    with pytest.raises(gx.InputError, match="Strict; pass the same study again, with that object"):
        objective_of(stored)


# -- names and digests -------------------------------------------------------------------------------


def test_the_journal_gets_the_name_of_a_function_and_a_digest_of_its_source() -> None:
    plain = study_from(study()).plain()
    name = plain["arms"]["a"]["function"]
    assert name == f"<{__name__}:vectors #{digest_of(vectors)}>"
    assert type(name) is str


class Model:
    def write(self, seeds: list[int]) -> list[str]:
        return [str(seed) for seed in seeds]

    def __call__(self, seeds: list[int]) -> list[str]:
        return self.write(seeds)


@pytest.mark.parametrize(
    "function, label",
    [
        (vectors, "vectors"),
        (functools.partial(vectors, [1]), "vectors"),
        (lambda seeds: [], "<lambda>"),
        (Model(), "Model"),
        (Model().write, "Model.write"),
        (len, "len"),
    ],
)
def test_every_callable_has_a_name(function: Any, label: str) -> None:
    assert function_label(function).endswith(f":{label}")
    assert digest_of(function) == digest_of(function)


def _defined(source: str) -> Any:
    """A function without source code that inspect can find, as in a plain Python prompt."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(source, space)
    return space["f"]


def test_a_digest_follows_the_content() -> None:
    one, same, other = (_defined(f"def f(x):\n    return x + {k}") for k in (1, 1, 2))
    assert digest_of(one) == digest_of(same) != digest_of(other)
    first, second = (functools.partial(vectors, shift=shift) for shift in (1.0, 2.0))
    assert digest_of(first) != digest_of(second)
    shifted = REAL.copy()
    shifted[3, 1] += 1e-12
    assert digest_of(REAL) == digest_of(torch.tensor(REAL)) != digest_of(shifted)
    assert digest_of(REAL) != digest_of(REAL.reshape(3, 30))
    assert (
        digest_of(Strict(REAL)) != digest_of(Strict(REAL, k=4)) != digest_of(Strict(shifted, k=4))
    )


def test_equal_references_are_read_once() -> None:
    given = gx.Precision(REAL) + gx.Density(REAL.copy())
    found = study_from(study(objective=given))
    read: list[str] = []
    make_objective(found, lambda path: read.append(path) or REAL)
    assert read == [f"<30 reference samples of dimension 3 #{PythonObject(read[0]).digest}>"]


# -- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, sentence",
    [
        (
            {"objective": "precision", "reference": np.full((9, 3), np.nan)},
            "reference: the reference",
        ),
        ({"objective": gx.Cosine()}, "objective is of type Cosine; use text or a number."),
        ({"policy": gx.Vendi()}, "policy is of type Vendi; use text or a number."),
        ({"policy": gx.Fixed({"z": 1.0})}, "fixed names an unknown arm 'z'"),
        ({"encoder": 3}, "encoder"),
        (
            {
                "arms": {
                    "a": {"kind": "callable", "function": vectors, "arguments": {"function": len}}
                }
            },
            "arguments.function of arm 'a' is of type builtin_function_or_method; use text or a number.",
        ),
        ({"name": vectors}, "name is of type function; use text or a number."),
        ({"seed": vectors}, "seed is of type function; use text or a number."),
        ({"reference": REAL}, "no objective uses the reference"),
        (
            {"arms": {"a": {"kind": "recorded", "path": vectors}}},
            "path of arm 'a' is of type function",
        ),
        ({"arms": {"a": {"kind": "callable", "function": 7}}}, "function of arm 'a' is 7"),
        ({"objective": [gx.Vendi(), "vendy"]}, "did you mean 'vendi'?"),
        ({"objective": gx.Vendi}, "objective: objective is the class Vendi; write gx.Vendi()."),
        (
            {"objective": [gx.Vendi(), gx.Precision]},
            "objective[1] is the class Precision; write gx.Precision(reference).",
        ),
        (
            {"objective": {"vendi": {"kernel": gx.Gaussian}}},
            "kernel of vendi is the class Gaussian; write gx.Gaussian().",
        ),
        (
            {"policy": gx.MixtureGreedy},
            "policy is the class MixtureGreedy; write gx.MixtureGreedy().",
        ),
    ],
)
def test_a_mistake_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in problem(**changes)


def test_all_mistakes_are_reported_at_once() -> None:
    wrong = {"a": {"function": vectors, "prise": 1}, "b": 3}
    found = problem(arms=wrong, objective=gx.Vendi, policy=gx.Uniform, budget={"sample": 9})
    keys = [line.partition(": ")[0] for line in found.splitlines()]
    assert sorted(keys) == ["arms.a.prise", "arms.b", "budget.sample", "objective", "policy"]


def test_a_function_needs_no_kind() -> None:
    short = {"function": vectors, "price": 0.1}
    found = study_from(study(arms={"a": short}, encoder={"function": vectors}))
    full = {"kind": "callable", "function": vectors}
    assert found == study_from(study(arms={"a": full | {"price": 0.1}}, encoder=full))
    assert "arm 'a' has no 'kind'" in problem(arms={"a": {"function": "module:name"}})


def test_a_study_file_cannot_contain_the_name_of_an_object(tmp_path: Path) -> None:
    name = str(PythonObject.of(vectors, "vectors"))
    file = tmp_path / "study.yaml"
    for arm, objective in ((name, "vendi"), ("arms:f", name)):
        file.write_text(
            f"arms: {{a: {{kind: callable, function: '{arm}'}}}}\nobjective: '{objective}'\n"
            "budget: {samples: 20}\n"
        )
        with pytest.raises(StudyError):
            read_study(file)


def test_the_schema_for_editors_has_no_objects() -> None:
    assert "own" not in json.dumps(json_schema()["$defs"]["objective"])
    assert not [name for name in json_schema()["$defs"] if name.startswith("Own")]
