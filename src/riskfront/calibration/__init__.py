"""Testing, and the certificate it ends in.

``calibration`` (calibrate, certify) splits, lets a method plan, and tests: ``decision`` walks along the
plan and chooses among what was certified. The result is a ``certificate``, with a ``diagnosis`` when nothing could be
certified, and ``near_misses`` when something was; ``frontier`` does it for a list of limits, ``simultaneous`` or each
by itself; ``mixture`` shares time between certified settings; ``looks`` and ``made_of`` record what was asked of which
examples. Data flow: table -> plan -> decision -> certificate.
"""
