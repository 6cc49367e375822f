"""Files that are written whole or not at all, and whether one can be, before there is work that would be lost."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stream_apple.errors import ConfigurationError


def why_not_writable(path: Path) -> str | None:
    """What stands in the way of writing this file, in words; None if nothing does that can be seen."""
    if path.is_dir():
        return f"the directory {path}"
    if path.exists():
        return None if os.access(path, os.W_OK) else f"one that this user may not write: {path}"
    return why_not_a_folder(Path(os.path.realpath(path)).parent)


def why_not_a_folder(folder: Path, *, to_be_made: bool = False) -> str | None:
    """What stands in the way of writing files into this folder; None if nothing does that can be seen.

    to_be_made  it need not be there yet
    """
    if to_be_made:
        folder = next(each for each in (folder, *folder.absolute().parents) if os.path.lexists(each))
    if not folder.exists():
        return f"no directory {folder}"
    if not folder.is_dir():
        return f"a file in place of the directory {folder}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"a directory that this user may not write: {folder}"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write what becomes the file `path` in the end; what was there stays if anything fails before.

    Who may read and write the file stays, too.

    A link, a device or a pipe is written in place, and so is a file in a folder where nothing may be made.
    ConfigurationError if it can't be written.
    """
    plain = not path.is_symlink() and (path.is_file() or not path.exists()) and os.access(path.parent, os.W_OK)
    # The suffix stays: some writers go by it.
    unfinished = path.with_name(f"{path.stem}.unfinished{path.suffix}") if plain else path
    try:
        yield unfinished
        if plain:
            if path.exists():
                shutil.copymode(path, unfinished)
            unfinished.replace(path)
    except BaseException as error:
        if plain:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            found = error.strerror or error
            raise ConfigurationError(f"{path}: expected a file that can be written, found: {found}") from error
        raise
