"""The run loop: budgets are exact, failures are survived, nothing paid for is lost."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.data.samples import Request, Sample
from genmix.engines.embedding import EmbeddingQueue
from genmix.generators.base import GenerationError, Outcome
from genmix.journal.journal import Journal
from genmix.runs.arm import ArmState
from genmix.runs.loop import INTERRUPTED, Loop
from genmix.runs.retries import Retries
from genmix.runs.session import Session
from genmix.runs.spending.budget import Clock, Limits, Money

Recipe = Callable[[Request], Outcome]


@dataclass
class Settings:
    attempts: int = 3
    first_wait: float = 0.001
    longest_wait: float = 0.01
    suspend_after: int = 2
    probe_after: float = 0.02
    timeout: float = 5.0


@dataclass
class Maker:
    """A generator that does what a function says, after a pause that depends on the request."""

    recipe: Recipe
    pause: float = 0.0
    most: float | None = 0.0
    count: int | None = None
    running: int = 0
    peak: int = 0
    sizes: list[int] = field(default_factory=list)

    async def generate(self, requests: Sequence[Request]) -> AsyncIterator[tuple[int, Outcome]]:
        self.running += 1
        self.peak = max(self.peak, self.running)
        self.sizes.append(len(requests))
        try:
            await asyncio.sleep(self.pause * (requests[0].seed % 5))
            for position, request in enumerate(requests):
                yield position, self.recipe(request)
        finally:
            self.running -= 1

    async def ping(self) -> None:
        pass

    def most_cost(self) -> float | None:
        return self.most

    def available(self) -> int | None:
        return self.count

    async def close(self) -> None:
        pass


class Letters:
    """An encoder: counts of letters."""

    name, dimension = "letters", 8

    def encode(self, samples: Sequence[Sample]) -> Any:
        return np.array([[1.0 + str(s.text).count(c) for c in "abcdefgh"] for s in samples])

    def close(self) -> None:
        pass


def text(letters: str, **more: Any) -> Recipe:
    def recipe(request: Request) -> Sample:
        rng = np.random.default_rng(request.seed)
        return Sample(text="".join(rng.choice(list(letters), 6)), **more)

    return recipe


def broken(*_: Any) -> GenerationError:
    return GenerationError("it is broken.")


class Stage:
    """A loop over makers in a folder; ``go`` plays it in a session of its own."""

    def __init__(self, folder: Path, makers: dict[str, Maker], **options: Any) -> None:
        self.folder, self.makers = folder, makers
        self.samples = options.pop("samples", 60)
        self.in_flight = options.pop("in_flight", 1)
        self.cost = options.pop("cost", None)
        self.time = options.pop("time", None)
        self.encoder = options.pop("encoder", Letters())
        self.concurrency = options.pop("concurrency", 1)
        self.batch = options.pop("batch", 1)
        self.retries = Settings(**options.pop("retries", {}))
        self.give_up = options.pop("give_up", 5.0)
        self.objective = options.pop("objective", gx.Vendi())
        self.after: Callable[[Loop], None] = options.pop("after", lambda loop: None)
        self.policy: gx.Policy = gx.MixtureGreedy()
        self.seed = 3
        assert not options

    def go(self) -> Loop:
        return asyncio.run(self.play())

    async def play(self) -> Loop:
        new = not (self.folder / "journal.sqlite").exists()
        make = Journal.create if new else lambda folder, meta: Journal.open(folder)
        journal = make(self.folder, {"run": "r"})
        policy, seed = self.policy, self.seed
        selector = gx.Selector(list(self.makers), self.objective, policy, warm_start=4, seed=seed)
        session = Session(selector, journal, 11)
        session.restore()
        arms = {
            label: ArmState(label, maker, self.concurrency, self.batch, Retries(self.retries))
            for label, maker in self.makers.items()
        }
        self.loop = loop = Loop(
            session,
            arms,
            EmbeddingQueue(self.encoder, 0.001),
            Money.of(self.cost, journal.costs(), journal.largest_costs()),
            Clock(self.time),
            Limits(self.samples, self.in_flight, self.give_up, 4),
        )
        loop.report = lambda: self.after(loop)
        loop.restore()
        await loop.run()
        return loop

    def told(self) -> list[tuple[str, str]]:
        rows = self.loop.session.journal.told_rows()
        return [(row["arm"], row["text"]) for row in rows]


def makers(**recipes: Recipe) -> dict[str, Maker]:
    return {label: Maker(recipe) for label, recipe in recipes.items()}


@pytest.mark.parametrize(("in_flight", "concurrency", "batch"), [(1, 1, 1), (7, 2, 1), (16, 3, 4)])
def test_the_budget_of_samples_is_exact(
    tmp_path: Path, in_flight: int, concurrency: int, batch: int
) -> None:
    arms = {
        label: Maker(text(letters), pause=0.0005)
        for label, letters in (("a", "ab"), ("b", "cdef"), ("c", "gh"))
    }
    stage = Stage(
        tmp_path, arms, in_flight=in_flight, concurrency=concurrency, batch=batch, samples=83
    )
    loop = stage.go()
    assert loop.reason == "the budget of 83 samples is spent"
    assert loop.trouble is None
    assert len(stage.told()) == 83 == sum(loop.session.selector.counts.values())
    assert not loop.session.selector.in_flight
    assert all(maker.peak <= concurrency for maker in arms.values())
    assert all(max(maker.sizes) <= batch for maker in arms.values())


def flaky(letters: str, share: float, cost: float) -> Recipe:
    """Fails, at times after being paid."""
    rng = np.random.default_rng(5)
    make = text(letters, cost=cost)

    def recipe(request: Request) -> Outcome:
        luck = rng.random()
        if luck < share / 2:
            return GenerationError("no luck.")
        if luck < share:
            return Sample(text="  ", cost=cost / 2)
        return make(request)

    return recipe


def test_failures_change_neither_the_count_nor_the_sum(tmp_path: Path) -> None:
    arms = makers(a=flaky("ab", 0.3, 0.07), b=flaky("cdef", 0.3, 0.11))
    stage = Stage(tmp_path, arms, in_flight=6, concurrency=3, retries={"attempts": 6})
    loop = stage.go()
    assert len(stage.told()) == 60
    journal = loop.session.journal
    counts = loop.session.selector.counts
    wasted = Counter(f["arm"] for f in journal.failures() if f["cost"])
    expected = sum(
        counts[arm] * cost + wasted[arm] * cost / 2 for arm, cost in (("a", 0.07), ("b", 0.11))
    )
    assert wasted
    assert math.fsum(journal.costs()) == pytest.approx(expected, abs=1e-9)
    assert loop.money.paid == pytest.approx(expected, abs=1e-9)
    assert not loop.money.reserved


@pytest.mark.parametrize("most", [0.12, None])
def test_cost_never_passes_the_budget(tmp_path: Path, most: float | None) -> None:
    rng = np.random.default_rng(0)

    def recipe(request: Request) -> Sample:
        cost = 0.12 if most is None else float(rng.uniform(0.05, 0.12))
        return Sample(text="abc"[request.seed % 3] * 3, cost=cost)

    arms = {label: Maker(recipe, pause=0.001, most=most) for label in ("a", "b")}
    stage = Stage(tmp_path, arms, samples=None, cost=2.0, in_flight=8, concurrency=4)
    loop = stage.go()
    assert 2.0 - 0.12 < loop.money.paid <= 2.0 + 1e-9
    assert "cost budget of 2" in str(loop.reason)
    assert len(loop.session.selector.in_flight) <= 1  # the ticket that the budget did not cover
    assert math.fsum(loop.session.journal.costs()) == pytest.approx(loop.money.paid)


def test_a_spent_time_budget_starts_nothing_and_keeps_samples_in_flight(tmp_path: Path) -> None:
    arms = makers(a=text("ab"), b=text("cd"))
    stage = Stage(tmp_path, arms, time=0.05, samples=None, in_flight=2)
    arms["a"].pause = arms["b"].pause = 0.003
    loop = stage.go()
    assert loop.reason == "the time budget of 0.05 seconds is spent"
    tickets = loop.session.journal._rows("SELECT id, outcome FROM tickets")
    sampled = {row["ticket"] for row in loop.session.journal._rows("SELECT ticket FROM samples")}
    assert {row["id"] for row in tickets if row["outcome"] == "told"} == sampled
    # a ticket that was still waiting for its turn stays open, so that the run can be extended
    assert {row["outcome"] for row in tickets if row["id"] not in sampled} <= {None, "withdrawn"}
    assert len(stage.told()) > 0


def test_an_arm_that_dies_is_suspended_and_the_others_continue(tmp_path: Path) -> None:
    arms = makers(a=text("ab"), b=broken, c=text("cdef"))
    stage = Stage(tmp_path, arms, retries={"probe_after": 100.0})
    loop = stage.go()
    assert len(stage.told()) == 60
    assert loop.session.selector.arms == ("a", "c")
    (event,) = [e for e in loop.session.journal.events() if e["kind"] == "retire"]
    assert event["arm"] == "b"
    assert event["detail"] == {"why": "it is broken.", "pause": 100.0}
    assert len(loop.session.journal.failures()) == 2 * 3  # two tickets of three attempts


def test_an_arm_that_recovers_is_found_by_a_probe(tmp_path: Path) -> None:
    calls = Counter[str]()

    def recovers(request: Request) -> Outcome:
        calls["b"] += 1
        return broken() if calls["b"] <= 8 else text("ghc")(request)

    arms = {"a": Maker(text("ab"), pause=0.002), "b": Maker(recovers)}
    loop = Stage(tmp_path, arms, samples=120).go()
    kinds = [e["kind"] for e in loop.session.journal.events()]
    assert kinds == ["retire", "suspend", "suspend", "revive"]  # two probes in vain, one that came
    assert loop.session.selector.counts["b"] >= 4
    assert loop.session.selector.arms == ("a", "b")


def test_when_retrying_cannot_help_the_run_stops_and_keeps_its_samples(tmp_path: Path) -> None:
    def wrong_key(_: Request) -> GenerationError:
        return GenerationError("the key is refused.", retryable=False)

    loop = Stage(tmp_path, makers(a=wrong_key, b=wrong_key)).go()
    assert loop.trouble == "every arm failed with an error that retrying cannot fix"
    assert len(loop.session.journal.failures()) == 2


def test_when_all_arms_are_out_for_long_the_run_stops(tmp_path: Path) -> None:
    loop = Stage(tmp_path, makers(a=broken, b=broken), give_up=0.05).go()
    assert loop.trouble == "no arm has returned a sample for 0.05 seconds"


def test_a_call_that_hangs_is_given_up(tmp_path: Path) -> None:
    arms = makers(a=text("ab"), b=text("cd"))
    arms["b"].pause = 1000.0
    stage = Stage(tmp_path, arms, retries={"timeout": 0.02, "probe_after": 100.0})
    loop = stage.go()
    assert len(stage.told()) == 60
    assert loop.session.journal.failures()[0]["message"] == "no answer within 0.02 seconds."


def test_a_retry_after_something_worthless_has_another_seed(tmp_path: Path) -> None:
    seen: dict[int, list[int]] = {}

    def picky(request: Request) -> Outcome:
        tries = seen.setdefault(request.index, [])
        tries.append(request.seed)
        return Sample(text="") if len(tries) < 3 else text("abc")(request)

    def failing(request: Request) -> Outcome:
        tries = seen.setdefault(-1 - request.index, [])
        tries.append(request.seed)
        return broken() if len(tries) < 2 else text("def")(request)

    Stage(tmp_path, makers(a=picky, b=failing), samples=20).go()
    for index, seeds in seen.items():
        assert len(set(seeds)) == (len(seeds) if index >= 0 else 1)


class Picky(Letters):
    """Refuses some samples, or everything."""

    def __init__(self, refuses: str) -> None:
        self.refuses = refuses

    def encode(self, samples: Sequence[Sample]) -> Any:
        if any(self.refuses in str(sample.text) for sample in samples):
            raise ValueError("cannot embed that")
        return super().encode(samples)


def test_a_sample_that_cannot_be_embedded_is_kept_and_not_counted(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path, makers(a=text("abc"), b=text("defgh")), encoder=Picky("aa"), in_flight=9, batch=4
    )
    loop = stage.go()
    assert len(stage.told()) == 60
    assert not any("aa" in told for _, told in stage.told())
    kept = loop.session.journal._rows(
        "SELECT text FROM samples JOIN tickets ON id = ticket WHERE outcome = 'failed'"
    )
    assert kept
    assert all("aa" in row["text"] for row in kept)


def test_a_broken_encoder_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    arms = makers(a=text("abc"), b=text("defgh"))
    stage = Stage(tmp_path, arms, encoder=Picky(""), in_flight=9)
    loop = stage.go()
    assert loop.trouble == "no sample could be embedded and told (cannot embed that)"
    made = loop.session.journal._rows("SELECT ticket, text FROM samples")
    assert len(made) >= 3
    calls = sum(len(maker.sizes) for maker in arms.values())
    stage.encoder = Letters()
    loop = stage.go()
    assert len(stage.told()) == 60
    assert {row["text"] for row in made} <= {told for _, told in stage.told()}
    assert sum(len(maker.sizes) for maker in arms.values()) == calls + 60 - len(made)


def test_an_embedding_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    class Sick(Letters):
        def encode(self, samples: Sequence[Sample]) -> Any:
            rows = super().encode(samples)
            rows[["aa" in str(s.text) for s in samples]] = np.nan
            return rows

    stage = Stage(tmp_path, makers(a=text("abc"), b=text("defgh")), encoder=Sick())
    loop = stage.go()
    assert len(stage.told()) == 60
    assert any(
        "NaN" in f["message"] or "finite" in f["message"] for f in loop.session.journal.failures()
    )


def test_recorded_arms_run_out(tmp_path: Path) -> None:
    arms = makers(a=text("ab"), b=text("cdef"))
    arms["a"].count, arms["b"].count = 9, 21
    stage = Stage(tmp_path, arms, samples=100, in_flight=4)
    loop = stage.go()
    assert loop.reason == "every arm has run out of samples"
    assert loop.session.selector.counts == {"a": 9, "b": 21}
    assert len(stage.told()) == 30


def test_stopping_tells_samples_in_flight_and_resuming_continues(tmp_path: Path) -> None:
    arms = makers(a=text("ab"), b=text("cdef"))
    for maker in arms.values():
        maker.pause = 0.001

    def after(loop: Loop) -> None:
        if sum(loop.session.selector.counts.values()) >= 20:
            loop.stop(INTERRUPTED)

    stage = Stage(tmp_path, arms, in_flight=5, concurrency=2, after=after)
    loop = stage.go()
    assert loop.reason == INTERRUPTED
    assert 20 <= len(stage.told()) <= 30
    assert not any(arm.calls for arm in loop.arms.values())
    stage.after = lambda loop: None
    stage.go()
    assert len(stage.told()) == 60
    assert len({row["ticket"] for row in stage.loop.session.journal.told_rows()}) == 60


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.drill) for seed in range(1, 4))]
)
def test_a_run_that_is_cut_off_anywhere_ends_as_one_that_is_not(tmp_path: Path, seed: int) -> None:
    def fresh(name: str) -> Stage:
        folder = tmp_path / name
        folder.mkdir()
        return Stage(folder, makers(a=text("ab"), b=text("cdef"), c=text("gh")), samples=70)

    whole = fresh("whole")
    whole.go()
    rng = np.random.default_rng(seed)
    cut = fresh("cut")

    async def play_a_while() -> bool:
        task = asyncio.ensure_future(cut.play())
        for _ in range(int(rng.integers(1, 60))):
            await asyncio.sleep(0.0005)  # the selector is told in a thread
            if task.done():
                break
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(cut.told()) < 70

    for _ in range(50):
        if not asyncio.run(play_a_while()):
            break
    cut.go()
    assert cut.told() == whole.told()
    one, other = whole.loop.session.selector, cut.loop.session.selector
    assert one.weights == other.weights
    assert one.counts == other.counts


def test_a_sample_of_the_wrong_form_is_no_sample(tmp_path: Path) -> None:
    def odd(request: Request) -> Sample:
        return Sample(text="abc", vector=np.ones(8)) if request.index % 2 else Sample()

    stage = Stage(tmp_path, makers(a=text("ab"), b=odd), retries={"probe_after": 100.0})
    loop = stage.go()
    assert len(stage.told()) == 60
    assert "exactly one of text, image and vector" in loop.session.journal.failures()[0]["message"]


def test_vectors_need_no_encoder_and_texts_do(tmp_path: Path) -> None:
    def vector(request: Request) -> Sample:
        return Sample(vector=np.random.default_rng(request.seed).normal(size=5))

    stage = Stage(tmp_path, makers(a=vector, b=vector), encoder=None)
    assert stage.go().trouble is None
    assert len(list(stage.loop.session.journal.told_rows())) == 60
    other = tmp_path / "texts"
    other.mkdir()
    loop = Stage(other, makers(a=text("ab")), encoder=None).go()
    assert loop.trouble == (
        "an arm returned text or an image, but the study has no encoder; add one"
    )


def test_a_probe_does_not_block_the_other_arms(tmp_path: Path) -> None:
    """It hangs until the time-out; the others fill the budget meanwhile."""
    arms = makers(a=text("ab"), b=broken, c=text("cdef"))
    calls = Counter[str]()

    async def hang(requests: Sequence[Request]) -> AsyncIterator[tuple[int, Outcome]]:
        calls["b"] += 1
        if calls["b"] > 1:
            await asyncio.sleep(1000)
        yield 0, broken()

    arms["b"].generate = hang  # type: ignore[method-assign]
    retries = {"timeout": 30.0, "attempts": 1, "suspend_after": 1, "probe_after": 0.001}
    seen: list[tuple[int, int]] = []

    def after(loop: Loop) -> None:
        seen.append((sum(loop.session.selector.counts.values()), calls["b"]))
        if seen[-1][0] == 59:
            loop.stop(INTERRUPTED)

    stage = Stage(tmp_path, arms, in_flight=3, concurrency=3, retries=retries, after=after)
    arms["a"].pause = arms["c"].pause = 0.001

    async def play() -> None:
        task = asyncio.ensure_future(stage.play())
        while not (task.done() or (seen and seen[-1][0] >= 59)):
            await asyncio.sleep(0.01)
        done, _ = await asyncio.wait([task], timeout=0.2)
        assert not done  # because the trial still hangs when all else is done
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(play(), 60))
    assert max(told for told, _ in seen) >= 55
    assert calls["b"] == 2


def test_a_held_ticket_ends_the_run_as_soon_as_nothing_can_free_money(tmp_path: Path) -> None:
    arms = {"a": Maker(text("ab", cost=1.0), most=1.0)}
    loop = asyncio.run(asyncio.wait_for(Stage(tmp_path, arms, samples=None, cost=20.5).play(), 20))
    assert loop.money.paid == 20.0


def test_an_arm_whose_samples_the_encoder_refuses_is_suspended(tmp_path: Path) -> None:
    arms = makers(a=text("ab", cost=1.0), b=text("h", cost=1.0), c=text("cdef", cost=1.0))
    stage = Stage(tmp_path, arms, encoder=Picky("hhh"), retries={"probe_after": 100.0})
    loop = stage.go()
    assert loop.session.selector.arms == ("a", "c")
    assert loop.money.paid == 60 + 2
    assert loop.session.selector.score is not None


def test_an_arm_that_is_used_up_waits_for_one_that_is_suspended(tmp_path: Path) -> None:
    calls = Counter[str]()

    def recovers(request: Request) -> Outcome:
        calls["b"] += 1
        return broken() if calls["b"] <= 6 else text("cdef")(request)

    arms = makers(a=text("ab"), b=recovers)
    arms["a"].count = 12
    stage = Stage(tmp_path, arms, samples=60)
    assert stage.go().reason == "the budget of 60 samples is spent"
    assert stage.loop.session.selector.counts == {"a": 12, "b": 48}


def test_an_arm_that_comes_back_relieves_a_last_one_that_is_out(tmp_path: Path) -> None:
    calls = Counter[str]()

    def dies(request: Request) -> Outcome:
        calls["a"] += 1
        return text("ab")(request) if calls["a"] <= 10 else broken()

    def recovers(request: Request) -> Outcome:
        calls["b"] += 1
        return broken() if calls["b"] <= 10 else text("cdef")(request)

    loop = Stage(tmp_path, makers(a=dies, b=recovers)).go()
    assert loop.reason == "the budget of 60 samples is spent"
    assert loop.session.selector.counts["b"] >= 49


def test_a_cancellation_inside_a_generator_is_a_failure_like_others(tmp_path: Path) -> None:
    arms = makers(a=text("ab"), b=text("cd"))
    plain, calls = arms["a"].generate, Counter[str]()

    async def odd(requests: Sequence[Request]) -> AsyncIterator[tuple[int, Outcome]]:
        calls["a"] += 1
        if calls["a"] == 5:
            raise asyncio.CancelledError
        if calls["a"] == 6:
            raise SystemExit(3)
        async for outcome in plain(requests):
            yield outcome

    arms["a"].generate = odd  # type: ignore[method-assign]
    stage = Stage(tmp_path, arms)
    asyncio.run(asyncio.wait_for(stage.play(), 20))
    assert len(stage.told()) == 60
    messages = [f["message"] for f in stage.loop.session.journal.failures()]
    assert messages == ["the generator canceled its own call.", "SystemExit: 3"]


def test_a_long_retry_after_suspends_the_arm_instead_of_the_run(tmp_path: Path) -> None:
    def later(_: Request) -> GenerationError:
        return GenerationError("come back tomorrow.", retry_after=80000.0)

    stage = Stage(tmp_path, makers(a=text("ab"), b=later))
    loop = asyncio.run(asyncio.wait_for(stage.play(), 20))
    assert len(stage.told()) == 60
    (event,) = [e for e in loop.session.journal.events() if e["kind"] == "retire"]
    assert event["detail"]["pause"] == 80000.0


def test_a_policy_that_cannot_do_without_an_arm_stops_the_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path, makers(a=broken, b=text("cd")))
    stage.policy = gx.OneArmOracle("a")
    loop = stage.go()
    assert loop.trouble is not None
    assert "arm 'a' is unavailable (it is broken.)" in loop.trouble


def test_a_held_ticket_survives_the_retries_of_others(tmp_path: Path) -> None:
    """Retries set money aside too; the ticket that waits for money must still be made."""
    tries = Counter[int]()

    def costly(request: Request) -> Outcome:
        tries[request.index] += 1
        if tries[request.index] < 3:
            return GenerationError("no luck.", cost=0.01)
        return text("abcdef")(request)

    arms = {label: Maker(costly, pause=0.001, most=1.0) for label in ("a", "b")}
    stage = Stage(tmp_path, arms, cost=4.5, in_flight=8, concurrency=8, retries={"attempts": 9})
    loop = asyncio.run(asyncio.wait_for(stage.play(), 30))
    assert not loop.session.selector.in_flight
    assert len(stage.told()) == 60
    assert loop.reason == "the budget of 60 samples is spent"


def test_two_dimensions_in_the_first_batch_cost_one_sample_and_not_the_run(tmp_path: Path) -> None:
    def vector(request: Request) -> Sample:
        size = 7 if request.index == 1 else 5
        return Sample(vector=1 + np.random.default_rng(request.seed).normal(size=size))

    stage = Stage(tmp_path, makers(a=vector), encoder=None, in_flight=8, batch=8)
    loop = stage.go()
    assert loop.reason == "the budget of 60 samples is spent"
    (failure,) = loop.session.journal.failures()
    assert "dimension 7" in failure["message"]
    assert "5" in failure["message"]


def suspended_with_open_tickets(folder: Path, makers: dict[str, Maker], told: int) -> None:
    """A journal that ends after arm b was suspended while two tickets of it were open."""
    journal = Journal.create(folder, {"run": "r"})
    selector = gx.Selector(list(makers), gx.Vendi(), gx.MixtureGreedy(), warm_start=4, seed=3)
    session, left = Session(selector, journal, 11), []
    while len(left) < 2 or sum(selector.counts.values()) < told:
        entry = session.ask()
        session.flush()
        if entry.arm == "b" and len(left) < 2:
            left.append(entry)
            continue
        sample = Sample(text="abcdef"[: 1 + entry.id % 6], cost=1.0)
        journal.made(entry.id, sample, None, 0.0)
        asyncio.run(session.tell([(entry, sample, Letters().encode([sample])[0])]))
    session.retire("b", why="503", pause=60.0)
    journal.close()


@pytest.mark.parametrize("limit", [{"samples": 14}, {"samples": None, "cost": 14.0}])
@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_suspended_arm_continues_with_its_open_tickets(
    tmp_path: Path, limit: dict[str, Any], is_fixed: bool
) -> None:
    """They take the last of the budget, so that there is no room for a probe beside them."""
    recipe = text("ef", cost=1.0) if is_fixed else broken
    arms = {"a": Maker(text("ab", cost=1.0), most=1.0), "b": Maker(recipe, most=1.0)}
    suspended_with_open_tickets(tmp_path, arms, told=12)
    stage = Stage(tmp_path, arms, **limit)
    loop = asyncio.run(asyncio.wait_for(stage.play(), 20))
    assert len(stage.told()) == 14
    assert loop.trouble is None
    assert len(loop.session.selector.in_flight) <= 1  # a ticket that the budget did not cover
    assert ("b" in loop.session.selector.arms) == is_fixed


def test_a_suspended_arm_lets_the_ticket_go_that_waits_for_money(tmp_path: Path) -> None:
    """It would set the money aside once there is some, and never be made."""

    def wrong_key(_: Request) -> GenerationError:
        return GenerationError("the key is refused.", retryable=False)

    held: list[str] = []

    def after(loop: Loop) -> None:
        held.extend([] if loop._held is None else [loop._held.arm])

    arms = {
        "a": Maker(text("ab", cost=1.0), most=1.0, pause=0.01),
        "b": Maker(wrong_key, most=1.0),
    }
    retries = {"probe_after": 100.0}
    limits = {"samples": None, "cost": 3.0, "in_flight": 4, "concurrency": 4}
    stage = Stage(tmp_path, arms, retries=retries, after=after, **limits)
    loop = asyncio.run(asyncio.wait_for(stage.play(), 20))
    assert held[0] == "b"
    assert [arm for arm, _ in stage.told()] == ["a"] * 3
    assert loop.reason == "the cost budget of 3 does not cover another sample"


def test_refused_samples_and_tickets_never_begun_end_together(tmp_path: Path) -> None:
    """The time is over when the encoder refuses a sample of an arm for which more is waiting."""
    arms = makers(a=text("h"))

    async def slow(requests: Sequence[Request]) -> AsyncIterator[tuple[int, Outcome]]:
        await asyncio.sleep(0.06)
        for position, request in enumerate(requests):
            yield position, arms["a"].recipe(request)

    arms["a"].generate = slow  # type: ignore[method-assign]
    retries = {"suspend_after": 1}
    stage = Stage(tmp_path, arms, time=0.1, in_flight=3, encoder=Picky("h"), retries=retries)
    loop = stage.go()
    assert loop.reason == "the time budget of 0.1 seconds is spent"
    assert not loop.session.selector.in_flight


@pytest.mark.parametrize(
    ("odd", "give_up", "told", "trouble"),
    [(1, 5.0, 60, None), (1000, 0.1, 0, "no arm has returned a sample for 0.1 seconds")],
)
def test_a_probe_that_the_encoder_refuses_is_not_the_end(
    tmp_path: Path, odd: int, give_up: float, told: int, trouble: str | None
) -> None:
    """It is probed again until the run gives up: the arm is not exhausted."""
    calls = Counter[str]()
    arms = makers(a=text("ab"))

    async def recovers(requests: Sequence[Request]) -> AsyncIterator[tuple[int, Outcome]]:
        calls["a"] += 1
        if calls["a"] <= 6:
            yield 0, broken()
            return
        is_odd = calls["a"] <= 6 + odd
        await asyncio.sleep(0.12 if is_odd else 0)
        for position, request in enumerate(requests):
            yield position, text("h" if is_odd else "ab")(request)

    arms["a"].generate = recovers  # type: ignore[method-assign]
    stage = Stage(tmp_path, arms, encoder=Picky("h"), give_up=give_up)
    loop = asyncio.run(asyncio.wait_for(stage.play(), 20))
    assert len(stage.told()) == told
    assert loop.trouble == trouble
