#include <math.h>

/* Rows of reals as bytes, with a scale and a zero point for each: symmetric around zero, or from the least to the largest. */
static void $name(const float *x, int8_t *y, float *scales, int32_t *zero_points, int32_t rows, int32_t depth, bool symmetric)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        float least = 0, most = 0;
        for (int32_t i = 0; i < depth; i++) {
            least = x[i] < least ? x[i] : least;
            most = x[i] > most ? x[i] : most;
        }
        scales[row] = 1;
        zero_points[row] = 0;
        if (!(most > least)) {
            memset(y, 0, (size_t)depth);
            continue;
        }
        float factor = 0;
        if (symmetric) {
            const float range = -least > most ? -least : most;
            scales[row] = range / 127.0f;
            factor = 127.0f / range;
        } else {
            /* The range is a float, as in LiteRT. */
            const float range = most - least;
            const double scale = (double)range / 255.0;
            const double from_least = -128.0 - (double)least / scale, from_most = 127.0 - (double)most / scale;
            /* The end whose zero point is off by less. */
            const double zero = 128.0 + fabs((double)least / scale) < 127.0 + fabs((double)most / scale) ? from_least : from_most;
            zero_points[row] = zero <= -128.0 ? -128 : zero >= 127.0 ? 127 : (int32_t)round(zero);
            scales[row] = (float)scale;
            factor = 1.0f / scales[row];
        }
        for (int32_t i = 0; i < depth; i++) {
            const int32_t value = zero_points[row] + (int32_t)roundf(x[i] * factor);
            const int32_t floor = symmetric ? -127 : -128;
            y[i] = (int8_t)(value < floor ? floor : value > 127 ? 127 : value);
        }
    }
}
