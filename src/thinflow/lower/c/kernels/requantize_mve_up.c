/* Four sums at the scale of the output: with what is added to the high half of 256 times a product, halves go up. */
static int32x4_t $name(int32x4_t sums, const int32_t *factors)
{
    const int32x4_t high = vmulhq_s32(vshlq_n_s32(sums, 8), vldrwq_s32(factors));
    return vshlq_s32(vaddq_s32(high, vldrwq_s32(factors + 4)), vldrwq_s32(factors + 8));
}
