"""Runs of other people's evaluation tools: what each model, prompt or quantisation scored on each example, and its price.

``read_runs`` finds the files of a tool (``tools``, one module each), which yield one ``Record`` an answer (``record``).
``gather`` makes ``runs`` of them: settings x examples. ``prices`` says what calls cost.
"""
