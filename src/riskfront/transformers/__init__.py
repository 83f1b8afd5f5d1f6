"""The adaptive Transformer: drops tokens, leaves early, skips attention heads, with thresholds chosen under guarantees.

    from riskfront.transformers import AdaptiveClassifier, accelerate

    accelerate("gte-small/", "ag_news.parquet", problem, "accelerated/")
    AdaptiveClassifier.from_pretrained("accelerated/").predict(["a text", "another"])

texts -> tokens -> training (fine_tuning, importance, head_training) -> network -> trace -> rf.tune -> classifier
"""

from riskfront.errors import MissingExtraError

try:
    import safetensors  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as error:
    raise MissingExtraError(str(error.name), "transformers") from error

from riskfront.transformers._accelerate import Plan, accelerate
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._cascade.accelerate_cascade import accelerate_cascade
from riskfront.transformers._cascade.cascade_classifier import CascadeClassifier
from riskfront.transformers._data.texts import Rows
from riskfront.transformers._deciding import accelerate_frontier, choose_limits
from riskfront.transformers._learning.exit_reading import HeadTraining
from riskfront.transformers._learning.fine_tuning import FineTuning
from riskfront.transformers._learning.training import Training
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._pruning.thresholds import Grid
from riskfront.transformers._text_pipeline import pipeline

__all__ = [
    "AdaptiveClassifier",
    "CascadeClassifier",
    "FineTuning",
    "Grid",
    "HeadTraining",
    "Plan",
    "PruningTrace",
    "Rows",
    "Training",
    "accelerate",
    "accelerate_cascade",
    "accelerate_frontier",
    "choose_limits",
    "pipeline",
]
