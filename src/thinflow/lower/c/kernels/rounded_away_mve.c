#include <arm_mve.h>

/* The first of two roundings, and what makes the second one take negative halves away from zero. */
__attribute__((unused)) static int32x4_t rounded_away_mve(int32x4_t high)
{
    high = vshrq_n_s32(vaddq_n_s32(high, 64), 7);
    return vaddq_s32(high, vshrq_n_s32(high, 31));
}
