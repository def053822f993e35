/* re * re + im * im of bins from start to before end, 0 of the others. x [bins] complex */
static void $name(const int16_t *x, uint32_t *y, int32_t bins, int32_t start, int32_t end)
{
    for (int32_t i = 0; i < bins; i++, x += 2) {
        const int32_t re = x[0], im = x[1];
        y[i] = i >= start && i < end ? (uint32_t)(re * re) + (uint32_t)(im * im) : 0;
    }
}
