"""Running the user's function: settings x examples -> losses, in parallel, into memory or a store.

``evaluation`` (evaluate) is the door. ``examples`` takes parts of whatever examples are kept in, ``workers`` calls
the function through joblib (processes, Dask, Ray), ``broadcast`` brings function and examples to each worker once,
``outcome`` checks what came back, ``failing_examples`` finds the examples on which the function fails, ``retries``
keeps what lost workers had, ``rows`` holds evaluated settings, ``failures`` says what went wrong.
"""
