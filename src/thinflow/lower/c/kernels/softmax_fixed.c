#include "reciprocal.c"

/* Softmax of bytes in fixed point, row by row. `exponentials` has exp(-difference) in 31 bits, 0 for what is too small. */
static void $name(const ${c_type} *x, ${y_type} *y, const int32_t *exponentials, int32_t rows, int32_t depth)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        int32_t largest = x[0], sum = 0;
        uint32_t shifted;
        int32_t leading = 0, scale;
        for (int32_t i = 1; i < depth; i++) {
            largest = x[i] > largest ? x[i] : largest;
        }
        for (int32_t i = 0; i < depth; i++) {
            const int32_t e = exponentials[largest - x[i]];
            sum += (e >> 12) + ((e & 4095) > 2047);
        }
        for (shifted = (uint32_t)sum; shifted < 1u << 31; shifted <<= 1) {
            leading++;
        }
        scale = reciprocal((int32_t)(shifted - (1u << 31)));
        for (int32_t i = 0; i < depth; i++) {
            const int32_t e = exponentials[largest - x[i]];
            const int32_t shift = 12 - leading + 31 - $bits;
            const int32_t product = doubled_high(scale, e);
            const int32_t mask = (int32_t)((1u << shift) - 1u);
            const int32_t value = (product >> shift) + ((product & mask) > (mask >> 1)) + (${least});
            y[i] = (${y_type})(value > $most ? $most : value);
        }
    }
}
