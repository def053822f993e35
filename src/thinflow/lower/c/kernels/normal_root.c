/* The root of a number with one of its two highest bits set; one too large at most. The upper half of the bits one by one, the
   lower half by a division. */
static inline uint32_t $name(uint64_t x)
{
    uint32_t rest = (uint32_t)(x >> 32), root = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 2) {
        const uint32_t with = root + bit;
        root >>= 1;
        if (rest >= with) {
            rest -= with;
            root += bit;
        }
    }
    const uint32_t more = ((rest << 15) | (uint32_t)((x >> 17) & 0x7fff)) / root;
    return (root << 16) + (more > 0xffff ? 0xffff : more);
}
