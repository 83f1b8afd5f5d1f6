"""From a model to a certificate: search on planning examples, then test lazily along the plan.

``tuning`` (tune) is the door; ``opt_test_parts`` keeps the losses of both parts apart, ``search_loop`` asks a search
for settings, ``teller`` tells it what was found, ``run_record`` keeps what the first run into a store decided,
``planned_losses`` evaluates on testing examples only what a test asks for.
"""
