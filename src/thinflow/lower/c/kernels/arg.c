/* Where the $what of each row is along a dimension; the first one of those that are equal. */
static void $name(const ${c_type} *x, ${y_type} *y, int32_t outer, int32_t count, int32_t inner)
{
    for (int32_t o = 0; o < outer; o++, x += count * inner) {
        for (int32_t i = 0; i < inner; i++) {
            int32_t best = 0;
            for (int32_t k = 1; k < count; k++) {
                if (x[k * inner + i] $sign x[best * inner + i]) {
                    best = k;
                }
            }
            *y++ = best;
        }
    }
}
