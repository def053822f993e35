#include "lanes_$isa.c"

typedef struct {
    int32_t count;
    float a_scale, b_scale, offset;
    int32_t min, max;
} ${name}_t;

/* Sums of bytes by two lines in float, which add up to LiteRT's answer for all pairs there are. */
static void $name(const int8_t *a, const int8_t *b, int8_t *y, const ${name}_t *s)
{
    const lanes_t least = lanes_all(s->min), most = lanes_all(s->max);
    const floats_t a_scale = floats_all(s->a_scale), b_scale = floats_all(s->b_scale), offset = floats_all(s->offset);
    for (int32_t i = 0; i < s->count; i += LANES) {
        const some_t some = lanes_some(s->count - i);
        const floats_t other = lanes_line(lanes_float(lanes_bytes(b + i, some)), b_scale, offset);
        const floats_t sum = lanes_line(lanes_float(lanes_bytes(a + i, some)), a_scale, other);
        lanes_put(y + i, lanes_held(lanes_nearest(sum), least, most), some);
    }
}
