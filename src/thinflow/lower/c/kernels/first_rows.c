/* The first rows, as many as are wanted, and their number; zeros behind them. */
static void $name(const void *x, const ${c_type} *wanted, void *y, int32_t *rows, int32_t count, int32_t row_bytes)
{
    const ${c_type} n = *wanted < 0 ? $negative : *wanted;
    *rows = n < 0 ? 0 : n > count ? count : (int32_t)n;
    memcpy(y, x, (size_t)(*rows * row_bytes));
    memset((uint8_t *)y + *rows * row_bytes, 0, (size_t)((count - *rows) * row_bytes));
}
