"""Watch a deployed setting: one e-process for each limit and group, fed with outcomes as they come.

``monitor`` is the public object; ``promise`` has what is declared beforehand. ``watched_limit`` turns columns of outcomes into
numbers to bet on, ``accounts`` knows what did not count, ``detector`` holds the evidence about one limit in one group,
``input_change`` the warning about inputs. ``outcome_files`` reads where the last run ended and writes a state that survives
being killed. ``words`` says what was found.
"""
