"""The dashboard, as requests meet it."""
