"""Runs every example of the gallery and writes the page of the site that shows them, with their real output and pictures.

python examples/gallery.py
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
EXAMPLES = {
    "precision_and_recall": "Precision and recall",
    "selective_classification": "Selective classification",
    "cascade_of_models": "A cascade of models",
    "fair_thresholds": "Thresholds fair to groups",
    "early_exit": "Early exit",
    "llm_router": "A router of language models",
    "monitoring": "Monitoring",
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module: ModuleType, picture: Path) -> tuple[str, dict[str, object]]:
    """What an example prints and returns."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = module.main(picture)
    return out.getvalue(), found


def section(name: str, about: str, printed: str) -> str:
    """One example on the page: what it is, its picture, and what it prints."""
    first, *rest = [part.strip() for part in about.split("\n\n")]
    words = " ".join(part for part in rest if not part.startswith("python "))
    return f"""## {EXAMPLES[name]}

{first} {" ".join(words.split())}

![{EXAMPLES[name]}](assets/gallery/{name}.png)

```console
$ python examples/{name}.py
{printed.rstrip()}
```

"""


def main() -> None:
    pictures = DOCS / "assets" / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    text = (
        "# Gallery\n\nEach is one file in `examples/` that runs in seconds on data that ships with scikit-learn, and "
    )
    text += "ends in a picture. "
    text += "The page is written by `python examples/gallery.py`.\n\n"
    for name in EXAMPLES:
        module = load(name)
        printed, _ = run(module, pictures / f"{name}.png")
        text += section(name, module.__doc__ or "", printed)
    (DOCS / "gallery.md").write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
