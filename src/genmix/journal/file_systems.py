"""Find out whether a folder is on a network file system, where SQLite's usual locking is not safe."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
"""What is mounted where. It exists on Linux; on other systems, every folder counts as local."""

NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "davfs", "gfs2", "glusterfs", "gpfs", "lustre"),
        *("ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs"),
        *("vboxsf", "wekafs"),
    )
)
LOCAL_FUSE = frozenset(
    f"fuse.{name}"
    for name in ("bindfs", "encfs", "fuse-overlayfs", "gocryptfs", "lxcfs", "mergerfs", "portal")
)
"""Drivers in user space that keep their data on this machine; all others count as network file systems."""

LOCKS_STAY_HERE = frozenset(
    ["nolock", "local_lock=all", "local_lock=flock", "localflock", "noflock", "nobrl"]
)
"""Options of mounts whose locks other machines do not see."""

LOCAL_LOCKS = frozenset({"9p", "davfs", "vboxsf"})


@dataclass(frozen=True)
class FileSystem:
    """A mounted file system."""

    kind: str = "local"
    options: frozenset[str] = frozenset()

    @property
    def is_network(self) -> bool:
        if self.kind.startswith("fuse."):
            return self.kind not in LOCAL_FUSE
        return self.kind in NETWORK

    @property
    def shares_locks(self) -> bool:
        """Whether a lock that one machine holds is visible to the others."""
        if not self.is_network:
            return True
        is_local = self.kind in LOCAL_LOCKS or self.kind.startswith("fuse.")
        return not is_local and not self.options & LOCKS_STAY_HERE


def file_system_of(folder: Path) -> FileSystem:
    """Return the file system that contains a folder, which need not exist yet."""
    try:
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return FileSystem()
    parts, found, depth = folder.resolve().parts, FileSystem(), 0
    for line in lines:
        _, place, kind, options, *_ = [*line.split(" "), "", "", "", ""]
        inside = Path(_unescaped(place)).parts
        if inside and parts[: len(inside)] == inside and len(inside) >= depth:
            found, depth = FileSystem(kind, frozenset(options.split(","))), len(inside)
    return found


def _unescaped(text: str) -> str:
    """Replace the octal codes with which the kernel writes spaces and other characters."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def network_warning(folder: Path) -> str | None:
    """Return what to know before a run writes to a folder; None if it is on a local disk."""
    found = file_system_of(folder)
    if not found.is_network:
        return None
    where = f"{os.fspath(folder)} is on a network file system ({found.kind})"
    if found.shares_locks:
        return (
            f"{where}; only genmix may open the journal there, and other machines see new samples "
            "with a delay. Use a folder on a local disk if you can."
        )
    return (
        f"{where} whose locks other machines do not see; make sure that no other machine writes to "
        "this run, or use a folder on a local disk."
    )
