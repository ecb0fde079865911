"""Objectives, kernels and policies in a study."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core.text import listed
from genmix.errors import InputError
from genmix.study.components import (
    KERNELS,
    OBJECTIVES,
    POLICIES,
    make_objective,
    make_policy,
    reference_paths,
)
from genmix.study.study import (
    study_from,
)
from tests.support.studies import (
    plain_study,
    problems_in,
    said_by,
    with_line,
)

OBJECTIVE_NAMES = listed(OBJECTIVES, "or")
BAD_TERMS: list[tuple[str, str]] = [
    ("objective: vendy", "unknown objective 'vendy'; did you mean 'vendi'?"),
    ("objective: fid", "unknown objective 'fid'; did you mean 'frechet-distance'?"),
    (
        "objective: recall",
        "unknown objective 'recall'; recall is reported but cannot be optimized, so use coverage or "
        "precision.",
    ),
    ("objective: qqqqqqq", f"unknown objective 'qqqqqqq'; use one of {OBJECTIVE_NAMES}."),
    ("objective: 5", "objective is 5; use a name such as vendi, or {vendi: {parameters}}."),
    ("objective:", "objective is empty; use a name such as vendi, or {vendi: {parameters}}."),
    ("objective: []", "objective is empty; name one, e.g. vendi."),
    ("objective: {}", "objective is empty; use a name such as vendi, or {vendi: {parameters}}."),
    (
        "objective: {vendi: , rke: }",
        "objective is a mapping of vendi and rke; write a list with one '- name' per line.",
    ),
    (
        "objective: [{vendi: , weight: 2}]",
        "'weight' is at the same level as vendi; put it inside, as in 'vendi: {weight: …}'.",
    ),
    ("objective: {vendi: 5}", "the parameters of vendi are 5; use a mapping such as {order: …}."),
    ("objective: {cost: 5}", "the parameters of cost are 5; it takes none, so remove them."),
    ("objective: {vendi: {ordr: 1}}", "unknown key 'ordr' in vendi; did you mean 'order'?"),
    (
        "objective: {vendi: {zzz: 1}}",
        "unknown key 'zzz' in vendi; the keys are weight, order and kernel.",
    ),
    ("objective: {vendi: {order: big}}", "order of vendi is 'big'; use a number or 'inf'."),
    ("objective: {vendi: {order: true}}", "order of vendi is true; use a number."),
    ("objective: {vendi: {order: -1}}", "vendi: " + said_by(gx.Vendi, order=-1.0)),
    ("objective: {vendi: {weight: x}}", "weight of vendi is 'x'; use a number."),
    ("objective: {vendi: {weight: inf}}", "weight of vendi is 'inf'; use a number."),
    (
        "objective: {vendi: {weight: -1}}",
        said_by(gx.Vendi().__rmul__, -1),
    ),
    (
        "objective: {vendi: {kernel: gausian}}",
        "unknown kernel 'gausian'; did you mean 'gaussian'?",
    ),
    (
        "objective: {vendi: {kernel: {gaussian: {sigma: 1}}}}",
        "unknown key 'sigma' in gaussian; the keys are bandwidth, features and seed.",
    ),
    (
        "objective: {vendi: {kernel: {gaussian: {bandwidth: wide}}}}",
        "bandwidth of gaussian is 'wide'; use a number or 'median'.",
    ),
    (
        "objective: {vendi: {kernel: {gaussian: {features: 1.5}}}}",
        "features of gaussian is 1.5; use a whole number.",
    ),
    (
        "objective: {vendi: {kernel: polynomial}}",
        "vendi: " + said_by(gx.Vendi, kernel=gx.Polynomial()),
    ),
    (
        "objective: {frechet-distance: {ddof: true, reference: x}}",
        "ddof of frechet-distance is true; use a number.",
    ),
    ("objective: {rke: {unbiased: perhaps}}", "unbiased of rke is 'perhaps'; use true or false."),
    (
        "objective: {frechet-distance: {ddof: 2, reference: x}}",
        "ddof of frechet-distance is 2; use 0 or 1.",
    ),
    (
        "objective: {precision: {k: 0, reference: x}}",
        "precision: " + said_by(gx.Precision, reference=np.ones((3, 1)), k=0),
    ),
    (
        "objective: {precision: {k: 1000000, reference: x}}",
        "k of precision is 1000000; use a whole number of at most 100000.",
    ),
    (
        "objective: {precision: {reference: 5}}",
        "reference of precision is 5; use text in quotes.",
    ),
    (
        "policy: mixture_grdy",
        "unknown policy 'mixture_grdy'; did you mean 'mixture-greedy'?",
    ),
    ("policy: ucb", "unknown policy 'ucb'; did you mean 'mixture-ucb'?"),
    ("policy: qqqqqqq", f"unknown policy 'qqqqqqq'; use one of {listed(POLICIES, 'or')}."),
    (
        "policy: [uniform]",
        "policy is a list; use a name such as mixture-ucbv, or {mixture-ucbv: {parameters}}.",
    ),
    ("policy: {fixed: {}}", "fixed has no 'weights'; add it (weight of each arm, by label)."),
    (
        "policy: {fixed: {weight: 1}}",
        "unknown key 'weight' in fixed; did you mean 'weights'?",
    ),
    (
        "policy: {mixture-ucb: {delta: -1}}",
        "mixture-ucb: " + said_by(gx.MixtureUCB, delta=-1.0),
    ),
    ("policy: {uniform: {x: 1}}", "unknown key 'x' in uniform; it has no parameters."),
    (
        "policy: {fixed: {weights: [1, 2]}}",
        "weights of fixed is a list; use a mapping of keys and values.",
    ),
    (
        "policy: {fixed: {weights: {one: 2, two: 3}}}",
        "fixed: " + said_by(gx.Fixed, weights={"one": 2.0, "two": 3.0}),
    ),
    ("policy: {fixed: {weights: {one: true}}}", "weights.one of fixed is true; use a number."),
    (
        "policy: {fixed: {weights: {one: x}}}",
        "weights.one of fixed is 'x'; use a number.",
    ),
]


@pytest.mark.parametrize("line, sentence", BAD_TERMS)
def test_a_bad_objective_or_policy_gets_a_sentence(
    tmp_path: Path, line: str, sentence: str
) -> None:
    text = with_line(line)
    found = problems_in(tmp_path, text)
    number = text.count("\n")
    assert f"study.yaml, line {number}: {sentence}" in found


def test_an_error_in_a_component_has_the_line_of_its_key(tmp_path: Path) -> None:
    text = with_line("reference: real.npz\n") + (
        "policy:\n  mixture-ucb:\n    beta: 1\n    delta: -1\n"
    )
    objective = (
        "objective:\n- Vendi:\n    kernel:\n      gaussian:\n        seed: 1\n        bandwidth: wide\n"
        "- vendi:\n    order: 2\n    weight: -1\n- precision:\n    weight: 1\n    k: 0\n"
    )
    text = text.replace("objective: vendi\n", objective)
    numbers = [int(re.findall(r"line (\d+)", each)[0]) for each in problems_in(tmp_path, text)]
    lines = [text.split("\n")[number - 1].strip() for number in numbers]
    assert lines == ["bandwidth: wide", "weight: -1", "k: 0", "delta: -1"]


def test_every_objective_kernel_and_policy_has_a_name() -> None:
    assert set(OBJECTIVES) == {
        "vendi", "rke", "frechet-distance", "kernel-distance", "quality-vendi", "inception-score",
        "precision", "density", "coverage", "quality", "cost",
    }  # fmt: skip
    assert set(KERNELS) == {"cosine", "gaussian", "polynomial", "joint"}
    assert set(POLICIES) == {
        "mixture-greedy", "mixture-bonus", "mixture-ucb", "mixture-ucbv", "mixture-ogd",
        "one-arm-greedy", "epsilon-greedy", "one-arm-ucb", "successive-halving",
        "pak-ucb", "dak-ucb", "mixture-dak-ucb",
        "frechet-ucb", "one-arm-oracle", "mixture-oracle", "uniform", "fixed",
    }  # fmt: skip


REAL = np.random.default_rng(0).standard_normal((30, 4))
TERMS: list[tuple[Any, gx.Objective]] = [
    ("vendi", gx.Vendi()),
    ("Vendi", gx.Vendi()),
    ({"vendi": None}, gx.Vendi()),
    ({"vendi": {"order": "inf"}}, gx.Vendi(order=float("inf"))),
    ({"vendi": {"order": "Infinity"}}, gx.Vendi(order=float("inf"))),
    ({"vendi": {"order": "1e-1", "kernel": "gaussian"}}, gx.Vendi(0.1, gx.Gaussian())),
    (
        {"vendi": {"kernel": {"gaussian": {"bandwidth": 20, "features": 512, "seed": 3}}}},
        gx.Vendi(kernel=gx.Gaussian(20, 512, 3)),
    ),
    ({"rke": {"unbiased": True, "kernel": {"cosine": None}}}, gx.RKE(gx.Cosine(), True)),
    ("frechet_distance", gx.FrechetDistance(REAL)),
    ({"frechet-distance": {"ddof": 1, "reference": "other"}}, gx.FrechetDistance(REAL, 1)),
    (
        {"kernel_distance": {"kernel": {"polynomial": {"degree": 2}}, "block_mb": 8}},
        gx.KernelDistance(REAL, gx.Polynomial(2), block_mb=8),
    ),
    ({"precision": {"k": 3}}, gx.Precision(REAL, 3)),
    ("density", gx.Density(REAL)),
    ("quality-vendi", gx.QualityVendi()),
    ("inception-score", gx.InceptionScore()),
    ({"cost": {"weight": 0.5}}, 0.5 * gx.Cost()),
    ({"cost": {"weight": -0.5}}, -0.5 * gx.Cost()),
    (
        ["vendi", {"precision": {"weight": 0.3}}, {"cost": {"weight": 0.1}}],
        gx.Vendi() + 0.3 * gx.Precision(REAL) + 0.1 * gx.Cost(),
    ),
    ([{"quality": {"weight": 1}}], gx.Quality()),
]


def needs_reference(written: Any, given: gx.Objective) -> bool:
    return given.dimension is not None or "precision" in str(written)


@pytest.mark.parametrize("written, expected", TERMS)
def test_objectives_are_made_as_in_python(written: Any, expected: gx.Objective) -> None:
    own = "other" in str(written)
    reference = {"reference": "real"} if needs_reference(written, expected) and not own else {}
    study = study_from(plain_study(objective=written, **reference))
    asked: list[str] = []

    def read(path: str) -> Any:
        asked.append(path)
        return REAL

    assert make_objective(study, read) == expected
    assert asked == list(reference_paths(study))
    assert study_from(study.plain()) == study


def test_a_reference_is_read_once() -> None:
    terms = [
        "frechet-distance",
        {"precision": {"weight": 1}},
        {"density": {"reference": "b", "weight": 1}},
    ]
    study = study_from(plain_study(objective=terms, reference="a"))
    asked: list[str] = []
    make_objective(study, lambda path: asked.append(path) or REAL)  # type: ignore[func-returns-value]
    assert asked == ["a", "b"] == list(reference_paths(study))


def test_a_reference_that_does_not_fit_gets_a_sentence() -> None:
    study = study_from(plain_study(objective={"precision": {"k": 50}}, reference="a"))
    with pytest.raises(InputError) as caught:
        make_objective(study, lambda _: REAL)
    assert str(caught.value) == f"objective: precision: {said_by(gx.Precision, REAL, 50)}"


@pytest.mark.parametrize(
    "written, expected",
    [
        ("uniform", gx.Uniform()),
        ("mixture_greedy", gx.MixtureGreedy()),
        ({"mixture-ucb": {"delta": 0.5, "beta": "2"}}, gx.MixtureUCB(0.5, beta=2.0)),
        ({"epsilon-greedy": {"epsilon": 0.2}}, gx.EpsilonGreedy(0.2)),
        ({"one-arm-oracle": {"arm": "two"}}, gx.OneArmOracle("two")),
        ({"fixed": {"weights": {"one": 0.25, "two": 0.75}}}, gx.Fixed({"one": 0.25, "two": 0.75})),
        ({"MixtureOGD": None}, gx.MixtureOGD()),
    ],
)
def test_policies_are_made_as_in_python(written: Any, expected: gx.Policy) -> None:
    assert make_policy(study_from(plain_study(policy=written))) == expected
