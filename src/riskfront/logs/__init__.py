"""Runs of other people's evaluation tools: what each model, prompt or quantisation scored on each example, and its price.

Every tool has a small module with the same two functions: ``files(path)`` finds its files, ``records(file)`` reads them, one
``Record`` an answer (``record``). ``read_runs`` gathers the records into ``runs``: settings x examples, repeated answers to
one example averaged. ``json_files`` reads JSON with errors that name the line.
"""
