"""Contract suites for a p-value, a procedure, a method or a search of your own.

Each check runs what you wrote on cases that are made to break it, and raises an AssertionError that says what broke, with
numbers. riskfront's own tests run the same checks on every registered name.
"""

from riskfront.testing._methods import check_method
from riskfront.testing._p_values import check_p_value
from riskfront.testing._procedures import check_procedure
from riskfront.testing._searches import check_search

__all__ = ["check_method", "check_p_value", "check_procedure", "check_search"]
