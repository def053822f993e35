#include "product_wide.c"
#include "requantize_$rounding.c"

typedef struct {
    int32_t rows, depth, filters;
    requantize_${rounding}_t output;
} ${name}_t;

/* Every row times every filter. */
static void $name(const int16_t *x, int16_t *y, const int8_t *w, const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row++, x += s->depth) {
        for (int32_t f = 0; f < s->filters; f++) {
            const int64_t sum = s->output.bias[f] + product_wide(x, w + f * s->depth, s->depth);
            *y++ = (int16_t)requantize_$rounding(${narrow}sum, &s->output, f);
        }
    }
}
