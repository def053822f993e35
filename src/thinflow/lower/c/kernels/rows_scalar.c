#include "product_scalar.c"

typedef struct {
    int32_t rows, depth, filters;
    requantize_high_t output;
} ${name}_t;

/* Rows of the input where they lie, $rest at a time, times all filters. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row += $rest) {
        /* The last ones begin earlier, and are computed twice in part. */
        const int32_t from = row + $rest > s->rows ? s->rows - $rest : row;
        product_scalar_${halves}_${blocks}_$rest(x + from * s->depth, y + from * s->filters, w, s->depth, s->filters, &s->output);
    }
}
