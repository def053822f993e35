typedef struct {
    int32_t outer, first, middle, second, run_bytes;
    int32_t time_first; /* whether the first of the two dimensions is time, or the second */
} ${name}_t;

/* The first elements of each row in the other direction. */
static void $name(const void *x, const ${c_type} *lengths, void *y, const ${name}_t *s)
{
    uint8_t *to = y;
    for (int32_t o = 0; o < s->outer; o++) {
        const uint8_t *from = (const uint8_t *)x + o * s->first * s->middle * s->second * s->run_bytes;
        for (int32_t i = 0; i < s->first; i++) {
            for (int32_t m = 0; m < s->middle; m++) {
                for (int32_t j = 0; j < s->second; j++, to += s->run_bytes) {
                    const int32_t length = (int32_t)lengths[s->time_first ? j : i];
                    const int32_t row = s->time_first && i < length ? length - 1 - i : i;
                    const int32_t column = !s->time_first && j < length ? length - 1 - j : j;
                    memcpy(to, from + ((row * s->middle + m) * s->second + column) * s->run_bytes, (size_t)s->run_bytes);
                }
            }
        }
    }
}
