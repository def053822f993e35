#include "lanes_$isa.c"

/* Sums at the scale of the output by two lines in float; first: slopes, second: offsets, third: those of negative sums. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    const floats_t offset = lanes_by_sign(sums, floats_at(q->second, n), floats_at(q->third, n));
    return lanes_nearest(lanes_line(lanes_float(sums), floats_at(q->first, n), offset));
}
