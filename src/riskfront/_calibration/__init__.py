"""Testing: from a table and a problem to a certificate.

``calibration`` (calibrate, certify) splits, lets a method plan, and tests: ``decision`` walks along the plan and chooses among
what was certified. ``measured`` says what the chosen settings lost, ``diagnosis`` why nothing could be certified,
``near_misses`` what nearly was; ``frontier`` does it for a list of limits, ``simultaneous`` or each by itself; ``unlabelled``
brings in examples without labels. Data flow: table -> plan -> decision -> certificate.
"""
