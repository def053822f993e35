#include "scale_twice.c"
#include "broadcast.c"

typedef struct {
    broadcast_t shape;
    int32_t a_zero_point, b_zero_point, y_zero_point;
    int32_t a_multiplier, a_shift, b_multiplier, b_shift, y_multiplier, y_shift;
    int32_t min, max;
} ${name}_t;

/* Both inputs at a common scale with 20 bits to spare, their sum at that of the output. */
static void $name(const ${c_type} *a, const ${c_type} *b, ${c_type} *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const ${c_type} *a_run = a + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const ${c_type} *b_run = b + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const int32_t a_real = (a_run[l * t->a_step[3]] - s->a_zero_point) * (1 << 20);
                    const int32_t b_real = (b_run[l * t->b_step[3]] - s->b_zero_point) * (1 << 20);
                    const int32_t sum = scale_twice(a_real, s->a_multiplier, s->a_shift) +
                                        scale_twice(b_real, s->b_multiplier, s->b_shift);
                    int32_t value = scale_twice(sum, s->y_multiplier, s->y_shift) + s->y_zero_point;
                    value = value < s->min ? s->min : value;
                    *y++ = (${c_type})(value > s->max ? s->max : value);
                }
            }
        }
    }
}
