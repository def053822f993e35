#include "doubled_high.c"
#include "leading_zeros.c"

/* x * 2^shift, or the end of the range that it leaves. */
static int32_t ${name}_up(int32_t x, int32_t shift)
{
    const int32_t most = INT32_MAX >> shift;
    return x > most ? INT32_MAX : x < -most - 1 ? INT32_MIN : x * (1 << shift);
}

/* 1 / sqrt(x) as a factor of 31 bits and a shift to the right, by five steps of Newton's iteration from 1. */
static int32_t ${name}_root(int32_t x, int32_t *shift)
{
    int32_t y = 1 << 28, pairs;
    if (x <= 1) {
        *shift = 0;
        return INT32_MAX;
    }
    *shift = 11;
    for (; x >= 1 << 29; x /= 4) {
        ++*shift;
    }
    pairs = (leading_zeros((uint32_t)x) - 1) / 2 - 1;
    *shift -= pairs;
    x = x * (1 << (2 * pairs)) >> 1;
    for (int32_t i = 0; i < 5; i++) {
        /* Three integer bits; a product of n of them has 3n, and is brought back to three. */
        const int32_t cube = ${name}_up(doubled_high(doubled_high(y, y), y), 6);
        const int32_t next = doubled_high((1 << 28) + (1 << 27), y) - doubled_high((x + 1) >> 1, cube);
        y = ${name}_up(next, 3);
    }
    y = doubled_high(y, 1518500250);
    if (*shift < 0) {
        y *= 1 << -*shift;
        *shift = 0;
    }
    return y;
}

/* Rows of bytes at the length of 1, with 7 bits behind the point. */
static void $name(const ${c_type} *x, ${c_type} *y, int32_t rows, int32_t depth, int32_t zero_point)
{
    for (int32_t row = 0; row < rows; row++, x += depth, y += depth) {
        int32_t sum = 0, shift, factor, left, right, mask;
        for (int32_t i = 0; i < depth; i++) {
            sum += (x[i] - zero_point) * (x[i] - zero_point);
        }
        factor = ${name}_root(sum, &shift);
        left = $is_signed && shift < 7 ? 7 - shift : 0;
        right = $is_signed ? left == 0 ? shift - 7 : 0 : shift;
        mask = (int32_t)((1u << right) - 1u);
        for (int32_t i = 0; i < depth; i++) {
            const int32_t value = (x[i] - zero_point) * ($is_signed ? 1 << left : 128);
            const int32_t high = doubled_high(value, factor);
            const int32_t found = (high >> right) + ((high & mask) > (mask >> 1) + (high < 0)) + $zero;
            y[i] = (${c_type})(found < $zero - 128 ? $zero - 128 : found > $zero + 127 ? $zero + 127 : found);
        }
    }
}
