#include "leading_zeros.c"

/* The nearest whole number to a root, but of 16 and of 32 bits no more than they hold. */
static uint32_t ${name}_of(uint64_t x)
{
    if (x == 0) {
        return 0;
    }
    const uint32_t upper = (uint32_t)(x >> 32);
    const int32_t shift = (upper != 0 ? leading_zeros(upper) : 32 + leading_zeros((uint32_t)x)) / 2;
    const uint64_t shifted = x << (2 * shift);
    /* The upper half of the bits one by one, the lower half by a division, which makes it one too large at most. */
    uint32_t rest = (uint32_t)(shifted >> 32), root = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 2) {
        const uint32_t with = root + bit;
        root >>= 1;
        if (rest >= with) {
            rest -= with;
            root += bit;
        }
    }
    const uint32_t more = ((rest << 15) | (uint32_t)((shifted >> 17) & 0x7fff)) / root;
    root = (root << 16) + (more > 0xffff ? 0xffff : more);
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
