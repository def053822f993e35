typedef struct {
    int32_t batches, outer, slices, count, run_bytes;
} ${name}_t;

/* Slices by number; one that does not exist counts as the nearest that does. */
static void $name(const void *x, const ${c_type} *indices, void *y, const ${name}_t *s)
{
    const uint8_t *from = x;
    uint8_t *to = y;
    for (int32_t b = 0; b < s->batches; b++, indices += s->count) {
        for (int32_t o = 0; o < s->outer; o++, from += s->slices * s->run_bytes) {
            for (int32_t i = 0; i < s->count; i++, to += s->run_bytes) {
                const ${c_type} index =
                    indices[i] < 0 ? 0 : indices[i] >= s->slices ? (${c_type})(s->slices - 1) : indices[i];
                memcpy(to, from + (int32_t)index * s->run_bytes, (size_t)s->run_bytes);
            }
        }
    }
}
