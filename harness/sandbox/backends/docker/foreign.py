"""Containers of images that are not ours: the guest's folder as a volume, and the settings of the container.

A volume works with every engine, also a remote one, and no layer of the image has to be made. Its name ends
in the id of the image of harness that it was filled from.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.core.lock import exclusive
from harness.sandbox.backends.base import ImageFacts, JoinedContainer, NetworkPlace, SandboxSpec
from harness.sandbox.backends.docker.attempt_network import choose_name_servers
from harness.sandbox.backends.docker.container import remove
from harness.sandbox.backends.docker.engine import engine_errors, image_details, is_gone
from harness.sandbox.backends.docker.images import AGENT_LABEL, LABEL, remove_volume
from harness.sandbox.layout import (
    AGENTS_FOLDER,
    ATTEMPT_FOLDER,
    FOREIGN_CAPABILITIES,
    FOREIGN_GUEST_COMMAND,
    GUEST_FOLDER,
    SHARED_MEMORY_FOLDER,
)

if TYPE_CHECKING:
    from docker import APIClient
    from docker.types import Mount

# The engine copies it last, so a volume with this file is whole.
LAST_FILE = f"{GUEST_FOLDER}/z-complete"
VOLUME_PREFIX = "harness-guest-"
# Variables of an image that would load its code into PID 1. Jobs get the image's values nevertheless.
EMPTIED = ("LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES")


def make_foreign_config(
    client: APIClient, spec: SandboxSpec, config: dict[str, Any], mounts: list[Mount]
) -> dict[str, Any]:
    """Return the arguments of `create_container` for a foreign image, from those of our own image."""
    assert spec.foreign is not None  # noqa: S101  because only such specs come here
    disk = f"size={spec.limits.disk_mb}m,nosuid,nodev,mode=1777"
    place = spec.foreign.network
    mode, name_servers = ("bridge" if place else "none"), None
    further: dict[str, Any] = {}
    if isinstance(place, NetworkPlace):
        mode, name_servers = place.network, choose_name_servers(client, place.network)
        endpoint = client.create_endpoint_config(aliases=list(place.names))
        further["networking_config"] = {"EndpointsConfig": {place.network: endpoint}}
        further["hostname"] = place.names[0]
    elif isinstance(place, JoinedContainer):
        # The names of the other container hold here too.
        mode, further["hostname"] = f"container:{place.id}", None
        config = {**config, "host_config": {**config["host_config"], "ExtraHosts": None}}
    host_config = client.create_host_config(
        mounts=mounts,
        tmpfs={SHARED_MEMORY_FOLDER: f"{disk},noexec", ATTEMPT_FOLDER: f"{disk},exec"},
        network_mode=mode,
        dns=name_servers,
        # A program that asks for a name outside must not wait half a minute for the refusal.
        dns_opt=None if name_servers is None else ["timeout:1", "attempts:1"],
        cap_drop=["ALL"],
        cap_add=list(FOREIGN_CAPABILITIES),
    )
    added = ("Mounts", "Tmpfs", "NetworkMode", "Dns", "DnsOptions", "CapDrop", "CapAdd")
    own = {name: host_config[name] for name in added if name in host_config}
    return {
        **config,
        "image": spec.foreign.id,
        "entrypoint": list(FOREIGN_GUEST_COMMAND),
        "environment": dict.fromkeys(EMPTIED, ""),
        # The engine would run the health check of the image as a process that no limit of ours knows.
        "healthcheck": {"test": ["NONE"]},
        # The engine writes /etc/hosts only for a network of its own.
        "network_disabled": False,
        "host_config": {**config["host_config"], **own},
        **further,
    }


def read_image_facts(details: Mapping[str, Any]) -> ImageFacts:
    """Return the settings in the engine's details of an image."""
    config = details["Config"] or {}
    pairs = (pair.partition("=") for pair in config.get("Env") or ())
    return ImageFacts(
        id=details["Id"],
        environment={name: value for name, _, value in pairs},
        user=config.get("User") or "",
        folder=config.get("WorkingDir") or "/",
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
    )


def make_volume_finder(client: APIClient) -> Callable[[str], list[Mount]]:
    """Return a function that returns the mounts of an image of harness, and looks for each once."""
    return cache(lambda image: provide_volumes(client, image))


def provide_volumes(client: APIClient, image: str) -> list[Mount]:
    """Return the read-only mounts of the folders that the image `image` of harness has for foreign images.

    The engine fills a new volume from the image. Several processes may call this at once. Raises
    SandboxError.
    """
    from docker.types import Mount

    details = image_details(client, image) or {"Config": {}}
    folders = {"": GUEST_FOLDER}
    if AGENT_LABEL in (details["Config"].get("Labels") or {}):
        folders["-agents"] = AGENTS_FOLDER
    name = VOLUME_PREFIX + image.removeprefix("sha256:")[:12]
    volumes = {f"{name}{end}": folder for end, folder in folders.items()}
    with exclusive(name, notify=lambda _line: None):
        if not _fill(client, image, volumes):
            # The engine ended while it filled the volume.
            for volume in volumes:
                remove_volume(client, volume)
            if not _fill(client, image, volumes):
                raise SandboxError(
                    f"the engine has not filled the volume {name}",
                    hint=f"remove it when no container uses it: docker volume rm {name}",
                    outside=True,
                )
    return [
        Mount(folder, volume, type="volume", read_only=True, no_copy=True)
        for volume, folder in volumes.items()
    ]


def _fill(client: APIClient, image: str, volumes: dict[str, str]) -> bool:
    """Have the engine fill these volumes, unless they have files; return whether the guest's is whole."""
    from docker.errors import APIError
    from docker.types import Mount

    mounts = [
        Mount(folder, volume, type="volume", labels={LABEL: image}) for volume, folder in volumes.items()
    ]
    name = f"{VOLUME_PREFIX}{secrets.token_hex(8)}"
    with engine_errors("fill a volume with the guest"):
        try:
            # A container that is never started, because the engine fills volumes when it makes one.
            client.create_container(
                image, command=["true"], name=name, host_config=client.create_host_config(mounts=mounts)
            )
            chunks, _facts = client.get_archive(name, LAST_FILE)
            chunks.close()
        except APIError as error:
            if is_gone(error):
                return False
            raise
        finally:
            remove(client, name)
    return True
