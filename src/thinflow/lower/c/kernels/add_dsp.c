#include "clamp_dsp.c"
#include "requantize_dsp.c"

typedef struct {
    int32_t count;
    const int32_t *a, *b; /* 4 times what each byte is at the common scale, that of -128 first */
    int32_t multiplier, summand, shift;
    int32_t min, max;
} ${name}_t;

/* Sums of bytes, where nothing below the output's zero point is left. */
static void $name(const int8_t *a, const int8_t *b, int8_t *y, const ${name}_t *s)
{
    const int32_t *const a_values = s->a + 128, *const b_values = s->b + 128;
    const int32_t multiplier = s->multiplier, summand = s->summand, shift = s->shift;
    for (int32_t i = 0; i < s->count; i++) {
        int32_t sum = a_values[a[i]] + b_values[b[i]];
        __asm__(REQUANTIZE_up("%0", "%1", "%2", "%3", "")
                : "+r"(sum) : "r"(multiplier), "r"(summand), "r"(shift));
        y[i] = (int8_t)sum;
    }
    if (s->min > -128 || s->max < 127) {
        clamp_dsp(y, s->count, s->min, s->max);
    }
}
