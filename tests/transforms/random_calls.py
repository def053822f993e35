"""Transforms to try on random graphs, with options."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from thinflow.rewrite.rule import options
from thinflow.transforms import find, names

OPTIONS = {
    "fake_quantize_training": [],  # always an error
    "merge_duplicate_nodes": ["", "(commutative=true)"],
    "obfuscate_names": ["", "(prefix=n)"],
    "quantize_weights": ["(minimum_size=8)", "(minimum_size=8, mode=SCALED)", "(minimum_size=8, axis=auto)"],
    "remove_attribute": ["(attribute_name=_note)"],
    "remove_control_dependencies": ["", "(keep_stateful=true)"],
    "remove_nodes": [
        "(op=Identity)",
        '(op="Identity|StopGradient")',
        "(op=IdentityN, max_inputs=-1, op=Identity)",
    ],
    "rename_attribute": ["(old_attribute_name=_note, new_attribute_name=_other)"],
    "rename_node": ["(old_node_name=node3, new_node_name=renamed, missing_ok=true)"],
    "rename_op": ["(old_op_name=StopGradient, new_op_name=Identity)"],
    "round_weights": ["(minimum_size=8)", "(num_steps=3, minimum_size=8)", "(minimum_size=8, clusters=true)"],
    "set_device": ['(device="/cpu:0")', '(device="/cpu:0", if_default=true)'],
    "sort_by_execution_order": ["", "(stable=true)"],
    "strip_unused_nodes": ["", "(keep_control=true)"],
    "target_runtime": ["(version=2.3)", "(version=1.15)"],
}
NEEDS_MORE = {
    "freeze_requantization_ranges",
    "insert_logging",
    "sparsify_gather",
}  # a log, a way to print, a checkpoint


def calls() -> st.SearchStrategy[str]:
    """Any transform that needs no files, with some of its options."""
    return st.sampled_from([name + text for name in names() for text in OPTIONS.get(name, _bare(name))])


def _bare(name: str) -> list[str]:
    """The transform without options, unless it cannot do without or needs files."""
    required = any(default is dataclasses.MISSING for _, default in options(find(name)).values())
    return [] if required or name in NEEDS_MORE else [""]
