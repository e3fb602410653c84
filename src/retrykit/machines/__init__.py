"""State machines as tables and pure functions of (state, event, now): no clock, no lock, no I/O inside."""
