"""Errors of the library in the words of the command line."""

from __future__ import annotations

import re
from difflib import get_close_matches

__all__ = ["in_options", "nearest_option"]

# parameters that are options here
OPTIONS = {
    "batch_key": "--batch",
    "bases": "--color",
    "checkpoint": "--resume",
    "color": "--color",
    "covariates": "--covariate",
    "device": "--device",
    "end": "--to",
    "feature": "--feature",
    "features": "--feature",
    "grid": "--grid",
    "key": "--key",
    "layer": "--layer",
    "legend": "--legend",
    "length_scale": "--length-scale",
    "likelihood": "--likelihood",
    "max_iter": "--max-iter",
    "model": "--model",
    "n_components": "--n-components",
    "n_neighbors": "--neighbors",
    "new_batches": "--new-batch",
    "normalize": "--normalize",
    "random_state": "--seed",
    "root": "--root",
    "start": "--from",
    "use_rep": "--use-rep",
    "zoom": "--zoom",
}
# flags: True names them, and False is to leave them out
FLAGS = ("--new-batch", "--normalize")
# other words of Python, and what they are called here
PHRASES = (
    (r"hgplvm\.tl\.hgplvm\(adata[^)]*\)", "hgplvm fit"),
    (r"hgplvm\.tl\.(\w+)\(adata[^)]*\)", r"hgplvm.tl.\1 in Python"),
    (r"\b(?:hgplvm\.)?tl\.hgplvm\b", "hgplvm fit"),
    (r"[Tt]he 'adata' of \w+", "what is drawn"),
    (r"\badata\.(X|obsm?|varm?|var_names|obs_names|uns|raw|layers)\b", r"\1"),
)
# settings that a sentence advises, but not those of a user's own words, of files or of objects
SETTING = r"(\w+)=('[^']*'|\"[^\"]*\"|True|False|\d+(?:\.\d+)?)(?![\w/-]|\.\w)"
NO_ADVICE = re.compile(r"(\w\(|[,=./-]|, |--[\w-]+ |\w)$")


def in_options(text: str) -> str:
    """Return an error with options in place of parameters."""
    text = re.sub(r"[Tt]he '(\w+)' (?:parameter )?of [\w.]*\w(,?)", _parameter, text)
    text = re.sub(SETTING, _setting, text)
    text = re.sub(r"'(\w+)'(?= parameter)", _name, text)
    for pattern, words in PHRASES:
        text = re.sub(pattern, words, text)
    return text


def _parameter(match: re.Match[str]) -> str:
    option = OPTIONS.get(match[1])
    return match[0] if option is None else option + match[2]


def _name(match: re.Match[str]) -> str:
    return OPTIONS.get(match[1], match[0])


def _setting(match: re.Match[str]) -> str:
    option, value = OPTIONS.get(match[1]), match[2].strip("'\"")
    if option is None or NO_ADVICE.search(match.string[: match.start()]):
        return match[0]
    if option in FLAGS:
        return option if value == "True" else f"no {option}"
    return f"{option} {value}"


def nearest_option(wrong: str, known: list[str]) -> str | None:
    """Return the option that may have been meant, by its letters without the dashes."""
    bare = {option.lstrip("-"): option for option in known if option.startswith("--")}
    found = get_close_matches(wrong.lstrip("-"), list(bare), n=1, cutoff=0.65)
    return bare[found[0]] if found else None
