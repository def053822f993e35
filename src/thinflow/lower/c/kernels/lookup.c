/* Each byte by a table of all 256. */
static void $name(const void *x, void *y, const uint8_t *table, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        ((uint8_t *)y)[i] = table[((const uint8_t *)x)[i]];
    }
}
