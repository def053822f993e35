#include "lanes_$isa.c"

/* Sums at the scale of the output, rounded twice, halves away from zero; as `outputs_up`. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    lanes_t high = lanes_high(sums, lanes_at((const int32_t *)q->first + n));
    high = lanes_down(lanes_add(high, lanes_all(64)), 7);
    high = lanes_add(high, lanes_down(high, 31));
    const lanes_t moved = lanes_add(high, lanes_at((const int32_t *)q->second + n));
    return lanes_right(moved, lanes_at((const int32_t *)q->third + n));
}
