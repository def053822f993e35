/* Zeros above the highest bit that is set, of 32. */
static int32_t $name(uint32_t x)
{
    int32_t count = 32;
    for (; x != 0; x >>= 1) {
        count--;
    }
    return count;
}
