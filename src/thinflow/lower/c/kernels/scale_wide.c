/* A number of 64 bits times multiplier * 2^(shift - 15), rounded once, halves upwards. */
static int32_t $name(int64_t x, int32_t multiplier, int32_t shift)
{
    return (int32_t)((x * multiplier + ((int64_t)1 << (14 - shift))) >> (15 - shift));
}
