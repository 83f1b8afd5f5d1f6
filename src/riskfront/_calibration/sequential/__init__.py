"""Testing while outcomes come: racing on planning examples, e-processes along a path, certificates that hold at any time.

told.py          what is known so far, in chunks of examples that are fixed beforehand
racing.py        how likely a setting is to pass, and which settings are worth more planning examples
path_test.py     early acceptance and giving up along a path of settings
course.py        all of it in order: what is to be evaluated next, and the certificate so far
"""
