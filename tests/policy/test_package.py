"""The package `retrykit.policy`: its names, and what importing it loads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from retrykit import policy


@pytest.mark.parametrize("name", policy.__all__)
def test_public_name_is_there(name):
    """Whether it is loaded at once or on first use."""
    assert getattr(policy, name).__module__.startswith("retrykit.policy") or name == "EMAIL_MATRIX"


def test_unknown_name_is_an_attribute_error():
    """As of any module."""
    with pytest.raises(AttributeError) as caught:
        _ = policy.LETTER_MATRIX
    assert str(caught.value) == "module 'retrykit.policy' has no attribute 'LETTER_MATRIX'"


def test_import_of_the_backoffs_alone_does_not_load_the_matrix():
    """Who only waits needs no table of classes."""
    program = """if True:
        import json, sys
        from retrykit.policy import exponential
        before = "retrykit.policy.matrix" in sys.modules
        from retrykit.policy import EMAIL_MATRIX
        print(json.dumps([before, "retrykit.policy.matrix" in sys.modules]))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert json.loads(done.stdout) == [False, True]
