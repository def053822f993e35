"""Runs a .tflite file as a device does: with LiteRT and numpy, without thinflow.

    python examples/run_tflite.py MODEL.tflite SAMPLES.npz

SAMPLES.npz has an array named like the model's input, samples along the first axis, and `labels` if known;
`thinflow sample digits digits.pb --test SAMPLES.npz` writes such a file.
"""

from __future__ import annotations

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter  # noqa: TID253 - the one package a device needs


def main(model: str, samples: str) -> None:
    interpreter = Interpreter(model, num_threads=2)
    interpreter.allocate_tensors()
    (image,), (answer,) = interpreter.get_input_details(), interpreter.get_output_details()
    with np.load(samples) as data:
        pictures = data[image["name"]].astype(np.float32)
        labels = data["labels"] if "labels" in data.files else None

    answers = []
    for picture in pictures:
        interpreter.set_tensor(image["index"], picture[None])
        interpreter.invoke()
        answers.append(interpreter.get_tensor(answer["index"])[0].argmax())

    print(
        f"{model}: {image['name']} {image['shape'].tolist()} -> {answer['name']} {answer['shape'].tolist()}"
    )
    print(f"first answers: {np.array(answers[:10]).tolist()}")
    if labels is not None:
        print(f"right: {np.sum(answers == labels)} of {len(answers)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
