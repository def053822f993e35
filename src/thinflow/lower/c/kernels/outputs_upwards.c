#include "lanes_$isa.c"

/* As `outputs_twice`, where negative outputs do not matter. */
__attribute__((unused)) static lanes_t $name(lanes_t sums, const output_t *q, int32_t n)
{
    const lanes_t high = lanes_doubled_nearest(sums, lanes_at((const int32_t *)q->first + n));
    return lanes_moved(high, lanes_at((const int32_t *)q->second + n));
}
