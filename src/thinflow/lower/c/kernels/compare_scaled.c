#include "broadcast.c"
#include "scale_twice.c"

typedef struct {
    broadcast_t shape;
    int32_t a_zero_point, b_zero_point;
    int32_t a_multiplier, a_shift, b_multiplier, b_shift;
} ${name}_t;

/* Two inputs of scales of their own: eight bits are added, then both come to one scale. */
static void $name(const ${c_type} *a_input, const ${c_type} *b_input, bool *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const ${c_type} *a_run = a_input + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const ${c_type} *b_run = b_input + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const int32_t a =
                        scale_twice((a_run[l * t->a_step[3]] - s->a_zero_point) * 256, s->a_multiplier, s->a_shift);
                    const int32_t b =
                        scale_twice((b_run[l * t->b_step[3]] - s->b_zero_point) * 256, s->b_multiplier, s->b_shift);
                    *y++ = $expression;
                }
            }
        }
    }
}
