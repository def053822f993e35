#include <math.h>

/* exp(beta x) over the sum of these, row by row. */
static void $name(const float *x, float *y, int32_t rows, int32_t depth, float beta)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        float largest = x[0], sum = 0;
        for (int32_t i = 1; i < depth; i++) {
            largest = x[i] > largest ? x[i] : largest;
        }
        for (int32_t i = 0; i < depth; i++) {
            y[i] = expf((x[i] - largest) * beta);
            sum += y[i];
        }
        for (int32_t i = 0; i < depth; i++) {
            y[i] /= sum;
        }
    }
}
