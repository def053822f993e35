#include "requantize_$rounding.c"
#include "broadcast.c"

typedef struct {
    broadcast_t shape;
    int32_t a_zero_point, b_zero_point;
    requantize_${rounding}_t output;
} ${name}_t;

/* Products of two inputs, at the scale of the output. */
static void $name(const ${c_type} *a, const ${c_type} *b, ${c_type} *y, const ${name}_t *s)
{
    const broadcast_t *t = &s->shape;
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const ${c_type} *a_run = a + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const ${c_type} *b_run = b + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const int32_t product =
                        (a_run[l * t->a_step[3]] - s->a_zero_point) * (b_run[l * t->b_step[3]] - s->b_zero_point);
                    *y++ = (${c_type})requantize_$rounding(product, &s->output, 0);
                }
            }
        }
    }
}
