#include <math.h>

/* Rows of reals as bytes, with a scale and a zero point for each, from the least to the largest; by XNNPACK. */
static void $name(const float *x, int8_t *y, float *scales, int32_t *zero_points, int32_t rows, int32_t depth)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        float least = 0, most = 0;
        for (int32_t i = 0; i < depth; i++) {
            least = x[i] < least ? x[i] : least;
            most = x[i] > most ? x[i] : most;
        }
        const float factor = least == most ? 1.0f : 255.0f / (most - least);
        const float low = least * factor, high = most * factor;
        /* The end whose zero point is off by less. */
        float zero = (-128.0f + low) + (127.0f + high) > 0.0f ? -128.0f - low : 127.0f - high;
        zero = zero < -128.0f ? -128.0f : zero > 127.0f ? 127.0f : zero;
        zero_points[row] = (int32_t)rintf(zero);
        scales[row] = 1.0f / factor;
        for (int32_t i = 0; i < depth; i++) {
            const int32_t value = (int32_t)rintf(x[i] * factor) + zero_points[row];
            y[i] = (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
        }
    }
}
