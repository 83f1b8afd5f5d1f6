"""The folder of an accelerated classifier: its encoder stands one folder deeper, where nobody loads it by mistake.

`transformers.pipeline(model=folder)` would run the encoder alone: all layers, all tokens, no abstaining, and nothing would say
so. The config.json of the folder therefore names a type of model that transformers does not know, in words that say what to do.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from riskfront.errors import StoreError
from riskfront.runtime.files import write_text
from riskfront.transformers.backbones.backbone import quiet

ENCODER = "encoder"
MODEL_TYPE = (
    "adaptive classifier of riskfront: load it with riskfront.transformers.pipeline('text-classification', model=folder); "
    "the plain model, without what was certified, is in its folder '{encoder}'"
)
README = """# An adaptive text classifier

Certified by riskfront: it drops tokens, leaves early and skips attention heads at the thresholds of `certificate.json`.

```python
from riskfront.transformers import pipeline

classify = pipeline("text-classification", model="{folder}")
classify(["a text", "another"])
```

or `{kind}.from_pretrained("{folder}").predict([...])`, or on the command line
`riskfront transformers predict {folder} --data texts.csv`.

`{encoder}/` is the fine-tuned model alone, an ordinary Hugging Face model: `transformers.pipeline(model="{folder}/{encoder}")`
runs all of its layers on all tokens, which is slow, and not what was certified. On this folder itself transformers refuses.
"""


def save_encoder(model: Any, folder: Path) -> None:
    """The fine-tuned model, and what keeps others from running it for the whole."""
    must_be_free(folder)
    with quiet():
        model.save_pretrained(folder / ENCODER)
    write_guard(folder, "AdaptiveClassifier", ENCODER)


def encoder_of(model: str | os.PathLike[str]) -> str:
    """Of a folder of riskfront its encoder, which is a model to start from; any other folder or hub name as it is."""
    inner = Path(model) / ENCODER
    return str(inner) if (Path(model) / "adaptive.json").is_file() and inner.is_dir() else os.fspath(model)


def write_guard(folder: Path, kind: str, encoder: str) -> None:
    """What tells transformers, and people, that this folder is more than the model in `encoder`."""
    about = {"model_type": MODEL_TYPE.format(encoder=encoder)}
    write_text(folder / "config.json", json.dumps(about, indent=2) + "\n")
    write_text(folder / "README.md", README.format(folder=folder.name, kind=kind, encoder=encoder))


def must_be_free(folder: Path) -> None:
    """Refuse to write into the folder of another model: its config.json would be lost."""
    file = folder / "config.json"
    if file.is_file() and MODEL_TYPE.split(":")[0] not in file.read_text("utf-8"):
        raise StoreError(f"'{folder}' holds another model, which would be lost. Choose another folder.")
