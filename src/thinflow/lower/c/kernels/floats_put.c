#include "lanes_$isa.c"

/* Sums with their bias, held between two numbers; of the last channels as many as there are. */
static inline void $name(float *y, floats_t sums, const float *bias, int32_t count, float min, float max)
{
    /* The bias last, as in LiteRT: in another order the last bit is another. */
    const floats_t whole = lanes_line(floats_all(1.0f), sums, floats_at(bias, 0));
    const floats_t held = floats_held(whole, floats_all(min), floats_all(max));
    if (count >= LANES) {
        memcpy(y, &held, sizeof held);
    } else if (count > 0) {
        memcpy(y, &held, (size_t)count * sizeof *y);
    }
}
