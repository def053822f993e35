#include "broadcast.c"
#include "scale_twice.c"

typedef struct {
    broadcast_t shape;
    int32_t a_zero_point, b_zero_point, y_zero_point;
    int32_t a_multiplier, a_shift, b_multiplier, b_shift, y_multiplier, y_shift;
} ${name}_t;

/* Both inputs at a common scale with 7 bits to spare, the square of their difference at that of the output. */
static void $name(const int8_t *a, const int8_t *b, int8_t *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const int8_t *a_run = a + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const int8_t *b_run = b + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const int32_t a_real = (a_run[l * t->a_step[3]] - s->a_zero_point) * (1 << 7);
                    const int32_t b_real = (b_run[l * t->b_step[3]] - s->b_zero_point) * (1 << 7);
                    const int32_t difference = scale_twice(a_real, s->a_multiplier, s->a_shift) -
                                               scale_twice(b_real, s->b_multiplier, s->b_shift);
                    const int32_t square = difference * difference;
                    const int32_t value = scale_twice(square, s->y_multiplier, s->y_shift) + s->y_zero_point;
                    *y++ = (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
                }
            }
        }
    }
}
