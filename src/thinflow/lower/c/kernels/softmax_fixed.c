/* The doubled high half of a product, halves upwards. */
static int32_t doubled_high(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* 1 / (1 + x) of 0 <= x < 1 in 31 bits, by Newton's iteration from 48/17 - 32/17 (1 + x) / 2. */
static int32_t reciprocal(int32_t x)
{
    const int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2);
    int32_t y = 1515870810 + doubled_high(half, -1010580540);
    for (int i = 0; i < 3; i++) {
        const int32_t rest = doubled_high(y, (1 << 29) - doubled_high(half, y));
        y += rest > (1 << 29) - 1 ? INT32_MAX : rest < -(1 << 29) ? INT32_MIN : rest * 4;
    }
    return y > (1 << 30) - 1 ? INT32_MAX : y * 2;
}

/* Softmax of bytes in fixed point, row by row. `exponentials` has exp(-difference) in 31 bits, 0 for what is too small. */
static void $name(const ${c_type} *x, ${c_type} *y, const int32_t *exponentials, int32_t rows, int32_t depth)
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
            const int32_t shift = 12 - leading + 31 - 8;
            const int32_t product = doubled_high(scale, e);
            const int32_t mask = (int32_t)((1u << shift) - 1u);
            const int32_t value = (product >> shift) + ((product & mask) > (mask >> 1)) + (${least});
            y[i] = (${c_type})(value > ${least} + 255 ? ${least} + 255 : value);
        }
    }
}
