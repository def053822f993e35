/* The doubled high half of a product, halves upwards. */
static int32_t doubled_high(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}
