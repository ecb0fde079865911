"""A selector that journals every step, so that another process can replay it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from genmix.core import state
from genmix.core.atomic import draft_of, make_folder
from genmix.core.threads import in_thread
from genmix.data.prompts import Prompt
from genmix.data.samples import Sample
from genmix.encoders.references import Note
from genmix.errors import GenmixError, StorageError
from genmix.journal.images import IMAGES, sample_of
from genmix.journal.journal import Journal
from genmix.journal.prompts import (
    PromptQueue,
    embeddings_of_prompts,
    prompt_of_ticket,
    was_attempted,
)
from genmix.journal.schema import Entry, JournalError, JournalStep
from genmix.runs.snapshot import SMALL_DIMENSION, SNAPSHOT, read_snapshot
from genmix.selector.selector import Selector
from genmix.selector.tickets import Ticket

SNAPSHOT_GROWTH = 0.5
"""The number of steps grows by this fraction between snapshots, so that their total cost stays linear."""


def seed_of(study_seed: int, arm: str, place: int) -> int:
    """Return the 31-bit seed for an arm's sample number ``place``."""
    text = f"{study_seed}\0{arm}\0{place}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 33


class Session:
    """Journals every change to a selector before the run acts on it."""

    def __init__(
        self,
        selector: Selector,
        journal: Journal,
        study_seed: int,
        note: Note = lambda line: None,
    ) -> None:
        self.selector, self.journal, self._seed = selector, journal, study_seed
        self._note = note
        self._step = -1
        self._saved_at = 0
        self._places: dict[str, int] = {}
        self._unwritten: list[Entry] = []
        self._among: list[str] | None = None
        """The arms to draw from; None for all."""
        self.prompts = PromptQueue.of(journal)
        """The prompts to answer; None if the study has none."""
        self._embeddings = embeddings_of_prompts(journal)
        """Embeddings of the prompts by their ids, if the objective or the policy uses them."""
        self.replan: Callable[[], None] = lambda: None
        """Called before every step that may re-solve the mixture."""
        self._libraries = ThreadpoolController()
        self._is_small = False

    @classmethod
    def at_end(
        cls,
        journal: Journal,
        study_seed: int,
        make: Callable[[], Selector],
        note: Note = lambda line: None,
    ) -> Session:
        """Restore the state at the end of a journal; call ``make`` only if no snapshot contains it."""
        try:
            saved = read_snapshot(journal)
        except StorageError:
            saved = None  # restore says why
        is_complete = saved is not None and saved.step == journal.last_step()
        session = cls(
            saved.selector if saved and is_complete else make(), journal, study_seed, note
        )
        session.restore()
        if saved is None:
            session.save_snapshot(at_once=True)
        return session

    @property
    def _folder(self) -> Path:
        return self.journal.path.parent

    @property
    def _snapshot(self) -> Path:
        return self._folder / SNAPSHOT

    # -- tickets ---------------------------------------------------------------------------------

    def ask(self, among: Sequence[str] | None = None) -> Entry | None:
        """Issue a ticket for one of these arms; ``flush`` or the next step journals it.

        None means that no prompt is waiting for an answer from these arms.
        """
        prompt, arms = self._next_prompt(self.selector.arms if among is None else among)
        if not arms:
            return None
        restricted = None if set(arms) >= set(self.selector.arms) else list(arms)
        if restricted != self._among:
            self.plan(arms=restricted)
        return self._entry(self._draw(prompt), prompt)

    def probe(self, arm: str) -> Entry | None:
        """Issue a ticket for a suspended arm; None if no prompt is waiting for an answer from it."""
        prompt, arms = self._next_prompt([arm])
        if not arms:
            return None
        return self._entry(self._draw(prompt, arm), prompt, probe=True)

    def _next_prompt(self, arms: Sequence[str]) -> tuple[Prompt | None, Sequence[str]]:
        if self.prompts is None:
            return None, arms
        return self.prompts.next(arms) or (None, ())

    def _draw(self, prompt: Prompt | None, arm: str | None = None) -> Ticket:
        """Ask the selector for a ticket, from this arm or from those to draw from."""
        group = None if prompt is None else prompt.group
        embedding = None if prompt is None else self._embeddings.get(prompt.id)
        with nullcontext() if embedding is None else self.threads():
            if arm is not None:
                return self.selector.ask_from(arm, group=group, prompt=embedding)
            return self.selector.ask(among=self._among, group=group, prompt=embedding)[0]

    def paired(self, entry: Entry, row: NDArray[Any]) -> NDArray[Any]:
        """Return what the objective compares: a sample's embedding, or the prompt's followed by it."""
        if not self.journal.prompt_columns or entry.prompt is None or row.ndim != 1:
            return row
        return np.concatenate([self._embeddings[entry.prompt.id], row])

    def _entry(self, ticket: Ticket, prompt: Prompt | None, probe: bool = False) -> Entry:
        place = self._places.get(ticket.arm, 0)
        seed = seed_of(self._seed, ticket.arm, place)
        numbers = (ticket.weight, ticket.propensity)
        entry = Entry(ticket.id, ticket.arm, place, seed, *numbers, probe, prompt)
        if self.prompts is not None and prompt is not None:
            self.prompts.take(prompt)
        self._unwritten.append(entry)
        self._places[ticket.arm] = place + 1
        return entry

    def issued(self, arm: str) -> int:
        """Return the number of tickets issued for an arm."""
        return self._places.get(arm, 0)

    def flush(self) -> None:
        """Journal the tickets issued since the last step; call this before generating their samples."""
        if self._unwritten:
            self.journal.asked(self._unwritten, self._step + 1)
            self._step += len(self._unwritten)
            self._unwritten = []

    def _next_step(self) -> int:
        self.flush()
        return self._step + 1

    async def tell(self, told: Sequence[tuple[Entry, Sample, NDArray[Any]]]) -> None:
        """Tell the selector samples and their embeddings: one solve for all, one transaction per sample.

        The selector runs in a thread; use nothing but the journal until it has finished.
        """
        if will_solve := self.selector.will_solve(len(told)):
            self.replan()
        first = self._next_step()
        self._is_small = told[0][2].shape[-1] <= SMALL_DIMENSION
        with self.journal.watch.span("solve") if will_solve else nullcontext():
            await in_thread(lambda: self._update_selector(told))
        for entry, _, row in told:
            self.journal.told(entry.id, row, self._step + 1, first)
            self._step += 1

    def _update_selector(self, told: Sequence[tuple[Entry, Sample, NDArray[Any]]]) -> None:
        with self.threads():
            self.selector.tell_all((e.id, row, s.quality, s.cost) for e, s, row in told)

    def threads(self) -> AbstractContextManager[Any]:
        """Limit the threads used for linear algebra while the selector is told or read."""
        if self._is_small:
            limits: AbstractContextManager[Any] = self._libraries.limit(limits=1, user_api="blas")
            return limits
        return nullcontext()

    def fail(self, entry: Entry) -> None:
        """Close a ticket whose sample could not be generated or embedded."""
        self._end(entry, "failed")

    def withdraw(self, entry: Entry) -> None:
        """Close a ticket that the budget does not cover."""
        self._end(entry, "withdrawn")

    def _end(self, entry: Entry, outcome: str) -> None:
        step = self._next_step()
        self.selector.fail(entry.id)
        self.journal.ended(entry.id, outcome, step)
        self._step = step
        if self.prompts is not None and entry.prompt is not None:
            is_refused = outcome == "failed" and was_attempted(self.journal, entry.id)
            self.prompts.give_back(entry.prompt, entry.arm if is_refused else None)

    def plan(self, **change: Any) -> None:
        """Change how the budget is spent.

        ``arms`` are those to draw from (None for all). ``mean_cost`` and ``prices`` are what the selector's
        next solves respect. ``warm_start`` is the number of samples per arm before the first solve.
        ``shares`` are the new ``at_least`` and ``at_most``. ``new_prices`` maps arms whose price has changed
        to their new price, and to the number and the cost of their samples at the old price. ``solve`` solves
        for the mixture now, not when the next solve is due.
        """
        step = self._next_step()
        self._apply_plan(change)
        self.journal.event("plan", step=step, **change)
        self._step = step

    def _apply_plan(self, change: Mapping[str, Any]) -> None:
        if "arms" in change:
            self._among = change["arms"]
        if "mean_cost" in change:
            self.selector.plan(change["mean_cost"], change.get("prices"))
        if "warm_start" in change:
            self.selector.set_warm_start(change["warm_start"])
        if "shares" in change:
            self.selector.set_shares(**change["shares"])
        for arm, (price, _, _) in change.get("new_prices", {}).items():
            self.selector.set_price(arm, price)
        if change.get("solve"):
            self.selector.solve()

    # -- arms ------------------------------------------------------------------------------------

    def retire(self, arm: str, **why: Any) -> None:
        """Stop drawing from an arm; the last active arm remains, and only its suspension is journaled."""
        if arm in self.selector.arms and len(self.selector.arms) > 1:
            self.replan()
            step = self._next_step()
            with self.threads():
                self.selector.retire_arm(arm)
            self.journal.event("retire", arm, step, **why)
            self._step = step
        elif "pause" in why:
            self.journal.event("suspend", arm, **why)

    def revive(self, arm: str, **why: Any) -> None:
        """Draw from a retired arm again."""
        self._add("revive", arm, why)

    def join(self, arm: str, **why: Any) -> None:
        """Draw from a new arm, beginning with its warm start."""
        self._add("join", arm, why)

    def _add(self, kind: str, arm: str, why: dict[str, Any]) -> None:
        self.replan()
        step = self._next_step()
        with self.threads():
            self.selector.add_arm(arm)
        self.journal.event(kind, arm, step, **why)
        self._step = step

    # -- samples ---------------------------------------------------------------------------------

    def store(self, entry: Entry, sample: Sample, started_at: float) -> None:
        """Journal a generated sample; an image becomes a file named after its ticket."""
        image = None
        if sample.image is not None:
            image = f"{entry.id:08d}.png"
            advice = "free disk space or check the disk, then run `genmix resume`"
            make_folder(self._folder / IMAGES, advice)
            with draft_of(self._folder / IMAGES / image, advice) as draft:
                draft.write_bytes(sample.image)
        self.journal.made(entry.id, sample, image, started_at)

    def open_tickets(self) -> list[tuple[Entry, Sample | None]]:
        """Return the open tickets from earlier sessions, with their samples if already generated."""
        return [
            (self._with_prompt(entry), None if row is None else sample_of(row, self._folder))
            for entry, row in self.journal.open_tickets()
        ]

    def _with_prompt(self, entry: Entry) -> Entry:
        return entry if self.prompts is None else replace(entry, prompt=self._prompt_of(entry.id))

    def _prompt_of(self, ticket: int | None) -> Prompt | None:
        if self.prompts is None or ticket is None:
            return None
        return self.prompts.prompts[self._prompt_ids[ticket]]

    def open_failures(self) -> list[dict[str, Any]]:
        """Return the failed attempts to generate the samples of tickets in flight."""
        in_flight = {ticket.id for ticket in self.selector.in_flight}
        failures = self.journal.failures()
        return [f for f in failures if f["ticket"] in in_flight and f["stage"] == "generate"]

    # -- restoring -------------------------------------------------------------------------------

    def restore(self, observe: Callable[[], object] | None = None) -> None:
        """Bring the selector up to the end of the journal: load the last snapshot, then replay the rest.

        If given, ``observe`` is called after every told batch, as in the run; all steps are then replayed.
        """
        self._places = self.journal.ticket_counts()
        self._prompt_ids = prompt_of_ticket(self.journal)
        fresh, objective = self.selector.state_dict(), self.selector.objective
        if observe is None and self._load_snapshot():
            try:
                self._replay(None)
                return
            except GenmixError:
                self._discard_snapshot("it does not belong to this journal")
                self.selector, self._step = Selector.from_state_dict(fresh, objective), -1
                self._among = None
        self._replay(observe)

    def _replay(self, observe: Callable[[], object] | None) -> None:
        steps = self.journal.steps(self._step)
        for group, together in groupby(steps, lambda step: step.group):
            if group is not None:
                self._replay_tell(list(together))
                if observe is not None:
                    observe()
                continue
            for step in together:
                self._replay_step(step)

    def _replay_tell(self, told: list[JournalStep]) -> None:
        self._is_small = told[0].embedding.shape[-1] <= SMALL_DIMENSION  # type: ignore[union-attr]
        with self.threads():
            self.selector.tell_all((s.ticket, s.embedding, s.quality, s.cost) for s in told)  # type: ignore[misc]
        self._step = told[-1].number

    def _replay_step(self, step: JournalStep) -> None:
        if step.kind == "ask":
            _check_ticket(self._draw(self._prompt_of(step.ticket)), step)
        elif step.kind == "probe":
            _check_ticket(self._draw(self._prompt_of(step.ticket), step.arm), step)
        elif step.kind in ("retire", "revive", "join"):
            retires = step.kind == "retire"
            with self.threads():
                (self.selector.retire_arm if retires else self.selector.add_arm)(step.arm)
        elif step.kind == "plan":
            self._apply_plan(step.detail)
        else:  # failed or withdrawn
            assert step.ticket is not None
            self.selector.fail(step.ticket)
        self._step = step.number

    # -- snapshots -------------------------------------------------------------------------------

    def save_snapshot(self, at_once: bool = False) -> None:
        """Save the selector's state next to the journal if ``at_once`` or if enough has changed."""
        if not at_once and self._step < (1 + SNAPSHOT_GROWTH) * self._saved_at + 1000:
            return
        self.flush()
        self._saved_at = self._step
        content = {"run": self.journal.meta("run"), "step": self._step, "among": self._among}
        with suppress(GenmixError):  # e.g. a full disk: the steps can be replayed instead
            state.save(self._snapshot, {**content, "selector": self.selector.state_dict()})

    def _load_snapshot(self) -> bool:
        """Load the snapshot and return True, or remove it and return False if it cannot be used."""
        try:
            saved = read_snapshot(self.journal, self.selector.objective)
        except StorageError as error:
            self._discard_snapshot(str(error))
            return False
        if saved is None:
            return False
        self.selector, self._step, self._is_small = saved.selector, saved.step, saved.is_small
        self._among = saved.among
        self._saved_at = self._step
        return True

    def _discard_snapshot(self, problem: str) -> None:
        with suppress(OSError):
            self._snapshot.unlink()
        self._note(
            f"{self._snapshot} cannot be used ({problem.rstrip('.')}); the state of the selector was "
            "computed from the journal instead"
        )


def _check_ticket(ticket: Ticket, step: JournalStep) -> None:
    if (ticket.id, ticket.arm) != (step.ticket, step.arm):
        raise JournalError(
            f"the journal has ticket {step.ticket} for arm {step.arm!r}, but the replay drew ticket "
            f"{ticket.id} for arm {ticket.arm!r}; resume with the same package versions on the same machine."
        )
