"""Running the user's function: settings x examples -> losses, in parallel, into memory or a store.

``evaluate`` is the entry. ``example_parts`` takes parts of whatever examples are kept in, ``workers`` calls the function
through joblib (processes, Dask, Ray), ``broadcast`` brings function and examples to each worker once, ``outcome`` checks what
came back and holds it, ``failing_examples`` finds the examples on which the function fails and says what went wrong.
"""
