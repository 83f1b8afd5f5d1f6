"""What one part of the data says about every setting: risks, p-values and free objectives of a problem.

A table and a problem go in; ``Evidence`` answers for some or all settings. Methods ask it about opt data, testing
about test data.
"""
