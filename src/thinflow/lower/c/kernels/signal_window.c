/* Samples times their window, so many bits less. x, y [rows,size] */
static void $name(const int16_t *x, const int16_t *window, int16_t *y, int32_t rows, int32_t size, int32_t shift)
{
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < size; i++) {
            const int32_t value = (*x++ * window[i]) >> shift;
            *y++ = (int16_t)(value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value);
        }
    }
}
