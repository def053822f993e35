/* A sum times a factor, less than 1, rounded twice, the second time halves away from zero. */
static int32_t $name(int32_t sum, const int32_t *factor, int32_t min, int32_t max)
{
    const int32_t high = (int32_t)(((int64_t)(int32_t)((uint32_t)sum << 8) * factor[0]) >> 32);
    const int32_t once = (high + 64) >> 7;
    int32_t y = (once + (once >> 31) + factor[1]) >> factor[2];
    y = y < min ? min : y;
    return y > max ? max : y;
}
