"""The JSON of replies. Every reply can be encoded, whatever a client or an untrusted program has sent."""

from __future__ import annotations

import json

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError


def encode_reply(reply: BaseModel) -> bytes:
    """Return a reply as JSON in UTF-8.

    JSON can escape half of a surrogate pair, so a request can hold one, and a reply may repeat it. UTF-8 has
    no form for it, so the JSON of such a reply is ASCII.
    """
    try:
        return reply.model_dump_json().encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(reply.model_dump(), default=str).encode()
