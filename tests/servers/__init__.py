"""Servers for tests: started when a test first needs one, one for each test process, and ended with it."""
