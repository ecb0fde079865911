"""Pairs of prompts and outputs: product kernels, conditional scores, random features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx


def gaussian(x: Any, y: Any, sigma: float) -> Any:
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / (2 * sigma**2))


def entropy(gram: Any) -> float:
    values = np.linalg.eigvalsh(gram / len(gram))
    values = values[values > 1e-14]
    return float(-(values * np.log(values)).sum())


def samples(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    prompts = rng.standard_normal((4, 3))[rng.integers(0, 4, n)]
    return np.hstack([prompts, rng.standard_normal((n, 5))])


def test_conditional_vendi_agrees_with_a_direct_computation() -> None:
    x = samples(40, 0)
    joint = gx.Joint(3, prompt=gx.Gaussian(0.7), output=gx.Gaussian(1.3))
    score = gx.score({"a": x}, gx.Vendi(kernel=joint)).pooled["vendi"]
    prompts = gaussian(x[:, :3], x[:, :3], 0.7)
    both = prompts * gaussian(x[:, 3:], x[:, 3:], 1.3)
    assert score == pytest.approx(np.exp(entropy(both)), rel=1e-9)
    assert score.details["prompts"] == pytest.approx(np.exp(entropy(prompts)), rel=1e-9)
    conditional = np.exp(entropy(both) - entropy(prompts))
    assert score.details["conditional"] == pytest.approx(conditional, rel=1e-9)


def test_joint_rke_agrees_with_a_direct_computation() -> None:
    arms = {"a": samples(12, 1), "b": samples(9, 2)}
    joint = gx.Joint(3, prompt=gx.Gaussian(0.7), output=gx.Gaussian(1.3))
    mix = gx.optimal_mixture(arms, gx.RKE(joint))
    x = np.vstack(list(arms.values()))
    w = np.repeat([mix.weights["a"] / 12, mix.weights["b"] / 9], [12, 9])
    prompts = gaussian(x[:, :3], x[:, :3], 0.7)
    both = prompts * gaussian(x[:, 3:], x[:, 3:], 1.3)
    assert mix.score == pytest.approx(1 / (w @ both**2 @ w), rel=1e-9)
    assert mix.score.details["prompts"] == pytest.approx(1 / (w @ prompts**2 @ w), rel=1e-9)


def test_random_features_approach_the_exact_kernel() -> None:
    x = samples(25, 3)
    exact = gx.Joint(3, prompt=gx.Gaussian(1.0), output=gx.Gaussian(2.0))
    random = gx.Joint(
        3, prompt=gx.Gaussian(1.0, features=20000), output=gx.Gaussian(2.0, features=20000)
    ).fix_bandwidths([x])
    assert random.columns(8) == 40000
    assert np.abs(random(x, x) - exact(x, x)).max() < 0.05  # five standard deviations of 1 / √20000
    assert np.abs(np.diag(random(x, x)) - 1).max() < 1e-12
    few = gx.Joint(3, prompt=gx.Gaussian(features=64), output=gx.Gaussian(features=64))
    mix = gx.optimal_mixture({"a": x[:12], "b": x[12:]}, gx.Vendi(kernel=few))
    assert mix.gap < 1e-6
    assert {"prompts", "conditional"} <= set(mix.score.details)


def test_one_part_alone_is_the_kernel_of_that_part() -> None:
    arms = {"a": samples(30, 4), "b": samples(20, 5)}
    for part, columns in (("prompt", slice(0, 3)), ("output", slice(3, None))):
        other = "output" if part == "prompt" else "prompt"
        joint = gx.Joint(3, **{part: gx.Cosine(), other: None})
        mine = gx.optimal_mixture(arms, gx.Vendi(kernel=joint))
        plain = gx.optimal_mixture({k: x[:, columns] for k, x in arms.items()}, gx.Vendi())
        assert mine.weights == pytest.approx(plain.weights, abs=1e-6)
        assert mine.score == pytest.approx(plain.score)
        assert "prompts" not in mine.score.details


def test_median_bandwidths_are_fixed_for_each_part() -> None:
    x = samples(50, 6)
    fixed = gx.Joint(3).fix_bandwidths([x])
    assert fixed.prompt == gx.Gaussian().fix_bandwidths([x[:, :3]])
    assert fixed.output == gx.Gaussian().fix_bandwidths([x[:, 3:]])


def test_a_selector_reports_conditional_scores_and_does_not_pool_pairs() -> None:
    joint = gx.Joint(2, prompt=gx.Cosine(), output=gx.Cosine())
    whole = gx.Joint(2, prompt=None, output=gx.Cosine())
    objective = gx.Vendi(kernel=joint) + gx.Vendi(kernel=whole)
    sel = gx.Selector(["a", "b"], objective, groups=["x", "y"], warm_start=3)
    rng = np.random.default_rng(0)
    for _ in range(30):
        [ticket] = sel.ask()
        prompt = np.eye(2)["xy".index(str(ticket.group))]
        modes = 3 if ticket.arm == "a" else 1
        sel.tell(ticket, np.concatenate([prompt, np.eye(4)[rng.integers(modes)]]))
        if sel.is_warm:
            again = gx.Selector.from_state_dict(sel.state_dict())
            assert again.weights_by_group == sel.weights_by_group
    assert isinstance(sel.score, dict)
    assert sel.score["vendi"].details["prompts"] == pytest.approx(2, rel=0.05)
    assert sel.score["vendi"].details["conditional"] <= 4
    assert min(sum(row.values()) for row in sel.weights_by_group.values()) == pytest.approx(1)
    assert sel.state_dict()["pooling"] == 0


def test_invalid_pairs_are_refused() -> None:
    with pytest.raises(gx.InputError, match="both None"):
        gx.Joint(3, prompt=None, output=None)
    with pytest.raises(gx.InputError, match="prompts is 0"):
        gx.Joint(0)
    with pytest.raises(gx.InputError, match="dimension 3, but that of the prompt alone has 3"):
        gx.score({"a": np.ones((4, 3))}, gx.Vendi(kernel=gx.Joint(3)))
