/* Bytes without a sign moved down by 128, so that they have one. */
static void $name(const uint8_t *x, int8_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = (int8_t)(x[i] - 128);
    }
}
