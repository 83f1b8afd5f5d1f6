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

from riskfront.transformers.acceleration import accelerate, certify, read_parts
from riskfront.transformers.backbones.backbone import Backbone, load_classifier
from riskfront.transformers.cascade.acceleration import accelerate_cascade, certify_cascade
from riskfront.transformers.cascade.classifier import CascadeClassifier
from riskfront.transformers.cascade.trace import CascadeSetting, CascadeTrace
from riskfront.transformers.classifier import AdaptiveClassifier
from riskfront.transformers.data.fresh import FreshTexts, fresh_texts
from riskfront.transformers.data.learnt import Learnt
from riskfront.transformers.data.texts import LabelledTexts, TextParts, labelled_texts, read_texts, split_texts
from riskfront.transformers.data.tokens import Tokens, tokenize
from riskfront.transformers.exits.layout import Layout
from riskfront.transformers.gain import Gain
from riskfront.transformers.learning.exit_reading import Pruner
from riskfront.transformers.learning.fine_tuning import FineTuning, fine_tune
from riskfront.transformers.learning.head_options import HeadTraining
from riskfront.transformers.learning.head_training import train_exit_heads, train_token_predictors
from riskfront.transformers.learning.importance import head_importance, token_importance
from riskfront.transformers.learning.training import Trained, Training, train
from riskfront.transformers.plan import Grid, Plan, Rows
from riskfront.transformers.pruning.network import Network
from riskfront.transformers.pruning.runtime import Answers
from riskfront.transformers.pruning.setting import Setting
from riskfront.transformers.pruning.thresholds import Thresholds, make_thresholds
from riskfront.transformers.pruning.trace import PruningTrace
from riskfront.transformers.text_pipeline import AdaptivePipeline, pipeline

__all__ = [
    "AdaptiveClassifier",
    "AdaptivePipeline",
    "Answers",
    "Backbone",
    "CascadeClassifier",
    "CascadeSetting",
    "CascadeTrace",
    "FineTuning",
    "FreshTexts",
    "Gain",
    "Grid",
    "HeadTraining",
    "LabelledTexts",
    "Layout",
    "Learnt",
    "Network",
    "Plan",
    "Pruner",
    "PruningTrace",
    "Rows",
    "Setting",
    "TextParts",
    "Thresholds",
    "Tokens",
    "Trained",
    "Training",
    "accelerate",
    "accelerate_cascade",
    "certify",
    "certify_cascade",
    "fine_tune",
    "fresh_texts",
    "head_importance",
    "labelled_texts",
    "load_classifier",
    "make_thresholds",
    "pipeline",
    "read_parts",
    "read_texts",
    "split_texts",
    "token_importance",
    "tokenize",
    "train",
    "train_exit_heads",
    "train_token_predictors",
]
