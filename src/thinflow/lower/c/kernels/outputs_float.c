#include "lanes_$isa.c"

/* Sums at the scale of the output by a float factor, rounded once, halves to the even number; first: factors. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    const lanes_t nearest = lanes_nearest(lanes_times(lanes_float(sums), floats_at(q->first, n)));
    return lanes_add(nearest, lanes_all(q->zero_point));
}
