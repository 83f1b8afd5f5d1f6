"""The p-values that need only the number of losses and their sum, by name."""

from riskfront.statistics._p_values import P_VALUES

OF_SUMS = {name: p_value.function for name, p_value in P_VALUES.items() if p_value.of_totals}
