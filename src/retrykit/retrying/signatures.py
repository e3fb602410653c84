"""Wrappers with the exact parameters of what they wrap.

Most of what a wrapper costs is packing its arguments into a tuple and a mapping, and unpacking them again. So a wrapper that is
written with `*args, **kwargs` is made once more, from its own source, with the parameters of the wrapped function in their
place. It is the same text otherwise, and debuggers and tracebacks show it; a wrong call is refused in the wrapped function's
name. Where that cannot be done (no source, a clash of names, a callable that is no function) the general wrapper stays.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable
from itertools import count
from types import CodeType, FunctionType
from typing import Final, ParamSpec, TypeVar, cast

__all__ = ["exact"]

P = ParamSpec("P")
R = TypeVar("R")

_PARAMETERS: Final = "(*args: P.args, **kwargs: P.kwargs) -> R:"
_ARGUMENTS: Final = "(*args, **kwargs)"
_numbers: Final = count(1)


def exact(call: Callable[P, R], fn: Callable[P, R]) -> Callable[P, R]:
    """Return a wrapper of `fn` that does what `call` does, with the parameters of `fn`.

    Args:
        call: a function made inside another one, whose parameters are exactly ``*args, **kwargs``.
        fn: what it wraps.
    """
    if type(fn) is not FunctionType or type(call) is not FunctionType or hasattr(fn, "__wrapped__"):
        return call
    parameters, arguments = _texts(fn.__code__, len(fn.__defaults__ or ()), frozenset(fn.__kwdefaults__ or ()))
    taken = {
        *call.__code__.co_varnames,
        *call.__code__.co_freevars,
        *call.__code__.co_names,
        *call.__code__.co_cellvars,
    }
    if taken.difference(("args", "kwargs")).intersection(_names(fn.__code__)):
        return call
    code = _code(call.__code__, parameters, arguments)
    if code is None:
        return call
    code = code.replace(co_name=fn.__code__.co_name, co_qualname=fn.__code__.co_qualname)
    names = {name: call.__globals__[name] for name in code.co_names if name in call.__globals__}
    held = {
        name: cell.cell_contents for name, cell in zip(call.__code__.co_freevars, call.__closure__ or (), strict=True)
    }
    made = FunctionType(code, {**names, **held, "__builtins__": call.__globals__["__builtins__"]}, fn.__name__)
    made.__defaults__, made.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    return cast("Callable[P, R]", functools.update_wrapper(made, fn))


def _names(code: CodeType) -> tuple[str, ...]:
    """Return the names of a function's parameters."""
    number = code.co_argcount + code.co_kwonlyargcount
    number += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:number]


def _texts(code: CodeType, defaults: int, named_defaults: frozenset[str]) -> tuple[str, str]:
    """Return the parameters of a function, and the arguments that hand them on."""
    names = list(_names(code))
    positional = names[: code.co_argcount]
    keyword = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    first_default = len(positional) - defaults
    parameters = [f"{name}=None" if place >= first_default else name for place, name in enumerate(positional)]
    arguments = list(positional)
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        name = rest.pop(0)
        parameters.append(f"*{name}")
        arguments.append(f"*{name}")
    elif keyword:
        parameters.append("*")
    parameters += [f"{name}=None" if name in named_defaults else name for name in keyword]
    arguments += [f"{name}={name}" for name in keyword]
    if rest:
        parameters.append(f"**{rest[0]}")
        arguments.append(f"**{rest[0]}")
    return ", ".join(parameters), ", ".join(arguments)


@functools.cache
def _source(code: CodeType) -> str | None:
    """Return the text of a general wrapper without its decorator, or None where there is none."""
    try:
        lines = inspect.getsource(code).splitlines()
    except (OSError, TypeError):
        return None
    text = textwrap.dedent("\n".join(line for line in lines if not line.lstrip().startswith("@")))
    return text if text.count(_PARAMETERS) == 1 and _ARGUMENTS in text else None


@functools.lru_cache(maxsize=1024)
def _code(general: CodeType, parameters: str, arguments: str) -> CodeType | None:
    """Return the code of a wrapper for all functions of the same parameters."""
    source = _source(general)
    if source is None:
        return None
    text = source.replace(_PARAMETERS, f"({parameters}):").replace(_ARGUMENTS, f"({arguments})")
    filename = f"<retrykit wrapper {next(_numbers)}: {parameters}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = compile(text, filename, "exec", flags=0, dont_inherit=True)
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))
