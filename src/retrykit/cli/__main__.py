"""`python -m retrykit.cli`, the same as `retrykit`."""

from . import main

main()
