"""A text of a request that the reply repeats."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def _require_encodable(text: str) -> str:
    """Return the text. Raises ValueError if UTF-8 cannot encode it, as with half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"UTF-8 has no {text[error.start]!a}, so no reply can repeat the text") from None
    return text


ReplyText = Annotated[str, AfterValidator(_require_encodable)]
"""JSON can escape half of a surrogate pair, which no reply in UTF-8 can hold."""
