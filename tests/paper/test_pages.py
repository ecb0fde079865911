"""The pages of the paper's items: what they say about policies, settings and choices."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from genmix.comparison.comparison import Comparison
from genmix.comparison.plan import Options
from genmix.paper import ITEMS, Settings, comparisons, fidelity, markdown
from genmix.paper.comparisons import all_worlds, gain_table, paired_gain
from tests.support.paper_worlds import write_worlds
from tests.support.small_comparisons import OBJECTIVES, small


def test_tables_say_what_must_be_said_of_a_policy() -> None:
    policies = ["mixture-greedy", "mixture-ucb", "frechet-ucb"]
    distance = small(policies=policies, objective=OBJECTIVES["FD"], repeats=2, budget=40)
    assert distance.policies == ("Mixture-Greedy", "Mixture-UCB", "FD-UCB")
    for page in (str(distance), markdown.outcome_table(distance) + markdown.tests_table(distance)):
        assert "Mixture-Greedy − Mixture-UCB (extended)" in page
        assert "Mixture-Greedy − FD-UCB (as published)" in page
        assert page.count("(extended)") == page.count("(as published)") == 2
    assert "FD-UCB (as published)" in gain_table(
        [paired_gain(distance, "FD", *policies_of(distance))]
    )
    assert "extended" not in str(small(policies=policies[:2], budget=40))


def policies_of(found: Comparison) -> tuple[str, str]:
    first, *_, last = found.policies
    return first, last


def test_a_panel_says_how_often_it_solves_and_how_it_draws() -> None:
    given = {"policies": ["mixture-greedy"], "repeats": 1, "budget": 30}
    usual, often = small(**given), small(resolve_growth=0.0, draw="tracking", **given)
    assert "warm start 4, re-solved at 1% growth; RKE(" in markdown.settings_line(usual)
    assert (
        "warm start 4, re-solved in every round, drawn by tracking; RKE("
        in markdown.settings_line(often)
    )


def test_items_say_where_they_depart_from_the_paper() -> None:
    solved = {name for name, item in ITEMS.items() if "olves in every round" in item.choice}
    figures = {"fig-rke-kid", "fig-fd", "fig-delta", "fig-dogs", "fig-birds", "fig-city"}
    ablations = {"ablation-rff", "ablation-bandwidth", "ablation-encoder"}
    assert solved == {*figures, *ablations, "fidelity", "greedy-ucb"}
    cosine = {name for name, item in ITEMS.items() if "no kernel for Vendi" in item.choice}
    assert cosine == {"fig-dogs", "fig-birds", "fig-city", "fidelity", "greedy-ucb"}


def test_the_item_about_cost_names_the_worlds_that_it_is_made_on() -> None:
    priced = [world for world in all_worlds(Settings()) if world.costs is not None]
    differ = [world.name for world in priced if len(set((world.costs or {}).values())) > 1]
    assert ITEMS["beyond-cost"].stands_in.startswith(f"{', '.join(differ)} (")


def test_the_page_about_fidelity_has_every_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "QUICK_ROUNDS", 24)
    monkeypatch.setattr(comparisons, "QUICK_REPEATS", 2)
    monkeypatch.setattr(comparisons, "Options", partial(Options, points=6))
    monkeypatch.setattr(fidelity, "QUICK_WEIGHTS", (1.0,))
    write_worlds(tmp_path / "worlds")
    settings = Settings(quick=True, worlds=tmp_path / "worlds", out=tmp_path)
    made = ITEMS["fidelity"].make(settings)
    lines = [line.split("|") for line in made.text.splitlines() if "+ w" in line]
    told = [[cell.strip() for cell in line[2:4]] for line in lines]
    assert [policy for _, policy in told] == [row["policy_text"] for row in made.tables["sweep"]]
    assert {policy for _, policy in told} == {
        "Mixture-Greedy",
        "Mixture-UCB",
        "Mixture-UCB (extended)",
        "Mixture oracle",
    }
