typedef struct {
    int32_t count[4], condition_step[4], a_step[4], b_step[4];
} ${name}_t;

/* Elements of the one input or the other. */
static void $name(const bool *condition, const ${c_type} *a, const ${c_type} *b, ${c_type} *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count[0]; i++) {
        for (int32_t j = 0; j < s->count[1]; j++) {
            for (int32_t k = 0; k < s->count[2]; k++) {
                for (int32_t l = 0; l < s->count[3]; l++) {
                    const int32_t at = i * s->condition_step[0] + j * s->condition_step[1] + k * s->condition_step[2];
                    *y++ = condition[at + l * s->condition_step[3]]
                               ? a[i * s->a_step[0] + j * s->a_step[1] + k * s->a_step[2] + l * s->a_step[3]]
                               : b[i * s->b_step[0] + j * s->b_step[1] + k * s->b_step[2] + l * s->b_step[3]];
                }
            }
        }
    }
}
