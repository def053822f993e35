#include "product_$by.c"

typedef struct {
    int32_t batches, rows, columns;         /* of the output */
    int32_t in_rows, in_row, in_step, in_bytes; /* of the input what windows reach: rows, bytes; and bytes to the next */
    int32_t border, pitch, filled, outside; /* of the panel, in elements: before the picture, from row to row, and with a border */
    int32_t row_step;                       /* from a row of windows to the next */
    int32_t window_bytes;                   /* of the weights of a register block */
    product_lanes_t product;
} ${name}_t;

/* The picture with its border in a panel, in which windows lie as they are; then $rest of them at a time. */
static void $name(const int8_t *x, int8_t *y, const int8_t *w, panel_t *panel, const ${name}_t *s)
{
    const int32_t filters = s->product.filters;
    for (int32_t b = 0; b < s->batches; b++, x += s->in_bytes) {
        panel_fill(panel, s->outside, s->filled);
        for (int32_t i = 0; i < s->in_rows; i++) {
            panel_copy(panel + s->border + i * s->pitch, x + i * s->in_step, s->in_row);
        }
        for (int32_t i = 0; i < s->rows; i++, y += s->columns * filters) {
            const int8_t *block = w;
            for (int32_t f = 0; f < filters; f += $blocks * LANES, block += s->window_bytes) {
                for (int32_t j = 0; j < s->columns; j += $rest) {
                    /* The last ones begin earlier, and are computed twice in part. */
                    const int32_t at = j + $rest > s->columns ? s->columns - $rest : j;
                    product_${by}_${halves}_${step}_${blocks}_${rest}(panel + i * s->row_step + at * $step, y + at * filters,
                                                                      block, f, &s->product);
                }
            }
        }
    }
}
