"""Pictures with matplotlib: ``riskfront.plots``. The values that are drawn come from functions that end in ``_data``."""

from riskfront._reporting.certificate_charts import (
    TestingPath,
    ThresholdCurves,
    TradeOff,
    path_data,
    threshold_data,
    tradeoff_data,
)
from riskfront._reporting.matplotlib_plots import (
    plot_cost_curves,
    plot_path,
    plot_risk_histogram,
    plot_sample_plan,
    plot_threshold,
    plot_tradeoff,
    plot_violations,
    plot_violins,
)
from riskfront._reporting.trial_charts import (
    CostCurves,
    Histogram,
    ViolationBars,
    Violins,
    cost_curves_data,
    risk_histogram_data,
    violation_bars_data,
    violins_data,
)

__all__ = [
    "CostCurves",
    "Histogram",
    "TestingPath",
    "ThresholdCurves",
    "TradeOff",
    "ViolationBars",
    "Violins",
    "cost_curves_data",
    "path_data",
    "plot_cost_curves",
    "plot_path",
    "plot_risk_histogram",
    "plot_sample_plan",
    "plot_threshold",
    "plot_tradeoff",
    "plot_violations",
    "plot_violins",
    "risk_histogram_data",
    "threshold_data",
    "tradeoff_data",
    "violation_bars_data",
    "violins_data",
]
