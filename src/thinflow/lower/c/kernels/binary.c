#include "broadcast.c"

/* Two inputs, element by element: $what. */
static void $name(const ${c_type} *a_input, const ${c_type} *b_input, ${y_type} *y, const broadcast_t *t)
{
    for (int32_t i = 0; i < t->count[0]; i++) {
        for (int32_t j = 0; j < t->count[1]; j++) {
            for (int32_t k = 0; k < t->count[2]; k++) {
                const ${c_type} *a_run = a_input + i * t->a_step[0] + j * t->a_step[1] + k * t->a_step[2];
                const ${c_type} *b_run = b_input + i * t->b_step[0] + j * t->b_step[1] + k * t->b_step[2];
                for (int32_t l = 0; l < t->count[3]; l++) {
                    const ${c_type} a = a_run[l * t->a_step[3]], b = b_run[l * t->b_step[3]];
                    *y++ = (${y_type})($expression);
                }
            }
        }
    }
}
