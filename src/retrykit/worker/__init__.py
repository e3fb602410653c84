"""What a worker process needs around its loop: it ends at once when something broke, and never limps on."""

from .crash import ExitOnCrash, exit_on_crash

__all__ = ["ExitOnCrash", "exit_on_crash"]
