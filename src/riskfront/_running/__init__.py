"""Running a model on settings x examples: ``evaluation`` calls it, ``tuning`` searches, plans and tests."""
