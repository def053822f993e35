typedef struct {
    int32_t count, rows, row_bytes;
} ${name}_t;

/* Rows of a table by their keys, which are sorted; zeros for keys that it does not have, and for each whether it has. */
static void $name(const int32_t *wanted, const int32_t *keys, const void *table, void *y, uint8_t *hits, const ${name}_t *s)
{
    const uint8_t *from = table;
    uint8_t *to = y;
    for (int32_t i = 0; i < s->count; i++, to += s->row_bytes) {
        int32_t first = 0, end = s->rows;
        hits[i] = 0;
        memset(to, 0, (size_t)s->row_bytes);
        while (first < end) {
            const int32_t middle = (first + end) / 2;
            if (wanted[i] == keys[middle]) {
                memcpy(to, from + middle * s->row_bytes, (size_t)s->row_bytes);
                hits[i] = 1;
                break;
            }
            if (wanted[i] < keys[middle]) {
                end = middle;
            } else {
                first = middle + 1;
            }
        }
    }
}
