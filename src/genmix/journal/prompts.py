"""The prompts of a run: which of them still need answers, and which comes next."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any, Literal

from numpy.typing import NDArray

from genmix.core.streams import private_stream
from genmix.core.text import counted
from genmix.data.prompts import Prompt
from genmix.journal.reader import JournalReader
from genmix.journal.schema import decoded

GROUPS = "groups.json"
"""The weights and scores of each group of prompts so far, for pages that show the run."""


def prompts_of(journal: JournalReader) -> list[Prompt]:
    """Return the prompts of a run in the order of their file; an empty list if it has none."""
    if not journal.has_table("prompts"):
        return []
    return [Prompt(*row) for row in journal.each("SELECT id, text, topic FROM prompts ORDER BY id")]


def embeddings_of_prompts(journal: JournalReader) -> dict[int, NDArray[Any]]:
    """Return the embedding of each prompt by its id; empty if the run does not use them."""
    if not journal.has_table("prompt_embeddings"):
        return {}
    rows = journal.each("SELECT prompt_id, embedding, dtype FROM prompt_embeddings")
    return {row[0]: decoded(*row[1:]) for row in rows}


def dimension_of_prompts(journal: JournalReader) -> int:
    """Return the dimension of the prompts' embeddings; 0 if the run does not use them."""
    return next((len(row) for row in embeddings_of_prompts(journal).values()), 0)


def prompt_of_ticket(journal: JournalReader) -> dict[int, int]:
    """Return the id of the prompt that each ticket answers."""
    if not journal.has_table("prompted"):
        return {}
    return dict(journal.each("SELECT ticket, prompt_id FROM prompted"))


def told_by_group(journal: JournalReader) -> dict[str, dict[str, int]]:
    """Return the number of samples by group and arm."""
    rows = journal.each(
        "SELECT topic, arm, count(*) FROM prompted JOIN tickets ON ticket = tickets.id"
        " JOIN prompts ON prompt_id = prompts.id"
        " WHERE outcome = 'told' AND topic IS NOT NULL GROUP BY topic, arm"
    )
    found: dict[str, dict[str, int]] = {}
    for group, arm, count in rows:
        found.setdefault(group, {})[arm] = count
    return found


def was_attempted(journal: JournalReader, ticket: int) -> bool:
    """Return whether an arm tried and failed to answer a ticket."""
    return bool(journal.query("SELECT 1 FROM failures WHERE ticket = ? LIMIT 1", ticket))


class PromptQueue:
    """Chooses the next prompt.

    All prompts are asked once before any is asked again. A prompt that an arm failed to answer goes to
    another arm.

    Parameters
    ----------
    prompts : sequence of Prompt
        All prompts.
    repeat : int
        Answers per prompt.
    order : {"shuffle", "file"}
        Whether each round uses a random order or the order of the file.
    seed : int
        Seed for the random orders.
    asked : mapping of int to int
        How many answers each prompt has or waits for.
    failed : iterable of (int, str)
        Pairs of a prompt and an arm that failed to answer it.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        repeat: int,
        order: Literal["shuffle", "file"],
        seed: int,
        asked: Counter[int],
        failed: Iterable[tuple[int, str]] = (),
    ) -> None:
        self.prompts, self.repeat = {prompt.id: prompt for prompt in prompts}, repeat
        self._order, self._seed, self._asked = order, seed, asked
        self._failed: dict[int, set[str]] = {}
        for prompt, arm in failed:
            self._failed.setdefault(prompt, set()).add(arm)
        self._places = cache(self._places_in_round)
        self._waiting = [self._place(prompt) for prompt in self.prompts if asked[prompt] < repeat]
        heapq.heapify(self._waiting)

    @classmethod
    def of(cls, journal: JournalReader) -> PromptQueue | None:
        """Return the queue as of the end of a journal; None if its study has no prompts."""
        prompts = prompts_of(journal)
        if not prompts:
            return None
        study = journal.study()
        asked = journal.each(
            "SELECT prompt_id, count(*) FROM prompted JOIN tickets ON ticket = id"
            " WHERE outcome IS NULL OR outcome = 'told' GROUP BY prompt_id"
        )
        failed = journal.each(
            "SELECT DISTINCT prompt_id, tickets.arm FROM prompted"
            " JOIN tickets ON prompted.ticket = tickets.id"
            " JOIN failures ON failures.ticket = tickets.id WHERE outcome = 'failed'"
        )
        settings = study["prompts"]
        return cls(
            prompts,
            settings["repeat"],
            settings["order"],
            study["seed"],
            Counter(dict(asked)),
            list(failed),
        )

    @property
    def ending(self) -> str:
        """Say why no prompt is waiting for an answer."""
        lacking = len(self._lacking())
        if lacking:
            return (
                f"{counted(lacking, 'prompt')} could not be answered by any arm; all other prompts are "
                "answered"
            )
        return f"every prompt has {counted(self.repeat, 'answer')}"

    def next(self, arms: Collection[str]) -> tuple[Prompt, list[str]] | None:
        """Return the prompt that comes next and the arms that may answer it.

        None means that no prompt is waiting for an answer from these arms.
        """
        skipped, found = [], None
        while self._waiting and found is None:
            place = heapq.heappop(self._waiting)
            skipped.append(place)
            prompt = place[-1]
            left = [arm for arm in arms if arm not in self._failed.get(prompt, ())]
            if self._is_current(place) and left:
                found = self.prompts[prompt], left
            elif not self._is_current(place):
                skipped.pop()
        for place in skipped:
            heapq.heappush(self._waiting, place)
        return found

    def take(self, prompt: Prompt) -> None:
        """Record that a ticket for this prompt was issued."""
        self._asked[prompt.id] += 1
        if self._asked[prompt.id] < self.repeat:
            heapq.heappush(self._waiting, self._place(prompt.id))

    def give_back(self, prompt: Prompt, failed_arm: str | None = None) -> None:
        """Record that a ticket for this prompt was closed without an answer."""
        self._asked[prompt.id] -= 1
        heapq.heappush(self._waiting, self._place(prompt.id))
        if failed_arm is not None:
            self._failed.setdefault(prompt.id, set()).add(failed_arm)

    def unanswered(self, arms: Collection[str]) -> dict[int, set[str]]:
        """Return the prompts that lack answers because all of ``arms`` failed, with the arms that failed."""
        failed = {prompt: self._failed.get(prompt, set()) for prompt in self._lacking()}
        return {prompt: found for prompt, found in failed.items() if found and found >= set(arms)}

    def _lacking(self) -> list[int]:
        return [prompt for prompt in self.prompts if self._asked[prompt] < self.repeat]

    def _place(self, prompt: int) -> tuple[int, int, int]:
        """Return the next round of a prompt, its position in that round, and the prompt."""
        number = self._asked[prompt]
        return number, self._places(number)[prompt], prompt

    def _is_current(self, place: tuple[int, int, int]) -> bool:
        number, _, prompt = place
        return number == self._asked[prompt] < self.repeat

    def _places_in_round(self, number: int) -> dict[int, int]:
        ids = list(self.prompts)
        if self._order == "shuffle":
            ids = private_stream(self._seed, "prompts", number).permutation(ids).tolist()
        return {prompt: position for position, prompt in enumerate(ids)}


def unanswered_prompts(queue: PromptQueue, arms: Collection[str]) -> list[dict[str, Any]]:
    """Return the prompts that all of these arms failed to answer as JSON values."""
    return [
        {"id": prompt, "prompt": queue.prompts[prompt].text, "failed": sorted(arms)}
        for prompt, arms in queue.unanswered(arms).items()
    ]
