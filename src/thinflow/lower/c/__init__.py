"""Networks as plain C: LiteRT's operators, each a call of a kernel with everything known built in.

**Forms.** A form is a function in `operators/`, found by its decorator. It gets a `LayerBuilder` and the
operator, and says which kernels to call with what:

    @form("FULLY_CONNECTED", types="int8")
    def fully_connected(b: LayerBuilder, op: Operator) -> None:
        weights = b.array(1)
        b.macs(weights.size)
        settings = b.struct("", rows=1, depth=weights.shape[1], ...)
        b.call("fully_connected", b.input(0), b.output(), b.constant("weights", weights), settings,
               type="int8", rounding="once")

**Kernels.** A kernel is C text in `kernels/NAME.c`. `$type`, `$rounding` and the like in it stand for what
`call` names, and `$name` for the function's own name, which is NAME with these words behind it:
`fully_connected_int8_once`. A struct without a type is the function's name with `_t`, and its address is
passed. `#include "other.c"` puts another kernel in front, made for those of these words that it asks for;
`#include <math.h>` is collected. A kernel that no layer calls is not written.

**For one processor.** A form may need features of a processor. It is tried before those that need less, and
raises `NotHere` for a layer that it has nothing better for:

    @form("CONV_2D", types="int8", needs="dsp")
    def conv_2d_dsp(b: LayerBuilder, op: Operator) -> None:
        if b.rounding != "litert":
            raise NotHere
        packed = b.constant("filter", interleaved(b.array(1)))  # in the order the kernel reads them
        columns = b.scratch(4 * patch)  # bytes of the arena, while this layer runs
        b.call("conv_2d_dsp", b.input(0), b.output(), packed, columns, b.struct("", ...))

`processors.py` has the processors and their features. What a kernel is given is between it and its form.
`requantize.py` has what integer layers share: biases with the zero point of the input folded in, factors as
multipliers and shifts, limits of activations. `b.in_place(0)` says that the output may lie on input 0,
`b.same(0)` that it is input 0 in other sizes.

**In less memory.** `bands.py` tells how chains of layers run a few rows at a time, and `reach.py` which
operators can: a rule there says which rows of its inputs an operator makes a row of its output of. Forms see
an operator on fewer rows; `window` and `sides` take the option `pad_top` for the border above them.

**From program to text.** `convert.network` makes layers of operators, or refuses all that have no form at
once; `plan.py` finds places in the arena; `write.py` writes NAME.c, NAME.h and NAME_weights.c.
"""
