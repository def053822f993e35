/* Zeros above the highest bit that is set, of 32. */
static inline int32_t $name(uint32_t x)
{
#if defined(__GNUC__) && __SIZEOF_INT__ == 4
    return x == 0 ? 32 : __builtin_clz(x);
#else
    int32_t count = 32;
    for (; x != 0; x >>= 1) {
        count--;
    }
    return count;
#endif
}
