#include "lanes_$isa.c"

/* Sums at the scale of the output, halves upwards; first: multipliers, second: summands, third: shifts. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    const lanes_t high = lanes_high(sums, lanes_at((const int32_t *)q->first + n));
    const lanes_t moved = lanes_add(high, lanes_at((const int32_t *)q->second + n));
    return lanes_right(moved, lanes_at((const int32_t *)q->third + n));
}
