"""One small adapter for each family of encoders: where its parts are, and how its tokens look at each other.

To add a family: a file with a subclass of `Family` that overrides what differs, and a line here. A model is accepted
only when what is computed layer by layer on packed tokens is what the model itself computes (`check`).
"""

from riskfront.transformers._backbones.albert import Albert
from riskfront.transformers._backbones.bert import Bert, Electra, Roberta
from riskfront.transformers._backbones.deberta import DebertaV2
from riskfront.transformers._backbones.distilbert import DistilBert
from riskfront.transformers._backbones.family import Extras, Family, UnsupportedError
from riskfront.transformers._backbones.layer import Layer, Packed
from riskfront.transformers._backbones.modernbert import ModernBert
from riskfront.transformers._backbones.mpnet import MPNet

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
