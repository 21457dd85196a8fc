"""Speed, side by side with a peer in the same run: ``python -m benchmarks --help``."""

import os

# Both sides of a comparison get the same cores. The linear algebra behind numpy would otherwise
# start threads of its own on either side. Set before anything imports numpy.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
