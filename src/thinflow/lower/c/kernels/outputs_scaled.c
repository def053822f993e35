#include "lanes_$isa.c"

/* Sums at the scale of the output by a float factor, rounded once, halves to the even number, without its zero point;
   first: factors. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    return lanes_nearest(lanes_times(lanes_float(sums), floats_at(q->first, n)));
}
