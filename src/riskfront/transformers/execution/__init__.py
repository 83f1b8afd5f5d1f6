"""Execution: texts through the adaptive network at one setting, what they did on the way, and what it takes here."""
