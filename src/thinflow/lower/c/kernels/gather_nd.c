typedef struct {
    int32_t count, rank; /* of the places, and the numbers that each has */
    int32_t size[6], step[6]; /* along the dimensions that these name; bytes */
    int32_t run_bytes;
} ${name}_t;

/* Slices by several numbers each; one that does not exist counts as the nearest that does. */
static void $name(const void *x, const ${c_type} *places, void *y, const ${name}_t *s)
{
    uint8_t *to = y;
    for (int32_t i = 0; i < s->count; i++, to += s->run_bytes) {
        const uint8_t *from = x;
        for (int32_t k = 0; k < s->rank; k++) {
            const ${c_type} at = *places++;
            from += (at < 0 ? 0 : at >= s->size[k] ? s->size[k] - 1 : (int32_t)at) * s->step[k];
        }
        memcpy(to, from, (size_t)s->run_bytes);
    }
}
