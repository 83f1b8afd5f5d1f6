"""One small adapter for each family of encoders: where its parts are, and how its tokens look at each other.

To add a family: a file with a subclass of `Family` that overrides what differs, and a line here. A model is accepted
only when what is computed layer by layer on packed tokens is what the model itself computes (`check`).
"""

from riskfront.transformers.backbones.albert import Albert
from riskfront.transformers.backbones.bert import Bert, Electra, Roberta
from riskfront.transformers.backbones.deberta import DebertaV2
from riskfront.transformers.backbones.distilbert import DistilBert
from riskfront.transformers.backbones.family import Extras, Family, UnsupportedError
from riskfront.transformers.backbones.layer import Layer
from riskfront.transformers.backbones.modernbert import ModernBert
from riskfront.transformers.backbones.mpnet import MPNet
from riskfront.transformers.backbones.packed import Packed

FAMILIES: dict[str, type[Family]] = {  # by the model_type of Hugging Face
    "albert": Albert,
    "bert": Bert,
    "camembert": Roberta,
    "data2vec-text": Roberta,
    "deberta-v2": DebertaV2,
    "distilbert": DistilBert,
    "electra": Electra,
    "ernie": Bert,
    "modernbert": ModernBert,
    "mpnet": MPNet,
    "roberta": Roberta,
    "xlm-roberta": Roberta,
}
SUPPORTED = (
    "BERT (and MiniLM, gte, bge, e5), RoBERTa, XLM-R, CamemBERT, ELECTRA, ERNIE, DistilBERT, MPNet, ALBERT, DeBERTa-v2 and v3, "
    "ModernBERT"
)

__all__ = ["FAMILIES", "SUPPORTED", "Extras", "Family", "Layer", "Packed", "UnsupportedError"]
