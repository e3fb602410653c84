"""`python -m retrykit`, the same as `retrykit`."""

from .cli import main

main()
