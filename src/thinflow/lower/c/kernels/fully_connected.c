#include "product.c"

typedef struct {
    int32_t rows, depth, filters;
    int32_t w_zero_point;
    requantize_${rounding}_t output;
} ${name}_t;

/* Every row times every filter: a fully connected layer, or a convolution of one pixel. */
static void $name(const ${c_type} *x, ${c_type} *y, const int8_t *w, const ${name}_t *s)
{
    product_${type}_$rounding(x, y, w, s->rows, s->depth, 0, s->filters, s->filters, s->w_zero_point, &s->output);
}
