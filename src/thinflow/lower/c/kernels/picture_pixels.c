#include "picture_steps.c"

typedef struct {
    int32_t count, channels;
    picture_steps_${type}_${op}_t steps;
} ${name}_t;

/* Bytes as the numbers that a network takes. */
static void $name(const ${c_type} *x, $y_type *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count; i += s->channels) {
        for (int32_t c = 0; c < s->channels; c++) {
            const float value = picture_steps_${type}_${op}_read(x[i + c], c, &s->steps);
            y[i + c] = picture_steps_${type}_${op}_made(value, c, &s->steps);
        }
    }
}
