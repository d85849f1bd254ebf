"""Start PID 1: take the stream, install the guest half of the image's environment, and serve the host."""

from __future__ import annotations

import gc
import os
import sys
import time

from . import processes, signals
from .kernel import Kernel
from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "/opt/harness"
ENVIRONMENTS = f"{FOLDER}/harness/environments"


def main() -> None:
    """Serve the host until it is gone. The end of PID 1 ends every process of the container."""
    started = time.monotonic()
    install = find_installer(ENVIRONMENTS)
    # The command has disabled collections, because the imports leave no garbage.
    gc.enable()
    sys.path[:] = [path for path in sys.path if path != FOLDER]
    output = os.dup(1)
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    processes.reset_signals()
    kernel = Kernel(Loop(), output)
    if install is not None:
        install(kernel)
    # An engine that stops sends this signal first, and waits. No job can send it.
    signals.set_handler(signals.SIGTERM, lambda _signal, _frame: os._exit(0))
    # A garbage collection would write to every object, and so copy every page that a fork shares.
    gc.freeze()
    kernel.answer(0, {"ready": True, "startup_seconds": time.monotonic() - started})
    kernel.loop.run()


def find_installer(folder: str) -> Callable[[Kernel], None] | None:
    """Import the guest half of the image's environment and return its `install`, or None if it has none.

    The build puts at most one environment into an image.
    """
    try:
        names = [name for name in os.listdir(folder) if not name.startswith("__")]
    except FileNotFoundError:
        return None
    (name,) = names
    module = __import__(f"harness.environments.{name}.guest.procedures", fromlist=["install"])
    install: Callable[[Kernel], None] = module.install
    return install
