"""The removal of a key from all that a server sends, in each form in which a server may repeat it."""

from __future__ import annotations

import base64
import re
from urllib.parse import quote

from harness.secret_forms import HIDDEN_KEY as HIDDEN_KEY

# A shorter key could be an ordinary word, which must stay as it is in a reply.
SHORTEST_HIDDEN_KEY = 8


class HiddenKey:
    """A key that must be in no text of a server, plain or encoded, in capitals or in small letters.

    A server that cuts its key into pieces can still show it.
    """

    def __init__(self, key: str) -> None:
        forms = _list_forms(key) if len(key) >= SHORTEST_HIDDEN_KEY else []
        self._forms = [form.lower() for form in forms]
        self._pattern = re.compile("|".join(map(re.escape, forms)), re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        """Return whether a text holds the key."""
        # The search for a plain text is far faster than that for a pattern, and almost no text has the key.
        lowered = text.lower()
        return any(form in lowered for form in self._forms)

    def remove_from(self, text: str) -> str:
        """Return the text without the key."""
        if not self.is_in(text):
            return text
        return self._pattern.sub(HIDDEN_KEY, text)


def _list_forms(key: str) -> list[str]:
    """Return the key and its usual encodings, the longest first."""
    encoded = key.encode()
    forms = {key, quote(key, safe=""), encoded.hex()}
    for before in range(3):
        # The text around a key shifts its base64 by up to two bytes. The groups inside stay the same.
        whole = encoded[(3 - before) % 3 :]
        whole = whole[: len(whole) // 3 * 3]
        if len(whole) >= SHORTEST_HIDDEN_KEY - 2:
            forms |= {base64.b64encode(whole).decode(), base64.urlsafe_b64encode(whole).decode()}
    return sorted(forms, key=len, reverse=True)
