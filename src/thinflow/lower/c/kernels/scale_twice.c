/* A number times multiplier * 2^(shift - 31), rounded twice: the doubled high half of a product, then a shift that takes
   halves away from zero. */
static int32_t $name(int32_t x, int32_t multiplier, int32_t shift)
{
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int64_t product = (int64_t)(int32_t)((uint32_t)x << left) * multiplier;
    const int32_t high = (int32_t)((product + (1 << 30)) >> 31);
    const int32_t mask = (int32_t)((1u << right) - 1u);
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0));
}
