#include "lanes_$isa.c"

/* Sums at the scale of the output by a line in float; first: slopes, second: offsets. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    return lanes_nearest(lanes_line(lanes_float(sums), floats_at(q->first, n), floats_at(q->second, n)));
}
