"""What the user wants: ``limits`` that must hold together, ``objectives`` to make as good as possible, and the
``problem`` they make up.

Outside, import ``Limit``, ``Objective`` and ``Problem``. A problem knows names, numbers and delta; it never sees
data.
"""
