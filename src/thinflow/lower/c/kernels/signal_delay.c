/* The samples of so long ago, which are kept until then. x, y [rows,size], kept [rows,length] */
static void $name(const int16_t *x, int16_t *y, int16_t *kept, int32_t rows, int32_t size, int32_t length)
{
    const int32_t old = length < size ? length : size;
    for (int32_t row = 0; row < rows; row++, x += size, y += size, kept += length) {
        memcpy(y, kept, (size_t)old * sizeof *y);
        memcpy(y + old, x, (size_t)(size - old) * sizeof *y);
        memmove(kept, kept + old, (size_t)(length - old) * sizeof *y);
        memcpy(kept + length - old, x + size - old, (size_t)old * sizeof *y);
    }
}
