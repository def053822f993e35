#include "scale_twice.c"

typedef struct {
    int32_t count, multiplier, shift, below_multiplier, below_shift;
} ${name}_t;

/* Numbers of 16 bits at another scale, with a factor of their own where they are negative. */
static void $name(const int16_t *x, int16_t *y, const ${name}_t *s)
{
    for (int32_t i = 0; i < s->count; i++) {
        const int32_t sign = x[i] < 0 && s->below_multiplier < 0 ? -1 : 1;
        const int32_t value = x[i] >= 0 ? scale_twice(x[i], s->multiplier, s->shift)
                                        : sign * scale_twice(x[i], sign * s->below_multiplier, s->below_shift);
        y[i] = (int16_t)(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
    }
}
