"""What genmix check says about cost and time before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genmix.cli import app
from genmix.generators.base import Generator, Outcomes
from genmix.runs.check import check_study
from genmix.runs.spending.estimate import estimate
from genmix.study.study import study_from

ARMS = """\
def make(seeds, cost=None):
    return [{"vector": [1.0, seed % 7, seed % 3], "cost": cost} for seed in seeds]
"""


def write(folder: Path, budget: str, prices: tuple[float | None, float | None]) -> Path:
    (folder / "arms.py").write_text(ARMS)
    shown = [f", price: {p}" if p is not None else "" for p in prices]
    (folder / "study.yaml").write_text(
        "arms:\n"
        f"  big: {{kind: callable, function: 'arms:make'{shown[0]}}}\n"
        f"  small: {{kind: callable, function: 'arms:make'{shown[1]}}}\n"
        f"objective: vendi\nbudget: {budget}\n"
    )
    return folder / "study.yaml"


@pytest.mark.parametrize(
    ("budget", "prices", "expected"),
    [
        (
            "{samples: 300, cost: 0.05}",
            (0.01, 0.0002),
            [
                "300 samples cost 0.06 (all from small) to 3 (all from big); 1.53 in equal shares.",
                "The time is unknown without a sample from every arm.",
                "300 samples cost at least 0.06; the budget is 0.05: expect about 250, all from the "
                "cheapest arm.",
            ],
        ),
        (
            "{samples: 300, cost: 0.1}",
            (0.01, 0.0002),
            [
                "300 samples cost 0.06 (all from small) to 3 (all from big); 1.53 in equal shares.",
                "The time is unknown without a sample from every arm.",
                "The warm start is shortened to 4 samples per arm, because the cost budget does not "
                "cover more.",
            ],
        ),
        (
            "{samples: 300, cost: 0.06}",
            (0.01, 0.0002),
            [
                "300 samples cost 0.06 (all from small) to 3 (all from big); 1.53 in equal shares.",
                "The time is unknown without a sample from every arm.",
                "The arm 'big' will not be used unless samples cost less than their upper bound, because the "
                "cost budget does not cover its warm start; "
                "raise budget.cost or lower budget.samples.",
            ],
        ),
        (
            "{cost: 5}",
            (0.5, 0.01),
            [
                "The cost budget of 5 covers 10 (all from big) to 500 (all from small) samples; 19 in "
                "equal shares.",
                "The time is unknown without a sample from every arm.",
                "The warm start is shortened to 9 samples per arm, because the cost budget does not "
                "cover more.",
            ],
        ),
        (
            "{samples: 300}",
            (0.01, 0.01),
            ["300 samples cost 3.", "The time is unknown without a sample from every arm."],
        ),
        (
            "{samples: 300}",
            (0.01, None),
            [
                "The cost is unknown, because the arm 'small' has no price.",
                "The time is unknown without a sample from every arm.",
            ],
        ),
    ],
)
def test_the_estimate_without_samples(
    tmp_path: Path, budget: str, prices: tuple[float | None, float | None], expected: list[str]
) -> None:
    path = write(tmp_path, budget, prices)
    result = CliRunner().invoke(app, ["check", str(path), "--no-draw"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[-len(expected) - 1 : -1] == expected
    found = json.loads(CliRunner().invoke(app, ["check", str(path), "--no-draw", "--json"]).stdout)
    assert found["estimate"]["warnings"] == expected[len(expected[:2]) :]


def test_the_estimate_uses_the_samples_that_were_drawn(tmp_path: Path) -> None:
    report = check_study(write(tmp_path, "{samples: 100, cost: 100}", (0.5, 0.1)))
    assert report.estimate is not None
    assert report.estimate.costs == {"big": 0.5, "small": 0.1}
    assert report.estimate.seconds is not None
    assert report.estimate.lines[1].startswith(
        "Generating the samples in equal shares takes about "
    )


class Endpoint(Generator):
    """An arm of which only the largest cost is known."""

    async def generate(self, requests: Any) -> Outcomes:
        raise NotImplementedError
        yield

    def most_cost(self) -> float:
        return 0.01


def endpoints(in_flight: int) -> Any:
    arm = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "prompt": "x"}
    more = {"max_tokens": 100, "price": {"input": 1.0, "output": 1.0}}
    arms = {"slow": arm | more | {"concurrency": 1}, "fast": arm | more | {"concurrency": 4}}
    plain = {
        "arms": arms,
        "encoder": {"kind": "callable", "function": "arms:embed"},
        "objective": "vendi",
        "budget": {"samples": 100, "cost": 0.5},
        "in_flight": in_flight,
    }
    return study_from(plain)


def test_an_upper_bound_is_not_called_a_cost() -> None:
    arms = {"slow": Endpoint(), "fast": Endpoint()}
    before = estimate(endpoints(4), arms)  # what genmix run says
    bound = (
        "The budget of 0.5 guarantees only 50 of the 100 samples, because a sample from the cheapest arm "
        "can cost up to 0.01. Most cost less; for a guarantee, lower max_tokens."
    )
    assert before.warnings == [bound]
    assert before.lines[0] == "100 samples cost up to 1."
    fits = estimate(endpoints(4), arms, {"slow": 0.002, "fast": 0.001})  # what genmix check says
    assert fits.warnings == [
        bound,
        "At the costs of the samples that were drawn, all 100 samples fit, but this is not guaranteed.",
    ]
    assert fits.lines[0].startswith("100 samples cost 0.1 (all from fast) to 0.2 (all from slow)")
    short = estimate(endpoints(4), arms, {"slow": 0.009, "fast": 0.008})
    assert short.warnings == [
        bound,
        "At the costs of the samples that were drawn, expect about 62, all from the cheapest arm.",
    ]


def test_the_last_sample_starts_only_if_its_bound_is_left() -> None:
    arms = {"slow": Endpoint(), "fast": Endpoint()}
    short = estimate(
        endpoints(4), arms, {"slow": 0.009, "fast": 0.005}
    )  # 100 cost exactly the budget
    assert short.warnings[-1] == (
        "At the costs of the samples that were drawn, expect about 98, all from the cheapest arm."
    )  # the run must pay one sample of the slow arm to learn that the other one is cheaper
    fits = estimate(endpoints(4), arms, {"slow": 0.009, "fast": 0.0049})
    assert fits.warnings[-1].startswith(
        "At the costs of the samples that were drawn, all 100 samples"
    )


@pytest.mark.parametrize(
    ("in_flight", "expected"),
    [(1, 50 * 2.0 + 50 * 1.0), (2, 50 * 2.0), (8, 50 * 2.0)],
)
def test_the_time_is_limited_by_what_runs_at_once(in_flight: int, expected: float) -> None:
    arms = {"slow": Endpoint(), "fast": Endpoint()}
    found = estimate(endpoints(in_flight), arms, seconds={"slow": 2.0, "fast": 1.0})
    assert found.seconds == pytest.approx(expected)
