#include "lanes_$isa.c"

/* Sums at the scale of the output, rounded once, halves upwards; first: multipliers, second: shifts, to the right below 0. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    const lanes_t high = lanes_doubled(sums, lanes_at((const int32_t *)q->first + n));
    return lanes_moved(high, lanes_at((const int32_t *)q->second + n));
}
