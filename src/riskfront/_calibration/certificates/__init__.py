"""What testing ends in: the certificate, the sentences it can stand for, and what it knows of its examples.

``certificate`` is the result, saved as JSON and read back; ``verdict`` says it in words; ``choice`` picks among the chosen
settings or shares time between them; ``uses_of_test_set`` lists what else was asked of the same examples, ``known_examples``
knows them again. Data flow: calibration makes it, reporting and verification read it. It knows nothing of how it was made.
"""
