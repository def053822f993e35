#include "lanes_$isa.c"

/* Sums at the scale of the output, rounded twice, halves away from zero; first: multipliers, second: shifts, to the right
   below 0, and none of them 0. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    const lanes_t high = lanes_doubled_nearest(sums, lanes_at((const int32_t *)q->first + n));
    return lanes_moved(lanes_less_if_negative(high), lanes_at((const int32_t *)q->second + n));
}
