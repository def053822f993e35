#include "rounded_away_mve.c"

/* Four sums at the scale of the output, rounded twice: the doubled high half of a product, then halves away from zero. */
static int32x4_t $name(int32x4_t sums, const int32_t *factors)
{
    int32x4_t high = vmulhq_s32(vshlq_n_s32(sums, 8), vldrwq_s32(factors));
    high = rounded_away_mve(high);
    return vshlq_s32(vaddq_s32(high, vldrwq_s32(factors + 4)), vldrwq_s32(factors + 8));
}
