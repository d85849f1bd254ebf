"""The tree of errors, under the name that users import."""

from harness.core.errors import *  # noqa: F403
from harness.core.errors import __doc__ as __doc__
