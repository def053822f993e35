/* How many of the boundaries are not above each number. */
static void $name(const ${c_type} *x, int32_t *y, const float *boundaries, int32_t ends, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t first = 0, end = ends;
        while (first < end) {
            const int32_t middle = (first + end) / 2;
            if ((float)x[i] < boundaries[middle]) {
                end = middle;
            } else {
                first = middle + 1;
            }
        }
        y[i] = first;
    }
}
