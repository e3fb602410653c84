"""The frame of the command line: the commands hang here."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from .alerts import alerts
from .classify import classify
from .dashboard import dashboard
from .deliveries import deliveries
from .demo import demo
from .dlq import dlq
from .dlq_change import discard, edit, export, import_
from .dlq_redrive import audit, plan, redrive, redrives
from .doctor import doctor
from .migrate import migrate
from .output import Unusable
from .pauses import pause, pauses, resume
from .policy import lint, policy
from .reconcile import reconcile
from .runbook import runbook
from .stats import stats

__all__ = ["app"]


class _App(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what the system does not let it read or write is told as it is."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # whoever read along has enough
        except OSError as error:
            raise Unusable(f"{error.filename or 'the output'} cannot be used: {error.strerror or error}") from None


@click.group(cls=_App, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="retrykit")
def app() -> None:
    """Decide what happens to work that failed.

    Exit codes: 0 success, 1 the command ran and its answer is no, 2 it was called wrongly or could not run.
    """


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes this command in a shell.

    For bash: put `eval "$(retrykit completion bash)"` into ~/.bashrc.
    """
    found = get_completion_class(shell)
    assert found is not None, "the choice holds shells that click knows"
    click.echo(found(app, {}, "retrykit", "_RETRYKIT_COMPLETE").source())


for command in (
    alerts,
    classify,
    dashboard,
    deliveries,
    demo,
    dlq,
    doctor,
    lint,
    migrate,
    pause,
    pauses,
    policy,
    reconcile,
    resume,
    runbook,
    stats,
):
    app.add_command(command)
for command in (audit, discard, edit, export, import_, plan, redrive, redrives):
    dlq.add_command(command)
