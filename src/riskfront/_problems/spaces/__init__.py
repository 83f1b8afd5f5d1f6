"""The settings one may choose from: ``dimensions`` (Float, Int, Choice), the ``space`` they span, and full ``grid``s.

Outside, import ``Space``, ``Float``, ``Int``, ``Choice``, ``config_id`` and ``Grid``.
"""
