#include "scale_twice.c"

typedef struct {
    int32_t rows, depth;
    int32_t multiplier, shift;           /* a difference of 10 becomes 65535 */
    const int16_t *exponential, *inverse; /* [513]: exp of -10..0, and 1 / (1 + x) of 0..1, both in 15 bits */
} ${name}_t;

/* Between two entries of a table of 16 bits; `spread` is -32768..32767. */
static int32_t ${name}_between(const int16_t *table, int32_t spread)
{
    const int32_t entry = 256 + (spread >> 7);
    return table[entry] + (((table[entry + 1] - table[entry]) * (spread & 127) + 64) >> 7);
}

/* Softmax of 16 bits, row by row. e [depth] holds the exponentials of one. */
static void $name(const int16_t *x, int16_t *y, int16_t *e, const ${name}_t *s)
{
    for (int32_t row = 0; row < s->rows; row++, x += s->depth, y += s->depth) {
        int32_t largest = x[0], sum = 0, leading = 0;
        for (int32_t i = 1; i < s->depth; i++) {
            largest = x[i] > largest ? x[i] : largest;
        }
        for (int32_t i = 0; i < s->depth; i++) {
            int32_t spread = scale_twice(x[i] - largest, s->multiplier, s->shift) + 32767;
            spread = spread < -32768 ? -32768 : spread > 32767 ? 32767 : spread;
            e[i] = (int16_t)${name}_between(s->exponential, spread);
            sum += e[i];
        }
        for (uint32_t shifted = (uint32_t)sum; shifted < 1u << 31; shifted <<= 1) {
            leading++;
        }
        /* The sum as 1..2 in 16 bits behind the point; the table begins at 1. */
        int32_t spread = (int32_t)((((int64_t)sum << (leading > 0 ? leading - 1 : 0)) + (1 << 13)) >> 14) - 98304;
        spread = spread < -32768 ? -32768 : spread > 32767 ? 32767 : spread;
        const int32_t inverse = ${name}_between(s->inverse, spread);
        const int32_t right = 31 - leading;
        for (int32_t i = 0; i < s->depth; i++) {
            const int64_t value = ((int64_t)e[i] * inverse + ((int64_t)1 << (right - 1))) >> right;
            y[i] = (int16_t)(value < 0 ? 0 : value > 32767 ? 32767 : value);
        }
    }
}
