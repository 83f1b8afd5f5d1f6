"""What testing ends in: the certificate, the sentences it can stand for, and what it knows of its examples.

``certificate`` is the result, saved as JSON and read back (``schema``, ``frames_in_json``; ``earlier_versions`` reads those of
before, and ``measured_columns`` names what was measured); ``verdict`` says it in words; ``choice`` picks among the chosen
settings and ``mixture`` shares time between them; ``looks`` lists what else was asked of the same examples, ``made_of`` knows
them again.
Data flow: calibration makes it, reporting and verification read it. It knows nothing of how it was made.
"""
