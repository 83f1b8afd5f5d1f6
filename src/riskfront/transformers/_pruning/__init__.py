"""The adaptive network at a setting: what it computes, what that costs, and every outcome at every threshold.

``thresholds`` says what can be chosen, ``network`` what is run at one setting, ``cost`` and ``latency`` what it costs.
``pruning_trace`` finds the outcomes of all settings from few passes, for calibration. What runs and what was traced must agree.
"""
