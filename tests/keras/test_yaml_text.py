"""YAML texts of configs: what `to_yaml` wrote is read, and nothing else is followed."""

from __future__ import annotations

import contextlib
import math
import random

import pytest

from thinflow.errors import FormatError
from thinflow.keras.yaml_text import parse_yaml

TEXT = r"""
# Keras 2.0.8
backend: tensorflow
class_name: Model
config:
  layers:
  - class_name: InputLayer
    config:
      batch_input_shape: !!python/tuple [null, 28, 28]
      dtype: float32
    inbound_nodes: []
  - class_name: !!python/unicode 'Conv2D'
    config: &id001
      kernel_size: !!python/tuple
      - 3
      - -3
      bias_constraint: null
      epsilon: 1.0e-05
      use_bias: true
      kernel_initializer: {class_name: VarianceScaling, config: {scale: 1.0,
          seed: null}}
    inbound_nodes:
    - - - input_1
        - 0
        - 0
        - {}
  - *id001
  output_layers:
  - [dense_1, 0, 0]
keras_version: 2.0.8
'quoted': 'it''s'
escaped: "a\tb \
  \u00fc"
folded: one
  two

  three
'1': .inf
2: -.inf
"""


def test_what_to_yaml_writes() -> None:
    found = parse_yaml(TEXT, "net.yaml")
    assert isinstance(found, dict)
    conv = {
        "kernel_size": [3, -3],
        "bias_constraint": None,
        "epsilon": 1e-5,
        "use_bias": True,
        "kernel_initializer": {"class_name": "VarianceScaling", "config": {"scale": 1.0, "seed": None}},
    }
    first = {"batch_input_shape": [None, 28, 28], "dtype": "float32"}
    assert found == {
        "backend": "tensorflow",
        "class_name": "Model",
        "config": {
            "layers": [
                {"class_name": "InputLayer", "config": first, "inbound_nodes": []},
                {"class_name": "Conv2D", "config": conv, "inbound_nodes": [[["input_1", 0, 0, {}]]]},
                conv,
            ],
            "output_layers": [["dense_1", 0, 0]],
        },
        "keras_version": "2.0.8",
        "quoted": "it's",
        "escaped": "a\tb ü",
        "folded": "one two three",
        "1": math.inf,
        "2": -math.inf,
    }


@pytest.mark.parametrize("text", ["", "---\n", "--- null\n...\n", "~"])
def test_nothing(text: str) -> None:
    assert parse_yaml(text, "net.yaml") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "a: !!python/object/apply:os.system ['true']",
            "the tag !!python/object/apply:os.system makes an ob",
        ),
        ("a: !!python/name:os.system", "the tag !!python/name:os.system makes an object of Python"),
        ("!!python/object:a.B {}", "the tag !!python/object:a.B makes an object"),
        ("a: !!python/tuple 3", "the tag !!python/tuple stands at something else"),
        ("a: *b", "the alias 'b' stands for nothing"),
        ("a: &b [*b]", "the alias 'b' stands for nothing"),
        ("a: |\n  text", "'|' begins something that to_yaml does not write"),
        ("? a\n: b", "'?' begins something"),
        ("a: 1\na: 2", "the key 'a' stands there twice"),
        ("a: 'b", "a quote is not closed"),
        ('a: "\\q"', "the escape \\q is none"),
        ('a: "\\U00110000"', "the escape \\U00110000 is none"),
        ("a: [1, 2", "a ']' is missing"),
        ("a: {b 1}", "a ':' is missing"),
        ("a: 1\n  - 2\nb", "a ':' is missing"),
        ("- 1\nb", "something stands behind the end"),
        ("a:\n\t- 1", "a tab stands where spaces should"),
        ("[1]: 2", "something stands behind the end"),
        ("a: 1\n--- b", "a ':' is missing"),
        ("- " * 2000, "nested too deeply"),
        ("[" * 2000, "nested too deeply"),
    ],
)
def test_what_is_not_read(text: str, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_yaml(text, "net.yaml")
    assert problem in caught.value.problem
    assert "net.yaml, line " in caught.value.where
    assert "model.to_json()" in caught.value.hint


def test_aliases_that_stand_for_too_much() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(FormatError, match="stands for more than a config can hold"):
        parse_yaml("\n".join(lines), "net.yaml")


def test_damaged_texts() -> None:
    """Whatever is changed, what comes out is data or an error of ours."""
    rng = random.Random(3)
    for _ in range(2000):
        text = list(TEXT)
        for _ in range(rng.choice((1, 2, 8))):
            at = rng.randrange(len(text))
            text[at : at + rng.choice((0, 1, 5))] = rng.choice("-:[]{}'\"&*!| \n\t#,a")
        with contextlib.suppress(FormatError):
            parse_yaml("".join(text[: rng.randrange(1, len(text) + 1)]), "net.yaml")
