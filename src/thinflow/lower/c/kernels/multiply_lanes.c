#include "broadcast.c"
#include "lanes_$isa.c"

typedef struct {
    broadcast_t shape; /* along the last dimension both go step by step */
    float a_zero, b_zero, taken, scale, offset, below; /* the last of negative products */
    int32_t min, max;
} ${name}_t;

/* Products of bytes by lines in float, which are at LiteRT's answer for all products there are. */
static void $name(const int8_t *a, const int8_t *b, int8_t *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    const lanes_t least = lanes_all(s->min), most = lanes_all(s->max);
    const floats_t scale = floats_all(s->scale), offset = floats_all(s->offset), taken = floats_all(s->taken);
    const floats_t a_zero = floats_all(s->a_zero), b_zero = floats_all(s->b_zero), one = floats_all(1.0f);
    const floats_t below = floats_all(s->below);
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++, y += t->count[3]) {
                const int8_t *a_run = a + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const int8_t *b_run = b + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l += LANES) {
                    const some_t some = lanes_some(t->count[3] - l);
                    /* Exact: differences of bytes have nine bits, their products eighteen. */
                    const floats_t left = lanes_line(lanes_float(lanes_bytes(a_run + l, some)), one, a_zero);
                    const floats_t right = lanes_line(lanes_float(lanes_bytes(b_run + l, some)), one, b_zero);
                    const floats_t product = lanes_line(left, right, taken);
                    const floats_t from = lanes_by_sign(lanes_nearest(product), offset, below);
                    lanes_put(y + l, lanes_held(lanes_nearest(lanes_line(product, scale, from)), least, most), some);
                }
            }
        }
    }
}
