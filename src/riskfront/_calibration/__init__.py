"""Testing: from a table and a problem to a certificate.

``calibrate`` splits, lets a method plan, and tests: ``decision`` goes along the plan and chooses among what was certified.
``measured`` says what the chosen settings lost, ``diagnosis`` why nothing could be certified and what nearly was; ``frontier``
does it for a list of limits, ``simultaneous`` or each by itself. Data flow: table -> plan -> decision -> certificate.
"""
