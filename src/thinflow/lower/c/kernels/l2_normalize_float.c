#include <math.h>

/* Rows of length 1. */
static void $name(const float *x, float *y, int32_t rows, int32_t depth)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        float sum = 0;
        for (int32_t i = 0; i < depth; i++) {
            sum += x[i] * x[i];
        }
        const float length = sqrtf(sum);
        const float divisor = length < 1e-6f ? 1e-6f : length;
        for (int32_t i = 0; i < depth; i++) {
            y[i] = x[i] / divisor;
        }
    }
}
