"""The settings of a model in a config: its endpoint by name, and the parameters of generation."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UsageError
from harness.models.endpoint import Api, Endpoint, find_default_url
from harness.models.messages import Generation

OPENAI_URL_VARIABLE = "OPENAI_BASE_URL"
ANTHROPIC_URL_VARIABLE = "ANTHROPIC_BASE_URL"


class GenerationSettings(BaseModel):
    """The parameters of generation. One that is not set is not sent, so the server's default applies."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    temperature: float | None = Field(default=None, ge=0, le=5)
    """Default: that of the server."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """The largest number of tokens of one reply, reasoning included."""
    stop: list[str] = Field(default_factory=list, max_length=16)
    reasoning_effort: str | None = None

    def as_generation(self) -> Generation:
        return Generation(**{**self.model_dump(), "stop": tuple(self.stop)})


def choose_endpoint(
    model: str, base_url: str | None, endpoints: Mapping[str, Endpoint], api: Api | None = None
) -> Endpoint:
    """Return the endpoint that `model` names: one of the config's, or else a model at `base_url`.

    Without a URL, the variable OPENAI_BASE_URL decides, or ANTHROPIC_BASE_URL for the API `messages`. Without
    that it is OpenAI's or Anthropic's own. Without an API it is `chat`.

    Raises UsageError for a named endpoint that is given a URL or an API, and for an invalid URL.
    """
    if model in endpoints:
        for key, value in (("base_url", base_url), ("api", api)):
            if value is not None:
                option = f"--{key.replace('_', '-')}"
                raise UsageError(
                    f"{option} cannot be used: endpoint '{model}' has its own {key}",
                    hint=f"change it in the config, or leave out {option}",
                )
        return endpoints[model]
    api = api or "chat"
    url = base_url or _read_url(api) or find_default_url(api)
    try:
        return Endpoint(model=model, base_url=url, api=api)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        variable = ANTHROPIC_URL_VARIABLE if api == "messages" else OPENAI_URL_VARIABLE
        setting = "--base-url" if base_url else f"the environment variable {variable}"
        # The error of the library would quote the URL, which may hold a password.
        raise UsageError(
            f"{setting} is not the URL of a server: it {reason}",
            hint="name one such as http://localhost:8000/v1, without a query",
        ) from None


def _read_url(api: Api) -> str | None:
    """Return the URL that the environment names for an API, None if it names none."""
    if api != "messages":
        return os.environ.get(OPENAI_URL_VARIABLE) or None
    url = os.environ.get(ANTHROPIC_URL_VARIABLE)
    # Anthropic's library appends the version to this variable.
    return f"{url.rstrip('/').removesuffix('/v1')}/v1" if url else None
