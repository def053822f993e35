#include "leading_zeros.c"

/* Logarithms times a scale: by a table of log2(1 + f) - f at 129 places, and lines between. */
static void $name(const uint32_t *x, int16_t *y, int32_t count, uint32_t scale, int32_t shift, const int16_t *table)
{
    for (int32_t i = 0; i < count; i++) {
        const uint32_t number = x[i] << shift;
        y[i] = 0;
        if (number > 1) {
            const int32_t whole = 31 - leading_zeros(number);
            const uint32_t rest = number - (1u << whole);
            const int32_t place = (int32_t)(whole < 16 ? rest << (16 - whole) : rest >> (whole - 16));
            const int16_t *const at = table + (place >> 9);
            const int32_t between = ((at[1] - at[0]) * (place & 0x1ff)) >> 16;
            const int32_t base_2 = whole * (1 << 16) + place + at[0] + between;
            /* By the logarithm of 2. */
            const uint32_t natural = (uint32_t)(((uint64_t)45426 * (uint32_t)base_2 + (1 << 15)) >> 16);
            const uint32_t scaled = (scale * natural + (1 << 15)) >> 16;
            y[i] = (int16_t)(scaled < INT16_MAX ? scaled : INT16_MAX);
        }
    }
}
