"""Sessions for HTTP requests that send no credentials but those that an address or harness names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import requests


def open_session() -> requests.Session:
    """Return a session with the proxies and the certificates of the environment, but without ~/.netrc.

    `requests` would send the password that the file has for a host, or for all hosts, with every request and
    after every redirect. An address may come from a run folder or a dataset of somebody else.
    """
    import requests
    from requests.auth import HTTPBasicAuth
    from requests.utils import get_auth_from_url

    class Session(requests.Session):
        def rebuild_auth(
            self, prepared_request: requests.PreparedRequest, response: requests.Response
        ) -> None:
            """Drop the credentials if a redirect leads to another host, and add none."""
            old, new = response.request.url, prepared_request.url
            if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
                prepared_request.headers.pop("Authorization", None)

    def authorize(request: requests.PreparedRequest) -> requests.PreparedRequest:
        user, password = get_auth_from_url(request.url or "")
        if user or password:
            HTTPBasicAuth(user, password)(request)
        return request

    session = Session()
    # A session looks into the file only if it has no authentication.
    session.auth = authorize
    return session
