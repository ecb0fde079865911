"""A selector whose every step is in the journal, so that another process can do the same steps again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from genmix.core import state
from genmix.data.samples import Sample
from genmix.errors import GenmixError, InputError
from genmix.runs.journal import Entry, Journal, JournalError, Step
from genmix.selector.selector import Selector, Ticket

SNAPSHOT = "selector.npz"

SNAPSHOT_GROWTH = 0.5
"""Steps must have grown by this fraction before the next snapshot: their cost stays in proportion."""


def seed_of(study_seed: int, arm: str, place: int) -> int:
    """The seed of one sample: 31 bits that depend on nothing but these three."""
    text = f"{study_seed}\0{arm}\0{place}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 33


SMALL = 512
"""Dimensions up to which linear algebra gains nothing from several threads, and stalls for seconds
where generators keep the other cores busy. The same in all sessions, so that they agree to the bit."""


class Session:
    """Asks and tells, journal first in reading order: what it returns is written down."""

    def __init__(self, selector: Selector, journal: Journal, study_seed: int) -> None:
        self.selector, self.journal, self._seed = selector, journal, study_seed
        self._step = -1
        self._saved_at = 0
        self._places: dict[str, int] = {}
        self._unwritten: list[Entry] = []
        self._libraries = ThreadpoolController()
        self._is_small = False

    @classmethod
    def at_end(cls, journal: Journal, study_seed: int, make: Callable[[], Selector]) -> Session:
        """Where the journal ends; ``make`` is not called if a snapshot was taken there."""
        saved = _read_snapshot(journal)
        if saved is not None and saved[1] == journal.last_step():
            session = cls(saved[0], journal, study_seed)
        else:
            session = cls(make(), journal, study_seed)
        session.restore()
        return session

    @property
    def _snapshot(self) -> Path:
        return self.journal.path.with_name(SNAPSHOT)

    # -- steps -----------------------------------------------------------------------------------

    def ask(self) -> Entry:
        """One ticket; it is written down by the next ``flush`` or other step."""
        return self._entry(self.selector.ask()[0])

    def probe(self, arm: str) -> Entry:
        """A ticket for a suspended arm."""
        return self._entry(self.selector.ask_from(arm), probe=True)

    def _entry(self, ticket: Ticket, probe: bool = False) -> Entry:
        place = self._places.get(ticket.arm, 0)
        seed = seed_of(self._seed, ticket.arm, place)
        entry = Entry(ticket.id, ticket.arm, place, seed, ticket.weight, ticket.propensity, probe)
        self._unwritten.append(entry)
        self._places[ticket.arm] = place + 1
        return entry

    def flush(self) -> None:
        """Write the tickets asked for into the journal, before anyone works on them."""
        if self._unwritten:
            self.journal.asked(self._unwritten, self._step + 1)
            self._step += len(self._unwritten)
            self._unwritten = []

    def _next_step(self) -> int:
        self.flush()
        return self._step + 1

    def tell(self, told: Sequence[tuple[Entry, Sample, NDArray[Any]]]) -> None:
        """Samples that were made and embedded: the mixture is solved for once, a transaction for each."""
        first = self._next_step()
        self._is_small = told[0][2].shape[-1] <= SMALL
        with self.threads():
            self.selector.tell_all((e.id, row, s.quality, s.cost) for e, s, row in told)
        for entry, _, row in told:
            self.journal.told(entry.id, row, self._step + 1, first)
            self._step += 1

    def threads(self) -> AbstractContextManager[Any]:
        """The threads that linear algebra may use, while the selector is told or read."""
        if self._is_small:
            limits: AbstractContextManager[Any] = self._libraries.limit(limits=1, user_api="blas")
            return limits
        return nullcontext()

    def fail(self, entry: Entry) -> None:
        """A ticket whose sample will not come."""
        self._end(entry, "failed")

    def withdraw(self, entry: Entry) -> None:
        """A ticket that the budget has no room for."""
        self._end(entry, "withdrawn")

    def _end(self, entry: Entry, outcome: str) -> None:
        step = self._next_step()
        self.selector.fail(entry.id)
        self.journal.ended(entry.id, outcome, step)
        self._step = step

    def retire(self, arm: str, **why: Any) -> None:
        """Draw from an arm no more."""
        step = self._next_step()
        with self.threads():
            self.selector.retire_arm(arm)
        self.journal.event("retire", arm, step, **why)
        self._step = step

    def revive(self, arm: str, **why: Any) -> None:
        """Draw from a retired arm again."""
        step = self._next_step()
        with self.threads():
            self.selector.add_arm(arm)
        self.journal.event("revive", arm, step, **why)
        self._step = step

    # -- going on --------------------------------------------------------------------------------

    def restore(self, watch: Callable[[], object] | None = None) -> None:
        """Bring the selector to where the journal ends: from the last snapshot, then step by step.

        ``watch`` is called after all that was told, as in the run; it wants to see every step.
        """
        self._places = self.journal.places()
        fresh = self.selector.state_dict()
        if watch is None and self._load_snapshot():
            try:
                self._do_all_again(None)
                return
            except InputError:  # the snapshot is of another past than the journal
                self._snapshot.unlink()
                self.selector, self._step = Selector.from_state_dict(fresh), -1
        self._do_all_again(watch)

    def _do_all_again(self, watch: Callable[[], object] | None) -> None:
        steps = self.journal.steps(self._step)
        for group, together in groupby(steps, lambda step: step.group):
            if group is not None:
                self._tell_again(list(together))
                if watch is not None:
                    watch()
                continue
            for step in together:
                self._do_again(step)

    def _tell_again(self, told: list[Step]) -> None:
        self._is_small = told[0].embedding.shape[-1] <= SMALL  # type: ignore[union-attr]
        with self.threads():
            self.selector.tell_all((s.ticket, s.embedding, s.quality, s.cost) for s in told)  # type: ignore[misc]
        self._step = told[-1].number

    def _do_again(self, step: Step) -> None:
        if step.kind == "ask":
            self._ask_again(self.selector.ask()[0], step)
        elif step.kind == "probe":
            self._ask_again(self.selector.ask_from(step.arm), step)
        elif step.kind in ("retire", "revive"):
            change = {"retire": self.selector.retire_arm, "revive": self.selector.add_arm}
            with self.threads():
                change[step.kind](step.arm)
        else:  # failed or withdrawn
            assert step.ticket is not None
            self.selector.fail(step.ticket)
        self._step = step.number

    def _ask_again(self, ticket: Ticket, step: Step) -> None:
        if (ticket.id, ticket.arm) != (step.ticket, step.arm):
            raise JournalError(
                f"the journal has ticket {step.ticket} for arm {step.arm!r} and this draws ticket "
                f"{ticket.id} for {ticket.arm!r}: resume with the versions and the machine of the run."
            )

    def save_snapshot(self, at_once: bool = False) -> None:
        """Write the selector's state beside the journal if that is worth it; the journal has it all."""
        if not at_once and self._step < (1 + SNAPSHOT_GROWTH) * self._saved_at + 1000:
            return
        self.flush()
        self._saved_at = self._step
        content = {"run": self.journal.meta("run"), "step": self._step}
        with suppress(GenmixError):  # no room, say: then the steps are done again
            state.save(self._snapshot, {**content, "selector": self.selector.state_dict()})

    def _load_snapshot(self) -> bool:
        """Whether there was one that belongs to this journal's past."""
        saved = _read_snapshot(self.journal)
        if saved is None:
            self._snapshot.unlink(missing_ok=True)
            return False
        self.selector, self._step, self._is_small = saved
        self._saved_at = self._step
        return True


def _read_snapshot(journal: Journal) -> tuple[Selector, int, bool] | None:
    """The selector, its step, and whether its matrices are small; None if it is of another past, torn or
    of another version: the journal has it all."""
    try:
        saved = state.load(journal.path.with_name(SNAPSHOT))
        whose, step = saved["run"], int(saved["step"])
        if whose != journal.meta("run") or step > journal.last_step():
            return None
        is_small = 0 < (saved["selector"]["dimension"] or 0) <= SMALL
        return Selector.from_state_dict(saved["selector"]), step, is_small
    except (GenmixError, KeyError, TypeError, ValueError):
        return None
