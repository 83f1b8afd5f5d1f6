"""Watch a deployed setting: one e-process for each limit and group, fed with outcomes as they come.

``monitor`` is the public object; ``promise`` says how rare false alarms are, ``rules`` what a missing or unaudited outcome
counts as, ``certified`` what is taken from a certificate. ``columns`` and ``watched_limit`` turn columns of outcomes into
numbers to bet on, ``accounts`` knows what did not count, ``detector`` holds the evidence about one limit in one group,
``history`` a thinned record of it, ``input_change`` the warning about inputs. ``outcome_files`` and ``state_files`` are for the
command line: reading where the last run ended, and a state that survives being killed. ``words`` and ``prometheus`` say what
was found.
"""
