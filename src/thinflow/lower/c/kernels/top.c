/* The largest of each row in order, and where they are; of those that are equal the first one comes first. */
static void $name(const ${c_type} *x, ${c_type} *values, ${y_type} *places, int32_t rows, int32_t depth, int32_t count)
{
    for (int32_t row = 0; row < rows; row++, x += depth, values += count, places += count) {
        int32_t found = 0;
        for (int32_t i = 0; i < depth; i++) {
            int32_t at = found;
            if (found == count && !(x[i] > values[count - 1])) {
                continue;
            }
            at = found < count ? found++ : count - 1;
            for (; at > 0 && x[i] > values[at - 1]; at--) {
                values[at] = values[at - 1];
                places[at] = places[at - 1];
            }
            values[at] = x[i];
            places[at] = (${y_type})i;
        }
    }
}
