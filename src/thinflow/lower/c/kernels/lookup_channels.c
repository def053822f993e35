/* A function of bytes for each channel, by tables of all 256. */
static void $name(const void *x, void *y, const uint8_t *tables, int32_t count, int32_t channels)
{
    const uint8_t *from = x;
    uint8_t *to = y;
    for (int32_t i = 0; i < count; i += channels) {
        for (int32_t c = 0; c < channels; c++) {
            to[i + c] = tables[c * 256 + from[i + c]];
        }
    }
}
