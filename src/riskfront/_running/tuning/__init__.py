"""From a model to a certificate: search on planning examples, then test lazily along the plan.

``tune`` is the entry; ``opt_and_test_rows`` keeps the losses of both parts apart, ``search_loop`` asks a search for settings
and tells it what was found, ``recorded_uses`` records which question the testing examples answer, ``planned_losses`` evaluates
on testing examples only what a test asks for. ``adaptive`` races and stops early.
"""
