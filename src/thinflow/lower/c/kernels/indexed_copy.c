typedef struct {
    int32_t count[4]; /* along each dimension of the output */
    const int32_t *start_0, *start_1, *start_2, *start_3; /* bytes of the input for each of them, which are added up */
    int32_t run_bytes;
} ${name}_t;

/* Runs of bytes, the places of which are in tables. */
static void $name(const void *x, void *y, const ${name}_t *s)
{
    const uint8_t *from = x;
    uint8_t *to = y;
    for (int32_t i = 0; i < s->count[0]; i++) {
        for (int32_t j = 0; j < s->count[1]; j++) {
            for (int32_t k = 0; k < s->count[2]; k++) {
                const int32_t at = s->start_0[i] + s->start_1[j] + s->start_2[k];
                for (int32_t l = 0; l < s->count[3]; l++, to += s->run_bytes) {
                    memcpy(to, from + at + s->start_3[l], (size_t)s->run_bytes);
                }
            }
        }
    }
}
