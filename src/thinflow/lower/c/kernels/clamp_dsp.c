/* Bytes held between two limits, four at a time. */
static void $name(int8_t *y, int32_t bytes, int32_t least, int32_t most)
{
    const uint32_t low = (uint32_t)(uint8_t)least * 0x01010101u, high = (uint32_t)(uint8_t)most * 0x01010101u;
    int32_t i = 0;
    for (; i + 4 <= bytes; i += 4) {
        uint32_t four;
        memcpy(&four, y + i, sizeof four);
        __asm__("ssub8 r12, %0, %1\n sel %0, %0, %1\n ssub8 r12, %2, %0\n sel %0, %0, %2"
                : "+r"(four) : "r"(low), "r"(high) : "r12", "cc");
        memcpy(y + i, &four, sizeof four);
    }
    for (; i < bytes; i++) {
        y[i] = (int8_t)(y[i] < least ? least : y[i] > most ? most : y[i]);
    }
}
