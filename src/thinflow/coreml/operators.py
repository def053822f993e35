"""Which inputs of MIL's operators are operands, in their order; others say how it computes, and are constant.

MIL names inputs. A graph's node has operands by their place and attributes by their name; what is not listed
here has its inputs as operands, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Mapping

_WITH_X_ALONE = """
relu relu6 sigmoid silu softplus softsign softmax gelu elu leaky_relu linear_activation scaled_tanh
sigmoid_hard thresholded_relu clamped_relu softplus_parametric abs acos asin atan atanh ceil clip cos
cosh erf exp exp2 floor inverse log logical_not round rsqrt sign sin sinh sqrt square tan tanh threshold
cast upsample_nearest_neighbor resize_nearest_neighbor upsample_bilinear resize_bilinear crop l2_norm
local_response_norm avg_pool l2_pool max_pool reduce_argmax reduce_argmin reduce_l1_norm reduce_l2_norm
reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum
reduce_sum_square band_part cumsum non_zero pad argsort topk flatten2d shape split identity
depth_to_space expand_dims reverse space_to_depth space_to_batch batch_to_space squeeze transpose
pixel_shuffle pixel_unshuffle sliding_windows
"""
_WITH_X_AND_Y = """
add equal floor_div greater greater_equal less less_equal logical_and logical_or logical_xor maximum
minimum mod mul not_equal real_div pow sub matmul
"""
OPERANDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_WITH_X_ALONE.split(), ("x",)),
    **dict.fromkeys(_WITH_X_AND_Y.split(), ("x", "y")),
    "batch_norm": ("x", "mean", "variance", "gamma", "beta"),
    "classify": ("probabilities",),
    "concat": ("values",),
    "constexpr_affine_dequantize": ("quantized_data", "scale", "zero_point"),
    "constexpr_blockwise_shift_scale": ("data", "scale", "offset"),
    "constexpr_cast": ("source_val",),
    "constexpr_lut_to_dense": ("indices", "lut"),
    "conv": ("x", "weight", "bias"),
    "conv_transpose": ("x", "weight", "bias"),
    "dequantize": ("input", "scale", "zero_point"),
    "einsum": ("values",),
    "fill": ("shape", "value"),
    "gather": ("x", "indices"),
    "gather_along_axis": ("x", "indices"),
    "gather_nd": ("x", "indices"),
    "gru": ("x", "initial_h", "weight_ih", "weight_hh", "bias"),
    "instance_norm": ("x", "gamma", "beta"),
    "layer_norm": ("x", "gamma", "beta"),
    "linear": ("x", "weight", "bias"),
    "lstm": ("x", "initial_h", "initial_c", "weight_ih", "weight_hh", "bias", "peephole"),
    "one_hot": ("indices", "one_hot_vector_size", "on_value", "off_value"),
    "prelu": ("x", "alpha"),
    "quantize": ("input", "scale", "zero_point"),
    "range_1d": ("start", "end", "step"),
    "reshape": ("x", "shape"),
    "reverse_sequence": ("x", "lengths"),
    "scatter": ("data", "indices", "updates"),
    "scatter_along_axis": ("data", "indices", "updates"),
    "scatter_nd": ("data", "indices", "updates"),
    "select": ("cond", "a", "b"),
    "slice_by_index": ("x", "begin", "end"),
    "slice_by_size": ("x", "begin", "size"),
    "stack": ("values",),
    "tile": ("x", "reps"),
}
