#include "product_float.c"

typedef struct {
    int32_t rows, depth, filters;
    float min, max;
} ${name}_t;

/* Every row times every filter: a fully connected layer, or a convolution of one pixel. */
static void $name(const float *x, float *y, const float *w, const float *bias, const ${name}_t *s)
{
    product_float(x, y, w, bias, s->rows, s->depth, 0, s->filters, s->filters, s->min, s->max);
}
