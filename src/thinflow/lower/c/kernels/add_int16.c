#include "broadcast.c"
#include "scale_twice.c"

typedef struct {
    broadcast_t shape;
    int32_t a_multiplier, a_shift, b_multiplier, b_shift, y_multiplier, y_shift;
    int32_t min, max;
} ${name}_t;

/* Sums of two inputs, both first with 15 bits behind the point at one scale. */
static void $name(const int16_t *a, const int16_t *b, int16_t *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const int16_t *a_run = a + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const int16_t *b_run = b + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const int32_t first = scale_twice(a_run[l * t->a_step[3]] * 32768, s->a_multiplier, s->a_shift);
                    const int32_t second = scale_twice(b_run[l * t->b_step[3]] * 32768, s->b_multiplier, s->b_shift);
                    const int32_t sum = scale_twice(first $sign second, s->y_multiplier, s->y_shift);
                    *y++ = (int16_t)(sum < s->min ? s->min : sum > s->max ? s->max : sum);
                }
            }
        }
    }
}
