#include "product_$by.c"

typedef struct {
    int32_t rows;         /* of the input and the output */
    int32_t window_bytes; /* of the weights of a register block */
    product_lanes_t product;
} ${name}_t;

/* Pixels of the input where they lie, each a window; $rest of them at a time. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, const ${name}_t *s)
{
    const int32_t filters = s->product.filters;
    for (int32_t f = 0; f < filters; f += $blocks * LANES, w += s->window_bytes) {
        for (int32_t j = 0; j < s->rows; j += $rest) {
            /* The last ones begin earlier, and are computed twice in part. */
            const int32_t at = j + $rest > s->rows ? s->rows - $rest : j;
            product_${by}_${halves}_${step}_${blocks}_${rest}(x + at * $step, y + at * filters, w, f, &s->product);
        }
    }
}
