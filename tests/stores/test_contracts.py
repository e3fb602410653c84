"""The contracts themselves: what a subclass has to write, and that both colours are one contract."""

from __future__ import annotations

import inspect

import pytest

from retrykit import stores
from retrykit.stores import AsyncClaimStore, ClaimStore

PAIRS = ["ClaimStore", "RetryStore", "DeadLetterStore", "DeliveryStore", "CircuitStore"]


def operations(cls):
    """Return the public operations that the class itself defines."""
    return {name: member for name, member in vars(cls).items() if callable(member) and not name.startswith("_")}


@pytest.mark.parametrize("name", PAIRS)
def test_colours_of_a_contract_have_the_same_operations(name):
    """Names, parameters, defaults and answers are equal; only the asynchronous ones are awaited."""
    sync, asynchronous = operations(getattr(stores, name)), operations(getattr(stores, f"Async{name}"))
    assert list(sync) == list(asynchronous)
    for operation, method in sync.items():
        twin = asynchronous[operation]
        assert inspect.signature(method) == inspect.signature(twin)
        assert (False, True) == (inspect.iscoroutinefunction(method), inspect.iscoroutinefunction(twin))
        assert method.__final__ is twin.__final__ is True


@pytest.mark.parametrize("name", PAIRS)
def test_colours_of_a_contract_need_the_same_primitives(name):
    """A subclass writes one primitive for each operation, and cannot be made without one of them."""
    contract, twin = getattr(stores, name), getattr(stores, f"Async{name}")
    assert contract.__abstractmethods__ == twin.__abstractmethods__
    assert {f"_{operation}" for operation in operations(contract)} == contract.__abstractmethods__
    for cls in (contract, twin):
        with pytest.raises(TypeError, match="abstract"):
            cls()


def test_subclass_of_an_application_gets_checked_arguments():
    """The public methods check and normalise; a primitive sees seconds and valid keys only."""
    seen = []

    class Own(ClaimStore):
        def _claim(self, *args):
            seen.append(args)
            return "claimed"

        def _get(self, key):
            raise KeyError(key)

        _claim_unknown = _begin_send = _settle = _confirm = _unsettled = None

    Own.__abstractmethods__ = frozenset()
    assert Own().claim("k", owner="me", lease="1m") == "claimed"
    assert [("k", None, "me", 60.0, stores.PoisonRule())] == seen
    with pytest.raises(KeyError, match="k"):
        Own().get("k")
    assert issubclass(AsyncClaimStore, AsyncClaimStore.__mro__[1])


def test_every_public_name_exists():
    """`__all__` is what the documentation shows."""
    assert sorted(stores.__all__) == sorted(name for name in stores.__all__ if hasattr(stores, name))
