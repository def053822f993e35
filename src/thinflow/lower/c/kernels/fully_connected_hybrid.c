typedef struct {
    int32_t rows, depth, filters, step; /* step: 1 if there is a scale for each filter */
    const float *scales, *bias;
    const int32_t *sums; /* of the weights of each filter */
    float min, max;
} ${name}_t;

/* Every row times every filter: the products are integers. */
static void $name(const int8_t *x, const float *scales, const int32_t *zero_points, float *y, const int8_t *w,
                  const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row++, x += s->depth) {
        for (int32_t f = 0; f < s->filters; f++) {
            int32_t sum = -zero_points[row] * s->sums[f];
            for (int32_t k = 0; k < s->depth; k++) {
                sum += x[k] * w[f * s->depth + k];
            }
            const float value = s->bias[f] + (float)sum * (scales[row] * s->scales[f * s->step]);
            *y++ = value < s->min ? s->min : value > s->max ? s->max : value;
        }
    }
}
