/* Four bytes at a time as the halfwords that `product_dsp` multiplies: for x0 x1 x2 x3 the words (x1 - 127, x3 - 127) and
   (256 * x0 - (x1 - 127), 256 * x2 - (x3 - 127)), the second `step` words behind the first, the next two `2 * step`. */
static int32_t *$name(const int8_t *x, int32_t bytes, int32_t *column, int32_t step)
{
    const uint32_t offset = 0x007f007fu, high = 0xff00ff00u;
    for (const int8_t *const end = x + bytes; x < end; x += 4) {
        uint32_t four, odd, even;
        memcpy(&four, x, sizeof four);
        __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));
        __asm__("ssub16 %0, %1, %2" : "=r"(odd) : "r"(odd), "r"(offset));
        even = (four << 8) & high;
        __asm__("ssub16 %0, %1, %2" : "=r"(even) : "r"(even), "r"(odd));
        column[0] = (int32_t)odd;
        column[step] = (int32_t)even;
        column += 2 * step;
    }
    return column;
}
