#include <math.h>

/* x less the logarithm of the sum of exp(x), row by row. */
static void $name(const float *x, float *y, int32_t rows, int32_t depth)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        float largest = x[0], sum = 0;
        for (int32_t i = 1; i < depth; i++) {
            largest = x[i] > largest ? x[i] : largest;
        }
        for (int32_t i = 0; i < depth; i++) {
            sum += expf(x[i] - largest);
        }
        const float least = logf(sum);
        for (int32_t i = 0; i < depth; i++) {
            y[i] = x[i] - largest - least;
        }
    }
}
