#include "leading_zeros.c"
#include "normal_root.c"

/* The nearest whole number to a root, but of 16 and of 32 bits no more than they hold. */
static uint32_t ${name}_of(uint64_t x)
{
    if (x == 0) {
        return 0;
    }
    const uint32_t upper = (uint32_t)(x >> 32);
    const int32_t shift = (upper != 0 ? leading_zeros(upper) : 32 + leading_zeros((uint32_t)x)) / 2;
    const uint64_t shifted = x << (2 * shift);
    uint32_t root = normal_root(shifted);
    root -= (uint64_t)root * root > shifted;
    root >>= shift;
    const uint32_t largest = x <= UINT32_MAX ? UINT16_MAX : UINT32_MAX;
    return root + (root != largest && x - (uint64_t)root * root > root);
}

/* Roots, so many bits less. */
static void $name(const uint64_t *x, const int32_t *bits, uint32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = ${name}_of(x[i]) >> (*bits & 31);
    }
}
