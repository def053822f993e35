#include <math.h>

/* Logarithms of softmax of bytes, row by row. `exponentials` has exp(-difference). */
static void $name(const ${c_type} *x, ${c_type} *y, const float *exponentials, int32_t rows, int32_t depth, float scale,
                  float y_scale, int32_t zero_point)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        int32_t largest = x[0];
        float sum = 0, moved;
        for (int32_t i = 1; i < depth; i++) {
            largest = x[i] > largest ? x[i] : largest;
        }
        for (int32_t i = 0; i < depth; i++) {
            sum += exponentials[largest - x[i]];
        }
        moved = (scale * (float)largest + logf(sum)) / y_scale;
        for (int32_t i = 0; i < depth; i++) {
            const float real = scale / y_scale * (float)x[i] - moved;
            const int32_t value = (int32_t)nearbyintf(real) + zero_point;
            y[i] = (${c_type})(value < ${least} ? ${least} : value > ${least} + 255 ? ${least} + 255 : value);
        }
    }
}
