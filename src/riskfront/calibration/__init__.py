"""Testing, and the certificate it ends in.

``calibration`` (calibrate, certify, frontier) splits, lets a method plan, and tests: ``decision`` walks along the
plan and chooses among what was certified. The result is a ``certificate``, with a ``diagnosis`` when nothing could be
certified; ``mixture`` shares time between certified settings. Data flow: table -> plan -> decision -> certificate.
"""
