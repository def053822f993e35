#include "product_float_lanes.c"

typedef struct {
    int32_t rows, depth, filters;
    float min, max;
} ${name}_t;

/* Every row times every filter, $rest rows at a time: a fully connected layer, or a convolution of one pixel. */
static void $name(const float *x, float *y, const float *w, const float *bias, const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row += $rest) {
        /* The last ones begin earlier, and are computed twice in part. */
        const int32_t first = row + $rest > s->rows ? s->rows - $rest : row;
        product_float_lanes_${blocks}_${rest}(x + first * s->depth, y + first * s->filters, w, bias, s->depth, s->filters,
                                              s->min, s->max);
    }
}
