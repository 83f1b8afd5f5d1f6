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

from riskfront.transformers.acceleration import Grid, Plan, Rows, accelerate, certify, read_parts
from riskfront.transformers.backbone import Backbone, load_classifier
from riskfront.transformers.cascade import CascadeSetting, CascadeTrace
from riskfront.transformers.cascade_acceleration import accelerate_cascade, certify_cascade
from riskfront.transformers.cascade_classifier import CascadeClassifier
from riskfront.transformers.classifier import AdaptiveClassifier
from riskfront.transformers.execution.runtime import Answers
from riskfront.transformers.exits.layout import Layout
from riskfront.transformers.fine_tuning import FineTuning, fine_tune
from riskfront.transformers.fresh import FreshTexts, fresh_texts
from riskfront.transformers.gain import Gain
from riskfront.transformers.head_training import HeadTraining, train_exit_heads, train_token_predictors
from riskfront.transformers.importance import head_importance, token_importance
from riskfront.transformers.learnt import Learnt
from riskfront.transformers.network import Network
from riskfront.transformers.setting import Setting
from riskfront.transformers.text_pipeline import AdaptivePipeline, pipeline
from riskfront.transformers.texts import LabelledTexts, TextParts, labelled_texts, read_texts, split_texts
from riskfront.transformers.thresholds import Thresholds, make_thresholds
from riskfront.transformers.tokens import Tokens, tokenize
from riskfront.transformers.trace import PruningTrace
from riskfront.transformers.training import Trained, Training, train

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
