"""The adaptive network at a setting: what it computes, what that costs, and every outcome at every threshold.

``setting`` and ``thresholds`` say what can be chosen, ``network`` what is run, ``cost`` and ``latency`` what it
costs. ``trace`` finds the outcomes of all settings from few ``passes``, for calibration; ``runtime`` runs one
setting, for use. Both must agree.
"""
