/* A function of 16 bits by a table of every 128th, with straight lines between. */
static void $name(const int16_t *x, int16_t *y, const int16_t *table, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const int32_t at = x[i] + 32768;
        const int16_t *entry = table + (at >> 7);
        const int16_t slope = (int16_t)(entry[1] - entry[0]);
        y[i] = (int16_t)(entry[0] + ((slope * (at & 127) + 64) >> 7));
    }
}
