"""The demonstration: a scripted day of e-mail that fails in every way the library knows, and an audit of what became of it."""
