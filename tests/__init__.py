"""The tests of retrykit; helpers are imported as `tests.<module>`."""
