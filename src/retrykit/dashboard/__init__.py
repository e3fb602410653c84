"""The dashboard: what the on-call engineer looks at, in a browser.

An ASGI application for `retrykit dashboard`, or mounted in your own. Needs the extra ``dashboard``.
"""

from ..errors import MissingExtraError

try:
    from .access import Authenticate, Operator, Role
    from .app import Dashboard
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("jinja2", "starlette"):
        raise
    raise MissingExtraError("dashboard", error.name or "starlette") from None

__all__ = ["Authenticate", "Dashboard", "Operator", "Role"]
