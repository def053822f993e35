#include "leading_zeros.c"

/* A parabola in the ten bits behind the highest of the noise: four numbers for each power of two, of which one is unused. */
static int16_t ${name}_gain(uint32_t noise, const int16_t *gains)
{
    if (noise <= 2) {
        return gains[noise];
    }
    const int32_t bits = 32 - leading_zeros(noise);
    const int16_t *const parabola = gains + 4 * bits - 6;
    const uint32_t place = (bits < 11 ? noise << (11 - bits) : noise >> (bits - 11)) & 0x3ff;
    const int32_t slope = ((parabola[2] * (int32_t)place) >> 5) + parabola[1] * 32;
    /* Wraps, as it does there. */
    const int64_t moved = (int32_t)((uint32_t)slope * place);
    return (int16_t)(((moved + (1 << 14)) >> 15) + parabola[0]);
}

/* Signals by the gain for their noise: squared where they are soft. gains [125] */
static void $name(const uint32_t *x, const uint32_t *noise, const int16_t *gains, uint32_t *y, int32_t count, int32_t shift)
{
    for (int32_t i = 0; i < count; i++) {
        const uint32_t gain = (uint32_t)${name}_gain(noise[i], gains);
        const uint32_t ratio = (uint32_t)(((uint64_t)x[i] * gain) >> shift);
        y[i] = ratio < 2u << 12 ? (ratio * ratio) >> 20 : (ratio >> 6) - (1u << 6);
    }
}
