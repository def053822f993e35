/* Softmax of bytes, row by row. `exponentials` has exp(-difference). */
static void $name(const ${c_type} *x, ${c_type} *y, const float *exponentials, int32_t rows, int32_t depth, float scale,
                  int32_t zero_point)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        int32_t largest = x[0];
        float sum = 0, factor;
        for (int32_t i = 1; i < depth; i++) {
            largest = x[i] > largest ? x[i] : largest;
        }
        for (int32_t i = 0; i < depth; i++) {
            sum += exponentials[largest - x[i]];
        }
        factor = 1.0f / (sum * scale);
        for (int32_t i = 0; i < depth; i++) {
            const int32_t value = (int32_t)(exponentials[largest - x[i]] * factor + 0.5f) + zero_point;
            y[i] = (${c_type})(value < ${least} ? ${least} : value > ${least} + 255 ? ${least} + 255 : value);
        }
    }
}
