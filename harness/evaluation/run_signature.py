"""The signature of a run: the proof that a user started it on this machine.

A run folder may come from somebody else, and its config can name programs and servers. Each user has a random
secret outside of every run folder. A new run gets a signature of its id and its config with that secret.
Nobody who lacks the secret can make one, so a folder without a valid signature counts as somebody else's.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.lock import home_folder
from harness.text import quote_argument

# The key of a signature in a manifest.
SIGNATURE = "signature"
_SECRET_BYTES = 32


def find_secret_file() -> Path | None:
    """Return the file of the user's secret, which may not exist yet. None if the user has no home folder."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        state = Path(base) if base else home_folder("XDG_STATE_HOME") / ".local" / "state"
    except UsageError:
        return None
    return state / "harness" / "signing-secret"


def sign_run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the signature of its run id and its config.

    It has none if the secret can neither be read nor be written, and the run is then unknown later.
    """
    unsigned = {name: value for name, value in manifest.items() if name != SIGNATURE}
    signature = sign(_describe(unsigned))
    return unsigned if signature is None else {**unsigned, SIGNATURE: signature}


def is_signed(manifest: Mapping[str, Any]) -> bool:
    """Return whether this user started the run of a manifest, with the config that it holds."""
    return is_signature(manifest.get(SIGNATURE), _describe(manifest))


def describe_resume(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Return the command that resumes a run, for a hint. A folder of somebody else needs --trust."""
    command = f"harness run --resume {quote_argument(folder)}"
    return command if is_signed(manifest) else f"{command} --trust, if you accept what its settings do"


def sign(value: Any) -> str | None:
    """Return the signature of a value of JSON, None if the secret can neither be read nor be written."""
    secret = _read_secret() or _create_secret()
    return None if secret is None else _compute(secret, value)


def is_signature(signature: Any, value: Any) -> bool:
    """Return whether `signature` is that of a value of JSON with the secret of this user."""
    secret = _read_secret()
    if secret is None or not isinstance(signature, str):
        return False
    return hmac.compare_digest(signature.encode("utf-8", "replace"), _compute(secret, value).encode())


def explain_unknown() -> str:
    """Return the reason why a run without a valid signature is unknown, as a part of a sentence."""
    path = find_secret_file()
    if path is None:
        return "you have no home folder, so nothing shows which runs you started"
    if _read_secret() is not None:
        return "nothing shows that you started it on this machine"
    problem = "cannot be used" if os.path.lexists(path) else "does not exist"
    return f"{path}, which would show that you started it on this machine, {problem}"


def _describe(manifest: Mapping[str, Any]) -> Any:
    return ["run", manifest.get("run_id"), manifest.get("source"), manifest.get("config")]


def _compute(secret: bytes, value: Any) -> str:
    # A manifest that was read back has other types than one that was not written yet.
    written = json.loads(json.dumps(value))
    text = json.dumps(written, sort_keys=True, separators=(",", ":"))
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def _read_secret() -> bytes | None:
    """Return the secret, None if there is none, or if another user may have read or written it."""
    path = find_secret_file()
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        is_private = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if not stat.S_ISREG(status.st_mode) or not is_private:
            return None
        secret = os.read(descriptor, _SECRET_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return secret if len(secret) == _SECRET_BYTES else None


def _create_secret() -> bytes | None:
    """Write a new secret, unless another process has just done so. Return the one in the file."""
    path = find_secret_file()
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".signing-secret-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # Unlike a rename, a link never replaces the secret with which another process has signed.
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
        finally:
            os.unlink(name)
    except OSError:
        return None
    return _read_secret()
