"""Write the samples into the folder of the command line, or over the bundled ones."""

import sys
from pathlib import Path

from samples import BUNDLED, write_samples
from samples.repository import write_rows

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else BUNDLED
write_samples(folder)
write_rows(folder.parent / "swebench-verified.jsonl")
