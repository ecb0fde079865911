"""The folder of a new run: new or empty, and locked before anything else is written to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from genmix.core.atomic import make_folder
from genmix.encoders.references import Note
from genmix.errors import GenmixError, InputError
from genmix.journal.continuing import resume_command
from genmix.journal.lock import LOCK, FolderLock, holder
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL
from genmix.runs.result import is_finished


class NewFolder:
    """A folder that the user has chosen for a new run.

    Attributes
    ----------
    path : Path
        The folder. A default folder can still change until it is locked.
    own : Path or None
        The folder, once it belongs to this run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.own: Path | None = None

    def check(self) -> None:
        """Refuse a folder that is not free, before anything is paid for or loaded."""
        check_empty(self.path)

    @contextmanager
    def locked(self, hears_signals: bool) -> Iterator[Path]:
        """Create and lock the folder; its path is fixed from here on."""
        with ExitStack() as stack:
            self._lock(stack, hears_signals)
            self.own = self.path
            yield self.path

    def _lock(self, stack: ExitStack, hears_signals: bool) -> None:
        make_folder(self.path)
        with ExitStack() as attempt:  # releases the lock if the folder is not empty
            attempt.enter_context(FolderLock(self.path, hears_signals))
            check_empty(self.path)
            stack.enter_context(attempt.pop_all())


class DefaultFolder(NewFolder):
    """The first of ``runs/NAME``, ``runs/NAME-2`` and so on that is free.

    A free folder can be taken by another run before it is locked. Then it is the next one.
    """

    def __init__(self, name: str, note: Note) -> None:
        first = Path("runs") / name
        numbered = (first.with_name(f"{name}-{number}") for number in count(2))
        self._choices, self._note = chain([first], numbered), note
        super().__init__(self._next_free())
        if self.path != first:
            note(
                f"{first} already contains a run{_advice(first)}; this run is saved in {self.path}"
            )

    def _next_free(self) -> Path:
        return next(folder for folder in self._choices if _is_free(folder))

    def check(self) -> None:
        """Do nothing: if the folder is taken by now, another one is locked."""

    def _lock(self, stack: ExitStack, hears_signals: bool) -> None:
        while True:
            try:
                return super()._lock(stack, hears_signals)
            except InputError:
                if _is_free(self.path):  # another name would not help, e.g. without locks
                    raise
            taken, self.path = self.path, self._next_free()
            self._note(f"another run has just started in {taken}; this run is saved in {self.path}")


def _is_free(folder: Path) -> bool:
    if (folder / JOURNAL).exists():
        return False
    with suppress(InputError):
        check_empty(folder)
        return holder(folder) is None  # a run that has just started has only a lock
    return False


def _advice(folder: Path) -> str:
    """Return how to continue the run in a folder, if it contains an unfinished one."""
    if not (folder / JOURNAL).exists():
        return ""
    with suppress(GenmixError), JournalReader.open(folder) as journal:
        if is_finished(journal):
            return ""
    return f" (continue it with `{resume_command(folder)}`)"


def check_empty(folder: Path) -> None:
    """Refuse a folder that contains files, except for those that a failed start leaves behind."""
    if (folder / JOURNAL).exists():
        raise InputError(
            f"{folder} already contains a run; continue it with `{resume_command(folder)}`, "
            "or choose another folder."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; choose a new one for the run.")
    for path in folder.iterdir():
        if path.name != LOCK and not path.name.startswith(f"{JOURNAL}.part"):
            raise InputError(
                f"{folder} contains other files ({path.name}); choose a new or empty folder for the run."
            )
