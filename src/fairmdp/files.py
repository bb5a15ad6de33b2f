"""Whole files: read within a limit, and written so that a reader sees the old file or the new, never half."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from os import PathLike
from typing import BinaryIO, NamedTuple

from fairmdp.errors import FormatError, ProblemError


@contextmanager
def naming(path: str | PathLike[str]) -> Iterator[None]:
    """Put the path before the message of an error about a file's content, unless a file is named there."""
    try:
        yield
    except (FormatError, ProblemError) as error:
        if error.path is not None:
            raise
        path = os.fsdecode(path)
        named = type(error)(f"{path if path.isprintable() else repr(path)}: {error}")
        named.path = path
        raise named from None


@contextmanager
def reading(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a regular file for reading; an error names the path, and the reason why it cannot be read."""
    path = os.fsdecode(path)
    with naming(path):
        try:
            # Not through open() alone: a pipe would block, a device never end.
            _refuse_special(os.stat(path))
            file = open(path, "rb")
        except FileNotFoundError:
            raise FormatError(f"cannot be read: there is no such file{_similar(path)}") from None
        except (OSError, ValueError) as error:
            raise _failure("read", error) from None
        with file:
            try:
                yield file
            except OSError as error:
                raise _failure("read", error) from None


def read_bytes(path: str | PathLike[str], limit: int) -> bytes:
    """Content of a file of at most `limit` bytes."""
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise FormatError(f"the file has {size:,} bytes, the limit is {limit:,}")
        return file.read(limit)


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` when the block ends without an error.

    Until then `path` is untouched; after an error nothing is left behind. A link is followed. A file that
    is replaced keeps its permissions, a new one gets those that the umask allows.
    """
    with _staging(path) as staged:
        yield staged.file
        staged.settle()
        staged.publish()


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write a file at once, atomically."""
    with replacing(path) as file:
        file.write(data)


def write_together(files: Mapping[str, Iterable[str]], obsolete: Iterable[str] = ()) -> None:
    """Write the lines of files that belong together, and remove what would be taken for one of them.

    All are complete on disk before the first takes its name, so an error in writing changes nothing.
    """
    with ExitStack() as stack:
        staged = []
        for path, lines in files.items():
            staged.append(stack.enter_context(_staging(path)))
            staged[-1].file.writelines(f"{line}\n".encode() for line in lines)
            staged[-1].settle()
        for file in staged:
            file.publish()
    for path in obsolete:
        with suppress(FileNotFoundError):
            os.unlink(path)


class _Staged(NamedTuple):
    """A file that is written under another name until it is complete."""

    file: BinaryIO
    temporary: str
    target: str
    mode: int | None

    def settle(self) -> None:
        """Bring the content to disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        if self.mode is not None:
            os.chmod(self.temporary, self.mode)

    def publish(self) -> None:
        """Give the file its name."""
        os.replace(self.temporary, self.target)


@contextmanager
def _staging(path: str | PathLike[str]) -> Iterator[_Staged]:
    """Open a file beside `path`; unless it is published, nothing is left of it."""
    path = os.fsdecode(path)
    with naming(path):
        try:
            target = os.path.realpath(path)
            mode = _mode_of(target)
            folder = os.path.dirname(target)
            # The name is short, so that it fits wherever the target's does.
            temporary = os.path.join(folder, f".fairmdp-{os.urandom(8).hex()}.tmp")
            file = open(temporary, "xb")
        except (OSError, ValueError) as error:
            raise _failure("written", error) from None
        try:
            with file:
                yield _Staged(file, temporary, target, mode)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(temporary)
            if isinstance(error, OSError):
                raise _failure("written", error) from None
            raise
    _sync_folder(folder)


def _mode_of(target: str) -> int | None:
    """Permissions of the file that will be replaced, if there is one."""
    try:
        found = os.stat(target)
    except FileNotFoundError:
        return None
    _refuse_special(found)
    return stat.S_IMODE(found.st_mode)


def _refuse_special(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FormatError("this is a folder, expected a file")
    if not stat.S_ISREG(found.st_mode):
        raise FormatError("this is a device or a pipe, expected a file")


def _failure(what: str, error: OSError | ValueError) -> FormatError:
    """Error that says why a path cannot be read or written; one that says so already stays as it is."""
    if isinstance(error, FormatError):
        return error
    if isinstance(error, ValueError):
        return FormatError(f"this is not a path: {error}")
    if what == "written" and isinstance(error, FileNotFoundError):
        return FormatError("cannot be written: there is no such folder")
    return FormatError(f"cannot be {what}: {error.strerror or error}")


def _similar(path: str) -> str:
    """Ending of a message about a file that is not there: which one of its folder may be meant."""
    folder, name = os.path.split(path)
    with suppress(OSError, ValueError):
        near = get_close_matches(name, os.listdir(folder or "."), n=1, cutoff=0.8)
        return f"; did you mean {os.path.join(folder, near[0])!r}?" if near else ""
    return ""


def _sync_folder(folder: str) -> None:
    """Make the new name durable; the file itself is complete by now, so failing to do so is no error."""
    if os.name != "posix":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
