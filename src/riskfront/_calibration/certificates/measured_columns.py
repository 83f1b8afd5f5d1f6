"""The columns of what was measured for the chosen settings."""

COLUMNS = ("chosen", "limit", "group", "examples", "measured", "compared_with", "p_value", "tested_at", "test")
NO_TEST = "none"
